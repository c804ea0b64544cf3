//! One function from register allocation to its bytes: what passes over machine code work on.

use crate::context::target::TargetMachine;
use crate::context::{Options, PassResult};
use crate::lower::Kernel;
use crate::mach::inst::{MachFunction, MachInst, Step, Timed};
use crate::module::abi::Clobbers;
use cubin::module::{FrameStep, SymbolicReloc};
use ori::Block;
use ori::entity::Entity;
use std::ops::Range;

/// A function in the three forms that machine passes give it. A form is empty until its pass has run.
pub struct Unit<'a> {
    pub options: &'a Options,
    /// The Ori function, with what the container has to know about it.
    pub kernel: Kernel,
    /// Blocks of instructions with registers: from `regalloc` on.
    pub code: MachFunction,
    /// The blocks in a row, with prologue, epilogues and branches: from `linearize` on.
    pub linear: LinearCode,
    /// The bytes: from `emit` on.
    pub encoded: EncodedFunction,
    /// Makes the code of a library routine, up to `linearize`.
    pub compile_routine: CompileRoutine,
}

/// The linear code of a library routine by name, for a machine, with the options of its caller.
pub type CompileRoutine = fn(&str, &'static TargetMachine, &Options) -> PassResult<LinearCode>;

impl Unit<'_> {
    pub fn new(kernel: Kernel, options: &Options, compile_routine: CompileRoutine) -> Unit<'_> {
        Unit {
            options,
            kernel,
            code: MachFunction::default(),
            linear: LinearCode::default(),
            encoded: EncodedFunction::default(),
            compile_routine,
        }
    }
}

impl Unit<'_> {
    /// How many instructions it has in memory.
    pub fn instructions(&self) -> usize {
        self.kernel.code.insts.len().max(self.linear.insts.len())
    }
}

/// The instructions of a function in the order in which they are encoded.
#[derive(Default)]
pub struct LinearCode {
    pub insts: Vec<MachInst>,
    /// The same for the machine model: distances and addresses are still zero.
    pub steps: Vec<Step>,
    /// Their control codes: from `control-codes` on.
    pub timed: Vec<Timed>,
    /// The first instruction of each block, by its number.
    pub starts: Vec<usize>,
    /// The instructions of each block but for its terminator; only for a debugger.
    pub of_block: Vec<Vec<usize>>,
    /// The tables of indirect branches, in the order of these.
    pub tables: Vec<JumpTable>,
    /// The instruction before which the stack pointer has moved.
    pub frame_ready: usize,
    /// What becomes of the frame, each after an instruction.
    pub frame_steps: Vec<(usize, FrameStep)>,
    /// Bytes of registers saved for the caller.
    pub saved_bytes: u32,
    /// Bytes of the frame, saved registers included.
    pub frame: u32,
}

/// The table of an indirect branch.
#[derive(Debug, Default)]
pub struct JumpTable<To = Block> {
    /// The branch: which instruction; of encoded code, its offset.
    pub branch: u32,
    /// The first byte in constant bank 2.
    pub place: u32,
    /// Where the branch goes, by index: blocks; of encoded code, offsets.
    pub targets: Vec<To>,
}

impl<To> JumpTable<To> {
    /// The bytes in the bank.
    pub fn bytes(&self) -> Range<u64> {
        let start = u64::from(self.place);
        start..start + 4 * self.targets.len() as u64
    }
}

impl LinearCode {
    /// The instruction that a branch or `BSSY` names. A convergence barrier names its `BSYNC`: spill code for the
    /// parameters of the landing block stands before it.
    pub fn target(&self, inst: &MachInst) -> Option<usize> {
        let start = self.starts[inst.target?.index()];
        let is_barrier = inst.op == sass::Op::BSSY;
        let meets = |inst: &MachInst| inst.op == sass::Op::BSYNC;
        let skipped = if is_barrier { self.insts[start..].iter().position(meets) } else { None };
        Some(start + skipped.unwrap_or(0))
    }
}

/// A function as the container takes it.
#[derive(Debug, Default)]
pub struct EncodedFunction {
    pub bytes: Vec<u8>,
    /// What it writes; what it calls writes more.
    pub clobbers: Clobbers,
    /// Offsets of `EXIT`.
    pub exits: Vec<u32>,
    /// Offsets of warp collectives that the source asks for, with the register of the mask; and of those that are the
    /// compiler's own.
    pub collectives: Vec<(u32, Option<u8>)>,
    pub warp_wide: Vec<u32>,
    /// The least class of machines that has all the operations, as `.nv.compat` counts them; and whether an MMA takes a
    /// sparse matrix.
    pub isa_class: u8,
    pub sparse: bool,
    /// Is the block's third coordinate asked for?
    pub reads_ctaid_z: bool,
    pub relocs: Vec<SymbolicReloc>,
    /// The tables of indirect branches.
    pub tables: Vec<JumpTable<u32>>,
    /// Bytes of the frame, saved registers included.
    pub frame: u32,
    /// Bytes that are saved for the caller, and restored, over all epilogues.
    pub saves: u32,
    pub restores: u32,
    /// The highest R that is named, plus one.
    pub registers: u32,
    /// Where the stack pointer has moved.
    pub frame_ready: u32,
    /// What becomes of the frame after that, and where.
    pub frame_steps: Vec<(u32, FrameStep)>,
    /// By block, the addresses of its instructions; only for a debugger.
    pub of_block: Vec<Vec<u32>>,
    /// For each word, the byte of the PTX text at which the instruction begins that it is for, 0 where there is none.
    pub at: Vec<u32>,
}
