//! Constant bank 0 as the driver fills it: the words that code reads by their offsets.
//!
//! Offsets that every kernel needs are in [`sass::Target`]; the rest was read off ptxas's code for `cvta`, `isspacep` and
//! the special registers of clusters. Whatever is not named here reads as zero.

use super::image::Kernel;
use crate::ptx::memory::Space;
use crate::ptx::{Launch, MULTIPROCESSORS};
use sass::{Isa, Target};

/// Where a machine keeps what [`sass::Target`] does not tell.
struct Places {
    /// The generic address of `.const` variables.
    constants: usize,
    parameters: Parameters,
    clusters: Option<Clusters>,
}

/// How generic addresses of parameters are told.
enum Parameters {
    /// The generic address of bank 0, and how far it reaches.
    Bank { base: usize, size: usize },
    /// The first and the last address.
    Range { first: usize, last: usize },
}

/// Whether the launch asks for clusters; sizes of a cluster along the axes, their reciprocals, how many clusters there are, and blocks of a cluster.
struct Clusters {
    explicit: usize,
    sizes: usize,
    reciprocals: usize,
    counts: usize,
    blocks: usize,
}

impl Places {
    fn of(isa: Isa) -> Places {
        let bank = |size| Parameters::Bank { base: 0x40, size };
        match isa {
            Isa::Sm75 => Places { constants: 0x50, parameters: bank(0x114), clusters: None },
            Isa::Sm80 | Isa::Sm86 | Isa::Sm89 => {
                Places { constants: 0x50, parameters: bank(0x12c), clusters: None }
            }
            Isa::Sm90 => Places {
                constants: 0xd0,
                parameters: Parameters::Range { first: 0x198, last: 0x1a0 },
                clusters: Some(Clusters {
                    explicit: 0x140,
                    sizes: 0x144,
                    reciprocals: 0x150,
                    counts: 0x15c,
                    blocks: 0x188,
                }),
            },
            // Here the words of clusters lie below an end that moves with the cluster's size.
            _ => Places {
                constants: 0x120,
                parameters: Parameters::Range { first: 0x348, last: 0x350 },
                clusters: None,
            },
        }
    }
}

/// The bank for a launch.
pub fn fill(target: &Target, kernel: &Kernel, launch: &Launch, cluster: [u32; 3]) -> Vec<u8> {
    let mut bank = Bank { bytes: kernel.banks[0].clone() };
    let constants = target.constants;
    bank.axes(constants.ntid.into(), launch.block);
    bank.axes(constants.nctaid.into(), launch.grid);
    bank.word(constants.stack.into(), kernel.stack);
    bank.word(constants.nsmid.into(), MULTIPROCESSORS);
    bank.wide(constants.local_window.into(), Space::Local.window());
    if let Some(offset) = constants.shared_window {
        bank.wide(offset.into(), Space::Shared.window());
    }
    if let Some(offset) = constants.dynamic_shared {
        bank.word(offset.into(), launch.shared);
    }
    let places = Places::of(target.isa);
    bank.wide(places.constants, Space::Const.window());
    let (start, size) = (kernel.parameters.base as u64, kernel.parameters.size as u64);
    match places.parameters {
        Parameters::Bank { base, size: end } => {
            bank.wide(base, Space::Param.window());
            bank.word(end, (start + size) as u32);
        }
        Parameters::Range { first, last } => {
            bank.wide(first, Space::Param.window() + start);
            bank.wide(last, Space::Param.window() + start + size.saturating_sub(1));
        }
    }
    if let Some(clusters) = places.clusters {
        let blocks = cluster.iter().product();
        bank.word(clusters.explicit, u32::from(launch.cluster.or(kernel.cluster).is_some()));
        bank.axes(clusters.sizes, cluster);
        bank.axes(clusters.reciprocals, cluster.map(|size| (1.0 / size as f32).to_bits()));
        bank.axes(clusters.counts, std::array::from_fn(|axis| launch.grid[axis] / cluster[axis]));
        bank.word(clusters.blocks, blocks);
    }
    bank.put(kernel.parameters.base + kernel.parameters.lead, launch.parameters);
    bank.bytes
}

struct Bank {
    bytes: Vec<u8>,
}

impl Bank {
    /// A bank that ends before the place has no use for it.
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn word(&mut self, offset: usize, value: u32) {
        self.put(offset, &value.to_le_bytes());
    }

    fn wide(&mut self, offset: usize, value: u64) {
        self.put(offset, &value.to_le_bytes());
    }

    fn axes(&mut self, offset: usize, values: [u32; 3]) {
        values.into_iter().enumerate().for_each(|(axis, value)| self.word(offset + 4 * axis, value));
    }
}
