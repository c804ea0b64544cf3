//! Sparse MMAs (2:4): two of each four elements of a row of A are stored, and four bits of metadata have their indices,
//! two bits each, the first one's below.
//!
//! The groups of four of a row follow each other in the metadata. With `t` a thread's index in its quad, its words of A
//! belong to these groups (read off ptxas's code for sm_100):
//!
//! | elements | word of A | thread with the metadata | its bits |
//! |---|---|---|---|
//! | halves | `i` | `first + i / 2` | `16 * (i % 2) + 4 * t` |
//! | bytes | `i`, a group in each half | `first + i` | `8 * t` and `8 * t + 4` |
//!
//! The selector counts sets of such threads: `first` is the selector times their number.

use crate::lower::Lower;
use crate::lower::arith::words::imm;
use crate::lower::build::RZ;
use crate::lower::tensor::mma::{Fragment, Mma, Sparse};
use ori::Arg;
use ptx::Type;
use sass::{M, Op};

/// Four bits for each group.
const EACH_GROUP: u32 = 0x1111_1111;
/// The bounds of a SHFL within the quad.
const IN_QUAD: i64 = 0x1c03;

impl Lower<'_, '_> {
    /// Does the machine need ascending indices? ptxas sorts them on sm_100 and later, for halves and for integers; not
    /// for `bf16`, nor for the byte floats of sm_120.
    pub(crate) fn must_order(&self, mma: &Mma) -> Option<Sparse> {
        let wants = matches!(mma.a.name(), "f16" | "u8" | "s8") && self.machine.wants_ordered_metadata;
        mma.sparse.filter(|sparse| wants && !sparse.ordered)
    }

    /// An MMA with metadata in any order: swaps indices and elements of groups in descending order.
    pub(crate) fn mma_sorted_metadata(
        &mut self,
        mma: &Mma,
        sparse: Sparse,
        a: &[Arg],
        b: &[Arg],
        c: &[Arg],
    ) -> Option<Fragment> {
        let (metadata, flags) = self.sorted_indices(sparse.metadata);
        let a = match mma.a.name() {
            "f16" => self.swapped_halves(a, flags, sparse.selector),
            _ => self.swapped_bytes(a, flags, sparse.selector),
        };
        let sparse = Some(Sparse { metadata, ordered: true, ..sparse });
        self.multiply_matrices(&Mma { sparse, ..*mma }, &a, b, c)
    }

    /// Metadata with sorted indices, and the lowest bit of each group that was swapped.
    fn sorted_indices(&mut self, metadata: Arg) -> (Arg, Arg) {
        let [by1, by2, by3] = [1, 2, 3].map(|n| self.shifted_right(metadata, Arg::Imm(n)));
        // With the first index in bits 1 and 0, the second in 3 and 2: first > second in the lower bits, ...
        let lower: Arg = self.lop3(metadata, by2, RZ, 0x30).into();
        // ... unless the upper bits decide: `b1 & !b3 | !(b1 ^ b3) & lower`.
        let greater: Arg = self.lop3(by1, by3, lower, 0xb2).into();
        let flags: Arg = self.lop3(greater, imm(EACH_GROUP), RZ, 0xc0).into();
        let up: Arg = self.emit(Op::SHF, &[M::L, M::U32], 1, &[metadata, Arg::Imm(2), RZ]).into();
        let swapped: Arg = self.lop3(up, imm(0xcccc_cccc), by2, 0xe2).into();
        let all = self.emit(Op::IMAD, &[], 1, &[flags, Arg::Imm(0xf), RZ]);
        (self.lop3(swapped, all.into(), metadata, 0xe2).into(), flags)
    }

    /// Words of A as halves, swapped where the flag of their group says so.
    fn swapped_halves(&mut self, a: &[Arg], flags: Arg, selector: u32) -> Fragment {
        let first = i64::from(selector) * (a.len() as i64 / 2);
        let shift = self.lane_bits(4);
        let mut out = Fragment::new();
        for (lane, words) in a.chunks(2).enumerate() {
            let flags = self.shuffled(M::IDX, flags, Arg::Imm(first + lane as i64), IN_QUAD);
            let flags = self.shifted_right(flags, shift);
            for (word, bit) in words.iter().zip([1, 1 << 16]) {
                out.push(self.permuted_if(flags, bit, *word, 0x1032));
            }
        }
        out
    }

    /// The same as bytes: each half of a word is a group.
    fn swapped_bytes(&mut self, a: &[Arg], flags: Arg, selector: u32) -> Fragment {
        let first = i64::from(selector) * a.len() as i64;
        let shift = self.lane_bits(8);
        let mut out = Fragment::new();
        for (lane, word) in a.iter().enumerate() {
            let flags = self.shuffled(M::IDX, flags, Arg::Imm(first + lane as i64), IN_QUAD);
            let flags = self.shifted_right(flags, shift);
            let low = self.permuted_if(flags, 1, *word, 0x3201);
            out.push(self.permuted_if(flags, 1 << 4, low, 0x2310));
        }
        out
    }

