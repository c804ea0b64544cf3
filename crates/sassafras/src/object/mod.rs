//! Object file output from compiled functions: container, line tables, debug information, resource usage.

pub mod call_graph;
pub mod container;
pub mod debug_info;
pub mod debug_variables;
pub mod line_table;
pub mod resource_usage;

use crate::context::{Lines, Times};
use crate::lower::Kernel;
use crate::mach::inst::MachFunction;
use crate::mach::unit::EncodedFunction;
use crate::module::abi::Convention;
use crate::module::pragmas;
use std::time::Duration;

/// The source, and what the front end made of it.
pub struct Input<'a> {
    pub source: &'a str,
    pub lines: &'a Lines,
    pub module: &'a ptx::Module<'a>,
    pub conventions: &'a pragmas::Conventions,
}

/// A compiled function.
pub struct Compiled<'a> {
    pub source: &'a ptx::ast::Function<'a>,
    pub kernel: Kernel,
    pub code: MachFunction,
    /// How it is called.
    pub convention: Convention,
    pub encoded: EncodedFunction,
    /// When its compilation began by the clock, and how long it took.
    pub start: Duration,
    pub time: Duration,
    pub times: Times,
}
