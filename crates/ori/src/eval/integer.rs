//! Integer arithmetic, logic, shifts and comparisons.

use super::{Arg, Call, Results, combine};
use crate::arith::bits::{self, Overflow, Permute};
use crate::arith::{Int, video};
use sass::M;

/// A sum with carries, in `bits` bits: `-x` is `~x` with one more to add, so that the carry out of `a - b` says
/// that nothing was borrowed.
struct Sum {
    bits: u32,
    total: u128,
}

impl Sum {
    fn new(bits: u32) -> Sum {
        Sum { bits, total: 0 }
    }

    /// `extended` operations have `~x` in place of `-x`, and add the carry.
    fn add(&mut self, arg: Arg, extended: bool) -> Option<()> {
        if arg.absolute || arg.part != M::Empty {
            return None;
        }
        self.add_bits(arg.bits, arg.negated, extended);
        Some(())
    }

    fn add_bits(&mut self, bits: u64, negated: bool, extended: bool) {
        let mask = u64::MAX >> (64 - self.bits);
        let bits = if negated { !bits } else { bits } & mask;
        self.total += u128::from(bits) + u128::from(negated && !extended);
    }

    fn carry_in(&mut self, carry: bool) {
        self.total += u128::from(carry);
    }

    fn bits(&self) -> u64 {
        self.total as u64 & (u64::MAX >> (64 - self.bits))
    }

    fn carry(&self) -> u128 {
        self.total >> self.bits
    }

    fn results(&self) -> Results {
        Results::sized(self.bits(), (self.bits / 32) as u8)
    }
}

fn signedness(call: &mut Call) -> Int {
    if call.has(M::U32) { Int::U32 } else { Int::S32 }
}

/// `IADD3 R, P, P, a, b, c` and `IADD3.X … c, p, q`. Both predicates together are the carry, 0 to 2; that the
/// first one is set first is *unverified*.
pub fn iadd3(call: &mut Call) -> Option<Results> {
    let bits = if call.has(M::_64) { 64 } else { 32 };
    let extended = call.has(M::X);
    call.count_is(3..=if extended { 5 } else { 3 })?;
    let mut sum = Sum::new(bits);
    for i in 0..3 {
        sum.add(call.arg(i)?, extended)?;
    }
    if extended {
        sum.carry_in(call.predicate(3)?);
        // The second carry is !PT where the text leaves it out.
        sum.carry_in(call.args.len() > 4 && call.predicate(4)?);
    }
    Some(sum.results().with_two([sum.carry() >= 1, sum.carry() >= 2]))
}

pub fn iadd(call: &mut Call) -> Option<Results> {
    let bits = if call.has(M::_64) { 64 } else { 32 };
    let extended = call.has(M::X);
    call.count_is(2..=if extended { 3 } else { 2 })?;
    let mut sum = Sum::new(bits);
    sum.add(call.arg(0)?, extended)?;
    sum.add(call.arg(1)?, extended)?;
    if extended {
        sum.carry_in(call.predicate(2)?);
    }
    Some(sum.results().with(sum.carry() != 0))
}

/// `IMAD`, with `.WIDE` (64-bit result and addend) and `.HI` (upper word of that). nvdisasm's other names
/// for special cases change nothing.
pub fn imad(call: &mut Call) -> Option<Results> {
    let _ = call.has(M::MOV) || call.has(M::IADD) || call.has(M::SHL);
    let int = signedness(call);
    let (wide, high, extended) = (call.has(M::WIDE), call.has(M::HI), call.has(M::X));
    call.count_is(3..=if extended { 4 } else { 3 })?;
    let (a, b) = (call.plain_wide(0)?, call.plain_wide(1)?);
    let mut sum = Sum::new(if wide || high { 64 } else { 32 });
    sum.add_bits(int.mul_wide(a & int.mask(), b & int.mask()), false, extended);
    sum.add(call.arg(2)?, extended)?;
    if extended {
        sum.carry_in(call.predicate(3)?);
    }
    Some(match (wide, high) {
        (false, false) => sum.results(),
        (true, _) => sum.results().with(sum.carry() != 0),
        (_, true) => Results::word((sum.bits() >> 32) as u32).with(sum.carry() != 0),
    })
}

