//! The cost model of uniform webs: decides which of the values that may be uniform become uniform.
//!
//! | | general | uniform | |
//! |---|---|---|---|
//! | issue slots | 1 | 1 | a counterpart replaces its original |
//! | result to the same datapath | 4 cycles | 4 | a recurrence costs nothing extra |
//! | result to general arithmetic | 4 | 6 | `sass::model`, measured in ptxas's code |
//! | result to an address | 5 | 9 | profitable if the address takes both registers and an addition is removed |
//! | a move between the files | – | R2UR or MOV | avoided: all readers must be uniform or have a form |
//! | registers | 255, shared by all resident threads | 63 (80 from sm_100 on) per warp | |
//!
//! A web saves general registers at the price of two cycles for each result that general code reads. If the result
//! changes in each iteration of a loop and decides whether to continue, these two cycles are part of each iteration.
//! ptxas keeps such counters in general registers, and so do we ([`Webs::delays_loop`]). The number of words live
//! across blocks, and live at once, is limited; those with the fewest readers are removed, together with everything
//! that depends on them, and the rest of the web stays.

use super::{Reader, Source, Webs};
use ori::entity::Entity;
use ori::{Block, File, Inst, Value};
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::BTreeSet;

impl Webs<'_> {
    /// Is it computed anew in each iteration, and compared by a general instruction there? Branches wait for comparisons.
    pub(super) fn delays_loop(&self, value: Value, (block, reader): (Block, Inst)) -> bool {
        let results = &self.function.insts[reader].results;
        let compares = results.iter().any(|v| self.function.values[*v].file == File::P);
        let defined = match self.source[value.index()] {
            Source::Inst(block, _) => self.place[block.index()],
            Source::Param(block, _) => Some(block),
            Source::None => None,
        };
        let in_loop = self.loops.innermost(block);
        compares && in_loop.is_some() && defined.is_some_and(|b| self.loops.innermost(b) == in_loop)
    }

    /// Removes members until those that live from block to block fit, and beside them those that live at once in a block.
    pub(super) fn limit(&mut self, max_across: usize, max_words: usize) {
        let mut across: Vec<Value> = self.members().filter(|v| self.lives_across(*v)).collect();
        across.sort_by_key(|v| (Reverse(self.readers(*v).len()), *v));
        let mut words = 0;
        let mut removed = false;
        for &value in &across {
            let fits = words + self.words(value) <= max_across;
            self.is_member[value.index()] = fits;
            words += if fits { self.words(value) } else { 0 };
            removed |= !fits;
        }
        let across: FxHashSet<Value> = across.into_iter().collect();
        for &block in &self.cfg.order {
            removed |= self.limit_block(block, &across, max_words.saturating_sub(words));
        }
        if removed {
            let all = self.members().collect();
            self.shrink(all);
        }
    }

    /// Removes members that live within a block where too many do at once: those with the fewest readers. Was there one?
    fn limit_block(&mut self, block: Block, across: &FxHashSet<Value>, max_words: usize) -> bool {
        let (mut live, mut words, mut removed) = (BTreeSet::new(), 0, false);
        for inst in self.function.blocks[block].insts.iter().rev() {
            let data = &self.function.insts[*inst];
            for value in data.results.iter().filter(|v| live.remove(&(self.readers(**v).len(), **v))) {
                words -= usize::from(self.function.values[*value].words);
            }
            for value in data.uses().filter(|v| self.is_member[v.index()] && !across.contains(v)) {
                if live.insert((self.readers(value).len(), value)) {
                    words += usize::from(self.function.values[value].words);
                }
            }
            while words > max_words
                && let Some((_, value)) = live.pop_first()
            {
                words -= usize::from(self.function.values[value].words);
                self.is_member[value.index()] = false;
                removed = true;
            }
        }
        removed
    }

    fn words(&self, value: Value) -> usize {
        self.function.values[value].words.into()
    }

    fn lives_across(&self, value: Value) -> bool {
        let Source::Inst(block, _) = self.source[value.index()] else { return true };
        let from = self.place[block.index()];
        let is_elsewhere = |(block, reader): &(Block, Reader)| match reader {
            Reader::Inst(inst) if self.is_uniform(*inst) => self.place[block.index()] != from,
            _ => Some(*block) != from,
        };
        self.function.values[value].file == File::R && self.readers(value).iter().any(is_elsewhere)
    }
}
