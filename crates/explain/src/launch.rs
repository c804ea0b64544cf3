//! Runs what a run line describes on a machine without a GPU.

use gpu::runline::{self, Contents, Run};
use sim::Machine;
use sim::ptx::Launch;
use sim::tensor_map::{Tensor, TensorMap};
use sim::texture::{Description, Image};
use std::fmt::Write;

/// What is looked for beside the results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks {
    /// Two accesses of shared memory without an order are an error.
    pub races: bool,
    /// The seed of an adversary of the memory ordering.
    pub weak: Option<u64>,
    /// The most steps of warps, if not the usual limit.
    pub steps: Option<u64>,
}

/// Runs one, and compares memory with what is expected of it: the buffers, or what is wrong.
pub fn execute(machine: &mut dyn Machine, run: &Run, checks: Checks) -> Result<Vec<Vec<u8>>, String> {
    let addresses: Vec<u64> = run.buffers().map(|data| machine.allocate(data.to_vec())).collect();
    let parameters = run.parameters(&addresses, |object, address| make(machine, object, address))?;
    let launch = Launch::new(&run.kernel, run.grid, run.block, &parameters);
    let step_limit = checks.steps.unwrap_or(launch.step_limit);
    let (check_races, weak) = (checks.races, checks.weak);
    let launch = Launch { shared: run.shared, check_races, weak, step_limit, ..launch };
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
pub fn shown(run: &Run, results: &[Vec<u8>], count: usize) -> String {
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
