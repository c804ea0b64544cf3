//! What every stage has beside the code: options, the target, fuel, times, failures, threads.

mod failure;
mod options;
pub mod parallel;
pub mod target;
mod times;

pub use failure::Failure;
pub use options::{DebugInfo, Options};
pub use times::Times;

use crate::module::launch_bounds::Occupancy;
use target::Machine;

/// What passes have beside the function.
pub struct Context {
    pub machine: &'static Machine,
    /// General registers that a thread may have.
    pub registers: u32,
    /// How many blocks run at once, if their size is known.
    pub occupancy: Option<Occupancy>,
    /// Those that are enough for the code as it is ordered, and with more of which fewer threads run at once.
    pub enough: Option<u32>,
    pub fuel: Fuel,
}

/// How many rewrites are left; `None` is no limit.
pub struct Fuel(Option<u32>);

impl Fuel {
    pub fn new(rewrites: Option<u32>) -> Fuel {
        Fuel(rewrites)
    }

    /// May one more thing be rewritten?
    pub fn burn(&mut self) -> bool {
        match &mut self.0 {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}
