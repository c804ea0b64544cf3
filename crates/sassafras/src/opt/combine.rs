//! Instruction combining on SSA: constant folding, copy propagation, common subexpression elimination, redundant load
//! elimination, folding of branch conditions implied by dominating branches, and the peephole rules of
//! `combine/rules.rs`.
//!
//! One walk over the blocks in reverse post-order, so that a definition is rewritten before its uses. Expressions are
//! value-numbered in a scoped hash table, in which dominating expressions are available (Briggs, Cooper, Simpson,
//! "Value Numbering"). The semantics of operations come only from `ori::eval`; the table of forms decides whether the
//! machine has a form for the result of a rule.
//!
//! ```text
//! v2 = MOV 0x4                           v3 = IMAD v0, v1, 0x4
//! v3 = IMAD v0, v1, RZ              →
//! v4 = IADD3 v3, v2, RZ                  (uses of v4 read v3)
//! ```
//!
//! Each instruction is rewritten at most `combine_rewrites` times. Dead definitions and trivial parameters are left to
//! `dce` and `simplify`. Effects keep their order. Each rewrite costs fuel. Cost: linear, times the number of rewrites
//! per instruction.

mod bitwise;
mod bounds;
mod carries;
mod conditions;
mod constants;
mod contract;
mod expressions;
mod floats;
mod halves;
mod identities;
mod loads;
mod offsets;
mod products;
mod rules;
mod selects;
mod shifts;
mod vectors;

use crate::analysis::effects::is_function;
use crate::analysis::known_bits;
use crate::codegen::legalize;
use crate::context::target::TargetMachine;
use crate::context::{Context, Fuel, PassResult, Tuning};
use conditions::Conditions;
use expressions::{Expressions, Key, PAIR};
use ori::entity::Entity;
use ori::function::ValueData;
use ori::{
    Arg, Block, Cfg, Change, File, Function, Inst, InstData, Op, Part, Pseudo, Terminator, Use, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let rewrites = context.fuel.used();
    let mut combine = Combine::new(function, context, &cfg);
    for &block in &cfg.order {
        combine.visit_block(block);
    }
    let folded = Change::ControlFlow.when(combine.folded_branch);
    Ok(folded.max(Change::Instructions.when(context.fuel.used() != rewrites)))
}

/// What a rule makes of an instruction.
enum Rewrite {
    /// Its only result is this value.
    Value(Value),
    /// Another instruction with the same results.
    Inst(Box<InstData>),
    /// An earlier guarded instruction defines its result, with another else value.
    DefineBy { inst: Inst, else_value: Value },
}

struct Combine<'a> {
    function: &'a mut Function,
    machine: &'static TargetMachine,
    tuning: Tuning,
    fuel: &'a mut Fuel,
    cfg: &'a Cfg,
    /// The value that each value was found to be equal to.
    equal_to: Vec<Value>,
    /// The bits of constants.
    known: Vec<Option<u64>>,
    conditions: Conditions,
    definition: Vec<Option<Inst>>,
    /// Parameters of loops: how many of their lowest bits are zero.
    multiples: FxHashMap<Value, u32>,
    /// Values that back edges pass, and their words.
    next_values: FxHashSet<Value>,
    /// When each value was visited: of two that dominate a program point, the lower number dominates the other.
    visited_at: Vec<u32>,
    clock: u32,
    /// Use counts. Rewrites only lower them.
    uses: Vec<u32>,
    /// Pairs whose upper word is read, by value.
    upper_word_reads: Vec<bool>,
    /// Uses of float products by sums that they may be contracted with: see `contract.rs`.
    contracted_uses: FxHashMap<Value, u32>,
    /// The instructions that compute each expression, and their blocks.
    expressions: Expressions,
    available: Vec<SmallVec<[(Block, Inst); 1]>>,
    /// Loads, and when they were visited; when memory was last clobbered; when the block began.
    loads: Expressions,
    available_loads: Vec<(Inst, u32)>,
    clobbered_at: u32,
    block_start: u32,
    block: Block,
    /// Was a load of a constant bank visited that may be loaded again?
    has_bank_loads: bool,
    folded_branch: bool,
    out: Vec<Inst>,
}

