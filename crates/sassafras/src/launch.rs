//! What a kernel says about its launch, and how many registers that leaves to a thread.
//!
//! The rules were measured on ptxas: `.maxnreg` counts first, then `.maxntid` or `.reqntid` together with
//! `.minnctapersm`, then `-maxrregcount`; threads per block alone are an upper bound beside that option.

use cubin::attr::{Attr, Code};
use ptx::ast::Function;

/// Registers of a quarter of a multiprocessor; the numbers that are handed out are multiples of 8.
const REGISTERS: u32 = 16384;
/// The most that an instruction can name, and the least that ptxas gives.
pub const MOST: u32 = 255;
pub const LEAST: u32 = 24;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    pub max_threads: Option<[u32; 3]>,
    pub required_threads: Option<[u32; 3]>,
    min_blocks: Option<u32>,
    max_registers: Option<u32>,
    cluster: Option<[u32; 3]>,
    max_cluster: Option<u32>,
    explicit_cluster: bool,
    blocks_are_clusters: bool,
}

impl Launch {
    /// `Err` names a directive that is not known here.
    pub fn new<'a>(function: &'a Function) -> Result<Launch, &'a str> {
        let mut launch = Launch::default();
        for directive in &function.directives {
            let value = |i: usize| directive.values.get(i).map(|v| *v as u32);
            let axes = || Some([value(0).unwrap_or(1), value(1).unwrap_or(1), value(2).unwrap_or(1)]);
            match directive.name {
                ".maxntid" => launch.max_threads = axes(),
                ".reqntid" => launch.required_threads = axes(),
                ".minnctapersm" => launch.min_blocks = value(0),
                ".maxnreg" => launch.max_registers = value(0).filter(|n| *n <= MOST),
                ".reqnctapercluster" => launch.cluster = axes(),
                ".maxclusterrank" => launch.max_cluster = value(0),
                ".explicitcluster" => launch.explicit_cluster = true,
                ".blocksareclusters" => launch.blocks_are_clusters = true,
                // The most blocks is a wish that ptxas leaves alone; a function that never returns is called as any
                // other; no pragma of a function asks for other code.
                ".maxnctapersm" | ".noreturn" | ".pragma" => {}
                other => return Err(other),
            }
        }
        Ok(launch)
    }

    /// The registers that the number of threads leaves to each.
    fn cap(&self) -> Option<u32> {
        let threads: u32 = self.required_threads.or(self.max_threads)?.iter().product();
        let warps = threads.div_ceil(32).max(1) * self.min_blocks.unwrap_or(1).max(1);
        let cap = REGISTERS / (32 * warps.div_ceil(4)) / 8 * 8;
        Some(cap.clamp(LEAST, MOST))
    }

    /// `MAXREG_COUNT`, with what the command line allows.
    pub fn registers(&self, option: Option<u32>) -> u32 {
        let limit = match (self.max_registers, self.cap(), self.min_blocks) {
            (Some(limit), _, _) => limit,
            (None, Some(cap), Some(_)) => cap,
            (None, cap, _) => cap.unwrap_or(MOST).min(option.unwrap_or(MOST)),
        };
        limit.clamp(LEAST, MOST)
    }

    /// The registers that a thread has when the kernel starts, if they are known whatever the code needs.
    pub fn registers_at_start(&self, option: Option<u32>) -> Option<u32> {
        let bounded = self.cap().is_some() && self.min_blocks.is_some();
        let known = self.max_registers.is_some() || bounded || option.is_some();
        known.then(|| self.registers(option))
    }

    /// The attributes of clusters.
    pub fn attrs(&self) -> Vec<Attr> {
        let mut attrs = Vec::new();
        if let Some(cluster) = self.cluster {
            attrs.push(Attr::words(Code::CTA_PER_CLUSTER, cluster));
        }
        if self.explicit_cluster {
            attrs.push(Attr::flag(Code::EXPLICIT_CLUSTER));
        }
        if let Some(rank) = self.max_cluster {
            attrs.push(Attr::words(Code::MAX_CLUSTER_RANK, [rank]));
        }
        if self.blocks_are_clusters {
            attrs.push(Attr::flag(Code::BLOCKS_ARE_CLUSTERS));
        }
        attrs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ptxas allows for sm_90.
    #[test]
    fn threads_and_blocks_bound_the_registers() {
        let rows = [
            (1024, 1, 64),
            (768, 1, 80),
            (256, 2, 128),
            (256, 3, 80),
            (128, 5, 96),
            (96, 7, 80),
            (256, 8, 32),
            (1024, 2, 32),
        ];
        for (threads, blocks, registers) in rows {
            let launch =
                Launch { max_threads: Some([threads, 1, 1]), min_blocks: Some(blocks), ..Launch::default() };
            assert_eq!(launch.registers(Some(200)), registers, "{threads} x {blocks}");
        }
        let bounded = Launch { max_threads: Some([1024, 1, 1]), ..Launch::default() };
        assert_eq!((bounded.registers(Some(32)), bounded.registers(None)), (32, 64));
        let own = Launch { max_registers: Some(40), ..bounded.clone() };
        assert_eq!(own.registers(Some(32)), 40);
        assert_eq!(
            (bounded.registers_at_start(None), bounded.registers_at_start(Some(48))),
            (None, Some(48))
        );
        assert_eq!(own.registers_at_start(None), Some(40));
    }
}
