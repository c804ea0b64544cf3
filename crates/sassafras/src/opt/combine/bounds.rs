//! Carry elimination: finds carry-free additions by upper bounds of their terms (`analysis/known_bits.rs`).
//!
//! Descriptors of wgmma and of shared memory are 64-bit sums of small fields and constants; without a carry, their
//! upper word is a constant.

use super::Combine;
use crate::analysis::known_bits;
use ori::{Arg, InstData, Op, Value};
use sass::M;

impl Combine<'_> {
    /// Does a sum of words never carry?
    pub(super) fn has_no_carry(&self, sum: &InstData) -> bool {
        let carries = match (&sum.modifiers[..], sum.args.get(3..)) {
            ([], Some([])) => 0,
            ([M::X], Some(carries)) => carries.iter().filter(|c| **c != Arg::True(false)).count() as u64,
            _ => return false,
        };
        let is_sum = sum.op == Op::Machine(sass::Op::IADD3) && sum.guard.is_none() && sum.results.len() == 2;
        let all = || sum.args[..3].iter().map(|a| self.highest(a)).sum::<u64>();
        is_sum && carries + all() <= u32::MAX.into()
    }

    /// The only term of a sum that is not zero.
    pub(super) fn only_term(&self, sum: &InstData) -> Option<Value> {
        let mut terms = sum.args.iter().filter(|a| !matches!(a, Arg::Zero(_) | Arg::Imm(0)));
        match (terms.next(), terms.next()) {
            (Some(Arg::Use(u)), None) if u.is_plain() && u.part.is_none() => Some(u.value),
            _ => None,
        }
    }

    /// The largest value of a term, and one more for a negated one: `-0` carries.
    fn highest(&self, arg: &Arg) -> u64 {
        let plain = match arg {
            Arg::Use(u) => u.is_plain() && u.part.is_none(),
            other => matches!(other, Arg::Imm(_) | Arg::Zero(_)),
        };
        u64::from(self.word_of(arg).most) + u64::from(!plain)
    }

    /// The known bits of a word.
    pub(super) fn word_of(&self, arg: &Arg) -> known_bits::Word {
        let zeros = |value| self.multiples.get(&value).copied().unwrap_or(0);
        let depth = self.tuning.known_bits_depth;
        known_bits::Words { define: &|value| self.definition_of(value), zeros: &zeros, depth }.of(arg)
    }
}
