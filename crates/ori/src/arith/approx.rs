//! The approximate functions.
//!
//! The tables of the hardware's function unit are not public, so its results can't be matched bit for bit. Here
//! each function is computed in fixed point with about 55 good bits and rounded once to the format: within half
//! a unit in the last place and 2^-20 of one. The hardware's own error is larger (2^-20.9 absolute for sin and
//! cos, 2 units in the last place for ex2, 1 for rcp and rsqrt, by the PTX manual), so a comparison with
//! hardware allows that. [`compute`] is the one place to replace when tables are known.

use super::float::{self, Exact, F32, F64, Flow, Format, Rounding};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    Rcp,
    Rsqrt,
    Sqrt,
    /// Of an angle in turns, as the machine takes it.
    Sin,
    Cos,
    Ex2,
    Lg2,
    Tanh,
}

/// The function of one value. With `flow.ftz` subnormal arguments and results are zero.
pub fn compute(function: Function, format: Format, flow: Flow, a: u64) -> u64 {
    let a = if flow.ftz { format.flush(a) } else { a };
    let bits = match special(function, format, a) {
        Some(bits) => bits,
        None => match function {
            Function::Rcp => float::rcp(format, Flow::NEAREST, a),
            Function::Sqrt => float::sqrt(format, Flow::NEAREST, a),
            _ => value(function, Exact::decode(format, a)).round(format, Flow::NEAREST),
        },
    };
    flow.result(format, bits)
}

/// Results for NaN, infinities, zeros and arguments outside of the function's domain.
fn special(function: Function, format: Format, a: u64) -> Option<u64> {
    let negative = format.is_negative(a);
    let sign = a & format.sign_bit();
    if format.is_nan(a) {
        let quiet = 1 << (format.mantissa - 1);
        return Some(if format == F64 { a | quiet } else { format.nan });
    }
    let below_zero = negative && !format.is_zero(a);
    Some(match function {
        Function::Rsqrt | Function::Sqrt | Function::Lg2 if below_zero => format.nan,
        Function::Rsqrt if format.is_zero(a) => sign | format.infinity(),
        Function::Lg2 if format.is_zero(a) => format.sign_bit() | format.infinity(),
        Function::Ex2 | Function::Cos if format.is_zero(a) => format.one(),
        Function::Sin | Function::Tanh if format.is_zero(a) => a,
        Function::Sin | Function::Cos if format.is_infinite(a) => format.nan,
        Function::Rsqrt if format.is_infinite(a) => 0,
        Function::Lg2 if format.is_infinite(a) => a,
        Function::Ex2 if format.is_infinite(a) => {
            if negative {
                0
            } else {
                a
            }
        }
        Function::Tanh if format.is_infinite(a) => sign | format.one(),
        _ => return None,
    })
}

fn value(function: Function, x: Exact) -> Exact {
    match function {
        Function::Sin => sine(x),
        Function::Cos => cosine(x),
        Function::Ex2 => power_of_two(x),
        Function::Lg2 => logarithm(x),
        Function::Tanh => hyperbolic_tangent(x),
        Function::Rsqrt | Function::Rcp | Function::Sqrt => inverse_root(x),
    }
}

/// Fixed point: 62 bits behind the point.
const POINT: u32 = 62;
const ONE: u128 = 1 << POINT;
/// pi / 2 and 1 / ln 2, rounded to 62 bits behind the point.
const HALF_PI: u128 = 0x6487_ed51_10b4_611a;
const LOG2_E: u128 = 0x5c55_1d94_ae0b_f85e;

fn multiply(a: u128, b: u128) -> u128 {
    (a * b) >> POINT
}

fn fixed(negative: bool, significand: u128) -> Exact {
    Exact { negative, exponent: -(POINT as i32), significand }
}

/// The magnitude in fixed point, with what is below cut off and multiples of `2^modulus` left out.
fn to_fixed(x: Exact, modulus: u32) -> u128 {
    let shift = x.exponent + POINT as i32;
    let shifted = match shift {
        0.. if shift >= (POINT + modulus) as i32 => 0,
        0.. => x.significand << shift,
        _ => x.significand.checked_shr(shift.unsigned_abs()).unwrap_or(0),
    };
    shifted & ((1 << (POINT + modulus)) - 1)
}

