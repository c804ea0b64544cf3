//! Packed halves: two operations on halves whose results become the halves of a word are one.
//!
//! ```text
//! v2 = HADD2 v0.H0_H0, v1.H0_H0
//! v3 = HADD2 v0.H1_H1, v1.H1_H1     →    v4 = HADD2 v0, v1
//! v4 = PRMT v2, 0x5410, v3
//! ```
//!
//! The same for a tree of such operations. Each has no other use, so that as many go as come, and the pack as well.

use super::rules::plain;
use super::{Combine, Rewrite};
use ori::{Arg, File, InstData, Op, Use, Value};
use sass::{M, Suffixes};
use smallvec::smallvec;

/// The lower halves of two words.
const PACK: i64 = 0x5410;

pub(super) fn pack(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([], [low, Arg::Imm(PACK), high], None) = (&data.modifiers[..], &data.args[..], &data.guard) else {
        return None;
    };
    let (low, high) = (plain(low)?, plain(high)?);
    let depth = c.tuning.combine_half_depth;
    packed(c, [low, high], depth)
        .map(|new| Rewrite::Inst(Box::new(InstData { results: data.results.clone(), ..new })))
}

/// The operation whose halves are the lower halves of two values.
fn packed(c: &mut Combine, [low, high]: [Value; 2], depth: u32) -> Option<InstData> {
    let of = |value: Value| {
        let data = c.single_use(&value.into(), half_operation(c, value)?)?;
        Some(data.clone())
    };
    let (low, high) = (of(low).filter(|_| depth > 0)?, of(high)?);
    if low.op != high.op || low.modifiers != high.modifiers || low.args.len() != high.args.len() {
        return None;
    }
    let mut new = low.clone();
    for (at, (low, high)) in low.args.iter().zip(&high.args).enumerate() {
        new.args[at] = operand(c, low, high, depth)?;
    }
    c.is_legal(&new).then_some(new)
}

fn half_operation(c: &Combine, value: Value) -> Option<sass::Op> {
    use sass::Op::{HADD2, HFMA2, HMNMX2, HMUL2};
    let data = c.definition_of(value)?;
    let Op::Machine(op @ (HADD2 | HFMA2 | HMNMX2 | HMUL2)) = data.op else { return None };
    let is_of_halves = !data.modifiers.iter().any(|m| matches!(m, M::F32));
    is_of_halves.then_some(op)
}

/// The operand whose halves two operations read.
fn operand(c: &mut Combine, low: &Arg, high: &Arg, depth: u32) -> Option<Arg> {
    let (l, h) = match (low, high) {
        (Arg::Use(l), Arg::Use(h)) => (l, h),
        (Arg::Imm(l), Arg::Imm(h)) => {
            let bits = *l as u32 & 0xffff | (*h as u32) << 16;
            return Some(Arg::Imm(i64::from(bits as i32)));
        }
        (Arg::Zero(_) | Arg::MinusZero | Arg::True(_), _) => return (low == high).then_some(*low),
        _ => return None,
    };
    let without_half = |u: &Use| Use { suffixes: Suffixes::NONE, ..*u };
    let is_register = |u: &Use| u.part.is_none() && c.function.values[u.value].file == File::R;
    if l == h {
        // A predicate, or the same half of the same word.
        return Some(*low).filter(|_| !is_register(l) || l.suffixes.only().is_some_and(|m| m != M::Empty));
    }
    if !is_register(l) || !is_register(h) {
        return None;
    }
    let halves = [l.suffixes.only()?, h.suffixes.only()?];
    if halves == [M::H0_H0, M::H1_H1] && without_half(l) == without_half(h) {
        return Some(Arg::Use(without_half(l)));
    }
    let is_alike = halves == [M::H0_H0; 2] && Use { value: h.value, ..*l } == *h;
    let data = packed(c, [l.value, h.value], depth - 1).filter(|_| is_alike)?;
    let value = c.function.value(File::R, 1);
    c.grow_tables();
    c.append(InstData { results: smallvec![value], ..data });
    Some(Arg::Use(Use { value, ..without_half(l) }))
}
