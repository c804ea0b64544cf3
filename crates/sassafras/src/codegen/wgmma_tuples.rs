//! Register tuple formation for wgmma accumulators: replaces scalar words by one wide value.
//!
//! PTX has one register per accumulator word; the machine has a contiguous range of registers that must not be moved
//! while a wgmma is in flight. The pass iterates folding of a pack of an unpack and widening of block parameters:
//!
//! ```text
//! loop(v1, v2):                            loop(v0):
//!   v0 = Pack v1, v2; v3 = HGMMA …, v0  ==>  v3 = HGMMA …, v0
//!   v4, v5 = Unpack v3                       jump loop(v3)
//!   jump loop(v4, v5)
//! ```
//!
//! Postcondition: an accumulator that passes from wgmma to wgmma, through waits and around a loop, is a single value
//! throughout. Functions without wgmma are unchanged. Cost: each iteration is linear, except that widening restarts
//! after each tuple of parameters; a parameter is widened once.

use crate::context::{Context, PassResult};
use ori::entity::Entity;
use ori::liveness::ValueSet;
use ori::{Arg, Block, Cfg, Change, File, Function, Inst, InstData, Op, Pseudo, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::M;
use smallvec::{SmallVec, smallvec};

pub fn run(function: &mut Function, _: &mut Context) -> PassResult<Change> {
    let tied = |function: &Function, i: &Inst| function.tied(&function.insts[*i]);
    let accumulators = |function: &Function| {
        let blocks = function.blocks.keys().flat_map(|b| function.blocks[b].insts.iter());
        blocks.filter_map(|i| tied(function, i)).collect::<Vec<Value>>()
    };
    if accumulators(function).is_empty() {
        return Ok(Change::Nothing);
    }
    // Each iteration propagates wide values one step further; a parameter is widened once.
    loop {
        widen_landed(function);
        let folded = fold_packs(function);
        let widened = widen(function, &accumulators(function));
        if !folded && !widened {
            break;
        }
    }
    Ok(Change::Instructions)
}

/// By value: the wide value and index that it is unpacked from.
struct Origins(Vec<Option<(Value, u8)>>);

impl Origins {
    /// `None`, too, for a value that is newer than the table.
    fn get(&self, word: &Value) -> Option<&(Value, u8)> {
        self.0.get(word.index())?.as_ref()
    }
}

fn insts(function: &Function) -> impl Iterator<Item = (Block, Inst)> + '_ {
    function.blocks.keys().flat_map(|b| function.blocks[b].insts.iter().map(move |i| (b, *i)))
}

/// The words that are unpacked from wide values.
fn origins(function: &Function) -> Origins {
    let mut all = vec![None; function.values.len()];
    for (_, inst) in insts(function) {
        let data = &function.insts[inst];
        if let (Op::Pseudo(Pseudo::Unpack), [Arg::Use(u)], None) = (data.op, &data.args[..], &data.guard)
            && u.part.is_none()
            && data.results.iter().all(|r| function.values[*r].words == 1)
        {
            for (i, word) in data.results.iter().enumerate() {
                all[word.index()] = Some((u.value, i as u8));
            }
        }
    }
    Origins(all)
}

/// The arguments as one-word values, if all of them are.
fn words(function: &Function, args: &[Arg]) -> Option<Vec<Value>> {
    let word = |arg: &Arg| match arg {
        Arg::Use(u) if u.is_plain() && function.values[u.value].words == 1 => Some(u.value),
        _ => None,
    };
    args.iter().map(word).collect()
}

/// The value whose words these are, all and in order.
fn whole(function: &Function, origins: &Origins, words: &[Value]) -> Option<Value> {
    let (source, _) = *origins.get(words.first()?)?;
    let in_order = words.iter().enumerate().all(|(i, w)| origins.get(w) == Some(&(source, i as u8)));
    (in_order && usize::from(function.values[source].words) == words.len()).then_some(source)
}

/// A pack of all words of a value is that value.
fn fold_packs(function: &mut Function) -> bool {
    let origins = origins(function);
    let mut replacement: FxHashMap<Value, Value> = FxHashMap::default();
    for (_, inst) in insts(function) {
        let data = &function.insts[inst];
        if data.op != Op::Pseudo(Pseudo::Pack) || data.guard.is_some() {
            continue;
        }
        if let Some(source) = words(function, &data.args).and_then(|w| whole(function, &origins, &w)) {
            replacement.insert(data.results[0], source);
        }
    }
    if replacement.is_empty() {
        return false;
    }
    let is_folded = |function: &Function, i: &Inst| {
        let data = &function.insts[*i];
        data.op == Op::Pseudo(Pseudo::Pack) && data.results.iter().all(|r| replacement.contains_key(r))
    };
    let resolve = |mut value: Value| {
        while let Some(next) = replacement.get(&value) {
            value = *next;
        }
        value
    };
    for block in function.blocks.keys() {
        let rest: Vec<Inst> =
            function.blocks[block].insts.iter().copied().filter(|i| !is_folded(function, i)).collect();
        rest.iter().for_each(|i| rename(&mut function.insts[*i], &resolve));
        function.blocks[block].insts = rest;
        for edge in function.blocks[block].end.edges_mut() {
            edge.args.iter_mut().for_each(|a| *a = resolve(*a));
        }
    }
    true
}

