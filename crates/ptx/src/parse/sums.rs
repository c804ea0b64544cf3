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

#[cfg(test)]
mod tests {
    use crate::{Options, parse, print::print};

    fn module(body: &str) -> String {
        let registers =
            ".reg .b16 %h<2>; .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<4>; .reg .pred %p<2>;";
        format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k() {{ {registers} {body} ret; }}"
        )
    }

    fn first_error(body: &str) -> Option<String> {
        let source = module(body);
        parse(&source, &Options::default()).diagnostics.first().map(|d| d.message.clone())
    }

    #[test]
    fn sums_become_adds_of_the_registers_width() {
        let source = module(
            "@%p0 add.u32 %r1, %r2+5, %r2+-7; st.global.b64 [%d0+8], %d1+4294967296; cvt.u32.u16 %r3, %h0+65535;",
        );
        let parsed = parse(&source, &Options::default());
        assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
        let text = print(&parsed.module.expect("a module"));
        let squeezed: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "add.s32 $sum32_0, %r2, 5; add.s32 $sum32_1, %r2, -7; @%p0 add.u32 %r1, $sum32_0, $sum32_1;",
            "add.s64 $sum64_0, %d1, 4294967296; st.global.b64 [%d0+8], $sum64_0;",
            "add.s16 $sum16_0, %h0, -1; cvt.u32.u16 %r3, $sum16_0;",
        ] {
            assert!(squeezed.contains(part), "{part}\n{squeezed}");
        }
        let again = parse(&text, &Options::default());
        assert!(again.diagnostics.is_empty(), "{:?}", again.diagnostics);
    }

    #[test]
    fn what_is_no_integer_has_no_sum() {
        let refused = |body: &str| first_error(body).unwrap_or_default();
        assert!(refused("mov.f32 %f1, %f2+1;").contains("only an integer register"));
        assert!(refused("selp.b32 %r1, %r2, %r3, %p0+1;").contains("only an integer register"));
        assert!(refused("mov.u32 %r1+1, %r2;").contains("Result register required for instruction 'mov'"));
        assert!(refused("mov.u32 %r1, %r2-1;").contains("syntax error"));
        assert!(refused("mov.b64 %d1, {%r1+1, %r2};").contains("syntax error"));
        assert!(refused("add.u64 %d1, %r2+1, %d2;").contains("mismatch"));
        assert_eq!(first_error("add.f32 %f1, %r2+1, %f2;"), None);
    }
}
