//! What the model needs to know of each instruction, looked up once.

use super::parameters::Parameters;
use crate::sass::program::{Action, Source, Step};
use sass::model::Unit;
use sass::{Inst, Isa, Kind as Operand, M, Model, Op, RZ, Role};

/// Why a warp doesn't issue, in ncu's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// It issues.
    Selected,
    /// It could issue, another warp did.
    NotSelected,
    /// The stall count of the instruction before.
    Wait,
    /// A scoreboard of global, local or texture memory.
    LongScoreboard,
    /// A scoreboard of shared memory, of the function unit and of others.
    ShortScoreboard,
    /// A pipe is busy.
    MathPipeThrottle,
    /// The queue to shared memory and its kin is full.
    MioThrottle,
    /// The queue to global and local memory is full.
    LgThrottle,
    /// The queue to textures is full.
    TexThrottle,
    /// Other warps have not come to the barrier.
    Barrier,
    /// A fence.
    Membar,
    /// After a branch.
    BranchResolve,
    /// The instruction is not fetched yet.
    NoInstruction,
    /// Ports of the register file are busy.
    Dispatch,
    /// A constant is not in its cache.
    ImcMiss,
    /// It sleeps.
    Sleeping,
    /// It has exited, and its stores have not drained.
    Drain,
    /// Products of the warpgroup are not done.
    Gmma,
}

impl Reason {
    /// How many there are.
    pub const COUNT: usize = Reason::Gmma as usize + 1;

    /// All, in the order of their numbers.
    pub const ALL: [Reason; Reason::COUNT] = {
        use Reason::*;
        [
            Selected,
            NotSelected,
            Wait,
            LongScoreboard,
            ShortScoreboard,
            MathPipeThrottle,
            MioThrottle,
            LgThrottle,
            TexThrottle,
            Barrier,
            Membar,
            BranchResolve,
            NoInstruction,
            Dispatch,
            ImcMiss,
            Sleeping,
            Drain,
            Gmma,
        ]
    };

    /// ncu's word: `long_scoreboard`.
    pub fn name(self) -> &'static str {
        use Reason::*;
        match self {
            Selected => "selected",
            NotSelected => "not_selected",
            Wait => "wait",
            LongScoreboard => "long_scoreboard",
            ShortScoreboard => "short_scoreboard",
            MathPipeThrottle => "math_pipe_throttle",
            MioThrottle => "mio_throttle",
            LgThrottle => "lg_throttle",
            TexThrottle => "tex_throttle",
            Barrier => "barrier",
            Membar => "membar",
            BranchResolve => "branch_resolve",
            NoInstruction => "no_instruction",
            Dispatch => "dispatch_stall",
            ImcMiss => "imc_miss",
            Sleeping => "sleeping",
            Drain => "drain",
            Gmma => "gmma",
        }
    }
}

/// What takes an instruction in a sub-core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Pipe {
    /// Integer, logic, comparisons, moves.
    Alu,
    /// Single precision: either half.
    Fma,
    /// The half that multiplies integers, too.
    FmaHeavy,
    /// Packed halves.
    Half,
    /// Double precision.
    Double,
    /// MUFU, conversions, bit counts.
    Xu,
    /// Matrices.
    Tensor,
    /// The uniform datapath.
    Uniform,
    /// Branches, barriers and what has no pipe that is known.
    Control,
    /// The queue to shared memory and its kin.
    Mio,
    /// That to global and local memory.
    Lg,
    /// That to textures.
    Tex,
}

impl Pipe {
    /// How many there are.
    pub const COUNT: usize = Pipe::Tex as usize + 1;

    /// All, in the order of their numbers.
    pub const ALL: [Pipe; Pipe::COUNT] = {
        use Pipe::*;
        [Alu, Fma, FmaHeavy, Half, Double, Xu, Tensor, Uniform, Control, Mio, Lg, Tex]
    };

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        use Pipe::*;
        match self {
            Alu => "alu",
            Fma => "fma",
            FmaHeavy => "fmaheavy",
            Half => "fp16",
            Double => "fp64",
            Xu => "xu",
            Tensor => "tensor",
            Uniform => "uniform",
            Control => "cbu",
            Mio => "lsu_shared",
            Lg => "lsu_global",
            Tex => "tex",
        }
    }
}

