//! The cases on this machine's GPU: our code at all levels must leave the memory that the interpreter leaves.

use super::text::{self, Module, THREADS};
use super::{LEVELS, Memory, Tally, compared, memory_of_ptx};
use crate::Result;
use crate::compile::compile_ours;
use gpu::{Buffer, Device, Launch};
use rayon::prelude::*;

/// Modules that are compiled at a time.
const CHUNK: usize = 64;

/// What a module must leave, and its code at all levels.
struct Prepared {
    expected: Memory,
    cubins: Vec<Vec<u8>>,
}

impl Prepared {
    fn new(module: &Module, target: &str) -> std::result::Result<Prepared, String> {
        let text = module.text(target);
        let expected = memory_of_ptx(module, &text)?;
        let cubins = LEVELS.iter().map(|level| compile_ours(&text, target, *level));
        Ok(Prepared { expected, cubins: cubins.collect::<std::result::Result<_, _>>()? })
    }
}

/// Runs modules, one after the other.
pub fn measure(modules: &[Module], target: &str) -> Result<Tally> {
    let device = Device::open(0)?;
    println!("on {}", device.name()?);
    let mut tally = Tally::default();
    for chunk in modules.chunks(CHUNK) {
        let prepared: Vec<_> = chunk.par_iter().map(|module| Prepared::new(module, target)).collect();
        for (module, prepared) in chunk.iter().zip(prepared) {
            tally = tally.add(match prepared {
                Ok(prepared) => run_module(&device, module, &prepared)?,
                Err(why) => {
                    let cases =
                        (0..module.cases()).map(|case| format!("{}: {why}", module.case(case).name()));
                    Tally { left_out: cases.collect(), ..Tally::default() }
                }
            });
        }
    }
    Ok(tally)
}

/// A kernel that fails ends it all: the GPU may be lost.
fn run_module(device: &Device, module: &Module, prepared: &Prepared) -> Result<Tally> {
    let inputs = text::inputs();
    let input = Buffer::new(device, inputs.len())?;
    input.write(&inputs)?;
    let mut levels = Vec::new();
    for cubin in &prepared.cubins {
        let loaded = gpu::Module::load(device, cubin)?;
        let mut got: Memory = Vec::new();
        for kernel in 0..module.kernels() {
            let mut bytes = vec![0; module.result_bytes(kernel)];
            let results = Buffer::new(device, bytes.len())?;
            results.write(&bytes)?;
            let parameters = [input.address().to_le_bytes(), results.address().to_le_bytes()].concat();
            let launch =
                Launch { grid: [1; 3], block: [THREADS as u32, 1, 1], shared: 0, in_clusters: false };
            loaded.kernel(&Module::kernel_name(kernel))?.launch(launch, &parameters)?;
            device.synchronize()?;
            results.read(&mut bytes)?;
            got.push(bytes);
        }
        levels.push(module.differing(&prepared.expected, &got));
    }
    Ok(compared(module, &levels))
}
