//! The pressure profile of the instructions that are not scheduled yet, in their original order.
//!
//! An instruction that is scheduled before others adds to the pressure at each of them. It may pass them only if the
//! maximum over these points, and over the one before them, stays within the limit. So no point ever has more pressure
//! than the original order or the limit: the first unscheduled instruction can always be next.
//!
//! A segment tree with range addition and range maximum: logarithmic time per query and update.

use super::{Counts, FILES, PressureTracker};
use ori::{Function, Inst};

pub struct PressureProfile {
    /// By file: the pressure after each instruction, if all before it are scheduled by then.
    after: [MaxTree; FILES],
    limit: Counts,
}

impl PressureProfile {
    /// `insts` are the next ones of a block.
    pub fn new(function: &Function, insts: &[Inst], pressure: &mut PressureTracker) -> PressureProfile {
        let counts = pressure.pressure_after_each(function, insts);
        let after: [MaxTree; FILES] =
            std::array::from_fn(|file| MaxTree::new(counts.iter().map(|counts| counts[file])));
        let limit = std::array::from_fn(|file| after[file].max(0, insts.len()).max(pressure.limit[file]));
        PressureProfile { after, limit }
    }

    /// Does an instruction that changes the pressure by `delta` from `current` on fit before all from `first` to itself?
    /// `first` may lower the pressure: between both it is not that after `first`.
    pub fn fits(&self, first: usize, node: usize, current: &Counts, delta: &Counts) -> bool {
        let fits = |file: usize| {
            let most = self.after[file].max(first, node).max(current[file]);
            most + delta[file] <= self.limit[file]
        };
        (0..FILES).all(|file| delta[file] <= 0 || first == node || fits(file))
    }

    /// It is scheduled there.
    pub fn issue(&mut self, first: usize, node: usize, delta: &Counts) {
        for (after, delta) in self.after.iter_mut().zip(delta) {
            after.add(first, node, *delta);
        }
    }
}

/// A segment tree in an array, walked from the leaves up. A node has what was added to its whole range, and the maximum of
/// the range with that.
struct MaxTree {
    /// A power of two. The first and the last one stand for the ends of ranges and have no number.
    leaves: usize,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy)]
struct Node {
    max: i32,
    added: i32,
}

impl MaxTree {
    /// Less than any number with anything added.
    const NONE: i32 = i32::MIN / 2;

    fn new(numbers: impl ExactSizeIterator<Item = i32>) -> MaxTree {
        let leaves = (numbers.len() + 2).next_power_of_two();
        let mut nodes = vec![Node { max: MaxTree::NONE, added: 0 }; 2 * leaves];
        nodes[leaves + 1..].iter_mut().zip(numbers).for_each(|(leaf, number)| leaf.max = number);
        for node in (1..leaves).rev() {
            nodes[node].max = nodes[2 * node].max.max(nodes[2 * node + 1].max);
        }
        MaxTree { leaves, nodes }
    }

    /// The maximum of `from..to`; 0 if there is nothing.
    fn max(&self, from: usize, to: usize) -> i32 {
        if from >= to {
            return 0;
        }
        // The leaves around the range, and the maximum of what of it is below each.
        let (mut before, mut after) = (self.leaves + from, self.leaves + to + 1);
        let (mut low, mut high) = (MaxTree::NONE, MaxTree::NONE);
        while before ^ after != 1 {
            if before & 1 == 0 {
                low = low.max(self.nodes[before + 1].max);
            }
            if after & 1 == 1 {
                high = high.max(self.nodes[after - 1].max);
            }
            (before, after) = (before / 2, after / 2);
            (low, high) = (low + self.nodes[before].added, high + self.nodes[after].added);
        }
        let mut max = low.max(high);
        while before > 1 {
            before /= 2;
            max += self.nodes[before].added;
        }
        max
    }

    /// Adds to each of `from..to`.
    fn add(&mut self, from: usize, to: usize, delta: i32) {
        if delta == 0 || from >= to {
            return;
        }
        let (mut before, mut after) = (self.leaves + from, self.leaves + to + 1);
        while before ^ after != 1 {
            if before & 1 == 0 {
                self.nodes[before + 1].add(delta);
            }
            if after & 1 == 1 {
                self.nodes[after - 1].add(delta);
            }
            (before, after) = (before / 2, after / 2);
            self.update(before);
            self.update(after);
        }
        while before > 1 {
            before /= 2;
            self.update(before);
        }
    }

    /// After a change below.
    fn update(&mut self, node: usize) {
        let below = self.nodes[2 * node].max.max(self.nodes[2 * node + 1].max);
        self.nodes[node].max = below + self.nodes[node].added;
    }
}

impl Node {
    fn add(&mut self, delta: i32) {
        self.max += delta;
        self.added += delta;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_the_instruction_that_frees_its_registers() {
        // The first instruction frees three words, the second one takes two.
        let after = || MaxTree::new([3, 5].into_iter());
        let profile = PressureProfile { after: [after(), after(), after()], limit: [6; FILES] };
        assert!(!profile.fits(0, 1, &[6, 0, 0], &[2, 0, 0]));
        assert!(profile.fits(0, 1, &[4, 0, 0], &[2, 0, 0]));
        assert!(profile.fits(1, 1, &[6, 0, 0], &[2, 0, 0]));
    }

    #[test]
    fn max_tree_adds_to_ranges() {
        let mut tree = MaxTree::new([3, 1, 4, 1, 5].into_iter());
        assert_eq!((tree.max(0, 5), tree.max(0, 2), tree.max(3, 4)), (5, 3, 1));
        tree.add(0, 4, 2);
        assert_eq!((tree.max(0, 5), tree.max(0, 2), tree.max(3, 5)), (6, 5, 5));
        tree.add(2, 5, -3);
        assert_eq!((tree.max(0, 5), tree.max(2, 5), tree.max(4, 5)), (5, 3, 2));
    }

    #[test]
    fn max_tree_agrees_with_a_plain_list() {
        let mut random = random::Random::from_state(1);
        let mut next = |below: usize| random.below(below);
        let mut plain: Vec<i32> = (0..37).map(|_| next(50) as i32).collect();
        let mut tree = MaxTree::new(plain.clone().into_iter());
        for _ in 0..500 {
            let from = next(37);
            let to = from + 1 + next(37 - from);
            let delta = next(9) as i32 - 4;
            tree.add(from, to, delta);
            plain[from..to].iter_mut().for_each(|number| *number += delta);
            let from = next(37);
            let to = from + 1 + next(37 - from);
            assert_eq!(Some(tree.max(from, to)), plain[from..to].iter().copied().max());
        }
    }
}
