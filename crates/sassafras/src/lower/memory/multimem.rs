//! Lowers `multimem`: memory of several GPUs at one address. A load reduces over all copies, stores and reductions go
//! to all.

use crate::lower::Lower;
use crate::lower::instruction::Ins;
use crate::lower::memory::address::Space;
use crate::lower::memory::load_store::{Data, Scope};
use ori::{Arg, File};
use ptx::words::Kind;
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(crate) fn multimem(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "multimem.ld_reduce" => self.load_reduced(ins),
            "multimem.red" => self.atomic(ins),
            "multimem.st" => self.store(ins),
            _ => None,
        }
    }

    fn load_reduced(&mut self, ins: &Ins<'a>) -> Option<()> {
        let op = match ins.word(Kind::Op)? {
            "add" if ins.flag("acc::f32") || ins.flag("acc::f16") => self.wide_sum(),
            "add" => M::ADD,
            "min" => M::MIN,
            "max" => M::MAX,
            "and" => M::AND,
            "or" => M::OR,
            "xor" => M::XOR,
            _ => return None,
        };
        let order = ins.one_of(&["weak", "relaxed", "acquire"]);
        let scope = Scope::read(ins);
        // The switch between the GPUs does the reduction: the scope is always the system.
        let space = self.space(ins).filter(|s| matches!(s, Space::Global | Space::Generic))?;
        let data = Data::read(ins)?;
        let ty = Self::reduced_type(data)?;
        let address = self.address(ins.get(1)?, space, 0)?;
        let result = self.kernel.code.value(File::R, data.words());
        let args = [address.base, Arg::Zero(File::UR), Arg::Imm(address.offset)];
        self.effect(Op::LDGMC, &[M::E, op, ty, M::STRONG_SYS], &[result], &args);
        self.unpack(ins.get(0)?, result, data)?;
        if let (Some("acquire"), Some(scope)) = (order, scope) {
            self.after_acquire(scope);
        }
        Some(())
    }

    /// Reduction of halves in 32 bits: sm_90 and later machines have different modifiers.
    fn wide_sum(&self) -> M {
        use sass::operands::{imm, r, urz};
        let modifiers = [M::E, M::F32ADD, M::F16x2_RN, M::STRONG_SYS];
        match self.offers(Op::LDGMC, &modifiers, &[r(2), r(4), urz(), imm(0)]) {
            true => M::F32ADD,
            false => M::HPADD,
        }
    }

    /// The modifier of the type. Unlike a reduction in memory, this one preserves subnormals.
    fn reduced_type(data: Data) -> Option<M> {
        Some(match (data.ty.name(), data.bits()) {
            ("u32" | "b32", 32) => M::_32,
            ("s32", 32) => M::S32,
            ("u64" | "b64", 64) => M::_64,
            ("s64", 64) => M::S64,
            ("f32", 32) => M::F32_RN,
            ("f32", 64) => M::F32x2_RN,
            ("f32", 128) => M::F32x4_RN,
            ("f64", 64) => M::F64_RN,
            ("f16" | "f16x2", 32) => M::F16x2_RN,
            ("f16" | "f16x2", 64) => M::F16x4_RN,
            ("f16" | "f16x2", 128) => M::F16x8_RN,
            ("bf16" | "bf16x2", 32) => M::BF16x2_RN,
            ("bf16" | "bf16x2", 64) => M::BF16x4_RN,
            ("bf16" | "bf16x2", 128) => M::BF16x8_RN,
            ("e4m3" | "e4m3x4", 32) => M::E4M3x4_RN,
            ("e4m3" | "e4m3x4", 64) => M::E4M3x8_RN,
            ("e4m3" | "e4m3x4", 128) => M::E4M3x16_RN,
            ("e5m2" | "e5m2x4", 32) => M::E5M2x4_RN,
            ("e5m2" | "e5m2x4", 64) => M::E5M2x8_RN,
            ("e5m2" | "e5m2x4", 128) => M::E5M2x16_RN,
            _ => return None,
        })
    }
}
