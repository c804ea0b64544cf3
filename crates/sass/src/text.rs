//! Instructions as text: what nvdisasm prints, and back.
//!
//! A line is `control guard operation operands`; the control column (see `Control`) is optional when reading.

use crate::control::Control;
use crate::form::{Hide, Kind, M, Mod, Op, Slot};
use crate::inst::{Guard, Inst, Operand, PT};
use crate::isa::Isa;
use crate::number;
use crate::select::{Place, Request, SelectError, TextWord, build};
use std::fmt::{self, Write};

/// Bytes of an instruction.
pub const WORD_BYTES: u64 = 16;

impl Inst {
    /// The text at an address: branch targets are printed as addresses.
    pub fn at(&self, address: u64) -> At<'_> {
        At { inst: self, address, lossless: true, instead: None }
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.at(0).fmt(f)
    }
}

/// An instruction at an address. Its text is nvdisasm's, except where that leaves out what the word says: the
/// descriptor register of sm_80 to sm_89, a predicate whose place is unclear, the payload of a NaN.
pub struct At<'a> {
    inst: &'a Inst,
    address: u64,
    lossless: bool,
    instead: Option<(usize, &'a str)>,
}

impl<'a> At<'a> {
    /// Exactly what nvdisasm prints; it may not parse back.
    pub fn like_nvdisasm(mut self) -> Self {
        self.lossless = false;
        self
    }

    /// Prints this in place of the value of the operand at `index`: a label, or what a relocation puts there. In a
    /// constant it stands for bank and offset.
    pub fn with(mut self, index: usize, text: &'a str) -> Self {
        self.instead = Some((index, text));
        self
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let inst = self.inst;
        if let Some(word) = inst.raw_word() {
            return write!(f, ".word {word:#034x}");
        }
        if inst.guard != Guard::ALWAYS {
            f.write_str(if inst.guard.not { "@!" } else { "@" })?;
            predicate(f, inst.form.guard, inst.guard.predicate)?;
            f.write_char(' ')?;
        }
        f.write_str(inst.form.op.name())?;
        inst.modifiers().try_for_each(|m| dotted(f, m))?;
        self.operands(f)
    }
}

