//! What is counted in the code of one section.

use ori::cfg::Blocks;
use ori::entity::Entity;
use ori::{Block, Cfg, Loop, LoopForest};
use sass::{Inst, Kind, M, Op, PT, RZ, Role, WORD_BYTES};
use sim::verify::Code;
use std::collections::BTreeMap;

/// A column of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    Instructions,
    InInnermostLoops,
    Dead,
    Moves,
    Convergence,
    GuardedMemory,
    S2r,
    LdcInLoops,
    R2urInLoops,
    Uniform,
    UniformOperands,
    WideByZero,
    Loops,
    UnconditionalBackEdges,
    LoopsWithLoads,
    LoadsInFlight,
}

pub const COLUMNS: [(Column, &str); 16] = [
    (Column::Instructions, "instructions"),
    (Column::InInnermostLoops, "in innermost loops"),
    (Column::Dead, "dead"),
    (Column::Moves, "register moves"),
    (Column::Convergence, "BSSY + BSYNC"),
    (Column::GuardedMemory, "guarded memory"),
    (Column::S2r, "S2R"),
    (Column::LdcInLoops, "LDC in loops"),
    (Column::R2urInLoops, "R2UR in loops"),
    (Column::Uniform, "uniform"),
    (Column::UniformOperands, "UR operands"),
    (Column::WideByZero, "IMAD.WIDE + RZ"),
    (Column::Loops, "loops"),
    (Column::UnconditionalBackEdges, "unconditional back edges"),
    (Column::LoopsWithLoads, "innermost loops with loads"),
    (Column::LoadsInFlight, "loads in flight in them"),
];

#[derive(Clone, Default)]
pub struct Count {
    columns: BTreeMap<Column, usize>,
    pub by_operation: BTreeMap<String, usize>,
}

impl Count {
    pub fn of(&self, column: Column) -> usize {
        self.columns.get(&column).copied().unwrap_or(0)
    }

    fn add(&mut self, column: Column, count: usize) {
        *self.columns.entry(column).or_default() += count;
    }

    pub fn sum(&mut self, other: &Count) {
        for (column, count) in &other.columns {
            self.add(*column, *count);
        }
        for (operation, count) in &other.by_operation {
            *self.by_operation.entry(operation.clone()).or_default() += count;
        }
    }

    /// Counts in a section, up to the branch to itself that stands before the padding.
    pub fn add_section(&mut self, code: &Code) {
        let mut insts = &code.insts[..];
        if let Some(end) = insts.iter().enumerate().rposition(|(at, inst)| target(inst, at) == Some(at)) {
            insts = &insts[..end];
        }
        for inst in insts {
            self.add(Column::Instructions, 1);
            *self.by_operation.entry(inst.op().name().to_string()).or_default() += 1;
            self.add(Column::Moves, usize::from(is_move(inst)));
            self.add(Column::Convergence, usize::from(matches!(inst.op(), Op::BSSY | Op::BSYNC)));
            self.add(Column::GuardedMemory, usize::from(is_guarded(inst) && is_memory(inst.op())));
            self.add(Column::S2r, usize::from(inst.op() == Op::S2R));
            self.add(Column::WideByZero, usize::from(is_wide_by_zero(inst)));
            if is_uniform(inst.op()) {
                self.add(Column::Uniform, 1);
            } else {
                self.add(Column::UniformOperands, uses(inst, Kind::U).count());
            }
        }
        let flow = Flow::of(code, insts);
        self.add(Column::Dead, flow.dead(insts));
        self.add_loops(&flow, insts);
    }

    fn add_loops(&mut self, flow: &Flow, insts: &[Inst]) {
        let cfg = Cfg::of_successors(flow.succs.clone());
        let forest = LoopForest::new(&cfg);
        for (block, range) in flow.blocks.iter().enumerate() {
            if forest.innermost(Block::new(block)).is_some() {
                let count = |op| insts[range.clone()].iter().filter(|inst| inst.op() == op).count();
                self.add(Column::LdcInLoops, count(Op::LDC));
                self.add(Column::R2urInLoops, count(Op::R2UR));
            }
        }
        for (id, l) in forest.iter() {
            self.add(Column::Loops, 1);
            let last = |block: &Block| flow.blocks[block.index()].end - 1;
            let jumps = |at: usize| insts[at].op() == Op::BRA && !is_conditional(&insts[at]);
            self.add(
                Column::UnconditionalBackEdges,
                l.latches.iter().map(last).filter(|&at| jumps(at)).count(),
            );
            if forest.iter().any(|(_, other)| other.parent == Some(id)) {
                continue;
            }
            let body = body(l, flow, insts);
            self.add(Column::InInnermostLoops, body.len());
            let in_flight = most_in_flight(&body);
            self.add(Column::LoopsWithLoads, usize::from(in_flight > 0));
            self.add(Column::LoadsInFlight, in_flight);
        }
    }
}

