//! `sassafras profile FILE`: how long kernels take on a GPU, and why, without one.
//!
//! The model is [`sim::timing`]; docs/profile.md says what it knows and what the reports mean.
//!
//! Exit code 0: every launch was profiled; 255: one could not be.

mod compare;
mod json;
mod text;

use crate::answer::Answer;
use crate::progress::Progress;
use crate::recording::Recording;
use crate::run::Request;
use ::explain::launch::make;
use gpu::runline::{self, Run};
use sim::ptx::Launch;
use sim::sass::{Machine, Program};
use sim::timing::lines::Lines;
use sim::timing::parameters::{Parameters, TABLE};
use sim::timing::{L2, Options, Profile};
use std::fmt::Write;

pub const USAGE: &str = "\
usage: sassafras profile FILE.ptx|FILE.cubin [OPTIONS]

Predicts how many cycles a launch takes on an H200, and says for each instruction how often it was executed and why
warps stalled there. No GPU is used: the code is simulated, one SM in detail. What is launched is in run lines
(crates/gpu/README.md): in the PTX file, in a launch file, or in the options. docs/profile.md explains the model.

  --launches FILE      run lines, in a file of their own (a PTX file, for its cubin)
  --launch TEXT        a run line: 'k grid=(64) block=(128) args: n:u32=8192 x:f32[n]=random(1)'
  --kernel, --grid, --block, --shared, --memory, --arg
                       as for `sassafras run`
  --recording FILE     a launch of a whole program with its memory (docs/profile.md)
  --run N              the Nth launch alone, from 1; without it, all
  -O1 ... -O3          the level that PTX is compiled with (3)
  --compare FILE2      both codes side by side, with the same launches
  --l2 warm|cold|auto  what the L2 holds before: all that is launched on, nothing, or all if it fits (auto)
  --budget N           instructions of warps that are simulated, about (4000000)
  --parameters FILE    a table of the model's numbers, in place of the built-in one
  --list-parameters    print the table that holds, and nothing else
  --top N              lines of the listing, hottest first (20); 0: all, in the order of the code
  --json               print JSON
";

/// What is asked for.
struct Wanted {
    request: Request,
    launch: Option<String>,
    recording: Option<String>,
    number: Option<usize>,
    level: u8,
    compare: Option<String>,
    l2: Option<L2>,
    budget: Option<u64>,
    parameters: Parameters,
    top: usize,
    json: bool,
    list: bool,
    /// The table of the parameters.
    table: String,
}

fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{option} takes a number"))
}

impl Wanted {
    fn read(words: &[String]) -> Result<Wanted, String> {
        let standard = Parameters::standard().map_err(|error| error.to_string())?;
        let mut wanted = Wanted {
            request: Request::default(),
            launch: None,
            recording: None,
            number: None,
            level: 3,
            compare: None,
            l2: None,
            budget: None,
            parameters: standard,
            top: 20,
            json: false,
            list: false,
            table: TABLE.to_string(),
        };
        let (mut rest, mut words) = (Vec::new(), words.iter());
        let mut table = None;
        while let Some(word) = words.next() {
            let mut value = || words.next().cloned().ok_or(format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "-O1" | "-O2" | "-O3" | "-O0" => wanted.level = number(word, &word[2..])?,
                "--launch" => wanted.launch = Some(value()?),
                "--recording" => wanted.recording = Some(value()?),
                "--run" => wanted.number = Some(number(word, &value()?)?),
                "--compare" => wanted.compare = Some(value()?),
                "--budget" => wanted.budget = Some(number(word, &value()?)?),
                "--top" => wanted.top = number(word, &value()?)?,
                "--json" => wanted.json = true,
                "--list-parameters" => wanted.list = true,
                "--parameters" => table = Some(value()?),
                "--l2" => {
                    wanted.l2 = match value()?.as_str() {
                        "warm" => Some(L2::Warm),
                        "cold" => Some(L2::Cold),
                        "auto" => None,
                        other => return Err(format!("--l2 is warm, cold or auto, not {other}\n{USAGE}")),
                    }
                }
                "--races" | "--weak" | "--show" => return Err(format!("unknown option {word}\n{USAGE}")),
                option if option.starts_with("--weak=") => {
                    return Err(format!("unknown option {word}\n{USAGE}"));
                }
                "--launches" | "--kernel" | "--grid" | "--block" | "--shared" | "--memory" | "--arg" => {
                    let value = value()?;
                    rest.extend([word.clone(), value]);
                }
                option if option.starts_with('-') => return Err(format!("unknown option {option}\n{USAGE}")),
                _ => rest.push(word.clone()),
            }
        }
        wanted.request = Request::read(&rest)?;
        if let Some(file) = &table {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            wanted.parameters = Parameters::read(&text).map_err(|error| format!("{file}: {error}"))?;
            wanted.table = text;
        }
        Ok(wanted)
    }

    fn options(&self, start: &Start) -> Options {
        let mut options = Options::new(self.parameters.clone());
        let fits = start.bytes() as f64 <= self.parameters.l2_bytes;
        options.l2 = self.l2.unwrap_or(if fits { L2::Warm } else { L2::Cold });
        options.budget = self.budget.unwrap_or(options.budget);
        options
    }
}

/// Where a launch is from.
enum Start {
    Line(Run),
    Recorded(Recording),
}

