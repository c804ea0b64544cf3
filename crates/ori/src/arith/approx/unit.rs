//! The machine's function unit, bit for bit.
//!
//! The unit is of the kind that Oberman and Siu describe (ARITH 2005): the upper bits of an argument choose a segment,
//! and a quadratic of the lower ones gives the result in fixed point, which is cut off to 24 digits:
//!
//! ```text
//! c0 + c1 t + 2 c2 s(t)        t has 17 bits; s(t) is t² >> 19 from a multiplier without its lower columns
//! ```
//!
//! That this is what Hopper does, how wide everything is, and all coefficients were found by fitting integers to results
//! of an H200: every one of the 2^23 fractions of the binades that make up each table, with no exception; every fifth
//! where a table has more binades. Sums over blocks of 65,536 arguments of every binade, and a million arguments of all
//! sizes, confirm how exponents, signs and special values are dealt with.

use super::Function;
use super::tables::{INVERSE_ROOT, LOGARITHM, POWER, RECIPROCAL, ROOT, SINE, TANGENT};
use crate::arith::float::Exact;

/// Coefficients of a quadratic: `c0`, `c1`, `c2`.
pub type Segment = (i64, i32, i32);

/// Digits of an argument and of a result behind the first one.
const FRACTION: u32 = 23;
/// Bits of `t`; those above choose the segment.
const LOWER: u32 = 17;
/// Bits behind the point of what the tables give.
const POINT: i32 = 40;
/// Columns of the square that the unit doesn't add.
const DROPPED: u32 = 19;

/// A positive number: `(1 + fraction / 2^23) 2^exponent`.
struct Argument {
    exponent: i32,
    fraction: u32,
}

impl Argument {
    /// Of a number that is not zero and has at most 24 digits.
    fn of(x: Exact) -> Argument {
        let top = 127 - x.significand.leading_zeros();
        let digits = match top.checked_sub(FRACTION) {
            Some(right) => x.significand >> right,
            None => x.significand << (FRACTION - top),
        };
        Argument { exponent: x.exponent + top as i32, fraction: digits as u32 & low(FRACTION) }
    }

    /// With so many bits behind the point, the rest cut off, and some bits before it.
    fn fixed(&self, point: u32, before: u32) -> u64 {
        let digits = u64::from(self.fraction | 1 << FRACTION);
        let shift = self.exponent + point as i32 - FRACTION as i32;
        let shifted = match shift {
            0..40 => digits << shift,
            40.. => 0,
            _ => digits.checked_shr(shift.unsigned_abs()).unwrap_or(0),
        };
        shifted & u64::MAX >> (64 - point - before)
    }
}

fn low(bits: u32) -> u32 {
    (1 << bits) - 1
}

/// `t² >> 19`, less what the columns below would have carried. Products of two different bits count once, one column up.
fn square(t: u32) -> i64 {
    let row = |i: u32| {
        let first = (i + 1).max(DROPPED - 1 - i);
        let others = u64::from(t >> first) << (first + i + 1 - DROPPED);
        others + if 2 * i >= DROPPED { 1 << (2 * i - DROPPED) } else { 0 }
    };
    (0..LOWER).filter(|i| t >> i & 1 == 1).map(row).sum::<u64>() as i64
}

/// The quadratic of a segment.
fn interpolate(table: &[Segment], segment: u32, t: u32) -> i64 {
    let (c0, c1, c2) = table[segment as usize % table.len()];
    c0 + i64::from(c1) * i64::from(t) + 2 * i64::from(c2) * square(t)
}

/// The quadratic of a fraction of 23 bits.
fn of_fraction(table: &[Segment], fraction: u32) -> i64 {
    interpolate(table, fraction >> LOWER, fraction & low(LOWER))
}

/// A result with so many bits behind the point, cut off to 24 digits.
fn cut(negative: bool, value: i64, point: i32) -> Exact {
    let value = value.max(0) as u128;
    let excess = (128 - value.leading_zeros()).saturating_sub(FRACTION + 1);
    Exact { negative, exponent: excess as i32 - point, significand: value >> excess }
}

