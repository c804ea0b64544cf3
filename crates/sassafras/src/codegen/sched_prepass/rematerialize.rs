//! Rematerialization before scheduling (Briggs, Cooper & Torczon, "Rematerialization", PLDI 1992): cheap values that are
//! live through the code of the highest register pressure, for uses elsewhere, are computed again at these uses.
//!
//! Front ends hoist address arithmetic out of loops without counting registers. Where its results cost occupancy, or
//! spills, it goes back:
//!
//! ```text
//! b0: v3 = IADD3 v1, v2, RZ              b0: …
//! b1: (all registers are in use)    →    b1: …
//! b2: LDG v3                             b2: v9 = IADD3 v1, v2, RZ; LDG v9
//!     branch p, b1, b3                       branch p, b1, b3
//! ```
//!
//! Constants and special registers go to their uses in that code as well, if these are close to each other: the allocator
//! leaves them out of registers by itself only where nothing around reads them.
//!
//! The goal is room for tuples within the occupancy that is possible anyway, then the next higher occupancy, as often as
//! it is reached; or the register limit if every order of the code exceeds it. A value qualifies if its operands are live
//! through that code in any case, or qualify themselves. Those that cost least for each word go first, by loop depth,
//! until every block meets the goal. If it is not met, or if that costs more than the occupancy is worth
//! (`remat_gain_ratio`), nothing is done. Where the limit is exceeded, each value helps: a reload takes longer.
//!
//! Afterwards the blocks meet the goal in some order, which [`register_goal`] finds. Originals without a use are left for
//! `dce`. Linear in the code, plus the values that are live through blocks above the goal, whose number is bounded.

use super::{BlockPressure, register_goal, throughput};
use crate::analysis::effects;
use crate::context::{Context, PassResult, Tuning};
use crate::regalloc::is_rematerializable;
use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{
    Arg, Block, Cfg, Change, Definitions, File, Function, Inst, InstData, LoopForest, Op, Pseudo, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::M;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let mut changed = false;
    let mut pressure = BlockPressure::new(function, context);
    for _ in 0..context.tuning.remat_goals {
        changed |= reach(Aim::Room, function, &mut pressure, context).has_changed;
        let outcome = reach(Aim::Occupancy, function, &mut pressure, context);
        changed |= outcome.has_changed;
        if !outcome.is_reached {
            break;
        }
    }
    // The scheduler asks for it again if nothing changes until then.
    context.pressure = Some(Box::new(pressure));
    Ok(Change::Instructions.when(changed))
}

#[derive(Default)]
struct Outcome {
    is_reached: bool,
    has_changed: bool,
}

/// Computes values again until every block meets the goal.
fn reach(aim: Aim, function: &mut Function, pressure: &mut BlockPressure, context: &mut Context) -> Outcome {
    let Some((goal, mut excess)) = Goal::find(aim, function, pressure, context) else {
        return Outcome::default();
    };
    let weights = throughput::weights(function, context);
    let slots = |b: Block| weights[b.index()] * function.blocks[b].insts.len() as u64;
    let total: u64 = function.blocks.keys().map(slots).sum();
    let (mut original, mut latest) = (None, None);
    let (mut cost, mut changed) = (0, false);
    for _ in 0..context.tuning.remat_rounds {
        let mut plan = Plan::new(function, &excess, context);
        plan.select();
        let (selected, more) = (plan.selected, plan.cost);
        if selected.is_empty() || !goal.is_limit && cost + more > goal.most_cost(total, &context.tuning) {
            break;
        }
        cost += more;
        // A part of the way to a higher occupancy is worth nothing, one to the limit is.
        if !goal.is_limit && original.is_none() {
            original = Some(function.clone());
        }
        changed |= apply(function, selected, context);
        context.analyses.invalidate(Change::Instructions.when(changed));
        let mut now = BlockPressure::new(function, context);
        excess = goal.excess(function, &mut now);
        latest = Some(now);
        if excess.iter().all(|words| *words <= 0) {
            latest.into_iter().for_each(|latest| *pressure = latest);
            return Outcome { is_reached: true, has_changed: changed };
        }
    }
    if let Some(original) = original {
        *function = original;
        context.analyses.invalidate(Change::Instructions);
        changed = false;
    } else {
        latest.into_iter().for_each(|latest| *pressure = latest);
    }
    Outcome { is_reached: false, has_changed: changed }
}

