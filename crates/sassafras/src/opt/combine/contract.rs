//! Contraction: fuses a float product and a sum that uses it into one operation that rounds once (`-fmad`).
//!
//! ```text
//! v3 = FMUL v0, v1
//! v4 = FADD -v3, v2                 →    v4 = FFMA -v0, v1, v2
//! ```
//!
//! PTX allows this for `mul` and `add` without a rounding modifier (PTX ISA, `add`: "may be optimized aggressively");
//! lowering lists their results in [`ori::Function::contractable`]. Contraction changes result bits, so it is done
//! exactly where ptxas 13.0 does it: both operations are in the same block and flush subnormals alike, the product does
//! not saturate, and all uses of the product are such sums, so that the product becomes dead. If two products are
//! added, the one without another use is fused, otherwise the first.

use super::{Combine, Rewrite};
use ori::{Arg, Cfg, Function, InstData, Op, Use, Value, entity::Entity};
use rustc_hash::FxHashMap;
use sass::M;
use smallvec::SmallVec;

/// The product and the fused operation that belong to a sum.
fn family(sum: Op) -> Option<(sass::Op, sass::Op)> {
    use sass::Op::*;
    match sum {
        Op::Machine(FADD) => Some((FMUL, FFMA)),
        Op::Machine(FADD2) => Some((FMUL2, FFMA2)),
        Op::Machine(DADD) => Some((DMUL, DFMA)),
        Op::Machine(HADD2) => Some((HMUL2, HFMA2)),
        _ => None,
    }
}

/// The product that an operand of a sum is, if the two can be contracted.
fn product<'f>(
    function: &'f Function,
    sum: &InstData,
    u: &Use,
    definition: &'f InstData,
) -> Option<&'f InstData> {
    let (mul, _) = family(sum.op)?;
    let is_marked = |data: &InstData| match data.results[..] {
        [result] => function.contractable.contains(&result),
        _ => false,
    };
    // The sum may saturate, after it is rounded.
    let rounds_alike = || sum.modifiers.iter().filter(|m| **m != M::SAT).eq(definition.modifiers.iter());
    let is_product =
        definition.op == Op::Machine(mul) && definition.guard.is_none() && definition.args.len() == 2;
    (is_product
        && is_marked(definition)
        && is_marked(sum)
        && rounds_alike()
        && !u.absolute
        && !u.inverted
        && u.part.is_none())
    .then_some(definition)
}

/// How many uses of each product are operands of sums in its block that it can be contracted with.
pub(super) fn uses(function: &Function, cfg: &Cfg) -> FxHashMap<Value, u32> {
    let mut all = FxHashMap::default();
    if function.contractable.is_empty() {
        return all;
    }
    for block in &cfg.order {
        let mut products: FxHashMap<Value, &InstData> = FxHashMap::default();
        for inst in &function.blocks[*block].insts {
            let data = &function.insts[*inst];
            if let [result] = data.results[..]
                && function.contractable.contains(&result)
            {
                products.insert(result, data);
            }
            let [Arg::Use(a), Arg::Use(b)] = &data.args[..] else {
                count(function, data, &products, &mut all);
                continue;
            };
            // `p + p` is no sum of a product and something else.
            if a.value != b.value {
                count(function, data, &products, &mut all);
            }
        }
    }
    all
}

fn count(
    function: &Function,
    sum: &InstData,
    products: &FxHashMap<Value, &InstData>,
    all: &mut FxHashMap<Value, u32>,
) {
    for arg in &sum.args {
        if let Arg::Use(u) = arg
            && let Some(definition) = products.get(&u.value)
            && product(function, sum, u, definition).is_some()
        {
            *all.entry(u.value).or_default() += 1;
        }
    }
}

/// An operand of the product as the operand of the fused operation, where the sum reads the product as `u`.
fn factor(arg: &Arg, u: &Use) -> Arg {
    match arg {
        // A half of the product is the product of these halves.
        Arg::Use(from) if from.suffixes.is_empty() && u.suffixes.first() != M::F32x2_HI_LO => {
            Arg::Use(Use { suffixes: u.suffixes, ..*from })
        }
        other => *other,
    }
}

pub(super) fn rule(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let (_, fused) = family(data.op)?;
    let [a, b] = data.args[..] else { return None };
    let candidate = |sum: &Arg, alone: bool| -> Option<(Use, [Arg; 2])> {
        let Arg::Use(u) = sum else { return None };
        let total = c.uses[u.value.index()];
        let is_whole = c.contracted_uses.get(&u.value) == Some(&total) && (total == 1 || !alone);
        let definition = c.definition_of(u.value).filter(|_| is_whole)?;
        let product = product(c.function, data, u, definition)?;
        Some((*u, [product.args[0], product.args[1]]))
    };
    let ways = [(a, b, true), (b, a, true), (a, b, false), (b, a, false)];
    let found = ways.iter().find_map(|(sum, other, alone)| Some((candidate(sum, *alone)?, *other)));
    let ((u, [x, y]), addend) = found?;
    let (x, y) = (factor(&x, &u), factor(&y, &u));
    let x = match x {
        Arg::Use(from) => Arg::Use(Use { negated: from.negated != u.negated, ..from }),
        _ => return None,
    };
    // The other product, if there is one, stays.
    if let Arg::Use(other) = addend {
        c.contracted_uses.remove(&other.value);
    }
    let args = SmallVec::from_slice(&[x, y, addend]);
    // Legalization moves one of two constants to a register.
    let new = InstData { op: Op::Machine(fused), args, ..data.clone() };
    Some(Rewrite::Inst(Box::new(new)))
}
