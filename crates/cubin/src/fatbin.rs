//! Fat binaries: several images of device code (cubins and PTX) in one file or in a section of a host program.
//!
//! The format was read off what `fatbinary` and `nvcc` 13.0 write for every compression mode, with and without
//! `-g`, `--ident` and `--cmdline`; `cuobjdump -lelf -lptx -xelf -xptx` says what is in them.
//!
//! | header: 16 bytes | |
//! |---|---|
//! | u32 | magic `ba55ed50` |
//! | u16, u16 | version 1, size of this header |
//! | u64 | size of the images that follow |
//!
//! | image: 64 bytes, then strings, then the payload | |
//! |---|---|
//! | 0: u16, u16 | kind (1 PTX, 2 cubin), version |
//! | 4: u32 | size of this header with its strings |
//! | 8: u64 | size of the payload with padding |
//! | 16: u32 | size of the payload if compressed, else 0 |
//! | 20: u32 | where the options are: u32 offset and u32 size of a string; else 0 |
//! | 24: u16, u16 | minor and major version: of the PTX ISA, or of the cubin's ABI |
//! | 28: u32 | SM |
//! | 32: u32, u32 | offset and size of the identifier |
//! | 40: u64 | flags |
//! | 56: u64 | size when expanded, if compressed |

#![allow(missing_docs, reason = "types say what they are; the names of fields are those of the format")]

use std::io::Read;

use crate::bytes::{Cursor, Flaw, Put};
use crate::elf;
use crate::error::ReadError;
use crate::read::{elf_machine, elf_sections};

const MAGIC: u32 = 0xba55_ed50;
const HEADER_SIZE: usize = 16;
const IMAGE_HEADER_SIZE: usize = 64;
/// The sections of a host program that hold fat binaries: linked code, and code still to be linked.
const HOST_SECTIONS: [&str; 2] = [LINKED, TO_LINK];
/// The section of a host program for linked code.
pub const LINKED: &str = ".nv_fatbin";
/// The section of a host program for code that is still to be linked.
pub const TO_LINK: &str = "__nv_relfatbin";
/// An image that expands more than this is refused: it is broken, or an attack.
const MAX_EXPANSION: u64 = 1000;

/// Bits of `Image::flags`.
pub mod flags {
    pub const ADDRESS_64: u64 = 0x1;
    pub const DEBUG: u64 = 0x2;
    /// The image is for one target alone: `sm_90a`.
    pub const SPECIFIC: u64 = 0x10_0000;
    /// The image is for a family of targets: `sm_100f`.
    pub const FAMILY: u64 = 0x20_0000;
    /// The header has a copy of `.nv.compat` of a cubin with a capsule.
    pub const COMPAT: u64 = 0x100_0000;
    pub const LZ4: u64 = 0x2000;
    pub const ZSTD: u64 = 0x8000;
}

/// One image of a fat binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub kind: ImageKind,
    pub sm: u32,
    /// (major, minor)
    pub version: (u16, u16),
    /// The source file, if recorded.
    pub identifier: String,
    /// The options of ptxas, if recorded.
    pub options: String,
    pub flags: u64,
    /// Which of the fat binaries of a file it is in, from 0.
    pub container: usize,
    /// As it is in the file.
    pub stored_size: u64,
    /// Expanded.
    pub bytes: Vec<u8>,
}

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    Ptx,
    Cubin,
    Other(u16),
}

impl Image {
    /// A cubin without a container.
    pub fn of_cubin(bytes: Vec<u8>) -> Image {
        let sm = crate::raw::File::read(&bytes).map_or(0, |file| file.header.sm());
        Image {
            kind: ImageKind::Cubin,
            sm: sm.into(),
            version: (0, 0),
            identifier: String::new(),
            options: String::new(),
            flags: flags::ADDRESS_64,
            container: 0,
            stored_size: bytes.len() as u64,
            bytes,
        }
    }