/// What happens when it has issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// Nothing that the control codes don't say.
    Plain,
    /// The scoreboard is signalled after so many cycles.
    After(u64, Reason),
    /// A load or store of shared memory, with the latency; atomics one lane after the other.
    Shared { latency: u64, atomic: bool },
    /// Global memory.
    Global(Access),
    /// A read of constants.
    Constants,
    /// A texture.
    Texture,
    /// From global to shared memory, by the warp.
    Copy,
    /// By a bulk unit.
    Bulk,
    /// Copies begun before belong to a group, of this scoreboard: those of the warp, or of the bulk units.
    CloseGroup { scoreboard: u8, bulk: bool },
    /// Until so few groups are left on a scoreboard.
    WaitGroups { scoreboard: u8, left: u8 },
    /// Until scoreboards are zero.
    WaitScoreboards(u8),
    /// An MMA of a warpgroup: cycles of the tensor core.
    Wgmma { cycles: u64, closes: bool },
    /// Until so few groups of them are left.
    WaitWgmma { left: u8 },
    /// A barrier of the block, of the cluster or in shared memory; the extra says which.
    Barrier { latency: u64, after_copies: bool },
    /// A fence of the device.
    Membar,
    /// A sleep.
    Sleep,
}

/// An access of global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It returns.
    Load,
    /// It does not.
    Store,
    /// It returns what was there, or not.
    Atomic { returns: bool },
}

/// A read through the operand cache: the slot, the register there, and whether it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// In [`sass::model::cache`]'s numbering.
    pub slot: u8,
    /// The register of the slot's bank.
    pub register: u8,
    /// The bank.
    pub bank: u8,
    /// `.reuse`
    pub kept: bool,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Info {
    /// What takes it.
    pub pipe: Pipe,
    /// Cycles until that takes another.
    pub interval: u64,
    /// What comes of it.
    pub effect: Effect,
    /// Cycles until the next one may issue.
    pub stall: u64,
    /// Another warp goes first.
    pub yields: bool,
    /// Scoreboards: a mask to wait for, the one of results, the one of sources.
    pub wait: u8,
    /// See `wait`.
    pub write: Option<u8>,
    /// See `wait`.
    pub read: Option<u8>,
    /// It may go elsewhere.
    pub is_branch: bool,
    /// It empties the operand cache.
    pub empties: bool,
    /// What it reads through the operand cache.
    pub reads: Vec<Read>,
    /// The constant that it needs at issue: bank and offset.
    pub constant: Option<(u8, u32)>,
    /// Operations of a lane on floating-point numbers, and of the warp for matrices.
    pub flops: f64,
}

/// Looks up all instructions of a program.
pub fn infos(isa: Isa, code: &[Inst], steps: &[Step], parameters: &Parameters) -> Vec<Info> {
    let model = Model::of(isa);
    code.iter().zip(steps).map(|(inst, step)| Info::of(model, inst, step, parameters)).collect()
}

impl Info {
    fn of(model: &Model, inst: &Inst, step: &Step, parameters: &Parameters) -> Info {
        let unit = model.unit(inst);
        let (pipe, interval) = pipe(model, inst, unit, parameters);
        let effect = effect(inst, step, unit, parameters);
        let interval = match effect {
            Effect::Wgmma { cycles, .. } => cycles,
            _ => interval,
        };
        let control = inst.control;
        Info {
            pipe,
            interval,
            effect,
            stall: stall(step.stall),
            yields: control.yields,
            wait: control.wait,
            write: control.write,
            read: control.read,
            is_branch: step.action.is_branch(),
            empties: sass::model::cache::empties(inst.op(), control),
            reads: reads(model, inst),
            constant: constant(inst, step),
            flops: flops(inst),
        }
    }
}

/// No stall and no hold means: when the pipes are empty. How long that takes is not known.
fn stall(stall: u8) -> u64 {
    if stall == u8::MAX { sass::model::UNKNOWN.into() } else { u64::from(stall).max(1) }
}

fn cycles(value: f64) -> u64 {
    value.round() as u64
}

