//! Comparisons, and choices by a predicate or a sign.

use super::{Decoder, Ins, Number, Source, map, map_two};
use crate::ptx::program::{Action, Dest};
use ::ptx::Type;
use ::ptx::words::Kind;
use ori::arith::float::{self, F32};
use ori::arith::{Compare, Int};
use std::sync::Arc;

/// Of two registers, what holds for the lower and for the upper element; of a single value twice the same.
type Test = Arc<dyn Fn(u64, u64) -> (bool, bool) + Send + Sync>;
type Boolean = fn(bool, bool) -> bool;

impl<'a> Decoder<'a> {
    pub(super) fn compare(&self, ins: &Ins<'a>) -> Option<Action> {
        match ins.mnemonic() {
            "setp" => self.setp(ins),
            "set" => self.set(ins),
            "selp" => self.selp(ins),
            "slct" => self.slct(ins),
            _ => self.testp(ins),
        }
    }

    fn test(&self, ins: &Ins, ty: Type) -> Option<Test> {
        let word = ins.word(Kind::Compare)?;
        let ftz = ins.flag("ftz");
        let compare = comparison(word)?;
        Some(match Number::of(ty)? {
            Number::Int(int, 1) => {
                // `lo ls hi hs` are the unsigned comparisons.
                let int = Int { signed: int.signed && !matches!(word, "lo" | "ls" | "hi" | "hs"), ..int };
                Arc::new(move |a, b| {
                    let holds = compare.holds(Some(int.compare(a, b)));
                    (holds, holds)
                })
            }
            Number::Float(format, 1) => Arc::new(move |a, b| {
                let holds = compare.holds(float::ordering(format, ftz, a, b));
                (holds, holds)
            }),
            Number::Float(format, _) => {
                let (width, mask) = (format.width(), u64::MAX >> (64 - format.width()));
                let holds =
                    move |a: u64, b: u64| compare.holds(float::ordering(format, ftz, a & mask, b & mask));
                Arc::new(move |a, b| (holds(a, b), holds(a >> width, b >> width)))
            }
            Number::Int(..) => return None,
        })
    }

    fn boolean(&self, ins: &Ins) -> Option<Boolean> {
        ins.choose(&[("and", (|a, b| a & b) as Boolean), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)])
    }

    /// The two values to compare, and the predicate to combine the result with.
    fn compared(&self, ins: &Ins<'a>, ty: Type, combined: bool) -> Option<Vec<Source>> {
        let predicate = if combined { self.predicate(ins.get(3)?)? } else { Source::constant(1) };
        Some(vec![self.source(ins.get(1)?, ty)?, self.source(ins.get(2)?, ty)?, predicate])
    }

    /// The second result is for the opposite of the comparison, or for the upper elements of pairs.
    fn setp(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        let boolean = self.boolean(ins);
        let test = self.test(ins, ty)?;
        let pairs = matches!(Number::of(ty)?, Number::Float(_, 2));
        let dests = self.pair(ins.get(0)?, Type::PRED)?;
        let sources = self.compared(ins, ty, boolean.is_some())?;
        let boolean = boolean.unwrap_or(|a, b| a & b);
        let function = map_two(move |[a, b, p]: [u64; 3]| {
            let (low, high) = test(a, b);
            let second = if pairs { high } else { !low };
            (u64::from(boolean(low, p != 0)), u64::from(boolean(second, p != 0)))
        });
        Some(Action::Compute { sources: sources.into(), dests: dests.into(), function })
    }

    fn set(&self, ins: &Ins<'a>) -> Option<Action> {
        let boolean = self.boolean(ins);
        let (to, from) = (ins.ty()?, ins.ty()?);
        let test = self.test(ins, from)?;
        let dest = self.dest(ins.get(0)?, to)?;
        let sources = self.compared(ins, from, boolean.is_some())?;
        let boolean = boolean.unwrap_or(|a, b| a & b);
        let pairs = matches!(Number::of(from)?, Number::Float(_, 2));
        let yes = match Number::of(to)? {
            Number::Float(format, _) => format.one(),
            Number::Int(..) if pairs => 0xffff,
            Number::Int(int, _) => int.mask(),
        };
        let function = map(move |[a, b, p]: [u64; 3]| {
            let (low, high) = test(a, b);
            let value = |holds: bool| if boolean(holds, p != 0) { yes } else { 0 };
            if pairs { value(high) << 16 | value(low) } else { value(low) }
        });
        self.compute(dest, sources, function)
    }

    fn selp(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        let dest = self.dest(ins.get(0)?, ty)?;
        let sources =
            vec![self.source(ins.get(1)?, ty)?, self.source(ins.get(2)?, ty)?, self.predicate(ins.get(3)?)?];
        self.compute(dest, sources, map(|[a, b, p]: [u64; 3]| if p != 0 { a } else { b }))
    }

    /// The first value where the third is not negative; a NaN chooses the second.
    fn slct(&self, ins: &Ins<'a>) -> Option<Action> {
        let (ty, by) = (ins.ty()?, ins.ty()?);
        let ftz = ins.flag("ftz");
        let dest = self.dest(ins.get(0)?, ty)?;
        let sources =
            vec![self.source(ins.get(1)?, ty)?, self.source(ins.get(2)?, ty)?, self.source(ins.get(3)?, by)?];
        let function = match Number::of(by)? {
            Number::Int(int, _) => {
                map(move |[a, b, c]: [u64; 3]| if int.sign_extended(c) >> 63 == 0 { a } else { b })
            }
            Number::Float(..) => map(
                move |[a, b, c]: [u64; 3]| {
                    if Compare::Ge.holds(float::ordering(F32, ftz, c, 0)) { a } else { b }
                },
            ),
        };
        self.compute(dest, sources, function)
    }

    /// ptxas counts zero as normal.
    fn testp(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        let Number::Float(format, 1) = Number::of(ty)? else { return None };
        type Property = fn(float::Format, u64) -> bool;
        let property = ins.choose(&[
            ("finite", (|f, x| !f.is_nan(x) && !f.is_infinite(x)) as Property),
            ("infinite", |f, x| f.is_infinite(x)),
            ("number", |f, x| !f.is_nan(x)),
            ("notanumber", |f, x| f.is_nan(x)),
            ("normal", |f, x| !f.is_nan(x) && !f.is_infinite(x) && !f.is_subnormal(x)),
            ("subnormal", |f, x| f.is_subnormal(x)),
        ])?;
        let dest: Dest = self.dest(ins.get(0)?, Type::PRED)?;
        let sources = vec![self.source(ins.get(1)?, ty)?];
        self.compute(dest, sources, map(move |[a]: [u64; 1]| u64::from(property(format, a))))
    }
}

pub(super) fn comparison(word: &str) -> Option<Compare> {
    Some(match word {
        "eq" => Compare::Eq,
        "ne" => Compare::Ne,
        "lt" | "lo" => Compare::Lt,
        "le" | "ls" => Compare::Le,
        "gt" | "hi" => Compare::Gt,
        "ge" | "hs" => Compare::Ge,
        "equ" => Compare::Equ,
        "neu" => Compare::Neu,
        "ltu" => Compare::Ltu,
        "leu" => Compare::Leu,
        "gtu" => Compare::Gtu,
        "geu" => Compare::Geu,
        "num" => Compare::Num,
        "nan" => Compare::Nan,
        _ => return None,
    })
}
