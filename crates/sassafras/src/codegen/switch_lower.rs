//! Switch lowering: decides which switches become jump tables, and makes decision trees of the others (compare Bernstein,
//! "Producing good code for the case statement", 1985).
//!
//! ```text
//! b0: switch v0, [0 1 2], b1, b2, b3     ==>     b0: v1:P = ISETP.LT.U32 v0, 0x1
//!                                                    branch v1, b1, b4
//!                                                b4: v2:P = ISETP.LT.U32 v0, 0x2
//!                                                    branch v2, b2, b3
//! ```
//!
//! A switch is a table (`codegen/jump_tables.rs`) if its entries, neighbours with one target as one, are at least
//! `switch_min_table`, and else a balanced tree of comparisons with the first index of each run. It is early: trees
//! become selects and are unrolled as other branches are.
//!
//! Postcondition: a switch has several edges, and no device function has one. A device function runs with the constant
//! bank 2 of the kernel that called it: there is no table of its own. Cost: linear in the tables.

use crate::context::{Context, JumpTables, PassResult};
use ori::{Arg, Block, Change, Cursor, Edge, File, Function, Op, Switch, Terminator, Value};
use sass::{M, Op as Name};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let mut changed = false;
    let mut lowered = |function: &mut Function, block: Block| {
        let Terminator::Switch(switch) = &function.blocks[block].end else { return };
        let is_table = context.jump_tables != JumpTables::None
            && runs(switch).len() >= context.tuning.switch_min_table.max(2) as usize;
        if !is_table {
            make_tree(function, block);
            changed = true;
        }
    };
    for block in function.blocks.keys() {
        lowered(function, block);
    }
    Ok(Change::ControlFlow.when(changed))
}

/// A tree of comparisons in place of the switch that ends a block.
pub fn make_tree(function: &mut Function, block: Block) {
    let Terminator::Switch(switch) = std::mem::replace(&mut function.blocks[block].end, Terminator::Exit)
    else {
        return;
    };
    let runs = runs(&switch);
    let mut tree = Tree { function, switch: &switch, at: block };
    let Some(edge) = tree.edge(&runs) else { return };
    // The first comparison needs no block of its own.
    let own = match runs.len() {
        1 => Terminator::Jump(edge),
        _ => {
            let insts = std::mem::take(&mut function.blocks[edge.to].insts);
            function.blocks[block].insts.extend(insts);
            std::mem::replace(&mut function.blocks[edge.to].end, Terminator::Exit)
        }
    };
    function.blocks[block].end = own;
}

/// The first index and the edge of each run of equal entries.
fn runs(switch: &Switch) -> Vec<(u32, &Edge)> {
    let mut runs: Vec<(u32, &Edge)> = Vec::new();
    for (index, entry) in switch.table.iter().enumerate() {
        let Some(edge) = switch.edges.get(*entry as usize) else { continue };
        if runs.last().is_none_or(|(_, last)| *last != edge) {
            runs.push((index as u32, edge));
        }
    }
    runs
}

struct Tree<'a> {
    function: &'a mut Function,
    switch: &'a Switch,
    /// The block of the switch.
    at: Block,
}

impl Tree<'_> {
    /// To what decides between some runs: the target of the only one, or a block that halves them.
    fn edge(&mut self, runs: &[(u32, &Edge)]) -> Option<Edge> {
        if let [(_, edge)] = runs {
            return Some((*edge).clone());
        }
        let (low, high) = runs.split_at(runs.len() / 2);
        let (bound, _) = high.first()?;
        let block = self.function.block();
        let (end_at, cold) = (self.function.blocks[self.at].end_at, self.function.blocks[self.at].cold);
        (self.function.blocks[block].end_at, self.function.blocks[block].cold) = (end_at, cold);
        let predicate = is_below(self.function, block, self.switch.index, *bound);
        let (yes, no) = (self.edge(low)?, self.edge(high)?);
        let uniform = self.switch.uniform;
        self.function.blocks[block].end = Terminator::Branch { predicate, negated: false, uniform, yes, no };
        Some(Edge::to(block))
    }
}

fn is_below(function: &mut Function, block: Block, index: Value, bound: u32) -> Value {
    let at = function.blocks[block].end_at;
    let args = [Arg::True(true), index.into(), Arg::Imm(i64::from(bound)), Arg::True(true)];
    let mut cursor = Cursor::at_end(function, block).at(at);
    cursor.build(Op::Machine(Name::ISETP), &[M::LT, M::U32, M::AND], (File::P, 1), &args)
}
