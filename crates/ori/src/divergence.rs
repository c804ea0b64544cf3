//! Divergence analysis: which values may differ between the threads of a warp, and which blocks are divergent.
//!
//! A value is *uniform* if all threads that can read it read the same bits, also those that left a loop in different
//! iterations; else it varies. A block is *divergent* if the threads of a warp may run it in several groups. Both are
//! found together as an optimistic fixed point (compare Sampaio et al., "Divergence Analysis", TOPLAS 2013): everything
//! is uniform until there is a reason against it.
//!
//! * A pure operation of uniform values is uniform (data dependence). Special registers that name the thread are not.
//! * A load is uniform if its address is, and the whole warp reads at once: in blocks that are not divergent. The same
//!   holds for votes and reductions of the warp, and for shuffles that all threads get the word of one thread from.
//! * A branch or switch on a varying value makes the blocks of its region, up to the point of reconvergence, divergent. The
//!   parameters of these blocks and of the region's end vary (sync dependence): they tell from which predecessor a
//!   thread came, and in which iteration.
//! * Threads need not be converged after a call, a loop with `YIELD`, or a sleep of part of the warp: all that follows is
//!   divergent. A device function may have been called by part of the warp.
//! * All threads that look at the phase of one `mbarrier` together see the same: a branch on it does not diverge the group
//!   that looked, and needs no region. The groups of a divergent block may see different phases.
//!
//! Cost: the number of iterations is bounded by the divergent branches; each is linear in the function. Regions are
//! found once for each graph, inner ones first, so that a search skips those inside as a whole.

use crate::cfg::Cfg;
use crate::entity::{Block, Entity, Value};
use crate::function::{Arg, Function, InstData, Op, Pseudo, Terminator};
use crate::liveness::ValueSet;
use crate::loops::LoopForest;
use rustc_hash::{FxHashMap, FxHashSet};
use sass::{Class, M};

/// Which values and branches may differ between the threads of a warp.
pub struct Divergence {
    varying: ValueSet,
    divergent: Vec<bool>,
    /// Blocks that may run after the warp was left unconverged.
    unconverged: Vec<bool>,
    /// Blocks whose parameters vary, whatever their arguments are.
    joins: Vec<bool>,
    /// The end of a region that each divergent block is in.
    end: Vec<Option<Block>>,
    /// Blocks from which only divergent joins can be reached.
    closed: Vec<bool>,
    /// The regions of varying branches, from divergence to reconvergence: each once, in the order of its first branch.
    pub regions: Vec<(Block, Block)>,
}

/// Which threads are known to take different edges of a branch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Differ {
    None,
    /// Those of different groups; a group takes one edge.
    Groups,
    /// Those of a group.
    Threads,
}

impl Divergence {
    /// Computes it.
    pub fn new(function: &Function, cfg: &Cfg) -> Divergence {
        let blocks = function.blocks.len();
        let mut all = Divergence {
            varying: ValueSet::new(function.values.len()),
            divergent: vec![false; blocks],
            unconverged: vec![false; blocks],
            joins: vec![false; blocks],
            end: vec![None; blocks],
            closed: vec![false; blocks],
            regions: Vec::new(),
        };
        all.mark_unconverged(function, cfg);
        let mut seen = vec![Differ::None; blocks];
        while all.propagate(function, cfg, &mut seen) {}
        // Each once, in the order of its first branch.
        let mut known = FxHashSet::default();
        all.regions.retain(|region| known.insert(*region));
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
        let returns = |b: &Block| matches!(function.blocks[*b].end, Terminator::Return);
        if cfg.order.iter().any(returns) {
            self.divergent.fill(true);
        }
        for &block in &cfg.order {
            // What follows a divergent block is divergent already.
            if !self.is_divergent(block)
                && function.blocks[block].insts.iter().any(|i| leaves_unconverged(&function.insts[*i]))
            {
                self.mark_unconverged_from(cfg, block);
            }
        }
    }

