//! How rows of shared memory are mixed, so that a column of them touches every bank: tensor copies and the descriptors
//! of wgmma do it in the same way. Some of the bits that number the 16 bytes within a row are changed by the bits above,
//! which number the row.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    None,
    /// Rows of 32, 64 and 128 bytes.
    Bytes32,
    Bytes64,
    Bytes128,
}

impl Swizzle {
    /// The swizzle of rows of so many bytes.
    pub fn of_bytes(bytes: u32) -> Option<Swizzle> {
        Some(match bytes {
            0 => Swizzle::None,
            32 => Swizzle::Bytes32,
            64 => Swizzle::Bytes64,
            128 => Swizzle::Bytes128,
            _ => return None,
        })
    }

    /// How many times 16 bytes a row has.
    pub fn units(self) -> u32 {
        match self {
            Swizzle::None => 1,
            Swizzle::Bytes32 => 2,
            Swizzle::Bytes64 => 4,
            Swizzle::Bytes128 => 8,
        }
    }

    /// Where something lies whose address would be `address`.
    pub fn apply(self, address: u32) -> u32 {
        address ^ (address >> 7 & (self.units() - 1)) << 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_mixes_its_row() {
        assert_eq!(Swizzle::None.apply(0x3f0), 0x3f0);
        assert_eq!(Swizzle::Bytes32.apply(0x380), 0x390);
        assert_eq!(Swizzle::Bytes64.apply(0x380), 0x3b0);
        assert_eq!(Swizzle::Bytes128.apply(0x384), 0x3f4);
        for address in 0..1024 {
            assert_eq!(Swizzle::Bytes128.apply(Swizzle::Bytes128.apply(address)), address);
        }
    }
}
