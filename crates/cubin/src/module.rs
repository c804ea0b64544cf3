//! What a compiler hands over: kernels, functions, variables. `Module::to_object` turns it into an executable or
//! a relocatable cubin (see `build`).

#![allow(missing_docs, reason = "types say what they are; the names of fields are those of the format")]

use std::ops::Range;

use crate::attr::{Attr, PointerSpace};
use crate::names::{Binding, RelocType};
use crate::target::Target;

/// Everything that goes into one cubin.
#[derive(Clone, Debug)]
pub struct Module {
    pub target: Target,
    pub linkage: Linkage,
    /// The SM number of the PTX `.target`.
    pub virtual_sm: u16,
    pub tool: Tool,
    /// Kernels and device functions, in the order in which their sections are to appear.
    pub functions: Vec<Function>,
    /// `.global` and `.const` variables, in the order in which they are laid out (see `layout`).
    pub variables: Vec<Variable>,
    /// `.shared` variables. An executable can do without: its code contains their addresses.
    pub shared: Vec<SharedVariable>,
    /// Textures, samplers and surfaces.
    pub images: Vec<Image>,
    /// Numbers of four bytes that the loader defines: the sizes of its descriptors of images.
    pub loader_sizes: Vec<String>,
    /// In a relocatable file, bytes of `.const` variables: the value of [`CONSTANT_SIZE`], which the linker adds up.
    pub constant_size: Option<u64>,
    /// The slots of constant bank 4: the address at offset 8·i is that of the i-th symbol plus its addend.
    pub address_table: Vec<(String, i64)>,
    /// Functions that are called but not defined here.
    pub external_functions: Vec<String>,
    pub calls: Calls,
    pub features: Features,
    /// Debug sections, such as `.debug_line`; written as they are.
    pub debug: Vec<DebugSection>,
    /// Attributes of the whole file, after those of the functions.
    pub attrs: Vec<Attr>,
}

/// The symbol for the bytes of `.const` variables of all files.
pub const CONSTANT_SIZE: &str = ".nv.ptx.const0.size";

impl Module {
    /// A module without content.
    pub fn new(target: Target, virtual_sm: u16) -> Module {
        Module {
            target,
            linkage: Linkage::Executable,
            virtual_sm,
            tool: Tool::default(),
            functions: Vec::new(),
            variables: Vec::new(),
            shared: Vec::new(),
            images: Vec::new(),
            loader_sizes: Vec::new(),
            constant_size: None,
            address_table: Vec::new(),
            external_functions: Vec::new(),
            calls: Calls::default(),
            features: Features::default(),
            debug: Vec::new(),
            attrs: Vec::new(),
        }
    }
}

/// Whether the driver takes the file, or `nvlink` does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    Executable,
    /// `ptxas -c`
    Relocatable,
    /// `ptxas -astoolspatch`: an executable of functions alone, which tools put into the kernels of others.
    ToolsPatch,
}

/// Calls beyond the bounds of a section. All are names of functions; a prototype is a text such as `#ii`:
/// the result and the parameters, `i` for 32 bits and `l` for 64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// (caller, callee).
    pub direct: Vec<(String, String)>,
    /// (caller through a pointer, prototype).
    pub indirect: Vec<(String, String)>,
    /// (function whose address is taken, prototype).
    pub address_taken: Vec<(String, String)>,
    /// (function, function whose address its code takes).
    pub takes_address: Vec<(String, String)>,
    /// (function, prototype) of what is defined here for other files or there for this one, unless it is in
    /// `address_taken`.
    pub prototypes: Vec<(String, String)>,
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

/// Does a register have the same value after a call as before it?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterRule {
    /// As debug information counts: the register's file in the upper byte.
    pub number: u32,
    pub survives: bool,
}

/// A step in the life of a frame, for debuggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStep {
    /// The caller's stack pointer is this register plus so many bytes.
    Base { register: u8, distance: u32 },
    /// The caller's value of a register is in memory, so many bytes below the caller's stack pointer.
    Saved { register: u8, below: u32 },
    /// The register has the caller's value again.
    Restored { register: u8 },
    /// A way out of the function begins, which other code follows.
    WayOut,
    /// Everything is as it was before that way out.
    Back,
}

/// A function with a text section of its own.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    pub binding: Binding,
    /// The instructions, padded as the target asks for.
    pub code: Vec<u8>,
    /// As in `REGCOUNT`.
    pub registers: u8,
    pub frame_size: u32,
    /// Where in the code the stack pointer has moved down by the frame size, in bytes. For debuggers.
    pub frame_ready_at: u32,
    /// What becomes of the frame after that, by the offset in the code from which on it holds, in ascending order.
    pub frame_steps: Vec<(u32, FrameStep)>,
    /// The first of the two registers with the address that it returns to. For debuggers.
    pub return_address: u8,
    /// With `-g`, what becomes of each register when it is called. For debuggers.
    pub register_rules: Vec<RegisterRule>,
    /// Offsets of `EXIT`.
    pub exits: Vec<u32>,
    /// Does it wait before each `EXIT` until faults of memory accesses have shown?
    pub errors_at_exit: bool,
    /// `.nv.constant2.<name>`: jump tables, and literals before sm_90.
    pub constant2: Vec<u8>,
    /// The pieces of `constant2` that relocations of the code name (`Function::literal_name`). In a relocatable
    /// file the linker places each by itself.
    pub literals: Vec<Range<u64>>,
    /// Relocations of the code.
    pub relocs: Vec<SymbolicReloc>,
    /// Relocations of `constant2`.
    pub constant2_relocs: Vec<SymbolicReloc>,
    /// Relocations of constant bank 0: the handles of images (`Params::handle_bytes`).
    pub constant0_relocs: Vec<SymbolicReloc>,
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
            aliases: Vec::new(),
            binding,
            code,
            registers: 0,
            frame_size: 0,
            frame_ready_at: 0,
            frame_steps: Vec::new(),
            return_address: 20,
            register_rules: Vec::new(),
            exits: Vec::new(),
            errors_at_exit: false,
            constant2: Vec::new(),
            literals: Vec::new(),
            relocs: Vec::new(),
            constant2_relocs: Vec::new(),
            constant0_relocs: Vec::new(),
            clones: Vec::new(),
            externs: Vec::new(),
            attrs: Vec::new(),
            kernel: None,
        }
    }

    /// The symbol of a piece of `constant2`.
    pub fn literal_name(&self, piece: &Range<u64>) -> String {
        literal_name(&self.name, piece)
    }
}

