//! Variables of a loop that advance together: one is kept, the others are computed from it.
//!
//! Unrolled loops carry `i`, `i + 1`, `i + 8`, … and add the same step to each. Two parameters of a loop's header that
//! grow by the same amount on every way back, and begin a constant apart on every way in, stay that far apart. The first
//! of them is kept; the others are that and a constant, in each block that uses them, and take no register around the
//! loop. Arithmetic modulo 2^32 makes this exact.

use crate::analysis::known_bits::{self, Definitions};
use crate::context::Context;
use crate::opt::simplify;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, File, Function, InstData, Op, Terminator, Value};
use rustc_hash::FxHashMap;

/// The variables that are not kept: the one that each is computed from, and how far it is ahead of that.
type Distances = FxHashMap<Value, (Value, u32)>;

pub fn run(function: &mut Function, context: &mut Context) -> Result<(), String> {
    let cfg = Cfg::new(function);
    let definitions = function.definitions();
    let mut distances: Distances = FxHashMap::default();
    for header in cfg.headers() {
        let together =
            advancing_together(function, &cfg, &definitions, header, context.tuning.known_bits_depth);
        distances.extend(together.into_iter().filter(|_| context.fuel.burn()));
    }
    if distances.is_empty() {
        return Ok(());
    }
    for block in function.blocks.keys() {
        drop_arguments(function, block, &distances);
    }
    for block in function.blocks.keys() {
        function.blocks[block].params.retain(|param| !distances.contains_key(param));
        compute(function, block, &distances);
    }
    simplify::remove_unused(function);
    Ok(())
}

/// Where a variable comes from on a way to the header.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// From the variable itself: the step that was added.
    Back(Arg),
    /// From a value (or nothing) and a constant.
    In(Option<Value>, u32),
}

/// The parameters of a header that stay a constant apart from an earlier one: that one, and how far.
fn advancing_together(
    function: &Function,
    cfg: &Cfg,
    definitions: &Definitions,
    header: Block,
    depth: u32,
) -> Vec<(Value, (Value, u32))> {
    let edges: Vec<_> = cfg.preds[header.index()]
        .iter()
        .flat_map(|pred| function.blocks[*pred].end.edges().into_iter().map(move |edge| (*pred, edge)))
        .filter(|(_, edge)| edge.to == header)
        .collect();
    let ways = |place: usize, param: Value| -> Option<Vec<Way>> {
        edges
            .iter()
            .map(|(pred, edge)| {
                let arg = *edge.args.get(place)?;
                match cfg.dominates(header, *pred) {
                    true => step(function, definitions, arg, param).map(Way::Back),
                    false => Some(base_and_distance(function, definitions, arg, depth)),
                }
            })
            .collect()
    };
    let mut first: Vec<(Value, Vec<Way>)> = Vec::new();
    let mut together = Vec::new();
    for (place, &param) in function.blocks[header].params.iter().enumerate() {
        let data = function.values[param];
        let Some(ways) = (data.file == File::R && data.words == 1).then(|| ways(place, param)).flatten()
        else {
            continue;
        };
        let found = first.iter().find_map(|(leader, its)| Some((*leader, distance(its, &ways)?)));
        match found {
            Some(found) => together.push((param, found)),
            None => first.push((param, ways)),
        }
    }
    together
}

/// By how much the second of two variables is ahead, if that is the same on every way.
fn distance(first: &[Way], second: &[Way]) -> Option<u32> {
    let mut ahead = None;
    for ways in first.iter().zip(second) {
        match ways {
            (Way::Back(a), Way::Back(b)) if a == b => {}
            (Way::In(a, m), Way::In(b, n)) if a == b && ahead.is_none_or(|d| d == n.wrapping_sub(*m)) => {
                ahead = Some(n.wrapping_sub(*m));
            }
            _ => return None,
        }
    }
    ahead
}

