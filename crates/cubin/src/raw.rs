//! A cubin as its tables say it, with nothing decoded: what tools need that print a file or link it, and that want
//! the bytes of each section.

#![allow(missing_docs, reason = "the names of fields are those of ELF")]

use crate::elf;
use crate::object::Header;

pub use crate::object::{Reloc, Symbol};

/// A file.
#[derive(Clone, Debug)]
pub struct File<'a> {
    pub header: Header,
    /// By index; the first is the null section.
    pub sections: Vec<Section<'a>>,
    /// Of `.symtab`, by index; none if there is no such table.
    pub symbols: Vec<Symbol>,
    pub segments: Vec<Segment>,
}

/// A section header and its bytes.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    pub name: String,
    pub kind: crate::SectionType,
    pub flags: u64,
    pub address: u64,
    pub offset: u64,
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub align: u64,
    pub entry_size: u64,
    /// None for sections that take no bytes of the file.
    pub bytes: &'a [u8],
}

/// A program header.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub kind: crate::SegmentType,
    pub flags: u32,
    pub offset: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub align: u64,
}

impl Section<'_> {
    /// Part of the capsule of sm_100 and later.
    pub fn is_capsule(&self) -> bool {
        self.flags & elf::section_flags::MERCURY != 0
    }

    /// Machine code.
    pub fn is_code(&self) -> bool {
        self.flags & elf::section_flags::EXEC != 0
    }
}

impl<'a> File<'a> {
    /// The first section of the name, with its index.
    pub fn section(&self, name: &str) -> Option<(usize, &Section<'a>)> {
        self.sections.iter().enumerate().find(|(_, section)| section.name == name)
    }

    /// A string of the table that symbols take their names from.
    pub fn string(&self, offset: u32) -> Option<&'a str> {
        let symtab = self.sections.iter().find(|section| section.kind == crate::SectionType::SYMTAB)?;
        let bytes = self.sections.get(symtab.link as usize)?.bytes.get(offset as usize..)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(bytes.get(..end)?).ok()
    }
}
