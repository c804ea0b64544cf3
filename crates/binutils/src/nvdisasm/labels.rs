//! Names for places: symbols where there are some, else labels that are numbered.
//!
//! Labels of code are `.L_x_N`, numbered in this order: what relocations of code name by distance from a function;
//! what branches name; indirect branches and where they lead; what relocations of data name; the ends of functions. Those of data are `.L_N`: the ends
//! of variables, then the records of `.nv.info`. Within a step the order is that of the file.

use crate::code::{self, WORD};
use cubin::attr::Code;
use cubin::raw::File;
use cubin::{FileType, Home, Reloc, SectionType, SymbolType};
use std::collections::{BTreeMap, HashMap};

/// A section and an offset in it.
pub type Place = (usize, u64);

pub struct Labels {
    /// Symbols by place, in the order of the table.
    pub symbols: BTreeMap<Place, Vec<usize>>,
    labels: BTreeMap<Place, String>,
    /// By section.
    pub relocs: HashMap<usize, Vec<Reloc>>,
    /// Where an indirect branch may lead.
    pub indirect: HashMap<Place, Vec<u64>>,
    /// Entries of their tables, in files that are still to be linked.
    pub tables: BTreeMap<Place, Place>,
    code_labels: usize,
    data_labels: usize,
}

impl Labels {
    pub fn new(file: &File) -> Result<Labels, String> {
        let mut labels = Labels {
            symbols: BTreeMap::new(),
            labels: BTreeMap::new(),
            relocs: HashMap::new(),
            indirect: HashMap::new(),
            tables: BTreeMap::new(),
            code_labels: 0,
            data_labels: 0,
        };
        for section in 0..file.sections.len() {
            let mut relocs = file.relocs_of(section);
            relocs.sort_by_key(|reloc| reloc.offset);
            if !relocs.is_empty() {
                labels.relocs.insert(section, relocs);
            }
        }
        for (index, symbol) in file.symbols.iter().enumerate().skip(1) {
            if let Home::Section(section) = symbol.home
                && !symbol.name.is_empty()
            {
                labels.symbols.entry((section as usize, symbol.value)).or_default().push(index);
            }
        }
        labels.of_relocs(file, true);
        labels.of_branches(file)?;
        labels.of_indirect_branches(file);
        labels.of_relocs(file, false);
        labels.of_ends(file);
        Ok(labels)
    }

    fn of_relocs(&mut self, file: &File, in_code: bool) {
        let chosen = |section: &cubin::raw::Section| is_listed(section) && section.is_code() == in_code;
        for (section, _) in file.sections.iter().enumerate().filter(|(_, section)| chosen(section)) {
            for reloc in self.relocs.get(&section).cloned().unwrap_or_default() {
                if let Some(place) = code_place(file, &reloc) {
                    self.code_label(place);
                }
            }
        }
    }

    fn of_branches(&mut self, file: &File) -> Result<(), String> {
        let isa = code::isa(file.header.sm())?;
        let is_object = file.header.file_type == FileType::RELOCATABLE;
        for (index, section) in file.sections.iter().enumerate().filter(|(_, section)| section.is_code()) {
            let related: Vec<u64> = self
                .relocs
                .get(&index)
                .into_iter()
                .flatten()
                .map(|reloc| reloc.offset / WORD * WORD)
                .collect();
            for (address, word) in code::words(section.bytes) {
                let inst = sass::decode(isa, word);
                if is_object && code::from_start(&inst, address).is_some() {
                    self.code_labels += 1; // for the start of the section, which has a name
                    continue;
                }
                let Some((_, to)) = code::target(&inst, address) else { continue };
                if to % WORD == 0 && to <= section.size && related.binary_search(&address).is_err() {
                    self.code_label((index, to));
                }
            }
        }
        Ok(())
    }

    fn of_indirect_branches(&mut self, file: &File) {
        let mut tables = Vec::new();
        for section in file.sections.iter().filter(|section| section.kind == SectionType::CUDA_INFO) {
            let code = section.info as usize;
            for targets in super::info::indirect_branches(section.bytes) {
                // Each takes a number, even where there is a label already.
                for (number, address) in targets.all().enumerate() {
                    let label = format!(".L_x_{}", self.code_labels + number);
                    self.labels.entry((code, address.into())).or_insert(label);
                }
                self.code_labels += targets.all().count();
                let to = targets.to.iter().map(|&to| to.into()).collect();
                self.indirect.insert((code, targets.from.into()), to);
                tables.push((code, targets));
            }
        }
        if file.header.file_type != FileType::RELOCATABLE {
            return;
        }
        // The tables of a function follow each other.
        let mut ends: BTreeMap<usize, u64> = BTreeMap::new();
        for (code, targets) in &tables {
            let end = ends.entry(*code).or_default();
            self.of_table(file, *code, targets, *end);
            *end += 4 * targets.to.len() as u64;
        }
    }

    /// The table of an indirect branch, in constant bank 2 of its function. Its entries take numbers again.
    fn of_table(&mut self, file: &File, code: usize, targets: &super::info::Targets, start: u64) {
        self.code_labels += targets.to.len();
        let is_table = |section: &cubin::raw::Section| {
            section.name.starts_with(".nv.constant2.") && section.info as usize == code
        };
        if let Some(section) = file.sections.iter().position(is_table) {
            for (index, &to) in targets.to.iter().enumerate() {
                let at = start + 4 * index as u64;
                self.tables.insert((section, at), (code, to.into()));
            }
        }
    }

