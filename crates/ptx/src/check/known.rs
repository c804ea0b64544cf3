//! Instructions that look like one that was right need no second look.
//!
//! Whether an instruction is right depends on its opcode and on the kinds and types of its operands; only names,
//! special registers and bounded constants matter beyond that. A file has millions of instructions but few such
//! shapes, so most are decided by one look into a set.

use crate::ast::{Inst, Operand, Range};
use crate::parse::{Parse, Parser};
use smallvec::SmallVec;

/// Opcode, then a byte or more for each operand. Two instructions of one shape are both right or both wrong.
pub(crate) type Shape = SmallVec<[u8; 32]>;

impl Parser<'_> {
    pub(crate) fn check_instruction(&mut self, inst: &Inst) -> Parse<()> {
        let mut shape = Shape::new();
        let plain = self.write_shape(inst, &mut shape);
        if plain && self.known_shapes.contains(&shape) {
            return Ok(());
        }
        let before = self.diagnostics.len();
        self.check_in_full(inst)?;
        if plain && self.diagnostics.len() == before {
            self.known_shapes.insert(shape);
        }
        Ok(())
    }

    /// Writes down the shape; `false` if more than the shape matters.
    fn write_shape(&self, inst: &Inst, out: &mut Shape) -> bool {
        let constants_alike = !self.opcodes[inst.opcode.0 as usize].bounds_constants;
        out.extend_from_slice(&inst.opcode.0.to_le_bytes());
        self.write_shapes(inst.operands, constants_alike, out)
    }

    fn write_shapes(&self, range: Range, constants_alike: bool, out: &mut Shape) -> bool {
        self.body.list(range).iter().all(|operand| match operand {
            Operand::Reg(reg) | Operand::Not(reg) => {
                let (ty, vector) = self.reg_kind(*reg);
                let negated = matches!(operand, Operand::Not(_));
                out.extend_from_slice(&[b'R' + u8::from(negated), ty.number(), vector]);
                true
            }
            Operand::Int { .. } => {
                out.push(b'i');
                constants_alike
            }
            Operand::F32(_) => {
                out.push(b'f');
                constants_alike
            }
            Operand::F64(_) => {
                out.push(b'd');
                constants_alike
            }
            Operand::Offset(_) => {
                out.push(b'+');
                true
            }
            Operand::Sink => {
                out.push(b'_');
                true
            }
            Operand::Address(inner) => {
                out.push(b'[');
                self.write_shapes(*inner, false, out)
            }
            Operand::Vector(inner) => {
                out.extend_from_slice(&[b'{', inner.len.min(255) as u8]);
                self.write_shapes(*inner, false, out)
            }
            Operand::Pair(inner) => {
                out.push(b'|');
                self.write_shapes(*inner, false, out)
            }
            _ => false,
        })
    }
}
