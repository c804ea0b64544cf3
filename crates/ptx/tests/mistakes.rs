//! What the front end says about the recorded modules, most of them bad: the same as ptxas.
//!
//! A case of `mistakes/*.txt` is a line `=== name`, with `arch=NAME` after it where ptxas was called for another
//! machine than the module's own; the PTX text; a line `--- stderr <exit code>`; and what ptxas printed.

use ptx::diag::{ABORTED, render_ptxas};
use std::path::Path;

/// The name of the file in the recordings.
const FILE: &str = "t.ptx";

/// A file of cases, and how many of them per cent must have the same first error and exit code, and of those
/// for which ptxas prints anything, the same text.
struct Bar {
    file: &'static str,
    first_error: usize,
    full_text: usize,
}

const fn bar(file: &'static str, first_error: usize, full_text: usize) -> Bar {
    Bar { file, first_error, full_text }
}

const BARS: &[Bar] = &[
    bar("calls", 100, 95),
    bar("directives", 100, 95),
    bar("header", 100, 95),
    bar("headings", 100, 98),
    bar("initialisers", 100, 95),
    bar("labels", 100, 95),
    bar("literals", 100, 95),
    bar("modifiers", 100, 95),
    bar("operands", 100, 95),
    bar("performance-directives", 100, 95),
    bar("scopes", 100, 95),
    bar("symbols", 100, 95),
    bar("syntax", 100, 95),
    bar("vectors", 100, 95),
    bar("versions", 100, 95),
];

/// Cases that can't be the same here, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("silent-pred", "ptxas ignores a type that has no meaning there"),
    ("silent-reference-type", "the same"),
    (
        "special-register-vector-of-scalar",
        "ptxas hands out the bytes of one register: a form without a meaning",
    ),
    ("f16x2-register-as-pred", "ptxas takes two halves for a truth value"),
    ("ldmatrix-predicate-element", "ptxas loads a row of a matrix into a predicate"),
    ("variable-element-beyond-size", "ptxas reads the third element of a vector of two"),
];

struct Case {
    name: String,
    /// `-arch`, where it was not the module's own target.
    arch: Option<String>,
    source: String,
    exit_code: i32,
    stderr: String,
}

fn read_cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut in_answer = false;
    for line in text.split_inclusive('\n') {
        if let Some(head) = line.strip_prefix("=== ") {
            let mut words = head.split_whitespace();
            let name = words.next().expect("a name").to_string();
            let arch = words.next().and_then(|w| w.strip_prefix("arch=")).map(str::to_string);
            cases.push(Case { name, arch, source: String::new(), exit_code: 0, stderr: String::new() });
            in_answer = false;
            continue;
        }
        let case = cases.last_mut().expect("a case before any text");
        if let Some(code) = line.strip_prefix("--- stderr ") {
            case.exit_code = code.trim().parse().expect("an exit code");
            in_answer = true;
        } else if in_answer {
            case.stderr += line;
        } else {
            case.source += line;
        }
    }
    cases
}

/// What the command would print when it only checks the module, and its exit code.
fn check(case: &Case) -> (i32, String) {
    let options = ptx::Options { toolkit: Some(ptx::Toolkit::V13_0), ..ptx::Options::for_file(FILE) };
    let parsed = ptx::parse(&case.source, &options);
    let mut stderr = render_ptxas(FILE, &parsed.diagnostics);
    if parsed.failed() {
        return (255, format!("{stderr}{ABORTED}\n"));
    }
    match case.arch.as_ref().and_then(|arch| parsed.refused_for(arch)) {
        Some(refusal) => {
            stderr += &format!("ptxas fatal   : {refusal}\n");
            (255, stderr)
        }
        None => (0, stderr),
    }
}

fn first_error(stderr: &str) -> Option<&str> {
    stderr.lines().find(|line| line.contains("error   : ") || line.contains("fatal   : "))
}

#[test]
fn says_what_ptxas_says() {
    let mut missed = String::new();
    for bar in BARS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/mistakes/{}.txt", bar.file));
        let cases = read_cases(&std::fs::read_to_string(&path).expect("the recorded cases"));
        assert!(!cases.is_empty(), "{} has no cases", bar.file);
        let (mut same_first, mut same_text, mut all, mut with_text) = (0, 0, 0, 0);
        let mut differences = String::new();
        for case in cases.iter().filter(|c| EXCEPTIONS.iter().all(|(name, _)| *name != c.name)) {
            let (exit_code, stderr) = check(case);
            let first = exit_code == case.exit_code && first_error(&stderr) == first_error(&case.stderr);
            let text = exit_code == case.exit_code && stderr == case.stderr;
            all += 1;
            same_first += usize::from(first);
            with_text += usize::from(!case.stderr.is_empty());
            same_text += usize::from(text && !case.stderr.is_empty());
            if !text {
                let what = if first { "text" } else { "first error" };
                differences +=
                    &format!("  {} ({what})\n ptxas:\n{}\n ours:\n{stderr}\n", case.name, case.stderr);
            }
        }
        let reached =
            same_first * 100 >= all * bar.first_error && same_text * 100 >= with_text * bar.full_text;
        println!("{:24} first error {same_first} of {all}, text {same_text} of {with_text}", bar.file);
        if !reached {
            missed += &format!(
                "{}: first error {same_first} of {all}, text {same_text} of {with_text}\n{differences}",
                bar.file
            );
        }
    }
    assert!(missed.is_empty(), "bars missed:\n{missed}");
}

#[test]
fn exceptions_are_needed() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let mut cases = Vec::new();
    for bar in BARS {
        let text =
            std::fs::read_to_string(dir.join(format!("{}.txt", bar.file))).expect("the recorded cases");
        cases.extend(read_cases(&text));
    }
    for (name, reason) in EXCEPTIONS {
        let case = cases.iter().find(|c| c.name == *name).expect("an exception names a case");
        let (exit_code, stderr) = check(case);
        assert!(exit_code != case.exit_code || stderr != case.stderr, "{name} is no exception: {reason}");
    }
}
