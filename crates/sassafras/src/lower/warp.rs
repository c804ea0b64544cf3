//! Votes, shuffles, matches and reductions over a warp; sleeping, traps and events.
//!
//! Before threads work together they must be together. With a mask of all threads `WARPSYNC.ALL` waits for everyone; with
//! another mask a shuffle waits for the threads of the mask, and the other operations, which look at all active threads,
//! run where only those are active, between `WARPSYNC.EXCLUSIVE` and a convergence barrier.

use super::Lower;
use super::build::{NOT_PT, PT, RZ, constant};
use super::instruction::Ins;
use crate::reconfigure::{self, Reconfiguration};
use ori::{Arg, Edge, File, Terminator, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::{M, Op};

/// How much must be arranged before threads work together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Together {
    /// All of the mask are there; others may be, too.
    AtLeast,
    /// Only those of the mask are there.
    Exactly,
}

impl<'a> Lower<'_, 'a> {
    pub(super) fn warp(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "shfl" => self.together(ins, ins.len() - 1, Together::AtLeast, Self::shuffle),
            "vote" => self.vote(ins),
            "match" => self.together(ins, ins.len() - 1, Together::Exactly, Self::match_),
            "redux" => self.together(ins, ins.len() - 1, Together::Exactly, Self::redux),
            "elect" => self.together(ins, ins.len() - 1, Together::Exactly, Self::elect),
            "activemask" => {
                ins.ty()?;
                let value = self.ballot(PT);
                self.set(ins.get(0)?, value)
            }
            "nanosleep" => {
                let time = self.word(ins.get(0)?, ins.ty()?)?;
                self.effect(Op::NANOSLEEP, &[], &[], &[time]);
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
            // ptxas makes no difference between them.
            "trap" | "brkpt" => {
                self.effect(Op::BPT, &[M::TRAP], &[], &[Arg::Imm(1)]);
                Some(())
            }
            _ => None,
        }
    }

    /// `setmaxnreg`: registers to the pool of the block, or from it, which is asked until it has them.
    pub(super) fn reconfigure(&mut self, ins: &Ins<'a>) -> Option<()> {
        let _ = (ins.flag("sync"), ins.flag("aligned"), ins.ty()?);
        let count = Arg::Imm(constant(ins.get(0)?, Type::U32)? as i64);
        let Reconfiguration::From(_) = self.kernel.reconfiguration else { return Some(()) };
        self.under_branch(|l| match ins.mnemonic() == reconfigure::DECREASE {
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
                // All threads of the warp get the same answer.
                l.kernel.code.blocks[again].end =
                    Terminator::Branch { predicate, negated: false, uniform: true, yes, no };
                l.block = after;
                Some(())
            }
        })
    }

    /// Brings the threads of a mask together and lowers what they do.
    fn together(
        &mut self,
        ins: &Ins<'a>,
        mask: usize,
        how: Together,
        lower: impl FnOnce(&mut Self, &Ins<'a>) -> Option<()>,
    ) -> Option<()> {
        ins.flag("sync");
        let mask = *ins.get(mask)?;
        // Threads that the guard holds back must not be waited for.
        self.under_branch(|l| l.with_mask(&mask, how, |l| lower(l, ins)))
    }

    fn with_mask(
        &mut self,
        mask: &Operand,
        how: Together,
        lower: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let everyone = constant(mask, Type::U32).is_some_and(|m| m as u32 == u32::MAX);
        if everyone {
            match self.has_modifiers(Op::WARPSYNC, &[M::ALL]) {
                true => self.effect(Op::WARPSYNC, &[M::ALL], &[], &[]),
                false => self.effect(Op::WARPSYNC, &[], &[], &[Arg::Imm(0xffff_ffff)]),
            }
            return lower(self);
        }
        let mask = self.word(mask, Type::U32)?;
        let mask = self.in_register(mask);
        if how == Together::AtLeast {
            self.effect(Op::WARPSYNC, &[], &[], &[mask]);
            return lower(self);
        }
        let after = self.kernel.code.block();
        let barrier = self.kernel.code.value(File::B, 1);
        self.emit_to(Op::BSSY, &[], &[barrier], &[Arg::Target(after)]);
        let exclusive: &[M] =
            if self.has_modifiers(Op::WARPSYNC, &[M::EXCLUSIVE]) { &[M::EXCLUSIVE] } else { &[] };
        self.effect(Op::WARPSYNC, exclusive, &[], &[mask]);
        lower(self)?;
        self.kernel.code.blocks[self.block].end = Terminator::Jump(Edge::to(after));
        self.block = after;
        self.effect(Op::BSYNC, &[], &[], &[barrier.into()]);
        Some(())
    }

    /// Does the machine have the operation with these modifiers, whatever its operands?
    fn has_modifiers(&self, op: Op, modifiers: &[M]) -> bool {
        let operands: [&[sass::Operand]; 2] = [&[], &[sass::operands::r(2)]];
        operands.iter().any(|o| sass::legal(self.machine.isa, op, modifiers, o))
    }

    fn shuffle(&mut self, ins: &Ins<'a>) -> Option<()> {
        let mode = match ins.one_of(&["up", "down", "bfly", "idx"])? {
            "up" => M::UP,
            "down" => M::DOWN,
            "bfly" => M::BFLY,
            _ => M::IDX,
        };
        let ty = ins.ty()?;
        let value = self.word(ins.get(1)?, ty)?;
        let (lane, bounds) = (self.word(ins.get(2)?, ty)?, self.word(ins.get(3)?, ty)?);
        // The fields of constants are narrow, and the machine looks at no more of a register.
        let low = |arg: Arg, bits: i64| if let Arg::Imm(n) = arg { Arg::Imm(n & bits) } else { arg };
        let (lane, bounds) = (low(lane, 0x1f), low(bounds, 0x1f1f));
        let (got, inside) = (self.kernel.code.value(File::R, 1), self.kernel.code.value(File::P, 1));
        let value = self.in_register(value);
        self.effect(Op::SHFL, &[mode], &[inside, got], &[value, lane, bounds]);
        self.set_pair(ins.get(0)?, got, inside)
    }

    /// `d|p`, or `d` alone.
    fn set_pair(&mut self, operand: &Operand, value: Value, predicate: Value) -> Option<()> {
        let Operand::Pair(range) = operand else { return self.set(operand, value) };
        let [first, second] = self.body.list(*range) else { return None };
        let (first, second) = (*first, *second);
        self.set(&first, value)?;
        self.set(&second, predicate)
    }

    fn vote(&mut self, ins: &Ins<'a>) -> Option<()> {
        // Without `.sync` the instruction does not exist on these machines.
        let last = ins.len() - 1;
        self.together(ins, last, Together::Exactly, |l, ins| {
            let mode = ins.one_of(&["all", "any", "uni", "ballot"])?;
            ins.ty()?;
            let predicate = l.predicate(ins.get(1)?)?;
            let value = match mode {
                "ballot" => l.ballot(predicate),
                _ => {
                    let mode = match mode {
                        "all" => M::ALL,
                        "any" => M::ANY,
                        _ => M::EQ,
                    };
                    let result = l.kernel.code.value(File::P, 1);
                    l.effect(Op::VOTE, &[mode], &[result], &[predicate]);
                    result
                }
            };
            l.set(ins.get(0)?, value)
        })
    }

    /// The active threads for which a predicate holds.
    fn ballot(&mut self, predicate: Arg) -> Value {
        let result = self.kernel.code.value(File::R, 1);
        self.effect(Op::VOTE, &[M::ANY], &[result], &[PT, predicate]);
        result
    }

    fn match_(&mut self, ins: &Ins<'a>) -> Option<()> {
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
            self.effect(Op::MATCH, &[&[M::ANY], size].concat(), &[mask], &[value]);
            return self.set(ins.get(0)?, mask);
        }
        let same = self.kernel.code.value(File::P, 1);
        self.effect(Op::MATCH, &[&[M::ALL], size].concat(), &[same, mask], &[value]);
        self.set_pair(ins.get(0)?, mask, same)
    }

    /// Some machines have a faster way to the least and the greatest value, which ptxas takes.
    fn short_reduction(&self, operation: &str) -> Option<M> {
        let op = match operation {
            "min" => M::MIN,
            "max" => M::MAX,
            _ => return None,
        };
        let operands = [sass::operands::ur(2), sass::operands::r(2)];
        self.takes(Op::CREDUX, &[op], &operands).then_some(op)
    }

    fn redux(&mut self, ins: &Ins<'a>) -> Option<()> {
        let operation = ins.one_of(&["add", "min", "max", "and", "or", "xor"])?;
        let (absolute, nan) = (ins.flag("abs"), ins.flag("NaN"));
        let ty = ins.ty()?;
        let signed: &[M] = if ty.is_signed() { &[M::S32] } else { &[] };
        let value = self.word(ins.get(1)?, ty)?;
        let value = self.in_register(value);
        let result = self.kernel.code.value(File::UR, 1);
        if ty == Type::F32 {
            let op = match (operation, absolute) {
                ("min", false) => M::MIN,
                ("max", false) => M::MAX,
                ("min", true) => M::MINABS,
                ("max", true) => M::MAXABS,
                _ => return None,
            };
            let modifiers: &[M] = if nan { &[op, M::F32, M::NAN] } else { &[op, M::F32] };
            self.effect(Op::CREDUX, modifiers, &[result], &[value]);
        } else if let Some(op) = self.short_reduction(operation) {
            self.effect(Op::CREDUX, &[&[op], signed].concat(), &[result], &[value]);
        } else {
            let op: &[M] = match operation {
                "add" => &[M::SUM],
                "min" => &[M::MIN],
                "max" => &[M::MAX],
                "or" => &[M::OR],
                "xor" => &[M::XOR],
                // `and` is what the machine does when nothing is said.
                _ => &[],
            };
            self.effect(Op::REDUX, &[op, signed].concat(), &[result], &[value]);
        }
        // At once, while the threads of the mask are alone.
        let word = self.emit(Op::MOV, &[], 1, &[result.into()]);
        self.set(ins.get(0)?, word)
    }

    fn elect(&mut self, ins: &Ins<'a>) -> Option<()> {
        let (leader, elected) = (self.kernel.code.value(File::UR, 1), self.kernel.code.value(File::P, 1));
        self.effect(Op::ELECT, &[], &[elected, leader], &[PT]);
        let lane = self.emit(Op::MOV, &[], 1, &[leader.into()]);
        self.set_pair(ins.get(0)?, lane, elected)
    }

    /// `bar.warp.sync`
    pub(super) fn sync_warp(&mut self, ins: &Ins<'a>) -> Option<()> {
        ins.flag("sync");
        let mask = *ins.get(0)?;
        self.under_branch(|l| l.with_mask(&mask, Together::AtLeast, |_| Some(())))
    }

    /// Some bits of a word.
    pub(super) fn masked(&mut self, word: Arg, mask: i64) -> Value {
        self.emit(Op::LOP3, &[M::LUT], 1, &[word, Arg::Imm(mask), RZ, Arg::Imm(0xc0), NOT_PT])
    }
}
