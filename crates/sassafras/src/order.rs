//! The order of instructions within a block: long latencies early, so that they pass while others work.
//!
//! A list scheduler before register allocation. What must stay in order is said by `order/graph.rs`; among what may
//! come next, the one goes first from which the longest way leads to the end of the block, unless it can't issue yet or
//! would make too many values alive. More registers than [`Budget`] gives are only taken where the code as it came took
//! them, too. Blocks are cut into windows, so that the time is linear in the size of the code.

mod graph;

use crate::passes::Context;
use crate::regalloc::{Ceilings, Limits};
use graph::{Graph, Latencies};
use ori::entity::Entity;
use ori::liveness::{Liveness, ValueSet};
use ori::{Block, Cfg, File, Function, Inst, Op, Pseudo, Value};

/// Instructions that are looked at together.
const WINDOW: usize = 512;

pub fn run(function: &mut Function, context: &mut Context) -> Result<(), String> {
    let cfg = Cfg::new(function);
    let live = Liveness::new(function, &cfg);
    let mut latencies = Latencies::new(context.machine.isa);
    let mut pressure = Pressure::new(function);
    let limits = Limits::registers(context.registers);
    let ceilings = Ceilings::new(function, &cfg, &limits);
    let calls = function.insts.keys().any(|i| function.insts[i].op == Op::Pseudo(Pseudo::Call));
    for &block in &cfg.order {
        let fixed = calls && makes_uniform(function, block);
        if fixed || function.blocks[block].insts.len() < 3 || !context.fuel.burn() {
            continue;
        }
        let registers = limits.usable(ceilings.least(block));
        pressure.begin(function, &live, block, registers);
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut ordered = Vec::with_capacity(insts.len());
        for window in graph::windows(function, &insts, WINDOW) {
            let graph = Graph::new(function, block, window, &mut latencies);
            List::new(function, &graph, &mut pressure).run(&mut ordered);
        }
        function.blocks[block].insts = ordered;
    }
    Ok(())
}

/// Does a block compute uniform values? Around calls these are computed again where they are needed, and come back to
/// the same registers only if they are made in the order in which lowering made them.
fn makes_uniform(function: &Function, block: Block) -> bool {
    let uniform = |v: &Value| function.values[*v].file == File::UR;
    let constant = |op: Op| matches!(op, Op::Machine(sass::Op::ULDC | sass::Op::LDCU));
    let insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
    insts.filter(|data| !constant(data.op)).any(|data| data.results.iter().any(uniform))
}

/// Files whose registers are counted: R, P, and the uniform ones.
const FILES: usize = 3;
type Counts = [i32; FILES];

fn counted(file: File) -> Option<usize> {
    match file {
        File::R => Some(0),
        File::P => Some(1),
        File::UR => Some(2),
        File::UP | File::B => None,
    }
}

/// Words that may be alive in any code: more only where the code as it came has more.
const BUDGET: Counts = [56, 4, 24];
/// Where there are few registers: those that stay free for values side by side, and for moves.
const RESERVE: i32 = 6;

/// Which values are alive, and how many words that is.
struct Pressure {
    /// How often each value is still used in the block; once more if it is alive at its end.
    left: Vec<u32>,
    alive: ValueSet,
    now: Counts,
    most: Counts,
    /// There are fewer registers than the code could use.
    tight: bool,
}

impl Pressure {
    fn new(function: &Function) -> Pressure {
        let values = function.values.len();
        Pressure {
            left: vec![0; values],
            alive: ValueSet::new(values),
            now: [0; FILES],
            most: BUDGET,
            tight: false,
        }
    }

    /// Starts at the beginning of a block.
    fn begin(&mut self, function: &Function, live: &Liveness, block: Block, registers: u8) {
        let data = &function.blocks[block];
        self.alive = live.live_in[block.index()].clone();
        let ends = live.live_out[block.index()].iter().chain(data.end.uses());
        let inner = data.insts.iter().flat_map(|i| function.insts[*i].uses());
        let all: Vec<Value> = ends.chain(inner).collect();
        all.iter().for_each(|v| self.left[v.index()] = 0);
        all.iter().for_each(|v| self.left[v.index()] += 1);
        data.params.iter().for_each(|p| self.alive.insert(*p));
        self.now = [0; FILES];
        for value in self.alive.iter() {
            add(&mut self.now, function, value, 1);
        }
        let [general, others @ ..] = BUDGET;
        let there = i32::from(registers) - RESERVE;
        self.most = self.highest(function, &data.insts, [general.min(there), others[0], others[1]]);
        // What the code as it came takes beyond that goes to memory.
        self.tight = self.most[0] > there || general > there;
        self.most[0] = self.most[0].min(there);
    }

