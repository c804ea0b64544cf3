//! What the lanes of a warp do together.

use super::{Group, Next, State, Stop, Warp};
use crate::fault::FaultKind;
use crate::ptx::block::Context;
use crate::ptx::cluster::Memory;
use crate::ptx::program::{Action, LANES, Lanes, Shuffle, Source, Warp as WarpAction, WarpOperation, lanes};

impl Warp {
    /// The lanes of a mask are there, or wait for the others that their member masks name.
    pub(super) fn together(
        &mut self,
        context: &Context,
        memory: &mut Memory,
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
        // `bar.warp.sync` waits for others at any such instruction; every other operation is one that all execute.
        let is_sync = matches!(action.operation, WarpOperation::Sync);
        let mut here: Vec<Group> = vec![Group { mask, state: State::AtSync, ..*group }];
        self.groups.retain(|g| {
            let waits = g.state == State::AtSync && (g.pc == pc || is_sync && is_sync_at(context, g.pc));
            if waits {
                here.push(*g);
            }
            !waits
        });
        let mut wanted = [0u32; LANES];
        for g in &here {
            let members = members_at(context, g.pc).unwrap_or(members);
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
            // Of all that lanes do together only this orders memory.
            if let (Some(races), WarpOperation::Sync) = (&mut memory.races, action.operation) {
                let threads = self.threads(context, races, set);
                races.meet(&threads);
            }
            left &= !set;
        }
        for g in here {
            if g.mask & going != 0 {
                self.park(Group { mask: g.mask & going, pc: g.pc + 1, state: State::Ready, ..g });
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

fn warp_action_at<'p>(context: &Context<'p>, pc: u32) -> Option<&'p WarpAction> {
    match &context.program.steps.get(pc as usize)?.action {
        Action::Warp(action) => Some(action),
        _ => None,
    }
}

fn is_sync_at(context: &Context, pc: u32) -> bool {
    warp_action_at(context, pc).is_some_and(|action| matches!(action.operation, WarpOperation::Sync))
}

/// The member mask of the operation at a place.
fn members_at<'p>(context: &Context<'p>, pc: u32) -> Option<&'p Source> {
    warp_action_at(context, pc)?.members.as_ref()
}

pub(crate) fn operate(operation: WarpOperation, [a, b, c]: &[Lanes; 3], set: u32) -> [Lanes; 2] {
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

/// A lane outside of the set has no value; a thread that reads it gets its own back, as hardware does not promise more.
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
