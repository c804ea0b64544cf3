//! Loop unrolling: unrolls innermost loops fully, partially, or by a runtime factor.
//!
//! Consecutive iterations can overlap their loads. `unroll/policy.rs` selects the loops and the factors.
//!
//! * **Full and partial**: a trip count that depends only on constants is computed, or found by executing the exit test
//!   with `ori::eval`, for any kind of counter (one that steps down, wraps around, or is shifted). All iterations
//!   become straight-line code if that is short enough; otherwise the loop is unrolled by a factor, after
//!   `trip count mod factor` peeled iterations. This includes loops of several blocks, with their branches and further
//!   exits (`unroll/blocks.rs`).
//! * **Runtime factor**, for single-block loops: if the exit test depends only on induction variables and invariants, a
//!   group of iterations runs at a time, while the test holds for all of them but the last. For an affine counter this
//!   is a single test (`unroll/counter.rs`), whatever its bounds; otherwise copies of the test's instructions compute
//!   it ahead. The original loop executes the remainder, after one group of half the factor if there are loads to
//!   overlap. Threads that leave in different iterations meet before each of these ([`Stage`]).
//!
//! ```text
//! b1(v1): …                              b3(v3): p = v3 < n and n - v3 > 3; branch p, b4(v3), b1(v3)
//!   v2 = v1 + 1                          b4(v4): …; …; …; …
//!   p = v2 < n                      →      v5 = v4 + 4; p = v5 < n - 3; branch p, b4(v5), b5
//!   branch p, b1(v2), b2                 b5: p = v5 < n; branch p, b1(v5), b6(…)      (b6: the landing, then b2)
//!                                        b1(v1): … as before
//! ```
//!
//! Loop values used after the loop become parameters of the landing block, the common exit of all copies. Effects keep
//! their order. Operations that hold registers or barriers beyond an instruction (wgmmas, asynchronous copies, calls,
//! convergence barriers) are not duplicated; collectives are duplicated only if all threads have the same trip count.
//! Postcondition: unrolled loops are in `Function::rolled`. Cost: linear in the loops and the code added
//! (`unroll_growth`).
//!
//! A loop that has no effects or used results, and is known to terminate, is reduced to one iteration; dead code
//! elimination removes the rest.

mod blocks;
mod counter;
mod policy;

use crate::analysis::constant_eval::Constants;
use crate::analysis::effects;
use crate::context::{Context, PassResult, Tuning};
use counter::{Counter, Distance};
use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{
    Arg, Block, Cfg, Change, Definitions, Edge, File, Function, Inst, InstData, Loop, Op, Pseudo, Terminator,
    Value,
};
use policy::Plan;
use rustc_hash::FxHashMap;
use sass::M;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let mut unrolled = false;
    let mut landings = Landings::default();
    for (candidate, plan) in plans(function, context) {
        let growth = plan.growth(&candidate);
        if growth <= context.unroll_budget && context.fuel.burn() {
            context.unroll_budget -= growth;
            apply(function, &candidate, plan, &mut landings);
            unrolled = true;
        }
    }
    landings.rename_uses(function);
    // Loops around those that were unrolled come next, after the clean-ups.
    let changed = unrolled || blocks::run(function, context);
    Ok(Change::ControlFlow.when(changed))
}

/// The loops to unroll.
fn plans(function: &Function, context: &mut Context) -> Vec<(Candidate, Plan)> {
    let forest = context.analyses.loops(function);
    let mut loops = forest.iter().map(|(_, l)| l).filter(|l| l.blocks.len() == 1).peekable();
    if loops.peek().is_none() {
        return Vec::new();
    }
    let (cfg, definitions) = (context.analyses.cfg(function), context.analyses.definitions(function));
    let live = context.analyses.liveness(function);
    let tuning = &context.tuning;
    let mut known = vec![None; function.values.len()];
    let candidates = loops.filter_map(|l| Candidate::find(function, &cfg, &definitions, l, tuning));
    let planned = candidates.filter_map(|mut c| {
        let count = trip_count(function, &definitions, tuning, &mut known, &c);
        c.find_outs(function, &live);
        let plan = policy::plan(function, tuning, &c, count)?;
        Some((c, plan))
    });
    let mut planned: Vec<_> = planned.collect();
    if planned.iter().any(|(_, plan)| matches!(plan, Plan::Runtime { .. })) {
        let divergence = context.analyses.divergence(function);
        planned.iter_mut().for_each(|(c, _)| c.diverges = divergence.varies(c.predicate));
    }
    planned
}

