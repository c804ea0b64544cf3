//! What a compiled function uses of the machine.

use crate::context::Times;
use std::time::{Duration, Instant};

/// What a function uses: the numbers of `-v` and of the warnings about local memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub name: String,
    /// A kernel, not a device function.
    pub entry: bool,
    /// Registers and barriers, with those of everything that it can call.
    pub registers: u32,
    /// As many as it may use itself.
    pub max_registers: u32,
    pub barriers: u8,
    /// Its own stack frame, and the stack of the deepest calls from it; `None` where recursion makes that unknown.
    pub frame_bytes: u32,
    pub stack_bytes: Option<u32>,
    /// Bytes that its code spills to the frame and reloads from it, callee-saved registers included.
    pub spill_stores: u32,
    pub spill_loads: u32,
    /// Static shared memory.
    pub shared_bytes: u64,
    /// The functions that it can call, at any depth, by their indices in the list of all.
    pub callees: Vec<usize>,
    /// When the compiler began with it, and how long it took.
    pub start: Instant,
    pub time: Duration,
    /// How long the parts of that took.
    pub times: Times,
}
