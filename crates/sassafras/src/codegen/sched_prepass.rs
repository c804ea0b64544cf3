//! Prepass scheduling: list scheduling within blocks before register allocation (Cooper & Torczon, *Engineering a
//! Compiler*, section 12.3; priority is the height in the dependence graph), bounded by register pressure as in
//! Goodman & Hsu, "Code Scheduling and Register Allocation in Large Basic Blocks" (ICS 1988).
//!
//! ```text
//! v1 = LDG [v0]                   v1 = LDG [v0]
//! v2 = IADD3 v1, 1, RZ     ==>    v3 = LDG [v0 + 4]
//! v3 = LDG [v0 + 4]               v2 = IADD3 v1, 1, RZ
//! v4 = IADD3 v3, 1, RZ            v4 = IADD3 v3, 1, RZ
//! ```
//!
//! Of the ready instructions the one with the greatest height is next, unless it cannot issue yet or exceeds the
//! pressure limits. Pressure beyond the budget is accepted only where the original order has it, too. A block that
//! exceeds its registers is first reordered for low pressure ([`min_pressure`]), and scheduled within that
//! ([`pressure_profile`]). Where fewer registers let more thread blocks run at once ([`register_goal`]), the schedule
//! stays within them everywhere. A goal may cost more latency than its warps hide: then the next ones are tried, and the
//! best by [`throughput`] is taken.
//!
//! Afterwards the order respects [`dep_graph`], and within a goal no point has more pressure than the original order
//! or the goal. The register goal goes to the allocator. Blocks are cut into windows, so the cost is linear in the
//! code; in a window, dependences of effects and the choice from the ready list are quadratic at worst.

mod block_pressure;
mod bottom_up;
mod dep_graph;
mod live_through;
mod min_pressure;
mod pressure_profile;
mod register_goal;
pub mod rematerialize;
mod throughput;

pub use block_pressure::BlockPressure;

use crate::context::{Context, Occupancy, PassResult, Tuning};
use crate::regalloc::{self, BlockLimits, Limits};
use dep_graph::{DepGraph, LatencyTable};
use min_pressure::Anchors;
use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{Analyses, Block, Cfg, Change, File, Function, Inst, Op, Pseudo, Value};
use pressure_profile::PressureProfile;
use rustc_hash::FxHashMap;
use sass::model::Unit;
use std::cell::LazyCell;
use std::cmp::Reverse;
use std::ops::Range;
use throughput::{BlockTime, Estimate};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let live = context.analyses.liveness(function);
    let loops = context.analyses.loops(function);
    let limits = Limits::registers(context.registers);
    let mut pressure = match context.pressure.take().map(|found| found.downcast::<BlockPressure>()) {
        Some(Ok(found)) => *found,
        _ => BlockPressure::new(function, context),
    };
    let goal = register_goal::of(function, &mut pressure, context);
    let mut pass = Prepass {
        block_limits: BlockLimits::new(function, &cfg, &limits),
        limits,
        live_through: live_through::words(function, &loops, &live),
        convergent: convergent_blocks(function, &cfg, &mut context.analyses),
        calls: function.insts.keys().any(|i| function.insts[i].op == Op::Pseudo(Pseudo::Call)),
        cfg: &cfg,
        live: &live,
        pressure: pressure.tracker,
        earlier: Vec::new(),
    };
    context.register_goal = goal.map(|(registers, _)| registers);
    let Some((registers, needed)) = goal else {
        pass.schedule(function, None, context);
        return Ok(Change::Order);
    };
    if needed > pass.pressure.params.budget[R] {
        // The schedule for latencies may have the occupancy of the goal, too: then it is better.
        let original = order_of(function, &cfg);
        pass.keep_earlier(function);
        pass.schedule(function, None, context);
        let reached = register_goal::reached(function, (&cfg, &live), &mut pass.pressure, context);
        if reached.is_some() && reached <= context.register_goal {
            context.register_goal = reached;
            return Ok(Change::Order);
        }
        set_order(function, &cfg, original);
        pass.schedule(function, goal, context);
        return Ok(Change::Order);
    }
    pass.schedule_for_best_goal(function, (registers, needed), context);
    Ok(Change::Order)
}

/// The instructions of the blocks in reverse post-order.
type Order = Vec<Vec<Inst>>;

fn order_of(function: &Function, cfg: &Cfg) -> Order {
    cfg.order.iter().map(|b| function.blocks[*b].insts.clone()).collect()
}

fn set_order(function: &mut Function, cfg: &Cfg, order: Order) {
    cfg.order.iter().zip(order).for_each(|(b, insts)| function.blocks[*b].insts = insts);
}

struct Prepass<'a> {
    limits: Limits,
    block_limits: BlockLimits,
    /// By block: words that can be spilled across its loop.
    live_through: Vec<i32>,
    convergent: Vec<bool>,
    calls: bool,
    cfg: &'a Cfg,
    live: &'a Liveness,
    pressure: PressureTracker,
    /// By block, if the function is scheduled several times: what the schedule before found.
    earlier: Vec<Option<Earlier>>,
}

