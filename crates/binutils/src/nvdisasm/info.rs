//! Sections of attributes: `.nv.info`.

use super::data::{byte_line, datum_line};
use super::labels::{INDIRECT, Labels};
use cubin::attr::Code;
use cubin::raw::{File, Section};
use std::fmt::Write;

/// A part of a payload.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Word,
    Half,
    Byte,
    /// Four bytes in a line.
    Bytes4,
    /// The index of a symbol.
    Symbol,
}

use Field::{Byte, Bytes4, Half, Symbol, Word};

/// How a payload is laid out.
struct Shape {
    /// Elements with these fields follow each other, each under its number.
    repeats: bool,
    fields: &'static [Field],
}

const fn one(fields: &'static [Field]) -> Shape {
    Shape { repeats: false, fields }
}

const fn many(fields: &'static [Field]) -> Shape {
    Shape { repeats: true, fields }
}

fn shape(code: Code) -> Shape {
    match code {
        Code::REGCOUNT | Code::FRAME_SIZE | Code::MIN_STACK_SIZE | Code::MAX_STACK_SIZE => {
            one(&[Symbol, Word])
        }
        Code::SAMPLER_INIT | Code::SAMPLER_FORCE_UNNORMALIZED => one(&[Symbol, Byte, Byte, Byte, Byte]),
        Code::PARAM_CBANK => one(&[Symbol, Half, Half]),
        Code::KPARAM_INFO => one(&[Word, Half, Half, Bytes4]),
        Code::KPARAM_INFO_V2 => one(&[Word, Half, Half, Word]),
        Code::INSTR_REG_MAP => one(&[Word, Byte, Byte, Half, Word]),
        Code::EXTERNS => many(&[Symbol]),
        Code::ATOM16_EMUL_INSTR_REG_MAP => many(&[Word, Half, Half]),
        Code::MBARRIER_INSTR_OFFSETS => many(&[Word, Word, Word, Half, Byte, Byte]),
        Code::UNUSED_LOAD_BYTE_OFFSET => many(&[Word, Word]),
        Code::AT_ENTRY_FRAGMENTS
        | Code::COOP_GROUP_INSTR_OFFSETS
        | Code::COOP_GROUP_MASK_REGIDS
        | Code::EXIT_INSTR_OFFSETS
        | Code::INT_WARP_WIDE_INSTR_OFFSETS
        | Code::SYSCALL_OFFSETS
        | Code::S2RCTAID_INSTR_OFFSETS
        | Code::LD_CACHEMOD_INSTR_OFFSETS
        | Code::ATOM_SYS_INSTR_OFFSETS
        | Code::SW_WAR_MEMBAR_SYS_INSTR_OFFSETS => many(&[Word]),
        _ => one(&[]),
    }
}

/// An indirect branch, and where it may lead.
pub struct Targets {
    pub from: u32,
    pub to: Vec<u32>,
}

impl Targets {
    pub fn all(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.from).chain(self.to.iter().copied())
    }
}

/// A record: where it starts, its format and code, and its bytes behind those.
struct Record<'a> {
    at: usize,
    format: u8,
    code: Code,
    /// For sized records the payload, else two bytes.
    bytes: &'a [u8],
}

const SIZED: u8 = 4;

fn records(bytes: &[u8]) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    let mut at = 0;
    while let Some(&[format, code, low, high]) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let size = if format == SIZED { usize::from(u16::from_le_bytes([low, high])) } else { 0 };
        let body = if format == SIZED { at + 4..at + 4 + size } else { at + 2..at + 4 };
        let Some(body) = bytes.get(body) else { break };
        records.push(Record { at, format, code: Code(code), bytes: body });
        at += 4 + size;
    }
    records
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

/// The indirect branches that a section lists.
pub fn indirect_branches(bytes: &[u8]) -> Vec<Targets> {
    let of = |record: &Record| split_indirect(record.bytes);
    records(bytes).iter().filter(|record| record.code == INDIRECT).flat_map(of).collect()
}

fn split_indirect(payload: &[u8]) -> Vec<Targets> {
    let mut all = Vec::new();
    let mut at = 0;
    while let (Some(from), Some(count)) = (word(payload, at), word(payload, at + 8)) {
        let to: Vec<u32> =
            (0..count as usize).map_while(|index| word(payload, at + 12 + 4 * index)).collect();
        at += 12 + 4 * to.len();
        all.push(Targets { from, to });
    }
    all
}

/// nvdisasm's name of an attribute.
fn name(code: Code) -> String {
    code.name().map_or_else(|| format!("EIATTR_{:#04x}", code.0), str::to_string)
}

