//! Textures and surfaces: fetches, samples of the nearest texel, gathers, loads and stores of bytes, and sizes.
//!
//! Of queries there are the sizes along the axes; the driver keeps the rest in tables of its own. Texels of 16 bits, cubes, several samples, offsets, comparisons and gradients are not there, nor are stores in the
//! surface's format (`sust.p`) and reductions.

use super::{Decoder, Ins, Source};
use crate::ptx::program::{Action, ImagePlace, SurfaceAccess, TextureRead};
use crate::texture::{Outside, Read};
use ::ptx::Type;
use ::ptx::ast::{Operand, SymbolKind};
use ::ptx::words::Kind;

/// Shapes of images: whether there is a layer before the coordinates, and how many of these there are.
const SHAPES: [(&str, (bool, usize)); 5] =
    [("1d", (false, 1)), ("2d", (false, 2)), ("3d", (false, 3)), ("a1d", (true, 1)), ("a2d", (true, 2))];
const CHANNELS: [(&str, usize); 4] = [("r", 0), ("g", 1), ("b", 2), ("a", 3)];
const SIZES: [(&str, usize); 3] = [("width", 0), ("height", 1), ("depth", 2)];
const OUTSIDE: [(&str, Outside); 3] =
    [("trap", Outside::Trap), ("clamp", Outside::Clamp), ("zero", Outside::Zero)];

impl<'a> Decoder<'a> {
    pub(super) fn texture(&self, ins: &Ins<'a>) -> Option<Action> {
        match ins.mnemonic() {
            "tex" | "tex.base" | "tex.level" | "tld4" => self.read_texture(ins),
            "suld.b" | "sust.b" => self.access_surface(ins),
            "txq" | "suq" => self.size_of_image(ins),
            _ => None,
        }
    }

    fn read_texture(&self, ins: &Ins<'a>) -> Option<Action> {
        let gathered = if ins.mnemonic() == "tld4" { Some(ins.choose(&CHANNELS)?) } else { None };
        let shape = ins.choose(&SHAPES)?;
        ins.word(Kind::Vector);
        let (result, coordinate) = (ins.ty()?, ins.ty()?);
        let way = match (gathered, coordinate == Type::F32) {
            (Some(channel), _) => Read::Gather(channel),
            (None, true) => Read::Sample,
            (None, false) => Read::Fetch,
        };
        // There is one level only: whatever is asked for, that is the nearest one.
        if ins.mnemonic() == "tex.level" {
            ins.get(2)?;
        }
        (result.bits() == 32).then_some(())?;
        Some(Action::Texture(Box::new(TextureRead {
            place: self.image_place(ins.get(1)?, shape)?,
            way,
            dests: self.dests(ins.get(0)?, result)?.into(),
        })))
    }

    fn access_surface(&self, ins: &Ins<'a>) -> Option<Action> {
        let shape = ins.choose(&SHAPES)?;
        ins.ignore(&["ca", "cg", "cs", "cv", "wb", "wt"]);
        ins.word(Kind::Vector);
        let ty = ins.ty()?;
        let outside = ins.choose(&OUTSIDE)?;
        let loads = ins.mnemonic() == "suld.b";
        let (data, place) = if loads { (0, 1) } else { (1, 0) };
        let place = self.image_place(ins.get(place)?, shape)?;
        let data = ins.get(data)?;
        let (dests, sources) = match loads {
            true => (self.dests(data, ty)?, Vec::new()),
            false => (Vec::new(), self.sources(data, ty)?),
        };
        let (dests, sources) = (dests.into(), sources.into());
        Some(Action::Surface(Box::new(SurfaceAccess { place, outside, bytes: ty.bytes(), dests, sources })))
    }

    fn size_of_image(&self, ins: &Ins<'a>) -> Option<Action> {
        let axis = ins.choose(&SIZES)?;
        let dest = self.dest(ins.get(0)?, ins.ty()?)?;
        let Operand::Address(range) = ins.get(1)? else { return None };
        let [handle] = self.code.list(*range) else { return None };
        Some(Action::ImageSize { handle: self.handle(handle)?, axis, dest })
    }

    /// `[handle, {layer, coordinates}]`
    fn image_place(&self, operand: &Operand, (layered, count): (bool, usize)) -> Option<ImagePlace> {
        let Operand::Address(range) = operand else { return None };
        let [handle, coordinates] = self.code.list(*range) else { return None };
        let mut words = self.sources(coordinates, Type::B32)?;
        (words.len() >= count + usize::from(layered)).then_some(())?;
        let layer = if layered { words.remove(0) } else { Source::constant(0) };
        words.truncate(count);
        Some(ImagePlace { handle: self.handle(handle)?, layer, coordinates: words.into() })
    }

    /// A variable of the module is bound to nothing.
    fn handle(&self, operand: &Operand) -> Option<Source> {
        match operand {
            Operand::Symbol(symbol) => match self.symbol_kind(*symbol)? {
                SymbolKind::Variable { .. } => Some(Source::constant(0)),
                _ => None,
            },
            operand => self.source(operand, Type::B64),
        }
    }
}
