//! Integer arithmetic.

use super::Lower;
use super::build::{NOT_PT, RZ};
use super::instruction::Ins;
use ori::{Arg, File, Value};
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(super) fn integer(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        if (ins.mnemonic(), ty.bits()) == ("add", 64) {
            let (a, b) = (self.words(ins.get(1)?, ty)?, self.words(ins.get(2)?, ty)?);
            let value = self.add64(a, b);
            return self.set(ins.get(0)?, value);
        }
        if ty.bits() != 32 {
            return None;
        }
        let mut args = Vec::new();
        for i in 1..ins.len() {
            args.push(self.word(ins.get(i)?, ty)?);
        }
        let signed: &[M] = if ty.is_signed() { &[] } else { &[M::U32] };
        let value = match (ins.mnemonic(), &args[..]) {
            ("add", [a, b]) => self.emit(Op::IADD3, &[], 1, &[*a, *b, RZ]),
            ("sub", [a, b]) => self.emit(Op::IADD3, &[], 1, &[*a, b.negated(), RZ]),
            ("mul.lo", [a, b]) => self.emit(Op::IMAD, &[], 1, &[*a, *b, RZ]),
            ("mad.lo", [a, b, c]) => self.emit(Op::IMAD, &[], 1, &[*a, *b, *c]),
            ("mul.wide", [a, b]) => self.emit(Op::IMAD, &[&[M::WIDE], signed].concat(), 2, &[*a, *b, RZ]),
            _ => return None,
        };
        self.set(ins.get(0)?, value)
    }

    pub(super) fn add64(&mut self, a: [Arg; 2], b: [Arg; 2]) -> Value {
        let low = self.kernel.code.value(File::R, 1);
        let carry = self.kernel.code.value(File::P, 1);
        self.emit_to(Op::IADD3, &[], &[low, carry], &[a[0], b[0], RZ]);
        let high = self.emit(Op::IADD3, &[M::X], 1, &[a[1], b[1], RZ, carry.into(), NOT_PT]);
        self.pack(&[low.into(), high.into()])
    }
}
