//! Splits edges so that block arguments have a place for their moves.
//!
//! After this pass an edge with arguments is the only edge out of its block.

use crate::bank0::Machine;
use ori::{Edge, Function, Terminator};

pub fn run(function: &mut Function, _: &'static Machine) -> Result<(), String> {
    for block in function.blocks.keys() {
        let data = &mut function.blocks[block];
        if !matches!(data.end, Terminator::Branch { .. }) {
            continue;
        }
        let mut end = std::mem::replace(&mut data.end, Terminator::Exit);
        for edge in end.edges_mut() {
            if !edge.args.is_empty() {
                let middle = function.block();
                let onward = std::mem::replace(edge, Edge::to(middle));
                function.blocks[middle].end = Terminator::Jump(onward);
            }
        }
        function.blocks[block].end = end;
    }
    Ok(())
}
