//! Conditional sums: a sum with selects of a constant or nothing becomes guarded sums with the constants.
//!
//! ```text
//! v3:R = SEL 0x1, RZ, v1                 @v1[v0] v6:R = IADD3 v0, 0x1, RZ
//! v4:R = SEL 0x1, RZ, v2            →    @v2[v6] v5:R = IADD3 v6, 0x1, RZ
//! v5:R = IADD3 v0, v3, v4
//! ```
//!
//! Loops count this way what holds. The counter dies at the sum, so that all sums are in its register.

use super::Selects;
use ori::entity::Entity;
use ori::{Arg, Block, File, Function, Guard, Inst, InstData, Op, Use, Value};
use smallvec::{SmallVec, smallvec};

/// A sum of a counter and of selects.
pub struct Count {
    counter: Value,
    summands: SmallVec<[Summand; 2]>,
}

/// A constant that is added where a predicate holds.
struct Summand {
    /// The place of the select in its block.
    from: usize,
    predicate: Value,
    negated: bool,
    constant: i64,
}

impl Count {
    pub fn read(
        selects: &Selects,
        insts: &[Option<Inst>],
        place: (Block, usize),
        sum: &InstData,
    ) -> Option<Count> {
        let is_sum =
            sum.op == Op::Machine(sass::Op::IADD3) && sum.modifiers.is_empty() && sum.guard.is_none();
        if !is_sum || sum.results.len() != 1 {
            return None;
        }
        let mut counter = None;
        let mut summands: SmallVec<[Summand; 2]> = SmallVec::new();
        for arg in &sum.args {
            match arg {
                Arg::Zero(_) => {}
                Arg::Use(u) if u.is_plain() && u.part.is_none() => {
                    match Summand::read(selects, insts, place.0, u.value) {
                        Some(summand) => summands.push(summand),
                        None if counter.is_none() => counter = Some(u.value),
                        None => return None,
                    }
                }
                _ => return None,
            }
        }
        let dies = |v: &Value| selects.last_use[v.index()] == place && !selects.live_out.contains(*v);
        let counter = counter.filter(|v| selects.function.values[*v].file == File::R).filter(dies)?;
        (!summands.is_empty()).then_some(Count { counter, summands })
    }

    /// The places of the selects, which nothing needs any more.
    pub fn selects(&self) -> impl Iterator<Item = usize> {
        self.summands.iter().map(|summand| summand.from)
    }

    /// Makes the sum one of the last constant, and returns the instructions that stand before it.
    pub fn rewrite(self, function: &mut Function, sum: Inst) -> SmallVec<[Inst; 2]> {
        let mut counter = self.counter;
        let mut before = SmallVec::new();
        let last = self.summands.len() - 1;
        for (index, Summand { predicate, negated, constant, .. }) in self.summands.into_iter().enumerate() {
            let is_last = index == last;
            let result = if is_last { function.insts[sum].results[0] } else { function.value(File::R, 1) };
            let args = [counter.into(), Arg::Imm(constant), Arg::Zero(File::R)];
            let data = InstData {
                guard: Some(Guard { predicate, negated, else_values: smallvec![counter] }),
                at: function.insts[sum].at,
                ..InstData::new(Op::Machine(sass::Op::IADD3), &[result], &args)
            };
            match is_last {
                true => function.insts[sum] = data,
                false => before.push(function.insts.push(data)),
            }
            counter = result;
        }
        before
    }
}

impl Summand {
    /// A select of the block, of a constant or zero and for this sum alone.
    fn read(selects: &Selects, insts: &[Option<Inst>], block: Block, value: Value) -> Option<Summand> {
        let (_, from) = selects.defined_at[value.index()].filter(|(b, _)| *b == block)?;
        let data = &selects.function.insts[insts[from]?];
        let fine = data.op == Op::Machine(sass::Op::SEL) && data.guard.is_none();
        if !fine || data.results[..] != [value] || selects.uses[value.index()] != 1 {
            return None;
        }
        let [a, b, Arg::Use(p @ Use { part: None, .. })] = data.args[..] else { return None };
        let (constant, negated) = match (a, b) {
            (Arg::Imm(constant), Arg::Zero(_) | Arg::Imm(0)) => (constant, p.negated),
            (Arg::Zero(_) | Arg::Imm(0), Arg::Imm(constant)) => (constant, !p.negated),
            _ => return None,
        };
        Some(Summand { from, predicate: p.value, negated, constant })
    }
}
