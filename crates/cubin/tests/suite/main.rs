//! The tests of the crate. `model` and `fuzz` need nothing; the others ask the reference tools.

mod build;
mod fuzz;
mod inspect;
mod line;
mod link;
mod model;
mod roundtrip;
mod support;
