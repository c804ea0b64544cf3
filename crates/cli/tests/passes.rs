//! Options about passes, which ptxas doesn't have: `--disable-pass`, `--help-passes`, `--dump-ir`.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

fn sassafras(options: &[&str]) -> Output {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/saxpy.ptx");
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let cubin = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("passes{call}.cubin"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_sassafras"));
    command.args(options).arg("-arch=sm_90").arg(example).arg("-o").arg(cubin);
    command.output().expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The names of a level in the table of `--help-passes`.
fn passes(is_wanted: fn(u32) -> bool) -> Vec<String> {
    let help = text(&sassafras(&["--help-passes"]).stdout);
    let words = help.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = words.filter(|words| matches!(words.get(2), Some(&"Ori" | &"mach")));
    let of_level = rows.filter(|words| words[1].parse().is_ok_and(is_wanted));
    of_level.map(|words| words[0].to_string()).collect()
}

#[test]
fn optional_passes_can_be_disabled() {
    let optional = passes(|level| level > 0);
    assert!(optional.len() >= 10, "{optional:?}");
    for pass in optional.iter().cloned().chain([optional.join(",")]) {
        let output = sassafras(&["--verify", "--disable-pass", &pass, "--time-passes"]);
        let log = text(&output.stderr);
        assert!(output.status.success(), "{pass}: {log}");
        assert!(
            log.lines().all(|line| !pass.split(',').any(|name| line.ends_with(&format!("  {name}")))),
            "{log}"
        );
    }
}

#[test]
fn required_and_unknown_passes_are_refused() {
    for pass in passes(|level| level == 0) {
        let output = sassafras(&["--disable-pass", &pass]);
        assert!(!output.status.success(), "{pass}");
        assert!(text(&output.stderr).contains("is needed for correct code"), "{pass}");
    }
    for options in [["--disable-pass", "nope"], ["--dump-ir=nope", "-v"]] {
        let output = sassafras(&options);
        assert!(!output.status.success() && text(&output.stderr).contains("There is no pass 'nope'"));
    }
}

#[test]
fn every_pass_is_dumped_and_timed() {
    let dumped = text(&sassafras(&["--dump-ir"]).stderr);
    let timed = text(&sassafras(&["--time-passes"]).stderr);
    for pass in passes(|_| true) {
        assert!(dumped.contains(&format!("after {pass}\n")), "{pass}");
        assert!(timed.contains(&format!("  {pass}\n")), "{pass}");
    }
}
