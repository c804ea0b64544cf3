//! Turns the instruction table (`src/table/*.txt`) into static Rust.
//!
//! `row.rs` reads the notation, `emit.rs` writes the statics. A mistake in the table stops the build and
//! names the file and line.

mod emit;
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
    let directory = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?).join("src/table");
    println!("cargo::rerun-if-changed={}", directory.display());
    println!("cargo::rerun-if-changed=build");
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
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
    let out = Path::new(&env::var("OUT_DIR").map_err(|e| e.to_string())?).join("table.rs");
    fs::write(out, emit::rust(&table)?).map_err(|e| e.to_string())
}
