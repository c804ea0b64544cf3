//! Conversions.

use super::float::flow;
use super::{Decoder, Ins, Number, Source, int, map, map_all};
use crate::ptx::program::{Action, Function};
use ::ptx::Type;
use ::ptx::ast::Operand;
use ori::arith::float::{self, BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32};
use ori::arith::{Flow, Format, Int, Rounding, convert};

/// Rounding to whole numbers.
const WHOLE: [(&str, Rounding); 4] =
    [("rni", Rounding::Nearest), ("rzi", Rounding::Zero), ("rmi", Rounding::Down), ("rpi", Rounding::Up)];

/// Packed small floats: format, elements, bits from one to the next.
fn small(ty: Type) -> Option<(Format, u32, u32)> {
    Some(match ty.name() {
        "e4m3x2" => (E4M3, 2, 8),
        "e5m2x2" => (E5M2, 2, 8),
        "e2m3x2" => (E2M3, 2, 8),
        "e3m2x2" => (E3M2, 2, 8),
        "e2m1x2" => (E2M1, 2, 4),
        "e4m3x4" => (E4M3, 4, 8),
        "e5m2x4" => (E5M2, 4, 8),
        "e2m3x4" => (E2M3, 4, 8),
        "e3m2x4" => (E3M2, 4, 8),
        "e2m1x4" => (E2M1, 4, 4),
        "f16x2" => (F16, 2, 16),
        "bf16x2" => (BF16, 2, 16),
        _ => return None,
    })
}

impl<'a> Decoder<'a> {
    pub(super) fn convert(&self, ins: &Ins<'a>) -> Option<Action> {
        if ins.mnemonic() == "cvt.pack" {
            return self.pack(ins);
        }
        let (to, from) = (ins.ty()?, ins.ty()?);
        if to.name() == "tf32" {
            let away = ins.flag("rna");
            let flow = flow(ins);
            let flow = if away { Flow { rounding: Rounding::Away, ..flow } } else { flow };
            return self.one(ins, to, from, map(move |[a]: [u64; 1]| convert::f32_to_tf32(flow, a)));
        }
        if to.name() == "ue8m0x2" || from.name() == "ue8m0x2" {
            return self.power_of_two(ins, to, from);
        }
        match (small(to), small(from)) {
            (Some(_), None) => self.narrow(ins, to, from),
            (Some(to_small), Some(from_small)) => {
                let flow = flow(ins);
                let ((to_format, count, to_step), (from_format, _, from_step)) = (to_small, from_small);
                let mask = (1u64 << from_format.width()) - 1;
                let each = move |x| convert::float_to_float(from_format, to_format, flow, x & mask);
                self.one(
                    ins,
                    to,
                    from,
                    map(move |[a]: [u64; 1]| convert::packed(count, from_step, to_step, a, each)),
                )
            }
            _ => self.scalar(ins, to, from),
        }
    }

    /// `d, a` with a function of the low bits of `a`.
    fn one(&self, ins: &Ins<'a>, to: Type, from: Type, function: Function) -> Option<Action> {
        (ins.len() == 2).then_some(())?;
        let dest = self.dest(ins.get(0)?, to)?;
        self.compute(dest, vec![self.source(ins.get(1)?, from)?], function)
    }

