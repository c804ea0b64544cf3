//! Float folding: lower bounds, sign modifiers of operands, selects of constants.
//!
//! A division tests whether its divisor is so small that the reciprocal overflows. Most divisors are a non-negative
//! value plus a constant, as in `1 / (1 + exp(x))`, where a lower bound makes the test a constant.
//!
//! ```text
//! v1 = MUFU.EX2 v0                       v2 = FADD v1, 1.0
//! v2 = FADD v1, 1.0                 →    p = true
//! p = FSETP.GEU v2, 2^-126
//! ```

use super::{Combine, Rewrite};
use ori::{Arg, File, InstData, Op, Use, entity::Entity};
use sass::M;
use sass::signs::{self, Number};
use smallvec::SmallVec;

impl Combine<'_> {
    /// Does `x >= c` or `x` is NaN always hold?
    pub(super) fn is_at_least(&self, data: &InstData) -> bool {
        let compares =
            data.op == Op::Machine(sass::Op::FSETP) && data.results.len() == 1 && data.guard.is_none();
        let ([M::GEU, M::AND] | [M::GEU, M::FTZ, M::AND]) = data.modifiers[..] else { return false };
        let [Arg::True(true), x, Arg::Imm(c), Arg::True(true)] = &data.args[..] else { return false };
        compares
            && self
                .lower_bound(x, self.tuning.float_bound_depth)
                .is_some_and(|least| least >= f32::from_bits(*c as u32))
    }

    /// A lower bound of a float, unless it is NaN. Sums and products are rounded to nearest, which is monotonic. A
    /// subnormal result may be flushed to zero.
    fn lower_bound(&self, arg: &Arg, depth: u32) -> Option<f32> {
        let u = match arg {
            Arg::Imm(n) => return Some(f32::from_bits(*n as u32)).filter(|c| !c.is_nan()),
            Arg::Zero(_) => return Some(0.0),
            Arg::Use(u) => u,
            _ => return None,
        };
        if *u == (Use { absolute: true, ..Use::of(u.value) }) {
            return Some(self.lower_bound(&u.value.into(), depth).map_or(0.0, |least| least.max(0.0)));
        }
        if !u.is_plain() || u.part.is_some() || depth == 0 {
            return None;
        }
        if let Some(bits) = self.known[u.value.index()] {
            return Some(f32::from_bits(bits as u32)).filter(|c| !c.is_nan());
        }
        let data = &self.function.insts[self.definition[u.value.index()]?];
        let least = |arg: &Arg| self.lower_bound(arg, depth - 1);
        // Of what is not negative.
        let product = |a: &Arg, b: &Arg| match a == b {
            true => Some(0.0),
            false => Some(least(a)? * least(b)?).filter(|_| least(a) >= Some(0.0) && least(b) >= Some(0.0)),
        };
        let Op::Machine(op) = data.op else { return None };
        let computed = match (op, &data.modifiers[..], &data.args[..]) {
            (sass::Op::MUFU, [M::EX2 | M::SQRT], _) => 0.0,
            (sass::Op::MUFU, [M::SIN | M::COS | M::TANH], _) => -1.0,
            (sass::Op::FADD, [] | [M::FTZ], [a, b]) => least(a)? + least(b)?,
            (sass::Op::FMUL, [] | [M::FTZ], [a, b]) => product(a, b)?,
            (sass::Op::FFMA, [] | [M::FTZ], [a, b, c]) => product(a, b).and(least(c))?,
            (sass::Op::SEL | sass::Op::FSEL, [], [a, b, _]) => least(a)?.min(least(b)?),
            _ => return None,
        };
        let else_value = match &data.guard {
            Some(guard) => least(&Arg::from(*guard.else_values.first()?))?,
            None => f32::INFINITY,
        };
        let least = computed.min(else_value);
        let flushed = if least.abs() < f32::MIN_POSITIVE { least.min(0.0) } else { least };
        Some(flushed).filter(|l| !l.is_nan())
    }

    /// Folds negations and absolute values into operand modifiers. The operand must be read as the same kind of number as
    /// the sign was changed of (`sass::signs`): a float's sign is not that of two halves, nor that of a double's upper
    /// word.
    pub(super) fn fold_sign_modifiers(&mut self, data: &mut InstData) {
        let Op::Machine(op) = data.op else { return };
        let mut source = 0;
        for at in 0..data.args.len() {
            if self.is_predicate(&data.args[at]) {
                continue;
            }
            source += 1;
            let Arg::Use(outer) = data.args[at] else { continue };
            let Some(arg) = self.signed_operand(op, &data.modifiers, source - 1, outer) else { continue };
            let before = std::mem::replace(&mut data.args[at], arg);
            if !self.is_legal(data) || !self.fuel.burn() {
                data.args[at] = before;
            }
        }
    }

    fn is_predicate(&self, arg: &Arg) -> bool {
        match arg {
            Arg::True(_) => true,
            Arg::Use(u) => matches!(self.function.values[u.value].file, File::P | File::UP),
            _ => false,
        }
    }

    /// An operand that is another value with its sign changed, as that value with modifiers. A change of sign gives the
    /// canonical NaN, and so do operations that read it, whichever NaN they read; but a select shows which one it was.
    fn signed_operand(&self, op: sass::Op, modifiers: &[M], source: usize, outer: Use) -> Option<Arg> {
        let definition = self.definition_of(outer.value)?;
        let (changed, inner) = sign_change(definition)?;
        let taken = signs::number(op, modifiers, source).filter(|_| !signs::passes_nan(op))?;
        // Operations that flush subnormal operands may read the value before it was flushed.
        let is_fine = same_number(changed, taken)
            && (!definition.modifiers.contains(&M::FTZ) || signs::flushes(op, modifiers))
            && has_only_sign_modifiers(&outer)
            && has_only_sign_modifiers(&inner);
        is_fine.then_some(Arg::Use(Use {
            negated: outer.negated != (inner.negated && !outer.absolute),
            absolute: outer.absolute || inner.absolute,
            // A selected half is in both halves.
            suffixes: if inner.suffixes.is_empty() { outer.suffixes } else { inner.suffixes },
            ..Use::of(inner.value)
        }))
    }

    /// A guarded operation on constants with a constant else value is a select of two constants.
    pub(super) fn select_constants(&self, data: &InstData) -> Option<Rewrite> {
        let (guard, [result]) = (data.guard.as_ref()?, &data.results[..]) else { return None };
        let else_value = *guard.else_values.first()?;
        let shape = self.function.values[*result];
        if (shape.file, shape.words) != (File::R, 1) || self.known[else_value.index()].is_none() {
            return None;
        }
        let holds = InstData { guard: None, ..data.clone() };
        let [(_, bits)] = self.results(&holds)?[..] else { return None };
        let predicate = if guard.negated { guard.predicate.into() } else { Arg::not(guard.predicate) };
        let args = [else_value.into(), Arg::Imm(i64::from(bits as i32)), predicate];
        let op = Op::Machine(sass::Op::SEL);
        let new = InstData { op, modifiers: Default::default(), args: SmallVec::from_slice(&args), ..holds };
        self.is_legal(&new).then(|| Rewrite::Inst(Box::new(new)))
    }
}

