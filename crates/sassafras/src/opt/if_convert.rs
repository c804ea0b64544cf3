//! If-conversion: short sides of a branch are executed unconditionally, and selects take the results.
//!
//! Hammocks and diamonds (Allen et al., "Conversion of Control Dependence to Data Dependence"). A side is a block with
//! the branch as its only predecessor that jumps to where the other side goes and only computes: speculating it has no
//! effect but its results. Without the branch there is no convergence barrier, and the block goes on.
//!
//! ```text
//! b0: branch p, b1, b2                   b0: v1 = x + y
//! b1: v1 = x + y; jump b3(v1)       →        v2 = x ^ y
//! b2: v2 = x ^ y; jump b3(v2)                v3 = SEL v1, v2, p
//! b3(v3):                                    jump b3(v3)
//! ```
//!
//! One run converts innermost branches; of nested ones the outer is a hammock after `simplify` has merged the blocks of
//! the inner one, so the pipeline repeats both. Afterwards no convertible branch is within the cost limit
//! (`if_convert_max_cost`). Cost: linear.

use crate::analysis::effects;
use crate::context::{Context, Tuning};
use ori::entity::Entity;
use ori::{Arg, Block, Change, Edge, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use sass::M;
use smallvec::{SmallVec, smallvec};

pub fn run(function: &mut Function, context: &mut Context) -> Result<Change, String> {
    let cfg = context.analyses.cfg(function);
    let mut pred_counts: Vec<usize> = cfg.preds.iter().map(|preds| preds.len()).collect();
    let mut converted = false;
    for &block in cfg.order.iter().rev() {
        if let Some(hammock) = Hammock::find(function, &context.tuning, &pred_counts, block)
            && hammock.cost(function).is_some_and(|cost| cost <= context.tuning.if_convert_max_cost)
            && context.fuel.burn()
        {
            hammock.convert(function, &mut pred_counts);
            converted = true;
        }
    }
    Ok(Change::ControlFlow.when(converted))
}

/// A branch whose sides join at once.
struct Hammock {
    block: Block,
    predicate: Arg,
    /// The blocks of the sides; `None` for an edge straight to the join.
    sides: [Option<Block>; 2],
    join: Block,
    args: [Vec<Value>; 2],
}

impl Hammock {
    fn find(function: &Function, tuning: &Tuning, pred_counts: &[usize], block: Block) -> Option<Hammock> {
        let Terminator::Branch { predicate, negated, yes, no, .. } = &function.blocks[block].end else {
            return None;
        };
        let side = |edge| Side::find(function, tuning, pred_counts, edge);
        let (yes_side, no_side) = (side(yes), side(no));
        let [yes_edge, no_edge] = [yes, no].map(|edge| Side { block: None, to_join: edge });
        // Both sides, one of them, or neither has a block of its own.
        let candidates = [
            (yes_side.as_ref(), no_side.as_ref()),
            (yes_side.as_ref(), Some(&no_edge)),
            (Some(&yes_edge), no_side.as_ref()),
            (Some(&yes_edge), Some(&no_edge)),
        ];
        let mut pairs = candidates.into_iter().filter_map(|(a, b)| a.zip(b));
        let (a, b) = pairs.find(|(a, b)| a.to_join.to == b.to_join.to)?;
        let join = a.to_join.to;
        if join == block || function.values[*predicate].file != File::P {
            return None;
        }
        Some(Hammock {
            block,
            predicate: if *negated { Arg::not(*predicate) } else { (*predicate).into() },
            sides: [a.block, b.block],
            join,
            args: [a.to_join.args.clone(), b.to_join.args.clone()],
        })
    }

    /// The instructions that are executed unconditionally, selects included; `None` if a value can't be selected.
    /// Constants cost nothing: selects take them as operands.
    fn cost(&self, function: &Function) -> Option<u32> {
        let insts = self.sides.iter().flatten().flat_map(|b| &function.blocks[*b].insts);
        let computed = insts.filter(|i| !is_free(&function.insts[**i])).count() as u32;
        let select = |(a, b): (&Value, &Value)| match function.values[*a].file {
            _ if a == b => Some(0),
            File::R if function.values[*a].words <= 2 => Some(u32::from(function.values[*a].words)),
            File::P => Some(1),
            _ => None,
        };
        let selects: Option<u32> = self.args[0].iter().zip(&self.args[1]).map(select).sum();
        Some(computed + selects?)
    }

    fn convert(self, function: &mut Function, pred_counts: &mut [usize]) {
        for side in self.sides.into_iter().flatten() {
            let insts = std::mem::take(&mut function.blocks[side].insts);
            function.blocks[self.block].insts.extend(insts);
            function.blocks[side].end = Terminator::Exit;
            pred_counts[side.index()] = 0;
        }
        let pairs: Vec<_> = self.args[0].iter().copied().zip(self.args[1].iter().copied()).collect();
        let args = pairs.into_iter().map(|(a, b)| self.select(function, a, b)).collect();
        function.blocks[self.block].end = Terminator::Jump(Edge { to: self.join, args });
        pred_counts[self.join.index()] -= 1;
    }

    /// `a` where the predicate holds, else `b`.
    fn select(&self, function: &mut Function, a: Value, b: Value) -> Value {
        let data = function.values[a];
        if a == b {
            return a;
        }
        let mut emit = |op: Op, modifiers: &[M], file: File, words: u8, args: &[Arg]| {
            let result = function.value(file, words);
            let (modifiers, args) = (modifiers.into(), SmallVec::from_slice(args));
            let at = function.blocks[self.block].end_at;
            let inst = InstData { op, modifiers, results: smallvec![result], args, guard: None, at };
            function.append(self.block, inst);
            result
        };
        if data.file == File::P {
            let (unused, table) = (Arg::True(true), Arg::Imm(0xca));
            let args = [unused, self.predicate, a.into(), b.into(), table, Arg::Imm(0)];
            return emit(Op::Machine(sass::Op::PLOP3), &[M::LUT], File::P, 1, &args);
        }
        let sel = Op::Machine(sass::Op::SEL);
        if data.words == 1 {
            return emit(sel, &[], File::R, 1, &[a.into(), b.into(), self.predicate]);
        }
        let words: Vec<Arg> = (0..data.words)
            .map(|w| emit(sel, &[], File::R, 1, &[Arg::word(a, w), Arg::word(b, w), self.predicate]).into())
            .collect();
        emit(Op::Pseudo(Pseudo::Pack), &[], File::R, data.words, &words)
    }
}

/// A side of a branch, and its edge to the join.
struct Side<'a> {
    block: Option<Block>,
    to_join: &'a Edge,
}

