//! Textures and surfaces: handles, sampling, gradients, queries.

pub mod gradient;
pub mod handles;
pub mod quad_gradient;
pub mod query;
pub mod sample;
pub mod surface;
