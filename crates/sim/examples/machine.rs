//! Runs every kernel of a file of one-instruction kernels in the interpreter, in the simulator and, where there is one,
//! on a GPU, and compares memory.
//!
//! `cargo run --release -p sim --example machine -- FILE.ptx FILE.cubin [--sets N] [--kernel NAME] [--gpu] [--from N]`
//!
//! Each kernel takes a pointer to 256 bytes per thread: operands from 0 on, results from 128 on. With `--gpu` a line
//! `NAME HASH` tells what memory the GPU left after all sets. A kernel that makes the GPU's context unusable ends the
//! run with exit status 3 and the number to go on from.

use sim::Machine;
use sim::ops::{BYTES, Outcome, THREADS, hash, inputs, outcome, parameters};
use std::collections::BTreeMap;
use std::error::Error;

/// Differences that are shown of one kernel.
const SHOWN: usize = 3;

#[derive(Default)]
struct Arguments {
    files: Vec<String>,
    sets: u64,
    kernel: Option<String>,
    gpu: bool,
    from: usize,
}

impl Arguments {
    fn read() -> Result<Arguments, Box<dyn Error>> {
        let mut read = Arguments { sets: 4, ..Arguments::default() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--sets" => read.sets = value()?.parse()?,
                "--kernel" => read.kernel = Some(value()?),
                "--from" => read.from = value()?.parse()?,
                "--gpu" => read.gpu = true,
                _ => read.files.push(argument),
            }
        }
        Ok(read)
    }
}

/// Memory after each set of inputs, or why a kernel can't be run; whether the fault is the kernel's own.
type Outcomes = Result<Vec<Vec<u8>>, (String, bool)>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read()?;
    let [file, cubin] = &arguments.files[..] else { return Err("a PTX file and a cubin are needed".into()) };
    let source = std::fs::read_to_string(file)?;
    let module = ptx::parse(&source, &ptx::Options::default()).module.ok_or("the file does not parse")?;
    let interpreted = sim::ptx::Program::new(&module, &source);
    let cubin = std::fs::read(cubin)?;
    let simulated = sim::sass::Program::new(&cubin)?;
    let device = if arguments.gpu { Some(gpu::Device::open(0)?) } else { None };
    let loaded = device.as_ref().map(|device| gpu::Module::load(device, &cubin)).transpose()?;
    let mut notes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let kernels = interpreted.kernels().enumerate().skip(arguments.from);
    for (number, kernel) in kernels.filter(|(_, k)| arguments.kernel.as_ref().is_none_or(|only| only == k)) {
        let expected = run_sets(|| sim::ptx::Machine::new(&interpreted), kernel, arguments.sets);
        let got = run_sets(|| sim::sass::Machine::new(&simulated), kernel, arguments.sets);
        let mut note = |what: String| notes.entry(what).or_default().push(kernel);
        for (who, outcome) in [("interpreter", &expected), ("simulator", &got)] {
            if let Err((what, _)) = outcome {
                note(format!("{who}: {what}"));
            }
        }
        compare(kernel, ("interpreter", &expected), ("simulator", &got), &mut note);
        // What traps or waits for ever would do so on the GPU.
        let faulty = [&expected, &got].into_iter().any(|outcome| matches!(outcome, Err((_, true))));
        if let (Some(device), Some(module), false) = (&device, &loaded, faulty) {
            match on_gpu(device, module, kernel, arguments.sets) {
                Ok(memory) => {
                    println!("{kernel} {:016x}", hash(memory.iter().flatten()));
                    let memory = Ok(memory);
                    compare(kernel, ("GPU", &memory), ("simulator", &got), &mut note);
                    compare(kernel, ("GPU", &memory), ("interpreter", &expected), &mut note);
                }
                Err(error) => {
                    println!("{kernel}: {error}; go on with --from {}", number + 1);
                    std::process::exit(3);
                }
            }
        }
    }
    for (what, kernels) in &notes {
        println!("{} {what} ({})", kernels.len(), kernels.join(" "));
    }
    Ok(())
}

fn compare<'k>(
    kernel: &str,
    (who, expected): (&str, &'k Outcomes),
    (other, got): (&str, &'k Outcomes),
    note: &mut impl FnMut(String),
) {
    let (Ok(expected), Ok(got)) = (expected, got) else { return };
    let mut lines = Vec::new();
    for (set, (got, want)) in got.iter().zip(expected).enumerate() {
        let words = got.chunks_exact(8).zip(want.chunks_exact(8)).enumerate();
        lines.extend(words.filter(|(_, (got, want))| got != want).map(|(i, (got, want))| {
            let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
            let (thread, offset) = (i / 32, i % 32 * 8);
            let (want, got) = (word(want), word(got));
            format!("set {set} thread {thread} +{offset}: {who} {want:016x}, {other} {got:016x}")
        }));
    }
    if lines.is_empty() {
        return note(format!("the same: {who}, {other}"));
    }
    println!("{kernel}: {} words differ", lines.len());
    lines.iter().take(SHOWN).for_each(|line| println!("    {line}"));
    note(format!("different: {who}, {other}"));
}

fn run_sets<'p, M: Machine + 'p>(machine: impl Fn() -> M, kernel: &str, sets: u64) -> Outcomes {
    let run = |set| match outcome(&mut machine(), kernel, set) {
        Outcome::Memory(memory) => Ok(memory),
        Outcome::Fault(what) => Err((what, true)),
        Outcome::Unknown(what) => Err((format!("{what} is not supported"), false)),
    };
    (0..sets).map(run).collect()
}

fn on_gpu(
    device: &gpu::Device,
    module: &gpu::Module,
    kernel: &str,
    sets: u64,
) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let buffer = gpu::Buffer::new(device, BYTES)?;
    let run = |set: u64| {
        buffer.write(&inputs(set))?;
        let launch = gpu::Launch { grid: [1; 3], block: [THREADS as u32, 1, 1], shared: 0 };
        module.kernel(kernel)?.launch(launch, &parameters(buffer.address()))?;
        device.synchronize()?;
        let mut memory = vec![0; BYTES];
        buffer.read(&mut memory)?;
        Ok(memory)
    };
    (0..sets).map(run).collect()
}
