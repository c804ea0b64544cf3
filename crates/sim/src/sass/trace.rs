//! What the warps of a block did, instruction by instruction: what [`crate::timing`] gives times to.
//!
//! * A warp's records are in the order in which the simulator executed it: groups of lanes that have diverged come one
//!   after the other, as they took turns.
//! * An access has its places as the memory system sees them, not lane by lane: [`crate::coalescing`].
//! * Who waits for a barrier (of the block, of the cluster, in shared memory) names the *phase* that ended; who arrives
//!   names the phase that it counts in. So a phase is over in time once all have come that came to it in the run.
//! * Attempts to pass a barrier in shared memory that failed, and what lay between them and the one that passed, are
//!   left out: how often a warp tries depends on the time.

use super::program::{Action, LANES, Step, lanes_of};
use super::warp::registers::Registers;
use crate::coalescing::{self, Line};
use crate::memory::Space;
use crate::memory::weak::{Scope, Strength};
use crate::ptx::program::Lanes;
use std::collections::BTreeMap;

/// An instruction that a warp executed.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its index in the program.
    pub pc: u32,
    /// The lanes that took part.
    pub mask: u32,
    /// Where in the warp's extras its own are; [`Record::PLAIN`]: it has none.
    pub extra: u32,
}

impl Record {
    pub const PLAIN: u32 = u32::MAX;
}

/// The number of a phase of a barrier, in the numbering of the block's trace.
pub type Phase = u32;

/// What a record has beside the instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Extra {
    /// Global, local and generic memory: lines with their sectors. `strong`: the first-level cache is not asked.
    /// `same` is how many lanes at most have one address.
    Global { lines: Box<[Line]>, strong: bool, same: u8 },
    /// Shared memory: passes through the banks, how many its bytes need without conflicts, and how many lanes at most
    /// have one address.
    Shared { passes: u16, least: u8, same: u8 },
    /// From global to shared memory, by the warp.
    Copy { lines: Box<[Line]>, passes: u16 },
    /// Constants at so many different places.
    Constants { places: u8 },
    /// A copy of the bulk units: what it reads or writes of global memory, all its bytes, and the phases that it counts in.
    Bulk { lines: Box<[Line]>, bytes: u32, loads: bool, phases: Box<[Phase]> },
    /// It counts in phases of barriers, once for each.
    Arrive(Box<[Phase]>),
    /// It goes on after this phase.
    Wait(Phase),
    /// BAR.SYNC and kin: it counts in the phase and goes on after it.
    Meet(Phase),
}

/// A warp's records.
#[derive(Clone, Debug, Default)]
pub struct WarpTrace {
    pub records: Vec<Record>,
    pub extras: Vec<Extra>,
}

/// A block's.
#[derive(Clone, Debug, Default)]
pub struct BlockTrace {
    pub warps: Vec<WarpTrace>,
    /// How often each phase was counted in.
    pub phases: Vec<u32>,
}

/// A barrier of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Barrier {
    /// Of the block with this rank, by its number.
    Block(u32, u32),
    /// In shared memory, by its address in the cluster and how often it was made.
    Memory(u64, u32),
    Cluster,
}

/// Takes down what one block of a cluster does.
#[derive(Default)]
pub struct Tracer {
    rank: u32,
    block: BlockTrace,
    /// Addresses of the instruction that is being executed.
    addresses: Vec<(Space, Lanes)>,
    /// Places of global memory that it copies by a bulk unit, and all its bytes.
    bulk: Option<(Vec<Line>, u32, bool)>,
    arrived: Vec<Phase>,
    awaited: Option<Phase>,
    met: Option<Phase>,
    /// The attempt to pass a barrier failed, at this address.
    failed: Option<u64>,
    /// For each warp, the address and mask of attempts, and the first record of them.
    attempts: Vec<Option<(u64, u32, usize)>>,
    /// How many phases of each barrier are over.
    over: BTreeMap<Barrier, u32>,
    made: BTreeMap<u64, u32>,
    numbers: BTreeMap<(Barrier, u32), Phase>,
}

impl Tracer {
    /// For the block with this rank, of so many warps.
    pub fn new(rank: u32, warps: usize) -> Tracer {
        let block = BlockTrace { warps: vec![WarpTrace::default(); warps], phases: Vec::new() };
        Tracer { rank, block, attempts: vec![None; warps], ..Tracer::default() }
    }

