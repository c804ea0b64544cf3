//! Code sinking: computes values that are used after a loop, but not in it, after the loop.
//!
//! An instruction that depends only on its operands moves to the nearest common dominator of its uses, but never into a
//! loop. A cheap one that also has uses before the loop is duplicated after it (rematerialization), or in an enclosing
//! loop only if its operands are live there anyway. Both apply only if the operands take no more registers in the loop
//! than the result frees.
//!
//! ```text
//! b0: v2 = v1 + 64; jump b1              b0: jump b1
//! b1: …; branch p, b1, b2           →    b1: …; branch p, b1, b2
//! b2: STG v2, v3                         b2: v2 = v1 + 64; STG v2, v3
//! ```
//!
//! Postcondition: register pressure in loops is the same or lower. Blocks and instructions are visited backwards, so
//! that uses reach their final position before definitions. Cost: linear in the code, times the number of loops
//! (bounded by `sink_max_loops`) and the walk up the operands (`sink_depth`).

use crate::analysis::effects;
use crate::context::{Context, PassResult, Tuning};
use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{Block, Cfg, Change, Definitions, File, Function, Inst, InstData, Loop, Op, Pseudo, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let forest = context.analyses.loops(function);
    if forest.is_empty() {
        return Ok(Change::Nothing);
    }
    let cfg = context.analyses.cfg(function);
    let max_loops = context.tuning.sink_max_loops as usize;
    let loops = forest.iter().take(max_loops).map(|(_, l)| LoopRegions::new(&cfg, l)).collect();
    let live = context.analyses.liveness(function);
    let definitions = context.analyses.definitions(function);
    let rewrites = context.fuel.used();
    let mut sink = Sink {
        definitions: &definitions,
        depths: depths(function, context, &cfg),
        user_blocks: vec![SmallVec::new(); function.values.len()],
        newly_live: FxHashSet::default(),
        sunk: vec![Vec::new(); function.blocks.len()],
        duplicates: FxHashMap::default(),
        function,
        tuning: context.tuning,
        cfg: &cfg,
        live: &live,
        loops,
    };
    for &block in cfg.order.iter().rev() {
        sink.block(block, context);
    }
    let (sunk, duplicates) = (sink.sunk, sink.duplicates);
    insert_all(function, &cfg, sunk, duplicates);
    Ok(Change::Instructions.when(context.fuel.used() != rewrites))
}

/// The loop depth of each block. What all threads compute may be uniform, and is not computed in a divergent block, nor
/// where one thread runs code for all (after `ENDCOLLECTIVE`): these are deeper than any loop.
fn depths(function: &Function, context: &mut Context, cfg: &Cfg) -> Vec<u32> {
    let divergence = context.analyses.divergence(function);
    let mut depths = context.analyses.loops(function).depths();
    let ends_collective = |b: Block| {
        let mut ops = function.blocks[b].insts.iter().map(|i| function.insts[*i].op);
        ops.any(|op| op == Op::Machine(sass::Op::ENDCOLLECTIVE))
    };
    let divergent = cfg.order.iter().filter(|b| divergence.is_divergent(**b) || ends_collective(**b));
    divergent.for_each(|b| depths[b.index()] += context.tuning.sink_divergence_depth);
    depths
}

/// By block: is it in the loop, and can it be reached from the loop, but is not in it?
struct LoopRegions {
    header: Block,
    inside: Vec<bool>,
    below: Vec<bool>,
}

impl LoopRegions {
    fn new(cfg: &Cfg, l: &Loop) -> LoopRegions {
        let mut inside = vec![false; cfg.succs.len()];
        l.blocks.iter().for_each(|b| inside[b.index()] = true);
        let mut below = vec![false; cfg.succs.len()];
        cfg.reachable_from(l.header, None).iter().for_each(|b| below[b.index()] = !inside[b.index()]);
        LoopRegions { header: l.header, inside, below }
    }
}

struct Sink<'a> {
    function: &'a mut Function,
    tuning: Tuning,
    cfg: &'a Cfg,
    live: &'a Liveness,
    loops: Vec<LoopRegions>,
    definitions: &'a Definitions,
    /// See [`depths`].
    depths: Vec<u32>,
    /// The blocks with uses of a value, as far as they have been visited.
    user_blocks: Vec<SmallVec<[Block; 2]>>,
    /// Values that are live in a block since a use of them was sunk there.
    newly_live: FxHashSet<(Block, Value)>,
    /// The instructions that are sunk to each block, the last first.
    sunk: Vec<Vec<Inst>>,
    /// The duplicate that a block uses in place of a value.
    duplicates: FxHashMap<(Block, Value), Value>,
}

