//! `.nv.info` records: what the driver, the linker and the tools must know about code.
//!
//! An attribute is a code and a value. The shape of the value follows from the record's format and, for sized
//! records, from the code (`sized_value`). A payload that does not have the shape of its code stays `Raw`, so
//! that decoding and encoding give back the same bytes for any section that splits into records.

#![allow(missing_docs, reason = "types say what they are; the names of fields are those of the format")]

use crate::bytes::{Flaw, words};
use crate::names::named_numbers;
use crate::record::{self, Operand, Record, exact_words, word_payload};

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    pub code: Code,
    pub value: Value,
}

/// What an attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The attribute is there; that is all.
    Flag,
    Byte(u8),
    Half(u16),
    Words(Vec<u32>),
    /// A number about a function or another symbol.
    PerSymbol {
        symbol: u32,
        value: u32,
    },
    Symbols(Vec<u32>),
    Param(ParamInfo),
    ParamV2(ParamInfoV2),
    ParamBank(ParamBank),
    /// A sized record whose payload does not have the shape that its code asks for.
    RawSized(Vec<u8>),
    /// A short record with bits set where they should be zero.
    RawShort {
        format: u8,
        bytes: [u8; 2],
    },
}

/// `KPARAM_INFO`: one kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    pub index: u32,
    pub ordinal: u16,
    /// From the start of the parameters, not of the bank.
    pub offset: u16,
    /// 14 bits.
    pub size: u16,
    /// 6 bits; 0x1f where ptxas leaves the bank to `PARAM_CBANK`.
    pub bank: u8,
    /// 4 bits.
    pub space: PointerSpace,
    pub log_align: u8,
}

/// `KPARAM_INFO_V2`: one kernel parameter where the parameters take more than
/// [`targets::Target::SMALL_PARAM_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamInfoV2 {
    pub index: u32,
    pub ordinal: u16,
    pub offset: u16,
    pub size: u32,
}

/// `PARAM_CBANK`: where in constant bank 0 the parameters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamBank {
    /// The section symbol of `.nv.constant0.<kernel>`.
    pub symbol: u32,
    pub base: u16,
    pub size: u16,
}

/// The bank that ptxas writes into `KPARAM_INFO`.
pub const PARAM_BANK_UNSPECIFIED: u8 = 0x1f;

named_numbers! {
    /// What a pointer parameter is declared to point to (`.param .u64 .ptr .global`).
    PointerSpace(u8) {
        0 NONE    "none",
        2 SHARED  "shared",
        4 GLOBAL  "global",
        5 GENERIC "generic",
        6 TEXTURE "texture",
        7 SURFACE "surface",
        8 SAMPLER "sampler",
    }
}

