//! Next-use distances, in instructions (Braun & Hack, CC 2009): backward dataflow, minimum at joins.
//!
//! Leaving a loop adds `regalloc_loop_exit_distance`, so that every use inside a loop is nearer than any after it. Iterated to the
//! fixed point over post-order; only blocks are visited again whose successors have changed. The sets hold the live values
//! of each block only, sorted.

use crate::context::Tuning;
use ori::entity::Entity;
use ori::{Block, Cfg, Function, LoopForest, Value};
use rustc_hash::FxHashSet;

const NEVER: u32 = u32::MAX / 2;

/// Distances, sorted by value.
type Distances = Vec<(Value, u32)>;

pub struct NextUse {
    /// From the entry of each block, for its live-in values.
    at_start: Vec<Distances>,
    /// The loop depth of each block.
    depth: Vec<u32>,
    /// Added on edges that leave a loop: uses inside are always nearer.
    loop_exit: u32,
}

impl NextUse {
    pub fn new(function: &Function, cfg: &Cfg, tuning: &Tuning) -> NextUse {
        let depth = LoopForest::new(cfg).depths();
        let loop_exit = tuning.regalloc_loop_exit_distance.min(NEVER / 2);
        let at_start = vec![Vec::new(); function.blocks.len()];
        let mut all = NextUse { at_start, depth, loop_exit };
        let accesses: Vec<Accesses> = function.blocks.keys().map(|b| Accesses::of(function, b)).collect();
        let mut is_stale = vec![true; function.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for &block in cfg.order.iter().rev() {
                if !std::mem::replace(&mut is_stale[block.index()], false) {
                    continue;
                }
                let now = all.transfer(cfg, block, &accesses[block.index()]);
                if now != all.at_start[block.index()] {
                    all.at_start[block.index()] = now;
                    cfg.preds[block.index()].iter().for_each(|p| is_stale[p.index()] = true);
                    changed = true;
                }
            }
        }
        all
    }

    /// From the exit of a block.
    pub fn at_end(&self, cfg: &Cfg, block: Block, value: Value) -> u32 {
        let succs = cfg.succs[block.index()].iter();
        succs.filter_map(|s| Some(self.find(*s, value)? + self.penalty(block, *s))).min().unwrap_or(NEVER)
    }

    pub fn at_start(&self, block: Block, value: Value) -> u32 {
        self.find(block, value).unwrap_or(NEVER)
    }

    fn find(&self, block: Block, value: Value) -> Option<u32> {
        let distances = &self.at_start[block.index()];
        distances.binary_search_by_key(&value, |(v, _)| *v).ok().map(|i| distances[i].1)
    }

    /// Is a distance that of a use after the loop?
    pub fn is_after_loop(&self, distance: u32) -> bool {
        distance >= self.loop_exit
    }

    fn penalty(&self, from: Block, to: Block) -> u32 {
        if self.depth[to.index()] < self.depth[from.index()] { self.loop_exit } else { 0 }
    }

    fn transfer(&self, cfg: &Cfg, block: Block, accesses: &Accesses) -> Distances {
        let mut now = accesses.first_uses.clone();
        for s in &cfg.succs[block.index()] {
            let through = |(value, distance): &(Value, u32)| {
                let distance = (distance + self.penalty(block, *s)).saturating_add(accesses.length);
                (!accesses.defined.contains(value)).then_some((*value, distance.min(NEVER)))
            };
            now = merge(now, self.at_start[s.index()].iter().filter_map(through));
        }
        now
    }
}

/// What a block does with values.
struct Accesses {
    /// The distances of the first uses of those that it doesn't define.
    first_uses: Distances,
    defined: FxHashSet<Value>,
    /// The distance from its start to its end.
    length: u32,
}

impl Accesses {
    fn of(function: &Function, block: Block) -> Accesses {
        let data = &function.blocks[block];
        let results = data.insts.iter().flat_map(|i| &function.insts[*i].results);
        let defined: FxHashSet<Value> = data.params.iter().chain(results).copied().collect();
        let inner = data.insts.iter().enumerate();
        let inner = inner.flat_map(|(i, inst)| function.insts[*inst].uses().map(move |v| (v, i as u32)));
        let at_end = data.insts.len() as u32;
        let all = inner.chain(data.end.uses().map(|v| (v, at_end)));
        let mut first_uses: Distances = all.filter(|(v, _)| !defined.contains(v)).collect();
        first_uses.sort_unstable();
        first_uses.dedup_by_key(|(v, _)| *v);
        Accesses { first_uses, defined, length: at_end + 1 }
    }
}

/// The minimum of two sets of distances.
fn merge(a: Distances, b: impl Iterator<Item = (Value, u32)>) -> Distances {
    let mut all = Vec::with_capacity(a.len());
    let (mut a, mut b) = (a.into_iter().peekable(), b.peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some((v, _)), Some((w, _))) if v == w => {
                a.next().zip(b.next()).map(|((v, x), (_, y))| (v, x.min(y)))
            }
            (Some((v, _)), Some((w, _))) if v < w => a.next(),
            (Some(_), None) => a.next(),
            (_, Some(_)) => b.next(),
            (None, None) => return all,
        };
        all.extend(next);
    }
}
