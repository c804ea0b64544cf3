//! Values that have no way to memory of their own become words in general registers: saved behind the definition, back
//! before each use. A parameter of a block becomes a word altogether. What the words are:
//!
//! | file | the word | behind the definition | before a use |
//! |---|---|---|---|
//! | P | 1 or 0 | `SEL` | `ISETP.NE` |
//! | UP | 1 or 0 | `USEL`, `MOV` | `R2UR`, `UISETP.NE` |
//! | UR | the same | `MOV` | `R2UR` |
//! | B | what the machine has for them; ptxas saves them so around calls | `BMOV.32.CLEAR` | `BMOV.32` |

use ori::{Arg, Block, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::M;
use smallvec::smallvec;

/// Returns the values that live only to the next instruction, or from the last one, from now on.
pub fn as_words(function: &mut Function, values: &[Value]) -> Vec<Value> {
    let like = |function: &mut Function, v: Value| function.value(File::R, function.values[v].words);
    let words: FxHashMap<Value, Value> = values.iter().map(|v| (*v, like(function, *v))).collect();
    let new: FxHashSet<Value> = words.values().copied().collect();
    let mut brief = values.to_vec();
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
                if let Some(word) = words.get(&result) {
                    save(function, result, *word, &mut insts);
                }
            }
            brief.extend(fresh.into_iter().map(|(_, new)| new));
        }
        end(function, &words, &new, block, &mut insts);
        function.blocks[block].insts = insts;
    }
    brief
}

/// All values of the same files as some, but for those that are brief.
pub fn all_like(function: &Function, some: &[Value], brief: &FxHashSet<Value>) -> Vec<Value> {
    let files: Vec<File> = some.iter().map(|v| function.values[*v].file).collect();
    let wanted = |v: &Value| files.contains(&function.values[*v].file) && !brief.contains(v);
    function.values.keys().filter(wanted).collect()
}

/// Puts a value into a word.
fn save(function: &mut Function, value: Value, word: Value, out: &mut Vec<Inst>) {
    match function.values[value].file {
        File::B => push(function, sass::Op::BMOV, &[M::_32, M::CLEAR], word, &[value.into()], out),
        File::UR => {
            let each = |function: &mut Function, w: u8, out: &mut Vec<Inst>| {
                let part = function.value(File::R, 1);
                push(function, sass::Op::MOV, &[], part, &[Arg::word(value, w)], out);
                part
            };
            word_by_word(function, word, out, each);
        }
        File::UP => {
            let uniform = function.value(File::UR, 1);
            let args = [Arg::Zero(File::UR), Arg::Imm(1), Arg::not(value)];
            push(function, sass::Op::USEL, &[], uniform, &args, out);
            push(function, sass::Op::MOV, &[], word, &[uniform.into()], out);
        }
        _ => push(function, sass::Op::SEL, &[], word, &zero_or_one(value), out),
    }
}

/// Makes a value of a word again.
fn restore(function: &mut Function, word: Value, value: Value, out: &mut Vec<Inst>) {
    let yes = Arg::True(true);
    match function.values[value].file {
        File::B => push(function, sass::Op::BMOV, &[M::_32], value, &[word.into()], out),
        File::UR => {
            let each = |function: &mut Function, w: u8, out: &mut Vec<Inst>| {
                let part = function.value(File::UR, 1);
                push(function, sass::Op::R2UR, &[], part, &[Arg::word(word, w)], out);
                part
            };
            word_by_word(function, value, out, each);
        }
        File::UP => {
            let uniform = function.value(File::UR, 1);
            push(function, sass::Op::R2UR, &[], uniform, &[word.into()], out);
            let args = [yes, uniform.into(), Arg::Zero(File::UR), yes];
            push(function, sass::Op::UISETP, &[M::NE, M::AND], value, &args, out);
        }
        _ => {
            let args = [yes, word.into(), Arg::Zero(File::R), yes];
            push(function, sass::Op::ISETP, &[M::NE, M::AND], value, &args, out);
        }
    }
}

/// A value that is made of words, each by itself.
fn word_by_word(
    function: &mut Function,
    whole: Value,
    out: &mut Vec<Inst>,
    mut each: impl FnMut(&mut Function, u8, &mut Vec<Inst>) -> Value,
) {
    let words = function.values[whole].words;
    let parts: Vec<Arg> = (0..words).map(|w| each(function, w, out).into()).collect();
    let pack = InstData { op: Op::Pseudo(Pseudo::Pack), ..data(sass::Op::MOV, &[], whole, &parts) };
    out.push(function.insts.push(pack));
}

/// New values from the words of those that are used.
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
    for value in used {
        let shape = function.values[value];
        let result = function.value(shape.file, shape.words);
        restore(function, words[&value], result, out);
        fresh.push((value, result));
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
            if !becomes_word || function.values[arg].file == File::R {
                continue;
            }
            edge.args[i] = words.get(&arg).copied().unwrap_or_else(|| {
                let word = function.value(File::R, function.values[arg].words);
                save(function, arg, word, out);
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
fn zero_or_one(predicate: Value) -> [Arg; 3] {
    [Arg::Zero(File::R), Arg::Imm(1), Arg::not(predicate)]
}

fn push(
    function: &mut Function,
    op: sass::Op,
    modifiers: &[M],
    result: Value,
    args: &[Arg],
    out: &mut Vec<Inst>,
) {
    out.push(function.insts.push(data(op, modifiers, result, args)));
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
