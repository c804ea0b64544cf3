//! Constant bank 0 as the driver fills it: the words that code reads by their offsets.
//!
//! The offsets are in the target's row ([`targets::Target`]). A word that is not filled here reads as zero.

use super::image::Kernel;
use crate::memory::Space;
use crate::ptx::{Launch, MULTIPROCESSORS};
use targets::{ClusterWords, ParamWindow, Target, Word};

/// The bank for a launch.
pub fn fill(target: &Target, kernel: &Kernel, launch: &Launch, cluster: [u32; 3]) -> Vec<u8> {
    let mut bank = Bank { bytes: kernel.banks[0].clone() };
    let words = &target.launch;
    bank.axes(words.ntid, launch.block);
    bank.axes(words.nctaid, launch.grid);
    bank.word(target.stack, kernel.stack);
    bank.word(words.nsmid, MULTIPROCESSORS);
    bank.wide(target.windows.local, Space::Local.window());
    if let Some(offset) = target.windows.shared {
        bank.wide(offset, Space::Shared.window());
    }
    if let Word::At(offset) = words.dynamic_shared {
        bank.word(offset, launch.shared);
    }
    bank.wide(target.windows.constant, Space::Const.window());
    let (start, size) = (kernel.parameters.base as u64, kernel.parameters.size as u64);
    match target.windows.params {
        ParamWindow::Bank { base, size: end } => {
            bank.wide(base, Space::Param.window());
            bank.word(end, (start + size) as u32);
        }
        ParamWindow::Range { first, last } => {
            bank.wide(first, Space::Param.window() + start);
            bank.wide(last, Space::Param.window() + start + size.saturating_sub(1));
        }
    }
    if let Some(clusters) = &words.clusters {
        bank.clusters(clusters, launch, kernel, cluster);
    }
    bank.put(kernel.parameters.base + kernel.parameters.lead, launch.parameters);
    bank.bytes
}

struct Bank {
    bytes: Vec<u8>,
}

impl Bank {
    /// A bank that ends before the offset has no use for it.
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// The words of clusters, where all have a fixed offset: others are below an end that moves with the cluster's size.
    fn clusters(&mut self, words: &ClusterWords, launch: &Launch, kernel: &Kernel, cluster: [u32; 3]) {
        let (Word::At(sizes), Word::At(reciprocals), Word::At(counts), Word::At(blocks)) =
            (words.sizes, words.reciprocals, words.counts, words.blocks)
        else {
            return;
        };
        self.word(words.is_explicit, u32::from(launch.cluster.or(kernel.cluster).is_some()));
        self.axes(sizes, cluster);
        self.axes(reciprocals, cluster.map(|size| (1.0 / size as f32).to_bits()));
        self.axes(counts, std::array::from_fn(|axis| launch.grid[axis] / cluster[axis]));
        self.word(blocks, cluster.iter().product());
    }

    fn word(&mut self, offset: u32, value: u32) {
        self.put(offset as usize, &value.to_le_bytes());
    }

    fn wide(&mut self, offset: u32, value: u64) {
        self.put(offset as usize, &value.to_le_bytes());
    }

    fn axes(&mut self, offset: u32, values: [u32; 3]) {
        (0..).zip(values).for_each(|(axis, value)| self.word(offset + 4 * axis, value));
    }
}
