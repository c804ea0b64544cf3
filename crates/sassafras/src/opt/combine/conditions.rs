//! Conditions that a dominating branch decides: where only one of its edges leads, its predicate is a constant.
//!
//! ```text
//!     branch v1, b2, b3                      branch v1, b2, b3
//! b2: @!v1 v3 = LDG …, else v2          →    b2: …                    (uses of v3 read v2)
//!     branch v1, b4, b5                      jump b4
//! ```
//!
//! Front ends ask before a long division whether a short one does, and its expansion asks again. A block with one
//! incoming edge learns from it; what is learnt holds in all blocks that it dominates, since the predicate has no other
//! value until a path comes through the branch again.

use super::Combine;
use ori::entity::Entity;
use ori::{Block, Terminator, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// For each predicate, the blocks from which on it is known, in the order of the walk.
#[derive(Default)]
pub(super) struct Conditions(FxHashMap<Value, SmallVec<[(Block, bool); 2]>>);

impl Combine<'_> {
    /// Learns what the only edge to a block says.
    pub(super) fn learn_condition(&mut self, block: Block) {
        let [pred] = self.cfg.preds[block.index()][..] else { return };
        if let Terminator::Branch { predicate, negated, yes, .. } = &self.function.blocks[pred].end {
            let holds = (yes.to == block) != *negated;
            let predicate = self.find(*predicate);
            self.conditions.0.entry(predicate).or_default().push((block, holds));
        }
    }

    /// What a predicate is in the current block, if that is known.
    pub(super) fn known_predicate(&self, value: Value) -> Option<bool> {
        if let Some(bits) = self.known[value.index()] {
            return Some(bits != 0);
        }
        let known = self.conditions.0.get(&value)?;
        let holds_here = |(from, _): &&(Block, bool)| self.cfg.dominates(*from, self.block);
        known.iter().rev().find(holds_here).map(|(_, holds)| *holds)
    }
}
