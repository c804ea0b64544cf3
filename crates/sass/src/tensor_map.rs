//! Tensor maps: where things are in the 128 bytes that describe a tensor in global memory, and which box of it a
//! copy takes.
//!
//! Read off the code that ptxas makes of `tensormap.replace` for every field, index and value, and off the maps that
//! the driver makes of descriptions that differ in one thing.

/// The size of a map.
pub const BYTES: usize = 128;
/// Most axes of a tensor.
pub const AXES: usize = 5;
/// The address and the strides count 16 bytes.
pub const STRIDE_SHIFT: u32 = 4;

/// Some bits of the word at a byte of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The byte at which the word begins.
    pub word: u32,
    /// The lowest bit.
    pub shift: u32,
    /// How many there are.
    pub bits: u32,
}

const fn field(word: u32, shift: u32, bits: u32) -> Field {
    Field { word, shift, bits }
}

impl Field {
    /// The largest value.
    pub const fn mask(self) -> u32 {
        (1 << self.bits) - 1
    }
}

/// Copies take pixels along a filter's path.
pub const FOLLOWS_PATH: Field = field(0x08, 0, 1);
/// Axes, less one.
pub const RANK: Field = field(0x08, 4, 3);
/// The type of elements.
pub const ELEMENT: Field = field(0x08, 7, 4);
/// The interleaved layout, if any.
pub const INTERLEAVE: Field = field(0x08, 11, 2);
/// The swizzle mode.
pub const SWIZZLE: Field = field(0x08, 13, 2);
/// What elements outside of the tensor are.
pub const FILL: Field = field(0x08, 15, 1);
/// f32 is rounded to tf32.
pub const ROUNDED: Field = field(0x08, 16, 1);
/// Bytes that a swizzle moves together.
pub const SWIZZLE_ATOMICITY: Field = field(0x08, 19, 3);
/// A swizzle mode that `tensormap.replace` can't choose.
const OTHER_SWIZZLE: Field = field(0x08, 22, 1);
/// Of a path.
pub const PIXELS: Field = field(0x3c, 0, 8);
/// The words of the first axis that has one; those of the others follow. Strides have four bits more elsewhere.
pub const STRIDES: u32 = 0x0c;
/// See [`STRIDES`].
pub const SIZES: u32 = 0x20;
/// The word with the boxes after the first axis, or with the corners of a path.
pub const CORNERS: u32 = 0x38;

/// The upper bits of a stride.
pub const fn stride_above(axis: u32) -> Field {
    field(0x1c, 4 * axis, 4)
}

/// Elements of the box along an axis, less one.
pub const fn box_size(axis: u32) -> Field {
    if axis == 0 { field(0x34, 24, 8) } else { field(CORNERS, 8 * (axis - 1), 8) }
}

/// Every how many elements.
pub const fn step(axis: u32) -> Field {
    field(0x34, 3 * axis, 3)
}

/// The lower corner of a path, and the upper one sixteen bits above it. They share those bits among the axes.
pub const fn corner(rank: usize, axis: u32, upper: bool) -> Field {
    let bits = match rank {
        3 => 16,
        4 => 8,
        _ => 5,
    };
    field(CORNERS, bits * axis + if upper { 16 } else { 0 }, bits)
}

/// What `tensormap.replace` chooses by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The type of elements.
    Element,
    /// The interleaved layout.
    Interleave,
    /// The swizzle mode.
    Swizzle,
    /// Bytes that a swizzle moves together.
    SwizzleAtomicity,
    /// What elements outside of the tensor are.
    Fill,
}

impl Choice {
    /// By the name that PTX has for it.
    pub fn named(name: &str) -> Option<Choice> {
        Some(match name {
            "elemtype" => Choice::Element,
            "interleave_layout" => Choice::Interleave,
            "swizzle_mode" => Choice::Swizzle,
            "swizzle_atomicity" => Choice::SwizzleAtomicity,
            "fill_mode" => Choice::Fill,
            _ => return None,
        })
    }

    /// The fields that a number goes to; none if there is no such choice.
    pub fn fields(self, number: u32) -> Vec<(Field, u32)> {
        match (self, number) {
            (Choice::Element, 0..=10) => vec![(ELEMENT, number)],
            (Choice::Element, 11..=12) => vec![(ROUNDED, 1), (ELEMENT, number - 4)],
            (Choice::Element, 13..=15) => vec![(ELEMENT, number - 2)],
            (Choice::Element, _) => Vec::new(),
            (Choice::Interleave, _) => vec![(INTERLEAVE, number)],
            (Choice::Swizzle, _) => vec![(SWIZZLE, number), (OTHER_SWIZZLE, 0)],
            (Choice::SwizzleAtomicity, _) => vec![(SWIZZLE_ATOMICITY, number)],
            (Choice::Fill, _) => vec![(FILL, number)],
        }
    }
}
