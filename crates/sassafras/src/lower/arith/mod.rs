//! Integer, float and half arithmetic, logic, comparison, conversion, `mov`.

pub mod compare;
pub mod convert;
pub mod divide;
pub mod float;
pub mod half;
pub mod integer;
pub mod logic;
pub mod mov;
pub mod video;
pub mod words;
