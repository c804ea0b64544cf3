//! Widening multiplication: combines `mul.lo` and `mul.hi` of the same factors into one `IMAD.WIDE`.
//!
//! ```text
//! v2 = IMAD v0, v1, RZ                   v4 = IMAD.WIDE.U32 v0, v1, RZ
//! v3 = IMAD.HI.U32 v0, v1, RZ       →    v2 = Copy v4.0
//!                                        v3 = Copy v4.1
//! ```
//!
//! Random number generators (Philox), hashes and long integer arithmetic use such products. `IMAD.HI` takes two issue
//! slots of the multiplier, and so does `IMAD.WIDE`, which saves a third of the time.
//!
//! The upper half of a 64-bit product computes the second word of the lower half as an intermediate result; computing
//! that word separately takes two more products:
//!
//! ```text
//! v5 = IMAD.WIDE.U32 v0, v2, RZ               v5 = IMAD.WIDE.U32 v0, v2, RZ
//! v6 = IMAD v1, v2, v5.1                      v8 = IMAD.WIDE.U32 v1, v2, RZ
//! v7 = IMAD v0, v3, v6                   →    v9, p0 = IMAD.WIDE.U32 v0, v3, v8
//! v8 = IMAD.WIDE.U32 v1, v2, RZ               v7, p1 = IADD3 v5.1, v9.0, RZ
//! v9, p0 = IMAD.WIDE.U32 v0, v3, v8
//! v10, p1 = IADD3 v5.1, v9.0, RZ
//! ```

use super::expressions::PAIR;
use super::rules::{RZ, is_zero, plain};
use super::{Combine, Rewrite, key_of_shapes};
use ori::function::ValueData;
use ori::{Arg, File, Inst, InstData, Op, Part, Pseudo, Value, entity::Entity};
use sass::M;
use smallvec::{SmallVec, smallvec};

/// The modifiers of the upper word, and of both.
const SIGNEDNESS: [(&[M], &[M]); 2] = [(&[M::HI, M::U32], &[M::WIDE, M::U32]), (&[M::HI], &[M::WIDE])];

pub(super) fn wide(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([_, _, addend], [_], None) = (&data.args[..], &data.results[..], &data.guard) else { return None };
    if !is_zero(addend) {
        return None;
    }
    for (upper, both) in SIGNEDNESS {
        let (is_upper, is_lower) = (data.modifiers[..] == *upper, data.modifiers.is_empty());
        if !is_upper && !is_lower {
            continue;
        }
        let other = if is_upper { SmallVec::new() } else { upper.into() };
        let Some(other) = earlier(c, &InstData { modifiers: other, ..data.clone() }) else { continue };
        let product = widen(c, other, both, !is_upper)?;
        return Some(Rewrite::Inst(Box::new(copy_of_word(data, product, is_upper))));
    }
    None
}

/// In place of an instruction, a copy of one word of the product.
fn copy_of_word(data: &InstData, product: Value, is_upper: bool) -> InstData {
    let word = Arg::word(product, u8::from(is_upper));
    InstData { op: Op::Pseudo(Pseudo::Copy), modifiers: smallvec![], args: smallvec![word], ..data.clone() }
}

/// The same expression earlier in the block.
fn earlier(c: &Combine, data: &InstData) -> Option<Inst> {
    let found = c.available_expression(&c.expression_key(data)?)?;
    // It may have become a copy of a word of such a product.
    (c.function.insts[found].op == data.op && c.out.contains(&found)).then_some(found)
}

/// Computes both words where one of them was computed, which becomes a copy.
fn widen(c: &mut Combine, inst: Inst, modifiers: &[M], is_upper: bool) -> Option<Value> {
    let at = c.out.iter().rposition(|i| *i == inst)?;
    let product = c.function.value(File::R, 2);
    c.grow_tables();
    let one = c.function.insts[inst].clone();
    let both = c.function.insts.push(InstData {
        modifiers: modifiers.into(),
        results: smallvec![product],
        ..one.clone()
    });
    c.definition[product.index()] = Some(both);
    c.visited_at[product.index()] = c.visited_at[one.results[0].index()];
    c.uses[product.index()] = 2;
    c.out.insert(at, both);
    c.function.insts[inst] = copy_of_word(&one, product, is_upper);
    Some(product)
}

const WIDE: [M; 2] = [M::WIDE, M::U32];
const WORD: ValueData = ValueData { file: File::R, words: 1 };
const CARRY: ValueData = ValueData { file: File::P, words: 1 };

/// Two factors.
type Factors = [Arg; 2];

/// The arguments of a plain operation with these modifiers.
fn operands<'c>(data: &'c InstData, op: sass::Op, modifiers: &[M]) -> Option<&'c [Arg]> {
    let is_plain = data.op == Op::Machine(op) && data.modifiers[..] == *modifiers && data.guard.is_none();
    is_plain.then_some(&data.args[..])
}

