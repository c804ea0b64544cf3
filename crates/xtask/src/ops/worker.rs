//! A process that runs kernels on the GPU. It says that it is ready, reads lines `KERNEL CODE`, and answers with a line
//! for each, the hash of all sets and those of each, or `error:CODE`. After an error it has no GPU any more, and ends.

use crate::{Result, shell};
use sim::ops::{self, CODES, Recorded, SETS_ON_H200, Shared};
use std::path::Path;

/// What is there on a machine.
struct Rig<'m> {
    device: &'m gpu::Device,
    zeros: gpu::Kernel<'m>,
    barriers: gpu::Kernel<'m>,
}

pub fn work(dir: &Path, keep: &str) -> Result<()> {
    let device = gpu::Device::open(0)?;
    let load = |name: &str| -> Result<gpu::Module> {
        Ok(gpu::Module::load(&device, &shell::read_bytes(&dir.join(format!("{name}.cubin")))?)?)
    };
    let codes = CODES.map(load).into_iter().collect::<Result<Vec<gpu::Module>>>()?;
    let shared = load("shared")?;
    let rig = Rig { device: &device, zeros: shared.kernel("zeros")?, barriers: shared.kernel("barriers")? };
    rig.zeros.prefer_shared()?;
    rig.barriers.prefer_shared()?;
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line?;
        let (kernel, code) = line.split_once(' ').ok_or("a job without a code")?;
        let code: usize = code.parse()?;
        let module = codes.get(code).ok_or("a job with an unknown code")?;
        match rig.run(module, kernel) {
            Ok(memory) => {
                if code == 0 && keep.split(',').any(|name| name == kernel) {
                    shell::write(&dir.join(format!("{kernel}.bin")), memory.concat())?;
                }
                let sets = memory.iter().map(|set| format!(" {:08x}", ops::hash(set.iter()) as u32));
                let all = Recorded::Hash(ops::hash(memory.iter().flatten()));
                println!("{all}{}", sets.collect::<String>());
            }
            Err(gpu::Error::Driver { code, .. }) => {
                println!("{}", Recorded::Error(code));
                return Ok(());
            }
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

impl Rig<'_> {
    /// Memory after each set of inputs.
    fn run(&self, module: &gpu::Module, kernel: &str) -> std::result::Result<Vec<Vec<u8>>, gpu::Error> {
        let buffer = gpu::Buffer::new(self.device, ops::bytes(kernel))?;
        let map = match ops::tensor(kernel, buffer.address()) {
            Some(address) => Some(self.device.encode(&tensor(), address)?),
            None => None,
        };
        let loaded = module.kernel(kernel)?;
        loaded.prefer_shared()?;
        let launch = gpu::Launch {
            grid: [1; 3],
            block: [ops::threads(kernel), 1, 1],
            shared: 0,
            in_clusters: ops::in_cluster(kernel),
        };
        let run = |set: u64| {
            buffer.write(&ops::inputs(kernel, set, buffer.address(), map))?;
            self.fill_shared(ops::shared(kernel, set))?;
            loaded.launch(launch, &ops::parameters(kernel, buffer.address()))?;
            self.device.synchronize()?;
            let mut memory = vec![0; ops::bytes(kernel)];
            buffer.read(&mut memory)?;
            Ok(ops::compared(kernel, memory))
        };
        (0..SETS_ON_H200).map(run).collect()
    }

    /// Fills the shared memory of all multiprocessors.
    fn fill_shared(&self, contents: Shared) -> std::result::Result<(), gpu::Error> {
        let bytes = self.device.most_shared()?;
        let grid = [self.device.multiprocessors()?, 1, 1];
        let launch = gpu::Launch { grid, block: [1024, 1, 1], shared: bytes, in_clusters: false };
        match contents {
            Shared::Zeros => self.zeros.launch(launch, &bytes.to_le_bytes()),
            Shared::Barriers(count) => {
                self.barriers.launch(launch, &[bytes.to_le_bytes(), count.to_le_bytes()].concat())
            }
        }
    }
}

fn tensor() -> gpu::runline::Tensor {
    gpu::runline::Tensor {
        buffer: 0,
        element: "u32",
        sizes: ops::TENSOR.to_vec(),
        strides: vec![u64::from(ops::TENSOR[0]) * 4],
        boxes: ops::TENSOR_BOX.to_vec(),
        steps: vec![1; 2],
        swizzle: 0,
        interleave: 0,
        fills_nan: false,
    }
}
