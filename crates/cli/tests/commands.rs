//! The recorded command lines: the same exit code, standard error and outputs as ptxas.

#[path = "commands/recording.rs"]
mod recording;

use recording::{Answer, Case};
use std::path::{Path, PathBuf};

/// How many lines are wanted, and how many of a thousand must be the same.
const WANTED: usize = 400;
const SAME_PER_MILLE: usize = 990;

/// Command lines with another answer than ptxas's, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "$ -arch=sm_90 -ias \".version 8.0 .target sm_75 .entry k() { ret; }\" \
         -ias \".version 8.0 .target sm_75 .entry k() { ret; }\"",
        "ptxas takes two kernels of one name on one line for the same, and then has an internal error",
    ),
    (
        "$ -arch=sm_90 -e k,k k.ptx",
        "ptxas has an internal error when a kernel is named twice; we compile it once",
    ),
    ("$ -arch=sm_90 --link-info=links k.ptx", "ptxas fills the file with '(null)'; we write none"),
    ("$ -arch=sm_90 -sanitize=memcheck k.ptx", MEMCHECK),
    ("$ -arch=sm_90 -m64 -sanitize=memcheck k.ptx -o out.cubin", MEMCHECK),
];

const MEMCHECK: &str = "ptxas instruments the code; we don't, and warn";

/// The file with what the compiler refuses.
const NOT_YET: &str = "not-yet.txt";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands")
}

/// The cases of the files that are wanted, by name.
fn cases(is_wanted: fn(&str) -> bool) -> Vec<Case> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the recordings")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_wanted))
        .collect();
    files.sort();
    let read = |path: &PathBuf| recording::read(&std::fs::read_to_string(path).expect("a recording"));
    files.iter().flat_map(|path| read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).collect()
}

fn is_compared(name: &str) -> bool {
    name.ends_with(".txt") && name != NOT_YET
}

fn ours(case: &Case) -> Answer {
    // Tests run at the same time, each in its own folder.
    let test = std::thread::current().name().unwrap_or_default().to_string();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    case.run(Path::new(env!("CARGO_BIN_EXE_sassafras")), &folder().join("inputs"), &scratch)
        .expect("an answer")
}

#[test]
fn answers_as_ptxas_does() {
    let cases = cases(is_compared);
    assert!(cases.len() >= WANTED, "{} command lines", cases.len());
    let mut differences = Vec::new();
    for case in &cases {
        let theirs = case.answer.as_ref().unwrap_or_else(|| panic!("{} has no answer", case.line()));
        let ours = ours(case);
        let reason = EXCEPTIONS.iter().find(|(line, _)| *line == case.line());
        match (ours == *theirs, reason) {
            (true, Some(_)) => panic!("{} is no exception", case.line()),
            (true, None) => {}
            (false, Some((line, reason))) => differences.push(format!("{line}\n  known: {reason}")),
            (false, None) => panic!("{}\nptxas: {theirs:#?}\nours: {ours:#?}", case.line()),
        }
    }
    let same = cases.len() - differences.len();
    println!("{same} of {} the same\n{}", cases.len(), differences.join("\n"));
    assert!(same * 1000 >= cases.len() * SAME_PER_MILLE, "{same} of {}", cases.len());
}

/// The same answer, or a plain no: never a cubin that is not what was asked for.
#[test]
fn what_is_not_supported_yet_is_refused() {
    let cases = cases(|name| name == NOT_YET);
    assert!(!cases.is_empty());
    let mut same = 0;
    for case in &cases {
        let ours = ours(case);
        if case.answer.as_ref() == Some(&ours) {
            same += 1;
            continue;
        }
        assert!(ours.is_refusal(), "{}\nptxas: {:#?}\nours: {ours:#?}", case.line(), case.answer);
    }
    println!("{same} of {} the same, the others are refused", cases.len());
}

#[test]
fn exceptions_name_recorded_lines() {
    let cases = cases(is_compared);
    for (line, _) in EXCEPTIONS {
        assert!(cases.iter().any(|case| case.line() == *line), "{line}");
    }
}

#[test]
fn recordings_are_written_as_they_are_read() {
    for case in cases(|name| name.ends_with(".txt")) {
        let cases = vec![case];
        assert_eq!(recording::read(&recording::write(&cases)).expect("a recording"), cases);
    }
}
