//! Splits edges so that moves between blocks have a place.
//!
//! After this pass an edge that has arguments, or leads to a block with several predecessors, is the only edge out of
//! its block.

use crate::context::target::Machine;
use ori::entity::Entity;
use ori::{Cfg, Edge, Function, Terminator};

pub fn run(function: &mut Function, _: &'static Machine) -> Result<(), String> {
    let cfg = Cfg::new(function);
    for block in function.blocks.keys() {
        let data = &mut function.blocks[block];
        if !matches!(data.end, Terminator::Branch { .. }) || !cfg.reachable(block) {
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
    Ok(())
}
