//! An instruction: a form, a guard, modifier values, operand values and a control code.

use crate::flag;
use crate::form::{Form, Kind, M, Mod, Op, RAW, Role, Slot};
use crate::suffixes::Suffixes;
use std::fmt;

/// Most operands, and most modifiers, that a form has.
pub(crate) const MAX_OPERANDS: usize = 14;
pub(crate) const MAX_MODIFIERS: usize = 16;

/// The registers that read as zero, and the predicates that read as true.
pub const RZ: u8 = 255;
/// See [`RZ`].
pub const URZ: u8 = 255;
/// See [`RZ`].
pub const PT: u8 = 7;

/// The value of one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// What it is.
    pub kind: Kind,
    pub(crate) flags: u8,
    /// Constant bank.
    pub bank: u8,
    /// The register inside `c[][R+…]`, `c[][UR+…]` and `cx[UR][…]`.
    pub index: u8,
    /// What is printed after the register (`.H0_H0`), when building; an `Inst` keeps it with its modifiers.
    pub(crate) suffixes: Suffixes,
    /// Register number, immediate bits, or number of a name.
    pub value: i64,
}

impl Operand {
    pub(crate) const fn of(kind: Kind, value: i64) -> Operand {
        Operand { kind, flags: 0, bank: 0, index: 0, suffixes: Suffixes::NONE, value }
    }

    const fn with(mut self, flag: u8) -> Operand {
        self.flags |= flag;
        self
    }

    /// `-x`
    pub const fn neg(self) -> Operand {
        self.with(flag::NEG)
    }

    /// `|x|`
    pub const fn abs(self) -> Operand {
        self.with(flag::ABS)
    }

    /// `!p`
    pub const fn not(self) -> Operand {
        self.with(flag::NOT)
    }

    /// `~x`
    pub const fn inv(self) -> Operand {
        self.with(flag::INV)
    }

    /// `x.reuse`: keep the value in the operand cache.
    pub const fn reuse(self) -> Operand {
        self.with(flag::REUSE)
    }

    /// `x.SUFFIX`
    pub const fn suffix(mut self, suffix: M) -> Operand {
        self.suffixes = self.suffixes.with(suffix);
        self
    }

    /// `x.SUFFIXES`, of one without suffixes
    pub const fn suffixed(mut self, suffixes: Suffixes) -> Operand {
        self.suffixes = suffixes;
        self
    }

    /// `-x` or `~x`
    pub fn is_neg(self) -> bool {
        self.flags & (flag::NEG | flag::INV) != 0
    }

    /// `|x|`
    pub fn is_abs(self) -> bool {
        self.flags & flag::ABS != 0
    }

    /// `!p`
    pub fn is_not(self) -> bool {
        self.flags & flag::NOT != 0
    }

    /// RZ, URZ, PT (not negated) or an immediate zero.
    pub(crate) fn is_default(self) -> bool {
        match self.kind {
            Kind::R | Kind::U => self.value == 255 && self.flags & !flag::REUSE == 0,
            Kind::P | Kind::V => self.value == 7 && self.flags == 0,
            _ => self.value == 0 && self.flags == 0,
        }
    }
}

/// Operand constructors, meant to be imported together.
pub mod operands {
    use super::{Operand, PT, RZ, URZ, flag};
    use crate::form::{Kind, M};

    /// General register.
    pub const fn r(n: u8) -> Operand {
        Operand::of(Kind::R, n as i64)
    }

    /// Uniform register.
    pub const fn ur(n: u8) -> Operand {
        Operand::of(Kind::U, n as i64)
    }

    /// Predicate.
    pub const fn p(n: u8) -> Operand {
        Operand::of(Kind::P, n as i64)
    }

    /// Uniform predicate.
    pub const fn up(n: u8) -> Operand {
        Operand::of(Kind::V, n as i64)
    }

    /// Convergence barrier register.
    pub const fn b(n: u8) -> Operand {
        Operand::of(Kind::B, n as i64)
    }

    /// The general register that reads as zero.
    pub const fn rz() -> Operand {
        r(RZ)
    }

    /// The uniform register that reads as zero.
    pub const fn urz() -> Operand {
        ur(URZ)
    }

    /// The predicate that reads as true.
    pub const fn pt() -> Operand {
        p(PT)
    }

    /// The uniform predicate that reads as true.
    pub const fn upt() -> Operand {
        up(PT)
    }

    /// An integer, or the bits of a float of the slot's size.
    pub const fn imm(value: i64) -> Operand {
        Operand::of(Kind::Signed, value)
    }