    /// `zstd`, `lz4` or `none`.
    pub fn compression(&self) -> &'static str {
        match () {
            () if self.flags & flags::ZSTD != 0 => "zstd",
            () if self.flags & flags::LZ4 != 0 => "lz4",
            () => "none",
        }
    }

    /// A name for a file with the image, as cuobjdump numbers them: `1.sm_90.cubin`.
    pub fn file_name(&self, number: usize) -> String {
        let extension = match self.kind {
            ImageKind::Ptx => "ptx".to_string(),
            ImageKind::Cubin => "cubin".to_string(),
            ImageKind::Other(kind) => format!("kind{kind}"),
        };
        format!("{number}.sm_{}.{extension}", self.sm)
    }
}

/// The version of image headers.
const IMAGE_VERSION: u16 = 0x101;

/// Writes a fat binary as NVIDIA's `fatbinary` does. Images whose flags say [`flags::ZSTD`] are compressed; what
/// [`flags::COMPAT`] promises is taken from the cubin.
pub fn write(images: &[Image]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    for image in images {
        write_image(&mut body, image)?;
    }
    let mut out = Vec::with_capacity(HEADER_SIZE + body.len());
    out.put_u32(MAGIC);
    out.put_u16(1);
    out.put_u16(HEADER_SIZE as u16);
    out.put_u64(body.len() as u64);
    out.extend_from_slice(&body);
    Ok(out)
}

fn write_image(out: &mut Vec<u8>, image: &Image) -> Result<(), String> {
    let kind = match image.kind {
        ImageKind::Ptx => 1,
        ImageKind::Cubin => 2,
        ImageKind::Other(kind) => kind,
    };
    let mut bytes = image.bytes.clone();
    if image.kind == ImageKind::Ptx {
        bytes.push(0);
    }
    let expanded = bytes.len() as u64;
    let is_compressed = image.flags & flags::ZSTD != 0;
    if is_compressed {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        bytes = ruzstd::encoding::compress_to_vec(bytes.as_slice(), level);
    }
    let stored = u32::try_from(bytes.len()).map_err(|_| "an image of more than 4 GiB".to_string())?;
    bytes.pad_to(8);

    let mut strings = Vec::new();
    let at = |strings: &Vec<u8>| (IMAGE_HEADER_SIZE + strings.len()) as u32;
    let identifier_at = if image.identifier.is_empty() { 0 } else { at(&strings) };
    put_string(&mut strings, image.identifier.as_bytes());
    let options = match image.kind {
        ImageKind::Ptx => Some(image.options.clone().into_bytes()),
        _ if image.flags & flags::COMPAT != 0 => {
            let file = crate::raw::File::read(&image.bytes).map_err(|error| error.to_string())?;
            // An empty string of options comes first.
            let compat = file.section(".nv.compat").map(|(_, section)| section.bytes);
            compat.map(|bytes| [&[0], bytes].concat())
        }
        _ => None,
    };
    let options_at = if options.is_some() { at(&strings) } else { 0 };
    if let Some(options) = options {
        strings.put_u32(options_at + 8);
        strings.put_u32(options.len() as u32 - u32::from(image.kind != ImageKind::Ptx));
        strings.extend_from_slice(&options);
        if image.kind == ImageKind::Ptx {
            strings.put_u8(0);
        }
        strings.pad_to(8);
    }
    let (major, minor) = image.version;
    out.put_u16(kind);
    out.put_u16(IMAGE_VERSION);
    out.put_u32(at(&strings));
    out.put_u64(bytes.len() as u64);
    out.put_u32(if is_compressed { stored } else { 0 });
    out.put_u32(options_at);
    out.put_u16(minor);
    out.put_u16(major);
    out.put_u32(image.sm);
    out.put_u32(identifier_at);
    out.put_u32(image.identifier.len() as u32);
    out.put_u64(image.flags);
    out.put_u64(0);
    out.put_u64(if is_compressed { expanded } else { 0 });
    out.extend_from_slice(&strings);
    out.extend_from_slice(&bytes);
    Ok(())
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    if !text.is_empty() {
        out.extend_from_slice(text);
        out.put_u8(0);
        out.pad_to(8);
    }
}

/// What kind of file holds device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    Cubin,
    FatBinary,
    /// A program, library or object file of the host.
    Host,
}

