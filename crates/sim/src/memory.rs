//! The state spaces: bytes, where they are, and which addresses are good.
//!
//! Global memory is a list of allocations with gaps between them, so that an access past the end of one never
//! lands in another. A generic address of another space is in that space's window. [`texture`] reads and writes the images
//! that lie in it, [`weak`] says what threads see of each other's stores where that is not simply memory.

pub mod texture;
pub mod weak;

use crate::fault::FaultKind;
use texture::Image;
use weak::Weak;

/// A state space, or generic addressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Generic,
    Global,
    /// Of the block.
    Shared,
    /// Shared memory of all blocks of the cluster: an address names the block in its upper bits ([`RANK_SHIFT`]).
    Cluster,
    Local,
    Const,
    Param,
    /// Memory of several devices, of which there is one: `multimem` and no other instruction but stores and reductions
    /// reaches it, by addresses that are so far above those of the memory itself.
    Multicast,
}

impl Space {
    pub fn name(self) -> &'static str {
        match self {
            Space::Generic => "generic",
            Space::Global => "global",
            Space::Shared | Space::Cluster => "shared",
            Space::Local => "local",
            Space::Const => "constant",
            Space::Param => "parameter",
            Space::Multicast => "multimem",
        }
    }

    /// Where the space's window begins in generic addresses; global memory has none.
    pub fn window(self) -> u64 {
        match self {
            Space::Generic | Space::Global => 0,
            Space::Shared | Space::Cluster => 0x7000_0000_0000,
            Space::Local => 0x7100_0000_0000,
            Space::Param => 0x7200_0000_0000,
            Space::Const => 0x7300_0000_0000,
            Space::Multicast => 1 << 48,
        }
    }

    /// The space that a generic address belongs to.
    pub fn of_generic(address: u64) -> Space {
        let windows = [Space::Shared, Space::Local, Space::Param, Space::Const];
        windows.into_iter().find(|s| address.wrapping_sub(s.window()) < WINDOW).unwrap_or(Space::Global)
    }

    /// The space that a machine's store or reduction reaches.
    pub fn stored(self, address: u64) -> Space {
        let everywhere = matches!(self, Space::Generic | Space::Global);
        if everywhere && address >= Space::Multicast.window() { Space::Multicast } else { self }
    }

    /// The space that an address of this one is in, and where it is there.
    pub fn locate(self, address: u64) -> (Space, u64) {
        match self {
            Space::Generic => {
                let space = Space::of_generic(address);
                (space, address.wrapping_sub(space.window()))
            }
            space => (space, address),
        }
    }
}

/// Where the rank of a block is in an address of shared memory, as the machine has it.
pub const RANK_SHIFT: u32 = 24;
const OFFSET_IN_BLOCK: u64 = (1 << RANK_SHIFT) - 1;

/// The block that an address of the cluster's shared memory is of, and where it is there.
pub fn rank_and_offset(address: u64) -> (usize, u64) {
    ((address >> RANK_SHIFT) as usize, address & OFFSET_IN_BLOCK)
}

/// Shared memory of a block, of the largest GPU.
pub const SHARED_LIMIT: u32 = 228 << 10;

/// Bytes that a window spans, and what it is aligned to.
pub const WINDOW: u64 = 1 << 32;
/// Function addresses, one every 16 bytes.
pub const FUNCTIONS: u64 = 0x7400_0000_0000;

/// Where the first allocation is: above 32 bits, so that cut pointers are found.
const FIRST: u64 = 0x2_0000_0000;
const ALIGNMENT: u64 = 256;
/// At least so many bytes between allocations.
const GAP: u64 = 4096;

/// Global memory.
#[derive(Clone, Debug, Default)]
pub struct Global {
    /// In order of their addresses.
    allocations: Vec<(u64, Vec<u8>)>,
    /// The allocation that was touched last.
    last: usize,
    /// What handles of textures and surfaces stand for: the first one has the handle 1.
    pub images: Vec<Image>,
    /// Addresses of allocations that are reached by `multimem`, too.
    multicast: Vec<u64>,
    /// What threads see of each other's stores, where that is not simply memory.
    pub weak: Option<Box<Weak>>,
}

