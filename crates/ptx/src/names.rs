//! Names and what they mean at the current place of the source.
//!
//! A name is interned once; its meaning is a slot indexed by the name, and leaving a scope restores the slots
//! that the scope changed. Looking a name up is therefore one array access however deep the nesting is.
//! Members of a range (`%r<100>`) get their slot when they are first used; those of register ranges, which most
//! names of a file are, need not even be interned ([`Names::register`]).

use crate::ast::{Name, Reg, Symbol};
use rustc_hash::{FxHashMap, FxHashSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Nothing,
    Reg(Reg),
    Symbol(Symbol),
    /// A special register: its row, and its number in a numbered family.
    Special(u16, Option<u8>),
}

impl Meaning {
    /// The `i`-th member of a range that begins with `self`.
    fn member(self, i: u32) -> Meaning {
        match self {
            Meaning::Reg(first) => Meaning::Reg(Reg(first.0 + i)),
            Meaning::Symbol(first) => Meaning::Symbol(Symbol(first.0 + i)),
            other => other,
        }
    }

    fn is_member(self, first: Meaning, count: u32) -> bool {
        let inside = |n: u32, first: u32| n >= first && n - first < count;
        match (self, first) {
            (Meaning::Reg(r), Meaning::Reg(first)) => inside(r.0, first.0),
            (Meaning::Symbol(s), Meaning::Symbol(first)) => inside(s.0, first.0),
            _ => false,
        }
    }
}

/// `prefix<count>`.
#[derive(Clone, Copy, Debug)]
struct RangeOfNames {
    /// The meaning of its first member.
    first: Meaning,
    count: u32,
    /// The scope that declared it.
    depth: u32,
    /// The range of the same prefix that this one hides.
    outer: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    meaning: Meaning,
    /// The scope that gave it this meaning.
    depth: u32,
    /// The innermost range that this name is the prefix of.
    range: Option<u32>,
}

/// What a name has been in the whole module.
#[derive(Clone, Copy, Default)]
struct Uses {
    declared: bool,
    member: bool,
}

/// A register range with a short prefix.
#[derive(Clone, Copy)]
struct ShortRange {
    /// The bytes of the prefix, the last one lowest; 0 once something else has a name like a member's.
    prefix: u64,
    first: Reg,
    count: u32,
}

/// How many changes and ranges there were at a place.
#[derive(Clone, Copy, Default)]
struct Mark {
    changes: usize,
    ranges: usize,
    short_ranges: usize,
}

/// The bytes of a short text in a number; 0 if it is too long.
fn packed(text: &[u8]) -> u64 {
    if text.len() > 8 { 0 } else { text.iter().fold(0, |n, b| n << 8 | u64::from(*b)) }
}

/// The depth of a meaning that comes from a range.
const FROM_RANGE: u32 = u32::MAX;

#[derive(Default)]
pub struct Names<'s> {
    texts: Vec<&'s str>,
    by_text: FxHashMap<&'s str, Name>,
    slots: Vec<Slot>,
    uses: Vec<Uses>,
    /// Members of ranges that are spelled with leading zeros: the name of `%r1` if `%r01` came first.
    with_zeros: FxHashMap<String, Name>,
    ranges: Vec<RangeOfNames>,
    /// What each open scope changed: the name and its slot before.
    changes: Vec<(Name, Slot)>,
    /// The register ranges in scope, inner ones last.
    short_ranges: Vec<ShortRange>,
    /// The prefixes of all names that end in a number and were declared one by one.
    numbered: FxHashSet<u64>,
    /// For each open scope, what there was before it.
    scopes: Vec<Mark>,
}

impl<'s> Names<'s> {
    pub fn intern(&mut self, text: &'s str) -> Name {
        if let Some(name) = self.by_text.get(text) {
            return *name;
        }
        if let Some(name) = self.spelled_otherwise(text) {
            return name;
        }
        let name = Name(self.texts.len() as u32);
        self.by_text.insert(text, name);
        self.texts.push(text);
        self.uses.push(Uses::default());
        let meaning = match crate::sreg::find(text) {
            Some((row, number)) => Meaning::Special(row, number),
            None => Meaning::Nothing,
        };
        self.slots.push(Slot { meaning, depth: 0, range: None });
        name
    }

