//! The control-flow graph: predecessors, reverse post-order, dominators, post-dominators, natural loops.
//!
//! Dominators and post-dominators are found by the Semi-NCA algorithm (Georgiadis, "Linear-Time Algorithms for
//! Dominators and Related Problems"; LLVM uses it, too). Dominance queries are constant time: the dominator tree is
//! numbered in pre-order, and a block dominates a range of numbers. Post-dominators and the numberings are computed on
//! first use. A change of the function's edges makes a `Cfg` stale.

use crate::entity::{Block, Entity};
use crate::function::Function;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::OnceLock;

/// The neighbours of a block: seldom more than two.
pub type Blocks = SmallVec<[Block; 4]>;

/// The control-flow graph of a function, with dominators and post-dominators.
#[derive(Clone, Debug)]
pub struct Cfg {
    /// The predecessors of each block.
    pub preds: Vec<Blocks>,
    /// The successors of each block.
    pub succs: Vec<Blocks>,
    /// Reachable blocks in reverse post-order; the entry is first.
    pub order: Vec<Block>,
    /// The index of each block in `order`; `usize::MAX` where it is unreachable.
    rpo_index: Vec<usize>,
    idom: Vec<Option<Block>>,
    /// Pre-order numbers of the blocks that each dominates, itself first; empty where it is unreachable.
    dominated: OnceLock<Vec<Range<u32>>>,
    post_dominators: OnceLock<PostDominators>,
    /// What [`crate::divergence::region`] finds for each branch.
    pub(crate) regions: OnceLock<Vec<Option<(Block, Block)>>>,
}

#[derive(Clone, Debug)]
struct PostDominators {
    /// Immediate post-dominators; `None` is the end of the program.
    ipdom: Vec<Option<Block>>,
    /// Pre-order numbers of the blocks that each post-dominates, itself first.
    ranges: Vec<Range<u32>>,
}

impl Cfg {
    /// Computes it.
    pub fn new(function: &Function) -> Cfg {
        let of = |b: Block| function.blocks[b].end.edges().iter().map(|e| e.to).collect();
        Cfg::of_successors(function.blocks.keys().map(of).collect())
    }

    /// Computes it for another graph: the successors of each block, the entry first.
    pub fn of_successors(succs: Vec<Blocks>) -> Cfg {
        let n = succs.len();
        let order = reverse_post_order(n, &[Function::ENTRY], &succs);
        let mut preds = vec![Blocks::new(); n];
        for &b in &order {
            for s in &succs[b.index()] {
                preds[s.index()].push(b);
            }
        }
        let rpo_index = indices(n, &order);
        let idom = dominators(Function::ENTRY, &succs, &preds);
        let (dominated, post_dominators) = (OnceLock::new(), OnceLock::new());
        Cfg { preds, succs, order, rpo_index, idom, dominated, post_dominators, regions: OnceLock::new() }
    }

    /// The immediate dominator.
    pub fn idom(&self, block: Block) -> Option<Block> {
        self.idom[block.index()]
    }

    /// The immediate post-dominator.
    pub fn ipdom(&self, block: Block) -> Option<Block> {
        self.post_dominators().ipdom[block.index()]
    }

    fn post_dominators(&self) -> &PostDominators {
        let find = || post_dominators(self.succs.len(), &self.order, &self.succs, &self.preds);
        self.post_dominators.get_or_init(find)
    }

    /// The index of a block in `order`; `usize::MAX` where it is unreachable.
    pub fn rpo_index(&self, block: Block) -> usize {
        self.rpo_index[block.index()]
    }

    /// Is a block reachable from the entry?
    pub fn reachable(&self, block: Block) -> bool {
        block == Function::ENTRY || self.idom[block.index()].is_some()
    }

    /// The blocks that can be reached from the successors of `from` without passing `to`. `from` itself is among
    /// them only if it is on a cycle of them.
    pub fn reachable_from(&self, from: Block, to: Option<Block>) -> Vec<Block> {
        let mut seen = vec![false; self.succs.len()];
        let mut reached = Vec::new();
        let mut work: Vec<Block> = self.succs[from.index()].to_vec();
        while let Some(b) = work.pop() {
            if Some(b) != to && !std::mem::replace(&mut seen[b.index()], true) {
                reached.push(b);
                work.extend(&self.succs[b.index()]);
            }
        }
        reached
    }

