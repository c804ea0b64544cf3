//! Turns the instruction table (`src/table/*.tab`) and the vocabulary into static Rust, so that the compiler starts
//! without reading them.
//!
//! `read.rs` reads lines, `table.rs` puts them together, `emit.rs` writes the statics. The types are the crate's own.
//! A mistake in the table stops the build and names the file and line.

mod emit;
mod read;
mod table;
mod words;

// What the crate shares with this script, which needs only a part of it.
#[allow(dead_code)]
#[path = "../src/table/form.rs"]
mod form;
#[allow(dead_code)]
#[path = "../src/target.rs"]
mod target;
#[allow(dead_code)]
#[path = "../src/types.rs"]
mod types;
#[allow(dead_code)]
#[path = "../src/words/vocabulary.rs"]
mod vocabulary;

use read::Line;
use std::path::Path;
use std::{env, fs, process};

/// The files of the table, in the order in which rules are checked.
const FILES: [&str; 16] = [
    "common.tab",
    "integer.tab",
    "float.tab",
    "compare.tab",
    "convert.tab",
    "move.tab",
    "memory.tab",
    "atomic.tab",
    "async.tab",
    "control.tab",
    "warp.tab",
    "texture.tab",
    "video.tab",
    "matrix.tab",
    "wgmma.tab",
    "tcgen05.tab",
];

fn main() {
    if let Err(message) = run() {
        eprintln!("{message}");
        process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let directory = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("src/table");
    println!("cargo::rerun-if-changed={}", directory.display());
    println!("cargo::rerun-if-changed=build");
    let mut lines = Vec::new();
    for file in FILES {
        let text: &'static str = fs::read_to_string(directory.join(file))?.leak();
        let numbered = (1..).zip(text.lines()).filter(|(_, text)| !text.is_empty() && !text.starts_with('#'));
        lines.extend(numbered.map(|(number, text)| Line { file, number, text }));
    }
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("words.rs"), words::rust()?)?;
    fs::write(Path::new(&out).join("table.rs"), emit::rust(&table::table(&lines)?)?)?;
    Ok(())
}
