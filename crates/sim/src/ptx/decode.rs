//! From a parsed module to a program: variables get their places, registers their slots, and each instruction
//! its step.
//!
//! Every modifier and every operand that a family looks at is ticked off ([`Ins`]). An instruction of which
//! something was overlooked, or that no family knows, becomes a step that faults when it is executed.
//!
//! | question | file |
//! |---|---|
//! | where are variables and registers? | [`layout`] |
//! | integers, bit fields, logic, shifts | [`integer`] |
//! | comparisons and choices | [`compare`] |
//! | floating point | [`float`] |
//! | conversions | [`convert`] |
//! | moves, loads, stores, atomics, address conversions | [`memory`] |
//! | branches, calls, barriers, what a warp does together | [`control`] |
//! | video instructions | [`video`] |
//! | matrix instructions | [`matrix`] |
//! | matrices of no known layout (`wmma`) | [`tiles`] |
//! | `wgmma` | [`group`] |
//! | asynchronous copies and their barriers | [`asynchronous`] |
//! | copies of tensors, and their maps | [`tensor`] |
//! | textures and surfaces | [`texture`] |

mod asynchronous;
mod compare;
mod control;
mod convert;
mod float;
mod group;
mod integer;
mod layout;
mod matrix;
pub(crate) mod memory;
mod tensor;
mod texture;
mod tiles;
mod video;

use super::program::{
    Action, Address, Dest, Function, Guard, LANES, Lanes, Program, Source, Special, Step, lanes,
};
use crate::memory::{FUNCTIONS, Space};
use ::ptx::Type;
use ::ptx::ast::{self, Operand, SymbolKind};
use ::ptx::table::Opcode;
use ::ptx::types::Class;
use ::ptx::words::{Kind, Word};
use layout::{Body, Layout, Place};
use ori::arith::{Flow, Format, Int, convert as conversion, float as formats};
use std::cell::Cell;

/// Decodes a module. `source` is the text that it was parsed from, for line numbers.
pub fn program(module: &ast::Module, source: &str) -> Program {
    let layout = Layout::new(module);
    let lines = Lines::new(source);
    let mut steps = Vec::new();
    let mut routines = Vec::new();
    for function in &layout.functions {
        let body = Body::new(&layout, function, steps.len() as u32);
        if let Some(code) = &function.body {
            let decoder = Decoder { layout: &layout, body: &body, code };
            steps.extend(code.stmts.iter().filter_map(|stmt| match stmt {
                ast::Stmt::Inst(inst) => Some(decoder.step(inst, lines.line(inst.span.start))),
                _ => None,
            }));
            // Falling off the end is a return.
            let line = lines.line(function.span.end);
            steps.push(Step { guard: None, line, action: Action::Return });
        }
        routines.push(body.routine);
    }
    let reserved_shared = layout::reserved_shared(module);
    Program {
        steps,
        routines,
        reserved_shared,
        globals: layout.globals,
        constants: layout.constants,
        names: layout.names,
    }
}

/// Byte offsets of the lines of a source.
struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    fn new(source: &str) -> Lines {
        let newlines = source.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1);
        Lines { starts: std::iter::once(0).chain(newlines).collect() }
    }

    fn line(&self, offset: u32) -> u32 {
        self.starts.partition_point(|start| *start <= offset) as u32
    }
}

/// An instruction, and how much of it has been looked at.
struct Ins<'a> {
    opcode: &'a Opcode,
    operands: &'a [Operand],
    seen_words: Cell<u32>,
    seen_operands: Cell<u32>,
}

