//! Which release of the toolkit accepts what, as recorded from the ptxas of each
//! (`cargo xtask conformance toolkits DIR...`).

#[path = "toolkits/recording.rs"]
mod recording;

use ptx::{Severity, Toolkit};
use recording::Case;

fn cases() -> Vec<Case> {
    recording::read(include_str!("toolkits/recorded.txt")).expect("a recording")
}

/// Our first error, as that release.
fn answer(case: &Case, toolkit: Toolkit) -> Option<String> {
    let options = ptx::Options { toolkit: Some(toolkit), ..ptx::Options::for_file("t.ptx") };
    let diagnostics = ptx::parse(&case.source(toolkit), &options).diagnostics;
    diagnostics.into_iter().find(|d| d.severity >= Severity::Error).map(|d| d.message)
}

#[test]
fn headers_as_each_release() {
    for case in cases().iter().filter(|case| case.form.is_empty()) {
        for (toolkit, theirs) in Toolkit::ALL.into_iter().zip(&case.answers) {
            assert_eq!(answer(case, toolkit), *theirs, "{} as {toolkit:?}", case.line());
        }
    }
}

/// The words of refusals are those of 13.0, where it has any for an instruction.
#[test]
fn instructions_as_each_release() {
    for case in cases().iter().filter(|case| !case.form.is_empty()) {
        assert_eq!(case.answers.len(), Toolkit::ALL.len(), "{}", case.line());
        for (toolkit, theirs) in Toolkit::ALL.into_iter().zip(&case.answers) {
            let ours = answer(case, toolkit);
            let is_accepted = theirs.is_none() && !case.is_refused_here;
            assert_eq!(ours.is_none(), is_accepted, "{} as {toolkit:?}: {ours:?}", case.line());
        }
    }
}

#[test]
fn a_refusal_here_is_one() {
    for case in cases().iter().filter(|case| case.is_refused_here) {
        assert!(case.answers.contains(&None), "{}: no release accepts it", case.line());
    }
}

/// Without a release named: what any accepts, in the words of the usual one.
#[test]
fn newer_versions_are_read() {
    let check = |version: &str| {
        let source = format!(".version {version}\n.target sm_90\n.address_size 64\n.entry k() {{ ret; }}\n");
        ptx::parse(&source, &ptx::Options::default()).diagnostics.first().map(|d| d.message.clone())
    };
    for version in Toolkit::NEWEST.versions() {
        let is_too_old = version.to_string().as_str() < "7.8" || version.major >= 10;
        assert_eq!(check(&version.to_string()).is_some(), is_too_old, "{version}");
    }
    assert_eq!(check("9.5").as_deref(), Some("Unsupported .version 9.5; current version is '9.0'"));
}
