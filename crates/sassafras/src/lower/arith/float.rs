//! Lowers arithmetic of f32, f64 and packed f32 pairs.
//!
//! `.approx` is the machine's own unit (MUFU); subnormal inputs that are not flushed are scaled. Correctly rounded
//! division, reciprocal and root begin with ptxas's fast path where there is one; a range check selects the slow path,
//! a routine of the library (`float.ptx`, `double.ptx`) that is right for all inputs.

use crate::lower::Lower;
use crate::lower::arith::convert::{ftz, rounding};
use crate::lower::arith::words::imm;
use crate::lower::build::{NOT_PT, PT, RZ};
use crate::lower::instruction::Ins;
use ori::eval::generic;
use ori::{Arg, File, Generic, Value};
use ptx::Type;
use sass::{M, Op};

// Bits of f32.
const ONE: Arg = Arg::Imm(0x3f80_0000);
const HALF: Arg = Arg::Imm(0x3f00_0000);
const QUARTER: Arg = Arg::Imm(0x3e80_0000);
const TWO_TO_24: Arg = Arg::Imm(0x4b80_0000);
const TWO_TO_12: Arg = Arg::Imm(0x4580_0000);
const TWO_TO_MINUS_12: Arg = Arg::Imm(0x3980_0000);
const MINUS_24: Arg = Arg::Imm(0xc1c0_0000u32 as i32 as i64);
const MINUS_126: Arg = Arg::Imm(0xc2fc_0000u32 as i32 as i64);
const SMALLEST_NORMAL: Arg = Arg::Imm(0x0080_0000);
const TWO_TO_MINUS_62: Arg = Arg::Imm(0x2080_0000);
const TWO_TO_126: Arg = Arg::Imm(0x7e80_0000);
/// 1/2π: SIN and COS take their argument in turns.
const TURNS: Arg = Arg::Imm(0x3e22_f983);

// High words of f64; the low word of an immediate is zero.
const ONE64: Arg = Arg::Imm(0x3ff0_0000);
const HALF64: Arg = Arg::Imm(0x3fe0_0000);
const TWO_TO_64_64: Arg = Arg::Imm(0x43f0_0000);
const THREE_EIGHTHS64: Arg = Arg::Imm(0x3fd8_0000);

/// The number of a rounding mode, as the library routines take it.
fn mode(round: &[M]) -> Arg {
    Arg::Imm(match round {
        [M::RZ] => 1,
        [M::RM] => 2,
        [M::RP] => 3,
        _ => 0,
    })
}

/// Negates a float; of a constant, flips the sign bit.
pub fn minus(arg: Arg) -> Arg {
    match arg {
        Arg::Imm(bits) => imm(bits as u32 ^ 0x8000_0000),
        other => other.negated(),
    }
}

/// A float without its sign.
fn magnitude(arg: Arg) -> Arg {
    match arg {
        Arg::Imm(bits) => imm(bits as u32 & 0x7fff_ffff),
        other => other.absolute(),
    }
}

