//! `wmma`: loads, MMAs and stores of matrices, of which PTX leaves open which thread has which element.

use super::matrix::{element, shape, sum_of};
use super::memory::HINTS;
use super::{Decoder, Ins, Source};
use crate::mma::{Element, Shape, Sum, Tile, multiply_tiles};
use crate::ptx::program::{Action, TileAccess, Whole};
use ::ptx::Type;
use ori::arith::float::{Flow, Rounding};

impl<'a> Decoder<'a> {
    pub(super) fn tiles(&self, ins: &Ins<'a>) -> Option<Action> {
        (ins.flag("sync") && ins.flag("aligned")).then_some(())?;
        let Shape { m, n, k } = shape(ins.take(|w| shape(w.text()).is_some())?.text())?;
        let (rows, columns) = match ins.mnemonic() {
            "wmma.load.a" => (m, k),
            "wmma.load.b" => (k, n),
            "wmma.load.c" | "wmma.store.d" => (m, n),
            _ => return self.mma_of_tiles(ins, Shape { m, n, k }),
        };
        ins.ignore(HINTS);
        let by_rows = ins.choose(&[("row", true), ("col", false)])?;
        let space = self.space(ins)?;
        let element = element(ins.ty()?)?;
        let tile = Tile { rows, columns, element };
        let loads = ins.mnemonic() != "wmma.store.d";
        let (registers, address) = if loads { (0, 1) } else { (1, 0) };
        let (registers, address) = (ins.get(registers)?, self.address(ins.get(address)?, space)?);
        let ty = register_of(element);
        let stride = match ins.get(2) {
            Some(operand) => self.source(operand, Type::U32)?,
            None => Source::constant(if by_rows { columns } else { rows } as u64),
        };
        let dests = if loads { self.dests(registers, ty)? } else { Vec::new() };
        let sources = if loads { Vec::new() } else { self.sources(registers, ty)? };
        Some(Action::TileAccess(Box::new(TileAccess {
            address,
            tile,
            by_rows,
            stride,
            dests: dests.into(),
            sources: sources.into(),
        })))
    }

    fn mma_of_tiles(&self, ins: &Ins<'a>, shape: Shape) -> Option<Action> {
        // Fragments are the same whatever way they were loaded.
        ins.ignore(&["row", "col"]);
        let saturate = ins.flag("satfinite");
        let rounding = ins.choose(&super::float::ROUNDING).unwrap_or(Rounding::Nearest);
        let operation = ins.choose(&[("xor", Sum::Xor), ("and", Sum::And)]);
        ins.flag("popc");
        let mut types = Vec::new();
        while let Some(ty) = ins.ty() {
            types.push(element(ty)?);
        }
        // With two types the factors are f16.
        let half = Element::Float(ori::arith::float::F16);
        let [d, a, b, c] = match types[..] {
            [d, c] => [d, half, half, c],
            [d, a, b, c] => [d, a, b, c],
            _ => return None,
        };
        let sum = match (operation, a) {
            (Some(operation), Element::Bit) => operation,
            (None, Element::Int(_)) => Sum::Int { saturate },
            (None, Element::F64) => Sum::F64(Flow { rounding, ..Flow::NEAREST }),
            (None, _) => sum_of(d, a, false)?,
            _ => return None,
        };
        // The addend has the format of the sum, or is an f16 that is added to an f32 or the other way round.
        let mut sources = Vec::new();
        let mut registers = [0; 3];
        for (i, element) in [a, b, c].into_iter().enumerate() {
            let operand = self.sources(ins.get(i + 1)?, register_of(element))?;
            registers[i] = operand.len();
            sources.extend(operand);
        }
        let dests = self.dests(ins.get(0)?, register_of(d))?;
        let function = multiply_tiles(shape, [a, b, c, d], registers, sum);
        Some(Action::Whole(Box::new(Whole { sources: sources.into(), dests: dests.into(), function })))
    }
}

/// The registers that have elements of this kind.
fn register_of(element: Element) -> Type {
    if element.bits() == 64 { Type::B64 } else { Type::B32 }
}
