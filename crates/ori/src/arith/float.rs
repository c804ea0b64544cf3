//! Software floating point: any format up to 64 bits, any rounding.
//!
//! Values travel as their bits in the low end of a `u64`. An operation decodes its arguments, computes exactly
//! (a significand of 128 bits, with all that is lost below it gathered in the lowest bit), and rounds once.
//!
//! NaN: arithmetic on f16, bf16 and f32 gives one NaN for all, the format's [`Format::nan`]. Arithmetic on f64
//! keeps a NaN argument, sign and payload, made quiet; `-x` and `|x|` leave a NaN as it is. Where several
//! arguments are NaN, the second factor wins over the addend and the addend over the first factor; of a
//! division the dividend wins. An invalid operation gives [`Format::nan`]. All of this was seen on an H200.

/// Which numbers the highest exponent stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Specials {
    /// Infinities and NaNs.
    Ieee,
    /// Numbers, but all ones is NaN; there is no infinity (e4m3).
    NanOnly,
    /// Numbers alone (e2m1, e2m3, e3m2).
    None,
}

/// A binary floating-point format with a sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// Bits of the exponent.
    pub exponent: u32,
    /// Bits of the mantissa.
    pub mantissa: u32,
    /// Which bit patterns are infinities and NaN.
    pub specials: Specials,
    /// The NaN that arithmetic and conversions give; without NaNs, the largest number, which stands for it.
    pub nan: u64,
}

const fn format(exponent: u32, mantissa: u32, specials: Specials, nan: u64) -> Format {
    Format { exponent, mantissa, specials, nan }
}

/// IEEE binary16.
pub const F16: Format = format(5, 10, Specials::Ieee, 0x7fff);
/// bfloat16.
pub const BF16: Format = format(8, 7, Specials::Ieee, 0x7fff);
/// IEEE binary32.
pub const F32: Format = format(8, 23, Specials::Ieee, 0x7fff_ffff);
/// An invalid operation on numbers gives the negative NaN.
pub const F64: Format = format(11, 52, Specials::Ieee, 0xfff8_0000_0000_0000);
/// FP8 with a 4-bit exponent, NaN but no infinity.
pub const E4M3: Format = format(4, 3, Specials::NanOnly, 0x7f);
/// FP8 with a 5-bit exponent.
pub const E5M2: Format = format(5, 2, Specials::Ieee, 0x7f);
/// FP4.
pub const E2M1: Format = format(2, 1, Specials::None, 0x7);
/// FP6 with a 2-bit exponent.
pub const E2M3: Format = format(2, 3, Specials::None, 0x1f);
/// FP6 with a 3-bit exponent.
pub const E3M2: Format = format(3, 2, Specials::None, 0x1f);
/// The upper 19 bits of an f32; [`super::convert`] shifts them.
pub const TF32: Format = format(8, 10, Specials::Ieee, 0x3ffff);

impl Format {
    /// Bits of a number.
    #[inline]
    pub const fn width(self) -> u32 {
        1 + self.exponent + self.mantissa
    }

    /// The mask of the sign bit.
    #[inline]
    pub const fn sign_bit(self) -> u64 {
        1 << (self.width() - 1)
    }

    #[inline]
    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The exponent of the lowest bit of the smallest number.
    #[inline]
    const fn lowest(self) -> i32 {
        1 - self.bias() - self.mantissa as i32
    }

    /// The exponent field, all ones.
    #[inline]
    const fn top_exponent(self) -> u64 {
        ((1 << self.exponent) - 1) << self.mantissa
    }

