//! Rematerialization of uniform values in the block of each use.
//!
//! Uniform registers belong to the warp, not to a thread. Where threads have diverged, those on one side overwrite
//! registers that those on the other side still need. Therefore, no uniform value written by diverged threads is live
//! across blocks, except in convergent loops (`analysis/convergent_loops.rs`). Constants and words of general registers
//! are rematerialized in the block that reads them, and again after each call. Within a block a group of threads is not
//! interrupted; a block with a wait across which a uniform register would be live is split at the wait.
//!
//! A value written while all threads of the warp are convergent stays valid until its last use anywhere, as long as
//! diverged threads write other registers; [`Function::apart`] requests that from the allocator. This does not apply to
//! functions that call or are called.
//!
//! ```text
//! a: u1 = ULDC c[0][x]            a: …
//! …                        ==>    …
//! b: LDG [v1 + u1]                b: u2 = ULDC c[0][x]; LDG [v1 + u2]
//! ```
//!
//! Postcondition: a rematerializable uniform value written by diverged threads is read only in its defining block or in
//! its convergent loop. Dead originals are removed. Cost: linear in the code, plus the divergence and convergent-loop
//! analyses.

use crate::analysis::convergent_loops;
use crate::context::{Context, PassResult};
use ori::entity::Entity;
use ori::{
    Arg, Block, Cfg, Change, Divergence, Edge, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value,
};
use rustc_hash::FxHashMap;
use sass::{M, Op as Name};

pub fn run(function: &mut Function, _: &mut Context) -> PassResult<Change> {
    let mut cfg = Cfg::new(function);
    let mut divergence = Divergence::new(function, &cfg);
    let mut convergent = Convergent::new(function, &cfg, &divergence);
    if !convergent.may_be_clobbered(function, &cfg) {
        return Ok(Change::Nothing);
    }
    let lasting = convergent.lasting_values(function, &cfg);
    if split_at_waits(function, &cfg, (&convergent, &lasting)) {
        cfg = Cfg::new(function);
        divergence = Divergence::new(function, &cfg);
        convergent = Convergent::new(function, &cfg, &divergence);
    }
    let persistence = Persistence::new(function, &cfg, &divergence, lasting);
    if persistence.crosses_blocks(function, &cfg) {
        function.apart = function.blocks.keys().filter(|b| !convergent.blocks[b.index()]).collect();
    }
    let mut definitions: Vec<Option<Inst>> = vec![None; function.values.len()];
    for inst in cfg.order.iter().flat_map(|b| &function.blocks[*b].insts) {
        let data = &function.insts[*inst];
        // A word that is the same in all threads can be taken from any of them.
        if is_rematerializable(data) && !data.uses().any(|v| divergence.varies(v) || is_uniform(function, v))
        {
            definitions[data.results[0].index()] = Some(*inst);
        }
    }
    for &block in &cfg.order {
        rematerialize(function, &definitions, &persistence, block);
    }
    remove_dead(function, &cfg);
    Ok(Change::ControlFlow)
}

/// Which blocks the threads of a warp run together, with no others elsewhere that write what they read, or read what they
/// write.
struct Convergent {
    blocks: Vec<bool>,
    /// Blocks that some run while others never come there ([`convergent_loops::permanently_divergent`]).
    apart: Vec<bool>,
    calls: bool,
}

impl Convergent {
    fn new(function: &Function, cfg: &Cfg, divergence: &Divergence) -> Convergent {
        let apart = convergent_loops::permanently_divergent(function, cfg, divergence);
        let is_convergent = |b: Block| !divergence.is_divergent(b) && !apart[b.index()];
        let calls =
            |inst: &Inst| matches!(function.insts[*inst].op, Op::Pseudo(Pseudo::Call | Pseudo::Entry));
        let calls = cfg.order.iter().flat_map(|b| &function.blocks[*b].insts).any(calls);
        let blocks = function.blocks.keys().map(is_convergent).collect();
        Convergent { blocks, apart, calls }
    }

    /// May uniform registers be clobbered between two blocks that a thread runs one after the other?
    fn may_be_clobbered(&self, function: &Function, cfg: &Cfg) -> bool {
        let mut apart = cfg.order.iter().filter(|b| !self.blocks[b.index()]);
        self.calls || apart.any(|b| convergent_loops::writes_uniform(function, *b))
    }

    /// By value: is it written where no thread is elsewhere? Then it holds up to its last use, if diverged threads write
    /// other registers ([`Function::apart`]).
    fn lasting_values(&self, function: &Function, cfg: &Cfg) -> Vec<bool> {
        let mut lasting = vec![false; function.values.len()];
        for &block in cfg.order.iter().filter(|b| self.blocks[b.index()] && !self.calls) {
            let data = &function.blocks[block];
            let results = data.insts.iter().flat_map(|i| &function.insts[*i].results);
            data.params.iter().chain(results).for_each(|v| lasting[v.index()] = true);
        }
        lasting
    }
}

/// Which uniform values persist from one block to another.
struct Persistence {
    lasting: Vec<bool>,
    /// The convergent loop of each block, and the defining block of each value.
    region: Vec<Option<usize>>,
    def_block: Vec<Option<Block>>,
}

impl Persistence {
    fn new(function: &Function, cfg: &Cfg, divergence: &Divergence, lasting: Vec<bool>) -> Persistence {
        let loops = convergent_loops::convergent_loops(function, cfg, divergence);
        let region = |block: Block| loops.iter().position(|l| l.contains(block));
        let mut def_block = vec![None; function.values.len()];
        for &block in &cfg.order {
            let data = &function.blocks[block];
            let results = data.insts.iter().flat_map(|i| &function.insts[*i].results);
            data.params.iter().chain(results).for_each(|v| def_block[v.index()] = Some(block));
        }
        Persistence { lasting, region: function.blocks.keys().map(region).collect(), def_block }
    }

