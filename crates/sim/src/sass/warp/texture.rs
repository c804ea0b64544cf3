//! Textures and surfaces, lane by lane.

use super::{LANES, Now, Source, Stop, Warp, lanes_of};
use crate::memory::texture::{self, At, Level, Read};
use crate::memory::{self, Space};
use crate::ptx::program::Lanes;
use crate::sass::program::{
    Dest, ImagePlace, LevelSource, SurfaceAccess, SurfaceData, TexelStore, TextureRead,
};

impl Warp {
    /// The handle, and where each lane's place is.
    fn places(&self, now: &Now, place: &ImagePlace) -> Result<(u64, [At; LANES]), Stop> {
        let handle = self.registers.fetch_uniform(now.context, place.handle)?;
        let mut at =
            [At { axes: place.coordinates.len(), is_direction: place.is_direction, ..At::default() }; LANES];
        if let Some(register) = place.layer {
            at.iter_mut().zip(self.word(now, register)?).for_each(|(at, layer)| at.layer = layer as u32);
        }
        for (axis, register) in place.coordinates.iter().enumerate() {
            let values = self.word(now, *register)?;
            at.iter_mut().zip(values).for_each(|(at, value)| at.coordinates[axis] = value as u32);
        }
        Ok((handle, at))
    }

    fn word(&self, now: &Now, register: u8) -> Result<Lanes, Stop> {
        self.registers.fetch(now.context, Source::General { first: register, words: 1 })
    }

    fn levels(&self, now: &Now, read: &TextureRead) -> Result<[Level; LANES], Stop> {
        Ok(match read.level {
            LevelSource::First => [Level::First; LANES],
            LevelSource::Neighbours => [Level::Neighbours; LANES],
            LevelSource::Given(register) => self.word(now, register)?.map(|level| match read.way {
                Read::Fetch => Level::Number(level as u32),
                _ => Level::At(f32::from_bits(level as u32)),
            }),
            LevelSource::Derivatives(first) => {
                let mut derivatives = [[[0.0; 3]; 2]; LANES];
                for index in 0..2 * read.place.coordinates.len() {
                    let values = self.word(now, first.saturating_add(index as u8))?;
                    let all = derivatives.iter_mut().zip(values);
                    all.for_each(|(of, value)| of[index % 2][index / 2] = f32::from_bits(value as u32));
                }
                derivatives.map(Level::Derivatives)
            }
        })
    }

    pub(super) fn read_texture(&mut self, now: &mut Now, read: &TextureRead) -> Result<(), Stop> {
        let (handle, at) = self.places(now, &read.place)?;
        let levels = self.levels(now, read)?;
        let mut values = [[0; LANES]; 4];
        for lane in lanes_of(now.mask) {
            let at = At { level: levels[lane], ..at[lane] };
            let texel = texture::read(now.global, handle, read.way, at).map_err(|kind| (kind, lane))?;
            values.iter_mut().zip(texel).for_each(|(value, channel)| value[lane] = channel.into());
        }
        self.registers.write_truth(now.mask, read.missing, &[0; LANES]);
        self.write_channels(now.mask, &read.channels, &values);
        Ok(())
    }

    fn write_channels(&mut self, mask: u32, channels: &[(usize, Dest)], values: &[Lanes; 4]) {
        for (channel, dest) in channels {
            self.registers.write(mask, *dest, 1, &values[*channel]);
        }
    }

    pub(super) fn query_texture(
        &mut self,
        now: &mut Now,
        (handle, level): (Source, u8),
        channels: &[(usize, Dest)],
    ) -> Result<(), Stop> {
        let handle = self.registers.fetch_uniform(now.context, handle)?;
        let levels = self.word(now, level)?;
        let mut values = [[0; LANES]; 4];
        for lane in lanes_of(now.mask) {
            let stop = |kind| (kind, lane);
            let image = texture::find(now.global, handle).map_err(stop)?;
            for (axis, _) in channels {
                let size = image.map(|image| image.size_of_level(levels[lane] as u32, *axis)).transpose();
                values[*axis][lane] = size.map_err(stop)?.unwrap_or(0).into();
            }
        }
        self.write_channels(now.mask, channels, &values);
        Ok(())
    }

    pub(super) fn store_texel(&mut self, now: &mut Now, store: &TexelStore) -> Result<(), Stop> {
        let (handle, at) = self.places(now, &store.place)?;
        let words = store.channels.iter().map(|register| self.word(now, *register));
        let words: Vec<Lanes> = words.collect::<Result<_, _>>()?;
        for lane in lanes_of(now.mask) {
            let texel: Vec<u32> = words.iter().map(|values| values[lane] as u32).collect();
            texture::store(now.global, handle, at[lane], &texel, store.outside)
                .map_err(|kind| (kind, lane))?;
        }
        Ok(())
    }

    pub(super) fn access_surface(&mut self, now: &mut Now, access: &SurfaceAccess) -> Result<(), Stop> {
        let (handle, at) = self.places(now, &access.place)?;
        let bytes = usize::from(access.bytes);
        let words = bytes.div_ceil(4);
        let mut data = [[0; LANES]; 4];
        if let SurfaceData::Store(first) = access.data {
            for (word, values) in data.iter_mut().enumerate().take(words) {
                let register = Source::General { first: first.saturating_add(word as u8), words: 1 };
                *values = self.registers.fetch(now.context, register)?;
            }
        }
        for lane in lanes_of(now.mask) {
            let stop = |kind| (kind, lane);
            let found = texture::locate(now.global, handle, at[lane], access.bytes.into(), access.outside);
            let Some(address) = found.map_err(stop)? else { continue };
            let place = self.bytes(now, lane, (Space::Global, address), access.bytes).map_err(stop)?;
            for (part, values) in place.chunks_mut(4).zip(&mut data) {
                match access.data {
                    SurfaceData::Store(_) => memory::store(part, values[lane]),
                    SurfaceData::Load { signed, .. } => {
                        let unused = 64 - 8 * part.len() as u32;
                        let value = memory::load(part) << unused;
                        values[lane] = if signed { (value as i64 >> unused) as u64 } else { value >> unused };
                    }
                }
            }
        }
        if let SurfaceData::Load { dest: Dest::General(first), missing, .. } = access.data {
            self.registers.write_truth(now.mask, missing, &[0; LANES]);
            for (word, values) in data.iter().enumerate().take(words) {
                let dest = Dest::General(first.saturating_add(word as u8));
                self.registers.write(now.mask, dest, 1, values);
            }
        }
        Ok(())
    }
}