/// The function of a finite number that is not zero and in the function's domain.
pub fn evaluate(function: Function, x: Exact) -> Exact {
    let argument = Argument::of(x);
    match function {
        Function::Rcp => reciprocal(x.negative, &argument),
        Function::Rsqrt => inverse_root(&argument),
        Function::Sqrt => {
            let value = interpolate_root(&ROOT, &argument);
            cut(false, value, POINT - (argument.exponent >> 1))
        }
        Function::Sin => sine(x.negative, &argument, 0),
        Function::Cos => sine(false, &argument, 1),
        Function::Ex2 => power(x.negative, &argument),
        Function::Lg2 => logarithm(&argument),
        Function::Tanh => tangent(x, &argument),
    }
}

/// The one table with 128 segments for a binade: `t` has a zero at its end.
fn reciprocal(negative: bool, x: &Argument) -> Exact {
    let value = interpolate(&RECIPROCAL, x.fraction >> (LOWER - 1), x.fraction << 1 & low(LOWER));
    cut(negative, value, POINT + x.exponent)
}

/// Odd exponents have the upper half of a table.
fn interpolate_root(table: &[Segment], x: &Argument) -> i64 {
    let odd = (x.exponent & 1) as u32;
    interpolate(table, odd << (FRACTION - LOWER) | x.fraction >> LOWER, x.fraction & low(LOWER))
}

/// Powers of four are exact.
fn inverse_root(x: &Argument) -> Exact {
    let point = POINT + (x.exponent >> 1);
    match x.exponent & 1 == 0 && x.fraction == 0 {
        true => cut(false, 1 << POINT, point),
        false => cut(false, interpolate_root(&INVERSE_ROOT, x), point),
    }
}

/// sin of an angle in turns, some quarters further on. What is left of a quarter is taken as the complement of its bits.
fn sine(negative: bool, x: &Argument, quarters: u32) -> Exact {
    let turns = x.fixed(FRACTION + 2, 0) as u32;
    let quarter = (turns >> FRACTION) + quarters;
    let angle = turns & low(FRACTION);
    let angle = if quarter & 1 == 1 { low(FRACTION) - angle } else { angle };
    cut(negative != (quarter & 2 == 2), of_fraction(&SINE, angle), POINT)
}

/// Of a negative number that isn't whole, the complement of its bits.
fn power(negative: bool, x: &Argument) -> Exact {
    const WHOLE: u32 = 16;
    if x.exponent >= WHOLE as i32 {
        // Beyond every format's range.
        return Exact { negative: false, exponent: if negative { -40_000 } else { 40_000 }, significand: 1 };
    }
    let fixed = x.fixed(FRACTION, WHOLE);
    let (whole, fraction) = ((fixed >> FRACTION) as i32, fixed as u32 & low(FRACTION));
    let (whole, fraction) = match (negative, fraction) {
        (false, _) => (whole, fraction),
        (true, 0) => (-whole, 0),
        (true, _) => (!whole, low(FRACTION) - fraction),
    };
    cut(false, of_fraction(&POWER, fraction), POINT - 1 - whole)
}

/// Two digits fewer than the table has, and the complement of a negative result. One is exact.
fn logarithm(x: &Argument) -> Exact {
    const DIGITS: u32 = 36;
    if x.exponent == 0 && x.fraction == 0 {
        return cut(false, 0, 0);
    }
    let value = (i64::from(x.exponent) << DIGITS) + (of_fraction(&LOGARITHM, x.fraction) >> 2);
    cut(value < 0, if value < 0 { !value } else { value }, DIGITS as i32)
}

/// The first exponent of the table of tanh; bits of the fraction that choose a segment, for it and those after it.
const FIRST_BINADE: i32 = -8;
const BINADES: [u32; 11] = [0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3];

/// Small arguments are results, large ones give one.
fn tangent(x: Exact, argument: &Argument) -> Exact {
    let Ok(binade) = usize::try_from(argument.exponent - FIRST_BINADE) else { return x };
    let Some(bits) = BINADES.get(binade) else {
        return Exact { negative: x.negative, exponent: 0, significand: 1 };
    };
    let before: u32 = BINADES.iter().take(binade).map(|bits| 1 << bits).sum();
    let rest = FRACTION - bits;
    let t = (argument.fraction & low(rest)) >> (rest - LOWER);
    cut(x.negative, interpolate(&TANGENT, before + (argument.fraction >> rest), t), POINT)
}
