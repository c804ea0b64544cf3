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
//!
//! A product of which only the lower word is read is one of words, which takes half the time: the address of a local or
//! shared variable, or of one in a constant bank. Sums of multiples of one word are a multiple of it:
//! `(x * m) * k + x * n` is `x * (m * k + n)`.

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

/// A product of two words of which only the lower one is read.
pub(super) fn low_word(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([M::WIDE, ..], [product], None) = (&data.modifiers[..], &data.results[..], &data.guard) else {
        return None;
    };
    // An equal product may be there as a whole.
    if c.upper_word_reads[product.index()] || c.available_expression(&c.expression_key(data)?).is_some() {
        return None;
    }
    let [a, b, addend] = data.args[..] else { return None };
    let addend = match addend {
        Arg::Use(u) if u.is_plain() && u.part.is_none() => Arg::word(u.value, 0),
        Arg::Zero(_) => addend,
        _ => return None,
    };
    // A shift is cheaper where it is enough.
    let (op, modifiers, args): (_, &[M], _) = match b {
        Arg::Imm(n) if (n as u32).is_power_of_two() && is_zero(&addend) => {
            let by = Arg::Imm((n as u32).trailing_zeros().into());
            (sass::Op::SHF, &[M::L, M::U32], [a, by, RZ])
        }
        _ => (sass::Op::IMAD, &[], [a, b, addend]),
    };
    let low = c.function.value(File::R, 1);
    c.grow_tables();
    let like = InstData { results: smallvec![low], ..data.clone() };
    let Rewrite::Inst(new) = c.legal(&like, op, modifiers, &args)? else { return None };
    c.append(*new);
    c.uses[low.index()] = c.uses[product.index()];
    let high = c.emit(Op::Pseudo(Pseudo::Undef), 1, &[], data.at);
    let (op, args) = (Op::Pseudo(Pseudo::Pack), SmallVec::from_slice(&[low.into(), high.into()]));
    Some(Rewrite::Inst(Box::new(InstData { op, modifiers: smallvec![], args, ..data.clone() })))
}

/// `x + a * b` of 64 bits: what is added to the product of the lower words is its addend.
///
/// ```text
/// v5 = IMAD.WIDE.U32 v0, v2, RZ          v9 = IMAD.WIDE.U32 v0, v2, v4
/// v6 = IMAD v1, v2, v5.1                 v8 = IMAD v1, v2, v9.1
/// v7, p0 = IADD3 v5.0, v4.0, RZ     →    v10 = Pack v9.0, v8
/// v8 = IADD3.X v6, v4.1, RZ, p0
/// v10 = Pack v7, v8
/// ```
pub(super) fn add_to_product(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([low, high], None) = (&data.args[..], &data.guard) else { return None };
    let [a, b] = c.match_add64(low, high)?;
    for (x, [lowest, upper]) in [(a, b), (b, a)] {
        let Arg::Use(u) = lowest else { continue };
        if Arg::Use(u) != Arg::word(u.value, 0) || c.uses[u.value.index()] != 2 {
            continue;
        }
        // The products that are added to the upper word, the last one first.
        let mut sums: SmallVec<[InstData; 2]> = SmallVec::new();
        let mut word = upper;
        while let Some(sum) = c.single_use(&word, sass::Op::IMAD)
            && sum.modifiers.is_empty()
            && sums.len() < 2
        {
            word = sum.args[2];
            sums.push(sum.clone());
        }
        let product = c.definition_of(u.value).filter(|d| d.results.len() == 1);
        let Some(&[first, second, RZ]) = product.and_then(|d| operands(d, sass::Op::IMAD, &WIDE)) else {
            continue;
        };
        let is_read_here = word == Arg::word(u.value, 1) && !sums.is_empty();
        if !is_read_here || !x.iter().all(|word| matches!(word, Arg::Use(_))) {
            continue;
        }
        let Some(addend) = c.whole_pair(&x) else { continue };
        let wide = c.function.value(File::R, 2);
        c.grow_tables();
        let like = InstData { results: smallvec![wide], ..data.clone() };
        let args = [first, second, addend.into()];
        let Rewrite::Inst(new) = c.legal(&like, sass::Op::IMAD, &WIDE, &args)? else { return None };
        c.append(*new);
        let mut word = Arg::word(wide, 1);
        for sum in sums.into_iter().rev() {
            word = c.emit(Op::Machine(sass::Op::IMAD), 1, &[sum.args[0], sum.args[1], word], sum.at).into();
        }
        let args = SmallVec::from_slice(&[Arg::word(wide, 0), word]);
        return Some(Rewrite::Inst(Box::new(InstData { args, ..data.clone() })));
    }
    None
}

/// The word and the number whose product an operand is.
fn multiple(c: &Combine, arg: &Arg) -> Option<(Value, i32)> {
    let value = plain(arg)?;
    let of = c.definition_of(value).filter(|d| d.results.len() == 1);
    let factors = of.and_then(|data| match (data.op, &data.modifiers[..], &data.args[..]) {
        (Op::Machine(sass::Op::IMAD), [], [x, Arg::Imm(n), zero]) if is_zero(zero) => {
            Some((plain(x)?, *n as i32))
        }
        (Op::Machine(sass::Op::SHF), [M::L, M::U32], [x, Arg::Imm(n @ 0..32), RZ]) => {
            Some((plain(x)?, 1i32 << n))
        }
        _ => None,
    });
    Some(factors.unwrap_or((value, 1)))
}

/// `(x * m) * k + x * n`
pub(super) fn sum_of_multiples(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([], [first, second, third], [_]) = (&data.modifiers[..], &data.args[..], &data.results[..]) else {
        return None;
    };
    let ((x, m), (y, n)) = match (data.op, second, third) {
        (Op::Machine(sass::Op::IMAD), Arg::Imm(k), addend) => {
            let (x, m) = multiple(c, first)?;
            ((x, m.wrapping_mul(*k as i32)), multiple(c, addend)?)
        }
        (Op::Machine(sass::Op::IADD3), second, &RZ) => (multiple(c, first)?, multiple(c, second)?),
        _ => return None,
    };
    // Of `x + x` and `x * k + x` nothing is left to compute before.
    let is_product = |arg: &Arg| plain(arg).is_some_and(|v| v != x);
    let sums =
        is_product(first) || is_product(if data.op == Op::Machine(sass::Op::IMAD) { third } else { second });
    let factor = Arg::Imm(m.wrapping_add(n).into());
    (x == y && sums).then(|| c.legal(data, sass::Op::IMAD, &[], &[x.into(), factor, RZ])).flatten()
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