pub fn print(out: &mut String, file: &File, labels: &mut Labels, section: &Section) {
    let mut end: Option<String> = None;
    for record in records(section.bytes) {
        let _ = write!(out, "\n\n\t//----- nvinfo : {}\n\t.align\t\t4\n", name(record.code));
        if let Some(label) = end.take() {
            let _ = writeln!(out, "{label}:");
        }
        byte_line(out, record.at, &[record.format, record.code.0]);
        match record.format {
            SIZED => {
                let (start, stop) = (labels.data_label(), labels.data_label());
                let _ = writeln!(out, "        /*{:04x}*/ \t.short\t({stop} - {start})", record.at + 2);
                Payload { out, file, labels, section, record: &record, label: Some(start) }.print();
                end = Some(stop);
            }
            3 => half_line(out, record.at + 2, record.bytes),
            2 => record.bytes.iter().enumerate().for_each(|(index, byte)| {
                byte_line(out, record.at + 2 + index, &[*byte]);
            }),
            _ => byte_line(out, record.at + 2, record.bytes),
        }
    }
    if let Some(label) = end {
        let _ = writeln!(out, "{label}:");
    }
}

fn half_line(out: &mut String, at: usize, bytes: &[u8]) {
    let value = bytes.first_chunk().map_or(0, |chunk| u16::from_le_bytes(*chunk));
    datum_line(out, at, ".short", &format!("{value:#06x}"));
}

struct Payload<'a> {
    out: &'a mut String,
    file: &'a File<'a>,
    labels: &'a Labels,
    section: &'a Section<'a>,
    record: &'a Record<'a>,
    /// To print before the first field.
    label: Option<String>,
}

impl Payload<'_> {
    fn print(&mut self) {
        if self.record.code == INDIRECT {
            return self.indirect();
        }
        let shape = shape(self.record.code);
        let mut at = 0;
        let mut index = 0;
        while at < self.record.bytes.len() {
            if shape.repeats {
                self.number(index);
            }
            index += 1;
            let before = at;
            for &field in shape.fields {
                at = self.field(field, at);
            }
            if at == before || !shape.repeats {
                while at < self.record.bytes.len() {
                    at = self.field(Word, at);
                }
            }
        }
    }

    fn number(&mut self, index: usize) {
        let _ = write!(self.out, "\n\n\t//   ....[{index}]....\n");
    }

    fn label(&mut self) {
        if let Some(label) = self.label.take() {
            let _ = writeln!(self.out, "{label}:");
        }
    }

    /// Prints what fits of a field; tells where the next begins.
    fn field(&mut self, field: Field, at: usize) -> usize {
        let size = match field {
            Word | Symbol | Bytes4 => 4,
            Half => 2,
            Byte => 1,
        };
        let rest = self.record.bytes.get(at..).unwrap_or_default();
        let bytes = rest.get(..size).unwrap_or(rest);
        let place = self.record.at + 4 + at;
        if field == Symbol {
            self.out.push_str("\t.align\t\t4\n");
        }
        self.label();
        match (field, bytes.len() == size) {
            (Word, true) => {
                let value = word(bytes, 0).unwrap_or(0);
                datum_line(self.out, place, ".word", &format!("{value:#010x}"));
            }
            (Symbol, true) => {
                let name = self.file.symbols.get(word(bytes, 0).unwrap_or(0) as usize);
                let name = name.map_or("", |symbol| symbol.name.as_str());
                datum_line(self.out, place, ".word", &format!("index@({name})"));
            }
            (Half, true) => half_line(self.out, place, bytes),
            _ => byte_line(self.out, place, bytes),
        }
        at + bytes.len().max(1)
    }

    /// `.word .L_x_3@srel`: the branch, two halves and a count, then where it leads.
    fn indirect(&mut self) {
        let mut at = 0;
        for (index, targets) in split_indirect(self.record.bytes).into_iter().enumerate() {
            self.number(index);
            self.label();
            self.place(at, targets.from);
            for (offset, directive) in [(4, ".short"), (6, ".short"), (8, ".word")] {
                let value = word(self.record.bytes, at + offset).unwrap_or(0);
                let value = if directive == ".short" { value & 0xffff } else { value };
                datum_line(self.out, self.record.at + 4 + at + offset, directive, &format!("{value:#x}"));
            }
            for (index, &to) in targets.to.iter().enumerate() {
                self.place(at + 12 + 4 * index, to);
            }
            at += 12 + 4 * targets.to.len();
        }
    }

    fn place(&mut self, at: usize, address: u32) {
        let place = (self.section.info as usize, u64::from(address));
        let text = match self.labels.name(self.file, place) {
            Some(name) => format!("{name}@srel"),
            None => format!("{address:#010x}"),
        };
        datum_line(self.out, self.record.at + 4 + at, ".word", &text);
    }
}
