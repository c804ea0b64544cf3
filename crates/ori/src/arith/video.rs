//! Dot products, and the video instructions of PTX.
//!
//! All follow the semantics sections of the PTX manual: a scalar operation gives a signed number of 34 bits, which
//! is clamped, goes through a second operation with `c` as it is, and only then becomes a word.
//!
//! Targets of today have none of the video instructions, and ptxas 13.0's sequences for them differ from the
//! manual: `vmad` multiplies unsigned words as signed ones, and a second `min` or `max` of unsigned words beyond
//! 2^31 compares them wrongly. Here the manual counts.

use super::float::Compare;
use super::integer::Int;

/// Four products of bytes, added up with `c`.
pub fn dp4a(a_signed: bool, b_signed: bool, a: u32, b: u32, c: u32) -> u32 {
    (0..4)
        .fold(c, |sum, i| sum.wrapping_add(product((8, a_signed), a >> (8 * i), (8, b_signed), b >> (8 * i))))
}

/// Two products of halves of `a` with bytes of the upper or lower half of `b`, added up with `c`.
pub fn dp2a(high: bool, a_signed: bool, b_signed: bool, a: u32, b: u32, c: u32) -> u32 {
    let b = if high { b >> 16 } else { b };
    (0..2).fold(c, |sum, i| {
        sum.wrapping_add(product((16, a_signed), a >> (16 * i), (8, b_signed), b >> (8 * i)))
    })
}

fn product((a_bits, a_signed): (u32, bool), a: u32, (b_bits, b_signed): (u32, bool), b: u32) -> u32 {
    let a = Int { bits: a_bits, signed: a_signed }.value(u64::from(a));
    let b = Int { bits: b_bits, signed: b_signed }.value(u64::from(b));
    (a * b) as u32
}

/// The first operation of a video instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `|a - b|`
    AbsDiff,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// Half the sum, rounded away from zero if that is not negative.
    Average,
    /// `a << b`; the amount wraps at 32 or is clamped to it.
    #[allow(missing_docs)]
    ShiftLeft { wrap: bool },
    /// `a >> b`; the amount wraps at 32 or is clamped to it.
    #[allow(missing_docs)]
    ShiftRight { wrap: bool },
    /// 1 if the comparison is true, else 0.
    Set(Compare),
}

impl Operation {
    fn apply(self, a: i64, b: i64) -> i64 {
        let amount = |wrap: bool| if wrap { b & 31 } else { b.clamp(0, 32) };
        match self {
            Operation::Add => a + b,
            Operation::Sub => a - b,
            Operation::AbsDiff => (a - b).abs(),
            Operation::Min => a.min(b),
            Operation::Max => a.max(b),
            Operation::Average if a + b >= 0 => (a + b + 1) >> 1,
            Operation::Average => (a + b) >> 1,
            Operation::ShiftLeft { wrap } => a << amount(wrap),
            Operation::ShiftRight { wrap } => a >> amount(wrap),
            Operation::Set(compare) => i64::from(compare.holds(Some(a.cmp(&b)))),
        }
    }
}

/// The optional second operation, with operand `c`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Second {
    /// No second operation.
    None,
    /// Adds `c`.
    Add,
    /// The minimum with `c`.
    Min,
    /// The maximum with `c`.
    Max,
    /// The result replaces a part of `c`.
    Merge(Part),
}

/// A byte or half of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The width.
    pub bits: u32,
    /// The number of the part, from the low end.
    pub index: u32,
}

impl Part {
    /// The whole word.
    pub const WORD: Part = Part { bits: 32, index: 0 };

    fn shift(self) -> u32 {
        self.bits * self.index
    }

    /// The part of a word, extended.
    pub fn of(self, signed: bool, word: u32) -> i64 {
        let shifted = u64::from(word.checked_shr(self.shift()).unwrap_or(0));
        Int { bits: self.bits, signed }.value(shifted) as i64
    }

    /// The word with this part replaced.
    pub fn put(self, word: u32, value: u32) -> u32 {
        let mask = (Int { bits: self.bits, signed: false }.mask() as u32) << self.shift();
        word & !mask | value << self.shift() & mask
    }
}

/// One argument of a video instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Argument {
    /// The part of its word.
    pub part: Part,
    /// Is its type signed?
    pub signed: bool,
}

