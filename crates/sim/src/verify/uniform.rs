//! Uniform registers belong to the warp: divergent threads must not write over what the others still read.
//!
//! Threads that wait for their turn, or for others, hold the uniform registers that they read later, before they write
//! them anew. Meanwhile those on another side of the branch at which they diverged (`divergence.rs`) may run anything up to
//! where they meet. So, for each such branch: no instruction on one side writes a uniform register or predicate that is
//! live on another side at a place where threads may stand while others run. These places are
//! * after every branch, taken or not, and so at the beginning of each side;
//! * at BSYNC and WARPSYNC, those where the sides meet among them: there the registers that are live after;
//! * at barriers of the block or of the cluster, and where threads yield or sleep.
//!
//! Between two such places no thread interrupts: code of ptxas relies on it, and an H200 never broke it.
//!
//! Where all threads meet at one place, and none has exited on the way, what each of them has made of constants in that
//! very block holds, whatever they did before: the last to come has written it once more. Else it does not help that
//! the value is the same. A call of code that is not here writes what any function of the file writes; what is in no
//! section, like the handler of failed assertions, writes nothing: ptxas keeps uniform registers over such calls.
//!
//! ptxas's code of the corpus, 13 million instructions for seven targets at four levels, has no report.
//!
//! What it does not see: threads that go on from BSYNC without those who yield or sleep; and that a function may
//! have been called by some threads of a warp, while the others run something else.

use super::divergence::{Divergence, Graph, Side, Threads};
use super::flow::Flow;
use super::report::Findings;
use super::set::Registers;
use super::{Code, Dependence, Relation, Short};
use sass::model::{Part, Port, Touch};
use sass::{Guard, Inst, Kind, Model, Op, Role};
use std::collections::{BTreeMap, BTreeSet};

pub fn check(model: &Model, code: &Code, flow: &Flow, findings: &mut Findings) {
    let graph = Graph::of(flow);
    let mut threads = Threads::new(model, code, flow, &graph);
    let uniform = Uniform::new(model, code, flow, &graph);
    let lost = |threads: &Threads| -> Vec<Dependence> {
        threads.divergences().iter().flat_map(|divergence| uniform.lost(divergence)).collect()
    };
    let mut all = lost(&threads);
    // Most code has nothing to report even if all that is written differs. Only other code is worth the time.
    if !all.is_empty() {
        threads.number_values();
        all = lost(&threads);
    }
    all.iter().for_each(|lost| findings.add(lost, Short::Divergent));
}

/// The uniform registers that some code writes.
pub fn written(code: &Code) -> impl Iterator<Item = u16> {
    let model = Model::of(code.isa);
    let touches = code.insts.iter().flat_map(|inst| model.touches(inst));
    let written = touches.filter(|touch| touch.role == Role::Def && is_uniform(touch));
    written.flat_map(|touch| touch.registers()).map(|register| register as u16)
}

/// What a block does with uniform registers. An instruction that reads under a guard what was written under one means the same
/// case: the two need not be the same predicate, ptxas guards by two votes on one condition. What R2UR writes under the
/// guard of threads is written: where none of them asks for it, it does not matter what it is.
#[derive(Default)]
struct Block {
    /// Read before it is written.
    reads: Registers,
    /// Written for certain, and perhaps.
    kills: Registers,
    writes: Registers,
    /// The instructions within, and at the end, at which threads may stand while others run.
    places: Vec<usize>,
}

/// Where threads stand: before this instruction of the node.
type Place = (usize, usize);

struct Uniform<'a> {
    model: &'a Model,
    code: &'a Code,
    flow: &'a Flow,
    graph: &'a Graph,
    blocks: Vec<Block>,
    /// By node: the registers that are read before they are written, from its start on.
    live: Vec<Registers>,
}

