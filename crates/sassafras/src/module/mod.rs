//! Module properties other than instructions: variables, launch bounds, pragmas, call graph, limits.

pub mod abi;
pub mod abi_preserve;
pub mod call_graph;
pub mod data;
pub mod launch_bounds;
pub mod limits;
pub mod param_registers;
pub mod pragmas;
pub mod prototype;
pub mod setmaxnreg;
pub mod shared_layout;
pub mod tools_patch;
