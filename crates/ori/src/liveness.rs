//! Live variable analysis: the values that are live at the start and the end of each block.
//!
//! In SSA form each value is live on the paths from its definition to its uses: from every use that its block does not
//! define, a walk goes backwards up to the definition (Boissinot et al., "Computing Liveness Sets for SSA-Form
//! Programs"). Values in ascending order make sorted sets. Arguments of edges are used at the end of the predecessor;
//! block parameters are defined at the start of their block and are in no live-in set. Cost: the size of the sets.

use crate::cfg::Cfg;
use crate::entity::{Block, Entity, Value};
use crate::function::Function;
use rustc_hash::FxHashSet;

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

    /// Its values in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        self.words.iter().enumerate().flat_map(|(i, w)| values_of(i, *w))
    }

    /// Those that are in another set as well, in ascending order. Others cost nothing.
    pub fn iter_both<'a>(&'a self, other: &'a ValueSet) -> impl Iterator<Item = Value> + 'a {
        let words = self.words.iter().zip(&other.words).enumerate();
        words.flat_map(|(i, (w, other))| values_of(i, w & other))
    }
}

/// The values of a word of a set.
fn values_of(index: usize, word: u64) -> impl Iterator<Item = Value> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let bit = (rest != 0).then(|| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(Value::new(index * 64 + bit as usize))
    })
}

/// A set of values that is used again and again: to clear it costs as much as was inserted since, however many values
/// the function has.
pub struct ScratchSet {
    set: ValueSet,
    /// The words of the set that are not zero, and perhaps others.
    touched: Vec<u32>,
}

impl ScratchSet {
    /// The empty set, for so many values.
    pub fn new(values: usize) -> ScratchSet {
        ScratchSet { set: ValueSet::new(values), touched: Vec::new() }
    }

    /// Adds a value; was it missing?
    pub fn insert(&mut self, value: Value) -> bool {
        let at = value.index() / 64;
        let word = &mut self.set.words[at];
        if *word == 0 {
            self.touched.push(at as u32);
        }
        let before = std::mem::replace(word, *word | 1 << (value.index() % 64));
        before != *word
    }

    /// Removes a value; was it there?
    pub fn remove(&mut self, value: Value) -> bool {
        let word = &mut self.set.words[value.index() / 64];
        let before = std::mem::replace(word, *word & !(1 << (value.index() % 64)));
        before != *word
    }

    /// Is a value in it?
    pub fn contains(&self, value: Value) -> bool {
        self.set.contains(value)
    }

    /// Makes it equal to a live set, of a function with so many values.
    pub fn set(&mut self, live: &LiveSet, values: usize) {
        self.touched.drain(..).for_each(|at| self.set.words[at as usize] = 0);
        self.set.words.resize(values.div_ceil(64), 0);
        live.values.iter().for_each(|v| _ = self.insert(*v));
    }
}

/// The values that are live at one point, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSet {
    values: Vec<Value>,
}

impl LiveSet {
    /// Is a value in it?
    pub fn contains(&self, value: Value) -> bool {
        self.values.binary_search(&value).is_ok()
    }

    /// Its values in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        self.values.iter().copied()
    }

    /// As a set of so many values that can be changed.
    pub fn to_set(&self, values: usize) -> ValueSet {
        let mut set = ValueSet::new(values);
        self.values.iter().for_each(|v| set.insert(*v));
        set
    }

    /// Adds a value; was it missing?
    fn insert(&mut self, value: Value) -> bool {
        let at = self.values.binary_search(&value);
        if let Err(at) = at {
            self.values.insert(at, value);
        }
        at.is_err()
    }

    /// Adds a value that is no less than the others, unless it is there.
    fn push(&mut self, value: Value) -> bool {
        let is_new = self.values.last() != Some(&value);
        if is_new {
            self.values.push(value);
        }
        is_new
    }
}

/// Live values at the boundaries of blocks.
#[derive(Clone, Debug)]
pub struct Liveness {
    /// Live before the first instruction; block parameters are not in it.
    pub live_in: Vec<LiveSet>,
    /// Live after the terminator has read its arguments.
    pub live_out: Vec<LiveSet>,
}

impl Liveness {
    /// Computes it.
    pub fn new(function: &Function, cfg: &Cfg) -> Liveness {
        let mut defined_in = vec![None; function.values.len()];
        for &block in &cfg.order {
            let data = &function.blocks[block];
            data.params.iter().for_each(|v| defined_in[v.index()] = Some(block));
            for inst in &data.insts {
                function.insts[*inst].results.iter().for_each(|v| defined_in[v.index()] = Some(block));
            }
        }
        let empty = vec![LiveSet::default(); function.blocks.len()];
        let mut live = Liveness { live_in: empty.clone(), live_out: empty };
        let mut work = Vec::new();
        for (value, block) in upward_exposed_uses(function, cfg, &defined_in) {
            work.push(block);
            while let Some(block) = work.pop() {
                if live.live_in[block.index()].push(value) {
                    for pred in &cfg.preds[block.index()] {
                        live.live_out[pred.index()].push(value);
                        work.extend((defined_in[value.index()] != Some(*pred)).then_some(*pred));
                    }
                }
            }
        }
        live
    }
}

impl Liveness {
    /// Finds again where some values are live, after instructions moved between `blocks`: which of them are live in other
    /// blocks has not changed. `defined_in` has the block of each value's definition.
    pub fn update(
        &mut self,
        function: &Function,
        cfg: &Cfg,
        blocks: &[Block],
        values: &FxHashSet<Value>,
        defined_in: &[Option<Block>],
    ) {
        let inside: FxHashSet<Block> = blocks.iter().copied().collect();
        for block in blocks {
            self.live_in[block.index()].values.retain(|v| !values.contains(v));
            self.live_out[block.index()].values.retain(|v| !values.contains(v));
        }
        let mut work = Vec::new();
        for &block in blocks {
            let data = &function.blocks[block];
            let inner = data.insts.iter().flat_map(|i| function.insts[*i].uses());
            let uses = inner.chain(data.end.uses()).filter(|v| values.contains(v));
            work.extend(uses.map(|v| (block, v)));
            for succ in cfg.succs[block.index()].iter().filter(|succ| !inside.contains(succ)) {
                for value in self.live_in[succ.index()].iter().filter(|v| values.contains(v)) {
                    self.live_out[block.index()].insert(value);
                    work.push((block, value));
                }
            }
        }
        while let Some((block, value)) = work.pop() {
            if defined_in[value.index()] != Some(block) && self.live_in[block.index()].insert(value) {
                for pred in cfg.preds[block.index()].iter().filter(|pred| inside.contains(pred)) {
                    self.live_out[pred.index()].insert(value);
                    work.push((*pred, value));
                }
            }
        }
    }
}

/// The values that each block uses, but does not define, in the order of the values.
fn upward_exposed_uses(function: &Function, cfg: &Cfg, defined_in: &[Option<Block>]) -> Vec<(Value, Block)> {
    let mut uses = Vec::new();
    let mut latest = vec![None; function.values.len()];
    for &block in &cfg.order {
        let data = &function.blocks[block];
        let mut read = |value: Value| {
            if defined_in[value.index()] != Some(block) && latest[value.index()].replace(block) != Some(block)
            {
                uses.push((value, block));
            }
        };
        data.insts.iter().for_each(|inst| function.insts[*inst].uses().for_each(&mut read));
        data.end.uses().for_each(read);
    }
    uses.sort_unstable();
    uses
}
