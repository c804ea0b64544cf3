//! Lowers `setp`, `set`, `selp`, `slct`, `testp`.
//!
//! A comparison is one machine operation, which also combines its outcome with a predicate. 64-bit integers take two:
//! the second (`.EX`) reads the outcome of the low words.

use crate::lower::Lower;
use crate::lower::arith::convert::is_half;
use crate::lower::build::{PT, RZ};
use crate::lower::instruction::Ins;
use ori::{Arg, File, Value};
use ptx::Type;
use ptx::ast::Operand;
use sass::{M, Op};

/// PTX's relations and the machine's. Integers have the first six and the unsigned ones after them; the rest is for
/// floats, where `ne` is false for NaN and `neu` is true.
const RELATIONS: [(&str, M); 18] = [
    ("eq", M::EQ),
    ("ne", M::NE),
    ("lt", M::LT),
    ("le", M::LE),
    ("gt", M::GT),
    ("ge", M::GE),
    ("lo", M::LT),
    ("ls", M::LE),
    ("hi", M::GT),
    ("hs", M::GE),
    ("equ", M::EQU),
    ("neu", M::NEU),
    ("ltu", M::LTU),
    ("leu", M::LEU),
    ("gtu", M::GTU),
    ("geu", M::GEU),
    ("num", M::NUM),
    ("nan", M::NAN),
];

/// The predicate that an outcome is combined with; by default `AND PT`.
#[derive(Clone, Copy)]
struct Combine {
    op: M,
    with: Arg,
}

const ALONE: Combine = Combine { op: M::AND, with: PT };

/// A PTX comparison: relation, type of the sources, `.ftz`, and the combination.
struct Comparison {
    relation: M,
    ty: Type,
    ftz: bool,
    combine: Combine,
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn compare(&mut self, ins: &Ins<'a>) -> Option<()> {
        match ins.mnemonic() {
            "setp" => self.setp(ins),
            "set" => self.set_number(ins),
            "selp" => self.selp(ins),
            "slct" => self.slct(ins),
            "testp" => self.testp(ins),
            _ => None,
        }
    }

    /// `ty` is the type of the sources, which are operands 1 and 2; a fourth operand is a predicate.
    fn comparison(&mut self, ins: &Ins<'a>, ty: Type) -> Option<Comparison> {
        let word = ins.one_of(&RELATIONS.map(|(name, _)| name))?;
        let (_, relation) = RELATIONS.into_iter().find(|(name, _)| *name == word)?;
        let op = match ins.one_of(&["and", "or", "xor"]) {
            Some("or") => M::OR,
            Some("xor") => M::XOR,
            _ => M::AND,
        };
        let with = match ins.get(3) {
            Some(operand) => self.predicate(operand)?,
            None => PT,
        };
        Some(Comparison { relation, ty, ftz: ins.flag("ftz"), combine: Combine { op, with } })
    }

    fn setp(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let compare = self.comparison(ins, ty)?;
        let (a, b) = (ins.get(1)?, ins.get(2)?);
        let (p, q) = match ins.get(0)? {
            Operand::Pair(range) => match self.body.list(*range) {
                [p, q] => (p, Some(q)),
                _ => return None,
            },
            p => (p, None),
        };
        // A packed comparison gives an outcome for each half.
        if ty.name().ends_with("16x2") {
            let (low, high) = self.outcomes(&compare, a, b)?;
            self.set(p, low)?;
            return q.map_or(Some(()), |q| self.set(q, high));
        }
        let outcome = self.outcome(&compare, a, b)?;
        let complement = q.map(|_| self.complement(&compare.combine, outcome));
        self.set(p, outcome)?;
        q.zip(complement).map_or(Some(()), |(q, value)| self.set(q, value))
    }

    /// The second result of `setp`: the negated outcome, combined with the same predicate. From `p = t op c`: `!t & c`
    /// is `c & !p`, `!t | c` is `c | !p`, `!t ^ c` is `!p`.
    fn complement(&mut self, combine: &Combine, p: Value) -> Value {
        // Truth tables of PLOP3 for a = c and b = p, where a is 0xf0, b 0xcc.
        let table = match combine.op {
            M::OR => 0xf0 | 0x33,
            M::XOR => 0x33,
            _ => 0xf0 & 0x33,
        };
        self.emit_p(Op::PLOP3, &[M::LUT], &[PT, combine.with, p.into(), PT, Arg::Imm(table), Arg::Imm(0)])
    }

