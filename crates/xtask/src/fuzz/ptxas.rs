//! ptxas, as a function from text to code. It is the program of `cargo xtask setup` or, on a machine without it, the one
//! in the path.

use super::subject::TARGET;
use crate::tools::Tools;
use crate::{Result, shell};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

pub struct Ptxas {
    program: PathBuf,
    /// Files that were made so far.
    files: AtomicUsize,
}

impl Ptxas {
    pub fn find() -> Result<Ptxas> {
        let program = Tools::find().map_or("ptxas".into(), |tools| tools.bin().join("ptxas"));
        let found = Command::new(&program).arg("--version").output();
        found.map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Ptxas { program, files: AtomicUsize::new(0) })
    }

    pub fn compile(&self, source: &str) -> Result<Vec<u8>> {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| {
            let name = format!("sassafras-fuzz-{}-{number}.{end}", std::process::id());
            std::env::temp_dir().join(name)
        };
        shell::write(&name("ptx"), source)?;
        let mut command = Command::new(&self.program);
        command.arg(format!("-arch={TARGET}")).arg(name("ptx")).arg("-o").arg(name("cubin"));
        let output = shell::capture(&mut command);
        let cubin = std::fs::read(name("cubin"));
        for end in ["ptx", "cubin"] {
            // There is no cubin where ptxas failed, which is said below.
            std::fs::remove_file(name(end)).ok();
        }
        let output = output?;
        match output.status.success() {
            true => Ok(cubin?),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
        }
    }
}
