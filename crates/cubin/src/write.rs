//! `Object` to bytes: header, section data, section headers, program headers, in that order.

use crate::bytes::Put;
use crate::elf::{self, EHDR_SIZE, PHDR_SIZE, SHDR_SECTION_COUNT, SHDR_SIZE};
use crate::error::WriteError;
use crate::names::SectionType;
use crate::object::{Body, Extent, Object, Reloc, Section, Segment, Symbol};
use crate::strings::{Interner, StringTable};
use crate::{attr, callgraph, compat, note};

/// Sections are not aligned to more than this; a larger wish is an error, not a file of that size.
const MAX_ALIGN: u64 = 1 << 16;

/// No file is larger than this.
const MAX_FILE: u64 = 1 << 32;

impl Object {
    /// The file. Equal models give equal bytes.
    pub fn write(&self) -> Result<Vec<u8>, WriteError> {
        let mut names = Names::new(&self.sections);
        let name_offsets = names.of_sections(self)?;
        let mut contents = self.encode_bodies(&mut names)?;
        names.finish(&mut contents);
        let layout = Layout::new(&self.sections, &contents)?;

        let mut out = vec![0; EHDR_SIZE];
        for (place, content) in layout.places.iter().zip(&contents) {
            if let Some(content) = content {
                out.resize(place.offset as usize, 0);
                out.extend_from_slice(content);
            }
        }
        out.resize(layout.section_headers as usize, 0);
        for ((section, place), name) in self.sections.iter().zip(&layout.places).zip(name_offsets) {
            write_section_header(&mut out, section, place, name);
        }
        if self.short_section_count().is_none() {
            let first = layout.section_headers as usize + SHDR_SECTION_COUNT;
            out[first..first + 8].copy_from_slice(&(self.sections.len() as u64).to_le_bytes());
        }
        for segment in &self.segments {
            self.write_segment(&mut out, segment, &layout);
        }
        let header = self.encode_header(&layout)?;
        out[..EHDR_SIZE].copy_from_slice(&header);
        Ok(out)
    }

    /// `e_shnum`; without it the count is in the header of the null section.
    fn short_section_count(&self) -> Option<u16> {
        u16::try_from(self.sections.len()).ok().filter(|&count| count < elf::symbol_home::FIRST_RESERVED)
    }

    /// The bytes of each section that owns bytes of the file, but for string tables.
    fn encode_bodies(&self, names: &mut Names) -> Result<Vec<Option<Vec<u8>>>, WriteError> {
        let mut contents = Vec::with_capacity(self.sections.len());
        for section in &self.sections {
            let fail = |message: String| WriteError::in_section(&section.name, message);
            contents.push(match &section.body {
                _ if section.kind == SectionType::NULL => None,
                Body::Bytes(bytes) => Some(bytes.clone()),
                Body::Zeros(_) | Body::SameAs(_) | Body::Strings(_) => None,
                Body::Symbols(symbols) => {
                    let table = names.table(section.link as usize);
                    Some(encode_symbols(symbols, table.map_err(fail)?))
                }
                Body::Relocs(relocs) => Some(encode_relocs(section.kind, relocs).map_err(fail)?),
                Body::Info(attrs) => Some(attr::encode(attrs).map_err(fail)?),
                Body::Compat(records) => Some(compat::encode(records).map_err(fail)?),
                Body::Notes(notes) => Some(note::encode(notes)),
                Body::CallGraph(graph) => Some(graph.encode()),
                Body::Prototypes(prototypes) => Some(callgraph::encode_prototypes(prototypes)),
            });
        }
        Ok(contents)
    }

