//! Bytes to `Object`.
//!
//! Written by hand: the typed sections, the bytes that sections share and the layout gaps are NVIDIA's own,
//! and for the rest of ELF64 a general reader would save a page of field reads.
//!
//! For any input there is a model or an error, never a panic. Memory stays within a small multiple of the
//! input: sections may share all of their bytes or none (`owners`), and names are counted (`NameBudget`).

use crate::bytes::{Cursor, Flaw};
use crate::callgraph::{self, CallGraph};
use crate::elf::{self, EHDR_SIZE, PHDR_SIZE, SHDR_SIZE};
use crate::error::ReadError;
use crate::names::{Binding, FileType, RelocType, SectionType, SegmentType, SymbolType};
use crate::object::{
    Abi, Body, Extent, Flags, Header, Home, Object, Reloc, Section, Segment, Symbol, SymbolOther,
};
use crate::strings::StringTable;
use crate::write::{Placement, extents, packed_offset};
use crate::{attr, compat, note, raw};

/// All names together may take this many times the size of the file.
const NAME_BUDGET_FACTOR: usize = 8;

/// Steps spent on finding which sections a segment covers, over all segments of a file.
const SEGMENT_SEARCH_STEPS: usize = 1 << 20;

impl Object {
    /// Reads an executable, a relocatable or a whole-program cubin.
    pub fn read(data: &[u8]) -> Result<Object, ReadError> {
        let raw = RawHeader::read(data)?;
        if raw.machine != elf::MACHINE_CUDA {
            return Err(ReadError::in_file(18, format!("machine {} is not CUDA (190)", raw.machine)));
        }
        let headers = raw.section_headers(data)?;
        let mut budget = NameBudget(data.len().saturating_mul(NAME_BUDGET_FACTOR));
        let names = section_names(&raw, &headers, data, &mut budget)?;
        let owners = owners(&headers, &names, data)?;

        let mut sections = Vec::with_capacity(headers.len());
        let mut end = EHDR_SIZE as u64;
        for (index, (header, name)) in headers.iter().zip(names).enumerate() {
            let body = match owners[index] {
                Some(owner) => Body::SameAs(owner),
                None => decode_body(index, &headers, data, &mut budget)
                    .map_err(|flaw| ReadError::in_section(index, &name, flaw))?,
            };
            let gap = match &body {
                Body::SameAs(_) => 0,
                _ => header.gap_after(&mut end, data.len() as u64),
            };
            sections.push(header.section(name, gap, body));
        }
        let places: Vec<_> = headers.iter().map(RawSection::place).collect();
        let segments = raw.segments(data, &places)?;
        Ok(Object { header: raw.header, sections, segments })
    }
}

/// The machine of any 64-bit little-endian ELF file; `None` for other files.
pub fn elf_machine(data: &[u8]) -> Option<u16> {
    RawHeader::read(data).ok().map(|raw| raw.machine)
}

/// The bytes of the sections of an ELF file for any machine, with their names.
pub fn elf_sections(data: &[u8]) -> Result<Vec<(String, &[u8])>, ReadError> {
    let raw = RawHeader::read(data)?;
    let headers = raw.section_headers(data)?;
    let mut budget = NameBudget(data.len().saturating_mul(NAME_BUDGET_FACTOR));
    let names = section_names(&raw, &headers, data, &mut budget)?;
    let mut sections = Vec::with_capacity(headers.len());
    for (index, (header, name)) in headers.iter().zip(names).enumerate() {
        let bytes = if header.in_file() { header.bytes(data) } else { Ok(&[][..]) };
        let bytes = bytes.map_err(|flaw| ReadError::in_section(index, &name, flaw))?;
        sections.push((name, bytes));
    }
    Ok(sections)
}

