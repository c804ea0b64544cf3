//! Loop-invariant code motion: hoists computations with the same result in every iteration to the preheader.
//!
//! Processes innermost loops first. An instruction is invariant if its operands are defined outside the loop or are
//! invariant themselves. It can be hoisted (see [`Loop::may_hoist`]) if:
//!
//! * it has no side effects (`analysis/effects.rs`): it may be executed speculatively, but is hoisted only from blocks
//!   that every iteration executes and from preheaders of inner loops;
//! * or it is a plain load that the loop always executes, and nothing in the loop writes or orders its memory;
//! * or it is a shuffle, and neither its block nor the preheader is divergent, so that the same threads take part in
//!   both.
//!
//! ```text
//! b0: jump b1(v0)                        b0: v3 = MUFU.SIN v1; jump b1(v0)
//! b1(v2): v3 = MUFU.SIN v1          →    b1(v2):
//!     v4 = v2 + v3; branch p, b1(v4), b2     v4 = v2 + v3; branch p, b1(v4), b2
//! ```
//!
//! A hoisted result is live throughout the loop. Only results used by other instructions of the loop are hoisted, those
//! that save the most time first, each with the invariants that it depends on, while the loop's register pressure costs
//! no occupancy (`Occupancy::step`); long latencies may cost it ([`Tuning::licm_long_time`]). Constants stay, because
//! they are operands. A loop without a preheader gets one. Cost: linear in the blocks of each loop, for an average of
//! [`Tuning::licm_max_depth`] loops around a block.

use crate::analysis::effects::{self, Effects, Memory, Motion};
use crate::context::{Context, Occupancy, PassResult, Tuning};
use crate::regalloc::Limits;
use ori::divergence;
use ori::entity::Entity;
use ori::liveness::{LiveSet, Liveness, ScratchSet};
use ori::{
    Arg, Block, Cfg, Change, Divergence, Edge, File, Function, Inst, InstData, LoopForest, LoopId, Op,
    Pseudo, Terminator, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::Class;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let forest = context.analyses.loops(function);
    if forest.is_empty() {
        return Ok(Change::Nothing);
    }
    let mut change = Change::ControlFlow.when(insert_preheaders(function, context, &forest));
    context.analyses.invalidate(change);
    let forest = context.analyses.loops(function);
    let ids: Vec<LoopId> = forest.iter().map(|(id, _)| id).collect();
    let mut facts = None;
    let mut outline = Outline::new(function, context, &forest);
    // In a deep nest each loop walks over all that are in it: the outermost ones are left alone then.
    let mut blocks = context.tuning.licm_max_depth as usize * function.blocks.len();
    for id in ids.into_iter().rev() {
        let Some(rest) = blocks.checked_sub(forest.get(id).blocks.len()) else { break };
        blocks = rest;
        if hoist_from(function, context, &forest, id, (&mut outline, &mut facts)) {
            change = change.max(Change::Instructions);
        }
    }
    Ok(change)
}

/// What finding invariants takes.
struct Outline {
    cfg: Rc<Cfg>,
    /// Where each value is defined.
    defined_in: Vec<Option<Block>>,
    preheaders: FxHashSet<Block>,
}

impl Outline {
    fn new(function: &Function, context: &mut Context, forest: &LoopForest) -> Outline {
        Outline {
            cfg: context.analyses.cfg(function),
            defined_in: defining_blocks(function),
            preheaders: forest.iter().filter_map(|(_, l)| l.preheader).collect(),
        }
    }
}

/// What else is known of the function, once there is something to hoist. It is kept up to date: most of it does not depend
/// on what moves to a preheader.
struct Facts {
    divergence: Rc<Divergence>,
    live: Liveness,
    /// By value: is it a literal?
    constants: Vec<bool>,
    pressure: Pressure,
}

impl Facts {
    fn new(function: &Function, context: &mut Context, cfg: &Cfg) -> Facts {
        let live = context.analyses.liveness(function).as_ref().clone();
        let mut constants = vec![false; function.values.len()];
        let literals = function.insts.keys().map(|i| &function.insts[i]).filter(|data| is_literal(data));
        literals.flat_map(|data| &data.results).for_each(|r| constants[r.index()] = true);
        let mut pressure = Pressure::new(function);
        pressure.add(function, &live, &constants, &cfg.order);
        Facts { divergence: context.analyses.divergence(function), live, constants, pressure }
    }

