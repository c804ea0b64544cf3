//! Pipe balancing: moves and sums that would wait for the ALU pipe go to the FMA pipe.
//!
//! ```text
//! LOP3.LUT R4, R2, R3, RZ, 0xc0, !PT        LOP3.LUT R4, R2, R3, RZ, 0xc0, !PT
//! MOV R5, R6                           =>   IMAD.MOV.U32 R5, RZ, RZ, R6
//! ```
//!
//! The ALU pipe issues every other cycle, the FMA pipe every cycle. An ALU instruction right after another one becomes a
//! multiplication by zero or one that computes the same, if there is one; so does ptxas. With that a warp alone doesn't
//! wait. Other warps want the pipes, too: while a block keeps the ALU pipe busy for longer than the FMA pipe, and for about
//! as long as its instructions take to issue, more of them move. Results cross from pipe to pipe a cycle later, so that no
//! more move than that. Afterwards every instruction computes what it did before. Two walks over the function.

use crate::context::target::TargetMachine;
use crate::context::{Context, Fuel, PassResult};
use crate::mach::inst::MachInst;
use crate::mach::unit::Unit;
use sass::{Class, Kind, M, Op, Operand, operands};
use smallvec::{SmallVec, smallvec};

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    for insts in &mut unit.code.blocks {
        move_neighbours(insts, context.machine, &mut context.fuel);
        let mut load = Load { issue: insts.len() as u32, ..Load::default() };
        insts.iter().for_each(|inst| load.add(inst.op));
        for inst in insts {
            if !load.is_alu_bound(context.tuning.alu_share) {
                break;
            }
            load.remove(inst.op);
            if is_alu(inst.op) && inst.address.is_none() {
                replace(inst, context.machine, &mut context.fuel);
            }
            load.add(inst.op);
        }
    }
    Ok(())
}

/// Moves an ALU instruction after another one.
fn move_neighbours(insts: &mut [MachInst], machine: &TargetMachine, fuel: &mut Fuel) {
    let mut busy = false;
    for inst in insts {
        if busy && inst.address.is_none() {
            replace(inst, machine, fuel);
        }
        busy = is_alu(inst.op);
    }
}

/// Cycles that a block's instructions keep the pipes of a sub-core busy.
#[derive(Default)]
struct Load {
    /// One instruction in a cycle.
    issue: u32,
    alu: u32,
    /// In the half of the FMA pipe that multiplies integers, and in any. On an H200 VIADD takes 2 cycles, and beside IMAD
    /// both take 4: it is in that half, too (docs/profile.md, pipes).
    heavy: u32,
    either: u32,
}

impl Load {
    fn pipe(&mut self, op: Op) -> Option<(&mut u32, u32)> {
        let class = sass::Form::of(op).first().map(|form| form.class);
        match (op, class) {
            _ if is_alu(op) => Some((&mut self.alu, 2)),
            (_, Some(Class::Wide)) => Some((&mut self.heavy, 4)),
            (Op::IMAD | Op::VIADD, _) => Some((&mut self.heavy, 2)),
            (_, Some(Class::Fma)) => Some((&mut self.either, 2)),
            _ => None,
        }
    }

    fn add(&mut self, op: Op) {
        if let Some((cycles, count)) = self.pipe(op) {
            *cycles += count;
        }
    }

    fn remove(&mut self, op: Op) {
        if let Some((cycles, count)) = self.pipe(op) {
            *cycles -= count;
        }
    }

    /// Does the ALU pipe stay busy for longer than the other one with an instruction less of its own, and for so many
    /// percent of the cycles of issue?
    fn is_alu_bound(&self, share: u32) -> bool {
        let fma = self.heavy.max((self.heavy + self.either).div_ceil(2));
        self.alu >= fma + 4 && 100 * self.alu > share * self.issue
    }
}