/// A loop whose latch ends in a branch back to its header or out.
struct Candidate {
    /// The header, and the latch if it is the only block.
    block: Block,
    latch: Block,
    /// All blocks, in an order in which definitions come before uses.
    blocks: Vec<Block>,
    /// The predecessors outside of the loop.
    entering: Vec<Block>,
    exit: Edge,
    /// The arguments of the back edge.
    next: Vec<Value>,
    /// The back edge is taken where this predicate holds, or doesn't.
    predicate: Value,
    negated: bool,
    /// The backward slice of the exit test within the loop, around the back edge.
    slice: Vec<Inst>,
    /// The parameters (by index) and the invariants that the slice uses.
    counters: Vec<usize>,
    invariants: Vec<Value>,
    /// The size without the slice.
    body: u32,
    /// The bytes of global memory that an iteration loads.
    bytes: u32,
    /// The values of the loop that are used after it.
    outs: Vec<Value>,
    /// Do threads of a warp leave the loop in different iterations?
    diverges: bool,
}

impl Candidate {
    /// `None` if the exit test can't be computed ahead, or an instruction must not be duplicated.
    fn find(
        function: &Function,
        cfg: &Cfg,
        definitions: &Definitions,
        l: &Loop,
        tuning: &Tuning,
    ) -> Option<Candidate> {
        let [latch] = l.latches[..] else { return None };
        let block = l.header;
        let Terminator::Branch { predicate, negated, yes, no, .. } = &function.blocks[latch].end else {
            return None;
        };
        let (back, exit, negated) = match (yes.to == block, no.to == block) {
            (true, false) => (yes, no, *negated),
            (false, true) => (no, yes, !*negated),
            _ => return None,
        };
        let insts = || l.blocks.iter().flat_map(|b| &function.blocks[*b].insts);
        if [block, latch].iter().any(|b| function.rolled.contains(b))
            || !insts().all(|i| effects::is_duplicable(&function.insts[*i]))
        {
            return None;
        }
        let mut candidate = Candidate {
            block,
            latch,
            blocks: l.blocks.clone(),
            entering: cfg.preds[block.index()].iter().copied().filter(|p| *p != latch).collect(),
            exit: exit.clone(),
            next: back.args.clone(),
            predicate: *predicate,
            negated,
            slice: Vec::new(),
            counters: Vec::new(),
            invariants: Vec::new(),
            body: 0,
            bytes: 0,
            outs: Vec::new(),
            diverges: false,
        };
        candidate.find_slice(function, definitions, tuning.unroll_max_slice as usize)?;
        let others = insts().filter(|i| !candidate.slice.contains(i));
        candidate.body = others.map(|i| policy::size(&function.insts[*i])).sum();
        candidate.bytes = insts().map(|i| policy::loaded_bytes(&function.insts[*i])).sum();
        Some(candidate)
    }

    fn find_outs(&mut self, function: &Function, live: &Liveness) {
        let after = &live.live_in[self.exit.to.index()];
        let is_used = |v: &Value| after.contains(*v) || self.exit.args.contains(v);
        self.outs = self.defined(function).filter(is_used).collect();
    }

