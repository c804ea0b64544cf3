//! Matrix instructions: mma, wmma, wgmma, tcgen05, and tensor maps.

pub mod mma;
pub mod mma_m8n8k4;
pub mod mma_sparse;
pub mod tcgen05;
pub mod tcgen05_alloc;
pub mod tensormap;
pub mod tensormap_replace;
pub mod wgmma;
pub mod wgmma_operands;
pub mod wgmma_stages;
pub mod wmma;
