//! `cargo xtask wheel`: builds the Python package, installs it into a fresh environment and runs its tests there.
//!
//! The wheel lies in `target/wheels` afterwards. With `--release` it is the one for people; without, it is built as the
//! other tests are.

use crate::tools;
use crate::{Result, shell};
use std::path::Path;
use std::process::Command;

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    let mut profile = "dev";
    while let Some(argument) = arguments.next()? {
        match argument {
            lexopt::Arg::Long("release") => profile = "release",
            other => return Err(other.unexpected().into()),
        }
    }
    test(profile)
}

/// Builds the wheel with a profile of cargo's, and tests it.
pub fn test(profile: &str) -> Result<()> {
    let package = shell::root().join("crates/python");
    let wheels = shell::target_dir().join("wheels");
    if wheels.is_dir() {
        std::fs::remove_dir_all(&wheels)?;
    }
    let mut maturin = Command::new(tools::python());
    maturin.args(["-m", "maturin", "build", "--quiet", "--locked", "--profile", profile, "--out"]);
    shell::run(maturin.arg(&wheels).current_dir(&package))?;
    let wheel = shell::files_below(&wheels, "whl")?.pop().ok_or("maturin made no wheel")?;
    try_out(&wheel)?;
    println!("{}", wheel.display());
    Ok(())
}

/// Installs a wheel into a fresh environment, and runs the package's tests there.
pub fn try_out(wheel: &Path) -> Result<()> {
    let package = shell::root().join("crates/python");
    let python = fresh_environment(&shell::target_dir().join("wheel-env"))?;
    let install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"];
    shell::run(Command::new(&python).args(install).arg(wheel))?;
    // Elsewhere than in the package's folder, so that what is tested is what is installed.
    let elsewhere = wheel.parent().unwrap_or(wheel);
    let pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider"];
    shell::run(Command::new(&python).args(pytest).arg(package.join("tests")).current_dir(elsewhere))
}

/// An environment without packages but those that the tests import; returns its Python.
fn fresh_environment(folder: &Path) -> Result<std::path::PathBuf> {
    if folder.is_dir() {
        std::fs::remove_dir_all(folder)?;
    }
    shell::run(Command::new(tools::python()).args(["-m", "venv"]).arg(folder))?;
    let python = folder.join("bin/python3");
    // pytest and NumPy are those of `cargo xtask setup`: nothing is downloaded here.
    let link = "import pathlib, sysconfig, sys; \
                pathlib.Path(sysconfig.get_path('purelib'), 'tests.pth').write_text(sys.argv[1])";
    let path = shell::capture(
        Command::new(tools::python()).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]),
    )?;
    let path = String::from_utf8_lossy(&path.stdout).trim().to_string();
    shell::run(Command::new(&python).args(["-c", link, &path]))?;
    Ok(python)
}
