//! The values of PTX registers while blocks are lowered: a scoped table, which takes writes back by an undo log.

use ori::Value;
use ptx::ast::Reg;
use rustc_hash::FxHashMap;

/// The value of each PTX register at the insertion point.
#[derive(Default)]
pub struct RegValues {
    now: FxHashMap<Reg, Value>,
    /// What each write replaced.
    log: Vec<(Reg, Option<Value>)>,
}

/// A state that a table had.
#[derive(Clone, Copy)]
pub struct Mark(usize);

impl RegValues {
    pub fn get(&self, reg: Reg) -> Option<Value> {
        self.now.get(&reg).copied()
    }

    pub fn set(&mut self, reg: Reg, value: Value) {
        let before = self.now.insert(reg, value);
        self.log.push((reg, before));
    }

    pub fn remove(&mut self, reg: Reg) {
        if let Some(before) = self.now.remove(&reg) {
            self.log.push((reg, Some(before)));
        }
    }

    pub fn mark(&self) -> Mark {
        Mark(self.log.len())
    }

    /// Takes back all writes since the mark.
    pub fn restore(&mut self, mark: Mark) {
        for (reg, before) in self.log.drain(mark.0..).rev() {
            match before {
                Some(value) => self.now.insert(reg, value),
                None => self.now.remove(&reg),
            };
        }
    }

    /// The registers that were written since the mark, in order of their numbers: each with the value that it had then
    /// and the one that it has now.
    pub fn changes(&self, mark: Mark) -> Vec<(Reg, Option<Value>, Value)> {
        let mut first: Vec<(Reg, Option<Value>)> = self.log[mark.0..].to_vec();
        first.sort_by_key(|(reg, _)| *reg);
        first.dedup_by_key(|(reg, _)| *reg);
        let change = |(reg, before): (Reg, Option<Value>)| {
            let now = self.get(reg).filter(|now| before != Some(*now))?;
            Some((reg, before, now))
        };
        first.into_iter().filter_map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ori::entity::Entity;

    #[test]
    fn writes_are_taken_back() {
        let (a, b) = (Reg(1), Reg(2));
        let [v, w, x] = [0, 1, 2].map(Value::new);
        let mut values = RegValues::default();
        values.set(a, v);
        let outer = values.mark();
        values.set(b, w);
        values.set(a, w);
        values.set(a, x);
        assert_eq!(values.changes(outer), [(a, Some(v), x), (b, None, w)]);
        let inner = values.mark();
        values.remove(a);
        assert_eq!(values.get(a), None);
        values.restore(inner);
        assert_eq!(values.get(a), Some(x));
        values.set(a, v);
        assert_eq!(values.changes(outer), [(b, None, w)]);
        values.restore(outer);
        assert_eq!((values.get(a), values.get(b)), (Some(v), None));
    }
}
