//! `cargo xtask gpu-bundle DIR`: a folder that runs every kernel with run lines on any machine with the CUDA driver. It holds
//! the compiler, the runner, the kernels as PTX, and `run.sh`; it needs nothing else.

use crate::{Result, shell};
use gpu::runline::Contents;
use std::path::{Path, PathBuf};

/// Where kernels with run lines are.
const FOLDERS: [&str; 5] = [
    "examples",
    "tests/llvm",
    "crates/sassafras/tests/kernels",
    "crates/sim/tests/kernels",
    "crates/sim/tests/hopper",
];

/// Compiles with the bundle's own compiler, so that the machine tests what it was given.
const RUN: &str = r#"#!/usr/bin/env bash
# Compiles every kernel of the bundle at several levels, runs it and checks its results.
#   run.sh [COMPILER]    default: the bundle's own
#   ARCH=sm_90a          target
#   LEVELS="0 1 3"       optimisation levels
set -u
cd "$(dirname "$0")"
bad=0
for level in ${LEVELS:-0 1 3}; do
    for kernel in kernels/*.ptx; do
        "${1:-./sassafras}" -w -arch="${ARCH:-sm_90a}" "-O$level" "$kernel" -o "${kernel%.ptx}.cubin" || bad=1
    done
    ./gpu-run --cubins kernels kernels/*.ptx > log 2>&1 || bad=1
    grep '^FAIL' log
    echo "-O$level: $(tail -n 1 log)"
    rm -f kernels/*.cubin
done
exit $bad
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
    let programs = [
        "--package",
        "sassafras-cli",
        "--bin",
        "sassafras",
        "--package",
        "sassafras-gpu",
        "--bin",
        "gpu-run",
    ];
    shell::run(shell::cargo(["build", "--quiet", "--release"]).args(programs))?;
    let kernels = dir.join("kernels");
    shell::create_dir(&kernels)?;
    for program in ["sassafras", "gpu-run"] {
        copy(&shell::target_dir().join("release").join(program), &dir.join(program))?;
    }
    let mut count = 0;
    for folder in FOLDERS {
        for file in shell::files_below(&shell::root().join(folder), "ptx")? {
            let runs =
                gpu::runline::parse(&shell::read(&file)?).map_err(|e| format!("{}: {e}", file.display()))?;
            // Only the executors have these.
            let mut arguments = runs.iter().flat_map(|run| &run.args);
            if runs.is_empty()
                || arguments.any(|arg| matches!(arg.contents, Contents::Image(_) | Contents::Multicast(_)))
            {
                continue;
            }
            let name = file.file_name().ok_or("a kernel without a name")?.to_string_lossy();
            // Files of several folders have the same name.
            copy(&file, &kernels.join(format!("{}-{name}", folder.replace('/', "-"))))?;
            count += runs.len();
        }
    }
    shell::write(&dir.join("run.sh"), RUN)?;
    make_executable(&dir.join("run.sh"))?;
    println!("{count} runs in {0}; start {0}/run.sh there", dir.display());
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