    /// A number in the slot's floating-point format.
    pub const fn real(value: f64) -> Operand {
        Operand::of(Kind::Double, value.to_bits() as i64)
    }

    /// `c[bank][offset]`
    pub const fn c(bank: u8, offset: i64) -> Operand {
        let mut operand = Operand::of(Kind::Const, offset);
        operand.bank = bank;
        operand
    }

    /// `c[bank][R+offset]`
    pub const fn c_r(bank: u8, index: u8, offset: i64) -> Operand {
        let mut operand = Operand::of(Kind::ConstR, offset);
        (operand.bank, operand.index) = (bank, index);
        operand
    }

    /// `c[bank][UR+offset]`
    pub const fn c_ur(bank: u8, index: u8, offset: i64) -> Operand {
        let mut operand = Operand::of(Kind::ConstU, offset);
        (operand.bank, operand.index) = (bank, index);
        operand
    }

    /// `cx[UR][offset]`
    pub const fn cx(index: u8, offset: i64) -> Operand {
        let mut operand = Operand::of(Kind::Bindless, offset);
        operand.index = index;
        operand
    }

    /// A special register, or another operand that is a name.
    pub const fn name(name: M) -> Operand {
        Operand::of(Kind::Name, name as i64)
    }

    /// A branch target: bytes from the next instruction.
    pub const fn relative(bytes: i64) -> Operand {
        Operand::of(Kind::Relative, bytes)
    }

    /// The predicate that is always false.
    pub const fn pf() -> Operand {
        pt().with(flag::NOT)
    }
}

/// `@P0`, `@!UP3`; which register file follows from the form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guard {
    /// Its number; [`PT`]: none.
    pub predicate: u8,
    /// `@!P`
    pub not: bool,
}

impl Guard {
    /// No guard.
    pub const ALWAYS: Guard = Guard { predicate: PT, not: false };

    /// `@P`
    pub fn of(predicate: u8) -> Guard {
        Guard { predicate, not: false }
    }

    /// `@!P`
    pub fn not(predicate: u8) -> Guard {
        Guard { predicate, not: true }
    }
}

/// A machine instruction: its form, and values for all that the form leaves open.
#[derive(Clone, PartialEq, Eq)]
pub struct Inst {
    pub(crate) form: &'static Form,
    /// Where it is false, the instruction does nothing.
    pub guard: Guard,
    pub(crate) mods: [u8; MAX_MODIFIERS],
    pub(crate) operands: [Operand; MAX_OPERANDS],
    /// Its control code.
    pub control: crate::Control,
}

impl Inst {
    pub(crate) fn empty(form: &'static Form) -> Inst {
        Inst {
            form,
            guard: Guard::ALWAYS,
            mods: [0; MAX_MODIFIERS],
            operands: [Operand::of(Kind::Literal, 0); MAX_OPERANDS],
            control: crate::Control::default(),
        }
    }

    /// Makes it an instruction of another form, about which nothing is known yet; operands stay as they were.
    pub(crate) fn restart(&mut self, form: &'static Form) {
        self.form = form;
        self.mods = [0; MAX_MODIFIERS];
        self.control.reuse = 0;
    }

    /// Forgets the operands that the form has no slot for: equal instructions are equal in all fields.
    pub(crate) fn clear_unused(&mut self) {
        self.operands[self.form.slots.len()..].fill(Operand::of(Kind::Literal, 0));
    }

    pub(crate) fn raw(word: u128) -> Inst {
        let mut inst = Inst::empty(&RAW);
        inst.operands[0] = Operand::of(Kind::Unsigned, (word >> 64) as i64);
        inst.operands[1] = Operand::of(Kind::Unsigned, word as i64);
        inst
    }

    /// The word of an instruction that no row describes.
    pub fn raw_word(&self) -> Option<u128> {
        let half = |index: usize| u128::from(self.operands[index].value as u64);
        (self.form == &RAW).then(|| half(0) << 64 | half(1))
    }

