//! Known bits and upper bounds of words, on demand (compare LLVM's `computeKnownBits`).
//!
//! A query walks the definitions of a word backwards, at most `known_bits_depth` deep, and gives the bits that may be ones and
//! the largest unsigned value, for any input. Front ends write `base | 8` for `base + 8` where they know that `base` is
//! a multiple of 16; this finds it again. Every rule is tested against `ori::eval`. Cost: bounded by the depth, not the
//! function.

use ori::entity::Entity;
use ori::{Arg, Cfg, File, Function, InstData, Op, Value};
use rustc_hash::FxHashMap;
use sass::M;

pub use ori::Definitions;

/// The unguarded instruction that defines a value.
pub fn definition<'a>(
    function: &'a Function,
    definitions: &Definitions,
    value: Value,
) -> Option<&'a InstData> {
    let (_, inst) = (*definitions.get(value.index())?)?;
    Some(&function.insts[inst]).filter(|data| data.guard.is_none())
}

/// The known bits and the bound of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// The bits that may be ones.
    pub ones: u32,
    /// The largest unsigned number that it can be.
    pub most: u32,
}

impl Word {
    const ANY: Word = Word::of_bits(u32::MAX);

    const fn of_bits(ones: u32) -> Word {
        Word { ones, most: ones }
    }

    fn sum(terms: &[Word]) -> Word {
        let zeros = terms.iter().map(|w| w.ones.trailing_zeros()).min().unwrap_or(0);
        let aligned = u32::MAX.checked_shl(zeros).unwrap_or(0);
        let most = terms.iter().map(|w| u64::from(w.most)).sum::<u64>();
        match u32::try_from(most) {
            Ok(most) => Word { ones: aligned & ones_below(most), most },
            Err(_) => Word::of_bits(aligned),
        }
    }

    fn shifted_left(self, by: u32) -> Word {
        let ones = self.ones << by;
        let most = u64::from(self.most) << by;
        Word { ones, most: u32::try_from(most).map_or(ones, |most| most.min(ones)) }
    }

    fn masked(self, mask: u32) -> Word {
        let ones = self.ones & mask;
        Word { ones, most: ones.min(self.most) }
    }
}

/// All bits of the numbers up to `most`.
fn ones_below(most: u32) -> u32 {
    u32::MAX.checked_shr(most.leading_zeros()).unwrap_or(0)
}

/// Queries of words.
pub struct Words<'f, 'a> {
    /// The unguarded instruction that defines a value.
    pub define: &'f dyn Fn(Value) -> Option<&'a InstData>,
    /// How many of the lowest bits of a parameter are zero.
    pub zeros: &'f dyn Fn(Value) -> u32,
    /// How many definitions are followed (`Tuning::known_bits_depth`).
    pub depth: u32,
}

impl Words<'_, '_> {
    pub fn of(&self, arg: &Arg) -> Word {
        self.at(arg, self.depth)
    }

    fn at(&self, arg: &Arg, depth: u32) -> Word {
        match arg {
            Arg::Imm(n) => Word::of_bits(*n as u32),
            Arg::Zero(_) => Word::of_bits(0),
            Arg::Use(u) if u.is_plain() && u.part.is_none() && depth > 0 => match (self.define)(u.value) {
                Some(data) if data.results[0] == u.value => self.result(data, depth - 1),
                Some(_) => Word::ANY,
                None => Word::of_bits(u32::MAX.checked_shl((self.zeros)(u.value)).unwrap_or(0)),
            },
            _ => Word::ANY,
        }
    }

