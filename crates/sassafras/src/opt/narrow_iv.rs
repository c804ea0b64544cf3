//! Induction variable narrowing: carries a 64-bit counter in one register if its upper word is always zero.
//!
//! LLVM widens the induction variable of a loop to 64 bits if an address needs it. If the back edge is taken only while
//! the next value is below a one-word bound, and the initial value is one word, the upper word is always zero. The
//! clean-up pass `combine` then removes computations of the upper word.
//!
//! ```text
//! b1(v6:R2):                             b1(v13:R):
//!   v10:R2 = v6 + 0x40              →      v6:R2 = Pack v13, 0
//!   v12:P = v10 < zext(v3)                 v7:R = v13 + 0x40
//!   branch v12, b1(v10), b2                branch v12, b1(v7), b2
//! ```
//!
//! Postcondition: a narrowed header parameter has one word; its old value is a `Pack` in the header. Cost: linear in
//! the parameters of loop headers.

use crate::analysis::known_bits::{self, Definitions};
use crate::context::{Context, PassResult};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Change, Cursor, File, Function, InstData, Op, Part, Pseudo, Terminator, Value};
use sass::M;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    if cfg.headers().next().is_none() {
        return Ok(Change::Nothing);
    }
    let definitions = context.analyses.definitions(function);
    let mut found = Vec::new();
    for header in cfg.headers() {
        for index in 0..function.blocks[header].params.len() {
            let depth = context.tuning.known_bits_depth;
            if let Some(incoming) = narrow_counter(function, &cfg, &definitions, header, index, depth)
                && context.fuel.burn()
            {
                found.push((header, index, incoming));
            }
        }
    }
    let change = Change::Instructions.when(!found.is_empty());
    found.into_iter().for_each(|(header, index, incoming)| narrow(function, header, index, incoming));
    Ok(change)
}

/// A predecessor of the header, and the lower word of the counter on its edge; `None` for a constant zero.
type Incoming = (Block, Option<Value>);

/// The lower word of a header parameter on each edge, if it has two words and the upper one is always zero.
fn narrow_counter(
    function: &Function,
    cfg: &Cfg,
    definitions: &Definitions,
    header: Block,
    index: usize,
    depth: u32,
) -> Option<Vec<Incoming>> {
    let data = function.values[function.blocks[header].params[index]];
    if data.file != File::R || data.words != 2 {
        return None;
    }
    let define = |value| known_bits::definition(function, definitions, value);
    let words = known_bits::Words { define: &define, zeros: &|_| 0, depth };
    let incoming = |from: &Block| {
        let mut edges = function.blocks[*from].end.edges().into_iter().filter(|e| e.to == header);
        let (edge, None) = (edges.next()?, edges.next()) else { return None };
        let count = define(*edge.args.get(index)?)?;
        match (count.op, &count.args[..]) {
            (Op::Machine(sass::Op::CS2R), [Arg::Name(M::SRZ)]) => Some((*from, None)),
            (Op::Pseudo(Pseudo::Pack), [low, high]) => {
                let zero = words.of(high).most == 0
                    || cfg.dominates(header, *from) && is_bounded(function, definitions, *from, header, high);
                zero.then_some((*from, Some(word(function, low)?)))
            }
            _ => None,
        }
    };
    cfg.preds[header.index()].iter().map(incoming).collect()
}

/// A value of one word.
fn word(function: &Function, arg: &Arg) -> Option<Value> {
    match arg {
        Arg::Use(u) if u.is_plain() && function.values[u.value].words == 1 => Some(u.value),
        _ => None,
    }
}

/// Is the edge to the header taken only where a 64-bit number with this upper word is below one of 32 bits?
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

/// Makes the lower word the parameter, and packs the counter from it at the start of the header.
fn narrow(function: &mut Function, header: Block, index: usize, incoming: Vec<Incoming>) {
    let low = function.value(File::R, 1);
    for (from, word) in incoming {
        let word = word.unwrap_or_else(|| zero(&mut Cursor::at_end(function, from)));
        for edge in function.blocks[from].end.edges_mut() {
            if edge.to == header {
                edge.args[index] = word;
            }
        }
    }
    let counter = std::mem::replace(&mut function.blocks[header].params[index], low);
    use_lower_word(function, counter, low);
    let mut cursor = Cursor::at_start(function, header);
    let high = zero(&mut cursor);
    cursor.insert(InstData::new(Op::Pseudo(Pseudo::Pack), &[counter], &[low.into(), high.into()]));
}

/// Uses of the lower word of a counter read the parameter itself, so that it is seen to advance.
fn use_lower_word(function: &mut Function, counter: Value, low: Value) {
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

fn zero(cursor: &mut Cursor) -> Value {
    cursor.word(sass::Op::MOV, &[], File::R, &[Arg::Imm(0)])
}

#[cfg(test)]
mod tests {
    #[test]
    fn bounded_counter_is_one_word() {
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
