//! `m8n8k4` on halves for machines without `HMMA.884`: each thread gathers the rows and columns of its part of D, and
//! sums in f32.
//!
//! A warp computes four MMAs, each with the threads of two quads, `4q` and `16 + 4q`: the upper quad has rows and
//! columns 4 to 7. With `l` the thread's index in its quad, it holds (words of two halves):
//!
//! | matrix | elements |
//! |---|---|
//! | row-major A, column-major B | row (column) `l`, all four `k` |
//! | column-major A, row-major B | `k = l`, four rows (columns) |
//! | C and D as halves | row `l`, all eight columns |
//! | C and D as floats | rows `l & 1` and `2 + (l & 1)`; columns `l & 2`, the next one, and both plus 4 |
//!
//! The order of summation is that of ptxas's routines, so that results are the same bit for bit.

use crate::lower::Lower;
use crate::lower::build::{PT, RZ};
use crate::lower::tensor::mma::{Fragment, Mma};
use ori::{Arg, File, Value};
use ptx::Type;
use sass::{M, Op};

/// The four elements of a row of A, or of a column of B, as floats.
type RowOrColumn = [Arg; 4];

/// The position of a thread.
struct LanePosition {
    lane: Arg,
    /// Is its index in the quad odd? Is it one of the upper two?
    odd: Arg,
    upper: Arg,
}

impl Lower<'_, '_> {
    pub(crate) fn expand_quad_mma(&mut self, mma: &Mma, a: &[Arg], b: &[Arg], c: &[Arg]) -> Option<Fragment> {
        let lane: Arg = self.emit(Op::S2R, &[], 1, &[Arg::Name(M::SR_LANEID)]).into();
        let [odd, upper] = [1, 2].map(|bit| self.has_bits(lane, bit));
        let position = LanePosition { lane, odd, upper };
        let (a, b) = (a.first_chunk()?, b.first_chunk()?);
        match mma.d == Type::F32 {
            true => self.quad_floats(mma, &position, a, b, c),
            false => self.quad_halves(mma, &position, a, b, c.first_chunk()?),
        }
    }

    /// D as floats: two rows, four columns.
    fn quad_floats(
        &mut self,
        mma: &Mma,
        position: &LanePosition,
        a: &[Arg; 2],
        b: &[Arg; 2],
        c: &[Arg],
    ) -> Option<Fragment> {
        let c = match c.first_chunk() {
            _ if mma.c == mma.d => c.to_vec(),
            halves => self.quad_spread(position, halves?),
        };
        let rows = match mma.columns[0] {
            false => self.own_pair_of_rows(position, a),
            true => self.pair_of_rows_by_k(position, a),
        };
        let columns = match mma.columns[1] {
            true => self.four_columns(position, b),
            false => self.four_columns_by_k(position, b),
        };
        let mut d = Fragment::new();
        for (i, c) in c.iter().enumerate() {
            let (row, column) = (&rows[i >> 1 & 1], &columns[i >> 1 & 2 | i & 1]);
            let mut sum = RZ;
            for (x, y) in row.iter().zip(column) {
                sum = self.emit(Op::FFMA, &[], 1, &[*x, *y, sum]).into();
            }
            d.push(self.emit(Op::FADD, &[], 1, &[*c, sum]).into());
        }
        (d.len() == 8).then_some(d)
    }

    /// D as halves: one row, eight columns.
    fn quad_halves(
        &mut self,
        mma: &Mma,
        position: &LanePosition,
        a: &[Arg; 2],
        b: &[Arg; 2],
        c: &[Arg; 4],
    ) -> Option<Fragment> {
        let row = match mma.columns[0] {
            false => self.floats_of(a),
            true => self.own_row_by_k(position, a),
        };
        let columns = match mma.columns[1] {
            true => self.eight_columns(position, b),
            false => self.eight_columns_by_k(position, b),
        };
        let mut sums = Vec::new();
        for (column, c) in columns.iter().zip(c.iter().flat_map(halves)) {
            let mut pair = |k: usize| -> Arg {
                let product = self.emit(Op::FMUL, &[], 1, &[row[k], column[k]]);
                self.emit(Op::FFMA, &[], 1, &[row[k + 1], column[k + 1], product.into()]).into()
            };
            let (first, second) = (pair(0), pair(2));
            let c = self.half_as_float(c);
            let sum = self.emit(Op::FADD, &[], 1, &[c, first]);
            sums.push(self.emit(Op::FADD, &[], 1, &[sum.into(), second]).into());
        }
        Some(sums.chunks_exact(2).map(|pair| self.floats_as_halves(pair[0], pair[1])).collect())
    }

    /// Row-major A: the two rows of a thread are in its own quad.
    fn own_pair_of_rows(&mut self, position: &LanePosition, a: &[Arg; 2]) -> [RowOrColumn; 2] {
        // Clears the bit that distinguishes rows 0 and 1 from rows 2 and 3.
        let first: Arg = self.masked(position.lane, !2).into();
        [0, 2].map(|row| self.line_of(a, first, row))
    }

    /// Column-major A: the thread of each `k` has a word for rows 0 and 1, and one for rows 2 and 3.
    fn pair_of_rows_by_k(&mut self, position: &LanePosition, a: &[Arg; 2]) -> [RowOrColumn; 2] {
        let first: Arg = self.masked(position.lane, !3).into();
        a.map(|word| {
            [0, 1, 2, 3].map(|k| {
                let pair = self.word_of_lane(word, first, k);
                self.picked_half(pair, position.odd)
            })
        })
    }

