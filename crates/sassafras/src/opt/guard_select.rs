//! Select folding into guarded operations: an operation used only by a select gets the select's predicate as its guard.
//!
//! ```text
//! v3:R = IADD3 v1, 0x1, RZ
//! v4:R = SEL v3, v2, v0             →    @v0[v2] v4:R = IADD3 v1, 0x1, RZ
//! ```
//!
//! If the operation is an addition and the other value is a sum of the same word, the difference is added to the other
//! value, and the original word is no longer needed (such as the next index of a ring buffer).
//!
//! ```text
//! v2:R = IADD3 v1, -0x180, RZ            v2:R = IADD3 v1, -0x180, RZ
//! v3:R = IADD3 v1, 0x80, RZ         →    @v0[v2] v4:R = IADD3 v2, 0x200, RZ
//! v4:R = SEL v3, v2, v0
//! ```
//!
//! Sums with selects of a constant or nothing become guarded, too (`guard_select/counts.rs`).
//!
//! This saves one instruction if the select is the last use of the other value, because the result takes its register.
//! The operation takes no longer than the select, but a guard reads its predicate 9 cycles later than an operand does
//! (13 and 4 cycles after the comparison on sm_90). Other warps and the scheduler hide this latency; ptxas 13.0.88 does
//! the same. Runs after the passes that recognize selects. Cost: linear in the instructions.

mod counts;

use crate::analysis::effects;
use crate::context::{Context, PassResult};
use counts::Count;
use ori::entity::Entity;
use ori::liveness::LiveSet;
use ori::{Arg, Block, Change, Function, Guard, Inst, InstData, Op, Use, Value};
use sass::Class;
use smallvec::smallvec;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let order: Vec<Block> = function.blocks.keys().collect();
    let is_candidate = |i: &Inst| function.insts[*i].op == Op::Machine(sass::Op::SEL);
    if !order.iter().any(|b| function.blocks[*b].insts.iter().any(is_candidate)) {
        return Ok(Change::Nothing);
    }
    let uses = function.use_counts(order.iter().copied());
    let live = context.analyses.liveness(function);
    let mut defined_at: Vec<Option<(Block, usize)>> = vec![None; function.values.len()];
    let mut last_use = vec![(Function::ENTRY, 0); function.values.len()];
    let mut changed = false;
    for block in order {
        let mut insts: Vec<Option<Inst>> = function.blocks[block].insts.iter().copied().map(Some).collect();
        for (at, inst) in function.blocks[block].insts.iter().enumerate() {
            function.insts[*inst].uses().for_each(|v| last_use[v.index()] = (block, at));
        }
        function.blocks[block].end.uses().for_each(|v| last_use[v.index()] = (block, usize::MAX));
        // What stands before an instruction.
        let mut before: Vec<(usize, Inst)> = Vec::new();
        for at in 0..insts.len() {
            let Some(inst) = insts[at] else { continue };
            let live_out = &live.live_out[block.index()];
            let selects =
                Selects { function, uses: &uses, live_out, last_use: &last_use, defined_at: &defined_at };
            if let Some((from, data)) = selects.guarded(&insts, (block, at), &function.insts[inst])
                && context.fuel.burn()
            {
                insts[from] = None;
                function.insts[inst] = data;
                changed = true;
            } else if let Some(count) = Count::read(&selects, &insts, (block, at), &function.insts[inst])
                && context.fuel.burn()
            {
                count.selects().for_each(|from| insts[from] = None);
                before.extend(count.rewrite(function, inst).into_iter().map(|inst| (at, inst)));
                changed = true;
            }
            function.insts[inst].results.iter().for_each(|r| defined_at[r.index()] = Some((block, at)));
        }
        let mut before = before.into_iter().peekable();
        let all = &mut function.blocks[block].insts;
        all.clear();
        for (at, inst) in insts.into_iter().enumerate() {
            all.extend(
                std::iter::from_fn(|| before.next_if(|(place, _)| *place == at)).map(|(_, inst)| inst),
            );
            all.extend(inst);
        }
    }
    Ok(Change::Instructions.when(changed))
}

/// What is known where a select is looked at.
struct Selects<'a> {
    function: &'a Function,
    uses: &'a [u32],
    /// The values that are live at the end of the block, and the last use of each value in it.
    live_out: &'a LiveSet,
    last_use: &'a [(Block, usize)],
    /// The places of the definitions so far.
    defined_at: &'a [Option<(Block, usize)>],
}