/// What an earlier schedule of a block found, from the same order on.
struct Earlier {
    from: Vec<Inst>,
    found: Found,
}

enum Found {
    /// A schedule for a register goal that kept no instruction from being next: with more registers it is the same.
    Schedule { limit: Counts, schedule: Box<Schedule> },
    /// The dependence graphs of the windows.
    Graphs(Vec<DepGraph>),
}

#[derive(Clone)]
struct Schedule {
    insts: Vec<Inst>,
    time: BlockTime,
}

impl Prepass<'_> {
    /// The function will be scheduled several times.
    fn keep_earlier(&mut self, function: &Function) {
        self.earlier = function.blocks.keys().map(|_| None).collect();
    }

    /// Schedules for the goal with the best estimated throughput: the first one, or a later one that overlaps so much
    /// more latency that it makes up for fewer warps.
    fn schedule_for_best_goal(
        &mut self,
        function: &mut Function,
        (first, needed): (u32, i32),
        context: &mut Context,
    ) {
        let weights = throughput::weights(function, context);
        self.keep_earlier(function);
        let original = order_of(function, self.cfg);
        let occupancy = context.usual_occupancy();
        let mut registers = first;
        let mut best: Option<(Estimate, u32, Order)> = None;
        for _ in 0..context.tuning.sched_goals.max(1) {
            let (times, is_narrowed) = self.schedule(function, Some((registers, needed)), context);
            let estimate = Estimate::new(&times, &weights, occupancy.warps_of_partition(registers));
            let least_gain = context.tuning.sched_goal_least_gain;
            if best.as_ref().is_none_or(|(other, ..)| estimate.is_better(other, least_gain)) {
                best = Some((estimate, registers, order_of(function, self.cfg)));
            }
            let next = occupancy.step(registers + 1).min(context.registers);
            let warps = occupancy.warps_of_partition(next);
            let least = Estimate::without_stalls(&times, &weights, warps);
            let may_gain = best.as_ref().is_none_or(|(best, ..)| least.is_better(best, least_gain));
            if !is_narrowed || !may_gain || next <= registers {
                break;
            }
            registers = next;
            set_order(function, self.cfg, original.clone());
        }
        if let Some((_, registers, order)) = best {
            context.register_goal = Some(registers);
            set_order(function, self.cfg, order);
        }
    }

    /// Schedules all blocks. Returns their times, and whether the goal kept an instruction from being next.
    fn schedule(
        &mut self,
        function: &mut Function,
        goal: Option<(u32, i32)>,
        context: &mut Context,
    ) -> (Vec<BlockTime>, bool) {
        let (mut times, mut is_narrowed) = (Vec::new(), false);
        self.pressure.set_goal(goal);
        for &block in &self.cfg.order {
            let fixed = self.calls && defines_uniform(function, block);
            if fixed || function.blocks[block].insts.len() < 3 || !context.fuel.burn() {
                continue;
            }
            let (schedule, is_narrowed_here) = self.schedule_block(function, block, &context.tuning);
            function.blocks[block].insts = schedule.insts;
            times.push(schedule.time);
            is_narrowed |= is_narrowed_here;
        }
        (times, is_narrowed)
    }

    fn schedule_block(&mut self, function: &Function, block: Block, tuning: &Tuning) -> (Schedule, bool) {
        let registers = i32::from(self.limits.usable(self.block_limits.min(block)));
        let pressure = &mut self.pressure;
        pressure.begin_block(function, self.live, block);
        let insts = &function.blocks[block].insts;
        let from = pressure.set_limits(function, insts, registers, self.live_through[block.index()]);
        let mut earlier = self.earlier.get_mut(block.index());
        let found =
            earlier.as_mut().and_then(|earlier| earlier.take()).filter(|earlier| earlier.from == from);
        let graphs = match found.map(|earlier| earlier.found) {
            Some(Found::Schedule { limit, schedule })
                if (0..FILES).all(|i| limit[i] <= pressure.limit[i]) =>
            {
                let same = Schedule::clone(&schedule);
                if let Some(earlier) = earlier {
                    *earlier = Some(Earlier { from, found: Found::Schedule { limit, schedule } });
                }
                return (same, false);
            }
            Some(Found::Graphs(graphs)) => graphs,
            _ => pressure.graphs(function, (block, self.convergent[block.index()]), &from),
        };
        let mut schedule = Schedule { insts: Vec::with_capacity(from.len()), time: BlockTime::new(block) };
        let mut is_narrowed = pressure.reordered;
        for graph in &graphs {
            let start = schedule.insts.len();
            let window = ListScheduler::new(function, graph, pressure, start).run(&mut schedule.insts);
            schedule.time.add(function, graph, window.cycles, tuning.sched_memory_interval);
            is_narrowed |= window.is_narrowed;
        }
        if let Some(earlier) = earlier {
            let found = match pressure.goal.is_some() && !is_narrowed {
                true => Found::Schedule { limit: pressure.limit, schedule: Box::new(schedule.clone()) },
                false => Found::Graphs(graphs),
            };
            *earlier = Some(Earlier { from, found });
        }
        (schedule, is_narrowed)
    }
}

