//! IR file tests: `tests/ir/PASS/*.ori` hold the input and the expected output of passes in the text form of the IR.
//!
//! ```text
//! ; The property that the file shows.
//! ; test: licm
//! ; target: sm_90
//! function f {
//! ...
//! }
//! ; expect:
//! ; function f {
//! ; ...
//! ; }
//! ```
//!
//! * `; test: PASS[,PASS]` names the passes, in order; the folder's is among them.
//! * A machine pass (`regalloc` and those after it) runs on what the passes before it in the list make of the input, which
//!   is Ori all the same: `; test: regalloc, layout`. Its output is machine code (`--dump-ir` has the same form): blocks of
//!   instructions after `regalloc`, one list after `linearize`, with control codes after `control-codes`, addresses after
//!   `emit`. A list that leaves out a pass that another one needs fails. The Ori must be as the passes before `regalloc`
//!   leave it: legal, without critical edges, with convergence barriers around divergent branches.
//! * `; target: TARGET`, `; registers: N` and `; level: N` are options; without them the target is sm_90, registers are
//!   unlimited, and the level is 3. It only counts for passes that ask for it; those in the list always run.
//! * After `; expect:` comes the whole output, each line a comment. `UPDATE_EXPECT=1 cargo test -p sassafras --test
//!   ir_files` rewrites it; read the difference before it is committed.
//! * In place of it, `; check: TEXT` lines name texts that are found in lines of the output in this order, each in a
//!   line after the one before, and `; check-not: TEXT` texts that are found in no line. `; count N: TEXT`: N lines
//!   have the text.
//! * `; same` expects the input as it is: the pass has no reason to change it, or must not.
//! * `; error: TEXT` expects a pass to fail with a message that has the text.
//!
//! `sassafras opt --pass PASS FILE` runs a file by hand.

use std::path::{Path, PathBuf};

/// Files that every pass has at least.
const FILES_PER_PASS: usize = 3;
const EXPECT: &str = "; expect:";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/ir")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut all: Vec<PathBuf> = read.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

/// One line of a test beside the code.
#[derive(Debug, PartialEq)]
enum Check {
    Found(String),
    NotFound(String),
    Count(usize, String),
    Same,
    /// A pass fails.
    Error(String),
    /// The whole output.
    All(String),
}

#[derive(Debug)]
struct Case {
    passes: Vec<String>,
    target: String,
    registers: Option<u32>,
    level: u8,
    checks: Vec<Check>,
}

impl Case {
    fn parse(text: &str) -> Result<Case, String> {
        let (target, checks) = ("sm_90".into(), Vec::new());
        let mut case = Case { passes: Vec::new(), target, registers: None, level: 3, checks };
        let (code, expected) = split(text);
        for line in code.lines().filter_map(|line| line.trim().strip_prefix("; ")) {
            case.directive(line)?;
        }
        case.checks.extend(expected.map(Check::All));
        if case.passes.is_empty() || case.checks.is_empty() {
            return Err("needs a '; test:' line and an expectation".into());
        }
        Ok(case)
    }

    fn directive(&mut self, line: &str) -> Result<(), String> {
        if line == "same" {
            self.checks.push(Check::Same);
            return Ok(());
        }
        // Other comments have colons, too.
        let Some((word, rest)) = line.split_once(": ") else { return Ok(()) };
        let rest = rest.trim().to_string();
        match word {
            "test" => self.passes = rest.split(',').map(|name| name.trim().to_string()).collect(),
            "target" => self.target = rest,
            "registers" => self.registers = Some(rest.parse().map_err(|_| format!("registers: {rest}"))?),
            "level" => self.level = rest.parse().map_err(|_| format!("level: {rest}"))?,
            "error" => self.checks.push(Check::Error(rest)),
            "check" => self.checks.push(Check::Found(rest)),
            "check-not" => self.checks.push(Check::NotFound(rest)),
            _ => {
                if let Some(count) = word.strip_prefix("count ") {
                    let count = count.parse().map_err(|_| format!("count {count}"))?;
                    self.checks.push(Check::Count(count, rest));
                }
            }
        }
        Ok(())
    }

