//! Analyses: facts about a function for use by passes. An analysis changes nothing.

pub mod alignment;
pub mod constant_eval;
pub mod convergent_loops;
pub mod effects;
pub mod forwarding;
pub mod known_bits;
pub mod likelihood;
pub mod memory_dependence;
pub mod relations;
