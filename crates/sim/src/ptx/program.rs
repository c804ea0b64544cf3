//! A decoded module: each instruction once, with everything looked up.
//!
//! A register is a slot of 64 bits per lane, or several for wide and vector registers; its value is kept
//! zero-extended. What an instruction computes is a function over the lanes of a warp, made when it is decoded.

use super::races::{GroupStep, Kind};
use crate::memory::texture::{Outside, Read};
use crate::memory::{Global, Space};
use crate::mma::Tile;
use crate::tensor_map::MapField;
use crate::warpgroup::Wgmma;
use ori::arith::Int;
use std::sync::Arc;

pub use crate::lanes::{LANES, Lanes, WholeFunction, lanes};

/// Computes outputs from inputs, for the lanes of a mask.
pub type Function = Box<dyn Fn(&[&Lanes], &mut [Lanes], u32) + Send + Sync>;

/// Where a value comes from.
#[derive(Clone, Debug)]
pub enum Source {
    Slot(u32),
    /// The opposite of a predicate.
    Not(u32),
    /// The same in every lane.
    Constant(Arc<Lanes>),
    Special(Special),
    /// The address of a variable in local memory: an offset into the function's frame.
    Local(u32),
    /// The address of a variable in shared memory.
    Shared(u32),
    /// The address of dynamic shared memory, and so many bytes more.
    DynamicShared(i64),
}

impl Source {
    pub fn constant(value: u64) -> Source {
        Source::Constant(Arc::new([value; LANES]))
    }
}

/// Where a value goes.
#[derive(Clone, Copy, Debug)]
pub struct Dest {
    /// `None` for `_`.
    pub slot: Option<u32>,
    /// The bits that the register has.
    pub mask: u64,
    /// The type of the value; where the register is wider, the value is extended as this has it.
    pub from: Int,
}

impl Dest {
    pub const SINK: Dest = Dest { slot: None, mask: 0, from: Int::U64 };

    #[inline]
    pub fn fit(&self, value: u64) -> u64 {
        self.from.extended(value) & self.mask
    }
}

/// A special register that is not the same in every lane and launch.
#[derive(Clone, Copy, Debug)]
pub enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    /// Of the cluster in the grid, of the block in the cluster, and how many there are.
    ClusterId(usize),
    NClusterId(usize),
    ClusterCtaid(usize),
    ClusterNctaid(usize),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    LaneId,
    WarpId,
    LaneMask(fn(u32) -> u32),
    Clock,
    ClockHigh,
    TotalSharedSize,
    DynamicSharedSize,
}

/// An address: a value and what is added to it.
#[derive(Clone, Debug)]
pub struct Address {
    pub space: Space,
    pub base: Source,
    pub offset: i64,
}

/// What must hold for a lane to take a step.
#[derive(Clone, Copy, Debug)]
pub enum Guard {
    /// A predicate has this value.
    Slot(u32, bool),
    /// The launch names the size of its clusters, or it doesn't.
    ExplicitCluster(bool),
}

pub struct Step {
    pub guard: Option<Guard>,
    pub line: u32,
    pub action: Action,
}

pub enum Action {
    Nothing,
    Compute {
        sources: Box<[Source]>,
        dests: Box<[Dest]>,
        function: Function,
    },
    /// `bytes` each, side by side.
    Load {
        address: Address,
        bytes: u32,
        dests: Box<[Dest]>,
        strong: bool,
    },
    Store {
        address: Address,
        bytes: u32,
        sources: Box<[Source]>,
        strong: bool,
    },
    Atomic(Box<Atomic>),
    Copy(Box<Copy>),
    Bulk(Box<Bulk>),
    Tensor(Box<Tensor>),
    /// Changes a tensor map in memory.
    ReplaceInMap {
        address: Address,
        field: MapField,
        value: Source,
    },
    /// Ends a group of asynchronous operations, or waits for groups.
    Group {
        kind: Kind,
        step: GroupStep,
    },
    /// One after the other.
    Both(Box<[Action; 2]>),
    Branch {
        target: u32,
    },
    BranchIndexed {
        index: Source,
        targets: Box<[u32]>,
    },
    Call(Box<Call>),
    Return,
    Exit,
    Trap,
    Warp(Box<Warp>),
    Whole(Box<Whole>),
    MatrixAccess(Box<MatrixAccess>),
    TileAccess(Box<TileAccess>),
    Wgmma(Box<GroupAction>),
    Barrier(Box<Barrier>),
    /// Tells the cluster's barrier, and waits for those that haven't.
    ClusterArrive,
    ClusterWait,
    /// Takes local memory: its size, its alignment.
    Alloca {
        dest: Dest,
        size: Source,
        align: u64,
    },
    StackSave {
        dest: Dest,
    },
    StackRestore {
        source: Source,
    },
    Texture(Box<TextureRead>),
    Surface(Box<SurfaceAccess>),
    StoreTexel(Box<TexelStore>),
    /// How many texels, or layers, a level of an image has along an axis.
    ImageSize {
        handle: Source,
        level: Source,
        axis: usize,
        dest: Dest,
    },
    Unsupported(String),
}