/// `(a << n) + b`, or of `.HI` the upper word of `(c:a << n)` and `b`; `.SX32` extends the sign of `a`.
/// A negated `a` of `.HI` has no meaning here.
pub fn lea(call: &mut Call) -> Option<Results> {
    let (high, extended, sign) = (call.has(M::HI), call.has(M::X), call.has(M::SX32));
    let (a, b) = (call.arg(0)?, call.arg(1)?);
    let takes_c = high && !sign;
    let next = 2 + usize::from(takes_c);
    call.count_is(next + 1..=next + 1 + usize::from(extended))?;
    let amount = call.plain(next)? & 31;
    let mut sum = Sum::new(32);
    if high {
        let upper = if sign { (a.bits as u32 as i32 >> 31) as u32 } else { call.plain(2)? };
        if a.negated || a.absolute || a.part != M::Empty {
            return None;
        }
        let shifted = u128::from(u64::from(upper) << 32 | a.bits & 0xffff_ffff) << amount;
        sum.add_bits((shifted >> 32) as u64, false, extended);
    } else {
        sum.add(Arg { bits: u64::from((a.bits as u32) << amount), ..a }, extended)?;
    }
    sum.add(b, extended)?;
    if extended {
        sum.carry_in(call.predicate(next + 1)?);
    }
    Some(sum.results().with(sum.carry() != 0))
}

/// The 64 bits `c:a`, shifted by `b`; `.HI` gives the upper word. The type says how far: amounts are clamped to
/// its width, or wrap at it with `.W`.
pub fn shf(call: &mut Call) -> Option<Results> {
    let left = call.choose(&[(M::L, true), (M::R, false)])?;
    let wrap = call.has(M::W);
    let (signed, width) = call.choose(&[
        (M::S64, (true, 64)),
        (M::U64, (false, 64)),
        (M::S32, (true, 32)),
        (M::U32, (false, 32)),
    ])?;
    let high = call.has(M::HI);
    call.count_is(3..=3)?;
    let (low, amount, upper) = (call.plain(0)?, call.plain(1)?, call.plain(2)?);
    let wide = u64::from(upper) << 32 | u64::from(low);
    let amount = if wrap { Overflow::Wrap } else { Overflow::Clamp }.amount(amount, width);
    let int = Int { bits: 64, signed };
    let shifted = if left { int.shl(wide, amount) } else { int.shr(wide, amount) };
    Some(Results::word(if high { (shifted >> 32) as u32 } else { shifted as u32 }))
}

/// The predicate says whether the result is not zero, or-ed with the last argument; `.PAND` is and-ed.
pub fn lop3(call: &mut Call) -> Option<Results> {
    let _ = call.has(M::LUT);
    let and = call.has(M::PAND);
    call.count_is(4..=5)?;
    let [a, b, c, table] = [call.plain(0)?, call.plain(1)?, call.plain(2)?, call.plain(3)?];
    let result = bits::lop3(a, b, c, table);
    let other = if call.args.len() == 5 { call.predicate(4)? } else { and };
    let predicate = if and { result != 0 && other } else { result != 0 || other };
    Some(Results::word(result).with(predicate))
}

pub fn plop3(call: &mut Call) -> Option<Results> {
    let _ = call.has(M::LUT);
    call.count_is(5..=5)?;
    let input = |i: usize| {
        let arg = call.arg(i)?;
        match arg.part {
            M::SIGN => (!arg.negated && !arg.absolute).then_some(arg.bits as u32 >> 31 == 1),
            _ => call.predicate(i),
        }
    };
    let row = u32::from(input(0)?) << 2 | u32::from(input(1)?) << 1 | u32::from(input(2)?);
    let entry = |table: u32| table >> row & 1 == 1;
    Some(Results::predicates([entry(call.plain(3)?), entry(call.plain(4)?)]))
}

/// `PRMT R, a, selector, b`
pub fn prmt(call: &mut Call) -> Option<Results> {
    let mode = call.choose(&[
        (M::F4E, Permute::Forward),
        (M::B4E, Permute::Backward),
        (M::RC8, Permute::Replicate8),
        (M::ECL, Permute::ClampLeft),
        (M::ECR, Permute::ClampRight),
        (M::RC16, Permute::Replicate16),
    ]);
    call.count_is(3..=3)?;
    let [a, selector, b] = [call.plain(0)?, call.plain(1)?, call.plain(2)?];
    Some(Results::word(bits::prmt(mode.unwrap_or(Permute::Each), a, b, selector)))
}