    /// A comparison of single values, as a predicate.
    fn outcome(&mut self, compare: &Comparison, a: &Operand, b: &Operand) -> Option<Value> {
        let Comparison { relation, ty, ftz, combine } = *compare;
        if is_half(ty) {
            let (a, b) = (self.half_operand(a, ty)?, self.half_operand(b, ty)?);
            return Some(self.emit_p(Op::HSETP2, &half_modifiers(compare, &[]), &[PT, a, b, combine.with]));
        }
        if ty == Type::F64 {
            let (a, b) = (self.wide(a, ty)?, self.wide(b, ty)?);
            let args = [PT, a.into(), b.into(), combine.with];
            return Some(self.emit_p(Op::DSETP, &[relation, combine.op], &args));
        }
        if ty == Type::F32 {
            let (a, b) = (self.word(a, ty)?, self.word(b, ty)?);
            let modifiers: &[M] = if ftz { &[relation, M::FTZ, combine.op] } else { &[relation, combine.op] };
            return Some(self.emit_p(Op::FSETP, modifiers, &[PT, a, b, combine.with]));
        }
        let (a, b) = match ty.bits() {
            64 => (self.words(a, ty)?.to_vec(), self.words(b, ty)?.to_vec()),
            _ => (vec![self.extended(a, ty)?], vec![self.extended(b, ty)?]),
        };
        Some(self.integers(relation, ty.is_signed(), &a, &b, combine))
    }

    /// Compares integers of one or two words.
    pub(crate) fn compare_integers(&mut self, relation: M, signed: bool, a: &[Arg], b: &[Arg]) -> Value {
        self.integers(relation, signed, a, b, ALONE)
    }

    /// Integers of one or two words.
    fn integers(&mut self, relation: M, signed: bool, a: &[Arg], b: &[Arg], combine: Combine) -> Value {
        let sign: &[M] = if signed { &[] } else { &[M::U32] };
        match (a, b) {
            ([low_a, high_a], [low_b, high_b]) => {
                let low = self.emit_p(Op::ISETP, &[relation, M::U32, M::AND], &[PT, *low_a, *low_b, PT]);
                let modifiers = [&[relation], sign, &[combine.op, M::EX]].concat();
                self.emit_p(Op::ISETP, &modifiers, &[PT, *high_a, *high_b, combine.with, low.into()])
            }
            _ => {
                let modifiers = [&[relation], sign, &[combine.op]].concat();
                self.emit_p(Op::ISETP, &modifiers, &[PT, a[0], b[0], combine.with])
            }
        }
    }

    /// A comparison of pairs of halves: of the low ones, and of the high ones.
    fn outcomes(&mut self, compare: &Comparison, a: &Operand, b: &Operand) -> Option<(Value, Value)> {
        let (a, b) = (self.half_operand(a, compare.ty)?, self.half_operand(b, compare.ty)?);
        let (low, high) = (self.kernel.code.value(File::P, 1), self.kernel.code.value(File::P, 1));
        let modifiers = half_modifiers(compare, &[]);
        self.emit_to(Op::HSETP2, &modifiers, &[low, high], &[a, b, compare.combine.with]);
        Some((low, high))
    }

    /// `set`: all ones or 1.0 where the comparison holds, else zero.
    fn set_number(&mut self, ins: &Ins<'a>) -> Option<()> {
        let [to, from] = ins.types()[..] else { return None };
        let compare = self.comparison(ins, from)?;
        let (a, b) = (ins.get(1)?, ins.get(2)?);
        let value = if from.name().ends_with("16x2") {
            let (a, b) = (self.half_operand(a, from)?, self.half_operand(b, from)?);
            let float: &[M] = if to == from { &[M::BF] } else { &[] };
            self.emit(Op::HSET2, &half_modifiers(&compare, float), 1, &[a, b, compare.combine.with])
        } else {
            let yes = match to.name() {
                "f32" => 0x3f80_0000,
                "f16" => 0x3c00,
                "bf16" => 0x3f80,
                "u16" | "s16" | "u32" | "s32" => -1,
                _ => return None,
            };
            let outcome = self.outcome(&compare, a, b)?;
            self.emit(Op::SEL, &[], 1, &[RZ, Arg::Imm(yes), Arg::not(outcome)])
        };
        self.set(ins.get(0)?, value)
    }