    /// The row of the table that it is encoded by.
    pub fn form(&self) -> &'static Form {
        self.form
    }

    /// The operation.
    pub fn op(&self) -> Op {
        self.form.op
    }

    /// The same with this guard.
    pub fn guarded(mut self, guard: Guard) -> Inst {
        self.guard = guard;
        self
    }

    /// The same with this control code.
    pub fn controlled(mut self, control: crate::Control) -> Inst {
        self.control = control;
        self
    }

    /// Operand values with their slots.
    pub fn operands(&self) -> impl Iterator<Item = (&'static Slot, &Operand)> {
        self.form.slots.iter().zip(&self.operands)
    }

    /// The modifiers that the operation's text carries, in order (operand suffixes aside).
    pub fn modifiers(&self) -> impl Iterator<Item = M> + '_ {
        (0..self.form.mods.len())
            .filter(|&index| !matches!(self.form.mods[index], Mod::Field { slot: Some(_), .. }))
            .map(|index| self.modifier(index))
            .filter(|&m| m != M::Empty)
    }

    /// Does the operation's text carry this modifier?
    pub fn has(&self, modifier: M) -> bool {
        self.modifiers().any(|m| m == modifier)
    }

    /// The names that follow the operand at `slot`: `H0_H0`, `X4`; what is always printed aside.
    pub fn suffixes(&self, slot: usize) -> impl Iterator<Item = M> + '_ {
        let is_of_slot = move |index: &usize| matches!(self.form.mods[*index], Mod::Field { slot: Some(owner), .. } if owner == slot);
        let names = (0..self.form.mods.len()).filter(is_of_slot).map(|index| self.modifier(index));
        names.filter(|&name| name != M::Empty)
    }

    pub(crate) fn modifier(&self, index: usize) -> M {
        match &self.form.mods[index] {
            Mod::Literal(name) => *name,
            Mod::Field { values, .. } => {
                values.get(usize::from(self.mods[index])).map_or(M::Undefined, |v| v.0)
            }
            Mod::Alias(alternatives) => self.alias(alternatives),
        }
    }

    fn alias(&self, alternatives: &[(M, &[(usize, crate::form::When)])]) -> M {
        use crate::form::When;
        let holds = |&(slot, when): &(usize, When)| {
            let operand = self.operands[slot];
            let immediate = operand.kind.is_immediate();
            match when {
                When::Zero if operand.kind == Kind::R => operand.value == i64::from(RZ),
                When::Zero => immediate && operand.value == 0,
                // nvdisasm does not count 0x10000.
                When::PowerOfTwo => {
                    immediate
                        && operand.value > 1
                        && operand.value.count_ones() == 1
                        && operand.value != 0x10000
                }
                When::Is(value) => immediate && operand.value == value,
            }
        };
        alternatives
            .iter()
            .find(|(_, conditions)| conditions.iter().all(holds))
            .map_or(M::Empty, |(name, _)| *name)
    }

    /// What the name operand at `index` says.
    pub fn name(&self, index: usize) -> M {
        let value = self.operands[index].value as usize;
        self.form.slots.get(index).and_then(|slot| slot.names.get(value)).map_or(M::Undefined, |v| v.0)
    }

    /// Every register that the instruction reads or writes, guard included, RZ and PT left out.
    pub fn registers(&self) -> impl Iterator<Item = Access> + '_ {
        let guard = Access { file: self.form.guard, first: self.guard.predicate, count: 1, role: Role::Use };
        let operands = self.operands().enumerate().filter_map(|(index, (slot, operand))| {
            let (file, first) = match operand.kind {
                Kind::R | Kind::U | Kind::P | Kind::V | Kind::B => (operand.kind, operand.value as u8),
                Kind::ConstR => (Kind::R, operand.index),
                Kind::ConstU | Kind::Bindless => (Kind::U, operand.index),
                _ => return None,
            };
            Some(Access { file, first, count: self.words(index), role: slot.role })
        });
        std::iter::once(guard).chain(operands).filter(|access| match access.file {
            Kind::P | Kind::V => access.first != PT,
            Kind::R | Kind::U => access.first != 255,
            _ => true,
        })
    }

    /// Registers of the operand at `index`, with those that are not touched.
    pub fn words(&self, index: usize) -> u16 {
        let words = &self.form.slots[index].words;
        words.by.iter().fold(words.count, |count, &m| match &self.form.mods[m] {
            Mod::Field { values, .. } => {
                count * values.get(usize::from(self.mods[m])).map_or(1, |v| u16::from(v.1))
            }
            _ => count,
        })
    }
}

impl fmt::Debug for Inst {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {self}", self.control)
    }
}

/// A run of registers of one file that an instruction touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// `R`, `U`, `P`, `V` or `B`.
    pub file: Kind,
    /// The lowest register.
    pub first: u8,
    /// How many there are.
    pub count: u16,
    /// Read or written.
    pub role: Role,
}

impl Access {
    /// The multiple that `first` must be: register pairs are even, longer runs start at a multiple of four.
    pub fn alignment(self) -> u8 {
        match self.count {
            0 | 1 => 1,
            2 => 2,
            _ => 4,
        }
    }
}
