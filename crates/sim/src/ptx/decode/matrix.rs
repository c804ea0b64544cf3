//! Matrix instructions of a warp.

use super::{Decoder, Ins};
use crate::product::{Element, Shape, Sum, multiply, registers};
use crate::ptx::memory::Space;
use crate::ptx::program::{Action, Lanes, MatrixAccess, Whole};
use ::ptx::Type;
use ::ptx::words::Kind;
use ori::arith::Int;
use ori::arith::float::{BF16, E4M3, E5M2, F16, F32, Flow, Rounding};
use ori::arith::matrix::Accuracy;

/// The elements that a type of PTX names.
fn element(ty: Type) -> Option<Element> {
    let int = |bits, signed| Element::Int(Int { bits, signed });
    Some(match ty.name() {
        "f16" => Element::Float(F16),
        "bf16" => Element::Float(BF16),
        "f32" => Element::Float(F32),
        "e4m3" => Element::Float(E4M3),
        "e5m2" => Element::Float(E5M2),
        "tf32" => Element::Tf32,
        "f64" => Element::F64,
        "s8" => int(8, true),
        "u8" => int(8, false),
        "s4" => int(4, true),
        "u4" => int(4, false),
        "s32" => int(32, true),
        "b1" => Element::Bit,
        _ => return None,
    })
}

/// `.m16n8k32`.
fn shape(word: &str) -> Option<Shape> {
    let (m, rest) = word.strip_prefix(".m")?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some(Shape { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
}

impl<'a> Decoder<'a> {
    pub(super) fn matrix(&self, ins: &Ins<'a>) -> Option<Action> {
        (ins.flag("sync") && ins.flag("aligned")).then_some(())?;
        match ins.mnemonic() {
            "mma" => self.product(ins),
            "movmatrix" => {
                (ins.flag("m8n8") && ins.flag("trans")).then_some(())?;
                // The type is that of the elements; a register has two of them.
                (ins.ty()?.bits() == 16).then_some(())?;
                Some(Action::Whole(Box::new(Whole {
                    dests: [self.dest(ins.get(0)?, Type::B32)?].into(),
                    sources: [self.source(ins.get(1)?, Type::B32)?].into(),
                    function: Box::new(|inputs| vec![transposed(&inputs[0])]),
                })))
            }
            _ => self.matrix_access(ins),
        }
    }

    fn product(&self, ins: &Ins<'a>) -> Option<Action> {
        let shape = shape(ins.take(|w| shape(w.text()).is_some())?.text())?;
        // Operands of eight threads each are another matter.
        let eight = shape.m == 8 && shape.n == 8;
        (ins.flag("row") && ins.flag("col")).then_some(())?;
        let saturate = ins.flag("satfinite");
        let rounding = ins.choose(&super::float::ROUNDING).unwrap_or(Rounding::Nearest);
        let types = [ins.ty()?, ins.ty()?, ins.ty()?, ins.ty()?];
        let [to, a, b, c] = [types[0], types[1], types[2], types[3]].map(element);
        let (to, a, b, c) = (to?, a?, b?, c?);
        (to == c && !(eight && shape.k == 4 && a != Element::F64)).then_some(())?;
        let sum = match (to, a, b) {
            (Element::Float(to), Element::Float(_) | Element::Tf32, _) => Sum::Float(to, Accuracy::WIDE),
            (Element::F64, Element::F64, Element::F64) => Sum::F64(Flow { rounding, ..Flow::NEAREST }),
            (_, Element::Int(_), Element::Int(_)) => Sum::Int { saturate },
            (_, Element::Bit, Element::Bit) => {
                let and = ins.choose(&[("xor", false), ("and", true)])?;
                ins.flag("popc").then_some(())?;
                if and { Sum::And } else { Sum::Xor }
            }
            _ => return None,
        };
        let register = |element: Element| if element.bits() == 64 { Type::B64 } else { Type::B32 };
        let dests = self.dests(ins.get(0)?, register(to))?;
        let mut sources = Vec::new();
        for (i, element) in [a, b, c].into_iter().enumerate() {
            sources.extend(self.sources(ins.get(i + 1)?, register(element))?);
        }
        (sources.len() == registers(shape, [a, b, c]) && ins.len() == 4).then_some(())?;
        let function = multiply(shape, [a, b, c], sum);
        Some(Action::Whole(Box::new(Whole { sources: sources.into(), dests: dests.into(), function })))
    }

    /// `ldmatrix`, `stmatrix` of 8 × 8 elements of 16 bits.
    fn matrix_access(&self, ins: &Ins<'a>) -> Option<Action> {
        ins.flag("m8n8").then_some(())?;
        let matrices = ins.choose(&[("x1", 1), ("x2", 2), ("x4", 4)])?;
        let transposed = ins.flag("trans");
        (ins.ty()?.bits() == 16).then_some(())?;
        let space = match ins.word(Kind::Space) {
            None => Space::Generic,
            Some(_) => Space::Shared,
        };
        let load = ins.mnemonic() == "ldmatrix";
        let (registers, address) = if load { (ins.get(0)?, ins.get(1)?) } else { (ins.get(1)?, ins.get(0)?) };
        let dests = if load { self.dests(registers, Type::B32)? } else { Vec::new() };
        let sources = if load { Vec::new() } else { self.sources(registers, Type::B32)? };
        (dests.len() + sources.len() == matrices).then_some(())?;
        Some(Action::MatrixAccess(Box::new(MatrixAccess {
            address: self.address(address, space)?,
            transposed,
            dests: dests.into(),
            sources: sources.into(),
        })))
    }
}

/// An 8 × 8 matrix of 16-bit elements, two to a register.
fn transposed(a: &Lanes) -> Lanes {
    let element = |row: usize, column: usize| a[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
    std::array::from_fn(|lane| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        element(column + 1, row) << 16 | element(column, row)
    })
}
