//! `cargo xtask playground`: the folder of static files.

use crate::{Result, shell};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "wasm32-unknown-unknown";

/// What the folder may weigh, each file compressed by gzip.
pub const MOST_BYTES: u64 = 1_500_000;

/// Files of the page, and the examples by their names there.
const PAGE: [&str; 4] = ["index.html", "playground.css", "playground.js", "worker.js"];
const EXAMPLES: [(&str, &str); 6] = [
    ("atomics", "examples/atomics.ptx"),
    ("collatz", "examples/collatz.ptx"),
    ("matmul", "crates/ptx/tests/corpus/triton/matmul_k_1.ptx"),
    ("reduce", "examples/reduce.ptx"),
    ("saxpy", "examples/saxpy.ptx"),
    ("softmax", "crates/ptx/tests/corpus/triton/softmax_k_1.ptx"),
];

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    let mut folder = shell::target_dir().join("playground");
    while let Some(argument) = arguments.next()? {
        match argument {
            lexopt::Arg::Value(path) => folder = path.into(),
            other => return Err(other.unexpected().into()),
        }
    }
    let sizes = build(&folder)?;
    for (name, bytes) in &sizes {
        println!("{bytes:>10}  {name}");
    }
    let all: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
    println!("{all:>10}  bytes after gzip, of at most {MOST_BYTES}");
    println!("{}: try it with `python3 -m http.server -d {0}`", folder.display());
    if all > MOST_BYTES { Err("the playground is too large".into()) } else { Ok(()) }
}

/// Builds the folder; says what each file weighs after gzip.
pub fn build(folder: &Path) -> Result<Vec<(String, u64)>> {
    let installed = shell::capture(Command::new("rustup").args(["target", "list", "--installed"]));
    if installed.is_ok_and(|list| !String::from_utf8_lossy(&list.stdout).contains(TARGET)) {
        return Err(format!("Rust's target {TARGET} is missing: `rustup target add {TARGET}`").into());
    }
    let arguments =
        ["build", "--quiet", "--profile", "web", "--target", TARGET, "-p", "sassafras-playground"];
    shell::run(&mut shell::cargo(arguments))?;
    let _ = std::fs::remove_dir_all(folder);
    shell::create_dir(&folder.join("examples"))?;
    let root = shell::root();
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for name in PAGE {
        files.push((name.into(), shell::read_bytes(&root.join("crates/playground/page").join(name))?));
    }
    files.push(("style.css".into(), explain::style().into()));
    files.push(("explain.js".into(), format!("{}\nexport {{ mount }};\n", explain::script()).into()));
    let module = shell::target_dir().join(TARGET).join("web/playground.wasm");
    files.push(("playground.wasm".into(), shell::read_bytes(&module)?));
    for (name, path) in EXAMPLES {
        files.push((format!("examples/{name}.ptx"), shell::read_bytes(&root.join(path))?));
    }
    let mut sizes = Vec::new();
    for (name, bytes) in files {
        let path = folder.join(&name);
        shell::write(&path, bytes)?;
        sizes.push((name, compressed(&path)?));
    }
    Ok(sizes)
}

fn compressed(path: &PathBuf) -> Result<u64> {
    let output =
        shell::capture(Command::new("gzip").args(["-9", "-n", "-c"]).arg(path).stdin(Stdio::null()))?;
    if output.status.success() { Ok(output.stdout.len() as u64) } else { Err("gzip fails".into()) }
}
