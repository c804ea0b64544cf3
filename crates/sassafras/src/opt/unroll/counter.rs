//! Loop counter analysis: how far an affine counter is from its bound.
//!
//! `next = i + step`, and the back edge is taken while `next < bound` (or another relation) holds, or `i` is tested
//! instead of `next`. With `k` the number of steps up to the last of several consecutive tests, all of them hold if
//! `i < bound` and `bound - i > k × step`. The difference of two words is exact as an unsigned number, so nothing has
//! to be known about overflow. Tests for inequality hold if just `bound - i > k × step`, modulo 2^32.
//!
//! ```text
//! v3 = IADD3 v1, 0x1, RZ                 v5 = ISETP.LT v1, v2
//! v4 = ISETP.LT v3, v2              →    v6 = IADD3 -v1, v2, RZ
//!                                        v7 = ISETP.GT.U32 v6, 0x3        v5 and v7: v4 holds three times
//! ```

use super::{Candidate, append};
use ori::{Arg, Block, File, Function, InstData, Op, Value};
use sass::M;

/// A counter of one word that advances by an invariant step towards a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    /// The index of the loop's parameter.
    pub index: usize,
    pub step: Step,
    bound: Arg,
    relation: Relation,
    is_signed: bool,
    /// The next count is tested, not this one.
    tests_next: bool,
}

/// How a counter advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Constant(i32),
    /// An invariant, which must be positive.
    Invariant(Arg),
}

/// The relation of the tested count to the bound, where the back edge is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Below { or_equal: bool },
    Above { or_equal: bool },
    NotEqual,
}

/// What a guard has computed: the steps to the last test, and the bound of the count for as many tests again.
#[derive(Clone, Copy)]
pub(super) struct Distance {
    steps: Arg,
    last: Arg,
}

impl Counter {
    /// The counter that an exit test depends on alone.
    pub fn find(function: &Function, candidate: &Candidate) -> Option<Counter> {
        let ([index], [_, _]) = (&candidate.counters[..], &candidate.slice[..]) else { return None };
        let counter = *function.blocks[candidate.block].params.get(*index)?;
        let next = candidate.next[*index];
        let find = |op| candidate.slice.iter().map(|i| &function.insts[*i]).find(|d| d.op == Op::Machine(op));
        let (sum, compare) = (find(sass::Op::IADD3)?, find(sass::Op::ISETP)?);
        let is_plain = sum.guard.is_none() && compare.guard.is_none() && function.values[counter].words == 1;
        if !is_plain || sum.results[..] != [next] || compare.results[..] != [candidate.predicate] {
            return None;
        }
        let step = step(sum, counter, candidate)?;
        let (is_signed, relation) = match compare.modifiers[..] {
            [relation, M::AND] => (true, relation),
            [relation, M::U32, M::AND] => (false, relation),
            _ => return None,
        };
        let [Arg::True(true), a, b, Arg::True(true)] = compare.args[..] else { return None };
        let is_count = |arg: Arg| arg == counter.into() || arg == next.into();
        let (tested, bound, is_swapped) = match (is_count(a), is_count(b)) {
            (true, false) => (a, b, false),
            (false, true) => (b, a, true),
            _ => return None,
        };
        let relation = Relation::read(relation, candidate.negated, is_swapped)?;
        let is_upward = match step {
            Step::Constant(step) => step > 0,
            Step::Invariant(_) => true,
        };
        let advances = match relation {
            Relation::Below { .. } => is_upward,
            Relation::Above { .. } => !is_upward,
            Relation::NotEqual => true,
        };
        let tests_next = tested == next.into();
        (advances && is_invariant(bound, candidate)).then_some(Counter {
            index: *index,
            step,
            bound,
            relation,
            is_signed,
            tests_next,
        })
    }

    fn is_upward(&self) -> bool {
        !matches!(self.step, Step::Constant(step) if step < 0)
    }

    /// Does the loop end, whatever its bound is? It is reached one by one, at the latest after an overflow.
    pub fn ends(&self) -> bool {
        let by_one = matches!(self.step, Step::Constant(1 | -1));
        let is_strict =
            !matches!(self.relation, Relation::Below { or_equal: true } | Relation::Above { or_equal: true });
        by_one && is_strict
    }

