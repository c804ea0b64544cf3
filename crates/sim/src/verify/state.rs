//! What may still be under way at a point of the program.
//!
//! An event is an access to a register by an earlier instruction that a later one may have to wait for: a result that
//! is not there yet, or a source that is not read yet. It ends when it is old enough for any successor and, if it is
//! late, its signal was seen. Two paths that meet keep the events of both, each at its worst: the lesser age, the
//! scoreboards that end it on both.
//!
//! Scoreboards are counters: waiting for zero ends every event that the scoreboard speaks for, that is those of the
//! instructions that count on it, and those of earlier instructions that return, or read, before one that does.

use super::{Dependence, Relation};
use sass::model::{Model, Part, Port, Unit};
use sass::{Control, Inst, Kind, M, Op, PT, Role, SCOREBOARDS};
use std::cmp::Ordering;
use std::ops::Range;

/// The bit of `gsb0`, beside the six scoreboards.
const GSB: u8 = 1 << 6;

const BOARDS: usize = SCOREBOARDS as usize;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Event {
    register: u16,
    /// The instruction.
    index: u32,
    role: Role,
    port: Port,
    /// Cycles since it was issued.
    age: u8,
    /// Scoreboards that end the event when they are waited for; set two cycles ago or more, one cycle, now.
    by: u8,
    by_soon: u8,
    by_later: u8,
    /// Groups of `gsb0` that were closed after the event's own.
    groups: u8,
    /// By scoreboard: how many instructions that answer in order count on it, from the event's own on.
    in_order: [u8; BOARDS],
    /// The signal was seen, or none is needed.
    done: bool,
    /// The guard of the instruction, while its predicate keeps its value.
    guard: Option<Guarded>,
}

/// A guard: predicate register in the numbering of all files, and its sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Guarded {
    register: u16,
    not: bool,
}

impl Event {
    fn key(&self) -> (u16, u32, bool) {
        (self.register, self.index, self.role == Role::Def)
    }

    /// The worse of two events that differ in how they were reached.
    fn worse(&self, other: &Event) -> Event {
        let by = self.by & other.by;
        let both_soon = (self.by | self.by_soon) & (other.by | other.by_soon);
        let all = |event: &Event| event.by | event.by_soon | event.by_later;
        Event {
            age: self.age.min(other.age),
            by,
            by_soon: both_soon & !by,
            by_later: all(self) & all(other) & !both_soon,
            groups: self.groups.min(other.groups),
            in_order: std::array::from_fn(|n| self.in_order[n].min(other.in_order[n])),
            done: self.done && other.done,
            guard: self.guard.filter(|_| self.guard == other.guard),
            ..*self
        }
    }

    fn advance(&mut self, cycles: u8) {
        self.age = self.age.saturating_add(cycles);
        self.by |= self.by_soon;
        (self.by_soon, self.by_later) = (self.by_later, 0);
        if cycles > 1 {
            self.by |= self.by_soon;
            self.by_soon = 0;
        }
    }

    fn ended(&self, model: &Model, horizon: u16) -> bool {
        let settled = if self.role == Role::Def { model.settled(self.port) } else { Model::CONSUMED };
        self.done && u16::from(self.age) >= settled.max(horizon)
    }
}

/// The events at a point, sorted by register, instruction and role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// Events are kept for so many cycles even where the model would forget them.
    horizon: u16,
    events: Vec<Event>,
}

impl State {
    pub fn new(horizon: u16) -> State {
        State { horizon, events: Vec::new() }
    }

    /// Takes in another path; says whether anything became worse.
    pub fn merge(&mut self, other: &State) -> bool {
        let mut merged = Vec::with_capacity(self.events.len().max(other.events.len()));
        let (mut mine, mut theirs) = (&self.events[..], &other.events[..]);
        while let (Some((a, rest)), Some((b, others))) = (mine.split_first(), theirs.split_first()) {
            match a.key().cmp(&b.key()) {
                Ordering::Less => {
                    merged.push(*a);
                    mine = rest;
                }
                Ordering::Greater => {
                    merged.push(*b);
                    theirs = others;
                }
                Ordering::Equal => {
                    merged.push(a.worse(b));
                    (mine, theirs) = (rest, others);
                }
            }
        }
        merged.extend_from_slice(mine);
        merged.extend_from_slice(theirs);
        let changed = merged != self.events;
        self.events = merged;
        changed
    }

