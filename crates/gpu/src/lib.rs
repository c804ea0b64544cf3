#![doc = include_str!("../README.md")]

mod driver;
mod execute;
mod library;
pub mod process;
pub mod runline;

pub use driver::{Buffer, Device, Error, Event, Kernel, Launch, Module};
pub use execute::{Failure, execute, shortest_time};
