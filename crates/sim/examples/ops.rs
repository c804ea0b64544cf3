//! Runs every kernel of a file of one-instruction kernels and says which can't be executed.
//!
//! `cargo run --release -p sim --example ops -- FILE.ptx [SETS] [--gpu FILE.cubin] [--from N]`
//!
//! Each kernel takes a pointer to 256 bytes per thread: operands from 0 on, results from 128 on. SETS sets of
//! inputs are tried. With a cubin of the same file the kernels run on the GPU, too, and every kernel whose memory
//! is not the same afterwards is listed, with its first different words. A kernel that makes the GPU's context
//! unusable ends the comparison with exit status 3 and the number to go on from.

use sim::ptx::{FaultKind, Launch, Machine, Program};
use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

mod inputs;
use inputs::{BYTES, THREADS, inputs};

/// Differences that are shown of one kernel.
const SHOWN: usize = 6;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("a PTX file is missing")?;
    let (mut sets, mut cubin, mut from) = (4u64, None, 0);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--gpu" => cubin = Some(arguments.next().ok_or("a cubin is missing")?),
            "--from" => from = arguments.next().ok_or("a number is missing")?.parse()?,
            number => sets = number.parse()?,
        }
    }
    let source = std::fs::read_to_string(&file)?;
    let parsed = ptx::parse(&source, &ptx::Options::default());
    let module = parsed.module.ok_or("the file does not parse")?;
    let program = Program::new(&module, &source);
    let results = interpret(&program, sets);
    match cubin {
        Some(cubin) => compare(&results, &std::fs::read(cubin)?, from),
        None => Ok(()),
    }
}

/// The memory after each set of inputs, of the kernels that can be executed.
fn interpret(program: &Program, sets: u64) -> Vec<(&str, Vec<Vec<u8>>)> {
    let mut faults: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut results = Vec::new();
    let (mut lane_steps, start) = (0, Instant::now());
    for kernel in program.kernels() {
        let run = |set: u64| {
            let mut machine = Machine::new(program);
            let buffer = machine.allocate(inputs(set));
            let parameters = parameters(buffer);
            let launch = Launch::new(kernel, [1; 3], [THREADS as u32, 1, 1], &parameters);
            let statistics = machine.run(&launch)?;
            Ok((statistics.lane_steps, machine.read(buffer, BYTES).unwrap_or_default().to_vec()))
        };
        match (0..sets).map(run).collect::<Result<Vec<_>, sim::ptx::Fault>>() {
            Ok(all) => {
                lane_steps += all.iter().map(|(steps, _)| steps).sum::<u64>();
                results.push((kernel, all.into_iter().map(|(_, memory)| memory).collect()));
            }
            Err(fault) => {
                let what = match &fault.kind {
                    FaultKind::Unsupported { .. } => fault.kind.to_string(),
                    _ => fault.to_string(),
                };
                faults.entry(what).or_default().push(kernel);
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    for (what, kernels) in &faults {
        println!("{what}: {}", kernels.join(" "));
    }
    println!("{} kernels run, {} don't", results.len(), faults.values().map(Vec::len).sum::<usize>());
    println!(
        "{lane_steps} lane instructions in {seconds:.3} s: {:.1} M/s",
        lane_steps as f64 / seconds / 1e6
    );
    results
}

fn parameters(buffer: u64) -> Vec<u8> {
    let mut parameters = buffer.to_le_bytes().to_vec();
    parameters.extend([THREADS as u8, 0, 0, 0]);
    parameters
}

fn compare(results: &[(&str, Vec<Vec<u8>>)], cubin: &[u8], from: usize) -> Result<(), Box<dyn Error>> {
    let device = gpu::Device::open(0)?;
    let module = gpu::Module::load(&device, cubin)?;
    let buffer = gpu::Buffer::new(&device, BYTES)?;
    let mut different = 0;
    for (number, (kernel, expected)) in results.iter().enumerate().skip(from) {
        let mut differences = Vec::new();
        for (set, expected) in expected.iter().enumerate() {
            buffer.write(&inputs(set as u64))?;
            let launch = gpu::Launch { grid: [1; 3], block: [THREADS as u32, 1, 1], shared: 0 };
            module.kernel(kernel)?.launch(launch, &parameters(buffer.address()))?;
            if let Err(error) = device.synchronize() {
                println!("{kernel}: {error}; go on with --from {}", number + 1);
                std::process::exit(3);
            }
            let mut memory = vec![0; BYTES];
            buffer.read(&mut memory)?;
            let words = memory.chunks_exact(8).zip(expected.chunks_exact(8)).enumerate();
            differences.extend(words.filter(|(_, (got, want))| got != want).map(|(i, (got, want))| {
                let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
                let (thread, offset) = (i / 32, i % 32 * 8);
                format!("set {set} thread {thread} +{offset}: {:016x}, GPU {:016x}", word(want), word(got))
            }));
        }
        if !differences.is_empty() {
            different += 1;
            println!("{kernel}: {} words differ", differences.len());
            differences.iter().take(SHOWN).for_each(|line| println!("    {line}"));
        }
    }
    println!("{different} of {} kernels differ from the GPU", results.len());
    Ok(())
}