    /// Issues an instruction: what it depends on goes to `found`, then its own accesses are under way.
    pub fn step(&mut self, model: &Model, issue: &Issue, found: &mut impl FnMut(Dependence)) {
        self.wait(issue);
        let horizon = self.horizon;
        self.events.retain(|event| !event.ended(model, horizon));
        self.depend(issue, found);
        self.overwrite(issue);
        self.count(issue);
        self.add(issue);
        self.events.iter_mut().for_each(|event| event.advance(issue.stall));
    }

    /// Code that is not known comes next, after the instruction at `index`: by the calling convention it may read any
    /// general or uniform register, as an address say, and write any.
    pub fn leave(&self, index: usize, found: &mut impl FnMut(Dependence)) {
        for event in &self.events {
            let part = match event.register {
                0..256 => Part::R,
                256..512 => Part::U,
                // No predicate is handed over; one that is late would still overwrite another's.
                _ if event.done => continue,
                _ => Part::P,
            };
            let (relation, unit) = match event.role {
                Role::Def => (Relation::Raw, Unit::Memory),
                Role::Use => (Relation::War, Unit::Alu),
            };
            found(Dependence {
                relation,
                register: event.register,
                first: event.index as usize,
                from: event.port,
                second: index,
                to: Port { unit, part },
                read_too: false,
                cycles: event.age.into(),
                signalled: event.done,
            });
        }
    }

    /// What the instruction waits for before it issues.
    fn wait(&mut self, issue: &Issue) {
        if let Some(left) = issue.groups_left {
            let closed = |event: &&mut Event| event.by & GSB != 0 && i64::from(event.groups) >= left;
            self.events.iter_mut().filter(closed).for_each(|event| event.done = true);
        }
        if let Some((scoreboard, left)) = issue.wait_counted {
            // While the event's instruction is out, so are all that answer after it.
            let back = |event: &&mut Event| event.in_order.get(scoreboard).is_some_and(|&count| count > left);
            self.events.iter_mut().filter(back).for_each(|event| event.done = true);
        }
        if issue.waits | issue.waits_late == 0 {
            return;
        }
        // DEPBAR looks a cycle later than a wait mask: ptxas puts it right after the instruction that counts.
        let ends =
            |event: &Event| event.by & issue.waits != 0 || (event.by | event.by_soon) & issue.waits_late != 0;
        self.events.iter_mut().filter(|event| ends(event)).for_each(|event| event.done = true);
    }

    /// The dependences of the instruction on what is under way.
    fn depend(&self, issue: &Issue, found: &mut impl FnMut(Dependence)) {
        for access in &issue.accesses {
            let from = self.events.partition_point(|event| event.register < access.register);
            let events = self.events[from..].iter().take_while(|event| event.register == access.register);
            for event in events.filter(|event| !issue.excludes(event)) {
                let relation = match (event.role, access.role) {
                    (Role::Def, Role::Use) => Relation::Raw,
                    (Role::Def, Role::Def) => Relation::Waw,
                    (Role::Use, Role::Def) => Relation::War,
                    (Role::Use, Role::Use) => continue,
                };
                found(Dependence {
                    relation,
                    register: access.register,
                    first: event.index as usize,
                    from: event.port,
                    second: issue.index,
                    to: access.port,
                    read_too: relation == Relation::Waw && issue.reads(access.register),
                    cycles: event.age.into(),
                    signalled: event.done,
                });
            }
        }
    }

    /// What a certain write replaces is of no concern any more. Predicates that change no longer tell guards apart.
    fn overwrite(&mut self, issue: &Issue) {
        for access in issue.accesses.iter().filter(|access| access.role == Role::Def) {
            if issue.guard.is_none() {
                let start = self.events.partition_point(|event| event.register < access.register);
                let end = self.events.partition_point(|event| event.register <= access.register);
                self.events.drain(start..end);
            }
            if is_predicate(access.register) {
                for event in &mut self.events {
                    event.guard = event.guard.filter(|guard| guard.register != access.register);
                }
            }
        }
    }

