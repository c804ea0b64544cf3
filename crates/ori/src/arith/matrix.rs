//! Sums of products, as the matrix units of a machine form them.
//!
//! PTX leaves open in which order floats are added and how precise the sums are on the way. The units add some products
//! and the addend in one go: each term is cut off some bits below the largest one, the sum of what is left is exact, and
//! it is cut off, not rounded, to an f32, but rounded to an f16. The largest term is the one with the largest sum of
//! exponents; that the product of two significands may reach two makes no difference. A sum of zeros, one that cancels and
//! one that is too small are all +0: among 3 million sums of zeros, subnormal and edge numbers (f16, bf16 and tf32, f16 and
//! f32 sums) an H200 gave no -0.
//!
//! [`Accuracy`] has the numbers of Hopper. They give the bits of an H200 for all products that it was asked about, of
//! numbers with random digits and exponents: 7 kinds of `mma` and 7 of `wgmma`, 4,000 sums of each.

use super::convert::float_to_float;
use super::float::{self, Exact, F16, F32, F64, Flow, Format, Rounding};
use super::integer::Int;

/// What a float is, apart from its digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Finite,
    Infinite,
    Nan,
}

/// A float of at most 24 digits, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    class: Class,
    /// With the sign of the number.
    significand: i64,
    /// Of the significand's lowest bit.
    lowest: i32,
    /// Of the highest bit that the format has for a number of this exponent field.
    exponent: i32,
}

impl Factor {
    /// Unpacks a number.
    pub fn new(format: Format, bits: u64) -> Factor {
        let class = match () {
            () if format.is_nan(bits) => Class::Nan,
            () if format.is_infinite(bits) => Class::Infinite,
            () => Class::Finite,
        };
        let Exact { negative, exponent: lowest, significand } = match class {
            // Only the sign of an infinity matters.
            Class::Infinite => Exact { negative: format.is_negative(bits), exponent: 0, significand: 1 },
            _ => Exact::decode(format, bits),
        };
        let magnitude = significand as i64;
        let significand = if negative { -magnitude } else { magnitude };
        Factor { class, significand, lowest, exponent: lowest + format.mantissa as i32 }
    }

    fn times(self, other: Factor) -> Factor {
        let zero = |factor: Factor| factor.class == Class::Finite && factor.significand == 0;
        let infinite = self.class == Class::Infinite || other.class == Class::Infinite;
        let class = match () {
            () if self.class == Class::Nan || other.class == Class::Nan => Class::Nan,
            () if infinite && (zero(self) || zero(other)) => Class::Nan,
            () if infinite => Class::Infinite,
            () => Class::Finite,
        };
        Factor {
            class,
            significand: self.significand * other.significand,
            lowest: self.lowest + other.lowest,
            exponent: self.exponent + other.exponent,
        }
    }

    /// In units of 2^`unit`, the rest cut off.
    fn in_units(self, unit: i32) -> i64 {
        match self.lowest - unit {
            left @ 0.. => self.significand << left.min(40),
            right => {
                let kept = self.significand.unsigned_abs().checked_shr(right.unsigned_abs()).unwrap_or(0);
                if self.significand < 0 { -(kept as i64) } else { kept as i64 }
            }
        }
    }
}

/// How a unit adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accuracy {
    /// Products that are added in one go.
    pub terms: usize,
    /// Bits that are kept below the highest bit of the largest term.
    pub fraction: i32,
    /// Bits that are kept below the highest bit of a sum that is an f32.
    pub digits: i32,
}

impl Accuracy {
    /// Hopper, for factors of 16 bits and more.
    pub const WIDE: Accuracy = Accuracy { terms: 16, fraction: 25, digits: 23 };

    /// Hopper's warpgroups, for factors of 8 bits.
    pub const NARROW: Accuracy = Accuracy { terms: 32, fraction: 13, digits: 13 };

