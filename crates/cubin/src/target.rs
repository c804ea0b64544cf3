//! What differs between targets in the container: one row per SM number, one `Generation` per file layout.
//!
//! Measured on what ptxas 13.0.88 writes for each target (empty kernels and kernels with parameters, shared
//! memory, variables and calls). Where the code finds its parameters is not decided here: see `Params::base`.

use crate::attr::Code;
use crate::elf::PHDR_SIZE;

/// A real architecture, as in `-arch sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// 90 for sm_90 and sm_90a.
    pub sm: u16,
    /// The `a` of sm_90a. The `f` of sm_100f leaves no trace in the container.
    pub accelerated: bool,
}

/// How files of a target differ from those of the others.
pub struct Traits {
    pub sm: u16,
    pub generation: &'static Generation,
    /// The payload of `SW_WAR`.
    pub sw_war: Option<u32>,
    /// `SW2861232_WAR` is there.
    pub sw2861232_war: bool,
    /// `VRC_CTA_INIT_COUNT` is there, and zero where tcgen05 isn't used.
    pub vrc_cta_init_count: bool,
    /// The bytes of `.nv.shared.reserved.0` that have no name: the value of `.nv.reservedSmem.offset0`.
    pub reserved_shared: u64,
    /// A variable behind them that every kernel uses, which `RESERVED_SMEM_USED` says.
    pub reserved_variable: Option<&'static ReservedVariable>,
    /// The first word of `CAN_FASTPATH_FINALIZE`.
    pub fastpath_finalize: u32,
}

/// A variable in `.nv.shared.reserved.0`.
pub struct ReservedVariable {
    pub name: &'static str,
    pub size: u64,
    pub align: u64,
}

/// A layout of files. There are two: up to sm_89, and since sm_90.
pub struct Generation {
    /// `.nv.compat` is there, and `.note.nv.cuinfo` names it.
    pub has_compat: bool,
    /// `.nv.rel.action` is there, in executables.
    pub has_rel_action: bool,
    /// Relocatable files name the parameters of a kernel: `_param`, or `_SREG` where there are none.
    pub names_params: bool,
    /// Relocatable files know the table of unified functions (`__UFT` and others).
    pub has_unified_functions: bool,
    /// `e_phentsize` of a file without segments.
    pub unused_segment_header_size: u16,
    /// `.nv.shared.reserved.0` and its symbols are there.
    pub has_reserved_shared: bool,
    /// Relocations without an addend go into a `REL` section of their own.
    pub rel_without_addend: bool,
    /// `sh_info` of `.text.*` has the register count in its top byte.
    pub registers_in_text_info: bool,
    /// `.nv.constant0.*` comes after all other sections, in a segment of its own.
    pub constant0_last: bool,
    /// Shared memory that belongs to the system, below that of the kernel.
    pub shared_base: u64,
    /// The operand of `MERCURY_ISA_VERSION`.
    pub mercury_isa: u16,
    /// `SPARSE_MMA_MASK` is there.
    pub has_sparse_mma_mask: bool,
    /// The order of the attributes of a kernel. What is not listed goes to `OFFSET_TABLES`.
    pub attr_order: &'static [Code],
}

/// Stands in an attribute order for every attribute that it does not list: tables of instruction offsets.
const OFFSET_TABLES: Code = Code::PAD;

const UP_TO_89: Generation = Generation {
    has_compat: false,
    has_rel_action: true,
    names_params: true,
    has_unified_functions: false,
    unused_segment_header_size: PHDR_SIZE as u16,
    has_reserved_shared: false,
    rel_without_addend: true,
    registers_in_text_info: true,
    constant0_last: false,
    shared_base: 0,
    mercury_isa: 0,
    has_sparse_mma_mask: false,
    attr_order: &[
        Code::SW_WAR,
        Code::CUDA_API_VERSION,
        Code::SW2861232_WAR,
        Code::TOOLS_PATCH_FUNC,
        Code::PARAM_CBANK,
        Code::CBANK_PARAM_SIZE,
        Code::KPARAM_INFO,
        Code::KPARAM_INFO_V2,
        Code::MAXREG_COUNT,
        Code::EXTERNS,
        Code::NUM_BARRIERS,
        Code::SANITIZE,
        Code::BINDLESS_SURFACE_BANK,
        Code::BINDLESS_TEXTURE_BANK,
        Code::MERCURY_ISA_VERSION,
        OFFSET_TABLES,
        Code::EXIT_INSTR_OFFSETS,
        Code::CTAIDZ_USED,
        Code::MAX_THREADS,
        Code::REQNTID,
        Code::CRS_STACK_SIZE,
    ],
};

