//! Loops of one block whose iterations are put side by side, so that what they load is under way at the same time.
//!
//! * A loop whose test depends on constants alone is carried out here, by `ori::eval`: it runs so many times, whatever
//!   its counter does (steps down, wraps around, is shifted). All its iterations become straight code if that is short
//!   enough; else some of them become one, and those that are left over are done before.
//! * In any other loop whose test depends on nothing but its own counters and what it doesn't change, [`TOGETHER`]
//!   iterations are done at a time as long as the test says so for each of them: it is computed ahead, by copies of its
//!   own instructions, so that nothing has to be known about bounds and overflow. Only where a counter goes up or down to
//!   a bound that is not close to the last number, one test stands for those before it ([`Ramp`]). The loop as it was
//!   does the rest, and always at least one iteration: what follows uses its values. Threads that go round less often
//!   meet the others there.
//! * What happens in an iteration, and in which order, stays the same. Nothing is unrolled that holds registers or
//!   barriers beyond an instruction (products of warpgroups, copies in flight, calls, convergence); and what threads do
//!   together only where each of them goes round equally often.
//!
//! How much is unrolled follows ptxas 13.0.88, at -O2 and up, on loops of loads and sums with `body` instructions besides
//! the counter, its test and the branch: `n` iterations are all unrolled up to `n × body` of about 77 times the percentage
//! that this saves (3 of `body + 3`), or 350 (body 2: 1451, 8: 262, 16: 72, 64: 6). Of more, the most `f` with
//! `(f + n mod f) × body ≤ 350`, if the body has at most 72. Where `n` is unknown four, if the body has at most 18.

use crate::analysis::effects;
use crate::context::Context;
use crate::opt::combine::{self, Known};
use crate::opt::simplify;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Edge, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::FxHashMap;
use sass::{Class, M};
use std::ops::Range;

/// Iterations done at a time where their number isn't known, and the longest body for that.
const TOGETHER: u32 = 4;
const LONGEST_UNCOUNTED: u32 = 18;
/// The longest test that is computed ahead.
const LONGEST_TEST: usize = 6;
/// Instructions of iterations that are put side by side in a loop, and the longest body for that.
const SIDE_BY_SIDE: u32 = 350;
const LONGEST_COUNTED: u32 = 72;
/// Instructions of a counter: what straight code saves in each iteration.
const OVERHEAD: u32 = 3;
/// Instructions of straight code for each percent that it saves; and the most in any case.
const FOR_A_PERCENT: u32 = 77;
const STRAIGHT: u32 = 1200;
/// Iterations that are carried out to count them.
const MOST_COUNTED: u32 = 1024;
/// Instructions by which a function may grow.
const GROWTH: u32 = 6000;
/// Nested loops that are unrolled within each other.
const ROUNDS: usize = 3;

pub fn run(function: &mut Function, context: &mut Context) -> crate::context::PassResult {
    let mut room = GROWTH;
    for _ in 0..ROUNDS {
        let plans = plans(function);
        let mut changed = false;
        for (l, plan) in plans {
            if plan.growth(&l) <= room && context.fuel.burn() {
                room -= plan.growth(&l);
                unroll(function, &l, plan);
                changed = true;
            }
        }
        if !changed {
            break;
        }
        simplify::run(function)?;
        combine::run(function, context)?;
    }
    Ok(())
}

/// What is to be done with which loops.
fn plans(function: &Function) -> Vec<(Loop, Plan)> {
    let cfg = Cfg::new(function);
    let mut headers = cfg.headers().filter(|h| cfg.succs[h.index()].contains(h)).peekable();
    if headers.peek().is_none() {
        return Vec::new();
    }
    let definitions = function.definitions();
    let mut known = vec![None; function.values.len()];
    let loops = headers.filter_map(|header| Loop::find(function, &cfg, &definitions, header));
    loops.filter_map(|l| plan(function, &definitions, &mut known, &l).map(|plan| (l, plan))).collect()
}

/// A loop of one block, which ends in a branch back to its beginning or out.
struct Loop {
    block: Block,
    /// From where it is come to.
    before: Vec<Block>,
    /// Where the way out leads.
    out: Edge,
    /// What the parameters become on the way back.
    next: Vec<Value>,
    /// The branch goes back where this predicate holds, or doesn't.
    predicate: Value,
    negated: bool,
    /// The instructions that the test takes, this time and after the next iterations.
    test: Vec<Inst>,
    /// The places of the parameters, and the values from outside, that these use.
    counters: Vec<usize>,
    bounds: Vec<Value>,
    /// Instructions without the test.
    body: u32,
}

