//! Reads the notation of the table; README.md of the crate explains it.
//!
//! A row with a flexible operand (`+b`, `+c`, `+bc`) becomes one form per operand kind; a row that names a
//! uniform register becomes one form per width of that field (6 bits to sm_90, 8 bits from sm_100).

use std::collections::BTreeMap;
use targets::Isa;

// A row's set of targets is a bit set over [`Isa::ALL`]. The field of uniform registers is wider from sm_100 on.
const TO_90: u16 = (1 << Isa::Sm100 as u16) - 1;
const FROM_100: u16 = (1 << Isa::ALL.len()) - 1 - TO_90;
pub const SM_75: u16 = 1 << Isa::Sm75 as u16;
pub const SM_120: u16 = 1 << Isa::Sm120 as u16;

pub type Pieces = Vec<(u8, u8)>;

/// One value of an enumeration: its printed name (none: prints nothing) and the registers it stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Undefined,
    Empty(u8),
    Text(String, u8),
}

#[derive(Clone, Debug)]
pub enum Mod {
    Literal(String),
    Field {
        names: Vec<Name>,
        at: Pieces,
        slot: Option<usize>,
        label: String,
    },
    /// The first alternative whose conditions hold is printed.
    Alias(Vec<(String, Vec<(usize, String)>)>),
}

#[derive(Clone, Debug, Default)]
pub struct Slot {
    pub kind: String,
    pub at: Pieces,
    pub shift: u8,
    pub names: Vec<Name>,
    pub literal: String,
    pub neg: Option<u8>,
    pub abs: Option<u8>,
    pub not: Option<u8>,
    pub inverts: bool,
    pub lane: Option<u8>,
    pub hide: &'static str,
    pub def: bool,
    pub words: Vec<String>,
    pub frame: String,
    pub opens: bool,
    pub closes: bool,
    pub spaced: bool,
    pub suffix: String,
    /// Prints the operand before once more.
    pub again: bool,
    /// Packed halves: the third register field has its flags at 84 and 83, and constants print with a blank.
    pub half: bool,
    /// RZ or URZ may not stand here.
    pub nonzero: bool,
    /// An offset that is printed signed even when it stands alone in its brackets.
    pub signed_alone: bool,
    /// Suffixes stand inside the bars of an absolute value.
    pub inside: bool,
    /// In the word, but not in nvdisasm's text.
    pub silent: bool,
    /// Suffixes follow the closing bracket.
    pub outside: bool,
}

impl Slot {
    fn is_immediate(&self) -> bool {
        matches!(self.kind.as_str(), "Signed" | "Unsigned" | "Float" | "Half" | "Bfloat" | "Double")
    }

