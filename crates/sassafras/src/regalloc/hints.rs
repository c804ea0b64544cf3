//! Which place a value would like: beside the words that it will be packed with, or where a block's parameter is.

use super::Allocator;
use ori::entity::Entity;
use ori::liveness::{Liveness, ValueSet};
use ori::{Arg, Block, Cfg, File, Function, Op, Pseudo, Value};
use sass::Class;
use smallvec::SmallVec;
use std::ops::Range;

/// What a value will become.
#[derive(Clone, Copy)]
enum Want {
    /// Words `offset…` of the result of a pack.
    Packed { whole: Value, offset: u8 },
    /// A parameter of a block.
    Param(Value),
}

pub struct Hints {
    wants: Vec<Option<Want>>,
    /// Where the result of a pack is meant to be, once the first of its words has a place.
    meant: Vec<Option<u8>>,
    /// Those of the current block that are not there yet: others keep off, if they can.
    promised: Vec<(Value, Range<usize>)>,
    /// Values that are read some time after the instruction has issued, by accesses to memory.
    late: ValueSet,
    /// Where the parameters are that get new values at the end of the current block. Who is read late keeps off, too: the
    /// move would wait for that.
    refilled: Vec<Range<usize>>,
}

impl Hints {
    pub fn new(function: &Function, cfg: &Cfg, live: &Liveness) -> Hints {
        let mut hints = Hints {
            wants: vec![None; function.values.len()],
            meant: vec![None; function.values.len()],
            promised: Vec::new(),
            late: read_late(function, cfg),
            refilled: Vec::new(),
        };
        for &block in &cfg.order {
            let data = &function.blocks[block];
            for edge in data.end.edges() {
                for (param, arg) in function.blocks[edge.to].params.iter().zip(&edge.args) {
                    hints.wants[arg.index()].get_or_insert(Want::Param(*param));
                }
            }
            for inst in &data.insts {
                let inst = &function.insts[*inst];
                if inst.op != Op::Pseudo(Pseudo::Pack) {
                    continue;
                }
                let mut offset = 0;
                for arg in &inst.args {
                    let Arg::Use(u) = arg else { continue };
                    if u.part.is_none_or(|p| p.count == function.values[u.value].words) {
                        hints.wants[u.value.index()] = Some(Want::Packed { whole: inst.results[0], offset });
                    }
                    offset += u.part.map_or(function.values[u.value].words, |p| p.count);
                }
            }
            hints.pass_on(function, block, &live.live_out[block.index()]);
        }
        hints
    }

    /// A word that ends where another one is made that will be packed wants that place, too: so the result can have it,
    /// whatever else is alive by then. Words that were one value want it together.
    fn pass_on(&mut self, function: &Function, block: Block, live_out: &ValueSet) {
        let is_word = |v: Value| function.values[v].file == File::R && function.values[v].words == 1;
        let mut alive = live_out.clone();
        function.blocks[block].end.uses().for_each(|v| alive.insert(v));
        for inst in function.blocks[block].insts.iter().rev().map(|i| &function.insts[*i]) {
            let ends = |v: &Value| !alive.contains(*v) && self.wants[v.index()].is_none();
            let kept = inst.guard.iter().flat_map(|g| &g.kept).copied();
            let before = match inst.op {
                Op::Machine(_) => kept.chain(inst.uses()).find(|v| is_word(*v) && ends(v)),
                Op::Pseudo(Pseudo::Unpack) => inst.uses().find(ends),
                _ => None,
            };
            if let (Some(before), Some(want)) = (before, self.want_together(&inst.results)) {
                self.wants[before.index()] = Some(want);
            }
            inst.uses().for_each(|v| alive.insert(v));
        }
    }

    /// What words want, if they will be side by side in a pack.
    fn want_together(&self, words: &[Value]) -> Option<Want> {
        let want = |v: &Value| match self.wants[v.index()] {
            Some(Want::Packed { whole, offset }) => Some((whole, offset)),
            _ => None,
        };
        let (whole, first) = want(words.first()?)?;
        let in_order = |(i, v): (usize, &Value)| want(v) == Some((whole, first + i as u8));
        words.iter().enumerate().all(in_order).then_some(Want::Packed { whole, offset: first })
    }

    /// The parameter that a value becomes.
    pub fn param(&self, value: Value) -> Option<Value> {
        match self.wants[value.index()]? {
            Want::Param(param) => Some(param),
            Want::Packed { .. } => None,
        }
    }
}

