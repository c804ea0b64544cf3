//! Cached analyses of one function, with invalidation.
//!
//! An analysis is computed on its first use and shared until a pass reports a [`Change`] that it depends on. Edges decide
//! the control-flow graph and the loop forest; instructions decide everything else, and their order divergence alone. The
//! pass driver calls
//! [`Analyses::invalidate`] with what a pass returns; a pass that asks again after its own changes must invalidate first.
//! [`Analyses::verify`] compares the cached graph with the function: a pass that changed edges and reported less is a bug.
//!
//! Queries return `Rc`s, so that a pass can hold an analysis while it changes the function.

use crate::cfg::Cfg;
use crate::divergence::Divergence;
use crate::entity::{Block, Inst};
use crate::function::Function;
use crate::liveness::Liveness;
use crate::loops::LoopForest;
use std::rc::Rc;

/// What a pass changed; a greater one includes the smaller ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// The function is as it was.
    Nothing,
    /// The order of instructions in their blocks.
    Order,
    /// Instructions, values, block parameters and arguments; edges go from block to block as before.
    Instructions,
    /// Blocks or edges, and perhaps instructions.
    ControlFlow,
}

impl Change {
    /// `self` if something happened, else nothing.
    pub fn when(self, happened: bool) -> Change {
        if happened { self } else { Change::Nothing }
    }
}

/// By value: the instruction that defines it, and its block; `None` for block parameters and values without a definition.
pub type Definitions = [Option<(Block, Inst)>];

/// The analyses of one function that are up to date, computed on demand.
#[derive(Default)]
pub struct Analyses {
    cfg: Option<Rc<Cfg>>,
    loops: Option<Rc<LoopForest>>,
    liveness: Option<Rc<Liveness>>,
    divergence: Option<Rc<Divergence>>,
    definitions: Option<Rc<Definitions>>,
}

impl Analyses {
    /// The control-flow graph with dominators.
    pub fn cfg(&mut self, function: &Function) -> Rc<Cfg> {
        self.cfg.get_or_insert_with(|| Rc::new(Cfg::new(function))).clone()
    }

    /// The loop forest.
    pub fn loops(&mut self, function: &Function) -> Rc<LoopForest> {
        let cfg = self.cfg(function);
        self.loops.get_or_insert_with(|| Rc::new(LoopForest::new(&cfg))).clone()
    }

    /// Live values of the blocks.
    pub fn liveness(&mut self, function: &Function) -> Rc<Liveness> {
        let cfg = self.cfg(function);
        self.liveness.get_or_insert_with(|| Rc::new(Liveness::new(function, &cfg))).clone()
    }

    /// Varying values and divergent blocks.
    pub fn divergence(&mut self, function: &Function) -> Rc<Divergence> {
        let cfg = self.cfg(function);
        self.divergence.get_or_insert_with(|| Rc::new(Divergence::new(function, &cfg))).clone()
    }

    /// Where each value is defined.
    pub fn definitions(&mut self, function: &Function) -> Rc<Definitions> {
        self.definitions.get_or_insert_with(|| Rc::from(function.definitions())).clone()
    }

    /// Drops what depends on a change.
    pub fn invalidate(&mut self, change: Change) {
        if change >= Change::Order {
            self.divergence = None;
        }
        if change >= Change::Instructions {
            (self.liveness, self.definitions) = (None, None);
        }
        if change >= Change::ControlFlow {
            (self.cfg, self.loops) = (None, None);
        }
    }

    /// Is the cached graph that of the function?
    pub fn verify(&self, function: &Function) -> Result<(), String> {
        let is_stale = self.cfg.as_ref().is_some_and(|cfg| {
            cfg.succs.len() != function.blocks.len()
                || function.blocks.keys().zip(&cfg.succs).any(|(block, succs)| {
                    let edges = function.blocks[block].end.edges();
                    !edges.iter().map(|edge| edge.to).eq(succs.iter().copied())
                })
        });
        if is_stale {
            Err("the control-flow graph changed, but the pass did not say so".into())
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfg::tests::graph;
    use crate::function::{Edge, Terminator};

    #[test]
    fn analyses_are_shared_until_invalidated() {
        let function = graph(&[&[1], &[1, 2], &[]]);
        let mut analyses = Analyses::default();
        let (cfg, liveness) = (analyses.cfg(&function), analyses.liveness(&function));
        assert!(Rc::ptr_eq(&cfg, &analyses.cfg(&function)));
        analyses.invalidate(Change::Order);
        assert!(Rc::ptr_eq(&liveness, &analyses.liveness(&function)));
        analyses.invalidate(Change::Instructions);
        assert!(!Rc::ptr_eq(&liveness, &analyses.liveness(&function)));
        assert!(Rc::ptr_eq(&cfg, &analyses.cfg(&function)));
        analyses.invalidate(Change::ControlFlow);
        assert!(!Rc::ptr_eq(&cfg, &analyses.cfg(&function)));
        assert_eq!(analyses.loops(&function).iter().count(), 1);
    }

    #[test]
    fn unreported_edge_change_is_found() {
        let mut function = graph(&[&[1], &[2], &[]]);
        let mut analyses = Analyses::default();
        analyses.cfg(&function);
        assert!(analyses.verify(&function).is_ok());
        function.blocks[Block(0)].end = Terminator::Jump(Edge::to(Block(2)));
        assert!(analyses.verify(&function).is_err());
        analyses.invalidate(Change::ControlFlow);
        assert!(analyses.verify(&function).is_ok());
    }
}