impl At<'_> {
    fn operands(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut first = true; // no operand printed yet
        let mut open = false; // an opening bracket was just printed
        let mut pending = None; // a hidden operand, printed after all if its brackets would stay empty
        let mut silent = false; // the brackets before this one were not printed
        for (index, (slot, operand)) in self.inst.operands().enumerate() {
            if slot.silent && !self.lossless {
                silent = true;
                continue;
            }
            if slot.opens {
                let continues = slot.frame.starts_with(']') && !std::mem::take(&mut silent);
                if !continues {
                    f.write_str(separator(first, slot))?;
                    first = false;
                }
                f.write_str(if continues { slot.frame } else { slot.frame.trim_start_matches(']') })?;
                (open, pending) = (true, None);
            }
            if self.text_of(index).is_none() && self.hides(index, slot, operand) {
                pending = pending.or(Some(index));
            } else if slot.frame.is_empty() {
                f.write_str(separator(first, slot))?;
                first = false;
                self.operand(f, index)?;
            } else {
                let alone = std::mem::take(&mut open);
                if !alone {
                    f.write_char('+')?;
                }
                let bare = alone && self.text_of(index).is_none();
                if bare && slot.kind == Kind::Signed && slot.closes && !slot.signed_alone {
                    // An offset that is alone in its brackets is an address: nvdisasm prints it unsigned.
                    write!(
                        f,
                        "{:#x}",
                        operand.value & ((1 << (slot.at.width() + u32::from(slot.shift))) - 1)
                    )?;
                } else {
                    self.operand(f, index)?;
                }
            }
            if slot.closes {
                match pending.filter(|_| open) {
                    Some(index) if self.lossless => self.operand(f, index)?,
                    // nvdisasm leaves out the scale of an RZ that is alone.
                    Some(index) => {
                        self.value(f, index, &self.inst.form.slots[index], &self.inst.operands[index])?
                    }
                    None => (),
                }
                open = false;
                self.close(f, index, slot)?;
            }
        }
        Ok(())
    }

    fn close(&self, f: &mut fmt::Formatter, index: usize, slot: &Slot) -> fmt::Result {
        let next = self.inst.form.slots.get(index + 1);
        if !next.is_some_and(|next| next.opens && next.frame.starts_with(']')) {
            f.write_char(']')?;
        }
        if slot.outside {
            self.suffixes(index).try_for_each(|suffix| dotted(f, suffix))?;
        }
        Ok(())
    }

    fn hides(&self, index: usize, slot: &Slot, operand: &Operand) -> bool {
        let hidden = match slot.hide {
            _ if matches!(slot.kind, Kind::ConstR | Kind::ConstU) => false, // hides its index, not itself
            _ if slot.kind == Kind::Name => self.inst.name(index) == M::Empty,
            Hide::Never => false,
            Hide::Default => operand.is_default(),
            Hide::NotTrue => operand.value == i64::from(PT) && operand.is_not(),
            Hide::Ones => operand.value == slot.at.ones(),
        };
        // `IADD3 R0, P1, …`: the first or the second carry? The listing says `PT, P1` for the second.
        let unclear = || {
            let next = self
                .inst
                .form
                .slots
                .get(index + 1)
                .filter(|next| next.kind == slot.kind && next.hide == slot.hide);
            matches!(slot.kind, Kind::P | Kind::V)
                && next.is_some()
                && !self.inst.operands[index + 1].is_default()
        };
        // `[RZ.X4+UR2]` keeps its scale, `[RZ.X4+0x10]` is printed `[0x10]`.
        let before_uniform = || self.inst.form.slots.get(index + 1).is_some_and(|next| next.kind == Kind::U);
        let suffixed = || {
            !slot.frame.is_empty()
                && self.suffixes(index).next().is_some()
                && (self.lossless || before_uniform())
        };
        // `[RZ.64+UR2]` and `[RZ.U32+UR2]` are both printed `[UR2]`.
        let wide = || slot.suffix != M::Empty;
        hidden && !suffixed() && !(self.lossless && (wide() || unclear()))
    }

    /// The names after an operand, from the modifiers that belong to it.
    fn suffixes(&self, slot: usize) -> impl Iterator<Item = M> {
        let mods = self.inst.form.mods.iter().enumerate();
        mods.filter(move |(_, m)| matches!(m, Mod::Field { slot: Some(of), .. } if *of == slot))
            .map(|(index, _)| self.inst.modifier(index))
            .filter(|&name| name != M::Empty)
    }

    fn operand(&self, f: &mut fmt::Formatter, index: usize) -> fmt::Result {
        let slot = &self.inst.form.slots[index];
        let operand = &self.inst.operands[index];
        if operand.is_not() {
            f.write_char('!')?;
        }
        if operand.is_neg() {
            f.write_char(if slot.inverts { '~' } else { '-' })?;
        }
        if operand.is_abs() {
            f.write_char('|')?;
        }
        self.value(f, index, slot, operand)?;
        if slot.inside {
            self.suffixes(index).try_for_each(|suffix| dotted(f, suffix))?;
        }
        if operand.is_abs() {
            f.write_char('|')?;
        }
        if slot.lane.is_some_and(|lane| self.inst.control.reuse >> lane & 1 == 1) {
            f.write_str(".reuse")?;
        }
        if slot.suffix != M::Empty {
            dotted(f, slot.suffix)?;
        }
        if !slot.outside && !slot.inside {
            self.suffixes(index).try_for_each(|suffix| dotted(f, suffix))?;
        }
        Ok(())
    }

    /// What is printed in place of the operand's value.
    fn text_of(&self, index: usize) -> Option<&str> {
        self.instead.filter(|(of, _)| *of == index).map(|(_, text)| text)
    }

    fn value(&self, f: &mut fmt::Formatter, index: usize, slot: &Slot, operand: &Operand) -> fmt::Result {
        if let Some(text) = self.text_of(index) {
            return match slot.kind {
                Kind::ConstR | Kind::ConstU if operand.index != 255 => {
                    f.write_str("c[")?;
                    register(f, if slot.kind == Kind::ConstR { "R" } else { "UR" }, operand.index)?;
                    write!(f, "+{text}]")
                }
                Kind::Const | Kind::ConstB | Kind::ConstR | Kind::ConstU => write!(f, "c[{text}]"),
                _ => f.write_str(text),
            };
        }
        match slot.kind {
            Kind::R => register(f, "R", operand.value as u8),
            Kind::U => register(f, "UR", operand.value as u8),
            Kind::P | Kind::V => predicate(f, slot.kind, operand.value as u8),
            Kind::B => write!(f, "B{}", operand.value),
            Kind::Const | Kind::ConstB => {
                write!(f, "c[{:#x}]{}[", operand.bank, if slot.spaced_bank { " " } else { "" })?;
                signed_hex(f, operand.value)?;
                f.write_char(']')
            }
            Kind::ConstR | Kind::ConstU => indexed_constant(f, slot, operand),
            Kind::Bindless => {
                f.write_str("cx[")?;
                register(f, "UR", operand.index)?;
                f.write_str(if slot.spaced_bank { "] [" } else { "][" })?;
                signed_hex(f, operand.value)?;
                f.write_char(']')
            }
            Kind::Signed => signed_hex(f, operand.value),
            Kind::Unsigned => write!(f, "{:#x}", operand.value),
            Kind::Decimal => write!(f, "{}", operand.value),
            Kind::Float | Kind::Half | Kind::Bfloat | Kind::Double => {
                if self.lossless && !number::reads_back(slot.kind, operand.value) {
                    return write!(f, "{:#x}", operand.value);
                }
                number::write(f, slot.kind, operand.value)?;
                // nvdisasm has the blank at the end of a line too.
                let last = self.lossless && index + 1 == self.inst.form.slots.len();
                if !last && number::is_special(slot.kind, operand.value) { f.write_char(' ') } else { Ok(()) }
            }
            Kind::Relative => {
                let target = self.address.wrapping_add(WORD_BYTES).wrapping_add_signed(operand.value);
                signed_hex(f, target as i64)
            }
            Kind::Set => set(f, operand.value),
            Kind::Swizzle => swizzle(f, operand.value),
            Kind::Name => f.write_str(self.inst.name(index).name()),
            Kind::Literal => f.write_str(slot.literal.name()),
        }
    }
}

