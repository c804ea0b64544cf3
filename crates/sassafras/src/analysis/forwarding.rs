//! Where an edge leads in the end: past blocks without instructions that only jump on.

use ori::{Edge, Function, Terminator};

/// The last of the edges that follow each other through empty blocks without parameters. Its arguments are defined where
/// the first edge is: the blocks between define nothing.
pub fn forwarded<'a>(function: &'a Function, edge: &'a Edge) -> &'a Edge {
    /// Bounds the time, where empty blocks are a loop.
    const MOST_BLOCKS: u32 = 4;
    let mut last = edge;
    for _ in 0..MOST_BLOCKS {
        let data = &function.blocks[last.to];
        match &data.end {
            Terminator::Jump(next) if data.insts.is_empty() && data.params.is_empty() => last = next,
            _ => break,
        }
    }
    last
}
