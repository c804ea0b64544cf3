//! Images: texels in global memory that kernels read through textures and access through surfaces.
//!
//! A handle is the number of an image, from 1 on; where a variable was bound to none (0), an H200 reads zeros and
//! writes nothing. Images have one level: mipmaps, cubes and images with several samples are not there.
//!
//! As an H200 has it, seen at 1024 places each: the nearest texel and what stands for those beyond the edges, zeros for
//! channels that the image hasn't got, and the weights of linear filters of lines and planes. The last bit of a mixture,
//! the weights of a third axis, the border's colour in images of integers, fractions of them that are mixed (there the
//! H200's results are off by more than a bit), and the order of gathered texels are as the CUDA guide describes them or
//! *unverified*.

use crate::ptx::FaultKind;
use crate::ptx::memory::{Global, load};
use ori::arith::{Flow, convert, float};

/// What one channel of a texel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    U8,
    U16,
    U32,
    S8,
    S16,
    S32,
    F16,
    F32,
}

impl Channel {
    pub fn bytes(self) -> u32 {
        match self {
            Channel::U8 | Channel::S8 => 1,
            Channel::U16 | Channel::S16 | Channel::F16 => 2,
            Channel::U32 | Channel::S32 | Channel::F32 => 4,
        }
    }
}

/// Which texel stands for those beyond the image's edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// The image is repeated.
    Wrap,
    /// The nearest one.
    Clamp,
    /// The image is repeated, every other time the other way round.
    Mirror,
    /// None: the border's colour does.
    Border,
}

/// How places that are floats become texels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    pub beyond: Beyond,
    /// The image goes from 0 to 1, whatever its size.
    pub normalised: bool,
    /// Texels around a place are mixed.
    pub linear: bool,
    pub border: [f32; 4],
    /// Channels of 8 and 16 bits are read as the integers that they are, not as fractions of the largest.
    pub as_integers: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// The first texel's. Texels lie side by side, row by row, plane by plane.
    pub address: u64,
    /// Width, height, and depth or number of layers; 1 along axes that the image hasn't got.
    pub sizes: [u32; 3],
    pub layered: bool,
    pub channel: Channel,
    /// 1, 2 or 4.
    pub channels: u32,
    pub sampler: Sampler,
}

/// An image as one describes it.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// As PTX calls it: `f32`.
    pub channel: &'a str,
    pub channels: u32,
    /// As many as the image has axes; the last one is the number of layers if it is layered.
    pub sizes: &'a [u32],
    pub layered: bool,
    /// `wrap`, `clamp`, `mirror` or `border`.
    pub beyond: &'a str,
    pub normalised: bool,
    pub linear: bool,
    pub as_integers: bool,
}

/// The weights of a linear filter are so many parts of one.
const WEIGHTS: i64 = 256;

/// The two texels around a coordinate, `None` where the border is, and the weight of the second.
struct Around {
    texels: [Option<u32>; 2],
    weight: i64,
}

/// The weights of the corners (0, 0), (1, 0), (0, 1) and (1, 1): the last one is rounded, and the others are what is left.
fn plane_weights(x: i64, y: i64) -> [i64; 4] {
    let both = (x * y + WEIGHTS / 2) / WEIGHTS;
    [WEIGHTS - x - y + both, x - both, y - both, both]
}

const CHANNELS: [(&str, Channel); 8] = [
    ("u8", Channel::U8),
    ("u16", Channel::U16),
    ("u32", Channel::U32),
    ("s8", Channel::S8),
    ("s16", Channel::S16),
    ("s32", Channel::S32),
    ("f16", Channel::F16),
    ("f32", Channel::F32),
];
const BEYOND: [(&str, Beyond); 4] = [
    ("wrap", Beyond::Wrap),
    ("clamp", Beyond::Clamp),
    ("mirror", Beyond::Mirror),
    ("border", Beyond::Border),
];

/// How a texture is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Coordinates are the texel's numbers.
    Fetch,
    /// Coordinates are floats, and the sampler says what they mean.
    Sample,
    /// One channel of the four texels around a place.
    Gather(usize),
}

