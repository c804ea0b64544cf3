//! The layout of a listing: file, sections, code, and the symbols that no section has.

use super::Style;
use super::data;
use super::info;
use super::labels::{Labels, is_listed};
use crate::code::{self, Guards, Line, WORD, Width};
use crate::reloc;
use cubin::raw::{File, Section};
use cubin::{Binding, FileType, Home, Note, SectionType, Symbol, SymbolType};
use sass::{Inst, Kind, Op};
use std::fmt::Write;

pub fn file(file: &File, style: &Style) -> Result<String, String> {
    let mut labels = Labels::new(file)?;
    let mut out = String::new();
    let kind = match file.header.file_type {
        FileType::RELOCATABLE => "ET_REL",
        FileType::WHOLE_PROGRAM => "ET_EWP",
        _ => "ET_EXEC",
    };
    let _ = write!(out, "\t.target\t{}\n\n\t.elftype\t@\"{kind}\"\n", target(file));
    let code = Code { file, style, lines: Vec::new() };
    let code = code.prepare(&labels)?;
    // Labels are numbered in the order of the file, whatever is printed.
    let attributes: Vec<String> =
        file.sections.iter().map(|section| attributes(file, &mut labels, section)).collect();
    let mut order: Vec<usize> = (0..file.sections.len()).collect();
    if style.sorted {
        order.sort_by(|&a, &b| file.sections[a].name.cmp(&file.sections[b].name));
    }
    for index in order {
        let section = &file.sections[index];
        if is_listed(section) && (section.is_code() || !style.code_only) {
            title(&mut out, &section.name);
            section_head(&mut out, section);
            match section.kind {
                SectionType::CUDA_INFO => out.push_str(&attributes[index]),
                _ if section.is_code() => code.print(&mut out, &labels, index),
                _ => data::print(&mut out, file, &labels, index, section),
            }
        }
    }
    homeless(&mut out, file);
    Ok(out)
}

/// `sm_90a`: that only this very target runs it is in `.nv.compat`.
pub fn target(file: &File) -> String {
    const ACCELERATOR: [u8; 3] = [2, 9, 1];
    let compat = file.section(".nv.compat").map_or(&[][..], |(_, section)| section.bytes);
    let specific = compat.starts_with(&ACCELERATOR) || compat.chunks(4).any(|r| r.starts_with(&ACCELERATOR));
    format!("sm_{}{}", file.header.sm(), if specific { "a" } else { "" })
}

fn attributes(file: &File, labels: &mut Labels, section: &Section) -> String {
    let mut out = String::new();
    if section.kind == SectionType::CUDA_INFO && is_listed(section) {
        info::print(&mut out, file, labels, section);
    }
    out
}

fn title(out: &mut String, name: &str) {
    let _ = writeln!(out, "\n\n//--------------------- {name:<25} --------------------------");
}

fn section_head(out: &mut String, section: &Section) {
    const ALLOC: u64 = 2;
    const WRITE: u64 = 1;
    const EXEC: u64 = 4;
    let letter = |flag, letter| if section.flags & flag != 0 { letter } else { "" };
    let letters = [letter(ALLOC, "a"), letter(WRITE, "w"), letter(EXEC, "x")].concat();
    let kind = match section.kind {
        SectionType::PROGBITS => "@progbits".to_string(),
        SectionType::NOBITS => "@nobits".to_string(),
        kind => format!("@\"SHT_{kind}\""),
    };
    let _ = writeln!(out, "\t.section\t{},\"{letters}\",{kind}", section.name);
    if section.flags & !(ALLOC | WRITE | EXEC) != 0 {
        let name = match section.flags >> 24 & 3 {
            1 => "SHF_NOTE_NV_CUINFO",
            2 => "SHF_NOTE_NV_TKINFO",
            _ => "",
        };
        let _ = writeln!(out, "\t.sectionflags\t@\"{name}\"");
    }
    if section.is_code() && section.info >> 24 != 0 {
        let _ = writeln!(out, "\t.sectioninfo\t@\"SHI_REGISTERS={}\"", section.info >> 24);
    }
    if section.align > 1 && section.kind != SectionType::NOTE {
        let _ = writeln!(out, "\t.align\t{}", section.align);
    }
    if section.entry_size > 1 {
        let _ = writeln!(out, "\t.sectionentsize\t{}", section.entry_size);
    }
}

