//! The model of a cubin: a header, typed sections, segments. `Object::read` makes it from bytes and
//! `Object::write` makes bytes from it.
//!
//! What holds:
//! * Indices are those of the file. `sections[0]` is the null section, `symbols[0]` the null symbol; links,
//!   relocations and attributes name sections and symbols by index.
//! * Offsets are not in the model, but for `Section::gap`: the writer lays the file out, and the layout of a
//!   file by ptxas comes out as it was.
//! * Nothing is lost: a section that has no typed form, or whose bytes the typed form can't say, is `Bytes`.

#![allow(missing_docs, reason = "types say what they are; the names of fields are those of the format")]

use crate::attr::{Attr, Value};
use crate::callgraph::{CallGraph, Prototype};
use crate::compat::Compat;
use crate::elf::symbol_home;
use crate::names::{Binding, FileType, MemorySpace, RelocType, SectionType, SegmentType, SymbolType};
use crate::note::Note;
use crate::strings::StringTable;

/// A file: nothing that is in it is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub header: Header,
    pub sections: Vec<Section>,
    pub segments: Vec<Segment>,
}

/// What the ELF header says, but for what follows from the sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub file_type: FileType,
    pub abi: Abi,
    /// `e_version`.
    pub version: u32,
    pub flags: Flags,
    /// The section that holds the section names.
    pub section_names: u16,
    /// `e_phentsize`. In files without segments ptxas writes 56 before sm_90 and 0 since.
    pub segment_header_size: u16,
}

/// `EI_OSABI` and `EI_ABIVERSION`, which decide how `e_flags` is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abi {
    pub os: u8,
    pub version: u8,
}

impl Abi {
    /// What the toolkit writes since 13.0.
    pub const CURRENT: Abi = Abi { os: 0x41, version: 8 };
    /// The older form; drivers and tools still accept it.
    pub const LEGACY: Abi = Abi { os: 0x33, version: 7 };
}

/// `e_flags` of the current ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// A stream for the finalizer in place of SASS. Never set on an executable cubin.
    pub const MERCURY: u32 = 1;
    /// A capsule for the finalizer comes with the SASS.
    pub const CAPSULE: u32 = 2;
    /// Plain SASS.
    pub const SASS: u32 = 4;

    /// Flags of these parts.
    pub fn new(kind: u32, sm: u16, cuinfo_section: u8) -> Flags {
        Flags(kind & 0xff | u32::from(sm) << 8 | u32::from(cuinfo_section) << 24)
    }

    /// [`Flags::SASS`] or [`Flags::CAPSULE`].
    pub fn kind(self) -> u32 {
        self.0 & 0xff
    }
}

impl Header {
    /// The SM number: 90 for sm_90 and sm_90a.
    pub fn sm(&self) -> u16 {
        if self.abi.os == Abi::CURRENT.os { (self.flags.0 >> 8) as u16 } else { (self.flags.0 & 0xff) as u16 }
    }
}

/// A section: its header, and its content by type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    pub kind: SectionType,
    pub flags: u64,
    pub address: u64,
    pub link: u32,
    pub info: u32,
    pub align: u64,
    pub entry_size: u64,
    /// Bytes left free before the section, beyond what its alignment asks for.
    pub gap: u64,
    pub body: Body,
}

impl Section {
    /// A section with every field zero that the arguments do not give.
    pub fn new(name: impl Into<String>, kind: SectionType, align: u64, body: Body) -> Section {
        let name = name.into();
        Section { name, kind, flags: 0, address: 0, link: 0, info: 0, align, entry_size: 0, gap: 0, body }
    }
}

/// What a section holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Bytes(Vec<u8>),
    /// So many zero bytes that take no place in the file.
    Zeros(u64),
    /// The same bytes of the file as an earlier section.
    SameAs(usize),
    Strings(StringTable),
    Symbols(Vec<Symbol>),
    Relocs(Vec<Reloc>),
    Info(Vec<Attr>),
    Compat(Vec<Compat>),
    Notes(Vec<Note>),
    CallGraph(CallGraph),
    Prototypes(Vec<Prototype>),
}

/// A row of the symbol table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    pub kind: SymbolType,
    pub binding: Binding,
    pub other: SymbolOther,
    pub home: Home,
    pub value: u64,
    pub size: u64,
}

impl Symbol {
    /// The first symbol of every table.
    pub fn null() -> Symbol {
        Symbol {
            name: String::new(),
            kind: SymbolType::NONE,
            binding: Binding::LOCAL,
            other: SymbolOther(0),
            home: Home::Undefined,
            value: 0,
            size: 0,
        }
    }
}

/// `st_other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolOther(pub u8);

