//! Line tables: `.debug_line` (code offset to source line) and `.nv_debug_line_sass` (code offset to line of the
//! PTX text).
//!
//! DWARF 2 with one extension: extended opcode 0x90 says that the rows that follow were inlined. Its operands are
//! the row (counted from 1 within the sequence) where the call is, and the offset of the callee's name in
//! `.debug_str`; zeros end it. General DWARF readers do not keep that with the rows, hence the reader here.
//!
//! A table that is read and written again has the same rows, and nearly always the same bytes: only advances that
//! ptxas splits in two become one.

#![allow(missing_docs, reason = "types say what they are; the names of fields are those of the format")]

use crate::bytes::{Cursor, Flaw, Put};

const VERSION: u16 = 2;
const LINE_BASE: i8 = -5;
const LINE_RANGE: u8 = 14;
const OPCODE_BASE: u8 = 10;
const OPERAND_COUNTS: [u8; 9] = [0, 1, 1, 1, 1, 0, 0, 0, 1];

/// Ends the header of a table with inlined rows. What it means is not known; nvdisasm does not read such a table
/// without it.
const HEADER_EXTENSION: u32 = 0;

/// Standard opcodes.
mod op {
    pub const EXTENDED: u8 = 0;
    pub const COPY: u8 = 1;
    pub const ADVANCE_PC: u8 = 2;
    pub const ADVANCE_LINE: u8 = 3;
    pub const SET_FILE: u8 = 4;
    pub const SET_COLUMN: u8 = 5;
    pub const NEGATE_STMT: u8 = 6;
    pub const BASIC_BLOCK: u8 = 7;
    pub const CONST_ADD_PC: u8 = 8;
    pub const FIXED_ADVANCE_PC: u8 = 9;
}

/// Extended opcodes.
mod extended {
    pub const END_SEQUENCE: u8 = 1;
    pub const SET_ADDRESS: u8 = 2;
    pub const INLINED: u8 = 0x90;
}

/// One table of a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineTable {
    pub directories: Vec<String>,
    /// Rows name them by number, from 1. `.nv_debug_line_sass` has none, and its rows are of file 0.
    pub files: Vec<SourceFile>,
    pub sequences: Vec<Sequence>,
}

/// A row of the table of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub name: String,
    /// From 1; 0 is the folder of the compilation.
    pub directory: u64,
    /// Time of the last change and size, as ptxas finds them; 0 if unknown.
    pub modified: u64,
    pub size: u64,
}

/// The rows of one function, in the order of the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The address that the relocation of the sequence adds to; 0.
    pub start: u64,
    pub rows: Vec<Row>,
    /// The first offset after the function.
    pub end: u64,
    /// Where in the section the address is, for the relocation against the function. Set by the reader.
    pub address_at: u64,
}

/// The code from `address` on belongs to `line`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub address: u64,
    pub file: u64,
    pub line: u64,
    pub inlined: Option<Inlined>,
}

/// Where the code of a row was inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// The row of the call, counted from 1 within the sequence.
    pub call_row: u64,
    /// The offset of the callee's name in `.debug_str`.
    pub function: u64,
}

/// Reads the tables of a section.
pub fn read(data: &[u8]) -> Result<Vec<LineTable>, Flaw> {
    let mut tables = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let length = Cursor::at(data, at).u32()? as usize;
        let end = at + 4 + Cursor::at(data, at + 4).take(length)?.len();
        tables.push(read_table(data.get(..end).unwrap_or_default(), at + 4)?);
        at = end;
    }
    Ok(tables)
}

fn read_table(data: &[u8], start: usize) -> Result<LineTable, Flaw> {
    let mut cursor = Cursor::at(data, start);
    let version = cursor.u16()?;
    if version != VERSION {
        return Err(Flaw::new(start, format!("line table of DWARF {version}, not {VERSION}")));
    }
    let header_size = cursor.u32()? as usize;
    let program = cursor.position().saturating_add(header_size);
    let _min_instruction = cursor.u8()?;
    let _default_is_stmt = cursor.u8()?;
    let line_base = cursor.u8()? as i8;
    let line_range = cursor.u8()?;
    let opcode_base = cursor.u8()?;
    if line_range == 0 || opcode_base != OPCODE_BASE {
        let message = format!("line range {line_range} and opcode base {opcode_base} are not those of ptxas");
        return Err(Flaw::new(start, message));
    }
    cursor.take(OPERAND_COUNTS.len())?;
    let mut directories = Vec::new();
    while let Some(name) = text(&mut cursor)? {
        directories.push(name);
    }
    let mut files = Vec::new();
    while let Some(name) = text(&mut cursor)? {
        let (directory, modified, size) = (uleb(&mut cursor)?, uleb(&mut cursor)?, uleb(&mut cursor)?);
        files.push(SourceFile { name, directory, modified, size });
    }
    let mut machine =
        Machine { cursor: Cursor::at(data, program), line_base, line_range, sequences: Vec::new() };
    machine.run()?;
    Ok(LineTable { directories, files, sequences: machine.sequences })
}