impl Global {
    /// Memory for these bytes; its address.
    pub fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        let end = self.allocations.last().map_or(FIRST, |(base, bytes)| base + bytes.len() as u64 + GAP);
        let base = end.next_multiple_of(ALIGNMENT);
        self.allocations.push((base, bytes));
        base
    }

    /// Puts memory at an address of the caller's choice; `None` if it is not global memory, or some is there already.
    pub fn place(&mut self, base: u64, bytes: Vec<u8>) -> Option<()> {
        let end = base.checked_add(bytes.len() as u64)?;
        let index = self.allocations.partition_point(|(other, _)| *other < base);
        let below = index.checked_sub(1).and_then(|below| self.allocations.get(below));
        let is_apart = below.is_none_or(|(other, bytes)| other + bytes.len() as u64 <= base)
            && self.allocations.get(index).is_none_or(|(other, _)| end <= *other && base < *other);
        let is_global = base > 0 && end <= Space::Shared.window();
        (is_apart && is_global).then(|| self.allocations.insert(index, (base, bytes)))
    }

    /// The handle of an image.
    pub fn add_image(&mut self, image: Image) -> u64 {
        self.images.push(Image { sizes: image.sizes.map(|size| size.max(1)), ..image });
        self.images.len() as u64
    }

    /// The address by which `multimem` reaches an allocation.
    pub fn add_multicast(&mut self, address: u64) -> u64 {
        self.multicast.push(address);
        Space::Multicast.window().wrapping_add(address)
    }

    /// What is at an address of `multimem`, if all of it is of one allocation that is reached so.
    pub fn multicast(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let address = address.checked_sub(Space::Multicast.window())?;
        let below = self.allocations.partition_point(|(base, _)| *base <= address).checked_sub(1)?;
        let base = self.allocations.get(below)?.0;
        if self.multicast.contains(&base) { self.slice(address, length) } else { None }
    }

    /// What is at an address, if all of it is of one allocation.
    #[inline]
    pub fn slice(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let inside = |(base, bytes): &(u64, Vec<u8>)| {
            address.checked_sub(*base).is_some_and(|offset| offset < bytes.len() as u64)
        };
        if !self.allocations.get(self.last).is_some_and(inside) {
            let above = self.allocations.partition_point(|(base, _)| *base <= address);
            self.last = above.checked_sub(1)?;
        }
        let (base, bytes) = self.allocations.get_mut(self.last)?;
        slice(bytes, address.checked_sub(*base)?, length)
    }
}

/// Part of some bytes, if it is there.
#[inline]
pub fn slice(bytes: &mut [u8], offset: u64, length: usize) -> Option<&mut [u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get_mut(start..start.checked_add(length)?)
}

/// A little-endian value of at most 8 bytes.
#[inline]
pub fn load(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = bytes.len().min(8);
    word[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(word)
}

#[inline]
pub fn store(bytes: &mut [u8], value: u64) {
    let length = bytes.len().min(8);
    bytes[..length].copy_from_slice(&value.to_le_bytes()[..length]);
}

/// Is the address a multiple of the access's size?
#[inline]
pub fn aligned(space: Space, address: u64, bytes: u32) -> Result<(), FaultKind> {
    if address & u64::from(bytes.wrapping_sub(1)) == 0 {
        Ok(())
    } else {
        Err(FaultKind::Misaligned { space: space.name(), address, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_stay_in_their_allocation() {
        let mut global = Global::default();
        let (a, b) = (global.allocate(vec![1; 10]), global.allocate(vec![2; 4]));
        assert_eq!(global.slice(a + 6, 4), Some(&mut [1u8; 4][..]));
        assert_eq!(global.slice(a + 7, 4), None);
        assert_eq!(global.slice(b, 4), Some(&mut [2u8; 4][..]));
        assert_eq!(global.slice(a - 1, 1), None);
        assert_eq!(global.slice(u64::MAX, 8), None);
        assert_eq!(global.slice(0, 1), None);
    }

    #[test]
    fn memory_is_placed_beside_other_memory() {
        let mut global = Global::default();
        let first = global.allocate(vec![1; 8]);
        assert_eq!(global.place(first + 8, vec![2; 8]), Some(()));
        assert_eq!(global.place(first + 16, vec![3; 8]), Some(()));
        assert_eq!(global.place(0x1000, vec![4; 8]), Some(()));
        for taken in [first, first + 4, first + 12, 0xfff, 0x1001] {
            assert_eq!(global.place(taken, vec![5; 8]), None);
        }
        for outside in [0, Space::Shared.window() - 4, u64::MAX] {
            assert_eq!(global.place(outside, vec![5; 8]), None);
        }
        assert_eq!(global.slice(first + 8, 8), Some(&mut [2u8; 8][..]));
        assert_eq!(global.slice(0x1000, 8), Some(&mut [4u8; 8][..]));
        assert!(global.allocate(vec![6; 8]) > first + 16);
    }

    #[test]
    fn windows_are_apart() {
        for space in [Space::Shared, Space::Local, Space::Param, Space::Const] {
            assert_eq!(Space::of_generic(space.window() + 100), space);
        }
        assert_eq!(Space::of_generic(FIRST), Space::Global);
        assert_eq!(Space::of_generic(FUNCTIONS), Space::Global);
    }
}
