//! Descriptors of matrices in shared memory, which MMAs of a warpgroup read.
//!
//! A matrix is made of lines of 16 bytes, eight of them to a core matrix. `k` is the axis that sums run along;
//! the other one counts the rows of a left operand or the columns of a right one. Where 16 bytes go along `k`, the
//! matrix is K-major; where they go along the other axis, which elements of 16 bits may, it is transposed.

use crate::swizzle::Swizzle;

const UNIT: u32 = 16;
/// Lines of a core matrix.
const LINES: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub start: u32,
    /// Bytes from a core matrix to the next one, along the axis of the 16 bytes.
    pub leading: u32,
    /// The same along the other axis.
    pub stride: u32,
    /// The row of the pattern that the matrix begins in.
    pub base: u32,
    pub swizzle: Swizzle,
}

impl Descriptor {
    pub fn new(bits: u64) -> Descriptor {
        // Addresses and distances are kept without their lowest four bits.
        let field = |shift: u32| (bits >> shift & 0x3fff) as u32 * UNIT;
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes32,
        };
        let base = (bits >> 49 & 7) as u32;
        Descriptor { start: field(0), leading: field(16), stride: field(32), base, swizzle }
    }

    /// Where a byte of a K-major matrix lies: its row (or column), and how many bytes of `k` are before it.
    pub fn along_k(&self, line: u32, byte: u32) -> u32 {
        let pitch = UNIT * self.swizzle.units();
        let along = match self.swizzle {
            Swizzle::None => byte / UNIT * self.leading,
            _ => byte / UNIT * UNIT,
        };
        self.place(line % LINES * pitch + line / LINES * self.stride + along + byte % UNIT)
    }

    /// Where an element of 16 bits of a transposed matrix lies.
    pub fn across_k(&self, line: u32, k: u32) -> u32 {
        let (unit, byte) = (line / 8, line % 8 * 2);
        let units = self.swizzle.units();
        let pitch = UNIT * units;
        let (across, along) = match self.swizzle {
            Swizzle::None => (unit * self.stride, k / LINES * self.leading),
            _ => (unit % units * UNIT + unit / units * self.leading, k / LINES * self.stride),
        };
        self.place(across + along + k % LINES * pitch + byte)
    }

    /// The pattern of a swizzle begins at a multiple of its size, or `base` rows before.
    fn place(&self, offset: u32) -> u32 {
        let shift = self.base << 7;
        let address = self.start.wrapping_add(offset);
        self.swizzle.apply(address.wrapping_sub(shift)).wrapping_add(shift)
    }
}
