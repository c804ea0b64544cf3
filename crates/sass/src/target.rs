//! Targets: what a compiler must know of a chip beyond its instructions.
//!
//! Constant-bank offsets and the shared-memory base were read out of ptxas 13.0's code for each target; the occupancy
//! limits are those of the CUDA programming guide's table of compute capabilities. sm_88 is not in that table.

use crate::form::{Form, Op};
use crate::isa::Isa;

/// Offsets into `c[0x0]` that the driver fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Constants {
    /// First byte of the kernel parameters.
    pub parameters: u16,
    /// The same for kernels with more than 4096 bytes of parameters.
    pub large_parameters: u16,
    /// Initial stack pointer (R1).
    pub stack: u16,
    /// The 64-bit descriptor of global memory (`desc[UR]`), where there is one.
    pub descriptor: Option<u16>,
    /// `%ntid.x`; y and z follow.
    pub ntid: u16,
    /// `%nctaid.x`; y and z follow.
    pub nctaid: u16,
    /// 64-bit base of the shared window; from sm_90 on it comes from SR_SWINHI and the CTA's place in its cluster.
    pub shared_window: Option<u16>,
    /// 64-bit base of the local window.
    pub local_window: u16,
    pub gridid: u16,
    /// `%dynamic_smem_size`; from sm_100 on it lies at an offset that depends on SR_CgaSize.
    pub dynamic_shared: Option<u16>,
    pub nsmid: u16,
}

/// Limits per SM and per block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupancy {
    pub warps: u32,
    pub blocks: u32,
    /// Bytes of shared memory per SM, and the most that one block may have.
    pub shared: u32,
    pub shared_per_block: u32,
}

/// 32-bit registers per SM, allocated to warps in units of `REGISTER_UNIT`.
pub const REGISTERS_PER_SM: u32 = 65536;
pub const REGISTER_UNIT: u32 = 256;
/// Threads of a warp.
pub const WARP: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// `sm_90`; the variants `a` and `f` share it.
    pub name: &'static str,
    pub sm: u32,
    pub isa: Isa,
    pub constants: &'static Constants,
    /// Where user shared memory starts: the system keeps what lies below.
    pub shared_base: u32,
    pub occupancy: Option<Occupancy>,
}

impl Target {
    pub fn of_sm(sm: u32) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.sm == sm)
    }

    /// `sm_90`, `sm_90a`, `sm_100f`.
    pub fn of_name(name: &str) -> Option<&'static Target> {
        let digits = name.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
        Target::of_sm(digits.parse().ok()?)
    }

    /// General registers that a thread may name: R0 to R252. ptxas reports two more than the highest in use.
    pub const GENERAL: u8 = 253;
    pub const RESERVED: u8 = 2;

    /// Uniform registers: all of the six-bit field to sm_90; from sm_100 on the field is wider than the file.
    pub fn uniform_registers(&self) -> u8 {
        if self.isa <= Isa::Sm90 { 63 } else { 80 }
    }

    /// P0 to P6, UP0 to UP6.
    pub const PREDICATES: u8 = 7;
    /// B0 to B15.
    pub const BARRIERS: u8 = 16;

    /// Whether the target has an operation at all.
    pub fn has(&self, op: Op) -> bool {
        Form::of(op).iter().any(|form| form.isas.contains(self.isa))
    }

    /// ALU operands may be `c[bank][offset]`.
    pub fn has_constant_operands(&self) -> bool {
        self.isa <= Isa::Sm90
    }

    /// Double precision runs at full rate, with a fixed latency.
    pub fn has_fast_doubles(&self) -> bool {
        matches!(self.isa, Isa::Sm90 | Isa::Sm100)
    }
}

const TO_75: Constants = Constants {
    parameters: 0x160,
    large_parameters: 0x1a80,
    stack: 0x28,
    descriptor: None,
    ntid: 0x0,
    nctaid: 0xc,
    shared_window: Some(0x18),
    local_window: 0x20,
    gridid: 0x30,
    dynamic_shared: Some(0x2c),
    nsmid: 0x10c,
};
const TO_89: Constants = Constants { descriptor: Some(0x118), ..TO_75 };
const TO_90: Constants = Constants {
    parameters: 0x210,
    large_parameters: 0x210,
    descriptor: Some(0x208),
    shared_window: None,
    ..TO_75
};
const FROM_100: Constants = Constants {
    parameters: 0x380,
    large_parameters: 0x380,
    stack: 0x37c,
    descriptor: Some(0x358),
    ntid: 0x360,
    nctaid: 0x370,
    shared_window: None,
    local_window: 0x2f8,
    gridid: 0x140,
    dynamic_shared: None,
    nsmid: 0x2d0,
};

const fn occupancy(warps: u32, blocks: u32, shared: u32) -> Option<Occupancy> {
    // One KiB of every block's shared memory belongs to the system from sm_80 on; sm_75 has 64 KiB for both.
    let system = if shared == 64 { 0 } else { 1 };
    Some(Occupancy { warps, blocks, shared: shared << 10, shared_per_block: (shared - system) << 10 })
}

const fn target(
    name: &'static str,
    sm: u32,
    isa: Isa,
    constants: &'static Constants,
    shared_base: u32,
    occupancy: Option<Occupancy>,
) -> Target {
    Target { name, sm, isa, constants, shared_base, occupancy }
}

/// Every target, oldest first.
pub static TARGETS: [Target; 12] = [
    target("sm_75", 75, Isa::Sm75, &TO_75, 0, occupancy(32, 16, 64)),
    target("sm_80", 80, Isa::Sm80, &TO_89, 0, occupancy(64, 32, 164)),
    target("sm_86", 86, Isa::Sm86, &TO_89, 0, occupancy(48, 16, 100)),
    target("sm_87", 87, Isa::Sm86, &TO_89, 0, occupancy(48, 16, 164)),
    target("sm_88", 88, Isa::Sm86, &TO_89, 0, None),
    target("sm_89", 89, Isa::Sm89, &TO_89, 0, occupancy(48, 24, 100)),
    target("sm_90", 90, Isa::Sm90, &TO_90, 0x400, occupancy(64, 32, 228)),
    target("sm_100", 100, Isa::Sm100, &FROM_100, 0x400, occupancy(64, 32, 228)),
    target("sm_103", 103, Isa::Sm103, &FROM_100, 0x400, occupancy(64, 32, 228)),
    target("sm_110", 110, Isa::Sm110, &FROM_100, 0x400, occupancy(48, 24, 228)),
    target("sm_120", 120, Isa::Sm120, &FROM_100, 0x400, occupancy(48, 24, 100)),
    target("sm_121", 121, Isa::Sm120, &FROM_100, 0x400, occupancy(48, 24, 100)),
];
