//! If-to-switch conversion: comparisons of one value with constants, in a chain or a tree of branches, become a switch
//! (GCC's pass of that name).
//!
//! ```text
//! b0: v1:P = ISETP.EQ.U32 v0, 0x7               b0: v5:R = IADD3 v0, -0x7, RZ
//!     branch v1, b5, b1                             v6:R = VIMNMX.U32 v5, 0x3, PT
//! b1: v2:P = ISETP.EQ.U32 v0, 0x8        ==>        switch v6, [0 1 2 3], b5, b6, b7, b4
//!     branch v2, b6, b2
//! b2: v3:P = ISETP.EQ.U32 v0, 0x9
//!     branch v3, b7, b4
//! ```
//!
//! From the first test on, the values that each edge is taken for are followed as sets of intervals. Blocks that hold
//! nothing but a test of the same value are passed; all other edges are leaves. The longest run of values, around zero
//! too, that lead to one leaf is outside of the table. A value there becomes the index after the last case, by an
//! unsigned minimum, so that no branch has to check the range.
//!
//! It pays where a value meets `switch_min_tests` tests in the mean over the table, and where the table has no more than
//! `switch_entries_per_case` entries for each case. Sides so short that `if-convert` makes selects of them stay, and so
//! do tests of a value that may differ between the threads of a warp: on an H200, threads that go to different places by
//! one BRX took 1.6 to 1.8 times as long as with tests (`tests/bench/interpreter.cu`).
//!
//! Cost: linear in the instructions, and in the tests times the intervals that they cut values into, which
//! `switch_work` bounds.

use crate::analysis::effects;
use crate::codegen::legalize;
use crate::context::{Context, JumpTables, PassResult, Tuning};
use ori::entity::Entity;
use ori::{
    Arg, Block, Cfg, Change, Cursor, Edge, File, Function, InstData, Op, Switch, Terminator, Use, Value,
};
use rustc_hash::FxHashMap;
use sass::{M, Op as Name};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    if context.jump_tables == JumpTables::None {
        return Ok(Change::Nothing);
    }
    let cfg = context.analyses.cfg(function);
    let mut tests: Vec<Option<Test>> = function.blocks.keys().map(|b| test(function, b)).collect();
    let mut work = u64::from(context.tuning.switch_work) * function.blocks.len() as u64;
    let (mut uses, mut switches) = (None, Vec::new());
    for &root in &cfg.order {
        let Some(Test { value, .. }) = tests[root.index()] else { continue };
        let goes_on = |edge: &Edge| tests[edge.to.index()].as_ref().is_some_and(|t| t.value == value);
        if !function.blocks[root].end.edges().iter().any(|edge| goes_on(edge)) {
            continue;
        }
        let uses = uses.get_or_insert_with(|| function.use_counts(function.blocks.keys()));
        let mut search = Search { function, cfg: &cfg, tests: &tests, uses, work: &mut work };
        let Some(tree) = search.tree(root) else { continue };
        let Some(plan) = plan(&tree, &context.tuning) else { continue };
        if context.analyses.divergence(function).varies(value) {
            continue;
        }
        if !becomes_selects(function, &plan, &context.tuning) && context.fuel.burn() {
            tree.blocks.iter().for_each(|b| tests[b.index()] = None);
            switches.push((root, tree, plan));
        }
    }
    let change = Change::ControlFlow.when(!switches.is_empty());
    for (root, tree, plan) in switches {
        replace(function, context, root, &tree, plan);
    }
    Ok(change)
}

/// A comparison of a word with a constant that decides a branch.
struct Test {
    value: Value,
    predicate: Value,
    /// The values for which the first edge of the branch is taken.
    yes: Intervals,
}

/// Values of a word: disjoint intervals, both ends included, in ascending order.
type Intervals = Vec<(u32, u32)>;

fn test(function: &Function, block: Block) -> Option<Test> {
    let data = &function.blocks[block];
    let Terminator::Branch { predicate, negated, .. } = data.end else { return None };
    let mut insts = data.insts.iter().rev().map(|i| &function.insts[*i]);
    let compare = insts.find(|inst| inst.results.contains(&predicate))?;
    let (Op::Machine(Name::ISETP), None) = (compare.op, &compare.guard) else { return None };
    let [Arg::True(true), Arg::Use(Use { value, part: None, .. }), constant, Arg::True(true)] =
        compare.args[..]
    else {
        return None;
    };
    let is_plain = matches!(compare.args[1], Arg::Use(u) if u.is_plain());
    let constant = match constant {
        Arg::Imm(n) => n as u32,
        Arg::Zero(File::R) => 0,
        _ => return None,
    };
    let (relation, is_signed) = match compare.modifiers[..] {
        [relation, M::AND] => (relation, true),
        [relation, M::U32, M::AND] => (relation, false),
        _ => return None,
    };
    let shape = function.values[value];
    let is_word = is_plain && (shape.file, shape.words) == (File::R, 1) && compare.results[..] == [predicate];
    let holds = holds(relation, is_signed, constant).filter(|_| is_word)?;
    let yes = if negated { complement(&holds) } else { holds };
    Some(Test { value, predicate, yes })
}

