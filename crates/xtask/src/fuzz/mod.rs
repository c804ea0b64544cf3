//! `cargo xtask fuzz`: inputs that nobody thought of.
//!
//! `programs` and `gpu` need nothing but this program: no checkout, no Rust, and ptxas only where it is asked for.

pub mod frontend;
mod gpu;
pub mod programs;
mod ptxas;
mod subject;
pub mod tokens;

use crate::{Result, pressure, shell};
use sim::generate::{self, Kind, Program};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use subject::{WAYS, Way};

/// What differences of ptxas's code are called.
const REFERENCE: &str = "ptxas";

/// Which programs, how, and where to put those that fail.
pub struct Campaign {
    seeds: Range<u64>,
    /// The kinds of programs; each seed gives one of each.
    kinds: Vec<Kind>,
    jobs: usize,
    time_limit: Duration,
    /// With ptxas's code, too.
    reference: bool,
    keep: PathBuf,
    /// Failures of one stage that are reduced; of the others the seeds are enough.
    reduce: usize,
    /// The names of the ways to compile.
    ways: Vec<String>,
}

impl Campaign {
    /// All of these programs, on all processors.
    pub fn of(seeds: Range<u64>) -> Campaign {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let keep = shell::target_dir().join("fuzz");
        let ways = WAYS.iter().map(|way| way.name.to_string()).collect();
        let kinds = vec![Kind::Mixed];
        Campaign { seeds, kinds, jobs, time_limit: Duration::MAX, reference: false, keep, reduce: 2, ways }
    }

    /// The same programs in other kinds.
    pub fn with_kinds(self, kinds: &[Kind]) -> Campaign {
        Campaign { kinds: kinds.to_vec(), ..self }
    }

    /// Numbers of all programs: those of a seed stand side by side.
    fn numbers(&self) -> Range<u64> {
        let kinds = self.kinds.len() as u64;
        self.seeds.start.saturating_mul(kinds)..self.seeds.end.saturating_mul(kinds)
    }

    /// The program with a number.
    fn program(&self, number: u64) -> Program {
        let (kind, seed) = self.named(number);
        Program::of(kind, seed)
    }

    fn named(&self, number: u64) -> (Kind, u64) {
        let kinds = self.kinds.len().max(1) as u64;
        let kind = self.kinds.get((number % kinds) as usize).copied().unwrap_or(Kind::Mixed);
        (kind, number / kinds)
    }

    /// The programs with these numbers, as seeds by kind.
    fn listed(&self, numbers: impl IntoIterator<Item = u64>) -> String {
        let mut seeds: BTreeMap<Kind, BTreeSet<u64>> = BTreeMap::new();
        for (kind, seed) in numbers.into_iter().map(|number| self.named(number)) {
            seeds.entry(kind).or_default().insert(seed);
        }
        let lists: Vec<_> = seeds.iter().map(|(kind, seeds)| format!("{} {seeds:?}", kind.name())).collect();
        lists.join(", ")
    }

    fn has(&self, way: &Way) -> bool {
        self.ways.iter().any(|name| name == way.name)
    }
}

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let mut campaign = Campaign::of(0..1000);
    let (mut seconds, mut seed) = (600u64, 1);
    let (mut worker, mut simulator) = (false, false);
    let part = match arguments.next()? {
        Some(Value(part)) => part.to_string_lossy().into_owned(),
        Some(option) => return Err(option.unexpected().into()),
        None => return Err("fuzz what? frontend, tokens, disasm, programs, print, pressure or gpu".into()),
    };
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("seconds") => seconds = arguments.value()?.parse()?,
            Long("seed") => seed = arguments.value()?.parse()?,
            Long("seeds") => campaign.seeds = arguments.value()?.parse_with(seeds)?,
            Long("jobs") => campaign.jobs = arguments.value()?.parse()?,
            Long("time-limit") => campaign.time_limit = Duration::from_secs(arguments.value()?.parse()?),
            Long("reference") => campaign.reference = true,
            Long("keep") => campaign.keep = arguments.value()?.into(),
            Long("kinds") => campaign.kinds = arguments.value()?.parse_with(kinds)?,
            Long("ways") => campaign.ways = arguments.value()?.parse_with(ways)?,
            Long("reduce") => campaign.reduce = arguments.value()?.parse()?,
            Long("worker") => worker = true,
            Long("simulator") => simulator = true,
            other => return Err(other.unexpected().into()),
        }
    }
    match part.as_str() {
        "disasm" => disasm(seconds, seed),
        "frontend" => frontend::run(Duration::from_secs(seconds), seed),
        "tokens" => tokens::run(Duration::from_secs(seconds), seed),
        "programs" => programs::run(&campaign),
        "print" => print(&campaign),
        "pressure" => pressure::fuzz(campaign.seeds.start, campaign.seeds.end - campaign.seeds.start),
        "gpu" if worker => gpu::work(&campaign, simulator),
        "gpu" => gpu::run(&campaign, simulator),
        other => Err(format!("nothing is called '{other}' here").into()),
    }
}

/// `A..B`, or one seed.
fn seeds(text: &str) -> std::result::Result<Range<u64>, std::num::ParseIntError> {
    match text.split_once("..") {
        Some((first, end)) => Ok(first.parse()?..end.parse()?),
        None => text.parse().map(|seed: u64| seed..seed.saturating_add(1)),
    }
}

/// Names with commas between them.
fn ways(text: &str) -> std::result::Result<Vec<String>, String> {
    let known = |name: &&str| WAYS.iter().any(|way| way.name == *name);
    match text.split(',').find(|name| !known(name)) {
        Some(name) => Err(format!("no way is called '{name}'")),
        None => Ok(text.split(',').map(str::to_string).collect()),
    }
}

/// Names with commas between them.
fn kinds(text: &str) -> std::result::Result<Vec<Kind>, String> {
    text.split(',').map(|name| Kind::find(name).ok_or(format!("no kind is called '{name}'"))).collect()
}

/// The text of generated programs, to look at or to compile in other ways.
fn print(campaign: &Campaign) -> Result<()> {
    let programs: Vec<Program> = campaign.numbers().map(|number| campaign.program(number)).collect();
    print!("{}", generate::module(&programs));
    Ok(())
}

/// Damaged cubins and images for `sassafras disasm`: the test of the command, which says what must hold.
fn disasm(seconds: u64, seed: u64) -> Result<()> {
    let test = "damaged_files_are_listed_or_refused";
    let mut command = shell::cargo(["test", "--release", "-p", "sassafras-cli", "--test", "disasm", test]);
    command.args(["--", "--exact", "--nocapture"]);
    command.env("SASSAFRAS_FUZZ_SECONDS", seconds.to_string()).env("SASSAFRAS_FUZZ_SEED", seed.to_string());
    shell::run(&mut command)
}
