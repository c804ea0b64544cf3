//! Lowers atomics and reductions.
//!
//! An operation that the machine lacks is a compare-and-swap loop. Three cases need one:
//!
//! * 64-bit and floating-point operations on shared memory;
//! * the same on generic addresses outside of global memory: the native operation returns whether it was done. The
//!   compare-and-swap works on all of shared memory, and returns (for 64 bits) whether the memory is the thread's own;
//! * 16-bit operations: the loop works on the containing word.

use crate::lower::Lower;
use crate::lower::build::{PT, RZ};
use crate::lower::control::cfg;
use crate::lower::instruction::Ins;
use crate::lower::memory::address::{Address, Space};
use crate::lower::memory::load_store::{Data, Order, Scope};
use ori::{Arg, Edge, File, Terminator, Value};
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};

/// An atomic operation, without its memory order.
struct Atomic {
    op: &'static str,
    data: Data,
    space: Space,
    scope: Scope,
    address: Address,
    policy: Option<Value>,
}

impl Atomic {
    fn words(&self) -> u8 {
        self.data.words()
    }

    /// The modifier of the operation.
    fn op_word(&self) -> Option<M> {
        Some(match self.op {
            "add" => M::ADD,
            "min" => M::MIN,
            "max" => M::MAX,
            "inc" => M::INC,
            "dec" => M::DEC,
            "and" => M::AND,
            "or" => M::OR,
            "xor" => M::XOR,
            "exch" => M::EXCH,
            "cas" => M::CAS,
            _ => return None,
        })
    }

    /// The modifiers of the type. Floats lose subnormals in global memory.
    fn type_words(&self) -> Option<&'static [M]> {
        Some(match (self.data.ty.name(), self.data.bits()) {
            ("s32", 32) => &[M::S32],
            ("u32" | "b32", 32) => &[],
            ("s64", 64) => &[M::S64],
            ("u64" | "b64", 64) => &[M::_64],
            ("b128", 128) => &[M::_128],
            ("f32", 32) => &[M::F32_FTZ_RN],
            ("f32", 64) => &[M::F32x2_FTZ_RN],
            ("f32", 128) => &[M::F32x4_FTZ_RN],
            ("f64", 64) => &[M::F64_RN],
            ("f16" | "f16x2", 32) => &[M::F16x2_RN],
            ("f16" | "f16x2", 64) => &[M::F16x4_RN],
            ("f16" | "f16x2", 128) => &[M::F16x8_RN],
            ("bf16" | "bf16x2", 32) => &[M::BF16x2_RN],
            ("bf16" | "bf16x2", 64) => &[M::BF16x4_RN],
            ("bf16" | "bf16x2", 128) => &[M::BF16x8_RN],
            _ => return None,
        })
    }

    fn is_float(&self) -> bool {
        matches!(self.data.ty.name(), "f32" | "f64" | "f16" | "f16x2" | "bf16" | "bf16x2")
    }

    /// Shared memory has operations on 32-bit integers, and exchanges of every width.
    fn is_native(&self) -> bool {
        match self.space {
            Space::Shared => !self.is_float() && (self.words() == 1 || matches!(self.op, "exch" | "cas")),
            _ => true,
        }
    }

    /// Does the machine have a form without a result?
    fn is_reduction(&self) -> bool {
        self.space == Space::Global && self.data.bits() != 16 && !matches!(self.op, "exch" | "cas")
    }

    /// May the operation fail because of the memory's space?
    fn may_fail(&self) -> bool {
        let far = matches!(self.space, Space::Generic | Space::Cluster);
        far && self.data.count == 1 && (self.is_float() || self.data.bits() == 64)
    }
}

