//! What the driver puts into constant bank 0, and the other numbers that code and driver agree on.
//!
//! Read off ptxas's code for each target; the H200 confirms the column of sm_90.

use cubin::RelocType;
use sass::Isa;

/// A machine and where it keeps things.
#[derive(Debug)]
pub struct Machine {
    pub sm: u16,
    pub isa: Isa,
    /// Offset of the kernel's parameters in bank 0, and that of many parameters.
    params: u32,
    many_params: u32,
    /// Offset of the descriptor of global memory; machines before sm_80 have none, and patches use none.
    pub descriptor: Option<u32>,
    /// May code use uniform registers? In a kernel that is patched they belong to the kernel.
    pub uniform_registers: bool,
    /// Offset of the stack pointer's first value.
    pub stack: u32,
    /// First byte of shared memory that a kernel may use.
    pub shared: u32,
    /// How the loader fills in the target of a call.
    pub call_reloc: RelocType,
    /// Bytes of code that must follow the last instruction's line, for the prefetcher.
    pub slack: usize,
    pub windows: Windows,
    pub alias: Option<AliasWord>,
    /// Where bank 0 has the addresses of the driver's tables of textures, of samplers and of surfaces, in this order.
    pub image_tables: u32,
    /// The handles of textures and surfaces begin behind the parameters, at a multiple of this.
    pub image_align: u32,
    /// Handles must be in uniform registers; and to such a handle an offset can be added.
    pub uniform_handles: bool,
    pub handle_offset: bool,
    /// A texture is sampled at its first level without being told so.
    pub samples_without_level: bool,
    /// Arithmetic has words of constant banks as operands. From sm_90 on the forms are there, and ptxas has no use for
    /// them (5,000 of 100,000 instructions before, none of 150,000 since): an H200 was seen to go on with old values
    /// behind an operand that was not in its cache.
    pub constant_operands: bool,
}

/// The word of bank 0 that says whether aliases of a place are all in this GPU's memory: bits of it are set.
#[derive(Debug)]
pub struct AliasWord {
    pub offset: u32,
    pub mask: i64,
}

/// Where bank 0 says at which generic address each space begins.
#[derive(Debug)]
pub struct Windows {
    pub local: u32,
    /// `None`: the upper half of the address is `SR_SWINHI`, and the lower half is the address within the space.
    pub shared: Option<u32>,
    pub constant: u32,
    pub params: ParamWindow,
}

#[derive(Debug)]
pub enum ParamWindow {
    /// The offset of bank 0's own generic address, and of the bank's size.
    Bank { base: u32, size: u32 },
    /// The offsets of the first and the last address.
    Range { first: u32, last: u32 },
}

/// Whose code it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    Kernels,
    /// Functions that tools put into kernels (`-astoolspatch`). ptxas's code for them has no uniform register, and
    /// accesses of memory without a descriptor; bank 0 is where it is, and is read.
    Patches,
}

const fn row(sm: u16, isa: Isa, code: Code) -> Machine {
    let patches = matches!(code, Code::Patches);
    let (params, descriptor) = match sm {
        75 => (0x160, None),
        80..90 => (0x160, Some(0x118)),
        90 => (0x210, Some(0x208)),
        _ => (0x380, Some(0x358)),
    };
    let stack = if sm >= 100 { 0x37c } else { 0x28 };
    let shared = if sm >= 90 { 0x400 } else { 0 };
    let call_reloc = if sm >= 90 { RelocType::ABS55_16_34 } else { RelocType::ABS47_34 };
    let slack = if sm >= 80 { 128 } else { 0 };
    Machine {
        sm,
        isa,
        params,
        many_params: if sm >= 90 { params } else { 0x1a80 },
        descriptor: if patches { None } else { descriptor },
        uniform_registers: !patches,
        stack,
        shared,
        call_reloc,
        slack,
        windows: windows(sm),
        alias: alias(sm),
        image_tables: match sm {
            75..90 => 0x70,
            90 => 0xf0,
            _ => 0x150,
        },
        image_align: if sm >= 100 { 16 } else { 4 },
        uniform_handles: sm >= 90,
        handle_offset: sm == 90,
        constant_operands: sm < 90,
        samples_without_level: sm >= 120,
    }
}

const fn alias(sm: u16) -> Option<AliasWord> {
    match sm {
        75 => None,
        80..90 => Some(AliasWord { offset: 0x128, mask: -1 }),
        90 => Some(AliasWord { offset: 0x18c, mask: 1 }),
        _ => Some(AliasWord { offset: 0x2d8, mask: 1 }),
    }
}