/// By block: does the warp run it convergently? Computed only where a block has two collectives, which could change
/// places there; else none is said to.
fn convergent_blocks(function: &Function, cfg: &Cfg, analyses: &mut Analyses) -> Vec<bool> {
    let has_two = |block: &Block| {
        let insts = function.blocks[*block].insts.iter();
        insts.filter(|i| dep_graph::is_register_collective(&function.insts[**i])).nth(1).is_some()
    };
    if !cfg.order.iter().any(has_two) {
        return vec![false; function.blocks.len()];
    }
    let divergence = analyses.divergence(function);
    function.blocks.keys().map(|b| !divergence.is_divergent(b)).collect()
}

/// Does a block compute uniform values? Around calls these are rematerialized, and get the same registers again only if
/// they are defined in the order in which lowering made them.
fn defines_uniform(function: &Function, block: Block) -> bool {
    let uniform = |v: &Value| function.values[*v].file == File::UR;
    use sass::Op::{LDCU, ULDC, UMOV};
    let constant = |op: Op| matches!(op, Op::Machine(ULDC | LDCU | UMOV) | Op::Pseudo(Pseudo::Pack));
    let insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
    insts.filter(|data| !constant(data.op)).any(|data| data.results.iter().any(uniform))
}

/// The files whose pressure is tracked, as indices of [`Counts`].
const R: usize = 0;
const P: usize = 1;
const UR: usize = 2;
const FILES: usize = 3;

/// How many registers the stack pointer takes; no value has it.
const STACK_POINTER_REGISTERS: i32 = 1;

/// Registers of each tracked file.
type Counts = [i32; FILES];

fn tracked(file: File) -> Option<usize> {
    match file {
        File::R => Some(R),
        File::P => Some(P),
        File::UR => Some(UR),
        File::UP | File::B => None,
    }
}

/// How an order of low pressure is found.
#[derive(Clone, Copy)]
enum Strategy {
    DepthFirst(Anchors),
    BottomUp,
}

impl Strategy {
    /// In the order in which they are tried.
    const ALL: [Strategy; 3] = [
        Strategy::DepthFirst(Anchors::EffectsAndReductions),
        Strategy::DepthFirst(Anchors::Effects),
        Strategy::BottomUp,
    ];
}

/// The tuning of the pass, as it computes with it.
#[derive(Clone, Copy)]
struct Params {
    budget: Counts,
    predicate_limit: i32,
    uniform_limit: i32,
    register_reserve: i32,
    /// Registers of a goal that values don't get: those of the system, the stack pointer, and a margin.
    goal_overhead: i32,
    goal_fragmentation: i32,
    matrix_slack: i32,
    occupancy_slack: i32,
    occupancy_margin: i32,
    candidates: usize,
    window: usize,
    low_pressure_candidates: usize,
    low_pressure_ahead: usize,
}

impl Params {
    fn new(tuning: &Tuning) -> Params {
        let count = |value: u32| value.min(u16::MAX.into()) as i32;
        Params {
            budget: [
                count(tuning.sched_register_budget),
                count(tuning.sched_predicate_budget),
                count(tuning.sched_uniform_budget),
            ],
            predicate_limit: count(tuning.sched_predicate_limit),
            uniform_limit: count(tuning.sched_uniform_limit),
            register_reserve: count(tuning.sched_register_reserve),
            goal_overhead: STACK_POINTER_REGISTERS + Limits::SYSTEM as i32 + count(tuning.sched_goal_margin),
            goal_fragmentation: count(tuning.sched_goal_fragmentation),
            matrix_slack: count(tuning.sched_matrix_slack),
            occupancy_slack: count(tuning.sched_occupancy_slack),
            occupancy_margin: count(tuning.sched_occupancy_margin),
            candidates: tuning.sched_candidates as usize,
            window: tuning.sched_window.max(1) as usize,
            low_pressure_candidates: tuning.sched_low_pressure_candidates.max(1) as usize,
            low_pressure_ahead: tuning.sched_low_pressure_ahead.max(1) as usize,
        }
    }

    /// The words that a register goal leaves for values.
    fn goal_words(&self, registers: u32) -> i32 {
        registers as i32 - self.goal_overhead - self.goal_fragmentation
    }
}

/// The values that each instruction reads, with the number of operands that read them.
struct Uses {
    all: Vec<(Value, u32)>,
    /// The range of each instruction in `all`.
    ranges: Vec<Range<u32>>,
}

