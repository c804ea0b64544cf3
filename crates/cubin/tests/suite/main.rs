//! The tests of the crate. `build` and `roundtrip` ask the reference tools; the others need nothing.

mod build;
mod fuzz;
mod model;
mod roundtrip;
mod support;
