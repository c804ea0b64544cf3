//! A PTX interpreter: a module, a kernel, a grid, arguments and memory in, memory out.
//!
//! ```
//! let source = ".version 8.0\n.target sm_90\n.address_size 64\n\
//!     .entry fill(.param .u64 p) { .reg .b32 %r<2>; .reg .b64 %rd<4>;\n\
//!     ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;\n\
//!     add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ret; }\n";
//! let module = ptx::parse(source, &ptx::Options::default()).module.unwrap();
//! let program = sim::ptx::Program::new(&module, source);
//! let mut machine = sim::ptx::Machine::new(&program);
//! let buffer = machine.allocate(vec![0; 16]);
//! let parameters = buffer.to_le_bytes();
//! let launch = sim::ptx::Launch::new("fill", [1, 1, 1], [4, 1, 1], &parameters);
//! machine.run(&launch).unwrap();
//! assert_eq!(machine.read(buffer, 16).unwrap()[..8], [0, 0, 0, 0, 1, 0, 0, 0]);
//! ```
//!
//! * An instruction is decoded once ([`decode`]) into a step of a [`program`].
//! * The lanes of a warp that are at one place run in lock step; the others wait ([`warp`]). No lane waits for
//!   ever while another one spins, and lanes meet again at the lowest address. Blocks take turns, too, so
//!   that one may wait for another.
//! * Arithmetic is that of [`ori::arith`]: bit-exact, but for the approximate functions.
//! * What PTX leaves undefined is a [`Fault`] with the line that did it: a bad address, a register that was
//!   never written, a barrier that can't complete and, on request, a data race on shared memory ([`races`]).
//!
//! The same run gives the same bytes, and the same fault, everywhere.

mod block;
mod cluster;
pub(crate) mod decode;
pub(crate) mod program;
mod races;
pub(crate) mod warp;

pub use crate::fault::{Fault, FaultKind, Thread};
pub use program::Program;

use crate::memory::texture::Image;
use crate::memory::{Global, SHARED_LIMIT};
use cluster::Cluster;
use std::collections::VecDeque;

/// A kernel's launch.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The kernel's name.
    pub kernel: &'a str,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y and z; without it what the kernel asks for, or one.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// What each 8 bytes of shared memory hold when a block starts. Nothing says what that is on a GPU.
    pub shared_contents: u64,
    /// The kernel's parameters as they are in memory.
    pub parameters: &'a [u8],
    /// A run that takes more steps of a warp than this is stopped.
    pub step_limit: u64,
    /// Reading a register that was never written is a fault; otherwise it is zero.
    pub check_registers: bool,
    /// A register that is read before the machine model has its value there is read as poison. The simulator alone
    /// does it; code whose schedule was proved needs it no more.
    pub check_schedule: bool,
    /// Two accesses of shared memory that have no order are a fault. The interpreter alone does it; it takes time.
    pub check_races: bool,
    /// Threads see each other's stores as late as memory's rules allow, and run in an adverse order, which the seed
    /// chooses. Code that orders its accesses leaves the same memory with every seed.
    pub weak: Option<u64>,
}

impl<'a> Launch<'a> {
    /// A launch with all checks, and nothing that is not asked for.
    pub fn new(kernel: &'a str, grid: [u32; 3], block: [u32; 3], parameters: &'a [u8]) -> Launch<'a> {
        Launch {
            kernel,
            grid,
            block,
            cluster: None,
            shared: 0,
            shared_contents: 0,
            parameters,
            step_limit: 1 << 32,
            check_registers: true,
            check_schedule: true,
            check_races: false,
            weak: None,
        }
    }

    /// So many bytes of shared memory when a block starts.
    pub(crate) fn shared_memory(&self, bytes: usize) -> Vec<u8> {
        self.shared_contents.to_le_bytes().into_iter().cycle().take(bytes).collect()
    }

    /// Blocks of a cluster.
    fn cluster_size(&self, kernel: &program::Routine) -> [u32; 3] {
        self.cluster.or(kernel.cluster).unwrap_or([1; 3])
    }
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Instructions of warps.
    pub steps: u64,
    /// Instructions of lanes.
    pub lane_steps: u64,
}

impl Program {
    /// Decodes a module. `source` is the text that it was parsed from.
    pub fn new(module: &::ptx::Module, source: &str) -> Program {
        decode::program(module, source)
    }

    /// How many instructions there are.
    pub fn instructions(&self) -> usize {
        self.steps.len()
    }

    /// Instructions that can't be executed, with their lines.
    pub fn unsupported(&self) -> impl Iterator<Item = (u32, &str)> {
        self.steps.iter().filter_map(|step| match &step.action {
            program::Action::Unsupported(what) => Some((step.line, what.as_str())),
            _ => None,
        })
    }

    /// The names of the kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.routines.iter().filter(|r| r.entry).map(|r| r.name.as_str())
    }
}

/// A program with its memory.
pub struct Machine<'p> {
    program: &'p Program,
    global: Global,
}

/// How many steps a block takes before another one has a turn, if it needs that many.
pub(crate) const BLOCK_TURN: u64 = 1 << 16;

