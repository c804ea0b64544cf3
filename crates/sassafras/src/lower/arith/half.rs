//! Lowers arithmetic of f16, bf16 and their packed pairs, and of a half with an f32.
//!
//! The machine works on packed pairs. A single half is broadcast to both halves of a source, and the upper half of the
//! result is ignored.

use crate::lower::Lower;
use crate::lower::arith::convert::{ftz, rounding};
use crate::lower::arith::float::minus;
use crate::lower::build::{NOT_PT, PT, RZ};
use crate::lower::instruction::Ins;
use ori::{Arg, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(crate) fn half(&mut self, ins: &Ins<'a>) -> Option<()> {
        let value = match ins.types()[..] {
            [ty] => self.half_value(ins, ty)?,
            [Type::F32, ty] => self.mixed(ins, ty)?,
            _ => return None,
        };
        self.set(ins.get(0)?, value)
    }

    /// A source operand: a packed pair, or a single half in both halves.
    pub(crate) fn half_operand(&mut self, operand: &Operand, ty: Type) -> Option<Arg> {
        let word = self.word(operand, ty)?;
        let word = self.in_register(word);
        Some(if ty.bits() == 16 { word.suffixed(M::H0_H0) } else { word })
    }

    fn half_value(&mut self, ins: &Ins<'a>, ty: Type) -> Option<Value> {
        if let "ex2" | "tanh" = ins.mnemonic() {
            return self.half_function(ins, ty);
        }
        let bf16 = ty.name().starts_with("bf16");
        let format: &[M] = if bf16 { &[M::BF16_V2] } else { &[] };
        // Round-to-nearest is the only mode.
        ins.flag("rn");
        let mut args = Vec::new();
        for i in 1..ins.len() {
            args.push(self.half_operand(ins.get(i)?, ty)?);
        }
        if let "min" | "max" = ins.mnemonic() {
            return self.half_min_max(ins, format, &args);
        }
        let flush: &[M] = if ins.flag("oob") { &[M::OOB] } else { ftz(ins.flag("ftz")) };
        let limit: &[M] = match ins.one_of(&["sat", "relu"]) {
            Some("sat") => &[M::SAT],
            Some(_) => &[M::RELU],
            None => &[],
        };
        let modifiers = [format, flush, limit].concat();
        let (op, args) = match (ins.mnemonic(), &args[..]) {
            ("add", [a, b]) => (Op::HADD2, vec![*a, *b]),
            ("sub", [a, b]) => (Op::HADD2, vec![*a, b.negated()]),
            ("mul", [a, b]) => (Op::HMUL2, vec![*a, *b]),
            ("fma", [a, b, c]) => (Op::HFMA2, vec![*a, *b, *c]),
            // `-0 * 0 + a` changes no bit of the operand: this form exists before sm_90 as well.
            ("abs", [a]) if bf16 => (Op::HFMA2, vec![Arg::MinusZero, RZ, a.absolute()]),
            ("neg", [a]) if bf16 => (Op::HFMA2, vec![Arg::MinusZero, RZ, a.negated()]),
            ("abs", [a]) => (Op::HADD2, vec![a.absolute(), Arg::MinusZero]),
            ("neg", [a]) => (Op::HADD2, vec![a.negated(), Arg::MinusZero]),
            _ => return None,
        };
        let value = self.emit(op, &modifiers, 1, &args);
        Some(self.contractable(ins, value))
    }

    fn half_min_max(&mut self, ins: &Ins<'a>, format: &[M], args: &[Arg]) -> Option<Value> {
        let flush = ftz(ins.flag("ftz"));
        let nan: &[M] = if ins.flag("NaN") { &[M::NAN] } else { &[] };
        let sign: &[M] = if ins.flag("xorsign") { &[M::XORSIGN] } else { &[] };
        let modifiers = [format, flush, nan, sign].concat();
        let which = if ins.mnemonic() == "min" { PT } else { NOT_PT };
        let magnitudes = ins.flag("abs");
        let [a, b] = *args else { return None };
        let args = if magnitudes { [a.absolute(), b.absolute(), which] } else { [a, b, which] };
        Some(self.emit(Op::HMNMX2, &modifiers, 1, &args))
    }

    /// MUFU on one half; of a pair, one after the other.
    fn half_function(&mut self, ins: &Ins<'a>, ty: Type) -> Option<Value> {
        // The unit handles subnormals in its own way, with and without `.ftz`.
        ins.flag("ftz");
        if !ins.flag("approx") {
            return None;
        }
        let function = if ins.mnemonic() == "ex2" { M::EX2 } else { M::TANH };
        let format = if ty.name().starts_with("bf16") { M::BF16 } else { M::F16 };
        let source = self.word(ins.get(1)?, ty)?;
        let source = self.in_register(source);
        let low = self.emit(Op::MUFU, &[function, format], 1, &[source]);
        if ty.bits() == 16 {
            return Some(low);
        }
        let high = self.emit(Op::MUFU, &[function, format], 1, &[source.suffixed(M::H1)]);
        // Bytes 0 and 1 of both.
        Some(self.emit(Op::PRMT, &[], 1, &[low.into(), Arg::Imm(0x5410), high.into()]))
    }

    /// f32 from halves and an f32, rounded once.
    fn mixed(&mut self, ins: &Ins<'a>, ty: Type) -> Option<Value> {
        let format: &[M] = if ty.name() == "bf16" { &[M::BF16] } else { &[] };
        let limit: &[M] = if ins.flag("sat") { &[M::SAT] } else { &[] };
        let modifiers = [format, rounding(ins), limit].concat();
        let last = ins.len() - 1;
        let mut args = Vec::new();
        for i in 1..last {
            let half = self.word(ins.get(i)?, ty)?;
            args.push(self.in_register(half));
        }
        let single = self.word(ins.get(last)?, Type::F32)?;
        args.push(if ins.mnemonic() == "sub" { minus(single) } else { single });
        let (op, count) = match ins.mnemonic() {
            "add" | "sub" => (Op::FHADD, 2),
            "fma" => (Op::FHFMA, 3),
            _ => return None,
        };
        (args.len() == count).then(|| self.emit(op, &modifiers, 1, &args))
    }
}
