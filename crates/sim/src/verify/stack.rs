//! What the threads of a warp keep on the stack: the words that may differ between them.

use sass::{Inst, Kind, RZ};
use std::collections::BTreeSet;
use std::ops::Range;

/// R1.
pub const STACK_POINTER: i64 = 1;

/// The words of the stack in which threads have kept something that differs, whenever that was.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Stack {
    words: BTreeSet<i64>,
    /// Something was stored at an address that is not known.
    all: bool,
}

impl Stack {
    pub fn differs(&self, inst: &Inst) -> bool {
        Access::of(inst).is_none_or(|mut access| access.words.any(|word| self.has(word)))
    }

    pub fn add(&mut self, inst: &Inst) {
        match Access::of(inst) {
            Some(access) => self.words.extend(access.words),
            None => self.all = true,
        }
    }

    pub fn add_word(&mut self, word: i64) {
        self.words.insert(word);
    }

    fn has(&self, word: i64) -> bool {
        self.all || self.words.contains(&word)
    }
}

/// An LDL or STL whose base is the stack pointer.
pub struct Access {
    pub words: Range<i64>,
    /// The first of the registers.
    pub register: i64,
}

impl Access {
    pub fn of(inst: &Inst) -> Option<Access> {
        let (_, base) = inst.operands().find(|(slot, operand)| slot.opens && operand.kind == Kind::R)?;
        let offset = inst.operands().find(|(_, o)| o.kind == Kind::Signed).map_or(0, |(_, o)| o.value);
        let other = inst.operands().any(|(_, o)| o.kind == Kind::U && o.value != i64::from(RZ));
        let is_data = |slot: &sass::Slot| !slot.opens && slot.kind == Kind::R;
        let data = inst.operands().position(|(slot, _)| is_data(slot))?;
        let (_, register) = inst.operands().nth(data)?;
        let first = offset.div_euclid(4);
        let words = first..first + i64::from(inst.words(data));
        (base.value == STACK_POINTER && !other).then_some(Access { words, register: register.value })
    }
}