/// The values with a relation to a constant.
fn holds(relation: M, is_signed: bool, constant: u32) -> Option<Intervals> {
    // In the order of signed words, the sign bit counts the other way.
    let bias = if is_signed { 1 << 31 } else { 0 };
    let c = constant ^ bias;
    let below = |end: Option<u32>| end.map(|end| (0, end)).into_iter().collect::<Intervals>();
    let ordered = match relation {
        M::EQ => vec![(c, c)],
        M::NE => complement(&[(c, c)]),
        M::LT => below(c.checked_sub(1)),
        M::LE => below(Some(c)),
        M::GT => complement(&below(Some(c))),
        M::GE => complement(&below(c.checked_sub(1))),
        _ => return None,
    };
    let halves =
        ordered.into_iter().flat_map(|(first, last)| match is_signed && first < bias && last >= bias {
            true => vec![(first, bias - 1), (bias, last)],
            false => vec![(first, last)],
        });
    let mut all: Intervals = halves.map(|(first, last)| (first ^ bias, last ^ bias)).collect();
    all.sort_unstable();
    Some(all)
}

fn complement(of: &[(u32, u32)]) -> Intervals {
    let (mut all, mut next) = (Intervals::new(), Some(0));
    for (first, last) in of {
        if let Some(start) = next.filter(|start| start < first) {
            all.push((start, first - 1));
        }
        next = last.checked_add(1);
    }
    all.extend(next.map(|start| (start, u32::MAX)));
    all
}

fn intersection(a: &[(u32, u32)], b: &[(u32, u32)]) -> Intervals {
    let (mut all, mut i, mut j) = (Intervals::new(), 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let (first, last) = (x.0.max(y.0), x.1.min(y.1));
        if first <= last {
            all.push((first, last));
        }
        if x.1 < y.1 {
            i += 1;
        } else {
            j += 1;
        }
    }
    all
}

/// Where the tests of a value lead.
struct Tree {
    value: Value,
    /// The edges, no two of them the same.
    edges: Vec<Edge>,
    /// All values in ascending order, by intervals: with the edge, and the number of tests on the way to it.
    leaves: Vec<Leaf>,
    /// The blocks of the tests.
    blocks: Vec<Block>,
    is_uniform: bool,
}

struct Leaf {
    first: u32,
    last: u32,
    edge: u32,
    depth: u32,
}

struct Search<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    tests: &'a [Option<Test>],
    uses: &'a [u32],
    /// How many intervals may still be visited.
    work: &'a mut u64,
}