const fn windows(sm: u16) -> Windows {
    let (local, shared, constant, params) = match sm {
        75 => (0x20, Some(0x18), 0x50, ParamWindow::Bank { base: 0x40, size: 0x114 }),
        80..90 => (0x20, Some(0x18), 0x50, ParamWindow::Bank { base: 0x40, size: 0x12c }),
        90 => (0x20, None, 0xd0, ParamWindow::Range { first: 0x198, last: 0x1a0 }),
        _ => (0x2f8, None, 0x120, ParamWindow::Range { first: 0x348, last: 0x350 }),
    };
    Windows { local, shared, constant, params }
}

/// The machines that this compiler makes code for.
static MACHINES: [Machine; 12] = rows(Code::Kernels);
static PATCHED_MACHINES: [Machine; 12] = rows(Code::Patches);

const fn rows(code: Code) -> [Machine; 12] {
    [
        row(75, Isa::Sm75, code),
        row(80, Isa::Sm80, code),
        row(86, Isa::Sm86, code),
        row(87, Isa::Sm86, code),
        row(88, Isa::Sm86, code),
        row(89, Isa::Sm89, code),
        row(90, Isa::Sm90, code),
        row(100, Isa::Sm100, code),
        row(103, Isa::Sm103, code),
        row(110, Isa::Sm110, code),
        row(120, Isa::Sm120, code),
        row(121, Isa::Sm120, code),
    ]
}

/// More bytes of parameters than this are many: ptxas 13.0 changes over between 4352 and 4360.
const FEW_PARAM_BYTES: u32 = 0x1100;

impl Machine {
    /// Where the parameters of a kernel begin in bank 0.
    pub fn params(&self, bytes: u32) -> u32 {
        if bytes > FEW_PARAM_BYTES { self.many_params } else { self.params }
    }

    /// Memory order, scope and privacy are modifiers of their own, and a weak access names the widest scope.
    pub fn splits_order(&self) -> bool {
        self.sm < 80
    }

    /// A kernel says whether its products take sparse matrices.
    pub fn tells_sparse_products(&self) -> bool {
        self.sm >= 90
    }

    /// A kernel says whether it asks for the third coordinate of its block.
    pub fn tells_ctaid_z(&self) -> bool {
        self.sm < 90
    }

    /// A sleep says that the whole warp sleeps.
    pub fn sleeps_by_warp(&self) -> bool {
        self.sm < 80
    }

    /// The driver has functions for `tex.grad` where the machine has no operation.
    pub fn driver_has_gradients(&self) -> bool {
        self.sm >= 90
    }

    /// Blocks of a cluster see each other's shared memory.
    pub fn has_clusters(&self) -> bool {
        self.sm >= 90
    }

    /// The linker gives functions whose address is taken a number that is the same for all devices.
    pub fn unified_functions(&self) -> bool {
        self.sm >= 90
    }

    /// Before a copy from global to shared memory, loads of shared memory must stand that load nothing.
    pub fn settles_shared_memory(&self) -> bool {
        self.sm >= 90
    }

    /// Where the books of tensor memory's allocation are in the shared memory of the system.
    pub fn tensor_partition(&self) -> i64 {
        if self.sm == 110 { 0xc0 } else { 0x40 }
    }

    /// What the scaling of blocks of 16 is called.
    pub fn small_blocks(&self) -> sass::M {
        if self.sm == 103 { sass::M::BLOCK16 } else { sass::M::_4X }
    }

    /// Bulk copies can go to several blocks of a cluster. Elsewhere ptxas leaves the mask out.
    pub fn multicasts(&self) -> bool {
        self.sm < 120
    }

    /// A barrier may be written as ordinary memory, if its unit is told to look again.
    pub fn stores_barriers(&self) -> bool {
        self.sm >= 100
    }

    /// The metadata of a sparse matrix must name the lower place of each group first.
    pub fn wants_ordered_metadata(&self) -> bool {
        self.sm >= 100
    }

    pub fn of(target: ptx::Target) -> Option<&'static Machine> {
        MACHINES.iter().find(|m| m.sm == target.sm())
    }

    /// What code may use of the machine that tools put into the kernels of others.
    pub fn for_patches(target: ptx::Target) -> Option<&'static Machine> {
        PATCHED_MACHINES.iter().find(|m| m.sm == target.sm())
    }
}
