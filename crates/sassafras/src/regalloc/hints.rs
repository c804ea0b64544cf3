//! Coalescing hints: registers that save a move (register biasing).
//!
//! A copy is an affinity between its source and its target: an argument of a pack wants its word of the pack's register
//! tuple, an argument of an edge the register of the parameter. What a back edge passes counts more than what other
//! edges do. Affinities are followed backward, over an operand that dies where its result is defined (the chain of an
//! accumulator), and forward, from a target that has no register yet to its own target.
//!
//! ```text
//! b1(v1): v2 = FFMA v8, v9, v1     v2 and v3 want the register of v1
//!         v3 = FFMA v6, v7, v2     v4 wants the low, v5 the high register of v0
//!         v4 = IADD3 v0[0], 16
//!         v5 = IADD3.X v0[1]
//!         v6 = Pack v4, v5
//!         branch p, b1(v3, v6), …
//! ```
//!
//! A pack of a word of a longer value that dies there can have the place of that value, if the other words of it are
//! dead by then: a sum with the upper word of a product takes its place. So do the value, and what dies where it is
//! defined, where the pack has a place of its own.
//!
//! ```text
//! v2 = IMAD.WIDE.U32 v0, v1, v9          v2 and v4 want the same registers
//! v3 = IMAD v8, v1, v2[1]                v3 wants that of v2[1]
//! v4 = Pack v2[0], v3
//! ```
//!
//! Values that are live where such a value is defined avoid the register that it wants: the first word of a pack that
//! gets a register reserves a window for the whole tuple within the block, also where words reach the pack as parameters
//! of its block (fragments that one iteration loads and the next one multiplies), and the registers of a loop's parameters are
//! reserved for their next values within the loop. Values that live across calls avoid what these clobber. Hints are
//! preferences only: correctness never depends on them.
//!
//! One pass over the code, backward. A choice of a register looks at the reservations of the loops around it.