    /// The most words that are alive at once in the order as it is.
    fn highest(&mut self, function: &Function, insts: &[Inst], budget: Counts) -> Counts {
        let (left, now) = (self.left.clone(), self.now);
        let mut most = budget;
        for inst in insts {
            self.issue(function, *inst);
            most.iter_mut().zip(self.now).for_each(|(m, n)| *m = (*m).max(n));
        }
        (self.left, self.now) = (left, now);
        most
    }

    /// What an instruction adds.
    fn change(&self, function: &Function, inst: Inst) -> Counts {
        let mut change = [0; FILES];
        let data = &function.insts[inst];
        for (i, value) in data.uses().enumerate() {
            let times = data.uses().filter(|v| *v == value).count() as u32;
            let first = data.uses().take(i).all(|v| v != value);
            if first && self.left[value.index()] == times {
                add(&mut change, function, value, -1);
            }
        }
        for value in data.results.iter().filter(|v| self.left[v.index()] > 0) {
            add(&mut change, function, *value, 1);
        }
        change
    }

    fn issue(&mut self, function: &Function, inst: Inst) {
        let change = self.change(function, inst);
        self.now.iter_mut().zip(change).for_each(|(n, c)| *n += c);
        function.insts[inst].uses().for_each(|v| self.left[v.index()] -= 1);
    }

    /// Where registers are tight, what doesn't free any comes in the order as it was: whoever made that had an end in
    /// mind for each beginning.
    fn must_wait(&self, change: &Counts) -> bool {
        self.tight && change[0] > 0 && self.now[0] + change[0] > self.most[0]
    }

    /// By how much an instruction goes over what there may be.
    fn excess(&self, change: &Counts) -> i32 {
        let over = |i: usize| if change[i] > 0 { (self.now[i] + change[i] - self.most[i]).max(0) } else { 0 };
        (0..FILES).map(over).sum()
    }
}

fn add(counts: &mut Counts, function: &Function, value: Value, times: i32) {
    let data = function.values[value];
    if let Some(file) = counted(data.file) {
        counts[file] += times * i32::from(data.words);
    }
}

/// A list of what may come next.
struct List<'a> {
    function: &'a Function,
    graph: &'a Graph,
    pressure: &'a mut Pressure,
    /// How many others each has still to wait for, and when it may issue.
    waits: Vec<u32>,
    earliest: Vec<u32>,
    ready: Vec<usize>,
    time: u32,
}

impl<'a> List<'a> {
    fn new(function: &'a Function, graph: &'a Graph, pressure: &'a mut Pressure) -> List<'a> {
        let waits = graph.waits();
        let ready = (0..waits.len()).filter(|n| waits[*n] == 0).collect();
        List { function, graph, pressure, earliest: vec![0; waits.len()], waits, ready, time: 0 }
    }

    fn run(mut self, out: &mut Vec<Inst>) {
        while let Some(place) = self.next() {
            let node = self.ready.swap_remove(place);
            let inst = self.graph.insts[node];
            self.time = self.time.max(self.earliest[node]);
            self.pressure.issue(self.function, inst);
            for &(to, cycles) in self.graph.after(node) {
                self.earliest[to] = self.earliest[to].max(self.time + cycles);
                self.waits[to] -= 1;
                if self.waits[to] == 0 {
                    self.ready.push(to);
                }
            }
            self.time += self.graph.issue[node];
            out.push(inst);
        }
    }

    /// The place in the list of the one that comes next: what fits into the registers before what doesn't, what can
    /// issue at once before what can't, the longest way first, and else the order as it was.
    fn next(&self) -> Option<usize> {
        let rank = |node: usize| {
            let change = self.pressure.change(self.function, self.graph.insts[node]);
            let excess = self.pressure.excess(&change);
            let late = self.earliest[node].saturating_sub(self.time);
            match self.pressure.must_wait(&change) {
                true => (1, 0, std::cmp::Reverse(0), node),
                false => (excess, late, std::cmp::Reverse(self.graph.height[node]), node),
            }
        };
        (0..self.ready.len()).min_by_key(|place| rank(self.ready[*place]))
    }
}