    /// By block: does a path lead from it to one of `latches` without passing `header`? For the latches of a header,
    /// that is the natural loop, header included.
    pub fn leading_to(&self, header: Block, latches: &[Block]) -> Vec<bool> {
        let mut inside = vec![false; self.succs.len()];
        inside[header.index()] = true;
        let mut work = latches.to_vec();
        while let Some(block) = work.pop() {
            if !std::mem::replace(&mut inside[block.index()], true) {
                work.extend(&self.preds[block.index()]);
            }
        }
        inside
    }

    /// The headers of natural loops, those of outer loops before those of inner ones.
    pub fn headers(&self) -> impl Iterator<Item = Block> {
        let is_latch = |header: Block, from: &Block| self.dominates(header, *from);
        self.order.iter().copied().filter(move |b| self.preds[b.index()].iter().any(|p| is_latch(*b, p)))
    }

    /// The blocks of the natural loop of a header; none if the block is no header.
    pub fn natural_loop(&self, header: Block) -> impl Iterator<Item = Block> {
        let latches: Vec<Block> =
            self.preds[header.index()].iter().copied().filter(|p| self.dominates(header, *p)).collect();
        let inside = if latches.is_empty() { Vec::new() } else { self.leading_to(header, &latches) };
        (0..inside.len()).filter(move |i| inside[*i]).map(Block::new)
    }

    /// The nearest common dominator.
    pub fn common_dominator(&self, a: Block, b: Block) -> Block {
        match a == b || self.reachable(a) && self.reachable(b) {
            true => intersect(&self.idom, &self.rpo_index, a, b),
            false => Function::ENTRY,
        }
    }

    /// Does every path from the entry to `b` pass `a`?
    pub fn dominates(&self, a: Block, b: Block) -> bool {
        a == b || self.dominated(a).contains(&self.dominated(b).start)
    }

    /// The pre-order numbers in the dominator tree of the blocks that a block dominates; its own is the first.
    pub fn dominated(&self, block: Block) -> &Range<u32> {
        &self.dominated.get_or_init(|| dominated_ranges(&self.order, &self.idom))[block.index()]
    }

    /// Does every path from `b` to the end pass `a`?
    pub fn post_dominates(&self, a: Block, b: Block) -> bool {
        let ranges = &self.post_dominators().ranges;
        a == b || ranges[a.index()].contains(&ranges[b.index()].start)
    }
}

/// Numbers the dominator tree in pre-order: the blocks that each dominates are a range. Unreachable blocks get none.
fn dominated_ranges(order: &[Block], idom: &[Option<Block>]) -> Vec<Range<u32>> {
    let mut sizes = vec![0; idom.len()];
    for b in order.iter().rev() {
        sizes[b.index()] += 1;
        if let Some(up) = idom[b.index()] {
            sizes[up.index()] += sizes[b.index()];
        }
    }
    // The next free number in the range of each block; dominators come first in the order.
    let mut next = vec![0; idom.len()];
    let mut ranges = vec![u32::MAX..u32::MAX; idom.len()];
    for b in order {
        let mut first = 0;
        if let Some(up) = idom[b.index()] {
            first = next[up.index()];
            next[up.index()] += sizes[b.index()];
        }
        next[b.index()] = first + 1;
        ranges[b.index()] = first..first + sizes[b.index()];
    }
    ranges
}

/// The index of each block in an order.
fn indices(n: usize, order: &[Block]) -> Vec<usize> {
    let mut index = vec![usize::MAX; n];
    order.iter().enumerate().for_each(|(i, b)| index[b.index()] = i);
    index
}

fn reverse_post_order(n: usize, roots: &[Block], succs: &[Blocks]) -> Vec<Block> {
    let mut seen = vec![false; n];
    let mut order = Vec::new();
    for &root in roots {
        if std::mem::replace(&mut seen[root.index()], true) {
            continue;
        }
        let mut stack = vec![(root, 0)];
        while let Some((b, next)) = stack.last_mut() {
            match succs[b.index()].get(*next) {
                Some(&s) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[s.index()], true) {
                        stack.push((s, 0));
                    }
                }
                None => {
                    order.push(*b);
                    stack.pop();
                }
            }
        }
    }
    order.reverse();
    order
}

