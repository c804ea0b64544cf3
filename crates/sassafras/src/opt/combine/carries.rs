//! Carry folding: a carry that was converted to a number becomes the second carry of the sum that it is added to.
//!
//! ```text
//! v3 = IADD3.X RZ, RZ, RZ, p0, !PT             v4, p2, p3 = IADD3.X v1, RZ, RZ, p1, p0
//! v4, p2 = IADD3.X v3, v1, RZ, p1, !PT    →    v5 = IADD3.X v2, RZ, RZ, p2, p3
//! v5 = IADD3.X v2, RZ, RZ, p2, !PT
//! ```
//!
//! Long integer multiplication does this to add the carry of one column to the next. Only both carry-out predicates
//! together are the carry of a sum with two carries, so the upper word must be the only use and takes both.

use super::rules::{RZ, is_zero, plain};
use super::{Combine, Rewrite};
use ori::entity::Entity;
use ori::{Arg, File, Inst, InstData, Op};
use sass::M;
use smallvec::{SmallVec, smallvec};

const NO_CARRY: Arg = Arg::True(false);

/// The words and the carry of a sum with one carry in.
fn with_carry(data: &InstData) -> Option<([Arg; 3], Arg)> {
    let is_sum = data.op == Op::Machine(sass::Op::IADD3) && data.guard.is_none();
    match (&data.modifiers[..], &data.args[..]) {
        ([M::X], [a, b, c, carry, NO_CARRY]) if is_sum => Some(([*a, *b, *c], *carry)),
        _ => None,
    }
}

/// The upper word of a sum whose lower word has a carry as a term.
pub(super) fn merge(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let (terms, carry) = with_carry(data)?;
    let below = plain(&carry).filter(|p| c.uses[p.index()] == 1)?;
    let (inst, mut lower) = take_carry(c, c.definition[below.index()]?)?;
    // It has no carry itself, or a dead one.
    let word = match data.results[..] {
        [word] => word,
        [word, dead] if c.uses[dead.index()] == 0 => word,
        _ => return None,
    };
    let second = c.function.value(File::P, 1);
    c.grow_tables();
    lower.results.push(second);
    let args = [terms[0], terms[1], terms[2], carry, second.into()];
    let upper = InstData { results: smallvec![word], args: SmallVec::from_slice(&args), ..data.clone() };
    if c.fuel.is_empty() || !c.is_legal(&lower) || !c.is_legal(&upper) {
        return None;
    }
    c.make_unavailable(inst);
    c.definition[second.index()] = Some(inst);
    c.visited_at[second.index()] = c.visited_at[below.index()];
    c.function.insts[inst] = lower;
    Some(Rewrite::Inst(Box::new(upper)))
}

/// The sum with a carry in place of the term that is this carry as a number.
fn take_carry(c: &Combine, inst: Inst) -> Option<(Inst, InstData)> {
    let lower = &c.function.insts[inst];
    let (mut terms, carry) = with_carry(lower).filter(|_| lower.results.len() == 2)?;
    let number = |arg: &Arg| {
        let value = plain(arg).filter(|v| c.uses[v.index()] == 1)?;
        let (terms, carry) = with_carry(c.definition_of(value)?)?;
        terms.iter().all(is_zero).then_some(carry)
    };
    let (at, second) = terms.iter().enumerate().find_map(|(at, arg)| Some((at, number(arg)?)))?;
    terms[at] = RZ;
    // Of two words the sum may carry 2, which the one predicate did not say.
    if terms.iter().filter(|term| !is_zero(term)).count() > 1 {
        return None;
    }
    let args = [terms[0], terms[1], terms[2], carry, second];
    Some((inst, InstData { args: SmallVec::from_slice(&args), ..lower.clone() }))
}
