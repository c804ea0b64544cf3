//! Logic, shifts, funnel shifts and byte permutation.

use crate::lower::Lower;
use crate::lower::arith::words::Words;
use crate::lower::build::{NOT_PT, PT, RZ, constant};
use crate::lower::instruction::Ins;
use ori::{Arg, File, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::{M, Op};

/// LUTs: bit 4a + 2b + c.
const AND: u8 = 0xc0;
const OR: u8 = 0xfc;
const XOR: u8 = 0x3c;
/// Of the second operand.
const NOT: u8 = 0x33;

impl<'a> Lower<'_, 'a> {
    pub(crate) fn logic(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "and" => self.both(ins, AND),
            "or" => self.both(ins, OR),
            "xor" => self.both(ins, XOR),
            "not" => self.not(ins),
            "cnot" => self.is_zero(ins),
            "lop3" => self.any_of_three(ins),
            "shl" | "shr" => self.shift(ins),
            "shf.l" | "shf.r" => self.funnel(ins),
            "prmt" => self.permute_bytes(ins),
            _ => None,
        }
    }

    fn both(&mut self, ins: &Ins<'a>, table: u8) -> Option<()> {
        let ty = ins.ty()?;
        if ty == Type::PRED {
            let (a, b) = (self.predicate(ins.get(1)?)?, self.predicate(ins.get(2)?)?);
            let value = self.plop3(a, b, table);
            return self.set(ins.get(0)?, value);
        }
        let (a, b) = (self.number(ins.get(1)?, ty)?, self.number(ins.get(2)?, ty)?);
        let words = self.bitwise(&a, &b, table);
        let value = self.value(&words);
        self.set(ins.get(0)?, value)
    }

    fn not(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let value = match ty == Type::PRED {
            true => {
                let a = self.predicate(ins.get(1)?)?;
                self.plop3(PT, a, NOT)
            }
            false => {
                let a = self.number(ins.get(1)?, ty)?;
                let words: Words = a.iter().map(|word| self.lop3(RZ, *word, RZ, NOT.into()).into()).collect();
                self.value(&words)
            }
        };
        self.set(ins.get(0)?, value)
    }

    /// `cnot`: 1 for zero, else 0.
    fn is_zero(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let mut a = self.number(ins.get(1)?, ty)?;
        if ty.bits() == 16 {
            a[0] = self.field(a[0], 0, 2, false);
        }
        let zero: Words = a.iter().map(|_| RZ).collect();
        let is_zero = self.relation(M::EQ, false, &a, &zero);
        let mut result = self.choose(is_zero.into(), &[Arg::Imm(1)], &[RZ]);
        result.extend((1..a.len()).map(|_| RZ));
        let value = self.value(&result);
        self.set(ins.get(0)?, value)
    }

    /// `lop3`, with the predicate result of `.and` and `.or`: whether any bit is set, combined with another predicate.
    fn any_of_three(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let mut args = Vec::new();
        for i in 1..4 {
            args.push(self.word(ins.get(i)?, ty)?);
        }
        let table = constant(ins.get(4)?, Type::U32)? & 0xff;
        let Some(combine) = ins.one_of(&["and", "or"]) else {
            let value = self.lop3(args[0], args[1], args[2], table as i64);
            return self.set(ins.get(0)?, value);
        };
        let Operand::Pair(range) = ins.get(0)? else { return None };
        let [to, to_predicate] = self.body.list(*range) else { return None };
        args.extend([Arg::Imm(table as i64), self.predicate(ins.get(5)?)?]);
        let modifiers: &[M] = if combine == "and" { &[M::LUT, M::PAND] } else { &[M::LUT] };
        let (any, value) = (self.kernel.code.value(File::P, 1), self.kernel.code.value(File::R, 1));
        self.emit_to(Op::LOP3, modifiers, &[any, value], &args);
        self.set(to, value)?;
        self.set(to_predicate, any)
    }

    fn shift(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let by = match self.word(ins.get(2)?, Type::U32)? {
            // Shifts by more than the width are clamped to the width.
            Arg::Imm(n) => Arg::Imm(i64::from((n as u32).min(64))),
            by => by,
        };
        let words = match ins.mnemonic() {
            "shl" => {
                let a = self.number(ins.get(1)?, ty)?;
                self.shift_left(&a, by)
            }
            _ => {
                let a = self.extended_number(ins.get(1)?, ty)?;
                self.shift_right(ty.is_signed(), &a, by)
            }
        };
        let value = self.value(&words);
        self.set(ins.get(0)?, value)
    }

    fn funnel(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let (low, high) = (self.word(ins.get(1)?, ty)?, self.word(ins.get(2)?, ty)?);
        let by = self.word(ins.get(3)?, Type::U32)?;
        let wrap: &[M] = if ins.one_of(&["wrap", "clamp"])? == "wrap" { &[M::W] } else { &[] };
        // A left shift takes the upper word, a right shift the lower one.
        let modifiers = match ins.mnemonic() {
            "shf.l" => [&[M::L], wrap, &[M::U32, M::HI]].concat(),
            _ => [&[M::R], wrap, &[M::U32]].concat(),
        };
        let value = self.emit(Op::SHF, &modifiers, 1, &[low, by, high]);
        self.set(ins.get(0)?, value)
    }

    fn permute_bytes(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let (a, b) = (self.word(ins.get(1)?, ty)?, self.word(ins.get(2)?, ty)?);
        let selector = self.word(ins.get(3)?, ty)?;
        let mode: &[M] = match ins.one_of(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]) {
            None => &[],
            Some("f4e") => &[M::F4E],
            Some("b4e") => &[M::B4E],
            Some("rc8") => &[M::RC8],
            Some("ecl") => &[M::ECL],
            Some("ecr") => &[M::ECR],
            Some(_) => &[M::RC16],
        };
        let value = self.emit(Op::PRMT, mode, 1, &[a, selector, b]);
        self.set(ins.get(0)?, value)
    }

    /// LOP3 with the truth table `table`.
    pub(crate) fn lop3(&mut self, a: Arg, b: Arg, c: Arg, table: i64) -> Value {
        self.emit(Op::LOP3, &[M::LUT], 1, &[a, b, c, Arg::Imm(table), NOT_PT])
    }

    /// PLOP3 of two predicates.
    pub(crate) fn plop3(&mut self, a: Arg, b: Arg, table: u8) -> Value {
        self.emit_p(Op::PLOP3, &[M::LUT], &[PT, a, b, PT, Arg::Imm(table.into()), Arg::Imm(0)])
    }
}
