//! Where lanes go: branches, convergence, barriers of the block.

use super::{Arrival, Condition, Group, LANES, Next, Now, Source, State, Stop, Warp, YIELDS, lanes_of};
use crate::memory::weak::Scope;
use crate::ptx::FaultKind;
use crate::ptx::program::{Lanes, Reduction};
use crate::sass::block::Context;
use crate::sass::image::CODE;
use crate::sass::program::{Action, Barrier, Dest};
use crate::sass::trace;
use sass::WORD_BYTES;

impl Warp {
    /// Some lanes of a group go elsewhere, the others on.
    pub(super) fn split(&mut self, group: &mut Group, going: u32, target: u32) -> Next {
        let staying = group.mask & !going;
        if going == 0 {
            return Next::Go(group.pc + 1);
        }
        if staying == 0 {
            return Next::Go(target);
        }
        if self.order.as_mut().is_some_and(|order| order.takes_branch()) {
            self.part(group, staying, group.pc + 1);
            group.mask = going;
            return Next::Go(target);
        }
        self.part(group, going, target);
        group.mask = staying;
        Next::Go(group.pc + 1)
    }

    /// A group of its own for some lanes of another.
    fn part(&mut self, group: &Group, mask: u32, pc: u32) {
        let timing = group.timing.clone();
        self.park(Group { mask, pc, state: State::Ready, stamp: 0, timing });
    }