impl SymbolOther {
    /// Of a kernel.
    pub const ENTRY: SymbolOther = SymbolOther(0x10);
    /// Of a variable.
    pub const MANAGED: SymbolOther = SymbolOther(4);
    /// In constant memory, with internal visibility: parameters and literals of a relocatable file.
    pub const INTERNAL: SymbolOther = SymbolOther(1);
    /// See `INTERNAL`.
    pub const INTERNAL_CONSTANT: SymbolOther = SymbolOther(MemorySpace::CONSTANT.0 << 5 | 1);

    /// Of a variable in this memory.
    pub fn in_space(space: MemorySpace) -> SymbolOther {
        SymbolOther(space.0 << 5)
    }

    /// The visibility of ELF: 0 default, 1 internal, 2 hidden, 3 protected.
    pub fn visibility(self) -> u8 {
        self.0 & 3
    }

    /// A managed variable, or a function of the unified table.
    pub fn is_managed_or_unified(self) -> bool {
        self.0 & 4 != 0
    }

    /// A kernel that the host can launch.
    pub fn is_entry(self) -> bool {
        self.0 & SymbolOther::ENTRY.0 != 0
    }

    /// The memory that a variable is in.
    pub fn space(self) -> MemorySpace {
        MemorySpace(self.0 >> 5)
    }
}

/// Where a symbol is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    Undefined,
    /// By index. Indices from 0xff00 on are in `.symtab_shndx` too, a section of `Bytes` that has to agree.
    Section(u32),
    Absolute,
    Common,
    Reserved(u16),
}

impl Home {
    /// By `st_shndx`.
    pub fn from_index(index: u16) -> Home {
        match index {
            symbol_home::UNDEFINED => Home::Undefined,
            symbol_home::ABSOLUTE => Home::Absolute,
            symbol_home::COMMON => Home::Common,
            symbol_home::FIRST_RESERVED.. => Home::Reserved(index),
            _ => Home::Section(index.into()),
        }
    }

    /// As `st_shndx`.
    pub fn to_index(self) -> u16 {
        match self {
            Home::Undefined => symbol_home::UNDEFINED,
            Home::Absolute => symbol_home::ABSOLUTE,
            Home::Common => symbol_home::COMMON,
            Home::Reserved(index) => index,
            Home::Section(index) => match u16::try_from(index) {
                Ok(index) if index < symbol_home::FIRST_RESERVED => index,
                _ => symbol_home::ELSEWHERE,
            },
        }
    }
}

/// A row of a relocation section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reloc {
    pub offset: u64,
    pub symbol: u32,
    pub kind: RelocType,
    /// Zero in a section of type `REL`, which has no field for it.
    pub addend: i64,
}

/// A program header. The driver needs none; tools print them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub kind: SegmentType,
    pub flags: u32,
    pub extent: Extent,
    pub align: u64,
}

/// What of the file a segment covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The program headers themselves.
    ProgramHeaders,
    /// The sections from `first` to `last`.
    Sections { first: usize, last: usize },
    /// Anything else, as it is in the file.
    Fixed { offset: u64, file_size: u64, memory_size: u64 },
}

impl Object {
    /// The first section of the name, with its index.
    pub fn section(&self, name: &str) -> Option<(usize, &Section)> {
        self.sections.iter().enumerate().find(|(_, section)| section.name == name)
    }

    /// The attributes of a section, such as `.nv.info.<kernel>`; none if the file has no such section.
    pub fn attributes(&self, section: &str) -> &[Attr] {
        match self.section(section).map(|(_, section)| &section.body) {
            Some(Body::Info(attributes)) => attributes,
            _ => &[],
        }
    }

    /// Bytes before a kernel's first parameter: it is at a multiple of its alignment in the bank, where all of them
    /// begin at 0x210 on Hopper, which is none of 64.
    pub fn first_parameter(&self, kernel: &str) -> usize {
        let attributes = self.attributes(&format!(".nv.info.{kernel}")).iter();
        let offsets = attributes.filter_map(|attribute| match &attribute.value {
            Value::Param(parameter) => Some(usize::from(parameter.offset)),
            Value::ParamV2(parameter) => Some(usize::from(parameter.offset)),
            _ => None,
        });
        offsets.min().unwrap_or(0)
    }

    /// The symbols of `.symtab`; none if the file has no symbol table.
    pub fn symbols(&self) -> &[Symbol] {
        let tables = self.sections.iter().filter(|section| section.kind == SectionType::SYMTAB);
        let bodies = tables.filter_map(|section| match &section.body {
            Body::Symbols(symbols) => Some(symbols.as_slice()),
            _ => None,
        });
        bodies.into_iter().next().unwrap_or_default()
    }
}
