//! Convergence barrier insertion: places `BSSY` and `BSYNC` where diverged threads reconverge.
//!
//! A divergent branch has a region ([`ori::divergence::region`]) from a block `from`, which dominates it and executes
//! `BSSY`, to its post-dominator `to`. Every edge from inside the region to `to` passes through a landing block with
//! `BSYNC`. Branches with the same region share it, as do those of a nested region that ends at the same point or a few
//! instructions later (`convergence_max_tail`). A branch whose threads only meet at the end of the program needs no
//! barrier. A loop that some threads leave to continue and others to exit has one, so that those that continue wait for
//! each other ([`break_regions`]). Threads that go on with a loop meet before its next iteration, those that leave it in a
//! branch execute `BREAK` ([`iteration_regions`]).
//!
//! ```text
//! from: branch p1, a, to         from: b1 = BSSY land; branch p1, a, land
//! a:    jump to           ==>    a:    jump land
//! to:   …                        land: BSYNC b1; jump to
//! ```
//!
//! Redundant reconvergence is removed: `WARPSYNC.ALL` where no thread has diverged, or where every path since the
//! divergence has another one, and likewise a collective of all threads (`WARPSYNC.COLLECTIVE.ALL` to `ENDCOLLECTIVE`).
//! A collective of the threads of a mask becomes `WARPSYNC.EXCLUSIVE`, as in ptxas's code: the threads of each mask run
//! up to `BSYNC` separately. After a trap `WARPSYNC.ALL` stays, because a debugger resumes the threads one by one.
//!
//! Postcondition: a region is entered once, and every thread that enters it leaves it. Cost: linear, times the
//! logarithm of the number of predecessors of a region's end.

use crate::analysis::effects;
use crate::context::{Context, PassResult, Tuning};
use ori::divergence::{leaves_unconverged, only_exits, sleeps, waits_for_warp};
use ori::entity::Entity;
use ori::{
    Arg, Block, Cfg, Change, Divergence, Edge, File, Function, Inst, InstData, Loop, LoopForest, Op,
    Terminator, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::{M, Op as Name};
use smallvec::SmallVec;
use std::collections::BTreeMap;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let divergence = context.analyses.divergence(function);
    remove_redundant_warpsync(function, &cfg, &divergence);
    for &block in cfg.order.iter().filter(|b| !divergence.is_divergent(**b)) {
        remove_collective(function, block);
    }
    let breaks = break_regions(function, &cfg, &divergence);
    let mut regions: Vec<_> = divergence.regions.iter().copied().chain(breaks).collect();
    let of_iterations = iteration_regions(function, &cfg, &divergence, &regions);
    regions.extend(of_iterations.iter().map(|i| (i.from, i.to)));
    let mut regions = without_shared_joins(function, &cfg, regions, &context.tuning);
    // Inner regions first: the landing block of an inner region is inside the outer one. A region is inside
    // another if the other's `from` dominates its own; in reverse post-order the inner one comes later.
    regions.sort_by_key(|(from, _)| std::cmp::Reverse(cfg.rpo_index(*from)));
    let mut ends = RegionEnds::new(&cfg, &regions);
    let mut left: Vec<(Block, usize, Value)> = Vec::new();
    for (from, to) in regions {
        let iteration = of_iterations.iter().find(|i| (i.from, i.to) == (from, to));
        let is_left = iteration.is_some_and(|i| !i.breaks.is_empty());
        let barrier = insert_region(
            function,
            &mut ends,
            (from, to),
            is_left && context.machine.has_reliable_barriers(),
        );
        let breaks = iteration.into_iter().flat_map(|i| &i.breaks);
        left.extend(breaks.map(|(block, edge)| (*block, *edge, barrier)));
    }
    left.sort_by_key(|(block, edge, _)| (*block, *edge));
    for breaks in left.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        insert_breaks(function, breaks, context.machine.has_reliable_barriers());
    }
    Ok(Change::ControlFlow)
}

/// Where the threads of a loop meet that go on to its next iteration.
struct IterationRegion {
    from: Block,
    to: Block,
    /// The edges on which threads leave the loop from inside the region: the block, and which of its edges.
    breaks: Vec<(Block, usize)>,
}

