//! Sums of products, as matrix instructions have them.
//!
//! PTX leaves open in which order floats are added and how precise the sums are on the way. Here they are added one
//! after the other as f64, and rounded once at the end: what a machine gives is the same wherever all sums are exact.

use super::convert::float_to_float;
use super::float::{self, F64, Flow, Format};
use super::integer::Int;

/// `c + a0*b0 + a1*b1 + …` for floats narrower than f64.
pub fn dot((a, b): (Format, Format), to: Format, pairs: impl Iterator<Item = (u64, u64)>, c: u64) -> u64 {
    let wide = |from: Format, bits: u64| float_to_float(from, F64, Flow::NEAREST, bits);
    let sum =
        pairs.fold(wide(to, c), |sum, (x, y)| float::fma(F64, Flow::NEAREST, wide(a, x), wide(b, y), sum));
    // There is one NaN, whatever came in: seen on an H200.
    if F64.is_nan(sum) { to.nan } else { float_to_float(F64, to, Flow::NEAREST, sum) }
}

/// The same for f64, where every step rounds.
pub fn dot64(flow: Flow, pairs: impl Iterator<Item = (u64, u64)>, c: u64) -> u64 {
    pairs.fold(c, |sum, (x, y)| float::fma(F64, flow, x, y, sum))
}

/// The same for small integers; the sum has 32 bits and wraps around, or stops at its ends.
pub fn dot_integers(
    (a, b): (Int, Int),
    saturate: bool,
    pairs: impl Iterator<Item = (u64, u64)>,
    c: u64,
) -> u64 {
    let sum = pairs.fold(Int::S32.value(c), |sum, (x, y)| sum + a.value(x) * b.value(y));
    if saturate { Int::S32.saturate(sum) } else { Int::S32.wrap(sum) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::float::{E4M3, F16, F32};

    #[test]
    fn floats() {
        // 3 + 1*2 + 0.5*0.5 in f16 and in 8 bits.
        let pairs = [(0x3c00, 0x4000), (0x3800, 0x3800)];
        let sum = dot((F16, F16), F32, pairs.into_iter(), u64::from(3f32.to_bits()));
        assert_eq!(sum, u64::from(5.25f32.to_bits()));
        let small = dot((E4M3, E4M3), F32, [(0x38, 0x40), (0x30, 0x30)].into_iter(), 0);
        assert_eq!(small, u64::from(2.25f32.to_bits()));
        let wide = dot64(Flow::NEAREST, [(2f64.to_bits(), 0.25f64.to_bits())].into_iter(), 1f64.to_bits());
        assert_eq!(wide, 1.5f64.to_bits());
        let infinite = dot((F16, F16), F16, [(0x7bff, 0x7bff)].into_iter(), 0);
        assert_eq!(infinite, 0x7c00);
    }

    #[test]
    fn integers() {
        let (signed, unsigned) = (Int { bits: 4, signed: true }, Int { bits: 4, signed: false });
        assert_eq!(dot_integers((signed, unsigned), false, [(0xf, 0xf), (7, 2)].into_iter(), 10), 9);
        let most = i32::MAX as u64;
        assert_eq!(dot_integers((Int::S8, Int::S8), true, [(1, 1)].into_iter(), most), most);
        assert_eq!(dot_integers((Int::S8, Int::S8), false, [(1, 1)].into_iter(), most), 0x8000_0000);
    }
}
