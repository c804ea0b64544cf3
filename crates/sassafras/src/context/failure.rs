//! Why there is no cubin.

use ptx::diag::Span;

/// Something that this compiler can't do (yet), or got wrong; with the line of the PTX that it was about.
#[derive(Debug)]
pub struct Failure {
    pub line: u32,
    pub span: Span,
    pub message: String,
}

impl Failure {
    /// About no line in particular.
    pub fn of_module(message: String) -> Failure {
        Failure { line: 0, span: Span::default(), message }
    }

    pub fn internal(pass: &str, function: &str, what: impl std::fmt::Display) -> Failure {
        let message = format!("Internal error in pass '{pass}' for function '{function}': {what}");
        Failure::of_module(message)
    }
}
