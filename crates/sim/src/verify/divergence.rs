//! Where the threads of a warp may diverge, and what each side may run until they converge.
//!
//! Threads diverge at a branch whose condition, or whose target, may differ between threads that are together there. Those
//! of each side then run by themselves, in any order, up to where they wait for the others: BSYNC with a barrier that
//! all of them have entered and none has left (BREAK), and WARPSYNC.ALL.
//!
//! What may differ is found from the optimistic side, along all paths:
//! * the index of the thread differs, and what is read from its own memory, atomics, shuffles, and results of matrix
//!   instructions; votes, and what is read from one address, are the same for all that run them together;
//! * so does what is computed from something that differs;
//! * where the threads of two sides come together, so does every register and every word of the stack that was written
//!   since they diverged, unless it holds a value from before or a constant (`values.rs`).
//!
//! A branch that is only taken by all threads or by none (BRA.U, BRA.DIV, BRA.CONV) is not divergent, nor is EXIT: those
//! who stay are still together.

use super::differing::{Differing, changed_bits, result_bits};
use super::flow::{Context, Contexts, Flow};
use super::set::Registers;
use super::stack::{Access, Stack};
use super::values::{self, Location, Region, Values};
use super::{Code, Node};
use sass::model::Touch;
use sass::{Guard, Inst, Kind, M, Model, Op, Operand, RZ, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Blocks in their contexts.
pub struct Graph {
    pub nodes: Vec<Node>,
    /// Where each goes: targets first, then the next block.
    pub to: Vec<Vec<usize>>,
    /// Those that are entered from outside of the section, or by no instruction that is known.
    pub entries: Vec<usize>,
}

impl Graph {
    pub fn of(flow: &Flow) -> Graph {
        let mut contexts = Contexts::default();
        let mut found: BTreeSet<Node> = BTreeSet::new();
        let mut entries = Vec::new();
        for block in 0..flow.blocks() {
            if found.iter().any(|(_, known)| *known == block) {
                continue;
            }
            entries.push((Context::ROOT, block));
            let mut open = vec![(Context::ROOT, block)];
            while let Some(node) = open.pop() {
                if !found.insert(node) {
                    continue;
                }
                let successors = flow.successors(node.0, node.1, &mut contexts);
                open.extend(successors.to);
                if let Some(context) = successors.again {
                    // Its returns go to one place more.
                    let returns: Vec<Node> =
                        found.iter().copied().filter(|(c, b)| *c == context && flow.returns(*b)).collect();
                    for node in returns {
                        found.remove(&node);
                        open.push(node);
                    }
                }
            }
        }
        let nodes: Vec<Node> = found.into_iter().collect();
        let number = |node: Node| nodes.binary_search(&node).ok();
        let to = nodes.iter().map(|&(context, block)| {
            let mut to = Vec::new();
            for next in flow.successors(context, block, &mut contexts).to.into_iter().filter_map(number) {
                if !to.contains(&next) {
                    to.push(next);
                }
            }
            to
        });
        let to = to.collect();
        Graph { to, entries: entries.into_iter().filter_map(number).collect(), nodes }
    }

    pub fn block(&self, node: usize) -> usize {
        self.nodes[node].1
    }
}

/// What happens to a convergence barrier.
#[derive(Clone, Copy)]
enum Step {
    Enter(u16),
    Leave(u16),
    Keep(u16),
    Restore(u16),
}

/// What a block does to the barriers, and how it ends.
#[derive(Default)]
struct Barriers {
    steps: Vec<Step>,
    /// Barriers that those who take the branch at the end have left, and those who go on.
    left_by_taken: u16,
    left_by_others: u16,
    /// The barrier of BSYNC.
    meets: u16,
    meets_all: bool,
}

/// Barriers as bits: those that are entered, and those that are kept elsewhere (BMOV) to be restored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entered {
    now: u16,
    kept: u16,
}

