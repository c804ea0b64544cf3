//! `cvt` and `cvt.pack`.

use super::Lower;
use super::instruction::Ins;

impl<'a> Lower<'_, 'a> {
    pub(super) fn convert(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }
}