/// Copies `bytes`; what the limit leaves out is zero.
pub struct Copy {
    pub to: Address,
    pub from: Address,
    pub bytes: u32,
    pub limit: Limit,
}

/// How many bytes a copy takes from its source.
pub enum Limit {
    None,
    Bytes(Source),
    /// Nothing where the predicate is true.
    NoneIf(Source),
}

/// What memory holds afterwards, from the space, what it held before, and the operands.
pub type AtomicFunction = Box<dyn Fn(Space, u128, &[u128]) -> u128 + Send + Sync>;

/// Reads, computes and writes back, one lane after the other.
pub struct Atomic {
    pub address: Address,
    /// Of one element.
    pub bytes: u32,
    /// Elements of a vector.
    pub count: usize,
    /// For each element its operands, each as words of 64 bits.
    pub sources: Box<[Source]>,
    /// For each element its words; empty for `red`.
    pub dests: Box<[Dest]>,
    pub function: AtomicFunction,
    /// What the result is, from what memory held before and the operands.
    pub view: fn(u128, &[u128]) -> u128,
    /// It asks a barrier whether it is complete; a thread that does so waits.
    pub asks: bool,
    /// It is an operation of a barrier in memory.
    pub meeting: Option<Told>,
}

/// What arrives at a barrier in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The thread.
    Thread,
    /// What it has started, when that is over.
    Started(Kind),
}

impl Atomic {
    /// On one element; the result is what memory held before, if there is one.
    pub fn new(address: Address, bytes: u32, sources: Vec<Source>, function: AtomicFunction) -> Atomic {
        let (sources, dests) = (sources.into(), Box::default());
        Atomic {
            address,
            bytes,
            count: 1,
            sources,
            dests,
            function,
            view: |old, _| old,
            asks: false,
            meeting: None,
        }
    }
}

/// How elements are combined with what is there, and the bytes of one.
pub type Combine = Option<(AtomicFunction, u32)>;

/// Copies bytes, 16 at a time, or combines them with what is there, element by element.
pub struct Bulk {
    pub to: Address,
    pub from: Address,
    pub bytes: Source,
    pub combine: Combine,
    pub delivery: Delivery,
}

/// Which blocks get what a copy to shared memory loads, and which barrier is told.
#[derive(Default)]
pub struct Delivery {
    /// Counts the bytes.
    pub barrier: Option<Address>,
    /// The blocks of the cluster that get it, at the same place; the one that the address names without it.
    pub blocks: Option<Source>,
}