    fn result(&self, data: &InstData, depth: u32) -> Word {
        use sass::Op::{IADD3, LD, LDG, LDL, LDS, LOP3, MOV, PRMT, SGXT, SHF};
        let Op::Machine(op) = data.op else { return Word::ANY };
        let of = |arg: &Arg| self.at(arg, depth);
        match (op, &data.modifiers[..], &data.args[..]) {
            (MOV, [], [from]) => of(from),
            (IADD3, [], [a, b, c]) => self.sum([a, b, c], depth),
            (SGXT, [M::U32], [from, Arg::Imm(bits @ 0..32)]) => of(from).masked((1 << bits) - 1),
            (SHF, [M::L, M::U32], [from, Arg::Imm(n @ 0..32), Arg::Zero(_)]) => {
                of(from).shifted_left(*n as u32)
            }
            (SHF, [M::R, M::U32, M::HI], [Arg::Zero(_), Arg::Imm(n @ 0..32), from]) => {
                let Word { ones, most } = of(from);
                Word { ones: ones >> n, most: most >> n }
            }
            (LOP3, [M::LUT], [a, b, c, Arg::Imm(table), Arg::True(false)]) => {
                self.bitwise(*table, [a, b, c], depth)
            }
            (PRMT, [], [from, Arg::Imm(selector), Arg::Zero(_)]) => {
                Word::of_bits(permuted(*selector, of(from).ones))
            }
            (LD | LDG | LDL | LDS, modifiers, _) if modifiers.contains(&M::U8) => Word::of_bits(0xff),
            (LD | LDG | LDL | LDS, modifiers, _) if modifiers.contains(&M::U16) => Word::of_bits(0xffff),
            _ => Word::ANY,
        }
    }

    /// A sum with a term of which nothing is known is any word, whatever the others are.
    fn sum(&self, terms: [&Arg; 3], depth: u32) -> Word {
        let mut words = [Word::of_bits(0); 3];
        for (word, term) in words.iter_mut().zip(terms) {
            *word = self.at(term, depth);
            if *word == Word::ANY {
                return Word::ANY;
            }
        }
        Word::sum(&words)
    }

    /// More bits of an argument that may be ones are never fewer of the result: where the first arguments alone give all
    /// bits, the others are not looked at.
    fn bitwise(&self, table: i64, args: [&Arg; 3], depth: u32) -> Word {
        let mut words = args.map(|arg| (known_ones(arg), known_ones(arg)));
        for (index, arg) in args.into_iter().enumerate() {
            words[index].0 = self.at(arg, depth).ones;
            if words[index].0 == u32::MAX && table_bits(table, words) == u32::MAX {
                return Word::ANY;
            }
        }
        Word::of_bits(table_bits(table, words))
    }
}

/// The bits that may be ones in the bytes that `PRMT` selects from a word and from zero.
fn permuted(selector: i64, ones: u32) -> u32 {
    let byte = |position: u32| match selector as u32 >> (4 * position) & 15 {
        n @ 0..4 => ones >> (8 * n) & 0xff,
        4..8 => 0,
        // The sign of a byte.
        n if n - 8 < 4 && ones >> (8 * (n - 8) + 7) & 1 == 1 => 0xff,
        _ => 0,
    };
    (0..4).map(|position| byte(position) << (8 * position)).sum()
}

/// The parameters of loop headers that are multiples of a power of two: the number of trailing zeros of each.
pub fn multiples(function: &Function, cfg: &Cfg, depth: u32) -> FxHashMap<Value, u32> {
    let definitions = if cfg.headers().next().is_some() { function.definitions() } else { Vec::new() };
    let define = |value| definition(function, &definitions, value);
    let words = Words { define: &define, zeros: &|_| 0, depth };
    let mut all = FxHashMap::default();
    for header in cfg.headers() {
        for (index, &param) in function.blocks[header].params.iter().enumerate() {
            let of = |next: Value| match define(next) {
                // On a back edge the other terms of the sum are the step.
                Some(data) if data.op == Op::Machine(sass::Op::IADD3) && data.modifiers.is_empty() => {
                    let others = data.args.iter().filter(|a| **a != param.into());
                    others.map(|a| words.of(a).ones.trailing_zeros()).min().unwrap_or(32)
                }
                _ => words.of(&next.into()).ones.trailing_zeros(),
            };
            let edges = cfg.preds[header.index()].iter().flat_map(|p| function.blocks[*p].end.edges());
            let zeros = { edges }.filter(|e| e.to == header).map(|e| of(e.args[index])).min().unwrap_or(0);
            let data = function.values[param];
            if data.file == File::R && data.words == 1 && zeros > 0 {
                all.insert(param, zeros);
            }
        }
    }
    all
}

/// The bits of an argument that are known to be ones.
fn known_ones(arg: &Arg) -> u32 {
    if let Arg::Imm(n) = arg { *n as u32 } else { 0 }
}

