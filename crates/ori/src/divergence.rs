//! Divergence analysis: which values may differ between the threads of a warp, and which blocks are divergent.
//!
//! A value is *uniform* if all threads that can read it read the same bits, also those that left a loop in different
//! iterations; else it varies. A block is *divergent* if the threads of a warp may run it in several groups. Both are
//! found together as an optimistic fixed point (compare Sampaio et al., "Divergence Analysis", TOPLAS 2013): everything
//! is uniform until there is a reason against it.
//!
//! * A pure operation of uniform values is uniform (data dependence). Special registers that name the thread are not.
//! * A load is uniform if its address is, and the whole warp reads at once: in blocks that are not divergent. The same
//!   holds for votes and reductions of the warp.
//! * A branch on a varying value makes the blocks of its region, up to the point of reconvergence, divergent. The
//!   parameters of these blocks and of the region's end vary (sync dependence): they tell from which predecessor a
//!   thread came, and in which iteration.
//! * Threads need not be converged after a call, a loop with `YIELD`, or a sleep: all that follows is divergent. A
//!   device function may have been called by part of the warp.
//!
//! Cost: the number of iterations is bounded by the divergent branches; each is linear in the function.

use crate::cfg::Cfg;
use crate::entity::{Block, Entity, Value};
use crate::function::{Arg, Function, InstData, Op, Pseudo, Terminator};
use crate::liveness::ValueSet;
use sass::{Class, M};

/// Which values and branches may differ between the threads of a warp.
pub struct Divergence {
    varying: ValueSet,
    divergent: Vec<bool>,
    /// Blocks whose parameters vary, whatever their arguments are.
    joins: Vec<bool>,
    /// The regions of varying branches, from divergence to reconvergence: each once, in the order of its first branch.
    pub regions: Vec<(Block, Block)>,
}

impl Divergence {
    /// Computes it.
    pub fn new(function: &Function, cfg: &Cfg) -> Divergence {
        let blocks = function.blocks.len();
        let mut all = Divergence {
            varying: ValueSet::new(function.values.len()),
            divergent: vec![false; blocks],
            joins: vec![false; blocks],
            regions: Vec::new(),
        };
        all.mark_unconverged(function, cfg);
        let mut seen = vec![false; blocks];
        while all.propagate(function, cfg, &mut seen) {}
        all
    }

    /// May the value differ between threads?
    pub fn varies(&self, value: Value) -> bool {
        self.varying.contains(value)
    }

    /// May the threads of a warp run the block in several groups, one after the other?
    pub fn is_divergent(&self, block: Block) -> bool {
        self.divergent[block.index()]
    }

    /// Blocks that may run after an instruction that leaves the warp unconverged are divergent.
    fn mark_unconverged(&mut self, function: &Function, cfg: &Cfg) {
        let diverges = |data: &InstData| match data.op {
            Op::Pseudo(op) => matches!(op, Pseudo::Call | Pseudo::Entry),
            Op::Generic(_) => false,
            Op::Machine(op) => matches!(op, sass::Op::YIELD | sass::Op::NANOSLEEP),
        };
        let returns = |b: &Block| matches!(function.blocks[*b].end, Terminator::Return);
        if cfg.order.iter().any(returns) {
            self.divergent.fill(true);
        }
        for &block in &cfg.order {
            if function.blocks[block].insts.iter().any(|i| diverges(&function.insts[*i])) {
                let rest = cfg.reachable_from(block, None);
                std::iter::once(block).chain(rest).for_each(|b| self.divergent[b.index()] = true);
            }
        }
    }

    /// Visits every block once; did that find something new? `seen` are the branches whose region is known.
    fn propagate(&mut self, function: &Function, cfg: &Cfg, seen: &mut [bool]) -> bool {
        let mut changed = false;
        for &block in &cfg.order {
            let data = &function.blocks[block];
            if self.joins[block.index()] {
                data.params.iter().for_each(|p| changed |= self.vary(*p));
            }
            for inst in &data.insts {
                let inst = &function.insts[*inst];
                if self.is_varying(inst, block) {
                    inst.results.iter().for_each(|r| changed |= self.vary(*r));
                }
            }
            for edge in data.end.edges() {
                for (param, arg) in function.blocks[edge.to].params.iter().zip(&edge.args) {
                    changed |= self.varies(*arg) && self.vary(*param);
                }
            }
            if let Terminator::Branch { predicate, uniform: false, .. } = data.end
                && self.varies(predicate)
                && !std::mem::replace(&mut seen[block.index()], true)
            {
                self.diverge(cfg, block);
                changed = true;
            }
        }
        changed
    }

    fn vary(&mut self, value: Value) -> bool {
        let known = self.varies(value);
        self.varying.insert(value);
        !known
    }

    fn is_varying(&self, data: &InstData, block: Block) -> bool {
        let converged = !self.is_divergent(block);
        data.uses().any(|v| self.varies(v)) && !(converged && is_warp_wide(data))
            || data.args.iter().any(|a| matches!(a, Arg::Fixed { .. }))
            || match data.op {
                Op::Pseudo(op) => {
                    use Pseudo::{CallRoutine, Copy, Landed, Pack, Unpack};
                    !matches!(op, Pack | Unpack | Copy | Landed | CallRoutine)
                }
                Op::Generic(_) => false,
                Op::Machine(op) => match source(op, data) {
                    Source::Arguments => false,
                    Source::Warp => !converged,
                    Source::Thread => true,
                },
            }
    }

