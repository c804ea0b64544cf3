//! The fallback for an instruction whose operands find no registers: evict everything, then reload the operands.
//!
//! A spilled value is stored right after its definition, so that it can be reloaded anywhere. All values of R are
//! evicted; the operands are reloaded into registers that are chosen for this instruction alone, the widest first, so
//! that alignment leaves no holes but those around reserved registers. Results are assigned in the same way: over the
//! operands, where the machine reads before it writes. Copies, packs and unpacks become reloads of words, and arguments
//! of a call are reloaded into their registers.
//!
//! Fails only if the operands of the one instruction exceed the register file. Linear in the live values.

use super::facts::accumulator;
use super::instructions::Kind;
use super::{Allocator, AttemptError, is_early_clobber};
use crate::mach::inst::MachInst;
use ori::entity::Entity;
use ori::{Arg, File, Inst, InstData, Value};

impl Allocator<'_> {
    pub(super) fn reload_all(&mut self, inst: Inst, killed: &[Value]) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        self.undo_and_evict_all(data);
        let other_files = |a: &Self, v: &Value| a.function.values[*v].file != File::R;
        let others: Vec<Value> = data.uses().filter(|v| other_files(self, v)).collect();
        self.locked = others.clone();
        others.into_iter().try_for_each(|v| self.ensure_in_reg(v))?;
        match Kind::of(data) {
            Kind::Nothing => Ok(()),
            Kind::ParallelCopy => self.reload_parallel_copy(data),
            Kind::Convention => self.call_like(inst, killed, Self::load_args_to_abi_regs),
            Kind::Operation => self.reload_operation(inst),
        }
    }

    /// Undoes the failed attempt: no result is assigned, operands in other files have their old registers, and all
    /// values of R are evicted.
    fn undo_and_evict_all(&mut self, data: &InstData) {
        data.results.iter().for_each(|r| self.unassign(*r));
        for (value, reg) in std::mem::take(&mut self.pending_reads) {
            if self.function.values[value].file != File::R && self.assigned[value.index()].is_none() {
                self.assign(value, reg);
            }
        }
        for (value, _) in self.snapshot() {
            if self.function.values[value].file == File::R {
                self.evict(value);
            }
        }
    }

    fn reload_operation(&mut self, inst: Inst) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        let reads_first = data.guard.is_none() && !is_early_clobber(data);
        let initial: Vec<Option<Value>> = self.initial_values(data);
        let read = self.separate_reads(data, &initial);
        if reads_first {
            self.assign_widest_first(&read)?;
        } else {
            self.assign_widest_first(&[&read[..], &data.results].concat())?;
        }
        for value in &read {
            let reg = self.register(*value, 0);
            let mach_insts = self.reload(*value, reg)?;
            self.emitted.extend(mach_insts);
        }
        let mut arguments = self.operand_regs(data);
        if reads_first {
            read.iter().for_each(|v| self.unassign(*v));
            self.assign_widest_first(&data.results)?;
        }
        for (result, start) in data.results.iter().zip(initial) {
            let Some(start) = start else { continue };
            let reg = self.register(*result, 0);
            let shape = self.function.values[start];
            if shape.file == File::R {
                let mach_insts = self.reload(start, reg)?;
                self.emitted.extend(mach_insts);
            } else {
                let from = self.register(start, 0);
                (0..shape.words).try_for_each(|w| self.copy(shape.file, reg + w, from + w))?;
            }
            if self.tied_operand(data) == Some(start) {
                arguments.iter_mut().filter(|(v, _)| *v == start).for_each(|(_, p)| *p = reg);
            }
        }
        self.emit(inst, data, &arguments)
    }

    /// What the register of each result holds before the instruction: the else value of a guard, or a tied operand.
    fn initial_values(&self, data: &InstData) -> Vec<Option<Value>> {
        let tied = self.tied_operand(data);
        let of = |i: usize| data.guard.as_ref().map(|g| g.else_values[i]).or(tied);
        (0..data.results.len()).map(|i| of(i).filter(|v| !self.undefined.contains(*v))).collect()
    }

    fn tied_operand(&self, data: &InstData) -> Option<Value> {
        self.function.tied(data).or(accumulator(self.function, data))
    }

    /// The operands in R that need registers of their own.
    fn separate_reads(&self, data: &InstData, initial: &[Option<Value>]) -> Vec<Value> {
        let tied = self.tied_operand(data).filter(|t| initial.contains(&Some(*t)));
        let mut read: Vec<Value> = data.args.iter().filter_map(Arg::value).collect();
        read.retain(|v| {
            self.function.values[*v].file == File::R && !self.undefined.contains(*v) && Some(*v) != tied
        });
        read.sort();
        read.dedup();
        read
    }

    /// Assigns registers, the widest first.
    fn assign_widest_first(&mut self, values: &[Value]) -> Result<(), AttemptError> {
        let mut order: Vec<Value> = values.to_vec();
        order.sort_by_key(|v| (std::cmp::Reverse(self.function.values[*v].words), *v));
        order.retain(|v| !self.undefined.contains(*v));
        for value in order {
            let reg = self.alloc_reg(value)?;
            self.assign(value, reg);
            self.locked.push(value);
        }
        Ok(())
    }

    fn reload_parallel_copy(&mut self, data: &InstData) -> Result<(), AttemptError> {
        self.assign_widest_first(&data.results)?;
        let mut words = data.results.iter().flat_map(|r| {
            let at = self.assigned[r.index()];
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
            let mach_insts: Vec<MachInst> = self.reload_words(value, word, 1, to);
            self.emitted.extend(mach_insts);
        }
        Ok(())
    }

    /// Reloads the arguments of a call into the convention's registers.
    fn load_args_to_abi_regs(&mut self, inst: Inst) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        let fixed = self.function.fixed.get(&inst).ok_or("no registers for a call")?;
        for (arg, reg) in data.args.iter().zip(&fixed.args) {
            let Some(value) = arg.value().filter(|v| !self.undefined.contains(*v)) else { continue };
            (0..self.function.values[value].words).for_each(|w| self.code.touch(File::R, reg + w));
            let mach_insts = self.reload(value, *reg)?;
            self.emitted.extend(mach_insts);
        }
        Ok(())
    }
}
