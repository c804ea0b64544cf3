//! Short-circuit conditions: combines two consecutive branches with a common target into one branch on both conditions.
//!
//! The second condition is then also computed where the first one fails, so it must be a few instructions without
//! effects (`if_convert_max_condition`). The comparison takes the first predicate as its operand (`predicate-fold`).
//!
//! ```text
//! b0: p = a < b; branch p, b1, b3        b0: p = a < b; q = c < d; r = p and q
//! b1: q = c < d; branch q, b2, b3   →        branch r, b2, b3
//! ```

use super::{can_speculate, is_free};
use crate::analysis::forwarding::forwarded;
use crate::context::Tuning;
use ori::entity::Entity;
use ori::{Arg, Block, Edge, File, Function, Inst, InstData, Op, Terminator, Value};
use sass::M;

/// A branch, and the one that follows on one of its sides.
pub(super) struct BranchPair {
    first: Block,
    second: Block,
    /// Both lead to `both` where these conditions hold, else to `common`.
    conditions: [Arg; 2],
    uniform: bool,
    both: Edge,
    common: Edge,
    /// Where the edge of the second branch leads that goes away.
    dropped: Block,
}

impl BranchPair {
    pub fn find(
        function: &Function,
        tuning: &Tuning,
        pred_counts: &[usize],
        first: Block,
    ) -> Option<BranchPair> {
        let (predicate, uniform, edges) = branch(function, first)?;
        (0..2).find_map(|side| {
            let (to_second, common) = (edges[side], edges[1 - side]);
            let second = to_second.to;
            let is_own = pred_counts[second.index()] == 1 && to_second.args.is_empty() && second != first;
            let (other_predicate, other_uniform, others) = branch(function, second).filter(|_| is_own)?;
            let leaves = (0..2).find(|i| forwarded(function, others[*i]) == forwarded(function, common))?;
            let both = others[1 - leaves];
            if forwarded(function, both).to == forwarded(function, common).to
                || !is_short(function, tuning, second)
            {
                return None;
            }
            Some(BranchPair {
                first,
                second,
                conditions: [condition(predicate, side == 1), condition(other_predicate, leaves == 0)],
                uniform: uniform && other_uniform,
                both: both.clone(),
                common: common.clone(),
                dropped: others[leaves].to,
            })
        })
    }

    pub fn merge(self, function: &mut Function, pred_counts: &mut [usize]) {
        let insts = std::mem::take(&mut function.blocks[self.second].insts);
        function.blocks[self.first].insts.extend(insts);
        function.blocks[self.second].end = Terminator::Exit;
        pred_counts[self.second.index()] = 0;
        pred_counts[self.dropped.index()] -= 1;

        let predicate = function.value(File::P, 1);
        let [a, b] = self.conditions;
        let args = [Arg::True(true), a, b, Arg::True(true), Arg::Imm(0xc0), Arg::Imm(0)];
        let and = InstData::new(Op::Machine(sass::Op::PLOP3), &[predicate], &args);
        let at = function.blocks[self.second].end_at;
        function.append(self.first, InstData { modifiers: [M::LUT].into_iter().collect(), at, ..and });
        let (yes, no) = (self.both, self.common);
        let end = Terminator::Branch { predicate, negated: false, uniform: self.uniform, yes, no };
        function.blocks[self.first].end = end;
    }
}

/// The condition of a branch, whether it is uniform, and its edges.
fn branch(function: &Function, block: Block) -> Option<((Value, bool), bool, [&Edge; 2])> {
    match &function.blocks[block].end {
        Terminator::Branch { predicate, negated, uniform, yes, no }
            if function.values[*predicate].file == File::P =>
        {
            Some(((*predicate, *negated), *uniform, [yes, no]))
        }
        _ => None,
    }
}

fn condition((value, negated): (Value, bool), is_other_side: bool) -> Arg {
    if negated != is_other_side { Arg::not(value) } else { value.into() }
}

/// Can a block be computed in vain, at little cost?
fn is_short(function: &Function, tuning: &Tuning, block: Block) -> bool {
    let data = &function.blocks[block];
    let is_counted = |i: &&Inst| !is_free(&function.insts[**i]);
    data.params.is_empty()
        && data.insts.len() <= tuning.if_convert_max_side as usize
        && data.insts.iter().all(|i| can_speculate(&function.insts[*i]))
        && data.insts.iter().filter(is_counted).count() <= tuning.if_convert_max_condition as usize
}