/// What a goal is for.
#[derive(Clone, Copy, PartialEq)]
enum Aim {
    /// Room for tuples and moves within the occupancy that the lowest pressure allows: without it the order for
    /// latencies is given up, and values move. Or within the register limit.
    Room,
    /// The next higher occupancy.
    Occupancy,
}

/// What the blocks should take.
struct Goal {
    /// The words that values may take.
    words: i32,
    /// Without it values are spilled.
    is_limit: bool,
    /// By how much it raises occupancy, in percent.
    gain: u64,
}

impl Goal {
    /// The goal, and by block how many words it exceeds the goal.
    fn find(
        aim: Aim,
        function: &Function,
        pressure: &mut BlockPressure,
        context: &Context,
    ) -> Option<(Goal, Vec<i32>)> {
        let params = pressure.tracker.params;
        let occupancy = context.usual_occupancy();
        let least = occupancy.step(1) as i32 - params.goal_overhead;
        let most = pressure.of_all(function, least, i32::MAX);
        // With fewer registers, the scheduler and the allocator rarely keep to the lowest pressure.
        let slack = match register_goal::has_matrix_product(function, &pressure.cfg) {
            true => params.matrix_slack + params.goal_fragmentation,
            false => 0,
        };
        // The more registers, the more tuples leave holes.
        let holes = most / context.tuning.remat_registers_per_hole.max(1) as i32;
        let least_room = params.goal_overhead + slack.max(holes.min(params.goal_fragmentation));
        let room = match aim {
            Aim::Room => params.goal_overhead + slack.max(params.goal_fragmentation),
            Aim::Occupancy => least_room,
        };
        let registers = (most + room) as u32;
        let is_limit = registers > context.registers;
        let step = match is_limit {
            true => context.registers,
            false => occupancy.next_step(registers)?,
        };
        let has_room = occupancy.step((most + least_room) as u32) == occupancy.step(registers);
        let is_far = registers.saturating_sub(step) > context.tuning.remat_most_words;
        let gain = occupancy.gain(step, registers);
        let is_small = gain < context.tuning.remat_least_gain;
        let is_idle = match aim {
            Aim::Room => has_room,
            Aim::Occupancy => is_small,
        };
        if most == least || !is_limit && (is_far || is_idle) {
            return None;
        }
        let goal = Goal { words: step as i32 - room, is_limit, gain: gain.into() };
        let excess = goal.excess(function, pressure);
        let blocks = excess.iter().filter(|words| **words > 0).count();
        (blocks <= context.tuning.remat_most_blocks as usize).then_some((goal, excess))
    }

    fn excess(&self, function: &Function, pressure: &mut BlockPressure) -> Vec<i32> {
        let mut excess = vec![0; function.blocks.len()];
        for &block in &pressure.cfg.clone().order {
            excess[block.index()] = (pressure.lowest(function, block, self.words) - self.words).max(0);
        }
        excess
    }

    /// The most weighted instructions that it is worth, of so many.
    fn most_cost(&self, total: u64, tuning: &Tuning) -> u64 {
        total * self.gain / (100 * u64::from(tuning.remat_gain_ratio.max(1)))
    }
}

/// A value that is computed again in a block that uses it.
struct Selected {
    value: Value,
    user: Block,
    /// What computes it there, operands first.
    steps: Steps,
}

type Steps = SmallVec<[Inst; 4]>;

