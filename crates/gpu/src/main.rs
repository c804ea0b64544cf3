//! `gpu-run`: executes the run lines of PTX files on a GPU.
//!
//! The process that the user starts never touches the GPU. It starts a worker, which is itself with
//! `--worker N`, to execute the runs from number N on, and prints the verdicts that come back, one line per
//! run. A worker that crashes, hangs or loses the GPU costs one run: the next worker goes on after it.

mod supervise;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use gpu::runline::{self, Run};

const USAGE: &str = "usage: gpu-run [OPTIONS] FILE.ptx [FILE.cubin] ...

Executes the run lines in the comments of each PTX file on the GPU and says for each whether memory is as
expected afterwards. The cubin is the file named after the PTX file, or else the one of the same name that
ends in .cubin.

  --cubins DIR     look for cubins there instead of beside the PTX files
  --device N       the GPU to use (0)
  --time           print the shortest time of ten more launches
  --timeout SEC    how long one run may take (20)

The exit status is 0 if all runs passed, 1 if one failed, 2 if something was wrong before that.";

/// All went well as far as it went, but this process can't use the GPU any more.
const GPU_LOST: u8 = 3;

struct Options {
    files: Vec<Pair>,
    device: u32,
    time: bool,
    timeout: Duration,
    /// The first run to execute, in a worker.
    worker: Option<usize>,
}

struct Pair {
    ptx: PathBuf,
    cubin: PathBuf,
}

/// A run and where it comes from.
struct Job<'a> {
    pair: &'a Pair,
    run: Run,
}

impl std::fmt::Display for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Run { line, kernel, grid: [gx, gy, gz], block: [bx, by, bz], .. } = &self.run;
        let ptx = self.pair.ptx.display();
        write!(f, "{ptx}:{line} {kernel} grid=({gx},{gy},{gz}) block=({bx},{by},{bz})")
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(message) => {
            eprintln!("gpu-run: {message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let Some(options) = options(lexopt::Parser::from_env()).map_err(|error| error.to_string())? else {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    };
    let jobs = jobs(&options.files)?;
    match options.worker {
        Some(first) => worker::work(&options, jobs.get(first..).unwrap_or_default()),
        None => supervise::supervise(&jobs, options.timeout),
    }
}

/// `None` where the user asks for help.
fn options(mut parser: lexopt::Parser) -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut named: Vec<(PathBuf, Option<PathBuf>)> = Vec::new();
    let mut folder: Option<PathBuf> = None;
    let mut options =
        Options { files: Vec::new(), device: 0, time: false, timeout: Duration::from_secs(20), worker: None };
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("cubins") => folder = Some(parser.value()?.into()),
            Long("device") => options.device = parser.value()?.parse()?,
            Long("time") => options.time = true,
            Long("timeout") => options.timeout = Duration::from_secs(parser.value()?.parse()?),
            Long("worker") => options.worker = Some(parser.value()?.parse()?),
            Value(file) => match (PathBuf::from(file), named.last_mut()) {
                (file, Some((_, cubin @ None))) if file.extension().is_some_and(|end| end == "cubin") => {
                    *cubin = Some(file);
                }
                (file, _) => named.push((file, None)),
            },
            _ => return Err(argument.unexpected()),
        }
    }
    let pair = |(ptx, cubin): (PathBuf, Option<PathBuf>)| {
        let cubin = cubin.unwrap_or_else(|| cubin_of(&ptx, folder.as_deref()));
        Pair { ptx, cubin }
    };
    options.files = named.into_iter().map(pair).collect();
    if options.files.is_empty() { Err("no PTX file is named; see --help".into()) } else { Ok(Some(options)) }
}

fn cubin_of(ptx: &Path, folder: Option<&Path>) -> PathBuf {
    let beside = ptx.with_extension("cubin");
    match (folder, beside.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => beside,
    }
}

/// All runs of all files. A file without any is an error: it would pass without a test.
fn jobs(files: &[Pair]) -> Result<Vec<Job<'_>>, String> {
    let mut jobs = Vec::new();
    for pair in files {
        let path = pair.ptx.display();
        let ptx = std::fs::read_to_string(&pair.ptx).map_err(|error| format!("{path}: {error}"))?;
        let runs =
            runline::parse(&ptx).map_err(|error| format!("{path}:{}: {}", error.line, error.message))?;
        if runs.is_empty() {
            return Err(format!("{path} has no run lines"));
        }
        jobs.extend(runs.into_iter().map(|run| Job { pair, run }));
    }
    Ok(jobs)
}
