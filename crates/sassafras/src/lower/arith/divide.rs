//! Lowers integer `div` and `rem`.
//!
//! Division by a constant is multiplication by its reciprocal (Granlund and Montgomery, "Division by invariant integers
//! using multiplication", 1994). With N bits and a factor m such that
//!
//! ```text
//! 2^(N+s) < m * d <= 2^(N+s) + 2^(s+k)
//! ```
//!
//! `m * n >> (N + s)` is the quotient of every n below 2^(N-k): the excess of `m * n` is too small to reach the next
//! one. Other divisors go to the library: up to 32 bits to the division of unsigned numbers by a divisor that is not zero,
//! with code around it for signs and zero, 64 bits to routines that do all of it. Division by zero gives all ones,
//! quotient and remainder, as in ptxas's code.

use crate::lower::Lower;
use crate::lower::arith::words::{Words, imm, u32_unless};
use crate::lower::build::RZ;
use crate::lower::instruction::Ins;
use ori::eval::generic;
use ori::{Arg, Generic, Op, Part, Pseudo, Value};
use sass::M;
use smallvec::smallvec;

/// Division by a number that is no power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reciprocal {
    /// The shift of the dividend before the multiplication.
    before: u32,
    /// The factor modulo 2^N; with `more`, 2^N must be added.
    factor: u64,
    more: bool,
    after: u32,
}

/// The factor for a shift, if the quotients of numbers below 2^(bits - less) are exact with it.
fn factor(divisor: u64, bits: u32, shift: u32, less: u32) -> Option<u128> {
    let power = 1u128 << (bits + shift);
    let factor = power / u128::from(divisor) + 1;
    (factor * u128::from(divisor) - power <= 1 << (shift + less)).then_some(factor)
}

impl Reciprocal {
    /// For unsigned numbers; the divisor is no power of two.
    fn unsigned(divisor: u64, bits: u32) -> Option<Reciprocal> {
        let plan = |before: u32| {
            let rest = divisor >> before;
            let last = longest_shift(rest, bits);
            (0..=last).find_map(|after| {
                let factor = factor(rest, bits, after, before)?;
                let more = factor >> bits != 0;
                (factor >> bits <= 1).then_some(Reciprocal { before, factor: low(factor, bits), more, after })
            })
        };
        let [plain, shifted] = [0, divisor.trailing_zeros()].map(plan);
        // A shift before the multiplication is cheaper than a factor of more than N bits.
        if plain.is_some_and(|p| p.more) { shifted.filter(|p| !p.more).or(plain) } else { plain }
    }

    /// For signed numbers and the magnitude of the divisor. Quotients are rounded down: those of negative numbers are
    /// one too small.
    fn signed(divisor: u64, bits: u32) -> Option<Reciprocal> {
        let last = longest_shift(divisor, bits);
        (0..=last).find_map(|after| {
            let factor = factor(divisor, bits, after, 1)?;
            // The machine takes it as a signed number.
            let more = factor >> (bits - 1) != 0;
            (factor >> bits == 0).then_some(Reciprocal { before: 0, factor: low(factor, bits), more, after })
        })
    }
}

/// The shift never exceeds the length of the divisor, nor the width of this arithmetic.
fn longest_shift(divisor: u64, bits: u32) -> u32 {
    (u64::BITS - divisor.leading_zeros()).min(u128::BITS - 1 - bits)
}

