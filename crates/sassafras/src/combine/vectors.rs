//! Guarded loads of vectors keep what was there before by themselves.
//!
//! Lowering loads a vector under the guard, takes it apart, and copies each word under the guard again to where a
//! register has another value. One word less to copy for each: the load keeps all of them, put together.

use crate::passes::Fuel;
use ori::entity::Entity;
use ori::{Arg, Block, Function, Guard, Inst, InstData, Op, Pseudo, Value};
use smallvec::smallvec;

/// `uses` tells how often each value is used.
pub fn merge(function: &mut Function, block: Block, uses: &mut Vec<u32>, fuel: &mut Fuel) {
    let insts = std::mem::take(&mut function.blocks[block].insts);
    let mut out = Vec::with_capacity(insts.len());
    let mut rest = &insts[..];
    while let Some((&inst, behind)) = rest.split_first() {
        rest = behind;
        if let Some(copies) = copies(function, inst, behind, uses).filter(|_| fuel.burn()) {
            out.push(kept_together(function, inst, &copies));
            uses.resize(function.values.len(), 1);
            let apart = behind[0];
            function.insts[apart].results = copies.iter().map(|(result, _)| *result).collect();
            out.extend([inst, apart]);
            rest = &behind[1 + copies.len()..];
        } else {
            out.push(inst);
        }
    }
    function.blocks[block].insts = out;
}

/// What the words of a guarded load are copied to, and what is kept there: if the load is followed by what takes it
/// apart, and that by a copy of each word under the same guard.
fn copies(function: &Function, load: Inst, behind: &[Inst], uses: &[u32]) -> Option<Vec<(Value, Value)>> {
    let data = &function.insts[load];
    let ([loaded], Some(guard)) = (&data.results[..], &data.guard) else { return None };
    let (apart, behind) = behind.split_first()?;
    let apart = &function.insts[*apart];
    let (Op::Pseudo(Pseudo::Unpack), [Arg::Use(of)], None) = (apart.op, &apart.args[..], &apart.guard) else {
        return None;
    };
    let one_word = |v: &Value| function.values[*v].words == 1 && uses[v.index()] == 1;
    if of.value != *loaded
        || of.part.is_some()
        || uses[loaded.index()] != 1
        || !apart.results.iter().all(one_word)
    {
        return None;
    }
    let words = apart.results.iter();
    words.enumerate().map(|(i, word)| copy(&function.insts[*behind.get(i)?], *word, guard)).collect()
}

/// The result of a copy of a word under a guard, and what it keeps.
fn copy(data: &InstData, word: Value, guard: &Guard) -> Option<(Value, Value)> {
    let (Op::Pseudo(Pseudo::Copy), [Arg::Use(u)], Some(own)) = (data.op, &data.args[..], &data.guard) else {
        return None;
    };
    let same = own.predicate == guard.predicate && own.negated == guard.negated;
    (same && u.value == word && u.is_plain()).then(|| (data.results[0], own.kept[0]))
}

/// Puts what the copies keep together, for the load to keep.
fn kept_together(function: &mut Function, load: Inst, copies: &[(Value, Value)]) -> Inst {
    let loaded = function.values[function.insts[load].results[0]];
    let whole = function.value(loaded.file, loaded.words);
    let args = copies.iter().map(|(_, kept)| Arg::from(*kept)).collect();
    if let Some(guard) = &mut function.insts[load].guard {
        guard.kept = smallvec![whole];
    }
    let (op, at) = (Op::Pseudo(Pseudo::Pack), function.insts[load].at);
    let data = InstData { op, modifiers: smallvec![], results: smallvec![whole], args, guard: None, at };
    function.insts.push(data)
}