named_numbers! {
    /// The code of an attribute (`EIATTR_…`).
    Code(u8) {
        0x00 ERROR                           "EIATTR_ERROR",
        0x01 PAD                             "EIATTR_PAD",
        0x02 IMAGE_SLOT                      "EIATTR_IMAGE_SLOT",
        0x03 JUMPTABLE_RELOCS                "EIATTR_JUMPTABLE_RELOCS",
        0x04 CTAIDZ_USED                     "EIATTR_CTAIDZ_USED",
        0x05 MAX_THREADS                     "EIATTR_MAX_THREADS",
        0x06 IMAGE_OFFSET                    "EIATTR_IMAGE_OFFSET",
        0x07 IMAGE_SIZE                      "EIATTR_IMAGE_SIZE",
        0x08 TEXTURE_NORMALIZED              "EIATTR_TEXTURE_NORMALIZED",
        0x09 SAMPLER_INIT                    "EIATTR_SAMPLER_INIT",
        0x0a PARAM_CBANK                     "EIATTR_PARAM_CBANK",
        0x0b SMEM_PARAM_OFFSETS              "EIATTR_SMEM_PARAM_OFFSETS",
        0x0c CBANK_PARAM_OFFSETS             "EIATTR_CBANK_PARAM_OFFSETS",
        0x0d SYNC_STACK                      "EIATTR_SYNC_STACK",
        0x0e TEXID_SAMPID_MAP                "EIATTR_TEXID_SAMPID_MAP",
        0x0f EXTERNS                         "EIATTR_EXTERNS",
        0x10 REQNTID                         "EIATTR_REQNTID",
        0x11 FRAME_SIZE                      "EIATTR_FRAME_SIZE",
        0x12 MIN_STACK_SIZE                  "EIATTR_MIN_STACK_SIZE",
        0x13 SAMPLER_FORCE_UNNORMALIZED      "EIATTR_SAMPLER_FORCE_UNNORMALIZED",
        0x14 BINDLESS_IMAGE_OFFSETS          "EIATTR_BINDLESS_IMAGE_OFFSETS",
        0x15 BINDLESS_TEXTURE_BANK           "EIATTR_BINDLESS_TEXTURE_BANK",
        0x16 BINDLESS_SURFACE_BANK           "EIATTR_BINDLESS_SURFACE_BANK",
        0x17 KPARAM_INFO                     "EIATTR_KPARAM_INFO",
        0x18 SMEM_PARAM_SIZE                 "EIATTR_SMEM_PARAM_SIZE",
        0x19 CBANK_PARAM_SIZE                "EIATTR_CBANK_PARAM_SIZE",
        0x1a QUERY_NUMATTRIB                 "EIATTR_QUERY_NUMATTRIB",
        0x1b MAXREG_COUNT                    "EIATTR_MAXREG_COUNT",
        0x1c EXIT_INSTR_OFFSETS              "EIATTR_EXIT_INSTR_OFFSETS",
        0x1d S2RCTAID_INSTR_OFFSETS          "EIATTR_S2RCTAID_INSTR_OFFSETS",
        0x1e CRS_STACK_SIZE                  "EIATTR_CRS_STACK_SIZE",
        0x1f NEED_CNP_WRAPPER                "EIATTR_NEED_CNP_WRAPPER",
        0x20 NEED_CNP_PATCH                  "EIATTR_NEED_CNP_PATCH",
        0x21 EXPLICIT_CACHING                "EIATTR_EXPLICIT_CACHING",
        0x22 ISTYPEP_USED                    "EIATTR_ISTYPEP_USED",
        0x23 MAX_STACK_SIZE                  "EIATTR_MAX_STACK_SIZE",
        0x24 SUQ_USED                        "EIATTR_SUQ_USED",
        0x25 LD_CACHEMOD_INSTR_OFFSETS       "EIATTR_LD_CACHEMOD_INSTR_OFFSETS",
        0x26 LOAD_CACHE_REQUEST              "EIATTR_LOAD_CACHE_REQUEST",
        0x27 ATOM_SYS_INSTR_OFFSETS          "EIATTR_ATOM_SYS_INSTR_OFFSETS",
        0x28 COOP_GROUP_INSTR_OFFSETS        "EIATTR_COOP_GROUP_INSTR_OFFSETS",
        0x29 COOP_GROUP_MASK_REGIDS          "EIATTR_COOP_GROUP_MASK_REGIDS",
        0x2a SW1850030_WAR                   "EIATTR_SW1850030_WAR",
        0x2b WMMA_USED                       "EIATTR_WMMA_USED",
        0x2c HAS_PRE_V10_OBJECT              "EIATTR_HAS_PRE_V10_OBJECT",
        0x2d ATOMF16_EMUL_INSTR_OFFSETS      "EIATTR_ATOMF16_EMUL_INSTR_OFFSETS",
        0x2e ATOM16_EMUL_INSTR_REG_MAP       "EIATTR_ATOM16_EMUL_INSTR_REG_MAP",
        0x2f REGCOUNT                        "EIATTR_REGCOUNT",
        0x30 SW2393858_WAR                   "EIATTR_SW2393858_WAR",
        0x31 INT_WARP_WIDE_INSTR_OFFSETS     "EIATTR_INT_WARP_WIDE_INSTR_OFFSETS",
        0x32 SHARED_SCRATCH                  "EIATTR_SHARED_SCRATCH",
        0x33 STATISTICS                      "EIATTR_STATISTICS",
        0x34 INDIRECT_BRANCH_TARGETS         "EIATTR_INDIRECT_BRANCH_TARGETS",
        0x35 SW2861232_WAR                   "EIATTR_SW2861232_WAR",
        0x36 SW_WAR                          "EIATTR_SW_WAR",
        0x37 CUDA_API_VERSION                "EIATTR_CUDA_API_VERSION",
        0x38 NUM_MBARRIERS                   "EIATTR_NUM_MBARRIERS",
        0x39 MBARRIER_INSTR_OFFSETS          "EIATTR_MBARRIER_INSTR_OFFSETS",
        0x3a COROUTINE_RESUME_ID_OFFSETS     "EIATTR_COROUTINE_RESUME_ID_OFFSETS",
        0x3b SAM_REGION_STACK_SIZE           "EIATTR_SAM_REGION_STACK_SIZE",
        0x3c PER_REG_TARGET_PERF_STATS       "EIATTR_PER_REG_TARGET_PERF_STATS",
        0x3d CTA_PER_CLUSTER                 "EIATTR_CTA_PER_CLUSTER",
        0x3e EXPLICIT_CLUSTER                "EIATTR_EXPLICIT_CLUSTER",
        0x3f MAX_CLUSTER_RANK                "EIATTR_MAX_CLUSTER_RANK",
        0x40 INSTR_REG_MAP                   "EIATTR_INSTR_REG_MAP",
        0x41 RESERVED_SMEM_USED              "EIATTR_RESERVED_SMEM_USED",
        0x42 RESERVED_SMEM_0_SIZE            "EIATTR_RESERVED_SMEM_0_SIZE",
        0x43 UCODE_SECTION_DATA              "EIATTR_UCODE_SECTION_DATA",
        0x44 UNUSED_LOAD_BYTE_OFFSET         "EIATTR_UNUSED_LOAD_BYTE_OFFSET",
        0x45 KPARAM_INFO_V2                  "EIATTR_KPARAM_INFO_V2",
        0x46 SYSCALL_OFFSETS                 "EIATTR_SYSCALL_OFFSETS",
        0x47 SW_WAR_MEMBAR_SYS_INSTR_OFFSETS "EIATTR_SW_WAR_MEMBAR_SYS_INSTR_OFFSETS",
        0x48 GRAPHICS_GLOBAL_CBANK           "EIATTR_GRAPHICS_GLOBAL_CBANK",
        0x49 SHADER_TYPE                     "EIATTR_SHADER_TYPE",
        0x4a VRC_CTA_INIT_COUNT              "EIATTR_VRC_CTA_INIT_COUNT",
        0x4b TOOLS_PATCH_FUNC                "EIATTR_TOOLS_PATCH_FUNC",
        0x4c NUM_BARRIERS                    "EIATTR_NUM_BARRIERS",
        0x4d TEXMODE_INDEPENDENT             "EIATTR_TEXMODE_INDEPENDENT",
        0x4e PERF_STATISTICS                 "EIATTR_PERF_STATISTICS",
        0x4f AT_ENTRY_FRAGMENTS              "EIATTR_AT_ENTRY_FRAGMENTS",
        0x50 SPARSE_MMA_MASK                 "EIATTR_SPARSE_MMA_MASK",
        0x51 TCGEN05_1CTA_USED               "EIATTR_TCGEN05_1CTA_USED",
        0x52 TCGEN05_2CTA_USED               "EIATTR_TCGEN05_2CTA_USED",
        0x53 GEN_ERRBAR_AT_EXIT              "EIATTR_GEN_ERRBAR_AT_EXIT",
        0x54 REG_RECONFIG                    "EIATTR_REG_RECONFIG",
        0x55 ANNOTATIONS                     "EIATTR_ANNOTATIONS",
        0x57 STACK_CANARY_TRAP_OFFSETS       "EIATTR_STACK_CANARY_TRAP_OFFSETS",
        0x58 STUB_FUNCTION_KIND              "EIATTR_STUB_FUNCTION_KIND",
        0x59 LOCAL_CTA_ASYNC_STORE_OFFSETS   "EIATTR_LOCAL_CTA_ASYNC_STORE_OFFSETS",
        0x5a MERCURY_FINALIZER_OPTIONS       "EIATTR_MERCURY_FINALIZER_OPTIONS",
        0x5b BLOCKS_ARE_CLUSTERS             "EIATTR_BLOCKS_ARE_CLUSTERS",
        0x5c SANITIZE                        "EIATTR_SANITIZE",
        0x5d SYSCALLS_FALLBACK               "EIATTR_SYSCALLS_FALLBACK",
        0x5e CUDA_REQ                        "EIATTR_CUDA_REQ",
        0x5f MERCURY_ISA_VERSION             "EIATTR_MERCURY_ISA_VERSION",
        0x61 RTCORE_ENTRY                    "EIATTR_RTCORE_ENTRY",
        0x62 CLUSTER_LAUNCH_CONTROL_USED     "EIATTR_CLUSTER_LAUNCH_CONTROL_USED",
        0x64 MIN_PER_CTA_MEMORY_SIZE         "EIATTR_MIN_PER_CTA_MEMORY_SIZE",
        0x65 IGNOREOOB_CP_ASYNC_BULK_OFFSETS "EIATTR_IGNOREOOB_CP_ASYNC_BULK_INSTR_OFFSETS",
        0x66 LANGUAGE                        "EIATTR_LANGUAGE",
    }
}

