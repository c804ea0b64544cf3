//! Integers of 8 to 64 bits.
//!
//! A value is its bits in the low end of a `u64`, the rest zero; what an operation gives is so too.

/// An integer type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Int {
    /// The width.
    pub bits: u32,
    /// Two's complement?
    pub signed: bool,
}

impl Int {
    /// Unsigned, 8 bits.
    pub const U8: Int = Int { bits: 8, signed: false };
    /// Signed, 8 bits.
    pub const S8: Int = Int { bits: 8, signed: true };
    /// Unsigned, 16 bits.
    pub const U16: Int = Int { bits: 16, signed: false };
    /// Signed, 16 bits.
    pub const S16: Int = Int { bits: 16, signed: true };
    /// Unsigned, 32 bits.
    pub const U32: Int = Int { bits: 32, signed: false };
    /// Signed, 32 bits.
    pub const S32: Int = Int { bits: 32, signed: true };
    /// Unsigned, 64 bits.
    pub const U64: Int = Int { bits: 64, signed: false };
    /// Signed, 64 bits.
    pub const S64: Int = Int { bits: 64, signed: true };

    /// A mask of all bits.
    #[inline]
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The number that the bits stand for.
    #[inline]
    pub const fn value(self, bits: u64) -> i128 {
        if self.signed { self.sign_extended(bits) as i64 as i128 } else { (bits & self.mask()) as i128 }
    }

    /// The low bits of a number.
    #[inline]
    pub const fn wrap(self, value: i128) -> u64 {
        value as u64 & self.mask()
    }

    /// The highest of the bits, copied into all above them.
    #[inline]
    pub const fn sign_extended(self, bits: u64) -> u64 {
        let above = 64 - self.bits;
        ((bits << above) as i64 >> above) as u64
    }

    /// To 64 bits, as the type has it.
    #[inline]
    pub const fn extended(self, bits: u64) -> u64 {
        if self.signed { self.sign_extended(bits) } else { bits & self.mask() }
    }

    /// The least value.
    #[inline]
    pub const fn min(self) -> i128 {
        if self.signed { -(1i128 << (self.bits - 1)) } else { 0 }
    }

    /// The greatest value.
    #[inline]
    pub const fn max(self) -> i128 {
        if self.signed { (1i128 << (self.bits - 1)) - 1 } else { (1i128 << self.bits) - 1 }
    }

    /// The nearest number of the type.
    #[inline]
    pub fn saturate(self, value: i128) -> u64 {
        self.wrap(value.clamp(self.min(), self.max()))
    }

    /// `a + b`, wrapping.
    #[inline]
    pub fn add(self, a: u64, b: u64) -> u64 {
        a.wrapping_add(b) & self.mask()
    }

    /// `a - b`, wrapping.
    #[inline]
    pub fn sub(self, a: u64, b: u64) -> u64 {
        a.wrapping_sub(b) & self.mask()
    }

    /// `a + b`, saturating.
    pub fn add_saturated(self, a: u64, b: u64) -> u64 {
        self.saturate(self.value(a) + self.value(b))
    }

    /// `a - b`, saturating.
    pub fn sub_saturated(self, a: u64, b: u64) -> u64 {
        self.saturate(self.value(a) - self.value(b))
    }

    /// The lower half of `a * b`.
    #[inline]
    pub fn mul_lo(self, a: u64, b: u64) -> u64 {
        a.wrapping_mul(b) & self.mask()
    }

    /// The upper half of the product.
    #[inline]
    pub fn mul_hi(self, a: u64, b: u64) -> u64 {
        if self.signed {
            self.wrap((self.value(a) * self.value(b)) >> self.bits)
        } else {
            let wide = u128::from(a & self.mask()) * u128::from(b & self.mask());
            (wide >> self.bits) as u64 & self.mask()
        }
    }

