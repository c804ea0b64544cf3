//! A SASS simulator: a cubin, a kernel, a grid, arguments and memory in, memory out.
//!
//! It runs the machine code itself, ours or anyone's, with the meaning that the code has on the machine:
//!
//! * Lanes that leave each other meet again only where the code makes them: BSYNC and WARPSYNC. Votes, shuffles and
//!   uniform registers see the lanes that are together, and no others.
//! * Uniform registers and predicates are one per warp: a path that overwrites what another one needs is found.
//! * Time passes as the control codes say. An instruction that reads a result before it is there reads
//!   [`POISON`], and the run ends with a [`Fault`] that names both instructions. The rules are those of
//!   [`crate::verify`], on the path that was taken.
//! * Arithmetic is [`ori::eval`]. What that does not know is a fault that names the instruction.
//! * Memory has bounds and alignment; launches, memory and reasons of faults are those of [`crate::ptx`], so that one
//!   test can run both.
//!
//! | question | file |
//! |---|---|
//! | what does the driver make of the file? | [`image`] |
//! | what does code find in constant bank 0? | [`bank0`] |
//! | what does an instruction do? | [`decode`] makes a step of [`program`] |
//! | which lanes run next? | [`warp`] |
//! | barriers of a block | [`block`] |
//! | shared memory; blocks that run at the same time | [`cluster`] |
//! | when do the bytes of a copy land? | [`flight`] |
//! | barriers in shared memory | [`crate::mbarrier`] |
//! | what did the warps of a block do? for [`crate::timing`] | [`trace`] |
//! | memory that warps see late, and a scheduler that looks for the worst | [`crate::memory::weak`] |

mod bank0;
mod block;
mod cluster;
pub(crate) mod decode;
mod fault;
mod flight;
mod image;
pub(crate) mod program;
pub(crate) mod trace;
mod warp;

pub use fault::{Fault, Place};
pub use image::LoadError;

use crate::memory::Global;
use crate::memory::SHARED_LIMIT;
use crate::memory::weak::{Bytes, Order, Weak};
use crate::ptx::{BLOCK_TURN, FaultKind, Launch, Statistics, coordinates};
use crate::verify::{Issue, Report};
use cluster::Cluster;
use fault::Hazards;
use image::{Image, Kernel};
use program::{Action, Step};
use sass::{Model, Target};
use std::collections::VecDeque;
use std::sync::OnceLock;
use trace::BlockTrace;

/// What a register holds that is read before its value is there.
pub const POISON: u32 = 0xdead_beef;

/// Steps of a cluster's turn where an adversary orders them: fewer than usual, as stores become visible with turns.
const WEAK_TURN: u64 = 1024;

/// A cubin, decoded.
pub struct Program {
    image: Image,
    steps: Vec<Step>,
    /// The steps as the schedule verifier sees them, once asked for.
    issues: OnceLock<Vec<Issue>>,
}

impl Program {
    /// Reads a cubin.
    pub fn new(file: &[u8]) -> Result<Program, LoadError> {
        let image = Image::load(file)?;
        let steps = decode::steps(&image);
        Ok(Program { image, steps, issues: OnceLock::new() })
    }

    fn issue(&self, index: usize) -> &Issue {
        let issues = || {
            let model = Model::of(self.image.target.isa);
            self.image.code.iter().enumerate().map(|(index, inst)| Issue::of(model, index, inst)).collect()
        };
        &self.issues.get_or_init(issues)[index]
    }

    /// How many instructions there are.
    pub fn instructions(&self) -> usize {
        self.steps.len()
    }

