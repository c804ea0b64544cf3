//! What operations do besides computing their results: the one module for these properties.
//!
//! * **Memory**: which bytes an operation reads or writes ([`Access`]), and which accesses it orders, in which scope,
//!   direction and state spaces ([`Ordering`]). Questions about two operations: `memory_dependence.rs`.
//! * **Convergence**: which threads of the warp take part ([`Convergence`]).
//! * **Motion**: what no instruction may pass ([`Motion`]), what may be duplicated, removed or computed in vain
//!   ([`is_pure`], [`is_function`], [`is_duplicable`]).
//!
//! Every pass that moves, removes, merges or duplicates operations asks here. Convergence and memory order are two
//! things: `WARPSYNC` only makes threads converge, and may be removed where they have; the order that `bar.warp.sync`
//! makes is a [`Pseudo::MemoryFence`] of its own, which takes no instruction and stays until emission.
//! What each PTX instruction orders, and becomes, is listed in `docs/memory-ordering.md`; a test compares the two.

use ori::{Arg, InstData, Op, Pseudo};
use sass::{Class, M};

/// The properties of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effects {
    pub memory: Memory,
    pub orders: Option<Ordering>,
    pub convergence: Convergence,
    pub motion: Motion,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    None,
    Read(Access),
    Write(Access),
    /// It reads and writes, now or later, what is not known here, but no local memory: strong accesses of one state space,
    /// generic atomics, asynchronous copies and their groups.
    Unknown,
}

/// Which bytes are accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub space: Space,
    /// The register of the address: a value, the stack pointer or zero; `None` if it is not known.
    pub base: Option<Arg>,
    /// A general register that is added to it, where the base is a uniform one.
    pub index: Option<Arg>,
    pub offset: i64,
    pub bytes: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    Global,
    /// Global memory that is not written while the kernel runs.
    ReadOnly,
    Shared,
    Local,
    /// Any of them: the address says which.
    Generic,
}

/// The threads that see accesses in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    Warp,
    Cta,
    Cluster,
    Gpu,
    System,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Later accesses don't move before it.
    Acquire,
    /// Earlier accesses don't move after it.
    Release,
    Both,
}

/// Which accesses an operation keeps in order. Local memory belongs to one thread, and is never among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ordering {
    pub scope: Scope,
    pub direction: Direction,
    pub shared: bool,
    pub global: bool,
}

/// Which threads of a warp an operation is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Convergence {
    Thread,
    /// Converged threads, which exchange values: collectives keep their order among each other.
    Collective,
    /// All threads of the warp, with their registers alone: it stays where they have converged.
    Matrix,
    /// The threads of the warp converge here.
    Converge,
}

/// What may be moved across an instruction, whatever its effects are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Motion {
    Free,
    /// Nothing that accesses registers of an outstanding wgmma: it is one, waits for one, or lets one begin.
    Wgmma,
    /// A scheduling barrier: nothing at all. Calls, convergence barriers, clocks, and whatever is not known here.
    Barrier,
}

impl Access {
    /// Some bytes of a state space.
    const fn anywhere(space: Space) -> Access {
        Access { space, base: None, index: None, offset: 0, bytes: 16 }
    }
}

impl Ordering {
    const fn all(scope: Scope, direction: Direction) -> Ordering {
        Ordering { scope, direction, shared: true, global: true }
    }

    pub fn orders_all(&self) -> bool {
        self.shared && self.global && self.direction == Direction::Both
    }
}

impl Effects {
    /// No effects: it may be anywhere between its operands and its uses.
    pub const NONE: Effects = Effects {
        memory: Memory::None,
        orders: None,
        convergence: Convergence::Thread,
        motion: Motion::Free,
    };
    const BARRIER: Effects = Effects { motion: Motion::Barrier, ..Effects::NONE };

    pub fn of(data: &InstData) -> Effects {
        let orders = ordering(data);
        if data.args.iter().any(is_fixed) {
            return Effects { orders, ..Effects::BARRIER };
        }
        let effects = match data.op {
            Op::Pseudo(op) => of_pseudo(op),
            Op::Generic(_) => Effects::NONE,
            Op::Machine(op) => of_machine(op, data),
        };
        Effects { orders, ..effects }
    }

    pub fn is_free(&self) -> bool {
        // By parts, of which the first decides mostly: an access is not compared.
        matches!(self.memory, Memory::None)
            && self.orders.is_none()
            && self.convergence == Convergence::Thread
            && self.motion == Motion::Free
    }
}

