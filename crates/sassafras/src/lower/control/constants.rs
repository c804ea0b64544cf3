//! PTX registers that hold one constant: sparse constant propagation over registers with a single definition.
//!
//! Front ends put the masks, lanes and clamps of collectives into registers:
//!
//! ```text
//! mov.u32 %r1, -1; …; vote.sync.any.pred %p1, %p2, %r1;   ==>   …; vote.sync.any.pred %p1, %p2, -1;
//! ```
//!
//! A collective of all threads needs no gathering of a mask that is only known at run time, so this has to be known when
//! it is lowered. A register that an unguarded `mov` of a constant writes, and nothing else, has that constant wherever
//! it is read, unless it may be read before. Linear in the body; bodies without collectives are not looked at.

use super::cfg;
use super::param_words::ParamWords;
use crate::lower::build;
use ptx::Type;
use ptx::ast::{Body, Inst, Module, Operand, Reg, Stmt};
use ptx::table::Opcode;
use rustc_hash::FxHashMap;

/// The constants of registers, as the bits of a word or two.
#[derive(Default)]
pub struct Constants(FxHashMap<Reg, u64>);

impl Constants {
    /// `initial` are the registers whose value when the body begins may be read.
    pub fn new(module: &Module, body: &Body, params: &ParamWords, initial: &[Reg]) -> Constants {
        let insts = || {
            let insts = body.stmts.iter().filter_map(|s| if let Stmt::Inst(i) = s { Some(i) } else { None });
            insts.map(|inst| (&module.opcodes[inst.opcode.0 as usize], inst))
        };
        if !insts().any(|(opcode, _)| is_collective(opcode)) {
            return Constants::default();
        }
        let candidates = insts().filter_map(|(opcode, inst)| move_of_constant(body, opcode, inst));
        let mut constants: FxHashMap<Reg, (u64, u32)> =
            candidates.map(|(reg, bits)| (reg, (bits, 0))).collect();
        for (opcode, inst) in insts() {
            for reg in cfg::effects(body, params, opcode, inst).0 {
                constants.entry(reg).and_modify(|(_, writes)| *writes += 1);
            }
        }
        constants.retain(|reg, (_, writes)| *writes == 1 && !initial.contains(reg));
        Constants(constants.into_iter().map(|(reg, (bits, _))| (reg, bits)).collect())
    }

    /// The bits of an operand of type `ty` that is a constant, or a register that holds one.
    pub fn bits(&self, operand: &Operand, ty: Type) -> Option<u64> {
        match operand {
            Operand::Reg(reg) => self.0.get(reg).copied(),
            _ => build::constant(operand, ty),
        }
    }
}

fn is_collective(opcode: &Opcode) -> bool {
    matches!(opcode.mnemonic, "shfl" | "vote" | "match" | "redux" | "elect" | "bar.warp")
}

/// `mov %r, CONSTANT`
fn move_of_constant(body: &Body, opcode: &Opcode, inst: &Inst) -> Option<(Reg, u64)> {
    let (Operand::Reg(reg), constant) = (match (opcode.mnemonic, body.list(inst.operands)) {
        ("mov", [to, from]) if inst.guard.is_none() => (to, from),
        _ => return None,
    }) else {
        return None;
    };
    let ty = opcode.types().next().filter(|ty| ty.bits() == 32)?;
    build::constant(constant, ty).map(|bits| (*reg, bits & 0xffff_ffff))
}