/// The instructions of a loop, in the order of their addresses.
fn body<'a>(l: &Loop, flow: &Flow, insts: &'a [Inst]) -> Vec<&'a Inst> {
    let mut blocks: Vec<usize> = l.blocks.iter().map(|block| block.index()).collect();
    blocks.sort_unstable();
    blocks.iter().flat_map(|&block| &insts[flow.blocks[block].clone()]).collect()
}

/// How many loads from global memory are under way at once, at the most: a load is, until its result is read. Loads
/// answer in order.
fn most_in_flight(body: &[&Inst]) -> usize {
    let (mut most, mut loads) = (0, Vec::new());
    for inst in body {
        let reads: Vec<usize> = touched(inst, Role::Use).collect();
        let waited = |load: &Vec<usize>| load.iter().any(|register| reads.contains(register));
        if let Some(last) = loads.iter().rposition(waited) {
            loads.drain(..=last);
        }
        if matches!(inst.op(), Op::LDG | Op::LD) {
            loads.push(touched(inst, Role::Def).collect());
            most = most.max(loads.len());
        }
    }
    most
}

/// Basic blocks of a section.
struct Flow {
    blocks: Vec<std::ops::Range<usize>>,
    succs: Vec<Blocks>,
    /// All registers count as read after the block: it calls, or returns to, code that is not followed.
    leaves: Vec<bool>,
}

impl Flow {
    fn of(code: &Code, insts: &[Inst]) -> Flow {
        let mut meeting: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (at, inst) in insts.iter().enumerate().filter(|(_, inst)| inst.op() == Op::BSSY) {
            meeting.entry(barrier(inst)).or_default().extend(target(inst, at));
        }
        let jumps = |at: usize| -> Vec<usize> {
            match insts[at].op() {
                Op::BRX | Op::BRXU | Op::JMX | Op::JMXU => {
                    code.indirect.get(&at).cloned().unwrap_or_default()
                }
                // Compilers put BSYNC right before the meeting point, or name it as that point.
                Op::BSYNC => match meeting.get(&barrier(&insts[at])) {
                    Some(targets) if targets.contains(&at) || targets.contains(&(at + 1)) => vec![at + 1],
                    targets => targets.cloned().unwrap_or_default(),
                },
                Op::BRA | Op::CALL | Op::WARPSYNC => target(&insts[at], at).into_iter().collect(),
                _ => Vec::new(),
            }
        };
        let ends = |inst: &Inst| {
            use Op::*;
            matches!(inst.op(), BRA | BRX | BRXU | JMX | JMXU | CALL | RET | EXIT | BSYNC | WARPSYNC)
        };
        let mut starts = std::collections::BTreeSet::from([0]);
        for (at, _) in insts.iter().enumerate().filter(|(_, inst)| ends(inst)) {
            starts.insert(at + 1);
            starts.extend(jumps(at));
        }
        let starts: Vec<usize> = starts.into_iter().filter(|&start| start < insts.len()).collect();
        let end = |block: usize| starts.get(block + 1).copied().unwrap_or(insts.len());
        let blocks: Vec<_> = (0..starts.len()).map(|block| starts[block]..end(block)).collect();
        let (mut succs, mut leaves) = (Vec::new(), Vec::new());
        for range in &blocks {
            let at = range.end - 1;
            let inst = &insts[at];
            let mut to = if ends(inst) { jumps(at) } else { Vec::new() };
            let stays = match inst.op() {
                Op::EXIT | Op::RET | Op::BRA => is_conditional(inst),
                Op::BRX | Op::BRXU | Op::JMX | Op::JMXU => is_guarded(inst),
                _ => true,
            };
            to.extend(stays.then_some(range.end));
            to.sort_unstable();
            to.dedup();
            let block_at = |at: &usize| starts.binary_search(at).ok().map(Block::new);
            succs.push(to.iter().filter_map(block_at).collect());
            leaves.push(inst.op() == Op::RET || inst.op() == Op::CALL && target(inst, at).is_none());
        }
        Flow { blocks, succs, leaves }
    }

    /// Instructions without another effect than results that nobody reads.
    fn dead(&self, insts: &[Inst]) -> usize {
        let mut live_in = vec![Registers::default(); self.blocks.len()];
        loop {
            let (before, mut dead) = (live_in.clone(), 0);
            for block in (0..self.blocks.len()).rev() {
                let mut live = Registers::default();
                if self.leaves[block] {
                    live = Registers([!0; WORDS]);
                }
                for next in &self.succs[block] {
                    live.add(&live_in[next.index()]);
                }
                for inst in insts[self.blocks[block].clone()].iter().rev() {
                    let results = || touched(inst, Role::Def);
                    if is_pure(inst) && results().next().is_some() && !results().any(|r| live.contains(r)) {
                        dead += 1;
                        continue;
                    }
                    if !is_guarded(inst) {
                        results().for_each(|register| live.remove(register));
                    }
                    touched(inst, Role::Use).for_each(|register| live.insert(register));
                }
                live_in[block] = live;
            }
            if live_in == before {
                return dead;
            }
        }
    }
}

