//! Lowers warp collectives (votes, shuffles, matches, reductions); `nanosleep`, traps, events, `setmaxnreg`.
//!
//! The lanes of a collective's mask must be converged. With a full mask `WARPSYNC.ALL` waits for the warp, as ptxas has
//! it. With another mask the lanes may arrive from different program points:
//!
//! * From sm_90 on `WARPSYNC.COLLECTIVE` gathers them, and all execute the code of one of them up to `ENDCOLLECTIVE`.
//!   So that any lane's copy will do, every copy has its operands in the same registers ([`Gathered`]), and no result
//!   is outstanding when lanes enter or leave.
//! * Before sm_90 a shuffle waits for the lanes of the mask; the other collectives, which read all active lanes,
//!   execute with exactly the mask active, between `WARPSYNC.EXCLUSIVE` and a convergence barrier.

use crate::lower::Lower;
use crate::lower::build::{NOT_PT, PT, RZ, constant};
use crate::lower::instruction::Ins;
use crate::module::setmaxnreg::{self, Reconfiguration};
use ori::divergence::{leaves_unconverged, sleeps, waits_for_warp};
use ori::{Arg, Edge, File, InstData, Terminator, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::{M, Op};

/// The convergence that a collective requires, on machines without `WARPSYNC.COLLECTIVE`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Convergence {
    /// All lanes of the mask are active; others may be, too.
    AtLeast,
    /// Exactly the lanes of the mask are active.
    Exactly,
}

/// The registers of a collective's operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// Those of the values: the warp is converged here.
    Here,
    /// The same fixed registers in all code: R16 and on, P6, UR62. Calls preserve R16 to R19, and every register limit
    /// includes them. The lanes of this mask converge.
    Anywhere(Arg),
}

const FIRST: u8 = 16;
const MASK: Arg = Arg::Fixed { file: File::R, number: FIRST + 3 };
pub(crate) const WORD: Arg = Arg::Fixed { file: File::R, number: FIRST };
pub(crate) const TRUTH: Arg = Arg::Fixed { file: File::P, number: 6 };
const UNIFORM: Arg = Arg::Fixed { file: File::UR, number: 62 };

