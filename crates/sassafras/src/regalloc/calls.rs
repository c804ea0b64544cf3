//! Calls, function entry and return: the calling convention.
//!
//! Values that are live across a call move to registers that it preserves or are spilled; arguments move to their
//! registers as one parallel copy; results start in theirs.
//!
//! ```text
//! v3 = Call f, v1        ==>    MOV R16, R9                               v2 is live across
//! use v2                        MOV R4, R8                                v1 is the argument
//!                               MOV R20, …; MOV R21, …; CALL.ABS.NOINC f  return address
//! ```
//!
//! Afterwards no value is in a register that the call clobbers. Linear in the live values, times the registers.

use super::reg_file::{Limits, PREDICATES};
use super::{Allocator, AttemptError, BlockLimits, Snapshot, fixed_registers, move_inst};
use crate::mach::inst::{Address, MachInst, Origin};
use crate::module::abi::Convention;
use crate::regalloc::parallel_moves;
use crate::regalloc::reg_set::RegSet;
use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{Arg, Block, Cfg, File, Function, Half, Inst, Op, Pseudo, Value};
use rustc_hash::FxHashSet;
use sass::{M, operands as machine};

/// Where the windows of routines begin at the earliest: R1 is the stack pointer.
const FIRST_OF_ROUTINES: u8 = 2;
/// Registers beside those of live values before a window: the stack pointer, and holes between aligned tuples.
const ROUTINE_SLACK: u32 = 4;

/// Registers of R that no value may have: the stack pointer (tools that patch kernels may count on it), the frame pointer, the return address in
/// a device function, and the fixed registers of instructions, here or in other functions.
pub fn reserved(function: &Function) -> RegSet {
    let mut all = RegSet::of(Function::STACK_POINTER, 1);
    let named = fixed_registers(function).chain(frame_pointer(function));
    let named = named.chain(function.withheld.iter().copied()).filter(|(file, _)| *file == File::R);
    named.for_each(|(_, number)| all.add(RegSet::of(number, 1)));
    if let Some(own) = Convention::own(function) {
        all.add(RegSet::of(own.return_address(), 2));
    }
    all
}

/// The scratch register for cycles of moves: the last one below the register limit of every block.
pub fn scratch(function: &Function, cfg: &Cfg, limits: &Limits) -> Option<u8> {
    let block_limits = BlockLimits::new(function, cfg, limits);
    let limit = cfg.order.iter().map(|b| block_limits.min(*b)).min()?;
    let reserved = reserved(function);
    (0..limits.usable(limit)).rev().find(|r| !reserved.meets(RegSet::of(*r, 1)))
}

fn frame_pointer(function: &Function) -> Option<(File, u8)> {
    function.moving_stack.then_some((File::R, Function::FRAME_POINTER))
}

/// How many convergence barriers the calls of a function clobber, from B0 on.
fn clobbered_barriers(function: &Function) -> u8 {
    let insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    let calls = insts.filter(|i| is_call(function, **i));
    let conventions = calls.map(|i| function.fixed.get(i).map(Convention::of).unwrap_or_default());
    conventions.map(Convention::first_saved_barrier).max().unwrap_or(0)
}

/// Gives library routines their window of registers: as high as a limit allows where there is one, else right after the
/// registers of the values that live across a call, so that few of these have to move.
pub fn place_routines(
    function: &mut Function,
    (cfg, live): (&Cfg, &Liveness),
    limits: &Limits,
    has_goal: bool,
) {
    if function.routines.is_empty() {
        return;
    }
    let calls = routine_calls(function, cfg);
    let live_calls: FxHashSet<Inst> = calls.iter().map(|(_, call)| *call).collect();
    let insts = &function.insts;
    function
        .fixed
        .retain(|inst, _| insts[*inst].op != Op::Pseudo(Pseudo::CallRoutine) || live_calls.contains(inst));
    let windows = calls.iter().filter_map(|(_, call)| function.fixed.get(call)?.window);
    let widest = windows.map(|(_, count)| count).max().unwrap_or(0);
    let across = calls.iter().map(|(block, _)| words_across(function, live, *block)).max().unwrap_or(0);
    let block_limits = BlockLimits::new(function, cfg, limits);
    let limit = calls.iter().map(|(block, _)| limits.usable(block_limits.min(*block))).min().unwrap_or(0);
    let highest = u32::from(limit.saturating_sub(widest)) / 2 * 2;
    let after_values = (across + ROUTINE_SLACK).next_multiple_of(2).min(highest);
    // Where a function is called that clobbers as many registers, a window among these takes no others. Values that live
    // across routines must fit before it, or they would make way at each call.
    let shared = of_functions(function).filter_map(|of| of.first_untouched()?.checked_sub(widest)).max();
    let shared = shared.map(|first| u32::from(first) / 2 * 2);
    let shared = shared.filter(|first| (after_values..=highest).contains(first));
    let usual = if has_goal { highest } else { after_values };
    let first = (shared.unwrap_or(usual) as u8).max(FIRST_OF_ROUTINES);
    for (_, call) in calls {
        let Some(fixed) = function.fixed.get_mut(&call) else { continue };
        let Some((from, _)) = fixed.window else { continue };
        let registers = fixed.results.iter_mut().chain(fixed.args.iter_mut().skip(1));
        registers.for_each(|register| *register = *register - from + first);
        fixed.window = fixed.window.map(|(_, count)| (first, count));
    }
}

