//! Images: texels in global memory that kernels read through textures and access through surfaces.
//!
//! A handle is the number of an image, from 1 on; where a variable was bound to none (0), an H200 reads zeros and
//! writes nothing. Images with several samples are not there.
//!
//! What an H200 gives was recorded at 1024 places for each kind of image and sampler ([`mix`] and [`level`] say what is
//! known of filters and levels, [`surface`] of stores): the nearest texel, what stands for those beyond the edges, zeros
//! for channels that the image hasn't got, zeros where a fetch by number is outside, sizes. As the CUDA guide describes
//! them, and not seen on a machine: the faces of [`cube`]s and the border's colour in images of integers.

mod cube;
mod level;
mod mix;
mod surface;

pub use cube::divided;
pub use level::Level;
pub use surface::{Outside, locate, store};

use crate::fault::FaultKind;
use crate::memory::{Global, load};
use ori::arith::{Flow, convert, float};

/// What one channel of a texel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are named as PTX names them")]
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
    /// Bytes of one channel.
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
    /// What is outside of the image.
    pub beyond: Beyond,
    /// The image goes from 0 to 1, whatever its size.
    pub normalised: bool,
    /// Texels around a place are mixed.
    pub linear: bool,
    /// So are the two levels around one that is asked for.
    pub linear_levels: bool,
    /// The color outside, where there is one.
    pub border: [f32; 4],
    /// Channels of 8 and 16 bits are read as the integers that they are, not as fractions of the largest.
    pub as_integers: bool,
}

/// What the planes of an image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planes {
    /// Its third axis.
    Depth,
    /// Images of their own.
    Layers,
    /// Of cubes, six for each: +x, -x, +y, -y, +z, -z.
    Faces,
}

