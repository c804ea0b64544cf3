//! Decoded code: each instruction once, with its operands looked up and its waits.

use crate::memory::Space;
use crate::memory::texture::{Outside, Read};
use crate::memory::weak::{Fence, Scope, Strength};
use crate::ptx::program::{AtomicFunction, Reduction, WarpOperation, WholeFunction};
use crate::sass::flight::{Closing, Combine};
use crate::warpgroup::Wgmma;
use ori::eval::Meaning;
use sass::{M, Op};
use std::sync::Arc;

pub use crate::ptx::program::{LANES, lanes as lanes_of};

/// Where a value comes from. Registers hold 32 bits; a value has one or two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    General {
        first: u8,
        words: u8,
    },
    Uniform {
        first: u8,
        words: u8,
    },
    Predicate(u8),
    UniformPredicate(u8),
    /// P0 to P6 as the bits of a word.
    Predicates,
    UniformPredicates,
    Constant {
        bank: u8,
        offset: i32,
        index: Index,
        bytes: u8,
    },
    Immediate(u64),
}

/// What is added to an offset into a constant bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    None,
    General(u8),
    Uniform(u8),
}

/// Most sources of a computation.
pub const ARGUMENTS: usize = 8;

/// A source operand of a computation.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    pub source: Source,
    pub negated: bool,
    pub absolute: bool,
    pub part: M,
}

/// Where a result of one word or more goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dest {
    General(u8),
    Uniform(u8),
    /// RZ, URZ, or no register at all.
    None,
}

/// Where a truth value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    Predicate(u8),
    Uniform(u8),
    /// PT.
    None,
}

/// A condition in each lane.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// A predicate of either file.
    pub source: Source,
    pub not: bool,
}

impl Condition {
    pub const ALWAYS: Condition = Condition { source: Source::Predicate(sass::PT), not: false };

    pub fn is_always(self) -> bool {
        matches!(self.source, Source::Predicate(sass::PT) | Source::UniformPredicate(sass::PT)) && !self.not
    }
}

/// `[R2.64+UR4+0x10]`
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub space: Space,
    pub base: Source,
    /// The base counts so many bytes: `.X4`.
    pub scale: u8,
    pub uniform: Source,
    pub offset: i64,
    /// Addresses have 64 bits; otherwise sums are cut to 32.
    pub wide: bool,
}

pub struct Step {
    pub guard: Condition,
    /// Scoreboards that must be zero before it issues.
    pub waits: u8,
    /// Cycles until the next one may issue.
    pub stall: u8,
    pub action: Action,
}