    /// A few products and what was there before, in one go.
    fn add(self, terms: &[Factor], to: Format) -> u64 {
        let class = |class: Class| terms.iter().filter(move |term| term.class == class);
        if class(Class::Nan).next().is_some() {
            return to.nan;
        }
        if let Some(first) = class(Class::Infinite).next() {
            let same = class(Class::Infinite).all(|term| (term.significand < 0) == (first.significand < 0));
            let sign = if first.significand < 0 { to.sign_bit() } else { 0 };
            return if same { sign | to.infinity() } else { to.nan };
        }
        let largest = terms.iter().filter(|term| term.significand != 0).map(|term| term.exponent).max();
        let Some(largest) = largest else {
            return 0;
        };
        let unit = largest - self.fraction;
        let sum: i64 = terms.iter().map(|term| term.in_units(unit)).sum();
        let exact = Exact { negative: sum < 0, exponent: unit, significand: sum.unsigned_abs().into() };
        let bits = if to == F16 {
            exact.round(to, Flow::NEAREST)
        } else {
            let cut = to.mantissa.saturating_sub(self.digits as u32);
            exact.round(to, Flow::rounding(Rounding::Zero)) & u64::MAX << cut
        };
        if bits & !to.sign_bit() == 0 {
            return 0;
        }
        // What is too large is infinite, though it is cut off.
        let top = exact.exponent + 127 - exact.significand.leading_zeros() as i32;
        let largest = (1 << (to.exponent - 1)) - 1;
        if top > largest { bits & to.sign_bit() | to.infinity() } else { bits }
    }
}

/// `c + a0*b0 + a1*b1 + …` for floats narrower than f64.
pub fn dot(accuracy: Accuracy, to: Format, pairs: impl Iterator<Item = (Factor, Factor)>, c: u64) -> u64 {
    let mut products = pairs.map(|(a, b)| a.times(b)).peekable();
    let mut terms = Vec::with_capacity(accuracy.terms + 1);
    let mut sum = c;
    while products.peek().is_some() {
        terms.clear();
        terms.extend(products.by_ref().take(accuracy.terms.max(1)));
        terms.push(Factor::new(to, sum));
        sum = accuracy.add(&terms, to);
    }
    sum
}

/// The same for factors of 8 bits in a warp, which Hopper has no unit for: they become f16. Of each four products the
/// first two are summed up, then the others are added, and the addend at the end. So does the code that ptxas makes.
pub fn dot_in_halves(to: Format, pairs: impl Iterator<Item = (Factor, Factor)> + Clone, c: u64) -> u64 {
    let half = |second: bool| {
        let numbered = pairs.clone().enumerate();
        numbered.filter(move |(k, _)| (k % 4 >= 2) == second).map(|(_, pair)| pair)
    };
    let first = dot(Accuracy::WIDE, to, half(false), 0);
    let both = dot(Accuracy::WIDE, to, half(true), first);
    float::add(to, Flow::NEAREST, both, c)
}

/// The same for f64, where every step rounds.
pub fn dot64(flow: Flow, pairs: impl Iterator<Item = (u64, u64)>, c: u64) -> u64 {
    pairs.fold(c, |sum, (x, y)| float::fma(F64, flow, x, y, sum))
}

/// The same for four products of f16 where no unit has so few: ptxas's code and ours have f32 in between and round at
/// every step. For an f32 the products are added one after the other, for an f16 by pairs.
pub fn dot_of_four(to: Format, a: [u64; 4], b: [u64; 4], c: u64) -> u64 {
    let flow = Flow::NEAREST;
    let wide = |half: u64| float_to_float(F16, F32, flow, half);
    let fma = |k: usize, sum: u64| float::fma(F32, flow, wide(a[k]), wide(b[k]), sum);
    if to == F32 {
        return float::add(F32, flow, c, (0..4).fold(0, |sum, k| fma(k, sum)));
    }
    let pair = |k: usize| fma(k + 1, float::mul(F32, flow, wide(a[k]), wide(b[k])));
    let first = float::add(F32, flow, wide(c), pair(0));
    float_to_float(F32, to, flow, float::add(F32, flow, first, pair(2)))
}

