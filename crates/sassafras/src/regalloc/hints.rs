//! Coalescing hints: registers that save a move (register biasing).
//!
//! An argument of a pack wants its word of the pack's register tuple; an argument of an edge wants the register of the
//! parameter. The first word of a pack that gets a register reserves a window for the whole tuple within the block;
//! other values avoid such windows if they can. Hints are preferences only: correctness never depends on them.
//!
//! One pass over the code, backward within each block.

use super::Allocator;
use ori::entity::Entity;
use ori::liveness::{Liveness, ValueSet};
use ori::{Arg, Block, Cfg, File, Function, LoopForest, Op, Pseudo, Value};
use rustc_hash::FxHashMap;
use sass::Class;
use smallvec::SmallVec;
use std::ops::Range;

/// What a value will be copied to.
#[derive(Clone, Copy)]
enum Hint {
    /// Words from `offset` on of the result of a pack.
    Packed { whole: Value, offset: u8 },
    /// A block parameter.
    Param(Value),
}

pub struct Hints {
    by_value: Vec<Option<Hint>>,
    /// The preferred register of a pack's result, once the first of its words has a register.
    pack_reg: Vec<Option<u8>>,
    /// The windows of packs that the current block has yet to reach: others avoid them if they can.
    pending_packs: Vec<(Value, Range<usize>)>,
    /// Values that memory accesses read, some time after issue.
    read_late: ValueSet,
    /// The registers of parameters that the end of the current block writes. Values that are read late avoid them: the
    /// move would wait for the read.
    latch_writes: Vec<Range<usize>>,
}

impl Hints {
    pub fn new(function: &Function, cfg: &Cfg, live: &Liveness) -> Hints {
        let mut hints = Hints {
            by_value: vec![None; function.values.len()],
            pack_reg: vec![None; function.values.len()],
            pending_packs: Vec::new(),
            read_late: read_late(function, cfg),
            latch_writes: Vec::new(),
        };
        for &block in &cfg.order {
            let data = &function.blocks[block];
            for edge in data.end.edges() {
                for (param, arg) in function.blocks[edge.to].params.iter().zip(&edge.args) {
                    hints.by_value[arg.index()].get_or_insert(Hint::Param(*param));
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
                        hints.by_value[u.value.index()] =
                            Some(Hint::Packed { whole: inst.results[0], offset });
                    }
                    offset += u.part.map_or(function.values[u.value].words, |p| p.count);
                }
            }
            hints.propagate(function, block, live.live_out[block.index()].to_set(function.values.len()));
        }
        hints
    }

    /// A word that is killed by the definition of a word with a pack hint gets that hint, too: the result can take over
    /// its register, whatever else is live by then. The source of an unpack gets the hint that its words have in
    /// common.
    fn propagate(&mut self, function: &Function, block: Block, mut live_now: ValueSet) {
        let is_word = |v: Value| function.values[v].file == File::R && function.values[v].words == 1;
        function.blocks[block].end.uses().for_each(|v| live_now.insert(v));
        for inst in function.blocks[block].insts.iter().rev().map(|i| &function.insts[*i]) {
            let is_killed = |v: &Value| !live_now.contains(*v) && self.by_value[v.index()].is_none();
            let else_values = inst.guard.iter().flat_map(|g| &g.else_values).copied();
            let killed = match inst.op {
                Op::Machine(_) => else_values.chain(inst.uses()).find(|v| is_word(*v) && is_killed(v)),
                Op::Pseudo(Pseudo::Unpack) => inst.uses().find(is_killed),
                _ => None,
            };
            if let (Some(killed), Some(hint)) = (killed, self.common_pack_hint(&inst.results)) {
                self.by_value[killed.index()] = Some(hint);
            }
            inst.uses().for_each(|v| live_now.insert(v));
        }
    }

    /// The hint of a run of words that are contiguous in one pack.
    fn common_pack_hint(&self, words: &[Value]) -> Option<Hint> {
        let hint = |v: &Value| match self.by_value[v.index()] {
            Some(Hint::Packed { whole, offset }) => Some((whole, offset)),
            _ => None,
        };
        let (whole, first) = hint(words.first()?)?;
        let in_order = |(i, v): (usize, &Value)| hint(v) == Some((whole, first + i as u8));
        words.iter().enumerate().all(in_order).then_some(Hint::Packed { whole, offset: first })
    }

    /// The parameter that a value is an argument of.
    pub fn param(&self, value: Value) -> Option<Value> {
        match self.by_value[value.index()]? {
            Hint::Param(param) => Some(param),
            Hint::Packed { .. } => None,
        }
    }
}

impl Hints {
    pub fn begin_block(&mut self) {
        self.pending_packs.clear();
        self.latch_writes.clear();
    }

    pub fn is_read_late(&self, value: Value) -> bool {
        !self.latch_writes.is_empty() && self.read_late.contains(value)
    }