impl Uses {
    fn new(function: &Function, cfg: &Cfg) -> Uses {
        let mut uses = Uses { all: Vec::new(), ranges: vec![0..0; function.insts.len()] };
        // The index in `all` of the latest use of each value.
        let mut latest = vec![0; function.values.len()];
        for &inst in cfg.order.iter().flat_map(|b| &function.blocks[*b].insts) {
            let first = uses.all.len();
            function.insts[inst].uses().for_each(|value| uses.add(value, first, &mut latest));
            uses.ranges[inst.index()] = first as u32..uses.all.len() as u32;
        }
        uses
    }

    fn add(&mut self, value: Value, first: usize, latest: &mut [usize]) {
        let index = &mut latest[value.index()];
        match self.all.get_mut(*index) {
            Some((same, count)) if *index >= first && *same == value => *count += 1,
            _ => {
                *index = self.all.len();
                self.all.push((value, 1));
            }
        }
    }

    fn of(&self, inst: Inst) -> &[(Value, u32)] {
        let Range { start, end } = self.ranges[inst.index()];
        &self.all[start as usize..end as usize]
    }
}

/// Register pressure at the point that scheduling of a block has reached, and its limits.
struct PressureTracker {
    params: Params,
    uses: Uses,
    /// The file of each value and its words there: 0 for an undefined value, which gets no register, and for files that
    /// are not tracked.
    weights: Vec<(usize, i32)>,
    /// Uses of each value that are still to be scheduled in the block; one more if it is live out.
    remaining_uses: Vec<u32>,
    tables: min_pressure::Tables,
    /// By block and number of a strategy: the order that it makes of the present one.
    orders: FxHashMap<(Block, usize), Vec<Inst>>,
    latencies: LatencyTable,
    /// The block that the counts are of.
    block: Block,
    current: Counts,
    limit: Counts,
    budget: Counts,
    /// The pressure in R before each instruction in the original order, and how much more costs no occupancy.
    original: Vec<i32>,
    slack: i32,
    occupancy: Option<Occupancy>,
    /// The pressure limit in R where more would lower the occupancy.
    goal: Option<i32>,
    /// By block: words of R that an allocation within a goal leaves out of registers there.
    rematerializable: Vec<i32>,
    /// By value: a call of a routine can leave it out of registers.
    is_rematerializable: Vec<bool>,
    discounts: bool,
    /// The original order exceeds the registers of the block.
    is_crowded: bool,
    /// The order exceeds the registers of the block: some values will be spilled.
    spills: bool,
    /// The original order was replaced by one of lower pressure.
    reordered: bool,
}

impl PressureTracker {
    fn new(function: &Function, cfg: &Cfg, context: &Context) -> PressureTracker {
        let params = Params::new(&context.tuning);
        let values = function.values.len();
        let undefined = regalloc::undefined(function, cfg);
        let weight = |v: Value| match tracked(function.values[v].file) {
            Some(file) if !undefined.contains(v) => (file, function.values[v].words.into()),
            _ => (R, 0),
        };
        PressureTracker {
            params,
            uses: Uses::new(function, cfg),
            weights: function.values.keys().map(weight).collect(),
            remaining_uses: vec![0; values],
            tables: min_pressure::Tables::new(function, cfg),
            orders: FxHashMap::default(),
            latencies: LatencyTable::new(context.machine.isa, &context.tuning),
            block: Function::ENTRY,
            current: [0; FILES],
            limit: params.budget,
            budget: params.budget,
            original: Vec::new(),
            slack: 0,
            occupancy: context.occupancy,
            goal: None,
            rematerializable: vec![0; function.blocks.len()],
            is_rematerializable: vec![false; values],
            discounts: true,
            is_crowded: false,
            spills: false,
            reordered: false,
        }
    }

    /// What the allocator can rematerialize doesn't count where nothing near reads it.
    fn discount_rematerializable(
        &mut self,
        function: &Function,
        (cfg, loops): (&Cfg, &ori::LoopForest),
        live: &Liveness,
    ) {
        self.is_rematerializable = live_through::rematerializable(function, cfg);
        self.rematerializable =
            live_through::rematerializable_words(function, (cfg, loops), live, &self.is_rematerializable);
    }

    /// Sets the goal, and the pressure that some block has in every order.
    fn set_goal(&mut self, goal: Option<(u32, i32)>) {
        let params = self.params;
        let budget = params.budget;
        self.goal = goal.map(|(registers, _)| params.goal_words(registers));
        self.budget[R] = self.goal.unwrap_or(budget[R]);
        self.discounts = self.goal.is_some();
    }

