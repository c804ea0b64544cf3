//! Pipe balancing: moves and sums that would wait for the ALU pipe go to the FMA pipe.
//!
//! ```text
//! LOP3.LUT R4, R2, R3, RZ, 0xc0, !PT        LOP3.LUT R4, R2, R3, RZ, 0xc0, !PT
//! MOV R5, R6                           =>   IMAD.MOV.U32 R5, RZ, RZ, R6
//! ```
//!
//! The ALU pipe issues every other cycle, the FMA pipe every cycle. An ALU instruction right after another one becomes a
//! multiplication by zero or one that computes the same, if there is one; so does ptxas. Afterwards every instruction
//! computes what it did before. One walk over the function.

use crate::context::target::TargetMachine;
use crate::context::{Context, Fuel, PassResult};
use crate::mach::inst::MachInst;
use crate::mach::unit::Unit;
use sass::{Class, Kind, M, Op, Operand, operands};
use smallvec::{SmallVec, smallvec};

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    for insts in &mut unit.code.blocks {
        let mut busy = false;
        for inst in insts {
            if busy && inst.address.is_none() {
                replace(inst, context.machine, &mut context.fuel);
            }
            busy = is_alu(inst.op);
        }
    }
    Ok(())
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
        (Op::MOV, [], &[to, from]) if is_plain_register(from) || is_immediate(from) => {
            smallvec![equivalent(Op::IMAD, &[M::U32], &[to, zero, zero, from])]
        }
        (Op::IADD3, [], &[to, a, b, c]) if c == zero && is_plain_register(a) => {
            let mut all = SmallVec::new();
            if is_plain_register(b) || is_immediate(b) {
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
        let cases: [(Op, &[M], Vec<Operand>); 13] = [
            (Op::MOV, &[], vec![to, a]),
            (Op::MOV, &[], vec![to, operands::imm(-5)]),
            (Op::IADD3, &[], vec![to, a, b, zero]),
            (Op::IADD3, &[], vec![to, a, operands::imm(0x7fff_fff0), zero]),
            (Op::IADD3, &[], vec![to, a, b.neg(), zero]),
            (Op::IADD3, &[], vec![to, b.neg(), a, zero]),
            (Op::SHF, &[M::L, M::U32], vec![to, a, operands::imm(3), zero]),
            (Op::SHF, &[M::L, M::U32], vec![to, b, operands::imm(31), zero]),
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