/// The way of a copy of a tensor's box.
pub enum Direction {
    Load(Delivery),
    /// What happens in global memory: an operation of `red`, or nothing but the copy.
    Store(Option<&'static str>),
}

/// Copies a box of a tensor.
pub struct Tensor {
    pub map: Address,
    /// The fastest axis first.
    pub corner: Box<[Source]>,
    /// Of a box that is along the path of a convolution's filter.
    pub offsets: Box<[Source]>,
    pub shared: Address,
    pub direction: Direction,
}

/// A place in an image.
pub struct ImagePlace {
    pub handle: Source,
    pub layer: Source,
    pub coordinates: Box<[Source]>,
    /// How many of them the machine's instruction has.
    pub axes: usize,
    /// They are a direction from the middle of a cube.
    pub is_direction: bool,
}

/// The four channels of a texel.
pub struct TextureRead {
    pub place: ImagePlace,
    pub way: Read,
    pub level: LevelSource,
    pub dests: Box<[Dest]>,
}

pub enum LevelSource {
    First,
    /// An integer for fetches, a float for samples.
    Given(Source),
    /// By axis, along two directions.
    Derivatives([Box<[Source]>; 2]),
}

/// Elements of so many bytes, side by side in a surface: loads those that have results, stores the others.
pub struct SurfaceAccess {
    pub place: ImagePlace,
    pub outside: Outside,
    pub bytes: u32,
    pub dests: Box<[Dest]>,
    pub sources: Box<[Source]>,
}

/// A texel in the surface's format: a word for each channel.
pub struct TexelStore {
    pub place: ImagePlace,
    pub outside: Outside,
    pub channels: Box<[Source]>,
}

pub enum Callee {
    Direct(u32),
    Indirect(Source),
}

pub struct Call {
    pub callee: Callee,
    pub arguments: Box<[Argument]>,
    pub returns: Box<[Return]>,
}

pub enum Argument {
    /// A `.param` variable of the caller.
    Param {
        offset: u32,
        bytes: u32,
    },
    Values(Box<[Source]>),
}

pub enum Return {
    Param { offset: u32, bytes: u32 },
    Values(Box<[Dest]>),
}

/// What the lanes of a warp do together.
pub struct Warp {
    /// The lanes that must meet; `None` for those that happen to be together.
    pub members: Option<Source>,
    pub operation: WarpOperation,
    pub sources: Box<[Source]>,
    pub dests: Box<[Dest]>,
}

/// What a whole warp computes from its registers.
pub struct Whole {
    pub sources: Box<[Source]>,
    pub dests: Box<[Dest]>,
    pub function: WholeFunction,
}

/// Matrices of 8 rows of 16 bytes between memory and a whole warp's registers, one register for each: loads those that
/// have results, stores the others. Lane `8 m + r` has the address of row `r` of matrix `m`.
pub struct MatrixAccess {
    pub address: Address,
    pub transposed: bool,
    pub dests: Box<[Dest]>,
    pub sources: Box<[Source]>,
}

/// A matrix between memory and a whole warp's registers, where PTX leaves open which thread has which element
/// ([`crate::mma::Tile`] says it): loads it if there are results, stores it otherwise.
pub struct TileAccess {
    pub address: Address,
    pub tile: Tile,
    /// Rows are side by side in memory, not columns.
    pub by_rows: bool,
    /// From one row (or column) to the next, in elements.
    pub stride: Source,
    pub dests: Box<[Dest]>,
    pub sources: Box<[Source]>,
}

/// A `wgmma`.
pub struct GroupAction {
    pub wgmma: Wgmma,
    pub rows: Rows,
    /// The descriptor of the columns.
    pub columns: Source,
    /// Which elements sparse rows have, and whose word of it counts.
    pub metadata: Option<(Source, usize)>,
    /// Is it added to what the sums are?
    pub accumulates: Source,
    pub sums: Box<[Source]>,
    pub dests: Box<[Dest]>,
}

/// Where the rows of a `wgmma` are.
pub enum Rows {
    Registers(Box<[Source]>),
    /// Their descriptor.
    Memory(Source),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy)]
pub enum WarpOperation {
    Sync,
    Shuffle(Shuffle),
    VoteAll,
    VoteAny,
    VoteUniform,
    Ballot,
    MatchAny,
    MatchAll,
    Reduce(fn(u64, u64) -> u64),
    Elect,
    ActiveMask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    None,
    Popc,
    And,
    Or,
}

/// A barrier of the threads of a block.
pub struct Barrier {
    pub number: Source,
    /// How many threads must come; all of the block without it.
    pub threads: Option<Source>,
    /// Waits for the others.
    pub waits: bool,
    pub reduction: Reduction,
    pub predicate: Option<Source>,
    pub dest: Dest,
}

/// Where a formal parameter is.
pub enum Formal {
    Memory {
        offset: u32,
        bytes: u32,
    },
    /// In the function's frame of local memory.
    Local {
        offset: u32,
        bytes: u32,
    },
    Slots {
        first: u32,
        count: u32,
    },
}

/// A function or kernel.
pub struct Routine {
    pub name: String,
    pub entry: bool,
    /// The first step; `None` for a declaration.
    pub start: Option<u32>,
    pub slots: u32,
    /// The register of each slot, for messages.
    pub slot_names: Vec<String>,
    pub params: Vec<Formal>,
    pub returns: Vec<Formal>,
    /// Bytes of formal parameters and of `.param` variables.
    pub param_bytes: u32,
    /// Bytes of the formal parameters alone.
    pub formal_bytes: u32,
    pub local_bytes: u32,
    /// Bytes of static shared memory, of the module and of this kernel.
    pub shared_bytes: u32,
    /// What dynamic shared memory is aligned to.
    pub dynamic_align: u32,
    /// The blocks of a cluster that the kernel asks for.
    pub cluster: Option<[u32; 3]>,
}

/// A decoded module.
pub struct Program {
    /// The instructions of all routines.
    pub steps: Vec<Step>,
    /// Kernels and functions.
    pub routines: Vec<Routine>,
    /// The module's variables in global memory; their addresses are part of the steps.
    pub(super) globals: Global,
    /// Bytes at the beginning of shared memory that are not the program's.
    pub(super) reserved_shared: u32,
    /// The module's variables in constant memory, side by side.
    pub(super) constants: Vec<u8>,
    /// The addresses of global variables, by name.
    pub(super) names: Vec<(String, u64)>,
}