/// The same for small integers; the sum has 32 bits and wraps around, or stops at its ends.
pub fn dot_integers(saturate: bool, pairs: impl Iterator<Item = (i64, i64)>, c: u64) -> u64 {
    let sum: i64 = pairs.map(|(a, b)| a * b).sum();
    let sum = Int::S32.value(c) + i128::from(sum);
    if saturate { Int::S32.saturate(sum) } else { Int::S32.wrap(sum) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::float::{BF16, E4M3};

    fn floats(format: Format, to: Format, pairs: &[(u64, u64)], c: u64) -> u64 {
        let pairs = pairs.iter().map(|(a, b)| (Factor::new(format, *a), Factor::new(format, *b)));
        dot(Accuracy::WIDE, to, pairs, c)
    }

    #[test]
    fn exact_sums() {
        // 3 + 1*2 + 0.5*0.5 in f16 and in 8 bits.
        let sum = floats(F16, F32, &[(0x3c00, 0x4000), (0x3800, 0x3800)], u64::from(3f32.to_bits()));
        assert_eq!(sum, u64::from(5.25f32.to_bits()));
        let small = floats(E4M3, F32, &[(0x38, 0x40), (0x30, 0x30)], 0);
        assert_eq!(small, u64::from(2.25f32.to_bits()));
        let wide = dot64(Flow::NEAREST, [(2f64.to_bits(), 0.25f64.to_bits())].into_iter(), 1f64.to_bits());
        assert_eq!(wide, 1.5f64.to_bits());
    }

    #[test]
    fn four_products_round_at_every_step() {
        let (one, big, tiny) = (0x3c00, 0x7bff, 0x0001);
        // 1 after 65504 * 65504 is lost, and so is what was there before.
        let row = [big, one, big | 0x8000, 0];
        let before = u64::from(0.5f32.to_bits());
        assert_eq!(dot_of_four(F32, row, [big, one, big, 0], before), before);
        // In pairs, both pairs are rounded before they meet.
        assert_eq!(dot_of_four(F16, row, [big, one, big, 0], 0x3800), 0);
        assert_eq!(dot_of_four(F16, [one, tiny, 0, 0], [one, one, 0, 0], 0), one);
        assert_eq!(dot_of_four(F32, [0x7c00, 0, 0, 0], [0; 4], 0), F32.nan);
    }

    #[test]
    fn zeros_are_positive() {
        let (tiny, minus_tiny, minus_zero) = (0x0001, 0x8001, 0x8000);
        assert_eq!(floats(F16, F16, &[(tiny, minus_tiny)], 0), 0);
        assert_eq!(floats(F16, F16, &[(tiny, minus_zero)], minus_zero), 0);
        assert_eq!(floats(BF16, F32, &[(tiny, minus_tiny)], 0x8000_0000), 0);
    }

    #[test]
    fn infinities() {
        assert_eq!(floats(F16, F16, &[(0x7bff, 0x7bff)], 0), 0x7c00);
        assert_eq!(floats(F16, F32, &[(0xfc00, 0x3c00)], 0), 0xff80_0000);
        assert_eq!(floats(F16, F32, &[(0xfc00, 0x3c00), (0x7c00, 0x3c00)], 0), F32.nan);
        assert_eq!(floats(F16, F32, &[(0x7c00, 0)], 0), F32.nan);
    }

    #[test]
    fn integers() {
        assert_eq!(dot_integers(false, [(-1, 15), (7, 2)].into_iter(), 10), 9);
        let most = i32::MAX as u64;
        assert_eq!(dot_integers(true, [(1, 1)].into_iter(), most), most);
        assert_eq!(dot_integers(false, [(1, 1)].into_iter(), most), 0x8000_0000);
    }
}
