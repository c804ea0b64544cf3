//! Calls: values that live on leave the registers that a call destroys, parameters go to theirs.

use super::{Allocator, fixed_registers, move_line};
use crate::abi;
use crate::mir::{Address, Line, Origin};
use crate::moves;
use ori::entity::Entity;
use ori::{Arg, File, Function, Half, Inst, Op, Pseudo, Value};
use sass::{M, operands as machine};

impl Allocator<'_> {
    /// Registers that values may not have: the return address in a device function, barriers that a call destroys, and
    /// what instructions name themselves.
    pub(super) fn reserve(&mut self) {
        for (file, number) in fixed_registers(self.function) {
            let places = self.file(file);
            self.files[places].reserve(number);
            self.code.touch(file, number);
        }
        let has = |op: Pseudo| {
            let mut insts = self.function.blocks.keys().flat_map(|b| &self.function.blocks[b].insts);
            insts.any(|i| self.function.insts[*i].op == Op::Pseudo(op))
        };
        let (calls, device) = (has(Pseudo::Call), has(Pseudo::Entry));
        if self.function.moving_stack {
            let r = self.file(File::R);
            self.files[r].reserve(Function::FRAME_POINTER);
            self.code.touch(File::R, Function::FRAME_POINTER);
        }
        if device {
            let r = self.file(File::R);
            self.files[r].reserve(abi::RETURN_ADDRESS);
            self.files[r].reserve(abi::RETURN_ADDRESS + 1);
        }
        if calls {
            let b = self.file(File::B);
            (0..abi::FIRST_SAVED_BARRIER).for_each(|n| self.files[b].reserve(n));
        }
    }

    pub(super) fn convention(&mut self, inst: Inst, dying: &[Value]) -> Result<(), String> {
        let data = &self.function.insts[inst];
        let fixed = self.function.fixed.get(&inst).ok_or("no registers for a call")?;
        match data.op {
            Op::Pseudo(Pseudo::Entry) => {
                data.results
                    .iter()
                    .zip(&fixed.results)
                    .for_each(|(value, place)| self.arrive(*value, *place));
                Ok(())
            }
            Op::Pseudo(Pseudo::Leave) => self.put_in_place(inst),
            _ => {
                let lost = self.save_survivors(dying)?;
                self.put_in_place(inst)?;
                self.jump(inst)?;
                dying.iter().chain(&lost).for_each(|v| self.leave(*v));
                data.results
                    .iter()
                    .zip(&fixed.results)
                    .for_each(|(value, place)| self.arrive(*value, *place));
                Ok(())
            }
        }
    }

    /// Values that are needed behind the call move to registers that survive it. Those that find none are returned:
    /// they stay where they are until the parameters have been moved.
    fn save_survivors(&mut self, dying: &[Value]) -> Result<Vec<Value>, String> {
        let mut lost = Vec::new();
        for (value, place) in self.snapshot() {
            let data = self.function.values[value];
            let survives = match data.file {
                File::R => (place..place + data.words).all(|p| self.survives(p)),
                File::B => place >= abi::FIRST_SAVED_BARRIER,
                _ => false,
            };
            if survives || dying.contains(&value) {
                continue;
            }
            match self.safe_place(data.file, data.words) {
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

    fn safe_place(&self, file: File, words: u8) -> Option<u8> {
        let places = &self.files[self.file(file)];
        let mut windows = places.windows(words).filter(|_| file == File::R);
        windows
            .find(|w| w.clone().all(|p| self.survives(p as u8) && places.is_free(p)))
            .map(|w| w.start as u8)
    }

    /// Everything that the convention wants in a register goes there.
    fn put_in_place(&mut self, inst: Inst) -> Result<(), String> {
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
        let Some(sequence) = moves::sequence(&wanted, spare) else {
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
    fn jump(&mut self, inst: Inst) -> Result<(), String> {
        let data = &self.function.insts[inst];
        for (lines, half) in [(3, Half::Low), (2, Half::High)] {
            let register = abi::RETURN_ADDRESS + u8::from(half == Half::High);
            self.code.touch(File::R, register);
            let mut line =
                Line::new(sass::Op::MOV, &[], &[machine::r(register), machine::imm(0)], Origin::Frame);
            line.address = Some(Address::Ahead { lines, half });
            line.at = data.at;
            self.lines.push(line);
        }
        let (operand, address) = match data.args.first() {
            Some(Arg::Address { symbol, .. }) => (machine::imm(0), Some(Address::Call { symbol: *symbol })),
            _ => (machine::r(abi::callee(self.function)), None),
        };
        let mut call = Line::new(sass::Op::CALL, &[M::ABS, M::NOINC], &[operand], Origin::Inst(inst));
        (call.address, call.at) = (address, data.at);
        self.lines.push(call);
        Ok(())
    }

    /// Does a register keep its value over a call? The address of the callee may be put into two that would.
    fn survives(&self, register: u8) -> bool {
        let callee = abi::callee(self.function);
        abi::is_saved(register) && !(callee..callee + 2).contains(&register)
    }
}
