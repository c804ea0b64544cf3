//! What is under way where control goes from one stretch of straight code to another.
//!
//! A stretch leaves [`Event`]s behind: accesses to registers that a later instruction may still have to wait for. They
//! flow over all edges, loops included, until nothing changes; where ways meet, each event is as young as on any of
//! them and has to be waited for on all scoreboards of any of them. An instruction that they concern gets the waits, and
//! the one before it the cycles, that are missing. Codes only become stricter on the way, so it ends.

use super::{LONGEST, Step, Timed, announced, asks_for_tensor_loads, falls_through, fillers, is_arrival};
use super::{touches, waits_for_all, waits_for_groups, yields};
use sass::model::{Model, Port, VISIBLE};
use sass::{Guard, Role};
use std::collections::BTreeSet;
use std::ops::Range;

/// A register that every instruction touches: whatever comes next waits.
pub const ANY: u16 = u16::MAX;
/// One that is touched by what asks for loads of tensor memory.
pub const TENSOR_LOADS: u16 = u16::MAX - 1;

/// An access that may still be under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    pub register: u16,
    pub role: Role,
    pub port: Port,
    /// Cycles since the issue, and until nobody has to wait any more, scoreboards aside.
    pub age: u16,
    pub settles: u16,
    /// The scoreboards that have still to be waited for.
    pub by: u8,
}

impl Event {
    /// Whatever touches a register that there is not waits for this scoreboard.
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
        pending.grow_older(0);
        pending.0.sort_by_key(Event::key);
        pending.0.dedup_by(|next, first| {
            let same = next.key() == first.key();
            if same {
                *first = worse(first, next);
            }
            same
        });
        pending
    }

    /// Takes in another way; says whether anything became worse.
    fn join(&mut self, other: &Pending) -> bool {
        let joined = Pending::new(self.0.iter().chain(&other.0).copied());
        let changed = joined != *self;
        *self = joined;
        changed
    }

    /// Nobody asks how old an event is beyond what it takes to settle; so it comes to an end around loops.
    fn grow_older(&mut self, cycles: u16) {
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

fn worse(a: &Event, b: &Event) -> Event {
    Event { age: a.age.min(b.age), by: a.by | b.by, ..*a }
}

/// A stretch of straight code: its steps, and what it leaves behind by itself.
pub struct Stretch {
    pub steps: Range<usize>,
    pub leaves: Pending,
}

/// Gives each instruction the waits and cycles that events from other stretches ask for.
pub fn settle(steps: &[Step], stretches: Vec<Stretch>, drains: &[bool], model: &Model, all: &mut [Timed]) {
    let mut flow = Flow::new(steps, stretches, drains, model);
    let mut open: BTreeSet<usize> = (0..flow.stretches.len()).collect();
    while let Some(stretch) = open.pop_first() {
        let left = flow.pass(stretch, all);
        if left != flow.ends[stretch] {
            flow.ends[stretch] = left;
            open.extend(&flow.next[stretch]);
        }
    }
}

struct Flow<'a> {
    steps: &'a [Step],
    model: &'a Model,
    /// Behind which steps nothing may be under way.
    drains: &'a [bool],
    stretches: Vec<Stretch>,
    next: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
    /// What is under way at the end of each stretch.
    ends: Vec<Pending>,
}

