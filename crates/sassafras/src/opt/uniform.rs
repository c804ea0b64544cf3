//! Uniform datapath selection for wgmma descriptors and operands of tensor copies.
//!
//! A wgmma reads its descriptors from uniform registers. `R2UR` moves each word there from an arbitrary thread. A warp
//! reaches a wgmma convergently, so each `R2UR` within its block takes the word of the same thread, and `R2UR(a + b)`
//! is `R2UR(a) + R2UR(b)`. In a block with wgmma, the pass walks from each `R2UR` up the definitions of its operand, as
//! long as
//!
//! * the operation has a uniform counterpart with a form for these operands;
//! * at most one additional word has to be moved;
//! * it is in the same block, or one step away: loop-invariant descriptors are often the sum of a common base and a
//!   constant, and would occupy two registers each throughout the loop.
//!
//! ```text
//! v2 = IADD3 v1, 64, RZ           u1 = R2UR v1              once for all descriptors
//! u2 = R2UR v2             ==>    u2 = UIADD3 u1, 64, URZ
//! ```
//!
//! In a convergent loop, values from outside the block are computed in uniform registers in the loop, too
//! (`carried.rs`), because no uniform value is live where threads may have diverged. Constants become immediates, and
//! the scale predicate of a wgmma is folded if it is constant. Descriptors of neighbouring wgmmas cost an addition each
//! instead of a move.
//!
//! Cost: linear in the instructions, times the length of the walk, which is bounded by `uniform_depth`.

mod before_wait;
mod carried;
mod factors;

use crate::analysis::convergent_loops;
use crate::analysis::known_bits::Definitions;
use crate::codegen::legalize;
use crate::context::target::TargetMachine;
use crate::context::{Context, PassResult};
use carried::{LoopUniforms, base_of_sum};
use ori::entity::Entity;
use ori::{Arg, Block, Change, File, Function, Inst, InstData, Op, Pseudo, Value, eval};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::{M, Op as Name};
use smallvec::{SmallVec, smallvec};

/// Operations with the same semantics on uniform registers.
const UNIFORM_COUNTERPARTS: &[(Name, Name)] = &[
    (Name::IADD3, Name::UIADD3),
    (Name::IMAD, Name::UIMAD),
    (Name::ISETP, Name::UISETP),
    (Name::LEA, Name::ULEA),
    (Name::LOP3, Name::ULOP3),
    (Name::MOV, Name::UMOV),
    (Name::SEL, Name::USEL),
    (Name::SGXT, Name::USGXT),
    (Name::SHF, Name::USHF),
];

/// The uniform counterpart of an operation, if the machine has a form for these operands.
fn uniform_form(
    function: &Function,
    machine: &TargetMachine,
    data: &InstData,
    results: SmallVec<[Value; 2]>,
    args: SmallVec<[Arg; 6]>,
) -> Option<InstData> {
    let Op::Machine(op) = data.op else { return None };
    let name = UNIFORM_COUNTERPARTS.iter().find(|(name, _)| *name == op).filter(|_| data.guard.is_none())?.1;
    let mut new = InstData { op: Op::Machine(name), results, args, ..data.clone() };
    legalize::constant_second(&mut new);
    legalize::is_legal(function, machine, &new).then_some(new)
}

/// The arguments of a uniform counterpart; `of` maps words and predicates.
fn uniform_args(
    data: &InstData,
    mut of: impl FnMut(&ori::Use) -> Option<Value>,
) -> Option<SmallVec<[Arg; 6]>> {
    let arg = |arg: &Arg| match arg {
        Arg::Use(u) => Some(Arg::Use(ori::Use { value: of(u)?, part: None, ..*u })),
        Arg::Zero(_) => Some(Arg::Zero(File::UR)),
        other => Some(*other),
    };
    data.args.iter().map(arg).collect()
}