impl<'a> Combine<'a> {
    fn new(function: &'a mut Function, context: &'a mut Context, cfg: &'a Cfg) -> Combine<'a> {
        let count = function.values.len();
        Combine {
            equal_to: function.values.keys().collect(),
            known: vec![None; count],
            conditions: Conditions::default(),
            definition: vec![None; count],
            multiples: known_bits::multiples(function, cfg, context.tuning.known_bits_depth),
            next_values: next_values(function, cfg),
            visited_at: vec![0; count],
            clock: 0,
            uses: function.use_counts(cfg.order.iter().copied()),
            upper_word_reads: upper_word_reads(function, cfg),
            contracted_uses: contract::uses(function, cfg),
            expressions: Expressions::default(),
            available: Vec::new(),
            loads: Expressions::default(),
            available_loads: Vec::new(),
            clobbered_at: 0,
            block_start: 0,
            block: Function::ENTRY,
            has_bank_loads: false,
            folded_branch: false,
            out: Vec::new(),
            machine: context.machine,
            tuning: context.tuning,
            fuel: &mut context.fuel,
            function,
            cfg,
        }
    }

    /// Is it the next value of a loop that the block comes after? Sums with it are not sums with the value before it,
    /// which would be live after the loop as well, and the two in different registers.
    fn is_from_loop(&self, value: Value) -> bool {
        self.next_values.contains(&value) && self.visited_at[value.index()] < self.block_start
    }

    fn visit_block(&mut self, block: Block) {
        self.block = block;
        (self.block_start, self.clobbered_at) = (self.clock + 1, self.clock + 1);
        self.learn_condition(block);
        vectors::merge(self.function, block, &mut self.uses, self.fuel);
        self.grow_tables();
        for inst in std::mem::take(&mut self.function.blocks[block].insts) {
            self.visit(inst);
        }
        self.function.blocks[block].insts = std::mem::take(&mut self.out);
        let mut end = std::mem::replace(&mut self.function.blocks[block].end, Terminator::Exit);
        if let Terminator::Branch { predicate, negated, yes, no, .. } = &mut end {
            *predicate = self.find(*predicate);
            if let Some(holds) = self.known_predicate(*predicate)
                && self.fuel.burn()
            {
                let taken = if holds != *negated { yes } else { no };
                end = Terminator::Jump(taken.clone());
                self.folded_branch = true;
            }
        }
        if let Terminator::Switch(switch) = &mut end {
            switch.index = self.find(switch.index);
            let known = self.known[switch.index.index()].and_then(|bits| switch.taken(bits as u32));
            let is_only = |edge: &&ori::Edge| switch.edges.iter().all(|other| other == *edge);
            let only = known.or(switch.edges.first().filter(is_only));
            if let Some(only) = only.cloned()
                && self.fuel.burn()
            {
                end = Terminator::Jump(only);
                self.folded_branch = true;
            }
        }
        for edge in end.edges_mut() {
            edge.args.iter_mut().for_each(|a| *a = self.find(*a));
        }
        self.function.blocks[block].end = end;
    }

    fn visit(&mut self, inst: Inst) {
        let mut data = self.function.insts[inst].clone();
        data.map_uses(|value| self.find(value));
        self.load_far_constants(&mut data);
        for _ in 0..self.tuning.combine_rewrites {
            if self.fold_guard(&mut data) {
                return;
            }
            self.forward_pack_operands(&mut data);
            self.fold_constant_operands(&mut data);
            self.fold_sign_modifiers(&mut data);
            match rules::apply(self, &data) {
                Some(Rewrite::Value(value)) => return self.equal_to[data.results[0].index()] = value,
                Some(Rewrite::DefineBy { inst, else_value }) => {
                    return self.define_by(inst, data.results[0], else_value);
                }
                Some(Rewrite::Inst(new)) => data = *new,
                None => break,
            }
        }
        self.materialize_else_constants(&mut data);
        self.evaluate(&data);
        // What is an expression accesses no memory.
        let is_eliminated = match self.expression_key(&data) {
            Some(key) => self.eliminate_common(&key, &data, inst),
            None => self.eliminate_load(&data, inst),
        };
        if !is_eliminated {
            self.function.insts[inst] = data;
            self.add(inst);
        }
    }

    /// Appends an instruction to the block.
    fn add(&mut self, inst: Inst) {
        self.clock += 1;
        let data = &self.function.insts[inst];
        self.has_bank_loads |= is_bank_load(data);
        for result in &data.results {
            self.definition[result.index()] = Some(inst);
            self.visited_at[result.index()] = self.clock;
        }
        if data.op == Op::Pseudo(Pseudo::Pack) && self.next_values.contains(&data.results[0]) {
            self.next_values.extend(data.uses());
        }
        self.out.push(inst);
    }

    /// A new instruction with one result in R, before the current one.
    fn emit(&mut self, op: Op, words: u8, args: &[Arg], at: u32) -> Value {
        let result = self.function.value(File::R, words);
        self.grow_tables();
        let args = SmallVec::from_slice(args);
        let results = smallvec![result];
        self.append(InstData { op, modifiers: smallvec![], results, args, guard: None, at });
        result
    }

    fn append(&mut self, data: InstData) {
        let inst = self.function.insts.push(data);
        self.add(inst);
    }

    /// Grows the tables for new values.
    fn grow_tables(&mut self) {
        for value in self.equal_to.len()..self.function.values.len() {
            self.equal_to.push(Value::new(value));
            self.known.push(None);
            self.definition.push(None);
            self.visited_at.push(0);
        }
        self.uses.resize(self.function.values.len(), 1);
        self.upper_word_reads.resize(self.function.values.len(), true);
    }

    /// The pack of two words, an available one or a new one.
    fn pack_pair(&mut self, words: &[Arg; 2], at: u32) -> Value {
        let key = Key::new(Op::Pseudo(Pseudo::Pack), &[], words.iter(), std::iter::once(PAIR), None);
        if let Some(found) = self.available_expression(&key) {
            return self.function.insts[found].results[0];
        }
        let value = self.emit(Op::Pseudo(Pseudo::Pack), 2, words, at);
        if let Some(inst) = self.definition[value.index()] {
            self.make_available(&key, inst);
        }
        value
    }

    /// Makes a guarded instruction define another value, with an else value.
    fn define_by(&mut self, inst: Inst, result: Value, mut else_value: Value) {
        // A constant is materialized right before it, wherever the old one is.
        if let Some(bits) = self.known[else_value.index()]
            && let Some(own) = self.materialize(bits, self.function.values[else_value].words, 0)
            && let (Some(constant), Some(index)) = (self.out.pop(), self.out.iter().rposition(|i| *i == inst))
        {
            self.out.insert(index, constant);
            else_value = own;
        }
        let data = &mut self.function.insts[inst];
        let before = std::mem::replace(&mut data.results, smallvec![result]);
        if before.iter().any(|v| self.function.awaited.contains(v)) {
            self.function.awaited.push(result);
        }
        let data = &mut self.function.insts[inst];
        if let Some(guard) = &mut data.guard {
            guard.else_values = smallvec![else_value];
        }
        self.definition[result.index()] = Some(inst);
        self.visited_at[result.index()] = before.first().map_or(self.clock, |v| self.visited_at[v.index()]);
        // A use of the old value may be left that is dead, but is still there.
        for old in before {
            let copy = InstData::new(Op::Pseudo(Pseudo::Copy), &[old], &[result.into()]);
            let copy = self.function.insts.push(copy);
            self.definition[old.index()] = Some(copy);
            let at = self.out.iter().rposition(|i| *i == inst).map_or(self.out.len(), |at| at + 1);
            self.out.insert(at, copy);
        }
    }

    fn find(&self, mut value: Value) -> Value {
        while self.equal_to[value.index()] != value {
            value = self.equal_to[value.index()];
        }
        value
    }

    /// Removes a constant guard, or the whole instruction; true if nothing is left of it.
    fn fold_guard(&mut self, data: &mut InstData) -> bool {
        let Some(guard) = &data.guard else { return false };
        let Some(bit) = self.known_predicate(guard.predicate) else { return false };
        if !self.fuel.burn() {
            return false;
        }
        let holds = bit != guard.negated;
        if !holds {
            for (result, else_value) in data.results.iter().zip(&guard.else_values) {
                self.equal_to[result.index()] = *else_value;
            }
        }
        data.guard = None;
        !holds
    }

    /// A part of a pack is the operand of the pack; a copy is its operand.
    fn forward_pack_operands(&mut self, data: &mut InstData) {
        if matches!(data.op, Op::Pseudo(Pseudo::Landed | Pseudo::Call | Pseudo::CallRoutine | Pseudo::Leave))
        {
            return;
        }
        for arg in &mut data.args {
            let Arg::Use(u) = arg else { continue };
            // Some operations name the words of a uniform value one by one, and rely on consecutive registers.
            if self.function.values[u.value].file != File::R {
                continue;
            }
            // All words of a value are the value: one name for it, so that equal expressions are equal.
            if u.part.is_some_and(|part| part.count == self.function.values[u.value].words) {
                u.part = None;
            }
            while let Some((value, part)) = self.operand_source(u)
                && self.fuel.burn()
            {
                (u.value, u.part) = (value, part);
            }
        }
    }

    /// The value and part that a use reads through a `Pack`, or through a `Copy` of up to two words.
    fn operand_source(&self, u: &Use) -> Option<(Value, Option<Part>)> {
        let definition = self.definition_of(u.value)?;
        match (definition.op, u.part) {
            (Op::Pseudo(Pseudo::Pack), Some(part)) => {
                let mut first = 0;
                for piece in &definition.args {
                    let Arg::Use(piece) = piece else { return None };
                    let words = self.words(piece);
                    if part.first >= first && part.first + part.count <= first + words {
                        let inner = Part { first: part.first - first, count: part.count };
                        return piece.is_plain().then(|| self.subrange(piece, inner));
                    }
                    first += words;
                }
                None
            }
            (Op::Pseudo(Pseudo::Copy), part) => match &definition.args[..] {
                [Arg::Use(of)] if of.is_plain() && self.function.values[of.value].words <= 2 => {
                    let part = part.unwrap_or(Part { first: 0, count: self.words(of) });
                    Some(self.subrange(of, part))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A part of what a use reads.
    fn subrange(&self, of: &Use, part: Part) -> (Value, Option<Part>) {
        let first = of.part.map_or(0, |p| p.first) + part.first;
        let whole = first == 0 && part.count == self.function.values[of.value].words;
        (of.value, (!whole).then_some(Part { first, count: part.count }))
    }

    fn words(&self, u: &Use) -> u8 {
        u.part.map_or(self.function.values[u.value].words, |p| p.count)
    }

    /// The unguarded instruction that defines a value, if it was visited.
    fn definition_of(&self, value: Value) -> Option<&InstData> {
        let data = &self.function.insts[self.definition[value.index()]?];
        data.guard.is_none().then_some(data)
    }

    /// Common subexpression elimination: takes the results of an available expression.
    fn eliminate_common(&mut self, key: &Key, data: &InstData, inst: Inst) -> bool {
        let number = self.number(key);
        let found = self.available(number, key).filter(|found| !self.is_far_constant(*found));
        match found.filter(|_| self.fuel.burn()) {
            Some(found) => {
                let values = self.function.insts[found].results.clone();
                for (result, value) in data.results.iter().zip(values) {
                    self.equal_to[result.index()] = value;
                    // A value for both keeps the rounding that one of them asks for.
                    if !self.function.contractable.contains(result) {
                        self.function.contractable.remove(&value);
                    }
                }
                true
            }
            None => {
                self.available[number].push((self.block, inst));
                false
            }
        }
    }

    /// Words of constant banks are loaded again where the first load is far above in the block.
    fn load_far_constants(&mut self, data: &mut InstData) {
        if !self.has_bank_loads {
            return;
        }
        for at in 0..data.args.len() {
            let Arg::Use(u) = data.args[at] else { continue };
            let Some(inst) = self.definition[u.value.index()].filter(|inst| self.is_far_constant(*inst))
            else {
                continue;
            };
            let mut load = self.function.insts[inst].clone();
            let Some(key) = self.expression_key(&load) else { continue };
            let latest = self.available_expression(&key).filter(|latest| !self.is_far_constant(*latest));
            let value = match latest {
                Some(latest) => self.function.insts[latest].results[0],
                None if self.fuel.burn() => {
                    let shape = self.function.values[u.value];
                    let value = self.function.value(shape.file, shape.words);
                    self.grow_tables();
                    (load.results, load.at) = (smallvec![value], data.at);
                    let inst = self.function.insts.push(load);
                    self.add(inst);
                    self.make_available(&key, inst);
                    value
                }
                None => return,
            };
            data.args[at] = Arg::Use(Use { value, ..u });
        }
    }

    /// Is it a load of a word of a constant bank, so far above in the block that another one is cheaper than a register for
    /// so long? Not of bank 0: addresses are computed from parameters, and known to be the same by their values.
    fn is_far_constant(&self, inst: Inst) -> bool {
        let data = &self.function.insts[inst];
        if !is_bank_load(data) || data.guard.is_some() {
            return false;
        }
        let loaded = data.results.first().map_or(0, |value| self.visited_at[value.index()]);
        loaded >= self.block_start && self.clock - loaded > self.tuning.load_elim_distance
    }

    /// `None` if an instruction is no expression whose results can be shared.
    fn expression_key(&self, data: &InstData) -> Option<Key> {
        let shapes = || data.results.iter().map(|v| self.function.values[*v]);
        if let Some(bits) = loads::uniform_constant(self, data) {
            return Some(Key::new(data.op, &[], [Arg::Imm(bits as i64)].iter(), shapes(), None));
        }
        let narrow = |words: u8| u32::from(words) <= self.tuning.cse_max_words;
        // A copy of a word that is an operand as a whole: an index into a constant bank.
        let is_word = data.op == Op::Pseudo(Pseudo::Copy)
            && data.guard.is_none()
            && matches!(data.args[..], [Arg::Use(u)] if u.is_plain() && u.part.is_some_and(|p| p.count == 1));
        let is_shared = (is_function(data) || is_word)
            && shapes().all(|shape| matches!(shape.file, File::R | File::P) && narrow(shape.words))
            && (data.op != Op::Pseudo(Pseudo::Unpack)
                || data.uses().all(|v| narrow(self.function.values[v].words)));
        is_shared.then(|| key_of_shapes(data, shapes()))
    }

    /// The latest instruction with this key that dominates the current one.
    fn available_expression(&self, key: &Key) -> Option<Inst> {
        self.available(self.expressions.find(key)?, key)
    }

    /// The same, of the expression with this number.
    fn available(&self, number: usize, key: &Key) -> Option<Inst> {
        // Rematerializing a constant is as cheap as a long live range.
        let (is_local, here) = (key.is_constant, self.block);
        let reaches = |(b, _): &&(Block, Inst)| *b == here || !is_local && self.cfg.dominates(*b, here);
        self.available[number].iter().rev().find(reaches).map(|(_, i)| *i)
    }

    /// An instruction of the current block computes an expression.
    fn make_available(&mut self, key: &Key, inst: Inst) {
        let number = self.number(key);
        self.available[number].push((self.block, inst));
    }

    /// The number of an expression, perhaps a new one.
    fn number(&mut self, key: &Key) -> usize {
        let (number, is_new) = self.expressions.add(key);
        if is_new {
            self.available.push(SmallVec::new());
        }
        number
    }

    /// An instruction that is about to change no longer computes what it did.
    fn make_unavailable(&mut self, inst: Inst) {
        let key = self.expression_key(&self.function.insts[inst]);
        if let Some(number) = key.and_then(|key| self.expressions.find(&key)) {
            self.available[number].retain(|(_, i)| *i != inst);
        }
    }

    fn is_legal(&self, data: &InstData) -> bool {
        legalize::is_legal(self.function, self.machine, data)
    }
}

/// Is it a load of a word of a constant bank other than bank 0?
fn is_bank_load(data: &InstData) -> bool {
    data.op == Op::Machine(sass::Op::LDC)
        && matches!(data.args[..], [Arg::Bank { bank: 1.., index: None, .. }])
}

/// The values that back edges pass, and the words of pairs among them.
fn next_values(function: &Function, cfg: &Cfg) -> FxHashSet<Value> {
    let is_back = |from: Block, to: Block| cfg.dominates(to, from);
    let edges = cfg.order.iter().flat_map(|b| function.blocks[*b].end.edges().into_iter().map(|e| (*b, e)));
    let mut values: FxHashSet<Value> =
        edges.filter(|(from, e)| is_back(*from, e.to)).flat_map(|(_, e)| e.args.iter().copied()).collect();
    if values.is_empty() {
        return values;
    }
    let is_pack = |data: &&InstData| data.op == Op::Pseudo(Pseudo::Pack) && values.contains(&data.results[0]);
    let packs = function.insts.keys().map(|i| &function.insts[i]).filter(is_pack);
    let words: Vec<Value> = packs.flat_map(InstData::uses).collect();
    values.extend(words);
    values
}

/// The values of which more than the lowest word is read. Packs of words that are read one by one are looked through by
/// what reads them.
fn upper_word_reads(function: &Function, cfg: &Cfg) -> Vec<bool> {
    let mut reads = vec![false; function.values.len()];
    for &block in &cfg.order {
        let data = &function.blocks[block];
        for inst in &data.insts {
            let data = &function.insts[*inst];
            for arg in &data.args {
                match arg {
                    Arg::Use(u) if u.part != Some(Part { first: 0, count: 1 }) => {
                        reads[u.value.index()] = true
                    }
                    Arg::Bank { index: Some(index), .. } => reads[index.index()] = true,
                    _ => {}
                }
            }
            if let Some(guard) = &data.guard {
                guard.else_values.iter().for_each(|v| reads[v.index()] = true);
            }
        }
        for edge in data.end.edges() {
            edge.args.iter().for_each(|v| reads[v.index()] = true);
        }
    }
    reads
}

/// The key of an expression whose results have these shapes, with commutative arguments in one order.
fn key_of_shapes(data: &InstData, shapes: impl Iterator<Item = ValueData>) -> Key {
    let guard = data.guard.as_ref();
    match &data.args[..] {
        [first, second, rest @ ..] if is_commutative(data) && order(second) < order(first) => {
            let args = [second, first].into_iter().chain(rest);
            Key::new(data.op, &data.modifiers, args, shapes, guard)
        }
        args => Key::new(data.op, &data.modifiers, args.iter(), shapes, guard),
    }
}

/// Is the result the same with the first two arguments swapped? They are values, so that both have any form.
fn is_commutative(data: &InstData) -> bool {
    use sass::Op::{DADD, DFMA, DMUL, FADD, FFMA, FMUL, IADD3, IMAD, LOP3};
    let values = matches!(data.args[..], [Arg::Use(_), Arg::Use(_), ..]);
    // In the truth table of LOP3 the first two arguments are bits 2 and 1 of the index.
    let symmetric = |table: i64| table >> 2 & 0b11 == table >> 4 & 0b11;
    values
        && match (data.op, data.args.get(3)) {
            (Op::Machine(LOP3), Some(Arg::Imm(table))) => symmetric(*table),
            (Op::Machine(op), _) => matches!(op, DADD | DFMA | DMUL | FADD | FFMA | FMUL | IADD3 | IMAD),
            _ => false,
        }
}

/// Any order of arguments.
fn order(arg: &Arg) -> (u32, u8, bool, bool, bool) {
    match arg {
        Arg::Use(u) => {
            let first = u.part.map_or(0, |p| p.first + 1);
            (u.value.index() as u32, first, u.negated, u.absolute, u.inverted)
        }
        _ => Default::default(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
