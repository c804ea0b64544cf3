//! What goes to stderr, in ptxas's form, at once. `-w` and `-Werror` act here and nowhere else.

use ptx::diag::{Diagnostic, Severity};

/// The reason has been printed; the command ends with [`FAILED`].
#[derive(Debug)]
pub struct Stop;

/// ptxas knows two exit codes.
pub const FAILED: u8 = 255;

const ABORTED: &str = "Ptx assembly aborted due to errors";

pub struct Log {
    /// The first word of every line.
    pub tool: String,
    pub no_warnings: bool,
    pub warnings_are_errors: bool,
    failed: bool,
}

impl Default for Log {
    fn default() -> Log {
        Log { tool: "ptxas".into(), no_warnings: false, warnings_are_errors: false, failed: false }
    }
}

impl Log {
    fn line(&self, severity: Severity, message: &str) {
        eprintln!("{} {}: {message}", self.tool, severity.padded());
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
                    eprintln!("{} {file}, line {line}; {}: {message}", self.tool, severity.padded())
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
        eprint!("{}", ptx::diag::render_rich(file, source, &shown));
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
