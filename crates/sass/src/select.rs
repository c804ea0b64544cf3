//! From an operation, modifiers and operands to a form: the first row of the target that fits.
//!
//! The same matching serves compilers (`Inst::new`, `select`, `legal`) and the text parser: modifiers come in
//! the order of the text, operands that the text leaves out (PT, RZ, zero offsets) may be left out here; so may, in
//! a builder, predicate results that nobody reads.

use crate::code::fits;
use crate::form::{Form, Hide, Kind, M, Mod, Op, Role, Slot};
use crate::inst::{Inst, Operand, flag};
use crate::isa::Isa;
use crate::number;
use std::fmt;

/// No form of the operation on this target takes these modifiers and operands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SelectError {
    /// The target has no such operation.
    Operation(Op),
    /// No form of it has these modifiers, in this order.
    Modifiers(Op),
    /// No form with these modifiers takes these operands.
    Operands(Op),
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            SelectError::Operation(op) => write!(f, "{} does not exist on this target", op.name()),
            SelectError::Modifiers(op) => write!(f, "no form of {} has these modifiers", op.name()),
            SelectError::Operands(op) => {
                write!(f, "no form of {} with these modifiers takes these operands", op.name())
            }
        }
    }
}

impl std::error::Error for SelectError {}

/// An operand as given: the text parser also knows the brackets around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    pub operand: Operand,
    /// The opening text of the brackets around it; `None` from a builder, which names operands alone.
    pub frame: Option<&'a str>,
    /// It stands alone in its brackets.
    pub alone: bool,
    /// Where branch targets are measured from.
    pub origin: i64,
}

impl Inst {
    /// Selects a form and fills it. The guard is PT and the control code the default one.
    pub fn new(isa: Isa, op: Op, modifiers: &[M], operands: &[Operand]) -> Result<Inst, SelectError> {
        let mut given =
            [Given { operand: Operand::of(Kind::Literal, 0), frame: None, alone: false, origin: 0 };
                crate::inst::MAX_OPERANDS];
        let given = given.get_mut(..operands.len()).ok_or(SelectError::Operands(op))?;
        for (given, &operand) in given.iter_mut().zip(operands) {
            given.operand = operand;
        }
        let mut names = [""; crate::inst::MAX_MODIFIERS];
        let names = names.get_mut(..modifiers.len()).ok_or(SelectError::Modifiers(op))?;
        for (name, modifier) in names.iter_mut().zip(modifiers) {
            *name = modifier.name();
        }
        build(isa, op, names, given)
    }
}

/// The form that `Inst::new` would choose.
pub fn select(isa: Isa, op: Op, modifiers: &[M], operands: &[Operand]) -> Option<&'static Form> {
    Inst::new(isa, op, modifiers, operands).ok().map(|inst| inst.form())
}

/// Whether the operation has a form on this target for these operands.
pub fn legal(isa: Isa, op: Op, modifiers: &[M], operands: &[Operand]) -> bool {
    select(isa, op, modifiers, operands).is_some()
}

pub(crate) fn build(isa: Isa, op: Op, modifiers: &[&str], given: &[Given]) -> Result<Inst, SelectError> {
    let mut error = SelectError::Operation(op);
    for form in Form::of(op).iter().filter(|form| form.isas.contains(isa)) {
        if matches!(error, SelectError::Operation(_)) {
            error = SelectError::Modifiers(op);
        }
        let mut inst = Inst::empty(form);
        if !match_modifiers(&mut inst, 0, modifiers) {
            continue;
        }
        error = SelectError::Operands(op);
        if match_operands(&mut inst, 0, given) && aliases_hold(&inst, modifiers) {
            return Ok(inst);
        }
    }
    Err(error)
}

