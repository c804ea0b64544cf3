//! Sets of registers of all files, in the numbering of [`sass::model::Touch::registers`].

use sass::model::REGISTERS;

const WORDS: usize = REGISTERS.div_ceil(64);

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Registers([u64; WORDS]);

impl Registers {
    pub fn insert(&mut self, register: usize) {
        self.0[register / 64] |= 1 << (register % 64);
    }

    pub fn remove(&mut self, register: usize) {
        self.0[register / 64] &= !(1 << (register % 64));
    }

    pub fn contains(&self, register: usize) -> bool {
        self.0[register / 64] >> (register % 64) & 1 == 1
    }

    /// Adds all of another set. Says whether one was new.
    pub fn add(&mut self, other: &Registers) -> bool {
        let before = *self;
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine |= theirs);
        *self != before
    }

    pub fn without(&self, other: &Registers) -> Registers {
        Registers(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    pub fn common(&self, other: &Registers) -> Registers {
        Registers(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..REGISTERS).filter(|register| self.contains(*register))
    }
}

impl FromIterator<usize> for Registers {
    fn from_iter<I: IntoIterator<Item = usize>>(registers: I) -> Registers {
        let mut set = Registers::default();
        registers.into_iter().for_each(|register| set.insert(register));
        set
    }
}
