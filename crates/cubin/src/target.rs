//! The layouts of files: one `Generation` for each [`Container`]. What differs between single targets is in their rows
//! ([`targets::Target`]).
//!
//! Measured on what ptxas 13.0.88 writes for each target (empty kernels and kernels with parameters, shared
//! memory, variables and calls). Where the code finds its parameters is not decided here: see `Params::base`.

use crate::attr::Code;
use crate::elf::PHDR_SIZE;
use targets::{Container, Target as Row};

/// A real architecture, as in `-arch sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// 90 for sm_90 and sm_90a.
    pub sm: u16,
    /// The `a` of sm_90a. The `f` of sm_100f leaves no trace in the container.
    pub accelerated: bool,
}

/// A layout of files.
pub struct Generation {
    /// `.nv.compat` is there, and `.note.nv.cuinfo` names it.
    pub has_compat: bool,
    /// `.nv.rel.action` is there, in executables.
    pub has_rel_action: bool,
    /// Relocatable files name the parameters of a kernel: `_param`, or `_SREG` where there are none.
    pub names_params: bool,
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
    /// The operand of `MERCURY_ISA_VERSION`.
    pub mercury_isa: u16,
    /// The order of the attributes of a kernel. What is not listed goes to `OFFSET_TABLES`.
    pub attr_order: &'static [Code],
}

/// Stands in an attribute order for every attribute that it does not list: tables of instruction offsets.
const OFFSET_TABLES: Code = Code::PAD;

static UP_TO_89: Generation = Generation {
    has_compat: false,
    has_rel_action: true,
    names_params: true,
    unused_segment_header_size: PHDR_SIZE as u16,
    has_reserved_shared: false,
    rel_without_addend: true,
    registers_in_text_info: true,
    constant0_last: false,
    mercury_isa: 0,
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

static SINCE_90: Generation = Generation {
    has_compat: true,
    has_rel_action: false,
    names_params: false,
    unused_segment_header_size: 0,
    has_reserved_shared: true,
    rel_without_addend: false,
    registers_in_text_info: false,
    constant0_last: true,
    mercury_isa: 0x0101,
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

impl Target {
    /// The row of the target; `None` for an SM that there is no row for.
    pub fn row(self) -> Option<&'static Row> {
        Row::of_sm(self.sm)
    }
}

impl Generation {
    /// The generation of a layout of files.
    pub fn of(container: Container) -> &'static Generation {
        match container {
            Container::UpTo89 => &UP_TO_89,
            Container::Since90 => &SINCE_90,
        }
    }

    /// The position of an attribute in `.nv.info.<kernel>`.
    pub fn attr_rank(&self, code: Code) -> usize {
        let rank = |code| self.attr_order.iter().position(|&listed| listed == code);
        rank(code).or_else(|| rank(OFFSET_TABLES)).unwrap_or(self.attr_order.len())
    }
}