/// A new uniform value of the same shape.
fn uniform_value(function: &mut Function, value: Value) -> Value {
    match function.values[value] {
        data if data.file == File::P => function.value(File::UP, 1),
        data => function.value(File::UR, data.words),
    }
}

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    if !function.blocks.keys().any(|b| has_r2ur(function, b) || has_wgmma(function, b)) {
        return Ok(Change::Nothing);
    }
    let cfg = context.analyses.cfg(function);
    let divergence = context.analyses.divergence(function);
    let loops = convergent_loops::convergent_loops(function, &cfg, &divergence);
    let definitions = context.analyses.definitions(function);
    let mut done = vec![false; function.blocks.len()];
    for convergent_loop in &loops {
        if !context.fuel.burn() {
            continue;
        }
        let is_inside = |b: &Block| convergent_loop.body[b.index()] && has_r2ur(function, *b);
        let blocks: Vec<Block> = cfg.order.iter().copied().filter(is_inside).collect();
        if blocks.is_empty() {
            continue;
        }
        let mut loop_uniforms = LoopUniforms::new(function, context, (&cfg, &definitions), convergent_loop);
        for &block in &blocks {
            BlockRewriter::new(function, context, &definitions, block, Some(&mut loop_uniforms)).run();
            done[block.index()] = true;
        }
        loop_uniforms.insert_code(function);
        factors::run(function, context, (&cfg, &definitions), convergent_loop);
    }
    for &block in &cfg.order {
        if !done[block.index()] && has_wgmma(function, block) {
            BlockRewriter::new(function, context, &definitions, block, None).run();
            done[block.index()] = true;
        }
    }
    Ok(Change::Instructions.when(done.contains(&true)))
}

/// `hoist-above-wait`
pub fn hoist_above_wait(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    if !function.blocks.keys().any(|b| has_wgmma(function, b)) {
        return Ok(Change::Nothing);
    }
    let cfg = context.analyses.cfg(function);
    let divergence = context.analyses.divergence(function);
    let loops = convergent_loops::convergent_loops(function, &cfg, &divergence);
    let max_wait = context.tuning.wait_loop_instructions as usize;
    let hoisted = loops.iter().map(|l| before_wait::run(function, &cfg, l, max_wait));
    let hoisted = hoisted.collect::<Vec<bool>>();
    Ok(Change::Instructions.when(hoisted.contains(&true)))
}

/// Does a block move words to uniform registers?
fn has_r2ur(function: &Function, block: Block) -> bool {
    let mut insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
    insts.any(is_plain_r2ur)
}

/// Is it `R2UR` of a word, without a predicate result?
fn is_plain_r2ur(data: &InstData) -> bool {
    let plain = data.guard.is_none() && data.modifiers.is_empty() && data.results.len() == 1;
    data.op == Op::Machine(Name::R2UR) && plain
}

fn has_wgmma(function: &Function, block: Block) -> bool {
    let mut insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
    insts.any(|data| function.tied(data).is_some() || data.is_wgmma())
}

fn has_uniform_counterpart(data: &InstData) -> bool {
    UNIFORM_COUNTERPARTS.iter().any(|(name, _)| data.op == Op::Machine(*name))
}

/// Rewrites one block.
struct BlockRewriter<'a, 'b> {
    function: &'a mut Function,
    machine: &'static TargetMachine,
    /// How many definitions up from a descriptor are visited.
    max_depth: usize,
    definitions: &'a Definitions,
    block: Block,
    /// Uniform counterparts that are valid all through the enclosing loop.
    loop_uniforms: Option<&'a mut LoopUniforms<'b>>,
    /// The uniform counterparts of words so far.
    known: FxHashMap<(Value, u8), Value>,
    /// The sums among them that are a descriptor already.
    used_sums: FxHashSet<Value>,
    out: Vec<Inst>,
}

impl<'a, 'b> BlockRewriter<'a, 'b> {
    fn new(
        function: &'a mut Function,
        context: &Context,
        definitions: &'a Definitions,
        block: Block,
        loop_uniforms: Option<&'a mut LoopUniforms<'b>>,
    ) -> BlockRewriter<'a, 'b> {
        let (known, used_sums) = (FxHashMap::default(), FxHashSet::default());
        BlockRewriter {
            function,
            machine: context.machine,
            max_depth: context.tuning.uniform_depth as usize,
            definitions,
            block,
            loop_uniforms,
            known,
            used_sums,
            out: Vec::new(),
        }
    }

