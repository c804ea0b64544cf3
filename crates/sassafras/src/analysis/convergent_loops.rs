//! Convergent loops: regions in which uniform registers keep their contents from block to block.
//!
//! Uniform registers belong to the warp, not to a thread: where threads have diverged, those on one side overwrite what
//! those on the other still need. A convergent loop is a loop with its preheader, if
//!
//! * the threads of a warp that reach it run all of it convergently, up to the last of them that leaves or exits;
//! * those that went elsewhere for good write no uniform registers there, nor do functions that they call;
//! * no block runs between the preheader and the loop.
//!
//! So a word that a thread has in the preheader is what `R2UR` gives all through the loop, and a uniform register that
//! is written in the region holds up to where it is read in the region, whatever the rest of the function does.
//!
//! One reachability search per divergent branch without a join.

use ori::divergence::region;
use ori::entity::Entity;
use ori::{Block, Cfg, Divergence, File, Function, LoopForest, Op, Pseudo, Terminator};

pub struct ConvergentLoop {
    /// The only edge into the loop comes from here.
    pub preheader: Block,
    /// By block: is it in the loop?
    pub body: Vec<bool>,
}

/// The convergent loops of a function: of nested ones the outermost.
pub fn convergent_loops(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Vec<ConvergentLoop> {
    let mut convergent_loops: Vec<ConvergentLoop> = Vec::new();
    if cfg.headers().next().is_none() {
        return convergent_loops;
    }
    let permanently_divergent = permanently_divergent(function, cfg, divergence);
    let is_convergent = |b: &Block| !divergence.is_divergent(*b) && !permanently_divergent[b.index()];
    let mut is_in_one = vec![false; function.blocks.len()];
    for (_, l) in LoopForest::new(cfg).iter() {
        let is_nested = is_in_one[l.header.index()];
        let Some(preheader) = l.preheader.filter(|b| !is_nested && is_convergent(b)) else { continue };
        if l.blocks.iter().all(is_convergent) {
            let mut body = vec![false; function.blocks.len()];
            l.blocks.iter().for_each(|b| (body[b.index()], is_in_one[b.index()]) = (true, true));
            convergent_loops.push(ConvergentLoop { preheader, body });
        }
    }
    convergent_loops
}

impl ConvergentLoop {
    pub fn contains(&self, block: Block) -> bool {
        block == self.preheader || self.body[block.index()]
    }
}

/// The blocks that some threads of a warp run while others, with which they never reconverge, run code that writes
/// uniform registers, too.
pub fn permanently_divergent(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Vec<bool> {
    let mut permanently_divergent = vec![false; function.blocks.len()];
    // What is clobbered is rematerialized in the block that reads it: each reader writes then.
    let rematerializes = is_clobbered_by_a_block(function, cfg, divergence);
    let writes = |b: Block| {
        writes_uniform(function, b) || calls(function, b) || rematerializes && reads_uniform(function, b)
    };
    let writers: Vec<bool> = function.blocks.keys().map(writes).collect();
    if !writers.contains(&true) {
        return permanently_divergent;
    }
    // What follows a block that is permanently divergent is so, too.
    for &branch in &cfg.order {
        if permanently_divergent[branch.index()] {
            continue;
        }
        let Terminator::Branch { predicate, uniform: false, .. } = function.blocks[branch].end else {
            continue;
        };
        if !divergence.varies(predicate) || region(function, cfg, branch).is_some() {
            continue;
        }
        let sides: Vec<Vec<Block>> = cfg.succs[branch.index()]
            .iter()
            .map(|side| std::iter::once(*side).chain(cfg.reachable_from(*side, None)).collect())
            .collect();
        if sides.iter().all(|side: &Vec<Block>| side.iter().any(|b| writers[b.index()])) {
            sides.iter().flatten().for_each(|b| permanently_divergent[b.index()] = true);
        }
    }
    permanently_divergent
}

/// Does a block clobber uniform registers of other threads of the warp, or may a function that it calls?
pub fn is_clobbered_by_a_block(function: &Function, cfg: &Cfg, divergence: &Divergence) -> bool {
    let clobbers =
        |b: &Block| calls(function, *b) || divergence.is_divergent(*b) && writes_uniform(function, *b);
    cfg.order.iter().any(clobbers)
}

fn calls(function: &Function, block: Block) -> bool {
    let is_call = |op: Op| matches!(op, Op::Pseudo(Pseudo::Call | Pseudo::Entry));
    function.blocks[block].insts.iter().any(|i| is_call(function.insts[*i].op))
}

fn reads_uniform(function: &Function, block: Block) -> bool {
    let mut uses = function.blocks[block].insts.iter().flat_map(|i| function.insts[*i].uses());
    uses.any(|v| function.values[v].file == File::UR)
}

pub fn writes_uniform(function: &Function, block: Block) -> bool {
    let results = function.blocks[block].insts.iter().flat_map(|i| &function.insts[*i].results);
    results.into_iter().any(|v| matches!(function.values[*v].file, File::UR | File::UP))
}