impl<'a> Ins<'a> {
    fn new(opcode: &'a Opcode, operands: &'a [Operand]) -> Ins<'a> {
        Ins { opcode, operands, seen_words: Cell::new(0), seen_operands: Cell::new(0) }
    }

    fn mnemonic(&self) -> &'static str {
        self.opcode.mnemonic
    }

    fn len(&self) -> usize {
        self.operands.len()
    }

    fn flag(&self, word: &str) -> bool {
        self.take(|w| &w.text()[1..] == word).is_some()
    }

    /// Modifiers that change nothing here: caches, scopes, orders.
    fn ignore(&self, words: &[&str]) {
        while self.take(|w| words.contains(&&w.text()[1..])).is_some() {}
    }

    /// The value of the first modifier that a table names.
    fn choose<T: Copy>(&self, table: &[(&str, T)]) -> Option<T> {
        let word = self.take(|w| table.iter().any(|(name, _)| *name == &w.text()[1..]))?;
        table.iter().find(|(name, _)| *name == &word.text()[1..]).map(|(_, value)| *value)
    }

    fn word(&self, kind: Kind) -> Option<&'static str> {
        self.take(|w| w.kind() == kind).map(|w| &w.text()[1..])
    }

    fn take(&self, wanted: impl Fn(&Word) -> bool) -> Option<Word> {
        let seen = self.seen_words.get();
        let at = self.opcode.words.iter().enumerate().position(|(i, w)| seen >> i & 1 == 0 && wanted(w))?;
        self.seen_words.set(seen | 1 << at);
        Some(self.opcode.words[at])
    }

    /// The next type, in the order in which they are written.
    fn ty(&self) -> Option<Type> {
        self.take(|w| w.kind() == Kind::Type).and_then(Type::of_word)
    }

    fn get(&self, index: usize) -> Option<&'a Operand> {
        self.seen_operands.set(self.seen_operands.get() | 1u32.checked_shl(index as u32).unwrap_or(0));
        self.operands.get(index)
    }

    /// Operands from this one on that change nothing here.
    fn skip(&self, first: usize) {
        for i in first..self.len() {
            self.get(i);
        }
    }

    fn overlooked(&self) -> bool {
        let all = |n: usize| (1u64 << n.min(32)) - 1;
        u64::from(self.seen_words.get()) != all(self.opcode.words.len())
            || u64::from(self.seen_operands.get()) & all(self.operands.len()) != all(self.operands.len())
    }
}

/// What the elements of a type are, and how many there are in a register.
#[derive(Clone, Copy)]
enum Number {
    Int(Int, u32),
    Float(Format, u32),
}

impl Number {
    fn of(ty: Type) -> Option<Number> {
        Some(match (ty.name(), ty.class()) {
            ("f16", _) => Number::Float(formats::F16, 1),
            ("f16x2", _) => Number::Float(formats::F16, 2),
            ("bf16", _) => Number::Float(formats::BF16, 1),
            ("bf16x2", _) => Number::Float(formats::BF16, 2),
            ("f32", _) => Number::Float(formats::F32, 1),
            ("f32x2", _) => Number::Float(formats::F32, 2),
            ("f64", _) => Number::Float(formats::F64, 1),
            ("s16x2", _) => Number::Int(Int::S16, 2),
            ("u16x2", _) => Number::Int(Int::U16, 2),
            (_, Class::Bits | Class::Unsigned | Class::Signed) => Number::Int(int(ty)?, 1),
            _ => return None,
        })
    }
}

/// An integer type of at most 64 bits; what is no signed integer counts as unsigned bits.
fn int(ty: Type) -> Option<Int> {
    (8..=64).contains(&ty.bits()).then(|| Int { bits: ty.bits(), signed: ty.is_signed() })
}

fn bits_of(ty: Type) -> Int {
    Int { bits: ty.bits().clamp(1, 64), signed: ty.is_signed() }
}

/// A function of `N` inputs, lane by lane.
fn map<const N: usize>(f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static) -> Function {
    Box::new(move |inputs, outputs, mask| {
        let Some((out, inputs)) = outputs.first_mut().zip(inputs.first_chunk::<N>()) else { return };
        if mask == u32::MAX {
            for lane in 0..LANES {
                out[lane] = f(inputs.map(|input: &Lanes| input[lane]));
            }
        } else {
            lanes(mask).for_each(|lane| out[lane] = f(inputs.map(|input: &Lanes| input[lane])));
        }
    })
}