/// The conventions of the calls of functions.
fn of_functions(function: &Function) -> impl Iterator<Item = Convention> + '_ {
    let calls =
        function.fixed.iter().filter(|(inst, _)| function.insts[**inst].op == Op::Pseudo(Pseudo::Call));
    calls.map(|(_, fixed)| Convention::of(fixed))
}

/// The calls of library routines, with their blocks.
pub(super) fn routine_calls(function: &Function, cfg: &Cfg) -> Vec<(Block, Inst)> {
    let insts = cfg.order.iter().flat_map(|b| function.blocks[*b].insts.iter().map(|i| (*b, *i)));
    insts.filter(|(_, i)| function.insts[*i].op == Op::Pseudo(Pseudo::CallRoutine)).collect()
}

/// The general registers and predicates that a call clobbers. The address of the callee may take two registers that it
/// preserves.
pub(super) fn clobbered(function: &Function, call: Inst) -> (RegSet, RegSet) {
    let of = function.fixed.get(&call).map(Convention::of).unwrap_or_default();
    let mut all = RegSet::default();
    (0..u8::MAX).filter(|r| !of.is_saved(*r)).for_each(|r| all.add(RegSet::of(r, 1)));
    if matches!(function.insts[call].args.first(), Some(Arg::Use(_))) {
        all.add(RegSet::of(of.callee(function), 2));
    }
    let mut predicates = RegSet::default();
    (0..PREDICATES).filter(|p| !of.saves_predicate(*p)).for_each(|p| predicates.add(RegSet::of(p, 1)));
    (all, predicates)
}

pub(super) fn is_call(function: &Function, inst: Inst) -> bool {
    matches!(function.insts[inst].op, Op::Pseudo(Pseudo::Call | Pseudo::CallRoutine))
}

/// The words that are live after a block with a call.
fn words_across(function: &Function, live: &Liveness, block: Block) -> u32 {
    let values = live.live_out[block.index()].iter().map(|v| function.values[v]);
    values.filter(|data| data.file == File::R).map(|data| u32::from(data.words)).sum()
}