    /// Instructions have moved from the blocks of a loop to its preheader.
    fn update(
        &mut self,
        function: &Function,
        context: &mut Context,
        outline: &mut Outline,
        blocks: &[Block],
        hoisted: &Hoisted,
    ) {
        context.analyses.invalidate(Change::Instructions);
        let preheader = hoisted.preheader;
        outline.defined_in.resize(function.values.len(), Some(preheader));
        self.constants.resize(function.values.len(), false);
        let mut values = hoisted.copied.clone();
        let mut depends_on_block = false;
        for data in hoisted.insts.iter().map(|i| &function.insts[*i]) {
            depends_on_block |= divergence::depends_on_convergence(data);
            data.results.iter().for_each(|r| self.constants[r.index()] = is_literal(data));
            data.results.iter().for_each(|r| outline.defined_in[r.index()] = Some(preheader));
            values.extend(data.results.iter().copied().chain(data.uses()));
        }
        let is_divergent = self.divergence.is_divergent(preheader);
        if depends_on_block && blocks.iter().any(|b| self.divergence.is_divergent(*b) != is_divergent) {
            self.divergence = context.analyses.divergence(function);
        }
        let changed: Vec<Block> = blocks.iter().copied().chain([preheader]).collect();
        self.live.update(function, &outline.cfg, &changed, &values, &outline.defined_in);
        self.pressure.add(function, &self.live, &self.constants, &changed);
    }
}

/// What has moved to a preheader, with the copies of constants.
struct Hoisted {
    preheader: Block,
    insts: Vec<Inst>,
    /// The constants that were copied.
    copied: FxHashSet<Value>,
}

/// Gives a preheader to the loops that may need one: those with an instruction whose operands are defined outside.
fn insert_preheaders(function: &mut Function, context: &mut Context, forest: &LoopForest) -> bool {
    let defined_in = defining_blocks(function);
    let cfg = context.analyses.cfg(function);
    let mut inserted = false;
    for (id, l) in forest.iter().filter(|(_, l)| l.preheader.is_none() && l.header != Function::ENTRY) {
        let is_outside = |v: Value| defined_in[v.index()].is_some_and(|b| !forest.contains(id, b));
        let is_candidate = |i: &Inst| {
            let data = &function.insts[*i];
            time(data) > 0 && movable(data) && data.uses().all(is_outside)
        };
        let is_needed = l.blocks.iter().any(|b| function.blocks[*b].insts.iter().any(is_candidate));
        let has_barrier = l.blocks.iter().any(|b| {
            function.blocks[*b]
                .insts
                .iter()
                .any(|i| Effects::of(&function.insts[*i]).motion == Motion::Barrier)
        });
        if is_needed && !has_barrier && context.fuel.burn() {
            insert_preheader(function, &cfg, forest, id);
            inserted = true;
        }
    }
    inserted
}

fn insert_preheader(function: &mut Function, cfg: &Cfg, forest: &LoopForest, id: LoopId) {
    let header = forest.get(id).header;
    let shapes: Vec<_> = function.blocks[header].params.iter().map(|p| function.values[*p]).collect();
    let params: Vec<Value> = shapes.iter().map(|s| function.value(s.file, s.words)).collect();
    let preheader = function.block();
    function.blocks[preheader].params = params.clone();
    function.blocks[preheader].end = Terminator::Jump(Edge { to: header, args: params });
    // Blocks that are newer than the graph are preheaders, and lead to their own loops.
    for &block in cfg.preds[header.index()].iter().filter(|b| !forest.contains(id, **b)) {
        for edge in function.blocks[block].end.edges_mut() {
            if edge.to == header {
                edge.to = preheader;
            }
        }
    }
}

/// The block in which each value is defined.
fn defining_blocks(function: &Function) -> Vec<Option<Block>> {
    let mut defined_in = vec![None; function.values.len()];
    for block in function.blocks.keys() {
        let data = &function.blocks[block];
        let results = data.insts.iter().flat_map(|i| function.insts[*i].results.iter());
        results.chain(&data.params).for_each(|v| defined_in[v.index()] = Some(block));
    }
    defined_in
}

/// Can it move at all, if the loop allows it?
fn movable(data: &InstData) -> bool {
    let in_registers = Effects::of(data).is_free() && effects::is_pure(data);
    in_registers || effects::is_shuffle(data) && data.guard.is_none() || is_load(data)
}

fn is_load(data: &InstData) -> bool {
    let reads = matches!(Effects::of(data).memory, Memory::Read(_));
    reads && effects::is_plain_access(data) && !data.results.is_empty()
}

