//! Which registers are live in machine code, and where branches lead.
//!
//! A branch through a register leads to the entries of its table; without one it counts as an end. A guarded write may leave the old value,
//! so it ends no life.

use sass::model::{REGISTERS, Touch};
use sass::{Guard, Inst, Kind, Model, Op, Role, WORD_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;

const WORDS: usize = REGISTERS.div_ceil(64);

/// Where the branches through registers lead, by their indices.
pub type Indirect = BTreeMap<usize, Vec<usize>>;

/// A set of registers, all files in one numbering ([`Touch::registers`]).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers([u64; WORDS]);

/// The files that are counted: their names, and their registers in the numbering.
pub const FILES: [(&str, Range<usize>); 4] =
    [("R", 0..256), ("UR", 256..512), ("P", 512..520), ("UP", 520..528)];

impl Registers {
    fn add(&mut self, other: &Registers) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    fn remove(&mut self, other: &Registers) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
    }

    fn insert(&mut self, register: usize) {
        self.0[register / 64] |= 1 << (register % 64);
    }

    /// The registers of a file, ascending.
    pub fn of(self, file: Range<usize>) -> impl Iterator<Item = usize> {
        file.filter(move |register| self.0[register / 64] >> (register % 64) & 1 == 1)
    }
}

/// Where a branch or `BSSY` at `index` leads, if that is in code of this length.
pub fn target(index: usize, inst: &Inst, length: usize) -> Option<usize> {
    let distance = inst.operands().find(|(slot, _)| slot.kind == Kind::Relative)?.1.value;
    let to = ((index as u64 + 1) * WORD_BYTES).checked_add_signed(distance)?;
    let to = (to % WORD_BYTES == 0).then_some((to / WORD_BYTES) as usize)?;
    (to < length).then_some(to)
}

/// Does control never go on to the next instruction?
pub fn ends_path(inst: &Inst) -> bool {
    // A branch's own predicates and masks make it conditional too.
    let unconditional = inst.guard == Guard::ALWAYS
        && inst.operands().all(|(slot, operand)| match slot.kind {
            Kind::P | Kind::V => i64::from(sass::PT) == operand.value && !operand.is_not(),
            Kind::U => inst.op() != Op::BRA,
            _ => true,
        });
    unconditional && leaves(inst)
}

/// Does control go elsewhere, where the guard holds?
pub fn leaves(inst: &Inst) -> bool {
    matches!(inst.op(), Op::EXIT | Op::BRA | Op::RET | Op::BRX | Op::BRXU | Op::JMP | Op::JMX | Op::JMXU)
}

/// The registers that are live before each instruction. Each set only grows, so the work is at most one visit for each
/// register and way into an instruction.
pub fn live(insts: &[Inst], indirect: &Indirect, model: &Model) -> Vec<Registers> {
    let flow = |(index, inst): (usize, &Inst)| Flow::new(index, inst, insts.len(), model);
    let mut flows: Vec<Flow> = insts.iter().enumerate().map(flow).collect();
    for (branch, targets) in indirect {
        if let Some(flow) = flows.get_mut(*branch) {
            flow.leads_to.extend(targets.iter().copied().filter(|to| *to < insts.len()));
        }
    }
    let mut sources = vec![Vec::new(); flows.len()];
    for (index, flow) in flows.iter().enumerate() {
        flow.leads_to.iter().for_each(|to| sources[*to].push(index));
        if flow.falls_through && index + 1 < flows.len() {
            sources[index + 1].push(index);
        }
    }
    let mut live = vec![Registers::default(); flows.len()];
    let mut open: Vec<usize> = (0..flows.len()).collect();
    while let Some(index) = open.pop() {
        let flow = &flows[index];
        let mut now = Registers::default();
        if let Some(next) = live.get(index + 1).filter(|_| flow.falls_through) {
            now.add(next);
        }
        flow.leads_to.iter().for_each(|to| now.add(&live[*to]));
        now.remove(&flow.writes);
        now.add(&flow.reads);
        if now != live[index] {
            live[index] = now;
            open.extend(&sources[index]);
        }
    }
    live
}

/// What an instruction means to the life of registers.
struct Flow {
    reads: Registers,
    writes: Registers,
    falls_through: bool,
    leads_to: Vec<usize>,
}

impl Flow {
    fn new(index: usize, inst: &Inst, length: usize, model: &Model) -> Flow {
        let (mut reads, mut writes) = (Registers::default(), Registers::default());
        let always = inst.guard == Guard::ALWAYS;
        let touched = |touch: &Touch| touch.registers();
        for touch in model.touches(inst) {
            match touch.role {
                Role::Use => touched(&touch).for_each(|register| reads.insert(register)),
                Role::Def if always => touched(&touch).for_each(|register| writes.insert(register)),
                _ => {}
            }
        }
        // These name a place, but don't go there.
        let names = matches!(inst.op(), Op::BSSY | Op::LEPC | Op::ULEPC);
        Flow {
            reads,
            writes,
            falls_through: !ends_path(inst),
            leads_to: target(index, inst, length).filter(|_| !names).into_iter().collect(),
        }
    }
}