impl Attr {
    /// An attribute without a value.
    pub fn flag(code: Code) -> Attr {
        Attr { code, value: Value::Flag }
    }

    /// An attribute of one byte.
    pub fn byte(code: Code, value: u8) -> Attr {
        Attr { code, value: Value::Byte(value) }
    }

    /// An attribute of two bytes.
    pub fn half(code: Code, value: u16) -> Attr {
        Attr { code, value: Value::Half(value) }
    }

    /// An attribute of words.
    pub fn words(code: Code, words: impl Into<Vec<u32>>) -> Attr {
        Attr { code, value: Value::Words(words.into()) }
    }

    /// An attribute of a function, in the `.nv.info` of all of them.
    pub fn per_symbol(code: Code, symbol: u32, value: u32) -> Attr {
        Attr { code, value: Value::PerSymbol { symbol, value } }
    }
}

/// Decodes a whole section.
pub fn decode(data: &[u8]) -> Result<Vec<Attr>, Flaw> {
    Ok(record::decode(data)?.into_iter().map(from_record).collect())
}

/// Encodes a whole section.
pub fn encode(attrs: &[Attr]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for attr in attrs {
        let code = attr.code;
        record::encode(&to_record(attr), &mut out).map_err(|problem| format!("{code}: {problem}"))?;
    }
    Ok(out)
}