/// The word that contains a half: its address, whether the half is the upper one, and the shift of the half.
struct ContainingWord {
    address: Address,
    is_upper: Value,
    shift: Value,
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn atomic(&mut self, ins: &Ins<'a>) -> Option<()> {
        let first = usize::from(ins.mnemonic() == "atom");
        let op = ins.word(Kind::Op).or_else(|| ins.word(Kind::Exchange))?;
        // `.noftz` is for 16-bit types, where the machine preserves subnormals anyway.
        let _ = ins.flag("noftz");
        let order = ins.one_of(&["relaxed", "acquire", "release", "acq_rel"]);
        let multimem = ins.mnemonic() == "multimem.red";
        let scope = Scope::read(ins).unwrap_or(if multimem { Scope::Sys } else { Scope::Gpu });
        let space = self.space(ins).filter(|s| !multimem || *s == Space::Global)?;
        let data = Data::read(ins)?;
        let policy = self.cache_hint(ins, ins.len() - 1)?;
        let mut sources = vec![self.gather(ins.get(first + 1)?, data)?];
        if op == "cas" {
            sources.push(self.gather(ins.get(first + 2)?, data)?);
        }
        let address = self.address(ins.get(first)?, space, 0)?;
        let atomic = Atomic { op, data, space, scope, address, policy };
        let result = match first {
            0 => None,
            _ => Some(ins.get(0)?).filter(|to| self.is_read(to)),
        };
        if first == 1 && result.is_none() {
            self.mark_all(ins.get(0)?);
        }
        // An acquire waits for its operation to complete, which takes a form with a result.
        let acquires = matches!(order, Some("acquire" | "acq_rel"));
        if let Some("release" | "acq_rel") = order {
            self.before_release(scope);
        }
        let simple = data.bits() != 16 && atomic.is_native() && !atomic.may_fail();
        if result.is_none() && !acquires && atomic.is_reduction() {
            self.reduction(&atomic, &sources)?;
        } else if simple {
            self.finish_atomic(&atomic, &sources, result)?;
        } else {
            self.in_guarded_branch(|s| s.finish_atomic(&atomic, &sources, result))?;
        }
        match acquires {
            true if space != Space::Shared || self.machine.has_clusters => self.after_acquire(scope),
            // No other block sees shared memory.
            true => self.after_acquire(Scope::Cta),
            false => {}
        }
        Some(())
    }

    /// Does the old value have a use? With a debugger it always may.
    fn is_read(&mut self, to: &Operand) -> bool {
        let (module, body) = (self.module, self.body);
        let read = self.read.get_or_insert_with(|| cfg::read(module, body, &self.params, &self.results));
        let part = |operand: &Operand| match operand {
            Operand::Sink => false,
            Operand::Reg(reg) => self.debug || read.contains(reg),
            _ => true,
        };
        match to {
            Operand::Vector(range) => body.list(*range).iter().any(part),
            to => part(to),
        }
    }

    fn finish_atomic(&mut self, atomic: &Atomic, sources: &[Value], result: Option<&Operand>) -> Option<()> {
        let old = match sources {
            [x] if atomic.data.bits() == 16 => self.half_add(atomic, *x)?,
            [x, new] if atomic.data.bits() == 16 => self.half_cas(atomic, *x, *new)?,
            [x] if !atomic.is_native() => self.shared_loop(atomic, *x)?,
            _ if atomic.may_fail() => self.try_atomic(atomic, sources)?,
            _ => self.native(atomic, sources, false)?.0,
        };
        match result {
            Some(to) => self.unpack(to, old, atomic.data),
            None => Some(()),
        }
    }

    /// `red` on global memory.
    fn reduction(&mut self, atomic: &Atomic, sources: &[Value]) -> Option<()> {
        let op = if self.has(Op::REDG) { Op::REDG } else { Op::RED };
        let order = self.order(Order::Strong(atomic.scope));
        let modifiers = [&[M::E, atomic.op_word()?], atomic.type_words()?, order].concat();
        let mut args = self.described(atomic.address, atomic.policy);
        args.extend(sources.iter().map(|s| Arg::from(*s)));
        self.effect(op, &modifiers, &[], &args);
        Some(())
    }

    /// The native operation: the old value, and if `ask` whether it was done.
    fn native(&mut self, atomic: &Atomic, sources: &[Value], ask: bool) -> Option<(Value, Option<Value>)> {
        let old = self.kernel.code.value(File::R, atomic.words());
        let sources = sources.iter().map(|s| Arg::from(*s));
        if atomic.space == Space::Shared {
            let modifiers = [&[atomic.op_word()?], atomic.type_words()?].concat();
            let args: Vec<Arg> = atomic.address.args().into_iter().chain(sources).collect();
            self.effect(Op::ATOMS, &modifiers, &[old], &args);
            return Some((old, None));
        }
        let op = if atomic.space == Space::Global { Op::ATOMG } else { Op::ATOM };
        let order = self.order(Order::Strong(atomic.scope));
        let modifiers = [&[M::E, atomic.op_word()?], atomic.type_words()?, order].concat();
        // CAS has no operand for a descriptor, and shared memory doesn't need one.
        let plain = atomic.op == "cas" || atomic.space == Space::Cluster;
        let address = match plain {
            true => atomic.address.args().to_vec(),
            false => self.described(atomic.address, atomic.policy),
        };
        let done = ask.then(|| self.kernel.code.value(File::P, 1));
        let results: Vec<Value> = done.into_iter().chain([old]).collect();
        let args: Vec<Arg> = address.into_iter().chain(sources).collect();
        self.effect(op, &modifiers, &results, &args);
        Some((old, done))
    }

