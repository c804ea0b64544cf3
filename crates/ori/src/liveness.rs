//! Live variable analysis: the values that are live at the start and the end of each block.
//!
//! Backward data flow over bit sets, iterated in post-order. Arguments of edges are used at the end of the predecessor;
//! block parameters are defined at the start of their block and are in no live-in set. Cost: a few passes over the
//! function, each with a bit per value and block.

use crate::cfg::Cfg;
use crate::entity::{Block, Entity, Value};
use crate::function::Function;

/// A set of values, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSet {
    words: Vec<u64>,
}

impl ValueSet {
    /// The empty set, for so many values.
    pub fn new(values: usize) -> ValueSet {
        ValueSet { words: vec![0; values.div_ceil(64)] }
    }

    /// Adds a value.
    pub fn insert(&mut self, value: Value) {
        self.words[value.index() / 64] |= 1 << (value.index() % 64);
    }

    /// Removes a value.
    pub fn remove(&mut self, value: Value) {
        self.words[value.index() / 64] &= !(1 << (value.index() % 64));
    }

    /// Is a value in it?
    pub fn contains(&self, value: Value) -> bool {
        self.words[value.index() / 64] >> (value.index() % 64) & 1 != 0
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// Adds all of `other`; did that change anything?
    fn union(&mut self, other: &ValueSet) -> bool {
        let mut changed = false;
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            changed |= *b & !*a != 0;
            *a |= b;
        }
        changed
    }

    /// Its values in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        self.words.iter().enumerate().flat_map(|(i, w)| {
            let mut rest = *w;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(Value::new(i * 64 + bit as usize))
            })
        })
    }
}

/// Live values at the boundaries of blocks.
#[derive(Clone, Debug)]
pub struct Liveness {
    /// Live before the first instruction; block parameters are not in it.
    pub live_in: Vec<ValueSet>,
    /// Live after the terminator has read its arguments.
    pub live_out: Vec<ValueSet>,
}

impl Liveness {
    /// Computes it.
    pub fn new(function: &Function, cfg: &Cfg) -> Liveness {
        let empty = ValueSet::new(function.values.len());
        let mut live = Liveness {
            live_in: vec![empty.clone(); function.blocks.len()],
            live_out: vec![empty; function.blocks.len()],
        };
        let mut changed = true;
        while changed {
            changed = false;
            for &b in cfg.order.iter().rev() {
                for s in &cfg.succs[b.index()] {
                    let from = live.live_in[s.index()].clone();
                    live.live_out[b.index()].union(&from);
                }
                let inside = transfer(function, b, live.live_out[b.index()].clone());
                changed |= live.live_in[b.index()].union(&inside);
            }
        }
        live
    }
}

/// The values that are live at the start of a block, given those at its end.
fn transfer(function: &Function, block: Block, mut live: ValueSet) -> ValueSet {
    let data = &function.blocks[block];
    data.end.uses().for_each(|v| live.insert(v));
    for &inst in data.insts.iter().rev() {
        let inst = &function.insts[inst];
        inst.results.iter().for_each(|v| live.remove(*v));
        inst.uses().for_each(|v| live.insert(v));
    }
    data.params.iter().for_each(|v| live.remove(*v));
    live
}