impl Hints {
    pub fn begin_block(&mut self) {
        self.promised.clear();
        self.refilled.clear();
    }

    pub fn is_read_late(&self, value: Value) -> bool {
        !self.refilled.is_empty() && self.late.contains(value)
    }

    /// A value has its place.
    pub fn keep(&mut self, value: Value) {
        self.promised.retain(|(whole, _)| *whole != value);
    }
}

/// The general registers that memory accesses read.
fn read_late(function: &Function, cfg: &Cfg) -> ValueSet {
    let mut late = ValueSet::new(function.values.len());
    for inst in cfg.order.iter().flat_map(|b| &function.blocks[*b].insts).map(|i| &function.insts[*i]) {
        let Op::Machine(op) = inst.op else { continue };
        let class = sass::Form::of(op).first().map(|form| form.class);
        if matches!(class, Some(Class::Load | Class::Store)) {
            inst.uses().filter(|v| function.values[*v].file == File::R).for_each(|v| late.insert(v));
        }
    }
    late
}

impl Allocator<'_> {
    /// Finds out which places get new values at the end of a block: those of the parameters of a loop that goes on.
    pub(super) fn find_refilled(&mut self, block: Block) {
        for edge in self.function.blocks[block].end.edges() {
            // The arguments of an edge that was split stand in the block between.
            let between = &self.function.blocks[edge.to];
            let split = if between.insts.is_empty() { between.end.edges() } else { SmallVec::new() };
            for edge in split.into_iter().chain([edge]) {
                for param in &self.function.blocks[edge.to].params {
                    let data = self.function.values[*param];
                    let born = self.born[param.index()].filter(|_| data.file == File::R);
                    let place = born.map(|(_, _, place)| usize::from(place));
                    let range = place.map(|place| place..place + usize::from(data.words));
                    self.hints.refilled.extend(range);
                }
            }
        }
    }

    pub(super) fn is_refilled(&self, window: &Range<usize>) -> bool {
        self.hints.refilled.iter().any(|w| w.start < window.end && window.start < w.end)
    }

    /// Is a place meant for the result of a pack?
    pub(super) fn is_promised(&self, file: File, window: &Range<usize>) -> bool {
        let here = self.hints.promised.iter().filter(|(whole, _)| self.function.values[*whole].file == file);
        { here }.any(|(_, meant)| meant.start < window.end && window.start < meant.end)
    }

    /// A free place that saves a move, if there is one.
    pub(super) fn hinted(&mut self, value: Value) -> Option<u8> {
        let fits = |a: &Self, place: u8| a.suits(value, place).then_some(place);
        match self.hints.wants[value.index()]? {
            Want::Param(param) => {
                let start = self.born[param.index()].map(|(_, _, place)| place);
                start.and_then(|place| fits(self, place))
            }
            Want::Packed { whole, offset } => {
                if let Some(meant) = self.hints.meant[whole.index()] {
                    return fits(self, meant.checked_add(offset)?);
                }
                let window = self.free_place(whole)?;
                self.hints.meant[whole.index()] = Some(window);
                let words = usize::from(self.function.values[whole].words);
                self.hints.promised.push((whole, usize::from(window)..usize::from(window) + words));
                fits(self, window + offset)
            }
        }
    }
}

/// The most words of general registers that are alive at once in each block.
pub fn pressures(function: &Function, cfg: &Cfg, live: &Liveness) -> Vec<u32> {
    let words = |v: Value| {
        let data = function.values[v];
        if data.file == File::R { u32::from(data.words) } else { 0 }
    };
    let mut all = vec![0; function.blocks.len()];
    cfg.order.iter().for_each(|b| all[b.index()] = pressure(function, live, *b, &words));
    all
}

fn pressure(function: &Function, live: &Liveness, block: Block, words: &dyn Fn(Value) -> u32) -> u32 {
    let data = &function.blocks[block];
    let mut alive = live.live_out[block.index()].clone();
    data.end.uses().for_each(|v| alive.insert(v));
    let mut now: u32 = alive.iter().map(words).sum();
    let mut most = now;
    for inst in data.insts.iter().rev() {
        let inst = &function.insts[*inst];
        for v in &inst.results {
            if alive.contains(*v) {
                alive.remove(*v);
                now -= words(*v);
            }
        }
        for v in inst.uses() {
            if !alive.contains(v) {
                alive.insert(v);
                now += words(v);
            }
        }
        most = most.max(now);
    }
    most
}
