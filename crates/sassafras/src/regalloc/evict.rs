//! The choice of a register for a value, and eviction: Belady's rule, the furthest next use goes.
//!
//! Preferred is a free window of registers that no precolored value needs during the live range. Else the cheapest
//! window is vacated: an owner moves to other free registers (R and P) or is evicted, where the cost of an eviction
//! falls with the next-use distance and is least for rematerializable values and those that have a slot already.
//!
//! Afterwards the value has aligned contiguous registers, and every displaced value can be reloaded. A choice scans all
//! windows of the file; with evictions each owner's next use is looked up by binary search.

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
            && self.precolored.reg(value).is_none_or(|fixed| fixed == reg)
            && !self.conflicts_with_precolored(value, window)
    }

    pub(super) fn conflicts_with_precolored(&self, value: Value, window: std::ops::Range<usize>) -> bool {
        self.function.values[value].file == File::R && self.precolored.conflicts(value).contains_any(window)
    }

    /// A free register for a value: one without conflicts with precolored values, if possible.
    pub(super) fn free_reg(&self, value: Value) -> Option<u8> {
        self.conflict_free_reg(value).or_else(|| self.free_windows(value).next().map(|w| w.start as u8))
    }

    /// A free register that no precolored value needs in the live range of this one.
    pub(super) fn conflict_free_reg(&self, value: Value) -> Option<u8> {
        let file = self.function.values[value].file;
        let mut conflict_free =
            self.free_windows(value).filter(|w| !self.conflicts_with_precolored(value, w.clone()));
        let first = conflict_free.next()?;
        let all = std::iter::once(first.clone()).chain(conflict_free);
        let contended = self.contended_regs(value);
        let is_reserved = |w: &std::ops::Range<usize>| {
            self.is_reserved_for_pack(file, w) || contended.contains_any(w.clone())
        };
        let mut unreserved = all.filter(|w| !is_reserved(w)).peekable();
        let first_fit = unreserved.peek().cloned().unwrap_or(first);
        let uncontended = match self.hints.is_read_late(value) {
            true => unreserved.find(|w| w.end <= self.code.registers as usize && !self.is_latch_write(w)),
            false => None,
        };
        let is_read = file == File::R && uncontended.is_none() && self.is_being_read(&first_fit);
        let unread = if is_read { unreserved.find(|w| self.is_unread(w)) } else { None };
        Some(uncontended.or(unread).unwrap_or(first_fit).start as u8)
    }

    /// Did a memory access read registers a moment ago? It reads them some time after issue, and a write waits for that.
    fn is_being_read(&self, window: &std::ops::Range<usize>) -> bool {
        let distance = u64::from(self.tuning.regalloc_read_distance);
        let reads = self.late_reads.get(window.clone()).into_iter().flatten();
        { reads }.any(|read| *read > 0 && self.tick - read < distance)
    }

    /// Is a window as good as the first one but for reads? One beyond the registers so far costs no occupancy within a
    /// register goal; where few are free, tuples and moves need them.
    fn is_unread(&self, window: &std::ops::Range<usize>) -> bool {
        let has_room = || {
            let regs = &self.files[self.file(File::R)];
            let free = (0..regs.limit()).filter(|r| regs.is_free(*r)).count();
            self.spill_free && free >= self.tuning.regalloc_read_reserve as usize
        };
        !self.is_being_read(window) && (window.end <= self.code.registers as usize || has_room())
    }

    pub(super) fn free_windows(&self, value: Value) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let data = self.function.values[value];
        let regs = &self.files[self.file(data.file)];
        regs.windows(data.words).filter(|w| w.clone().all(|p| regs.is_free(p)))
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
        let is_movable = matches!(data.file, File::R | File::P) && (0..regs.len()).any(|p| regs.is_free(p));
        let best = regs
            .windows(data.words)
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
        let disjoint =
            |a: &std::ops::Range<usize>, b: &std::ops::Range<usize>| a.end <= b.start || b.end <= a.start;
        let is_pending = |w: &std::ops::Range<usize>| {
            let of = |v: Value| self.function.values[v];
            let mut here = self.pending_reads.iter().filter(|(v, _)| of(*v).file == regs.file());
            here.any(|(v, at)| {
                !disjoint(w, &(usize::from(*at)..usize::from(*at) + usize::from(of(*v).words)))
            })
        };
        let usable = |w: &std::ops::Range<usize>| {
            disjoint(w, window) && w.clone().all(|p| regs.is_free(p)) && !is_pending(w)
        };
        let conflict_free =
            |w: &std::ops::Range<usize>| usable(w) && !self.conflicts_with_precolored(value, w.clone());
        let found = regs.windows(words).find(conflict_free).or_else(|| regs.windows(words).find(usable));
        found.map(|w| w.start as u8)
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