impl Allocator<'_> {
    /// Reserves the [`reserved`] registers, scratch registers, and barriers that a call clobbers.
    pub(super) fn reserve(&mut self) {
        let named: Vec<(File, u8)> =
            fixed_registers(self.function).chain(frame_pointer(self.function)).collect();
        // A fixed barrier is live from one instruction to the next only: no function saves it.
        let written = named.iter().filter(|(file, _)| *file != File::B);
        written.for_each(|(file, number)| self.code.touch(*file, *number));
        let general = reserved(self.function).iter().chain(self.limits.scratch).map(|r| (File::R, r));
        let predicate = self.limits.scratch_predicate.then_some((File::P, PREDICATES - 1));
        let barriers = (0..clobbered_barriers(self.function)).map(|n| (File::B, n));
        let constants = self.function.uniform_constants.iter().map(|(_, register)| (File::UR, *register));
        let elsewhere = self.function.withheld.iter().copied().chain(constants);
        for (file, number) in
            named.into_iter().chain(elsewhere).chain(general).chain(predicate).chain(barriers)
        {
            let file = self.file(file);
            self.files[file].reserve(number);
        }
    }

    /// A call, function entry or return. `pass_args` puts the arguments into the registers of the convention.
    pub(super) fn call_like(
        &mut self,
        inst: Inst,
        killed: &[Value],
        pass_args: fn(&mut Self, Inst) -> Result<(), AttemptError>,
    ) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        let fixed = self.function.fixed.get(&inst).ok_or("no registers for a call")?;
        match data.op {
            Op::Pseudo(Pseudo::Entry) => {}
            Op::Pseudo(Pseudo::Leave) => pass_args(self, inst)?,
            _ => {
                let spilled = self.preserve_across_call(inst, Convention::of(fixed), killed)?;
                pass_args(self, inst)?;
                self.moved_for_call.clear();
                self.emit_call(inst)?;
                killed.iter().chain(&spilled).for_each(|v| self.unassign(*v));
            }
        }
        data.results.iter().zip(&fixed.results).for_each(|(value, reg)| self.assign(*value, *reg));
        Ok(())
    }

    /// Moves values that are live across the call to preserved registers, spilling those that find none. Returns these:
    /// they keep their registers until the arguments have been moved. What can be rematerialized comes last, and gives
    /// its register to others.
    fn preserve_across_call(
        &mut self,
        inst: Inst,
        of: Convention,
        killed: &[Value],
    ) -> Result<Vec<Value>, AttemptError> {
        let mut spilled = Vec::new();
        let (clobbered, _) = clobbered(self.function, inst);
        let (last, first): (Snapshot, Snapshot) =
            self.snapshot().into_iter().partition(|(value, _)| self.remat_def(*value).is_some());
        let mut yielding = last.clone();
        yielding.retain(|(value, _)| !self.function.insts[inst].uses().any(|used| used == *value));
        for (value, from) in first.into_iter().chain(last) {
            if self.assigned[value.index()].is_none() {
                continue;
            }
            let data = self.function.values[value];
            let is_preserved = match data.file {
                File::R => !clobbered.meets(RegSet::of(from, data.words.into())),
                File::B => from >= of.first_saved_barrier(),
                File::P => of.saves_predicate(from),
                File::UR | File::UP => of.is_routine(),
            };
            if is_preserved || killed.contains(&value) {
                continue;
            }
            let mut to = self.preserved_window((of, clobbered), data.file, data.words);
            if to.is_none() && self.remat_def(value).is_none() {
                to = self.displace_rematerializable((of, clobbered), (data.file, data.words), &mut yielding);
            }
            match to {
                Some(to) => {
                    for w in self.live_words(value) {
                        self.copy(data.file, to + w, from + w)?;
                    }
                    self.unassign(value);
                    self.assign(value, to);
                    self.moved_for_call.push((value, from));
                }
                None => {
                    self.spill(value);
                    spilled.push(value);
                }
            }
        }
        Ok(spilled)
    }

    /// Takes registers from values that are rematerialized after the call, until there is a preserved window.
    fn displace_rematerializable(
        &mut self,
        (of, clobbered): (Convention, RegSet),
        (file, words): (File, u8),
        yielding: &mut Snapshot,
    ) -> Option<u8> {
        if file != File::R {
            return None;
        }
        loop {
            let is_useful = |(value, from): &(Value, u8)| {
                let data = self.function.values[*value];
                let window = RegSet::of(*from, data.words.into());
                data.file == file && !window.without(clobbered).is_empty()
            };
            let (value, _) = yielding.swap_remove(yielding.iter().position(is_useful)?);
            self.spill(value);
            self.unassign(value);
            if let Some(to) = self.preserved_window((of, clobbered), file, words) {
                return Some(to);
            }
        }
    }

    fn preserved_window(&self, (of, clobbered): (Convention, RegSet), file: File, words: u8) -> Option<u8> {
        let regs = &self.files[self.file(file)];
        let is_preserved = |register: u8| match file {
            File::R => !clobbered.meets(RegSet::of(register, 1)),
            File::P => of.saves_predicate(register),
            _ => false,
        };
        let mut windows = regs.windows(words);
        windows.find(|w| w.clone().all(|p| is_preserved(p as u8) && regs.is_free(p))).map(|w| w.start as u8)
    }

    /// Moves the arguments to the convention's registers.
    pub(super) fn move_args_to_abi_regs(&mut self, inst: Inst) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        let fixed = &self.function.fixed[&inst];
        let mut wanted = Vec::new();
        for (arg, reg) in data.args.iter().zip(&fixed.args) {
            if let Arg::Use(u) = arg
                && let Some(at) = self.assigned[u.value.index()]
            {
                let words = self.function.values[u.value].words;
                // It is still where it was before it moved for the call, often in its place.
                let mut moved = self.moved_for_call.iter().filter(|(value, _)| *value == u.value);
                let regs = &self.files[self.file(File::R)];
                let is_there = |from: &u8| (*from..from + words).all(|r| regs.owner(r.into()).is_none());
                let at = moved.next().map(|(_, from)| *from).filter(is_there).unwrap_or(at);
                wanted.extend((0..words).map(|w| (reg + w, at + w)));
            }
        }
        let scratch = self.free_scratch(File::R, &wanted);
        let Some(sequence) = parallel_moves::sequence(&wanted, scratch) else {
            self.needs_scratch = Some(File::R);
            return Ok(());
        };
        for (to, from) in sequence {
            self.code.touch(File::R, to);
            let mut mach_inst = move_inst(File::R, to, from)?;
            mach_inst.at = data.at;
            self.emitted.push(mach_inst);
        }
        Ok(())
    }

    /// Emits the return address and the call itself.
    fn emit_call(&mut self, inst: Inst) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        let convention = self.function.fixed.get(&inst).map(Convention::of).unwrap_or_default();
        if let (Op::Pseudo(Pseudo::CallRoutine), Some(Arg::Imm(index))) = (data.op, data.args.first()) {
            self.emit_routine_call(inst, convention, *index as u32);
            return Ok(());
        }
        if let Some(own) = self.own {
            convention.endangers(own).for_each(|register| self.code.touch(File::R, register));
            convention.endangered_barriers(own).for_each(|barrier| self.code.touch(File::B, barrier));
        }
        for (insts, half) in [(3, Half::Low), (2, Half::High)] {
            let register = convention.return_address() + u8::from(half == Half::High);
            self.code.touch(File::R, register);
            let mut mach_inst =
                MachInst::new(sass::Op::MOV, &[], &[machine::r(register), machine::imm(0)], Origin::Frame);
            mach_inst.address = Some(Address::Ahead { insts, half });
            mach_inst.at = data.at;
            self.emitted.push(mach_inst);
        }
        let (operand, address) = match data.args.first() {
            Some(Arg::Address { symbol, .. }) => (machine::imm(0), Some(Address::Call { symbol: *symbol })),
            _ => (machine::r(convention.callee(self.function)), None),
        };
        let mut call = MachInst::new(sass::Op::CALL, &[M::ABS, M::NOINC], &[operand], Origin::Inst(inst));
        (call.address, call.at) = (address, data.at);
        self.emitted.push(call);
        Ok(())
    }

    /// A call of code of the same function: the return address is an offset from its start.
    fn emit_routine_call(&mut self, inst: Inst, convention: Convention, index: u32) {
        let at = self.function.insts[inst].at;
        (convention.first()..convention.end()).for_each(|register| self.code.touch(File::R, register));
        let back = [machine::r(convention.return_address()), machine::imm(0)];
        let mut offset = MachInst::new(sass::Op::MOV, &[], &back, Origin::Frame);
        (offset.address, offset.at) = (Some(Address::Offset { insts: 2 }), at);
        let to = [machine::relative(0)];
        let mut call = MachInst::new(sass::Op::CALL, &[M::REL, M::NOINC], &to, Origin::Inst(inst));
        (call.address, call.at) = (Some(Address::Routine { index }), at);
        self.emitted.extend([offset, call]);
    }

    /// Moves results of a call out of reserved registers: no block begins with a value there.
    pub(super) fn vacate_reserved(&mut self, inst: Inst) -> Result<(), AttemptError> {
        use Pseudo::{Call, CallRoutine, Entry};
        if !matches!(self.function.insts[inst].op, Op::Pseudo(Call | CallRoutine | Entry)) {
            return Ok(());
        }
        let file = self.file(File::R);
        for value in &self.function.insts[inst].results {
            let Some(at) = self.assigned[value.index()].map(usize::from) else { continue };
            let window = at..at + usize::from(self.function.values[*value].words);
            if window.clone().any(|reg| self.files[file].is_reserved(reg)) {
                self.displace(file, *value, window)?;
            }
        }
        Ok(())
    }
}
