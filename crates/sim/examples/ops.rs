//! Runs every kernel of a file of one-instruction kernels and says which can't be executed.
//!
//! `cargo run --release -p sim --example ops -- FILE.ptx [SETS]`
//!
//! Each kernel takes a pointer to 256 bytes per thread: operands from 0 on, results from 128 on. SETS sets of
//! inputs are tried; with `--write DIR` the memory after each is kept, one file per kernel, for comparison with
//! other executors.

use sim::ptx::{FaultKind, Launch, Machine, Program};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

const THREADS: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("a PTX file is missing")?;
    let (mut sets, mut folder) = (4u64, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--write" => folder = Some(PathBuf::from(arguments.next().ok_or("a folder is missing")?)),
            number => sets = number.parse()?,
        }
    }
    let source = std::fs::read_to_string(&file)?;
    let parsed = ptx::parse(&source, &ptx::Options::default());
    let module = parsed.module.ok_or("the file does not parse")?;
    let program = Program::new(&module, &source);
    let kernels: Vec<&str> = program.kernels().collect();
    let mut faults: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let (mut lane_steps, start) = (0, Instant::now());
    for kernel in &kernels {
        let mut memory = Vec::new();
        for set in 0..sets {
            let mut machine = Machine::new(&program);
            let buffer = machine.allocate(inputs(set));
            let mut parameters = buffer.to_le_bytes().to_vec();
            parameters.extend([32, 0, 0, 0]);
            match machine.run(&Launch::new(kernel, [1; 3], [THREADS as u32, 1, 1], &parameters)) {
                Ok(statistics) => lane_steps += statistics.lane_steps,
                Err(fault) => {
                    let what = match &fault.kind {
                        FaultKind::Unsupported { .. } => fault.kind.to_string(),
                        _ => format!("{fault}"),
                    };
                    faults.entry(what).or_default().push(kernel);
                    break;
                }
            }
            memory.extend_from_slice(machine.read(buffer, 256 * THREADS).unwrap_or_default());
        }
        if let Some(folder) = &folder {
            std::fs::write(folder.join(format!("{kernel}.bin")), &memory)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    for (what, kernels) in &faults {
        println!("{what}: {}", kernels.join(" "));
    }
    let failed: usize = faults.values().map(Vec::len).sum();
    println!("{} kernels, {failed} with faults", kernels.len());
    println!("{lane_steps} lane instructions in {seconds:.3} s: {:.1} M/s", lane_steps as f64 / seconds / 1e6);
    Ok(())
}

/// 256 bytes per thread: edge values and random ones. The fourth word, an offset into shared and local memory
/// for some kernels, stays small.
fn inputs(set: u64) -> Vec<u8> {
    const EDGES: [u64; 16] = [
        0,
        1,
        2,
        u64::MAX,
        0x8000_0000_8000_0000,
        0x7fff_ffff_7fff_ffff,
        0x7f80_0000_7f80_0000,
        0xff80_0000_ff80_0000,
        0x7fc0_0001_7fc0_0001,
        0x3f80_0000_3f80_0000,
        0x0000_0001_0080_0000,
        0x7bff_7bff_3c00_3c00,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0001,
        0x3ff0_0000_0000_0000,
        0x0010_0000_0000_0000,
    ];
    let mut state = set.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut out = Vec::new();
    for thread in 0..THREADS as u64 {
        for word in 0..32u64 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let random = state ^ state >> 31;
            let value = match set % 4 {
                0 => EDGES[((thread + word * 5) % 16) as usize],
                1 => EDGES[(random % 16) as usize],
                _ => random,
            };
            // Operands end at byte 100; %r4 is the upper half of the second word.
            out.extend(match word {
                1 => (value & 0xffff_ffff).to_le_bytes(),
                _ => value.to_le_bytes(),
            });
        }
    }
    out
}