    /// The values that the loop defines.
    fn defined<'a>(&'a self, function: &'a Function) -> impl Iterator<Item = Value> + 'a {
        self.blocks.iter().flat_map(|b| {
            let data = &function.blocks[*b];
            let results = data.insts.iter().flat_map(|i| function.insts[*i].results.iter());
            data.params.iter().chain(results).copied()
        })
    }

    /// Follows the definitions of the exit predicate backwards, around the loop.
    fn find_slice(&mut self, function: &Function, definitions: &Definitions, limit: usize) -> Option<()> {
        let data = &function.blocks[self.block];
        let inner = self.blocks.iter().filter(|b| **b != self.block);
        let merged: Vec<Value> = inner.flat_map(|b| function.blocks[*b].params.iter().copied()).collect();
        let (mut worklist, mut slice) = (vec![self.predicate], Vec::new());
        while let Some(value) = worklist.pop() {
            let index = data.params.iter().position(|p| *p == value);
            match (definitions[value.index()], index) {
                (Some((block, inst)), _) if self.blocks.contains(&block) => {
                    let is_new = !slice.contains(&inst);
                    if !effects::is_function(&function.insts[inst]) || slice.len() > limit {
                        return None;
                    }
                    if is_new {
                        slice.push(inst);
                        worklist.extend(function.insts[inst].uses());
                    }
                }
                (_, Some(index)) if !self.counters.contains(&index) => {
                    self.counters.push(index);
                    worklist.push(self.next[index]);
                }
                (_, Some(_)) => {}
                _ if merged.contains(&value) => return None,
                _ => self.invariants.push(value),
            }
        }
        let insts = self.blocks.iter().flat_map(|b| &function.blocks[*b].insts);
        self.slice = insts.copied().filter(|i| slice.contains(i)).collect();
        (!self.counters.is_empty()).then_some(())
    }
}

/// The trip count, if the exit test depends on constants alone.
fn trip_count(
    function: &Function,
    definitions: &Definitions,
    tuning: &Tuning,
    known: &mut [Option<u64>],
    candidate: &Candidate,
) -> Option<u32> {
    let params = &function.blocks[candidate.block].params;
    let edges = || candidate.entering.iter().flat_map(|b| function.blocks[*b].end.edges());
    for &index in &candidate.counters {
        let mut edges = edges().filter(|e| e.to == candidate.block);
        let first = constant(function, definitions, *edges.next()?.args.get(index)?)?;
        if !edges.all(|e| e.args.get(index).and_then(|v| constant(function, definitions, *v)) == Some(first))
        {
            return None;
        }
        known[params[index].index()] = Some(first);
    }
    for &value in &candidate.invariants {
        known[value.index()] = Some(constant(function, definitions, value)?);
    }
    if let Some(counter) = Counter::find(function, candidate)
        && let Some(first) = known[params[counter.index].index()]
        && let Some(count) = counter.trip_count(first as u32, |v| known[v.index()])
    {
        return u32::try_from(count).ok();
    }
    for count in 1..=tuning.unroll_max_trip_count {
        for inst in &candidate.slice {
            let results = Constants { function, bits: known }.evaluate(&function.insts[*inst])?;
            results.into_iter().for_each(|(value, bits)| known[value.index()] = Some(bits));
        }
        if (known[candidate.predicate.index()]? != 0) == candidate.negated {
            return Some(count);
        }
        let next: Option<Vec<u64>> =
            candidate.counters.iter().map(|index| known[candidate.next[*index].index()]).collect();
        let counters = candidate.counters.iter().zip(next?);
        counters.for_each(|(index, bits)| known[params[*index].index()] = Some(bits));
    }
    None
}

