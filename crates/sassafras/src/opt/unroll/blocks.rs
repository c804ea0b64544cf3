//! Full unrolling of multi-block loops, with branches, further exits and barriers in the body.
//!
//! The blocks of the loop are cloned for each iteration; the latch of each copy jumps to the header of the next. Other
//! exits stay in every copy. ptxas 13.0.88 also unrolls such loops only fully.
//!
//! ```text
//! b1(v1): branch p, b2, b9               b1(v1): branch p, b2, b9;    b2: …; jump b3(v2)
//! b2: …; branch q, b1(v2), b8       →    b3(v3): branch p', b4, b9;   b4: …; jump b8          (twice)
//! ```
//!
//! Loop values used after the loop become parameters of a landing block before its exit. If the loop has several exits,
//! these values may be used after at most one of them, and the loop may contain no collective, because threads leave it
//! in different iterations.

use super::policy::{self, Plan};
use super::{Candidate, clone_inst, redirect, trip_count};
use crate::analysis::effects::{Convergence, Effects};
use crate::analysis::forwarding::forwarded;
use crate::context::Context;
use ori::entity::Entity;
use ori::{Block, Edge, Function, Inst, LoopId, Terminator, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Unrolls loop after loop; did it do so?
pub(super) fn run(function: &mut Function, context: &mut Context) -> bool {
    let mut unrolled = false;
    while let Some((candidate, count, landing)) = find(function, context) {
        context.unroll_budget -= Plan::Full(count).growth(&candidate);
        if !context.fuel.burn() {
            break;
        }
        thread_exits(function, &candidate);
        if let Some((exit, values)) = landing {
            insert_landing(function, &candidate, exit, &values);
        }
        unroll(function, &candidate, count);
        context.analyses.invalidate(ori::Change::ControlFlow);
        unrolled = true;
    }
    unrolled
}

/// An exit of a loop, and the values of the loop that are used behind it.
type Landing = (Block, Vec<Value>);

/// The first loop that is to be unrolled, with its trip count.
fn find(function: &Function, context: &mut Context) -> Option<(Candidate, u32, Option<Landing>)> {
    let forest = context.analyses.loops(function);
    let parents: FxHashSet<LoopId> = forest.iter().filter_map(|(_, l)| l.parent).collect();
    let mut loops = forest.iter().filter(|(id, l)| l.blocks.len() > 1 && !parents.contains(id)).peekable();
    loops.peek()?;
    let (cfg, definitions) = (context.analyses.cfg(function), context.analyses.definitions(function));
    let live = context.analyses.liveness(function);
    let tuning = &context.tuning;
    let mut known = vec![None; function.values.len()];
    loops.find_map(|(id, l)| {
        let candidate = Candidate::find(function, &cfg, &definitions, l, tuning)?;
        let count = trip_count(function, &definitions, tuning, &mut known, &candidate)?;
        let plan = policy::plan(function, tuning, &candidate, Some(count))?;
        let fits = plan == Plan::Full(count) && plan.growth(&candidate) <= context.unroll_budget;
        let edges = l.blocks.iter().flat_map(|b| function.blocks[*b].end.edges());
        let exits: FxHashSet<Block> = edges
            .filter(|edge| !forest.contains(id, edge.to))
            .map(|edge| forwarded(function, edge).to)
            .collect();
        if !fits || l.exits.len() > 1 && has_collective(function, l) {
            return None;
        }
        let used_behind = |exit: &Block| -> Landing {
            let after = &live.live_in[exit.index()];
            (*exit, candidate.defined(function).filter(|v| after.contains(*v)).collect())
        };
        let mut landings = exits.iter().map(used_behind).filter(|(_, values)| !values.is_empty());
        let landing = landings.next();
        landings.next().is_none().then_some((candidate, count, landing))
    })
}

fn has_collective(function: &Function, l: &ori::Loop) -> bool {
    let is_collective = |i: &Inst| Effects::of(&function.insts[*i]).convergence != Convergence::Thread;
    l.blocks.iter().any(|b| function.blocks[*b].insts.iter().any(is_collective))
}

/// Lets the exits of a loop lead to where they lead in the end.
fn thread_exits(function: &mut Function, candidate: &Candidate) {
    let inside: FxHashSet<Block> = candidate.blocks.iter().copied().collect();
    for block in &candidate.blocks {
        let mut end = function.blocks[*block].end.clone();
        for edge in end.edges_mut().into_iter().filter(|edge| !inside.contains(&edge.to)) {
            *edge = forwarded(function, edge).clone();
        }
        function.blocks[*block].end = end;
    }
}

/// Puts a block with parameters for some values of the loop before one of its exits, and lets all that follows use them.
fn insert_landing(function: &mut Function, candidate: &Candidate, exit: Block, values: &[Value]) {
    let landing = function.block();
    function.blocks[landing].end_at = function.blocks[candidate.latch].end_at;
    let params = function.blocks[exit].params.clone();
    let mut copy = |value: &Value| {
        let shape = function.values[*value];
        function.value(shape.file, shape.words)
    };
    let args: Vec<Value> = params.iter().map(&mut copy).collect();
    let names: FxHashMap<Value, Value> = values.iter().map(|v| (*v, copy(v))).collect();
    let inside: FxHashSet<Block> = candidate.blocks.iter().copied().collect();
    let others: Vec<Block> = function.blocks.keys().filter(|b| !inside.contains(b)).collect();
    for block in others {
        function.map_uses_in(block, |v| names.get(&v).copied().unwrap_or(v));
    }
    for block in &candidate.blocks {
        for edge in function.blocks[*block].end.edges_mut().into_iter().filter(|e| e.to == exit) {
            edge.to = landing;
            edge.args.extend(values);
        }
    }
    function.blocks[landing].params = args.iter().copied().chain(values.iter().map(|v| names[v])).collect();
    function.blocks[landing].end = Terminator::Jump(Edge { to: exit, args });
}

/// The loop itself becomes the last of `count` iterations.
fn unroll(function: &mut Function, candidate: &Candidate, count: u32) {
    let (header, latch) = (candidate.block, candidate.latch);
    let mut next = header;
    for _ in 1..count {
        next = clone_iteration(function, candidate, next);
    }
    for from in &candidate.entering {
        redirect(function, *from, header, next);
    }
    let leaves = |edge: &&Edge| edge.to != header;
    let exit = function.blocks[latch].end.edges().into_iter().find(leaves).cloned();
    if let Some(exit) = exit {
        function.blocks[latch].end = Terminator::Jump(exit);
    }
}

/// Clones the loop for one iteration that always goes on to the block `next`. Returns the clone of the header.
fn clone_iteration(function: &mut Function, candidate: &Candidate, next: Block) -> Block {
    let clones: FxHashMap<Block, Block> = candidate.blocks.iter().map(|b| (*b, function.block())).collect();
    let mut renamed: FxHashMap<Value, Value> = FxHashMap::default();
    for block in &candidate.blocks {
        for param in function.blocks[*block].params.clone() {
            let shape = function.values[param];
            let clone = function.value(shape.file, shape.words);
            function.blocks[clones[block]].params.push(clone);
            renamed.insert(param, clone);
        }
        for inst in function.blocks[*block].insts.clone() {
            clone_inst(function, inst, clones[block], &mut renamed);
        }
    }
    let name = |value: Value| renamed.get(&value).copied().unwrap_or(value);
    for block in &candidate.blocks {
        let mut end = match *block == candidate.latch {
            true => Terminator::Jump(Edge { to: candidate.block, args: candidate.next.clone() }),
            false => function.blocks[*block].end.clone(),
        };
        end.map_uses(name);
        for edge in end.edges_mut() {
            edge.to = if edge.to == candidate.block {
                next
            } else {
                clones.get(&edge.to).copied().unwrap_or(edge.to)
            };
        }
        let (end_at, cold) = (function.blocks[*block].end_at, function.blocks[*block].cold);
        let clone = &mut function.blocks[clones[block]];
        (clone.end, clone.end_at, clone.cold) = (end, end_at, cold);
    }
    clones[&candidate.block]
}