    /// The product in twice the width, for types of at most 32 bits.
    #[inline]
    pub fn mul_wide(self, a: u64, b: u64) -> u64 {
        let wide = self.extended(a).wrapping_mul(self.extended(b));
        if self.bits >= 32 { wide } else { wide & (u64::MAX >> (64 - 2 * self.bits)) }
    }

    /// Of the lower 24 bits: bits 47 to 16 of the product for `high`, bits 31 to 0 otherwise.
    pub fn mul24(self, high: bool, a: u64, b: u64) -> u64 {
        let narrow = Int { bits: 24, signed: self.signed };
        let product = narrow.value(a) * narrow.value(b);
        self.wrap(if high { product >> 16 } else { product })
    }

    /// Division by zero gives all ones, in every width: so ends ptxas's sequence for it. The smallest number
    /// divided by -1 gives itself.
    pub fn div(self, a: u64, b: u64) -> u64 {
        match self.value(b) {
            0 => self.mask(),
            b => self.wrap(self.value(a) / b),
        }
    }

    /// The remainder has the dividend's sign; by zero it is all ones, as with [`Int::div`].
    pub fn rem(self, a: u64, b: u64) -> u64 {
        match self.value(b) {
            0 => self.mask(),
            b => self.wrap(self.value(a) % b),
        }
    }

    /// `|a|`, wrapping.
    #[inline]
    pub fn abs(self, a: u64) -> u64 {
        self.wrap(self.value(a).abs())
    }

    /// `-a`, wrapping.
    #[inline]
    pub fn neg(self, a: u64) -> u64 {
        a.wrapping_neg() & self.mask()
    }

    /// Compares two values.
    #[inline]
    pub fn compare(self, a: u64, b: u64) -> std::cmp::Ordering {
        if self.signed {
            (self.sign_extended(a) as i64).cmp(&(self.sign_extended(b) as i64))
        } else {
            (a & self.mask()).cmp(&(b & self.mask()))
        }
    }

    /// The minimum.
    #[inline]
    pub fn min_of(self, a: u64, b: u64) -> u64 {
        (if self.compare(a, b).is_le() { a } else { b }) & self.mask()
    }

    /// The maximum.
    #[inline]
    pub fn max_of(self, a: u64, b: u64) -> u64 {
        (if self.compare(a, b).is_ge() { a } else { b }) & self.mask()
    }

    /// `|a - b| + c`
    pub fn sad(self, a: u64, b: u64, c: u64) -> u64 {
        let difference = (self.value(a) - self.value(b)).abs();
        self.wrap(difference + self.value(c))
    }

    /// Amounts beyond the width give zero.
    #[inline]
    pub fn shl(self, a: u64, amount: u32) -> u64 {
        if amount >= self.bits { 0 } else { a << amount & self.mask() }
    }

    /// Amounts beyond the width give zero, or the sign everywhere.
    #[inline]
    pub fn shr(self, a: u64, amount: u32) -> u64 {
        if self.signed {
            (self.sign_extended(a) as i64 >> amount.min(63)) as u64 & self.mask()
        } else if amount >= self.bits {
            0
        } else {
            (a & self.mask()) >> amount
        }
    }
}

/// A sum of two and a carry, and the carry out of it.
#[inline]
pub fn add_carry(int: Int, a: u64, b: u64, carry: bool) -> (u64, bool) {
    let sum = u128::from(a & int.mask()) + u128::from(b & int.mask()) + u128::from(carry);
    (sum as u64 & int.mask(), sum >> int.bits != 0)
}

