//! What passes over machine code work on: one function from register allocation to its bytes.

use crate::context::Options;
use crate::lower::Kernel;
use crate::mach::emit::EncodedFunction;
use crate::mach::inst::MachFunction;
use crate::mach::linearize::LinearCode;
use crate::regalloc::Error;

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
}

impl Unit<'_> {
    pub fn new(kernel: Kernel, options: &Options) -> Unit<'_> {
        Unit {
            options,
            kernel,
            code: MachFunction::default(),
            linear: LinearCode::default(),
            encoded: EncodedFunction::default(),
        }
    }
}

/// Why a pass over machine code did not finish.
pub enum Stop {
    /// An error in the compiler.
    Bug(String),
    /// The instruction at this byte of the PTX text needs so many registers, and the function may not have them.
    TooFewRegisters { at: u32, registers: u32 },
    /// A register of an outstanding wgmma is accessed: the function must be compiled with serialized wgmma.
    WgmmaHazard,
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Bug(what)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        match error {
            Error::TooFewRegisters { at, registers } => Stop::TooFewRegisters { at, registers },
            Error::Internal(what) => Stop::Bug(what),
        }
    }
}
