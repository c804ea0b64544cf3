//! Matrix instructions of a warp.

use super::{Decoder, Ins};
use crate::memory::Space;
use crate::mma::{
    Element, Layout, Shape, Sum, held_by_quads, multiply, multiply_quads, multiply_sparse, registers,
    registers_of_sparse,
};
use crate::ptx::program::{Action, Lanes, MatrixAccess, Whole};
use ::ptx::Type;
use ::ptx::words::Kind;
use ori::arith::Int;
use ori::arith::float::{BF16, E4M3, E5M2, F16, F32, Flow, Rounding};
use ori::arith::matrix::Accuracy;

/// The elements that a type of PTX names.
pub(super) fn element(ty: Type) -> Option<Element> {
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
pub(super) fn shape(word: &str) -> Option<Shape> {
    let (m, rest) = word.strip_prefix(".m")?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some(Shape { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
}

/// How floats are summed up: into what, what is multiplied, and whether a warpgroup does it.
pub(super) fn sum_of(to: Element, factor: Element, group: bool) -> Option<Sum> {
    let Element::Float(to) = to else { return None };
    Some(match (factor.bits(), group) {
        (8, false) => Sum::InHalves(to),
        (8, true) => Sum::Float(to, Accuracy::NARROW),
        _ => Sum::Float(to, Accuracy::WIDE),
    })
}

const LAYOUTS: [(&str, Layout); 2] = [("row", Layout::Rows), ("col", Layout::Columns)];

/// Four MMAs of eight threads each.
const QUADS: Shape = Shape { m: 8, n: 8, k: 4 };

impl<'a> Decoder<'a> {
    pub(super) fn matrix(&self, ins: &Ins<'a>) -> Option<Action> {
        (ins.flag("sync") && ins.flag("aligned")).then_some(())?;
        match ins.mnemonic() {
            "mma" => self.mma(ins),
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

    fn mma(&self, ins: &Ins<'a>) -> Option<Action> {
        let shape = shape(ins.take(|w| shape(w.text()).is_some())?.text())?;
        let sparse = ins.choose(&[("sp", ()), ("sp::ordered_metadata", ())]).is_some();
        let layouts = [ins.choose(&LAYOUTS)?, ins.choose(&LAYOUTS)?];
        // Floats of 8 bits are the same with and without it; narrower ones have no element here.
        let _ = ins.flag("kind::f8f6f4");
        let saturate = ins.flag("satfinite");
        let rounding = ins.choose(&super::float::ROUNDING).unwrap_or(Rounding::Nearest);
        let [to, a, b, c] = [ins.ty()?, ins.ty()?, ins.ty()?, ins.ty()?].map(element);
        let (to, a, b, c) = (to?, a?, b?, c?);
        let sum = match a {
            Element::F64 => Sum::F64(Flow { rounding, ..Flow::NEAREST }),
            Element::Int(_) => Sum::Int { saturate },
            Element::Bit => {
                let sum = ins.choose(&[("xor", Sum::Xor), ("and", Sum::And)])?;
                ins.flag("popc").then_some(sum)?
            }
            _ => sum_of(to, a, false)?,
        };
        let register = |element: Element| if element.bits() == 64 { Type::B64 } else { Type::B32 };
        let dests = self.dests(ins.get(0)?, register(to))?;
        let mut sources = Vec::new();
        for (i, element) in [a, b, c].into_iter().enumerate() {
            sources.extend(self.sources(ins.get(i + 1)?, register(element))?);
        }
        let function = if let (QUADS, Element::Float(format)) = (shape, to) {
            (sources.len() == 4 + held_by_quads(c)).then_some(())?;
            multiply_quads(layouts, [c, to], format)
        } else if sparse {
            (to == c && sources.len() == registers_of_sparse(shape, [a, b, c])).then_some(())?;
            sources.push(self.source(ins.get(4)?, Type::B32)?);
            let selector = super::constant(ins.get(5)?, Type::U32)? as usize;
            multiply_sparse(shape, [a, b, c], sum, selector)
        } else {
            let straight = layouts == [Layout::Rows, Layout::Columns];
            (straight && to == c && sources.len() == registers(shape, [a, b, c])).then_some(())?;
            multiply(shape, [a, b, c], sum)
        };
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
