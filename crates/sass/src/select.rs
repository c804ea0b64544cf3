//! From an operation, modifiers and operands to a form: the first row of the target that fits.
//!
//! The same matching serves compilers (`Inst::new`, `select`, `legal`) and the text parser: modifiers come in
//! the order of the text, operands that the text leaves out (PT, RZ, zero offsets) may be left out here; so may, in
//! a builder, predicate results without a use.

use crate::code::fits;
use crate::flag;
use crate::form::{Form, Hide, Kind, M, Mod, Op, RAW, Role, Slot};
use crate::inst::{Inst, Operand, PT};
use crate::isa::Isa;
use crate::number;
use crate::suffixes::Suffixes;
use std::fmt;

mod matches;

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

/// What is asked for: modifiers in the order of the text, operands, and, from the parser, how they were written.
pub(crate) struct Request<'a, W> {
    pub modifiers: &'a [W],
    pub operands: &'a [Operand],
    /// One for each operand; none from a builder, which names operands alone.
    pub places: &'a [Place<'a>],
    /// Where branch targets are measured from.
    pub origin: i64,
}

/// How an operand was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The opening text of the brackets around it.
    pub frame: &'a str,
    /// It is alone in its brackets.
    pub alone: bool,
}

/// A modifier as given: a name, or a word of the text, which may be a part of one (`STRONG` of `STRONG.GPU`).
pub(crate) trait Word: Copy {
    fn is(self, name: M) -> bool;
    fn text(&self) -> &str;

    /// Gives modifiers to the positions of the instruction's form.
    fn match_modifiers(inst: &mut Inst, given: &[Self]) -> bool {
        match_modifiers(inst, 0, given)
    }
}

impl Word for M {
    fn is(self, name: M) -> bool {
        self == name
    }

    fn text(&self) -> &str {
        self.name()
    }

    fn match_modifiers(inst: &mut Inst, given: &[M]) -> bool {
        matches::of(inst, given)
    }
}

/// A word of the text, with the name that it is, if it is one.
#[derive(Clone, Copy)]
pub(crate) struct TextWord<'a> {
    text: &'a str,
    name: Option<M>,
}

impl<'a> TextWord<'a> {
    pub fn new(text: &'a str) -> TextWord<'a> {
        TextWord { text, name: M::from_name(text) }
    }
}

impl Word for TextWord<'_> {
    fn is(self, name: M) -> bool {
        self.name == Some(name)
    }

    fn text(&self) -> &str {
        self.text
    }
}

impl Inst {
    /// Selects a form and fills it. The guard is PT and the control code the default one.
    pub fn new(isa: Isa, op: Op, modifiers: &[M], operands: &[Operand]) -> Result<Inst, SelectError> {
        build(isa, op, &Request { modifiers, operands, places: &[], origin: 0 })
    }
}

/// The form that `Inst::new` would choose.
pub fn select(isa: Isa, op: Op, modifiers: &[M], operands: &[Operand]) -> Option<&'static Form> {
    let mut inst = Inst::empty(&RAW);
    find(&mut inst, isa, op, &Request { modifiers, operands, places: &[], origin: 0 }).then(|| inst.form())
}

/// Whether the operation has a form on this target for these operands, and the machine runs it.
pub fn legal(isa: Isa, op: Op, modifiers: &[M], operands: &[Operand]) -> bool {
    runs(op, operands) && select(isa, op, modifiers, operands).is_some()
}

/// Words that the table and nvdisasm have, but no machine runs.
///
/// The first two sources of a sum can't both be negated or inverted: an H200 stops with error 715 at
/// `IADD3 R0, -R0, -R2, R6` and at `IADD3.X R0, ~R0, ~R2, R6`, and computes the other six combinations of each (one
/// word of a cubin with bits 72, 63 and 75 set in turn). ptxas 13.0.88 never emits them: it has `R, -R, -R` and `-R, R,
/// -R`. The uniform datapath was not tried, and is taken to be the same.
pub fn runs<'o>(op: Op, operands: impl IntoIterator<Item = &'o Operand>) -> bool {
    if !matches!(op, Op::IADD3 | Op::UIADD3) {
        return true;
    }
    let is_predicate = |o: &&Operand| matches!(o.kind, Kind::P | Kind::V);
    let mut sources = operands.into_iter().filter(|o| !is_predicate(o)).skip(1);
    let mut negated = || sources.next().is_some_and(|o| o.is_neg());
    !(negated() && negated())
}

