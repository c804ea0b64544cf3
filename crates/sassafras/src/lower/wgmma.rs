//! Products that a warpgroup computes while it goes on: `wgmma`.
//!
//! `wgmma.fence` is `WARPGROUP.ARRIVE`; `mma_async` is an operation whose result is its accumulator's register;
//! `commit_group` is a mark on the last of them; `wait_group` is `WARPGROUP.DEPBAR`. In between no one may touch what is
//! in flight. That is kept in two ways: what is in flight goes through each wait ([`Pseudo::Landed`]), so that nothing
//! can be moved across it, and the allocated code is checked ([`crate::flight`]). If the check fails, the function is
//! lowered anew with each product waited for at once.

use super::Lower;
use super::build::{RZ, constant};
use super::graph::Graph;
use super::instruction::Ins;
use super::matrix::{Fragment, dimensions, type_word};
use ori::{Arg, File, Guard, Op, Pseudo, Value};
use ptx::Type;
use ptx::ast::{Body, Module, Operand, Reg, Stmt};
use ptx::words::Kind;
use sass::M;
use smallvec::smallvec;
use std::collections::BTreeSet;

/// `WARPGROUP.DEPBAR` counts up to this many groups.
const MOST_GROUPS: u64 = 7;

/// What is in flight.
#[derive(Default)]
pub struct Flight {
    /// Lowered without overlap: nothing ever is.
    serial: bool,
    /// The accumulators that may be at the beginning of each PTX block.
    at_start: Vec<BTreeSet<Reg>>,
    accumulators: BTreeSet<Reg>,
    /// The same for the registers that products read: parts of A, and metadata.
    sources_at_start: Vec<BTreeSet<Reg>>,
    sources: BTreeSet<Reg>,
}

impl Flight {
    pub fn new(module: &Module, body: &Body, graph: &Graph, serial: bool) -> Flight {
        let mut flight = Flight { serial, ..Flight::default() };
        let named = |name: &str| module.opcodes.iter().any(|o| o.mnemonic == name);
        if serial || !named("wgmma.mma_async") {
            return flight;
        }
        flight.at_start = in_flight(module, body, graph, |operands| operands.first().copied());
        flight.sources_at_start = in_flight(module, body, graph, source);
        flight
    }

    pub fn enter(&mut self, block: usize) {
        self.accumulators = self.at_start.get(block).cloned().unwrap_or_default();
        self.sources = self.sources_at_start.get(block).cloned().unwrap_or_default();
    }
}

/// The registers of an operand of products that may be in flight at the beginning of each block.
fn in_flight(
    module: &Module,
    body: &Body,
    graph: &Graph,
    which: impl Fn(&[Operand]) -> Option<Operand>,
) -> Vec<BTreeSet<Reg>> {
    let mut ends = vec![BTreeSet::new(); graph.blocks.len()];
    let mut starts = ends.clone();
    let mut changed = true;
    while changed {
        changed = false;
        for &b in &graph.order {
            let preds = graph.blocks[b].preds.iter();
            let mut now: BTreeSet<Reg> = preds.flat_map(|p| ends[*p].iter().copied()).collect();
            starts[b] = now.clone();
            for inst in &graph.blocks[b].insts {
                let operands = body.list(inst.operands);
                match (module.opcodes[inst.opcode.0 as usize].mnemonic, operands.first()) {
                    ("wgmma.mma_async", _) => {
                        now.extend(which(operands).iter().flat_map(|o| registers(body, o)))
                    }
                    ("wgmma.wait_group", Some(Operand::Int { value: 0, .. })) if inst.guard.is_none() => {
                        now.clear();
                    }
                    _ => {}
                }
            }
            changed |= now != ends[b];
            ends[b] = now;
        }
    }
    starts
}

/// A, where it is in registers.
fn source(operands: &[Operand]) -> Option<Operand> {
    operands.get(1).copied().filter(|a| matches!(a, Operand::Vector(_)))
}

/// The registers that the asynchronous products of a body read: a wait for them reads them, too.
pub fn sources(module: &Module, body: &Body) -> Vec<Reg> {
    let inst = |s: &Stmt| if let Stmt::Inst(inst) = s { Some(*inst) } else { None };
    let products = body
        .stmts
        .iter()
        .filter_map(inst)
        .filter(|i| module.opcodes[i.opcode.0 as usize].mnemonic == "wgmma.mma_async");
    let all = products.filter_map(|i| source(body.list(i.operands)));
    all.flat_map(|a| registers(body, &a).collect::<Vec<_>>()).collect()
}

fn registers<'a>(body: &'a Body, vector: &Operand) -> impl Iterator<Item = Reg> + 'a {
    let elements = if let Operand::Vector(range) = vector { body.list(*range) } else { &[] };
    elements.iter().filter_map(|e| if let Operand::Reg(reg) = e { Some(*reg) } else { None })
}