impl<'a> Uniform<'a> {
    fn new(model: &'a Model, code: &'a Code, flow: &'a Flow, graph: &'a Graph) -> Uniform<'a> {
        let blocks = (0..flow.blocks()).map(|block| Block::of(model, code, flow, block)).collect();
        let mut uniform = Uniform { model, code, flow, graph, blocks, live: Vec::new() };
        uniform.live = uniform.liveness();
        uniform
    }

    fn liveness(&self) -> Vec<Registers> {
        let nodes = self.graph.nodes.len();
        let mut from = vec![Vec::new(); nodes];
        for (node, to) in self.graph.to.iter().enumerate() {
            to.iter().for_each(|next| from[*next].push(node));
        }
        let mut live = vec![Registers::default(); nodes];
        let mut open: BTreeSet<usize> = (0..nodes).collect();
        while let Some(node) = open.pop_last() {
            let block = &self.blocks[self.graph.block(node)];
            let mut state = self.live_out(node, &live).without(&block.kills);
            state.add(&block.reads);
            if live[node].add(&state) {
                open.extend(&from[node]);
            }
        }
        live
    }

    /// What is live after a node.
    fn live_out(&self, node: usize, live: &[Registers]) -> Registers {
        let mut all = Registers::default();
        self.graph.to[node].iter().for_each(|next| _ = all.add(&live[*next]));
        all
    }

    /// What threads of one side hold and those of another write.
    fn lost(&self, divergence: &Divergence) -> Vec<Dependence> {
        let mut all_lost = Vec::new();
        let settled = self.settled(divergence);
        let held: Vec<BTreeMap<Place, Registers>> =
            divergence.sides.iter().map(|side| self.held(side, &settled)).collect();
        let written: Vec<Registers> = divergence.sides.iter().map(|side| self.written(side)).collect();
        for (one, held) in held.iter().enumerate() {
            let mut all = Registers::default();
            held.values().for_each(|registers| _ = all.add(registers));
            for (other, writer) in divergence.sides.iter().enumerate().filter(|(other, _)| *other != one) {
                let lost = all.common(&written[other]);
                lost.iter().for_each(|register| self.add_lost(register, held, writer, &mut all_lost));
            }
        }
        all_lost
    }

    /// What the threads of a side hold, by the places where they may stand.
    fn held(&self, side: &Side, settled: &Registers) -> BTreeMap<Place, Registers> {
        let start = |node: usize| (node, self.flow.block(self.graph.block(node)).start);
        let mut held = BTreeMap::from([(start(side.start), self.live[side.start])]);
        let mut hold =
            |place: Place, registers: &Registers| _ = held.entry(place).or_default().add(registers);
        for &node in &side.nodes {
            let block = self.graph.block(node);
            for &place in &self.blocks[block].places {
                if place + 1 < self.flow.block(block).end {
                    hold((node, place + 1), &self.live_at((node, place + 1)));
                    continue;
                }
                for &next in &self.graph.to[node] {
                    let is_stop = side.stops.contains(&node);
                    let live = &self.live[next];
                    hold(start(next), &if is_stop { live.without(settled) } else { *live });
                }
            }
        }
        held
    }

    /// What holds where all threads meet, whatever they did before: what each of them has made of constants in the block
    /// in which they wait. All of them must come there.
    fn settled(&self, divergence: &Divergence) -> Registers {
        let stops: BTreeSet<usize> = divergence.sides.iter().flat_map(|side| &side.stops).copied().collect();
        let mut nodes = divergence.sides.iter().flat_map(|side| &side.nodes);
        let exits = nodes.any(|node| {
            let insts = &self.code.insts[self.flow.block(self.graph.block(*node))];
            self.graph.to[*node].is_empty() || insts.iter().any(|inst| inst.op() == Op::EXIT)
        });
        let (Some(&stop), 1, false) = (stops.first(), stops.len(), exits) else {
            return Registers::default();
        };
        let block = self.graph.block(stop);
        let range = self.flow.block(block);
        let within = self.blocks[block].places.iter().rev().find(|place| **place + 1 < range.end);
        let mut settled = Registers::default();
        for inst in &self.code.insts[within.map_or(range.start, |place| place + 1)..range.end] {
            let one = Block::of_insts(self.model, std::slice::from_ref(inst));
            settled = settled.without(&one.writes);
            let is_constant = !self.model.touches(inst).any(|touch| touch.role == Role::Use);
            if is_constant && matches!(inst.op(), Op::ULDC | Op::LDCU | Op::UMOV) {
                settled.add(&one.kills);
            }
        }
        settled
    }

    fn written(&self, side: &Side) -> Registers {
        let mut written = Registers::default();
        for node in &side.nodes {
            written.add(&self.blocks[self.graph.block(*node)].writes);
        }
        written
    }

    fn live_at(&self, (node, index): Place) -> Registers {
        let range = self.flow.block(self.graph.block(node));
        if index == range.start {
            return self.live[node];
        }
        let rest = Block::of_insts(self.model, &self.code.insts[index..range.end]);
        let mut live = self.live_out(node, &self.live).without(&rest.kills);
        live.add(&rest.reads);
        live
    }

    /// Threads hold a register somewhere, and those of another side write it.
    fn add_lost(
        &self,
        register: usize,
        held: &BTreeMap<Place, Registers>,
        other: &Side,
        lost: &mut Vec<Dependence>,
    ) {
        let holder = held.iter().find(|(_, registers)| registers.contains(register));
        let Some(reader) = holder.and_then(|(place, _)| self.reader(*place, register)) else { return };
        let insts = other.nodes.iter().flat_map(|node| self.flow.block(self.graph.block(*node)));
        for writer in insts.filter(|index| self.writes(*index, register)) {
            let port = |index: usize| Port { unit: self.model.unit(&self.code.insts[index]), part: Part::U };
            lost.push(Dependence {
                relation: Relation::Raw,
                register: register as u16,
                first: writer,
                from: port(writer),
                second: reader,
                to: port(reader),
                read_too: false,
                cycles: 0,
                signalled: true,
            });
        }
    }

    fn writes(&self, index: usize, register: usize) -> bool {
        let calls = self.code.insts[index].op() == Op::CALL;
        let touches = self.model.touches(&self.code.insts[index]);
        calls || touches.filter(|t| t.role == Role::Def).any(|t| t.registers().contains(&register))
    }

    /// An instruction that reads what a register holds at a place.
    fn reader(&self, place: Place, register: usize) -> Option<usize> {
        let mut seen = BTreeSet::new();
        let mut open = vec![place];
        while let Some((node, from)) = open.pop() {
            if !seen.insert((node, from)) {
                continue;
            }
            let mut block = Block::default();
            for index in from..self.flow.block(self.graph.block(node)).end {
                block.step(self.model, &self.code.insts[index]);
                if block.reads.contains(register) {
                    return Some(index);
                }
            }
            if !block.kills.contains(register) {
                let start = |next: &usize| (*next, self.flow.block(self.graph.block(*next)).start);
                open.extend(self.graph.to[node].iter().map(start));
            }
        }
        None
    }
}