    /// On generic addresses: the native operation, and a CAS loop if it fails.
    fn try_atomic(&mut self, atomic: &Atomic, sources: &[Value]) -> Option<Value> {
        let (old, done) = self.native(atomic, sources, true)?;
        let after = self.kernel.code.block();
        let param = self.kernel.code.value(File::R, atomic.words());
        self.kernel.code.blocks[after].params.push(param);
        let slow = self.kernel.code.block();
        self.kernel.code.blocks[self.block].end = Terminator::Branch {
            predicate: done?,
            negated: false,
            uniform: false,
            yes: Edge { to: after, args: vec![old] },
            no: Edge::to(slow),
        };
        self.block = slow;
        let old = match sources {
            [expected, new] => self.own_cas(atomic, *expected, *new)?,
            [x] => self.generic_loop(atomic, *x)?,
            _ => return None,
        };
        self.kernel.code.blocks[self.block].end = Terminator::Jump(Edge { to: after, args: vec![old] });
        self.block = after;
        Some(param)
    }

    /// Compare-and-swap on thread-local memory.
    fn own_cas(&mut self, atomic: &Atomic, expected: Value, new: Value) -> Option<Value> {
        let old = self.load_far(atomic)?;
        let differs = self.differ(old, expected);
        self.store_own(atomic, new, Arg::not(differs))?;
        Some(old)
    }

    fn load_far(&mut self, atomic: &Atomic) -> Option<Value> {
        let size = crate::lower::memory::load_store::size_word(atomic.data.bits().max(32), false)?;
        let old = self.kernel.code.value(File::R, atomic.words());
        let (op, order) = match atomic.space {
            Space::Shared => {
                let words = self.shared_load_words(size);
                self.effect(Op::LDS, &words, &[old], &atomic.address.args());
                return Some(old);
            }
            Space::Global => (Op::LDG, self.order(Order::Weak)),
            _ => (Op::LD, self.order(Order::Weak)),
        };
        let args = match atomic.space == Space::Cluster {
            true => atomic.address.args().to_vec(),
            false => self.described(atomic.address, None),
        };
        self.effect(op, &[&[M::E], size, order].concat(), &[old], &args);
        Some(old)
    }

    fn store_own(&mut self, atomic: &Atomic, new: Value, condition: Arg) -> Option<()> {
        let size = crate::lower::memory::load_store::size_word(atomic.data.bits(), false)?;
        let modifiers = [&[M::E], size, self.order(Order::Weak)].concat();
        let mut args = match atomic.space == Space::Cluster {
            true => atomic.address.args().to_vec(),
            false => self.described(atomic.address, None),
        };
        args.push(new.into());
        self.under(condition, |s| s.effect(Op::ST, &modifiers, &[], &args));
        Some(())
    }

    /// A do-while loop. `body` gets the loop-carried values and returns the loop condition, the values for the next
    /// iteration, and a result; the result of the last iteration is returned.
    pub(crate) fn loop_while<R>(
        &mut self,
        start: &[Value],
        body: impl FnOnce(&mut Self, &[Value]) -> Option<(Value, Vec<Value>, R)>,
    ) -> Option<R> {
        let block = self.kernel.code.block();
        self.kernel.code.blocks[self.block].end = Terminator::Jump(Edge { to: block, args: start.to_vec() });
        let params: Vec<Value> = start
            .iter()
            .map(|v| {
                let data = self.kernel.code.values[*v];
                self.kernel.code.value(data.file, data.words)
            })
            .collect();
        self.kernel.code.blocks[block].params = params.clone();
        self.block = block;
        let (predicate, next, result) = body(self, &params)?;
        let after = self.kernel.code.block();
        let (yes, no) = (Edge { to: block, args: next }, Edge::to(after));
        self.kernel.code.blocks[self.block].end =
            Terminator::Branch { predicate, negated: false, uniform: false, yes, no };
        self.block = after;
        Some(result)
    }

