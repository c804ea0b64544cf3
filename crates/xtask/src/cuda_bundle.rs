//! `cargo xtask cuda-bundle DIR`: a folder that builds the CUDA programs of `tests/cuda` with nvcc, our compiler in
//! ptxas's place, and runs them. It holds the compiler, the programs and their `run.sh`; the machine adds a GPU, nvcc
//! and a host compiler.

use crate::{Result, bundle, shell};
use std::path::PathBuf;

/// What a program may consist of: its source, what it must print, the shared header and the runner.
const PARTS: [&str; 4] = ["cu", "expected", "cuh", "sh"];

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let dir: PathBuf = match arguments.next()? {
        Some(Value(dir)) => dir.into(),
        Some(other) => return Err(other.unexpected().into()),
        None => return Err("which folder? cargo xtask cuda-bundle DIR".into()),
    };
    if let Some(extra) = arguments.next()? {
        return Err(extra.unexpected().into());
    }
    shell::run(&mut shell::cargo(["build", "--quiet", "--release", "--package", "sassafras-cli"]))?;
    let tests = shell::root().join("tests");
    shell::create_dir(&dir.join("cuda"))?;
    bundle::copy(&tests.join("script.sh"), &dir.join("script.sh"))?;
    bundle::copy(&shell::target_dir().join("release/sassafras"), &dir.join("sassafras"))?;
    let mut programs = 0;
    for part in PARTS {
        let files = shell::files_below(&tests.join("cuda"), part)?;
        if files.is_empty() {
            return Err(format!("tests/cuda has no .{part} file to put into the bundle").into());
        }
        for file in &files {
            bundle::copy(file, &dir.join("cuda").join(file.file_name().ok_or("a file without a name")?))?;
        }
        programs += if part == "cu" { files.len() } else { 0 };
    }
    println!("{programs} programs in {0}; start {0}/cuda/run.sh {0}/sassafras there", dir.display());
    Ok(())
}