    /// `each` times the thread's index in the quad.
    fn lane_bits(&mut self, each: i64) -> Arg {
        let lane = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_LANEID)]);
        let lane_in_quad = self.masked(lane.into(), 3);
        self.emit(Op::IMAD, &[], 1, &[lane_in_quad.into(), Arg::Imm(each), RZ]).into()
    }

    fn permuted_if(&mut self, flags: Arg, bit: i64, word: Arg, selector: u32) -> Arg {
        let swap = self.has_bits(flags, bit);
        let swapped = self.prmt(word, selector, RZ);
        self.chosen(swap, swapped.into(), word)
    }

    fn shifted_right(&mut self, word: Arg, by: Arg) -> Arg {
        self.emit(Op::SHF, &[M::R, M::U32, M::HI], 1, &[RZ, by, word]).into()
    }

    /// 8-bit floats as halves: the even groups first, then the odd ones, then C. A word of A has an even and an odd
    /// group already. Of B each thread has a whole group of four rows, where halves take two rows of it: even threads
    /// get the lower ones of theirs and of their neighbour's, odd ones the upper ones.
    pub(crate) fn sparse_byte_floats(
        &mut self,
        mma: &Mma,
        sparse: Sparse,
        a: &[Arg],
        b: &[Arg],
        c: &[Arg],
    ) -> Option<Fragment> {
        let lane: Arg = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_LANEID)]).into();
        let odd = self.has_bits(lane, 1);
        // The first half of these words is for the even groups.
        let choice = self.chosen(odd, imm(0x3276), imm(0x5410));
        let mut rows = Fragment::new();
        for word in b {
            let other = self.shuffled(M::BFLY, *word, Arg::Imm(1), 0x1f);
            rows.push(self.emit(Op::PRMT, &[], 1, &[*word, choice, other]).into());
        }
        let metadata = self.split_metadata(sparse.metadata, lane);
        let f16 = Type::find("f16")?;
        let halves = Mma { k: mma.k / 2, a: f16, b: f16, ..*mma };
        let mut sum = Vec::new();
        for (selector, upper) in [(0, false), (1, true)] {
            let a = self.halves_of_bytes(a, mma.a, upper)?;
            let b = self.halves_of_bytes(&rows, mma.b, upper)?;
            let sparse = Some(Sparse { metadata, selector, ..sparse });
            sum = self.multiply_matrices(&Mma { sparse, ..halves }, &a, &b, &sum)?;
        }
        Some(self.sum_of(mma.d, c, &sum))
    }

    /// The metadata of the two MMAs on halves. A word of the bytes' is for eight groups of a row; threads 0 and 1 have
    /// the first eight of the two rows, 2 and 3 the rest. A word of the halves' is for four groups of both rows:
    /// threads 0 and 1 get the even ones, 2 and 3 the odd ones.
    fn split_metadata(&mut self, metadata: Arg, lane: Arg) -> Arg {
        let odd = self.shifted_right(metadata, Arg::Imm(4));
        let [even, odd] = [metadata, odd].map(|groups| self.every_other_group(groups));
        let both: Arg = self.prmt(even, 0x5410, odd).into();
        // Threads 0 and 2 read 0 and 1, threads 1 and 3 read 2 and 3.
        let lane_in_quad = self.masked(lane, 1);
        let first: Arg = self.emit(Op::IMAD, &[], 1, &[lane_in_quad.into(), Arg::Imm(2), RZ]).into();
        let row = self.shuffled(M::IDX, both, first, IN_QUAD);
        let next: Arg = self.emit(Op::IADD3, &[], 1, &[first, Arg::Imm(1), RZ]).into();
        let other_row = self.shuffled(M::IDX, both, next, IN_QUAD);
        let upper = self.has_bits(lane, 2);
        let choice = self.chosen(upper, imm(0x7632), imm(0x5410));
        self.emit(Op::PRMT, &[], 1, &[row, choice, other_row]).into()
    }

    /// Packs groups 0, 2, 4 and 6.
    fn every_other_group(&mut self, groups: Arg) -> Arg {
        let mut word: Arg = self.lop3(groups, imm(0x0f0f_0f0f), RZ, 0xc0).into();
        for (shift, mask) in [(4, 0x00ff_00ff), (8, 0x0000_ffff)] {
            let closer = self.shifted_right(word, Arg::Imm(shift));
            word = self.lop3(word, closer, imm(mask), 0xa8).into();
        }
        word
    }
}
