//! A warp: 32 lanes, the places where they are, and one step of those that are together.
//!
//! Lanes that are together form a group. A branch splits it; BSYNC and WARPSYNC make one of several. Groups take
//! turns: one runs until it waits, yields or has run for long, then the one that has waited longest. Between two
//! branches no other group interrupts one, so that uniform registers, which all groups share, keep what it wrote: code
//! of ptxas relies on that (R2UR and what reads its result, with some lanes elsewhere), and an H200 never broke it.
//!
//! Lanes that wait at BSYNC for others which yield again and again go on without them: a lane that yields says that it
//! may be waiting for those. Without this, a lock that a lane takes in a loop would never be given back. How long
//! the machine waits is not known.
//!
//! A group carries what is under way on its path ([`crate::verify`]'s state): groups that meet keep the worse of
//! theirs. Registers of the convergence unit hold a mask for each lane, so that one number can serve both arms of a
//! branch at a time, as in code of ptxas.
//!
//! | question | file |
//! |---|---|
//! | values of registers, and what is computed from them | [`registers`] |
//! | loads, stores, atomics | [`access`] |
//! | branches, convergence, barriers | [`control`] |
//! | barriers in shared memory, bulk copies, matrices | [`asynchronous`] |
//! | MMAs of a warpgroup | [`warpgroup`] |
//! | copies of tensors | [`tensor`] |
//! | what it sees of other warps' stores, where that may be late | [`ordering`] |
//! | textures and surfaces | [`texture`] |

mod access;
mod asynchronous;
mod control;
pub(super) mod ordering;
pub(super) mod registers;
mod tensor;
mod texture;
mod warpgroup;

use super::POISON;
use super::block::Context;
use super::cluster::{Common, Run};
use super::fault::Fault;
use super::flight::Groups;
use super::program::{ARGUMENTS, Action, Condition, LANES, Source, Step, lanes_of};
use crate::memory::Global;
use crate::memory::weak::Order;
use crate::ptx::FaultKind;
use crate::ptx::program::Lanes;
use crate::verify::{self, Dependence, Relation, Short};
use registers::Registers;
use sass::{Model, PT};
use warpgroup::InFlight;

/// Steps that a group takes while others wait, before they have a turn.
const PATIENCE: u32 = 128;
/// Lanes that have yielded so often are not waited for any more.
const YIELDS: u32 = 16;
/// Registers of the convergence unit.
const CONVERGENCE: usize = 16;

/// Threads that have come to a barrier of the block.
pub struct Arrival {
    pub number: u32,
    pub threads: Option<u32>,
    pub mask: u32,
    pub predicates: u32,
    /// The instruction.
    pub index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    /// At a barrier of the block.
    AtBarrier(u32),
    /// At BSYNC, with this register.
    AtMeeting(u8),
    /// At WARPSYNC.
    AtSync,
    /// At the barrier of the cluster.
    AtCluster,
}

/// Lanes that are together.
pub struct Group {
    pub mask: u32,
    pub pc: u32,
    pub state: State,
    /// When it last had a turn.
    stamp: u64,
    timing: verify::State,
}

pub struct Warp {
    pub index: u32,
    /// Lanes that have not exited.
    pub alive: u32,
    groups: Vec<Group>,
    registers: Registers,
    /// For each register of the convergence unit, the lanes that each lane waits for.
    convergence: [[u32; LANES]; CONVERGENCE],
    /// The lanes whose mask there was kept elsewhere for a while, and restored.
    restored: [u32; CONVERGENCE],
    /// For lanes at WARPSYNC, the lanes that they wait for.
    members: [u32; LANES],
    /// How often each lane has yielded since it last came to BSYNC.
    yields: [u32; LANES],
    /// Lanes have gone on from BSYNC without some that yielded or slept.
    early: bool,
    /// What the last barrier with a reduction gave.
    reduced: [(u32, bool); LANES],
    local: Vec<Vec<u8>>,
    /// Copies that it may wait for.
    copies: Groups,
    /// MMAs of the warpgroup that are in flight.
    in_flight: InFlight,
    /// How often the cluster's barrier had completed when each lane came to it.
    met: [u64; LANES],
    /// Cycles of issue.
    clock: u64,
    stamp: u64,
    exited: bool,
    /// What the operand cache keeps. Lanes that part or meet find it empty.
    cache: verify::Cache,
    /// Dependences of the current instruction that were not covered.
    short: Vec<(Dependence, Short)>,
    /// Arguments and results of the current instruction.
    columns: Box<[Lanes; ARGUMENTS]>,
    values: Lanes,
    truths: [Lanes; 2],
    /// Who runs next, if an adversary says so.
    order: Option<Box<Order>>,
    /// The turn ended between two branches: this group goes on before others of the warp.
    interrupted: Option<u64>,
    /// Rounds in which it has no turn.
    pub asleep: u32,
}

