//! Messages for people and for programs, beside ptxas's own form: `--diagnostics=rich` and `--diagnostics=json`.
//!
//! A message has a code ([`catalog`]), a place in the source or on the command line, and a way out: what the front end
//! worked out about it ([`ptx::Advice`]), what the table of options says (`command_line`), or what the catalog has.
//! [`rich`] and [`json`] print the same [`Report`].

pub mod catalog;
mod json;
mod rich;

pub use json::summary as json_summary;
pub use rich::{counted, has_colours};

use ptx::diag::{Diagnostic, Severity, Span};

/// The form of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// ptxas's lines.
    #[default]
    Ptxas,
    /// For people.
    Rich { colours: bool },
    /// One JSON object a line.
    Json,
}

impl Style {
    /// The form that `--diagnostics=WORD` names.
    pub fn named(word: &str) -> Style {
        match word {
            "rich" => Style::Rich { colours: has_colours() },
            "json" => Style::Json,
            _ => Style::Ptxas,
        }
    }

    /// The form for a command line that is about to be read: what it says, or else the one for people on a terminal,
    /// unless it is ptxas that is called.
    pub fn of(words: &[String], is_ptxas: bool) -> Style {
        let value = |(index, word): (usize, &String)| match word.strip_prefix("--diagnostics")? {
            "" => words.get(index + 1).cloned(),
            rest => rest.strip_prefix('=').map(String::from),
        };
        let is_for_people = || !is_ptxas && std::io::IsTerminal::is_terminal(&std::io::stderr());
        match words.iter().enumerate().filter_map(value).next_back() {
            Some(word) => Style::named(&word),
            None if is_for_people() => Style::named("rich"),
            None => Style::Ptxas,
        }
    }
}

/// A text that messages point into.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

/// A place in a source, and what there is to say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub span: Span,
    /// One-based; as line markers of the source count.
    pub line: u32,
    pub label: String,
}

/// What knows the command line: a message, what the catalog has about it, and all words.
pub type Adviser = fn(&str, Option<&catalog::Known>, &str) -> ptx::Advice;

/// Everything about a message.
#[derive(Debug)]
pub struct Report<'a> {
    pub severity: Severity,
    pub message: &'a str,
    pub code: Option<&'static str>,
    /// The file as messages name it.
    pub file: Option<&'a str>,
    pub source: Option<&'a str>,
    pub place: Option<Place>,
    pub related: Vec<Place>,
    pub notes: Vec<String>,
    pub help: Vec<String>,
    /// ptxas's line.
    pub plain: String,
}

impl<'a> Report<'a> {
    /// A message of the front end or of the compiler about a module.
    pub fn of_module(
        source: Option<Source<'a>>,
        diagnostic: &'a Diagnostic,
        advice: Option<&ptx::Advice>,
        plain: String,
    ) -> Report<'a> {
        let known = catalog::find(&diagnostic.message);
        let advice = advice.cloned().unwrap_or_default();
        let text = source.map_or("", |source| source.text);
        let whole = place_of(diagnostic, text);
        let own = whole.zip(diagnostic.line).map(|(span, line)| {
            let span = advice.place.unwrap_or(span);
            // The operand may stand in a later line than the opcode.
            let line = if span == whole.unwrap_or(span) { line } else { line_of(text, span.start).max(line) };
            Place { span, line, label: advice.label.clone().unwrap_or_default() }
        });
        let related = advice.related.iter().map(|(span, label)| Place {
            span: *span,
            line: line_of(text, span.start),
            label: label.clone(),
        });
        let mut help = advice.help;
        if help.is_empty() {
            help.extend(known.as_ref().map(|known| known.help.clone()));
        }
        Report {
            severity: diagnostic.severity,
            message: &diagnostic.message,
            code: known.map(|known| known.code),
            file: diagnostic.file.as_deref().or(source.map(|source| source.name)),
            source: source.map(|source| source.text).filter(|_| own.is_some()),
            related: related.collect(),
            place: own,
            notes: advice.notes,
            help,
            plain,
        }
    }

    /// A message about the command line, whose words are given with blanks between.
    pub fn of_command(
        severity: Severity,
        message: &'a str,
        command: &'a str,
        advise: Adviser,
        plain: String,
    ) -> Report<'a> {
        let known = catalog::find(message);
        let advice = advise(message, known.as_ref(), command);
        let mut help = advice.help;
        if help.is_empty() {
            help.extend(known.as_ref().map(|known| known.help.clone()));
        }
        let label = advice.label.unwrap_or_default();
        Report {
            severity,
            message,
            code: known.map(|known| known.code),
            file: None,
            source: advice.place.map(|_| command),
            place: advice.place.map(|span| Place { span, line: 1, label }),
            related: Vec::new(),
            notes: advice.notes,
            help,
            plain,
        }
    }

    /// As a style prints it.
    pub fn print(&self, style: Style) -> String {
        match style {
            Style::Ptxas => self.plain.clone(),
            // What `-v` says is read as it is.
            Style::Rich { .. } if self.severity == Severity::Info => self.plain.clone(),
            Style::Rich { colours } => rich::print(self, colours),
            Style::Json => json::print(self),
        }
    }
}

/// The bytes that a diagnostic is about. The compiler knows a line only: then it is the text of that.
fn place_of(diagnostic: &Diagnostic, text: &str) -> Option<Span> {
    let Span { start, end } = diagnostic.span;
    let line = diagnostic.line?;
    if end > start && (start as usize) < text.len() {
        return Some(diagnostic.span);
    }
    if end == start && start > 0 {
        // The end of the text.
        let at = text.trim_end().len().saturating_sub(1).min(start as usize);
        return Some(Span::new(at, at + 1)).filter(|_| !text.trim().is_empty());
    }
    let own =
        diagnostic.file.is_none().then(|| text.split_inclusive('\n').nth(line.saturating_sub(1) as usize));
    let own = own.flatten().filter(|line| !line.trim().is_empty())?;
    let at = own.as_ptr() as usize - text.as_ptr() as usize;
    let indent = own.len() - own.trim_start().len();
    Some(Span::new(at + indent, at + own.trim_end().len()))
}

/// The line of a byte, as the line markers before it count.
fn line_of(text: &str, offset: u32) -> u32 {
    let before = text.get(..offset as usize).unwrap_or_default();
    let mut line = 0;
    for row in before.split('\n') {
        line += 1;
        let number = row.strip_prefix("# ").and_then(|row| row.split(' ').next()?.parse::<u32>().ok());
        if let Some(number) = number.filter(|_| row.contains('"')) {
            line = number.saturating_sub(1);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_chooses_the_form() {
        let of = |line: &str| Style::of(&line.split(' ').map(String::from).collect::<Vec<_>>(), true);
        assert_eq!(of("k.ptx --diagnostics=json"), Style::Json);
        assert_eq!(of("--diagnostics json k.ptx"), Style::Json);
        assert_eq!(of("--diagnostics=json --diagnostics=ptxas"), Style::Ptxas);
        assert_eq!(of("k.ptx"), Style::Ptxas);
    }

    #[test]
    fn lines_count_from_the_last_marker() {
        let text = "a\nb\n# 10 \"x.cu\"\ne\nf";
        let line = |word: &str| line_of(text, text.find(word).expect("the word") as u32);
        assert_eq!([line("a"), line("b"), line("e"), line("f")], [1, 2, 10, 11]);
    }
}
