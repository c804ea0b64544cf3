//! What a caller asks for.

use crate::lower::CacheRule;
use crate::module::launch_bounds::Bounds;
use crate::passes;

/// What to compile for, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine: `sm_90`, `sm_90a`, …
    pub target: ptx::Target,
    /// The command line, for the note that a cubin carries.
    pub command_line: String,
    /// How hard to try: 0 is serial code, 1 and up have exact waits.
    pub level: u8,
    /// Which sections are written for debuggers and profilers.
    pub debug_info: DebugInfo,
    /// Code for a debugger, one PTX instruction after the other, whose registers can be found.
    pub debug_code: bool,
    /// Faults of memory accesses show before a thread ends.
    pub errors_at_exit: bool,
    /// Sleep for a random time before what other threads can see, so that races show.
    pub steer_threads: bool,
    /// Write an object for the linker, in place of a cubin for the driver.
    pub relocatable: bool,
    /// Compile functions for tools that put them into the kernels of others. A module is a whole program then, without
    /// kernels ([`not_for_patches`]). If it is `relocatable`, too, an object for the linker has the same code.
    pub tools_patch: bool,
    /// Limits that the command line sets.
    pub launch: Bounds,
    /// How global loads and stores are cached that don't say, or all of them.
    pub load_cache: Option<CacheRule>,
    pub store_cache: Option<CacheRule>,
    /// Threads to compile with; `None`: as many as there are processors. They change nothing but the time.
    pub threads: Option<usize>,
    /// Check the IR after every pass.
    pub verify: bool,
    /// Write the IR after this pass, or after each (`all`), to the log.
    pub dump: Option<String>,
    /// Rewrite no more than so many things in each function.
    pub fuel: Option<u32>,
    /// Passes to leave out ([`crate::optional_pass`]).
    pub disabled_passes: Vec<&'static str>,
    /// Write to the log how long each pass took.
    pub time_passes: bool,
}

/// The sections for debuggers and profilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugInfo {
    None,
    /// Line tables if the PTX has a `.loc`.
    Locs,
    /// Line tables.
    Lines,
    /// Line tables, the DWARF sections of the PTX, and where its registers are.
    Full,
}

impl Options {
    /// Is there code elsewhere that calls functions of the module?
    pub(crate) fn is_called(&self) -> bool {
        self.relocatable || self.tools_patch
    }

    /// Does another level make the same code?
    pub fn is_same_level(&self, level: u8) -> bool {
        (self.level > 0) == (level > 0) && passes::are_same(self.level, level)
    }

    /// The best code for a machine.
    pub fn new(target: ptx::Target) -> Options {
        Options {
            target,
            command_line: String::new(),
            level: 3,
            debug_info: DebugInfo::Locs,
            debug_code: false,
            errors_at_exit: false,
            steer_threads: false,
            relocatable: false,
            tools_patch: false,
            launch: Bounds::NONE,
            load_cache: None,
            store_cache: None,
            threads: None,
            verify: false,
            dump: None,
            fuel: None,
            disabled_passes: Vec::new(),
            time_passes: false,
        }
    }
}
