//! Rewrites on SSA: constants, copies of words, common subexpressions, and the patterns of `opt/combine/rules.rs`.
//!
//! One walk over the blocks in reverse post-order, so that a definition is rewritten before its uses. What an operation
//! computes comes from `ori::eval` alone; whether the machine has a form for what a rewrite makes is asked of the table
//! of forms. Each rewrite costs fuel. Order and effects of what is no function of its arguments never change.

mod bounds;
mod constants;
mod floats;
mod loads;
mod rules;
mod vectors;

pub use constants::Known;

use crate::analysis::effects::is_function;
use crate::analysis::known_bits;
use crate::codegen::legalize;
use crate::context::target::TargetMachine;
use crate::context::{Context, Fuel, Tuning};
use crate::opt::simplify;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, File, Function, Guard, Inst, InstData, Op, Part, Pseudo, Terminator, Use, Value};
use rustc_hash::FxHashMap;
use sass::M;
use smallvec::{SmallVec, smallvec};

/// Rewrites of one instruction before it is left as it is.
const ROUNDS: usize = 8;
/// Values of more words are accumulators of products: each has registers of its own.
const WIDEST_SHARED: u8 = 4;

pub fn run(function: &mut Function, context: &mut Context) -> crate::context::PassResult {
    let cfg = Cfg::new(function);
    let mut combine = Combine::new(function, context, &cfg);
    for &block in &cfg.order {
        combine.block(block);
    }
    simplify::run(function)
}

/// What makes two instructions the same: operation, modifiers, arguments, and the shape of the results.
type Key = (Op, SmallVec<[M; 4]>, SmallVec<[Arg; 6]>, SmallVec<[(File, u8); 2]>, Option<Guard>);

/// What a rule makes of an instruction.
enum Rewrite {
    /// Its only result is this value.
    Same(Value),
    /// It becomes another one, with the same results.
    Become(Box<InstData>),
    /// An earlier instruction gives its result, and keeps this value where its guard is false.
    Absorb { by: Inst, else_values: Value },
}

struct Combine<'a> {
    function: &'a mut Function,
    machine: &'static TargetMachine,
    tuning: Tuning,
    fuel: &'a mut Fuel,
    cfg: &'a Cfg,
    /// What each value was found to be the same as.
    same: Vec<Value>,
    /// The bits of values that are known.
    known: Vec<Option<u64>>,
    definition: Vec<Option<Inst>>,
    /// Parameters of loops: how many of their lowest bits are zero.
    multiples: FxHashMap<Value, u32>,
    /// When each value was come to: of two that dominate a place, the lower number dominates the other.
    serial: Vec<u32>,
    now: u32,
    /// How often each value is used. Rewrites only make it less.
    uses: Vec<u32>,
    seen: FxHashMap<Key, SmallVec<[(Block, Inst); 1]>>,
    /// Loads, and when they were come to; when memory was last written; when the block began.
    loads: FxHashMap<Key, (Inst, u32)>,
    written: u32,
    begun: u32,
    block: Block,
    out: Vec<Inst>,
}