fn rename(data: &mut InstData, resolve: &impl Fn(Value) -> Value) {
    for arg in &mut data.args {
        if let Arg::Use(u) = arg {
            u.value = resolve(u.value);
        }
    }
    if let Some(guard) = &mut data.guard {
        guard.else_values.iter_mut().for_each(|k| *k = resolve(*k));
    }
}

/// A `Landed` of all words of a value, one by one and in any order, becomes one of the whole value.
fn widen_landed(function: &mut Function) {
    let origins = origins(function);
    for block in function.blocks.keys() {
        let mut out = Vec::new();
        for inst in std::mem::take(&mut function.blocks[block].insts) {
            out.push(inst);
            if function.insts[inst].op == Op::Pseudo(Pseudo::Landed) {
                out.extend(widen_landed_inst(function, &origins, inst));
            }
        }
        function.blocks[block].insts = out;
    }
}

/// Returns the instructions that unpack the wide values again.
fn widen_landed_inst(function: &mut Function, origins: &Origins, inst: Inst) -> Vec<Inst> {
    let data = function.insts[inst].clone();
    let (landed, rest) = data.args.split_at(data.results.len());
    let places = places_of_words(function, origins, landed.iter().map(Arg::value));
    let (mut results, mut args): (SmallVec<[Value; 2]>, SmallVec<[Arg; 6]>) = Default::default();
    let mut unpacks = Vec::new();
    for (at, arg) in landed.iter().enumerate() {
        let source = arg.value().and_then(|v| origins.get(&v)).map(|(source, _)| *source);
        let Some((source, places)) = source.and_then(|s| Some((s, places.get(&s)?))) else {
            results.push(data.results[at]);
            args.push(*arg);
            continue;
        };
        // The whole value stands where its first word was.
        if places.iter().min() != Some(&at) {
            continue;
        }
        let landed = function.value(function.values[source].file, function.values[source].words);
        results.push(landed);
        args.push(source.into());
        unpacks.push(function.insts.push(InstData {
            op: Op::Pseudo(Pseudo::Unpack),
            modifiers: smallvec![],
            results: places.iter().map(|place| data.results[*place]).collect(),
            args: smallvec![landed.into()],
            guard: None,
            at: data.at,
        }));
    }
    args.extend(rest.iter().copied());
    (function.insts[inst].results, function.insts[inst].args) = (results, args);
    unpacks
}

/// Where the words of each value are among the arguments, of the values whose words are all there once.
fn places_of_words(
    function: &Function,
    origins: &Origins,
    args: impl Iterator<Item = Option<Value>>,
) -> FxHashMap<Value, Vec<usize>> {
    let mut places: FxHashMap<Value, Vec<Option<usize>>> = FxHashMap::default();
    let mut repeated = FxHashSet::default();
    for (at, arg) in args.enumerate() {
        let Some((source, word)) = arg.and_then(|v| origins.get(&v)) else { continue };
        let count = usize::from(function.values[*source].words);
        let places = places.entry(*source).or_insert_with(|| vec![None; count]);
        if places[usize::from(*word)].replace(at).is_some() {
            repeated.insert(*source);
        }
    }
    places.retain(|source, _| !repeated.contains(source));
    let all = |(source, places): (Value, Vec<Option<usize>>)| {
        Some((source, places.into_iter().collect::<Option<Vec<usize>>>()?))
    };
    places.into_iter().filter_map(all).collect()
}

/// Replaces a run of parameters by one wide parameter. Returns whether there was one.
fn widen(function: &mut Function, accumulators: &[Value]) -> bool {
    let cfg = Cfg::new(function);
    let found = params_of_unpacked(function, &cfg).or_else(|| params_of_pack(function, &cfg, accumulators));
    if let Some((block, words)) = &found {
        widen_params(function, &cfg, *block, words);
    }
    found.is_some()
}

/// Parameters that get all words of a wide value from some predecessor, in any order.
fn params_of_unpacked(function: &Function, cfg: &Cfg) -> Option<(Block, Vec<Value>)> {
    let origins = origins(function);
    for &block in &cfg.order {
        for edge in function.blocks[block].end.edges() {
            let whole = places_of_words(function, &origins, edge.args.iter().copied().map(Some));
            if let Some(places) = whole.values().filter(|p| p.len() > 1).min_by_key(|p| p[0]) {
                let params = &function.blocks[edge.to].params;
                return Some((edge.to, places.iter().map(|place| params[*place]).collect()));
            }
        }
    }
    None
}

