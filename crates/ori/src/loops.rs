//! The loop nesting forest: natural loops with header, preheader, latches, exits, blocks and nesting.
//!
//! A natural loop is the set of blocks that reach a latch, a predecessor of the header that the header dominates,
//! without passing the header (Aho, Lam, Sethi, Ullman, section 9.6.6). Back edges to the same header make one loop.
//! Two natural loops are disjoint or nested, in any graph: the forest is found innermost loops first, and a walk
//! backwards skips inner loops as a whole, as LLVM's `LoopInfo` does. Cycles with several entries (irreducible control
//! flow) have no header that dominates them and are no loops here.
//!
//! A forest belongs to the `Cfg` that it was made of. Cost: linear in the edges, plus the depth of each block. Whether a
//! block is in a loop is constant time: the forest is numbered in pre-order, and a loop contains a range of numbers.

use crate::cfg::Cfg;
use crate::entity::{Block, Entity, LoopId, Map};
use std::ops::Range;

/// A natural loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The target of its back edges, which dominates it.
    pub header: Block,
    /// The block before the loop: the only predecessor of the header from outside, which has no other successor.
    pub preheader: Option<Block>,
    /// The sources of the back edges, in the order of the header's predecessors.
    pub latches: Vec<Block>,
    /// The edges that leave the loop.
    pub exits: Vec<(Block, Block)>,
    /// The blocks of the loop, those of inner loops too, in reverse post-order: the header is first.
    pub blocks: Vec<Block>,
    /// The loop that it is directly nested in.
    pub parent: Option<LoopId>,
    /// How many loops it is in, itself included.
    pub depth: u32,
}

/// All natural loops of a function; outer loops have smaller ids than those in them.
#[derive(Clone, Debug)]
pub struct LoopForest {
    loops: Map<LoopId, Loop>,
    innermost: Vec<Option<LoopId>>,
    /// Pre-order numbers of each loop and those in it, itself first.
    nested: Vec<Range<u32>>,
}

impl LoopForest {
    /// Computes it.
    pub fn new(cfg: &Cfg) -> LoopForest {
        let mut loops: Map<LoopId, Loop> = Map::default();
        for header in cfg.headers() {
            let is_latch = |p: &Block| cfg.dominates(header, *p);
            let latches = cfg.preds[header.index()].iter().copied().filter(is_latch).collect();
            loops.push(Loop {
                header,
                preheader: preheader(cfg, header),
                latches,
                exits: Vec::new(),
                blocks: Vec::new(),
                parent: None,
                depth: 1,
            });
        }
        let innermost = vec![None; cfg.succs.len()];
        let mut forest = LoopForest { loops, innermost, nested: Vec::new() };
        let mut outermost: Vec<LoopId> = forest.loops.keys().collect();
        for id in forest.loops.keys().rev() {
            forest.find_body(cfg, id, &mut outermost);
        }
        forest.number();
        forest.list_blocks(cfg);
        forest
    }

    /// Walks backwards from the latches of a loop. The loops in it have been found before; `outermost` links them to
    /// those around them.
    fn find_body(&mut self, cfg: &Cfg, id: LoopId, outermost: &mut [LoopId]) {
        let header = self.loops[id].header;
        let mut work = self.loops[id].latches.clone();
        while let Some(block) = work.pop() {
            match self.innermost(block).map(|inner| find_outermost(outermost, inner)) {
                Some(known) if known == id => {}
                Some(inner) => {
                    self.loops[inner].parent = Some(id);
                    outermost[inner.index()] = id;
                    work.extend(&cfg.preds[self.loops[inner].header.index()]);
                }
                None => {
                    self.innermost[block.index()] = Some(id);
                    if block != header {
                        work.extend(&cfg.preds[block.index()]);
                    }
                }
            }
        }
        // A header that is no latch is reached from one; a loop of one block is its own latch.
        self.innermost[header.index()] = Some(id);
    }

    /// Numbers the loops in pre-order; outer ones have smaller ids.
    fn number(&mut self) {
        let mut sizes = vec![1; self.loops.len()];
        for id in self.loops.keys().rev() {
            if let Some(parent) = self.loops[id].parent {
                sizes[parent.index()] += sizes[id.index()];
            }
        }
        // The next free number in each loop, and outside.
        let (mut next, mut outside) = (vec![0; self.loops.len()], 0);
        for id in self.loops.keys() {
            let parent = self.loops[id].parent;
            let free = parent.map_or(&mut outside, |parent| &mut next[parent.index()]);
            let first = *free;
            *free += sizes[id.index()];
            next[id.index()] = first + 1;
            self.nested.push(first..first + sizes[id.index()]);
        }
    }