/// What an iteration saves without the instruction, in issue slots. 0 for what becomes an operand or no instruction.
fn time(data: &InstData) -> u32 {
    use sass::Op::{CS2R, LDC, MOV, SHFL};
    let is_word = |arg: &Arg| matches!(arg, Arg::Imm(_) | Arg::Zero(_) | Arg::Const { .. });
    let Op::Machine(op) = data.op else { return 0 };
    match (op, &data.args[..]) {
        (MOV, [arg]) if is_word(arg) => 0,
        (CS2R, _) => 0,
        (LDC, [Arg::Bank { bank: 0, index: None, .. }]) => 0,
        (LDC | SHFL, _) => LONG,
        _ if is_load(data) => LONG,
        _ => match sass::Form::of(op).first().map(|form| form.class) {
            Some(Class::Xu | Class::Fp64 | Class::Double) => LONG,
            _ => 1,
        },
    }
}

/// Is it an operand where it is used?
fn is_constant(data: &InstData) -> bool {
    time(data) == 0 && data.uses().next().is_none() && data.guard.is_none()
}

/// The time of what the issue of other instructions does not hide.
const LONG: u32 = 8;

fn hoist_from(
    function: &mut Function,
    context: &mut Context,
    forest: &LoopForest,
    id: LoopId,
    (outline, facts): (&mut Outline, &mut Option<Facts>),
) -> bool {
    let Some(preheader) = forest.get(id).preheader else { return false };
    let Some(effects) = visible_effects(function, forest.get(id)) else { return false };
    let l = Loop { forest, id, preheader, outline, effects };
    // Most loops have none that saves time, and need no more facts.
    let is_worthwhile = |i: &Inst| time(&function.insts[*i]) > 0;
    if !l.invariants(function, None).iter().any(is_worthwhile) {
        return false;
    }
    let facts = facts.get_or_insert_with(|| Facts::new(function, context, &outline.cfg));
    let invariants = l.invariants(function, Some(&facts.divergence));
    let chosen = l.choose(function, context, facts, &invariants);
    if chosen.is_empty() {
        return false;
    }
    let hoisted = l.hoist(function, &chosen, &invariants);
    facts.update(function, context, outline, &forest.get(id).blocks, &hoisted);
    true
}

/// The effects in a loop that a load must not pass; `None` if nothing moves there.
fn visible_effects(function: &Function, l: &ori::Loop) -> Option<Vec<Effects>> {
    let insts = l.blocks.iter().flat_map(|b| &function.blocks[*b].insts);
    let only_reads = |e: &Effects| e.orders.is_none() && matches!(e.memory, Memory::Read(_));
    let is_visible = |e: &Effects| !(e.is_free() || only_reads(e));
    let effects: Vec<Effects> = insts.map(|i| Effects::of(&function.insts[*i])).filter(is_visible).collect();
    (!effects.iter().any(|e| e.motion == Motion::Barrier)).then_some(effects)
}

/// A loop whose invariants are looked for.
struct Loop<'a> {
    forest: &'a LoopForest,
    id: LoopId,
    preheader: Block,
    outline: &'a Outline,
    /// The effects in the loop that a load must not pass.
    effects: Vec<Effects>,
}

/// Invariant instructions, in an order in which operands come first.
type Invariants = Vec<Inst>;

