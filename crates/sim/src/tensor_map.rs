//! Tensor maps: the 128 bytes that say how a tensor lies in global memory and which box of it a copy takes. The driver
//! makes them, `tensormap.replace` changes them, and the copies of the interpreter and of the simulator read them here.
//! [`sass::tensor_map`] says where what lies.

use crate::memory::SHARED_LIMIT;
use crate::memory::Space;
use crate::swizzle::Swizzle;
pub use sass::tensor_map::{AXES, BYTES};
use sass::tensor_map::{
    CORNERS, Choice, ELEMENT, FILL, FOLLOWS_PATH, Field, INTERLEAVE, PIXELS, RANK, ROUNDED, SIZES,
    STRIDE_SHIFT, STRIDES, SWIZZLE, box_size, corner, step, stride_above,
};

/// A box begins at a multiple of so many bytes: an H200 takes another one for an illegal instruction. (Loads of f32 from
/// x = 3; stores: tile-ai/tilelang issue 2527.)
const ROW_ALIGNMENT: i64 = 16;

/// What an H200 fills tensors with for a NaN, whatever their elements: each 16 bits are the same.
const NANS: u64 = 0x7ff7_7ff7_7ff7_7ff7;

/// What a tensor is made of. Numbered as `tensormap.replace` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are named as the driver names them")]
pub enum Element {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    /// Subnormal numbers become zero.
    F32Ftz,
    F64,
    BF16,
    Tf32,
    Tf32Ftz,
}

/// The elements in the order of their numbers: bytes, and the name of their type in PTX.
const ELEMENTS: [(Element, u32, &str); 13] = [
    (Element::U8, 1, "u8"),
    (Element::U16, 2, "u16"),
    (Element::U32, 4, "u32"),
    (Element::S32, 4, "s32"),
    (Element::U64, 8, "u64"),
    (Element::S64, 8, "s64"),
    (Element::F16, 2, "f16"),
    (Element::F32, 4, "f32"),
    (Element::F32Ftz, 4, "f32"),
    (Element::F64, 8, "f64"),
    (Element::BF16, 2, "bf16"),
    (Element::Tf32, 4, "f32"),
    (Element::Tf32Ftz, 4, "f32"),
];

impl Element {
    /// The element with a name as run lines and PTX have them.
    pub fn named(name: &str) -> Option<Element> {
        let special = [("f32.ftz", Element::F32Ftz), ("tf32", Element::Tf32), ("tf32.ftz", Element::Tf32Ftz)];
        let special = special.into_iter().find(|(known, _)| *known == name).map(|(_, element)| element);
        special
            .or_else(|| ELEMENTS.iter().find(|(_, _, known)| *known == name).map(|(element, _, _)| *element))
    }

    /// Bytes of one element.
    pub fn bytes(self) -> u32 {
        ELEMENTS[self as usize].1
    }

    /// The type of PTX that reductions of such a tensor have.
    pub fn type_name(self) -> &'static str {
        ELEMENTS[self as usize].2
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// A tensor in global memory, and what a copy takes of it.
pub struct TensorMap {
    /// Of the first element.
    pub address: u64,
    /// How many axes there are.
    pub rank: usize,
    /// What an element is.
    pub element: Element,
    /// How rows are mixed in shared memory.
    pub swizzle: Swizzle,
    /// Bytes of the channels of a pixel that lie side by side: 16 or 32; 0 where all of them do.
    ///
    /// The first axis counts pixels then, and each of its steps is so many bytes. Of the second axis an H200 takes one
    /// row where the box is no wider than so many bytes of elements; other boxes, steps of pixels and paths are not known.
    pub interleave: u32,
    /// What lies outside of the tensor is a NaN, not zero.
    pub fills_nan: bool,
    /// Elements along each axis, the fastest first.
    pub sizes: [u32; AXES],
    /// Bytes from one to the next along each axis but the first.
    pub strides: [u64; AXES - 1],
    /// What a copy takes.
    pub boxes: [u32; AXES],
    /// Every how many elements.
    pub steps: [u32; AXES],
    /// Copies take pixels along a filter's path, not boxes.
    pub path: Option<Path>,
}

/// The path of a filter's corner: all places within bounds along the axes between the first and the last, line by
/// line. A copy takes so many pixels of it, and of each as many channels as `boxes` has for the first axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Where a line begins, and how far its end is from that of the tensor, by axis from the second on.
    pub lower: [i32; AXES - 2],
    /// See `lower`.
    pub upper: [i32; AXES - 2],
    /// Pixels that a copy takes.
    pub pixels: u32,
}