/// What an access of a surface does outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    Trap,
    Clamp,
    /// Reads zeros, writes nothing.
    Zero,
}

/// Where in an image: the coordinates as they are in registers, 0 along axes that the instruction hasn't got.
#[derive(Clone, Copy, Debug, Default)]
pub struct At {
    pub layer: u32,
    pub coordinates: [u32; 3],
}

/// The image of a handle; `None` for the handle of a variable that nothing was bound to.
pub fn find(global: &Global, handle: u64) -> Result<Option<&Image>, FaultKind> {
    match handle as u32 {
        0 => Ok(None),
        number => match global.images.get(number as usize - 1) {
            Some(image) => Ok(Some(image)),
            None => Err(FaultKind::Undefined { what: format!("an image with the handle {handle:#x}") }),
        },
    }
}

/// The four channels that a texture instruction gives.
pub fn read(global: &mut Global, handle: u64, way: Read, at: At) -> Result<[u32; 4], FaultKind> {
    let Some(image) = find(global, handle)?.cloned() else { return Ok([0; 4]) };
    let floats = at.coordinates.map(f32::from_bits);
    match way {
        Read::Fetch => image.texel(global, image.fetched(at)),
        Read::Sample if image.sampler.linear => image.mixed(global, floats, at.layer),
        Read::Sample => {
            let place = image.nearest(floats);
            image.texel(global, place.map(|place| image.in_layer(place, at.layer)))
        }
        Read::Gather(channel) => {
            let mut gathered = [0; 4];
            // The lower left one first, then round against the clock.
            for (value, [x, y]) in
                gathered.iter_mut().zip([[-0.5, 0.5], [0.5, 0.5], [0.5, -0.5], [-0.5, -0.5]])
            {
                let place = image.nearest(image.shifted(floats, [x, y, 0.0]));
                let texel = image.texel(global, place.map(|place| image.in_layer(place, at.layer)))?;
                *value = texel[channel];
            }
            Ok(gathered)
        }
    }
}

/// The address of so many bytes of a surface; `None` where the access is of nothing.
pub fn locate(
    global: &Global,
    handle: u64,
    at: At,
    bytes: u32,
    outside: Outside,
) -> Result<Option<u64>, FaultKind> {
    let Some(image) = find(global, handle)? else { return Ok(None) };
    let row = u64::from(image.sizes[0]) * u64::from(image.texel_bytes());
    let mut place = image.in_layer(at.coordinates, at.layer);
    // The first coordinate counts bytes.
    if !place[0].is_multiple_of(bytes) {
        return Err(FaultKind::Misaligned { space: "surface", address: place[0].into(), bytes });
    }
    let last = u32::try_from(row.saturating_sub(bytes.into())).unwrap_or(u32::MAX);
    let limits = [last, image.sizes[1] - 1, image.sizes[2] - 1];
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
    let [x, y, z] = place.map(u64::from);
    let rows = z * u64::from(image.sizes[1]) + y;
    Ok(Some(image.address.wrapping_add(rows.wrapping_mul(row)).wrapping_add(x)))
}

impl Image {
    /// The image at an address; why there is none otherwise.
    pub fn new(address: u64, description: &Description) -> Result<Image, String> {
        let Description { channel, channels, sizes, layered, beyond, normalised, linear, as_integers } =
            *description;
        let found = |name: &str| format!("an image of {name}");
        let (_, channel) = CHANNELS.into_iter().find(|(known, _)| *known == channel).ok_or(found(channel))?;
        let (_, beyond) = BEYOND.into_iter().find(|(known, _)| *known == beyond).ok_or(found(beyond))?;
        if ![1, 2, 4].contains(&channels) || !(1..=3).contains(&sizes.len()) || sizes.contains(&0) {
            return Err(format!("an image of {channels} channels and the sizes {sizes:?}"));
        }
        // A line's layers are not its rows.
        let sizes = match (layered, sizes) {
            (true, [width, layers]) => [*width, 1, *layers],
            (true, [_]) => return Err("an image without the number of its layers".into()),
            _ => std::array::from_fn(|axis| sizes.get(axis).copied().unwrap_or(1)),
        };
        let sampler = Sampler { beyond, normalised, linear, border: [0.0; 4], as_integers };
        Ok(Image { address, sizes, layered, channel, channels, sampler })
    }

