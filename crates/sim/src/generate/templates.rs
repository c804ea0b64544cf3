//! The table of templates, read.

use super::class::{CLASSES, Class};
use std::sync::LazyLock;

pub struct Template {
    pub group: &'static str,
    pub pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(&'static str),
    Result(Class),
    Source(Class),
    SourceOrConstant(Class),
    /// From the first to the last, in steps.
    Number {
        first: u32,
        last: u32,
        step: u32,
    },
    OneOf(Vec<&'static str>),
    /// The mask of the lanes that are here.
    Members,
    /// The same, if these are all 32.
    Full,
    /// Nothing, if the whole block is here.
    Block,
}

impl Piece {
    /// Is there anything to choose?
    pub fn is_open(&self) -> bool {
        !matches!(self, Piece::Text(_) | Piece::Members | Piece::Full | Piece::Block)
    }

    /// The class of a register.
    pub fn class(&self) -> Option<Class> {
        match self {
            Piece::Result(class) | Piece::Source(class) | Piece::SourceOrConstant(class) => Some(*class),
            _ => None,
        }
    }
}

impl Template {
    /// Does it need to know who is here?
    pub fn is_collective(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Members | Piece::Full | Piece::Block))
    }
}

static TABLE: LazyLock<Vec<Template>> = LazyLock::new(|| {
    rows()
        .chain(more_rows())
        .map(|row| read(row).expect("every row of the table has the form of its header"))
        .collect()
});

/// All rows, in order.
pub fn table() -> &'static [Template] {
    &TABLE
}

/// The groups of `templates.tab`, each once, in order. Seeds of mixed programs hold for these.
pub fn groups() -> Vec<&'static str> {
    let mut groups: Vec<_> = table()[..rows().count()].iter().map(|template| template.group).collect();
    groups.dedup();
    groups
}

fn rows() -> impl Iterator<Item = &'static str> {
    lines(include_str!("templates.tab"))
}

/// What only some kinds of programs have.
fn more_rows() -> impl Iterator<Item = &'static str> {
    lines(include_str!("approximate.tab"))
}

fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn read(row: &'static str) -> Option<Template> {
    let (group, mut rest) = row.split_once(' ')?;
    rest = rest.trim_start();
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let open = rest.find(['<', '(']).unwrap_or(rest.len());
        let (text, from) = rest.split_at(open);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        rest = match from.as_bytes().first() {
            None => "",
            Some(b'<') => {
                let (inside, after) = from[1..].split_once('>')?;
                pieces.push(place(inside)?);
                after
            }
            Some(_) => {
                let (inside, after) = from[1..].split_once(')')?;
                pieces.push(Piece::OneOf(inside.split('|').collect()));
                after
            }
        };
    }
    Some(Template { group, pieces })
}

/// What stands between `<` and `>`.
fn place(inside: &str) -> Option<Piece> {
    match inside {
        "members" => return Some(Piece::Members),
        "full" => return Some(Piece::Full),
        "block" => return Some(Piece::Block),
        _ => {}
    }
    if let Some((first, rest)) = inside.split_once("..") {
        let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
        return Some(Piece::Number {
            first: first.parse().ok()?,
            last: last.parse().ok()?,
            step: step.parse().ok()?,
        });
    }
    let class =
        |letter: &str| CLASSES.iter().find(|info| letter.chars().eq([info.letter])).map(|info| info.class);
    if let Some(letter) = inside.strip_prefix('=') {
        return class(letter).map(Piece::Result);
    }
    match inside.strip_suffix('#') {
        Some(letter) => class(letter).map(Piece::SourceOrConstant),
        None => class(inside).map(Piece::Source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        assert!(rows().count() > 300);
        for row in rows().chain(more_rows()) {
            let template = read(row).unwrap_or_else(|| panic!("{row}"));
            assert!(row.ends_with(';') && template.pieces.len() > 1, "{row}");
        }
    }

    #[test]
    fn a_row_in_pieces() {
        let template = read("g    add.(s32|u32) <=r>, <d#>, [x+<0..60:4>];").unwrap();
        assert_eq!(
            template.pieces,
            [
                Piece::Text("add."),
                Piece::OneOf(vec!["s32", "u32"]),
                Piece::Text(" "),
                Piece::Result(Class::Word),
                Piece::Text(", "),
                Piece::SourceOrConstant(Class::Long),
                Piece::Text(", [x+"),
                Piece::Number { first: 0, last: 60, step: 4 },
                Piece::Text("];"),
            ]
        );
    }
}
