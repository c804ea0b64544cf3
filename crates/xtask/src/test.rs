//! `cargo xtask test`: format, lints, documentation, dependencies, all tests, and the conformance parts that need only
//! this repository.
//!
//! Every step runs even if one before it failed, so that one run shows everything that is wrong; the summary
//! at the end lists the steps and the task fails if one of them did.

use crate::tools::Tools;
use crate::{Result, bench, conformance, dependencies, fuzz, readme, shell, wheel};
use sim::generate::Kind;
use std::time::{Duration, Instant};

/// How many files of the repository's corpus go through ptxas twice.
const PTXAS_SAME: usize = 12;

/// The fixed-seed part of the fuzzing campaign.
const FUZZ_TIME: Duration = Duration::from_secs(20);
const FUZZ_PROGRAMS: u64 = 300;
const FUZZ_OTHER_KINDS: u64 = 100;

type Step = (&'static str, fn() -> Result<()>);

const STEPS: [Step; 24] = [
    ("format", || shell::run(&mut shell::cargo(["fmt", "--all", "--check"]))),
    ("lints", || {
        let clippy = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
        shell::run(&mut shell::cargo(clippy))
    }),
    ("documentation", || {
        let doc = ["doc", "--quiet", "--workspace", "--no-deps"];
        shell::run(shell::cargo(doc).env("RUSTDOCFLAGS", "-D warnings"))
    }),
    ("dependencies", dependencies::check),
    ("tests", || shell::run(&mut shell::cargo(["test", "--quiet", "--workspace"]))),
    ("wheel", || wheel::test("dev")),
    ("readme", readme::run),
    // Before what takes more memory: it watches the most that this process ever had.
    ("fuzz: front end", || fuzz::frontend::run(FUZZ_TIME, 1)),
    ("conformance: forms", || conformance::run_part("forms", &Default::default())),
    ("conformance: compile-forms", || conformance::run_part("compile-forms", &Default::default())),
    ("conformance: corpus", || {
        conformance::run_part(
            "corpus",
            &conformance::Options { ptxas_same: PTXAS_SAME, ..Default::default() },
        )
    }),
    ("conformance: simulator", || conformance::run_part("simulator", &Default::default())),
    ("conformance: kernels", || conformance::run_part("kernels", &Default::default())),
    ("conformance: matrix", || conformance::run_part("matrix", &Default::default())),
    ("conformance: modifiers", || conformance::run_part("modifiers", &Default::default())),
    ("conformance: verify", || conformance::run_part("verify", &Default::default())),
    ("conformance: mutants", || conformance::run_part("mutants", &Default::default())),
    ("conformance: mistakes", || conformance::run_part("mistakes", &Default::default())),
    ("conformance: reproducible", || conformance::run_part("reproducible", &Default::default())),
    ("conformance: pages", || conformance::run_part("pages", &Default::default())),
    ("conformance: binutils", || conformance::run_part("binutils", &Default::default())),
    ("scale: counted", bench::scale::count),
    ("fuzz: programs", || fuzz::programs::run(&fuzz::Campaign::of(0..FUZZ_PROGRAMS))),
    ("fuzz: other kinds", || {
        let kinds = [Kind::Exchange, Kind::Modifiers, Kind::Operands];
        fuzz::programs::run(&fuzz::Campaign::of(0..FUZZ_OTHER_KINDS).with_kinds(&kinds))
    }),
];

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    if let Some(argument) = arguments.next()? {
        return Err(argument.unexpected().into());
    }
    Tools::find()?.check_versions()?;

    let results: Vec<(&str, Duration, Result<()>)> = STEPS
        .into_iter()
        .map(|(name, step)| {
            println!("\n== {name}");
            let start = Instant::now();
            let result = step();
            (name, start.elapsed(), result)
        })
        .collect();

    println!("\n== summary");
    for (name, time, result) in &results {
        let verdict = result.as_ref().map_or_else(|error| format!("FAILED: {error}"), |()| "ok".into());
        println!("{name:<24} {:>6.1} s  {verdict}", time.as_secs_f64());
    }
    match results.iter().filter(|(_, _, result)| result.is_err()).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} steps failed", STEPS.len()).into()),
    }
}