    fn encode_header(&self, layout: &Layout) -> Result<[u8; EHDR_SIZE], WriteError> {
        let header = &self.header;
        let segment_count = u16::try_from(self.segments.len())
            .map_err(|_| WriteError::in_file(format!("{} segments are too many", self.segments.len())))?;
        let mut out = Vec::with_capacity(EHDR_SIZE);
        out.extend_from_slice(&elf::MAGIC);
        out.extend_from_slice(&[elf::CLASS_64, elf::LITTLE_ENDIAN, 1, header.abi.os, header.abi.version]);
        out.resize(16, 0);
        out.put_u16(header.file_type.0);
        out.put_u16(elf::MACHINE_CUDA);
        out.put_u32(header.version);
        out.put_u64(0); // e_entry
        out.put_u64(if segment_count == 0 { 0 } else { layout.program_headers });
        out.put_u64(layout.section_headers);
        out.put_u32(header.flags.0);
        out.put_u16(EHDR_SIZE as u16);
        out.put_u16(header.segment_header_size);
        out.put_u16(segment_count);
        out.put_u16(SHDR_SIZE as u16);
        out.put_u16(self.short_section_count().unwrap_or(0));
        out.put_u16(header.section_names);
        let mut bytes = [0; EHDR_SIZE];
        bytes.copy_from_slice(&out);
        Ok(bytes)
    }

    fn write_segment(&self, out: &mut Vec<u8>, segment: &Segment, layout: &Layout) {
        let table_size = (self.segments.len() * PHDR_SIZE) as u64;
        let (offset, file_size, memory_size) = match segment.extent {
            Extent::ProgramHeaders => (layout.program_headers, table_size, table_size),
            Extent::Sections { first, last } => layout.extent(first, last).unwrap_or_default(),
            Extent::Fixed { offset, file_size, memory_size } => (offset, file_size, memory_size),
        };
        out.put_u32(segment.kind.0);
        out.put_u32(segment.flags);
        // Virtual and physical address: always zero.
        for value in [offset, 0, 0, file_size, memory_size, segment.align] {
            out.put_u64(value);
        }
    }
}

/// The string tables of a file, open for new strings.
struct Names {
    tables: Vec<Option<Interner>>,
}

impl Names {
    fn new(sections: &[Section]) -> Names {
        let open = |section: &Section| match &section.body {
            Body::Strings(table) => Some(Interner::new(table.clone())),
            _ => None,
        };
        Names { tables: sections.iter().map(open).collect() }
    }

    fn table(&mut self, index: usize) -> Result<&mut Interner, String> {
        let table = self.tables.get_mut(index).and_then(Option::as_mut);
        table.ok_or_else(|| format!("section {index} is to hold its names, but is no string table"))
    }

    fn of_sections(&mut self, object: &Object) -> Result<Vec<u32>, WriteError> {
        let table = self.table(object.header.section_names.into()).map_err(WriteError::in_file)?;
        Ok(object.sections.iter().map(|section| table.offset(&section.name)).collect())
    }

    fn finish(self, contents: &mut [Option<Vec<u8>>]) {
        for (content, table) in contents.iter_mut().zip(self.tables) {
            if let Some(StringTable { bytes }) = table.map(Interner::finish) {
                *content = Some(bytes);
            }
        }
    }
}

/// Where one section is in the file.
#[derive(Clone, Copy, Default)]
pub struct Placement {
    pub offset: u64,
    pub size: u64,
    /// Whether the size counts in the file.
    pub in_file: bool,
    pub align: u64,
}

/// Where everything is in the file.
pub struct Layout {
    pub places: Vec<Placement>,
    section_headers: u64,
    program_headers: u64,
}

/// The end of what a section takes of the file: sections without bytes take no more than their alignment.
fn end_of(place: &Placement) -> u64 {
    place.offset.saturating_add(if place.in_file { place.size } else { 0 })
}

