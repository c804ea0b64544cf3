//! Votes, shuffles, matches, reductions over a warp; sleeping, traps and events.

use super::Lower;
use super::instruction::Ins;

impl<'a> Lower<'_, 'a> {
    pub(super) fn warp(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }
}
