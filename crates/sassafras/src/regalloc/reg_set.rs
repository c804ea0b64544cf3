//! Sets of registers of a file: 256 bits, all operations O(1).

use std::ops::Range;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegSet([u64; 4]);

impl RegSet {
    /// A run of registers, clipped to the file.
    pub fn of(first: u8, count: u16) -> RegSet {
        RegSet::range(usize::from(first)..usize::from(first) + usize::from(count))
    }

    /// The same.
    pub fn range(registers: Range<usize>) -> RegSet {
        let below = |end: usize| if end >= 64 { u64::MAX } else { (1 << end) - 1 };
        let word = |at: usize| {
            let (start, end) =
                (registers.start.saturating_sub(64 * at), registers.end.saturating_sub(64 * at));
            below(end) & !below(start)
        };
        RegSet(std::array::from_fn(word))
    }

    pub fn is_empty(self) -> bool {
        self == RegSet::default()
    }

    pub fn without(self, other: RegSet) -> RegSet {
        RegSet(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    pub fn remove(&mut self, other: RegSet) {
        *self = self.without(other);
    }

    /// The registers at which so many in a row, aligned, are in the set.
    pub fn windows(self, words: u8, alignment: usize) -> RegSet {
        let (mut starts, mut length) = (self, 1);
        while length < usize::from(words) {
            let step = length.min(usize::from(words) - length);
            starts = starts.both(starts.shifted_down(step));
            length += step;
        }
        let aligned = match alignment {
            1 => u64::MAX,
            2 => 0x5555_5555_5555_5555,
            4 => 0x1111_1111_1111_1111,
            8 => 0x0101_0101_0101_0101,
            _ => 0x0001_0001_0001_0001,
        };
        RegSet(starts.0.map(|word| word & aligned))
    }

    fn both(self, other: RegSet) -> RegSet {
        RegSet(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Every register that is `by` below one of the set.
    fn shifted_down(self, by: usize) -> RegSet {
        let (words, bits) = (by / 64, by % 64);
        let word = |i: usize| self.0.get(i).copied().unwrap_or(0);
        RegSet(std::array::from_fn(|i| {
            let high = if bits == 0 { 0 } else { word(i + words + 1) << (64 - bits) };
            word(i + words) >> bits | high
        }))
    }

    /// The lowest register.
    pub fn first(self) -> Option<u8> {
        let at = self.0.iter().position(|word| *word != 0)?;
        Some((64 * at) as u8 + self.0[at].trailing_zeros() as u8)
    }

    pub fn add(&mut self, other: RegSet) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }

    pub fn meets(self, other: RegSet) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }

    pub fn contains_any(self, window: Range<usize>) -> bool {
        self.meets(RegSet::range(window))
    }

    pub fn iter(mut self) -> impl Iterator<Item = u8> {
        std::iter::from_fn(move || {
            let first = self.first()?;
            let word = &mut self.0[usize::from(first / 64)];
            *word &= *word - 1;
            Some(first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_agree_with_a_search() {
        let mut random = random::Random::from_state(1);
        let mut next = || random.below(1 << 24);
        for _ in 0..50 {
            let mut set = RegSet::default();
            (0..6).for_each(|_| set.add(RegSet::of(next() as u8, (next() % 90) as u16)));
            (0..3).for_each(|_| set.remove(RegSet::of(next() as u8, (next() % 4) as u16)));
            let has = |r: usize| r < 256 && set.meets(RegSet::of(r as u8, 1));
            assert!(set.iter().map(usize::from).eq((0..256).filter(|r| has(*r))));
            for (words, alignment) in [(1, 1), (2, 2), (3, 4), (4, 4), (8, 8), (16, 16), (64, 4), (70, 4)] {
                let found = set.windows(words, alignment).iter().map(usize::from);
                let all = (0..256).step_by(alignment);
                assert!(found.eq(all.filter(|r| (*r..r + usize::from(words)).all(has))), "{words} {set:?}");
            }
        }
    }
}