    fn begin_block(&mut self, function: &Function, live: &Liveness, block: Block) {
        self.block = block;
        let data = &function.blocks[block];
        let ends = || live.live_out[block.index()].iter().chain(data.end.uses());
        let inner = || data.insts.iter().flat_map(|i| self.uses.of(*i));
        ends().chain(inner().map(|(v, _)| *v)).for_each(|v| self.remaining_uses[v.index()] = 0);
        ends().for_each(|v| self.remaining_uses[v.index()] += 1);
        inner().for_each(|(v, count)| self.remaining_uses[v.index()] += count);
        let mut current = [0; FILES];
        let at_start = live.live_in[block.index()].iter().chain(data.params.iter().copied());
        at_start.for_each(|value| self.add(&mut current, value, 1));
        if self.discounts {
            current[R] -= self.rematerializable[block.index()];
        }
        self.current = current;
    }

    /// Sets the pressure limits of a block with so many registers, of which `live_through` words can be spilled across
    /// its loop. Returns the order to start from: one of lower pressure, if the original one exceeds the limits.
    fn set_limits(
        &mut self,
        function: &Function,
        insts: &[Inst],
        registers: i32,
        live_through: i32,
    ) -> Vec<Inst> {
        self.budget[R] = self.goal.unwrap_or(self.params.budget[R]);
        let words = self.goal.into_iter().chain([registers - self.params.register_reserve]).min();
        let mut limit = [words.unwrap_or(0), self.params.predicate_limit, self.params.uniform_limit];
        let (original, at_ends) = self.pressure_or_budget(function, insts);
        if original[R] > limit[R] {
            limit[R] += live_through;
        }
        let excess = |max: &Counts| (max[R] - limit[R]).max(0) + (max[P] - limit[P]).max(0);
        let (mut best, mut better): (Counts, Option<Vec<Inst>>) = (original, None);
        for (number, strategy) in Strategy::ALL.into_iter().enumerate() {
            // No order has less than is live at the ends.
            if excess(&best) > excess(&at_ends) {
                let order = match &better {
                    Some(better) => self.min_pressure_order(function, better, strategy),
                    None => self.order_of_block(function, insts, number),
                };
                let (pressure, _) = self.pressure_or_budget(function, &order);
                if excess(&pressure) < excess(&best) {
                    (best, better) = (pressure, Some(order));
                }
            }
        }
        let order = better.unwrap_or_else(|| insts.to_vec());
        self.spills = best[R] > limit[R];
        self.is_crowded = original[R] > limit[R];
        self.reordered = excess(&best) < excess(&original);
        self.limit = std::array::from_fn(|i| best[i].min(limit[i]));
        if self.reordered {
            // Predicates that this order doesn't need may fill gaps.
            self.limit[P] = limit[P];
        }
        self.set_slack(function, &order, registers);
        order
    }

    /// Raises the limit by registers that cost no occupancy.
    fn set_slack(&mut self, function: &Function, insts: &[Inst], registers: i32) {
        self.slack = 0;
        let Params { register_reserve, occupancy_slack, occupancy_margin, .. } = self.params;
        if let (Some(occupancy), None, false) = (self.occupancy, self.goal, self.spills) {
            let step = occupancy.step((self.limit[R] + register_reserve) as u32);
            let free = (step as i32).min(registers) - occupancy_margin - self.limit[R];
            self.slack = free.clamp(0, occupancy_slack);
        }
        if self.slack > 0 {
            self.limit[R] += self.slack;
            self.original =
                self.pressure_after_each(function, insts).iter().map(|counts| counts[R]).collect();
            self.original.insert(0, self.current[R]);
        }
    }

    /// All instructions of the block before position `front` are scheduled.
    fn set_front(&mut self, front: usize) {
        if self.slack > 0 {
            let original = self.original.get(front).copied().unwrap_or(0);
            self.budget[R] = self.params.budget[R].max(original + self.slack);
        }
    }

    /// The least pressure in R over the present order, which has `own`, and some others; the search ends at `enough`.
    fn min_pressure(&mut self, function: &Function, insts: &[Inst], own: i32, enough: i32) -> i32 {
        let mut least = own;
        for number in 0..Strategy::ALL.len() {
            if least > enough {
                let order = self.order_of_block(function, insts, number);
                least = least.min(self.pressure_of(function, &order).0[R]);
            }
        }
        least
    }

    /// The dependence graphs of the windows of a block.
    fn graphs(&mut self, function: &Function, at: (Block, bool), insts: &[Inst]) -> Vec<DepGraph> {
        let windows = dep_graph::windows(&self.tables.roles, insts, self.params.window).into_iter();
        let graph = |window| DepGraph::new(function, at, window, &self.tables.roles, &mut self.latencies);
        windows.map(graph).collect()
    }

    /// What a strategy makes of the block in the order that it has, found once.
    fn order_of_block(&mut self, function: &Function, insts: &[Inst], number: usize) -> Vec<Inst> {
        if let Some(order) = self.orders.get(&(self.block, number)) {
            return order.clone();
        }
        let order = self.min_pressure_order(function, insts, Strategy::ALL[number]);
        self.orders.insert((self.block, number), order.clone());
        order
    }

