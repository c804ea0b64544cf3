//! How many blocks an SM takes at a time, and what limits that.

use super::parameters::Parameters;
use sass::Target;

/// Registers are given to warps in this unit.
const WARP_UNIT: u32 = Target::REGISTER_UNIT * Target::WARP;
/// Shared memory is given to blocks in this unit (CUDA programming guide, occupancy calculator, 9.0).
const SHARED_UNIT: u32 = 128;
/// KB of shared memory that the L1 can be divided at (CUDA programming guide, 9.0).
const CARVE_OUTS: [u32; 10] = [0, 8, 16, 32, 64, 100, 132, 164, 196, 228];

/// The blocks of an SM.
#[derive(Clone, Debug, PartialEq)]
pub struct Occupancy {
    /// At a time.
    pub blocks: u32,
    /// Warps of a block.
    pub warps: u32,
    /// Warps that an SM has at most.
    pub most_warps: u32,
    /// How many blocks each thing allows.
    pub limits: Vec<(&'static str, u32)>,
    /// Registers of a thread, bytes of shared memory of a block.
    pub registers: u32,
    /// See `registers`.
    pub shared: u32,
    /// Bytes that the L1 data cache has left.
    pub cache: u32,
}

impl Occupancy {
    /// For blocks of so many threads.
    pub fn of(
        target: &Target,
        parameters: &Parameters,
        threads: u32,
        (registers, shared): (u32, u32),
    ) -> Occupancy {
        let warps = threads.div_ceil(Target::WARP).max(1);
        let for_warp = (registers.max(1) * Target::WARP).next_multiple_of(WARP_UNIT);
        let in_partition = Target::REGISTERS_PER_PARTITION / for_warp;
        let for_block = shared.next_multiple_of(SHARED_UNIT).max(1);
        let shared_of_sm = parameters.shared_bytes_per_sm as u32;
        let limits = vec![
            ("registers", in_partition * Target::PARTITIONS / warps),
            ("shared memory", shared_of_sm / for_block),
            ("warps", target.threads_per_sm / Target::WARP / warps),
            ("blocks", target.blocks_per_sm),
        ];
        let blocks = limits.iter().map(|(_, blocks)| *blocks).min().unwrap_or(0);
        let used = blocks.saturating_mul(for_block);
        let carve_out = CARVE_OUTS.into_iter().map(|kb| kb << 10).find(|bytes| *bytes >= used);
        let carve_out = carve_out.unwrap_or(shared_of_sm);
        Occupancy {
            blocks,
            warps,
            most_warps: target.threads_per_sm / Target::WARP,
            limits,
            registers,
            shared,
            cache: (parameters.l1_bytes as u32).saturating_sub(carve_out),
        }
    }

    /// What allows no more.
    pub fn limit(&self) -> &'static str {
        self.limits.iter().find(|(_, blocks)| *blocks == self.blocks).map_or("", |(name, _)| name)
    }

    /// Warps at a time in parts of the most.
    pub fn part(&self) -> f64 {
        f64::from(self.blocks * self.warps) / f64::from(self.most_warps.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_limited_by_what_is_short() {
        let target = Target::of_sm(90u32).unwrap();
        let parameters = Parameters::standard().unwrap();
        let of = |threads, registers, shared| {
            let occupancy = Occupancy::of(target, &parameters, threads, (registers, shared));
            (occupancy.blocks, occupancy.limit())
        };
        assert_eq!(of(256, 32, 1024), (8, "registers"));
        assert_eq!(of(256, 24, 1024), (8, "warps"));
        assert_eq!(of(128, 255, 1024), (2, "registers"));
        assert_eq!(of(128, 32, 100 << 10), (2, "shared memory"));
        assert_eq!(of(32, 24, 1024), (32, "blocks"));
        assert_eq!(of(1024, 65, 1024), (0, "registers"));
    }
}
