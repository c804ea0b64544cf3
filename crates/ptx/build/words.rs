//! The vocabulary as a list of words, and the statics that the crate has of it.

pub use crate::vocabulary::{Kind, Word};
use crate::vocabulary::{MATRIX_SHAPES, VOCABULARY};
use std::fmt::Write;
use std::sync::LazyLock;

/// By word number: the text with the leading dot, the kind, the group.
static WORDS: LazyLock<Vec<(String, Kind, usize)>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for (group, (kind, _, words)) in VOCABULARY.iter().enumerate() {
        let mut add = |word: &str| all.push((format!(".{word}"), *kind, group));
        words.split(' ').for_each(&mut add);
        if *words == MATRIX_SHAPES {
            wgmma_shapes().for_each(|word| add(&word));
        }
    }
    all
});

fn wgmma_shapes() -> impl Iterator<Item = String> {
    let ks = [8, 16, 32, 64, 128, 256, 512];
    (8..=256).step_by(8).flat_map(move |n| ks.map(|k| format!("m64n{n}k{k}")))
}

fn numbered() -> impl Iterator<Item = (Word, &'static str)> {
    (0..).map(Word).zip(WORDS.iter().map(|(text, _, _)| text.as_str()))
}

impl Word {
    /// The word for a text without its dot.
    pub fn find(text: &str) -> Option<Word> {
        numbered().find(|(_, word)| &word[1..] == text).map(|(word, _)| word)
    }

    /// The words that begin with one text and end with another, in the order of the vocabulary.
    pub fn matching(start: &str, end: &str) -> Vec<Word> {
        let fits = |text: &str| text.starts_with(start) && text.ends_with(end);
        numbered().filter(|(_, text)| fits(&text[1..])).map(|(word, _)| word).collect()
    }

    pub fn text(self) -> &'static str {
        &WORDS[self.0 as usize].0
    }

    pub fn kind(self) -> Kind {
        WORDS[self.0 as usize].1
    }
}

pub fn rust() -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    writeln!(out, "static WORDS: [(&str, Kind, usize); {}] = [", WORDS.len())?;
    for (text, kind, group) in WORDS.iter() {
        writeln!(out, "({text:?}, Kind::{kind:?}, {group}),")?;
    }
    let mut by_text: Vec<Word> = numbered().map(|(word, _)| word).collect();
    by_text.sort_by_key(|word| &word.text()[1..]);
    writeln!(out, "];\nstatic BY_TEXT: [Word; {}] = {by_text:?};", by_text.len())?;
    Ok(out)
}
