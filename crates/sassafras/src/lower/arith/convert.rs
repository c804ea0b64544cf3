//! Lowers `cvt`.
//!
//! The machine has one operation for each pair of classes: I2F, F2I, F2F (and F2FP, I2FP, HADD2 where they are faster),
//! FRND; integers are extended, truncated and clamped with integer operations. A result narrower than its register is
//! sign- or zero-extended by its type.

use crate::lower::Lower;
use crate::lower::build::{PT, RZ, constant};
use crate::lower::instruction::Ins;
use ori::{Arg, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::operands::r;
use sass::{M, Op};

/// f16, bf16, or a packed pair of them.
pub fn is_half(ty: Type) -> bool {
    matches!(ty.name(), "f16" | "bf16" | "f16x2" | "bf16x2")
}

/// The rounding modifier of a float result; none for round-to-nearest.
pub fn rounding(ins: &Ins) -> &'static [M] {
    match ins.one_of(&["rn", "rz", "rm", "rp"]) {
        Some("rz") => &[M::RZ],
        Some("rm") => &[M::RM],
        Some("rp") => &[M::RP],
        _ => &[],
    }
}

/// The rounding to an integer, if there is one.
fn integer_rounding(ins: &Ins) -> Option<&'static [M]> {
    Some(match ins.one_of(&["rni", "rzi", "rmi", "rpi"])? {
        "rzi" => &[M::TRUNC],
        "rmi" => &[M::FLOOR],
        "rpi" => &[M::CEIL],
        _ => &[],
    })
}

/// The modifier of an integer type; none for s32.
fn integer_name(ty: Type) -> &'static [M] {
    match ty.name() {
        "u8" => &[M::U8],
        "s8" => &[M::S8],
        "u16" => &[M::U16],
        "s16" => &[M::S16],
        "u32" => &[M::U32],
        "u64" => &[M::U64],
        "s64" => &[M::S64],
        _ => &[],
    }
}

/// The modifier of a float type.
fn float_name(ty: Type) -> Option<M> {
    Some(match ty.name() {
        "f16" => M::F16,
        "bf16" => M::BF16,
        "f32" => M::F32,
        "f64" => M::F64,
        _ => return None,
    })
}

/// The same, but none for f32.
fn float_name_but_f32(ty: Type) -> Option<Vec<M>> {
    Some(if ty == Type::F32 { Vec::new() } else { vec![float_name(ty)?] })
}

/// `.FTZ` where it is wanted.
pub fn ftz(on: bool) -> &'static [M] {
    if on { &[M::FTZ] } else { &[] }
}

