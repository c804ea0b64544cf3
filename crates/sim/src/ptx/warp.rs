//! A warp: 32 lanes, the places where they are, and one step of those that are together.
//!
//! Lanes that are at the same step of the same frame form a group and run in lock step. A branch can split a
//! group; groups that come to the same place merge. The group to run is the one that is deepest in calls and, of
//! those, at the lowest step: the others wait for it there, as code is laid out so that paths meet below. A
//! group that has run for long without coming to others lets these go on, so that none waits for ever.
//!
//! If an adversary orders the lanes ([`crate::memory::weak`]), each is a group of its own, and they come together only where an
//! instruction makes them: a program whose result depends on the order lacks a synchronization.
//!
//! A call makes a frame for the lanes that call together. Lanes of one function can so be in several frames;
//! operations of the whole warp look up each lane's own.
//!
//! | question | file |
//! |---|---|
//! | values of registers, and what is computed from them | [`registers`] |
//! | loads, stores, atomics | [`access`] |
//! | branches, calls, barriers of a block | [`control`] |
//! | shuffles, votes and other operations of a warp | [`together`] |
//! | copies of the asynchronous kind | [`copies`] |
//! | matrices | [`whole`] |
//! | textures and surfaces | [`texture`] |

mod access;
mod control;
mod copies;
mod registers;
mod texture;
pub(crate) mod together;
mod whole;

use super::block::Context;
use super::program::{Action, Dest, Guard, LANES, Lanes, Step, lanes};
use super::races::Meeting;
use super::{Fault, FaultKind, Statistics};
use crate::memory;
use crate::memory::weak::Order;
use crate::ptx::cluster::Memory;
use registers::too_many;

/// Most results of one instruction.
const RESULTS: usize = 16;
/// Local memory of a thread.
pub const LOCAL_LIMIT: u32 = 512 << 10;
/// Calls inside of each other.
const DEPTH_LIMIT: u32 = 4096;
/// Steps that a group takes while others wait, before they have a turn.
const PATIENCE: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    /// At an operation that more lanes must come to.
    AtSync,
    AtBarrier(u32),
    /// At the barrier of the cluster.
    AtCluster,
}

/// Lanes at one place.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub mask: u32,
    frame: u32,
    pub pc: u32,
    pub state: State,
    /// When it ran last.
    stamp: u64,
}

/// Lanes that came to a barrier.
pub struct Arrival {
    pub number: u32,
    pub threads: Option<u32>,
    pub mask: u32,
    pub predicates: u32,
    pub line: u32,
}

/// A function's registers and parameters, for the lanes that called it together.
struct Frame {
    routine: u32,
    slots: Vec<Lanes>,
    /// The lanes that have written each slot.
    written: Vec<u32>,
    /// `param_bytes` for each lane.
    params: Vec<u8>,
    param_bytes: usize,
    /// Where each lane's local variables begin.
    local: [u32; LANES],
    /// The frame and step to go back to.
    caller: Option<(u32, u32)>,
    depth: u32,
    /// Lanes that have not returned.
    inside: u32,
}

impl Frame {
    #[inline]
    fn write(&mut self, mask: u32, dest: &Dest, values: &Lanes) {
        let Some(slot) = dest.slot else { return };
        let register = &mut self.slots[slot as usize];
        if mask == u32::MAX {
            for (to, from) in register.iter_mut().zip(values) {
                *to = dest.fit(*from);
            }
        } else {
            lanes(mask).for_each(|lane| register[lane] = dest.fit(values[lane]));
        }
        self.written[slot as usize] |= mask;
    }

    fn param(&mut self, lane: usize, offset: u64, length: usize) -> Option<&mut [u8]> {
        let start = lane * self.param_bytes;
        let mine = self.params.get_mut(start..start + self.param_bytes)?;
        memory::slice(mine, offset, length)
    }
}

