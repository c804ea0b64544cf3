//! What a module says beside its instructions: variables, launch bounds, pragmas, the call graph, limits.

pub mod abi_preserve;
pub mod call_graph;
pub mod data;
pub mod launch_bounds;
pub mod limits;
pub mod pragmas;
pub mod setmaxnreg;
pub mod tools_patch;
