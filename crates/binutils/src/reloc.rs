//! What a relocation looks like in a listing.

use cubin::RelocType;

/// How a value is named after a relocation put it there: `32@lo(x)`.
pub fn wrapped(kind: RelocType, value: &str) -> String {
    match kind {
        RelocType::ABS32_LO_32 => format!("32@lo({value})"),
        RelocType::ABS32_HI_32 => format!("32@hi({value})"),
        RelocType::UNIFIED32_LO_32 => format!("32@lo(fun@unified({value}))"),
        RelocType::UNIFIED32_HI_32 => format!("32@hi(fun@unified({value}))"),
        RelocType::FUNC_DESC32_LO_32 => format!("32@lo(fun@fdesc({value}))"),
        RelocType::FUNC_DESC32_HI_32 => format!("32@hi(fun@fdesc({value}))"),
        _ => format!("`({value})"),
    }
}

/// A field of data that a relocation fills: the directive, its size, and the text.
pub fn datum(kind: RelocType, value: &str) -> (&'static str, u64, String) {
    let named = || kind.name().unwrap_or("R_CUDA_NONE");
    match kind {
        RelocType::DATA_32 => (".word", 4, value.to_string()),
        RelocType::DATA_64 => (".dword", 8, value.to_string()),
        RelocType::UNIFIED => (".dword", 8, format!("fun@unified({value})")),
        RelocType::TEX_HEADER_INDEX => (".word", 4, format!("[20@lo(0x0)={value}]")),
        RelocType::SAMP_HEADER_INDEX_0 => (".short", 2, format!("[12@lo(0x0)={value}]")),
        RelocType::SURF_HEADER_INDEX => (".word", 4, format!("[20@lo(0x0)=fun@{}({value})]", named())),
        RelocType::G32 | RelocType::UNUSED_CLEAR32 | RelocType::FUNC_DESC_32 | RelocType::UNIFIED_32 => {
            (".word", 4, format!("fun@{}({value})", named()))
        }
        kind if is_byte(kind) => (".byte", 1, format!("fun@{}({value})", named())),
        _ => (".dword", 8, format!("fun@{}({value})", named())),
    }
}

/// One byte of an address.
fn is_byte(kind: RelocType) -> bool {
    let runs = [
        (RelocType::DATA_8_0, RelocType::DATA_8_56),
        (RelocType::G8_0, RelocType::G8_56),
        (RelocType::FUNC_DESC_8_0, RelocType::FUNC_DESC_8_56),
        (RelocType::UNIFIED_8_0, RelocType::UNIFIED_8_56),
    ];
    runs.iter().any(|(first, last)| (*first..=*last).contains(&kind))
}

/// Fills a place of constant memory into an instruction.
pub fn is_constant(kind: RelocType) -> bool {
    matches!(kind, RelocType::CONST_FIELD19_40 | RelocType::CONST_FIELD21_38 | RelocType::CONST_FIELD22_37)
}

/// A base with a distance from it.
pub fn with_addend(name: &str, addend: i64) -> String {
    match addend {
        0 => name.to_string(),
        1.. => format!("({name} + {addend:#x})"),
        _ => format!("({name} + -{:#x})", addend.unsigned_abs()),
    }
}
