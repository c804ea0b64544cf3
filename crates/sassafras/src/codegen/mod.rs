//! Passes that are required before register allocation, and the scheduler.

pub mod convergence_barriers;
pub mod critical_edges;
pub mod early_copies;
pub mod jump_tables;
pub mod legalize;
pub mod pack_words;
pub mod remat_predicates;
pub mod remat_uniform;
pub mod sched_prepass;
pub mod switch_lower;
pub mod uniform_constants;
pub mod wgmma_tuples;
pub mod yield_insertion;