    fn texel_bytes(&self) -> u32 {
        self.channel.bytes() * self.channels
    }

    /// The place with the layer, the last one at most, as its third coordinate.
    fn in_layer(&self, [x, y, z]: [u32; 3], layer: u32) -> [u32; 3] {
        [x, y, if self.layered { layer.min(self.sizes[2] - 1) } else { z }]
    }

    /// The texel with these numbers, if there is one.
    fn fetched(&self, at: At) -> Option<[u32; 3]> {
        let place = self.in_layer(at.coordinates, at.layer);
        place.iter().zip(self.sizes).all(|(at, size)| *at < size).then_some(place)
    }

    /// A place so many texels on.
    fn shifted(&self, place: [f32; 3], by: [f32; 3]) -> [f32; 3] {
        std::array::from_fn(|axis| {
            let texel = if self.sampler.normalised { 1.0 / self.sizes[axis] as f32 } else { 1.0 };
            place[axis] + by[axis] * texel
        })
    }

    /// The texel that is nearest to a place; `None` where the border is.
    fn nearest(&self, place: [f32; 3]) -> Option<[u32; 3]> {
        let mut texel = [0; 3];
        let axes = if self.layered { 2 } else { 3 };
        for axis in 0..axes {
            texel[axis] = self.nearest_along(self.sizes[axis], place[axis])?;
        }
        Some(texel)
    }

    fn nearest_along(&self, size: u32, at: f32) -> Option<u32> {
        self.inside(size, self.in_texels(size, at).floor() as i64)
    }

    /// A coordinate, in texels from the image's edge.
    fn in_texels(&self, size: u32, at: f32) -> f64 {
        f64::from(at) * if self.sampler.normalised { f64::from(size) } else { 1.0 }
    }

    /// The texel that stands for one along an axis; `None` where the border is.
    fn inside(&self, size: u32, number: i64) -> Option<u32> {
        let Sampler { beyond, normalised, .. } = self.sampler;
        let size = i64::from(size);
        // Without a size to repeat with, places beyond are as with the nearest texel.
        let beyond = if normalised || beyond == Beyond::Border { beyond } else { Beyond::Clamp };
        let inside = match beyond {
            Beyond::Clamp => number.clamp(0, size - 1),
            Beyond::Wrap => number.rem_euclid(size),
            Beyond::Mirror => {
                let twice = number.rem_euclid(2 * size);
                twice.min(2 * size - 1 - twice)
            }
            Beyond::Border if !(0..size).contains(&number) => return None,
            Beyond::Border => number,
        };
        Some(inside as u32)
    }

    /// The texels around a place, each by its weight. How the machine rounds their sum is not known.
    fn mixed(&self, global: &mut Global, place: [f32; 3], layer: u32) -> Result<[u32; 4], FaultKind> {
        if !self.gives_floats() {
            return Err(FaultKind::Undefined { what: "a linear filter of integers".into() });
        }
        let axes: [_; 3] = std::array::from_fn(|axis| self.around(axis, place[axis]));
        let plane = plane_weights(axes[0].weight, axes[1].weight);
        let mut sums = [0.0; 4];
        for corner in 0..8 {
            let side = |axis: usize| corner >> axis & 1;
            let depth = if side(2) == 0 { WEIGHTS - axes[2].weight } else { axes[2].weight };
            let weight = plane[corner & 3] * depth;
            if weight == 0 {
                continue;
            }
            let [x, y, z] = std::array::from_fn(|axis| axes[axis].texels[side(axis)]);
            let number = x.zip(y).zip(z).map(|((x, y), z)| self.in_layer([x, y, z], layer));
            let texel = self.texel(global, number)?;
            for (sum, channel) in sums.iter_mut().zip(texel) {
                *sum += f64::from(f32::from_bits(channel)) * weight as f64 / (WEIGHTS * WEIGHTS) as f64;
            }
        }
        Ok(sums.map(|sum| (sum as f32).to_bits()))
    }