/// The least and the greatest value of an integer type.
fn range(ty: Type) -> (i128, i128) {
    match ty.is_signed() {
        true => (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1),
        false => (0, (1 << ty.bits()) - 1),
    }
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn convert(&mut self, ins: &Ins<'a>) -> Option<()> {
        let [to, from] = ins.types()[..] else { return None };
        let value = match (to.is_int(), from.is_int()) {
            (true, true) => self.between_integers(ins, to, from)?,
            (true, false) => self.float_to_integer(ins, to, from)?,
            (false, true) => self.integer_to_float(ins, to, from)?,
            (false, false) => return self.between_floats(ins, to, from),
        };
        self.deliver(ins.get(0)?, value, to)
    }

    /// Writes a result of type `ty`, extended to a wider register.
    fn deliver(&mut self, to: &Operand, value: Value, ty: Type) -> Option<()> {
        let Some(width) = self.width(to) else { return self.set(to, value) };
        let mut value = value;
        if ty.bits() < 32 && width > ty.bits() {
            let word = self.extend_word(value.into(), ty);
            value = self.copy(word);
        }
        if ty.bits() < 64 && width == 64 {
            let high = self.sign_word(value.into(), ty);
            value = self.pack(&[value.into(), high]);
        }
        self.set(to, value)
    }

    /// An integer of up to 32 bits, extended to a word.
    pub(crate) fn extended(&mut self, operand: &Operand, ty: Type) -> Option<Arg> {
        if let Some(bits) = constant(operand, ty) {
            let unused = 64 - ty.bits();
            let signed = (bits << unused) as i64 >> unused;
            let unsigned = (bits << unused) >> unused;
            let word = if ty.is_signed() { signed as i32 } else { unsigned as u32 as i32 };
            return Some(Arg::Imm(i64::from(word)));
        }
        let word = self.word(operand, ty)?;
        Some(self.extend_word(word, ty))
    }

    /// Extends the low bits of a register, as wide as the type, to a word.
    fn extend_word(&mut self, word: Arg, ty: Type) -> Arg {
        // PRMT's selector takes bytes by number; 8 and 9 are the signs of bytes 0 and 1.
        let value = match (ty.bits(), ty.is_signed()) {
            (8, true) => self.emit(Op::PRMT, &[], 1, &[word, Arg::Imm(0x8880), RZ]),
            (16, true) => self.emit(Op::PRMT, &[], 1, &[word, Arg::Imm(0x9910), RZ]),
            (8, false) => self.lop3(word, Arg::Imm(0xff), RZ, 0xc0),
            (16, false) => self.lop3(word, Arg::Imm(0xffff), RZ, 0xc0),
            _ => return word,
        };
        value.into()
    }

    /// The upper word of a word that is extended to 64 bits.
    fn sign_word(&mut self, word: Arg, ty: Type) -> Arg {
        match (ty.is_signed(), word) {
            (false, _) => Arg::Imm(0),
            (true, Arg::Imm(n)) => Arg::Imm(n >> 31),
            (true, _) => self.emit(Op::SHF, &[M::R, M::S32, M::HI], 1, &[RZ, Arg::Imm(31), word]).into(),
        }
    }

    fn between_integers(&mut self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Value> {
        let (source, saturate) = (ins.get(1)?, ins.flag("sat"));
        if !saturate && to.bits() <= from.bits() && to.bits() < 64 {
            let word = self.extended_if_constant(source, from)?;
            return Some(self.copy(word));
        }
        let mut words = match from.bits() {
            64 => self.words(source, from)?.to_vec(),
            _ => vec![self.extended(source, from)?],
        };
        if saturate && to.bits() <= 16 && from.is_signed() && words.len() == 1 {
            return Some(self.emit(Op::I2I, &[integer_name(to), &[M::S32, M::SAT]].concat(), 1, &words));
        }
        if saturate {
            self.clamp(&mut words, to, from);
        }
        if to.bits() < 64 {
            return Some(self.copy(words[0]));
        }
        if words.len() == 1 {
            // A value clamped at zero has sign zero.
            let high = self.sign_word(words[0], from);
            words.push(high);
        }
        Some(self.pack(&words))
    }

    /// Clamps to the range of a type.
    fn clamp(&mut self, words: &mut [Arg], to: Type, from: Type) {
        let ((least, greatest), (from_least, from_greatest)) = (range(to), range(from));
        let bounds = [(M::LT, least, from_least < least), (M::GT, greatest, from_greatest > greatest)];
        let source = words.to_vec();
        for (relation, bound, _) in bounds.into_iter().filter(|(_, _, needed)| *needed) {
            let bound_words: Vec<Arg> =
                (0..words.len()).map(|i| Arg::Imm(i64::from((bound >> (32 * i)) as u32 as i32))).collect();
            let outside = self.compare_integers(relation, from.is_signed(), &source, &bound_words);
            for (word, bound) in words.iter_mut().zip(bound_words) {
                *word = self.select_word(*word, bound, Arg::not(outside)).into();
            }
        }
    }

    fn integer_to_float(&mut self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Value> {
        let (source, round) = (ins.get(1)?, rounding(ins));
        let fast = [&[M::F32, if from.is_signed() { M::S32 } else { M::U32 }], round].concat();
        let value = if to == Type::F32 && from.bits() < 64 && self.takes(Op::I2FP, &fast, &[r(0), r(0)]) {
            let word = self.extended(source, from)?;
            self.emit(Op::I2FP, &fast, 1, &[word])
        } else {
            let modifiers = [&float_name_but_f32(to)?, integer_name(from), round].concat();
            let arg = match from.bits() {
                64 => self.wide(source, from)?.into(),
                _ => self.extended_if_constant(source, from)?,
            };
            self.emit(Op::I2F, &modifiers, (to.bits() / 32).max(1) as u8, &[arg])
        };
        let value = self.saturated(ins, to, value);
        // No integer becomes a subnormal number.
        ins.flag("ftz");
        value
    }

    /// A register, or a constant converted to the type.
    fn extended_if_constant(&mut self, operand: &Operand, ty: Type) -> Option<Arg> {
        match constant(operand, ty) {
            Some(_) => self.extended(operand, ty),
            // The counters of 64 bits.
            None if ty.bits() == 64 && matches!(operand, Operand::Special { .. }) => {
                Some(self.words(operand, ty)?[0])
            }
            None => self.word(operand, ty),
        }
    }

    fn float_to_integer(&mut self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Value> {
        let round = integer_rounding(ins)?;
        // The machine always saturates, and so does PTX with and without `.sat`.
        ins.flag("sat");
        let mut flush = ins.flag("ftz");
        let mut arg = match from.bits() {
            64 => self.wide(ins.get(1)?, from)?.into(),
            _ => self.word(ins.get(1)?, from)?,
        };
        // There is no `.FTZ` with 64 bits.
        if flush && to.bits() == 64 {
            arg = self.emit(Op::FMUL, &[M::FTZ], 1, &[arg, Arg::Imm(0x3f80_0000)]).into();
            flush = false;
        }
        // NaN gives zero here, and the least integer (its bit pattern) where f64 or 64 bits are involved.
        let nan: &[M] = if from != Type::F64 && to.bits() < 64 { &[M::NTZ] } else { &[] };
        let modifiers = [ftz(flush), integer_name(to), &float_name_but_f32(from)?, round, nan].concat();
        Some(self.emit(Op::F2I, &modifiers, (to.bits() / 32).max(1) as u8, &[arg]))
    }
}

/// Between floats.
impl<'a> Lower<'_, 'a> {
    fn between_floats(&mut self, ins: &Ins<'a>, to: Type, from: Type) -> Option<()> {
        let value = match (to.name(), from.name()) {
            ("tf32", "f32") => self.tensor_float(ins)?,
            ("f16" | "bf16" | "f16x2" | "bf16x2", "f32") => self.narrowed(ins, to)?,
            (_, "f16" | "bf16" | "f32" | "f64") if float_name(to).is_some() => {
                let value =
                    if to == from { self.same_float(ins, to)? } else { self.another_size(ins, to, from)? };
                self.saturated(ins, to, value)?
            }
            _ => self.tiny_floats(ins, to, from)?,
        };
        self.deliver(ins.get(0)?, value, to)
    }

    /// A source operand as one value.
    fn float_source(&mut self, operand: &Operand, ty: Type) -> Option<Arg> {
        match ty.bits() {
            64 => Some(self.wide(operand, ty)?.into()),
            _ => self.word(operand, ty),
        }
    }

    /// Conversion to the same type: rounded to an integer, or unchanged (NaN becomes the canonical NaN of f16 and
    /// bf16).
    fn same_float(&mut self, ins: &Ins<'a>, ty: Type) -> Option<Value> {
        let (arg, flush) = (self.float_source(ins.get(1)?, ty)?, ftz(ins.flag("ftz")));
        let words = (ty.bits() / 32).max(1) as u8;
        if let Some(round) = integer_rounding(ins) {
            let modifiers = [flush, &float_name_but_f32(ty)?, round].concat();
            return Some(self.emit(Op::FRND, &modifiers, words, &[arg]));
        }
        let half = arg.suffixed(M::H0_H0);
        Some(match ty.name() {
            "f16" => self.emit(Op::HADD2, &[], 1, &[half, Arg::MinusZero]),
            "bf16" => self.emit(Op::HFMA2, &[M::BF16_V2], 1, &[Arg::MinusZero, RZ, half]),
            "f32" if ins.flag("sat") => self.saturated_single(flush, arg),
            "f32" if !flush.is_empty() => self.emit(Op::FADD, flush, 1, &[arg, Arg::MinusZero]),
            _ => self.copy(arg),
        })
    }

    fn another_size(&mut self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Value> {
        let (mut arg, round, flush) = (self.float_source(ins.get(1)?, from)?, rounding(ins), ins.flag("ftz"));
        match (to.name(), from.name()) {
            // Every f16 is a normal f32 or zero: nothing to flush.
            ("f32", "f16") => {
                let half = self.in_register(arg).suffixed(M::H0_H0);
                return Some(self.emit(Op::HADD2, &[M::F32], 1, &[Arg::MinusZero, half]));
            }
            // A bf16 is the upper half of an f32.
            ("f32", "bf16") if !flush => {
                return Some(self.emit(Op::SHF, &[M::L, M::U32], 1, &[arg, Arg::Imm(16), RZ]));
            }
            ("f32", "f64") if flush => return Some(self.flushed_single(arg, round)),
            ("f64", "f32") if flush => {
                arg = self.emit(Op::FMUL, &[M::FTZ], 1, &[arg, Arg::Imm(0x3f80_0000)]).into();
            }
            _ => {}
        }
        let flush = ftz(flush && (to.name(), from.name()) == ("f32", "bf16"));
        let modifiers = [flush, &[float_name(to)?, float_name(from)?], round].concat();
        Some(self.emit(Op::F2F, &modifiers, (to.bits() / 32).max(1) as u8, &[arg]))
    }

    /// f64 to f32 with `.ftz`: a result that is subnormal after rounding to 24 bits becomes zero, by a multiplication
    /// with 2^-126.
    fn flushed_single(&mut self, arg: Arg, round: &[M]) -> Value {
        let single = self.emit(Op::F2F, &[&[M::F32, M::F64], round].concat(), 1, &[arg]);
        // 2^-126, and half a step and a whole step below it.
        let (least, half_below, below) =
            (0x3810_0000_0000_0000, 0x380f_ffff_f000_0000, 0x380f_ffff_e000_0000);
        let normal = match round {
            [M::RM] => {
                let negative = self.compared(M::LTU, M::AND, arg, -0.0, below, PT);
                self.compared(M::GE, M::OR, arg, 0.0, least, negative.into())
            }
            [M::RP] => {
                let positive = self.compared(M::GTU, M::AND, arg, 0.0, below, PT);
                self.compared(M::LE, M::OR, arg, -0.0, least, positive.into())
            }
            [M::RZ] => self.compared(M::GEU, M::AND, arg.absolute(), 0.0, least, PT),
            _ => self.compared(M::GEU, M::AND, arg.absolute(), 0.0, half_below, PT),
        };
        self.unless(normal, Op::FMUL, single, Arg::Imm(0x0080_0000))
    }

    /// Compares a double with a bound that has the sign of `sign`.
    fn compared(&mut self, how: M, combine: M, arg: Arg, sign: f64, bound: u64, with: Arg) -> Value {
        let bound = bound | sign.to_bits();
        let half = |word: u64| Arg::Imm(i64::from(word as u32 as i32));
        let bound = self.pack(&[half(bound), half(bound >> 32)]);
        self.emit_p(Op::DSETP, &[how, combine], &[PT, arg, bound.into(), with])
    }

    /// `.sat` of a float: clamps to [0, 1], NaN to zero.
    fn saturated(&mut self, ins: &Ins<'a>, ty: Type, value: Value) -> Option<Value> {
        if !ins.flag("sat") {
            return Some(value);
        }
        Some(match ty.name() {
            "f32" => self.saturated_single(ftz(ins.flag("ftz")), value.into()),
            "f16" => self.saturated_half(value),
            "f64" => {
                let (zero, one) = (
                    self.pack(&[Arg::Imm(0), Arg::Imm(0)]),
                    self.pack(&[Arg::Imm(0), Arg::Imm(0x3ff0_0000)]),
                );
                let above = self.min_max64(M::MAX, zero, value);
                self.min_max64(M::MIN, above, one)
            }
            _ => return None,
        })
    }

    fn saturated_single(&mut self, flush: &[M], value: Arg) -> Value {
        self.emit(Op::FADD, &[flush, &[M::SAT]].concat(), 1, &[RZ, value])
    }

    fn saturated_half(&mut self, value: Value) -> Value {
        self.emit(Op::HADD2, &[M::SAT], 1, &[Arg::from(value).suffixed(M::H0_H0), Arg::MinusZero])
    }

    /// f32 to f16 or bf16, or two of them to a packed pair: the first is the upper half.
    fn narrowed(&mut self, ins: &Ins<'a>, to: Type) -> Option<Value> {
        let format = if to.name().starts_with("bf16") { M::BF16 } else { M::F16 };
        let stochastic = ins.flag("rs");
        let (round, limits) = (rounding(ins), limits(ins));
        // A subnormal f32 becomes zero or (rounded away from zero) the smallest f16, flushed or not; ptxas ignores
        // `.ftz` too. But a bf16 can be subnormal as well.
        let flush = ins.flag("ftz") && format == M::BF16;
        let mut first = self.word(ins.get(1)?, Type::F32)?;
        if flush {
            first = self.emit(Op::FADD, &[M::FTZ], 1, &[first, Arg::MinusZero]).into();
        }
        if to.bits() == 32 {
            let second = self.word(ins.get(2)?, Type::F32)?;
            let (how, random): (&[M], _) = match stochastic {
                true => (&[M::RS], Some(self.word(ins.get(3)?, Type::B32)?)),
                false => (round, None),
            };
            let args: Vec<Arg> = [first, second].into_iter().chain(random).collect();
            return self.pack_floats(&limits, format, M::PACK_AB, how, &args);
        }
        let value = if matches!(round, [M::RM | M::RP]) || !self.has(Op::F2FP) {
            let value = self.emit(Op::F2F, &[&[format, M::F32], round].concat(), 1, &[first]);
            match limits[..] {
                [] => value,
                [M::SATFINITE] => self.finite_half(first, value),
                _ => return None,
            }
        } else if limits.is_empty() {
            self.pack_floats(&limits, format, M::PACK_AB, round, &[RZ, first])?
        } else {
            self.pack_floats(&limits, format, M::MERGE_C, round, &[first, RZ])?
        };
        Some(if ins.flag("sat") { self.saturated_half(value) } else { value })
    }

    /// `.satfinite` of f16 where no operation has it: clamps to the largest finite number.
    fn finite_half(&mut self, source: Arg, value: Value) -> Value {
        let source = self.in_register(source);
        let args = [PT, source.absolute(), Arg::Imm(0x477f_e000), PT];
        let large = self.emit_p(Op::FSETP, &[M::GT, M::AND], &args);
        let upper = self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, Arg::Imm(16), source]);
        let signed = self.lop3(upper.into(), Arg::Imm(0x8000), Arg::Imm(0x7bff), 0xea);
        self.select_word(signed.into(), value.into(), large.into())
    }

    /// F2FP. Before sm_89 the modifiers of the usual formats are left out.
    pub(crate) fn pack_floats(
        &mut self,
        limits: &[M],
        to: M,
        form: M,
        round: &[M],
        args: &[Arg],
    ) -> Option<Value> {
        let named = [limits, &[to, M::F32, form], round].concat();
        let kinds: Vec<sass::Operand> = std::iter::repeat_n(r(0), args.len() + 1).collect();
        if self.takes(Op::F2FP, &named, &kinds) {
            return Some(self.emit(Op::F2FP, &named, 1, args));
        }
        let format: &[M] = if to == M::BF16 { &[M::BF16] } else { &[] };
        let short = [limits, format, &[form], round].concat();
        self.takes(Op::F2FP, &short, &kinds).then(|| self.emit(Op::F2FP, &short, 1, args))
    }

    /// tf32 is an f32 whose low 13 bits are zero.
    fn tensor_float(&mut self, ins: &Ins<'a>) -> Option<Value> {
        let source = self.word(ins.get(1)?, Type::F32)?;
        if !ins.flag("rna") {
            let (round, limits) = (rounding(ins), limits(ins));
            return self.pack_floats(&limits, M::TF32, M::PACK_B, round, &[source]);
        }
        // Round to nearest, ties away from zero: add half a unit in the last place, then truncate. Not for infinity and
        // NaN.
        let source = self.register(source);
        let special = self.is_infinite_or_nan(source);
        let more = self.emit(Op::IADD3, &[], 1, &[source.into(), Arg::Imm(0x1000), RZ]);
        let more = self.select_word(source.into(), more.into(), special.into());
        let cut = self.lop3(more.into(), Arg::Imm(-0x2000), RZ, 0xc0);
        if !ins.flag("satfinite") {
            return Some(cut);
        }
        // The largest finite number.
        let special = self.is_infinite_or_nan(cut);
        let less = self.emit(Op::IADD3, &[], 1, &[cut.into(), Arg::Imm(-0x2000), RZ]);
        Some(self.select_word(less.into(), cut.into(), special.into()))
    }

    fn is_infinite_or_nan(&mut self, value: Value) -> Value {
        let args = [PT, Arg::from(value).absolute(), Arg::Imm(0x7f80_0000), PT];
        self.emit_p(Op::FSETP, &[M::GEU, M::AND], &args)
    }

    /// Formats of 8, 6 and 4 bits: two or four from f32, two from a packed pair of halves, or two to such a pair.
    fn tiny_floats(&mut self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Value> {
        let (stochastic, round, limits) = (ins.flag("rs"), rounding(ins), limits(ins));
        if let Some(source) = tiny_name(from) {
            let to = if to.name() == "bf16x2" { M::BF16 } else { M::F16 };
            let modifiers = [&limits[..], &[to, source, M::UNPACK_B]].concat();
            let arg = self.word(ins.get(1)?, from)?;
            return self.checked(&modifiers, &[arg]);
        }
        let format = tiny_name(to)?;
        if from.name() != "f32" {
            let from_name = if from.name() == "bf16x2" { M::BF16 } else { M::F16 };
            let modifiers = [&limits[..], &[format, from_name, M::UNPACK_B_MERGE_C], round].concat();
            let arg = self.word(ins.get(1)?, from)?;
            return self.checked(&modifiers, &[arg, RZ]);
        }
        let how: &[M] = if stochastic { &[M::RS] } else { round };
        let modifiers = [&limits[..], &[format, M::F32, M::PACK_AB_MERGE_C], how].concat();
        if !stochastic {
            let (a, b) = (self.word(ins.get(1)?, from)?, self.word(ins.get(2)?, from)?);
            return self.checked(&modifiers, &[a, b, RZ]);
        }
        // The random bits are an operand of the first conversion, whose result is an operand of the second.
        let Operand::Vector(range) = ins.get(1)? else { return None };
        let body = self.body;
        let [a, b, c, d] = body.list(*range) else { return None };
        let (a, b) = (self.word(a, from)?, self.word(b, from)?);
        let (c, d) = (self.word(c, from)?, self.word(d, from)?);
        let random = self.word(ins.get(2)?, Type::B32)?;
        let upper = self.checked(&modifiers, &[a, b, random])?;
        self.checked(&modifiers, &[c, d, upper.into()])
    }

    /// F2FP with these modifiers, if the machine has it.
    fn checked(&mut self, modifiers: &[M], args: &[Arg]) -> Option<Value> {
        let kinds: Vec<sass::Operand> = std::iter::repeat_n(r(0), args.len() + 1).collect();
        self.takes(Op::F2FP, modifiers, &kinds).then(|| self.emit(Op::F2FP, modifiers, 1, args))
    }
}

/// `.satfinite` and `.relu`, in the machine's order.
fn limits(ins: &Ins) -> Vec<M> {
    let words = [("satfinite", M::SATFINITE), ("relu", M::RELU)];
    words.into_iter().filter(|(word, _)| ins.flag(word)).map(|(_, m)| m).collect()
}

/// A format of 8 bits or less.
fn tiny_name(ty: Type) -> Option<M> {
    Some(match ty.name() {
        "e4m3x2" | "e4m3x4" => M::E4M3,
        "e5m2x2" | "e5m2x4" => M::E5M2,
        "e2m3x2" | "e2m3x4" => M::E2M3,
        "e3m2x2" | "e3m2x4" => M::E3M2,
        "e2m1x2" | "e2m1x4" => M::E2M1,
        "ue8m0x2" => M::E8,
        _ => return None,
    })
}
