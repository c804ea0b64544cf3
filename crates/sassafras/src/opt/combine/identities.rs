//! Algebraic simplification of words: operations that equal one of their arguments, a constant, or a simpler operation.
//!
//! | operation | becomes |
//! |---|---|
//! | a bitwise function with constants or a repeated argument | the remaining function: a constant, an argument |
//! | `x & mask`, where `x` has only zeros outside `mask` ([`known_bits`](crate::analysis::known_bits)) | `x` |
//! | a two-word shift by 32 or more | a one-word shift |
//! | `p ? x : x`, `true ? x : y` | `x` |
//! | two-word `x < 0` and `x >= 0` | the same test of the upper word |
//! | a two-word comparison with known lower words | the comparison of the upper words |
//! | `a + b - a` | `b` |
//! | `a * 0 + x` | `x` |

use super::bitwise::{lut_bit, match_lop3};
use super::rules::{RZ, Rule, add_terms, is_zero, plain};
use super::{Combine, Rewrite};
use ori::{Arg, InstData, Op};
use sass::M;

pub(super) const RULES: &[(Op, Rule)] = &[
    (Op::Machine(sass::Op::LOP3), bitwise_of_fewer),
    (Op::Machine(sass::Op::LOP3), mask_of_zeros),
    (Op::Machine(sass::Op::SHF), shift_by_words),
    (Op::Machine(sass::Op::SEL), select_of_equals),
    (Op::Machine(sass::Op::SEL), select_by_constant),
    (Op::Machine(sass::Op::ISETP), sign_of_two_words),
    (Op::Machine(sass::Op::ISETP), compare_upper_words),
    (Op::Machine(sass::Op::IADD3), cancelled_terms),
    (Op::Machine(sass::Op::IMAD), product_with_zero),
];

/// A word with these bits.
fn constant(c: &Combine, data: &InstData, bits: u32) -> Option<Rewrite> {
    c.legal(data, sass::Op::MOV, &[], &[Arg::Imm(i64::from(bits as i32))])
}

/// The word itself: the value where that may take the place of the result, else a move.
fn word(c: &Combine, data: &InstData, arg: &Arg) -> Option<Rewrite> {
    c.forward_word(data, arg).or_else(|| c.legal(data, sass::Op::MOV, &[], &[*arg]))
}

/// A bitwise function some of whose arguments are zeros or ones, or the same.
fn bitwise_of_fewer(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let (args, table) = match_lop3(data)?;
    // What each argument is: a constant bit, or the first argument like it.
    let source = |i: usize| args.iter().position(|a| *a == args[i]).unwrap_or(i);
    let bit = |i: usize, bits: u8| match args[i] {
        arg if is_zero(&arg) => false,
        Arg::Imm(-1) => true,
        _ => bits >> source(i) & 1 != 0,
    };
    let result = |bits: u8| lut_bit(table, [bit(0, bits), bit(1, bits), bit(2, bits)]);
    let all: [bool; 8] = std::array::from_fn(|bits| result(bits as u8));
    if all.iter().all(|b| *b == all[0]) {
        return constant(c, data, if all[0] { u32::MAX } else { 0 });
    }
    let only = (0..3).find(|i| (0..8u8).all(|bits| all[usize::from(bits)] == (bits >> i & 1 != 0)))?;
    match args[only] {
        Arg::Use(u) if u.is_plain() => word(c, data, &args[only]),
        Arg::Imm(n) => constant(c, data, n as u32),
        _ => None,
    }
}

/// `x & mask`, where `x` has no ones but those of the mask.
fn mask_of_zeros(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([x, Arg::Imm(mask), RZ], 0xc0) = match_lop3(data)? else { return None };
    let is_within = plain(&x).is_some() && c.word_of(&x).ones & !(mask as u32) == 0;
    is_within.then(|| word(c, data, &x)).flatten()
}