/// In a loop with a way out in a branch, this branch and those before it have no post-dominator inside. The threads that
/// go on meet all the same before the next iteration: without that, each path through an iteration doubles the groups of
/// threads, and the rest of the loop runs for each. Those that leave it leave the barrier with `BREAK`.
///
/// ```text
/// head:  branch p1, a, b          head:  b1 = BSSY land; branch p1, a, b
/// a:     …; jump latch            a:     …; jump land
/// b:     branch p2, latch, out    b:     branch p2, land, leave
///                           ==>   land:  BSYNC b1; jump latch
///                                 leave: BREAK b1; jump out
/// ```
fn iteration_regions(
    function: &Function,
    cfg: &Cfg,
    divergence: &Divergence,
    others: &[(Block, Block)],
) -> Vec<IterationRegion> {
    /// Bounds the time: the search is quadratic in the blocks of a loop.
    const MOST_BLOCKS: usize = 64;
    /// Half the barriers of the machine: a copy of one that is spilled would not know who has left it.
    const MOST_BARRIERS: usize = 8;
    let loops = LoopForest::new(cfg);
    let mut regions: Vec<IterationRegion> = Vec::new();
    for (index, l) in loops.iter().filter(|(_, l)| l.blocks.len() <= MOST_BLOCKS && !l.exits.is_empty()) {
        let own = l.blocks.iter().filter(|b| loops.innermost(**b) == Some(index));
        regions.extend(own.filter_map(|b| iteration_region(function, cfg, divergence, (l, *b))));
    }
    let all: Vec<_> = others.iter().copied().chain(regions.iter().map(|i| (i.from, i.to))).collect();
    let is_in = |block: Block, (from, to): (Block, Block)| {
        cfg.dominates(from, block) && !(cfg.dominates(from, to) && cfg.dominates(to, block))
    };
    let overlap = |i: &IterationRegion| {
        all.iter().filter(|other| is_in(i.from, **other) || is_in(other.0, (i.from, i.to))).count()
    };
    regions.retain(|i| overlap(i) <= MOST_BARRIERS);
    regions
}

fn iteration_region(
    function: &Function,
    cfg: &Cfg,
    divergence: &Divergence,
    (l, from): (&Loop, Block),
) -> Option<IterationRegion> {
    let is_inside = |b: &Block| l.blocks.contains(b);
    let decider = function.blocks[from].end.may_diverge_on()?;
    let sides = &cfg.succs[from.index()];
    let stays = sides.len() > 1 && sides.iter().all(|b| is_inside(b) && *b != l.header);
    let known = || ori::divergence::region(function, cfg, from).is_some_and(|(_, to)| is_inside(&to));
    if !stays || !divergence.varies(decider) || known() {
        return None;
    }
    // The blocks up to `to`; `None` if the next iteration is reached without it.
    let region = |to: Block| {
        let (mut blocks, mut work) = (vec![from], sides.to_vec());
        while let Some(block) = work.pop() {
            match block {
                _ if block == to => continue,
                _ if block == l.header => return None,
                _ if !is_inside(&block) || blocks.contains(&block) => continue,
                _ => blocks.push(block),
            }
            work.extend(&cfg.succs[block.index()]);
        }
        Some(blocks)
    };
    let mut after: Vec<Block> = l.blocks.iter().copied().filter(|b| *b != from && *b != l.header).collect();
    after.sort_by_key(|b| cfg.rpo_index(*b));
    let is_reached = |to: &Block| cfg.dominates(from, *to);
    let mut ends = after.into_iter().filter(is_reached).chain([l.header]);
    let (to, blocks) = ends.find_map(|to| Some((to, region(to)?)))?;
    // A thread that waits at the barrier takes part in nothing that others of the region may wait for.
    let is_private = |inst: &Inst| {
        let data = &function.insts[*inst];
        effects::is_of_one_thread(data) && !data.results.iter().any(|r| function.awaited.contains(r))
    };
    let is_plain = |b: &Block| {
        let data = &function.blocks[*b];
        cfg.dominates(from, *b)
            && (*b == from || data.insts.iter().all(is_private))
            && !matches!(data.end, Terminator::Return)
    };
    if !blocks.iter().all(is_plain) {
        return None;
    }
    let leaves = |edge: &Edge| !is_inside(&edge.to) && !only_exits(function, edge.to);
    let of_block = |b: &Block| {
        let edges = function.blocks[*b].end.edges().into_iter().enumerate().filter(|(_, edge)| leaves(edge));
        edges.map(|(index, _)| (*b, index)).collect::<Vec<_>>()
    };
    Some(IterationRegion { from, to, breaks: blocks.iter().flat_map(of_block).collect() })
}