/// The place of the highest bit's weight: floor(log2 |x|).
fn magnitude(x: Exact) -> i32 {
    x.exponent + 127 - x.significand.leading_zeros() as i32
}

/// A small value times a constant below 8 in fixed point.
fn scaled(x: Exact, constant: u128) -> Exact {
    Exact { exponent: x.exponent - POINT as i32, significand: x.significand * constant, ..x }
}

/// sin of `angle` in [0, pi/2], by its series.
fn sine_series(angle: u128) -> u128 {
    let square = multiply(angle, angle);
    let (mut term, mut sum) = (angle, angle as i128);
    for n in (3..27u128).step_by(2) {
        term = multiply(term, square) / (n * (n - 1));
        sum += if n % 4 == 3 { -(term as i128) } else { term as i128 };
    }
    sum.max(0) as u128
}

fn cosine_series(angle: u128) -> u128 {
    let square = multiply(angle, angle);
    let (mut term, mut sum) = (ONE, ONE as i128);
    for n in (2..28u128).step_by(2) {
        term = multiply(term, square) / (n * (n - 1));
        sum += if n % 4 == 2 { -(term as i128) } else { term as i128 };
    }
    sum.max(0) as u128
}

/// Quadrant and angle inside of it, of a number of turns.
fn quadrant(x: Exact) -> (u128, u128) {
    let turns = to_fixed(x, 0);
    (turns >> (POINT - 2), multiply(turns << 2 & (ONE - 1), HALF_PI))
}

/// sin(2 pi x) of x not zero.
fn sine(x: Exact) -> Exact {
    // Below 2^-30 the series ends after its first term.
    if magnitude(x) < -30 {
        return scaled(x, HALF_PI << 2);
    }
    let (quadrant, angle) = quadrant(x);
    let value = if quadrant & 1 == 0 { sine_series(angle) } else { cosine_series(angle) };
    fixed(x.negative != (quadrant >= 2), value)
}

fn cosine(x: Exact) -> Exact {
    let (quadrant, angle) = quadrant(x);
    let value = if quadrant & 1 == 0 { cosine_series(angle) } else { sine_series(angle) };
    fixed(quadrant == 1 || quadrant == 2, value)
}

/// 2^(1/2), 2^(1/4), 2^(1/8), …
const ROOTS: [u128; POINT as usize] = {
    let mut roots = [0; POINT as usize];
    let mut root = 2 * ONE;
    let mut i = 0;
    while i < roots.len() {
        root = (root << POINT).isqrt();
        roots[i] = root;
        i += 1;
    }
    roots
};

/// 2^f of f in [0, 1).
fn power_of_fraction(f: u128) -> u128 {
    ROOTS.iter().enumerate().fold(ONE, |product, (i, root)| {
        if f >> (POINT as usize - 1 - i) & 1 == 1 { multiply(product, *root) } else { product }
    })
}

fn power_of_two(x: Exact) -> Exact {
    if magnitude(x) >= 15 {
        // Beyond every format's range: far over the top or under the bottom.
        let exponent = if x.negative { -40_000 } else { 40_000 };
        return Exact { negative: false, exponent, significand: 1 };
    }
    let fixed_point = to_fixed(x, 15);
    let (whole, fraction) = ((fixed_point >> POINT) as i32, fixed_point & (ONE - 1));
    let lost = fixed_point == 0;
    let (whole, fraction) = match (x.negative, fraction) {
        (false, _) => (whole, fraction),
        (true, 0) => (-whole, 0),
        (true, _) => (-whole - 1, ONE - fraction),
    };
    // An argument too small for the fixed point still makes the result inexact.
    let significand = power_of_fraction(fraction) | u128::from(lost);
    Exact { negative: false, exponent: whole - POINT as i32, significand }
}

