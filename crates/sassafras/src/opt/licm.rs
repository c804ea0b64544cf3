//! Shuffles of what a loop doesn't change are done before it.
//!
//! Triton asks for the number of the warp by a shuffle before each product. What it gives becomes part of descriptors,
//! and the tensor cores idle while a loop waits for it. If neither the loop nor the block before it is one that threads
//! of a warp come to one by one, the same threads take part there.

use crate::analysis::effects;
use crate::context::Context;
use ori::divergence::Divergence;
use ori::{Block, Cfg, Function, Inst, InstData, Value};
use rustc_hash::FxHashSet;

pub fn run(function: &mut Function, context: &mut Context) -> crate::context::PassResult {
    let is_shuffle = |data: &InstData| effects::is_shuffle(data) && data.guard.is_none();
    if !function.insts.keys().any(|i| is_shuffle(&function.insts[i])) {
        return Ok(());
    }
    let cfg = Cfg::new(function);
    let divergence = Divergence::new(function, &cfg);
    for header in cfg.headers() {
        let Some(before) = ori::loops::preheader(&cfg, header).filter(|b| !divergence.is_divergent(*b))
        else {
            continue;
        };
        let blocks: Vec<Block> = cfg.natural_loop(header).collect();
        let made = made(function, &blocks);
        for &block in blocks.iter().filter(|b| !divergence.is_divergent(**b)) {
            let stays = |inst: &Inst| {
                let data = &function.insts[*inst];
                !is_shuffle(data) || data.uses().any(|v| made.contains(&v)) || !context.fuel.burn()
            };
            let (kept, moved) = function.blocks[block].insts.iter().copied().partition(stays);
            function.blocks[block].insts = kept;
            let moved: Vec<Inst> = moved;
            function.blocks[before].insts.extend(moved);
        }
    }
    Ok(())
}

/// The values that blocks define.
fn made(function: &Function, blocks: &[Block]) -> FxHashSet<Value> {
    let of = |b: &Block| {
        let data = &function.blocks[*b];
        let results = data.insts.iter().flat_map(|i| function.insts[*i].results.iter().copied());
        results.chain(data.params.iter().copied())
    };
    blocks.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn shuffles_of_what_stays_the_same_stand_before_the_loop() {
        let source = include_str!("../../tests/kernels/loops.ptx");
        let shuffle_comes_before_header = |pass: &str| {
            let log = crate::passes::code_after(pass, source);
            let warps = log.split("function ").find(|f| f.starts_with("warps ")).expect("the function");
            let header = warps.lines().position(|l| l.starts_with('b') && l.contains('('));
            warps.lines().position(|l| l.contains("SHFL")) < header
        };
        assert!(!shuffle_comes_before_header("elide-waterfall"));
        assert!(shuffle_comes_before_header("licm"));
    }
}
