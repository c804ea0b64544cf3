//! The approximate functions.
//!
//! [`compute`] gives what Hopper gives, bit for bit: its function unit is [`mod@unit`], with coefficients that were fitted to
//! results of an H200. Around it are special values, and what ptxas makes of functions without `.ftz`.

mod tables;
mod unit;

use super::float::{self, Exact, F32, F64, Flow, Format, Rounding};

/// A function of the approximation unit (MUFU).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// `1 / x`
    Rcp,
    /// `1 / sqrt(x)`
    Rsqrt,
    /// `sqrt(x)`
    Sqrt,
    /// Of an angle in turns, as the machine takes it.
    Sin,
    /// `cos`, of an angle in turns too.
    Cos,
    /// `2^x`
    Ex2,
    /// `log2(x)`
    Lg2,
    /// `tanh(x)`
    Tanh,
}

/// The function of one value. With `flow.ftz` subnormal arguments and results are zero.
pub fn compute(function: Function, format: Format, flow: Flow, a: u64) -> u64 {
    let a = if flow.ftz { format.flush(a) } else { a };
    let bits = match special(function, format, a) {
        Some(bits) => bits,
        None => evaluate(function, format, flow, a),
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
        Function::Rcp | Function::Rsqrt if format.is_zero(a) => sign | format.infinity(),
        Function::Rcp if format.is_infinite(a) => sign,
        Function::Sqrt if format.is_zero(a) || format.is_infinite(a) => a,
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

/// The function of a number that is none of the above.
fn evaluate(function: Function, format: Format, flow: Flow, a: u64) -> u64 {
    let x = Exact::decode(format, a);
    let of = |x: Exact| unit::evaluate(function, x).round(format, Flow::NEAREST);
    match function {
        // Without `.ftz`, ptxas keeps arguments and results of the unit among normal numbers.
        Function::Ex2 if format == F32 && !flow.ftz && is_below_minus_126(a) => {
            let root = of(Exact { exponent: x.exponent - 1, ..x });
            float::mul(F32, Flow::NEAREST, root, root)
        }
        Function::Lg2 if format == F32 && format.is_subnormal(a) => {
            let large = of(Exact { exponent: x.exponent + 24, ..x });
            float::add(F32, Flow::NEAREST, large, u64::from((-24f32).to_bits()))
        }
        // ptxas goes on from what the unit gives until all digits are right.
        Function::Rsqrt if format == F64 && !flow.ftz => inverse_root(x).round(F64, Flow::NEAREST),
        // Halves are what is left of an f32: cut off.
        _ if format.width() == 16 => {
            let exact = unit::evaluate(function, x);
            let nearest = exact.round(format, Flow::NEAREST);
            let cut = exact.round(format, Flow::rounding(Rounding::Zero));
            if format.is_infinite(nearest) { nearest } else { cut }
        }
        _ => of(x),
    }
}

/// x^(-1/2), to more digits than any format has.
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

fn is_below_minus_126(a: u64) -> bool {
    f32::from_bits(a as u32) < -126.0
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
/// Cut off at the 20 bits that there are; every NaN becomes one (seen on an H200).
pub fn upper_word(function: Function, high: u32) -> u32 {
    let flow = Flow { ftz: true, ..Flow::NEAREST };
    let result = compute(function, F64, flow, u64::from(high) << 32);
    if F64.is_nan(result) {
        return 0x7fff_ffff;
    }
    (result >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::float::{BF16, F16};

    const NAMES: [(&str, Function, Format); 12] = [
        ("rcp", Function::Rcp, F32),
        ("rsq", Function::Rsqrt, F32),
        ("sqrt", Function::Sqrt, F32),
        ("ex2", Function::Ex2, F32),
        ("lg2", Function::Lg2, F32),
        ("sin", Function::Sin, F32),
        ("cos", Function::Cos, F32),
        ("tanh", Function::Tanh, F32),
        ("ex2h", Function::Ex2, F16),
        ("tanhh", Function::Tanh, F16),
        ("ex2b", Function::Ex2, BF16),
        ("tanhb", Function::Tanh, BF16),
    ];

    /// The unit as instructions see it: tanh and functions of f16 take and give subnormal numbers.
    fn on_machine(name: &str, x: u32) -> u32 {
        match name {
            "rcp64h" => return upper_word(Function::Rcp, x),
            "rsq64h" => return upper_word(Function::Rsqrt, x),
            _ => {}
        }
        let (_, function, format) = *NAMES.iter().find(|(known, ..)| *known == name).expect("a function");
        let flow = Flow { ftz: format != F16 && function != Function::Tanh, ..Flow::NEAREST };
        compute(function, format, flow, x.into()) as u32
    }

    /// Values, and sums over blocks of 65,536 arguments, that were recorded on an H200.
    #[test]
    fn as_on_an_h200() {
        let recorded = include_str!("approx/h200.txt").lines().filter(|line| !line.starts_with('#'));
        let mut wrong = Vec::new();
        for line in recorded {
            let [name, what, first, second] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let number = |text: &str| u32::from_str_radix(text, 16).expect("a number");
            let (first, expected) = (number(first), number(second));
            let got = match what {
                "value" => on_machine(name, first),
                _ => (0..65536).fold(0u32, |sum, i| {
                    sum.wrapping_add(on_machine(name, first << 16 | i).wrapping_mul(2 * i + 1))
                }),
            };
            if got != expected {
                wrong.push(format!("{line}: {got:08x}"));
            }
        }
        assert!(wrong.is_empty(), "{} differ: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
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
        assert_eq!(of(Function::Lg2, 0.25), -1.999_999_9, "as on the machine");
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