    /// Marks the block and all that may run after it divergent; was any of them convergent?
    fn mark_unconverged_from(&mut self, cfg: &Cfg, block: Block) -> bool {
        if std::mem::replace(&mut self.unconverged[block.index()], true) {
            return false;
        }
        let rest = cfg.reachable_from(block, None);
        let mut changed = false;
        for b in std::iter::once(block).chain(rest) {
            self.unconverged[b.index()] = true;
            changed |= !std::mem::replace(&mut self.divergent[b.index()], true);
        }
        changed
    }

    /// Does the whole warp fall asleep and wake up together?
    fn sleeps_as_one(&self, data: &InstData, block: Block) -> bool {
        !self.is_divergent(block) && !data.guard.as_ref().is_some_and(|g| self.varies(g.predicate))
    }

    /// Visits every block once; did that find something new? `seen`: what is known of each branch.
    fn propagate(&mut self, function: &Function, cfg: &Cfg, seen: &mut [Differ]) -> bool {
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
                if sleeps(inst) && !self.sleeps_as_one(inst, block) {
                    changed |= self.mark_unconverged_from(cfg, block);
                }
            }
            for edge in data.end.edges() {
                for (param, arg) in function.blocks[edge.to].params.iter().zip(&edge.args) {
                    changed |= self.varies(*arg) && self.vary(*param);
                }
            }
            if let Some(decider) = data.end.may_diverge_on()
                && self.varies(decider)
                && seen[block.index()] < Differ::Threads
            {
                let is_phase = self.is_phase(function, block, decider);
                let found = if is_phase { Differ::Groups } else { Differ::Threads };
                if found > std::mem::replace(&mut seen[block.index()], found) {
                    self.diverge(function, cfg, block, found);
                    changed = true;
                }
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
        let guard_varies = data.guard.as_ref().is_some_and(|guard| {
            self.varies(guard.predicate) || guard.else_values.iter().any(|v| self.varies(*v))
        });
        guard_varies
            || data.uses().any(|v| self.varies(v)) && !(converged && is_warp_wide(data))
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

    /// Is it the phase of a barrier as the threads that run the block together see it, once or again after a sleep?
    fn is_phase(&self, function: &Function, block: Block, value: Value) -> bool {
        let mut insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
        let Some(data) = insts.find(|data| data.results.contains(&value)) else { return false };
        let uses = data.args.iter().filter_map(|a| a.value());
        let guard = data.guard.iter().flat_map(|g| g.else_values.iter().copied().chain([g.predicate]));
        is_phase_check(data)
            && !uses.into_iter().any(|v| self.varies(v))
            && guard.into_iter().all(|v| v != value && self.is_phase(function, block, v))
    }

    /// The threads of a branch take different edges. A region is for those of a group.
    fn diverge(&mut self, function: &Function, cfg: &Cfg, branch: Block, differ: Differ) {
        let region = region(function, cfg, branch);
        self.regions.extend(region.filter(|_| differ == Differ::Threads));
        // Is it inside of a region that has been marked, and does not end before this one? Then all of this one is.
        let is_marked = |end: Block| region.is_some_and(|(_, to)| cfg.post_dominates(end, to));
        if self.closed[branch.index()] || self.end[branch.index()].is_some_and(is_marked) {
            return;
        }
        let (blocks, closed) = match region {
            Some((_, to)) => (cfg.reachable_from(branch, Some(to)), false),
            None => never_reconverging(cfg, branch),
        };
        let to = region.map(|(_, to)| to);
        for block in &blocks {
            self.divergent[block.index()] = true;
            self.joins[block.index()] = true;
            self.closed[block.index()] |= closed;
            self.end[block.index()] = to.or(self.end[block.index()]);
        }
        to.into_iter().for_each(|to| self.joins[to.index()] = true);
    }
}

/// May threads that run it together go on one after the other?
pub fn leaves_unconverged(data: &InstData) -> bool {
    match data.op {
        Op::Pseudo(op) => matches!(op, Pseudo::Call | Pseudo::Entry),
        Op::Generic(_) => false,
        Op::Machine(op) => op == sass::Op::YIELD,
    }
}

/// Does it suspend the threads that run it? A warp that sleeps as a whole wakes up as a whole. If part of it sleeps, no
/// convergence barrier brings it together again: it lets those who wait go on without those who sleep.
pub fn sleeps(data: &InstData) -> bool {
    data.op == Op::Machine(sass::Op::NANOSLEEP)
}

/// A look at the phase of an `mbarrier`; one that arrives there gets a state of its own.
pub fn is_phase_check(data: &InstData) -> bool {
    data.op == Op::Machine(sass::Op::SYNCS) && data.modifiers.contains(&M::PHASECHK)
}

/// Does it wait for all threads of the warp that haven't exited, and nothing else?
pub fn waits_for_warp(data: &InstData) -> bool {
    data.op == Op::Machine(sass::Op::WARPSYNC)
        && data.guard.is_none()
        && (data.modifiers[..] == [M::ALL] || data.args.contains(&Arg::Imm(0xffff_ffff)))
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
        SHFL if is_broadcast(data) => Source::Warp,
        SYNCS if is_phase_check(data) => Source::Warp,
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
    let is_one = matches!(data.op, Op::Machine(VOTE | VOTEU | REDUX | R2UR)) && !finds_differences(data);
    is_one || is_broadcast(data)
}

/// Is it a shuffle that gives all threads of the warp the word of one of them?
fn is_broadcast(data: &InstData) -> bool {
    let is_shuffle = data.op == Op::Machine(sass::Op::SHFL) && data.modifiers.contains(&M::IDX);
    is_shuffle && matches!(data.args[..], [.., Arg::Imm(0..=31) | Arg::Zero(_), Arg::Imm(31)])
}

/// Does it depend on the block that it is in whether its results vary, even if its arguments don't?
pub fn depends_on_convergence(data: &InstData) -> bool {
    let is_of_warp = |op| matches!(source(op, data), Source::Warp);
    matches!(data.op, Op::Machine(op) if is_of_warp(op)) || is_warp_wide(data)
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
/// reconverge. `None` if they don't before the end of the program: nobody waits to do nothing but exit.
///
/// 1. `to` post-dominates `from`, so that every thread that enters also arrives (or exits);
/// 2. every block of the region is dominated by `from`, so that no thread arrives without having entered;
/// 3. `from` cannot be reached again inside the region, so that no thread enters twice before it arrives;
/// 4. nor can the region from `to` but through `from`, so that no thread arrives twice. (Irreducible
///    loops have such blocks.)
///
/// Starting at the branch and its immediate post-dominator, `from` climbs to its dominator and `to` to its
/// post-dominator until all of them hold.
pub fn region(function: &Function, cfg: &Cfg, branch: Block) -> Option<(Block, Block)> {
    let regions = cfg.regions.get_or_init(|| RegionSearch::new(cfg).all());
    regions[branch.index()].filter(|(_, to)| !only_exits(function, *to))
}

/// Does a block do nothing but end the program?
pub fn only_exits(function: &Function, block: Block) -> bool {
    let data = &function.blocks[block];
    data.insts.is_empty() && matches!(data.end, Terminator::Exit)
}

/// The search for the regions of all branches of a function.
struct RegionSearch<'a> {
    cfg: &'a Cfg,
    loops: LoopForest,
    /// A known region from each block.
    known: Vec<Option<Block>>,
    /// What the climb from a pair of blocks leads to.
    climbs: FxHashMap<(Block, Block), Option<(Block, Block)>>,
    /// By block: the last search that came there.
    seen: Vec<u32>,
    searches: u32,
}

/// Are the blocks between two blocks a region, and if not, which of the two must climb?
enum Verdict {
    Region,
    ClimbFrom,
    ClimbTo,
}

impl RegionSearch<'_> {
    fn new(cfg: &Cfg) -> RegionSearch<'_> {
        let blocks = cfg.succs.len();
        let (known, climbs) = (vec![None; blocks], FxHashMap::default());
        RegionSearch { cfg, loops: LoopForest::new(cfg), known, climbs, seen: vec![0; blocks], searches: 0 }
    }

    /// The region of each block with several successors, inner ones first.
    fn all(mut self) -> Vec<Option<(Block, Block)>> {
        let mut regions = vec![None; self.cfg.succs.len()];
        for &branch in self.cfg.order.iter().rev() {
            if self.cfg.succs[branch.index()].len() > 1 {
                regions[branch.index()] = self.find(branch);
            }
        }
        regions
    }

    fn find(&mut self, branch: Block) -> Option<(Block, Block)> {
        let mut pairs = Vec::new();
        let mut next = self.cfg.ipdom(branch).map(|to| (branch, to));
        let region = loop {
            let Some((from, to)) = next else { break None };
            if let Some(region) = self.climbs.get(&(from, to)) {
                break *region;
            }
            pairs.push((from, to));
            next = match self.judge(from, to) {
                Verdict::Region => break Some((from, to)),
                Verdict::ClimbFrom => self.cfg.idom(from).map(|from| (from, to)),
                Verdict::ClimbTo => self.cfg.ipdom(to).map(|to| (from, to)),
            };
        };
        self.climbs.extend(pairs.into_iter().map(|pair| (pair, region)));
        region.into_iter().for_each(|(from, to)| self.known[from.index()] = Some(to));
        region
    }

    fn judge(&mut self, from: Block, to: Block) -> Verdict {
        let cfg = self.cfg;
        if !cfg.post_dominates(to, from) || to == from {
            return Verdict::ClimbTo;
        }
        // Around a loop that `to` is not in, `from` can be reached again.
        if self.loops.innermost(from).is_some_and(|l| !self.loops.contains(l, to)) {
            return Verdict::ClimbFrom;
        }
        // Of the blocks that `from` dominates, which can be reached from it without passing `to`?
        let goes_around = cfg.dominates(to, from);
        let is_inside = |b: Block| cfg.dominates(from, b) && (goes_around || !cfg.dominates(to, b));
        let mut reached_from_to = false;
        self.searches += 1;
        let mut work = Vec::new();
        self.follow(from, to, &mut work);
        while let Some(block) = work.pop() {
            if block == to || std::mem::replace(&mut self.seen[block.index()], self.searches) == self.searches
            {
                continue;
            }
            if block == from || !cfg.dominates(from, block) {
                return Verdict::ClimbFrom;
            }
            // A block inside that `to` reaches but through `from` has a predecessor outside.
            reached_from_to |= !cfg.preds[block.index()].iter().all(|p| is_inside(*p));
            self.follow(block, to, &mut work);
        }
        if reached_from_to { Verdict::ClimbTo } else { Verdict::Region }
    }

    /// Goes on from a block: to the end of a region that starts there and does not end after `to`, as its blocks satisfy
    /// what the block satisfies, or else to the successors.
    fn follow(&self, block: Block, to: Block, work: &mut Vec<Block>) {
        match self.known[block.index()].filter(|end| self.cfg.post_dominates(to, *end)) {
            Some(end) => work.push(end),
            None => work.extend(&self.cfg.succs[block.index()]),
        }
    }
}

