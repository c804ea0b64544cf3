//! What becomes of an instruction: its arguments come into registers, its results get places, and a line is written.

use super::facts::accumulator;
use super::{Allocator, Trouble, address, early_writer, place_in, reg_limits};
use crate::codegen::legalize;
use crate::mach::inst::{MachInst, Origin};
use ori::entity::Entity;
use ori::{Arg, File, Inst, InstData, Op, Pseudo, Value};
use smallvec::SmallVec;

/// How an instruction is treated.
pub(super) enum Kind {
    Nothing,
    /// It only passes words on.
    Shuffle,
    /// The calling convention says where everything is.
    Convention,
    /// A machine operation, or a guarded copy.
    Operation,
}

impl Kind {
    pub(super) fn of(data: &InstData) -> Kind {
        use Pseudo::*;
        match data.op {
            Op::Pseudo(Undef) => Kind::Nothing,
            Op::Pseudo(Copy | Pack | Unpack | Landed) if data.guard.is_none() => Kind::Shuffle,
            Op::Pseudo(Call | Entry | Leave) => Kind::Convention,
            _ => Kind::Operation,
        }
    }
}

impl Allocator<'_> {
    pub(super) fn inst(&mut self, inst: Inst, dying: &[Value], unused: &[Value]) -> Result<(), Trouble> {
        let data = &self.function.insts[inst];
        self.lower_ceiling(data)?;
        match self.as_things_lie(inst, dying) {
            Err(Trouble::NoRoom(File::R)) if self.pins.is_empty() => match self.take_from_memory(inst, dying)
            {
                Err(Trouble::NoRoom(File::R)) => return Err(Trouble::TooWide(inst)),
                done => done?,
            },
            done => done?,
        }
        self.unread.clear();
        let line = self.lines.len() as u32;
        for result in &data.results {
            self.born[result.index()] = self.at[result.index()].map(|p| (self.block, line, p));
        }
        for value in dying.iter().chain(unused.iter().filter(|v| data.results.contains(v))) {
            self.leave(*value);
        }
        self.leave_reserved(inst)
    }

    /// What is in registers stays there, as far as it can.
    fn as_things_lie(&mut self, inst: Inst, dying: &[Value]) -> Result<(), Trouble> {
        let data = &self.function.insts[inst];
        self.unread.clear();
        self.locked = data.uses().collect();
        for i in 0..self.locked.len() {
            self.bring(self.locked[i])?;
        }
        self.unread = self.locked.iter().filter_map(|v| Some((*v, self.at[v.index()]?))).collect();
        match Kind::of(data) {
            Kind::Nothing => Ok(()),
            Kind::Shuffle => self.shuffle(inst, dying),
            Kind::Convention => self.convention(inst, dying, Self::put_in_place),
            Kind::Operation => self.operation(inst, dying),
        }
    }

    /// Registers go: whoever is in them moves below the ceiling, or leaves.
    pub(super) fn lower_ceiling(&mut self, data: &InstData) -> Result<(), Trouble> {
        let file = self.file(File::R);
        let before = self.files[file].ceiling();
        let there = self.limits.usable(reg_limits::after(data, u32::from(u8::MAX)));
        if usize::from(there) >= before {
            return Ok(());
        }
        self.locked.clear();
        self.files[file].set_ceiling(there);
        let window = usize::from(there)..before;
        for place in window.clone() {
            if let Some(owner) = self.files[file].owner(place) {
                self.displace(file, owner, window.clone())?;
            }
        }
        Ok(())
    }

    pub(super) fn operation(&mut self, inst: Inst, dying: &[Value]) -> Result<(), Trouble> {
        let data = &self.function.insts[inst];
        let guarded = data.guard.is_some();
        // The machine reads before it writes: a result may have the place of an argument that ends here. Not so where
        // something is moved first.
        let mut arguments = self.operand_places(data);
        if !guarded && !early_writer(data) {
            dying.iter().for_each(|v| self.leave(*v));
        }
        let tied = self.function.tied(data);
        let free = |a: &Value| dying.contains(a) && self.pins.is_empty();
        let over = tied.or(accumulator(self.function, data).filter(free));
        for (i, result) in data.results.iter().enumerate() {
            match data.guard.as_ref().map(|g| g.kept[i]).or(over) {
                Some(kept) if !self.undefined.contains(kept) => self.define_over(*result, kept, dying)?,
                _ => self.define(*result)?,
            }
            self.locked.push(*result);
        }
        if guarded || early_writer(data) {
            self.moved_arguments(&mut arguments, dying)?;
        }
        if let (Some(tied), Some(result)) = (tied, data.results.first()) {
            let place = self.register(*result, 0);
            arguments.iter_mut().filter(|(v, _)| *v == tied).for_each(|(_, p)| *p = place);
        }
        self.emit(inst, data, &arguments)
    }

    /// A pinned result may have driven arguments from their places, which are written before they are read.
    pub(super) fn moved_arguments(
        &self,
        arguments: &mut [(Value, u8)],
        dying: &[Value],
    ) -> Result<(), Trouble> {
        for (value, place) in arguments {
            match self.at[value.index()] {
                Some(now) => *place = now,
                // Its place has become that of the result.
                None if dying.contains(value) || self.undefined.contains(*value) => {}
                None => return Err("a pinned value drove an argument out of the registers".into()),
            }
        }
        Ok(())
    }

    /// A result that is written only where a guard holds: it starts as the kept value.
    pub(super) fn define_over(&mut self, result: Value, kept: Value, dying: &[Value]) -> Result<(), Trouble> {
        let data = self.function.values[result];
        let place = self.register(kept, 0);
        if dying.contains(&kept) && self.pins.place(result).is_none_or(|pinned| pinned == place) {
            let file = self.file(data.file);
            self.at[kept.index()] = None;
            self.files[file].take(place, data.words, result);
            self.at[result.index()] = Some(place);
            return Ok(());
        }
        self.define(result)?;
        let to = self.register(result, 0);
        (0..data.words).try_for_each(|w| self.copy(data.file, to + w, place + w))
    }

    /// The places of the values that an instruction reads, before its results get theirs.
    pub(super) fn operand_places(&self, data: &InstData) -> Vec<(Value, u8)> {
        data.uses().map(|v| (v, self.register(v, 0))).collect()
    }

    pub(super) fn emit(
        &mut self,
        inst: Inst,
        data: &InstData,
        arguments: &[(Value, u8)],
    ) -> Result<(), Trouble> {
        let guard = data.guard.as_ref().map_or(sass::Guard::ALWAYS, |g| sass::Guard {
            predicate: place_in(arguments, g.predicate).unwrap_or(0),
            not: g.negated,
        });
        let first = self.lines.len();
        match data.op {
            Op::Machine(op) => {
                let mut line = MachInst::new(op, &data.modifiers, &[], Origin::Inst(inst));
                line.operands = self.operands(data, arguments);
                line.target =
                    data.args.iter().find_map(|a| if let Arg::Target(b) = a { Some(*b) } else { None });
                line.address = address(data);
                self.lines.push(line);
            }
            // A guarded copy: words that don't overlap, since result and arguments are all alive here.
            Op::Pseudo(_) => {
                let file = self.function.values[data.results[0]].file;
                for (word, (to, from)) in self.word_moves(data, arguments).into_iter().enumerate() {
                    self.copy(file, to, from)?;
                    let last = self.lines.len() - 1;
                    self.lines[last].origin = Origin::Word(inst, word as u8);
                }
            }
        }
        for line in &mut self.lines[first..] {
            (line.guard, line.at) = (guard, data.at);
        }
        Ok(())
    }

    pub(super) fn operands(
        &self,
        data: &InstData,
        arguments: &[(Value, u8)],
    ) -> SmallVec<[sass::Operand; 8]> {
        let mut place = |value: Value, word: u8| {
            let at = self.at[value.index()].filter(|_| data.results.contains(&value));
            at.or_else(|| place_in(arguments, value)).unwrap_or(0).wrapping_add(word)
        };
        legalize::operands(self.function, data, &mut place).collect()
    }
}
