//! The hash table for value numbering.
//!
//! An expression is serialized as words, each part preceded by its length, so that equal words mean equal expressions.
//! Expressions are hashed once, compared as memory and kept in one vector. A table of instructions would take four
//! times the memory, and would rehash all of them whenever it grows.

use ori::entity::Entity;
use ori::function::ValueData;
use ori::{Arg, File, Guard, Half, Op, Use, Value};
use sass::M;
use smallvec::SmallVec;

/// An expression: operation, modifiers, operands, the shapes of the results, the guard.
pub struct Key {
    words: SmallVec<[u32; 32]>,
    hash: u32,
    /// Are all operands constants?
    pub is_constant: bool,
}

impl Key {
    pub fn new<'a>(
        op: Op,
        modifiers: &[M],
        args: impl Iterator<Item = &'a Arg>,
        shapes: impl Iterator<Item = ValueData>,
        guard: Option<&Guard>,
    ) -> Key {
        let mut key = Key { words: SmallVec::new(), hash: 0, is_constant: true };
        key.add_op(op);
        key.words.push(modifiers.len() as u32);
        modifiers.iter().for_each(|m| key.words.push(*m as u32));
        let at = key.begin();
        for arg in args {
            key.is_constant &= matches!(arg, Arg::Imm(_) | Arg::Zero(_));
            key.add_arg(arg);
        }
        key.end(at);
        let at = key.begin();
        shapes.for_each(|shape| key.words.push(shape.file as u32 | u32::from(shape.words) << 8));
        key.end(at);
        if let Some(guard) = guard {
            key.words.extend([guard.predicate.0, guard.negated.into()]);
            key.words.extend(guard.else_values.iter().map(|v| v.0));
        }
        key.hash = hash(&key.words);
        key
    }

    /// Begins something that has its number of words before it.
    fn begin(&mut self) -> usize {
        self.words.push(0);
        self.words.len()
    }

    fn end(&mut self, at: usize) {
        self.words[at - 1] = (self.words.len() - at) as u32;
    }

    fn add_op(&mut self, op: Op) {
        self.words.push(match op {
            Op::Machine(op) => op as u32,
            Op::Generic(op) => 1 << 16 | op as u32,
            Op::Pseudo(op) => 2 << 16 | op as u32,
        });
    }

    fn add_arg(&mut self, arg: &Arg) {
        // Few words: one by one costs less than the calls that copy memory.
        let mut add = |words: &[u32]| words.iter().for_each(|word| self.words.push(*word));
        let halves = |n: i64| [n as u32, (n >> 32) as u32];
        match *arg {
            Arg::Use(Use { value, part, negated, absolute, inverted, suffixes }) => {
                let part = part.map_or(0, |p| 1 << 8 | u32::from(p.first) << 16 | u32::from(p.count) << 24);
                let flags = u32::from(negated) << 4 | u32::from(absolute) << 5 | u32::from(inverted) << 6;
                add(&[part | flags, value.0, suffixes.number()]);
            }
            Arg::Imm(n) => add(&[1, halves(n)[0], halves(n)[1]]),
            Arg::Const { bank, offset } => add(&[2 | u32::from(bank) << 8, offset]),
            Arg::Bank { bank, index, offset } => {
                let [tag, index] = index.map_or([3, 0], |v: Value| [4, v.index() as u32]);
                add(&[tag | u32::from(bank) << 8, index, offset as u32]);
            }
            Arg::Address { symbol, addend, half } => {
                let tag = if half == Half::Low { 5 } else { 6 };
                add(&[tag, symbol, halves(addend)[0], halves(addend)[1]]);
            }
            Arg::Slot { symbol } => add(&[7, symbol]),
            Arg::Name(name) => add(&[8 | (name as u32) << 8]),
            Arg::Zero(file) => add(&[9 | (file as u32) << 8]),
            Arg::MinusZero => add(&[10]),
            Arg::True(sense) => add(&[11 | u32::from(sense) << 8]),
            Arg::Stack => add(&[12]),
            Arg::Fixed { file, number } => add(&[13 | (file as u32) << 8 | u32::from(number) << 16]),
            Arg::StackTop => add(&[14]),
            Arg::Incoming(offset) => add(&[15, offset]),
            Arg::Target(block) => add(&[15 | 1 << 8, block.0]),
        }
    }
}

