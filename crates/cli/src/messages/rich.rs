//! Messages for people: the source with what is meant underlined, facts and ways out, by annotate-snippets.

use super::{Place, Report};
use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Element, Group, Level, Renderer, Snippet};
use ptx::Severity;
use std::io::IsTerminal;

/// So many lines of a statement are shown.
const MOST_LINES: usize = 6;

/// Has the terminal colours, and are they wanted? <https://no-color.org>
pub fn has_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stderr().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

fn level(severity: Severity) -> Level<'static> {
    match severity {
        Severity::Info => Level::INFO,
        Severity::Warning => Level::WARNING,
        // What ends everything is an error, too.
        Severity::Error | Severity::Fatal => Level::ERROR,
    }
}

fn renderer(colours: bool) -> Renderer {
    let renderer = if colours { Renderer::styled() } else { Renderer::plain() };
    renderer.decor_style(DecorStyle::Ascii)
}

pub fn print(report: &Report, colours: bool) -> String {
    let title = level(report.severity).primary_title(report.message);
    let title = match report.code {
        Some(code) => title.id(code),
        None => title,
    };
    let mut group = Group::with_title(title);
    if let (Some(source), Some(place)) = (report.source, &report.place) {
        group = group.elements(snippets(report, source, place));
    }
    group = group.elements(report.notes.iter().map(|note| Level::NOTE.message(note)));
    group = group.elements(report.help.iter().map(|help| Level::HELP.message(help)));
    renderer(colours).render(&[group]) + "\n\n"
}

/// The lines of the place, and those of the places that go with it, each part of the source by itself: sources may be
/// hundreds of megabytes.
fn snippets<'a>(report: &'a Report, source: &'a str, place: &'a Place) -> Vec<Element<'a>> {
    let mut own = Window::of(source, place);
    let (near, far): (Vec<&Place>, Vec<&Place>) = report.related.iter().partition(|other| own.has(other));
    let mut snippet = own.snippet(report.file).annotation(own.annotation(AnnotationKind::Primary, place));
    for other in near {
        snippet = snippet.annotation(own.annotation(AnnotationKind::Context, other));
    }
    let mut all: Vec<Element> = vec![snippet.into()];
    for other in far {
        own = Window::of(source, other);
        let snippet = own.snippet(report.file).annotation(own.annotation(AnnotationKind::Context, other));
        all.push(snippet.into());
    }
    all
}

/// The lines of a place.
struct Window<'a> {
    text: &'a str,
    start: usize,
    line: u32,
}

impl<'a> Window<'a> {
    fn of(source: &'a str, place: &Place) -> Window<'a> {
        let from = (place.span.start as usize).min(source.len());
        let to = (place.span.end as usize).clamp(from, source.len());
        let start = source[..from].rfind('\n').map_or(0, |at| at + 1);
        let end = source[to..].find('\n').map_or(source.len(), |at| to + at);
        let long = source[start..end].match_indices('\n').nth(MOST_LINES - 1);
        let end = long.map_or(end, |(at, _)| start + at);
        Window { text: &source[start..end], start, line: place.line }
    }

    fn has(&self, place: &Place) -> bool {
        (self.start..=self.start + self.text.len()).contains(&(place.span.end as usize))
            && place.span.start as usize >= self.start
    }

    fn snippet(&self, file: Option<&'a str>) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let snippet = Snippet::source(self.text).line_start(self.line as usize);
        // A command line is in no file.
        match file {
            Some(file) => snippet.path(file),
            None => snippet.line_numbering(false),
        }
    }

    fn annotation(&self, kind: AnnotationKind, place: &'a Place) -> annotate_snippets::Annotation<'a> {
        let at = |offset: u32| (offset as usize).clamp(self.start, self.start + self.text.len()) - self.start;
        let span = at(place.span.start)..at(place.span.end);
        let label = Some(place.label.as_str()).filter(|label| !label.is_empty());
        kind.span(span).label(label)
    }
}

/// The last line of a command that failed.
pub fn counted(errors: usize, warnings: usize, colours: bool) -> String {
    let number = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let warnings = (warnings > 0).then(|| format!("; {}", number(warnings, "warning")));
    let text = format!("no cubin is written: {}{}", number(errors, "error"), warnings.unwrap_or_default());
    renderer(colours).render(&[Group::with_title(Level::ERROR.primary_title(text))]) + "\n"
}