/// Does it run on the ALU pipe?
fn is_alu(op: Op) -> bool {
    let elsewhere = matches!(op, Op::VIADD | Op::R2UR | Op::VOTE | Op::VOTEU | Op::ELECT | Op::BMOV);
    !elsewhere && sass::Form::of(op).first().is_some_and(|form| form.class == Class::Alu)
}

/// An instruction of another pipe with the same result.
struct Equivalent {
    op: Op,
    modifiers: SmallVec<[M; 4]>,
    operands: SmallVec<[Operand; 8]>,
}

fn replace(inst: &mut MachInst, machine: &TargetMachine, fuel: &mut Fuel) {
    let equivalents = equivalents(inst.op, &inst.modifiers, &inst.operands);
    let legal = |e: &Equivalent| sass::legal(machine.isa, e.op, &e.modifiers, &e.operands);
    if let Some(equivalent) = equivalents.into_iter().find(legal).filter(|_| fuel.burn()) {
        (inst.op, inst.modifiers, inst.operands) = (equivalent.op, equivalent.modifiers, equivalent.operands);
    }
}

/// Equivalents on other pipes, the best first; not every machine has all of them.
fn equivalents(op: Op, modifiers: &[M], operands: &[Operand]) -> SmallVec<[Equivalent; 2]> {
    let zero = operands::rz();
    let equivalent = |op: Op, modifiers: &[M], operands: &[Operand]| Equivalent {
        op,
        modifiers: modifiers.into(),
        operands: operands.into(),
    };
    match (op, modifiers, operands) {
        (Op::MOV, [], &[to, from]) if is_plain(from) || is_immediate(from) => {
            smallvec![equivalent(Op::IMAD, &[M::U32], &[to, zero, zero, from])]
        }
        (Op::IADD3, [], &[to, a, b, c]) if c == zero && is_plain_register(a) => {
            let mut all = SmallVec::new();
            if is_plain(b) || is_immediate(b) {
                all.push(equivalent(Op::VIADD, &[], &[to, a, b]));
            }
            if is_plain_register(b) || is_negated_register(b) {
                all.push(equivalent(Op::IMAD, &[], &[to, a, operands::imm(1), b]));
            }
            all
        }
        (Op::IADD3, [], &[to, a, b, c]) if c == zero && is_negated_register(a) && is_plain_register(b) => {
            smallvec![equivalent(Op::IMAD, &[], &[to, b, operands::imm(1), a])]
        }
        (Op::SHF, [M::L, M::U32], &[to, a, n, c])
            if c == zero && is_plain_register(a) && is_immediate(n) && (0..32).contains(&n.value) =>
        {
            let factor = operands::imm(i64::from(1i32 << n.value));
            smallvec![equivalent(Op::IMAD, &[M::U32], &[to, a, factor, zero])]
        }
        (Op::LEA, [], &[to, a, b, n])
            if is_plain_register(a) && is_plain(b) && is_immediate(n) && (0..32).contains(&n.value) =>
        {
            let factor = operands::imm(i64::from(1i32 << n.value));
            smallvec![equivalent(Op::IMAD, &[], &[to, a, factor, b])]
        }
        (Op::IADD3, [M::X], &[to, a, b, c, carry, none]) if none == operands::pf() => {
            let mut terms = [a, b, c].into_iter().filter(|t| *t != zero);
            match (terms.next(), terms.next(), terms.next()) {
                (Some(term), None, None) if is_plain_register(term) => {
                    smallvec![equivalent(Op::IMAD, &[M::X], &[to, zero, zero, term, carry])]
                }
                (Some(a), Some(b), None) if is_plain_register(a) && is_plain_register(b) => {
                    smallvec![equivalent(Op::IMAD, &[M::X], &[to, a, operands::imm(1), b, carry])]
                }
                _ => smallvec![],
            }
        }
        _ => smallvec![],
    }
}

/// A register with nothing done to it.
fn is_plain(operand: Operand) -> bool {
    let is_uniform = operand.kind == Kind::U && operand == operands::ur(operand.value as u8);
    is_uniform || is_plain_register(operand)
}

