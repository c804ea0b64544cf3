//! Instructions that look like one that was right need no second look.
//!
//! Whether an instruction is right depends on its opcode and on what its operands are: the kinds and types of
//! registers and variables, and the values of constants where the table bounds them. Names, offsets and other
//! constants make no difference. A file has millions of instructions but few such shapes, so most are decided by one
//! look into a set.

use crate::ast::{Inst, Operand, Range, Space, Symbol, SymbolKind};
use crate::parse::{Parse, Parser};
use crate::sreg;

/// Opcode, then for each operand a tag and what matters of it; [`END`] behind what is nested. Two instructions of one
/// shape are both right or both wrong.
type Shape = Vec<u8>;

/// The tag behind the last operand in brackets or braces.
const END: u8 = b'.';

impl Parser<'_> {
    pub(crate) fn check_instruction(&mut self, inst: &Inst) -> Parse<()> {
        let mut shape = std::mem::take(&mut self.shape);
        shape.clear();
        let plain = self.write_shape(inst, &mut shape);
        let known = plain && self.known_shapes.contains(shape.as_slice());
        let before = self.diagnostics.len();
        let checked = if known { Ok(()) } else { self.check_in_full(inst) };
        if plain && !known && checked.is_ok() && self.diagnostics.len() == before {
            self.known_shapes.insert(shape.as_slice().into());
        }
        self.shape = shape;
        checked
    }

    /// Writes down the shape; `false` if more than the shape matters, as for calls and negated operands.
    fn write_shape(&self, inst: &Inst, out: &mut Shape) -> bool {
        let opcode = &self.opcodes[inst.opcode.0 as usize];
        out.extend_from_slice(&inst.opcode.0.to_le_bytes());
        !opcode.takes_lists
            && self.function.negated.is_empty()
            && self.write_shapes(inst.operands, opcode.bounds_constants, out)
    }

    fn write_shapes(&self, range: Range, bounds_constants: bool, out: &mut Shape) -> bool {
        self.body.list(range).iter().all(|operand| self.write_operand(operand, bounds_constants, out))
    }

    fn write_operand(&self, operand: &Operand, bounds_constants: bool, out: &mut Shape) -> bool {
        let mut nested = |tag: u8, inner: Range| {
            out.push(tag);
            // What is nested has limits of its own.
            let plain = self.write_shapes(inner, true, out);
            out.push(END);
            plain
        };
        match operand {
            Operand::Address(inner) => return nested(b'[', *inner),
            Operand::Vector(inner) => return nested(b'{', *inner),
            Operand::Pair(inner) => return nested(b'|', *inner),
            Operand::Sum(inner) => return nested(b's', *inner),
            Operand::Element(inner) => return nested(b'e', *inner),
            Operand::Symbol(symbol) => return self.write_symbol(*symbol, out),
            Operand::List(_) | Operand::Part { .. } | Operand::Negated(_) => return false,
            Operand::Reg(reg) => {
                let (ty, vector) = self.reg_kind(*reg);
                out.extend_from_slice(&[b'R', ty.number(), vector]);
            }
            Operand::Not(reg) => {
                let (ty, vector) = self.reg_kind(*reg);
                out.extend_from_slice(&[b'!', ty.number(), vector]);
            }
            Operand::Special { row, component } => {
                let whole = component.is_none() && sreg::TABLE[*row as usize].vector;
                let [low, high] = row.to_le_bytes();
                out.extend_from_slice(&[b'S', low, high, u8::from(whole)]);
            }
            Operand::Int { value, .. } => write_constant(b'i', *value, bounds_constants, out),
            Operand::F32(bits) => write_constant(b'f', u64::from(*bits), bounds_constants, out),
            Operand::F64(bits) => write_constant(b'd', *bits, bounds_constants, out),
            Operand::Offset(_) => out.push(b'+'),
            Operand::Sink => out.push(b'_'),
            Operand::Unresolved(_) => out.push(b'?'),
        }
        true
    }

    /// What kind of thing it is, and for parameters whose they are.
    fn write_symbol(&self, symbol: Symbol, out: &mut Shape) -> bool {
        let kind = self.symbols.get(symbol.0 as usize).map(|info| &info.kind);
        match kind {
            Some(SymbolKind::Label) => out.push(b'L'),
            Some(SymbolKind::Targets) => out.push(b'B'),
            Some(SymbolKind::Variable { space, ty, array, .. }) => {
                let formals = &self.function.formals;
                let owner = match space {
                    Space::Param if formals.params.contains(&symbol) => 1,
                    Space::Param if formals.returns.contains(&symbol) => 2,
                    _ => 0,
                };
                out.extend_from_slice(&[b'V', *space as u8, ty.number(), u8::from(*array), owner]);
            }
            _ => return false,
        }
        true
    }
}

fn write_constant(tag: u8, bits: u64, value_matters: bool, out: &mut Shape) {
    out.push(tag);
    if value_matters {
        out.extend_from_slice(&bits.to_le_bytes());
    }
}
