//! Generic operations: what they compute on every target.

use super::float::rounding;
use super::{Arg, Call, Modifiers, Results};
use crate::arith::float::{self, Clamp, F32, F64, Flow, Format};
use crate::function::Generic;
use sass::M;

/// The type of a generic operation's operands and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// An integer of 16, 32 or 64 bits; one of 16 bits is extended to a word.
    #[allow(missing_docs)]
    Integer { signed: bool, bits: u32 },
    /// A float of 32 or 64 bits.
    #[allow(missing_docs)]
    Float { bits: u32 },
}

impl Type {
    /// The type that the modifiers name.
    pub fn of(modifiers: &[M]) -> Option<Type> {
        let integer = |signed, bits| Type::Integer { signed, bits };
        Some(match modifiers.first()? {
            M::U16 => integer(false, 16),
            M::S16 => integer(true, 16),
            M::U32 => integer(false, 32),
            M::S32 => integer(true, 32),
            M::U64 => integer(false, 64),
            M::S64 => integer(true, 64),
            M::F32 => Type::Float { bits: 32 },
            M::F64 => Type::Float { bits: 64 },
            _ => return None,
        })
    }

    /// The modifier that names it.
    pub fn modifier(self) -> M {
        match self {
            Type::Integer { signed: false, bits: 16 } => M::U16,
            Type::Integer { signed: true, bits: 16 } => M::S16,
            Type::Integer { signed: false, bits: 64 } => M::U64,
            Type::Integer { signed: true, bits: 64 } => M::S64,
            Type::Integer { signed: false, .. } => M::U32,
            Type::Integer { signed: true, .. } => M::S32,
            Type::Float { bits: 64 } => M::F64,
            Type::Float { .. } => M::F32,
        }
    }

    /// The words of a value.
    pub fn words(self) -> u8 {
        let (Type::Integer { bits, .. } | Type::Float { bits }) = self;
        bits.div_ceil(32) as u8
    }
}

/// How many operands an operation has.
pub fn operands(op: Generic) -> usize {
    match op {
        Generic::Div | Generic::Rem | Generic::FDiv => 2,
        Generic::FRcp | Generic::FSqrt | Generic::FRsqrt => 1,
    }
}

/// The result of a generic operation; `None` for modifiers that it doesn't have, and for `FRsqrt`, whose bits are the
/// machine's own.
pub fn eval(op: Generic, modifiers: &[M], args: &[Arg]) -> Option<Results> {
    let ty = Type::of(modifiers)?;
    let mut call = Call { modifiers: Modifiers::new(&modifiers[1..])?, args };
    call.count_is(operands(op)..=operands(op))?;
    let bits = match (op, ty) {
        (Generic::Div | Generic::Rem, Type::Integer { signed, bits }) => {
            integer(op, signed, bits, call.plain_wide(0)?, call.plain_wide(1)?)
        }
        (_, Type::Float { bits }) => float(op, if bits == 64 { F64 } else { F32 }, &mut call)?,
        _ => return None,
    };
    call.modifiers.all_taken().then(|| Results::sized(bits, ty.words()))
}

fn integer(op: Generic, signed: bool, bits: u32, a: u64, b: u64) -> u64 {
    let unused = 64 - bits.next_multiple_of(32);
    let mask = u64::MAX >> unused;
    if b & mask == 0 {
        return mask;
    }
    let extend = |n: u64| (n << unused).cast_signed() >> unused;
    let result = match (op, signed) {
        (Generic::Div, true) => extend(a).wrapping_div(extend(b)).cast_unsigned(),
        (Generic::Div, false) => (a & mask) / (b & mask),
        (_, true) => extend(a).wrapping_rem(extend(b)).cast_unsigned(),
        (_, false) => (a & mask) % (b & mask),
    };
    result & mask
}

fn float(op: Generic, format: Format, call: &mut Call) -> Option<u64> {
    let ftz = call.has(M::FTZ);
    let flow = Flow { rounding: rounding(call), ftz, clamp: Clamp::None, finite: false };
    let a = call.arg(0)?.float(format)?;
    match op {
        Generic::FDiv => Some(float::div(format, flow, a, call.arg(1)?.float(format)?)),
        Generic::FRcp => Some(float::rcp(format, flow, a)),
        Generic::FSqrt => Some(float::sqrt(format, flow, a)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(op: Generic, modifiers: &[M], args: &[u64]) -> Option<u64> {
        let args: Vec<Arg> = args.iter().map(|bits| Arg::wide(*bits)).collect();
        eval(op, modifiers, &args).map(|r| r.bits())
    }

    #[test]
    fn integers_round_to_zero_and_by_zero_is_all_ones() {
        let minus = |n: u32| u64::from(n.wrapping_neg());
        assert_eq!(result(Generic::Div, &[M::S32], &[minus(7), 2]), Some(minus(3)));
        assert_eq!(result(Generic::Rem, &[M::S32], &[minus(7), 2]), Some(minus(1)));
        assert_eq!(result(Generic::Div, &[M::U32], &[minus(7), 2]), Some(0x7fff_fffc));
        assert_eq!(result(Generic::Div, &[M::S32], &[1 << 31, minus(1)]), Some(1 << 31));
        assert_eq!(result(Generic::Rem, &[M::S64], &[1 << 63, u64::MAX]), Some(0));
        assert_eq!(result(Generic::Div, &[M::U16], &[7, 0]), Some(0xffff_ffff));
        assert_eq!(result(Generic::Rem, &[M::U64], &[7, 0]), Some(u64::MAX));
    }

    #[test]
    fn floats_are_rounded_and_flushed() {
        let bits = |x: f32| u64::from(x.to_bits());
        assert_eq!(result(Generic::FDiv, &[M::F32], &[bits(1.0), bits(3.0)]), Some(bits(1.0 / 3.0)));
        assert_eq!(result(Generic::FDiv, &[M::F32, M::RP], &[bits(1.0), bits(3.0)]), Some(0x3eaa_aaab));
        assert_eq!(result(Generic::FDiv, &[M::F32, M::FTZ], &[1, bits(0.5)]), Some(0));
        assert_eq!(result(Generic::FSqrt, &[M::F64], &[4f64.to_bits()]), Some(2f64.to_bits()));
        assert_eq!(result(Generic::FRcp, &[M::F64], &[4f64.to_bits()]), Some(0.25f64.to_bits()));
        assert_eq!(result(Generic::FRsqrt, &[M::F64], &[4f64.to_bits()]), None);
        assert_eq!(result(Generic::FRcp, &[M::F64, M::SAT], &[4f64.to_bits()]), None);
    }
}