    fn min_pressure_order(&mut self, function: &Function, insts: &[Inst], strategy: Strategy) -> Vec<Inst> {
        match strategy {
            Strategy::DepthFirst(anchors) => {
                min_pressure::order(function, insts, &mut self.remaining_uses, anchors, &mut self.tables)
            }
            Strategy::BottomUp => self.bottom_up_order(function, insts),
        }
    }

    /// The order of [`bottom_up`] for a whole block.
    fn bottom_up_order(&mut self, function: &Function, insts: &[Inst]) -> Vec<Inst> {
        let uses = insts.iter().flat_map(|i| self.uses.of(*i));
        uses.for_each(|(v, count)| self.remaining_uses[v.index()] -= count);
        let mut order = Vec::with_capacity(insts.len());
        for window in dep_graph::windows(&self.tables.roles, insts, self.params.window).into_iter().rev() {
            let at = (self.block, false);
            let graph =
                DepGraph::without_heights(function, at, window, &self.tables.roles, &mut self.latencies);
            bottom_up::place(function, &graph, self, &mut order);
        }
        order.reverse();
        order
    }

    /// The maximal pressure of an order, and that at its ends, or the budget if that is more.
    fn pressure_or_budget(&mut self, function: &Function, insts: &[Inst]) -> (Counts, Counts) {
        let (max, at_ends) = self.pressure_of(function, insts);
        let or_budget = |counts: Counts| std::array::from_fn(|i| counts[i].max(self.budget[i]));
        (or_budget(max), or_budget(at_ends))
    }

    /// The maximal pressure of an order, and that before its first and after its last instruction, which every order of
    /// these instructions has.
    fn pressure_of(&mut self, function: &Function, insts: &[Inst]) -> (Counts, Counts) {
        let max_of = |a: &Counts, b: &Counts| std::array::from_fn(|i| a[i].max(b[i]));
        let (first, mut max, mut last) = (self.current, self.current, self.current);
        self.for_each_pressure(function, insts, |counts| {
            last = *counts;
            max = max_of(&max, counts);
        });
        (max, max_of(&first, &last))
    }

    /// The pressure after each instruction of an order, from the current point on.
    fn pressure_after_each(&mut self, function: &Function, insts: &[Inst]) -> Vec<Counts> {
        let mut all = Vec::with_capacity(insts.len());
        self.for_each_pressure(function, insts, |counts| all.push(*counts));
        all
    }

    fn for_each_pressure(&mut self, function: &Function, insts: &[Inst], mut take: impl FnMut(&Counts)) {
        let current = self.current;
        for inst in insts {
            self.issue(function, *inst);
            take(&self.current);
        }
        // None of them is scheduled yet.
        self.current = current;
        let uses = insts.iter().flat_map(|i| self.uses.of(*i));
        uses.for_each(|(v, count)| self.remaining_uses[v.index()] += count);
    }

    /// The change in pressure by an instruction.
    fn delta(&self, function: &Function, inst: Inst) -> Counts {
        let mut delta = [0; FILES];
        for (value, count) in self.uses.of(inst) {
            if self.remaining_uses[value.index()] == *count {
                self.add(&mut delta, *value, -1);
            }
        }
        for value in function.insts[inst].results.iter().filter(|v| self.remaining_uses[v.index()] > 0) {
            self.add(&mut delta, *value, 1);
        }
        delta
    }

    fn issue(&mut self, function: &Function, inst: Inst) {
        for (value, count) in self.uses.of(inst) {
            let remaining = &mut self.remaining_uses[value.index()];
            *remaining -= count;
            if *remaining == 0 {
                let (file, words) = self.weights[value.index()];
                self.current[file] -= words;
            }
        }
        for value in function.insts[inst].results.iter().filter(|v| self.remaining_uses[v.index()] > 0) {
            let (file, words) = self.weights[value.index()];
            self.current[file] += words;
        }
    }

    /// Do the results of an instruction, which have so many words, fit, even if it kills no operand?
    fn fits(&self, results: &Counts) -> bool {
        let with_results: Counts = std::array::from_fn(|i| self.current[i] + results[i]);
        let in_budget = self.current[R] < self.budget[R] || with_results[R] == self.current[R];
        let in_limit = |i: usize| with_results[i] <= self.limit[i] || with_results[i] == self.current[i];
        in_budget && (0..FILES).all(in_limit)
    }

    /// Does an instruction raise the pressure in R where the budget is used up?
    fn exceeds_budget(&self, delta: &Counts) -> bool {
        self.current[R] >= self.budget[R] && delta[R] > 0
    }

    /// Where values will be spilled, instructions that raise the pressure further keep the original order: it had a last
    /// use in mind for each definition.
    fn must_keep_order(&self, delta: &Counts) -> bool {
        let over = self.spills && delta[R] > 0 && self.current[R] + delta[R] > self.limit[R];
        over || self.reordered && self.excess(delta) > 0
    }

