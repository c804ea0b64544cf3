//! Bit test folding: replaces a comparison of a bitwise function with zero by the function's second result, a
//! predicate.
//!
//! ```text
//! v2:R = LOP3.LUT v0, v1, RZ, 0xc0, !PT
//! v3:P = ISETP.EQ.AND PT, v2, RZ, PT        →    v4:P = LOP3.LUT RZ, v0, v1, RZ, 0xc0, !PT
//! branch v3, b1, b2                              branch !v4, b1, b2
//! ```
//!
//! The machine's predicate means "not zero". Uses of a test for zero are therefore negated, which is free in guards,
//! branches and operands. RZ replaces the word result if it has no use. Runs after the passes that simplify predicates,
//! which recognize comparisons. Cost: linear in the instructions.

use crate::codegen::legalize;
use crate::context::{Context, PassResult};
use crate::opt::predicate_uses::{self, Opposite};
use ori::entity::Entity;
use ori::{Arg, Change, File, Function, Inst, InstData, Op, Value};
use rustc_hash::FxHashMap;
use sass::M;
use smallvec::{SmallVec, smallvec};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let tests = find(function, context);
    if tests.is_empty() {
        return Ok(Change::Nothing);
    }
    let mut opposites = FxHashMap::default();
    for (inst, test) in tests {
        if !context.fuel.burn() {
            break;
        }
        if test.is_negated {
            let predicate = test.data.results[0];
            opposites.insert(predicate, Opposite { of: predicate, is_negated: true });
        }
        function.insts[inst] = test.data;
    }
    predicate_uses::replace(function, &opposites);
    Ok(Change::Instructions)
}

/// What a comparison becomes.
struct Test {
    data: InstData,
    /// Is the new predicate the opposite of the old one?
    is_negated: bool,
}

fn find(function: &Function, context: &Context) -> Vec<(Inst, Test)> {
    let order: Vec<_> = function.blocks.keys().collect();
    let uses = function.use_counts(order.iter().copied());
    let mut words: FxHashMap<Value, &InstData> = FxHashMap::default();
    let mut tests = Vec::new();
    for block in &order {
        words.clear();
        for inst in &function.blocks[*block].insts {
            let data = &function.insts[*inst];
            if let ([result], None, true) = (&data.results[..], &data.guard, is_bitwise(data)) {
                words.insert(*result, data);
            }
            let test =
                bit_test(data, &words).filter(|t| legalize::is_legal(function, context.machine, &t.data));
            let Some(test) = test else { continue };
            // The word itself is not needed any more.
            let is_alone = tested_word(data).is_some_and(|word| uses[word.index()] == 1);
            if is_alone {
                tests.push((*inst, test));
            }
        }
    }
    let results = tests.iter().filter(|(_, t)| t.is_negated).map(|(_, t)| t.data.results[0]).collect();
    let fixed = predicate_uses::without_negation(function, &results);
    tests.retain(|(_, t)| !t.is_negated || !fixed.contains(&t.data.results[0]));
    tests
}

fn is_bitwise(data: &InstData) -> bool {
    data.op == Op::Machine(sass::Op::LOP3)
        && data.modifiers[..] == [M::LUT]
        && matches!(data.args[..], [_, _, _, Arg::Imm(_), Arg::True(false)])
}

/// The word that is compared with zero.
fn tested_word(data: &InstData) -> Option<Value> {
    let is_equality = matches!(data.modifiers[..], [M::EQ | M::NE, M::AND] | [M::EQ | M::NE, M::U32, M::AND]);
    let is_test = data.op == Op::Machine(sass::Op::ISETP) && is_equality && data.results.len() == 1;
    match (&data.args[..], &data.guard) {
        ([Arg::True(true), Arg::Use(u), Arg::Zero(File::R) | Arg::Imm(0), _], None)
            if is_test && u.is_plain() && u.part.is_none() =>
        {
            Some(u.value)
        }
        _ => None,
    }
}

/// The bitwise function that a comparison becomes; `!= 0` may be joined with another predicate.
fn bit_test(data: &InstData, words: &FxHashMap<Value, &InstData>) -> Option<Test> {
    let word = words.get(&tested_word(data)?)?;
    let is_negated = data.modifiers[0] == M::EQ;
    let other = *data.args.last()?;
    let is_joined = other != Arg::True(true);
    if is_joined && is_negated {
        return None;
    }
    let (modifiers, other): (SmallVec<[M; 4]>, _) = match is_joined {
        true => (smallvec![M::LUT, M::PAND], other),
        false => (smallvec![M::LUT], Arg::True(false)),
    };
    let mut args: SmallVec<[Arg; 6]> = smallvec![Arg::Zero(File::R)];
    args.extend_from_slice(&word.args[..4]);
    args.push(other);
    Some(Test { data: InstData { op: word.op, modifiers, args, ..data.clone() }, is_negated })
}
