//! Induction variable elimination: keeps one of several variables that advance by the same step.
//!
//! Unrolled loops carry `i`, `i + 1`, `i + 8`, … and add the same step to each. Two parameters of a loop header that
//! have the same step on every back edge, and differ by a constant on every entering edge, keep that distance. The
//! first is kept; each block that uses another recomputes it from the first, so that no register is live around the
//! loop for it. Arithmetic modulo 2^32 makes this exact.
//!
//! ```text
//! b1(v4:R, v5:R):                        b1(v4:R):
//!   use v5                          →      v10:R = v4 + 0x8
//!   v7:R = v4 + 0x10                       use v10
//!   v8:R = v5 + 0x10                       v7:R = v4 + 0x10
//! ```
//!
//! Postcondition: no two parameters of a header are known to differ by a constant. Cost: quadratic in the parameters of
//! a header, otherwise linear.

use crate::analysis::known_bits::{self, Definitions};
use crate::context::{Context, PassResult};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Change, Cursor, File, Function, Op, Terminator, Value};
use rustc_hash::FxHashMap;

/// The variables that are eliminated: the one that each is computed from, and its distance from that.
type Distances = FxHashMap<Value, (Value, u32)>;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let definitions = context.analyses.definitions(function);
    let mut distances: Distances = FxHashMap::default();
    for header in cfg.headers() {
        let depth = context.tuning.known_bits_depth;
        let found = constant_distances(function, &cfg, &definitions, header, depth);
        distances.extend(found.into_iter().filter(|_| context.fuel.burn()));
    }
    if distances.is_empty() {
        return Ok(Change::Nothing);
    }
    for block in function.blocks.keys() {
        drop_arguments(function, block, &distances);
    }
    for block in function.blocks.keys() {
        function.blocks[block].params.retain(|param| !distances.contains_key(param));
        compute(function, block, &distances);
    }
    Ok(Change::Instructions)
}

/// The value of an induction variable on an edge to the header.
#[derive(Clone, Copy, PartialEq)]
enum Incoming {
    /// On a back edge: the step that was added to the variable.
    Step(Arg),
    /// On an entering edge: a value (or none) plus a constant.
    Start(Option<Value>, u32),
}

/// The parameters of a header that stay a constant apart from an earlier one: that one, and the distance.
fn constant_distances(
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
    let incoming = |index: usize, param: Value| -> Option<Vec<Incoming>> {
        edges
            .iter()
            .map(|(pred, edge)| {
                let arg = *edge.args.get(index)?;
                match cfg.dominates(header, *pred) {
                    true => step(function, definitions, arg, param).map(Incoming::Step),
                    false => Some(base_and_distance(function, definitions, arg, depth)),
                }
            })
            .collect()
    };
    let mut leaders: Vec<(Value, Vec<Incoming>)> = Vec::new();
    let mut found = Vec::new();
    for (index, &param) in function.blocks[header].params.iter().enumerate() {
        let data = function.values[param];
        let is_word = data.file == File::R && data.words == 1;
        let Some(incoming) = is_word.then(|| incoming(index, param)).flatten() else { continue };
        let leader = leaders.iter().find_map(|(leader, its)| Some((*leader, distance(its, &incoming)?)));
        match leader {
            Some(leader) => found.push((param, leader)),
            None => leaders.push((param, incoming)),
        }
    }
    found
}

/// The distance of the second variable from the first, if it is the same on every edge.
fn distance(first: &[Incoming], second: &[Incoming]) -> Option<u32> {
    let mut distance = None;
    for edge in first.iter().zip(second) {
        match edge {
            (Incoming::Step(a), Incoming::Step(b)) if a == b => {}
            (Incoming::Start(a, m), Incoming::Start(b, n))
                if a == b && distance.is_none_or(|d| d == n.wrapping_sub(*m)) =>
            {
                distance = Some(n.wrapping_sub(*m));
            }
            _ => return None,
        }
    }
    distance
}

