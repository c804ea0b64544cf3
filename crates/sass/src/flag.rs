//! The signs of an operand, and its place in the operand cache, as bits.

pub const NEG: u8 = 1;
pub const ABS: u8 = 2;
pub const NOT: u8 = 4;
pub const INV: u8 = 8;
pub const REUSE: u8 = 16;