/// The bits of a value that is a constant, or a pack of two.
fn constant(function: &Function, definitions: &Definitions, value: Value) -> Option<u64> {
    let (_, inst) = definitions[value.index()]?;
    let data = &function.insts[inst];
    let word = |arg: &Arg| match arg {
        Arg::Imm(n) => Some(u64::from(*n as u32)),
        Arg::Zero(File::R) => Some(0),
        _ => None,
    };
    let plain = |arg: &Arg| match arg {
        Arg::Use(u) if u.is_plain() && u.part.is_none() => Some(u.value),
        _ => None,
    };
    match (data.op, &data.args[..], &data.guard) {
        (Op::Machine(sass::Op::MOV), [arg], None) => word(arg),
        (Op::Machine(sass::Op::CS2R), [Arg::Name(M::SRZ)], None) => Some(0),
        (Op::Pseudo(Pseudo::Pack), [low, high], None) if function.values[value].words == 2 => {
            let [low, high] = [plain(low)?, plain(high)?].map(|v| constant(function, definitions, v));
            Some(high? << 32 | low?)
        }
        _ => None,
    }
}

fn apply(function: &mut Function, candidate: &Candidate, plan: Plan, landings: &mut Landings) {
    match plan {
        Plan::Full(count) => {
            let first = peel(function, candidate, count - 1, candidate.block);
            redirect_entering(function, candidate, landings, first);
            function.blocks[candidate.block].end = Terminator::Jump(candidate.exit.clone());
        }
        Plan::Partial { peeled, factor } => {
            let header = peel(function, candidate, factor - 1, candidate.block);
            let first = peel(function, candidate, peeled, header);
            redirect_entering(function, candidate, landings, first);
            redirect(function, candidate.block, candidate.block, header);
            function.rolled.extend([candidate.block, header]);
        }
        Plan::Runtime { factor } => unroll_by_factor(function, candidate, factor, landings),
    }
}

/// The blocks behind the exits of loops that are unrolled by a runtime factor, and the names that values of these loops
/// have from there on.
#[derive(Default)]
struct Landings {
    blocks: FxHashMap<Block, Block>,
    names: FxHashMap<Value, (Block, Value)>,
}

impl Landings {
    /// Gives values of the loops their new names in all other blocks.
    fn rename_uses(&self, function: &mut Function) {
        if self.names.is_empty() {
            return;
        }
        for block in function.blocks.keys().collect::<Vec<_>>() {
            function.map_uses_in(block, |v| match self.names.get(&v) {
                Some((home, name)) if *home != block => *name,
                _ => v,
            });
        }
    }
}

/// `factor` iterations at a time while the loop runs on after each of them but the last; then, where iterations overlap
/// loads, half as many once; then the original loop. All of them leave to the landing block, at once or, if the threads of
/// a warp leave in different iterations, through the [`Stage`]s that follow.
fn unroll_by_factor(function: &mut Function, candidate: &Candidate, factor: u32, landings: &mut Landings) {
    let landing = landing(function, candidate, landings);
    let half = factor / 2;
    let has_half = half > 1 && candidate.bytes > 0;
    let remainder = match candidate.diverges {
        true => Stage::meeting(function, candidate, landing),
        false => Stage { block: candidate.block, landing, more: None },
    };
    let second = match (has_half, candidate.diverges) {
        (true, true) => Stage::meeting(function, candidate, landing),
        (true, false) => Stage { block: block_with_params(function, candidate), landing, more: None },
        _ => remainder.clone(),
    };
    let guard = block_with_params(function, candidate);
    let main = block_with_params(function, candidate);
    let first = function.blocks[guard].params.clone();
    let (tests, distance) = first_tests(function, candidate, guard, (&first, false), factor);
    let skip = if candidate.diverges { second.skip_to(function, candidate, &first) } else { candidate.block };
    branch_if_all(function, (guard, main), tests, first, skip);
    let (renamed, next) = clone_iterations(function, candidate, main, factor);
    let rest = function.block();
    let again = match (Counter::find(function, candidate), distance) {
        (Some(counter), Some(distance)) => {
            vec![counter.further_test(function, main, next[counter.index], distance)]
        }
        _ => {
            let last = last_test(candidate, &renamed);
            let ahead = tests_ahead(function, candidate, main, &next, factor - 1);
            std::iter::once(last).chain(ahead).collect()
        }
    };
    branch_if_all(function, (main, main), again, next.clone(), rest);
    second.enter(function, candidate, rest, &renamed, next);
    if has_half {
        let twice = block_with_params(function, candidate);
        let params = second.params(function, candidate);
        // Threads that have skipped the unrolled loop have not tested whether they go on.
        let goes_on = second.more.is_none();
        let (mut tests, _) = first_tests(function, candidate, second.block, (&params, goes_on), half);
        tests.extend(second.more.map(|more| test(candidate, more)));
        let other = match second.more {
            Some(_) => second.pass_on(function, &remainder),
            None => candidate.block,
        };
        branch_if_all(function, (second.block, twice), tests, params, other);
        let (renamed, next) = clone_iterations(function, candidate, twice, half);
        remainder.enter(function, candidate, twice, &renamed, next);
    }
    if let Some(more) = remainder.more {
        let yes = Edge { to: candidate.block, args: remainder.params(function, candidate) };
        let no = Edge { to: landing, args: remainder.outs(function, candidate) };
        function.blocks[remainder.block].end =
            Terminator::Branch { predicate: more, negated: candidate.negated, uniform: false, yes, no };
    }
    redirect_entering(function, candidate, landings, guard);
    function.rolled.extend([candidate.block, main]);
}

