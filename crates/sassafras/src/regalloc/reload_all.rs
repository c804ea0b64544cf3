//! The last resort: an instruction whose operands don't fit as things lie gets all of them from memory.
//!
//! Every value that leaves its register is stored right behind its definition, so that it can be had from memory
//! anywhere. Here all values leave; then what the instruction reads is loaded to places that are chosen for it alone,
//! the widest first, so that alignment leaves no holes but those around reserved registers. What it writes gets places
//! in the same way: over what it has read, where the machine reads before it writes. Copies, packs and unpacks are
//! loads of words, and what a call hands over is loaded to where the convention wants it.
//!
//! This fails only if the operands of the one instruction don't fit into the registers that there are.

use super::facts::accumulator;
use super::instructions::Kind;
use super::{Allocator, Trouble, early_writer};
use crate::mach::inst::MachInst;
use ori::entity::Entity;
use ori::{Arg, File, Inst, InstData, Value};

impl Allocator<'_> {
    pub(super) fn take_from_memory(&mut self, inst: Inst, dying: &[Value]) -> Result<(), Trouble> {
        let data = &self.function.insts[inst];
        self.take_back(data);
        let other_files = |a: &Self, v: &Value| a.function.values[*v].file != File::R;
        let others: Vec<Value> = data.uses().filter(|v| other_files(self, v)).collect();
        self.locked = others.clone();
        others.into_iter().try_for_each(|v| self.bring(v))?;
        match Kind::of(data) {
            Kind::Nothing => Ok(()),
            Kind::Shuffle => self.shuffle_from_memory(data),
            Kind::Convention => self.convention(inst, dying, Self::load_in_place),
            Kind::Operation => self.operation_from_memory(inst),
        }
    }

    /// Undoes what was tried: no result has a place, arguments in other files are where they were, and nothing is left
    /// in the general registers.
    fn take_back(&mut self, data: &InstData) {
        data.results.iter().for_each(|r| self.leave(*r));
        for (value, place) in std::mem::take(&mut self.unread) {
            if self.function.values[value].file != File::R && self.at[value.index()].is_none() {
                self.arrive(value, place);
            }
        }
        for (value, _) in self.snapshot() {
            if self.function.values[value].file == File::R {
                self.evict(value);
            }
        }
    }

    fn operation_from_memory(&mut self, inst: Inst) -> Result<(), Trouble> {
        let data = &self.function.insts[inst];
        let reads_first = data.guard.is_none() && !early_writer(data);
        let over: Vec<Option<Value>> = self.beginnings(data);
        let read = self.read_beside(data, &over);
        if reads_first {
            self.fit(&read)?;
        } else {
            self.fit(&[&read[..], &data.results].concat())?;
        }
        for value in &read {
            let place = self.register(*value, 0);
            let lines = self.load(*value, place)?;
            self.lines.extend(lines);
        }
        let mut arguments = self.operand_places(data);
        if reads_first {
            read.iter().for_each(|v| self.leave(*v));
            self.fit(&data.results)?;
        }
        for (result, start) in data.results.iter().zip(over) {
            let Some(start) = start else { continue };
            let place = self.register(*result, 0);
            let shape = self.function.values[start];
            if shape.file == File::R {
                let lines = self.load(start, place)?;
                self.lines.extend(lines);
            } else {
                let from = self.register(start, 0);
                (0..shape.words).try_for_each(|w| self.copy(shape.file, place + w, from + w))?;
            }
            if self.added_to(data) == Some(start) {
                arguments.iter_mut().filter(|(v, _)| *v == start).for_each(|(_, p)| *p = place);
            }
        }
        self.emit(inst, data, &arguments)
    }

    /// What each result is before the instruction: what a guard keeps, or what is added to.
    fn beginnings(&self, data: &InstData) -> Vec<Option<Value>> {
        let tied = self.added_to(data);
        let of = |i: usize| data.guard.as_ref().map(|g| g.kept[i]).or(tied);
        (0..data.results.len()).map(|i| of(i).filter(|v| !self.undefined.contains(*v))).collect()
    }

    fn added_to(&self, data: &InstData) -> Option<Value> {
        self.function.tied(data).or(accumulator(self.function, data))
    }

    /// The general values that are read from places of their own.
    fn read_beside(&self, data: &InstData, over: &[Option<Value>]) -> Vec<Value> {
        let tied = self.added_to(data).filter(|t| over.contains(&Some(*t)));
        let mut read: Vec<Value> = data.args.iter().filter_map(Arg::value).collect();
        read.retain(|v| {
            self.function.values[*v].file == File::R && !self.undefined.contains(*v) && Some(*v) != tied
        });
        read.sort();
        read.dedup();
        read
    }

    /// Gives places to values, the widest first. Those of other files find theirs as usual.
    fn fit(&mut self, values: &[Value]) -> Result<(), Trouble> {
        let mut order: Vec<Value> = values.to_vec();
        order.sort_by_key(|v| (std::cmp::Reverse(self.function.values[*v].words), *v));
        order.retain(|v| !self.undefined.contains(*v));
        for value in order {
            let place = self.room(value)?;
            self.arrive(value, place);
            self.locked.push(value);
        }
        Ok(())
    }

    fn shuffle_from_memory(&mut self, data: &InstData) -> Result<(), Trouble> {
        self.fit(&data.results)?;
        let mut words = data.results.iter().flat_map(|r| {
            let at = self.at[r.index()];
            (0..self.function.values[*r].words).map(move |w| at.map(|a| a + w))
        });
        let mut wanted: Vec<(Value, u8, u8)> = Vec::new();
        for arg in &data.args {
            let Arg::Use(u) = arg else { continue };
            let (first, count) =
                u.part.map_or((0, self.function.values[u.value].words), |p| (p.first, p.count));
            for word in first..first + count {
                if let Some(to) = words.next().flatten().filter(|_| !self.undefined.contains(u.value)) {
                    wanted.push((u.value, word, to));
                }
            }
        }
        for (value, word, to) in wanted {
            let lines: Vec<MachInst> = self.reload(value, word, 1, to);
            self.lines.extend(lines);
        }
        Ok(())
    }

    /// Everything that the convention wants in a register is loaded to it.
    fn load_in_place(&mut self, inst: Inst) -> Result<(), Trouble> {
        let data = &self.function.insts[inst];
        let fixed = self.function.fixed.get(&inst).ok_or("no registers for a call")?;
        for (arg, place) in data.args.iter().zip(&fixed.args) {
            let Some(value) = arg.value().filter(|v| !self.undefined.contains(*v)) else { continue };
            (0..self.function.values[value].words).for_each(|w| self.code.touch(File::R, place + w));
            let lines = self.load(value, *place)?;
            self.lines.extend(lines);
        }
        Ok(())
    }
}
