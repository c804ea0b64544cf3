//! `cvt` and `cvt.pack`.
//!
//! The machine has one operation for each pair of classes: I2F, F2I, F2F (and F2FP, I2FP, HADD2 where they are
//! faster), FRND; integers are extended, cut and clamped by hand. A result that is narrower than its register fills it
//! as the type says: with its sign, or with zeros.

use super::Lower;
use super::build::{RZ, constant};
use super::instruction::Ins;
use ori::{Arg, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::operands::r;
use sass::{M, Op};

/// f16, bf16, or a pair of one of them.
pub fn is_half(ty: Type) -> bool {
    matches!(ty.name(), "f16" | "bf16" | "f16x2" | "bf16x2")
}

/// The rounding of a float result. To nearest is silent.
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

/// An integer type in a machine operation; s32 is silent.
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

/// A float type in a machine operation.
fn float_name(ty: Type) -> Option<M> {
    Some(match ty.name() {
        "f16" => M::F16,
        "bf16" => M::BF16,
        "f32" => M::F32,
        "f64" => M::F64,
        _ => return None,
    })
}

/// The same where f32 is silent.
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
    pub(super) fn convert(&mut self, ins: &Ins<'a>) -> Option<()> {
        if ins.mnemonic() == "cvt.pack" {
            return None;
        }
        let [to, from] = ins.types()[..] else { return None };
        let value = match (to.is_int(), from.is_int()) {
            (true, true) => self.between_integers(ins, to, from)?,
            (true, false) => self.to_integer(ins, to, from)?,
            (false, true) => self.from_integer(ins, to, from)?,
            (false, false) => return None,
        };
        self.deliver(ins.get(0)?, value, to)
    }

    /// Writes a result of type `ty`, filling up a wider register.
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

    /// An integer of up to 32 bits as a full word.
    pub(super) fn extended(&mut self, operand: &Operand, ty: Type) -> Option<Arg> {
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

    /// The low bits of a register that a type has, as a full word.
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

    /// The upper word of a full word that becomes 64 bits.
    fn sign_word(&mut self, word: Arg, ty: Type) -> Arg {
        match (ty.is_signed(), word) {
            (false, _) => Arg::Imm(0),
            (true, Arg::Imm(n)) => Arg::Imm(n >> 31),
            (true, _) => self.emit(Op::SHF, &[M::R, M::S32, M::HI], 1, &[RZ, Arg::Imm(31), word]).into(),
        }
    }

    fn between_integers(&mut self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Value> {
        let source = ins.get(1)?;
        let mut words = match from.bits() {
            64 => self.words(source, from)?.to_vec(),
            _ => vec![self.extended(source, from)?],
        };
        if ins.flag("sat") {
            self.clamp(&mut words, to, from);
        }
        if to.bits() < 64 {
            return Some(self.copy(words[0]));
        }
        if words.len() == 1 {
            // What was clamped at zero has a sign of zero.
            let high = self.sign_word(words[0], from);
            words.push(high);
        }
        Some(self.pack(&words))
    }

    /// Replaces what lies outside of a type's range by the nearest end of it.
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

    fn from_integer(&mut self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Value> {
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
        self.saturated(ins, to, value)
    }

    /// A register as it is, a constant as the type sees it.
    fn extended_if_constant(&mut self, operand: &Operand, ty: Type) -> Option<Arg> {
        match constant(operand, ty) {
            Some(_) => self.extended(operand, ty),
            None => self.word(operand, ty),
        }
    }

    fn to_integer(&mut self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Value> {
        let round = integer_rounding(ins)?;
        // The machine always saturates, and so does PTX with and without the word.
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
        // NaN gives zero here, and the least integer (as bits) where f64 or 64 bits are involved.
        let nan: &[M] = if from != Type::F64 && to.bits() < 64 { &[M::NTZ] } else { &[] };
        let modifiers = [ftz(flush), integer_name(to), &float_name_but_f32(from)?, round, nan].concat();
        Some(self.emit(Op::F2I, &modifiers, (to.bits() / 32).max(1) as u8, &[arg]))
    }

    /// `.sat` of a float: into 0 to 1, and NaN to zero.
    fn saturated(&mut self, ins: &Ins<'a>, ty: Type, value: Value) -> Option<Value> {
        if !ins.flag("sat") {
            return Some(value);
        }
        match ty.name() {
            "f32" => Some(self.emit(Op::FADD, &[M::SAT], 1, &[RZ, value.into()])),
            "f16" => Some(self.emit(
                Op::HADD2,
                &[M::SAT],
                1,
                &[Arg::from(value).suffixed(M::H0_H0), Arg::MinusZero],
            )),
            _ => None,
        }
    }
}