fn separator(first: bool, slot: &Slot) -> &'static str {
    if first || slot.spaced { " " } else { ", " }
}

// Listings are long: what every line has is written without the formatting machinery.

fn dotted(f: &mut fmt::Formatter, name: M) -> fmt::Result {
    f.write_char('.')?;
    f.write_str(name.name())
}

fn register(f: &mut fmt::Formatter, file: &str, number: u8) -> fmt::Result {
    f.write_str(file)?;
    if number == 255 { f.write_char('Z') } else { decimal(f, number) }
}

fn decimal(f: &mut fmt::Formatter, number: u8) -> fmt::Result {
    let digit = |value: u8| char::from(b'0' + value % 10);
    if number >= 100 {
        f.write_char(digit(number / 100))?;
    }
    if number >= 10 {
        f.write_char(digit(number / 10))?;
    }
    f.write_char(digit(number))
}

fn predicate(f: &mut fmt::Formatter, kind: Kind, number: u8) -> fmt::Result {
    f.write_str(if kind == Kind::V { "UP" } else { "P" })?;
    if number == PT { f.write_char('T') } else { decimal(f, number) }
}

fn signed_hex(f: &mut fmt::Formatter, value: i64) -> fmt::Result {
    write!(f, "{}{:#x}", if value < 0 { "-" } else { "" }, value.unsigned_abs())
}

fn indexed_constant(f: &mut fmt::Formatter, slot: &Slot, operand: &Operand) -> fmt::Result {
    write!(f, "c[{:#x}][", operand.bank)?;
    let indexed = operand.index != 255 || operand.value == 0 || slot.hide == Hide::Never;
    if indexed {
        register(f, if slot.kind == Kind::ConstR { "R" } else { "UR" }, operand.index)?;
    }
    if indexed && operand.value != 0 {
        f.write_char('+')?;
    }
    if !indexed || operand.value != 0 {
        signed_hex(f, operand.value)?;
    }
    f.write_char(']')
}

