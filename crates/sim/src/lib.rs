//! Runs and proves kernels without a GPU.
//!
//! - [`verify`]: a static proof that a cubin's control codes cover every dependence.
//!
//! A PTX interpreter and a SASS simulator will stand here too.

pub mod verify;
