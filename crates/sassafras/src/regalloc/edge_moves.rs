//! Edges: from where the values are at the end of a block to where the next one expects them.
//!
//! After critical edges are split, what an edge needs stands at the end of its block. First words go to memory, then
//! registers move, all at once, then loads fill the rest.

use super::{Allocator, Snapshot, Trouble, move_line};
use crate::mach::inst::{MachInst, Origin};
use crate::regalloc::parallel_moves;
use ori::entity::Entity;
use ori::{Block, Edge, File, Value};

/// What has to happen on one edge.
#[derive(Default)]
struct Work {
    /// Moves of registers, by file: [`MOVING`].
    moves: [Vec<(u8, u8)>; MOVING.len()],
    /// A register to a slot of the frame: (slot, register, words).
    stores: Vec<(u32, u8, u8)>,
    /// The slot of a value to another: (to, from, value).
    across: Vec<(u32, u32, Value)>,
    /// A value from memory, or computed again, to a register.
    loads: Vec<(Value, u8)>,
    /// A value that is computed again, to a slot.
    constants: Vec<(u32, Value)>,
}

/// Files whose values can move on an edge.
const MOVING: [File; 3] = [File::R, File::P, File::UR];

impl Allocator<'_> {
    /// Puts the lines of all edges in. Some file may lack a register for it: then that file is returned.
    pub(super) fn edges(&mut self) -> Result<Option<File>, Trouble> {
        for block in self.cfg.order.clone() {
            let function = self.function;
            let edges = function.blocks[block].end.edges();
            for edge in &edges {
                let alone = self.cfg.preds[edge.to.index()].len() == 1;
                let work = self.work(block, edge)?;
                if work.is_empty() {
                    continue;
                }
                let mut lines = Vec::new();
                if let Some(file) = self.lines_of(block, edge, work, &mut lines)? {
                    return Ok(Some(file));
                }
                if edges.len() == 1 {
                    self.code.blocks[block.index()].extend(lines);
                } else if alone {
                    return Err("a block with one predecessor starts as that one ends".into());
                } else {
                    return Err("a critical edge".into());
                }
            }
        }
        Ok(None)
    }

    fn work(&mut self, block: Block, edge: &Edge) -> Result<Work, Trouble> {
        let mut work = Work::default();
        let (end, start) = (self.ends[block.index()].clone(), self.starts[edge.to.index()].clone());
        let params = &self.function.blocks[edge.to].params;
        for &(value, place) in start.iter().filter(|(v, _)| !params.contains(v)) {
            self.bring_along(&mut work, &end, value, value, place)?;
        }
        for (param, arg) in params.iter().zip(&edge.args) {
            if self.undefined.contains(*arg) {
                continue;
            }
            match find(&start, *param) {
                Some(place) => self.bring_along(&mut work, &end, *param, *arg, place)?,
                None if self.in_memory.contains(*param) => self.put_in_memory(&mut work, &end, *param, *arg),
                // Nobody reads the parameter.
                None => {}
            }
        }
        Ok(work)
    }

    fn bring_along(
        &mut self,
        work: &mut Work,
        end: &Snapshot,
        value: Value,
        source: Value,
        to: u8,
    ) -> Result<(), Trouble> {
        let data = self.function.values[value];
        match find(end, source) {
            Some(from) if from == to => {}
            // A constant in another uniform register is there again for nothing.
            Some(_) if data.file != File::R && self.again(source).is_some() => work.loads.push((source, to)),
            Some(from) => {
                let list = MOVING.iter().position(|f| *f == data.file);
                let list = list.ok_or_else(|| format!("{value} of file {:?} has two places", data.file))?;
                work.moves[list].extend((0..data.words).map(|w| (to + w, from + w)));
            }
            None => work.loads.push((source, to)),
        }
        Ok(())
    }

    fn put_in_memory(&mut self, work: &mut Work, end: &Snapshot, param: Value, arg: Value) {
        let words = self.function.values[param].words;
        let slot = self.slot(param);
        // Whoever has a slot is stored there as soon as it is defined.
        if self.slots[arg.index()] == Some(slot) {
            return;
        }
        match find(end, arg) {
            Some(from) => work.stores.push((slot, from, words)),
            None if self.again(arg).is_some() && words == 1 => work.constants.push((slot, arg)),
            None => {
                let from = self.slot(arg);
                if from != slot {
                    work.across.push((slot, from, arg));
                }
            }
        }
    }

    fn lines_of(
        &mut self,
        block: Block,
        edge: &Edge,
        work: Work,
        lines: &mut Vec<MachInst>,
    ) -> Result<Option<File>, Trouble> {
        for (slot, place, words) in &work.stores {
            lines.extend(self.frame_access(sass::Op::STL, *slot, *place, *words));
            self.code.spill_stores += 4 * u32::from(*words);
        }
        if !self.across(block, edge, &work, lines)? {
            return Ok(Some(File::R));
        }
        for (i, file) in MOVING.into_iter().enumerate() {
            let spare = self.spare_on(block, edge, file, &work);
            let Some(sequence) = parallel_moves::sequence(&work.moves[i], spare) else {
                return Ok(Some(file));
            };
            for (to, from) in sequence {
                self.code.touch(file, to);
                lines.push(move_line(file, to, from)?);
            }
        }
        for (value, place) in work.loads {
            lines.extend(self.load(value, place)?);
        }
        Ok(None)
    }

    /// Words that go from one place in memory to another, through a register. `false` if none is free.
    fn across(
        &mut self,
        block: Block,
        edge: &Edge,
        work: &Work,
        lines: &mut Vec<MachInst>,
    ) -> Result<bool, Trouble> {
        if work.across.is_empty() && work.constants.is_empty() {
            return Ok(true);
        }
        let Some(scratch) = self.spare_on(block, edge, File::R, work) else { return Ok(false) };
        self.code.touch(File::R, scratch);
        let mut wanted: Vec<(u32, u32)> = Vec::new();
        for (to, from, value) in &work.across {
            let words = u32::from(self.function.values[*value].words);
            wanted.extend((0..words).map(|w| (to + 4 * w, from + 4 * w)));
        }
        let spare = self.frame.next_multiple_of(4);
        self.frame = spare + 4;
        // With a spare slot there is always an order.
        for (to, from) in parallel_moves::sequence(&wanted, Some(spare)).unwrap_or_default() {
            let mut load = self.frame_access(sass::Op::LDL, from, scratch, 1);
            let own = work.across.iter().find(|(_, at, value)| {
                let words = u32::from(self.function.values[*value].words);
                (*at..at + 4 * words).contains(&from)
            });
            if let Some((_, at, value)) = own {
                load[0].origin = Origin::Bring(*value, ((from - at) / 4) as u8);
            }
            lines.extend(load);
            lines.extend(self.frame_access(sass::Op::STL, to, scratch, 1));
            self.code.spill_loads += 4;
            self.code.spill_stores += 4;
        }
        for (slot, value) in &work.constants {
            lines.extend(self.load(*value, scratch)?);
            lines.extend(self.frame_access(sass::Op::STL, *slot, scratch, 1));
            self.code.spill_stores += 4;
        }
        Ok(true)
    }

    /// A register that nothing on the edge uses, on either side.
    fn spare_on(&self, block: Block, edge: &Edge, file: File, work: &Work) -> Option<u8> {
        let mut used = [false; 256];
        for (value, place) in self.ends[block.index()].iter().chain(&self.starts[edge.to.index()]) {
            let data = self.function.values[*value];
            if data.file == file {
                used[usize::from(*place)..usize::from(*place) + usize::from(data.words)].fill(true);
            }
        }
        for (to, from) in MOVING.iter().zip(&work.moves).filter(|(f, _)| **f == file).flat_map(|(_, m)| m) {
            (used[usize::from(*to)], used[usize::from(*from)]) = (true, true);
        }
        let places = &self.files[self.file(file)];
        let there = match file {
            File::R => usize::from(self.limits.usable(self.ceilings.on_edge(block, edge.to))),
            _ => places.len(),
        };
        let free = (0..there.min(places.len())).find(|p| !used[*p] && !places.is_reserved(*p));
        free.map(|p| p as u8).or(self.kept(file))
    }
}

impl Work {
    fn is_empty(&self) -> bool {
        self.moves.iter().all(Vec::is_empty)
            && self.stores.is_empty()
            && self.across.is_empty()
            && self.constants.is_empty()
            && self.loads.is_empty()
    }
}

fn find(snapshot: &Snapshot, value: Value) -> Option<u8> {
    snapshot.binary_search_by_key(&value, |(v, _)| *v).ok().map(|i| snapshot[i].1)
}