/// What a group does after a step.
enum Next {
    Go(u32),
    /// Lets others go first.
    Yield,
    /// Waits for others: from the next branch on it is the turn of other lanes, or of other warps.
    Wait,
    /// The group is gone from its place: it waits, has split or exited.
    Elsewhere,
}

/// Where a step happens: the block and global memory.
struct Now<'n, 'p> {
    context: &'n mut Context<'p>,
    global: &'n mut Global,
    common: &'n mut Common,
    /// The lanes that take part.
    mask: u32,
}

/// Why a lane can't go on.
type Stop = (FaultKind, usize);

impl Warp {
    pub fn new(context: &Context, index: u32, mask: u32) -> Warp {
        let timing = verify::State::new(0);
        Warp {
            index,
            alive: mask,
            groups: vec![Group { mask, pc: context.kernel.start, state: State::Ready, stamp: 0, timing }],
            registers: Registers::new(context.launch.check_registers),
            convergence: [[0; LANES]; CONVERGENCE],
            restored: [0; CONVERGENCE],
            members: [0; LANES],
            yields: [0; LANES],
            early: false,
            reduced: [(0, false); LANES],
            local: vec![Vec::new(); LANES],
            copies: Groups::default(),
            in_flight: InFlight::default(),
            met: [0; LANES],
            clock: 0,
            stamp: 0,
            exited: false,
            cache: verify::Cache::default(),
            short: Vec::new(),
            columns: Box::new([[0; LANES]; ARGUMENTS]),
            values: [0; LANES],
            truths: [[0; LANES]; 2],
            order: context
                .launch
                .weak
                .map(|seed| Box::new(Order::new(seed, context.who(index).agent.into()))),
            interrupted: None,
            asleep: 0,
        }
    }

    pub fn is_done(&self) -> bool {
        self.groups.is_empty()
    }

    /// Has a lane exited since this was asked last?
    pub fn take_exited(&mut self) -> bool {
        std::mem::take(&mut self.exited)
    }