/// A tensor as one describes it; lists begin with the fastest axis, which has no stride.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// As the driver calls it, in lower case: `f16`.
    pub element: &'a str,
    /// Elements along each axis.
    pub sizes: &'a [u32],
    /// In bytes.
    pub strides: &'a [u64],
    /// What a copy takes, along each axis.
    pub boxes: &'a [u32],
    /// Every how many elements.
    pub steps: &'a [u32],
    /// Bytes of a row that are mixed: 0, 32, 64 or 128.
    pub swizzle: u32,
    /// 0, 16 or 32 bytes.
    pub interleave: u32,
    /// What lies outside of the tensor is a NaN, not zero.
    pub fills_nan: bool,
}

/// What `tensormap.replace` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapField {
    /// Where the tensor is.
    Address,
    /// The number of axes.
    Rank,
    /// What a copy takes along this axis.
    Box(u32),
    /// The size along this axis.
    Size(u32),
    /// The stride of this axis.
    Stride(u32),
    /// Every how many elements along this axis.
    Step(u32),
    /// A field with named values.
    Choice(Choice),
}

/// An element of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Where it lies in shared memory, from the start of the box, before it is swizzled.
    pub shared: u32,
    /// Its address, if it is in the tensor.
    pub global: Option<u64>,
}

/// Reading and writing a field.
trait Bits {
    fn get(self, map: &[u8; BYTES]) -> u32;
    fn set(self, map: &mut [u8; BYTES], value: u32);
}

impl Bits for Field {
    fn get(self, map: &[u8; BYTES]) -> u32 {
        word(map, self.word) >> self.shift & self.mask()
    }

    fn set(self, map: &mut [u8; BYTES], value: u32) {
        let kept = word(map, self.word) & !(self.mask() << self.shift);
        set_word(map, self.word, kept | (value & self.mask()) << self.shift);
    }
}