    fn expects_error(&self) -> bool {
        self.checks.iter().any(|check| matches!(check, Check::Error(_)))
    }

    /// What the passes make of a text; the message, if they are expected to fail.
    fn run(&self, text: &str) -> Result<String, String> {
        match (self.run_passes(text, self.passes.len(), None), self.expects_error()) {
            (Err(message), true) => Ok(message),
            (Ok(output), true) => Err(format!("no pass fails:\n{output}")),
            (outcome, false) => outcome,
        }
    }

    fn options(&self) -> Result<sassafras::Options, String> {
        let target = ptx::Target::find(&self.target).ok_or_else(|| format!("no target {}", self.target))?;
        let mut options = sassafras::Options::new(target).with(|o| o.level = self.level);
        options.launch.max_registers = self.registers;
        Ok(options)
    }

    /// Runs the first passes of the list.
    fn run_passes(&self, text: &str, count: usize, fuel: Option<u32>) -> Result<String, String> {
        let options = self.options()?.with(|o| o.fuel = fuel);
        let passes: Vec<&str> = self.passes[..count].iter().map(String::as_str).collect();
        sassafras::opt_text(text, &passes, &options).map_err(|e| e.to_string())
    }

    /// The first expectation that the output does not meet.
    fn check(&self, text: &str, output: &str) -> Result<(), String> {
        let mut rest = output.lines();
        for check in &self.checks {
            let lines = |text: &String| output.lines().filter(|line| line.contains(text.as_str())).count();
            let met = match check {
                Check::Found(text) => rest.any(|line| line.contains(text.as_str())),
                Check::NotFound(text) => lines(text) == 0,
                Check::Count(count, text) => lines(text) == *count,
                Check::Same => printed(text)? == output,
                Check::Error(text) => lines(text) == 1,
                Check::All(expected) => expected.trim() == output.trim(),
            };
            if !met {
                return Err(match check {
                    Check::All(expected) => format!("expected\n{expected}\nfound\n{output}"),
                    other => format!("{other:?} is not met by\n{output}"),
                });
            }
        }
        Ok(())
    }
}

/// The code with its directives, and the output that is expected, without its comment signs.
fn split(text: &str) -> (&str, Option<String>) {
    let Some(at) = text.find(&format!("{EXPECT}\n")) else { return (text, None) };
    let (code, expected) = text.split_at(at);
    let lines = expected.lines().skip(1);
    let plain = lines.map(|line| line.strip_prefix("; ").or(line.strip_prefix(';')).unwrap_or(line));
    (code, Some(plain.collect::<Vec<_>>().join("\n")))
}

/// The text with another expectation.
fn rewritten(text: &str, output: &str) -> String {
    let (code, _) = split(text);
    let lines: String =
        output.trim().lines().map(|line| format!("; {line}").trim_end().to_string() + "\n").collect();
    format!("{code}{EXPECT}\n{lines}")
}

/// The functions of a text as they are printed.
fn printed(text: &str) -> Result<String, String> {
    let functions = ori::parse::parse(text).map_err(|e| e.to_string())?;
    Ok(functions.iter().map(|f| f.to_string()).collect::<Vec<_>>().join("\n"))
}

/// Runs a file; `update` rewrites an expected output that differs.
fn run_file(path: &Path, pass: &str, update: bool) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let case = Case::parse(&text)?;
    if !case.passes.iter().any(|name| name == pass) {
        return Err(format!("does not test {pass}"));
    }
    if !text.starts_with("; ") {
        return Err("begins without a comment that names the property".into());
    }
    let output = case.run(&text)?;
    let new = rewritten(&text, &output);
    if update && new != text && case.checks.iter().any(|c| matches!(c, Check::All(_))) {
        return std::fs::write(path, new).map_err(|e| e.to_string());
    }
    case.check(&text, &output)
}