    pub fn waiting(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| group.state != State::Ready)
    }

    /// Runs until all lanes wait or are done, or for so many steps.
    pub fn run(&mut self, context: &mut Context, run: &mut Run, turn: u64) -> Result<(), Fault> {
        let end = run.statistics.steps + turn;
        let mut goes_on = true;
        while goes_on && run.statistics.steps < end {
            let Some(index) = self.next_group() else {
                if self.forget_early() {
                    continue;
                }
                break;
            };
            let group = self.groups.swap_remove(index);
            goes_on = self.advance(context, run, group, end)?;
        }
        if self.is_done() && !self.copies.is_empty() {
            self.copies.wait_for_all().into_iter().for_each(|flight| run.common.send_started(flight));
        }
        Ok(())
    }

    /// The group that has waited longest, or the one that the adversary chooses.
    fn next_group(&mut self) -> Option<usize> {
        let ready = self.groups.iter().enumerate().filter(|(_, group)| group.state == State::Ready);
        let Some(order) = &mut self.order else {
            return ready.min_by_key(|(_, group)| group.stamp).map(|(index, _)| index);
        };
        let mut ready: Vec<(u64, usize)> = ready.map(|(index, group)| (group.stamp, index)).collect();
        ready.sort();
        let interrupted = self.interrupted.take();
        let same = ready.iter().find(|(stamp, _)| Some(*stamp) == interrupted);
        same.or_else(|| ready.get(order.group(ready.len()))).map(|(_, index)| *index)
    }

    /// Runs one group until it waits, splits or has had its turn. Says whether the warp still has its own.
    fn advance(
        &mut self,
        context: &mut Context,
        run: &mut Run,
        mut group: Group,
        end: u64,
    ) -> Result<bool, Fault> {
        let program = context.program;
        if !self.groups.is_empty() {
            // Others may have run since it did.
            self.cache = verify::Cache::default();
        }
        let (mut patience, mut waits) = (PATIENCE, false);
        loop {
            let index = group.pc as usize;
            let Some(step) = program.steps.get(index) else {
                let what = FaultKind::BadCall { target: format!("the instruction {index}") };
                return Err(Fault::new(what));
            };
            self.issue(context, run, &mut group, step);
            let mask = self.registers.holds(step.guard, group.mask);
            run.statistics.steps += 1;
            run.statistics.lane_steps += u64::from(mask.count_ones());
            let next = if mask == 0 && !matches!(step.action, Action::Branch { any: true, .. }) {
                Next::Go(group.pc + 1)
            } else {
                let mut now = Now { context, global: run.global, common: run.common, mask };
                self.act(&mut now, &mut group, step).map_err(|(kind, lane)| Fault {
                    place: program.place(index),
                    thread: Some(now.context.thread(self.index, lane as u32)),
                    ..Fault::new(kind)
                })?
            };
            if let Some(trace) = &mut run.common.trace {
                let place = (context.rank, self.index);
                trace.commit(place, (index as u32, step), mask, &self.registers);
            }
            match next {
                Next::Elsewhere => return Ok(true),
                Next::Yield => {
                    group.pc += 1;
                    self.park(group);
                    return Ok(true);
                }
                Next::Wait => {
                    group.pc += 1;
                    waits = true;
                }
                Next::Go(pc) => group.pc = pc,
            }
            patience = patience.saturating_sub(u32::from(!self.groups.is_empty()));
            let over = waits || patience == 0 || run.statistics.steps >= end;
            if self.is_interrupted(step) || self.order.is_some() && run.statistics.steps >= end {
                self.park(group);
                self.interrupted = Some(self.stamp);
                return Ok(false);
            }
            if over && step.action.is_branch() {
                let alone = self.groups.iter().all(|group| group.state != State::Ready);
                self.park(group);
                return Ok(!(waits && alone));
            }
        }
    }

    /// Does the adversary end the turn after a step, and let others run for some rounds?
    fn is_interrupted(&mut self, step: &Step) -> bool {
        let Some(order) = &mut self.order else { return false };
        let Some(orders) = step.action.touches_memory() else { return false };
        let asleep = order.interrupts(orders);
        self.asleep = asleep.unwrap_or(self.asleep);
        asleep.is_some()
    }

    fn park(&mut self, group: Group) {
        self.stamp += 1;
        self.groups.push(Group { stamp: self.stamp, ..group });
    }

    /// Issues an instruction in time: registers that it reads too early, or that the operand cache has the old value
    /// of, hold poison.
    fn issue(&mut self, context: &Context, run: &mut Run, group: &mut Group, step: &Step) {
        if !self.copies.is_empty() {
            self.await_copies(context.who(self.index), run.global, run.common, step.waits);
        }
        self.clock += u64::from(step.stall);
        if !context.launch.check_schedule {
            return;
        }
        let model = Model::of(context.program.image.target.isa);
        let (short, index) = (&mut self.short, group.pc as usize);
        group.timing.step(model, context.program.issue(index), &mut |dependence| {
            if let Some(what) = dependence.short(model) {
                short.push((dependence, what));
            }
        });
        if let Some(inst) = context.program.image.code.get(index) {
            self.cache.step(model, index, inst, &mut |dependence, what| short.push((dependence, what)));
        }
        for (dependence, what) in self.short.drain(..) {
            run.hazards.add(&dependence, what);
            if dependence.relation == Relation::Raw {
                self.registers.poison(dependence.register.into(), group.mask);
            }
        }
    }

    fn act(&mut self, now: &mut Now, group: &mut Group, step: &Step) -> Result<Next, Stop> {
        let next = Next::Go(group.pc + 1);
        let first = now.mask.trailing_zeros() as usize;
        let mask = now.mask;
        if step.action.is_of_warp() && mask != self.alive {
            let what = "a matrix instruction without all lanes of the warp".to_string();
            return Err((FaultKind::Undefined { what }, first));
        }
        match &step.action {
            Action::Nothing => {}
            Action::Compute(compute) => self.compute(now, compute)?,
            Action::Special { register, dest, words } => self.special(now, *register, *dest, *words)?,
            Action::LoadConstant { source, signed, dest, words } => {
                self.load_constant(now, *source, *signed, *dest, *words)?;
            }
            Action::ToUniform { dest, source, differs, or } => {
                self.make_uniform(now, *dest, *source, *differs, *or)?;
            }
            Action::Load(load) => self.load(now, load)?,
            Action::Store { address, bytes, data, strength } => {
                self.store(now, address, *bytes, *data, *strength)?;
            }
            Action::Fence(fence) => self.fence(now, *fence),
            Action::Atomic(atomic) => self.atomic(now, atomic)?,
            Action::Copy { to, from, bytes, valid, fills } => {
                let valid = self.registers.holds(*valid, mask);
                self.copy(now, (to, from), *bytes, valid, *fills)?;
            }
            Action::ExchangeBarrier { place, data, dest } => {
                self.exchange_barrier(now, place, *data, *dest)?;
            }
            Action::Arrive(arrive) => self.arrive_at_place(now, arrive)?,
            Action::CheckPhase { place, phase, truth } => {
                return self.check_phase(now, place, *phase, *truth, group.pc + 1);
            }
            Action::BulkCopy(copy) => self.bulk_copy(now, copy)?,
            Action::StoreRemote(store) => self.store_remote(now, store)?,
            Action::CloseGroup { closing, scoreboard } => self.copies.close(*closing, *scoreboard),
            Action::WaitGroups { scoreboard, left } => {
                let (landing, who) = (self.copies.wait(*scoreboard, usize::from(*left)), self.who(now));
                landing.iter().for_each(|flight| now.common.arrive(now.global, flight, who));
            }
            Action::WaitScoreboards { mask } => {
                self.await_copies(self.who(now), now.global, now.common, *mask);
            }
            Action::ArriveAtCluster => self.arrive_at_cluster(now)?,
            Action::WaitForCluster => return Ok(self.wait_for_cluster(now, group)),
            Action::LoadMatrices { address, count, transposed, dest } => {
                self.load_matrices(now, address, *count, *transposed, *dest)?;
            }
            Action::StoreMatrices { address, count, transposed, data } => {
                self.store_matrices(now, address, *count, *transposed, *data)?;
            }
            Action::Transpose { source, dest } => self.transpose(now, *source, *dest)?,
            Action::Multiply(multiply) => self.multiply(now, multiply)?,
            Action::MultiplyInGroup(multiply) => self.multiply_in_group(now, multiply, group.pc)?,
            Action::WaitWgmma { left } => self.await_wgmma(now, usize::from(*left))?,
            Action::TensorCopy(copy) => self.tensor_copy(now, copy)?,
            Action::GetRegisters { truth } => self.registers.write_truth(mask, *truth, &[1; LANES]),
            Action::QuerySpace { space, address, truth } => self.query_space(now, *space, address, *truth)?,
            Action::Together(together) => self.together(now, together)?,
            Action::Branch { taken, target, any } => {
                let wanting = self.registers.holds(*taken, mask);
                let going = if *any && wanting != 0 { group.mask } else { wanting };
                return Ok(self.split(group, going, *target));
            }
            Action::BranchIfTogether { members, inverted, together, target } => {
                let members = self.registers.fetch_uniform(now.context, *members)? as u32;
                let members = if *inverted { !members } else { members } & self.alive;
                let going = if (members & !mask == 0) == *together { mask } else { 0 };
                return Ok(self.split(group, going, *target));
            }
            Action::Jump { taken, base, register } => {
                return self.jump(now, group, *taken, *base, *register);
            }
            Action::Exit { taken } => {
                let leaving = self.registers.holds(*taken, mask);
                return Ok(self.exit(group, leaving));
            }
            Action::Trap => return Err((FaultKind::Trap, first)),
            Action::Yield => {
                self.give_way(mask);
                return Ok(Next::Yield);
            }
            Action::Sleep => return Ok(self.sleep(group, mask)),
            Action::Gather { taken, barrier } => {
                let gathering = self.registers.holds(*taken, mask);
                self.gather(gathering, *barrier);
            }
            Action::Leave { taken, barrier } => {
                let leaving = self.registers.holds(*taken, mask);
                self.leave(leaving, *barrier);
            }
            Action::Meet { taken, barrier } => {
                let meeting = self.registers.holds(*taken, mask);
                return Ok(self.meet(group, meeting, *barrier));
            }
            Action::ReadBarrier { barrier, dest, clear } => {
                self.read_convergence(mask, *barrier, *dest, *clear);
            }
            Action::WriteBarrier { barrier, source } => {
                let masks = self.registers.fetch(now.context, *source)?;
                self.restore(mask, *barrier, &masks);
            }
            Action::Sync { members } => return self.sync(now, group, *members),
            Action::Barrier(barrier) => return self.arrive(now, group, barrier),
            Action::BarrierResult { dest, truth } => {
                let counts = self.reduced.map(|(count, _)| u64::from(count));
                let truths = self.reduced.map(|(_, holds)| u64::from(holds));
                self.registers.write(mask, *dest, 1, &counts);
                self.registers.write_truth(mask, *truth, &truths);
            }
            Action::Texture(read) => self.read_texture(now, read)?,
            Action::Surface(access) => self.access_surface(now, access)?,
            Action::StoreTexel(store) => self.store_texel(now, store)?,
            Action::TextureSizes { handle, level, channels } => {
                self.query_texture(now, (*handle, *level), channels)?;
            }
            Action::Unsupported(what) => {
                return Err((FaultKind::Unsupported { what: what.clone() }, first));
            }
        }
        Ok(next)
    }
}