impl Start {
    /// Bytes of memory that are launched on.
    fn bytes(&self) -> u64 {
        match self {
            Start::Line(run) => run.buffers().map(|buffer| buffer.len() as u64).sum(),
            Start::Recorded(recording) => recording.bytes(),
        }
    }
}

/// Code, and where its lines are from.
struct Code {
    file: String,
    /// The PTX text; of a cubin nothing.
    source: String,
    program: Program,
    ptx: Lines,
    origin: Lines,
}

impl Code {
    fn load(file: &str, level: u8) -> Result<Code, String> {
        let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        if bytes.starts_with(b"\x7fELF") {
            return Code::of(file, String::new(), &bytes);
        }
        let source = String::from_utf8(bytes).map_err(|_| format!("{file} is neither PTX nor a cubin"))?;
        let parsed = ptx::parse(&source, &ptx::Options::default());
        let refused = |diagnostics: &[ptx::Diagnostic]| {
            let first = diagnostics.first().map_or("", |diagnostic| diagnostic.message.as_str());
            format!("{file}: {first}")
        };
        let module = parsed.module.as_ref().filter(|_| !parsed.failed());
        let module = module.ok_or_else(|| refused(&parsed.diagnostics))?;
        let options = sassafras::Options::new(module.target).with(|o| {
            o.level = level;
            o.debug_info = sassafras::DebugInfo::Lines;
        });
        let output = sassafras::compile_module(module, &options);
        let cubin = output.cubin.ok_or_else(|| refused(&output.diagnostics))?;
        Code::of(file, source, &cubin)
    }

    fn of(file: &str, source: String, cubin: &[u8]) -> Result<Code, String> {
        let program = Program::new(cubin).map_err(|error| format!("{file}: {error}"))?;
        let (ptx, origin) = (Lines::of_ptx(cubin), Lines::of_source(cubin));
        Ok(Code { file: file.to_string(), source, program, ptx, origin })
    }

    fn profile(&mut self, start: &Start, options: &Options) -> Result<Profile, String> {
        match start {
            Start::Line(run) => {
                let mut machine = Machine::new(&self.program);
                let addresses: Vec<u64> = run.buffers().map(|data| machine.allocate(data.to_vec())).collect();
                let parameters =
                    run.parameters(&addresses, |object, address| make(&mut machine, object, address))?;
                let launch = Launch::new(&run.kernel, run.grid, run.block, &parameters);
                let launch = Launch { shared: run.shared, ..launch };
                self.profile_on(machine, &launch, options)
            }
            Start::Recorded(recording) => {
                recording.write_variables(&mut self.program)?;
                self.profile_on(recording.machine(&self.program)?, &recording.launch(), options)
            }
        }
    }

    fn profile_on(
        &self,
        mut machine: Machine,
        launch: &Launch,
        options: &Options,
    ) -> Result<Profile, String> {
        let profiled = sim::timing::profile(&mut machine, launch, options);
        profiled.map_err(|fault| format!("{}: {}: {fault}", self.file, launch.kernel))
    }
}

pub fn profile(words: &[String]) -> Result<Answer, String> {
    let wanted = Wanted::read(words)?;
    if wanted.list {
        return Ok(wanted.table.into());
    }
    let file = wanted.request.file.as_ref().ok_or(format!("no file is given\n{USAGE}"))?;
    let mut code = Code::load(file, wanted.level)?;
    let mut other = wanted.compare.as_ref().map(|file| Code::load(file, wanted.level)).transpose()?;
    let mut reports = Vec::new();
    for (start, index) in starts(&wanted, &code)?.iter().zip(1..) {
        if wanted.number.is_some_and(|number| number != index) {
            continue;
        }
        let options = wanted.options(start);
        let _progress = Progress::show(&format!("simulating launch {index}"));
        let profile = code.profile(start, &options)?;
        reports.push(match &mut other {
            None if wanted.json => json::report(&code, &profile),
            None => text::report(&code, &profile, wanted.top),
            Some(other) => {
                let second = other.profile(start, &options)?;
                match wanted.json {
                    true => compare::json([&code, other], [&profile, &second]),
                    false => compare::text([&code, other], [&profile, &second], wanted.top),
                }
            }
        });
    }
    if reports.is_empty() {
        return Err("there is no launch of that number".into());
    }
    let text = if wanted.json { format!("[{}]\n", reports.join(",\n")) } else { reports.join("\n") };
    Ok(text.into())
}

/// The launches that are asked for.
fn starts(wanted: &Wanted, code: &Code) -> Result<Vec<Start>, String> {
    if let Some(path) = &wanted.recording {
        return Recording::read(path).map(|recording| vec![Start::Recorded(recording)]);
    }
    let runs = match &wanted.launch {
        Some(text) => vec![runline::launch(text).map_err(|error| error.message)?],
        None => wanted.request.runs(&code.source)?,
    };
    Ok(runs.into_iter().map(Start::Line).collect())
}

/// A number with a unit of a thousand: `12.3 M`.
fn short(value: f64) -> String {
    let units = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (by, unit) = units.into_iter().find(|(by, _)| value >= *by).unwrap_or((1.0, ""));
    let mut out = String::new();
    let _ = match value / by {
        scaled if by == 1.0 && scaled.fract() == 0.0 => write!(out, "{scaled:.0}{unit}"),
        scaled => write!(out, "{scaled:.1}{unit}"),
    };
    out
}

fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}
