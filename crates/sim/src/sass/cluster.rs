//! A cluster: blocks that run at the same time, reach each other's shared memory and meet at a barrier.
//!
//! A block that belongs to no cluster is one of its own. Warps take turns in rounds; between two rounds, copies of the
//! asynchronous units land ([`super::flight`]), so that no thread sees their bytes before another warp has had its
//! turn.

use super::Program;
use super::block::{Block, no_thread_can_go_on};
use super::fault::{Fault, Hazards};
use super::flight::Flights;
use super::image::Kernel;
use super::trace::{self, BlockTrace, Tracer};
use crate::barriers::{Barriers, Party};
use crate::memory::Global;
use crate::memory::weak::{Bytes, Order, turns};
use crate::ptx::{Launch, Statistics};

/// What the blocks of a cluster share.
pub struct Common {
    /// Shared memory of each block, from address 0, with the system's part.
    pub shared: Vec<Vec<u8>>,
    /// Bytes of the system's part.
    pub system: u64,
    pub flights: Flights,
    pub meeting: Meeting,
    /// The cluster's number in the launch.
    pub number: u32,
    /// A warp had no turn in the round, though it could run.
    pub asleep: bool,
    /// Takes down what one of the blocks does, if that is asked for.
    pub trace: Option<Box<Tracer>>,
}

impl Common {
    pub fn new(shared: Vec<Vec<u8>>, system: u64, warps: usize, number: u32) -> Common {
        Common {
            shared,
            system,
            flights: Flights::default(),
            meeting: Meeting::new(warps),
            number,
            asleep: false,
            trace: None,
        }
    }
}

/// The barrier of a cluster.
pub struct Meeting {
    barrier: Barriers,
    /// How often it has completed.
    pub phase: u64,
    /// Some have come, or some have left that were waited for.
    changed: bool,
}

impl Meeting {
    fn new(warps: usize) -> Meeting {
        Meeting { barrier: Barriers::new(1, warps), phase: 0, changed: false }
    }

    /// Threads of a warp, in the numbering of the cluster's warps.
    pub fn arrive(&mut self, warp: usize, mask: u32) -> Result<(), String> {
        self.changed = true;
        self.barrier.arrive(0, &Party { warp, mask, predicates: 0, threads: None })
    }

    pub fn shortage(&self, alive: &[u32]) -> String {
        self.barrier.shortage(0, alive).replacen("barrier 0", "the barrier of the cluster", 1)
    }
}

/// What all that runs can change.
pub struct Run<'r> {
    pub global: &'r mut Global,
    pub common: &'r mut Common,
    pub statistics: &'r mut Statistics,
    pub hazards: &'r mut Hazards,
}

pub struct Cluster<'p> {
    common: Common,
    blocks: Vec<Block<'p>>,
    step_limit: u64,
    order: Option<Order>,
}

impl<'p> Cluster<'p> {
    /// The cluster of a place in the grid of clusters.
    pub fn new(
        program: &'p Program,
        launch: &'p Launch<'p>,
        kernel: &'p Kernel,
        size: [u32; 3],
        place: [u32; 3],
        number: u32,
    ) -> Cluster<'p> {
        let count = size.iter().product::<u32>();
        let new = |rank| Block::new(program, launch, kernel, size, place, (rank, number * count + rank));
        let blocks: Vec<Block> = (0..count).map(new).collect();
        let bytes = (kernel.shared.next_multiple_of(16) + launch.shared) as usize;
        let system = program.image.target.shared_base.into();
        let shared = vec![launch.shared_memory(bytes); blocks.len()];
        let common = Common::new(shared, system, blocks.iter().map(Block::warp_count).sum(), number);
        let order = launch.weak.map(|seed| Order::new(seed, u64::from(number) << 40));
        Cluster { common, blocks, step_limit: launch.step_limit, order }
    }

    /// From now on takes down what the block with this rank does.
    pub fn trace(&mut self, rank: u32) {
        let warps = self.blocks.get(rank as usize).map_or(0, Block::warp_count);
        self.common.trace = Some(Box::new(Tracer::new(rank, warps)));
    }

    /// What was taken down.
    pub fn take_trace(&mut self) -> Option<BlockTrace> {
        self.common.trace.take().map(|trace| trace.finish())
    }

    /// Runs until all blocks are done (`true`) or the turn is used up.
    pub fn run(
        &mut self,
        global: &mut Global,
        statistics: &mut Statistics,
        hazards: &mut Hazards,
        turn: u64,
    ) -> Result<bool, Fault> {
        let end = statistics.steps.saturating_add(turn);
        loop {
            let before = statistics.steps;
            let mut run =
                Run { global: &mut *global, common: &mut self.common, statistics, hazards: &mut *hazards };
            for turn in turns(self.order.as_mut(), self.blocks.len()) {
                let block = &mut self.blocks[turn];
                if !block.is_done() {
                    run.common.meeting.changed |= block.round(&mut run)?;
                }
            }
            let done = self.blocks.iter().all(Block::is_done);
            self.age(global);
            let asleep = std::mem::take(&mut self.common.asleep);
            let idle = statistics.steps == before;
            let stuck = !done && idle && !asleep;
            let landed = self.common.land(global, done || stuck);
            if done {
                let number = self.common.number;
                if let Some(weak) = &mut global.weak {
                    weak.forget_cluster(number, self.blocks.iter().flat_map(Block::agents));
                }
                return Ok(true);
            }
            let met = self.meet();
            if stuck && !landed && !met {
                return Err(self.deadlock());
            }
            if statistics.steps >= end || statistics.steps > self.step_limit || idle && asleep {
                return Ok(false);
            }
        }
    }

    /// Stores of its warps become visible with time.
    fn age(&mut self, global: &mut Global) {
        if global.weak.is_some() {
            let mut memory = Bytes { global, shared: &mut self.common.shared };
            for who in self.blocks.iter().flat_map(Block::agents) {
                memory.with(|weak, memory| weak.age(memory, who));
            }
        }
    }

    /// Lets go of those at the cluster's barrier if all have come.
    fn meet(&mut self) -> bool {
        if !std::mem::take(&mut self.common.meeting.changed) {
            return false;
        }
        let completed = self.common.meeting.barrier.complete(0, &self.alive()).is_some();
        if completed {
            self.common.meeting.phase += 1;
            if let Some(trace) = &mut self.common.trace {
                trace.complete(trace::Barrier::Cluster);
            }
            self.blocks.iter_mut().for_each(Block::release_cluster);
        }
        completed
    }

    fn alive(&self) -> Vec<u32> {
        self.blocks.iter().flat_map(Block::alive).collect()
    }

    fn deadlock(&self) -> Fault {
        let shortage = self.common.meeting.shortage(&self.alive());
        let stuck = self.blocks.iter().find(|block| !block.is_done());
        stuck.map_or_else(no_thread_can_go_on, |block| block.deadlock(shortage))
    }
}
