//! Tail duplication of empty exit blocks: gives every predecessor its own exit.
//!
//! If all paths meet at one `exit`, that block is the reconvergence point of every branch that leads there, and threads
//! would wait for each other just to exit. With their own exits they do not wait, and the remaining threads form a
//! converged warp ([`ori::Divergence`]). A branch to such a block becomes a guarded `EXIT` (`mach/linearize.rs`).
//!
//! ```text
//! b0: branch v1, b2, b1           b0: branch v1, b2, b1
//! b1: STG …; jump b2       ==>    b1: STG …; exit
//! b2: exit                        b2: exit
//! ```
//!
//! Postcondition: an empty exit block has one predecessor. Cost: linear in blocks and edges.

use crate::context::{Context, PassResult};
use ori::{Arg, Block, Change, Function, Terminator, entity::Entity};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let is_target = barrier_targets(function);
    let is_empty_exit = |f: &Function, b: Block| {
        let block = &f.blocks[b];
        b != Function::ENTRY && block.insts.is_empty() && matches!(block.end, Terminator::Exit)
    };
    let mut changed = false;
    let mut is_taken = vec![false; function.blocks.len()];
    for block in function.blocks.keys().collect::<Vec<_>>() {
        let mut end = std::mem::replace(&mut function.blocks[block].end, Terminator::Exit);
        if let Terminator::Jump(edge) = &end
            && is_empty_exit(function, edge.to)
            && !is_target[edge.to.index()]
            && context.fuel.burn()
        {
            function.blocks[block].end_at = function.blocks[edge.to].end_at;
            changed = true;
            continue;
        }
        if !matches!(end, Terminator::Jump(_)) {
            for edge in end.edges_mut() {
                if !is_empty_exit(function, edge.to) || is_target[edge.to.index()] {
                    continue;
                }
                if std::mem::replace(&mut is_taken[edge.to.index()], true) && context.fuel.burn() {
                    let copy = function.block();
                    function.blocks[copy].end_at = function.blocks[edge.to].end_at;
                    edge.to = copy;
                    changed = true;
                }
            }
        }
        function.blocks[block].end = end;
    }
    Ok(Change::ControlFlow.when(changed))
}

/// By block: does a convergence barrier name it?
fn barrier_targets(function: &Function) -> Vec<bool> {
    let mut is_target = vec![false; function.blocks.len()];
    for arg in function.insts.keys().flat_map(|i| &function.insts[i].args) {
        if let Arg::Target(block) = arg {
            is_target[block.index()] = true;
        }
    }
    is_target
}
