//! What an operation computes: the one semantics, on the bits of its arguments.
//!
//! Constant folding, rewrite tests and the simulator call this. An operation without a row here has no
//! meaning to the compiler and is never folded.

use sass::{M, Op};

/// The result words of a pure operation, or `None` where its meaning isn't written down here.
///
/// `args` are the argument words in the machine's order, negation and absolute value already applied;
/// predicates are 0 or 1.
pub fn eval(op: Op, modifiers: &[M], args: &[u32]) -> Option<Vec<u32>> {
    let has = |m: M| modifiers.contains(&m);
    let float = |i: usize| args.get(i).map(|b| f32::from_bits(*b));
    Some(match (op, args) {
        (Op::MOV, [a]) => vec![*a],
        (Op::SEL, [a, b, p]) => vec![if *p != 0 { *a } else { *b }],
        (Op::IADD3, [a, b, c]) if modifiers.is_empty() => vec![a.wrapping_add(*b).wrapping_add(*c)],
        (Op::IMAD, [a, b, c]) if modifiers.is_empty() => vec![a.wrapping_mul(*b).wrapping_add(*c)],
        (Op::IMAD, [a, b, lo, hi]) if has(M::WIDE) => {
            let product = match has(M::U32) {
                true => u64::from(*a) * u64::from(*b),
                false => (i64::from(*a as i32) * i64::from(*b as i32)) as u64,
            };
            let sum = product.wrapping_add(u64::from(*hi) << 32 | u64::from(*lo));
            vec![sum as u32, (sum >> 32) as u32]
        }
        (Op::LOP3, [a, b, c, table]) => vec![lop3(*a, *b, *c, *table)],
        (Op::SHF, [low, amount, high]) => vec![shift(modifiers, *low, *amount, *high)?],
        (Op::ISETP, [a, b, p]) if has(M::AND) => {
            vec![u32::from(compare(modifiers, *a, *b)? && *p != 0)]
        }
        (Op::FADD, [_, _]) if modifiers.is_empty() => vec![quiet(float(0)? + float(1)?)],
        (Op::FMUL, [_, _]) if modifiers.is_empty() => vec![quiet(float(0)? * float(1)?)],
        (Op::FFMA, [_, _, _]) if modifiers.is_empty() => vec![quiet(float(0)?.mul_add(float(1)?, float(2)?))],
        _ => return None,
    })
}

/// Bit by bit, the entry of the truth table that the three bits name.
pub fn lop3(a: u32, b: u32, c: u32, table: u32) -> u32 {
    (0..8).filter(|i| table >> i & 1 != 0).fold(0, |out, i| {
        let pick = |x: u32, bit: u32| if i >> bit & 1 != 0 { x } else { !x };
        out | pick(a, 2) & pick(b, 1) & pick(c, 0)
    })
}

/// `SHF.L.U32` and `SHF.R.U32.HI` and their kin, on 32-bit values with a clamped amount.
fn shift(modifiers: &[M], low: u32, amount: u32, high: u32) -> Option<u32> {
    let has = |m: M| modifiers.contains(&m);
    match (has(M::L), has(M::R), has(M::HI), has(M::W)) {
        (true, _, false, false) => Some(if amount > 31 { 0 } else { low << amount }),
        (_, true, true, false) if has(M::U32) => Some(if amount > 31 { 0 } else { high >> amount }),
        (_, true, true, false) if has(M::S32) => Some((high as i32 >> amount.min(31)) as u32),
        _ => None,
    }
}

fn compare(modifiers: &[M], a: u32, b: u32) -> Option<bool> {
    let unsigned = modifiers.contains(&M::U32);
    let order = if unsigned { a.cmp(&b) } else { (a as i32).cmp(&(b as i32)) };
    modifiers.iter().find_map(|m| match m {
        M::LT => Some(order.is_lt()),
        M::LE => Some(order.is_le()),
        M::GT => Some(order.is_gt()),
        M::GE => Some(order.is_ge()),
        M::EQ => Some(order.is_eq()),
        M::NE => Some(order.is_ne()),
        _ => None,
    })
}

/// The machine gives one NaN for all.
fn quiet(x: f32) -> u32 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lop3_tables() {
        for (a, b) in [(0b1100u32, 0b1010u32), (u32::MAX, 0x1234_5678)] {
            assert_eq!(lop3(a, b, 0, 0xc0), a & b);
            assert_eq!(lop3(a, b, 0, 0xfc), a | b);
            assert_eq!(lop3(a, b, 0, 0x3c), a ^ b);
        }
    }

    #[test]
    fn wide_multiply_adds_64_bits() {
        let out = eval(Op::IMAD, &[M::WIDE], &[u32::MAX, 4, 8, 0]);
        assert_eq!(out, Some(vec![4, 0]));
        let out = eval(Op::IMAD, &[M::WIDE, M::U32], &[u32::MAX, 4, 8, 0]);
        assert_eq!(out, Some(vec![4, 4]));
    }
}