/// log2 of x > 0: one bit of the fraction per squaring.
fn logarithm(x: Exact) -> Exact {
    let whole = magnitude(x);
    let mut mantissa = match POINT as i32 - (whole - x.exponent) {
        left @ 0.. => x.significand << left,
        right => x.significand >> right.unsigned_abs(),
    };
    let mut fraction = 0u128;
    for place in (0..POINT).rev() {
        mantissa = multiply(mantissa, mantissa);
        if mantissa >= 2 * ONE {
            mantissa >>= 1;
            fraction |= 1 << place;
        }
    }
    let sum = i128::from(whole) * ONE as i128 + fraction as i128;
    fixed(sum < 0, sum.unsigned_abs())
}

fn hyperbolic_tangent(x: Exact) -> Exact {
    match magnitude(x) {
        // x less a third of its cube: below 2^-20 that is under half a unit of any result.
        ..-20 => Exact { exponent: x.exponent - 40, significand: (x.significand << 40) - 1, ..x },
        4.. => Exact { negative: x.negative, exponent: 0, significand: 1 },
        // 1 - 2 / (e^2x + 1); the product is kept below 128 bits.
        _ => {
            let doubled = to_fixed(x, 4) << 1;
            let exponent = ((doubled >> 8) * LOG2_E) >> (POINT - 8);
            let power = power_of_fraction(exponent & (ONE - 1)) << (exponent >> POINT).min(60);
            let quotient = ((2 * ONE) << POINT) / (power + ONE);
            fixed(x.negative, ONE - quotient)
        }
    }
}

/// x^(-1/2)
fn inverse_root(x: Exact) -> Exact {
    let odd = x.exponent & 1;
    let (significand, exponent) = (x.significand << odd, x.exponent - odd);
    let widened = significand.leading_zeros().saturating_sub(1) & !1;
    let root = (significand << widened).isqrt();
    Exact {
        negative: false,
        exponent: -126 - (exponent - widened as i32) / 2,
        significand: (1 << 126) / root,
    }
}

/// `a / b` as ptxas computes `div.approx` and `div.full`: with a reciprocal, and scaled where that would leave
/// the range of normal numbers.
pub fn divide(full: bool, ftz: bool, a: u64, b: u64) -> u64 {
    let flow = Flow { ftz, ..Flow::NEAREST };
    let times = |x: u64, factor: f32| float::mul(F32, flow, x, u64::from(factor.to_bits()));
    let size = b & !F32.sign_bit();
    let (a, b) = if size < 1 << F32.mantissa && !ftz {
        (times(a, 16_777_216.0), times(b, 16_777_216.0))
    } else if full && size > u64::from(2f32.powi(126).to_bits()) {
        (times(a, 0.25), times(b, 0.25))
    } else {
        (a, b)
    };
    let reciprocal = compute(Function::Rcp, F32, Flow { ftz: true, ..Flow::NEAREST }, b);
    float::mul(F32, flow, a, reciprocal)
}

/// `sin.approx` and `cos.approx` of PTX, in radians: ptxas divides by 2 pi, rounding to zero. The machine's
/// function flushes subnormal numbers, whether PTX asks for it or not (seen on an H200).
pub fn of_radians(function: Function, flow: Flow, a: u64) -> u64 {
    const INVERSE_TWO_PI: u64 = 0x3e22_f983;
    let to_zero = Flow { rounding: Rounding::Zero, ftz: flow.ftz, ..Flow::NEAREST };
    let flushing = Flow { ftz: true, ..flow };
    compute(function, F32, flushing, float::mul(F32, to_zero, a, INVERSE_TWO_PI))
}

