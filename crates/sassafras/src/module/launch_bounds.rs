//! Launch bounds of a kernel (directives and command line), the register limit that follows, and occupancy.
//!
//! The rules were measured on ptxas: `.maxnreg` takes precedence, then `.maxntid` or `.reqntid` together with
//! `.minnctapersm`, then `-maxrregcount`; threads per block alone are an upper bound beside that option. Options fill in
//! what a kernel leaves open, or override its directives if asked to.

use crate::context::{Bounds, Occupancy, warps};
use cubin::attr::{Attr, Code};
use ptx::ast::Function;
use ptx::diag::Severity;
use targets::Target;

pub const MOST: u32 = Target::MOST_REGISTERS;
pub const LEAST: u32 = Target::LEAST_REGISTERS;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    pub max_threads: Option<[u32; 3]>,
    pub required_threads: Option<[u32; 3]>,
    min_blocks: Option<u32>,
    max_registers: Option<u32>,
    /// The limit of the command line.
    option: Option<u32>,
    cluster: Option<[u32; 3]>,
    max_cluster: Option<u32>,
    explicit_cluster: bool,
    blocks_are_clusters: bool,
    /// More threads than an SM takes: they imply no register limit.
    impossible: bool,
    /// Diagnostics: bounds that are out of range, and which register limit takes precedence.
    pub notes: Vec<(Severity, String)>,
}

