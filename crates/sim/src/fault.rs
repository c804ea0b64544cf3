//! Why a kernel stopped before its end.

use std::fmt;

/// What went wrong, where in the source and in which thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line of the PTX source, from 1; 0 where no line is to blame.
    pub line: u32,
    /// What it was.
    pub kind: FaultKind,
    /// The thread, where one is to blame.
    pub thread: Option<Thread>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// A thread of a grid.
pub struct Thread {
    /// Where its block is in the grid.
    pub block: [u32; 3],
    /// Where it is in its block.
    pub thread: [u32; 3],
}

#[derive(Clone, Debug, PartialEq, Eq)]
/// What can go wrong.
pub enum FaultKind {
    /// Nothing is allocated there.
    OutOfBounds {
        /// The state space.
        space: &'static str,
        /// The address in it.
        address: u64,
        /// The bytes of the access.
        bytes: u32,
    },
    /// The address is no multiple of what is accessed.
    Misaligned {
        /// The state space.
        space: &'static str,
        /// The address in it.
        address: u64,
        /// The bytes of the access.
        bytes: u32,
    },
    /// A register is read before it is written.
    Uninitialised {
        /// Its name.
        register: String,
    },
    /// All threads wait, and not all that must come can come.
    Deadlock {
        /// What they wait for.
        what: String,
    },
    /// A lane that is not in its own member mask, a barrier number out of range: what PTX leaves undefined.
    Undefined {
        /// What it is.
        what: String,
    },
    /// Two accesses of shared memory without an order; `line` is that of the other one.
    Race {
        /// The two accesses.
        what: String,
        /// The line of the other one.
        line: u32,
    },
    /// `trap`.
    Trap,
    /// Calls too deep, or too much local memory in them.
    StackOverflow,
    /// A call of what is not a function, or of one without a body.
    BadCall {
        /// What is called.
        target: String,
    },
    /// No end after so many instructions.
    StepLimit {
        /// How many were done.
        steps: u64,
    },
    /// What the executor does not do.
    Unsupported {
        /// What it is.
        what: String,
    },
    /// The launch itself: no such kernel, parameters of the wrong size.
    Launch {
        /// What is wrong with it.
        what: String,
    },
}

impl Fault {
    pub(super) fn new(line: u32, kind: FaultKind) -> Fault {
        Fault { line, kind, thread: None }
    }

    pub(super) fn launch(what: impl Into<String>) -> Fault {
        Fault::new(0, FaultKind::Launch { what: what.into() })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        self.kind.fmt(f)?;
        if let Some(Thread { block: [bx, by, bz], thread: [x, y, z] }) = self.thread {
            write!(f, " (block {bx},{by},{bz} thread {x},{y},{z})")?;
        }
        Ok(())
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::OutOfBounds { space, address, bytes } => {
                write!(f, "access of {bytes} bytes outside of {space} memory, at {address:#x}")
            }
            FaultKind::Misaligned { space, address, bytes } => {
                write!(f, "access of {bytes} bytes of {space} memory at {address:#x}, which is not aligned")
            }
            FaultKind::Uninitialised { register } => write!(f, "{register} is read before it is written"),
            FaultKind::Deadlock { what }
            | FaultKind::Undefined { what }
            | FaultKind::Race { what, .. }
            | FaultKind::Launch { what } => f.write_str(what),
            FaultKind::Trap => f.write_str("trap"),
            FaultKind::StackOverflow => f.write_str("the stack overflows"),
            FaultKind::BadCall { target } => write!(f, "{target} can't be called"),
            FaultKind::StepLimit { steps } => write!(f, "no end after {steps} instructions"),
            FaultKind::Unsupported { what } => write!(f, "{what} is not supported"),
        }
    }
}

impl std::error::Error for Fault {}
