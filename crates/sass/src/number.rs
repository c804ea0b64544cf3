//! Floating-point immediates: their text is C's `%.20g`, with `+INF`, `-INF`, `+QNAN`, `-QNAN`, `+SNAN`, `-SNAN`
//! (which nvdisasm follows with a blank when another operand comes after).

use crate::form::Kind;
use std::fmt::{self, Write};

fn value(kind: Kind, bits: i64) -> f64 {
    match kind {
        Kind::Half => half_to_f64(bits as u16),
        Kind::Bfloat => f64::from(f32::from_bits((bits as u32) << 16)),
        Kind::Double => f64::from_bits((bits as u64) << 32),
        _ => f64::from(f32::from_bits(bits as u32)),
    }
}

/// What is printed as a word: infinities, NaNs and minus zero.
pub(crate) fn is_special(kind: Kind, bits: i64) -> bool {
    let value = value(kind, bits);
    !value.is_finite() || value == 0.0 && value.is_sign_negative()
}

/// The text says all of the bits: a NaN's does only for the payload that `parse` gives it.
pub(crate) fn reads_back(kind: Kind, number: i64) -> bool {
    let mut text = String::new();
    !value(kind, number).is_nan()
        || write(&mut text, kind, number).is_ok()
            && parse(&text).and_then(|value| bits(kind, value)) == Some(number)
}

/// Writes the number whose bits an immediate of this kind holds.
pub(crate) fn write(f: &mut dyn Write, kind: Kind, bits: i64) -> fmt::Result {
    let quiet = match kind {
        Kind::Half => 0x200,
        Kind::Bfloat => 0x40,
        Kind::Double => 0x8_0000,
        _ => 0x40_0000,
    };
    let value = value(kind, bits);
    let sign = if value.is_sign_negative() { '-' } else { '+' };
    if value.is_nan() {
        write!(f, "{sign}{}", if bits & quiet != 0 { "QNAN" } else { "SNAN" })
    } else if value.is_infinite() {
        write!(f, "{sign}INF")
    } else {
        write_g20(f, value)
    }
}

/// `%.20g` (twenty significant digits, no trailing zeros, exponent form below 1e-4), and `%.20e` from 1e9 on.
fn write_g20(f: &mut dyn Write, value: f64) -> fmt::Result {
    if value == 0.0 {
        return f.write_str(if value.is_sign_negative() { "-0.0" } else { "0" });
    }
    if value.abs() >= 1e9 {
        let text = format!("{value:.20e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return write!(f, "{digits}e+{exponent:0>2}");
    }
    let text = format!("{value:.19e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let digits: String = digits.chars().filter(|c| *c != '.').collect();
    let digits = digits.trim_end_matches('0');
    let (first, rest) = digits.split_at(1.min(digits.len()));
    f.write_str(sign)?;
    match exponent {
        -4..=-1 => write!(f, "0.{}{digits}", "0".repeat((-1 - exponent) as usize)),
        0.. => {
            let whole = exponent as usize + 1;
            if digits.len() <= whole {
                write!(f, "{digits}{}", "0".repeat(whole - digits.len()))
            } else {
                write!(f, "{}.{}", &digits[..whole], &digits[whole..])
            }
        }
        _ => {
            let dot = if rest.is_empty() { "" } else { "." };
            write!(f, "{first}{dot}{rest}e-{:02}", exponent.abs())
        }
    }
}

/// The bits of a number in the format of an immediate; nothing if the format cannot hold it exactly.
pub(crate) fn bits(kind: Kind, value: f64) -> Option<i64> {
    let (bits, back) = match kind {
        Kind::Half => {
            let bits = f64_to_half(value);
            (i64::from(bits), half_to_f64(bits))
        }
        Kind::Bfloat => {
            let bits = f64_to_f32(value).to_bits() >> 16;
            (i64::from(bits), f64::from(f32::from_bits(bits << 16)))
        }
        Kind::Double => {
            let bits = value.to_bits() >> 32;
            (bits as i64, f64::from_bits(bits << 32))
        }
        Kind::Float => {
            let float = f64_to_f32(value);
            (i64::from(float.to_bits()), f64::from(float))
        }
        _ => return None,
    };
    (value.is_nan() || back.to_bits() == value.to_bits()).then_some(bits)
}

/// Reads a number that `write` wrote; integers (`0x…`) are not numbers of this kind.
pub(crate) fn parse(text: &str) -> Option<f64> {
    Some(match text {
        "+INF" => f64::INFINITY,
        "-INF" => f64::NEG_INFINITY,
        // All payload bits set: what ptxas writes for a NaN.
        "+QNAN" => f64::from_bits(0x7fff_ffff_ffff_ffff),
        "-QNAN" => f64::from_bits(0xffff_ffff_ffff_ffff),
        "+SNAN" => f64::from_bits(0x7ff7_ffff_ffff_ffff),
        "-SNAN" => f64::from_bits(0xfff7_ffff_ffff_ffff),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') && !text.contains('x') => {
            text.parse().ok()?
        }
        _ => return None,
    })
}

fn half_to_f64(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => {
            return f64::from_bits(
                u64::from(bits >> 15) << 63 | 0x7ff0_0000_0000_0000 | u64::from(bits & 0x3ff) << 42,
            );
        }
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// `as` makes a signaling NaN quiet; this keeps the upper bits of the payload.
fn f64_to_f32(value: f64) -> f32 {
    let bits = value.to_bits();
    match value.is_nan() {
        true => {
            f32::from_bits((bits >> 32) as u32 & 0x8000_0000 | 0x7f80_0000 | (bits >> 29) as u32 & 0x7f_ffff)
        }
        false => value as f32,
    }
}

/// Exact or not at all: the caller compares with the way back.
fn f64_to_half(value: f64) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 48) as u16 & 0x8000;
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    let fraction = bits & ((1 << 52) - 1);
    sign | match exponent {
        1024 => 0x7c00 | (fraction >> 42) as u16,
        -14..=15 => ((exponent + 15) as u16) << 10 | (fraction >> 42) as u16,
        -24..=-15 => ((1 << 52 | fraction) >> (28 - exponent)) as u16,
        _ => 0,
    }
}