const WORDS: usize = 6;

/// A set of registers of all files.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Registers([u64; WORDS]);

impl Registers {
    fn insert(&mut self, register: usize) {
        self.0[register / 64] |= 1 << (register % 64);
    }

    fn remove(&mut self, register: usize) {
        self.0[register / 64] &= !(1 << (register % 64));
    }

    fn contains(&self, register: usize) -> bool {
        self.0[register / 64] >> (register % 64) & 1 == 1
    }

    fn add(&mut self, other: &Registers) {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
    }
}

/// The registers that an instruction reads or writes: R from 0, UR from 256, then predicates of both kinds, B last.
fn touched(inst: &Inst, role: Role) -> impl Iterator<Item = usize> {
    inst.registers().filter(move |access| access.role == role).flat_map(|access| {
        let first = usize::from(access.first);
        let base = match access.file {
            Kind::R => 0,
            Kind::U => return (256 + first.min(63))..(256 + (first + usize::from(access.count)).min(64)),
            Kind::P => 320,
            Kind::V => 328,
            _ => 336,
        };
        base + first..base + first + usize::from(access.count)
    })
}

fn uses(inst: &Inst, kind: Kind) -> impl Iterator<Item = i64> {
    let is_used = move |slot: &sass::Slot, o: &sass::Operand| o.kind == kind && slot.role == Role::Use;
    let used = inst.operands().filter(move |(slot, operand)| is_used(slot, operand));
    used.map(|(_, operand)| operand.value).filter(move |&value| kind != Kind::U || value != i64::from(RZ))
}

fn barrier(inst: &Inst) -> i64 {
    inst.operands().find(|(_, operand)| operand.kind == Kind::B).map_or(-1, |(_, operand)| operand.value)
}

/// The index of the instruction that a relative operand names.
fn target(inst: &Inst, at: usize) -> Option<usize> {
    let (_, operand) = inst.operands().find(|(_, operand)| operand.kind == Kind::Relative)?;
    let address = (at as i64 + 1).checked_mul(WORD_BYTES as i64)?.checked_add(operand.value)?;
    usize::try_from(address / WORD_BYTES as i64).ok()
}

fn is_guarded(inst: &Inst) -> bool {
    inst.guard.predicate != PT || inst.guard.not
}

/// Some threads may go on after the instruction.
fn is_conditional(inst: &Inst) -> bool {
    let by_operand = inst.operands().any(|(slot, operand)| match operand.kind {
        Kind::P | Kind::V => slot.role == Role::Use && (operand.value != i64::from(PT) || operand.is_not()),
        Kind::U => true,
        _ => false,
    });
    is_guarded(inst) || by_operand || inst.has(M::DIV) || inst.has(M::CONV)
}

fn is_memory(op: Op) -> bool {
    let name = op.name();
    ["LD", "ST", "ATOM", "RED"].iter().any(|start| name.starts_with(start))
        && !matches!(op, Op::LDC | Op::LDCU | Op::REDUX)
        && !name.starts_with("LDGDEPBAR")
}

fn is_uniform(op: Op) -> bool {
    op.name().starts_with('U') || matches!(op, Op::S2UR | Op::R2UR | Op::LDCU)
}

/// Of one register to another of the same file.
fn is_move(inst: &Inst) -> bool {
    let file = match inst.op() {
        Op::MOV => Kind::R,
        Op::IMAD if inst.has(M::MOV) => Kind::R,
        Op::UMOV => Kind::U,
        _ => return false,
    };
    uses(inst, file).any(|register| register != i64::from(RZ))
}

fn is_wide_by_zero(inst: &Inst) -> bool {
    inst.op() == Op::IMAD
        && inst.has(M::WIDE)
        && uses(inst, Kind::R).last() == Some(i64::from(RZ))
        && inst.operands().filter(|(slot, o)| slot.role == Role::Use && o.kind == Kind::R).count() > 1
}

/// Whether an instruction has no other effect than its results. Of operations with effects on memory or on other
/// threads, none.
fn is_pure(inst: &Inst) -> bool {
    use sass::Class::*;
    let is_ordered =
        || inst.modifiers().any(|m| m.name().starts_with("STRONG") || m.name().starts_with("MMIO"));
    let is_clock = || ["CLOCK", "TIMER", "PM"].iter().any(|name| inst.to_string().contains(name));
    match inst.op() {
        Op::LDC | Op::ULDC | Op::LDCU | Op::LDS | Op::LDL => true,
        Op::LDG | Op::LD => !is_ordered(),
        Op::S2R | Op::S2UR => !is_clock(),
        Op::VOTE | Op::VOTEU | Op::ELECT | Op::BMOV | Op::CS2R | Op::R2UR => false,
        _ => matches!(inst.form().class, Alu | Fma | Wide | Half | Hmma2 | Double | Fp64 | Xu | Uniform),
    }
}
