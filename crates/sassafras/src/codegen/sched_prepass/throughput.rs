//! The estimated throughput of a schedule: how long a partition of an SM takes for one warp's code while its other warps
//! fill the stalls.
//!
//! ```text
//! time = sum over blocks of  weight * (issue + latency / warps)
//! ```
//!
//! `issue` is what the block's instructions take of the busiest pipe, `latency` the cycles of the schedule with its stalls,
//! `warps` what is resident in a partition. A schedule of few registers has many warps and, where it can't overlap loads,
//! much latency; what is better depends on both.
//!
//! Warps that take turns in a closed network with a think time need at least `max(issue, (issue + latency) / warps)` each
//! (Little's law; Volkov, "Understanding Latency Hiding on GPUs", 2016), if they never stall at the same time, and at
//! most the sum above, if they queue as much as they can (Lazowska et al., "Quantitative System Performance", 1984,
//! chapter 5). Warps of one block run in step, between barriers and since their start, so that an H200 is near the sum:
//! of 50 kernels whose time changes by more than 3 percent between 32 and 64 registers, the sum has the better one for
//! 84 percent, the maximum for 42. Linear in the code.

use super::dep_graph::DepGraph;
use crate::context::Context;
use ori::entity::Entity;
use ori::{Block, File, Function};
use sass::model::Unit;

/// What the schedule of a block takes.
#[derive(Clone)]
pub struct BlockTime {
    block: Block,
    /// Cycles with stalls.
    latency: u64,
    /// Cycles of each pipe, and of the issue port.
    busy: [u64; Unit::COUNT],
    issued: u64,
}

impl BlockTime {
    pub fn new(block: Block) -> BlockTime {
        BlockTime { block, latency: 0, busy: [0; Unit::COUNT], issued: 0 }
    }

    /// Adds a window of the block, whose schedule takes so many cycles. A word of each thread of a warp keeps memory busy
    /// for `memory_interval`.
    pub fn add(&mut self, function: &Function, graph: &DepGraph, cycles: u32, memory_interval: u32) {
        self.latency += u64::from(cycles);
        for (node, inst) in graph.insts.iter().enumerate() {
            let Some(pipe) = graph.pipe[node] else { continue };
            let data = &function.insts[*inst];
            let words = data.results.iter().map(|v| function.values[*v]).filter(|v| v.file == File::R);
            let busy = match pipe {
                Unit::Memory => memory_interval * words.map(|v| u32::from(v.words)).sum::<u32>().max(1),
                _ => graph.busy[node],
            };
            self.busy[pipe as usize] += u64::from(busy);
            self.issued += 1;
        }
    }

    fn issue(&self) -> u64 {
        self.busy.iter().copied().max().unwrap_or(0).max(self.issued)
    }
}

/// The time of a function for each warp, in 1024ths of a cycle.
#[derive(Clone, Copy)]
pub struct Estimate(u64);

impl Estimate {
    const UNIT: u64 = 1024;

    pub fn new(times: &[BlockTime], weights: &[u64], warps: u32) -> Estimate {
        Estimate::with(times, weights, warps, |block| block.latency)
    }

    /// The time of a schedule without stalls.
    pub fn without_stalls(times: &[BlockTime], weights: &[u64], warps: u32) -> Estimate {
        Estimate::with(times, weights, warps, BlockTime::issue)
    }

    fn with(
        times: &[BlockTime],
        weights: &[u64],
        warps: u32,
        latency: impl Fn(&BlockTime) -> u64,
    ) -> Estimate {
        let time = |block: &BlockTime| {
            let issue = Estimate::UNIT.saturating_mul(block.issue());
            let latency = Estimate::UNIT.saturating_mul(latency(block)) / u64::from(warps.max(1));
            weights[block.block.index()].saturating_mul(issue.saturating_add(latency))
        };
        Estimate(times.iter().map(time).fold(0, u64::saturating_add))
    }

    /// Is it less than another by so many percent?
    pub fn is_better(&self, other: &Estimate, percent: u32) -> bool {
        self.0.saturating_mul(100 + u64::from(percent)) < other.0.saturating_mul(100)
    }
}

/// By block: how often it runs.
pub fn weights(function: &Function, context: &mut Context) -> Vec<u64> {
    let loops = context.analyses.loops(function);
    let weight = |block: Block| match function.blocks[block].cold {
        true => 0,
        false => context.tuning.loop_weight(loops.depth(block)),
    };
    function.blocks.keys().map(weight).collect()
}