/// What follows cloned iterations: the loop, or a guard of more cloned iterations.
///
/// Where threads diverge, all of them meet there, whether they have more iterations to run or not: at a common
/// post-dominator of what is before it they reconverge, and run the next iterations together.
///
/// ```text
/// guard: branch p1, main, s          stage(v1: count, v2: sum, p2: more):
/// main:  …; branch p3, main, rest      branch p2, loop(v1, v2), landing(v2)
/// rest:  jump stage(v3, v4, p4)
/// s:     jump stage(v5, v6, true)
/// ```
#[derive(Clone)]
struct Stage {
    block: Block,
    landing: Block,
    /// The exit test after the last iteration, if threads diverge. The block has parameters for those of the loop, for
    /// its results that are not among these, and for this one.
    more: Option<Value>,
}

impl Stage {
    /// A new block where all threads meet.
    fn meeting(function: &mut Function, candidate: &Candidate, landing: Block) -> Stage {
        let block = block_with_params(function, candidate);
        for out in other_outs(candidate) {
            let shape = function.values[out];
            let param = function.value(shape.file, shape.words);
            function.blocks[block].params.push(param);
        }
        let more = function.value(File::P, 1);
        function.blocks[block].params.push(more);
        Stage { block, landing, more: Some(more) }
    }

    /// Its parameters that are the loop's.
    fn params(&self, function: &Function, candidate: &Candidate) -> Vec<Value> {
        function.blocks[self.block].params[..candidate.next.len()].to_vec()
    }

    /// The results of the loop.
    fn outs(&self, function: &Function, candidate: &Candidate) -> Vec<Value> {
        let params = &function.blocks[self.block].params;
        let mut others = params[candidate.next.len()..].iter();
        let next = |out| candidate.next.iter().position(|next| next == out);
        let outs = candidate.outs.iter().map(|out| match next(out) {
            Some(index) => Some(params[index]),
            None => others.next().copied(),
        });
        outs.flatten().collect()
    }

    /// A new block that goes there before any iteration.
    fn skip_to(&self, function: &mut Function, candidate: &Candidate, params: &[Value]) -> Block {
        let block = function.block();
        let mut args = params.to_vec();
        for out in other_outs(candidate) {
            let shape = function.values[out];
            let undefined = function.value(shape.file, shape.words);
            function.append(block, InstData::new(Op::Pseudo(Pseudo::Undef), &[undefined], &[]));
            args.push(undefined);
        }
        let more = function.value(File::P, 1);
        let table = if candidate.negated { 0 } else { 0x80 };
        let operands = [[Arg::True(true); 4].as_slice(), &[Arg::Imm(table), Arg::Imm(0)]].concat();
        append(function, block, (sass::Op::PLOP3, &[M::LUT]), more, &operands);
        args.push(more);
        function.blocks[block].end = Terminator::Jump(Edge { to: self.block, args });
        block
    }

