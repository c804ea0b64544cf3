//! Forward progress: a loop in which a thread waits for others of its warp lets them run.
//!
//! A thread that has won a lock may stand at a convergence barrier, behind the loop in which the others still wait for
//! it. `YIELD` lets it go on. As ptxas does, at every level and on every target, a loop gets one where an exit that
//! varies depends on something strong that is read in the loop: a volatile, relaxed or acquire load, an atomic, or a
//! look at an `mbarrier`, in global or shared memory. Counted loops and loops that all threads leave at once get none.
//! A device function begins with one if it reads anything of that kind: its caller may do so in a loop.

use crate::context::target::Machine;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Divergence, Function, InstData, Op, Pseudo, Terminator, Value};

pub fn run(function: &mut Function, _: &'static Machine) -> Result<(), String> {
    let cfg = Cfg::new(function);
    let loops = loops(&cfg);
    let mut done = vec![false; function.blocks.len()];
    if is_device_function(function) && reads_awaited(function) {
        done[Function::ENTRY.index()] = true;
        insert(function, Function::ENTRY);
    }
    // Behind a loop that yields threads come one by one: that may make others wait.
    loop {
        let divergence = Divergence::new(function, &cfg);
        let waits = |l: &Loop| !done[l.header.index()] && waits(function, &cfg, &divergence, l);
        let waiting: Vec<Block> = loops.iter().filter(|l| waits(l)).map(|l| l.header).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        for header in waiting {
            if !std::mem::replace(&mut done[header.index()], true) {
                insert(function, header);
            }
        }
    }
}

/// The first instruction of a device function says where its parameters are.
fn is_device_function(function: &Function) -> bool {
    let first = function.blocks[Function::ENTRY].insts.first();
    first.is_some_and(|inst| function.insts[*inst].op == Op::Pseudo(Pseudo::Entry))
}

fn reads_awaited(function: &Function) -> bool {
    let mut insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    insts.any(|inst| {
        let data = &function.insts[*inst];
        is_atomic(data) || data.results.iter().any(|r| function.awaited.contains(r))
    })
}

struct Loop {
    header: Block,
    /// By block: is it in the loop?
    body: Vec<bool>,
}

/// A loop for each edge that goes back.
fn loops(cfg: &Cfg) -> Vec<Loop> {
    let mut rank = vec![usize::MAX; cfg.succs.len()];
    cfg.order.iter().enumerate().for_each(|(i, b)| rank[b.index()] = i);
    let mut loops = Vec::new();
    for &tail in &cfg.order {
        for &header in cfg.succs[tail.index()].iter().filter(|h| rank[h.index()] <= rank[tail.index()]) {
            // With side doors this may lead out of the loop and finds too much, which does no harm.
            loops.push(Loop { header, body: cfg.leading_to(header, &[tail]) });
        }
    }
    loops
}

/// Does a way out of the loop on which threads part depend on something strong that is read in it?
fn waits(function: &Function, cfg: &Cfg, divergence: &Divergence, l: &Loop) -> bool {
    let inside = |b: &Block| l.body[b.index()];
    let exits = cfg.order.iter().filter(|b| inside(b)).filter_map(|b| match function.blocks[*b].end {
        Terminator::Branch { predicate, uniform: false, .. }
            if divergence.varies(predicate) && !cfg.succs[b.index()].iter().all(inside) =>
        {
            Some(predicate)
        }
        _ => None,
    });
    let conditions: Vec<Value> = exits.collect();
    !conditions.is_empty() && depends_on_awaited(function, cfg, l, conditions)
}

/// Goes back over definitions, parameters, and the branches that decide about parameters.
fn depends_on_awaited(function: &Function, cfg: &Cfg, l: &Loop, mut work: Vec<Value>) -> bool {
    let mut definition = vec![None; function.values.len()];
    let mut parameter = vec![None; function.values.len()];
    for &block in cfg.order.iter().filter(|b| l.body[b.index()]) {
        let data = &function.blocks[block];
        for inst in &data.insts {
            function.insts[*inst].results.iter().for_each(|r| definition[r.index()] = Some(*inst));
        }
        data.params.iter().enumerate().for_each(|(i, p)| parameter[p.index()] = Some((block, i)));
    }
    let mut seen = vec![false; function.values.len()];
    while let Some(value) = work.pop() {
        if std::mem::replace(&mut seen[value.index()], true) {
            continue;
        }
        if let Some(inst) = definition[value.index()] {
            let data = &function.insts[inst];
            if function.awaited.contains(&value) || is_atomic(data) {
                return true;
            }
            work.extend(data.uses());
        }
        if let Some((block, index)) = parameter[value.index()] {
            for pred in cfg.preds[block.index()].iter().filter(|p| l.body[p.index()]) {
                let edges = function.blocks[*pred].end.edges();
                work.extend(edges.iter().filter(|e| e.to == block).map(|e| e.args[index]));
            }
            // What decides which way is taken to a join inside of the loop.
            let over = cfg.idom(block).filter(|b| l.body[b.index()] && block != l.header);
            if let Some(Terminator::Branch { predicate, .. }) = over.map(|b| &function.blocks[b].end) {
                work.push(*predicate);
            }
        }
    }
    false
}

/// Not those that are tried again until they succeed: of the threads that try, one always does, and ptxas lets nobody
/// pass there. An H200 has brought threads to a barrier one by one that had parted so.
fn is_atomic(data: &InstData) -> bool {
    use sass::Op::{ATOM, ATOMG, ATOMS, SUATOM, SYNCS};
    let tried_again = data.modifiers.contains(&sass::M::SPIN);
    !tried_again && matches!(data.op, Op::Machine(ATOM | ATOMG | ATOMS | SUATOM | SYNCS))
}

/// At the beginning of a block, behind what says where the parameters are.
fn insert(function: &mut Function, block: Block) {
    let data = InstData::new(Op::Machine(sass::Op::YIELD), &[], &[Arg::True(true)]);
    let inst = function.insts.push(data);
    let at = usize::from(block == Function::ENTRY && is_device_function(function));
    function.blocks[block].insts.insert(at, inst);
}
