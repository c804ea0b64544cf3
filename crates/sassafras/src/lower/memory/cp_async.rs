//! Lowers `cp.async`: asynchronous copies from global to shared memory.

use crate::lower::Lower;
use crate::lower::build::{PT, RZ, constant};
use crate::lower::instruction::Ins;
use crate::lower::memory::address::{Address, Space};
use crate::lower::memory::load_store::size_word;
use crate::lower::sync::waterfall::Grouping;
use ori::{Arg, File, InstData, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::{M, Op};
use std::ops::Range;

/// The offset fields of the copy.
const TO: Range<i64> = -(1 << 19)..1 << 19;
const FROM: Range<i64> = -(1 << 11)..1 << 11;
/// The scoreboard that counts the groups of copies.
pub const GROUPS: M = M::SB0;
/// The highest count that can be waited for.
const MOST_GROUPS: u64 = 63;

impl<'a> Lower<'_, 'a> {
    pub(crate) fn async_copy(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "cp.async" => self.copy_to_shared(ins),
            "cp.async.commit_group" => {
                self.effect(Op::LDGDEPBAR, &[], &[], &[]);
                Some(())
            }
            "cp.async.wait_group" => self.wait_groups(constant(ins.get(0)?, Type::U32)?),
            "cp.async.wait_all" => {
                self.effect(Op::LDGDEPBAR, &[], &[], &[]);
                self.wait_groups(0)
            }
            "cp.async.mbarrier.arrive" => self.arrive_after_copies(ins),
            _ => None,
        }
    }

    /// Waits until at most so many groups are pending. Fewer is fine, too.
    pub(crate) fn wait_groups(&mut self, count: u64) -> Option<()> {
        let count = Arg::Imm(count.min(MOST_GROUPS) as i64);
        self.effect(Op::DEPBAR, &[M::LE], &[], &[Arg::Name(GROUPS), count]);
        Some(())
    }

    fn copy_to_shared(&mut self, ins: &Ins<'a>) -> Option<()> {
        let bypass: &[M] = if ins.one_of(&["ca", "cg"])? == "cg" { &[M::BYPASS] } else { &[] };
        let (Space::Shared, Space::Global) = (self.space(ins)?, self.space(ins)?) else { return None };
        let fetch: &[M] = match ins.one_of(&["L2::64B", "L2::128B", "L2::256B"]) {
            None => &[],
            Some("L2::64B") => &[M::LTC64B],
            Some("L2::128B") => &[M::LTC128B],
            Some(_) => &[M::LTC256B],
        };
        let hinted = ins.flag("L2::cache_hint");
        let policy = if hinted { Some(self.policy(ins.get(ins.len() - 1)?)?) } else { None };
        let has_fourth = ins.len() - usize::from(hinted) > 3;
        let to = self.address(ins.get(0)?, Space::Shared, 0)?;
        let to = self.within(to, Space::Shared, TO);
        let mut from = self.address(ins.get(1)?, Space::Global, 0)?;
        let bytes = constant(ins.get(2)?, Type::U32)? as i64;
        let (mut condition, mut fill): (Arg, &[M]) = (PT, &[]);
        if has_fourth {
            match ins.get(3)? {
                operand if self.is_predicate(operand) => condition = self.predicate(operand)?.negated(),
                operand => {
                    let there = self.word(operand, Type::U32)?;
                    let there = self.in_register(there);
                    condition = self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &[PT, there, RZ, PT]).into();
                    if !self.all_or_nothing(there, bytes) {
                        from = self.partial_source(there, from, bytes)?;
                        fill = &[M::ZFILL];
                    }
                }
            }
        }
        let from = self.within(from, Space::Global, FROM);
        let size = size_word(bytes as u32 * 8, false)?;
        let mut args = to.args().to_vec();
        args.extend(self.described(from, policy));
        args.push(condition);
        self.effect(Op::LDGSTS, &[&[M::E], bypass, fetch, size, fill].concat(), &[], &args);
        Some(())
    }

    fn is_predicate(&self, operand: &Operand) -> bool {
        match operand {
            Operand::Reg(reg) | Operand::Not(reg) => self.shape(*reg).0 == File::P,
            _ => false,
        }
    }

    /// Is a size known to be that of the copy, or zero? Triton's are: `selp` of the two, by the mask of a load.
    fn all_or_nothing(&self, size: Arg, bytes: i64) -> bool {
        match size {
            Arg::Zero(_) => true,
            Arg::Imm(size) => size == 0 || size == bytes,
            Arg::Use(u) if u.is_plain() => match self.definition_here(u.value) {
                Some(data) if data.guard.is_none() => match data.op {
                    ori::Op::Machine(Op::SEL) => {
                        data.args[..2].iter().all(|a| self.all_or_nothing(*a, bytes))
                    }
                    ori::Op::Machine(Op::MOV) => self.all_or_nothing(data.args[0], bytes),
                    _ => false,
                },
                _ => false,
            },
            _ => false,
        }
    }

    /// The instruction of the current block that defines a value.
    fn definition_here(&self, value: Value) -> Option<&InstData> {
        let code = &self.kernel.code;
        let mut insts = code.blocks[self.block].insts.iter().rev().map(|i| &code.insts[*i]);
        insts.find(|data| data.results.contains(&value))
    }

    /// A partial source: the rest is zero-filled. The low bits of the address are the number of missing bytes; a
    /// predicate says that all are missing.
    fn partial_source(&mut self, there: Arg, from: Address, bytes: i64) -> Option<Address> {
        let missing = self.emit(Op::IADD3, &[], 1, &[there.negated(), Arg::Imm(bytes), RZ]);
        let missing = self.masked(missing.into(), bytes - 1);
        let Arg::Use(base) = from.base else { return None };
        let base = self.add64([Arg::word(base.value, 0), Arg::word(base.value, 1)], [missing.into(), RZ]);
        Some(Address { base: base.into(), ..from })
    }

    /// Arrives at a barrier when the thread's earlier copies are complete. Without `.noinc` the pending count is
    /// incremented first.
    fn arrive_after_copies(&mut self, ins: &Ins<'a>) -> Option<()> {
        let one_more = !ins.flag("noinc");
        ins.ty()?;
        let barrier = self.barrier_address(ins, 0)?;
        if one_more && !self.has(Op::SYNCS) {
            // The count of arrivals is in the upper word.
            let args = [RZ, barrier.base, Arg::Imm(barrier.offset + 4), Arg::Imm(-1)];
            self.effect(Op::ATOMS, &[M::ADD, M::S32], &[], &args);
        }
        let transactions = one_more && self.has(Op::SYNCS);
        let kind: &[M] = match (self.has(Op::SYNCS), one_more) {
            (false, _) => &[],
            (true, false) => &[M::ARVCNT],
            (true, true) => &[M::TRANSCNT],
        };
        self.in_waterfall(Grouping::SameOperands, &[barrier.base], |l, uniform| {
            let at = [RZ, uniform[0], Arg::Imm(barrier.offset)];
            if transactions {
                let words = [M::ARRIVE, M::TRANS64, M::RED, M::A0T1];
                l.effect(Op::SYNCS, &words, &[], &[&[RZ], &at[..], &[RZ]].concat());
            }
            l.effect(Op::ARRIVES, &[&[M::LDGSTSBAR, M::_64], kind].concat(), &[], &at);
            Some(())
        })
    }
}