/// The upper word of a double's reciprocal or inverse square root; the machine gives no more (`MUFU.RCP64H`).
/// Rounded to nearest at the 20 bits that there are; every NaN becomes one (seen on an H200).
pub fn upper_word(function: Function, high: u32) -> u32 {
    let flow = Flow { ftz: true, ..Flow::NEAREST };
    let result = compute(function, F64, flow, u64::from(high) << 32);
    if F64.is_nan(result) {
        return 0x7fff_ffff;
    }
    if F64.is_infinite(result) {
        return (result >> 32) as u32;
    }
    (result.saturating_add(1 << 31) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::float::F16;

    /// The host's library in double precision, as an independent formulation: within 2^-20 of a unit of f32.
    #[test]
    fn close_to_double_precision() {
        type Pair = (Function, fn(f64) -> f64);
        let functions: [Pair; 8] = [
            (Function::Rcp, |x| 1.0 / x),
            (Function::Rsqrt, |x| 1.0 / x.sqrt()),
            (Function::Sqrt, f64::sqrt),
            (Function::Sin, |x| (2.0 * std::f64::consts::PI * (x - x.round())).sin()),
            (Function::Cos, |x| (2.0 * std::f64::consts::PI * (x - x.round())).cos()),
            (Function::Ex2, f64::exp2),
            (Function::Lg2, f64::log2),
            (Function::Tanh, f64::tanh),
        ];
        let mut seed = 12345u32;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for (function, host) in functions {
                // Magnitudes from 2^-60 to 2^7, and some of everything.
                let exponent = if seed & 7 == 0 { seed >> 23 & 0xff } else { 67 + (seed >> 24) % 67 };
                let x = f32::from_bits(seed & 0x807f_ffff | exponent << 23);
                let bits = compute(function, F32, Flow::NEAREST, u64::from(x.to_bits()));
                let (got, expected) = (f32::from_bits(bits as u32), host(f64::from(x)) as f32);
                if expected.is_nan() {
                    assert!(got.is_nan(), "{function:?} {x:e}: {got:e}");
                    continue;
                }
                // The host's reduction of large angles loses bits where the result is near zero.
                let slack = match function {
                    Function::Sin | Function::Cos => 1e-15,
                    _ => 0.0,
                };
                let near = (f64::from(got) - f64::from(expected)).abs() <= slack
                    || (got.to_bits() as i64 - expected.to_bits() as i64).abs() <= 1;
                assert!(near, "{function:?} {x:e}: {got:e}, not {expected:e}");
            }
        }
    }

    #[test]
    fn special_values() {
        let of = |function, x: f32| {
            f32::from_bits(compute(function, F32, Flow::NEAREST, u64::from(x.to_bits())) as u32)
        };
        assert_eq!(of(Function::Ex2, f32::NEG_INFINITY), 0.0);
        assert_eq!(of(Function::Ex2, 1000.0), f32::INFINITY);
        assert_eq!(of(Function::Ex2, -1000.0), 0.0);
        assert_eq!(of(Function::Ex2, -149.0), f32::from_bits(1));
        assert_eq!(of(Function::Lg2, 0.0), f32::NEG_INFINITY);
        assert_eq!(of(Function::Lg2, 8.0), 3.0);
        assert_eq!(of(Function::Lg2, 0.25), -2.0);
        assert!(of(Function::Lg2, -1.0).is_nan());
        assert_eq!(of(Function::Rsqrt, 4.0), 0.5);
        assert_eq!(of(Function::Rsqrt, -0.0), f32::NEG_INFINITY);
        assert_eq!(of(Function::Tanh, 100.0), 1.0);
        assert_eq!(of(Function::Sin, 0.25), 1.0);
        assert_eq!(of(Function::Cos, 0.5), -1.0);
        assert_eq!(compute(Function::Ex2, F16, Flow::NEAREST, 0x4200), 0x4800);
    }

    #[test]
    fn division_leaves_out_what_the_machine_leaves_out() {
        let divide = |full, a: f32, b: f32| {
            f32::from_bits(divide(full, false, a.to_bits().into(), b.to_bits().into()) as u32)
        };
        assert_eq!(divide(false, 6.0, 3.0), 2.0);
        assert_eq!(divide(false, 1.0, 2f32.powi(127)), 0.0);
        assert_eq!(divide(true, 2f32.powi(120), 2f32.powi(127)), 2f32.powi(-7));
        assert_eq!(divide(false, 2f32.powi(-130), 2f32.powi(-130)), 1.0);
    }

    #[test]
    fn upper_words() {
        assert_eq!(upper_word(Function::Rcp, 0x4000_0000), 0x3fe0_0000);
        assert_eq!(upper_word(Function::Rsqrt, 0x4010_0000), 0x3fe0_0000);
        assert_eq!(upper_word(Function::Rcp, 0), 0x7ff0_0000);
        assert_eq!(upper_word(Function::Rcp, 0xfff8_0000), 0x7fff_ffff);
    }
}