impl Planes {
    fn new(sizes: [u32; 3], layered: bool, cube: bool) -> Result<Planes, String> {
        let [width, height, planes] = sizes;
        let are_faces = if layered { planes.is_multiple_of(6) } else { planes == 6 };
        match (cube, layered) {
            (true, _) if width != height || !are_faces => Err(format!("a cube of the sizes {sizes:?}")),
            (true, _) => Ok(Planes::Faces),
            (false, true) => Ok(Planes::Layers),
            (false, false) => Ok(Planes::Depth),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
/// An image in global memory.
pub struct Image {
    /// The first texel's. Texels lie side by side, row by row, plane by plane, level by level.
    pub address: u64,
    /// Width, height, and number of planes; 1 along axes that the image hasn't got.
    pub sizes: [u32; 3],
    /// What its planes are.
    pub planes: Planes,
    /// Each half as large as the one before along every axis, and no less than a texel; 1 without mipmaps.
    pub levels: u32,
    /// What a channel is.
    pub channel: Channel,
    /// 1, 2 or 4.
    pub channels: u32,
    /// How it is sampled.
    pub sampler: Sampler,
}

/// An image as one describes it.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// As PTX calls it: `f32`.
    pub channel: &'a str,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// As many as the image has axes; the last one is the number of layers if it is layered, of faces if it is a cube.
    pub sizes: &'a [u32],
    /// Are there layers?
    pub layered: bool,
    /// Is it a cube?
    pub cube: bool,
    /// Levels; 1 without mipmaps.
    pub levels: u32,
    /// `wrap`, `clamp`, `mirror` or `border`.
    pub beyond: &'a str,
    /// The image goes from 0 to 1, whatever its size.
    pub normalised: bool,
    /// Texels around a place are mixed.
    pub linear: bool,
    /// So are the two levels around one that is asked for.
    pub linear_levels: bool,
    /// Channels are read as the integers that they are.
    pub as_integers: bool,
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

/// Where in an image: the coordinates as they are in registers, 0 along axes that the instruction hasn't got.
#[derive(Clone, Copy, Debug, Default)]
pub struct At {
    /// Of an image with layers.
    pub layer: u32,
    /// By axis.
    pub coordinates: [u32; 3],
    /// How many coordinates the machine's instruction has.
    pub axes: usize,
    /// They are a direction from the middle of a cube.
    pub is_direction: bool,
    /// Of a mipmap.
    pub level: Level,
}

/// A place in one level of an image, in units of the sampler.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: [f64; 3],
    axes: usize,
    /// The number of the plane, if planes are not an axis.
    plane: u32,
}

fn undefined(what: &str) -> FaultKind {
    FaultKind::Undefined { what: what.into() }
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
    match way {
        Read::Fetch => {
            let image = image.level(image.level_number(at.level)?);
            // What is outside is zero, whatever the sampler has there.
            image.fetched(at).map_or(Ok([0; 4]), |place| image.texel(global, Some(place)))
        }
        Read::Sample if image.sampler.linear || image.sampler.linear_levels => image.mixed(global, at),
        Read::Sample => {
            let image = image.level(image.nearest_level(at.level)?);
            let place = image.place(at)?;
            image.texel(global, image.nearest(place))
        }
        Read::Gather(channel) => image.gathered(global, at, channel),
    }
}

impl Image {
    /// The image at an address; why there is none otherwise.
    pub fn new(address: u64, description: &Description) -> Result<Image, String> {
        let Description { channel, channels, sizes, layered, cube, levels, beyond, normalised, .. } =
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
        let planes = Planes::new(sizes, layered, cube)?;
        let [width, height, depth] = sizes;
        let largest = width.max(height).max(if planes == Planes::Depth { depth } else { 1 });
        if levels == 0 || levels > largest.ilog2() + 1 {
            return Err(format!("{levels} levels of an image of the sizes {sizes:?}"));
        }
        // The driver makes no others.
        if (cube || levels > 1) && !normalised {
            return Err("a cube or a mipmap whose coordinates don't go from 0 to 1".into());
        }
        let Description { linear, linear_levels, as_integers, .. } = *description;
        let sampler = Sampler { beyond, normalised, linear, linear_levels, border: [0.0; 4], as_integers };
        Ok(Image { address, sizes, planes, levels, channel, channels, sampler })
    }

    /// One of the levels, as an image of its own.
    fn level(&self, number: u32) -> Image {
        let sizes_of = |level: u32| {
            let [width, height, planes] = self.sizes;
            let smaller = |size: u32| size.checked_shr(level).unwrap_or(0).max(1);
            [
                smaller(width),
                smaller(height),
                if self.planes == Planes::Depth { smaller(planes) } else { planes },
            ]
        };
        let texels = |level: u32| sizes_of(level).map(u64::from).into_iter().fold(1, u64::wrapping_mul);
        let before = (0..number).map(texels).fold(0, u64::wrapping_add);
        let address = self.address.wrapping_add(before.wrapping_mul(self.texel_bytes().into()));
        Image { address, sizes: sizes_of(number), levels: 1, ..self.clone() }
    }

    /// What a query gives of a level's width, height and depth. An H200 counts layers as the axis after the others, and
    /// says 0 of axes that there are none of. (One plane is taken for none, and layers of one row for lines.)
    pub fn size_of_level(&self, number: u32, axis: usize) -> Result<u32, FaultKind> {
        let sizes = self.level(self.level_number(Level::Number(number))?).sizes;
        match (axis, self.planes) {
            (2, Planes::Faces) => Err(undefined("the depth of a cube")),
            (1, Planes::Layers) if self.sizes[1] == 1 => Ok(sizes[2]),
            (2, Planes::Layers) if self.sizes[1] == 1 => Ok(0),
            (2, Planes::Depth) if self.sizes[2] == 1 => Ok(0),
            (0..3, _) => Ok(sizes[axis]),
            _ => Err(undefined("a query of more than three sizes")),
        }
    }

    fn texel_bytes(&self) -> u32 {
        self.channel.bytes() * self.channels
    }

    /// The place with the layer, the last one at most, as its third coordinate.
    fn in_layer(&self, [x, y, z]: [u32; 3], layer: u32) -> [u32; 3] {
        [x, y, if self.planes == Planes::Depth { z } else { layer.min(self.sizes[2] - 1) }]
    }

    /// The texel with these numbers, in this very layer, if there is one.
    fn fetched(&self, at: At) -> Option<[u32; 3]> {
        let [x, y, z] = at.coordinates;
        let place = [x, y, if self.planes == Planes::Depth { z } else { at.layer }];
        place.iter().zip(self.sizes).all(|(at, size)| *at < size).then_some(place)
    }

    /// What coordinates that are floats mean.
    fn place(&self, at: At) -> Result<Place, FaultKind> {
        let floats = at.coordinates.map(f32::from_bits);
        match (self.planes, at.is_direction) {
            (Planes::Faces, true) => self.on_face(floats, at.layer),
            (Planes::Faces, false) | (_, true) => {
                Err(undefined("a cube that is read as none, or what is none as a cube"))
            }
            _ => {
                Ok(Place { at: floats.map(f64::from), axes: at.axes, plane: at.layer.min(self.sizes[2] - 1) })
            }
        }
    }

    /// The texel that is nearest to a place; `None` where the border is.
    fn nearest(&self, place: Place) -> Option<[u32; 3]> {
        let mut texel = [0, 0, place.plane];
        let axes = if self.planes == Planes::Depth { 3 } else { 2 };
        for (texel, (size, at)) in texel.iter_mut().zip(self.sizes.into_iter().zip(place.at)).take(axes) {
            *texel = self.inside(size, self.in_texels(size, at).floor() as i64)?;
        }
        Some(texel)
    }

    /// One channel of the four texels that a linear filter would mix: the lower left one first, then round against the
    /// clock.
    fn gathered(&self, global: &mut Global, at: At, channel: usize) -> Result<[u32; 4], FaultKind> {
        let image = self.level(0);
        let place = image.place(at)?;
        let [columns, rows] = [0, 1].map(|axis| image.beside(image.sizes[axis], place.at[axis]));
        let mut gathered = [0; 4];
        for (value, [x, y]) in gathered.iter_mut().zip([[0, 1], [1, 1], [1, 0], [0, 0]]) {
            let number = columns[x].zip(rows[y]).map(|(column, row)| [column, row, place.plane]);
            *value = image.texel(global, number)?[channel];
        }
        Ok(gathered)
    }

    /// A coordinate, in texels from the image's edge.
    fn in_texels(&self, size: u32, at: f64) -> f64 {
        at * if self.sampler.normalised { f64::from(size) } else { 1.0 }
    }

    /// What is beyond the edges. Without a size to repeat with, that is the nearest texel.
    fn beyond(&self) -> Beyond {
        let Sampler { beyond, normalised, .. } = self.sampler;
        if normalised || beyond == Beyond::Border { beyond } else { Beyond::Clamp }
    }

    /// The texel that stands for one along an axis; `None` where the border is.
    fn inside(&self, size: u32, number: i64) -> Option<u32> {
        let size = i64::from(size);
        let inside = match self.beyond() {
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

    /// What an instruction gets of a texel, or of the border.
    fn texel(&self, global: &mut Global, place: Option<[u32; 3]>) -> Result<[u32; 4], FaultKind> {
        let mut channels = [0; 4];
        let count = self.channels as usize;
        match place {
            None => channels[..count].copy_from_slice(&self.sampler.border.map(f32::to_bits)[..count]),
            Some(place) => {
                let bits = self.bits(global, place)?;
                channels.iter_mut().zip(bits).take(count).for_each(|(to, bits)| *to = self.value(bits));
            }
        }
        Ok(channels)
    }

    /// The bits of a texel's channels, zeros for those that it hasn't got.
    fn bits(&self, global: &mut Global, place: [u32; 3]) -> Result<[u32; 4], FaultKind> {
        let [x, y, z] = place.map(u64::from);
        let [width, height, _] = self.sizes.map(u64::from);
        let bytes = self.texel_bytes();
        let number = z.wrapping_mul(height).wrapping_add(y).wrapping_mul(width).wrapping_add(x);
        let address = self.address.wrapping_add(number.wrapping_mul(bytes.into()));
        let out_of_bounds = FaultKind::OutOfBounds { space: "global", address, bytes };
        let texel = global.slice(address, bytes as usize).ok_or(out_of_bounds)?;
        let mut channels = [0; 4];
        for (to, from) in channels.iter_mut().zip(texel.chunks_exact(self.channel.bytes() as usize)) {
            *to = load(from) as u32;
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
