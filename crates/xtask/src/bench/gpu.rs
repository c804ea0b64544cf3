//! `bench gpu --bundle DIR`: a folder that times the programs of `tests/bench`, in ptxas's code and in ours, on a machine
//! with a GPU and nvcc. It holds the compiler, the programs, `run.py`, and Triton's kernels of `tests/triton`; Rust isn't
//! needed there. `bench gpu --report FILE.json` makes `docs/performance.md` of what that run wrote.

use crate::{Result, bundle, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each folder of `tests` with what a bundle takes of it.
const PARTS: [(&str, &[&str]); 2] = [("bench", &["cu", "cuh", "py"]), ("triton", &["py"])];

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let job = arguments.next()?;
    let is_bundle = match job {
        Some(Long("bundle")) => true,
        Some(Long("report")) => false,
        _ => return Err("bench gpu --bundle DIR, or --report FILE.json".into()),
    };
    let path: PathBuf = arguments.value()?.into();
    if let Some(extra) = arguments.next()? {
        return Err(extra.unexpected().into());
    }
    if is_bundle { make_bundle(&path) } else { write_report(&path) }
}

fn make_bundle(dir: &Path) -> Result<()> {
    shell::run(&mut shell::cargo(["build", "--quiet", "--release", "--package", "sassafras-cli"]))?;
    let mut programs = 0;
    for (folder, extensions) in PARTS {
        // What an older bundle had here and is no more must not run.
        let to = dir.join(folder);
        if to.exists() {
            std::fs::remove_dir_all(&to).map_err(|e| format!("cannot remove {}: {e}", to.display()))?;
        }
        shell::create_dir(&to)?;
        for extension in extensions {
            let files = shell::files_below(&shell::root().join("tests").join(folder), extension)?;
            for file in &files {
                bundle::copy(file, &to.join(file.file_name().ok_or("a file without a name")?))?;
            }
            programs += if *extension == "cu" { files.len() } else { 0 };
        }
    }
    let compiler = dir.join("sassafras");
    bundle::copy(&shell::target_dir().join("release/sassafras"), &compiler)?;
    // Names for debuggers are four fifths of the file.
    shell::run(Command::new("strip").arg(&compiler))?;
    shell::write(&dir.join("commit"), commit()?)?;
    println!(
        "{programs} programs in {0}; start `python3 {0}/bench/run.py --out bench.json` there",
        dir.display()
    );
    Ok(())
}

/// The commit that is checked out, with a `+` if files differ from it.
fn commit() -> Result<String> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = shell::capture(Command::new("git").args(arguments).current_dir(shell::root()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Ok(git(&["rev-parse", "HEAD"])? + if changed.is_empty() { "" } else { "+" })
}

fn write_report(results: &Path) -> Result<()> {
    let script = shell::root().join("tests/bench/report.py");
    let output = shell::capture(Command::new("python3").arg(script).arg("--markdown").arg(results))?;
    if !output.status.success() {
        return Err(format!("report.py: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let page = shell::root().join("docs/performance.md");
    shell::write(&page, output.stdout)?;
    println!("{} is written", page.display());
    Ok(())
}