    /// A new block that goes from this stage to another one.
    fn pass_on(&self, function: &mut Function, to: &Stage) -> Block {
        let block = function.block();
        let args = function.blocks[self.block].params.clone();
        function.blocks[block].end = Terminator::Jump(Edge { to: to.block, args });
        block
    }

    /// Ends a block after cloned iterations: it goes there, or to the landing. The exit test of the last iteration is
    /// computed there: an unrolled loop does not depend on it.
    fn enter(
        &self,
        function: &mut Function,
        candidate: &Candidate,
        from: Block,
        renamed: &FxHashMap<Value, Value>,
        next: Vec<Value>,
    ) {
        let name = |value: &Value| renamed.get(value).copied().unwrap_or(*value);
        let params: Vec<Value> = function.blocks[candidate.block].params.iter().map(name).collect();
        let (tested, _) = clone_insts(function, candidate, &candidate.slice, from, &params);
        let predicate = tested.get(&candidate.predicate).copied().unwrap_or(candidate.predicate);
        function.blocks[from].end_at = function.blocks[candidate.block].end_at;
        function.blocks[from].end = match self.more {
            Some(_) => {
                let others = other_outs(candidate).map(|out| name(&out));
                let args = next.into_iter().chain(others).chain([predicate]).collect();
                Terminator::Jump(Edge { to: self.block, args })
            }
            None => {
                let yes = Edge { to: self.block, args: next };
                let no = Edge { to: self.landing, args: candidate.outs.iter().map(name).collect() };
                Terminator::Branch { predicate, negated: candidate.negated, uniform: false, yes, no }
            }
        };
    }
}

/// The results of a loop that are no arguments of its back edge.
fn other_outs(candidate: &Candidate) -> impl Iterator<Item = Value> + '_ {
    candidate.outs.iter().copied().filter(|out| !candidate.next.contains(out))
}

/// A new block behind the exit of a loop, with parameters for the values of the loop that are used after it.
fn landing(function: &mut Function, candidate: &Candidate, landings: &mut Landings) -> Block {
    let block = function.block();
    function.blocks[block].end_at = function.blocks[candidate.block].end_at;
    let mut names = FxHashMap::default();
    for &value in &candidate.outs {
        let shape = function.values[value];
        let name = function.value(shape.file, shape.words);
        function.blocks[block].params.push(name);
        names.insert(value, name);
        landings.names.insert(value, (candidate.block, name));
    }
    let mut exit = candidate.exit.clone();
    exit.args.iter_mut().for_each(|arg| *arg = names.get(arg).copied().unwrap_or(*arg));
    function.blocks[block].end = Terminator::Jump(exit);
    for edge in function.blocks[candidate.block].end.edges_mut() {
        if edge.to != candidate.block {
            *edge = Edge { to: block, args: candidate.outs.clone() };
        }
    }
    landings.blocks.insert(candidate.block, block);
    block
}

/// Computes whether the back edge is taken after each of the next `count` iterations but the last; `goes_on` as there.
fn first_tests(
    function: &mut Function,
    candidate: &Candidate,
    block: Block,
    (params, goes_on): (&[Value], bool),
    count: u32,
) -> (Vec<Arg>, Option<Distance>) {
    let counter = Counter::find(function, candidate);
    let tests = counter.and_then(|c| c.first_tests(function, block, (params[c.index], goes_on), count));
    match tests {
        Some((tests, distance)) => (tests, Some(distance)),
        None => (tests_ahead(function, candidate, block, params, count - 1), None),
    }
}

/// The exit test of a cloned iteration: is the back edge taken after it?
fn last_test(candidate: &Candidate, renamed: &FxHashMap<Value, Value>) -> Arg {
    test(candidate, renamed.get(&candidate.predicate).copied().unwrap_or(candidate.predicate))
}

