//! Warp aggregation of atomics: one thread performs the operation for all active threads of the warp.
//!
//! Atomics of a warp on the same address are serialized. Where the address is warp-uniform, a leader (the active thread
//! in the lowest lane) adds the sum. A thread that reads the old value gets the leader's old value plus the
//! contributions of the active threads before it, which is a serialization that the machine could have chosen itself.
//!
//! ```text
//!                                        m = VOTE.ANY PT, PT
//! v2 = ATOMG.ADD v0, v1, 0x0, 0x1   →    b = LOP3 m & SR_LTMASK;  p = b == 0
//!                                        n = POPC m
//!                                    @p  o = ATOMG.ADD v0, v1, 0x0, n
//!                                        v2 = SHFL.IDX o, lowest lane of m;  v2 += POPC b
//! ```
//!
//! * A word that is the same in all threads is added `n` times. Other words are combined by `REDUX` on machines that
//!   have it, if the old value has no use. Minimum, maximum, conjunction and disjunction of equal words need only one
//!   operation.
//! * Only integers are aggregated: float sums depend on the order.
//! * In divergent code the vote yields the active threads. They stay together until the end of the block, or until the
//!   next instruction that waits for others.
//! * Under a guard the vote yields the threads for which the guard holds; the others contribute the neutral element to
//!   the reduction.
//! * If a comparison of the thread index lets only one thread through, there is nothing to aggregate.
//!
//! For shared memory the machine has a dedicated operation that adds the number of threads, `ATOMS.POPC.INC`, for any
//! addresses.
//!
//! Postcondition: no such atomic on a warp-uniform address is executed by more than one thread of the warp. Cost:
//! linear, plus a divergence analysis if there are atomics.

use crate::analysis::effects::{Convergence, Effects, Motion};
use crate::codegen::legalize;
use crate::context::target::TargetMachine;
use crate::context::{Context, PassResult};
use ori::analyses::Definitions;
use ori::entity::Entity;
use ori::{
    Arg, Block, Cfg, Change, Divergence, File, Function, Guard, Inst, InstData, Op, Part, Pseudo, Terminator,
    Value,
};
use sass::{M, Op as Name};
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let is_atomic = |i: &Inst| Atomic::read(&function.insts[*i]).is_some();
    if !cfg.order.iter().any(|b| function.blocks[*b].insts.iter().any(is_atomic)) {
        return Ok(Change::Nothing);
    }
    let mut pass = Aggregate {
        divergence: context.analyses.divergence(function),
        definitions: context.analyses.definitions(function),
        uses: function.use_counts(cfg.order.iter().copied()),
        cfg: cfg.clone(),
        machine: context.machine,
        function,
        out: Vec::new(),
        at: 0,
        group: None,
    };
    let rewrites = context.fuel.used();
    for &block in &cfg.order {
        pass.visit_block(block, context);
    }
    Ok(Change::Instructions.when(context.fuel.used() != rewrites))
}

/// What an atomic does with the word in memory and its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

impl Operation {
    /// Is doing it twice with the same word the same as doing it once?
    fn is_idempotent(self) -> bool {
        !matches!(self, Operation::Add | Operation::Xor)
    }

    /// The modifier of `REDUX`; its default is the conjunction.
    fn reduction(self) -> Option<M> {
        match self {
            Operation::Add => Some(M::SUM),
            Operation::Min => Some(M::MIN),
            Operation::Max => Some(M::MAX),
            Operation::And => None,
            Operation::Or => Some(M::OR),
            Operation::Xor => Some(M::XOR),
        }
    }

    /// The word that changes no other.
    fn neutral(self, signed: bool) -> i64 {
        match (self, signed) {
            (Operation::Add | Operation::Or | Operation::Xor, _) | (Operation::Max, false) => 0,
            (Operation::And, _) | (Operation::Min, false) => 0xffff_ffff,
            (Operation::Min, true) => 0x7fff_ffff,
            (Operation::Max, true) => 0x8000_0000,
        }
    }
}

