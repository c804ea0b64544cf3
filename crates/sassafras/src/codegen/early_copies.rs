//! Early copies: moves copies of loop-carried values above the load of their next value.
//!
//! A load whose result is only passed to the next iteration should be in flight across the back edge. If the parameter
//! that receives it is still needed after the load, the two have separate registers, and the move between them at the
//! end of the iteration waits for the load. A copy of the parameter before the load replaces that move: it waits for
//! nothing, and the load writes directly to the parameter's register.
//!
//! ```text
//! b1(v1, v2): v3 = LDG [a]           b1(v1, v2): v5 = Copy v1
//!             v4 = FADD v1, v2                   v3 = LDG [a]            in the registers of v1
//!             jump b1(v3, v1)    ==>             v4 = FADD v5, v2
//!                                                jump b1(v3, v5)
//! ```
//!
//! Prefetched words and sliding windows over an array are the usual cases. The pass applies only if the parameter has
//! no reader in other blocks; then no live range gets longer, and the number of moves stays the same. It runs after
//! scheduling, which fixes the instructions after the load. It is legal because a copy equals its operand. Cost: linear
//! in the code.

use crate::context::{Context, Fuel, PassResult};
use ori::entity::Entity;
use ori::{Block, Cfg, Change, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use sass::Op::{LD, LDG, LDL, LDS};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let latches: Vec<Latch> = cfg.order.iter().filter_map(|b| Latch::find(function, &cfg, *b)).collect();
    if latches.is_empty() {
        return Ok(Change::Nothing);
    }
    let readers = Readers::new(function, &cfg);
    let mut changed = false;
    for latch in &latches {
        changed |= latch.copy_early(function, &readers, &mut context.fuel);
    }
    Ok(Change::Instructions.when(changed))
}

/// The end of an iteration.
struct Latch {
    /// The block that jumps to the header.
    block: Block,
    /// The last block with instructions: that one, or the one before it, where the edge to it was split.
    body: Block,
    header: Block,
}

impl Latch {
    fn find(function: &Function, cfg: &Cfg, block: Block) -> Option<Latch> {
        let Terminator::Jump(edge) = &function.blocks[block].end else { return None };
        let is_split = function.blocks[block].insts.is_empty() && function.blocks[block].params.is_empty();
        let body = match &cfg.preds[block.index()][..] {
            [before] if is_split => *before,
            _ => block,
        };
        cfg.dominates(edge.to, body).then_some(Latch { block, body, header: edge.to })
    }

    fn copy_early(&self, function: &mut Function, readers: &Readers, fuel: &mut Fuel) -> bool {
        let mut changed = false;
        for (param, next) in self.loaded_params(function, readers) {
            let insts = &function.blocks[self.body].insts;
            let Some(at) = insts.iter().position(|i| function.insts[*i].results.contains(&next)) else {
                continue;
            };
            let after = &insts[at + 1..];
            let reads = |value: Value| after.iter().any(|i| function.insts[*i].uses().any(|v| v == value));
            let is_passed = function.blocks[self.block].end.uses().any(|v| v == param);
            if !reads(next) && (is_passed || reads(param)) && fuel.burn() {
                self.copy(function, at, param);
                changed = true;
            }
        }
        changed
    }

    /// The parameters of the header that get what a load gives, with that value.
    fn loaded_params(&self, function: &Function, readers: &Readers) -> Vec<(Value, Value)> {
        let Terminator::Jump(edge) = &function.blocks[self.block].end else { return Vec::new() };
        let is_local = |v: Value| readers.is_read_only_in(v, [self.body, self.block]);
        let mut loaded = function.blocks[self.body].insts.iter().map(|i| &function.insts[*i]);
        let loaded: Vec<Value> = loaded
            .by_ref()
            .filter(|data| is_load(data))
            .filter_map(|data| data.results.first().copied())
            .collect();
        let pairs = function.blocks[self.header].params.iter().copied().zip(edge.args.iter().copied());
        let is_once = |next: Value| edge.args.iter().filter(|v| **v == next).count() == 1;
        pairs
            .filter(|(param, next)| {
                let (shape, next_shape) = (function.values[*param], function.values[*next]);
                shape.file == File::R
                    && (shape.file, shape.words) == (next_shape.file, next_shape.words)
                    && loaded.contains(next)
                    && is_once(*next)
                    && is_local(*param)
            })
            .collect()
    }

    /// What reads the parameter after the instruction at `at` reads a copy that is made before it.
    fn copy(&self, function: &mut Function, at: usize, param: Value) {
        let shape = function.values[param];
        let copy = function.value(shape.file, shape.words);
        let insts = function.blocks[self.body].insts.clone();
        let rename = |v: Value| if v == param { copy } else { v };
        insts[at + 1..].iter().for_each(|i| function.insts[*i].map_uses(rename));
        for edge in function.blocks[self.block].end.edges_mut() {
            edge.args.iter_mut().for_each(|arg| *arg = rename(*arg));
        }
        let data = InstData::new(Op::Pseudo(Pseudo::Copy), &[copy], &[param.into()]);
        let inst = function.insts.push(InstData { at: function.insts[insts[at]].at, ..data });
        function.blocks[self.body].insts.insert(at, inst);
    }
}

fn is_load(data: &InstData) -> bool {
    data.results.len() == 1 && matches!(data.op, Op::Machine(LD | LDG | LDL | LDS))
}

/// The blocks that read each value: up to two of them.
struct Readers {
    blocks: Vec<[Option<Block>; 2]>,
    others: Vec<bool>,
}

impl Readers {
    fn new(function: &Function, cfg: &Cfg) -> Readers {
        let values = function.values.len();
        let mut readers = Readers { blocks: vec![[None; 2]; values], others: vec![false; values] };
        for &block in &cfg.order {
            let insts = function.blocks[block].insts.iter().flat_map(|i: &Inst| function.insts[*i].uses());
            insts.for_each(|v| readers.add(v, block));
            function.blocks[block].end.uses().for_each(|v| readers.add(v, block));
        }
        readers
    }

    fn add(&mut self, value: Value, block: Block) {
        let known = &mut self.blocks[value.index()];
        match known.iter_mut().find(|b| b.is_none_or(|b| b == block)) {
            Some(slot) => *slot = Some(block),
            None => self.others[value.index()] = true,
        }
    }

    fn is_read_only_in(&self, value: Value, blocks: [Block; 2]) -> bool {
        // A copy made by this pass is no parameter.
        let is_one = |b: &Option<Block>| b.is_none_or(|b| blocks.contains(&b));
        self.others.get(value.index()) == Some(&false) && self.blocks[value.index()].iter().all(is_one)
    }
}