struct Plan<'a> {
    function: &'a Function,
    live: std::rc::Rc<Liveness>,
    definitions: std::rc::Rc<Definitions>,
    weights: Vec<u64>,
    most_steps: usize,
    most_span: u32,
    /// By block: the words above the goal that are left.
    excess: Vec<i32>,
    /// By candidate: the blocks above the goal that it is live through.
    through: BTreeMap<Value, Vec<Block>>,
    /// By candidate: the blocks after those that use it.
    users: FxHashMap<Value, Vec<Block>>,
    /// Values that are computed again in a block.
    available: FxHashSet<(Block, Value)>,
    /// Selected values.
    gone: FxHashSet<Value>,
    selected: Vec<Selected>,
    /// Weighted instructions of all steps.
    cost: u64,
}

impl Plan<'_> {
    fn new<'a>(function: &'a Function, excess: &[i32], context: &mut Context) -> Plan<'a> {
        let cfg = context.analyses.cfg(function);
        let mut plan = Plan {
            function,
            live: context.analyses.liveness(function),
            definitions: context.analyses.definitions(function),
            weights: throughput::weights(function, context),
            most_steps: context.tuning.remat_most_steps as usize,
            most_span: context.tuning.remat_most_span,
            excess: excess.to_vec(),
            through: BTreeMap::new(),
            users: FxHashMap::default(),
            available: FxHashSet::default(),
            gone: FxHashSet::default(),
            selected: Vec::new(),
            cost: 0,
        };
        let loops = context.analyses.loops(function);
        plan.find_candidates((&cfg, &loops));
        plan.find_users(&cfg);
        plan
    }

    fn find_candidates(&mut self, (cfg, loops): (&Cfg, &LoopForest)) {
        let live = self.live.clone();
        let mut used_in_loop: FxHashMap<Block, FxHashSet<Value>> = FxHashMap::default();
        for &block in cfg.order.iter().filter(|b| self.excess[b.index()] > 0) {
            let spans = self.spans(block);
            let most_span = self.most_span.min(self.function.blocks[block].insts.len() as u32 / 2);
            // What can be rematerialized counts where it has a use, there or in the loop around.
            let around = loops.innermost(block).map(|l| loops.get(l));
            let used_around = match around {
                Some(l) => used_in_loop.entry(l.header).or_insert_with(|| self.used_in(&l.blocks)),
                None => used_in_loop.entry(block).or_insert_with(|| self.used_in(&[block])),
            };
            for value in live.live_in[block.index()].iter() {
                let Some((_, inst)) = self.definitions[value.index()] else { continue };
                let span = spans.get(&value).map(|span| span.end - span.start);
                let counts = match is_rematerializable(&self.function.insts[inst]) {
                    true => used_around.contains(&value) && span.is_none_or(|span| span <= most_span),
                    false => span.is_none() && live.live_out[block.index()].contains(value),
                };
                if counts && self.cost_of(inst).is_some() {
                    self.through.entry(value).or_default().push(block);
                }
            }
        }
    }

    /// The positions in a block from the first use of each value to the last one.
    fn spans(&self, block: Block) -> FxHashMap<Value, Range<u32>> {
        let data = &self.function.blocks[block];
        let mut spans: FxHashMap<Value, Range<u32>> = FxHashMap::default();
        let mut add = |value: Value, position: usize| {
            spans.entry(value).or_insert(position as u32..0).end = position as u32;
        };
        for (position, inst) in data.insts.iter().enumerate() {
            self.function.insts[*inst].uses().for_each(|value| add(value, position));
        }
        data.end.uses().for_each(|value| add(value, data.insts.len()));
        spans
    }

    fn used_in(&self, blocks: &[Block]) -> FxHashSet<Value> {
        let uses = |b: &Block| {
            let data = &self.function.blocks[*b];
            data.insts.iter().flat_map(|i| self.function.insts[*i].uses()).chain(data.end.uses())
        };
        blocks.iter().flat_map(uses).collect()
    }

    fn find_users(&mut self, cfg: &Cfg) {
        let mut after = vec![false; self.function.blocks.len()];
        let mut pending: Vec<Block> =
            cfg.order.iter().copied().filter(|b| self.excess[b.index()] > 0).collect();
        while let Some(block) = pending.pop() {
            for &next in &cfg.succs[block.index()] {
                if !std::mem::replace(&mut after[next.index()], true) {
                    pending.push(next);
                }
            }
        }
        for &block in &cfg.order {
            let is_above = self.excess[block.index()] > 0;
            if !after[block.index()] && !is_above {
                continue;
            }
            let data = &self.function.blocks[block];
            let insts = data.insts.iter().flat_map(|i| self.function.insts[*i].uses());
            for value in insts.chain(data.end.uses()).filter(|v| self.through.contains_key(v)) {
                let Some((home, inst)) = self.definitions[value.index()] else { continue };
                let is_here = after[block.index()] || is_rematerializable(&self.function.insts[inst]);
                let users = self.users.entry(value).or_default();
                if is_here && home != block && users.last() != Some(&block) {
                    users.push(block);
                }
            }
        }
    }

    /// Selects values until no block exceeds the goal, the cheapest first.
    fn select(&mut self) {
        let words = |v: Value| u64::from(self.function.values[v].words);
        let cost = |v: Value| self.steps_of_users(v).map(|steps| self.cost_of_all(v, &steps) * 4 / words(v));
        let mut ranked: Vec<(u64, Value)> =
            self.through.keys().filter_map(|v| Some((cost(*v)?, *v))).collect();
        ranked.sort_unstable();
        for (_, value) in ranked {
            let exceeds = |b: &Block| self.excess[b.index()] > 0;
            if self.through[&value].iter().any(exceeds)
                && let Some(steps) = self.steps_of_users(value)
            {
                self.take(value, steps);
            }
        }
    }

    fn take(&mut self, value: Value, steps: Vec<Steps>) {
        self.cost += self.cost_of_all(value, &steps);
        let words = i32::from(self.function.values[value].words);
        for block in &self.through[&value] {
            self.excess[block.index()] -= words;
        }
        self.gone.insert(value);
        for (user, steps) in self.users[&value].clone().into_iter().zip(steps) {
            // The steps read other candidates there.
            for operand in steps.iter().flat_map(|i| self.function.insts[*i].uses()) {
                if let Some(users) = self.users.get_mut(&operand).filter(|users| !users.contains(&user)) {
                    users.push(user);
                }
            }
            self.available.insert((user, value));
            self.selected.push(Selected { value, user, steps });
        }
    }

    /// By block that uses a value: what computes it there.
    fn steps_of_users(&self, value: Value) -> Option<Vec<Steps>> {
        let users = self.users.get(&value).filter(|users| !users.is_empty())?;
        let steps = |user: &Block| {
            let mut steps = Steps::new();
            let is_found =
                !self.is_fixed(*user) && self.add_steps(value, value, *user, &mut steps, self.most_steps);
            is_found.then_some(steps)
        };
        users.iter().map(steps).collect()
    }

    /// Appends what computes `value` in a block, for the candidate `of`.
    fn add_steps(&self, value: Value, of: Value, user: Block, steps: &mut Steps, depth: usize) -> bool {
        let Some((_, inst)) = self.definitions[value.index()] else { return false };
        if depth == 0 || self.cost_of(inst).is_none() {
            return false;
        }
        for operand in self.function.insts[inst].uses() {
            let is_there =
                |steps: &Steps| steps.iter().any(|i| self.function.insts[*i].results.contains(&operand));
            if !is_there(steps)
                && !self.stays(operand, of)
                && !self.available.contains(&(user, operand))
                && !self.add_steps(operand, of, user, steps, depth - 1)
            {
                return false;
            }
        }
        steps.push(inst);
        steps.len() <= self.most_steps
    }

    /// Is a value live in any case wherever the candidate `of` takes registers that are missing?
    fn stays(&self, value: Value, of: Value) -> bool {
        let is_live = |b: &Block| {
            let (before, after) = (&self.live.live_in[b.index()], &self.live.live_out[b.index()]);
            before.contains(value) && after.contains(value)
        };
        !self.gone.contains(&value) && self.through[&of].iter().all(is_live)
    }

    /// The issue slots of an instruction that may be executed again; `None` for others.
    fn cost_of(&self, inst: Inst) -> Option<u64> {
        let data = &self.function.insts[inst];
        let is_word = |v: &Value| {
            let shape = self.function.values[*v];
            shape.file == File::R && shape.words <= 2
        };
        let is_free_of_place = |arg: &Arg| {
            !matches!(arg, Arg::StackTop | Arg::Incoming(_) | Arg::Target(_))
                && !matches!(arg, Arg::Fixed { file, .. } if *file != File::UR)
        };
        let is_plain = data.guard.is_none() && data.results.len() == 1 && data.results.iter().all(is_word);
        (is_plain && data.args.iter().all(is_free_of_place)).then(|| issue_slots(data)).flatten()
    }

    fn cost_of_all(&self, value: Value, steps: &[Steps]) -> u64 {
        let slots = |steps: &Steps| steps.iter().filter_map(|i| self.cost_of(*i)).sum::<u64>();
        let users = self.users[&value].iter().zip(steps);
        users.map(|(user, steps)| self.weights[user.index()] * slots(steps)).sum()
    }

    /// Does a block have instructions whose registers are fixed? Nothing comes between these.
    fn is_fixed(&self, block: Block) -> bool {
        let insts = &self.function.blocks[block].insts;
        insts.iter().any(|inst| {
            let data = &self.function.insts[*inst];
            let names_register = |arg: &Arg| matches!(arg, Arg::Fixed { file, .. } if *file != File::UR);
            let is_collective = matches!(data.op, Op::Machine(sass::Op::WARPSYNC | sass::Op::ENDCOLLECTIVE));
            is_collective || self.function.fixed.contains_key(inst) || data.args.iter().any(names_register)
        })
    }
}