fn pipe(model: &Model, inst: &Inst, unit: Unit, p: &Parameters) -> (Pipe, u64) {
    use Unit::*;
    let own = u64::from(model.interval(unit));
    match unit {
        Alu | Select | Clock | PredicateLogic | Long | LongMove | LongSet => {
            (Pipe::Alu, cycles(p.interval_alu))
        }
        Predicates | ToUniform | Vote => (Pipe::Alu, cycles(p.interval_alu)),
        Fma if matches!(inst.op(), Op::FFMA | Op::FADD | Op::FMUL) => (Pipe::Fma, cycles(p.interval_fma)),
        Fma => (Pipe::FmaHeavy, cycles(p.interval_fma)),
        Wide | MulHigh => (Pipe::FmaHeavy, cycles(p.interval_wide)),
        Half | HalfToSingle => (Pipe::FmaHeavy, cycles(p.interval_half)),
        HalfSet | HalfTensor => (Pipe::Half, cycles(p.interval_half)),
        Double | Fp64 => (Pipe::Double, cycles(p.interval_double)),
        Xu => (Pipe::Xu, cycles(p.interval_xu)),
        TensorWide | TensorIntegerWide => (Pipe::Tensor, cycles(p.interval_mma_wide)),
        TensorNarrow | TensorEight | TensorIntegerNarrow => (Pipe::Tensor, cycles(p.interval_mma_narrow)),
        TensorLate => (Pipe::Tensor, cycles(p.interval_mma_late)),
        Gmma => (Pipe::Tensor, own),
        Uniform => (Pipe::Uniform, cycles(p.interval_uniform)),
        UniformMove => (Pipe::Uniform, own),
        Shared | Special | SpecialUniform | MemoryBarrier | BarrierResult | Transpose | Reduce => {
            (Pipe::Mio, own)
        }
        UniformLate => (Pipe::Mio, own),
        Memory if matches!(inst.op(), Op::STS | Op::STSM) => (Pipe::Mio, own),
        Memory => (Pipe::Lg, own),
        Texture => (Pipe::Tex, own),
        Barrier | Sync | Branch | BarrierSave | BarrierRestore | Idle => (Pipe::Control, own),
    }
}

fn effect(inst: &Inst, step: &Step, unit: Unit, p: &Parameters) -> Effect {
    let after = |latency: f64| Effect::After(cycles(latency), Reason::ShortScoreboard);
    let shared = |latency: f64, atomic| Effect::Shared { latency: cycles(latency), atomic };
    let barrier = |latency: f64, after_copies| Effect::Barrier { latency: cycles(latency), after_copies };
    let is_shared = matches!(inst.op(), Op::LDS | Op::STS | Op::ATOMS);
    match &step.action {
        Action::Load(_) | Action::Store { .. } if is_shared => shared(p.latency_shared, false),
        Action::LoadMatrices { .. } | Action::StoreMatrices { .. } => shared(p.latency_shared, false),
        Action::Atomic(_) if is_shared => shared(p.latency_atomic_shared, true),
        Action::Load(_) => Effect::Global(Access::Load),
        Action::Store { .. } => Effect::Global(Access::Store),
        Action::Atomic(_) => {
            let returns = inst.operands().any(|(slot, operand)| {
                slot.role == Role::Def && operand.kind == Operand::R && operand.value != i64::from(RZ)
            });
            Effect::Global(Access::Atomic { returns })
        }
        Action::Copy { .. } => Effect::Copy,
        Action::BulkCopy(_) | Action::TensorCopy(_) | Action::StoreRemote(_) => Effect::Bulk,
        Action::CloseGroup { scoreboard, .. } => {
            Effect::CloseGroup { scoreboard: *scoreboard, bulk: inst.op() == Op::UTMACMDFLUSH }
        }
        Action::WaitGroups { scoreboard, left } => {
            Effect::WaitGroups { scoreboard: *scoreboard, left: *left }
        }
        Action::WaitScoreboards { mask } => Effect::WaitScoreboards(*mask),
        Action::MultiplyInGroup(multiply) => {
            let columns = multiply.wgmma.n as f64;
            Effect::Wgmma { cycles: wgmma(columns, multiply.rows.is_none(), p), closes: multiply.closes }
        }
        Action::WaitWgmma { left } => Effect::WaitWgmma { left: *left },
        Action::Barrier(_) => barrier(p.latency_barrier, false),
        Action::ArriveAtCluster | Action::WaitForCluster => barrier(p.latency_cluster_barrier, false),
        Action::Arrive(arrive) => barrier(p.latency_mbarrier, arrive.after_copies),
        Action::CheckPhase { .. } | Action::ExchangeBarrier { .. } => barrier(p.latency_mbarrier, false),
        Action::Fence(_) if inst.op() == Op::MEMBAR && !inst.has(M::CTA) && !inst.has(M::SM) => {
            Effect::Membar
        }
        Action::Sleep => Effect::Sleep,
        Action::LoadConstant { .. } if unit == Unit::Special => Effect::Constants,
        Action::Texture(_) | Action::Surface(_) | Action::StoreTexel(_) => Effect::Texture,
        _ => match unit {
            Unit::Xu => after(p.latency_xu),
            Unit::Shared => after(p.latency_shuffle),
            Unit::Special | Unit::SpecialUniform => after(p.latency_special),
            Unit::Reduce => after(p.latency_reduce),
            Unit::Transpose => after(p.latency_transpose),
            Unit::TensorLate => after(p.latency_mma_late),
            unit if unit.writes_late() || unit.reads_late() => after(p.latency_other),
            _ => Effect::Plain,
        },
    }
}

