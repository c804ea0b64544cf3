//! The generator of random numbers of the workspace: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
//! generators, 2014). The numbers are the same on every machine, and stay: seeds name programs (`cargo xtask fuzz programs`)
//! and the contents of buffers (run lines).
//!
//! No crate is used for it: those that are well kept promise good numbers, and may change them with a version.
//!
//! Other generators are left only where what they gave is recorded: the operands that a GPU was asked about (`sim::ops`,
//! `cargo xtask conformance modifiers`), the data of `sim::kernels`, the programs by which latencies were measured
//! (`cargo xtask probe-latency`), the programs whose growth in time and memory was measured (`cargo xtask bench scale`), the
//! paths of planted errors (`sim::verify::mutants`); and in the tests of `combine`.

#![deny(missing_docs)]

/// What the state grows by: the golden ratio in 64 bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `index`-th number after a seed; the state is a counter, so that none before it is needed.
pub fn splitmix64(seed: u64, index: u64) -> u64 {
    mixed(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP)))
}

fn mixed(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Numbers one after the other.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Those of a seed; seeds that differ by little give other numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x2545_f491_4f6c_dd1d))
    }

    /// The numbers of [`splitmix64`] from the first on.
    pub fn from_state(state: u64) -> Random {
        Random(state)
    }

    /// Any 64 bits.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// From 0 to `n - 1`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize) % n.max(1)
    }

    /// True `percent` times of a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of a list that isn't empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers for the seed 1234567, as other implementations have them.
    #[test]
    fn numbers_as_elsewhere() {
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431];
        let mut random = Random::from_state(1234567);
        for (index, number) in expected.into_iter().enumerate() {
            assert_eq!((random.next(), splitmix64(1234567, index as u64)), (number, number));
        }
    }

    #[test]
    fn bounds_are_kept() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|n| random.below(n) < n.max(1)));
        assert!((0..100).all(|_| [1, 2, 3].contains(&random.pick(&[1, 2, 3]))));
        let often = (0..1000).filter(|_| random.chance(25)).count();
        assert!((150..350).contains(&often), "{often}");
    }
}