/// Gives `given` to the modifier positions from `index` on, backtracking over the choices.
fn match_modifiers(inst: &mut Inst, index: usize, given: &[&str]) -> bool {
    let Some(m) = inst.form.mods.get(index) else { return given.is_empty() };
    match m {
        Mod::Literal(name) => eat(*name, given).is_some_and(|rest| match_modifiers(inst, index + 1, rest)),
        // An alias takes no bits; `aliases_hold` compares it once the operands are known.
        Mod::Alias(alternatives) => {
            alternatives
                .iter()
                .filter_map(|(name, _)| eat(*name, given))
                .any(|rest| match_modifiers(inst, index + 1, rest))
                || match_modifiers(inst, index + 1, given)
        }
        Mod::Field { slot: Some(_), .. } => match_modifiers(inst, index + 1, given),
        Mod::Field { values, .. } => values.iter().enumerate().any(|(value, (name, _))| {
            inst.mods[index] = value as u8;
            eat(*name, given).is_some_and(|rest| match_modifiers(inst, index + 1, rest))
        }),
    }
}

/// Takes a name off the front; one name may span several words of the text (`STRONG.GPU`).
fn eat<'a, 'b>(name: M, mut given: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let mut name = match name {
        M::Empty => return Some(given),
        M::Undefined => return None,
        _ => name.name(),
    };
    loop {
        let (first, rest) = given.split_first()?;
        name = name.strip_prefix(first)?;
        given = rest;
        if name.is_empty() {
            return Some(given);
        }
        name = name.strip_prefix('.')?;
    }
}

/// An alias is not stored, so what was given must be what will be printed.
fn aliases_hold(inst: &Inst, given: &[&str]) -> bool {
    inst.form.mods.iter().enumerate().all(|(index, m)| match m {
        Mod::Alias(alternatives) => {
            match given.iter().find(|given| alternatives.iter().any(|(name, _)| name.name() == **given)) {
                Some(name) => inst.modifier(index).name() == *name,
                None => true,
            }
        }
        _ => true,
    })
}

fn match_operands(inst: &mut Inst, index: usize, given: &[Given]) -> bool {
    let Some(slot) = inst.form.slots.get(index) else { return given.is_empty() };
    if let Some((next, rest)) = given.split_first() {
        let saved = inst.clone();
        if take(inst, index, slot, next) && match_operands(inst, index + 1, rest) {
            return true;
        }
        *inst = saved;
    }
    let empty_name = slot.names.iter().position(|v| v.0 == M::Empty);
    // A builder may leave out a predicate result that it does not want.
    let unwanted = slot.role == Role::Def
        && matches!(slot.kind, Kind::P | Kind::V)
        && given.iter().all(|given| given.frame.is_none());
    let default = match slot.hide {
        _ if empty_name.is_some() => Operand::of(slot.kind, empty_name.unwrap_or(0) as i64),
        Hide::Never if unwanted => Operand::of(slot.kind, 7),
        Hide::Never if slot.kind != Kind::Literal => return false,
        Hide::NotTrue => Operand::of(slot.kind, 7).not(),
        Hide::Ones => Operand::of(slot.kind, slot.at.ones()),
        _ => match slot.kind {
            Kind::R | Kind::U => Operand::of(slot.kind, 255),
            Kind::P | Kind::V => Operand::of(slot.kind, 7),
            _ => Operand::of(slot.kind, 0),
        },
    };
    inst.operands[index] = default;
    set_suffixes(inst, index, &[]) && match_operands(inst, index + 1, given)
}

/// Puts one given operand into a slot, if it may stand there.
fn take(inst: &mut Inst, index: usize, slot: &Slot, given: &Given) -> bool {
    if given.frame.is_some_and(|frame| frame != slot.frame) {
        return false;
    }
    let mut operand = given.operand;
    if slot.kind == Kind::Relative {
        operand.value = operand.value.wrapping_sub(given.origin);
    }
    // An offset that stands alone in its brackets is printed unsigned.
    let width = slot.at.width();
    if given.alone && slot.kind == Kind::Signed && !slot.signed_alone && operand.value >> (width - 1) == 1 {
        operand.value -= 1 << width;
    }
    let Some(mut operand) = convert(slot, operand) else { return false };
    if operand.flags & flag::REUSE != 0 {
        let Some(lane) = slot.lane else { return false };
        inst.control.reuse |= 1 << lane;
        operand.flags &= !flag::REUSE;
    }
    let suffixes = operand.suffixes;
    operand.suffixes = [M::Empty; 4];
    if slot.again {
        let first = inst.form.slots.iter().position(|other| !other.again && other.at == slot.at);
        if first.is_none_or(|first| follows(slot, inst.operands[first].value) != operand.value) {
            return false;
        }
    }
    inst.operands[index] = operand;
    let given = suffixes.split(|&m| m == M::Empty).next().unwrap_or(&[]);
    set_suffixes(inst, index, given.strip_prefix(&[slot.suffix]).unwrap_or(given))
}

