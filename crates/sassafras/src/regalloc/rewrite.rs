//! Predicates that find no place become words: 1 or 0 behind the definition, a comparison before each use. A
//! parameter of a block becomes a word altogether. Convergence barriers become the words that the machine has for
//! them, as ptxas saves them around calls.

use ori::{Arg, Block, File, Function, Inst, InstData, Op, Terminator, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::M;
use smallvec::smallvec;

pub fn as_words(function: &mut Function, predicates: &[Value]) {
    let words: FxHashMap<Value, Value> =
        predicates.iter().map(|p| (*p, function.value(File::R, 1))).collect();
    let new: FxHashSet<Value> = words.values().copied().collect();
    for block in function.blocks.keys() {
        let mut insts = Vec::new();
        for param in &mut function.blocks[block].params {
            if let Some(word) = words.get(param) {
                *param = *word;
            }
        }
        for inst in std::mem::take(&mut function.blocks[block].insts) {
            let fresh = before_use(function, &words, function.insts[inst].uses().collect(), &mut insts);
            replace(&mut function.insts[inst], &fresh);
            insts.push(inst);
            for result in function.insts[inst].results.clone() {
                keep(function, &words, result, &mut insts);
            }
        }
        end(function, &words, &new, block, &mut insts);
        function.blocks[block].insts = insts;
    }
}

fn keep(function: &mut Function, words: &FxHashMap<Value, Value>, predicate: Value, out: &mut Vec<Inst>) {
    if let Some(word) = words.get(&predicate) {
        let saved = match function.values[predicate].file {
            File::B => data(sass::Op::BMOV, &[M::_32, M::CLEAR], *word, &[predicate.into()]),
            _ => word_of(predicate, *word),
        };
        out.push(function.insts.push(saved));
    }
}

/// New predicates from the words of those that are used.
fn before_use(
    function: &mut Function,
    words: &FxHashMap<Value, Value>,
    mut used: Vec<Value>,
    out: &mut Vec<Inst>,
) -> Vec<(Value, Value)> {
    used.retain(|v| words.contains_key(v));
    used.sort();
    used.dedup();
    let mut fresh = Vec::new();
    for predicate in used {
        let file = function.values[predicate].file;
        let result = function.value(file, 1);
        let word = words[&predicate].into();
        let back = match file {
            File::B => data(sass::Op::BMOV, &[M::_32], result, &[word]),
            _ => {
                let (zero, yes) = (Arg::Zero(File::R), Arg::True(true));
                data(sass::Op::ISETP, &[M::NE, M::AND], result, &[yes, word, zero, yes])
            }
        };
        out.push(function.insts.push(back));
        fresh.push((predicate, result));
    }
    fresh
}

fn replace(inst: &mut InstData, fresh: &[(Value, Value)]) {
    for (old, new) in fresh {
        for arg in &mut inst.args {
            if let Arg::Use(u) = arg
                && u.value == *old
            {
                u.value = *new;
            }
        }
        if let Some(guard) = &mut inst.guard {
            let places = std::iter::once(&mut guard.predicate).chain(&mut guard.kept);
            places.filter(|v| **v == *old).for_each(|v| *v = *new);
        }
    }
}

/// Arguments of parameters that are words now become words, one by one; the others are predicates again.
fn end(
    function: &mut Function,
    words: &FxHashMap<Value, Value>,
    new: &FxHashSet<Value>,
    block: Block,
    out: &mut Vec<Inst>,
) {
    let mut end = std::mem::replace(&mut function.blocks[block].end, Terminator::Exit);
    for edge in end.edges_mut() {
        for i in 0..edge.args.len() {
            let arg = edge.args[i];
            let param = function.blocks[edge.to].params[i];
            let becomes_word = words.contains_key(&param) || new.contains(&param);
            if !becomes_word || function.values[arg].file != File::P {
                continue;
            }
            edge.args[i] = words.get(&arg).copied().unwrap_or_else(|| {
                let word = function.value(File::R, 1);
                out.push(function.insts.push(word_of(arg, word)));
                word
            });
        }
    }
    for (old, new) in before_use(function, words, end.uses().collect(), out) {
        if let Terminator::Branch { predicate, .. } = &mut end
            && *predicate == old
        {
            *predicate = new;
        }
        for edge in end.edges_mut() {
            edge.args.iter_mut().filter(|v| **v == old).for_each(|v| *v = new);
        }
    }
    function.blocks[block].end = end;
}

/// 1 where the predicate holds, else 0.
fn word_of(predicate: Value, word: Value) -> InstData {
    data(sass::Op::SEL, &[], word, &[Arg::Zero(File::R), Arg::Imm(1), Arg::not(predicate)])
}

fn data(op: sass::Op, modifiers: &[M], result: Value, args: &[Arg]) -> InstData {
    InstData {
        op: Op::Machine(op),
        modifiers: modifiers.into(),
        results: smallvec![result],
        args: args.into(),
        guard: None,
        at: 0,
    }
}
