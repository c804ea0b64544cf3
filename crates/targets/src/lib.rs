//! The one target description: a row of facts for each SM that there is code for ([`Target::ALL`]).
//!
//! - Every crate reads targets from here and compares no SM numbers: what differs between targets is a named feature or
//!   number of the row.
//! - `rows.rs` has the rows; each one says what differs from an older one. Facts that all targets share are constants
//!   of [`Target`].
//! - Facts only: a number that is a judgment of the compiler is in its `Tuning`.
//! - What is a table of its own is elsewhere: instruction forms (`crates/sass/src/table`), latencies
//!   (`crates/sass/src/model`), PTX forms (`crates/ptx/src/table`), section layouts (`crates/cubin/src/target.rs`, by
//!   [`Container`]). `docs/add-a-target.md` lists them.
//!
//! ```
//! use targets::{Isa, Target};
//!
//! let hopper = Target::of_name("sm_90a").unwrap();
//! assert_eq!((hopper.name, hopper.isa), ("sm_90", Isa::Sm90));
//! assert!(hopper.has_clusters && !Target::of_sm(89u32).unwrap().has_clusters);
//! ```
//!
//! Where the numbers come from: constant-bank offsets and the shared-memory base were read out of the code of ptxas
//! 13.0 for each target; an H200 confirms those of sm_90. The facts of the container were measured on what ptxas
//! 13.0.88 writes for each target (empty kernels and kernels with parameters, shared memory, variables and calls).
//! Threads and blocks of an SM are the most for which ptxas does not warn, and agree with the CUDA programming guide's
//! table of compute capabilities, which lacks sm_88. Shared memory of an SM, its unit and the system's part are those of
//! that table and of the CUDA toolkit's `cuda_occupancy.h`.

#![deny(missing_docs)]

mod isa;
mod ptx;
mod rows;

pub use isa::Isa;
pub use ptx::{PTX_TARGETS, PtxTarget, Suffix};

