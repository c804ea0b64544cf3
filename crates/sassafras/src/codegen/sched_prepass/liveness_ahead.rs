//! What is alive later on, in the order as it was.
//!
//! Whoever goes before others that came first is alive while they run. It may only if there is room for that at each of
//! them. So no more is ever alive than in the order as it was, or than there may be: the first that is left can always
//! go.

use super::{Counts, FILES, Pressure};
use ori::{Function, Inst};

pub struct Ahead {
    /// For each file, how much is alive behind each instruction, if all that come before it are done by then.
    alive: [Heights; FILES],
    most: Counts,
}

impl Ahead {
    /// `insts` come next in a block.
    pub fn new(function: &Function, insts: &[Inst], pressure: &mut Pressure) -> Ahead {
        let behind = pressure.behind(function, insts);
        let alive: [Heights; FILES] =
            std::array::from_fn(|file| Heights::new(behind.iter().map(|counts| counts[file])));
        let most = std::array::from_fn(|file| alive[file].highest(0, insts.len()).max(pressure.most[file]));
        Ahead { alive, most }
    }

    /// Is there room for an instruction that changes so much, in front of all from `first` on that came before it?
    pub fn has_room(&self, first: usize, node: usize, change: &Counts) -> bool {
        let fits = |file: usize| self.alive[file].highest(first, node) + change[file] <= self.most[file];
        (0..FILES).all(|file| change[file] <= 0 || first == node || fits(file))
    }

    /// It goes there.
    pub fn issue(&mut self, first: usize, node: usize, change: &Counts) {
        for (alive, change) in self.alive.iter_mut().zip(change) {
            alive.add(first, node, *change);
        }
    }
}

/// Numbers in a row: any stretch of them can be raised, and asked for its highest, in logarithmic time. A tree in an
/// array: each inner node has what was added to all below it, and the highest of them with that.
struct Heights {
    /// A power of two.
    leaves: usize,
    highest: Vec<i32>,
    added: Vec<i32>,
}

impl Heights {
    fn new(numbers: impl ExactSizeIterator<Item = i32>) -> Heights {
        let leaves = numbers.len().next_power_of_two();
        let mut highest = vec![0; 2 * leaves];
        highest[leaves..].iter_mut().zip(numbers).for_each(|(leaf, number)| *leaf = number);
        for node in (1..leaves).rev() {
            highest[node] = highest[2 * node].max(highest[2 * node + 1]);
        }
        Heights { leaves, highest, added: vec![0; 2 * leaves] }
    }

    /// The highest of `from..to`.
    fn highest(&self, from: usize, to: usize) -> i32 {
        self.find(1, (0, self.leaves), (from, to)).unwrap_or(0)
    }

    fn find(&self, node: usize, (begin, end): (usize, usize), (from, to): (usize, usize)) -> Option<i32> {
        if to <= begin || end <= from {
            return None;
        }
        if from <= begin && end <= to {
            return Some(self.highest[node]);
        }
        let middle = (begin + end) / 2;
        let low = self.find(2 * node, (begin, middle), (from, to));
        let high = self.find(2 * node + 1, (middle, end), (from, to));
        low.max(high).map(|highest| highest + self.added[node])
    }

    /// Raises all of `from..to`.
    fn add(&mut self, from: usize, to: usize, change: i32) {
        if change != 0 {
            self.raise(1, (0, self.leaves), (from, to), change);
        }
    }

    fn raise(&mut self, node: usize, (begin, end): (usize, usize), (from, to): (usize, usize), change: i32) {
        if to <= begin || end <= from {
            return;
        }
        if from <= begin && end <= to {
            self.highest[node] += change;
            self.added[node] += change;
            return;
        }
        let middle = (begin + end) / 2;
        self.raise(2 * node, (begin, middle), (from, to), change);
        self.raise(2 * node + 1, (middle, end), (from, to), change);
        self.highest[node] = self.highest[2 * node].max(self.highest[2 * node + 1]) + self.added[node];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_raised_and_asked() {
        let mut heights = Heights::new([3, 1, 4, 1, 5].into_iter());
        assert_eq!((heights.highest(0, 5), heights.highest(0, 2), heights.highest(3, 4)), (5, 3, 1));
        heights.add(0, 4, 2);
        assert_eq!((heights.highest(0, 5), heights.highest(0, 2), heights.highest(3, 5)), (6, 5, 5));
        heights.add(2, 5, -3);
        assert_eq!((heights.highest(0, 5), heights.highest(2, 5), heights.highest(4, 5)), (5, 3, 2));
    }

    #[test]
    fn they_are_what_a_plain_list_has() {
        let mut random = 1u32;
        let mut next = |below: usize| {
            random = random.wrapping_mul(1664525).wrapping_add(1013904223);
            (random >> 8) as usize % below
        };
        let mut plain: Vec<i32> = (0..37).map(|_| next(50) as i32).collect();
        let mut heights = Heights::new(plain.clone().into_iter());
        for _ in 0..500 {
            let from = next(37);
            let to = from + 1 + next(37 - from);
            let change = next(9) as i32 - 4;
            heights.add(from, to, change);
            plain[from..to].iter_mut().for_each(|number| *number += change);
            let from = next(37);
            let to = from + 1 + next(37 - from);
            assert_eq!(Some(heights.highest(from, to)), plain[from..to].iter().copied().max());
        }
    }
}