    /// Column-major A, for a thread with one row.
    fn own_row_by_k(&mut self, position: &LanePosition, a: &[Arg; 2]) -> RowOrColumn {
        let first: Arg = self.masked(position.lane, !3).into();
        [0, 1, 2, 3].map(|k| {
            let [low, high] = a.map(|word| self.word_of_lane(word, first, k));
            let pair = self.chosen(position.upper, high, low);
            self.picked_half(pair, position.odd)
        })
    }

    /// Column-major B: the thread of each column has all of it.
    fn four_columns(&mut self, position: &LanePosition, b: &[Arg; 2]) -> Vec<RowOrColumn> {
        let first: Arg = self.masked(position.lane, 0xe).into();
        [0, 1, 16, 17].map(|column| self.line_of(b, first, column)).into()
    }

    fn eight_columns(&mut self, position: &LanePosition, b: &[Arg; 2]) -> Vec<RowOrColumn> {
        let first: Arg = self.masked(position.lane, 0xc).into();
        [0, 1, 2, 3, 16, 17, 18, 19].map(|column| self.line_of(b, first, column)).into()
    }

    /// Row-major B: the thread of each `k` has a word for columns 0 and 1, and one for columns 2 and 3.
    fn four_columns_by_k(&mut self, position: &LanePosition, b: &[Arg; 2]) -> Vec<RowOrColumn> {
        let first: Arg = self.masked(position.lane, 0xc).into();
        let mut columns = Vec::new();
        for quad in [0, 16] {
            let pairs = [0, 1, 2, 3].map(|k| {
                let [low, high] = b.map(|word| self.word_of_lane(word, first, quad + k));
                self.chosen(position.upper, high, low)
            });
            columns.extend(self.columns_of(pairs));
        }
        columns
    }

    fn eight_columns_by_k(&mut self, position: &LanePosition, b: &[Arg; 2]) -> Vec<RowOrColumn> {
        let first: Arg = self.masked(position.lane, 0xc).into();
        let mut columns = Vec::new();
        for quad in [0, 16] {
            for word in *b {
                let pairs = [0, 1, 2, 3].map(|k| self.word_of_lane(word, first, quad + k));
                columns.extend(self.columns_of(pairs));
            }
        }
        columns
    }

    /// Moves C from the layout of halves to that of floats.
    fn quad_spread(&mut self, position: &LanePosition, c: &[Arg; 4]) -> Fragment {
        let first: Arg = self.masked(position.lane, !2).into();
        let mut out = Fragment::new();
        for words in c.chunks_exact(2) {
            for row in [0, 2] {
                let [low, high] = [words[0], words[1]].map(|word| self.word_of_lane(word, first, row));
                let pair = self.chosen(position.upper, high, low);
                out.extend(halves(&pair).map(|half| self.half_as_float(half)));
            }
        }
        out
    }

    /// The row or column that a thread holds in two words.
    fn line_of(&mut self, words: &[Arg; 2], first: Arg, further: i64) -> RowOrColumn {
        let words = words.map(|word| self.word_of_lane(word, first, further));
        self.floats_of(&words)
    }

    fn floats_of(&mut self, words: &[Arg; 2]) -> RowOrColumn {
        let [a, b] = words.map(|word| halves(&word));
        [a[0], a[1], b[0], b[1]].map(|half| self.half_as_float(half))
    }

    /// Unpacks two columns, a word for each `k`.
    fn columns_of(&mut self, pairs: RowOrColumn) -> [RowOrColumn; 2] {
        [0, 1].map(|column: usize| pairs.map(|pair| self.half_as_float(halves(&pair)[column])))
    }

    /// The upper half of a word if a predicate holds, else the lower, as a float.
    fn picked_half(&mut self, word: Arg, upper: Arg) -> Arg {
        let swapped = self.prmt(word, 0x1032, RZ);
        let low = self.chosen(upper, swapped.into(), word);
        self.half_as_float(low.suffixed(M::H0_H0))
    }
}

/// Exchange between threads; also for other expansions.
impl Lower<'_, '_> {
    /// The word of thread `first + further`.
    pub(crate) fn word_of_lane(&mut self, word: Arg, first: Arg, further: i64) -> Arg {
        let lane = match further {
            0 => first,
            _ => self.emit(Op::IADD3, &[], 1, &[first, Arg::Imm(further), RZ]).into(),
        };
        self.shuffled(M::IDX, word, lane, 0x1f)
    }

    pub(crate) fn shuffled(&mut self, mode: M, word: Arg, lane: Arg, bounds: i64) -> Arg {
        let (got, inside): (Value, Value) =
            (self.kernel.code.value(File::R, 1), self.kernel.code.value(File::P, 1));
        let word = self.in_register(word);
        self.effect(Op::SHFL, &[mode], &[inside, got], &[word, lane, Arg::Imm(bounds)]);
        got.into()
    }

    /// Is one of these bits set?
    pub(crate) fn has_bits(&mut self, word: Arg, bits: i64) -> Arg {
        let bits = self.masked(word, bits).into();
        self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &[PT, bits, RZ, PT]).into()
    }

    pub(crate) fn chosen(&mut self, predicate: Arg, yes: Arg, no: Arg) -> Arg {
        self.emit(Op::SEL, &[], 1, &[yes, no, predicate]).into()
    }
}

fn halves(word: &Arg) -> [Arg; 2] {
    [word.suffixed(M::H0_H0), word.suffixed(M::H1_H1)]
}
