//! Options of a compilation.

use crate::Error;
use crate::context::{Budget, Cancel, Clock, Limits, Tuning, system_clock};

/// The target of a compilation, and how to compile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// `sm_90`, `sm_90a`, …
    pub target: ptx::Target,
    /// The command line, for the note that a cubin carries.
    pub command_line: String,
    /// The optimization level. At 0 every instruction waits for the one before; from 1 on waits are exact.
    pub level: u8,
    /// Which sections are written for debuggers and profilers.
    pub debug_info: DebugInfo,
    /// Debuggable code: PTX instructions in program order, each register's location known.
    pub debug_code: bool,
    /// Wait at exit until faults of memory accesses are reported.
    pub errors_at_exit: bool,
    /// Sleep for a random time before stores and atomics, so that races show (`-sanitize threadsteer`).
    pub steer_threads: bool,
    /// No constants of the compiler's own in constant bank 2: no jump tables.
    pub no_optimizer_constants: bool,
    /// Write an object for the linker, in place of a cubin for the driver.
    pub relocatable: bool,
    /// Compile patches: functions that tools insert into other kernels. The module is a whole program without kernels
    /// ([`not_for_patches`](crate::not_for_patches)); if `relocatable` as well, an object for the linker has the same code.
    pub tools_patch: bool,
    /// Contract a product and a sum without rounding modifiers to one operation that rounds once (`-fmad`).
    pub contract: bool,
    /// Limits that the command line sets.
    pub launch: Bounds,
    /// The cache operator of global loads and stores without one, or of all of them.
    pub load_cache: Option<CacheRule>,
    /// The same for stores.
    pub store_cache: Option<CacheRule>,
    /// Threads to compile with; `None`: one for each processor. The output doesn't depend on it.
    pub threads: Option<usize>,
    /// Check the IR after every pass.
    pub verify: bool,
    /// Write the IR after this pass, or after each (`all`), to the log.
    pub dump: Option<String>,
    /// Keep the code of each function after each pass ([`Output::snapshots`](crate::Output::snapshots)).
    pub snapshots: bool,
    /// Optimization fuel of each function: the most rewrites.
    pub fuel: Option<u32>,
    /// The numbers of heuristics.
    pub tuning: Tuning,
    /// Passes to leave out ([`crate::optional_pass`]).
    pub disabled_passes: Vec<&'static str>,
    /// Write to the log how long each pass took.
    pub time_passes: bool,
    /// How much the compilation may take.
    pub limits: Limits,
    /// Ends the compilation early.
    pub cancel: Option<Cancel>,
    /// The clock for [`Limits::time`] and for the times in the result, which are zero without one. Code doesn't depend
    /// on it.
    pub clock: Option<Clock>,
    /// What is left of the limits, once the compilation has begun.
    pub(crate) budget: Option<Budget>,
}

/// The sections for debuggers and profilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugInfo {
    /// None.
    None,
    /// Line tables if the PTX has a `.loc`.
    Locs,
    /// Line tables.
    Lines,
    /// Line tables, the DWARF sections of the PTX, and where its registers are.
    Full,
}

impl Options {
    /// May code outside of the module call its functions?
    pub(crate) fn is_called(&self) -> bool {
        self.relocatable || self.tools_patch
    }

    /// Changes some of them: `Options::new(target).with(|o| o.level = 0)`.
    pub fn with(mut self, change: impl FnOnce(&mut Options)) -> Options {
        change(&mut self);
        self
    }

    /// The default for a target by name: `sm_90`, `sm_90a`, `compute_90`, …
    pub fn for_arch(arch: &str) -> Result<Options, Error> {
        let unknown = || Error::Target(format!("Value '{arch}' is not defined for option 'gpu-name'"));
        ptx::Target::find(arch).map(Options::new).ok_or_else(unknown)
    }

    /// The default: best code for a target.
    pub fn new(target: ptx::Target) -> Options {
        Options {
            target,
            command_line: String::new(),
            level: 3,
            debug_info: DebugInfo::Locs,
            debug_code: false,
            errors_at_exit: false,
            steer_threads: false,
            no_optimizer_constants: false,
            relocatable: false,
            tools_patch: false,
            contract: true,
            launch: Bounds::NONE,
            load_cache: None,
            store_cache: None,
            threads: None,
            verify: false,
            dump: None,
            snapshots: false,
            fuel: None,
            tuning: Tuning::default(),
            disabled_passes: Vec::new(),
            time_passes: false,
            limits: Limits::default(),
            cancel: None,
            clock: system_clock(),
            budget: None,
        }
    }
}

/// Launch bounds of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Threads of a block (`-maxntid`).
    pub max_threads: Option<[u32; 3]>,
    /// Blocks that must fit on an SM.
    pub min_blocks: Option<u32>,
    /// Register limits of kernels, and of device functions in an object for the linker.
    pub max_registers: Option<u32>,
    /// The register limit of device functions in an object for the linker.
    pub max_function_registers: Option<u32>,
    /// Override the directives of the PTX?
    pub overrides: bool,
}

impl Bounds {
    /// No bounds.
    pub const NONE: Bounds = Bounds {
        max_threads: None,
        min_blocks: None,
        max_registers: None,
        max_function_registers: None,
        overrides: false,
    };
}

/// A default cache operator for global loads or stores without one, or an override for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRule {
    pub(crate) operator: &'static str,
    pub(crate) forced: bool,
}

impl CacheRule {
    const OPERATORS: [&str; 7] = ["ca", "cg", "cs", "lu", "cv", "wb", "wt"];

    /// `None` if there is no such operator.
    pub fn new(operator: &str, forced: bool) -> Option<CacheRule> {
        let operator = CacheRule::OPERATORS.into_iter().find(|name| *name == operator)?;
        Some(CacheRule { operator, forced })
    }
}