    /// The number of iterations from a count on, if all is constant and the count does not overflow.
    pub fn trip_count(&self, first: u32, constant: impl Fn(Value) -> Option<u64>) -> Option<u64> {
        let Step::Constant(step) = self.step else { return None };
        let bound = match self.bound {
            Arg::Imm(n) => n as u32,
            Arg::Zero(_) => 0,
            Arg::Use(u) if u.part.is_none() => constant(u.value)? as u32,
            _ => return None,
        };
        let extended = |word: u32| if self.is_signed { i64::from(word as i32) } else { i64::from(word) };
        let (first, bound, step) = (extended(first), extended(bound), i64::from(step));
        let distance = if step > 0 { bound - first } else { first - bound };
        let size = step.abs();
        // The steps after which a test fails for the first time.
        let steps = match self.relation {
            Relation::NotEqual => (distance > 0 && distance % size == 0).then_some(distance / size)?,
            Relation::Below { or_equal } | Relation::Above { or_equal } => {
                let distance = (distance + i64::from(or_equal)).max(0);
                ((distance + size - 1) / size).max(i64::from(self.tests_next))
            }
        };
        let last = first + steps * step;
        let range =
            if self.is_signed { i64::from(i32::MIN)..=i64::from(i32::MAX) } else { 0..=i64::from(u32::MAX) };
        let count = if self.tests_next { steps } else { steps + 1 };
        range.contains(&last).then_some(u64::try_from(count).ok()?)
    }

    /// Computes in a block, where the counter is `from`, whether the back edge is taken after each of the next `count`
    /// iterations but the last, and after the last if the count before the step is tested: the sum of that may
    /// overflow. `None` if these are too many steps. `goes_on`: other iterations ran before, and the test after the last
    /// of them held.
    pub fn first_tests(
        &self,
        function: &mut Function,
        block: Block,
        (from, goes_on): (Value, bool),
        count: u32,
    ) -> Option<(Vec<Arg>, Distance)> {
        let tests = count - 1;
        let mut all = Vec::new();
        let steps = match self.step {
            Step::Constant(step) => {
                let steps = i64::from(step).abs() * i64::from(tests);
                (steps < 1 << 30).then_some(Arg::Imm(steps))?
            }
            Step::Invariant(step) => {
                // From 1 to so many that the sum of all steps is below 2^31.
                let step = word(function, block, sass::Op::MOV, &[step]);
                let less = word(function, block, sass::Op::IADD3, &[step.into(), Arg::Imm(-1), ZERO]);
                if !goes_on {
                    all.push(compare(function, block, (M::LT, false), less.into(), Arg::Imm(1 << 24)));
                }
                word(function, block, sass::Op::IMAD, &[step.into(), Arg::Imm(i64::from(tests)), ZERO]).into()
            }
        };
        let bound = self.bound_value(function, block);
        let last = match (self.relation, steps) {
            (Relation::NotEqual, _) => bound,
            (_, Arg::Imm(steps)) => {
                let steps = if self.is_upward() { -steps } else { steps };
                match bound {
                    Arg::Imm(bound) => Arg::Imm(i64::from((bound + steps) as i32)),
                    _ => word(function, block, sass::Op::IADD3, &[bound, Arg::Imm(steps), ZERO]).into(),
                }
            }
            _ => match bound {
                Arg::Imm(_) => word(function, block, sass::Op::IADD3, &[steps.negated(), bound, ZERO]).into(),
                _ => word(function, block, sass::Op::IADD3, &[bound, steps.negated(), ZERO]).into(),
            },
        };
        let of = Distance { steps, last };
        if let Some(relation) = self.strict().filter(|_| !(goes_on && self.tests_next)) {
            all.push(compare(function, block, (relation, self.is_signed), from.into(), bound));
        }
        all.push(self.is_far(function, block, from, bound, steps));
        Some((all, of))
    }

    /// The same in a block that `first_tests` dominates with all its tests, where the last test before held, too, if
    /// this one does.
    pub fn further_test(&self, function: &mut Function, block: Block, from: Value, of: Distance) -> Arg {
        match self.relation {
            Relation::NotEqual => self.is_far(function, block, from, of.last, of.steps),
            // The bound was farther than the steps: their difference is exact.
            _ => compare(function, block, (self.modifier(), self.is_signed), from.into(), of.last),
        }
    }

