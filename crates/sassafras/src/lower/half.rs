//! Arithmetic of f16, bf16 and their pairs.

use super::Lower;
use super::instruction::Ins;
use ori::Arg;
use ptx::Type;
use ptx::ast::Operand;
use sass::M;

impl<'a> Lower<'_, 'a> {
    pub(super) fn half(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }

    /// A source of an operation on halves: a pair, or a single half in both places.
    pub(super) fn half_operand(&mut self, operand: &Operand, ty: Type) -> Option<Arg> {
        let word = self.word(operand, ty)?;
        let word = self.in_register(word);
        Some(if ty.bits() == 16 { word.suffixed(M::H0_H0) } else { word })
    }
}