/// Everything that differs between targets. The variants `a` and `f` of a target share its row.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// `sm_90`
    pub name: &'static str,
    /// 90
    pub sm: u16,
    /// The encoding of its instructions.
    pub isa: Isa,
    /// The names of it that `.target` accepts.
    pub ptx: &'static [PtxTarget],

    // --- Register files and occupancy ---
    /// URZ, the uniform register that reads as zero: the field is 6 bits wide up to sm_90, then 8.
    pub urz: u8,
    /// The last uniform register that ptxas describes to debuggers.
    pub last_debug_uniform: u8,
    /// Threads and blocks that an SM takes.
    pub threads_per_sm: u32,
    /// See `threads_per_sm`.
    pub blocks_per_sm: u32,
    /// Bytes of shared memory of an SM, the most that it can be told to have; what the system takes of them for each
    /// block; and the unit in which they are allocated.
    pub shared_per_sm: u32,
    /// See `shared_per_sm`.
    pub system_shared_per_block: u32,
    /// See `shared_per_sm`.
    pub shared_unit: u32,
    /// `%nwarpid` as ptxas folds it; `None`: it is read from `SR_VIRTCFG`.
    pub nwarpid: Option<u32>,

    // --- Constant bank 0, by offsets, as the driver fills it ---
    /// Kernel parameters, and those of more than [`Target::SMALL_PARAM_BYTES`] bytes.
    pub small_params: u32,
    /// See `small_params`.
    pub large_params: u32,
    /// The first value of the stack pointer (R1).
    pub stack: u32,
    /// The 64-bit descriptor of global memory (`desc[UR]`); there is none before sm_80.
    pub descriptor: Option<u32>,
    /// The generic addresses of the state spaces.
    pub windows: Windows,
    /// What `fence.proxy.alias` asks; `None`: ptxas reads no such word.
    pub alias_word: Option<AliasWord>,
    /// The addresses of the driver's tables of textures, of samplers and of surfaces, in this order.
    pub image_tables: u32,
    /// What special registers read.
    pub launch: LaunchWords,

    // --- Shared memory ---
    /// First byte of shared memory that a kernel may use: the system keeps what is below.
    pub shared_base: u32,
    /// The bytes of the system's part that have no name (`.nv.reservedSmem.offset0`).
    pub reserved_shared: u32,
    /// A variable after them that every kernel uses, which `RESERVED_SMEM_USED` says.
    pub reserved_variable: Option<ReservedVariable>,

    // --- Code ---
    /// Bytes of code that must follow the last instruction's line, for the prefetcher.
    pub prefetch_padding: usize,
    /// A call's target is a field of 55 bits for the loader (`ABS55_16_34`), else of 47 (`ABS47_34`).
    pub wide_call_target: bool,
    /// Arithmetic has words of constant banks as operands. From sm_90 on the forms are there, and ptxas has no use for
    /// them (5,000 of 100,000 instructions before, none of 150,000 since): an H200 was seen to go on with old values
    /// after an operand that was not in its cache.
    pub constant_operands: bool,
    /// Uniform loads of constants are `LDCU`; before sm_100 they are `ULDC`.
    pub has_ldcu: bool,
    /// Memory order, scope and privacy are modifiers of their own, and a weak access names the widest scope.
    pub splits_order: bool,
    /// A sleep says that the whole warp sleeps.
    pub sleeps_by_warp: bool,

    // --- Barriers ---
    /// Which `BAR` have the modifier `DEFER_BLOCKING`.
    pub defer_blocking: DeferBlocking,
    /// An unaligned barrier collects the threads of a warp from different program points, as ptxas does it; before
    /// sm_90 only those that arrive at the same point.
    pub collects_unaligned_warps: bool,
    /// ptxas relies on `BAR.SYNC` and `BAR.RED` to wait for the reads of earlier instructions.
    pub barrier_drains_reads: bool,
    /// An mbarrier may be written as ordinary memory, if its unit is told to look again.
    pub stores_barriers: bool,

    // --- Clusters and asynchronous copies ---
    /// Blocks of a cluster see each other's shared memory.
    pub has_clusters: bool,
    /// Bulk copies can go to several blocks of a cluster. Elsewhere ptxas leaves the mask out.
    pub multicasts: bool,
    /// A copy from global to shared memory must follow loads of shared memory that load nothing.
    pub settles_shared_memory: bool,

    // --- Matrix instructions ---
    /// The scaling of blocks of 16 is called `BLOCK16`, else `4X`.
    pub block16_scales: bool,
    /// The metadata of a sparse matrix must name the lower position of each group first.
    pub wants_ordered_metadata: bool,

    // --- Textures and surfaces ---
    /// Handles must be in uniform registers, and are not found by `BINDLESS_*_BANK`.
    pub uniform_handles: bool,
    /// An offset can be added to such a handle.
    pub handle_offset: bool,
    /// The handles of textures and surfaces begin after the parameters, at a multiple of this.
    pub image_align: u32,
    /// A texture is sampled at its first level without being told so.
    pub samples_without_level: bool,
    /// The driver has functions for `tex.grad` where the machine has no operation.
    pub driver_has_gradients: bool,

    // --- Container ---
    /// The layout of files.
    pub container: Container,
    /// The payload of `SW_WAR`.
    pub sw_war: Option<u32>,
    /// `SW2861232_WAR` is there.
    pub sw2861232_war: bool,
    /// `VRC_CTA_INIT_COUNT` is there, and zero where tcgen05 isn't used.
    pub vrc_cta_init_count: bool,
    /// The first word of `CAN_FASTPATH_FINALIZE`.
    pub fastpath_finalize: u32,
    /// `SPARSE_MMA_MASK` is there: a kernel says whether it uses sparse matrix instructions.
    pub sparse_mma_mask: bool,
    /// `CTAIDZ_USED`: a kernel says whether it reads the third coordinate of its block.
    pub ctaidz_used: bool,
    /// The linker gives functions whose address is taken a number that is the same for all devices (`__UFT`).
    pub unified_functions: bool,

    // --- Messages ---
    /// The command's report of resources names constant banks.
    pub reports_constant_banks: bool,
    /// 32-bit addresses are refused in words that name sm_90.
    pub refuses_32bit_abi: bool,
}