/// Is it a product that goes on while the warpgroup does?
pub fn is_asynchronous(op: Op) -> bool {
    use sass::Op::{BGMMA, HGMMA, IGMMA, QGMMA};
    matches!(op, Op::Machine(HGMMA | IGMMA | QGMMA | BGMMA))
}

impl<'a> Lower<'_, 'a> {
    pub(super) fn wgmma(&mut self, ins: &Ins<'a>) -> Option<()> {
        // Every thread of the warp takes part, and all come here together.
        ins.flag("sync");
        ins.flag("aligned");
        match ins.mnemonic() {
            "wgmma.mma_async" => return self.mma_async(ins),
            "wgmma.fence" if !self.flight.serial => self.arrive(),
            "wgmma.commit_group" if !self.flight.serial => self.commit(),
            "wgmma.wait_group" => {
                let groups = constant(ins.get(0)?, Type::U32)?;
                if !self.flight.serial {
                    self.wait(groups);
                }
            }
            _ => {}
        }
        Some(())
    }

    fn arrive(&mut self) {
        self.effect(sass::Op::WARPGROUP, &[M::ARRIVE], &[], &[]);
    }

    /// Marks the last product of the block as the end of its group, or an empty one if there is none.
    fn commit(&mut self) {
        let code = &mut self.kernel.code;
        let last = code.blocks[self.block].insts.iter().rev().find(|i| is_asynchronous(code.insts[**i].op));
        let end = Arg::Name(M::gsb0);
        match last.copied().map(|i| &mut code.insts[i]) {
            Some(inst) if inst.guard.is_none() && self.guard.is_none() && inst.args.last() != Some(&end) => {
                inst.args.push(end);
            }
            _ => {
                let args = [RZ, Arg::Zero(File::UR), RZ, Arg::True(false), end];
                self.effect(sass::Op::HGMMA, &[M::_64x8x16, M::F16], &[], &args);
            }
        }
    }

    /// Waits until no more than so many groups are in flight.
    fn wait(&mut self, groups: u64) {
        let most = Arg::Imm(groups.min(MOST_GROUPS) as i64);
        self.effect(sass::Op::WARPGROUP, &[M::DEPBAR, M::LE], &[], &[Arg::Name(M::gsb0), most]);
        let value = |reg: &Reg| self.now.get(reg).map(|value| (*reg, *value));
        let known: Vec<(Reg, Value)> = self.flight.accumulators.iter().filter_map(value).collect();
        let sources: Vec<Value> = self.flight.sources.iter().filter_map(value).map(|(_, v)| v).collect();
        if known.is_empty() && sources.is_empty() {
            return;
        }
        let mut landed = Vec::new();
        for (reg, value) in &known {
            let data = self.kernel.code.values[*value];
            let result = self.kernel.code.value(data.file, data.words);
            self.now.insert(*reg, result);
            landed.push(result);
        }
        let args: Vec<Arg> = known.iter().map(|(_, v)| *v).chain(sources).map(Arg::from).collect();
        let data = self.data(Op::Pseudo(Pseudo::Landed), &[], &landed, &args);
        self.kernel.code.append(self.block, data);
        if groups == 0 && self.guard.is_none() {
            self.flight.accumulators.clear();
            self.flight.sources.clear();
        }
    }

    fn mma_async(&mut self, ins: &Ins<'a>) -> Option<()> {
        let sparse = ins.flag("sp");
        let (op, modifiers) = asynchronous_operation(ins, sparse)?;
        let scale = if sparse { 5 } else { 3 };
        let mut args = self.factors(ins, scale)?;
        let accumulator = self.fragment(ins.get(0)?)?;
        let accumulator = self.value(&accumulator);
        match self.predicate(ins.get(scale)?)? {
            Arg::True(true) => args.push(accumulator.into()),
            Arg::True(false) => args.extend([RZ, Arg::True(false)]),
            predicate => {
                let scale = self.kernel.code.value(File::UP, 1);
                self.emit_to(sass::Op::VOTEU, &[M::ANY], &[scale], &[predicate]);
                args.extend([Arg::from(accumulator), scale.into()]);
            }
        }
        if sparse {
            let metadata = self.word(ins.get(3)?, Type::B32)?;
            let selector = constant(ins.get(4)?, Type::U32)?;
            args.extend([metadata, Arg::Imm(selector as i64)]);
        }
        // What the product reads until it is finished: those of its arguments that are general registers.
        let fragment = args[0].value().filter(|v| self.kernel.code.values[*v].file == File::R);
        let result = self.start(op, &modifiers, accumulator, args, fragment);
        self.flight.accumulators.extend(registers(self.body, ins.get(0)?));
        // The guard has been obeyed.
        let guard = self.guard.take();
        if let (Some(fragment), false) = (fragment, self.flight.serial) {
            // From here on A's registers are the fragment's words: they stay until someone has waited.
            self.flight.sources.extend(registers(self.body, ins.get(1)?));
            self.set(ins.get(1)?, fragment)?;
        }
        let done = self.set(ins.get(0)?, result);
        self.guard = guard;
        done
    }

    /// A and B: descriptors of matrices in shared memory, or A in registers. Behind `scale` come their signs, and
    /// whether they are transposed.
    fn factors(&mut self, ins: &Ins<'a>, scale: usize) -> Option<Vec<Arg>> {
        let in_registers = matches!(ins.get(1)?, Operand::Vector(_));
        let (negative_a, negative_b) = (is(ins, scale + 1, -1)?, is(ins, scale + 2, -1)?);
        let mut args = Vec::new();
        let mut descriptors: Fragment = Vec::new();
        let mut suffixes = vec![(M::negB, negative_b)];
        if in_registers {
            let words = self.fragment(ins.get(1)?)?;
            let fragment = self.value(&words);
            args.push(if negative_a { Arg::from(fragment).negated() } else { fragment.into() });
            suffixes.push((M::tnspB, is(ins, scale + 3, 1)?));
        } else {
            descriptors.extend(self.words(ins.get(1)?, Type::U64)?);
            suffixes.insert(0, (M::negA, negative_a));
            suffixes.push((M::tnspA, is(ins, scale + 3, 1)?));
            suffixes.push((M::tnspB, is(ins, scale + 4, 1)?));
        }
        descriptors.extend(self.words(ins.get(2)?, Type::U64)?);
        let descriptor = Arg::from(self.uniform(&descriptors));
        let named = suffixes.iter().filter(|(_, on)| *on);
        args.push(named.fold(descriptor, |arg, (suffix, _)| arg.suffixed(*suffix)));
        Some(args)
    }

    /// Appends a product. Where its guard is false, its result is the accumulator.
    fn start(
        &mut self,
        op: sass::Op,
        modifiers: &[M],
        accumulator: Value,
        mut args: Vec<Arg>,
        fragment: Option<Value>,
    ) -> Value {
        if self.flight.serial {
            self.arrive();
            args.push(Arg::Name(M::gsb0));
        }
        let words = self.kernel.code.values[accumulator].words;
        let result = self.kernel.code.value(File::R, words);
        let mut data = self.data(Op::Machine(op), modifiers, &[result], &args);
        let kept = smallvec![accumulator];
        data.guard = self.guard.map(|(predicate, negated)| Guard { predicate, negated, kept });
        self.kernel.code.append(self.block, data);
        if !self.flight.serial {
            return result;
        }
        self.effect(sass::Op::WARPGROUP, &[M::DEPBAR, M::LE], &[], &[Arg::Name(M::gsb0), Arg::Imm(0)]);
        let landed = self.kernel.code.value(File::R, words);
        let args: Vec<Arg> = std::iter::once(result).chain(fragment).map(Arg::from).collect();
        let data = self.data(Op::Pseudo(Pseudo::Landed), &[], &[landed], &args);
        self.kernel.code.append(self.block, data);
        landed
    }

    /// Words that are the same for all threads, in uniform registers.
    fn uniform(&mut self, words: &[Arg]) -> Value {
        let parts: Vec<Arg> = words
            .iter()
            .map(|word| {
                let word = self.in_register(*word);
                let result = self.kernel.code.value(File::UR, 1);
                self.emit_to(sass::Op::R2UR, &[], &[result], &[word]);
                result.into()
            })
            .collect();
        let all = self.kernel.code.value(File::UR, parts.len() as u8);
        let data = self.data(Op::Pseudo(Pseudo::Pack), &[], &[all], &parts);
        self.kernel.code.append(self.block, data);
        all
    }
}