fn from_record(record: Record) -> Attr {
    let code = Code(record.code);
    let value = match record.operand {
        Operand::Flag => Value::Flag,
        Operand::Byte(value) => Value::Byte(value),
        Operand::Half(value) => Value::Half(value),
        Operand::Odd { format, bytes } => Value::RawShort { format, bytes },
        Operand::Sized(payload) => sized_value(code, &payload).unwrap_or(Value::RawSized(payload)),
    };
    Attr { code, value }
}

/// The value of a sized record, if the payload has the shape that the code asks for.
fn sized_value(code: Code, payload: &[u8]) -> Option<Value> {
    match code {
        Code::REGCOUNT
        | Code::FRAME_SIZE
        | Code::MIN_STACK_SIZE
        | Code::MAX_STACK_SIZE
        | Code::SAMPLER_INIT
        | Code::SAMPLER_FORCE_UNNORMALIZED => {
            exact_words(payload).map(|[symbol, value]| Value::PerSymbol { symbol, value })
        }
        Code::EXTERNS => words(payload).map(Value::Symbols),
        Code::KPARAM_INFO => exact_words(payload).map(|[index, place, shape]| {
            Value::Param(ParamInfo {
                index,
                ordinal: place as u16,
                offset: (place >> 16) as u16,
                size: (shape >> 18) as u16,
                bank: (shape >> 12) as u8 & 0x3f,
                space: PointerSpace((shape >> 8) as u8 & 0xf),
                log_align: shape as u8,
            })
        }),
        Code::KPARAM_INFO_V2 => exact_words(payload).map(|[index, place, size]| {
            Value::ParamV2(ParamInfoV2 { index, ordinal: place as u16, offset: (place >> 16) as u16, size })
        }),
        Code::PARAM_CBANK => exact_words(payload).map(|[symbol, place]| {
            Value::ParamBank(ParamBank { symbol, base: place as u16, size: (place >> 16) as u16 })
        }),
        _ => words(payload).map(Value::Words),
    }
}

fn to_record(attr: &Attr) -> Record {
    let words = |values: &[u32]| Operand::Sized(word_payload(values));
    let place = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
    let operand = match &attr.value {
        Value::Flag => Operand::Flag,
        Value::Byte(value) => Operand::Byte(*value),
        Value::Half(value) => Operand::Half(*value),
        Value::Words(values) | Value::Symbols(values) => words(values),
        Value::PerSymbol { symbol, value } => words(&[*symbol, *value]),
        Value::Param(p) => {
            let shape = u32::from(p.size) << 18
                | u32::from(p.bank & 0x3f) << 12
                | u32::from(p.space.0 & 0xf) << 8
                | u32::from(p.log_align);
            words(&[p.index, place(p.ordinal, p.offset), shape])
        }
        Value::ParamV2(p) => words(&[p.index, place(p.ordinal, p.offset), p.size]),
        Value::ParamBank(bank) => words(&[bank.symbol, place(bank.base, bank.size)]),
        Value::RawSized(payload) => Operand::Sized(payload.clone()),
        Value::RawShort { format, bytes } => Operand::Odd { format: *format, bytes: *bytes },
    };
    Record { code: attr.code.0, operand }
}
