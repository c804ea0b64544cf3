//! The video instructions, scalar and SIMD.

use super::Lower;
use super::instruction::Ins;

impl<'a> Lower<'_, 'a> {
    pub(super) fn video(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }
}