/// A function with two results.
fn map_two<const N: usize>(f: impl Fn([u64; N]) -> (u64, u64) + Send + Sync + 'static) -> Function {
    Box::new(move |inputs, outputs, mask| {
        let ([first, second, ..], Some(inputs)) = (outputs, inputs.first_chunk::<N>()) else { return };
        for lane in lanes(mask) {
            (first[lane], second[lane]) = f(inputs.map(|input: &Lanes| input[lane]));
        }
    })
}

/// A function of all inputs and outputs of a lane.
fn map_all(f: impl Fn(&[u64], &mut [u64]) + Send + Sync + 'static) -> Function {
    Box::new(move |inputs, outputs, mask| {
        for lane in lanes(mask) {
            let given: Vec<u64> = inputs.iter().map(|input| input[lane]).collect();
            let mut results = vec![0; outputs.len()];
            f(&given, &mut results);
            outputs.iter_mut().zip(results).for_each(|(out, result)| out[lane] = result);
        }
    })
}

/// A function of elements of `width` bits, `count` to a register.
fn elements<const N: usize>(
    width: u32,
    count: u32,
    f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static,
) -> Function {
    if count == 1 {
        return map(f);
    }
    let mask = u64::MAX >> (64 - width);
    map(move |inputs: [u64; N]| {
        (0..count).fold(0, |out, i| {
            let shift = i * width;
            out | (f(inputs.map(|input| input >> shift & mask)) & mask) << shift
        })
    })
}

struct Decoder<'a> {
    layout: &'a Layout<'a>,
    body: &'a Body,
    code: &'a ast::Body<'a>,
}

impl<'a> Decoder<'a> {
    fn step(&self, inst: &ast::Inst, line: u32) -> Step {
        let opcode = &self.layout.module.opcodes[inst.opcode.0 as usize];
        let ins = Ins::new(opcode, self.code.list(inst.operands));
        let unsupported = || Action::Unsupported(format!("'{}'", opcode.spelling));
        let action = self.family(&ins).filter(|_| !ins.overlooked()).unwrap_or_else(unsupported);
        let guard = match inst.guard {
            None => None,
            Some(guard) => match guard.reg() {
                Some(reg) => Some(Guard::Slot(self.body.slot(reg), !guard.negated)),
                None => Some(Guard::ExplicitCluster(!guard.negated)),
            },
        };
        Step { guard, line, action }
    }

    /// Chooses by mnemonic, and by type where several families share one. `None`: not supported.
    fn family(&self, ins: &Ins<'a>) -> Option<Action> {
        let last = ins.opcode.types().last().and_then(Number::of);
        let name = ins.mnemonic();
        match name {
            "mov" | "ld" | "ldu" | "st" | "cvta" | "cvta.to" | "isspacep" | "atom" | "red" | "mapa"
            | "getctarank" | "alloca" | "stacksave" | "stackrestore" | "prefetch" | "prefetchu"
            | "applypriority" | "discard" | "st.bulk" => self.memory(ins),
            "st.async" | "red.async" | "cp.async.mbarrier.arrive" | "cp.reduce.async.bulk" => {
                self.asynchronous(ins)
            }
            "cp.async.bulk.tensor" | "cp.reduce.async.bulk.tensor" | "cp.async.bulk.prefetch.tensor" => {
                self.tensor(ins)
            }
            _ if name.starts_with("multimem") => self.memory(ins),
            _ if name.starts_with("tensormap") => self.tensor(ins),
            _ if name.starts_with("mbarrier") || name.starts_with("cp.async.bulk") => self.asynchronous(ins),
            _ if name.starts_with("cp.async") || name.starts_with("createpolicy") => self.memory(ins),
            "mma" | "ldmatrix" | "stmatrix" | "movmatrix" => self.matrix(ins),
            _ if name.starts_with("wmma") => self.tiles(ins),
            _ if name.starts_with("wgmma") => self.group(ins),
            "tex" | "tex.base" | "tex.level" | "tex.grad" | "tld4" | "txq" | "txq.level" | "suq"
            | "suld.b" | "sust.b" | "sust.p" => self.texture(ins),
            "setp" | "set" | "selp" | "slct" | "testp" => self.compare(ins),
            "cvt" | "cvt.pack" => self.convert(ins),
            "and" | "or" | "xor" | "not" | "cnot" | "lop3" | "shf.l" | "shf.r" | "shl" | "shr" | "prmt" => {
                self.logic(ins)
            }
            "bra" | "brx.idx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "activemask" | "elect"
            | "match" | "redux" | "shfl" | "vote" | "nanosleep" | "pmevent" | "pmevent.mask" | "fence"
            | "membar" | "fence.proxy" | "membar.proxy" | "griddepcontrol" | "setmaxnreg.inc"
            | "setmaxnreg.dec" => self.control(ins),
            _ if name.starts_with("bar") => self.control(ins),
            _ if name.starts_with('v') => self.video(ins),
            _ if matches!(last, Some(Number::Float(..))) => self.float(ins),
            _ => self.integer(ins),
        }
    }

