//! `.note.nv.tkinfo` (which tool made the file) and `.note.nv.cuinfo` (for which virtual architecture).
//!
//! The driver refuses a file that lacks either; what they say is free.

#![allow(missing_docs, reason = "types say what they are; the names of fields are those of the format")]

use crate::bytes::{Cursor, Flaw, Put};

const OWNER: &[u8] = b"NVIDIA Corp\0";
const CUDA_INFO: u32 = 1000;
const TOOL_INFO: u32 = 2000;
const TOOL_STRINGS: usize = 5;

/// A record of a note section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Tool(ToolInfo),
    Cuda(CudaInfo),
    /// Any other note, or one of the two above in a form that is not the usual one.
    Other {
        owner: Vec<u8>,
        kind: u32,
        description: Vec<u8>,
    },
}

/// The tool that made the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolInfo {
    /// The layout of the note: 2.
    pub note_version: u32,
    /// The input file. ptxas fills it in with `-g` only.
    pub object_name: String,
    pub tool_name: String,
    pub tool_version: String,
    pub branch: String,
    pub command_line: String,
}

/// The virtual architecture and the toolkit of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaInfo {
    /// The layout of the note: 2.
    pub note_version: u16,
    /// The SM number of the PTX `.target`.
    pub virtual_sm: u16,
    /// Ten times the toolkit's version: 130 is CUDA 13.0.
    pub toolkit: u32,
}

/// Decodes a whole note section.
pub fn decode(data: &[u8]) -> Result<Vec<Note>, Flaw> {
    let mut cursor = Cursor::new(data);
    let mut notes = Vec::new();
    while !cursor.is_at_end() {
        let (owner_size, size) = (cursor.u32()? as usize, cursor.u32()? as usize);
        let kind = cursor.u32()?;
        let owner = take_padded(&mut cursor, owner_size)?;
        let description = take_padded(&mut cursor, size)?;
        notes.push(decode_note(owner, kind, description));
    }
    Ok(notes)
}

/// Encodes a whole note section.
pub fn encode(notes: &[Note]) -> Vec<u8> {
    let mut out = Vec::new();
    for note in notes {
        let (owner, kind, description) = match note {
            Note::Tool(tool) => (OWNER, TOOL_INFO, encode_tool(tool)),
            Note::Cuda(cuda) => (OWNER, CUDA_INFO, encode_cuda(cuda)),
            Note::Other { owner, kind, description } => (owner.as_slice(), *kind, description.clone()),
        };
        out.put_u32(owner.len() as u32);
        out.put_u32(description.len() as u32);
        out.put_u32(kind);
        out.extend_from_slice(owner);
        out.pad_to(4);
        out.extend_from_slice(&description);
        out.pad_to(4);
    }
    out
}

fn take_padded<'a>(cursor: &mut Cursor<'a>, size: usize) -> Result<&'a [u8], Flaw> {
    let bytes = cursor.take(size)?;
    let padding = cursor.position().next_multiple_of(4) - cursor.position();
    // The padding after the last field may be missing.
    if !cursor.is_at_end() {
        cursor.take(padding)?;
    }
    Ok(bytes)
}

/// The typed form is used where it says everything, that is where it encodes back to the same bytes.
fn decode_note(owner: &[u8], kind: u32, description: &[u8]) -> Note {
    let known = match kind {
        _ if owner != OWNER => None,
        TOOL_INFO => decode_tool(description).filter(|tool| encode_tool(tool) == description).map(Note::Tool),
        CUDA_INFO => decode_cuda(description).filter(|cuda| encode_cuda(cuda) == description).map(Note::Cuda),
        _ => None,
    };
    known.unwrap_or_else(|| Note::Other { owner: owner.to_vec(), kind, description: description.to_vec() })
}

fn decode_tool(description: &[u8]) -> Option<ToolInfo> {
    let mut cursor = Cursor::new(description);
    let note_version = cursor.u32().ok()?;
    let strings = description.get(4 + 4 * TOOL_STRINGS..)?;
    let mut next = || {
        let from = strings.get(cursor.u32().ok()? as usize..)?;
        let length = from.iter().position(|&byte| byte == 0)?;
        String::from_utf8(from.get(..length)?.to_vec()).ok()
    };
    Some(ToolInfo {
        note_version,
        object_name: next()?,
        tool_name: next()?,
        tool_version: next()?,
        branch: next()?,
        command_line: next()?,
    })
}

fn encode_tool(tool: &ToolInfo) -> Vec<u8> {
    let strings = [&tool.object_name, &tool.tool_name, &tool.tool_version, &tool.branch, &tool.command_line];
    let mut out = Vec::new();
    out.put_u32(tool.note_version);
    let mut offset = 0;
    for string in strings {
        out.put_u32(offset);
        offset += string.len() as u32 + 1;
    }
    for string in strings {
        out.extend_from_slice(string.as_bytes());
        out.put_u8(0);
    }
    out.pad_to(4);
    out
}

fn decode_cuda(description: &[u8]) -> Option<CudaInfo> {
    let mut cursor = Cursor::new(description);
    let (note_version, virtual_sm) = (cursor.u16().ok()?, cursor.u16().ok()?);
    Some(CudaInfo { note_version, virtual_sm, toolkit: cursor.u32().ok()? })
}

fn encode_cuda(cuda: &CudaInfo) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u16(cuda.note_version);
    out.put_u16(cuda.virtual_sm);
    out.put_u32(cuda.toolkit);
    out
}
