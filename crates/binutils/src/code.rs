//! One instruction as text, in the columns that nvdisasm and cuobjdump share.

use sass::{Inst, Isa, Kind};

/// Bytes of an instruction.
pub const WORD: u64 = sass::WORD_BYTES;

/// Where the guard ends.
const GUARD_COLUMN: usize = 17;

/// The instructions of some bytes; what is left behind the last whole one is dropped.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = (u64, u128)> + '_ {
    let (words, _) = bytes.as_chunks::<{ WORD as usize }>();
    words.iter().enumerate().map(|(index, word)| (index as u64 * WORD, u128::from_le_bytes(*word)))
}

/// The machine of a cubin.
pub fn isa(sm: u16) -> Result<Isa, String> {
    Isa::of_sm(sm.into()).ok_or_else(|| format!("no machine sm_{sm} is known"))
}

/// Where a branch or barrier leads, if it names a place: the operand, and the address.
pub fn target(inst: &Inst, address: u64) -> Option<(usize, u64)> {
    let (index, (slot, operand)) =
        inst.operands().enumerate().find(|(_, (slot, _))| slot.kind == Kind::Relative)?;
    let hidden = slot.hide != sass::Hide::Never && operand.value == 0;
    (!hidden).then_some((index, (address + WORD).wrapping_add_signed(operand.value)))
}

/// An instruction whose text is ready, but for the columns behind it.
pub struct Line {
    pub address: u64,
    pub word: u128,
    pub guard: String,
    pub text: String,
}

impl Line {
    /// An operand may be replaced: by a label, or by what a relocation says.
    pub fn new(inst: &Inst, address: u64, word: u128, instead: Option<(usize, &str)>) -> Line {
        let at = inst.at(address).like_nvdisasm();
        let text = match instead {
            Some((index, text)) => at.with(index, text).to_string(),
            None => at.to_string(),
        };
        // Uniform predicates have no column of their own.
        let is_guard = |word: &str| word.starts_with("@P") || word.starts_with("@!P");
        let (guard, text) = match text.split_once(' ').filter(|(guard, _)| is_guard(guard)) {
            Some((guard, text)) => (guard.to_string(), text.to_string()),
            None => (String::new(), text),
        };
        Line { address, word, guard, text: text + end(word) }
    }

    /// `        /*0000*/               @P0 EXIT ;`
    pub fn plain(&self) -> String {
        format!("        /*{:04x}*/ {:>GUARD_COLUMN$} {}", self.address, self.guard, self.text)
    }

    /// With the word in two lines behind the widest text of the listing.
    pub fn with_word(&self, width: usize) -> String {
        let (low, high) = (self.word as u64, (self.word >> 64) as u64);
        let first = self.plain();
        let column = first.len() - self.text.len() + width + 2;
        format!("{first:<column$}/* {low:#018x} */\n{:column$}/* {high:#018x} */", "")
    }
}

/// How an instruction ends: with no space where it neither stalls nor waits for anything.
fn end(word: u128) -> &'static str {
    const CONTROL: u32 = 105;
    const DRAINS: u128 = 0x7e0;
    if word >> CONTROL & 0x1f_ffff == DRAINS { ";" } else { " ;" }
}
