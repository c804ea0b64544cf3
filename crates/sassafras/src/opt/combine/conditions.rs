//! Dominating-condition elimination: a predicate is a constant in blocks reached only through one edge of a branch on
//! it.
//!
//! ```text
//!     branch v1, b2, b3                      branch v1, b2, b3
//! b2: @!v1 v3 = LDG …, else v2          →    b2: …                    (uses of v3 read v2)
//!     branch v1, b4, b5                      jump b4
//! ```
//!
//! Front ends guard a long division by a test whether a short one is sufficient, and its expansion tests again. A block
//! with a single incoming edge learns the value of the branch's predicate, of its comparison, and of the opposite
//! comparison. These facts hold in all blocks that it dominates, because the predicate keeps its value until a path
//! passes the branch again.

use super::Combine;
use super::expressions::{Expressions, Key};
use crate::analysis::relations::complement;
use ori::entity::Entity;
use ori::{Arg, Block, InstData, Op, Terminator, Value};
use rustc_hash::FxHashMap;
use sass::M;
use smallvec::SmallVec;

/// The blocks from which on a condition is known, in the order of the walk.
type Known = SmallVec<[(Block, bool); 2]>;

#[derive(Default)]
pub(super) struct Conditions {
    predicates: FxHashMap<Value, Known>,
    /// Comparisons, and by their numbers what is known of them.
    comparisons: Expressions,
    outcomes: Vec<Known>,
}

impl Combine<'_> {
    /// Learns what the only edge to a block says.
    pub(super) fn learn_condition(&mut self, block: Block) {
        let [pred] = self.cfg.preds[block.index()][..] else { return };
        let Terminator::Branch { predicate, negated, yes, .. } = &self.function.blocks[pred].end else {
            return;
        };
        let holds = (yes.to == block) != *negated;
        let predicate = self.find(*predicate);
        self.conditions.predicates.entry(predicate).or_default().push((block, holds));
        let Some(comparison) = self.definition_of(predicate).and_then(comparison) else { return };
        let same = (key(comparison), holds);
        let opposite = opposite(comparison).map(|comparison| (key(comparison), !holds));
        for (key, holds) in std::iter::once(same).chain(opposite) {
            let (number, is_new) = self.conditions.comparisons.add(&key);
            if is_new {
                self.conditions.outcomes.push(Known::new());
            }
            self.conditions.outcomes[number].push((block, holds));
        }
    }

    /// What a predicate is in the current block, if that is known.
    pub(super) fn known_predicate(&self, value: Value) -> Option<bool> {
        match self.known[value.index()] {
            Some(bits) => Some(bits != 0),
            None => self.holds_here(self.conditions.predicates.get(&value)?),
        }
    }

    /// The outcome of a comparison that a dominating branch made.
    pub(super) fn known_comparison(&self, data: &InstData) -> Option<bool> {
        if self.conditions.outcomes.is_empty() {
            return None;
        }
        let number = self.conditions.comparisons.find(&key(comparison(data)?))?;
        self.holds_here(&self.conditions.outcomes[number])
    }

    fn holds_here(&self, known: &Known) -> Option<bool> {
        let reaches = |(from, _): &&(Block, bool)| self.cfg.dominates(*from, self.block);
        let mut latest = known.iter().rev().take(self.tuning.combine_conditions as usize);
        latest.find(reaches).map(|(_, holds)| *holds)
    }
}

/// A relation of two words; is it one of unsigned numbers?
#[derive(Clone, Copy)]
struct Comparison<'a> {
    relation: M,
    is_unsigned: bool,
    words: &'a [Arg],
}

fn comparison(data: &InstData) -> Option<Comparison<'_>> {
    let is_plain = data.op == Op::Machine(sass::Op::ISETP) && data.guard.is_none() && data.results.len() == 1;
    let [Arg::True(true), words @ .., Arg::True(true)] = &data.args[..] else { return None };
    let (relation, is_unsigned) = match data.modifiers[..] {
        [relation, M::AND] => (relation, false),
        [relation, M::U32, M::AND] => (relation, true),
        _ => return None,
    };
    is_plain.then_some(Comparison { relation, is_unsigned, words })
}

fn opposite(comparison: Comparison) -> Option<Comparison> {
    let relation = complement(sass::Op::ISETP, comparison.relation)?;
    Some(Comparison { relation, ..comparison })
}

/// Signed or not, equality is the same.
fn key(Comparison { relation, is_unsigned, words }: Comparison) -> Key {
    let is_order = !matches!(relation, M::EQ | M::NE);
    let modifiers: &[M] = if is_unsigned && is_order { &[relation, M::U32] } else { &[relation] };
    Key::new(Op::Machine(sass::Op::ISETP), modifiers, words.iter(), std::iter::empty(), None)
}