pub fn sel(call: &mut Call) -> Option<Results> {
    let words = if call.has(M::_64) { 2 } else { 1 };
    call.count_is(3..=3)?;
    let (a, b) = (call.plain_wide(0)?, call.plain_wide(1)?);
    Some(Results::sized(if call.predicate(2)? { a } else { b }, words))
}

/// Only whole moves: a byte mask other than all is not understood.
pub fn mov(call: &mut Call) -> Option<Results> {
    let words = if call.has(M::_64) { 2 } else { 1 };
    call.count_is(1..=2)?;
    if call.args.len() == 2 && call.plain(1)? != 15 {
        return None;
    }
    Some(Results::sized(call.plain_wide(0)?, words))
}

/// Comparison `.EX` goes on from the lower words: where these are equal, the last predicate decides.
pub fn isetp(call: &mut Call) -> Option<Results> {
    use std::cmp::Ordering;
    type Test = fn(Ordering) -> bool;
    let test = call.choose(&[
        (M::LT, Ordering::is_lt as Test),
        (M::LE, Ordering::is_le),
        (M::GT, Ordering::is_gt),
        (M::GE, Ordering::is_ge),
        (M::EQ, Ordering::is_eq),
        (M::NE, Ordering::is_ne),
        (M::F, |_| false),
        (M::T, |_| true),
    ])?;
    let int = call.choose(&[(M::U32, Int::U32), (M::U64, Int::U64), (M::S64, Int::S64)]).unwrap_or(Int::S32);
    let always = call.modifiers.list.iter().any(|m| matches!(m, M::F | M::T));
    let (a, b) = (call.plain_wide(0)?, call.plain_wide(1)?);
    let order = int.compare(a, b);
    let predicate = call.predicate(2)?;
    let extended = call.has(M::EX);
    call.count_is(2..=if extended { 4 } else { 3 })?;
    let lower = if extended { call.predicate(3)? } else { true };
    let holds = if extended && order.is_eq() && !always { lower } else { test(order) };
    combine(call, holds, predicate).map(Results::predicates)
}

/// Minimum where the predicate is true, maximum otherwise.
pub fn imnmx(call: &mut Call) -> Option<Results> {
    let int = call.choose(&[(M::U32, Int::U32), (M::U64, Int::U64), (M::S64, Int::S64)]).unwrap_or(Int::S32);
    call.count_is(3..=3)?;
    let (a, b) = (call.plain_wide(0)?, call.plain_wide(1)?);
    let result = if call.predicate(2)? { int.min_of(a, b) } else { int.max_of(a, b) };
    Some(Results::sized(result, (int.bits / 32) as u8))
}

/// The elements that a vector operation works on.
fn vector(call: &mut Call) -> Int {
    call.choose(&[
        (M::U32, Int::U32),
        (M::S32, Int::S32),
        (M::U16x2, Int::U16),
        (M::S16x2, Int::S16),
        (M::U8x4, Int::U8),
        (M::S8x4, Int::S8),
    ])
    .unwrap_or(Int::S32)
}

/// Element by element.
fn lanes<const N: usize>(int: Int, args: [u32; N], f: impl Fn([u64; N]) -> u64) -> Results {
    let word = (0..32 / int.bits).fold(0, |out, lane| {
        let shift = lane * int.bits;
        let elements = args.map(|word| u64::from(word) >> shift & int.mask());
        out | (f(elements) & int.mask()) << shift
    });
    Results::word(word as u32)
}

fn relu(int: Int, on: bool, a: u64) -> u64 {
    if on && int.signed { int.max_of(a, 0) } else { a }
}

fn pick(int: Int, min: bool, a: u64, b: u64) -> u64 {
    if min { int.min_of(a, b) } else { int.max_of(a, b) }
}

/// The predicates that sm_90 and later can give besides are not known.
pub fn vimnmx(call: &mut Call) -> Option<Results> {
    let int = vector(call);
    let clamp = call.has(M::RELU);
    call.count_is(3..=3)?;
    let min = call.predicate(2)?;
    Some(lanes(int, [call.plain(0)?, call.plain(1)?], |[a, b]| relu(int, clamp, pick(int, min, a, b))))
}

