//! The error of a pass.

use crate::context::Stop;
use sass::{EncodeError, SelectError};
use std::fmt;

/// Why a pass did not finish. All but the last three are bugs of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassError {
    /// The target has no form of a machine operation for its modifiers and operands.
    NoForm(SelectError),
    /// The fields of a machine instruction, given as text, don't hold an operand or the control code.
    NoEncoding(String, EncodeError),
    /// The pass needs a property of the code that does not hold.
    Needs(&'static str),
    /// The verifier rejects the code before or after the pass.
    Verifier(String),
    /// Another broken invariant.
    Internal(String),
    /// The instruction at byte `at` of the PTX text needs so many registers, more than the function may have.
    TooFewRegisters { at: u32, registers: u32 },
    /// A register of an outstanding wgmma is accessed: the function must be compiled with serialized wgmma.
    WgmmaHazard,
    /// The compilation ends before the pass.
    Stopped(Stop),
}

pub type PassResult<T = ()> = Result<T, PassError>;

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            PassError::NoForm(error) => error.fmt(f),
            PassError::NoEncoding(inst, error) => write!(f, "{inst}: {error}"),
            PassError::Needs(property) => write!(f, "it needs {property}"),
            PassError::Verifier(message) | PassError::Internal(message) => f.write_str(message),
            PassError::TooFewRegisters { registers, .. } => {
                write!(f, "an instruction needs {registers} registers")
            }
            PassError::WgmmaHazard => f.write_str("a register of an outstanding wgmma is accessed"),
            PassError::Stopped(stop) => stop.fmt(f),
        }
    }
}

impl std::error::Error for PassError {}

impl From<SelectError> for PassError {
    fn from(error: SelectError) -> PassError {
        PassError::NoForm(error)
    }
}

impl From<String> for PassError {
    fn from(message: String) -> PassError {
        PassError::Internal(message)
    }
}

impl From<&str> for PassError {
    fn from(message: &str) -> PassError {
        PassError::Internal(message.into())
    }
}

/// The error of a pass on a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassFailure {
    pub pass: &'static str,
    pub function: String,
    pub error: PassError,
}

impl fmt::Display for PassFailure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let PassFailure { pass, function, error } = self;
        write!(f, "Internal error in pass '{pass}' for function '{function}': {error}")
    }
}

impl std::error::Error for PassFailure {}
