//! Surfaces: bytes of an image that are loaded and stored where they lie, and stores in the image's format.
//!
//! A formatted store takes a word for each channel. Integers that a channel has no room for become the nearest one that
//! it has; an H200 did so with u8 and s16, whose channels are integers here, whatever a texture takes them for. Words for
//! f16 are floats: the H200's results can't tell how it rounds them, so that those on which ways of rounding differ are
//! refused, as are NaNs but for the one that was stored there.

use super::{At, Channel, Image, find, undefined};
use crate::fault::FaultKind;
use crate::memory::{self, Global};
use ori::arith::convert;
use ori::arith::float::{self, Flow, Rounding};

/// What an access of a surface does outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The kernel stops.
    Trap,
    /// It goes to the nearest texel.
    Clamp,
    /// Reads zeros, writes nothing.
    Zero,
}

/// The NaN that an H200 made 0x7fff of.
const STORED_NAN: u32 = 0x7fff_ffff;

/// The address of so many bytes of a surface, the first coordinate of which counts bytes; `None` where the access is of
/// nothing.
pub fn locate(
    global: &Global,
    handle: u64,
    at: At,
    bytes: u32,
    outside: Outside,
) -> Result<Option<u64>, FaultKind> {
    let Some(image) = find(global, handle)? else { return Ok(None) };
    let place = image.in_layer(at.coordinates, at.layer);
    if !place[0].is_multiple_of(bytes) {
        return Err(FaultKind::Misaligned { space: "surface", address: place[0].into(), bytes });
    }
    let row = u64::from(image.sizes[0]) * u64::from(image.texel_bytes());
    let last = u32::try_from(row.saturating_sub(bytes.into())).unwrap_or(u32::MAX);
    let place = inside(place, [last, image.sizes[1] - 1, image.sizes[2] - 1], bytes, outside)?;
    Ok(place.map(|[x, y, z]| image.row(y, z).wrapping_add(x.into())))
}

/// Stores the channels of a texel, the first coordinate of which counts texels.
pub fn store(
    global: &mut Global,
    handle: u64,
    at: At,
    channels: &[u32],
    outside: Outside,
) -> Result<(), FaultKind> {
    let Some(image) = find(global, handle)?.cloned() else { return Ok(()) };
    let bytes = image.texel_bytes();
    let place = image.in_layer(at.coordinates, at.layer);
    let Some([x, y, z]) = inside(place, image.sizes.map(|size| size - 1), bytes, outside)? else {
        return Ok(());
    };
    if channels.len() < image.channels as usize {
        return Err(undefined("a formatted store of fewer channels than the surface has"));
    }
    let address = image.row(y, z).wrapping_add(u64::from(x) * u64::from(bytes));
    let out_of_bounds = FaultKind::OutOfBounds { space: "global", address, bytes };
    let texel = global.slice(address, bytes as usize).ok_or(out_of_bounds)?;
    for (place, word) in texel.chunks_exact_mut(image.channel.bytes() as usize).zip(channels) {
        memory::store(place, formatted(image.channel, *word)?.into());
    }
    Ok(())
}

/// A place that the surface has; `None` where there is none.
fn inside(
    mut place: [u32; 3],
    limits: [u32; 3],
    bytes: u32,
    outside: Outside,
) -> Result<Option<[u32; 3]>, FaultKind> {
    for (at, limit) in place.iter_mut().zip(limits) {
        if *at <= limit {
            continue;
        }
        match outside {
            Outside::Zero => return Ok(None),
            // Coordinates are signed.
            Outside::Clamp => *at = if (*at as i32) < 0 { 0 } else { limit },
            Outside::Trap => {
                return Err(FaultKind::OutOfBounds { space: "surface", address: (*at).into(), bytes });
            }
        }
    }
    Ok(Some(place))
}

/// A word as a channel keeps it.
fn formatted(channel: Channel, word: u32) -> Result<u32, FaultKind> {
    let signed = word as i32;
    Ok(match channel {
        Channel::U32 | Channel::S32 | Channel::F32 => word,
        Channel::U8 => word.min(u8::MAX.into()),
        Channel::U16 => word.min(u16::MAX.into()),
        Channel::S8 => signed.clamp(i8::MIN.into(), i8::MAX.into()) as u32,
        Channel::S16 => signed.clamp(i16::MIN.into(), i16::MAX.into()) as u32,
        Channel::F16 => {
            let rounded = |rounding| {
                convert::float_to_float(float::F32, float::F16, Flow::rounding(rounding), word.into()) as u32
            };
            let [nearest, cut] = [Rounding::Nearest, Rounding::Zero].map(rounded);
            if nearest != cut {
                return Err(undefined("a formatted store of a float between two halves"));
            }
            if f32::from_bits(word).is_nan() && word != STORED_NAN {
                return Err(undefined("a formatted store of a NaN as a half"));
            }
            nearest
        }
    })
}

impl Image {
    /// The address of a row.
    fn row(&self, y: u32, z: u32) -> u64 {
        let [y, z] = [y, z].map(u64::from);
        let row = u64::from(self.sizes[0]) * u64::from(self.texel_bytes());
        self.address.wrapping_add((z * u64::from(self.sizes[1]) + y).wrapping_mul(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [u32; 4] = [0x3f80_0001, 0x4049_0fdb, 0xc000_0000, 0x7fff_ffff];

    /// What an H200 left of four words.
    #[test]
    fn words_are_stored_as_an_h200_does() {
        let stored = |channel| WORDS.map(|word| formatted(channel, word).expect("a stored word"));
        assert_eq!(stored(Channel::F16), [0x3c00, 0x4248, 0xc000, 0x7fff]);
        assert_eq!(stored(Channel::U8), [0xff; 4]);
        assert_eq!(stored(Channel::S16)[..2], [0x7fff; 2]);
        assert_eq!(formatted(Channel::S8, -3i32 as u32), Ok(-3i32 as u32));
        assert!(formatted(Channel::F16, 0x3f80_1800).is_err());
    }
}
