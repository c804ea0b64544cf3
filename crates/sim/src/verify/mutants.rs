//! Planted errors: a stall lowered, a wait bit, a barrier or a wait for MMAs dropped, where a dependence on a path
//! of the code certainly needs it; an operand kept in the operand cache, where it certainly must not be; a uniform
//! register written on one side of a branch, while threads on the other still read it.
//!
//! What is certain is decided here by replaying one path, without the verifier's states and without its control flow.
//! From a first instruction the code is followed as it would run, by a choice at each conditional branch, into calls
//! and back, until a second one touches the same register. The pair is a real dependence of that path; what it needs
//! is what [`sass::model`] says of the two ports. Then
//! * a stall between is lowered so that the path takes one cycle less than needed; or
//! * the scoreboard that speaks for the first is dropped, or a wait for it, and the path has no other wait for it, nor
//!   for any scoreboard of a later instruction of the same family, whose answer might come in order; or
//! * the wait for MMAs in flight (WARPGROUP.DEPBAR) goes, and the path has no other.
//!
//! An operand is kept (`.reuse`) that no instruction which follows reads in its lane until the warp may yield; or until
//! one of the same class reads the same register there, but it was overwritten on the way.
//!
//! The verifier must report exactly this pair.
//!
//! An instruction on one side of a branch becomes another one of the code, which writes a uniform register (`sides.rs`).
//! The verifier must report that it writes over what others read.

mod sides;

use super::{Report, Short, cycles};
use sass::model::{Model, Need, Signal, Touch};
use sass::{Class, Guard, Inst, Kind, M, Op, PT, Role, WORD_BYTES};

/// A planted error: what was done, and the two instructions that it comes between.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mutant {
    /// The index of the earlier instruction.
    pub first: usize,
    /// The index of the later one.
    pub second: usize,
    /// The instruction that changes.
    pub at: usize,
    /// What was done.
    pub what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
/// What was done to an instruction.
pub enum What {
    /// Its stall count becomes this.
    Stall(u8),
    /// It waits no more for this scoreboard.
    DropWait(u8),
    /// It sets no scoreboard for its results.
    DropWriteBarrier,
    /// It sets no scoreboard for its sources.
    DropReadBarrier,
    /// WARPGROUP.DEPBAR becomes a wait for more groups than there can be.
    DropGroupWait,
    /// The operand of this lane is kept, though its register is written before it is read again.
    KeepStale(u8),
    /// It is kept, though no instruction reads it before the cache empties.
    KeepUnread(u8),
    /// The instruction becomes a copy of this one.
    Overwrite(u32),
}

impl What {
    /// What each kind is called.
    pub const NAMES: [&str; 8] = [
        "stalls lowered",
        "wait bits dropped",
        "write barriers dropped",
        "read barriers dropped",
        "waits for MMAs dropped",
        "operands kept too long",
        "operands kept in vain",
        "uniform registers of others written",
    ];

    /// The index of its name.
    pub fn kind(self) -> usize {
        match self {
            What::Stall(_) => 0,
            What::DropWait(_) => 1,
            What::DropWriteBarrier => 2,
            What::DropReadBarrier => 3,
            What::DropGroupWait => 4,
            What::KeepStale(_) => 5,
            What::KeepUnread(_) => 6,
            What::Overwrite(_) => 7,
        }
    }
}

impl Mutant {
    /// Do the reports name it?
    pub fn is_reported(&self, reports: &[Report]) -> bool {
        let address = |index: usize| index as u64 * WORD_BYTES;
        let mut firsts = reports.iter().filter(|report| report.first.address == address(self.first));
        match self.what {
            // Of several that read the register, one is named.
            What::Overwrite(_) => firsts.any(|report| report.short == Short::Divergent),
            _ => firsts.any(|report| report.second.address == address(self.second)),
        }
    }

    /// Plants the error.
    pub fn apply(&self, insts: &mut [Inst]) {
        if let What::Overwrite(from) = self.what {
            insts[self.at] = insts[from as usize].clone();
        }
        let Some(inst) = insts.get_mut(self.at) else { return };
        match self.what {
            What::Stall(stall) => inst.control.stall = stall,
            What::DropWait(scoreboard) => inst.control.wait &= !(1 << scoreboard),
            What::DropWriteBarrier => inst.control.write = None,
            What::DropReadBarrier => inst.control.read = None,
            What::DropGroupWait => inst.guard.not = true,
            What::KeepStale(lane) | What::KeepUnread(lane) => inst.control.reuse |= 1 << lane,
            What::Overwrite(_) => {}
        }
    }
}

/// How far a path is followed.
const LENGTH: usize = 48;

