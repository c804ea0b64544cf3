//! One instruction as text, in the columns that nvdisasm and cuobjdump share.

use sass::{Inst, Isa, Kind};

/// Bytes of an instruction.
pub const WORD: u64 = sass::WORD_BYTES;

/// Where the guard ends.
const GUARD_COLUMN: usize = 17;

/// What is before the targets of an indirect branch if nothing is aligned.
const RAW_TARGETS_GAP: &str = "          ";

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

/// The operand of an indirect branch that is the distance to the start of its section: what the table counts from.
pub fn from_start(inst: &Inst, address: u64) -> Option<usize> {
    let is_branch = inst.op() == sass::Op::BRX;
    let (index, (_, operand)) = inst.operands().enumerate().filter(|_| is_branch).last()?;
    ((address + WORD).checked_add_signed(operand.value) == Some(0)).then_some(index)
}

/// An instruction whose text is ready, but for the columns behind it.
pub struct Line {
    pub address: u64,
    pub word: u128,
    pub guard: String,
    pub text: String,
    /// Where an indirect branch leads, behind the text of the widest instruction.
    pub targets: Option<String>,
}

/// How wide a listing is.
#[derive(Clone, Copy)]
pub struct Width {
    /// Instructions with their guards.
    text: usize,
    targets: usize,
}

impl Width {
    pub fn of<'a>(lines: impl Iterator<Item = &'a Line> + Clone) -> Width {
        let guard = |line: &Line| if line.guard.is_empty() { 0 } else { line.guard.len() + 1 };
        Width {
            text: lines.clone().map(|line| guard(line) + line.text.len()).max().unwrap_or(0),
            targets: lines.filter_map(|line| line.targets.as_ref()).map(String::len).max().unwrap_or(0),
        }
    }
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
        Line { address, word, guard, text: text + end(word), targets: None }
    }

    /// `        /*0000*/               @P0 EXIT ;`
    pub fn plain(&self, width: Width, style: Guards) -> String {
        let Width { text, .. } = width;
        let body = match &self.targets {
            Some(targets) => {
                let body = self.text.trim_end_matches([';', ' ']);
                match style {
                    Guards::Beside => format!("{body}{RAW_TARGETS_GAP}{targets};"),
                    Guards::InColumn => format!("{body:<text$}{targets};"),
                }
            }
            None => self.text.clone(),
        };
        match (style, self.guard.is_empty()) {
            (Guards::Beside, false) => {
                format!("        /*{:04x}*/ {:GUARD_COLUMN$} {} {body}", self.address, "", self.guard)
            }
            _ => format!("        /*{:04x}*/ {:>GUARD_COLUMN$} {body}", self.address, self.guard),
        }
    }

    /// With the word in two lines behind the widest text of the listing.
    pub fn with_word(&self, width: Width, style: Guards) -> String {
        let (low, high) = (self.word as u64, (self.word >> 64) as u64);
        let first = self.plain(width, style);
        let address = format!("        /*{:04x}*/ ", self.address).len();
        let column = address + GUARD_COLUMN + 1 + width.text + width.targets + 2;
        format!("{first:<column$}/* {low:#018x} */\n{:column$}/* {high:#018x} */", "")
    }
}

/// Where guards stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Guards {
    /// In the column before the instructions.
    InColumn,
    /// Beside their instructions.
    Beside,
}

/// How an instruction ends: with no space where it neither stalls nor waits for anything.
fn end(word: u128) -> &'static str {
    const CONTROL: u32 = 105;
    const DRAINS: u128 = 0x7e0;
    if word >> CONTROL & 0x1f_ffff == DRAINS { ";" } else { " ;" }
}