/// Is the operand at this place there, and this number?
fn is(ins: &Ins, index: usize, number: i32) -> Option<bool> {
    match index < ins.len() {
        true => Some(constant(ins.get(index)?, Type::U32)? as u32 as i32 == number),
        false => Some(false),
    }
}

/// The machine's operation and its modifiers.
fn asynchronous_operation(ins: &Ins, sparse: bool) -> Option<(sass::Op, Vec<M>)> {
    let [m, n, k] = dimensions(ins.word(Kind::Shape)?)?;
    let saturate = ins.flag("satfinite");
    let and = ins.flag("and");
    ins.flag("popc");
    let [d, a, b] = ins.types()[..] else { return None };
    let mut words = if sparse { vec![M::SP] } else { Vec::new() };
    words.push(M::from_name(&format!("{m}x{n}x{k}"))?);
    let op = match a.name() {
        "f16" => {
            words.push(type_word(d)?);
            sass::Op::HGMMA
        }
        "bf16" | "tf32" => {
            words.extend([type_word(d)?, type_word(a)?]);
            sass::Op::HGMMA
        }
        "e4m3" | "e5m2" => {
            words.extend([type_word(d)?, type_word(a)?, type_word(b)?]);
            sass::Op::QGMMA
        }
        "b1" if and => {
            words.extend([M::AND, M::POPC]);
            sass::Op::BGMMA
        }
        _ => {
            words.extend([type_word(a)?, type_word(b)?]);
            words.extend(saturate.then_some(M::SAT));
            sass::Op::IGMMA
        }
    };
    Some((op, words))
}