pub enum Action {
    Nothing,
    Compute(Box<Compute>),
    Special {
        register: M,
        dest: Dest,
        words: u8,
    },
    LoadConstant {
        source: Source,
        signed: bool,
        dest: Dest,
        words: u8,
    },
    ToUniform {
        dest: Dest,
        source: Source,
        /// Set in the lanes whose value is another one; with `or`, it keeps what it has.
        differs: Truth,
        or: bool,
    },
    Load(Box<Load>),
    Store {
        address: Address,
        bytes: u8,
        /// The first register.
        data: u8,
        strength: Strength,
    },
    /// MEMBAR, CCTL.IVALL and FENCE
    Fence(Fence),
    Atomic(Box<Atomic>),
    /// To shared memory, from global memory.
    Copy {
        to: Address,
        from: Address,
        bytes: u8,
        /// Zeros are copied where this is false.
        valid: Condition,
        /// ZFILL: the address's lowest bits say how many bytes at the end are zeros instead.
        fills: bool,
    },
    ExchangeBarrier {
        place: Address,
        data: Source,
        dest: Dest,
    },
    Arrive(Box<Arrive>),
    CheckPhase {
        place: Address,
        phase: Source,
        truth: Truth,
    },
    BulkCopy(Box<BulkCopy>),
    StoreRemote(Box<StoreRemote>),
    /// Copies that were begun and are in no group yet become one, which counts on a scoreboard.
    CloseGroup {
        closing: Closing,
        scoreboard: u8,
    },
    /// Waits until so many groups are left.
    WaitGroups {
        scoreboard: u8,
        left: u8,
    },
    /// Waits until these scoreboards are zero.
    WaitScoreboards {
        mask: u8,
    },
    /// UCGABAR_ARV and UCGABAR_WAIT
    ArriveAtCluster,
    WaitForCluster,
    LoadMatrices {
        address: Address,
        count: u8,
        transposed: bool,
        dest: Dest,
    },
    StoreMatrices {
        address: Address,
        count: u8,
        transposed: bool,
        data: u8,
    },
    Transpose {
        source: Source,
        dest: Dest,
    },
    Multiply(Box<Multiply>),
    MultiplyInGroup(Box<MultiplyInGroup>),
    /// WARPGROUP.DEPBAR: waits until so many groups of MMAs are left.
    WaitWgmma {
        left: u8,
    },
    TensorCopy(Box<TensorCopy>),
    /// USETMAXREG.TRY_ALLOC: there are enough registers.
    GetRegisters {
        truth: Truth,
    },
    QuerySpace {
        space: Space,
        address: Address,
        truth: Truth,
    },
    Branch {
        taken: Condition,
        target: u32,
        /// All lanes go if one wants to.
        any: bool,
    },
    /// BRA.CONV and BRA.DIV: where the lanes of a mask are all here, or are not.
    BranchIfTogether {
        members: Source,
        inverted: bool,
        together: bool,
        target: u32,
    },
    /// To an address in registers.
    Jump {
        taken: Condition,
        base: u64,
        register: Source,
    },
    Exit {
        taken: Condition,
    },
    Trap,
    Yield,
    Sleep,
    /// BSSY: the lanes that are here meet again.
    Gather {
        taken: Condition,
        barrier: u8,
    },
    /// BSYNC
    Meet {
        taken: Condition,
        barrier: u8,
    },
    /// BREAK: these lanes won't come.
    Leave {
        taken: Condition,
        barrier: u8,
    },
    ReadBarrier {
        barrier: u8,
        dest: Dest,
        clear: bool,
    },
    WriteBarrier {
        barrier: u8,
        source: Source,
    },
    /// WARPSYNC: waits for the lanes of a mask.
    Sync {
        members: Source,
    },
    Together(Box<Together>),
    Barrier(Box<Barrier>),
    /// B2R.RESULT
    BarrierResult {
        dest: Dest,
        truth: Truth,
    },
    Texture(Box<TextureRead>),
    Surface(Box<SurfaceAccess>),
    StoreTexel(Box<TexelStore>),
    /// TXQ: width, height and depth of a level.
    TextureSizes {
        handle: Source,
        level: u8,
        channels: Box<[(usize, Dest)]>,
    },
    Unsupported(String),
}

impl Action {
    /// Do all lanes of the warp have to execute it together? It reads and writes registers of others.
    pub fn is_of_warp(&self) -> bool {
        use Action::*;
        matches!(
            self,
            LoadMatrices { .. } | StoreMatrices { .. } | Transpose { .. } | Multiply(_) | WaitWgmma { .. }
        )
    }
}

impl Action {
    /// Is it an access of memory, or an operation that orders such (`true`)?
    pub fn touches_memory(&self) -> Option<bool> {
        use Action::*;
        match self {
            Fence(_) | Atomic(_) | Arrive(_) | Barrier(_) | ArriveAtCluster | CloseGroup { .. } => Some(true),
            Store { strength: Strength::Strong(_), .. } => Some(true),
            Load(load) if load.strength != Strength::Weak => Some(true),
            Load(_) | Store { .. } | LoadMatrices { .. } | StoreMatrices { .. } | Copy { .. } => Some(false),
            CheckPhase { .. } | BulkCopy(_) | TensorCopy(_) | StoreRemote(_) => Some(false),
            _ => None,
        }
    }

    /// May lanes go elsewhere than to the next instruction?
    pub fn is_branch(&self) -> bool {
        use Action::*;
        matches!(self, Branch { .. } | BranchIfTogether { .. } | Jump { .. } | Exit { .. })
    }
}

/// What `ori::eval` computes.
pub struct Compute {
    pub op: Op,
    pub meaning: Meaning,
    pub modifiers: Box<[M]>,
    pub arguments: Box<[Argument]>,
    pub dest: Dest,
    pub truths: Box<[Truth]>,
    /// R2P and UR2UP: the word of results goes to predicates, of uniform ones if so.
    pub to_predicates: Option<bool>,
    /// The uniform datapath: once for the warp.
    pub uniform: bool,
}

pub struct Load {
    pub address: Address,
    pub bytes: u8,
    pub signed: bool,
    pub dest: Dest,
    pub strength: Strength,
}

pub struct Atomic {
    pub address: Address,
    /// Of one element.
    pub bytes: u8,
    pub elements: u8,
    /// First registers of the operands.
    pub operands: Box<[u8]>,
    pub dest: Dest,
    pub function: AtomicFunction,
    /// The result says whether memory had the first operand: CAST.
    pub tells_success: bool,
    /// A generic address may be of shared memory, or of the thread's own.
    pub works_on_shared: bool,
    pub works_on_local: bool,
    /// Tells whether the memory is any that the operation works on.
    pub done: Truth,
    pub scope: Scope,
}