/// Parameters that are packed to an accumulator, or to the argument of an edge.
fn params_of_pack(function: &Function, cfg: &Cfg, accumulators: &[Value]) -> Option<(Block, Vec<Value>)> {
    let mut tuples = arguments(function);
    accumulators.iter().for_each(|accumulator| tuples.insert(*accumulator));
    for (_, inst) in insts(function) {
        let data = &function.insts[inst];
        let wanted = |r: &Value| tuples.contains(*r);
        if data.op != Op::Pseudo(Pseudo::Pack) || !data.results.iter().any(wanted) {
            continue;
        }
        let Some(words) = words(function, &data.args) else { continue };
        let distinct = words.iter().enumerate().all(|(i, w)| !words[..i].contains(w));
        let holds = |b: &Block| distinct && words.iter().all(|w| function.blocks[*b].params.contains(w));
        if let Some(block) = cfg.order.iter().copied().find(holds) {
            return Some((block, words));
        }
    }
    None
}

/// The arguments of all edges.
fn arguments(function: &Function) -> ValueSet {
    let mut all = ValueSet::new(function.values.len());
    for block in function.blocks.keys() {
        let edges = function.blocks[block].end.edges();
        edges.iter().flat_map(|edge| &edge.args).for_each(|value| all.insert(*value));
    }
    all
}

/// Words that are zero.
fn zeros(function: &Function) -> ValueSet {
    let mut zeros = ValueSet::new(function.values.len());
    for (_, inst) in insts(function) {
        let data = &function.insts[inst];
        let is_zero = matches!(data.args[..], [Arg::Imm(0) | Arg::Zero(_)]);
        if data.op == Op::Machine(sass::Op::MOV) && is_zero && data.guard.is_none() {
            zeros.insert(data.results[0]);
        }
    }
    zeros
}

/// The arguments of a pack at the end of a block: two words of zero at an even place are made by one instruction, where
/// they are wanted.
fn words_to_pack(
    function: &mut Function,
    block: Block,
    words: &[Value],
    zeros: &ValueSet,
) -> SmallVec<[Arg; 6]> {
    let mut args = SmallVec::new();
    for pair in words.chunks(2) {
        if pair.len() == 2 && pair.iter().all(|word| zeros.contains(*word)) {
            let zero = function.value(File::R, 2);
            let name = [Arg::Name(M::SRZ)];
            let inst = function.insts.push(InstData::new(Op::Machine(sass::Op::CS2R), &[zero], &name));
            function.blocks[block].insts.push(inst);
            args.push(zero.into());
        } else {
            args.extend(pair.iter().map(|word| Arg::from(*word)));
        }
    }
    args
}

fn widen_params(function: &mut Function, cfg: &Cfg, block: Block, words: &[Value]) {
    let file = function.values[words[0]].file;
    let count = words.len() as u8;
    let pseudo = |op: Pseudo, results: SmallVec<[Value; 2]>, args: SmallVec<[Arg; 6]>| InstData {
        op: Op::Pseudo(op),
        modifiers: smallvec![],
        results,
        args,
        guard: None,
        at: 0,
    };
    let params = function.blocks[block].params.clone();
    let indices: Vec<usize> = words.iter().filter_map(|w| params.iter().position(|p| p == w)).collect();
    let zeros = zeros(function);
    for &pred in &cfg.preds[block.index()] {
        let mut end = std::mem::replace(&mut function.blocks[pred].end, ori::Terminator::Exit);
        for edge in end.edges_mut() {
            if edge.to != block || edge.args.len() != params.len() {
                continue;
            }
            let tuple = function.value(file, count);
            let words: Vec<Value> = indices.iter().map(|i| edge.args[*i]).collect();
            let args = words_to_pack(function, pred, &words, &zeros);
            let inst = function.insts.push(pseudo(Pseudo::Pack, smallvec![tuple], args));
            function.blocks[pred].insts.push(inst);
            let mut index = 0..;
            edge.args.retain(|_| index.next().is_some_and(|i| !indices.contains(&i)));
            edge.args.push(tuple);
        }
        function.blocks[pred].end = end;
    }
    let tuple = function.value(file, count);
    function.blocks[block].params.retain(|p| !words.contains(p));
    function.blocks[block].params.push(tuple);
    let unpack = pseudo(Pseudo::Unpack, words.into(), smallvec![tuple.into()]);
    let unpack = function.insts.push(unpack);
    function.blocks[block].insts.insert(0, unpack);
}