    /// The largest finite number.
    #[inline]
    pub const fn largest(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.top_exponent() - 1,
            Specials::NanOnly => self.sign_bit() - 2,
            Specials::None => self.sign_bit() - 1,
        }
    }

    /// Plus infinity, or the largest number where there is none.
    #[inline]
    pub const fn infinity(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.top_exponent(),
            _ => self.largest(),
        }
    }

    /// The number 1.
    #[inline]
    pub const fn one(self) -> u64 {
        (self.bias() as u64) << self.mantissa
    }

    /// Is it NaN?
    #[inline]
    pub const fn is_nan(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign_bit() - 1);
        match self.specials {
            Specials::Ieee => magnitude > self.top_exponent(),
            Specials::NanOnly => magnitude == self.sign_bit() - 1,
            Specials::None => false,
        }
    }

    /// Is it an infinity?
    #[inline]
    pub const fn is_infinite(self, bits: u64) -> bool {
        matches!(self.specials, Specials::Ieee) && bits & (self.sign_bit() - 1) == self.top_exponent()
    }

    /// Is it a zero of either sign?
    #[inline]
    pub const fn is_zero(self, bits: u64) -> bool {
        bits & (self.sign_bit() - 1) == 0
    }

    /// Is it subnormal?
    #[inline]
    pub const fn is_subnormal(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign_bit() - 1);
        magnitude != 0 && magnitude < 1 << self.mantissa
    }

    /// Is the sign bit set?
    #[inline]
    pub const fn is_negative(self, bits: u64) -> bool {
        bits & self.sign_bit() != 0
    }

    /// `-x` as an operand of arithmetic: a NaN keeps its sign.
    #[inline]
    pub const fn negated(self, bits: u64) -> u64 {
        if self.is_nan(bits) { bits } else { bits ^ self.sign_bit() }
    }

    /// `|x|` as an operand of arithmetic: a NaN keeps its sign.
    #[inline]
    pub const fn absolute(self, bits: u64) -> u64 {
        if self.is_nan(bits) { bits } else { bits & !self.sign_bit() }
    }

    /// Subnormal numbers become zero; the sign stays.
    #[inline]
    pub const fn flush(self, bits: u64) -> u64 {
        if self.is_subnormal(bits) { bits & self.sign_bit() } else { bits }
    }
}

/// A rounding mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rounding {
    /// To nearest, ties to even.
    #[default]
    Nearest,
    /// Toward zero.
    Zero,
    /// Toward negative infinity.
    Down,
    /// Toward positive infinity.
    Up,
    /// To nearest, ties away from zero.
    Away,
    /// Up in magnitude if the first `width` bits of what is lost, plus `bits`, carry.
    Stochastic {
        /// The random bits.
        bits: u32,
        /// How many they are.
        width: u32,
    },
}

/// What is done to a result beyond rounding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clamp {
    /// Nothing.
    #[default]
    None,
    /// To [0, 1]; NaN becomes 0, and a negative zero a positive one.
    Saturate,
    /// Negative numbers become 0, and a negative zero a positive one; NaN stays.
    Relu,
}

/// How an operation rounds, flushes and clamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    /// The rounding mode.
    pub rounding: Rounding,
    /// Subnormal arguments and results become zero. A result is flushed if it is below the smallest normal number
    /// when rounded to as many digits: an H200 makes zero of f32 and f16 products that subnormal rounding would lift to
    /// that number, and that number of f16 products that lie closer to it.
    pub ftz: bool,
    /// The range of results.
    pub clamp: Clamp,
    /// What is too large becomes the largest number, and so does an infinity.
    pub finite: bool,
}

impl Flow {
    /// Round to nearest, no flushing, no clamping.
    pub const NEAREST: Flow =
        Flow { rounding: Rounding::Nearest, ftz: false, clamp: Clamp::None, finite: false };

    /// A rounding mode, no flushing, no clamping.
    pub const fn rounding(rounding: Rounding) -> Flow {
        Flow { rounding, ..Flow::NEAREST }
    }

    #[inline]
    fn argument(self, format: Format, bits: u64) -> u64 {
        if self.ftz { format.flush(bits) } else { bits }
    }

    /// Flushes and clamps a rounded result.
    #[inline]
    pub fn result(self, format: Format, bits: u64) -> u64 {
        let bits = self.argument(format, bits);
        match self.clamp {
            Clamp::None => bits,
            Clamp::Saturate if format.is_nan(bits) || format.is_negative(bits) => 0,
            Clamp::Saturate => bits.min(format.one()),
            Clamp::Relu if format.is_negative(bits) && !format.is_nan(bits) => 0,
            Clamp::Relu => bits,
        }
    }
}

