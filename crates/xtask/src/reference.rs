//! What ptxas makes of PTX, kept below `target/reference`: a cubin that an earlier run made of the same text serves
//! again.

use crate::compile::target_of;
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// What real PTX is compiled with: at low levels instructions meet that never do at -O3.
pub const OPTIONS: [&str; 4] = ["-O3", "-O1", "-O0", "-g"];

/// ptxas for one target, with one set of options.
pub struct Reference<'a> {
    pub tools: &'a Tools,
    pub target: &'a str,
    /// `-O3`, `-g`.
    pub option: &'a str,
}

impl Reference<'_> {
    fn folder(&self) -> PathBuf {
        shell::target_dir().join(format!("reference/{}{}", self.target, self.option))
    }

    /// The cubin of a text, or nothing where ptxas refuses it.
    pub fn compile(&self, name: &str, text: &str) -> Result<Option<PathBuf>> {
        let folder = self.folder();
        shell::create_dir(&folder)?;
        let (source, cubin) = (folder.join(format!("{name}.ptx")), folder.join(format!("{name}.cubin")));
        if cubin.is_file() && std::fs::read_to_string(&source).is_ok_and(|before| before == text) {
            return Ok(Some(cubin));
        }
        if cubin.is_file() {
            std::fs::remove_file(&cubin)?;
        }
        shell::write(&source, text)?;
        // Under another name until it is whole: a run that was stopped leaves no half of a file behind.
        let made = folder.join(format!("{name}.new"));
        let mut ptxas = self.tools.command("ptxas");
        ptxas.args(["-arch", self.target, self.option, "-o"]).args([&made, &source]);
        if !shell::capture(&mut ptxas)?.status.success() {
            return Ok(None);
        }
        std::fs::rename(&made, &cubin)?;
        Ok(Some(cubin))
    }

    /// The cubins of a corpus.
    pub fn corpus(&self, corpus: &Path) -> Result<Vec<PathBuf>> {
        self.files("corpus", corpus)
    }

    /// The cubins of the repository's own kernels for the machine model: real ones, in which ptxas comes closer than
    /// in random programs.
    pub fn probes(&self) -> Result<Vec<PathBuf>> {
        self.files("probe", &shell::root().join("crates/xtask/probes"))
    }

    /// The cubins of the PTX files below a folder, with this target put in. A file that uses what the target does not
    /// have is another target's; of its own target, ptxas takes every file.
    fn files(&self, name: &str, folder: &Path) -> Result<Vec<PathBuf>> {
        let files = shell::files_below(folder, "ptx")?;
        let one = |(number, file): (usize, &PathBuf)| {
            let text = shell::read(file)?;
            let cubin = self.compile(&format!("{name}-{number}"), &retarget(&text, self.target))?;
            match cubin {
                None if target_of(&text) == Some(self.target) => {
                    Err(format!("ptxas refuses {} for its own target", file.display()).into())
                }
                cubin => Ok(cubin),
            }
        };
        let made = files.par_iter().enumerate().map(one).collect::<Result<Vec<_>>>()?;
        Ok(made.into_iter().flatten().collect())
    }
}

/// The text with another target.
pub fn retarget(text: &str, target: &str) -> String {
    let line = |line: &str| match line.starts_with(".target ") {
        true => format!(".target {target}\n"),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}