impl Layout {
    fn new(sections: &[Section], contents: &[Option<Vec<u8>>]) -> Result<Layout, WriteError> {
        let mut places: Vec<Placement> = Vec::with_capacity(sections.len());
        let mut end = EHDR_SIZE as u64;
        for (section, content) in sections.iter().zip(contents) {
            let fail = |message: String| WriteError::in_section(&section.name, message);
            if section.kind == SectionType::NULL {
                places.push(Placement::default());
                continue;
            }
            if let Body::SameAs(other) = section.body {
                let place =
                    places.get(other).ok_or_else(|| fail(format!("section {other} is not before it")))?;
                places.push(*place);
                continue;
            }
            if section.align > MAX_ALIGN {
                return Err(fail(format!("alignment {:#x} is too large", section.align)).limit());
            }
            let offset = packed_offset(end, section.align).and_then(|offset| offset.checked_add(section.gap));
            let offset = offset.filter(|&offset| offset <= MAX_FILE);
            let offset =
                offset.ok_or_else(|| fail("the file would be too large before it".to_string()).limit())?;
            let (size, in_file) = match (&section.body, content) {
                (Body::Zeros(size), _) => (*size, false),
                (_, content) => (content.as_ref().map_or(0, Vec::len) as u64, true),
            };
            let place = Placement { offset, size, in_file, align: section.align };
            end = end_of(&place);
            places.push(place);
        }
        let section_headers = end.next_multiple_of(8);
        let program_headers = section_headers + (sections.len() * SHDR_SIZE) as u64;
        Ok(Layout { places, section_headers, program_headers })
    }

    fn extent(&self, first: usize, last: usize) -> Option<(u64, u64, u64)> {
        extents(self.places.get(first..=last)?).last()
    }
}

/// Where a section goes that follows what ends at `end`.
pub fn packed_offset(end: u64, align: u64) -> Option<u64> {
    end.checked_next_multiple_of(align.max(1))
}

/// The (offset, size in the file, size in memory) of segments that cover `run[..1]`, `run[..2]`, and so on.
/// In memory, sections without bytes follow each other at their alignments.
pub fn extents(run: &[Placement]) -> impl Iterator<Item = (u64, u64, u64)> {
    let start = run.first().map_or(0, |first| first.offset);
    let mut in_memory = start;
    run.iter().map(move |place| {
        if place.in_file {
            in_memory = in_memory.max(end_of(place));
        } else {
            let aligned = packed_offset(in_memory.max(place.offset), place.align).unwrap_or(in_memory);
            in_memory = aligned.saturating_add(place.size);
        }
        (start, end_of(place).saturating_sub(start), in_memory - start)
    })
}

fn write_section_header(out: &mut Vec<u8>, section: &Section, place: &Placement, name: u32) {
    out.put_u32(name);
    out.put_u32(section.kind.0);
    for value in [section.flags, section.address, place.offset, place.size] {
        out.put_u64(value);
    }
    out.put_u32(section.link);
    out.put_u32(section.info);
    out.put_u64(section.align);
    out.put_u64(section.entry_size);
}

fn encode_symbols(symbols: &[Symbol], names: &mut Interner) -> Vec<u8> {
    let mut out = Vec::with_capacity(symbols.len() * elf::SYM_SIZE);
    for symbol in symbols {
        out.put_u32(names.offset(&symbol.name));
        out.put_u8(symbol.binding.0 << 4 | symbol.kind.0 & 0xf);
        out.put_u8(symbol.other.0);
        out.put_u16(symbol.home.to_index());
        out.put_u64(symbol.value);
        out.put_u64(symbol.size);
    }
    out
}

fn encode_relocs(kind: SectionType, relocs: &[Reloc]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(relocs.len() * elf::RELA_SIZE);
    for reloc in relocs {
        out.put_u64(reloc.offset);
        out.put_u64(u64::from(reloc.symbol) << 32 | u64::from(reloc.kind.0));
        match (kind, reloc.addend) {
            (SectionType::REL, 0) => {}
            (SectionType::REL, addend) => {
                return Err(format!("a REL section can't hold the addend {addend:#x}"));
            }
            (_, addend) => out.put_u64(addend as u64),
        }
    }
    Ok(out)
}
