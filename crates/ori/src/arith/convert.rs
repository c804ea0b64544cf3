//! Between number formats.
//!
//! From float to integer, what is out of range becomes the nearest integer of the type (PTX: "float-to-integer
//! conversions saturate by default").

use super::float::{self, BF16, Exact, F16, F32, F64, Flow, Format, Rounding, TF32};
use super::integer::Int;

/// Rounded to an integer type, saturated.
///
/// `nan_is_zero` is the machine's `.NTZ`. Without it a NaN becomes the integer with only its highest bit set
/// (what CUDA documents for conversions to 32 and 64 bits; *unverified* for 8 and 16).
pub fn float_to_int(format: Format, flow: Flow, to: Int, nan_is_zero: bool, a: u64) -> u64 {
    let a = if flow.ftz { format.flush(a) } else { a };
    if format.is_nan(a) {
        return if nan_is_zero { 0 } else { 1 << (to.bits - 1) };
    }
    if format.is_infinite(a) {
        return to.saturate(if format.is_negative(a) { i128::MIN } else { i128::MAX });
    }
    let exact = Exact::decode(format, a);
    // Beyond 2^64 everything saturates; below it the shift cannot lose bits.
    let magnitude = if exact.exponent > 64 && exact.significand != 0 {
        i128::MAX
    } else {
        float::round_at(exact, 0, flow.rounding).min(i128::MAX as u128) as i128
    };
    to.saturate(if exact.negative { -magnitude } else { magnitude })
}

/// Does ptxas ask for `.NTZ` in this conversion? Seen: everywhere but from f64 and to 64 bits.
pub fn nan_becomes_zero(from: Format, to: Int) -> bool {
    from != F64 && to.bits < 64
}

/// An integer as a float.
pub fn int_to_float(from: Int, format: Format, flow: Flow, a: u64) -> u64 {
    let value = from.value(a);
    let exact = Exact { negative: value < 0, exponent: 0, significand: value.unsigned_abs() };
    flow.result(format, exact.round(format, flow))
}

/// From one float format to another. A NaN becomes the target's NaN, but between f64 and f32 and from f16 to
/// f64 it keeps its sign and the upper part of its payload; `.ftz` makes an f32 the f32 NaN first. Seen on an H200.
pub fn float_to_float(from: Format, to: Format, flow: Flow, a: u64) -> u64 {
    // `.ftz` is about f32, on either side.
    let a = if flow.ftz && from == F32 { from.flush(a) } else { a };
    let (ftz, flow) = (flow.ftz, Flow { ftz: flow.ftz && to == F32, ..flow });
    let sign = if from.is_negative(a) { to.sign_bit() } else { 0 };
    let bits = if from.is_nan(a) {
        match (to, from) {
            (F64, F32) if ftz => moved_nan(from, to, F32.nan),
            (F64, _) | (F32, F64) => moved_nan(from, to, a),
            _ => to.nan,
        }
    } else if from.is_infinite(a) {
        sign | if flow.finite { to.largest() } else { to.infinity() }
    } else {
        Exact::decode(from, a).round(to, flow)
    };
    flow.result(to, bits)
}

/// A quiet NaN with the sign and the payload of another format's, as far as it fits.
fn moved_nan(from: Format, to: Format, a: u64) -> u64 {
    let sign = if from.is_negative(a) { to.sign_bit() } else { 0 };
    let payload = a & ((1 << from.mantissa) - 1);
    let quiet = 1 << (to.mantissa - 1);
    let moved = match to.mantissa.checked_sub(from.mantissa) {
        Some(left) => payload << left,
        None => payload >> (from.mantissa - to.mantissa),
    };
    sign | to.infinity() | quiet | moved
}

/// `cvt.f32.bf16`: ptxas emits a shift, so a NaN stays as it is.
pub fn bf16_to_f32(a: u64) -> u64 {
    (a & 0xffff) << 16
}

/// To tf32, an f32 whose 13 lowest bits are zero.
///
/// For `.rna` ptxas emits an addition of half a unit where the argument is finite, and clears the low bits; for
/// `.satfinite` it then takes one unit from what is not finite.
pub fn f32_to_tf32(flow: Flow, a: u64) -> u64 {
    const UNIT: u64 = 1 << 13;
    if flow.rounding != Rounding::Away {
        return float_to_float(F32, TF32, flow, a) << 13;
    }
    let is_finite = |x: u64| !F32.is_nan(x) && !F32.is_infinite(x);
    let rounded = if is_finite(a) { a + UNIT / 2 } else { a } & !(UNIT - 1);
    if flow.finite && !is_finite(rounded) { rounded - UNIT } else { rounded }
}

