//! Descriptors of asynchronous products are computed where they are read: in uniform registers.
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
//! All is done in the block of the product: no uniform value lives where threads may have parted.
//!
//! What is a constant by then becomes one. The same is done for the predicate that tells whether a product adds to its
//! accumulator. Descriptors of neighbouring products differ by a constant: they cost a sum each in place of a move.

use crate::bank0::Machine;
use crate::bits::Definitions;
use crate::{legalize, simplify};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, File, Function, Inst, InstData, Op, Pseudo, Value, eval};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::{M, Op as Name};
use smallvec::{SmallVec, smallvec};

/// How far to walk from a descriptor.
const DEPTH: usize = 12;

/// Operations that mean the same on uniform registers.
const TWINS: &[(Name, Name)] = &[
    (Name::IADD3, Name::UIADD3),
    (Name::IMAD, Name::UIMAD),
    (Name::LEA, Name::ULEA),
    (Name::LOP3, Name::ULOP3),
    (Name::MOV, Name::UMOV),
    (Name::SGXT, Name::USGXT),
    (Name::SHF, Name::USHF),
];

pub fn run(function: &mut Function, machine: &'static Machine) -> Result<(), String> {
    let is_product =
        |i: &Inst| function.tied(&function.insts[*i]).is_some() || is_product(&function.insts[*i]);
    let cfg = Cfg::new(function);
    let has_product = |b: &Block| function.blocks[*b].insts.iter().any(is_product);
    let blocks: Vec<Block> = cfg.order.iter().copied().filter(has_product).collect();
    if blocks.is_empty() {
        return Ok(());
    }
    let definitions = function.definitions();
    for &block in &blocks {
        Here::new(function, machine, &definitions, block).run();
    }
    simplify::run(function)
}

fn is_product(data: &InstData) -> bool {
    matches!(data.op, Op::Machine(Name::HGMMA | Name::IGMMA | Name::QGMMA | Name::BGMMA))
}

/// A block that is rewritten.
struct Here<'a> {
    function: &'a mut Function,
    machine: &'static Machine,
    definitions: &'a Definitions,
    block: Block,
    /// The uniform twins of words that have been brought over or computed so far.
    known: FxHashMap<(Value, u8), Value>,
    /// The sums among them that a product has.
    given: FxHashSet<Value>,
    out: Vec<Inst>,
}

impl<'a> Here<'a> {
    fn new(
        function: &'a mut Function,
        machine: &'static Machine,
        definitions: &'a Definitions,
        block: Block,
    ) -> Here<'a> {
        let (known, given) = (FxHashMap::default(), FxHashSet::default());
        Here { function, machine, definitions, block, known, given, out: Vec::new() }
    }

    fn run(mut self) {
        for inst in std::mem::take(&mut self.function.blocks[self.block].insts) {
            let data = self.function.insts[inst].clone();
            match data.op {
                Op::Machine(Name::R2UR) if data.guard.is_none() && data.modifiers.is_empty() => {
                    self.bring(inst, &data);
                }
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
        let (block, data) = self.definition(word.0).filter(|_| depth > 0)?;
        let one_word = self.function.values[word.0].words == 1;
        let depth = if block == self.block { depth - 1 } else { 0 };
        let data = Some(data.clone()).filter(|_| one_word)?;
        let Op::Machine(op) = data.op else { return None };
        let twin = TWINS.iter().find(|(name, _)| *name == op)?.1;
        let args = self.uniform_args(&data, depth, at)?;
        let like = |v: Value| match self.function.values[v].file {
            File::P => (File::UP, 1),
            _ => (File::UR, self.function.values[v].words),
        };
        let shapes: Vec<(File, u8)> = data.results.iter().map(|r| like(*r)).collect();
        let results: SmallVec<[Value; 2]> =
            shapes.into_iter().map(|(f, w)| self.function.value(f, w)).collect();
        let new = InstData { op: Op::Machine(twin), results, args, at, ..data.clone() };
        if !legalize::is_legal(self.function, self.machine, &new) {
            return None;
        }
        data.results.iter().zip(&new.results).for_each(|(old, new)| {
            self.known.insert((*old, 0), *new);
        });
        self.out.push(self.function.insts.push(new));
        self.known.get(&word).copied()
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