/// Which barriers have the modifier `DEFER_BLOCKING`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferBlocking {
    /// None.
    Never,
    /// Those at which all threads of a warp arrive together.
    Aligned,
    /// All.
    Always,
}

/// A layout of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// sm_75 to sm_89.
    UpTo89,
    /// sm_90 and later.
    Since90,
}

/// The word of bank 0 that says whether aliases of a location are all in this GPU's memory: bits of it are set.
#[derive(Clone, Copy, Debug)]
pub struct AliasWord {
    /// In bank 0.
    pub offset: u32,
    /// The bits that are set.
    pub mask: i64,
}

/// Where bank 0 says at which generic address each space begins.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// The offset of the window of local memory.
    pub local: u32,
    /// `None`: the upper half of the address is `SR_SWINHI`, and the lower half is the address within the space.
    pub shared: Option<u32>,
    /// The offset of the window of constant memory.
    pub constant: u32,
    /// Where kernel parameters are.
    pub params: ParamWindow,
}

/// How the generic address of a kernel parameter is found.
#[derive(Clone, Copy, Debug)]
pub enum ParamWindow {
    /// The offset of bank 0's own generic address, and of the bank's size.
    Bank {
        /// Of the address.
        base: u32,
        /// Of the size.
        size: u32,
    },
    /// The offsets of the first and the last address.
    Range {
        /// Of the first address.
        first: u32,
        /// Of the last address.
        last: u32,
    },
}

/// Words of bank 0 that a launch decides, and that special registers read. Registers with axes have one word for each.
#[derive(Clone, Copy, Debug)]
pub struct LaunchWords {
    /// `%ntid`, `%nctaid`
    pub ntid: u32,
    /// See `ntid`.
    pub nctaid: u32,
    /// `%gridid`, two words
    pub gridid: u32,
    /// `%nsmid`
    pub nsmid: u32,
    /// `%current_graph_exec`, two words
    pub graph_exec: u32,
    /// `%dynamic_smem_size`
    pub dynamic_shared: Word,
    /// What the system has of shared memory. sm_75 has no such word: `SR_SMEMSZ` is `%total_smem_size` there.
    pub system_shared: Option<u32>,
    /// `%reserved_smem_offset_end`, `%reserved_smem_offset_1`
    pub reserved_shared_end: Word,
    /// See `reserved_shared_end`.
    pub reserved_shared_1: Word,
    /// `%envreg0` to 15, and the base of the others' numbering.
    pub envregs: Word,
    /// See `envregs`.
    pub late_envregs: Word,
    /// `None`: there are no clusters.
    pub clusters: Option<ClusterWords>,
}

/// Words of bank 0 about clusters.
#[derive(Clone, Copy, Debug)]
pub struct ClusterWords {
    /// `%is_explicit_cluster`
    pub is_explicit: u32,
    /// `%cluster_nctaid`, and the reciprocals as floats
    pub sizes: Word,
    /// See `sizes`.
    pub reciprocals: Word,
    /// `%nclusterid`
    pub counts: Word,
    /// `%cluster_nctarank`
    pub blocks: Word,
    /// The largest shared memory of a block: a bound of `%aggr_smem_size`.
    pub largest_shared: Word,
}

/// Where in bank 0 a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// At this offset.
    At(u32),
    /// Less [`Word::BYTES_PER_BLOCK`] for each block of the cluster.
    BelowCluster(u32),
}

impl Word {
    /// What the driver keeps below for each block of a cluster.
    pub const BYTES_PER_BLOCK: u32 = 0xa0;

    /// The word at so many bytes from this one.
    pub const fn plus(self, bytes: u32) -> Word {
        match self {
            Word::At(offset) => Word::At(offset + bytes),
            Word::BelowCluster(offset) => Word::BelowCluster(offset + bytes),
        }
    }
}

/// A variable in `.nv.shared.reserved.0`.
#[derive(Clone, Copy, Debug)]
pub struct ReservedVariable {
    /// Of its symbol.
    pub name: &'static str,
    /// In bytes.
    pub size: u32,
    /// In bytes.
    pub align: u32,
}