pub fn vimnmx3(call: &mut Call) -> Option<Results> {
    let int = vector(call);
    let clamp = call.has(M::RELU);
    call.count_is(4..=4)?;
    let min = call.predicate(3)?;
    let args = [call.plain(0)?, call.plain(1)?, call.plain(2)?];
    Some(lanes(int, args, |[a, b, c]| relu(int, clamp, pick(int, min, pick(int, min, a, b), c))))
}

/// The smaller or larger of `a + b` and `c`.
pub fn viaddmnmx(call: &mut Call) -> Option<Results> {
    let int = vector(call);
    let clamp = call.has(M::RELU);
    call.count_is(4..=4)?;
    let (min, negated) = (call.predicate(3)?, call.arg(1)?.negated);
    let args = [call.plain(0)?, call.arg(1)?.bits as u32, call.plain(2)?];
    Some(lanes(int, args, |[a, b, c]| {
        let sum = if negated { int.sub(a, b) } else { int.add(a, b) };
        relu(int, clamp, pick(int, min, sum, c))
    }))
}

pub fn viadd(call: &mut Call) -> Option<Results> {
    let int = call
        .choose(&[
            (M::_32, Int::U32),
            (M::_16x2, Int::U16),
            (M::S32, Int::S32),
            (M::S16x2, Int::S16),
            (M::U8x4, Int::U8),
            (M::S8x4, Int::S8),
        ])
        .unwrap_or(Int::U32);
    let saturate = call.has(M::ISAT);
    call.count_is(2..=2)?;
    let (a, b) = (call.arg(0)?, call.arg(1)?);
    if [a, b].iter().any(|arg| arg.absolute || arg.part != M::Empty) {
        return None;
    }
    let signed = |negated: bool, x: u64| if negated { -int.value(x) } else { int.value(x) };
    Some(lanes(int, [a.bits as u32, b.bits as u32], |[x, y]| {
        let sum = signed(a.negated, x) + signed(b.negated, y);
        if saturate { int.saturate(sum) } else { int.wrap(sum) }
    }))
}

pub fn iabs(call: &mut Call) -> Option<Results> {
    call.count_is(1..=1)?;
    Some(Results::word(Int::S32.abs(call.plain(0)?.into()) as u32))
}

pub fn popc(call: &mut Call) -> Option<Results> {
    call.count_is(1..=1)?;
    Some(Results::word(call.inverted(0)?.count_ones()))
}

pub fn brev(call: &mut Call) -> Option<Results> {
    call.count_is(1..=1)?;
    Some(Results::word(call.plain(0)?.reverse_bits()))
}

/// The position of the highest bit that differs from the sign; `.SH` counts from the top.
pub fn flo(call: &mut Call) -> Option<Results> {
    let int = signedness(call);
    let from_top = call.has(M::SH);
    call.count_is(1..=1)?;
    Some(Results::word(bits::bfind(int, from_top, call.inverted(0)?.into())))
}

fn overflow(call: &mut Call) -> Overflow {
    if call.has(M::W) { Overflow::Wrap } else { Overflow::Clamp }
}

pub fn sgxt(call: &mut Call) -> Option<Results> {
    let overflow = overflow(call);
    let int = signedness(call);
    call.count_is(2..=2)?;
    Some(Results::word(bits::szext(overflow, int.signed, call.plain(0)?, call.plain(1)?)))
}

pub fn bmsk(call: &mut Call) -> Option<Results> {
    let overflow = overflow(call);
    call.count_is(2..=2)?;
    Some(Results::word(bits::bmsk(overflow, call.plain(0)?, call.plain(1)?)))
}