/// The instruction that computes this, if there is one.
fn available(c: &Combine, op: sass::Op, modifiers: &[M], args: &[Arg], shapes: &[ValueData]) -> Option<Inst> {
    let wanted = InstData { modifiers: modifiers.into(), ..InstData::new(Op::Machine(op), &[], args) };
    let found = c.available_expression(&key_of_shapes(&wanted, shapes.iter().copied()))?;
    let data = &c.function.insts[found];
    // It may have become another instruction since.
    let is_same = operands(data, op, modifiers).is_some() && data.results.len() == shapes.len();
    is_same.then_some(found)
}

/// Is it the second word of a pair?
fn is_second_word(arg: &Arg) -> bool {
    matches!(arg, Arg::Use(u) if u.is_plain() && u.part == Some(Part { first: 1, count: 1 }))
}

/// The second word of a product of 64 bits, after the upper half was computed.
pub(super) fn middle_word(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [p, q, inner] = *operands(data, sass::Op::IMAD, &[])? else { return None };
    let [r, s, above] = *operands(c.definition_of(plain(&inner)?)?, sass::Op::IMAD, &[])? else {
        return None;
    };
    if !is_second_word(&above) {
        return None;
    }
    let sum = |[first, second]: [Factors; 2]| {
        let result = |inst: Inst| c.function.insts[inst].results[0];
        let product = available(c, sass::Op::IMAD, &WIDE, &[first[0], first[1], RZ], &[PAIR])?;
        let args = [second[0], second[1], result(product).into()];
        let middle = result(available(c, sass::Op::IMAD, &WIDE, &args, &[PAIR, CARRY])?);
        let args = [above, Arg::word(middle, 0), RZ];
        available(c, sass::Op::IADD3, &[], &args, &[WORD, CARRY]).map(result)
    };
    let factors = [[p, q], [r, s]];
    sum(factors).or_else(|| sum([factors[1], factors[0]])).map(Rewrite::Value)
}

/// The same before it: the middle products move up to where the word was computed, which becomes their sum.
pub(super) fn middle_sum(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [above, middle, RZ] = *operands(data, sass::Op::IADD3, &[]).filter(|_| data.results.len() == 2)?
    else {
        return None;
    };
    let Arg::Use(low) = middle else { return None };
    let is_low = low.is_plain() && low.part == Some(Part { first: 0, count: 1 });
    let second =
        c.definition_of(low.value).filter(|d| is_low && is_second_word(&above) && d.results.len() == 2)?;
    let [p, q, first] = *operands(second, sass::Op::IMAD, &WIDE)? else { return None };
    let [r, s, RZ] = *operands(c.definition_of(plain(&first)?)?, sass::Op::IMAD, &WIDE)? else { return None };
    let word = |[inner, outer]: [Factors; 2]| {
        let inner = available(c, sass::Op::IMAD, &[], &[inner[0], inner[1], above], &[WORD])?;
        let args = [outer[0], outer[1], c.function.insts[inner].results[0].into()];
        available(c, sass::Op::IMAD, &[], &args, &[WORD])
    };
    let factors = [[p, q], [r, s]];
    let word = word(factors).or_else(|| word([factors[1], factors[0]]))?;
    let result = c.function.insts[word].results[0];
    // What is in another block stays.
    if c.visited_at[result.index()] < c.block_start || !c.fuel.burn() {
        return None;
    }
    for value in [plain(&first)?, low.value] {
        move_before(c, value, word)?;
    }
    let carry = c.function.value(File::P, 1);
    c.grow_tables();
    c.make_unavailable(word);
    c.function.insts[word] =
        InstData { results: smallvec![result, carry], at: c.function.insts[word].at, ..data.clone() };
    c.definition[carry.index()] = Some(word);
    c.visited_at[carry.index()] = c.visited_at[result.index()];
    let key = c.expression_key(data)?;
    c.make_available(&key, word);
    // Both results are now those of a common subexpression.
    None
}

/// Moves the definition of a value up to before an instruction of the block, unless it is there.
fn move_before(c: &mut Combine, value: Value, inst: Inst) -> Option<()> {
    let time = c.visited_at[c.function.insts[inst].results[0].index()];
    if c.visited_at[value.index()] < time {
        return Some(());
    }
    let moved = c.definition[value.index()]?;
    let from = c.out.iter().rposition(|i| *i == moved)?;
    let to = c.out[..from].iter().rposition(|i| *i == inst)?;
    c.out[to..=from].rotate_right(1);
    for result in c.function.insts[moved].results.clone() {
        c.visited_at[result.index()] = time;
    }
    Some(())
}
