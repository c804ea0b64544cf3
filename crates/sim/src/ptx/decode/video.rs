//! Video instructions.

use super::compare::comparison;
use super::{Decoder, Ins, Source, map};
use crate::ptx::program::Action;
use ::ptx::Type;
use ::ptx::ast::Operand;
use ::ptx::words::Kind;
use ori::arith::video::{self, Argument, MultiplyAdd, Operation, Part, Scalar, Second, Simd};

impl<'a> Decoder<'a> {
    pub(super) fn video(&self, ins: &Ins<'a>) -> Option<Action> {
        let name = ins.mnemonic();
        if name == "vmad" {
            return self.video_multiply_add(ins);
        }
        let lanes = name.chars().last()?.to_digit(10);
        let operation = match name.trim_end_matches(['2', '4']) {
            "vadd" => Operation::Add,
            "vsub" => Operation::Sub,
            "vabsdiff" => Operation::AbsDiff,
            "vmin" => Operation::Min,
            "vmax" => Operation::Max,
            "vavrg" => Operation::Average,
            "vshl" => Operation::ShiftLeft { wrap: wrap(ins)? },
            "vshr" => Operation::ShiftRight { wrap: wrap(ins)? },
            "vset" => Operation::Set(comparison(ins.word(Kind::Compare)?)?),
            _ => return None,
        };
        // The result of `vset` is unsigned, and has no type of its own.
        let signed = !matches!(operation, Operation::Set(_)) && ins.ty()?.is_signed();
        let (a_signed, b_signed) = (ins.ty()?.is_signed(), ins.ty()?.is_signed());
        let saturate = ins.flag("sat");
        let second = ins.word(Kind::Op);
        match lanes {
            Some(lanes) => {
                let (a_select, b_select) = Simd::default_selectors(lanes);
                let accumulate = match second {
                    None => false,
                    Some("add") => true,
                    Some(_) => return None,
                };
                let selected = |i: usize, default: u32| select(ins.get(i)?, default);
                let how = Simd {
                    operation,
                    lanes,
                    a_select: selected(1, a_select)?,
                    b_select: selected(2, b_select)?,
                    a_signed,
                    b_signed,
                    signed,
                    saturate,
                    accumulate,
                    mask: lane_mask(ins.get(0)?, lanes)?,
                };
                self.video_compute(ins, move |a, b, c| video::simd(how, a, b, c))
            }
            None => {
                let argument = |i: usize, signed: bool| Some(Argument { part: part(ins.get(i)?)?, signed });
                let second = match (second, ins.get(0)?) {
                    (None, Operand::Part { .. }) => Second::Merge(part(ins.get(0)?)?),
                    (None, _) => Second::None,
                    (Some("add"), _) => Second::Add,
                    (Some("min"), _) => Second::Min,
                    (Some("max"), _) => Second::Max,
                    (Some(_), _) => return None,
                };
                let how = Scalar {
                    operation,
                    a: argument(1, a_signed)?,
                    b: argument(2, b_signed)?,
                    signed,
                    saturate,
                    second,
                };
                self.video_compute(ins, move |a, b, c| video::scalar(how, a, b, c))
            }
        }
    }

    fn video_multiply_add(&self, ins: &Ins<'a>) -> Option<Action> {
        let _ = ins.ty()?;
        let (a_signed, b_signed) = (ins.ty()?.is_signed(), ins.ty()?.is_signed());
        let negated = |i: usize| {
            ins.get(i).is_some_and(|o| matches!(o, Operand::Negated(_) | Operand::Part { negated: true, .. }))
        };
        let how = MultiplyAdd {
            a: Argument { part: part(ins.get(1)?)?, signed: a_signed },
            b: Argument { part: part(ins.get(2)?)?, signed: b_signed },
            negate_product: negated(1) != negated(2),
            negate_c: negated(3),
            plus_one: ins.flag("po"),
            shift: ins.choose(&[("shr7", 7), ("shr15", 15)]).unwrap_or(0),
            saturate: ins.flag("sat"),
        };
        self.video_compute(ins, move |a, b, c| video::multiply_add(how, a, b, c))
    }

    /// Whole registers go in; the selectors are in the function.
    fn video_compute(
        &self,
        ins: &Ins<'a>,
        f: impl Fn(u32, u32, u32) -> u32 + Send + Sync + 'static,
    ) -> Option<Action> {
        let whole = |i: usize| match ins.get(i) {
            None => Some(Source::constant(0)),
            Some(Operand::Negated(reg) | Operand::Part { reg, .. }) => {
                Some(Source::Slot(self.body.slot(*reg)))
            }
            Some(other) => self.source(other, Type::U32),
        };
        let dest = match ins.get(0)? {
            Operand::Part { reg, .. } => self.dest(&Operand::Reg(*reg), Type::U32)?,
            other => self.dest(other, Type::U32)?,
        };
        let function = map(move |[a, b, c]: [u64; 3]| f(a as u32, b as u32, c as u32).into());
        self.compute(dest, vec![whole(1)?, whole(2)?, whole(3)?], function)
    }
}

fn wrap(ins: &Ins) -> Option<bool> {
    ins.choose(&[("clamp", false), ("wrap", true)])
}

/// `.b2`, `.h1`, or the whole register.
fn part(operand: &Operand) -> Option<Part> {
    let Operand::Part { part, .. } = operand else { return Some(Part::WORD) };
    let (kind, index) = part.text().split_at_checked(2)?;
    let index = index.parse().ok()?;
    match kind {
        ".b" => Some(Part { bits: 8, index }),
        ".h" => Some(Part { bits: 16, index }),
        _ => None,
    }
}

/// `.b7654`: a digit per lane, the highest first.
fn select(operand: &Operand, default: u32) -> Option<u32> {
    let Operand::Part { part, .. } = operand else { return Some(default) };
    u32::from_str_radix(part.text().get(2..)?, 16).ok()
}

/// `.b310`: the lanes that take part.
fn lane_mask(operand: &Operand, lanes: u32) -> Option<u32> {
    let Operand::Part { part, .. } = operand else { return Some((1 << lanes) - 1) };
    part.text().get(2..)?.chars().try_fold(0, |mask, digit| Some(mask | 1 << digit.to_digit(10)?))
}
