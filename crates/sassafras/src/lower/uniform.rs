//! Operations of the warp: their operands must be in uniform registers, of which all its threads have one set.
//!
//! Threads may come with different operands, so that such an operation is done several times. Each turn is taken by
//! threads that have left the others, who come to the same place again and again until they have had theirs:
//!
//! ```text
//! again:   is it my turn?
//!          if not, go to again
//!          operands to uniform registers, the operation
//! ```
//!
//! Uniform registers hold no value between turns: which threads run first is up to the machine.

use super::Lower;
use super::build::PT;
use ori::{Arg, Edge, File, Terminator, Value};
use sass::{M, Op};

/// How often an operation is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Turns {
    /// Once for each thread.
    Thread,
    /// Once for all threads that have the same operands: where doing it again would change nothing, and where the
    /// operation itself tells the threads apart.
    Value,
}

impl Lower<'_, '_> {
    /// Lowers an operation of the warp. `words` are its operands, which it gets in uniform registers.
    pub(super) fn by_warp(
        &mut self,
        turns: Turns,
        words: &[Arg],
        lower: impl FnOnce(&mut Self, &[Arg]) -> Option<()>,
    ) -> Option<()> {
        let words: Vec<Arg> = words.iter().map(|w| self.in_register(*w)).collect();
        self.under_branch(|l| {
            let [again, inside, after] = [(); 3].map(|()| l.kernel.code.block());
            l.kernel.code.blocks[l.block].end = Terminator::Jump(Edge::to(again));
            l.block = again;
            let predicate = match turns {
                Turns::Thread => l.elected(),
                Turns::Value => l.like_first(&words),
            };
            let (yes, no) = (Edge::to(inside), Edge::to(again));
            let end = Terminator::Branch { predicate, negated: false, uniform: false, yes, no };
            l.kernel.code.blocks[l.block].end = end;
            l.block = inside;
            let uniform: Vec<Arg> = words.iter().map(|w| l.in_uniform(*w)).collect();
            lower(l, &uniform)?;
            l.kernel.code.blocks[l.block].end = Terminator::Jump(Edge::to(after));
            l.block = after;
            Some(())
        })
    }

    /// Holds for one of the threads that are here.
    pub(super) fn elected(&mut self) -> Value {
        let (leader, elected) = (self.kernel.code.value(File::UR, 1), self.kernel.code.value(File::P, 1));
        self.effect(Op::ELECT, &[], &[elected, leader], &[PT]);
        elected
    }

    /// Holds for the threads that have the same words as some thread.
    fn like_first(&mut self, words: &[Arg]) -> Value {
        let mut same = PT;
        for word in words {
            let first = self.in_uniform(*word);
            same = self.emit_p(Op::ISETP, &[M::EQ, M::U32, M::AND], &[PT, *word, first, same]).into();
        }
        match same {
            Arg::Use(u) => u.value,
            _ => self.emit_p(Op::PLOP3, &[M::LUT], &[PT, PT, PT, PT, Arg::Imm(0x80), Arg::Imm(0)]),
        }
    }

    /// Some thread's word in a uniform register. Zero is one already.
    pub(super) fn in_uniform(&mut self, word: Arg) -> Arg {
        if let Arg::Zero(_) = word {
            return Arg::Zero(File::UR);
        }
        let result = self.kernel.code.value(File::UR, 1);
        self.effect(Op::R2UR, &[], &[result], &[word]);
        result.into()
    }
}