/// Every error that can be planted with certainty, by one path from each instruction; `seed` chooses the paths.
pub fn mutants(model: &Model, insts: &[Inst], seed: u64) -> Vec<Mutant> {
    let mut found = sides::overwrites(model, insts);
    for (first, inst) in insts.iter().enumerate() {
        found.extend(keeps(model, insts, first));
        // What is guarded may not have happened.
        if inst.guard != Guard::ALWAYS {
            continue;
        }
        let path = Path::from(insts, first, seed.wrapping_add(first as u64));
        // Either scoreboard tells of the predicate of an atomic.
        let is_certain = |touch: &Touch| {
            !(touch.role == Role::Def && touch.file == Kind::P && super::state::answers_when_read(inst))
        };
        for touch in model.touches(inst).filter(is_certain) {
            for register in touch.registers() {
                if let Some(pair) = path.dependent(model, &touch, register) {
                    pair.plant(&path, &mut found);
                }
            }
        }
    }
    // The registers of a pair or of a vector mostly give the same.
    found.sort();
    found.dedup();
    found
}

/// The register that an instruction reads in a lane.
fn register(inst: &Inst, lane: u8) -> Option<usize> {
    let (_, operand) = inst.operands().find(|(slot, _)| slot.lane == Some(lane))?;
    usize::try_from(operand.value).ok().filter(|r| operand.kind == Kind::R && *r != usize::from(sass::RZ))
}

/// The operands of an instruction that must not be kept, each because of what follows in straight code.
fn keeps(model: &Model, insts: &[Inst], first: usize) -> Vec<Mutant> {
    let keeper = &insts[first];
    // One word, of the units whose operands ptxas keeps most.
    if keeper.control.yields || !matches!(keeper.form().class, Class::Alu | Class::Fma) {
        return Vec::new();
    }
    let lanes = (0..3).filter(|lane| keeper.control.reuse >> lane & 1 == 0);
    lanes.filter_map(|lane| keep(model, insts, first, lane)).collect()
}

fn keep(model: &Model, insts: &[Inst], first: usize, lane: u8) -> Option<Mutant> {
    let register_of = |inst: &Inst| register(inst, lane);
    let kept = register_of(&insts[first])?;
    let reads = model.touches(&insts[first]).filter(|t| t.role == Role::Use && t.file == Kind::R);
    if !reads.into_iter().any(|t| t.registers() == (kept..kept + 1)) {
        return None;
    }
    let mut is_written = false;
    for (second, inst) in insts.iter().enumerate().skip(first).take(LENGTH) {
        let goes_on = successor(inst, second, true, &mut Vec::new()) == Some(second + 1);
        let is_plain = goes_on && !matches!(inst.form().class, Class::Control | Class::Wide);
        let is_read = second > first && inst.operands().any(|(slot, _)| slot.lane == Some(lane));
        let again = is_read && register_of(inst) == Some(kept);
        if again && is_written && inst.form().class == insts[first].form().class {
            return Some(Mutant { what: What::KeepStale(lane), first, second, at: first });
        } else if is_read && register_of(inst).is_some() || !is_plain {
            return None;
        } else if inst.control.yields {
            return Some(Mutant { what: What::KeepUnread(lane), first, second, at: first });
        }
        is_written |= writes(model, inst, kept);
    }
    None
}

fn writes(model: &Model, inst: &Inst, register: usize) -> bool {
    model.touches(inst).any(|touch| touch.role == Role::Def && touch.registers().contains(&register))
}

/// Instructions in the order of a run, none twice.
struct Path<'a> {
    insts: &'a [Inst],
    steps: Vec<usize>,
}

impl<'a> Path<'a> {
    fn from(insts: &'a [Inst], first: usize, mut seed: u64) -> Path<'a> {
        let mut path = Path { insts, steps: Vec::new() };
        let (mut next, mut calls) = (Some(first), Vec::new());
        while let Some(at) = next.filter(|at| path.steps.len() < LENGTH && !path.steps.contains(at)) {
            let Some(inst) = insts.get(at) else { break };
            path.steps.push(at);
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            next = successor(inst, at, seed >> 63 == 1, &mut calls);
        }
        path
    }

    fn inst(&self, step: usize) -> &'a Inst {
        &self.insts[self.steps[step]]
    }

    fn stall(&self, step: usize) -> u16 {
        u16::from(cycles(self.inst(step).control))
    }

    /// The next step that depends on the first by this register.
    fn dependent(&self, model: &Model, first: &Touch, register: usize) -> Option<Pair> {
        for step in 1..self.steps.len() {
            let touches =
                || model.touches(self.inst(step)).filter(|touch| touch.registers().contains(&register));
            let read = touches().find(|touch| touch.role == Role::Use);
            let written = touches().find(|touch| touch.role == Role::Def);
            let need = match (first.role, read, written) {
                // What an instruction reads it has before it writes.
                (Role::Def, Some(read), _) => model.raw(first.port, read.port),
                (Role::Def, None, Some(written)) => model.waw(first.port, written.port),
                (Role::Use, _, Some(written)) => model.war(first.port, written.port),
                _ => continue,
            };
            return Some(Pair { step, need });
        }
        None
    }
}