    fn list_blocks(&mut self, cfg: &Cfg) {
        for id in self.loops.keys() {
            self.loops[id].depth = self.loops[id].parent.map_or(1, |p| self.loops[p].depth + 1);
        }
        for &block in &cfg.order {
            let around: Vec<LoopId> = self.ancestors(block).collect();
            for id in around {
                self.loops[id].blocks.push(block);
            }
        }
        for id in self.loops.keys() {
            let edges = |b: &Block| cfg.succs[b.index()].iter().map(|s| (*b, *s)).collect::<Vec<_>>();
            let all = self.loops[id].blocks.iter().flat_map(edges);
            let exits = all.filter(|(_, to)| !self.contains(id, *to)).collect();
            self.loops[id].exits = exits;
        }
    }

    /// The loops, outer ones before those in them.
    pub fn iter(&self) -> impl Iterator<Item = (LoopId, &Loop)> {
        self.loops.keys().map(|id| (id, &self.loops[id]))
    }

    /// Is there no loop?
    pub fn is_empty(&self) -> bool {
        self.loops.is_empty()
    }

    /// A loop.
    pub fn get(&self, id: LoopId) -> &Loop {
        &self.loops[id]
    }

    /// The innermost loop that a block is in.
    pub fn innermost(&self, block: Block) -> Option<LoopId> {
        self.innermost[block.index()]
    }

    /// The loops that a block is in, from the innermost to the outermost.
    pub fn ancestors(&self, block: Block) -> impl Iterator<Item = LoopId> + '_ {
        std::iter::successors(self.innermost(block), |id| self.loops[*id].parent)
    }

    /// Is a block in a loop?
    pub fn contains(&self, id: LoopId, block: Block) -> bool {
        let inner = self.innermost(block).map(|inner| self.nested[inner.index()].start);
        inner.is_some_and(|inner| self.nested[id.index()].contains(&inner))
    }

    /// How many loops a block is in.
    pub fn depth(&self, block: Block) -> u32 {
        self.innermost(block).map_or(0, |id| self.loops[id].depth)
    }

    /// The same for all blocks.
    pub fn depths(&self) -> Vec<u32> {
        (0..self.innermost.len()).map(|b| self.depth(Block::new(b))).collect()
    }

    /// The loop with a header.
    pub fn with_header(&self, header: Block) -> Option<&Loop> {
        self.innermost(header).map(|id| self.get(id)).filter(|l| l.header == header)
    }
}

/// The outermost loop that has been found around a loop; halves the path of links to it.
fn find_outermost(outermost: &mut [LoopId], mut id: LoopId) -> LoopId {
    while outermost[id.index()] != id {
        let up = outermost[outermost[id.index()].index()];
        outermost[id.index()] = up;
        id = up;
    }
    id
}

/// The cycle that a retreating edge closes: the blocks that reach its source without passing its target.
///
/// Unlike a [`Loop`], there is one for each edge, even if several lead to the same header, and irreducible control flow
/// has them, too; there the blocks may be more than those of one cycle.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// The target of the edge.
    pub header: Block,
    /// Its source.
    pub latch: Block,
    inside: Vec<bool>,
}

impl Cycle {
    /// Is the block in the cycle?
    pub fn contains(&self, block: Block) -> bool {
        self.inside[block.index()]
    }
}

/// The cycles of all retreating edges: those that don't go forward in reverse post-order. In the order of their sources.
pub fn cycles(cfg: &Cfg) -> Vec<Cycle> {
    let mut rpo_index = vec![usize::MAX; cfg.succs.len()];
    cfg.order.iter().enumerate().for_each(|(i, b)| rpo_index[b.index()] = i);
    let mut cycles = Vec::new();
    for &latch in &cfg.order {
        let retreats = |h: &&Block| rpo_index[h.index()] <= rpo_index[latch.index()];
        for &header in cfg.succs[latch.index()].iter().filter(retreats) {
            cycles.push(Cycle { header, latch, inside: cfg.leading_to(header, &[latch]) });
        }
    }
    cycles
}

