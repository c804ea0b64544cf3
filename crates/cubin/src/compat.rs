//! `.nv.compat` records: which other targets the code may be finalized for. Same record format as `.nv.info`.
//!
//! nvdisasm and cuobjdump refuse files for sm_90 and later that lack the section; the driver does not ask.

#![allow(missing_docs, reason = "types say what they are; the names of fields are those of the format")]

use crate::bytes::{Flaw, words};
use crate::names::named_numbers;
use crate::record::{self, Operand, Record, word_payload};

/// A record of `.nv.compat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compat {
    pub code: CompatCode,
    pub value: CompatValue,
}

/// What a record says, in the formats of attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompatValue {
    Flag,
    Byte(u8),
    Half(u16),
    Words(Vec<u32>),
    RawSized(Vec<u8>),
    RawShort { format: u8, bytes: [u8; 2] },
}

named_numbers! {
    /// `EICOMPAT_ATTR_…`.
    CompatCode(u8) {
        0x0 ERROR                             "EICOMPAT_ATTR_ERROR",
        0x1 PAD                               "EICOMPAT_ATTR_PAD",
        0x2 ISA_CLASS                         "EICOMPAT_ATTR_ISA_CLASS",
        0x3 INST_TENSORMAP_V1                 "EICOMPAT_ATTR_INST_TENSORMAP_V1",
        0x4 INST_TCGEN05_MMA_DEPRECATED       "EICOMPAT_ATTR_INST_TCGEN05_MMA_DEPRECATED",
        0x5 INST_TCGEN05_MMA                  "EICOMPAT_ATTR_INST_TCGEN05_MMA",
        0x6 ENABLE_OPPORTUNISTIC_FINALIZATION "EICOMPAT_ATTR_ENABLE_OPPORTUNISTIC_FINALIZATION",
        0x7 MERCURY_ISA_MAJOR_MINOR_VERSION   "EICOMPAT_ATTR_MERCURY_ISA_MAJOR_MINOR_VERSION",
        0x8 MERCURY_ISA_PATCH_VERSION         "EICOMPAT_ATTR_MERCURY_ISA_PATCH_VERSION",
        0x9 CUDA_ACCELERATOR_TARGET           "EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET",
        0xa CUDA_DRIVER_VERSION               "EICOMPAT_ATTR_CUDA_DRIVER_VERSION",
        0xb CAN_FASTPATH_FINALIZE             "EICOMPAT_ATTR_CAN_FASTPATH_FINALIZE",
    }
}

/// Decodes a whole section.
pub fn decode(data: &[u8]) -> Result<Vec<Compat>, Flaw> {
    Ok(record::decode(data)?.into_iter().map(from_record).collect())
}

/// Encodes a whole section.
pub fn encode(records: &[Compat]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for compat in records {
        record::encode(&to_record(compat), &mut out)
            .map_err(|problem| format!("{}: {problem}", compat.code))?;
    }
    Ok(out)
}

fn from_record(record: Record) -> Compat {
    let value = match record.operand {
        Operand::Flag => CompatValue::Flag,
        Operand::Byte(value) => CompatValue::Byte(value),
        Operand::Half(value) => CompatValue::Half(value),
        Operand::Odd { format, bytes } => CompatValue::RawShort { format, bytes },
        Operand::Sized(payload) => match words(&payload) {
            Some(words) => CompatValue::Words(words),
            None => CompatValue::RawSized(payload),
        },
    };
    Compat { code: CompatCode(record.code), value }
}

fn to_record(compat: &Compat) -> Record {
    let operand = match &compat.value {
        CompatValue::Flag => Operand::Flag,
        CompatValue::Byte(value) => Operand::Byte(*value),
        CompatValue::Half(value) => Operand::Half(*value),
        CompatValue::Words(values) => Operand::Sized(word_payload(values)),
        CompatValue::RawSized(payload) => Operand::Sized(payload.clone()),
        CompatValue::RawShort { format, bytes } => Operand::Odd { format: *format, bytes: *bytes },
    };
    Record { code: compat.code.0, operand }
}
