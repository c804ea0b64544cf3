//! The grammar of the command line.
//!
//! Long names take two dashes, short ones take one; nothing is abbreviated. A value follows after `=` or is the next
//! word, whatever that looks like; only `-O` and `-m` have it glued on. The first thing that is wrong ends the
//! reading. An option that comes again with another value gets a warning, and the last value counts.

use super::number;
use super::table::{DEPRECATED, GLUED, Id, Kind, OPTIONS, Row};
use super::words;
use crate::log::{Log, Stop};
use sassafras::Cancel;

/// How deep options files may name options files.
const DEPTH: usize = 15;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    On,
    Truth(bool),
    Number(i64),
    Word(String),
    List(Vec<String>),
}

/// What the command line says.
pub struct Given {
    /// One place for each row of the table.
    values: Vec<Option<Value>>,
    pub inputs: Vec<String>,
    /// What the caller in this process may do.
    pub cancel: Option<Cancel>,
}

impl Default for Given {
    fn default() -> Given {
        Given { values: vec![None; OPTIONS.len()], inputs: Vec::new(), cancel: None }
    }
}

impl Given {
    /// With PTX texts as the only inputs, and a caller who may cancel.
    pub fn in_process(mut self, texts: Vec<String>, cancel: Option<Cancel>) -> Given {
        self.inputs.clear();
        self.cancel = cancel;
        if let Some(place) = self.values.get_mut(Id::InputStrings as usize) {
            *place = Some(Value::List(texts));
        }
        self
    }

    pub fn get(&self, id: Id) -> Option<&Value> {
        self.values.get(id as usize)?.as_ref()
    }

    pub fn has(&self, id: Id) -> bool {
        self.get(id).is_some()
    }

    pub fn number(&self, id: Id) -> Option<i64> {
        match self.get(id) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Is it given, and not as zero?
    pub fn asks_for(&self, id: Id) -> bool {
        self.has(id) && self.number(id) != Some(0)
    }

    pub fn truth(&self, id: Id) -> Option<bool> {
        match self.get(id) {
            Some(Value::Truth(truth)) => Some(*truth),
            _ => None,
        }
    }

    pub fn word(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }

    pub fn list(&self, id: Id) -> &[String] {
        match self.get(id) {
            Some(Value::List(list)) => list,
            _ => &[],
        }
    }
}

/// Reads the command line, or says what is wrong with it.
pub fn parse(words: Vec<String>, log: &Log) -> Result<Given, Stop> {
    let mut parser = Parser { given: Given::default(), log };
    parser.words(words, 0).map_err(|message| log.fatal(&message))?;
    Ok(parser.given)
}

struct Parser<'l> {
    given: Given,
    log: &'l Log,
}

impl Parser<'_> {
    fn words(&mut self, words: Vec<String>, depth: usize) -> Result<(), String> {
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if !word.starts_with('-') || word == "-" {
                self.given.inputs.push(word);
                continue;
            }
            let Found { row, spelling, value } = find(&word)?;
            if DEPRECATED.contains(&row.id) {
                self.log.early_warning(&format!("option '{}' has been deprecated", row.long));
            }
            let value = match (value, row.kind) {
                (Some(_), Kind::Flag) => return Err(format!("no argument expected after '{spelling}'")),
                (Some(value), _) => value.to_string(),
                (None, Kind::Flag | Kind::Optional) => String::new(),
                (None, _) if spelling == "-O" => String::new(),
                (None, _) => words.next().ok_or_else(|| format!("argument expected after '{spelling}'"))?,
            };
            match row.kind {
                Kind::OptionsFiles => self.options_files(&value, depth)?,
                _ => self.set(row, read(row, value)?),
            }
        }
        Ok(())
    }

    fn options_files(&mut self, list: &str, depth: usize) -> Result<(), String> {
        for file in words::of_list(list)? {
            if depth == DEPTH {
                return Err(format!("Too many options file opened '{file}'"));
            }
            let text = read_text(&file).ok_or_else(|| format!("Could not open options file '{file}'"))?;
            self.words(words::of_file(&text)?, depth + 1)?;
        }
        Ok(())
    }

    fn set(&mut self, row: &Row, value: Value) {
        let Some(place) = self.given.values.get_mut(row.id as usize) else { return };
        match (place.as_mut(), value) {
            (Some(Value::List(old)), Value::List(new)) => old.extend(new),
            (old, new) => {
                if old.is_some_and(|old| *old != new) {
                    self.log.early_warning(&format!(
                        "incompatible redefinition for option '{}', the last value of this option was used",
                        row.long
                    ));
                }
                *place = Some(new);
            }
        }
    }
}