    /// To addresses in registers, which may differ between lanes.
    pub(super) fn jump(
        &mut self,
        now: &mut Now,
        group: &mut Group,
        taken: Condition,
        base: u64,
        register: Source,
    ) -> Result<Next, Stop> {
        let mut left = self.registers.holds(taken, now.mask);
        let addresses = self.registers.fetch(now.context, register)?;
        let staying = group.mask & !left;
        let mut parts = Vec::new();
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            let address = base.wrapping_add(addresses[first]);
            let same = lanes_of(left).filter(|lane| addresses[*lane] == addresses[first]);
            let mask = same.fold(0, |m, lane| m | 1 << lane);
            let offset = address.wrapping_sub(CODE);
            let index = offset / WORD_BYTES;
            if offset % WORD_BYTES != 0 || index >= now.context.program.steps.len() as u64 {
                return Err((FaultKind::BadCall { target: format!("the address {address:#x}") }, first));
            }
            parts.push((mask, index as u32));
            left &= !mask;
        }
        if staying != 0 {
            parts.push((staying, group.pc + 1));
        }
        let Some((mask, pc)) = parts.pop() else { return Ok(Next::Go(group.pc + 1)) };
        for (mask, pc) in parts {
            self.part(group, mask, pc);
        }
        group.mask = mask;
        Ok(Next::Go(pc))
    }

    pub(super) fn exit(&mut self, group: &mut Group, mask: u32) -> Next {
        if mask == 0 {
            return Next::Go(group.pc + 1);
        }
        self.alive &= !mask;
        self.exited = true;
        // Lanes that waited for these may go on.
        (0..self.convergence.len()).for_each(|barrier| self.let_go(barrier as u8));
        self.let_sync();
        group.mask &= !mask;
        if group.mask == 0 { Next::Elsewhere } else { Next::Go(group.pc + 1) }
    }

    // Convergence.

    pub(super) fn gather(&mut self, mask: u32, barrier: u8) {
        lanes_of(mask).for_each(|lane| self.convergence[usize::from(barrier)][lane] = mask);
        self.restored[usize::from(barrier)] &= !mask;
    }

    pub(super) fn restore(&mut self, mask: u32, barrier: u8, masks: &Lanes) {
        lanes_of(mask).for_each(|lane| self.convergence[usize::from(barrier)][lane] = masks[lane] as u32);
        self.restored[usize::from(barrier)] |= mask;
    }

    /// These lanes won't come: the others don't wait for them.
    pub(super) fn leave(&mut self, mask: u32, barrier: u8) {
        let register = &mut self.convergence[usize::from(barrier)];
        let together = lanes_of(mask).fold(0, |all, lane| all | register[lane]);
        lanes_of(together | mask).for_each(|lane| register[lane] &= !mask);
        self.let_go(barrier);
    }

    pub(super) fn meet(&mut self, group: &mut Group, mask: u32, barrier: u8) -> Next {
        let staying = group.mask & !mask;
        if mask == 0 {
            return Next::Go(group.pc + 1);
        }
        let timing = group.timing.clone();
        self.park(Group { mask, pc: group.pc, state: State::AtMeeting(barrier), stamp: 0, timing });
        lanes_of(mask).for_each(|lane| self.yields[lane] = 0);
        self.let_go(barrier);
        group.mask = staying;
        if staying == 0 { Next::Elsewhere } else { Next::Go(group.pc + 1) }
    }

    /// Lanes at BSYNC whose others are all there go on, together.
    fn let_go(&mut self, barrier: u8) {
        let state = State::AtMeeting(barrier);
        let waiting = self.groups.iter().filter(|group| group.state == state);
        let present = waiting.fold(0, |all, group| all | group.mask);
        if present == 0 {
            return;
        }
        let yielding =
            (0..LANES).filter(|lane| self.yields[*lane] >= YIELDS).fold(0, |m, lane| m | 1u32 << lane);
        let coming = self.alive & !yielding;
        let met = self.convergence[usize::from(barrier)];
        let wanted = met.map(|mask| mask & coming);
        // A caller and its callee may use the same barrier: lanes that wait in one of them are not there for those in
        // the other, whom they don't wait for themselves.
        let is_here = |other: usize, for_lane: usize| present >> other & met[other] >> for_lane & 1 != 0;
        let complete = |lane: usize| lanes_of(wanted[lane]).all(|other| is_here(other, lane));
        let gone = self.unite(state, complete, |lane| wanted[lane]);
        self.early |= lanes_of(gone).any(|lane| met[lane] & self.alive & yielding != 0);
        // Those that come later wait only for each other, and those that have gone for none.
        let register = &mut self.convergence[usize::from(barrier)];
        for lane in lanes_of(gone) {
            lanes_of(met[lane]).for_each(|other| register[other] &= !(1 << lane));
            register[lane] = 0;
        }
    }

    /// Once nothing else can happen in the warp, and lanes have gone on early, those at BSYNC whose mask was kept
    /// elsewhere wait no more for lanes that are not there; says whether that let any go. A function that was called
    /// meanwhile has kept the mask of its caller's barrier in memory, with lanes that are long gone. An H200 comes to
    /// the end of such programs (seeds 54025, 58088 and 58231 at -O0); how is not known. Whose mask is their own since
    /// BSSY wait for ever.
    pub(super) fn forget_early(&mut self) -> bool {
        let waits = |group: &Group| matches!(group.state, State::AtMeeting(_) | State::AtSync);
        if !self.early || !self.groups.iter().all(waits) {
            return false;
        }
        for barrier in 0..self.convergence.len() {
            let here = self.groups.iter().filter(|group| group.state == State::AtMeeting(barrier as u8));
            let here = here.fold(0, |all, group| all | group.mask);
            let stale = here & self.restored[barrier];
            lanes_of(stale).for_each(|lane| self.convergence[barrier][lane] &= here);
            self.let_go(barrier as u8);
        }
        self.groups.iter().any(|group| group.state == State::Ready)
    }

    /// Lanes yield: those that wait for them may stop to.
    pub(super) fn give_way(&mut self, mask: u32) {
        let mut enough = false;
        for lane in lanes_of(mask) {
            self.yields[lane] += 1;
            enough |= self.yields[lane] == YIELDS;
        }
        if enough {
            (0..self.convergence.len()).for_each(|barrier| self.let_go(barrier as u8));
        }
    }

    /// Lanes sleep: the others, at their side or at BSYNC now, go on without them. Both were seen on an H200.
    pub(super) fn sleep(&mut self, group: &mut Group, mask: u32) -> Next {
        let before = self.yields;
        lanes_of(mask).for_each(|lane| self.yields[lane] = YIELDS - 1);
        self.give_way(mask);
        self.yields = before;
        if group.mask == mask { Next::Yield } else { self.split(group, mask, group.pc + 1) }
    }

    pub(super) fn sync(&mut self, now: &mut Now, group: &mut Group, members: Source) -> Result<Next, Stop> {
        let masks = self.registers.fetch(now.context, members)?;
        for lane in lanes_of(now.mask) {
            self.members[lane] = masks[lane] as u32;
            if masks[lane] >> lane & 1 == 0 {
                let what = format!("lane {lane} is not in its own member mask {:#x}", masks[lane]);
                return Err((FaultKind::Undefined { what }, lane));
            }
        }
        let (mask, timing) = (now.mask, group.timing.clone());
        self.park(Group { mask, pc: group.pc, state: State::AtSync, stamp: 0, timing });
        self.let_sync();
        group.mask &= !mask;
        Ok(if group.mask == 0 { Next::Elsewhere } else { Next::Go(group.pc + 1) })
    }

    /// Lanes at WARPSYNC whose members are all there go on, together.
    fn let_sync(&mut self) {
        let waiting = self.groups.iter().filter(|group| group.state == State::AtSync);
        let present = waiting.fold(0, |all, group| all | group.mask);
        if present == 0 {
            return;
        }
        let wanted = self.members.map(|mask| mask & self.alive);
        // Who waits at another place for others, and not for a lane, is not there for it.
        let is_here = |other: usize, for_lane: usize| present >> other & wanted[other] >> for_lane & 1 != 0;
        let complete = |lane: usize| lanes_of(wanted[lane]).all(|other| is_here(other, lane));
        self.unite(State::AtSync, complete, |lane| wanted[lane]);
    }

    /// Of the groups in a state, makes one of the lanes that may go and wait for the same lanes at the same place. Says
    /// which lanes go.
    fn unite(&mut self, state: State, may_go: impl Fn(usize) -> bool, key: impl Fn(usize) -> u32) -> u32 {
        let mut united: Vec<(u32, Group)> = Vec::new();
        let mut index = 0;
        while index < self.groups.len() {
            let group = &mut self.groups[index];
            let going = match group.state == state {
                true => lanes_of(group.mask).filter(|lane| may_go(*lane)).fold(0, |m, lane| m | 1u32 << lane),
                false => 0,
            };
            group.mask &= !going;
            let (pc, timing) = (group.pc + 1, group.timing.clone());
            for lane in lanes_of(going) {
                let bit = 1 << lane;
                match united.iter_mut().find(|(of, group)| *of == key(lane) && group.pc == pc) {
                    Some((_, other)) if other.mask & going != 0 => other.mask |= bit,
                    Some((_, other)) => {
                        other.mask |= bit;
                        other.timing.merge(&timing);
                    }
                    None => {
                        let timing = timing.clone();
                        united.push((
                            key(lane),
                            Group { mask: bit, pc, state: State::Ready, stamp: 0, timing },
                        ));
                    }
                }
            }
            if self.groups[index].mask == 0 {
                self.groups.swap_remove(index);
            } else {
                index += 1;
            }
        }
        let gone = united.iter().fold(0, |all, (_, group)| all | group.mask);
        united.into_iter().for_each(|(_, group)| self.park(group));
        gone
    }

    pub(super) fn read_convergence(&mut self, mask: u32, barrier: u8, dest: Dest, clear: bool) {
        let register = &mut self.convergence[usize::from(barrier)];
        let masks = register.map(u64::from);
        if clear {
            lanes_of(mask).for_each(|lane| register[lane] = 0);
        }
        self.registers.write(mask, dest, 1, &masks);
    }

    // Barriers of the block.

    pub(super) fn arrive(
        &mut self,
        now: &mut Now,
        group: &mut Group,
        barrier: &Barrier,
    ) -> Result<Next, Stop> {
        let mask = now.mask;
        let first = mask.trailing_zeros() as usize & (LANES - 1);
        let uniform = |warp: &Warp, source: Source| {
            let values = warp.registers.fetch(now.context, source)?;
            match lanes_of(mask).all(|lane| values[lane] == values[first]) {
                true => Ok(values[first] as u32),
                false => {
                    let what = "a barrier whose number differs between lanes".to_string();
                    Err((FaultKind::Undefined { what }, first))
                }
            }
        };
        let mut number = uniform(self, barrier.number)?;
        let mut threads = match barrier.threads {
            Some(threads) => Some(uniform(self, threads)?),
            None => None,
        };
        // The count above, the number below.
        if barrier.packed {
            threads = Some(number >> 16 & 0xfff).filter(|threads| *threads != 0);
            number &= 15;
        }
        let predicates = self.registers.holds(barrier.predicate, mask);
        let index = group.pc as usize;
        self.order_release(now, Scope::Block);
        now.context.arrivals.push(Arrival { number, threads, mask, predicates, index });
        if let Some(trace) = &mut now.common.trace {
            trace.arrive(trace::Barrier::Block(now.context.rank, number), barrier.waits);
        }
        if !barrier.waits {
            return Ok(Next::Go(group.pc + 1));
        }
        let timing = group.timing.clone();
        self.park(Group { mask, pc: group.pc, state: State::AtBarrier(number), stamp: 0, timing });
        group.mask &= !mask;
        Ok(if group.mask == 0 { Next::Elsewhere } else { Next::Go(group.pc + 1) })
    }

    // The barrier of the cluster.

    pub(super) fn arrive_at_cluster(&mut self, now: &mut Now) -> Result<(), Stop> {
        let first = now.mask.trailing_zeros() as usize & (LANES - 1);
        lanes_of(now.mask).for_each(|lane| self.met[lane] = now.common.meeting.phase);
        let warp = now.context.warp_in_cluster(self.index);
        let arrived = now.common.meeting.arrive(warp, now.mask);
        if let Some(trace) = &mut now.common.trace {
            trace.arrive(trace::Barrier::Cluster, false);
        }
        arrived.map_err(|what| (FaultKind::Undefined { what }, first))
    }

    /// Until the phase is over that was on when the lanes came.
    pub(super) fn wait_for_cluster(&mut self, now: &mut Now, group: &mut Group) -> Next {
        let on = |lane: usize| self.met[lane] == now.common.meeting.phase;
        if let Some(trace) = &mut now.common.trace {
            trace.await_cluster(self.met[now.mask.trailing_zeros() as usize & (LANES - 1)]);
        }
        if !lanes_of(now.mask).any(on) {
            return Next::Go(group.pc + 1);
        }
        let (mask, timing) = (now.mask, group.timing.clone());
        self.park(Group { mask, pc: group.pc, state: State::AtCluster, stamp: 0, timing });
        group.mask &= !mask;
        if group.mask == 0 { Next::Elsewhere } else { Next::Go(group.pc + 1) }
    }

    pub fn release_cluster(&mut self) {
        for group in self.groups.iter_mut().filter(|group| group.state == State::AtCluster) {
            group.pc += 1;
            group.state = State::Ready;
        }
    }

    /// Lets go of the lanes at a barrier. Says whether there are any.
    pub fn release(
        &mut self,
        context: &Context,
        number: u32,
        result: impl Fn(Reduction) -> (u32, bool),
    ) -> bool {
        let mut released = false;
        for group in self.groups.iter_mut().filter(|group| group.state == State::AtBarrier(number)) {
            if let Some(Action::Barrier(barrier)) =
                context.program.steps.get(group.pc as usize).map(|step| &step.action)
            {
                let result = result(barrier.reduction);
                lanes_of(group.mask).for_each(|lane| self.reduced[lane] = result);
            }
            group.pc += 1;
            group.state = State::Ready;
            released = true;
        }
        released
    }
}