impl Entered {
    /// `own` is whether a barrier that is entered counts.
    fn step(&mut self, step: Step, own: bool) {
        match step {
            Step::Enter(barrier) if own => self.now |= barrier,
            Step::Enter(barrier) | Step::Leave(barrier) => self.now &= !barrier,
            Step::Keep(barrier) => self.kept |= self.now & barrier,
            Step::Restore(barrier) => self.now |= self.kept & barrier,
        }
    }
}

/// Threads that go one way, and all that they may run before they wait for those that went another.
pub struct Side {
    pub start: usize,
    pub nodes: Vec<usize>,
    /// Those of the nodes at whose end they wait for the others.
    pub stops: Vec<usize>,
}

/// A branch at which threads diverge.
pub struct Divergence {
    pub sides: Vec<Side>,
}

pub struct Threads<'a> {
    code: &'a Code,
    flow: &'a Flow,
    graph: &'a Graph,
    barriers: Vec<Barriers>,
    /// By node: barriers that all have entered at the end, before a BSYNC there.
    entered: Vec<Entered>,
    /// By block: what its threads write of their own.
    written: Vec<Differing>,
    touches: Vec<Vec<Touch>>,
    /// Where they have been asked for, the values that registers hold.
    values: Option<Values>,
}

impl<'a> Threads<'a> {
    pub fn new(model: &Model, code: &'a Code, flow: &'a Flow, graph: &'a Graph) -> Threads<'a> {
        let touches: Vec<Vec<Touch>> = code.insts.iter().map(|inst| model.touches(inst).collect()).collect();
        let blocks = 0..flow.blocks();
        let barriers = blocks.clone().map(|block| Barriers::of(&code.insts[flow.block(block)])).collect();
        let written = |block: usize| {
            let mut written = Differing::default();
            for index in flow.block(block) {
                let registers =
                    touches[index].iter().filter(is_written_by_threads).flat_map(Touch::registers);
                registers.for_each(|r| written.add_bits(r, changed_bits(&code.insts[index], r)));
            }
            written
        };
        let written = blocks.map(written).collect();
        let mut threads =
            Threads { code, flow, graph, barriers, entered: Vec::new(), written, touches, values: None };
        threads.entered = threads.find_entered();
        threads
    }

    /// Numbers the values, so that not all that is written where threads have diverged counts as different.
    pub fn number_values(&mut self) {
        self.values = Some(Values::new(&self.code.insts, &self.touches, self.flow, self.graph));
    }

    /// Every branch at which threads may diverge.
    pub fn divergences(&self) -> Vec<Divergence> {
        let mut divergences: BTreeMap<usize, Divergence> = BTreeMap::new();
        // By node: registers that differ there because threads come together.
        let mut mixed = vec![Differing::default(); self.graph.nodes.len()];
        let mut stack = Stack::default();
        loop {
            let before = (divergences.len(), stack.clone());
            divergences.values().for_each(|divergence| self.mix(divergence, &mut mixed, &mut stack));
            for (node, differs) in self.differing(&mixed, &mut stack).into_iter().enumerate() {
                if !divergences.contains_key(&node) && self.diverges(node, &differs) {
                    divergences.insert(node, self.divergence_at(node));
                }
            }
            if before == (divergences.len(), stack.clone()) {
                return divergences.into_values().collect();
            }
        }
    }

    fn insts(&self, node: usize) -> Range<usize> {
        self.flow.block(self.graph.block(node))
    }

    /// The barriers that every thread has entered, whatever way it came.
    fn find_entered(&self) -> Vec<Entered> {
        let nodes = self.graph.nodes.len();
        let mut starts: Vec<Option<Entered>> = vec![None; nodes];
        let mut ends = vec![Entered { now: 0, kept: 0 }; nodes];
        let mut open: BTreeSet<usize> = self.graph.entries.iter().copied().collect();
        self.graph.entries.iter().for_each(|entry| starts[*entry] = Some(ends[*entry]));
        while let Some(node) = open.pop_first() {
            let Some(mut state) = starts[node] else { continue };
            let barriers = &self.barriers[self.graph.block(node)];
            barriers.steps.iter().for_each(|step| state.step(*step, true));
            ends[node] = state;
            state.now &= !barriers.meets;
            for (place, &next) in self.graph.to[node].iter().enumerate() {
                let on = Entered { now: state.now & !barriers.left_by(place), ..state };
                let merged = starts[next]
                    .map_or(on, |known| Entered { now: known.now & on.now, kept: known.kept & on.kept });
                if starts[next] != Some(merged) {
                    starts[next] = Some(merged);
                    open.insert(next);
                }
            }
        }
        ends
    }

    /// By node: the registers that may differ between threads that are together at its end.
    fn differing(&self, mixed: &[Differing], stack: &mut Stack) -> Vec<Differing> {
        let nodes = self.graph.nodes.len();
        let mut starts = mixed.to_vec();
        let mut ends = vec![Differing::default(); nodes];
        let all = Differing::from((0..256).chain(512..520).collect::<Registers>());
        // A kernel begins with nothing in registers, a function with anything.
        let returns = |node: usize| self.flow.leaves(self.graph.nodes[node].0, self.graph.block(node));
        let is_function = (0..nodes).any(|node| self.flow.keeps(self.graph.block(node)) && returns(node));
        for entry in self.graph.entries.iter().filter(|_| is_function) {
            starts[*entry].add(&all);
        }
        let mut open: BTreeSet<usize> = (0..nodes).collect();
        while let Some(node) = open.pop_first() {
            let mut state = starts[node].clone();
            self.insts(node).for_each(|index| self.differ(index, &mut state, stack));
            if !self.flow.keeps(self.graph.block(node)) {
                state.add(&all);
            }
            for &next in &self.graph.to[node] {
                if starts[next].add(&state) {
                    open.insert(next);
                }
            }
            ends[node] = state;
        }
        ends
    }

    /// What differs after an instruction.
    fn differ(&self, index: usize, state: &mut Differing, stack: &mut Stack) {
        let (inst, touches) = (&self.code.insts[index], &self.touches[index]);
        let is_read = |touch: &&Touch| touch.role == Role::Use;
        let sources = match values::copied(inst) {
            // It may name another register, and multiply it by zero.
            Some(source) => state.contains(source),
            None => touches.iter().filter(is_read).any(|t| t.registers().any(|r| state.contains(r))),
        };
        let differs = match origin(inst) {
            Origin::Warp => false,
            Origin::Arguments => sources,
            Origin::Stack => sources || stack.differs(inst),
            Origin::Thread => true,
        };
        if inst.op() == Op::STL && sources {
            stack.add(inst);
        }
        let guard = usize::from(inst.guard.predicate) + 512;
        let some = inst.guard != Guard::ALWAYS && inst.form().guard == Kind::P && state.contains(guard);
        let bits = result_bits(inst, state, differs).unwrap_or(if differs { u32::MAX } else { 0 });
        for touch in touches.iter().filter(is_written_by_threads) {
            let bits = if touch.file == Kind::P && bits != 0 { u32::MAX } else { bits };
            for register in touch.registers() {
                let kept = if inst.guard == Guard::ALWAYS { 0 } else { state.bits(register) };
                let changed = if some { changed_bits(inst, register) } else { 0 };
                state.set(register, bits | kept | changed);
            }
        }
    }

    /// May threads diverge at the end of a node?
    fn diverges(&self, node: usize, differs: &Differing) -> bool {
        let Some(last) = self.insts(node).last() else { return false };
        let inst = &self.code.insts[last];
        let together = [M::U, M::DIV, M::CONV].into_iter().any(|m| inst.has(m));
        let branches = matches!(inst.op(), Op::BRA | Op::BRX | Op::JMP | Op::JMX | Op::CALL);
        let reads = || self.touches[last].iter().filter(|touch| touch.role == Role::Use);
        branches
            && !together
            && self.graph.to[node].len() > 1
            && reads().any(|touch| touch.registers().any(|r| differs.contains(r)))
    }

    fn divergence_at(&self, node: usize) -> Divergence {
        let barriers = &self.barriers[self.graph.block(node)];
        // Who has left a barrier doesn't come there, and is not waited for.
        let left = barriers.left_by_taken | barriers.left_by_others;
        let entered = self.entered[node];
        let common = Entered { now: entered.now & !left, kept: entered.kept & !left };
        Divergence { sides: self.graph.to[node].iter().map(|&start| self.side(start, common)).collect() }
    }

    /// All that threads may run from a node on, before a barrier that they have in common with others.
    fn side(&self, start: usize, common: Entered) -> Side {
        let (mut nodes, mut stops) = (BTreeSet::new(), BTreeSet::new());
        let mut seen = BTreeSet::new();
        let mut open = vec![(start, common)];
        while let Some((node, mut common)) = open.pop() {
            if !seen.insert((node, common)) {
                continue;
            }
            nodes.insert(node);
            let barriers = &self.barriers[self.graph.block(node)];
            barriers.steps.iter().for_each(|step| common.step(*step, false));
            if barriers.meets_all || barriers.meets & common.now != 0 {
                stops.insert(node);
                continue;
            }
            for (place, &next) in self.graph.to[node].iter().enumerate() {
                open.push((next, Entered { now: common.now & !barriers.left_by(place), ..common }));
            }
        }
        Side { start, nodes: nodes.into_iter().collect(), stops: stops.into_iter().collect() }
    }

    /// Where threads of several sides come together, what any of them has written differs, unless it is from before.
    fn mix(&self, divergence: &Divergence, mixed: &mut [Differing], stack: &mut Stack) {
        let mut written = Differing::default();
        let mut words: BTreeSet<i64> = BTreeSet::new();
        let mut visits = vec![0; self.graph.nodes.len()];
        for side in &divergence.sides {
            for node in &side.nodes {
                visits[*node] += 1;
                written.add(&self.written[self.graph.block(*node)]);
                let stores = self.insts(*node).filter(|index| self.code.insts[*index].op() == Op::STL);
                for index in stores {
                    match Access::of(&self.code.insts[index]) {
                        Some(access) => words.extend(access.words),
                        None => stack.add(&self.code.insts[index]),
                    }
                }
            }
            // After the place where they wait for each other.
            let after: BTreeSet<usize> =
                side.stops.iter().flat_map(|stop| &self.graph.to[*stop]).copied().collect();
            after.into_iter().for_each(|node| visits[node] += 1);
        }
        let nodes = |least: usize| visits.iter().enumerate().filter(move |(_, count)| **count >= least);
        let inside: BTreeSet<usize> = divergence.sides.iter().flat_map(|side| &side.nodes).copied().collect();
        let stops: BTreeSet<usize> = divergence.sides.iter().flat_map(|side| &side.stops).copied().collect();
        let known = self.values.as_ref().map(|values| {
            let region = Region::new(nodes(1).map(|(node, _)| node), self.graph);
            move |node: usize, location| match (stops.first(), stops.len()) {
                // All come from the place where they wait. What they hold there counts: where a loop begins after it, the
                // next iteration comes there, too.
                (Some(stop), 1) if !inside.contains(&node) => {
                    values.leaves_from_before(*stop, location, &region)
                }
                _ => values.is_from_before(node, location, &region),
            }
        });
        for (node, _) in nodes(2) {
            let is_new = |location| !known.as_ref().is_some_and(|known| known(node, location));
            let differing = written.registers().filter(|register| is_new(Location::Register(*register)));
            differing.for_each(|register| mixed[node].add_bits(register, written.bits(register)));
            words.iter().filter(|word| is_new(Location::Word(**word))).for_each(|word| stack.add_word(*word));
        }
    }
}

impl Barriers {
    fn of(insts: &[Inst]) -> Barriers {
        let mut barriers = Barriers::default();
        for (index, inst) in insts.iter().enumerate() {
            let operand = inst.operands().find(|(_, operand)| operand.kind == Kind::B);
            let barrier =
                operand.map_or(0, |(_, operand)| 1u16.checked_shl(operand.value as u32).unwrap_or(0));
            let to_barrier = operand.is_some_and(|(slot, _)| slot.role == Role::Def);
            match inst.op() {
                Op::BSSY => barriers.steps.push(Step::Enter(barrier)),
                Op::BREAK => barriers.leave(barrier, inst, &insts[index + 1..]),
                Op::BMOV if to_barrier => barriers.steps.push(Step::Restore(barrier)),
                Op::BMOV => {
                    barriers.steps.push(Step::Keep(barrier));
                    if inst.has(M::CLEAR) {
                        barriers.steps.push(Step::Leave(barrier));
                    }
                }
                Op::BSYNC => barriers.meets = barrier,
                Op::WARPSYNC if waits_for_all(inst) => barriers.meets_all = true,
                _ => {}
            }
        }
        barriers
    }

