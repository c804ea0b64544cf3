//! Lowers `wgmma`: asynchronous MMAs of a warpgroup.
//!
//! | PTX | machine |
//! |---|---|
//! | `wgmma.fence` | `WARPGROUP.ARRIVE` |
//! | `mma_async` | an operation whose result is its accumulator's register tuple |
//! | `commit_group` | the mark `gsb0` on the last MMA of the group |
//! | `wait_group` | `WARPGROUP.DEPBAR`, then [`Pseudo::Landed`] of all outstanding operands |
//!
//! Between the two no instruction may access the registers of an outstanding wgmma. Two mechanisms ensure it:
//! outstanding values pass through each wait ([`Pseudo::Landed`]), so that no access moves across it, and allocated
//! code is checked ([`crate::mach::wgmma_hazards`]); if the check fails, the function is lowered again with serialized
//! MMAs. Where the PTX itself accesses outstanding registers, [`wgmma_stages`] inserts waits.

use crate::lower::Lower;
use crate::lower::build::{RZ, constant};
use crate::lower::control::cfg::{End, Graph, effects};
use crate::lower::control::param_words::ParamWords;
use crate::lower::instruction::Ins;
use crate::lower::tensor::mma::{Fragment, dimensions, type_word};
use crate::lower::tensor::wgmma_operands;
use crate::lower::tensor::wgmma_stages::{self, Reason, Stages, State};
use ori::{Arg, File, Guard, Op, Pseudo, Value};
use ptx::Type;
use ptx::ast::{Body, Inst, Module, Operand, Reg};
use ptx::words::Kind;
use sass::M;
use smallvec::smallvec;
use std::collections::BTreeSet;

/// `WARPGROUP.DEPBAR` counts up to this many groups.
const MOST_GROUPS: u64 = 7;

/// Outstanding wgmma during lowering.
#[derive(Default)]
pub struct Outstanding {
    stages: Stages,
    /// The reason to serialize, if there is one: then nothing is ever outstanding.
    serial: Option<Reason>,
    now: State,
    /// Values that MMAs of this block may still access though their PTX register was overwritten.
    overwritten: Vec<Value>,
}

impl Outstanding {
    pub fn new(
        module: &Module,
        body: &Body,
        params: &ParamWords,
        graph: &Graph,
        serial: Option<Reason>,
    ) -> Outstanding {
        let mut stages = Stages::new(module, body, params, graph);
        stages.serial = stages.serial.or(serial);
        Outstanding { serial: stages.serial, stages, ..Outstanding::default() }
    }

    /// The registers whose value a wait may replace, or that it reads.
    pub fn registers(&self) -> &BTreeSet<Reg> {
        &self.stages.registers
    }