/// Runs a line program.
struct Machine<'a> {
    cursor: Cursor<'a>,
    line_base: i8,
    line_range: u8,
    sequences: Vec<Sequence>,
}

const FIRST_ROW: Row = Row { address: 0, file: 1, line: 1, inlined: None };

impl Machine<'_> {
    fn run(&mut self) -> Result<(), Flaw> {
        let mut row = FIRST_ROW;
        let mut sequence = Sequence::default();
        while !self.cursor.is_at_end() {
            let opcode = self.cursor.u8()?;
            match opcode {
                op::EXTENDED => self.extended(&mut row, &mut sequence)?,
                op::COPY => sequence.rows.push(row),
                op::ADVANCE_PC => row.address = row.address.wrapping_add(uleb(&mut self.cursor)?),
                op::ADVANCE_LINE => row.line = row.line.wrapping_add_signed(sleb(&mut self.cursor)?),
                op::SET_FILE => row.file = uleb(&mut self.cursor)?,
                op::SET_COLUMN => {
                    uleb(&mut self.cursor)?;
                }
                op::NEGATE_STMT | op::BASIC_BLOCK => {}
                op::CONST_ADD_PC => self.special(u8::MAX, &mut row, false),
                op::FIXED_ADVANCE_PC => row.address = row.address.wrapping_add(self.cursor.u16()?.into()),
                opcode => {
                    self.special(opcode, &mut row, true);
                    sequence.rows.push(row);
                }
            }
        }
        Ok(())
    }

    /// A special opcode moves the address and the line at once.
    fn special(&self, opcode: u8, row: &mut Row, with_line: bool) {
        let adjusted = opcode - OPCODE_BASE;
        row.address = row.address.wrapping_add((adjusted / self.line_range).into());
        if with_line {
            let advance = i64::from(self.line_base) + i64::from(adjusted % self.line_range);
            row.line = row.line.wrapping_add_signed(advance);
        }
    }

    fn extended(&mut self, row: &mut Row, sequence: &mut Sequence) -> Result<(), Flaw> {
        let size = usize::try_from(uleb(&mut self.cursor)?).unwrap_or(usize::MAX);
        let start = self.cursor.position();
        let mut operands = Cursor::new(self.cursor.take(size)?);
        match operands.u8()? {
            extended::END_SEQUENCE => {
                sequence.end = row.address;
                self.sequences.push(std::mem::take(sequence));
                *row = FIRST_ROW;
            }
            extended::SET_ADDRESS => {
                row.address = operands.u64()?;
                if sequence.rows.is_empty() {
                    sequence.start = row.address;
                    sequence.address_at = start as u64 + 1;
                }
            }
            extended::INLINED => {
                let (call_row, function) = (uleb(&mut operands)?, uleb(&mut operands)?);
                row.inlined = (call_row != 0).then_some(Inlined { call_row, function });
            }
            // As DWARF wants it, what is not known is skipped.
            _ => {}
        }
        Ok(())
    }
}

impl LineTable {
    /// The table as a section, and for each sequence where its address is, for a relocation against the function.
    pub fn write(&self) -> (Vec<u8>, Vec<u64>) {
        let mut out = Vec::new();
        out.put_u32(0); // the length, when it is known
        out.put_u16(VERSION);
        let header_size_at = out.len();
        out.put_u32(0);
        out.extend_from_slice(&[1, 1, LINE_BASE as u8, LINE_RANGE, OPCODE_BASE]);
        out.extend_from_slice(&OPERAND_COUNTS);
        for directory in &self.directories {
            put_text(&mut out, directory);
        }
        out.put_u8(0);
        for file in &self.files {
            put_text(&mut out, &file.name);
            for value in [file.directory, file.modified, file.size] {
                put_uleb(&mut out, value);
            }
        }
        out.put_u8(0);
        if self.sequences.iter().flat_map(|sequence| &sequence.rows).any(|row| row.inlined.is_some()) {
            out.put_u32(HEADER_EXTENSION);
        }
        let header_size = out.len() - header_size_at - 4;
        put_u32_at(&mut out, header_size_at, header_size);
        let addresses = self.sequences.iter().map(|sequence| write_sequence(sequence, &mut out)).collect();
        let length = out.len() - 4;
        put_u32_at(&mut out, 0, length);
        (out, addresses)
    }
}