    /// Where packed-half operands keep their half selection (`@slot`): it follows the register field.
    fn half_suffix(&self) -> &'static str {
        match self.at[0].0 {
            24 => "75:74",
            64 => "82:81",
            _ => "61:60",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Form {
    pub op: String,
    pub code: u16,
    pub isas: u16,
    pub class: String,
    pub uniform_guard: bool,
    pub mods: Vec<Mod>,
    pub slots: Vec<Slot>,
    pub fixed: Vec<(Pieces, u64)>,
    pub line: String,
}

#[derive(Default)]
pub struct Table {
    enums: BTreeMap<String, Vec<Name>>,
    pub forms: Vec<Form>,
}

/// What stands in the flexible operand of a form: bits 11:9 and 91 of the opcode follow from it.
#[derive(Clone, Copy, PartialEq)]
enum Flex {
    Reg,
    Imm,
    Const,
    Bindless,
    Uniform,
    /// The register of a family whose registers are all uniform (`+vb`).
    AllUniform,
}

impl Table {
    pub fn read_enums(&mut self, file: &str, text: &str) -> Result<(), String> {
        for (line, content) in lines(text) {
            let (name, values) = content
                .split_once(char::is_whitespace)
                .ok_or(format!("{file}:{line}: an enum needs values"))?;
            let values = match values.trim().strip_prefix("< ").and_then(|rest| rest.split_once(' ')) {
                Some((base, changes)) => {
                    let base = self.enum_values(base).map_err(|e| format!("{file}:{line}: {e}"))?;
                    self.names_from(base, changes.split_whitespace())
                }
                None => self.names_from(Vec::new(), values.split_whitespace()),
            };
            let values = values.map_err(|e| format!("{file}:{line}: {e}"))?;
            self.enums.insert(name.to_string(), values);
        }
        Ok(())
    }

    pub fn read_rows(&mut self, file: &str, text: &str) -> Result<(), String> {
        let mut errors = Vec::new();
        for (line, content) in lines(text) {
            if let Err(error) = self.read_row(&content, &format!("{file}:{line}")) {
                errors.push(format!("{file}:{line}: {error}"));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }

    /// `NAME`, `-` (prints nothing), `#` (undefined), each with `:registers`; `n=NAME` sets the position.
    fn names_from<'a>(
        &self,
        mut names: Vec<Name>,
        tokens: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Name>, String> {
        let mut next = 0;
        for token in tokens {
            let token = match token.split_once('=') {
                Some((at, name)) => {
                    next = number(at)? as usize;
                    name
                }
                None => token,
            };
            let (name, words) = match token.split_once(':') {
                Some((name, words)) => (name, number(words)? as u8),
                None => (token, 1),
            };
            if names.len() <= next {
                names.resize(next + 1, Name::Undefined);
            }
            names[next] = match name {
                "#" => Name::Undefined,
                "-" => Name::Empty(words),
                _ => Name::Text(name.to_string(), words),
            };
            next += 1;
        }
        Ok(names)
    }

    fn read_row(&mut self, content: &str, place: &str) -> Result<(), String> {
        let columns: Vec<&str> = content.split(';').map(str::trim).collect();
        let [head, mods, slots, rest @ ..] = columns.as_slice() else {
            return Err("a row is `name code targets class ; modifiers ; operands ; fixed bits`".into());
        };
        let head: Vec<&str> = head.split_whitespace().collect();
        let [op, code, isas, class] = head.as_slice() else { return Err("name code targets class".into()) };
        let isas = isa_set(isas)?;
        let (code, uniform_guard) = match code.strip_prefix('u') {
            Some(code) => (code, true),
            None => (*code, false),
        };
        let fixed = rest.first().copied().unwrap_or("");
        for (code, era, flex) in expand(code)? {
            // Matrix operations of sm_75 and sm_120 have no operand cache, so these get forms of their own.
            let alone = if *class == "tensor" { SM_75 | SM_120 } else { 0 };
            let sets =
                [(TO_90 & !alone, 6), (FROM_100 & !alone, 8), (TO_90 & alone, 6), (FROM_100 & alone, 8)];
            for (isas, width) in sets.map(|(set, width)| (isas & era & set, width)) {
                if isas == 0 {
                    continue;
                }
                let mut form = Form {
                    op: op.to_string(),
                    code,
                    isas,
                    class: class.to_string(),
                    uniform_guard,
                    mods: Vec::new(),
                    slots: Vec::new(),
                    fixed: fixed.split_whitespace().map(fixed_bits).collect::<Result<_, _>>()?,
                    line: place.to_string(),
                };
                self.read_slots(&mut form, slots, flex, width)?;
                self.read_mods(&mut form, mods)?;
                self.forms.push(form);
            }
        }
        Ok(())
    }

    fn field(&self, token: &str, slot: Option<usize>) -> Result<Mod, String> {
        let (label, at) = token.rsplit_once('@').ok_or(format!("`{token}`: expected NAME@bits"))?;
        let (at, hidden) = match at.split_once('=') {
            Some((at, hidden)) => (at, Some(number(hidden)? as usize)),
            None => (at, None),
        };
        let mut names = self.enum_values(label)?;
        if let Some(hidden) = hidden {
            let value = names.get_mut(hidden).ok_or(format!("`{token}`: no value {hidden}"))?;
            if let Name::Text(_, words) = value {
                *value = Name::Empty(*words);
            }
        }
        let at = pieces(at)?;
        names.truncate(1usize << width(&at));
        Ok(Mod::Field { names, at, slot, label: label.to_string() })
    }

    fn enum_values(&self, label: &str) -> Result<Vec<Name>, String> {
        match label.strip_prefix('(').and_then(|inline| inline.strip_suffix(')')) {
            Some(inline) => self.names_from(Vec::new(), inline.split(',')),
            None => self.enums.get(label).cloned().ok_or(format!("no enum `{label}`")),
        }
    }

    fn read_mods(&self, form: &mut Form, text: &str) -> Result<(), String> {
        let mut mods = Vec::new();
        for token in text.split_whitespace() {
            mods.push(if let Some(literal) = token.strip_prefix('\'') {
                Mod::Literal(literal.to_string())
            } else if let Some(alternatives) = token.strip_prefix("alias:") {
                Mod::Alias(alternatives.split('|').map(alias).collect::<Result<_, _>>()?)
            } else {
                self.field(token, None)?
            });
        }
        mods.append(&mut form.mods);
        form.mods = mods;
        Ok(())
    }

    fn read_slots(
        &self,
        form: &mut Form,
        text: &str,
        flex: Flexible,
        uniform_width: u8,
    ) -> Result<(), String> {
        let (mut frame, mut opens, mut spaced) = (String::new(), false, false);
        for token in slot_tokens(text) {
            match token.as_str() {
                "," | "+" => (),
                "_" => spaced = true,
                "]" => {
                    frame.clear();
                    form.slots.last_mut().ok_or("`]` before any operand")?.closes = true;
                }
                _ if token.starts_with('.') => {
                    let index = form.slots.len() - 1;
                    form.slots[index].outside = true;
                    for part in split_suffix(&token).1 {
                        form.mods.push(self.field(part, Some(index))?);
                    }
                }
                _ if token.ends_with('[') => {
                    if token == "][" {
                        form.slots.last_mut().ok_or("`]` before any operand")?.closes = true;
                    }
                    (frame, opens) = (token, true);
                }
                _ => {
                    let first = form.slots.len();
                    self.read_slot(form, &token, flex, uniform_width)?;
                    for slot in &mut form.slots[first..] {
                        slot.frame.clone_from(&frame);
                        slot.opens = std::mem::take(&mut opens);
                        slot.spaced = std::mem::take(&mut spaced);
                    }
                }
            }
        }
        Ok(())
    }

    fn read_slot(
        &self,
        form: &mut Form,
        token: &str,
        flex: Flexible,
        uniform_width: u8,
    ) -> Result<(), String> {
        let mut slot = Slot::default();
        if let Some(literal) = token.strip_prefix('\'') {
            slot.kind = "Literal".into();
            slot.hide = "Never";
            slot.literal = literal.to_string();
            form.slots.push(slot);
            return Ok(());
        }
        if token == "again" || token.starts_with("next") {
            let registers = form.slots.iter().rev().find(|slot| matches!(slot.kind.as_str(), "R" | "U"));
            let mut slot = registers.cloned().ok_or(format!("`{token}` before any register"))?;
            slot.again = true;
            slot.shift = match token.strip_prefix("next") {
                None => 0,
                Some("") => 1,
                Some(distance) => number(distance)? as u8,
            };
            (slot.closes, slot.outside) = (false, false);
            form.slots.push(slot);
            return Ok(());
        }
        let (token, role) = match token.strip_prefix('>') {
            Some(token) => (token, Some(true)),
            None => token.strip_prefix('<').map_or((token, None), |token| (token, Some(false))),
        };
        let (token, silent) = token.strip_prefix('$').map_or((token, false), |token| (token, true));
        slot.silent = silent;
        let (flags, token) = flags(token);
        let (token, half) = token.strip_prefix('%').map_or((token, false), |token| (token, true));
        let (token, hide) = match token.split_once('?') {
            Some((token, "!")) => (token, "NotTrue"),
            Some((token, "")) => (token, "Default"),
            Some((token, "1")) => (token, "Ones"),
            Some((_, other)) => return Err(format!("`?{other}`")),
            None => (token, "Never"),
        };
        let (token, nonzero) = match token.strip_suffix('#') {
            Some(token) => (token, true),
            None => (token, false),
        };
        slot.nonzero = nonzero;
        let (token, uncached) = match token.strip_suffix('&') {
            Some(token) => (token, true),
            None => (token, false),
        };
        let mut parts = token.split('*');
        let token = parts.next().unwrap_or("");
        slot.words = parts.map(str::to_string).collect();
        let (token, suffix) = split_suffix(token);
        slot.hide = hide;
        let index = form.slots.len();
        slot.suffix = suffix.iter().find(|part| !part.contains('@')).unwrap_or(&"").to_string();
        slot.half = half || suffix.iter().any(|part| part.ends_with("slot"));
        slot.inside = suffix.iter().any(|part| part.starts_with('^'));
        let fields = suffix.iter().any(|part| part.contains('@'));
        if !self.flexible(form, &mut slot, token, &flags, flex, uniform_width, fields)? {
            self.plain_kind(&mut slot, token, uniform_width)?;
            set_flags(&mut slot, &flags)?;
            slot.def = role.unwrap_or_else(|| writes_by_position(&slot));
            form.slots.push(slot);
        }
        if uncached {
            form.slots[index].lane = None;
        }
        if form.slots[index].is_immediate() {
            return Ok(()); // a suffix of a register operand has no place in an immediate
        }
        for part in suffix.iter().filter(|part| part.contains('@')) {
            let part = part.trim_start_matches('^').replace("slot", form.slots[index].half_suffix());
            form.mods.push(self.field(&part, Some(index))?);
        }
        Ok(())
    }

    fn plain_kind(&self, slot: &mut Slot, token: &str, uniform_width: u8) -> Result<(), String> {
        if let Some((label, at)) = token.rsplit_once('@') {
            slot.kind = "Name".into();
            slot.names = self.enum_values(label)?;
            slot.at = pieces(at)?;
            return Ok(());
        }
        let split = token.find(|c: char| c.is_ascii_digit()).unwrap_or(token.len());
        let (letters, digits) = token.split_at(split);
        let (digits, shift) = match digits.split_once("<<") {
            Some((digits, shift)) => (digits, number(shift)? as u8),
            None => (digits, 0),
        };
        slot.shift = shift;
        let lo = || number(digits).map(|lo| lo as u8);
        (slot.kind, slot.at) = match letters {
            "R" => ("R".into(), vec![(lo()?, 8)]),
            "U" if digits.contains(':') => ("U".into(), pieces(digits)?),
            "U" => ("U".into(), vec![(lo()?, uniform_width)]),
            "P" | "Q" => ("P".into(), vec![(lo()?, 3)]),
            "V" | "W" => ("V".into(), vec![(lo()?, 3)]),
            "B" => ("B".into(), vec![(lo()?, 4)]),
            "K" => ("Const".into(), vec![(54, 5), (40, 14)]),
            "KL" => ("ConstU".into(), vec![(54, 5), (37, 17), (24, uniform_width)]),
            "KB" => ("ConstB".into(), vec![(54, 5), (38, 16)]),
            "KRL" => ("ConstR".into(), vec![(54, 5), (37, 17), (24, 8)]),
            "KR" => ("ConstR".into(), vec![(54, 5), (38, 16), (24, 8)]),
            "KU" => ("ConstU".into(), vec![(54, 5), (38, 16), (24, uniform_width)]),
            "X" => {
                slot.shift = 2;
                ("Bindless".into(), vec![(32, uniform_width), (40, 14)])
            }
            "XB" => ("Bindless".into(), vec![(24, uniform_width), (38, 16)]),
            "XL" => {
                slot.signed_alone = true;
                ("Bindless".into(), vec![(24, uniform_width), (37, 17)])
            }
            "s" => ("Signed".into(), pieces(digits)?),
            "t" => {
                slot.signed_alone = true;
                ("Signed".into(), pieces(digits)?)
            }
            "u" => ("Unsigned".into(), pieces(digits)?),
            "n" => ("Decimal".into(), pieces(digits)?),
            "f" => ("Float".into(), pieces(digits)?),
            "h" => ("Half".into(), pieces(digits)?),
            "bf" => ("Bfloat".into(), pieces(digits)?),
            "d" => ("Double".into(), pieces(digits)?),
            "rel" => ("Relative".into(), pieces(digits)?),
            "set" => ("Set".into(), pieces(digits)?),
            "swz" => ("Swizzle".into(), pieces(digits)?),
            _ => return Err(format!("no operand kind `{letters}`")),
        };
        if matches!(letters, "Q" | "W") {
            // Inverted coding: (not << 3) | (7 - p), so that 0 is PT.
            slot.inverts = true;
            slot.not = Some(slot.at[0].0 + 3);
        }
        slot.lane = match (slot.kind.as_str(), slot.at[0].0) {
            ("R", 24) => Some(0),
            ("R", 32) => Some(1),
            ("R", 64) => Some(2),
            _ => None,
        };
        Ok(())
    }

    /// `B` and `C` with the letter of their immediates: the operand that the form's opcode bits select.
    #[allow(clippy::too_many_arguments)]
    fn flexible(
        &self,
        form: &mut Form,
        slot: &mut Slot,
        token: &str,
        flags: &[(char, Option<u8>)],
        flex: Flexible,
        uniform_width: u8,
        fields: bool,
    ) -> Result<bool, String> {
        let Some((which, imm)) = token.split_at_checked(1).filter(|(which, imm)| {
            matches!(*which, "B" | "C") && !imm.is_empty() && imm.chars().all(|c| c.is_ascii_lowercase())
        }) else {
            return Ok(false);
        };
        let Some((flexible, what, uniform)) = flex else {
            return Err("the code names no flexible operand".into());
        };
        // `+d`: like `+c`, but the register too stands in the wide slot.
        let wide = flexible == 'D';
        let flexible = if wide { 'C' } else { flexible };
        // With C flexible, C takes the wide slot and B moves to the other register field.
        let here = which.starts_with(flexible);
        let kind = if here { what } else { Flex::Reg };
        let register = match (here && (which == "B" || wide), uniform) {
            (true, false) => "R32",
            (false, false) => "R64",
            (true, true) => "U32",
            (false, true) => "U64",
        };
        let immediates: &[&str] = match imm {
            "s" => &["s63:32"],
            "u" => &["u63:32"],
            "f" => &["f63:32"],
            "d" => &["d63:32"],
            "h" => &["h63:48", "h47:32"],
            "bf" => &["bf63:48", "bf47:32"],
            _ => return Err(format!("no immediate kind `{imm}`")),
        };
        let tokens: &[&str] = match kind {
            Flex::Reg | Flex::AllUniform => &[register],
            Flex::Imm => immediates,
            Flex::Const => &["K"],
            Flex::Bindless => &["X"],
            Flex::Uniform => &["U32"],
        };
        for token in tokens {
            let mut slot = slot.clone();
            self.plain_kind(&mut slot, token, uniform_width)?;
            slot.half |= !slot.suffix.is_empty() || fields;
            if slot.kind == "R" {
                slot.lane = Some(if which == "B" { 1 } else { 2 });
            }
            if kind == Flex::Imm {
                slot.hide = "Never";
            } else {
                set_flags(&mut slot, flags)?;
            }
            form.slots.push(slot);
        }
        Ok(true)
    }
}

/// Which operand (`B` or `C`) is flexible, and what stands there.
/// and whether the family's registers are uniform.
type Flexible = Option<(char, Flex, bool)>;

/// The opcodes of a code column, with the targets that can have them.
fn expand(code: &str) -> Result<Vec<(u16, u16, Flexible)>, String> {
    let hex = |text: &str| u16::from_str_radix(text, 16).map_err(|e| format!("`{text}`: {e}"));
    let Some((base, rule)) = code.split_once('+') else { return Ok(vec![(hex(code)?, u16::MAX, None)]) };
    let base = hex(base)?;
    let (which, filter) = rule.split_at(rule.find(['-', '=']).unwrap_or(rule.len()));
    // A capital letter speaks of the third operand's form alone.
    let wanted = |letter: char, third: bool| {
        let named = |letters: &str| {
            letters.contains(letter) || third && letters.contains(letter.to_ascii_uppercase())
        };
        match filter.split_at_checked(1) {
            Some(("-", letters)) => !named(letters),
            Some(("=", letters)) => named(letters),
            _ => true,
        }
    };
    let (which, uniform) = which.strip_prefix('v').map_or((which, false), |which| (which, true));
    let mut forms = Vec::new();
    let first = which.chars().next().ok_or("which operand is flexible?")?;
    let register = if uniform { Flex::AllUniform } else { Flex::Reg };
    if wanted('r', false) {
        forms.push((base | 1 << 9, u16::MAX, first, register));
    }
    for which in which.chars() {
        let (imm, constant, other) = match which {
            'b' => (4, 5, 6),
            'c' | 'd' => (2, 3, 7),
            _ => return Err(format!("`{which}` is none of b, c, d")),
        };
        let forms_of = [
            ('i', imm, 0, u16::MAX, Flex::Imm),
            ('c', constant, 0, TO_90, Flex::Const),
            ('x', constant, 1, TO_90, Flex::Bindless),
            ('u', other, 1, u16::MAX, Flex::Uniform),
        ];
        for (letter, bits, page, era, flex) in forms_of {
            if wanted(letter, which != 'b') && !(uniform && letter != 'i') {
                forms.push((base | bits << 9 | page << 12, era, which, flex));
            }
        }
    }
    let upper = |(code, era, which, flex): (u16, u16, char, Flex)| {
        (code, era, Some((which.to_ascii_uppercase(), flex, uniform)))
    };
    Ok(forms.into_iter().map(upper).collect())
}

fn lines(text: &str) -> Vec<(usize, String)> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    let mut continued = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or("").trim();
        let (line, more) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        match joined.last_mut().filter(|_| continued) {
            Some((_, previous)) => {
                previous.push(' ');
                previous.push_str(line);
            }
            None if !line.is_empty() => joined.push((index + 1, line.to_string())),
            None => (),
        }
        continued = more;
    }
    joined
}

fn number(text: &str) -> Result<u64, String> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    }
    .map_err(|e| format!("`{text}`: {e}"))
}

