//! Kernels with more values alive at once than a thread has registers: compiled with the checks of every pass on,
//! their schedule proved, and run. `cargo xtask fuzz pressure` takes mixed ones, `bench spills` counts the spills.

use crate::Result;
use rayon::prelude::*;
use sim::generate::pressure::{self, NAME, Shape, THREADS};
use sim::ptx::{Launch, Machine};

/// Numbers of registers that are tried; ptxas gives no thread less than the first.
pub const REGISTERS: [u32; 5] = [24, 32, 64, 128, 255];
/// Words that are alive at once in mixed kernels, at the least and at the most.
const WORDS: std::ops::Range<u64> = 24..320;

/// Bytes that code stores to the frame, and loads from it, for want of registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spills {
    pub stores: u32,
    pub loads: u32,
}

impl Spills {
    pub fn sum(self) -> u32 {
        self.stores + self.loads
    }
}

/// Checks mixed kernels from a seed on.
pub fn fuzz(first: u64, count: u64) -> Result<()> {
    let failed: Vec<String> = (first..first.saturating_add(count))
        .into_par_iter()
        .flat_map_iter(|seed| {
            let words = (WORDS.start + seed * 7919 % (WORDS.end - WORDS.start)) as usize;
            let shape = Shape::Mixed(seed);
            let wrong = move |registers: u32| {
                let error = check(shape, words, registers).err()?;
                Some(format!("seed {seed}, {words} words in {registers} registers: {error}"))
            };
            REGISTERS.into_iter().filter_map(wrong)
        })
        .collect();
    failed.iter().for_each(|line| println!("{line}"));
    println!("{count} kernels from seed {first}, each with {REGISTERS:?} registers, {} failed", failed.len());
    if failed.is_empty() { Ok(()) } else { Err("there are kernels that fail".into()) }
}

/// Compiles a kernel, and sees to it that its code leaves the memory that it should.
pub fn check(shape: Shape, words: usize, registers: u32) -> Result<Spills> {
    let source = pressure::module(shape, words);
    let (cubin, spills) = compile(&source, registers)?;
    if let Some(first) = sim::verify::verify(&cubin)?.reports.first() {
        return Err(first.to_string().into());
    }
    let expected = interpret(&source, words)?;
    let decoded = sim::sass::Program::new(&cubin)?;
    let mut machine = sim::sass::Machine::new(&decoded);
    let address = machine.allocate(pressure::image(words));
    let parameters = address.to_le_bytes();
    machine.run(&launch(&parameters)).map_err(|fault| fault.to_string())?;
    match machine.read(address, expected.len()) {
        Some(memory) if memory == expected => Ok(spills),
        _ => Err("the code leaves other memory than the interpreter".into()),
    }
}

fn launch(parameters: &[u8]) -> Launch<'_> {
    Launch::new(NAME, [1, 1, 1], [THREADS, 1, 1], parameters)
}

fn parse(source: &str) -> Result<ptx::Module<'_>> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    let first = parsed.diagnostics.first().map(|d| d.message.clone());
    parsed.module.filter(|_| first.is_none()).ok_or_else(|| first.unwrap_or_default().into())
}

fn interpret(source: &str, words: usize) -> Result<Vec<u8>> {
    let program = sim::ptx::Program::new(&parse(source)?, source);
    let mut machine = Machine::new(&program);
    let image = pressure::image(words);
    let length = image.len();
    let address = machine.allocate(image);
    let parameters = address.to_le_bytes();
    machine.run(&launch(&parameters)).map_err(|fault| fault.to_string())?;
    machine.read(address, length).map(<[u8]>::to_vec).ok_or_else(|| "memory has another size".into())
}

fn compile(source: &str, registers: u32) -> Result<(Vec<u8>, Spills)> {
    let target = ptx::Target::find("sm_90").ok_or("no target")?;
    let mut options = sassafras::Options::new(target);
    options.launch.max_registers = Some(registers);
    options.verify = true;
    let output = sassafras::compile_module(&parse(source)?, &options);
    let message = output.diagnostics.first().map(|d| d.message.clone()).unwrap_or_default();
    let spills = output.functions.iter().fold(Spills::default(), |sum, f| Spills {
        stores: sum.stores + f.spill_stores,
        loads: sum.loads + f.spill_loads,
    });
    Ok((output.cubin.ok_or(message)?, spills))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bench has 300 words; a third of that fills all but the largest count, and takes a tenth of the time.
    #[test]
    fn more_values_than_registers_are_right() {
        for shape in Shape::PLAIN {
            for registers in REGISTERS {
                let checked = check(shape, 100, registers);
                assert!(checked.is_ok(), "{} in {registers}: {checked:?}", shape.name());
            }
        }
    }

    #[test]
    fn mixed_values_are_right_in_the_fewest_registers() {
        for seed in 0..12 {
            let checked = check(Shape::Mixed(seed), 150, REGISTERS[0]);
            assert!(checked.is_ok(), "seed {seed}: {checked:?}");
        }
    }
}
