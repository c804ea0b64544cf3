//! Uniform counterparts of loop-carried and loop-invariant words.
//!
//! In a convergent loop (`analysis/convergent_loops.rs`), a word from outside is moved to a uniform register once, in
//! the preheader. A block parameter gets a parallel uniform parameter if operations with uniform counterparts compute
//! all its arguments from inside the loop from such words. The counterparts are placed right after the originals.
//!
//! ```text
//! loop(v1):                         loop(v1, u1):
//!   u2 = R2UR v1             ==>      use u1
//!   v3 = IADD3 v1, v2, RZ             v3 = IADD3 v1, v2, RZ; u3 = UIADD3 u1, u0, URZ     u0 = R2UR v2 in the preheader
//!   jump loop(v3)                     jump loop(v3, u3)
//! ```
//!
//! The candidates are the greatest fixed point over the definitions in the loop.

use super::{uniform_args, uniform_form, uniform_value};
use crate::analysis::convergent_loops::ConvergentLoop;
use crate::analysis::known_bits::Definitions;
use crate::context::Context;
use crate::context::target::TargetMachine;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, File, Function, Inst, InstData, Op, Use, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::Op as Name;

pub struct LoopUniforms<'a> {
    convergent_loop: &'a ConvergentLoop,
    cfg: &'a Cfg,
    machine: &'static TargetMachine,
    definitions: &'a Definitions,
    /// The parameters of the loop's blocks: block and index.
    params: FxHashMap<Value, (Block, usize)>,
    /// Values that can be computed in uniform registers all around the loop.
    candidates: FxHashSet<Value>,
    /// The uniform counterparts of words so far, and how many of them are live all through the loop.
    pub known: FxHashMap<(Value, u8), Value>,
    regs_used: usize,
    /// The most of them; a loop with more invariant words moves them where they are read.
    max_regs: usize,
    /// Do the invariant words of the loop fit?
    invariants_fit: bool,
    /// Instructions for the end of the preheader, and after instructions of the loop.
    preheader_insts: Vec<Inst>,
    after: FxHashMap<Inst, Vec<Inst>>,
}

/// Placeholders of uniform operands, to look up forms.
struct Placeholders {
    word: Value,
    predicate: Value,
}

