//! Rules of issue that the distances between two ports don't tell: the range of stalls, least stalls after single
//! operations, and the intervals of wgmma. Seen in ptxas's code, and where it says so on a GPU.

use crate::form::{Class, M, Op};
use crate::inst::Inst;

/// The longest stall that a control code can say.
pub const LONGEST_STALL: u16 = 15;
/// Without yielding, no more than this.
pub const LONGEST_WITHOUT_YIELD: u8 = 11;

/// Cycles that must pass after an instruction, whatever is next: seen after every one of them in ptxas's code.
pub fn min_stall(inst: &Inst) -> u16 {
    match inst.form().op {
        Op::BRA | Op::BRX | Op::EXIT | Op::BSYNC | Op::BREAK | Op::WARPSYNC | Op::CALL => 5,
        Op::RET | Op::BAR | Op::MEMBAR | Op::ERRBAR | Op::CGAERRBAR => 6,
        Op::CCTL | Op::DEPBAR => 4,
        // Sooner after the last wgmma of a group, the wait for the group finds nothing (an H200 shows it).
        _ if inst.op().is_wgmma() => 3,
        Op::WARPGROUP if !is_arrival(inst) => 2,
        // It changes which threads are active.
        Op::BMOV if inst.name(0) == M::MACTIVE => 2,
        // On sm_90 and later; earlier machines have one cycle at least.
        Op::BMOV if matches!(inst.form().class, Class::Load | Class::Store) => 5,
        _ => 1,
    }
}

/// Cycles from an arrival to the first wgmma, and to an arrival from what writes the registers of wgmma: the least
/// that ptxas's code has, in all 92 instances in Triton's attention kernels.
pub const WGMMA_ARRIVAL: u16 = 6;

/// `WARPGROUP.ARRIVE`
pub fn is_arrival(inst: &Inst) -> bool {
    inst.form().op == Op::WARPGROUP && inst.has(M::ARRIVE)
}

/// Cycles from a wgmma to the next one, by the columns of its result, 128 of `64x128x16`: ptxas keeps those of more than
/// 64 an eighth of them, less four, of cycles apart, up to the longest stall (seen for every number of columns).
pub fn wgmma_interval(modifiers: impl Iterator<Item = M>) -> u16 {
    let columns = |m: M| m.name().strip_prefix("64x")?.split('x').next()?.parse::<u16>().ok();
    let eighth = modifiers.filter_map(columns).next().unwrap_or(0) / 8;
    eighth.saturating_sub(4).min(LONGEST_STALL)
}
