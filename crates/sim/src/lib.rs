//! Runs kernels without a GPU: a PTX interpreter and a SASS simulator.

pub mod ptx;
