//! Runs every kernel of a PTX file of one-instruction kernels in the interpreter, and the same kernels of a cubin in
//! the simulator, and compares memory.
//!
//! `cargo run --release -p sim --example machine -- FILE.ptx FILE.cubin [SETS] [KERNEL]`

use sim::ptx::{Launch, Statistics};
use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

mod inputs;
use inputs::{BYTES, THREADS, inputs};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, cubin, rest @ ..] = &arguments[..] else {
        return Err("a PTX file and a cubin are needed".into());
    };
    let sets = rest.first().map_or(Ok(4), |n| n.parse::<u64>())?;
    let only = rest.get(1);
    let source = std::fs::read_to_string(file)?;
    let module = ptx::parse(&source, &ptx::Options::default()).module.ok_or("the file does not parse")?;
    let interpreted = sim::ptx::Program::new(&module, &source);
    let simulated = sim::sass::Program::new(&std::fs::read(cubin)?)?;
    let mut stopped: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let (mut same, mut different) = (0, 0);
    let (mut time, mut steps) = (0.0, 0);
    for kernel in interpreted.kernels().filter(|kernel| only.is_none_or(|only| only == kernel)) {
        let mut lines = Vec::new();
        let mut stop = None;
        for set in 0..sets {
            let expected = match interpret(&interpreted, kernel, set) {
                Ok(memory) => memory,
                Err(fault) => {
                    stop = Some(format!("interpreter: {}", fault.kind));
                    break;
                }
            };
            let start = Instant::now();
            let (got, statistics) = match simulate(&simulated, kernel, set) {
                Ok(memory) => memory,
                Err(fault) => {
                    if only.is_some() {
                        println!("{fault}");
                    }
                    stop = Some(format!("simulator: {}", fault.kind));
                    break;
                }
            };
            time += start.elapsed().as_secs_f64();
            steps += statistics.lane_steps;
            lines.extend(differences(set, &got, &expected));
        }
        match stop {
            Some(what) => stopped.entry(what).or_default().push(kernel),
            None if lines.is_empty() => same += 1,
            None => {
                different += 1;
                println!("{kernel}: {} words differ", lines.len());
                lines.iter().take(3).for_each(|line| println!("    {line}"));
            }
        }
    }
    for (what, kernels) in &stopped {
        println!("{} not compared: {what} ({})", kernels.len(), kernels.join(" "));
    }
    println!("{same} kernels the same, {different} different");
    println!("{steps} lane instructions in {time:.3} s: {:.1} M/s", steps as f64 / time / 1e6);
    Ok(())
}

fn parameters(buffer: u64) -> Vec<u8> {
    let mut parameters = buffer.to_le_bytes().to_vec();
    parameters.extend([THREADS as u8, 0, 0, 0]);
    parameters
}

fn interpret(program: &sim::ptx::Program, kernel: &str, set: u64) -> Result<Vec<u8>, sim::ptx::Fault> {
    let mut machine = sim::ptx::Machine::new(program);
    let buffer = machine.allocate(inputs(set));
    let parameters = parameters(buffer);
    machine.run(&Launch::new(kernel, [1; 3], [THREADS as u32, 1, 1], &parameters))?;
    Ok(machine.read(buffer, BYTES).unwrap_or_default().to_vec())
}

fn simulate(
    program: &sim::sass::Program,
    kernel: &str,
    set: u64,
) -> Result<(Vec<u8>, Statistics), sim::sass::Fault> {
    let mut machine = sim::sass::Machine::new(program);
    let buffer = machine.allocate(inputs(set));
    let parameters = parameters(buffer);
    let statistics = machine.run(&Launch::new(kernel, [1; 3], [THREADS as u32, 1, 1], &parameters))?;
    Ok((machine.read(buffer, BYTES).unwrap_or_default().to_vec(), statistics))
}

fn differences(set: u64, got: &[u8], want: &[u8]) -> Vec<String> {
    let words = got.chunks_exact(8).zip(want.chunks_exact(8)).enumerate();
    let differing = words.filter(|(_, (got, want))| got != want).map(|(i, (got, want))| {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
        let (thread, offset) = (i / 32, i % 32 * 8);
        format!("set {set} thread {thread} +{offset}: {:016x}, simulator {:016x}", word(want), word(got))
    });
    differing.collect()
}
