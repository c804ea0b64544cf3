//! Removes waits for threads that are together anyway.
//!
//! Lowering makes the threads of a warp wait for each other before each thing that they do together. They are together
//! wherever no divergent branch has been taken whose threads haven't met yet: outside of all convergence regions, and
//! behind an earlier such wait of the same block. ptxas leaves the waits out there, too. A wait that PTX asks for itself
//! (`bar.warp.sync`) stays: it orders memory.
//!
//! Functions with calls, and those that are called, are left alone: nothing is known of the other side.

use crate::convergence::{blocks_between, region};
use crate::passes::Context;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Function, Inst, Op, Pseudo, Terminator};
use sass::{Class, M};

pub fn run(function: &mut Function, context: &mut Context) -> Result<(), String> {
    let is_call = |i: &Inst| matches!(function.insts[*i].op, Op::Pseudo(Pseudo::Call | Pseudo::Entry));
    let insts = || function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    if insts().any(is_call) || !insts().any(|i| is_wait(function, *i)) {
        return Ok(());
    }
    let cfg = Cfg::new(function);
    let apart = apart(function, &cfg);
    for &block in &cfg.order {
        let mut together = !apart[block.index()];
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for (i, inst) in insts.iter().enumerate() {
            let needless = is_wait(function, *inst) && insts.get(i + 1).is_some_and(|n| is_shared(function, *n));
            if !(needless && together && context.fuel.burn()) {
                kept.push(*inst);
                together |= is_wait(function, *inst);
            }
        }
        function.blocks[block].insts = kept;
    }
    Ok(())
}

/// The blocks in which threads of a warp may be apart.
fn apart(function: &Function, cfg: &Cfg) -> Vec<bool> {
    let mut apart = vec![false; function.blocks.len()];
    let mut mark = |blocks: Vec<Block>| blocks.iter().for_each(|b| apart[b.index()] = true);
    for &block in &cfg.order {
        if let Terminator::Branch { uniform: false, .. } = function.blocks[block].end {
            match region(cfg, block) {
                Some((from, to)) => mark(blocks_between(cfg, from, to)),
                None => mark(reachable(cfg, block)),
            }
        }
    }
    apart
}

/// All blocks that control can come to from a block.
fn reachable(cfg: &Cfg, from: Block) -> Vec<Block> {
    let mut seen = vec![false; cfg.succs.len()];
    let (mut all, mut work) = (Vec::new(), cfg.succs[from.index()].clone());
    while let Some(block) = work.pop() {
        if !std::mem::replace(&mut seen[block.index()], true) {
            all.push(block);
            work.extend(&cfg.succs[block.index()]);
        }
    }
    all
}

/// Does it wait for all threads of the warp?
fn is_wait(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let all = matches!((&data.modifiers[..], &data.args[..]), ([M::ALL], []) | ([], [Arg::Imm(0xffff_ffff)]));
    data.op == Op::Machine(sass::Op::WARPSYNC) && data.guard.is_none() && all
}

/// Do the threads of a warp do it together?
fn is_shared(function: &Function, inst: Inst) -> bool {
    use sass::Op::{LDSM, MATCH, MOVM, REDUX, SHFL, VOTE, VOTEU};
    let Op::Machine(op) = function.insts[inst].op else { return false };
    let product = sass::Form::of(op).first().is_some_and(|form| form.class == Class::Tensor);
    product || matches!(op, LDSM | MATCH | MOVM | REDUX | SHFL | VOTE | VOTEU)
}
