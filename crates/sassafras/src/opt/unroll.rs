//! Loop unrolling: loops of one block, fully, partially, or by a runtime factor.
//!
//! Several iterations in a row overlap their loads.
//!
//! * **Full and partial**: a trip count that depends on constants alone is found by executing the exit test with
//!   `ori::eval`, whatever the counter does (steps down, wraps around, is shifted). All iterations become straight-line
//!   code if that is short enough; else a factor of them, after `trip count mod factor` peeled iterations.
//! * **Runtime factor**: where the exit test depends only on induction variables and invariants, `unroll_runtime_factor`
//!   iterations run at a time as long as the test holds for each of them. It is computed ahead by copies of its own
//!   instructions, so nothing has to be known about bounds and overflow; only where an affine counter is far from
//!   overflow, the last test implies those before it ([`AffineCounter`]). The original loop does the remainder, always at
//!   least one iteration: code after it uses its values, and threads with fewer iterations reconverge there.
//!
//! ```text
//! b1(v1): …                              b3(v3): …; …; …; …
//!   v2 = v1 + 1                            v4 = v3 + 4; p4 = tests ahead of v4
//!   p = v2 < n                      →      branch p4, b3(v4), b1(v4)
//!   branch p, b1(v2), b2                 b1(v1): … as before
//! ```
//!
//! Effects keep their order. Nothing is duplicated that holds registers or barriers beyond an instruction (wgmmas,
//! asynchronous copies, calls, convergence barriers); collectives only where all threads have the same trip count.
//! Afterwards unrolled loops are in `Function::rolled`. Cost: linear in the loops and the code added (`unroll_growth`).
//!
//! Sizes follow ptxas 13.0.88, at -O2 and up, on loops of loads and sums with `body` instructions besides the counter,
//! its test and the branch: `n` iterations are all unrolled up to `n × body` of about 77 times the percentage that this
//! saves (3 of `body + 3`), or 350 (body 2: 1451, 8: 262, 16: 72, 64: 6). Of more, the most `f` with
//! `(f + n mod f) × body ≤ 350`, if the body has at most 72. Where `n` is unknown four, if the body has at most 18.

use crate::analysis::constant_eval::Constants;
use crate::analysis::effects;
use crate::context::{Context, PassResult, Tuning};
use ori::entity::Entity;
use ori::{
    Arg, Block, Cfg, Change, Definitions, Edge, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value,
};
use rustc_hash::FxHashMap;
use sass::{Class, M};
use std::ops::Range;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let mut unrolled = false;
    for (candidate, plan) in plans(function, context) {
        let growth = plan.growth(&candidate);
        if growth <= context.unroll_budget && context.fuel.burn() {
            context.unroll_budget -= growth;
            apply(function, &candidate, plan);
            unrolled = true;
        }
    }
    Ok(Change::ControlFlow.when(unrolled))
}

/// The loops to unroll.
fn plans(function: &Function, context: &mut Context) -> Vec<(Candidate, Plan)> {
    let forest = context.analyses.loops(function);
    let mut headers =
        forest.iter().filter(|(_, l)| l.latches.contains(&l.header)).map(|(_, l)| l.header).peekable();
    if headers.peek().is_none() {
        return Vec::new();
    }
    let (cfg, definitions) = (context.analyses.cfg(function), context.analyses.definitions(function));
    let tuning = &context.tuning;
    let mut known = vec![None; function.values.len()];
    let candidates = headers.filter_map(|h| Candidate::find(function, &cfg, &definitions, h, tuning));
    let planned = candidates.filter_map(|c| {
        let plan = plan(function, &definitions, tuning, &mut known, &c)?;
        Some((c, plan))
    });
    planned.collect()
}

/// A loop of one block, which ends in a branch back to its beginning or out.
struct Candidate {
    block: Block,
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
}

impl Candidate {
    /// `None` if the exit test can't be computed ahead, or an instruction must not be duplicated.
    fn find(
        function: &Function,
        cfg: &Cfg,
        definitions: &Definitions,
        block: Block,
        tuning: &Tuning,
    ) -> Option<Candidate> {
        let data = &function.blocks[block];
        let Terminator::Branch { predicate, negated, yes, no, .. } = &data.end else { return None };
        let (back, exit, negated) = match (yes.to == block, no.to == block) {
            (true, false) => (yes, no, *negated),
            (false, true) => (no, yes, !*negated),
            _ => return None,
        };
        if function.rolled.contains(&block)
            || !data.insts.iter().all(|i| effects::is_duplicable(&function.insts[*i]))
        {
            return None;
        }
        let mut candidate = Candidate {
            block,
            entering: cfg.preds[block.index()].iter().copied().filter(|p| *p != block).collect(),
            exit: exit.clone(),
            next: back.args.clone(),
            predicate: *predicate,
            negated,
            slice: Vec::new(),
            counters: Vec::new(),
            invariants: Vec::new(),
            body: 0,
        };
        candidate.find_slice(function, definitions, tuning.unroll_max_slice as usize)?;
        let others = data.insts.iter().filter(|i| !candidate.slice.contains(i));
        candidate.body = others.map(|i| size(&function.insts[*i])).sum();
        Some(candidate)
    }

