//! The reference tools: NVIDIA's programs, used as black boxes (input in, output out).
//!
//! [`Tools::find`] succeeds only if all of them are there; [`Tools::check_versions`] only if they are the
//! versions that every recorded fact of this repository was measured with.

use crate::{Result, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each tool with the version that it must print.
const TOOLS: [(&str, &str); 6] = [
    ("cuobjdump", "V13.2.51"),
    ("fatbinary", "V13.0.88"),
    ("nvcc", "V13.0.88"),
    ("nvdisasm", "V13.2.51"),
    ("nvlink", "V13.0.88"),
    ("ptxas", "V13.0.88"),
];

pub struct Tools {
    bin: PathBuf,
}

impl Tools {
    /// The tools of `SASSAFRAS_TOOLS`, else those that `cargo xtask setup` installed.
    pub fn find() -> Result<Tools> {
        let bin = match std::env::var_os("SASSAFRAS_TOOLS") {
            Some(dir) => Some(PathBuf::from(dir)),
            None => installed_bin(&venv()),
        };
        bin.filter(|bin| TOOLS.iter().all(|(name, _)| bin.join(name).is_file()))
            .map(|bin| Tools { bin })
            .ok_or_else(|| "reference tools are missing: run `cargo xtask setup`".into())
    }

    pub fn check_versions(&self) -> Result<()> {
        for (name, version) in TOOLS {
            let output = shell::capture(self.command(name).arg("--version"))?;
            if !String::from_utf8_lossy(&output.stdout).contains(version) {
                return Err(format!("{} is not version {version}", self.bin.join(name).display()).into());
            }
        }
        Ok(())
    }

    pub fn bin(&self) -> &Path {
        &self.bin
    }

    pub fn command(&self, name: &str) -> Command {
        Command::new(self.bin.join(name))
    }
}

/// The Python environment that holds the tools. It stays in the checkout's `target`, wherever cargo builds.
pub fn venv() -> PathBuf {
    shell::root().join("target/ref")
}

/// The environment's Python.
pub fn python() -> PathBuf {
    venv().join("bin/python3")
}

/// The packages put their programs below `lib/python3.<minor>`, so the path depends on the Python there is.
fn installed_bin(venv: &Path) -> Option<PathBuf> {
    let mut pythons: Vec<_> =
        std::fs::read_dir(venv.join("lib")).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    pythons.sort();
    pythons.into_iter().map(|python| python.join("site-packages/nvidia/cu13/bin")).find(|bin| bin.is_dir())
}