    /// A result and the arguments after it, in the order of the operands.
    fn compute(&self, dest: Dest, sources: Vec<Source>, function: Function) -> Option<Action> {
        Some(Action::Compute { sources: sources.into(), dests: [dest].into(), function })
    }

    /// `d, a, b, …`, all of one type.
    fn uniform(&self, ins: &Ins, ty: Type, count: usize, function: Function) -> Option<Action> {
        (ins.len() == count + 1).then_some(())?;
        let dest = self.dest(ins.get(0)?, ty)?;
        let sources = (1..=count).map(|i| self.source(ins.get(i)?, ty)).collect::<Option<_>>()?;
        self.compute(dest, sources, function)
    }

    fn dest(&self, operand: &Operand, ty: Type) -> Option<Dest> {
        let slot = match operand {
            Operand::Sink => return Some(Dest::SINK),
            Operand::Reg(reg) => self.body.slot(*reg),
            Operand::Part { reg, part, negated: false } => self.element(*reg, *part)?,
            _ => return None,
        };
        Some(Dest { slot: Some(slot), mask: self.body.mask(slot), from: bits_of(ty) })
    }

    /// The slot of `%v.x`.
    fn element(&self, reg: ast::Reg, part: ast::Part) -> Option<u32> {
        let (decl, _) = self.code.reg_decl(reg);
        let element = part.element().filter(|e| *e < decl.vector)?;
        (decl.ty.bits() <= 64).then(|| self.body.slot(reg) + u32::from(element))
    }

    /// All registers of an operand: one, those of a vector, or the halves of one of 128 bits.
    fn dests(&self, operand: &Operand, ty: Type) -> Option<Vec<Dest>> {
        let one = |operand: &Operand| match operand {
            Operand::Reg(reg) if self.code.reg_decl(*reg).0.vector > 1 || ty.bits() > 64 => {
                let slot = self.body.slot(*reg);
                let slots = 0..self.body.slots_of(self.code.reg_decl(*reg).0);
                let narrow = if ty.bits() > 64 { Type::B64 } else { ty };
                let dest =
                    |i| Dest { slot: Some(slot + i), mask: self.body.mask(slot + i), from: bits_of(narrow) };
                Some(slots.map(dest).collect())
            }
            Operand::Sink if ty.bits() > 64 => Some(vec![Dest::SINK; 2]),
            other => self.dest(other, ty).map(|dest| vec![dest]),
        };
        match operand {
            Operand::Vector(range) => {
                let all: Option<Vec<Vec<Dest>>> = self.code.list(*range).iter().map(one).collect();
                all.map(|all| all.concat())
            }
            other => one(other),
        }
    }

