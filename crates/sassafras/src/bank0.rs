//! What the driver puts into constant bank 0, and the other numbers that code and driver agree on.
//!
//! Read off ptxas's code for each target; the H200 confirms the column of sm_90.

use sass::Isa;

/// A machine and where it keeps things.
#[derive(Debug)]
pub struct Machine {
    pub sm: u16,
    pub isa: Isa,
    /// Offset of the kernel's parameters in bank 0.
    pub params: u32,
    /// Offset of the descriptor of global memory; machines before sm_80 have none.
    pub descriptor: Option<u32>,
    /// Offsets of ntid.x and nctaid.x; .y and .z follow.
    pub ntid: u32,
    pub nctaid: u32,
    /// Offset of the stack pointer's first value.
    pub stack: u32,
    /// First byte of shared memory that a kernel may use.
    pub shared: u32,
    /// Bytes of code that must follow the last instruction's line, for the prefetcher.
    pub slack: usize,
}

const fn row(sm: u16, isa: Isa) -> Machine {
    let (params, descriptor, ntid, nctaid) = match sm {
        75 => (0x160, None, 0x0, 0xc),
        80..90 => (0x160, Some(0x118), 0x0, 0xc),
        90 => (0x210, Some(0x208), 0x0, 0xc),
        _ => (0x380, Some(0x358), 0x360, 0x370),
    };
    let stack = if sm >= 100 { 0x37c } else { 0x28 };
    let shared = if sm >= 90 { 0x400 } else { 0 };
    let slack = if sm >= 80 { 128 } else { 0 };
    Machine { sm, isa, params, descriptor, ntid, nctaid, stack, shared, slack }
}

/// The machines that this compiler makes code for.
static MACHINES: &[Machine] = &[
    row(75, Isa::Sm75),
    row(80, Isa::Sm80),
    row(86, Isa::Sm86),
    row(87, Isa::Sm86),
    row(88, Isa::Sm86),
    row(89, Isa::Sm89),
    row(90, Isa::Sm90),
    row(100, Isa::Sm100),
    row(103, Isa::Sm103),
    row(110, Isa::Sm110),
    row(120, Isa::Sm120),
    row(121, Isa::Sm120),
];

impl Machine {
    pub fn of(target: ptx::Target) -> Option<&'static Machine> {
        MACHINES.iter().find(|m| m.sm == target.sm())
    }
}
