//! Part `mistakes`: modules, most of them bad, with what ptxas prints for them, recorded in
//! `crates/ptx/tests/mistakes/*.txt`.
//!
//! A case is a line `=== name`, with `arch=NAME` after it where that is not the module's own target; the PTX
//! text; a line `--- stderr <exit code>`; and the recorded lines, in which the file is called [`FILE`].
//! The recordings are checked too: ptxas must give them.

use super::{Bar, Options, list_differences};
use crate::compile::target_of;
use crate::tools::Tools;
use crate::{Result, frontend, shell};
use rayon::prelude::*;
use std::path::Path;

/// The bar on the number of cases that ptxas rejects.
const BAD_INPUTS: usize = 300;
/// Of the cases for which ptxas prints anything, the share for which we must print the same.
const FULL_TEXT_BAR: usize = 95;
/// Of the inputs that ptxas accepts, the share that we must accept. The rest has no meaning that we could give it; the
/// test `mistakes` of the crate `ptx` names each with its reason.
const ACCEPTED_BAR: usize = 98;
const FILE: &str = "t.ptx";
/// For modules without a target. A `compute_` name makes ptxas parse and check without compiling.
const DEFAULT_ARCH: &str = "compute_90";

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let mut cases = Vec::new();
    for file in shell::files_below(&shell::root().join("crates/ptx/tests/mistakes"), "txt")? {
        cases.extend(read_cases(&shell::read(&file)?).map_err(|e| format!("{}: {e}", file.display()))?);
    }

    let stale = stale_recordings(&cases)?;
    list_differences("recordings that ptxas does not give", &stale, options.show);

    let mut other_first = Vec::new();
    let mut other_text = Vec::new();
    let (mut same_text, mut wrong_bad) = (0, 0);
    for case in &cases {
        let checked = frontend::check(FILE, &case.source, Some(&case.arch()));
        let ours = Answer { exit_code: checked.exit_code, stderr: checked.stderr };
        same_text += usize::from(ours == case.answer && !ours.stderr.is_empty());
        if ours.verdict() != case.answer.verdict() {
            wrong_bad += usize::from(case.answer.exit_code != 0);
            other_first.push(format!("{}\n    ptxas {}\n    ours  {ours}", case.name, case.answer));
        } else if ours.stderr != case.answer.stderr {
            other_text.push(format!("{}\n    ptxas {}\n    ours  {ours}", case.name, case.answer));
        }
    }
    list_differences("another first error or exit code", &other_first, options.show);
    list_differences("the same first error, but another full text", &other_text, options.show);

    let all = cases.len();
    let bad = cases.iter().filter(|case| case.answer.exit_code != 0).count();
    let same_bad = bad - wrong_bad;
    let good = all - bad;
    let same_good = good - (other_first.len() - wrong_bad);
    let with_text = cases.iter().filter(|case| !case.answer.stderr.is_empty()).count();
    Ok(vec![
        Bar { what: "bad inputs, of those wanted", equal: bad, all: BAD_INPUTS, percent: 100 },
        Bar { what: "recordings that ptxas gives", equal: all - stale.len(), all, percent: 100 },
        Bar { what: "bad inputs: same first error and exit code", equal: same_bad, all: bad, percent: 100 },
        Bar { what: "good inputs: accepted", equal: same_good, all: good, percent: ACCEPTED_BAR },
        Bar {
            what: "same full stderr, where there is any",
            equal: same_text,
            all: with_text,
            percent: FULL_TEXT_BAR,
        },
    ])
}

#[derive(Debug, PartialEq)]
struct Case {
    name: String,
    /// `-arch`, if it isn't the module's own target.
    arch: Option<String>,
    source: String,
    answer: Answer,
}

impl Case {
    fn arch(&self) -> String {
        let own = || target_of(&self.source)?.strip_prefix("sm_").map(|sm| format!("compute_{sm}"));
        self.arch.clone().or_else(own).unwrap_or_else(|| DEFAULT_ARCH.into())
    }
}

#[derive(Debug, PartialEq)]
struct Answer {
    exit_code: i32,
    stderr: String,
}