    fn sources(&self, operand: &Operand, ty: Type) -> Option<Vec<Source>> {
        let one = |operand: &Operand| match operand {
            Operand::Reg(reg) if self.code.reg_decl(*reg).0.vector > 1 || ty.bits() > 64 => {
                let slot = self.body.slot(*reg);
                let slots = 0..self.body.slots_of(self.code.reg_decl(*reg).0);
                Some(slots.map(|i| Source::Slot(slot + i)).collect())
            }
            Operand::Int { value, .. } if ty.bits() > 64 => {
                // ptxas extends with zeros, whatever the sign.
                Some(vec![Source::constant(*value), Source::constant(0)])
            }
            other => self.source(other, ty).map(|source| vec![source]),
        };
        match operand {
            Operand::Vector(range) => {
                let all: Option<Vec<Vec<Source>>> = self.code.list(*range).iter().map(one).collect();
                all.map(|all| all.concat())
            }
            other => one(other),
        }
    }

    fn source(&self, operand: &Operand, ty: Type) -> Option<Source> {
        Some(match operand {
            Operand::Reg(reg) => Source::Slot(self.body.slot(*reg)),
            Operand::Not(reg) => Source::Not(self.body.slot(*reg)),
            Operand::Part { reg, part, negated: false } => Source::Slot(self.element(*reg, *part)?),
            Operand::Special { row, component } => special(*row, *component)?,
            Operand::Symbol(symbol) => self.address_of(*symbol, 0)?,
            Operand::Sum(range) => match self.code.list(*range) {
                [Operand::Symbol(symbol), Operand::Offset(offset)] => self.address_of(*symbol, *offset)?,
                _ => return None,
            },
            _ => Source::constant(constant(operand, ty)?),
        })
    }

    /// A predicate argument.
    fn predicate(&self, operand: &Operand) -> Option<Source> {
        self.source(operand, Type::PRED)
    }

    /// The address of a variable in its own space, or of a function.
    fn address_of(&self, symbol: ast::Symbol, offset: i64) -> Option<Source> {
        let at = |base: u64| Source::constant(base.wrapping_add_signed(offset));
        Some(match self.body.place(self.layout, symbol)? {
            Place::Global(address) => at(address),
            Place::Const(base) | Place::Param(base) => at(base.into()),
            Place::Shared(base) => Source::Shared(u32::try_from(i64::from(base) + offset).ok()?),
            Place::Local(base) => Source::Local(u32::try_from(i64::from(base) + offset).ok()?),
            Place::DynamicShared => Source::DynamicShared(offset),
            Place::Function(index) => at(FUNCTIONS + 16 * u64::from(index)),
        })
    }

    /// `[base + offset]`
    fn address(&self, operand: &Operand, space: Space) -> Option<Address> {
        self.address_and_more(operand, space).filter(|(_, more)| more.is_empty()).map(|(address, _)| address)
    }

    /// `[base + offset, more]`
    fn address_and_more(&self, operand: &Operand, space: Space) -> Option<(Address, &'a [Operand])> {
        let Operand::Address(range) = operand else { return None };
        let list = self.code.list(*range);
        let (offset, more) = match list {
            [_, Operand::Offset(offset), more @ ..] => (*offset, more),
            [_, more @ ..] => (0, more),
            [] => return None,
        };
        // A variable's own space is as good as a generic address, and a parameter may be in local memory.
        let space = match list.first()? {
            Operand::Symbol(symbol) if matches!(space, Space::Generic | Space::Param) => {
                match self.body.place(self.layout, *symbol)? {
                    Place::Global(_) | Place::Function(_) => Space::Global,
                    Place::Const(_) => Space::Const,
                    Place::Shared(_) | Place::DynamicShared => Space::Shared,
                    Place::Param(_) => Space::Param,
                    Place::Local(_) => Space::Local,
                }
            }
            _ => space,
        };
        let base = self.source(list.first()?, Type::U64)?;
        Some((Address { space, base, offset }, more))
    }

