//! What the first product behind a wait needs in uniform registers is there before the wait.
//!
//! A loop waits for its operands in a block of its own, which goes back to itself until they have come. The products
//! stand behind that, and their descriptors with them; the first one would wait for its own once more.

use super::is_product;
use crate::analysis::convergent_loops::Zone;
use crate::analysis::effects::Effects;
use ori::entity::Entity;
use ori::{Block, Cfg, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::FxHashSet;

pub fn run(function: &mut Function, cfg: &Cfg, zone: &Zone) {
    for &block in cfg.order.iter().filter(|b| zone.inside[b.index()]) {
        if let Some(before) = before_wait(function, cfg, block).filter(|b| zone.contains(*b)) {
            let early = needed_first(function, block);
            function.blocks[block].insts.retain(|inst| !early.contains(inst));
            function.blocks[before].insts.extend(early);
        }
    }
}

/// The block before the wait that a block stands behind.
fn before_wait(function: &Function, cfg: &Cfg, block: Block) -> Option<Block> {
    let [wait] = cfg.preds[block.index()][..] else { return None };
    let waits = wait != block && cfg.succs[wait.index()].contains(&wait);
    let [one, other] = cfg.preds[wait.index()][..] else { return None };
    let before = if one == wait { other } else { one };
    let leads_there = matches!(function.blocks[before].end, Terminator::Jump(_));
    (waits && leads_there && function.blocks[wait].insts.len() <= LONGEST).then_some(before)
}

/// The instructions of a wait.
const LONGEST: usize = 4;

/// What the first product of a block needs and can be computed before the block, in order.
fn needed_first(function: &Function, block: Block) -> Vec<Inst> {
    let insts = &function.blocks[block].insts;
    let Some(product) = insts.iter().position(|i| is_product(&function.insts[*i])) else { return Vec::new() };
    // What the block itself makes or is given, but for what goes early.
    let results = insts.iter().flat_map(|i| &function.insts[*i].results);
    let mut late: FxHashSet<Value> = function.blocks[block].params.iter().chain(results).copied().collect();
    let mut possible = Vec::new();
    for &inst in &insts[..product] {
        let data = &function.insts[inst];
        if is_uniform(function, data) && data.uses().all(|v| !late.contains(&v)) {
            data.results.iter().for_each(|v| _ = late.remove(v));
            possible.push(inst);
        }
    }
    let mut needed: FxHashSet<Value> = function.insts[insts[product]].uses().collect();
    let mut early = Vec::new();
    for inst in possible.into_iter().rev() {
        let data = &function.insts[inst];
        if data.results.iter().any(|v| needed.contains(v)) {
            needed.extend(data.uses());
            early.push(inst);
        }
    }
    early.reverse();
    early
}

fn is_uniform(function: &Function, data: &InstData) -> bool {
    let uniform = |v: &Value| matches!(function.values[*v].file, File::UR | File::UP);
    let computes = !matches!(data.op, Op::Pseudo(op) if op != Pseudo::Pack);
    computes && data.guard.is_none() && data.results.iter().all(uniform) && Effects::of(data).is_free()
}