pub fn notes(out: &mut String, section: &Section) {
    for note in cubin::notes(section.bytes).unwrap_or_default() {
        match note {
            Note::Tool(tool) => {
                out.push_str("\t.tkinfo\n");
                data::datum_line(out, 0x18, ".word", &format!("{:#010x}", tool.note_version));
                for text in
                    [tool.object_name, tool.tool_name, tool.tool_version, tool.branch, tool.command_line]
                {
                    data::datum_line(out, 0x30, ".string", &format!("\"{text}\""));
                }
                out.push('\n');
            }
            Note::Cuda(cuda) => {
                for (at, value) in
                    [(0x18, cuda.note_version), (0x1a, cuda.virtual_sm), (0x1c, cuda.toolkit as u16)]
                {
                    data::datum_line(out, at, ".short", &format!("{value:#06x}"));
                }
                out.push_str("\t.zero\t\t2\n");
            }
            Note::Other { description, .. } => data::byte_line(out, 0x18, &description),
        }
    }
}

/// Symbols that no section has: common variables, then what is defined elsewhere.
fn homeless(out: &mut String, file: &File) {
    let with = |home| move |symbol: &&Symbol| symbol.home == home && !symbol.name.is_empty();
    let common: Vec<&Symbol> = file.symbols.iter().filter(with(Home::Common)).collect();
    let undefined: Vec<&Symbol> = file.symbols.iter().filter(with(Home::Undefined)).collect();
    if common.is_empty() && undefined.is_empty() {
        return;
    }
    let _ = write!(out, "\n\n//--------------------- SYMBOLS --------------------------\n\n");
    for symbol in common {
        let _ = writeln!(out, "\t.comm\t\t{}, {}, {}", symbol.name, symbol.size, symbol.value);
        data::kind(out, symbol);
        data::other(out, symbol);
    }
    for symbol in undefined {
        data::kind(out, symbol);
        data::other(out, symbol);
        if symbol.size > 0 {
            let _ = writeln!(out, "\t.size\t\t{},{:#x}", symbol.name, symbol.size);
        }
    }
}

/// The code of a file.
struct Code<'a> {
    file: &'a File<'a>,
    style: &'a Style,
    /// By section.
    lines: Vec<Vec<Line>>,
}

impl<'a> Code<'a> {
    /// Makes the text of all instructions: columns are as wide as the widest of the file.
    fn prepare(mut self, labels: &Labels) -> Result<Code<'a>, String> {
        let isa = code::isa(self.file.header.sm())?;
        for (index, section) in self.file.sections.iter().enumerate() {
            let lines = match section.is_code() && is_listed(section) {
                true => code::words(section.bytes)
                    .map(|(address, word)| {
                        let inst = sass::decode(isa, word);
                        let instead = instead(self.file, labels, index, address, &inst, Named::Quoted);
                        let instead = instead.as_ref().map(|(operand, text)| (*operand, text.as_str()));
                        let mut line = Line::new(&inst, address, word, instead);
                        line.targets = self.targets(labels, index, address).filter(|_| self.style.dataflow);
                        line
                    })
                    .collect(),
                false => Vec::new(),
            };
            self.lines.push(lines);
        }
        Ok(self)
    }

    /// What is said of an indirect branch.
    fn targets(&self, labels: &Labels, index: usize, address: u64) -> Option<String> {
        let mut targets = labels.indirect.get(&(index, address))?.clone();
        let mut seen = std::collections::BTreeSet::new();
        targets.retain(|&to| seen.insert(to));
        let names: Vec<&str> =
            targets.iter().map(|&to| labels.name(self.file, (index, to)).unwrap_or("")).collect();
        Some(format!("(*\"BRANCH_TARGETS {}\"*)", names.join(",")))
    }

    fn print(&self, out: &mut String, labels: &Labels, index: usize) {
        let width = Width::of(self.lines.iter().flatten());
        let guards = if self.style.raw { Guards::Beside } else { Guards::InColumn };
        for line in &self.lines[index] {
            self.symbols(out, labels, index, line.address);
            let text = match self.style.words {
                true => line.with_word(width, guards),
                false => line.plain(width, guards),
            };
            let _ = writeln!(out, "{text}");
        }
        self.symbols(out, labels, index, self.file.sections[index].size);
    }

    /// Functions and labels at a place.
    fn symbols(&self, out: &mut String, labels: &Labels, index: usize, at: u64) {
        if let Some(label) = labels.label((index, at)) {
            let _ = writeln!(out, "{label}:");
        }
        let symbols = labels.symbols.get(&(index, at)).map_or(&[][..], Vec::as_slice);
        let is_function = |symbol: &usize| self.file.symbols[*symbol].kind == SymbolType::FUNCTION;
        if self.style.separate && symbols.iter().any(is_function) {
            out.push_str("\n\n\n\n");
        }
        for &symbol in symbols.iter().rev() {
            let symbol = &self.file.symbols[symbol];
            if symbol.kind == SymbolType::SECTION {
                let _ = writeln!(out, "{}:", symbol.name);
            } else {
                self.function(out, labels, index, symbol);
            }
        }
    }

    fn function(&self, out: &mut String, labels: &Labels, index: usize, symbol: &Symbol) {
        let name = &symbol.name;
        match symbol.binding {
            Binding::GLOBAL => directive(out, ".global", name),
            Binding::WEAK => directive(out, ".weak", name),
            _ => {}
        }
        if symbol.kind == SymbolType::FUNCTION {
            directive(out, ".type", &format!("{name},@function"));
        }
        if symbol.size > 0 {
            let end = labels.name(self.file, (index, symbol.value + symbol.size)).unwrap_or("");
            directive(out, ".size", &format!("{name},({end} - {name})"));
        }
        if let Some(other) = data::other_text(symbol) {
            directive(out, ".other", &format!("{name},@\"{other}\""));
        }
        let _ = writeln!(out, "{name}:");
    }
}

