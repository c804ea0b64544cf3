//! The order of instructions within a block: long latencies early, so that they pass while others work.
//!
//! A list scheduler before register allocation. What must stay in order is said by `codegen/sched_prepass/dep_graph.rs`; among what may
//! come next, the one goes first from which the longest way leads to the end of the block, unless it can't issue yet or
//! would make too many values alive. More registers than [`BUDGET`] gives are only taken where the code as it came took
//! them, too; and not even these where more blocks of threads run at once with fewer ([`enough`], `codegen/sched_prepass/liveness_ahead.rs`).
//! Blocks are cut into windows, so that the time is linear in the size of the code.

mod dep_graph;
mod live_through;
mod liveness_ahead;
mod min_pressure;

use crate::context::Context;
use crate::context::Occupancy;
use crate::regalloc::{self, BlockLimits, Limits};
use dep_graph::{Graph, Latencies};
use liveness_ahead::Ahead;
use ori::entity::Entity;
use ori::liveness::{Liveness, ValueSet};
use ori::{Block, Cfg, Divergence, File, Function, Inst, Op, Pseudo, Value};
use sass::model::Unit;
use std::cmp::Reverse;
use std::ops::Range;

/// Instructions that are looked at together.
const WINDOW: usize = 1024;

pub fn run(function: &mut Function, context: &mut Context) -> Result<(), String> {
    let cfg = Cfg::new(function);
    let live = Liveness::new(function, &cfg);
    let mut latencies = Latencies::new(context.machine.isa);
    let mut pressure = Pressure::new(function, &cfg, context.occupancy);
    let limits = Limits::registers(context.registers);
    let block_limits = BlockLimits::new(function, &cfg, &limits);
    let through = live_through::words(function, &cfg, &live);
    let calls = function.insts.keys().any(|i| function.insts[i].op == Op::Pseudo(Pseudo::Call));
    if !calls {
        context.register_goal = enough(function, (&cfg, &live), &mut pressure, context);
        pressure.aim_at(context.register_goal);
    }
    let together = together(function, &cfg);
    for &block in &cfg.order {
        let fixed = calls && makes_uniform(function, block);
        if fixed || function.blocks[block].insts.len() < 3 || !context.fuel.burn() {
            continue;
        }
        let registers = i32::from(limits.usable(block_limits.min(block)));
        pressure.begin(function, &live, block);
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let insts = pressure.limit(function, insts, registers, through[block.index()]);
        let mut ordered = Vec::with_capacity(insts.len());
        for window in dep_graph::windows(function, &insts, WINDOW) {
            let graph = Graph::new(function, (block, together[block.index()]), window, &mut latencies);
            let first = ordered.len();
            List::new(function, &graph, &mut pressure, first).run(&mut ordered);
        }
        function.blocks[block].insts = ordered;
    }
    Ok(())
}

/// By block: does the whole warp run it at once? Asked where someone is elected, and else said of none.
fn together(function: &Function, cfg: &Cfg) -> Vec<bool> {
    let elects = |i: Inst| function.insts[i].op == Op::Machine(sass::Op::ELECT);
    if !function.insts.keys().any(elects) {
        return vec![false; function.blocks.len()];
    }
    let divergence = Divergence::new(function, cfg);
    function.blocks.keys().map(|b| !divergence.is_divergent(b)).collect()
}