/// `significand * 2^exponent`, exact but for the lowest bit, which also stands for all that was cut off below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exact {
    /// The sign.
    pub negative: bool,
    /// The weight of the lowest bit.
    pub exponent: i32,
    /// The digits.
    pub significand: u128,
}

impl Exact {
    /// Of a finite number.
    #[inline]
    pub fn decode(format: Format, bits: u64) -> Exact {
        let field = bits & (format.sign_bit() - 1);
        let (biased, fraction) = (field >> format.mantissa, field & ((1 << format.mantissa) - 1));
        let hidden = if biased == 0 { 0 } else { 1 << format.mantissa };
        Exact {
            negative: format.is_negative(bits),
            exponent: format.lowest() + (biased as i32 - 1).max(0),
            significand: u128::from(fraction | hidden),
        }
    }

    #[inline]
    fn is_zero(self) -> bool {
        self.significand == 0
    }

    /// The same value with the highest bit of the significand at bit `position`.
    #[inline]
    fn normalised(self, position: u32) -> Exact {
        let shift = position as i32 - (127 - self.significand.leading_zeros() as i32);
        self.scaled(self.exponent - shift)
    }

    /// The same value at another exponent; what falls off is kept as the lowest bit.
    #[inline]
    fn scaled(self, exponent: i32) -> Exact {
        let significand = match exponent - self.exponent {
            right @ 1.. => {
                let kept = self.significand.checked_shr(right as u32).unwrap_or(0);
                let lost = self.significand != kept.checked_shl(right as u32).unwrap_or(0);
                kept | u128::from(lost)
            }
            left => self.significand << left.unsigned_abs(),
        };
        Exact { exponent, significand, ..self }
    }

    #[inline]
    fn times(self, other: Exact) -> Exact {
        Exact {
            negative: self.negative != other.negative,
            exponent: self.exponent + other.exponent,
            significand: self.significand * other.significand,
        }
    }

    /// The sum. Both significands have at most 108 bits, so that 18 bits are left below them: where high bits
    /// cancel, the numbers are close and nothing was cut off; where bits are cut off, at most one bit cancels.
    #[inline]
    fn plus(self, other: Exact, rounding: Rounding) -> Exact {
        if self.is_zero() || other.is_zero() {
            let zero = self.is_zero() && other.is_zero() && self.negative != other.negative;
            let sum = if self.is_zero() { other } else { self };
            let negative = if zero { rounding == Rounding::Down } else { sum.negative };
            return Exact { negative, ..sum };
        }
        let (a, b) = (self.normalised(125), other.normalised(125));
        let (high, low) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
        let low = low.scaled(high.exponent);
        let (negative, significand) = if high.negative == low.negative {
            (high.negative, high.significand + low.significand)
        } else if high.significand >= low.significand {
            (high.negative, high.significand - low.significand)
        } else {
            (low.negative, low.significand - high.significand)
        };
        let negative = if significand == 0 { rounding == Rounding::Down } else { negative };
        Exact { negative, exponent: high.exponent, significand }
    }

    /// Is it below the smallest normal number, also when it is rounded as if there were smaller ones? `top` is the
    /// exponent of its first bit.
    #[inline]
    fn is_tiny(self, format: Format, top: i32, rounding: Rounding) -> bool {
        let digits = format.mantissa as i32;
        let smallest = format.lowest() + digits;
        top < smallest - 1
            || top == smallest - 1 && round_at(self, top - digits, rounding) >> (digits + 1) == 0
    }