impl<'a> Combine<'a> {
    fn new(function: &'a mut Function, context: &'a mut Context, cfg: &'a Cfg) -> Combine<'a> {
        let count = function.values.len();
        Combine {
            same: function.values.keys().collect(),
            known: vec![None; count],
            definition: vec![None; count],
            multiples: known_bits::multiples(function, cfg, context.tuning.known_bits_depth),
            serial: vec![0; count],
            now: 0,
            uses: function.use_counts(cfg.order.iter().copied()),
            seen: FxHashMap::default(),
            loads: FxHashMap::default(),
            written: 0,
            begun: 0,
            block: Function::ENTRY,
            out: Vec::new(),
            machine: context.machine,
            tuning: context.tuning,
            fuel: &mut context.fuel,
            function,
            cfg,
        }
    }

    fn block(&mut self, block: Block) {
        self.block = block;
        (self.begun, self.written) = (self.now + 1, self.now + 1);
        vectors::merge(self.function, block, &mut self.uses, self.fuel);
        self.grow();
        for inst in std::mem::take(&mut self.function.blocks[block].insts) {
            self.inst(inst);
        }
        self.function.blocks[block].insts = std::mem::take(&mut self.out);
        let mut end = std::mem::replace(&mut self.function.blocks[block].end, Terminator::Exit);
        if let Terminator::Branch { predicate, negated, yes, no, .. } = &mut end {
            *predicate = self.find(*predicate);
            if let Some(bits) = self.known[predicate.index()]
                && self.fuel.burn()
            {
                let taken = if (bits != 0) != *negated { yes } else { no };
                end = Terminator::Jump(taken.clone());
            }
        }
        for edge in end.edges_mut() {
            edge.args.iter_mut().for_each(|a| *a = self.find(*a));
        }
        self.function.blocks[block].end = end;
    }

    fn inst(&mut self, inst: Inst) {
        let mut data = self.function.insts[inst].clone();
        data.map_uses(|value| self.find(value));
        for _ in 0..ROUNDS {
            if self.settles_guard(&mut data) {
                return;
            }
            self.take_words(&mut data);
            self.take_constants(&mut data);
            self.take_signs(&mut data);
            match rules::apply(self, &data) {
                Some(Rewrite::Same(value)) => return self.same[data.results[0].index()] = value,
                Some(Rewrite::Absorb { by, else_values }) => {
                    return self.absorb(by, data.results[0], else_values);
                }
                Some(Rewrite::Become(new)) => data = *new,
                None => break,
            }
        }
        self.keep_constants(&mut data);
        self.evaluate(&data);
        if !self.find_earlier(&data, inst) && !self.find_loaded(&data, inst) {
            self.function.insts[inst] = data;
            self.add(inst);
        }
    }

    /// Appends an instruction to the block.
    fn add(&mut self, inst: Inst) {
        self.now += 1;
        for result in &self.function.insts[inst].results {
            self.definition[result.index()] = Some(inst);
            self.serial[result.index()] = self.now;
        }
        self.out.push(inst);
    }

    /// A new instruction with one result in R, before the current one.
    fn emit(&mut self, op: Op, words: u8, args: &[Arg], at: u32) -> Value {
        let result = self.function.value(File::R, words);
        self.grow();
        let args = SmallVec::from_slice(args);
        let results = smallvec![result];
        self.append(InstData { op, modifiers: smallvec![], results, args, guard: None, at });
        result
    }

    fn append(&mut self, data: InstData) {
        let inst = self.function.insts.push(data);
        self.add(inst);
    }

    /// Makes room for what is known of new values.
    fn grow(&mut self) {
        for value in self.same.len()..self.function.values.len() {
            self.same.push(Value::new(value));
            self.known.push(None);
            self.definition.push(None);
            self.serial.push(0);
        }
        self.uses.resize(self.function.values.len(), 1);
    }

    /// The value of two words with these, which was there before or is put together now.
    fn packed(&mut self, words: &[Arg; 2], at: u32) -> Value {
        let shape = smallvec![(File::R, 2)];
        let key = (Op::Pseudo(Pseudo::Pack), smallvec![], SmallVec::from_slice(words), shape, None);
        if let Some(found) = self.earlier(&key) {
            return self.function.insts[found].results[0];
        }
        let value = self.emit(Op::Pseudo(Pseudo::Pack), 2, words, at);
        if let Some(inst) = self.definition[value.index()] {
            self.seen.entry(key).or_default().push((self.block, inst));
        }
        value
    }

    /// The result of a guarded instruction becomes another value.
    fn absorb(&mut self, by: Inst, result: Value, mut else_value: Value) {
        // A constant of its own stands right before it, whenever that was made.
        if let Some(bits) = self.known[else_value.index()]
            && let Some(own) = self.constant_value(bits, self.function.values[else_value].words, 0)
            && let (Some(constant), Some(place)) = (self.out.pop(), self.out.iter().rposition(|i| *i == by))
        {
            self.out.insert(place, constant);
            else_value = own;
        }
        let data = &mut self.function.insts[by];
        let before = std::mem::replace(&mut data.results, smallvec![result]);
        if before.iter().any(|v| self.function.awaited.contains(v)) {
            self.function.awaited.push(result);
        }
        let data = &mut self.function.insts[by];
        if let Some(guard) = &mut data.guard {
            guard.else_values = smallvec![else_value];
        }
        self.definition[result.index()] = Some(by);
        self.serial[result.index()] = before.first().map_or(self.now, |v| self.serial[v.index()]);
    }

    fn find(&self, mut value: Value) -> Value {
        while self.same[value.index()] != value {
            value = self.same[value.index()];
        }
        value
    }

    /// A guard that is known goes away, or the whole instruction does.
    fn settles_guard(&mut self, data: &mut InstData) -> bool {
        let Some(guard) = &data.guard else { return false };
        let Some(bits) = self.known[guard.predicate.index()] else { return false };
        if !self.fuel.burn() {
            return false;
        }
        let holds = (bits != 0) != guard.negated;
        if !holds {
            for (result, kept) in data.results.iter().zip(&guard.else_values) {
                self.same[result.index()] = *kept;
            }
        }
        data.guard = None;
        !holds
    }

    /// A word of something that was put together is the word that went in.
    fn take_words(&mut self, data: &mut InstData) {
        if matches!(data.op, Op::Pseudo(Pseudo::Landed | Pseudo::Call | Pseudo::Leave)) {
            return;
        }
        for arg in &mut data.args {
            let Arg::Use(u) = arg else { continue };
            // Some operations name the words of a uniform value one by one, and rely on their being neighbours.
            if self.function.values[u.value].file != File::R {
                continue;
            }
            while let Some((value, part)) = self.source(u)
                && self.fuel.burn()
            {
                (u.value, u.part) = (value, part);
            }
        }
    }

    /// Where the words of a use come from: a piece of a `Pack`, or what a `Copy` of a pair was made of.
    fn source(&self, u: &Use) -> Option<(Value, Option<Part>)> {
        let definition = self.define(u.value)?;
        match (definition.op, u.part) {
            (Op::Pseudo(Pseudo::Pack), Some(part)) => {
                let mut first = 0;
                for piece in &definition.args {
                    let Arg::Use(piece) = piece else { return None };
                    let words = self.words(piece);
                    if part.first >= first && part.first + part.count <= first + words {
                        let inner = Part { first: part.first - first, count: part.count };
                        return piece.is_plain().then(|| self.piece(piece, inner));
                    }
                    first += words;
                }
                None
            }
            (Op::Pseudo(Pseudo::Copy), part) => match &definition.args[..] {
                [Arg::Use(of)] if of.is_plain() && self.function.values[of.value].words <= 2 => {
                    let part = part.unwrap_or(Part { first: 0, count: self.words(of) });
                    Some(self.piece(of, part))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Some words of a use.
    fn piece(&self, of: &Use, part: Part) -> (Value, Option<Part>) {
        let first = of.part.map_or(0, |p| p.first) + part.first;
        let whole = first == 0 && part.count == self.function.values[of.value].words;
        (of.value, (!whole).then_some(Part { first, count: part.count }))
    }

    fn words(&self, u: &Use) -> u8 {
        u.part.map_or(self.function.values[u.value].words, |p| p.count)
    }

    /// The unguarded instruction that defines a value, if it was come to.
    fn define(&self, value: Value) -> Option<&InstData> {
        let data = &self.function.insts[self.definition[value.index()]?];
        data.guard.is_none().then_some(data)
    }

    /// If the same was computed before on every way here, that is taken.
    fn find_earlier(&mut self, data: &InstData, inst: Inst) -> bool {
        let Some(key) = self.key(data) else { return false };
        match self.earlier(&key).filter(|_| self.fuel.burn()) {
            Some(found) => {
                let values = self.function.insts[found].results.clone();
                for (result, value) in data.results.iter().zip(values) {
                    self.same[result.index()] = value;
                }
                true
            }
            None => {
                self.seen.entry(key).or_default().push((self.block, inst));
                false
            }
        }
    }

    /// What an instruction has in common with others that compute the same.
    fn key(&self, data: &InstData) -> Option<Key> {
        let shape = |v: &Value| (self.function.values[*v].file, self.function.values[*v].words);
        let shapes: SmallVec<[(File, u8); 2]> = data.results.iter().map(shape).collect();
        if let Some(bits) = loads::uniform_constant(self, data) {
            return Some((data.op, smallvec![], smallvec![Arg::Imm(bits as i64)], shapes, None));
        }
        let ordinary =
            |(file, words): &(File, u8)| matches!(file, File::R | File::P) && *words <= WIDEST_SHARED;
        let narrow = |v: Value| self.function.values[v].words <= WIDEST_SHARED;
        let is_shared = is_function(data)
            && shapes.iter().all(ordinary)
            && (data.op != Op::Pseudo(Pseudo::Unpack) || data.uses().all(narrow));
        is_shared.then(|| (data.op, data.modifiers.clone(), data.args.clone(), shapes, data.guard.clone()))
    }

    /// The latest such instruction on the way here.
    fn earlier(&self, key: &Key) -> Option<Inst> {
        // A constant is as cheap as a register that is occupied for long.
        let near = key.2.iter().all(|a| matches!(a, Arg::Imm(_) | Arg::Zero(_)));
        let here = self.block;
        let reaches = |(b, _): &&(Block, Inst)| *b == here || !near && self.cfg.dominates(*b, here);
        self.seen.get(key)?.iter().rev().find(reaches).map(|(_, i)| *i)
    }

    fn is_legal(&self, data: &InstData) -> bool {
        legalize::is_legal(self.function, self.machine, data)
    }
}

#[cfg(test)]
pub(crate) mod tests;