    fn run(mut self) {
        for inst in std::mem::take(&mut self.function.blocks[self.block].insts) {
            let data = self.function.insts[inst].clone();
            match data.op {
                _ if is_plain_r2ur(&data) => self.rewrite_r2ur(inst, &data),
                _ => {
                    if data.is_wgmma() {
                        self.function.insts[inst].args = self.fold_scale_predicate(&data);
                    }
                    self.out.push(inst);
                }
            }
        }
        self.function.blocks[self.block].insts = self.out;
    }

    /// Replaces an `R2UR`.
    fn rewrite_r2ur(&mut self, inst: Inst, data: &InstData) {
        let word = data.args.first().and_then(|arg| self.word(arg));
        let uniform = match data.args.first().and_then(|arg| self.constant(arg, self.max_depth)) {
            Some(constant) => Some(Arg::Imm(constant.into())),
            None => {
                let shared = word.and_then(|word| self.uniform_word(word, self.max_depth, data.at));
                shared.map(|value| self.private_copy(value, data.at).into())
            }
        };
        match uniform {
            Some(arg) => {
                let copy = match arg {
                    Arg::Imm(_) => Op::Machine(Name::UMOV),
                    _ => Op::Pseudo(Pseudo::Copy),
                };
                let args = smallvec![arg];
                self.function.insts[inst] = InstData { op: copy, args, ..data.clone() };
            }
            None => {
                if let Some(word) = word {
                    self.known.insert(word, data.results[0]);
                }
            }
        }
        self.out.push(inst);
    }

    /// A copy for one use. A wgmma takes its descriptors as a tuple of four registers: a value that two of them share
    /// would have to be moved, and the rest of the tuple with it.
    fn private_copy(&mut self, value: Value, at: u32) -> Value {
        let definition =
            self.out.iter().rev().find(|i| self.function.insts[**i].results.first() == Some(&value));
        let sum = definition.map(|i| &self.function.insts[*i]).filter(|d| d.op == Op::Machine(Name::UIADD3));
        if sum.is_some() && self.used_sums.insert(value) {
            return value;
        }
        let mut new = sum.cloned().unwrap_or_else(|| {
            let args = smallvec![value.into()];
            let (op, results) = (Op::Machine(Name::UMOV), smallvec![value]);
            InstData { op, modifiers: smallvec![], results, args, guard: None, at }
        });
        for result in &mut new.results {
            let data = self.function.values[*result];
            *result = self.function.value(data.file, data.words);
        }
        let copy = new.results[0];
        self.out.push(self.function.insts.push(new));
        copy
    }

    /// The word of a value that an argument is, looking through packs. The use must be plain (not negated or the like).
    fn word(&self, arg: &Arg) -> Option<(Value, u8)> {
        let Arg::Use(u) = arg else { return None };
        let whole = u.part.is_none() && self.function.values[u.value].words == 1;
        let first = u.part.filter(|p| p.count == 1).map(|p| p.first).or(whole.then_some(0))?;
        if !u.is_plain() || self.function.values[u.value].file != File::R {
            return None;
        }
        let (_, data) = self.definition(u.value).unzip();
        let mut at = 0;
        for arg in data.filter(|d| d.op == Op::Pseudo(Pseudo::Pack)).iter().flat_map(|d| &d.args) {
            let Arg::Use(inner) = arg else { break };
            let count = inner.part.map_or(self.function.values[inner.value].words, |p| p.count);
            if (at..at + count).contains(&first) && count == 1 {
                return self.word(arg);
            }
            at += count;
        }
        Some((u.value, first))
    }

    fn definition(&self, value: Value) -> Option<(Block, &InstData)> {
        let (block, inst) = (*self.definitions.get(value.index())?)?;
        let data = &self.function.insts[inst];
        data.guard.is_none().then_some((block, data))
    }

