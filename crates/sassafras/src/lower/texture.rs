//! Textures and surfaces.

use super::Lower;
use super::instruction::Ins;

impl<'a> Lower<'_, 'a> {
    pub(super) fn texture(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }

    pub(super) fn surface(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }
}
