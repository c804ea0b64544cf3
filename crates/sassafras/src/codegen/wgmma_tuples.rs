//! Accumulators of asynchronous products stay together.
//!
//! PTX has a register for each word of an accumulator, the machine a run of them that must not move while a product is
//! in flight. After this pass an accumulator that goes from product to product, through waits and around a loop, is one
//! value all the way: where words are taken apart only to be put together again, nothing is done, and words that are
//! parameters of a block only to be put together in it are one parameter.
//!
//! Functions without asynchronous products are left alone.

use crate::context::target::Machine;
use crate::opt::simplify;
use ori::{Arg, Block, Cfg, Function, Inst, InstData, Op, Pseudo, Value};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

pub fn run(function: &mut Function, _: &'static Machine) -> Result<(), String> {
    let tied = |function: &Function, i: &Inst| function.tied(&function.insts[*i]);
    let used = |function: &Function| {
        let blocks = function.blocks.keys().flat_map(|b| function.blocks[b].insts.iter());
        blocks.filter_map(|i| tied(function, i)).collect::<Vec<Value>>()
    };
    if used(function).is_empty() {
        return Ok(());
    }
    // Each round brings whole values one step further; a parameter is widened once.
    loop {
        whole_landings(function);
        let folded = fold(function);
        let widened = widen(function, &used(function));
        if !folded && !widened {
            break;
        }
    }
    simplify::remove_unused(function);
    Ok(())
}

/// Where a word comes from.
type Origins = FxHashMap<Value, (Value, u8)>;

fn insts(function: &Function) -> impl Iterator<Item = (Block, Inst)> + '_ {
    function.blocks.keys().flat_map(|b| function.blocks[b].insts.iter().map(move |i| (b, *i)))
}

/// The words that are taken from wider values.
fn origins(function: &Function) -> Origins {
    let mut all = Origins::default();
    for (_, inst) in insts(function) {
        let data = &function.insts[inst];
        if let (Op::Pseudo(Pseudo::Unpack), [Arg::Use(u)], None) = (data.op, &data.args[..], &data.guard)
            && u.part.is_none()
            && data.results.iter().all(|r| function.values[*r].words == 1)
        {
            all.extend(data.results.iter().enumerate().map(|(i, r)| (*r, (u.value, i as u8))));
        }
    }
    all
}

/// The one-word values that arguments are, if all of them are such.
fn words(function: &Function, args: &[Arg]) -> Option<Vec<Value>> {
    let word = |arg: &Arg| match arg {
        Arg::Use(u) if u.is_plain() && function.values[u.value].words == 1 => Some(u.value),
        _ => None,
    };
    args.iter().map(word).collect()
}

/// The value that words are all of, in order.
fn whole(function: &Function, origins: &Origins, words: &[Value]) -> Option<Value> {
    let (source, _) = *origins.get(words.first()?)?;
    let in_order = words.iter().enumerate().all(|(i, w)| origins.get(w) == Some(&(source, i as u8)));
    (in_order && usize::from(function.values[source].words) == words.len()).then_some(source)
}

/// What is put together of all words of a value is that value.
fn fold(function: &mut Function) -> bool {
    let origins = origins(function);
    let mut same: FxHashMap<Value, Value> = FxHashMap::default();
    for (_, inst) in insts(function) {
        let data = &function.insts[inst];
        if data.op != Op::Pseudo(Pseudo::Pack) || data.guard.is_some() {
            continue;
        }
        if let Some(source) = words(function, &data.args).and_then(|w| whole(function, &origins, &w)) {
            same.insert(data.results[0], source);
        }
    }
    if same.is_empty() {
        return false;
    }
    let gone = |function: &Function, i: &Inst| {
        let data = &function.insts[*i];
        data.op == Op::Pseudo(Pseudo::Pack) && data.results.iter().all(|r| same.contains_key(r))
    };
    let find = |mut value: Value| {
        while let Some(next) = same.get(&value) {
            value = *next;
        }
        value
    };
    for block in function.blocks.keys() {
        let kept: Vec<Inst> =
            function.blocks[block].insts.iter().copied().filter(|i| !gone(function, i)).collect();
        kept.iter().for_each(|i| rename(&mut function.insts[*i], &find));
        function.blocks[block].insts = kept;
        for edge in function.blocks[block].end.edges_mut() {
            edge.args.iter_mut().for_each(|a| *a = find(*a));
        }
    }
    true
}

fn rename(data: &mut InstData, find: &impl Fn(Value) -> Value) {
    for arg in &mut data.args {
        if let Arg::Use(u) = arg {
            u.value = find(u.value);
        }
    }
    if let Some(guard) = &mut data.guard {
        guard.kept.iter_mut().for_each(|k| *k = find(*k));
    }
}

