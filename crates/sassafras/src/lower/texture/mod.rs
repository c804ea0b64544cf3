pub mod gradient;
pub mod handles;
pub mod quad_gradient;
pub mod query;
pub mod surface;
pub mod texture;
