//! Local common subexpression elimination of comparisons and their opposites.
//!
//! ```text
//! v3:P = FSETP.LTU.AND PT, |v1|, v2, PT
//! v4:P = FSETP.GE.AND PT, |v1|, v2, PT       →    v3:P = FSETP.LTU.AND PT, |v1|, v2, PT
//! v5:R = SEL v1, v0, v4                           v5:R = SEL v1, v0, !v3
//! ```
//!
//! `combine` recognizes identical comparisons. This pass also treats `x < y` as `!(x >= y)`, as `y > x` and, for an
//! integer and a constant, as `x <= y - 1`. Negating a predicate is free in guards, branches and most operands; a
//! comparison whose predicate has any other use is kept. Runs after the passes that recognize comparisons (minima,
//! predicate trees), which need one comparison per user. The operands of removed comparisons are left to `dce`. Cost:
//! linear in the instructions.

use crate::analysis::relations::{complement, swapped};
use crate::context::{Context, PassResult};
use crate::opt::predicate_uses::{self, Opposite};
use ori::entity::Entity;
use ori::{Arg, Change, File, Function, InstData, Op, Value};
use rustc_hash::FxHashMap;
use sass::M;
use smallvec::SmallVec;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let mut opposites = find(function);
    let negated = opposites.iter().filter(|(_, o)| o.is_negated).map(|(value, _)| *value).collect();
    let fixed = predicate_uses::without_negation(function, &negated);
    // Uses on edges and as else values are not replaced at all: a comparison with some of them stays for them.
    opposites.retain(|value, _| !fixed.contains(value));
    let mut order: Vec<Value> = opposites.keys().copied().collect();
    order.sort_unstable_by_key(|value| value.index());
    for value in order {
        if !context.fuel.burn() {
            opposites.remove(&value);
        }
    }
    if opposites.is_empty() {
        return Ok(Change::Nothing);
    }
    predicate_uses::replace(function, &opposites);
    Ok(Change::Instructions)
}

/// Comparisons that are equal, or the opposite, to an earlier one of their block.
fn find(function: &Function) -> FxHashMap<Value, Opposite> {
    let (mut found, mut first) = (FxHashMap::default(), FxHashMap::default());
    for block in function.blocks.keys() {
        first.clear();
        for inst in &function.blocks[block].insts {
            let data = &function.insts[*inst];
            let Some(comparison) = Comparison::of(data) else { continue };
            let (key, is_opposite) = comparison.canonical();
            match first.get(&key) {
                None => _ = first.insert(key, (data.results[0], is_opposite)),
                Some(&(of, other)) => {
                    found.insert(data.results[0], Opposite { of, is_negated: other != is_opposite });
                }
            }
        }
    }
    found
}

/// `ISETP.LT.AND PT, x, y, PT` and its kin, with one result and without a guard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Comparison {
    op: sass::Op,
    relation: M,
    modifiers: SmallVec<[M; 2]>,
    operands: [Arg; 2],
}

impl Comparison {
    fn of(data: &InstData) -> Option<Comparison> {
        let Op::Machine(op @ (sass::Op::ISETP | sass::Op::FSETP | sass::Op::DSETP)) = data.op else {
            return None;
        };
        let [Arg::True(true), x, y, Arg::True(true)] = data.args[..] else { return None };
        let (relation, modifiers) = data.modifiers.split_first()?;
        let is_plain = data.results.len() == 1 && data.guard.is_none() && modifiers.last() == Some(&M::AND);
        // Zero has one spelling.
        let operands = [x, y].map(|arg| if arg == Arg::Zero(File::R) { Arg::Imm(0) } else { arg });
        let comparison = Comparison { op, relation: *relation, modifiers: modifiers.into(), operands };
        (is_plain && complement(op, *relation).is_some()).then_some(comparison)
    }

    /// The comparison that stands for all that are equal to this one or its opposite, and whether it is the opposite.
    fn canonical(mut self) -> (Comparison, bool) {
        if rank(&self.operands[0]) > rank(&self.operands[1]) {
            self.operands.reverse();
            self.relation = swapped(self.relation);
        }
        let mut is_opposite = false;
        if let Some(opposite) = complement(self.op, self.relation)
            && (opposite as u32) < self.relation as u32
        {
            (self.relation, is_opposite) = (opposite, true);
        }
        (self.without_equal(), is_opposite)
    }

    /// `x <= 4` as `x < 5`, `x > 4` as `x >= 5`.
    fn without_equal(mut self) -> Comparison {
        let is_unsigned = self.modifiers.contains(&M::U32);
        let last = if is_unsigned { u32::MAX } else { i32::MAX as u32 };
        if let (sass::Op::ISETP, Arg::Imm(constant)) = (self.op, self.operands[1])
            && self.modifiers.iter().all(|m| matches!(m, M::U32 | M::AND))
            && constant as u32 != last
            && let Some(strict) = match self.relation {
                M::LE => Some(M::LT),
                M::GT => Some(M::GE),
                _ => None,
            }
        {
            self.relation = strict;
            self.operands[1] = Arg::Imm(i64::from((constant as u32).wrapping_add(1) as i32));
        }
        self
    }
}