    /// Does an instruction kill a predicate where they are short? A carry should be used soon, whatever that takes.
    fn frees_predicate(&self, delta: &Counts) -> bool {
        delta[P] < 0 && self.current[P] >= self.budget[P]
    }

    /// By how many registers an instruction exceeds the limits.
    fn excess(&self, delta: &Counts) -> i32 {
        let over =
            |i: usize| if delta[i] > 0 { (self.current[i] + delta[i] - self.limit[i]).max(0) } else { 0 };
        // There are more uniform registers than the limit, but a tuple of them that was begun must be finished.
        over(R) + over(P) + over(UR).min(1)
    }

    /// The words of R that a value keeps across a call of a routine.
    fn words_kept(&self, value: Value) -> i32 {
        match self.weights[value.index()] {
            (R, words) if !self.is_rematerializable[value.index()] => words,
            _ => 0,
        }
    }

    fn add(&self, counts: &mut Counts, value: Value, sign: i32) {
        let (file, words) = self.weights[value.index()];
        counts[file] += sign * words;
    }
}

/// A list scheduler for one window.
struct ListScheduler<'a> {
    function: &'a Function,
    graph: &'a DepGraph,
    pressure: &'a mut PressureTracker,
    /// By node: predecessors that are not scheduled, and the cycle from which on it may issue.
    unscheduled_preds: Vec<u32>,
    earliest: Vec<u32>,
    /// The cycle from which on each unit accepts an instruction.
    unit_free: [u32; Unit::COUNT],
    ready: Vec<usize>,
    cycle: u32,
    /// Machine instructions that are not scheduled.
    remaining: u32,
    /// Waits for wgmma that are scheduled.
    waits_done: u32,
    /// The position of the window in the block, and the first node that is not scheduled.
    window_start: usize,
    front: usize,
    scheduled: Vec<bool>,
    /// By node: the words of its results.
    results: Vec<Counts>,
    /// With a register goal: the pressure of the rest in the original order.
    profile: Option<PressureProfile>,
    /// The goal kept an instruction from being next.
    is_narrowed: bool,
}

/// What the schedule of a window is like.
struct Window {
    cycles: u32,
    is_narrowed: bool,
}

