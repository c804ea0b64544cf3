//! Calls: values that live on leave the registers that a call destroys, parameters go to theirs.

use super::reg_file::{Limits, PREDICATES};
use super::{Allocator, Ceilings, Trouble, fixed_registers, move_line};
use crate::mach::abi::Convention;
use crate::mach::inst::{Address, MachInst, Origin};
use crate::regalloc::parallel_moves;
use crate::regalloc::reg_set::Registers;
use ori::entity::Entity;
use ori::{Arg, Cfg, File, Function, Half, Inst, Op, Pseudo, Value};
use sass::{M, operands as machine};

/// General registers that no value may have: the stack pointer, the frame pointer, the return address in a device
/// function, and those that instructions name themselves, here or elsewhere.
pub fn reserved(function: &Function) -> Registers {
    let mut all = Registers::of(Function::STACK_POINTER, 1);
    let named = fixed_registers(function).chain(frame_pointer(function));
    let named = named.chain(function.withheld.iter().copied()).filter(|(file, _)| *file == File::R);
    named.for_each(|(_, number)| all.add(Registers::of(number, 1)));
    if let Some(own) = Convention::own(function) {
        all.add(Registers::of(own.return_address(), 2));
    }
    all
}

/// The register for moves that go in a circle: the last one that there is everywhere.
pub fn scratch(function: &Function, cfg: &Cfg, limits: &Limits) -> Option<u8> {
    let ceilings = Ceilings::new(function, cfg, limits);
    let least = cfg.order.iter().map(|b| ceilings.least(*b)).min()?;
    let reserved = reserved(function);
    (0..limits.usable(least)).rev().find(|r| !reserved.meets(Registers::of(*r, 1)))
}

fn frame_pointer(function: &Function) -> Option<(File, u8)> {
    function.moving_stack.then_some((File::R, Function::FRAME_POINTER))
}

/// How many barriers the calls of a function destroy, from B0 on.
fn lost_barriers(function: &Function) -> u8 {
    let insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    let calls = insts.filter(|i| function.insts[**i].op == Op::Pseudo(Pseudo::Call));
    let conventions = calls.map(|i| function.fixed.get(i).map(Convention::of).unwrap_or_default());
    conventions.map(Convention::first_saved_barrier).max().unwrap_or(0)
}

