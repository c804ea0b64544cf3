//! The registers of one file, and who is in them.

use ori::{File, Value};

/// How many registers of each file a function may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The general registers that a thread starts with.
    pub registers: u32,
    /// A general register that no value gets, and whether a predicate is kept, too: for moves that go in a circle.
    pub scratch: Option<u8>,
    pub scratch_predicate: bool,
}

impl Limits {
    /// Registers that belong to the system.
    pub const SYSTEM: u32 = 2;

    pub fn registers(registers: u32) -> Limits {
        Limits { registers, scratch: None, scratch_predicate: false }
    }

    /// How many general registers values may have where a thread has so many; R255 is RZ.
    pub fn usable(&self, registers: u32) -> u8 {
        (registers.clamp(16, 255) - Limits::SYSTEM) as u8
    }

    /// How many places a file has; `most` is the most general registers that a thread ever has.
    fn places(&self, file: File, most: u32) -> u8 {
        match file {
            File::R => self.usable(most),
            File::UR => 63,
            File::P => PREDICATES,
            File::UP => 7,
            File::B => 16,
        }
    }
}

/// P0 to P6; the last one is what is kept for moves.
pub const PREDICATES: u8 = 7;

#[derive(Clone, Debug)]
pub struct Places {
    file: File,
    owner: Vec<Option<Value>>,
    /// Never handed out: the stack pointer, the return address.
    reserved: Vec<bool>,
    /// Places from this one on are not there just now.
    ceiling: usize,
}

/// The multiple that a value of so many words starts at. The fragments of `DMMA` are aligned to their size (seen in
/// ptxas's code: 8 words at 8, 16 at 16); the larger accumulators of the asynchronous products are not. Groups of
/// uniform registers are read as up to eight of them.
pub fn alignment(file: File, words: u8) -> usize {
    match (file, words) {
        (File::UR, _) => usize::from(words.next_power_of_two()).min(8),
        (_, 8 | 16) => usize::from(words),
        _ => usize::from(words.next_power_of_two()).min(4),
    }
}

impl Places {
    pub fn new(file: File, limits: &Limits, most: u32) -> Places {
        let size = usize::from(limits.places(file, most));
        Places { file, owner: vec![None; size], reserved: vec![false; size], ceiling: size }
    }

    pub fn file(&self) -> File {
        self.file
    }

    pub fn len(&self) -> usize {
        self.owner.len()
    }

    pub fn ceiling(&self) -> usize {
        self.ceiling
    }

    pub fn set_ceiling(&mut self, ceiling: u8) {
        self.ceiling = usize::from(ceiling).min(self.owner.len());
    }

    pub fn reserve(&mut self, place: u8) {
        if let Some(slot) = self.reserved.get_mut(usize::from(place)) {
            *slot = true;
        }
    }

    pub fn owner(&self, place: usize) -> Option<Value> {
        self.owner[place]
    }

    pub fn is_free(&self, place: usize) -> bool {
        place < self.ceiling && self.owner[place].is_none() && !self.reserved[place]
    }

    /// Those that are kept for moves are behind the others, and free.
    pub fn is_reserved(&self, place: usize) -> bool {
        self.reserved.get(place).is_some_and(|reserved| *reserved)
    }

    pub fn fits(&self, at: u8, words: u8) -> bool {
        let at = usize::from(at);
        at.is_multiple_of(alignment(self.file, words))
            && (at..at + usize::from(words)).all(|p| self.is_free(p))
    }

    /// All places where a value of so many words may lie, as far as alignment goes.
    pub fn windows(&self, words: u8) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let (words, len) = (usize::from(words), self.ceiling);
        (0..len)
            .step_by(alignment(self.file, words as u8))
            .map(move |at| at..at + words)
            .filter(move |w| w.end <= len)
    }

    pub fn take(&mut self, at: u8, words: u8, value: Value) {
        let at = usize::from(at);
        self.owner[at..at + usize::from(words)].fill(Some(value));
    }

    pub fn release(&mut self, at: u8, words: u8) {
        let at = usize::from(at);
        self.owner[at..at + usize::from(words)].fill(None);
    }

    pub fn clear(&mut self) {
        self.owner.fill(None);
    }
}