    pub fn text(&self, name: Name) -> &'s str {
        self.texts[name.0 as usize]
    }

    /// The texts of all names. Those that only named members of ranges are empty: the tree has their numbers,
    /// and how they were spelled (`%r1` or `%r01`) makes no difference.
    pub fn into_texts(self) -> Vec<&'s str> {
        let spoken = |uses: &Uses| uses.declared || !uses.member;
        self.texts.iter().zip(&self.uses).map(|(text, uses)| if spoken(uses) { *text } else { "" }).collect()
    }

    /// A new text may name a member of a range that is already known under another number of zeros.
    fn spelled_otherwise(&mut self, text: &'s str) -> Option<Name> {
        let prefix = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &text[prefix.len()..];
        let zeros = digits.len() > 1 && digits.starts_with('0');
        if !zeros {
            return self.with_zeros.get(text).copied();
        }
        let range = self.by_text.get(prefix).and_then(|p| self.slots[p.0 as usize].range);
        range?;
        let plain = format!("{prefix}{}", digits.parse::<u32>().ok()?);
        let known = self.by_text.get(plain.as_str()).or_else(|| self.with_zeros.get(&plain)).copied();
        if known.is_none() {
            self.with_zeros.insert(plain, Name(self.texts.len() as u32));
        }
        known
    }

    fn depth(&self) -> u32 {
        self.scopes.len() as u32
    }

    pub fn at_module_scope(&self) -> bool {
        self.scopes.is_empty()
    }

    pub fn open(&mut self) {
        self.scopes.push(Mark {
            changes: self.changes.len(),
            ranges: self.ranges.len(),
            short_ranges: self.short_ranges.len(),
        });
    }

    pub fn close(&mut self) {
        let before = self.scopes.pop().unwrap_or_default();
        self.ranges.truncate(before.ranges);
        self.short_ranges.truncate(before.short_ranges);
        // The first change of a name is the last one to be taken back.
        for (name, slot) in self.changes.drain(before.changes..).rev() {
            self.slots[name.0 as usize] = slot;
        }
    }

    fn save(&mut self, name: Name) {
        if !self.scopes.is_empty() {
            self.changes.push((name, self.slots[name.0 as usize]));
        }
    }

    /// Gives a name a meaning in this scope. `Err` with the old one if this very scope gave it one already,
    /// by itself or as a member of a range.
    pub fn define(&mut self, name: Name, meaning: Meaning) -> Result<(), Meaning> {
        let slot = self.slots[name.0 as usize];
        let depth = self.depth();
        if declared(slot.meaning) && slot.depth == depth {
            return Err(slot.meaning);
        }
        if let Some((member, range_depth)) = self.member_of_range(self.text(name))
            && range_depth == depth
        {
            return Err(member);
        }
        self.save(name);
        self.shadow(name);
        self.uses[name.0 as usize].declared = true;
        let slot = &mut self.slots[name.0 as usize];
        slot.meaning = meaning;
        slot.depth = depth;
        Ok(())
    }

    /// Gives a name a meaning in the module, whatever scope is open.
    pub fn define_module(&mut self, name: Name, meaning: Meaning) {
        self.shadow(name);
        self.uses[name.0 as usize].declared = true;
        let hidden = self.changes.iter_mut().find(|(n, _)| *n == name).map(|(_, slot)| slot);
        let slot = &mut self.slots[name.0 as usize];
        if let Some(base) = hidden {
            base.meaning = meaning;
            if slot.depth != 0 && declared(slot.meaning) {
                return;
            }
        }
        slot.meaning = meaning;
        slot.depth = 0;
    }

    /// What a name means in the module, whatever scope is open.
    pub fn lookup_module(&mut self, name: Name) -> Meaning {
        match self.changes.iter().find(|(n, _)| *n == name) {
            Some((_, base)) => base.meaning,
            None => self.slots[name.0 as usize].meaning,
        }
    }

    /// Declares `prefix<count>`. `Err` with the first member of the range that this scope has already; else
    /// the members that were declared one by one before.
    pub fn define_range(&mut self, prefix: Name, first: Meaning, count: u32) -> Result<Vec<Name>, Meaning> {
        let depth = self.depth();
        let outer = self.slots[prefix.0 as usize].range;
        match outer.map(|i| self.ranges[i as usize]) {
            Some(same) if same.depth == depth => return Err(same.first),
            Some(hidden) => self.hide_members(hidden.first, hidden.count.min(count)),
            None => {}
        }
        let taken = self.declared_members(prefix, first, count);
        self.save(prefix);
        self.slots[prefix.0 as usize].range = Some(self.ranges.len() as u32);
        self.ranges.push(RangeOfNames { first, count, depth, outer });
        self.add_short_range(prefix, first, count);
        Ok(taken)
    }

    fn add_short_range(&mut self, prefix: Name, first: Meaning, count: u32) {
        let prefix = packed(self.text(prefix).as_bytes());
        match first {
            Meaning::Reg(first) if prefix != 0 && !self.numbered.contains(&prefix) => {
                self.short_ranges.push(ShortRange { prefix, first, count });
            }
            // What hides a range of registers, or looks like it, is looked up the long way.
            _ => self.no_short_range(prefix),
        }
    }

    /// A name with a meaning of its own must not be taken for a member of a range.
    fn shadow(&mut self, name: Name) {
        let text = self.text(name);
        let prefix = text.trim_end_matches(|c: char| c.is_ascii_digit());
        if prefix.len() < text.len() {
            self.no_short_range(packed(prefix.as_bytes()));
        }
    }

    fn no_short_range(&mut self, prefix: u64) {
        // A prefix that is too long has no short range.
        if prefix != 0 && self.numbered.insert(prefix) {
            self.short_ranges.iter_mut().filter(|r| r.prefix == prefix).for_each(|r| r.prefix = 0);
        }
    }

    /// The register that a text names, if it can only be a member of a register range. Interns nothing.
    pub fn register(&self, text: &[u8]) -> Option<Reg> {
        let (mut at, mut index, mut scale) = (text.len(), 0u32, 1u32);
        while let Some(digit) = at.checked_sub(1).map(|i| text[i].wrapping_sub(b'0')).filter(|d| *d < 10) {
            // No range has a member with more than nine digits; leading zeros change nothing.
            if scale == 0 && digit != 0 {
                return None;
            }
            index += u32::from(digit) * scale;
            scale = if scale < 100_000_000 { scale * 10 } else { 0 };
            at -= 1;
        }
        let prefix = packed(&text[..at]);
        if prefix == 0 || at == text.len() {
            return None;
        }
        let found = self.short_ranges.iter().rev().find(|r| r.prefix == prefix && index < r.count)?;
        Some(Reg(found.first.0 + index))
    }

    /// Names of this scope, declared by themselves, that a range would declare again. A label is none of them.
    fn declared_members(&self, prefix: Name, first: Meaning, count: u32) -> Vec<Name> {
        let depth = self.depth();
        let prefix = self.text(prefix);
        let is_member = |name: Name| {
            let slot = self.slots[name.0 as usize];
            let index = self.text(name).strip_prefix(prefix).filter(|i| plain_digits(i));
            declared(slot.meaning)
                && slot.depth == depth
                && std::mem::discriminant(&slot.meaning) == std::mem::discriminant(&first)
                && index.and_then(|i| i.parse::<u32>().ok()).is_some_and(|i| i < count)
        };
        let mut members: Vec<Name> = match self.scopes.last() {
            Some(start) => {
                self.changes[start.changes..].iter().map(|(n, _)| *n).filter(|n| is_member(*n)).collect()
            }
            None => (0..self.texts.len() as u32).map(Name).filter(|n| is_member(*n)).collect(),
        };
        members.sort();
        members.dedup();
        members
    }

    /// A range in a nested scope hides members of the outer one: forget those that got a slot from it.
    fn hide_members(&mut self, first: Meaning, count: u32) {
        for i in 0..self.slots.len() {
            if self.slots[i].depth == FROM_RANGE && self.slots[i].meaning.is_member(first, count) {
                self.save(Name(i as u32));
                self.slots[i].meaning = Meaning::Nothing;
            }
        }
    }

    /// Is a text, which need not stand in the source, the name of a member of a range here?
    pub fn is_member(&self, text: &str) -> bool {
        self.member_of_range(text).is_some()
    }

    /// What a name means here.
    pub fn lookup(&mut self, name: Name) -> Meaning {
        match self.slots[name.0 as usize].meaning {
            Meaning::Nothing => match self.member_of_range(self.text(name)) {
                Some((meaning, _)) => {
                    self.save(name);
                    self.uses[name.0 as usize].member = true;
                    let slot = &mut self.slots[name.0 as usize];
                    slot.meaning = meaning;
                    slot.depth = FROM_RANGE;
                    meaning
                }
                None => Meaning::Nothing,
            },
            meaning => meaning,
        }
    }

    /// `%r12` where `%r<100>` is declared: its meaning, and the scope of the range. All digits at the end of
    /// a name are the number, so `%t13` is never a member of `%t1<4>`.
    fn member_of_range(&self, text: &str) -> Option<(Meaning, u32)> {
        let split = text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        if split == text.len() {
            return None;
        }
        let prefix = self.by_text.get(&text[..split])?;
        let mut range = self.slots[prefix.0 as usize].range;
        let index = text[split..].parse::<u32>().ok()?;
        while let Some(i) = range {
            let found = self.ranges[i as usize];
            if index < found.count {
                return Some((found.first.member(index), found.depth));
            }
            range = found.outer;
        }
        None
    }
}

fn declared(meaning: Meaning) -> bool {
    !matches!(meaning, Meaning::Nothing | Meaning::Special(..))
}

/// A number as a range counts: no leading zeros.
fn plain_digits(text: &str) -> bool {
    text == "0" || !text.starts_with('0') && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}