use super::Allocator;
use super::calls::{self, is_call};
use super::facts::Killed;
use super::reg_set::RegSet;
use ori::entity::Entity;
use ori::liveness::{Liveness, ScratchSet, ValueSet};
use ori::{Arg, Block, Cfg, File, Function, Inst, InstData, LoopForest, Op, Pseudo, Use, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::Class;
use smallvec::SmallVec;
use std::ops::Range;

/// What a value will be copied to.
#[derive(Clone, Copy)]
enum Hint {
    /// Words from `offset` on of the result of a pack. If this one `reserves`, it may choose the window for the tuple.
    Packed { whole: Value, offset: u8, reserves: bool },
    /// A block parameter, directly or as an operand of what is passed.
    Param { param: Value, direct: bool },
    /// The words that an unpack makes of it, each of which is passed to a block parameter.
    Unpacked { by: Inst },
    /// A register of the calling convention, as an argument or a result.
    Abi(u8),
}

pub struct Hints {
    by_value: Vec<Option<Hint>>,
    /// The register of a pack's result or of a parameter that its words or arguments prefer: that of the first of them.
    target_reg: Vec<Option<u8>>,
    /// By pack: a value of which a word is packed and that dies there, the word, and its place in the pack.
    packed_parts: FxHashMap<Value, (Value, u8, u8)>,
    /// The windows of packs that the current block has yet to reach: others avoid them if they can.
    pending_packs: Vec<(Value, Range<usize>)>,
    /// The registers of parameters of the loops around the current block, which their next values want.
    next_values: Vec<NextValue>,
    /// The last block in which each value dies that has been visited, and the position there.
    death: Vec<(Option<Block>, u32)>,
    /// The registers that calls clobber within the live ranges of values: a value there would have to move.
    clobbered: FxHashMap<Value, Clobbered>,
    /// Values that memory accesses read, some time after issue.
    read_late: ValueSet,
    /// The registers of parameters that the end of the current block writes. Values that are read late avoid them: the
    /// move would wait for the read.
    latch_writes: Vec<Range<usize>>,
}

/// What calls clobber within a live range.
#[derive(Clone, Copy, Default)]
struct Clobbered {
    all: RegSet,
    /// Those outside of cold blocks.
    hot: RegSet,
}

/// The next value of a loop's parameter.
struct NextValue {
    /// The registers of the parameter.
    registers: RegSet,
    /// Where the next value is defined, or moved to them.
    block: Block,
    position: u32,
    /// The position of the latch in reverse post-order.
    latch: u32,
}

impl Hints {
    pub fn new(function: &Function, (cfg, live): (&Cfg, &Liveness), rpo_index: &[u32]) -> Hints {
        let mut hints = Hints {
            by_value: vec![None; function.values.len()],
            target_reg: vec![None; function.values.len()],
            packed_parts: FxHashMap::default(),
            pending_packs: Vec::new(),
            next_values: Vec::new(),
            death: vec![(None, 0); function.values.len()],
            clobbered: clobbered(function, (cfg, live)),
            read_late: read_late(function, cfg),
            latch_writes: Vec::new(),
        };
        let mut live_now = ScratchSet::new(function.values.len());
        for &block in cfg.order.iter().rev() {
            for edge in function.blocks[block].end.edges() {
                let is_back = rpo_index[edge.to.index()] <= rpo_index[block.index()];
                for (param, arg) in function.blocks[edge.to].params.iter().zip(&edge.args) {
                    let hint = &mut hints.by_value[arg.index()];
                    if is_back || hint.is_none() {
                        *hint = Some(Hint::Param { param: *param, direct: true });
                    }
                }
            }
            hints.propagate(function, block, live, &mut live_now);
        }
        hints
    }

    pub(super) fn lives_across_call(&self, value: Value) -> bool {
        self.clobbered.contains_key(&value)
    }

    /// The words of a pack that die there get their hints. An operand that dies where a value with a hint is defined gets
    /// that hint, too: the result can take over its register, whatever else is live by then. The source of an unpack gets
    /// the hint that its words have in common.
    fn propagate(&mut self, function: &Function, block: Block, live: &Liveness, live_now: &mut ScratchSet) {
        live_now.set(&live.live_out[block.index()], function.values.len());
        function.blocks[block].end.uses().for_each(|v| _ = live_now.insert(v));
        for &by in function.blocks[block].insts.iter().rev() {
            let inst = &function.insts[by];
            let is_killed = |v: &Value| !live_now.contains(*v);
            // Windows for packs are reserved in one block.
            let is_local = |v: &Value| is_killed(v) && !live.live_in[block.index()].contains(*v);
            match inst.op {
                Op::Pseudo(Pseudo::Pack) => self.hint_packed(function, inst, is_killed),
                Op::Pseudo(Pseudo::Call | Pseudo::Leave) => self.hint_abi_args(function, by, is_killed),
                Op::Pseudo(Pseudo::Copy) => self.hint_copied(inst, is_killed),
                Op::Pseudo(Pseudo::Unpack) => {
                    let source = inst.uses().find(|v| is_local(v) && self.by_value[v.index()].is_none());
                    let all_passed = inst.results.iter().all(|r| self.param(*r).is_some());
                    let passed = all_passed.then_some(Hint::Unpacked { by });
                    let hint = self.common_pack_hint(&inst.results).or(passed);
                    if let (Some(source), Some(hint)) = (source, hint) {
                        self.by_value[source.index()] = Some(hint);
                    }
                }
                Op::Machine(_) => match inst.results.first().and_then(|r| self.by_value[r.index()]) {
                    Some(Hint::Param { param, .. }) => {
                        let hint = Hint::Param { param, direct: false };
                        self.hint_operands(function, inst, hint, is_killed);
                    }
                    // The parameter has the window.
                    Some(Hint::Packed { whole, offset, .. }) if self.param(whole).is_some() => {
                        let hint = Hint::Packed { whole, offset, reserves: false };
                        self.hint_operands(function, inst, hint, is_killed);
                    }
                    Some(hint) => self.hint_operands(function, inst, hint, is_local),
                    None => {}
                },
                _ => {}
            }
            inst.uses().for_each(|v| _ = live_now.insert(v));
        }
    }

    /// The words of a pack that die there want their places in its result.
    fn hint_packed(&mut self, function: &Function, inst: &InstData, is_killed: impl Fn(&Value) -> bool) {
        let mut offset = 0;
        for arg in &inst.args {
            let Arg::Use(u) = arg else { continue };
            let words = function.values[u.value].words;
            if u.part.is_none_or(|p| p.count == words) && is_killed(&u.value) {
                let hint = Hint::Packed { whole: inst.results[0], offset, reserves: true };
                self.by_value[u.value.index()] = Some(hint);
            } else if let Some(part) = u.part.filter(|_| is_killed(&u.value))
                && let Some(place) = offset.checked_sub(part.first)
            {
                let whole = inst.results[0];
                self.packed_parts.entry(whole).or_insert((u.value, part.first, offset));
                if place + words <= function.values[whole].words {
                    let hint = Hint::Packed { whole, offset: place, reserves: false };
                    self.by_value[u.value.index()].get_or_insert(hint);
                }
            }
            offset += u.part.map_or(words, |p| p.count);
        }
    }

    /// The arguments of a call that die there, and results of the function, want their registers.
    fn hint_abi_args(&mut self, function: &Function, by: Inst, is_killed: impl Fn(&Value) -> bool) {
        let Some(fixed) = function.fixed.get(&by) else { return };
        for (arg, register) in function.insts[by].args.iter().zip(&fixed.args) {
            if let Arg::Use(Use { value, part: None, .. }) = arg
                && is_killed(value)
            {
                self.by_value[value.index()] = Some(Hint::Abi(*register));
            }
        }
    }

    /// A value whose last copy wants a register of the convention wants it, too.
    fn hint_copied(&mut self, inst: &InstData, is_killed: impl Fn(&Value) -> bool) {
        let (Some(copy), Some(Arg::Use(source))) = (inst.results.first(), inst.args.first()) else { return };
        let Some(Hint::Abi(register)) = self.by_value[copy.index()] else { return };
        let first = register.checked_sub(source.part.map_or(0, |part| part.first));
        let hint = &mut self.by_value[source.value.index()];
        if is_killed(&source.value) && hint.is_none() {
            *hint = first.map(Hint::Abi);
        }
    }

    /// The operands that die at the definition of a value get its hint.
    fn hint_operands(
        &mut self,
        function: &Function,
        inst: &InstData,
        hint: Hint,
        is_killed: impl Fn(&Value) -> bool,
    ) {
        // A window for a pack is kept free from its first word on: one operand is enough.
        let mut left = if let Hint::Packed { reserves: true, .. } = hint { 1 } else { usize::MAX };
        let shape = function.values[inst.results[0]];
        let else_values = inst.guard.iter().flat_map(|g| &g.else_values).copied();
        for value in else_values.chain(inst.uses()) {
            let takes = function.values[value] == shape && is_killed(&value);
            if left > 0 && takes && self.by_value[value.index()].is_none() {
                self.by_value[value.index()] = Some(hint);
                left -= 1;
            }
        }
    }

    /// The hint of a run of words that are contiguous in one pack.
    fn common_pack_hint(&self, words: &[Value]) -> Option<Hint> {
        let hint = |v: &Value| match self.by_value[v.index()] {
            Some(Hint::Packed { whole, offset, .. }) => Some((whole, offset)),
            _ => None,
        };
        let (whole, first) = hint(words.first()?)?;
        let in_order = |(i, v): (usize, &Value)| hint(v) == Some((whole, first + i as u8));
        let hint = Hint::Packed { whole, offset: first, reserves: true };
        words.iter().enumerate().all(in_order).then_some(hint)
    }

    /// The pack that a parameter is a word of, itself or through other parameters, and the place there.
    fn pack_of_param(&self, param: Value, depth: u32) -> Option<(Value, u8)> {
        let mut param = param;
        for _ in 0..depth {
            match self.by_value[param.index()]? {
                Hint::Packed { whole, offset, reserves } => return reserves.then_some((whole, offset)),
                Hint::Param { param: next, .. } => param = next,
                Hint::Unpacked { .. } | Hint::Abi(_) => return None,
            }
        }
        None
    }

    /// The parameter that a value is an argument of.
    pub fn param(&self, value: Value) -> Option<Value> {
        match self.by_value[value.index()]? {
            Hint::Param { param, .. } => Some(param),
            Hint::Packed { .. } | Hint::Unpacked { .. } | Hint::Abi(_) => None,
        }
    }
}

impl Hints {
    pub fn begin_block(&mut self, rpo_index: u32) {
        self.pending_packs.clear();
        self.latch_writes.clear();
        self.next_values.retain(|next| next.latch >= rpo_index);
    }

    /// The values that each instruction of a block kills.
    pub fn set_deaths(&mut self, block: Block, killed: &[Killed]) {
        if !self.next_values.is_empty() {
            for (position, killed) in killed.iter().enumerate() {
                killed.iter().for_each(|v| self.death[v.index()] = (Some(block), position as u32));
            }
        }
    }

    pub fn is_read_late(&self, value: Value) -> bool {
        !self.latch_writes.is_empty() && self.read_late.contains(value)
    }

    /// A value has got its register.
    pub fn assigned(&mut self, value: Value, reg: u8) {
        self.pending_packs.retain(|(whole, _)| *whole != value);
        if let Some(Hint::Param { param, direct: true }) = self.by_value[value.index()] {
            self.target_reg[param.index()].get_or_insert(reg);
        }
    }
}

pub fn is_memory_access(op: sass::Op) -> bool {
    let class = sass::Form::of(op).first().map(|form| form.class);
    matches!(class, Some(Class::Load | Class::Store))
}

/// The values of R that memory accesses read.
fn read_late(function: &Function, cfg: &Cfg) -> ValueSet {
    let mut read_late = ValueSet::new(function.values.len());
    for inst in cfg.order.iter().flat_map(|b| &function.blocks[*b].insts).map(|i| &function.insts[*i]) {
        let Op::Machine(op) = inst.op else { continue };
        if is_memory_access(op) {
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

    pub(super) fn latch_writes(&self) -> RegSet {
        let mut all = RegSet::default();
        self.hints.latch_writes.iter().for_each(|window| all.add(RegSet::range(window.clone())));
        all
    }

    /// The registers that are reserved for the results of packs.
    pub(super) fn reserved_for_packs(&self, file: File) -> RegSet {
        let mut all = RegSet::default();
        for (whole, window) in &self.hints.pending_packs {
            if self.function.values[*whole].file == file {
                all.add(RegSet::range(window.clone()));
            }
        }
        all
    }

    /// Reserves the registers of a loop's parameters for their next values.
    pub(super) fn reserve_for_next_values(&mut self, header: Block) {
        for &latch in &self.cfg.preds[header.index()] {
            let latch_index = self.rpo_index[latch.index()];
            if latch_index < self.rpo_index[header.index()] || latch_index == u32::MAX {
                continue;
            }
            let edges = self.function.blocks[latch].end.edges();
            let edge = edges.iter().find(|e| e.to == header);
            let params = &self.function.blocks[header].params;
            for (param, arg) in edge.into_iter().flat_map(|e| params.iter().zip(&e.args)) {
                let words = self.function.values[*param].words;
                if let (File::R, Some(reg)) =
                    (self.function.values[*param].file, self.assigned[param.index()])
                {
                    self.reserve_for_next_value(*arg, RegSet::of(reg, words.into()), (header, latch));
                    self.reserve_for_packed_words(*arg, reg, (header, latch));
                }
            }
        }
    }

    /// Reserves registers for a value that a latch passes to a loop's parameter: where it is defined, or at the end of the
    /// latch if it is defined before the body.
    fn reserve_for_next_value(&mut self, value: Value, registers: RegSet, (header, latch): (Block, Block)) {
        // A word is there from where its tuple is defined.
        let unpack = self.definition[value.index()].map(|inst| &self.function.insts[inst]);
        let unpack = unpack.filter(|data| data.op == Op::Pseudo(Pseudo::Unpack));
        let value = unpack.and_then(|data| data.uses().next()).unwrap_or(value);
        let Some(block) = self.def_block[value.index()] else { return };
        if self.hints.next_values.len() >= self.tuning.regalloc_next_values as usize {
            return;
        }
        let start = self.rpo_index[header.index()];
        let is_in_body = self.rpo_index[block.index()] >= start && self.param_block(value) != Some(header);
        let (block, position) = match is_in_body {
            true => (block, self.def_position[value.index()]),
            false => (latch, u32::MAX - 1),
        };
        let latch = self.rpo_index[latch.index()];
        self.hints.next_values.push(NextValue { registers, block, position, latch });
    }

    /// The same for the words that it is packed of.
    fn reserve_for_packed_words(&mut self, value: Value, reg: u8, back_edge: (Block, Block)) {
        let definition = self.definition[value.index()].map(|inst| &self.function.insts[inst]);
        let Some(pack) = definition.filter(|data| data.op == Op::Pseudo(Pseudo::Pack)) else { return };
        let mut offset = 0;
        for arg in &pack.args {
            let Arg::Use(u) = arg else { return };
            let words = u.part.map_or(self.function.values[u.value].words, |p| p.count);
            if u.part.is_none() {
                self.reserve_for_next_value(u.value, RegSet::of(reg + offset, words.into()), back_edge);
            }
            offset += words;
        }
    }

    /// The registers that are not free for the whole live range of a value: calls clobber them, or the next values of
    /// loops' parameters want them. If that leaves none, calls in cold blocks don't count (`only_hot`).
    pub(super) fn contended_regs(&self, value: Value, only_hot: bool) -> RegSet {
        let mut all = RegSet::default();
        let clobbered = self.hints.clobbered.get(&value).copied().unwrap_or_default();
        all.add(if only_hot { clobbered.hot } else { clobbered.all });
        if self.function.values[value].file != File::R {
            return all;
        }
        let here = self.rpo_index[self.block.index()];
        let (death_block, death) = self.hints.death[value.index()];
        let death = if death_block == Some(self.block) { death } else { u32::MAX };
        for next in &self.hints.next_values {
            let overlaps = match next.block == self.block {
                true => next.position > self.position && death > next.position,
                false => {
                    self.rpo_index[next.block.index()] > here
                        && self.live.live_in[next.block.index()].contains(value)
                }
            };
            if overlaps {
                all.add(next.registers);
            }
        }
        all
    }

    /// A free register that saves a move, if there is one.
    pub(super) fn hinted_reg(&mut self, value: Value) -> Option<u8> {
        let fits = |a: &Self, reg: u8| a.is_available(value, reg).then_some(reg);
        match self.hints.by_value[value.index()]? {
            Hint::Param { param, .. } => match self.target_reg(param) {
                Some(reg) => fits(self, reg),
                None => {
                    let (whole, offset) = self.hints.pack_of_param(param, self.tuning.regalloc_hint_depth)?;
                    self.reg_in_new_window(value, whole, offset)
                }
            },
            Hint::Packed { whole, offset, reserves } => {
                if let Some(&(part, ..)) = self.hints.packed_parts.get(&whole)
                    && part != value
                {
                    // What is defined before it leaves it its place.
                    self.assigned[part.index()]?;
                    return fits(self, self.window_of_part(whole)?.checked_add(offset)?);
                }
                if let Some(reg) = self.hints.target_reg[whole.index()] {
                    return fits(self, reg.checked_add(offset)?);
                }
                // The other words of the window may be free only later.
                let wanted = self.target_reg(whole).and_then(|reg| fits(self, reg.checked_add(offset)?));
                match wanted.is_some() || !reserves {
                    true => wanted,
                    false => self.reg_in_new_window(value, whole, offset),
                }
            }
            Hint::Unpacked { by } => self.reg_of_params(by).and_then(|reg| fits(self, reg)),
            Hint::Abi(reg) => {
                let words = self.function.values[value].words;
                let clobbered = self.hints.clobbered.get(&value).copied().unwrap_or_default();
                fits(self, reg).filter(|_| !clobbered.all.meets(RegSet::of(reg, words.into())))
            }
        }
    }

    /// The registers of a pack that has the place of a longer value of which it has a word.
    fn window_of_part(&self, whole: Value) -> Option<u8> {
        let &(value, first, offset) = self.hints.packed_parts.get(&whole)?;
        let window = self.assigned[value.index()]?.checked_add(first)?.checked_sub(offset)?;
        let alignment = self.function.values[whole].words.next_power_of_two().min(4);
        (window % alignment == 0).then_some(window)
    }

    /// The first register of the parameters that the words of an unpack are passed to, if these are contiguous.
    fn reg_of_params(&self, unpack: Inst) -> Option<u8> {
        let (mut first, mut offset) = (None, 0);
        for word in &self.function.insts[unpack].results {
            let reg = self.target_reg(self.hints.param(*word)?)?.checked_sub(offset)?;
            if *first.get_or_insert(reg) != reg {
                return None;
            }
            offset += self.function.values[*word].words;
        }
        first
    }

    /// Chooses and reserves a window for the result of a pack. Returns the register of the first word that gets one.
    fn reg_in_new_window(&mut self, value: Value, whole: Value, offset: u8) -> Option<u8> {
        let window = self.free_reg(whole)?;
        self.hints.target_reg[whole.index()] = Some(window);
        let words = usize::from(self.function.values[whole].words);
        self.hints.pending_packs.push((whole, usize::from(window)..usize::from(window) + words));
        let reg = window.checked_add(offset)?;
        self.is_available(value, reg).then_some(reg)
    }

    /// May a parameter of a loop have this register, or would the pack that it is a word of then take moves in each
    /// iteration? The first word that is asked for chooses the window, if the rest of it is free.
    pub(super) fn suits_pack(&mut self, param: Value, reg: u8) -> bool {
        let Some(Hint::Packed { whole, offset, reserves: true }) = self.hints.by_value[param.index()] else {
            return true;
        };
        let Some(window) = reg.checked_sub(offset) else { return false };
        if let Some(chosen) = self.target_reg(whole) {
            return chosen == window;
        }
        let fits = self.is_available(whole, window);
        if fits {
            self.hints.target_reg[whole.index()] = Some(window);
        }
        fits
    }

    /// The register that copies to a target want: its own, or the one that it wants itself.
    fn target_reg(&self, target: Value) -> Option<u8> {
        let (mut target, mut skipped) = (target, 0);
        for _ in 0..self.tuning.regalloc_hint_depth {
            let known = self.def_point[target.index()].map(|(_, _, reg)| reg);
            if let Some(reg) = known.or(self.hints.target_reg[target.index()]) {
                return reg.checked_add(skipped);
            }
            (target, skipped) = match self.hints.by_value[target.index()]? {
                Hint::Param { param, .. } => (param, skipped),
                Hint::Packed { whole, offset, .. } => (whole, skipped.checked_add(offset)?),
                Hint::Unpacked { .. } => return None,
                Hint::Abi(reg) => return reg.checked_add(skipped),
            };
        }
        None
    }
}

/// The registers that calls clobber within the live range of each general value and predicate that lives across any.
fn clobbered(function: &Function, (cfg, live): (&Cfg, &Liveness)) -> FxHashMap<Value, Clobbered> {
    let mut all: FxHashMap<Value, Clobbered> = FxHashMap::default();
    for &block in &cfg.order {
        let data = &function.blocks[block];
        let Some(first) = data.insts.iter().position(|inst| is_call(function, *inst)) else { continue };
        let mut live_now: FxHashSet<Value> =
            live.live_out[block.index()].iter().chain(data.end.uses()).collect();
        for inst in data.insts[first..].iter().rev() {
            function.insts[*inst].results.iter().for_each(|v| _ = live_now.remove(v));
            if is_call(function, *inst) {
                let (general, predicates) = calls::clobbered(function, *inst);
                for value in &live_now {
                    let registers = match function.values[*value].file {
                        File::R => general,
                        File::P => predicates,
                        _ => continue,
                    };
                    let clobbered = all.entry(*value).or_default();
                    clobbered.all.add(registers);
                    clobbered.hot.add(if data.cold { RegSet::default() } else { registers });
                }
            }
            function.insts[*inst].uses().for_each(|v| _ = live_now.insert(v));
        }
    }
    all
}

/// The maximal register pressure of each loop by its header, in words of R.
pub fn loop_pressures(function: &Function, cfg: &Cfg, live: &Liveness) -> FxHashMap<Block, u32> {
    let loops = LoopForest::new(cfg);
    let mut by_loop = FxHashMap::default();
    let mut live_now = ScratchSet::new(function.values.len());
    let words = |v: Value| {
        let data = function.values[v];
        if data.file == File::R { u32::from(data.words) } else { 0 }
    };
    for &block in &cfg.order {
        if let Some(id) = loops.innermost(block) {
            let most: &mut u32 = by_loop.entry(loops.get(id).header).or_default();
            *most = (*most).max(pressure(function, live, block, &words, &mut live_now));
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

fn pressure(
    function: &Function,
    live: &Liveness,
    block: Block,
    words: &dyn Fn(Value) -> u32,
    live_now: &mut ScratchSet,
) -> u32 {
    let data = &function.blocks[block];
    let at_end = &live.live_out[block.index()];
    live_now.set(at_end, function.values.len());
    let mut now: u32 = at_end.iter().map(words).sum();
    now += data.end.uses().filter(|v| live_now.insert(*v)).map(words).sum::<u32>();
    let mut most = now;
    for inst in data.insts.iter().rev() {
        let inst = &function.insts[*inst];
        for v in &inst.results {
            if live_now.remove(*v) {
                now -= words(*v);
            }
        }
        for v in inst.uses() {
            if live_now.insert(v) {
                now += words(v);
            }
        }
        most = most.max(now);
    }
    most
}