    /// On generic addresses outside of global memory. For 64 bits the CAS returns whether the memory is thread-local;
    /// there a plain store suffices.
    fn generic_loop(&mut self, atomic: &Atomic, x: Value) -> Option<Value> {
        let swap = Atomic {
            op: "cas",
            data: Data { ty: if atomic.words() == 2 { Type::B64 } else { Type::B32 }, count: 1 },
            ..*atomic
        };
        self.loop_while(&[], |s, _| {
            let old = s.load_far(atomic)?;
            let new = s.combine(atomic, old, x)?;
            if swap.words() == 1 {
                let (got, _) = s.native(&swap, &[old, new], false)?;
                return Some((s.differ(got, old), Vec::new(), old));
            }
            let (got, shared) = s.native(&swap, &[old, new], true)?;
            s.store_own(atomic, new, Arg::not(shared?))?;
            let differs = s.differ(got, old);
            let again = s.conjunction(differs.into(), shared?.into());
            Some((again, Vec::new(), old))
        })
    }

    /// On shared memory, with the CAS variant for spin loops: it lets the other lanes of the warp go first.
    fn shared_loop(&mut self, atomic: &Atomic, x: Value) -> Option<Value> {
        let size: &[M] = if atomic.words() == 2 { &[M::_64] } else { &[] };
        let modifiers = [&[M::CAST, M::SPIN], size].concat();
        self.loop_while(&[], |s, _| {
            let old = s.load_far(atomic)?;
            let new = s.combine(atomic, old, x)?;
            let args: Vec<Arg> = atomic.address.args().into_iter().chain([old.into(), new.into()]).collect();
            let done = s.kernel.code.value(File::P, 1);
            let success = [sass::operands::p(0), sass::operands::r(2), sass::operands::imm(0)];
            let data = [sass::operands::r(4), sass::operands::r(6)];
            if s.offers(Op::ATOMS, &modifiers, &[&success[..], &data].concat()) {
                s.effect(Op::ATOMS, &modifiers, &[done], &args);
                let failed = s.conjunction(Arg::not(done), PT);
                return Some((failed, Vec::new(), old));
            }
            // The result is 1 on success.
            let done = s.kernel.code.value(File::R, atomic.words());
            s.effect(Op::ATOMS, &modifiers, &[done], &args);
            let one = [Arg::Imm(1), RZ];
            let failed = s.differ_from(done, &one[..usize::from(atomic.words())]);
            Some((failed, Vec::new(), old))
        })
    }

    /// The conjunction of two predicates.
    pub(crate) fn conjunction(&mut self, a: Arg, b: Arg) -> Value {
        self.emit_p(Op::PLOP3, &[M::LUT], &[PT, a, b, PT, Arg::Imm(0x80), Arg::Imm(0)])
    }

    fn differ(&mut self, a: Value, b: Value) -> Value {
        let words = self.kernel.code.values[b].words;
        let b: Vec<Arg> = (0..words).map(|i| Arg::word(b, i)).collect();
        self.differ_from(a, &b)
    }

