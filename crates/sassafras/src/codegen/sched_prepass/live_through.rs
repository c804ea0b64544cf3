//! Values that are alive in a loop that has no use for them: the first to go to memory, and they stay there until it ends.

use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{Block, Cfg, File, Function, Value};
use rustc_hash::FxHashSet;

/// For each block how many general registers hold such values, as the innermost loop sees it; none outside of loops.
pub fn words(function: &Function, cfg: &Cfg, live: &Liveness) -> Vec<i32> {
    let mut words = vec![0; function.blocks.len()];
    for header in cfg.headers() {
        let blocks: Vec<Block> = cfg.natural_loop(header).collect();
        let unused = unused(function, live, header, &blocks);
        blocks.iter().for_each(|b| words[b.index()] = unused);
    }
    words
}

fn unused(function: &Function, live: &Liveness, header: Block, blocks: &[Block]) -> i32 {
    let of = |b: &Block| {
        let data = &function.blocks[*b];
        data.insts.iter().flat_map(|i| function.insts[*i].uses()).chain(data.end.uses())
    };
    let used: FxHashSet<Value> = blocks.iter().flat_map(of).collect();
    let all = live.live_in[header.index()].iter().filter(|v| !used.contains(v));
    all.map(|v| function.values[v]).filter(|v| v.file == File::R).map(|v| i32::from(v.words)).sum()
}