fn of_pseudo(op: Pseudo) -> Effects {
    match op {
        Pseudo::Pack | Pseudo::Unpack | Pseudo::Copy | Pseudo::Undef | Pseudo::MemoryFence => Effects::NONE,
        Pseudo::Landed => Effects { motion: Motion::Wgmma, ..Effects::NONE },
        Pseudo::Entry | Pseudo::Call | Pseudo::CallRoutine | Pseudo::Leave => Effects::BARRIER,
    }
}

fn of_machine(op: sass::Op, data: &InstData) -> Effects {
    use sass::Op::*;
    let convergent = |convergence: Convergence| Effects { convergence, ..Effects::NONE };
    let unknown = Effects { memory: Memory::Unknown, ..Effects::NONE };
    let accesses = |kind: fn(Access) -> Memory| {
        // A strong one may be of local memory, too, which no ordering covers.
        let anywhere = matches!(op, LD | ST).then_some(Access::anywhere(Space::Generic));
        let memory = access(data, op).or(anywhere).map_or(Memory::Unknown, kind);
        Effects { memory, ..Effects::NONE }
    };
    match op {
        LDC | ULDC | LDCU => Effects::NONE,
        S2R | S2UR | CS2R if data.args.iter().all(|a| matches!(a, Arg::Name(m) if is_lasting(*m))) => {
            Effects::NONE
        }
        S2R | S2UR | CS2R | BMOV | LEPC | R2P | P2R => Effects::BARRIER,
        ELECT | VOTE | VOTEU | SHFL | MATCH | REDUX | CREDUX | BAR => convergent(Convergence::Collective),
        WARPSYNC => convergent(Convergence::Converge),
        SYNCS | ATOM | LDGSTS | LDGDEPBAR | DEPBAR => unknown,
        ATOMS => Effects { memory: Memory::Write(Access::anywhere(Space::Shared)), ..Effects::NONE },
        ATOMG | RED | REDG => {
            Effects { memory: Memory::Write(Access::anywhere(Space::Global)), ..Effects::NONE }
        }
        WARPGROUP => Effects { motion: Motion::Wgmma, ..Effects::NONE },
        _ if op.is_wgmma() => Effects { motion: Motion::Wgmma, ..Effects::NONE },
        LDL | STL if access(data, op).is_none() => Effects::BARRIER,
        LDG | LDS | LD | LDL => accesses(Memory::Read),
        STG | STS | ST | STL => accesses(Memory::Write),
        LDSM => Effects { convergence: Convergence::Matrix, ..accesses(Memory::Read) },
        STSM => Effects { convergence: Convergence::Matrix, ..accesses(Memory::Write) },
        _ => sass::Form::of(op).first().map_or(Effects::BARRIER, |form| of_class(form.class)),
    }
}

fn of_class(class: Class) -> Effects {
    use Class::*;
    match class {
        Alu | Fma | Wide | Half | Hmma2 | Double | Fp64 | Xu | Uniform => Effects::NONE,
        Tensor => Effects { convergence: Convergence::Matrix, ..Effects::NONE },
        // Copies that the machine makes on its own, of tensors and in bulk.
        UniformStore => Effects { memory: Memory::Unknown, ..Effects::NONE },
        _ => Effects::BARRIER,
    }
}

/// A wgmma, and what waits for it or lets it begin: it reads shared memory by the asynchronous proxy, and no other memory.
const WGMMA: Option<Ordering> =
    Some(Ordering { global: false, ..Ordering::all(Scope::Cta, Direction::Both) });

