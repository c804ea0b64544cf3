//! Sections of data: bytes, what relocations put into them, and the variables that are there.

use super::labels::Labels;
use crate::reloc;
use cubin::raw::{File, Section};
use cubin::{Binding, Home, MemorySpace, SectionType, Symbol, SymbolType};
use std::fmt::Write;

/// Bytes in a line.
const LINE: usize = 16;

pub fn datum_line(out: &mut String, at: usize, directive: &str, value: &str) {
    let _ = writeln!(out, "        /*{at:04x}*/ \t{directive}\t{value}");
}

/// Bytes without a name of their own; zeros are counted.
pub fn byte_line(out: &mut String, at: usize, bytes: &[u8]) {
    if bytes.iter().all(|&byte| byte == 0) {
        return zeros(out, bytes.len() as u64);
    }
    for (index, line) in bytes.chunks(LINE).enumerate() {
        let text: Vec<String> = line.iter().map(|byte| format!("{byte:#04x}")).collect();
        datum_line(out, at + index * LINE, ".byte", &text.join(", "));
    }
}

fn zeros(out: &mut String, count: u64) {
    let _ = writeln!(out, "\t.zero\t\t{count}");
}

/// Kept in shared memory by a file that is still to be linked: it has a size and an alignment, but no place.
pub fn is_shared(symbol: &Symbol) -> bool {
    matches!(symbol.other.space(), MemorySpace::SHARED | MemorySpace::RESERVED_SHARED)
}

pub fn print(out: &mut String, file: &File, labels: &Labels, index: usize, section: &Section) {
    match section.kind {
        SectionType::NOTE => return super::print::notes(out, section),
        SectionType::CUDA_CALLGRAPH | SectionType::CUDA_PROTOTYPE => {
            return words(out, file, section);
        }
        _ => {}
    }
    Data { out, file, labels, index, section }.print();
}

/// Call graphs and prototypes: words that name symbols or strings.
fn words(out: &mut String, file: &File, section: &Section) {
    let (words, _) = section.bytes.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let is_prototypes = section.kind == SectionType::CUDA_PROTOTYPE;
    let mut list = 0;
    for (row, pair) in words.chunks(2).enumerate() {
        let marker = pair.first() == Some(&0) && !is_prototypes;
        if marker {
            list = pair.get(1).map_or(0, |word| word.wrapping_neg());
        }
        for (column, &word) in pair.iter().enumerate() {
            let text_follows = is_prototypes || matches!(list, 2 | 3);
            let name = || file.symbols.get(word as usize).map_or("", |symbol| symbol.name.as_str());
            let text = match column {
                _ if marker => format!("{word:#010x}"),
                1 if text_follows => format!("str_index@(\"{}\")", file.string(word).unwrap_or("")),
                _ => format!("index@({})", name()),
            };
            out.push_str("\t.align\t\t4\n");
            datum_line(out, row * 8 + column * 4, ".word", &text);
        }
    }
}

struct Data<'a> {
    out: &'a mut String,
    file: &'a File<'a>,
    labels: &'a Labels,
    index: usize,
    section: &'a Section<'a>,
}

