//! Forward progress: inserts `YIELD` into spin loops, in which a thread waits for other threads of its warp.
//!
//! A thread that holds a lock may be waiting at a convergence barrier after the loop in which the other threads still
//! wait for the lock. `YIELD` lets it run. As in ptxas, at every level and on every target, a loop gets a `YIELD` at
//! its header if a divergent exit depends on a strong read in the loop: a volatile, relaxed or acquire load, an atomic,
//! or an `mbarrier` test, in global or shared memory. Counted loops and loops that all threads leave at the same time
//! get none, nor do those that sleep in every iteration or until the barrier wakes them, because sleeping threads let
//! others run. A device function with any strong read starts with one, because its caller may call it in a loop.
//!
//! A loop is the cycle of one retreating edge, not a natural loop: threads that `continue` because of a strong read
//! wait for others although no edge leaves the natural loop there, and irreducible loops spin, too.
//!
//! ```text
//! loop: v1 = LDG.STRONG [v0]      loop: YIELD
//!       p1 = ISETP v1, …     ==>        v1 = LDG.STRONG [v0]; p1 = ISETP v1, …
//!       branch p1, loop, done           branch p1, loop, done
//! ```
//!
//! Postcondition: every such loop yields. Cost: one backward slice per loop and repetition; the pass repeats while a
//! new `YIELD` makes other loops divergent.

use crate::context::{Context, PassResult};
use ori::divergence::{is_phase_check, sleeps};
use ori::entity::Entity;
use ori::loops::cycles;
use ori::{Arg, Block, Cfg, Change, Cycle, Divergence, Function, InstData, Op, Pseudo, Value};

pub fn run(function: &mut Function, _: &mut Context) -> PassResult<Change> {
    if !has_strong_reads(function) {
        return Ok(Change::Nothing);
    }
    let cfg = Cfg::new(function);
    let loops = cycles(&cfg);
    let mut done = vec![false; function.blocks.len()];
    if is_device_function(function) {
        done[Function::ENTRY.index()] = true;
        insert_yield(function, Function::ENTRY);
    }
    // After a loop that yields, threads arrive one by one: that may make other loops divergent.
    loop {
        let divergence = Divergence::new(function, &cfg);
        let is_spin_loop =
            |l: &Cycle| !done[l.header.index()] && is_spin_loop(function, &cfg, &divergence, l);
        let headers: Vec<Block> = loops.iter().filter(|l| is_spin_loop(l)).map(|l| l.header).collect();
        if headers.is_empty() {
            return Ok(Change::ControlFlow);
        }
        for header in headers {
            if !std::mem::replace(&mut done[header.index()], true) {
                insert_yield(function, header);
            }
        }
    }
}

/// A device function begins with `Entry`.
fn is_device_function(function: &Function) -> bool {
    let first = function.blocks[Function::ENTRY].insts.first();
    first.is_some_and(|inst| function.insts[*inst].op == Op::Pseudo(Pseudo::Entry))
}

fn has_strong_reads(function: &Function) -> bool {
    let mut insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    insts.any(|inst| {
        let data = &function.insts[*inst];
        is_atomic(data) || data.results.iter().any(|r| function.awaited.contains(r))
    })
}

/// Does a divergent exit of the loop depend on a strong read in it?
fn is_spin_loop(function: &Function, cfg: &Cfg, divergence: &Divergence, l: &Cycle) -> bool {
    let inside = |b: &Block| l.contains(*b);
    let sleeps_always = |b: &&Block| {
        let mut insts = function.blocks[**b].insts.iter().map(|i| &function.insts[*i]);
        inside(b) && cfg.dominates(**b, l.latch) && insts.any(|data| sleeps(data) && data.guard.is_none())
    };
    if cfg.order.iter().any(|b| sleeps_always(&b)) {
        return false;
    }
    let exits = cfg.order.iter().filter(|b| inside(b)).filter_map(|b| {
        let decider = function.blocks[*b].end.may_diverge_on()?;
        let exits = divergence.varies(decider) && !cfg.succs[b.index()].iter().all(inside);
        exits.then_some(decider)
    });
    let conditions: Vec<Value> = exits.collect();
    !conditions.is_empty() && depends_on_strong_read(function, cfg, l, conditions)
}

/// Backward slice over definitions, parameters, and the branches that decide between the arguments of parameters.
fn depends_on_strong_read(function: &Function, cfg: &Cfg, l: &Cycle, mut worklist: Vec<Value>) -> bool {
    let mut definition = vec![None; function.values.len()];
    let mut parameter = vec![None; function.values.len()];
    for &block in cfg.order.iter().filter(|b| l.contains(**b)) {
        let data = &function.blocks[block];
        for inst in &data.insts {
            let results = &function.insts[*inst].results;
            results.iter().for_each(|r| definition[r.index()] = Some((block, *inst)));
        }
        data.params.iter().enumerate().for_each(|(i, p)| parameter[p.index()] = Some((block, i)));
    }
    let mut seen = vec![false; function.values.len()];
    while let Some(value) = worklist.pop() {
        if std::mem::replace(&mut seen[value.index()], true) {
            continue;
        }
        if let Some((block, inst)) = definition[value.index()] {
            let data = &function.insts[inst];
            if function.awaited.contains(&value) || is_atomic(data) && !is_timed_wait(function, block, data) {
                return true;
            }
            worklist.extend(data.uses());
        }
        if let Some((block, index)) = parameter[value.index()] {
            for pred in cfg.preds[block.index()].iter().filter(|p| l.contains(**p)) {
                let edges = function.blocks[*pred].end.edges();
                worklist.extend(edges.iter().filter(|e| e.to == block).map(|e| e.args[index]));
            }
            // The branch that decides which edge to a join inside of the loop is taken.
            let decides = cfg.idom(block).filter(|b| l.contains(*b) && block != l.header);
            worklist.extend(decides.and_then(|b| function.blocks[b].end.decider()));
        }
    }
    false
}

/// Not those that are retried until they succeed: of the threads that try, one always does, and ptxas has no `YIELD`
/// there. An H200 has brought threads to a barrier one by one that had diverged so.
fn is_atomic(data: &InstData) -> bool {
    use sass::Op::{ATOM, ATOMG, ATOMS, SUATOM, SYNCS};
    let is_retried = data.modifiers.contains(&sass::M::SPIN);
    !is_retried && matches!(data.op, Op::Machine(ATOM | ATOMG | ATOMS | SUATOM | SYNCS))
}

/// A look at the phase of an `mbarrier` that is followed or preceded by a sleep, from which the barrier wakes the thread.
fn is_timed_wait(function: &Function, block: Block, data: &InstData) -> bool {
    let until = data.guard.as_ref().map(|g| g.predicate).or(data.results.first().copied());
    let is_woken = |d: &InstData| sleeps(d) && d.guard.as_ref().map(|g| g.predicate) == until;
    let mut insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
    is_phase_check(data) && insts.any(is_woken)
}

/// At the start of a block, after `Entry`.
fn insert_yield(function: &mut Function, block: Block) {
    let data = InstData::new(Op::Machine(sass::Op::YIELD), &[], &[Arg::True(true)]);
    let inst = function.insts.push(data);
    let at = usize::from(block == Function::ENTRY && is_device_function(function));
    function.blocks[block].insts.insert(at, inst);
}