/// What the bytes are; an error if they can't hold device code.
pub fn container(data: &[u8]) -> Result<Container, ReadError> {
    match elf_machine(data) {
        Some(elf::MACHINE_CUDA) => Ok(Container::Cubin),
        Some(_) => Ok(Container::Host),
        None if data.starts_with(&MAGIC.to_le_bytes()) => Ok(Container::FatBinary),
        None => Err(ReadError::in_file(0, "this is no cubin, no fat binary and no 64-bit ELF file")),
    }
}

/// The images of a fat binary, or of a host program. A cubin is its own only image.
pub fn images(data: &[u8]) -> Result<Vec<Image>, ReadError> {
    match container(data)? {
        Container::Cubin => Ok(Vec::new()),
        Container::FatBinary => Ok(read_all(data)?),
        Container::Host => host_images(data, &HOST_SECTIONS),
    }
}

/// The images in one section of a host program.
pub fn images_in(data: &[u8], section: &str) -> Result<Vec<Image>, ReadError> {
    host_images(data, &[section])
}

fn host_images(data: &[u8], wanted: &[&str]) -> Result<Vec<Image>, ReadError> {
    let mut images = Vec::new();
    let mut left = data.len();
    for (index, (name, bytes)) in elf_sections(data)?.into_iter().enumerate() {
        if wanted.contains(&name.as_str()) {
            let fail = |flaw| ReadError::in_section(index, &name, flaw);
            // Sections that share bytes could take any multiple of the file's size.
            left = left
                .checked_sub(bytes.len())
                .ok_or_else(|| fail(Flaw::new(0, "sections with device code overlap")))?;
            images.extend(read_all(bytes).map_err(fail)?);
        }
    }
    Ok(images)
}

/// Reads fat binaries that follow each other, with zeros between them.
fn read_all(data: &[u8]) -> Result<Vec<Image>, Flaw> {
    let mut images = Vec::new();
    let (mut at, mut containers) = (0, 0);
    while let Some(skipped) = data.get(at..).and_then(|rest| rest.iter().position(|&byte| byte != 0)) {
        at += skipped;
        let mut cursor = Cursor::at(data, at);
        let magic = cursor.u32()?;
        if magic != MAGIC {
            return Err(Flaw::new(at, format!("{magic:#x} is not the start of a fat binary")));
        }
        let (_version, header_size, size) = (cursor.u16()?, cursor.u16()?, cursor.u64()?);
        let header = Cursor::at(data, at).take(usize::from(header_size).max(HEADER_SIZE))?.len();
        let body = Cursor::at(data, at + header).take(to_usize(size))?;
        let first = images.len();
        read_images(body, at + header, &mut images)?;
        images[first..].iter_mut().for_each(|image: &mut Image| image.container = containers);
        containers += 1;
        at += header + body.len();
    }
    Ok(images)
}

fn read_images(body: &[u8], base: usize, images: &mut Vec<Image>) -> Result<(), Flaw> {
    let mut at = 0;
    while at < body.len() {
        let (image, size) = read_image(body.get(at..).unwrap_or_default())
            .map_err(|flaw| Flaw { offset: flaw.offset + (base + at) as u64, ..flaw })?;
        images.push(image);
        at += size;
    }
    Ok(())
}

/// Reads the image at the start of the bytes, and tells how many of them it takes.
fn read_image(data: &[u8]) -> Result<(Image, usize), Flaw> {
    let mut cursor = Cursor::new(data);
    let (kind, _version) = (cursor.u16()?, cursor.u16()?);
    let header_size = cursor.u32()? as usize;
    let payload_size = to_usize(cursor.u64()?);
    let (compressed_size, options_at) = (cursor.u32()? as usize, cursor.u32()?);
    let (minor, major) = (cursor.u16()?, cursor.u16()?);
    let sm = cursor.u32()?;
    let (name_at, name_size) = (cursor.u32()?, cursor.u32()?);
    let flags = cursor.u64()?;
    cursor.u64()?;
    let expanded_size = cursor.u64()?;
    if header_size < IMAGE_HEADER_SIZE {
        return Err(Flaw::new(4, format!("an image header of {header_size} bytes is too small")));
    }
    let header = Cursor::new(data).take(header_size)?;
    let payload = Cursor::at(data, header_size).take(payload_size)?;
    let stored = match flags & (flags::LZ4 | flags::ZSTD) {
        0 => payload,
        _ => Cursor::new(payload).take(compressed_size)?,
    };
    let kind = match kind {
        1 => ImageKind::Ptx,
        2 => ImageKind::Cubin,
        other => ImageKind::Other(other),
    };
    let mut bytes =
        expand(stored, flags, expanded_size).map_err(|message| Flaw::new(header_size, message))?;
    if kind == ImageKind::Ptx {
        // The text ends with a zero, and with more of them as padding.
        let text = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(text);
    }
    let image = Image {
        kind,
        sm,
        version: (major, minor),
        identifier: text(header, name_at, name_size)?,
        options: options(header, options_at)?,
        flags,
        container: 0,
        stored_size: stored.len() as u64,
        bytes,
    };
    Ok((image, header_size + payload_size))
}

