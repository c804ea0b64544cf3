//! Loads, stores and addresses.

use super::Lower;
use super::instruction::Ins;
use ori::{Arg, File, Value};
use ptx::ast::Operand;
use ptx::words::Kind;
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(super) fn memory(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "ld" => self.load(ins),
            "st" => self.store(ins),
            // A global address is the generic one.
            "cvta.to" => {
                let ty = ins.ty().filter(|t| t.bits() == 64 && ins.flag("global"))?;
                let value = self.wide(ins.get(1)?, ty)?;
                self.set(ins.get(0)?, value)
            }
            _ => None,
        }
    }

    fn load(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty().filter(|t| matches!(t.bits(), 32 | 64))?;
        let words = ty.bits().div_ceil(32) as u8;
        let size: &[M] = if words == 2 { &[M::_64] } else { &[] };
        let result = self.kernel.code.value(File::R, words);
        match ins.word(Kind::Space)? {
            "param" => {
                let offset = self.parameter(ins.get(1)?)?;
                self.effect(
                    Op::LDC,
                    size,
                    &[result],
                    &[Arg::Bank { bank: 0, index: None, offset: offset as i32 }],
                );
            }
            "global" => {
                let (base, offset) = self.address(ins.get(1)?, 2)?;
                let descriptor = self.descriptor()?;
                let modifiers = [&[M::E], size].concat();
                self.effect(Op::LDG, &modifiers, &[result], &[descriptor.into(), base, offset]);
            }
            "shared" => {
                let (base, offset) = self.address(ins.get(1)?, 1)?;
                self.effect(Op::LDS, size, &[result], &[base, offset]);
            }
            _ => return None,
        }
        self.set(ins.get(0)?, result)
    }

    fn store(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty().filter(|t| t.bits() == 32)?;
        let data = self.word(ins.get(1)?, ty)?;
        let data = self.in_register(data);
        match ins.word(Kind::Space)? {
            "global" => {
                let (base, offset) = self.address(ins.get(0)?, 2)?;
                let descriptor = self.descriptor()?;
                self.effect(Op::STG, &[M::E], &[], &[descriptor.into(), base, offset, data]);
            }
            "shared" => {
                let (base, offset) = self.address(ins.get(0)?, 1)?;
                self.effect(Op::STS, &[], &[], &[base, offset, data]);
            }
            _ => return None,
        }
        Some(())
    }

    /// The descriptor of global memory.
    pub(super) fn descriptor(&mut self) -> Option<Value> {
        if self.descriptor.is_none() {
            let offset = self.machine.descriptor?;
            let value = self.kernel.code.value(File::UR, 2);
            let (op, from) = match self.has(Op::ULDC) {
                true => (Op::ULDC, Arg::Const { bank: 0, offset }),
                false => (Op::LDCU, Arg::Const { bank: 0, offset }),
            };
            let data = self.data(ori::Op::Machine(op), &[M::_64], &[value], &[from]);
            self.kernel.code.append(ori::Function::ENTRY, data);
            self.descriptor = Some(value);
        }
        self.descriptor
    }

    /// Where a parameter lies in constant bank 0.
    fn parameter(&self, operand: &Operand) -> Option<u32> {
        let Operand::Address(range) = operand else { return None };
        let (symbol, offset) = match self.body.list(*range) {
            [Operand::Symbol(s)] => (s, 0),
            [Operand::Symbol(s), Operand::Offset(n)] => (s, u32::try_from(*n).ok()?),
            _ => return None,
        };
        let param = self.kernel.params.iter().find(|p| p.symbol == *symbol)?;
        Some(self.machine.params + param.offset + offset)
    }

    /// `[base + offset]` with a base of this many words: a register, or a shared variable.
    fn address(&mut self, operand: &Operand, words: u8) -> Option<(Arg, Arg)> {
        let Operand::Address(range) = operand else { return None };
        let (base, offset) = match self.body.list(*range) {
            [base] => (base, 0),
            [base, Operand::Offset(n)] => (base, *n),
            _ => return None,
        };
        let base = match base {
            Operand::Reg(reg) => self.read(*reg),
            Operand::Symbol(symbol) => self.shared_address(*symbol)?,
            _ => return None,
        };
        // The offset field has 24 bits, signed.
        let fits = (-(1 << 23)..1 << 23).contains(&offset);
        (fits && self.kernel.code.values[base].words == words).then_some((base.into(), Arg::Imm(offset)))
    }
}