/// The instruction that a branch names.
fn target(inst: &Inst, at: usize) -> Option<usize> {
    let (_, operand) = inst.operands().find(|(slot, _)| slot.kind == Kind::Relative)?;
    usize::try_from(at as i64 + 1 + operand.value / WORD_BYTES as i64).ok()
}

/// Where a run goes on after an instruction; `taken` decides a conditional branch.
fn successor(inst: &Inst, at: usize, taken: bool, calls: &mut Vec<usize>) -> Option<usize> {
    let guarded = inst.guard.predicate != PT;
    match inst.op() {
        _ if inst.guard.not && !guarded => Some(at + 1),
        Op::BRA if guarded && !taken => Some(at + 1),
        Op::BRA => target(inst, at),
        Op::EXIT if guarded => Some(at + 1),
        Op::CALL if !guarded => {
            calls.push(at + 1);
            target(inst, at)
        }
        Op::RET if !guarded => calls.pop(),
        Op::BRX | Op::BRXU | Op::JMP | Op::JMX | Op::JMXU => None,
        Op::BSYNC | Op::BREAK | Op::CALL | Op::RET | Op::EXIT | Op::BPT => None,
        _ => Some(at + 1),
    }
}

/// A dependence of the step at `step` on the first, and what it needs.
struct Pair {
    step: usize,
    need: Need,
}

impl Pair {
    fn plant(&self, path: &Path, found: &mut Vec<Mutant>) {
        match self.need.signal {
            _ if path.inst(0).form().class == Class::Gmma => self.group_wait(path, found),
            Some(signal) => self.signal(path, signal, found),
            None => self.stalls(path, found),
        }
    }

    fn mutant(&self, path: &Path, what: What, at: usize) -> Mutant {
        Mutant { what, first: path.steps[0], second: path.steps[self.step], at: path.steps[at] }
    }

    fn stalls(&self, path: &Path, found: &mut Vec<Mutant>) {
        let distance: u16 = (0..self.step).map(|step| path.stall(step)).sum();
        for at in 0..self.step {
            let (stall, rest) = (path.stall(at), distance - path.stall(at));
            // The longest stall that is too short: the hardest to find.
            let lowered = (stall - 1).min((self.need.cycles - 1).saturating_sub(rest));
            if lowered > 0 {
                found.push(self.mutant(path, What::Stall(lowered as u8), at));
            }
        }
    }

    fn signal(&self, path: &Path, signal: Signal, found: &mut Vec<Mutant>) {
        let control = path.inst(0).control;
        let own: Vec<u8> = match signal {
            Signal::Write => control.write.into_iter().collect(),
            Signal::Read => control.write.into_iter().chain(control.read).collect(),
        };
        let others = self.scoreboards_in_order(path);
        let waits = |step: usize, scoreboard: u8| path.inst(step).control.wait >> scoreboard & 1 == 1;
        let between = || 1..=self.step;
        let drained = between().any(|step| matches!(path.inst(step).op(), Op::DEPBAR | Op::BAR));
        if drained || between().any(|step| others.iter().any(|&scoreboard| waits(step, scoreboard))) {
            return;
        }
        let [scoreboard] = own[..] else { return };
        let waiting: Vec<usize> = between().filter(|&step| waits(step, scoreboard)).collect();
        if let [step] = waiting[..] {
            found.push(self.mutant(path, What::DropWait(scoreboard), step));
        }
        let barrier = if control.write.is_some() { What::DropWriteBarrier } else { What::DropReadBarrier };
        if !waiting.is_empty() {
            found.push(self.mutant(path, barrier, 0));
        }
    }

    /// Scoreboards that steps between count on, of instructions whose signal might speak for the first.
    fn scoreboards_in_order(&self, path: &Path) -> Vec<u8> {
        let family = |inst: &Inst| match inst.form().class {
            Class::Store => Class::Load,
            class => class,
        };
        let first = family(path.inst(0));
        let kin = (1..self.step).map(|step| path.inst(step)).filter(|inst| family(inst) == first);
        kin.flat_map(|inst| [inst.control.write, inst.control.read]).flatten().collect()
    }

    fn group_wait(&self, path: &Path, found: &mut Vec<Mutant>) {
        let is_wait = |step: &usize| {
            let inst = path.inst(*step);
            inst.op() == Op::WARPGROUP && inst.has(M::DEPBAR)
        };
        let waits: Vec<usize> = (1..self.step).filter(is_wait).collect();
        if let ([step], Some(_)) = (&waits[..], self.need.signal) {
            found.push(self.mutant(path, What::DropGroupWait, *step));
        }
    }
}
