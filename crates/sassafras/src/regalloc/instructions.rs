//! Allocation of one instruction: operands are reloaded, killed operands free their registers, results get theirs, and
//! the machine instruction is emitted.
//!
//! The machine reads before it writes, so a result may take the register of an operand that it kills. Not so for
//! guarded instructions, where a move comes first, and for early clobbers. A guarded or tied result starts in the
//! register of its else value or tied operand.
//!
//! ```text
//! v3 = @p IADD3 v1, v2, RZ (else v0)    ==>    MOV R4, R0          unless v0 is killed here
//!                                              @P0 IADD3 R4, R1, R2, RZ
//! ```
//!
//! Afterwards the emitted instruction reads and writes the registers of its values at this point. Linear in the
//! operands, but for evictions.

use super::facts::accumulator;
use super::{Allocator, AttemptError, address, hints, is_early_clobber, reg_in, reg_limits};
use crate::codegen::legalize;
use crate::mach::inst::{MachInst, Origin};
use ori::entity::Entity;
use ori::{Arg, File, Inst, InstData, Op, Pseudo, Value};
use smallvec::SmallVec;

/// How an instruction is allocated.
pub(super) enum Kind {
    Nothing,
    /// It only copies words.
    ParallelCopy,
    /// The calling convention fixes its registers.
    Convention,
    /// A machine operation, or a guarded copy.
    Operation,
}

impl Kind {
    pub(super) fn of(data: &InstData) -> Kind {
        use Pseudo::*;
        match data.op {
            Op::Pseudo(Undef | MemoryFence) => Kind::Nothing,
            Op::Pseudo(Copy | Pack | Unpack | Landed) if data.guard.is_none() => Kind::ParallelCopy,
            Op::Pseudo(Call | CallRoutine | Entry | Leave) => Kind::Convention,
            _ => Kind::Operation,
        }
    }
}