impl Allocator<'_> {
    /// Keeps values from [`reserved`] registers, from what moves need, and from barriers that a call destroys.
    pub(super) fn reserve(&mut self) {
        let named: Vec<(File, u8)> =
            fixed_registers(self.function).chain(frame_pointer(self.function)).collect();
        // A barrier that instructions name is theirs only from one line to the next: no function saves it.
        let written = named.iter().filter(|(file, _)| *file != File::B);
        written.for_each(|(file, number)| self.code.touch(*file, *number));
        let general = reserved(self.function).iter().chain(self.limits.scratch).map(|r| (File::R, r));
        let predicate = self.limits.scratch_predicate.then_some((File::P, PREDICATES - 1));
        let barriers = (0..lost_barriers(self.function)).map(|n| (File::B, n));
        let elsewhere = self.function.withheld.iter().copied();
        for (file, number) in
            named.into_iter().chain(elsewhere).chain(general).chain(predicate).chain(barriers)
        {
            let file = self.file(file);
            self.files[file].reserve(number);
        }
    }

    /// `hand_over` brings what an instruction reads to where the convention wants it.
    pub(super) fn convention(
        &mut self,
        inst: Inst,
        dying: &[Value],
        hand_over: fn(&mut Self, Inst) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let data = &self.function.insts[inst];
        let fixed = self.function.fixed.get(&inst).ok_or("no registers for a call")?;
        match data.op {
            Op::Pseudo(Pseudo::Entry) => {}
            Op::Pseudo(Pseudo::Leave) => hand_over(self, inst)?,
            _ => {
                let lost = self.save_survivors(Convention::of(fixed), dying)?;
                hand_over(self, inst)?;
                self.jump(inst)?;
                dying.iter().chain(&lost).for_each(|v| self.leave(*v));
            }
        }
        data.results.iter().zip(&fixed.results).for_each(|(value, place)| self.arrive(*value, *place));
        Ok(())
    }

    /// Values that are needed behind the call move to registers that survive it. Those that find none are returned:
    /// they stay where they are until the parameters have been moved.
    fn save_survivors(&mut self, of: Convention, dying: &[Value]) -> Result<Vec<Value>, Trouble> {
        let mut lost = Vec::new();
        for (value, place) in self.snapshot() {
            let data = self.function.values[value];
            let survives = match data.file {
                File::R => (place..place + data.words).all(|p| self.survives(of, p)),
                File::B => place >= of.first_saved_barrier(),
                _ => false,
            };
            if survives || dying.contains(&value) {
                continue;
            }
            match self.safe_place(of, data.file, data.words) {
                Some(to) => {
                    for w in 0..data.words {
                        self.copy(data.file, to + w, place + w)?;
                    }
                    self.leave(value);
                    self.arrive(value, to);
                }
                None => {
                    self.lose(value);
                    lost.push(value);
                }
            }
        }
        Ok(lost)
    }

    fn safe_place(&self, of: Convention, file: File, words: u8) -> Option<u8> {
        let places = &self.files[self.file(file)];
        let mut windows = places.windows(words).filter(|_| file == File::R);
        windows
            .find(|w| w.clone().all(|p| self.survives(of, p as u8) && places.is_free(p)))
            .map(|w| w.start as u8)
    }

    /// Everything that the convention wants in a register goes there.
    pub(super) fn put_in_place(&mut self, inst: Inst) -> Result<(), Trouble> {
        let data = &self.function.insts[inst];
        let fixed = &self.function.fixed[&inst];
        let mut wanted = Vec::new();
        for (arg, place) in data.args.iter().zip(&fixed.args) {
            if let Arg::Use(u) = arg
                && let Some(at) = self.at[u.value.index()]
            {
                let words = self.function.values[u.value].words;
                wanted.extend((0..words).map(|w| (place + w, at + w)));
            }
        }
        let spare = self.spare(File::R, &wanted);
        let Some(sequence) = parallel_moves::sequence(&wanted, spare) else {
            self.short_of = Some(File::R);
            return Ok(());
        };
        for (to, from) in sequence {
            self.code.touch(File::R, to);
            let mut line = move_line(File::R, to, from)?;
            line.at = data.at;
            self.lines.push(line);
        }
        Ok(())
    }

    /// The return address, and the call itself.
    fn jump(&mut self, inst: Inst) -> Result<(), Trouble> {
        let data = &self.function.insts[inst];
        let convention = self.function.fixed.get(&inst).map(Convention::of).unwrap_or_default();
        if let Some(own) = Convention::own(self.function) {
            convention.endangers(own).for_each(|register| self.code.touch(File::R, register));
            convention.endangered_barriers(own).for_each(|barrier| self.code.touch(File::B, barrier));
        }
        for (lines, half) in [(3, Half::Low), (2, Half::High)] {
            let register = convention.return_address() + u8::from(half == Half::High);
            self.code.touch(File::R, register);
            let mut line =
                MachInst::new(sass::Op::MOV, &[], &[machine::r(register), machine::imm(0)], Origin::Frame);
            line.address = Some(Address::Ahead { lines, half });
            line.at = data.at;
            self.lines.push(line);
        }
        let (operand, address) = match data.args.first() {
            Some(Arg::Address { symbol, .. }) => (machine::imm(0), Some(Address::Call { symbol: *symbol })),
            _ => (machine::r(convention.callee(self.function)), None),
        };
        let mut call = MachInst::new(sass::Op::CALL, &[M::ABS, M::NOINC], &[operand], Origin::Inst(inst));
        (call.address, call.at) = (address, data.at);
        self.lines.push(call);
        Ok(())
    }

    /// Does a register keep its value over a call? The address of the callee may be put into two that would.
    fn survives(&self, of: Convention, register: u8) -> bool {
        let callee = of.callee(self.function);
        of.is_saved(register) && !(callee..callee + 2).contains(&register)
    }

    /// What a call brought to a register that no value may keep moves on.
    pub(super) fn leave_reserved(&mut self, inst: Inst) -> Result<(), Trouble> {
        if !matches!(self.function.insts[inst].op, Op::Pseudo(Pseudo::Call | Pseudo::Entry)) {
            return Ok(());
        }
        let file = self.file(File::R);
        for value in &self.function.insts[inst].results {
            let Some(at) = self.at[value.index()].map(usize::from) else { continue };
            let window = at..at + usize::from(self.function.values[*value].words);
            if window.clone().any(|place| self.files[file].is_reserved(place)) {
                self.displace(file, *value, window)?;
            }
        }
        Ok(())
    }
}
