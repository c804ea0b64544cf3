//! What a GPU does with kernels of one instruction ([`sim::ops`]), in ptxas's code and in ours.
//!
//! `ops-bundle DIR` makes a folder with everything that the machine with the GPU needs; `record-ops DIR`, which
//! `run.sh` of the folder calls, runs each kernel with all sets of inputs and writes `recording.txt`, the file that
//! `conformance simulator` compares the executors with, and `sets.txt`, with a hash for each set.
//!
//! Kernels run one at a time, so that nobody else writes to shared memory between the kernel that prepares it and the
//! one that reads it. Those that are known to stop cost a process each; they come last, several at a time.

mod worker;

use crate::compile::{compile_ours, compile_theirs};
use crate::tools::Tools;
use crate::{Result, bundle, shell};
use gpu::process::{Process, Said};
use sim::ops::{CODES, Recorded, STOPPING};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the kernels are compiled for, by the levels of [`CODES`].
const TARGET: &str = "sm_90";
const PTXAS_LEVELS: [u8; 2] = [0, 3];
const OUR_LEVELS: [u8; 3] = [0, 1, 3];

/// How long a kernel may take with all its sets, and how long opening the driver.
const PATIENCE: Duration = Duration::from_secs(10);
const START: Duration = Duration::from_secs(60);
/// Processes at a time for kernels that stop.
const LANES: usize = 8;

const RUN: &str = r#"#!/usr/bin/env bash
# Records what this machine's GPU does with each kernel. With words behind it: those of `xtask record-ops`.
cd "$(dirname "$0")" || exit 1
exec ./xtask record-ops . "$@"
"#;

pub fn bundle(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let dir: PathBuf = match arguments.next()? {
        Some(Value(dir)) => dir.into(),
        Some(other) => return Err(other.unexpected().into()),
        None => return Err("which folder? cargo xtask ops-bundle DIR".into()),
    };
    shell::create_dir(&dir)?;
    let source = shell::read(&shell::root().join("crates/ptx/tests/corpus/ops/ops_sm_90.ptx"))?;
    let tools = Tools::find()?;
    let scratch = shell::target_dir().join("ops");
    for (code, cubin) in CODES.iter().zip(codes(&tools, &scratch, &source)?) {
        shell::write(&dir.join(format!("{code}.cubin")), cubin)?;
    }
    let shared = compile_theirs(&tools, &scratch, include_str!("ops/shared.ptx"), TARGET, 3)?;
    shell::write(&dir.join("shared.cubin"), shared)?;
    bundle::copy(&std::env::current_exe()?, &dir.join("xtask"))?;
    shell::write(&dir.join("run.sh"), RUN)?;
    bundle::make_executable(&dir.join("run.sh"))?;
    println!("{0}: start {0}/run.sh on the machine", dir.display());
    Ok(())
}

/// The cubins of [`CODES`].
pub fn codes(tools: &Tools, scratch: &Path, source: &str) -> Result<Vec<Vec<u8>>> {
    let theirs = PTXAS_LEVELS.iter().map(|level| compile_theirs(tools, scratch, source, TARGET, *level));
    let ours = OUR_LEVELS.iter().map(|level| Ok(compile_ours(source, TARGET, *level)?));
    theirs.chain(ours).collect()
}

/// What a process has said about a kernel in someone's code.
struct Answer {
    recorded: Recorded,
    /// A hash for each set.
    sets: String,
}

/// A kernel and whose code of it, by its number in [`CODES`].
type Job<'k> = (&'k str, usize);