/// The issue slots of a cheap function of its operands.
fn issue_slots(data: &InstData) -> Option<u64> {
    use sass::Op::*;
    match data.op {
        Op::Machine(S2R) if is_rematerializable(data) => Some(2),
        _ if is_rematerializable(data) => Some(1),
        _ if !effects::is_function(data) => None,
        Op::Pseudo(Pseudo::Pack) => Some(0),
        Op::Machine(IMAD) if data.modifiers.iter().any(|m| matches!(m, M::WIDE | M::HI)) => Some(2),
        Op::Machine(
            IABS | IADD3 | IMAD | IMNMX | LEA | LOP3 | MOV | PRMT | SEL | SGXT | SHF | VIADD | VIMNMX,
        ) => Some(1),
        _ => None,
    }
}

/// Computes the selected values again as far as there is fuel. Is there any?
fn apply(function: &mut Function, selected: Vec<Selected>, context: &mut Context) -> bool {
    let mut inserted: BTreeMap<Block, Vec<Inst>> = BTreeMap::new();
    let mut names: FxHashMap<(Block, Value), Value> = FxHashMap::default();
    for Selected { value, user, steps } in selected {
        if !context.fuel.burn() {
            break;
        }
        let mut local: FxHashMap<Value, Value> = FxHashMap::default();
        let insts = inserted.entry(user).or_default();
        for step in steps {
            let mut data = function.insts[step].clone();
            let rename = |v: Value| local.get(&v).or_else(|| names.get(&(user, v))).copied().unwrap_or(v);
            data.map_uses(rename);
            let (old, shape) = (data.results[0], function.values[data.results[0]]);
            data.results[0] = function.value(shape.file, shape.words);
            local.insert(old, data.results[0]);
            insts.push(function.insts.push(data));
        }
        let new = local[&value];
        names.insert((user, value), new);
        let rename = |v: Value| if v == value { new } else { v };
        function.map_uses_in(user, rename);
        let own = local.values().copied().collect::<FxHashSet<Value>>();
        for inst in insts.iter() {
            if !function.insts[*inst].results.iter().any(|v| own.contains(v)) {
                function.insts[*inst].map_uses(rename);
            }
        }
    }
    let any = !inserted.is_empty();
    for (block, insts) in inserted {
        function.insert_before_uses(block, insts);
    }
    any
}
