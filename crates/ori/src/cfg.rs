//! The control-flow graph: predecessors, reverse post-order, dominators, post-dominators, natural loops.
//!
//! Dominators and post-dominators are found by iteration over the reverse post-order (Cooper, Harvey, Kennedy, "A Simple,
//! Fast Dominance Algorithm"). Dominance queries are constant time: the dominator tree is numbered in pre-order, and a
//! block dominates a range of numbers. Post-dominators and the numbering are computed on first use. A change of the
//! function's edges makes a `Cfg` stale.

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
    /// Immediate post-dominators; `None` is the end of the program.
    ipdom: OnceLock<Vec<Option<Block>>>,
}

impl Cfg {
    /// Computes it.
    pub fn new(function: &Function) -> Cfg {
        let n = function.blocks.len();
        let succs: Vec<Blocks> = function
            .blocks
            .keys()
            .map(|b| function.blocks[b].end.edges().iter().map(|e| e.to).collect())
            .collect();
        let order = reverse_post_order(n, &[Function::ENTRY], &succs);
        let mut preds = vec![Blocks::new(); n];
        for &b in &order {
            for s in &succs[b.index()] {
                preds[s.index()].push(b);
            }
        }
        let rpo_index = indices(n, &order);
        let idom = dominators(&rpo_index, &order, &preds);
        let (dominated, ipdom) = (OnceLock::new(), OnceLock::new());
        Cfg { preds, succs, order, rpo_index, idom, dominated, ipdom }
    }

    /// The immediate dominator.
    pub fn idom(&self, block: Block) -> Option<Block> {
        self.idom[block.index()]
    }

    /// The immediate post-dominator.
    pub fn ipdom(&self, block: Block) -> Option<Block> {
        self.ipdoms()[block.index()]
    }

    fn ipdoms(&self) -> &[Option<Block>] {
        self.ipdom.get_or_init(|| post_dominators(self.succs.len(), &self.order, &self.succs, &self.preds))
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

    /// The loop nesting depth of each block.
    pub fn loop_depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.succs.len()];
        for header in self.headers() {
            self.natural_loop(header).for_each(|b| depths[b.index()] += 1);
        }
        depths
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
        let dominated = self.dominated.get_or_init(|| dominated_ranges(&self.order, &self.idom));
        a == b || dominated[a.index()].contains(&dominated[b.index()].start)
    }

    /// Does every path from `b` to the end pass `a`?
    pub fn post_dominates(&self, a: Block, b: Block) -> bool {
        let up = |b: &Block| self.ipdom(*b);
        std::iter::successors(Some(b), up).any(|b| b == a)
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

/// Immediate dominators by iteration over the order (Cooper, Harvey, Kennedy).
fn dominators(rpo_index: &[usize], order: &[Block], preds: &[Blocks]) -> Vec<Option<Block>> {
    let mut idom: Vec<Option<Block>> = vec![None; rpo_index.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for &b in order.iter().skip(1) {
            let mut new: Option<Block> = None;
            for &p in &preds[b.index()] {
                if rpo_index[p.index()] == usize::MAX || (p != order[0] && idom[p.index()].is_none()) {
                    continue;
                }
                new = Some(new.map_or(p, |q| intersect(&idom, rpo_index, p, q)));
            }
            if new.is_some() && new != idom[b.index()] {
                idom[b.index()] = new;
                changed = true;
            }
        }
    }
    idom
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
fn post_dominators(n: usize, order: &[Block], succs: &[Blocks], preds: &[Blocks]) -> Vec<Option<Block>> {
    let end = Block::new(n);
    let mut ends: Vec<Block> = order.iter().copied().filter(|b| succs[b.index()].is_empty()).collect();
    let mut seen = vec![false; n];
    for b in reverse_post_order(n, &ends, preds) {
        seen[b.index()] = true;
    }
    for &b in order.iter().rev() {
        if !seen[b.index()] {
            ends.push(b);
            for c in reverse_post_order(n, &[b], preds) {
                seen[c.index()] = true;
            }
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
    let mut ipdom = dominators(&indices(n + 1, &reverse_order), &reverse_order, &forward);
    ipdom.truncate(n);
    ipdom.into_iter().map(|b| b.filter(|b| *b != end)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::function::{Edge, File, Terminator};

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
