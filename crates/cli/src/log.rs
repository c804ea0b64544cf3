//! What goes to stderr at once, or is kept for the caller, in ptxas's form. `-w` and `-Werror` act here and nowhere else.

use ptx::diag::{Diagnostic, Severity};
use std::cell::RefCell;

/// The reason has been printed; the command ends with [`FAILED`].
#[derive(Debug)]
pub struct Stop;

/// ptxas knows two exit codes.
pub const FAILED: u8 = 255;

const ABORTED: &str = "Ptx assembly aborted due to errors";

/// What ptxas would print to stderr: a line of it, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How bad it is.
    pub severity: Severity,
    /// The text without the line end.
    pub text: String,
}

pub struct Log {
    /// The first word of every line.
    pub tool: String,
    pub no_warnings: bool,
    pub warnings_are_errors: bool,
    failed: bool,
    /// Messages in place of stderr.
    kept: Option<RefCell<Vec<Message>>>,
}

impl Default for Log {
    fn default() -> Log {
        let tool = "ptxas".into();
        Log { tool, no_warnings: false, warnings_are_errors: false, failed: false, kept: None }
    }
}

impl Log {
    /// One that keeps messages.
    pub fn keeping() -> Log {
        Log { kept: Some(RefCell::default()), ..Log::default() }
    }

    /// What was kept.
    pub fn into_messages(self) -> Vec<Message> {
        self.kept.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Prints or keeps a text of whole lines.
    pub fn text(&self, severity: Severity, text: &str) {
        match &self.kept {
            _ if text.is_empty() => {}
            Some(kept) => kept.borrow_mut().push(Message { severity, text: text.trim_end().to_string() }),
            None => eprint!("{text}"),
        }
    }

    fn line(&self, severity: Severity, message: &str) {
        self.text(severity, &format!("{} {}: {message}\n", self.tool, severity.padded()));
    }

    pub fn info(&self, message: &str) {
        self.line(Severity::Info, message);
    }

    pub fn warning(&mut self, message: &str) {
        if let Some(severity) = self.promoted(Severity::Warning) {
            self.line(severity, message);
        }
    }

    /// What is said while the command line is read: neither `-w` nor `-Werror` counts yet.
    pub fn early_warning(&self, message: &str) {
        self.line(Severity::Warning, message);
    }

    pub fn error(&mut self, message: &str) {
        self.failed = true;
        self.line(Severity::Error, message);
    }

    /// The last line.
    pub fn fatal(&self, message: &str) -> Stop {
        self.line(Severity::Fatal, message);
        Stop
    }

    /// Fatal, but other inputs are still looked at.
    pub fn fatal_for_input(&mut self, message: &str) {
        self.failed = true;
        self.line(Severity::Fatal, message);
    }

    /// The front end's diagnostics of an input called `file`.
    pub fn diagnostics(&mut self, file: &str, diagnostics: &[Diagnostic]) {
        for diagnostic in diagnostics {
            let Some(severity) = self.promoted(diagnostic.severity) else { continue };
            let Diagnostic { line, message, .. } = diagnostic;
            let file = diagnostic.file.as_deref().unwrap_or(file);
            match line {
                Some(line) => {
                    let padded = severity.padded();
                    self.text(severity, &format!("{} {file}, line {line}; {padded}: {message}\n", self.tool));
                }
                None => self.line(severity, message),
            }
        }
    }

    /// The same with source lines.
    pub fn rich(&mut self, file: &str, source: &str, diagnostics: &[Diagnostic]) {
        let mut shown = diagnostics.to_vec();
        shown.retain_mut(|diagnostic| match self.promoted(diagnostic.severity) {
            Some(severity) => {
                diagnostic.severity = severity;
                true
            }
            None => false,
        });
        let worst = shown.iter().map(|diagnostic| diagnostic.severity).max().unwrap_or(Severity::Info);
        self.text(worst, &ptx::diag::render_rich(file, source, &shown));
    }

    /// The severity that counts; `None` if nothing is to be said.
    fn promoted(&mut self, severity: Severity) -> Option<Severity> {
        let severity = match severity {
            Severity::Warning if self.no_warnings => return None,
            Severity::Warning if self.warnings_are_errors => Severity::Error,
            other => other,
        };
        self.failed |= severity >= Severity::Error;
        Some(severity)
    }

    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Ends the command if anything was an error, with the line that says so.
    pub fn abort_if_failed(&self) -> Result<(), Stop> {
        if self.failed { Err(self.fatal(ABORTED)) } else { Ok(()) }
    }
}
