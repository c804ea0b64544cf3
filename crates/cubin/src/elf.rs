//! The fixed sizes and flag bits of ELF64 as NVIDIA uses it.

#![allow(missing_docs, reason = "the names of ELF and of NVIDIA")]

pub const EHDR_SIZE: usize = 64;
pub const SHDR_SIZE: usize = 64;
/// Where in the header of the null section the number of sections is if `e_shnum` is too small for it.
pub const SHDR_SECTION_COUNT: usize = 32;
pub const PHDR_SIZE: usize = 56;
pub const SYM_SIZE: usize = 24;
pub const REL_SIZE: usize = 16;
pub const RELA_SIZE: usize = 24;

pub const MAGIC: [u8; 4] = *b"\x7fELF";
pub const CLASS_64: u8 = 2;
pub const LITTLE_ENDIAN: u8 = 1;
pub const MACHINE_CUDA: u16 = 190;

/// `sh_flags`.
pub mod section_flags {
    pub const WRITE: u64 = 0x1;
    pub const ALLOC: u64 = 0x2;
    pub const EXEC: u64 = 0x4;
    /// `sh_info` holds a section index.
    pub const INFO_LINK: u64 = 0x40;
    pub const NOTE_CUINFO: u64 = 0x100_0000;
    pub const NOTE_TKINFO: u64 = 0x200_0000;
    /// Belongs to the capsule of sm_100 and later.
    pub const MERCURY: u64 = 0x1000_0000;
}

/// `p_flags`.
pub mod segment_flags {
    pub const EXEC: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const READ: u32 = 4;
}

/// The special values of `st_shndx`.
pub mod symbol_home {
    pub const UNDEFINED: u16 = 0;
    pub const FIRST_RESERVED: u16 = 0xff00;
    pub const ABSOLUTE: u16 = 0xfff1;
    pub const COMMON: u16 = 0xfff2;
    /// The section index has no place here and is in `.symtab_shndx`.
    pub const ELSEWHERE: u16 = 0xffff;
}