    fn differ_from(&mut self, a: Value, b: &[Arg]) -> Value {
        let mut differs = self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &[PT, Arg::word(a, 0), b[0], PT]);
        for (i, b) in b.iter().enumerate().skip(1) {
            let args = [PT, Arg::word(a, i as u8), *b, differs.into()];
            differs = self.emit_p(Op::ISETP, &[M::NE, M::U32, M::OR], &args);
        }
        differs
    }

    /// The new value of memory.
    fn combine(&mut self, atomic: &Atomic, old: Value, x: Value) -> Option<Value> {
        let word = |v: Value, i: u8| Arg::word(v, i);
        let logic = |s: &mut Self, table: i64| {
            let words: Vec<Arg> =
                (0..atomic.words()).map(|i| s.lop3(word(old, i), word(x, i), RZ, table).into()).collect();
            s.pack(&words)
        };
        Some(match (atomic.op, atomic.data.ty.name()) {
            ("exch", _) => x,
            ("and", _) => logic(self, 0xc0),
            ("or", _) => logic(self, 0xfc),
            ("xor", _) => logic(self, 0x3c),
            ("add", "u64" | "s64") => self.add64([word(old, 0), word(old, 1)], [word(x, 0), word(x, 1)]),
            ("min" | "max", "u64" | "s64") => self.extreme64(atomic, old, x),
            ("add", "f32") => self.emit(Op::FADD, &[], 1, &[old.into(), x.into()]),
            ("add", "f64") => self.emit(Op::DADD, &[], 2, &[old.into(), x.into()]),
            ("add", "f16x2" | "f16") => self.emit(Op::HADD2, &[], 1, &[old.into(), x.into()]),
            ("add", "bf16x2" | "bf16") => self.emit(Op::HADD2, &[M::BF16_V2], 1, &[old.into(), x.into()]),
            _ => return None,
        })
    }

    fn extreme64(&mut self, atomic: &Atomic, old: Value, x: Value) -> Value {
        let relation = if atomic.op == "min" { M::LT } else { M::GT };
        let low = [PT, Arg::word(old, 0), Arg::word(x, 0), PT];
        let low = self.emit_p(Op::ISETP, &[relation, M::U32, M::AND], &low);
        let sign: &[M] = if atomic.data.ty.is_signed() { &[] } else { &[M::U32] };
        let modifiers = [&[relation], sign, &[M::AND, M::EX]].concat();
        let keep =
            self.emit_p(Op::ISETP, &modifiers, &[PT, Arg::word(old, 1), Arg::word(x, 1), PT, low.into()]);
        let words = [0, 1]
            .map(|i| self.emit(Op::SEL, &[], 1, &[Arg::word(old, i), Arg::word(x, i), keep.into()]).into());
        self.pack(&words)
    }

    /// The word that contains a half.
    fn containing_word(&mut self, atomic: &Atomic) -> ContainingWord {
        let (low, high) = match atomic.space {
            Space::Shared => {
                let Address { base, offset } = atomic.address;
                (self.emit(Op::IADD3, &[], 1, &[base, Arg::Imm(offset), RZ]).into(), None)
            }
            _ => {
                let [low, high] = self.flat(atomic.address);
                (low, Some(high))
            }
        };
        let aligned = self.lop3(low, Arg::Imm(!2), RZ, 0xc0);
        let which = self.lop3(low, Arg::Imm(2), RZ, 0xc0);
        let is_upper = self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &[PT, which.into(), RZ, PT]);
        let shift = self.emit(Op::SHF, &[M::L, M::U32], 1, &[which.into(), Arg::Imm(3), RZ]);
        let base = match high {
            Some(high) => self.pack(&[aligned.into(), high]),
            None => aligned,
        };
        ContainingWord { address: Address { base: base.into(), offset: 0 }, is_upper, shift }
    }

    /// One of two selectors for `PRMT`.
    fn selector(&mut self, containing_word: &ContainingWord, upper: i64, lower: i64) -> Value {
        self.emit(Op::SEL, &[], 1, &[Arg::Imm(upper), Arg::Imm(lower), containing_word.is_upper.into()])
    }

    fn word_swap(&self, atomic: &Atomic, containing_word: &ContainingWord) -> Atomic {
        let data = Data { ty: Type::B32, count: 1 };
        Atomic { op: "cas", data, address: containing_word.address, policy: None, ..*atomic }
    }

    /// 16-bit `add`: both halves are added, and one of the sums is taken.
    fn half_add(&mut self, atomic: &Atomic, x: Value) -> Option<Value> {
        let containing_word = self.containing_word(atomic);
        let swap = self.word_swap(atomic, &containing_word);
        let selector = self.selector(&containing_word, 0x7610, 0x3254);
        let twice = self.emit(Op::PRMT, &[], 1, &[x.into(), Arg::Imm(0x1010), RZ]);
        let first = self.load_far(&swap)?;
        let old = self.loop_while(&[first], |s, old| {
            let old = *old.first()?;
            let sum = s.combine(atomic, old, twice)?;
            let new = s.emit(Op::PRMT, &[], 1, &[old.into(), selector.into(), sum.into()]);
            let (got, _) = s.native(&swap, &[old, new], false)?;
            Some((s.differ(got, old), vec![got], got))
        })?;
        Some(self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, containing_word.shift.into(), old.into()]))
    }

    /// 16-bit compare-and-swap. If the other half has changed in between, the loop continues.
    fn half_cas(&mut self, atomic: &Atomic, expected: Value, new: Value) -> Option<Value> {
        let containing_word = self.containing_word(atomic);
        let swap = self.word_swap(atomic, &containing_word);
        let selector = self.selector(&containing_word, 0x5410, 0x3254);
        let first = self.load_far(&swap)?;
        let old = self.loop_while(&[first], |s, old| {
            let old = *old.first()?;
            let with = |s: &mut Self, word: Value, half: Arg| {
                s.emit(Op::PRMT, &[], 1, &[word.into(), selector.into(), half])
            };
            let (expected, new) = (with(s, old, expected.into()), with(s, old, new.into()));
            let (got, _) = s.native(&swap, &[expected, new], false)?;
            let (others, before) = (with(s, got, RZ), with(s, expected, RZ));
            Some((s.differ(others, before), vec![got], got))
        })?;
        Some(self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, containing_word.shift.into(), old.into()]))
    }
}
