//! Single and double precision.

use super::{Arg, Call, Results, combine};
use crate::arith::approx::{self, Function};
use crate::arith::float::{self, BF16, Clamp, F16, F32, F64, Flow, Format, MinMax};
use crate::arith::{Compare, Rounding, convert};
use sass::M;

impl Arg {
    /// With sign and magnitude as the operand says.
    pub(super) fn float(self, format: Format) -> Option<u64> {
        (self.part == M::Empty).then(|| self.signed(format, self.bits & (u64::MAX >> (64 - format.width()))))
    }

    pub(super) fn signed(self, format: Format, bits: u64) -> u64 {
        // A double that is NaN stays as it is; of the other formats there is one NaN for all, but a choice
        // between two values shows its sign.
        if format == F64 && format.is_nan(bits) {
            return bits;
        }
        let bits = if self.absolute { bits & !format.sign_bit() } else { bits };
        if self.negated { bits ^ format.sign_bit() } else { bits }
    }
}

pub(super) fn rounding(call: &mut Call) -> Rounding {
    call.choose(&[(M::RM, Rounding::Down), (M::RP, Rounding::Up), (M::RZ, Rounding::Zero)])
        .unwrap_or(Rounding::Nearest)
}

pub(super) fn flow(call: &mut Call) -> Flow {
    let ftz = call.has(M::FTZ);
    let clamp = call.choose(&[(M::SAT, Clamp::Saturate), (M::RELU, Clamp::Relu)]).unwrap_or(Clamp::None);
    Flow { rounding: rounding(call), ftz, clamp, finite: false }
}

pub(super) fn comparison(call: &mut Call) -> Option<Compare> {
    call.choose(&[
        (M::LT, Compare::Lt),
        (M::EQ, Compare::Eq),
        (M::LE, Compare::Le),
        (M::GT, Compare::Gt),
        (M::NE, Compare::Ne),
        (M::GE, Compare::Ge),
        (M::NUM, Compare::Num),
        (M::NAN, Compare::Nan),
        (M::LTU, Compare::Ltu),
        (M::EQU, Compare::Equ),
        (M::LEU, Compare::Leu),
        (M::GTU, Compare::Gtu),
        (M::NEU, Compare::Neu),
        (M::GEU, Compare::Geu),
    ])
}

fn floats<const N: usize>(call: &Call, format: Format) -> Option<[u64; N]> {
    call.count_is(N..=N)?;
    let mut bits = [0; N];
    for (i, slot) in bits.iter_mut().enumerate() {
        *slot = call.arg(i)?.float(format)?;
    }
    Some(bits)
}

pub fn fadd(call: &mut Call) -> Option<Results> {
    let flow = flow(call);
    let [a, b] = floats(call, F32)?;
    Some(Results::word(float::add(F32, flow, a, b) as u32))
}

/// `.FMZ` and the scales `.D2` … `.M8` are not understood; neither does ptxas write them.
pub fn fmul(call: &mut Call) -> Option<Results> {
    let flow = flow(call);
    let [a, b] = floats(call, F32)?;
    Some(Results::word(float::mul(F32, flow, a, b) as u32))
}

pub fn ffma(call: &mut Call) -> Option<Results> {
    let flow = flow(call);
    let [a, b, c] = floats(call, F32)?;
    Some(Results::word(float::fma(F32, flow, a, b, c) as u32))
}

pub fn dadd(call: &mut Call) -> Option<Results> {
    let flow = Flow::rounding(rounding(call));
    let [a, b] = floats(call, F64)?;
    Some(Results::wide(float::add(F64, flow, a, b)))
}

pub fn dmul(call: &mut Call) -> Option<Results> {
    let flow = Flow::rounding(rounding(call));
    let [a, b] = floats(call, F64)?;
    Some(Results::wide(float::mul(F64, flow, a, b)))
}

pub fn dfma(call: &mut Call) -> Option<Results> {
    let flow = Flow::rounding(rounding(call));
    let [a, b, c] = floats(call, F64)?;
    Some(Results::wide(float::fma(F64, flow, a, b, c)))
}

/// An operand of `.XORSIGN`, which the text has in bars: magnitudes are compared, but signs still count.
pub(super) fn with_sign(arg: Arg, how: MinMax) -> Arg {
    Arg { absolute: arg.absolute && !how.xorsign, ..arg }
}