impl Selects<'_> {
    /// The guarded operation that a select becomes, and the place of that operation.
    fn guarded(
        &self,
        insts: &[Option<Inst>],
        place: (Block, usize),
        select: &InstData,
    ) -> Option<(usize, InstData)> {
        let (a, b, predicate) = operands(select)?;
        if predicate.part.is_some() {
            return None;
        }
        [(a, b, predicate.negated), (b, a, !predicate.negated)].into_iter().find_map(
            |(value, other, negated)| {
                let (_, from) = self.defined_at[value.index()].filter(|(block, _)| *block == place.0)?;
                let data = &self.function.insts[insts[from]?];
                let dies = self.uses[value.index()] == 1
                    && self.last_use[other.index()] == place
                    && !self.live_out.contains(other);
                let is_guardable = is_short(data) && data.results[..] == [value];
                if value == other || !dies || !is_guardable || self.is_constant(insts, place.0, other) {
                    return None;
                }
                let data = self.sum_of_other(insts, place.0, data, other).unwrap_or_else(|| data.clone());
                let guard = Guard { predicate: predicate.value, negated, else_values: smallvec![other] };
                Some((from, InstData { results: select.results.clone(), guard: Some(guard), ..data }))
            },
        )
    }

    /// A sum with a constant, if the other value is a sum of the same word with another one, as a sum of that: the word
    /// then dies before the guarded sum, and both sums can be in its register.
    fn sum_of_other(
        &self,
        insts: &[Option<Inst>],
        block: Block,
        data: &InstData,
        other: Value,
    ) -> Option<InstData> {
        let (_, at) = self.defined_at[other.index()].filter(|(b, _)| *b == block)?;
        let (word, first) = sum_with_constant(&self.function.insts[insts[at]?])?;
        let (same, second) = sum_with_constant(data)?;
        let mut sum = data.clone();
        (sum.args[0], sum.args[1]) = (other.into(), Arg::Imm(i64::from(second.wrapping_sub(first) as i32)));
        (word == same).then_some(sum)
    }

    /// Is it a constant, which the select has as an operand?
    fn is_constant(&self, insts: &[Option<Inst>], block: Block, value: Value) -> bool {
        let place = self.defined_at[value.index()].filter(|(b, _)| *b == block);
        let data = place.and_then(|(_, at)| insts[at]).map(|inst| &self.function.insts[inst]);
        data.is_some_and(|data| data.uses().next().is_none())
    }
}

/// Both values of a select of words, and its predicate.
fn operands(select: &InstData) -> Option<(Value, Value, Use)> {
    let plain = |u: &Use| (u.is_plain() && u.part.is_none()).then_some(u.value);
    match (select.op, &select.guard, &select.args[..]) {
        (Op::Machine(sass::Op::SEL), None, [Arg::Use(a), Arg::Use(b), Arg::Use(p)]) => {
            Some((plain(a)?, plain(b)?, *p))
        }
        _ => None,
    }
}

/// The word and the constant of `IADD3 word, constant, RZ`.
fn sum_with_constant(data: &InstData) -> Option<(Value, i64)> {
    let plain = data.op == Op::Machine(sass::Op::IADD3) && data.guard.is_none() && data.modifiers.is_empty();
    match (&data.results[..], &data.args[..]) {
        ([_], [Arg::Use(u), Arg::Imm(constant), Arg::Zero(_)])
            if plain && u.is_plain() && u.part.is_none() =>
        {
            Some((u.value, *constant))
        }
        _ => None,
    }
}

/// Does it take no longer than a select?
fn is_short(data: &InstData) -> bool {
    let Op::Machine(op) = data.op else { return false };
    let class = sass::Form::of(op).first().map(|form| form.class);
    let is_fixed = matches!(class, Some(Class::Alu | Class::Fma));
    is_fixed && data.guard.is_none() && effects::is_function(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_operations_of_fixed_latency_get_guards() {
        let data = |op| InstData::new(Op::Machine(op), &[Value(0)], &[Value(1).into()]);
        assert!(is_short(&data(sass::Op::IADD3)) && is_short(&data(sass::Op::FFMA)));
        assert!(!is_short(&data(sass::Op::MUFU)) && !is_short(&data(sass::Op::DADD)));
    }
}
