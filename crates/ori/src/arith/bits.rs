//! Bits and bytes of 32- and 64-bit words.

use super::integer::Int;

/// Bit by bit, the entry of the truth table that the three bits name.
#[inline]
pub fn lop3(a: u32, b: u32, c: u32, table: u32) -> u32 {
    (0..8).filter(|i| table >> i & 1 != 0).fold(0, |out, i| {
        let pick = |x: u32, bit: u32| if i >> bit & 1 != 0 { x } else { !x };
        out | pick(a, 2) & pick(b, 1) & pick(c, 0)
    })
}

/// How a byte permute reads its selector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permute {
    /// A nibble per byte: three bits choose, the fourth spreads the byte's sign.
    Each,
    /// Four bytes upwards from the one that the two lowest bits name.
    Forward,
    /// Four bytes downwards from it, around the end.
    Backward,
    /// That byte four times.
    Replicate8,
    /// Bytes 3 to 0, none below it.
    ClampLeft,
    /// Bytes 3 to 0, none above it.
    ClampRight,
    /// The half that the lowest bit names, twice.
    Replicate16,
}

/// `PRMT`: four bytes of `b:a`, chosen by the selector.
pub fn prmt(mode: Permute, a: u32, b: u32, selector: u32) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let base = selector & 3;
    let pick = |i: u32| {
        let nibble = selector >> (4 * i);
        let index = match mode {
            Permute::Each => nibble,
            Permute::Forward => base + i,
            Permute::Backward => base.wrapping_sub(i),
            Permute::Replicate8 => base,
            Permute::ClampLeft => base.max(i),
            Permute::ClampRight => base.min(i),
            Permute::Replicate16 => (base & 1) << 1 | i & 1,
        };
        let byte = bytes[(index & 7) as usize];
        let sign = mode == Permute::Each && nibble & 8 != 0;
        if sign { (byte as i8 >> 7) as u8 } else { byte }
    };
    u32::from_le_bytes([pick(0), pick(1), pick(2), pick(3)])
}

/// PTX restricts positions and lengths to 8 bits. Of larger ones ptxas's code takes 8 bits for 32-bit fields
/// and all for 64-bit fields (seen on an H200).
fn field(int: Int, pos: u32, len: u32) -> (u32, u32) {
    if int.bits == 64 { (pos, len) } else { (pos & 0xff, len & 0xff) }
}

/// A field of `len` bits from `pos` on. The sign of a field that reaches beyond the top is the top bit.
pub fn bfe(int: Int, a: u64, pos: u32, len: u32) -> u64 {
    let (pos, len) = field(int, pos, len);
    if len == 0 {
        return 0;
    }
    let field = int.shr(a, pos);
    if len >= int.bits {
        return field;
    }
    Int { bits: len, signed: int.signed }.extended(field) & int.mask()
}

/// `b` with `len` bits from `pos` on taken from `a`.
pub fn bfi(int: Int, a: u64, b: u64, pos: u32, len: u32) -> u64 {
    let (pos, len) = field(int, pos, len);
    let ones = if len >= int.bits { int.mask() } else { (1 << len) - 1 };
    let mask = int.shl(ones, pos);
    (int.shl(a, pos) & mask | b & !mask) & int.mask()
}

/// The position of the highest bit that differs from the sign, or all ones where there is none; counted from
/// the top for `shift_amount`.
pub fn bfind(int: Int, shift_amount: bool, a: u64) -> u32 {
    let value = int.extended(a);
    let magnitude = if int.signed && value >> 63 == 1 { !value } else { value } & int.mask();
    match magnitude.checked_ilog2() {
        None => u32::MAX,
        Some(position) if shift_amount => int.bits - 1 - position,
        Some(position) => position,
    }
}