/// A difference less a borrow. The flag out is the carry of `a + ~b + !borrow`: set if nothing was borrowed.
#[inline]
pub fn sub_borrow(int: Int, a: u64, b: u64, borrow: bool) -> (u64, bool) {
    add_carry(int, a, !b & int.mask(), !borrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pairs of 8 bits against arithmetic in `i32`.
    #[test]
    fn all_pairs_of_bytes() {
        for (int, value) in
            [(Int::U8, (|x| i32::from(x)) as fn(u8) -> i32), (Int::S8, |x| i32::from(x as i8))]
        {
            let limits = if int.signed { (-128, 127) } else { (0, 255) };
            for x in 0..=255u8 {
                for y in 0..=255u8 {
                    let (a, b) = (u64::from(x), u64::from(y));
                    let (i, j) = (value(x), value(y));
                    let low = |v: i32| u64::from(v as u8);
                    assert_eq!(int.add(a, b), low(i + j));
                    assert_eq!(int.sub(a, b), low(i - j));
                    assert_eq!(int.add_saturated(a, b), low((i + j).clamp(limits.0, limits.1)));
                    assert_eq!(int.sub_saturated(a, b), low((i - j).clamp(limits.0, limits.1)));
                    assert_eq!(int.mul_lo(a, b), low(i * j));
                    assert_eq!(int.mul_hi(a, b), low((i * j) >> 8));
                    assert_eq!(int.mul_wide(a, b), u64::from((i * j) as u16));
                    assert_eq!(int.min_of(a, b), low(i.min(j)));
                    assert_eq!(int.max_of(a, b), low(i.max(j)));
                    assert_eq!(int.sad(a, b, 7), low((i - j).abs() + 7));
                    assert_eq!(int.div(a, b), if j == 0 { 255 } else { low(i / j) });
                    assert_eq!(int.rem(a, b), if j == 0 { 255 } else { low(i % j) });
                    assert_eq!(int.shr(a, u32::from(y)), low(i >> y.min(31)));
                    assert_eq!(int.shl(a, u32::from(y)), if y > 7 { 0 } else { low(i << y) });
                    assert_eq!(add_carry(int, a, b, true).1, u32::from(x) + u32::from(y) + 1 > 255);
                    assert_eq!(sub_borrow(int, a, b, false), (low(i - j), x >= y));
                    assert_eq!(sub_borrow(int, a, b, true), (low(i - j - 1), x > y));
                }
            }
        }
    }

    #[test]
    fn wide_products() {
        let edges = [0u64, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1234_5678];
        for a in edges {
            for b in edges {
                let (x, y) = (a as u32 as i32 as i64, b as u32 as i32 as i64);
                assert_eq!(Int::S32.mul_wide(a, b), (x * y) as u64);
                assert_eq!(Int::S32.mul_hi(a, b), ((x * y) >> 32) as u64 & 0xffff_ffff);
                assert_eq!(Int::U32.mul_wide(a, b), a * b);
                assert_eq!(Int::U32.mul_hi(a, b), (a * b) >> 32);
                let (wide_a, wide_b) = (a << 31 | b, b << 32 | a);
                let product = u128::from(wide_a) * u128::from(wide_b);
                assert_eq!(Int::U64.mul_hi(wide_a, wide_b), (product >> 64) as u64);
                let product = i128::from(wide_a as i64) * i128::from(wide_b as i64);
                assert_eq!(Int::S64.mul_hi(wide_a, wide_b), (product >> 64) as u64);
            }
        }
    }

    #[test]
    fn products_of_24_bits() {
        assert_eq!(Int::S32.mul24(false, 0x00ff_ffff, 2), 0xffff_fffe);
        assert_eq!(Int::U32.mul24(false, 0xffff_ffff, 2), 0x01ff_fffe);
        assert_eq!(Int::U32.mul24(true, 0x00ff_ffff, 0x00ff_ffff), 0xffff_fe00);
        assert_eq!(Int::S32.mul24(true, 0x0080_0000, 0x0080_0000), 0x4000_0000);
    }

    #[test]
    fn the_smallest_number() {
        assert_eq!(Int::S32.div(0x8000_0000, 0xffff_ffff), 0x8000_0000);
        assert_eq!(Int::S32.rem(0x8000_0000, 0xffff_ffff), 0);
        assert_eq!(Int::S64.div(1 << 63, u64::MAX), 1 << 63);
        assert_eq!(Int::S32.abs(0x8000_0000), 0x8000_0000);
        assert_eq!(Int::U64.add_saturated(u64::MAX, 1), u64::MAX);
    }
}
