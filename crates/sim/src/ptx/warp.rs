//! A warp: 32 lanes, the places where they are, and one step of those that are together.
//!
//! Lanes that are at the same step of the same frame form a group and run in lock step. A branch can split a
//! group; groups that come to the same place merge. The group to run is the one that is deepest in calls and, of
//! those, at the lowest step: the others wait for it there, as code is laid out so that paths meet below. A
//! group that has run for long without coming to others lets these go on, so that none waits for ever.
//!
//! A call makes a frame for the lanes that call together. Lanes of one function can so be in several frames;
//! operations of the whole warp look up each lane's own.

use super::block::Context;
use super::memory::{self, FUNCTIONS, Global, Space, aligned};
use super::program::{
    Action, Address, Argument, Atomic, Barrier, Call, Callee, Dest, Formal, LANES, Lanes, Reduction, Return,
    Shuffle, Source, Special, Step, Warp as WarpAction, WarpOperation, lanes,
};
use super::{Fault, FaultKind, Statistics};

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
        };
        let frame = warp.enter(context, context.routine, mask, None);
        for lane in lanes(mask) {
            if let Some(params) = warp.frames[frame as usize].param(lane, 0, context.launch.parameters.len())
            {
                params.copy_from_slice(context.launch.parameters);
            }
        }
        let start = context.program.routines[context.routine as usize].start.unwrap_or(0);
        warp.groups.push(Group { mask, frame, pc: start, state: State::Ready, stamp: 0 });
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

    /// Runs until all lanes wait or are done, or for so many steps.
    pub fn run(
        &mut self,
        context: &mut Context,
        global: &mut Global,
        statistics: &mut Statistics,
        turn: u64,
    ) -> Result<(), Fault> {
        let end = statistics.steps + turn;
        let mut fair = false;
        while statistics.steps < end {
            let Some(group) = self.choose(fair) else { return Ok(()) };
            fair = self.advance(context, global, statistics, group, end)?;
        }
        Ok(())
    }

    /// Takes the group to run out of the list. A `fair` choice is for the one that has waited longest.
    fn choose(&mut self, fair: bool) -> Option<Group> {
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
        global: &mut Global,
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
            loop {
                let Some(step) = program.steps.get(group.pc as usize) else { return Ok(false) };
                statistics.steps += 1;
                context.clock = statistics.steps;
                let next = self.step(context, global, &mut group, step, &mut statistics.lane_steps)?;
                let from = group.pc;
                match next {
                    Next::Elsewhere => return Ok(false),
                    Next::Go(pc) => group.pc = pc,
                }
                if statistics.steps >= end {
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

    fn park(&mut self, group: Group) {
        self.stamp += 1;
        self.groups.push(Group { stamp: self.stamp, ..group });
    }

    fn step(
        &mut self,
        context: &mut Context,
        global: &mut Global,
        group: &mut Group,
        step: &Step,
        lane_steps: &mut u64,
    ) -> Result<Next, Fault> {
        let mask = match step.guard {
            None => group.mask,
            Some((slot, wanted)) => {
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
        self.act(context, global, group, mask, step).map_err(|fault| self.at(context, step, fault))
    }

    /// The fault, with the line and the thread.
    fn at(&self, context: &Context, step: &Step, (kind, lane): Stop) -> Fault {
        Fault { line: step.line, kind, thread: Some(context.thread(self.index, lane as u32)) }
    }

    fn act(
        &mut self,
        context: &mut Context,
        global: &mut Global,
        group: &mut Group,
        mask: u32,
        step: &Step,
    ) -> Result<Next, Stop> {
        let next = Next::Go(group.pc + 1);
        let frame = group.frame;
        let first = mask.trailing_zeros() as usize;
        match &step.action {
            Action::Nothing => {}
            Action::Compute { sources, dests, function } => {
                self.compute(context, frame, mask, sources, dests, function)?;
            }
            Action::Load { address, bytes, dests } => {
                self.load(context, global, frame, mask, address, *bytes, dests)?;
            }
            Action::Store { address, bytes, sources } => {
                self.store(context, global, frame, mask, address, *bytes, sources)?;
            }
            Action::Atomic(atomic) => self.atomic(context, global, frame, mask, atomic)?,
            Action::Copy { to, from, bytes, limit } => {
                self.copy(context, global, frame, mask, (to, from), *bytes, limit.as_ref())?;
            }
            Action::Branch { target } => return Ok(self.split(group, mask, *target)),
            Action::BranchIndexed { index, targets } => {
                return self.branch_indexed(context, group, mask, index, targets);
            }
            Action::Call(call) => return self.call(context, group, mask, call),
            Action::Return => return self.leave(context, group, mask),
            Action::Exit => return Ok(self.exit(group, mask)),
            Action::Trap => return Err((FaultKind::Trap, first)),
            Action::Warp(warp) => return self.together(context, group, mask, warp),
            Action::Barrier(barrier) => return self.arrive(context, group, mask, barrier, step.line),
            Action::Alloca { dest, size, align } => self.alloca(context, frame, mask, *dest, size, *align)?,
            Action::StackSave { dest } => {
                let tops = self.local_top.map(u64::from);
                self.write(frame, mask, dest, &tops);
            }
            Action::StackRestore { source } => {
                let tops = self.read(context, frame, mask, source)?;
                lanes(mask).for_each(|lane| self.local_top[lane] = tops[lane] as u32);
            }
            Action::Unsupported(what) => {
                return Err((FaultKind::Unsupported { what: what.clone() }, first));
            }
        }
        Ok(next)
    }
}

/// Why a lane can't go on.
type Stop = (FaultKind, usize);

/// Registers.
impl Warp {
    fn check_written(&self, context: &Context, frame: u32, slot: usize, mask: u32) -> Result<(), Stop> {
        let frame = &self.frames[frame as usize];
        let missing = mask & !frame.written[slot];
        if missing == 0 || !context.launch.check_registers {
            return Ok(());
        }
        let register = context.program.routines[frame.routine as usize].slot_names[slot].clone();
        Err((FaultKind::Uninitialised { register }, missing.trailing_zeros() as usize))
    }

    /// The value in each lane.
    fn read(&self, context: &Context, frame: u32, mask: u32, source: &Source) -> Result<Lanes, Stop> {
        Ok(match source {
            Source::Slot(slot) => {
                self.check_written(context, frame, *slot as usize, mask)?;
                self.frames[frame as usize].slots[*slot as usize]
            }
            Source::Constant(value) => **value,
            Source::Not(slot) => {
                self.check_written(context, frame, *slot as usize, mask)?;
                self.frames[frame as usize].slots[*slot as usize].map(|value| u64::from(value == 0))
            }
            Source::Special(special) => self.special(context, *special),
            Source::Local(offset) => self.frames[frame as usize].local.map(|base| u64::from(base + offset)),
            Source::DynamicShared => [context.dynamic.into(); LANES],
        })
    }

    fn special(&self, context: &Context, special: Special) -> Lanes {
        let lane_values = |f: &dyn Fn(u32) -> u32| std::array::from_fn(|lane| u64::from(f(lane as u32)));
        let same = |value: u32| [u64::from(value); LANES];
        let launch = context.launch;
        match special {
            Special::Tid(axis) => lane_values(&|lane| context.thread(self.index, lane).thread[axis]),
            Special::Ntid(axis) => same(launch.block[axis]),
            Special::Ctaid(axis) => same(context.block[axis]),
            Special::Nctaid(axis) => same(launch.grid[axis]),
            Special::LaneId => lane_values(&|lane| lane),
            Special::WarpId => same(self.index),
            Special::NWarpId => same(launch.block.iter().product::<u32>().div_ceil(32)),
            Special::LaneMask(f) => lane_values(&f),
            Special::Clock => [context.clock; LANES],
            Special::ClockHigh => [context.clock >> 32; LANES],
            Special::TotalSharedSize => same(context.shared.len() as u32),
            Special::DynamicSharedSize => same(launch.shared),
        }
    }

    fn write(&mut self, frame: u32, mask: u32, dest: &Dest, values: &Lanes) {
        self.frames[frame as usize].write(mask, dest, values);
    }

    fn compute(
        &mut self,
        context: &Context,
        frame: u32,
        mask: u32,
        sources: &[Source],
        dests: &[Dest],
        function: &super::program::Function,
    ) -> Result<(), Stop> {
        /// Most arguments of one instruction.
        const ARGUMENTS: usize = 16;
        // What is no register is looked up first, so that the rest can be borrowed.
        let mut looked_up: [Option<Lanes>; 2] = [None; 2];
        let mut used = 0;
        for source in sources {
            if !matches!(source, Source::Slot(_) | Source::Constant(_)) {
                let place = looked_up.get_mut(used).ok_or((too_many(), 0))?;
                *place = Some(self.read(context, frame, mask, source)?);
                used += 1;
            }
        }
        let mut inputs: [&Lanes; ARGUMENTS] = [&[0; LANES]; ARGUMENTS];
        let mut extra = looked_up.iter().flatten();
        for (input, source) in inputs.iter_mut().zip(sources) {
            *input = match source {
                Source::Slot(slot) => {
                    self.check_written(context, frame, *slot as usize, mask)?;
                    &self.frames[frame as usize].slots[*slot as usize]
                }
                Source::Constant(value) => value,
                _ => extra.next().unwrap_or(&[0; LANES]),
            };
        }
        let (Some(inputs), true) = (inputs.get(..sources.len()), dests.len() <= RESULTS) else {
            return Err((too_many(), 0));
        };
        function(inputs, &mut self.outputs[..dests.len()], mask);
        for (dest, values) in dests.iter().zip(self.outputs.iter()) {
            self.frames[frame as usize].write(mask, dest, values);
        }
        Ok(())
    }
}

fn too_many() -> FaultKind {
    FaultKind::Unsupported { what: "an instruction with so many operands".into() }
}

/// Memory.
impl Warp {
    /// The bytes at an address.
    #[inline]
    fn bytes<'m>(
        &'m mut self,
        context: &'m mut Context,
        global: &'m mut Global,
        frame: u32,
        lane: usize,
        (space, address): (Space, u64),
        length: u32,
    ) -> Result<&'m mut [u8], FaultKind> {
        let (space, offset) = match space {
            Space::Generic => {
                let space = Space::of_generic(address);
                (space, address.wrapping_sub(space.window()))
            }
            space => (space, address),
        };
        aligned(space, offset, length)?;
        let bytes = length as usize;
        let found = match space {
            Space::Global | Space::Generic => global.slice(offset, bytes),
            Space::Shared => memory::slice(&mut context.shared, offset, bytes),
            Space::Local => {
                let local = &mut self.local[lane];
                let top = self.local_top[lane] as usize;
                if local.len() < top {
                    local.resize(top, 0);
                }
                memory::slice(&mut local[..top], offset, bytes)
            }
            Space::Param => self.frames[frame as usize].param(lane, offset, bytes),
            // Constant memory is not written: a store to it is refused by the parser.
            Space::Const => {
                return Err(FaultKind::Unsupported { what: "this use of constant memory".into() });
            }
        };
        found.ok_or(FaultKind::OutOfBounds { space: space.name(), address, bytes: length })
    }

    fn addresses(&self, context: &Context, frame: u32, mask: u32, address: &Address) -> Result<Lanes, Stop> {
        let base = self.read(context, frame, mask, &address.base)?;
        Ok(base.map(|base| base.wrapping_add_signed(address.offset)))
    }

    #[allow(clippy::too_many_arguments)]
    fn load(
        &mut self,
        context: &mut Context,
        global: &mut Global,
        frame: u32,
        mask: u32,
        address: &Address,
        bytes: u32,
        dests: &[Dest],
    ) -> Result<(), Stop> {
        let addresses = self.addresses(context, frame, mask, address)?;
        let length = bytes * dests.len() as u32;
        let mut values = [[0; LANES]; 8];
        if dests.len() > values.len() {
            return Err((too_many(), 0));
        }
        for lane in lanes(mask) {
            let at = addresses[lane];
            let constant = address.space == Space::Const
                || address.space == Space::Generic && Space::of_generic(at) == Space::Const;
            let data = if constant {
                let window = if address.space == Space::Generic { Space::Const.window() } else { 0 };
                constant_bytes(context, at.wrapping_sub(window), length)
            } else {
                self.bytes(context, global, frame, lane, (address.space, at), length).map(|bytes| &*bytes)
            };
            let data = data.map_err(|kind| (kind, lane))?;
            for (value, chunk) in values.iter_mut().zip(data.chunks_exact(bytes as usize)) {
                value[lane] = memory::load(chunk);
            }
        }
        for (dest, value) in dests.iter().zip(&values) {
            self.write(frame, mask, dest, value);
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn store(
        &mut self,
        context: &mut Context,
        global: &mut Global,
        frame: u32,
        mask: u32,
        address: &Address,
        bytes: u32,
        sources: &[Source],
    ) -> Result<(), Stop> {
        let addresses = self.addresses(context, frame, mask, address)?;
        let length = bytes * sources.len() as u32;
        let mut values = [[0; LANES]; 8];
        if sources.len() > values.len() {
            return Err((too_many(), 0));
        }
        for (value, source) in values.iter_mut().zip(sources) {
            *value = self.read(context, frame, mask, source)?;
        }
        for lane in lanes(mask) {
            let data = self.bytes(context, global, frame, lane, (address.space, addresses[lane]), length);
            let data = data.map_err(|kind| (kind, lane))?;
            for (value, chunk) in values.iter().zip(data.chunks_exact_mut(bytes as usize)) {
                memory::store(chunk, value[lane]);
            }
        }
        Ok(())
    }

    /// One lane after the other.
    fn atomic(
        &mut self,
        context: &mut Context,
        global: &mut Global,
        frame: u32,
        mask: u32,
        atomic: &Atomic,
    ) -> Result<(), Stop> {
        let addresses = self.addresses(context, frame, mask, &atomic.address)?;
        let sources: Vec<Lanes> = atomic
            .sources
            .iter()
            .map(|source| self.read(context, frame, mask, source))
            .collect::<Result<_, _>>()?;
        let words = atomic.bytes.div_ceil(8) as usize;
        let operands = sources.len() / (words * atomic.count.max(1));
        let mut results = vec![[0; LANES]; atomic.dests.len()];
        for lane in lanes(mask) {
            for element in 0..atomic.count {
                let at = addresses[lane].wrapping_add(element as u64 * u64::from(atomic.bytes));
                let joined = |index: usize| {
                    let parts = sources[index * words..].iter().take(words).rev();
                    parts.fold(0u128, |out, part| out << 64 | u128::from(part[lane]))
                };
                // The operands of a vector stand side by side, those of cas behind each other.
                let arguments: Vec<u128> =
                    (0..operands).map(|k| joined(k * atomic.count + element)).collect();
                let resolved = match atomic.address.space {
                    Space::Generic => Space::of_generic(at),
                    space => space,
                };
                let data = self.bytes(context, global, frame, lane, (atomic.address.space, at), atomic.bytes);
                let data = data.map_err(|kind| (kind, lane))?;
                let old = data
                    .chunks(8)
                    .rev()
                    .fold(0u128, |out, chunk| out << 64 | u128::from(memory::load(chunk)));
                let new = (atomic.function)(resolved, old, &arguments);
                for (i, chunk) in data.chunks_mut(8).enumerate() {
                    memory::store(chunk, (new >> (64 * i)) as u64);
                }
                for (i, result) in results.iter_mut().skip(element * words).take(words).enumerate() {
                    result[lane] = (old >> (64 * i)) as u64;
                }
            }
        }
        for (dest, result) in atomic.dests.iter().zip(&results) {
            self.write(frame, mask, dest, result);
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn copy(
        &mut self,
        context: &mut Context,
        global: &mut Global,
        frame: u32,
        mask: u32,
        (to, from): (&Address, &Address),
        bytes: u32,
        limit: Option<&Source>,
    ) -> Result<(), Stop> {
        let (targets, origins) =
            (self.addresses(context, frame, mask, to)?, self.addresses(context, frame, mask, from)?);
        let limits = match limit {
            Some(limit) => self.read(context, frame, mask, limit)?,
            None => [bytes.into(); LANES],
        };
        for lane in lanes(mask) {
            let mut data = vec![0; bytes as usize];
            let taken = limits[lane].min(bytes.into()) as usize;
            if taken > 0 {
                let origin = (from.space, origins[lane]);
                let whole = self.bytes(context, global, frame, lane, origin, bytes);
                data[..taken].copy_from_slice(&whole.map_err(|kind| (kind, lane))?[..taken]);
            }
            let target = self.bytes(context, global, frame, lane, (to.space, targets[lane]), bytes);
            target.map_err(|kind| (kind, lane))?.copy_from_slice(&data);
        }
        Ok(())
    }

    fn alloca(
        &mut self,
        context: &Context,
        frame: u32,
        mask: u32,
        dest: Dest,
        size: &Source,
        align: u64,
    ) -> Result<(), Stop> {
        let sizes = self.read(context, frame, mask, size)?;
        let mut addresses = [0; LANES];
        for lane in lanes(mask) {
            let align = u32::try_from(align).unwrap_or(16).max(1);
            let start = self.local_top[lane].checked_next_multiple_of(align);
            let top = start.and_then(|start| grow(start, sizes[lane]));
            let (Some(start), Some(top)) = (start, top) else {
                return Err((FaultKind::StackOverflow, lane));
            };
            addresses[lane] = start.into();
            self.local_top[lane] = top;
        }
        self.write(frame, mask, &dest, &addresses);
        Ok(())
    }
}

/// Local memory in use after taking so many bytes more, if there is as much.
fn grow(top: u32, bytes: u64) -> Option<u32> {
    u32::try_from(bytes).ok().and_then(|bytes| top.checked_add(bytes)).filter(|top| *top <= LOCAL_LIMIT)
}

fn constant_bytes<'m>(context: &'m Context, offset: u64, length: u32) -> Result<&'m [u8], FaultKind> {
    aligned(Space::Const, offset, length)?;
    let constants = &context.program.constants;
    let start = usize::try_from(offset).ok();
    let found = start.and_then(|start| constants.get(start..start.checked_add(length as usize)?));
    found.ok_or(FaultKind::OutOfBounds { space: Space::Const.name(), address: offset, bytes: length })
}

/// Control.
impl Warp {
    /// Lanes of the mask go to `target`, the others on.
    fn split(&mut self, group: &mut Group, mask: u32, target: u32) -> Next {
        let rest = group.mask & !mask;
        if rest == 0 {
            return Next::Go(target);
        }
        self.park(Group { mask: rest, pc: group.pc + 1, ..*group });
        self.park(Group { mask, pc: target, ..*group });
        Next::Elsewhere
    }

    /// The lanes that the mask leaves out go on.
    fn leave_behind(&mut self, group: &Group, mask: u32) {
        let rest = group.mask & !mask;
        if rest != 0 {
            self.park(Group { mask: rest, pc: group.pc + 1, ..*group });
        }
    }

    fn branch_indexed(
        &mut self,
        context: &Context,
        group: &Group,
        mask: u32,
        index: &Source,
        targets: &[u32],
    ) -> Result<Next, Stop> {
        let indices = self.read(context, group.frame, mask, index)?;
        self.leave_behind(group, mask);
        let mut left = mask;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let value = indices[lane];
            let target = usize::try_from(value).ok().and_then(|i| targets.get(i)).ok_or_else(|| {
                let what = format!("branch {value} of {}", targets.len());
                (FaultKind::Undefined { what }, lane)
            })?;
            let same = lanes(left).filter(|l| indices[*l] == value).fold(0, |m, l| m | 1 << l);
            self.park(Group { mask: same, pc: *target, ..*group });
            left &= !same;
        }
        Ok(Next::Elsewhere)
    }

    /// A frame for a function.
    fn enter(&mut self, context: &Context, routine: u32, mask: u32, caller: Option<(u32, u32)>) -> u32 {
        let function = &context.program.routines[routine as usize];
        let slots = function.slots as usize;
        let param_bytes = function.param_bytes as usize;
        let mut local = [0; LANES];
        for lane in lanes(mask) {
            local[lane] = self.local_top[lane].next_multiple_of(16);
            self.local_top[lane] = local[lane] + function.local_bytes;
        }
        let depth = caller.map_or(0, |(frame, _)| self.frames[frame as usize].depth + 1);
        let frame = Frame {
            routine,
            slots: vec![[0; LANES]; slots],
            written: vec![0; slots],
            params: vec![0; param_bytes * LANES],
            param_bytes,
            local,
            caller,
            depth,
            inside: mask,
        };
        match self.free.pop() {
            Some(index) => {
                self.frames[index as usize] = frame;
                index
            }
            None => {
                self.frames.push(frame);
                self.frames.len() as u32 - 1
            }
        }
    }

    fn call(&mut self, context: &Context, group: &Group, mask: u32, call: &Call) -> Result<Next, Stop> {
        self.leave_behind(group, mask);
        match &call.callee {
            Callee::Direct(index) => self.call_one(context, group, mask, call, *index)?,
            Callee::Indirect(source) => {
                let targets = self.read(context, group.frame, mask, source)?;
                let mut left = mask;
                while left != 0 {
                    let lane = left.trailing_zeros() as usize;
                    let target = targets[lane];
                    let index = target.wrapping_sub(FUNCTIONS) / 16;
                    let known = target >= FUNCTIONS && index < context.program.routines.len() as u64;
                    if !known {
                        return Err((FaultKind::BadCall { target: format!("{target:#x}") }, lane));
                    }
                    let same = lanes(left).filter(|l| targets[*l] == target).fold(0, |m, l| m | 1 << l);
                    self.call_one(context, group, same, call, index as u32)?;
                    left &= !same;
                }
            }
        }
        Ok(Next::Elsewhere)
    }

    fn call_one(
        &mut self,
        context: &Context,
        group: &Group,
        mask: u32,
        call: &Call,
        index: u32,
    ) -> Result<(), Stop> {
        let first = mask.trailing_zeros() as usize;
        let routine = &context.program.routines[index as usize];
        let bad = || (FaultKind::BadCall { target: routine.name.clone() }, first);
        let start = routine.start.ok_or_else(bad)?;
        if routine.params.len() != call.arguments.len() || routine.returns.len() < call.returns.len() {
            return Err(bad());
        }
        let top = lanes(mask).map(|lane| self.local_top[lane]).max().unwrap_or(0);
        let depth = self.frames[group.frame as usize].depth;
        let fits = grow(top, u64::from(routine.local_bytes) + 16).is_some();
        if !fits || depth >= DEPTH_LIMIT || routine.param_bytes > super::PARAMETER_LIMIT {
            return Err((FaultKind::StackOverflow, first));
        }
        let frame = self.enter(context, index, mask, Some((group.frame, group.pc + 1)));
        for (argument, formal) in call.arguments.iter().zip(&routine.params) {
            self.pass(context, mask, (group.frame, argument), (frame, formal))
                .map_err(|stop| stop.unwrap_or_else(bad))?;
        }
        self.park(Group { mask, frame, pc: start, ..*group });
        Ok(())
    }

    /// Copies one argument; `Err(None)` where the two don't fit.
    fn pass(
        &mut self,
        context: &Context,
        mask: u32,
        (caller, argument): (u32, &Argument),
        (callee, formal): (u32, &Formal),
    ) -> Result<(), Option<Stop>> {
        match (argument, formal) {
            (Argument::Param { offset, bytes }, Formal::Memory { offset: to, bytes: room }) => {
                let length = (*bytes).min(*room) as usize;
                for lane in lanes(mask) {
                    let from = self.frames[caller as usize].param(lane, (*offset).into(), length);
                    let data = from.ok_or(None)?.to_vec();
                    let to = self.frames[callee as usize].param(lane, (*to).into(), length);
                    to.ok_or(None)?.copy_from_slice(&data);
                }
            }
            (Argument::Values(sources), Formal::Slots { first, count })
                if sources.len() == *count as usize =>
            {
                for (i, source) in sources.iter().enumerate() {
                    let values = self.read(context, caller, mask, source).map_err(Some)?;
                    let slot = Some(first + i as u32);
                    let dest = Dest { slot, mask: u64::MAX, from: ori::arith::Int::U64 };
                    self.write(callee, mask, &dest, &values);
                }
            }
            (Argument::Values(sources), Formal::Memory { offset, bytes }) if sources.len() == 1 => {
                let values = self.read(context, caller, mask, &sources[0]).map_err(Some)?;
                for lane in lanes(mask) {
                    let to = self.frames[callee as usize].param(lane, (*offset).into(), *bytes as usize);
                    memory::store(to.ok_or(None)?, values[lane]);
                }
            }
            _ => return Err(None),
        }
        Ok(())
    }

    /// Returns from a function; from the kernel itself it is an exit.
    fn leave(&mut self, context: &Context, group: &Group, mask: u32) -> Result<Next, Stop> {
        let Some((caller, pc)) = self.frames[group.frame as usize].caller else {
            return Ok(self.exit(group, mask));
        };
        self.leave_behind(group, mask);
        let routine = &context.program.routines[self.frames[group.frame as usize].routine as usize];
        let action = context.program.steps.get(pc as usize - 1).map(|step| &step.action);
        if let Some(Action::Call(call)) = action {
            for (formal, result) in routine.returns.iter().zip(&call.returns) {
                let fits = self.hand_back(mask, (group.frame, formal), (caller, result));
                let bad =
                    || (FaultKind::BadCall { target: routine.name.clone() }, mask.trailing_zeros() as usize);
                fits.ok_or_else(bad)?;
            }
        }
        let frame = &mut self.frames[group.frame as usize];
        frame.inside &= !mask;
        let empty = frame.inside == 0;
        lanes(mask).for_each(|lane| self.local_top[lane] = frame.local[lane]);
        if empty {
            self.free.push(group.frame);
        }
        self.park(Group { mask, frame: caller, pc, ..*group });
        Ok(Next::Elsewhere)
    }

    fn hand_back(
        &mut self,
        mask: u32,
        (callee, formal): (u32, &Formal),
        (caller, result): (u32, &Return),
    ) -> Option<()> {
        match (formal, result) {
            (Formal::Memory { offset, bytes }, Return::Param { offset: to, bytes: room }) => {
                let length = (*bytes).min(*room) as usize;
                for lane in lanes(mask) {
                    let data = self.frames[callee as usize].param(lane, (*offset).into(), length)?.to_vec();
                    self.frames[caller as usize].param(lane, (*to).into(), length)?.copy_from_slice(&data);
                }
            }
            (Formal::Slots { first, count }, Return::Values(dests)) if dests.len() == *count as usize => {
                for (i, dest) in dests.iter().enumerate() {
                    let values = self.frames[callee as usize].slots.get(*first as usize + i).copied()?;
                    self.write(caller, mask, dest, &values);
                }
            }
            (Formal::Memory { offset, bytes }, Return::Values(dests)) if dests.len() == 1 => {
                let mut values = [0; LANES];
                for lane in lanes(mask) {
                    let frame = &mut self.frames[callee as usize];
                    values[lane] = memory::load(frame.param(lane, (*offset).into(), *bytes as usize)?);
                }
                self.write(caller, mask, &dests[0], &values);
            }
            _ => return None,
        }
        Some(())
    }

    fn exit(&mut self, group: &Group, mask: u32) -> Next {
        self.leave_behind(group, mask);
        self.alive &= !mask;
        self.exited = true;
        // Lanes that waited for these may go on; they look again.
        for waiting in self.groups.iter_mut().filter(|g| g.state == State::AtSync) {
            waiting.state = State::Ready;
        }
        Next::Elsewhere
    }

    fn arrive(
        &mut self,
        context: &mut Context,
        group: &Group,
        mask: u32,
        barrier: &Barrier,
        line: u32,
    ) -> Result<Next, Stop> {
        let first = mask.trailing_zeros() as usize;
        let uniform = |values: Lanes| match lanes(mask).all(|lane| values[lane] == values[first]) {
            true => Ok(values[first] as u32),
            false => {
                let what = "a barrier whose number differs between lanes".to_string();
                Err((FaultKind::Undefined { what }, first))
            }
        };
        let number = uniform(self.read(context, group.frame, mask, &barrier.number)?)?;
        let threads = match &barrier.threads {
            Some(threads) => Some(uniform(self.read(context, group.frame, mask, threads)?)?),
            None => None,
        };
        let predicates = match &barrier.predicate {
            Some(predicate) => {
                let values = self.read(context, group.frame, mask, predicate)?;
                lanes(mask).filter(|lane| values[*lane] != 0).fold(0, |m, lane| m | 1 << lane)
            }
            None => 0,
        };
        context.arrivals.push(Arrival { number, threads, mask, predicates, line });
        if !barrier.waits {
            return Ok(Next::Go(group.pc + 1));
        }
        self.leave_behind(group, mask);
        self.park(Group { mask, state: State::AtBarrier(number), ..*group });
        Ok(Next::Elsewhere)
    }

    /// Lets go of the lanes at a barrier.
    pub fn release(&mut self, context: &Context, number: u32, result: impl Fn(Reduction) -> u64) {
        for i in 0..self.groups.len() {
            let group = self.groups[i];
            if group.state != State::AtBarrier(number) {
                continue;
            }
            if let Some(Action::Barrier(barrier)) =
                context.program.steps.get(group.pc as usize).map(|step| &step.action)
            {
                let value = [result(barrier.reduction); LANES];
                self.write(group.frame, group.mask, &barrier.dest, &value);
            }
            self.groups[i].pc += 1;
            self.groups[i].state = State::Ready;
        }
    }
}

/// What lanes do together.
impl Warp {
    /// The lanes of a mask are there, or wait for the others that their member masks name.
    fn together(
        &mut self,
        context: &Context,
        group: &Group,
        mask: u32,
        action: &WarpAction,
    ) -> Result<Next, Stop> {
        let Some(members) = &action.members else {
            self.perform(context, &[Group { mask, ..*group }], mask, action)?;
            return Ok(Next::Go(group.pc + 1));
        };
        self.leave_behind(group, mask);
        // Those that wait here already, in whatever frame.
        let pc = group.pc;
        let mut here: Vec<Group> = vec![Group { mask, state: State::AtSync, ..*group }];
        self.groups.retain(|g| {
            let waits = g.pc == pc && g.state == State::AtSync;
            if waits {
                here.push(*g);
            }
            !waits
        });
        let mut wanted = [0u32; LANES];
        for g in &here {
            let values = self.read(context, g.frame, g.mask, members)?;
            for lane in lanes(g.mask) {
                wanted[lane] = values[lane] as u32;
                if wanted[lane] >> lane & 1 == 0 {
                    let what = format!("lane {lane} is not in its own member mask {:#x}", wanted[lane]);
                    return Err((FaultKind::Undefined { what }, lane));
                }
            }
        }
        let present = here.iter().fold(0, |m, g| m | g.mask);
        let complete = |lane: usize| {
            let needed = wanted[lane] & self.alive;
            needed & !present == 0 && lanes(needed).all(|other| wanted[other] == wanted[lane])
        };
        let going = lanes(present).filter(|lane| complete(*lane)).fold(0, |m, lane| m | 1u32 << lane);
        let mut left = going;
        while left != 0 {
            let set = wanted[left.trailing_zeros() as usize] & self.alive;
            self.perform(context, &here, set, action)?;
            left &= !set;
        }
        for g in here {
            if g.mask & going != 0 {
                self.park(Group { mask: g.mask & going, pc: pc + 1, state: State::Ready, ..g });
            }
            if g.mask & !going != 0 {
                self.park(Group { mask: g.mask & !going, ..g });
            }
        }
        Ok(Next::Elsewhere)
    }

    /// The operation for a set of lanes, which may be in several frames.
    fn perform(
        &mut self,
        context: &Context,
        groups: &[Group],
        set: u32,
        action: &WarpAction,
    ) -> Result<(), Stop> {
        let mut inputs = [[0; LANES]; 3];
        for g in groups.iter().filter(|g| g.mask & set != 0) {
            for (input, source) in inputs.iter_mut().zip(&action.sources) {
                let values = self.read(context, g.frame, g.mask & set, source)?;
                lanes(g.mask & set).for_each(|lane| input[lane] = values[lane]);
            }
        }
        let outputs = operate(action.operation, &inputs, set);
        for g in groups.iter().filter(|g| g.mask & set != 0) {
            for (dest, values) in action.dests.iter().zip(&outputs) {
                self.write(g.frame, g.mask & set, dest, values);
            }
        }
        Ok(())
    }
}

fn operate(operation: WarpOperation, [a, b, c]: &[Lanes; 3], set: u32) -> [Lanes; 2] {
    let count =
        |f: &dyn Fn(usize) -> bool| lanes(set).filter(|lane| f(*lane)).fold(0u32, |m, lane| m | 1 << lane);
    let same = |value: u64| [value; LANES];
    let voters = count(&|lane| a[lane] != 0);
    let first = set.trailing_zeros().min(31) as usize;
    match operation {
        WarpOperation::Sync => [same(0); 2],
        WarpOperation::Shuffle(mode) => shuffle(mode, a, b, c, set),
        WarpOperation::VoteAll => [same(u64::from(voters == set)), same(0)],
        WarpOperation::VoteAny => [same(u64::from(voters != 0)), same(0)],
        WarpOperation::VoteUniform => [same(u64::from(voters == set || voters == 0)), same(0)],
        WarpOperation::Ballot => [same(voters.into()), same(0)],
        WarpOperation::ActiveMask => [same(set.into()), same(0)],
        WarpOperation::MatchAny => {
            [std::array::from_fn(|lane| count(&|other| a[other] == a[lane]).into()), same(0)]
        }
        WarpOperation::MatchAll => {
            let all = lanes(set).all(|lane| a[lane] == a[first]);
            [same(if all { set.into() } else { 0 }), same(all.into())]
        }
        WarpOperation::Reduce(f) => {
            let total = lanes(set).map(|lane| a[lane]).reduce(f).unwrap_or(0);
            [same(total), same(0)]
        }
        WarpOperation::Elect => {
            let leader = std::array::from_fn(|lane| u64::from(lane == first));
            [same(first as u64), leader]
        }
    }
}

/// A lane outside of the set has no value; who reads it gets its own back, as hardware does not promise more.
fn shuffle(mode: Shuffle, a: &Lanes, b: &Lanes, c: &Lanes, set: u32) -> [Lanes; 2] {
    let mut results = [[0; LANES]; 2];
    for lane in lanes(set) {
        let me = lane as i32;
        let by = (b[lane] & 31) as i32;
        let (clamp, segment) = ((c[lane] & 31) as i32, (c[lane] >> 8 & 31) as i32);
        let lowest = me & segment;
        let limit = lowest | clamp & !segment;
        let (source, inside) = match mode {
            Shuffle::Up => (me - by, me - by >= limit),
            Shuffle::Down => (me + by, me + by <= limit),
            Shuffle::Butterfly => (me ^ by, (me ^ by) <= limit),
            Shuffle::Index => (lowest | by & !segment, (lowest | by & !segment) <= limit),
        };
        let source = if inside { source as usize } else { lane };
        let there = set.checked_shr(source as u32).unwrap_or(0) & 1 == 1;
        results[0][lane] = a[if there { source } else { lane }];
        results[1][lane] = u64::from(inside);
    }
    results
}
