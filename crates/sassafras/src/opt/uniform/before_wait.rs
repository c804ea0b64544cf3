//! Hoisting above waits: moves the uniform operands of the first wgmma after a wait above the wait.
//!
//! ```text
//! before: jump wait                 before: u1 = UIADD3 …; jump wait
//! wait:   SYNCS …; branch wait, b   wait:   SYNCS …; branch wait, b
//! b:      u1 = UIADD3 …; HGMMA u1   b:      HGMMA u1
//! ```
//!
//! A loop waits for its operands in a separate block, which branches back to itself until they have arrived. The
//! descriptors are computed after that, next to the wgmmas, so the first wgmma would have to wait again for its own.
//! Cost: one pass over the blocks of the loop.

use crate::analysis::convergent_loops::ConvergentLoop;
use crate::analysis::effects::Effects;
use ori::entity::Entity;
use ori::{Block, Cfg, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::FxHashSet;

/// True if something was hoisted. A wait loop has at most `max_wait` instructions.
pub fn run(function: &mut Function, cfg: &Cfg, convergent_loop: &ConvergentLoop, max_wait: usize) -> bool {
    let mut any = false;
    for &block in cfg.order.iter().filter(|b| convergent_loop.body[b.index()]) {
        let found = before_wait(function, cfg, block, max_wait);
        if let Some((before, wait)) = found.filter(|(before, _)| convergent_loop.contains(*before)) {
            let hoisted = needed_first(function, wait, block);
            function.blocks[block].insts.retain(|inst| !hoisted.contains(inst));
            any |= !hoisted.is_empty();
            function.blocks[before].insts.extend(hoisted);
        }
    }
    any
}

/// The block before the wait loop above a block, and the wait loop.
fn before_wait(function: &Function, cfg: &Cfg, block: Block, max_wait: usize) -> Option<(Block, Block)> {
    let [wait] = cfg.preds[block.index()][..] else { return None };
    let waits = wait != block && cfg.succs[wait.index()].contains(&wait);
    let [one, other] = cfg.preds[wait.index()][..] else { return None };
    let before = if one == wait { other } else { one };
    let is_only_succ = matches!(function.blocks[before].end, Terminator::Jump(_));
    (waits && is_only_succ && function.blocks[wait].insts.len() <= max_wait).then_some((before, wait))
}

/// The instructions that the first wgmma of a block depends on and that can be hoisted, in order.
fn needed_first(function: &Function, wait: Block, block: Block) -> Vec<Inst> {
    let insts = &function.blocks[block].insts;
    let Some(wgmma) = insts.iter().position(|i| function.insts[*i].is_wgmma()) else { return Vec::new() };
    // Values defined in the wait loop or the block, but for those that are hoisted.
    let defined = |b: Block| {
        let data = &function.blocks[b];
        let results = data.insts.iter().flat_map(|i| &function.insts[*i].results);
        data.params.iter().chain(results).copied()
    };
    let mut unavailable: FxHashSet<Value> = defined(wait).chain(defined(block)).collect();
    let mut movable = Vec::new();
    for &inst in &insts[..wgmma] {
        let data = &function.insts[inst];
        if is_uniform(function, data) && data.uses().all(|v| !unavailable.contains(&v)) {
            data.results.iter().for_each(|v| _ = unavailable.remove(v));
            movable.push(inst);
        }
    }
    let mut needed: FxHashSet<Value> = function.insts[insts[wgmma]].uses().collect();
    let mut hoisted = Vec::new();
    for inst in movable.into_iter().rev() {
        let data = &function.insts[inst];
        if data.results.iter().any(|v| needed.contains(v)) {
            needed.extend(data.uses());
            hoisted.push(inst);
        }
    }
    hoisted.reverse();
    hoisted
}

fn is_uniform(function: &Function, data: &InstData) -> bool {
    let uniform = |v: &Value| matches!(function.values[*v].file, File::UR | File::UP);
    let computes = !matches!(data.op, Op::Pseudo(op) if op != Pseudo::Pack);
    computes && data.guard.is_none() && data.results.iter().all(uniform) && Effects::of(data).is_free()
}