    /// Scoreboards that the instruction counts on speak for earlier ones of the same queue too. An instruction whose
    /// guard is false passes through the queue as well: ptxas leaves the barrier to the last of a run of stores, each
    /// with a guard of its own.
    fn count(&mut self, issue: &Issue) {
        let (write, read) = (issue.write, issue.read);
        let counts = write | read != 0;
        for event in self.events.iter_mut().filter(|_| counts) {
            event.by_later |= match event.role {
                Role::Def if answers_in_order(event.port.unit, issue.unit) => write,
                Role::Use if event.port.unit.reads_before(issue.unit) => write | read,
                _ => 0,
            };
            if let Some(count) = issue.counts_on.and_then(|n| event.in_order.get_mut(n))
                && answers_in_order(event.port.unit, issue.unit)
            {
                *count = count.saturating_add(1);
            }
        }
        if issue.closes_group {
            for event in self.events.iter_mut().filter(|event| event.port.unit == Unit::Gmma) {
                event.groups = if event.by & GSB != 0 { event.groups.saturating_add(1) } else { 0 };
                event.by |= GSB;
            }
        }
        if issue.drains_reads {
            let read =
                |event: &&mut Event| event.role == Role::Use && event.port.unit.reads_before(issue.unit);
            self.events.iter_mut().filter(read).for_each(|event| event.done = true);
        }
    }

