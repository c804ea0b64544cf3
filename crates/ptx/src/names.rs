//! Names and what they mean at the current place of the source.
//!
//! A name is interned once; its meaning is a slot indexed by the name, and leaving a scope restores the slots
//! that the scope changed. Looking a name up is therefore one array access however deep the nesting is.
//! Members of a range (`%r<100>`) get their slot when they are first used.

use crate::ast::{Name, Reg, Symbol};
use rustc_hash::FxHashMap;

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

/// This scope has such a name already.
pub struct Duplicate;

#[derive(Clone, Copy, Debug)]
struct Slot {
    meaning: Meaning,
    /// The scope that gave it this meaning.
    depth: u32,
    /// The range that this name is the prefix of: the meaning of its first member, and how many there are.
    range: Option<(Meaning, u32)>,
    range_depth: u32,
}

#[derive(Default)]
pub struct Names<'s> {
    texts: Vec<&'s str>,
    by_text: FxHashMap<&'s str, Name>,
    slots: Vec<Slot>,
    /// What each open scope changed: the name and its slot before.
    changes: Vec<(Name, Slot)>,
    scopes: Vec<usize>,
}

impl<'s> Names<'s> {
    pub fn intern(&mut self, text: &'s str) -> Name {
        if let Some(name) = self.by_text.get(text) {
            return *name;
        }
        let name = Name(self.texts.len() as u32);
        self.by_text.insert(text, name);
        self.texts.push(text);
        let meaning = match crate::sreg::find(text) {
            Some((row, number)) => Meaning::Special(row, number),
            None => Meaning::Nothing,
        };
        self.slots.push(Slot { meaning, depth: 0, range: None, range_depth: 0 });
        name
    }

    pub fn text(&self, name: Name) -> &'s str {
        self.texts[name.0 as usize]
    }

    pub fn into_texts(self) -> Vec<&'s str> {
        self.texts
    }

    fn depth(&self) -> u32 {
        self.scopes.len() as u32
    }

    pub fn open(&mut self) {
        self.scopes.push(self.changes.len());
    }

    pub fn close(&mut self) {
        let keep = self.scopes.pop().unwrap_or(0);
        while self.changes.len() > keep {
            if let Some((name, slot)) = self.changes.pop() {
                self.slots[name.0 as usize] = slot;
            }
        }
    }

    fn save(&mut self, name: Name) {
        if !self.scopes.is_empty() {
            self.changes.push((name, self.slots[name.0 as usize]));
        }
    }

    /// Gives a name a meaning in this scope. `Err` with the old one if this very scope gave it one already.
    pub fn define(&mut self, name: Name, meaning: Meaning) -> Result<(), Meaning> {
        let slot = self.slots[name.0 as usize];
        let depth = self.depth();
        let taken = !matches!(slot.meaning, Meaning::Nothing | Meaning::Special(..)) && slot.depth == depth;
        if taken {
            return Err(slot.meaning);
        }
        self.save(name);
        let slot = &mut self.slots[name.0 as usize];
        slot.meaning = meaning;
        slot.depth = depth;
        Ok(())
    }

    /// Declares `prefix<count>`. `Err` if this scope has such a range already.
    pub fn define_range(&mut self, prefix: Name, first: Meaning, count: u32) -> Result<(), Duplicate> {
        let slot = self.slots[prefix.0 as usize];
        let depth = self.depth();
        match slot.range {
            Some(_) if slot.range_depth == depth => return Err(Duplicate),
            // A range in a nested scope hides the outer one: forget the members that got a slot from it.
            Some((outer, n)) => self.hide_members(outer, n),
            None => {}
        }
        self.save(prefix);
        let slot = &mut self.slots[prefix.0 as usize];
        slot.range = Some((first, count));
        slot.range_depth = depth;
        Ok(())
    }

    fn hide_members(&mut self, first: Meaning, count: u32) {
        for i in 0..self.slots.len() {
            if self.slots[i].meaning.is_member(first, count) {
                self.save(Name(i as u32));
                self.slots[i].meaning = Meaning::Nothing;
            }
        }
    }

    /// What a name means here.
    pub fn lookup(&mut self, name: Name) -> Meaning {
        match self.slots[name.0 as usize].meaning {
            Meaning::Nothing => self.member_of_range(name),
            meaning => meaning,
        }
    }

    /// `%r12` where `%r<100>` is declared.
    fn member_of_range(&mut self, name: Name) -> Meaning {
        let text = self.text(name);
        let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
        // `%r07` could split after the 0 as well: leading zeros belong to the prefix, except a lone 0.
        let mut split = text.len() - digits;
        while split + 1 < text.len() && text.as_bytes()[split] == b'0' {
            split += 1;
        }
        while split < text.len() {
            let prefix = self.by_text.get(&text[..split]).copied();
            let range = prefix.and_then(|p| self.slots[p.0 as usize].range);
            if let (Some((first, count)), Ok(i)) = (range, text[split..].parse::<u32>())
                && i < count
            {
                let meaning = first.member(i);
                self.save(name);
                self.slots[name.0 as usize].meaning = meaning;
                self.slots[name.0 as usize].depth = u32::MAX;
                return meaning;
            }
            split += 1;
            while split + 1 < text.len() && text.as_bytes()[split] == b'0' {
                split += 1;
            }
        }
        Meaning::Nothing
    }
}
