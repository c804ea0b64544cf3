//! What the signs before an operand change: `-x`, `|x|`, `~x`, `!p`.
//!
//! Which signs an operand can have, on which target, is a matter of its slot in the table: [`legal`](crate::legal)
//! asks it. What a sign then means depends on what the operation takes the operand for, which is a matter of its
//! modifiers: the same bit of `MUFU` negates a float, the upper word of a double, or a half. [`number`] says so for
//! every slot of the table that has a sign; a test goes through all of them. A sign moves from an operation onto the
//! operand of another only if both take the bits for the same kind of number.
//!
//! `ori::eval` gives signs their meaning; a test there compares it with this list, form by form.

use crate::form::{M, Op};

/// What an operand's bits are to the signs before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// The sign is bit 31.
    F32,
    /// Two words; the sign is bit 63.
    F64,
    /// The upper word of a double: the sign is bit 31, but other words are NaNs than those of floats.
    F64High,
    /// One half of a register, the lower one if no suffix says `.H1`: the sign is its bit 15.
    F16,
    /// The same of a bfloat16.
    Bf16,
    /// Both halves of a register (a suffix may choose one for both): each has a sign.
    F16x2,
    /// The same of bfloat16.
    Bf16x2,
    /// Two words, each with a sign.
    F32x2,
    /// Four small floats, each with a sign.
    F8x4,
    /// The elements of a matrix.
    Matrix,
    /// Two's complement of so many bits.
    Integer(u8),
    /// The elements of a vector, or a number with more bits than the register, whose sum is saturated.
    Integers,
    /// Each bit: `~x`. With `.X`, where a carry goes on, sums have it in place of `-x`.
    Bits,
    /// Each bit, once the operand is shifted.
    Shifted,
    /// `!p`
    Predicate,
}

/// What an operation takes its source operand for, counted from 0 without predicates. `None`: it has no signs, or they
/// are not what they look like.
pub fn number(op: Op, modifiers: &[M], source: usize) -> Option<Number> {
    use Op::*;
    let has = |m: M| modifiers.contains(&m);
    Some(match op {
        // The text has bars around both operands, but the signs of these words make that of the result.
        FMNMX | UFMNMX | FMNMX3 | HMNMX2 | VHMNMX if has(M::XORSIGN) => return None,
        FADD | FMUL | FFMA | FMNMX | FMNMX3 | FSEL | FSET | FSETP | FCHK => Number::F32,
        UFADD | UFMUL | UFFMA | UFMNMX | UFSEL | UFSET | UFSETP => Number::F32,
        FADD2 | FMUL2 | FFMA2 => Number::F32x2,
        DADD | DMUL | DFMA | DSETP => Number::F64,
        MUFU if has(M::RCP64H) || has(M::RSQ64H) => Number::F64High,
        MUFU | F2I | UF2I | FRND | UFRND => float(modifiers.iter().rev())?,
        F2F | UF2F => float(modifiers.iter().rev())?,
        FHADD | UFHADD if source == 0 => half(modifiers),
        FHFMA | UFHFMA if source < 2 => half(modifiers),
        FHADD | UFHADD | FHFMA | UFHFMA => Number::F32,
        HADD2 | HMUL2 | HFMA2 | HMNMX2 | HSET2 | HSETP2 | VHMNMX => match has(M::BF16_V2) {
            true => Number::Bf16x2,
            false => Number::F16x2,
        },
        QADD4 | QMUL4 | QFMA4 => Number::F8x4,
        DMMA | HMMA | HGMMA | OMMA | QGMMA | QMMA => Number::Matrix,
        LEA | ULEA if has(M::X) && source == 0 => Number::Shifted,
        IADD | IADD3 | UIADD3 | LEA | ULEA | IMAD | UIMAD if has(M::X) => Number::Bits,
        IADD | IADD3 | UIADD3 if has(M::_64) => Number::Integer(64),
        IMAD | UIMAD if has(M::WIDE) || has(M::HI) => Number::Integer(64),
        IADD | IADD3 | UIADD3 | LEA | ULEA | IMAD | UIMAD | IDP => Number::Integer(32),
        VIADD | UVIADD | VIADDMNMX => match vector(modifiers) || has(M::ISAT) {
            true => Number::Integers,
            false => Number::Integer(32),
        },
        FLO | UFLO | POPC | UPOPC => Number::Bits,
        // The mask of threads.
        BRA | JMP | ELECT => Number::Bits,
        _ => return None,
    })
}

