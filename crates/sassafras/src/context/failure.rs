//! The error of a compilation that leaves no cubin.

use crate::context::Stop;
use ptx::diag::{Diagnostic, Severity, Span};

/// An unsupported input or an internal error, with the PTX line that caused it.
#[derive(Debug)]
pub struct Failure {
    pub line: u32,
    pub span: Span,
    pub message: String,
}

impl Failure {
    /// An error of the whole module, without a line.
    pub fn of_module(message: String) -> Failure {
        Failure { line: 0, span: Span::default(), message }
    }

    pub fn internal(pass: &str, function: &str, what: impl std::fmt::Display) -> Failure {
        let message = format!("Internal error in pass '{pass}' for function '{function}': {what}");
        Failure::of_module(message)
    }
}

/// Why a compilation ended without a cubin and without further diagnostics.
#[derive(Debug)]
pub enum Ended {
    Failed(Failure),
    Stopped(Stop),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        Ended::Failed(failure)
    }
}

/// A message about the whole module.
pub fn plain(severity: Severity, message: String) -> Diagnostic {
    Diagnostic { severity, file: None, line: None, span: Span::default(), message }
}