/// A scalar instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scalar {
    /// The first operation.
    pub operation: Operation,
    /// The first argument.
    pub a: Argument,
    /// The second argument.
    pub b: Argument,
    /// The destination's type is signed.
    pub signed: bool,
    /// Saturate the result of the first operation.
    pub saturate: bool,
    /// The second operation.
    pub second: Second,
}

/// The result of a scalar instruction.
pub fn scalar(how: Scalar, a: u32, b: u32, c: u32) -> u32 {
    let exact = how.operation.apply(how.a.part.of(how.a.signed, a), how.b.part.of(how.b.signed, b));
    let first = Int { bits: 34, signed: true }.value(exact as u64);
    let bits = match how.second {
        Second::Merge(part) => part.bits,
        _ => 32,
    };
    let clamped = Int { bits, signed: how.signed };
    let first = if how.saturate { first.clamp(clamped.min(), clamped.max()) } else { first };
    let third = Int { bits: 32, signed: how.signed }.value(c.into());
    (match how.second {
        Second::None => first,
        Second::Add => first + third,
        Second::Min => first.min(third),
        Second::Max => first.max(third),
        Second::Merge(part) => return part.put(c, first as u32),
    }) as u32
}

/// Multiply and add with negation, plus one, scaling and saturation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MultiplyAdd {
    /// The first factor.
    pub a: Argument,
    /// The second factor.
    pub b: Argument,
    /// Negate `a * b`.
    pub negate_product: bool,
    /// Negate `c`.
    pub negate_c: bool,
    /// Add one more (`.po`).
    pub plus_one: bool,
    /// The right shift of the sum.
    pub shift: u32,
    /// Saturate the result.
    pub saturate: bool,
}

/// The result of `vmad`.
pub fn multiply_add(how: MultiplyAdd, a: u32, b: u32, c: u32) -> u32 {
    let signed = how.a.signed || how.b.signed || how.negate_product || how.negate_c;
    let product = i128::from(how.a.part.of(how.a.signed, a)) * i128::from(how.b.part.of(how.b.signed, b));
    let product = if how.negate_product { !product } else { product };
    let c = if how.negate_c { !c } else { c };
    let c = Int { bits: 32, signed }.value(u64::from(c));
    let one = how.plus_one || how.negate_product || how.negate_c;
    let result = (product + c + i128::from(one)) >> how.shift;
    let int = Int { bits: 32, signed };
    (if how.saturate { int.saturate(result) } else { int.wrap(result) }) as u32
}

/// A SIMD instruction on two halves or four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Simd {
    /// The operation of each lane.
    pub operation: Operation,
    /// 2 or 4.
    pub lanes: u32,
    /// Which element of `b:a` each lane takes; lane i's number is in bits 4i and up.
    pub a_select: u32,
    /// The same for the second argument.
    pub b_select: u32,
    /// Is the first type signed?
    pub a_signed: bool,
    /// Is the second type signed?
    pub b_signed: bool,
    /// The destination's type is signed.
    pub signed: bool,
    /// Saturate the result of each lane.
    pub saturate: bool,
    /// Add the lanes to `c`, instead of taking the lanes outside of the mask from it.
    pub accumulate: bool,
    /// The lanes that take part.
    pub mask: u32,
}

impl Simd {
    /// The selectors that stand for `a` and `b` themselves.
    pub fn default_selectors(lanes: u32) -> (u32, u32) {
        if lanes == 2 { (0x10, 0x32) } else { (0x3210, 0x7654) }
    }
}

