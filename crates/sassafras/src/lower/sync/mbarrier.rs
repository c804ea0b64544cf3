//! Lowers `mbarrier`: barriers in shared memory.
//!
//! Before sm_90 a barrier is two words: the pending arrivals of the next phase and of this one, counted up to zero,
//! with the phase in the sign of the upper word. Later machines have a unit with a layout of its own (`SYNCS`): the
//! counts are 20 bits each, from bit 1 on and from bit 43 on, and also count up.

use crate::lower::Lower;
use crate::lower::build::{PT, RZ};
use crate::lower::instruction::Ins;
use crate::lower::memory::address::{Address, Space};
use crate::lower::memory::load_store::Scope;
use crate::lower::sync::waterfall::Grouping;
use ori::{Arg, File, Guard, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::{M, Op};
use smallvec::smallvec;

const URZ: Arg = Arg::Zero(File::UR);
/// The initial value of the unit's counts, and their positions in the words.
const FULL: i64 = 1 << 20;
const EXPECTED_SHIFT: i64 = 1;
const PENDING_SHIFT: i64 = 11;

impl<'a> Lower<'_, 'a> {
    pub(crate) fn mbarrier(&mut self, ins: &Ins<'a>) -> Option<()> {
        if ins.mnemonic() == "mbarrier.pending_count" {
            return self.pending_count(ins);
        }
        let _b64 = ins.ty()?;
        match ins.mnemonic() {
            "mbarrier.init" => self.barrier_init(ins),
            "mbarrier.inval" => {
                let barrier = self.barrier_address(ins, 0)?;
                if self.has(Op::SYNCS) {
                    self.effect(Op::SYNCS, &[M::CCTL, M::IV], &[], &unit_args(barrier));
                }
                Some(())
            }
            "mbarrier.expect_tx" => self.barrier_transactions(ins, M::A0TR),
            "mbarrier.complete_tx" => self.barrier_transactions(ins, M::A0TX),
            name if name.starts_with("mbarrier.arrive") => self.barrier_arrive(ins),
            _ => self.barrier_wait(ins),
        }
    }

    /// The address of a barrier in shared memory. A generic address must be in the shared window.
    pub(crate) fn barrier_address(&mut self, ins: &Ins<'a>, operand: usize) -> Option<Address> {
        let space = self.space(ins)?;
        let operand = ins.get(operand)?;
        let barrier = self.address(operand, Space::Shared, 8)?;
        match (space, self.machine.windows.shared) {
            (Space::Generic, Some(window)) if is_register(self.body, operand) => {
                let start = self.in_register(Arg::Const { bank: 0, offset: window });
                let base = self.emit(Op::IADD3, &[], 1, &[barrier.base, start.negated(), RZ]);
                Some(Address { base: base.into(), ..barrier })
            }
            _ => Some(barrier),
        }
    }

    fn barrier_init(&mut self, ins: &Ins<'a>) -> Option<()> {
        let barrier = self.barrier_address(ins, 0)?;
        let count = self.word(ins.get(1)?, Type::U32)?;
        let count = self.in_register(count);
        let left =
            |l: &mut Self, full: i64| l.emit(Op::IADD3, &[], 1, &[count.negated(), Arg::Imm(full), RZ]);
        if !self.has(Op::SYNCS) {
            let (next, now) = (left(self, 1 << 30), left(self, -(1 << 31)));
            let words = self.pack(&[next.into(), now.into()]);
            self.effect(Op::STS, &[M::_64], &[], &[barrier.base, Arg::Imm(barrier.offset), words.into()]);
            return Some(());
        }
        let left = left(self, FULL);
        let shifted = |l: &mut Self, by: i64| -> Arg {
            l.emit(Op::SHF, &[M::L, M::U32], 1, &[left.into(), Arg::Imm(by), RZ]).into()
        };
        let words = [shifted(self, EXPECTED_SHIFT), shifted(self, PENDING_SHIFT)];
        if self.machine.stores_barriers {
            let words = self.pack(&words);
            let args = [&unit_args(barrier)[..], &[words.into()]].concat();
            self.effect(Op::STS, &[M::_64], &[], &args);
            self.effect(Op::FENCE, &[M::VIEW, M::ASYNC, M::S], &[], &[]);
            self.effect(Op::SYNCS, &[M::CCTL, M::IVALL], &[], &[]);
            return Some(());
        }
        self.in_waterfall(Grouping::SameOperands, &[words[0], words[1], barrier.base], |l, uniform| {
            // Earlier ordinary accesses of the location must not be reordered after it.
            l.effect(Op::FENCE, &[M::VIEW, M::ASYNC, M::S], &[], &[]);
            let words = l.pack_uniform(&uniform[..2]);
            let args = [URZ, uniform[2], Arg::Imm(barrier.offset), words.into()];
            l.effect(Op::SYNCS, &[M::EXCH, M::_64], &[], &args);
            Some(())
        })
    }

    /// `expect_tx` and `complete_tx`: no arrival.
    fn barrier_transactions(&mut self, ins: &Ins<'a>, what: M) -> Option<()> {
        // It orders nothing, and its scope is that of the address.
        let (_relaxed, _scope) = (ins.flag("relaxed"), Scope::read(ins));
        let barrier = self.barrier_address(ins, 0)?;
        let count = self.word(ins.get(1)?, Type::U32)?;
        self.unit_arrive(&[M::RED, what], None, barrier, count);
        Some(())
    }

    /// Arrives at the unit. `state` receives the previous state of the barrier; `None` if it is unused.
    pub(crate) fn unit_arrive(&mut self, words: &[M], state: Option<Value>, barrier: Address, operand: Arg) {
        let operand = self.in_register(operand);
        let mut args = unit_args(barrier);
        args.push(operand);
        if state.is_none() {
            args.insert(0, RZ);
        }
        self.effect(Op::SYNCS, &[&[M::ARRIVE, M::TRANS64], words].concat(), state.as_slice(), &args);
    }

    fn barrier_arrive(&mut self, ins: &Ins<'a>) -> Option<()> {
        let drops = ins.mnemonic().starts_with("mbarrier.arrive_drop");
        let expects = ins.mnemonic().ends_with("expect_tx");
        let stays = ins.flag("noComplete");
        let relaxed = ins.one_of(&["release", "relaxed"]) == Some("relaxed");
        let scope = Scope::read(ins).unwrap_or(Scope::Cta);
        let barrier = self.barrier_address(ins, 1)?;
        let count = match ins.get(2) {
            Some(operand) => Some(self.word(operand, Type::U32)?),
            None => None,
        };
        let to = ins.get(0)?;
        if !self.has(Op::SYNCS) {
            self.effect(Op::MEMBAR, &[M::ALL, M::CTA], &[], &[]);
            let state = self.arrive_in_memory(barrier, count, drops);
            return self.set(to, state);
        }
        // The unit itself orders earlier accesses of the block.
        if !relaxed && scope != Scope::Cta {
            self.before_release(scope);
        }
        let drop: &[M] = if drops { &[M::OPTOUT] } else { &[] };
        let (how, operand): (&[M], Arg) = match (expects, count) {
            (true, Some(bytes)) => (&[], bytes),
            (false, Some(count)) => (&[M::ART0], count),
            _ => (&[M::A1T0], RZ),
        };
        if matches!(to, Operand::Sink) {
            // A reduction reaches the barriers of other blocks of the cluster, but later operations don't wait for it: a
            // bulk copy could complete before its bytes are expected. So ptxas has it for such addresses only.
            let is_own = ["shared", "shared::cta"].iter().any(|space| ins.has_word(space));
            let red: &[M] = if is_own { &[] } else { &[M::RED] };
            self.unit_arrive(&[red, drop, how].concat(), None, barrier, operand);
            return Some(());
        }
        if let (true, Some(count)) = (stays, count) {
            return self.arrive_and_count(to, drop, barrier, count);
        }
        let state = self.kernel.code.value(File::R, 2);
        self.unit_arrive(&[drop, how].concat(), Some(state), barrier, operand);
        self.set(to, state)
    }

    /// An arrival that returns a state with the arrivals before this thread, each lane of the warp in turn: lanes with
    /// the same count arrive in one operation.
    fn arrive_and_count(&mut self, to: &Operand, drop: &[M], barrier: Address, count: Arg) -> Option<()> {
        self.in_guarded_branch(|l| {
            if let Arg::Imm(_) | Arg::Zero(_) = count {
                let state = l.arrive_with_same_count(drop, barrier, count);
                return l.set(to, state);
            }
            let count = l.in_register(count);
            let none = l.kernel.code.value(File::R, 2);
            let none = l.undefined_like(none);
            let found = l.waterfall_loop(Grouping::SameWord(count), &[], &[none], |l, _| {
                Some(vec![l.arrive_with_same_count(drop, barrier, count)])
            })?;
            l.set(to, *found.first()?)
        })
    }

    /// Arrival of the lanes with the same count: the unit returns to each the upper word before all of them, and in the
    /// lower word the mask of these lanes (`TMASK`). Lower lanes count as earlier. The lower word is left as it is: no
    /// instruction reads it from a state.
    fn arrive_with_same_count(&mut self, drop: &[M], barrier: Address, count: Arg) -> Value {
        let found = self.kernel.code.value(File::R, 2);
        self.unit_arrive(&[&[M::TMASK], drop, &[M::ART0]].concat(), Some(found), barrier, count);
        let lower = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_LTMASK)]);
        let first = self.lop3(Arg::word(found, 0), lower.into(), RZ, 0xc0);
        let first = self.emit(Op::POPC, &[], 1, &[first.into()]);
        let each = match count {
            Arg::Imm(count) => Arg::Imm(i64::from((count as i32) << PENDING_SHIFT)),
            count => self.emit(Op::SHF, &[M::L, M::U32], 1, &[count, Arg::Imm(PENDING_SHIFT), RZ]).into(),
        };
        let high = self.emit(Op::IMAD, &[], 1, &[first.into(), each, Arg::word(found, 1)]);
        self.pack(&[Arg::word(found, 0), high.into()])
    }

    /// In software: returns the previous state.
    fn arrive_in_memory(&mut self, barrier: Address, count: Option<Arg>, drops: bool) -> Value {
        let at = |offset: i64| [barrier.base, Arg::Imm(barrier.offset + offset)];
        match count {
            None => {
                if drops {
                    let args = [&[RZ], &unit_args(barrier)[..]].concat();
                    self.effect(Op::ATOMS, &[M::POPC, M::INC, M::_32], &[], &args);
                }
                let state = self.kernel.code.value(File::R, 2);
                self.effect(Op::ATOMS, &[M::ARRIVE, M::_64], &[state], &unit_args(barrier));
                state
            }
            Some(count) => {
                let count = self.in_register(count);
                if drops {
                    self.effect(Op::ATOMS, &[M::ADD], &[], &[&[RZ], &at(0)[..], &[count]].concat());
                }
                let word = self.kernel.code.value(File::R, 1);
                self.effect(Op::ATOMS, &[M::ADD], &[word], &[&at(4)[..], &[count]].concat());
                self.pack(&[word.into(), word.into()])
            }
        }
    }

    fn barrier_wait(&mut self, ins: &Ins<'a>) -> Option<()> {
        let parity = ins.mnemonic().ends_with("parity");
        let tries = ins.mnemonic().starts_with("mbarrier.try_wait");
        let relaxed = ins.one_of(&["acquire", "relaxed"]) == Some("relaxed");
        let scope = Scope::read(ins).unwrap_or(Scope::Cta);
        let barrier = self.barrier_address(ins, 1)?;
        // The phase is the sign of the upper word.
        let phase = match parity {
            true => {
                let parity = self.word(ins.get(2)?, Type::U32)?;
                let parity = self.in_register(parity);
                self.emit(Op::SHF, &[M::L, M::U32], 1, &[parity, Arg::Imm(31), RZ]).into()
            }
            false => {
                let high = self.words(ins.get(2)?, Type::U64)?[1];
                self.in_register(high)
            }
        };
        let time = match ins.get(3) {
            Some(operand) => Some(self.word(operand, Type::U32)?),
            None => None,
        };
        let to = ins.get(0)?;
        self.in_guarded_branch(|l| {
            let done = match (l.has(Op::SYNCS), time) {
                (false, _) => l.other_phase(barrier, phase),
                (true, None) => l.unit_wait(tries, barrier, phase),
                (true, Some(time)) => l.timed_wait(barrier, phase, time),
            };
            if !relaxed && scope != Scope::Cta {
                l.under(done.into(), |l| l.after_acquire(scope));
            }
            l.set(to, done)
        })
    }

    /// Has the phase of the barrier changed?
    fn other_phase(&mut self, barrier: Address, phase: Arg) -> Value {
        let word = self.kernel.code.value(File::R, 1);
        self.compiler_fence(&[M::CTA]);
        self.effect(Op::LDS, &[], &[word], &[barrier.base, Arg::Imm(barrier.offset + 4)]);
        self.compiler_fence(&[M::CTA]);
        // (word ^ phase) & sign
        let sign = Arg::Imm(i64::from(i32::MIN));
        let differs =
            self.emit(Op::LOP3, &[M::LUT], 1, &[word.into(), sign, phase, Arg::Imm(0x48), Arg::True(false)]);
        self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &[PT, differs.into(), RZ, PT])
    }

    pub(crate) fn unit_wait(&mut self, tries: bool, barrier: Address, phase: Arg) -> Value {
        let done = self.kernel.code.value(File::P, 1);
        let mut args = unit_args(barrier);
        args.push(phase);
        let words = [M::PHASECHK, M::TRANS64, M::TRYWAIT];
        self.effect(Op::SYNCS, if tries { &words } else { &words[..2] }, &[done], &args);
        done
    }

    /// Tries to wait; if the phase isn't complete, sleeps until the barrier wakes the thread or the time is over, and
    /// tests again.
    pub(crate) fn timed_wait(&mut self, barrier: Address, phase: Arg, time: Arg) -> Value {
        let first = self.unit_wait(true, barrier, phase);
        self.under(Arg::not(first), |l| l.effect(Op::NANOSLEEP, &[M::SYNCS], &[], &[time]));
        let done = self.kernel.code.value(File::P, 1);
        let mut args = unit_args(barrier);
        args.push(phase);
        let mut again = self.data(ori::Op::Machine(Op::SYNCS), &[M::PHASECHK, M::TRANS64], &[done], &args);
        again.guard = Some(Guard { predicate: first, negated: true, else_values: smallvec![first] });
        self.kernel.code.append(self.block, again);
        done
    }

    /// The pending count of a state.
    fn pending_count(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let high = self.words(ins.get(1)?, ty)?[1];
        let high = self.in_register(high);
        let (arrived, full): (Arg, i64) = match self.has(Op::SYNCS) {
            true => {
                let shifted =
                    self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, Arg::Imm(PENDING_SHIFT), high]);
                (self.masked(shifted.into(), FULL - 1).into(), FULL)
            }
            false => (self.masked(high, i64::from(i32::MAX)).into(), -(1 << 31)),
        };
        let pending = self.emit(Op::IADD3, &[], 1, &[arrived.negated(), Arg::Imm(full), RZ]);
        self.set(ins.get(0)?, pending)
    }
}

/// The address operands of the unit.
fn unit_args(barrier: Address) -> Vec<Arg> {
    vec![barrier.base, URZ, Arg::Imm(barrier.offset)]
}

/// Is the base of an address a register?
fn is_register(body: &ptx::ast::Body, operand: &Operand) -> bool {
    match operand {
        Operand::Address(range) => matches!(body.list(*range).first(), Some(Operand::Reg(_))),
        _ => false,
    }
}