impl<'a> ListScheduler<'a> {
    fn new(
        function: &'a Function,
        graph: &'a DepGraph,
        pressure: &'a mut PressureTracker,
        window_start: usize,
    ) -> ListScheduler<'a> {
        let unscheduled_preds = graph.pred_counts();
        let nodes = unscheduled_preds.len();
        let is_bounded = pressure.goal.is_some() || pressure.is_crowded;
        let profile = is_bounded.then(|| PressureProfile::new(function, &graph.insts, pressure));
        let words = |inst: &Inst| {
            let mut words = [0; FILES];
            function.insts[*inst].results.iter().for_each(|v| pressure.add(&mut words, *v, 1));
            words
        };
        // Asked for without a goal only.
        let results = if profile.is_none() { graph.insts.iter().map(words).collect() } else { Vec::new() };
        ListScheduler {
            function,
            graph,
            pressure,
            ready: (0..nodes).filter(|n| unscheduled_preds[*n] == 0).collect(),
            unscheduled_preds,
            earliest: vec![0; nodes],
            unit_free: [0; Unit::COUNT],
            cycle: 0,
            remaining: graph.pipe.iter().flatten().count() as u32,
            waits_done: 0,
            window_start,
            front: 0,
            scheduled: vec![false; nodes],
            results,
            profile,
            is_narrowed: false,
        }
    }

    fn run(mut self, schedule: &mut Vec<Inst>) -> Window {
        self.pressure.set_front(self.window_start);
        while let Some(index) = self.pick() {
            let node = self.ready.swap_remove(index);
            let inst = self.graph.insts[node];
            self.waits_done += u32::from(self.graph.is_wait[node]);
            self.cycle = self.cycle.max(self.issue_cycle(node));
            let before = self.pressure.current;
            self.pressure.issue(self.function, inst);
            if let Some(profile) = &mut self.profile {
                let delta = std::array::from_fn(|i| self.pressure.current[i] - before[i]);
                profile.issue(self.front, node, &delta);
            }
            self.scheduled[node] = true;
            self.front += self.scheduled[self.front..].iter().take_while(|done| **done).count();
            self.pressure.set_front(self.window_start + self.front);
            for &(succ, latency) in self.graph.succs(node) {
                self.earliest[succ] = self.earliest[succ].max(self.cycle + latency);
                self.unscheduled_preds[succ] -= 1;
                if self.unscheduled_preds[succ] == 0 {
                    self.ready.push(succ);
                }
            }
            if let Some(pipe) = self.graph.pipe[node] {
                self.unit_free[pipe as usize] = self.cycle + self.graph.busy[node];
                self.cycle += 1;
                self.remaining -= 1;
            }
            schedule.push(inst);
        }
        Window { cycles: self.cycle, is_narrowed: self.is_narrowed }
    }

    /// The cycle in which an instruction can issue: its operands are available, and its unit is free.
    fn issue_cycle(&self, node: usize) -> u32 {
        self.earliest[node].max(self.graph.pipe[node].map_or(0, |pipe| self.unit_free[pipe as usize]))
    }

    /// The index in the ready list of the next instruction. In this order: least excess over the pressure limits,
    /// shortest stall, greatest height, original order.
    fn pick(&mut self) -> Option<usize> {
        if let Some(profile) = &self.profile {
            let (index, is_narrowed) = self.pick_within_goal(profile)?;
            self.is_narrowed |= is_narrowed;
            return Some(index);
        }
        let highest = LazyCell::new(|| self.ready.iter().map(|n| self.graph.height[*n]).max().unwrap_or(0));
        let rank = |node: usize, stall: u32| {
            let (inst, height) = (self.graph.insts[node], self.graph.height[node]);
            if self.pressure.fits(&self.results[node]) {
                return (0, false, stall, Reverse(height), node);
            }
            let delta = self.pressure.delta(self.function, inst);
            if self.pressure.frees_predicate(&delta) {
                return (0, false, stall, Reverse(height), node);
            }
            let is_fence = self.graph.is_fence[node];
            if !is_fence && self.pressure.must_keep_order(&delta) {
                return (1, false, 0, Reverse(0), node);
            }
            let excess = if is_fence { 0 } else { self.pressure.excess(&delta) };
            // A long live range is not begun only to fill a gap.
            let used_late = self.pressure.spills && self.graph.waits_before_use[node] > self.waits_done;
            let is_early = || used_late || 2 * height < highest.max(self.remaining);
            let early = self.pressure.exceeds_budget(&delta) && is_early();
            let excess = if early { excess.max(1) } else { excess };
            // Where registers are short, the most urgent instruction gets them, even if it stalls. Urgent is what many
            // others wait for: leaves with a great height only because their unit is busy keep their results for long.
            match excess {
                0 => (excess, early, stall, Reverse(height), node),
                _ => (excess, early, 0, Reverse(self.graph.path[node]), node),
            }
        };
        let mut best = None;
        for (index, &node) in self.ready.iter().enumerate() {
            let stall = self.issue_cycle(node).saturating_sub(self.cycle);
            // The pressure is asked for only where it can make a difference: it makes no rank better.
            let least = (0, false, stall, Reverse(self.graph.height[node]), node);
            if best.is_none_or(|(rank, _)| least < rank) {
                let rank = rank(node, stall);
                best = best.filter(|(other, _)| *other < rank).or(Some((rank, index)));
            }
        }
        best.map(|(_, index)| index)
    }

    /// The same with a register goal: the best of some candidates that fit before all instructions that they pass, of
    /// those that need no register, and of the first in the original order, which always fits.
    ///
    /// ```text
    /// v1 = LDG ..; v2 = LDG ..; v3 = IADD3 (40 of these, for addresses of later loads, no register is free)
    /// v4 = HADD2 v2                    the first in the original order
    /// STS v1; BAR; v5 = LDG ..         needs no register, and leads to more loads
    /// ```
    ///
    /// Also: is there a better one that doesn't fit?
    fn pick_within_goal(&self, profile: &PressureProfile) -> Option<(usize, bool)> {
        let rank = |index: usize| {
            let node = self.ready[index];
            (self.issue_cycle(node).saturating_sub(self.cycle), Reverse(self.graph.height[node]), node)
        };
        let delta = |index: usize| self.pressure.delta(self.function, self.graph.insts[self.ready[index]]);
        let fits = |index: &usize| {
            profile.fits(self.front, self.ready[*index], &self.pressure.current, &delta(*index))
        };
        let best = (0..self.ready.len()).min_by_key(|index| rank(*index))?;
        if fits(&best) {
            return Some((best, false));
        }
        // Those that raise the pressure are looked up in the profile, which takes time: only some of them.
        let (mut raising, others): (Vec<usize>, Vec<usize>) =
            (0..self.ready.len()).partition(|index| delta(*index).iter().any(|words| *words > 0));
        let most = self.pressure.params.candidates;
        if raising.len() > most {
            raising.select_nth_unstable_by_key(most, |index| rank(*index));
            raising.truncate(most);
        }
        raising.sort_unstable_by_key(|index| rank(*index));
        let raising = raising.into_iter().find(fits);
        let least = others.into_iter().min_by_key(|index| rank(*index));
        let first = self.ready.iter().position(|node| *node == self.front);
        let next = raising.into_iter().chain(least).chain(first).min_by_key(|index| rank(*index))?;
        Some((next, true))
    }
}
