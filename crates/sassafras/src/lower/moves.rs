//! `mov`: registers, constants, special registers, addresses, and packing and unpacking.

use super::Lower;
use super::build::constant;
use super::instruction::Ins;
use ori::{Arg, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::Op;

impl<'a> Lower<'_, 'a> {
    pub(super) fn mov(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let (to, from) = (ins.get(0)?, ins.get(1)?);
        let value = self.moved(from, ty)?;
        self.set(to, value)
    }

    fn moved(&mut self, from: &Operand, ty: Type) -> Option<Value> {
        match from {
            Operand::Reg(_) | Operand::Part { .. } => {
                let whole = self.whole(from)?;
                Some(self.copy(whole))
            }
            Operand::Special { .. } if ty.bits() == 64 => self.special_wide(from),
            Operand::Special { .. } => self.special_word(from),
            Operand::Symbol(symbol) => self.shared_address(*symbol),
            _ if ty.bits() == 64 => self.wide(from, ty),
            _ => {
                let bits = constant(from, ty)?;
                Some(self.emit(Op::MOV, &[], 1, &[Arg::Imm(i64::from(bits as u32 as i32))]))
            }
        }
    }
}