impl<'a> LoopUniforms<'a> {
    pub fn new(
        function: &mut Function,
        context: &Context,
        (cfg, definitions): (&'a Cfg, &'a Definitions),
        convergent_loop: &'a ConvergentLoop,
    ) -> LoopUniforms<'a> {
        let placeholders =
            Placeholders { word: function.value(File::UR, 1), predicate: function.value(File::UP, 1) };
        let mut params = FxHashMap::default();
        for &block in cfg.order.iter().filter(|b| convergent_loop.body[b.index()]) {
            let all = function.blocks[block].params.iter().enumerate();
            params.extend(all.map(|(index, param)| (*param, (block, index))));
        }
        let (known, after) = (FxHashMap::default(), FxHashMap::default());
        let (candidates, preheader_insts) = (FxHashSet::default(), Vec::new());
        let mut new = LoopUniforms {
            convergent_loop,
            cfg,
            machine: context.machine,
            definitions,
            params,
            candidates,
            known,
            regs_used: 0,
            max_regs: context.tuning.uniform_loop_registers as usize,
            invariants_fit: true,
            preheader_insts,
            after,
        };
        new.find_candidates(function, &placeholders);
        new.invariants_fit = new.invariant_words(function) <= new.max_regs;
        new
    }

    /// How many invariant words the loop moves to uniform registers; sums with a constant count as their base.
    fn invariant_words(&self, function: &Function) -> usize {
        let blocks = self.cfg.order.iter().filter(|b| self.convergent_loop.body[b.index()]);
        let insts = blocks.flat_map(|b| &function.blocks[*b].insts).map(|i| &function.insts[*i]);
        let moved = insts.filter(|data| data.op == Op::Machine(Name::R2UR)).flat_map(|data| data.uses());
        let base = |value: Value| match self.definitions.get(value.index()) {
            Some(Some((_, inst))) => base_of_sum(&function.insts[*inst]).unwrap_or(value),
            _ => value,
        };
        let outside = moved.filter(|v| self.is_outside(*v)).map(base);
        outside.collect::<FxHashSet<Value>>().len()
    }

    /// Greatest fixed point: starts with all operations that have a counterpart, removes those with other inputs.
    fn find_candidates(&mut self, function: &Function, placeholders: &Placeholders) {
        let is_word = |v: Value| function.values[v].file == File::R && function.values[v].words == 1;
        let mut worklist: Vec<Value> = self.params.keys().copied().filter(|p| is_word(*p)).collect();
        for &block in self.cfg.order.iter().filter(|b| self.convergent_loop.body[b.index()]) {
            for inst in &function.blocks[block].insts {
                let data = &function.insts[*inst];
                if self.has_uniform_counterpart(function, data, placeholders) {
                    worklist.extend(&data.results);
                }
            }
        }
        worklist.sort();
        self.candidates = worklist.iter().copied().collect();
        loop {
            let count = worklist.len();
            worklist.retain(|value| {
                let is_candidate =
                    self.sources(function, *value).iter().all(|u| self.is_candidate_use(function, u));
                if !is_candidate {
                    self.candidates.remove(value);
                }
                is_candidate
            });
            if worklist.len() == count {
                return;
            }
        }
    }

    /// Has the machine a uniform form of an operation, if all its operands are uniform?
    fn has_uniform_counterpart(
        &self,
        function: &Function,
        data: &InstData,
        placeholders: &Placeholders,
    ) -> bool {
        let of = |value: Value| match function.values[value].file {
            File::P => placeholders.predicate,
            _ => placeholders.word,
        };
        let results = data.results.iter().map(|v| of(*v)).collect();
        let one_word = data.results.iter().all(|v| function.values[*v].words == 1);
        let args = uniform_args(data, |u| Some(of(u.value)));
        one_word
            && args.is_some_and(|args| uniform_form(function, self.machine, data, results, args).is_some())
    }

    /// The operands of a value of the loop; for a parameter its arguments from inside the loop.
    fn sources(&self, function: &Function, value: Value) -> Vec<Use> {
        match (self.params.get(&value), self.definitions.get(value.index())) {
            (Some((block, index)), _) => {
                let preds =
                    self.cfg.preds[block.index()].iter().filter(|p| self.convergent_loop.body[p.index()]);
                let ends = preds.flat_map(|p| function.blocks[*p].end.edges());
                ends.filter(|e| e.to == *block).map(|e| Use::of(e.args[*index])).collect()
            }
            (None, Some(Some((_, inst)))) => {
                let uses = |arg: &Arg| if let Arg::Use(u) = arg { Some(*u) } else { None };
                function.insts[*inst].args.iter().filter_map(uses).collect()
            }
            _ => Vec::new(),
        }
    }

    fn is_candidate_use(&self, function: &Function, u: &Use) -> bool {
        self.candidates.contains(&u.value) || self.is_outside(u.value) && is_one_word(function, u)
    }

    /// Is a value defined outside of the loop?
    pub fn is_outside(&self, value: Value) -> bool {
        match self.definitions.get(value.index()) {
            Some(Some((block, _))) => !self.convergent_loop.body[block.index()],
            Some(None) => !self.params.contains_key(&value),
            None => false,
        }
    }

    /// The uniform counterpart of a word, if it can have one all through the loop.
    pub fn uniform(&mut self, function: &mut Function, word: (Value, u8)) -> Option<Value> {
        if let Some(known) = self.known.get(&word) {
            return Some(*known);
        }
        if self.regs_used >= self.max_regs {
            return None;
        }
        match self.is_outside(word.0) {
            true if !self.invariants_fit || function.values[word.0].file != File::R => None,
            true => Some(self.move_invariant(function, word)),
            false if self.candidates.contains(&word.0) => self.compute(function, word.0),
            false => None,
        }
    }

    /// Moves a word to a uniform register in the preheader.
    fn move_invariant(&mut self, function: &mut Function, word: (Value, u8)) -> Value {
        if let Some(known) = self.known.get(&word) {
            return *known;
        }
        let value = function.value(File::UR, 1);
        let data = InstData::new(Op::Machine(Name::R2UR), &[value], &[Arg::word(word.0, word.1)]);
        self.preheader_insts.push(function.insts.push(data));
        self.known.insert(word, value);
        self.regs_used += 1;
        value
    }

    /// The uniform counterpart of a candidate. All its operands are candidates or invariant.
    fn compute(&mut self, function: &mut Function, value: Value) -> Option<Value> {
        if let Some(known) = self.known.get(&(value, 0)) {
            return Some(*known);
        }
        if let Some(&(block, index)) = self.params.get(&value) {
            return self.add_param(function, value, block, index);
        }
        let (_, inst) = (*self.definitions.get(value.index())?)?;
        let data = function.insts[inst].clone();
        let args = uniform_args(&data, |u| self.uniform_use(function, u))?;
        // The recursion around the loop may have reached this value, too.
        if let Some(known) = self.known.get(&(value, 0)) {
            return Some(*known);
        }
        let results = data.results.iter().map(|v| uniform_value(function, *v)).collect();
        let new = uniform_form(function, self.machine, &data, results, args)?;
        let pairs = data.results.iter().zip(&new.results);
        pairs.for_each(|(old, new)| _ = self.known.insert((*old, 0), *new));
        self.after.entry(inst).or_default().push(function.insts.push(new));
        self.known.get(&(value, 0)).copied()
    }

    /// Adds a uniform parameter. It is recorded first, so that the recursion around the loop ends.
    fn add_param(
        &mut self,
        function: &mut Function,
        value: Value,
        block: Block,
        index: usize,
    ) -> Option<Value> {
        let param = function.value(File::UR, 1);
        self.known.insert((value, 0), param);
        self.regs_used += 1;
        let mut added: Vec<(Block, Vec<Value>)> = Vec::new();
        for &pred in &self.cfg.preds[block.index()] {
            let edges = function.blocks[pred].end.edges().into_iter().filter(|e| e.to == block);
            let args: Vec<Value> = edges.map(|e| e.args[index]).collect();
            let uniform: Option<Vec<Value>> =
                args.iter().map(|arg| self.uniform_use(function, &Use::of(*arg))).collect();
            added.push((pred, uniform?));
        }
        function.blocks[block].params.push(param);
        for (pred, uniform) in added {
            let edges = function.blocks[pred].end.edges_mut().into_iter().filter(|e| e.to == block);
            edges.zip(uniform).for_each(|(edge, value)| edge.args.push(value));
        }
        Some(param)
    }

    fn uniform_use(&mut self, function: &mut Function, u: &Use) -> Option<Value> {
        match self.is_outside(u.value) {
            true => Some(self.move_invariant(function, (u.value, u.part.map_or(0, |p| p.first)))),
            false => self.compute(function, u.value),
        }
    }

    /// Inserts the new instructions.
    pub fn insert_code(mut self, function: &mut Function) {
        function.blocks[self.convergent_loop.preheader].insts.append(&mut self.preheader_insts);
        for &block in self.cfg.order.iter().filter(|b| self.convergent_loop.body[b.index()]) {
            let with_uniform = |inst: Inst| {
                let after = self.after.get(&inst).into_iter().flatten().copied();
                std::iter::once(inst).chain(after)
            };
            let insts = std::mem::take(&mut function.blocks[block].insts);
            function.blocks[block].insts = insts.into_iter().flat_map(with_uniform).collect();
        }
    }
}

/// The operand that an operation adds a constant to.
pub fn base_of_sum(data: &InstData) -> Option<Value> {
    match (data.op, &data.args[..]) {
        (Op::Machine(Name::IADD3), [Arg::Use(u), Arg::Imm(_), Arg::Zero(_)]) => Some(u.value),
        _ => None,
    }
}

/// Is it one word of general registers?
fn is_one_word(function: &Function, u: &Use) -> bool {
    let data = function.values[u.value];
    data.file == File::R && u.part.map_or(data.words, |p| p.count) == 1
}
