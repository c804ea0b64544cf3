//! Registers that may differ between the threads of a warp, and which of their bits.
//!
//! A word may hold predicates as bits, one that is the same for all threads beside others that are not:
//!
//! ```text
//!     SEL R8, RZ, 0x1, !P0                         P0 is the same for all, so is R8
//! @P1 LOP3.LUT R8, R8, 0x2, RZ, 0xfc, !PT          P1 is not: bit 1 differs
//!     LOP3.LUT P2, RZ, R8, 0x1, RZ, 0xc0, !PT      P2 is the same for all
//! ```

use super::set::Registers;
use ori::arith::bits::lop3;
use sass::{Inst, Kind, M, Op, Operand, RZ, Role};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, Default)]
pub struct Differing {
    registers: Registers,
    /// The bits that differ, of registers of which some don't.
    bits: BTreeMap<usize, u32>,
}

impl Differing {
    pub fn contains(&self, register: usize) -> bool {
        self.registers.contains(register)
    }

    pub fn bits(&self, register: usize) -> u32 {
        match self.contains(register) {
            true => self.bits.get(&register).copied().unwrap_or(u32::MAX),
            false => 0,
        }
    }

    pub fn set(&mut self, register: usize, bits: u32) {
        match bits {
            0 => self.registers.remove(register),
            _ => self.registers.insert(register),
        }
        match bits {
            0 | u32::MAX => _ = self.bits.remove(&register),
            _ => _ = self.bits.insert(register, bits),
        }
    }

    pub fn add_bits(&mut self, register: usize, bits: u32) {
        self.set(register, self.bits(register) | bits);
    }

    /// Adds all of another set. Says whether something was new.
    pub fn add(&mut self, other: &Differing) -> bool {
        let in_part = self.bits.keys().chain(other.bits.keys());
        let in_part: Vec<(usize, u32)> = in_part.map(|r| (*r, self.bits(*r) | other.bits(*r))).collect();
        let mut is_new = in_part.iter().any(|(register, bits)| self.bits(*register) != *bits);
        is_new |= self.registers.add(&other.registers);
        in_part.into_iter().for_each(|(register, bits)| self.set(register, bits));
        is_new
    }

    pub fn registers(&self) -> impl Iterator<Item = usize> + '_ {
        self.registers.iter()
    }
}

impl From<Registers> for Differing {
    fn from(registers: Registers) -> Differing {
        Differing { registers, bits: BTreeMap::new() }
    }
}

/// The bits of a result that differ, if the instruction decides about bits one by one and `state` differs before.
/// `differs` is whether something that it reads does.
pub fn result_bits(inst: &Inst, state: &Differing, differs: bool) -> Option<u32> {
    match (inst.op(), &sources(inst)[..]) {
        (Op::LOP3, _) => BitFunction::of(inst).map(|f| state.bits(f.source) & f.depends),
        (Op::SEL, [a, b, _]) => Some(if differs { constant(a)? ^ constant(b)? } else { 0 }),
        _ => None,
    }
}

/// The bits of a register that an instruction which writes it may change.
pub fn changed_bits(inst: &Inst, register: usize) -> u32 {
    let function = BitFunction::of(inst).filter(|f| inst.op() == Op::LOP3 && f.source == register);
    function.map_or(u32::MAX, |f| !f.keeps)
}

/// `LOP3` of a register and constants.
struct BitFunction {
    source: usize,
    /// The bits of the result that depend on the same bit of the source, and that are the same.
    depends: u32,
    keeps: u32,
}

impl BitFunction {
    fn of(inst: &Inst) -> Option<BitFunction> {
        let sources = sources(inst);
        let (Op::LOP3, [words @ .., table, not_true]) = (inst.op(), &sources[..]) else { return None };
        let is_constant = not_true.kind == Kind::P && not_true.value == 7;
        if words.len() != 3 || !table.kind.is_immediate() || !is_constant || inst.has(M::PAND) {
            return None;
        }
        let place = words.iter().position(|word| constant(word).is_none())?;
        let source = words[place];
        let with = |bits: u32| -> Option<u32> {
            let mut all = [bits; 3];
            for (at, word) in words.iter().enumerate().filter(|(at, _)| *at != place) {
                all[at] = constant(word)?;
            }
            Some(lop3(all[0], all[1], all[2], table.value as u32))
        };
        let (zeros, ones) = (with(0)?, with(u32::MAX)?);
        let (depends, keeps) = (zeros ^ ones, !zeros & ones);
        (source.kind == Kind::R).then_some(BitFunction { source: source.value as usize, depends, keeps })
    }
}

fn sources(inst: &Inst) -> Vec<&Operand> {
    inst.operands().filter(|(slot, _)| slot.role == Role::Use).map(|(_, operand)| operand).collect()
}

fn constant(operand: &Operand) -> Option<u32> {
    let is_zero = operand.kind == Kind::R && operand.value == i64::from(RZ);
    (is_zero || operand.kind.is_immediate()).then_some(if is_zero { 0 } else { operand.value as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inst(text: &str) -> Inst {
        sass::parse(sass::Isa::Sm90, text).unwrap_or_else(|e| panic!("{text}: {e:?}"))
    }

    #[test]
    fn bits_of_a_word() {
        let mut state = Differing::default();
        state.add_bits(8, 0x6);
        let bits = |text: &str| result_bits(&inst(text), &state, true);
        assert_eq!(bits("LOP3.LUT R8, R8, 0x1, RZ, 0xfc, !PT"), Some(0x6));
        assert_eq!(bits("LOP3.LUT R9, R8, 0x2, RZ, 0xc0, !PT"), Some(0x2));
        assert_eq!(bits("LOP3.LUT P0, RZ, R8, 0x1, RZ, 0xc0, !PT"), Some(0));
        assert_eq!(bits("LOP3.LUT R8, R8, 0x2, RZ, 0x30, !PT"), Some(0x4));
        assert_eq!(bits("SEL R8, RZ, 0x10, P0"), Some(0x10));
        assert_eq!(bits("LOP3.LUT R8, R8, R9, RZ, 0xfc, !PT"), None);
        assert_eq!(bits("IADD3 R8, R8, 0x1, RZ"), None);
        assert_eq!(changed_bits(&inst("LOP3.LUT R8, R8, 0x10, RZ, 0xfc, !PT"), 8), 0x10);
        assert_eq!(changed_bits(&inst("LOP3.LUT R8, R8, 0x10, RZ, 0xfc, !PT"), 9), u32::MAX);
        assert_eq!(changed_bits(&inst("LOP3.LUT R8, R8, 0x10, RZ, 0x3c, !PT"), 8), 0x10);
    }

    #[test]
    fn sums_of_sets() {
        let (mut a, mut b) = (Differing::default(), Differing::default());
        a.set(1, 0x1);
        b.set(1, 0x2);
        b.set(2, u32::MAX);
        assert!(a.add(&b));
        assert!(!a.add(&b));
        assert_eq!([a.bits(1), a.bits(2), a.bits(3)], [0x3, u32::MAX, 0]);
        a.set(2, 0);
        assert!(!a.contains(2));
    }
}
