//! The occupancy model: resident blocks of an SM.

use targets::Target;

/// Resident blocks of an SM as a function of registers per thread.
#[derive(Clone, Copy, Debug)]
pub struct Occupancy {
    /// Warps of a block.
    warps: u32,
    /// The most blocks, whatever their registers.
    most: u32,
}

impl Occupancy {
    pub fn new(threads: u32, target: &Target) -> Occupancy {
        let warps = warps(threads);
        Occupancy { warps, most: target.blocks_per_sm.min(target.threads_per_sm / Target::WARP / warps) }
    }

    /// For a function to whose registers those of its callers are added: fewer than the whole occupancy allows are of
    /// use, too, down to those that it has anyway.
    pub fn of_callee(threads: u32, least: u32, target: &Target) -> Occupancy {
        let any = Occupancy { most: u32::MAX, ..Occupancy::new(threads, target) };
        Occupancy { most: any.blocks(least), ..any }
    }

    /// Resident blocks with so many registers for each thread. A warp's registers are all in one partition of the SM.
    fn blocks(&self, registers: u32) -> u32 {
        let registers = registers.next_multiple_of(Target::REGISTER_UNIT).max(Target::REGISTER_UNIT);
        let warps = Target::PARTITIONS * (Target::REGISTERS_PER_PARTITION / (Target::WARP * registers));
        (warps / self.warps).min(self.most)
    }

    /// Resident warps of a partition of the SM.
    pub fn warps_of_partition(&self, registers: u32) -> u32 {
        (self.blocks(registers) * self.warps / Target::PARTITIONS).max(1)
    }

    /// The most registers that keep the occupancy of `least` registers.
    pub fn step(&self, least: u32) -> u32 {
        let unit = Target::REGISTER_UNIT;
        let steps = (unit..=Target::MOST_REGISTERS + 1).step_by(unit as usize).filter(|r| *r >= least);
        let same = steps.take_while(|r| self.blocks(*r) == self.blocks(least));
        same.last().unwrap_or(Target::MOST_REGISTERS).min(Target::MOST_REGISTERS)
    }

    /// The most registers with which more blocks are resident than with so many.
    pub fn next_step(&self, registers: u32) -> Option<u32> {
        let unit = Target::REGISTER_UNIT;
        let fewer = (unit..registers).step_by(unit as usize);
        fewer.rev().find(|r| self.blocks(*r) > self.blocks(registers))
    }

    /// By how many percent more blocks are resident with `fewer` registers than with `registers`.
    pub fn gain(&self, fewer: u32, registers: u32) -> u32 {
        let blocks = self.blocks(registers).max(1);
        100 * self.blocks(fewer).saturating_sub(blocks) / blocks
    }
}

pub fn warps(threads: u32) -> u32 {
    threads.div_ceil(Target::WARP).max(1)
}
