//! The choice of a register for a value, and eviction: Belady's rule, the furthest next use goes.
//!
//! Preferred is a free window of registers that no precolored value needs during the live range. Else the cheapest
//! window is vacated: an owner moves to other free registers (R and P) or is evicted, where the cost of an eviction
//! falls with the next-use distance and is least for rematerializable values and those that have a slot already.
//!
//! Afterwards the value has aligned contiguous registers, and every displaced value can be reloaded. A choice scans all
//! windows of the file; with evictions each owner's next use is looked up by binary search.

use super::reg_set::RegSet;
use super::{Allocator, AttemptError, NextUse, uses};
use ori::entity::Entity;
use ori::{File, Value};

impl Allocator<'_> {
    /// Assigns a register to a result.
    pub(super) fn define(&mut self, value: Value) -> Result<(), AttemptError> {
        if self.undefined.contains(value) {
            return Ok(());
        }
        let reg = match self.precolored.reg(value) {
            Some(reg) => self.vacate(value, reg)?,
            None => match self.hinted_reg(value) {
                Some(reg) => reg,
                None => self.alloc_reg(value)?,
            },
        };
        self.assign(value, reg);
        Ok(())
    }

    /// Vacates the registers of a precolored value.
    pub(super) fn vacate(&mut self, value: Value, reg: u8) -> Result<u8, AttemptError> {
        let data = self.function.values[value];
        let file = self.file(data.file);
        let window = usize::from(reg)..usize::from(reg) + usize::from(data.words);
        for register in window.clone() {
            match self.files[file].owner(register) {
                Some(owner) if self.precolored.reg(owner).is_some() => {
                    return Err("two precolored values share a register".into());
                }
                Some(owner) => self.displace(file, owner, window.clone())?,
                None => {}
            }
        }
        Ok(reg)
    }

    /// Is a register free, and may a value have it? Not one that a precolored value will need.
    pub(super) fn is_available(&self, value: Value, reg: u8) -> bool {
        let data = self.function.values[value];
        let window = usize::from(reg)..usize::from(reg) + usize::from(data.words);
        self.files[self.file(data.file)].fits(reg, data.words)
            && self.may_share(value, window.clone())
            && self.precolored.reg(value).is_none_or(|fixed| fixed == reg)
            && !self.conflicts_with_precolored(value, window)
    }

    pub(super) fn conflicts_with_precolored(&self, value: Value, window: std::ops::Range<usize>) -> bool {
        self.function.values[value].file == File::R && self.precolored.conflicts(value).contains_any(window)
    }

    /// A free register for a value: one without conflicts with precolored values, if possible.
    pub(super) fn free_reg(&self, value: Value) -> Option<u8> {
        let data = self.function.values[value];
        let regs = &self.files[self.file(data.file)];
        self.conflict_free_reg(value).or_else(|| regs.first_window(data.words, self.free_regs(value)))
    }

    /// A free register that no precolored value needs in the live range of this one.
    pub(super) fn conflict_free_reg(&self, value: Value) -> Option<u8> {
        let data = self.function.values[value];
        let regs = &self.files[self.file(data.file)];
        let free = self.free_regs(value).without(self.precolored_conflicts(value));
        let first = regs.first_window(data.words, free)?;
        let unreserved = free.without(self.reserved_for_packs(data.file));
        let uncontended = unreserved.without(self.contended_regs(value, false));
        if data.file == File::P && !self.live.live_out[self.block.index()].contains(value) {
            return self.rested_predicate(uncontended).or(Some(first));
        }
        let preferences: [&dyn Fn() -> RegSet; 3] =
            [&|| uncontended.without(self.regs_to_save(value)), &|| uncontended, &|| {
                unreserved.without(self.contended_regs(value, true))
            }];
        let fitting = |regs_wanted: RegSet| Some((regs_wanted, regs.first_window(data.words, regs_wanted)?));
        let found = preferences.into_iter().find_map(|preference| fitting(preference()));
        let Some((unreserved, first_fit)) = found else { return Some(first) };
        let uncontended = match self.hints.is_read_late(value) {
            true => {
                let used = RegSet::range(0..self.code.registers as usize);
                let outside = RegSet::range(0..256).without(used);
                regs.first_window(data.words, unreserved.without(outside).without(self.latch_writes()))
            }
            false => None,
        };
        let unread = || self.unread_reg(value, unreserved, first_fit);
        Some(uncontended.or_else(unread).unwrap_or(first_fit))
    }

    /// The registers that the function would have to save for its caller if this value were there, and those beyond the
    /// registers that it has at least. A value that lives across a call wants one that is saved.
    fn regs_to_save(&self, value: Value) -> RegSet {
        let Some(own) = self.own.filter(|own| !own.is_routine() && !own.preserves_none()) else {
            return RegSet::default();
        };
        if self.function.values[value].file != File::R || self.hints.lives_across_call(value) {
            return RegSet::default();
        }
        let used = |r: u8| self.code.used.get(usize::from(r)) == Some(&true);
        let end = own.end().max(self.code.registers as u8);
        let mut all = RegSet::range(usize::from(end)..256);
        (0..end).filter(|r| own.is_saved(*r) && !used(*r)).for_each(|r| all.add(RegSet::of(r, 1)));
        all
    }

    /// The lowest free predicate register that was not written a moment ago, or the one that was longest ago: a write
    /// waits for slower ones before it, up to 13 cycles for the carry of a product of 32 by 32 bits, and predicate
    /// registers cost no occupancy. What lives on in other blocks takes the lowest, which routines preserve.
    fn rested_predicate(&self, free: RegSet) -> Option<u8> {
        let written = |reg: &u8| self.predicate_writes[usize::from(*reg)];
        let distance = u64::from(self.tuning.regalloc_predicate_distance);
        let has_rested = |reg: &u8| written(reg) == 0 || self.tick - written(reg) >= distance;
        free.iter().find(has_rested).or_else(|| free.iter().min_by_key(written))
    }

    /// A free register that no memory access read a moment ago, if the first one was: accesses read registers some time
    /// after issue, and a write waits for that. One beyond the registers so far costs no occupancy within a register
    /// goal; where few are free, tuples and moves need them.
    fn unread_reg(&self, value: Value, free: RegSet, first_fit: u8) -> Option<u8> {
        let data = self.function.values[value];
        let regs = &self.files[self.file(data.file)];
        let window = RegSet::of(first_fit, data.words.into());
        if data.file != File::R || !window.iter().any(|reg| self.is_being_read(reg)) {
            return None;
        }
        let mut unread = free;
        let used = (0..self.code.registers).map(|reg| reg as u8).filter(|reg| self.is_being_read(*reg));
        used.for_each(|reg| unread.remove(RegSet::of(reg, 1)));
        let has_room =
            self.spill_free && regs.free().iter().count() >= self.tuning.regalloc_read_reserve as usize;
        if !has_room {
            unread.remove(RegSet::range(self.code.registers as usize..256));
        }
        regs.first_window(data.words, unread)
    }

    fn is_being_read(&self, reg: u8) -> bool {
        let read = self.late_reads.get(usize::from(reg)).copied().unwrap_or(0);
        read > 0 && self.tick - read < u64::from(self.tuning.regalloc_read_distance)
    }

    /// The registers that precolored values have somewhere in the live range of a value.
    fn precolored_conflicts(&self, value: Value) -> RegSet {
        match self.function.values[value].file {
            File::R => self.precolored.conflicts(value),
            _ => RegSet::default(),
        }
    }

    /// The free registers that a value may have.
    fn free_regs(&self, value: Value) -> RegSet {
        self.files[self.file(self.function.values[value].file)].free().without(self.foreign_regs(value))
    }

    /// Registers that others have had and that this value may not share with them: uniform ones, if one of the values is of
    /// [`ori::Function::apart`] and the other is not.
    fn foreign_regs(&self, value: Value) -> RegSet {
        match self.function.values[value].file {
            File::UR if !self.function.apart.is_empty() => {
                self.uniform_owners[usize::from(!self.is_apart(value))]
            }
            _ => RegSet::default(),
        }
    }

    pub(super) fn may_share(&self, value: Value, window: std::ops::Range<usize>) -> bool {
        !self.foreign_regs(value).contains_any(window)
    }

    pub(super) fn is_apart(&self, value: Value) -> bool {
        let block = self.def_block.get(value.index()).copied().flatten();
        block.is_some_and(|block| self.function.apart.binary_search(&block).is_ok())
    }

    /// A register for a value: a free one, or one that is vacated.
    pub(super) fn alloc_reg(&mut self, value: Value) -> Result<u8, AttemptError> {
        let data = self.function.values[value];
        let index = self.file(data.file);
        if let Some(reg) = self.free_reg(value) {
            return Ok(reg);
        }
        if self.next_use.is_none() {
            self.next_use = Some(NextUse::new(self.function, self.cfg, self.tuning));
        }
        if self.block_uses.is_empty() {
            self.block_uses = uses(self.function, self.block);
        }
        let regs = &self.files[index];
        // Uniform registers and barriers are never moved.
        let is_movable = matches!(data.file, File::R | File::P) && !regs.free().is_empty();
        let best = regs
            .windows(data.words)
            .filter(|w| self.may_share(value, w.clone()))
            .filter_map(|w| Some((self.eviction_cost(index, w.clone(), is_movable)?, w)))
            .min_by_key(|(c, w)| (*c, w.start));
        let (_, window) = best.ok_or(AttemptError::OutOfRegisters(data.file))?;
        for reg in window.clone() {
            if let Some(owner) = self.files[index].owner(reg) {
                self.displace(index, owner, window.clone())?;
            }
        }
        Ok(window.start as u8)
    }

    /// The cost of vacating a window; `None` if an owner can't be displaced.
    fn eviction_cost(&self, file: usize, window: std::ops::Range<usize>, is_movable: bool) -> Option<u64> {
        let mut total = 0;
        let mut last = None;
        for reg in window.clone() {
            if self.files[file].is_reserved(reg) {
                return None;
            }
            let owner = self.files[file].owner(reg);
            if owner != last
                && let Some(owner) = owner
            {
                if self.locked.contains(&owner) || self.precolored.reg(owner).is_some() {
                    return None;
                }
                let target = if is_movable { self.relocation_target(file, owner, &window) } else { None };
                let words = u64::from(self.function.values[owner].words);
                total += if target.is_some() { words } else { words * self.spill_cost(owner) };
            }
            last = owner;
        }
        Some(total)
    }

    /// The cost per word of a reload at the next use: less, the further that is. A value that has a slot needs no
    /// store.
    fn spill_cost(&self, value: Value) -> u64 {
        let tuning = self.tuning;
        let at_once = match self.slots[value.index()] {
            _ if self.remat_def(value).is_some() => tuning.regalloc_remat_cost,
            Some(_) => tuning.regalloc_reload_cost,
            None => tuning.regalloc_spill_cost,
        };
        u64::from(tuning.regalloc_evict_cost)
            + u64::from(at_once) / (u64::from(self.next_use_distance(value)) + 1)
    }

    /// A free register outside of a window, with no pending read.
    pub(super) fn relocation_target(
        &self,
        file: usize,
        value: Value,
        window: &std::ops::Range<usize>,
    ) -> Option<u8> {
        let regs = &self.files[file];
        let words = self.function.values[value].words;
        let mut usable = regs.free().without(RegSet::range(window.clone()));
        for (pending, at) in &self.pending_reads {
            let data = self.function.values[*pending];
            if data.file == regs.file() {
                usable.remove(RegSet::of(*at, data.words.into()));
            }
        }
        let conflict_free = usable.without(self.precolored_conflicts(value));
        regs.first_window(words, conflict_free).or_else(|| regs.first_window(words, usable))
    }

    /// The distance to the next use of a value, in instructions.
    pub(super) fn next_use_distance(&self, value: Value) -> u32 {
        let from = self.block_uses.partition_point(|u| *u < (value, self.position));
        match self.block_uses.get(from) {
            Some((v, position)) if *v == value => position - self.position,
            _ => {
                let rest = self.function.blocks[self.block].insts.len() as u32 - self.position;
                let after = self.next_use.as_ref().map_or(0, |n| n.at_end(self.cfg, self.block, value));
                rest.saturating_add(after)
            }
        }
    }

    /// Moves a value out of the window, or evicts it.
    pub(super) fn displace(
        &mut self,
        file: usize,
        value: Value,
        window: std::ops::Range<usize>,
    ) -> Result<(), AttemptError> {
        let data = self.function.values[value];
        let from = self.register(value, 0);
        let movable = matches!(data.file, File::R | File::P);
        match self.relocation_target(file, value, &window).filter(|_| movable) {
            Some(to) => {
                let words = self.live_words(value);
                words.into_iter().try_for_each(|w| self.copy(data.file, to + w, from + w))?;
                self.unassign(value);
                self.assign(value, to);
            }
            None => self.evict(value),
        }
        Ok(())
    }

    /// Frees the registers of a value, which is reloaded or rematerialized at its next use.
    pub(super) fn evict(&mut self, value: Value) {
        self.unassign(value);
        self.spill(value);
    }

    /// Makes a value reloadable: by rematerialization, a spill slot, or through R.
    pub(super) fn spill(&mut self, value: Value) {
        if self.remat_def(value).is_some() {
            return;
        }
        match self.function.values[value].file {
            File::R => {
                self.slot(value);
            }
            _ => self.spill_via_r.push(value),
        }
    }
}