/// Which accesses an instruction keeps in order.
///
/// Where PTX asks for less than ptxas does, this is what ptxas does if programs may rely on it, or if it costs nothing:
/// accesses with an order of their own (`.STRONG`) and asynchronous copies order all that is around them, atomics the
/// accesses of their own state space.
pub fn ordering(data: &InstData) -> Option<Ordering> {
    use Direction::{Acquire, Both, Release};
    use Scope::{Cluster, Cta, Gpu, System, Warp};
    use sass::Op::*;
    let has = |m: M| data.modifiers.contains(&m);
    // Asked for by a few operations only: most have no order.
    let scope = || match () {
        () if has(M::SYS) || has(M::STRONG_SYS) || has(M::MMIO_SYS) => System,
        () if has(M::GPU) || has(M::STRONG_GPU) => Gpu,
        () if has(M::WARP) => Warp,
        () => Cta,
    };
    let one_space = |of: Ordering| Ordering { shared: !has(M::G), global: !has(M::S), ..of };
    let all = |scope: Scope, direction: Direction| Some(Ordering::all(scope, direction));
    let op = match data.op {
        Op::Pseudo(Pseudo::MemoryFence) => return Some(one_space(Ordering::all(scope(), Both))),
        Op::Pseudo(Pseudo::Landed) => return WGMMA,
        Op::Pseudo(Pseudo::Call | Pseudo::Entry | Pseudo::Leave) => return all(System, Both),
        Op::Pseudo(_) | Op::Generic(_) => return None,
        Op::Machine(op) => op,
    };
    match op {
        MEMBAR | ATOM => all(scope(), Both),
        ATOMG | RED | REDG => Some(Ordering { shared: false, ..Ordering::all(scope(), Both) }),
        ATOMS => Some(Ordering { global: false, ..Ordering::all(Cta, Both) }),
        BAR | SYNCS | LDGSTS | LDGDEPBAR | DEPBAR | ARRIVES | STAS | REDAS => all(Cta, Both),
        WARPGROUP => WGMMA,
        _ if op.is_wgmma() => WGMMA,
        FENCE => Some(one_space(Ordering::all(Gpu, Both))),
        CCTL if has(M::IVALL) => all(Gpu, Acquire),
        UCGABAR_ARV => all(Cluster, Release),
        UCGABAR_WAIT => all(Cluster, Acquire),
        ACQBULK => all(Gpu, Acquire),
        PREEXIT => all(Gpu, Release),
        NANOSLEEP => all(Warp, Both),
        LDG | LDS | LD | LDSM | STG | STS | ST | STSM => {
            access(data, op).is_none().then(|| Ordering::all(scope(), Both))
        }
        _ => is_bulk(op).then(|| Ordering::all(Cluster, Both)),
    }
}

/// Must all earlier accesses be done before it is issued? So it is in ptxas's code: it waits for the load of an acquire
/// before it invalidates the cache.
pub fn awaits_accesses(op: sass::Op) -> bool {
    use sass::Op::*;
    matches!(op, MEMBAR | ERRBAR | CGAERRBAR | CCTL | FENCE | DEPBAR | UTMACCTL)
}

fn is_bulk(op: sass::Op) -> bool {
    sass::Form::of(op).first().is_some_and(|form| form.class == Class::UniformStore)
}

/// The bytes of a plain load or store; `None` if its modifiers say more than how wide it is.
fn access(data: &InstData, op: sass::Op) -> Option<Access> {
    use sass::Op::{LDG, LDL, LDS, LDSM, STG, STL, STS, STSM};
    let mut space = match op {
        LDG | STG => Space::Global,
        LDS | STS | LDSM | STSM => Space::Shared,
        LDL | STL => Space::Local,
        _ => Space::Generic,
    };
    let mut bytes = 4;
    for modifier in &data.modifiers {
        match modifier {
            M::_64 => bytes = 8,
            M::_128 => bytes = 16,
            M::CONSTANT => space = Space::ReadOnly,
            M::E | M::U8 | M::S8 | M::U16 | M::S16 | M::EF | M::EL | M::_16 | M::M88 | M::_4 | M::_2 => {}
            M::MT88 => {}
            _ => return None,
        }
    }
    let at = (0..data.args.len().checked_sub(1)?)
        .find(|at| matches!(data.args[at + 1], Arg::Imm(_)) && !matches!(data.args[*at], Arg::Imm(_)))?;
    let (base, Arg::Imm(offset)) = (data.args[at], data.args[at + 1]) else { return None };
    let base = match base {
        // Each thread has the address of a row.
        _ if matches!(op, LDSM | STSM) => None,
        // A sum of two registers.
        _ if matches!(op, LDL | STL) && at > 0 => None,
        Arg::Use(_) | Arg::Stack | Arg::Zero(_) => Some(base),
        _ => None,
    };
    let index = data.args.first().copied().filter(|_| matches!(op, LDS | STS) && at > 0);
    Some(Access { space, base, index, offset, bytes })
}

/// Has it an address of a register and an offset, which a sum may become part of?
pub fn is_offset_access(op: Op) -> bool {
    use sass::Op::*;
    matches!(op, Op::Machine(LDG | STG | LD | ST | LDS | STS | LDSM | LDL | STL | LDGSTS))
}

/// Operands whose contents depend on the program point.
fn is_fixed(arg: &Arg) -> bool {
    matches!(arg, Arg::Fixed { .. } | Arg::StackTop)
}

/// Special registers that are constant for a thread.
pub fn is_lasting(name: M) -> bool {
    use sass::M::*;
    matches!(
        name,
        SRZ | SR_TID_X
            | SR_TID_Y
            | SR_TID_Z
            | SR_CTAID_X
            | SR_CTAID_Y
            | SR_CTAID_Z
            | SR_LANEID
            | SR_CgaCtaId
            | SR_EQMASK
            | SR_LTMASK
            | SR_LEMASK
            | SR_GTMASK
            | SR_GEMASK
    )
}

