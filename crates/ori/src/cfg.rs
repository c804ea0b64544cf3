//! Control flow: predecessors, reverse post-order, dominators and post-dominators.
//!
//! Computed on demand from a function; a change of its edges makes it stale.

use crate::entity::{Block, Entity};
use crate::function::Function;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::OnceLock;

/// The neighbours of a block: seldom more than two.
pub type Blocks = SmallVec<[Block; 4]>;

#[derive(Clone, Debug)]
pub struct Cfg {
    pub preds: Vec<Blocks>,
    pub succs: Vec<Blocks>,
    /// Reachable blocks in reverse post-order; the entry is first.
    pub order: Vec<Block>,
    /// Where each block stands there; nowhere is behind all others.
    place: Vec<usize>,
    idom: Vec<Option<Block>>,
    /// Numbers of the blocks that each dominates, itself the first, once somebody asks: none where it is never reached.
    below: OnceLock<Vec<Range<u32>>>,
    /// Immediate post-dominators, once somebody asks; `None` is the end of the program.
    ipdom: OnceLock<Vec<Option<Block>>>,
}

impl Cfg {
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
        let place = places(n, &order);
        let idom = dominators(&place, &order, &preds);
        Cfg { preds, succs, order, place, idom, below: OnceLock::new(), ipdom: OnceLock::new() }
    }

    pub fn idom(&self, block: Block) -> Option<Block> {
        self.idom[block.index()]
    }

    pub fn ipdom(&self, block: Block) -> Option<Block> {
        self.ipdoms()[block.index()]
    }

    fn ipdoms(&self) -> &[Option<Block>] {
        self.ipdom.get_or_init(|| post_dominators(self.succs.len(), &self.order, &self.succs, &self.preds))
    }

    pub fn reachable(&self, block: Block) -> bool {
        block == Function::ENTRY || self.idom[block.index()].is_some()
    }

    /// The blocks that can be reached from the successors of `from` without passing `to`. `from` itself is among
    /// them only if it lies on a cycle of them.
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

    /// By block: does a way lead from it to one of `tails` without passing `header`? With the blocks that go back to a
    /// header as tails, that is the loop, header included.
    pub fn leading_to(&self, header: Block, tails: &[Block]) -> Vec<bool> {
        let mut inside = vec![false; self.succs.len()];
        inside[header.index()] = true;
        let mut work = tails.to_vec();
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

    /// The blocks of the loop that a block is the header of; none if it isn't.
    pub fn natural_loop(&self, header: Block) -> impl Iterator<Item = Block> {
        let latches: Vec<Block> =
            self.preds[header.index()].iter().copied().filter(|p| self.dominates(header, *p)).collect();
        let inside = if latches.is_empty() { Vec::new() } else { self.leading_to(header, &latches) };
        (0..inside.len()).filter(move |i| inside[*i]).map(Block::new)
    }

    /// How many loops each block lies in.
    pub fn loop_depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.succs.len()];
        for header in self.headers() {
            self.natural_loop(header).for_each(|b| depths[b.index()] += 1);
        }
        depths
    }

    /// The last block that every way to both passes.
    pub fn common_dominator(&self, a: Block, b: Block) -> Block {
        match a == b || self.reachable(a) && self.reachable(b) {
            true => meet(&self.idom, &self.place, a, b),
            false => Function::ENTRY,
        }
    }

    /// Does every way from the entry to `b` pass `a`?
    pub fn dominates(&self, a: Block, b: Block) -> bool {
        let below = self.below.get_or_init(|| below(&self.order, &self.idom));
        a == b || below[a.index()].contains(&below[b.index()].start)
    }

    /// Does every way from `b` to the end pass `a`?
    pub fn post_dominates(&self, a: Block, b: Block) -> bool {
        let up = |b: &Block| self.ipdom(*b);
        std::iter::successors(Some(b), up).any(|b| b == a)
    }
}

/// Numbers blocks in such a way that those which a block dominates follow it; what an order doesn't have gets none.
fn below(order: &[Block], idom: &[Option<Block>]) -> Vec<Range<u32>> {
    let mut sizes = vec![0; idom.len()];
    for b in order.iter().rev() {
        sizes[b.index()] += 1;
        if let Some(up) = idom[b.index()] {
            sizes[up.index()] += sizes[b.index()];
        }
    }
    // Where the next number that a block has to give away comes from: dominators stand first.
    let mut next = vec![0; idom.len()];
    let mut below = vec![u32::MAX..u32::MAX; idom.len()];
    for b in order {
        let mut first = 0;
        if let Some(up) = idom[b.index()] {
            first = next[up.index()];
            next[up.index()] += sizes[b.index()];
        }
        next[b.index()] = first + 1;
        below[b.index()] = first..first + sizes[b.index()];
    }
    below
}

/// Where each block stands in an order.
fn places(n: usize, order: &[Block]) -> Vec<usize> {
    let mut place = vec![usize::MAX; n];
    order.iter().enumerate().for_each(|(i, b)| place[b.index()] = i);
    place
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
fn dominators(place: &[usize], order: &[Block], preds: &[Blocks]) -> Vec<Option<Block>> {
    let mut idom: Vec<Option<Block>> = vec![None; place.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for &b in order.iter().skip(1) {
            let mut new: Option<Block> = None;
            for &p in &preds[b.index()] {
                if place[p.index()] == usize::MAX || (p != order[0] && idom[p.index()].is_none()) {
                    continue;
                }
                new = Some(new.map_or(p, |q| meet(&idom, place, p, q)));
            }
            if new.is_some() && new != idom[b.index()] {
                idom[b.index()] = new;
                changed = true;
            }
        }
    }
    idom
}

fn meet(idom: &[Option<Block>], place: &[usize], mut a: Block, mut b: Block) -> Block {
    while a != b {
        let (later, other) = if place[a.index()] > place[b.index()] { (a, b) } else { (b, a) };
        match idom[later.index()] {
            Some(up) => (a, b) = (up, other),
            None => return other,
        }
    }
    a
}

/// Post-dominators are dominators of the reversed graph, whose root is a node of its own: every block that
/// exits leads to it, and so does one block of every endless loop.
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
    let mut ipdom = dominators(&places(n + 1, &reverse_order), &reverse_order, &forward);
    ipdom.truncate(n);
    ipdom.into_iter().map(|b| b.filter(|b| *b != end)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{Edge, File, Terminator};

    /// A function whose blocks lead to the given ones.
    fn graph(edges: &[&[u32]]) -> Function {
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
    fn diamond_and_loop() {
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
    fn nothing_dominates_what_is_never_reached() {
        let cfg = Cfg::new(&graph(&[&[1], &[], &[3], &[1]]));
        let (never, nor) = (Block(2), Block(3));
        assert!(
            !cfg.dominates(Block(0), never) && !cfg.dominates(never, Block(1)) && !cfg.dominates(never, nor)
        );
        assert!(cfg.dominates(never, never) && cfg.common_dominator(never, never) == never);
        assert_eq!(
            (cfg.common_dominator(Block(1), never), cfg.common_dominator(never, nor)),
            (Block(0), Block(0))
        );
    }

    #[test]
    fn endless_loop_has_post_dominators() {
        let cfg = Cfg::new(&graph(&[&[1, 2], &[1], &[]]));
        assert_eq!(cfg.ipdom(Block(0)), None);
        assert_eq!(cfg.order.len(), 3);
    }
}
