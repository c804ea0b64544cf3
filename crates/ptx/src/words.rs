//! The vocabulary: every modifier word of PTX with its kind.
//!
//! ptxas treats an opcode as a mnemonic and a bag of modifiers: modifiers of different kinds may come in any
//! order, those of one kind keep theirs, and a kind that an instruction doesn't take has a text of its own.
//! Kinds, texts and the order of complaints were found by putting each word, and each pair of words, on
//! `add.s32` and `mov.b32` and reading the answers (docs/ptx-language.md has the commands).

mod vocabulary;

pub use vocabulary::{Kind, Word};

use vocabulary::VOCABULARY;

// By word number: the text with the leading dot, the kind, the group in the vocabulary; and all words by their text.
// `build/words.rs` writes them.
include!(concat!(env!("OUT_DIR"), "/words.rs"));

/// Words that ptxas complains about a second time where they don't belong: the words, what it says (`$w` is the word,
/// `$::` what follows its `::`), and the word with whose turn it says so, if not with the word's own.
const TOLD_TWICE: &[(&str, &str, &str)] = &[
    ("L1 L2 tensormap ca cg cs lu cv wb wt", "Illegal modifier '$w'", ""),
    ("sp::ordered_metadata async a1d a2d cube acube", "Illegal modifier '$w'", ""),
    ("cta cluster gpu sys gl", "Illegal modifier '$w'", "mmio"),
    (
        "L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate L2::evict_first L2::evict_last L2::evict_normal L2::evict_unchanged",
        "Illegal modifier '$::'",
        "param::func",
    ),
    ("2dms a2dms", "Illegal modifier 'Multi-sample geometry'", ""),
    ("clamp wrap zero trap", "Illegal modifier 'Clamp'", ""),
    ("rs", "Illegal modifier '.rs'", ""),
    (
        "width height depth channel_data_type channel_order normalized_coords array_size num_mipmap_levels num_samples filter_mode addr_mode_0 addr_mode_1 addr_mode_2 force_unnormalized_coords",
        "Illegal query modifier",
        "",
    ),
];

/// When ptxas says something about an instruction: each remark has its turn, whatever the instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(u16);

impl Turn {
    /// Before all others.
    pub const FIRST: Turn = Turn(0);
    /// After all others.
    pub const LAST: Turn = Turn(u16::MAX);

    /// The turn of what is said about a word that doesn't belong.
    pub fn of(word: Word) -> Turn {
        Turn(word.0 + 1)
    }

    /// The same for a word without its dot; the last turn if there is no such word.
    pub fn of_text(text: &str) -> Turn {
        Word::find(text).map_or(Turn::LAST, Turn::of)
    }

    /// The turn of what is said about the words of the same group.
    pub fn of_group(word: Word) -> Turn {
        let group = VOCABULARY[word.group()].2;
        Turn::of_text(group.split(' ').next().unwrap_or(""))
    }
}

impl Word {
    /// The word for a text without its dot.
    pub fn find(text: &str) -> Option<Word> {
        let at = BY_TEXT.binary_search_by(|word| word.text()[1..].cmp(text)).ok()?;
        Some(BY_TEXT[at])
    }

    /// With the dot: `.f32`.
    pub fn text(self) -> &'static str {
        WORDS[self.0 as usize].0
    }

    /// What it says.
    pub fn kind(self) -> Kind {
        WORDS[self.0 as usize].1
    }

    /// Words of one group exclude each other, unless it is a group of types, spaces or layouts.
    pub fn group(self) -> usize {
        WORDS[self.0 as usize].2
    }

    /// The word without what tells it from its alternatives: `.cta_group` of `.cta_group::1`.
    pub fn stem(self) -> &'static str {
        let text = self.text();
        text.split_once("::").map_or(text, |(stem, _)| stem)
    }

    /// What ptxas says when this word follows another one of its group.
    pub fn twice(self) -> Option<String> {
        let text = VOCABULARY[self.group()].1;
        (!text.is_empty()).then(|| text.replace("$w", self.printed()))
    }

    /// With the dot, as ptxas prints it: one word comes out scrambled.
    fn printed(self) -> &'static str {
        match self.text() {
            ".mbarrier::arrive::one" => ".zoneevre::neevir::bar",
            text => text,
        }
    }

    /// ptxas's words for this modifier on an instruction that doesn't take it.
    pub fn not_taken(self, instruction: &str) -> String {
        let name = match self.kind() {
            Kind::Space => {
                return format!("No state space qualifier expected for instruction '{instruction}'");
            }
            Kind::Compare => {
                return format!("Comparison qualifier is not allowed for instruction '{instruction}'");
            }
            Kind::Vector => {
                return format!("Vector qualifier is not allowed for instruction '{instruction}'");
            }
            Kind::Rounding => return format!("Illegal rounding modifier for instruction '{instruction}'"),
            Kind::Query => return format!("Illegal query modifier for instruction '{instruction}'"),
            Kind::Exchange => return format!("Illegal reduction operation for instruction '{instruction}'"),
            Kind::NameOnly => return format!("Unknown modifier '{}'", self.text()),
            Kind::Permute => "Permute",
            Kind::Dimension => "dimension",
            Kind::Component => "Component",
            Kind::Geometry => "Geometry",
            Kind::Clamp => "Clamp",
            Kind::ShiftRight => "Shift-right",
            Kind::Layout => ".alayout or .blayout",
            Kind::Eviction => ".level::eviction_priority",
            _ => self.printed(),
        };
        format!("Illegal modifier '{name}' for instruction '{instruction}'")
    }

    /// What ptxas adds to that for some words, and when.
    pub fn not_taken_again(self, instruction: &str) -> Option<(Turn, String)> {
        let (_, text, turn) =
            *TOLD_TWICE.iter().find(|(words, _, _)| words.split(' ').any(|w| w == &self.text()[1..]))?;
        let short = self.text().rsplit("::").next().unwrap_or("").trim_start_matches('.');
        let text = text.replace("$::", &format!(".{short}")).replace("$w", self.text());
        let turn = if turn.is_empty() { Turn::of(self) } else { Turn::of_text(turn) };
        Some((turn, format!("{text} for instruction '{instruction}'")))
    }
}

impl Kind {
    /// Kinds that choose the form of an instruction, together with its operands. A word of another kind that
    /// a form doesn't take is complained about only after the operands.
    pub fn chooses_form(self) -> bool {
        matches!(self, Kind::Type | Kind::Op | Kind::FormFlag)
    }

    /// May words of this kind stand several times, each with a meaning of its own?
    pub fn repeats(self) -> bool {
        let repeats = [Kind::Type, Kind::Op, Kind::Exchange, Kind::Space, Kind::Layout, Kind::Eviction];
        repeats.contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_found() {
        for (i, (text, _, _)) in WORDS.iter().enumerate() {
            assert_eq!(Word::find(&text[1..]), Some(Word(i as u16)), "{text} is listed twice");
        }
    }

    #[test]
    fn numbers_in_words() {
        let shape = Word::find("m64n128k16").unwrap();
        assert_eq!((shape.number('n'), shape.number('k')), (Some(128), Some(16)));
        assert_eq!(Word::find("x4").unwrap().number('x'), Some(4));
    }
}