/// The result of a SIMD instruction.
pub fn simd(how: Simd, a: u32, b: u32, c: u32) -> u32 {
    let bits = 32 / how.lanes;
    let source = u64::from(b) << 32 | u64::from(a);
    let element = |select: u32, signed: bool, lane: u32| {
        let index = select >> (4 * lane) & (2 * how.lanes - 1);
        Int { bits, signed }.value(source >> (index * bits)) as i64
    };
    let int = Int { bits, signed: how.signed };
    (0..how.lanes).filter(|lane| how.mask >> lane & 1 == 1).fold(c, |out, lane| {
        let x = element(how.a_select, how.a_signed, lane);
        let y = element(how.b_select, how.b_signed, lane);
        let value = how.operation.apply(x, y);
        match (how.accumulate, how.saturate) {
            (true, _) => out.wrapping_add(value as u32),
            (false, true) => Part { bits, index: lane }.put(out, int.saturate(i128::from(value)) as u32),
            (false, false) => Part { bits, index: lane }.put(out, value as u32),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_products() {
        assert_eq!(dp4a(true, true, 0xff02_0301, 0x0102_0304, 10), 10 - 1 + 4 + 9 + 4);
        assert_eq!(dp4a(false, false, 0xff00_0000, 0xff00_0000, 0), 255 * 255);
        assert_eq!(dp2a(false, true, true, 0xffff_0002, 0x0000_ff03, 0), 6 + 1);
        assert_eq!(dp2a(true, false, false, 0xffff_0002, 0x0201_0000, 1), 1 + 2 + 2 * 0xffff);
    }

    fn word(signed: bool) -> Argument {
        Argument { part: Part::WORD, signed }
    }

    #[test]
    fn scalars() {
        let add = Scalar {
            operation: Operation::Add,
            a: word(true),
            b: word(true),
            signed: true,
            saturate: true,
            second: Second::None,
        };
        assert_eq!(scalar(add, 0x7fff_ffff, 1, 0), 0x7fff_ffff);
        assert_eq!(scalar(Scalar { saturate: false, ..add }, 0x7fff_ffff, 1, 0), 0x8000_0000);
        let half = Part { bits: 16, index: 1 };
        let merge = Scalar { second: Second::Merge(half), ..add };
        assert_eq!(scalar(merge, 40000, 1, 0x1111_2222), 0x7fff_2222);
        let byte = Argument { part: Part { bits: 8, index: 3 }, signed: true };
        let difference = Scalar { operation: Operation::AbsDiff, a: byte, second: Second::Add, ..add };
        assert_eq!(scalar(difference, 0x8000_0000, 2, 100), 230);
        let shift = Scalar { operation: Operation::ShiftRight { wrap: false }, ..add };
        assert_eq!(scalar(shift, 0x8000_0000, 40, 0), 0xffff_ffff);
        let wide = Scalar { operation: Operation::ShiftLeft { wrap: false }, second: Second::Min, ..add };
        assert_eq!(scalar(wide, 2, 32, 5), 0x8000_0000);
        let unsigned = Scalar { b: word(false), signed: false, saturate: false, second: Second::Max, ..add };
        assert_eq!(scalar(unsigned, 0, 0xff80_0000, 0xffff_ffff), 0xffff_ffff);
        let set = Scalar { operation: Operation::Set(Compare::Lt), b: word(false), signed: false, ..add };
        assert_eq!(scalar(set, 0xffff_ffff, 0xffff_ffff, 0), 1);
    }

    #[test]
    fn multiply_adds() {
        let mad = MultiplyAdd {
            a: word(false),
            b: word(false),
            negate_product: false,
            negate_c: false,
            plus_one: false,
            shift: 0,
            saturate: true,
        };
        assert_eq!(multiply_add(mad, u32::MAX, u32::MAX, 0), u32::MAX);
        assert_eq!(multiply_add(MultiplyAdd { negate_product: true, ..mad }, 3, 5, 1), -14i32 as u32);
        assert_eq!(multiply_add(MultiplyAdd { negate_c: true, ..mad }, 3, 5, 20), -5i32 as u32);
        assert_eq!(multiply_add(MultiplyAdd { shift: 7, plus_one: true, ..mad }, 128, 3, 127), 4);
    }

    #[test]
    fn four_bytes() {
        let (a_select, b_select) = Simd::default_selectors(4);
        let how = Simd {
            operation: Operation::AbsDiff,
            lanes: 4,
            a_select,
            b_select,
            a_signed: false,
            b_signed: false,
            signed: false,
            saturate: false,
            accumulate: true,
            mask: 0xf,
        };
        assert_eq!(simd(how, 0x0102_0304, 0x0403_0201, 10), 10 + 3 + 1 + 1 + 3);
        let lanes = Simd { accumulate: false, mask: 0b0101, ..how };
        assert_eq!(simd(lanes, 0x0102_0304, 0x0403_0201, 0xaaaa_aaaa), 0xaa01_aa03);
        let add = Simd { operation: Operation::Add, saturate: true, accumulate: false, ..how };
        assert_eq!(simd(add, 0xff01_80ff, 0x0101_8001, 0), 0xff02_ffff);
    }
}