/// What lands word by word, though it is all words of a value, lands as a whole.
fn whole_landings(function: &mut Function) {
    let origins = origins(function);
    for block in function.blocks.keys() {
        let mut out = Vec::new();
        for inst in std::mem::take(&mut function.blocks[block].insts) {
            out.push(inst);
            if function.insts[inst].op == Op::Pseudo(Pseudo::Landed) {
                out.extend(whole_landing(function, &origins, inst));
            }
        }
        function.blocks[block].insts = out;
    }
}

/// Returns the instructions that take the whole values apart again.
fn whole_landing(function: &mut Function, origins: &Origins, inst: Inst) -> Vec<Inst> {
    let data = function.insts[inst].clone();
    let (mut results, mut args): (SmallVec<[Value; 2]>, SmallVec<[Arg; 6]>) = Default::default();
    let mut apart = Vec::new();
    let mut at = 0;
    while at < data.results.len() {
        let first = data.args[at].value().and_then(|v| origins.get(&v));
        let count = first.map_or(1, |(source, _)| usize::from(function.values[*source].words));
        let source = data
            .args
            .get(at..at + count)
            .filter(|_| at + count <= data.results.len())
            .and_then(|group| words(function, group))
            .and_then(|group| whole(function, origins, &group));
        let Some(source) = source else {
            results.push(data.results[at]);
            args.push(data.args[at]);
            at += 1;
            continue;
        };
        let landed = function.value(function.values[source].file, function.values[source].words);
        results.push(landed);
        args.push(source.into());
        apart.push(function.insts.push(InstData {
            op: Op::Pseudo(Pseudo::Unpack),
            modifiers: smallvec![],
            results: data.results[at..at + count].into(),
            args: smallvec![landed.into()],
            guard: None,
            at: data.at,
        }));
        at += count;
    }
    args.extend(data.args[at..].iter().copied());
    (function.insts[inst].results, function.insts[inst].args) = (results, args);
    apart
}

/// Makes one parameter of those that belong together. Did it?
fn widen(function: &mut Function, accumulators: &[Value]) -> bool {
    let cfg = Cfg::new(function);
    let found = handed_on(function, &cfg).or_else(|| put_together(function, &cfg, accumulators));
    if let Some((block, words)) = &found {
        widen_params(function, &cfg, *block, words);
    }
    found.is_some()
}

/// Parameters that get all words of an accumulator from some predecessor.
fn handed_on(function: &Function, cfg: &Cfg) -> Option<(Block, Vec<Value>)> {
    let origins = origins(function);
    for &block in &cfg.order {
        for edge in function.blocks[block].end.edges() {
            for (at, arg) in edge.args.iter().enumerate() {
                let Some((source, 0)) = origins.get(arg) else { continue };
                let all = at..at + usize::from(function.values[*source].words);
                let args = edge.args.get(all.clone()).unwrap_or_default();
                if all.len() > 1 && whole(function, &origins, args).is_some() {
                    return Some((edge.to, function.blocks[edge.to].params[all].to_vec()));
                }
            }
        }
    }
    None
}

/// Parameters that are put together to an accumulator, or to another parameter.
fn put_together(function: &Function, cfg: &Cfg, accumulators: &[Value]) -> Option<(Block, Vec<Value>)> {
    for (_, inst) in insts(function) {
        let data = &function.insts[inst];
        let wanted = |r: &Value| accumulators.contains(r) || is_argument(function, *r);
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

/// Is it handed to a block?
fn is_argument(function: &Function, value: Value) -> bool {
    function.blocks.keys().any(|b| function.blocks[b].end.edges().iter().any(|e| e.args.contains(&value)))
}

fn widen_params(function: &mut Function, cfg: &Cfg, block: Block, words: &[Value]) {
    use ori::entity::Entity;
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
    let places: Vec<usize> = words.iter().filter_map(|w| params.iter().position(|p| p == w)).collect();
    for &pred in &cfg.preds[block.index()] {
        let mut end = std::mem::replace(&mut function.blocks[pred].end, ori::Terminator::Exit);
        for edge in end.edges_mut() {
            if edge.to != block || edge.args.len() != params.len() {
                continue;
            }
            let together = function.value(file, count);
            let args = places.iter().map(|p| Arg::from(edge.args[*p])).collect();
            let inst = function.insts.push(pseudo(Pseudo::Pack, smallvec![together], args));
            function.blocks[pred].insts.push(inst);
            let mut place = 0..;
            edge.args.retain(|_| place.next().is_some_and(|p| !places.contains(&p)));
            edge.args.push(together);
        }
        function.blocks[pred].end = end;
    }
    let together = function.value(file, count);
    function.blocks[block].params.retain(|p| !words.contains(p));
    function.blocks[block].params.push(together);
    let apart = pseudo(Pseudo::Unpack, words.into(), smallvec![together.into()]);
    let apart = function.insts.push(apart);
    function.blocks[block].insts.insert(0, apart);
}
