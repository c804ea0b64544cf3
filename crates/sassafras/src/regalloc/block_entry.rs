//! The registers at the entry of a block.
//!
//! A live-in value keeps the register that it has at the exit of the last predecessor that has been visited; parameters
//! follow. At a loop header, values whose next use is after the loop are spilled around it as far as the loop's
//! pressure demands, and values that the loop uses are reloaded in front of it as far as registers are free (the loop
//! rule of Braun & Hack, CC 2009). At a join, a value that is spilled on another predecessor stays spilled unless the
//! block uses it, or that predecessor is cold.
//!
//! Afterwards `entry_regs` is what the code of the block assumes; [`super::edge_moves`] establishes it on every edge.
//! Linear in the live-in values, times their logarithm where they are sorted.

use super::edge_moves::find;
use super::{Allocator, AttemptError, NextUse, RegFile, Snapshot, hints};
use ori::entity::Entity;
use ori::{Block, File, Value};
use smallvec::SmallVec;

impl Allocator<'_> {
    /// Fixes the registers at the entry of a block.
    pub(super) fn enter_block(&mut self, block: Block) -> Result<(), AttemptError> {
        self.files.iter_mut().for_each(RegFile::clear);
        let limit = self.limits.usable(self.block_limits.start(block));
        self.files[File::R as usize].set_limit(limit);
        self.locked.clear();
        let visited = |a: &Self, b: Block| a.rpo_index[b.index()] < a.rpo_index[block.index()];
        let preds = &self.cfg.preds[block.index()];
        // The edge that is taken most: of the visited predecessors the last that is not cold.
        let rank = |p: &Block| (!self.function.blocks[*p].cold, *p);
        let from = preds.iter().copied().filter(|p| visited(self, *p)).max_by_key(rank);
        for param in &self.function.blocks[block].params {
            if let Some(reg) = self.precolored.reg(*param) {
                self.assign(*param, reg);
            }
        }
        let live = &self.live.live_in[block.index()];
        let exit_regs = from.map_or(&[][..], |f| &self.exit_regs[f.index()]);
        let mut before: Snapshot = exit_regs.iter().copied().filter(|(v, _)| live.contains(*v)).collect();
        let is_loop = preds.iter().any(|p| !visited(self, *p));
        match is_loop {
            true => self.spill_around_loop(block, &mut before),
            false => self.drop_at_join(block, &mut before),
        }
        before.into_iter().for_each(|(value, reg)| self.carry_in(value, reg, is_loop));
        self.assign_params(block, is_loop)?;
        if is_loop {
            self.reload_before_loop(block);
        }
        // Values that a parameter displaced are moved on the edges, before the block.
        self.emitted.clear();
        for param in &self.function.blocks[block].params {
            self.def_point[param.index()] = self.assigned[param.index()].map(|p| (block, 0, p));
            // One that another parameter evicted is passed in its slot.
            if self.assigned[param.index()].is_none() && !self.undefined.contains(*param) {
                self.slot(*param);
                self.spilled_params.insert(*param);
            }
        }
        if is_loop {
            self.reserve_for_next_values(block);
        }
        self.entry_regs[block.index()] = self.snapshot();
        Ok(())
    }

    /// A live-in value keeps the register that it has at the exit of the predecessor, unless a precolored value has
    /// taken that, or will in each iteration of a loop, or the register limit has fallen below it.
    pub(super) fn carry_in(&mut self, value: Value, reg: u8, is_loop: bool) {
        let data = self.function.values[value];
        let file = self.file(data.file);
        let same = Some(reg).filter(|p| match is_loop {
            true => self.is_available(value, *p),
            false => self.files[file].fits(*p, data.words),
        });
        match same.or_else(|| self.conflict_free_reg(value)) {
            Some(reg) => self.assign(value, reg),
            None => self.spill(value),
        }
    }

    /// Parameters get registers of their arguments, as far as these are free; the others follow. So do words of a tuple
    /// that a loop packs whose arguments are not in a window for it: moves before the loop save moves in it.
    fn assign_params(&mut self, block: Block, is_loop: bool) -> Result<(), AttemptError> {
        let mut others = Vec::new();
        for (i, param) in self.function.blocks[block].params.iter().enumerate() {
            if self.undefined.contains(*param) || self.precolored.reg(*param).is_some() {
                continue;
            }
            match self.arg_reg(block, i, *param) {
                Some(reg) if !is_loop || self.suits_pack(*param, reg) => self.assign(*param, reg),
                _ => others.push(*param),
            }
        }
        others.into_iter().try_for_each(|param| self.assign_param(param))
    }

    /// The free register that most of a parameter's arguments have, those of cold predecessors last.
    fn arg_reg(&self, block: Block, index: usize, param: Value) -> Option<u8> {
        let mut counts: SmallVec<[((bool, u32), u8); 4]> = SmallVec::new();
        for pred in self.cfg.preds[block.index()].iter().rev() {
            if self.rpo_index[pred.index()] >= self.rpo_index[block.index()] {
                continue;
            }
            let edges = self.function.blocks[*pred].end.edges();
            let arg = edges.iter().find(|e| e.to == block).and_then(|e| e.args.get(index));
            let Some(reg) = arg.and_then(|arg| find(&self.exit_regs[pred.index()], *arg)) else { continue };
            let hot = !self.function.blocks[*pred].cold;
            match counts.iter_mut().find(|(_, r)| *r == reg) {
                Some((rank, _)) => *rank = (rank.0 || hot, rank.1 + 1),
                None => counts.push(((hot, 1), reg)),
            }
        }
        counts.retain(|(_, reg)| self.is_available(param, *reg));
        // Of equal ones the first, which is that of the last predecessor.
        counts.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
        counts.first().map(|(_, reg)| *reg)
    }

    /// At a join, a value that is spilled on another predecessor isn't reloaded there, unless the block uses it.
    fn drop_at_join(&mut self, block: Block, before: &mut Snapshot) {
        let Some(far) = &self.next_use else { return };
        let length = self.function.blocks[block].insts.len() as u32;
        let preds = &self.cfg.preds[block.index()];
        // What a slow path left out of registers is reloaded at its end.
        let blocks = &self.function.blocks;
        let is_cold = |p: &Block| blocks[*p].cold && !blocks[block].cold;
        let known = |p: &&Block| self.rpo_index[p.index()] < self.rpo_index[block.index()] && !is_cold(p);
        let is_everywhere = |v: Value| {
            let exit_regs = preds.iter().filter(known).map(|p| &self.exit_regs[p.index()]);
            { exit_regs }.all(|end| end.binary_search_by_key(&v, |(v, _)| *v).is_ok())
        };
        // A value without a slot would need a new store.
        let can_leave = |v: Value| self.slots[v.index()].is_some() || self.remat_def(v).is_some();
        before.retain(|(v, _)| {
            let general = self.function.values[*v].file == File::R && self.precolored.reg(*v).is_none();
            !general || far.at_start(block, *v) <= length || !can_leave(*v) || is_everywhere(*v)
        });
    }

    /// Reloads values that a loop uses in front of it, nearest use first, as far as registers are free.
    fn reload_before_loop(&mut self, header: Block) {
        let free = -self.excess_pressure_in_loop(header, &self.snapshot());
        let Some(far) = self.next_use.as_ref().filter(|_| free > 0) else { return };
        let is_spilled = |v: &Value| {
            let general = self.function.values[*v].file == File::R && self.precolored.reg(*v).is_none();
            general && self.assigned[v.index()].is_none() && !self.undefined.contains(*v)
        };
        let live = self.live.live_in[header.index()].iter().filter(is_spilled);
        let mut wanted: Vec<(u32, Value)> = live.map(|v| (far.at_start(header, v), v)).collect();
        wanted.retain(|(distance, _)| !far.is_after_loop(*distance));
        wanted.sort();
        let mut free = free;
        for (_, value) in wanted {
            let words = i32::from(self.function.values[value].words);
            if words <= free
                && let Some(reg) = self.conflict_free_reg(value)
            {
                self.assign(value, reg);
                free -= words;
            }
        }
    }

    /// Spills values whose next use is after the loop, furthest first, while its pressure exceeds the registers. Sorts
    /// the others by next use.
    fn spill_around_loop(&mut self, header: Block, before: &mut Snapshot) {
        let mut excess = self.excess_pressure_in_loop(header, before);
        if excess <= 0 {
            return;
        }
        if self.next_use.is_none() {
            self.next_use = Some(NextUse::new(self.function, self.cfg, self.tuning));
        }
        let Some(far) = &self.next_use else { return };
        let words = |v: Value| i32::from(self.function.values[v].words);
        before.sort_by_key(|(v, _)| (far.at_start(header, *v), *v));
        let is_outside = |v: Value| far.is_after_loop(far.at_start(header, v));
        let movable = |v: Value| {
            let general = self.function.values[v].file == File::R && self.precolored.reg(v).is_none();
            general && (!self.spill_free || self.remat_def(v).is_some())
        };
        let mut spilled = Vec::new();
        for (value, _) in before.iter().rev().filter(|(v, _)| movable(*v) && is_outside(*v)) {
            if excess > 0 {
                excess -= words(*value);
                spilled.push(*value);
            }
        }
        before.retain(|(v, _)| !spilled.contains(v));
        spilled.into_iter().for_each(|v| self.spill(v));
    }

    /// By how many words a loop exceeds the registers if exactly these values stay assigned: at its point of maximal
    /// pressure, or at the header beside precolored values.
    fn excess_pressure_in_loop(&mut self, header: Block, before: &Snapshot) -> i32 {
        let usable = i32::from(self.limits.usable(self.block_limits.start(header)));
        let (function, cfg, live) = (self.function, self.cfg, self.live);
        let pressure = self.loop_pressure.get_or_insert_with(|| hints::loop_pressures(function, cfg, live));
        let most = pressure.get(&header).copied().unwrap_or(0);
        let params = &function.blocks[header].params;
        let general = |v: &Value| function.values[*v].file == File::R && self.precolored.reg(*v).is_none();
        let count = |values: &mut dyn Iterator<Item = Value>| -> i32 {
            values.filter(general).map(|v| i32::from(function.values[v].words)).sum()
        };
        let through = &live.live_in[header.index()];
        let kept_words = count(&mut before.iter().map(|(v, _)| *v).filter(|v| through.contains(*v)));
        let spilled = count(&mut through.iter().filter(|v| !self.undefined.contains(*v))) - kept_words;
        let words = kept_words + count(&mut params.iter().copied());
        let mut unavailable = self.reserved;
        params.iter().filter(|p| general(p)).for_each(|p| unavailable.add(self.precolored.conflicts(*p)));
        let available = usable - unavailable.iter().filter(|r| i32::from(*r) < usable).count() as i32;
        // Tuples need contiguous registers.
        let reserve = self.tuning.regalloc_loop_reserve.min(u16::MAX.into()) as i32;
        (most as i32 - spilled - usable).max(words - available) + reserve
    }

    fn assign_param(&mut self, param: Value) -> Result<(), AttemptError> {
        let mut reg = self.hinted_reg(param).or_else(|| self.conflict_free_reg(param));
        // A register that a precolored value will need is no use: the parameter would have to move out of it.
        if reg.is_none() && !self.precolored.has_conflicts(param) {
            reg = match self.alloc_reg(param) {
                Err(AttemptError::OutOfRegisters(File::R)) => None,
                found => Some(found?),
            };
        }
        match reg {
            Some(reg) => self.assign(param, reg),
            None => {
                self.slot(param);
                self.spilled_params.insert(param);
            }
        }
        Ok(())
    }

    /// The current registers of all values, sorted by value.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut all: Snapshot = Vec::new();
        for file in &self.files {
            all.extend(file.owners().map(|value| (value, self.register(value, 0))));
        }
        all.sort_unstable();
        // Dead words may leave a gap.
        all.dedup();
        all
    }
}
