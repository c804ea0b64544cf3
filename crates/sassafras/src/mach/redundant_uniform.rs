//! Redundant uniform instructions go: local value numbering over registers (Cocke & Schwartz 1970).
//!
//! An instruction that computes what its register already holds is removed. The allocator gives the descriptors of a row
//! of wgmma the same few tuples in turns, and half of their words are the same in all of them:
//!
//! ```text
//! UMOV UR5, 0x40000040                            UMOV UR5, 0x40000040
//! HGMMA.64x32x16.F32 R24, gdesc[UR4], R24         HGMMA.64x32x16.F32 R24, gdesc[UR4], R24
//! UIADD3 UR4, UR8, 0x2, URZ                  =>   UIADD3 UR4, UR8, 0x2, URZ
//! UMOV UR5, 0x40000040                            HGMMA.64x32x16.F32 R24, gdesc[UR4], R24
//! HGMMA.64x32x16.F32 R24, gdesc[UR4], R24
//! ```
//!
//! Afterwards each instruction of the uniform datapath changes its register, as far as that is known within a block.
//! Where threads wait for others, these may write uniform registers: nothing is known from there on. Linear in the code;
//! blocks without such instructions are only searched for them.

use crate::context::target::TargetMachine;
use crate::context::{Context, PassResult};
use crate::mach::inst::MachInst;
use crate::mach::unit::Unit;
use rustc_hash::FxHashMap;
use sass::{Access, Class, Guard, Inst, Kind, M, Op, Operand, Role, SelectError};
use smallvec::SmallVec;

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    for insts in &mut unit.code.blocks {
        if insts.iter().filter(|inst| may_be_redundant(inst)).nth(1).is_none() {
            continue;
        }
        let mut known = Known::default();
        let mut redundant = Vec::with_capacity(insts.len());
        for inst in insts.iter() {
            redundant.push(known.transfer(inst, context.machine)?);
        }
        let mut redundant = redundant.into_iter();
        insts.retain(|_| redundant.next() != Some(true) || !context.fuel.burn());
    }
    Ok(())
}

/// Is it a function of uniform registers and constants?
fn may_be_redundant(inst: &MachInst) -> bool {
    let is_function = || match inst.op {
        Op::ULDC | Op::LDCU => true,
        op => sass::Form::of(op).first().is_some_and(|form| form.class == Class::Uniform),
    };
    let is_uniform =
        |operand: &Operand| !matches!(operand.kind, Kind::R | Kind::P | Kind::V | Kind::B | Kind::ConstR);
    inst.operands.first().is_some_and(|result| result.kind == Kind::U)
        && inst.operands.iter().all(is_uniform)
        && inst.guard == Guard::ALWAYS
        && inst.address.is_none()
        && is_function()
}

/// What a register holds: an operation and its operands, with the numbers of the values in their registers.
#[derive(PartialEq, Eq)]
struct Expression {
    op: Op,
    modifiers: SmallVec<[M; 4]>,
    operands: SmallVec<[Operand; 8]>,
    numbers: SmallVec<[u32; 4]>,
}

/// What is known at a program point.
#[derive(Default)]
struct Known {
    /// The numbers of the values in uniform registers, if they were written since the start of the block.
    numbers: FxHashMap<u8, u32>,
    next: u32,
    /// What is in the registers from this one on.
    contents: FxHashMap<u8, (Expression, u16)>,
}

impl Known {
    /// The transfer function of an instruction. Is it redundant?
    fn transfer(&mut self, inst: &MachInst, machine: &TargetMachine) -> Result<bool, SelectError> {
        if is_wait(inst.op) {
            self.contents.clear();
            return Ok(false);
        }
        if !inst.operands.iter().any(|operand| operand.kind == Kind::U) {
            return Ok(false);
        }
        let selected = Inst::new(machine.isa, inst.op, &inst.modifiers, &inst.operands)?;
        let (read, written): (Vec<Access>, Vec<Access>) =
            selected.registers().filter(|r| r.file == Kind::U).partition(|r| r.role == Role::Use);
        let [result] = written[..] else {
            written.iter().for_each(|access| self.write(access));
            return Ok(false);
        };
        if !may_be_redundant(inst) {
            self.write(&result);
            return Ok(false);
        }
        let read = read.iter().flat_map(registers);
        let expression = Expression {
            op: inst.op,
            modifiers: inst.modifiers.clone(),
            operands: inst.operands[1..].into(),
            numbers: read.map(|register| self.numbers.get(&register).copied().unwrap_or(0)).collect(),
        };
        let holds = |(held, words): &(Expression, u16)| *words == result.count && *held == expression;
        if self.contents.get(&result.first).is_some_and(holds) {
            return Ok(true);
        }
        self.write(&result);
        self.contents.insert(result.first, (expression, result.count));
        Ok(false)
    }

    /// A register gets another value.
    fn write(&mut self, access: &Access) {
        self.next += 1;
        for register in registers(access) {
            self.numbers.insert(register, self.next);
        }
        let (first, end) = (u16::from(access.first), u16::from(access.first) + access.count);
        self.contents
            .retain(|held, (_, words)| u16::from(*held) >= end || u16::from(*held) + *words <= first);
    }
}

fn registers(access: &Access) -> impl Iterator<Item = u8> + use<> {
    let end = u16::from(access.first) + access.count;
    (u16::from(access.first)..end).map(|register| register as u8)
}

/// Do threads wait there while others run other code, which may write uniform registers?
fn is_wait(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        BAR | BREAK | BSSY | BSYNC | CALL | NANOSLEEP | RET | UCGABAR_ARV | UCGABAR_WAIT | WARPSYNC | YIELD
    )
}
