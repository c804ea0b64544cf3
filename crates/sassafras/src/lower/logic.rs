//! Logic, shifts, funnel shifts and byte permutation.

use super::Lower;
use super::build::{NOT_PT, RZ};
use super::instruction::Ins;
use ori::{Arg, Value};
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(super) fn logic(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty().filter(|t| t.bits() == 32)?;
        let mut args = Vec::new();
        for i in 1..ins.len() {
            args.push(self.word(ins.get(i)?, ty)?);
        }
        let value = match (ins.mnemonic(), &args[..]) {
            ("shl", [a, b]) => self.emit(Op::SHF, &[M::L, M::U32], 1, &[*a, *b, RZ]),
            ("shr", [a, b]) => {
                let sign = if ty.is_signed() { M::S32 } else { M::U32 };
                self.emit(Op::SHF, &[M::R, sign, M::HI], 1, &[RZ, *b, *a])
            }
            ("and", [a, b]) => self.lop3(*a, *b, RZ, 0xc0),
            ("or", [a, b]) => self.lop3(*a, *b, RZ, 0xfc),
            ("xor", [a, b]) => self.lop3(*a, *b, RZ, 0x3c),
            _ => return None,
        };
        self.set(ins.get(0)?, value)
    }

    /// The bits of `table` that the bits of a, b and c choose.
    pub(super) fn lop3(&mut self, a: Arg, b: Arg, c: Arg, table: i64) -> Value {
        self.emit(Op::LOP3, &[M::LUT], 1, &[a, b, c, Arg::Imm(table), NOT_PT])
    }
}
