//! Loads of what was loaded before.
//!
//! A plain load from the same address as one before it in the block gives the same, if nothing in between can have
//! written there, or lets what others wrote be seen: no store, atomic, fence, barrier or call. What is not written while the kernel runs is the same anyway.

use super::{Combine, Key};
use crate::analysis::effects::{Effects, Touch};
use ori::entity::Entity;
use ori::{Arg, File, Inst, InstData, Op, Pseudo, Value};

impl Combine<'_> {
    /// If the same was loaded before, that is taken.
    pub(super) fn find_loaded(&mut self, data: &InstData, inst: Inst) -> bool {
        let since = match Effects::of(data).touch() {
            Touch::Nothing => return false,
            Touch::ReadOnly => self.begun,
            Touch::Reads => self.written,
            Touch::Writes => {
                self.written = self.now + 1;
                return false;
            }
        };
        let key = self.key_of_load(data);
        let before = self.loads.get(&key).copied().filter(|(_, when)| *when >= since);
        match before.filter(|_| self.fuel.burn()) {
            Some((found, _)) => {
                let values = self.function.insts[found].results.clone();
                for (result, value) in data.results.iter().zip(values) {
                    self.same[result.index()] = value;
                    // Who has a load to itself may change what it keeps.
                    self.uses[value.index()] += self.uses[result.index()];
                }
                true
            }
            None => {
                self.loads.insert(key, (inst, self.now + 1));
                false
            }
        }
    }

    /// Constants count by their bits, whichever value has them.
    fn key_of_load(&self, data: &InstData) -> Key {
        let (mut args, mut guard) = (data.args.clone(), data.guard.clone());
        for arg in &mut args {
            if let Arg::Use(u) = arg
                && u.part.is_none()
                && let Some(bits) = self.bits_of(u.value)
            {
                *arg = Arg::Imm(bits as i64);
            }
        }
        if let Some(guard) = &mut guard {
            // What keeps nothing in particular may keep anything.
            guard.else_values.retain(|v| !self.is_undefined(*v));
            let known: Vec<Option<u64>> = guard.else_values.iter().map(|v| self.bits_of(*v)).collect();
            if known.iter().all(Option::is_some) {
                args.extend(known.into_iter().flatten().map(|bits| Arg::Imm(bits as i64)));
                guard.else_values.clear();
            }
        }
        let shapes =
            data.results.iter().map(|v| (self.function.values[*v].file, self.function.values[*v].words));
        (data.op, data.modifiers.clone(), args, shapes.collect(), guard)
    }

    fn is_undefined(&self, value: Value) -> bool {
        self.define(value).is_some_and(|data| data.op == Op::Pseudo(Pseudo::Undef))
    }

    /// The bits of a value of up to two words, or of zeros.
    fn bits_of(&self, value: Value) -> Option<u64> {
        if let Some(bits) = self.known[value.index()] {
            return Some(bits);
        }
        let data = self.define(value)?;
        match (data.op, &data.args[..]) {
            (Op::Machine(sass::Op::UMOV), [Arg::Imm(bits)]) => Some(u64::from(*bits as u32)),
            (Op::Pseudo(Pseudo::Pack), words) => self.bits_together(words),
            _ => None,
        }
    }

    fn bits_together(&self, words: &[Arg]) -> Option<u64> {
        let bits = |arg: &Arg| {
            let Arg::Use(u) = arg else { return None };
            let word = u.is_plain() && u.part.is_none() && self.function.values[u.value].words == 1;
            self.bits_of(u.value).filter(|bits| word || *bits == 0)
        };
        match words {
            [low, high] => Some(bits(low)? | bits(high)? << 32),
            _ => words.iter().all(|w| bits(w) == Some(0)).then_some(0),
        }
    }
}

/// The bits of a constant that is put together of uniform registers: the policy of a load, for example.
pub(super) fn uniform_constant(c: &Combine, data: &InstData) -> Option<u64> {
    let [result] = data.results[..] else { return None };
    let pair = c.function.values[result].file == File::UR && c.function.values[result].words == 2;
    let packed = data.op == Op::Pseudo(Pseudo::Pack) && data.guard.is_none();
    (pair && packed).then(|| c.bits_together(&data.args)).flatten()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_was_loaded_is_not_loaded_again() {
        let source = include_str!("../../../tests/kernels/loads.ptx");
        let log = crate::passes::code_after("combine", source);
        let loads = |kernel: &str| {
            let from = log.find(&format!("function {kernel} ")).expect("the kernel");
            let code = log[from..].split("\n}").next().unwrap_or_default();
            code.matches("LDG").count()
        };
        assert_eq!(loads("twice"), 2, "one before the store, one behind it");
        assert_eq!(loads("masked"), 1, "whatever is kept where there is no load");
    }
}