/// Is the back edge taken, by the value of the loop's predicate?
fn test(candidate: &Candidate, predicate: Value) -> Arg {
    if candidate.negated { Arg::not(predicate) } else { predicate.into() }
}

/// A new block with parameters like the loop's.
fn block_with_params(function: &mut Function, candidate: &Candidate) -> Block {
    let block = function.block();
    let params: Vec<Value> = function.blocks[candidate.block].params.clone();
    let shapes: Vec<_> = params.iter().map(|p| function.values[*p]).collect();
    function.blocks[block].params = shapes.iter().map(|s| function.value(s.file, s.words)).collect();
    function.blocks[block].end_at = function.blocks[candidate.block].end_at;
    block
}

/// A new block with some iterations before `to`; `to` itself if there are none.
fn peel(function: &mut Function, candidate: &Candidate, count: u32, to: Block) -> Block {
    if count == 0 {
        return to;
    }
    let block = block_with_params(function, candidate);
    let (_, args) = clone_iterations(function, candidate, block, count);
    function.blocks[block].end = Terminator::Jump(Edge { to, args });
    block
}

/// Appends iterations to a block with parameters like the loop's. Returns the names of its values in the last of them,
/// and the parameters after them.
fn clone_iterations(
    function: &mut Function,
    candidate: &Candidate,
    to: Block,
    count: u32,
) -> (FxHashMap<Value, Value>, Vec<Value>) {
    let insts = function.blocks[candidate.block].insts.clone();
    let mut params = function.blocks[to].params.clone();
    let mut renamed = FxHashMap::default();
    for _ in 0..count {
        (renamed, params) = clone_insts(function, candidate, &insts, to, &params);
    }
    (renamed, params)
}

/// Appends clones of some of the loop's instructions, where its parameters are `params`. Returns the new names of its
/// values, and the parameters of the next iteration.
fn clone_insts(
    function: &mut Function,
    candidate: &Candidate,
    insts: &[Inst],
    to: Block,
    params: &[Value],
) -> (FxHashMap<Value, Value>, Vec<Value>) {
    let old = function.blocks[candidate.block].params.iter().copied();
    let mut renamed: FxHashMap<Value, Value> = old.zip(params.iter().copied()).collect();
    insts.iter().for_each(|inst| clone_inst(function, *inst, to, &mut renamed));
    let next = candidate.next.iter().map(|value| renamed.get(value).copied().unwrap_or(*value)).collect();
    (renamed, next)
}

/// Appends a clone of an instruction to a block; its operands have the new names, and its results get some.
fn clone_inst(function: &mut Function, inst: Inst, to: Block, renamed: &mut FxHashMap<Value, Value>) {
    let mut data = function.insts[inst].clone();
    data.map_uses(|value| renamed.get(&value).copied().unwrap_or(value));
    for result in &mut data.results {
        let shape = function.values[*result];
        let clone = function.value(shape.file, shape.words);
        if function.awaited.contains(result) {
            function.awaited.push(clone);
        }
        if function.contractable.contains(result) {
            function.contractable.insert(clone);
        }
        renamed.insert(*result, clone);
        *result = clone;
    }
    function.append(to, data);
}

/// Computes in a block, where the loop's parameters are `params`, whether the back edge would be taken after each of the
/// next `count` iterations.
fn tests_ahead(
    function: &mut Function,
    candidate: &Candidate,
    block: Block,
    params: &[Value],
    count: u32,
) -> Vec<Arg> {
    let (mut params, mut tests) = (params.to_vec(), Vec::new());
    for _ in 0..count {
        let (renamed, next) = clone_insts(function, candidate, &candidate.slice, block, &params);
        tests.push(last_test(candidate, &renamed));
        params = next;
    }
    tests
}