impl<'a> raw::File<'a> {
    /// Reads the tables.
    pub fn read(data: &'a [u8]) -> Result<raw::File<'a>, ReadError> {
        raw_file(data)
    }

    /// The relocations of a section, in the order of the file. What rows without a field for it add is in the place
    /// that they fill, and read from there if that is a whole word of data.
    pub fn relocs_of(&self, section: usize) -> Vec<Reloc> {
        let applies = |table: &&raw::Section| {
            matches!(table.kind, SectionType::REL | SectionType::RELA) && table.info as usize == section
        };
        let mut all = Vec::new();
        for table in self.sections.iter().filter(applies) {
            let mut relocs = relocs(table);
            let whole_word = |reloc: &&mut Reloc| {
                table.kind == SectionType::REL && matches!(reloc.kind, RelocType::DATA_64 | RelocType::G64)
            };
            for reloc in relocs.iter_mut().filter(whole_word) {
                let place =
                    self.sections.get(section).and_then(|home| home.bytes.get(reloc.offset as usize..));
                if let Some(word) = place.and_then(|place| place.first_chunk()) {
                    reloc.addend = i64::from_le_bytes(*word);
                }
            }
            all.extend(relocs);
        }
        all
    }
}

/// The tables of a cubin.
pub fn raw_file(data: &[u8]) -> Result<raw::File<'_>, ReadError> {
    let raw = RawHeader::read(data)?;
    if raw.machine != elf::MACHINE_CUDA {
        return Err(ReadError::in_file(18, format!("machine {} is not CUDA (190)", raw.machine)));
    }
    let headers = raw.section_headers(data)?;
    let mut budget = NameBudget(data.len().saturating_mul(NAME_BUDGET_FACTOR));
    let names = section_names(&raw, &headers, data, &mut budget)?;
    let owners = owners(&headers, &names, data)?;
    let mut sections = Vec::with_capacity(headers.len());
    let mut symbols = Vec::new();
    for (index, (header, name)) in headers.iter().zip(names).enumerate() {
        let fail = |flaw| ReadError::in_section(index, &name, flaw);
        let bytes = if header.in_file() { header.bytes(data).map_err(fail)? } else { &[] };
        if header.kind == SectionType::SYMTAB
            && owners[index].is_none()
            && let Body::Symbols(table) = decode_body(index, &headers, data, &mut budget).map_err(fail)?
        {
            symbols = table;
        }
        let RawSection { kind, flags, address, offset, size, link, info, align, entry_size, .. } = *header;
        sections.push(raw::Section {
            name,
            kind,
            flags,
            address,
            offset,
            size,
            link,
            info,
            align,
            entry_size,
            bytes,
        });
    }
    let table = table(data, raw.program_headers, raw.segment_count, PHDR_SIZE, "program headers")?;
    let segments = table.chunks_exact(PHDR_SIZE).map(raw_segment).collect::<Result<_, Flaw>>()?;
    Ok(raw::File { header: raw.header, sections, symbols, segments })
}

fn raw_segment(bytes: &[u8]) -> Result<raw::Segment, Flaw> {
    let mut cursor = Cursor::new(bytes);
    let (kind, flags) = (SegmentType(cursor.u32()?), cursor.u32()?);
    let offset = cursor.u64()?;
    cursor.take(16)?;
    let (file_size, memory_size, align) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    Ok(raw::Segment { kind, flags, offset, file_size, memory_size, align })
}

/// The rows of a relocation section; none where it is damaged.
pub fn relocs(section: &raw::Section) -> Vec<Reloc> {
    let entry_size = if section.kind == SectionType::REL { elf::REL_SIZE } else { elf::RELA_SIZE };
    decode_relocs(section.bytes, entry_size).unwrap_or_default()
}

/// Limits how many bytes of names are copied: many symbols may name one long string.
struct NameBudget(usize);

impl NameBudget {
    fn name(&mut self, table: &[u8], offset: u32, what: &str) -> Result<String, String> {
        let from = table.get(offset as usize..);
        let from = from.ok_or_else(|| format!("the name of {what} is outside of the string table"))?;
        let length = from.iter().take(self.0).position(|&byte| byte == 0);
        let length = length.ok_or_else(|| format!("the name of {what} does not end"))?;
        self.0 -= length;
        let name = std::str::from_utf8(&from[..length]);
        Ok(name.map_err(|_| format!("the name of {what} is not UTF-8"))?.to_string())
    }
}

struct RawHeader {
    machine: u16,
    header: Header,
    section_headers: u64,
    section_count: usize,
    program_headers: u64,
    segment_count: usize,
}

