//! An order that keeps few values alive: what only computes stands right before the first that needs it.
//!
//! Front ends write a block in layers: all addresses, then all masks, then all loads. Taken as it comes, such a block has
//! a whole layer alive at once. Here loads, stores and whatever else is bound to its place keep their order; each takes
//! with it what it depends on, if that wasn't needed before. Walls are passed by nothing, and fences by nothing that
//! touches the registers of products.

use super::dep_graph;
use crate::analysis::effects::Effects;
use ori::entity::Entity;
use ori::{File, Function, Inst, Value};

/// What keeps its order beside what is bound to its place.
#[derive(Clone, Copy, PartialEq)]
pub enum Kept {
    Nothing,
    /// What leaves fewer words alive than it found.
    Reductions,
}

/// `instructions` of a block, in another order. What is alive behind them is counted in `left`, with the uses in them.
pub fn late(function: &Function, instructions: &[Inst], left: &[u32], kept: Kept) -> Vec<Inst> {
    let bound = bound(function, instructions, left, kept);
    let mut placing = Placing {
        function,
        maker: vec![None; function.values.len()],
        waits: vec![false; function.insts.len()],
        out: Vec::with_capacity(instructions.len()),
    };
    let flying = dep_graph::Flying::new(function, instructions);
    let (mut wall, mut fence) = (0, 0);
    for (place, &inst) in instructions.iter().enumerate() {
        let data = &function.insts[inst];
        match dep_graph::cut(data) {
            Some(dep_graph::Cut::Wall) => {
                instructions[wall..place].iter().for_each(|i| placing.place(*i));
                (wall, fence) = (place + 1, place + 1);
            }
            Some(dep_graph::Cut::Fence) => {
                let touching =
                    instructions[fence..place].iter().filter(|i| flying.touches(&function.insts[**i]));
                touching.for_each(|i| placing.place(*i));
                fence = place + 1;
            }
            None => {}
        }
        placing.waits[inst.index()] = true;
        data.results.iter().for_each(|v| placing.maker[v.index()] = Some(inst));
        if bound[place] {
            placing.place(inst);
        }
    }
    instructions[wall..].iter().for_each(|i| placing.place(*i));
    placing.out
}

/// Which instructions keep their order.
fn bound(function: &Function, instructions: &[Inst], left: &[u32], kept: Kept) -> Vec<bool> {
    let mut left = left.to_vec();
    let keeps_order = |inst: &Inst| {
        let data = &function.insts[*inst];
        let mut alive = 0;
        for value in data.uses() {
            left[value.index()] = left[value.index()].saturating_sub(1);
            alive -= if left[value.index()] == 0 { words(function, value) } else { 0 };
        }
        alive += data.results.iter().map(|v| words(function, *v)).sum::<i32>();
        let decides = data.results.iter().any(|v| function.values[*v].file == File::P);
        !Effects::of(data).is_free() || kept == Kept::Reductions && alive < 0 && !decides
    };
    instructions.iter().map(keeps_order).collect()
}

fn words(function: &Function, value: Value) -> i32 {
    let data = function.values[value];
    if data.file == File::R { data.words.into() } else { 0 }
}

struct Placing<'a> {
    function: &'a Function,
    /// What makes each value, of the instructions that were come to.
    maker: Vec<Option<Inst>>,
    /// Which of them have no place yet.
    waits: Vec<bool>,
    out: Vec<Inst>,
}

impl Placing<'_> {
    /// Gives an instruction the next place, behind what it needs.
    fn place(&mut self, inst: Inst) {
        let mut open = vec![inst];
        while let Some(&next) = open.last() {
            if !self.waits[next.index()] {
                open.pop();
                continue;
            }
            let before = open.len();
            let makers = self.function.insts[next].uses().filter_map(|v| self.maker[v.index()]);
            open.extend(makers.filter(|maker| self.waits[maker.index()]));
            if open.len() == before {
                self.waits[next.index()] = false;
                self.out.push(next);
                open.pop();
            } else {
                // The first one that is needed comes first.
                open[before..].reverse();
            }
        }
    }
}