/// Facts that all targets share. Where a new target differs, the constant becomes a field.
impl Target {
    /// Threads of a warp.
    pub const WARP: u32 = 32;
    /// An SM has so many partitions; a warp's registers are all in one of them.
    pub const PARTITIONS: u32 = 4;
    /// 32-bit registers of a partition.
    pub const REGISTERS_PER_PARTITION: u32 = 16384;
    /// Registers of a thread are allocated in multiples of this.
    pub const REGISTER_UNIT: u32 = 8;
    /// The most registers that a thread can have, and the least that ptxas gives.
    pub const MOST_REGISTERS: u32 = 255;
    /// See [`Target::MOST_REGISTERS`].
    pub const LEAST_REGISTERS: u32 = 24;
    /// Bytes of static shared memory of a kernel, and of constant bank 3.
    pub const MOST_STATIC_SHARED: u64 = 0xc000;
    /// See [`Target::MOST_STATIC_SHARED`].
    pub const MOST_CONSTANT: u64 = 0x10000;
    /// Kernels with more bytes of parameters are told apart: their parameters begin at `large_params` (ptxas 13.0
    /// changes over between 4352 and 4360), and `KPARAM_INFO_V2` describes them (between 4352 and 4356 on sm_75, sm_90
    /// and sm_120).
    pub const SMALL_PARAM_BYTES: u32 = 4352;
}

impl Target {
    /// Every target, oldest first.
    pub const ALL: &'static [Target] = &rows::ROWS;

    /// 90 for sm_90 and sm_90a.
    pub fn of_sm(sm: impl Into<u32>) -> Option<&'static Target> {
        let sm = sm.into();
        Target::ALL.iter().find(|target| u32::from(target.sm) == sm)
    }

    /// `sm_90`, `sm_90a`, `sm_100f`.
    pub fn of_name(name: &str) -> Option<&'static Target> {
        let digits = name.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
        Target::of_sm(digits.parse::<u32>().ok()?)
    }

    /// Where the parameters of a kernel begin in bank 0.
    pub fn params(&self, bytes: u32) -> u32 {
        if bytes > Target::SMALL_PARAM_BYTES { self.large_params } else { self.small_params }
    }

    /// Where tensor memory's allocator keeps its state in the system's shared memory: after all that is reserved.
    pub fn tensor_partition(&self) -> u32 {
        self.reserved_shared + self.reserved_variable.map_or(0, |variable| variable.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_consistent() {
        assert!(Target::ALL.is_sorted_by_key(|target| target.sm));
        for target in Target::ALL {
            assert_eq!(target.name, format!("sm_{}", target.sm));
            assert_eq!(target.ptx[0].name, target.name);
            assert!(target.ptx.iter().all(|name| name.sm == target.sm && name.chip == target.sm));
            assert_eq!(Target::of_name(target.name).map(|found| found.sm), Some(target.sm));
            assert_eq!(target.threads_per_sm % Target::WARP, 0);
            assert_eq!(target.has_clusters, target.launch.clusters.is_some(), "{}", target.name);
        }
        assert!(Target::of_name("sm_42").is_none());
    }

    /// What [`Isa::target`] promises to readers of code.
    #[test]
    fn targets_of_an_encoding_agree_on_code() {
        for target in Target::ALL {
            let first = target.isa.target();
            assert_eq!((first.isa, first.isa.sm() <= u32::from(target.sm)), (target.isa, true));
            let code = |t: &Target| (t.urz, t.constant_operands, t.barrier_drains_reads, t.has_ldcu);
            assert_eq!(code(first), code(target), "{}", target.name);
        }
        assert!(Isa::ALL.iter().all(|isa| isa.target().isa == *isa), "an encoding without a target");
    }

    #[test]
    fn ptx_names_are_unique() {
        for (index, target) in PTX_TARGETS.iter().enumerate() {
            assert!(!PTX_TARGETS[..index].iter().any(|other| other.name == target.name), "{}", target.name);
            assert!(target.suffix != Suffix::Family || target.family.is_some(), "{}", target.name);
        }
    }
}
