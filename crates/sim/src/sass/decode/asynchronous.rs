//! Barriers in shared memory (SYNCS) and copies of the warp that tell them (UBLKCP).

use super::Decoder;
use super::memory::OPERATIONS;
use crate::memory::Space;
use crate::ptx::decode::memory::atomic_function;
use crate::sass::flight::{Closing, Combine};
use crate::sass::program::*;
use sass::{Kind, M, Op, Operand, Role};
use std::sync::Arc;

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
        if !inst.has(M::ARRIVE) {
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
        let arrive = Arrive {
            place,
            arrivals,
            transactions,
            completes,
            drops: inst.has(M::OPTOUT),
            together: inst.has(M::TMASK),
            after_copies: false,
            dest: self.dest(),
        };
        Some(Action::Arrive(Box::new(arrive)))
    }

    /// LDGDEPBAR and UTMACMDFLUSH: a group that counts on the instruction's scoreboard.
    pub(super) fn close_group(&self, closing: Closing) -> Action {
        match self.inst.control.write.or(self.inst.control.read) {
            Some(scoreboard) => Action::CloseGroup { closing, scoreboard },
            // Nobody can wait for it.
            None => Action::Nothing,
        }
    }

    /// `DEPBAR.LE SB0, 0x1` and `DEPBAR {5,4}`
    pub(super) fn wait_for_groups(&self) -> Option<Action> {
        let mut numbers = self.inst.operands().map(|(_, operand)| operand.value);
        if !self.inst.has(M::LE) {
            return Some(Action::WaitScoreboards { mask: numbers.next()? as u8 });
        }
        let (scoreboard, left) = (numbers.next()? as u8, u8::try_from(numbers.next()?).ok()?);
        numbers.next().is_none_or(|set| set == 0).then_some(Action::WaitGroups { scoreboard, left })
    }

    /// STAS and REDAS
    pub(super) fn store_remote(&self) -> Option<Action> {
        let general: Vec<(usize, &Operand)> = self
            .inst
            .operands()
            .enumerate()
            .filter(|(_, (_, operand))| operand.kind == Kind::R)
            .map(|(index, (_, operand))| (index, operand))
            .collect();
        let [(_, address), (_, data)] = general[..] else { return None };
        let plain = self.inst.operands().all(|(_, operand)| match operand.kind {
            Kind::R => true,
            Kind::U => operand.value == i64::from(sass::RZ),
            _ => operand.value == 0,
        });
        let (bytes, _) = super::memory::size(self.inst);
        let combine = if self.inst.op() == Op::REDAS { Some(Arc::new(self.bulk_reduction()?)) } else { None };
        plain.then_some(Action::StoreRemote(Box::new(StoreRemote {
            address: address.value as u8,
            data: data.value as u8,
            bytes: combine.as_ref().map_or(bytes, |combine| combine.0),
            combine,
        })))
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
        let arrive = Arrive {
            place,
            arrivals,
            transactions,
            completes: true,
            drops: false,
            together: false,
            after_copies: true,
            dest: Dest::None,
        };
        Some(Action::Arrive(Box::new(arrive)))
    }

    /// `UBLKCP.S.G [to, barrier], [from], size` and `UBLKCP.G.S [to], [from], size`; UBLKRED like the latter.
    pub(super) fn bulk_copy(&self) -> Option<Action> {
        let inst = self.inst;
        let modifiers: Vec<M> = inst.modifiers().collect();
        let (to_shared, from_shared) = match modifiers.get(..2)? {
            [M::S, M::G] if inst.op() == Op::UBLKCP => (true, false),
            [M::S, M::S] => (true, true),
            [M::G, M::S] => (false, true),
            _ => return None,
        };
        let multicast = inst.has(M::MULTICAST);
        let uniform = inst.operands().filter(|(_, operand)| operand.kind == Kind::U);
        let registers: Vec<u8> = uniform.map(|(_, operand)| operand.value as u8).collect();
        let [to, from, size, ..] = registers[..] else { return None };
        let combine = match inst.op() {
            Op::UBLKRED => Some(Arc::new(self.bulk_reduction()?)),
            _ => None,
        };
        let copy = BulkCopy { to_shared, from_shared, multicast, to, from, size, combine };
        Some(Action::BulkCopy(Box::new(copy)))
    }

    /// `UTMALDG.2D [place], [map]`, UTMASTG and UTMAREDG.
    pub(super) fn tensor_copy(&self) -> Option<Action> {
        const AXES: [(M, u8); 5] = [(M::_1D, 1), (M::_2D, 2), (M::_3D, 3), (M::_4D, 4), (M::_5D, 5)];
        let inst = self.inst;
        let (_, axes) = AXES.into_iter().find(|(name, _)| inst.has(*name))?;
        let way = match inst.op() {
            Op::UTMALDG => TensorWay::Load,
            Op::UTMASTG => TensorWay::Store,
            _ => TensorWay::Combine(OPERATIONS.into_iter().find(|(name, _)| inst.has(*name))?.1),
        };
        let uniform = inst.operands().filter(|(slot, o)| o.kind == Kind::U && !slot.frame.contains("desc["));
        let registers: Vec<u8> = uniform.map(|(_, operand)| operand.value as u8).collect();
        let (place, map) = (*registers.first()?, *registers.get(1)?);
        let last = |wanted: bool| if wanted { registers.get(2).copied().map(Some) } else { Some(None) };
        let offsets = last(inst.has(M::IM2COL) && way == TensorWay::Load)?;
        let multicast = last(inst.has(M::MULTICAST))?;
        Some(Action::TensorCopy(Box::new(TensorCopy { way, axes, place, map, offsets, multicast })))
    }

    fn bulk_reduction(&self) -> Option<Combine> {
        const TYPES: [(M, &str); 10] = [
            (M::S32, "s32"),
            (M::U64, "u64"),
            (M::_64, "u64"),
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