fn options(header: &[u8], at: u32) -> Result<String, Flaw> {
    if at == 0 {
        return Ok(String::new());
    }
    let mut cursor = Cursor::at(header, at as usize);
    let (offset, size) = (cursor.u32()?, cursor.u32()?);
    text(header, offset, size)
}

/// A string of an image header, without the zeros that end it.
fn text(header: &[u8], offset: u32, size: u32) -> Result<String, Flaw> {
    if size == 0 {
        return Ok(String::new());
    }
    let bytes = Cursor::at(header, offset as usize).take(size as usize)?;
    Ok(String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string())
}

fn to_usize(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

fn expand(stored: &[u8], flags: u64, size: u64) -> Result<Vec<u8>, String> {
    if flags & (flags::LZ4 | flags::ZSTD) == 0 {
        return Ok(stored.to_vec());
    }
    if size / MAX_EXPANSION > stored.len() as u64 {
        return Err(format!("{} bytes do not expand to {size}", stored.len()));
    }
    let bytes = if flags & flags::ZSTD != 0 { expand_zstd(stored, size)? } else { expand_lz4(stored, size)? };
    if bytes.len() as u64 != size {
        return Err(format!("the image expands to {} bytes, not {size}", bytes.len()));
    }
    Ok(bytes)
}

fn expand_zstd(stored: &[u8], size: u64) -> Result<Vec<u8>, String> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(stored)
        .map_err(|error| format!("the compressed image is broken: {error}"))?;
    let mut out = Vec::new();
    // One byte more than there should be, to notice it.
    decoder
        .take(size.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|error| format!("the compressed image is broken: {error}"))?;
    Ok(out)
}

/// The LZ4 block format: literals and copies of earlier output, in turn.
fn expand_lz4(stored: &[u8], size: u64) -> Result<Vec<u8>, String> {
    let broken =
        |flaw: Flaw| format!("the compressed image is broken at {:#x}: {}", flaw.offset, flaw.message);
    let mut cursor = Cursor::new(stored);
    let mut out = Vec::new();
    while !cursor.is_at_end() {
        let token = cursor.u8().map_err(broken)?;
        let literals = lz4_length(&mut cursor, token >> 4).map_err(broken)?;
        out.extend_from_slice(cursor.take(literals).map_err(broken)?);
        if cursor.is_at_end() {
            break;
        }
        let distance = usize::from(cursor.u16().map_err(broken)?);
        let length = lz4_length(&mut cursor, token & 0xf).map_err(broken)? + 4;
        let start = out.len().checked_sub(distance).filter(|_| distance > 0);
        let start = start.ok_or_else(|| format!("a copy from {distance} bytes back, of {}", out.len()))?;
        if (out.len() + length) as u64 > size {
            return Err(format!("the image expands to more than {size} bytes"));
        }
        // The copy may overlap its own output.
        for at in start..start + length {
            out.push(out[at]);
        }
    }
    Ok(out)
}

fn lz4_length(cursor: &mut Cursor, nibble: u8) -> Result<usize, Flaw> {
    let mut length = usize::from(nibble);
    let mut byte = if nibble == 15 { 255 } else { 0 };
    while byte == 255 {
        byte = cursor.u8()?;
        length += usize::from(byte);
    }
    Ok(length)
}
