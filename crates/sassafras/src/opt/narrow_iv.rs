//! Counters of 64 bits that never leave their lower word.
//!
//! LLVM widens the counter of a loop to 64 bits where an address needs it. If the way back is only taken while the next
//! count is below a bound of one word, and the first count is a word, then the upper word is zero all the time: the loop
//! carries the lower one alone, and what is computed of the upper one goes away in `combine`.

use crate::analysis::known_bits::{self, Definitions};
use crate::context::Context;
use crate::opt::combine;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, File, Function, InstData, Op, Part, Pseudo, Terminator, Value};
use sass::M;
use smallvec::smallvec;

pub fn run(function: &mut Function, context: &mut Context) -> Result<(), String> {
    let cfg = Cfg::new(function);
    if cfg.headers().next().is_none() {
        return Ok(());
    }
    let definitions = function.definitions();
    let mut found = Vec::new();
    for header in cfg.headers() {
        for place in 0..function.blocks[header].params.len() {
            if let Some(ways) =
                small(function, &cfg, &definitions, header, place, context.tuning.known_bits_depth)
                && context.fuel.burn()
            {
                found.push((header, place, ways));
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    found.into_iter().for_each(|(header, place, ways)| narrow(function, header, place, ways));
    combine::run(function, context)
}

/// The lower word of a counter on a way to the header; none where it is zero.
type Way = (Block, Option<Value>);

/// Whether a parameter is a counter of two words whose upper one is always zero: its lower word on each way in.
fn small(
    function: &Function,
    cfg: &Cfg,
    definitions: &Definitions,
    header: Block,
    place: usize,
    depth: u32,
) -> Option<Vec<Way>> {
    let data = function.values[function.blocks[header].params[place]];
    if data.file != File::R || data.words != 2 {
        return None;
    }
    let define = |value| known_bits::definition(function, definitions, value);
    let words = known_bits::Words { define: &define, zeros: &|_| 0, depth };
    let way = |from: &Block| {
        let mut edges = function.blocks[*from].end.edges().into_iter().filter(|e| e.to == header);
        let (edge, None) = (edges.next()?, edges.next()) else { return None };
        let made = define(*edge.args.get(place)?)?;
        match (made.op, &made.args[..]) {
            (Op::Machine(sass::Op::CS2R), [Arg::Name(M::SRZ)]) => Some((*from, None)),
            (Op::Pseudo(Pseudo::Pack), [low, high]) => {
                let zero = words.of(high).most == 0
                    || cfg.dominates(header, *from) && is_bounded(function, definitions, *from, header, high);
                zero.then_some((*from, Some(word(function, low)?)))
            }
            _ => None,
        }
    };
    cfg.preds[header.index()].iter().map(way).collect()
}

/// A value of one word.
fn word(function: &Function, arg: &Arg) -> Option<Value> {
    match arg {
        Arg::Use(u) if u.is_plain() && function.values[u.value].words == 1 => Some(u.value),
        _ => None,
    }
}

/// Is the way to the header only taken where a number of 64 bits with this upper word is below one of 32 bits?
fn is_bounded(
    function: &Function,
    definitions: &Definitions,
    from: Block,
    header: Block,
    high: &Arg,
) -> bool {
    let Terminator::Branch { predicate, negated, yes, .. } = &function.blocks[from].end else { return false };
    let holds = (yes.to == header) != *negated;
    let Some(test) = known_bits::definition(function, definitions, *predicate) else { return false };
    let ([compare, M::U32, M::AND, M::EX], [_, upper, bound, Arg::True(true), _]) =
        (&test.modifiers[..], &test.args[..])
    else {
        return false;
    };
    let below = if holds { matches!(compare, M::LT | M::LE) } else { matches!(compare, M::GT | M::GE) };
    let first = test.results.first() == Some(predicate);
    test.op == Op::Machine(sass::Op::ISETP) && first && below && upper == high && *bound == Arg::Zero(File::R)
}

/// The header gets the lower word, and puts the counter together for those who use it.
fn narrow(function: &mut Function, header: Block, place: usize, ways: Vec<Way>) {
    let low = function.value(File::R, 1);
    for (from, word) in ways {
        let word = word.unwrap_or_else(|| zero(function, from));
        for edge in function.blocks[from].end.edges_mut() {
            if edge.to == header {
                edge.args[place] = word;
            }
        }
    }
    let counter = std::mem::replace(&mut function.blocks[header].params[place], low);
    take_low(function, counter, low);
    let mut insts = std::mem::take(&mut function.blocks[header].insts);
    let high = zero(function, header);
    function.append(header, made(Op::Pseudo(Pseudo::Pack), counter, &[low.into(), high.into()]));
    function.blocks[header].insts.append(&mut insts);
}

/// Who uses the lower word of a counter gets it from there, so that it is seen to advance.
fn take_low(function: &mut Function, counter: Value, low: Value) {
    for inst in function.insts.keys() {
        for arg in &mut function.insts[inst].args {
            if let Arg::Use(u) = arg
                && u.value == counter
                && u.part == Some(Part { first: 0, count: 1 })
            {
                (u.value, u.part) = (low, None);
            }
        }
    }
}

fn zero(function: &mut Function, block: Block) -> Value {
    let value = function.value(File::R, 1);
    function.append(block, made(Op::Machine(sass::Op::MOV), value, &[Arg::Imm(0)]));
    value
}

fn made(op: Op, result: Value, args: &[Arg]) -> InstData {
    InstData { op, modifiers: smallvec![], results: smallvec![result], args: args.into(), guard: None, at: 0 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn loops_carry_the_lower_words() {
        let source = include_str!("../../tests/kernels/counters.ptx");
        let pairs = |pass: &str| {
            let log = crate::passes::code_after(pass, source);
            let headers = log.lines().filter(|line| line.starts_with('b') && line.contains('('));
            headers.map(|l| l.matches(":R2").count()).collect::<Vec<_>>()
        };
        assert_eq!(pairs("combine"), [1, 1]);
        assert_eq!(pairs("narrow-iv"), [0, 0]);
    }
}
