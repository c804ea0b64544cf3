//! Matrix instructions of a warp: which lane and register has which element, and what is done with them.
//!
//! All fragments follow one rule. Lane `l` is in row (or column) `l / 4` of a group of eight; along the other axis
//! each register has the elements that fit into it, at `l % 4`. Further registers of a left operand are first eight
//! rows down, then on to the right; those of a right operand go on along `k`. A sum has pairs of columns.

use super::{Decoder, Ins};
use crate::ptx::memory::Space;
use crate::ptx::program::{Action, LANES, Lanes, MatrixAccess, Whole, WholeFunction};
use ::ptx::Type;
use ::ptx::words::Kind;
use ori::arith::float::{BF16, E4M3, E5M2, F16, F32, Flow, Format, Rounding};
use ori::arith::{Int, matrix};

/// The elements of an operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Element {
    Float(Format),
    /// f32 without its low bits.
    Tf32,
    F64,
    Int(Int),
    Bit,
}

impl Element {
    fn of(ty: Type) -> Option<Element> {
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

    pub(crate) fn bits(self) -> usize {
        match self {
            Element::Float(format) => format.width() as usize,
            Element::Tf32 => 32,
            Element::F64 => 64,
            Element::Int(int) => int.bits as usize,
            Element::Bit => 1,
        }
    }

    /// How many a register has.
    fn count(self) -> usize {
        (32 / self.bits()).max(1)
    }

    fn get(self, register: u64, index: usize) -> u64 {
        register >> (index * self.bits()) & u64::MAX >> (64 - self.bits())
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl Shape {
    /// `.m16n8k32`.
    fn of(word: &str) -> Option<Shape> {
        let (m, rest) = word.strip_prefix(".m")?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some(Shape { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
    }
}

/// What a product does with a row and a column.
#[derive(Clone, Copy)]
pub(crate) enum Sum {
    Float(Format, Format, Format),
    F64(Flow),
    Int(Int, Int, bool),
    /// Bits that differ, or that both have.
    Xor,
    And,
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
        let shape = Shape::of(ins.take(|w| Shape::of(w.text()).is_some())?.text())?;
        // Operands of eight threads each are another matter.
        let eight = shape.m == 8 && shape.n == 8;
        (ins.flag("row") && ins.flag("col")).then_some(())?;
        let saturate = ins.flag("satfinite");
        let rounding = ins.choose(&super::float::ROUNDING).unwrap_or(Rounding::Nearest);
        let types = [ins.ty()?, ins.ty()?, ins.ty()?, ins.ty()?];
        let [to, a, b, c] = [types[0], types[1], types[2], types[3]].map(Element::of);
        let (to, a, b, c) = (to?, a?, b?, c?);
        (to == c && !(eight && shape.k == 4 && a != Element::F64)).then_some(())?;
        let sum = match (to, a, b) {
            (Element::Float(to), Element::Float(a), Element::Float(b)) => Sum::Float(to, a, b),
            (Element::Float(to), Element::Tf32, Element::Tf32) => Sum::Float(to, F32, F32),
            (Element::F64, Element::F64, Element::F64) => Sum::F64(Flow { rounding, ..Flow::NEAREST }),
            (_, Element::Int(a), Element::Int(b)) => Sum::Int(a, b, saturate),
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
        (sources.len() == registers(shape, a, b, c) && ins.len() == 4).then_some(())?;
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

/// Registers of all three operands.
pub(crate) fn registers(shape: Shape, a: Element, b: Element, c: Element) -> usize {
    let of = |elements: usize, element: Element| elements / LANES / element.count();
    of(shape.m * shape.k, a) + of(shape.k * shape.n, b) + of(shape.m * shape.n, c)
}

/// Where an element is: its lane, register and place in that.
type Place = (usize, usize, usize);

fn place_in_a(shape: Shape, element: Element, row: usize, k: usize) -> Place {
    let count = element.count();
    let tall = shape.m / 8;
    (row % 8 * 4 + k / count % 4, row / 8 + k / (4 * count) * tall, k % count)
}

fn place_in_b(element: Element, k: usize, column: usize) -> Place {
    let count = element.count();
    (column * 4 + k / count % 4, k / (4 * count), k % count)
}

/// Pairs of columns, side by side in one register or in two.
fn place_in_c(element: Element, row: usize, column: usize) -> Place {
    let index = row / 8 * 2 + column % 2;
    (row % 8 * 4 + column / 2, index / element.count(), index % element.count())
}

pub(crate) fn multiply(shape: Shape, [a, b, c]: [Element; 3], sum: Sum) -> WholeFunction {
    let of = move |elements: usize, element: Element| elements / LANES / element.count();
    let (first_b, first_c) = (of(shape.m * shape.k, a), of(shape.m * shape.k, a) + of(shape.k * shape.n, b));
    Box::new(move |inputs| {
        let get = |first: usize, element: Element, (lane, register, index): Place| {
            let bits = element.get(inputs[first + register][lane], index);
            if element == Element::Tf32 { bits & !0x1fff } else { bits }
        };
        let mut out = vec![[0; LANES]; of(shape.m * shape.n, c)];
        for row in 0..shape.m {
            for column in 0..shape.n {
                let pairs = (0..shape.k).map(|k| {
                    (get(0, a, place_in_a(shape, a, row, k)), get(first_b, b, place_in_b(b, k, column)))
                });
                let place = place_in_c(c, row, column);
                let value = sum_up(sum, pairs, get(first_c, c, place));
                out[place.1][place.0] |= value << (place.2 * c.bits());
            }
        }
        out
    })
}

fn sum_up(sum: Sum, pairs: impl Iterator<Item = (u64, u64)>, c: u64) -> u64 {
    let bits = |f: fn(u64, u64) -> u64, pairs: &mut dyn Iterator<Item = (u64, u64)>| {
        Int::S32.add(c, pairs.map(|(a, b)| f(a, b)).sum())
    };
    let mut pairs = pairs;
    match sum {
        Sum::Float(to, a, b) => matrix::dot((a, b), to, pairs, c),
        Sum::F64(flow) => matrix::dot64(flow, pairs, c),
        Sum::Int(a, b, saturate) => matrix::dot_integers((a, b), saturate, pairs, c),
        Sum::Xor => bits(|a, b| a ^ b, &mut pairs),
        Sum::And => bits(|a, b| a & b, &mut pairs),
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
