//! Zones: blocks between which uniform registers keep what is in them.
//!
//! They belong to the warp, not to a thread: where threads have parted, those on one side write over what those on the
//! other still need. A zone is a loop and the block before it, if
//!
//! * the threads of a warp that come there run all of it together, up to the last of them that leaves or exits;
//! * those that went elsewhere for good write no uniform registers there;
//! * nothing runs between the block before and the loop.
//!
//! So a word that a thread has in the block before is what `R2UR` gives all through the loop, and a uniform register
//! that is written in the zone holds up to where it is read in the zone, whatever the rest of the function does.

use ori::divergence::region;
use ori::entity::Entity;
use ori::{Block, Cfg, Divergence, File, Function, Terminator};

pub struct Zone {
    /// The only way into the loop.
    pub before: Block,
    /// By block: is it in the loop?
    pub inside: Vec<bool>,
}

/// The zones of a function: of loops in each other, the outermost that is one.
pub fn zones(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    let apart = apart(function, cfg, divergence);
    let together = |b: Block| !divergence.is_parted(b) && !apart[b.index()];
    for header in cfg.headers() {
        if zones.iter().any(|z| z.inside[header.index()]) {
            continue;
        }
        let Some(before) = before(function, cfg, header) else { continue };
        if together(before) && cfg.natural_loop(header).all(together) {
            let mut inside = vec![false; function.blocks.len()];
            cfg.natural_loop(header).for_each(|b| inside[b.index()] = true);
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

/// The block from which alone a loop is come to, and which leads nowhere else.
pub fn before(function: &Function, cfg: &Cfg, header: Block) -> Option<Block> {
    let mut outside = cfg.preds[header.index()].iter().filter(|p| !cfg.dominates(header, **p));
    let (before, None) = (*outside.next()?, outside.next()) else { return None };
    matches!(function.blocks[before].end, Terminator::Jump(_)).then_some(before)
}

/// The blocks that some threads of a warp run while others, whom they don't meet again, run what writes uniform
/// registers, too.
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
