//! Decoded code: each instruction once, with its operands looked up, its touches of registers and its waits.

use crate::ptx::memory::Space;
use crate::ptx::program::{AtomicFunction, Reduction, WarpOperation, WholeFunction};
use crate::verify::Issue;
use ori::eval::Meaning;
use sass::{M, Op};

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
    pub issue: Issue,
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
    },
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
    Unsupported(String),
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
    /// The barrier before.
    pub dest: Dest,
}

/// A copy between global and shared memory; `to`, `from` and `size` are first uniform registers.
pub struct BulkCopy {
    pub to_shared: bool,
    pub to: u8,
    pub from: u8,
    pub size: u8,
    /// Combines what is there with what comes, in elements of so many bytes.
    pub reduction: Option<(u8, AtomicFunction)>,
}

/// A product of matrices that the lanes of a warp share.
pub struct Multiply {
    /// Registers of the factors and of the addend.
    pub sources: Box<[Source]>,
    pub function: WholeFunction,
    /// The first register of the sum, and how many words an element has there.
    pub dest: u8,
    pub words: u8,
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
