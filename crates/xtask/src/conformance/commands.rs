//! Recorded command lines: ptxas still answers like this, and our command answers the same.
//!
//! `--record` asks ptxas again and rewrites the answers; a new line needs no more than its words.

use super::{Bar, Options, list_differences};
use crate::tools::Tools;
use crate::{Result, shell};
use std::path::{Path, PathBuf};

#[path = "../../../cli/tests/commands/recording.rs"]
mod recording;

use recording::Case;

const WANTED: usize = 400;

/// The file with what the compiler refuses: there a plain no is an answer, too.
const NOT_YET: &str = "not-yet.txt";

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let ptxas = Tools::find()?.bin().join("ptxas");
    shell::run(&mut shell::cargo(["build", "--quiet", "-p", "sassafras-cli"]))?;
    let ours = shell::target_dir().join("debug/sassafras");
    let (mut all, mut waiting) = (0, 0);
    let (mut stale, mut different, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for file in shell::files_below(&folder(), "txt")? {
        let mut cases = recording::read(&shell::read(&file)?)?;
        all += cases.len();
        let is_waiting = file.ends_with(NOT_YET);
        waiting += if is_waiting { cases.len() } else { 0 };
        for case in &mut cases {
            let theirs = case.run(&ptxas, &folder().join("inputs"), &scratch())?;
            if case.answer.as_ref() != Some(&theirs) {
                stale.push(format!("{}\n    ptxas {theirs:?}", case.line()));
            }
            if options.record {
                case.answer = Some(theirs);
            }
            let list = if is_waiting { &mut wrong } else { &mut different };
            list.extend(difference(case, &ours, is_waiting)?);
        }
        if options.record {
            shell::write(&file, recording::write(&cases))?;
        }
    }
    let fresh = if options.record { all } else { all - stale.len() };
    list_differences(if options.record { "rewritten" } else { "stale" }, &stale, options.show);
    list_differences("another answer than recorded", &different, options.show);
    list_differences("neither refused nor as recorded", &wrong, options.show);
    let compared = all - waiting;
    Ok(vec![
        Bar { what: "command lines, of those wanted", equal: all.min(WANTED), all: WANTED, percent: 100 },
        Bar { what: "recordings that ptxas gives", equal: fresh, all, percent: 100 },
        Bar {
            what: "same exit code, stderr and outputs",
            equal: compared - different.len(),
            all: compared,
            percent: 99,
        },
        Bar {
            what: "refused or the same, of what is not supported",
            equal: waiting - wrong.len(),
            all: waiting,
            percent: 100,
        },
    ])
}

fn difference(case: &Case, program: &Path, may_refuse: bool) -> Result<Option<String>> {
    let ours = case.run(program, &folder().join("inputs"), &scratch())?;
    let is_fine = case.answer.as_ref() == Some(&ours) || may_refuse && ours.is_refusal();
    Ok((!is_fine).then(|| format!("{}\n    recorded {:?}\n    ours     {ours:?}", case.line(), case.answer)))
}

fn folder() -> PathBuf {
    shell::root().join("crates/cli/tests/commands")
}

fn scratch() -> PathBuf {
    shell::target_dir().join("conformance/commands")
}
