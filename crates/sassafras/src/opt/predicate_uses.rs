//! Predicate uses: which uses can be negated, and replacing uses of one predicate by another.

use ori::{Arg, Function, Op, Terminator, Use, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// What a predicate is replaced by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opposite {
    pub of: Value,
    /// It is the opposite of that one.
    pub is_negated: bool,
}

/// Operations whose predicate operands have a negated form.
fn negates(op: Op) -> bool {
    use sass::Op::*;
    matches!(op, Op::Machine(SEL | FSEL | PLOP3 | ISETP | FSETP | DSETP | LOP3))
}

/// Those of some predicates that are used where none can be negated: in arguments of edges, as else values.
pub fn without_negation(function: &Function, all: &FxHashSet<Value>) -> FxHashSet<Value> {
    let mut fixed = FxHashSet::default();
    for block in function.blocks.keys() {
        for inst in &function.blocks[block].insts {
            let data = &function.insts[*inst];
            let args = data.args.iter().filter_map(Arg::value).filter(|_| !negates(data.op));
            let else_values = data.guard.iter().flat_map(|g| g.else_values.iter().copied());
            fixed.extend(args.chain(else_values).filter(|v| all.contains(v)));
        }
        let edges = function.blocks[block].end.edges();
        fixed.extend(edges.into_iter().flat_map(|e| e.args.iter().copied()).filter(|v| all.contains(v)));
    }
    fixed
}

/// Replaces all uses of some predicates in operands, guards and branches.
pub fn replace(function: &mut Function, by: &FxHashMap<Value, Opposite>) {
    let change = |value: &mut Value, negated: &mut bool| {
        if let Some(opposite) = by.get(value) {
            *value = opposite.of;
            *negated ^= opposite.is_negated;
        }
    };
    for block in function.blocks.keys() {
        for inst in function.blocks[block].insts.clone() {
            let data = &mut function.insts[inst];
            for arg in &mut data.args {
                if let Arg::Use(Use { value, negated, .. }) = arg {
                    change(value, negated);
                }
            }
            if let Some(guard) = &mut data.guard {
                change(&mut guard.predicate, &mut guard.negated);
            }
        }
        if let Terminator::Branch { predicate, negated, .. } = &mut function.blocks[block].end {
            change(predicate, negated);
        }
    }
}
