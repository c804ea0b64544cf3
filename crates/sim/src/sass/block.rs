//! A block of threads: its warps, its shared memory, its barriers.

use super::Program;
use super::bank0;
use super::fault::{Fault, Hazards};
use super::image::{BANKS, Kernel};
use super::program::lanes_of;
use super::warp::{Arrival, State, Warp};
use crate::barriers::{Barriers, Party};
use crate::ptx::memory::Global;
use crate::ptx::program::Reduction;
use crate::ptx::{FaultKind, Launch, Statistics, Thread, coordinates};

/// The 16 that a program can name.
const BARRIERS: usize = 16;
/// How many steps a warp takes before the next one has a turn.
const WARP_TURN: u64 = 4096;
/// Local memory of a thread beyond what the kernel says that it needs: for calls whose depth nobody knows.
const STACK_RESERVE: u32 = 16 << 10;

/// What all warps of a block see.
pub struct Context<'p> {
    pub program: &'p Program,
    pub launch: &'p Launch<'p>,
    pub kernel: &'p Kernel,
    pub block: [u32; 3],
    /// From address 0, with the system's part.
    pub shared: Vec<u8>,
    pub bank0: Vec<u8>,
    /// Local memory of a thread, in bytes.
    pub stack: u32,
    /// Threads that came to a barrier in the current turn.
    pub arrivals: Vec<Arrival>,
}

pub struct Block<'p> {
    context: Context<'p>,
    warps: Vec<Warp>,
    barriers: Barriers,
}

impl<'p> Block<'p> {
    pub fn new(
        program: &'p Program,
        launch: &'p Launch<'p>,
        kernel: &'p Kernel,
        block: [u32; 3],
    ) -> Block<'p> {
        let shared = vec![0; (kernel.shared.next_multiple_of(16) + launch.shared) as usize];
        let stack = kernel.stack.next_multiple_of(16) + STACK_RESERVE;
        let bank0 = bank0::fill(program.image.target, kernel, launch, stack);
        let context = Context { program, launch, kernel, block, shared, bank0, stack, arrivals: Vec::new() };
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
        hazards: &mut Hazards,
        turn: u64,
    ) -> Result<bool, Fault> {
        let end = statistics.steps.saturating_add(turn);
        loop {
            let before = statistics.steps;
            for index in 0..self.warps.len() {
                let warp = &mut self.warps[index];
                if !warp.is_done() {
                    warp.run(&mut self.context, global, statistics, hazards, WARP_TURN)?;
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
            let undefined = |what: String| {
                let place = self.context.program.place(arrival.index);
                Fault { place, ..Fault::new(FaultKind::Undefined { what }) }
            };
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
            Reduction::None => (0, false),
            Reduction::Popc => (votes.held, votes.held > 0),
            Reduction::And => (u32::from(votes.held == votes.came), votes.held == votes.came),
            Reduction::Or => (u32::from(votes.held > 0), votes.held > 0),
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
            return Fault::new(FaultKind::Deadlock { what: "no thread can go on".into() });
        };
        let what = match group.state {
            State::AtBarrier(number) => self.barriers.shortage(number, &self.alive()),
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

impl Context<'_> {
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
