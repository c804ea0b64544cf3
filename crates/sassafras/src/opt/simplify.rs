//! Clean-up after other passes: copy propagation, trivial block parameters, merging of straight-line blocks.
//!
//! Lowering gives a block a parameter for every register that is live into it. A parameter is trivial if its arguments
//! are all the same value, or the parameter itself around a loop (Braun et al., "Simple and Efficient Construction of
//! Static Single Assignment Form"): that value dominates the block and replaces it. A block whose only predecessor jumps
//! to it becomes part of that.
//!
//! ```text
//! b0:                                    b0:
//!   v1:R = Copy v0                         STG v5, v0
//!   jump b1(v1)                     →      exit
//! b1(v2:R):
//!   STG v5, v2; exit
//! ```
//!
//! Afterwards no plain `Copy` is left, no parameter is trivial, and no block can be merged without arguments on the
//! edge. Dead definitions stay for `dce`. Cost: linear, times the length of the longest chain of trivial parameters.

use crate::context::{Context, PassResult};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Change, Function, Op, Pseudo, Terminator, Value};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let mut equal = Equalities { to: function.values.keys().collect(), any: false };
    find_copies(function, &mut equal);
    let cfg = context.analyses.cfg(function);
    while find_trivial_params(function, &cfg.order, &mut equal) {}
    if equal.any {
        for block in function.blocks.keys() {
            drop_arguments(function, &equal, block);
        }
        for block in function.blocks.keys() {
            replace_uses(function, &equal, block);
        }
    }
    let merged = merge_blocks(function, &cfg);
    Ok(Change::Instructions.when(equal.any).max(Change::ControlFlow.when(merged)))
}

/// Values that are equal to another one, as a forest of links to it.
struct Equalities {
    to: Vec<Value>,
    any: bool,
}

impl Equalities {
    fn find(&self, mut value: Value) -> Value {
        while self.to[value.index()] != value {
            value = self.to[value.index()];
        }
        value
    }

    fn set(&mut self, value: Value, as_: Value) -> bool {
        let root = self.find(as_);
        let new = self.find(value) == value && root != value;
        if new {
            self.to[value.index()] = root;
            self.any = true;
        }
        new
    }
}

fn find_copies(function: &Function, equal: &mut Equalities) {
    for inst in function.insts.keys().map(|i| &function.insts[i]) {
        if let (Op::Pseudo(Pseudo::Copy), [result], [Arg::Use(u)], None) =
            (inst.op, &inst.results[..], &inst.args[..], &inst.guard)
            && u.is_plain()
            && u.part.is_none()
        {
            equal.set(*result, u.value);
        }
    }
}

/// One iteration over all edges; true if it found a trivial parameter.
fn find_trivial_params(function: &Function, order: &[Block], equal: &mut Equalities) -> bool {
    /// The arguments of a parameter so far, but for the parameter itself.
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Nothing,
        One(Value),
        Many,
    }
    let mut seen: Vec<Vec<Seen>> =
        function.blocks.keys().map(|b| vec![Seen::Nothing; function.blocks[b].params.len()]).collect();
    for &block in order {
        for edge in function.blocks[block].end.edges() {
            for (i, arg) in edge.args.iter().enumerate() {
                let arg = equal.find(*arg);
                let slot = &mut seen[edge.to.index()][i];
                if arg != equal.find(function.blocks[edge.to].params[i]) {
                    *slot = match *slot {
                        Seen::Nothing => Seen::One(arg),
                        Seen::One(other) if other == arg => Seen::One(arg),
                        _ => Seen::Many,
                    };
                }
            }
        }
    }
    let mut changed = false;
    for block in function.blocks.keys() {
        for (param, seen) in function.blocks[block].params.iter().zip(&seen[block.index()]) {
            if let Seen::One(value) = seen {
                changed |= equal.set(*param, *value);
            }
        }
    }
    changed
}

/// Drops the arguments of replaced parameters from the edges of a block.
fn drop_arguments(function: &mut Function, equal: &Equalities, block: Block) {
    let kept = |function: &Function, to: Block| -> Vec<bool> {
        function.blocks[to].params.iter().map(|p| equal.find(*p) == *p).collect()
    };
    let mut end = std::mem::replace(&mut function.blocks[block].end, Terminator::Exit);
    for edge in end.edges_mut() {
        let keep = kept(function, edge.to);
        if keep.len() == edge.args.len() {
            let mut keep = keep.into_iter();
            edge.args.retain(|_| keep.next().unwrap_or(true));
        }
    }
    function.blocks[block].end = end;
}

/// Drops replaced parameters and copies of a block, and renames its uses.
fn replace_uses(function: &mut Function, equal: &Equalities, block: Block) {
    function.blocks[block].params.retain(|p| equal.find(*p) == *p);
    function.blocks[block].end.map_uses(|v| equal.find(v));
    let mut insts = std::mem::take(&mut function.blocks[block].insts);
    insts.retain(|inst| {
        let data = &mut function.insts[*inst];
        data.map_uses(|v| equal.find(v));
        data.op != Op::Pseudo(Pseudo::Copy) || data.results.iter().any(|r| equal.find(*r) == *r)
    });
    function.blocks[block].insts = insts;
}

/// Merges blocks into their only predecessor, if that has no other successor. True if there were some.
fn merge_blocks(function: &mut Function, cfg: &Cfg) -> bool {
    let mut any = false;
    let mut preds: Vec<usize> = cfg.preds.iter().map(|preds| preds.len()).collect();
    // The target of a convergence barrier has a predecessor more.
    for inst in function.insts.keys() {
        for arg in &function.insts[inst].args {
            if let Arg::Target(block) = arg {
                preds[block.index()] += 1;
            }
        }
    }
    for &block in &cfg.order {
        while let Terminator::Jump(edge) = &function.blocks[block].end {
            let to = edge.to;
            if to == block || preds[to.index()] != 1 || !edge.args.is_empty() || to == Function::ENTRY {
                break;
            }
            any = true;
            let insts = std::mem::take(&mut function.blocks[to].insts);
            let end = std::mem::replace(&mut function.blocks[to].end, Terminator::Exit);
            let end_at = function.blocks[to].end_at;
            let merged = &mut function.blocks[block];
            merged.insts.extend(insts);
            (merged.end, merged.end_at) = (end, end_at);
        }
    }
    any
}
