//! Part `toolkits`: what ptxas of each release says of headers and of instructions that came after 13.0.
//!
//! The folders are those of the releases, `pip install --target DIR nvidia-cuda-nvcc==13.4.92`; which release it is, its
//! ptxas says. The recordings in `crates/ptx/tests/toolkits/recorded.txt` must be what it answers; `--record` writes them
//! anew. That our front end answers the same, a test of the crate `ptx` shows.

use super::{Bar, Options, list_differences};
use crate::{Result, shell};
use ptx::Toolkit;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../../../ptx/tests/toolkits/recording.rs"]
mod recording;

/// Where the packages put the program.
const PTXAS: &str = "nvidia/cu13/bin/ptxas";

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    if options.folders.is_empty() {
        return Err(
            "name the folders of some releases: `pip install --target DIR nvidia-cuda-nvcc==13.4.92`".into(),
        );
    }
    let scratch = shell::target_dir().join("conformance/toolkits");
    shell::create_dir(&scratch)?;
    let path = shell::root().join("crates/ptx/tests/toolkits/recorded.txt");
    let mut cases = recording::read(&shell::read(&path)?)?;
    let (mut asked, mut stale) = (0, Vec::new());
    for folder in &options.folders {
        let ptxas = folder.join(PTXAS);
        let toolkit = release_of(&ptxas)?;
        for case in &mut cases {
            let theirs = first_error(&ptxas, &case.source(toolkit), &case.target, &scratch)?;
            let index = toolkit as usize;
            if case.answers.get(index) != Some(&theirs) {
                stale.push(format!("{}\n    ptxas {} {theirs:?}", case.line(), toolkit.name()));
            }
            if options.record {
                case.answers.resize(Toolkit::ALL.len(), None);
                case.answers[index] = theirs;
            }
            asked += 1;
        }
    }
    if options.record {
        shell::write(&path, recording::write(&cases))?;
    }
    list_differences(if options.record { "rewritten" } else { "stale" }, &stale, options.show);
    let equal = if options.record { asked } else { asked - stale.len() };
    Ok(vec![Bar { what: "recordings that ptxas gives", equal, all: asked, percent: 100 }])
}

fn release_of(ptxas: &Path) -> Result<Toolkit> {
    let output = shell::capture(Command::new(ptxas).arg("--version"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let known =
        Toolkit::ALL.into_iter().find(|toolkit| text.contains(&format!("V{}", toolkit.full_version())));
    known.ok_or_else(|| format!("{}: none of the releases that are recorded", ptxas.display()).into())
}

/// The first error without its place. It is asked to check only: for a target that it has no code for, another does.
fn first_error(ptxas: &Path, source: &str, target: &str, scratch: &PathBuf) -> Result<Option<String>> {
    shell::write(&scratch.join("t.ptx"), source)?;
    let ask = |arch: &str| {
        let arch = format!("-arch={}", arch.replace("sm_", "compute_"));
        shell::capture(Command::new(ptxas).args([arch.as_str(), "t.ptx"]).current_dir(scratch))
    };
    let mut output = ask(target)?;
    if String::from_utf8_lossy(&output.stderr).contains("is not defined for option") {
        output = ask("sm_120")?;
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let severities = ["error   : ", "fatal   : "];
    let error = text.lines().find_map(|line| {
        severities.iter().find_map(|severity| line.split_once(severity)).map(|(_, text)| text.to_string())
    });
    if error.is_none() && !output.status.success() {
        return Err(format!("{}: {text}", ptxas.display()).into());
    }
    Ok(error)
}
