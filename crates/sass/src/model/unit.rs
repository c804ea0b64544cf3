//! Units and ports: which part of the machine runs an instruction, and through which of its inputs and outputs it
//! touches a register.
//!
//! The classes of the instruction table say what an operation is; units are finer where ptxas's distances are
//! (IMAD.WIDE apart from IMAD, HSET2 apart from HADD2) and say which scoreboards an instruction has on a target.

use super::REGISTERS;
use super::ports::{Part, Unit};
use crate::form::{Class, Kind, M, Op, Role};
use crate::inst::{Inst, PT};
use crate::isa::Isa;
use std::ops::Range;

impl Unit {
    /// What runs an instruction: by its class, and within it by operation and modifiers.
    pub fn of(inst: &Inst, isa: Isa) -> Unit {
        let op = inst.op();
        match inst.form().class {
            Class::Alu => match op {
                Op::VOTE | Op::VOTEU | Op::ELECT => Unit::Vote,
                Op::R2UR => Unit::ToUniform,
                Op::P2R | Op::R2P => Unit::Predicates,
                Op::VIADD => Unit::Fma,
                Op::BMOV => Unit::Branch,
                Op::PLOP3 => Unit::PredicateLogic,
                Op::CS2R if !inst.has(M::_32) => Unit::Clock,
                Op::IADD | Op::SEL if inst.has(M::_64) => Unit::Long,
                Op::MOV if inst.has(M::_64) => Unit::LongMove,
                Op::MOV64IUR => Unit::LongMove,
                Op::ISETP | Op::IMNMX if inst.has(M::U64) || inst.has(M::S64) => Unit::LongSet,
                op if selects(op) => Unit::Select,
                _ => Unit::Alu,
            },
            Class::Fma => Unit::Fma,
            Class::Wide if inst.has(M::WIDE) => Unit::Wide,
            Class::Wide => Unit::MulHigh,
            Class::Half if op == Op::VHMNMX => Unit::Alu,
            Class::Half if matches!(op, Op::HSET2 | Op::HSETP2 | Op::HMNMX2) => Unit::HalfSet,
            Class::Half if inst.has(M::F32) => Unit::HalfToSingle,
            Class::Half => Unit::Half,
            Class::Hmma2 => Unit::HalfTensor,
            Class::Double => Unit::Double,
            Class::Fp64 => Unit::Fp64,
            Class::Tensor => tensor(inst, isa),
            Class::Gmma => Unit::Gmma,
            Class::Xu => Unit::Xu,
            Class::Load if op == Op::BMOV => Unit::BarrierSave,
            Class::Store if op == Op::BMOV => Unit::BarrierRestore,
            Class::Load | Class::Store => memory(op),
            Class::Uniform if op == Op::ULDC || op == Op::UMOV && !inst.has(M::_64) => Unit::UniformMove,
            Class::Uniform => Unit::Uniform,
            // It reads its uniform register at issue: ptxas never gives it a scoreboard, and the others always.
            Class::UniformStore if op == Op::UTCSHIFT => Unit::Memory,
            Class::UniformLoad | Class::UniformStore => Unit::UniformLate,
            Class::Control => control(op),
        }
    }

    /// The two units that most instructions run on, and the uniform datapath.
    pub(super) const fn is_plain(self) -> bool {
        matches!(self, Unit::Alu | Unit::Select | Unit::Fma | Unit::Uniform)
    }

    /// MMAs of one warp.
    pub fn is_matrix(self) -> bool {
        use Unit::*;
        let narrow = matches!(self, TensorEight | TensorNarrow | TensorIntegerNarrow);
        narrow || matches!(self, TensorWide | TensorIntegerWide | TensorLate)
    }

    /// Results arrive late: a write scoreboard tells when.
    ///
    /// BMOV of a convergence barrier among them: ptxas's code of recursive functions and of 16 nested loops
    /// (`xtask/probes/nested_loops.ptx`) has the scoreboard at each, on all targets. On an H200 a recursive
    /// function gave wrong sums where STL stored the result six cycles after, without a wait.
    pub fn writes_late(self) -> bool {
        use Unit::*;
        let in_pipes = matches!(self, Fp64 | TensorLate | Gmma | Xu | Transpose | Reduce);
        let in_queues = matches!(self, Shared | Memory | Texture | UniformLate);
        in_pipes
            || in_queues
            || matches!(self, Special | BarrierResult | MemoryBarrier | SpecialUniform | BarrierSave)
    }

