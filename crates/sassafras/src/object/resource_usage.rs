//! What a compiled function uses of the machine.

use crate::context::{Times, plain};
use crate::module::data::Data;
use crate::object::Compiled;
use ptx::diag::{Diagnostic, Severity};
use std::time::Duration;
use targets::Target;

/// What a function uses: the numbers of `-v` and of the warnings about local memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Its name.
    pub name: String,
    /// A kernel, not a device function.
    pub entry: bool,
    /// Registers and barriers, with those of everything that it can call.
    pub registers: u32,
    /// As many as it may use itself.
    pub max_registers: u32,
    /// Block barriers.
    pub barriers: u8,
    /// Its own stack frame, and the stack of the deepest calls from it; `None` where recursion makes that unknown.
    pub frame_bytes: u32,
    /// The stack of the deepest calls; `None` where recursion makes it unknown.
    pub stack_bytes: Option<u32>,
    /// Bytes that its code spills to the frame and reloads from it, callee-saved registers included.
    pub spill_stores: u32,
    /// Bytes reloaded.
    pub spill_loads: u32,
    /// Static shared memory.
    pub shared_bytes: u64,
    /// Does it call another function of the module?
    pub calls_others: bool,
    /// The functions that a kernel can call, at any depth, by their indices in the list of all.
    pub callees: Vec<usize>,
    /// When the compiler began with it, by [`Options::clock`](crate::Options::clock).
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
    /// How long the parts of that took.
    pub times: Times,
}

/// Checks of memory sizes, once the kernels are compiled.
pub fn check_memory(compiled: &[Compiled], data: &Data, relocatable: bool) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    // In a relocatable file the linker counts.
    for kernel in compiled.iter().rev().map(|c| &c.kernel).filter(|k| k.entry && !relocatable) {
        let (bytes, _) = kernel.shared();
        let most = Target::MOST_STATIC_SHARED;
        if bytes > most {
            let name = &kernel.code.name;
            errors.push(format!(
                "Entry function '{name}' uses too much shared data ({bytes:#x} bytes, {most:#x} max)"
            ));
        }
    }
    let (bytes, most) = (data.constant_bytes, Target::MOST_CONSTANT);
    if bytes > most {
        errors.push(format!("File uses too much global constant data ({bytes:#x} bytes, {most:#x} max)"));
    }
    errors.into_iter().map(|text| plain(Severity::Error, text)).collect()
}