/// Commutes a constant to the second operand, the only one that can be an immediate.
fn constant_last(args: &mut [Arg]) {
    if let [a @ Arg::Imm(_), b @ Arg::Use(_), ..] = args {
        std::mem::swap(a, b);
    }
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn float(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let value = match ty.name() {
            "f32" => self.float32(ins)?,
            "f64" => {
                let value = self.float64(ins)?;
                self.contractable(ins, value)
            }
            "f32x2" => self.float32_pair(ins)?,
            _ => return None,
        };
        self.set(ins.get(0)?, value)
    }

    fn float32(&mut self, ins: &Ins<'a>) -> Option<Value> {
        let ty = Type::F32;
        let mut args = Vec::new();
        for i in 1..ins.len() {
            args.push(self.word(ins.get(i)?, ty)?);
        }
        let (flush, approx) = (ins.flag("ftz"), ins.flag("approx"));
        match (ins.mnemonic(), &mut args[..]) {
            ("add" | "sub" | "mul" | "fma" | "mad", args) => self.arithmetic32(ins, args, flush),
            ("min" | "max", args) => self.min_max32(ins, args, flush),
            ("abs", [a]) => {
                let a = self.in_register(*a).absolute();
                Some(self.emit(Op::FADD, ftz(flush), 1, &[a, Arg::MinusZero]))
            }
            ("neg", [a]) => {
                let a = self.in_register(*a).negated();
                Some(self.emit(Op::FADD, ftz(flush), 1, &[a, Arg::MinusZero]))
            }
            ("copysign", [a, b]) => Some(self.copy_sign(*a, *b)),
            ("div", [a, b]) if approx => Some(self.div_approx(*a, *b, flush, false)),
            ("div.full", [a, b]) => Some(self.div_approx(*a, *b, flush, true)),
            ("div", args) => Some(self.rounded(Generic::FDiv, 32, args, rounding(ins), flush)),
            ("rcp", [a]) if approx => Some(self.rcp_approx(*a, flush)),
            ("rcp", args) => Some(self.rounded(Generic::FRcp, 32, args, rounding(ins), flush)),
            ("sqrt", args) if !approx => Some(self.rounded(Generic::FSqrt, 32, args, rounding(ins), flush)),
            (name, [a]) if approx => self.function(name, *a, flush),
            _ => None,
        }
    }

    /// `add`, `sub`, `mul`, `fma`.
    fn arithmetic32(&mut self, ins: &Ins<'a>, args: &mut [Arg], flush: bool) -> Option<Value> {
        let saturate: &[M] = if ins.flag("sat") { &[M::SAT] } else { &[] };
        let modifiers = [ftz(flush), rounding(ins), saturate].concat();
        let (op, count) = match ins.mnemonic() {
            "add" | "sub" => (Op::FADD, 2),
            "mul" => (Op::FMUL, 2),
            _ => (Op::FFMA, 3),
        };
        if ins.mnemonic() == "sub" {
            *args.get_mut(1)? = minus(args[1]);
        }
        constant_last(args);
        let value = (args.len() == count).then(|| self.emit(op, &modifiers, 1, args))?;
        Some(self.contractable(ins, value))
    }

    /// Marks the result of `mul`, `add` or `sub` without a rounding modifier: see [`ori::Function::contractable`].
    pub(crate) fn contractable(&mut self, ins: &Ins<'a>, value: Value) -> Value {
        let is_part = matches!(ins.mnemonic(), "mul" | "add" | "sub");
        if is_part && !["rn", "rz", "rm", "rp"].iter().any(|word| ins.has_word(word)) {
            self.kernel.code.contractable.insert(value);
        }
        value
    }

    /// Of two or three operands. A machine with two-operand forms takes two operations.
    fn min_max32(&mut self, ins: &Ins<'a>, args: &mut [Arg], flush: bool) -> Option<Value> {
        let nan: &[M] = if ins.flag("NaN") { &[M::NAN] } else { &[] };
        let sign: &[M] = if ins.flag("xorsign") { &[M::XORSIGN] } else { &[] };
        let modifiers = [ftz(flush), nan, sign].concat();
        if !sign.is_empty() {
            // `xorsign` takes the signs from the operands whose magnitudes it compares: a constant would lose its own.
            args.iter_mut().for_each(|a| *a = self.in_register(*a));
        }
        if ins.flag("abs") {
            args.iter_mut().for_each(|a| *a = magnitude(*a));
        }
        constant_last(args);
        let which = if ins.mnemonic() == "min" { PT } else { NOT_PT };
        match *args {
            [a, b] => Some(self.emit(Op::FMNMX, &modifiers, 1, &[a, b, which])),
            [a, b, c] if self.has(Op::FMNMX3) => {
                Some(self.emit(Op::FMNMX3, &modifiers, 1, &[a, b, c, which]))
            }
            [a, b, c] => {
                let first = self.emit(Op::FMNMX, &modifiers, 1, &[a, b, which]);
                Some(self.emit(Op::FMNMX, &modifiers, 1, &[first.into(), c, which]))
            }
            _ => None,
        }
    }

    /// `copysign`: the sign of the first and the rest of the second, in the word that has the sign.
    fn copy_sign(&mut self, a: Arg, b: Arg) -> Value {
        // With a = 0xf0, the mask 0xcc and b = 0xaa: a where the mask is set, b elsewhere.
        self.lop3(a, Arg::Imm(i64::from(i32::MIN)), b, 0xe2)
    }

    /// Two f32 in a register of 64 bits.
    fn float32_pair(&mut self, ins: &Ins<'a>) -> Option<Value> {
        let ty = Type::F64;
        let modifiers = [ftz(ins.flag("ftz")), rounding(ins)].concat();
        let (paired, single) = match ins.mnemonic() {
            "add" | "sub" => (Op::FADD2, Op::FADD),
            "mul" => (Op::FMUL2, Op::FMUL),
            "fma" => (Op::FFMA2, Op::FFMA),
            _ => return None,
        };
        let mut args = Vec::new();
        for i in 1..ins.len() {
            args.push(Arg::from(self.wide(ins.get(i)?, ty)?));
        }
        if ins.mnemonic() == "sub" {
            *args.get_mut(1)? = args[1].negated();
        }
        if self.has(paired) {
            let args: Vec<Arg> = args.into_iter().map(|a| a.suffixed(M::F32x2_HI_LO)).collect();
            let value = self.emit(paired, &modifiers, 2, &args);
            return Some(self.contractable(ins, value));
        }
        let halves: Vec<Arg> = (0..2)
            .map(|i| {
                let words: Vec<Arg> = args.iter().map(|a| one_word(*a, i)).collect();
                let word = self.emit(single, &modifiers, 1, &words);
                self.contractable(ins, word).into()
            })
            .collect();
        Some(self.pack(&halves))
    }
}

