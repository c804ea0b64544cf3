//! Which bits of a word can be ones, whatever the program is given.
//!
//! Front ends write `base | 8` for `base + 8` where they know that `base` is a multiple of 16; here that is found out
//! again.

use ori::entity::Entity;
use ori::{Arg, Block, Function, Inst, InstData, Op, Value};
use sass::M;

/// How many definitions are followed from a word.
const DEPTH: u32 = 8;

/// Where each value is defined.
pub type Definitions = [Option<(Block, Inst)>];

/// The instruction that defines a value wherever it is used: nothing guards it.
pub fn definition<'a>(
    function: &'a Function,
    definitions: &Definitions,
    value: Value,
) -> Option<&'a InstData> {
    let (_, inst) = (*definitions.get(value.index())?)?;
    Some(&function.insts[inst]).filter(|data| data.guard.is_none())
}

/// A mask of the bits of an argument that may be ones.
pub fn possible(function: &Function, definitions: &Definitions, arg: &Arg) -> u32 {
    Bits { function, definitions }.of(arg, DEPTH)
}

struct Bits<'a> {
    function: &'a Function,
    definitions: &'a Definitions,
}

impl Bits<'_> {
    fn of(&self, arg: &Arg, depth: u32) -> u32 {
        match arg {
            Arg::Imm(n) => *n as u32,
            Arg::Zero(_) => 0,
            Arg::Use(u) if u.is_plain() && u.part.is_none() && depth > 0 => {
                let data = definition(self.function, self.definitions, u.value);
                data.filter(|d| d.results.len() == 1).map_or(u32::MAX, |d| self.result(d, depth - 1))
            }
            _ => u32::MAX,
        }
    }

    fn result(&self, data: &InstData, depth: u32) -> u32 {
        use sass::Op::{LOP3, MOV, SHF};
        let Op::Machine(op) = data.op else { return u32::MAX };
        match (op, &data.modifiers[..], &data.args[..]) {
            (MOV, [], [from]) => self.of(from, depth),
            (SHF, [M::L, M::U32], [from, Arg::Imm(n @ 0..32), Arg::Zero(_)]) => self.of(from, depth) << n,
            (SHF, [M::R, M::U32, M::HI], [Arg::Zero(_), Arg::Imm(n @ 0..32), from]) => {
                self.of(from, depth) >> n
            }
            (LOP3, [M::LUT], [a, b, c, Arg::Imm(table), Arg::True(false)]) => {
                looked_up(*table, [a, b, c].map(|arg| (self.of(arg, depth), surely(arg))))
            }
            _ => u32::MAX,
        }
    }
}

/// The bits of an argument that are ones for sure.
fn surely(arg: &Arg) -> u32 {
    if let Arg::Imm(n) = arg { *n as u32 } else { 0 }
}

/// The bits that a table of three words can give, each with the bits that can be ones and those that are.
fn looked_up(table: i64, words: [(u32, u32); 3]) -> u32 {
    let gives_one = |row: &usize| table >> row & 1 != 0;
    let occurs = |row: usize| {
        let bit = |(place, (may, must)): (usize, &(u32, u32))| {
            if row >> (2 - place) & 1 != 0 { *may } else { !must }
        };
        words.iter().enumerate().map(bit).fold(u32::MAX, |all, bits| all & bits)
    };
    (0..8).filter(gives_one).map(occurs).fold(0, |any, bits| any | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_give_the_bits_that_eval_gives() {
        // Words of four bits of which some are known: every word that fits is tried, for every table.
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
                assert_eq!(seen & 15, looked_up(table.into(), words) & 15, "table {table:#x} of {words:?}");
            }
        }
    }
}