fn put_u32_at(out: &mut [u8], at: usize, value: usize) {
    out[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
}

fn write_sequence(sequence: &Sequence, out: &mut Vec<u8>) -> u64 {
    out.extend_from_slice(&[op::EXTENDED, 9, extended::SET_ADDRESS]);
    let address_at = out.len() as u64;
    out.put_u64(sequence.start);
    let mut last = Row { address: sequence.start, ..FIRST_ROW };
    for (index, &row) in sequence.rows.iter().enumerate() {
        // ptxas always says the file of the first row.
        if row.file != last.file || index == 0 {
            out.put_u8(op::SET_FILE);
            put_uleb(out, row.file);
        }
        if row.inlined != last.inlined {
            let inlined = row.inlined.unwrap_or(Inlined { call_row: 0, function: 0 });
            let mut operands = vec![extended::INLINED];
            put_uleb(&mut operands, inlined.call_row);
            put_uleb(&mut operands, inlined.function);
            out.put_u8(op::EXTENDED);
            put_uleb(out, operands.len() as u64);
            out.extend_from_slice(&operands);
        }
        let (address, line) =
            (row.address.wrapping_sub(last.address), row.line.wrapping_sub(last.line) as i64);
        // As ptxas does it: only a row that differs in nothing else is worth one opcode.
        let plain = row.file == last.file && row.inlined == last.inlined;
        match special_opcode(address, line).filter(|_| plain) {
            Some(opcode) => out.put_u8(opcode),
            None => write_advance(out, address, line),
        }
        last = row;
    }
    put_advance_pc(out, sequence.end.wrapping_sub(last.address));
    out.extend_from_slice(&[op::EXTENDED, 1, extended::END_SEQUENCE]);
    address_at
}

/// The opcode that makes a row after a small step in both address and line.
fn special_opcode(address: u64, line: i64) -> Option<u8> {
    let index = u64::try_from(line.checked_sub(LINE_BASE.into())?).ok()?;
    if index >= LINE_RANGE.into() || line == 0 || address == 0 {
        return None;
    }
    let opcode = address.checked_mul(LINE_RANGE.into())?.checked_add(index + u64::from(OPCODE_BASE))?;
    u8::try_from(opcode).ok()
}

/// Makes a row after a step of any size.
fn write_advance(out: &mut Vec<u8>, address: u64, line: i64) {
    if line != 0 || address == 0 {
        out.put_u8(op::ADVANCE_LINE);
        put_sleb(out, line);
    }
    put_advance_pc(out, address);
    out.put_u8(op::COPY);
}

fn put_advance_pc(out: &mut Vec<u8>, advance: u64) {
    if advance != 0 {
        out.put_u8(op::ADVANCE_PC);
        // Unsigned by the standard; like ptxas, with a bit to spare for the sign, which reads the same.
        match i64::try_from(advance) {
            Ok(advance) => put_sleb(out, advance),
            Err(_) => put_uleb(out, advance),
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.put_u8(0);
}

/// A zero-terminated string; `None` for an empty one, which ends a list.
fn text(cursor: &mut Cursor) -> Result<Option<String>, Flaw> {
    let mut bytes = Vec::new();
    loop {
        match cursor.u8()? {
            0 if bytes.is_empty() => return Ok(None),
            0 => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            byte => bytes.push(byte),
        }
    }
}

/// Reads a LEB128 number: its bits, and how many there are. Bits beyond 64 are dropped.
fn leb(cursor: &mut Cursor) -> Result<(u64, u32, u8), Flaw> {
    let (mut value, mut bits) = (0u64, 0u32);
    loop {
        let byte = cursor.u8()?;
        value |= u64::from(byte & 0x7f).checked_shl(bits).unwrap_or(0);
        bits = bits.saturating_add(7);
        if byte & 0x80 == 0 {
            return Ok((value, bits, byte));
        }
    }
}

fn uleb(cursor: &mut Cursor) -> Result<u64, Flaw> {
    Ok(leb(cursor)?.0)
}

fn sleb(cursor: &mut Cursor) -> Result<i64, Flaw> {
    let (value, bits, last) = leb(cursor)?;
    let sign = if last & 0x40 != 0 { u64::MAX.checked_shl(bits).unwrap_or(0) } else { 0 };
    Ok((value | sign) as i64)
}

pub(crate) fn put_uleb(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn put_sleb(out: &mut Vec<u8>, mut value: i64) {
    while !(-0x40..0x40).contains(&value) {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8 & 0x7f);
}
