//! The linked file.

use super::merge::{Bytes, Id, Meaning, Pool, Program, Unit};
use super::reach::Reached;
use super::shared::Places;
use super::{Linked, Object, patch};
use cubin::attr::{Attr, Code, ParamBank, Value};
use cubin::callgraph::{CallGraph, Prototype, StringOffset};
use cubin::compat::{Compat, CompatCode, CompatValue};
use cubin::elf::{PHDR_SIZE, section_flags};
use cubin::{
    Abi, Binding, Body, FileType, Flags, Header, Home, Note, Reloc, RelocType, Section, SectionType,
    StringTable, Symbol, SymbolOther, SymbolType, ToolInfo,
};
use std::collections::BTreeMap;
use std::fmt::Write;

/// On these machines and later the system has the first KiB of shared memory, and files say what they run on.
const FIRST_WITH_RESERVED_SHARED: u16 = 90;
const RESERVED_SHARED: u64 = 0x400;
const SHARED_ALIGN: u64 = 16;

/// CUDA 13.0.
const TOOLKIT: u32 = 130;

/// From here on files have no `.nv.rel.action`.
const FIRST_WITHOUT_REL_ACTION: u16 = 100;

/// What `.nv.rel.action` has in every file that nvlink writes.
const REL_ACTION: [u8; 16] = [0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x25, 0, 5, 0x36];

pub fn write(
    objects: &[Object],
    program: &Program,
    reached: &Reached,
    places: &Places,
    arch: &str,
) -> Result<Linked, String> {
    let fail = |error: String| format!("nvlink fatal   : {error}");
    let sm = arch.rsplit('_').next().and_then(|word| word.trim_end_matches(['a', 'f']).parse().ok());
    let sm = sm.ok_or_else(|| fail(format!("'{arch}' is no target")))?;
    let mut writer = Writer {
        objects,
        program,
        reached,
        places,
        arch,
        sm,
        sections: vec![Section::new("", SectionType::NULL, 0, Body::Bytes(Vec::new()))],
        symbols: vec![Symbol::null()],
        indices: BTreeMap::new(),
        section_symbols: BTreeMap::new(),
        strings: StringTable::new(),
        warnings: Vec::new(),
        report: String::new(),
    };
    let object = writer.object().map_err(fail)?;
    let bytes = object.write().map_err(|error| fail(error.to_string()))?;
    Ok(Linked { bytes, report: writer.report, warnings: writer.warnings })
}

/// A section of the output by what it is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Text(usize),
    Constant(usize, usize),
    Shared(usize),
    Pool(Pool),
    Debug(usize),
}

struct Writer<'a> {
    objects: &'a [Object],
    program: &'a Program,
    reached: &'a Reached,
    places: &'a Places,
    arch: &'a str,
    sm: u16,
    sections: Vec<Section>,
    symbols: Vec<Symbol>,
    /// Symbols of the output, by what they stand for.
    indices: BTreeMap<Id, u32>,
    section_symbols: BTreeMap<Part, u32>,
    strings: StringTable,
    warnings: Vec<String>,
    report: String,
}

/// Index of `.symtab`: the two tables of strings come first.
const SYMTAB: u32 = 3;

