//! Static branch prediction: conditions that hardly ever hold.
//!
//! Two floats are hardly ever equal (the opcode heuristic of Ball and Larus, "Branch Prediction for Free", 1993), and one
//! is hardly ever infinite or NaN. Mathematical functions test their arguments for such values.
//!
//! ```text
//! v2 = FSETP.NEU.AND PT, v0, 0x0, PT              hardly ever false
//! v3 = FSETP.NEU.AND PT, |v0|, +INF, v2           hardly ever false
//! v4 = FSETP.GTU.AND PT, |v0|, +INF, PT           hardly ever true
//! ```
//!
//! Only the definitions in one block count. Cost: a scan of the block for each comparison, of which there are as many as
//! `MAX_DEPTH` allows.

use ori::{Arg, Block, Function, InstData, Op, Value};
use sass::{M, Op as Name};

/// How many logical operations are followed.
const MAX_DEPTH: u32 = 4;
const INFINITY: i64 = 0x7f80_0000;

/// Does the predicate hardly ever have this value at the end of the block?
pub fn is_rare(function: &Function, block: Block, predicate: &Arg, holds: bool) -> bool {
    Conditions { function, block }.is_rare(predicate, holds, MAX_DEPTH)
}

struct Conditions<'a> {
    function: &'a Function,
    block: Block,
}

impl Conditions<'_> {
    fn is_rare(&self, predicate: &Arg, holds: bool, depth: u32) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        let u = match predicate {
            Arg::True(value) => return *value != holds,
            Arg::Use(u) => u,
            _ => return false,
        };
        let Some(data) = self.definition(u.value) else { return false };
        let holds = holds != u.negated;
        let rare = |arg: &Arg, holds: bool| self.is_rare(arg, holds, depth);
        match (data.op, &data.args[..]) {
            (Op::Machine(Name::FSETP | Name::DSETP), [Arg::True(_), a, b, other]) => {
                let compared = comparison_is_rare(data, [a, b], holds);
                // Both have to be true for a conjunction, either for a disjunction; and the other way round for false.
                match data.modifiers.contains(&M::AND) == holds {
                    true => compared || rare(other, holds),
                    false => compared && rare(other, holds),
                }
            }
            (Op::Machine(Name::PLOP3), [Arg::True(_), a, b, Arg::True(true), Arg::Imm(table), _]) => {
                match (table, holds) {
                    (0xc0, true) | (0xfc, false) => rare(a, holds) || rare(b, holds),
                    (0xc0, false) | (0xfc, true) => rare(a, holds) && rare(b, holds),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// The unguarded instruction of the block that gives the predicate as its only result.
    fn definition(&self, value: Value) -> Option<&InstData> {
        let insts = self.function.blocks[self.block].insts.iter().map(|i| &self.function.insts[*i]);
        insts.rev().find(|data| data.results[..] == [value]).filter(|data| data.guard.is_none())
    }
}

/// Is it rare that a comparison of floats, by itself, is true or false?
fn comparison_is_rare(data: &InstData, operands: [&Arg; 2], is_true: bool) -> bool {
    let has = |all: &[M]| data.modifiers.iter().any(|m| all.contains(m));
    if has(&[M::XOR]) {
        return false;
    }
    let with_infinity = data.op == Op::Machine(Name::FSETP) && *operands[1] == Arg::Imm(INFINITY);
    match is_true {
        true => has(&[M::EQ, M::NAN]) || with_infinity && has(&[M::GT, M::GE, M::GTU, M::GEU, M::EQU]),
        false => has(&[M::NE, M::NEU, M::NUM]) || with_infinity && has(&[M::LT, M::LE, M::LTU, M::LEU]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether v9 is rarely false and rarely true.
    fn rare(code: &str) -> [bool; 2] {
        let text = format!(
            "function f {{\nb0:\n    v0:R = S2R %SR_TID.X\n{code}    branch v9, b1, b1\nb1:\n    exit\n}}\n"
        );
        let functions = ori::parse::parse(&text).expect("a function");
        let function = &functions[0];
        let block = function.blocks.keys().next().expect("a block");
        let ori::Terminator::Branch { predicate, .. } = function.blocks[block].end else {
            panic!("a branch")
        };
        [false, true].map(|holds| is_rare(function, block, &predicate.into(), holds))
    }

    #[test]
    fn equality_and_special_values_are_rare() {
        let cases: [(&str, [bool; 2]); 9] = [
            ("    v9:P = FSETP.EQ.AND PT, v0, 0x0, PT\n", [false, true]),
            ("    v9:P = FSETP.NEU.AND PT, v0, 0x0, PT\n", [true, false]),
            ("    v9:P = FSETP.LT.AND PT, v0, 0x0, PT\n", [false, false]),
            ("    v9:P = FSETP.GTU.AND PT, |v0|, 0x7f800000, PT\n", [false, true]),
            ("    v9:P = FSETP.LE.AND PT, |v0|, 0x7f800000, PT\n", [true, false]),
            (
                "    v1:P = FSETP.LT.AND PT, v0, 0x0, PT\n    v9:P = FSETP.EQ.AND PT, v0, 0x0, v1\n",
                [false, true],
            ),
            (
                "    v1:P = FSETP.LT.AND PT, v0, 0x0, PT\n    v9:P = FSETP.EQ.OR PT, v0, 0x0, v1\n",
                [false, false],
            ),
            (
                "    v1:P = FSETP.NEU.AND PT, v0, 0x0, PT\n    v2:P = FSETP.NEU.AND PT, |v0|, 0x7f800000, PT\n    \
                 v9:P = PLOP3.LUT PT, v1, v2, PT, 0xc0, 0x0\n",
                [true, false],
            ),
            (
                "    v1:P = FSETP.EQ.AND PT, v0, 0x0, PT\n    v2:P = FSETP.LT.AND PT, v0, 0x5, PT\n    \
                 v9:P = PLOP3.LUT PT, v1, -v2, PT, 0xfc, 0x0\n",
                [false, false],
            ),
        ];
        for (code, expected) in cases {
            assert_eq!(rare(code), expected, "{code}");
        }
    }
}
