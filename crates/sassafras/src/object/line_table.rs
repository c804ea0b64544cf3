//! Line tables (`-lineinfo`): the line of the source, and that of the PTX text, that each word of the code is for.
//!
//! `.debug_line` has what `.loc` says, `.nv_debug_line_sass` the lines of the PTX text that `.nv_debug_ptx_txt` holds.
//! A word that is for no instruction, or for one with `.loc` line 0, belongs to the row before it. The first word of a
//! function, which is for none, gets the function's first `.loc`, and the PTX line of its `{`.
//!
//! Rows are as ptxas makes them, but for two things: it makes no row where only the file changes, and it takes the time
//! and size of a source file from the disk where `.file` doesn't give them. A cubin of ours depends on its input alone.

use super::{Compiled, Input};
use crate::context::Failure;
use crate::context::Lines;
use cubin::RelocType;
use cubin::line::{Inlined, LineTable, Row, Sequence, SourceFile};
use cubin::module::{DebugSection, SymbolicReloc};
use ptx::ast::{self, Item, SectionLine, Stmt};
use rustc_hash::FxHashMap;

/// The sections of the line tables, in ptxas's order. Functions come in the order of their sections.
pub fn sections(
    input: &Input,
    functions: &[&Compiled],
    relocatable: bool,
) -> Result<Vec<DebugSection>, Failure> {
    let Input { source, lines, module, .. } = *input;
    let (names, labels) = names_of_functions(module)?;
    let mut all = vec![source_table(module, &labels, functions)];
    if !names.is_empty() {
        all.push(DebugSection { name: ".debug_str".into(), bytes: names, relocs: Vec::new() });
    }
    all.push(ptx_table(source, lines, functions));
    // In an object the text has a name of its own, so that the linker keeps it apart from others.
    let suffix = if relocatable { format!(".{}", checksum(source)) } else { String::new() };
    let name = format!(".nv_debug_ptx_txt{suffix}");
    all.push(DebugSection { name, bytes: text_of_lines(source), relocs: Vec::new() });
    Ok(all)
}

