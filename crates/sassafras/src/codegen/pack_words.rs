//! Pack operand renaming: replaces later uses of a packed word by the corresponding word of the pack.
//!
//! If a word is read again after it was packed, the pack needs a copy of it, because two values hold it. If the later
//! readers read it from the pack instead, the original word dies at the pack, and the allocator can give both the same
//! register. The usual case is an address that is loaded from and then advanced.
//!
//! ```text
//! v3 = Pack v1, v2                 v3 = Pack v1, v2
//! v4 = LDG [v3]             ==>    v4 = LDG [v3]
//! v5 = IADD3 v1, 0x100, RZ         v5 = IADD3 v3[0], 0x100, RZ
//! ```
//!
//! The pass applies only if every reader after the pack can be renamed and all of them are in its block. There the
//! words of a tuple die one by one, so that no register is held longer than before. It runs after scheduling, which
//! fixes the order of the readers. It is legal because the words of a pack are its operands. Cost: two passes over each
//! block.

use crate::context::{Context, Fuel, PassResult};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Change, File, Function, Inst, Op, Part, Pseudo, Value};
use rustc_hash::FxHashMap;

/// Larger tuples are accumulators of wgmma, which have registers of their own.
const MOST_WORDS: u8 = 4;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let outside = read_elsewhere(function, &cfg);
    let mut changed = false;
    for &block in &cfg.order {
        changed |= rename_in(function, block, &outside, &mut context.fuel);
    }
    Ok(if changed { Change::Instructions } else { Change::Nothing })
}

/// By value: is it read in another block than where it is defined, or by the end of a block?
fn read_elsewhere(function: &Function, cfg: &Cfg) -> Vec<bool> {
    let mut home: Vec<Option<Block>> = vec![None; function.values.len()];
    for &block in &cfg.order {
        let insts = function.blocks[block].insts.iter().flat_map(|i| &function.insts[*i].results);
        function.blocks[block].params.iter().chain(insts).for_each(|v| home[v.index()] = Some(block));
    }
    let mut elsewhere = vec![false; function.values.len()];
    for &block in &cfg.order {
        let insts = function.blocks[block].insts.iter().flat_map(|i| function.insts[*i].uses());
        insts.for_each(|v| elsewhere[v.index()] |= home[v.index()] != Some(block));
        function.blocks[block].end.uses().for_each(|v| elsewhere[v.index()] = true);
    }
    elsewhere
}

fn rename_in(function: &mut Function, block: Block, elsewhere: &[bool], fuel: &mut Fuel) -> bool {
    let insts = function.blocks[block].insts.clone();
    // The instructions that read each word that is packed here, in order.
    let mut readers: FxHashMap<Value, Vec<usize>> = FxHashMap::default();
    for inst in &insts {
        let words = packed_words(function, *inst).filter(|(word, _)| !elsewhere[word.index()]);
        words.for_each(|(word, _)| _ = readers.insert(word, Vec::new()));
    }
    if readers.is_empty() {
        return false;
    }
    for (position, inst) in insts.iter().enumerate() {
        for value in function.insts[*inst].uses() {
            readers.entry(value).and_modify(|at| at.push(position));
        }
    }
    let mut changed = false;
    for (position, inst) in insts.iter().enumerate() {
        let words: Vec<(Value, u8)> = packed_words(function, *inst).collect();
        for (word, offset) in words {
            let Some(at) = readers.get(&word) else { continue };
            let here = at.iter().filter(|p| **p == position).count();
            let mut after: Vec<usize> = at.iter().copied().filter(|p| *p > position).collect();
            after.dedup();
            let whole = function.insts[*inst].results[0];
            if here == 1
                && !after.is_empty()
                && after.iter().all(|p| can_rename(function, insts[*p], word, whole))
                && fuel.burn()
            {
                after.iter().for_each(|p| rename(function, insts[*p], word, (whole, offset)));
                readers.remove(&word);
                changed = true;
            }
        }
    }
    changed
}

/// The whole values that a pack is made of, with their places in it, as far as a part of it can stand for them.
fn packed_words(function: &Function, inst: Inst) -> impl Iterator<Item = (Value, u8)> + '_ {
    let data = &function.insts[inst];
    let whole = data.results.first().map(|result| function.values[*result]);
    let is_pack = data.op == Op::Pseudo(Pseudo::Pack) && data.guard.is_none();
    let is_short = |words: u8| (2..=MOST_WORDS).contains(&words);
    let whole = whole.filter(|w| is_pack && is_short(w.words) && matches!(w.file, File::R | File::UR));
    let mut offset = 0;
    let args = data.args.iter().filter_map(move |arg| {
        let Arg::Use(u) = arg else { return None };
        let (first, value) = (offset, function.values[u.value]);
        offset += u.part.map_or(value.words, |p| p.count);
        // A pair within a tuple starts at an even register.
        let fits = u.part.is_none() && value.words < whole?.words && first % value.words == 0;
        (fits && value.file == whole?.file).then_some((u.value, first))
    });
    args.filter(move |_| whole.is_some())
}

/// Are all reads of a value by an instruction plain operands? A result that shares its registers with the pack (an else
/// value, a tied operand) may be written word by word, before another word of the pack is read.
fn can_rename(function: &Function, inst: Inst, value: Value, pack: Value) -> bool {
    let data = &function.insts[inst];
    let is_else_value = data.guard.as_ref().is_some_and(|guard| guard.else_values.contains(&pack));
    if is_else_value || function.tied(data) == Some(pack) {
        return false;
    }
    let is_plain = match data.op {
        Op::Machine(_) => function.tied(data) != Some(value),
        Op::Pseudo(op) => matches!(op, Pseudo::Pack | Pseudo::Copy | Pseudo::Unpack),
        Op::Generic(_) => false,
    };
    let operands = data.args.iter().filter(|arg| matches!(arg, Arg::Use(u) if u.value == value)).count();
    is_plain && operands == data.uses().filter(|v| *v == value).count()
}

fn rename(function: &mut Function, inst: Inst, value: Value, (whole, offset): (Value, u8)) {
    let words = function.values[value].words;
    for arg in &mut function.insts[inst].args {
        if let Arg::Use(u) = arg
            && u.value == value
        {
            let part = u.part.unwrap_or(Part { first: 0, count: words });
            u.value = whole;
            u.part = Some(Part { first: offset + part.first, count: part.count });
        }
    }
}