/// The float type that is named first in this order; `F32` where there is none.
fn float<'m>(modifiers: impl Iterator<Item = &'m M>) -> Option<Number> {
    let named = modifiers.filter_map(|m| {
        Some(match m {
            M::F16 => Number::F16,
            M::BF16 => Number::Bf16,
            M::F32 => Number::F32,
            M::F64 => Number::F64,
            M::F16x2 => Number::F16x2,
            _ => return None,
        })
    });
    Some(named.into_iter().next().unwrap_or(Number::F32))
}

fn half(modifiers: &[M]) -> Number {
    if modifiers.contains(&M::BF16) { Number::Bf16 } else { Number::F16 }
}

fn vector(modifiers: &[M]) -> bool {
    modifiers.iter().any(|m| matches!(m, M::_16x2 | M::U16x2 | M::S16x2 | M::U8x4 | M::S8x4))
}

/// Does a result show which NaN an operand was? Others give the one NaN of their format, whatever the operand's sign
/// and payload are. (Of doubles, results have payloads; but no sign changes a double that is NaN.)
pub fn passes_nan(op: Op) -> bool {
    matches!(op, Op::FSEL | Op::UFSEL | Op::F2F | Op::UF2F)
}

/// Does it take subnormal operands for zeros? Where halves are added as floats, `.FTZ` is said of the floats.
pub fn flushes(op: Op, modifiers: &[M]) -> bool {
    modifiers.contains(&M::FTZ) && !(op == Op::HADD2 && modifiers.contains(&M::F32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{FORMS, Form, Kind, Mod, Role, Slot};

    /// The modifiers that a form always has, and one value of each that it may have.
    fn spellings(form: &Form) -> Vec<Vec<M>> {
        let mut all = vec![Vec::new()];
        for m in form.mods {
            let names: Vec<M> = match m {
                Mod::Literal(name) => vec![*name],
                Mod::Field { values, slot: None, .. } => values.iter().map(|v| v.0).collect(),
                _ => continue,
            };
            all = all
                .iter()
                .flat_map(|before| names.iter().map(move |n| [&before[..], &[*n]].concat()))
                .take(1 << 12)
                .collect();
        }
        all
    }

    fn is_number(slot: &Slot) -> bool {
        slot.role == Role::Use && !matches!(slot.kind, Kind::P | Kind::V)
    }

    /// Every slot of the table with a sign is a number of some kind; one with a sign for both `-` and `|x|` is a float.
    #[test]
    fn every_sign_of_the_table_has_a_number() {
        let (mut signed, mut wrong) = (0, Vec::new());
        for form in &FORMS[..] {
            for modifiers in spellings(form) {
                for (source, slot) in form.slots.iter().filter(|s| is_number(s)).enumerate() {
                    if slot.neg.is_none() && slot.abs.is_none() {
                        continue;
                    }
                    let found = number(form.op, &modifiers, source);
                    let text = format!("{} {modifiers:?} operand {source} ({})", form.op.name(), form.line);
                    if modifiers.contains(&M::XORSIGN) {
                        assert_eq!(found, None, "{text}");
                        continue;
                    }
                    let inverts = matches!(found, Some(Number::Bits | Number::Shifted));
                    let whole = inverts || matches!(found, Some(Number::Integer(_) | Number::Integers));
                    let fits = slot.inverts == inverts && (!whole || slot.abs.is_none());
                    if found.is_none() || !fits {
                        wrong.push(format!("{text}: {found:?}"));
                    }
                    signed += 1;
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {signed}: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
        assert!(signed > 10_000, "{signed}");
    }
}
