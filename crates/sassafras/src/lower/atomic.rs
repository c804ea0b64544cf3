//! Atomics, reductions and fences.

use super::Lower;
use super::instruction::Ins;

impl<'a> Lower<'_, 'a> {
    pub(super) fn atomic(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }

    pub(super) fn fence(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }
}