fn is_uniform(touch: &Touch) -> bool {
    matches!(touch.file, Kind::U | Kind::V)
}

impl Block {
    fn of(model: &Model, code: &Code, flow: &Flow, block: usize) -> Block {
        let range = flow.block(block);
        let mut all = Block::of_insts(model, &code.insts[range.clone()]);
        all.places = range.filter(|index| lets_others_run(&code.insts[*index])).collect();
        if !flow.keeps(block) {
            let written = code.written_by_functions.iter().map(|register| usize::from(*register)).collect();
            all.writes.add(&written);
            all.kills.add(&written);
        }
        all
    }

    fn of_insts(model: &Model, insts: &[Inst]) -> Block {
        let mut block = Block::default();
        insts.iter().for_each(|inst| block.step(model, inst));
        block
    }

    fn step(&mut self, model: &Model, inst: &Inst) {
        let registers = |role: Role| -> Registers {
            let touches = model.touches(inst).filter(|touch| touch.role == role && is_uniform(touch));
            touches.flat_map(|touch| touch.registers()).collect()
        };
        let covered = if inst.guard == Guard::ALWAYS { self.kills } else { self.writes };
        self.reads.add(&registers(Role::Use).without(&covered));
        let written = registers(Role::Def);
        self.writes.add(&written);
        if inst.guard == Guard::ALWAYS || inst.form().guard == Kind::P {
            self.kills.add(&written);
        }
    }
}

/// May threads stand after an instruction, or at it, while others of their warp run?
fn lets_others_run(inst: &Inst) -> bool {
    use Op::*;
    let branches = matches!(inst.op(), BRA | BRX | BRXU | JMP | JMX | JMXU | CALL | RET | EXIT);
    branches || matches!(inst.op(), BSYNC | WARPSYNC | BAR | UCGABAR_WAIT | YIELD | NANOSLEEP)
}
