//! What a compiler hands over: kernels, functions, variables. `Module::to_object` turns it into an executable
//! cubin (see `build`).

use crate::attr::{Attr, PointerSpace};
use crate::names::{Binding, RelocType};
use crate::target::Target;

/// Everything that goes into one executable cubin.
#[derive(Clone, Debug)]
pub struct Module {
    pub target: Target,
    /// The SM number of the PTX `.target`.
    pub virtual_sm: u16,
    pub tool: Tool,
    /// Kernels and device functions, in the order in which their sections are to appear.
    pub functions: Vec<Function>,
    /// `.global` and `.const` variables, in the order in which they are laid out (see `layout`).
    pub variables: Vec<Variable>,
    /// The slots of constant bank 4: the address at offset 8·i is that of the i-th symbol plus its addend.
    pub address_table: Vec<(String, i64)>,
    /// Functions that are called but not defined here.
    pub external_functions: Vec<String>,
    /// (caller, callee) of direct calls between sections.
    pub calls: Vec<(String, String)>,
    pub features: Features,
    /// Debug sections, such as `.debug_line`; written as they are.
    pub debug: Vec<DebugSection>,
    /// Attributes of the whole file, behind those of the functions.
    pub attrs: Vec<Attr>,
}

impl Module {
    /// A module without content.
    pub fn new(target: Target, virtual_sm: u16) -> Module {
        Module {
            target,
            virtual_sm,
            tool: Tool::default(),
            functions: Vec::new(),
            variables: Vec::new(),
            address_table: Vec::new(),
            external_functions: Vec::new(),
            calls: Vec::new(),
            features: Features::default(),
            debug: Vec::new(),
            attrs: Vec::new(),
        }
    }
}

/// Who made the file. The driver asks for the note, not for what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    pub name: String,
    pub version: String,
    pub branch: String,
    pub command_line: String,
    /// The input file; ptxas leaves it empty without `-g`.
    pub object_name: String,
}

/// What `.nv.compat` says about the instructions used (sm_90 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `ISA_CLASS`: 1, or 2 where tensor TMA, tensormap, clusterlaunchcontrol or tcgen05 is used.
    pub isa_class: u8,
    /// `INST_TENSORMAP_V1`: 0, 1 with tensor TMA, 2 with tensormap.replace.
    pub tensormap: u8,
}

impl Default for Features {
    fn default() -> Self {
        Features { isa_class: 1, tensormap: 0 }
    }
}

/// A function with a text section of its own.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub binding: Binding,
    /// The instructions, padded as the target asks for.
    pub code: Vec<u8>,
    /// As in `REGCOUNT`.
    pub registers: u8,
    pub frame_size: u32,
    /// Where in the code the stack pointer has moved down by the frame size, in bytes. For debuggers.
    pub frame_ready_at: u32,
    /// Offsets of `EXIT`.
    pub exits: Vec<u32>,
    /// `.nv.constant2.<name>`: jump tables, and literals before sm_90.
    pub constant2: Vec<u8>,
    /// Relocations of the code.
    pub relocs: Vec<SymbolicReloc>,
    /// Relocations of `constant2`.
    pub constant2_relocs: Vec<SymbolicReloc>,
    /// Functions that were cloned into this section.
    pub clones: Vec<ClonedFunction>,
    /// External functions that are called from here (`EXTERNS`).
    pub externs: Vec<String>,
    /// Any other attributes. The writer puts them where ptxas has them.
    pub attrs: Vec<Attr>,
    /// What makes it a kernel.
    pub kernel: Option<Kernel>,
}

impl Function {
    /// A device function without stack, relocations or attributes.
    pub fn new(name: impl Into<String>, binding: Binding, code: Vec<u8>) -> Function {
        Function {
            name: name.into(),
            binding,
            code,
            registers: 0,
            frame_size: 0,
            frame_ready_at: 0,
            exits: Vec::new(),
            constant2: Vec::new(),
            relocs: Vec::new(),
            constant2_relocs: Vec::new(),
            clones: Vec::new(),
            externs: Vec::new(),
            attrs: Vec::new(),
            kernel: None,
        }
    }
}

/// What only kernels have.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub params: Params,
    /// Stack bytes that a thread needs, callees included.
    pub min_stack_size: u32,
    /// Named barriers used: the highest number plus 1; 16 where a number is in a register.
    pub barriers: u8,
    /// There if the kernel uses static or dynamic shared memory.
    pub shared: Option<Shared>,
    /// `MAXREG_COUNT`; 255 where nothing limits it.
    pub max_registers: u16,
    /// `.maxntid`
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`
    pub required_threads: Option<[u32; 3]>,
}

impl Default for Kernel {
    /// A kernel without parameters, stack, barriers, shared memory and limits.
    fn default() -> Kernel {
        Kernel {
            params: Params::default(),
            min_stack_size: 0,
            barriers: 0,
            shared: None,
            max_registers: NO_REGISTER_LIMIT,
            max_threads: None,
            required_threads: None,
        }
    }
}

/// `MAXREG_COUNT` of a kernel that nothing limits.
pub const NO_REGISTER_LIMIT: u16 = 255;

/// The parameters and their place in constant bank 0.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// Where in the bank the code expects the first one.
    pub base: u16,
    /// The bytes of all of them together.
    pub size: u16,
    pub list: Vec<Param>,
    /// Bytes of the bank behind the parameters: texture and surface handles.
    pub handle_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// From `Params::base`.
    pub offset: u16,
    pub size: u16,
    /// Of the pointee, if declared.
    pub space: PointerSpace,
    /// Of the pointee in bytes, a power of two; 1 if not declared.
    pub align: u32,
}

/// Static shared memory of a kernel, without what the system reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    pub size: u64,
    pub align: u64,
}

/// A function inside the section of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClonedFunction {
    pub name: String,
    pub binding: Binding,
    pub offset: u64,
    pub size: u64,
    pub frame_size: u32,
}

/// A relocation against a symbol that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolicReloc {
    pub offset: u64,
    pub kind: RelocType,
    pub symbol: String,
    pub addend: i64,
}

/// A variable of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub binding: Binding,
    pub memory: Memory,
    pub align: u64,
    pub size: u64,
    /// The first bytes; the rest is zero. With none at all, a global variable takes no place in the file.
    pub init: Vec<u8>,
    /// Addresses in the initializer, with offsets from the start of the variable.
    pub relocs: Vec<SymbolicReloc>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Global,
    /// Constant bank 3.
    Constant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugSection {
    pub name: String,
    pub bytes: Vec<u8>,
    pub relocs: Vec<SymbolicReloc>,
}

/// The section that a variable goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// `.nv.global.init`
    Initialized,
    /// `.nv.global`
    Zero,
    /// `.nv.constant3`
    Constant,
}

impl Variable {
    pub fn pool(&self) -> Pool {
        match self.memory {
            Memory::Constant => Pool::Constant,
            Memory::Global if self.init.is_empty() && self.relocs.is_empty() => Pool::Zero,
            Memory::Global => Pool::Initialized,
        }
    }
}

/// The offset of each variable in its section: in order, each at its alignment. Code that reads bank 3
/// directly gets its offsets from here.
pub fn layout(variables: &[Variable]) -> Vec<u64> {
    let mut ends = [0u64; 3];
    let place = |variable: &Variable| {
        let end = &mut ends[variable.pool() as usize];
        let offset = end.checked_next_multiple_of(variable.align.max(1)).unwrap_or(*end);
        *end = offset.saturating_add(variable.size);
        offset
    };
    variables.iter().map(place).collect()
}