/// A shift of two words by constants of 32 and more, and of one word beyond its width.
fn shift_by_words(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [low, Arg::Imm(n), high] = data.args[..] else { return None };
    if !(32..=64).contains(&n) || data.results.len() != 1 {
        return None;
    }
    let (by, past) = (Arg::Imm(n - 32), n == 64);
    match data.modifiers[..] {
        [M::L, M::U32] if is_zero(&high) => constant(c, data, 0),
        [M::R, M::U32, M::HI] if is_zero(&low) => constant(c, data, 0),
        [M::L, M::U64, M::HI] | [M::R, M::U64] if past => constant(c, data, 0),
        [M::L, M::U64, M::HI] if n == 32 => word(c, data, &low),
        [M::L, M::U64, M::HI] => c.legal(data, sass::Op::SHF, &[M::L, M::U32], &[low, by, RZ]),
        [M::R, M::U64 | M::S64] if n == 32 => word(c, data, &high),
        [M::R, M::U64] => c.legal(data, sass::Op::SHF, &[M::R, M::U32, M::HI], &[RZ, by, high]),
        [M::R, M::S64] if !past => c.legal(data, sass::Op::SHF, &[M::R, M::S32, M::HI], &[RZ, by, high]),
        _ => None,
    }
}

fn select_of_equals(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [a, b, _] = &data.args[..] else { return None };
    let is_one_word = a == b && data.modifiers.is_empty() && data.results.len() == 1;
    is_one_word.then(|| word(c, data, a)).flatten()
}

fn select_by_constant(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [yes, no, Arg::True(sense)] = &data.args[..] else { return None };
    let is_one_word = data.modifiers.is_empty() && data.results.len() == 1;
    is_one_word.then(|| word(c, data, if *sense { yes } else { no })).flatten()
}

/// `x < 0` and `x >= 0` of two words: where the upper word is 0, what the lower words say is what equal ones would, as
/// no unsigned word is below 0.
fn sign_of_two_words(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [relation @ (M::LT | M::GE), .., M::EX] = data.modifiers[..] else { return None };
    let [_, _, _, _, lower] = &data.args[..] else { return None };
    let below = c.definition_of(plain(lower)?).filter(|d| d.op == data.op)?;
    let is_unsigned = below.modifiers[..] == [relation, M::U32, M::AND];
    let [Arg::True(true), _, zero, Arg::True(true)] = &below.args[..] else { return None };
    let is_constant = is_unsigned && is_zero(zero) && below.results.first() == plain(lower).as_ref();
    let (modifiers, args) = (&data.modifiers[..data.modifiers.len() - 1], &data.args[..4]);
    is_constant.then(|| c.legal(data, sass::Op::ISETP, modifiers, args)).flatten()
}

/// A comparison of two words, of which what the lower words say is known: it decides where the upper ones are equal.
fn compare_upper_words(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([relation, middle @ .., M::EX], [.., Arg::True(lower)]) = (&data.modifiers[..], &data.args[..])
    else {
        return None;
    };
    let relation = match (relation, lower) {
        (M::LT | M::LE, false) => M::LT,
        (M::LT | M::LE, true) => M::LE,
        (M::GT | M::GE, false) => M::GT,
        (M::GT | M::GE, true) => M::GE,
        (M::EQ, true) => M::EQ,
        (M::NE, false) => M::NE,
        _ => return None,
    };
    let modifiers: Vec<M> = std::iter::once(relation).chain(middle.iter().copied()).collect();
    c.legal(data, sass::Op::ISETP, &modifiers, &data.args[..data.args.len() - 1])
}

/// `a + b - a`
fn cancelled_terms(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let all = add_terms(data)?;
    for (i, j, rest) in [(0, 1, 2), (0, 2, 1), (1, 2, 0)] {
        let (Arg::Use(a), Arg::Use(b)) = (all[i], all[j]) else { continue };
        let cancel = (a.value, a.part) == (b.value, b.part)
            && a.negated != b.negated
            && [a, b].iter().all(|u| !u.inverted && !u.absolute && u.suffixes.is_empty());
        if cancel {
            return c.legal(data, sass::Op::IADD3, &[], &[RZ, all[rest], RZ]);
        }
    }
    None
}

/// `a * 0 + x`
fn product_with_zero(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let [a, b, x] = add_terms(data)?;
    (is_zero(&a) || is_zero(&b)).then(|| c.legal(data, sass::Op::IADD3, &[], &[RZ, x, RZ])).flatten()
}
