//! Copies, packs and unpacks: coalesced where results can take the registers of killed operands, else one parallel
//! copy.
//!
//! ```text
//! v3 = Pack v1, v2        ==>    nothing, if v1 and v2 are killed in an aligned pair
//!                                MOV R4, R1; MOV R5, R3 otherwise
//! ```
//!
//! A guarded one keeps the registers of its else value and moves the words that the guard selects.
//!
//! Afterwards the words of the results are in their registers. Linear in the words, but for the sequentialization.

use super::reg_file::PREDICATES;
use super::{Allocator, AttemptError, reg_in};
use crate::mach::inst::Origin;
use crate::regalloc::parallel_moves;
use ori::entity::Entity;
use ori::{Arg, File, Inst, InstData, Value};

impl Allocator<'_> {
    /// Results take over the registers of killed operands where they can; the rest are moves.
    pub(super) fn parallel_copy(&mut self, inst: Inst, killed: &[Value]) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        let arguments = self.operand_regs(data);
        let file = data.results.first().map_or(File::R, |r| self.function.values[*r].file);
        killed.iter().for_each(|v| self.unassign(*v));
        self.release_dead_words();
        // Preferred: the registers that hold the words already.
        let mut word = 0;
        for result in &data.results {
            let words = self.function.values[*result].words;
            let preferred = self.reg_of_words(data, &arguments, word, words);
            match preferred.filter(|w| self.is_available(*result, *w)) {
                Some(reg) => self.assign(*result, reg),
                None => self.define(*result)?,
            }
            self.locked.push(*result);
            word += words;
        }
        let wanted = self.word_moves(data, &arguments);
        let scratch = self.free_scratch(file, &wanted);
        match parallel_moves::sequence(&wanted, scratch) {
            Some(sequence) => {
                let first = self.emitted.len();
                sequence.into_iter().try_for_each(|(to, from)| self.copy(file, to, from))?;
                self.emitted[first..].iter_mut().for_each(|l| l.at = data.at);
                Ok(())
            }
            None => {
                self.needs_scratch = Some(file);
                Ok(())
            }
        }
    }

    /// A guarded copy or pack: its result has the registers of its else value already. Words of that may be operands,
    /// too (`@p [v] w = Pack x, v[0]`), so that the moves are one parallel copy here as well. The guards are the caller's.
    pub(super) fn guarded_copy(&mut self, inst: Inst, arguments: &[(Value, u8)]) -> Result<(), AttemptError> {
        let data = &self.function.insts[inst];
        let result = data.results[0];
        let (file, first) = (self.function.values[result].file, self.register(result, 0));
        let wanted = self.word_moves(data, arguments);
        let scratch = self.free_scratch(file, &wanted);
        let Some(sequence) = parallel_moves::sequence(&wanted, scratch) else {
            self.needs_scratch = Some(file);
            return Ok(());
        };
        // A word that stays where it is: the checker learns from a move that it is the result's.
        let unmoved = wanted.into_iter().filter(|(to, from)| to == from);
        for (to, from) in unmoved.chain(sequence) {
            self.copy(file, to, from)?;
            if let (true, Some(last)) = (Some(to) != scratch, self.emitted.last_mut()) {
                last.origin = Origin::Word(inst, to - first);
            }
        }
        Ok(())
    }

    /// The moves (to, from) of a copy, pack or unpack, word by word.
    pub(super) fn word_moves(&self, data: &InstData, arguments: &[(Value, u8)]) -> Vec<(u8, u8)> {
        let mut to: Vec<Option<u8>> = Vec::new();
        for result in &data.results {
            let at = self.assigned[result.index()];
            to.extend((0..self.function.values[*result].words).map(|w| at.map(|a| a + w)));
        }
        let mut from: Vec<Option<u8>> = Vec::new();
        for arg in &data.args {
            let Arg::Use(u) = arg else { continue };
            let first = u.part.map_or(0, |p| p.first);
            let count = u.part.map_or(self.function.values[u.value].words, |p| p.count);
            let at = reg_in(arguments, u.value).filter(|_| !self.undefined.contains(u.value));
            from.extend((first..first + count).map(|w| at.map(|a| a + w)));
        }
        to.into_iter().zip(from).filter_map(|(to, from)| Some((to?, from?))).collect()
    }

    /// The register of words `first..` of the arguments, if they are contiguous.
    pub(super) fn reg_of_words(
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
                    let reg = reg_in(arguments, u.value)? + start + w;
                    let begin = reg.checked_sub(word - first)?;
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

    /// The reserved scratch register of a file.
    pub(super) fn reserved_scratch(&self, file: File) -> Option<u8> {
        match file {
            File::R => self.limits.scratch,
            File::P => self.limits.scratch_predicate.then_some(PREDICATES - 1),
            _ => None,
        }
    }

    /// A register that neither a value nor these moves use.
    pub(super) fn free_scratch(&self, file: File, moves: &[(u8, u8)]) -> Option<u8> {
        let regs = &self.files[self.file(file)];
        (0..regs.len())
            .find(|p| {
                regs.is_free(*p) && !moves.iter().any(|(a, b)| usize::from(*a) == *p || usize::from(*b) == *p)
            })
            .map(|p| p as u8)
            .or(self.reserved_scratch(file))
    }
}