/// The position of the n-th set bit from `base` on: upwards for positive `n`, downwards for negative, the bit at
/// `base` itself for zero. All ones where there is none; zero for the smallest `n`, whose opposite is no number
/// (ptxas's code gives that).
pub fn fns(mask: u32, base: u32, n: i32) -> u32 {
    let bit = |i: &u32| mask >> i & 1 == 1;
    let found = match n {
        _ if n == i32::MIN => Some(0),
        _ if base > 31 => None,
        0 => Some(base).filter(bit),
        1.. => (base..32).filter(bit).nth(n as usize - 1),
        ..0 => (0..=base).rev().filter(bit).nth(n.unsigned_abs() as usize - 1),
    };
    found.unwrap_or(u32::MAX)
}

/// How counts of 32 and more are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// The limit.
    Clamp,
    /// Modulo the limit.
    Wrap,
}

impl Overflow {
    /// The effective shift amount.
    #[inline]
    pub fn amount(self, amount: u32, limit: u32) -> u32 {
        match self {
            Overflow::Clamp => amount.min(limit),
            Overflow::Wrap => amount % limit,
        }
    }
}

/// `width` ones from `start` on.
pub fn bmsk(overflow: Overflow, start: u32, width: u32) -> u32 {
    let (start, width) = (overflow.amount(start, 32), overflow.amount(width, 32));
    let ones = (1u64 << width) - 1;
    (ones << start) as u32
}

/// The lowest `width` bits, sign- or zero-extended.
pub fn szext(overflow: Overflow, signed: bool, a: u32, width: u32) -> u32 {
    match overflow.amount(width, 32) {
        0 => 0,
        width => Int { bits: width, signed }.extended(u64::from(a)) as u32,
    }
}

/// The upper word of `high:low` shifted left.
#[inline]
pub fn funnel_left(overflow: Overflow, low: u32, high: u32, amount: u32) -> u32 {
    let amount = overflow.amount(amount, 32);
    ((u64::from(high) << 32 | u64::from(low)) << amount >> 32) as u32
}