    fn symbol_kind(&self, symbol: ast::Symbol) -> Option<&'a SymbolKind> {
        self.layout.module.symbols.get(symbol.0 as usize).map(|info| &info.kind)
    }
}

/// A constant as the bits of a type.
fn constant(operand: &Operand, ty: Type) -> Option<u64> {
    let mask = u64::MAX >> (64 - ty.bits().clamp(1, 64));
    let narrow =
        |format: Format, bits: u64| conversion::float_to_float(formats::F64, format, Flow::NEAREST, bits);
    Some(match (operand, Number::of(ty)) {
        (Operand::Int { value, .. }, _) if ty == Type::PRED => u64::from(*value != 0),
        (Operand::Int { value, .. }, _) => value & mask,
        (Operand::F32(bits), Some(Number::Float(formats::F64, _))) => {
            conversion::float_to_float(formats::F32, formats::F64, Flow::NEAREST, (*bits).into())
        }
        (Operand::F32(bits), _) => (*bits).into(),
        (Operand::F64(bits), Some(Number::Float(format, 1))) if format != formats::F64 => {
            narrow(format, *bits)
        }
        (Operand::F64(bits), _) if ty.bits() == 64 => *bits,
        _ => return None,
    })
}

fn special(row: u16, component: Option<u8>) -> Option<Source> {
    let register = ::ptx::sreg::TABLE.get(usize::from(row))?;
    let axis = usize::from(component.unwrap_or(0));
    let axes = |special: fn(usize) -> Special| match axis {
        0..=2 => Source::Special(special(axis)),
        _ => Source::constant(0),
    };
    let fixed = |value: u64| Source::constant(value);
    Some(match register.name {
        "%tid" => axes(Special::Tid),
        "%ntid" => axes(Special::Ntid),
        "%ctaid" => axes(Special::Ctaid),
        "%nctaid" => axes(Special::Nctaid),
        "%clusterid" => axes(Special::ClusterId),
        "%nclusterid" => axes(Special::NClusterId),
        "%cluster_ctaid" => axes(Special::ClusterCtaid),
        "%cluster_nctaid" => axes(Special::ClusterNctaid),
        "%cluster_ctarank" => Source::Special(Special::ClusterCtarank),
        "%cluster_nctarank" => Source::Special(Special::ClusterNctarank),
        "%is_explicit_cluster" => Source::Special(Special::IsExplicitCluster),
        "%laneid" => Source::Special(Special::LaneId),
        "%warpid" => Source::Special(Special::WarpId),
        "%nwarpid" => fixed(super::WARPS.into()),
        "%lanemask_eq" => Source::Special(Special::LaneMask(|lane| 1 << lane)),
        "%lanemask_le" => Source::Special(Special::LaneMask(|lane| (2u32 << lane).wrapping_sub(1))),
        "%lanemask_lt" => Source::Special(Special::LaneMask(|lane| (1 << lane) - 1)),
        "%lanemask_ge" => Source::Special(Special::LaneMask(|lane| !((1 << lane) - 1))),
        "%lanemask_gt" => Source::Special(Special::LaneMask(|lane| !(2u32 << lane).wrapping_sub(1))),
        // Time is the number of instructions executed.
        "%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo" => Source::Special(Special::Clock),
        "%clock_hi" | "%globaltimer_hi" => Source::Special(Special::ClockHigh),
        "%total_smem_size" | "%aggr_smem_size" => Source::Special(Special::TotalSharedSize),
        "%dynamic_smem_size" => Source::Special(Special::DynamicSharedSize),
        "%nsmid" => fixed(super::MULTIPROCESSORS.into()),
        // All is on the first multiprocessor, in the first grid; counters count nothing.
        "%gridid" | "%smid" | "%envreg" | "%current_graph_exec" => fixed(0),
        name if name.starts_with("%pm") || name.starts_with("%reserved_smem_offset") => fixed(0),
        _ => return None,
    })
}