/// What `%nsmid` and `%nwarpid` are: both executors stand for an H200.
pub(crate) const MULTIPROCESSORS: u32 = 132;
pub(crate) const WARPS: u32 = 64;
/// Blocks of a cluster, of the largest GPU.
const CLUSTER_LIMIT: u64 = 16;
/// Parameters of a function, and its `.param` variables.
const PARAMETER_LIMIT: u32 = 1 << 20;

impl<'p> Machine<'p> {
    /// A machine with the variables of a module in its memory.
    pub fn new(program: &'p Program) -> Machine<'p> {
        Machine { program, global: program.globals.clone() }
    }

    /// Global memory that holds these bytes; its address.
    pub fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        self.global.allocate(bytes)
    }

    /// Bytes of global memory, if they are all of one allocation.
    pub fn read(&mut self, address: u64, length: usize) -> Option<&[u8]> {
        self.global.slice(address, length).map(|bytes| &*bytes)
    }

    /// Puts bytes into global memory; `None` if they are not all of one allocation.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        self.global.slice(address, bytes.len()).map(|memory| memory.copy_from_slice(bytes))
    }

    /// The handle of an image whose texels are in memory, for textures and surfaces.
    pub fn add_image(&mut self, image: Image) -> u64 {
        self.global.add_image(image)
    }

    /// The address by which `multimem` reaches memory that was allocated.
    pub fn add_multicast(&mut self, address: u64) -> u64 {
        self.global.add_multicast(address)
    }

    /// The address of a global variable of the module.
    pub fn variable(&self, name: &str) -> Option<u64> {
        self.program.names.iter().find(|(n, _)| n == name).map(|(_, address)| *address)
    }

    /// Runs a kernel to its end.
    pub fn run(&mut self, launch: &Launch) -> Result<Statistics, Fault> {
        let routine = self.kernel(launch)?;
        let size = launch.cluster_size(&self.program.routines[routine as usize]);
        let clusters: [u32; 3] = std::array::from_fn(|axis| launch.grid[axis] / size[axis]);
        let count = clusters.iter().map(|n| u64::from(*n)).product::<u64>();
        let mut statistics = Statistics::default();
        let mut active: VecDeque<Cluster> = VecDeque::new();
        let (mut next, mut vain) = (0, 0);
        loop {
            // A cluster that doesn't end in its turn may wait for one that hasn't begun.
            if next < count {
                active.push_front(Cluster::new(self.program, launch, routine, coordinates(next, clusters)));
                next += 1;
            }
            let Some(mut cluster) = active.pop_front() else { return Ok(statistics) };
            let finished = cluster.run(&mut self.global, &mut vain, &mut statistics, BLOCK_TURN)?;
            if statistics.steps > launch.step_limit {
                return Err(Fault::new(0, FaultKind::StepLimit { steps: statistics.steps }));
            }
            if !finished {
                active.push_back(cluster);
            }
        }
    }

    fn kernel(&self, launch: &Launch) -> Result<u32, Fault> {
        let name = launch.kernel;
        let found = self.program.routines.iter().position(|r| r.entry && r.name == name);
        let index = found.ok_or_else(|| Fault::launch(format!("there is no kernel {name}")))?;
        let routine = &self.program.routines[index];
        let threads = launch.block.iter().map(|n| u64::from(*n)).product::<u64>();
        if !(1..=1024).contains(&threads) {
            return Err(Fault::launch(format!("a block can't have {threads} threads")));
        }
        if launch.grid.contains(&0) {
            return Err(Fault::launch("the grid is empty"));
        }
        let cluster = launch.cluster_size(routine);
        if cluster.contains(&0) || (0..3).any(|axis| !launch.grid[axis].is_multiple_of(cluster[axis])) {
            return Err(Fault::launch(format!("{:?} blocks are no clusters of {cluster:?}", launch.grid)));
        }
        let blocks = cluster.iter().map(|n| u64::from(*n)).product::<u64>();
        if blocks > CLUSTER_LIMIT {
            return Err(Fault::launch(format!("a cluster can't have {blocks} blocks")));
        }
        let too_large = [
            ("shared memory", routine.shared_bytes.saturating_add(launch.shared), SHARED_LIMIT),
            ("local memory", routine.local_bytes, warp::LOCAL_LIMIT),
            ("parameters", routine.param_bytes, PARAMETER_LIMIT),
        ];
        if let Some((what, bytes, _)) = too_large.into_iter().find(|(_, bytes, limit)| bytes > limit) {
            return Err(Fault::launch(format!("{name} has {bytes} bytes of {what}")));
        }
        if routine.formal_bytes as usize != launch.parameters.len() {
            let (want, got) = (routine.formal_bytes, launch.parameters.len());
            return Err(Fault::launch(format!("{name} takes {want} bytes of parameters, not {got}")));
        }
        Ok(index as u32)
    }
}

/// The place of the n-th element of a grid, x first.
pub(crate) fn coordinates(index: u64, size: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = size.map(|n| u64::from(n.max(1)));
    [(index % x) as u32, (index / x % y) as u32, (index / (x * y)) as u32]
}

#[cfg(test)]
mod tests;