/// One word of an argument, with its modifiers.
fn one_word(arg: Arg, word: u8) -> Arg {
    match arg {
        Arg::Use(u) => Arg::Use(ori::Use { part: Some(ori::Part { first: word, count: 1 }), ..u }),
        other => other,
    }
}

/// Approximate functions (MUFU).
impl Lower<'_, '_> {
    fn mufu(&mut self, function: M, a: Arg) -> Value {
        self.emit(Op::MUFU, &[function], 1, &[a])
    }

    /// Applies an f32 operation if `p` is false; otherwise the result is its first operand.
    pub(crate) fn unless(&mut self, p: Value, op: Op, a: Value, b: Arg) -> Value {
        let result = self.kernel.code.value(File::R, 1);
        let mut data = self.data(ori::Op::Machine(op), &[], &[result], &[a.into(), b]);
        data.guard = Some(ori::Guard { predicate: p, negated: true, else_values: [a].into_iter().collect() });
        self.kernel.code.append(self.block, data);
        result
    }

    /// Is a float's magnitude that of a normal number (or NaN)?
    fn is_normal(&mut self, a: Value) -> Value {
        let args = [PT, Arg::from(a).absolute(), SMALLEST_NORMAL, PT];
        self.emit_p(Op::FSETP, &[M::GEU, M::AND], &args)
    }

    /// Copies an argument, constants included, into a new value.
    pub(crate) fn register(&mut self, arg: Arg) -> Value {
        let arg = self.in_register(arg);
        self.copy(arg)
    }

    fn function(&mut self, name: &str, a: Arg, flush: bool) -> Option<Value> {
        // With `.ftz` the unit flushes by itself; these three give the same result either way.
        match name {
            "sin" | "cos" => {
                let a = self.in_register(a);
                let turns = self.emit(Op::FMUL, &[M::RZ], 1, &[a, TURNS]);
                return Some(self.mufu(if name == "sin" { M::SIN } else { M::COS }, turns.into()));
            }
            "tanh" => return Some(self.mufu(M::TANH, a)),
            _ => {}
        }
        let (function, op, repair) = match name {
            "sqrt" => (M::SQRT, Op::FMUL, TWO_TO_MINUS_12),
            "rsqrt" => (M::RSQ, Op::FMUL, TWO_TO_12),
            "lg2" => (M::LG2, Op::FADD, MINUS_24),
            "ex2" => return Some(self.ex2(a, flush)),
            _ => return None,
        };
        if flush {
            return Some(self.mufu(function, a));
        }
        let a = self.register(a);
        let normal = self.is_normal(a);
        let scaled = self.unless(normal, Op::FMUL, a, TWO_TO_24);
        let result = self.mufu(function, scaled.into());
        Some(self.unless(normal, op, result, repair))
    }

    /// Below 2^-126, the square of the function of half the argument.
    fn ex2(&mut self, a: Arg, flush: bool) -> Value {
        if flush {
            return self.mufu(M::EX2, a);
        }
        let a = self.register(a);
        let normal = self.emit_p(Op::FSETP, &[M::GEU, M::AND], &[PT, a.into(), MINUS_126, PT]);
        let scaled = self.unless(normal, Op::FMUL, a, HALF);
        let result = self.mufu(M::EX2, scaled.into());
        self.unless(normal, Op::FMUL, result, result.into())
    }

