//! Pending accesses across segments: forward dataflow to a fixpoint, over the segments of straight-line code.
//!
//! A segment leaves [`Event`]s pending: accesses to registers that a later instruction may still have to wait for. They
//! flow over all edges, loops included; at a join each event is as young as on any incoming edge and has to be waited
//! for on the union of its scoreboards. An instruction that depends on them gets the waits, and the one ahead of it the
//! cycles, that are missing. Control codes only become stricter, so the worklist runs empty.

use super::{Accesses, waits_for_all, waits_for_groups, yields};
use super::{
    LONGEST_STALL, Step, Timed, falls_through, is_arrival, nop_stalls, waits_for_tensor_loads,
    wgmma_registers,
};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::model::{Model, Port, VISIBLE};
use sass::{Control, Guard, Role};
use std::collections::BTreeSet;
use std::ops::Range;

/// A register that every instruction accesses: any that follows waits.
pub const ANY: u16 = u16::MAX;
/// One that a wait for loads of tensor memory accesses.
pub const TENSOR_LOADS: u16 = u16::MAX - 1;

/// The scoreboards of sources.
const SOURCES: u8 = 1 << super::SOURCE_SCOREBOARDS.start | 1 << (super::SOURCE_SCOREBOARDS.end - 1);
/// Instructions in which sources that were read late in an earlier segment are hardly read: later than that, what has
/// counted on their scoreboard since is done as well.
const SOON: usize = 32;

/// An access that may still be pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    pub register: u16,
    pub role: Role,
    pub port: Port,
    /// Cycles since the issue, and until no access has to wait any more, scoreboards aside.
    pub age: u16,
    pub settles: u16,
    /// The scoreboards that have still to be waited for.
    pub by: u8,
}

impl Event {
    /// An access to one of the two registers that don't exist waits for this scoreboard.
    pub fn awaited(register: u16, by: u8, port: Port, age: u16) -> Event {
        Event { register, role: Role::Def, port, age, settles: VISIBLE, by }
    }

    fn key(&self) -> (u16, bool, Port) {
        (self.register, self.role == Role::Def, self.port)
    }

    fn is_over(&self) -> bool {
        self.by == 0 && self.age >= self.settles
    }
}

/// Events in the order of their keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pending(Vec<Event>);

impl Pending {
    pub fn new(events: impl Iterator<Item = Event>) -> Pending {
        let mut pending = Pending(events.filter(|e| !e.is_over()).collect());
        pending.age(0);
        pending.0.sort_by_key(Event::key);
        pending.0.dedup_by(|other, first| {
            let same = other.key() == first.key();
            if same {
                *first = joined(first, other);
            }
            same
        });
        pending
    }

    fn join(&mut self, other: &Pending) {
        *self = Pending::new(self.0.iter().chain(&other.0).copied());
    }

    /// Ages saturate where they stop to matter; so loops reach a fixpoint.
    fn age(&mut self, cycles: u16) {
        for event in &mut self.0 {
            let oldest = event.settles.max(VISIBLE);
            event.age = event.age.saturating_add(cycles).min(oldest);
        }
    }

    fn of(&self, register: u16) -> &[Event] {
        let from = self.0.partition_point(|e| e.register < register);
        let count = self.0[from..].partition_point(|e| e.register == register);
        &self.0[from..from + count]
    }
}

fn joined(a: &Event, b: &Event) -> Event {
    Event { age: a.age.min(b.age), by: a.by | b.by, ..*a }
}

/// A straight-line segment: its steps, and what it leaves pending by itself.
pub struct Segment {
    pub steps: Range<usize>,
    pub pending_out: Pending,
}

/// Gives each instruction the waits and cycles that events from other segments ask for.
pub fn solve(
    steps: &[Step],
    accesses: &Accesses,
    segments: Vec<Segment>,
    drains: &[bool],
    model: &Model,
    all: &mut [Timed],
) {
    let mut flow = Dataflow::new((steps, accesses), segments, drains, model);
    let mut worklist: BTreeSet<usize> = (0..flow.segments.len()).collect();
    while let Some(segment) = worklist.pop_first() {
        let end = flow.transfer(segment, all);
        if end != flow.ends[segment] {
            flow.ends[segment] = end;
            worklist.extend(&flow.succs[segment]);
        }
    }
}

struct Dataflow<'a> {
    steps: &'a [Step],
    accesses: &'a Accesses,
    model: &'a Model,
    /// The steps after which nothing may be pending.
    drains: &'a [bool],
    segments: Vec<Segment>,
    succs: Vec<Vec<usize>>,
    preds: Vec<Vec<usize>>,
    /// What is pending at the end of each segment.
    ends: Vec<Pending>,
}