/// The register that an `again` slot prints after this one.
fn follows(slot: &Slot, register: i64) -> i64 {
    if register == 255 { register } else { register + i64::from(slot.shift) }
}

/// Gives the names behind an operand to the fields that belong to it, in order.
fn set_suffixes(inst: &mut Inst, slot: usize, mut given: &[M]) -> bool {
    for (index, m) in inst.form.mods.iter().enumerate() {
        let Mod::Field { values, slot: Some(of), .. } = m else { continue };
        if *of != slot {
            continue;
        }
        let position = |name: M| values.iter().position(|v| v.0 == name);
        let (value, rest) = match given.first().and_then(|&name| position(name)) {
            Some(value) => (Some(value), &given[1..]),
            None => (position(M::Empty), given),
        };
        let Some(value) = value else { return false };
        (inst.mods[index], given) = (value as u8, rest);
    }
    given.is_empty()
}

/// The operand as the slot stores it, or nothing if it may not stand there.
fn convert(slot: &Slot, operand: Operand) -> Option<Operand> {
    let mut taken = operand;
    taken.kind = slot.kind;
    match (slot.kind, operand.kind) {
        (Kind::Literal, Kind::Name) if operand.value == slot.literal as i64 => taken.value = 0,
        (Kind::Literal, Kind::U) if operand.value == 255 && slot.literal.name() == "URZ" => taken.value = 0,
        (Kind::Literal, Kind::Signed) if operand.value == 0 && slot.literal.name() == "0x0" => (),
        (Kind::Name, Kind::Name) => {
            taken.value = slot.names.iter().position(|v| v.0 as i64 == operand.value)? as i64;
        }
        (Kind::ConstR, Kind::Const) => taken.index = 255,
        (Kind::ConstB, Kind::Const) => (),
        (Kind::ConstU, Kind::Const) => taken.index = 255,
        (Kind::Const, Kind::Const)
            if operand.value as i16 as i64 != operand.value || operand.value % 4 != 0 =>
        {
            return None;
        }
        (kind, Kind::Signed)
            if kind.is_immediate() || matches!(kind, Kind::Relative | Kind::Set | Kind::Swizzle) =>
        {
            taken.value = integer(slot, operand.value)?;
        }
        (kind, Kind::Double) if kind.is_immediate() => {
            taken.value = number::bits(kind, f64::from_bits(operand.value as u64))?;
        }
        (kind, other) if kind == other && !slot.forbids(operand.value) => (),
        _ => return None,
    }
    let allowed = [
        (slot.neg.filter(|_| !slot.inverts), flag::NEG),
        (slot.neg.filter(|_| slot.inverts), flag::INV),
        (slot.abs, flag::ABS),
        (slot.not, flag::NOT),
        (slot.lane, flag::REUSE),
    ];
    let allowed = allowed.iter().filter(|(bit, _)| bit.is_some()).fold(0, |all, (_, flag)| all | flag);
    (operand.flags & !allowed == 0).then_some(taken)
}

/// A 32-bit field takes a number in either reading; others take what prints back the same.
fn integer(slot: &Slot, value: i64) -> Option<i64> {
    let value = match (slot.kind, slot.at.width()) {
        (Kind::Signed, 32) if (0..=i64::from(u32::MAX)).contains(&value) => i64::from(value as u32 as i32),
        (kind, 32) if kind != Kind::Signed && (i64::from(i32::MIN)..0).contains(&value) => {
            i64::from(value as u32)
        }
        _ => value,
    };
    fits(slot, value).then_some(value)
}
