//! Constant evaluation: the results of an instruction whose operands are known, by `ori::eval`.
//!
//! Shared by constant folding (`opt/combine`), which walks a function once, and by unrolling, which executes the exit
//! test of a loop iteration by iteration. Constant time for an instruction.

use crate::analysis::effects::is_function;
use ori::{Arg, File, Function, InstData, Op, Part, Pseudo, Use, Value, entity::Entity, eval};
use sass::M;

/// Values whose bits are known.
pub struct Constants<'a> {
    pub function: &'a Function,
    /// By value.
    pub bits: &'a [Option<u64>],
}

impl Constants<'_> {
    /// The bits of the words that a use reads, before its modifiers.
    pub fn of_use(&self, u: &Use) -> Option<u64> {
        let bits = (*self.bits.get(u.value.index())?)?;
        match u.part {
            None => Some(bits),
            Some(Part { first, count }) if first + count <= 2 => {
                let mask = if count >= 2 { u64::MAX } else { u64::from(u32::MAX) };
                Some(bits >> (32 * u32::from(first)) & mask)
            }
            _ => None,
        }
    }

    /// The results of an instruction, if its operands are all known.
    pub fn evaluate(&self, data: &InstData) -> Option<Vec<(Value, u64)>> {
        if data.guard.is_some() {
            return None;
        }
        let op = match data.op {
            Op::Machine(op) => op,
            Op::Pseudo(_) => return self.packed_bits(data),
            Op::Generic(op) => {
                let args: Option<Vec<eval::Arg>> = data.args.iter().map(|a| self.argument(a)).collect();
                let results = eval::generic::eval(op, &data.modifiers, &args?)?;
                return Some(vec![(*data.results.first()?, results.bits())]);
            }
        };
        // At least one thread is active.
        if op == sass::Op::VOTEU && data.modifiers[..] == [M::ANY] && data.args[..] == [Arg::True(true)] {
            return Some(data.results.iter().map(|r| (*r, 1)).collect());
        }
        // All threads have the same value.
        if op == sass::Op::SHFL {
            let bits = self.argument(data.args.first()?)?.bits;
            let word = data.results.iter().find(|r| self.function.values[**r].file == File::R)?;
            return Some(vec![(*word, bits)]);
        }
        let sources = if has_second_predicate(op) && data.results.len() == 1 { 1 } else { 0 };
        let sources = data.args.get(sources..)?;
        // Most instructions have such an operand: they are done here.
        let is_unknown = |a: &Arg| matches!(a, Arg::Use(u) if self.of_use(u).is_none());
        if sources.iter().any(is_unknown) || !is_function(data) || is_double_or_half(op) {
            return None;
        }
        let args: Option<Vec<eval::Arg>> = sources.iter().map(|a| self.argument(a)).collect();
        let results = eval::eval(op, &data.modifiers, &args?)?;
        let mut predicates = 0;
        let mut all = Vec::new();
        for result in &data.results {
            let shape = self.function.values[*result];
            let bits = match shape.file {
                File::R if shape.words == results.words() => results.bits(),
                File::P => {
                    predicates += 1;
                    u64::from(results.predicate(predicates - 1)?)
                }
                _ => return None,
            };
            all.push((*result, bits));
        }
        Some(all)
    }

    /// The bits of a pack of two words.
    fn packed_bits(&self, data: &InstData) -> Option<Vec<(Value, u64)>> {
        let (Op::Pseudo(Pseudo::Pack), [Arg::Use(low), Arg::Use(high)]) = (data.op, &data.args[..]) else {
            return None;
        };
        let is_word = |u: &Use| u.part.map_or(self.function.values[u.value].words, |p| p.count) == 1;
        if !is_word(low) || !is_word(high) {
            return None;
        }
        let bits = self.of_use(high)? << 32 | self.of_use(low)?;
        Some(vec![(data.results[0], bits)])
    }

    fn argument(&self, arg: &Arg) -> Option<eval::Arg> {
        Some(match arg {
            Arg::Imm(n) => eval::Arg::word(*n as u32),
            Arg::Zero(_) => eval::Arg::word(0),
            Arg::MinusZero => eval::Arg::word(0).neg(),
            Arg::True(sense) => eval::Arg::predicate(*sense),
            Arg::Use(u) if !(u.negated && u.inverted) => eval::Arg {
                bits: self.of_use(u)?,
                negated: u.negated || u.inverted,
                absolute: u.absolute,
                part: u.suffixes.only()?,
            },
            _ => return None,
        })
    }
}

/// Immediates of these are upper halves, or two halves: not what `eval` takes.
fn is_double_or_half(op: sass::Op) -> bool {
    sass::Form::of(op).first().is_some_and(|form| {
        use sass::Class::*;
        matches!(form.class, Double | Fp64 | Half | Hmma2)
    })
}

/// Has it two predicate results? The second, if unused, is `PT` before the operands.
fn has_second_predicate(op: sass::Op) -> bool {
    use sass::Op::*;
    matches!(op, DSETP | FSETP | HSETP2 | ISETP | PLOP3)
}