impl Allocator<'_> {
    pub(super) fn inst(
        &mut self,
        inst: Inst,
        killed: &[Value],
        unused: &[Value],
    ) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        self.apply_register_limit(data)?;
        self.tick += 1;
        match self.try_inst(inst, killed) {
            Err(AttemptError::OutOfRegisters(File::R)) if self.precolored.is_empty() => {
                match self.reload_all(inst, killed) {
                    Err(AttemptError::OutOfRegisters(File::R)) => {
                        return Err(AttemptError::OperandsTooWide(inst));
                    }
                    done => done?,
                }
            }
            done => done?,
        }
        self.pending_reads.clear();
        let index = self.emitted.len() as u32;
        for result in &data.results {
            self.def_point[result.index()] = self.assigned[result.index()].map(|p| (self.block, index, p));
        }
        for value in killed.iter().chain(unused.iter().filter(|v| data.results.contains(v))) {
            self.unassign(*value);
        }
        self.release_dead_words();
        self.vacate_reserved(inst)
    }

    /// Allocates with the current assignment, evicting only what is needed.
    fn try_inst(&mut self, inst: Inst, killed: &[Value]) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        self.pending_reads.clear();
        self.locked.clear();
        self.locked.extend(data.uses());
        for i in 0..self.locked.len() {
            self.ensure_in_reg(self.locked[i])?;
        }
        let registers = self.locked.iter().filter_map(|v| Some((*v, self.assigned[v.index()]?)));
        self.pending_reads.extend(registers);
        match Kind::of(data) {
            Kind::Nothing => Ok(()),
            Kind::ParallelCopy => self.parallel_copy(inst, killed),
            Kind::Convention => self.call_like(inst, killed, Self::move_args_to_abi_regs),
            Kind::Operation => self.operation(inst, killed),
        }
    }

    /// The register limit falls: values above it are moved below, or evicted.
    pub(super) fn apply_register_limit(&mut self, data: &InstData) -> Result<(), AttemptError> {
        let file = self.file(File::R);
        let before = self.files[file].limit();
        let limit = self.limits.usable(reg_limits::after(data, u32::from(u8::MAX)));
        if usize::from(limit) >= before {
            return Ok(());
        }
        self.locked.clear();
        self.files[file].set_limit(limit);
        let window = usize::from(limit)..before;
        for reg in window.clone() {
            if let Some(owner) = self.files[file].owner(reg) {
                self.displace(file, owner, window.clone())?;
            }
        }
        Ok(())
    }

    pub(super) fn operation(&mut self, inst: Inst, killed: &[Value]) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        let guarded = data.guard.is_some();
        // The machine reads before it writes: a result may take the register of a killed operand. Not so where a move
        // comes first.
        let mut arguments = self.operand_regs(data);
        if !guarded && !is_early_clobber(data) {
            killed.iter().for_each(|v| self.unassign(*v));
            self.release_dead_words();
        }
        let tied = self.function.tied(data);
        let free = |a: &Value| killed.contains(a) && self.precolored.is_empty();
        let initial = tied.or(accumulator(self.function, data).filter(free));
        for (i, result) in data.results.iter().enumerate() {
            match data.guard.as_ref().map(|g| g.else_values[i]).or(initial) {
                Some(initial) if !self.undefined.contains(initial) => {
                    self.define_tied(*result, initial, killed)?
                }
                _ => self.define(*result)?,
            }
            self.locked.push(*result);
        }
        if guarded || is_early_clobber(data) {
            self.update_moved_args(&mut arguments, killed)?;
        }
        if let (Some(tied), Some(result)) = (tied, data.results.first()) {
            let reg = self.register(*result, 0);
            arguments.iter_mut().filter(|(v, _)| *v == tied).for_each(|(_, p)| *p = reg);
        }
        self.emit(inst, data, &arguments)
    }

    /// A precolored result may have displaced arguments whose registers are written before they are read.
    pub(super) fn update_moved_args(
        &self,
        arguments: &mut [(Value, u8)],
        killed: &[Value],
    ) -> Result<(), AttemptError> {
        for (value, reg) in arguments {
            match self.assigned[value.index()] {
                Some(now) => *reg = now,
                // The result has taken its register.
                None if killed.contains(value) || self.undefined.contains(*value) => {}
                None => return Err("a precolored value evicted an argument".into()),
            }
        }
        Ok(())
    }

    /// A result that starts in the register of its else value or tied operand.
    pub(super) fn define_tied(
        &mut self,
        result: Value,
        initial: Value,
        killed: &[Value],
    ) -> Result<(), AttemptError> {
        let data = self.function.values[result];
        let reg = self.register(initial, 0);
        if killed.contains(&initial) && self.precolored.reg(result).is_none_or(|fixed| fixed == reg) {
            let file = self.file(data.file);
            self.assigned[initial.index()] = None;
            self.files[file].take(reg, data.words, result);
            self.assigned[result.index()] = Some(reg);
            return Ok(());
        }
        self.define(result)?;
        let to = self.register(result, 0);
        (0..data.words).try_for_each(|w| self.copy(data.file, to + w, reg + w))
    }

    /// The registers of the operands, before the results get theirs.
    pub(super) fn operand_regs(&self, data: &InstData) -> Vec<(Value, u8)> {
        data.uses().map(|v| (v, self.register(v, 0))).collect()
    }

    pub(super) fn emit(
        &mut self,
        inst: Inst,
        data: &InstData,
        arguments: &[(Value, u8)],
    ) -> Result<(), AttemptError> {
        let guard = data.guard.as_ref().map_or(sass::Guard::ALWAYS, |g| sass::Guard {
            predicate: reg_in(arguments, g.predicate).unwrap_or(0),
            not: g.negated,
        });
        let first = self.emitted.len();
        match data.op {
            Op::Machine(op) => {
                let mut mach_inst = MachInst::new(op, &data.modifiers, &[], Origin::Inst(inst));
                mach_inst.operands = self.operands(data, arguments);
                mach_inst.target =
                    data.args.iter().find_map(|a| if let Arg::Target(b) = a { Some(*b) } else { None });
                mach_inst.address = address(data);
                self.emitted.push(mach_inst);
                if hints::is_memory_access(op) {
                    self.note_late_reads(arguments);
                }
            }
            Op::Generic(op) => return Err(format!("{} was not expanded", op.name()).into()),
            Op::Pseudo(_) => self.guarded_copy(inst, arguments)?,
        }
        for mach_inst in &mut self.emitted[first..] {
            (mach_inst.guard, mach_inst.at) = (guard, data.at);
        }
        Ok(())
    }

    fn note_late_reads(&mut self, arguments: &[(Value, u8)]) {
        for (value, reg) in arguments {
            let data = self.function.values[*value];
            let registers = usize::from(*reg)..usize::from(*reg) + usize::from(data.words);
            if data.file == File::R
                && let Some(reads) = self.late_reads.get_mut(registers)
            {
                reads.fill(self.tick);
            }
        }
    }

    pub(super) fn operands(
        &self,
        data: &InstData,
        arguments: &[(Value, u8)],
    ) -> SmallVec<[sass::Operand; 8]> {
        let mut register = |value: Value, word: u8| {
            let at = self.assigned[value.index()].filter(|_| data.results.contains(&value));
            at.or_else(|| reg_in(arguments, value)).unwrap_or(0).wrapping_add(word)
        };
        legalize::operands(self.function, data, &mut register).collect()
    }
}
