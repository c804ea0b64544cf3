//! Lowers cache control: prefetches, eviction priorities, and L2 cache policies.

use crate::lower::Lower;
use crate::lower::build::{RZ, constant};
use crate::lower::instruction::Ins;
use crate::lower::memory::address::Space;
use ori::{Arg, File, Pseudo, Value};
use ptx::Type;
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};

/// The bits of a policy's upper word for the primary and the secondary priority, which applies to the other accesses.
const FIRST: &[(&str, i64)] = &[
    ("L2::evict_unchanged", 0x0000_0000),
    ("L2::evict_first", 0x0200_0000),
    ("L2::evict_last", 0x0400_0000),
    ("L2::evict_normal", 0x0600_0000),
];
const OTHER: &[(&str, i64)] = &[("L2::evict_unchanged", 0), ("L2::evict_first", 0x0100_0000)];
/// Kinds of policies.
const FRACTION: i64 = 0x1000_0000;
const RANGE: i64 = 0x1800_0000;
/// The fraction has four bits; 15 is all accesses.
const FRACTION_SCALE: f32 = 15.99;
const FRACTION_SHIFT: i64 = 20;

impl<'a> Lower<'_, 'a> {
    pub(crate) fn cache_control(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "prefetch" | "prefetchu" => self.prefetch(ins),
            "applypriority" => {
                let _normal = ins.word(Kind::Eviction)?;
                self.whole_line(ins, M::DML2)
            }
            "discard" => {
                let _level = ins.one_of(&["L2"])?;
                self.whole_line(ins, M::RML2)
            }
            "createpolicy.fractional" => self.fractional_policy(ins),
            "createpolicy.range" => self.range_policy(ins),
            "createpolicy.cvt" => {
                // `.L2` names the only cache that has policies.
                let _level = ins.one_of(&["L2"]);
                let ty = ins.ty()?;
                // An access property has the bits of a policy.
                let value = self.wide(ins.get(1)?, ty)?;
                self.set(ins.get(0)?, value)
            }
            _ => None,
        }
    }

    fn prefetch(&mut self, ins: &Ins<'a>) -> Option<()> {
        if ins.flag("tensormap") {
            return self.prefetch_tensormap(ins);
        }
        let what = match (ins.one_of(&["L1", "L2"]), ins.word(Kind::Eviction)) {
            (Some("L1"), None) => M::PF1,
            (Some("L2"), None) | (None, Some("L2::evict_normal")) => M::PF2,
            (None, Some("L2::evict_last")) => M::PML2,
            _ => return None,
        };
        let space = self.space(ins)?;
        let address = self.address(ins.get(0)?, space, 0)?;
        match space {
            Space::Global | Space::Generic => self.effect(Op::CCTL, &[M::E, what], &[], &address.args()),
            Space::Local => self.effect(Op::CCTLL, &[what], &[], &address.args()),
            _ => return None,
        }
        Some(())
    }

    /// An operation on a cache line of 128 bytes.
    fn whole_line(&mut self, ins: &Ins<'a>, what: M) -> Option<()> {
        let space = self.space(ins)?;
        let address = self.address(ins.get(0)?, space, 0)?;
        let Operand::Int { value: 128, .. } = ins.get(1)? else { return None };
        self.effect(Op::CCTL, &[M::E, what], &[], &address.args());
        Some(())
    }

    /// The descriptor of an access with a policy; `Some(None)` without a policy.
    pub(crate) fn cache_hint(&mut self, ins: &Ins<'a>, operand: usize) -> Option<Option<Value>> {
        if !ins.flag("L2::cache_hint") {
            return Some(None);
        }
        Some(Some(self.policy(ins.get(operand)?)?))
    }

    /// The descriptor of a policy.
    pub(crate) fn policy(&mut self, operand: &Operand) -> Option<Value> {
        let policy = self.words(operand, Type::U64)?;
        // The policy may diverge; that of any lane will do, for it affects speed only.
        let halves = policy.map(|word| {
            let word = self.in_register(word);
            let half = self.kernel.code.value(File::UR, 1);
            self.effect(Op::R2UR, &[], &[half], &[word]);
            Arg::from(half)
        });
        Some(self.pack_uniform(&halves))
    }

    /// Packs uniform words.
    pub(crate) fn pack_uniform(&mut self, words: &[Arg]) -> Value {
        let result = self.kernel.code.value(File::UR, words.len() as u8);
        let data = self.data(ori::Op::Pseudo(Pseudo::Pack), &[], &[result], words);
        self.kernel.code.append(self.block, data);
        result
    }

    /// The bits of the priorities that an instruction names.
    fn priorities(ins: &Ins) -> Option<i64> {
        let find =
            |table: &[(&str, i64)], word| table.iter().find(|(name, _)| *name == word).map(|(_, b)| *b);
        let first = find(FIRST, ins.word(Kind::Eviction)?)?;
        let other = ins.word(Kind::Eviction).map_or(Some(0), |word| find(OTHER, word))?;
        Some(first | other)
    }

    /// A part of all accesses, chosen by their addresses.
    fn fractional_policy(&mut self, ins: &Ins<'a>) -> Option<()> {
        let bits = FRACTION | Self::priorities(ins)?;
        let _b64 = ins.ty()?;
        let high = match ins.get(1) {
            None => Arg::Imm(bits | 0xf << FRACTION_SHIFT),
            Some(operand) => match constant(operand, Type::F32) {
                Some(fraction) => {
                    let steps = (f32::from_bits(fraction as u32) * FRACTION_SCALE) as u32 & 0xf;
                    Arg::Imm(bits | i64::from(steps) << FRACTION_SHIFT)
                }
                None => {
                    let fraction = self.word(operand, Type::F32)?;
                    let scale = Arg::Imm(i64::from(FRACTION_SCALE.to_bits() as i32));
                    let scaled = self.emit(Op::FMUL, &[], 1, &[fraction, scale]);
                    let steps = self.emit(Op::F2I, &[M::U32, M::TRUNC, M::NTZ], 1, &[scaled.into()]);
                    let steps = self.lop3(steps.into(), Arg::Imm(0xf), RZ, 0xc0);
                    let shifted =
                        self.emit(Op::SHF, &[M::L, M::U32], 1, &[steps.into(), Arg::Imm(FRACTION_SHIFT), RZ]);
                    self.lop3(shifted.into(), Arg::Imm(bits), RZ, 0xfc).into()
                }
            },
        };
        let value = self.pack(&[RZ, high]);
        self.set(ins.get(0)?, value)
    }

    /// A range of addresses.
    fn range_policy(&mut self, ins: &Ins<'a>) -> Option<()> {
        let bits = RANGE | Self::priorities(ins)?;
        let _b64 = ins.ty()?;
        let space = self.space(ins).filter(|s| matches!(s, Space::Global | Space::Generic))?;
        let address = self.address(ins.get(1)?, space, 0)?;
        let start = self.flat(address);
        let start = self.pack(&start);
        let primary = self.word(ins.get(2)?, Type::U32)?;
        let total = self.word(ins.get(3)?, Type::U32)?;
        let high = self.routine("range_policy", &[start.into(), primary, total, Arg::Imm(bits)])?;
        let value = self.pack(&[RZ, (*high.first()?).into()]);
        self.set(ins.get(0)?, value)
    }
}