impl<'a> Flow<'a> {
    fn new(steps: &'a [Step], stretches: Vec<Stretch>, drains: &'a [bool], model: &'a Model) -> Flow<'a> {
        let count = stretches.len();
        let at = |step: usize| stretches.partition_point(|s| s.steps.end <= step);
        let (mut next, mut before) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for (i, stretch) in stretches.iter().enumerate() {
            let last = &steps[stretch.steps.end - 1];
            let behind = Some(i + 1).filter(|n| *n < count && falls_through(&last.inst));
            for to in last.target.map(at).into_iter().chain(behind) {
                if !next[i].contains(&to) {
                    next[i].push(to);
                    before[to].push(i);
                }
            }
        }
        Flow { steps, model, drains, stretches, next, before, ends: vec![Pending::default(); count] }
    }

    /// Follows what comes into a stretch, and returns what goes out of it.
    fn pass(&mut self, stretch: usize, all: &mut [Timed]) -> Pending {
        let steps = self.stretches[stretch].steps.clone();
        let mut events = Pending::default();
        // Whatever one way has to wait for all wait for: that comes first, and then the cycles of each way.
        for before in &self.before[stretch] {
            self.obey(steps.start, &mut self.ends[*before].clone(), all);
        }
        for i in 0..self.before[stretch].len() {
            let before = self.before[stretch][i];
            let lacks = self.obey(steps.start, &mut self.ends[before].clone(), all);
            if lacks > 0 {
                self.spend_at_end(before, steps.start, lacks, all);
            }
            events.join(&self.ends[before]);
        }
        for i in steps.clone() {
            if events.0.is_empty() {
                break;
            }
            let mut lacks = self.obey(i, &mut events, all);
            if i == steps.start {
                lacks = 0; // Each way has seen to that by itself.
            } else if lacks > 0 {
                lengthen(i - 1, i, lacks, all);
            }
            self.issue(i, lacks, &mut events, steps.end, all);
        }
        events.join(&self.stretches[stretch].leaves);
        events
    }

    /// Lets so many cycles more pass at the end of a stretch, before the first instruction of another.
    fn spend_at_end(&mut self, stretch: usize, first: usize, cycles: u16, all: &mut [Timed]) {
        let Range { start, end } = self.stretches[stretch].steps;
        let last = end - 1;
        // Behind a branch nothing can idle; before it, its own results, which it has none of, would grow no older.
        if !branches(&self.steps[last]) {
            lengthen(last, first, cycles, all);
        } else if last > start || !self.steps.iter().any(|step| step.target == Some(start)) {
            lengthen(last, last, cycles, all);
        } else {
            // Who jumps to the branch passes over what idles before it.
            let own = cycles.min(LONGEST - u16::from(all[last].control.stall));
            lengthen(last, last, own, all);
            self.stretches[stretch].leaves.grow_older(own);
            self.ends[stretch].grow_older(cycles);
            for before in self.before[stretch].clone() {
                if before != stretch && own < cycles {
                    self.spend_at_end(before, start, cycles - own, all);
                }
            }
            return;
        }
        self.stretches[stretch].leaves.grow_older(cycles);
        self.ends[stretch].grow_older(cycles);
    }

    /// Waits for the events that concern an instruction; returns the cycles that are still missing.
    fn obey(&self, i: usize, events: &mut Pending, all: &mut [Timed]) -> u16 {
        let inst = &self.steps[i].inst;
        let (mut cycles, mut wait) = (0u16, all[i].control.wait);
        let mut obey = |event: &Event, need: u16, signal: bool| {
            cycles = cycles.max(need.saturating_sub(event.age));
            if signal {
                wait |= event.by;
            }
        };
        let concerned = match is_arrival(inst) {
            true => announced(&self.steps[i + 1..], self.model),
            false => touches(inst, self.model).into_vec(),
        };
        for touch in &concerned {
            for register in touch.registers() {
                for event in events.of(register as u16) {
                    let need = match (event.role, touch.role) {
                        (Role::Use, Role::Use) => continue,
                        (Role::Def, Role::Use) => self.model.raw(event.port, touch.port),
                        (Role::Def, Role::Def) => self.model.waw(event.port, touch.port),
                        (Role::Use, Role::Def) => self.model.war(event.port, touch.port),
                    };
                    obey(event, need.cycles, need.signal.is_some());
                }
            }
        }
        let loads = if asks_for_tensor_loads(inst) { events.of(TENSOR_LOADS) } else { &[] };
        for event in events.of(ANY).iter().chain(loads) {
            obey(event, 0, true);
        }
        let everything = waits_for_all(inst) || self.drains[i];
        let results = waits_for_groups(inst);
        for event in events.0.iter().filter(|e| everything && !(results && e.role == Role::Use)) {
            obey(event, if self.drains[i] { event.settles } else { 0 }, true);
        }
        // A scoreboard that was set just now doesn't hold anyone back yet.
        for event in events.0.iter().filter(|e| e.by & wait != 0) {
            cycles = cycles.max(VISIBLE.saturating_sub(event.age));
        }
        all[i].control.wait = wait;
        events.0.iter_mut().for_each(|e| e.by &= !wait);
        cycles
    }

    /// The events after an instruction.
    fn issue(&self, i: usize, lacked: u16, events: &mut Pending, end: usize, all: &[Timed]) {
        let inst = &self.steps[i].inst;
        let mut passed = lacked + u16::from(all[i].control.stall.max(1));
        // Who jumps passes over what idles before the place that is jumped to.
        if i + 1 < end || i + 1 < all.len() && !branches(&self.steps[i]) {
            passed += all[i + 1].nops.iter().map(|s| u16::from(*s)).sum::<u16>();
        }
        if inst.guard == Guard::ALWAYS {
            for touch in touches(inst, self.model).iter().filter(|t| t.role == Role::Def) {
                let written = touch.registers();
                events.0.retain(|e| !written.contains(&usize::from(e.register)));
            }
        }
        events.grow_older(passed);
        events.0.retain(|e| !e.is_over());
    }
}

/// May control go elsewhere than to the next instruction?
fn branches(step: &Step) -> bool {
    step.target.is_some() || !falls_through(&step.inst)
}

/// Adds cycles to the stall of an instruction; what doesn't fit is idling before another.
fn lengthen(stall: usize, idle: usize, cycles: u16, all: &mut [Timed]) {
    let control = &mut all[stall].control;
    let wanted = u16::from(control.stall) + cycles;
    control.stall = wanted.min(LONGEST) as u8;
    control.yields = yields(control);
    all[idle].nops.extend(fillers(wanted.saturating_sub(LONGEST)));
}
