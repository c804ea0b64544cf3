//! The operand cache: what `.reuse` keeps, and which instruction finds it.
//!
//! The rule, as code that ptxas 13.0 emits shows it: 94,358 flags in 1.5 million instructions for seven targets (sm_75
//! to sm_120, -O3), of which none breaks it; of the operands that it allows to be kept ptxas keeps all but 44.
//!
//! * There is a slot for each lane of an instruction (its first, second, third source), each bank of registers (even
//!   and odd ones) and each group of units ([`Unit::collector`]). It keeps one operand: the last that was read there
//!   with the flag. An operand of two words is in both banks.
//! * The next instruction of the group that reads a register of that bank in that lane takes it from there if it is the
//!   same register, and empties the slot in any case. RZ, immediates, constants and uniform registers read nothing.
//!   So whatever is kept has exactly one reader, which may keep it again.
//! * What happens between doesn't matter: other units, memory, waits for scoreboards and barriers (30,395 flags have
//!   something between). But nothing is kept where a warp lets others go first (bit 109) or control goes elsewhere
//!   ([`empties`]), by the instruction itself or between; nor does ptxas keep anything across a label.
//! * The cache knows nothing of writes: neither the instruction itself nor one between may write the register.
//! * Guards don't matter, neither the first instruction's (829 are guarded where the reader isn't) nor the reader's
//!   (157 times the register is written and read again after a reader that may not have run).
//!
//! Factors of matrix products are kept like any other operand, in all shapes and on all targets from sm_80 on: in 1,200
//! HMMAs of CUTLASS's and of probes for sm_80 to sm_120 (every shape of f16, bf16, tf32, s8 and e4m3, three by three
//! products of shared factors) each factor that the next product shares is kept, and none else. An HMMA reads ten
//! registers, five of each bank: as many cycles as it takes.
//!
//! What it is good for, measured on an H200: each bank gives one register per cycle to a scheduler, whoever asks (FFMA,
//! FADD, IMAD, IADD3, LOP3, HFMA2 alike), and instructions that follow share the wait. With all of three sources in one
//! bank an instruction takes three cycles, with two in one bank two, FADD with one in each bank one. A register that
//! occurs twice in an instruction is read once, a kept one not at all: FFMA with three sources of one bank, the first of
//! them kept, takes two cycles.
//!
//! The same H200 reads the old value of a kept register that was written meanwhile, by the instruction itself or by
//! another, with memory accesses and waits between; a new one after a yield, after another register of the bank and
//! lane, and after a reader whose guard was false. It has one group of slots for single and half precision, where
//! ptxas takes there to be two: what ptxas keeps across the other kind is lost, and no more than that.

use super::Unit;
use crate::control::Control;
use crate::form::{Kind, M, Op};
use crate::inst::{Inst, PT, RZ};
use std::ops::Range;

/// Banks of general registers: even numbers, and odd ones.
const BANKS: usize = 2;
/// Operands of an instruction that may be kept.
const LANES: usize = 3;
/// Groups of units that read through slots of their own.
const COLLECTORS: usize = 11;

/// Slots for operands in the cache.
pub const SLOTS: usize = COLLECTORS * LANES * BANKS;

/// Registers that an instruction reads through one slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cached {
    /// Which source of the instruction: 0, 1 or 2.
    pub lane: u8,
    /// Below [`SLOTS`].
    pub slot: usize,
    /// All registers of the operand, those of the other bank included.
    first: u16,
    end: u16,
}

impl Cached {
    /// The operand's registers, in the numbering of [`super::Touch::registers`].
    pub fn registers(&self) -> Range<usize> {
        self.first.into()..self.end.into()
    }

    /// Does this read find in the slot what `cached` left there?
    pub fn finds(&self, cached: &Cached) -> bool {
        let bank = self.slot % BANKS;
        let mut of_bank = cached.registers().filter(|register| register % BANKS == bank);
        self.slot == cached.slot && of_bank.all(|register| self.registers().contains(&register))
    }
}

impl Unit {
    /// The group of units that it shares slots of the operand cache with, if it has any.
    fn collector(self) -> Option<usize> {
        use Unit::*;
        Some(match self {
            Alu | Select | Long | LongSet | Fma | Wide | MulHigh | ToUniform | Predicates => 0,
            Half => 1,
            HalfToSingle => 2,
            HalfTensor => 3,
            Double => 4,
            Fp64 => 5,
            // Groups that are too fine cost flags, never a stale operand: whatever else reads the slot takes the same
            // register or empties it.
            TensorWide => 6,
            TensorNarrow => 7,
            TensorEight => 8,
            TensorIntegerWide => 9,
            TensorIntegerNarrow => 10,
            _ => return None,
        })
    }
}

/// What an instruction reads through the operand cache, by slot.
pub(super) fn reads(inst: &Inst, unit: Unit) -> impl Iterator<Item = Cached> + '_ {
    let never = inst.guard.predicate == PT && inst.guard.not;
    let collector = unit.collector().filter(|_| !never);
    // ptxas keeps the first factor of a sparse product alone.
    let is_sparse = unit.is_matrix() && inst.has(M::SP);
    let operands = inst.operands().enumerate().filter_map(move |(index, (slot, operand))| {
        let (collector, lane) = (collector?, slot.lane.filter(|lane| *lane == 0 || !is_sparse)?);
        let is_register = operand.kind == Kind::R && operand.value != i64::from(RZ);
        let first = u16::try_from(operand.value).ok().filter(|_| is_register)?;
        Some((collector, lane, first, first + inst.words(index)))
    });
    operands.flat_map(|(collector, lane, first, end)| {
        let banks = (usize::from(first)..usize::from(end)).take(BANKS).map(|register| register % BANKS);
        banks.map(move |bank| {
            let slot = (collector * LANES + usize::from(lane)) * BANKS + bank;
            Cached { lane, slot, first, end }
        })
    })
}

/// Is the cache empty after an instruction, because other warps may go first or control goes elsewhere?
pub fn empties(op: Op, control: Control) -> bool {
    use Op::*;
    let goes_elsewhere = matches!(
        op,
        BRA | BRX | BRXU | JMP | JMX | JMXU | CALL | RET | EXIT | BSYNC | BREAK | BPT | ENDCOLLECTIVE
    );
    control.yields || goes_elsewhere
}
