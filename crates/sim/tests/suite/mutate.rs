//! Planted errors: a stall lowered, a wait bit or a barrier dropped, where a dependence certainly needs it.
//!
//! What is certain is decided here, without the verifier and without the machine model: within straight-line code, by
//! the registers that `sass` lists, and by floors that no measurement undercuts (a plain result is never read within
//! three cycles, a guard never within eleven). Where another scoreboard wait lies between, the case is left out, since
//! an answer in order might cover the dependence.

use sass::{Access, Class, Inst, Kind, PT, Role};

/// A planted error: what was done, and the two instructions that it parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mutation {
    pub what: What,
    pub first: usize,
    pub second: usize,
    /// The instruction whose control code changes.
    pub at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Stall(u8),
    DropWait(u8),
    DropWriteBarrier,
    DropReadBarrier,
}

impl Mutation {
    pub fn apply(&self, insts: &mut [Inst]) {
        let control = &mut insts[self.at].control;
        match self.what {
            What::Stall(stall) => control.stall = stall,
            What::DropWait(scoreboard) => control.wait &= !(1 << scoreboard),
            What::DropWriteBarrier => control.write = None,
            What::DropReadBarrier => control.read = None,
        }
    }
}

/// Every error that can be planted with certainty.
pub fn mutations(insts: &[Inst]) -> Vec<Mutation> {
    let mut found = Vec::new();
    for (first, inst) in insts.iter().enumerate() {
        if inst.guard.predicate == PT && !inst.guard.not {
            for access in inst.registers().filter(|access| access.role == Role::Def) {
                from_result(insts, first, access, &mut found);
            }
        }
        if inst.form().class == Class::Store && inst.control.read.is_some() && inst.control.write.is_none() {
            for access in inst.registers().filter(|access| access.file == Kind::R) {
                from_source(insts, first, access, &mut found);
            }
        }
    }
    found
}

/// Code that runs straight through from `first`: the instructions behind it up to a branch or a branch's target.
fn straight(insts: &[Inst], first: usize) -> impl Iterator<Item = usize> + '_ {
    (first + 1..insts.len()).take_while(move |&index| !is_jump(&insts[index - 1]) && !is_target(insts, index))
}

fn is_jump(inst: &Inst) -> bool {
    inst.form().class == Class::Control
        && !["NOP", "DEPBAR", "BSSY", "YIELD", "WARPGROUP"].contains(&inst.op().name())
}

fn is_target(insts: &[Inst], index: usize) -> bool {
    let goes_to = |(at, inst): (usize, &Inst)| {
        inst.operands().any(|(slot, operand)| {
            slot.kind == Kind::Relative && (at as i64 + 1) * 16 + operand.value == index as i64 * 16
        })
    };
    insts.iter().enumerate().any(goes_to)
}

fn overlap(a: &Access, b: &Access) -> bool {
    let end = |access: &Access| u16::from(access.first) + access.count;
    a.file == b.file && u16::from(a.first) < end(b) && u16::from(b.first) < end(a)
}

/// Later readers of a result.
fn from_result(insts: &[Inst], first: usize, result: Access, found: &mut Vec<Mutation>) {
    let class = insts[first].form().class;
    for second in straight(insts, first).take(40) {
        let inst = &insts[second];
        let reads = |access: &Access| access.role == Role::Use && overlap(access, &result);
        if inst.registers().any(|access| reads(&access)) {
            let guards = reads(&Access {
                file: inst.form().guard,
                first: inst.guard.predicate,
                count: 1,
                role: Role::Use,
            });
            if class.scoreboards().write {
                late_result(insts, first, second, found);
            } else if let Some(floor) = floor(class, result.file, inst, guards) {
                stalls(insts, first, second, floor, found);
            }
            return;
        }
        if inst.registers().any(|access| access.role == Role::Def && overlap(&access, &result)) {
            return;
        }
    }
}

/// The distance below which no result of this class was ever read.
fn floor(class: Class, file: Kind, reader: &Inst, guards: bool) -> Option<u32> {
    match (class, file) {
        (Class::Alu, Kind::P) if guards => Some(12),
        (Class::Alu | Class::Fma, Kind::R) if reader.form().class != Class::Wide => Some(4),
        (Class::Half, Kind::R) => Some(4),
        (Class::Double, Kind::R) => Some(6),
        (Class::Uniform, Kind::U) if !["UMOV", "ULDC"].contains(&reader.op().name()) => Some(4),
        _ => None,
    }
}

fn stalls(insts: &[Inst], first: usize, second: usize, floor: u32, found: &mut Vec<Mutation>) {
    // ULDC and UMOV write early; VOTE and its kin are no plain results.
    if ["UMOV", "ULDC", "CS2UR", "VOTE", "VOTEU", "ELECT", "R2UR"].contains(&insts[first].op().name()) {
        return;
    }
    let stall = |index: usize| u32::from(insts[index].control.stall.max(1));
    let distance: u32 = (first..second).map(stall).sum();
    for at in first..second {
        let rest = distance - stall(at);
        if stall(at) > 1 && rest + 1 < floor {
            // The longest stall that is too short: the hardest to find.
            let lowered = (floor - 1 - rest).min(stall(at) - 1);
            found.push(Mutation { what: What::Stall(lowered as u8), first, second, at });
        }
    }
}

/// Whether an instruction strictly between counts on a scoreboard, or waits for one: then others may cover the pair.
fn quiet(insts: &[Inst], first: usize, second: usize) -> bool {
    insts[first + 1..second].iter().all(|inst| {
        let control = inst.control;
        control.write.is_none() && control.read.is_none() && control.wait == 0 && inst.op().name() != "DEPBAR"
    })
}

fn late_result(insts: &[Inst], first: usize, second: usize, found: &mut Vec<Mutation>) {
    let Some(scoreboard) = insts[first].control.write else { return };
    if !quiet(insts, first, second) || insts[second].control.wait >> scoreboard & 1 == 0 {
        return;
    }
    found.push(Mutation { what: What::DropWait(scoreboard), first, second, at: second });
    found.push(Mutation { what: What::DropWriteBarrier, first, second, at: first });
}

/// Later writers of a source that is read late.
fn from_source(insts: &[Inst], first: usize, source: Access, found: &mut Vec<Mutation>) {
    let Some(scoreboard) = insts[first].control.read else { return };
    for second in straight(insts, first).take(40) {
        let inst = &insts[second];
        if inst.registers().any(|access| access.role == Role::Def && overlap(&access, &source)) {
            let queued = matches!(inst.form().class, Class::Load | Class::Store);
            if !queued && quiet(insts, first, second) && inst.control.wait >> scoreboard & 1 == 1 {
                found.push(Mutation { what: What::DropWait(scoreboard), first, second, at: second });
                found.push(Mutation { what: What::DropReadBarrier, first, second, at: first });
            }
            return;
        }
    }
}