/// `IDP.4A.S8.U8 R, a, b, c`: the first type is that of `a`.
pub fn idp(call: &mut Call) -> Option<Results> {
    call.count_is(3..=3)?;
    let [a, b, c] = [call.plain(0)?, call.plain(1)?, call.plain(2)?];
    let four = call.choose(&[(M::_4A, true), (M::_2A, false)])?;
    let bytes = [(M::U8, false), (M::S8, true)];
    Some(Results::word(if four {
        // The order of the two names decides: the list is read from the front.
        let [first, second] = call.modifiers.list.get(1..3)?.try_into().ok()?;
        let signed = |m: M| bytes.iter().find(|(name, _)| *name == m).map(|(_, signed)| *signed);
        let (x, y) = (signed(first)?, signed(second)?);
        let _ = (call.choose(&bytes), call.choose(&bytes));
        video::dp4a(x, y, a, b, c)
    } else {
        let high = call.choose(&[(M::LO, false), (M::HI, true)])?;
        let x = call.choose(&[(M::U16, false), (M::S16, true)])?;
        let y = call.choose(&bytes)?;
        video::dp2a(high, x, y, a, b, c)
    }))
}

/// `|a - b| + c`
pub fn vabsdiff(call: &mut Call) -> Option<Results> {
    let int = signedness(call);
    call.count_is(3..=3)?;
    let [a, b, c] = [0, 1, 2].map(|i| call.plain(i).map(u64::from));
    Some(Results::word(int.sad(a?, b?, c?) as u32))
}

/// Distances of four bytes; with `.ACC` their sum with `c`. Without it `c` has no part: ptxas gives the instruction the
/// last operand of `vabsdiff4`, which a full mask doesn't read.
pub fn vabsdiff4(call: &mut Call) -> Option<Results> {
    let signed = !call.has(M::U8);
    call.count_is(3..=3)?;
    let (a_select, b_select) = video::Simd::default_selectors(4);
    let how = video::Simd {
        operation: video::Operation::AbsDiff,
        lanes: 4,
        a_select,
        b_select,
        a_signed: signed,
        b_signed: signed,
        signed,
        saturate: false,
        accumulate: call.has(M::ACC),
        mask: 15,
    };
    Some(Results::word(video::simd(how, call.plain(0)?, call.plain(1)?, call.plain(2)?)))
}

const NARROW: [(M, Int); 4] = [(M::U8, Int::U8), (M::S8, Int::S8), (M::U16, Int::U16), (M::S16, Int::S16)];

/// `I2I.U8.S32.SAT`: saturated to the first type. Narrow results are extended as that type has it.
pub fn i2i(call: &mut Call) -> Option<Results> {
    let to = call.choose(&NARROW)?;
    if !(call.has(M::S32) && call.has(M::SAT)) {
        return None;
    }
    call.count_is(1..=1)?;
    let narrow = to.saturate(Int::S32.value(call.plain(0)?.into()));
    Some(Results::word(to.extended(narrow) as u32))
}

/// `a` and `b`, saturated, side by side, above them the lower bits of `c`.
pub fn i2ip(call: &mut Call) -> Option<Results> {
    let to = call.choose(&NARROW)?;
    if !(call.has(M::S32) && call.has(M::SAT)) {
        return None;
    }
    call.count_is(3..=3)?;
    let narrow = |i: usize| call.plain(i).map(|x| to.saturate(Int::S32.value(x.into())) as u32);
    let pair = narrow(0)? << to.bits | narrow(1)?;
    Some(Results::word(if to.bits == 8 { pair | call.plain(2)? << 16 } else { pair }))
}

fn byte(part: M) -> Option<u32> {
    [M::Empty, M::B1, M::B2, M::B3].iter().position(|m| *m == part).map(|i| 8 * i as u32)
}

/// `P2R R, PR, a, mask`: `a` with the masked predicates in a byte of it.
pub fn p2r(call: &mut Call) -> Option<Results> {
    let shift = call.choose(&[(M::B1, 8), (M::B2, 16), (M::B3, 24)]).unwrap_or(0);
    call.count_is(3..=3)?;
    let (predicates, a, mask) = (call.plain(0)?, call.plain(1)?, call.plain(2)? & 0x7f);
    Some(Results::word(a & !(mask << shift) | (predicates & mask) << shift))
}

/// `R2P PR, a.B1, mask`: the masked predicates from a byte of `a`.
pub fn r2p(call: &mut Call) -> Option<Results> {
    call.count_is(2..=3)?;
    let (predicates, a) = (call.plain(0)?, call.arg(1)?);
    let mask = if call.args.len() == 3 { call.plain(2)? } else { 0x7f } & 0x7f;
    let bits = (a.bits as u32) >> byte(a.part)?;
    Some(Results::word(predicates & !mask | bits & mask))
}
