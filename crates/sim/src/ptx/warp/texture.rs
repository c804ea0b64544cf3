//! Textures and surfaces, lane by lane.

use super::{Now, Stop, Warp};
use crate::ptx::memory::{self, Space};
use crate::ptx::program::{Dest, ImagePlace, LANES, Lanes, Source, SurfaceAccess, TextureRead, lanes};
use crate::texture::{self, At};

/// Handles and places of all lanes.
struct Places {
    handles: Lanes,
    at: [At; LANES],
}

impl Warp {
    fn places(&self, now: &Now, place: &ImagePlace) -> Result<Places, Stop> {
        let (handles, layers) = (self.operand(now, &place.handle)?, self.operand(now, &place.layer)?);
        let mut at = layers.map(|layer| At { layer: layer as u32, ..At::default() });
        for (axis, source) in place.coordinates.iter().enumerate() {
            let values = self.operand(now, source)?;
            at.iter_mut().zip(values).for_each(|(at, value)| at.coordinates[axis] = value as u32);
        }
        Ok(Places { handles, at })
    }

    pub(super) fn read_texture(&mut self, now: &mut Now, read: &TextureRead) -> Result<(), Stop> {
        let Places { handles, at } = self.places(now, &read.place)?;
        let mut values = [[0; LANES]; 4];
        for lane in lanes(now.mask) {
            let texel = texture::read(now.memory.global, handles[lane], read.way, at[lane]);
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

    pub(super) fn size_of_image(
        &mut self,
        now: &mut Now,
        handle: &Source,
        axis: usize,
        dest: &Dest,
    ) -> Result<(), Stop> {
        let handles = self.operand(now, handle)?;
        let mut sizes = [0; LANES];
        for lane in lanes(now.mask) {
            let image = texture::find(now.memory.global, handles[lane]).map_err(|kind| (kind, lane))?;
            sizes[lane] = image.map_or(0, |image| image.sizes[axis].into());
        }
        self.write(now.frame, now.mask, dest, &sizes);
        Ok(())
    }
}
