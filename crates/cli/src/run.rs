//! `sassafras run FILE`: kernels without a GPU.
//!
//! A PTX file runs in the interpreter, a cubin (or with `-O`, what we make of the PTX file) in the simulator. What is
//! launched is in run lines (crates/gpu/README.md): in the PTX file itself, in a launch file, or in the options.
//!
//! Exit code 0: every run ended and left the memory that was expected; 1: one did not; 255: nothing could be run.

use crate::answer::Answer;
use gpu::runline::{self, Contents, Run};
use sim::Machine;
use sim::ptx::Launch;
use sim::tensor_map::{Tensor, TensorMap};
use sim::texture::{Description, Image};
use std::fmt::Write;

pub const USAGE: &str = "\
usage: sassafras run FILE [OPTIONS]

Runs kernels of a PTX file in the interpreter, or of a cubin in the simulator, and compares memory with what the run
lines expect: those of the PTX file, or those of a launch file. With --kernel it shows memory after one launch.

  -O0 ... -O3          compile the PTX file and simulate the code instead
  --launches FILE      run lines, in a file of their own
  --kernel NAME        launch this kernel
  --grid X[,Y[,Z]]     blocks (1)
  --block X[,Y[,Z]]    threads of a block (1)
  --shared BYTES       dynamic shared memory (0)
  --memory NAME:TYPE=... a buffer that no parameter points to, for tensor maps and images: x:u16[64]=0
  --arg NAME:TYPE=...  a parameter, as in a run line: n:u32=4, x:f32[n]=random(1); once for each, in order
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
    weak: Option<u64>,
    show: usize,
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
                "--races" => request.races = true,
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
        if runs.is_empty() {
            Err("there is nothing to run: no run line, no --kernel".into())
        } else {
            Ok(runs)
        }
    }
}

/// What kernels run on.
enum Programs {
    Interpreted(sim::ptx::Program),
    Simulated(sim::sass::Program),
}

impl Programs {
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
    let (mut text, mut failed) = (String::new(), false);
    for run in request.runs(&source)? {
        let outcome = execute(&mut *programs.machine(), &run, &request);
        let _ = write!(text, "{}: ", run.kernel);
        match outcome {
            Err(what) => {
                failed = true;
                let _ = writeln!(text, "{what}");
            }
            Ok(_) if request.kernel.is_none() => text.push_str("as expected\n"),
            Ok(results) => {
                text.push_str("done\n");
                text.push_str(&shown(&run, &results, request.show));
            }
        }
    }
    Ok(Answer { text, code: u8::from(failed) })
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
    let parsed = ptx::parse(&source, &ptx::Options::default());
    let refused = |diagnostics: &[ptx::Diagnostic]| {
        let first = diagnostics.first().map_or("", |diagnostic| diagnostic.message.as_str());
        format!("{file}: {first}")
    };
    let module = parsed.module.as_ref().filter(|_| !parsed.failed());
    let module = module.ok_or_else(|| refused(&parsed.diagnostics))?;
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
    let cubin = output.cubin.ok_or_else(|| refused(&output.diagnostics))?;
    simulated(&cubin).map(|programs| (source.clone(), programs))
}

/// Runs one, and compares memory with what is expected of it: the buffers, or what is wrong.
fn execute(machine: &mut dyn Machine, run: &Run, request: &Request) -> Result<Vec<Vec<u8>>, String> {
    let addresses: Vec<u64> = run.buffers().map(|data| machine.allocate(data.to_vec())).collect();
    let parameters = run.parameters(&addresses, |object, address| make(machine, object, address))?;
    let launch = Launch::new(&run.kernel, run.grid, run.block, &parameters);
    let launch = Launch { shared: run.shared, check_races: request.races, weak: request.weak, ..launch };
    machine.run(&launch).map_err(|fault| fault.to_string())?;
    let read = |(address, data): (&u64, &[u8])| {
        machine.read(*address, data.len()).map(<[u8]>::to_vec).unwrap_or_default()
    };
    let results: Vec<Vec<u8>> = addresses.iter().zip(run.buffers()).map(read).collect();
    let expects = run.args.iter().any(|arg| matches!(arg.contents, Contents::Buffer { after: Some(_), .. }));
    if expects {
        run.check(&results).map_err(|mismatch| mismatch.to_string())?;
    }
    Ok(results)
}

/// The map or the handle of a run line.
pub fn make(machine: &mut dyn Machine, object: runline::Object, address: u64) -> Result<Vec<u8>, String> {
    match object {
        runline::Object::Map(tensor) => {
            let runline::Tensor { element, sizes, strides, boxes, steps, .. } = tensor;
            let runline::Tensor { swizzle, interleave, fills_nan, .. } = *tensor;
            let tensor = Tensor { element, sizes, strides, boxes, steps, swizzle, interleave, fills_nan };
            Ok(TensorMap::new(address, &tensor)?.write().to_vec())
        }
        runline::Object::Multicast => Ok(machine.add_multicast(address).to_le_bytes().to_vec()),
        runline::Object::Image(image) => {
            let description = Description {
                channel: image.channel,
                channels: image.channels,
                sizes: &image.sizes,
                layered: image.layered,
                cube: image.cube,
                levels: image.levels,
                beyond: image.beyond,
                normalised: image.normalised,
                linear: image.linear,
                linear_levels: image.linear_levels,
                as_integers: image.integers,
            };
            Ok(machine.add_image(Image::new(address, &description)?).to_le_bytes().to_vec())
        }
    }
}

/// The first elements of each buffer.
fn shown(run: &Run, results: &[Vec<u8>], count: usize) -> String {
    let buffers = run.args.iter().filter(|arg| matches!(arg.contents, Contents::Buffer { .. }));
    let mut out = String::new();
    for (arg, bytes) in buffers.zip(results) {
        let size = arg.ty.size();
        let elements = bytes.chunks_exact(size).take(count).map(|element| arg.ty.show(arg.ty.load(element)));
        let more = if bytes.len() / size > count { ", ..." } else { "" };
        let _ = writeln!(out, "{} = [{}{more}]", arg.name, elements.collect::<Vec<_>>().join(", "));
    }
    out
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
