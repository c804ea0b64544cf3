//! Block layout: reverse post-order, with each latch right after its predecessor, so that an iteration of a loop takes
//! one branch, and with cold blocks after all others, so that what runs often is contiguous (hot/cold splitting).
//!
//! ```text
//! header, body, exit, latch      =>   header, body, latch, exit
//! check, slow path (cold), join  =>   check, join, …, slow path
//! ```
//!
//! A loop that is left in its middle is rotated, so that the test is at its end (LLVM's `rotateLoop`): it is entered by a
//! branch, and an iteration takes one.
//!
//! ```text
//! header, test, body             =>   body, header, test
//! ```
//!
//! Only `order` of the function changes, and the entry stays first. Linear in the blocks and edges, times the depth of
//! loops.

use crate::context::{Context, Fuel, PassResult};
use crate::mach::inst::MachFunction;
use crate::mach::unit::Unit;
use ori::entity::Entity;
use ori::{Block, Cfg, Function, InstData, LoopForest, LoopId, Op, Terminator};
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
    let loops = LoopForest::new(&cfg);
    let mut place = vec![0; code.blocks.len()];
    order.iter().enumerate().for_each(|(at, block)| place[block.index()] = at);
    for (id, l) in loops.iter() {
        let first = place[l.header.index()];
        if let Some((test, last)) = left_in_the_middle(function, code, (&loops, id), &order, first)
            && fuel.burn()
        {
            order[first..=last].rotate_left(test + 1 - first);
            (first..=last).for_each(|at| place[order[at].index()] = at);
        }
    }
    order
}

/// The places of a block after which a loop is left or goes on, and of its last block, which jumps to the header. Its
/// blocks are together, cold ones aside, and the header is the first of them.
fn left_in_the_middle(
    function: &Function,
    code: &MachFunction,
    (loops, id): (&LoopForest, LoopId),
    order: &[Block],
    first: usize,
) -> Option<(usize, usize)> {
    let header = loops.get(id).header;
    if first == 0 || order.get(first) != Some(&header) {
        return None;
    }
    let count = order[first..].iter().take_while(|b| loops.contains(id, **b)).count();
    let last = first + count - 1;
    let Terminator::Jump(edge) = &function.blocks[order[last]].end else { return None };
    // The branch to a block that only jumps leads past it.
    if edge.to != header || code.blocks[order[last].index()].is_empty() {
        return None;
    }
    let leaves = |at: &usize| {
        let block = order[*at];
        let edges = function.blocks[block].end.edges();
        let is_next = |to: Block| to == order[at + 1];
        loops.innermost(block) == Some(id)
            && edges.len() == 2
            && edges.iter().any(|edge| is_next(edge.to))
            && edges.iter().any(|edge| !loops.contains(id, edge.to))
    };
    let falls_out = |at: &usize| {
        let edges = function.blocks[order[*at]].end.edges();
        order.get(last + 1).is_some_and(|next| edges.iter().any(|edge| edge.to == *next))
    };
    let test = (first..last).filter(leaves).find(falls_out).or_else(|| (first..last).rfind(leaves))?;
    Some((test, last))
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
