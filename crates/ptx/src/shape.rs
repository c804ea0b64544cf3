//! Shapes of instructions: what matters of one for being right. `check/known.rs` writes them down and asks for them.

use rustc_hash::FxHashMap;

/// Shapes of instructions that are right, by their hashes. Of two with one hash the second is never known.
pub(crate) type KnownShapes = FxHashMap<u64, Box<[u64]>>;

/// What matters of an instruction: its opcode, then for each operand a word that begins with a tag; a tag of its own behind
/// what is nested. Two instructions of one shape are both right or both wrong.
#[derive(Default)]
pub(crate) struct Shape {
    pub words: Vec<u64>,
    pub hash: u64,
}

impl Shape {
    pub fn word(&mut self, word: u64) {
        // The step of FxHash: words are hashed on their way into memory, not read back.
        self.hash = (self.hash.wrapping_add(word)).wrapping_mul(0xf135_7aea_2e62_a9c5).rotate_left(26);
        self.words.push(word);
    }

    pub fn operand<const N: usize>(&mut self, tag: u8, properties: [u8; N]) {
        self.word(properties.iter().fold(u64::from(tag), |word, byte| word << 8 | u64::from(*byte)));
    }

    pub fn constant(&mut self, tag: u8, bits: u64, value_matters: bool) {
        self.operand(tag, []);
        if value_matters {
            self.word(bits);
        }
    }
}