impl Loop<'_> {
    fn data(&self) -> &ori::Loop {
        self.forest.get(self.id)
    }

    /// Without divergence, those too that may turn out to be none.
    fn invariants(&self, function: &Function, divergence: Option<&Divergence>) -> Invariants {
        let (mut found, mut results) = (Vec::new(), FxHashSet::default());
        let l = self.data();
        let mut loads = 0;
        for &block in &l.blocks {
            let in_every_iteration = l.latches.iter().all(|latch| self.outline.cfg.dominates(block, *latch));
            if !in_every_iteration && !self.outline.preheaders.contains(&block) {
                continue;
            }
            let in_any_case = in_every_iteration
                && l.exits.iter().all(|(from, _)| self.outline.cfg.dominates(block, *from));
            for inst in &function.blocks[block].insts {
                let data = &function.insts[*inst];
                let is_invariant = |v: Value| results.contains(&v) || self.is_outside(v);
                let fits = |v: &Value| matches!(function.values[*v].file, File::R | File::P);
                loads += u32::from(is_load(data));
                if data.results.iter().all(fits)
                    && data.uses().all(is_invariant)
                    && self.may_hoist(function, data, (block, in_any_case), (loads, divergence))
                {
                    found.push(*inst);
                    results.extend(data.results.iter().copied());
                }
            }
        }
        found
    }

    fn is_outside(&self, value: Value) -> bool {
        self.outline.defined_in[value.index()].is_some_and(|b| !self.forest.contains(self.id, b))
    }

    fn may_hoist(
        &self,
        function: &Function,
        data: &InstData,
        (block, in_any_case): (Block, bool),
        (loads, divergence): (u32, Option<&Divergence>),
    ) -> bool {
        /// Loads that are compared with the effects of the loop: bounds the time.
        const MOST_LOADS: u32 = 64;
        if effects::is_shuffle(data) {
            let is_divergent = |b: &Block| divergence.is_some_and(|divergence| divergence.is_divergent(*b));
            let diverges = [block, self.preheader].iter().any(is_divergent);
            return data.guard.is_none() && !diverges;
        }
        if is_load(data) {
            let effects = Effects::of(data);
            let is_strong = data.results.iter().any(|r| function.awaited.contains(r));
            let is_kept = |e: &Effects| Effects::stay_in_order(e, &effects);
            return in_any_case && !is_strong && loads <= MOST_LOADS && !self.effects.iter().any(is_kept);
        }
        // A constant bank is read where an index may be out of its range: only if the loop does so, too.
        let is_indexed = data.args.iter().any(|a| matches!(a, Arg::Bank { index: Some(_), .. }));
        movable(data) && (in_any_case || !is_indexed)
    }

    /// The invariants to hoist.
    fn choose(
        &self,
        function: &Function,
        context: &mut Context,
        facts: &Facts,
        invariants: &Invariants,
    ) -> FxHashSet<Inst> {
        let by: FxHashMap<Value, Inst> =
            invariants.iter().flat_map(|i| function.insts[*i].results.iter().map(|r| (*r, *i))).collect();
        let is_invariant: FxHashSet<Inst> = invariants.iter().copied().collect();
        let mut remaining = self.uses(function);
        let others = self.used_by_others(function, facts, &is_invariant);
        let mut leaves: Vec<(u32, usize)> = Vec::new();
        for (at, inst) in invariants.iter().enumerate() {
            if function.insts[*inst].results.iter().any(|r| others.contains(r)) {
                let cone = cone(function, &by, *inst, &FxHashSet::default());
                let time = cone.iter().map(|i| time(&function.insts[*i])).sum();
                leaves.push((time, at));
            }
        }
        leaves.retain(|(time, _)| *time > 0);
        leaves.sort_by_key(|(time, at)| (Reverse(*time), *at));
        let mut room = Room::new(self, facts, context);
        let mut chosen = FxHashSet::default();
        for (time, at) in leaves {
            let cone = cone(function, &by, invariants[at], &chosen);
            if cone.is_empty() {
                continue;
            }
            let cost = self.cost((function, facts), &cone, &others, &mut remaining);
            if room.take(cost, time, &context.tuning) && context.fuel.burn() {
                chosen.extend(cone);
            } else {
                uses_of(function, &cone).for_each(|v| *remaining.entry(v).or_default() += 1);
            }
        }
        chosen
    }

    /// How often instructions of the loop use each value.
    fn uses(&self, function: &Function) -> FxHashMap<Value, u32> {
        let mut uses = FxHashMap::default();
        for block in &self.data().blocks {
            let data = &function.blocks[*block];
            let all = data.insts.iter().flat_map(|i| function.insts[*i].uses()).chain(data.end.uses());
            all.for_each(|v| *uses.entry(v).or_default() += 1);
        }
        uses
    }

    /// The values that the loop uses elsewhere than in its invariants, or that are used after it.
    fn used_by_others(
        &self,
        function: &Function,
        facts: &Facts,
        invariants: &FxHashSet<Inst>,
    ) -> FxHashSet<Value> {
        let mut used = FxHashSet::default();
        for block in &self.data().blocks {
            let data = &function.blocks[*block];
            let others = data.insts.iter().filter(|i| !invariants.contains(i));
            used.extend(others.flat_map(|i| function.insts[*i].uses()).chain(data.end.uses()));
        }
        for (_, to) in &self.data().exits {
            used.extend(facts.live.live_in[to.index()].iter());
        }
        used
    }

    /// The words of R and P that the loop holds more with a cone outside; its operands' uses are taken away.
    fn cost(
        &self,
        (function, facts): (&Function, &Facts),
        cone: &[Inst],
        others: &FxHashSet<Value>,
        remaining: &mut FxHashMap<Value, u32>,
    ) -> [i32; 2] {
        let mut cost = [0; 2];
        let mut add = |v: Value, sign: i32| {
            let data = function.values[v];
            match data.file {
                File::R => cost[0] += sign * i32::from(data.words),
                File::P => cost[1] += sign * i32::from(data.words),
                _ => {}
            }
        };
        for inst in cone {
            function.insts[*inst].results.iter().filter(|r| others.contains(r)).for_each(|r| add(*r, 1));
        }
        let is_live_after =
            |v: Value| self.data().exits.iter().any(|(_, to)| facts.live.live_in[to.index()].contains(v));
        for value in uses_of(function, cone) {
            let left = remaining.entry(value).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 && self.is_outside(value) && !is_live_after(value) {
                add(value, -1);
            }
        }
        cost
    }

    /// Moves the chosen invariants to the end of the preheader. Constants are copied: each use is an operand.
    fn hoist(&self, function: &mut Function, chosen: &FxHashSet<Inst>, invariants: &Invariants) -> Hoisted {
        let first = function.blocks[self.preheader].insts.len();
        let mut copies: FxHashMap<Value, Value> = FxHashMap::default();
        for inst in invariants.iter().filter(|i| chosen.contains(i)) {
            let mut data = function.insts[*inst].clone();
            let is_constant = is_constant(&data);
            data.map_uses(|v| copies.get(&v).copied().unwrap_or(v));
            if is_constant {
                for result in &mut data.results {
                    let shape = function.values[*result];
                    let copy = function.value(shape.file, shape.words);
                    copies.insert(*result, copy);
                    *result = copy;
                }
                function.append(self.preheader, data);
            } else {
                function.insts[*inst] = data;
                function.blocks[self.preheader].insts.push(*inst);
            }
        }
        let is_moved =
            |function: &Function, i: &Inst| chosen.contains(i) && !is_constant(&function.insts[*i]);
        for block in &self.data().blocks {
            let mut insts = std::mem::take(&mut function.blocks[*block].insts);
            insts.retain(|i| !is_moved(function, i));
            function.blocks[*block].insts = insts;
        }
        let insts = function.blocks[self.preheader].insts[first..].to_vec();
        Hoisted { preheader: self.preheader, insts, copied: copies.into_keys().collect() }
    }
}