/// Members from the highest down: `{5,4,0}`.
fn set(f: &mut fmt::Formatter, members: i64) -> fmt::Result {
    f.write_char('{')?;
    let mut separator = "";
    for member in (0..64).rev().filter(|member| members >> member & 1 == 1) {
        write!(f, "{separator}{member}")?;
        separator = ",";
    }
    f.write_char('}')
}

/// The signs that FSWZADD gives its two sources in each lane of a quad. The first lane has the highest bits: ptxas
/// takes the texel of a gradient from it, and adds nothing to its coordinates.
const SWIZZLE: [&str; 4] = ["PP", "PN", "NP", "ZP"];

fn swizzle(f: &mut fmt::Formatter, lanes: i64) -> fmt::Result {
    (0..4).rev().try_for_each(|lane| f.write_str(SWIZZLE[(lanes >> (2 * lane) & 3) as usize]))
}

fn parse_swizzle(word: &str) -> Option<i64> {
    let signs = |lane: usize| word.get(2 * lane..2 * lane + 2);
    let value = |signs: &str| SWIZZLE.iter().position(|&known| known == signs);
    (0..4)
        .try_fold(0, |lanes, lane| Some(lanes << 2 | value(signs(lane)?)? as i64))
        .filter(|_| word.len() == 8)
}

