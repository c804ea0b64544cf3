//! The inputs of a compilation, and how several become one module.
//!
//! ptxas reads files first, then strings, all into one table of names: a later input sees the functions of the
//! earlier ones, a name that comes twice is an error, and the last header counts. Each input is checked, also after
//! one that is bad. Here the inputs become one text: the last header, then every input with its own header blanked
//! out, after a line marker by which its diagnostics are found again. Where the last header doesn't allow what
//! another input has, the text is read with the header of another one, and the last counts afterwards.

use crate::log::{Log, Stop};
use crate::messages::Style;
use crate::options::{Given, Id};
use ptx::ast::Module;
use ptx::diag::Diagnostic;
use std::io::Read;

/// What ptxas calls PTX that is on the command line.
const STRING: &str = "application ptx input";

/// The standard input. ptxas copies it into a file with a number in its name, and prints that name.
const STANDARD_INPUT: &str = "<stdin>";

pub struct Input {
    pub name: String,
    bytes: Vec<u8>,
}

impl Input {
    fn is_string(&self) -> bool {
        self.name == STRING
    }

    /// The text, or why it is none.
    fn text(&self) -> Result<&str, Diagnostic> {
        ptx::source_text(&self.bytes)
    }
}

/// All inputs that can be read, in ptxas's order.
fn read(given: &Given) -> impl Iterator<Item = Result<Input, String>> {
    let files = given.inputs.iter().map(|name| read_file(name));
    let strings = given.list(Id::InputStrings).iter();
    files.chain(strings.map(|text| Ok(Input { name: STRING.into(), bytes: text.clone().into_bytes() })))
}

/// A folder counts as an empty file.
fn read_file(name: &str) -> Result<Input, String> {
    let mut bytes = Vec::new();
    let (name, result) = match name {
        "-" => (STANDARD_INPUT, std::io::stdin().read_to_end(&mut bytes).map(|_| ())),
        _ => (name, std::fs::File::open(name).and_then(|mut file| file.read_to_end(&mut bytes).map(|_| ()))),
    };
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::IsADirectory => {
            Err(format!("Input file '{name}' could not be opened"))
        }
        _ => Ok(Input { name: name.to_string(), bytes }),
    }
}

/// The one text that is compiled, and its name.
pub struct Program {
    pub name: String,
    pub text: String,
    /// Is it made of several inputs? Then their diagnostics have been printed.
    pub is_joined: bool,
    /// The header that counts, where the text has another one.
    header: Option<String>,
}

impl Program {
    pub fn read(given: &Given, log: &mut Log) -> Result<Program, Stop> {
        let mut inputs = Vec::new();
        let is_single = given.inputs.len() + given.list(Id::InputStrings).len() == 1;
        for input in read(given) {
            let input = match input {
                Ok(input) => input,
                Err(message) => {
                    log.fatal_for_input(&message);
                    continue;
                }
            };
            if let Err(diagnostic) = input.text() {
                log.diagnostics(&input.name, "", &[diagnostic], &[]);
            } else if is_single {
                let Input { name, bytes } = input;
                let text = String::from_utf8(bytes).unwrap_or_default();
                return Ok(Program { name, text, is_joined: false, header: None });
            } else if let Some(joined) = check_behind(&inputs, &input, given, log)? {
                inputs.push(Part::new(input, joined));
            }
        }
        log.abort_if_failed()?;
        let Part { name, header, joined, .. } = inputs.pop().ok_or(Stop)?;
        let other = || inputs.iter().find_map(|other| other.allows(&joined, &header));
        let (text, header) = match if is_allowed(&joined) { None } else { other() } {
            Some(text) => (text, Some(header)),
            None => (joined, None),
        };
        Ok(Program { name, text, is_joined: true, header })
    }

    /// What the last header says, where the text was read with another.
    pub fn correct_header<'a>(&'a self, module: &mut Module<'a>) {
        let parse = |header| ptx::parse(header, &ptx::Options::for_file(&self.name)).module;
        if let Some(last) = self.header.as_deref().and_then(parse) {
            module.version = last.version;
            module.target = last.target;
            module.target_options = last.target_options;
        }
    }
}

fn is_allowed(text: &str) -> bool {
    !ptx::parse(text, &ptx::Options { check_only: true, ..Default::default() }).failed()
}

/// An input that was read to its end; its names count, whatever was wrong.
struct Part {
    name: String,
    header: String,
    /// Its text with the header blanked out.
    body: String,
    /// The text of it and all before it.
    joined: String,
}

impl Part {
    fn new(input: Input, joined: String) -> Part {
        let text = input.text().unwrap_or_default();
        let (header, body) = (text[..header_end(text)].to_string(), blank_header(text));
        Part { name: input.name, header, body, joined }
    }