/// Puts `BREAK` of some barriers on an edge.
fn insert_breaks(function: &mut Function, breaks: &[(Block, usize, Value)], is_reliable: bool) {
    let Some(&(block, index, _)) = breaks.first() else { return };
    let middle = function.block();
    for (.., barrier) in breaks {
        let leave = InstData::new(Op::Machine(Name::BREAK), &[], &[(*barrier).into()]);
        function.append(middle, InstData { modifiers: reliable(is_reliable), ..leave });
    }
    let mut edges = function.blocks[block].end.edges_mut();
    let onward = std::mem::replace(&mut *edges[index], Edge::to(middle));
    drop(edges);
    function.blocks[middle].end = Terminator::Jump(onward);
}

/// The modifiers of the instructions of a barrier that some threads leave: later machines tell these from others.
fn reliable(is_reliable: bool) -> SmallVec<[M; 4]> {
    is_reliable.then_some(M::RELIABLE).into_iter().collect()
}

/// Loops that threads leave either to exit or to a block that does more. No block post-dominates such a loop, but every
/// thread that enters it arrives at that block or exits, and a barrier doesn't wait for threads that have exited. Without
/// one, each group that leaves in another iteration runs the rest for itself.
fn break_regions(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Vec<(Block, Block)> {
    let loops = LoopForest::new(cfg);
    // From an inner loop, threads may come back to it.
    let outermost = loops.iter().map(|(_, l)| l).filter(|l| l.depth == 1);
    outermost.filter_map(|l| break_region(function, cfg, divergence, l)).collect()
}

fn break_region(function: &Function, cfg: &Cfg, divergence: &Divergence, l: &Loop) -> Option<(Block, Block)> {
    let goes_on = |b: Block| !only_exits(function, b);
    let is_inside = |b: &Block| *b == l.header || cfg.dominates(l.header, *b) && l.blocks.contains(b);
    let mut breaks = l.exits.iter().filter(|(_, to)| goes_on(*to));
    let (_, to) = *breaks.next()?;
    let exits = l.exits.iter().any(|(_, to)| !goes_on(*to));
    if !exits || breaks.any(|(_, other)| *other != to) || !cfg.preds[to.index()].iter().all(is_inside) {
        return None;
    }
    let mut before = cfg.preds[l.header.index()].iter().filter(|b| !l.latches.contains(b));
    let from = *before.next().filter(|_| before.next().is_none())?;
    if cfg.succs[from.index()].iter().any(|b| *b != l.header && goes_on(*b)) {
        return None;
    }
    let varies = |b: Block| function.blocks[b].end.may_diverge_on().is_some_and(|v| divergence.varies(v));
    // A thread that waits at the barrier takes part in nothing that others of the loop may wait for.
    let is_private = |inst: &Inst| {
        let data = &function.insts[*inst];
        effects::is_of_one_thread(data) && !data.results.iter().any(|r| function.awaited.contains(r))
    };
    let insts = l.blocks.iter().flat_map(|b| &function.blocks[*b].insts);
    let is_known = divergence.regions.iter().any(|(_, end)| *end == to);
    let diverges = l.exits.iter().any(|(b, _)| varies(*b));
    (diverges && !is_known && insts.into_iter().all(is_private)).then_some((from, to))
}

/// Removes `WARPSYNC.ALL` where the warp is converged already.
fn remove_redundant_warpsync(function: &mut Function, cfg: &Cfg, divergence: &Divergence) {
    let starts = converged_at_start(function, cfg, divergence);
    for &block in &cfg.order {
        let mut is_converged = starts[block.index()];
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        insts.retain(|inst| {
            let data = &function.insts[*inst];
            let is_redundant = is_converged && waits_for_warp(data);
            is_converged = is_converged_after(data, divergence, is_converged);
            !is_redundant
        });
        function.blocks[block].insts = insts;
    }
}

/// At the start of which blocks is the whole warp converged? Where none of its threads has diverged, and where it was in
/// all predecessors. A forward analysis of what holds on all paths, from the optimistic side.
fn converged_at_start(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Vec<bool> {
    let is_trap = |inst: &Inst| function.insts[*inst].op == Op::Machine(Name::BPT);
    let traps: Vec<bool> =
        function.blocks.keys().map(|b| function.blocks[b].insts.iter().any(is_trap)).collect();
    let mut starts = vec![true; function.blocks.len()];
    let mut ends = vec![true; function.blocks.len()];
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for &block in &cfg.order {
            let preds = &cfg.preds[block.index()];
            let never_diverged = !divergence.is_divergent(block) && !preds.iter().any(|b| traps[b.index()]);
            let start = never_diverged || !preds.is_empty() && preds.iter().all(|b| ends[b.index()]);
            let data = &function.blocks[block];
            let insts = data.insts.iter().map(|i| &function.insts[*i]);
            let last =
                insts.fold(start, |is_converged, data| is_converged_after(data, divergence, is_converged));
            let parts = data.end.may_diverge_on().is_some_and(|v| divergence.varies(v));
            let end = last && !parts;
            has_changed |= (starts[block.index()], ends[block.index()]) != (start, end);
            (starts[block.index()], ends[block.index()]) = (start, end);
        }
    }
    starts
}

fn is_converged_after(data: &InstData, divergence: &Divergence, before: bool) -> bool {
    if waits_for_warp(data) {
        return true;
    }
    let is_for_some = || data.guard.as_ref().is_some_and(|guard| divergence.varies(guard.predicate));
    let separates =
        matches!(data.op, Op::Machine(Name::WARPSYNC | Name::BPT)) || sleeps(data) && is_for_some();
    before && !separates && !leaves_unconverged(data)
}

/// The predecessors of the blocks that regions end in.
struct RegionEnds<'a> {
    cfg: &'a Cfg,
    /// By the end, whether it dominates the predecessor, and the predecessor's number in the dominator tree. A landing
    /// block stands where the start of its region does.
    preds: BTreeMap<(Block, bool, u32), Block>,
}

