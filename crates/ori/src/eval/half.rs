//! Two halves in a register.
//!
//! `.H0_H0` and `.H1_H1` give both lanes the same half of an operand. Operands that are single floats (`.F32` of
//! targets before sm_90) are not understood.

use super::float::{comparison, flow, min_max, with_sign};
use super::{Arg, Call, Results, boolean};
use crate::arith::convert;
use crate::arith::float::{self, BF16, F16, F32, Flow, Format};
use sass::M;

fn format(call: &mut Call) -> Format {
    if call.has(M::BF16_V2) { BF16 } else { F16 }
}

/// The lower and the upper element. `.H0_NH1` swaps them, and changes the sign of what was the upper one: `-R.H0_NH1` is
/// the pair (upper, -lower), which ptxas multiplies with where the program has made such a pair.
fn halves(arg: Arg, format: Format) -> Option<[u64; 2]> {
    const SIGN: u64 = 0x8000;
    let (low, high) = (arg.bits & 0xffff, arg.bits >> 16 & 0xffff);
    let lanes = match arg.part {
        M::Empty => [low, high],
        M::H0_NH1 => [high ^ SIGN, low],
        M::H0_H0 => [low, low],
        M::H1_H1 => [high, high],
        _ => return None,
    };
    Some(lanes.map(|bits| arg.signed(format, bits)))
}

fn operands<const N: usize>(call: &Call, format: Format) -> Option<[[u64; N]; 2]> {
    let mut lanes = [[0; N]; 2];
    let [low, high] = &mut lanes;
    for (i, (low, high)) in low.iter_mut().zip(high).enumerate() {
        [*low, *high] = halves(call.arg(i)?, format)?;
    }
    Some(lanes)
}

fn packed([low, high]: [u64; 2]) -> Results {
    Results::word((high << 16 | low) as u32)
}

/// `HADD2.F32` widens: the lower elements, added in single precision.
pub fn hadd2(call: &mut Call) -> Option<Results> {
    call.count_is(2..=2)?;
    let (format, wide) = (format(call), call.has(M::F32));
    let flow = flow(call);
    let lanes = operands(call, format)?;
    if wide {
        let [a, b] = lanes[0].map(|bits| convert::float_to_float(format, F32, Flow::NEAREST, bits));
        return Some(Results::word(float::add(F32, flow, a, b) as u32));
    }
    Some(packed(lanes.map(|[a, b]| float::add(format, flow, a, b))))
}

pub fn hmul2(call: &mut Call) -> Option<Results> {
    call.count_is(2..=2)?;
    let format = format(call);
    let flow = flow(call);
    Some(packed(operands(call, format)?.map(|[a, b]| float::mul(format, flow, a, b))))
}

/// `.MMA` is the same on another unit. What the predicate of `.RELU` does when it is false isn't known.
pub fn hfma2(call: &mut Call) -> Option<Results> {
    call.count_is(3..=4)?;
    call.predicate(3)?.then_some(())?;
    let _ = call.has(M::MMA);
    let format = format(call);
    let flow = flow(call);
    Some(packed(operands(call, format)?.map(|[a, b, c]| float::fma(format, flow, a, b, c))))
}

pub fn hmnmx2(call: &mut Call) -> Option<Results> {
    call.count_is(3..=3)?;
    let format = format(call);
    let how = min_max(call, call.predicate(2)?);
    let flow = Flow { ftz: call.has(M::FTZ), ..Flow::NEAREST };
    let a = halves(with_sign(call.arg(0)?, how), format)?;
    let b = halves(with_sign(call.arg(1)?, how), format)?;
    let lane = |i: usize| float::min_max(format, flow, how, a[i], b[i]);
    Some(packed([lane(0), lane(1)]))
}

pub fn vhmnmx(call: &mut Call) -> Option<Results> {
    call.count_is(4..=4)?;
    let format = format(call);
    let how = min_max(call, call.predicate(3)?);
    let flow = Flow { ftz: call.has(M::FTZ), ..Flow::NEAREST };
    let pick = |a: u64, b: u64| float::min_max(format, flow, how, a, b);
    Some(packed(operands(call, format)?.map(|[a, b, c]| pick(pick(a, b), c))))
}

fn compare(call: &mut Call) -> Option<(Format, [bool; 2])> {
    call.count_is(2..=3)?;
    let format = format(call);
    let ftz = call.has(M::FTZ);
    let comparison = comparison(call)?;
    let lanes = operands(call, format)?;
    Some((format, lanes.map(|[a, b]| comparison.holds(float::ordering(format, ftz, a, b)))))
}

/// All ones or zeros in each lane; `.BF` gives 1.0 or 0.0.
pub fn hset2(call: &mut Call) -> Option<Results> {
    let (format, lanes) = compare(call)?;
    let value = if call.has(M::BF) { format.one() } else { 0xffff };
    let (boolean, predicate) = (boolean(call)?, call.predicate(2)?);
    Some(packed(lanes.map(|holds| if boolean(holds, predicate) { value } else { 0 })))
}

/// A predicate per lane; `.H_AND` gives one for both, and what the second is then isn't known.
pub fn hsetp2(call: &mut Call) -> Option<Results> {
    let (_, [low, high]) = compare(call)?;
    let (boolean, predicate) = (boolean(call)?, call.predicate(2)?);
    Some(if call.has(M::H_AND) {
        Results::default().with(boolean(low && high, predicate))
    } else {
        Results::predicates([boolean(low, predicate), boolean(high, predicate)])
    })
}
