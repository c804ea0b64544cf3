//! Between number formats.

use super::float::{flow, half_or_float, rounding};
use super::{Arg, Call, Results};
use crate::arith::float::{self, BF16, Clamp, E4M3, E5M2, F16, F32, F64, Flow, Format, Rounding};
use crate::arith::{Int, convert};
use sass::M;

const FLOATS: [(M, Format); 4] = [(M::F16, F16), (M::BF16, BF16), (M::F32, F32), (M::F64, F64)];
const INTEGERS: [(M, Int); 8] = [
    (M::U8, Int::U8),
    (M::S8, Int::S8),
    (M::U16, Int::U16),
    (M::S16, Int::S16),
    (M::U32, Int::U32),
    (M::S32, Int::S32),
    (M::U64, Int::U64),
    (M::S64, Int::S64),
];

fn words(bits: u32) -> u8 {
    if bits == 64 { 2 } else { 1 }
}

/// Rounding to whole numbers.
fn whole(call: &mut Call) -> Rounding {
    call.choose(&[(M::FLOOR, Rounding::Down), (M::CEIL, Rounding::Up), (M::TRUNC, Rounding::Zero)])
        .unwrap_or(Rounding::Nearest)
}

/// Narrow results are extended to the register as their type has it (*unverified*).
pub fn f2i(call: &mut Call) -> Option<Results> {
    call.count_is(1..=1)?;
    let ftz = call.has(M::FTZ);
    let to = call.choose(&INTEGERS).unwrap_or(Int::S32);
    let from = call.choose(&FLOATS).unwrap_or(F32);
    let flow = Flow { ftz, ..Flow::rounding(whole(call)) };
    let nan_is_zero = call.has(M::NTZ);
    let bits = half_or_float(call.arg(0)?, from)?;
    let narrow = convert::float_to_int(from, flow, to, nan_is_zero, bits);
    Some(if to.bits == 64 { Results::wide(narrow) } else { Results::word(to.extended(narrow) as u32) })
}

/// Two floats to bytes, above them the lower half of the third argument.
pub fn f2ip(call: &mut Call) -> Option<Results> {
    call.count_is(3..=3)?;
    let to = call.choose(&[(M::U8, Int::U8), (M::S8, Int::S8)])?;
    if !call.has(M::F32) {
        return None;
    }
    let flow = Flow::rounding(whole(call));
    let (nan_is_zero, relu) = (call.has(M::NTZ), call.has(M::RELU));
    let byte = |i: usize| {
        let bits = call.arg(i)?.float(F32)?;
        let byte = convert::float_to_int(F32, flow, to, nan_is_zero, bits);
        Some(if relu && to.signed { to.max_of(byte, 0) } else { byte } as u32)
    };
    Some(Results::word(byte(0)? << 8 | byte(1)? | call.plain(2)? << 16))
}

pub fn i2f(call: &mut Call) -> Option<Results> {
    call.count_is(1..=1)?;
    let to = call.choose(&FLOATS).unwrap_or(F32);
    let from = call.choose(&INTEGERS).unwrap_or(Int::S32);
    let flow = Flow::rounding(rounding(call));
    let arg = call.arg(0)?;
    let shift = match (from.bits, arg.part) {
        (_, M::Empty) => 0,
        (8, M::B1) => 8,
        (8, M::B2) => 16,
        (8, M::B3) => 24,
        (16, M::H1) => 16,
        _ => return None,
    };
    if arg.negated || arg.absolute {
        return None;
    }
    let bits = convert::int_to_float(from, to, flow, arg.bits >> shift & from.mask());
    Some(Results::sized(bits, words(to.width())))
}

/// `F2F.F32.F64`: the target's format first.
pub fn f2f(call: &mut Call) -> Option<Results> {
    call.count_is(1..=1)?;
    let flow = flow(call);
    let formats: Vec<Format> = call
        .modifiers
        .list
        .iter()
        .filter_map(|m| FLOATS.iter().find(|(name, _)| name == m).map(|(_, format)| *format))
        .collect();
    let [to, from] = formats[..] else { return None };
    let _ = (call.choose(&FLOATS), call.choose(&FLOATS));
    let bits = half_or_float(call.arg(0)?, from)?;
    Some(Results::sized(convert::float_to_float(from, to, flow, bits), words(to.width())))
}