/// Adler's checksum.
fn checksum(text: &str) -> u32 {
    const MODULUS: u32 = 65521;
    let step = |(low, high): (u32, u32), byte: u8| {
        let low = (low + u32::from(byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    };
    let (low, high) = text.bytes().fold((1, 0), step);
    high << 16 | low
}

/// Does any function say which lines its instructions are for?
pub fn has_locs(module: &ast::Module) -> bool {
    module.items.iter().any(|item| locs(item).next().is_some())
}

fn section(name: &str, table: LineTable, functions: Vec<&str>) -> DebugSection {
    let (bytes, addresses) = table.write();
    let reloc = |(offset, symbol): (u64, &str)| SymbolicReloc {
        offset,
        kind: RelocType::DATA_64,
        symbol: symbol.to_string(),
        addend: 0,
    };
    let relocs = addresses.into_iter().zip(functions).map(reloc).collect();
    DebugSection { name: name.into(), bytes, relocs }
}

/// `.debug_line`; functions without `.loc` have no part in it.
fn source_table(module: &ast::Module, labels: &Labels, functions: &[&Compiled]) -> DebugSection {
    let mut table = LineTable::default();
    let mut numbers = FxHashMap::default();
    for item in &module.items {
        if let Item::File(file) = item {
            let source = source_file(file, &mut table.directories);
            table.files.push(source);
            numbers.insert(file.index, table.files.len() as u64);
        }
    }
    let positions = Positions::new(module, labels, &numbers);
    let mut named = Vec::new();
    for function in functions {
        let rows = positions.rows(function);
        if !rows.is_empty() {
            table.sequences.push(sequence(rows, function));
            named.push(function.kernel.code.name.as_str());
        }
    }
    section(".debug_line", table, named)
}

fn sequence(rows: Vec<Row>, function: &Compiled) -> Sequence {
    Sequence { rows, end: function.encoded.bytes.len() as u64, ..Sequence::default() }
}

/// A file whose path has a folder: what is before its last separator, but for a separator that comes first.
fn source_file(file: &ast::File, directories: &mut Vec<String>) -> SourceFile {
    let path = file.path.trim_matches('"');
    let (directory, name) = match path.rfind(['/', '\\']).filter(|at| *at > 0) {
        Some(at) => (Some(&path[..at]), &path[at + 1..]),
        None => (None, path),
    };
    let number = directory.map_or(0, |directory| {
        let known = directories.iter().position(|d| d == directory);
        known.unwrap_or_else(|| {
            directories.push(directory.to_string());
            directories.len() - 1
        }) + 1
    });
    let stamp = |i: usize| file.stamp.get(i).copied().unwrap_or(0);
    SourceFile { name: name.to_string(), directory: number as u64, modified: stamp(0), size: stamp(1) }
}

/// What a `.loc` says, without its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Position {
    file: u64,
    line: u64,
    inlined: Option<InlinedPosition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InlinedPosition {
    /// The number of the position of the call.
    caller: usize,
    /// Offset of the function's name in `.debug_str`.
    function: u64,
}

/// The source positions of a module, each once, and where in the text each takes effect.
#[derive(Default)]
struct Positions {
    all: Vec<Position>,
    /// Byte of the text and number of the position, in the order of the text.
    locs: Vec<(u32, usize)>,
}

impl Positions {
    /// `inlined_at` means the last `.loc` before it with the same three numbers.
    fn new(module: &ast::Module, labels: &Labels, files: &FxHashMap<u32, u64>) -> Positions {
        let mut positions = Positions::default();
        let mut numbers: FxHashMap<Position, usize> = FxHashMap::default();
        let mut written: FxHashMap<(u32, u32, u32), usize> = FxHashMap::default();
        for loc in module.items.iter().flat_map(locs) {
            let inlined = loc.inlined.as_ref().and_then(|i| {
                let caller = *written.get(&(i.file, i.line, i.column))?;
                let label = labels.get(module.names[i.function.0 as usize])?;
                Some(InlinedPosition { caller, function: label.wrapping_add_signed(i.offset) })
            });
            let file = files.get(&loc.file).copied().unwrap_or(0);
            let position = Position { file, line: loc.line.into(), inlined };
            let number = *numbers.entry(position).or_insert_with(|| {
                positions.all.push(position);
                positions.all.len() - 1
            });
            written.insert((loc.file, loc.line, loc.column), number);
            positions.locs.push((loc.span.start, number));
        }
        positions
    }

    fn rows(&self, function: &Compiled) -> Vec<Row> {
        let Some(first) = body_locs(function.source).next() else { return Vec::new() };
        let start = self.locs.partition_point(|(at, _)| *at < first.span.start);
        let locs = &self.locs[start..start + body_locs(function.source).count()];
        let is_line = |number: usize| self.all[number].line > 0;
        let in_force = |at: u32| locs[..locs.partition_point(|(loc, _)| *loc < at)].last().map(|loc| loc.1);
        let mut rows = Rows { positions: &self.all, rows: Vec::new(), callers: FxHashMap::default() };
        let mut now = None;
        for (word, at) in function.encoded.at.iter().enumerate() {
            let position = match word {
                0 => locs.iter().map(|loc| loc.1).find(|number| is_line(*number)),
                _ => in_force(*at).filter(|number| is_line(*number)),
            };
            if let Some(position) = position.filter(|position| now != Some(*position)) {
                rows.push(position, address(word));
                now = Some(position);
            }
        }
        rows.rows
    }
}

fn address(word: usize) -> u64 {
    word as u64 * sass::WORD_BYTES
}

/// The rows of a function, as they are made.
struct Rows<'a> {
    positions: &'a [Position],
    rows: Vec<Row>,
    /// By position, the numbers of the rows that inlined ones name, counted from 1.
    callers: FxHashMap<usize, u64>,
}

impl Rows<'_> {
    /// A row, after those of the calls that lead to it and have none yet.
    fn push(&mut self, position: usize, address: u64) {
        let caller = |position: usize| self.positions[position].inlined.map(|inlined| inlined.caller);
        // A position comes after that of its call in the text, so the chain ends.
        let callers = std::iter::successors(caller(position), |position| caller(*position));
        let new: Vec<usize> = callers.take_while(|position| !self.callers.contains_key(position)).collect();
        for position in new.into_iter().rev() {
            self.push_one(position, address);
            self.callers.insert(position, self.rows.len() as u64);
        }
        self.push_one(position, address);
    }

    fn push_one(&mut self, position: usize, address: u64) {
        let Position { file, line, inlined } = self.positions[position];
        let inlined = inlined.map(|InlinedPosition { caller, function }| {
            let call_row = self.callers.get(&caller).copied().unwrap_or(0);
            Inlined { call_row, function }
        });
        self.rows.push(Row { address, file, line, inlined });
    }
}

