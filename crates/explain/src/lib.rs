//! What the compiler does to a kernel: as one JSON document, and as the page that shows it.
//!
//! * [`explain`] compiles a module and writes down its source, the code after each pass, the machine code with control
//!   codes, live registers, cycles and scoreboards, and what an SM takes of it. `docs/explain.md` has the schema.
//! * [`page`](fn@page) puts a document into one HTML file with the renderer (`page/`): plain modules without a build step.
//! * [`flow`] and [`schedule`] are the analyses of machine code behind it, `timeline` gives times to it, [`launch`] runs
//!   kernels by their run lines.
//!
//! The document depends on its inputs alone.

#![deny(missing_docs)]

mod code;
mod diff;
mod document;
pub mod flow;
pub mod launch;
mod page;
pub mod schedule;
mod timeline;

pub use code::Image;
pub use document::{Explained, FORMAT, Request, explain, refusal};
pub use page::{page, script, style};
pub use timeline::{Launched, Launches};
