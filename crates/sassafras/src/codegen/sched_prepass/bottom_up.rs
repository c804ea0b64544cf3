//! An order of low register pressure: bottom-up list scheduling that picks what leaves the fewest registers live
//! (register reduction; Goodman & Hsu, "Code Scheduling and Register Allocation in Large Basic Blocks", ICS 1988, count
//! the same top-down).
//!
//! From the end of a block on, an instruction makes its operands live and ends the live ranges of its results. Of those
//! whose successors are all placed, the one with the least sum is next: it comes before them. Unlike the walk from anchors
//! ([`min_pressure`](super::min_pressure)) it finds that loads of a layer are best reduced before the next ones:
//!
//! ```text
//! v1 = LDG ..; v2 = LDG ..; v3 = LDG ..; v4 = LDG ..        v1 = LDG ..; v2 = LDG ..
//! STG .., v0                                           ==>  v5 = IADD3 v1, v2, RZ
//! v5 = IADD3 v1, v2, RZ; STG .., v5                         v3 = LDG ..; v4 = LDG ..
//! v6 = IADD3 v3, v4, RZ; STG .., v6                         v6 = IADD3 v3, v4, RZ
//!                                                           STG .., v0; STG .., v5; STG .., v6
//! ```
//!
//! Afterwards the order respects the dependence graph. Linear in the code times the length of the ready list, which a
//! window bounds.

use super::dep_graph::DepGraph;
use super::{P, PressureTracker, R};
use ori::entity::Entity;
use ori::{Function, Inst, Value};

/// Appends the instructions of a window, the last one first. `tracker.remaining_uses` counts uses after what is placed.
pub fn place(function: &Function, graph: &DepGraph, tracker: &mut PressureTracker, out: &mut Vec<Inst>) {
    let preds = graph.preds();
    let mut unplaced_succs: Vec<usize> = (0..graph.insts.len()).map(|node| graph.succs(node).len()).collect();
    // In the order in which they became ready.
    let mut ready: Vec<usize> = (0..graph.insts.len()).filter(|node| unplaced_succs[*node] == 0).collect();
    loop {
        // The newest one among equals: its operands are needed by what was placed last.
        let cost = |index: usize| tracker.growth(function, graph.insts[ready[index]]);
        let Some(best) = (0..ready.len()).rev().min_by_key(|index| cost(*index)) else { return };
        let node = ready.remove(best);
        tracker.place(graph.insts[node]);
        out.push(graph.insts[node]);
        for (pred, _) in &preds[node] {
            unplaced_succs[*pred] -= 1;
            if unplaced_succs[*pred] == 0 {
                ready.push(*pred);
            }
        }
    }
}

impl PressureTracker {
    /// By how many words of R and P the pressure before an instruction is higher than after it.
    fn growth(&self, function: &Function, inst: Inst) -> i32 {
        let words = |value: Value| match self.weights[value.index()] {
            (R | P, words) => words,
            _ => 0,
        };
        let is_live = |value: Value| self.remaining_uses[value.index()] > 0;
        let begun = self.uses.of(inst).iter().filter(|(v, _)| !is_live(*v)).map(|(v, _)| words(*v));
        let ended = function.insts[inst].results.iter().filter(|v| is_live(**v)).map(|v| words(*v));
        begun.sum::<i32>() - ended.sum::<i32>()
    }

    /// Its operands are live before it.
    fn place(&mut self, inst: Inst) {
        self.uses.of(inst).iter().for_each(|(v, count)| self.remaining_uses[v.index()] += count);
    }
}