impl<'a> Lower<'_, 'a> {
    pub(crate) fn warp(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            // Without `.sync` (before PTX 6.4) they are of the lanes that are active.
            "shfl" if !ins.has_word("sync") => self.shuffle(ins, Gathered::Here),
            "vote" if !ins.has_word("sync") => self.vote(ins, Gathered::Here),
            "shfl" => self.converge(ins, ins.len() - 1, Convergence::AtLeast, Self::shuffle),
            "vote" => self.converge(ins, ins.len() - 1, Convergence::Exactly, Self::vote),
            "match" => self.converge(ins, ins.len() - 1, Convergence::Exactly, Self::match_),
            "redux" => self.converge(ins, ins.len() - 1, Convergence::Exactly, Self::redux),
            "elect" => self.converge(ins, ins.len() - 1, Convergence::Exactly, Self::elect),
            "activemask" => {
                ins.ty()?;
                let value = self.ballot(PT);
                self.set(ins.get(0)?, value)
            }
            "nanosleep" => {
                let time = self.word(ins.get(0)?, ins.ty()?)?;
                self.nanosleep(false, time);
                Some(())
            }
            "pmevent" => {
                let event = constant(ins.get(0)?, Type::U32)?;
                self.effect(Op::PMTRIG, &[], &[], &[Arg::Imm(1 << (event & 15))]);
                Some(())
            }
            "pmevent.mask" => {
                let mask = constant(ins.get(0)?, Type::U32)?;
                self.effect(Op::PMTRIG, &[], &[], &[Arg::Imm((mask & 0xffff) as i64)]);
                Some(())
            }
            "griddepcontrol" => {
                let op = if ins.one_of(&["wait", "launch_dependents"])? == "wait" {
                    Op::ACQBULK
                } else {
                    Op::PREEXIT
                };
                self.effect(op, &[], &[], &[]);
                Some(())
            }
            // ptxas has the same code for both.
            "trap" | "brkpt" => {
                self.effect(Op::BPT, &[M::TRAP], &[], &[Arg::Imm(1)]);
                Some(())
            }
            _ => None,
        }
    }

    /// Sleeps for `time` nanoseconds, or for a random time up to that.
    pub(crate) fn nanosleep(&mut self, random: bool, time: Arg) {
        let random: &[M] = if random { &[M::RAND] } else { &[] };
        let warp: &[M] = if self.machine.sleeps_by_warp { &[M::WARP] } else { &[] };
        self.effect(Op::NANOSLEEP, &[random, warp].concat(), &[], &[time]);
    }

    /// `setmaxnreg`: releases registers to the CTA pool, or polls it until it grants them.
    pub(crate) fn reconfigure(&mut self, ins: &Ins<'a>) -> Option<()> {
        let _ = (ins.flag("sync"), ins.flag("aligned"), ins.ty()?);
        let count = Arg::Imm(constant(ins.get(0)?, Type::U32)? as i64);
        let Reconfiguration::From(_) = self.kernel.reconfiguration else { return Some(()) };
        self.in_guarded_branch(|l| match ins.mnemonic() == setmaxnreg::DECREASE {
            true => {
                l.effect(Op::WARPSYNC, &[M::ALL], &[], &[]);
                l.effect(Op::USETMAXREG, &[M::DEALLOC, M::CTAPOOL], &[], &[count]);
                Some(())
            }
            false => {
                let (again, after) = (l.kernel.code.block(), l.kernel.code.block());
                l.kernel.code.blocks[l.block].end = Terminator::Jump(Edge::to(again));
                l.block = again;
                l.effect(Op::WARPSYNC, &[M::ALL], &[], &[]);
                let granted = l.kernel.code.value(File::UP, 1);
                l.effect(Op::USETMAXREG, &[M::TRY_ALLOC, M::CTAPOOL], &[granted], &[count]);
                let granted = [PT, PT, PT, granted.into(), Arg::Imm(0x80), Arg::Imm(0)];
                let predicate = l.emit_p(Op::PLOP3, &[M::LUT], &granted);
                let (yes, no) = (Edge::to(after), Edge::to(again));
                // The answer is warp-uniform.
                l.kernel.code.blocks[again].end =
                    Terminator::Branch { predicate, negated: false, uniform: true, yes, no };
                l.block = after;
                Some(())
            }
        })
    }

    /// Converges the lanes of a mask and lowers the collective.
    fn converge(
        &mut self,
        ins: &Ins<'a>,
        mask: usize,
        how: Convergence,
        lower: impl FnOnce(&mut Self, &Ins<'a>, Gathered) -> Option<()>,
    ) -> Option<()> {
        ins.flag("sync");
        let mask = ins.get(mask)?;
        // Lanes with a false guard must not be waited for.
        self.in_guarded_branch(|l| l.with_mask(mask, how, |l, gathered| lower(l, ins, gathered)))
    }

    fn with_mask(
        &mut self,
        mask: &Operand,
        how: Convergence,
        lower: impl FnOnce(&mut Self, Gathered) -> Option<()>,
    ) -> Option<()> {
        let all_lanes = self.known_word(mask) == Some(u32::MAX);
        if all_lanes {
            self.wait_for_warp();
            return lower(self, Gathered::Here);
        }
        let mask = self.word(mask, Type::U32)?;
        if self.has(Op::ENDCOLLECTIVE) {
            return lower(self, Gathered::Anywhere(mask));
        }
        let mask = self.in_register(mask);
        if how == Convergence::AtLeast {
            self.effect(Op::WARPSYNC, &[], &[], &[mask]);
            return lower(self, Gathered::Here);
        }
        self.in_convergence_region(|l, _| {
            let exclusive: &[M] =
                if l.has_modifiers(Op::WARPSYNC, &[M::EXCLUSIVE]) { &[M::EXCLUSIVE] } else { &[] };
            l.effect(Op::WARPSYNC, exclusive, &[], &[mask]);
            lower(l, Gathered::Here)
        })
    }

    /// `.sync.aligned`: the whole warp executes the instruction convergently, wherever its lanes come from. Those of a matrix
    /// instruction that run without the others stop the kernel, or compute with what registers of the others held.
    pub(crate) fn aligned(&mut self, ins: &Ins<'a>) {
        ins.flag("sync");
        ins.flag("aligned");
        self.converge_warp();
    }

    /// Waits for the warp, unless the block did already and no lane may have gone ahead since.
    pub(crate) fn converge_warp(&mut self) {
        let code = &self.kernel.code;
        let insts = &code.blocks[self.block].insts;
        // Instructions are only appended: what was searched before is not again.
        let (block, count, waited) = self.searched;
        let known = if block == self.block { count.min(insts.len()) } else { 0 };
        let mut new = insts[known..].iter().rev().map(|i| &code.insts[*i]);
        let is_event =
            |d: &&InstData| leaves_unconverged(d) || sleeps(d) || d.op == ori::Op::Machine(Op::WARPSYNC);
        let waits = new.find(is_event).map_or(known > 0 && waited, waits_for_warp);
        self.searched = (self.block, insts.len(), waits);
        if !waits {
            self.wait_for_warp();
        }
    }

    /// Waits for all lanes of the warp that haven't exited.
    pub(crate) fn wait_for_warp(&mut self) {
        match self.has_modifiers(Op::WARPSYNC, &[M::ALL]) {
            true => self.effect(Op::WARPSYNC, &[M::ALL], &[], &[]),
            false => self.effect(Op::WARPSYNC, &[], &[], &[Arg::Imm(0xffff_ffff)]),
        }
    }

    /// Lowers between `BSSY` and `BSYNC`; `lower` gets the block that begins with the latter.
    fn in_convergence_region(
        &mut self,
        lower: impl FnOnce(&mut Self, ori::Block) -> Option<()>,
    ) -> Option<()> {
        let after = self.kernel.code.block();
        let barrier = self.kernel.code.value(File::B, 1);
        self.emit_to(Op::BSSY, &[], &[barrier], &[Arg::Target(after)]);
        lower(self, after)?;
        self.kernel.code.blocks[self.block].end = Terminator::Jump(Edge::to(after));
        self.block = after;
        self.effect(Op::BSYNC, &[], &[], &[barrier.into()]);
        Some(())
    }

    /// A collective with a predicate and a word as results, in the order of the assembly text. Some write the word to a
    /// uniform register.
    pub(crate) fn warp_wide(
        &mut self,
        gathered: Gathered,
        op: Op,
        modifiers: &[M],
        results: &[Value],
        args: &[Arg],
    ) -> Option<()> {
        let is_uniform = matches!(op, Op::REDUX | Op::CREDUX | Op::ELECT);
        let is_word = |l: &Self, v: &Value| l.kernel.code.values[*v].file == File::R;
        let Gathered::Anywhere(mask) = gathered else {
            let uniform = self.kernel.code.value(File::UR, 1);
            let first = |l: &Self, v: &Value| if is_uniform && is_word(l, v) { uniform } else { *v };
            let written: Vec<Value> = results.iter().map(|v| first(self, v)).collect();
            self.effect(op, modifiers, &written, args);
            // Read at once, while only the lanes of the mask are active.
            if let Some(word) = results.iter().find(|v| is_uniform && is_word(self, v)) {
                self.emit_to(Op::MOV, &[], &[*word], &[uniform.into()]);
            }
            return Some(());
        };
        let args = self.move_to_fixed(op, args);
        let fixed = |l: &Self, v: &Value| match is_word(l, v) {
            true if is_uniform => UNIFORM,
            true => WORD,
            false => TRUTH,
        };
        let written = results.iter().map(|v| fixed(self, v));
        let operands: Vec<Arg> = written.chain(args).collect();
        self.gather_mask(mask, |l| {
            l.emit_to(op, modifiers, &[], &operands);
            if is_uniform {
                l.emit_to(Op::MOV, &[], &[], &[WORD, UNIFORM]);
            }
        })?;
        for result in results {
            self.read_fixed(*result);
        }
        Some(())
    }

    /// Copies a result from its fixed register.
    pub(crate) fn read_fixed(&mut self, result: Value) {
        if self.kernel.code.values[result].file == File::R {
            return self.emit_to(Op::MOV, &[], &[result], &[WORD]);
        }
        let logic = [PT, TRUTH, PT, PT, Arg::Imm(0x80), Arg::Imm(0)];
        self.emit_to(Op::PLOP3, &[M::LUT], &[result], &logic);
    }

    /// Gathers the lanes of a mask for some code. The mask is the last to be written: then the writes of the other
    /// fixed registers are complete, whichever lane's copy executes.
    fn gather_mask(&mut self, mask: Arg, code: impl FnOnce(&mut Self)) -> Option<()> {
        self.in_convergence_region(|l, after| {
            l.emit_to(Op::MOV, &[], &[], &[MASK, mask]);
            l.effect(Op::WARPSYNC, &[M::COLLECTIVE], &[], &[MASK, Arg::Target(after)]);
            code(l);
            l.effect(Op::ENDCOLLECTIVE, &[], &[], &[]);
            Some(())
        })
    }

    /// Gathers the warp for an operation without results and for `then`, right after it. Constants are assumed to be
    /// the same in every copy.
    pub(crate) fn gather_warp(
        &mut self,
        op: Op,
        modifiers: &[M],
        args: &[Arg],
        then: impl FnOnce(&mut Self),
    ) -> Option<()> {
        let mut next = FIRST;
        let mut known: Vec<(Arg, Arg)> = Vec::new();
        let mut operands = Vec::new();
        for arg in args {
            let file = arg.value().map(|v| self.kernel.code.values[v].file);
            let to = match (file, known.iter().find(|(from, _)| from == arg)) {
                (_, Some((_, to))) => *to,
                (None, _) if !matches!(arg, Arg::True(_)) => *arg,
                (Some(File::R), _) => {
                    let to = Arg::Fixed { file: File::R, number: next };
                    self.emit_to(Op::MOV, &[], &[], &[to, *arg]);
                    next += 1;
                    to
                }
                _ => {
                    let logic = [TRUTH, PT, *arg, PT, PT, Arg::Imm(0x80), Arg::Imm(0)];
                    self.emit_to(Op::PLOP3, &[M::LUT], &[], &logic);
                    TRUTH
                }
            };
            known.push((*arg, to));
            operands.push(to);
        }
        // Lanes that arrive here one after the other must converge first: an H200 has executed the barrier twice where
        // they were gathered only by the collective (`collectives/trips.ptx`).
        self.wait_for_warp();
        self.in_convergence_region(|l, after| {
            l.effect(Op::WARPSYNC, &[M::COLLECTIVE, M::ALL], &[], &[Arg::Target(after)]);
            l.emit_to(op, modifiers, &[], &operands);
            then(l);
            l.effect(Op::ENDCOLLECTIVE, &[], &[], &[]);
            Some(())
        })
    }

    /// Moves arguments to fixed registers: words in sequence, and the predicate. Constants, too: they may differ
    /// between copies.
    fn move_to_fixed(&mut self, op: Op, args: &[Arg]) -> Vec<Arg> {
        let mut next = FIRST;
        let mut fixed = Vec::new();
        for (i, arg) in args.iter().enumerate() {
            let file = arg.value().map(|v| self.kernel.code.values[v].file);
            let is_truth = file == Some(File::P) || matches!(arg, Arg::True(_));
            // An unused predicate result precedes the predicate; and ELECT's operand is always PT.
            if is_truth && (i + 1 < args.len() || op == Op::ELECT) {
                fixed.push(*arg);
                continue;
            }
            if is_truth {
                let logic = [TRUTH, PT, *arg, PT, PT, Arg::Imm(0x80), Arg::Imm(0)];
                self.emit_to(Op::PLOP3, &[M::LUT], &[], &logic);
                fixed.push(TRUTH);
                continue;
            }
            fixed.push(Arg::Fixed { file: File::R, number: next });
            let words = arg.value().map_or(1, |v| self.kernel.code.values[v].words);
            for word in 0..words {
                let from = if words == 1 { *arg } else { arg.value().map_or(*arg, |v| Arg::word(v, word)) };
                let to = Arg::Fixed { file: File::R, number: next };
                self.emit_to(Op::MOV, &[], &[], &[to, from]);
                next += 1;
            }
        }
        fixed
    }

    /// Does the machine have the operation with these modifiers, whatever its operands?
    fn has_modifiers(&self, op: Op, modifiers: &[M]) -> bool {
        let operands: [&[sass::Operand]; 2] = [&[], &[sass::operands::r(2)]];
        operands.iter().any(|o| sass::legal(self.machine.isa, op, modifiers, o))
    }

    fn shuffle(&mut self, ins: &Ins<'a>, gathered: Gathered) -> Option<()> {
        let mode = match ins.one_of(&["up", "down", "bfly", "idx"])? {
            "up" => M::UP,
            "down" => M::DOWN,
            "bfly" => M::BFLY,
            _ => M::IDX,
        };
        let ty = ins.ty()?;
        let value = self.word(ins.get(1)?, ty)?;
        // Immediate fields are narrow, and the machine reads as many bits of a register.
        let (lane, bounds) = (self.low_bits(ins.get(2)?, 0x1f)?, self.low_bits(ins.get(3)?, 0x1f1f)?);
        let (got, inside) = (self.kernel.code.value(File::R, 1), self.kernel.code.value(File::P, 1));
        let value = self.in_register(value);
        self.warp_wide(gathered, Op::SHFL, &[mode], &[inside, got], &[value, lane, bounds])?;
        self.set_pair(ins.get(0)?, got, inside)
    }

    /// An operand of which these bits matter: a constant, or a register.
    fn low_bits(&mut self, operand: &Operand, mask: u32) -> Option<Arg> {
        match self.known_word(operand) {
            Some(bits) => Some(Arg::Imm(i64::from(bits & mask))),
            None => self.word(operand, Type::U32),
        }
    }

    /// `d|p`, or `d` alone.
    fn set_pair(&mut self, operand: &Operand, value: Value, predicate: Value) -> Option<()> {
        let Operand::Pair(range) = operand else { return self.set(operand, value) };
        let body = self.body;
        let [first, second] = body.list(*range) else { return None };
        self.set(first, value)?;
        self.set(second, predicate)
    }

    fn vote(&mut self, ins: &Ins<'a>, gathered: Gathered) -> Option<()> {
        let mode = ins.one_of(&["all", "any", "uni", "ballot"])?;
        ins.ty()?;
        let predicate = self.predicate(ins.get(1)?)?;
        if mode == "ballot" {
            let result = self.kernel.code.value(File::R, 1);
            self.warp_wide(gathered, Op::VOTE, &[M::ANY], &[result], &[PT, predicate])?;
            return self.set(ins.get(0)?, result);
        }
        let mode = match mode {
            "all" => M::ALL,
            "any" => M::ANY,
            _ => M::EQ,
        };
        let result = self.kernel.code.value(File::P, 1);
        self.warp_wide(gathered, Op::VOTE, &[mode], &[result], &[predicate])?;
        self.set(ins.get(0)?, result)
    }

    /// The active threads for which a predicate holds.
    fn ballot(&mut self, predicate: Arg) -> Value {
        let result = self.kernel.code.value(File::R, 1);
        self.effect(Op::VOTE, &[M::ANY], &[result], &[PT, predicate]);
        result
    }

    fn match_(&mut self, ins: &Ins<'a>, gathered: Gathered) -> Option<()> {
        let all = ins.one_of(&["any", "all"])? == "all";
        let ty = ins.ty()?;
        let (value, size): (Arg, &[M]) = match ty.bits() {
            64 => (self.wide(ins.get(1)?, ty)?.into(), &[M::U64]),
            _ => {
                let word = self.word(ins.get(1)?, ty)?;
                (self.in_register(word), &[])
            }
        };
        let mask = self.kernel.code.value(File::R, 1);
        if !all {
            self.warp_wide(gathered, Op::MATCH, &[&[M::ANY], size].concat(), &[mask], &[value])?;
            return self.set(ins.get(0)?, mask);
        }
        let same = self.kernel.code.value(File::P, 1);
        self.warp_wide(gathered, Op::MATCH, &[&[M::ALL], size].concat(), &[same, mask], &[value])?;
        self.set_pair(ins.get(0)?, mask, same)
    }

    /// The direct reduction to minimum or maximum that some machines have, and ptxas uses.
    fn short_reduction(&self, operation: &str) -> Option<M> {
        let op = match operation {
            "min" => M::MIN,
            "max" => M::MAX,
            _ => return None,
        };
        let operands = [sass::operands::ur(2), sass::operands::r(2)];
        self.takes(Op::CREDUX, &[op], &operands).then_some(op)
    }

    fn redux(&mut self, ins: &Ins<'a>, gathered: Gathered) -> Option<()> {
        let operation = ins.one_of(&["add", "min", "max", "and", "or", "xor"])?;
        let (absolute, nan) = (ins.flag("abs"), ins.flag("NaN"));
        let ty = ins.ty()?;
        let signed: &[M] = if ty.is_signed() { &[M::S32] } else { &[] };
        let value = self.word(ins.get(1)?, ty)?;
        let value = self.in_register(value);
        let result = self.kernel.code.value(File::R, 1);
        if ty == Type::F32 {
            let op = match (operation, absolute) {
                ("min", false) => M::MIN,
                ("max", false) => M::MAX,
                ("min", true) => M::MINABS,
                ("max", true) => M::MAXABS,
                _ => return None,
            };
            let modifiers: &[M] = if nan { &[op, M::F32, M::NAN] } else { &[op, M::F32] };
            self.warp_wide(gathered, Op::CREDUX, modifiers, &[result], &[value])?;
        } else if let Some(op) = self.short_reduction(operation) {
            self.warp_wide(gathered, Op::CREDUX, &[&[op], signed].concat(), &[result], &[value])?;
        } else {
            let op: &[M] = match operation {
                "add" => &[M::SUM],
                "min" => &[M::MIN],
                "max" => &[M::MAX],
                "or" => &[M::OR],
                "xor" => &[M::XOR],
                // `and` is the default.
                _ => &[],
            };
            self.warp_wide(gathered, Op::REDUX, &[op, signed].concat(), &[result], &[value])?;
        }
        self.set(ins.get(0)?, result)
    }

    fn elect(&mut self, ins: &Ins<'a>, gathered: Gathered) -> Option<()> {
        let (lane, elected) = (self.kernel.code.value(File::R, 1), self.kernel.code.value(File::P, 1));
        self.warp_wide(gathered, Op::ELECT, &[], &[elected, lane], &[PT])?;
        self.set_pair(ins.get(0)?, lane, elected)
    }

    /// `bar.warp.sync`
    pub(crate) fn sync_warp(&mut self, ins: &Ins<'a>) -> Option<()> {
        ins.flag("sync");
        let mask = *ins.get(0)?;
        // Convergence code is removed where the warp is convergent; the memory fences stay.
        self.in_guarded_branch(|l| {
            l.compiler_fence(&[M::WARP]);
            l.with_mask(&mask, Convergence::AtLeast, |l, gathered| match gathered {
                Gathered::Here => Some(()),
                Gathered::Anywhere(mask) => l.gather_mask(mask, |l| l.effect(Op::NOP, &[], &[], &[])),
            })?;
            l.compiler_fence(&[M::WARP]);
            Some(())
        })
    }

    /// `word & mask`.
    pub(crate) fn masked(&mut self, word: Arg, mask: i64) -> Value {
        self.emit(Op::LOP3, &[M::LUT], 1, &[word, Arg::Imm(mask), RZ, Arg::Imm(0xc0), NOT_PT])
    }
}