/// An order of operands: values by number, others behind them.
fn rank(arg: &Arg) -> usize {
    arg.value().map_or(usize::MAX, |value| value.index())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ori::Use;
    use ori::eval::{self, Arg as Word};
    use smallvec::smallvec;

    const VALUES: [Value; 2] = [Value(1), Value(2)];

    fn comparison(op: sass::Op, modifiers: &[M], operands: [Arg; 2]) -> Comparison {
        let [x, y] = operands;
        let mut data = InstData::new(Op::Machine(op), &[Value(3)], &[Arg::True(true), x, y, Arg::True(true)]);
        data.modifiers = modifiers.into();
        Comparison::of(&data).expect("a comparison")
    }

    /// What a comparison says of two values.
    fn holds(comparison: &Comparison, bits: [u64; 2]) -> bool {
        let words = |bits: u64| match comparison.op {
            sass::Op::DSETP => Word::wide(bits),
            _ => Word::word(bits as u32),
        };
        let operand = |arg: &Arg| match *arg {
            Arg::Use(Use { value, .. }) => words(bits[usize::from(value == VALUES[1])]),
            Arg::Imm(constant) => Word::word(constant as u32),
            _ => unreachable!("other operands are not made here"),
        };
        let [x, y] = comparison.operands.each_ref().map(operand);
        let modifiers: Vec<M> =
            [comparison.relation].into_iter().chain(comparison.modifiers.clone()).collect();
        let args = [x, y, Word::predicate(true)];
        eval::eval(comparison.op, &modifiers, &args).and_then(|r| r.predicate(0)).expect("a known operation")
    }

    fn check(comparison: &Comparison, pairs: impl Iterator<Item = [u64; 2]>) {
        let (canonical, is_opposite) = comparison.clone().canonical();
        for bits in pairs {
            let wanted = holds(comparison, bits);
            assert_eq!(
                holds(&canonical, bits) != is_opposite,
                wanted,
                "{comparison:?} {canonical:?} {bits:x?}"
            );
        }
    }

    #[test]
    fn canonical_comparisons_say_the_same() {
        use M::*;
        let integers = [0u32, 1, 4, 5, 6, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_ffff].map(u64::from);
        let floats = [0.0f32, -0.0, 1.5, -1.5, f32::INFINITY, f32::NAN].map(|x| u64::from(x.to_bits()));
        let doubles = [0.0f64, -0.0, 1.5, -1.5, f64::NEG_INFINITY, f64::NAN].map(f64::to_bits);
        let pairs = |all: &[u64]| -> Vec<[u64; 2]> {
            all.iter().flat_map(|x| all.iter().map(|y| [*x, *y])).collect()
        };
        let [a, b] = VALUES.map(Arg::from);
        for relation in [LT, LE, EQ, NE, GE, GT] {
            for sign in [&[][..], &[U32]] {
                let modifiers = [&[relation], sign, &[AND]].concat();
                for operands in [[a, b], [b, a]] {
                    check(&comparison(sass::Op::ISETP, &modifiers, operands), pairs(&integers).into_iter());
                }
                for constant in integers {
                    let operands = [a, Arg::Imm(i64::from(constant as i32))];
                    let numbers = pairs(&integers).into_iter();
                    check(&comparison(sass::Op::ISETP, &modifiers, operands), numbers);
                }
            }
        }
        for relation in [LT, LE, EQ, NE, GE, GT, LTU, LEU, EQU, NEU, GEU, GTU, NUM, NAN] {
            for operands in [[a, b], [b, a]] {
                check(&comparison(sass::Op::FSETP, &[relation, AND], operands), pairs(&floats).into_iter());
                check(&comparison(sass::Op::DSETP, &[relation, AND], operands), pairs(&doubles).into_iter());
            }
        }
    }

    #[test]
    fn all_spellings_of_a_comparison_have_one_key() {
        use M::*;
        let [a, b] = VALUES.map(Arg::from);
        let keys = |op: sass::Op, spellings: &[(M, [Arg; 2], bool)]| {
            let of = |(relation, operands, is_opposite): &(M, [Arg; 2], bool)| {
                let (key, found) = comparison(op, &[*relation, AND], *operands).canonical();
                (key, found != *is_opposite)
            };
            let keys: Vec<_> = spellings.iter().map(of).collect();
            assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "{keys:?}");
        };
        keys(
            sass::Op::ISETP,
            &[(LT, [a, b], false), (GE, [a, b], true), (GT, [b, a], false), (LE, [b, a], true)],
        );
        let five = [Arg::Imm(5), Arg::Imm(4)].map(|c| [a, c]);
        keys(
            sass::Op::ISETP,
            &[(LT, five[0], false), (LE, five[1], false), (GT, five[1], true), (GE, five[0], true)],
        );
        keys(
            sass::Op::FSETP,
            &[(LT, [a, b], false), (GEU, [a, b], true), (GT, [b, a], false), (LEU, [b, a], true)],
        );
        let zero = [a, Arg::Zero(File::R)];
        keys(sass::Op::ISETP, &[(EQ, zero, false), (NE, [a, Arg::Imm(0)], true)]);
        let words = smallvec![AND];
        let last = Comparison {
            op: sass::Op::ISETP,
            relation: GT,
            modifiers: words,
            operands: [a, Arg::Imm(i64::from(i32::MAX))],
        };
        assert_eq!(last.clone().without_equal(), last);
    }
}