    /// A value has got its register.
    pub fn assigned(&mut self, value: Value) {
        self.pending_packs.retain(|(whole, _)| *whole != value);
    }
}

/// The values of R that memory accesses read.
fn read_late(function: &Function, cfg: &Cfg) -> ValueSet {
    let mut read_late = ValueSet::new(function.values.len());
    for inst in cfg.order.iter().flat_map(|b| &function.blocks[*b].insts).map(|i| &function.insts[*i]) {
        let Op::Machine(op) = inst.op else { continue };
        let class = sass::Form::of(op).first().map(|form| form.class);
        if matches!(class, Some(Class::Load | Class::Store)) {
            inst.uses().filter(|v| function.values[*v].file == File::R).for_each(|v| read_late.insert(v));
        }
    }
    read_late
}

impl Allocator<'_> {
    /// Collects the registers that the end of a latch writes: those of the header's parameters.
    pub(super) fn collect_latch_writes(&mut self, block: Block) {
        for edge in self.function.blocks[block].end.edges() {
            // The arguments of a split edge are in the block between.
            let target = &self.function.blocks[edge.to];
            let split = if target.insts.is_empty() { target.end.edges() } else { SmallVec::new() };
            for edge in split.into_iter().chain([edge]) {
                for param in &self.function.blocks[edge.to].params {
                    let data = self.function.values[*param];
                    let def_point = self.def_point[param.index()].filter(|_| data.file == File::R);
                    let reg = def_point.map(|(_, _, reg)| usize::from(reg));
                    let range = reg.map(|reg| reg..reg + usize::from(data.words));
                    self.hints.latch_writes.extend(range);
                }
            }
        }
    }

    pub(super) fn is_latch_write(&self, window: &Range<usize>) -> bool {
        self.hints.latch_writes.iter().any(|w| w.start < window.end && window.start < w.end)
    }

    /// Is a window reserved for the result of a pack?
    pub(super) fn is_reserved_for_pack(&self, file: File, window: &Range<usize>) -> bool {
        let here =
            self.hints.pending_packs.iter().filter(|(whole, _)| self.function.values[*whole].file == file);
        { here }.any(|(_, pack_reg)| pack_reg.start < window.end && window.start < pack_reg.end)
    }

    /// A free register that saves a move, if there is one.
    pub(super) fn hinted_reg(&mut self, value: Value) -> Option<u8> {
        let fits = |a: &Self, reg: u8| a.is_available(value, reg).then_some(reg);
        match self.hints.by_value[value.index()]? {
            Hint::Param(param) => {
                let start = self.def_point[param.index()].map(|(_, _, reg)| reg);
                start.and_then(|reg| fits(self, reg))
            }
            Hint::Packed { whole, offset } => {
                if let Some(pack_reg) = self.hints.pack_reg[whole.index()] {
                    return fits(self, pack_reg.checked_add(offset)?);
                }
                let window = self.free_reg(whole)?;
                self.hints.pack_reg[whole.index()] = Some(window);
                let words = usize::from(self.function.values[whole].words);
                self.hints.pending_packs.push((whole, usize::from(window)..usize::from(window) + words));
                fits(self, window + offset)
            }
        }
    }
}

/// The maximal register pressure of each loop by its header, in words of R.
pub fn loop_pressures(function: &Function, cfg: &Cfg, live: &Liveness) -> FxHashMap<Block, u32> {
    let loops = LoopForest::new(cfg);
    let mut by_loop = FxHashMap::default();
    let words = |v: Value| {
        let data = function.values[v];
        if data.file == File::R { u32::from(data.words) } else { 0 }
    };
    for &block in &cfg.order {
        if let Some(id) = loops.innermost(block) {
            let most: &mut u32 = by_loop.entry(loops.get(id).header).or_default();
            *most = (*most).max(pressure(function, live, block, &words));
        }
    }
    // Inner loops first: each is part of the one around it.
    for l in loops.iter().map(|(_, l)| l).collect::<Vec<_>>().into_iter().rev() {
        let inner = by_loop.get(&l.header).copied().unwrap_or(0);
        if let Some(parent) = l.parent {
            let most = by_loop.entry(loops.get(parent).header).or_default();
            *most = (*most).max(inner);
        }
    }
    by_loop
}

fn pressure(function: &Function, live: &Liveness, block: Block, words: &dyn Fn(Value) -> u32) -> u32 {
    let data = &function.blocks[block];
    let mut live_now = live.live_out[block.index()].to_set(function.values.len());
    data.end.uses().for_each(|v| live_now.insert(v));
    let mut now: u32 = live_now.iter().map(words).sum();
    let mut most = now;
    for inst in data.insts.iter().rev() {
        let inst = &function.insts[*inst];
        for v in &inst.results {
            if live_now.contains(*v) {
                live_now.remove(*v);
                now -= words(*v);
            }
        }
        for v in inst.uses() {
            if !live_now.contains(v) {
                live_now.insert(v);
                now += words(v);
            }
        }
        most = most.max(now);
    }
    most
}