fn locs<'a>(item: &'a Item) -> impl Iterator<Item = &'a ast::Loc> {
    let function = if let Item::Function(function) = item { Some(function) } else { None };
    function.into_iter().flat_map(|function| body_locs(function))
}

fn body_locs<'a>(function: &'a ast::Function) -> impl Iterator<Item = &'a ast::Loc> {
    let stmts = function.body.iter().flat_map(|body| &body.stmts);
    stmts.filter_map(|stmt| if let Stmt::Loc(loc) = stmt { Some(&**loc) } else { None })
}

/// The offsets of the labels of `.debug_str`.
type Labels<'a> = FxHashMap<&'a str, u64>;

/// The bytes and labels of `.debug_str`.
fn names_of_functions<'a>(module: &'a ast::Module) -> Result<(Vec<u8>, Labels<'a>), Failure> {
    let (mut bytes, mut labels) = (Vec::new(), FxHashMap::default());
    let is_names = |item: &&'a Item| matches!(item, Item::Section(section) if section.name == ".debug_str");
    for item in module.items.iter().filter(is_names) {
        let Item::Section(section) = item else { continue };
        for line in &section.lines {
            match line {
                SectionLine::Label(label) => {
                    labels.insert(*label, bytes.len() as u64);
                }
                SectionLine::Data(ty, values) => {
                    for value in values {
                        let number = integer(value).ok_or_else(|| not_a_name(value))?;
                        bytes.extend(&number.to_le_bytes()[..(ty.bytes() as usize).min(8)]);
                    }
                }
            }
        }
    }
    Ok((bytes, labels))
}

fn integer(text: &str) -> Option<i64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|bits| bits as i64),
        None => text.parse().ok(),
    }
}

fn not_a_name(value: &str) -> Failure {
    Failure::of_module(format!("'{value}' in section '.debug_str' is not supported yet"))
}

/// `.nv_debug_line_sass`
fn ptx_table(source: &str, lines: &Lines, functions: &[&Compiled]) -> DebugSection {
    let rows = |function: &&Compiled| {
        let mut rows: Vec<Row> = Vec::new();
        for (word, at) in function.encoded.at.iter().enumerate() {
            let at = if word == 0 { body_start(source, function.source.span.end) } else { *at };
            let line = lines.line(at).into();
            if at > 0 && rows.last().is_none_or(|row| row.line != line) {
                rows.push(Row { address: address(word), file: 0, line, inlined: None });
            }
        }
        sequence(rows, function)
    };
    let table = LineTable { sequences: functions.iter().map(rows).collect(), ..LineTable::default() };
    let names = functions.iter().map(|function| function.kernel.code.name.as_str());
    section(".nv_debug_line_sass", table, names.collect())
}

/// Where the first `{` is that is in no comment or string.
fn body_start(source: &str, from: u32) -> u32 {
    let mut at = from as usize;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty() && !rest.starts_with('{')) {
        let end_of = |open: &str, close: &str| {
            let inside = rest.strip_prefix(open)?;
            Some(open.len() + inside.find(close).map_or(inside.len(), |i| i + close.len()))
        };
        let skipped = end_of("//", "\n").or_else(|| end_of("/*", "*/")).or_else(|| end_of("\"", "\""));
        at += skipped.unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
    }
    at as u32
}

/// Lines that begin like this are empty in `.nv_debug_ptx_txt`; but `.local` variables stay.
const LEFT_OUT: [&str; 6] = ["//", ".loc", ".file", ".b8", ".b32", ".b64"];

/// `.nv_debug_ptx_txt`: the lines of the text, each terminated by a zero, up to the last that isn't empty.
fn text_of_lines(source: &str) -> Vec<u8> {
    let kept = |line: &&str| LEFT_OUT.iter().all(|w| !line.starts_with(w)) || line.starts_with(".local");
    let mut text = Vec::with_capacity(source.len());
    let mut end = 0;
    for line in source.lines() {
        let line = Some(line.trim_start()).filter(kept).unwrap_or("");
        text.extend_from_slice(line.as_bytes());
        text.push(0);
        end = if line.is_empty() { end } else { text.len() };
    }
    text.truncate(end);
    text
}