    pub fn enter(&mut self, block: usize) {
        self.overwritten.clear();
        if self.serial.is_none() {
            self.now = self.stages.start(block);
        }
    }
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn wgmma(&mut self, ins: &Ins<'a>) -> Option<()> {
        // `.sync.aligned`: where the warp waits for others of its warpgroup, it converges first.
        ins.flag("sync");
        ins.flag("aligned");
        match ins.mnemonic() {
            "wgmma.mma_async" => return self.mma_async(ins),
            "wgmma.fence" if self.outstanding.serial.is_none() => self.arrive(),
            "wgmma.commit_group" if self.outstanding.serial.is_none() => self.commit(),
            "wgmma.wait_group" => {
                let groups = constant(ins.get(0)?, Type::U32)?;
                if self.outstanding.serial.is_none() {
                    self.wait(groups);
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Reports inserted arrivals and waits, and the reason for serialization.
    pub(crate) fn advise(&mut self) {
        let lines = self.lines;
        let messages = self.outstanding.stages.messages(&self.kernel.code.name, |at| lines.line(at));
        self.kernel.advice.extend(messages);
    }

    /// Inserts the arrivals and waits before an instruction. Returns whether the instruction itself needs no code.
    pub(crate) fn before(&mut self, inst: &Inst) -> bool {
        if self.outstanding.serial.is_some() || self.routine.is_some() {
            return false;
        }
        if self.outstanding.stages.arrives_before(inst.span.start) {
            self.arrive();
        }
        if self.outstanding.stages.waits_before(inst.span.start) {
            self.wait_all();
        }
        let opcode = &self.module.opcodes[inst.opcode.0 as usize];
        if opcode.mnemonic.starts_with("wgmma.") {
            return false;
        }
        let (written, _) = effects(self.body, &self.params, opcode, inst);
        self.retain_overwritten(&written);
        let copy = wgmma_stages::renaming(self.module, self.body, inst);
        let Some((to, from)) = copy.filter(|copy| self.outstanding.now.rename(Some(*copy))) else {
            return false;
        };
        let value = self.read(from);
        self.now.set(to, value);
        true
    }

    /// The same for the end of a block.
    pub(crate) fn before_end(&mut self, block: usize) {
        let end = &self.graph.blocks[block];
        let exits = matches!(end.end, End::Exit | End::Return) && self.outstanding.serial.is_none();
        if exits && self.outstanding.stages.waits_before(end.span.start) {
            self.wait_all();
        }
    }

    /// Overwritten registers of outstanding MMAs: their values must stay in place until a wait.
    fn retain_overwritten(&mut self, written: &[Reg]) {
        let (accumulators, sources) = (self.outstanding.now.accumulators(), self.outstanding.now.sources());
        let in_flight = |r: &&Reg| accumulators.contains(r) || sources.contains(r);
        let lost = written.iter().filter(in_flight).filter_map(|r| self.now.get(*r));
        self.outstanding.overwritten.extend(lost);
        self.outstanding.now.overwrite(written);
    }

    /// Waits for all outstanding MMAs.
    fn wait_all(&mut self) {
        self.wait(0);
    }

    fn arrive(&mut self) {
        self.converge_warp();
        self.effect(sass::Op::WARPGROUP, &[M::ARRIVE], &[], &[]);
    }

    /// Marks the last MMA of the block as the end of its group, or an empty MMA if there is none.
    fn commit(&mut self) {
        self.outstanding.now.commit();
        let code = &mut self.kernel.code;
        let last = code.blocks[self.block].insts.iter().rev().find(|i| code.insts[**i].is_wgmma());
        let end = Arg::Name(M::gsb0);
        match last.copied().map(|i| &mut code.insts[i]) {
            Some(inst) if inst.guard.is_none() && self.guard.is_none() && inst.args.last() != Some(&end) => {
                inst.args.push(end);
            }
            _ => {
                self.converge_warp();
                let args = [RZ, Arg::Zero(File::UR), RZ, Arg::True(false), end];
                self.effect(sass::Op::HGMMA, &[M::_64x8x16, M::F16], &[], &args);
            }
        }
    }

    /// Waits until at most so many groups are outstanding.
    fn wait(&mut self, groups: u64) {
        if self.outstanding.now.is_open() && self.guard.is_none() {
            self.commit();
        }
        let most = Arg::Imm(groups.min(MOST_GROUPS) as i64);
        self.converge_warp();
        self.effect(sass::Op::WARPGROUP, &[M::DEPBAR, M::LE], &[], &[Arg::Name(M::gsb0), most]);
        let value = |reg: Reg| self.now.get(reg).map(|value| (reg, value));
        let known: Vec<(Reg, Value)> =
            self.outstanding.now.accumulators().into_iter().filter_map(value).collect();
        let sources = self.outstanding.now.sources().into_iter().filter_map(value).map(|(_, v)| v);
        let sources: Vec<Value> = sources.chain(self.outstanding.overwritten.iter().copied()).collect();
        if self.guard.is_none() {
            self.outstanding.now.wait(groups);
        }
        if self.guard.is_none() && groups == 0 {
            self.outstanding.overwritten.clear();
        }
        if known.is_empty() && sources.is_empty() {
            return;
        }
        let (mut args, mut landed): (Vec<Value>, Vec<Value>) = Default::default();
        for (reg, value) in known {
            // Registers with the same value have the same one after the wait.
            let at = args.iter().position(|v| *v == value).unwrap_or_else(|| {
                let data = self.kernel.code.values[value];
                landed.push(self.kernel.code.value(data.file, data.words));
                args.push(value);
                args.len() - 1
            });
            self.now.set(reg, landed[at]);
        }
        let args: Vec<Arg> = args.into_iter().chain(sources).map(Arg::from).collect();
        let data = self.data(Op::Pseudo(Pseudo::Landed), &[], &landed, &args);
        self.kernel.code.append(self.block, data);
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
        // The operand that the MMA reads until it completes: A, if in general registers.
        let fragment = args[0].value().filter(|v| self.kernel.code.values[*v].file == File::R);
        let result = self.emit_mma_async(op, &modifiers, accumulator, args, fragment);
        // The guard is on the MMA already.
        let guard = self.guard.take();
        if self.outstanding.serial.is_none() {
            let a = wgmma_operands::elements(self.body, ins.get(1)?);
            self.outstanding.now.start_mma(&wgmma_operands::elements(self.body, ins.get(0)?), &a);
            // A's registers are now the fragment's words: they stay in place until a wait.
            if let Some(fragment) = fragment {
                self.set(ins.get(1)?, fragment)?;
            }
        }
        let done = self.set(ins.get(0)?, result);
        self.guard = guard;
        done
    }

    /// A and B: descriptors of matrices in shared memory, or A in registers. After `scale` come their signs, and
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
            // The descriptor of B is at the same position as beside one of A: the words before it are not read.
            descriptors.extend([self.undefined(File::UR, 1), self.undefined(File::UR, 1)].map(Arg::from));
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

    /// Appends an MMA. If its guard is false, its result is the accumulator.
    fn emit_mma_async(
        &mut self,
        op: sass::Op,
        modifiers: &[M],
        accumulator: Value,
        mut args: Vec<Arg>,
        fragment: Option<Value>,
    ) -> Value {
        if self.outstanding.serial.is_some() {
            self.arrive();
            args.push(Arg::Name(M::gsb0));
        }
        let words = self.kernel.code.values[accumulator].words;
        let result = self.kernel.code.value(File::R, words);
        let mut data = self.data(Op::Machine(op), modifiers, &[result], &args);
        let else_values = smallvec![accumulator];
        data.guard = self.guard.map(|(predicate, negated)| Guard { predicate, negated, else_values });
        self.kernel.code.append(self.block, data);
        if self.outstanding.serial.is_none() {
            return result;
        }
        self.effect(sass::Op::WARPGROUP, &[M::DEPBAR, M::LE], &[], &[Arg::Name(M::gsb0), Arg::Imm(0)]);
        let landed = self.kernel.code.value(File::R, words);
        let args: Vec<Arg> = std::iter::once(result).chain(fragment).map(Arg::from).collect();
        let data = self.data(Op::Pseudo(Pseudo::Landed), &[], &[landed], &args);
        self.kernel.code.append(self.block, data);
        landed
    }

    /// Moves warp-uniform words to uniform registers.
    fn uniform(&mut self, words: &[Arg]) -> Value {
        let parts: Vec<Arg> = words
            .iter()
            .map(|word| {
                if word.value().is_some_and(|v| self.kernel.code.values[v].file == File::UR) {
                    return *word;
                }
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

/// Is the operand with this index present, and this number?
fn is(ins: &Ins, index: usize, number: i32) -> Option<bool> {
    match index < ins.len() {
        true => Some(constant(ins.get(index)?, Type::U32)? as u32 as i32 == number),
        false => Some(false),
    }
}

/// The machine operation and its modifiers.
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