/// A sum with zero that only saturates is the modifier of the operation that computes its operand. That the sum flushes a
/// subnormal result is what that operation must do as well; a NaN and -0 become +0 in both.
pub(super) fn saturate(c: &mut Combine, data: &InstData) -> Option<Rewrite> {
    let ([M::SAT] | [M::FTZ, M::SAT]) = data.modifiers[..] else { return None };
    let ([Arg::Zero(_), operand] | [operand, Arg::Zero(_)]) = &data.args[..] else { return None };
    let families = [sass::Op::FFMA, sass::Op::FADD, sass::Op::FMUL];
    let from = families.into_iter().find_map(|op| c.single_use(operand, op))?;
    let flushes = data.modifiers.contains(&M::FTZ);
    if from.modifiers.contains(&M::SAT) || flushes && !from.modifiers.contains(&M::FTZ) {
        return None;
    }
    // All three saturate on every machine; legalization moves one of two constants to a register.
    let mut modifiers = from.modifiers.clone();
    modifiers.push(M::SAT);
    Some(Rewrite::Inst(Box::new(InstData {
        op: from.op,
        modifiers,
        args: from.args.clone(),
        ..data.clone()
    })))
}

/// The operand that an operation returns with its sign changed, and the kind of number that it reads it as.
fn sign_change(data: &InstData) -> Option<(Number, Use)> {
    let Op::Machine(op) = data.op else { return None };
    let (arg, source) = match (op, &data.modifiers[..], &data.args[..]) {
        (sass::Op::FADD | sass::Op::HADD2, [] | [M::FTZ], [arg, Arg::MinusZero]) => (arg, 0),
        (sass::Op::DADD, [], [Arg::MinusZero, arg]) => (arg, 1),
        (sass::Op::HFMA2, [M::BF16_V2], [Arg::MinusZero, Arg::Zero(_), arg]) => (arg, 2),
        _ => return None,
    };
    let Arg::Use(inner) = arg else { return None };
    Some((signs::number(op, &data.modifiers, source)?, *inner))
}

/// Is the sign of the one the sign of the other? A half of a negated pair is negated, too.
fn same_number(changed: Number, taken: Number) -> bool {
    changed == taken
        || (changed, taken) == (Number::F16x2, Number::F16)
        || (changed, taken) == (Number::Bf16x2, Number::Bf16)
}

/// A whole value with sign modifiers, or with a half broadcast.
fn has_only_sign_modifiers(u: &Use) -> bool {
    let Use { negated, absolute, suffixes, .. } = *u;
    let part = matches!(suffixes.only(), Some(M::Empty | M::H0_H0 | M::H1_H1));
    part && *u == Use { negated, absolute, suffixes, ..Use::of(u.value) }
}