/// A folder counts as an empty file.
fn read_text(file: &str) -> Option<String> {
    match std::fs::read(file) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => Some(String::new()),
        Err(_) => None,
    }
}

struct Found<'w> {
    row: &'static Row,
    /// The name as it was written, with its dashes.
    spelling: &'w str,
    value: Option<&'w str>,
}

/// The option that a word names. Whole names go before values glued to `-O` and `-m`.
fn find(word: &str) -> Result<Found<'_>, String> {
    let (spelling, value) = match word.split_once('=') {
        Some((spelling, value)) => (spelling, Some(value)),
        None => (word, None),
    };
    let named = |row: &&Row| match spelling.strip_prefix("--") {
        Some(name) => row.long == name,
        None => !row.short.is_empty() && spelling.strip_prefix('-') == Some(row.short),
    };
    if let Some(row) = OPTIONS.iter().find(named) {
        return Ok(Found { row, spelling, value });
    }
    for id in GLUED {
        let row = id.row();
        if let Some(value) = word.strip_prefix('-').and_then(|word| word.strip_prefix(row.short)) {
            return Ok(Found { row, spelling: &word[..=row.short.len()], value: Some(value) });
        }
    }
    Err(format!("Unknown option '{}'", spelling.strip_prefix('-').unwrap_or(spelling)))
}

fn read(row: &Row, text: String) -> Result<Value, String> {
    let undefined = |text: &str| format!("Value '{text}' is not defined for option '{}'", row.long);
    Ok(match row.kind {
        Kind::Flag => Value::On,
        Kind::Truth => match text.as_str() {
            "true" => Value::Truth(true),
            "false" => Value::Truth(false),
            _ => return Err(format!("'{text}': expected true or false")),
        },
        Kind::Number => Value::Number(read_number(&text, i32::MIN.into(), i32::MAX.into(), "integer")?),
        Kind::Unsigned => Value::Number(read_number(&text, 0, u32::MAX.into(), "hex")?),
        Kind::NumberOf(allowed) => {
            let number = read_number(&text, i32::MIN.into(), i32::MAX.into(), "integer")?;
            if !allowed.iter().any(|a| i64::from(*a) == number) {
                return Err(undefined(&text));
            }
            Value::Number(number)
        }
        Kind::OneOf(allowed) if !allowed(&text) => return Err(undefined(&text)),
        Kind::Word | Kind::OneOf(_) | Kind::Optional => Value::Word(text),
        Kind::List | Kind::OptionsFiles => Value::List(words::of_list(&text)?),
        Kind::ListOf(allowed) => {
            let list = words::of_list(&text)?;
            if let Some(other) = list.iter().find(|word| !allowed.contains(&word.as_str())) {
                return Err(undefined(other));
            }
            Value::List(list)
        }
        Kind::Texts => Value::List(vec![text]),
        Kind::Pairs => {
            let list = words::of_list(&text)?;
            if let Some(other) = list.iter().find(|word| !word.contains('=')) {
                return Err(format!("'{other}' is not in 'keyword=value' format"));
            }
            Value::List(list)
        }
    })
}

fn read_number(text: &str, least: i64, most: i64, kind: &str) -> Result<i64, String> {
    let number = number::read(text).ok_or_else(|| format!("'{text}': expected a number"))?;
    if !(least..=most).contains(&number) {
        return Err(format!("32-bit {kind} value ({text}) out of range"));
    }
    Ok(number)
}
