//! `sassafras run FILE`: kernels without a GPU.
//!
//! A PTX file runs in the interpreter, a cubin (or with `-O`, what we make of the PTX file) in the simulator. What is
//! launched is in run lines (crates/gpu/README.md): in the PTX file itself, in a launch file, or in the options.
//!
//! Exit code 0: every run ended and left the memory that was expected; 1: one did not; 255: nothing could be run.

use crate::answer::Answer;
use crate::hint::hint;
use crate::progress::Progress;
use crate::recording::Recording;
use crate::{inspect, log};
use ::explain::launch::{Checks, execute, shown};
use gpu::runline::{self, Run};
use sim::Machine;
use std::fmt::Write;

pub const USAGE: &str = "\
usage: sassafras run FILE [OPTIONS]

Runs kernels of a PTX file in the interpreter, or of a cubin in the simulator, and compares memory with what the run
lines expect: those of the PTX file, or those of a launch file. With --kernel it shows memory after one launch.

  -O0 ... -O3          compile the PTX file and simulate the code instead
  --list               print the kernels and their launches, and run nothing
  --launches FILE      run lines, in a file of their own
  --kernel NAME        launch this kernel
  --grid X[,Y[,Z]]     blocks (1)
  --block X[,Y[,Z]]    threads of a block (1)
  --shared BYTES       dynamic shared memory (0)
  --memory NAME:TYPE=... a buffer that no parameter points to, for tensor maps and images: x:u16[64]=0
  --arg NAME:TYPE=...  a parameter, as in a run line: n:u32=4, x:f32[n]=random(1); once for each, in order
  --recording FILE     a launch of a whole program with its memory (docs/profile.md), of a cubin
  --changes FILE       where what that launch changes in memory is written
  --races              two accesses of shared memory without an order are an error (PTX files, without -O)
  --weak[=SEED]        an adversary orders warps and lanes, stores become visible late and loads are early, unless the
                       code orders them; the seed (0) chooses how. Seeds 0 to 7 try the extremes
  --show N             elements of each buffer that are shown (16)
";

/// What is run: a file, and launches of its kernels.
#[derive(Default)]
pub struct Request {
    pub file: Option<String>,
    level: Option<u8>,
    launches: Option<String>,
    kernel: Option<String>,
    grid: Option<String>,
    block: Option<String>,
    shared: Option<String>,
    memory: Vec<String>,
    args: Vec<String>,
    races: bool,
    list: bool,
    weak: Option<u64>,
    show: usize,
    recording: Option<String>,
    changes: Option<String>,
}

impl Request {
    pub fn read(words: &[String]) -> Result<Request, String> {
        let mut request = Request { show: 16, ..Request::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().cloned().ok_or(format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "-O0" | "-O1" | "-O2" | "-O3" => request.level = word[2..].parse().ok(),
                "--launches" => request.launches = Some(value()?),
                "--kernel" => request.kernel = Some(value()?),
                "--grid" => request.grid = Some(value()?),
                "--block" => request.block = Some(value()?),
                "--shared" => request.shared = Some(value()?),
                "--memory" => request.memory.push(value()?),
                "--arg" => request.args.push(value()?),
                "--recording" => request.recording = Some(value()?),
                "--changes" => request.changes = Some(value()?),
                "--races" => request.races = true,
                "--list" => request.list = true,
                "--weak" => request.weak = Some(0),
                option if option.starts_with("--weak=") => {
                    let seed = option["--weak=".len()..].parse();
                    request.weak = Some(seed.map_err(|_| "--weak takes a number".to_string())?);
                }
                "--show" => {
                    request.show = value()?.parse().map_err(|_| "--show takes a number".to_string())?
                }
                option if option.starts_with('-') => return Err(format!("unknown option {option}\n{USAGE}")),
                _ if request.file.is_some() => return Err(format!("one file at a time\n{USAGE}")),
                _ => request.file = Some(word.clone()),
            }
        }
        Ok(request)
    }

    /// The runs that are asked for; `source` is the PTX text, of a cubin nothing.
    pub fn runs(&self, source: &str) -> Result<Vec<Run>, String> {
        if let Some(kernel) = &self.kernel {
            let or_one = |text: &Option<String>| text.clone().unwrap_or("1".into());
            let shared = self.shared.as_ref().map_or(String::new(), |bytes| format!(" shared={bytes}"));
            let list = |name: &str, items: &[String]| match items {
                [] => String::new(),
                _ => format!(" {name}: {}", items.join(" ")),
            };
            let (memory, args) = (list("memory", &self.memory), list("args", &self.args));
            let (grid, block) = (or_one(&self.grid), or_one(&self.block));
            let line = format!("{kernel} grid=({grid}) block=({block}){shared}{memory}{args}");
            return runline::launch(&line).map(|run| vec![run]).map_err(|error| error.message);
        }
        let text = match &self.launches {
            Some(file) => std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?,
            None => source.to_string(),
        };
        let runs = runline::parse(&text).map_err(|error| error.to_string())?;
        Ok(runs)
    }
}

/// What kernels run on.
enum Programs {
    Interpreted(sim::ptx::Program),
    Simulated(sim::sass::Program),
}

impl Programs {
    fn kernels(&self) -> Vec<&str> {
        match self {
            Programs::Interpreted(program) => program.kernels().collect(),
            Programs::Simulated(program) => program.kernels().collect(),
        }
    }

    fn machine(&self) -> Box<dyn Machine + '_> {
        match self {
            Programs::Interpreted(program) => Box::new(sim::ptx::Machine::new(program)),
            Programs::Simulated(program) => Box::new(sim::sass::Machine::new(program)),
        }
    }
}

