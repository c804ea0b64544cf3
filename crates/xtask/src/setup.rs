//! `cargo xtask setup`: installs the pinned reference tools, and what builds and tests the Python package, into a Python
//! environment under `target/ref`, and Chromium, where it is missing and apt-get is there, for the whole machine.
//!
//! Does nothing but check the versions when they are there. Which package index is asked is pip's own
//! configuration.

use crate::conformance::browser;
use crate::tools::{self, Tools};
use crate::{Result, shell};
use std::process::Command;

/// nvlink comes with the nvcc package; the packages after it are what nvcc needs to compile a program. CUPTI times kernels
/// (tests/bench/kernels.py).
const PACKAGES: [&str; 8] = [
    "nvidia-cuda-cuobjdump==13.2.51",
    "nvidia-cuda-nvdisasm==13.2.51",
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-cupti==13.0.85",
];

/// What `cargo xtask wheel` needs.
const WHEEL_PACKAGES: [&str; 3] = ["maturin==1.16.0", "numpy", "pytest"];

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    if let Some(argument) = arguments.next()? {
        return Err(argument.unexpected().into());
    }
    if !ready() {
        install()?;
    }
    if !can_build_wheels() {
        install_packages(&WHEEL_PACKAGES)?;
    }
    if browser::find().is_err() {
        install_browser()?;
    }
    let tools = Tools::find()?;
    tools.check_versions()?;
    println!("reference tools are ready: {}", tools.bin().display());
    Ok(())
}

fn ready() -> bool {
    Tools::find().is_ok_and(|tools| {
        let has_cupti = tools.bin().join("../include/cupti.h").is_file();
        has_cupti && tools.check_versions().is_ok()
    })
}

fn can_build_wheels() -> bool {
    let imports = Command::new(tools::python()).args(["-c", "import maturin, numpy, pytest"]).output();
    imports.is_ok_and(|output| output.status.success())
}

fn install() -> Result<()> {
    if std::env::var_os("SASSAFRAS_TOOLS").is_some() {
        return Err(
            "SASSAFRAS_TOOLS names a folder without the right tools: correct it, or unset it and run this again"
                .into(),
        );
    }
    install_packages(&PACKAGES)
}

/// Installs the browser that pages are tried in, where that can be done without a question.
fn install_browser() -> Result<()> {
    let install =
        || shell::run(Command::new("apt-get").args(["install", "-y", "--no-install-recommends", "chromium"]));
    // The list of packages may be old, or not there yet.
    let installed = install().or_else(|_| {
        shell::run(Command::new("apt-get").arg("update"))?;
        install()
    });
    installed.map_err(|error| format!("no browser for the pages' tests: install chromium ({error})"))?;
    browser::find().map(drop)
}

/// Installs packages into the environment, which is made if there is none.
fn install_packages(packages: &[&str]) -> Result<()> {
    let has_venv = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
    if !has_venv.is_ok_and(|output| output.status.success()) {
        return Err("python3 with the venv module is needed to install the reference tools \
                    (on Debian and Ubuntu: `apt install python3-venv`)"
            .into());
    }
    shell::run(Command::new("python3").args(["-m", "venv"]).arg(tools::venv()))?;
    shell::run(Command::new(tools::python()).args(["-m", "pip", "install", "--quiet"]).args(packages))
}
