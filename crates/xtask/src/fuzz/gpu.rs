//! `fuzz gpu`: generated programs on the GPU of this machine, against the interpreter.
//!
//! Each program runs in every one of [`WAYS`], and as ptxas compiles it where there is a ptxas: that is counted, and
//! no difference of ours.
//!
//! Workers, which are this program again, take some programs at a time, do everything in their one process, and say
//! what they are about to run. One that crashes, hangs or loses the GPU costs the run that it was at: the next one
//! goes on behind it.

mod worker;

use super::subject::WAYS;
use super::{Campaign, REFERENCE};
use crate::Result;
use gpu::process::{Process, Said};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use worker::work;

/// Programs that a worker gets at a time.
const CHUNK: u64 = 40;
/// How long a worker may be silent. The longest that it does without a word is that ptxas compiles a chunk.
const PATIENCE: Duration = Duration::from_secs(30);
/// What opening the driver may take on top of that.
const START: Duration = Duration::from_secs(90);
/// Workers in a row that may end before they run anything.
const FALSE_STARTS: u32 = 3;

/// Seeds that are named for each way.
const SHOWN: usize = 100;

/// The name of a way by its number; ptxas is behind all of ours.
fn way_name(number: usize) -> &'static str {
    WAYS.get(number).map_or(REFERENCE, |way| way.name)
}

/// What happened, by way.
#[derive(Default)]
struct Tally {
    programs: u64,
    runs: BTreeMap<String, u64>,
    differences: BTreeMap<String, BTreeSet<u64>>,
}

/// Where a worker is in its chunk: the next run is that of a program, by its number, in one of the ways.
#[derive(Clone, Copy)]
struct Place {
    number: u64,
    way: usize,
}

pub fn run(campaign: &Campaign, simulator: bool) -> Result<()> {
    let numbers = campaign.numbers();
    let (start, next) = (Instant::now(), AtomicU64::new(numbers.start));
    let tally = Mutex::new(Tally::default());
    let lane = || -> Result<()> {
        let mut supervisor = Supervisor { campaign, simulator, process: None, tally: &tally };
        while start.elapsed() < campaign.time_limit {
            let first = next.fetch_add(CHUNK, Ordering::Relaxed);
            if first >= numbers.end {
                break;
            }
            supervisor.chunk(first, (first + CHUNK).min(numbers.end))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..campaign.jobs).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().map_err(|_| "a supervisor panicked")?)
    })?;
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    let differences = summary(&tally, campaign, start.elapsed());
    if differences == 0 { Ok(()) } else { Err("there are programs that fail".into()) }
}

/// Prints what happened; how many differences are ours.
fn summary(tally: &Tally, campaign: &Campaign, took: Duration) -> usize {
    let mut ours = 0;
    for (way, runs) in &tally.runs {
        let differ = tally.differences.get(way).map_or(0, BTreeSet::len);
        println!("{way}: {} of {runs} runs equal", *runs as usize - differ);
    }
    for (way, seeds) in &tally.differences {
        println!("{way} differs: {}", campaign.listed(seeds.iter().copied().take(SHOWN)));
        ours += if way == REFERENCE { 0 } else { seeds.len() };
    }
    println!("{:.1} s, {:.1} programs/s", took.as_secs_f32(), tally.programs as f32 / took.as_secs_f32());
    println!("programs={} differences={ours}", tally.programs);
    ours
}

struct Supervisor<'a> {
    campaign: &'a Campaign,
    simulator: bool,
    process: Option<Process>,
    tally: &'a Mutex<Tally>,
}

impl Supervisor<'_> {
    /// Has these programs run in all ways.
    fn chunk(&mut self, first: u64, end: u64) -> Result<()> {
        let mut next = Place { number: first, way: 0 };
        let mut false_starts = 0;
        while next.number < end {
            let before = next;
            let Some(what) = self.listen(&mut next, end)? else { break };
            // The run that the worker was at is accounted for, and so is a start that came to nothing.
            if (next.number, next.way) == (before.number, before.way) {
                false_starts += 1;
                if false_starts == FALSE_STARTS {
                    return Err(format!("no worker starts: {what}").into());
                }
                std::thread::sleep(Duration::from_secs(2));
            }
        }
        self.tally().programs += end - first;
        Ok(())
    }

    /// Listens to a worker to the end of a chunk, or to its own: then it says why. `next` is behind all that was run.
    fn listen(&mut self, next: &mut Place, end: u64) -> Result<Option<String>> {
        let patience = if self.process.is_some() { PATIENCE } else { PATIENCE + START };
        let mut process = self.process.take().map_or_else(|| self.start(), Ok)?;
        process.tell(&format!("{} {} {end}", next.number, next.way));
        let mut at = None;
        let mut patience = patience;
        loop {
            let line = match process.listen(patience)? {
                Said::Line(line) => line,
                Said::Nothing(end) => {
                    if let Some(place) = at {
                        self.differs(place, &end.to_string());
                    }
                    return Ok(Some(end.to_string()));
                }
            };
            patience = PATIENCE;
            let mut words = line.splitn(4, ' ');
            let (word, numbers) = (words.next(), (words.next(), words.next()));
            let place = match numbers {
                (Some(number), Some(way)) => number.parse().ok().zip(way.parse().ok()),
                _ => None,
            };
            let place = place.map(|(number, way)| Place { number, way });
            match (word, place) {
                (Some("begin"), Some(place)) => {
                    *self.tally().runs.entry(way_name(place.way).to_string()).or_default() += 1;
                    (at, *next) = (Some(place), Place { way: place.way + 1, ..place });
                }
                (Some("wrong"), Some(place)) => self.differs(place, words.next().unwrap_or("")),
                // The process ends by itself, and its last run is accounted for.
                (Some("lost"), Some(place)) => {
                    self.differs(place, words.next().unwrap_or(""));
                    return Ok(Some("the GPU was lost".into()));
                }
                (Some("done"), _) => {
                    self.process = Some(process);
                    return Ok(None);
                }
                (Some("reducing"), _) => {}
                _ => println!("{line}"),
            }
        }
    }

    fn start(&self) -> Result<Process> {
        let process = Process::start(|command| {
            command.args(["fuzz", "gpu", "--worker"]).arg("--keep").arg(&self.campaign.keep);
            command.args(self.simulator.then_some("--simulator"));
            command.args(self.campaign.reference.then_some("--reference"));
            command.args(["--ways", &self.campaign.ways.join(",")]);
            let kinds: Vec<_> = self.campaign.kinds.iter().map(|kind| kind.name()).collect();
            command.args(["--kinds", &kinds.join(",")]);
        });
        Ok(process?)
    }

    fn differs(&self, place: Place, what: &str) {
        let way = way_name(place.way);
        self.tally().differences.entry(way.to_string()).or_default().insert(place.number);
        if way != REFERENCE {
            println!("{way} {}: {what}", self.campaign.listed([place.number]));
        }
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