impl<'a> Search<'a> {
    /// `None` if it would take too long.
    fn tree(&mut self, root: Block) -> Option<Tree> {
        let value = self.tests[root.index()].as_ref()?.value;
        let mut tree =
            Tree { value, edges: Vec::new(), leaves: Vec::new(), blocks: Vec::new(), is_uniform: true };
        let mut numbers: FxHashMap<(Block, &'a [Value]), u32> = FxHashMap::default();
        let mut open = vec![(root, vec![(0, u32::MAX)], 1)];
        while let Some((block, domain, depth)) = open.pop() {
            let end = &self.function.blocks[block].end;
            let (Some(test), Terminator::Branch { yes, no, .. }) = (&self.tests[block.index()], end) else {
                return None;
            };
            tree.blocks.push(block);
            tree.is_uniform &= end.may_diverge_on().is_none();
            for (edge, taken) in [(yes, test.yes.clone()), (no, complement(&test.yes))] {
                let taken = intersection(&domain, &taken);
                *self.work = self.work.checked_sub(1 + taken.len() as u64)?;
                if self.is_inner(root, edge.to, value) {
                    open.push((edge.to, taken, depth + 1));
                    continue;
                }
                let edge = destination(self.function, edge);
                let number = *numbers.entry((edge.to, &edge.args)).or_insert(tree.edges.len() as u32);
                if number as usize == tree.edges.len() {
                    tree.edges.push(edge.clone());
                }
                let leaf = |(first, last)| Leaf { first, last, edge: number, depth };
                tree.leaves.extend(taken.into_iter().map(leaf));
            }
        }
        tree.leaves.sort_unstable_by_key(|leaf| leaf.first);
        Some(tree)
    }

    /// Is the block nothing but another test of the value?
    fn is_inner(&self, root: Block, block: Block, value: Value) -> bool {
        let data = &self.function.blocks[block];
        let is_own = |test: &Test| test.value == value && self.uses[test.predicate.index()] == 1;
        block != root
            && data.params.is_empty()
            && data.insts.len() == 1
            && self.cfg.preds[block.index()].len() == 1
            && self.tests[block.index()].as_ref().is_some_and(is_own)
    }
}

/// The last edge on the way through blocks that only jump.
fn destination<'a>(function: &'a Function, mut edge: &'a Edge) -> &'a Edge {
    /// Such blocks may lead to themselves.
    const MOST_JUMPS: usize = 8;
    for _ in 0..MOST_JUMPS {
        let data = &function.blocks[edge.to];
        match &data.end {
            Terminator::Jump(next) if data.insts.is_empty() && data.params.is_empty() => edge = next,
            _ => break,
        }
    }
    edge
}

/// The switch for a tree of tests.
struct Plan {
    /// The value of the first entry.
    first: u32,
    /// The edge for each value from there on, and last the one for all others.
    table: Vec<u32>,
    edges: Vec<Edge>,
}

fn plan(tree: &Tree, tuning: &Tuning) -> Option<Plan> {
    // The longest run of values with one edge; values go on at zero after the last.
    let count = tree.leaves.len();
    let starts_run = |i: usize| tree.leaves[i].edge != tree.leaves[(i + count - 1) % count].edge;
    let start = (0..count).find(|i| starts_run(*i))?;
    let size = |leaf: &Leaf| u64::from(leaf.last - leaf.first) + 1;
    let mut outside = (0, 0, 0);
    let mut run = (0, start, 0);
    for i in start..start + count {
        if starts_run(i % count) {
            run = (0, i, 0);
        }
        run = (run.0 + size(&tree.leaves[i % count]), run.1, i + 1);
        outside = if run.0 > outside.0 { run } else { outside };
    }
    let (outside_values, begin, end) = outside;
    let entries = (1u64 << 32) - outside_values;
    if entries >= u64::from(tuning.switch_max_entries) {
        return None;
    }
    let default = tree.leaves[begin % count].edge;
    let first = tree.leaves[(end - 1) % count].last.wrapping_add(1);
    let (mut table, mut cases, mut depths) = (Vec::with_capacity(entries as usize + 1), 0u64, 0u64);
    for leaf in (end..begin + count).map(|i| &tree.leaves[i % count]) {
        table.extend((0..size(leaf)).map(|_| leaf.edge));
        cases += size(leaf) * u64::from(leaf.edge != default);
        depths += size(leaf) * u64::from(leaf.depth);
    }
    table.push(default);
    let of_default = (begin..end).map(|i| tree.leaves[i % count].depth).max().unwrap_or_default();
    let values = entries + 1;
    let least = u64::from(tuning.switch_min_tests);
    let is_dense = entries <= cases * u64::from(tuning.switch_entries_per_case);
    let pays = depths + u64::from(of_default) >= least * values;
    (is_dense && pays).then(|| Plan { first, table, edges: tree.edges.clone() })
}

/// Are the sides, which all lead to one block, so short that `if-convert` makes selects of them?
fn becomes_selects(function: &Function, plan: &Plan, tuning: &Tuning) -> bool {
    let mut join = None;
    let mut cost = 0;
    plan.edges.iter().all(|edge| {
        let data = &function.blocks[edge.to];
        let is_pure = || data.insts.iter().all(|i| effects::is_function(&function.insts[*i]));
        let to = match &data.end {
            Terminator::Jump(next) if data.params.is_empty() && is_pure() => {
                cost += data.insts.len() as u32;
                next.to
            }
            _ => edge.to,
        };
        *join.get_or_insert(to) == to && cost <= tuning.if_convert_max_cost
    })
}

fn replace(function: &mut Function, context: &Context, root: Block, tree: &Tree, plan: Plan) {
    let at = function.blocks[root].end_at;
    let last = (plan.table.len() - 1) as i64;
    let mut cursor = Cursor::at_end(function, root).at(at);
    let mut index = tree.value;
    if plan.first != 0 {
        let distance = Arg::Imm(i64::from((plan.first as i32).wrapping_neg()));
        index = cursor.word(Name::IADD3, &[], File::R, &[index.into(), distance, Arg::Zero(File::R)]);
    }
    let args = [index.into(), Arg::Imm(last), Arg::True(true)];
    let clamped = cursor.function.value(File::R, 1);
    let minimum = |op| InstData {
        modifiers: [M::U32].into_iter().collect(),
        at,
        ..InstData::new(Op::Machine(op), &[clamped], &args)
    };
    let with_sign = minimum(Name::VIMNMX);
    let is_legal = legalize::is_legal(cursor.function, context.machine, &with_sign);
    cursor.insert(if is_legal { with_sign } else { minimum(Name::IMNMX) });
    let targets = plan.table.iter().filter_map(|entry| plan.edges.get(*entry as usize).cloned());
    let switch = Switch { uniform: tree.is_uniform, ..Switch::new(clamped, targets) };
    function.blocks[root].end = Terminator::Switch(Box::new(switch));
}
