//! Critical-edge splitting.
//!
//! ```text
//! branch p1, a(v1), b      ==>    branch p1, m, b      (or another block, if b has other predecessors, too)
//!                                 m: jump a(v1)
//! ```
//!
//! Postcondition: an edge that has arguments, or whose target has several predecessors, is the only edge out of its
//! block, so that the edge's moves can be placed at the end of that block. Cost: linear in the edges.

use crate::context::{Context, PassResult};
use ori::entity::Entity;
use ori::{Cfg, Change, Edge, Function, Terminator};

pub fn run(function: &mut Function, _: &mut Context) -> PassResult<Change> {
    let cfg = Cfg::new(function);
    for block in function.blocks.keys() {
        let data = &mut function.blocks[block];
        if data.end.decider().is_none() || !cfg.reachable(block) {
            continue;
        }
        let mut end = std::mem::replace(&mut data.end, Terminator::Exit);
        for edge in end.edges_mut() {
            if !edge.args.is_empty() || cfg.preds[edge.to.index()].len() > 1 {
                let middle = function.block();
                let onward = std::mem::replace(edge, Edge::to(middle));
                function.blocks[middle].end = Terminator::Jump(onward);
            }
        }
        function.blocks[block].end = end;
    }
    Ok(Change::ControlFlow)
}
