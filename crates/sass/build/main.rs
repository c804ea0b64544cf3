//! Turns the instruction table (`src/table/*.txt`) and the distances of the machine model
//! (`src/model/distances/*.txt`) into static Rust.
//!
//! `row.rs` reads the table's notation, `emit.rs` writes its statics; `distances.rs` does both for the model. A mistake
//! in a file stops the build and names the file and line.

mod distances;
mod emit;
#[path = "../src/model/ports.rs"]
mod ports;
mod row;

use std::path::{Path, PathBuf};
use std::{env, fs, process};

fn main() {
    if let Err(message) = run() {
        eprintln!("{message}");
        process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let variable = |name| env::var(name).map_err(|e| format!("{name}: {e}"));
    let source = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("src");
    let out = PathBuf::from(variable("OUT_DIR")?);
    for path in ["build", "src/table", "src/model/distances", "src/model/ports.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let write = |name, text: String| fs::write(out.join(name), text).map_err(|e| e.to_string());
    write("distances.rs", distances::rust(&source.join("model/distances"))?)?;
    write("table.rs", emit::rust(&table(&source.join("table"))?)?)
}

/// The instruction table: the enumerations first, which rows name.
fn table(directory: &Path) -> Result<row::Table, String> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .map_err(|e| e.to_string())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    let mut table = row::Table::default();
    let (enums, families): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|path| path.file_stem().is_some_and(|stem| stem == "enums"));
    for path in enums.iter().chain(&families) {
        let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("?");
        if enums.contains(path) { table.read_enums(name, &text)? } else { table.read_rows(name, &text)? }
    }
    Ok(table)
}
