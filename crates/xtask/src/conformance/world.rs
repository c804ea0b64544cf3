//! Part `world`: programs that others wrote, in folders that the command line names.
//!
//! Nothing of them is in the repository: `tests/world` has a script for each front end that makes such a folder,
//! and says what it installs. Both commands compile each file for its own target, or for those of `--target`, as an
//! executable at -O0 and -O3 and for a linker. Exit code, errors and warnings must be the same; what ptxas is glad to
//! inform about (`info`) is about its own code. Our cubins pass `verify`, and nvdisasm reads them.
//!
//! The command is a process of its own: a panic, an abort or a run without an end is a difference like any other.

use super::{Bar, Options, list_differences};
use crate::compile::target_of;
use crate::reference::retarget;
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use std::path::Path;
use std::process::Command;

/// How each file is compiled.
const WAYS: [&[&str]; 3] = [&[], &["-O0"], &["-c"]];
/// Seconds, after which a compilation is taken for one without an end.
const TIME_LIMIT: &str = "600";
/// What `timeout` ends with.
const TIMED_OUT: i32 = 124;
/// The lowest target that ptxas still has: files for older ones are compiled for it.
const OLDEST: &str = "sm_75";

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    if options.folders.is_empty() {
        return Err("name folders of PTX: tests/world has scripts that fill some".into());
    }
    let tools = Tools::find()?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => shell::installed_command()?,
    };
    let scratch = shell::target_dir().join("conformance/world");
    shell::create_dir(&scratch)?;
    let mut files = Vec::new();
    for folder in &options.folders {
        files.extend(shell::files_below(folder, "ptx")?);
    }
    let subject = Subject { tools: &tools, program: &program, scratch: &scratch };
    let tallies = files.par_iter().enumerate().map(|(number, file)| subject.file(options, number, file));
    let total = tallies.collect::<Result<Vec<_>>>()?.into_iter().fold(Tally::default(), Tally::with);
    list_differences("another verdict", &total.verdicts, options.show);
    list_differences("the same verdict with other messages", &total.messages, options.show);
    list_differences("our cubins with reports of verify", &total.reports, options.show);
    list_differences("our cubins that nvdisasm can't read", &total.unread, options.show);
    let bar = |what, wrong: &[String], all: usize| Bar {
        what,
        equal: all.saturating_sub(wrong.len()),
        all,
        percent: 100,
    };
    Ok(vec![
        bar("the same verdict", &total.verdicts, total.compiled),
        bar("the same errors and warnings", &total.messages, total.compiled),
        bar("cubins without a report of verify", &total.reports, total.cubins),
        bar("cubins that nvdisasm reads", &total.unread, total.cubins),
    ])
}

#[derive(Default)]
struct Tally {
    compiled: usize,
    cubins: usize,
    verdicts: Vec<String>,
    messages: Vec<String>,
    reports: Vec<String>,
    unread: Vec<String>,
}

impl Tally {
    fn with(mut self, other: Tally) -> Tally {
        self.compiled += other.compiled;
        self.cubins += other.cubins;
        self.verdicts.extend(other.verdicts);
        self.messages.extend(other.messages);
        self.reports.extend(other.reports);
        self.unread.extend(other.unread);
        self
    }
}

/// Who compiles, and where the results go.
struct Subject<'a> {
    tools: &'a Tools,
    program: &'a Path,
    scratch: &'a Path,
}

