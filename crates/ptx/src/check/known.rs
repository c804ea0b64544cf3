//! Instructions that look like one that was right need no second look.
//!
//! Whether an instruction is right depends on its opcode and on what its operands are: the kinds and types of
//! registers and variables, and the values of constants where the table bounds them. Names, offsets and other
//! constants make no difference. A file has millions of instructions but few such shapes, so most are decided by one
//! look into a map.

use crate::ast::{Inst, Operand, Range, Space, Symbol, SymbolKind};
use crate::parse::{Parse, Parser};
use crate::shape::Shape;
use crate::sreg;

/// The tag behind the last operand in brackets or braces.
const END: u8 = b'.';

impl Parser<'_> {
    pub(crate) fn check_instruction(&mut self, inst: &Inst) -> Parse<()> {
        let mut shape = std::mem::take(&mut self.shape);
        let plain = self.write_shape(inst, &mut shape);
        let same = self.known_shapes.get(&shape.hash).map(|known| known.iter().eq(&shape.words));
        let before = self.diagnostics.len();
        let checked = if plain && same == Some(true) { Ok(()) } else { self.check_in_full(inst) };
        if plain && same.is_none() && checked.is_ok() && self.diagnostics.len() == before {
            self.known_shapes.insert(shape.hash, shape.words.as_slice().into());
        }
        self.shape = shape;
        checked
    }

    /// Writes down the shape; `false` if more than the shape matters, as for calls and negated operands.
    fn write_shape(&self, inst: &Inst, out: &mut Shape) -> bool {
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        out.words.clear();
        out.hash = 0;
        out.word(u64::from(inst.opcode.0));
        !opcode.takes_lists
            && self.function.negated.is_empty()
            && self.write_operands(inst.operands, opcode.bounds_constants, out)
    }

    fn write_operands(&self, range: Range, bounds_constants: bool, out: &mut Shape) -> bool {
        self.body.list(range).iter().all(|operand| self.write_operand(operand, bounds_constants, out))
    }

    fn write_operand(&self, operand: &Operand, bounds_constants: bool, out: &mut Shape) -> bool {
        match operand {
            Operand::Reg(reg) => {
                let (ty, vector) = self.reg_kind(*reg);
                out.operand(b'R', [ty.number(), vector]);
            }
            Operand::Not(reg) => {
                let (ty, vector) = self.reg_kind(*reg);
                out.operand(b'!', [ty.number(), vector]);
            }
            Operand::Special { row, component } => {
                let whole = component.is_none() && sreg::TABLE[*row as usize].vector;
                let [low, high] = row.to_le_bytes();
                out.operand(b'S', [low, high, u8::from(whole)]);
            }
            Operand::Int { value, .. } => out.constant(b'i', *value, bounds_constants),
            Operand::F32(bits) => out.constant(b'f', u64::from(*bits), bounds_constants),
            Operand::F64(bits) => out.constant(b'd', *bits, bounds_constants),
            Operand::Offset(_) => out.operand(b'+', []),
            Operand::Sink => out.operand(b'_', []),
            Operand::Unresolved(_) => out.operand(b'?', []),
            Operand::Symbol(symbol) => return self.write_symbol(*symbol, out),
            Operand::Address(inner) => return self.write_nested(b'[', *inner, out),
            Operand::Vector(inner) => return self.write_nested(b'{', *inner, out),
            Operand::Pair(inner) => return self.write_nested(b'|', *inner, out),
            Operand::Sum(inner) => return self.write_nested(b's', *inner, out),
            Operand::Element(inner) => return self.write_nested(b'e', *inner, out),
            Operand::List(_) | Operand::Part { .. } | Operand::Negated(_) => return false,
        }
        true
    }

    fn write_nested(&self, tag: u8, inner: Range, out: &mut Shape) -> bool {
        out.operand(tag, []);
        // What is nested has limits of its own.
        let plain = self.write_operands(inner, true, out);
        out.operand(END, []);
        plain
    }

    /// What kind of thing it is, and for parameters whose they are.
    fn write_symbol(&self, symbol: Symbol, out: &mut Shape) -> bool {
        match self.symbols.get(symbol.0 as usize).map(|info| &info.kind) {
            Some(SymbolKind::Label) => out.operand(b'L', []),
            Some(SymbolKind::Targets) => out.operand(b'B', []),
            Some(SymbolKind::Variable { space, ty, array, .. }) => {
                let formals = &self.function.formals;
                let owner = match space {
                    Space::Param if formals.params.contains(&symbol) => 1,
                    Space::Param if formals.returns.contains(&symbol) => 2,
                    _ => 0,
                };
                out.operand(b'V', [*space as u8, ty.number(), u8::from(*array), owner]);
            }
            _ => return false,
        }
        true
    }
}