    fn add(&mut self, issue: &Issue) {
        for access in &issue.accesses {
            let (late, by_later) = match access.role {
                Role::Def if issue.answers_when_read && is_predicate(access.register) => {
                    (access.port.is_late_result(), issue.write | issue.read)
                }
                Role::Def => (access.port.is_late_result(), issue.write),
                Role::Use => (access.port.is_late_source(), issue.write | issue.read),
            };
            let mut in_order = [0; BOARDS];
            if let Some(count) = issue.counts_on.and_then(|n| in_order.get_mut(n)) {
                *count = u8::from(answers_in_order(issue.unit, issue.unit));
            }
            let event = Event {
                register: access.register,
                index: issue.index as u32,
                role: access.role,
                port: access.port,
                age: 0,
                by: if issue.closes_group { GSB } else { 0 },
                by_soon: 0,
                by_later: if late { by_later } else { 0 },
                groups: 0,
                in_order,
                done: !late,
                guard: issue.guard,
            };
            let place = self.events.binary_search_by_key(&event.key(), Event::key);
            match place {
                // A register that an instruction reads twice, or that comes round in a loop.
                Ok(place) => {
                    let again = self.events[place];
                    let port = if again.port.is_late_source() { again.port } else { event.port };
                    self.events[place] = Event { port, ..again.worse(&event) };
                }
                Err(place) => self.events.insert(place, event),
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct RegisterAccess {
    register: u16,
    role: Role,
    port: Port,
}

/// An instruction as the state sees it.
#[derive(Clone, Debug)]
pub struct Issue {
    index: usize,
    /// Cycles until the next one may issue.
    stall: u8,
    /// Scoreboards that must be zero before it issues; those that it looks at a cycle later.
    waits: u8,
    waits_late: u8,
    /// It waits until this scoreboard has so many left, and that is not none.
    wait_counted: Option<(usize, u8)>,
    /// It waits until so many groups of `gsb0` are left.
    groups_left: Option<i64>,
    unit: Unit,
    accesses: Vec<RegisterAccess>,
    /// Registers of coordinates, of which rows of textures name the first one.
    coordinates: Range<u16>,
    guard: Option<Guarded>,
    /// Bits of the scoreboards that it counts on.
    write: u8,
    read: u8,
    /// The write scoreboard's number.
    counts_on: Option<usize>,
    closes_group: bool,
    drains_reads: bool,
    /// See [`answers_when_read`].
    answers_when_read: bool,
}

impl Issue {
    pub fn of(model: &Model, index: usize, inst: &Inst) -> Issue {
        let mut accesses = Vec::new();
        for touch in model.touches(inst) {
            let of =
                |register| RegisterAccess { register: register as u16, role: touch.role, port: touch.port };
            accesses.extend(touch.registers().map(of));
        }
        let bit = |scoreboard: Option<u8>| scoreboard.map_or(0, |scoreboard| 1 << scoreboard);
        let guard = (inst.guard.predicate != PT).then(|| {
            let base = if inst.form().guard == Kind::V { 520 } else { 512 };
            Guarded { register: base + u16::from(inst.guard.predicate), not: inst.guard.not }
        });
        let unit = model.unit(inst);
        let number = |position: usize| inst.operands().nth(position).map_or(0, |(_, operand)| operand.value);
        // An instruction that waits by itself does so only where it runs.
        let runs = inst.guard.predicate == PT && !inst.guard.not;
        let waits_late = match inst.op() {
            _ if !runs => 0,
            // DEPBAR.LE SBn, count, {set}: n down to count, the set down to zero.
            Op::DEPBAR if inst.has(M::LE) => {
                let counted = if number(1) == 0 { 1 << (number(0) & 7) } else { 0 };
                counted | number(2) as u8 & 0x3f
            }
            Op::DEPBAR => number(0) as u8 & 0x3f,
            _ => 0,
        };
        let wait_counted = (runs && inst.op() == Op::DEPBAR && inst.has(M::LE) && number(1) > 0)
            .then(|| ((number(0) & 7) as usize, number(1).min(255) as u8));
        let drains_groups = runs && inst.op() == Op::WARPGROUP && inst.has(M::DEPBAR);
        Issue {
            index,
            stall: cycles(inst.control),
            waits: inst.control.wait,
            waits_late,
            wait_counted,
            groups_left: drains_groups.then(|| number(1)),
            unit,
            accesses,
            coordinates: coordinates(inst),
            guard,
            write: bit(inst.control.write),
            read: bit(inst.control.read),
            counts_on: inst.control.write.map(usize::from),
            closes_group: unit == Unit::Gmma && closes_group(inst),
            drains_reads: inst.op() == Op::BAR
                && model.isa().target().barrier_drains_reads
                && (inst.has(M::SYNC) || inst.has(M::RED)),
            answers_when_read: answers_when_read(inst),
        }
    }

    fn reads(&self, register: u16) -> bool {
        let named = |access: &RegisterAccess| access.register == register && access.role == Role::Use;
        self.accesses.iter().any(named) || self.coordinates.contains(&register)
    }

    /// The event's instruction runs only where this one does not.
    fn excludes(&self, event: &Event) -> bool {
        match (self.guard, event.guard) {
            (Some(mine), Some(other)) => mine.register == other.register && mine.not != other.not,
            _ => false,
        }
    }
}

/// While the first instruction is out, so is a later one. Beyond what a scheduler may build on, texture fetches: ptxas
/// waits for fewer than all of them (`DEPBAR.LE SB5, 0x1`), and leaves the barrier of one to the next.
fn answers_in_order(first: Unit, later: Unit) -> bool {
    first.returns_before(later) || (first, later) == (Unit::Texture, Unit::Texture)
}

/// Is its predicate there when its sources have been read? That of ATOM says whether the address is one of global memory,
/// where the atomic goes on by itself. ptxas branches by it after a wait for the read scoreboard, whether a result is
/// still to come (with a write scoreboard of its own) or not.
pub fn answers_when_read(inst: &Inst) -> bool {
    inst.op() == Op::ATOM
}

/// Of the numbering of all files.
fn is_predicate(register: u16) -> bool {
    (512..528).contains(&register)
}

/// Cycles until the next instruction may issue. No stall and no hold means: when the pipes are empty. ptxas -O0 has it
/// on MMAs, whose results the next instruction reads; no scoreboard is waited for.
pub fn cycles(control: Control) -> u8 {
    match control.stall {
        0 if control.yields => u8::MAX,
        stall => stall.max(1),
    }
}

/// An HGMMA that names `gsb0`.
fn closes_group(inst: &Inst) -> bool {
    let named = |index: usize| inst.name(index) == M::gsb0;
    (0..inst.operands().count()).any(named)
}

/// The registers that a texture instruction takes a place from, by the name of its shape.
fn coordinates(inst: &Inst) -> Range<u16> {
    if !matches!(inst.op(), Op::TEX | Op::TLD | Op::TLD4 | Op::TXD) {
        return 0..0;
    }
    let name = inst.operands().position(|(_, operand)| operand.kind == Kind::Name);
    let count = match name.map(|index| inst.name(index)) {
        Some(M::_2D | M::ARRAY_1D) => 2,
        Some(M::_3D | M::CUBE | M::ARRAY_2D) => 3,
        Some(M::ARRAY_CUBE) => 4,
        _ => 1,
    };
    let used = inst.operands().find(|(slot, operand)| slot.role == Role::Use && operand.kind == Kind::R);
    let first = used.map_or(0, |(_, operand)| operand.value as u16);
    // The last one reads as zero.
    first..(first + count).min(255)
}
