//! Records what this machine's GPU does with kernels of one instruction ([`sim::ops`]).
//!
//! `cargo run --release -p sim --example record -- FILE.cubin [--from N]`
//!
//! A line for each kernel, in the order of their names: `NAME HASH`, then the lower half of the hash after each set of
//! inputs; or `NAME error CODE`. An error makes the GPU's context unusable: the run then ends with exit status 3, and
//! `--from` with the number of the lines so far goes on. `conformance simulator` compares executors with the recording.

use sim::ops::{SETS_ON_H200, bytes, hash, inputs, parameters, threads};
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The exit status of a run that has to be gone on with.
const GO_ON: u8 = 3;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (file, from) = match &arguments[..] {
        [file] => (file, 0),
        [file, option, from] if option == "--from" => (file, from.parse()?),
        _ => return Err("a cubin is needed".into()),
    };
    let cubin = std::fs::read(file)?;
    let program = sim::sass::Program::new(&cubin)?;
    let mut kernels: Vec<&str> = program.kernels().collect();
    kernels.sort_unstable();
    let device = gpu::Device::open(0)?;
    let module = gpu::Module::load(&device, &cubin)?;
    for kernel in kernels.into_iter().skip(from) {
        match run(&device, &module, kernel) {
            Ok(memory) => {
                let sets = memory.iter().map(|set| format!(" {:08x}", hash(set.iter()) as u32));
                println!("{kernel} {:016x}{}", hash(memory.iter().flatten()), sets.collect::<String>());
            }
            Err(gpu::Error::Driver { code, .. }) => {
                println!("{kernel} error {code}");
                return Ok(ExitCode::from(GO_ON));
            }
            Err(other) => return Err(other.into()),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Memory after each set of inputs.
fn run(
    device: &gpu::Device,
    module: &gpu::Module,
    kernel: &str,
) -> std::result::Result<Vec<Vec<u8>>, gpu::Error> {
    let buffer = gpu::Buffer::new(device, bytes(kernel))?;
    let loaded = module.kernel(kernel)?;
    let launch = gpu::Launch { grid: [1; 3], block: [threads(kernel), 1, 1], shared: 0 };
    let run = |set: u64| {
        buffer.write(&inputs(kernel, set))?;
        loaded.launch(launch, &parameters(kernel, buffer.address()))?;
        device.synchronize()?;
        let mut memory = vec![0; bytes(kernel)];
        buffer.read(&mut memory)?;
        Ok(memory)
    };
    (0..SETS_ON_H200).map(run).collect()
}
