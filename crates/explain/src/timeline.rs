//! The issue timeline: warps in the timing model of `sassafras profile` ([`sim::timing`]).
//!
//! With a launch, the warps are of its first block, with all that runs beside them on the SM. Without one, a single warp
//! walks straight through the code, with the model's latencies.

use crate::code::Image;
use crate::launch::make;
use crate::schedule;
use cubin::json::Json;
use gpu::runline::Run;
use sass::Inst;
use sim::ptx::Launch;
use sim::sass::{Machine, Program};
use sim::timing::parameters::Parameters;
use sim::timing::timeline::{Step, WarpLog, walk};
use sim::timing::{L2, Options, Profile, Reason, Row, watch};
use std::ops::Range;

/// Steps of a warp that are shown at most.
const MOST_STEPS: usize = 8192;
/// Instructions of warps that are simulated, about.
const BUDGET: u64 = 1_000_000;

/// The model's names of reasons, in the order of the numbers that stand for them.
pub(crate) fn reasons() -> Json {
    Json::list(&Reason::ALL, |reason| Json::text(reason.name()))
}

/// What a launch did, in the model.
pub struct Launched {
    profile: Profile,
    logs: Vec<WarpLog>,
}

/// Launches for the timelines of kernels.
#[derive(Clone, Copy)]
pub struct Launches<'r> {
    runs: &'r [Run],
    launch: fn(&Program, &Run) -> Result<Launched, String>,
}

impl<'r> Launches<'r> {
    /// No launches. A program that has no others is without the simulator.
    pub const NONE: Launches<'static> = Launches { runs: &[], launch: |_, _| Err(String::new()) };

    /// Of each kernel the run with the most threads counts, of several of those the first.
    pub fn of(runs: &'r [Run]) -> Launches<'r> {
        Launches { runs, launch }
    }

    pub(crate) fn largest(&self, kernel: &str) -> Option<&'r Run> {
        let threads =
            |run: &&Run| run.grid.iter().chain(&run.block).map(|n| u128::from(*n)).product::<u128>();
        self.runs.iter().rev().filter(|run| run.kernel == kernel).max_by_key(threads)
    }

    pub(crate) fn launch(&self, image: &Image, run: &Run) -> Result<Launched, String> {
        (self.launch)(image.program()?, run)
    }
}

/// Launches a kernel of a cubin.
fn launch(program: &Program, run: &Run) -> Result<Launched, String> {
    let parameters = Parameters::standard().map_err(|error| error.to_string())?;
    let mut machine = Machine::new(program);
    let addresses: Vec<u64> = run.buffers().map(|data| machine.allocate(data.to_vec())).collect();
    let values = run.parameters(&addresses, |object, address| make(&mut machine, object, address))?;
    let launch = Launch::new(&run.kernel, run.grid, run.block, &values);
    let launch = Launch { shared: run.shared, ..launch };
    let bytes: usize = run.buffers().map(<[u8]>::len).sum();
    let l2 = if bytes as f64 <= parameters.l2_bytes { L2::Warm } else { L2::Cold };
    // The first block is looked at, with those beside it.
    let options = Options { budget: BUDGET, l2, waves: 1, ..Options::new(parameters) };
    let most = MOST_STEPS.max(program.instructions());
    let (profile, logs) = watch(&mut machine, &launch, &options, most).map_err(|fault| fault.to_string())?;
    Ok(Launched { profile, logs })
}

/// The code of one function in a program.
pub(crate) struct Place<'c> {
    pub program: &'c Program,
    /// Its instructions, without what fills its section.
    pub range: Range<usize>,
    pub insts: &'c [Inst],
}

impl Place<'_> {
    /// Without a launch.
    pub fn walk(&self) -> Json {
        let parameters = Parameters::standard().ok();
        let log = parameters.and_then(|parameters| walk(self.program, self.range.clone(), &parameters));
        Json::list(log.as_slice(), |log| self.warp(log, "walk"))
    }

    /// The warps of a launch: the first, the one with the most steps, and those that end first and last.
    pub fn warps(&self, launched: &Launched) -> Json {
        let logs = &launched.logs;
        // Of several, the first.
        let busiest = logs.iter().rev().max_by_key(|log| log.executed);
        let early = logs.iter().min_by_key(|log| log.end);
        let late = logs.iter().rev().max_by_key(|log| log.end);
        let mut chosen: Vec<&WarpLog> = [logs.first(), busiest, early, late].into_iter().flatten().collect();
        chosen.sort_by_key(|log| log.warp);
        chosen.dedup_by_key(|log| log.warp);
        Json::list(&chosen, |log| self.warp(log, "launch"))
    }

    /// What a launch took.
    pub fn profile(&self, launched: &Launched) -> Json {
        let profile = &launched.profile;
        let rows = profile.instructions.iter().filter(|row| self.range.contains(&row.index));
        let row = |row: &Row| {
            let of = (row.index - self.range.start) as u64;
            let numbers = [of, row.count.executed].map(Json::Number).into_iter();
            let cycles = row.count.cycles.iter().zip(0..).filter(|(cycles, _)| **cycles > 0);
            Json::List(numbers.chain(cycles.flat_map(|(n, reason)| [reason, *n].map(Json::Number))).collect())
        };
        let number = Json::Number;
        Json::Object(vec![
            ("cycles", number(profile.cycles.round() as u64)),
            ("warm", Json::Bool(profile.l2 == L2::Warm)),
            ("blocks_at_a_time", number(profile.occupancy.blocks.into())),
            ("simulated_blocks", number(profile.simulated)),
            ("assumed_waits", number(profile.assumed)),
            ("instructions", Json::List(rows.map(row).collect())),
        ])
    }

    fn warp(&self, log: &WarpLog, kind: &str) -> Json {
        let here = |index: usize| self.range.contains(&index).then(|| index - self.range.start);
        let signed = |number: Option<u64>| number.map_or(Json::Signed(-1), Json::Number);
        let step = |step: &Step| {
            let index = signed(here(step.index).map(|index| index as u64));
            let fixed = [index, Json::Number(step.cycle), signed(step.read), signed(step.there)];
            let stalls = step.stalls.iter().flat_map(|(reason, n)| [*reason as u64, *n].map(Json::Number));
            Json::List(fixed.into_iter().chain(stalls).collect())
        };
        // What is in other functions raises and awaits nothing that is drawn.
        let own = |step: &Step| here(step.index).and_then(|index| self.insts.get(index));
        let insts = log.steps.iter().enumerate().filter_map(|(number, step)| Some((number, own(step)?)));
        let spans = schedule::spans(insts);
        let span = |span: &schedule::Span| {
            let step = log.steps.get(span.from);
            let done = step.and_then(|step| if span.read { step.read } else { step.there });
            Json::List(vec![
                Json::Number(span.scoreboard.into()),
                Json::Number(span.read.into()),
                Json::Number(span.from as u64),
                signed(span.to.map(|to| to as u64)),
                signed(done),
            ])
        };
        Json::Object(vec![
            ("kind", Json::text(kind)),
            ("warp", Json::Number(log.warp as u64)),
            ("start", Json::Number(log.start)),
            ("end", Json::Number(log.end)),
            ("executed", Json::Number(log.executed)),
            ("steps", Json::list(&log.steps, step)),
            ("spans", Json::list(&spans, span)),
        ])
    }
}
