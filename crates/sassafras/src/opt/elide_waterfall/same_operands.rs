//! Waterfall loop elision for operands that are the same for all threads.
//!
//! ```text
//! b1: v2:UR = R2UR v1                            b1: jump b2
//!     v3:P = ISETP.EQ.U32.AND PT, v1, v2, PT  →
//!     branch v3, b2, b3                          b2: v4:UR = R2UR v1; SYNCS.EXCH.64 v4, …
//! b2: v4:UR = R2UR v1; SYNCS.EXCH.64 v4, …           jump b3
//!     jump b3                                    b3: jump b4
//! b3: branch v3, b4, b1
//! ```
//!
//! A word that is the same for all threads that read it equals the word that `R2UR` takes from any of them. The pass
//! repeats as long as it removes a branch, because values after a loop differ between threads only while the loop
//! exists. Cost: linear in the code plus a divergence analysis, per repetition.

use crate::context::Context;
use ori::analyses::Definitions;
use ori::{Arg, Block, Change, Divergence, Function, InstData, Op, Terminator, Value};
use sass::{M, Op as Name};

pub fn run(function: &mut Function, context: &mut Context) -> Change {
    let mut change = Change::Nothing;
    while fold_branches(function, context) {
        change = Change::ControlFlow;
        context.analyses.invalidate(change);
    }
    change
}

/// Branches on predicates that are the same for all threads become jumps. Was there one?
fn fold_branches(function: &mut Function, context: &mut Context) -> bool {
    let is_taken_from_a_thread = |i| function.insts[i].op == Op::Machine(Name::R2UR);
    if !function.insts.keys().any(is_taken_from_a_thread) {
        return false;
    }
    let cfg = context.analyses.cfg(function);
    let definitions = context.analyses.definitions(function);
    let branches: Vec<(Block, Value)> = cfg
        .order
        .iter()
        .filter_map(|block| match function.blocks[*block].end {
            Terminator::Branch { predicate, .. } => Some((*block, predicate)),
            _ => None,
        })
        .collect();
    let depth = context.tuning.waterfall_conjunctions as usize;
    let compares =
        |value: Value| Known { function, definitions: &definitions, divergence: None }.of(value, depth);
    if !branches.iter().any(|(_, predicate)| compares(*predicate).is_some()) {
        return false;
    }
    let divergence = context.analyses.divergence(function);
    let known = Known { function, definitions: &definitions, divergence: Some(&divergence) };
    let known: Vec<(Block, bool)> = branches
        .into_iter()
        .filter_map(|(block, predicate)| Some((block, known.of(predicate, depth)?)))
        .filter(|_| context.fuel.burn())
        .collect();
    for (block, truth) in &known {
        if let Terminator::Branch { negated, yes, no, .. } = &function.blocks[*block].end {
            let edge = if truth != negated { yes } else { no };
            function.blocks[*block].end = Terminator::Jump(edge.clone());
        }
    }
    !known.is_empty()
}

/// Predicates that compare words of threads.
struct Known<'a> {
    function: &'a Function,
    definitions: &'a Definitions,
    /// Without it all words count as the same for all threads.
    divergence: Option<&'a Divergence>,
}

impl Known<'_> {
    /// The truth of a predicate that depends on such comparisons only.
    fn of(&self, value: Value, depth: usize) -> Option<bool> {
        let data = self.definition(value).filter(|data| data.results.first() == Some(&value))?;
        let depth = depth.checked_sub(1)?;
        let of = |arg: &Arg| match arg {
            Arg::True(truth) => Some(*truth),
            Arg::Use(u) if u.is_plain() => self.of(u.value, depth),
            _ => None,
        };
        match (data.op, &data.args[..]) {
            // Have other threads another word?
            (Op::Machine(Name::R2UR), [word]) => {
                (data.results.len() == 2 && data.modifiers.is_empty() && self.is_same(word)).then_some(false)
            }
            (Op::Machine(Name::ISETP), [Arg::True(_), a, b, other]) => {
                let is_equality = data.modifiers[..] == [M::EQ, M::U32, M::AND];
                (is_equality && self.are_equal(a, b) && of(other)?).then_some(true)
            }
            (Op::Machine(Name::PLOP3), [Arg::True(_), a, b, c, Arg::Imm(table), _]) => {
                let row = [a, b, c].iter().try_fold(0, |row, arg| Some(row << 1 | i64::from(of(arg)?)))?;
                Some(table >> row & 1 == 1)
            }
            _ => None,
        }
    }

    fn definition(&self, value: Value) -> Option<&InstData> {
        let (_, inst) = self.definitions[ori::entity::Entity::index(value)]?;
        Some(&self.function.insts[inst]).filter(|data| data.guard.is_none())
    }

    fn is_same(&self, word: &Arg) -> bool {
        match word {
            Arg::Use(u) => self.divergence.is_none_or(|divergence| !divergence.varies(u.value)),
            _ => false,
        }
    }

    /// Is the second a uniform register with the word of some thread, or with the constant that the first is?
    fn are_equal(&self, word: &Arg, uniform: &Arg) -> bool {
        let definition = |arg: &Arg| match arg {
            Arg::Use(u) if u.is_plain() && u.part.is_none() => self.definition(u.value),
            _ => None,
        };
        let Some(data) = definition(uniform).filter(|data| data.modifiers.is_empty()) else { return false };
        match (data.op, &data.args[..]) {
            (Op::Machine(Name::R2UR), [taken]) => taken == word && self.is_same(word),
            (Op::Machine(Name::UMOV), [Arg::Imm(n)]) => {
                let moved = definition(word).filter(|data| data.op == Op::Machine(Name::MOV));
                *word == Arg::Imm(*n) || moved.is_some_and(|data| data.args[..] == [Arg::Imm(*n)])
            }
            _ => false,
        }
    }
}