/// The blocks that the threads of a branch without a region run in groups, and whether these are all that can be reached.
/// If its sides share only blocks that end the program, each side is converged: the other threads have left. Each block
/// is visited twice at most, whatever the number of sides: from the first side that leads there, and as a shared one.
fn never_reconverging(cfg: &Cfg, branch: Block) -> (Vec<Block>, bool) {
    /// Which sides lead to a block.
    #[derive(Clone, Copy, PartialEq)]
    #[repr(u8)]
    enum Sides {
        None,
        Current,
        Earlier,
        Several,
    }
    let mut sides = vec![Sides::None; cfg.succs.len()];
    let (mut all, mut shared, mut work) = (Vec::new(), Vec::new(), Vec::new());
    for side in &cfg.succs[branch.index()] {
        let first = all.len();
        work.push(*side);
        while let Some(block) = work.pop() {
            let of_block = &mut sides[block.index()];
            match of_block {
                Sides::None => {
                    *of_block = Sides::Current;
                    all.push(block);
                }
                Sides::Earlier => {
                    *of_block = Sides::Several;
                    shared.push(block);
                }
                Sides::Current | Sides::Several => continue,
            }
            work.extend(&cfg.succs[block.index()]);
        }
        all[first..].iter().for_each(|b| sides[b.index()] = Sides::Earlier);
    }
    match shared.iter().all(|b| cfg.succs[b.index()].is_empty()) {
        true => (shared, false),
        false => (all, true),
    }
}

#[cfg(test)]
mod tests;
