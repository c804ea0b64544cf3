//! Registers in flight: what the products of a warpgroup (`HGMMA` and kin) read and write while the code goes on.
//!
//! After this pass, in allocated code:
//!
//! * nothing but another product touches a register that a product may still write;
//! * nothing writes a register that a product may still read;
//! * between the last access to a register of a product and the product stands `WARPGROUP.ARRIVE`: the last write to
//!   what it reads or writes, and the last read of what it writes. Where moves of the register allocation have come
//!   between, one is put in, as ptxas does (its message C7519). On an H200 the gradients of an attention kernel were
//!   wrong where registers of a product had been read behind the arrival.
//!
//! * `WARPGROUP.DEPBAR` has an idle instruction before it, which waits for scoreboards in its place: the machine has no
//!   form of it that does (nvdisasm refuses one, and ptxas never makes one).
//!
//! If the first two don't hold, the code is no good, and the function must be compiled without overlap. ptxas does the
//! same (C7509 to C7511).

use crate::context::target::Machine;
use crate::mach::inst::{MachFunction, MachInst, Origin};
use crate::mach::unit::Stop;
use crate::regalloc::reg_set::Registers;
use ori::entity::Entity;
use ori::{Block, Cfg, Function};
use sass::{Inst, Kind, M, Op, Role};

/// More groups than a wait can tell apart.
const GROUPS: usize = 8;

/// What lines read and write. What a product adds to is what it writes: it counts as that alone.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Access {
    reads: Registers,
    writes: Registers,
}

impl Access {
    fn add(&mut self, other: Access) {
        self.reads.add(other.reads);
        self.writes.add(other.writes);
    }

    /// Must a product wait until what others have touched is done with?
    fn needs_arrival(&self, others: &Access) -> bool {
        let touched = others.writes.meets(self.reads) || others.writes.meets(self.writes);
        touched || others.reads.meets(self.writes)
    }
}

/// What may be in flight at a place.
#[derive(Clone, Default, PartialEq, Eq)]
struct State {
    /// Not yet in a group.
    open: Access,
    /// By group, the youngest first.
    groups: [Access; GROUPS],
    /// What other instructions have touched since the last `WARPGROUP.ARRIVE`.
    since: Access,
}

impl State {
    fn join(&mut self, other: &State) {
        self.open.add(other.open);
        self.groups.iter_mut().zip(&other.groups).for_each(|(a, b)| a.add(*b));
        self.since.add(other.since);
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

    /// What a line does to it; an error if the line touches what it must not.
    fn pass(&mut self, line: &MachInst, access: Access) -> Result<(), Touched> {
        let flying = self.all();
        if is_product(line.op) {
            // What it adds to may be in flight, what it multiplies may not. Nor may it write that, or what others read.
            let mut multiplied = flying.reads;
            multiplied.add(access.reads);
            if access.reads.meets(flying.writes) || access.writes.meets(multiplied) {
                return Err(Touched);
            }
            self.open.add(access);
            if line.operands.last() == Some(&sass::operands::name(M::gsb0)) {
                self.commit();
            }
            return Ok(());
        }
        let surely = line.op == Op::WARPGROUP && line.guard == sass::Guard::ALWAYS;
        match line.modifiers.first() {
            Some(M::ARRIVE) if surely => self.since = Access::default(),
            Some(M::DEPBAR) if surely => {
                let most = line.operands.last().map_or(0, |o| o.value as usize);
                self.groups.iter_mut().skip(most).for_each(|g| *g = Access::default());
            }
            _ => {}
        }
        let calls = line.op == Op::CALL && flying != Access::default();
        if calls || access.reads.meets(flying.writes) || access.writes.meets(flying.writes) {
            return Err(Touched);
        }
        if access.writes.meets(flying.reads) {
            return Err(Touched);
        }
        self.since.add(access);
        Ok(())
    }
}

/// Something in flight was touched.
struct Touched;

fn is_product(op: Op) -> bool {
    matches!(op, Op::HGMMA | Op::IGMMA | Op::QGMMA | Op::BGMMA)
}

pub fn run(function: &Function, code: &mut MachFunction, machine: &Machine) -> Result<(), Stop> {
    code.blocks.iter_mut().for_each(idle_before_waits);
    if !code.blocks.iter().flatten().any(|line| is_product(line.op)) {
        return Ok(());
    }
    let mut accesses = Vec::new();
    for lines in &code.blocks {
        accesses.push(lines.iter().map(|l| access(l, machine)).collect::<Result<Vec<_>, _>>()?);
    }
    let Some(starts) = starts(function, code, &accesses) else { return Err(Stop::WgmmaHazard) };
    for &block in &code.order {
        arrivals(&mut code.blocks[block.index()], &accesses[block.index()], starts[block.index()].clone());
    }
    Ok(())
}

fn access(line: &MachInst, machine: &Machine) -> Result<Access, String> {
    let inst = Inst::new(machine.isa, line.op, &line.modifiers, &line.operands).map_err(|e| e.to_string())?;
    let (read, written): (Vec<_>, Vec<_>) =
        inst.registers().filter(|r| r.file == Kind::R).partition(|r| r.role == Role::Use);
    let same = |a: &sass::Access, b: &sass::Access| (a.first, a.count) == (b.first, b.count);
    // The accumulator stands behind what is multiplied.
    let accumulator = read.iter().rposition(|r| is_product(line.op) && written.iter().any(|w| same(r, w)));
    let mut access = Access::default();
    for (_, register) in read.iter().enumerate().filter(|(i, _)| Some(*i) != accumulator) {
        access.reads.add(Registers::of(register.first, register.count));
    }
    written.iter().for_each(|w| access.writes.add(Registers::of(w.first, w.count)));
    Ok(access)
}

/// The state at the beginning of each block. `None` if something in flight is touched.
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
            for (line, access) in code.blocks[at].iter().zip(&accesses[at]) {
                state.pass(line, *access).ok()?;
            }
            changed |= state != ends[at];
            ends[at] = state;
        }
    }
    Some(starts)
}

/// Puts `WARPGROUP.ARRIVE` before the products that need one.
fn arrivals(lines: &mut Vec<MachInst>, accesses: &[Access], mut state: State) {
    let mut out = Vec::new();
    for (line, access) in lines.drain(..).zip(accesses) {
        if is_product(line.op) && access.needs_arrival(&state.since) {
            drop_arrival(&mut out);
            out.push(MachInst::new(Op::WARPGROUP, &[M::ARRIVE], &[], Origin::Frame));
            state.since = Access::default();
        }
        // `starts` has found nothing wrong.
        let _ = state.pass(&line, *access);
        out.push(line);
    }
    *lines = out;
}

fn idle_before_waits(lines: &mut Vec<MachInst>) {
    let waits = |l: &MachInst| l.op == Op::WARPGROUP && l.modifiers.first() == Some(&M::DEPBAR);
    for at in (0..lines.len()).rev().filter(|at| waits(&lines[*at])).collect::<Vec<_>>() {
        let idle = MachInst { at: lines[at].at, ..MachInst::new(Op::NOP, &[], &[], Origin::Frame) };
        lines.insert(at, idle);
    }
}

/// An arrival that no product follows is of no use any more.
fn drop_arrival(lines: &mut Vec<MachInst>) {
    let arrives = |l: &MachInst| l.op == Op::WARPGROUP && l.modifiers.first() == Some(&M::ARRIVE);
    let last = lines.iter().rposition(|l| is_product(l.op) || arrives(l));
    if let Some(at) = last.filter(|at| arrives(&lines[*at]) && lines[*at].guard == sass::Guard::ALWAYS) {
        lines.remove(at);
    }
}