type Definitions = [Option<(Block, Inst)>];

impl Loop {
    /// `None` if its test needs more than can be computed ahead, or it has something that there must not be twice.
    fn find(function: &Function, cfg: &Cfg, definitions: &Definitions, block: Block) -> Option<Loop> {
        let data = &function.blocks[block];
        let Terminator::Branch { predicate, negated, yes, no, .. } = &data.end else { return None };
        let (back, out, negated) = match (yes.to == block, no.to == block) {
            (true, false) => (yes, no, *negated),
            (false, true) => (no, yes, !*negated),
            _ => return None,
        };
        if function.rolled.contains(&block)
            || !data.insts.iter().all(|i| effects::is_duplicable(&function.insts[*i]))
        {
            return None;
        }
        let mut l = Loop {
            block,
            before: cfg.preds[block.index()].iter().copied().filter(|p| *p != block).collect(),
            out: out.clone(),
            next: back.args.clone(),
            predicate: *predicate,
            negated,
            test: Vec::new(),
            counters: Vec::new(),
            bounds: Vec::new(),
            body: 0,
        };
        l.find_test(function, definitions)?;
        let others = data.insts.iter().filter(|i| !l.test.contains(i));
        l.body = others.map(|i| weight(&function.insts[*i])).sum();
        Some(l)
    }

    /// Goes back from the predicate over what computes it, around the loop.
    fn find_test(&mut self, function: &Function, definitions: &Definitions) -> Option<()> {
        let data = &function.blocks[self.block];
        let (mut work, mut needed) = (vec![self.predicate], Vec::new());
        while let Some(value) = work.pop() {
            let place = data.params.iter().position(|p| *p == value);
            match (definitions[value.index()], place) {
                (Some((block, inst)), _) if block == self.block => {
                    let is_new = !needed.contains(&inst);
                    if !effects::is_function(&function.insts[inst]) || needed.len() > 16 {
                        return None;
                    }
                    if is_new {
                        needed.push(inst);
                        work.extend(function.insts[inst].uses());
                    }
                }
                (_, Some(place)) if !self.counters.contains(&place) => {
                    self.counters.push(place);
                    work.push(self.next[place]);
                }
                (_, Some(_)) => {}
                _ => self.bounds.push(value),
            }
        }
        self.test = data.insts.iter().copied().filter(|i| needed.contains(i)).collect();
        (!self.counters.is_empty()).then_some(())
    }
}

/// What is made of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// All its iterations, this many.
    Straight(u32),
    /// The first ones, then some at a time.
    Counted { first: u32, together: u32 },
    /// Some at a time as long as there are so many, then one at a time.
    Uncounted { together: u32 },
}

impl Plan {
    /// The instructions that are added.
    fn growth(self, l: &Loop) -> u32 {
        let copies = match self {
            Plan::Straight(count) => count - 1,
            Plan::Counted { first, together } => first + together - 1,
            Plan::Uncounted { together } => 2 * together,
        };
        copies * (l.body + l.test.len() as u32)
    }
}

fn plan(function: &Function, definitions: &Definitions, known: &mut [Option<u64>], l: &Loop) -> Option<Plan> {
    if l.body > SIDE_BY_SIDE {
        return None;
    }
    match iterations(function, definitions, known, l) {
        Some(count) => plan_counted(count, l.body),
        None => plan_uncounted(function, l),
    }
}

fn plan_counted(count: u32, body: u32) -> Option<Plan> {
    let percent = 100 * OVERHEAD / (body + OVERHEAD);
    let most = (FOR_A_PERCENT * percent).clamp(SIDE_BY_SIDE, STRAIGHT);
    if count * body.max(1) <= most {
        return Some(Plan::Straight(count));
    }
    let fits = |together: &u32| (together + count % together) * body <= SIDE_BY_SIDE;
    let most = (2..=SIDE_BY_SIDE / body).rev().find(fits).filter(|_| body <= LONGEST_COUNTED)?;
    // Those that are left over are code that runs once: half as many at a time without them are as good.
    let together = (most.div_ceil(2).max(2)..=most).rev().find(|f| count.is_multiple_of(*f)).unwrap_or(most);
    Some(Plan::Counted { first: count % together, together })
}