/// Why a line is not an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// There is no word in it.
    Empty,
    /// No operation of this name.
    Operation(String),
    /// No modifier or operand reads like this.
    Word(String),
    /// The operation has no such form.
    Select(SelectError),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ParseError::Empty => f.write_str("there is no instruction"),
            ParseError::Operation(name) => write!(f, "there is no operation `{name}`"),
            ParseError::Word(word) => write!(f, "`{word}` is neither a modifier nor an operand"),
            ParseError::Select(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ParseError {}

/// Reads an instruction at address 0.
pub fn parse(isa: Isa, text: &str) -> Result<Inst, ParseError> {
    parse_at(isa, text, 0)
}

/// Reads an instruction at an address, from which branch targets are measured.
pub fn parse_at(isa: Isa, text: &str, address: u64) -> Result<Inst, ParseError> {
    let mut text = text.trim().trim_end_matches(';').trim_end();
    let mut control = Control::default();
    if let Some((column, rest)) = text.split_once(char::is_whitespace)
        && let Ok(read) = column.parse()
    {
        (control, text) = (read, rest.trim_start());
    }
    if let Some(word) = text.strip_prefix(".word 0x") {
        let word = u128::from_str_radix(word.trim(), 16).map_err(|_| ParseError::Word(text.into()))?;
        return Ok(Inst::raw(word));
    }
    let mut guard = None;
    if let Some(rest) = text.strip_prefix('@') {
        let (name, rest) = rest.split_once(char::is_whitespace).ok_or(ParseError::Empty)?;
        guard = Some(parse_guard(name).ok_or_else(|| ParseError::Word(name.into()))?);
        text = rest.trim_start();
    }
    let (head, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let mut names = head.split('.');
    let name = names.next().filter(|name| !name.is_empty()).ok_or(ParseError::Empty)?;
    let op = Op::from_name(name).ok_or_else(|| ParseError::Operation(name.into()))?;
    let modifiers: Vec<TextWord> = names.map(TextWord::new).collect();
    let Operands { operands, places, .. } = Operands::read(operands)?;
    let origin = address.wrapping_add(WORD_BYTES) as i64;
    let request = Request { modifiers: &modifiers, operands: &operands, places: &places, origin };
    let mut inst = build(isa, op, &request).map_err(ParseError::Select)?;
    control.reuse = inst.control.reuse;
    inst.control = control;
    if let Some((kind, guard)) = guard {
        if kind != inst.form.guard {
            return Err(ParseError::Word(format!("guard of {name}")));
        }
        inst.guard = guard;
    }
    Ok(inst)
}

fn parse_guard(name: &str) -> Option<(Kind, Guard)> {
    let (not, name) = name.strip_prefix('!').map_or((false, name), |name| (true, name));
    let operand = parse_register(name)?;
    matches!(operand.kind, Kind::P | Kind::V)
        .then_some((operand.kind, Guard { predicate: operand.value as u8, not }))
}

fn parse_register(name: &str) -> Option<Operand> {
    let files = [
        ("UR", Kind::U, 'Z', 255, 255),
        ("UP", Kind::V, 'T', 7, 6),
        ("R", Kind::R, 'Z', 255, 254),
        ("P", Kind::P, 'T', 7, 6),
        ("B", Kind::B, ' ', 0, 15),
    ];
    for (prefix, kind, special, value, largest) in files {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        if rest.len() == 1 && rest.starts_with(special) {
            return Some(Operand::of(kind, value));
        }
        let canonical = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
        if let Some(number) = rest.parse::<i64>().ok().filter(|&n| canonical && n <= largest) {
            return Some(Operand::of(kind, number));
        }
    }
    None
}

/// The operand list, cut at commas, blanks, brackets and plus signs.
#[derive(Default)]
struct Operands<'a> {
    operands: Vec<Operand>,
    /// One for each operand.
    places: Vec<Place<'a>>,
    /// The last token opened a bracket.
    opened: bool,
}

impl<'a> Operands<'a> {
    fn read(text: &'a str) -> Result<Operands<'a>, ParseError> {
        let mut operands = Operands::default();
        let mut rest = text.trim();
        let mut frame = "";
        while !rest.is_empty() {
            rest = operands.next(rest, &mut frame)?;
        }
        Ok(operands)
    }

    fn push(&mut self, operand: Operand, frame: &'a str, alone: bool) {
        self.operands.push(operand);
        self.places.push(Place { frame, alone });
    }

    /// Reads one token from the front of `text` and returns what follows it.
    fn next(&mut self, text: &'a str, frame: &mut &'a str) -> Result<&'a str, ParseError> {
        let bad = || ParseError::Word(text.into());
        let opened = std::mem::take(&mut self.opened);
        if let Some(rest) = text.strip_prefix([',', ' ', '+']) {
            // `+QNAN` is a number, `+0x10` the next term of an address.
            if !text.starts_with("+QNAN") && !text.starts_with("+INF") && !text.starts_with("+SNAN") {
                return Ok(rest);
            }
        }
        if let Some(rest) = text.strip_prefix("][") {
            (*frame, self.opened) = ("][", true);
            return Ok(rest);
        }
        if let Some(rest) = text.strip_prefix(']') {
            *frame = "";
            let end = if rest.starts_with('.') { rest.find([',', ' ']).unwrap_or(rest.len()) } else { 0 };
            if let (Some(last), true) = (self.operands.last_mut(), end > 0) {
                *last = suffixed(*last, &rest[1..end]).ok_or_else(bad)?;
            }
            return Ok(&rest[end..]);
        }
        if is_compound(text) {
            let mut end = if text.starts_with('{') {
                text.find('}')
            } else {
                text.match_indices(']').nth(1).map(|m| m.0)
            }
            .ok_or_else(bad)?
                + 1;
            if text[end..].starts_with('|') {
                end += 1;
            }
            let mut operand = parse_compound(&text[..end]).ok_or_else(bad)?;
            if text[end..].starts_with('.') {
                let names = end + 1;
                end = text[names..].find([',', ' ']).map_or(text.len(), |length| names + length);
                operand = suffixed(operand, text[names..end].trim_end_matches('|')).ok_or_else(bad)?;
            }
            self.push(operand, frame, false);
            return Ok(&text[end..]);
        }
        let skip = usize::from(text.starts_with('+'));
        let end = text[skip..].find([',', ' ', '+', '[', ']']).map_or(text.len(), |end| end + skip);
        // An exponent's sign belongs to its number.
        let end = if text[..end].ends_with('e') && number_start(text) && text[end..].starts_with('+') {
            text[end + 1..].find([',', ' ', '+', '[', ']']).map_or(text.len(), |more| end + 1 + more)
        } else {
            end
        };
        if text[end..].starts_with('[') {
            (*frame, self.opened) = (&text[..=end], true);
            return Ok(&text[end + 1..]);
        }
        let operand = parse_operand(&text[..end]).ok_or_else(|| ParseError::Word(text[..end].into()))?;
        let alone = opened && text[end..].starts_with(']');
        self.push(operand, frame, alone);
        Ok(&text[end..])
    }
}

fn parse_operand(word: &str) -> Option<Operand> {
    if let Some(value) = parse_integer(word) {
        return Some(Operand::of(Kind::Signed, value));
    }
    if let Some(lanes) = parse_swizzle(word) {
        return Some(Operand::of(Kind::Signed, lanes));
    }
    if let Some(value) = number::parse(word) {
        return Some(Operand::of(Kind::Double, value.to_bits() as i64));
    }
    let (text, reuse) = match word.split_once(".reuse") {
        Some((before, after)) => (&*format!("{before}{after}"), true),
        None => (word, false),
    };
    let mut word = text;
    let mut plain = Operand::of(Kind::Literal, 0);
    loop {
        plain = match word.as_bytes().first() {
            Some(b'-') => plain.neg(),
            Some(b'~') => plain.inv(),
            Some(b'!') => plain.not(),
            Some(b'|') => plain.abs(),
            _ => break,
        };
        word = &word[1..];
    }
    let (name, suffix) = match word.split_once(['|', '.']) {
        Some((name, suffix)) => (name, suffix.trim_start_matches('.').trim_end_matches('|')),
        None => (word, ""),
    };
    let mut operand = match parse_register(name) {
        Some(operand) if suffix.is_empty() => operand,
        Some(operand) => suffixed(operand, suffix)?,
        None => Operand::of(Kind::Name, M::from_name(word)? as i64),
    };
    operand.flags = plain.flags;
    Some(if reuse { operand.reuse() } else { operand })
}

/// Adds the names after an operand; one name may hold dots (`F32x2.HI_LO`), so the longest that is known wins.
fn suffixed(mut operand: Operand, mut names: &str) -> Option<Operand> {
    while !names.is_empty() {
        let mut ends = names.rmatch_indices('.').map(|(index, _)| index);
        let known = |end: usize| M::from_name(&names[..end]).map(|name| (end, name));
        let (end, name) = known(names.len()).or_else(|| ends.find_map(known))?;
        operand = operand.suffix(name);
        names = names[end..].trim_start_matches('.');
    }
    Some(operand)
}

fn number_start(text: &str) -> bool {
    text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
}

fn parse_integer(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = u64::from_str_radix(digits.strip_prefix("0x")?, 16).ok()? as i64;
    Some(if negative { value.wrapping_neg() } else { value })
}

/// What `parse_compound` reads; `cx[UR4][R2+0x10]` has operands in brackets instead.
fn is_compound(text: &str) -> bool {
    let constant = text.trim_start_matches(['-', '|', '~']);
    let indexed = || constant.split_once("][").is_some_and(|(_, address)| address.starts_with(['R', 'U']));
    text.starts_with('{') || constant.starts_with("c[") || constant.starts_with("cx[") && !indexed()
}

/// `c[0x0][0x210]`, `c[0x3][R4+0x8]`, `cx[UR4][0x10]`, with sign and bars; `{2,0}`.
fn parse_compound(text: &str) -> Option<Operand> {
    if let Some(members) = text.strip_prefix('{') {
        let mut set = 0;
        for member in members.strip_suffix('}')?.split(',').filter(|member| !member.is_empty()) {
            set |= 1i64.checked_shl(member.trim().parse().ok()?)?;
        }
        return Some(Operand::of(Kind::Signed, set));
    }
    let mut operand = Operand::of(Kind::Const, 0);
    let mut text = text.trim_end_matches('|');
    while let Some(flag) = text.chars().next().filter(|c| "-~|".contains(*c)) {
        operand = match flag {
            '-' => operand.neg(),
            '~' => operand.inv(),
            _ => operand.abs(),
        };
        text = &text[1..];
    }
    let (bank, address) = text.split_once("][").or_else(|| text.split_once("] ["))?;
    let address = address.strip_suffix(']')?;
    if let Some(register) = bank.strip_prefix("cx[") {
        operand.kind = Kind::Bindless;
        operand.index = parse_register(register)?.value as u8;
    } else {
        operand.bank = u8::try_from(parse_integer(bank.strip_prefix("c[")?)?).ok()?;
    }
    for term in address.split('+') {
        match parse_register(term) {
            Some(register) => {
                operand.index = register.value as u8;
                operand.kind = if register.kind == Kind::R { Kind::ConstR } else { Kind::ConstU };
            }
            None => operand.value = parse_integer(term)?,
        }
    }
    Some(operand)
}