/// Immediate dominators of the blocks that can be reached from `root`, by Semi-NCA: semidominators as in Lengauer and
/// Tarjan, then each block's dominator is its nearest ancestor that is no later than its semidominator.
fn dominators(root: Block, succs: &[Blocks], preds: &[Blocks]) -> Vec<Option<Block>> {
    let tree = SpanningTree::new(root, succs);
    let n = tree.order.len();
    let mut semi: Vec<usize> = (0..n).collect();
    // Ancestors with compressed paths, and on each path the node with the least semidominator.
    let (mut ancestor, mut label) = (tree.parent.clone(), semi.clone());
    let mut path = Vec::new();
    for w in (1..n).rev() {
        for p in &preds[tree.order[w].index()] {
            let v = tree.number[p.index()];
            if v != usize::MAX {
                let least = evaluate(v, w, &mut ancestor, &mut label, &semi, &mut path);
                semi[w] = semi[w].min(semi[least]);
            }
        }
    }
    let mut idom = tree.parent;
    for w in 1..n {
        while idom[w] > semi[w] {
            idom[w] = idom[idom[w]];
        }
    }
    let mut all = vec![None; succs.len()];
    (1..n).for_each(|w| all[tree.order[w].index()] = Some(tree.order[idom[w]]));
    all
}

/// A depth-first spanning tree; nodes are numbers in pre-order.
struct SpanningTree {
    order: Vec<Block>,
    /// The number of each block; `usize::MAX` where it is unreachable.
    number: Vec<usize>,
    parent: Vec<usize>,
}

impl SpanningTree {
    fn new(root: Block, succs: &[Blocks]) -> SpanningTree {
        let (mut order, mut parent) = (Vec::new(), Vec::new());
        let mut number = vec![usize::MAX; succs.len()];
        let mut stack = vec![(root, 0)];
        while let Some((block, from)) = stack.pop() {
            if number[block.index()] == usize::MAX {
                let node = order.len();
                number[block.index()] = node;
                order.push(block);
                parent.push(from);
                stack.extend(succs[block.index()].iter().rev().map(|s| (*s, node)));
            }
        }
        SpanningTree { order, number, parent }
    }
}

/// The node with the least semidominator on the path from `v` up to, but not including, the root of its tree in the
/// forest of the nodes after `last`. Compresses the path.
fn evaluate(
    v: usize,
    last: usize,
    ancestor: &mut [usize],
    label: &mut [usize],
    semi: &[usize],
    path: &mut Vec<usize>,
) -> usize {
    if v <= last {
        return v;
    }
    let mut node = v;
    while ancestor[node] > last {
        path.push(node);
        node = ancestor[node];
    }
    let (top, mut best) = (ancestor[node], label[node]);
    while let Some(node) = path.pop() {
        if semi[label[node]] < semi[best] {
            best = label[node];
        }
        (ancestor[node], label[node]) = (top, best);
        best = label[node];
    }
    label[v]
}

fn intersect(idom: &[Option<Block>], rpo_index: &[usize], mut a: Block, mut b: Block) -> Block {
    while a != b {
        let (later, other) = if rpo_index[a.index()] > rpo_index[b.index()] { (a, b) } else { (b, a) };
        match idom[later.index()] {
            Some(up) => (a, b) = (up, other),
            None => return other,
        }
    }
    a
}

/// Post-dominators are dominators of the reversed graph with a virtual exit node as root: its predecessors are the
/// blocks that exit, and one block of every infinite loop.
fn post_dominators(n: usize, order: &[Block], succs: &[Blocks], preds: &[Blocks]) -> PostDominators {
    let end = Block::new(n);
    let mut ends: Vec<Block> = order.iter().copied().filter(|b| succs[b.index()].is_empty()).collect();
    let mut seen = vec![false; n];
    ends.iter().for_each(|b| mark_before(preds, *b, &mut seen));
    for &b in order.iter().rev() {
        if !seen[b.index()] {
            ends.push(b);
            mark_before(preds, b, &mut seen);
        }
    }
    let mut backward = preds.to_vec();
    backward.push(ends.iter().copied().collect());
    let reverse_order = reverse_post_order(n + 1, &[end], &backward);
    let mut forward = succs.to_vec();
    forward.push(Blocks::new());
    for b in ends {
        forward[b.index()].push(end);
    }
    let mut ipdom = dominators(end, &backward, &forward);
    let ranges = dominated_ranges(&reverse_order, &ipdom);
    ipdom.truncate(n);
    PostDominators { ipdom: ipdom.into_iter().map(|b| b.filter(|b| *b != end)).collect(), ranges }
}