/// The block before a loop: the only predecessor of the header from outside, which has no other successor.
pub fn preheader(cfg: &Cfg, header: Block) -> Option<Block> {
    let mut outside = cfg.preds[header.index()].iter().filter(|p| !cfg.dominates(header, **p));
    let (before, None) = (*outside.next()?, outside.next()) else { return None };
    (cfg.succs[before.index()].len() == 1).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfg::tests::graph;

    fn forest(edges: &[&[u32]]) -> (Cfg, LoopForest) {
        let cfg = Cfg::new(&graph(edges));
        let forest = LoopForest::new(&cfg);
        (cfg, forest)
    }

    fn numbers(blocks: &[Block]) -> Vec<u32> {
        let mut all: Vec<u32> = blocks.iter().map(|b| b.0).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn nested_loops_have_parents_and_exits() {
        // 0 -> 1 -> 2 -> {2, 3} -> {1, 4}
        let (_, forest) = forest(&[&[1], &[2], &[2, 3], &[1, 4], &[]]);
        let all: Vec<_> = forest.iter().collect();
        let [(outer, o), (inner, i)] = all[..] else { panic!("{} loops", all.len()) };
        assert_eq!((o.header, i.header), (Block(1), Block(2)));
        assert_eq!((o.parent, i.parent), (None, Some(outer)));
        assert_eq!((o.depth, i.depth, forest.depth(Block(2)), forest.depth(Block(4))), (1, 2, 2, 0));
        assert_eq!((numbers(&o.blocks), numbers(&i.blocks)), (vec![1, 2, 3], vec![2]));
        assert_eq!(o.exits, [(Block(3), Block(4))]);
        assert_eq!(i.exits, [(Block(2), Block(3))]);
        assert_eq!((&o.latches[..], &i.latches[..]), (&[Block(3)][..], &[Block(2)][..]));
        assert_eq!((o.preheader, i.preheader), (Some(Block(0)), Some(Block(1))));
        assert!(forest.contains(outer, Block(2)) && !forest.contains(inner, Block(3)));
    }

    #[test]
    fn back_edges_to_one_header_are_one_loop() {
        // 0 -> 1 -> {2, 3}; 2 -> 1; 3 -> {1, 4}
        let (_, forest) = forest(&[&[1], &[2, 3], &[1], &[1, 4], &[]]);
        assert_eq!(forest.iter().count(), 1);
        let (_, l) = forest.iter().next().expect("a loop");
        assert_eq!((numbers(&l.blocks), numbers(&l.latches)), (vec![1, 2, 3], vec![2, 3]));
    }

    #[test]
    fn a_branch_before_the_loop_is_no_preheader() {
        let (_, forest) = forest(&[&[1, 2], &[1, 2], &[]]);
        assert_eq!(forest.iter().next().and_then(|(_, l)| l.preheader), None);
    }

    #[test]
    fn irreducible_cycles_are_no_loops() {
        // 0 -> {1, 2}; 1 -> 2; 2 -> {1, 3}
        let (_, forest) = forest(&[&[1, 2], &[2], &[1, 3], &[]]);
        assert!(forest.is_empty());
    }

    #[test]
    fn every_retreating_edge_closes_a_cycle() {
        // 0 -> 1 -> {2, 3}; 2 -> 1; 3 -> {1, 4}
        let (cfg, _) = forest(&[&[1], &[2, 3], &[1], &[1, 4], &[]]);
        let mut bodies: Vec<Vec<u32>> =
            cycles(&cfg).iter().map(|c| (0..5).filter(|b| c.contains(Block(*b))).collect()).collect();
        bodies.sort();
        assert_eq!(bodies, [[1, 2], [1, 3]]);
        // Irreducible: 0 -> {1, 2}; 1 -> 2; 2 -> {1, 3}
        let (cfg, _) = forest(&[&[1, 2], &[2], &[1, 3], &[]]);
        assert_eq!(cycles(&cfg).len(), 1);
    }

    /// The forest agrees with the definition, block by block, on generated graphs.
    #[test]
    fn bodies_are_the_natural_loops() {
        let mut random = crate::cfg::tests::random();
        for _ in 0..2000 {
            let n = 2 + random(9);
            let mut targets = || (0..random(3)).map(|_| 1 + random(n - 1)).collect::<Vec<u32>>();
            let edges: Vec<Vec<u32>> = (0..n).map(|_| targets()).collect();
            let (cfg, forest) = forest(&edges.iter().map(|e| &e[..]).collect::<Vec<_>>());
            let headers: Vec<Block> = forest.iter().map(|(_, l)| l.header).collect();
            assert_eq!(headers, cfg.headers().collect::<Vec<_>>(), "{edges:?}");
            for (id, l) in forest.iter() {
                let body: Vec<Block> = cfg.natural_loop(l.header).filter(|b| cfg.reachable(*b)).collect();
                assert_eq!(numbers(&l.blocks), numbers(&body), "{edges:?}");
                assert!(l.parent.is_none_or(|p| p < id && forest.contains(p, l.header)), "{edges:?}");
                let inside = cfg.order.iter().filter(|b| forest.contains(id, **b)).count();
                assert_eq!(inside, body.len(), "{edges:?}");
            }
            let around = |b: Block| forest.iter().filter(|(id, _)| forest.contains(*id, b)).count();
            assert!(cfg.order.iter().all(|b| forest.depth(*b) as usize == around(*b)), "{edges:?}");
        }
    }
}
