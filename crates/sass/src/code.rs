//! Words to instructions and back.

use crate::control::{Control, ControlError};
use crate::flag;
use crate::form::{Bits, Form, Kind, M, Mod, Slot};
use crate::inst::{Guard, Inst, Operand};
use crate::isa::Isa;
use std::fmt;

/// Why an instruction has no encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncodeError {
    /// Its control code has none.
    Control(ControlError),
    /// The operand at this position does not fit its field.
    Operand(usize),
    /// The modifier at this position has no such value.
    Modifier(usize),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            EncodeError::Control(error) => error.fmt(f),
            EncodeError::Operand(index) => write!(f, "operand {index} does not fit its field"),
            EncodeError::Modifier(index) => write!(f, "modifier {index} has no such value"),
        }
    }
}

impl std::error::Error for EncodeError {}

/// The word of an instruction.
pub fn encode(inst: &Inst) -> Result<u128, EncodeError> {
    if let Some(word) = inst.raw_word() {
        return Ok(word);
    }
    inst.control.check().map_err(EncodeError::Control)?;
    let form = inst.form;
    if inst.control.reuse & !form.lanes != 0 {
        return Err(EncodeError::Control(ControlError::Reuse));
    }
    let mut word = form.base | inst.control.encode();
    word |= u128::from(inst.guard.predicate & 7) << 12 | u128::from(inst.guard.not) << 15;
    for (index, m) in form.mods.iter().enumerate() {
        if let Mod::Field { values, at, .. } = m {
            let value = inst.mods[index];
            if usize::from(value) >= values.len() {
                return Err(EncodeError::Modifier(index));
            }
            at.put(&mut word, u64::from(value));
        }
    }
    for (index, (slot, operand)) in inst.operands().enumerate() {
        put(slot, operand, &mut word).ok_or(EncodeError::Operand(index))?;
    }
    Ok(word)
}

/// The instruction of a word. A word that no row describes becomes a raw instruction, which prints as such and
/// encodes back unchanged.
pub fn decode(isa: Isa, word: u128) -> Inst {
    let control = Control::decode(word);
    if control.check().is_err() {
        return Inst::raw(word);
    }
    for form in Form::matching(isa, word).filter(|form| control.reuse & !form.lanes == 0) {
        let mut inst = Inst::empty(form);
        if fill(&mut inst, word).is_some() {
            inst.control = control;
            inst.guard = Guard { predicate: (word >> 12) as u8 & 7, not: word >> 15 & 1 == 1 };
            return inst;
        }
    }
    Inst::raw(word)
}

/// Reads modifiers and operands; nothing if the word has a value that is not defined.
fn fill(inst: &mut Inst, word: u128) -> Option<()> {
    for (value, m) in inst.mods.iter_mut().zip(inst.form.mods) {
        if let Mod::Field { values, at, .. } = m {
            let index = at.get(word);
            values.get(index as usize).filter(|v| v.0 != M::Undefined)?;
            *value = index as u8;
        }
    }
    for (operand, slot) in inst.operands.iter_mut().zip(inst.form.slots) {
        *operand = get(slot, word)?;
    }
    Some(())
}

/// URZ is all ones in its field, whatever the width; operands say 255.
fn get_register(at: Bits, word: u128) -> u8 {
    let value = at.get(word);
    if value + 1 == 1 << at.width() { 255 } else { value as u8 }
}

fn put_register(at: Bits, value: i64, word: &mut u128) -> Option<()> {
    let largest = (1 << at.width()) - 1;
    let value = if value == 255 { largest } else { value };
    (0..=largest).contains(&value).then(|| at.put(word, value as u64))
}

fn sign_extend(value: u64, width: u32) -> i64 {
    let unused = 64 - width;
    (value << unused) as i64 >> unused
}

pub(crate) fn fits(slot: &Slot, value: i64) -> bool {
    let scaled = value >> slot.shift;
    let width = slot.at.width();
    scaled << slot.shift == value
        && match slot.kind {
            Kind::Signed | Kind::Relative => sign_extend(scaled as u64, width) == scaled,
            _ => width >= 64 || (0..1i64 << width).contains(&scaled),
        }
}