/// A power of two, without sign; 255 is NaN. The sign of the argument is dropped (*unverified*).
pub fn to_ue8m0(from: Format, flow: Flow, a: u64) -> u64 {
    let wide = float_to_float(from, F32, Flow::NEAREST, a) & !F32.sign_bit();
    if F32.is_nan(wide) {
        return 0xff;
    }
    if F32.is_infinite(wide) {
        return if flow.finite { 0xfe } else { 0xff };
    }
    // 2^-127 is 0 here and the half of the smallest normal number there.
    let half = 1u64 << (F32.mantissa - 1);
    let (exponent, exact) = match wide >> F32.mantissa {
        0 if wide > half => (0, false),
        0 => (0, wide == half || flow.rounding != Rounding::Up || wide < half),
        exponent => (exponent, wide & ((1 << F32.mantissa) - 1) == 0),
    };
    let up = flow.rounding == Rounding::Up && !exact;
    match exponent + u64::from(up) {
        0xff if flow.finite => 0xfe,
        rounded => rounded,
    }
}

/// An exponent (`ue8m0`) as a bf16.
pub fn ue8m0_to_bf16(a: u64) -> u64 {
    match a & 0xff {
        0xff => BF16.nan,
        0 => 1 << (BF16.mantissa - 1),
        exponent => exponent << BF16.mantissa,
    }
}

/// Converts each element of a packed value: `count` elements, `from_step` bits apart, to `to_step` bits apart.
pub fn packed(count: u32, from_step: u32, to_step: u32, a: u64, convert: impl Fn(u64) -> u64) -> u64 {
    let mask = |step: u32| (1u64 << step) - 1;
    (0..count).fold(0, |out, i| {
        let element = a >> (i * from_step) & mask(from_step);
        out | (convert(element) & mask(to_step)) << (i * to_step)
    })
}

