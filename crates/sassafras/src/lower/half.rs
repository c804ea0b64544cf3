//! Arithmetic of f16, bf16 and their pairs.

use super::Lower;
use super::instruction::Ins;

impl<'a> Lower<'_, 'a> {
    pub(super) fn half(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }
}