/// Marks a block and those that lead to it.
fn mark_before(preds: &[Blocks], block: Block, seen: &mut [bool]) {
    let mut work = vec![block];
    while let Some(b) = work.pop() {
        if !std::mem::replace(&mut seen[b.index()], true) {
            work.extend(&preds[b.index()]);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::function::{Edge, File, Terminator};

    /// Numbers below a bound, the same in every run.
    pub(crate) fn random() -> impl FnMut(u32) -> u32 {
        let mut random = random::Random::new(1);
        move |below| random.below(below as usize) as u32
    }

    /// A function whose blocks have the given successors.
    pub fn graph(edges: &[&[u32]]) -> Function {
        let mut f = Function::new("t");
        for _ in edges {
            f.block();
        }
        let p = f.value(File::P, 1);
        for (i, to) in edges.iter().enumerate() {
            f.blocks[Block(i as u32)].end = match to {
                [] => Terminator::Exit,
                [a] => Terminator::Jump(Edge::to(Block(*a))),
                [a, b, ..] => Terminator::Branch {
                    predicate: p,
                    negated: false,
                    uniform: false,
                    yes: Edge::to(Block(*a)),
                    no: Edge::to(Block(*b)),
                },
            };
        }
        f
    }

    #[test]
    fn dominators_of_diamond_in_loop() {
        // 0 -> 1 -> {2, 3} -> 4 -> {1, 5}
        let cfg = Cfg::new(&graph(&[&[1], &[2, 3], &[4], &[4], &[1, 5], &[]]));
        assert_eq!(cfg.idom(Block(4)), Some(Block(1)));
        assert_eq!(cfg.ipdom(Block(1)), Some(Block(4)));
        assert_eq!(cfg.ipdom(Block(4)), Some(Block(5)));
        assert!(cfg.dominates(Block(0), Block(5)) && !cfg.dominates(Block(2), Block(4)));
        assert!(cfg.post_dominates(Block(5), Block(2)));
        let common = |a, b| cfg.common_dominator(Block(a), Block(b));
        assert_eq!((common(2, 3), common(5, 2), common(4, 5)), (Block(1), Block(1), Block(4)));
    }

    /// Dominance and post-dominance agree with their definition on generated graphs: without the one block, the other
    /// cannot be reached, or reaches no end.
    #[test]
    fn dominance_is_what_paths_say() {
        let mut random = random();
        for _ in 0..2000 {
            let n = 2 + random(9);
            let mut targets = || (0..random(3)).map(|_| 1 + random(n - 1)).collect::<Vec<u32>>();
            let edges: Vec<Vec<u32>> = (0..n).map(|_| targets()).collect();
            let cfg = Cfg::new(&graph(&edges.iter().map(|e| &e[..]).collect::<Vec<_>>()));
            let reaches = |from: Block, to: &dyn Fn(Block) -> bool, without: Block| {
                from != without && (to(from) || cfg.reachable_from(from, Some(without)).into_iter().any(to))
            };
            let is_end = |b: Block| cfg.succs[b.index()].is_empty();
            for (a, b) in cfg.order.iter().flat_map(|a| cfg.order.iter().map(|b| (*a, *b))) {
                let dominates = a == b || !reaches(Function::ENTRY, &|c| c == b, a);
                assert_eq!(cfg.dominates(a, b), dominates, "{a:?} {b:?} of {edges:?}");
                if cfg
                    .order
                    .iter()
                    .all(|c| is_end(*c) || cfg.reachable_from(*c, None).into_iter().any(is_end))
                {
                    let post_dominates = a == b || !reaches(b, &is_end, a);
                    assert_eq!(cfg.post_dominates(a, b), post_dominates, "{a:?} {b:?} of {edges:?}");
                }
            }
        }
    }

    #[test]
    fn unreachable_blocks_are_not_dominated() {
        let cfg = Cfg::new(&graph(&[&[1], &[], &[3], &[1]]));
        let (dead, other) = (Block(2), Block(3));
        assert!(
            !cfg.dominates(Block(0), dead) && !cfg.dominates(dead, Block(1)) && !cfg.dominates(dead, other)
        );
        assert!(cfg.dominates(dead, dead) && cfg.common_dominator(dead, dead) == dead);
        assert_eq!(
            (cfg.common_dominator(Block(1), dead), cfg.common_dominator(dead, other)),
            (Block(0), Block(0))
        );
    }

    #[test]
    fn infinite_loop_has_post_dominators() {
        let cfg = Cfg::new(&graph(&[&[1, 2], &[1], &[]]));
        assert_eq!(cfg.ipdom(Block(0)), None);
        assert_eq!(cfg.order.len(), 3);
    }
}
