//! A block of threads: its warps, its shared memory, its barriers.

use super::program::{Program, Reduction, lanes};
use super::races::Meeting;
use super::warp::{Arrival, State, Warp};
use super::{Fault, FaultKind, Launch, Statistics, Thread, coordinates};
use crate::barriers::{Barriers, Party};
use crate::memory::RANK_SHIFT;
use crate::memory::weak::{Order, turns};
use crate::ptx::cluster::Memory;

/// Those that a program can name.
const BARRIERS: usize = 16;
/// How many steps a warp takes before the next one has a turn.
const WARP_TURN: u64 = 4096;

/// What all warps of a block see.
pub struct Context<'p> {
    pub program: &'p Program,
    pub launch: &'p Launch<'p>,
    pub routine: u32,
    pub block: [u32; 3],
    /// The place of the cluster in the grid, and of the block in the cluster.
    pub cluster: [u32; 3],
    pub rank: u32,
    /// Blocks of a cluster.
    pub cluster_size: [u32; 3],
    /// Where dynamic shared memory begins, and where it ends.
    pub dynamic: u32,
    pub shared_bytes: u32,
    /// Threads that came to a barrier in the current turn.
    pub arrivals: Vec<Arrival>,
    /// Steps so far, for the clock.
    pub clock: u64,
}

pub struct Block<'p> {
    context: Context<'p>,
    warps: Vec<Warp>,
    barriers: Barriers,
    order: Option<Order>,
}

impl<'p> Block<'p> {
    pub fn new(
        program: &'p Program,
        launch: &'p Launch<'p>,
        routine: u32,
        cluster: [u32; 3],
        rank: u32,
    ) -> Block<'p> {
        let kernel = &program.routines[routine as usize];
        // Dynamic shared memory is aligned for every type.
        let dynamic = kernel.shared_bytes.next_multiple_of(kernel.dynamic_align.max(16));
        let cluster_size = launch.cluster_size(kernel);
        let within = coordinates(rank.into(), cluster_size);
        let context = Context {
            program,
            launch,
            routine,
            block: std::array::from_fn(|axis| cluster[axis] * cluster_size[axis] + within[axis]),
            cluster,
            rank,
            cluster_size,
            dynamic,
            shared_bytes: dynamic + launch.shared,
            arrivals: Vec::new(),
            clock: 0,
        };
        let threads = launch.block.iter().product::<u32>();
        let warps: Vec<Warp> = (0..threads.div_ceil(32))
            .map(|warp| Warp::new(&context, warp, u32::MAX >> (32 - (threads - 32 * warp).min(32))))
            .collect();
        let barriers = Barriers::new(BARRIERS, warps.len());
        let order = launch.weak.map(|seed| Order::new(seed, context.part(u32::MAX)));
        Block { context, warps, barriers, order }
    }

    pub fn shared_bytes(&self) -> usize {
        self.context.shared_bytes as usize
    }

    pub fn is_done(&self) -> bool {
        self.warps.iter().all(Warp::is_done)
    }

    /// Each warp has a turn.
    pub fn round(&mut self, memory: &mut Memory, statistics: &mut Statistics) -> Result<(), Fault> {
        for index in turns(self.order.as_mut(), self.warps.len()) {
            let warp = &mut self.warps[index];
            if !warp.is_done() {
                let turn = self.order.as_mut().map_or(WARP_TURN, |order| order.steps(WARP_TURN));
                warp.run(&mut self.context, memory, statistics, turn)?;
                self.meet(memory, index)?;
            }
        }
        Ok(())
    }

    /// A phase of the cluster's barrier is over: threads that wait there look again.
    pub fn leave_cluster_barrier(&mut self) {
        self.warps.iter_mut().for_each(Warp::leave_cluster_barrier);
    }

    /// Counts the threads that arrived at barriers, and lets go of those where all have.
    fn meet(&mut self, memory: &mut Memory, warp: usize) -> Result<(), Fault> {
        let exited = self.warps[warp].take_exited();
        let arrivals = std::mem::take(&mut self.context.arrivals);
        let changed = exited || !arrivals.is_empty();
        for arrival in arrivals {
            let undefined = |what: String| Fault::new(arrival.line, FaultKind::Undefined { what });
            let Arrival { number, threads, mask, predicates, .. } = arrival;
            self.barriers.arrive(number, &Party { warp, mask, predicates, threads }).map_err(undefined)?;
        }
        if changed {
            let alive = self.alive();
            (0..self.barriers.count()).for_each(|number| self.release(memory, number, &alive));
        }
        Ok(())
    }

    fn release(&mut self, memory: &mut Memory, number: usize, alive: &[u32]) {
        let Some(votes) = self.barriers.complete(number, alive) else { return };
        let meeting = Meeting::Barrier(self.context.rank as usize, number as u32);
        memory.races.iter_mut().for_each(|races| races.complete(meeting));
        let result = |reduction: Reduction| match reduction {
            Reduction::None => 0,
            Reduction::Popc => u64::from(votes.held),
            Reduction::And => u64::from(votes.held == votes.came),
            Reduction::Or => u64::from(votes.held > 0),
        };
        for warp in &mut self.warps {
            warp.release(&self.context, memory, number as u32, result);
        }
    }

    /// The threads of each warp that have not exited.
    pub fn alive(&self) -> Vec<u32> {
        self.warps.iter().map(|warp| warp.alive).collect()
    }

    /// Every thread waits: says for what, and asks about the cluster.
    pub fn deadlock(&self, cluster: impl Fn() -> String) -> Fault {
        let mut waiting = self.warps.iter().flat_map(|warp| warp.waiting().map(move |group| (warp, group)));
        let Some((warp, group)) = waiting.next() else {
            return Fault::new(0, FaultKind::Deadlock { what: "no thread can go on".into() });
        };
        let line = self.context.program.steps.get(group.pc as usize).map_or(0, |step| step.line);
        let what = match group.state {
            State::AtBarrier(number) => self.barriers.shortage(number, &self.alive()),
            State::AtCluster => cluster(),
            _ => format!("lanes {:#x} wait for lanes that never come", group.mask),
        };
        let lane = lanes(group.mask).next().unwrap_or(0);
        let thread = self.context.thread(warp.index, lane as u32);
        Fault { line, kind: FaultKind::Deadlock { what }, thread: Some(thread) }
    }
}

impl Context<'_> {
    /// The address of a place in the block's shared memory.
    pub fn shared_address(&self, offset: u32) -> u64 {
        u64::from(self.rank << RANK_SHIFT | offset)
    }

    /// The number of a warp, for the adversary that orders them.
    pub fn part(&self, warp: u32) -> u64 {
        let [x, y, z] = self.block.map(u64::from);
        x << 40 ^ y << 24 ^ z << 8 ^ u64::from(warp)
    }

    /// Does the launch or the kernel say how large clusters are?
    pub fn is_explicit_cluster(&self) -> bool {
        self.launch.cluster.is_some() || self.program.routines[self.routine as usize].cluster.is_some()
    }

    pub fn thread(&self, warp: u32, lane: u32) -> Thread {
        let index = u64::from(32 * warp + lane);
        Thread { block: self.block, thread: coordinates(index, self.launch.block) }
    }
}
