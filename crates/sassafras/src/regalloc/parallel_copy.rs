//! Copies, packs and unpacks: words that change places, if they have to.

use super::reg_file::PREDICATES;
use super::{Allocator, Trouble, place_in};
use crate::regalloc::parallel_moves;
use ori::entity::Entity;
use ori::{Arg, File, Inst, InstData, Value};

impl Allocator<'_> {
    /// Copies, packs and unpacks: results take the places of what ends here where they can, the rest are moves.
    pub(super) fn shuffle(&mut self, inst: Inst, dying: &[Value]) -> Result<(), Trouble> {
        let data = &self.function.insts[inst];
        let arguments = self.operand_places(data);
        let file = data.results.first().map_or(File::R, |r| self.function.values[*r].file);
        dying.iter().for_each(|v| self.leave(*v));
        // What a result would like: the place where its words are already.
        let mut word = 0;
        for result in &data.results {
            let words = self.function.values[*result].words;
            let wish = self.place_of_words(data, &arguments, word, words);
            match wish.filter(|w| self.suits(*result, *w)) {
                Some(place) => self.arrive(*result, place),
                None => self.define(*result)?,
            }
            self.locked.push(*result);
            word += words;
        }
        let wanted = self.word_moves(data, &arguments);
        let spare = self.spare(file, &wanted);
        match parallel_moves::sequence(&wanted, spare) {
            Some(sequence) => {
                let first = self.lines.len();
                sequence.into_iter().try_for_each(|(to, from)| self.copy(file, to, from))?;
                self.lines[first..].iter_mut().for_each(|l| l.at = data.at);
                Ok(())
            }
            None => {
                self.short_of = Some(file);
                Ok(())
            }
        }
    }

    /// The moves, word by word, that a copy, pack or unpack stands for.
    pub(super) fn word_moves(&self, data: &InstData, arguments: &[(Value, u8)]) -> Vec<(u8, u8)> {
        let mut to: Vec<Option<u8>> = Vec::new();
        for result in &data.results {
            let at = self.at[result.index()];
            to.extend((0..self.function.values[*result].words).map(|w| at.map(|a| a + w)));
        }
        let mut from: Vec<Option<u8>> = Vec::new();
        for arg in &data.args {
            let Arg::Use(u) = arg else { continue };
            let first = u.part.map_or(0, |p| p.first);
            let count = u.part.map_or(self.function.values[u.value].words, |p| p.count);
            let at = place_in(arguments, u.value).filter(|_| !self.undefined.contains(u.value));
            from.extend((first..first + count).map(|w| at.map(|a| a + w)));
        }
        to.into_iter().zip(from).filter_map(|(to, from)| Some((to?, from?))).collect()
    }

    /// Where words `first..` of the arguments are, if they are side by side.
    pub(super) fn place_of_words(
        &self,
        data: &InstData,
        arguments: &[(Value, u8)],
        first: u8,
        count: u8,
    ) -> Option<u8> {
        let mut at: Option<u8> = None;
        let mut word = 0;
        for arg in &data.args {
            let Arg::Use(u) = arg else { return None };
            let start = u.part.map_or(0, |p| p.first);
            let words = u.part.map_or(self.function.values[u.value].words, |p| p.count);
            if self.undefined.contains(u.value) {
                word += words;
                continue;
            }
            for w in 0..words {
                if (first..first + count).contains(&word) {
                    let place = place_in(arguments, u.value)? + start + w;
                    let begin = place.checked_sub(word - first)?;
                    if at.is_some_and(|a| a != begin) {
                        return None;
                    }
                    at = Some(begin);
                }
                word += 1;
            }
        }
        at
    }

    /// The register of a file that no value gets.
    pub(super) fn kept(&self, file: File) -> Option<u8> {
        match file {
            File::R => self.limits.scratch,
            File::P => self.limits.scratch_predicate.then_some(PREDICATES - 1),
            _ => None,
        }
    }

    /// A register that neither a value nor these moves use.
    pub(super) fn spare(&self, file: File, moves: &[(u8, u8)]) -> Option<u8> {
        let places = &self.files[self.file(file)];
        (0..places.len())
            .find(|p| {
                places.is_free(*p)
                    && !moves.iter().any(|(a, b)| usize::from(*a) == *p || usize::from(*b) == *p)
            })
            .map(|p| p as u8)
            .or(self.kept(file))
    }
}
