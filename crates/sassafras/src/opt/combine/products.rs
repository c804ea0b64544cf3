//! Both words of a product: `mul.lo` and `mul.hi` of the same factors are one `IMAD.WIDE`.
//!
//! ```text
//! v2 = IMAD v0, v1, RZ                   v4 = IMAD.WIDE.U32 v0, v1, RZ
//! v3 = IMAD.HI.U32 v0, v1, RZ       →    v2 = Copy v4.0
//!                                        v3 = Copy v4.1
//! ```
//!
//! Random number generators (Philox), hashes and arithmetic of long integers multiply so. `IMAD.HI` takes two issue slots
//! of the multiplier, `IMAD.WIDE` too: a third of the time is saved.

use super::rules::is_zero;
use super::{Combine, Rewrite};
use ori::{Arg, File, Inst, InstData, Op, Pseudo, Value, entity::Entity};
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