pub(crate) fn build<W: Word>(isa: Isa, op: Op, request: &Request<W>) -> Result<Inst, SelectError> {
    let mut inst = Inst::empty(&RAW);
    match find(&mut inst, isa, op, request) {
        true => Ok(inst),
        false => Err(why_not(isa, op, request.modifiers)),
    }
}

fn forms(isa: Isa, op: Op) -> impl Iterator<Item = &'static Form> {
    Form::of(op).iter().filter(move |form| form.isas.contains(isa))
}

/// Makes it an instruction of the first form that fits. If there is none, it is of no use afterwards.
fn find<W: Word>(inst: &mut Inst, isa: Isa, op: Op, request: &Request<W>) -> bool {
    let families = request.operands.iter().fold(0, |set, operand| set | operand.kind.family());
    for form in Form::of(op).iter().filter(|form| form.may_take(families) && form.isas.contains(isa)) {
        inst.restart(form);
        if W::match_modifiers(inst, request.modifiers)
            && match_operands(inst, 0, request, 0)
            && aliases_hold(inst, request.modifiers)
        {
            inst.clear_unused();
            return true;
        }
    }
    false
}

fn why_not<W: Word>(isa: Isa, op: Op, modifiers: &[W]) -> SelectError {
    let mut forms = forms(isa, op).peekable();
    if forms.peek().is_none() {
        SelectError::Operation(op)
    } else if forms.any(|form| match_modifiers(&mut Inst::empty(form), 0, modifiers)) {
        SelectError::Operands(op)
    } else {
        SelectError::Modifiers(op)
    }
}

/// Gives `given` to the modifier positions from `index` on, backtracking over the choices.
fn match_modifiers<W: Word>(inst: &mut Inst, index: usize, given: &[W]) -> bool {
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

/// Takes a name off the front.
#[inline]
fn eat<W: Word>(name: M, given: &[W]) -> Option<&[W]> {
    if name == M::Empty {
        return Some(given);
    }
    let (first, rest) = given.split_first()?;
    if first.is(name) && name != M::Undefined {
        Some(rest)
    } else if name.has_dot() {
        eat_words(name.name(), given)
    } else {
        None
    }
}

/// One name may span several words of the text (`STRONG.GPU`).
fn eat_words<'a, W: Word>(mut name: &str, mut given: &'a [W]) -> Option<&'a [W]> {
    loop {
        let (first, rest) = given.split_first()?;
        name = name.strip_prefix(first.text())?;
        given = rest;
        if name.is_empty() {
            return Some(given);
        }
        name = name.strip_prefix('.')?;
    }
}

/// An alias is not stored, so what was given must be what will be printed.
fn aliases_hold<W: Word>(inst: &Inst, given: &[W]) -> bool {
    inst.form.mods.iter().enumerate().all(|(index, m)| match m {
        Mod::Alias(alternatives) => given
            .iter()
            .find(|given| alternatives.iter().any(|(name, _)| given.is(*name)))
            .is_none_or(|given| given.is(inst.modifier(index))),
        _ => true,
    })
}

/// Fills the slots from `index` on with the operands from `given` on.
fn match_operands<W>(inst: &mut Inst, index: usize, request: &Request<W>, given: usize) -> bool {
    let Some(slot) = inst.form.slots.get(index) else { return given == request.operands.len() };
    if given < request.operands.len() {
        // What `take` writes elsewhere is written again by whatever fills the slot instead.
        let reuse = inst.control.reuse;
        if take(inst, index, slot, request, given) && match_operands(inst, index + 1, request, given + 1) {
            return true;
        }
        inst.control.reuse = reuse;
    }
    let empty_name = slot.names.iter().position(|v| v.0 == M::Empty);
    // A builder may leave out a predicate result that it does not want.
    let unwanted =
        slot.role == Role::Def && matches!(slot.kind, Kind::P | Kind::V) && request.places.is_empty();
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
    set_suffixes(inst, index, &[]) && match_operands(inst, index + 1, request, given)
}

