//! Uniform registers that are written on one side of a branch, though threads on the other side read them.
//!
//! What is certain is decided by looking at straight code alone. `BSSY` and a branch under a predicate follow each other,
//! and the predicate is computed, in the code before without a branch, from the index of the thread: some threads go
//! on after the branch, others to its target, and both come to `BSYNC`. Uniform registers that are read from the
//! target on, or after `BSYNC` where no code lies between, must not be written on the way on.

use super::{Mutant, What, target};
use sass::model::{Model, Touch};
use sass::{Class, Guard, Inst, Kind, Op, PT, Role};

/// How far the predicate is followed to the index of the thread.
const DEPTH: usize = 4;

pub fn overwrites(model: &Model, insts: &[Inst]) -> Vec<Mutant> {
    let mut found = Vec::new();
    for enter in (0..insts.len()).filter(|at| insts[*at].op() == Op::BSSY) {
        let branch = enter + 1 + straight(insts, enter + 1).count();
        let parts =
            insts.get(branch).is_some_and(|inst| is_conditional(inst) && differs(model, insts, branch));
        let ahead = insts.get(branch).and_then(|inst| target(inst, branch)).filter(|to| *to > branch);
        let (Some(target), true) = (ahead, parts) else { continue };
        for (reader, register) in reads(model, insts, target) {
            let side = straight(insts, branch + 1).find(|at| is_plain(&insts[*at]));
            let writes = |at: &usize| writes_only(model, &insts[*at], register);
            let writer = (0..insts.len()).find(|at| writes(at) && *at != reader);
            if let (Some(at), Some(from)) = (side, writer) {
                found.push(Mutant { first: at, second: reader, at, what: What::Overwrite(from as u32) });
            }
        }
    }
    found
}

/// The instructions from a place on up to the next that belongs to control.
fn straight(insts: &[Inst], from: usize) -> impl Iterator<Item = usize> + '_ {
    (from..insts.len()).take_while(|at| insts[*at].form().class != Class::Control)
}

fn is_conditional(inst: &Inst) -> bool {
    inst.op() == Op::BRA && inst.guard.predicate != PT && inst.modifiers().next().is_none()
}

fn is_plain(inst: &Inst) -> bool {
    matches!(inst.form().class, Class::Alu | Class::Fma) && inst.guard == Guard::ALWAYS
}

/// Is the predicate of the branch computed from the index of the thread, in the straight code before it?
fn differs(model: &Model, insts: &[Inst], branch: usize) -> bool {
    let mut wanted = 512 + usize::from(insts[branch].guard.predicate);
    let mut at = branch;
    for _ in 0..DEPTH {
        let before =
            (0..at).rev().take_while(|at| insts[*at].form().class != Class::Control || is_entry(&insts[*at]));
        let touched = |at: &usize, role: Role, register: usize| {
            model.touches(&insts[*at]).any(|t| t.role == role && t.registers().contains(&register))
        };
        let Some(definition) = before.into_iter().find(|at| touched(at, Role::Def, wanted)) else {
            return false;
        };
        let inst = &insts[definition];
        if inst.guard.predicate != PT {
            return false;
        }
        if inst.op() == Op::S2R {
            return inst
                .operands()
                .position(|(slot, _)| slot.kind == Kind::Name)
                .is_some_and(|place| inst.name(place).name() == "SR_TID.X");
        }
        // One source, so that nothing can cancel it out; and no comparison that all threads answer alike.
        let sources: Vec<Touch> = model.touches(inst).filter(|t| t.role == Role::Use).collect();
        let [Touch { file: Kind::R, count: 1, .. }] = sources[..] else { return false };
        if !matches!(inst.op(), Op::ISETP | Op::LOP3 | Op::MOV | Op::IADD3 | Op::SHF) {
            return false;
        }
        wanted = sources[0].registers().start;
        at = definition;
    }
    false
}

/// BSSY stands in straight code.
fn is_entry(inst: &Inst) -> bool {
    inst.op() == Op::BSSY
}

/// Uniform registers that threads read which come to the target of the branch: there, or after BSYNC at once.
fn reads(model: &Model, insts: &[Inst], target: usize) -> Vec<(usize, usize)> {
    let after = target + usize::from(insts.get(target).is_some_and(|inst| inst.op() == Op::BSYNC));
    let mut written: Vec<usize> = Vec::new();
    let mut found = Vec::new();
    for at in straight(insts, after) {
        for touch in model.touches(&insts[at]).filter(|touch| matches!(touch.file, Kind::U)) {
            match touch.role {
                Role::Use => {
                    found.extend(touch.registers().filter(|r| !written.contains(r)).map(|r| (at, r)))
                }
                Role::Def => written.extend(touch.registers()),
            }
        }
    }
    found
}

/// Does an instruction write this uniform register, and nothing else?
fn writes_only(model: &Model, inst: &Inst, register: usize) -> bool {
    let mut results = model.touches(inst).filter(|touch| touch.role == Role::Def);
    let first = results.next().is_some_and(|touch| touch.registers().contains(&register));
    first && results.next().is_none() && inst.guard == Guard::ALWAYS
}