fn plan_uncounted(function: &Function, l: &Loop) -> Option<Plan> {
    let insts = || function.blocks[l.block].insts.iter().map(|i| &function.insts[*i]);
    let strong = |data: &InstData| data.results.iter().any(|r| function.awaited.contains(r));
    let loads = insts().any(|data| sass_class(data) == Some(Class::Load));
    let alone = insts().all(|data| effects::is_of_one_thread(data) && !strong(data));
    (loads && alone && l.body <= LONGEST_UNCOUNTED && l.test.len() <= LONGEST_TEST)
        .then_some(Plan::Uncounted { together: TOGETHER })
}

/// How often a loop goes round, if its test depends on constants alone.
fn iterations(
    function: &Function,
    definitions: &Definitions,
    known: &mut [Option<u64>],
    l: &Loop,
) -> Option<u32> {
    let params = &function.blocks[l.block].params;
    for &place in &l.counters {
        let mut edges =
            l.before.iter().flat_map(|b| function.blocks[*b].end.edges()).filter(|e| e.to == l.block);
        let first = constant(function, definitions, *edges.next()?.args.get(place)?)?;
        if !edges.all(|e| e.args.get(place).and_then(|v| constant(function, definitions, *v)) == Some(first))
        {
            return None;
        }
        known[params[place].index()] = Some(first);
    }
    for &bound in &l.bounds {
        known[bound.index()] = Some(constant(function, definitions, bound)?);
    }
    for count in 1..=MOST_COUNTED {
        for inst in &l.test {
            let results = Known { function, bits: known }.results(&function.insts[*inst])?;
            results.into_iter().for_each(|(value, bits)| known[value.index()] = Some(bits));
        }
        if (known[l.predicate.index()]? != 0) == l.negated {
            return Some(count);
        }
        let next: Option<Vec<u64>> = l.counters.iter().map(|place| known[l.next[*place].index()]).collect();
        l.counters.iter().zip(next?).for_each(|(place, bits)| known[params[*place].index()] = Some(bits));
    }
    None
}

/// The bits of a value, or of two words that are put together, if an instruction says them.
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

fn sass_class(data: &InstData) -> Option<Class> {
    let Op::Machine(op) = data.op else { return None };
    Some(sass::Form::of(op).first()?.class)
}

/// What ptxas counts: sums of two words once, and nothing that takes no time.
fn weight(data: &InstData) -> u32 {
    use sass::Op::{IADD3, UMOV, WARPSYNC};
    let is_free = match data.op {
        Op::Machine(UMOV | WARPSYNC) | Op::Pseudo(_) => true,
        Op::Machine(IADD3) => data.modifiers.contains(&M::X),
        _ => false,
    };
    u32::from(!is_free)
}

fn unroll(function: &mut Function, l: &Loop, plan: Plan) {
    match plan {
        Plan::Straight(count) => {
            let before = ahead(function, l, count - 1, l.block);
            enter_by(function, l, before);
            function.blocks[l.block].end = Terminator::Jump(l.out.clone());
        }
        Plan::Counted { first, together } => {
            let header = ahead(function, l, together - 1, l.block);
            let before = ahead(function, l, first, header);
            enter_by(function, l, before);
            redirect(function, l.block, l.block, header);
            function.rolled.extend([l.block, header]);
        }
        Plan::Uncounted { together } => {
            let main = like(function, l);
            let next = copies(function, l, main, together);
            let before = like(function, l);
            let first = function.blocks[before].params.clone();
            let ramp = ramp(function, l);
            let far = ramp.as_ref().and_then(|ramp| is_far_from_overflow(function, before, ramp, together));
            // Where nothing overflows, the last test says it all.
            let left_out = if far.is_some() { together - 1 } else { 0 };
            let tests = ahead_tests(function, l, before, &first, 0..together);
            go_on(function, l, (before, main), first, far.into_iter().chain(tests).collect());
            let tests = ahead_tests(function, l, main, &next, left_out..together);
            go_on(function, l, (main, main), next, tests);
            enter_by(function, l, before);
            function.rolled.extend([l.block, main]);
        }
    }
}