    /// The value of a constant word or predicate.
    fn constant(&self, arg: &Arg, depth: usize) -> Option<u32> {
        let u = match arg {
            Arg::Imm(n) => return Some(*n as u32),
            Arg::Zero(_) => return Some(0),
            Arg::True(yes) => return Some((*yes).into()),
            Arg::Use(u) if depth > 0 => u,
            _ => return None,
        };
        match self.function.values[u.value].file {
            File::P => Some(self.constant_predicate(u.value, depth)? ^ u32::from(u.negated)),
            File::R => {
                let (_, data) = self.definition(self.word(arg)?.0)?;
                match data.op {
                    Op::Machine(Name::MOV) => self.constant(&data.args[0], depth - 1),
                    Op::Machine(Name::IADD3 | Name::LOP3) => {
                        Some(self.evaluate(data, 0, depth)?.bits() as u32)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn constant_predicate(&self, value: Value, depth: usize) -> Option<u32> {
        let (_, data) = self.definition(value)?;
        match data.op {
            Op::Machine(Name::IADD3) => (!self.may_carry(data, depth)).then_some(0),
            // The second result, unused, is `PT` before the arguments.
            Op::Machine(Name::PLOP3) if data.results.len() == 1 => {
                self.evaluate(data, 1, depth)?.predicate(0).map(u32::from)
            }
            _ => None,
        }
    }

    /// The results of an operation whose arguments from `first` on are constants.
    fn evaluate(&self, data: &InstData, first: usize, depth: usize) -> Option<eval::Results> {
        let Op::Machine(op) = data.op else { return None };
        let args: Option<Vec<eval::Arg>> =
            data.args.get(first..)?.iter().map(|a| self.argument(a, depth - 1)).collect();
        eval::eval(op, &data.modifiers, &args?)
    }

    /// An argument of [`eval`].
    fn argument(&self, arg: &Arg, depth: usize) -> Option<eval::Arg> {
        let (plain, negated) = match arg {
            Arg::Use(u) => (Arg::Use(ori::Use { negated: false, ..*u }), u.negated),
            other => (*other, false),
        };
        let bits = eval::Arg::word(self.constant(&plain, depth)?);
        Some(if negated { bits.neg() } else { bits })
    }

    /// May a sum carry out of its word?
    fn may_carry(&self, sum: &InstData, depth: usize) -> bool {
        let bounds: Option<Vec<u64>> = sum.args.iter().map(|a| self.bound(a, depth - 1)).collect();
        bounds.is_none_or(|b| b.iter().sum::<u64>() > u32::MAX.into())
    }

    /// An upper bound of a word, if one is known.
    fn bound(&self, arg: &Arg, depth: usize) -> Option<u64> {
        if let Some(constant) = self.constant(arg, depth) {
            return Some(constant.into());
        }
        let (value, _) = self.word(arg)?;
        let (_, data) = self.definition(value).filter(|_| depth > 0)?;
        let constant = |at: usize| self.constant(data.args.get(at)?, depth - 1);
        match (data.op, &data.modifiers[..]) {
            (Op::Machine(Name::SGXT), [M::U32]) => Some((1u64 << constant(1)?.min(32)) - 1),
            (Op::Machine(Name::SHF), [M::R, M::U32, M::HI]) if constant(0) == Some(0) => {
                Some(u64::from(u32::MAX >> constant(1)?.min(31)))
            }
            // a & b
            (Op::Machine(Name::LOP3), _) if constant(3) == Some(0xc0) => constant(1).map(u64::from),
            _ => None,
        }
    }

    /// The uniform counterpart of a word; `None` if the word has to be moved as it is.
    fn uniform_word(&mut self, word: (Value, u8), depth: usize, at: u32) -> Option<Value> {
        if let Some(known) = self.known.get(&word) {
            return Some(*known);
        }
        if let Some(loop_uniforms) = self.loop_uniform(word) {
            return Some(loop_uniforms);
        }
        let (block, data) = self.definition(word.0).filter(|_| depth > 0)?;
        let one_word = self.function.values[word.0].words == 1;
        let depth = if block == self.block { depth - 1 } else { 0 };
        let data = Some(data.clone()).filter(|d| one_word && has_uniform_counterpart(d))?;
        let args = self.uniform_args(&data, depth, at)?;
        // The recursion around the loop may have reached this word, too.
        if let Some(loop_uniforms) = self.loop_uniforms.as_ref().and_then(|c| c.known.get(&word)) {
            return Some(*loop_uniforms);
        }
        let results = data.results.iter().map(|v| uniform_value(self.function, *v)).collect();
        let new = InstData { at, ..uniform_form(self.function, self.machine, &data, results, args)? };
        data.results.iter().zip(&new.results).for_each(|(old, new)| {
            self.known.insert((*old, 0), *new);
        });
        self.out.push(self.function.insts.push(new));
        self.known.get(&word).copied()
    }

    /// The uniform counterpart of a word that is valid all through the loop. Words of this block that have none so far,
    /// and sums of a loop invariant and a constant, are computed here.
    fn loop_uniform(&mut self, word: (Value, u8)) -> Option<Value> {
        let definition = self.definition(word.0);
        let is_here = definition.is_some_and(|(block, _)| block == self.block);
        let is_sum = definition.is_some_and(|(_, data)| base_of_sum(data).is_some());
        let loop_uniforms = self.loop_uniforms.as_mut()?;
        if is_here || is_sum && loop_uniforms.is_outside(word.0) {
            return loop_uniforms.known.get(&word).copied();
        }
        loop_uniforms.uniform(self.function, word)
    }

    fn uniform_args(&mut self, data: &InstData, depth: usize, at: u32) -> Option<SmallVec<[Arg; 6]>> {
        let mut args: SmallVec<[Arg; 6]> = SmallVec::new();
        let mut moved = None;
        for (i, arg) in data.args.iter().enumerate() {
            let Arg::Use(u) = arg else {
                args.push(if let Arg::Zero(_) = arg { Arg::Zero(File::UR) } else { *arg });
                continue;
            };
            let plain = Arg::Use(ori::Use { negated: false, inverted: false, ..*u });
            if let Some(constant) = self.constant(&plain, self.max_depth) {
                args.push(self.constant_arg(u, constant)?);
                continue;
            }
            let word = match self.function.values[u.value].file {
                File::P => (u.value, 0),
                _ => self.word(&plain)?,
            };
            let new = match self.uniform_word(word, depth, at) {
                Some(new) => new,
                None if moved.is_none() && self.function.values[u.value].file == File::R => {
                    moved = Some((i, word));
                    args.push(Arg::Zero(File::UR));
                    continue;
                }
                None => return None,
            };
            args.push(Arg::Use(ori::Use { value: new, part: None, ..*u }));
        }
        if let Some((i, word)) = moved {
            let Arg::Use(u) = data.args[i] else { return None };
            let value = self.move_word(word, at);
            args[i] = Arg::Use(ori::Use { value, part: None, ..u });
        }
        Some(args)
    }

    /// A constant for a use: with a negated or inverted use it must be zero, or a predicate.
    fn constant_arg(&self, u: &ori::Use, constant: u32) -> Option<Arg> {
        match (self.function.values[u.value].file, constant) {
            (File::P, bit) => Some(Arg::True((bit == 1) != u.negated)),
            (_, 0) if !u.inverted => Some(Arg::Zero(File::UR)),
            (_, n) if u.is_plain() => Some(Arg::Imm(n.into())),
            _ => None,
        }
    }

    fn move_word(&mut self, word: (Value, u8), at: u32) -> Value {
        let loop_uniforms = self.loop_uniforms.as_mut().and_then(|c| c.uniform(self.function, word));
        if let Some(loop_uniforms) = loop_uniforms {
            return loop_uniforms;
        }
        let value = self.function.value(File::UR, 1);
        let data = InstData {
            op: Op::Machine(Name::R2UR),
            modifiers: smallvec![],
            results: smallvec![value],
            args: smallvec![Arg::word(word.0, word.1)],
            guard: None,
            at,
        };
        self.out.push(self.function.insts.push(data));
        self.known.insert(word, value);
        value
    }

    /// The arguments of a wgmma, without the scale predicate if that is a constant.
    fn fold_scale_predicate(&self, data: &InstData) -> SmallVec<[Arg; 6]> {
        let mut args = data.args.clone();
        let file = |arg: &Arg| arg.value().map(|v| self.function.values[v].file);
        let Some(at) = args.iter().position(|a| file(a) == Some(File::UP)) else { return args };
        let vote = args[at].value().and_then(|v| self.definition(v));
        let Some((_, vote)) = vote.filter(|(_, d)| d.op == Op::Machine(Name::VOTEU)) else { return args };
        match vote.args.first().and_then(|p| self.constant(p, self.max_depth)) {
            Some(0) if at > 0 => (args[at - 1], args[at]) = (Arg::Zero(File::R), Arg::True(false)),
            Some(1) => {
                args.remove(at);
            }
            _ => {}
        }
        args
    }
}
