//! `%r1 + 4` as an operand: an integer register plus a constant.
//!
//! ptxas adds the constant in the width of the register before anything else is done with the operand. Once a body is
//! read, every such sum gets a register and an `add` of its own before the instruction that names it, so whoever reads
//! a [`Body`] never meets one: no reader of operands can leave the constant out.
//!
//! ```text
//! st.global.u64 [%rd1], %rd2+8;      add.s64 $sum64_0, %rd2, 8;
//!                                    st.global.u64 [%rd1], $sum64_0;
//! ```

use super::*;
use crate::types::{Class, Type};

/// A width of registers: the type and the name of those that hold sums, and the instruction that adds.
struct Width {
    ty: Type,
    name: &'static str,
    add: &'static str,
}

/// Registers of 8 bits have no `add`: the lower half of a longer one is right.
const WIDTHS: [Width; 3] = [
    Width { ty: Type::B16, name: "$sum16_", add: "add.s16" },
    Width { ty: Type::B32, name: "$sum32_", add: "add.s32" },
    Width { ty: Type::B64, name: "$sum64_", add: "add.s64" },
];

fn width_of(ty: Type) -> usize {
    match ty.bits() {
        ..=16 => 0,
        17..=32 => 1,
        _ => 2,
    }
}

impl Parser<'_> {
    /// What follows a register and `+`. ptxas crashes on registers of other types; what it makes of a vector (the
    /// first element changes) is no meaning that the manual gives.
    pub(super) fn register_sum(&mut self, reg: Reg) -> Parse<Operand> {
        let offset = self.integer_constant()? as i64;
        let RegDecl { ty, vector, .. } = *self.body.reg_decl(reg).0;
        let is_integer = (ty.is_int() || ty.class() == Class::Bits) && ty.bits() <= 64 && vector <= 1;
        if !is_integer {
            let name = self.reg_name(reg);
            self.error(
                self.tok.span(),
                format!("Illegal offset to '{name}': only an integer register takes one"),
            );
            return Ok(Operand::Reg(reg));
        }
        self.function.sums[width_of(ty)] += 1;
        let first = self.body.operands.len() as u32;
        self.body.operands.extend([Operand::Reg(reg), Operand::Offset(offset)]);
        Ok(Operand::Sum(Range { first, len: 2 }))
    }

    /// The register and the constant of a sum.
    pub(crate) fn sum_of_register(&self, operand: &Operand) -> Option<(Reg, i64)> {
        let Operand::Sum(range) = operand else { return None };
        let [Operand::Reg(reg), Operand::Offset(offset)] = self.body.list(*range) else { return None };
        Some((*reg, *offset))
    }

    /// Adds before the instructions whose operands are sums.
    pub(super) fn expand_sums(&mut self) -> Parse<()> {
        let counts = std::mem::take(&mut self.function.sums);
        if counts == [0; 3] || self.check_only {
            return Ok(());
        }
        let mut next = [Reg(0); 3];
        let mut adds = [OpcodeId(0); 3];
        let mut stmts = Vec::with_capacity(self.body.stmts.len());
        for (width, at) in WIDTHS.iter().zip(0..).filter(|(_, at)| counts[*at] > 0) {
            let name = self.names.intern(width.name);
            let declared = self.body.regs.len() as u32;
            next[at] = self.add_registers(name, width.ty, 1, Some(counts[at]));
            adds[at] = self.new_opcode(width.add.to_string(), width.add.len(), 0)?;
            stmts.push(Stmt::Regs(Range { first: declared, len: 1 }));
        }
        for stmt in std::mem::take(&mut self.body.stmts) {
            if let Stmt::Inst(inst) = &stmt {
                for at in inst.operands.first..inst.operands.first + inst.operands.len {
                    let Some((reg, offset)) = self.sum_of_register(&self.body.operands[at as usize]) else {
                        continue;
                    };
                    let width = width_of(self.body.reg_decl(reg).0.ty);
                    let sum = next[width];
                    next[width] = Reg(sum.0 + 1);
                    stmts.push(Stmt::Inst(self.add_of(sum, reg, offset, adds[width], inst.span)));
                    self.body.operands[at as usize] = Operand::Reg(sum);
                }
            }
            stmts.push(stmt);
        }
        self.body.stmts = stmts;
        Ok(())
    }

    fn add_of(&mut self, sum: Reg, reg: Reg, offset: i64, opcode: OpcodeId, span: Span) -> Inst {
        let value = match self.body.reg_decl(sum).0.ty.bits() {
            16 => i64::from(offset as i16),
            32 => i64::from(offset as i32),
            _ => offset,
        };
        let first = self.body.operands.len() as u32;
        let constant = Operand::Int { value: value as u64, unsigned: false };
        self.body.operands.extend([Operand::Reg(sum), Operand::Reg(reg), constant]);
        Inst { opcode, guard: None, operands: Range { first, len: 3 }, span }
    }
}