/// Puts one given operand into a slot, if it may be there.
fn take<W>(inst: &mut Inst, index: usize, slot: &Slot, request: &Request<W>, given: usize) -> bool {
    let place = request.places.get(given);
    if place.is_some_and(|place| place.frame != slot.frame) {
        return false;
    }
    let mut operand = request.operands[given];
    if slot.kind == Kind::Relative {
        operand.value = operand.value.wrapping_sub(request.origin);
    }
    // An offset that is alone in its brackets is printed unsigned.
    let width = slot.at.width();
    let alone = place.is_some_and(|place| place.alone);
    if alone && slot.kind == Kind::Signed && !slot.signed_alone && operand.value >> (width - 1) == 1 {
        operand.value -= 1 << width;
    }
    let Some(mut operand) = convert(slot, operand) else { return false };
    if operand.flags & flag::REUSE != 0 {
        let Some(lane) = slot.lane else { return false };
        inst.control.reuse |= 1 << lane;
        operand.flags &= !flag::REUSE;
    }
    let suffixes = operand.suffixes;
    operand.suffixes = Suffixes::NONE;
    if slot.again {
        let first = inst.form.slots.iter().position(|other| !other.again && other.at == slot.at);
        if first.is_none_or(|first| follows(slot, inst.operands[first].value) != operand.value) {
            return false;
        }
    }
    inst.operands[index] = operand;
    if suffixes.is_empty() {
        return set_suffixes(inst, index, &[]);
    }
    let mut names = [M::Empty; 4];
    let count = suffixes.iter().zip(&mut names).map(|(name, place)| *place = name).count();
    let given = &names[..count];
    // A builder marks what must be in `tmem[]`, or in `desc[]` where nvdisasm prints it: its operands have no brackets.
    let explicit = || slot.frame.ends_with("desc[") && !slot.frame.ends_with("udesc[");
    let given = match given.split_first() {
        Some((M::T, rest)) if slot.frame.ends_with("tmem[") => rest,
        Some((M::D, rest)) if explicit() => rest,
        _ => given,
    };
    set_suffixes(inst, index, given.strip_prefix(&[slot.suffix]).unwrap_or(given))
}

/// The register that an `again` slot prints after this one.
fn follows(slot: &Slot, register: i64) -> i64 {
    if register == 255 { register } else { register + i64::from(slot.shift) }
}

/// Gives the names after an operand to the fields that belong to it, in order.
fn set_suffixes(inst: &mut Inst, slot: usize, mut given: &[M]) -> bool {
    if !inst.form.has_suffixes(slot) {
        return given.is_empty();
    }
    for (index, m) in inst.form.mods.iter().enumerate() {
        let Mod::Field { values, slot: Some(of), .. } = m else { continue };
        if *of != slot {
            continue;
        }
        let position = |name: M| values.iter().position(|v| v.0 == name && name != M::Undefined);
        let (value, rest) = match given.first().and_then(|&name| position(name)) {
            Some(value) => (Some(value), &given[1..]),
            None => (position(M::Empty), given),
        };
        let Some(value) = value else { return false };
        (inst.mods[index], given) = (value as u8, rest);
    }
    given.is_empty()
}

/// The operand as the slot stores it, or nothing if it may not be there.
fn convert(slot: &Slot, operand: Operand) -> Option<Operand> {
    if operand.flags & !slot.allows != 0 {
        return None;
    }
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
        // What is always true is so in both files.
        (Kind::V, Kind::P) if operand.value == i64::from(PT) => (),
        // The predicate that is always true is the same in both files.
        (Kind::V, Kind::P) if operand.value == 7 && !slot.nonzero => (),
        (kind, other) if kind == other && !slot.forbids(operand.value) => (),
        _ => return None,
    }
    Some(taken)
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