impl Sink<'_> {
    fn block(&mut self, block: Block, context: &mut Context) {
        let values: Vec<Value> = self.function.blocks[block].end.uses().collect();
        values.into_iter().for_each(|v| self.add_use(v, block));
        let mut kept = Vec::new();
        for inst in std::mem::take(&mut self.function.blocks[block].insts).into_iter().rev() {
            match self.target(block, inst).filter(|_| context.fuel.burn()) {
                Some(to) => self.sink_to(inst, to),
                None => {
                    self.duplicate_below(block, inst, context);
                    self.add_uses(inst, block);
                    kept.push(inst);
                }
            }
        }
        kept.reverse();
        self.function.blocks[block].insts = kept;
    }

    fn add_use(&mut self, value: Value, block: Block) {
        let users = &mut self.user_blocks[value.index()];
        // A block may be there again after another that an instruction was sunk to: a search would take too long.
        if users.last() != Some(&block) {
            users.push(block);
        }
    }

    /// The operands of an instruction are used in the block that it is in for good.
    fn add_uses(&mut self, inst: Inst, block: Block) {
        let values: SmallVec<[Value; 8]> = self.function.insts[inst].uses().collect();
        for value in values {
            self.add_use(value, block);
            self.newly_live.insert((block, value));
        }
    }

    fn sink_to(&mut self, inst: Inst, block: Block) {
        self.add_uses(inst, block);
        self.sunk[block.index()].push(inst);
    }

    /// The block that an instruction is sunk to, if that lowers register pressure in a loop.
    fn target(&self, from: Block, inst: Inst) -> Option<Block> {
        let data = &self.function.insts[inst];
        if !self.is_movable(data) {
            return None;
        }
        let users = self.user_blocks_of(data);
        // Asked first: to the common dominator it may be a long way, and most values pass no loop.
        if !self.loops.iter().any(|l| self.is_live_through(l, from, &users)) {
            return None;
        }
        let last = users.iter().copied().reduce(|a, b| self.cfg.common_dominator(a, b))?;
        let to = self.shallowest(from, last, |_| true);
        let passes =
            |l: &&LoopRegions| self.is_live_through(l, from, &users) && !self.cfg.dominates(to, l.header);
        self.loops.iter().find(passes)?;
        (self.cost(data, to, self.tuning.sink_depth) <= self.gain(data)).then_some(to)
    }

    /// Duplicates a cheap instruction for the uses below a loop that it is only live through.
    fn duplicate_below(&mut self, from: Block, inst: Inst, context: &mut Context) {
        let data = &self.function.insts[inst];
        if !self.is_movable(data) || !is_cheap(data) {
            return;
        }
        let users = self.user_blocks_of(data);
        let passed: Vec<&LoopRegions> =
            self.loops.iter().filter(|l| self.is_live_through(l, from, &users)).collect();
        let is_below = |block: Block| passed.iter().any(|l| l.below[block.index()]);
        let mut targets: Vec<(Block, Block)> = Vec::new();
        for user in users.iter().copied().filter(|u| is_below(*u)) {
            let target = self.shallowest(from, user, is_below);
            // In a loop around the one that is passed each iteration computes it: only it, and nothing for it.
            let is_deeper = self.depths[target.index()] > self.depths[from.index()];
            let (depth, most) = match is_deeper {
                true => (0, 0),
                false => (self.tuning.sink_duplicate_depth, self.gain(data)),
            };
            if self.cost(data, target, depth) <= most {
                targets.push((target, user));
            }
        }
        targets.sort();
        for group in targets.chunk_by(|a, b| a.0 == b.0) {
            if context.fuel.burn() {
                self.duplicate(inst, group[0].0, group.iter().map(|(_, user)| *user));
            }
        }
    }

    /// Duplicates an instruction in a block for its uses in others.
    fn duplicate(&mut self, inst: Inst, to: Block, users: impl Iterator<Item = Block> + Clone) {
        let mut data = self.function.insts[inst].clone();
        for result in &mut data.results {
            let (old, shape) = (*result, self.function.values[*result]);
            *result = self.function.value(shape.file, shape.words);
            for user in users.clone().filter(|u| self.user_blocks[old.index()].contains(u)) {
                self.duplicates.insert((user, old), *result);
            }
            self.user_blocks[old.index()].retain(|b| users.clone().all(|u| u != *b));
        }
        let new = self.function.insts.push(data);
        self.sink_to(new, to);
    }

    /// The blocks in which its results are used.
    fn user_blocks_of(&self, data: &InstData) -> SmallVec<[Block; 4]> {
        let mut all: SmallVec<[Block; 4]> =
            data.results.iter().flat_map(|v| self.user_blocks[v.index()].iter().copied()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Is a value of block `from` live through a loop, for uses below it, but without a use in it?
    fn is_live_through(&self, l: &LoopRegions, from: Block, users: &[Block]) -> bool {
        !l.inside[from.index()]
            && self.cfg.dominates(from, l.header)
            && users.iter().any(|u| l.below[u.index()])
            && users.iter().all(|u| !l.inside[u.index()])
    }

    fn is_movable(&self, data: &InstData) -> bool {
        let is_pseudo = matches!(data.op, Op::Pseudo(Pseudo::Unpack | Pseudo::Copy | Pseudo::Undef));
        let is_ordinary = |v: &Value| {
            let value = self.function.values[*v];
            matches!(value.file, File::R | File::P) && u32::from(value.words) <= self.tuning.sink_max_words
        };
        // Uniform registers may be overwritten by the other side of a branch.
        let is_private = |v: Value| matches!(self.function.values[v].file, File::R | File::P);
        data.guard.is_none()
            && (is_pseudo || effects::is_function(data))
            && data.results.iter().all(is_ordinary)
            && data.uses().all(is_private)
    }

    /// Of the blocks on the dominator path from `from` to `last` that are allowed, the lowest of those with the least
    /// depth.
    fn shallowest(&self, from: Block, last: Block, is_allowed: impl Fn(Block) -> bool) -> Block {
        let (mut at, mut best) = (last, last);
        while at != from {
            let Some(up) = self.cfg.idom(at) else { return from };
            at = up;
            if self.depths[at.index()] < self.depths[best.index()] && is_allowed(at) {
                best = at;
            }
        }
        best
    }

    /// The registers that the results take.
    fn gain(&self, data: &InstData) -> u32 {
        data.results.iter().map(|v| self.words(*v)).sum()
    }

    /// The registers that the operands of an instruction take if it is sunk to a block, where they may be sunk, too.
    fn cost(&self, data: &InstData, to: Block, depth: u32) -> u32 {
        let mut values: SmallVec<[Value; 4]> = data.uses().collect();
        values.sort();
        values.dedup();
        values.into_iter().map(|v| self.operand_cost(v, to, depth)).sum()
    }

    fn operand_cost(&self, value: Value, to: Block, depth: u32) -> u32 {
        if self.live.live_in[to.index()].contains(value) || self.newly_live.contains(&(to, value)) {
            return 0;
        }
        let words = self.words(value);
        let Some((home, inst)) = self.definitions[value.index()].filter(|_| depth > 0) else { return words };
        let data = &self.function.insts[inst];
        let used_only_there = self.user_blocks[value.index()].iter().all(|b| self.cfg.dominates(to, *b));
        let is_no_deeper = self.depths[to.index()] <= self.depths[home.index()];
        if (used_only_there && is_no_deeper || is_cheap(data)) && self.is_movable(data) {
            words.min(self.cost(data, to, depth - 1))
        } else {
            words
        }
    }

    fn words(&self, value: Value) -> u32 {
        u32::from(self.function.values[value].words)
    }
}

/// Does it take no more than an addition?
fn is_cheap(data: &InstData) -> bool {
    use sass::Op::*;
    matches!(data.op, Op::Pseudo(Pseudo::Undef) | Op::Machine(IADD3 | VIADD | LEA | LOP3 | MOV | SHF | LDC))
}

/// Inserts sunk instructions and renames uses of duplicated ones.
fn insert_all(
    function: &mut Function,
    cfg: &Cfg,
    mut sunk: Vec<Vec<Inst>>,
    duplicates: FxHashMap<(Block, Value), Value>,
) {
    for &block in &cfg.order {
        let mut insts = std::mem::take(&mut sunk[block.index()]);
        if !duplicates.is_empty() {
            let renamed = |v: Value| duplicates.get(&(block, v)).copied().unwrap_or(v);
            let data = &mut function.blocks[block];
            data.end.map_uses(renamed);
            data.insts.iter().chain(&insts).for_each(|i| function.insts[*i].map_uses(renamed));
        }
        if !insts.is_empty() {
            insts.reverse();
            function.insert_before_uses(block, insts);
        }
    }
}