/// An atomic operation on integers.
#[derive(Clone, Copy)]
struct Atomic {
    operation: Operation,
    signed: bool,
    words: u8,
    shared: bool,
    /// `INC` whose bound is no bound: it adds one.
    is_increment: bool,
}

impl Atomic {
    fn read(data: &InstData) -> Option<Atomic> {
        let Op::Machine(name @ (Name::ATOM | Name::ATOMG | Name::ATOMS | Name::RED | Name::REDG)) = data.op
        else {
            return None;
        };
        let (mut operation, mut signed, mut words, mut is_increment) = (None, false, 1, false);
        for modifier in &data.modifiers {
            match modifier {
                M::ADD => operation = Some(Operation::Add),
                M::MIN => operation = Some(Operation::Min),
                M::MAX => operation = Some(Operation::Max),
                M::AND => operation = Some(Operation::And),
                M::OR => operation = Some(Operation::Or),
                M::XOR => operation = Some(Operation::Xor),
                M::INC => (operation, is_increment) = (Some(Operation::Add), true),
                M::S32 => signed = true,
                M::_64 => words = 2,
                M::S64 => (signed, words) = (true, 2),
                M::E | M::STRONG | M::STRONG_SM | M::STRONG_GPU | M::STRONG_SYS => {}
                M::SM | M::CTA | M::GPU | M::SYS => {}
                _ => return None,
            }
        }
        let shared = name == Name::ATOMS;
        // A second result says whether it was done. Atomics that are steps of other instructions have no result at all.
        let results = usize::from(!matches!(name, Name::RED | Name::REDG));
        let is_plain = data.results.len() == results && data.args.len() >= 3;
        let found = Atomic { operation: operation?, signed, words, shared, is_increment };
        is_plain.then_some(found)
    }
}

/// The word of an atomic.
#[derive(Clone, Copy)]
enum Operand {
    /// The same in all threads, and its bits if they are known.
    Uniform(Arg, Option<u64>),
    Varying(Arg),
}

/// The threads that do an atomic together.
#[derive(Clone)]
struct Group {
    /// The guard of the atomic.
    guard: Option<(Value, bool)>,
    /// The mask of its threads, and of those among them with a lower lane.
    mask: Value,
    before: Value,
    /// Does not hold for the leader.
    follows: Value,
    /// The number of threads, once it was needed.
    count: Option<Value>,
}

struct Aggregate<'a> {
    function: &'a mut Function,
    machine: &'static TargetMachine,
    cfg: Rc<Cfg>,
    divergence: Rc<Divergence>,
    definitions: Rc<Definitions>,
    uses: Vec<u32>,
    out: Vec<Inst>,
    /// The PTX offset of new instructions.
    at: u32,
    group: Option<Group>,
}

