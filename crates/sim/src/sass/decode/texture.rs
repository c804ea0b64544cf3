//! Textures and surfaces whose handle is in uniform registers, as sm_90 has them.

use super::Decoder;
use super::memory::size;
use crate::memory::texture::{Outside, Read};
use crate::sass::program::*;
use sass::{Kind, M, Op, Operand, RZ, Role};

/// What a texture operation may have beside its name: the level, the channel, and hints.
const HARMLESS: [M; 8] = [M::LZ, M::LL, M::CL, M::NODEP, M::R, M::G, M::B, M::A];
/// Shapes: whether there is a layer, and how many coordinates.
const SHAPES: [(M, (bool, u8)); 9] = [
    (M::_1D, (false, 1)),
    (M::_2D, (false, 2)),
    (M::_3D, (false, 3)),
    (M::ARRAY_1D, (true, 1)),
    (M::ARRAY_2D, (true, 2)),
    (M::_1D_ARRAY, (true, 1)),
    (M::_2D_ARRAY, (true, 2)),
    (M::CUBE, (false, 3)),
    (M::ARRAY_CUBE, (true, 3)),
];

impl Decoder<'_> {
    /// TLD, TEX, TXD and TLD4
    pub(super) fn read_texture(&self) -> Option<Action> {
        let inst = self.inst;
        inst.modifiers().all(|modifier| HARMLESS.contains(&modifier)).then_some(())?;
        let way = match inst.op() {
            Op::TLD => Read::Fetch,
            Op::TEX | Op::TXD => Read::Sample,
            _ => Read::Gather([M::R, M::G, M::B, M::A].into_iter().position(|name| inst.has(name))?),
        };
        let level = match inst.op() {
            Op::TXD => LevelSource::Derivatives(self.register_used(1)?),
            Op::TLD4 => LevelSource::First,
            _ if inst.has(M::LZ) => LevelSource::First,
            _ if inst.has(M::LL) => LevelSource::Given(self.register_used(1)?),
            _ => LevelSource::Neighbours,
        };
        let name = inst.operands().position(|(_, operand)| operand.kind == Kind::Name)?;
        let dimension = inst.name(name);
        let (_, (layered, count)) = SHAPES.into_iter().find(|(known, _)| *known == dimension)?;
        let first = self.register_used(0)?;
        // The layer is before the coordinates, but with derivatives after them.
        let (layer, skipped) = match inst.op() {
            Op::TXD => (first.saturating_add(count), 0),
            _ => (first, u8::from(layered)),
        };
        Some(Action::Texture(Box::new(TextureRead {
            place: ImagePlace {
                handle: self.handle()?,
                layer: layered.then_some(layer),
                coordinates: registers(first, skipped, count),
                is_direction: matches!(dimension, M::CUBE | M::ARRAY_CUBE),
            },
            way,
            level,
            channels: self.channels()?,
            missing: self.truth(0),
        })))
    }

    /// SULD and SUST of bytes, and SUST of texels.
    pub(super) fn access_surface(&self) -> Option<Action> {
        let inst = self.inst;
        let formatted = inst.op() == Op::SUST && inst.has(M::P);
        (formatted || inst.has(M::D) && inst.has(M::BA)).then_some(())?;
        let (_, (layered, count)) = SHAPES.into_iter().find(|(name, _)| inst.has(*name))?;
        let first = self.register_used(0)?;
        let outside = match () {
            () if inst.has(M::TRAP) => Outside::Trap,
            () if inst.has(M::IGN) => Outside::Zero,
            () => Outside::Clamp,
        };
        let (bytes, signed) = size(inst);
        let place = ImagePlace {
            handle: self.handle()?,
            layer: layered.then(|| first.saturating_add(count)),
            coordinates: registers(first, 0, count),
            is_direction: false,
        };
        if formatted {
            let count = match () {
                () if inst.has(M::R) => 1,
                () if inst.has(M::RG) => 2,
                () => 4,
            };
            let channels = registers(self.register_used(1)?, 0, count);
            return Some(Action::StoreTexel(Box::new(TexelStore { place, outside, channels })));
        }
        let data = match inst.op() {
            Op::SULD => SurfaceData::Load { dest: self.dest(), signed, missing: self.truth(0) },
            _ => SurfaceData::Store(self.register_used(1)?),
        };
        Some(Action::Surface(Box::new(SurfaceAccess { place, outside, bytes, data })))
    }

    /// TXQ of the sizes along the axes.
    pub(super) fn query_texture(&self) -> Option<Action> {
        let name = self.inst.operands().position(|(_, operand)| operand.kind == Kind::Name)?;
        (self.inst.name(name) == M::TEX_HEADER_DIMENSION).then_some(())?;
        let level = self.register_used(0)?;
        Some(Action::TextureSizes { handle: self.handle()?, level, channels: self.channels()? })
    }

    /// The handle, which may be that of a sampler's word beside it.
    fn handle(&self) -> Option<Source> {
        let (_, operand) = self.inst.operands().find(|(_, operand)| operand.kind == Kind::U)?;
        Some(Source::Uniform { first: operand.value as u8, words: 1 })
    }

    /// The n-th general register that is read.
    fn register_used(&self, index: usize) -> Option<u8> {
        let used = self.inst.operands().filter(|(slot, o)| slot.role == Role::Use && o.kind == Kind::R);
        used.map(|(_, operand)| operand.value as u8).nth(index)
    }

    /// Which channels go where: those of the mask side by side, two in the second register operand and two in the
    /// first.
    fn channels(&self) -> Option<Box<[(usize, Dest)]>> {
        let numbers = self.inst.operands().filter(|(_, operand)| operand.kind == Kind::Unsigned);
        let mask = numbers.last()?.1.value;
        let defs: Vec<&Operand> = self.defs(&[Kind::R]).map(|(_, operand)| operand).collect();
        let [high, low] = defs[..] else { return None };
        let wanted = (0..4).filter(|channel| mask >> channel & 1 == 1);
        let place = |(index, channel): (usize, usize)| {
            let pair = if index < 2 { low } else { high };
            let dest = match pair.value as u8 {
                RZ => Dest::None,
                first => Dest::General(first.saturating_add(index as u8 % 2)),
            };
            (channel, dest)
        };
        Some(wanted.enumerate().map(place).collect())
    }
}

/// Registers side by side; RZ has no neighbours.
fn registers(first: u8, skipped: u8, count: u8) -> Box<[u8]> {
    let register = |index: u8| if first == RZ { RZ } else { first.saturating_add(index) };
    (skipped..skipped + count).map(register).collect()
}