impl RegionEnds<'_> {
    fn new<'a>(cfg: &'a Cfg, regions: &[(Block, Block)]) -> RegionEnds<'a> {
        let mut ends = RegionEnds { cfg, preds: BTreeMap::new() };
        let mut seen = FxHashSet::default();
        for (_, to) in regions.iter().filter(|(_, to)| seen.insert(*to)) {
            for pred in &cfg.preds[to.index()] {
                ends.preds.insert(ends.key(*pred, *to), *pred);
            }
        }
        ends
    }

    fn key(&self, block: Block, to: Block) -> (Block, bool, u32) {
        (to, self.cfg.dominates(to, block), self.cfg.dominated(block).start)
    }

    /// Takes the predecessors of `to` that are in the region from `from`: those that `from` dominates. The back edges of
    /// a loop whose header is `to` are not, unless the region itself is in that loop: threads on them have left it.
    fn take(&mut self, from: Block, to: Block, landing: Block) -> Vec<Block> {
        let (_, in_loop, first) = self.key(from, to);
        let range = (to, in_loop, first)..(to, in_loop, self.cfg.dominated(from).end);
        let taken: Vec<_> = self.preds.range(range).map(|(key, block)| (*key, *block)).collect();
        taken.iter().for_each(|(key, _)| _ = self.preds.remove(key));
        self.preds.insert((to, in_loop, first), landing);
        taken.into_iter().map(|(_, block)| block).collect()
    }
}

/// The regions but those whose threads wait for the ones of an enclosing region at the same place, or a few instructions
/// later: an `if` around a loop is left with one barrier.
fn without_shared_joins(
    function: &Function,
    cfg: &Cfg,
    regions: Vec<(Block, Block)>,
    tuning: &Tuning,
) -> Vec<(Block, Block)> {
    let mut by_end: FxHashMap<Block, Vec<Block>> = FxHashMap::default();
    regions.iter().for_each(|(from, to)| by_end.entry(*to).or_default().push(*from));
    let shares = |(from, to): &(Block, Block)| {
        std::iter::once(*to).chain(tail(function, *to, tuning)).any(|end| {
            // `from` is in the region unless the region's end is on the way there.
            let encloses = |outer: &Block| {
                (*outer, end) != (*from, *to)
                    && cfg.dominates(*outer, *from)
                    && !(cfg.dominates(*outer, end) && cfg.dominates(end, *from))
            };
            by_end.get(&end).is_some_and(|outer| outer.iter().any(encloses))
        })
    };
    let shared: Vec<bool> = regions.iter().map(shares).collect();
    regions.into_iter().zip(shared).filter(|(_, shared)| !shared).map(|(region, _)| region).collect()
}

/// The blocks after `block` that are reached by jumps and at most `convergence_max_tail` computations.
fn tail(function: &Function, block: Block, tuning: &Tuning) -> Vec<Block> {
    /// Bounds the time.
    const MOST_JUMPS: usize = 4;
    let (mut at, mut blocks, mut computations) = (block, Vec::new(), 0);
    while let Terminator::Jump(next) = &function.blocks[at].end {
        let insts = || function.blocks[at].insts.iter().map(|i| &function.insts[*i]);
        computations += insts().filter(|data| !matches!(data.op, Op::Pseudo(_))).count() as u32;
        if blocks.len() == MOST_JUMPS
            || computations > tuning.convergence_max_tail
            || !insts().all(effects::is_function)
        {
            break;
        }
        blocks.push(next.to);
        at = next.to;
    }
    blocks
}

