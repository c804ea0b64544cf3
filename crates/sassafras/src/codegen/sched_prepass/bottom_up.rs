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

use super::dep_graph::{DepGraph, Edges};
use super::{P, PressureTracker, R};
use ori::entity::Entity;
use ori::{Function, Inst, Value};
use smallvec::SmallVec;

/// Appends the instructions of a window, the last one first. `tracker.remaining_uses` counts uses after what is placed.
pub fn place(function: &Function, graph: &DepGraph, tracker: &mut PressureTracker, out: &mut Vec<Inst>) {
    let mut window = Window {
        function,
        graph,
        preds: graph.preds(),
        unplaced_succs: (0..graph.insts.len()).map(|node| graph.succs(node).len()).collect(),
    };
    // In the order in which they became ready.
    let mut ready: Vec<usize> =
        (0..graph.insts.len()).filter(|node| window.unplaced_succs[*node] == 0).collect();
    while !ready.is_empty() {
        let node = ready.remove(window.best(&ready, tracker));
        tracker.place(graph.insts[node]);
        out.push(graph.insts[node]);
        for (pred, _) in window.preds.of(node) {
            window.unplaced_succs[*pred] -= 1;
            if window.unplaced_succs[*pred] == 0 {
                ready.push(*pred);
            }
        }
    }
}

struct Window<'a> {
    function: &'a Function,
    graph: &'a DepGraph,
    preds: Edges,
    /// Of each node: edges to nodes that are not placed.
    unplaced_succs: Vec<usize>,
}

impl Window<'_> {
    /// The index of the next node: the newest one that takes no register by itself, else of those that take least in the
    /// end. The results of the newest ones were needed by what was placed last.
    fn best(&self, ready: &[usize], tracker: &PressureTracker) -> usize {
        let mut best = (i32::MAX, 0);
        for index in (0..ready.len()).rev().take(tracker.params.low_pressure_candidates) {
            let (first, least) = self.growth(ready[index], tracker);
            if first <= 0 {
                return index;
            }
            best = if least < best.0 { (least, index) } else { best };
        }
        best.1
    }

    /// By how many words of R and P the pressure is higher before a node than after it; and the least of that and of the
    /// same before operands that are needed for it alone. In a chain the first step often takes more than it gives back.
    fn growth(&self, node: usize, tracker: &PressureTracker) -> (i32, i32) {
        let mut begun: SmallVec<[Value; 16]> = SmallVec::new();
        let mut reached: SmallVec<[(usize, usize); 16]> = SmallVec::new();
        let mut pending: SmallVec<[usize; 8]> = SmallVec::from_slice(&[node]);
        let (mut words, mut first, mut least, mut steps) = (0, None, i32::MAX, 0);
        while let Some(next) = pending.pop() {
            let inst = self.graph.insts[next];
            for result in &self.function.insts[inst].results {
                if tracker.remaining_uses[result.index()] > 0 || begun.contains(result) {
                    words -= tracker.words(*result);
                }
            }
            for (value, _) in tracker.uses.of(inst) {
                if tracker.remaining_uses[value.index()] == 0 && !begun.contains(value) {
                    words += tracker.words(*value);
                    begun.push(*value);
                }
            }
            first.get_or_insert(words);
            least = least.min(words);
            steps += 1;
            if least <= 0 || steps == tracker.params.low_pressure_ahead {
                break;
            }
            for (pred, _) in self.preds.of(next) {
                let count = match reached.iter_mut().find(|(node, _)| node == pred) {
                    Some((_, count)) => count,
                    None => {
                        reached.push((*pred, 0));
                        let last = reached.len() - 1;
                        &mut reached[last].1
                    }
                };
                *count += 1;
                if *count == self.unplaced_succs[*pred] {
                    pending.push(*pred);
                }
            }
        }
        (first.unwrap_or(least), least)
    }
}

impl PressureTracker {
    fn words(&self, value: Value) -> i32 {
        match self.weights[value.index()] {
            (R | P, words) => words,
            _ => 0,
        }
    }

    /// Its operands are live before it.
    fn place(&mut self, inst: Inst) {
        let uses = self.uses.of(inst).iter();
        uses.for_each(|(value, count)| self.remaining_uses[value.index()] += count);
    }
}