impl RawHeader {
    fn read(data: &[u8]) -> Result<RawHeader, ReadError> {
        let mut cursor = Cursor::new(data);
        if cursor.take(4)? != elf::MAGIC {
            return Err(ReadError::in_file(0, "this is not an ELF file"));
        }
        let (class, order) = (cursor.u8()?, cursor.u8()?);
        if (class, order) != (elf::CLASS_64, elf::LITTLE_ENDIAN) {
            return Err(ReadError::in_file(4, format!("ELF class {class}, byte order {order}: not 2 and 1")));
        }
        cursor.u8()?; // EI_VERSION
        let abi = Abi { os: cursor.u8()?, version: cursor.u8()? };
        cursor.take(7)?;
        let file_type = FileType(cursor.u16()?);
        let machine = cursor.u16()?;
        let version = cursor.u32()?;
        cursor.u64()?; // e_entry: zero
        let (program_headers, section_headers) = (cursor.u64()?, cursor.u64()?);
        let flags = Flags(cursor.u32()?);
        cursor.u16()?; // e_ehsize
        let (segment_header_size, segment_count) = (cursor.u16()?, cursor.u16()?.into());
        let (section_header_size, section_count) = (cursor.u16()?, cursor.u16()?.into());
        let section_names = cursor.u16()?;
        if section_count > 0 && usize::from(section_header_size) != SHDR_SIZE {
            let message = format!("section headers of {section_header_size} bytes, not {SHDR_SIZE}");
            return Err(ReadError::in_file(58, message));
        }
        if segment_count > 0 && usize::from(segment_header_size) != PHDR_SIZE {
            let message = format!("program headers of {segment_header_size} bytes, not {PHDR_SIZE}");
            return Err(ReadError::in_file(54, message));
        }
        let header = Header { file_type, abi, version, flags, section_names, segment_header_size };
        Ok(RawHeader { machine, header, section_headers, section_count, program_headers, segment_count })
    }

    fn section_headers(&self, data: &[u8]) -> Result<Vec<RawSection>, ReadError> {
        let mut count = self.section_count;
        if count == 0 && self.section_headers > 0 {
            // There are too many to count in the file header.
            let null = table(data, self.section_headers, 1, SHDR_SIZE, "section headers")?;
            count = usize::try_from(RawSection::read(null)?.size).unwrap_or(usize::MAX);
        }
        let table = table(data, self.section_headers, count, SHDR_SIZE, "section headers")?;
        table.chunks_exact(SHDR_SIZE).map(|bytes| Ok(RawSection::read(bytes)?)).collect()
    }

    fn segments(&self, data: &[u8], places: &[Placement]) -> Result<Vec<Segment>, ReadError> {
        let table = table(data, self.program_headers, self.segment_count, PHDR_SIZE, "program headers")?;
        let mut steps = SEGMENT_SEARCH_STEPS;
        let mut segments = Vec::with_capacity(self.segment_count);
        for bytes in table.chunks_exact(PHDR_SIZE) {
            let mut cursor = Cursor::new(bytes);
            let (kind, flags) = (SegmentType(cursor.u32()?), cursor.u32()?);
            let offset = cursor.u64()?;
            cursor.take(16)?; // virtual and physical address: zero
            let (file_size, memory_size) = (cursor.u64()?, cursor.u64()?);
            let align = cursor.u64()?;
            let whole = (self.program_headers, table.len() as u64, table.len() as u64);
            let wanted = (offset, file_size, memory_size);
            let extent = if wanted == whole {
                Extent::ProgramHeaders
            } else {
                covered(places, wanted, &mut steps).unwrap_or(Extent::Fixed {
                    offset,
                    file_size,
                    memory_size,
                })
            };
            segments.push(Segment { kind, flags, extent, align });
        }
        Ok(segments)
    }
}

/// The bytes of a table of fixed-size entries.
fn table<'a>(
    data: &'a [u8],
    offset: u64,
    count: usize,
    entry_size: usize,
    what: &str,
) -> Result<&'a [u8], ReadError> {
    if count == 0 {
        return Ok(&[]);
    }
    let start = usize::try_from(offset).ok();
    let range = start.and_then(|start| Some(start..start.checked_add(count.checked_mul(entry_size)?)?));
    range.and_then(|range| data.get(range)).ok_or_else(|| {
        ReadError::in_file(offset, format!("{count} {what} do not fit into {} bytes", data.len()))
    })
}

/// The run of sections that a segment covers, if there is one that gives just its sizes.
fn covered(places: &[Placement], wanted: (u64, u64, u64), steps: &mut usize) -> Option<Extent> {
    // The last candidate first: those before it in the same place are empty, or belong to another segment.
    for first in (1..places.len()).rev().filter(|&first| places[first].offset == wanted.0) {
        for (last, found) in (first..).zip(extents(&places[first..])) {
            *steps = steps.checked_sub(1)?;
            if found == wanted {
                return Some(Extent::Sections { first, last });
            }
            if found.1 > wanted.1 {
                break;
            }
        }
    }
    None
}

struct RawSection {
    name: u32,
    kind: SectionType,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    align: u64,
    entry_size: u64,
}

impl RawSection {
    fn read(bytes: &[u8]) -> Result<RawSection, Flaw> {
        let mut cursor = Cursor::new(bytes);
        Ok(RawSection {
            name: cursor.u32()?,
            kind: SectionType(cursor.u32()?),
            flags: cursor.u64()?,
            address: cursor.u64()?,
            offset: cursor.u64()?,
            size: cursor.u64()?,
            link: cursor.u32()?,
            info: cursor.u32()?,
            align: cursor.u64()?,
            entry_size: cursor.u64()?,
        })
    }