fn low(number: u128, bits: u32) -> u64 {
    (number & ((1 << bits) - 1)) as u64
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn divide(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let (a, b) = (self.extended_number(ins.get(1)?, ty)?, self.extended_number(ins.get(2)?, ty)?);
        let remainder = ins.mnemonic() == "rem";
        let known = b.iter().rev().try_fold(0, |bits, word| Some(bits << 32 | u64::from(self.known(word)?)));
        let by_constant = match known {
            None | Some(0) => None,
            Some(divisor) => self.divide_by(ty.is_signed(), &a, divisor, remainder),
        };
        let value = match by_constant {
            Some(result) => self.value(&result),
            None => {
                let op = if remainder { Generic::Rem } else { Generic::Div };
                let args = [a, b].map(|words| Arg::from(self.value(&words)));
                let ty = generic::Type::Integer { signed: ty.is_signed(), bits: ty.bits() };
                self.emit_generic(op, ty, &[], &args)
            }
        };
        self.set(ins.get(0)?, value)
    }

    /// Expands `Div` and `Rem`.
    pub(crate) fn expand_division(
        &mut self,
        (signed, bits): (bool, u32),
        [a, b]: [Value; 2],
        divisor: Option<u64>,
        remainder: bool,
    ) -> Option<Value> {
        let [a, b] = [a, b].map(|value| words_of(value, usize::from(self.kernel.code.values[value].words)));
        let by_constant = match divisor {
            None | Some(0) => None,
            Some(divisor) => self.divide_by(signed, &a, divisor, remainder),
        };
        let result = match by_constant {
            Some(result) => result,
            None => self.divide_by_any((signed, bits), &a, &b, remainder)?,
        };
        Some(self.value(&result))
    }

    fn divide_by_any(
        &mut self,
        (signed, bits): (bool, u32),
        a: &Words,
        b: &Words,
        remainder: bool,
    ) -> Option<Words> {
        let name = match (remainder, bits) {
            (false, 16) => "udiv16",
            (false, 32) => "udiv32",
            (true, 16) => "urem16",
            (true, 32) => "urem32",
            _ => return self.divide_wide(signed, a, b, remainder),
        };
        let (result, by_zero) = self
            .divide_signed(signed, a, b, remainder, |l, [a, b]| l.routine(name, &[a, b])?.first().copied())?;
        Some(self.choose(by_zero.into(), &[Arg::Imm(-1)], &result))
    }

    /// 64 bits. As in ptxas's code, numbers below 2^32 take a division of 32 bits; others call the routine.
    fn divide_wide(&mut self, signed: bool, a: &Words, b: &Words, remainder: bool) -> Option<Words> {
        let (short, long) = match (remainder, signed) {
            (false, false) => ("udiv32", "udiv64"),
            (false, true) => ("udiv32", "sdiv64"),
            (true, false) => ("urem32", "urem64"),
            (true, true) => ("urem32", "srem64"),
        };
        let high = self.lop3(a[1], b[1], RZ, 0xfc);
        let is_long = self.compare_integers(M::NE, false, &[high.into()], &[RZ]);
        let quotient = self.select_lazily_between(
            is_long,
            |l| {
                let args = [a, b].map(|words| Arg::from(l.value(words)));
                l.call_routine(long, &args)?.first().copied()
            },
            |l| {
                let result = *l.routine(short, &[a[0], b[0]])?.first()?;
                let by_zero = l.compare_integers(M::EQ, false, &[b[0]], &[RZ]);
                let result = l.choose(by_zero.into(), &[Arg::Imm(-1), Arg::Imm(-1)], &[result.into(), RZ]);
                Some(l.value(&result))
            },
        )?;
        Some(words_of(quotient, 2))
    }

    /// A division of magnitudes that gets the sign of the result. Returns whether the divisor is zero, too.
    fn divide_signed(
        &mut self,
        signed: bool,
        a: &Words,
        b: &Words,
        remainder: bool,
        divide: impl FnOnce(&mut Self, [Arg; 2]) -> Option<Value>,
    ) -> Option<(Words, Value)> {
        let args = match signed {
            true => [self.magnitude(a), self.magnitude(b)],
            false => [a.clone(), b.clone()],
        };
        let args = args.map(|words| Arg::from(self.value(&words)));
        let mut result = words_of(divide(self, args)?, a.len());
        if signed {
            let last = a.len() - 1;
            let sign = if remainder { a[last] } else { self.lop3(a[last], b[last], RZ, 0x3c).into() };
            let negative = self.is_negative(&[sign]);
            let opposite = self.negate(&result);
            result = self.choose(negative.into(), &opposite, &result);
        }
        let zero: Words = b.iter().map(|_| RZ).collect();
        Some((result, self.relation(M::EQ, false, b, &zero)))
    }

    /// The bits of a constant word: an immediate, or a register that a nearby instruction set to one.
    fn known(&self, word: &Arg) -> Option<u32> {
        let u = match word {
            Arg::Imm(n) => return Some(*n as u32),
            Arg::Zero(_) => return Some(0),
            Arg::Use(u) if u.is_plain() => u,
            _ => return None,
        };
        let code = &self.kernel.code;
        let distance = self.tuning.divisor_search_distance as usize;
        let near = code.blocks[self.block].insts.iter().rev().take(distance).map(|i| &code.insts[*i]);
        let made = near.filter(|d| d.guard.is_none()).find(|d| d.results[..] == [u.value])?;
        let single = code.values[u.value].words == 1;
        match (made.op, &made.args[..], u.part) {
            (Op::Machine(sass::Op::MOV) | Op::Pseudo(Pseudo::Copy), [from], _) if single => self.known(from),
            (Op::Pseudo(Pseudo::Pack), [low, high], Some(Part { first, count: 1 })) => {
                self.known(if first == 0 { low } else { high })
            }
            _ => None,
        }
    }

    /// The quotient or remainder of a division by a constant that is not zero.
    fn divide_by(&mut self, signed: bool, a: &Words, divisor: u64, remainder: bool) -> Option<Words> {
        let a = words_of(self.value(a), a.len());
        let quotient = match signed {
            true => {
                let divisor = if a.len() == 1 { i64::from(divisor as u32 as i32) } else { divisor as i64 };
                let quotient = self.signed_quotient(&a, divisor.unsigned_abs())?;
                if divisor < 0 { self.negate(&quotient) } else { quotient }
            }
            false => self.unsigned_quotient(&a, divisor)?,
        };
        if !remainder {
            return Some(quotient);
        }
        let product = self.low_product(&quotient, &constant(divisor, a.len()), &[RZ, RZ][..a.len()]);
        Some(self.subtract(&a, &product))
    }

    fn unsigned_quotient(&mut self, a: &Words, divisor: u64) -> Option<Words> {
        if divisor.is_power_of_two() {
            return Some(self.right(false, a, divisor.trailing_zeros()));
        }
        let plan = Reciprocal::unsigned(divisor, 32 * a.len() as u32)?;
        let a = self.right(false, a, plan.before);
        let high = self.high(false, &a, &constant(plan.factor, a.len()));
        if !plan.more {
            return Some(self.right(false, &high, plan.after));
        }
        // high + a may overflow a word; half of it doesn't.
        let rest = self.subtract(&a, &high);
        let half = self.right(false, &rest, 1);
        let sum = self.add(&half, &high);
        Some(self.right(false, &sum, plan.after - 1))
    }

    fn signed_quotient(&mut self, a: &Words, divisor: u64) -> Option<Words> {
        let bits = 32 * a.len() as u32;
        let sign = self.right(true, a, bits - 1);
        if divisor.is_power_of_two() {
            let shift = divisor.trailing_zeros();
            // Negative numbers are rounded up.
            let less = if shift == 0 { constant(0, a.len()) } else { self.right(false, &sign, bits - shift) };
            let sum = self.add(a, &less);
            return Some(self.right(true, &sum, shift));
        }
        let plan = Reciprocal::signed(divisor, bits)?;
        let mut high = self.high(true, a, &constant(plan.factor, a.len()));
        if plan.more {
            high = self.add(&high, a);
        }
        let down = self.right(true, &high, plan.after);
        Some(self.subtract(&down, &sign))
    }

    /// The upper half of a multiplication.
    fn high(&mut self, signed: bool, a: &Words, b: &Words) -> Words {
        match (&a[..], &b[..]) {
            ([a0, a1], [b0, b1]) => self.high_product64(signed, [*a0, *a1], [*b0, *b1]),
            _ => {
                let modifiers = [&[M::HI], u32_unless(signed)].concat();
                smallvec![self.imad(&modifiers, 1, a[0], b[0], RZ).into()]
            }
        }
    }

    /// Arithmetic or logical shift to the right by a constant.
    fn right(&mut self, signed: bool, a: &Words, by: u32) -> Words {
        if by == 0 { a.clone() } else { self.shift_right(signed, a, Arg::Imm(by.into())) }
    }
}

