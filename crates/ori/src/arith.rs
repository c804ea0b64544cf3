//! Bit-exact scalar arithmetic as the GPU does it, in integers alone.
//!
//! Nothing here depends on the host's floating-point unit, its rounding mode or its mathematical library: the
//! same bits come out on every machine. [`crate::eval`] gives the machine's operations their meaning with these
//! functions, and the PTX interpreter uses them directly.
//!
//! | question | file |
//! |---|---|
//! | formats, rounding, add, mul, fma, div, sqrt, min, max, compare | [`float`] |
//! | between number formats | [`convert`] |
//! | integers of 8 to 64 bits: add, mul, div, shifts, saturation | [`integer`] |
//! | bits and bytes: fields, permutes, searches, truth tables | [`bits`] |
//! | dot products and video instructions | [`video`] |
//! | sums of products of matrices | [`matrix`] |
//! | `sin`, `ex2`, `rcp.approx` and their like | [`approx`] |
//!
//! What has been seen in the code that ptxas emits is said to be so. What only a GPU can tell and no GPU has
//! been asked is marked *unverified*.

pub mod approx;
pub mod bits;
pub mod convert;
pub mod float;
pub mod integer;
pub mod matrix;
pub mod video;

pub use float::{Compare, Flow, Format, Rounding};
pub use integer::Int;