    /// Its results take some more cycles after the signal: low-rate double precision, and matrices with a scoreboard.
    pub fn delays_after_signal(self) -> bool {
        matches!(self, Unit::Fp64 | Unit::TensorLate)
    }

    /// Sources in the unit's own file are read late: a read or a write scoreboard tells when.
    ///
    /// BAR reads the number of its barrier and of its threads late, too: of `L: bar.sync r; add r, r, 32; bra L`, and of
    /// `bar.arrive` and `bar.red` with registers, ptxas's add waits for a scoreboard on sm_75, 86, 89, 90a, 100a and 120.
    /// CUTLASS's ping-pong kernel hung on an H200 when the instruction after a BAR wrote its register.
    /// BMOV to a convergence barrier reads its register late, BMOV from one reads the barrier at issue: ptxas has a read
    /// scoreboard at each of the first, and BSSY enters the barrier of the second without a wait.
    pub fn reads_late(self) -> bool {
        match self {
            Unit::Barrier | Unit::BarrierRestore => true,
            Unit::BarrierSave => false,
            _ => self.writes_late(),
        }
    }

    /// A later instruction of `later` reads its sources after an earlier one of `self` has read its own.
    ///
    /// BAR and BMOV keep none that is known: ptxas gives each its own scoreboard. LDC keeps no
    /// order: in ptxas's code for six targets, all 731 instructions that load over the address of an
    /// earlier LDC have waited for that very one; an H200 was seen to find the later result in it.
    pub fn reads_before(self, later: Unit) -> bool {
        let queue = |unit| match unit {
            Unit::Shared | Unit::Memory | Unit::Barrier | Unit::Transpose => Unit::Memory,
            unit => unit,
        };
        let keeps_order = !matches!(self, Unit::Special | Unit::Barrier | Unit::BarrierRestore);
        self.reads_late() && keeps_order && queue(self) == queue(later)
    }

    /// A later instruction of `later` returns after an earlier one of `self`. MOVM is in the queue of shared memory:
    /// ptxas leaves its barrier to a later LDS, and that of QSPC to a later MOVM.
    pub fn returns_before(self, later: Unit) -> bool {
        use Unit::*;
        let queue = |unit| if unit == Transpose { Shared } else { unit };
        let in_order = matches!(
            queue(self),
            Fp64 | TensorLate | Gmma | Xu | Reduce | Shared | BarrierResult | SpecialUniform
        );
        in_order && queue(self) == queue(later)
    }

    /// A result goes to a source without leaving the unit: accumulators of HGMMA.
    pub fn forwards_to(self, consumer: Unit) -> bool {
        self == Unit::Gmma && consumer == Unit::Gmma
    }
}

fn selects(op: Op) -> bool {
    use Op::*;
    matches!(op, CS2R | FMNMX | FSEL | FSET | FSETP | IMNMX | ISETP | MOV | SEL | VIMNMX)
}

/// In ptxas's code for sm_80 to sm_90 a result of every shape, sparse or not, whatever it sums in, comes 13 cycles
/// after the MMA where the first factor has one register, 16 where it has two, 24 where it has four.
fn tensor(inst: &Inst, isa: Isa) -> Unit {
    let late = match inst.op() {
        Op::DMMA => true,
        Op::IMMA => matches!(isa, Isa::Sm75 | Isa::Sm103),
        _ => isa == Isa::Sm75,
    };
    let integer = matches!(inst.op(), Op::IMMA | Op::BMMA);
    match inst.words(FIRST_FACTOR) {
        _ if late => Unit::TensorLate,
        0 | 1 => Unit::TensorEight,
        2 if integer => Unit::TensorIntegerNarrow,
        2 => Unit::TensorNarrow,
        _ if integer => Unit::TensorIntegerWide,
        _ => Unit::TensorWide,
    }
}

/// Of the operands of an MMA: the result is before it.
const FIRST_FACTOR: usize = 1;

