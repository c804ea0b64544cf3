//! What goes to stderr at once, or is kept for the caller, in ptxas's form or another ([`Style`]). `-w` and `-Werror` act
//! here and nowhere else.

use crate::messages::{self, Adviser, Report, Source, Style};
use ptx::diag::{Diagnostic, Severity};
use std::cell::{Cell, RefCell};

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
    /// The form of all that is said.
    pub style: Style,
    /// The command line, for messages about it.
    pub command: String,
    /// What there is to say about them.
    pub adviser: Adviser,
    errors: Cell<usize>,
    warnings: Cell<usize>,
    /// Messages in place of stderr.
    kept: Option<RefCell<Vec<Message>>>,
}

impl Default for Log {
    fn default() -> Log {
        let tool = "ptxas".into();
        Log {
            tool,
            no_warnings: false,
            warnings_are_errors: false,
            failed: false,
            style: Style::Ptxas,
            command: String::new(),
            adviser: |_, _, _| ptx::Advice::default(),
            errors: Cell::new(0),
            warnings: Cell::new(0),
            kept: None,
        }
    }
}

impl Log {
    /// One for a command line.
    pub fn for_command(style: Style, command: String, adviser: Adviser) -> Log {
        Log { style, command, adviser, ..Log::default() }
    }

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
        let plain = format!("{} {}: {message}\n", self.tool, severity.padded());
        if self.style == Style::Ptxas {
            return self.text(severity, &plain);
        }
        self.report(&Report::of_command(severity, message, &self.command, self.adviser, plain));
    }

    fn report(&self, report: &Report) {
        let count = match report.severity {
            Severity::Info => None,
            Severity::Warning => Some(&self.warnings),
            Severity::Error | Severity::Fatal => Some(&self.errors),
        };
        if let Some(count) = count {
            count.set(count.get() + 1);
        }
        self.text(report.severity, &report.print(self.style));
    }

    /// The last thing that is said, in forms that count.
    pub fn finish(&self) {
        let (errors, warnings) = (self.errors.get(), self.warnings.get());
        match self.style {
            Style::Json => self.text(Severity::Info, &messages::json_summary(errors, warnings)),
            Style::Rich { colours } if errors > 0 => {
                self.text(Severity::Fatal, &messages::counted(errors, warnings, colours));
            }
            _ => {}
        }
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

    /// Diagnostics of a module, and more about some of them.
    pub fn diagnostics(
        &mut self,
        file: &str,
        source: &str,
        diagnostics: &[Diagnostic],
        advice: &[(usize, ptx::Advice)],
    ) {
        for (index, diagnostic) in diagnostics.iter().enumerate() {
            let Some(severity) = self.promoted(diagnostic.severity) else { continue };
            let Diagnostic { line, message, .. } = diagnostic;
            let name = diagnostic.file.as_deref().unwrap_or(file);
            let plain = match line {
                Some(line) => {
                    let padded = severity.padded();
                    format!("{} {name}, line {line}; {padded}: {message}\n", self.tool)
                }
                None => format!("{} {}: {message}\n", self.tool, severity.padded()),
            };
            if self.style == Style::Ptxas {
                self.text(severity, &plain);
                continue;
            }
            let shown = Diagnostic { severity, ..diagnostic.clone() };
            let more = advice.iter().find(|(number, _)| *number == index).map(|(_, more)| more);
            let source = Some(Source { name: file, text: source });
            self.report(&Report::of_module(source, &shown, more, plain));
        }
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
        match self.style {
            _ if !self.failed => Ok(()),
            Style::Ptxas => Err(self.fatal(ABORTED)),
            // `finish` says how many there are.
            _ => Err(Stop),
        }
    }
}

/// Diagnostics of a module as people read them, for commands beside compiling.
pub fn rich_text(
    file: &str,
    source: &str,
    diagnostics: &[Diagnostic],
    advice: &[(usize, ptx::Advice)],
) -> String {
    let mut log = Log { style: Style::named("rich"), ..Log::keeping() };
    log.diagnostics(file, source, diagnostics, advice);
    log.finish();
    log.into_messages().into_iter().map(|message| message.text + "\n\n").collect()
}
