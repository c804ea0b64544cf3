//! Floats of which it is known how small they can be, and choices between constants.
//!
//! A division looks whether its divisor is so small that its reciprocal would be none. Most divisors are sums of
//! something that is not negative and a constant, as in `1 / (1 + exp(x))`, and never are.

use super::{Combine, Rewrite};
use ori::{Arg, File, InstData, Op, Use, entity::Entity};
use sass::M;
use smallvec::SmallVec;

/// Definitions that are followed.
const DEEPEST: usize = 6;

impl Combine<'_> {
    /// `x >= c`, or `x` is no number, for an `x` that is never below `c`.
    pub(super) fn is_never_below(&self, data: &InstData) -> bool {
        let compares =
            data.op == Op::Machine(sass::Op::FSETP) && data.results.len() == 1 && data.guard.is_none();
        let ([M::GEU, M::AND] | [M::GEU, M::FTZ, M::AND]) = data.modifiers[..] else { return false };
        let [Arg::True(true), x, Arg::Imm(c), Arg::True(true)] = &data.args[..] else { return false };
        compares && self.least(x, DEEPEST).is_some_and(|least| least >= f32::from_bits(*c as u32))
    }

    /// A number that a float is not below, unless it is none at all. Sums and products are rounded to the nearest: those
    /// of larger numbers are not smaller. What would be subnormal may be zero.
    fn least(&self, arg: &Arg, depth: usize) -> Option<f32> {
        let u = match arg {
            Arg::Imm(n) => return Some(f32::from_bits(*n as u32)).filter(|c| !c.is_nan()),
            Arg::Zero(_) => return Some(0.0),
            Arg::Use(u) => u,
            _ => return None,
        };
        if *u == (Use { absolute: true, ..Use::of(u.value) }) {
            return Some(self.least(&u.value.into(), depth).map_or(0.0, |least| least.max(0.0)));
        }
        if !u.is_plain() || u.part.is_some() || depth == 0 {
            return None;
        }
        if let Some(bits) = self.known[u.value.index()] {
            return Some(f32::from_bits(bits as u32)).filter(|c| !c.is_nan());
        }
        let data = &self.function.insts[self.definition[u.value.index()]?];
        let least = |arg: &Arg| self.least(arg, depth - 1);
        // Of what is not negative.
        let product = |a: &Arg, b: &Arg| match a == b {
            true => Some(0.0),
            false => Some(least(a)? * least(b)?).filter(|_| least(a) >= Some(0.0) && least(b) >= Some(0.0)),
        };
        let Op::Machine(op) = data.op else { return None };
        let computed = match (op, &data.modifiers[..], &data.args[..]) {
            (sass::Op::MUFU, [M::EX2 | M::SQRT], _) => 0.0,
            (sass::Op::FADD, [] | [M::FTZ], [a, b]) => least(a)? + least(b)?,
            (sass::Op::FMUL, [] | [M::FTZ], [a, b]) => product(a, b)?,
            (sass::Op::FFMA, [] | [M::FTZ], [a, b, c]) => product(a, b).and(least(c))?,
            (sass::Op::SEL | sass::Op::FSEL, [], [a, b, _]) => least(a)?.min(least(b)?),
            _ => return None,
        };
        let kept = match &data.guard {
            Some(guard) => least(&Arg::from(*guard.kept.first()?))?,
            None => f32::INFINITY,
        };
        let least = computed.min(kept);
        let flushed = if least.abs() < f32::MIN_POSITIVE { least.min(0.0) } else { least };
        Some(flushed).filter(|l| !l.is_nan())
    }

    /// Negated or absolute floats have an instruction of their own, as every PTX instruction has; but operations take
    /// their operands so. Those that flush subnormal operands take what was flushed as it was, too. What is no number
    /// makes a result that is none, always with the same bits.
    pub(super) fn take_signs(&mut self, data: &mut InstData) {
        use sass::Op::{FADD, FFMA, FMNMX, FMUL, FSETP, MUFU};
        let Op::Machine(FADD | FFMA | FMNMX | FMUL | FSETP | MUFU) = data.op else { return };
        for at in 0..data.args.len() {
            let Arg::Use(outer) = data.args[at] else { continue };
            let Some(arg) = self.sign_of(data, outer) else { continue };
            let before = std::mem::replace(&mut data.args[at], arg);
            if !self.is_legal(data) || !self.fuel.burn() {
                data.args[at] = before;
            }
        }
    }

    /// An operand that only is another value with another sign, as that value.
    fn sign_of(&self, data: &InstData, outer: Use) -> Option<Arg> {
        let definition = self.define(outer.value)?;
        let flushes = |data: &InstData| data.modifiers.contains(&M::FTZ);
        let ([] | [M::FTZ], Op::Machine(sass::Op::FADD), [Arg::Use(inner), Arg::MinusZero]) =
            (&definition.modifiers[..], definition.op, &definition.args[..])
        else {
            return None;
        };
        let signs = |u: &Use| *u == Use { negated: u.negated, absolute: u.absolute, ..Use::of(u.value) };
        let fine = signs(&outer) && signs(inner) && (!flushes(definition) || flushes(data));
        let negated = outer.negated != (inner.negated && !outer.absolute);
        let absolute = outer.absolute || inner.absolute;
        fine.then_some(Arg::Use(Use { negated, absolute, ..Use::of(inner.value) }))
    }

    /// A product of constants where a guard holds, and a constant where it doesn't: one of the two.
    pub(super) fn choice_of_constants(&self, data: &InstData) -> Option<Rewrite> {
        let (guard, [result]) = (data.guard.as_ref()?, &data.results[..]) else { return None };
        let kept = *guard.kept.first()?;
        let shape = self.function.values[*result];
        if (shape.file, shape.words) != (File::R, 1) || self.known[kept.index()].is_none() {
            return None;
        }
        let holds = InstData { guard: None, ..data.clone() };
        let [(_, bits)] = self.results(&holds)?[..] else { return None };
        let predicate = if guard.negated { guard.predicate.into() } else { Arg::not(guard.predicate) };
        let args = [kept.into(), Arg::Imm(i64::from(bits as i32)), predicate];
        let op = Op::Machine(sass::Op::SEL);
        let new = InstData { op, modifiers: Default::default(), args: SmallVec::from_slice(&args), ..holds };
        self.is_legal(&new).then(|| Rewrite::Become(Box::new(new)))
    }
}
