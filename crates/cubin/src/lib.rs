#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod attr;
mod build;
mod bytes;
pub mod callgraph;
pub mod compat;
pub mod elf;
mod error;
pub mod fatbin;
mod frame;
pub mod inspect;
pub mod json;
pub mod line;
pub mod module;
mod names;
mod note;
mod object;
pub mod raw;
mod read;
mod record;
mod strings;
pub mod target;
mod write;

pub use bytes::Flaw;
pub use error::{Place, ReadError, WriteError};
pub use inspect::{Inspection, inspect};
pub use module::Module;
pub use names::{Binding, FileType, MemorySpace, RelocType, SectionType, SegmentType, SymbolType};
pub use note::{CudaInfo, Note, ToolInfo, decode as notes};
pub use object::{
    Abi, Body, Extent, Flags, Header, Home, Object, Reloc, Section, Segment, Symbol, SymbolOther,
};
pub use read::elf_sections;
pub use strings::StringTable;
pub use target::Target;
