//! Local common subexpression elimination of uniform operations: those hoisted from several blocks are often identical.
//!
//! ```text
//! u2 = ULEA u1, 0x400, 0x18             u2 = ULEA u1, 0x400, 0x18
//! u3 = ULEA u1, 0x400, 0x18      ==>
//! v1 = LDS u3, 0x10                     v1 = LDS u2, 0x10
//! ```
//!
//! It does not work across blocks, because a longer live range costs more than an operation. Cost: linear in the code.

use ori::{Arg, Cfg, File, Function, Inst, InstData, Op, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::M;
use smallvec::SmallVec;

type Expression = (Op, SmallVec<[M; 4]>, SmallVec<[Arg; 6]>, SmallVec<[(File, u8); 2]>);

/// Merges those of `insts`, all of them pure and without a guard, that are the same in a block.
pub fn merge(function: &mut Function, cfg: &Cfg, insts: &FxHashSet<Inst>) {
    let mut equal: FxHashMap<Value, Value> = FxHashMap::default();
    for &block in &cfg.order {
        let mut known: FxHashMap<Expression, SmallVec<[Value; 2]>> = FxHashMap::default();
        let mut all = std::mem::take(&mut function.blocks[block].insts);
        all.retain(|inst| {
            if !insts.contains(inst) {
                return true;
            }
            replace_uses(&mut function.insts[*inst], &equal);
            let data = &function.insts[*inst];
            let results = known.entry(expression(function, data)).or_insert_with(|| data.results.clone());
            let is_first = *results == data.results;
            if !is_first {
                equal.extend(data.results.iter().copied().zip(results.iter().copied()));
            }
            is_first
        });
        function.blocks[block].insts = all;
    }
    if equal.is_empty() {
        return;
    }
    for &block in &cfg.order {
        for inst in function.blocks[block].insts.clone() {
            replace_uses(&mut function.insts[inst], &equal);
        }
        for edge in function.blocks[block].end.edges_mut() {
            edge.args.iter_mut().for_each(|arg| *arg = equal.get(arg).copied().unwrap_or(*arg));
        }
    }
}

fn expression(function: &Function, data: &InstData) -> Expression {
    let shapes = data.results.iter().map(|v| (function.values[*v].file, function.values[*v].words));
    (data.op, data.modifiers.clone(), data.args.clone(), shapes.collect())
}

/// Only arguments read uniform words, and uniform predicates are read in the block of their definition by operations.
fn replace_uses(data: &mut InstData, equal: &FxHashMap<Value, Value>) {
    for arg in &mut data.args {
        if let Arg::Use(u) = arg {
            u.value = equal.get(&u.value).copied().unwrap_or(u.value);
        }
    }
}