/// Two f16 of two small floats, as `F2FP…UNPACK_B` gives them.
pub fn unpack_to_f16x2(from: Format, flow: Flow, step: u32, a: u64) -> u64 {
    let mask = (1u64 << from.width()) - 1;
    packed(2, step, 16, a, |element| float_to_float(from, F16, flow, element & mask))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::float::{E2M1, E2M3, E3M2, E4M3, E5M2};

    fn f32_bits(x: f32) -> u64 {
        u64::from(x.to_bits())
    }

    #[test]
    fn narrow_formats_have_their_documented_values() {
        let value =
            |format: Format, bits: u64| f64::from_bits(float_to_float(format, F64, Flow::NEAREST, bits));
        assert_eq!(value(E4M3, 0x7e), 448.0);
        assert_eq!(value(E4M3, 0x01), 2f64.powi(-9));
        assert_eq!(value(E5M2, 0x7b), 57344.0);
        assert_eq!(value(E5M2, 0x7c), f64::INFINITY);
        assert_eq!(value(E2M1, 0x7), 6.0);
        assert_eq!(value(E2M1, 0x1), 0.5);
        assert_eq!(value(E2M3, 0x1f), 7.5);
        assert_eq!(value(E3M2, 0x1f), 28.0);
        assert!(value(E4M3, 0xff).is_nan());
    }

    /// Every narrow number converts to f32 and back to itself; every f32 goes to a neighbour at most half a
    /// step away.
    #[test]
    fn narrow_formats_round_trip() {
        let satfinite = Flow { finite: true, ..Flow::NEAREST };
        for format in [F16, BF16, E4M3, E5M2, E2M1, E2M3, E3M2] {
            for bits in 0..1u64 << format.width() {
                let wide = float_to_float(format, F32, Flow::NEAREST, bits);
                let back = float_to_float(F32, format, Flow::NEAREST, wide);
                let expected = if format.is_nan(bits) { format.nan } else { bits };
                assert_eq!(back, expected, "{format:?} {bits:x}");
                let next = bits + 1;
                let end = format.largest() | format.sign_bit();
                if bits & !format.sign_bit() >= format.largest() || next > end {
                    continue;
                }
                let wide64 = |bits| f64::from_bits(float_to_float(format, F64, Flow::NEAREST, bits));
                let middle = f32_bits(((wide64(bits) + wide64(next)) / 2.0) as f32);
                let even = if bits & 1 == 0 { bits } else { next };
                assert_eq!(float_to_float(F32, format, satfinite, middle), even, "{format:?} {bits:x}");
                let above = middle + 1;
                assert_eq!(float_to_float(F32, format, satfinite, above), next, "{format:?} {bits:x}");
                let below = middle - 1;
                assert_eq!(float_to_float(F32, format, satfinite, below), bits, "{format:?} {bits:x}");
            }
        }
    }

    /// As seen on an H200.
    #[test]
    fn payloads() {
        let convert = |from, to, bits| float_to_float(from, to, Flow::NEAREST, bits);
        assert_eq!(convert(F64, F32, 0x7fff_ffff_7fff_ffff), 0x7fff_fffb);
        assert_eq!(convert(F64, F32, 0x7ff8_0000_0000_0001), 0x7fc0_0000);
        assert_eq!(convert(F64, F32, u64::MAX), 0xffff_ffff);
        assert_eq!(convert(F32, F64, 0x7fc0_0001), 0x7ff8_0000_2000_0000);
        let ftz = Flow { ftz: true, ..Flow::NEAREST };
        assert_eq!(float_to_float(F32, F64, ftz, 0xffc0_0001), 0x7fff_ffff_e000_0000);
    }

    #[test]
    fn saturation_and_relu() {
        let flow = Flow { finite: true, ..Flow::NEAREST };
        assert_eq!(float_to_float(F32, E4M3, flow, f32_bits(1e9)), 0x7e);
        assert_eq!(float_to_float(F32, E4M3, flow, f32_bits(-f32::INFINITY)), 0xfe);
        assert_eq!(float_to_float(F32, E4M3, flow, f32_bits(f32::NAN)), 0x7f);
        assert_eq!(float_to_float(F32, E2M1, flow, f32_bits(f32::NAN)), 0x7);
        let relu = Flow { clamp: float::Clamp::Relu, ..Flow::NEAREST };
        assert_eq!(float_to_float(F32, BF16, relu, f32_bits(-2.0)), 0);
        assert_eq!(float_to_float(F32, BF16, relu, f32_bits(2.0)), 0x4000);
    }

    /// `as` in Rust truncates and saturates, with NaN as zero.
    #[test]
    fn to_integers_as_rust_does() {
        let truncate = Flow::rounding(Rounding::Zero);
        let mut x = 0x9e37_79b9u32;
        for step in 0..200_000u32 {
            x = x.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f ^ step);
            let value = f32::from_bits(x);
            let to = |int: Int| float_to_int(F32, truncate, int, true, u64::from(x));
            assert_eq!(to(Int::S8), u64::from(value as i8 as u8), "{value}");
            assert_eq!(to(Int::U16), u64::from(value as u16), "{value}");
            assert_eq!(to(Int::S32), u64::from(value as i32 as u32), "{value}");
            assert_eq!(to(Int::U64), value as u64, "{value}");
            assert_eq!(to(Int::S64), value as i64 as u64, "{value}");
        }
    }

    #[test]
    fn to_integers_with_other_roundings() {
        let to = |rounding, x: f64| {
            float_to_int(F64, Flow::rounding(rounding), Int::S32, false, x.to_bits()) as u32 as i32
        };
        assert_eq!([2.5, 3.5, -2.5, -0.5].map(|x| to(Rounding::Nearest, x)), [2, 4, -2, 0]);
        assert_eq!([2.1, -2.1].map(|x| to(Rounding::Down, x)), [2, -3]);
        assert_eq!([2.1, -2.1].map(|x| to(Rounding::Up, x)), [3, -2]);
        assert_eq!(to(Rounding::Zero, f64::NAN), i32::MIN);
    }

    /// Rust's conversions from integers round to nearest even.
    #[test]
    fn from_integers_as_rust_does() {
        let mut x = 1u64;
        for _ in 0..100_000 {
            x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let shifted = x >> (x & 63);
            let to = |int: Int, format| int_to_float(int, format, Flow::NEAREST, shifted & int.mask());
            assert_eq!(to(Int::U64, F32), f32_bits(shifted as f32));
            assert_eq!(to(Int::S64, F32), f32_bits(shifted as i64 as f32));
            assert_eq!(to(Int::U64, F64), (shifted as f64).to_bits());
            assert_eq!(to(Int::S32, F32), f32_bits(shifted as u32 as i32 as f32));
        }
    }

    #[test]
    fn tf32_and_powers_of_two() {
        let away = Flow::rounding(Rounding::Away);
        assert_eq!(f32_to_tf32(away, 0x3f80_1000), 0x3f80_2000);
        assert_eq!(f32_to_tf32(away, 0x3f80_0fff), 0x3f80_0000);
        assert_eq!(f32_to_tf32(Flow::NEAREST, 0x3f80_1000), 0x3f80_0000);
        assert_eq!(f32_to_tf32(away, 0x7f7f_ffff), 0x7f80_0000);
        let finite = Flow { finite: true, ..away };
        assert_eq!(f32_to_tf32(finite, 0x7f7f_ffff), 0x7f7f_e000);
        assert_eq!(f32_to_tf32(finite, 0xffff_ffff), 0xffff_c000);
        let up = Flow::rounding(Rounding::Up);
        let zero = Flow::rounding(Rounding::Zero);
        assert_eq!(to_ue8m0(F32, zero, f32_bits(1.5)), 127);
        assert_eq!(to_ue8m0(F32, up, f32_bits(1.5)), 128);
        assert_eq!(to_ue8m0(F32, up, f32_bits(1.0)), 127);
        assert_eq!(ue8m0_to_bf16(127), 0x3f80);
        assert_eq!(ue8m0_to_bf16(0), 0x0040);
    }

    #[test]
    fn stochastic_rounding_carries() {
        // 1 + 2^-12 in f16 (10 bits): a quarter of a step is lost, 13 random bits decide.
        let a = f32_bits(1.0 + 2f32.powi(-12));
        let with = |bits| {
            let flow = Flow::rounding(Rounding::Stochastic { bits, width: 13 });
            float_to_float(F32, F16, flow, a)
        };
        assert_eq!(with(0), 0x3c00);
        assert_eq!(with(0x17ff), 0x3c00);
        assert_eq!(with(0x1800), 0x3c01);
    }
}