    fn selp(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let p = self.predicate(ins.get(3)?)?;
        let value = self.select(ty, ins.get(1)?, ins.get(2)?, p)?;
        self.set(ins.get(0)?, value)
    }

    fn slct(&mut self, ins: &Ins<'a>) -> Option<()> {
        let [ty, of] = ins.types()[..] else { return None };
        let c = self.word(ins.get(3)?, of)?;
        let p = match (of == Type::F32, ins.flag("ftz")) {
            // NaN is not greater: it takes the second operand.
            (true, true) => self.emit_p(Op::FSETP, &[M::GE, M::FTZ, M::AND], &[PT, c, RZ, PT]),
            (true, false) => self.emit_p(Op::FSETP, &[M::GE, M::AND], &[PT, c, RZ, PT]),
            (false, _) => self.emit_p(Op::ISETP, &[M::GE, M::AND], &[PT, c, RZ, PT]),
        };
        let value = self.select(ty, ins.get(1)?, ins.get(2)?, p.into())?;
        self.set(ins.get(0)?, value)
    }

    /// `p ? a : b`, word by word.
    fn select(&mut self, ty: Type, a: &Operand, b: &Operand, p: Arg) -> Option<Value> {
        if ty.bits() == 64 {
            let (a, b) = (self.words(a, ty)?, self.words(b, ty)?);
            let words = [self.select_word(a[0], b[0], p), self.select_word(a[1], b[1], p)];
            return Some(self.pack(&words.map(Arg::from)));
        }
        let (a, b) = (self.word(a, ty)?, self.word(b, ty)?);
        Some(self.select_word(a, b, p))
    }

    /// SEL takes a constant as its second operand only.
    pub(crate) fn select_word(&mut self, a: Arg, b: Arg, p: Arg) -> Value {
        let (a, b, p) = match (a, b) {
            (Arg::Imm(_), Arg::Use(_)) => (b, a, p.negated()),
            _ => (a, b, p),
        };
        self.emit(Op::SEL, &[], 1, &[a, b, p])
    }

    /// Tests of a float by its bits without the sign: zero < subnormal < normal < infinity < NaN.
    fn testp(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let (mut bits, smallest_normal, infinity) = match ty.bits() {
            64 => (self.words(ins.get(1)?, ty)?.to_vec(), 0x0010_0000, 0x7ff0_0000),
            _ => (vec![self.word(ins.get(1)?, ty)?], 0x0080_0000, 0x7f80_0000),
        };
        let high = bits.len() - 1;
        bits[high] = self.lop3(bits[high], Arg::Imm(0x7fff_ffff), RZ, 0xc0).into();
        let mut is = |relation: M, bound: i64, combine: Combine| {
            let mut bound_words = vec![RZ; high + 1];
            bound_words[high] = if bound == 0 { RZ } else { Arg::Imm(bound) };
            self.integers(relation, false, &bits, &bound_words, combine)
        };
        let and = |p: Value| Combine { op: M::AND, with: p.into() };
        let value =
            match ins.one_of(&["finite", "infinite", "number", "notanumber", "normal", "subnormal"])? {
                "finite" => is(M::LT, infinity, ALONE),
                "infinite" => is(M::EQ, infinity, ALONE),
                "number" => is(M::LE, infinity, ALONE),
                "notanumber" => is(M::GT, infinity, ALONE),
                "normal" => {
                    let finite = is(M::LT, infinity, ALONE);
                    let normal = is(M::GE, smallest_normal, and(finite));
                    // Zero counts as normal.
                    is(M::EQ, 0, Combine { op: M::OR, with: normal.into() })
                }
                _ => {
                    let small = is(M::LT, smallest_normal, ALONE);
                    is(M::NE, 0, and(small))
                }
            };
        self.set(ins.get(0)?, value)
    }
}

/// The modifiers of HSETP2 and HSET2, in the order of the assembly text.
fn half_modifiers(compare: &Comparison, result: &[M]) -> Vec<M> {
    let format: &[M] = if compare.ty.name().starts_with("bf16") { &[M::BF16_V2] } else { &[] };
    let ftz: &[M] = if compare.ftz { &[M::FTZ] } else { &[] };
    [format, result, &[compare.relation], ftz, &[compare.combine.op]].concat()
}
