//! A block of threads: its warps and its barriers.

use super::Program;
use super::bank0;
use super::cluster::Run;
use super::fault::Fault;
use super::image::{BANKS, Kernel};
use super::program::lanes_of;
use super::trace;
use super::warp::{Arrival, State, Warp};
use crate::barriers::{Barriers, Party};
use crate::memory::weak::{Order, Scope, Who, turns};
use crate::ptx::program::Reduction;
use crate::ptx::{FaultKind, Launch, Thread, coordinates};

/// The 16 that a program can name.
const BARRIERS: usize = 16;
/// Warps of a block, at most.
const WARPS: u32 = 32;
/// How many steps a warp takes before the next one has a turn.
const WARP_TURN: u64 = 4096;

/// What all warps of a block see.
pub struct Context<'p> {
    pub program: &'p Program,
    pub launch: &'p Launch<'p>,
    pub kernel: &'p Kernel,
    pub block: [u32; 3],
    /// The block's number in its cluster.
    pub rank: u32,
    /// The block's number in the launch.
    pub number: u32,
    /// Blocks of the cluster along the axes.
    pub cluster: [u32; 3],
    pub bank0: Vec<u8>,
    /// Threads that came to a barrier in the current turn.
    pub arrivals: Vec<Arrival>,
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
        kernel: &'p Kernel,
        cluster: [u32; 3],
        place: [u32; 3],
        (rank, number): (u32, u32),
    ) -> Block<'p> {
        let local = coordinates(rank.into(), cluster);
        let block = std::array::from_fn(|axis| place[axis] * cluster[axis] + local[axis]);
        let bank0 = bank0::fill(program.image.target, kernel, launch, cluster);
        let arrivals = Vec::new();
        let context = Context { program, launch, kernel, block, rank, number, cluster, bank0, arrivals };
        let threads = launch.block.iter().product::<u32>();
        let warps: Vec<Warp> = (0..threads.div_ceil(32))
            .map(|warp| Warp::new(&context, warp, u32::MAX >> (32 - (threads - 32 * warp).min(32))))
            .collect();
        let barriers = Barriers::new(BARRIERS, warps.len());
        let order = launch.weak.map(|seed| Order::new(seed, u64::from(number) << 8));
        Block { context, warps, barriers, order }
    }

    pub fn is_done(&self) -> bool {
        self.warps.iter().all(Warp::is_done)
    }

    pub fn warp_count(&self) -> usize {
        self.warps.len()
    }

    /// A turn for each warp. Says whether a thread has exited.
    pub fn round(&mut self, run: &mut Run) -> Result<bool, Fault> {
        let mut exited = false;
        for index in turns(self.order.as_mut(), self.warps.len()) {
            let warp = &mut self.warps[index];
            if warp.asleep > 0 {
                warp.asleep -= 1;
                run.common.asleep = true;
            } else if !warp.is_done() {
                let turn = self.order.as_mut().map_or(WARP_TURN, |order| order.steps(WARP_TURN));
                warp.run(&mut self.context, run, turn)?;
                exited |= self.meet(run, index)?;
            }
        }
        Ok(exited)
    }

    /// The warps, for [`crate::memory::weak`].
    pub fn agents(&self) -> impl Iterator<Item = Who> {
        self.warps.iter().map(|warp| self.context.who(warp.index))
    }

    /// Lets go of those at the cluster's barrier.
    pub fn release_cluster(&mut self) {
        self.warps.iter_mut().for_each(Warp::release_cluster);
    }

    /// Counts the threads that arrived at barriers, and lets go of those where all have. Says whether a thread has
    /// exited.
    fn meet(&mut self, run: &mut Run, warp: usize) -> Result<bool, Fault> {
        let exited = self.warps[warp].take_exited();
        let arrivals = std::mem::take(&mut self.context.arrivals);
        let changed = exited || !arrivals.is_empty();
        for arrival in arrivals {
            let undefined = |what: String| {
                let place = self.context.program.place(arrival.index);
                Fault { place, ..Fault::new(FaultKind::Undefined { what }) }
            };
            let Arrival { number, threads, mask, predicates, .. } = arrival;
            self.barriers.arrive(number, &Party { warp, mask, predicates, threads }).map_err(undefined)?;
        }
        if changed {
            let alive = self.alive();
            (0..self.barriers.count()).for_each(|number| self.release(run, number, &alive));
        }
        Ok(exited)
    }

    fn release(&mut self, run: &mut Run, number: usize, alive: &[u32]) {
        let Some(votes) = self.barriers.complete(number, alive) else { return };
        if let Some(trace) = &mut run.common.trace {
            trace.complete(trace::Barrier::Block(self.context.rank, number as u32));
        }
        let result = |reduction: Reduction| match reduction {
            Reduction::None => (0, false),
            Reduction::Popc => (votes.held, votes.held > 0),
            Reduction::And => (u32::from(votes.held == votes.came), votes.held == votes.came),
            Reduction::Or => (u32::from(votes.held > 0), votes.held > 0),
        };
        for warp in &mut self.warps {
            let released = warp.release(&self.context, number as u32, result);
            if let Some(weak) = run.global.weak.as_mut().filter(|_| released) {
                weak.acquire(self.context.who(warp.index), Scope::Block);
            }
        }
    }

    /// The threads of each warp that have not exited.
    pub fn alive(&self) -> Vec<u32> {
        self.warps.iter().map(|warp| warp.alive).collect()
    }

    /// Every thread waits: says for what; `shortage` is why the cluster's barrier can't complete.
    pub fn deadlock(&self, shortage: String) -> Fault {
        let mut waiting = self.warps.iter().flat_map(|warp| warp.waiting().map(move |group| (warp, group)));
        let Some((warp, group)) = waiting.next() else {
            return no_thread_can_go_on();
        };
        let what = match group.state {
            State::AtBarrier(number) => self.barriers.shortage(number, &self.alive()),
            State::AtCluster => shortage,
            _ => format!("lanes {:#x} wait for lanes that never come", group.mask),
        };
        let lane = lanes_of(group.mask).next().unwrap_or(0);
        Fault {
            place: self.context.program.place(group.pc as usize),
            thread: Some(self.context.thread(warp.index, lane as u32)),
            ..Fault::new(FaultKind::Deadlock { what })
        }
    }
}

pub fn no_thread_can_go_on() -> Fault {
    Fault::new(FaultKind::Deadlock { what: "no thread can go on".into() })
}

impl Context<'_> {
    /// A warp of the block, for [`crate::memory::weak`].
    pub fn who(&self, warp: u32) -> Who {
        Who { agent: self.number.wrapping_mul(WARPS).wrapping_add(warp), block: self.number }
    }

    /// A warp of the block in the numbering of the cluster's.
    pub fn warp_in_cluster(&self, warp: u32) -> usize {
        let warps = self.launch.block.iter().product::<u32>().div_ceil(32);
        (self.rank * warps + warp) as usize
    }

    pub fn thread(&self, warp: u32, lane: u32) -> Thread {
        let index = u64::from(32 * warp + lane);
        Thread { block: self.block, thread: coordinates(index, self.launch.block) }
    }

    /// The bytes of a constant bank.
    pub fn bank(&self, bank: u8) -> &[u8] {
        match usize::from(bank) {
            0 => &self.bank0,
            bank if bank < BANKS => &self.kernel.banks[bank],
            _ => &[],
        }
    }
}
