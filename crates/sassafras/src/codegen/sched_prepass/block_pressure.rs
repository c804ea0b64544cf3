//! The register pressure of blocks in the best order, kept while the function stays as it is: `remat` asks for it with
//! several goals, the scheduler for its register goal.
//!
//! An order is looked for only where it could matter: not in blocks whose own order takes no more than another block in
//! any order.

use super::{PressureTracker, R, register_goal};
use crate::context::Context;
use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{Block, Cfg, Function};
use std::rc::Rc;

pub struct BlockPressure {
    pub(super) cfg: Rc<Cfg>,
    pub(super) live: Rc<Liveness>,
    pub(super) tracker: PressureTracker,
    /// By block.
    known: Vec<Option<Lowest>>,
}

/// The pressure of a block in the best order that was found.
#[derive(Clone, Copy)]
struct Lowest {
    words: i32,
    /// No better order was looked for than one of so many words.
    enough: i32,
    /// What the present order takes.
    own: i32,
    /// What every order takes at least: what is live at the ends of the block, or where it calls a routine.
    least: i32,
}

impl Lowest {
    /// Would a search that ends at `enough` words find the same, or is it less than these anyway?
    fn holds_for(&self, enough: i32) -> bool {
        self.words <= enough || self.enough <= enough
    }
}

impl BlockPressure {
    pub fn new(function: &Function, context: &mut Context) -> BlockPressure {
        let cfg = context.analyses.cfg(function);
        let live = context.analyses.liveness(function);
        let loops = context.analyses.loops(function);
        let mut tracker = PressureTracker::new(function, &cfg, context);
        tracker.discount_rematerializable(function, (&cfg, &loops), &live);
        BlockPressure { cfg, live, tracker, known: vec![None; function.blocks.len()] }
    }

    /// Of a block; orders that take less than `enough` are not looked for.
    pub fn lowest(&mut self, function: &Function, block: Block, enough: i32) -> i32 {
        let present = self.present(function, block);
        if present.holds_for(enough) {
            return present.words;
        }
        self.tracker.begin_block(function, &self.live, block);
        let insts = &function.blocks[block].insts;
        let words = self.tracker.min_pressure(function, insts, present.own, enough.max(present.least));
        let words = words.max(present.least);
        self.known[block.index()] = Some(Lowest { words, enough, ..present });
        words
    }

    /// What is known of a block: that of its own order at least.
    fn present(&mut self, function: &Function, block: Block) -> Lowest {
        let (tracker, live) = (&mut self.tracker, &self.live);
        *self.known[block.index()].get_or_insert_with(|| {
            tracker.begin_block(function, live, block);
            let (max, at_ends) = tracker.pressure_of(function, &function.blocks[block].insts);
            let least = at_ends[R].max(register_goal::routine_pressure(function, live, tracker, block));
            Lowest { words: max[R].max(least), enough: max[R], own: max[R], least }
        })
    }

    /// The most that a block takes, or `least` if that is more. The search ends where it is above `most`.
    pub fn of_all(&mut self, function: &Function, least: i32, most: i32) -> i32 {
        let cfg = self.cfg.clone();
        let known = cfg.order.iter().map(|block| (self.present(function, *block), *block));
        let mut blocks: Vec<(Lowest, Block)> = known.collect();
        let mut needed = blocks.iter().fold(least, |needed, (known, _)| needed.max(known.least));
        // With the highest one first, few others can be above it.
        blocks.sort_by_key(|(known, block)| (-known.words, block.index()));
        for (known, block) in blocks {
            if needed > most || known.words <= needed {
                break;
            }
            needed = needed.max(self.lowest(function, block, needed));
        }
        needed
    }
}
