//! From a PTX instruction to the file that lowers it.
//!
//! Every modifier and every operand that a family looks at is ticked off ([`Ins`]). What is left in the end was not
//! understood, and the instruction is refused: nothing of it can get lost. The parts of operands are ticked off where
//! they are read (`operand_use.rs`).

use super::Lower;
use super::operand_use::VALUE;
use crate::context::Failure;
use crate::module::setmaxnreg;
use ori::Value;
use ptx::Type;
use ptx::ast::{self, Operand};
use ptx::table::Opcode;
use ptx::words::Kind;
use std::cell::Cell;

/// An instruction as its family sees it.
pub struct Ins<'a> {
    opcode: &'a Opcode,
    operands: &'a [Operand],
    seen_words: Cell<u32>,
    seen_operands: Cell<u32>,
}

impl<'a> Ins<'a> {
    pub fn new(opcode: &'a Opcode, operands: &'a [Operand]) -> Ins<'a> {
        Ins { opcode, operands, seen_words: Cell::new(0), seen_operands: Cell::new(0) }
    }

    /// `add`, `mul.lo`, `cp.async.bulk`: what the table calls the instruction.
    pub fn mnemonic(&self) -> &'static str {
        self.opcode.mnemonic
    }

    /// How many operands there are.
    pub fn len(&self) -> usize {
        self.operands.len()
    }

    /// Is this modifier present?
    pub fn flag(&self, word: &str) -> bool {
        self.one_of(&[word]).is_some()
    }

    /// The first of these modifiers that is present.
    pub fn one_of(&self, words: &[&str]) -> Option<&'static str> {
        self.take(|w| words.contains(&&w.text()[1..])).map(|w| &w.text()[1..])
    }

    /// The first modifier that begins so.
    pub fn starting_with(&self, beginning: &str) -> Option<&'static str> {
        self.take(|w| w.text()[1..].starts_with(beginning)).map(|w| &w.text()[1..])
    }

    /// The first unread modifier of a kind, without its dot.
    pub fn word(&self, kind: Kind) -> Option<&'static str> {
        self.take(|w| w.kind() == kind).map(|w| &w.text()[1..])
    }

    /// Is there a modifier of a kind? Doesn't mark it as read.
    pub fn has(&self, kind: Kind) -> bool {
        self.opcode.words.iter().any(|w| w.kind() == kind)
    }

    pub fn has_word(&self, word: &str) -> bool {
        self.opcode.has(word)
    }

    fn take(&self, wanted: impl Fn(&ptx::words::Word) -> bool) -> Option<ptx::words::Word> {
        let seen = self.seen_words.get();
        let at = self.opcode.words.iter().enumerate().position(|(i, w)| seen >> i & 1 == 0 && wanted(w))?;
        self.seen_words.set(seen | 1 << at);
        Some(self.opcode.words[at])
    }

    /// The types in the order in which they are written.
    pub fn types(&self) -> Vec<Type> {
        std::iter::from_fn(|| self.take(|w| w.kind() == Kind::Type)).filter_map(Type::of_word).collect()
    }

    /// The one type of an instruction that has one.
    pub fn ty(&self) -> Option<Type> {
        let types = self.types();
        (types.len() == 1).then(|| types[0])
    }

    /// An optional operand.
    pub fn get(&self, index: usize) -> Option<&'a Operand> {
        self.seen_operands.set(self.seen_operands.get() | 1u32.checked_shl(index as u32).unwrap_or(0));
        self.operands.get(index)
    }

    /// Does a rule about spelling and operands apply?
    pub fn matches(&self, rule: fn(&Opcode, &[Operand]) -> bool) -> bool {
        rule(self.opcode, self.operands)
    }

    /// The first type, whether or not it is ticked off.
    pub fn result_type(&self) -> Option<Type> {
        self.opcode.types().next()
    }

    /// The type that the instruction ends in, without ticking it off: for choosing a family.
    fn last_type(&self) -> Option<Type> {
        self.opcode.types().last()
    }

    /// An unread modifier or operand.
    fn overlooked(&self) -> bool {
        let all = |n: usize| (1u64 << n.min(32)) - 1;
        u64::from(self.seen_words.get()) != all(self.opcode.words.len())
            || u64::from(self.seen_operands.get()) & all(self.operands.len()) != all(self.operands.len())
    }

    /// The operands that a family has asked for.
    fn seen(&self) -> impl Iterator<Item = &'a Operand> {
        let seen = self.seen_operands.get();
        self.operands.iter().zip(0..u32::BITS).filter(move |(_, i)| seen >> i & 1 != 0).map(|(o, _)| o)
    }
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn inst(&mut self, inst: &ast::Inst) -> Result<(), Failure> {
        let (module, body): (&'a ast::Module, &'a ast::Body) = (self.module, self.body);
        let opcode = &module.opcodes[inst.opcode.0 as usize];
        let ins = Ins::new(opcode, body.list(inst.operands));
        if let Some(guard) = inst.guard {
            self.guard = Some(self.guard(guard, inst.span)?);
        }
        self.operand_use.begin(body, inst.operands);
        self.steer(&ins);
        self.unguarded = self.kernel.code.insts.len();
        let done = self.family(&ins);
        self.guard = None;
        match opcode.mnemonic {
            "shfl" | "vote" | "match" | "redux" | "bar.warp" => self.kernel.collectives.push(self.at),
            "activemask" | "elect" => self.kernel.observers.push(self.at),
            _ => {}
        }
        match done {
            Some(()) if !ins.overlooked() => self.check_operands_read(&ins, inst),
            _ => Err(self.unsupported_at(inst.span, &format!("Instruction '{}'", opcode.spelling))),
        }
    }

    /// Every part of every operand has been read.
    fn check_operands_read(&self, ins: &Ins<'a>, inst: &ast::Inst) -> Result<(), Failure> {
        // Who asks for an operand that is one register or number reads it.
        ins.seen().for_each(|operand| self.mark_parts(operand, VALUE));
        let Some(operand) = self.operand_use.unread(self.body, inst.operands) else { return Ok(()) };
        let what = format!("a part of operand {} of '{}' is not read", operand + 1, ins.opcode.spelling);
        let failure = Failure::internal("lower", &self.kernel.code.name, what);
        Err(Failure { line: self.lines.line(inst.span.start), span: inst.span, ..failure })
    }

    /// The predicate of a guard, and whether it is negated.
    pub(crate) fn guard(
        &mut self,
        guard: ast::Guard,
        span: ptx::diag::Span,
    ) -> Result<(Value, bool), Failure> {
        let value = match guard.predicate {
            ast::Predicate::Reg(reg) => Some(self.read(reg)),
            ast::Predicate::Special(row) => self.special_predicate(row),
        };
        let value = value.ok_or_else(|| self.unsupported_at(span, "This guard"))?;
        Ok((value, guard.negated))
    }

    fn is_param_word(&self, address: Option<&Operand>) -> bool {
        address.is_some_and(|a| self.params.find(self.body, a).is_some())
    }

    /// Chooses by mnemonic, and by type where integers and floats share one. `None`: not supported.
    fn family(&mut self, ins: &Ins<'a>) -> Option<()> {
        let kind = ins.last_type().map_or(Number::Integer, Number::of);
        match (ins.mnemonic(), kind) {
            ("call", _) => self.call(ins),
            ("ld", _) if self.is_param_word(ins.operands.get(1)) => self.param_access(ins),
            ("st", _) if self.is_param_word(ins.operands.first()) => self.param_access(ins),
            ("mov", _) => self.mov(ins),
            ("setp" | "set" | "selp" | "slct" | "testp", _) => self.compare(ins),
            ("cvt", _) => self.convert(ins),
            ("cvt.pack", _) => self.convert_pack(ins),
            (
                "and" | "or" | "xor" | "not" | "cnot" | "lop3" | "shf.l" | "shf.r" | "shl" | "shr" | "prmt",
                _,
            ) => self.logic(ins),
            (
                "ld" | "ldu" | "st" | "cvta" | "cvta.to" | "prefetch" | "prefetchu" | "applypriority"
                | "discard",
                _,
            )
            | ("isspacep" | "istypep" | "mapa" | "getctarank" | "alloca" | "stacksave" | "stackrestore", _) => {
                self.memory(ins)
            }
            ("atom" | "red", _) => self.atomic(ins),
            ("fence" | "fence.proxy" | "membar" | "membar.proxy", _) => self.fence(ins),
            ("cp.async" | "cp.async.commit_group" | "cp.async.wait_group", _)
            | ("cp.async.wait_all" | "cp.async.mbarrier.arrive", _) => self.async_copy(ins),
            ("st.async" | "red.async" | "st.bulk", _) => self.async_store(ins),
            (name, _) if name.starts_with("tcgen05") => self.tcgen05(ins),
            (name, _) if name.starts_with("mbarrier") => self.mbarrier(ins),
            (name, _)
                if ["cp.", "tensormap.", "clusterlaunchcontrol."].iter().any(|p| name.starts_with(p)) =>
            {
                self.bulk(ins)
            }
            (name, _) if name.starts_with("createpolicy") => self.memory(ins),
            (name, _) if name.starts_with("multimem") => self.multimem(ins),
            ("activemask" | "elect" | "match" | "redux" | "shfl" | "vote", _) => self.warp(ins),
            (setmaxnreg::INCREASE | setmaxnreg::DECREASE, _) => self.reconfigure(ins),
            ("nanosleep" | "pmevent" | "pmevent.mask" | "trap" | "brkpt" | "griddepcontrol", _) => {
                self.warp(ins)
            }
            ("mma" | "ldmatrix" | "stmatrix" | "movmatrix", _) => self.matrix(ins),
            (name, _) if name.starts_with("wmma") => self.wmma(ins),
            (name, _) if name.starts_with("wgmma") => self.wgmma(ins),
            (name, _) if name.starts_with("bar") => self.barrier(ins),
            (name, _) if name.starts_with("tex") || name.starts_with("tld4") || name.starts_with("txq") => {
                self.texture(ins)
            }
            (name, _) if name.starts_with("su") && name != "sub" && name != "subc" => self.surface(ins),
            (name, _) if name.starts_with('v') => self.video(ins),
            (_, Number::Half) => self.half(ins),
            (_, Number::Float) => self.float(ins),
            (_, Number::Integer) => self.integer(ins),
        }
    }
}

/// What an instruction's last type says about its family.
enum Number {
    Integer,
    /// f32, f64, f32x2.
    Float,
    /// f16, bf16 and their pairs.
    Half,
}

impl Number {
    fn of(ty: Type) -> Number {
        match ty.name() {
            "f16" | "f16x2" | "bf16" | "bf16x2" => Number::Half,
            "f32" | "f64" | "f32x2" => Number::Float,
            _ => Number::Integer,
        }
    }
}