impl Launch {
    /// `Err` names a directive that is not known here.
    pub fn new<'a>(
        function: &'a Function,
        name: &str,
        bounds: &Bounds,
        target: &Target,
    ) -> Result<Launch, &'a str> {
        let mut launch = Launch::written(function)?;
        launch.option = match function.entry {
            true => bounds.max_registers,
            false => bounds.max_function_registers.or(bounds.max_registers),
        };
        if function.entry {
            launch.bound(bounds);
            launch.check_registers(name);
            launch.check_blocks(name, target);
            launch.note_limit(name, bounds.overrides);
            if bounds.overrides && launch.option.is_some() {
                (launch.max_registers, launch.min_blocks) = (None, None);
            }
        }
        Ok(launch)
    }

    fn written<'a>(function: &'a Function) -> Result<Launch, &'a str> {
        let mut launch = Launch::default();
        for directive in &function.directives {
            let value = |i: usize| directive.values.get(i).map(|v| *v as u32);
            let axes = || Some([value(0).unwrap_or(1), value(1).unwrap_or(1), value(2).unwrap_or(1)]);
            match directive.name {
                ".maxntid" => launch.max_threads = axes(),
                ".reqntid" => launch.required_threads = axes(),
                ".minnctapersm" => launch.min_blocks = value(0),
                ".maxnreg" => launch.max_registers = value(0),
                ".reqnctapercluster" => launch.cluster = axes(),
                ".maxclusterrank" => launch.max_cluster = value(0),
                ".explicitcluster" => launch.explicit_cluster = true,
                ".blocksareclusters" => launch.blocks_are_clusters = true,
                // ptxas ignores the most blocks; a function that never returns is called as any other; no pragma of a
                // function changes its code, and preserved registers are handled by `abi_preserve`.
                ".maxnctapersm" | ".noreturn" | ".pragma" | ".abi_preserve" | ".abi_preserve_control" => {}
                other => return Err(other),
            }
        }
        Ok(launch)
    }

    fn bound(&mut self, bounds: &Bounds) {
        let says_threads = self.max_threads.or(self.required_threads).is_some();
        if bounds.max_threads.is_some() && (bounds.overrides || !says_threads) {
            self.max_threads = bounds.max_threads;
        }
        if bounds.min_blocks.is_some() && (bounds.overrides || self.min_blocks.is_none()) {
            self.min_blocks = bounds.min_blocks;
            if bounds.overrides {
                self.max_registers = None;
            }
        }
    }

    /// More blocks than an SM takes are no bound at all. Without threads per block they mean nothing.
    fn check_blocks(&mut self, name: &str, target: &Target) {
        let (threads, blocks) = (target.threads_per_sm, target.blocks_per_sm);
        // Warps are allocated whole.
        let Some(each) = self.threads().map(|each| each.div_ceil(Target::WARP).saturating_mul(Target::WARP))
        else {
            return;
        };
        if self.min_blocks.is_some_and(|wanted| wanted > blocks) {
            self.min_blocks = None;
            self.out_of_range("minnctapersm", name, "minnctapersm");
        }
        if each > threads {
            let what = if self.min_blocks.is_some() { "maxntid," } else { "threads per SM" };
            (self.impossible, self.min_blocks) = (true, None);
            self.out_of_range(what, name, ".minnctapersm and .maxntid");
        } else if self.min_blocks.is_some_and(|wanted| each.saturating_mul(wanted) > threads) {
            self.min_blocks = None;
            self.out_of_range("threads per SM", name, ".minnctapersm");
        }
    }

    fn out_of_range(&mut self, what: &str, name: &str, ignored: &str) {
        self.warn(format!("Value of {what} for entry {name} is out of range. {ignored} will be ignored"));
    }

    fn check_registers(&mut self, name: &str) {
        match self.max_registers {
            Some(count) if count > MOST => {
                self.max_registers = Some(MOST);
                self.warn(format!("Too many maxnreg specified for entry {name}, will be ignored"));
            }
            Some(count) if count < LEAST => {
                self.max_registers = Some(LEAST);
                let change = format!("register count of {count} to lower bound of {LEAST}");
                self.warn(format!("For entry {name} adjusting per thread {change}"));
            }
            _ => {}
        }
    }

    fn warn(&mut self, message: String) {
        self.notes.push((Severity::Warning, message));
    }

    /// Notes which register limit takes precedence, if the command line has one.
    fn note_limit(&mut self, name: &str, overrides: bool) {
        let Some(option) = self.option else { return };
        let own = match (self.max_registers, self.cap().filter(|_| self.min_blocks.is_some())) {
            (Some(count), _) if !overrides => Some(format!("{count} of .maxnreg")),
            (None, Some(cap)) => Some(format!("{cap} computed using thread count")),
            _ => None,
        };
        let is_capped = own.is_some() || self.cap().is_some();
        if let Some(own) = own {
            let message = format!("Overriding global maxrregcount {option} with entry-specific value {own}");
            self.notes.push((Severity::Info, message));
        }
        if overrides || !is_capped {
            let limit = self.max_registers.unwrap_or(256);
            // Both blanks are ptxas's.
            let change = format!("limit {limit} for '{name}' with  {option} of maxrregcount option");
            self.notes.push((Severity::Info, format!("Overriding maximum register {change}")));
        }
    }

    /// `max_threads` takes precedence: both are given only if an option adds it.
    fn threads(&self) -> Option<u32> {
        let axes = self.max_threads.or(self.required_threads)?;
        Some(axes.iter().fold(1, |all: u32, axis| all.saturating_mul(*axis)))
    }

    /// The register limit implied by the number of threads.
    fn cap(&self) -> Option<u32> {
        let warps = warps(self.threads().filter(|_| !self.impossible)?);
        let warps = warps.saturating_mul(self.min_blocks.unwrap_or(1).max(1));
        let threads = warps.div_ceil(Target::PARTITIONS).saturating_mul(Target::WARP);
        let cap = Target::REGISTERS_PER_PARTITION / threads;
        Some((cap - cap % Target::REGISTER_UNIT).clamp(LEAST, MOST))
    }

    /// The occupancy model, if the block size is known.
    pub fn occupancy(&self, target: &Target) -> Option<Occupancy> {
        self.threads().filter(|_| !self.impossible).map(|threads| Occupancy::new(threads, target))
    }

    /// Applies the register limit of the kernels that call a device function.
    pub fn limit(&mut self, callers: Option<u32>) {
        self.option = self.option.into_iter().chain(callers).min();
    }

    /// The register limit (`MAXREG_COUNT`).
    pub fn registers(&self) -> u32 {
        let option = self.option.unwrap_or(MOST);
        let limit = match (self.max_registers, self.cap(), self.min_blocks) {
            (Some(limit), Some(cap), Some(_)) => limit.min(cap),
            (Some(limit), _, _) => limit,
            (None, Some(cap), Some(_)) => cap,
            (None, cap, _) => cap.unwrap_or(MOST).min(option),
        };
        limit.clamp(LEAST, MOST)
    }

    /// The registers of a thread at the kernel's entry, if they don't depend on what the code needs.
    pub fn registers_at_start(&self) -> Option<u32> {
        let bounded = self.cap().is_some() && self.min_blocks.is_some();
        let known = self.max_registers.is_some() || bounded || self.option.is_some();
        known.then(|| self.registers())
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

    fn sm_90() -> &'static Target {
        Target::of_name("sm_90").expect("a row")
    }

    #[test]
    fn step_keeps_occupancy() {
        let step = |threads, least| Occupancy::new(threads, sm_90()).step(least);
        // Sixteen blocks of four warps are all that there may be; twelve have forty registers each.
        assert_eq!([1, 32, 33, 40, 41, 64].map(|r| step(128, r)), [32, 32, 40, 40, 48, 64]);
        // Blocks of sixteen warps: occupancy falls by one block at a time.
        assert_eq!([1, 33, 41, 65, 128].map(|r| step(512, r)), [32, 40, 64, 128, 128]);
        // At most 32 blocks of a single warp run, whatever their registers.
        assert_eq!([step(32, 1), step(256, 200), step(1024, 64)], [64, 255, 64]);
    }

    /// What ptxas allows for sm_90.
    #[test]
    fn threads_and_blocks_imply_the_register_limit() {
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
            let launch = Launch {
                max_threads: Some([threads, 1, 1]),
                min_blocks: Some(blocks),
                option: Some(200),
                ..Launch::default()
            };
            assert_eq!(launch.registers(), registers, "{threads} x {blocks}");
        }
        let bounded = |option| Launch { max_threads: Some([1024, 1, 1]), option, ..Launch::default() };
        assert_eq!((bounded(Some(32)).registers(), bounded(None).registers()), (32, 64));
        let own = Launch { max_registers: Some(40), ..bounded(Some(32)) };
        assert_eq!(own.registers(), 40);
        let at_start = |option| bounded(option).registers_at_start();
        assert_eq!((at_start(None), at_start(Some(48))), (None, Some(48)));
        assert_eq!(own.registers_at_start(), Some(40));
    }

    /// The directives, the options, and the limit and number of notes that ptxas has for them on sm_90.
    #[test]
    fn options_fill_in_or_override_directives() {
        let threads = |n| Bounds { max_threads: Some([n, 1, 1]), ..Bounds::NONE };
        let both = |n, blocks| Bounds { min_blocks: Some(blocks), ..threads(n) };
        let limit = |n| Bounds { max_registers: Some(n), ..Bounds::NONE };
        let forced = |bounds| Bounds { overrides: true, ..bounds };
        let rows: [(&str, Bounds, u32, usize); 14] = [
            ("", threads(256), 255, 0),
            ("", both(256, 4), 64, 0),
            (".reqntid 128", both(256, 4), 128, 0),
            (".maxntid 64 .minnctapersm 2", forced(threads(256)), 128, 0),
            (".maxnreg 40", both(256, 4), 40, 0),
            (".maxnreg 40", forced(threads(256)), 40, 0),
            (".maxnreg 40", forced(both(512, 4)), 32, 0),
            (".maxnreg 40", limit(48), 40, 1),
            (".maxnreg 40", forced(limit(48)), 48, 1),
            (".maxntid 1024 .minnctapersm 2", limit(100), 32, 1),
            (".maxntid 1024", limit(100), 64, 0),
            (".maxntid 1024 .minnctapersm 3", Bounds::NONE, 64, 1),
            (".maxnreg 20", Bounds::NONE, 24, 1),
            (".maxnreg 300", Bounds::NONE, 255, 1),
        ];
        for (directives, bounds, registers, notes) in rows {
            let header = ".version 8.0 .target sm_75 .address_size 64";
            let source = format!("{header} .visible .entry k() {directives} {{ ret; }}");
            let parsed = ptx::parse(&source, &ptx::Options::default());
            let module = parsed.module.expect("a module");
            let ptx::ast::Item::Function(function) = &module.items[0] else { panic!("no function") };
            let launch = Launch::new(function, "k", &bounds, sm_90()).expect("known directives");
            assert_eq!(
                (launch.registers(), launch.notes.len()),
                (registers, notes),
                "{directives} {bounds:?}"
            );
        }
    }
}