impl Aggregate<'_> {
    fn visit_block(&mut self, block: Block, context: &mut Context) {
        self.group = None;
        for inst in std::mem::take(&mut self.function.blocks[block].insts) {
            let data = self.function.insts[inst].clone();
            if waits(&data) {
                self.group = None;
            }
            self.at = data.at;
            if let Some(counts) = self.counting(&data)
                && context.fuel.burn()
            {
                self.function.insts[inst] = counts;
            } else if let Some((atomic, operand)) = self.candidate(&data, block)
                && context.fuel.burn()
            {
                self.aggregate(inst, &data, atomic, operand);
                continue;
            }
            self.out.push(inst);
        }
        self.function.blocks[block].insts = std::mem::take(&mut self.out);
    }

    /// `ATOMS.POPC.INC` for an addition of one to shared memory without a use of the old value.
    fn counting(&self, data: &InstData) -> Option<InstData> {
        let atomic = Atomic::read(data).filter(|a| a.shared && a.words == 1)?;
        let bits = self.bits_of(data.args.last()?)?;
        let adds_one = match atomic.is_increment {
            true => bits == 0xffff_ffff,
            false => atomic.operation == Operation::Add && bits == 1,
        };
        let [base, offset @ Arg::Imm(_), _] = data.args[..] else { return None };
        let counts = InstData {
            modifiers: smallvec![M::POPC, M::INC, M::_32],
            args: smallvec![base, Arg::Zero(File::UR), offset],
            ..data.clone()
        };
        let is_unread = data.results.iter().all(|r| self.uses[r.index()] == 0);
        (adds_one && is_unread && legalize::is_legal(self.function, self.machine, &counts)).then_some(counts)
    }

    fn candidate(&self, data: &InstData, block: Block) -> Option<(Atomic, Operand)> {
        let atomic = Atomic::read(data)?;
        let (value, address) = data.args.split_last()?;
        let varies = |arg: &Arg| arg.value().is_some_and(|v| self.divergence.varies(v));
        if address.iter().any(|arg| varies(arg) || matches!(arg, Arg::Fixed { .. } | Arg::StackTop)) {
            return None;
        }
        let bits = self.bits_of(value);
        if atomic.is_increment && bits != Some(0xffff_ffff) || self.is_for_one_thread(data, block) {
            return None;
        }
        let operand = match atomic.is_increment {
            true => Operand::Uniform(Arg::Imm(1), Some(1)),
            false if varies(value) => Operand::Varying(*value),
            false => Operand::Uniform(*value, bits),
        };
        let is_read = data.results.iter().any(|r| self.uses[r.index()] > 0);
        let is_possible = match operand {
            _ if is_read => {
                atomic.operation == Operation::Add
                    && atomic.words == 1
                    && matches!(operand, Operand::Uniform(..))
            }
            Operand::Uniform(..) => atomic.words == 1 || atomic.operation != Operation::Xor,
            Operand::Varying(_) => atomic.words == 1 && self.reduction(atomic).is_some(),
        };
        is_possible.then_some((atomic, operand))
    }

    /// The instruction that reduces a word over the active threads, without its operands.
    fn reduction(&self, atomic: Atomic) -> Option<(Name, SmallVec<[M; 4]>)> {
        let signed = atomic.signed && matches!(atomic.operation, Operation::Min | Operation::Max);
        let modifiers: SmallVec<[M; 4]> =
            atomic.operation.reduction().into_iter().chain(signed.then_some(M::S32)).collect();
        let operands = [sass::operands::ur(2), sass::operands::r(2)];
        let has = |name: &Name| sass::legal(self.machine.isa, *name, &modifiers, &operands);
        let name = [Name::CREDUX, Name::REDUX].into_iter().find(has)?;
        Some((name, modifiers))
    }

    /// The bits of a constant.
    fn bits_of(&self, arg: &Arg) -> Option<u64> {
        match arg {
            Arg::Imm(bits) => Some(*bits as u64 & 0xffff_ffff),
            Arg::Zero(_) => Some(0),
            Arg::Use(u) if u.is_plain() && u.part.is_none() => {
                let (_, inst) = self.definitions.get(u.value.index()).copied().flatten()?;
                let data = &self.function.insts[inst];
                match (data.op, &data.args[..]) {
                    _ if data.guard.is_some() => None,
                    (Op::Machine(Name::MOV), [arg @ (Arg::Imm(_) | Arg::Zero(_))]) => self.bits_of(arg),
                    (Op::Pseudo(Pseudo::Pack), [low, high]) => {
                        Some(self.bits_of(low)? | self.bits_of(high)? << 32)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Does a comparison of the thread's number with a constant lead here, or guard the atomic?
    fn is_for_one_thread(&self, data: &InstData, block: Block) -> bool {
        let guarded = data.guard.as_ref().is_some_and(|g| self.picks_one(g.predicate, g.negated));
        let mut at = Some(block);
        let mut below = block;
        std::iter::from_fn(|| {
            let here = at?;
            at = self.cfg.idom(here);
            Some((here, std::mem::replace(&mut below, here)))
        })
        .any(|(here, below)| self.branch_picks_one(here, below))
            || guarded
    }

    /// Does a branch lead one thread to a block that it dominates?
    fn branch_picks_one(&self, branch: Block, to: Block) -> bool {
        let Terminator::Branch { predicate, negated, yes, no, .. } = &self.function.blocks[branch].end else {
            return false;
        };
        let leads =
            |target: Block| self.cfg.preds[target.index()].len() == 1 && self.cfg.dominates(target, to);
        leads(yes.to) && self.picks_one(*predicate, *negated)
            || leads(no.to) && self.picks_one(*predicate, !negated)
    }

    fn picks_one(&self, predicate: Value, negated: bool) -> bool {
        let Some((_, inst)) = self.definitions.get(predicate.index()).copied().flatten() else {
            return false;
        };
        let data = &self.function.insts[inst];
        let wanted = if negated { M::NE } else { M::EQ };
        let is_number = |arg: &Arg| arg.value().is_some_and(|v| self.is_thread_number(v, 4));
        let is_uniform = |arg: &Arg| !arg.value().is_some_and(|v| self.divergence.varies(v));
        match (data.op, &data.args[..]) {
            (Op::Machine(Name::ISETP), [_, a, b, ..]) if data.modifiers.contains(&wanted) => {
                is_number(a) && is_uniform(b) || is_number(b) && is_uniform(a)
            }
            _ => false,
        }
    }

    /// Is it the number of the thread in its block or warp, or computed from one?
    fn is_thread_number(&self, value: Value, depth: u32) -> bool {
        let Some((_, inst)) = self.definitions.get(value.index()).copied().flatten() else { return false };
        let data = &self.function.insts[inst];
        match data.op {
            Op::Machine(Name::S2R) => self.divergence.varies(value),
            Op::Machine(Name::LOP3 | Name::IADD3 | Name::IMAD | Name::LEA | Name::SHF | Name::VIADD) => {
                depth > 0 && data.uses().any(|v| self.is_thread_number(v, depth - 1))
            }
            _ => false,
        }
    }

    fn aggregate(&mut self, inst: Inst, data: &InstData, atomic: Atomic, operand: Operand) {
        let guard = data.guard.as_ref().map(|g| (g.predicate, g.negated));
        let group = self.group_of(guard);
        let word = self.aggregate_operand(&group, atomic, operand);
        let is_read = data.results.iter().any(|r| self.uses[r.index()] > 0);
        let result = data.results.first().copied();
        let mut own = data.clone();
        if atomic.is_increment {
            own.modifiers.iter_mut().filter(|m| **m == M::INC).for_each(|m| *m = M::ADD);
        }
        if let Some(last) = own.args.last_mut() {
            *last = word;
        }
        let mut guard = Guard { predicate: group.follows, negated: true, else_values: smallvec![] };
        let mut old = None;
        if let Some(result) = result {
            let undef = self.emit(Op::Pseudo(Pseudo::Undef), &[], (File::R, atomic.words), &[]);
            guard.else_values = smallvec![undef];
            if is_read {
                let value = self.function.value(File::R, atomic.words);
                own.results = smallvec![value];
                old = Some((value, result));
                if self.function.awaited.contains(&result) {
                    self.function.awaited.push(value);
                }
            }
        }
        own.guard = Some(guard);
        self.function.insts[inst] = own;
        self.out.push(inst);
        if let (Some((old, result)), Operand::Uniform(value, bits)) = (old, operand) {
            self.distribute(&group, old, (value, bits), result, data.guard.clone());
        }
    }

    /// The active threads under a guard, and their leader.
    fn group_of(&mut self, guard: Option<(Value, bool)>) -> Group {
        if let Some(group) = self.group.clone().filter(|g| g.guard == guard) {
            return group;
        }
        let takes_part = match guard {
            None => Arg::True(true),
            Some((predicate, false)) => predicate.into(),
            Some((predicate, true)) => Arg::not(predicate),
        };
        let mask = self.word(Name::VOTE, &[M::ANY], &[Arg::True(true), takes_part]);
        let lower = self.word(Name::S2R, &[], &[Arg::Name(M::SR_LTMASK)]);
        let before = self.and(mask.into(), lower.into());
        let compared = [Arg::True(true), before.into(), Arg::Zero(File::R), Arg::True(true)];
        let first = self.emit(Op::Machine(Name::ISETP), &[M::NE, M::U32, M::AND], (File::P, 1), &compared);
        let follows = match guard {
            None => first,
            Some((predicate, negated)) => self.follows_or_out(first, predicate, negated),
        };
        let group = Group { guard, mask, before, follows, count: None };
        self.group = Some(group.clone());
        group
    }

    /// A thread before which none comes may not take part itself.
    fn follows_or_out(&mut self, first: Value, predicate: Value, negated: bool) -> Value {
        // a | !b, or a | b: rows of the truth table by the bits of PT, a, b.
        let table = if negated { 0xee } else { 0xdd };
        let args =
            [Arg::True(true), Arg::True(true), first.into(), predicate.into(), Arg::Imm(table), Arg::Imm(0)];
        self.emit(Op::Machine(Name::PLOP3), &[M::LUT], (File::P, 1), &args)
    }

    /// The number of threads.
    fn count(&mut self, group: &Group) -> Value {
        if let Some(count) = self.group.as_ref().and_then(|g| g.count) {
            return count;
        }
        let count = self.word(Name::POPC, &[], &[group.mask.into()]);
        if let Some(group) = &mut self.group {
            group.count = Some(count);
        }
        count
    }

    /// What the leader adds, or compares with, for all.
    fn aggregate_operand(&mut self, group: &Group, atomic: Atomic, operand: Operand) -> Arg {
        match operand {
            Operand::Uniform(value, _) if atomic.operation.is_idempotent() => value,
            Operand::Uniform(value, bits) => {
                let mut count = self.count(group);
                if atomic.operation == Operation::Xor {
                    count = self.and(count.into(), Arg::Imm(1));
                }
                match atomic.words {
                    1 => self.product(count, value, bits).into(),
                    _ => self.wide_product(count, value, bits).into(),
                }
            }
            Operand::Varying(value) => {
                let value = self.neutral_outside(group.guard, atomic, value);
                self.reduce(atomic, value).into()
            }
        }
    }

    /// `count * value`
    fn product(&mut self, count: Value, value: Arg, bits: Option<u64>) -> Value {
        let factor = bits.map_or(value, |bits| Arg::Imm(bits as u32 as i32 as i64));
        match bits {
            Some(1) => count,
            _ => self.word(Name::IMAD, &[], &[count.into(), factor, Arg::Zero(File::R)]),
        }
    }

    /// `count * value` of two words.
    fn wide_product(&mut self, count: Value, value: Arg, bits: Option<u64>) -> Value {
        let [mut low, high] = [0, 1].map(|word| self.word_of(value, word));
        if let Some(bits) = bits {
            low = Arg::Imm(i64::from(bits as u32));
        }
        let wide = [count.into(), low, Arg::Zero(File::R)];
        let low = self.emit(Op::Machine(Name::IMAD), &[M::WIDE, M::U32], (File::R, 2), &wide);
        if bits.is_some_and(|bits| bits >> 32 == 0) {
            return low;
        }
        let high = self.word(Name::IMAD, &[], &[count.into(), high, Arg::word(low, 1)]);
        self.emit(Op::Pseudo(Pseudo::Pack), &[], (File::R, 2), &[Arg::word(low, 0), high.into()])
    }

    /// A word of a pair.
    fn word_of(&self, pair: Arg, word: u8) -> Arg {
        match pair {
            Arg::Use(u) => {
                let first = u.part.map_or(0, |p| p.first) + word;
                Arg::Use(ori::Use { part: Some(Part { first, count: 1 }), ..u })
            }
            other => other,
        }
    }

    /// The word, and in threads that are not in the group one that changes nothing.
    fn neutral_outside(&mut self, guard: Option<(Value, bool)>, atomic: Atomic, value: Arg) -> Value {
        let neutral = match atomic.operation.neutral(atomic.signed) {
            0 => Arg::Zero(File::R),
            bits => Arg::Imm(bits),
        };
        match (guard, value) {
            (None, Arg::Use(u)) if u.is_plain() && u.part.is_none() => u.value,
            (None, value) => self.word(Name::MOV, &[], &[value]),
            (Some((predicate, negated)), value) => {
                let takes_part = if negated { Arg::not(predicate) } else { predicate.into() };
                self.word(Name::SEL, &[], &[value, neutral, takes_part])
            }
        }
    }

    fn reduce(&mut self, atomic: Atomic, value: Value) -> Value {
        let Some((name, modifiers)) = self.reduction(atomic) else { return value };
        let uniform = self.emit(Op::Machine(name), &modifiers, (File::UR, 1), &[value.into()]);
        // Read at once, while the same threads are active.
        self.word(Name::MOV, &[], &[uniform.into()])
    }

    /// Gives each thread the old value that it would have found: the leader's, plus what those before it add.
    fn distribute(
        &mut self,
        group: &Group,
        old: Value,
        (value, bits): (Arg, Option<u64>),
        result: Value,
        guard: Option<Guard>,
    ) {
        let negative = Arg::Use(ori::Use { negated: true, ..ori::Use::of(group.mask) });
        let minus = self.word(Name::IADD3, &[], &[negative, Arg::Zero(File::R), Arg::Zero(File::R)]);
        let lowest = self.and(group.mask.into(), minus.into());
        let leader = self.word(Name::FLO, &[M::U32], &[lowest.into()]);
        let (inside, first) = (self.function.value(File::P, 1), self.function.value(File::R, 1));
        let shuffled = [old.into(), leader.into(), Arg::Imm(0x1f)];
        self.append(InstData {
            modifiers: smallvec![M::IDX],
            ..InstData::new(Op::Machine(Name::SHFL), &[inside, first], &shuffled)
        });
        let before = self.word(Name::POPC, &[], &[group.before.into()]);
        let added = self.product(before, value, bits);
        let sum = InstData {
            guard,
            ..InstData::new(
                Op::Machine(Name::IADD3),
                &[result],
                &[first.into(), added.into(), Arg::Zero(File::R)],
            )
        };
        self.append(sum);
    }

    fn and(&mut self, a: Arg, b: Arg) -> Value {
        let args = [a, b, Arg::Zero(File::R), Arg::Imm(0xc0), Arg::True(false)];
        self.word(Name::LOP3, &[M::LUT], &args)
    }

    fn word(&mut self, name: Name, modifiers: &[M], args: &[Arg]) -> Value {
        self.emit(Op::Machine(name), modifiers, (File::R, 1), args)
    }

    fn emit(&mut self, op: Op, modifiers: &[M], (file, words): (File, u8), args: &[Arg]) -> Value {
        let value = self.function.value(file, words);
        self.append(InstData { modifiers: modifiers.into(), ..InstData::new(op, &[value], args) });
        value
    }

    fn append(&mut self, data: InstData) {
        let inst = self.function.insts.push(InstData { at: self.at, ..data });
        self.out.push(inst);
    }
}

/// May other threads be active after it than before?
fn waits(data: &InstData) -> bool {
    let effects = Effects::of(data);
    effects.convergence == Convergence::Converge
        || effects.motion == Motion::Barrier
        || matches!(data.op, Op::Machine(Name::BAR | Name::SYNCS | Name::NANOSLEEP | Name::YIELD))
}