    /// Whether the section takes bytes of the file. Relocatable files keep variables that start as zero under
    /// types of their own. The capsule's copy of reserved shared memory has bytes, which mean nothing.
    fn in_file(&self) -> bool {
        match self.kind {
            SectionType::NULL | SectionType::NOBITS | SectionType::CUDA_GLOBAL | SectionType::CUDA_SHARED => {
                false
            }
            SectionType::CUDA_RESERVED_SHARED => self.flags & elf::section_flags::MERCURY != 0,
            _ => true,
        }
    }

    fn place(&self) -> Placement {
        Placement { offset: self.offset, size: self.size, in_file: self.in_file(), align: self.align }
    }

    fn bytes<'a>(&self, data: &'a [u8]) -> Result<&'a [u8], Flaw> {
        let range = self.offset.checked_add(self.size).map(|end| self.offset as usize..end as usize);
        range.and_then(|range| data.get(range)).ok_or_else(|| {
            let (offset, size, length) = (self.offset, self.size, data.len());
            Flaw::new(
                0,
                format!("{size:#x} bytes at offset {offset:#x} are outside of the file ({length:#x})"),
            )
        })
    }

    /// The bytes left free before this section; `end` moves from the end of the last section to the end of this.
    fn gap_after(&self, end: &mut u64, file_size: u64) -> u64 {
        if self.kind == SectionType::NULL {
            return 0;
        }
        let packed = packed_offset(*end, self.align);
        let gap =
            packed.and_then(|packed| self.offset.checked_sub(packed)).filter(|_| self.offset <= file_size);
        // A section that starts too early, as in a file whose sections are out of order, moves on writing. So
        // does one without bytes that claims to be beyond the end.
        let start = if gap.is_some() { self.offset } else { packed.unwrap_or(*end) };
        *end = start.saturating_add(if self.in_file() { self.size } else { 0 });
        gap.unwrap_or(0)
    }

    fn section(&self, name: String, gap: u64, body: Body) -> Section {
        let RawSection { kind, flags, address, link, info, align, entry_size, .. } = *self;
        Section { name, kind, flags, address, link, info, align, entry_size, gap, body }
    }
}

/// For each section, the earlier section whose bytes it shares. Sections that overlap in another way are an
/// error: no tool writes them, and reading them could take any multiple of the file's size.
fn owners(headers: &[RawSection], names: &[String], data: &[u8]) -> Result<Vec<Option<usize>>, ReadError> {
    let mut order: Vec<usize> =
        (0..headers.len()).filter(|&index| headers[index].in_file() && headers[index].size > 0).collect();
    order.sort_by_key(|&index| (headers[index].offset, headers[index].size, index));
    let mut owners = vec![None; headers.len()];
    let mut last: Option<usize> = None;
    for index in order {
        let this = &headers[index];
        let fail = |flaw| ReadError::in_section(index, &names[index], flaw);
        this.bytes(data).map_err(fail)?;
        if let Some(owner) = last {
            let other = &headers[owner];
            if (other.offset, other.size) == (this.offset, this.size) {
                owners[index] = Some(owner);
                continue;
            }
            if this.offset < other.offset + other.size {
                let message = format!("the bytes at {:#x} are also part of section {owner}", this.offset);
                return Err(fail(Flaw::new(0, message)));
            }
        }
        last = Some(index);
    }
    Ok(owners)
}

fn section_names(
    raw: &RawHeader,
    headers: &[RawSection],
    data: &[u8],
    budget: &mut NameBudget,
) -> Result<Vec<String>, ReadError> {
    if headers.is_empty() {
        return Ok(Vec::new());
    }
    let index = usize::from(raw.header.section_names);
    let table = headers.get(index).filter(|header| header.kind == SectionType::STRTAB);
    let table = table.ok_or_else(|| {
        ReadError::in_file(
            62,
            format!("section {index} is to hold the section names, but is no string table"),
        )
    })?;
    let table = table.bytes(data).map_err(|flaw| ReadError::in_section(index, "section names", flaw))?;
    let name = |(index, header): (usize, &RawSection)| {
        let name = budget.name(table, header.name, &format!("section {index}"));
        name.map_err(|message| ReadError::in_file(raw.section_headers + (index * SHDR_SIZE) as u64, message))
    };
    headers.iter().enumerate().map(name).collect()
}