/// Minimum where the predicate is true, maximum otherwise.
pub(super) fn min_max(call: &mut Call, predicate: bool) -> MinMax {
    MinMax { max: !predicate, nan: call.has(M::NAN), xorsign: call.has(M::XORSIGN) }
}

pub fn fmnmx(call: &mut Call) -> Option<Results> {
    call.count_is(3..=3)?;
    let how = min_max(call, call.predicate(2)?);
    let flow = Flow { ftz: call.has(M::FTZ), ..Flow::NEAREST };
    let (a, b) = (with_sign(call.arg(0)?, how).float(F32)?, with_sign(call.arg(1)?, how).float(F32)?);
    Some(Results::word(float::min_max(F32, flow, how, a, b) as u32))
}

pub fn fmnmx3(call: &mut Call) -> Option<Results> {
    call.count_is(4..=4)?;
    let how = min_max(call, call.predicate(3)?);
    let flow = Flow { ftz: call.has(M::FTZ), ..Flow::NEAREST };
    let [a, b, c] = [0, 1, 2].map(|i| call.arg(i).and_then(|arg| arg.float(F32)));
    let first = float::min_max(F32, flow, how, a?, b?);
    Some(Results::word(float::min_max(F32, flow, how, first, c?) as u32))
}

/// A choice of bits, with the sign changed as the operand says; `.FTZ` flushes what is chosen.
pub fn fsel(call: &mut Call) -> Option<Results> {
    call.count_is(3..=3)?;
    let (a, b) = (call.arg(0)?.float(F32)?, call.arg(1)?.float(F32)?);
    let chosen = if call.predicate(2)? { a } else { b };
    let chosen = if call.has(M::FTZ) { F32.flush(chosen) } else { chosen };
    Some(Results::word(chosen as u32))
}

fn compare(call: &mut Call, format: Format) -> Option<[bool; 2]> {
    call.count_is(2..=3)?;
    let ftz = call.has(M::FTZ);
    let comparison = comparison(call)?;
    let (a, b) = (call.arg(0)?.float(format)?, call.arg(1)?.float(format)?);
    let holds = comparison.holds(float::ordering(format, ftz, a, b));
    let predicate = call.predicate(2)?;
    combine(call, holds, predicate)
}

pub fn fsetp(call: &mut Call) -> Option<Results> {
    compare(call, F32).map(Results::predicates)
}

/// `.BF`: 1.0 or 0.0.
pub fn fset(call: &mut Call) -> Option<Results> {
    if !call.has(M::BF) {
        return None;
    }
    let [holds, _] = compare(call, F32)?;
    Some(Results::word(if holds { F32.one() as u32 } else { 0 }))
}

/// `.MIN` and `.MAX` say whether the first argument is the one to take, and whether the result is NaN: so
/// ptxas uses them in its sequences for `min.f64` and `max.f64`.
pub fn dsetp(call: &mut Call) -> Option<Results> {
    if let Some(max) = call.choose(&[(M::MIN, false), (M::MAX, true)]) {
        return call.has(M::AND).then(|| choose_double(call, max))?;
    }
    compare(call, F64).map(Results::predicates)
}

fn choose_double(call: &Call, max: bool) -> Option<Results> {
    call.count_is(2..=3)?;
    if !call.predicate(2)? {
        return None;
    }
    let (a, b) = (call.arg(0)?.float(F64)?, call.arg(1)?.float(F64)?);
    let both = F64.is_nan(a) && F64.is_nan(b);
    let how = MinMax { max, ..MinMax::default() };
    let first = !both && float::min_max(F64, Flow::NEAREST, how, a, b) == a;
    Some(Results::predicates([first, both]))
}

/// The machine's functions flush subnormal arguments and results; sin and cos take turns.
pub fn mufu(call: &mut Call) -> Option<Results> {
    call.count_is(1..=1)?;
    if let Some(function) = call.choose(&[(M::RCP64H, Function::Rcp), (M::RSQ64H, Function::Rsqrt)]) {
        let arg = call.arg(0)?;
        let high = arg.signed(F64, arg.bits << 32) >> 32;
        return Some(Results::word(approx::upper_word(function, high as u32)));
    }
    let function = call.choose(&[
        (M::COS, Function::Cos),
        (M::SIN, Function::Sin),
        (M::EX2, Function::Ex2),
        (M::LG2, Function::Lg2),
        (M::RCP, Function::Rcp),
        (M::RSQ, Function::Rsqrt),
        (M::SQRT, Function::Sqrt),
        (M::TANH, Function::Tanh),
    ])?;
    let format = call.choose(&[(M::F16, F16), (M::BF16, BF16)]).unwrap_or(F32);
    // tanh and functions of f16 take and give subnormal numbers.
    let ftz = format != F16 && function != Function::Tanh;
    let bits = half_or_float(call.arg(0)?, format)?;
    Some(Results::word(approx::compute(function, format, Flow { ftz, ..Flow::NEAREST }, bits) as u32))
}

