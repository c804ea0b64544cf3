//! How large a word can be, from what computes it: enough to see that a sum has no carry.
//!
//! Descriptors of products and of shared memory are sums of small fields and constants in 64 bits; without a carry
//! their upper word is a constant.

use super::Combine;
use ori::{Arg, InstData, Op};
use sass::M;

/// How many definitions are looked at on the way.
const STEPS: u32 = 6;

impl Combine<'_> {
    /// Is a sum of words always a word?
    pub(super) fn has_no_carry(&self, sum: &InstData) -> bool {
        let plain = sum.op == Op::Machine(sass::Op::IADD3) && sum.modifiers.is_empty() && sum.guard.is_none();
        let all = || sum.args.iter().map(|a| self.highest(a, STEPS)).sum::<u64>();
        plain && sum.results.len() == 2 && all() <= u32::MAX.into()
    }

    /// The largest number that a word can be.
    fn highest(&self, arg: &Arg, steps: u32) -> u64 {
        const ANY: u64 = u32::MAX as u64;
        let value = match arg {
            Arg::Imm(n) => return u64::from(*n as u32),
            Arg::Zero(_) => return 0,
            Arg::Use(u) if u.is_plain() && u.part.is_none() => u.value,
            // `-0` carries.
            _ => return ANY + 1,
        };
        let Some(data) = self.define(value).filter(|d| steps > 0 && d.results.len() == 1) else { return ANY };
        let Op::Machine(op) = data.op else { return ANY };
        let of = |arg: &Arg| self.highest(arg, steps - 1);
        use sass::Op::{LOP3, MOV, SGXT, SHF};
        match (op, &data.modifiers[..], &data.args[..]) {
            (MOV, [], [from]) => of(from),
            (SGXT, [M::U32], [_, Arg::Imm(bits @ 0..32)]) => (1 << bits) - 1,
            (SHF, [M::R, M::U32, M::HI], [Arg::Zero(_), Arg::Imm(n @ 0..32), from]) => of(from) >> n,
            (SHF, [M::L, M::U32], [from, Arg::Imm(n @ 0..32), Arg::Zero(_)]) => {
                let shifted = of(from) << n;
                if shifted <= ANY { shifted } else { ANY }
            }
            // a & b, a | b
            (LOP3, _, [a, b, Arg::Zero(_), Arg::Imm(0xc0), ..]) => of(a).min(of(b)),
            (LOP3, _, [a, b, Arg::Zero(_), Arg::Imm(0xfc), ..]) => {
                (of(a) | of(b) | 1).next_power_of_two() * 2 - 1
            }
            _ => ANY,
        }
        .min(ANY)
    }
}