/// `86:84,79:72`: pieces from the most significant down.
fn pieces(text: &str) -> Result<Pieces, String> {
    text.split(',')
        .map(|piece| {
            let (hi, lo) = piece.split_once(':').unwrap_or((piece, piece));
            let (hi, lo) = (number(hi)? as u8, number(lo)? as u8);
            if hi < lo || hi > 127 { Err(format!("`{piece}`")) } else { Ok((lo, hi - lo + 1)) }
        })
        .collect()
}

pub fn width(pieces: &Pieces) -> u32 {
    pieces.iter().map(|&(_, width)| u32::from(width)).sum()
}

fn fixed_bits(token: &str) -> Result<(Pieces, u64), String> {
    let (at, value) = token.split_once('=').ok_or(format!("`{token}`: expected bits=value"))?;
    Ok((pieces(at)?, number(value)?))
}

/// `75-`, `80-89`, `90`, joined by commas.
fn isa_set(text: &str) -> Result<u16, String> {
    let mut set = 0;
    for range in text.split(',') {
        let (first, last) = match range.split_once('-') {
            Some((first, "")) => (number(first)?, u64::MAX),
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(range)?, number(range)?),
        };
        for isa in Isa::ALL {
            if (first..=last).contains(&u64::from(isa.sm())) {
                set |= 1 << isa as u16;
            }
        }
    }
    Ok(set)
}