    /// What was taken down.
    pub fn finish(self) -> BlockTrace {
        self.block
    }

    fn number(&mut self, barrier: Barrier, phase: u32) -> Phase {
        let next = self.block.phases.len() as Phase;
        let number = *self.numbers.entry((barrier, phase)).or_insert(next);
        if number == next {
            self.block.phases.push(0);
        }
        number
    }

    /// The phase that is on.
    fn current(&mut self, barrier: Barrier) -> Phase {
        let phase = self.over.get(&barrier).copied().unwrap_or(0);
        self.number(barrier, phase)
    }

    /// The phase before; none if there was none.
    fn last(&mut self, barrier: Barrier) -> Option<Phase> {
        let phase = self.over.get(&barrier).copied().unwrap_or(0).checked_sub(1)?;
        Some(self.number(barrier, phase))
    }

    fn in_memory(&self, address: u64) -> Barrier {
        Barrier::Memory(address, self.made.get(&address).copied().unwrap_or(0))
    }

    /// The addresses of an instruction, lane by lane.
    pub fn addresses(&mut self, space: Space, lanes: &Lanes) {
        self.addresses.push((space, *lanes));
    }

    /// A barrier in shared memory is made.
    pub fn make(&mut self, address: u64) {
        *self.made.entry(address).or_default() += 1;
    }

    /// A barrier in shared memory is changed by an instruction, or told by a copy that has landed (`by_unit`).
    pub fn change(&mut self, address: u64, old: u64, new: u64, by_unit: bool) {
        let barrier = self.in_memory(address);
        if !by_unit {
            let phase = self.current(barrier);
            self.arrived.push(phase);
        }
        if (old ^ new) >> 63 == 1 {
            *self.over.entry(barrier).or_default() += 1;
        }
    }

    /// An attempt to pass a barrier in shared memory.
    pub fn attempt(&mut self, address: u64, passes: bool) {
        if passes {
            let barrier = self.in_memory(address);
            self.awaited = self.last(barrier).or(self.awaited);
        } else {
            self.failed = Some(address);
        }
    }

    /// A copy of the bulk units begins, which will tell the barriers.
    pub fn send(&mut self, lines: Vec<Line>, bytes: u32, loads: bool, tells: impl Iterator<Item = u64>) {
        let told: Vec<Barrier> = tells.map(|address| self.in_memory(address)).collect();
        for barrier in told {
            let phase = self.current(barrier);
            self.arrived.push(phase);
        }
        let (all, sum, _) = self.bulk.get_or_insert((Vec::new(), 0, loads));
        coalescing::merge(all, &lines);
        *sum += bytes;
    }

    /// Lanes come to a barrier of the block or of the cluster.
    pub fn arrive(&mut self, barrier: Barrier, waits: bool) {
        let phase = self.current(barrier);
        match waits {
            true => self.met = Some(phase),
            false => self.arrived.push(phase),
        }
    }

    /// Lanes wait for the phase of the cluster's barrier that they came to.
    pub fn await_cluster(&mut self, phase: u64) {
        self.awaited = Some(self.number(Barrier::Cluster, phase as u32));
    }

    /// A phase is over.
    pub fn complete(&mut self, barrier: Barrier) {
        *self.over.entry(barrier).or_default() += 1;
    }

    /// An instruction was executed: its record.
    pub fn commit(
        &mut self,
        (rank, warp): (u32, u32),
        (pc, step): (u32, &Step),
        mask: u32,
        registers: &Registers,
    ) {
        let failed = self.failed.take();
        let extra = self.take_extra(step, mask, registers);
        if rank != self.rank {
            return;
        }
        let warp = warp as usize;
        for phase in extra.iter().flat_map(counted) {
            self.block.phases[*phase as usize] += 1;
        }
        let trace = &mut self.block.warps[warp];
        match (self.attempts[warp], failed) {
            (None, Some(address)) => self.attempts[warp] = Some((address, mask, trace.records.len())),
            (Some((_, of, first)), None)
                if mask & of != 0 && matches!(step.action, Action::CheckPhase { .. }) =>
            {
                let mut index = 0;
                trace.records.retain(|record| {
                    index += 1;
                    index <= first || record.mask & !of != 0
                });
                self.attempts[warp] = None;
            }
            _ => {}
        }
        let number = match extra {
            None => Record::PLAIN,
            Some(extra) => {
                trace.extras.push(extra);
                (trace.extras.len() - 1) as u32
            }
        };
        trace.records.push(Record { pc, mask, extra: number });
    }