/// A new block with parameters like the loop's.
fn like(function: &mut Function, l: &Loop) -> Block {
    let block = function.block();
    let params: Vec<Value> = function.blocks[l.block].params.clone();
    let shapes: Vec<_> = params.iter().map(|p| function.values[*p]).collect();
    function.blocks[block].params = shapes.iter().map(|s| function.value(s.file, s.words)).collect();
    function.blocks[block].end_at = function.blocks[l.block].end_at;
    block
}

/// A block that does some iterations and goes on to another one; that itself, if there are none to do.
fn ahead(function: &mut Function, l: &Loop, count: u32, to: Block) -> Block {
    if count == 0 {
        return to;
    }
    let block = like(function, l);
    let args = copies(function, l, block, count);
    function.blocks[block].end = Terminator::Jump(Edge { to, args });
    block
}

/// Appends iterations to a block with parameters like the loop's. Says what these are behind them.
fn copies(function: &mut Function, l: &Loop, to: Block, count: u32) -> Vec<Value> {
    let insts = function.blocks[l.block].insts.clone();
    let mut now = function.blocks[to].params.clone();
    for _ in 0..count {
        now = copy(function, l, &insts, to, &now).1;
    }
    now
}

/// Appends copies of some of the loop's instructions. Says what its values are there, and its parameters the next time.
fn copy(
    function: &mut Function,
    l: &Loop,
    insts: &[Inst],
    to: Block,
    now: &[Value],
) -> (FxHashMap<Value, Value>, Vec<Value>) {
    let params = function.blocks[l.block].params.iter().copied();
    let mut there: FxHashMap<Value, Value> = params.zip(now.iter().copied()).collect();
    for inst in insts {
        let mut data = function.insts[*inst].clone();
        data.map_uses(|value| there.get(&value).copied().unwrap_or(value));
        for result in &mut data.results {
            let shape = function.values[*result];
            let own = function.value(shape.file, shape.words);
            if function.awaited.contains(result) {
                function.awaited.push(own);
            }
            there.insert(*result, own);
            *result = own;
        }
        function.append(to, data);
    }
    let next = l.next.iter().map(|value| there.get(value).copied().unwrap_or(*value)).collect();
    (there, next)
}

/// Computes in a block, where the loop's parameters are `now`, whether the loop would go on after some of the next
/// iterations.
fn ahead_tests(
    function: &mut Function,
    l: &Loop,
    block: Block,
    now: &[Value],
    which: Range<u32>,
) -> Vec<Arg> {
    let (mut at, mut tests) = (now.to_vec(), Vec::new());
    for iteration in 0..which.end {
        let (there, next) = copy(function, l, &l.test, block, &at);
        let predicate = there.get(&l.predicate).copied().unwrap_or(l.predicate);
        if which.contains(&iteration) {
            tests.push(if l.negated { Arg::not(predicate) } else { predicate.into() });
        }
        at = next;
    }
    tests
}