#[test]
fn files_meet_their_expectations() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1");
    let mut failures = Vec::new();
    let mut files = 0;
    for folder in entries(&root()) {
        let pass = folder.file_name().expect("a name").to_string_lossy().into_owned();
        for path in entries(&folder) {
            files += 1;
            if let Err(message) = run_file(&path, &pass, update) {
                let name = path.file_name().expect("a name").to_string_lossy();
                failures.push(format!("tests/ir/{pass}/{name}: {message}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {files} files:\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn every_pass_has_files() {
    let folders: Vec<String> = entries(&root())
        .iter()
        .map(|folder| folder.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    let known: Vec<&str> = sassafras::pass_names().collect();
    for folder in &folders {
        assert!(known.contains(&folder.as_str()), "tests/ir/{folder} is for no pass");
    }
    for pass in known {
        let files = if folders.iter().any(|f| f == pass) { entries(&root().join(pass)).len() } else { 0 };
        assert!(files >= FILES_PER_PASS, "tests/ir/{pass} has {files} files");
    }
}

/// Without fuel, an optional pass leaves the code as the passes before it made it, but for dead code.
#[test]
fn optional_passes_take_fuel() {
    let (mut tried, mut changed) = (0, Vec::new());
    for pass in sassafras::pass_names().filter(|pass| sassafras::optional_pass(pass).is_ok()) {
        for path in entries(&root().join(pass)) {
            let text = std::fs::read_to_string(&path).expect("a file");
            let case = Case::parse(&text).expect("a test");
            let last = case.passes.len();
            if case.passes.last().is_none_or(|name| name != pass) || case.expects_error() {
                continue;
            }
            let before = case.run_passes(&text, last - 1, Some(0)).expect("passes before it");
            let after = case.run_passes(&text, last, Some(0)).expect("the pass");
            let clean = match before.starts_with("machine") {
                true => before.clone(),
                false => sassafras::opt_text(&before, &["simplify"], &case.options().expect("options"))
                    .expect("simplify"),
            };
            if after != before && after != clean {
                changed.push(format!("{}:\n{before}\n{after}", path.display()));
            }
            tried += 1;
        }
    }
    assert!(changed.is_empty(), "{} of {tried} files:\n{}", changed.len(), changed.join("\n"));
    assert!(tried >= 3 * FILES_PER_PASS, "{tried}");
}

#[test]
fn expectations_that_are_not_met_fail() {
    let code = "function f {\nb0:\n    v0:R = MOV 0x1\n    exit\n}\n";
    let outcome = |directives: &str| {
        let text = format!("; test: dce\n{directives}\n{code}");
        let case = Case::parse(&text)?;
        case.check(&text, &case.run(&text)?)
    };
    assert_eq!(outcome("; check: b0\n; check: exit\n; check-not: MOV\n; count 1: exit"), Ok(()));
    let wrong = ["; check: MOV", "; check: exit\n; check: b0", "; check-not: exit", "; count 2: exit"];
    for wrong in wrong.into_iter().chain(["; same", "; error: it needs"]) {
        assert!(outcome(wrong).is_err(), "{wrong}");
    }
    let error = |message: &str| {
        let text = format!("; test: emit\n; error: {message}\n{code}");
        let case = Case::parse(&text)?;
        case.check(&text, &case.run(&text)?)
    };
    assert_eq!(error("it needs linear code"), Ok(()));
    assert!(error("another message").is_err());
    let text = format!("; test: dce\n{code}");
    assert!(Case::parse(&text).is_err(), "a test without an expectation");
    let updated = rewritten(&text, "function f {\n}\n");
    assert!(updated.ends_with("}\n; expect:\n; function f {\n; }\n"), "{updated}");
    assert_eq!(rewritten(&updated, "function f {\n}\n"), updated);
    let case = Case::parse(&updated).expect("a test");
    assert!(case.check(&updated, "function g {\n}\n").is_err());
}
