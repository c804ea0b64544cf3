//! Surfaces.

use super::Lower;
use super::instruction::Ins;

impl<'a> Lower<'_, 'a> {
    pub(super) fn surface(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }
}