    fn take_extra(&mut self, step: &Step, mask: u32, registers: &Registers) -> Option<Extra> {
        let addresses = std::mem::take(&mut self.addresses);
        let (arrived, bulk) = (std::mem::take(&mut self.arrived), self.bulk.take());
        let (awaited, met) = (self.awaited.take(), self.met.take());
        if let Some(phase) = met {
            return Some(Extra::Meet(phase));
        }
        if let Some((lines, bytes, loads)) = bulk {
            return Some(Extra::Bulk { lines: lines.into(), bytes, loads, phases: arrived.into() });
        }
        if !arrived.is_empty() {
            return Some(Extra::Arrive(arrived.into()));
        }
        if let Some(phase) = awaited {
            return Some(Extra::Wait(phase));
        }
        if let Action::LoadConstant { source, .. } = &step.action {
            return registers.constant_places(*source, mask).map(|places| Extra::Constants { places });
        }
        let (bytes, mask) = shape(&step.action, mask)?;
        let strong = match &step.action {
            // What is strong in the block alone may be in the cache.
            Action::Load(load) => load.strength == Strength::Strong(Scope::Device),
            Action::Store { strength, .. } => *strength == Strength::Strong(Scope::Device),
            action => matches!(action, Action::Atomic(_)),
        };
        if mask == 0 {
            return None;
        }
        if let [(_, to), (_, from)] = &addresses[..] {
            let lines = coalescing::lines(bytes, mask, from).into();
            return Some(Extra::Copy { lines, passes: coalescing::passes(bytes, mask, to) });
        }
        let (asked, lanes) = addresses.first()?;
        let first = mask.trailing_zeros() as usize % LANES;
        let (space, _) = asked.locate(lanes[first]);
        let same = coalescing::same(mask, lanes);
        Some(match space {
            Space::Shared | Space::Cluster => {
                let least = (mask.count_ones() * u32::from(bytes)).div_ceil(coalescing::LINE as u32) as u8;
                Extra::Shared { passes: coalescing::passes(bytes, mask, lanes), least, same }
            }
            Space::Local => {
                let offset = |lane: usize| asked.locate(lanes[lane]).1;
                let lines = coalescing::local_lines(bytes, mask, offset).into();
                Extra::Global { lines, strong, same }
            }
            Space::Const | Space::Param => Extra::Constants { places: coalescing::distinct(mask, lanes) },
            _ => Extra::Global { lines: coalescing::lines(bytes, mask, lanes).into(), strong, same },
        })
    }
}

/// Bytes of each lane's access, and the lanes that have one.
pub fn shape(action: &Action, mask: u32) -> Option<(u8, u32)> {
    /// Bytes of a row of a matrix.
    const ROW: u8 = 16;
    let rows = |count: u8| u32::MAX.unbounded_shr(32 - 8 * u32::from(count.min(4)));
    Some(match action {
        Action::Load(load) => (load.bytes, mask),
        Action::Store { bytes, .. } | Action::Copy { bytes, .. } => (*bytes, mask),
        Action::Atomic(atomic) => (atomic.bytes * atomic.elements, mask),
        Action::LoadMatrices { count, .. } | Action::StoreMatrices { count, .. } => (ROW, rows(*count)),
        _ => return None,
    })
}

/// The phases that a record counts in.
fn counted(extra: &Extra) -> &[Phase] {
    match extra {
        Extra::Arrive(phases) | Extra::Bulk { phases, .. } => phases,
        Extra::Meet(phase) => std::slice::from_ref(phase),
        _ => &[],
    }
}

impl Registers {
    /// At how many places lanes read constants, if the instruction has an index.
    fn constant_places(&self, source: super::program::Source, mask: u32) -> Option<u8> {
        use super::program::{Index, Source};
        let Source::Constant { index: Index::General(register), .. } = source else { return None };
        let mut places: Vec<u32> = lanes_of(mask).map(|lane| self.general(register, 0)[lane]).collect();
        places.sort_unstable();
        places.dedup();
        Some(places.len() as u8)
    }
}