    /// Rounded to a format, or flushed. Overflow gives infinity or the largest number, as the rounding has it.
    #[inline]
    pub fn round(self, format: Format, flow: Flow) -> u64 {
        let sign = if self.negative { format.sign_bit() } else { 0 };
        if self.is_zero() {
            return sign;
        }
        let top = self.exponent + 127 - self.significand.leading_zeros() as i32;
        if flow.ftz && self.is_tiny(format, top, flow.rounding) {
            return sign;
        }
        let last = (top - format.mantissa as i32).max(format.lowest());
        let kept = round_at(self, last, flow.rounding);
        // A significand with its hidden bit adds one to the exponent field, as does a carry out of rounding.
        let magnitude = (((last - format.lowest()) as u128) << format.mantissa) + kept;
        if magnitude <= u128::from(format.largest()) {
            return sign | magnitude as u64;
        }
        let to_infinity = match flow.rounding {
            Rounding::Nearest | Rounding::Away | Rounding::Stochastic { .. } => true,
            Rounding::Zero => false,
            Rounding::Down => self.negative,
            Rounding::Up => !self.negative,
        };
        sign | if to_infinity && !flow.finite { format.infinity() } else { format.largest() }
    }
}

/// The significand as a multiple of `2^last`.
#[inline]
pub(super) fn round_at(value: Exact, last: i32, rounding: Rounding) -> u128 {
    let shift = last - value.exponent;
    if shift <= 0 {
        return value.significand << shift.unsigned_abs();
    }
    let shift = shift.unsigned_abs();
    let kept = value.significand.checked_shr(shift).unwrap_or(0);
    let lost = value.significand ^ kept.checked_shl(shift).unwrap_or(0);
    let half = 1u128.checked_shl(shift - 1).unwrap_or(u128::MAX);
    let up = match rounding {
        Rounding::Nearest => lost > half || lost == half && kept & 1 == 1,
        Rounding::Away => lost >= half,
        Rounding::Zero => false,
        Rounding::Down => value.negative && lost != 0,
        Rounding::Up => !value.negative && lost != 0,
        Rounding::Stochastic { bits, width } => {
            let first = match shift.checked_sub(width) {
                Some(right) => lost.checked_shr(right).unwrap_or(0),
                None => lost << (width - shift),
            };
            first + u128::from(bits) >= 1 << width
        }
    };
    kept + u128::from(up)
}

/// The NaN that an operation gives, of arguments in order of their weight.
#[inline]
fn nan(format: Format, arguments: &[u64]) -> u64 {
    let quiet = 1 << (format.mantissa - 1);
    let argument = arguments.iter().find(|bits| format.is_nan(**bits));
    match argument {
        Some(bits) if format == F64 => bits | quiet,
        _ => format.nan,
    }
}

/// `a + b`
#[inline]
pub fn add(format: Format, flow: Flow, a: u64, b: u64) -> u64 {
    let (a, b) = (flow.argument(format, a), flow.argument(format, b));
    let bits = if format.is_nan(a) || format.is_nan(b) {
        nan(format, &[b, a])
    } else if format.is_infinite(a) {
        if format.is_infinite(b) && a != b { nan(format, &[]) } else { a }
    } else if format.is_infinite(b) {
        b
    } else {
        let sum = Exact::decode(format, a).plus(Exact::decode(format, b), flow.rounding);
        sum.round(format, flow)
    };
    flow.result(format, bits)
}

/// `a - b`
#[inline]
pub fn sub(format: Format, flow: Flow, a: u64, b: u64) -> u64 {
    add(format, flow, a, format.negated(b))
}

/// `a * b`
#[inline]
pub fn mul(format: Format, flow: Flow, a: u64, b: u64) -> u64 {
    let (a, b) = (flow.argument(format, a), flow.argument(format, b));
    let sign = (a ^ b) & format.sign_bit();
    let bits = if format.is_nan(a) || format.is_nan(b) {
        nan(format, &[b, a])
    } else if format.is_infinite(a) || format.is_infinite(b) {
        if format.is_zero(a) || format.is_zero(b) { nan(format, &[]) } else { sign | format.infinity() }
    } else {
        Exact::decode(format, a).times(Exact::decode(format, b)).round(format, flow)
    };
    flow.result(format, bits)
}

