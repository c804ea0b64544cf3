//! The record format that `.nv.info` and `.nv.compat` share: a format byte, a code byte, an operand.

use crate::bytes::{Cursor, Flaw, Put, words};

const FLAG: u8 = 1;
const BYTE: u8 = 2;
const HALF: u8 = 3;
const SIZED: u8 = 4;

/// One record without the meaning of its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub code: u8,
    pub operand: Operand,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    Flag,
    Byte(u8),
    Half(u16),
    Sized(Vec<u8>),
    /// One of the short formats with bits set where they should be zero.
    Odd {
        format: u8,
        bytes: [u8; 2],
    },
}

/// Splits a section into records.
pub fn decode(data: &[u8]) -> Result<Vec<Record>, Flaw> {
    let mut cursor = Cursor::new(data);
    let mut records = Vec::new();
    while !cursor.is_at_end() {
        let start = cursor.position();
        let (format, code) = (cursor.u8()?, cursor.u8()?);
        let half = cursor.u16()?;
        let bytes = half.to_le_bytes();
        let operand = match (format, bytes) {
            (FLAG, [0, 0]) => Operand::Flag,
            (BYTE, [value, 0]) => Operand::Byte(value),
            (HALF, _) => Operand::Half(half),
            (SIZED, _) => Operand::Sized(cursor.take(half.into())?.to_vec()),
            (FLAG | BYTE, _) => Operand::Odd { format, bytes },
            _ => return Err(Flaw::new(start, format!("record format {format} is unknown"))),
        };
        records.push(Record { code, operand });
    }
    Ok(records)
}

/// Appends one record. A payload of more than 65535 bytes has no encoding.
pub fn encode(record: &Record, out: &mut Vec<u8>) -> Result<(), String> {
    let mut short =
        |format, bytes: [u8; 2]| out.extend_from_slice(&[format, record.code, bytes[0], bytes[1]]);
    match &record.operand {
        Operand::Flag => short(FLAG, [0, 0]),
        Operand::Byte(value) => short(BYTE, [*value, 0]),
        Operand::Half(value) => short(HALF, value.to_le_bytes()),
        Operand::Odd { format, bytes } => short(*format, *bytes),
        Operand::Sized(payload) => {
            let length = u16::try_from(payload.len())
                .map_err(|_| format!("a record of {} bytes is too long (65535 at most)", payload.len()))?;
            short(SIZED, length.to_le_bytes());
            out.extend_from_slice(payload);
        }
    }
    Ok(())
}

/// A payload of whole words.
pub fn word_payload(values: &[u32]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(values.len() * 4);
    for &value in values {
        payload.put_u32(value);
    }
    payload
}

/// The words of a payload that has exactly `N` of them.
pub fn exact_words<const N: usize>(payload: &[u8]) -> Option<[u32; N]> {
    words(payload)?.try_into().ok()
}