/// An arrival at a barrier in shared memory.
pub struct Arrive {
    pub place: Address,
    pub arrivals: Source,
    pub transactions: Source,
    /// The transactions are over; otherwise they are expected.
    pub completes: bool,
    /// Those that arrive won't come in the next phase.
    pub drops: bool,
    /// TMASK: those that come to the same place are told the upper word before all of them, and which they are.
    pub together: bool,
    /// ARRIVES: when the copies of the thread are done. The simulator makes that now.
    pub after_copies: bool,
    /// The barrier before.
    pub dest: Dest,
}

/// A copy between global and shared memory; `to`, `from` and `size` are first uniform registers.
pub struct BulkCopy {
    pub to_shared: bool,
    pub from_shared: bool,
    /// The upper half of the size's register has the blocks of the cluster that get a copy.
    pub multicast: bool,
    pub to: u8,
    pub from: u8,
    pub size: u8,
    pub combine: Option<Arc<Combine>>,
}

/// STAS and REDAS: registers to shared memory of the cluster. The address is one register, that of the barrier, which
/// is told about the bytes, the next.
pub struct StoreRemote {
    pub address: u8,
    pub data: u8,
    pub bytes: u8,
    pub combine: Option<Arc<Combine>>,
}

/// An MMA that the lanes of a warp share.
pub struct Multiply {
    /// Registers of the factors and of the addend.
    pub sources: Box<[Source]>,
    pub function: WholeFunction,
    /// The first register of the sum, and how many words an element has there.
    pub dest: u8,
    pub words: u8,
}

/// A warp's part of a `wgmma`.
pub struct MultiplyInGroup {
    pub wgmma: Wgmma,
    /// The first register of the rows; otherwise they are in shared memory, too.
    pub rows: Option<u8>,
    /// The first of four uniform registers: descriptors of rows and of columns.
    pub descriptors: u8,
    /// Whether something is added to, and its first register.
    pub adds: Condition,
    pub addend: u8,
    /// The register that says which elements sparse rows have, and whose word of it counts.
    pub metadata: Option<(u8, u8)>,
    pub dest: u8,
    /// It is the last one of its group.
    pub closes: bool,
}

/// A copy of a box of a tensor.
pub struct TensorCopy {
    pub way: TensorWay,
    pub axes: u8,
    /// The first uniform register of the address in shared memory, the barrier's if there is one, and the corner.
    pub place: u8,
    /// The first one of the map's address.
    pub map: u8,
    /// The one whose lower half has what is added to the places of a filter's path.
    pub offsets: Option<u8>,
    /// The one whose upper half has the blocks that get a copy.
    pub multicast: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorWay {
    Load,
    Store,
    /// By the name of the operation.
    Combine(&'static str),
}

/// A place in an image: its handle, the register of the layer, and those of the coordinates.
pub struct ImagePlace {
    pub handle: Source,
    pub layer: Option<u8>,
    pub coordinates: Box<[u8]>,
    /// They are a direction from the middle of a cube.
    pub is_direction: bool,
}

/// TLD, TEX, TXD and TLD4
pub struct TextureRead {
    pub place: ImagePlace,
    pub way: Read,
    pub level: LevelSource,
    pub channels: Box<[(usize, Dest)]>,
    /// Tells where a texel is not in memory, which all are.
    pub missing: Truth,
}

#[derive(Clone, Copy, Debug)]
pub enum LevelSource {
    First,
    /// The register of an integer for TLD, of a float for TEX.
    Given(u8),
    /// The first register: those of two directions in turn, axis by axis.
    Derivatives(u8),
    /// Places of other threads.
    Neighbours,
}

/// SUST.P: a texel in the surface's format, from a register for each channel.
pub struct TexelStore {
    pub place: ImagePlace,
    pub outside: Outside,
    pub channels: Box<[u8]>,
}

/// SULD and SUST
pub struct SurfaceAccess {
    pub place: ImagePlace,
    pub outside: Outside,
    pub bytes: u8,
    pub data: SurfaceData,
}

#[derive(Clone, Copy, Debug)]
pub enum SurfaceData {
    Load {
        dest: Dest,
        signed: bool,
        missing: Truth,
    },
    /// The first register.
    Store(u8),
}

/// What the lanes that are here do together.
pub struct Together {
    pub operation: WarpOperation,
    pub sources: Box<[Argument]>,
    pub dests: [Dest; 2],
    pub truths: [Truth; 2],
}

pub struct Barrier {
    pub number: Source,
    pub threads: Option<Source>,
    /// Number and threads are in one register.
    pub packed: bool,
    pub waits: bool,
    pub reduction: Reduction,
    pub predicate: Condition,
}
