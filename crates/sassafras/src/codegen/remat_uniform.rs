//! Uniform registers belong to the warp, not to a thread: where threads have parted, those on one side write over what
//! those on the other still need.
//!
//! So uniform values don't live from block to block in code that parts of a warp may run, one after the other, while
//! some of it, or a function that it calls, writes uniform registers, but for loops that the whole warp runs together
//! (`analysis/convergent_loops.rs`). Constants and words of general registers are brought to the block that reads them, again behind each
//! call. Within a block a group of threads is not interrupted: one that waits for others in the middle, and reads
//! uniform registers behind that, becomes two.

use crate::analysis::convergent_loops;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Divergence, Edge, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::FxHashMap;
use sass::{M, Op as Name};

pub fn run(function: &mut Function) -> Result<(), String> {
    let mut cfg = Cfg::new(function);
    let mut divergence = Divergence::new(function, &cfg);
    if !is_shared(function, &cfg, &divergence) {
        return Ok(());
    }
    if split(function, &cfg, &divergence) {
        cfg = Cfg::new(function);
        divergence = Divergence::new(function, &cfg);
    }
    let lasting = Lasting::new(function, &cfg, &divergence);
    let mut definitions: Vec<Option<Inst>> = vec![None; function.values.len()];
    for inst in cfg.order.iter().flat_map(|b| &function.blocks[*b].insts) {
        let data = &function.insts[*inst];
        // A word that threads have in common can be taken from any of them.
        if comes_again(data) && !data.uses().any(|v| divergence.varies(v) || is_uniform(function, v)) {
            definitions[data.results[0].index()] = Some(*inst);
        }
    }
    for &block in &cfg.order {
        bring(function, &definitions, &lasting, block);
    }
    drop_unread(function, &cfg);
    Ok(())
}

/// Which uniform values last from one block to another.
struct Lasting {
    /// The zone that each block belongs to, and the block in which each value was defined.
    zone: Vec<Option<usize>>,
    home: Vec<Option<Block>>,
}

