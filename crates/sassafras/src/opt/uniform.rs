//! What is read in uniform registers is computed there: descriptors of asynchronous products, operands of tensor copies.
//!
//! A product reads descriptors from uniform registers; `R2UR` brings them there, a word each, from some thread. All
//! threads of the warp come to a product together, so within its block each `R2UR` takes the word of the same thread,
//! and `R2UR(a + b)` is `R2UR(a) + R2UR(b)`. This pass walks from each `R2UR` in a block with products towards the
//! words that it depends on, as long as
//!
//! * the operation has a uniform twin with a form for these operands;
//! * at most one word has to be brought over that wasn't before;
//! * it stands in the same block, or is one step away: descriptors that don't change in a loop are often the sum of a
//!   common base and a constant, and would take two registers each all through the loop.
//!
//! This is done in the block of the product, and of what it needs from elsewhere in a loop that the whole warp runs
//! together, there, too (`carried.rs`): no uniform value lives where threads may have parted.
//!
//! What is a constant by then becomes one. The same is done for the predicate that tells whether a product adds to its
//! accumulator. Descriptors of neighbouring products differ by a constant: they cost a sum each in place of a move.

mod before_wait;
mod carried;
mod factors;

use crate::analysis::convergent_loops;
use crate::analysis::known_bits::Definitions;
use crate::codegen::legalize;
use crate::context::Context;
use crate::context::target::Machine;
use crate::opt::simplify;
use carried::{Carried, base_of_sum};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Divergence, File, Function, Inst, InstData, Op, Pseudo, Value, eval};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::{M, Op as Name};
use smallvec::{SmallVec, smallvec};

/// How far to walk from a descriptor.
const DEPTH: usize = 12;