fn words_of(value: Value, count: usize) -> Words {
    (0..count).map(|i| Arg::word(value, i as u8)).collect()
}

/// A constant of so many words.
fn constant(bits: u64, words: usize) -> Words {
    [bits as u32, (bits >> 32) as u32].into_iter().take(words).map(imm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BITS: u32 = 8;

    /// The meaning of the code for a plan, with eight bits.
    fn unsigned(plan: Reciprocal, n: u64) -> u64 {
        let n = n >> plan.before;
        let high = (n * plan.factor) >> BITS;
        if plan.more { (((n - high) >> 1) + high) >> (plan.after - 1) } else { high >> plan.after }
    }

    fn signed(plan: Reciprocal, n: i8) -> i8 {
        let high = ((i16::from(n) * i16::from(plan.factor as u8 as i8)) >> BITS) as i8;
        let sum = if plan.more { high.wrapping_add(n) } else { high };
        (sum >> plan.after) - (n >> 7)
    }

    #[test]
    fn all_8_bit_quotients_are_exact() {
        for divisor in (3..=255u64).filter(|d| !d.is_power_of_two()) {
            let plan = Reciprocal::unsigned(divisor, BITS).expect("a plan");
            for n in 0..256 {
                assert_eq!(unsigned(plan, n), n / divisor, "{n} / {divisor}: {plan:?}");
            }
        }
        for divisor in (3..=127u64).filter(|d| !d.is_power_of_two()) {
            let plan = Reciprocal::signed(divisor, BITS).expect("a plan");
            for n in i8::MIN..=i8::MAX {
                assert_eq!(signed(plan, n), n / divisor as i8, "{n} / {divisor}: {plan:?}");
            }
        }
    }

    /// Plans that others have published.
    #[test]
    fn factors_match_published_ones() {
        let plan = |before, factor, more, after| Some(Reciprocal { before, factor, more, after });
        assert_eq!(Reciprocal::unsigned(3, 32), plan(0, 0xaaaa_aaab, false, 1));
        assert_eq!(Reciprocal::unsigned(7, 32), plan(0, 0x2492_4925, true, 3));
        assert_eq!(Reciprocal::unsigned(14, 32), plan(1, 0x9249_2493, false, 2));
        assert_eq!(Reciprocal::signed(7, 32), plan(0, 0x9249_2493, true, 2));
        assert_eq!(Reciprocal::signed(3, 32), plan(0, 0x5555_5556, false, 0));
    }

    #[test]
    fn every_divisor_has_a_plan() {
        let edges = (2..32).flat_map(|n| [(1u64 << n) - 1, (1 << n) + 1]).chain([u32::MAX.into()]);
        for divisor in (3..100_000u64).chain(edges).filter(|d| !d.is_power_of_two()) {
            assert!(Reciprocal::unsigned(divisor, 32).is_some(), "{divisor}");
            assert!(Reciprocal::unsigned(divisor, 64).is_some(), "{divisor}");
            assert!(divisor >> 31 != 0 || Reciprocal::signed(divisor, 32).is_some(), "{divisor}");
            assert!(Reciprocal::signed(divisor, 64).is_some(), "{divisor}");
        }
    }
}