/// Is it a shuffle without fixed registers? It may be removed where its result has no use: the threads still converge,
/// by an instruction of its own.
pub fn is_shuffle(data: &InstData) -> bool {
    let fixed = data.args.iter().any(|a| matches!(a, Arg::Fixed { .. }));
    data.op == Op::Machine(sass::Op::SHFL) && !fixed && !data.results.is_empty()
}

/// Has it no effect but its results?
pub fn is_pure(data: &InstData) -> bool {
    use sass::Op::*;
    if data.results.is_empty() || data.args.iter().any(is_fixed) {
        return false;
    }
    match data.op {
        Op::Pseudo(op) => matches!(op, Pseudo::Pack | Pseudo::Unpack | Pseudo::Copy | Pseudo::Undef),
        Op::Generic(_) | Op::Machine(LDC | ULDC | LDCU) => true,
        Op::Machine(S2R | CS2R) => data.args.iter().all(|a| matches!(a, Arg::Name(m) if is_lasting(*m))),
        Op::Machine(UIADD3 | UIMAD | UISETP | ULEA | ULOP3 | UMOV | USEL | USGXT | USHF) => true,
        Op::Machine(op) => sass::Form::of(op).first().is_some_and(|form| {
            matches!(
                form.class,
                Class::Alu | Class::Fma | Class::Wide | Class::Half | Class::Double | Class::Fp64 | Class::Xu
            )
        }),
    }
}

/// Are its results the same wherever it has the same arguments?
pub fn is_function(data: &InstData) -> bool {
    use sass::Op::*;
    if !is_pure(data) {
        return false;
    }
    let Op::Machine(op) = data.op else {
        return matches!(data.op, Op::Generic(_) | Op::Pseudo(Pseudo::Pack | Pseudo::Unpack));
    };
    match op {
        // Pure only if the register never changes.
        S2R => true,
        // Nothing writes constant memory while a kernel runs.
        LDC => data.args.iter().all(|a| matches!(a, Arg::Bank { index: None, .. })),
        BMSK | BREV | FLO | IABS | IADD3 | IMAD | IMNMX | ISETP | LEA | LOP3 | MOV | PLOP3 | POPC | PRMT
        | SEL | SGXT | SHF | VIADD | VIADDMNMX | VIMNMX | VIMNMX3 => true,
        DADD | DFMA | DMUL | DSETP | FADD | FFMA | FMNMX | FMNMX3 | FMUL | FSEL | FSET | FSETP | MUFU => true,
        HADD2 | HFMA2 | HMNMX2 | HMUL2 | HSET2 | HSETP2 | F2F | F2FP | F2I | FRND | I2F | I2FP => true,
        _ => false,
    }
}

/// A load or store of one thread that orders nothing.
pub fn is_plain_access(data: &InstData) -> bool {
    let effects = Effects::of(data);
    let accesses = matches!(effects.memory, Memory::Read(_) | Memory::Write(_));
    accesses && effects.orders.is_none() && effects.convergence == Convergence::Thread
}

/// May it be removed if its results have no use? A plain load of global memory may, with the fault that it might have
/// caused. Of shared memory a volatile load has no other form than a plain one. A special register that changes, like a
/// clock, is read in its place or not at all.
pub fn is_removable(data: &InstData) -> bool {
    use sass::Op::{CS2R, LDG, S2R, S2UR};
    let is_load = data.op == Op::Machine(LDG) && is_plain_access(data);
    let is_register = matches!(data.op, Op::Machine(CS2R | S2R | S2UR)) && !data.args.iter().any(is_fixed);
    is_pure(data) || is_shuffle(data) || (is_load || is_register) && !data.results.is_empty()
}

/// Has it no effect on other threads but by plain accesses of memory?
pub fn is_of_one_thread(data: &InstData) -> bool {
    is_pure(data) || is_plain_access(data) || matches!(data.op, Op::Machine(sass::Op::LDC | sass::Op::UMOV))
}

/// May it be duplicated, for another iteration of a loop? Not if it holds registers or barriers beyond an instruction, or
/// names a block.
pub fn is_duplicable(data: &InstData) -> bool {
    use sass::Op::*;
    let is_known = match data.op {
        Op::Pseudo(Pseudo::MemoryFence) => true,
        Op::Machine(LD | LDG | LDL | LDS | LDSM | ST | STG | STL | STS | STSM) => true,
        Op::Machine(ATOM | ATOMG | ATOMS | BAR | RED | REDG | SHFL | VOTE | WARPSYNC) => true,
        _ => is_of_one_thread(data),
    };
    let is_placed = |arg: &Arg| matches!(arg, Arg::Target(_)) || is_fixed(arg);
    is_known && !data.args.iter().any(is_placed)
}

#[cfg(test)]
mod tests;
