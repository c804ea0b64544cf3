//! State shared by all stages: options, target, tuning, limits, fuel, pass times, errors, worker threads.

mod failure;
mod lines;
mod occupancy;
mod options;
pub mod parallel;
mod pass_error;
mod snapshot;
mod stop;
pub mod target;
mod times;
mod tuning;

pub use failure::{Ended, Failure, plain};
pub use lines::Lines;
pub use occupancy::{Occupancy, warps};
pub use options::{Bounds, CacheRule, DebugInfo, Options};
pub use pass_error::{PassError, PassFailure, PassResult};
pub use snapshot::{Record, Snapshot, SnapshotLine};
pub use stop::{Budget, Cancel, Clock, Limits, Stop, system_clock};
pub use times::Times;
pub use tuning::{Knob, Tuning};

use ori::{Analyses, Change};
use std::any::Any;
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
    pub jump_tables: JumpTables,
    /// Analyses of the function as it is before a pass; the driver drops those that a pass made stale.
    pub analyses: Analyses,
    /// What `remat` found of the register pressure of the function as it is; `codegen` knows its type.
    pub pressure: Option<Box<dyn Any>>,
    /// Instructions by which unrolling may still grow the function.
    pub unroll_budget: u32,
}

/// Where the jump tables of a function are in constant bank 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpTables {
    /// There are none: a device function runs with the bank of the kernel that called it. Or the user wants none.
    None,
    /// Where the compiler puts them.
    Placed,
    /// Where the linker puts them.
    Linked,
}

impl Context {
    /// The context of a function whose block size is not known.
    pub fn new(machine: &'static TargetMachine, registers: u32, tuning: Tuning, fuel: Fuel) -> Context {
        Context {
            machine,
            registers,
            occupancy: None,
            register_goal: None,
            jump_tables: JumpTables::Placed,
            tuning,
            fuel,
            analyses: Analyses::default(),
            pressure: None,
            unroll_budget: tuning.unroll_growth,
        }
    }

    /// Drops what is stale after a change.
    pub fn invalidate(&mut self, change: Change) {
        self.analyses.invalidate(change);
        if change > Change::Nothing {
            self.pressure = None;
        }
    }

    /// The occupancy model of the kernel, or that of a usual block size.
    pub fn usual_occupancy(&self) -> Occupancy {
        let usual = || Occupancy::new(self.tuning.usual_block_threads, self.machine);
        self.occupancy.unwrap_or_else(usual)
    }
}

/// Optimization fuel: how many rewrites are left; `None` is no limit. Used to bisect miscompilations.
pub struct Fuel {
    left: Option<u32>,
    used: u32,
}

impl Fuel {
    pub fn new(rewrites: Option<u32>) -> Fuel {
        Fuel { left: rewrites, used: 0 }
    }

    /// Takes one unit; `false` if none is left, and the rewrite must not be done.
    pub fn burn(&mut self) -> bool {
        if self.left == Some(0) {
            return false;
        }
        self.left = self.left.map(|left| left - 1);
        self.used = self.used.wrapping_add(1);
        true
    }

    /// Is none left? For rewrites of two instructions that must both be done.
    pub fn is_empty(&self) -> bool {
        self.left == Some(0)
    }

    /// How many units were taken so far: a pass that burns one for each rewrite has changed something if this grew.
    pub fn used(&self) -> u32 {
        self.used
    }
}
