//! Textures and surfaces, lane by lane.

use super::{Now, Stop, Warp};
use crate::memory::texture::{self, At, Level, Read};
use crate::memory::{self, Space};
use crate::ptx::program::{
    Dest, ImagePlace, LANES, Lanes, LevelSource, Source, SurfaceAccess, TexelStore, TextureRead, lanes,
};

/// Handles and places of all lanes.
struct Places {
    handles: Lanes,
    at: [At; LANES],
}

impl Warp {
    fn places(&self, now: &Now, place: &ImagePlace) -> Result<Places, Stop> {
        let (handles, layers) = (self.operand(now, &place.handle)?, self.operand(now, &place.layer)?);
        let mut at = layers.map(|layer| At {
            layer: layer as u32,
            axes: place.axes,
            is_direction: place.is_direction,
            ..At::default()
        });
        for (axis, source) in place.coordinates.iter().enumerate() {
            let values = self.operand(now, source)?;
            at.iter_mut().zip(values).for_each(|(at, value)| at.coordinates[axis] = value as u32);
        }
        if place.is_direction {
            at.iter_mut().for_each(|at| at.coordinates = texture::divided(at.coordinates));
        }
        Ok(Places { handles, at })
    }

    fn levels(&self, now: &Now, way: Read, level: &LevelSource) -> Result<[Level; LANES], Stop> {
        Ok(match level {
            LevelSource::First => [Level::First; LANES],
            LevelSource::Given(source) => self.operand(now, source)?.map(|level| match way {
                Read::Fetch => Level::Number(level as u32),
                _ => Level::At(f32::from_bits(level as u32)),
            }),
            LevelSource::Derivatives(directions) => {
                let mut derivatives = [[[0.0; 3]; 2]; LANES];
                for (direction, sources) in directions.iter().enumerate() {
                    for (axis, source) in sources.iter().enumerate() {
                        let values = self.operand(now, source)?.map(|value| f32::from_bits(value as u32));
                        let all = derivatives.iter_mut().zip(values);
                        all.for_each(|(derivative, value)| derivative[direction][axis] = value);
                    }
                }
                derivatives.map(Level::Derivatives)
            }
        })
    }

    pub(super) fn read_texture(&mut self, now: &mut Now, read: &TextureRead) -> Result<(), Stop> {
        let Places { handles, at } = self.places(now, &read.place)?;
        let levels = self.levels(now, read.way, &read.level)?;
        let mut values = [[0; LANES]; 4];
        for lane in lanes(now.mask) {
            let at = At { level: levels[lane], ..at[lane] };
            let texel = texture::read(now.memory.global, handles[lane], read.way, at);
            let texel = texel.map_err(|kind| (kind, lane))?;
            values.iter_mut().zip(texel).for_each(|(value, channel)| value[lane] = channel.into());
        }
        for (dest, value) in read.dests.iter().zip(&values) {
            self.write(now.frame, now.mask, dest, value);
        }
        Ok(())
    }

    pub(super) fn access_surface(&mut self, now: &mut Now, access: &SurfaceAccess) -> Result<(), Stop> {
        let Places { handles, at } = self.places(now, &access.place)?;
        let elements = access.dests.len() + access.sources.len();
        let length = access.bytes * elements as u32;
        let data: Vec<Lanes> =
            access.sources.iter().map(|source| self.operand(now, source)).collect::<Result<_, _>>()?;
        let mut results = vec![[0; LANES]; access.dests.len()];
        for lane in lanes(now.mask) {
            let found = texture::locate(now.memory.global, handles[lane], at[lane], length, access.outside);
            let Some(address) = found.map_err(|kind| (kind, lane))? else { continue };
            let bytes =
                self.bytes(now, lane, (Space::Global, address), length).map_err(|kind| (kind, lane))?;
            let mut parts = bytes.chunks_exact_mut(access.bytes as usize);
            parts.by_ref().zip(&mut results).for_each(|(part, result)| result[lane] = memory::load(part));
            parts.zip(&data).for_each(|(part, value)| memory::store(part, value[lane]));
        }
        for (dest, value) in access.dests.iter().zip(&results) {
            self.write(now.frame, now.mask, dest, value);
        }
        Ok(())
    }

    pub(super) fn store_texel(&mut self, now: &mut Now, store: &TexelStore) -> Result<(), Stop> {
        let Places { handles, at } = self.places(now, &store.place)?;
        let words = store.channels.iter().map(|source| self.operand(now, source));
        let words: Vec<Lanes> = words.collect::<Result<_, _>>()?;
        for lane in lanes(now.mask) {
            let texel: Vec<u32> = words.iter().map(|values| values[lane] as u32).collect();
            texture::store(now.memory.global, handles[lane], at[lane], &texel, store.outside)
                .map_err(|kind| (kind, lane))?;
        }
        Ok(())
    }

    pub(super) fn size_of_image(
        &mut self,
        now: &mut Now,
        (handle, level): (&Source, &Source),
        axis: usize,
        dest: &Dest,
    ) -> Result<(), Stop> {
        let (handles, levels) = (self.operand(now, handle)?, self.operand(now, level)?);
        let mut sizes = [0; LANES];
        for lane in lanes(now.mask) {
            let stop = |kind| (kind, lane);
            let image = texture::find(now.memory.global, handles[lane]).map_err(stop)?;
            let size = image.map(|image| image.size_of_level(levels[lane] as u32, axis)).transpose();
            sizes[lane] = size.map_err(stop)?.unwrap_or(0).into();
        }
        self.write(now.frame, now.mask, dest, &sizes);
        Ok(())
    }
}
