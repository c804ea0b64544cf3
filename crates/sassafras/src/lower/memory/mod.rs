//! Addresses, loads and stores, atomics, asynchronous and bulk copies, cache hints, variables.

pub mod address;
pub mod atomic;
pub mod bulk_copy;
pub mod cache;
pub mod cp_async;
pub mod load_store;
pub mod multimem;
pub mod st_async;
pub mod stack;
pub mod variables;
