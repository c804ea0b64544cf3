//! Where the values are when a block begins: what stays from a predecessor, what parameters get, who leaves a loop.

use super::{Allocator, NextUse, Places, Snapshot, Trouble, calls, hints, next_use};
use ori::entity::Entity;
use ori::{Block, File, Value};

/// Registers that stay free in a full loop, for values side by side.
const SLACK: i32 = 4;

impl Allocator<'_> {
    /// Puts the values where the block expects them at its beginning.
    pub(super) fn enter(&mut self, block: Block) -> Result<(), Trouble> {
        self.at.fill(None);
        self.files.iter_mut().for_each(Places::clear);
        let there = self.limits.usable(self.ceilings.start(block));
        self.files[File::R as usize].set_ceiling(there);
        self.locked.clear();
        let visited = |a: &Self, b: Block| a.rank[b.index()] < a.rank[block.index()];
        let preds = &self.cfg.preds[block.index()];
        // The way that is taken most: the last one that is known.
        let from = preds.iter().copied().filter(|p| visited(self, *p)).max();
        for param in &self.function.blocks[block].params {
            if let Some(place) = self.pins.place(*param) {
                self.arrive(*param, place);
            }
        }
        let live = &self.live.live_in[block.index()];
        let ends = from.map_or(&[][..], |f| &self.ends[f.index()]);
        let mut before: Snapshot = ends.iter().copied().filter(|(v, _)| live.contains(*v)).collect();
        let is_loop = preds.iter().any(|p| !visited(self, *p));
        match is_loop {
            true => self.leave_before_loop(block, &mut before),
            false => self.leave_before_join(block, &mut before),
        }
        before.into_iter().for_each(|(value, place)| self.stay(value, place, is_loop));
        for (i, param) in self.function.blocks[block].params.iter().enumerate() {
            let wish = from.and_then(|f| self.argument_place(f, block, i));
            self.param(*param, wish)?;
        }
        if is_loop {
            self.fetch_before_loop(block);
        }
        // Whoever had to move for a parameter is brought to its new place by the edges, before the block begins.
        self.lines.clear();
        for param in &self.function.blocks[block].params {
            self.born[param.index()] = self.at[param.index()].map(|p| (block, 0, p));
            // One that had to make room for another begins in memory.
            if self.at[param.index()].is_none() && !self.undefined.contains(*param) {
                self.slot(*param);
                self.in_memory.insert(*param);
            }
        }
        self.starts[block.index()] = self.snapshot();
        Ok(())
    }

    /// A live value is where it was at the end of the predecessor, unless a pinned one has taken that place or will in
    /// each turn of a loop, or it is there no longer.
    pub(super) fn stay(&mut self, value: Value, place: u8, is_loop: bool) {
        let data = self.function.values[value];
        let file = self.file(data.file);
        let same = Some(place).filter(|p| match is_loop {
            true => self.suits(value, *p),
            false => self.files[file].fits(*p, data.words),
        });
        match same.or_else(|| self.lasting_place(value)) {
            Some(place) => self.arrive(value, place),
            None => self.lose(value),
        }
    }

    /// Where the argument of a parameter is at the end of a predecessor.
    pub(super) fn argument_place(&self, from: Block, to: Block, index: usize) -> Option<u8> {
        let edges = self.function.blocks[from].end.edges();
        let arg = *edges.iter().find(|e| e.to == to)?.args.get(index)?;
        let end = &self.ends[from.index()];
        end.binary_search_by_key(&arg, |(v, _)| *v).ok().map(|i| end[i].1)
    }

    /// Where ways meet, a value that is in memory on another of them isn't loaded there, unless it is used at once.
    fn leave_before_join(&mut self, block: Block, before: &mut Snapshot) {
        let Some(far) = &self.next_use else { return };
        let length = self.function.blocks[block].insts.len() as u32;
        let preds = &self.cfg.preds[block.index()];
        let known = |p: &&Block| self.rank[p.index()] < self.rank[block.index()];
        let is_everywhere = |v: Value| {
            let ends = preds.iter().filter(known).map(|p| &self.ends[p.index()]);
            { ends }.all(|end| end.binary_search_by_key(&v, |(v, _)| *v).is_ok())
        };
        // Whoever is not in memory yet would have to be stored for it.
        let can_leave = |v: Value| self.slots[v.index()].is_some() || self.again(v).is_some();
        before.retain(|(v, _)| {
            let general = self.function.values[*v].file == File::R && self.pins.place(*v).is_none();
            !general || far.at_start(block, *v) <= length || !can_leave(*v) || is_everywhere(*v)
        });
    }

    /// Values that a loop uses are in registers when it begins, as far as there is room.
    fn fetch_before_loop(&mut self, header: Block) {
        let room = -self.excess_in_loop(header, &self.snapshot());
        let Some(far) = self.next_use.as_ref().filter(|_| room > 0) else { return };
        let absent = |v: &Value| {
            let general = self.function.values[*v].file == File::R && self.pins.place(*v).is_none();
            general && self.at[v.index()].is_none() && !self.undefined.contains(*v)
        };
        let live = self.live.live_in[header.index()].iter().filter(absent);
        let mut wanted: Vec<(u32, Value)> = live.map(|v| (far.at_start(header, v), v)).collect();
        wanted.retain(|(distance, _)| *distance < next_use::LOOP_EXIT);
        wanted.sort();
        let mut room = room;
        for (_, value) in wanted {
            let words = i32::from(self.function.values[value].words);
            if words <= room
                && let Some(place) = self.lasting_place(value)
            {
                self.arrive(value, place);
                room -= words;
            }
        }
    }

    /// Values that a loop doesn't use leave before it, if it needs their registers; the others stand in the order of
    /// their next uses then.
    fn leave_before_loop(&mut self, header: Block, before: &mut Snapshot) {
        let mut excess = self.excess_in_loop(header, before);
        if excess <= 0 {
            return;
        }
        let far = self.next_use.get_or_insert_with(|| NextUse::new(self.function, self.cfg));
        let words = |v: Value| i32::from(self.function.values[v].words);
        before.sort_by_key(|(v, _)| (far.at_start(header, *v), *v));
        let is_outside = |v: Value| far.at_start(header, v) >= next_use::LOOP_EXIT;
        let movable = |v: Value| self.function.values[v].file == File::R && self.pins.place(v).is_none();
        let mut leaving = Vec::new();
        for (value, _) in before.iter().rev().filter(|(v, _)| movable(*v) && is_outside(*v)) {
            if excess > 0 {
                excess -= words(*value);
                leaving.push(*value);
            }
        }
        before.retain(|(v, _)| !leaving.contains(v));
        leaving.into_iter().for_each(|v| self.lose(v));
    }

    /// How many words more than there is room for a loop would hold if all these values, and no others, stayed: at its
    /// fullest place, or beside what is pinned.
    fn excess_in_loop(&mut self, header: Block, before: &Snapshot) -> i32 {
        let usable = i32::from(self.limits.usable(self.ceilings.start(header)));
        let (function, cfg, live) = (self.function, self.cfg, self.live);
        let pressure = self.pressure.get_or_insert_with(|| hints::pressures(function, cfg, live));
        let most = cfg.natural_loop(header).map(|b| pressure[b.index()]).max().unwrap_or(0);
        let params = &function.blocks[header].params;
        let general = |v: &Value| function.values[*v].file == File::R && self.pins.place(*v).is_none();
        let count = |values: &mut dyn Iterator<Item = Value>| -> i32 {
            values.filter(general).map(|v| i32::from(function.values[v].words)).sum()
        };
        let through = &live.live_in[header.index()];
        let stays = count(&mut before.iter().map(|(v, _)| *v).filter(|v| through.contains(*v)));
        let absent = count(&mut through.iter().filter(|v| !self.undefined.contains(*v))) - stays;
        let words = stays + count(&mut params.iter().copied());
        let mut closed = calls::reserved(function);
        params.iter().filter(|p| general(p)).for_each(|p| closed.add(self.pins.closed(*p)));
        let open = usable - closed.iter().filter(|r| i32::from(*r) < usable).count() as i32;
        (most as i32 - absent - usable).max(words - open) + SLACK
    }

    pub(super) fn param(&mut self, param: Value, wish: Option<u8>) -> Result<(), Trouble> {
        if self.undefined.contains(param) || self.pins.place(param).is_some() {
            return Ok(());
        }
        let fits = wish.filter(|w| self.suits(param, *w));
        let mut place = fits.or_else(|| self.hinted(param)).or_else(|| self.lasting_place(param));
        // From a place that a pinned value needs it would have to move anyway.
        if place.is_none() && !self.pins.closes(param) {
            place = match self.room(param) {
                Err(Trouble::NoRoom(File::R)) => None,
                found => Some(found?),
            };
        }
        match place {
            Some(place) => self.arrive(param, place),
            None => {
                self.slot(param);
                self.in_memory.insert(param);
            }
        }
        Ok(())
    }

    /// The values that are in registers, in order of their numbers.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut all: Snapshot = Vec::new();
        for file in &self.files {
            let mut last = None;
            for place in 0..file.len() {
                let owner = file.owner(place);
                if owner != last
                    && let Some(value) = owner
                {
                    all.push((value, place as u8));
                }
                last = owner;
            }
        }
        all.sort();
        all
    }
}