    /// The bound as a word that has a negative.
    fn bound_value(&self, function: &mut Function, block: Block) -> Arg {
        match self.bound {
            Arg::Zero(_) => Arg::Imm(0),
            Arg::Imm(_) => self.bound,
            _ => word(function, block, sass::Op::MOV, &[self.bound]).into(),
        }
    }

    /// Is the bound farther than so many steps?
    fn is_far(&self, function: &mut Function, block: Block, from: Value, bound: Arg, steps: Arg) -> Arg {
        let from = Arg::from(from);
        let distance = match (self.is_upward(), bound) {
            (false, Arg::Imm(0)) => from,
            (false, Arg::Imm(n)) => {
                let less = Arg::Imm(i64::from((n as i32).wrapping_neg()));
                word(function, block, sass::Op::IADD3, &[from, less, ZERO]).into()
            }
            (false, bound) => word(function, block, sass::Op::IADD3, &[from, bound.negated(), ZERO]).into(),
            (true, bound) => word(function, block, sass::Op::IADD3, &[from.negated(), bound, ZERO]).into(),
        };
        let relation = match self.relation {
            Relation::Below { or_equal: true } | Relation::Above { or_equal: true } => M::GE,
            _ => M::GT,
        };
        compare(function, block, (relation, false), distance, steps)
    }

    /// The relation of a count to a bound, where the difference is to be exact.
    fn strict(&self) -> Option<M> {
        (self.relation != Relation::NotEqual).then(|| self.modifier())
    }

    fn modifier(&self) -> M {
        match self.relation {
            Relation::Below { or_equal: false } => M::LT,
            Relation::Below { or_equal: true } => M::LE,
            Relation::Above { or_equal: false } => M::GT,
            Relation::Above { or_equal: true } => M::GE,
            Relation::NotEqual => M::NE,
        }
    }
}

impl Relation {
    fn read(modifier: M, negated: bool, is_swapped: bool) -> Option<Relation> {
        let (below, or_equal) = match modifier {
            M::LT => (true, false),
            M::LE => (true, true),
            M::GT => (false, false),
            M::GE => (false, true),
            M::NE if !negated => return Some(Relation::NotEqual),
            M::EQ if negated => return Some(Relation::NotEqual),
            _ => return None,
        };
        // `a < b` is `b > a`, and its contrary is `a >= b`.
        let (below, or_equal) = (below != is_swapped, or_equal);
        let (below, or_equal) = if negated { (!below, !or_equal) } else { (below, or_equal) };
        Some(if below { Relation::Below { or_equal } } else { Relation::Above { or_equal } })
    }
}

const ZERO: Arg = Arg::Zero(File::R);

/// The step of a sum, if it is a sum of the counter and an invariant.
fn step(sum: &InstData, counter: Value, candidate: &Candidate) -> Option<Step> {
    let [a, b, Arg::Zero(_)] = sum.args[..] else { return None };
    let step = match (a == counter.into(), b == counter.into()) {
        (true, false) => b,
        (false, true) => a,
        _ => return None,
    };
    match step {
        _ if !sum.modifiers.is_empty() => None,
        Arg::Imm(n) => (n as i32 != 0 && n as i32 != i32::MIN).then_some(Step::Constant(n as i32)),
        _ => is_invariant(step, candidate).then_some(Step::Invariant(step)),
    }
}

fn is_invariant(arg: Arg, candidate: &Candidate) -> bool {
    match arg {
        Arg::Imm(_) | Arg::Const { .. } | Arg::Zero(_) => true,
        Arg::Use(u) => u.is_plain() && candidate.invariants.contains(&u.value),
        _ => false,
    }
}

fn word(function: &mut Function, block: Block, op: sass::Op, args: &[Arg]) -> Value {
    let result = function.value(File::R, 1);
    append(function, block, (op, &[]), result, args);
    result
}

fn compare(function: &mut Function, block: Block, (relation, is_signed): (M, bool), a: Arg, b: Arg) -> Arg {
    let result = function.value(File::P, 1);
    let modifiers: &[M] = if is_signed { &[relation, M::AND] } else { &[relation, M::U32, M::AND] };
    append(function, block, (sass::Op::ISETP, modifiers), result, &[Arg::True(true), a, b, Arg::True(true)]);
    result.into()
}