/// The symbol of a piece of a function's constant bank 2.
pub fn literal_name(function: &str, piece: &Range<u64>) -> String {
    format!("{function}.const_opt.{}.{}", piece.start, piece.end)
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
    /// Bytes of the bank after the parameters: texture and surface handles.
    pub handle_bytes: u32,
}

/// A kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// From `Params::base`.
    pub offset: u16,
    pub size: u16,
    /// Of the pointee, if declared.
    pub space: PointerSpace,
    /// Of the pointee in bytes, a power of two; 1 if not declared.
    pub align: u32,
    /// A texture, sampler or surface takes no bytes: this one of [`Module::images`].
    pub image: Option<usize>,
}

impl Param {
    /// The offset that stands for none.
    pub const NOWHERE: u16 = 0xffff;
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
    /// The register with the offset in the section that it returns to. For debuggers.
    pub return_register: u8,
}

/// A relocation against a symbol that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolicReloc {
    pub offset: u64,
    pub kind: RelocType,
    pub symbol: String,
    pub addend: i64,
}

/// A `.global` or `.const` variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub binding: Binding,
    pub memory: Memory,
    pub origin: Origin,
    /// `.attribute(.managed)`
    pub managed: bool,
    pub align: u64,
    pub size: u64,
    /// The first bytes; the rest is zero. With none at all, a global variable takes no place in the file.
    pub init: Vec<u8>,
    /// Addresses in the initializer, with offsets from the start of the variable.
    pub relocs: Vec<SymbolicReloc>,
}

/// Where a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Global,
    /// Constant bank 3.
    Constant,
}

/// Who gives a variable its place. An executable gives all of them theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Here,
    /// `.common`: the linker, once for all files that declare it.
    Common,
    /// `.extern`: another file.
    Elsewhere,
}

/// A `.shared` variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVariable {
    pub name: String,
    pub binding: Binding,
    pub home: SharedHome,
    pub align: u64,
    pub size: u64,
    /// Where the code of an executable expects it. In a relocatable file the linker decides.
    pub address: u64,
}

/// Which functions a variable belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedHome {
    /// One kernel, by its index in `Module::functions`.
    Kernel(usize),
    /// Any function that names it.
    Module,
    /// `.extern .shared`: what the launch adds.
    Launch,
    /// The memory of the system (sm_90 and later); the address is ignored. `TCGEN05_PARTITION` is one.
    System,
}

/// The name, size and alignment of the variable that code with `tcgen05.alloc` keeps in the memory of the system.
pub const TCGEN05_PARTITION: (&str, u64, u64) = ("__nv_reservedSMEM_tcgen05_partition", 0x20, 1);

/// `.texref`, `.samplerref` or `.surfref`: a symbol that the host binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub name: String,
    pub kind: ImageKind,
    /// It is a parameter of this one of [`Module::functions`].
    pub parameter_of: Option<usize>,
}

/// What the host binds to an image's symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    Texture,
    /// With the word of `SAMPLER_INIT`: a byte for the address mode of each axis and one for the filter, 0xff where the
    /// declaration leaves it open. Coordinates may be texels whatever the texture says.
    Sampler {
        init: u32,
        force_unnormalized: bool,
    },
    Surface,
}

/// A section for debuggers.
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
    /// `None` if another file has the variable, or the linker makes it.
    pub fn pool(&self) -> Option<Pool> {
        match (self.origin, self.memory) {
            (Origin::Common | Origin::Elsewhere, _) => None,
            (Origin::Here, Memory::Constant) => Some(Pool::Constant),
            (Origin::Here, Memory::Global) if self.init.is_empty() && self.relocs.is_empty() => {
                Some(Pool::Zero)
            }
            (Origin::Here, Memory::Global) => Some(Pool::Initialized),
        }
    }
}

/// The offset of each variable in its section: in order, each at its alignment; 0 for those that have no section.
/// Code that reads bank 3 directly gets its offsets from here.
pub fn layout(variables: &[Variable]) -> Vec<u64> {
    let mut ends = [0u64; 3];
    let place = |variable: &Variable| match variable.pool() {
        Some(pool) => append(&mut ends[pool as usize], variable.align, variable.size),
        None => 0,
    };
    variables.iter().map(place).collect()
}

/// Where something goes that follows what ends at `end`; moves `end` after it.
pub(crate) fn append(end: &mut u64, align: u64, size: u64) -> u64 {
    let offset = end.checked_next_multiple_of(align.max(1)).unwrap_or(*end);
    *end = offset.saturating_add(size);
    offset
}