fn directive(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "        {name:<15} {value}");
}

/// How places are named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// By labels and symbols, in quotes.
    Quoted,
    /// Functions by name, others by address.
    Bare,
}

/// The operand that a relocation or a label replaces.
pub fn instead(
    file: &File,
    labels: &Labels,
    section: usize,
    address: u64,
    inst: &Inst,
    named: Named,
) -> Option<(usize, String)> {
    let relocs = labels.relocs.get(&section).map_or(&[][..], Vec::as_slice);
    let here = relocs.partition_point(|reloc| reloc.offset < address);
    if let Some(reloc) = relocs.get(here).filter(|reloc| reloc.offset < address + WORD) {
        let operand = relocated(inst, reloc)?;
        let text = match named {
            Named::Quoted => reloc::wrapped(reloc.kind, &labels.value(file, reloc)),
            Named::Bare => {
                let symbol = file.symbols.get(reloc.symbol as usize)?;
                let value = match symbol.kind {
                    SymbolType::FUNCTION => reloc::with_addend(&symbol.name, reloc.addend),
                    // The value of what has no place yet is an alignment.
                    _ if data::is_shared(symbol) => format!("{:#x}", reloc.addend),
                    _ => format!("{:#x}", symbol.value.wrapping_add_signed(reloc.addend)),
                };
                let text = reloc::wrapped(reloc.kind, &value);
                text.strip_prefix("`(").and_then(|text| text.strip_suffix(')')).unwrap_or(&text).to_string()
            }
        };
        return Some((operand, text));
    }
    if named == Named::Bare {
        let (operand, to) = code::target(inst, address)?;
        return labels.function(file, (section, to)).map(|name| (operand, name.to_string()));
    }
    if file.header.file_type == FileType::RELOCATABLE
        && let Some(operand) = code::from_start(inst, address)
    {
        let name = labels.start(file, section);
        return Some((operand, format!("`((({name} - .) - {WORD:#x}))")));
    }
    let (operand, to) = code::target(inst, address)?;
    labels.name(file, (section, to)).map(|name| (operand, format!("`({name})")))
}

/// The operand whose bits a relocation sets.
fn relocated(inst: &Inst, reloc: &cubin::Reloc) -> Option<usize> {
    let is_constant = |kind| matches!(kind, Kind::Const | Kind::ConstB | Kind::ConstR | Kind::ConstU);
    let mut operands = inst.operands().enumerate();
    if reloc::is_constant(reloc.kind) {
        return operands.find(|(_, (slot, _))| is_constant(slot.kind)).map(|(index, _)| index);
    }
    let jumps = matches!(inst.op(), Op::CALL | Op::JMP | Op::RET | Op::BRA);
    let first = 34 + u8::from(!jumps) * 6;
    operands
        .filter(|(_, (slot, _))| !matches!(slot.kind, Kind::R | Kind::U | Kind::P | Kind::V | Kind::B))
        .filter(|(_, (slot, _))| slot.at.contains(first) || jumps)
        .last()
        .map(|(index, _)| index)
}

/// Instructions without a container.
pub fn binary(bytes: &[u8], sm: u16, base: u64, name: &str, with_words: bool) -> Result<String, String> {
    let isa = code::isa(sm)?;
    let lines: Vec<Line> = code::words(bytes)
        .map(|(address, word)| Line::new(&sass::decode(isa, word), base + address, word, None))
        .collect();
    let width = Width::of(lines.iter());
    let specific = if name.ends_with('a') { "EF_CUDA_ACCELERATORS " } else { "" };
    let flags = format!("EF_CUDA_64BIT_ADDRESS {specific}EF_CUDA_SM{sm} EF_CUDA_VIRTUAL_SM(EF_CUDA_SM{sm})");
    let mut out = format!("\t.headerflags\t@\"{flags}\"\n").repeat(2);
    for line in &lines {
        let line = match with_words {
            true => line.with_word(width, Guards::InColumn),
            false => line.plain(width, Guards::InColumn),
        };
        let _ = writeln!(out, "{line}");
    }
    Ok(out)
}
