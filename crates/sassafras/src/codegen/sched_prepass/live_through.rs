//! Values that are live through a loop without a use in it: the first candidates for spilling, with the store before
//! the loop and the reload after it. And those that can be rematerialized there. One walk over the blocks of each loop.

use crate::regalloc::is_rematerializable;
use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{Block, Cfg, File, Function, LoopForest, Value};
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

/// Which values are words of R that can be rematerialized.
pub fn rematerializable(function: &Function, cfg: &Cfg) -> Vec<bool> {
    let mut candidate = vec![false; function.values.len()];
    for inst in cfg.order.iter().flat_map(|b| &function.blocks[*b].insts).map(|i| &function.insts[*i]) {
        if is_rematerializable(inst) && function.values[inst.results[0]].file == File::R {
            candidate[inst.results[0].index()] = true;
        }
    }
    candidate
}

/// By block: words of R that are live through it, or through its innermost loop, without a use, and rematerializable.
pub fn rematerializable_words(
    function: &Function,
    (cfg, loops): (&Cfg, &LoopForest),
    live: &Liveness,
    candidate: &[bool],
) -> Vec<i32> {
    let mut words = vec![0; function.blocks.len()];
    // The loop or the block that a value was last seen used in.
    let mut used_in = vec![None; function.values.len()];
    let mut count = |header: Block, blocks: &[Block]| {
        for data in blocks.iter().map(|b| &function.blocks[*b]) {
            let uses = data.insts.iter().flat_map(|i| function.insts[*i].uses()).chain(data.end.uses());
            uses.filter(|v| candidate[v.index()]).for_each(|v| used_in[v.index()] = Some(header));
        }
        let through = live.live_in[header.index()].iter();
        let unused = through.filter(|v| candidate[v.index()] && used_in[v.index()] != Some(header));
        unused.map(|v| i32::from(function.values[v].words)).sum::<i32>()
    };
    for &block in cfg.order.iter().filter(|b| loops.innermost(**b).is_none()) {
        words[block.index()] = count(block, &[block]);
    }
    for (id, l) in loops.iter() {
        let unused = count(l.header, &l.blocks);
        let inner = l.blocks.iter().filter(|b| loops.innermost(**b) == Some(id));
        inner.for_each(|b| words[b.index()] = unused);
    }
    words
}
