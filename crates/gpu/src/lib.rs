#![doc = include_str!("../README.md")]

// There is a driver where libraries can be opened; run lines can be read anywhere.
#[cfg(any(unix, windows))]
mod driver;
#[cfg(any(unix, windows))]
mod execute;
#[cfg(any(unix, windows))]
mod library;
#[cfg(any(unix, windows))]
pub mod process;
pub mod runline;

#[cfg(any(unix, windows))]
pub use driver::{Buffer, Device, Error, Event, Kernel, Launch, Module};
#[cfg(any(unix, windows))]
pub use execute::{Failure, execute, shortest_time};