impl Lasting {
    fn new(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Lasting {
        let zones = convergent_loops::zones(function, cfg, divergence);
        let zone = |block: Block| zones.iter().position(|z| z.contains(block));
        let mut home = vec![None; function.values.len()];
        for &block in &cfg.order {
            let data = &function.blocks[block];
            let results = data.insts.iter().flat_map(|i| &function.insts[*i].results);
            data.params.iter().chain(results).for_each(|v| home[v.index()] = Some(block));
        }
        Lasting { zone: function.blocks.keys().map(zone).collect(), home }
    }

    fn lasts(&self, value: Value, to: Block) -> bool {
        let zone = |block: Block| self.zone[block.index()];
        let home = self.home.get(value.index()).copied().flatten();
        home.and_then(zone).is_some_and(|z| zone(to) == Some(z))
    }
}

/// Ends blocks that a part of a warp may run where its threads wait for others, if uniform registers are read behind.
/// Says whether there was one.
fn split(function: &mut Function, cfg: &Cfg, divergence: &Divergence) -> bool {
    let apart = convergent_loops::apart(function, cfg, divergence);
    let mut found = false;
    for &block in cfg.order.iter().filter(|b| divergence.is_parted(**b) || apart[b.index()]) {
        let mut block = block;
        while let Some(at) = lasting_over_wait(function, block) {
            let rest = function.block();
            function.blocks[rest].insts = function.blocks[block].insts.split_off(at);
            let jump = Terminator::Jump(Edge { to: rest, args: Vec::new() });
            function.blocks[rest].end = std::mem::replace(&mut function.blocks[block].end, jump);
            function.blocks[rest].end_at = function.blocks[block].end_at;
            block = rest;
            found = true;
        }
    }
    found
}

/// The place behind the first wait of a block over which a uniform register would have to last.
fn lasting_over_wait(function: &Function, block: Block) -> Option<usize> {
    let insts = &function.blocks[block].insts;
    let is = |at: usize, op: Name| insts.get(at).is_some_and(|i| function.insts[*i].op == Op::Machine(op));
    let reads = |i: &Inst| function.insts[*i].uses().any(|v| is_uniform(function, v));
    let last = insts.iter().rposition(reads)?;
    (1..=last).find(|&behind| {
        let at = behind - 1;
        // A barrier that the warp comes to together, by the rules of PTX: who waits there meets all the others at this
        // very place, with the same constants.
        let aligned = is(at, Name::WARPSYNC) && is(behind, Name::BAR)
            || is(at, Name::BAR) && at > 0 && is(at - 1, Name::WARPSYNC);
        !aligned && waits(&function.insts[insts[at]])
    })
}

/// Do threads wait there for others, who run something else meanwhile? Where threads yield nothing else stands before.
fn waits(data: &InstData) -> bool {
    match data.op {
        Op::Machine(Name::BAR) => !data.modifiers.contains(&M::ARV),
        Op::Machine(op) => matches!(op, Name::WARPSYNC | Name::NANOSLEEP | Name::UCGABAR_WAIT),
        Op::Pseudo(_) => false,
    }
}

/// May uniform registers change between two blocks that threads run one after the other?
fn is_shared(function: &Function, cfg: &Cfg, divergence: &Divergence) -> bool {
    let writes = |inst: &Inst| function.insts[*inst].results.iter().any(|v| is_uniform(function, *v));
    let calls = |inst: &Inst| matches!(function.insts[*inst].op, Op::Pseudo(Pseudo::Call | Pseudo::Entry));
    cfg.order.iter().any(|b| {
        let insts = &function.blocks[*b].insts;
        insts.iter().any(calls) || divergence.is_parted(*b) && insts.iter().any(writes)
    }) || convergent_loops::apart(function, cfg, divergence).contains(&true)
}

fn is_uniform(function: &Function, value: Value) -> bool {
    function.values[value].file == File::UR
}

/// Can it be computed again wherever it is read?
fn comes_again(data: &InstData) -> bool {
    let op = matches!(data.op, Op::Machine(Name::ULDC | Name::LDCU | Name::UMOV | Name::R2UR));
    op && data.guard.is_none() && data.results.len() == 1
}

/// Computes what a block reads of others in the block itself. `definitions` has what can be computed again.
fn bring(function: &mut Function, definitions: &[Option<Inst>], lasting: &Lasting, block: Block) {
    // What the block has of its own or has brought, by what it was.
    let mut here: FxHashMap<Value, Value> = FxHashMap::default();
    let mut out = Vec::new();
    for inst in std::mem::take(&mut function.blocks[block].insts) {
        let read: Vec<Value> = function.insts[inst].uses().filter(|v| is_uniform(function, *v)).collect();
        for value in read {
            let known = here.contains_key(&value) || lasting.lasts(value, block);
            let Some(source) = definitions[value.index()].filter(|_| !known) else { continue };
            let (shape, mut data) = (function.values[value], function.insts[source].clone());
            let copy = function.value(shape.file, shape.words);
            data.results[0] = copy;
            data.at = function.insts[inst].at;
            out.push(function.insts.push(data));
            here.insert(value, copy);
        }
        for arg in &mut function.insts[inst].args {
            match arg {
                Arg::Use(u) => u.value = here.get(&u.value).copied().unwrap_or(u.value),
                Arg::Bank { index: Some(index), .. } => *index = here.get(index).copied().unwrap_or(*index),
                _ => {}
            }
        }
        if function.insts[inst].op == Op::Pseudo(Pseudo::Call) {
            here.clear();
        }
        let results = function.insts[inst].results.clone();
        here.extend(results.into_iter().map(|v| (v, v)));
        out.push(inst);
    }
    function.blocks[block].insts = out;
}

/// What was brought elsewhere and is read no more goes.
fn drop_unread(function: &mut Function, cfg: &Cfg) {
    let mut read = vec![false; function.values.len()];
    for &block in &cfg.order {
        let data = &function.blocks[block];
        let inner = data.insts.iter().flat_map(|i| function.insts[*i].uses());
        inner.chain(data.end.uses()).for_each(|v| read[v.index()] = true);
    }
    for &block in &cfg.order {
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        insts.retain(|i| {
            let data = &function.insts[*i];
            let brought = comes_again(data) && is_uniform(function, data.results[0]);
            !brought || read[data.results[0].index()]
        });
        function.blocks[block].insts = insts;
    }
}
