//! Block layout: reverse post-order, with each latch right after its predecessor, so that an iteration of a loop takes
//! one branch.
//!
//! ```text
//! header, body, exit, latch   =>   header, body, latch, exit
//! ```
//!
//! Only `order` of the function changes, and the entry stays first. Linear in the blocks and edges.

use crate::context::{Context, Fuel, PassResult};
use crate::mach::inst::MachFunction;
use crate::mach::unit::Unit;
use ori::entity::Entity;
use ori::{Block, Cfg, Function, Terminator};

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    let Unit { kernel, code, .. } = unit;
    code.order = order(&kernel.code, code, &mut context.fuel);
    Ok(())
}

fn order(function: &Function, code: &MachFunction, fuel: &mut Fuel) -> Vec<Block> {
    let cfg = Cfg::new(function);
    let mut placed = vec![false; code.blocks.len()];
    let mut order = Vec::with_capacity(code.order.len());
    for &block in &code.order {
        let mut next = Some(block).filter(|b| !placed[b.index()]);
        while let Some(block) = next {
            placed[block.index()] = true;
            order.push(block);
            let mut succs = cfg.succs[block.index()].iter().copied();
            let latch = succs.find(|s| !placed[s.index()] && is_latch(function, &cfg, &placed, *s));
            next = latch.filter(|_| fuel.burn());
        }
    }
    order
}

/// Does it only jump back to a block that has been placed?
fn is_latch(function: &Function, cfg: &Cfg, placed: &[bool], block: Block) -> bool {
    let Terminator::Jump(edge) = &function.blocks[block].end else { return false };
    placed[edge.to.index()] && cfg.preds[block.index()].len() == 1
}