    fn rcp_approx(&mut self, a: Arg, flush: bool) -> Value {
        if flush {
            return self.mufu(M::RCP, a);
        }
        let a = self.register(a);
        let small = self.is_normal(a);
        let large = self.emit_p(Op::FSETP, &[M::GT, M::AND], &[PT, Arg::from(a).absolute(), TWO_TO_126, PT]);
        let up = self.select_word(ONE, TWO_TO_24, small.into());
        let scale = self.select_word(QUARTER, up.into(), large.into());
        let scaled = self.emit(Op::FMUL, &[], 1, &[a.into(), scale.into()]);
        let inverse = self.mufu(M::RCP, scaled.into());
        self.emit(Op::FMUL, &[], 1, &[scale.into(), inverse.into()])
    }

    /// `div.approx` and `div.full`, which also scales a large divisor: its reciprocal would be flushed.
    fn div_approx(&mut self, a: Arg, b: Arg, flush: bool, full: bool) -> Value {
        let (mut a, mut b) = (self.register(a), self.register(b));
        let (a_given, b_given) = (a, b);
        if full {
            let modifiers = [&[M::LEU], ftz(flush), &[M::AND]].concat();
            let args = [PT, Arg::from(b_given).absolute(), TWO_TO_126, PT];
            let moderate = self.emit_p(Op::FSETP, &modifiers, &args);
            (a, b) = (
                self.unless(moderate, Op::FMUL, a_given, QUARTER),
                self.unless(moderate, Op::FMUL, b_given, QUARTER),
            );
        }
        if !flush {
            let normal = self.is_normal(b_given);
            (a, b) =
                (self.unless(normal, Op::FMUL, a, TWO_TO_24), self.unless(normal, Op::FMUL, b, TWO_TO_24));
        }
        let inverse = self.mufu(M::RCP, b.into());
        let quotient = self.emit(Op::FMUL, ftz(flush), 1, &[a.into(), inverse.into()]);
        // Approximate, so that it need not be rounded before it is added.
        self.kernel.code.contractable.insert(quotient);
        quotient
    }
}

/// Division, reciprocal and root with a rounding are generic operations.
impl Lower<'_, '_> {
    fn rounded(&mut self, op: Generic, bits: u32, args: &[Arg], round: &[M], flush: bool) -> Value {
        let modifiers = [round, ftz(flush)].concat();
        let args: Vec<Arg> = args.iter().map(|a| self.in_register(*a)).collect();
        self.emit_generic(op, generic::Type::Float { bits }, &modifiers, &args)
    }

    fn rounded64(&mut self, op: Generic, args: &[Value], round: &[M]) -> Value {
        let args: Vec<Arg> = args.iter().map(|v| (*v).into()).collect();
        self.rounded(op, 64, &args, round, false)
    }
}

/// The expansions for f32.
impl Lower<'_, '_> {
    fn fused(&mut self, a: Arg, b: Arg, c: Arg) -> Value {
        self.emit(Op::FFMA, &[], 1, &[a, b, c])
    }

    pub(crate) fn div32(&mut self, a: Arg, b: Arg, round: &[M], flush: bool) -> Option<Value> {
        let (a, b) = (self.in_register(a), self.in_register(b));
        if !round.is_empty() {
            return self.via_f64("div_f32", &[a, b], round, flush);
        }
        let inverse = self.mufu(M::RCP, b);
        let doubtful = self.emit_p(Op::FCHK, &[], &[a, b]);
        let error = self.fused(b.negated(), inverse.into(), ONE);
        let inverse = self.fused(inverse.into(), error.into(), inverse.into());
        let quotient = self.fused(a, inverse.into(), RZ);
        let rest = self.fused(b.negated(), quotient.into(), a);
        let quotient = self.fused(inverse.into(), rest.into(), quotient.into());
        self.select_lazily((doubtful, false), quotient, |l| l.via_f64("div_f32", &[a, b], round, flush))
    }