const SINCE_90: Generation = Generation {
    has_compat: true,
    has_rel_action: false,
    names_params: false,
    has_unified_functions: true,
    unused_segment_header_size: 0,
    has_reserved_shared: true,
    rel_without_addend: false,
    registers_in_text_info: false,
    constant0_last: true,
    shared_base: 0x400,
    mercury_isa: 0x0101,
    has_sparse_mma_mask: true,
    attr_order: &[
        Code::CUDA_API_VERSION,
        Code::TOOLS_PATCH_FUNC,
        Code::EXPLICIT_CLUSTER,
        Code::BLOCKS_ARE_CLUSTERS,
        Code::CTA_PER_CLUSTER,
        Code::MAX_CLUSTER_RANK,
        Code::KPARAM_INFO,
        Code::KPARAM_INFO_V2,
        Code::AT_ENTRY_FRAGMENTS,
        Code::RESERVED_SMEM_USED,
        Code::SPARSE_MMA_MASK,
        Code::TCGEN05_1CTA_USED,
        Code::TCGEN05_2CTA_USED,
        Code::MAXREG_COUNT,
        Code::REG_RECONFIG,
        Code::EXTERNS,
        Code::NUM_BARRIERS,
        Code::SANITIZE,
        Code::MERCURY_ISA_VERSION,
        Code::MBARRIER_INSTR_OFFSETS,
        Code::NUM_MBARRIERS,
        OFFSET_TABLES,
        Code::INT_WARP_WIDE_INSTR_OFFSETS,
        Code::COOP_GROUP_MASK_REGIDS,
        Code::COOP_GROUP_INSTR_OFFSETS,
        Code::VRC_CTA_INIT_COUNT,
        Code::SYSCALL_OFFSETS,
        Code::EXIT_INSTR_OFFSETS,
        Code::MAX_THREADS,
        Code::REQNTID,
        Code::INDIRECT_BRANCH_TARGETS,
        Code::CRS_STACK_SIZE,
        Code::CBANK_PARAM_SIZE,
        Code::PARAM_CBANK,
        Code::SW_WAR,
        Code::BINDLESS_TEXTURE_BANK,
        Code::BINDLESS_SURFACE_BANK,
    ],
};

const GB10B_WAR: ReservedVariable =
    ReservedVariable { name: "__nv_reservedSMEM_gb10b_war_var", size: 0x80, align: 16 };

/// A row of `TARGETS`: SM, generation, SW_WAR, SW2861232_WAR, VRC_CTA_INIT_COUNT, reserved shared memory and its
/// variable, fastpath.
#[allow(clippy::too_many_arguments)]
const fn row(
    sm: u16,
    generation: &'static Generation,
    sw_war: Option<u32>,
    sw2861232_war: bool,
    vrc_cta_init_count: bool,
    reserved_shared: u64,
    reserved_variable: Option<&'static ReservedVariable>,
    fastpath_finalize: u32,
) -> Traits {
    Traits {
        sm,
        generation,
        sw_war,
        sw2861232_war,
        vrc_cta_init_count,
        reserved_shared,
        reserved_variable,
        fastpath_finalize,
    }
}

#[rustfmt::skip]
static TARGETS: [Traits; 12] = [
    row( 75, &UP_TO_89, Some(1), false, false, 0,    None,             0),
    row( 80, &UP_TO_89, None,    true,  false, 0,    None,             0),
    row( 86, &UP_TO_89, None,    true,  false, 0,    None,             0),
    row( 87, &UP_TO_89, Some(2), true,  false, 0,    None,             0),
    row( 88, &UP_TO_89, None,    true,  false, 0,    None,             0),
    row( 89, &UP_TO_89, None,    false, false, 0,    None,             0),
    row( 90, &SINCE_90, Some(8), false, false, 0,    None,             0),
    row(100, &SINCE_90, Some(8), false, true,  0x40, None,             9),
    row(103, &SINCE_90, Some(8), false, true,  0x40, None,             0),
    row(110, &SINCE_90, Some(8), false, true,  0x40, Some(&GB10B_WAR), 0),
    row(120, &SINCE_90, Some(0), false, true,  0x40, None,             0x50),
    row(121, &SINCE_90, Some(0), false, true,  0x40, None,             0),
];

impl Target {
    /// The row of the target; `None` for an SM that the crate does not know.
    pub fn traits(self) -> Option<&'static Traits> {
        TARGETS.iter().find(|traits| traits.sm == self.sm)
    }

    /// Every SM number that can be written.
    pub fn all_sms() -> impl Iterator<Item = u16> {
        TARGETS.iter().map(|traits| traits.sm)
    }
}

impl Generation {
    /// The place of an attribute in `.nv.info.<kernel>`.
    pub fn attr_rank(&self, code: Code) -> usize {
        let rank = |code| self.attr_order.iter().position(|&listed| listed == code);
        rank(code).or_else(|| rank(OFFSET_TABLES)).unwrap_or(self.attr_order.len())
    }
}