    /// The names of the kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.image.kernels.iter().map(|kernel| kernel.name.as_str())
    }

    /// Puts bytes into a variable of the module, in global or in constant memory, as the host does before a launch;
    /// `None` if there is none of that name, or it is smaller.
    pub fn write_variable(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Option<()> {
        self.image.write_variable(name, offset, bytes)
    }

    /// Instructions that are certain not to be executed, with the functions that they are in. Others may turn out
    /// to be unknown to `ori::eval`.
    pub fn unsupported(&self) -> impl Iterator<Item = (&str, &str)> {
        self.steps.iter().enumerate().filter_map(|(index, step)| match &step.action {
            Action::Unsupported(text) => Some((self.routine(index)?.name.as_str(), text.as_str())),
            _ => None,
        })
    }

    /// The instructions of all functions.
    pub(crate) fn code(&self) -> &[sass::Inst] {
        &self.image.code
    }

    /// What instructions do, in the same order.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn target(&self) -> &'static Target {
        self.image.target
    }

    /// Registers of a thread and bytes of shared memory of a block, for a launch with so many more.
    pub(crate) fn resources(&self, launch: &Launch) -> Option<(u32, u32)> {
        let kernel = self.image.kernels.iter().find(|kernel| kernel.name == launch.kernel)?;
        Some((kernel.registers, kernel.shared.saturating_add(launch.shared)))
    }

    /// The function of an instruction, and its address there.
    pub(crate) fn address(&self, index: usize) -> Option<(&str, u64)> {
        let routine = self.routine(index)?;
        Some((&routine.name, (index - routine.first) as u64 * sass::WORD_BYTES))
    }

    /// The indices of a function's instructions.
    pub fn instructions_of(&self, function: &str) -> Option<std::ops::Range<usize>> {
        let routine = self.image.routines.iter().find(|routine| routine.name == function)?;
        Some(routine.first..routine.first + routine.count)
    }

    fn routine(&self, index: usize) -> Option<&image::Routine> {
        self.image.routines.iter().find(|r| (r.first..r.first + r.count).contains(&index))
    }
}

/// A program with its memory.
pub struct Machine<'p> {
    program: &'p Program,
    global: Global,
}

impl<'p> Machine<'p> {
    /// A machine with the variables of a cubin in its memory.
    pub fn new(program: &'p Program) -> Machine<'p> {
        Machine { program, global: program.image.globals.clone() }
    }

    /// What it runs.
    pub(crate) fn program(&self) -> &'p Program {
        self.program
    }