/// `MOV=1z`, `MOV=2:1&3z`: a name and conditions on operands (`z` zero, `p` power of two, `:n` a value).
fn alias(text: &str) -> Result<(String, Vec<(usize, String)>), String> {
    let (name, conditions) = text.split_once('=').ok_or(format!("`{text}`: expected NAME=conditions"))?;
    let conditions = conditions
        .split('&')
        .map(|condition| {
            let (slot, what) = condition.split_at(1);
            Ok((number(slot)? as usize, what.to_string()))
        })
        .collect::<Result<_, String>>()?;
    Ok((name.to_string(), conditions))
}

/// Operands and the punctuation between them; a bracket's opening text is one token.
fn slot_tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut token = String::new();
    let mut depth = 0; // inside an inline enum's parentheses commas and plus signs are plain text
    for (index, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => (),
        }
        // `@75:74,60` continues a bit list; a comma before a space ends the operand.
        let ends = depth == 0 && (c.is_whitespace() || c == '+' || c == ']');
        if c == '[' && depth == 0 {
            token.push(c);
            if token == "[" && tokens.last().is_some_and(|last| last == "]") {
                tokens.pop();
                token = "][".into();
            }
            tokens.push(std::mem::take(&mut token));
        } else if ends {
            let trimmed = token.trim_end_matches(',');
            if !trimmed.is_empty() {
                tokens.push(trimmed.to_string());
            }
            token.clear();
            if c == ']' || c == '+' {
                tokens.push(c.to_string());
            } else if text[..index].ends_with(',') {
                tokens.push(",".into());
            }
        } else if !(c == ',' && token.is_empty()) {
            token.push(c);
        }
    }
    let trimmed = token.trim_end_matches(',');
    if !trimmed.is_empty() {
        tokens.push(trimmed.to_string());
    }
    tokens
}