/// The bits that a truth table of three words can give; of each word, the bits that may be ones and the known ones.
fn table_bits(table: i64, words: [(u32, u32); 3]) -> u32 {
    let gives_one = |row: &usize| table >> row & 1 != 0;
    let occurs = |row: usize| {
        let bit = |(index, (may, must)): (usize, &(u32, u32))| {
            if row >> (2 - index) & 1 != 0 { *may } else { !must }
        };
        words.iter().enumerate().map(bit).fold(u32::MAX, |all, bits| all & bits)
    };
    (0..8).filter(gives_one).map(occurs).fold(0, |any, bits| any | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_tables_agree_with_eval() {
        // Words of four bits of which some are known: every word that fits, for every table.
        let known = [(0b0000, 0b0000), (0b1010, 0b1000), (0b0111, 0b0011), (0b1111, 0b0000)];
        let fits = |(may, must): (u32, u32)| (0..16u32).filter(move |w| w & !may == 0 && w & must == must);
        for table in 0..256 {
            for words in known.iter().flat_map(|a| known.iter().map(move |b| [*a, *b, (0b0110, 0b0010)])) {
                let mut seen = 0;
                for (a, b, c) in fits(words[0])
                    .flat_map(|a| fits(words[1]).flat_map(move |b| fits(words[2]).map(move |c| (a, b, c))))
                {
                    let args = [a, b, c, table].map(ori::eval::Arg::word);
                    let all = [&args[..], &[ori::eval::Arg::predicate(false)]].concat();
                    let result = ori::eval::eval(sass::Op::LOP3, &[M::LUT], &all).map(|r| r.bits() as u32);
                    seen |= result.unwrap_or(u32::MAX);
                }
                assert_eq!(seen & 15, table_bits(table.into(), words) & 15, "table {table:#x} of {words:?}");
            }
        }
    }

    /// Words with known bits and bounds.
    const KNOWN: [Word; 6] = [
        Word { ones: 0, most: 0 },
        Word { ones: 0x40, most: 0x40 },
        Word { ones: 0x3f, most: 0x29 },
        Word { ones: 0xffff_ffc0, most: 0xffff_ffc0 },
        Word { ones: 0xffff_ff80, most: 0x9000_0000 },
        Word::ANY,
    ];

    /// Some of the numbers that a word can be, the largest among them.
    fn numbers(word: Word) -> Vec<u32> {
        let largest = (0..32).rev().fold(0, |n, bit| {
            let more = n | word.ones & 1 << bit;
            if more <= word.most { more } else { n }
        });
        let some = [0, 1, 0x15, 0x40, 0x8000_0000, 0x7fff_ff80, 0xffff_ffff].map(|n: u32| n & word.ones);
        some.into_iter().filter(|n| *n <= word.most).chain([largest]).collect()
    }

    fn holds(word: Word, number: u32) -> bool {
        number & !word.ones == 0 && number <= word.most
    }

    #[test]
    fn sums_and_shifts_agree_with_eval() {
        let eval = |op, modifiers: &[M], args: &[u32]| {
            let args: Vec<_> = args.iter().map(|n| ori::eval::Arg::word(*n)).collect();
            ori::eval::eval(op, modifiers, &args).expect("a number").bits() as u32
        };
        for (a, b) in KNOWN.iter().flat_map(|a| KNOWN.iter().map(move |b| (*a, *b))) {
            for (x, y) in numbers(a).into_iter().flat_map(|x| numbers(b).into_iter().map(move |y| (x, y))) {
                let sum = eval(sass::Op::IADD3, &[], &[x, y, 0]);
                assert!(holds(Word::sum(&[a, b, Word::of_bits(0)]), sum), "{a:?} + {b:?}: {sum:#x}");
            }
            for (x, by) in numbers(a).into_iter().flat_map(|x| [0, 1, 7, 31].map(|by| (x, by))) {
                let shifted = eval(sass::Op::SHF, &[M::L, M::U32], &[x, by, 0]);
                assert!(holds(a.shifted_left(by), shifted), "{a:?} << {by}: {shifted:#x}");
                let masked = x & ((1 << by) - 1);
                assert!(holds(a.masked((1 << by) - 1), masked), "{by} bits of {a:?}: {masked:#x}");
            }
        }
    }
}
