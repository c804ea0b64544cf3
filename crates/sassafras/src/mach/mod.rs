//! Machine code after register allocation: ABI, hazards, block layout, control codes, emission.

pub mod control_codes;
pub mod dead_predicates;
pub mod early_return;
pub mod emit;
pub mod inst;
pub mod layout;
pub mod linearize;
pub mod pipe_balance;
pub mod redundant_uniform;
pub mod reuse;
pub mod text;
pub mod unit;
pub mod wgmma_hazards;