    pub(crate) fn rcp32(&mut self, a: Arg, round: &[M], flush: bool) -> Option<Value> {
        let a = self.in_register(a);
        if !round.is_empty() {
            return self.via_f64("div_f32", &[ONE, a], round, flush);
        }
        // The exponent is neither of the two least nor of the two greatest (the sign is masked away).
        let shifted = self.emit(Op::IADD3, &[], 1, &[a, Arg::Imm(0x0180_0000), RZ]);
        let exponent = self.lop3(shifted.into(), Arg::Imm(0x7f80_0000), RZ, 0xc0);
        let safe = self.compare_integers(M::GT, false, &[exponent.into()], &[Arg::Imm(0x01ff_ffff)]);
        let inverse = self.mufu(M::RCP, a);
        let error = self.fused(a.negated(), inverse.into(), ONE);
        let inverse = self.fused(inverse.into(), error.into(), inverse.into());
        self.select_lazily((safe, true), inverse, |l| l.via_f64("div_f32", &[ONE, a], round, flush))
    }

    pub(crate) fn sqrt32(&mut self, a: Arg, round: &[M], flush: bool) -> Option<Value> {
        let a = self.in_register(a);
        if !round.is_empty() {
            return self.via_f64("sqrt_f32", &[a], round, flush);
        }
        // From 2^-101 up to infinity, as the bits of positive floats are ordered.
        let shifted = self.emit(Op::IADD3, &[], 1, &[a, Arg::Imm(-0x0d00_0000), RZ]);
        let doubtful = self.compare_integers(M::GT, false, &[shifted.into()], &[Arg::Imm(0x727f_ffff)]);
        let inverse = self.mufu(M::RSQ, a);
        let root = self.emit(Op::FMUL, &[M::FTZ], 1, &[a, inverse.into()]);
        let half = self.emit(Op::FMUL, &[M::FTZ], 1, &[inverse.into(), HALF]);
        let rest = self.fused(Arg::from(root).negated(), root.into(), a);
        let root = self.fused(rest.into(), half.into(), root.into());
        self.select_lazily((doubtful, false), root, |l| l.via_f64("sqrt_f32", &[a], round, flush))
    }

    /// The library's f64 result, rounded to f32: it is exact or close enough that double rounding is innocuous.
    fn via_f64(&mut self, name: &str, args: &[Arg], round: &[M], flush: bool) -> Option<Value> {
        let mut args = args.to_vec();
        if flush {
            for arg in &mut args {
                *arg = self.emit(Op::FADD, &[M::FTZ], 1, &[*arg, Arg::MinusZero]).into();
            }
        }
        let [wide] = self.call_routine(name, &args)?[..] else { return None };
        let modifiers = [&[M::F32, M::F64], round].concat();
        let result = self.emit(Op::F2F, &modifiers, 1, &[wide.into()]);
        if !flush {
            return Some(result);
        }
        // A result is flushed if it is subnormal after rounding to 24 bits, which 2^64 times the result shows.
        let scaled = self.emit(Op::DMUL, &[], 2, &[wide.into(), TWO_TO_64_64]);
        let scaled = self.emit(Op::F2F, &modifiers, 1, &[scaled.into()]);
        let args = [PT, Arg::from(scaled).absolute(), TWO_TO_MINUS_62, PT];
        let small = self.emit_p(Op::FSETP, &[M::LT, M::AND], &args);
        let zero = self.lop3(result.into(), Arg::Imm(i64::from(i32::MIN)), RZ, 0xc0);
        Some(self.select_word(zero.into(), result.into(), small.into()))
    }
}

