//! `cargo xtask fuzz bundle DIR`: generated programs for a machine with a GPU, in a few big files.
//!
//! | file | what |
//! |---|---|
//! | `WAY-N.cubin` | the kernels of batch N, compiled in one of the ways of `programs.rs` |
//! | `programs.bin` | for each program what `run.py` says: how to launch it, and hashes of what it must leave |
//! | `images.bin` | the contents of memory before a run |
//! | `run.py`, `run.sh` | loads, launches, compares |

use super::programs::{REFERENCE, TARGET, WAYS, check, compile, interpret};
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use sim::generate::{self, IMAGES, PARAMETERS, Program};
use std::path::Path;

/// Kernels in a module.
const BATCH: u64 = 250;
/// Most threads of a program.
const THREADS: u32 = 128;

/// With `reference`, ptxas compiles the programs as well: where it is right and we are not, the interpreter is, too.
pub fn write(folder: &Path, first: u64, count: u64, reference: bool) -> Result<()> {
    let tools = if reference { Some(Tools::find()?) } else { None };
    shell::create_dir(folder)?;
    let batches: Vec<Vec<Program>> = (first..first + count)
        .step_by(BATCH as usize)
        .map(|start| (start..(start + BATCH).min(first + count)).map(Program::new).collect())
        .collect();
    let lines: Vec<Vec<u8>> = batches
        .par_iter()
        .enumerate()
        .map(|(number, programs)| batch(folder, number, programs, tools.as_ref()))
        .collect::<Result<_>>()?;
    shell::write(&folder.join("programs.bin"), lines.concat())?;
    let images: Vec<u8> = (0..IMAGES).flat_map(|number| generate::image(number, THREADS)).collect();
    shell::write(&folder.join("images.bin"), images)?;
    let names = WAYS.iter().map(|way| way.name);
    let ways: Vec<&str> = reference.then_some(REFERENCE).into_iter().chain(names).collect();
    let constants = format!(
        "WAYS = {ways:?}\nIMAGES = {IMAGES}\nHEAD = {}\nRECORD = {}\nVALUES = bytes({PARAMETERS:?})\n",
        generate::memory_bytes(0),
        generate::memory_bytes(1) - generate::memory_bytes(0),
    );
    shell::write(&folder.join("layout.py"), constants)?;
    shell::write(&folder.join("run.py"), include_str!("run.py"))?;
    shell::write(
        &folder.join("run.sh"),
        "#!/bin/sh\ncd \"$(dirname \"$0\")\" && timeout 500 python3 run.py\n",
    )?;
    println!("{count} programs, {} ways, in {}", ways.len(), folder.display());
    Ok(())
}

/// Compiles a batch in every way; what `programs.bin` says about it. Programs that fail here are named and left out.
fn batch(folder: &Path, number: usize, programs: &[Program], tools: Option<&Tools>) -> Result<Vec<u8>> {
    let (programs, bad): (Vec<_>, Vec<_>) =
        programs.iter().cloned().partition(|program| check(program, None).is_ok());
    if !bad.is_empty() {
        let seeds: Vec<u64> = bad.iter().map(|program| program.seed).collect();
        println!("left out, as they fail without a GPU: {seeds:?}");
    }
    let source = generate::module(&programs);
    for way in &WAYS {
        let cubin = compile(&source, way).map_err(|failure| format!("batch {number}: {failure:?}"))?;
        shell::write(&folder.join(format!("{}-{number}.cubin", way.name)), cubin)?;
    }
    if let Some(tools) = tools {
        let name = |end: &str| folder.join(format!("{REFERENCE}-{number}.{end}"));
        shell::write(&name("ptx"), &source)?;
        let mut ptxas = tools.command("ptxas");
        ptxas.arg(format!("-arch={TARGET}")).arg(name("ptx")).arg("-o").arg(name("cubin"));
        shell::run(&mut ptxas)?;
    }
    let mut lines = Vec::new();
    for program in &programs {
        let alone = generate::module(std::slice::from_ref(program));
        let memory = interpret(program, &alone).map_err(|failure| format!("{failure:?}"))?;
        lines.extend(program.seed.to_le_bytes());
        lines.extend([number as u32, program.grid, program.block, 0].iter().flat_map(|n| n.to_le_bytes()));
        lines.extend(hashes(&memory).iter().flat_map(|hash| hash.to_le_bytes()));
    }
    Ok(lines)
}

/// A hash of what all threads share, and one of each word of the records, over the threads: it shows which register
/// is wrong.
fn hashes(memory: &[u8]) -> Vec<u64> {
    let words: Vec<u64> = memory
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
        .collect();
    let (head, records) = words.split_at(generate::memory_bytes(0) / 8);
    let width = generate::memory_bytes(1) / 8 - head.len();
    let columns = (0..width).map(|column| hash(records.iter().skip(column).step_by(width)));
    std::iter::once(hash(head.iter())).chain(columns).collect()
}

fn hash<'w>(words: impl Iterator<Item = &'w u64>) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    words.zip(0u64..).fold(0, |sum: u64, (word, i)| {
        sum.wrapping_add((word ^ word >> 32).wrapping_mul(FACTOR.wrapping_mul(2 * i + 1)))
    })
}