/// Leading flag characters, each with the bit that holds it where that is not the usual one.
fn flags(mut token: &str) -> (Vec<(char, Option<u8>)>, &str) {
    let mut flags = Vec::new();
    while let Some(flag) = token.chars().next().filter(|c| "-~|!".contains(*c)) {
        let rest = &token[1..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        flags.push((flag, rest[..end].parse().ok()));
        token = &rest[end..];
    }
    (flags, token)
}

/// `R24.64`, `R24.ISWZ@75:74`, `R24.(-,X4)@79:78`: the operand, then what is printed behind it.
fn split_suffix(token: &str) -> (&str, Vec<&str>) {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0);
    for (index, c) in token.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '.' if depth == 0 => {
                parts.push(&token[start..index]);
                start = index + 1;
            }
            _ => (),
        }
    }
    parts.push(&token[start..]);
    (parts[0], parts[1..].to_vec())
}

/// The bit of a flag follows the register field: 72/73 for the first, 63/62 and 75/74 for the others.
fn set_flags(slot: &mut Slot, flags: &[(char, Option<u8>)]) -> Result<(), String> {
    let lo = slot.at[0].0;
    let wide = matches!(slot.kind.as_str(), "Const" | "Bindless");
    for &(flag, bit) in flags {
        let usual = match (flag, lo) {
            ('!', _) => Some(lo + 3),
            ('-' | '~', 24) => Some(72),
            ('|', 24) => Some(73),
            ('-' | '~', 64) => Some(if slot.half { 84 } else { 75 }),
            ('|', 64) => Some(if slot.half { 83 } else { 74 }),
            ('-' | '~', _) if lo == 32 || wide => Some(63),
            ('|', _) if lo == 32 || wide => Some(62),
            _ => None,
        };
        let bit = Some(bit.or(usual).ok_or(format!("`{flag}` needs its bit here"))?);
        match flag {
            '!' => slot.not = bit,
            '|' => slot.abs = bit,
            _ => {
                slot.neg = bit;
                slot.inverts = flag == '~';
            }
        }
    }
    Ok(())
}

/// Destinations sit at 23:16 (registers) and at 83:81 and 86:84 (predicates); `>` and `<` mark the rest.
fn writes_by_position(slot: &Slot) -> bool {
    match slot.kind.as_str() {
        "R" | "U" => slot.at[0].0 == 16,
        "P" | "V" => matches!(slot.at[0].0, 81 | 84) && slot.not.is_none(),
        _ => false,
    }
}