fn uses_of<'a>(function: &'a Function, cone: &'a [Inst]) -> impl Iterator<Item = Value> + 'a {
    cone.iter().flat_map(|i| function.insts[*i].uses())
}

/// An invariant and those that it is computed from, but for the chosen ones. Longer ones are cut off, which makes the
/// rest no invariant: then there is none.
fn cone(function: &Function, by: &FxHashMap<Value, Inst>, leaf: Inst, chosen: &FxHashSet<Inst>) -> Vec<Inst> {
    /// Bounds the time.
    const MOST: usize = 256;
    let (mut cone, mut seen) = (Vec::new(), FxHashSet::default());
    let mut worklist = vec![leaf];
    while let Some(inst) = worklist.pop() {
        if chosen.contains(&inst) || !seen.insert(inst) {
            continue;
        }
        cone.push(inst);
        if cone.len() > MOST {
            return Vec::new();
        }
        worklist.extend(function.insts[inst].uses().filter_map(|v| by.get(&v).copied()));
    }
    cone
}

/// The registers that a loop may hold more.
struct Room {
    /// In R and P without lower occupancy.
    cheap: [i32; 2],
    /// In R with it.
    dear: i32,
}

impl Room {
    fn new(l: &Loop, facts: &Facts, context: &Context) -> Room {
        let tuning = &context.tuning;
        let ([in_loop, predicates], anywhere) =
            (facts.pressure.most(&l.data().blocks), facts.pressure.anywhere());
        let occupancy =
            context.occupancy.unwrap_or_else(|| Occupancy::new(tuning.usual_block_threads, context.machine));
        let overhead =
            Limits::SYSTEM as i32 + tuning.sched_goal_margin as i32 + tuning.sched_goal_fragmentation as i32;
        let step = occupancy.step((anywhere + overhead) as u32).min(context.registers) as i32;
        let limit = context.registers as i32 - overhead - tuning.sched_register_reserve as i32;
        let in_p = tuning.sched_predicate_budget as i32 - predicates;
        Room { cheap: [step - overhead - in_loop, in_p], dear: limit - in_loop }
    }

