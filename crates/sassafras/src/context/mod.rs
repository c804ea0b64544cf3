//! State that all stages share: options, target, tuning, fuel, pass times, errors, worker threads.

mod failure;
mod lines;
mod occupancy;
mod options;
pub mod parallel;
pub mod target;
mod times;
mod tuning;

pub use failure::{Failure, plain};
pub use lines::Lines;
pub use occupancy::{Occupancy, warps};
pub use options::{Bounds, CacheRule, DebugInfo, Options};
pub use times::Times;
pub use tuning::{Knob, Tuning};

use target::TargetMachine;

/// The state of a pipeline run over one function.
pub struct Context {
    pub machine: &'static TargetMachine,
    /// The register limit: general registers that a thread may have.
    pub registers: u32,
    /// The occupancy model of the kernel, if its block size is known.
    pub occupancy: Option<Occupancy>,
    /// The register goal of the prepass scheduler: enough for its schedule, and more would lower occupancy.
    pub register_goal: Option<u32>,
    pub tuning: Tuning,
    pub fuel: Fuel,
}

/// Optimization fuel: how many rewrites are left; `None` is no limit. Used to bisect miscompilations.
pub struct Fuel(Option<u32>);

impl Fuel {
    pub fn new(rewrites: Option<u32>) -> Fuel {
        Fuel(rewrites)
    }

    /// Takes one unit; `false` if none is left, and the rewrite must not be done.
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