impl<'a> Dataflow<'a> {
    fn new(
        (steps, accesses): (&'a [Step], &'a Accesses),
        segments: Vec<Segment>,
        drains: &'a [bool],
        model: &'a Model,
    ) -> Dataflow<'a> {
        let count = segments.len();
        let at = |step: usize| segments.partition_point(|s| s.steps.end <= step);
        let (mut succs, mut preds) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for (i, segment) in segments.iter().enumerate() {
            let last = &steps[segment.steps.end - 1];
            let fall_through = Some(i + 1).filter(|n| *n < count && falls_through(&last.inst));
            for to in last.targets.iter().map(|to| at(*to)).chain(fall_through) {
                if !preds[to].contains(&i) {
                    succs[i].push(to);
                    preds[to].push(i);
                }
            }
        }
        let ends = vec![Pending::default(); count];
        Dataflow { steps, accesses, model, drains, segments, succs, preds, ends }
    }

    /// The transfer function of a segment: from what is pending at its begin to what is at its end.
    fn transfer(&mut self, segment: usize, all: &mut [Timed]) -> Pending {
        let steps = self.segments[segment].steps.clone();
        let mut events = Pending::default();
        // Scoreboards are waited for on every incoming edge alike: they come first, then the cycles of each edge.
        for pred in &self.preds[segment] {
            self.respect(steps.start, &mut self.ends[*pred].clone(), all);
        }
        for i in 0..self.preds[segment].len() {
            let pred = self.preds[segment][i];
            let missing = self.respect(steps.start, &mut self.ends[pred].clone(), all);
            if missing > 0 {
                self.delay_end(pred, steps.start, missing, all);
            }
            events.join(&self.ends[pred]);
        }
        let overwritten = self.overwritten(&steps, &events);
        for i in steps.clone() {
            if events.0.is_empty() {
                break;
            }
            all[i].control.wait |= self.due(i, &events, &overwritten, &all[i].control);
            let mut missing = self.respect(i, &mut events, all);
            if i == steps.start {
                missing = 0; // Each predecessor has waited for that.
            } else if missing > 0 {
                lengthen(i - 1, i, missing, all);
            }
            self.issue(i, missing, &mut events, steps.end, all);
        }
        events.join(&self.segments[segment].pending_out);
        events
    }

    /// Of the registers that earlier segments still read: the first step here that overwrites each.
    fn overwritten(&self, steps: &Range<usize>, events: &Pending) -> FxHashMap<u16, usize> {
        let mut first = FxHashMap::default();
        let is_read = |e: &&Event| e.role == Role::Use && e.by != 0;
        let read: FxHashSet<u16> = events.0.iter().filter(is_read).map(|e| e.register).collect();
        if read.is_empty() {
            return first;
        }
        for step in steps.clone() {
            for touch in self.accesses.of(step).iter().filter(|t| t.role == Role::Def) {
                let registers = touch.registers().map(|register| register as u16);
                registers.filter(|r| read.contains(r)).for_each(|r| _ = first.entry(r).or_insert(step));
            }
        }
        first
    }

    /// The scoreboards that an instruction counts on, and that tell of sources read in earlier segments for which another
    /// one soon has to wait: then also for this one's. So this one waits, when they have probably been read.
    ///
    /// ```text
    /// loop: LDSM R24, [R8]         (counts on 4)           loop: LDSM R24, [R8]         (waits for 4, counts on it)
    ///       IADD3 R12, R12, R13    (waits for 4)     ==>         IADD3 R12, R12, R13
    ///       …                                                    …
    ///       LDGSTS [R12], [R4.64]  (counts on 4)                 LDGSTS [R12], [R4.64]  (counts on 4)
    /// ```
    fn due(&self, i: usize, events: &Pending, overwritten: &FxHashMap<u16, usize>, control: &Control) -> u8 {
        let counts = super::bit(control.write) | super::bit(control.read);
        if overwritten.is_empty() || counts == 0 {
            return 0;
        }
        let is_soon = |step: &usize| (i + 1..=i + SOON).contains(step);
        let all_events = &events.0;
        let events = all_events.iter().filter(|e| e.role == Role::Use && e.by & counts != 0);
        let due = events.filter(|e| overwritten.get(&e.register).is_some_and(is_soon));
        // A scoreboard that was set just now is not visible yet: a wait for it would wait for nothing.
        let young = all_events.iter().filter(|e| e.age < VISIBLE).fold(0, |mask, e| mask | e.by);
        due.fold(0, |mask, e| mask | e.by & counts & SOURCES) & !young
    }

    /// Lets so many cycles more pass at the end of a segment, ahead of the first instruction of another.
    fn delay_end(&mut self, segment: usize, first: usize, cycles: u16, all: &mut [Timed]) {
        let Range { start, end } = self.segments[segment].steps;
        let last = end - 1;
        // No NOP runs after a branch; ahead of it, NOPs would not age the branch's own results, but it has none.
        if !branches(&self.steps[last]) {
            lengthen(last, first, cycles, all);
        } else if last > start || !self.steps.iter().any(|step| step.targets.contains(&start)) {
            lengthen(last, last, cycles, all);
        } else {
            // A jump to the branch skips the NOPs ahead of it.
            let own = cycles.min(LONGEST_STALL - u16::from(all[last].control.stall));
            lengthen(last, last, own, all);
            self.segments[segment].pending_out.age(own);
            self.ends[segment].age(cycles);
            for pred in self.preds[segment].clone() {
                if pred != segment && own < cycles {
                    self.delay_end(pred, start, cycles - own, all);
                }
            }
            return;
        }
        self.segments[segment].pending_out.age(cycles);
        self.ends[segment].age(cycles);
    }

    /// Waits for the events that an instruction depends on; returns the cycles that are still missing.
    fn respect(&self, i: usize, events: &mut Pending, all: &mut [Timed]) -> u16 {
        let inst = &self.steps[i].inst;
        let (mut cycles, mut wait) = (0u16, all[i].control.wait);
        let mut respect = |event: &Event, need: u16, signal: bool| {
            cycles = cycles.max(need.saturating_sub(event.age));
            if signal {
                wait |= event.by;
            }
        };
        let of_wgmma = is_arrival(inst).then(|| wgmma_registers(&self.steps[i + 1..], self.model));
        for touch in of_wgmma.as_deref().unwrap_or(self.accesses.of(i)) {
            for register in touch.registers() {
                for event in events.of(register as u16) {
                    let need = match (event.role, touch.role) {
                        (Role::Use, Role::Use) => continue,
                        (Role::Def, Role::Use) => self.model.raw(event.port, touch.port),
                        (Role::Def, Role::Def) => self.model.waw(event.port, touch.port),
                        (Role::Use, Role::Def) => self.model.war(event.port, touch.port),
                    };
                    respect(event, need.cycles, need.signal.is_some());
                }
            }
        }
        let loads = if waits_for_tensor_loads(inst) { events.of(TENSOR_LOADS) } else { &[] };
        for event in events.of(ANY).iter().chain(loads) {
            respect(event, 0, true);
        }
        let everything = waits_for_all(inst) || self.drains[i];
        let results = waits_for_groups(inst);
        for event in events.0.iter().filter(|e| everything && !(results && e.role == Role::Use)) {
            respect(event, if self.drains[i] { event.settles } else { 0 }, true);
        }
        // A scoreboard that was set just now is not visible yet.
        for event in events.0.iter().filter(|e| e.by & wait != 0) {
            cycles = cycles.max(VISIBLE.saturating_sub(event.age));
        }
        all[i].control.wait = wait;
        events.0.iter_mut().for_each(|e| e.by &= !wait);
        cycles
    }

    /// The events after an instruction.
    fn issue(&self, i: usize, missing: u16, events: &mut Pending, end: usize, all: &[Timed]) {
        let inst = &self.steps[i].inst;
        let mut passed = missing + u16::from(all[i].control.stall.max(1));
        // A jump skips the NOPs ahead of its target.
        if i + 1 < end || i + 1 < all.len() && !branches(&self.steps[i]) {
            passed += all[i + 1].nops.iter().map(|s| u16::from(*s)).sum::<u16>();
        }
        if inst.guard == Guard::ALWAYS {
            for touch in self.accesses.of(i).iter().filter(|t| t.role == Role::Def) {
                let written = touch.registers();
                events.0.retain(|e| !written.contains(&usize::from(e.register)));
            }
        }
        events.age(passed);
        events.0.retain(|e| !e.is_over());
    }
}

/// May control go elsewhere than to the next instruction?
fn branches(step: &Step) -> bool {
    !step.targets.is_empty() || !falls_through(&step.inst)
}

/// Adds cycles to the stall of an instruction; what doesn't fit becomes NOPs ahead of another.
fn lengthen(stall: usize, nops_before: usize, cycles: u16, all: &mut [Timed]) {
    let control = &mut all[stall].control;
    let wanted = u16::from(control.stall) + cycles;
    control.stall = wanted.min(LONGEST_STALL) as u8;
    control.yields = yields(control);
    all[nops_before].nops.extend(nop_stalls(wanted.saturating_sub(LONGEST_STALL)));
}