impl Subject<'_> {
    fn file(&self, options: &Options, number: usize, file: &Path) -> Result<Tally> {
        // Others write what they like, in any encoding.
        let text = String::from_utf8_lossy(&shell::read_bytes(file)?).into_owned();
        let dir = self.scratch.join(number.to_string());
        shell::create_dir(&dir)?;
        let mut tally = Tally::default();
        let targets = match &options.target {
            Some(names) => names.split(',').map(|name| (name.to_string(), retarget(&text, name))).collect(),
            None => vec![(own_target(&text), text)],
        };
        for (target, text) in targets {
            shell::write(&dir.join("in.ptx"), text)?;
            for way in WAYS {
                let what = format!("{} for {target} {}", file.display(), way.join(" "));
                self.compare(&dir, &target, way, &what, &mut tally)?;
            }
        }
        std::fs::remove_dir_all(&dir)?;
        Ok(tally)
    }

    fn compare(&self, dir: &Path, target: &str, way: &[&str], what: &str, tally: &mut Tally) -> Result<()> {
        let ptxas = self.tools.bin().join("ptxas");
        let [theirs, ours] = [(&*ptxas, "theirs.cubin"), (self.program, "ours.cubin")]
            .map(|(program, output)| answer(program, dir, target, way, output));
        let (theirs, ours) = (theirs?, ours?);
        tally.compiled += 1;
        if theirs.exit_code != ours.exit_code {
            tally.verdicts.push(format!("{what}\n    ptxas {theirs}\n    ours  {ours}"));
        } else if theirs.messages != ours.messages {
            tally.messages.push(format!("{what}\n    ptxas {theirs}\n    ours  {ours}"));
        }
        let cubin = dir.join("ours.cubin");
        if ours.exit_code != 0 || !cubin.is_file() {
            return Ok(());
        }
        tally.cubins += 1;
        match sim::verify::verify(&shell::read_bytes(&cubin)?) {
            Ok(verdict) => tally.reports.extend(verdict.reports.first().map(|r| format!("{what}\n    {r}"))),
            Err(error) => tally.reports.push(format!("{what}\n    {error}")),
        }
        // What it can't read of ptxas either, like variables of 8 TB, says nothing.
        if let Some(said) = self.complaint(&cubin)?
            && self.complaint(&dir.join("theirs.cubin"))?.is_none()
        {
            tally.unread.push(format!("{what}\n    {said}"));
        }
        std::fs::remove_file(cubin)?;
        Ok(())
    }

    /// What nvdisasm says of a cubin that it can't read.
    fn complaint(&self, cubin: &Path) -> Result<Option<String>> {
        let read = shell::capture(self.tools.command("nvdisasm").arg("-c").arg(cubin))?;
        let said = String::from_utf8_lossy(&read.stderr);
        let fails = !read.status.success() || !said.is_empty();
        Ok(fails.then(|| said.lines().next().unwrap_or("failed").to_string()))
    }
}

/// What a compiler said.
struct Answer {
    exit_code: i32,
    /// Errors and warnings.
    messages: Vec<String>,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 3;
        match self.exit_code {
            TIMED_OUT => f.write_str("no end")?,
            code => write!(f, "{code}")?,
        }
        self.messages.iter().take(SHOWN).try_for_each(|message| write!(f, "\n      {message}"))
    }
}

fn answer(program: &Path, dir: &Path, target: &str, way: &[&str], output: &str) -> Result<Answer> {
    let mut command = Command::new("timeout");
    command.arg(TIME_LIMIT).arg(program).arg(format!("-arch={target}")).args(way);
    command.args(["in.ptx", "-o", output]).current_dir(dir);
    let made = shell::capture(&mut command)?;
    let text = [made.stdout, made.stderr].concat();
    let messages = String::from_utf8_lossy(&text).lines().filter(|l| !is_info(l)).map(String::from).collect();
    // A signal has no code.
    Ok(Answer { exit_code: made.status.code().unwrap_or(-1), messages })
}

fn is_info(line: &str) -> bool {
    line.starts_with("ptxas info") || line.contains("; info    : ")
}

/// The file's target, or the oldest that there is.
fn own_target(text: &str) -> String {
    let target = target_of(text).unwrap_or(OLDEST);
    let number = |name: &str| -> Option<u32> {
        let digits = name.strip_prefix("sm_")?;
        digits.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()
    };
    if number(target) < number(OLDEST) { OLDEST.into() } else { target.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_targets_become_the_oldest_that_there_is() {
        for (text, target) in [
            (".target sm_20\n", "sm_75"),
            (".target sm_90a, debug\n", "sm_90a"),
            (".target sm_100f\n", "sm_100f"),
            ("", "sm_75"),
        ] {
            assert_eq!(own_target(text), target, "{text}");
        }
    }

    #[test]
    fn information_is_no_message() {
        assert!(is_info("ptxas info    : (C7519) warpgroup.arrive is injected"));
        assert!(is_info("ptxas t.ptx, line 9; info    : Potential out of bound access"));
        assert!(!is_info("ptxas warning : x"));
        assert!(!is_info("ptxas t.ptx, line 1; error   : x"));
    }
}
