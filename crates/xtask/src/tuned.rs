//! `cargo xtask tuned`: this program once more, optimised for what a campaign of generated programs does.
//!
//! One build counts what runs how often, a small campaign is run with it, and the second build uses the counts. It is
//! for processors of x86-64-v3 (AVX2), and needs rustup's component `llvm-tools`, which reads the counts.

use crate::{Result, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROCESSOR: &str = "-Ctarget-cpu=x86-64-v3";

/// What is counted: all that a campaign does, and every part of it often.
const CAMPAIGN: [&str; 6] = ["fuzz", "programs", "--seeds", "0..1000", "--ways", "O0,O1,O3"];

pub fn run() -> Result<()> {
    let dir = shell::target_dir().join("tuned");
    let (counts, profile) = (dir.join("counts"), dir.join("profile"));
    let merge = rust_tool("llvm-profdata")?;
    if counts.is_dir() {
        std::fs::remove_dir_all(&counts)?;
    }
    let counting = build(&dir.join("counting"), &format!("-Cprofile-generate={}", counts.display()))?;
    shell::run(Command::new(counting).args(CAMPAIGN))?;
    shell::run(Command::new(merge).arg("merge").arg("-o").args([&profile, &counts]))?;
    let tuned = build(&dir.join("using"), &format!("-Cprofile-use={}", profile.display()))?;
    println!("{}", tuned.display());
    Ok(())
}

/// Builds this program into a folder. With a target named, the flags are for it alone and not for build scripts.
fn build(dir: &Path, flag: &str) -> Result<PathBuf> {
    let host = rustc(["--print", "host-tuple"])?;
    let mut cargo = shell::cargo(["build", "--release", "--package", "xtask", "--target", &host]);
    cargo.env("CARGO_TARGET_DIR", dir).env("RUSTFLAGS", format!("{flag} {PROCESSOR}"));
    shell::run(&mut cargo)?;
    Ok(dir.join(host).join("release/xtask"))
}

/// A tool of the toolchain that is not on the path.
fn rust_tool(name: &str) -> Result<PathBuf> {
    let (sysroot, host) = (rustc(["--print", "sysroot"])?, rustc(["--print", "host-tuple"])?);
    let tool = Path::new(&sysroot).join("lib/rustlib").join(host).join("bin").join(name);
    if tool.is_file() {
        Ok(tool)
    } else {
        Err(format!("there is no {name}: rustup component add llvm-tools").into())
    }
}

fn rustc<const N: usize>(arguments: [&str; N]) -> Result<String> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(arguments).current_dir(shell::root());
    let output = shell::capture(&mut rustc)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
