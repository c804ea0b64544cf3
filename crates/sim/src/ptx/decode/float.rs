//! Floating point.

use super::{Decoder, Ins, Number, elements, map};
use crate::ptx::program::{Action, Function};
use ::ptx::Type;
use ori::arith::approx::{self, Function as Approximate};
use ori::arith::float::{self, Clamp, F32, F64, MinMax};
use ori::arith::{Flow, Format, Rounding, convert};

pub(super) const ROUNDING: [(&str, Rounding); 4] =
    [("rn", Rounding::Nearest), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];

/// Rounding, flushing and clamping, as the modifiers say.
pub(super) fn flow(ins: &Ins) -> Flow {
    let clamp = ins.choose(&[("sat", Clamp::Saturate), ("relu", Clamp::Relu)]).unwrap_or(Clamp::None);
    Flow {
        rounding: ins.choose(&ROUNDING).unwrap_or(Rounding::Nearest),
        ftz: ins.flag("ftz"),
        clamp,
        finite: ins.flag("satfinite"),
    }
}

impl<'a> Decoder<'a> {
    pub(super) fn float(&self, ins: &Ins<'a>) -> Option<Action> {
        let ty = ins.ty()?;
        if let Some(narrow) = ins.ty() {
            return self.mixed(ins, ty, narrow);
        }
        let Number::Float(format, count) = Number::of(ty)? else { return None };
        let approximate = ins.flag("approx");
        let flow = flow(ins);
        let (inputs, function) = if approximate || ins.mnemonic() == "div.full" {
            self.approximate(ins, format, count, flow)?
        } else {
            self.exact(ins, format, count, flow)?
        };
        self.uniform(ins, ty, inputs, function)
    }

    /// What is rounded correctly.
    fn exact(&self, ins: &Ins<'a>, format: Format, count: u32, flow: Flow) -> Option<(usize, Function)> {
        let width = format.width();
        let two = |f: fn(Format, Flow, u64, u64) -> u64| {
            (2, elements(width, count, move |[a, b]: [u64; 2]| f(format, flow, a, b)))
        };
        let one = |f: fn(Format, Flow, u64) -> u64| {
            (1, elements(width, count, move |[a]: [u64; 1]| f(format, flow, a)))
        };
        Some(match ins.mnemonic() {
            "add" => two(float::add),
            "sub" => two(float::sub),
            "mul" => two(float::mul),
            "div" => two(float::div),
            "fma" | "mad" => {
                (3, elements(width, count, move |[a, b, c]: [u64; 3]| float::fma(format, flow, a, b, c)))
            }
            "rcp" => one(float::rcp),
            "sqrt" => one(float::sqrt),
            "abs" => one(float::abs),
            "neg" => one(float::neg),
            "copysign" => (2, map(move |[a, b]: [u64; 2]| float::copysign(format, a, b))),
            "min" | "max" => return self.min_max(ins, format, count, flow),
            _ => return None,
        })
    }

    fn min_max(&self, ins: &Ins<'a>, format: Format, count: u32, flow: Flow) -> Option<(usize, Function)> {
        let xorsign = ins.flag("xorsign");
        let absolute = ins.flag("abs");
        let how = MinMax { max: ins.mnemonic() == "max", nan: ins.flag("NaN"), xorsign };
        let width = format.width();
        let pick = move |a: u64, b: u64| float::min_max(format, flow, how, a, b);
        if ins.len() == 3 {
            (absolute == xorsign).then_some(())?;
            return Some((2, elements(width, count, move |[a, b]: [u64; 2]| pick(a, b))));
        }
        let magnitude = move |x: u64| if absolute { x & !format.sign_bit() } else { x };
        let three = move |inputs: [u64; 3]| {
            let [a, b, c] = inputs.map(magnitude);
            pick(pick(a, b), c)
        };
        Some((3, elements(width, count, three)))
    }

    fn approximate(
        &self,
        ins: &Ins<'a>,
        format: Format,
        count: u32,
        flow: Flow,
    ) -> Option<(usize, Function)> {
        let function = match ins.mnemonic() {
            "div" | "div.full" => {
                let full = ins.mnemonic() == "div.full";
                return Some((2, map(move |[a, b]: [u64; 2]| approx::divide(full, flow.ftz, a, b))));
            }
            "sin" | "cos" => {
                let function = if ins.mnemonic() == "sin" { Approximate::Sin } else { Approximate::Cos };
                return Some((1, map(move |[a]: [u64; 1]| approx::of_radians(function, flow, a))));
            }
            "rcp" => Approximate::Rcp,
            "sqrt" => Approximate::Sqrt,
            "rsqrt" => Approximate::Rsqrt,
            "ex2" => Approximate::Ex2,
            "lg2" => Approximate::Lg2,
            "tanh" => Approximate::Tanh,
            _ => return None,
        };
        // `.ftz.f64` gives the upper word alone.
        if format == F64 && flow.ftz {
            let upper = move |[a]: [u64; 1]| u64::from(approx::upper_word(function, (a >> 32) as u32)) << 32;
            return Some((1, map(upper)));
        }
        let compute = move |[a]: [u64; 1]| approx::compute(function, format, flow, a);
        Some((1, elements(format.width(), count, compute)))
    }

    /// `add.f32.f16`: the narrow arguments are exact in f32.
    fn mixed(&self, ins: &Ins<'a>, ty: Type, narrow: Type) -> Option<Action> {
        let (Number::Float(F32, 1), Number::Float(from, 1)) = (Number::of(ty)?, Number::of(narrow)?) else {
            return None;
        };
        let flow = flow(ins);
        let widen = move |x: u64| convert::float_to_float(from, F32, Flow::NEAREST, x);
        let dest = self.dest(ins.get(0)?, ty)?;
        let (first, second) = (ins.get(1)?, ins.get(2)?);
        let function = match ins.mnemonic() {
            "add" => map(move |[a, b]: [u64; 2]| float::add(F32, flow, widen(a), b)),
            "sub" => map(move |[a, b]: [u64; 2]| float::sub(F32, flow, widen(a), b)),
            "fma" => {
                let sources = vec![
                    self.source(first, narrow)?,
                    self.source(second, narrow)?,
                    self.source(ins.get(3)?, ty)?,
                ];
                let fma = move |[a, b, c]: [u64; 3]| float::fma(F32, flow, widen(a), widen(b), c);
                return self.compute(dest, sources, map(fma));
            }
            _ => return None,
        };
        self.compute(dest, vec![self.source(first, narrow)?, self.source(second, ty)?], function)
    }
}
