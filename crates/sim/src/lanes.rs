//! The lanes of a warp, and functions of all of them.

/// Threads of a warp.
pub const LANES: usize = 32;
/// One value per lane.
pub type Lanes = [u64; LANES];

/// The lanes of a mask.
#[inline]
pub fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

/// Results from the registers of all lanes.
pub type WholeFunction = Box<dyn Fn(&[Lanes]) -> Vec<Lanes> + Send + Sync>;