/// What is added to a variable on a way back.
fn step(function: &Function, definitions: &Definitions, next: Value, variable: Value) -> Option<Arg> {
    let data = known_bits::definition(function, definitions, next)
        .filter(|d| d.op == Op::Machine(sass::Op::IADD3))?;
    let [a, b, Arg::Zero(_)] = data.args[..] else { return None };
    let sum = data.modifiers.is_empty() && data.results.len() == 1;
    let other = if a == Arg::from(variable) { b } else { a };
    (sum && [a, b].contains(&variable.into())).then_some(other)
}

/// The value and the constant whose sum a value is.
fn base_and_distance(function: &Function, definitions: &Definitions, value: Value, depth: u32) -> Way {
    let itself = Way::In(Some(value), 0);
    let define = |value| known_bits::definition(function, definitions, value);
    let words = known_bits::Words { define: &define, zeros: &|_| 0, depth };
    let Some(data) = define(value).filter(|d| d.results.len() == 1) else {
        return itself;
    };
    use sass::Op::{IADD3, LOP3, MOV};
    match (data.op, &data.args[..]) {
        (Op::Machine(MOV), [Arg::Imm(n)]) => Way::In(None, *n as u32),
        (Op::Machine(IADD3), [base @ Arg::Use(u), Arg::Imm(n), Arg::Zero(_)])
            if data.modifiers.is_empty() && *base == u.value.into() =>
        {
            Way::In(Some(u.value), *n as u32)
        }
        // base | n
        (
            Op::Machine(LOP3),
            [base @ Arg::Use(u), Arg::Imm(n), Arg::Zero(_), Arg::Imm(0xfc), Arg::True(false)],
        ) if *base == u.value.into() && words.of(base).ones & *n as u32 == 0 => {
            Way::In(Some(u.value), *n as u32)
        }
        _ => itself,
    }
}

/// Takes the arguments for parameters that are computed from others from the edges of a block.
fn drop_arguments(function: &mut Function, block: Block, distances: &Distances) {
    let mut end = std::mem::replace(&mut function.blocks[block].end, Terminator::Exit);
    for edge in end.edges_mut() {
        let mut params = function.blocks[edge.to].params.iter();
        edge.args.retain(|_| params.next().is_some_and(|param| !distances.contains_key(param)));
    }
    function.blocks[block].end = end;
}

/// Computes what a block uses of such parameters at its beginning.
fn compute(function: &mut Function, block: Block, distances: &Distances) {
    let mut own: Vec<(Value, Value)> = Vec::new();
    let mut insts = Vec::new();
    let data = &function.blocks[block];
    let inner = data.insts.iter().flat_map(|i| function.insts[*i].uses());
    let used: Vec<Value> = inner.chain(data.end.uses()).filter(|v| distances.contains_key(v)).collect();
    for value in used {
        let known = own.iter().any(|(old, _)| *old == value);
        if let Some((first, ahead)) = distances.get(&value).filter(|_| !known) {
            let new = function.value(File::R, 1);
            let args = [Arg::from(*first), Arg::Imm(i64::from(*ahead as i32)), Arg::Zero(File::R)];
            insts.push(function.insts.push(InstData::new(Op::Machine(sass::Op::IADD3), &[new], &args)));
            own.push((value, new));
        }
    }
    if own.is_empty() {
        return;
    }
    let renamed = |value: Value| own.iter().find(|(old, _)| *old == value).map_or(value, |(_, new)| *new);
    let old = std::mem::take(&mut function.blocks[block].insts);
    old.iter().for_each(|i| function.insts[*i].map_uses(renamed));
    function.blocks[block].end.map_uses(renamed);
    insts.extend(old);
    function.blocks[block].insts = insts;
}

#[cfg(test)]
mod tests {
    const LOOPS: &str = include_str!("../../tests/kernels/loops.ptx");

    /// How many words the loop carries after a pass.
    fn carried(after: &str) -> usize {
        let log = crate::passes::code_after(after, LOOPS);
        log.lines()
            .find(|line| line.starts_with('b') && line.contains('('))
            .map_or(0, |l| l.matches(":R").count())
    }

    #[test]
    fn what_stays_a_constant_apart_is_carried_once() {
        assert_eq!(carried("combine"), 6, "a sum and five variables");
        assert_eq!(carried("iv-elim"), 3, "a sum, the base, and what is no sum of it");
    }
}