fn memory(op: Op) -> Unit {
    match op {
        Op::LDS | Op::LDSM | Op::ATOMS | Op::SHFL | Op::QSPC => Unit::Shared,
        Op::TEX | Op::TLD | Op::TLD4 | Op::TMML | Op::TXD | Op::TXQ => Unit::Texture,
        Op::SUATOM | Op::SULD | Op::SUQUERY | Op::SURED | Op::SUST => Unit::Texture,
        Op::S2UR => Unit::SpecialUniform,
        Op::MOVM => Unit::Transpose,
        Op::REDUX => Unit::Reduce,
        Op::B2R => Unit::BarrierResult,
        Op::SYNCS => Unit::MemoryBarrier,
        Op::LDC | Op::S2R | Op::R2UR | Op::MATCH => Unit::Special,
        Op::BAR | Op::MEMBAR | Op::ERRBAR | Op::CGAERRBAR => Unit::Barrier,
        _ => Unit::Memory,
    }
}

fn control(op: Op) -> Unit {
    match op {
        Op::NOP | Op::DEPBAR | Op::YIELD | Op::PMTRIG | Op::BPT | Op::WARPGROUP => Unit::Idle,
        Op::WARPSYNC | Op::NANOSLEEP => Unit::Sync,
        // The pool's answer comes when it comes.
        Op::USETMAXREG => Unit::UniformLate,
        _ => Unit::Branch,
    }
}

impl Part {
    /// Of the general file (or of convergence barriers).
    pub fn is_general(self) -> bool {
        matches!(self, Part::R | Part::High | Part::Add | Part::AddHigh)
    }
}

/// A unit's input or output: the key of the distance tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Port {
    /// What runs the instruction.
    pub unit: Unit,
    /// Which of its inputs or outputs.
    pub part: Part,
}

impl Port {
    pub(super) const COUNT: usize = Unit::COUNT * Part::COUNT;

    pub(super) const fn new((unit, part): (Unit, Part)) -> Port {
        Port { unit, part }
    }

    pub(super) const fn index(self) -> usize {
        self.unit as usize * Part::COUNT + self.part as usize
    }

    /// A write scoreboard tells when this result is there.
    pub fn is_late_result(self) -> bool {
        self.unit.writes_late()
    }

    /// A scoreboard tells when this source has been read. Guards and predicates are read at issue; so are uniform
    /// registers, except by the uniform units.
    pub fn is_late_source(self) -> bool {
        match self.part {
            Part::P | Part::V | Part::Guard => false,
            Part::U => self.unit == Unit::UniformLate,
            _ => self.unit.reads_late(),
        }
    }
}

/// A run of registers of one file that an instruction touches through one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// `R`, `U`, `P`, `V` or `B`.
    pub file: Kind,
    /// The lowest register.
    pub first: u8,
    /// How many there are.
    pub count: u16,
    /// Read or written.
    pub role: Role,
    /// What it goes through.
    pub port: Port,
}

impl Touch {
    /// The registers as indices below [`REGISTERS`], all files in one numbering.
    pub fn registers(&self) -> Range<usize> {
        let (base, size) = match self.file {
            Kind::R => (0, 256),
            Kind::U => (256, 256),
            Kind::P => (512, 8),
            Kind::V => (520, 8),
            _ => (528, REGISTERS - 528),
        };
        let first = base + usize::from(self.first).min(size);
        first..(first + usize::from(self.count)).min(base + size)
    }

    /// The name of a register of that numbering: `R4`, `UP0`.
    pub fn name(register: usize) -> String {
        match register {
            0..256 => format!("R{register}"),
            256..512 => format!("UR{}", register - 256),
            512..520 => format!("P{}", register - 512),
            520..528 => format!("UP{}", register - 520),
            _ => format!("B{}", register - 528),
        }
    }
}

/// Most touches of one instruction: each operand in two runs, and the guard.
const MAX_TOUCHES: usize = 24;

/// The touches of an instruction, sources first.
pub struct Touches {
    list: [Option<Touch>; MAX_TOUCHES],
    next: usize,
}

impl Touches {
    pub(super) fn of(inst: &Inst, isa: Isa) -> Touches {
        let mut touches = Touches { list: [None; MAX_TOUCHES], next: 0 };
        for_each_touch(inst, Unit::of(inst, isa), |touch| touches.push(touch));
        touches.next = 0;
        touches
    }

    fn push(&mut self, touch: Touch) {
        if let Some(free) = self.list.get_mut(self.next) {
            *free = Some(touch);
            self.next += 1;
        }
    }
}

