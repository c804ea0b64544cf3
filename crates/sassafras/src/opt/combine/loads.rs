//! Local redundant load elimination.
//!
//! A plain load from the same address as an available load has the same value, unless an instruction in between may
//! clobber memory: a store, atomic, fence, barrier or call (`analysis/memory_dependence.rs`). Loads of read-only memory
//! stay available.
//!
//! ```text
//! v2 = LDG v0, v1, 0x0                   v2 = LDG v0, v1, 0x0
//! v3 = LDG v0, v1, 0x0              →    (uses of v3 read v2)
//! STG v0, v1, 0x0, v3                    STG v0, v1, 0x0, v2
//! ```

use super::{Combine, Key};
use crate::analysis::effects::Effects;
use crate::analysis::memory_dependence::MemoryRole;
use ori::entity::Entity;
use ori::{Arg, File, Inst, InstData, Op, Pseudo, Value};

impl Combine<'_> {
    /// Takes the results of an available load; true if there is one.
    pub(super) fn eliminate_load(&mut self, data: &InstData, inst: Inst) -> bool {
        let since = match Effects::of(data).memory_role() {
            MemoryRole::NoAccess => return false,
            MemoryRole::InvariantLoad => self.block_start,
            MemoryRole::Load => self.clobbered_at,
            MemoryRole::Clobber => {
                self.clobbered_at = self.clock + 1;
                return false;
            }
        };
        let key = self.load_key(data);
        let (number, is_new) = self.loads.add(&key);
        if is_new {
            self.available_loads.push((inst, 0));
        }
        let before = Some(self.available_loads[number]).filter(|(_, when)| !is_new && *when >= since);
        match before.filter(|_| self.fuel.burn()) {
            Some((found, _)) => {
                let values = self.function.insts[found].results.clone();
                for (result, value) in data.results.iter().zip(values) {
                    self.equal_to[result.index()] = value;
                    // The else value of a load may change only while it has a single use.
                    self.uses[value.index()] += self.uses[result.index()];
                }
                true
            }
            None => {
                self.available_loads[number] = (inst, self.clock + 1);
                false
            }
        }
    }

    /// The key of a load: constant operands and else values by their bits, whichever value has them.
    fn load_key(&self, data: &InstData) -> Key {
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
            // An undefined else value may be any value.
            guard.else_values.retain(|v| !self.is_undefined(*v));
            let known: Vec<Option<u64>> = guard.else_values.iter().map(|v| self.bits_of(*v)).collect();
            if known.iter().all(Option::is_some) {
                args.extend(known.into_iter().flatten().map(|bits| Arg::Imm(bits as i64)));
                guard.else_values.clear();
            }
        }
        let shapes = data.results.iter().map(|v| self.function.values[*v]);
        Key::new(data.op, &data.modifiers, args.iter(), shapes, guard.as_ref())
    }

    fn is_undefined(&self, value: Value) -> bool {
        self.definition_of(value).is_some_and(|data| data.op == Op::Pseudo(Pseudo::Undef))
    }

    /// The bits of a value of up to two words, or of a wider zero.
    fn bits_of(&self, value: Value) -> Option<u64> {
        if let Some(bits) = self.known[value.index()] {
            return Some(bits);
        }
        let data = self.definition_of(value)?;
        match (data.op, &data.args[..]) {
            (Op::Machine(sass::Op::UMOV), [Arg::Imm(bits)]) => Some(u64::from(*bits as u32)),
            (Op::Pseudo(Pseudo::Pack), words) => self.packed_bits(words),
            _ => None,
        }
    }

    fn packed_bits(&self, words: &[Arg]) -> Option<u64> {
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

/// The bits of a pair of uniform registers that is a constant, e.g. the cache policy of a load.
pub(super) fn uniform_constant(c: &Combine, data: &InstData) -> Option<u64> {
    let [result] = data.results[..] else { return None };
    let pair = c.function.values[result].file == File::UR && c.function.values[result].words == 2;
    let packed = data.op == Op::Pseudo(Pseudo::Pack) && data.guard.is_none();
    (pair && packed).then(|| c.packed_bits(&data.args)).flatten()
}

#[cfg(test)]
mod tests {
    #[test]
    fn redundant_load_is_eliminated() {
        let source = include_str!("../../../tests/kernels/loads.ptx");
        let log = crate::passes::code_after("combine", source);
        let loads = |kernel: &str| {
            let from = log.find(&format!("function {kernel} ")).expect("the kernel");
            let code = log[from..].split("\n}").next().unwrap_or_default();
            code.matches("LDG").count()
        };
        assert_eq!(loads("twice"), 2, "one before the store, one after it");
        assert_eq!(loads("masked"), 1, "an undefined else value may be any value");
    }
}
