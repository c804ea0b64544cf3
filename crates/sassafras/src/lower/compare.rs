//! `setp`, `set`, `selp`, `slct`, `testp`.

use super::Lower;
use super::build::PT;
use super::instruction::Ins;
use ptx::Type;
use ptx::words::Kind;
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(super) fn compare(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "setp" => self.setp(ins),
            "selp" => self.selp(ins),
            _ => None,
        }
    }

    fn selp(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty().filter(|t| t.bits() == 32)?;
        let (a, b) = (self.word(ins.get(1)?, ty)?, self.word(ins.get(2)?, ty)?);
        let p = self.predicate(ins.get(3)?)?;
        let a = self.in_register(a);
        let value = self.emit(Op::SEL, &[], 1, &[a, b, p]);
        self.set(ins.get(0)?, value)
    }

    fn setp(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty().filter(|t| t.bits() == 32)?;
        let relation = match ins.word(Kind::Compare)? {
            "eq" => M::EQ,
            "ne" => M::NE,
            "lt" => M::LT,
            "le" => M::LE,
            "gt" => M::GT,
            "ge" => M::GE,
            _ => return None,
        };
        let (op, modifiers) = match ty {
            Type::F32 => (Op::FSETP, vec![relation, M::AND]),
            _ if ty.is_signed() => (Op::ISETP, vec![relation, M::AND]),
            _ => (Op::ISETP, vec![relation, M::U32, M::AND]),
        };
        let (a, b) = (self.word(ins.get(1)?, ty)?, self.word(ins.get(2)?, ty)?);
        let a = self.in_register(a);
        let value = self.emit_p(op, &modifiers, &[PT, a, b, PT]);
        self.set(ins.get(0)?, value)
    }
}
