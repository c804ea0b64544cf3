//! The register goal: the register count of the highest occupancy that some order of the code allows.
//!
//! Blocks are tried in their original order and in orders of low pressure ([`min_pressure`](super::min_pressure)). What
//! can be rematerialized doesn't count where nothing near reads it: the allocator leaves it out of registers there.
//!
//! Linear in the code, times the number of orders.

use super::{BlockPressure, PressureTracker, R};
use crate::context::Context;
use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{Block, Cfg, Function, Inst, Value};
use rustc_hash::FxHashSet;

/// The goal, and the words that it is for; `None` if every order exceeds the registers, or in code of matrix products
/// whose operands take more than the budget, unless the goal leaves them registers to load operands ahead: these hide
/// latencies by asynchronous copies before they do so by occupancy.
pub fn of(function: &Function, blocks: &mut BlockPressure, context: &Context) -> Option<(u32, i32)> {
    let occupancy = context.usual_occupancy();
    let params = blocks.tracker.params;
    let overhead = params.goal_overhead;
    let most = context.registers as i32 - overhead;
    let needed = blocks.of_all(function, occupancy.step(1) as i32 - overhead, most);
    if needed > most {
        return None;
    }
    let goal = occupancy.step((needed + overhead) as u32).min(context.registers);
    let is_tight = |goal: u32, needed: i32| {
        params.goal_words(goal) - needed < params.matrix_slack && has_matrix_product(function, &blocks.cfg)
    };
    // With all registers there is nothing to gain, and other blocks need not be as narrow.
    let is_goal = needed <= params.budget[R] || goal < context.registers && !is_tight(goal, needed);
    is_goal.then_some((goal, needed))
}

/// The register count of the occupancy that the present order of the code allows.
pub fn reached(
    function: &Function,
    (cfg, live): (&Cfg, &Liveness),
    pressure: &mut PressureTracker,
    context: &Context,
) -> Option<u32> {
    pressure.discounts = true;
    let mut needed = 0;
    for &block in &cfg.order {
        pressure.begin_block(function, live, block);
        needed = needed.max(pressure.pressure_of(function, &function.blocks[block].insts).0[R]);
        needed = needed.max(routine_pressure(function, live, pressure, block));
    }
    let registers = (needed + pressure.params.goal_overhead) as u32;
    (registers <= context.registers).then(|| context.usual_occupancy().step(registers).min(context.registers))
}

pub fn has_matrix_product(function: &Function, cfg: &Cfg) -> bool {
    let mut insts = cfg.order.iter().flat_map(|b| &function.blocks[*b].insts);
    insts.any(|i| crate::regalloc::is_early_clobber(&function.insts[*i]))
}

/// The registers that a call of a library routine needs: those of the routine, and those of values that live across and
/// are not rematerialized after it. Results are in registers of the routine.
pub fn routine_pressure(
    function: &Function,
    live: &Liveness,
    pressure: &PressureTracker,
    block: Block,
) -> i32 {
    let data = &function.blocks[block];
    let window = |inst: &Inst| function.fixed.get(inst)?.window.map(|(_, count)| i32::from(count));
    let Some(first) = data.insts.iter().position(|inst| window(inst).is_some()) else { return 0 };
    let mut across: FxHashSet<Value> = live.live_out[block.index()].iter().chain(data.end.uses()).collect();
    let mut most = 0;
    for inst in data.insts[first..].iter().rev() {
        function.insts[*inst].results.iter().for_each(|value| _ = across.remove(value));
        if let Some(window) = window(inst) {
            let words: i32 = across.iter().map(|value| pressure.words_kept(*value)).sum();
            most = most.max(words + window);
        }
        across.extend(function.insts[*inst].uses());
    }
    most
}
