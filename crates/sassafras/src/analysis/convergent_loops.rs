//! Convergent loops: blocks between which uniform registers keep their values.
//!
//! Uniform registers belong to the warp, not to a thread: in divergent control flow the threads of one path overwrite
//! what those of the other still need. A convergent loop is a natural loop with its preheader where
//!
//! * the threads of a warp that enter run all of it converged, up to the last of them that leaves or exits;
//! * threads that diverged before and never reconverge write no uniform registers;
//! * nothing runs between the preheader and the loop.
//!
//! So `R2UR` of a word that a thread has in the preheader gives the same all through the loop, and a uniform register
//! that is written in it stays valid for every read in it, whatever the rest of the function does. Cost: linear in the
//! loops, and for each divergent branch without reconvergence in the blocks that it reaches.

use ori::divergence::region;
use ori::entity::Entity;
use ori::{Block, Cfg, Divergence, File, Function, LoopForest, Terminator};

pub struct Zone {
    /// The preheader: the only block that enters the loop.
    pub before: Block,
    /// By block: is it in the loop?
    pub inside: Vec<bool>,
}

/// The convergent loops of a function: of nested loops, the outermost that is one.
pub fn zones(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    if cfg.headers().next().is_none() {
        return zones;
    }
    let overlapped = apart(function, cfg, divergence);
    let convergent = |b: &Block| !divergence.is_divergent(*b) && !overlapped[b.index()];
    for (_, l) in LoopForest::new(cfg).iter() {
        let is_nested = zones.iter().any(|z| z.inside[l.header.index()]);
        let Some(before) = l.preheader.filter(|b| !is_nested && convergent(b)) else { continue };
        if l.blocks.iter().all(convergent) {
            let mut inside = vec![false; function.blocks.len()];
            l.blocks.iter().for_each(|b| inside[b.index()] = true);
            zones.push(Zone { before, inside });
        }
    }
    zones
}

impl Zone {
    pub fn contains(&self, block: Block) -> bool {
        block == self.before || self.inside[block.index()]
    }
}

/// The preheader of a loop: the only predecessor of the header from outside, which has no other successor.
pub fn before(_: &Function, cfg: &Cfg, header: Block) -> Option<Block> {
    ori::loops::preheader(cfg, header)
}

/// The blocks that some threads of a warp run while others, which never reconverge with them, run blocks that write
/// uniform registers too.
pub fn apart(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Vec<bool> {
    let mut apart = vec![false; function.blocks.len()];
    for &branch in &cfg.order {
        let Terminator::Branch { predicate, uniform: false, .. } = function.blocks[branch].end else {
            continue;
        };
        if !divergence.varies(predicate) || region(cfg, branch).is_some() {
            continue;
        }
        let sides: Vec<Vec<Block>> = cfg.succs[branch.index()]
            .iter()
            .map(|side| std::iter::once(*side).chain(cfg.reachable_from(*side, None)).collect())
            .collect();
        if sides.iter().all(|side: &Vec<Block>| side.iter().any(|b| writes_uniform(function, *b))) {
            sides.iter().flatten().for_each(|b| apart[b.index()] = true);
        }
    }
    apart
}

pub fn writes_uniform(function: &Function, block: Block) -> bool {
    let results = function.blocks[block].insts.iter().flat_map(|i| &function.insts[*i].results);
    results.into_iter().any(|v| matches!(function.values[*v].file, File::UR | File::UP))
}
