//! One register file: which value owns each register, which are reserved, and the current register limit.
//!
//! Queries of a register cost O(1), and so does the set of free registers; [`RegFile::windows`] enumerates aligned runs.

use super::reg_set::RegSet;
use ori::{File, Value};

/// How many registers of each file a function may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The general registers that a thread starts with.
    pub registers: u32,
    /// The register of R that is reserved for cycles of moves, and whether a predicate is reserved, too.
    pub scratch: Option<u8>,
    pub scratch_predicate: bool,
}

impl Limits {
    /// Registers that belong to the system.
    pub const SYSTEM: u32 = 2;

    pub fn registers(registers: u32) -> Limits {
        Limits { registers, scratch: None, scratch_predicate: false }
    }

    /// How many registers of R values may have where a thread has so many; R255 is RZ.
    pub fn usable(&self, registers: u32) -> u8 {
        (registers.clamp(16, 255) - Limits::SYSTEM) as u8
    }

    /// The size of a file; `most` is the highest register limit of the function.
    fn file_size(&self, file: File, most: u32) -> u8 {
        match file {
            File::R => self.usable(most),
            File::UR => 63,
            File::P => PREDICATES,
            File::UP => 7,
            File::B => 16,
        }
    }
}

/// P0 to P6; the last one is the scratch predicate.
pub const PREDICATES: u8 = 7;

#[derive(Clone, Debug)]
pub struct RegFile {
    file: File,
    owner: Vec<Option<Value>>,
    /// Those with an owner.
    owned: RegSet,
    /// Never assigned: the stack pointer, the return address and the like.
    reserved: RegSet,
    /// The current register limit: registers from this one on are not available.
    limit: usize,
}

/// The alignment of a register tuple. The fragments of `DMMA` are aligned to their size (seen in ptxas's code: 8 words
/// at 8, 16 at 16); the larger accumulators of wgmma are not. Tuples of uniform registers are read as up to eight of
/// them.
pub fn alignment(file: File, words: u8) -> usize {
    match (file, words) {
        (File::UR, _) => usize::from(words.next_power_of_two()).min(8),
        (_, 8 | 16) => usize::from(words),
        _ => usize::from(words.next_power_of_two()).min(4),
    }
}

impl RegFile {
    pub fn new(file: File, limits: &Limits, most: u32) -> RegFile {
        let size = usize::from(limits.file_size(file, most));
        let (owned, reserved) = Default::default();
        RegFile { file, owner: vec![None; size], owned, reserved, limit: size }
    }

    pub fn file(&self) -> File {
        self.file
    }

    pub fn len(&self) -> usize {
        self.owner.len()
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn set_limit(&mut self, limit: u8) {
        self.limit = usize::from(limit).min(self.owner.len());
    }

    pub fn reserve(&mut self, reg: u8) {
        if usize::from(reg) < self.owner.len() {
            self.reserved.add(RegSet::of(reg, 1));
        }
    }

    pub fn owner(&self, reg: usize) -> Option<Value> {
        self.owner[reg]
    }

    pub fn is_free(&self, reg: usize) -> bool {
        reg < self.limit && self.owner[reg].is_none() && !self.is_reserved(reg)
    }

    /// The free registers.
    pub fn free(&self) -> RegSet {
        RegSet::range(0..self.limit).without(self.owned).without(self.reserved)
    }

    /// The first register of the lowest aligned window for a value of so many words among some registers.
    pub fn first_window(&self, words: u8, registers: RegSet) -> Option<u8> {
        registers.windows(words, alignment(self.file, words)).first()
    }

    /// The owners of registers and the first register of each run that one has.
    pub fn owners(&self) -> impl Iterator<Item = Value> + '_ {
        let mut last = None;
        self.owned.iter().filter_map(move |reg| {
            let owner = self.owner[usize::from(reg)];
            let is_new = last != owner;
            last = owner;
            owner.filter(|_| is_new)
        })
    }

    /// Registers beyond the file are not reserved.
    pub fn is_reserved(&self, reg: usize) -> bool {
        self.reserved.contains_any(reg..reg + 1)
    }

    pub fn fits(&self, at: u8, words: u8) -> bool {
        let at = usize::from(at);
        at.is_multiple_of(alignment(self.file, words))
            && RegSet::range(at..at + usize::from(words)).without(self.free()).is_empty()
            && at + usize::from(words) <= self.limit
    }

    /// The aligned windows for a value of so many words.
    pub fn windows(&self, words: u8) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let (words, end) = (usize::from(words), self.limit);
        (0..end)
            .step_by(alignment(self.file, words as u8))
            .map(move |at| at..at + words)
            .filter(move |w| w.end <= end)
    }

    pub fn take(&mut self, at: u8, words: u8, value: Value) {
        let at = usize::from(at);
        self.owner[at..at + usize::from(words)].fill(Some(value));
        self.owned.add(RegSet::range(at..at + usize::from(words)));
    }

    /// Frees the registers among these that a value owns: others may have taken those of its dead words.
    pub fn release(&mut self, at: u8, words: u8, value: Value) {
        let at = usize::from(at);
        for reg in at..at + usize::from(words) {
            if self.owner[reg] == Some(value) {
                self.owner[reg] = None;
                self.owned.remove(RegSet::range(reg..reg + 1));
            }
        }
    }

    pub fn clear(&mut self) {
        self.owned.iter().for_each(|reg| self.owner[usize::from(reg)] = None);
        self.owned = RegSet::default();
    }
}