/// Removes a collective from a convergent block.
fn remove_collective(function: &mut Function, block: Block) {
    let insts = function.blocks[block].insts.clone();
    let is = |f: &Function, inst: &Inst, op: Name| f.insts[*inst].op == Op::Machine(op);
    let is_collective =
        |i: &Inst| is(function, i, Name::WARPSYNC) && function.insts[*i].modifiers.contains(&M::COLLECTIVE);
    let Some(at) = insts.iter().position(is_collective) else { return };
    let Some(enter) = insts[..at].iter().rfind(|i| is(function, i, Name::BSSY)) else { return };
    let enter = &function.insts[*enter];
    let (Some(Arg::Target(after)), Some(barrier)) = (enter.args.first(), enter.results.first()) else {
        return;
    };
    let (after, barrier) = (*after, *barrier);
    let waits = |i: &&Inst| function.insts[**i].uses().any(|v| v == barrier);
    let wait = function.blocks[after].insts.iter().find(waits).copied();

    let mut removed: Vec<Inst> =
        insts.iter().copied().filter(|i| is(function, i, Name::ENDCOLLECTIVE)).collect();
    if function.insts[insts[at]].modifiers.contains(&M::ALL) {
        removed.extend(forward_operands(function, &insts[..at], insts[at + 1..].first().copied()));
        removed.push(insts[at]);
        removed.extend(insts[..at].iter().filter(|i| function.insts[**i].results.contains(&barrier)));
        removed.extend(wait);
    } else {
        removed.extend(forward_operands(function, &insts[..at], Some(insts[at])));
        let collective = &mut function.insts[insts[at]];
        collective.modifiers = [M::EXCLUSIVE].into_iter().collect();
        collective.args.retain(|arg| !matches!(arg, Arg::Target(_)));
    }
    for block in [block, after] {
        function.blocks[block].insts.retain(|inst| !removed.contains(inst));
    }
}

/// Lets an instruction read the original values, and not the fixed registers of the collective. Returns the copies to
/// these, which are dead then.
fn forward_operands(function: &mut Function, before: &[Inst], reader: Option<Inst>) -> Vec<Inst> {
    let mut copies = Vec::new();
    let Some(reader) = reader else { return copies };
    for index in 0..function.insts[reader].args.len() {
        let common = function.insts[reader].args[index];
        let copies_to = |i: &&Inst| {
            function.insts[**i].results.is_empty() && function.insts[**i].args.first() == Some(&common)
        };
        let Some(&inst) = before.iter().rfind(copies_to) else { continue };
        let from = match (&function.insts[inst].op, common) {
            (Op::Machine(Name::MOV), Arg::Fixed { .. }) => function.insts[inst].args.get(1),
            (Op::Machine(Name::PLOP3), Arg::Fixed { .. }) => function.insts[inst].args.get(2),
            _ => None,
        };
        // What reads the fixed register has no form for uniform ones.
        let is_general = |v: Value| matches!(function.values[v].file, File::R | File::P);
        if let Some(from @ Arg::Use(_)) = from.copied().filter(|from| from.value().is_some_and(is_general)) {
            function.insts[reader].args[index] = from;
            copies.push(inst);
        }
    }
    copies
}

/// Puts `BSSY` at the end of `from` and `BSYNC` into a landing block before `to`. Returns the barrier.
fn insert_region(
    function: &mut Function,
    ends: &mut RegionEnds,
    (from, to): (Block, Block),
    is_reliable: bool,
) -> Value {
    let landing = function.block();
    let shapes: Vec<_> = function.blocks[to].params.iter().map(|p| function.values[*p]).collect();
    let params: Vec<_> = shapes.into_iter().map(|d| function.value(d.file, d.words)).collect();
    for block in ends.take(from, to, landing) {
        for edge in function.blocks[block].end.edges_mut() {
            if edge.to == to {
                edge.to = landing;
            }
        }
    }
    let barrier = function.value(File::B, 1);
    let enter = InstData::new(Op::Machine(Name::BSSY), &[barrier], &[Arg::Target(landing)]);
    function.append(from, InstData { modifiers: reliable(is_reliable), ..enter });
    let wait = InstData::new(Op::Machine(Name::BSYNC), &[], &[barrier.into()]);
    function.append(landing, InstData { modifiers: reliable(is_reliable), ..wait });
    function.blocks[landing].params = params.clone();
    function.blocks[landing].end = Terminator::Jump(Edge { to, args: params });
    barrier
}