/// Cycles of the four tensor cores for 64 rows: as long as the products take, or as shared memory takes to give the
/// factors. A row or column has 32 bytes whatever the type, as the depth is chosen so.
fn wgmma(columns: f64, rows_in_memory: bool, p: &Parameters) -> u64 {
    const ROWS: f64 = 64.0;
    const BYTES: f64 = 32.0;
    let bytes = BYTES * (columns + if rows_in_memory { ROWS } else { 0.0 });
    let reading = bytes / (crate::coalescing::LINE as f64 * p.shared_passes_per_cycle);
    (columns / p.wgmma_columns_per_cycle).max(reading).ceil() as u64
}

fn reads(model: &Model, inst: &Inst) -> Vec<Read> {
    let read = |cached: sass::model::cache::Cached| {
        let bank = (cached.slot % 2) as u8;
        let register = cached.registers().find(|register| register % 2 == usize::from(bank))?;
        let kept = inst.control.reuse >> cached.lane & 1 == 1;
        Some(Read { slot: cached.slot as u8, register: register as u8, bank, kept })
    };
    model.cached(inst).filter_map(read).collect()
}

/// A constant that is an operand, or that ULDC loads.
fn constant(inst: &Inst, step: &Step) -> Option<(u8, u32)> {
    if let Action::LoadConstant { source: Source::Constant { bank, offset, .. }, .. } = &step.action {
        return (inst.op() == Op::ULDC).then_some((*bank, *offset as u32));
    }
    let mut constants = inst.operands().filter(|(_, operand)| operand.kind == Operand::Const);
    constants.next().map(|(_, operand)| (operand.bank, operand.value as u32))
}

/// Floating-point operations of a lane; of a matrix instruction those of the warp, shared by its lanes.
fn flops(inst: &Inst) -> f64 {
    const LANES: f64 = 32.0;
    let packed = |operations: f64| if inst.has(M::F32) { operations } else { 2.0 * operations };
    match inst.op() {
        Op::FFMA | Op::DFMA => 2.0,
        Op::FADD | Op::FMUL | Op::DADD | Op::DMUL => 1.0,
        Op::HFMA2 => packed(2.0),
        Op::HADD2 | Op::HMUL2 => packed(1.0),
        Op::MUFU => 1.0,
        op if op.is_wgmma() => {
            // 64 rows of a group of four warps.
            let size = inst.modifiers().find_map(|m| size_of_wgmma(m.name())).unwrap_or(0.0);
            2.0 * 16.0 * size / LANES
        }
        Op::HMMA | Op::IMMA | Op::DMMA | Op::QMMA => {
            let size = inst.modifiers().find_map(|m| size_of_mma(m.name())).unwrap_or(0.0);
            2.0 * size / LANES
        }
        _ => 0.0,
    }
}

/// Columns times depth of `64x128x16`.
fn size_of_wgmma(name: &str) -> Option<f64> {
    let (n, k) = name.strip_prefix("64x")?.split_once('x')?;
    Some(n.parse::<f64>().ok()? * k.parse::<f64>().ok()?)
}

/// Rows times columns times depth of `16816`, `1688`, `8832`, `884`.
fn size_of_mma(name: &str) -> Option<f64> {
    let rest = name.strip_prefix('8').or_else(|| name.strip_prefix("16"))?;
    let rows = if name.starts_with('8') { 8.0 } else { 16.0 };
    let depth: f64 = rest.strip_prefix('8')?.parse().ok()?;
    Some(rows * 8.0 * depth)
}

/// Is the pipe a queue to units that the sub-cores share?
pub fn is_of_sm(pipe: Pipe) -> bool {
    matches!(pipe, Pipe::Mio | Pipe::Lg | Pipe::Tex)
}
