//! Else value folding for guarded vector loads: folds copies of the elements under the same guard into the load.
//!
//! ```text
//! @p v1:R2 = LDG.64 …, else undef        v6:R2 = Pack v4, v5
//! @p v2 = Copy v1.0, else v4        →    @p v1:R2 = LDG.64 …, else v6
//! @p v3 = Copy v1.1, else v5             v2, v3 = Unpack v1
//! ```
//!
//! Lowering writes each PTX register of a vector under the guard, because the register may already have a value.
//! Elements have one or two words. Cost: linear in the block.

use crate::context::Fuel;
use ori::entity::Entity;
use ori::{Arg, Block, Function, Guard, Inst, InstData, Op, Part, Pseudo, Value};
use smallvec::smallvec;

/// `uses` are the use counts of values.
pub fn merge(function: &mut Function, block: Block, uses: &mut Vec<u32>, fuel: &mut Fuel) {
    let insts = std::mem::take(&mut function.blocks[block].insts);
    let mut out = Vec::with_capacity(insts.len());
    let mut rest = &insts[..];
    while let Some((&inst, rest_of_block)) = rest.split_first() {
        rest = rest_of_block;
        match guarded_copies(function, inst, rest_of_block, uses).filter(|_| fuel.burn()) {
            None => out.push(inst),
            Some(copies) => {
                rest = &rest_of_block[copies.len()..];
                let else_value = pack_else_values(function, inst, &copies);
                let apart = unpack_results(function, inst, &copies);
                uses.resize(function.values.len(), 1);
                out.extend([else_value, inst, apart]);
            }
        }
    }
    function.blocks[block].insts = out;
}

/// The results and else values of the copies, if a guarded load is followed by a copy of each of its elements under the
/// same guard and has no other use.
fn guarded_copies(
    function: &Function,
    load: Inst,
    rest_of_block: &[Inst],
    uses: &[u32],
) -> Option<Vec<(Value, Value)>> {
    let data = &function.insts[load];
    let ([loaded], Some(guard)) = (&data.results[..], &data.guard) else { return None };
    let words = function.values[*loaded].words;
    // The copies are those of elements, all as wide as the first.
    let count = words_of_copy(function, *rest_of_block.first()?)?;
    if count >= words || !words.is_multiple_of(count) || uses[loaded.index()] != u32::from(words / count) {
        return None;
    }
    let mut all = Vec::new();
    for (at, first) in (0..words).step_by(usize::from(count)).enumerate() {
        let inst = &function.insts[*rest_of_block.get(at)?];
        all.push(guarded_copy(inst, *loaded, Part { first, count }, guard)?);
    }
    // Else values must be defined before the load.
    let made_here = |else_value: &Value| all.iter().any(|(result, _)| result == else_value);
    (!all.iter().any(|(_, else_value)| made_here(else_value))).then_some(all)
}

/// The words that a copy takes of a value.
fn words_of_copy(function: &Function, copy: Inst) -> Option<u8> {
    match &function.insts[copy].args[..] {
        [Arg::Use(u)] => u.part.map(|part| part.count),
        _ => None,
    }
}

/// The result and the else value of a copy of some words under a guard.
fn guarded_copy(data: &InstData, of: Value, part: Part, guard: &Guard) -> Option<(Value, Value)> {
    let (Op::Pseudo(Pseudo::Copy), [Arg::Use(u)], Some(own)) = (data.op, &data.args[..], &data.guard) else {
        return None;
    };
    let same = own.predicate == guard.predicate && own.negated == guard.negated;
    (same && u.value == of && u.part == Some(part) && u.is_plain())
        .then(|| (data.results[0], own.else_values[0]))
}

/// Packs the else values of the copies for the load.
fn pack_else_values(function: &mut Function, load: Inst, copies: &[(Value, Value)]) -> Inst {
    let loaded = function.values[function.insts[load].results[0]];
    let whole = function.value(loaded.file, loaded.words);
    let args = copies.iter().map(|(_, else_value)| Arg::from(*else_value)).collect();
    if let Some(guard) = &mut function.insts[load].guard {
        guard.else_values = smallvec![whole];
    }
    let (op, at) = (Op::Pseudo(Pseudo::Pack), function.insts[load].at);
    let data = InstData { op, modifiers: smallvec![], results: smallvec![whole], args, guard: None, at };
    function.insts.push(data)
}

/// Unpacks the load to the results of the copies.
fn unpack_results(function: &mut Function, load: Inst, copies: &[(Value, Value)]) -> Inst {
    let loaded = function.insts[load].results[0];
    let results = copies.iter().map(|(result, _)| *result).collect();
    let (op, at) = (Op::Pseudo(Pseudo::Unpack), function.insts[load].at);
    let args = smallvec![loaded.into()];
    function.insts.push(InstData { op, modifiers: smallvec![], results, args, guard: None, at })
}
