//! Branches, calls, returns, exits and barriers of a block.

use super::access::grow;
use super::{Arrival, DEPTH_LIMIT, Frame, Group, Next, State, Stop, Warp};
use crate::fault::FaultKind;
use crate::memory::{self, FUNCTIONS};
use crate::ptx::block::Context;
use crate::ptx::cluster::Memory;
use crate::ptx::program::{
    Action, Argument, Barrier, Call, Callee, Dest, Formal, LANES, Lanes, Reduction, Return, Source, lanes,
};
use crate::ptx::races::{Meeting, Races};

impl Warp {
    /// Lanes of the mask go to `target`, the others on.
    pub(super) fn split(&mut self, group: &mut Group, mask: u32, target: u32) -> Next {
        let rest = group.mask & !mask;
        if rest == 0 {
            return Next::Go(target);
        }
        self.park(Group { mask: rest, pc: group.pc + 1, ..*group });
        self.park(Group { mask, pc: target, ..*group });
        Next::Elsewhere
    }

    /// The lanes that the mask leaves out go on.
    pub(super) fn leave_behind(&mut self, group: &Group, mask: u32) {
        let rest = group.mask & !mask;
        if rest != 0 {
            self.park(Group { mask: rest, pc: group.pc + 1, ..*group });
        }
    }

    pub(super) fn branch_indexed(
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
    pub(super) fn enter(
        &mut self,
        context: &Context,
        routine: u32,
        mask: u32,
        caller: Option<(u32, u32)>,
    ) -> u32 {
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

    pub(super) fn call(
        &mut self,
        context: &Context,
        group: &Group,
        mask: u32,
        call: &Call,
    ) -> Result<Next, Stop> {
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
        if !fits || depth >= DEPTH_LIMIT || routine.param_bytes > crate::ptx::PARAMETER_LIMIT {
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
            (
                Argument::Param { offset, bytes },
                Formal::Memory { bytes: room, .. } | Formal::Local { bytes: room, .. },
            ) => {
                let length = (*bytes).min(*room) as usize;
                for lane in lanes(mask) {
                    let from = self.frames[caller as usize].param(lane, (*offset).into(), length);
                    let data = from.ok_or(None)?.to_vec();
                    let to = self.formal(lane, callee, formal).and_then(|to| to.get_mut(..length));
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
            (Argument::Values(sources), Formal::Memory { .. } | Formal::Local { .. })
                if sources.len() == 1 =>
            {
                let values = self.read(context, caller, mask, &sources[0]).map_err(Some)?;
                for lane in lanes(mask) {
                    memory::store(self.formal(lane, callee, formal).ok_or(None)?, values[lane]);
                }
            }
            _ => return Err(None),
        }
        Ok(())
    }

    /// The bytes of a formal parameter that is in memory.
    fn formal(&mut self, lane: usize, frame: u32, formal: &Formal) -> Option<&mut [u8]> {
        let frame = &mut self.frames[frame as usize];
        match formal {
            Formal::Memory { offset, bytes } => frame.param(lane, (*offset).into(), *bytes as usize),
            Formal::Local { offset, bytes } => {
                let start = u64::from(frame.local[lane]) + u64::from(*offset);
                let local = &mut self.local[lane];
                local.resize(local.len().max(self.local_top[lane] as usize), 0);
                memory::slice(local, start, *bytes as usize)
            }
            Formal::Slots { .. } => None,
        }
    }

    /// Returns from a function; from the kernel itself it is an exit.
    pub(super) fn leave(&mut self, context: &Context, group: &Group, mask: u32) -> Result<Next, Stop> {
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

    pub(super) fn exit(&mut self, group: &Group, mask: u32) -> Next {
        self.leave_behind(group, mask);
        self.alive &= !mask;
        self.exited = true;
        // Lanes that waited for these may go on; they look again.
        for waiting in self.groups.iter_mut().filter(|g| g.state == State::AtSync) {
            waiting.state = State::Ready;
        }
        Next::Elsewhere
    }

    pub(super) fn arrive(
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

    /// Lanes go on when the phase is over that they arrived in; those that have not arrived go on, as on an H200.
    pub(super) fn wait_for_cluster(
        &mut self,
        context: &Context,
        memory: &mut Memory,
        group: &Group,
        mask: u32,
    ) -> Next {
        if lanes(mask).all(|lane| self.cluster_phases[lane] <= memory.barrier.phase) {
            lanes(mask).for_each(|lane| self.cluster_phases[lane] = 0);
            if let Some(races) = &mut memory.races {
                let threads = self.threads(context, races, mask);
                races.leave(Meeting::Cluster, threads.into_iter());
            }
            return Next::Go(group.pc + 1);
        }
        self.leave_behind(group, mask);
        self.park(Group { mask, state: State::AtCluster, ..*group });
        Next::Elsewhere
    }

    /// The threads of some lanes, as races know them.
    pub(super) fn threads(&self, context: &Context, races: &Races, mask: u32) -> Vec<u32> {
        lanes(mask).map(|lane| races.thread(context.rank, self.index, lane)).collect()
    }

    /// Who waits at the barrier of the cluster looks again.
    pub fn leave_cluster_barrier(&mut self) {
        for group in self.groups.iter_mut().filter(|group| group.state == State::AtCluster) {
            group.state = State::Ready;
        }
    }

    /// Lets go of the lanes at a barrier.
    pub fn release(
        &mut self,
        context: &Context,
        memory: &mut Memory,
        number: u32,
        result: impl Fn(Reduction) -> u64,
    ) {
        for i in 0..self.groups.len() {
            let group = self.groups[i];
            if group.state != State::AtBarrier(number) {
                continue;
            }
            if let Some(races) = &mut memory.races {
                let threads = self.threads(context, races, group.mask);
                races.leave(Meeting::Barrier(context.rank as usize, number), threads.into_iter());
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
