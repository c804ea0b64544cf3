//! Guarded loads of vectors keep what was there before by themselves.
//!
//! Lowering loads a vector under the guard, and copies each word of it under the guard again to where a register may
//! have another value. Here the load keeps all of these, put together, and its words need no guard.

use crate::context::Fuel;
use ori::entity::Entity;
use ori::{Arg, Block, Function, Guard, Inst, InstData, Op, Part, Pseudo, Value};
use smallvec::smallvec;

/// `uses` tells how often each value is used.
pub fn merge(function: &mut Function, block: Block, uses: &mut Vec<u32>, fuel: &mut Fuel) {
    let insts = std::mem::take(&mut function.blocks[block].insts);
    let mut out = Vec::with_capacity(insts.len());
    let mut rest = &insts[..];
    while let Some((&inst, behind)) = rest.split_first() {
        rest = behind;
        match copies(function, inst, behind, uses).filter(|_| fuel.burn()) {
            None => out.push(inst),
            Some(copies) => {
                rest = &behind[copies.len()..];
                let kept = keep_together(function, inst, &copies);
                let apart = take_apart(function, inst, &copies);
                uses.resize(function.values.len(), 1);
                out.extend([kept, inst, apart]);
            }
        }
    }
    function.blocks[block].insts = out;
}

/// What the words of a guarded load are copied to, and what is kept there: if the load is followed by a copy of each
/// word under the same guard, and nothing else uses it.
fn copies(function: &Function, load: Inst, behind: &[Inst], uses: &[u32]) -> Option<Vec<(Value, Value)>> {
    let data = &function.insts[load];
    let ([loaded], Some(guard)) = (&data.results[..], &data.guard) else { return None };
    let words = function.values[*loaded].words;
    if words < 2 || uses[loaded.index()] != u32::from(words) {
        return None;
    }
    let mut all = Vec::new();
    for first in 0..words {
        let inst = &function.insts[*behind.get(usize::from(first))?];
        all.push(copy(inst, *loaded, Part { first, count: 1 }, guard)?);
    }
    // What is kept must be there before the load.
    let made_here = |else_value: &Value| all.iter().any(|(result, _)| result == else_value);
    (!all.iter().any(|(_, kept)| made_here(kept))).then_some(all)
}

/// The result of a copy of a word under a guard, and what it keeps.
fn copy(data: &InstData, of: Value, part: Part, guard: &Guard) -> Option<(Value, Value)> {
    let (Op::Pseudo(Pseudo::Copy), [Arg::Use(u)], Some(own)) = (data.op, &data.args[..], &data.guard) else {
        return None;
    };
    let same = own.predicate == guard.predicate && own.negated == guard.negated;
    (same && u.value == of && u.part == Some(part) && u.is_plain())
        .then(|| (data.results[0], own.else_values[0]))
}

/// Puts what the copies keep together, for the load to keep.
fn keep_together(function: &mut Function, load: Inst, copies: &[(Value, Value)]) -> Inst {
    let loaded = function.values[function.insts[load].results[0]];
    let whole = function.value(loaded.file, loaded.words);
    let args = copies.iter().map(|(_, kept)| Arg::from(*kept)).collect();
    if let Some(guard) = &mut function.insts[load].guard {
        guard.else_values = smallvec![whole];
    }
    let (op, at) = (Op::Pseudo(Pseudo::Pack), function.insts[load].at);
    let data = InstData { op, modifiers: smallvec![], results: smallvec![whole], args, guard: None, at };
    function.insts.push(data)
}

/// The words of the load are the results of the copies.
fn take_apart(function: &mut Function, load: Inst, copies: &[(Value, Value)]) -> Inst {
    let loaded = function.insts[load].results[0];
    let results = copies.iter().map(|(result, _)| *result).collect();
    let (op, at) = (Op::Pseudo(Pseudo::Unpack), function.insts[load].at);
    let args = smallvec![loaded.into()];
    function.insts.push(InstData { op, modifiers: smallvec![], results, args, guard: None, at })
}