    /// Those who leave a barrier under a condition mostly go elsewhere by the same one.
    fn leave(&mut self, barrier: u16, inst: &Inst, rest: &[Inst]) {
        let guard = inst.guard;
        let writes = |inst: &Inst| {
            let mut touched = inst.registers();
            touched.any(|a| a.role == Role::Def && a.file == Kind::P && a.first == guard.predicate)
        };
        let branch = rest.last().filter(|last| {
            last.op() == Op::BRA && last.guard.predicate == guard.predicate && !rest.iter().any(writes)
        });
        match branch {
            Some(last) if inst.guard != Guard::ALWAYS && last.guard.not == guard.not => {
                self.left_by_taken |= barrier
            }
            Some(_) if inst.guard != Guard::ALWAYS => self.left_by_others |= barrier,
            _ => self.steps.push(Step::Leave(barrier)),
        }
    }

    /// What was left on the way to a successor.
    fn left_by(&self, place: usize) -> u16 {
        if place == 0 { self.left_by_taken } else { self.left_by_others }
    }
}

/// A register or predicate that each thread has for itself is written.
fn is_written_by_threads(touch: &&Touch) -> bool {
    touch.role == Role::Def && matches!(touch.file, Kind::R | Kind::P)
}

/// What decides about the results of an instruction.
enum Origin {
    /// All threads that run it together have the same.
    Warp,
    Arguments,
    /// The thread's own memory.
    Stack,
    Thread,
}

fn origin(inst: &Inst) -> Origin {
    use Op::*;
    match inst.op() {
        VOTE | VOTEU | REDUX => Origin::Warp,
        S2R | CS2R if names_the_thread(inst) => Origin::Thread,
        S2R | CS2R => Origin::Warp,
        SHFL if reads_one_lane(inst) => Origin::Warp,
        SHFL | MATCH | ELECT | R2UR | FSWZADD | MOVM => Origin::Thread,
        LDL => Origin::Stack,
        LD | ATOM | ATOMG | ATOMS | SUATOM | LDSM | LDTM => Origin::Thread,
        HMMA | IMMA | DMMA | BMMA | QMMA | OMMA | HGMMA | IGMMA | QGMMA | BGMMA => Origin::Thread,
        _ => Origin::Arguments,
    }
}

fn names_the_thread(inst: &Inst) -> bool {
    let Some(place) = inst.operands().position(|(slot, _)| slot.kind == Kind::Name) else { return true };
    let name = inst.name(place).name();
    ["TID", "LANE", "MASK"].iter().any(|part| name.contains(part)) && !name.contains("CTAID")
}

/// Do all threads read from the same lane? Index and limits of the segments are constants then.
fn reads_one_lane(inst: &Inst) -> bool {
    let mut sources = inst.operands().filter(|(slot, _)| slot.role == Role::Use).skip(1);
    let (index, limits) = (sources.next(), sources.next());
    let is_constant =
        |(_, o): (_, &Operand)| o.kind.is_immediate() || o.kind == Kind::R && o.value == i64::from(RZ);
    let whole = limits.is_some_and(|(_, o)| o.kind.is_immediate() && o.value == 0x1f);
    inst.has(M::IDX) && whole && index.is_some_and(is_constant)
}

fn waits_for_all(inst: &Inst) -> bool {
    let mask = inst.operands().find(|(_, operand)| operand.kind.is_immediate());
    let all = inst.has(M::ALL) || mask.is_some_and(|(_, mask)| mask.value as u32 == u32::MAX);
    all && !inst.has(M::COLLECTIVE) && inst.guard == Guard::ALWAYS
}
