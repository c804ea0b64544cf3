//! Block layout: reverse post-order, with each latch right after its predecessor, so that an iteration of a loop takes
//! one branch, and with cold blocks after all others, so that what runs often is contiguous (hot/cold splitting).
//!
//! ```text
//! header, body, exit, latch      =>   header, body, latch, exit
//! check, slow path (cold), join  =>   check, join, …, slow path
//! ```
//!
//! Only `order` of the function changes, and the entry stays first. Linear in the blocks and edges.

use crate::context::{Context, Fuel, PassResult};
use crate::mach::inst::MachFunction;
use crate::mach::unit::Unit;
use ori::entity::Entity;
use ori::{Block, Cfg, Function, InstData, Op, Terminator};
use sass::M;

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    let Unit { kernel, code, .. } = unit;
    code.order = order(&kernel.code, code, &mut context.fuel);
    Ok(())
}

fn order(function: &Function, code: &MachFunction, fuel: &mut Fuel) -> Vec<Block> {
    let cfg = Cfg::new(function);
    let cold = cold_blocks(function, &cfg, fuel);
    let mut placed = vec![false; code.blocks.len()];
    let mut order = Vec::with_capacity(code.order.len());
    let (hot_first, cold_last) = code.order.iter().partition::<Vec<Block>, _>(|b| !cold[b.index()]);
    for block in hot_first.into_iter().chain(cold_last) {
        let mut next = Some(block).filter(|b| !placed[b.index()]);
        while let Some(block) = next {
            placed[block.index()] = true;
            order.push(block);
            let may_follow = |s: &Block| !placed[s.index()] && cold[s.index()] == cold[block.index()];
            let mut succs = cfg.succs[block.index()].iter().copied().filter(may_follow);
            let latch = succs.find(|s| is_latch(function, &cfg, &placed, *s));
            next = latch.filter(|_| fuel.burn());
        }
    }
    order
}

/// Slow paths, blocks that trap, and blocks that run only before or after these.
fn cold_blocks(function: &Function, cfg: &Cfg, fuel: &mut Fuel) -> Vec<bool> {
    let traps = |b: Block| function.blocks[b].insts.iter().any(|i| is_trap(&function.insts[*i]));
    let mut cold = vec![false; function.blocks.len()];
    for &block in &cfg.order {
        let preds = &cfg.preds[block.index()];
        let after_cold = !preds.is_empty() && preds.iter().all(|p| cold[p.index()]);
        let is_cold = function.blocks[block].cold || traps(block) || after_cold;
        cold[block.index()] = is_cold && block != Function::ENTRY && fuel.burn();
    }
    for &block in cfg.order.iter().rev() {
        if let Terminator::Jump(edge) = &function.blocks[block].end {
            cold[block.index()] |= cold[edge.to.index()] && block != Function::ENTRY;
        }
    }
    cold
}

fn is_trap(data: &InstData) -> bool {
    data.op == Op::Machine(sass::Op::BPT) && data.modifiers.contains(&M::TRAP) && data.guard.is_none()
}

/// Does it only jump back to a block that has been placed?
fn is_latch(function: &Function, cfg: &Cfg, placed: &[bool], block: Block) -> bool {
    let Terminator::Jump(edge) = &function.blocks[block].end else { return false };
    placed[edge.to.index()] && cfg.preds[block.index()].len() == 1
}