/// Whether `a / b` needs the slow path: an operand or the quotient is near an end of the exponents, or none.
/// Code is right on either path; that the machine draws the line here is *unverified*.
pub fn fchk(call: &mut Call) -> Option<Results> {
    call.count_is(2..=2)?;
    let exponent = |bits: u64| (bits >> 23 & 0xff) as i32;
    let (a, b) = (exponent(call.arg(0)?.float(F32)?), exponent(call.arg(1)?.float(F32)?));
    let easy = (25..255).contains(&a) && (2..253).contains(&b) && (-125..=125).contains(&(a - b));
    Some(Results { predicates: [!easy, false], predicate_count: 1, ..Results::default() })
}

/// A float, or the half of a register that `.H1` or nothing names.
pub(super) fn half_or_float(arg: Arg, format: Format) -> Option<u64> {
    let shifted = match arg.part {
        M::Empty => arg.bits,
        M::H1 if format.width() == 16 => arg.bits >> 16,
        _ => return None,
    };
    Some(arg.signed(format, shifted & (u64::MAX >> (64 - format.width()))))
}

/// The two elements of a pair: as they are, swapped, or one for both.
fn pair(arg: Arg) -> Option<[u64; 2]> {
    let (low, high) = (arg.bits & 0xffff_ffff, arg.bits >> 32);
    let elements = match arg.part {
        M::Empty | M::F32x2_HI_LO => [low, high],
        M::F32x2_LO_HI => [high, low],
        M::F32 => [low, low],
        _ => return None,
    };
    Some(elements.map(|bits| arg.signed(F32, bits)))
}

fn pairs<const N: usize>(call: &Call, f: impl Fn([u64; N]) -> u64) -> Option<Results> {
    call.count_is(N..=N)?;
    let mut elements = [[0; N]; 2];
    let [low, high] = &mut elements;
    for (i, (low, high)) in low.iter_mut().zip(high).enumerate() {
        [*low, *high] = pair(call.arg(i)?)?;
    }
    let [low, high] = elements.map(f);
    Some(Results::wide(high << 32 | low))
}

pub fn fadd2(call: &mut Call) -> Option<Results> {
    let flow = flow(call);
    pairs(call, |[a, b]| float::add(F32, flow, a, b))
}

pub fn fmul2(call: &mut Call) -> Option<Results> {
    let flow = flow(call);
    pairs(call, |[a, b]| float::mul(F32, flow, a, b))
}

pub fn ffma2(call: &mut Call) -> Option<Results> {
    let flow = flow(call);
    pairs(call, |[a, b, c]| float::fma(F32, flow, a, b, c))
}

/// A half of a register, exact in single precision.
fn widened(arg: Arg, format: Format) -> Option<u64> {
    half_or_float(arg, format).map(|bits| convert::float_to_float(format, F32, Flow::NEAREST, bits))
}

fn half_format(call: &mut Call) -> Format {
    if call.has(M::BF16) { BF16 } else { F16 }
}

pub fn fhadd(call: &mut Call) -> Option<Results> {
    let format = half_format(call);
    let flow = flow(call);
    call.count_is(2..=2)?;
    let (a, b) = (widened(call.arg(0)?, format)?, call.arg(1)?.float(F32)?);
    Some(Results::word(float::add(F32, flow, a, b) as u32))
}

pub fn fhfma(call: &mut Call) -> Option<Results> {
    let format = half_format(call);
    let flow = flow(call);
    call.count_is(3..=3)?;
    let (a, b) = (widened(call.arg(0)?, format)?, widened(call.arg(1)?, format)?);
    Some(Results::word(float::fma(F32, flow, a, b, call.arg(2)?.float(F32)?) as u32))
}