    fn persists(&self, value: Value, to: Block) -> bool {
        let region = |block: Block| self.region[block.index()];
        let def_block = self.def_block.get(value.index()).copied().flatten();
        let is_lasting = self.lasting.get(value.index()).is_some_and(|lasting| *lasting);
        is_lasting || def_block.and_then(region).is_some_and(|r| region(to) == Some(r))
    }

    /// Is a value that lasts read in another block than its own?
    fn crosses_blocks(&self, function: &Function, cfg: &Cfg) -> bool {
        let crosses = |v: Value, to: Block| {
            is_uniform(function, v) && self.lasting[v.index()] && self.def_block[v.index()] != Some(to)
        };
        cfg.order.iter().any(|&block| {
            let data = &function.blocks[block];
            let mut uses = data.insts.iter().flat_map(|i| function.insts[*i].uses()).chain(data.end.uses());
            uses.any(|v| crosses(v, block))
        })
    }
}

/// Splits divergent blocks after instructions that wait for other threads, if uniform registers are read below. Returns
/// whether there was one.
fn split_at_waits(function: &mut Function, cfg: &Cfg, (convergent, lasting): (&Convergent, &[bool])) -> bool {
    let mut found = false;
    for &block in cfg.order.iter().filter(|b| !convergent.blocks[b.index()]) {
        let (mut block, others_run) = (block, convergent.apart[block.index()]);
        while let Some(at) = live_across_wait(function, block, (lasting, others_run)) {
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

/// The position after the first wait of a block that a uniform register may be live across. `others_run`: threads that
/// never come there may run meanwhile, before they exit.
fn live_across_wait(
    function: &Function,
    block: Block,
    (lasting, others_run): (&[bool], bool),
) -> Option<usize> {
    let insts = &function.blocks[block].insts;
    let is = |at: usize, op: Name| insts.get(at).is_some_and(|i| function.insts[*i].op == Op::Machine(op));
    let is_transient = |v: Value| is_uniform(function, v) && !lasting[v.index()];
    let reads = |i: &Inst| function.insts[*i].uses().any(is_transient);
    let last = insts.iter().rposition(reads)?;
    (1..=last).find(|&next| {
        let at = next - 1;
        // A barrier that the warp reaches convergently, by the rules of PTX: all its threads but those that have
        // exited wait at this very instruction, with the same constants. The two are one wait.
        let before_barrier = is(at, Name::WARPSYNC) && is(next, Name::BAR);
        let is_aligned = is(at, Name::BAR) && at > 0 && is(at - 1, Name::WARPSYNC);
        !before_barrier && (others_run || !is_aligned) && waits(&function.insts[insts[at]])
    })
}

/// Do threads wait there while others run other code? `YIELD` is not among them: it is the first of its block.
fn waits(data: &InstData) -> bool {
    match data.op {
        Op::Machine(Name::BAR) => !data.modifiers.contains(&M::ARV),
        Op::Machine(op) => matches!(op, Name::WARPSYNC | Name::NANOSLEEP | Name::UCGABAR_WAIT),
        // At the branches of the call and of the return.
        Op::Pseudo(op) => op == Pseudo::CallRoutine,
        Op::Generic(_) => false,
    }
}

fn is_uniform(function: &Function, value: Value) -> bool {
    function.values[value].file == File::UR
}

/// Can it be recomputed wherever it is read?
fn is_rematerializable(data: &InstData) -> bool {
    let op = matches!(data.op, Op::Machine(Name::ULDC | Name::LDCU | Name::UMOV | Name::R2UR));
    op && data.guard.is_none() && data.results.len() == 1
}

/// Rematerializes in a block the uniform values that it reads from others. `definitions` has the rematerializable ones.
fn rematerialize(
    function: &mut Function,
    definitions: &[Option<Inst>],
    persistence: &Persistence,
    block: Block,
) {
    // The value in this block for each original one: defined here, or rematerialized.
    let mut local: FxHashMap<Value, Value> = FxHashMap::default();
    let mut out = Vec::new();
    for inst in std::mem::take(&mut function.blocks[block].insts) {
        let read: Vec<Value> = function.insts[inst].uses().filter(|v| is_uniform(function, *v)).collect();
        for value in read {
            let is_available = local.contains_key(&value) || persistence.persists(value, block);
            let Some(source) = definitions[value.index()].filter(|_| !is_available) else { continue };
            let (shape, mut data) = (function.values[value], function.insts[source].clone());
            let copy = function.value(shape.file, shape.words);
            data.results[0] = copy;
            data.at = function.insts[inst].at;
            out.push(function.insts.push(data));
            local.insert(value, copy);
        }
        for arg in &mut function.insts[inst].args {
            match arg {
                Arg::Use(u) => u.value = local.get(&u.value).copied().unwrap_or(u.value),
                Arg::Bank { index: Some(index), .. } => *index = local.get(index).copied().unwrap_or(*index),
                _ => {}
            }
        }
        if function.insts[inst].op == Op::Pseudo(Pseudo::Call) {
            local.clear();
        }
        let results = function.insts[inst].results.clone();
        local.extend(results.into_iter().map(|v| (v, v)));
        out.push(inst);
    }
    function.blocks[block].insts = out;
}

/// Removes rematerializable instructions without a use.
fn remove_dead(function: &mut Function, cfg: &Cfg) {
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
            let is_remat = is_rematerializable(data) && is_uniform(function, data.results[0]);
            !is_remat || read[data.results[0].index()]
        });
        function.blocks[block].insts = insts;
    }
}
