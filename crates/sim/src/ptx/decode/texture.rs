//! Textures and surfaces: fetches, samples, gathers, loads and stores, and sizes.
//!
//! Of queries there are the sizes along the axes. The rest is in tables of the driver's, and no driver that was tried has
//! them: the modules don't load. Texels of 16 bits, several samples, offsets, comparisons, derivatives of three axes and of
//! cubes (which the driver's own functions take), and reductions are not there.

use super::{Decoder, Ins, Source};
use crate::memory::texture::{Outside, Read};
use crate::ptx::program::{Action, ImagePlace, LevelSource, SurfaceAccess, TexelStore, TextureRead};
use ::ptx::Type;
use ::ptx::ast::{Operand, SymbolKind};
use ::ptx::words::Kind;

/// How an instruction names a place in an image.
#[derive(Clone, Copy)]
struct Shape {
    /// There is a layer before the coordinates.
    layered: bool,
    count: usize,
    /// Coordinates of the machine's instruction: a line is a plane, at 0.
    axes: usize,
}

impl Shape {
    const fn new(layered: bool, count: usize, axes: usize) -> Shape {
        Shape { layered, count, axes }
    }
}

const SHAPES: [(&str, Shape); 5] = [
    ("1d", Shape::new(false, 1, 2)),
    ("2d", Shape::new(false, 2, 2)),
    ("3d", Shape::new(false, 3, 3)),
    ("a1d", Shape::new(true, 1, 1)),
    ("a2d", Shape::new(true, 2, 2)),
];
const CUBES: [(&str, Shape); 2] = [("cube", Shape::new(false, 3, 3)), ("acube", Shape::new(true, 3, 3))];
const CHANNELS: [(&str, usize); 4] = [("r", 0), ("g", 1), ("b", 2), ("a", 3)];
const SIZES: [(&str, usize); 3] = [("width", 0), ("height", 1), ("depth", 2)];
const OUTSIDE: [(&str, Outside); 3] =
    [("trap", Outside::Trap), ("clamp", Outside::Clamp), ("zero", Outside::Zero)];

impl<'a> Decoder<'a> {
    pub(super) fn texture(&self, ins: &Ins<'a>) -> Option<Action> {
        match ins.mnemonic() {
            "tex" | "tex.base" | "tex.level" | "tex.grad" | "tld4" => self.read_texture(ins),
            "suld.b" | "sust.b" | "sust.p" => self.access_surface(ins),
            "txq" | "txq.level" | "suq" => self.size_of_image(ins),
            _ => None,
        }
    }

    fn read_texture(&self, ins: &Ins<'a>) -> Option<Action> {
        let gathered = if ins.mnemonic() == "tld4" { Some(ins.choose(&CHANNELS)?) } else { None };
        let (shape, is_cube) = match ins.choose(&CUBES) {
            Some(cube) => (cube, true),
            None => (ins.choose(&SHAPES)?, false),
        };
        ins.word(Kind::Vector);
        let (result, coordinate) = (ins.ty()?, ins.ty()?);
        let way = match (gathered, coordinate == Type::F32) {
            (Some(channel), _) => Read::Gather(channel),
            (None, true) => Read::Sample,
            (None, false) => Read::Fetch,
        };
        let level = match ins.mnemonic() {
            "tex.level" => LevelSource::Given(self.source(ins.get(2)?, Type::B32)?),
            "tex.grad" if is_cube || shape.count == 3 => return None,
            "tex.grad" => LevelSource::Derivatives([
                self.derivatives(ins.get(2)?, shape)?,
                self.derivatives(ins.get(3)?, shape)?,
            ]),
            _ => LevelSource::First,
        };
        (result.bits() == 32).then_some(())?;
        let place = self.image_place(ins.get(1)?, shape)?;
        Some(Action::Texture(Box::new(TextureRead {
            place: ImagePlace { is_direction: is_cube, ..place },
            way,
            level,
            dests: self.dests(ins.get(0)?, result)?.into(),
        })))
    }

    fn derivatives(&self, operand: &Operand, shape: Shape) -> Option<Box<[Source]>> {
        let mut words = self.sources(operand, Type::B32)?;
        words.truncate(shape.count);
        Some(words.into())
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
        if ins.mnemonic() == "sust.p" {
            let channels = self.sources(data, ty)?.into();
            return Some(Action::StoreTexel(Box::new(TexelStore { place, outside, channels })));
        }
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
        let level = match ins.mnemonic() {
            "txq.level" => self.source(ins.get(2)?, Type::B32)?,
            _ => Source::constant(0),
        };
        Some(Action::ImageSize { handle: self.handle(handle)?, level, axis, dest })
    }

    /// `[handle, {layer, coordinates}]`
    fn image_place(&self, operand: &Operand, shape: Shape) -> Option<ImagePlace> {
        let Shape { layered, count, axes } = shape;
        let Operand::Address(range) = operand else { return None };
        let [handle, coordinates] = self.code.list(*range) else { return None };
        let mut words = self.sources(coordinates, Type::B32)?;
        (words.len() >= count + usize::from(layered)).then_some(())?;
        let layer = if layered { words.remove(0) } else { Source::constant(0) };
        words.truncate(count);
        let coordinates = words.into();
        Some(ImagePlace { handle: self.handle(handle)?, layer, coordinates, axes, is_direction: false })
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