pub fn run(words: &[String]) -> Result<Answer, String> {
    let request = Request::read(words)?;
    let file = request.file.as_ref().ok_or(format!("no file is given\n{USAGE}"))?;
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let (source, programs) = load(file, bytes, request.level)?;
    if request.races && matches!(programs, Programs::Simulated(_)) {
        return Err("races are found in PTX, not in compiled code".into());
    }
    if let Some(recording) = &request.recording {
        return run_recorded(recording, programs, &request);
    }
    let runs = request.runs(&source)?;
    if request.list {
        return Ok(listed(&programs, &runs).into());
    }
    if runs.is_empty() {
        return Err(format!(
            "there is nothing to run: no run line, no --kernel. Kernels of {file}:\n{}",
            listed(&programs, &runs).trim_end()
        ));
    }
    if let Some(unknown) = runs.iter().find(|run| !programs.kernels().contains(&run.kernel.as_str())) {
        let near = hint(&unknown.kernel, programs.kernels());
        return Err(format!("{file} has no kernel {}{near}", unknown.kernel));
    }
    Ok(run_all(&runs, &programs, &request))
}

/// Runs a launch of a whole program.
fn run_recorded(recording: &str, programs: Programs, request: &Request) -> Result<Answer, String> {
    let Programs::Simulated(program) = programs else {
        return Err("recordings run in the simulator: give a cubin, or a level".into());
    };
    let changes = request.changes.as_ref().ok_or("--recording needs --changes")?;
    Recording::read(recording)?.execute(program, changes)?;
    Ok(String::new().into())
}

/// Runs launches in order, and says of each what came of it.
fn run_all(runs: &[Run], programs: &Programs, request: &Request) -> Answer {
    let checks = Checks { races: request.races, weak: request.weak, ..Checks::default() };
    let (mut text, mut passed) = (String::new(), 0);
    for (index, run) in runs.iter().enumerate() {
        let number = format!("launch {} of {}", index + 1, runs.len());
        let progress = Progress::show(&format!("{number}, {}", run.kernel));
        let outcome = execute(&mut *programs.machine(), run, checks);
        drop(progress);
        if runs.len() > 1 {
            let _ = write!(text, "{number}, ");
        }
        let _ = write!(text, "{}: ", described(run));
        passed += usize::from(outcome.is_ok());
        match outcome {
            Err(what) => {
                let _ = writeln!(text, "FAILED: {what}");
            }
            Ok(_) if request.kernel.is_none() => text.push_str("as expected\n"),
            Ok(results) => {
                text.push_str("done\n");
                text.push_str(&shown(run, &results, request.show));
            }
        }
    }
    if runs.len() > 1 {
        let _ = writeln!(text, "{passed} of {} launches passed", runs.len());
    }
    Answer { text, code: u8::from(passed < runs.len()) }
}

/// `saxpy grid=(4) block=(64)`
fn described(run: &Run) -> String {
    let axes = |[x, y, z]: [u32; 3]| match (y, z) {
        (1, 1) => format!("({x})"),
        (_, 1) => format!("({x},{y})"),
        _ => format!("({x},{y},{z})"),
    };
    format!("{} grid={} block={}", run.kernel, axes(run.grid), axes(run.block))
}

/// The kernels of a file, each with its launches.
fn listed(programs: &Programs, runs: &[Run]) -> String {
    let mut text = String::new();
    for kernel in programs.kernels() {
        let _ = writeln!(
            text,
            "{kernel}{}",
            inspect::in_source(kernel).map_or(String::new(), |name| format!("  {name}"))
        );
        for run in runs.iter().filter(|run| run.kernel == kernel) {
            let _ = writeln!(text, "  line {}: {}", run.line, described(run));
        }
    }
    text
}

fn load(file: &str, bytes: Vec<u8>, level: Option<u8>) -> Result<(String, Programs), String> {
    let simulated = |cubin: &[u8]| {
        let program = sim::sass::Program::new(cubin).map_err(|error| format!("{file}: {error}"))?;
        Ok(Programs::Simulated(program))
    };
    if bytes.starts_with(b"\x7fELF") {
        return simulated(&bytes).map(|programs| (String::new(), programs));
    }
    let source = String::from_utf8(bytes).map_err(|_| format!("{file} is neither PTX nor a cubin"))?;
    let parsed = ptx::parse(&source, &ptx::Options { advise: true, ..ptx::Options::for_file(file) });
    let refused = |diagnostics: &[ptx::Diagnostic], advice: &[(usize, ptx::Advice)]| {
        format!("{file} can't be run\n{}", log::rich_text(file, &source, diagnostics, advice))
    };
    let module = parsed.module.as_ref().filter(|_| !parsed.failed());
    let module = module.ok_or_else(|| refused(&parsed.diagnostics, &parsed.advice))?;
    let Some(level) = level else {
        let program = sim::ptx::Program::new(module, &source);
        return Ok((source.clone(), Programs::Interpreted(program)));
    };
    let options = sassafras::Options::new(module.target).with(|o| {
        o.level = level;
        // The same bits as the interpreter's.
        o.contract = false;
    });
    let output = sassafras::compile_module(module, &options);
    let cubin = output.cubin.ok_or_else(|| refused(&output.diagnostics, &[]))?;
    simulated(&cubin).map(|programs| (source.clone(), programs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_on_the_command_line_have_memory() {
        let map = "m:map(x, f16, (8,4), box=(8,2))";
        let words = ["--kernel", "k", "--memory", "x:u16[32]=i", "--arg", map, "--arg", "n:u32=4"];
        let words = words.map(String::from);
        let runs = Request::read(&words).and_then(|request| request.runs("")).unwrap();
        let passed: Vec<_> = runs[0].args.iter().map(|arg| (arg.name.as_str(), arg.passed)).collect();
        assert_eq!(passed, [("x", false), ("m", true), ("n", true)]);
    }
}