fn decode_body(
    index: usize,
    headers: &[RawSection],
    data: &[u8],
    budget: &mut NameBudget,
) -> Result<Body, Flaw> {
    let header = &headers[index];
    if header.kind == SectionType::NULL {
        return Ok(Body::Bytes(Vec::new()));
    }
    if !header.in_file() {
        return Ok(Body::Zeros(header.size));
    }
    let bytes = header.bytes(data)?;
    Ok(match header.kind {
        SectionType::STRTAB => Body::Strings(StringTable { bytes: bytes.to_vec() }),
        SectionType::SYMTAB | SectionType::MERCURY_SYMTAB => {
            let table = headers.get(header.link as usize).filter(|table| table.kind == SectionType::STRTAB);
            let message = || Flaw::new(0, format!("section {} is no string table", header.link));
            let names = table.ok_or_else(message)?.bytes(data)?;
            Body::Symbols(decode_symbols(bytes, names, far_homes(index, headers, data)?, budget)?)
        }
        SectionType::REL => Body::Relocs(decode_relocs(bytes, elf::REL_SIZE)?),
        SectionType::RELA | SectionType::MERCURY_RELA => Body::Relocs(decode_relocs(bytes, elf::RELA_SIZE)?),
        SectionType::CUDA_INFO | SectionType::MERCURY_INFO => Body::Info(attr::decode(bytes)?),
        SectionType::CUDA_COMPAT_INFO => Body::Compat(compat::decode(bytes)?),
        SectionType::NOTE => Body::Notes(note::decode(bytes)?),
        SectionType::CUDA_CALLGRAPH => match CallGraph::decode(bytes) {
            Some(graph) => Body::CallGraph(graph),
            None => Body::Bytes(bytes.to_vec()),
        },
        SectionType::CUDA_PROTOTYPE => Body::Prototypes(callgraph::decode_prototypes(bytes)?),
        _ => Body::Bytes(bytes.to_vec()),
    })
}

/// The words of `.symtab_shndx`, the sections of symbols, for those whose index has no place in the symbol.
fn far_homes<'a>(symtab: usize, headers: &[RawSection], data: &'a [u8]) -> Result<&'a [[u8; 4]], Flaw> {
    let is_own =
        |header: &&RawSection| header.kind == SectionType::SYMTAB_SHNDX && header.link as usize == symtab;
    let Some(header) = headers.iter().find(is_own) else { return Ok(&[]) };
    Ok(header.bytes(data)?.as_chunks().0)
}

fn decode_symbols(
    bytes: &[u8],
    names: &[u8],
    far_homes: &[[u8; 4]],
    budget: &mut NameBudget,
) -> Result<Vec<Symbol>, Flaw> {
    whole_entries(bytes, elf::SYM_SIZE, "symbol")?;
    let mut symbols = Vec::with_capacity(bytes.len() / elf::SYM_SIZE);
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_at_end() {
        let (start, index) = (cursor.position(), symbols.len());
        let name = budget.name(names, cursor.u32()?, &format!("symbol {index}"));
        let name = name.map_err(|message| Flaw::new(start, message))?;
        let info = cursor.u8()?;
        symbols.push(Symbol {
            name,
            kind: SymbolType(info & 0xf),
            binding: Binding(info >> 4),
            other: SymbolOther(cursor.u8()?),
            home: match (cursor.u16()?, far_homes.get(index)) {
                (elf::symbol_home::ELSEWHERE, Some(home)) => Home::Section(u32::from_le_bytes(*home)),
                (home, _) => Home::from_index(home),
            },
            value: cursor.u64()?,
            size: cursor.u64()?,
        });
    }
    Ok(symbols)
}

fn decode_relocs(bytes: &[u8], entry_size: usize) -> Result<Vec<Reloc>, Flaw> {
    whole_entries(bytes, entry_size, "relocation")?;
    let mut relocs = Vec::with_capacity(bytes.len() / entry_size);
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_at_end() {
        let (offset, info) = (cursor.u64()?, cursor.u64()?);
        let addend = if entry_size == elf::RELA_SIZE { cursor.u64()? as i64 } else { 0 };
        relocs.push(Reloc { offset, symbol: (info >> 32) as u32, kind: RelocType(info as u32), addend });
    }
    Ok(relocs)
}

fn whole_entries(bytes: &[u8], entry_size: usize, what: &str) -> Result<(), Flaw> {
    let rest = bytes.len() % entry_size;
    if rest == 0 {
        return Ok(());
    }
    Err(Flaw::new(bytes.len() - rest, format!("a {what} has {entry_size} bytes, {rest} are left")))
}
