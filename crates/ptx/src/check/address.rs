//! Checks addresses: what can hold one, and that a variable is in the state space that the instruction names.
//!
//! A register of up to 64 bits holds an address of any space; its width is not looked at. A number is an address in
//! local memory only. Without a space in the opcode the address is generic, which variables in global, shared and
//! local memory have, but constants and parameters don't.

use super::{Matcher, Misfit};
use crate::ast::*;
use crate::table::{Place, Role, TypeRef};
use crate::types::{Class, Type};
use crate::words::Kind;

impl Matcher<'_, '_> {
    /// `[base + offset]`: a register that can hold an address, or a variable of the right state space.
    pub(super) fn memory(&mut self, place: Place, range: Range, index: usize) -> Result<(), Misfit> {
        match self.base(place, range, index) {
            Err(Misfit::Late(turn, text)) => {
                let again = format!("Illegal operand type to instruction '{}'", self.mnemonic);
                let times = self.first_of(range).map_or(0, |base| self.objections(base));
                self.found.late.push((turn, text));
                self.found.late.extend(std::iter::repeat_n((turn, again), times));
                Ok(())
            }
            result => result,
        }
    }

    fn first_of(&self, range: Range) -> Option<&Operand> {
        self.parser.body.list(range).first()
    }

    /// How often ptxas adds that the type is illegal: once for what is neither register nor variable, and once
    /// more for that or a predicate where the width of the value may differ from the instruction's.
    fn objections(&self, base: &Operand) -> usize {
        let specs = self.fit.form.operands;
        let widths = usize::from(specs.iter().any(|s| matches!(s.ty, TypeRef::AtLeast(_))));
        match base {
            Operand::Reg(reg) if self.parser.body.reg_decl(*reg).0.ty == Type::PRED => widths,
            Operand::Symbol(s) if self.symbol(*s, |k| !matches!(k, SymbolKind::Variable { .. })).is_ok() => {
                1 + widths
            }
            _ => 0,
        }
    }

    fn base(&self, place: Place, range: Range, index: usize) -> Result<(), Misfit> {
        let mnemonic = self.mnemonic;
        let space = self.space(place);
        let (base, rest) = match self.parser.body.list(range) {
            [base, Operand::Offset(_), rest @ ..] | [base, rest @ ..] => (base, rest),
            [] => return Err(Misfit::Mismatch),
        };
        if !rest.is_empty() {
            return Err(Misfit::Mismatch);
        }
        match base {
            Operand::Reg(reg) => self.address_register(*reg),
            Operand::Symbol(symbol) if place == Place::Any => {
                self.symbol(*symbol, |k| matches!(k, SymbolKind::Variable { .. }))
            }
            Operand::Symbol(symbol) => {
                self.address_variable(*symbol, space)
                    .map_err(|misfit| self.unnamed_space(misfit, *symbol))?;
                self.parameter_direction(*symbol, index)
            }
            Operand::Int { .. } if space == Some(Space::Local) => Ok(()),
            Operand::Int { .. } => {
                Err(Misfit::late("Immediate addresses allowed only for .local state space"))
            }
            _ => Err(Misfit::Text(format!("Illegal operand type to instruction '{mnemonic}'"))),
        }
    }

    /// Where the instruction implies a space that its opcode doesn't say, ptxas names the variable.
    fn unnamed_space(&self, misfit: Misfit, symbol: Symbol) -> Misfit {
        let named = self.fit.chosen.iter().flatten().any(|w| w.kind() == Kind::Space);
        let variable = self.symbol(symbol, |k| matches!(k, SymbolKind::Variable { .. })).is_ok();
        let implied = self.fit.form.operands.iter().any(|s| s.role == Role::Memory(Place::Shared));
        if named || !implied || !variable {
            return misfit;
        }
        let (name, mnemonic) = (self.parser.symbol_name(symbol), self.mnemonic);
        Misfit::late(format!(
            "Illegal state space for address operand '{name}' with instruction '{mnemonic}'"
        ))
    }

    fn address_register(&self, reg: Reg) -> Result<(), Misfit> {
        let decl = self.parser.body.reg_decl(reg).0;
        let ty = decl.ty;
        if (ty.is_int() || ty.class() == Class::Bits) && ty.bits() <= 64 && decl.vector == 1 {
            return Ok(());
        }
        if ty.bits() > 64 {
            return Err(Misfit::late("Illegal operand type for address/array-index"));
        }
        let ty = if decl.vector == 1 { format!("{ty:?}") } else { "unexpected".into() };
        let name = self.parser.reg_name(reg);
        Err(Misfit::late(format!(
            "Illegal to use symbol '{name}' of type {ty} as address operand. Use integer or bit only."
        )))
    }

