//! A block of threads: its warps, its shared memory, its barriers.

use super::memory::Global;
use super::program::{Program, Reduction, lanes};
use super::warp::{Arrival, State, Warp};
use super::{Fault, FaultKind, Launch, Statistics, Thread, coordinates};
use crate::barriers::{Barriers, Party};

/// The 16 that a program can name, and that of the cluster.
const BARRIERS: usize = 17;
/// How many steps a warp takes before the next one has a turn.
const WARP_TURN: u64 = 4096;

/// What all warps of a block see.
pub struct Context<'p> {
    pub program: &'p Program,
    pub launch: &'p Launch<'p>,
    pub routine: u32,
    pub block: [u32; 3],
    pub shared: Vec<u8>,
    /// Where dynamic shared memory begins.
    pub dynamic: u32,
    /// Threads that came to a barrier in the current turn.
    pub arrivals: Vec<Arrival>,
    /// Steps so far, for the clock.
    pub clock: u64,
}

pub struct Block<'p> {
    context: Context<'p>,
    warps: Vec<Warp>,
    barriers: Barriers,
}

impl<'p> Block<'p> {
    pub fn new(program: &'p Program, launch: &'p Launch<'p>, routine: u32, block: [u32; 3]) -> Block<'p> {
        let kernel = &program.routines[routine as usize];
        // Dynamic shared memory is aligned for every type.
        let dynamic = kernel.shared_bytes.next_multiple_of(16);
        let shared = vec![0; (dynamic + launch.shared) as usize];
        let context =
            Context { program, launch, routine, block, shared, dynamic, arrivals: Vec::new(), clock: 0 };
        let threads = launch.block.iter().product::<u32>();
        let warps: Vec<Warp> = (0..threads.div_ceil(32))
            .map(|warp| Warp::new(&context, warp, u32::MAX >> (32 - (threads - 32 * warp).min(32))))
            .collect();
        let barriers = Barriers::new(BARRIERS, warps.len());
        Block { context, warps, barriers }
    }

    /// Runs until the block is done (`true`) or has used up its turn.
    pub fn run(
        &mut self,
        global: &mut Global,
        statistics: &mut Statistics,
        turn: u64,
    ) -> Result<bool, Fault> {
        let end = statistics.steps.saturating_add(turn);
        loop {
            let before = statistics.steps;
            for index in 0..self.warps.len() {
                let warp = &mut self.warps[index];
                if !warp.is_done() {
                    warp.run(&mut self.context, global, statistics, WARP_TURN)?;
                    self.meet(index)?;
                }
            }
            if self.warps.iter().all(Warp::is_done) {
                return Ok(true);
            }
            if statistics.steps == before {
                return Err(self.deadlock());
            }
            if statistics.steps >= end || statistics.steps > self.context.launch.step_limit {
                return Ok(false);
            }
        }
    }

    /// Counts who arrived at barriers, and lets go of those where all have.
    fn meet(&mut self, warp: usize) -> Result<(), Fault> {
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
            (0..self.barriers.count()).for_each(|number| self.release(number, &alive));
        }
        Ok(())
    }

    fn release(&mut self, number: usize, alive: &[u32]) {
        let Some(votes) = self.barriers.complete(number, alive) else { return };
        let result = |reduction: Reduction| match reduction {
            Reduction::None => 0,
            Reduction::Popc => u64::from(votes.held),
            Reduction::And => u64::from(votes.held == votes.came),
            Reduction::Or => u64::from(votes.held > 0),
        };
        for warp in &mut self.warps {
            warp.release(&self.context, number as u32, result);
        }
    }

    /// The threads of each warp that have not exited.
    fn alive(&self) -> Vec<u32> {
        self.warps.iter().map(|warp| warp.alive).collect()
    }

    /// Every thread waits: says for what.
    fn deadlock(&self) -> Fault {
        let mut waiting = self.warps.iter().flat_map(|warp| warp.waiting().map(move |group| (warp, group)));
        let Some((warp, group)) = waiting.next() else {
            return Fault::new(0, FaultKind::Deadlock { what: "no thread can go on".into() });
        };
        let line = self.context.program.steps.get(group.pc as usize).map_or(0, |step| step.line);
        let what = match group.state {
            State::AtBarrier(number) => self.barriers.shortage(number, &self.alive()),
            _ => format!("lanes {:#x} wait for lanes that never come", group.mask),
        };
        let lane = lanes(group.mask).next().unwrap_or(0);
        let thread = self.context.thread(warp.index, lane as u32);
        Fault { line, kind: FaultKind::Deadlock { what }, thread: Some(thread) }
    }
}

impl Context<'_> {
    pub fn thread(&self, warp: u32, lane: u32) -> Thread {
        let index = u64::from(32 * warp + lane);
        Thread { block: self.block, thread: coordinates(index, self.launch.block) }
    }
}