/// A general register with nothing done to it.
fn is_plain_register(operand: Operand) -> bool {
    operand.kind == Kind::R && operand == operands::r(operand.value as u8)
}

fn is_negated_register(operand: Operand) -> bool {
    operand.kind == Kind::R && operand == operands::r(operand.value as u8).neg()
}

fn is_immediate(operand: Operand) -> bool {
    operand == operands::imm(operand.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ori::eval::{self, Arg};

    const EDGES: [u32; 8] = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, u32::MAX, 0x1234_5678];

    /// The arguments of an instruction, with these values in R10, R11 and P1.
    fn arguments(operands: &[Operand], words: [u32; 2], carry: bool) -> Vec<Arg> {
        let of = |operand: &Operand| match operand.kind {
            Kind::R if *operand == operands::r(10) => Arg::word(words[0]),
            Kind::R if *operand == operands::r(11) => Arg::word(words[1]),
            Kind::R if *operand == operands::r(11).neg() => Arg::word(words[1]).neg(),
            Kind::R => Arg::word(0),
            Kind::P if *operand == operands::p(1) => Arg::predicate(carry),
            Kind::P => Arg::predicate(*operand == operands::pt()),
            _ => Arg::word(operand.value as u32),
        };
        operands[1..].iter().map(of).collect()
    }

    #[test]
    fn equivalents_compute_the_same() {
        let (to, a, b, zero) = (operands::r(9), operands::r(10), operands::r(11), operands::rz());
        let (carry, none) = (operands::p(1), operands::pf());
        let cases: [(Op, &[M], Vec<Operand>); 15] = [
            (Op::MOV, &[], vec![to, a]),
            (Op::MOV, &[], vec![to, operands::imm(-5)]),
            (Op::IADD3, &[], vec![to, a, b, zero]),
            (Op::IADD3, &[], vec![to, a, operands::imm(0x7fff_fff0), zero]),
            (Op::IADD3, &[], vec![to, a, b.neg(), zero]),
            (Op::IADD3, &[], vec![to, b.neg(), a, zero]),
            (Op::SHF, &[M::L, M::U32], vec![to, a, operands::imm(3), zero]),
            (Op::SHF, &[M::L, M::U32], vec![to, b, operands::imm(31), zero]),
            (Op::LEA, &[], vec![to, a, b, operands::imm(2)]),
            (Op::LEA, &[], vec![to, b, a, operands::imm(31)]),
            (Op::IADD3, &[M::X], vec![to, a, zero, zero, carry, none]),
            (Op::IADD3, &[M::X], vec![to, zero, a, zero, carry, none]),
            (Op::IADD3, &[M::X], vec![to, zero, zero, a, carry, none]),
            (Op::IADD3, &[M::X], vec![to, a, b, zero, carry, none]),
            (Op::IADD3, &[M::X], vec![to, zero, b, a, carry, none]),
        ];
        for (op, modifiers, operands) in cases {
            let equivalents = equivalents(op, modifiers, &operands);
            assert!(!equivalents.is_empty(), "{op:?} {modifiers:?}");
            for (x, y, carry) in EDGES.iter().flat_map(|x| EDGES.map(|y| (*x, y, x ^ y & 4 == 0))) {
                let bits = |op: Op, modifiers: &[M], operands: &[Operand]| {
                    let results = eval::eval(op, modifiers, &arguments(operands, [x, y], carry));
                    results.map(|r| r.bits() as u32)
                };
                let wanted = bits(op, modifiers, &operands);
                assert!(wanted.is_some(), "{op:?} {modifiers:?}");
                for equivalent in &equivalents {
                    let got = bits(equivalent.op, &equivalent.modifiers, &equivalent.operands);
                    assert_eq!(got, wanted, "{:?} for {op:?} of {x:x}, {y:x}, {carry}", equivalent.op);
                }
            }
        }
    }
}
