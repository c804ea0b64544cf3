//! The CFG of a PTX body, calls, special registers.

pub mod call;
pub mod cfg;
pub mod constants;
pub mod param_words;
pub mod reg_values;
pub mod special_registers;
pub mod ssa;
