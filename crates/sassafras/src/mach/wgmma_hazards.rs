//! Hazards of outstanding wgmma: the registers that an asynchronous MMA of a warpgroup (`HGMMA` and kin) reads and writes
//! while the code runs on. A forward dataflow over blocks tracks them by group.
//!
//! ```text
//! WARPGROUP.ARRIVE                             MOV R24, R4
//! MOV R24, R4                             =>   WARPGROUP.ARRIVE
//! HGMMA.64x8x16.F32 R24, gdesc[UR4], R24       HGMMA.64x8x16.F32 R24, gdesc[UR4], R24
//! ```
//!
//! After this pass, in allocated code:
//!
//! * no instruction but another wgmma accesses a register that a wgmma may still write;
//! * no instruction writes a register that a wgmma may still read;
//! * `WARPGROUP.ARRIVE` is between the last access to a register of a wgmma and the wgmma: the last write to what it
//!   reads or writes, and the last read of what it writes. Where moves of the register allocator are in between, one is
//!   inserted, as ptxas does (its message C7519). On an H200 the gradients of an attention kernel were wrong where
//!   registers of a wgmma had been read after the arrival.
//! * `WARPGROUP.DEPBAR` has a NOP before it, which waits for scoreboards in its stead: the machine has no form of it that
//!   does (nvdisasm refuses one, and ptxas never makes one).
//!
//! If the first two don't hold, the function must be compiled with serialized wgmma. ptxas does the same (C7509 to
//! C7511). Cost: the code times the iterations to the fixpoint; functions without wgmma are only searched for waits.

use crate::context::target::TargetMachine;
use crate::context::{Context, PassError, PassResult};
use crate::mach::inst::{MachFunction, MachInst, Origin};
use crate::mach::unit::Unit;
use crate::regalloc::reg_set::RegSet;
use ori::entity::Entity;
use ori::{Block, Cfg, Function};
use sass::{Inst, Kind, M, Op, Role, SelectError};

/// More groups than a wait can tell apart.
const GROUPS: usize = 8;

/// What instructions read and write. The accumulator of a wgmma counts as written alone.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Access {
    reads: RegSet,
    writes: RegSet,
}

impl Access {
    fn add(&mut self, other: Access) {
        self.reads.add(other.reads);
        self.writes.add(other.writes);
    }

    /// Must a wgmma wait for the accesses of others?
    fn needs_arrival(&self, others: &Access) -> bool {
        let touched = others.writes.meets(self.reads) || others.writes.meets(self.writes);
        touched || others.reads.meets(self.writes)
    }
}

/// What may be outstanding at a program point.
#[derive(Clone, Default, PartialEq, Eq)]
struct State {
    /// Not yet in a group.
    open: Access,
    /// By group, the youngest first.
    groups: [Access; GROUPS],
    /// What other instructions have accessed since the last `WARPGROUP.ARRIVE`.
    since_arrival: Access,
}

impl State {
    fn join(&mut self, other: &State) {
        self.open.add(other.open);
        self.groups.iter_mut().zip(&other.groups).for_each(|(a, b)| a.add(*b));
        self.since_arrival.add(other.since_arrival);
    }

    fn all(&self) -> Access {
        self.groups.iter().fold(self.open, |mut all, group| {
            all.add(*group);
            all
        })
    }

    fn commit(&mut self) {
        let oldest = self.groups[GROUPS - 1];
        self.groups.rotate_right(1);
        self.groups[0] = std::mem::take(&mut self.open);
        self.groups[GROUPS - 1].add(oldest);
    }

    /// The transfer function of an instruction; an error if it accesses what it must not.
    fn transfer(&mut self, inst: &MachInst, access: Access) -> Result<(), Hazard> {
        let outstanding = self.all();
        if inst.op.is_wgmma() {
            // Its accumulator may be outstanding, its factors may not. Nor may it write these, or what others read.
            let mut factors = outstanding.reads;
            factors.add(access.reads);
            if access.reads.meets(outstanding.writes) || access.writes.meets(factors) {
                return Err(Hazard);
            }
            self.open.add(access);
            if inst.operands.last() == Some(&sass::operands::name(M::gsb0)) {
                self.commit();
            }
            return Ok(());
        }
        let always = inst.op == Op::WARPGROUP && inst.guard == sass::Guard::ALWAYS;
        match inst.modifiers.first() {
            Some(M::ARRIVE) if always => self.since_arrival = Access::default(),
            Some(M::DEPBAR) if always => {
                let most = inst.operands.last().map_or(0, |o| o.value as usize);
                self.groups.iter_mut().skip(most).for_each(|g| *g = Access::default());
            }
            _ => {}
        }
        let calls = inst.op == Op::CALL && outstanding != Access::default();
        if calls || access.reads.meets(outstanding.writes) || access.writes.meets(outstanding.writes) {
            return Err(Hazard);
        }
        if access.writes.meets(outstanding.reads) {
            return Err(Hazard);
        }
        self.since_arrival.add(access);
        Ok(())
    }
}