impl Data<'_> {
    fn print(&mut self) {
        let shared = self.shared_variables();
        let size = self.section.size;
        let relocs = self.labels.relocs.get(&self.index).map_or(&[][..], Vec::as_slice);
        let mut at = shared.min(size);
        if at > 0 {
            self.symbols(0);
        }
        let mut relocs = relocs.iter().filter(|reloc| reloc.offset < size).peekable();
        loop {
            let here = relocs.next_if(|reloc| reloc.offset == at);
            let datum = here.map(|here| reloc::datum(here.kind, &self.labels.value(self.file, here)));
            let datum = datum.or_else(|| self.table_entry(at));
            if let Some((_, bytes, _)) = &datum
                && here.is_some()
                && self.section.align >= *bytes
                && *bytes > 1
            {
                let _ = writeln!(self.out, "\t.align\t\t{bytes}");
            }
            self.symbols(at);
            if at >= size {
                break;
            }
            let next = self.next_boundary(at, relocs.peek().map(|reloc| reloc.offset));
            match datum {
                Some((directive, bytes, text)) => {
                    datum_line(self.out, at as usize, directive, &text);
                    at += bytes;
                    // Two relocations of one place would not move on.
                    while relocs.next_if(|reloc| reloc.offset < at).is_some() {}
                }
                None => {
                    self.bytes(at, next);
                    at = next;
                }
            }
        }
    }

    /// An entry of the table of an indirect branch.
    fn table_entry(&self, at: u64) -> Option<(&'static str, u64, String)> {
        let place = self.labels.tables.get(&(self.index, at))?;
        let name = self.labels.name(self.file, *place)?;
        Some((".word", 4, format!("({name} - {})", self.labels.start(self.file, place.0))))
    }

    fn next_boundary(&self, at: u64, reloc: Option<u64>) -> u64 {
        let from = (self.index, at + 1);
        let to = (self.index, self.section.size);
        let symbol = self.labels.symbols.range(from..).find(|(place, symbols)| {
            place.0 != self.index || symbols.iter().any(|&symbol| !is_shared(&self.file.symbols[symbol]))
        });
        let symbol = symbol.map(|(place, _)| *place).filter(|place| *place < to);
        let label = self.labels.next_label(self.index, at);
        let end = self.section.size;
        [symbol.map(|place| place.1), label, reloc].into_iter().flatten().fold(end, u64::min).max(at + 1)
    }

    fn bytes(&mut self, from: u64, to: u64) {
        match self.section.bytes.get(from as usize..to as usize) {
            Some(bytes) => byte_line(self.out, from as usize, bytes),
            None => zeros(self.out, to - from),
        }
    }

    /// The variables that are at a place.
    fn symbols(&mut self, at: u64) {
        let place = (self.index, at);
        if let Some(label) = self.labels.label(place) {
            let _ = writeln!(self.out, "{label}:");
        }
        let symbols = self.labels.symbols.get(&place).map_or(&[][..], Vec::as_slice);
        for &symbol in symbols {
            let symbol = &self.file.symbols[symbol];
            if symbol.kind == SymbolType::SECTION {
                if self.section.kind != SectionType::CUDA_RELOCINFO {
                    let _ = writeln!(self.out, "{}:", symbol.name);
                }
            } else if !is_shared(symbol) {
                self.variable(symbol);
            }
        }
    }

    fn variable(&mut self, symbol: &Symbol) {
        let name = &symbol.name;
        binding(self.out, symbol);
        kind(self.out, symbol);
        if symbol.size > 0 {
            let end = (self.index, symbol.value + symbol.size);
            let end = self.labels.name(self.file, end).unwrap_or("");
            let _ = writeln!(self.out, "\t.size\t\t{name},({end} - {name})");
        }
        other(self.out, symbol);
        let _ = writeln!(self.out, "{name}:");
    }

    /// Variables that get their places from the linker, the last of the table first. Tells how much they take.
    fn shared_variables(&mut self) -> u64 {
        let is_here = |symbol: &&Symbol| {
            symbol.home == Home::Section(self.index as u32)
                && is_shared(symbol)
                && symbol.kind != SymbolType::SECTION
        };
        let variables: Vec<&Symbol> = self.file.symbols.iter().filter(is_here).collect();
        let mut taken = 0;
        for symbol in variables.into_iter().rev() {
            let name = &symbol.name;
            binding(self.out, symbol);
            kind(self.out, symbol);
            let _ = writeln!(self.out, "\t.size\t\t{name}, {}, {}", symbol.size, symbol.value);
            other(self.out, symbol);
            let _ = writeln!(self.out, "{name}:");
            zeros(self.out, symbol.size);
            taken += symbol.size;
        }
        taken
    }
}

pub fn binding(out: &mut String, symbol: &Symbol) {
    let name = &symbol.name;
    let _ = match symbol.binding {
        Binding::GLOBAL => writeln!(out, "\t.global\t\t{name}"),
        Binding::WEAK => writeln!(out, "\t.weak\t\t{name}"),
        _ => Ok(()),
    };
}

pub fn kind(out: &mut String, symbol: &Symbol) {
    let kind = match symbol.kind {
        SymbolType::OBJECT => "@object".to_string(),
        SymbolType::FUNCTION => "@function".to_string(),
        SymbolType::NONE => return,
        kind => format!("@\"STT_{kind}\""),
    };
    let _ = writeln!(out, "\t.type\t\t{},{kind}", symbol.name);
}

pub fn other(out: &mut String, symbol: &Symbol) {
    if let Some(text) = other_text(symbol) {
        let _ = writeln!(out, "\t.other\t\t{},@\"{text}\"", symbol.name);
    }
}

/// `STO_CUDA_ENTRY STV_DEFAULT`; none where nothing is to say.
pub fn other_text(symbol: &Symbol) -> Option<String> {
    if symbol.other.0 == 0 {
        return None;
    }
    let mut words = Vec::new();
    if symbol.other.is_entry() {
        words.push("STO_CUDA_ENTRY");
    }
    if symbol.other.is_managed_or_unified() {
        words.push(if symbol.kind == SymbolType::FUNCTION { "STO_CUDA_UNIFIED" } else { "STO_CUDA_MANAGED" });
    }
    words.extend(match symbol.other.space() {
        MemorySpace::GLOBAL => Some("STO_CUDA_GLOBAL"),
        MemorySpace::SHARED => Some("STO_CUDA_SHARED"),
        MemorySpace::LOCAL => Some("STO_CUDA_LOCAL"),
        MemorySpace::CONSTANT => Some("STO_CUDA_CONSTANT"),
        MemorySpace::RESERVED_SHARED => Some("STO_CUDA_RESERVED_SHARED"),
        _ => None,
    });
    words.push(
        ["STV_DEFAULT", "STV_INTERNAL", "STV_HIDDEN", "STV_PROTECTED"]
            [usize::from(symbol.other.visibility())],
    );
    Some(words.join(" "))
}
