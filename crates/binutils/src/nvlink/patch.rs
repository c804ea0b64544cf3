//! Values put into code and data, by the field that a relocation names.

use cubin::{Reloc, RelocType};

/// What rows of a table without addends add is in the place that they fill.
pub fn with_implicit_addend(reloc: Reloc, bytes: &[u8]) -> Reloc {
    let whole_word = matches!(reloc.kind, RelocType::DATA_64 | RelocType::G64);
    let place = bytes.get(reloc.offset as usize..).and_then(|place| place.first_chunk());
    match place.filter(|_| whole_word) {
        Some(word) => Reloc { addend: i64::from_le_bytes(*word), ..reloc },
        None => reloc,
    }
}

/// Where a value goes in an instruction: the lowest bit, the width, and how much of the value is left out below.
fn field(kind: RelocType) -> Option<(u32, u32, u32)> {
    Some(match kind {
        RelocType::CONST_FIELD19_40 => (40, 14, 2),
        RelocType::CONST_FIELD21_38 => (38, 16, 0),
        RelocType::CONST_FIELD22_37 => (37, 17, 0),
        RelocType::ABS16_32 => (32, 16, 0),
        RelocType::ABS20_44 => (44, 20, 0),
        RelocType::ABS24_32 => (32, 24, 0),
        RelocType::ABS24_40 => (40, 24, 0),
        RelocType::ABS32_32 | RelocType::ABS32_LO_32 => (32, 32, 0),
        _ => return None,
    })
}

/// The bank beside the offset of a constant.
const BANK: (u32, u32) = (54, 5);

/// Writes a value that is known now into an instruction.
pub fn instruction(code: &mut [u8], reloc: &Reloc, value: u64, bank: Option<u8>) -> Result<(), String> {
    let name = reloc.kind.name().unwrap_or("a relocation without a name");
    let (low, width, shift) = field(reloc.kind).ok_or_else(|| format!("{name} is not supported"))?;
    let place = code.get_mut(reloc.offset as usize..).and_then(|place| place.first_chunk_mut::<8>());
    let place = place.ok_or_else(|| format!("{name} is outside of its section"))?;
    let mut word = u64::from_le_bytes(*place);
    put(&mut word, low, width, value >> shift);
    let is_constant = matches!(
        reloc.kind,
        RelocType::CONST_FIELD19_40 | RelocType::CONST_FIELD21_38 | RelocType::CONST_FIELD22_37
    );
    if let Some(bank) = bank.filter(|_| is_constant) {
        put(&mut word, BANK.0, BANK.1, bank.into());
    }
    *place = word.to_le_bytes();
    Ok(())
}

fn put(word: &mut u64, low: u32, width: u32, value: u64) {
    let mask = (u64::MAX >> (64 - width)) << low;
    *word = *word & !mask | value << low & mask;
}

/// Writes a value that is known now into data.
pub fn data(bytes: &mut [u8], reloc: &Reloc, value: u64) -> Result<(), String> {
    let name = reloc.kind.name().unwrap_or("a relocation without a name");
    let size = match reloc.kind {
        RelocType::DATA_64 | RelocType::G64 => 8,
        RelocType::DATA_32 | RelocType::G32 => 4,
        _ => return Err(format!("{name} is not supported")),
    };
    let place = (reloc.offset as usize).checked_add(size).and_then(|end| bytes.get_mut(end - size..end));
    let place = place.ok_or_else(|| format!("{name} is outside of its section"))?;
    place.copy_from_slice(&value.to_le_bytes()[..size]);
    Ok(())
}

/// The relocation that the driver gets for one that only the linker knows. None: nothing is left to do.
pub fn for_driver(kind: RelocType) -> Option<RelocType> {
    let shifted = |from: RelocType, to: RelocType| RelocType(kind.0 - from.0 + to.0);
    Some(match kind {
        RelocType::UNUSED_CLEAR32 | RelocType::UNUSED_CLEAR64 => return None,
        RelocType::UNIFIED => RelocType::DATA_64,
        RelocType::UNIFIED_32 => RelocType::DATA_32,
        RelocType::UNIFIED32_LO_32 => RelocType::ABS32_LO_32,
        RelocType::UNIFIED32_HI_32 => RelocType::ABS32_HI_32,
        kind if (RelocType::UNIFIED_8_0..=RelocType::UNIFIED_8_56).contains(&kind) => {
            shifted(RelocType::UNIFIED_8_0, RelocType::DATA_8_0)
        }
        kind => kind,
    })
}