    fn take(&mut self, cost: [i32; 2], time: u32, tuning: &Tuning) -> bool {
        let is_long = time >= tuning.licm_long_time;
        let fits = cost[0] <= 0 || cost[0] <= self.cheap[0] || is_long && cost[0] <= self.dear;
        let fits = fits && (cost[1] <= 0 || cost[1] <= self.cheap[1]);
        if fits {
            self.cheap[0] -= cost[0];
            self.cheap[1] -= cost[1];
            self.dear -= cost[0];
        }
        fits
    }
}

fn is_literal(data: &InstData) -> bool {
    let is_move = matches!(data.op, Op::Machine(sass::Op::MOV | sass::Op::CS2R) | Op::Pseudo(Pseudo::Undef));
    is_move && is_constant(data)
}

/// The most words of R and P that are live at once in each block. Constants are operands and take none.
struct Pressure {
    by_block: Vec<Option<[i32; 2]>>,
    /// How many blocks have so many words of R.
    blocks: BTreeMap<i32, u32>,
    /// The values that are live at one point.
    live: ScratchSet,
}

impl Pressure {
    fn new(function: &Function) -> Pressure {
        let by_block = vec![None; function.blocks.len()];
        Pressure { by_block, blocks: BTreeMap::new(), live: ScratchSet::new(function.values.len()) }
    }

    /// The most in some blocks.
    fn most(&self, blocks: &[Block]) -> [i32; 2] {
        let all = blocks.iter().filter_map(|b| self.by_block[b.index()]);
        all.fold([0; 2], |[r, p], [more_r, more_p]| [r.max(more_r), p.max(more_p)])
    }

    /// The most words of R in all blocks.
    fn anywhere(&self) -> i32 {
        self.blocks.last_key_value().map_or(0, |(most, _)| *most)
    }

    /// Computes that of some blocks, for the first time or again.
    fn add(&mut self, function: &Function, live: &Liveness, constants: &[bool], blocks: &[Block]) {
        for block in blocks {
            let at_end = &live.live_out[block.index()];
            self.live.set(at_end, function.values.len());
            let now = pressure(function, at_end, &mut self.live, constants, *block);
            *self.blocks.entry(now[0]).or_default() += 1;
            if let Some(before) = self.by_block[block.index()].replace(now)
                && let Some(count) = self.blocks.get_mut(&before[0])
            {
                *count -= 1;
                if *count == 0 {
                    self.blocks.remove(&before[0]);
                }
            }
        }
    }
}

/// The most words of R and P that are live at once in a block; `now` has the values that are live at its end.
fn pressure(
    function: &Function,
    at_end: &LiveSet,
    now: &mut ScratchSet,
    constants: &[bool],
    block: Block,
) -> [i32; 2] {
    let words = |v: Value| match function.values[v].file {
        _ if constants[v.index()] => [0, 0],
        File::R => [i32::from(function.values[v].words), 0],
        File::P => [0, 1],
        _ => [0, 0],
    };
    let mut count = at_end.iter().map(words).fold([0; 2], |[r, p], [a, b]| [r + a, p + b]);
    let mut most = count;
    let mut add = |now: &mut ScratchSet, count: &mut [i32; 2], value: Value| {
        if now.insert(value) {
            let [r, p] = words(value);
            *count = [count[0] + r, count[1] + p];
            most = [most[0].max(count[0]), most[1].max(count[1])];
        }
    };
    function.blocks[block].end.uses().for_each(|v| add(now, &mut count, v));
    for inst in function.blocks[block].insts.iter().rev() {
        let data = &function.insts[*inst];
        for result in &data.results {
            if now.remove(*result) {
                let [r, p] = words(*result);
                count = [count[0] - r, count[1] - p];
            }
        }
        data.uses().for_each(|v| add(now, &mut count, v));
    }
    most
}

#[cfg(test)]
mod tests {
    #[test]
    fn invariant_shuffle_is_hoisted_to_preheader() {
        let source = include_str!("../../tests/kernels/loops.ptx");
        let shuffle_comes_before_header = |pass: &str| {
            let log = crate::passes::code_after(pass, source);
            let warps = log.split("function ").find(|f| f.starts_with("warps ")).expect("the function");
            let header = warps.lines().position(|l| l.starts_with('b') && l.contains('('));
            warps.lines().position(|l| l.contains("SHFL")) < header
        };
        assert!(!shuffle_comes_before_header("if-convert"));
        assert!(shuffle_comes_before_header("licm"));
    }
}
