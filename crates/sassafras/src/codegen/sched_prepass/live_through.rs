//! Values that are live through a loop without a use in it: the first candidates for spilling, with the store before
//! the loop and the reload after it. One walk over the blocks of each loop.

use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{Block, File, Function, LoopForest, Value};
use rustc_hash::FxHashSet;

/// By block: words of R that are live through its innermost loop without a use; 0 outside of loops.
pub fn words(function: &Function, loops: &LoopForest, live: &Liveness) -> Vec<i32> {
    let mut words = vec![0; function.blocks.len()];
    for (_, l) in loops.iter() {
        let unused = unused_words(function, live, l.header, &l.blocks);
        l.blocks.iter().for_each(|b| words[b.index()] = unused);
    }
    words
}

fn unused_words(function: &Function, live: &Liveness, header: Block, blocks: &[Block]) -> i32 {
    let uses = |b: &Block| {
        let data = &function.blocks[*b];
        data.insts.iter().flat_map(|i| function.insts[*i].uses()).chain(data.end.uses())
    };
    let used: FxHashSet<Value> = blocks.iter().flat_map(uses).collect();
    let unused = live.live_in[header.index()].iter().filter(|v| !used.contains(v));
    unused.map(|v| function.values[v]).filter(|v| v.file == File::R).map(|v| i32::from(v.words)).sum()
}
