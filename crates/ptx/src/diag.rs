//! Diagnostics: what is wrong and where, rendered the way ptxas prints it.
//!
//! The default rendering is a contract: build systems and autotuners parse these lines. Severity words are
//! padded to eight columns, a located line is `ptxas FILE, line N; SEVERITY: TEXT`, and a run that reported
//! an error closes with [`ABORTED`].

use std::fmt::{self, Write};

/// The closing line after any error of the front end.
pub const ABORTED: &str = "ptxas fatal   : Ptx assembly aborted due to errors";

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub enum Severity {
    Info,
    Warning,
    Error,
    Fatal,
}

impl Severity {
    /// The word as ptxas prints it: padded to eight columns.
    pub fn padded(self) -> &'static str {
        match self {
            Severity::Info => "info    ",
            Severity::Warning => "warning ",
            Severity::Error => "error   ",
            Severity::Fatal => "fatal   ",
        }
    }
}

/// A half-open range of byte offsets of the source. It never takes part in comparisons of trees.
#[derive(Clone, Copy, Debug, Default, Eq)]
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl PartialEq for Span {
    /// Two trees are the same when they say the same thing, wherever it stands.
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Span {
    /// From byte to byte.
    pub fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    /// From the start of this one to the end of that one.
    pub fn to(self, end: Span) -> Span {
        Span { start: self.start, end: end.end }
    }
}

/// Something that ptxas would say about a module.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are named as PTX names them")]
pub struct Diagnostic {
    pub severity: Severity,
    /// The file that a line marker of the source names, if that is not the module's own.
    pub file: Option<String>,
    /// One-based source line; `None` where ptxas prints no location.
    pub line: Option<u32>,
    pub span: Span,
    pub message: String,
}

/// Advice that belongs to a diagnostic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// The operand or token that is meant, if that is less than the diagnostic's own span.
    pub place: Option<Span>,
    /// What stands there, in a few words.
    pub label: Option<String>,
    /// Other places that matter, and why.
    pub related: Vec<(Span, String)>,
    /// Facts.
    pub notes: Vec<String>,
    /// Ways out.
    pub help: Vec<String>,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.padded().trim_end())
    }
}

impl fmt::Display for Diagnostic {
    /// `line 12: error: Unknown symbol 'x'`
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Diagnostic { severity, file, line, message, .. } = self;
        if let Some(file) = file {
            write!(f, "{file}, ")?;
        }
        if let Some(line) = line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{severity}: {message}")
    }
}

impl std::error::Error for Diagnostic {}

/// What ptxas would print to stderr for these diagnostics of `file`, without the closing line.
pub fn render_ptxas(file: &str, diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    for d in diagnostics {
        let severity = d.severity.padded();
        let file = d.file.as_deref().unwrap_or(file);
        let _ = match d.line {
            Some(line) => writeln!(out, "ptxas {file}, line {line}; {severity}: {}", d.message),
            None => writeln!(out, "ptxas {severity}: {}", d.message),
        };
    }
    out
}