fn get(slot: &Slot, word: u128) -> Option<Operand> {
    let mut operand = Operand::of(slot.kind, 0);
    let at = slot.at;
    match slot.kind {
        Kind::Literal => return Some(operand),
        Kind::R | Kind::U => {
            operand.value = i64::from(get_register(at, word));
            let shift = i64::from(slot.shift);
            if operand.value != 255 {
                // The run that `next` continues ends before URZ.
                if shift > 0 && operand.value + 2 * shift > at.ones() {
                    return None;
                }
                operand.value += shift;
            }
        }
        Kind::P | Kind::V if slot.inverts => operand.value = 7 - at.get(word) as i64,
        Kind::Const => {
            operand.bank = at.piece(0).get(word) as u8;
            operand.value = sign_extend(at.piece(1).get(word), at.piece(1).width()) << 2;
        }
        Kind::ConstB | Kind::ConstR | Kind::ConstU => {
            operand.bank = at.piece(0).get(word) as u8;
            operand.value = sign_extend(at.piece(1).get(word), at.piece(1).width());
            if slot.kind != Kind::ConstB {
                operand.index = get_register(at.piece(2), word);
            }
        }
        Kind::Bindless => {
            operand.index = get_register(at.piece(0), word);
            let offset = at.piece(1).get(word) << slot.shift;
            operand.value =
                if slot.signed_alone { sign_extend(offset, at.piece(1).width()) } else { offset as i64 };
        }
        Kind::Signed | Kind::Relative => operand.value = sign_extend(at.get(word), at.width()) << slot.shift,
        Kind::Name => {
            operand.value = at.get(word) as i64;
            let name = slot.names.get(operand.value as usize)?;
            if name.0 == M::Undefined {
                return None;
            }
        }
        _ => operand.value = (at.get(word) << slot.shift) as i64,
    }
    if slot.forbids(operand.value) {
        return None;
    }
    let neg = if slot.inverts { flag::INV } else { flag::NEG };
    for (bit, flag) in [(slot.neg, neg), (slot.abs, flag::ABS), (slot.not, flag::NOT)] {
        if bit.is_some_and(|bit| word >> bit & 1 == 1) {
            operand.flags |= flag;
        }
    }
    Some(operand)
}

fn put(slot: &Slot, operand: &Operand, word: &mut u128) -> Option<()> {
    let at = slot.at;
    match slot.kind {
        _ if slot.again => return Some(()),
        _ if slot.forbids(operand.value) => return None,
        Kind::Literal => return Some(()),
        Kind::R | Kind::U => put_register(at, operand.value, word)?,
        Kind::P | Kind::V => {
            let value = u64::try_from(operand.value).ok().filter(|&value| value < 8)?;
            at.put(word, if slot.inverts { 7 - value } else { value });
        }
        Kind::Const => {
            at.piece(0).put(word, u64::from(operand.bank));
            at.piece(1).put(word, offset(operand.value, at.piece(1))?);
        }
        Kind::ConstB | Kind::ConstR | Kind::ConstU => {
            at.piece(0).put(word, u64::from(operand.bank));
            let width = at.piece(1).width();
            if sign_extend(operand.value as u64, width) != operand.value {
                return None;
            }
            at.piece(1).put(word, operand.value as u64);
            if slot.kind != Kind::ConstB {
                put_register(at.piece(2), i64::from(operand.index), word)?;
            }
        }
        Kind::Bindless => {
            put_register(at.piece(0), i64::from(operand.index), word)?;
            // Unlike the offset of a bank, this one is unsigned, but for LDCU.
            let offset = operand.value >> slot.shift;
            let width = at.piece(1).width();
            let fits = if slot.signed_alone {
                sign_extend(offset as u64, width) == offset
            } else {
                (0..1i64 << width).contains(&offset)
            };
            if !fits || offset << slot.shift != operand.value {
                return None;
            }
            at.piece(1).put(word, offset as u64);
        }
        _ if fits(slot, operand.value) => at.put(word, (operand.value >> slot.shift) as u64),
        _ => return None,
    }
    let neg = if slot.inverts { flag::INV } else { flag::NEG };
    for (bit, flag) in [(slot.neg, neg), (slot.abs, flag::ABS), (slot.not, flag::NOT)] {
        if operand.flags & flag != 0 {
            *word |= 1 << bit?;
        }
    }
    Some(())
}

/// A constant offset in words.
fn offset(bytes: i64, at: Bits) -> Option<u64> {
    let words = bytes >> 2;
    (words << 2 == bytes && sign_extend(words as u64, at.width()) == words).then_some(words as u64)
}
