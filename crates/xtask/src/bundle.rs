//! `cargo xtask gpu-bundle DIR`: a folder that runs the examples on any machine with the CUDA driver. It holds
//! the compiler, the runner, the kernels as PTX and as cubins, and `run.sh`; it needs nothing else.

use crate::{Result, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the cubins are built for. For another GPU, `run.sh sm_XX` compiles the kernels there.
const TARGET: &str = "sm_90";

/// Compiles with the bundle's own compiler, so that the machine tests what it was given.
const RUN: &str = r#"#!/usr/bin/env bash
# Runs every kernel of the bundle and checks its results.
#   run.sh          the cubins as they are
#   run.sh sm_XX    compiles the kernels for that target first
set -euo pipefail
cd "$(dirname "$0")"
if [ $# -gt 0 ]; then
    for kernel in kernels/*.ptx; do
        ./sassafras -arch="$1" "$kernel" -o "${kernel%.ptx}.cubin"
    done
fi
exec ./gpu-run --cubins kernels kernels/*.ptx
"#;

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let dir: PathBuf = match arguments.next()? {
        Some(Value(dir)) => dir.into(),
        Some(other) => return Err(other.unexpected().into()),
        None => return Err("which folder? cargo xtask gpu-bundle DIR".into()),
    };
    if let Some(extra) = arguments.next()? {
        return Err(extra.unexpected().into());
    }
    let programs = ["--package", "cli", "--bin", "sassafras", "--package", "gpu", "--bin", "gpu-run"];
    shell::run(shell::cargo(["build", "--quiet", "--release"]).args(programs))?;
    let kernels = dir.join("kernels");
    shell::create_dir(&kernels)?;
    for program in ["sassafras", "gpu-run"] {
        copy(&shell::target_dir().join("release").join(program), &dir.join(program))?;
    }
    let examples = shell::files_below(&shell::root().join("examples"), "ptx")?;
    if examples.is_empty() {
        return Err("there are no examples to put into the bundle".into());
    }
    for example in &examples {
        let kernel = kernels.join(example.file_name().ok_or("an example without a name")?);
        copy(example, &kernel)?;
        let mut compile = Command::new(dir.join("sassafras"));
        compile.arg(format!("-arch={TARGET}")).arg(&kernel).arg("-o").arg(kernel.with_extension("cubin"));
        shell::run(&mut compile)?;
    }
    shell::write(&dir.join("run.sh"), RUN)?;
    make_executable(&dir.join("run.sh"))?;
    println!(
        "{} kernels for {TARGET} in {}; start {}/run.sh there",
        examples.len(),
        dir.display(),
        dir.display()
    );
    Ok(())
}

pub fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map_err(|e| format!("cannot copy {}: {e}", from.display()))?;
    Ok(())
}

pub fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}
