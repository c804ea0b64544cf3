//! Machine code after register allocation: blocks of machine instructions with registers.

use ori::{Block, File, Half, Value};
use sass::{Control, Guard, Inst, M, Operand};
use smallvec::SmallVec;

/// A machine instruction whose branch distance and control code are not known yet.
#[derive(Clone, Debug)]
pub struct MachInst {
    pub op: sass::Op,
    pub modifiers: SmallVec<[M; 4]>,
    pub operands: SmallVec<[Operand; 8]>,
    pub guard: Guard,
    /// The block that the relative operand stands for.
    pub target: Option<Block>,
    /// The symbol whose address the immediate operand gets.
    pub address: Option<Address>,
    /// Byte of the PTX text at which the instruction begins that this is for, 0 where there is none.
    pub at: u32,
    pub origin: Origin,
}

/// An address that the loader fills into an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Half of the address of a symbol of the function's list, plus an addend.
    Half { symbol: u32, addend: i64, half: Half },
    /// Half of the address of an instruction so far ahead.
    Ahead { insts: usize, half: Half },
    /// The word of constant bank 0 that the linker gives to a symbol.
    Slot { symbol: u32 },
    /// A table in constant bank 2.
    Table { place: u32 },
    /// The function that a call goes to.
    Call { symbol: u32 },
    /// An offset from the stack pointer of the caller.
    Incoming,
    /// The offset of an instruction so far ahead from the start of the function.
    Offset { insts: usize },
    /// The library routine of the function's list that a call goes to.
    Routine { index: u32 },
    /// The start of the function.
    Start,
}

/// Why an instruction is there, for the checker of the allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An instruction of the function; it reads and writes what that says.
    Inst(ori::Inst),
    /// A word of a guarded copy.
    Word(ori::Inst, u8),
    /// A move between registers.
    Move,
    /// A store to the stack frame, or a load from it.
    Spill(u32),
    Reload(u32),
    /// A load of a value to registers, from this word on.
    Load(ori::Value, u8),
    /// A rematerialized value.
    Remat(ori::Value),
    /// A terminator, or part of the prologue or epilogue.
    Frame,
}

impl MachInst {
    pub fn new(op: sass::Op, modifiers: &[M], operands: &[Operand], origin: Origin) -> MachInst {
        MachInst {
            op,
            modifiers: SmallVec::from_slice(modifiers),
            operands: SmallVec::from_slice(operands),
            guard: Guard::ALWAYS,
            target: None,
            address: None,
            at: 0,
            origin,
        }
    }
}

/// An allocated function.
#[derive(Debug, Default)]
pub struct MachFunction {
    /// The blocks in the order in which they are laid out.
    pub order: Vec<Block>,
    /// The instructions of each block, by its number, without terminators.
    pub blocks: Vec<Vec<MachInst>>,
    /// The register that decides where each block's branch goes: a predicate, or the first of a pair for a switch.
    pub branches: Vec<u8>,
    /// The highest R that is used, plus one; and for each whether it is.
    pub registers: u32,
    pub used: Vec<bool>,
    /// The highest convergence barrier that is used, plus one.
    pub barriers: u8,
    /// Bytes of the frame, variables included.
    pub frame: u32,
    pub spill_stores: u32,
    pub spill_loads: u32,
    pub claims: Claims,
}

impl MachFunction {
    /// Notes that a register is written.
    pub fn touch(&mut self, file: File, register: u8) {
        match file {
            File::R => {
                self.registers = self.registers.max(u32::from(register) + 1);
                if self.used.len() <= usize::from(register) {
                    self.used.resize(usize::from(register) + 1, false);
                }
                self.used[usize::from(register)] = true;
            }
            File::B => self.barriers = self.barriers.max(register + 1),
            _ => {}
        }
    }
}

/// What the allocator claims; `regalloc::check` proves it.
#[derive(Debug, Default)]
pub struct Claims {
    /// The registers of the values at the entry of each block.
    pub entry_regs: Vec<Vec<(Value, u8)>>,
    /// The spill slot of each value.
    pub slots: Vec<Option<u32>>,
    /// Block parameters that are passed in their slots.
    pub spilled_params: Vec<Value>,
}

/// An instruction that gets a control code.
pub struct Step {
    pub inst: Inst,
    /// The steps that a branch goes to.
    pub targets: SmallVec<[usize; 1]>,
    /// The leader of a block: control can reach it from elsewhere than the step before.
    pub is_leader: bool,
}

/// The control code of a step, and the stalls of the NOPs that go before it.
pub struct Timed {
    pub control: Control,
    pub nops: SmallVec<[u8; 2]>,
}