/// `a * b + c`, rounded once.
#[inline]
pub fn fma(format: Format, flow: Flow, a: u64, b: u64, c: u64) -> u64 {
    let [a, b, c] = [a, b, c].map(|bits| flow.argument(format, bits));
    let sign = (a ^ b) & format.sign_bit();
    let infinite = format.is_infinite(a) || format.is_infinite(b);
    let bits = if format.is_nan(a) || format.is_nan(b) || format.is_nan(c) {
        nan(format, &[b, c, a])
    } else if infinite && (format.is_zero(a) || format.is_zero(b)) {
        nan(format, &[])
    } else if infinite {
        let product = sign | format.infinity();
        if format.is_infinite(c) && c != product { nan(format, &[]) } else { product }
    } else if format.is_infinite(c) {
        c
    } else {
        let product = Exact::decode(format, a).times(Exact::decode(format, b));
        product.plus(Exact::decode(format, c), flow.rounding).round(format, flow)
    };
    flow.result(format, bits)
}

/// `a / b`
pub fn div(format: Format, flow: Flow, a: u64, b: u64) -> u64 {
    let (a, b) = (flow.argument(format, a), flow.argument(format, b));
    let sign = (a ^ b) & format.sign_bit();
    let invalid = format.is_infinite(a) && format.is_infinite(b) || format.is_zero(a) && format.is_zero(b);
    let bits = if format.is_nan(a) || format.is_nan(b) {
        nan(format, &[a, b])
    } else if invalid {
        nan(format, &[])
    } else if format.is_infinite(a) || format.is_zero(b) {
        sign | format.infinity()
    } else if format.is_infinite(b) || format.is_zero(a) {
        sign
    } else {
        let n = Exact::decode(format, a).normalised(126);
        let d = Exact::decode(format, b).normalised(60);
        let quotient = n.significand / d.significand;
        let inexact = !n.significand.is_multiple_of(d.significand);
        let exact = Exact {
            negative: sign != 0,
            exponent: n.exponent - d.exponent,
            significand: quotient | u128::from(inexact),
        };
        exact.round(format, flow)
    };
    flow.result(format, bits)
}

/// `1 / a`
pub fn rcp(format: Format, flow: Flow, a: u64) -> u64 {
    div(format, flow, format.one(), a)
}

/// `sqrt(a)`
pub fn sqrt(format: Format, flow: Flow, a: u64) -> u64 {
    let a = flow.argument(format, a);
    let bits = if format.is_nan(a) {
        nan(format, &[a])
    } else if format.is_zero(a) {
        a
    } else if format.is_negative(a) {
        nan(format, &[])
    } else if format.is_infinite(a) {
        a
    } else {
        let exact = Exact::decode(format, a).normalised(125);
        let even = if exact.exponent % 2 == 0 { exact } else { exact.scaled(exact.exponent - 1) };
        let root = even.significand.isqrt();
        let inexact = root * root != even.significand;
        let significand = root << 1 | u128::from(inexact);
        Exact { negative: false, exponent: even.exponent / 2 - 1, significand }.round(format, flow)
    };
    flow.result(format, bits)
}

/// Rounds to a whole number of the same format.
pub fn round_to_integer(format: Format, flow: Flow, a: u64) -> u64 {
    let a = flow.argument(format, a);
    let bits = if format.is_nan(a) {
        nan(format, &[a])
    } else if format.is_infinite(a) {
        a
    } else {
        let exact = Exact::decode(format, a);
        let whole = if exact.exponent < 0 {
            Exact { exponent: 0, significand: round_at(exact, 0, flow.rounding), ..exact }
        } else {
            exact
        };
        whole.round(format, Flow::NEAREST)
    };
    flow.result(format, bits)
}

/// `abs` and `neg` as arithmetic: ptxas makes them of an addition, so that a NaN becomes the format's NaN (and
/// stays as it is in f64).
#[inline]
pub fn abs(format: Format, flow: Flow, a: u64) -> u64 {
    add(format, flow, format.absolute(a), format.sign_bit())
}