impl Answer {
    /// The exit code and the first line that reports an error, by the severity before its message.
    fn verdict(&self) -> (i32, Option<&str>) {
        let is_error = |line: &&str| line.contains("error   : ") || line.contains("fatal   : ");
        (self.exit_code, self.stderr.lines().find(is_error))
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exits with {}", self.exit_code)?;
        self.stderr.lines().try_for_each(|line| write!(f, "\n      {line}"))
    }
}

fn read_cases(text: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    let mut in_answer = true;
    for line in text.split_inclusive('\n') {
        if let Some(head) = line.strip_prefix("=== ") {
            if !in_answer {
                return Err(format!("no '--- stderr' before '{}'", head.trim()).into());
            }
            cases.push(read_head(head)?);
            in_answer = false;
            continue;
        }
        let case = cases.last_mut().ok_or("text before the first case")?;
        if let Some(code) = line.strip_prefix("--- stderr ") {
            case.answer.exit_code = code.trim().parse()?;
            in_answer = true;
        } else if in_answer {
            case.answer.stderr += line;
        } else {
            case.source += line;
        }
    }
    if in_answer { Ok(cases) } else { Err("no '--- stderr' after the last case".into()) }
}

fn read_head(head: &str) -> Result<Case> {
    let (name, options) = head.trim().split_once(' ').unwrap_or((head.trim(), ""));
    let arch = match options {
        "" => None,
        _ => Some(options.strip_prefix("arch=").ok_or_else(|| format!("'{options}' is not known"))?),
    };
    let answer = Answer { exit_code: 0, stderr: String::new() };
    Ok(Case { name: name.to_owned(), arch: arch.map(str::to_owned), source: String::new(), answer })
}

/// The cases for which ptxas says something else than what is recorded.
fn stale_recordings(cases: &[Case]) -> Result<Vec<String>> {
    let tools = Tools::find()?;
    let answers = cases.par_iter().enumerate().map(|(number, case)| ask_ptxas(&tools, number, case));
    let answers = answers.collect::<Result<Vec<_>>>()?;
    let stale = cases.iter().zip(&answers).filter(|(case, answer)| case.answer != **answer);
    Ok(stale
        .map(|(case, answer)| format!("{}\n    ptxas {answer}\n    recorded: {}", case.name, case.answer))
        .collect())
}

fn ask_ptxas(tools: &Tools, number: usize, case: &Case) -> Result<Answer> {
    let dir = shell::target_dir().join(Path::new("conformance/mistakes").join(number.to_string()));
    shell::create_dir(&dir)?;
    shell::write(&dir.join(FILE), &case.source)?;
    let arch = format!("-arch={}", case.arch());
    let output = shell::capture(tools.command("ptxas").args([&arch, FILE]).current_dir(&dir))?;
    let exit_code = output.status.code().ok_or("ptxas was killed")?;
    Ok(Answer { exit_code, stderr: String::from_utf8_lossy(&output.stderr).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cases() {
        let text = "=== a\nx\n\n--- stderr 255\nptxas t.ptx, line 1; warning : w\nptxas error   : e\n=== b arch=sm_75\n.target sm_90a\n--- stderr 0\n";
        let cases = read_cases(text).unwrap();
        assert_eq!(cases.len(), 2);
        assert_eq!((cases[0].source.as_str(), cases[0].arch().as_str()), ("x\n\n", DEFAULT_ARCH));
        assert_eq!(cases[0].answer.verdict(), (255, Some("ptxas error   : e")));
        assert_eq!((cases[1].source.as_str(), cases[1].arch().as_str()), (".target sm_90a\n", "sm_75"));
        assert_eq!(cases[1].answer.verdict(), (0, None));
        assert_eq!(Case { arch: None, ..read_cases(text).unwrap().remove(1) }.arch(), "compute_90a");
    }

    #[test]
    fn refuses_half_a_case() {
        for bad in [
            "x\n=== a\n--- stderr 0\n",
            "=== a\nx\n",
            "=== a\n=== b\n--- stderr 0\n",
            "=== a b\n--- stderr 0\n",
        ] {
            assert!(read_cases(bad).is_err(), "{bad}");
        }
    }
}
