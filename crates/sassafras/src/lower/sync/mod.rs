//! Barriers, fences, mbarriers, collectives of a warp, waterfall loops.

pub mod barrier;
pub mod collectives;
pub mod fence;
pub mod mbarrier;
pub mod thread_steer;
pub mod waterfall;