/// `-a`
#[inline]
pub fn neg(format: Format, flow: Flow, a: u64) -> u64 {
    add(format, flow, format.negated(a), format.sign_bit())
}

/// The second argument with the first one's sign.
#[inline]
pub fn copysign(format: Format, a: u64, b: u64) -> u64 {
    a & format.sign_bit() | b & !format.sign_bit()
}

/// A number that orders as the float does, with the negative zero below the positive one.
#[inline]
fn order(format: Format, bits: u64) -> i64 {
    let magnitude = (bits & (format.sign_bit() - 1)) as i64;
    if format.is_negative(bits) { -magnitude - 1 } else { magnitude }
}

/// How `min` and `max` treat special arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MinMax {
    /// The maximum, not the minimum.
    pub max: bool,
    /// A NaN argument gives NaN; otherwise the other argument.
    pub nan: bool,
    /// Compare magnitudes; the result's sign is the exclusive or of the arguments' signs.
    pub xorsign: bool,
}

/// `min(a, b)` or `max(a, b)`.
pub fn min_max(format: Format, flow: Flow, how: MinMax, a: u64, b: u64) -> u64 {
    let (a, b) = (flow.argument(format, a), flow.argument(format, b));
    let sign = (a ^ b) & format.sign_bit();
    let magnitude = |bits: u64| if how.xorsign { bits & !format.sign_bit() } else { bits };
    let (x, y) = (magnitude(a), magnitude(b));
    let bits = match (format.is_nan(x), format.is_nan(y)) {
        // ptxas's sequence for f64 takes the second of two NaNs and makes it quiet.
        (true, true) if format == F64 => nan(format, &[y]),
        (true, true) => nan(format, &[]),
        (true, false) | (false, true) if how.nan => nan(format, &[x, y]),
        (true, false) => y,
        (false, true) => x,
        (false, false) if (order(format, x) <= order(format, y)) != how.max => x,
        (false, false) => y,
    };
    let bits = if how.xorsign && !format.is_nan(bits) { bits | sign } else { bits };
    flow.result(format, bits)
}

/// A comparison; the ordered ones are false if an argument is NaN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// `a == b`
    Eq,
    /// `a != b`, and no argument is NaN.
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
    /// The unordered ones also hold if an argument is NaN.
    Equ,
    /// `a != b`
    Neu,
    /// `a < b`, or unordered.
    Ltu,
    /// `a <= b`, or unordered.
    Leu,
    /// `a > b`, or unordered.
    Gtu,
    /// `a >= b`, or unordered.
    Geu,
    /// No argument is NaN.
    Num,
    /// One argument is NaN.
    Nan,
}

impl Compare {
    /// Of the order of two values; `None` if one is NaN.
    #[inline]
    pub fn holds(self, order: Option<std::cmp::Ordering>) -> bool {
        use Compare::*;
        let Some(order) = order else {
            return matches!(self, Equ | Neu | Ltu | Leu | Gtu | Geu | Nan);
        };
        match self {
            Eq | Equ => order.is_eq(),
            Ne | Neu => order.is_ne(),
            Lt | Ltu => order.is_lt(),
            Le | Leu => order.is_le(),
            Gt | Gtu => order.is_gt(),
            Ge | Geu => order.is_ge(),
            Num => true,
            Nan => false,
        }
    }
}

/// The order of two floats; zeros are equal, NaN has none.
#[inline]
pub fn ordering(format: Format, ftz: bool, a: u64, b: u64) -> Option<std::cmp::Ordering> {
    let (a, b) = if ftz { (format.flush(a), format.flush(b)) } else { (a, b) };
    if format.is_nan(a) || format.is_nan(b) {
        return None;
    }
    if format.is_zero(a) && format.is_zero(b) {
        return Some(std::cmp::Ordering::Equal);
    }
    Some(order(format, a).cmp(&order(format, b)))
}

#[cfg(test)]
#[path = "float_tests.rs"]
mod tests;