fn hash(words: &[u32]) -> u32 {
    let mix =
        |hash: u64, word: &u32| (hash.rotate_left(5) ^ u64::from(*word)).wrapping_mul(0x517c_c1b7_2722_0a95);
    (words.iter().fold(0, mix) >> 32) as u32
}

/// The shape of a constant pair of general registers.
pub const PAIR: ValueData = ValueData { file: File::R, words: 2 };

/// The expressions that were met, numbered from 0 on.
#[derive(Default)]
pub struct Expressions {
    /// Where the words of each expression are, and its hash.
    all: Vec<(u32, u32, u32)>,
    words: Vec<u32>,
    /// Open addressing with linear probing: a number and one, or 0; a power of two of them.
    slots: Vec<u32>,
}

impl Expressions {
    pub fn find(&self, key: &Key) -> Option<usize> {
        match self.slots.is_empty() {
            true => None,
            false => self.slots[self.slot(key)].checked_sub(1).map(|number| number as usize),
        }
    }

    /// The number of an expression, and whether it is new.
    pub fn add(&mut self, key: &Key) -> (usize, bool) {
        if 2 * (self.all.len() + 1) > self.slots.len() {
            self.grow();
        }
        let slot = self.slot(key);
        if let Some(number) = self.slots[slot].checked_sub(1) {
            return (number as usize, false);
        }
        let start = self.words.len() as u32;
        self.words.extend_from_slice(&key.words);
        self.all.push((start, self.words.len() as u32, key.hash));
        self.slots[slot] = self.all.len() as u32;
        (self.all.len() - 1, true)
    }

    /// The slot of an expression, or the empty one for it.
    fn slot(&self, key: &Key) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = key.hash as usize & mask;
        while let Some(number) = self.slots[slot].checked_sub(1) {
            let (start, end, other) = self.all[number as usize];
            if other == key.hash && self.words[start as usize..end as usize] == key.words[..] {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let count = (2 * self.slots.len()).max(64);
        self.slots.clear();
        self.slots.resize(count, 0);
        for (number, (_, _, hash)) in self.all.iter().enumerate() {
            let mut slot = *hash as usize & (count - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (count - 1);
            }
            self.slots[slot] = number as u32 + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn equal_expressions_have_one_number() {
        let key = |op: sass::Op, args: &[Arg], guard: Option<&Guard>| {
            Key::new(Op::Machine(op), &[M::_64], args.iter(), std::iter::once(PAIR), guard)
        };
        let [a, b] = [Value(1), Value(2)].map(Arg::from);
        let guard =
            |else_value| Guard { predicate: Value(7), negated: false, else_values: smallvec![else_value] };
        let guards = [guard(Value(3)), guard(Value(4))];
        let keys = || {
            let args: [&[Arg]; 11] = [
                &[],
                &[a],
                &[b],
                &[a, b],
                &[b, a],
                &[a.negated()],
                &[a.suffixed(M::H1_H1)],
                &[Arg::word(Value(1), 0)],
                &[Arg::Imm(1)],
                &[Arg::Imm(1 << 32)],
                &[Arg::Zero(File::R)],
            ];
            let plain = args.into_iter().map(move |args| key(sass::Op::IADD3, args, None));
            let others = [key(sass::Op::IMAD, &[a], None)];
            let guarded = guards.iter().map(move |guard| key(sass::Op::IADD3, &[a], Some(guard)));
            plain.chain(others).chain(guarded).collect::<Vec<_>>()
        };
        let mut expressions = Expressions::default();
        for (number, key) in keys().iter().enumerate() {
            assert_eq!(expressions.find(key), None);
            assert_eq!(expressions.add(key), (number, true));
        }
        for (number, key) in keys().iter().enumerate() {
            assert_eq!((expressions.find(key), expressions.add(key)), (Some(number), (number, false)));
        }
        // More than one growth.
        let many = |n: i64| key(sass::Op::MOV, &[Arg::Imm(n)], None);
        assert!((0..1000).all(|n| expressions.add(&many(n)).1));
        assert!((0..1000).all(|n| expressions.find(&many(n)).is_some() && many(n).is_constant));
    }
}