pub fn frnd(call: &mut Call) -> Option<Results> {
    call.count_is(1..=1)?;
    let ftz = call.has(M::FTZ);
    let format = call.choose(&FLOATS).unwrap_or(F32);
    let flow = Flow { ftz, ..Flow::rounding(whole(call)) };
    let bits = half_or_float(call.arg(0)?, format)?;
    Some(Results::sized(float::round_to_integer(format, flow, bits), words(format.width())))
}

/// Two floats packed into one register, `.PACK_AB` with the first in the upper half, and the inverse for
/// 8-bit floats, `.UNPACK_B`. `.PACK_AB_MERGE_C` puts a half of the third argument above the packed bytes;
/// `.UNPACK_B_MERGE_C` does so with two f16 of one register, `.MERGE_C` with a single result.
pub fn f2fp(call: &mut Call) -> Option<Results> {
    let finite = call.has(M::SATFINITE);
    let clamp = if call.has(M::RELU) { Clamp::Relu } else { Clamp::None };
    if call.has(M::UNPACK_B) {
        return unpack(call, clamp);
    }
    if call.has(M::UNPACK_B_MERGE_C) {
        return narrow_pair(call, clamp, finite);
    }
    if call.has(M::PACK_B) {
        return tf32(call, clamp, finite);
    }
    let single = call.has(M::MERGE_C);
    let merge = call.has(M::PACK_AB_MERGE_C);
    if !single && !merge && !call.has(M::PACK_AB) {
        return None;
    }
    let small = call.choose(&[(M::E4M3, E4M3), (M::E5M2, E5M2)]);
    let to = match small {
        Some(small) => small,
        None if call.has(M::BF16) => BF16,
        None => {
            // sm_80 and sm_86 leave out the names.
            let _ = call.has(M::F16);
            F16
        }
    };
    let _ = call.has(M::F32);
    let flow = Flow { rounding: rounding(call), ftz: false, clamp, finite };
    let narrow = |i: usize| Some(convert::float_to_float(F32, to, flow, call.arg(i)?.float(F32)?));
    if single {
        call.count_is(2..=2)?;
        return Some(Results::word((half(call.arg(1)?)? << 16 | narrow(0)?) as u32))
            .filter(|_| small.is_none());
    }
    call.count_is(if merge { 3..=3 } else { 2..=2 })?;
    let pair = narrow(0)? << to.width() | narrow(1)?;
    if merge != small.is_some() {
        return None;
    }
    if !merge {
        return Some(Results::word(pair as u32));
    }
    Some(Results::word((half(call.arg(2)?)? << 16 | pair) as u32))
}

/// An f32 as a tf32, of which there is one in a register: `.PACK_B`.
fn tf32(call: &mut Call, clamp: Clamp, finite: bool) -> Option<Results> {
    if !(call.has(M::TF32) && call.has(M::F32)) {
        return None;
    }
    let flow = Flow { rounding: rounding(call), ftz: false, clamp, finite };
    call.count_is(1..=1)?;
    Some(Results::word(convert::f32_to_tf32(flow, call.arg(0)?.float(F32)?) as u32))
}

/// The half of a register that an operand names.
fn half(arg: Arg) -> Option<u64> {
    match arg.part {
        M::Empty => Some(arg.bits & 0xffff),
        M::H1 => Some(arg.bits >> 16 & 0xffff),
        _ => None,
    }
}

/// Two f16 to 8-bit floats.
fn narrow_pair(call: &mut Call, clamp: Clamp, finite: bool) -> Option<Results> {
    call.count_is(2..=2)?;
    let to = call.choose(&[(M::E4M3, E4M3), (M::E5M2, E5M2)])?;
    if !call.has(M::F16) {
        return None;
    }
    let flow = Flow { rounding: rounding(call), ftz: false, clamp, finite };
    let narrow = |element| convert::float_to_float(F16, to, flow, element);
    let bytes = convert::packed(2, 16, 8, call.arg(0)?.bits, narrow);
    Some(Results::word((half(call.arg(1)?)? << 16 | bytes) as u32))
}

fn unpack(call: &mut Call, clamp: Clamp) -> Option<Results> {
    call.count_is(1..=1)?;
    let from = call.choose(&[(M::E4M3, E4M3), (M::E5M2, E5M2)])?;
    if !call.has(M::F16) {
        return None;
    }
    let pair = half(call.arg(0)?)?;
    Some(Results::word(convert::unpack_to_f16x2(from, Flow { clamp, ..Flow::NEAREST }, 8, pair) as u32))
}
