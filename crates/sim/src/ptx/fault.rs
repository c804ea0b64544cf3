//! Why a kernel stopped before its end.

use std::fmt;

/// What went wrong, where in the source and in which thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line of the PTX source, from 1; 0 where no line is to blame.
    pub line: u32,
    pub kind: FaultKind,
    pub thread: Option<Thread>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    pub block: [u32; 3],
    pub thread: [u32; 3],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing is allocated there.
    OutOfBounds {
        space: &'static str,
        address: u64,
        bytes: u32,
    },
    Misaligned {
        space: &'static str,
        address: u64,
        bytes: u32,
    },
    Uninitialised {
        register: String,
    },
    /// All threads wait, and not all that must come can come.
    Deadlock {
        what: String,
    },
    /// A lane that is not in its own member mask, a barrier number out of range: what PTX leaves undefined.
    Undefined {
        what: String,
    },
    /// Two accesses of shared memory without an order; `line` is that of the other one.
    Race {
        what: String,
        line: u32,
    },
    Trap,
    /// Calls too deep, or too much local memory in them.
    StackOverflow,
    /// A call of what is not a function, or of one without a body.
    BadCall {
        target: String,
    },
    /// No end after so many instructions.
    StepLimit {
        steps: u64,
    },
    Unsupported {
        what: String,
    },
    /// The launch itself: no such kernel, parameters of the wrong size.
    Launch {
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