pub fn record(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let (mut dir, mut works, mut keep) = (None, false, String::new());
    while let Some(argument) = arguments.next()? {
        match argument {
            Value(path) if dir.is_none() => dir = Some(PathBuf::from(path)),
            Long("keep") => keep = arguments.value()?.string()?,
            Long("worker") => works = true,
            other => return Err(other.unexpected().into()),
        }
    }
    let dir = dir.ok_or("which folder? cargo xtask record-ops DIR")?;
    if works {
        return worker::work(&dir, &keep);
    }
    let cubin = shell::read_bytes(&dir.join(format!("{}.cubin", CODES[0])))?;
    let program = sim::sass::Program::new(&cubin)?;
    let mut kernels: Vec<&str> = program.kernels().collect();
    kernels.sort_unstable_by_key(|name| (name.len(), *name));
    let stops = |kernel: &str| STOPPING.iter().any(|(known, _)| *known == kernel);
    let jobs = |of_stopping: bool| -> Vec<Job> {
        let some = kernels.iter().filter(|kernel| stops(kernel) == of_stopping);
        some.flat_map(|kernel| (0..CODES.len()).map(|code| (*kernel, code))).collect()
    };
    let mut answers = run(&dir, &keep, &jobs(false))?;
    let last = jobs(true);
    let lanes: Result<Vec<_>> = std::thread::scope(|scope| {
        let chunks = last.chunks(last.len().div_ceil(LANES).max(1));
        let lanes: Vec<_> = chunks.map(|jobs| scope.spawn(|| run(&dir, &keep, jobs))).collect();
        lanes.into_iter().map(|lane| lane.join().map_err(|_| "a lane panicked")?).collect()
    });
    lanes?.into_iter().for_each(|some| answers.extend(some));
    write(&dir, &kernels, &answers)
}

/// A process that has opened the GPU.
fn start(dir: &Path, keep: &str) -> Result<Process> {
    let mut worker = Process::start(|command| {
        command.args(["record-ops", "--worker", "--keep", keep]).arg(dir);
    })?;
    match worker.listen(START)? {
        Said::Line(_) => Ok(worker),
        Said::Nothing(end) => Err(end.to_string().into()),
    }
}

/// Has these jobs done, in as many processes as it takes.
fn run<'k>(dir: &Path, keep: &str, jobs: &[Job<'k>]) -> Result<BTreeMap<Job<'k>, Answer>> {
    let mut answers = BTreeMap::new();
    let mut process = None;
    for job in jobs {
        let worker = match &mut process {
            Some(worker) => worker,
            none => none.insert(start(dir, keep)?),
        };
        let (kernel, code) = job;
        worker.tell(&format!("{kernel} {code}"));
        let answer = match worker.listen(PATIENCE)? {
            Said::Line(line) => Answer::parse(&line).ok_or_else(|| format!("{kernel}: {line}"))?,
            Said::Nothing(_) => Answer { recorded: Recorded::Lost, sets: String::new() },
        };
        // An error has cost the process its GPU.
        if !matches!(answer.recorded, Recorded::Hash(_)) {
            process = None;
        }
        answers.insert(*job, answer);
    }
    Ok(answers)
}

impl Answer {
    fn parse(line: &str) -> Option<Answer> {
        let (recorded, sets) = line.split_once(' ').unwrap_or((line, ""));
        Some(Answer { recorded: Recorded::parse(recorded)?, sets: sets.to_string() })
    }
}

fn write(dir: &Path, kernels: &[&str], answers: &BTreeMap<Job, Answer>) -> Result<()> {
    let (mut recording, mut sets, mut differ) = (String::new(), String::new(), Vec::new());
    for kernel in kernels {
        let of_codes = (0..CODES.len()).filter_map(|code| answers.get(&(*kernel, code)));
        let of_codes: Vec<&Answer> = of_codes.collect();
        let recorded: Vec<String> = of_codes.iter().map(|answer| answer.recorded.to_string()).collect();
        let same = recorded.iter().all(|one| *one == recorded[0]);
        let shown = if same { recorded[0].clone() } else { recorded.join(" ") };
        recording += &format!("{kernel} {shown}\n");
        if !same || !matches!(of_codes[0].recorded, Recorded::Hash(_)) {
            differ.push(format!("{kernel} {shown}"));
        }
        for (code, answer) in CODES.iter().zip(&of_codes) {
            sets += &format!("{kernel} {code} {}\n", answer.sets);
        }
    }
    shell::write(&dir.join("recording.txt"), recording)?;
    shell::write(&dir.join("sets.txt"), sets)?;
    println!("{} kernels, {} codes: {}", kernels.len(), CODES.len(), CODES.join(" "));
    println!("the same memory in all: {}; the others:", kernels.len() - differ.len());
    println!("{}", differ.join("\n"));
    Ok(())
}
