//! The tests of the crate. They ask ptxas, which `cargo xtask setup` installs; without it they fail.

mod filters;
mod tensors;
mod textures;
mod verify;
