//! Convergent loops: regions in which uniform registers keep their contents from block to block.
//!
//! Uniform registers belong to the warp, not to a thread: where threads have diverged, those on one side overwrite what
//! those on the other still need. A convergent loop is a loop with its preheader, if
//!
//! * the threads of a warp that reach it run all of it convergently, up to the last of them that leaves or exits;
//! * those that went elsewhere for good write no uniform registers there;
//! * no block runs between the preheader and the loop.
//!
//! So a word that a thread has in the preheader is what `R2UR` gives all through the loop, and a uniform register that
//! is written in the region holds up to where it is read in the region, whatever the rest of the function does.
//!
//! One reachability search per divergent branch without a join.

use ori::divergence::region;
use ori::entity::Entity;
use ori::{Block, Cfg, Divergence, File, Function, LoopForest, Op, Pseudo, Value};

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

/// The blocks that some threads of a warp run while others, with which they never reconverge, run other code, if some of
/// them read or write uniform registers that the others write.
pub fn permanently_divergent(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Vec<bool> {
    let mut permanently_divergent = vec![false; function.blocks.len()];
    let clobbers = |b: Block| writes_uniform(function, b) || calls(function, b);
    let writers: Vec<bool> = function.blocks.keys().map(clobbers).collect();
    if !writers.contains(&true) {
        return permanently_divergent;
    }
    let touches = |b: Block| touches_uniform(function, b) || calls(function, b);
    let touchers: Vec<bool> = function.blocks.keys().map(touches).collect();
    for branch in parting_branches(function, cfg, divergence) {
        // What follows a block that is permanently divergent is so, too.
        if permanently_divergent[branch.index()] {
            continue;
        }
        let sides = sides(cfg, branch);
        let touching = sides.iter().filter(|side| side.iter().any(|b| touchers[b.index()]));
        let is_written = sides.iter().flatten().any(|b| writers[b.index()]);
        if touching.count() > 1 && is_written {
            sides.iter().flatten().for_each(|b| permanently_divergent[b.index()] = true);
        }
    }
    permanently_divergent
}

/// By block: do the threads of a warp that run it run it together, with no others elsewhere that read or write uniform
/// registers? A uniform register that is written there holds for all that read it later, if no block writes it that is
/// not so.
pub fn convergent_blocks(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Vec<bool> {
    let mut convergent: Vec<bool> = function.blocks.keys().map(|b| !divergence.is_divergent(b)).collect();
    let mut has_parted = vec![false; function.blocks.len()];
    for branch in parting_branches(function, cfg, divergence) {
        // All that follows is done.
        if has_parted[branch.index()] {
            continue;
        }
        let sides = sides(cfg, branch);
        let is_idle = |side: &&Vec<Block>| side.iter().all(|b| function.blocks[*b].insts.is_empty());
        if sides.iter().filter(|side| !is_idle(side)).count() > 1 {
            sides
                .iter()
                .flatten()
                .for_each(|b| (convergent[b.index()], has_parted[b.index()]) = (false, true));
        }
    }
    convergent
}

/// The branches at which threads part for good.
fn parting_branches<'a>(
    function: &'a Function,
    cfg: &'a Cfg,
    divergence: &'a Divergence,
) -> impl Iterator<Item = Block> + 'a {
    let parts = |branch: &Block| {
        let decider = function.blocks[*branch].end.may_diverge_on();
        decider.is_some_and(|v| divergence.varies(v)) && region(function, cfg, *branch).is_none()
    };
    cfg.order.iter().copied().filter(parts)
}

/// All blocks that the threads of each side of a branch may run.
fn sides(cfg: &Cfg, branch: Block) -> Vec<Vec<Block>> {
    let starts = cfg.succs[branch.index()].iter();
    starts.map(|side| std::iter::once(*side).chain(cfg.reachable_from(*side, None)).collect()).collect()
}

pub fn writes_uniform(function: &Function, block: Block) -> bool {
    let results = function.blocks[block].insts.iter().flat_map(|i| &function.insts[*i].results);
    results.into_iter().any(|v| is_uniform(function, *v))
}

/// Does it call a function? That may write uniform registers.
fn calls(function: &Function, block: Block) -> bool {
    let is_call = |op: Op| matches!(op, Op::Pseudo(Pseudo::Call | Pseudo::Entry));
    function.blocks[block].insts.iter().any(|i| is_call(function.insts[*i].op))
}

fn touches_uniform(function: &Function, block: Block) -> bool {
    let mut insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
    writes_uniform(function, block) || insts.any(|data| data.uses().any(|v| is_uniform(function, v)))
}

fn is_uniform(function: &Function, value: Value) -> bool {
    matches!(function.values[value].file, File::UR | File::UP)
}