/// The touches of an instruction that this unit runs, sources first.
pub(super) fn for_each_touch(inst: &Inst, unit: Unit, visit: impl FnMut(Touch)) {
    if inst.guard.predicate == PT && inst.guard.not {
        return; // never executed: a filler
    }
    let mut walk = Walk { inst, visit };
    for role in [Role::Use, Role::Def] {
        walk.add_operands(unit, role);
    }
}

/// A walk over the operands of an instruction.
struct Walk<'a, F> {
    inst: &'a Inst,
    visit: F,
}

impl<F: FnMut(Touch)> Walk<'_, F> {
    fn push(&mut self, touch: Touch) {
        (self.visit)(touch);
    }

    fn add_operands(&mut self, unit: Unit, role: Role) {
        let inst = self.inst;
        if role == Role::Use && inst.guard.predicate != PT {
            let (file, first) = (inst.form().guard, inst.guard.predicate);
            let port = Port { unit, part: Part::Guard };
            self.push(Touch { file, first, count: 1, role, port });
        }
        self.add_packed_predicates(unit, role);
        let mut general = 0;
        for (index, (slot, operand)) in inst.operands().enumerate() {
            let (file, first) = match operand.kind {
                Kind::R | Kind::U | Kind::P | Kind::V | Kind::B => (operand.kind, operand.value as u8),
                Kind::ConstR => (Kind::R, operand.index),
                Kind::ConstU | Kind::Bindless => (Kind::U, operand.index),
                // Immediates and constants take the place of a general source.
                Kind::Signed | Kind::Unsigned | Kind::Float | Kind::Const if slot.role == Role::Use => {
                    general += 1;
                    continue;
                }
                _ => continue,
            };
            if slot.role != role {
                continue;
            }
            let position = general;
            general += usize::from(matches!(file, Kind::R | Kind::U));
            let constant = if matches!(file, Kind::P | Kind::V) { PT } else { 255 };
            if first == constant {
                continue;
            }
            let (low, high) = parts(unit, file, role, position);
            let touch = |first, count, part| Touch { file, first, count, role, port: Port { unit, part } };
            let unused = slot.words.unused;
            let (first, count) =
                (first.saturating_add(unused as u8), inst.words(index).saturating_sub(unused));
            if low == high || count < 2 {
                self.push(touch(first, count, low));
            } else {
                self.push(touch(first, 1, low));
                self.push(touch(first.saturating_add(1), count - 1, high));
            }
        }
    }

    /// P2R and R2P, UP2UR and UR2UP name their predicates by a mask; without one, all.
    fn add_packed_predicates(&mut self, unit: Unit, role: Role) {
        let (file, packed) = match self.inst.op() {
            Op::P2R => (Kind::P, Role::Use),
            Op::R2P => (Kind::P, Role::Def),
            Op::UP2UR => (Kind::V, Role::Use),
            Op::UR2UP => (Kind::V, Role::Def),
            _ => return,
        };
        if role != packed {
            return;
        }
        let mask = self.inst.operands().last().map(|(_, operand)| operand);
        let mask = mask.filter(|mask| mask.kind.is_immediate()).map_or(0x7f, |mask| mask.value & 0x7f);
        let part = if file == Kind::P { Part::P } else { Part::V };
        for first in (0..PT).filter(|p| mask >> p & 1 == 1) {
            self.push(Touch { file, first, count: 1, role, port: Port { unit, part } });
        }
    }
}

/// The parts of the first and of the later words of an operand.
fn parts(unit: Unit, file: Kind, role: Role, position: usize) -> (Part, Part) {
    match (file, role) {
        (Kind::P, _) => (Part::P, Part::P),
        (Kind::V, _) => (Part::V, Part::V),
        (Kind::U, _) => (Part::U, Part::U),
        (_, Role::Def) if unit == Unit::Wide => (Part::R, Part::High),
        (_, Role::Use) if matches!(unit, Unit::Wide | Unit::MulHigh) && position == 2 => {
            (Part::Add, Part::AddHigh)
        }
        (_, Role::Use) if unit.is_matrix() && position == 2 => (Part::Add, Part::Add),
        // A is first where it is in registers; the accumulator is after the descriptors.
        (_, Role::Use) if unit == Unit::Gmma && position > 0 => (Part::Add, Part::Add),
        _ => (Part::R, Part::R),
    }
}

impl Iterator for Touches {
    type Item = Touch;

    fn next(&mut self) -> Option<Touch> {
        let touch = self.list.get(self.next).copied().flatten();
        self.next += 1;
        touch
    }
}
