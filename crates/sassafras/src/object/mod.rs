//! From compiled functions to a file: container, line tables, debug information, resource usage.

pub mod container;
pub mod debug_info;
pub mod debug_variables;
pub mod line_table;
pub mod resource_usage;

use crate::lower;
use crate::module::pragmas;

/// The text that is compiled, and what the front end made of it.
pub struct Input<'a> {
    pub source: &'a str,
    pub lines: &'a lower::Lines,
    pub module: &'a ptx::Module<'a>,
    pub conventions: &'a pragmas::Conventions,
}