    /// Global memory that holds these bytes; its address.
    pub fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        self.global.allocate(bytes)
    }

    /// Global memory that holds these bytes at an address; `None` if it can't be there.
    pub fn place(&mut self, address: u64, bytes: Vec<u8>) -> Option<()> {
        self.global.place(address, bytes)
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
    pub fn add_image(&mut self, image: crate::memory::texture::Image) -> u64 {
        self.global.add_image(image)
    }

    /// The address by which `multimem` reaches memory that was allocated.
    pub fn add_multicast(&mut self, address: u64) -> u64 {
        self.global.add_multicast(address)
    }

    /// The address of a global variable of the module.
    pub fn variable(&self, name: &str) -> Option<u64> {
        self.program.image.names.iter().find(|(n, _)| n == name).map(|(_, address)| *address)
    }

    /// Runs a kernel to its end. Memory stays as it is then, or as it was when the run stopped.
    pub fn run(&mut self, launch: &Launch) -> Result<Statistics, Fault> {
        let mut hazards = Hazards::default();
        self.global.weak = launch.weak.map(|seed| Box::new(Weak::new(seed)));
        let ran = self.run_blocks(launch, &mut hazards);
        Bytes { global: &mut self.global, shared: &mut [] }.with(|weak, memory| weak.finish(memory));
        self.global.weak = None;
        let reports: Vec<Report> = hazards.reports(self.program);
        match ran {
            Ok(statistics) if reports.is_empty() => Ok(statistics),
            Ok(_) => Err(Fault::of_hazards(reports)),
            Err(fault) => Err(Fault { hazards: reports, ..fault }),
        }
    }

    fn run_blocks(&mut self, launch: &Launch, hazards: &mut Hazards) -> Result<Statistics, Fault> {
        let kernel = self.kernel(launch)?;
        let (size, clusters, count) = self.clusters(launch, kernel);
        let mut statistics = Statistics::default();
        let mut active: VecDeque<Cluster> = VecDeque::new();
        let mut order = launch.weak.map(|seed| Order::new(seed, u64::MAX));
        let mut next = 0;
        loop {
            // A block that doesn't end in its turn may wait for one that hasn't begun.
            if next < count && order.as_mut().is_none_or(|order| order.begins(active.len())) {
                let place = coordinates(next, clusters);
                active.push_front(Cluster::new(self.program, launch, kernel, size, place, next as u32));
                next += 1;
            }
            if let Some(order) = &mut order {
                Bytes { global: &mut self.global, shared: &mut [] }
                    .with(|weak, memory| weak.age_lingering(memory));
                active.rotate_left(order.any(active.len()));
            }
            let Some(mut cluster) = active.pop_front() else { return Ok(statistics) };
            let turn = order.as_mut().map_or(BLOCK_TURN, |order| order.steps(WEAK_TURN));
            let finished = cluster.run(&mut self.global, &mut statistics, hazards, turn)?;
            if statistics.steps > launch.step_limit {
                return Err(Fault::new(FaultKind::StepLimit { steps: statistics.steps }));
            }
            if !finished {
                active.push_back(cluster);
            }
        }
    }

    /// Blocks of a cluster along the axes, clusters of the grid along them, and in all.
    fn clusters(&self, launch: &Launch, kernel: &Kernel) -> ([u32; 3], [u32; 3], u64) {
        let size = launch.cluster.or(kernel.cluster).unwrap_or([1; 3]);
        let clusters: [u32; 3] = std::array::from_fn(|axis| launch.grid[axis] / size[axis]);
        let count = clusters.iter().map(|n| u64::from(*n)).product::<u64>();
        (size, clusters, count)
    }

    /// How many blocks a cluster of a launch has, after the checks of the launch.
    pub(crate) fn cluster_blocks(&self, launch: &Launch) -> Result<u32, Fault> {
        let kernel = self.kernel(launch)?;
        Ok(self.clusters(launch, kernel).0.iter().product())
    }

    /// Runs the clusters of some blocks alone, one after the other, and takes down what those blocks do. A cluster is a
    /// number of the launch's, the block a rank in it.
    pub(crate) fn trace(
        &mut self,
        launch: &Launch,
        (cluster, rank): (u64, u32),
        steps: &mut u64,
    ) -> Result<BlockTrace, Fault> {
        let kernel = self.kernel(launch)?;
        let (size, clusters, _) = self.clusters(launch, kernel);
        let place = coordinates(cluster, clusters);
        let mut statistics = Statistics::default();
        let mut cluster = Cluster::new(self.program, launch, kernel, size, place, cluster as u32);
        cluster.trace(rank);
        let mut hazards = Hazards::default();
        while !cluster.run(&mut self.global, &mut statistics, &mut hazards, BLOCK_TURN)? {
            if statistics.steps > launch.step_limit {
                return Err(Fault::new(FaultKind::StepLimit { steps: statistics.steps }));
            }
        }
        *steps += statistics.steps;
        Ok(cluster.take_trace().unwrap_or_default())
    }

    fn kernel(&self, launch: &Launch) -> Result<&'p Kernel, Fault> {
        let refuse = |what: String| Fault::new(FaultKind::Launch { what });
        let name = launch.kernel;
        let found = self.program.image.kernels.iter().find(|kernel| kernel.name == name);
        let kernel = found.ok_or_else(|| refuse(format!("there is no kernel {name}")))?;
        let threads = launch.block.iter().map(|n| u64::from(*n)).product::<u64>();
        if !(1..=1024).contains(&threads) {
            return Err(refuse(format!("a block can't have {threads} threads")));
        }
        if launch.grid.contains(&0) {
            return Err(refuse("the grid is empty".into()));
        }
        let cluster = launch.cluster.or(kernel.cluster).unwrap_or([1; 3]);
        if cluster.contains(&0) || (0..3).any(|axis| !launch.grid[axis].is_multiple_of(cluster[axis])) {
            return Err(refuse(format!("{:?} blocks are no clusters of {cluster:?}", launch.grid)));
        }
        let shared = kernel.shared.saturating_add(launch.shared);
        if shared > SHARED_LIMIT {
            return Err(refuse(format!("{name} has {shared} bytes of shared memory")));
        }
        let want = kernel.parameters.size - kernel.parameters.lead.min(kernel.parameters.size);
        if want != launch.parameters.len() {
            let got = launch.parameters.len();
            return Err(refuse(format!("{name} takes {want} bytes of parameters, not {got}")));
        }
        Ok(kernel)
    }
}
