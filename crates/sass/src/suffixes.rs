//! The names after a register in the text, one byte each: there are some forty of them, and several in few operands only.
//! Instructions are mostly operands, and names of two bytes would make each a third larger.

use crate::form::{M, SUFFIXES};
use std::fmt;

/// Most names after one operand.
const MOST: usize = 4;

/// A name that is no suffix in any form.
const OTHER: u8 = u8::MAX;

/// The names after a register, in order: `.H0_H0`, `.negA.tnspB`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Suffixes([u8; MOST]);

impl Suffixes {
    /// No names.
    pub const NONE: Suffixes = Suffixes([0; MOST]);

    /// One name.
    pub const fn one(name: M) -> Suffixes {
        Suffixes::NONE.with(name)
    }

    /// These names; `None` if there are too many, or some that no form has after an operand.
    pub fn of(names: &[M]) -> Option<Suffixes> {
        let is_known = names.len() <= MOST && names.iter().all(|name| number(*name) != OTHER);
        is_known.then(|| names.iter().fold(Suffixes::NONE, |all, name| all.with(*name)))
    }

    /// The same and one more name, if there is room for it.
    pub const fn with(mut self, name: M) -> Suffixes {
        let mut index = 0;
        while index < MOST {
            if self.0[index] == 0 {
                self.0[index] = number(name);
                return self;
            }
            index += 1;
        }
        self
    }

    /// Is there none?
    pub const fn is_empty(self) -> bool {
        self.0[0] == 0
    }

    /// The first name, or [`M::Empty`].
    pub fn first(self) -> M {
        name(self.0[0])
    }

    /// The only name; [`M::Empty`] if there is none, `None` if there are several.
    pub fn only(self) -> Option<M> {
        (self.0[1] == 0).then(|| self.first())
    }

    /// The names in order.
    pub fn iter(self) -> impl Iterator<Item = M> {
        self.0.into_iter().take_while(|number| *number != 0).map(name)
    }

    /// A number that is the same for the same names.
    pub fn number(self) -> u32 {
        u32::from_le_bytes(self.0)
    }
}

impl fmt::Debug for Suffixes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn name(number: u8) -> M {
    SUFFIXES.get(usize::from(number)).copied().unwrap_or(M::Undefined)
}

const fn number(name: M) -> u8 {
    let mut number = 0;
    while number < SUFFIXES.len() {
        if SUFFIXES[number] as u16 == name as u16 {
            return number as u8;
        }
        number += 1;
    }
    OTHER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_in_order() {
        assert!(SUFFIXES.len() < usize::from(OTHER));
        let names = [M::negA, M::tnspA, M::tnspB, M::H1_H1];
        let all = Suffixes::of(&names).expect("all are suffixes");
        assert!(all.iter().eq(names));
        assert_eq!((all.first(), all.only(), all.is_empty()), (M::negA, None, false));
        assert_eq!(all.with(M::X4), all);
        assert_eq!(Suffixes::one(M::X4).only(), Some(M::X4));
        assert_eq!(Suffixes::NONE.only(), Some(M::Empty));
        assert_eq!(Suffixes::of(&[M::SYS]), None);
        assert_eq!(Suffixes::one(M::SYS).first(), M::Undefined);
    }
}