/// f64.
impl<'a> Lower<'_, 'a> {
    fn float64(&mut self, ins: &Ins<'a>) -> Option<Value> {
        let ty = Type::F64;
        if ins.mnemonic() == "copysign" {
            let (a, b) = (self.words(ins.get(1)?, ty)?, self.words(ins.get(2)?, ty)?);
            let high = self.copy_sign(a[1], b[1]);
            return Some(self.pack(&[b[0], high.into()]));
        }
        let mut args = Vec::new();
        for i in 1..ins.len() {
            args.push(self.wide(ins.get(i)?, ty)?);
        }
        let (round, approx, flush) = (rounding(ins), ins.flag("approx"), ins.flag("ftz"));
        match (ins.mnemonic(), &args[..]) {
            ("add", [a, b]) => Some(self.emit(Op::DADD, round, 2, &[(*a).into(), (*b).into()])),
            ("sub", [a, b]) => Some(self.emit(Op::DADD, round, 2, &[(*a).into(), Arg::not(*b)])),
            ("mul", [a, b]) => Some(self.emit(Op::DMUL, round, 2, &[(*a).into(), (*b).into()])),
            ("fma" | "mad", [a, b, c]) => {
                Some(self.emit(Op::DFMA, round, 2, &[(*a).into(), (*b).into(), (*c).into()]))
            }
            ("abs", [a]) => Some(self.emit(Op::DADD, &[], 2, &[Arg::MinusZero, Arg::from(*a).absolute()])),
            ("neg", [a]) => Some(self.emit(Op::DADD, &[], 2, &[Arg::MinusZero, Arg::not(*a)])),
            ("min", [a, b]) => Some(self.min_max64(M::MIN, *a, *b)),
            ("max", [a, b]) => Some(self.min_max64(M::MAX, *a, *b)),
            ("div", [_, _]) => Some(self.rounded64(Generic::FDiv, &args, round)),
            ("rcp", [a]) if approx && flush => Some(self.high_word_function(M::RCP64H, *a)),
            ("rsqrt", [a]) if approx && flush => Some(self.high_word_function(M::RSQ64H, *a)),
            ("rcp", [_]) => Some(self.rounded64(Generic::FRcp, &args, round)),
            ("sqrt", [_]) => Some(self.rounded64(Generic::FSqrt, &args, round)),
            ("rsqrt", [_]) => Some(self.rounded64(Generic::FRsqrt, &args, &[])),
            _ => None,
        }
    }

    /// MUFU on the high word, with zero as the low word of the result.
    fn high_word_function(&mut self, function: M, a: Value) -> Value {
        let high = self.mufu(function, Arg::word(a, 1));
        self.pack(&[Arg::Imm(0), high.into()])
    }

    /// The comparison selects the operand, and whether both are NaN: then the result is the second, made quiet.
    pub(crate) fn min_max64(&mut self, which: M, a: Value, b: Value) -> Value {
        let (first, nan) = (self.kernel.code.value(File::P, 1), self.kernel.code.value(File::P, 1));
        self.emit_to(Op::DSETP, &[which, M::AND], &[first, nan], &[a.into(), b.into(), PT]);
        let low = self.select_word(Arg::word(a, 0), Arg::word(b, 0), first.into());
        let high = self.select_word(Arg::word(a, 1), Arg::word(b, 1), first.into());
        let quiet = self.lop3(Arg::word(b, 1), Arg::Imm(0x0008_0000), RZ, 0xfc);
        let high = self.select_word(quiet.into(), high.into(), nan.into());
        self.pack(&[low.into(), high.into()])
    }

    fn fused64(&mut self, a: Arg, b: Arg, c: Arg) -> Value {
        self.emit(Op::DFMA, &[], 2, &[a, b, c])
    }

    /// 1/b from an estimate y: with e = 1 - by, first y(1 + e + e²), then y(1 + e).
    fn refined_inverse(&mut self, b: Value, estimate: Value) -> Value {
        let error = self.fused64(Arg::not(b), estimate.into(), ONE64);
        let errors = self.fused64(error.into(), error.into(), error.into());
        let inverse = self.fused64(estimate.into(), errors.into(), estimate.into());
        let error = self.fused64(Arg::not(b), inverse.into(), ONE64);
        self.fused64(inverse.into(), error.into(), inverse.into())
    }

    pub(crate) fn div64(&mut self, a: Value, b: Value, round: &[M]) -> Option<Value> {
        let slow = [a.into(), b.into(), mode(round)];
        if !round.is_empty() {
            return self.call_routine("div_f64", &slow)?.first().copied();
        }
        let high = self.mufu(M::RCP64H, Arg::word(b, 1));
        let estimate = self.pack(&[Arg::Imm(1), high.into()]);
        let inverse = self.refined_inverse(b, estimate);
        let quotient = self.emit(Op::DMUL, &[], 2, &[a.into(), inverse.into()]);
        let rest = self.fused64(Arg::not(b), quotient.into(), a.into());
        let quotient = self.fused64(inverse.into(), rest.into(), quotient.into());
        // High words as f32: the dividend not small, the quotient not subnormal, the divisor not so large that its
        // high word is NaN or infinite as f32.
        let args = [PT, Arg::word(a, 1).absolute(), Arg::Imm(0x0360_0000), PT];
        let not_small = self.emit_p(Op::FSETP, &[M::GEU, M::AND], &args);
        let sum = self.fused(RZ, Arg::word(b, 1), Arg::word(quotient, 1));
        let args = [PT, Arg::from(sum).absolute(), Arg::Imm(0x0010_0000), not_small.into()];
        let safe = self.emit_p(Op::FSETP, &[M::GT, M::AND], &args);
        self.select_lazily((safe, true), quotient, |l| l.call_routine("div_f64", &slow)?.first().copied())
    }

    pub(crate) fn rcp64(&mut self, b: Value, round: &[M]) -> Option<Value> {
        if !round.is_empty() {
            return self.reciprocal64(b, round);
        }
        let high = self.mufu(M::RCP64H, Arg::word(b, 1));
        let low = self.emit(Op::IADD3, &[], 1, &[Arg::word(b, 1), Arg::Imm(0x0030_0402), RZ]);
        let estimate = self.pack(&[low.into(), high.into()]);
        let inverse = self.refined_inverse(b, estimate);
        // The low word of the estimate also tells the exponents at both ends.
        let args = [PT, Arg::from(low).absolute(), Arg::Imm(0x0040_0402), PT];
        let safe = self.emit_p(Op::FSETP, &[M::GEU, M::AND], &args);
        self.select_lazily((safe, true), inverse, |l| l.reciprocal64(b, round))
    }

    /// The library's division of 1.
    fn reciprocal64(&mut self, b: Value, round: &[M]) -> Option<Value> {
        let one = self.pack(&[Arg::Imm(0), ONE64]);
        self.call_routine("div_f64", &[one.into(), b.into(), mode(round)])?.first().copied()
    }

    /// An inverse root from an estimate y: with e = 1 - ay², y + y·e·(1/2 + 3/8·e).
    fn refined_inverse_root(&mut self, a: Value, estimate: Value) -> Value {
        let square = self.emit(Op::DMUL, &[], 2, &[estimate.into(), estimate.into()]);
        let error = self.fused64(a.into(), Arg::not(square), ONE64);
        let series = self.fused64(error.into(), THREE_EIGHTHS64, HALF64);
        let step = self.emit(Op::DMUL, &[], 2, &[estimate.into(), error.into()]);
        self.fused64(series.into(), step.into(), estimate.into())
    }

    pub(crate) fn sqrt64(&mut self, a: Value, round: &[M]) -> Option<Value> {
        let slow = [a.into(), mode(round)];
        if !round.is_empty() {
            return self.call_routine("sqrt_f64", &slow)?.first().copied();
        }
        let high = self.mufu(M::RSQ64H, Arg::word(a, 1));
        let low = self.emit(Op::IADD3, &[], 1, &[Arg::word(a, 1), Arg::Imm(-0x0350_0000), RZ]);
        let doubtful = self.compare_integers(M::GE, false, &[low.into()], &[Arg::Imm(0x7ca0_0000)]);
        let estimate = self.pack(&[low.into(), high.into()]);
        let inverse = self.refined_inverse_root(a, estimate);
        let root = self.emit(Op::DMUL, &[], 2, &[a.into(), inverse.into()]);
        let half_high = self.emit(Op::IADD3, &[], 1, &[Arg::word(inverse, 1), Arg::Imm(-0x0010_0000), RZ]);
        let half = self.pack(&[Arg::word(inverse, 0), half_high.into()]);
        let rest = self.fused64(root.into(), Arg::not(root), a.into());
        let root = self.fused64(rest.into(), half.into(), root.into());
        self.select_lazily((doubtful, false), root, |l| l.call_routine("sqrt_f64", &slow)?.first().copied())
    }

    pub(crate) fn rsqrt64(&mut self, a: Value) -> Option<Value> {
        let estimate = self.high_word_function(M::RSQ64H, a);
        let inverse = self.refined_inverse_root(a, estimate);
        let shifted = self.emit(Op::IADD3, &[], 1, &[Arg::word(a, 1), Arg::Imm(-0x0010_0000), RZ]);
        let doubtful = self.compare_integers(M::GE, false, &[shifted.into()], &[Arg::Imm(0x7fe0_0000)]);
        self.select_lazily((doubtful, false), inverse, |l| {
            l.call_routine("rsqrt_f64", &[a.into()])?.first().copied()
        })
    }
}