pub struct Warp {
    pub index: u32,
    /// Lanes that have not exited.
    pub alive: u32,
    groups: Vec<Group>,
    frames: Vec<Frame>,
    free: Vec<u32>,
    local: Vec<Vec<u8>>,
    /// The end of each lane's local memory in use.
    local_top: [u32; LANES],
    outputs: Box<[Lanes; RESULTS]>,
    stamp: u64,
    exited: bool,
    /// A group has asked a barrier in memory in vain: the others, and other warps, go on first.
    asked_in_vain: bool,
    /// The group that has waited longest goes on next.
    fair: bool,
    /// For each lane the phase of the cluster's barrier that it has arrived in, counted from 1.
    cluster_phases: [u64; LANES],
    /// Which lanes run next, if an adversary says so: those at one place don't run in lock step then.
    order: Option<Box<Order>>,
}

/// What a group does after a step.
enum Next {
    Go(u32),
    /// The group is gone from its place: it waits, has split, returned or exited.
    Elsewhere,
}

impl Warp {
    pub fn new(context: &Context, index: u32, mask: u32) -> Warp {
        let mut warp = Warp {
            index,
            alive: mask,
            groups: Vec::new(),
            frames: Vec::new(),
            free: Vec::new(),
            local: vec![Vec::new(); LANES],
            local_top: [0; LANES],
            outputs: Box::new([[0; LANES]; RESULTS]),
            stamp: 0,
            exited: false,
            asked_in_vain: false,
            fair: false,
            cluster_phases: [0; LANES],
            order: context.launch.weak.map(|seed| Box::new(Order::new(seed, context.part(index)))),
        };
        let frame = warp.enter(context, context.routine, mask, None);
        for lane in lanes(mask) {
            if let Some(params) = warp.frames[frame as usize].param(lane, 0, context.launch.parameters.len())
            {
                params.copy_from_slice(context.launch.parameters);
            }
        }
        let start = context.program.routines[context.routine as usize].start.unwrap_or(0);
        let group = Group { mask, frame, pc: start, state: State::Ready, stamp: 0 };
        match warp.order.as_ref().is_some_and(|order| order.parts_lanes()) {
            true => warp.groups.extend(lanes(mask).map(|lane| Group { mask: 1 << lane, ..group })),
            false => warp.groups.push(group),
        }
        warp
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

    /// Runs until all lanes wait or are done, one asks a barrier in vain, or for so many steps.
    pub fn run(
        &mut self,
        context: &mut Context,
        memory: &mut Memory,
        statistics: &mut Statistics,
        turn: u64,
    ) -> Result<(), Fault> {
        let end = statistics.steps + turn;
        while statistics.steps < end {
            let fair = std::mem::take(&mut self.fair);
            let Some(group) = self.choose(fair) else { return Ok(()) };
            self.fair = self.advance(context, memory, statistics, group, end)?;
            if std::mem::take(&mut self.asked_in_vain) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the group to run out of the list. A `fair` choice is for the one that has waited longest.
    fn choose(&mut self, fair: bool) -> Option<Group> {
        if let Some(order) = &mut self.order {
            let ready = self.groups.iter().enumerate().filter(|(_, group)| group.state == State::Ready);
            let mut ready: Vec<(u32, usize)> =
                ready.map(|(index, g)| (g.mask.trailing_zeros(), index)).collect();
            ready.sort();
            let chosen = if fair { order.any(ready.len()) } else { order.group(ready.len()) };
            return ready.get(chosen).map(|(_, index)| self.groups.swap_remove(*index));
        }
        self.merge();
        let depth = |group: &Group| self.frames[group.frame as usize].depth;
        let ready = self.groups.iter().enumerate().filter(|(_, group)| group.state == State::Ready);
        let (index, _) = if fair {
            ready.min_by_key(|(_, group)| group.stamp)?
        } else {
            ready.min_by_key(|(_, group)| (std::cmp::Reverse(depth(group)), group.pc))?
        };
        Some(self.groups.swap_remove(index))
    }

    /// Groups at the same place become one.
    fn merge(&mut self) {
        let mut i = 0;
        while i < self.groups.len() {
            let group = self.groups[i];
            let same = |other: &Group| {
                other.frame == group.frame
                    && other.pc == group.pc
                    && group.state == State::Ready
                    && other.state == State::Ready
            };
            match self.groups[..i].iter().position(same) {
                Some(earlier) => {
                    self.groups[earlier].mask |= group.mask;
                    self.groups[earlier].stamp = self.groups[earlier].stamp.min(group.stamp);
                    self.groups.swap_remove(i);
                }
                None => i += 1,
            }
        }
    }

    /// Runs one group until it waits, splits, meets another or loses its turn (`true`: others must go on).
    fn advance(
        &mut self,
        context: &mut Context,
        memory: &mut Memory,
        statistics: &mut Statistics,
        mut group: Group,
        end: u64,
    ) -> Result<bool, Fault> {
        let program = context.program;
        let mut patience = PATIENCE;
        loop {
            // Steps that others of this frame wait at; the next one is a place to stop.
            let ready = self.groups.iter().filter(|g| g.frame == group.frame && g.state == State::Ready);
            let stop = ready.map(|g| g.pc).filter(|pc| *pc > group.pc).min().unwrap_or(u32::MAX);
            let stop = if self.order.is_some() { u32::MAX } else { stop };
            loop {
                let Some(step) = program.steps.get(group.pc as usize) else { return Ok(false) };
                statistics.steps += 1;
                context.clock = statistics.steps;
                let next = self.step(context, memory, &mut group, step, &mut statistics.lane_steps)?;
                let from = group.pc;
                match next {
                    Next::Elsewhere => return Ok(false),
                    Next::Go(pc) => group.pc = pc,
                }
                if statistics.steps >= end || self.asked_in_vain || self.is_interrupted(step) {
                    self.park(group);
                    return Ok(true);
                }
                if !self.groups.is_empty() {
                    patience -= 1;
                    if patience == 0 {
                        self.park(group);
                        return Ok(true);
                    }
                    if group.pc >= stop {
                        self.park(group);
                        return Ok(false);
                    }
                    if group.pc != from + 1 {
                        break;
                    }
                }
            }
        }
    }

    /// Does the adversary let others run after a step?
    fn is_interrupted(&mut self, step: &Step) -> bool {
        let Some(order) = &mut self.order else { return false };
        use Action::{Atomic, Load, Store};
        matches!(step.action, Load { .. } | Store { .. } | Atomic(_)) && order.interrupts(false).is_some()
    }

    fn park(&mut self, group: Group) {
        self.stamp += 1;
        self.groups.push(Group { stamp: self.stamp, ..group });
    }

    fn step(
        &mut self,
        context: &mut Context,
        memory: &mut Memory,
        group: &mut Group,
        step: &Step,
        lane_steps: &mut u64,
    ) -> Result<Next, Fault> {
        let mask = match step.guard {
            None => group.mask,
            Some(Guard::ExplicitCluster(wanted)) if wanted == context.is_explicit_cluster() => group.mask,
            Some(Guard::ExplicitCluster(_)) => 0,
            Some(Guard::Slot(slot, wanted)) => {
                let slot = slot as usize;
                self.check_written(context, group.frame, slot, group.mask)
                    .map_err(|f| self.at(context, step, f))?;
                let values = &self.frames[group.frame as usize].slots[slot];
                lanes(group.mask)
                    .filter(|lane| (values[*lane] != 0) == wanted)
                    .fold(0, |m, lane| m | 1 << lane)
            }
        };
        *lane_steps += u64::from(mask.count_ones());
        if mask == 0 {
            return Ok(Next::Go(group.pc + 1));
        }
        let acted = self.act(context, memory, group, mask, &step.action, step.line);
        acted.map_err(|fault| self.at(context, step, fault))
    }

    /// The fault, with the line and the thread.
    fn at(&self, context: &Context, step: &Step, (kind, lane): Stop) -> Fault {
        Fault { line: step.line, kind, thread: Some(context.thread(self.index, lane as u32)) }
    }

    fn act(
        &mut self,
        context: &mut Context,
        memory: &mut Memory,
        group: &mut Group,
        mask: u32,
        action: &Action,
        line: u32,
    ) -> Result<Next, Stop> {
        let next = Next::Go(group.pc + 1);
        let frame = group.frame;
        let first = mask.trailing_zeros() as usize;
        match action {
            Action::Nothing => {}
            Action::Compute { sources, dests, function } => {
                self.compute(context, frame, mask, sources, dests, function)?;
            }
            Action::Load { address, bytes, dests, strong } => {
                let now = &mut Now { context, memory, frame, mask, line };
                self.load(now, address, *bytes, dests, *strong)?;
            }
            Action::Store { address, bytes, sources, strong } => {
                let now = &mut Now { context, memory, frame, mask, line };
                self.store(now, address, *bytes, sources, *strong)?;
            }
            Action::Atomic(atomic) => self.atomic(&mut Now { context, memory, frame, mask, line }, atomic)?,
            Action::Copy(copy) => self.copy(&mut Now { context, memory, frame, mask, line }, copy)?,
            Action::Bulk(bulk) => self.bulk(&mut Now { context, memory, frame, mask, line }, bulk)?,
            Action::Tensor(tensor) => self.tensor(&mut Now { context, memory, frame, mask, line }, tensor)?,
            Action::ReplaceInMap { address, field, value } => {
                self.replace_in_map(&mut Now { context, memory, frame, mask, line }, address, *field, value)?;
            }
            Action::Group { kind, step } => {
                if let Some(races) = &mut memory.races {
                    let threads = self.threads(context, races, mask);
                    threads.into_iter().for_each(|thread| races.group(thread, *kind, *step));
                }
            }
            Action::Both(actions) => {
                for action in &**actions {
                    self.act(context, memory, group, mask, action, line)?;
                }
            }
            Action::Branch { target } => return Ok(self.split(group, mask, *target)),
            Action::BranchIndexed { index, targets } => {
                return self.branch_indexed(context, group, mask, index, targets);
            }
            Action::Call(call) => return self.call(context, group, mask, call),
            Action::Return => return self.leave(context, group, mask),
            Action::Exit => return Ok(self.exit(group, mask)),
            Action::Trap => return Err((FaultKind::Trap, first)),
            Action::Warp(warp) => return self.together(context, memory, group, mask, warp),
            Action::Whole(_) | Action::MatrixAccess(_) | Action::TileAccess(_) | Action::Wgmma(_) => {
                return self.whole(context, memory, group, mask, action, line);
            }
            Action::Barrier(barrier) => {
                let next = self.arrive(context, group, mask, barrier, line)?;
                if let (Some(races), Some(arrival)) = (&mut memory.races, context.arrivals.last()) {
                    let threads = self.threads(context, races, arrival.mask);
                    let meeting = Meeting::Barrier(context.rank as usize, arrival.number);
                    races.arrive(meeting, threads.into_iter());
                }
                return Ok(next);
            }
            Action::ClusterArrive => {
                memory.barrier.arrive(context.rank, self.index, mask);
                lanes(mask).for_each(|lane| self.cluster_phases[lane] = memory.barrier.phase + 1);
                if let Some(races) = &mut memory.races {
                    let threads = self.threads(context, races, mask);
                    races.arrive(Meeting::Cluster, threads.into_iter());
                }
            }
            Action::ClusterWait => return Ok(self.wait_for_cluster(context, memory, group, mask)),
            Action::Alloca { dest, size, align } => self.alloca(context, frame, mask, *dest, size, *align)?,
            Action::StackSave { dest } => {
                let tops = self.local_top.map(u64::from);
                self.write(frame, mask, dest, &tops);
            }
            Action::StackRestore { source } => {
                let tops = self.read(context, frame, mask, source)?;
                lanes(mask).for_each(|lane| self.local_top[lane] = tops[lane] as u32);
            }
            Action::Texture(read) => {
                self.read_texture(&mut Now { context, memory, frame, mask, line }, read)?
            }
            Action::Surface(access) => {
                self.access_surface(&mut Now { context, memory, frame, mask, line }, access)?;
            }
            Action::StoreTexel(store) => {
                self.store_texel(&mut Now { context, memory, frame, mask, line }, store)?;
            }
            Action::ImageSize { handle, level, axis, dest } => {
                let now = &mut Now { context, memory, frame, mask, line };
                self.size_of_image(now, (handle, level), *axis, dest)?;
            }
            Action::Unsupported(what) => {
                return Err((FaultKind::Unsupported { what: what.clone() }, first));
            }
        }
        Ok(next)
    }
}

/// Where a step happens: the block, memory, and the lanes of a frame.
struct Now<'n, 'p, 'm> {
    context: &'n mut Context<'p>,
    memory: &'n mut Memory<'m>,
    frame: u32,
    mask: u32,
    line: u32,
}

/// Why a lane can't go on.
type Stop = (FaultKind, usize);