    fn of_ends(&mut self, file: &File) {
        for symbol in &file.symbols {
            let Home::Section(section) = symbol.home else { continue };
            if symbol.size == 0 || symbol.kind == SymbolType::SECTION {
                continue;
            }
            let section = section as usize;
            let Some(end) = symbol.value.checked_add(symbol.size) else { continue };
            if file.sections.get(section).is_some_and(|section| section.is_code()) {
                self.end_of_code((section, end));
            } else if !super::data::is_shared(symbol) {
                self.end_of_data((section, end));
            }
        }
    }

    fn code_label(&mut self, place: Place) {
        if !self.symbols.contains_key(&place) && !self.labels.contains_key(&place) {
            self.labels.insert(place, format!(".L_x_{}", self.code_labels));
            self.code_labels += 1;
        }
    }

    /// An end takes a number even where there is a label already.
    fn end_of_code(&mut self, place: Place) {
        self.labels.entry(place).or_insert(format!(".L_x_{}", self.code_labels));
        self.code_labels += 1;
    }

    fn end_of_data(&mut self, place: Place) {
        let label = self.data_label();
        self.labels.entry(place).or_insert(label);
    }

    /// A new label for data.
    pub fn data_label(&mut self) -> String {
        self.data_labels += 1;
        format!(".L_{}", self.data_labels - 1)
    }

    /// The symbol that a place is called by: a section only if nothing else is there.
    fn symbol(&self, file: &File, place: Place) -> Option<usize> {
        let symbols = self.symbols.get(&place)?;
        let of_section = |symbol: &&usize| file.symbols[**symbol].kind == SymbolType::SECTION;
        symbols.iter().rfind(|symbol| !of_section(symbol)).or(symbols.last()).copied()
    }

    /// The start of a section as the operands of indirect branches name it: by the symbol that is listed first.
    pub fn start<'a>(&self, file: &'a File, section: usize) -> &'a str {
        let first = self.symbols.get(&(section, 0)).and_then(|symbols| symbols.first());
        let named = first.and_then(|symbol| file.symbols.get(*symbol)).map(|symbol| symbol.name.as_str());
        named.filter(|name| !name.is_empty()).unwrap_or(&file.sections[section].name)
    }

    /// The label of a place that has no symbol.
    pub fn label(&self, place: Place) -> Option<&str> {
        match self.symbols.contains_key(&place) {
            true => None,
            false => self.labels.get(&place).map(String::as_str),
        }
    }

    /// The name of a place.
    pub fn name<'a>(&'a self, file: &'a File, place: Place) -> Option<&'a str> {
        let symbol = self.symbol(file, place).and_then(|symbol| file.symbols.get(symbol));
        symbol.map(|symbol| symbol.name.as_str()).or_else(|| self.label(place))
    }

    /// The name of a function that starts at a place.
    pub fn function<'a>(&self, file: &'a File, place: Place) -> Option<&'a str> {
        let symbol = self.symbol(file, place).and_then(|symbol| file.symbols.get(symbol))?;
        (symbol.kind == SymbolType::FUNCTION).then_some(symbol.name.as_str())
    }

    /// The first label behind a place of a section.
    pub fn next_label(&self, section: usize, at: u64) -> Option<u64> {
        let (place, _) = self.labels.range((section, at + 1)..).next()?;
        (place.0 == section).then_some(place.1)
    }

    /// What a relocation refers to.
    pub fn value(&self, file: &File, reloc: &Reloc) -> String {
        let name = file.symbols.get(reloc.symbol as usize).map_or("", |symbol| symbol.name.as_str());
        let label = code_place(file, reloc).and_then(|place| self.name(file, place));
        match label {
            Some(label) => format!("({name} + {label}@srel)"),
            None => crate::reloc::with_addend(name, reloc.addend),
        }
    }
}

/// The place within code that a relocation names by its distance from a symbol.
fn code_place(file: &File, reloc: &Reloc) -> Option<Place> {
    let symbol = file.symbols.get(reloc.symbol as usize)?;
    let Home::Section(section) = symbol.home else { return None };
    let home = file.sections.get(section as usize).filter(|home| home.is_code())?;
    let place = symbol.value.checked_add_signed(reloc.addend)?;
    (reloc.addend > 0 && place % WORD == 0 && place <= home.size).then_some((section as usize, place))
}

/// Sections that the listing has.
pub fn is_listed(section: &cubin::raw::Section) -> bool {
    let is_table = matches!(
        section.kind,
        SectionType::NULL
            | SectionType::STRTAB
            | SectionType::SYMTAB
            | SectionType::SYMTAB_SHNDX
            | SectionType::REL
            | SectionType::RELA
            | SectionType::CUDA_RESOLVED_RELA
    );
    !is_table && !section.is_capsule()
}

/// The attribute that lists the targets of indirect branches.
pub const INDIRECT: Code = Code::INDIRECT_BRANCH_TARGETS;
