//! Barriers in shared memory (SYNCS) and copies of the warp that tell them (UBLKCP).

use super::Decoder;
use super::memory::OPERATIONS;
use crate::ptx::decode::memory::atomic_function;
use crate::ptx::memory::Space;
use crate::ptx::program::AtomicFunction;
use crate::sass::program::*;
use sass::{Kind, M, Op, Operand, Role};

impl Decoder<'_> {
    pub(super) fn sync_unit(&self) -> Option<Action> {
        let inst = self.inst;
        if inst.has(M::CCTL) {
            return Some(Action::Nothing);
        }
        let place = self.address(0, Space::Shared)?;
        if inst.has(M::EXCH) {
            let data = self.outside(&[Kind::U])?;
            return Some(Action::ExchangeBarrier { place, data, dest: self.dest() });
        }
        if inst.has(M::PHASECHK) {
            let phase = self.outside(&[Kind::R])?;
            return Some(Action::CheckPhase { place, phase, truth: self.truth(0) });
        }
        if !inst.has(M::ARRIVE) || inst.has(M::TMASK) {
            return None;
        }
        let operand = self.outside(&[Kind::R])?;
        let none = Source::Immediate(0);
        let one = Source::Immediate(1);
        // How many arrive, and how the count of transactions changes.
        let ways = [
            (M::A1T0, (one, none, false)),
            (M::A0T1, (none, one, false)),
            (M::A0TR, (none, operand, false)),
            (M::A0TX, (none, operand, true)),
            (M::ART0, (operand, none, false)),
        ];
        let way = ways.into_iter().find(|(name, _)| inst.has(*name)).map(|(_, way)| way);
        let (arrivals, transactions, completes) = way.unwrap_or((one, operand, false));
        let drops = inst.has(M::OPTOUT);
        let arrive = Arrive { place, arrivals, transactions, completes, drops, dest: self.dest() };
        Some(Action::Arrive(Box::new(arrive)))
    }

    /// ARRIVES: when the thread's copies are done, which is now.
    pub(super) fn arrive_after_copies(&self) -> Option<Action> {
        let (none, one) = (Source::Immediate(0), Source::Immediate(1));
        let (arrivals, transactions) = match () {
            () if self.inst.has(M::ARVCNT) => (one, none),
            () if self.inst.has(M::TRANSCNT) => (none, one),
            () => return None,
        };
        let place = self.address(0, Space::Shared)?;
        let arrive =
            Arrive { place, arrivals, transactions, completes: true, drops: false, dest: Dest::None };
        Some(Action::Arrive(Box::new(arrive)))
    }

    /// `UBLKCP.S.G [to, barrier], [from], size` and `UBLKCP.G.S [to], [from], size`; UBLKRED like the latter.
    pub(super) fn bulk_copy(&self) -> Option<Action> {
        let inst = self.inst;
        let modifiers: Vec<M> = inst.modifiers().collect();
        let to_shared = match modifiers.get(..2)? {
            [M::S, M::G] if inst.op() == Op::UBLKCP => true,
            [M::G, M::S] => false,
            _ => return None,
        };
        if inst.has(M::MULTICAST) {
            return None;
        }
        let uniform = inst.operands().filter(|(_, operand)| operand.kind == Kind::U);
        let registers: Vec<u8> = uniform.map(|(_, operand)| operand.value as u8).collect();
        let [to, from, size, ..] = registers[..] else { return None };
        let reduction = match inst.op() {
            Op::UBLKRED => Some(self.bulk_reduction()?),
            _ => None,
        };
        Some(Action::BulkCopy(Box::new(BulkCopy { to_shared, to, from, size, reduction })))
    }

    fn bulk_reduction(&self) -> Option<(u8, AtomicFunction)> {
        const TYPES: [(M, &str); 9] = [
            (M::S32, "s32"),
            (M::U64, "u64"),
            (M::S64, "s64"),
            (M::F16_RN, "f16"),
            (M::F32_RN, "f32"),
            (M::F32_FTZ_RN, "f32"),
            (M::F64_RN, "f64"),
            (M::BF16_RN, "bf16"),
            (M::Empty, "u32"),
        ];
        let has = |name: M| name == M::Empty || self.inst.has(name);
        let ty =
            TYPES.into_iter().find(|(name, _)| has(*name)).and_then(|(_, name)| ptx::Type::find(name))?;
        let (_, operation) = OPERATIONS.into_iter().find(|(name, _)| self.inst.has(*name))?;
        Some((ty.bytes() as u8, atomic_function(operation, ty)?))
    }

    /// The first source of a kind that is not in brackets.
    fn outside(&self, kinds: &[Kind]) -> Option<Source> {
        let wanted = |(_, (slot, operand)): &(usize, (&sass::Slot, &Operand))| {
            slot.frame.is_empty() && slot.role == Role::Use && kinds.contains(&operand.kind)
        };
        let (index, (_, operand)) = self.inst.operands().enumerate().find(wanted)?;
        self.source(index, operand)
    }

    /// LDSM, STSM and MOVM: matrices of 8 by 8 halves, a row of a matrix in four lanes.
    pub(super) fn matrices(&self) -> Option<Action> {
        let inst = self.inst;
        let transposed = inst.has(M::MT88);
        (inst.has(M::_16) && (transposed || inst.has(M::M88))).then_some(())?;
        let count =
            [(M::_2, 2), (M::_4, 4)].into_iter().find(|(name, _)| inst.has(*name)).map_or(1, |(_, n)| n);
        Some(match inst.op() {
            Op::LDSM => {
                let address = self.address(0, Space::Shared)?;
                Action::LoadMatrices { address, count, transposed, dest: self.dest() }
            }
            Op::STSM => {
                let address = self.address(0, Space::Shared)?;
                let Source::General { first, .. } = self.outside(&[Kind::R])? else { return None };
                Action::StoreMatrices { address, count, transposed, data: first }
            }
            _ => Action::Transpose { source: self.outside(&[Kind::R])?, dest: self.dest() },
        })
    }
}
