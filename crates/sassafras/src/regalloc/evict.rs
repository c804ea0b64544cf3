//! Which place a value gets, and who leaves for it: the value whose next use is furthest.

use super::{Allocator, NextUse, Trouble, uses};
use ori::entity::Entity;
use ori::{File, Value};

impl Allocator<'_> {
    /// Gives a result a place.
    pub(super) fn define(&mut self, value: Value) -> Result<(), Trouble> {
        if self.undefined.contains(value) {
            return Ok(());
        }
        let place = match self.pins.place(value) {
            Some(place) => self.clear(value, place)?,
            None => match self.hinted(value) {
                Some(place) => place,
                None => self.room(value)?,
            },
        };
        self.arrive(value, place);
        Ok(())
    }

    /// Makes the place of a pinned value free.
    pub(super) fn clear(&mut self, value: Value, place: u8) -> Result<u8, Trouble> {
        let data = self.function.values[value];
        let file = self.file(data.file);
        let window = usize::from(place)..usize::from(place) + usize::from(data.words);
        for register in window.clone() {
            match self.files[file].owner(register) {
                Some(owner) if self.pins.place(owner).is_some() => return Err("two pins in one place".into()),
                Some(owner) => self.displace(file, owner, window.clone())?,
                None => {}
            }
        }
        Ok(place)
    }

    /// May a value have this place, and is it free? Those that a pinned value will need don't do.
    pub(super) fn suits(&self, value: Value, place: u8) -> bool {
        let data = self.function.values[value];
        let window = usize::from(place)..usize::from(place) + usize::from(data.words);
        self.files[self.file(data.file)].fits(place, data.words)
            && self.pins.place(value).is_none_or(|pinned| pinned == place)
            && !self.is_closed(value, window)
    }

    pub(super) fn is_closed(&self, value: Value, window: std::ops::Range<usize>) -> bool {
        self.function.values[value].file == File::R && self.pins.closed(value).contains_any(window)
    }

    /// A free place for a value: one that it can keep, if possible.
    pub(super) fn free_place(&self, value: Value) -> Option<u8> {
        self.lasting_place(value).or_else(|| self.free_places(value).next().map(|w| w.start as u8))
    }

    /// A free place that no pinned value will need while the value lives.
    pub(super) fn lasting_place(&self, value: Value) -> Option<u8> {
        let file = self.function.values[value].file;
        let mut lasting = self.free_places(value).filter(|w| !self.is_closed(value, w.clone()));
        let first = lasting.next()?;
        let all = std::iter::once(first.clone()).chain(lasting);
        let mut unpromised = all.filter(|w| !self.is_promised(file, w)).peekable();
        let usual = unpromised.peek().cloned().unwrap_or(first);
        let aside = match self.hints.is_read_late(value) {
            true => unpromised.find(|w| w.end <= self.code.registers as usize && !self.is_refilled(w)),
            false => None,
        };
        Some(aside.unwrap_or(usual).start as u8)
    }

    pub(super) fn free_places(&self, value: Value) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let data = self.function.values[value];
        let places = &self.files[self.file(data.file)];
        places.windows(data.words).filter(|w| w.clone().all(|p| places.is_free(p)))
    }

    /// The place of a value that is to come into a register: free, or made free.
    pub(super) fn room(&mut self, value: Value) -> Result<u8, Trouble> {
        let data = self.function.values[value];
        let index = self.file(data.file);
        if let Some(place) = self.free_place(value) {
            return Ok(place);
        }
        if self.next_use.is_none() {
            self.next_use = Some(NextUse::new(self.function, self.cfg));
        }
        if self.uses_here.is_empty() {
            self.uses_here = uses(self.function, self.block);
        }
        let places = &self.files[index];
        // Uniform registers and barriers never move.
        let is_movable =
            matches!(data.file, File::R | File::P) && (0..places.len()).any(|p| places.is_free(p));
        let best = places
            .windows(data.words)
            .filter_map(|w| Some((self.cost(index, w.clone(), is_movable)?, w)))
            .min_by_key(|(c, w)| (*c, w.start));
        let (_, window) = best.ok_or(Trouble::NoRoom(data.file))?;
        for place in window.clone() {
            if let Some(owner) = self.files[index].owner(place) {
                self.displace(index, owner, window.clone())?;
            }
        }
        Ok(window.start as u8)
    }

    /// What it costs to empty a window; `None` if someone in it may not leave.
    fn cost(&self, file: usize, window: std::ops::Range<usize>, is_movable: bool) -> Option<u64> {
        let mut total = 0;
        let mut last = None;
        for place in window.clone() {
            if self.files[file].is_reserved(place) {
                return None;
            }
            let owner = self.files[file].owner(place);
            if owner != last
                && let Some(owner) = owner
            {
                if self.locked.contains(&owner) || self.pins.place(owner).is_some() {
                    return None;
                }
                let refuge = if is_movable { self.refuge(file, owner, &window) } else { None };
                let words = u64::from(self.function.values[owner].words);
                total += if refuge.is_some() { words } else { words * self.cost_of_leaving(owner) };
            }
            last = owner;
        }
        Some(total)
    }

    /// What it costs for each word that a value isn't in a register at its next use: less, the further that is. One that
    /// has been stored needs only a load.
    fn cost_of_leaving(&self, value: Value) -> u64 {
        let whole: u64 = match self.slots[value.index()] {
            _ if self.again(value).is_some() => 1 << 20,
            Some(_) => 3 << 28,
            None => 1 << 30,
        };
        100 + whole / u64::from(self.distance(value) + 1)
    }

    /// A free place outside of a window that nothing has still to be read from.
    pub(super) fn refuge(&self, file: usize, value: Value, window: &std::ops::Range<usize>) -> Option<u8> {
        let places = &self.files[file];
        let words = self.function.values[value].words;
        let apart =
            |a: &std::ops::Range<usize>, b: &std::ops::Range<usize>| a.end <= b.start || b.end <= a.start;
        let unread = |w: &std::ops::Range<usize>| {
            let of = |v: Value| self.function.values[v];
            let mut here = self.unread.iter().filter(|(v, _)| of(*v).file == places.file());
            here.any(|(v, at)| !apart(w, &(usize::from(*at)..usize::from(*at) + usize::from(of(*v).words))))
        };
        let fine = |w: &std::ops::Range<usize>| {
            apart(w, window) && w.clone().all(|p| places.is_free(p)) && !unread(w)
        };
        let lasting = |w: &std::ops::Range<usize>| fine(w) && !self.is_closed(value, w.clone());
        let found = places.windows(words).find(lasting).or_else(|| places.windows(words).find(fine));
        found.map(|w| w.start as u8)
    }

    /// How far the next use of a value is from here.
    pub(super) fn distance(&self, value: Value) -> u32 {
        let from = self.uses_here.partition_point(|u| *u < (value, self.position));
        match self.uses_here.get(from) {
            Some((v, position)) if *v == value => position - self.position,
            _ => {
                let rest = self.function.blocks[self.block].insts.len() as u32 - self.position;
                let after = self.next_use.as_ref().map_or(0, |n| n.at_end(self.cfg, self.block, value));
                rest.saturating_add(after)
            }
        }
    }

    /// Makes a value leave the window: to another place, or out of the registers.
    pub(super) fn displace(
        &mut self,
        file: usize,
        value: Value,
        window: std::ops::Range<usize>,
    ) -> Result<(), Trouble> {
        let data = self.function.values[value];
        let from = self.register(value, 0);
        let movable = matches!(data.file, File::R | File::P);
        match self.refuge(file, value, &window).filter(|_| movable) {
            Some(to) => {
                (0..data.words).try_for_each(|w| self.copy(data.file, to + w, from + w))?;
                self.leave(value);
                self.arrive(value, to);
            }
            None => self.evict(value),
        }
        Ok(())
    }

    /// Out of the registers: it must be in memory, or computed again.
    pub(super) fn evict(&mut self, value: Value) {
        self.leave(value);
        self.lose(value);
    }

    /// Sees to it that a value can come back.
    pub(super) fn lose(&mut self, value: Value) {
        if self.again(value).is_some() {
            return;
        }
        match self.function.values[value].file {
            File::R => {
                self.slot(value);
            }
            _ => self.words.push(value),
        }
    }
}
