//! Address reassociation: moves constants out of address sums and products, so that array accesses whose indices differ
//! by a constant share one base.
//!
//! ```text
//! v3 = IMAD v0, 0x50, v1              v3 = IMAD v0, 0x50, v1
//! v2 = IADD3 v0, 0x10, RZ        →
//! v4 = IMAD v2, 0x50, v1
//! LDS [v3]; LDS [v4]                  LDS [v3]; LDS [v3 + 0x500]
//! ```
//!
//! All of these computations wrap around at 32 bits, as shared and local memory addresses do.

use super::rules::{RZ, add_terms, plain};
use super::{Combine, Rewrite};
use ori::entity::Entity;
use ori::{Arg, File, InstData, Op, Value};
use sass::M;
use smallvec::smallvec;

/// A word without the constant that is added to it.
struct Stripped {
    value: Value,
    constant: i32,
    /// Nothing else uses what it is in place of.
    replaces: bool,
}

/// The word and the constant whose sum a value is, however deep in its definition the constant is added. What computes
/// the word is there already, or takes the place of what is there.
pub(super) fn split(c: &mut Combine, value: Value, at: u32) -> Option<(Value, i64)> {
    let depth = c.tuning.combine_offset_depth;
    strip(c, value, at, depth).map(|s| (s.value, s.constant.into()))
}

fn strip(c: &mut Combine, value: Value, at: u32, depth: u32) -> Option<Stripped> {
    let data = c.definition_of(value).filter(|d| depth > 0 && d.results.len() == 1)?.clone();
    if c.is_from_loop(value) {
        return None;
    }
    let replaces = c.uses[value.index()] == 1;
    let Op::Machine(op) = data.op else { return None };
    match (op, &data.modifiers[..], &data.args[..]) {
        (sass::Op::IADD3, [], &[x, Arg::Imm(n), RZ]) => {
            Some(Stripped { value: plain(&x)?, constant: n as i32, replaces })
        }
        (sass::Op::IADD3, [], _) => {
            let terms = add_terms(&data)?;
            if let Some(at_constant) = terms.iter().position(|t| matches!(t, Arg::Imm(_))) {
                let Arg::Imm(n) = terms[at_constant] else { return None };
                let mut left =
                    terms.into_iter().enumerate().filter(|(i, _)| *i != at_constant).map(|(_, t)| t);
                let args = [left.next()?, left.next()?, RZ];
                let value = available_or_new(c, &data, &args, replaces, at)?;
                return Some(Stripped { value, constant: n as i32, replaces });
            }
            (0..3).find_map(|i| in_argument(c, &data, i, |n| n, (replaces, at, depth)))
        }
        (sass::Op::IMAD, [], &[_, Arg::Imm(factor), _]) => {
            in_argument(c, &data, 2, |n| n, (replaces, at, depth)).or_else(|| {
                in_argument(c, &data, 0, |n| n.wrapping_mul(factor as i32), (replaces, at, depth))
            })
        }
        (sass::Op::LEA, [], &[_, _, Arg::Imm(shift @ 0..32)]) => {
            in_argument(c, &data, 1, |n| n, (replaces, at, depth))
                .or_else(|| in_argument(c, &data, 0, |n| n.wrapping_shl(shift as u32), (replaces, at, depth)))
        }
        (sass::Op::SHF, [M::L, M::U32], &[_, Arg::Imm(shift @ 0..32), RZ]) => {
            in_argument(c, &data, 0, |n| n.wrapping_shl(shift as u32), (replaces, at, depth))
        }
        _ => None,
    }
}

/// An operation without the constant of one of its arguments; `scale` says what that adds to its result.
fn in_argument(
    c: &mut Combine,
    data: &InstData,
    index: usize,
    scale: impl Fn(i32) -> i32,
    (replaces, at, depth): (bool, u32, u32),
) -> Option<Stripped> {
    let argument = strip(c, plain(&data.args[index])?, at, depth - 1)?;
    let mut args = data.args.clone();
    args[index] = argument.value.into();
    let replaces = replaces && argument.replaces;
    let value = available_or_new(c, data, &args, replaces, at)?;
    Some(Stripped { value, constant: scale(argument.constant), replaces })
}

/// The result of an operation with other arguments: an available one, or a new one if the old one goes away.
fn available_or_new(
    c: &mut Combine,
    like: &InstData,
    args: &[Arg],
    replaces: bool,
    at: u32,
) -> Option<Value> {
    let Op::Machine(op) = like.op else { return None };
    let Rewrite::Inst(mut data) = c.legal(like, op, &like.modifiers, args)? else { return None };
    let key = c.expression_key(&data)?;
    if let Some(found) = c.available_expression(&key) {
        return c.function.insts[found].results.first().copied();
    }
    if !replaces {
        return None;
    }
    let value = c.function.value(File::R, 1);
    c.grow_tables();
    (data.results, data.at) = (smallvec![value], at);
    let inst = c.function.insts.push(*data);
    c.add(inst);
    c.make_available(&key, inst);
    Some(value)
}