impl Side<'_> {
    /// The side whose block an edge of the branch leads to, if it can be speculated.
    fn find<'a>(
        function: &'a Function,
        tuning: &Tuning,
        pred_counts: &[usize],
        edge: &Edge,
    ) -> Option<Side<'a>> {
        let data = &function.blocks[edge.to];
        let is_only_pred = pred_counts[edge.to.index()] == 1;
        let has_args = !data.params.is_empty() || !edge.args.is_empty();
        let is_short = data.insts.len() <= tuning.if_convert_max_side as usize;
        let can_speculate = |i: &Inst| can_speculate(&function.insts[*i]);
        match &data.end {
            Terminator::Jump(to_join) if is_only_pred && !has_args && is_short => {
                data.insts.iter().all(can_speculate).then_some(Side { block: Some(edge.to), to_join })
            }
            _ => None,
        }
    }
}

/// Does it become no instruction, or an operand?
fn is_free(data: &InstData) -> bool {
    let constant = matches!(data.args[..], [Arg::Imm(_) | Arg::Zero(_)]);
    match data.op {
        Op::Machine(op) => op == sass::Op::MOV && constant,
        Op::Pseudo(op) => matches!(op, Pseudo::Pack | Pseudo::Unpack | Pseudo::Copy | Pseudo::Undef),
    }
}

/// May it be executed where its results have no use?
fn can_speculate(data: &InstData) -> bool {
    is_free(data) || data.guard.is_none() && effects::is_function(data)
}