    fn scalar(&self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Action> {
        let whole = ins.choose(&WHOLE);
        let flow = flow(ins);
        let saturates = flow.clamp == float::Clamp::Saturate;
        let mask = u64::MAX >> (64 - from.bits().clamp(1, 64));
        let function: Function = match (Number::of(to)?, Number::of(from)?) {
            (Number::Int(to, 1), Number::Int(from, 1)) => map(move |[a]: [u64; 1]| {
                let value = from.value(a);
                if saturates { to.saturate(value) } else { to.wrap(value) }
            }),
            (Number::Int(to, 1), Number::Float(from, 1)) => {
                let flow = Flow { rounding: whole?, ..flow };
                let zero = convert::nan_becomes_zero(from, to);
                map(move |[a]: [u64; 1]| convert::float_to_int(from, flow, to, zero, a & mask))
            }
            (Number::Float(to, 1), Number::Int(from, 1)) => {
                map(move |[a]: [u64; 1]| convert::int_to_float(from, to, flow, a & mask))
            }
            (Number::Float(to, 1), Number::Float(from, 1)) => {
                self.float_to_float(to, from, whole, flow, mask)
            }
            _ => return None,
        };
        self.one(ins, to, from, function)
    }

    /// Of one format to itself a conversion rounds to whole numbers, or does what `.sat` and `.ftz` ask for;
    /// bits that nothing is asked of stay as they are.
    fn float_to_float(
        &self,
        to: Format,
        from: Format,
        whole: Option<Rounding>,
        flow: Flow,
        mask: u64,
    ) -> Function {
        match whole {
            Some(rounding) => {
                let flow = Flow { rounding, ..flow };
                map(move |[a]: [u64; 1]| float::round_to_integer(to, flow, a & mask))
            }
            None if to == from && flow.clamp == float::Clamp::None && !flow.ftz => {
                map(move |[a]: [u64; 1]| a & mask)
            }
            None if from == BF16 && to == F32 && !flow.ftz => {
                map(move |[a]: [u64; 1]| convert::bf16_to_f32(a))
            }
            None => map(move |[a]: [u64; 1]| convert::float_to_float(from, to, flow, a & mask)),
        }
    }

    /// Several floats into one register, the first operand highest; `.rs` takes random bits.
    fn narrow(&self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Action> {
        let (format, count, step) = small(to)?;
        (from == Type::F32).then_some(())?;
        let stochastic = ins.flag("rs");
        let flow = flow(ins);
        let dest = self.dest(ins.get(0)?, to)?;
        let mut sources: Vec<Source> = match ins.get(1)? {
            Operand::Vector(_) => self.sources(ins.get(1)?, from)?,
            one => vec![self.source(one, from)?, self.source(ins.get(2)?, from)?],
        };
        (sources.len() == count as usize).then_some(())?;
        if stochastic {
            sources.push(self.source(ins.get(ins.len() - 1)?, Type::B32)?);
        }
        let function = map_all(move |inputs, outputs| {
            let random = inputs.get(count as usize).copied().unwrap_or(0) as u32;
            outputs[0] = inputs.iter().take(count as usize).enumerate().fold(0, |out, (i, input)| {
                let rounding = match stochastic {
                    true => random_rounding(format, count, i as u32, random),
                    false => flow.rounding,
                };
                let bits = convert::float_to_float(F32, format, Flow { rounding, ..flow }, *input);
                out << step | bits
            });
        });
        self.compute(dest, sources, function)
    }

    fn power_of_two(&self, ins: &Ins<'a>, to: Type, from: Type) -> Option<Action> {
        let flow = flow(ins);
        match (to.name(), from.name()) {
            ("ue8m0x2", "f32") => {
                let dest = self.dest(ins.get(0)?, to)?;
                let sources = vec![self.source(ins.get(1)?, from)?, self.source(ins.get(2)?, from)?];
                let each = move |x| convert::to_ue8m0(F32, flow, x);
                self.compute(dest, sources, map(move |[a, b]: [u64; 2]| each(a) << 8 | each(b)))
            }
            ("ue8m0x2", "bf16x2") => {
                let each = move |x| convert::to_ue8m0(BF16, flow, x);
                self.one(ins, to, from, map(move |[a]: [u64; 1]| convert::packed(2, 16, 8, a, each)))
            }
            _ => {
                let function = map(|[a]: [u64; 1]| convert::packed(2, 8, 16, a, convert::ue8m0_to_bf16));
                self.one(ins, to, from, function)
            }
        }
    }

    /// Two integers, saturated, below the low bits of a third.
    fn pack(&self, ins: &Ins<'a>) -> Option<Action> {
        let saturates = ins.flag("sat");
        let (to, from) = (ins.ty()?, ins.ty()?);
        let rest = ins.ty();
        let narrow = Int { bits: to.bits(), signed: matches!(to.name(), "s2" | "s4") || to.is_signed() };
        let from_int = int(from)?;
        (saturates && from_int == Int::S32).then_some(())?;
        let dest = self.dest(ins.get(0)?, Type::B32)?;
        let mut sources = vec![self.source(ins.get(1)?, from)?, self.source(ins.get(2)?, from)?];
        sources.push(match rest {
            Some(ty) => self.source(ins.get(3)?, ty)?,
            None => Source::constant(0),
        });
        let function = map(move |[a, b, c]: [u64; 3]| {
            let saturated = |x| narrow.saturate(from_int.value(x));
            (c << (2 * narrow.bits) | saturated(a) << narrow.bits | saturated(b)) & 0xffff_ffff
        });
        self.compute(dest, sources, function)
    }
}

/// Which of the random bits an operand gets, by the PTX manual: for f16x2 the 13 low bits of its half of the
/// word, for bf16x2 all 16, for four small floats 16 bits for each pair, or bytes for e2m1.
fn random_rounding(format: Format, count: u32, index: u32, random: u32) -> Rounding {
    let halves = [random >> 16, random & 0xffff];
    let (bits, width) = match (format, count) {
        (F16, _) => (halves[index as usize & 1] & 0x1fff, 13),
        (BF16, _) => (halves[index as usize & 1], 16),
        (E2M1, _) => {
            let half = halves[index as usize & 1];
            (if index < 2 { half >> 8 } else { half & 0xff }, 8)
        }
        _ => (halves[usize::from(index >= 2)], 16),
    };
    Rounding::Stochastic { bits, width }
}
