//! The names of units and of their inputs and outputs.
//!
//! Nothing but the names: the build script reads this file too, and checks the names in `distances/*.txt` against it.

/// What runs an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Unit {
    /// Integer and logic.
    Alu,
    /// Moves, compares, selects, minimum and maximum: like the ALU, but a cycle apart from it on sm_120.
    Select,
    /// CS2R of 64 bits; that of 32 bits is like a move.
    Clock,
    /// PLOP3.
    PredicateLogic,
    /// 64-bit integer operations of sm_120: IADD.64, SEL.64.
    Long,
    /// MOV.64.
    LongMove,
    /// 64-bit comparisons of sm_120.
    LongSet,
    /// FADD, FMUL, FFMA, IMAD of 32 bits, VIADD.
    Fma,
    /// IMAD.WIDE.
    Wide,
    /// IMAD.HI.
    MulHigh,
    /// Packed half arithmetic.
    Half,
    /// Half arithmetic with a result in single precision: HADD2.F32. Other half arithmetic forwards to itself a cycle
    /// sooner than to or from this; an H200 was seen to find the old value there.
    HalfToSingle,
    /// Packed half comparisons, minimum and maximum.
    HalfSet,
    /// HFMA2.MMA.
    HalfTensor,
    /// Double precision at full rate.
    Double,
    /// Double precision at a low rate.
    Fp64,
    /// MMAs of 8 rows, on integers and bits.
    TensorEight,
    /// Those of 16 rows of 128 bits, on floating-point numbers.
    TensorNarrow,
    /// Those of 16 rows of 256 bits.
    TensorWide,
    /// Narrow ones on integers and bits.
    TensorIntegerNarrow,
    /// Wide ones on integers and bits.
    TensorIntegerWide,
    /// MMAs with a scoreboard: DMMA, on sm_75 all, on sm_103 the integer ones.
    TensorLate,
    /// HGMMA and kin: asynchronous, completion by `gsb`.
    Gmma,
    /// MUFU, conversions, bit counts.
    Xu,
    /// LDS, LDSM, ATOMS, SHFL, QSPC: they return in order.
    Shared,
    /// Other loads, stores and atomics.
    Memory,
    /// Texture and surface operations.
    Texture,
    /// LDC, S2R and kin.
    Special,
    /// B2R: in order among themselves.
    BarrierResult,
    /// SYNCS, on barriers in shared memory: they read in order.
    MemoryBarrier,
    /// S2UR: in order among themselves.
    SpecialUniform,
    /// MOVM.
    Transpose,
    /// REDUX: in order among themselves.
    Reduce,
    /// Uniform datapath.
    Uniform,
    /// UMOV and ULDC: the uniform datapath's short way.
    UniformMove,
    /// Uniform operations that return late or read late.
    UniformLate,
    /// VOTE, VOTEU, ELECT.
    Vote,
    /// R2UR with a fixed latency.
    ToUniform,
    /// P2R, R2P.
    Predicates,
    /// Barriers of the thread block, fences.
    Barrier,
    /// WARPSYNC and kin.
    Sync,
    /// Branches, calls, convergence.
    Branch,
    /// BMOV of a convergence barrier to a register: the result comes late, the barrier is read at issue.
    BarrierSave,
    /// BMOV of a register to a convergence barrier: the register is read late, the barrier is there after fixed cycles.
    BarrierRestore,
    /// What touches no register.
    Idle,
}

impl Unit {
    /// How many units there are.
    pub const COUNT: usize = Unit::Idle as usize + 1;

    /// All units, in the order of their numbers.
    pub const ALL: [Unit; Unit::COUNT] = {
        use Unit::*;
        [
            Alu,
            Select,
            Clock,
            PredicateLogic,
            Long,
            LongMove,
            LongSet,
            Fma,
            Wide,
            MulHigh,
            Half,
            HalfToSingle,
            HalfSet,
            HalfTensor,
            Double,
            Fp64,
            TensorEight,
            TensorNarrow,
            TensorWide,
            TensorIntegerNarrow,
            TensorIntegerWide,
            TensorLate,
            Gmma,
            Xu,
            Shared,
            Memory,
            Texture,
            Special,
            BarrierResult,
            MemoryBarrier,
            SpecialUniform,
            Transpose,
            Reduce,
            Uniform,
            UniformMove,
            UniformLate,
            Vote,
            ToUniform,
            Predicates,
            Barrier,
            Sync,
            Branch,
            BarrierSave,
            BarrierRestore,
            Idle,
        ]
    };
}

/// Which input or output of a unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Part {
    /// General registers, and what has no part of its own.
    R,
    /// The second and later words of a result of several words, where they come at another time.
    High,
    /// The addend of a multiplication, where it is read at another time.
    Add,
    /// Its second and later words.
    AddHigh,
    /// Predicates.
    P,
    /// The guard, of either predicate file.
    Guard,
    /// Uniform registers.
    U,
    /// Uniform predicates.
    V,
}

impl Part {
    /// How many parts a unit has at most.
    pub const COUNT: usize = Part::V as usize + 1;
    /// All parts, in the order of their numbers.
    pub const ALL: [Part; Part::COUNT] =
        [Part::R, Part::High, Part::Add, Part::AddHigh, Part::P, Part::Guard, Part::U, Part::V];
}