/// A register of an outstanding wgmma is accessed.
struct Hazard;

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    let (function, code, machine) = (&unit.kernel.code, &mut unit.code, context.machine);
    code.blocks.iter_mut().for_each(nops_before_waits);
    if !code.blocks.iter().flatten().any(|inst| inst.op.is_wgmma()) {
        return Ok(());
    }
    let mut accesses = Vec::new();
    for insts in &code.blocks {
        accesses.push(insts.iter().map(|inst| access(inst, machine)).collect::<Result<Vec<_>, _>>()?);
    }
    let Some(starts) = starts(function, code, &accesses) else { return Err(PassError::WgmmaHazard) };
    for &block in &code.order {
        arrivals(&mut code.blocks[block.index()], &accesses[block.index()], starts[block.index()].clone());
    }
    Ok(())
}

fn access(inst: &MachInst, machine: &TargetMachine) -> Result<Access, SelectError> {
    let selected = Inst::new(machine.isa, inst.op, &inst.modifiers, &inst.operands)?;
    let (read, written): (Vec<_>, Vec<_>) =
        selected.registers().filter(|r| r.file == Kind::R).partition(|r| r.role == Role::Use);
    let same = |a: &sass::Access, b: &sass::Access| (a.first, a.count) == (b.first, b.count);
    // The accumulator is the operand after the factors.
    let accumulator = read.iter().rposition(|r| inst.op.is_wgmma() && written.iter().any(|w| same(r, w)));
    let mut access = Access::default();
    for (_, register) in read.iter().enumerate().filter(|(i, _)| Some(*i) != accumulator) {
        access.reads.add(RegSet::of(register.first, register.count));
    }
    written.iter().for_each(|w| access.writes.add(RegSet::of(w.first, w.count)));
    Ok(access)
}

/// The state at the beginning of each block. `None` if a register of an outstanding wgmma is accessed.
fn starts(function: &Function, code: &MachFunction, accesses: &[Vec<Access>]) -> Option<Vec<State>> {
    let cfg = Cfg::new(function);
    let mut starts = vec![State::default(); code.blocks.len()];
    let mut ends = starts.clone();
    let mut changed = true;
    while changed {
        changed = false;
        for &block in &code.order {
            let at = block.index();
            let mut state = State::default();
            cfg.preds[at].iter().for_each(|p: &Block| state.join(&ends[p.index()]));
            starts[at] = state.clone();
            for (inst, access) in code.blocks[at].iter().zip(&accesses[at]) {
                state.transfer(inst, *access).ok()?;
            }
            changed |= state != ends[at];
            ends[at] = state;
        }
    }
    Some(starts)
}

/// Inserts `WARPGROUP.ARRIVE` before the wgmma that need one.
fn arrivals(insts: &mut Vec<MachInst>, accesses: &[Access], mut state: State) {
    let mut out = Vec::new();
    for (inst, access) in insts.drain(..).zip(accesses) {
        if inst.op.is_wgmma() && access.needs_arrival(&state.since_arrival) {
            drop_arrival(&mut out);
            out.push(MachInst::new(Op::WARPGROUP, &[M::ARRIVE], &[], Origin::Frame));
            state.since_arrival = Access::default();
        }
        // `starts` has found nothing wrong.
        let _ = state.transfer(&inst, *access);
        out.push(inst);
    }
    *insts = out;
}

fn nops_before_waits(insts: &mut Vec<MachInst>) {
    let waits = |inst: &MachInst| inst.op == Op::WARPGROUP && inst.modifiers.first() == Some(&M::DEPBAR);
    for at in (0..insts.len()).rev().filter(|at| waits(&insts[*at])).collect::<Vec<_>>() {
        let nop = MachInst { at: insts[at].at, ..MachInst::new(Op::NOP, &[], &[], Origin::Frame) };
        insts.insert(at, nop);
    }
}

/// An arrival that no wgmma follows has no effect.
fn drop_arrival(insts: &mut Vec<MachInst>) {
    let arrives = |inst: &MachInst| inst.op == Op::WARPGROUP && inst.modifiers.first() == Some(&M::ARRIVE);
    let last = insts.iter().rposition(|inst| inst.op.is_wgmma() || arrives(inst));
    if let Some(at) = last.filter(|at| arrives(&insts[*at]) && insts[*at].guard == sass::Guard::ALWAYS) {
        insts.remove(at);
    }
}