/// The lower word of `high:low` shifted right.
#[inline]
pub fn funnel_right(overflow: Overflow, low: u32, high: u32, amount: u32) -> u32 {
    let amount = overflow.amount(amount, 32);
    ((u64::from(high) << 32 | u64::from(low)) >> amount) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lop3_tables() {
        let (a, b, c) = (0xf0u32, 0xcc, 0xaa);
        for table in 0..256 {
            assert_eq!(lop3(a, b, c, table) & 0xff, table);
        }
    }

    /// The PTX manual's table of modes, byte 3 first.
    #[test]
    fn permute_modes() {
        let (a, b) = (0x0302_0100, 0x0706_0504);
        let rows = [
            (Permute::Forward, [0x0302_0100, 0x0403_0201, 0x0504_0302, 0x0605_0403]),
            (Permute::Backward, [0x0506_0700, 0x0607_0001, 0x0700_0102, 0x0001_0203]),
            (Permute::Replicate8, [0, 0x0101_0101, 0x0202_0202, 0x0303_0303]),
            (Permute::ClampLeft, [0x0302_0100, 0x0302_0101, 0x0302_0202, 0x0303_0303]),
            (Permute::ClampRight, [0, 0x0101_0100, 0x0202_0100, 0x0302_0100]),
            (Permute::Replicate16, [0x0100_0100, 0x0302_0302, 0x0100_0100, 0x0302_0302]),
        ];
        for (mode, expected) in rows {
            for (selector, result) in expected.into_iter().enumerate() {
                assert_eq!(prmt(mode, a, b, selector as u32 + 8), result, "{mode:?} {selector}");
            }
        }
        assert_eq!(prmt(Permute::Each, 0x1234_5680, 0x9abc_def0, 0x7408), 0x9af0_80ff);
    }

    /// Against a loop over bits, for all positions and lengths.
    #[test]
    fn fields() {
        let word = 0x9234_5678_9abc_def1u64;
        for int in [Int::U32, Int::S32, Int::U64, Int::S64] {
            let a = word & int.mask();
            for pos in 0..300u32 {
                for len in 0..300u32 {
                    let (p, l) = if int.bits == 64 { (pos, len) } else { (pos & 255, len & 255) };
                    let bit = |x: u64, i: u32| if i < int.bits { x >> i & 1 } else { 0 };
                    let top = (p + l).saturating_sub(1).min(int.bits - 1);
                    let sign = if int.signed && l > 0 { bit(a, top) } else { 0 };
                    let expected = (0..int.bits).fold(0, |out, i| {
                        let inside = i < l && p + i < int.bits;
                        out | (if inside { bit(a, p + i) } else { sign }) << i
                    });
                    assert_eq!(bfe(int, a, pos, len), expected, "{int:?} {pos} {len}");
                    let b = !a & int.mask();
                    let inserted = (0..int.bits).fold(0, |out, i| {
                        let inside = i >= p && i - p < l;
                        out | (if inside { bit(a, i - p) } else { bit(b, i) }) << i
                    });
                    assert_eq!(bfi(int, a, b, pos, len), inserted, "{int:?} {pos} {len}");
                }
            }
        }
    }

    #[test]
    fn searches() {
        assert_eq!(bfind(Int::U32, false, 0), u32::MAX);
        assert_eq!(bfind(Int::U32, true, 1), 31);
        assert_eq!(bfind(Int::S32, false, 0xffff_ffff), u32::MAX);
        assert_eq!(bfind(Int::S32, false, 0xffff_fffe), 0);
        assert_eq!(bfind(Int::S64, true, 1 << 40), 23);
        assert_eq!(fns(0b1011_0000, 4, 1), 4);
        assert_eq!(fns(0b1011_0000, 4, 3), 7);
        assert_eq!(fns(0b1011_0000, 4, 4), u32::MAX);
        assert_eq!(fns(0b1011_0000, 6, -1), 5);
        assert_eq!(fns(0b1011_0000, 6, -2), 4);
        assert_eq!(fns(0b1011_0000, 6, 0), u32::MAX);
        assert_eq!(fns(0b1011_0000, 7, 0), 7);
        assert_eq!(fns(u32::MAX, 32, -1), u32::MAX);
        assert_eq!(fns(0x0080_0000, 0, i32::MIN), 0);
        assert_eq!(bfe(Int::U64, 0x80_0000, 0, 0x8000_0000), 0x80_0000);
    }

    #[test]
    fn masks_and_extensions() {
        assert_eq!(bmsk(Overflow::Wrap, 1, 2), 6);
        assert_eq!(bmsk(Overflow::Clamp, 32, 4), 0);
        assert_eq!(bmsk(Overflow::Clamp, 4, 99), 0xffff_fff0);
        assert_eq!(bmsk(Overflow::Wrap, 4, 32), 0);
        assert_eq!(bmsk(Overflow::Wrap, 36, 30), 0xffff_fff0);
        assert_eq!(szext(Overflow::Clamp, true, 0x80, 8), 0xffff_ff80);
        assert_eq!(szext(Overflow::Clamp, false, 0x180, 8), 0x80);
        assert_eq!(szext(Overflow::Clamp, true, 0x8000_0001, 40), 0x8000_0001);
        assert_eq!(szext(Overflow::Wrap, true, 0x8000_0001, 32), 0);
        assert_eq!(szext(Overflow::Wrap, true, 0x8000_0001, 33), 0xffff_ffff);
    }

    #[test]
    fn funnels() {
        let (low, high) = (0x89ab_cdef, 0x0123_4567);
        for amount in 0..70u32 {
            let wide = u128::from(0x0123_4567_89ab_cdefu64);
            let clamped = amount.min(32);
            assert_eq!(funnel_left(Overflow::Clamp, low, high, amount), (wide << clamped >> 32) as u32);
            assert_eq!(funnel_right(Overflow::Clamp, low, high, amount), (wide >> clamped) as u32);
            let wrapped = amount & 31;
            assert_eq!(funnel_left(Overflow::Wrap, low, high, amount), (wide << wrapped >> 32) as u32);
            assert_eq!(funnel_right(Overflow::Wrap, low, high, amount), (wide >> wrapped) as u32);
        }
    }
}