impl Writer<'_> {
    fn object(&mut self) -> Result<cubin::Object, String> {
        let layout = self.layout();
        self.number_symbols(&layout);
        let index = |wanted: Part| layout.iter().position(|part| *part == wanted).unwrap_or(0);
        let heads = self.heads();
        let mut relocs: Vec<(Part, Vec<Reloc>)> = Vec::new();
        let mut parts = Vec::new();
        for &part in &layout {
            let (section, left) = self.part(part)?;
            parts.push((part, section));
            if !left.is_empty() {
                relocs.push((part, left));
            }
        }
        // Notes and attributes, then relocations, then what they speak of: all indices follow from the counts.
        let debug_count = layout.iter().filter(|part| matches!(part, Part::Debug(_))).count();
        let compat = heads.iter().position(|head| head.kind == SectionType::CUDA_COMPAT_INFO).unwrap_or(0);
        let graph = self.call_graph();
        let prototypes = self.prototypes();
        let first_debug = SYMTAB as usize + 1;
        let first_head = first_debug + debug_count;
        let first_info = first_head + heads.len();
        let kept: Vec<usize> = self.reached.units.iter().copied().collect();
        let has_action = self.sm < FIRST_WITHOUT_REL_ACTION;
        let first_table =
            first_info + kept.len() + 1 + usize::from(!prototypes.is_empty()) + usize::from(has_action);
        let first_part = first_table + relocs.len();
        let at = |part: Part| match part {
            Part::Debug(_) => first_debug + index(part),
            part => first_part + index(part) - debug_count,
        };
        for (part, symbol) in &self.section_symbols {
            self.symbols[*symbol as usize].home = Home::Section(at(*part) as u32);
        }
        for symbol in &mut self.symbols {
            // Numbered by part until now.
            if let Home::Reserved(number) = symbol.home
                && let Some(part) = layout.get(usize::from(number))
            {
                symbol.home = Home::Section(at(*part) as u32);
            }
        }
        let first_global = self.symbols.iter().position(|symbol| symbol.binding != Binding::LOCAL);
        let first_global = first_global.unwrap_or(self.symbols.len()) as u32;
        let cuinfo = first_head + 1;

        self.sections.push(Section::new(
            ".shstrtab",
            SectionType::STRTAB,
            1,
            Body::Strings(StringTable::new()),
        ));
        self.sections.push(Section::new(
            ".strtab",
            SectionType::STRTAB,
            1,
            Body::Strings(self.strings.clone()),
        ));
        let symtab = Section::new(".symtab", SectionType::SYMTAB, 8, Body::Symbols(self.symbols.clone()));
        self.sections.push(Section { link: 2, info: first_global, entry_size: 24, ..symtab });
        let link = |section: Section, part: Part| match part {
            Part::Text(unit) => {
                let symbol = self.index((self.program.units[unit].object, self.program.units[unit].symbol));
                let registers = if self.has_compat() { 0 } else { self.registers(unit) << 24 };
                Section { link: SYMTAB, info: registers | symbol, ..section }
            }
            Part::Constant(unit, _) | Part::Shared(unit) => {
                Section { info: at(Part::Text(unit)) as u32, ..section }
            }
            Part::Pool(_) | Part::Debug(_) => section,
        };
        let parts: Vec<(Part, Section)> =
            parts.into_iter().map(|(part, section)| (part, link(section, part))).collect();
        let is_debug = |part: &Part| matches!(part, Part::Debug(_));
        let mut sections: Vec<Section> = Vec::new();
        sections.extend(parts.iter().filter(|(part, _)| is_debug(part)).map(|(_, section)| section.clone()));
        for (number, mut section) in heads.into_iter().enumerate() {
            if number == 1 {
                section.link = first_head as u32;
                if self.has_compat() {
                    section.info = (first_head + compat) as u32;
                    section.flags |= section_flags::INFO_LINK;
                }
            }
            sections.push(section);
        }
        for &unit in &kept {
            let name = format!(".nv.info.{}", self.program.units[unit].name);
            let section = Section::new(name, SectionType::CUDA_INFO, 4, Body::Info(self.unit_info(unit)));
            let info = at(Part::Text(unit)) as u32;
            sections.push(Section { flags: section_flags::INFO_LINK, link: SYMTAB, info, ..section });
        }
        let table =
            |name, kind, body| Section { link: SYMTAB, entry_size: 8, ..Section::new(name, kind, 4, body) };
        sections.push(table(".nv.callgraph", SectionType::CUDA_CALLGRAPH, Body::CallGraph(graph)));
        if !prototypes.is_empty() {
            sections.push(table(".nv.prototype", SectionType::CUDA_PROTOTYPE, Body::Prototypes(prototypes)));
        }
        if has_action {
            let action = Section::new(
                ".nv.rel.action",
                SectionType::CUDA_RELOCINFO,
                8,
                Body::Bytes(REL_ACTION.into()),
            );
            sections.push(Section { entry_size: 8, ..action });
        }
        for (part, relocs) in relocs {
            let of = parts.iter().find(|(other, _)| *other == part).map_or("", |(_, section)| &section.name);
            let section = Section::new(format!(".rela{of}"), SectionType::RELA, 8, Body::Relocs(relocs));
            let info = at(part) as u32;
            sections.push(Section {
                flags: section_flags::INFO_LINK,
                link: SYMTAB,
                info,
                entry_size: 24,
                ..section
            });
        }
        sections.extend(parts.into_iter().filter(|(part, _)| !is_debug(part)).map(|(_, section)| section));
        self.sections.extend(sections);
        self.say();

        let header = Header {
            file_type: FileType::EXECUTABLE,
            abi: Abi::CURRENT,
            version: 1,
            flags: Flags::new(Flags::SASS, self.sm, u8::try_from(cuinfo).unwrap_or(0)),
            section_names: 1,
            segment_header_size: PHDR_SIZE as u16,
        };
        Ok(cubin::Object { header, sections: std::mem::take(&mut self.sections), segments: Vec::new() })
    }

    fn has_compat(&self) -> bool {
        self.sm >= FIRST_WITH_RESERVED_SHARED
    }

    /// The sections that hold code, memory and debug information, in their order.
    fn layout(&self) -> Vec<Part> {
        let kept = || self.reached.units.iter().copied();
        let mut layout: Vec<Part> = (0..self.program.debug.len()).map(Part::Debug).collect();
        let pool = |pool| self.program.pools.contains_key(&pool).then_some(Part::Pool(pool));
        layout.extend(pool(Pool::Constant3));
        for unit in kept() {
            layout.extend(
                (0..self.program.units[unit].constants.len()).map(|number| Part::Constant(unit, number)),
            );
        }
        layout.extend(kept().map(Part::Text));
        layout.extend(pool(Pool::Initialized));
        layout.extend(kept().filter(|unit| self.places.sizes.contains_key(unit)).map(Part::Shared));
        layout.extend(pool(Pool::Zeroed));
        layout
    }

    /// Local symbols first. A symbol's home is the number of its part, until sections are numbered.
    fn number_symbols(&mut self, layout: &[Part]) {
        for &part in layout {
            let name = match part {
                Part::Text(unit) => format!(".text.{}", self.program.units[unit].name),
                Part::Constant(unit, number) => self.program.units[unit].constants[number].0.clone(),
                Part::Shared(unit) => format!(".nv.shared.{}", self.program.units[unit].name),
                Part::Pool(pool) => pool_name(pool).to_string(),
                Part::Debug(number) => self.program.debug[number].name.clone(),
            };
            self.section_symbols.insert(part, self.symbols.len() as u32);
            self.symbols.push(Symbol { name, kind: SymbolType::SECTION, ..Symbol::null() });
        }
        let mut rows: Vec<(bool, Id, Symbol)> = Vec::new();
        for (object, input) in self.objects.iter().enumerate() {
            for (index, symbol) in input.object.symbols().iter().enumerate().skip(1) {
                let id = (object, index);
                if self.program.resolve(id) == id
                    && symbol.kind != SymbolType::SECTION
                    && let Some(row) = self.symbol(id, symbol, layout)
                {
                    rows.push((symbol.binding != Binding::LOCAL, id, row));
                }
            }
        }
        rows.sort_by_key(|(is_global, id, _)| (*is_global, *id));
        let mut named: BTreeMap<String, u32> = BTreeMap::new();
        for (is_global, id, row) in rows {
            // What nobody defines may be asked for by several objects.
            let known = named.get(&row.name).copied().filter(|_| row.home == Home::Undefined);
            let index = known.unwrap_or(self.symbols.len() as u32);
            self.indices.insert(id, index);
            if known.is_none() {
                if is_global {
                    named.insert(row.name.clone(), index);
                }
                self.symbols.push(row);
            }
        }
    }

    fn symbol(&self, id: Id, symbol: &Symbol, layout: &[Part]) -> Option<Symbol> {
        let number = |part: Part| layout.iter().position(|other| *other == part);
        let (home, value) = match self.program.meaning(id) {
            Meaning::Code { unit, offset } => (number(Part::Text(unit))?, offset),
            Meaning::Data { pool, offset } => (number(Part::Pool(pool))?, offset),
            Meaning::External if self.is_wanted(symbol) => return Some(symbol.clone()),
            _ => return None,
        };
        let kind =
            if symbol.kind == SymbolType::FUNCTION { SymbolType::FUNCTION } else { SymbolType::OBJECT };
        let other = match kind {
            SymbolType::FUNCTION => symbol.other,
            _ => SymbolOther(symbol.other.0 & SymbolOther::MANAGED.0),
        };
        Some(Symbol { home: Home::Reserved(home as u16), value, kind, other, ..symbol.clone() })
    }

    /// What the driver is to define.
    fn is_wanted(&self, symbol: &Symbol) -> bool {
        !symbol.name.is_empty() && !symbol.name.starts_with("__UFT") && !symbol.name.starts_with("__UDT")
    }

    fn index(&self, id: Id) -> u32 {
        self.indices.get(&self.program.resolve(id)).copied().unwrap_or(0)
    }

    /// A section with what is left to relocate in it.
    fn part(&self, part: Part) -> Result<(Section, Vec<Reloc>), String> {
        const ALLOC: u64 = section_flags::ALLOC;
        const WRITE: u64 = section_flags::WRITE;
        Ok(match part {
            Part::Text(number) => {
                let unit = &self.program.units[number];
                let (code, relocs) = self.code(number, unit)?;
                let name = format!(".text.{}", unit.name);
                let section = Section::new(name, SectionType::PROGBITS, 128, Body::Bytes(code));
                (Section { flags: ALLOC | section_flags::EXEC, ..section }, relocs)
            }
            Part::Constant(unit, number) => {
                let (name, bytes, align) = &self.program.units[unit].constants[number];
                let section = Section::new(name, SectionType::PROGBITS, *align, Body::Bytes(bytes.clone()));
                (Section { flags: ALLOC | section_flags::INFO_LINK, ..section }, Vec::new())
            }
            Part::Shared(unit) => {
                let name = format!(".nv.shared.{}", self.program.units[unit].name);
                let body = Body::Zeros(self.shared_size(unit));
                let section = Section::new(name, SectionType::NOBITS, SHARED_ALIGN, body);
                (Section { flags: ALLOC | WRITE | section_flags::INFO_LINK, ..section }, Vec::new())
            }
            Part::Pool(pool) => {
                let Some(bytes) = self.program.pools.get(&pool) else {
                    return Err("a pool is missing".to_string());
                };
                let (data, relocs) = self.data(bytes, false)?;
                let (kind, flags, body) = match pool {
                    Pool::Constant3 => (SectionType::PROGBITS, ALLOC, Body::Bytes(data)),
                    Pool::Initialized => (SectionType::PROGBITS, ALLOC | WRITE, Body::Bytes(data)),
                    Pool::Zeroed => (SectionType::NOBITS, ALLOC | WRITE, Body::Zeros(data.len() as u64)),
                };
                (Section { flags, ..Section::new(pool_name(pool), kind, bytes.align, body) }, relocs)
            }
            Part::Debug(number) => {
                let bytes = &self.program.debug[number];
                let (data, relocs) = self.data(bytes, true)?;
                (Section::new(&bytes.name, SectionType::PROGBITS, 1, Body::Bytes(data)), relocs)
            }
        })
    }

    fn shared_size(&self, unit: usize) -> u64 {
        let reserved = if self.has_compat() { RESERVED_SHARED } else { 0 };
        reserved + self.places.sizes.get(&unit).copied().unwrap_or(0)
    }

    /// Code with the places that are known, and the relocations that the driver does.
    fn code(&self, number: usize, unit: &Unit) -> Result<(Vec<u8>, Vec<Reloc>), String> {
        let mut code = unit.code.clone();
        let mut left = Vec::new();
        let fail = |error: String| format!("{}: {error}", unit.name);
        for reloc in &unit.relocs {
            let id = (unit.object, reloc.symbol as usize);
            let known = match self.program.meaning(id) {
                Meaning::Shared(variable) if self.program.shared[variable].is_dynamic => {
                    self.places.dynamic.get(&number).map(|at| (*at, None))
                }
                Meaning::Shared(variable) => self.places.of_variable.get(&variable).map(|at| (*at, None)),
                Meaning::OwnConstant { bank, offset } => Some((offset, Some(bank))),
                Meaning::Data { pool: Pool::Constant3, offset } if is_field(reloc.kind) => {
                    Some((offset, Some(3)))
                }
                _ => None,
            };
            if let Some((value, bank)) = known {
                let value = value.wrapping_add_signed(reloc.addend);
                patch::instruction(&mut code, reloc, value, bank).map_err(fail)?;
            } else if !self.is_table_of_unified_functions(id) {
                left.extend(self.for_driver(unit.object, reloc).map_err(fail)?);
            }
        }
        Ok((code, left))
    }

    /// Calls through a register add the start of this table, which is 0 for a program that is linked whole.
    fn is_table_of_unified_functions(&self, (object, symbol): Id) -> bool {
        self.objects[object].object.symbols().get(symbol).is_some_and(|symbol| {
            symbol.home == Home::Undefined
                && (symbol.name.starts_with("__UFT") || symbol.name.starts_with("__UDT"))
        })
    }

    /// Data: places in debug information are known now, other addresses the driver has.
    fn data(&self, bytes: &Bytes, is_debug: bool) -> Result<(Vec<u8>, Vec<Reloc>), String> {
        let mut data = bytes.bytes.clone();
        let mut left = Vec::new();
        let fail = |error: String| format!("{}: {error}", bytes.name);
        for (object, reloc) in &bytes.relocs {
            match self.program.meaning((*object, reloc.symbol as usize)) {
                Meaning::Debug { offset, .. } => {
                    let value = offset.wrapping_add_signed(reloc.addend);
                    patch::data(&mut data, reloc, value).map_err(fail)?;
                }
                Meaning::Code { unit, .. } if is_debug && !self.reached.units.contains(&unit) => {}
                // Variables in shared memory have no address that a debugger could read here.
                Meaning::Shared(_) | Meaning::OwnConstant { .. } | Meaning::Nothing if is_debug => {}
                _ => left.extend(self.for_driver(*object, reloc).map_err(fail)?),
            }
        }
        Ok((data, left))
    }

    fn for_driver(&self, object: usize, reloc: &Reloc) -> Result<Option<Reloc>, String> {
        let Some(kind) = patch::for_driver(reloc.kind) else { return Ok(None) };
        let id = (object, reloc.symbol as usize);
        let is_section =
            self.objects[object].object.symbols().get(id.1).is_some_and(|s| s.kind == SymbolType::SECTION);
        let (symbol, addend) = match self.program.meaning(id) {
            Meaning::Code { unit, offset } if is_section => (self.section_symbol(Part::Text(unit)), offset),
            Meaning::Data { pool, offset } if is_section => (self.section_symbol(Part::Pool(pool)), offset),
            _ => (self.indices.get(&self.program.resolve(id)).copied(), 0),
        };
        let symbol = symbol.ok_or_else(|| {
            let kind = reloc.kind.name().unwrap_or("a relocation");
            format!("{kind} at {:#x} is against nothing that was linked", reloc.offset)
        })?;
        Ok(Some(Reloc {
            offset: reloc.offset,
            symbol,
            kind,
            addend: reloc.addend.wrapping_add_unsigned(addend),
        }))
    }

    fn section_symbol(&self, part: Part) -> Option<u32> {
        self.section_symbols.get(&part).copied()
    }

    /// `.note.nv.tkinfo`, `.note.nv.cuinfo`, `.nv.info` and `.nv.compat`.
    fn heads(&mut self) -> Vec<Section> {
        let mut tools = vec![Note::Tool(ToolInfo {
            note_version: 2,
            object_name: String::new(),
            tool_name: "nvlink".to_string(),
            tool_version: "Cuda compilation tools, release 13.0, V13.0.88".to_string(),
            branch: "Build sassafras".to_string(),
            command_line: format!("-arch {} ", self.arch),
        })];
        let mut cuda: Option<cubin::CudaInfo> = None;
        for object in self.objects {
            for section in &object.object.sections {
                for note in notes(section) {
                    match note {
                        Note::Tool(_) => tools.push(note.clone()),
                        Note::Cuda(info) => match &mut cuda {
                            Some(known) => known.virtual_sm = known.virtual_sm.max(info.virtual_sm),
                            None => cuda = Some(*info),
                        },
                        Note::Other { .. } => {}
                    }
                }
            }
        }
        // A program without device code has a linked file too.
        let cuda = cuda.unwrap_or(cubin::CudaInfo { note_version: 2, virtual_sm: self.sm, toolkit: TOOLKIT });
        let note = |name, flags, notes| Section {
            flags,
            ..Section::new(name, SectionType::NOTE, 4, Body::Notes(notes))
        };
        let mut heads = vec![
            note(".note.nv.tkinfo", section_flags::NOTE_TKINFO, tools),
            note(".note.nv.cuinfo", section_flags::NOTE_CUINFO, vec![Note::Cuda(cuda)]),
        ];
        let attributes = self.info();
        if !attributes.is_empty() {
            let info = Section::new(".nv.info", SectionType::CUDA_INFO, 4, Body::Info(attributes));
            heads.push(Section { link: SYMTAB, ..info });
        }
        if self.has_compat() {
            let body = Body::Compat(self.compat());
            heads.push(Section::new(".nv.compat", SectionType::CUDA_COMPAT_INFO, 4, body));
        }
        heads
    }

    /// What all objects need. What a finalizer could do with the code is not known of a linked file.
    fn compat(&self) -> Vec<Compat> {
        let mut all: Vec<Compat> = Vec::new();
        for section in self.objects.iter().flat_map(|object| &object.object.sections) {
            let Body::Compat(records) = &section.body else { continue };
            for record in records.iter().filter(|record| record.code != CompatCode::CAN_FASTPATH_FINALIZE) {
                match all.iter_mut().find(|known| known.code == record.code) {
                    Some(known) => {
                        if let (CompatValue::Byte(old), CompatValue::Byte(new)) =
                            (&mut known.value, &record.value)
                        {
                            *old = (*old).max(*new);
                        }
                    }
                    None => all.push(record.clone()),
                }
            }
        }
        if all.is_empty() {
            let value = CompatValue::Byte(self.arch.ends_with('a').into());
            all.push(Compat { code: CompatCode::CUDA_ACCELERATOR_TARGET, value });
        }
        all
    }

    fn info(&mut self) -> Vec<Attr> {
        let mut all = Vec::new();
        for &number in &self.reached.units {
            let unit = &self.program.units[number];
            let symbol = self.index((unit.object, unit.symbol));
            all.push(Attr::per_symbol(Code::REGCOUNT, symbol, self.registers(number)));
            all.push(Attr::per_symbol(Code::FRAME_SIZE, symbol, unit.frame));
        }
        for &kernel in self.reached.of_kernel.keys() {
            let unit = &self.program.units[kernel];
            let symbol = self.index((unit.object, unit.symbol));
            let stack = self.reached.stack(self.program, kernel);
            if stack.is_none() {
                let name = &unit.name;
                self.warnings
                    .push(format!("Stack size for entry function '{name}' cannot be statically determined"));
            }
            all.push(Attr::per_symbol(Code::MIN_STACK_SIZE, symbol, stack.unwrap_or(u32::MAX)));
        }
        all
    }

    /// A kernel has the registers of all that it reaches.
    fn registers(&self, unit: usize) -> u32 {
        let all = self.reached.of_kernel.get(&unit).into_iter().flatten();
        let registers = |unit: usize| self.program.units[unit].registers;
        all.fold(registers(unit), |most, &unit| most.max(registers(unit)))
    }

    fn barriers(&self, unit: usize) -> u8 {
        let all = self.reached.of_kernel.get(&unit).into_iter().flatten();
        let barriers = |unit: usize| self.program.units[unit].barriers;
        all.fold(barriers(unit), |most, &unit| most.max(barriers(unit)))
    }

    fn unit_info(&self, number: usize) -> Vec<Attr> {
        let unit = &self.program.units[number];
        let mut all = Vec::new();
        let barriers = self.barriers(number);
        for attribute in &unit.info {
            let value = match &attribute.value {
                Value::Symbols(symbols) => {
                    let open = symbols.iter().filter(|&&symbol| {
                        self.program.meaning((unit.object, symbol as usize)) == Meaning::External
                    });
                    let open: Vec<u32> =
                        open.map(|&symbol| self.index((unit.object, symbol as usize))).collect();
                    if open.is_empty() {
                        continue;
                    }
                    Value::Symbols(open)
                }
                Value::ParamBank(bank) => {
                    let own = unit.constants.iter().position(|(name, ..)| name.starts_with(".nv.constant0."));
                    let part = own.map(|own| Part::Constant(number, own));
                    let symbol = part.and_then(|part| self.section_symbol(part)).unwrap_or(0);
                    Value::ParamBank(ParamBank { symbol, ..*bank })
                }
                Value::Byte(_) if attribute.code == Code::NUM_BARRIERS => Value::Byte(barriers),
                value => value.clone(),
            };
            all.push(Attr { code: attribute.code, value });
        }
        if barriers > 0 && !all.iter().any(|attribute| attribute.code == Code::NUM_BARRIERS) {
            all.push(Attr::byte(Code::NUM_BARRIERS, barriers));
        }
        all
    }

    fn string(&mut self, text: &str) -> StringOffset {
        let mut at = 0;
        for string in self.strings.bytes.split_inclusive(|&byte| byte == 0) {
            if string.strip_suffix(&[0]) == Some(text.as_bytes()) {
                return StringOffset(at);
            }
            at += string.len() as u32;
        }
        self.strings.bytes.extend_from_slice(text.as_bytes());
        self.strings.bytes.push(0);
        StringOffset(at)
    }

    /// The graphs of all objects, with the symbols of the output.
    fn call_graph(&mut self) -> CallGraph {
        let mut graph = CallGraph::default();
        let objects = self.objects;
        for (object, input) in objects.iter().enumerate() {
            let Some(own) = call_graph(&input.object) else { continue };
            let symbol = |writer: &Self, symbol: u32| {
                let index = writer.index((object, symbol as usize));
                (index != 0).then_some(index)
            };
            let text =
                |offset: StringOffset| symbol_names(&input.object).and_then(|names| names.get(offset.0));
            for (from, to) in [(&own.calls, &mut graph.calls), (&own.takes_address, &mut graph.takes_address)]
            {
                let pairs = from.iter().filter_map(|&(a, b)| Some((symbol(self, a)?, symbol(self, b)?)));
                to.extend(pairs);
            }
            for (from, is_taken) in [(&own.address_taken, true), (&own.indirect_calls, false)] {
                for &(function, prototype) in from {
                    let (Some(function), Some(text)) = (symbol(self, function), text(prototype)) else {
                        continue;
                    };
                    let row = (function, self.string(text));
                    if is_taken { graph.address_taken.push(row) } else { graph.indirect_calls.push(row) }
                }
            }
        }
        graph
    }

    /// Prototypes of what the driver defines.
    fn prototypes(&mut self) -> Vec<Prototype> {
        let mut all: Vec<Prototype> = Vec::new();
        let objects = self.objects;
        for (object, input) in objects.iter().enumerate() {
            for section in &input.object.sections {
                let Body::Prototypes(rows) = &section.body else { continue };
                for row in rows {
                    let text = symbol_names(&input.object).and_then(|names| names.get(row.text.0));
                    let symbol = self.index((object, row.symbol as usize));
                    if let Some(text) = text
                        && symbol != 0
                        && !all.iter().any(|known| known.symbol == symbol)
                    {
                        let text = self.string(text);
                        all.push(Prototype { symbol, text });
                    }
                }
            }
        }
        all
    }

    /// The lines of `-v`.
    fn say(&mut self) {
        let size = |pool| self.program.pools.get(&pool).map_or(0, |bytes| bytes.bytes.len());
        let _ = write!(
            self.report,
            "nvlink info    : {} bytes gmem",
            size(Pool::Initialized) + size(Pool::Zeroed)
        );
        if size(Pool::Constant3) > 0 {
            let _ = write!(self.report, ", {} bytes cmem[3]", size(Pool::Constant3));
        }
        self.report.push('\n');
        for &kernel in self.reached.of_kernel.keys().rev() {
            let unit = &self.program.units[kernel];
            let stack = self.reached.stack(self.program, kernel).unwrap_or(0);
            let smem = if self.places.sizes.contains_key(&kernel) { self.shared_size(kernel) } else { 0 };
            let mut line = format!(
                "nvlink info    : Function properties for '{}':\nnvlink info    : used {} registers, used {} barriers, {stack} stack, {smem} bytes smem",
                unit.name,
                self.registers(kernel),
                self.barriers(kernel),
            );
            for bank in ["0", "2"] {
                let prefix = format!(".nv.constant{bank}.");
                let own = unit.constants.iter().find(|(name, ..)| name.starts_with(&prefix));
                if let Some((_, bytes, _)) = own {
                    let _ = write!(line, ", {} bytes cmem[{bank}]", bytes.len());
                }
            }
            let _ = writeln!(self.report, "{line}, 0 bytes lmem");
        }
    }
}

/// A relocation that puts an offset within a bank into an instruction.
fn is_field(kind: RelocType) -> bool {
    crate::reloc::is_constant(kind) || kind == RelocType::ABS16_32
}

fn pool_name(pool: Pool) -> &'static str {
    match pool {
        Pool::Constant3 => ".nv.constant3",
        Pool::Initialized => ".nv.global.init",
        Pool::Zeroed => ".nv.global",
    }
}

fn notes(section: &Section) -> &[Note] {
    match &section.body {
        Body::Notes(notes) => notes,
        _ => &[],
    }
}

pub fn call_graph(object: &cubin::Object) -> Option<&CallGraph> {
    object.sections.iter().find_map(|section| match &section.body {
        Body::CallGraph(graph) => Some(graph),
        _ => None,
    })
}

/// The strings that symbols take their names from.
pub fn symbol_names(object: &cubin::Object) -> Option<&StringTable> {
    let symtab = object.sections.iter().find(|section| section.kind == SectionType::SYMTAB)?;
    match &object.sections.get(symtab.link as usize)?.body {
        Body::Strings(table) => Some(table),
        _ => None,
    }
}