/// Ends a block: if all tests hold, it branches to a block with parameters like the loop's, else to another one, which
/// may have none.
fn branch_if_all(
    function: &mut Function,
    (block, main): (Block, Block),
    tests: Vec<Arg>,
    params: Vec<Value>,
    other: Block,
) {
    let all = tests.into_iter().reduce(|all, test| {
        let both = function.value(File::P, 1);
        let args = [Arg::True(true), all, test, Arg::True(true), Arg::Imm(0xc0), Arg::Imm(0)];
        append(function, block, (sass::Op::PLOP3, &[M::LUT]), both, &args);
        both.into()
    });
    let Some(Arg::Use(all)) = all else { return };
    let args = if function.blocks[other].params.is_empty() { Vec::new() } else { params.clone() };
    let (yes, no) = (Edge { to: main, args: params }, Edge { to: other, args });
    let (predicate, negated) = (all.value, all.negated);
    function.blocks[block].end = Terminator::Branch { predicate, negated, uniform: false, yes, no };
}

fn append(
    function: &mut Function,
    block: Block,
    (op, modifiers): (sass::Op, &[M]),
    result: Value,
    args: &[Arg],
) {
    let data = InstData { modifiers: modifiers.into(), ..InstData::new(Op::Machine(op), &[result], args) };
    function.append(block, data);
}

/// Redirects the entering edges of the loop.
fn redirect_entering(function: &mut Function, candidate: &Candidate, landings: &Landings, to: Block) {
    for from in &candidate.entering {
        let from = landings.blocks.get(from).copied().unwrap_or(*from);
        redirect(function, from, candidate.block, to);
    }
}

/// Redirects the edges from a block to another.
fn redirect(function: &mut Function, from: Block, old: Block, new: Block) {
    for edge in function.blocks[from].end.edges_mut() {
        if edge.to == old {
            edge.to = new;
        }
    }
}

#[cfg(test)]
mod tests {
    const LOOPS: &str = include_str!("../../tests/kernels/unroll.ptx");

    /// The kernels of the test file after a pass.
    fn kernels(pass: &str) -> Vec<(String, String)> {
        let log = crate::passes::code_after(pass, LOOPS);
        let functions = log.split("function ").skip(1);
        functions.map(|f| (f.split_whitespace().next().unwrap_or("").to_string(), f.to_string())).collect()
    }

    /// How many loads a kernel has after a pass, and how many branches.
    fn shape(kernels: &[(String, String)], name: &str) -> (usize, usize) {
        let (_, code) = kernels.iter().find(|(n, _)| n == name).expect("the kernel");
        (code.matches(" = LDG").count(), code.matches("branch ").count())
    }

    #[test]
    fn unroll_factor_follows_trip_count() {
        let (before, after) = (kernels("if-convert"), kernels("unroll"));
        for (name, shape_after) in [
            // All iterations.
            ("times_1", (1, 0)),
            ("times_5", (5, 0)),
            ("times_64", (64, 0)),
            // Loads of equal addresses are common subexpressions.
            ("known_around", (1, 0)),
            ("halves", (6, 0)),
            ("together", (9, 0)),
            // Four at a time, two once, and one by one.
            ("upwards", (7, 6)),
            ("by_step", (7, 6)),
            ("count_tested", (7, 6)),
            // The same, and threads meet before the last two.
            ("divergent", (7, 5)),
            // A test of 64 bits ahead for each iteration is too long.
            ("unsigned_64", (1, 1)),
            ("as_it_is", (1, 1)),
        ] {
            assert_eq!(shape(&before, name), (1, 1), "{name} before");
            assert_eq!(shape(&after, name), shape_after, "{name}");
        }
        // The inner loop, then the outer one.
        assert_eq!(shape(&before, "places"), (2, 2));
        assert_eq!(shape(&after, "places").1, 0);
        // Some at a time.
        let (loads, branches) = shape(&after, "times_1000");
        assert!(loads > 20 && branches == 1, "{loads} {branches}");
    }
}