fn word(map: &[u8; BYTES], at: u32) -> u32 {
    let at = at as usize;
    map[at..at + 4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn set_word(map: &mut [u8; BYTES], at: u32, value: u32) {
    let at = at as usize;
    map[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Changes a field to the value that the instruction has for it.
pub fn replace(map: &mut [u8; BYTES], field: MapField, value: u64) {
    let word = value as u32;
    match field {
        MapField::Address => map[..8].copy_from_slice(&value.to_le_bytes()),
        MapField::Rank => RANK.set(map, word),
        MapField::Box(axis) => box_size(axis).set(map, word.wrapping_sub(1)),
        MapField::Size(axis) => set_word(map, SIZES + 4 * axis, word.wrapping_sub(1)),
        MapField::Stride(axis) => {
            set_word(map, STRIDES + 4 * axis, (value >> STRIDE_SHIFT) as u32);
            stride_above(axis).set(map, (value >> STRIDE_SHIFT >> 32) as u32);
        }
        MapField::Step(axis) => step(axis).set(map, word.wrapping_sub(1)),
        MapField::Choice(choice) => {
            choice.fields(word).into_iter().for_each(|(field, value)| field.set(map, value))
        }
    }
}

const INTERLEAVES: [u32; 3] = [0, 16, 32];
const SWIZZLES: [Swizzle; 4] = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];

impl TensorMap {
    /// The map of a tensor at an address; why there is none otherwise.
    pub fn new(address: u64, tensor: &Tensor) -> Result<TensorMap, String> {
        let Tensor { element, sizes, strides, boxes, steps, swizzle, interleave, fills_nan } = *tensor;
        let element = Element::named(element).ok_or_else(|| format!("a tensor of {element}"))?;
        let rank = sizes.len();
        let fits = (1..=AXES).contains(&rank) && boxes.len() == rank && steps.len() == rank;
        if !fits || strides.len() + 1 != rank {
            return Err(format!("a tensor of {rank} axes with other numbers of boxes, steps or strides"));
        }
        if !address.is_multiple_of(16) || strides.iter().any(|stride| !stride.is_multiple_of(16)) {
            return Err("a tensor whose address or strides are no multiples of 16".into());
        }
        if !INTERLEAVES.contains(&interleave) {
            return Err(format!("a tensor interleaved by {interleave} bytes"));
        }
        let or_one = |list: &[u32], axis: usize| list.get(axis).copied().unwrap_or(1);
        Ok(TensorMap {
            address,
            rank,
            element,
            swizzle: Swizzle::of_bytes(swizzle).ok_or_else(|| format!("a swizzle of {swizzle} bytes"))?,
            interleave,
            fills_nan,
            sizes: std::array::from_fn(|axis| or_one(sizes, axis)),
            strides: std::array::from_fn(|axis| strides.get(axis).copied().unwrap_or(0)),
            boxes: std::array::from_fn(|axis| or_one(boxes, axis)),
            steps: std::array::from_fn(|axis| or_one(steps, axis)),
            path: None,
        })
    }

    /// What a map says; why it can't be used otherwise.
    pub fn read(map: &[u8; BYTES]) -> Result<TensorMap, String> {
        let code = ELEMENT.get(map) as usize + 4 * ROUNDED.get(map) as usize;
        let (element, ..) =
            ELEMENTS.get(code).ok_or_else(|| format!("a tensor of elements of type {code}"))?;
        let interleave = INTERLEAVE.get(map);
        let interleave =
            INTERLEAVES.get(interleave as usize).ok_or_else(|| format!("interleave {interleave}"))?;
        // On its way from global memory an H200 rounds a tf32 to the nearest even one, makes any NaN 0x7fffe000 and keeps
        // subnormal numbers, also with ftz; an f32 with ftz stays as it is. What becomes of them in reductions is not
        // known, and none of it is done here.
        if matches!(element, Element::F32Ftz | Element::Tf32 | Element::Tf32Ftz) {
            return Err("a tensor whose elements are rounded, which is not known".into());
        }
        let stride = |axis: usize| {
            let high = u64::from(stride_above(axis as u32).get(map));
            (high << 32 | u64::from(word(map, STRIDES + 4 * axis as u32))) << STRIDE_SHIFT
        };
        let map = TensorMap {
            address: u64::from(word(map, 4)) << 32 | u64::from(word(map, 0)),
            rank: (RANK.get(map) as usize + 1).min(AXES),
            element: *element,
            swizzle: SWIZZLES[SWIZZLE.get(map) as usize],
            interleave: *interleave,
            fills_nan: FILL.get(map) == 1,
            sizes: std::array::from_fn(|axis| word(map, SIZES + 4 * axis as u32).wrapping_add(1)),
            strides: std::array::from_fn(stride),
            boxes: std::array::from_fn(|axis| box_size(axis as u32).get(map) + 1),
            steps: std::array::from_fn(|axis| step(axis as u32).get(map) + 1),
            path: path_of(map),
        };
        map.is_known_if_interleaved().map(|()| map)
    }

    fn is_known_if_interleaved(&self) -> Result<(), String> {
        match self.interleave {
            0 => Ok(()),
            _ if self.rank < 3 => Err("an interleaved tensor of fewer than three axes".into()),
            _ if self.path.is_some() => Err("pixels of an interleaved tensor along a path".into()),
            _ if self.steps[0] > 1 => Err("every other pixel of an interleaved tensor".into()),
            bytes if self.boxes[1] * self.element.bytes() > bytes => {
                Err(format!("a box of an interleaved tensor with more than {bytes} bytes of channels"))
            }
            _ => Ok(()),
        }
    }

    /// The map as it is in memory.
    pub fn write(&self) -> [u8; BYTES] {
        let mut map = [0; BYTES];
        map[..8].copy_from_slice(&self.address.to_le_bytes());
        RANK.set(&mut map, self.rank as u32 - 1);
        replace(&mut map, MapField::Choice(Choice::Element), self.element as u64);
        SWIZZLE.set(&mut map, SWIZZLES.iter().position(|s| *s == self.swizzle).unwrap_or(0) as u32);
        let interleave = INTERLEAVES.iter().position(|bytes| *bytes == self.interleave);
        INTERLEAVE.set(&mut map, interleave.unwrap_or(0) as u32);
        FILL.set(&mut map, self.fills_nan.into());
        for (axis, stride) in self.strides.iter().enumerate() {
            let units = stride >> STRIDE_SHIFT;
            set_word(&mut map, STRIDES + 4 * axis as u32, units as u32);
            stride_above(axis as u32).set(&mut map, (units >> 32) as u32);
        }
        for axis in 0..AXES {
            let place = axis as u32;
            set_word(&mut map, SIZES + 4 * place, self.sizes[axis].wrapping_sub(1));
            box_size(place).set(&mut map, self.boxes[axis].wrapping_sub(1));
            step(place).set(&mut map, self.steps[axis].wrapping_sub(1));
        }
        if let Some(path) = &self.path {
            FOLLOWS_PATH.set(&mut map, 1);
            PIXELS.set(&mut map, path.pixels.wrapping_sub(1));
            set_word(&mut map, CORNERS, 0);
            for axis in 0..self.rank.saturating_sub(2) {
                corner(self.rank, axis as u32, false).set(&mut map, path.lower[axis] as u32);
                corner(self.rank, axis as u32, true).set(&mut map, path.upper[axis] as u32);
            }
        }
        map
    }

    /// Bytes from one to the next along the first axis.
    fn unit(&self) -> u32 {
        if self.interleave > 0 { self.interleave } else { self.element.bytes() }
    }

    /// How many units a box has in shared memory along each axis.
    fn extents(&self) -> [u32; AXES] {
        std::array::from_fn(|axis| match axis {
            // The first axis has no steps.
            0 => self.boxes[0],
            1 if self.interleave > 0 => 1,
            _ if axis < self.rank => self.boxes[axis].div_ceil(self.steps[axis]),
            _ => 1,
        })
    }

    /// The bytes of a box, or of the pixels of a path, in shared memory.
    pub fn bytes(&self) -> u64 {
        let units = match &self.path {
            Some(path) => u64::from(path.pixels) * u64::from(self.boxes[0]),
            None => self.extents().iter().map(|extent| u64::from(*extent)).product(),
        };
        units * u64::from(self.unit())
    }

    /// What a copy takes, from the place that it names; why it can't otherwise.
    pub fn cells(&self, start: [i32; AXES], offsets: &[u16]) -> Result<Vec<Cell>, String> {
        let first = i64::from(start[0]) * i64::from(self.unit());
        if first % ROW_ALIGNMENT != 0 {
            return Err(format!("rows from byte {first} on, which is no multiple of {ROW_ALIGNMENT}"));
        }
        if self.bytes() > SHARED_LIMIT.into() {
            return Err(format!("{} bytes, more than shared memory has", self.bytes()));
        }
        match &self.path {
            None if offsets.is_empty() => Ok(self.tile(start).collect()),
            None => Err("pixels of a tensor that is copied in boxes".into()),
            Some(path) => Ok(self.pixels(path, start, offsets)),
        }
    }

    /// The pixels of a path, which the offsets are added to.
    fn pixels(&self, path: &Path, start: [i32; AXES], offsets: &[u16]) -> Vec<Cell> {
        let spatial = 1..self.rank.saturating_sub(1);
        let mut place = start.map(i64::from);
        let mut cells = Vec::new();
        for _ in 0..path.pixels {
            let mut at = place;
            spatial
                .clone()
                .for_each(|axis| at[axis] += i64::from(offsets.get(axis - 1).copied().unwrap_or(0)));
            for channel in 0..self.boxes[0] {
                at[0] = place[0] + i64::from(channel);
                cells.push(Cell { shared: self.in_rows(cells.len() as u32), global: self.locate(at) });
            }
            // On to the next place, as a number with a digit for each axis.
            for axis in spatial.clone() {
                place[axis] += i64::from(self.steps[axis]);
                if place[axis] < i64::from(self.sizes[axis]) + i64::from(path.upper[axis - 1]) {
                    break;
                }
                place[axis] = path.lower[axis - 1].into();
                if axis + 2 == self.rank {
                    place[axis + 1] += 1;
                }
            }
        }
        cells
    }

    /// Where a unit lies from the start of the box. Rows that are narrower than those that are mixed have gaps
    /// after them: an H200 was seen to do so with pixels, and boxes are taken to be like them.
    fn in_rows(&self, index: u32) -> u32 {
        let size = self.unit();
        let row = match self.swizzle {
            _ if self.interleave > 0 => self.boxes[0] * size,
            Swizzle::None => self.boxes[0] * size,
            swizzle => (self.boxes[0] * size).max(16 * swizzle.units()),
        };
        index / self.boxes[0] * row + index % self.boxes[0] * size
    }

    /// Where a byte of a box at this address of shared memory lies.
    pub fn swizzled(&self, place: u64, offset: u32) -> u64 {
        let address = place.wrapping_add(offset.into());
        address & !0xffff_ffff | u64::from(self.swizzle.apply(address as u32))
    }

    /// What stands for an element that the tensor doesn't have.
    pub fn filling(&self) -> u64 {
        if self.fills_nan { NANS } else { 0 }
    }

    /// The elements of the box whose first corner is given.
    fn tile(&self, corner: [i32; AXES]) -> impl Iterator<Item = Cell> + '_ {
        let extents = self.extents();
        (0..extents.iter().product::<u32>()).flat_map(move |index| {
            let mut rest = index;
            let place = std::array::from_fn(|axis| {
                let at = rest % extents[axis];
                rest /= extents[axis];
                let step = if axis == 0 { 1 } else { self.steps[axis] };
                i64::from(corner[axis]) + i64::from(at) * i64::from(step)
            });
            let (shared, global) = (self.in_rows(index), self.locate(place));
            (0..self.unit()).step_by(self.element.bytes() as usize).map(move |byte| Cell {
                shared: shared + byte,
                global: global.map(|address| address.wrapping_add(byte.into())),
            })
        })
    }

    /// The address of a unit, if the tensor has it.
    fn locate(&self, place: [i64; AXES]) -> Option<u64> {
        let mut address = self.address;
        for (axis, at) in place.into_iter().enumerate().take(self.rank) {
            let at = u64::try_from(at).ok().filter(|at| *at < u64::from(self.sizes[axis]))?;
            let stride = match axis {
                0 => self.unit().into(),
                _ => self.strides[axis - 1],
            };
            address = address.wrapping_add(at.wrapping_mul(stride));
        }
        Some(address)
    }
}

/// Where a map may not lie: an H200 stops with error 700 if it is in shared memory.
pub(crate) fn readable(space: Space) -> Result<(), String> {
    match space {
        Space::Shared | Space::Local => {
            Err("a tensor whose map is not in global, constant or parameter memory".into())
        }
        _ => Ok(()),
    }
}

/// What is written may reach beyond the end of a tensor, but an H200 stops with error 715 if it begins before the start
/// (`.tile` copies and reductions of two axes, each in our code, both in one kernel in ptxas's). What is read may.
pub fn writable(corner: &[i32]) -> Result<(), String> {
    match corner.iter().all(|at| *at >= 0) {
        true => Ok(()),
        false => Err(format!("a box to {corner:?}: it begins before the tensor")),
    }
}

fn path_of(map: &[u8; BYTES]) -> Option<Path> {
    let rank = RANK.get(map) as usize + 1;
    let place = |axis: usize, upper: bool| {
        let field = corner(rank, axis as u32, upper);
        match axis + 2 < rank {
            true => (field.get(map) << (32 - field.bits)) as i32 >> (32 - field.bits),
            false => 0,
        }
    };
    (FOLLOWS_PATH.get(map) == 1).then(|| Path {
        lower: std::array::from_fn(|axis| place(axis, false)),
        upper: std::array::from_fn(|axis| place(axis, true)),
        pixels: PIXELS.get(map) + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> TensorMap {
        TensorMap {
            address: 0x7_0000_1000,
            rank: 2,
            element: Element::F16,
            swizzle: Swizzle::Bytes64,
            interleave: 0,
            fills_nan: true,
            sizes: [100, 40, 1, 1, 1],
            strides: [208, 0, 0, 0],
            boxes: [32, 16, 1, 1, 1],
            steps: [1, 2, 1, 1, 1],
            path: None,
        }
    }

    #[test]
    fn maps_are_read_as_they_are_written() {
        assert_eq!(TensorMap::read(&map().write()), Ok(map()));
        let rounded = TensorMap { element: Element::Tf32Ftz, ..map() };
        assert!(TensorMap::read(&rounded.write()).is_err());
        let wide = TensorMap { strides: [0xf1_2345_6780, 0, 0, 16], ..map() };
        assert_eq!(TensorMap::read(&wide.write()), Ok(wide));
    }

    /// What cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col write, but for words that only the driver knows about.
    #[test]
    fn maps_are_the_drivers() {
        let words = |list: &[(u32, u32)]| {
            let mut map = [0; BYTES];
            list.iter().for_each(|(at, word)| set_word(&mut map, *at, *word));
            map
        };
        let tiled = words(&[
            (0x0, 0x5a80_0000),
            (0x4, 0x7f9e),
            (0x8, 0x320),
            (0xc, 0xd),
            (0x10, 0x208),
            (0x20, 0x63),
            (0x24, 0x27),
            (0x28, 8),
            (0x34, 0xf00_0000),
            (0x38, 0x207),
        ]);
        let tensor = Tensor {
            element: "f16",
            sizes: &[100, 40, 9],
            strides: &[208, 8320],
            boxes: &[16, 8, 3],
            steps: &[1, 1, 1],
            swizzle: 0,
            interleave: 0,
            fills_nan: false,
        };
        let map = TensorMap::new(0x7f9e_5a80_0000, &tensor).unwrap();
        assert_eq!((map.write(), TensorMap::read(&tiled)), (tiled, Ok(map)));
        let along_filter =
            words(&[(0x8, 0x331), (0x20, 15), (0x24, 11), (0x28, 9), (0x2c, 8), (0x38, 0x5fb3), (0x3c, 31)]);
        let path = TensorMap::read(&along_filter).unwrap().path.unwrap();
        assert_eq!(path, Path { lower: [-77, 95, 0], upper: [0, 0, 0], pixels: 32 });
    }

    /// Three pixels of two channels: to the end of the line, then on in the next one.
    #[test]
    fn paths_go_line_by_line() {
        let path = Path { lower: [-1, 0, 0], upper: [-1, 0, 0], pixels: 3 };
        let sizes = [8, 4, 5, 2, 1];
        let map =
            TensorMap { rank: 4, sizes, strides: [16, 64, 320, 0], steps: [1; 5], path: Some(path), ..map() };
        let map = TensorMap { boxes: [2, 1, 1, 1, 1], address: 0, ..map };
        let cells = map.cells([0, 1, 1, 0, 0], &[1, 2]).unwrap();
        let at = |w: u64, h: u64| Some(16 * w + 64 * h);
        let places: Vec<Option<u64>> = cells.iter().step_by(2).map(|cell| cell.global).collect();
        // The filter's corner goes from 1 to 2, then back to -1 of the next line; what is taken is (1, 2) further on.
        assert_eq!(places, [at(2, 3), at(3, 3), at(0, 4)]);
        assert_eq!(cells[1], Cell { shared: 2, global: at(2, 3).map(|address| address + 2) });
    }

    #[test]
    fn boxes_begin_at_16_bytes() {
        assert!(map().cells([-8, 3, 0, 0, 0], &[]).is_ok());
        assert!(map().cells([4, 3, 0, 0, 0], &[]).unwrap_err().contains("from byte 8"));
    }

    #[test]
    fn boxes_reach_beyond_the_tensor() {
        let map = map();
        assert_eq!(map.bytes(), 32 * 8 * 2);
        let cells: Vec<Cell> = map.tile([-1, 38, 0, 0, 0]).collect();
        assert_eq!(cells.len(), 256);
        assert_eq!(cells[0], Cell { shared: 0, global: None });
        assert_eq!(cells[1], Cell { shared: 2, global: Some(0x7_0000_1000 + 38 * 208) });
        assert_eq!(cells[33], Cell { shared: 66, global: None });
    }
}