/// The step that is added to a variable before a back edge.
fn step(function: &Function, definitions: &Definitions, next: Value, variable: Value) -> Option<Arg> {
    let data = known_bits::definition(function, definitions, next)
        .filter(|d| d.op == Op::Machine(sass::Op::IADD3))?;
    let [a, b, Arg::Zero(_)] = data.args[..] else { return None };
    let sum = data.modifiers.is_empty() && data.results.len() == 1;
    let other = if a == Arg::from(variable) { b } else { a };
    (sum && [a, b].contains(&variable.into())).then_some(other)
}

/// The value and the constant whose sum a value is.
fn base_and_distance(function: &Function, definitions: &Definitions, value: Value, depth: u32) -> Incoming {
    let itself = Incoming::Start(Some(value), 0);
    let define = |value| known_bits::definition(function, definitions, value);
    let words = known_bits::Words { define: &define, zeros: &|_| 0, depth };
    let Some(data) = define(value).filter(|d| d.results.len() == 1) else {
        return itself;
    };
    use sass::Op::{IADD3, LOP3, MOV};
    match (data.op, &data.args[..]) {
        (Op::Machine(MOV), [Arg::Imm(n)]) => Incoming::Start(None, *n as u32),
        (Op::Machine(IADD3), [base @ Arg::Use(u), Arg::Imm(n), Arg::Zero(_)])
            if data.modifiers.is_empty() && *base == u.value.into() =>
        {
            Incoming::Start(Some(u.value), *n as u32)
        }
        // base | n
        (
            Op::Machine(LOP3),
            [base @ Arg::Use(u), Arg::Imm(n), Arg::Zero(_), Arg::Imm(0xfc), Arg::True(false)],
        ) if *base == u.value.into() && words.of(base).ones & *n as u32 == 0 => {
            Incoming::Start(Some(u.value), *n as u32)
        }
        _ => itself,
    }
}

/// Drops the arguments of eliminated parameters from the edges of a block.
fn drop_arguments(function: &mut Function, block: Block, distances: &Distances) {
    let mut end = std::mem::replace(&mut function.blocks[block].end, Terminator::Exit);
    for edge in end.edges_mut() {
        let mut params = function.blocks[edge.to].params.iter();
        edge.args.retain(|_| params.next().is_some_and(|param| !distances.contains_key(param)));
    }
    function.blocks[block].end = end;
}

/// Computes the eliminated parameters that a block uses at its start.
fn compute(function: &mut Function, block: Block, distances: &Distances) {
    let data = &function.blocks[block];
    let inner = data.insts.iter().flat_map(|i| function.insts[*i].uses());
    let used: Vec<Value> = inner.chain(data.end.uses()).filter(|v| distances.contains_key(v)).collect();
    if used.is_empty() {
        return;
    }
    let mut computed: Vec<(Value, Value)> = Vec::new();
    let mut cursor = Cursor::at_start(function, block);
    for value in used {
        let known = computed.iter().any(|(old, _)| *old == value);
        if let Some((leader, distance)) = distances.get(&value).filter(|_| !known) {
            let args = [Arg::from(*leader), Arg::Imm(i64::from(*distance as i32)), Arg::Zero(File::R)];
            computed.push((value, cursor.word(sass::Op::IADD3, &[], File::R, &args)));
        }
    }
    let renamed = |v: Value| computed.iter().find(|(old, _)| *old == v).map_or(v, |(_, new)| *new);
    function.map_uses_in(block, renamed);
}

#[cfg(test)]
mod tests {
    const LOOPS: &str = include_str!("../../tests/kernels/loops.ptx");

    /// The number of words that the loop carries after a pass.
    fn carried(after: &str) -> usize {
        let log = crate::passes::code_after(after, LOOPS);
        log.lines()
            .find(|line| line.starts_with('b') && line.contains('('))
            .map_or(0, |l| l.matches(":R").count())
    }

    #[test]
    fn variables_a_constant_apart_share_a_register() {
        assert_eq!(carried("combine"), 6, "a sum and five variables");
        assert_eq!(carried("iv-elim"), 3, "a sum, the base, and what is no sum of it");
    }
}
