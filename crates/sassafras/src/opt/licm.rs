//! Loop-invariant code motion of shuffles: `SHFL` of loop invariants moves to the preheader.
//!
//! Triton asks for the warp's number by a shuffle before each wgmma. The result becomes part of descriptors, and the
//! tensor cores idle while a loop waits for it. If neither the block in the loop nor the preheader is divergent, the same
//! threads take part in both. Other invariants are hoisted by front ends.
//!
//! ```text
//! b0: jump b1                            b0: v2 = SHFL v1, RZ, 0x1f
//! b1: v2 = SHFL v1, RZ, 0x1f        →        jump b1
//!     use v2; branch p, b1, b2           b1: use v2; branch p, b1, b2
//! ```
//!
//! Afterwards no convergent block of a loop with a convergent preheader has a shuffle whose operands are all defined
//! outside of the loop. Cost: linear in the blocks of each loop, plus a divergence analysis if there are shuffles.

use crate::analysis::effects;
use crate::context::{Context, PassResult};
use ori::{Block, Change, Function, Inst, InstData, Value};
use rustc_hash::FxHashSet;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let is_shuffle = |data: &InstData| effects::is_shuffle(data) && data.guard.is_none();
    if !function.insts.keys().any(|i| is_shuffle(&function.insts[i])) {
        return Ok(Change::Nothing);
    }
    let loops = context.analyses.loops(function);
    let divergence = context.analyses.divergence(function);
    let mut hoisted_any = false;
    for (_, l) in loops.iter() {
        let Some(preheader) = l.preheader.filter(|b| !divergence.is_divergent(*b)) else { continue };
        let variant = defined_in(function, &l.blocks);
        let mut blocks: Vec<Block> = l.blocks.clone();
        blocks.sort();
        for block in blocks.into_iter().filter(|b| !divergence.is_divergent(*b)) {
            let stays = |inst: &Inst| {
                let data = &function.insts[*inst];
                !is_shuffle(data) || data.uses().any(|v| variant.contains(&v)) || !context.fuel.burn()
            };
            let (kept, hoisted): (Vec<Inst>, Vec<Inst>) =
                function.blocks[block].insts.iter().copied().partition(stays);
            hoisted_any |= !hoisted.is_empty();
            function.blocks[block].insts = kept;
            function.blocks[preheader].insts.extend(hoisted);
        }
    }
    Ok(Change::Instructions.when(hoisted_any))
}

/// The values that are defined in some blocks.
fn defined_in(function: &Function, blocks: &[Block]) -> FxHashSet<Value> {
    let defined = |b: &Block| {
        let data = &function.blocks[*b];
        let results = data.insts.iter().flat_map(|i| function.insts[*i].results.iter().copied());
        results.chain(data.params.iter().copied())
    };
    blocks.iter().flat_map(defined).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn invariant_shuffle_is_hoisted_to_preheader() {
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
