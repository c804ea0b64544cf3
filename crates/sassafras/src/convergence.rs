//! Convergence: where threads that took different ways meet again.
//!
//! A branch that may diverge gets a region from a block `from`, which dominates it and runs `BSSY`, to its
//! post-dominator `to`; every edge from inside the region to `to` goes through a landing block with `BSYNC`.
//! A region is right when
//!
//! 1. `to` post-dominates `from`, so that every thread that enters also arrives (or exits);
//! 2. every block of the region is dominated by `from`, so that no thread arrives without having entered;
//! 3. `from` cannot be reached again inside the region, so that no thread enters twice before it arrives.
//!
//! Starting at the branch and its immediate post-dominator, `from` climbs to its dominator and `to` to its
//! post-dominator until all three hold. Branches that find the same region share it. A branch whose threads
//! only meet at the end of the program needs none.

use crate::bank0::Machine;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Edge, File, Function, InstData, Op, Terminator};
use smallvec::smallvec;

pub fn run(function: &mut Function, _: &'static Machine) -> Result<(), String> {
    let cfg = Cfg::new(function);
    let mut regions: Vec<(Block, Block)> = Vec::new();
    for &block in &cfg.order {
        if let Terminator::Branch { uniform: false, .. } = function.blocks[block].end
            && let Some(region) = region(&cfg, block)
            && !regions.contains(&region)
        {
            regions.push(region);
        }
    }
    // Inner regions first: the landing block of an inner region lies inside the outer one. A region is inside
    // another if the other's `from` dominates its own; in reverse post-order the inner one comes later.
    regions.sort_by_key(|(from, _)| std::cmp::Reverse(cfg.order.iter().position(|b| b == from)));
    for (from, to) in regions {
        insert(function, from, to);
    }
    Ok(())
}

/// The region of a divergent branch, or `None` if its threads don't meet before the end.
pub fn region(cfg: &Cfg, branch: Block) -> Option<(Block, Block)> {
    let mut from = branch;
    let mut to = cfg.ipdom(branch)?;
    loop {
        if !cfg.post_dominates(to, from) || to == from {
            to = cfg.ipdom(to)?;
            continue;
        }
        let inside = blocks_between(cfg, from, to);
        let entered_twice =
            inside.iter().any(|b| cfg.succs[b.index()].contains(&from)) && inside.contains(&from);
        let side_door = inside.iter().any(|b| !cfg.dominates(from, *b));
        if !entered_twice && !side_door {
            return Some((from, to));
        }
        from = cfg.idom(from)?;
    }
}

/// The blocks that can be reached from the successors of `from` without passing `to`. `from` itself is among
/// them only if it lies on a cycle of them.
pub fn blocks_between(cfg: &Cfg, from: Block, to: Block) -> Vec<Block> {
    let mut seen = vec![false; cfg.succs.len()];
    let mut inside = Vec::new();
    let mut work: Vec<Block> = cfg.succs[from.index()].clone();
    while let Some(b) = work.pop() {
        if b != to && !std::mem::replace(&mut seen[b.index()], true) {
            inside.push(b);
            if b != from {
                work.extend(&cfg.succs[b.index()]);
            }
        }
    }
    inside
}

/// Puts `BSSY` at the end of `from` and `BSYNC` into a landing block before `to`.
fn insert(function: &mut Function, from: Block, to: Block) {
    // Landing blocks of inner regions have been added since: look at the graph as it is now.
    let cfg = Cfg::new(function);
    let landing = function.block();
    let shapes: Vec<_> = function.blocks[to].params.iter().map(|p| function.values[*p]).collect();
    let copies: Vec<_> = shapes.into_iter().map(|d| function.value(d.file, d.words)).collect();
    for block in cfg.order.iter().filter(|b| cfg.dominates(from, **b)) {
        for edge in function.blocks[*block].end.edges_mut() {
            if edge.to == to {
                edge.to = landing;
            }
        }
    }
    let barrier = function.value(File::B, 1);
    let enter = machine(sass::Op::BSSY, &[barrier], &[Arg::Target(landing)]);
    function.append(from, enter);
    let meet = machine(sass::Op::BSYNC, &[], &[barrier.into()]);
    function.append(landing, meet);
    function.blocks[landing].params = copies.clone();
    function.blocks[landing].end = Terminator::Jump(Edge { to, args: copies });
}

fn machine(op: sass::Op, results: &[ori::Value], args: &[Arg]) -> InstData {
    InstData {
        op: Op::Machine(op),
        modifiers: smallvec![],
        results: results.into(),
        args: args.into(),
        guard: None,
        at: 0,
    }
}