/// Ends a block where the loop's parameters are `now`: if all tests hold, several iterations are done at a time; else it
/// goes on one by one.
fn go_on(function: &mut Function, l: &Loop, (block, main): (Block, Block), now: Vec<Value>, tests: Vec<Arg>) {
    let all = tests.into_iter().reduce(|all, test| {
        let both = function.value(File::P, 1);
        let args = [Arg::True(true), all, test, Arg::True(true), Arg::Imm(0xc0), Arg::Imm(0)];
        append(function, block, (sass::Op::PLOP3, &[M::LUT]), both, &args);
        both.into()
    });
    let Some(Arg::Use(all)) = all else { return };
    let yes = Edge { to: main, args: now.clone() };
    let no = Edge { to: l.block, args: now };
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

/// A counter of one word that takes steps towards its bound, and goes on before it.
struct Ramp {
    bound: Arg,
    is_signed: bool,
    step: i64,
}

/// `next = i + step; next < bound`, or the same of `i`, or downwards.
fn ramp(function: &Function, l: &Loop) -> Option<Ramp> {
    let ([place], [_, _]) = (&l.counters[..], &l.test[..]) else { return None };
    let (counter, next) = (*function.blocks[l.block].params.get(*place)?, l.next[*place]);
    let find = |op| l.test.iter().map(|i| &function.insts[*i]).find(|data| data.op == Op::Machine(op));
    let (sum, compare) = (find(sass::Op::IADD3)?, find(sass::Op::ISETP)?);
    let ([base, Arg::Imm(step), Arg::Zero(_)], [], [result]) =
        (&sum.args[..], &sum.modifiers[..], &sum.results[..])
    else {
        return None;
    };
    let (is_signed, test) = match compare.modifiers[..] {
        [test, M::AND] => (true, test),
        [test, M::U32, M::AND] => (false, test),
        _ => return None,
    };
    let [Arg::True(true), asked, bound, Arg::True(true)] = compare.args[..] else { return None };
    let is_counted = [counter, next].iter().any(|v| asked == Arg::from(*v));
    let stays = matches!(bound, Arg::Imm(_) | Arg::Const { .. } | Arg::Zero(_))
        || matches!(bound, Arg::Use(u) if l.bounds.contains(&u.value));
    let step = i64::from(*step as i32);
    let rises = match (test, l.negated) {
        (M::LT | M::LE, false) | (M::GT | M::GE, true) => true,
        (M::GT | M::GE, false) | (M::LT | M::LE, true) => false,
        _ => return None,
    };
    let fits = *base == Arg::from(counter) && *result == next && compare.results[..] == [l.predicate];
    (fits && is_counted && stays && step != 0 && (step > 0) == rises).then_some(Ramp {
        bound,
        is_signed,
        step,
    })
}

/// Computes whether a counter that goes on before its bound can take so many steps more without leaving the numbers of
/// its kind. `None` if these are too large.
fn is_far_from_overflow(function: &mut Function, block: Block, ramp: &Ramp, steps: u32) -> Option<Arg> {
    let way = ramp.step.checked_mul(i64::from(steps)).filter(|way| way.abs() < 1 << 30)?;
    let (least, most) = match ramp.is_signed {
        true => (i64::from(i32::MIN), i64::from(i32::MAX)),
        false => (0, i64::from(u32::MAX)),
    };
    let (test, limit) = if way > 0 { (M::LE, most - way) } else { (M::GE, least - way) };
    let [bound, is_far] = [function.value(File::R, 1), function.value(File::P, 1)];
    append(function, block, (sass::Op::MOV, &[]), bound, &[ramp.bound]);
    let args = [Arg::True(true), bound.into(), Arg::Imm(i64::from(limit as i32)), Arg::True(true)];
    let modifiers: &[M] = if ramp.is_signed { &[test, M::AND] } else { &[test, M::U32, M::AND] };
    append(function, block, (sass::Op::ISETP, modifiers), is_far, &args);
    Some(is_far.into())
}

/// Whoever came to the loop comes to another block instead.
fn enter_by(function: &mut Function, l: &Loop, to: Block) {
    l.before.iter().for_each(|before| redirect(function, *before, l.block, to));
}

/// The edges from one block to another lead elsewhere.
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
    fn each_loop_is_unrolled_as_its_count_allows() {
        let (before, after) = (kernels("if-convert"), kernels("unroll"));
        for (name, shape_after) in [
            // All iterations.
            ("times_1", (1, 0)),
            ("times_5", (5, 0)),
            ("times_64", (64, 0)),
            // They load from few places.
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
    fn counts_are_shared_out() {
        assert_eq!(plan_counted(1, 400), None, "no code is longer than what is put side by side");
        assert_eq!(plan_counted(16, 20), Some(Plan::Straight(16)));
        assert_eq!(plan_counted(256, 10), Some(Plan::Counted { first: 0, together: 32 }));
        assert_eq!(plan_counted(101, 40), Some(Plan::Counted { first: 1, together: 5 }));
        assert_eq!(plan_counted(100, 73), None);
        for (count, body) in (1..1024).step_by(7).flat_map(|count| (1..90).map(move |body| (count, body))) {
            match plan_counted(count, body) {
                Some(Plan::Straight(all)) => assert!(all == count && count * body <= STRAIGHT),
                Some(Plan::Counted { first, together }) => {
                    assert!(together > 1 && first < together && (count - first) % together == 0);
                    assert!((first + together) * body <= SIDE_BY_SIDE);
                }
                Some(Plan::Uncounted { .. }) => panic!("{count} is known"),
                None => assert!(count * body > SIDE_BY_SIDE),
            }
        }
    }
}