/// The registers to stay with, so that as many blocks of threads run at once as the code allows: `None` if it needs more
/// than the budget, wherever its instructions stand.
fn enough(
    function: &Function,
    (cfg, live): (&Cfg, &Liveness),
    pressure: &mut Pressure,
    context: &Context,
) -> Option<u32> {
    let occupancy = context
        .occupancy
        .unwrap_or_else(|| Occupancy::new(context.tuning.usual_block_threads, context.machine));
    let mut needed = occupancy.step(1) as i32 - BESIDE;
    for &block in &cfg.order {
        pressure.begin(function, live, block);
        needed = needed.max(pressure.least(function, &function.blocks[block].insts, needed));
        if needed > BUDGET[0] {
            return None;
        }
    }
    Some(occupancy.step((needed + BESIDE) as u32).min(context.registers))
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
/// But never more predicates than this: there are seven, and one that has to wait elsewhere takes long to come back.
const PREDICATES: i32 = 6;
/// Nor more uniform registers: there are twice as many, but products take them in fours.
const UNIFORM: i32 = 32;
/// Where there are few registers: those that stay free for values side by side, and for moves.
const RESERVE: i32 = 6;
/// Of those that are enough: those that the system has, and those that stay free.
const BESIDE: i32 = Limits::SYSTEM as i32 + 2;
/// And those that the order leaves free besides, for values side by side: where these find no place, all is allocated
/// once more without a goal.
const APART: i32 = 2;

/// Where more of them don't matter: how many are taken, and how many stay free, because not every value finds a place.
const SLACK: i32 = 16;
const SPARE: i32 = 16;

/// How many are tried before the first one goes.
const TRIES: usize = 16;

/// The values that each instruction reads: each once, with how often.
struct Reads {
    all: Vec<(Value, u32)>,
    /// The place of each instruction's among them.
    of: Vec<Range<u32>>,
}

impl Reads {
    fn new(function: &Function, cfg: &Cfg) -> Reads {
        let mut reads = Reads { all: Vec::new(), of: vec![0..0; function.insts.len()] };
        // Where each value was read last.
        let mut places = vec![0; function.values.len()];
        for &inst in cfg.order.iter().flat_map(|b| &function.blocks[*b].insts) {
            let first = reads.all.len();
            function.insts[inst].uses().for_each(|value| reads.add(value, first, &mut places));
            reads.of[inst.index()] = first as u32..reads.all.len() as u32;
        }
        reads
    }

    fn add(&mut self, value: Value, first: usize, places: &mut [usize]) {
        let place = &mut places[value.index()];
        match self.all.get_mut(*place) {
            Some((same, times)) if *place >= first && *same == value => *times += 1,
            _ => {
                *place = self.all.len();
                self.all.push((value, 1));
            }
        }
    }

    fn of(&self, inst: Inst) -> &[(Value, u32)] {
        let Range { start, end } = self.of[inst.index()];
        &self.all[start as usize..end as usize]
    }
}

/// Which values are alive, and how many words that is.
struct Pressure {
    reads: Reads,
    /// The file of each value and its words there: none of one without bits, which gets no register, or in a file that
    /// isn't counted.
    weights: Vec<(usize, i32)>,
    /// How often each value is still used in the block; once more if it is alive at its end.
    left: Vec<u32>,
    alive: ValueSet,
    now: Counts,
    most: Counts,
    budget: Counts,
    /// How many words are alive before each instruction of the block in the order as it is, and how many more don't
    /// matter, because as many blocks of threads run at once.
    curve: Vec<i32>,
    slack: i32,
    occupancy: Option<Occupancy>,
    /// The words of general registers that are to be enough, where more would let fewer threads run.
    goal: Option<i32>,
    /// There are fewer registers than the code could use.
    tight: bool,
    /// The order as it is was made to take few of them.
    late: bool,
}

impl Pressure {
    fn new(function: &Function, cfg: &Cfg, occupancy: Option<Occupancy>) -> Pressure {
        let values = function.values.len();
        let undefined = regalloc::undefined(function, cfg);
        let weight = |v: Value| match counted(function.values[v].file) {
            Some(file) if !undefined.contains(v) => (file, function.values[v].words.into()),
            _ => (0, 0),
        };
        Pressure {
            reads: Reads::new(function, cfg),
            weights: function.values.keys().map(weight).collect(),
            left: vec![0; values],
            alive: ValueSet::new(values),
            now: [0; FILES],
            most: BUDGET,
            budget: BUDGET,
            curve: Vec::new(),
            slack: 0,
            occupancy,
            goal: None,
            tight: false,
            late: false,
        }
    }

    fn aim_at(&mut self, enough: Option<u32>) {
        self.goal = enough.map(|registers| (registers as i32 - BESIDE - APART).min(BUDGET[0]));
        self.budget[0] = self.goal.unwrap_or(BUDGET[0]);
    }

    /// Starts at the beginning of a block.
    fn begin(&mut self, function: &Function, live: &Liveness, block: Block) {
        let data = &function.blocks[block];
        self.alive = live.live_in[block.index()].clone();
        let ends = || live.live_out[block.index()].iter().chain(data.end.uses());
        let inner = || data.insts.iter().flat_map(|i| self.reads.of(*i));
        ends().chain(inner().map(|(v, _)| *v)).for_each(|v| self.left[v.index()] = 0);
        ends().for_each(|v| self.left[v.index()] += 1);
        inner().for_each(|(v, times)| self.left[v.index()] += times);
        data.params.iter().for_each(|p| self.alive.insert(*p));
        let mut now = [0; FILES];
        self.alive.iter().for_each(|value| self.add(&mut now, value, 1));
        self.now = now;
    }

    /// Says how many registers there are for a block; so many of them have values that can wait in memory. If its
    /// instructions need more in the order in which they came, and fewer in another, they get that.
    fn limit(&mut self, function: &Function, insts: Vec<Inst>, registers: i32, waiting: i32) -> Vec<Inst> {
        self.budget[0] = self.goal.unwrap_or(BUDGET[0]);
        let words = self.goal.into_iter().chain([registers - RESERVE]).min();
        let mut room = [words.unwrap_or(0), PREDICATES, UNIFORM];
        let highest = self.at_least_budget(function, &insts);
        if highest[0] > room[0] {
            room[0] += waiting;
        }
        let short = |most: &Counts| (most[0] - room[0]).max(0) + (most[1] - room[1]).max(0);
        let mut best = (highest, insts);
        if short(&highest) > 0 {
            for kept in [min_pressure::Kept::Reductions, min_pressure::Kept::Nothing] {
                let late = min_pressure::late(function, &best.1, &self.left, kept);
                let lower = self.at_least_budget(function, &late);
                if short(&lower) < short(&best.0) {
                    best = (lower, late);
                }
            }
        }
        // What the order takes beyond that goes to memory.
        self.tight = best.0[0] > room[0];
        self.late = short(&best.0) < short(&highest);
        self.most = std::array::from_fn(|i| best.0[i].min(room[i]));
        if self.late {
            // Predicates that this order leaves free may fill gaps.
            self.most[1] = room[1];
        }
        self.take_slack(function, &best.1, registers);
        best.1
    }

    /// Registers that cost no block of threads may be taken, where there are many anyway.
    fn take_slack(&mut self, function: &Function, insts: &[Inst], registers: i32) {
        self.slack = 0;
        if let (Some(occupancy), None, false) = (self.occupancy, self.goal, self.tight) {
            let step = occupancy.step((self.most[0] + RESERVE) as u32);
            self.slack = ((step as i32).min(registers) - SPARE - self.most[0]).clamp(0, SLACK);
        }
        if self.slack > 0 {
            self.most[0] += self.slack;
            self.curve = self.behind(function, insts).iter().map(|counts| counts[0]).collect();
            self.curve.insert(0, self.now[0]);
        }
    }

    /// All instructions of the block before this one have been given a place.
    fn all_before(&mut self, front: usize) {
        if self.slack > 0 {
            let now = self.curve.get(front).copied().unwrap_or(0);
            self.budget[0] = BUDGET[0].max(now + self.slack);
        }
    }

    /// The fewest words of general registers that instructions need in some order; or any number up to `enough`.
    fn least(&mut self, function: &Function, insts: &[Inst], enough: i32) -> i32 {
        let mut least = self.highest(function, insts)[0];
        for kept in [min_pressure::Kept::Reductions, min_pressure::Kept::Nothing] {
            if least > enough {
                let late = min_pressure::late(function, insts, &self.left, kept);
                least = least.min(self.highest(function, &late)[0]);
            }
        }
        least
    }

    /// The most words of each file that an order may take: what it takes as it is, or the budget.
    fn at_least_budget(&mut self, function: &Function, insts: &[Inst]) -> Counts {
        let highest = self.highest(function, insts);
        std::array::from_fn(|i| highest[i].max(self.budget[i]))
    }

    /// The most words that are alive at once in the order as it is.
    fn highest(&mut self, function: &Function, insts: &[Inst]) -> Counts {
        let now = self.now;
        let behind = self.behind(function, insts);
        behind.iter().fold(now, |most, counts| std::array::from_fn(|i| most[i].max(counts[i])))
    }

    /// What is alive behind each instruction in the order as it is.
    fn behind(&mut self, function: &Function, insts: &[Inst]) -> Vec<Counts> {
        let now = self.now;
        let mut all = Vec::with_capacity(insts.len());
        for inst in insts {
            self.issue(function, *inst);
            all.push(self.now);
        }
        // They are all still to come.
        self.now = now;
        let reads = insts.iter().flat_map(|i| self.reads.of(*i));
        reads.for_each(|(v, times)| self.left[v.index()] += times);
        all
    }

    /// What an instruction adds.
    fn change(&self, function: &Function, inst: Inst) -> Counts {
        let mut change = [0; FILES];
        for (value, times) in self.reads.of(inst) {
            if self.left[value.index()] == *times {
                self.add(&mut change, *value, -1);
            }
        }
        for value in function.insts[inst].results.iter().filter(|v| self.left[v.index()] > 0) {
            self.add(&mut change, *value, 1);
        }
        change
    }

    fn issue(&mut self, function: &Function, inst: Inst) {
        let change = self.change(function, inst);
        self.now.iter_mut().zip(change).for_each(|(n, c)| *n += c);
        self.reads.of(inst).iter().for_each(|(v, times)| self.left[v.index()] -= times);
    }

    /// Is there room enough, whatever ends with an instruction?
    fn has_room(&self, function: &Function, inst: Inst) -> bool {
        let mut added = self.now;
        function.insts[inst].results.iter().for_each(|v| self.add(&mut added, *v, 1));
        let few = self.now[0] < self.budget[0] || added[0] == self.now[0];
        few && (0..FILES).all(|i| added[i] <= self.most[i] || added[i] == self.now[i])
    }

    /// Does an instruction take registers where many are taken?
    fn is_tight(&self, change: &Counts) -> bool {
        self.now[0] >= self.budget[0] && change[0] > 0
    }

    /// Where registers are tight, what takes more of them comes in the order as it was: whoever made that had an end in
    /// mind for each beginning.
    fn must_wait(&self, change: &Counts) -> bool {
        let short = self.tight && change[0] > 0 && self.now[0] + change[0] > self.most[0];
        short || self.late && self.excess(change) > 0
    }

    /// Does an instruction give back a predicate where they are short? A carry is soon used, whatever that takes.
    fn frees_predicate(&self, change: &Counts) -> bool {
        change[1] < 0 && self.now[1] >= self.budget[1]
    }

    /// By how much an instruction goes over what there may be.
    fn excess(&self, change: &Counts) -> i32 {
        let over = |i: usize| if change[i] > 0 { (self.now[i] + change[i] - self.most[i]).max(0) } else { 0 };
        // Of uniform registers there are more than the budget, but what is put together of them must come to an end.
        over(0) + over(1) + over(2).min(1)
    }

    fn add(&self, counts: &mut Counts, value: Value, times: i32) {
        let (file, words) = self.weights[value.index()];
        counts[file] += times * words;
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
    /// When each unit can begin with the next one.
    free: [u32; Unit::COUNT],
    ready: Vec<usize>,
    time: u32,
    /// Instructions still to come.
    left: u32,
    /// How often products have been waited for.
    waited: u32,
    /// The place of the window in the block, and the first of its instructions that is still to come.
    first: usize,
    front: usize,
    issued: Vec<bool>,
    /// Who may go before others.
    ahead: Option<Ahead>,
}

impl<'a> List<'a> {
    fn new(function: &'a Function, graph: &'a Graph, pressure: &'a mut Pressure, first: usize) -> List<'a> {
        let waits = graph.waits();
        let ready = (0..waits.len()).filter(|n| waits[*n] == 0).collect();
        let (earliest, free) = (vec![0; waits.len()], [0; Unit::COUNT]);
        let left = graph.pipe.iter().flatten().count() as u32;
        let ahead = pressure.goal.map(|_| Ahead::new(function, &graph.insts, pressure));
        List {
            function,
            graph,
            pressure,
            waits,
            earliest,
            free,
            ready,
            time: 0,
            left,
            waited: 0,
            first,
            front: 0,
            issued: vec![false; graph.insts.len()],
            ahead,
        }
    }

    fn run(mut self, out: &mut Vec<Inst>) {
        self.pressure.all_before(self.first);
        while let Some(place) = self.next() {
            let node = self.ready.swap_remove(place);
            let inst = self.graph.insts[node];
            self.waited += u32::from(self.graph.is_wait[node]);
            self.time = self.time.max(self.begins(node));
            if let Some(ahead) = &mut self.ahead {
                ahead.issue(self.front, node, &self.pressure.change(self.function, inst));
            }
            self.pressure.issue(self.function, inst);
            self.issued[node] = true;
            self.front += self.issued[self.front..].iter().take_while(|issued| **issued).count();
            self.pressure.all_before(self.first + self.front);
            for &(to, cycles) in self.graph.after(node) {
                self.earliest[to] = self.earliest[to].max(self.time + cycles);
                self.waits[to] -= 1;
                if self.waits[to] == 0 {
                    self.ready.push(to);
                }
            }
            if let Some(pipe) = self.graph.pipe[node] {
                self.free[pipe as usize] = self.time + self.graph.busy[node];
                self.time += 1;
                self.left -= 1;
            }
            out.push(inst);
        }
    }

    /// When an instruction can begin: what it needs is there, and so is what runs it.
    fn begins(&self, node: usize) -> u32 {
        self.earliest[node].max(self.graph.pipe[node].map_or(0, |pipe| self.free[pipe as usize]))
    }

    /// The place in the list of the one that comes next: what fits into the registers before what doesn't, what can
    /// issue at once before what can't, the most urgent first, and else the order as it was.
    fn next(&self) -> Option<usize> {
        if let Some(ahead) = &self.ahead {
            return self.next_with_room(ahead);
        }
        let longest = self.ready.iter().map(|n| self.graph.height[*n]).max()?;
        let left = longest.max(self.left);
        let rank = |node: usize| {
            let (inst, height) = (self.graph.insts[node], self.graph.height[node]);
            let late = self.begins(node).saturating_sub(self.time);
            if self.pressure.has_room(self.function, inst) {
                return (0, false, late, Reverse(height), node);
            }
            let change = self.pressure.change(self.function, inst);
            if self.pressure.frees_predicate(&change) {
                return (0, false, late, Reverse(height), node);
            }
            let fence = self.graph.fence[node];
            if !fence && self.pressure.must_wait(&change) {
                return (1, false, 0, Reverse(0), node);
            }
            let excess = if fence { 0 } else { self.pressure.excess(&change) };
            // Registers that are needed much later are not taken to fill gaps.
            let useless = self.pressure.tight && self.graph.waits_first[node] > self.waited;
            let early = (2 * height < left || useless) && self.pressure.is_tight(&change);
            let excess = if early { excess.max(1) } else { excess };
            // Where registers are short, the most urgent one gets them, even if it has to be waited for.
            let late = if excess > 0 { 0 } else { late };
            (excess, early, late, Reverse(height), node)
        };
        (0..self.ready.len()).min_by_key(|place| rank(self.ready[*place]))
    }

    /// The same, where there must be room before all that came first: of the best ones, or else the first.
    fn next_with_room(&self, ahead: &Ahead) -> Option<usize> {
        let rank = |place: usize| {
            let node = self.ready[place];
            (self.begins(node).saturating_sub(self.time), Reverse(self.graph.height[node]), node)
        };
        let fits = |place: &usize| {
            let node = self.ready[*place];
            let change = self.pressure.change(self.function, self.graph.insts[node]);
            ahead.has_room(self.front, node, &change)
        };
        let best = (0..self.ready.len()).min_by_key(|place| rank(*place))?;
        if fits(&best) {
            return Some(best);
        }
        let mut tries: Vec<usize> = (0..self.ready.len()).collect();
        if tries.len() > TRIES {
            tries.select_nth_unstable_by_key(TRIES, |place| rank(*place));
            tries.truncate(TRIES);
        }
        tries.sort_unstable_by_key(|place| rank(*place));
        let first = || self.ready.iter().position(|node| *node == self.front);
        tries.into_iter().skip(1).find(fits).or_else(first)
    }
}