/// Operations that mean the same on uniform registers.
const TWINS: &[(Name, Name)] = &[
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

/// An operation done in uniform registers, if the machine has a form for that.
fn twin(
    function: &Function,
    machine: &Machine,
    data: &InstData,
    results: SmallVec<[Value; 2]>,
    args: SmallVec<[Arg; 6]>,
) -> Option<InstData> {
    let Op::Machine(op) = data.op else { return None };
    let name = TWINS.iter().find(|(name, _)| *name == op).filter(|_| data.guard.is_none())?.1;
    let mut new = InstData { op: Op::Machine(name), results, args, ..data.clone() };
    legalize::constant_second(&mut new);
    legalize::is_legal(function, machine, &new).then_some(new)
}

/// The arguments of a uniform twin; `of` says what words and predicates are there.
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

/// A uniform value of the same shape.
fn twin_value(function: &mut Function, value: Value) -> Value {
    match function.values[value] {
        data if data.file == File::P => function.value(File::UP, 1),
        data => function.value(File::UR, data.words),
    }
}

pub fn run(function: &mut Function, context: &mut Context) -> Result<(), String> {
    if !function.blocks.keys().any(|b| brings(function, b) || has_product(function, b)) {
        return Ok(());
    }
    let cfg = Cfg::new(function);
    let divergence = Divergence::new(function, &cfg);
    let zones = convergent_loops::zones(function, &cfg, &divergence);
    let definitions = function.definitions();
    let mut done = vec![false; function.blocks.len()];
    for zone in zones.iter().filter(|_| context.fuel.burn()) {
        let is_inside = |b: &Block| zone.inside[b.index()] && brings(function, *b);
        let blocks: Vec<Block> = cfg.order.iter().copied().filter(is_inside).collect();
        if blocks.is_empty() {
            continue;
        }
        let mut carried = Carried::new(function, context.machine, (&cfg, &definitions), zone);
        for &block in &blocks {
            Here::new(function, context.machine, &definitions, block, Some(&mut carried)).run();
            done[block.index()] = true;
        }
        carried.finish(function);
        factors::run(function, context.machine, (&cfg, &definitions), zone);
    }
    for &block in &cfg.order {
        if !done[block.index()] && has_product(function, block) {
            Here::new(function, context.machine, &definitions, block, None).run();
            done[block.index()] = true;
        }
    }
    if !done.contains(&true) {
        return Ok(());
    }
    simplify::run(function)?;
    let cfg = Cfg::new(function);
    zones.iter().for_each(|zone| before_wait::run(function, &cfg, zone));
    Ok(())
}

/// Does a block bring words to uniform registers?
fn brings(function: &Function, block: Block) -> bool {
    let mut insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
    insts.any(is_plain_bring)
}

/// Is it `R2UR` of a word, with no predicate beside?
fn is_plain_bring(data: &InstData) -> bool {
    let plain = data.guard.is_none() && data.modifiers.is_empty() && data.results.len() == 1;
    data.op == Op::Machine(Name::R2UR) && plain
}

fn has_product(function: &Function, block: Block) -> bool {
    let mut insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
    insts.any(|data| function.tied(data).is_some() || is_product(data))
}

fn has_twin(data: &InstData) -> bool {
    TWINS.iter().any(|(name, _)| data.op == Op::Machine(*name))
}

fn is_product(data: &InstData) -> bool {
    matches!(data.op, Op::Machine(Name::HGMMA | Name::IGMMA | Name::QGMMA | Name::BGMMA))
}

/// A block that is rewritten.
struct Here<'a, 'b> {
    function: &'a mut Function,
    machine: &'static Machine,
    definitions: &'a Definitions,
    block: Block,
    /// Twins that hold all through the loop around.
    carried: Option<&'a mut Carried<'b>>,
    /// The uniform twins of words that have been brought over or computed so far.
    known: FxHashMap<(Value, u8), Value>,
    /// The sums among them that a product has.
    given: FxHashSet<Value>,
    out: Vec<Inst>,
}

impl<'a, 'b> Here<'a, 'b> {
    fn new(
        function: &'a mut Function,
        machine: &'static Machine,
        definitions: &'a Definitions,
        block: Block,
        carried: Option<&'a mut Carried<'b>>,
    ) -> Here<'a, 'b> {
        let (known, given) = (FxHashMap::default(), FxHashSet::default());
        Here { function, machine, definitions, block, carried, known, given, out: Vec::new() }
    }

    fn run(mut self) {
        for inst in std::mem::take(&mut self.function.blocks[self.block].insts) {
            let data = self.function.insts[inst].clone();
            match data.op {
                _ if is_plain_bring(&data) => self.bring(inst, &data),
                _ => {
                    if is_product(&data) {
                        self.function.insts[inst].args = self.known_scale(&data);
                    }
                    self.out.push(inst);
                }
            }
        }
        self.function.blocks[self.block].insts = self.out;
    }

    /// Replaces an `R2UR`.
    fn bring(&mut self, inst: Inst, data: &InstData) {
        let word = data.args.first().and_then(|arg| self.word(arg));
        let uniform = match data.args.first().and_then(|arg| self.constant(arg, DEPTH)) {
            Some(constant) => Some(Arg::Imm(constant.into())),
            None => {
                let shared = word.and_then(|word| self.uniform(word, DEPTH, data.at));
                shared.map(|value| self.own(value, data.at).into())
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

    /// A value of its own with the same bits. Products take their descriptors side by side in four registers: what two of
    /// them share would have to be moved, and the rest with it.
    fn own(&mut self, value: Value, at: u32) -> Value {
        let made = self.out.iter().rev().find(|i| self.function.insts[**i].results.first() == Some(&value));
        let sum = made.map(|i| &self.function.insts[*i]).filter(|d| d.op == Op::Machine(Name::UIADD3));
        if sum.is_some() && self.given.insert(value) {
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
        let own = new.results[0];
        self.out.push(self.function.insts.push(new));
        own
    }

    /// The word of a value that an argument is, looking through packs. Nothing may be done to it on the way in.
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

    /// The bits of a word or predicate that is a constant.
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
            Op::Machine(Name::IADD3) => (!self.carries(data, depth)).then_some(0),
            // The second result, which nobody wants, is `PT` before the arguments.
            Op::Machine(Name::PLOP3) if data.results.len() == 1 => {
                self.evaluate(data, 1, depth)?.predicate(0).map(u32::from)
            }
            _ => None,
        }
    }

    /// The results of an operation whose arguments, from one on, are constants.
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

    /// May a sum be too large for its word?
    fn carries(&self, sum: &InstData, depth: usize) -> bool {
        let bounds: Option<Vec<u64>> = sum.args.iter().map(|a| self.bound(a, depth - 1)).collect();
        bounds.is_none_or(|b| b.iter().sum::<u64>() > u32::MAX.into())
    }

    /// The largest number that a word can be, if something is known about it.
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

    /// The uniform twin of a word; `None` if it has to be brought over as it is.
    fn uniform(&mut self, word: (Value, u8), depth: usize, at: u32) -> Option<Value> {
        if let Some(known) = self.known.get(&word) {
            return Some(*known);
        }
        if let Some(carried) = self.carried(word) {
            return Some(carried);
        }
        let (block, data) = self.definition(word.0).filter(|_| depth > 0)?;
        let one_word = self.function.values[word.0].words == 1;
        let depth = if block == self.block { depth - 1 } else { 0 };
        let data = Some(data.clone()).filter(|d| one_word && has_twin(d))?;
        let args = self.uniform_args(&data, depth, at)?;
        // On the way around the loop this one may have been met, too.
        if let Some(carried) = self.carried.as_ref().and_then(|c| c.known.get(&word)) {
            return Some(*carried);
        }
        let results = data.results.iter().map(|v| twin_value(self.function, *v)).collect();
        let new = InstData { at, ..twin(self.function, self.machine, &data, results, args)? };
        data.results.iter().zip(&new.results).for_each(|(old, new)| {
            self.known.insert((*old, 0), *new);
        });
        self.out.push(self.function.insts.push(new));
        self.known.get(&word).copied()
    }

    /// The twin of a word that holds all through the loop. Words of this block that have none so far, and sums with a
    /// constant of what the loop doesn't change, are computed here.
    fn carried(&mut self, word: (Value, u8)) -> Option<Value> {
        let definition = self.definition(word.0);
        let is_here = definition.is_some_and(|(block, _)| block == self.block);
        let is_sum = definition.is_some_and(|(_, data)| base_of_sum(data).is_some());
        let carried = self.carried.as_mut()?;
        if is_here || is_sum && carried.is_outside(word.0) {
            return carried.known.get(&word).copied();
        }
        carried.twin(self.function, word)
    }

    fn uniform_args(&mut self, data: &InstData, depth: usize, at: u32) -> Option<SmallVec<[Arg; 6]>> {
        let mut args: SmallVec<[Arg; 6]> = SmallVec::new();
        let mut brought = None;
        for (i, arg) in data.args.iter().enumerate() {
            let Arg::Use(u) = arg else {
                args.push(if let Arg::Zero(_) = arg { Arg::Zero(File::UR) } else { *arg });
                continue;
            };
            let plain = Arg::Use(ori::Use { negated: false, inverted: false, ..*u });
            if let Some(constant) = self.constant(&plain, DEPTH) {
                args.push(self.constant_arg(u, constant)?);
                continue;
            }
            let word = match self.function.values[u.value].file {
                File::P => (u.value, 0),
                _ => self.word(&plain)?,
            };
            let new = match self.uniform(word, depth, at) {
                Some(new) => new,
                None if brought.is_none() && self.function.values[u.value].file == File::R => {
                    brought = Some((i, word));
                    args.push(Arg::Zero(File::UR));
                    continue;
                }
                None => return None,
            };
            args.push(Arg::Use(ori::Use { value: new, part: None, ..*u }));
        }
        if let Some((i, word)) = brought {
            let Arg::Use(u) = data.args[i] else { return None };
            let value = self.bring_word(word, at);
            args[i] = Arg::Use(ori::Use { value, part: None, ..u });
        }
        Some(args)
    }

    /// A constant in place of a use: one that is changed on the way in must be zero, or a predicate.
    fn constant_arg(&self, u: &ori::Use, constant: u32) -> Option<Arg> {
        match (self.function.values[u.value].file, constant) {
            (File::P, bit) => Some(Arg::True((bit == 1) != u.negated)),
            (_, 0) if !u.inverted => Some(Arg::Zero(File::UR)),
            (_, n) if u.is_plain() => Some(Arg::Imm(n.into())),
            _ => None,
        }
    }

    fn bring_word(&mut self, word: (Value, u8), at: u32) -> Value {
        let carried = self.carried.as_mut().and_then(|c| c.twin(self.function, word));
        if let Some(carried) = carried {
            return carried;
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

    /// The arguments of a product, without the predicate for adding if that is known.
    fn known_scale(&self, data: &InstData) -> SmallVec<[Arg; 6]> {
        let mut args = data.args.clone();
        let file = |arg: &Arg| arg.value().map(|v| self.function.values[v].file);
        let Some(at) = args.iter().position(|a| file(a) == Some(File::UP)) else { return args };
        let vote = args[at].value().and_then(|v| self.definition(v));
        let Some((_, vote)) = vote.filter(|(_, d)| d.op == Op::Machine(Name::VOTEU)) else { return args };
        match vote.args.first().and_then(|p| self.constant(p, DEPTH)) {
            Some(0) if at > 0 => (args[at - 1], args[at]) = (Arg::Zero(File::R), Arg::True(false)),
            Some(1) => {
                args.remove(at);
            }
            _ => {}
        }
        args
    }
}
