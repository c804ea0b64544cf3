//! Barriers, fences, mbarriers, warp collectives, waterfall loops.

pub mod barrier;
pub mod collectives;
pub mod fence;
pub mod mbarrier;
pub mod thread_steer;
pub mod waterfall;