    /// A text that begins with another header, with the one of this input instead if that allows it.
    fn allows(&self, text: &str, header: &str) -> Option<String> {
        let text = text.strip_prefix(header).map(|rest| self.header.clone() + rest);
        text.filter(|text| is_allowed(text))
    }
}

/// Prints the diagnostics of an input after others. The joined text, unless the input ended early.
fn check_behind(parts: &[Part], input: &Input, given: &Given, log: &mut Log) -> Result<Option<String>, Stop> {
    let Ok(text) = input.text() else { return Ok(None) };
    let mut joined = text[..header_end(text)].to_string();
    for (index, part) in parts.iter().enumerate() {
        joined += &format!("\n# 1 \"{}\"\n{}", marker(index), part.body);
    }
    joined += &format!("\n# 1 \"{}\"\n{}", marker(parts.len()), blank_header(text));
    let is_alone = parts.is_empty() || header_end(text) == 0 || !text.is_ascii() || text.contains('\0');
    let source = if is_alone { text } else { &joined };
    let parsed = ptx::parse(
        source,
        &ptx::Options {
            file: input.name.clone(),
            check_only: true,
            advise: log.style != Style::Ptxas,
            toolkit: given.toolkit(),
        },
    );
    let own =
        |d: &&Diagnostic| d.file.as_ref().is_none_or(|file| (0..parts.len()).all(|i| marker(i) != *file));
    let numbers: Vec<usize> =
        parsed.diagnostics.iter().enumerate().filter(|(_, d)| own(d)).map(|(number, _)| number).collect();
    let mut own: Vec<Diagnostic> = parsed.diagnostics.iter().filter(own).cloned().collect();
    let moved = |(number, advice): (usize, ptx::Advice)| {
        Some((numbers.iter().position(|own| *own == number)?, advice))
    };
    let advice: Vec<(usize, ptx::Advice)> = parsed.advice.into_iter().filter_map(moved).collect();
    for diagnostic in own.iter_mut().filter(|d| d.file.as_deref() == Some(&marker(parts.len()))) {
        diagnostic.file = None;
    }
    log.diagnostics(&input.name, source, &own, &advice);
    if input.is_string() && ends_at_once(&own) {
        return Err(Stop);
    }
    let is_read_to_end = parsed.module.is_some();
    Ok(is_read_to_end.then_some(joined))
}

fn marker(index: usize) -> String {
    format!("input {index}")
}

/// XLA asks for the newest version by a string with a future one, and wants exactly one line for an answer.
pub fn ends_at_once(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.last().is_some_and(|d| d.message.starts_with("Unsupported .version"))
}

impl Program {
    pub fn is_string(&self) -> bool {
        self.name == STRING
    }
}

/// Where `.version`, `.target` and `.address_size` end.
fn header_end(text: &str) -> usize {
    let mut end = 0;
    loop {
        let rest = skip_blanks(&text[end..]);
        let start = text.len() - rest.len();
        let directive = [".version", ".target", ".address_size"].into_iter().find(|d| rest.starts_with(d));
        let Some(directive) = directive else { return end };
        end = start + directive.len() + value_length(&rest[directive.len()..]);
    }
}

/// How long the words with commas between are that follow a directive.
fn value_length(text: &str) -> usize {
    let mut length = 0;
    loop {
        let rest = skip_blanks(&text[length..]);
        let word =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').unwrap_or(rest.len());
        length = text.len() - rest.len() + word;
        match skip_blanks(&text[length..]).strip_prefix(',') {
            Some(rest) => length = text.len() - rest.len(),
            None => return length,
        }
    }
}

/// Without blanks and comments in front.
fn skip_blanks(text: &str) -> &str {
    let mut text = text.trim_start();
    loop {
        let rest = match () {
            _ if text.starts_with("//") => text.find('\n').map(|at| &text[at..]),
            _ if text.starts_with("/*") => text.find("*/").map(|at| &text[at + 2..]),
            _ => return text,
        };
        text = rest.unwrap_or_default().trim_start();
    }
}

/// The text with a header of blanks, so that every line keeps its number.
fn blank_header(text: &str) -> String {
    let (header, body) = text.split_at(header_end(text));
    let blank = header.chars().map(|c| if c == '\n' { '\n' } else { ' ' });
    blank.chain(body.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let text = "// c\n.version 8.0\n.target sm_90, /* d */ debug\n .address_size 64\n.entry k() {}";
        assert_eq!(&text[header_end(text)..], "\n.entry k() {}");
        assert_eq!(header_end(".version 8.0 .target sm_75 .entry k"), 26);
        assert_eq!(header_end("no header"), 0);
        assert_eq!(blank_header(text).lines().count(), text.lines().count());
        assert_eq!(blank_header(text).trim_start(), ".entry k() {}");
    }
}
