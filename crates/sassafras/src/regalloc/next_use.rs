//! Next-use distances, in instructions (Braun & Hack, CC 2009): backward dataflow, minimum at joins.
//!
//! Leaving a loop adds `regalloc_loop_exit_distance`, so that every use inside a loop is nearer than any after it. Iterated to the
//! fixed point over post-order; maps hold the live values of each block only.

use crate::context::Tuning;
use ori::entity::Entity;
use ori::{Block, Cfg, Function, LoopForest, Value};
use rustc_hash::FxHashMap;

const NEVER: u32 = u32::MAX / 2;

pub struct NextUse {
    /// From the entry of each block, for its live-in values.
    at_start: Vec<FxHashMap<Value, u32>>,
    /// The loop depth of each block.
    depth: Vec<u32>,
    /// Added on edges that leave a loop: uses inside are always nearer.
    loop_exit: u32,
}

impl NextUse {
    pub fn new(function: &Function, cfg: &Cfg, tuning: &Tuning) -> NextUse {
        let depth = LoopForest::new(cfg).depths();
        let loop_exit = tuning.regalloc_loop_exit_distance.min(NEVER / 2);
        let at_start = vec![FxHashMap::default(); function.blocks.len()];
        let mut all = NextUse { at_start, depth, loop_exit };
        let mut changed = true;
        while changed {
            changed = false;
            for &block in cfg.order.iter().rev() {
                let now = all.transfer(function, cfg, block);
                if now != all.at_start[block.index()] {
                    all.at_start[block.index()] = now;
                    changed = true;
                }
            }
        }
        all
    }

    /// From the exit of a block.
    pub fn at_end(&self, cfg: &Cfg, block: Block, value: Value) -> u32 {
        let succs = cfg.succs[block.index()].iter();
        succs
            .filter_map(|s| Some(self.at_start[s.index()].get(&value)? + self.penalty(block, *s)))
            .min()
            .unwrap_or(NEVER)
    }

    pub fn at_start(&self, block: Block, value: Value) -> u32 {
        self.at_start[block.index()].get(&value).copied().unwrap_or(NEVER)
    }

    /// Is a distance that of a use after the loop?
    pub fn is_after_loop(&self, distance: u32) -> bool {
        distance >= self.loop_exit
    }

    fn penalty(&self, from: Block, to: Block) -> u32 {
        if self.depth[to.index()] < self.depth[from.index()] { self.loop_exit } else { 0 }
    }

    fn transfer(&self, function: &Function, cfg: &Cfg, block: Block) -> FxHashMap<Value, u32> {
        let data = &function.blocks[block];
        let length = data.insts.len() as u32 + 1;
        let mut now: FxHashMap<Value, u32> = FxHashMap::default();
        for s in &cfg.succs[block.index()] {
            for (value, distance) in &self.at_start[s.index()] {
                let transfer = (distance + self.penalty(block, *s)).saturating_add(length).min(NEVER);
                now.entry(*value).and_modify(|d| *d = (*d).min(transfer)).or_insert(transfer);
            }
        }
        data.end.uses().for_each(|v| {
            now.insert(v, length - 1);
        });
        for (i, inst) in data.insts.iter().enumerate().rev() {
            let inst = &function.insts[*inst];
            inst.results.iter().for_each(|v| {
                now.remove(v);
            });
            inst.uses().for_each(|v| {
                now.insert(v, i as u32);
            });
        }
        data.params.iter().for_each(|v| {
            now.remove(v);
        });
        now
    }
}
