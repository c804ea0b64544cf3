//! Waterfall loops: warp-level operations whose operands must be in uniform registers, with operands that may diverge.
//!
//! An operation is executed once for each group of lanes:
//!
//! ```text
//! again:   p = is this lane in the group of this iteration?
//!          branch p, inside, join
//! inside:  operands to uniform registers, the operation
//! join:    branch p, after, again
//! ```
//!
//! No uniform register is live across iterations: which lanes execute first is up to the machine.
//! [`crate::opt::elide_waterfall`] removes the loop where one lane executes it.

use crate::lower::Lower;
use crate::lower::build::PT;
use ori::{Arg, Edge, File, Terminator, Value};
use sass::{M, Op};

/// The lanes of an iteration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// One iteration for each thread.
    Thread,
    /// One for all threads with the same operands: for idempotent operations, and those that distinguish threads
    /// themselves.
    SameOperands,
    /// The same, by one word, which the operation reads from a general register.
    SameWord(Arg),
}

impl Lower<'_, '_> {
    /// Lowers a warp-level operation under the instruction's guard. `lower` gets `words` in uniform registers.
    pub(crate) fn in_waterfall(
        &mut self,
        grouping: Grouping,
        words: &[Arg],
        lower: impl FnOnce(&mut Self, &[Arg]) -> Option<()>,
    ) -> Option<()> {
        let words: Vec<Arg> = words.iter().map(|w| self.in_register(*w)).collect();
        self.in_guarded_branch(|l| {
            l.waterfall_loop(grouping, &words, &[], |l, uniform| lower(l, uniform).map(|()| Vec::new()))?;
            Some(())
        })
    }

    /// The loop, without a guard. Its results are those of the iteration that executed the lane, initially `results`.
    pub(crate) fn waterfall_loop(
        &mut self,
        grouping: Grouping,
        words: &[Arg],
        results: &[Value],
        lower: impl FnOnce(&mut Self, &[Arg]) -> Option<Vec<Value>>,
    ) -> Option<Vec<Value>> {
        let [again, inside, join, after] = [(); 4].map(|()| self.kernel.code.block());
        let [before, after_iteration] = [again, join].map(|block| {
            let params: Vec<Value> = results.iter().map(|r| self.like(*r)).collect();
            self.kernel.code.blocks[block].params = params.clone();
            params
        });
        let enter = Edge { to: again, args: results.to_vec() };
        self.kernel.code.blocks[self.block].end = Terminator::Jump(enter);
        self.block = again;
        let predicate = match grouping {
            Grouping::Thread => self.elect_one(),
            Grouping::SameOperands => self.same_as_first_active(words),
            Grouping::SameWord(word) => self.same_as_first_active(&[word]),
        };
        let branch = |yes, no| Terminator::Branch { predicate, negated: false, uniform: false, yes, no };
        let wait = Edge { to: join, args: before };
        self.kernel.code.blocks[again].end = branch(Edge::to(inside), wait);
        self.block = inside;
        let uniform: Vec<Arg> = words.iter().map(|w| self.in_uniform(*w)).collect();
        let args = lower(self, &uniform)?;
        self.kernel.code.blocks[self.block].end = Terminator::Jump(Edge { to: join, args });
        let next = Edge { to: again, args: after_iteration.clone() };
        self.kernel.code.blocks[join].end = branch(Edge::to(after), next);
        self.block = after;
        Some(after_iteration)
    }

    /// A value of the same shape.
    fn like(&mut self, value: Value) -> Value {
        let data = self.kernel.code.values[value];
        self.kernel.code.value(data.file, data.words)
    }

    /// True for one active lane.
    pub(crate) fn elect_one(&mut self) -> Value {
        let (leader, elected) = (self.kernel.code.value(File::UR, 1), self.kernel.code.value(File::P, 1));
        self.effect(Op::ELECT, &[], &[elected, leader], &[PT]);
        elected
    }

    /// True for the lanes with the same words as the lane that R2UR reads.
    fn same_as_first_active(&mut self, words: &[Arg]) -> Value {
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

    /// A constant in a uniform register.
    pub(crate) fn uniform_constant(&mut self, value: i64) -> Arg {
        if value == 0 {
            return Arg::Zero(File::UR);
        }
        let result = self.kernel.code.value(File::UR, 1);
        self.emit_to(Op::UMOV, &[], &[result], &[Arg::Imm(value)]);
        result.into()
    }

    /// R2UR: the word of an active lane in a uniform register. Zero is URZ.
    pub(crate) fn in_uniform(&mut self, word: Arg) -> Arg {
        if let Arg::Zero(_) = word {
            return Arg::Zero(File::UR);
        }
        let result = self.kernel.code.value(File::UR, 1);
        self.effect(Op::R2UR, &[], &[result], &[word]);
        result.into()
    }
}