    /// Generic addresses can name what has a generic address without `cvta`: not constants or parameters.
    pub(super) fn address_variable(&self, symbol: Symbol, wanted: Option<Space>) -> Result<(), Misfit> {
        let mnemonic = self.mnemonic;
        let Some(info) = self.parser.symbols.get(symbol.0 as usize) else { return Ok(()) };
        let SymbolKind::Variable { space, ty, .. } = info.kind else {
            let name = self.parser.names.text(info.name);
            return Err(Misfit::late(format!(
                "Illegal to use symbol '{name}' of type unexpected as address operand. Use integer or bit only."
            )));
        };
        if ty.class() == Class::Opaque {
            return Err(Misfit::Text(format!("Illegal operand type to instruction '{mnemonic}'")));
        }
        let fits = match wanted {
            Some(wanted) => wanted == space,
            None => matches!(space, Space::Global | Space::Shared | Space::Local),
        };
        match fits {
            true => Ok(()),
            false => Err(Misfit::after(
                "row",
                format!("State space mismatch between instruction and address in instruction '{mnemonic}'"),
            )),
        }
    }

    /// A function reads its parameters and writes its returns, and so it does with what hides one of them under its
    /// name. What comes first in an instruction is written, unless it is all that the instruction has.
    fn parameter_direction(&self, symbol: Symbol, index: usize) -> Result<(), Misfit> {
        let formals = &self.parser.function.formals;
        let written = index == 0 && self.fit.form.operands.len() > 1;
        let name = || self.parser.symbol_name(symbol);
        let info = |symbol: Symbol| self.parser.symbols.get(symbol.0 as usize);
        let Some(this) = info(symbol) else { return Ok(()) };
        let is_param = matches!(this.kind, SymbolKind::Variable { space: Space::Param, .. });
        let is_named = |formal: &Symbol| info(*formal).is_some_and(|formal| formal.name == this.name);
        let is_one = |formals: &[Symbol]| is_param && formals.iter().any(is_named);
        if written && is_one(&formals.params) {
            return Err(Misfit::late(format!("Illegal to write to function input parameter '{}'", name())));
        }
        if !written && is_one(&formals.returns) {
            return Err(Misfit::late(format!("Illegal to read function return parameter '{}'", name())));
        }
        Ok(())
    }

    /// The state space of an address; `None` for a generic one.
    pub(super) fn space(&self, place: Place) -> Option<Space> {
        let n = match place {
            Place::Shared => return Some(Space::Shared),
            Place::Global => return Some(Space::Global),
            Place::Any => return None,
            Place::Named(n) => n,
        };
        // A space that the row doesn't take counts, too.
        let words = self.fit.chosen.iter().flatten().chain(&self.fit.extra);
        let word = words.filter(|w| w.kind() == Kind::Space).nth(n as usize)?.text();
        let all = [Space::Global, Space::Const, Space::Shared, Space::Local, Space::Param];
        all.into_iter().find(|s| word.split("::").next() == Some(s.text()))
    }
}

#[cfg(test)]
mod tests {
    /// What is said about an instruction in a kernel with a variable in each state space.
    fn said(instruction: &str) -> Vec<String> {
        let source = format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.global .b32 g; .const .b32 c;\n\
             .func (.param .b32 out) f (.param .b32 in) {{\n.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;\n\
             .shared .b32 s; .local .b32 l;\n{instruction}\nret; }}\n"
        );
        let parsed = crate::parse(&source, &crate::Options::default());
        parsed.diagnostics.iter().map(|d| d.message.clone()).collect()
    }

    #[test]
    fn a_variable_is_in_the_space_of_the_instruction() {
        let mismatch = "State space mismatch between instruction and address in instruction 'ld'";
        for fine in
            ["ld.global.b32 %r1,[g];", "ld.b32 %r1,[s+4];", "ld.const.b32 %r1,[c];", "ld.b32 %r1,[%rd1];"]
        {
            assert!(said(fine).is_empty(), "{fine}");
        }
        for wrong in ["ld.global.b32 %r1,[s];", "ld.b32 %r1,[c];", "ld.shared.b32 %r1,[l];"] {
            assert_eq!(said(wrong), [mismatch], "{wrong}");
        }
    }

    #[test]
    fn numbers_and_floats_are_no_addresses() {
        let number = "Immediate addresses allowed only for .local state space";
        assert_eq!(said("ld.global.b32 %r1,[16];"), [number]);
        assert!(said("ld.local.b32 %r1,[16];").is_empty());
        let float = "Illegal to use symbol '%f1' of type .f32 as address operand. Use integer or bit only.";
        assert_eq!(said("st.global.b32 [%f1],%r1;"), [float]);
    }

    #[test]
    fn parameters_are_read_and_returns_are_written() {
        assert!(said("ld.param.b32 %r1,[in]; st.param.b32 [out],%r1;").is_empty());
        let written = "Illegal to write to function input parameter 'in'";
        assert_eq!(said("st.param.b32 [in],%r1;"), [written]);
        assert_eq!(said("{ .param .b32 in; st.param.b32 [in],%r1; }"), [written]);
        assert!(said("{ .shared .b32 in; st.shared.b32 [in],%r1; }").is_empty());
        assert_eq!(said("ld.param.b32 %r1,[out];"), ["Illegal to read function return parameter 'out'"]);
    }
}