    /// What is around a coordinate. An axis of one texel has it on both sides, as if the axis weren't there.
    fn around(&self, axis: usize, at: f32) -> Around {
        let size = self.sizes[axis];
        if size == 1 || axis == 2 && self.layered {
            return Around { texels: [Some(0); 2], weight: 0 };
        }
        // Texels' middles are at halves.
        let steps = ((self.in_texels(size, at) - 0.5) * WEIGHTS as f64 + 0.5).floor() as i64;
        let number = steps.div_euclid(WEIGHTS);
        Around {
            texels: [self.inside(size, number), self.inside(size, number + 1)],
            weight: steps.rem_euclid(WEIGHTS),
        }
    }

    /// Do channels become floats?
    fn gives_floats(&self) -> bool {
        match self.channel {
            Channel::F16 | Channel::F32 => true,
            Channel::U32 | Channel::S32 => false,
            _ => !self.sampler.as_integers,
        }
    }

    /// What an instruction gets of a texel, or of the border.
    fn texel(&self, global: &mut Global, place: Option<[u32; 3]>) -> Result<[u32; 4], FaultKind> {
        let mut channels = [0; 4];
        let Some(place) = place else {
            let border = self.sampler.border.into_iter().take(self.channels as usize);
            channels.iter_mut().zip(border).for_each(|(to, from)| *to = from.to_bits());
            return Ok(channels);
        };
        let [x, y, z] = place.map(u64::from);
        let [width, height, _] = self.sizes.map(u64::from);
        let bytes = self.texel_bytes();
        let number = z.wrapping_mul(height).wrapping_add(y).wrapping_mul(width).wrapping_add(x);
        let address = self.address.wrapping_add(number.wrapping_mul(bytes.into()));
        let out_of_bounds = FaultKind::OutOfBounds { space: "global", address, bytes };
        let texel = global.slice(address, bytes as usize).ok_or(out_of_bounds)?;
        for (to, from) in channels.iter_mut().zip(texel.chunks_exact(self.channel.bytes() as usize)) {
            *to = self.value(load(from) as u32);
        }
        Ok(channels)
    }

    fn value(&self, bits: u32) -> u32 {
        let fraction = |value: i32, most: f32| (value as f32 / most).max(-1.0).to_bits();
        let integers = self.sampler.as_integers;
        match self.channel {
            Channel::F16 => {
                convert::float_to_float(float::F16, float::F32, Flow::NEAREST, bits.into()) as u32
            }
            Channel::U8 if !integers => fraction(bits as i32, 255.0),
            Channel::U16 if !integers => fraction(bits as i32, 65535.0),
            Channel::S8 if !integers => fraction((bits as i8).into(), 127.0),
            Channel::S16 if !integers => fraction((bits as i16).into(), 32767.0),
            Channel::S8 => bits as i8 as u32,
            Channel::S16 => bits as i16 as u32,
            _ => bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texels around a place, weights along x and y, and what an H200 made of them. Products of weights that are not
    /// rounded would be off by up to 1/512 of a texel.
    #[test]
    fn weights_of_planes_are_an_h200s() {
        const MIXED: [([f64; 4], i64, i64, f32); 4] = [
            ([34.888664, -2.3560681, -0.1334002, 28.356068], 26, 107, 19.292383),
            ([-0.1334002, 28.356068, 30.577734, -6.665998], 137, 104, 13.210177),
            ([-13.332999, 15.155466, 17.378134, -19.8666], 1, 76, -4.1043487),
            ([17.378134, -19.8666, -17.643932, 10.844534], 112, 72, -0.54974335),
        ];
        for (texels, x, y, expected) in MIXED {
            let sum: f64 = texels.iter().zip(plane_weights(x, y)).map(|(t, weight)| t * weight as f64).sum();
            let got = sum / WEIGHTS as f64;
            assert!(
                (got - f64::from(expected)).abs() < 2e-6 * expected.abs().max(1.0) as f64,
                "{got} {expected}"
            );
        }
    }
}