    /// Follows the definitions of the exit predicate backwards, around the loop.
    fn find_slice(&mut self, function: &Function, definitions: &Definitions, limit: usize) -> Option<()> {
        let data = &function.blocks[self.block];
        let (mut worklist, mut slice) = (vec![self.predicate], Vec::new());
        while let Some(value) = worklist.pop() {
            let index = data.params.iter().position(|p| *p == value);
            match (definitions[value.index()], index) {
                (Some((block, inst)), _) if block == self.block => {
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
                _ => self.invariants.push(value),
            }
        }
        self.slice = data.insts.iter().copied().filter(|i| slice.contains(i)).collect();
        (!self.counters.is_empty()).then_some(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Full unrolling of so many iterations.
    Full(u32),
    /// Peeled iterations, then a loop by a factor.
    Partial { peeled: u32, factor: u32 },
    /// A factor while so many iterations are left, then the original loop.
    Runtime { factor: u32 },
}

impl Plan {
    /// The instructions that are added.
    fn growth(self, candidate: &Candidate) -> u32 {
        let copies = match self {
            Plan::Full(count) => count - 1,
            Plan::Partial { peeled, factor } => peeled + factor - 1,
            Plan::Runtime { factor } => 2 * factor,
        };
        copies * (candidate.body + candidate.slice.len() as u32)
    }
}

fn plan(
    function: &Function,
    definitions: &Definitions,
    tuning: &Tuning,
    known: &mut [Option<u64>],
    candidate: &Candidate,
) -> Option<Plan> {
    if candidate.body > tuning.unroll_partial_size {
        return None;
    }
    match trip_count(function, definitions, tuning, known, candidate) {
        Some(count) => plan_counted(tuning, count, candidate.body),
        None => plan_runtime(function, tuning, candidate),
    }
}

fn plan_counted(tuning: &Tuning, count: u32, body: u32) -> Option<Plan> {
    let (overhead, max_size) = (tuning.unroll_loop_overhead, tuning.unroll_partial_size);
    let percent = 100 * overhead / (body + overhead).max(1);
    let full_size = tuning
        .unroll_full_size_per_percent
        .saturating_mul(percent)
        .clamp(max_size, tuning.unroll_full_max_size.max(max_size));
    if count * body.max(1) <= full_size {
        return Some(Plan::Full(count));
    }
    let fits = |factor: &u32| (factor + count % factor) * body <= max_size;
    let is_short = body <= tuning.unroll_partial_max_body;
    let most = (2..=max_size / body.max(1)).rev().find(fits).filter(|_| is_short)?;
    // Peeled iterations are code that runs once: a factor down to half that divides the trip count is as good.
    let factor = (most.div_ceil(2).max(2)..=most).rev().find(|f| count.is_multiple_of(*f)).unwrap_or(most);
    Some(Plan::Partial { peeled: count % factor, factor })
}

fn plan_runtime(function: &Function, tuning: &Tuning, candidate: &Candidate) -> Option<Plan> {
    let insts = || function.blocks[candidate.block].insts.iter().map(|i| &function.insts[*i]);
    let is_strong = |data: &InstData| data.results.iter().any(|r| function.awaited.contains(r));
    let has_load = insts().any(|data| class(data) == Some(Class::Load));
    let is_private = insts().all(|data| effects::is_of_one_thread(data) && !is_strong(data));
    let is_short = candidate.body <= tuning.unroll_runtime_max_body
        && candidate.slice.len() <= tuning.unroll_runtime_max_test as usize;
    let factor = tuning.unroll_runtime_factor;
    (has_load && is_private && is_short && factor > 0).then_some(Plan::Runtime { factor })
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

fn class(data: &InstData) -> Option<Class> {
    let Op::Machine(op) = data.op else { return None };
    Some(sass::Form::of(op).first()?.class)
}

/// The size of an instruction as ptxas counts it: 64-bit sums once, and nothing for what takes no time.
fn size(data: &InstData) -> u32 {
    use sass::Op::{IADD3, UMOV, WARPSYNC};
    let is_free = match data.op {
        Op::Machine(UMOV | WARPSYNC) | Op::Pseudo(_) => true,
        Op::Machine(IADD3) => data.modifiers.contains(&M::X),
        _ => false,
    };
    u32::from(!is_free)
}

fn apply(function: &mut Function, candidate: &Candidate, plan: Plan) {
    match plan {
        Plan::Full(count) => {
            let first = peel(function, candidate, count - 1, candidate.block);
            redirect_entering(function, candidate, first);
            function.blocks[candidate.block].end = Terminator::Jump(candidate.exit.clone());
        }
        Plan::Partial { peeled, factor } => {
            let header = peel(function, candidate, factor - 1, candidate.block);
            let first = peel(function, candidate, peeled, header);
            redirect_entering(function, candidate, first);
            redirect(function, candidate.block, candidate.block, header);
            function.rolled.extend([candidate.block, header]);
        }
        Plan::Runtime { factor } => {
            let main = block_with_params(function, candidate);
            let next = clone_iterations(function, candidate, main, factor);
            let guard = block_with_params(function, candidate);
            let first = function.blocks[guard].params.clone();
            let counter = affine_counter(function, candidate);
            let no_overflow = counter.and_then(|counter| no_overflow(function, guard, &counter, factor));
            // Without overflow the last test implies the others.
            let implied = if no_overflow.is_some() { factor - 1 } else { 0 };
            let tests = tests_ahead(function, candidate, guard, &first, 0..factor);
            let tests = no_overflow.into_iter().chain(tests).collect();
            branch_if_all(function, candidate, (guard, main), first, tests);
            let tests = tests_ahead(function, candidate, main, &next, implied..factor);
            branch_if_all(function, candidate, (main, main), next, tests);
            redirect_entering(function, candidate, guard);
            function.rolled.extend([candidate.block, main]);
        }
    }
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
    let args = clone_iterations(function, candidate, block, count);
    function.blocks[block].end = Terminator::Jump(Edge { to, args });
    block
}

/// Appends iterations to a block with parameters like the loop's. Returns the parameters after them.
fn clone_iterations(function: &mut Function, candidate: &Candidate, to: Block, count: u32) -> Vec<Value> {
    let insts = function.blocks[candidate.block].insts.clone();
    let mut params = function.blocks[to].params.clone();
    for _ in 0..count {
        params = clone_insts(function, candidate, &insts, to, &params).1;
    }
    params
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
    for inst in insts {
        let mut data = function.insts[*inst].clone();
        data.map_uses(|value| renamed.get(&value).copied().unwrap_or(value));
        for result in &mut data.results {
            let shape = function.values[*result];
            let clone = function.value(shape.file, shape.words);
            if function.awaited.contains(result) {
                function.awaited.push(clone);
            }
            renamed.insert(*result, clone);
            *result = clone;
        }
        function.append(to, data);
    }
    let next = candidate.next.iter().map(|value| renamed.get(value).copied().unwrap_or(*value)).collect();
    (renamed, next)
}

/// Computes in a block, where the loop's parameters are `params`, whether the back edge would be taken after some of the
/// next iterations.
fn tests_ahead(
    function: &mut Function,
    candidate: &Candidate,
    block: Block,
    params: &[Value],
    which: Range<u32>,
) -> Vec<Arg> {
    let (mut params, mut tests) = (params.to_vec(), Vec::new());
    for iteration in 0..which.end {
        let (renamed, next) = clone_insts(function, candidate, &candidate.slice, block, &params);
        let predicate = renamed.get(&candidate.predicate).copied().unwrap_or(candidate.predicate);
        if which.contains(&iteration) {
            tests.push(if candidate.negated { Arg::not(predicate) } else { predicate.into() });
        }
        params = next;
    }
    tests
}

/// Ends a block where the loop's parameters are `params`: if all tests hold, it branches to the unrolled loop, else to
/// the original one.
fn branch_if_all(
    function: &mut Function,
    candidate: &Candidate,
    (block, main): (Block, Block),
    params: Vec<Value>,
    tests: Vec<Arg>,
) {
    let all = tests.into_iter().reduce(|all, test| {
        let both = function.value(File::P, 1);
        let args = [Arg::True(true), all, test, Arg::True(true), Arg::Imm(0xc0), Arg::Imm(0)];
        append(function, block, (sass::Op::PLOP3, &[M::LUT]), both, &args);
        both.into()
    });
    let Some(Arg::Use(all)) = all else { return };
    let yes = Edge { to: main, args: params.clone() };
    let no = Edge { to: candidate.block, args: params };
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

/// A counter of one word that advances by a constant step towards a bound, with the back edge taken before that.
struct AffineCounter {
    bound: Arg,
    is_signed: bool,
    step: i64,
}

/// `next = i + step; next < bound`, or a test of `i`, or downwards.
fn affine_counter(function: &Function, candidate: &Candidate) -> Option<AffineCounter> {
    let ([index], [_, _]) = (&candidate.counters[..], &candidate.slice[..]) else { return None };
    let counter = *function.blocks[candidate.block].params.get(*index)?;
    let next = candidate.next[*index];
    let find = |op| candidate.slice.iter().map(|i| &function.insts[*i]).find(|d| d.op == Op::Machine(op));
    let (sum, compare) = (find(sass::Op::IADD3)?, find(sass::Op::ISETP)?);
    let ([base, Arg::Imm(step), Arg::Zero(_)], [], [result]) =
        (&sum.args[..], &sum.modifiers[..], &sum.results[..])
    else {
        return None;
    };
    let (is_signed, relation) = match compare.modifiers[..] {
        [relation, M::AND] => (true, relation),
        [relation, M::U32, M::AND] => (false, relation),
        _ => return None,
    };
    let [Arg::True(true), tested, bound, Arg::True(true)] = compare.args[..] else { return None };
    let tests_counter = [counter, next].iter().any(|v| tested == Arg::from(*v));
    let is_invariant = matches!(bound, Arg::Imm(_) | Arg::Const { .. } | Arg::Zero(_))
        || matches!(bound, Arg::Use(u) if candidate.invariants.contains(&u.value));
    let step = i64::from(*step as i32);
    let is_increasing = match (relation, candidate.negated) {
        (M::LT | M::LE, false) | (M::GT | M::GE, true) => true,
        (M::GT | M::GE, false) | (M::LT | M::LE, true) => false,
        _ => return None,
    };
    let fits = *base == Arg::from(counter) && *result == next && compare.results[..] == [candidate.predicate];
    let advances = step != 0 && (step > 0) == is_increasing;
    (fits && tests_counter && is_invariant && advances).then_some(AffineCounter { bound, is_signed, step })
}

/// Computes whether a counter below its bound can advance by so many steps more without overflow. `None` if these are too
/// large.
fn no_overflow(function: &mut Function, block: Block, counter: &AffineCounter, steps: u32) -> Option<Arg> {
    let distance = counter.step.checked_mul(i64::from(steps)).filter(|d| d.abs() < 1 << 30)?;
    let (least, most) = match counter.is_signed {
        true => (i64::from(i32::MIN), i64::from(i32::MAX)),
        false => (0, i64::from(u32::MAX)),
    };
    let (relation, limit) = if distance > 0 { (M::LE, most - distance) } else { (M::GE, least - distance) };
    let [bound, is_far] = [function.value(File::R, 1), function.value(File::P, 1)];
    append(function, block, (sass::Op::MOV, &[]), bound, &[counter.bound]);
    let args = [Arg::True(true), bound.into(), Arg::Imm(i64::from(limit as i32)), Arg::True(true)];
    let modifiers: &[M] = if counter.is_signed { &[relation, M::AND] } else { &[relation, M::U32, M::AND] };
    append(function, block, (sass::Op::ISETP, modifiers), is_far, &args);
    Some(is_far.into())
}

/// Redirects the entering edges of the loop.
fn redirect_entering(function: &mut Function, candidate: &Candidate, to: Block) {
    candidate.entering.iter().for_each(|from| redirect(function, *from, candidate.block, to));
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
    use super::*;

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
            // Four at a time, and one by one: two more tests.
            ("upwards", (5, 3)),
            ("unsigned_64", (5, 3)),
            ("divergent", (5, 3)),
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

    #[test]
    fn trip_count_is_split_within_size_limits() {
        let tuning = Tuning::default();
        assert_eq!(plan_counted(&Tuning::default(), 1, 400), None, "the body is over the size limit");
        assert_eq!(plan_counted(&Tuning::default(), 16, 20), Some(Plan::Full(16)));
        assert_eq!(plan_counted(&Tuning::default(), 256, 10), Some(Plan::Partial { peeled: 0, factor: 32 }));
        assert_eq!(plan_counted(&Tuning::default(), 101, 40), Some(Plan::Partial { peeled: 1, factor: 5 }));
        assert_eq!(plan_counted(&Tuning::default(), 100, 73), None);
        for (count, body) in (1..1024).step_by(7).flat_map(|count| (1..90).map(move |body| (count, body))) {
            match plan_counted(&Tuning::default(), count, body) {
                Some(Plan::Full(all)) => assert!(all == count && count * body <= tuning.unroll_full_max_size),
                Some(Plan::Partial { peeled, factor }) => {
                    assert!(factor > 1 && peeled < factor && (count - peeled) % factor == 0);
                    assert!((peeled + factor) * body <= tuning.unroll_partial_size);
                }
                Some(Plan::Runtime { .. }) => panic!("{count} is known"),
                None => assert!(count * body > tuning.unroll_partial_size),
            }
        }
    }
}
