//! Sets of registers of R: 256 bits, all operations O(1).

use std::ops::Range;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegSet([u64; 4]);

impl RegSet {
    /// A run of registers, clipped to the file.
    pub fn of(first: u8, count: u16) -> RegSet {
        let mut set = RegSet::default();
        for register in (usize::from(first)..256).take(usize::from(count)) {
            set.0[register / 64] |= 1 << (register % 64);
        }
        set
    }

    pub fn add(&mut self, other: RegSet) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }

    pub fn meets(self, other: RegSet) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }

    pub fn contains_any(self, window: Range<usize>) -> bool {
        window.into_iter().any(|r| self.0.get(r / 64).is_some_and(|word| word >> (r % 64) & 1 != 0))
    }

    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |r| self.0[usize::from(r / 64)] >> (r % 64) & 1 != 0)
    }
}