    /// The threads of a branch take different edges.
    fn diverge(&mut self, cfg: &Cfg, branch: Block) {
        let region = region(cfg, branch);
        let blocks: Vec<Block> = match region {
            Some((_, to)) => cfg.reachable_from(branch, Some(to)),
            None => never_reconverging(cfg, branch),
        };
        for block in &blocks {
            self.divergent[block.index()] = true;
            self.joins[block.index()] = true;
        }
        if let Some(region) = region {
            self.joins[region.1.index()] = true;
            if !self.regions.contains(&region) {
                self.regions.push(region);
            }
        }
    }
}

/// What the results of an operation depend on.
enum Source {
    /// Its arguments only.
    Arguments,
    /// The time too: the same for all threads that run it at once.
    Warp,
    /// The thread.
    Thread,
}

fn source(op: sass::Op, data: &InstData) -> Source {
    use sass::Op::*;
    match op {
        LDC | ULDC | LDCU | BSSY => Source::Arguments,
        S2R | S2UR | CS2R => match data.args.first() {
            Some(Arg::Name(name)) if is_block_wide(*name) => Source::Arguments,
            _ => Source::Thread,
        },
        // Not LD: the same generic address may be in each thread's own local memory.
        LDG | LDS | VOTE | VOTEU | REDUX => Source::Warp,
        R2UR if finds_differences(data) => Source::Thread,
        R2UR => Source::Warp,
        // A look at a barrier; one that arrives there gets a state of its own.
        SYNCS if data.modifiers.contains(&M::PHASECHK) => Source::Warp,
        UIADD3 | UIMAD | UISETP | ULEA | ULOP3 | UMOV | USEL | USGXT | USHF => Source::Arguments,
        FSWZADD | SHFL | MATCH | ELECT | CS2UR => Source::Thread,
        _ => match sass::Form::of(op).first().map(|form| form.class) {
            Some(
                Class::Alu | Class::Fma | Class::Wide | Class::Half | Class::Double | Class::Fp64 | Class::Xu,
            ) => Source::Arguments,
            _ => Source::Thread,
        },
    }
}

/// Is the result the same for all threads that run it at once, even if the arguments vary?
fn is_warp_wide(data: &InstData) -> bool {
    use sass::Op::{R2UR, REDUX, VOTE, VOTEU};
    matches!(data.op, Op::Machine(VOTE | VOTEU | REDUX | R2UR)) && !finds_differences(data)
}

/// Does an `R2UR` also give a predicate of the threads that have another word than the one it took?
fn finds_differences(data: &InstData) -> bool {
    data.results.len() > 1
}

/// Special registers that are the same for all threads of a block; `SRZ` is zero.
fn is_block_wide(name: M) -> bool {
    matches!(name, M::SRZ | M::SR_CTAID_X | M::SR_CTAID_Y | M::SR_CTAID_Z | M::SR_CgaCtaId | M::SR_CgaSize)
}

/// The region of a divergent branch: a block `from`, which dominates it, and its end `to`, where the threads
/// reconverge. `None` if they don't before the end of the program.
///
/// 1. `to` post-dominates `from`, so that every thread that enters also arrives (or exits);
/// 2. every block of the region is dominated by `from`, so that no thread arrives without having entered;
/// 3. `from` cannot be reached again inside the region, so that no thread enters twice before it arrives;
/// 4. nor can the region from `to` but through `from`, so that no thread arrives twice. (Irreducible
///    loops have such blocks.)
///
/// Starting at the branch and its immediate post-dominator, `from` climbs to its dominator and `to` to its
/// post-dominator until all of them hold.
pub fn region(cfg: &Cfg, branch: Block) -> Option<(Block, Block)> {
    let mut from = branch;
    let mut to = cfg.ipdom(branch)?;
    loop {
        if !cfg.post_dominates(to, from) || to == from {
            to = cfg.ipdom(to)?;
            continue;
        }
        let inside = cfg.reachable_from(from, Some(to));
        let entered_twice = inside.contains(&from);
        let side_entry = inside.iter().any(|b| !cfg.dominates(from, *b));
        if entered_twice || side_entry {
            from = cfg.idom(from)?;
            continue;
        }
        let mut is_inside = vec![false; cfg.succs.len()];
        inside.iter().for_each(|b| is_inside[b.index()] = true);
        if !cfg.reachable_from(to, Some(from)).iter().any(|b| is_inside[b.index()]) {
            return Some((from, to));
        }
        to = cfg.ipdom(to)?;
    }
}

/// The blocks that the threads of a branch without a region run in groups. If its sides share only blocks that end the
/// program, each side is converged: the other threads have left.
fn never_reconverging(cfg: &Cfg, branch: Block) -> Vec<Block> {
    let sides: Vec<Vec<Block>> = cfg.succs[branch.index()]
        .iter()
        .map(|side| {
            let mut all = cfg.reachable_from(*side, None);
            all.push(*side);
            all
        })
        .collect();
    let [yes, no] = &sides[..] else { return sides.concat() };
    let shared: Vec<Block> = yes.iter().copied().filter(|b| no.contains(b)).collect();
    if shared.iter().all(|b| cfg.succs[b.index()].is_empty()) { shared } else { sides.concat() }
}

#[cfg(test)]
mod tests;
