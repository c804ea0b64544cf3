//! Alignment: how many of the lowest bits of a word are zero, for any input.
//!
//! A forward dataflow problem over the whole function. Every value starts with all of its bits zero; a definition lowers
//! that to what its operands leave, a block parameter to the least of its arguments, until nothing changes. So the
//! parameter of a loop that grows by 16 from a multiple of 16 is a multiple of 16. Of values of several words it is the
//! first word that counts. Each rule is tested against `ori::eval`. Cost: linear in the function, times the rounds that
//! the words of loops take; a word can be lowered 32 times at most.

use ori::entity::Entity;
use ori::{Arg, Cfg, Function, InstData, Op, Pseudo, Use, Value};
use sass::{M, Suffixes};

/// The stack pointer is a multiple of 16: variables may want it.
const STACK_ZEROS: u8 = 4;

/// By value: the number of zero bits at the end of its first word, 32 if it is zero.
pub struct Alignment {
    zeros: Vec<u8>,
}

impl Alignment {
    pub fn new(function: &Function, cfg: &Cfg) -> Alignment {
        let mut all = Alignment { zeros: vec![32; function.values.len()] };
        while all.lower_once(function, cfg) {}
        all
    }

    /// The number of zero bits at the end of the word that an argument reads.
    pub fn zeros(&self, arg: &Arg) -> u8 {
        match arg {
            Arg::Imm(bits) => (*bits as u32).trailing_zeros() as u8,
            Arg::Zero(_) => 32,
            Arg::Stack => STACK_ZEROS,
            // The negative of a number has as many.
            Arg::Use(u @ Use { absolute: false, inverted: false, suffixes: Suffixes::NONE, .. })
                if u.part.is_none_or(|part| part.first == 0) =>
            {
                self.zeros[u.value.index()]
            }
            _ => 0,
        }
    }

    /// Visits every definition; did a word lose zeros?
    fn lower_once(&mut self, function: &Function, cfg: &Cfg) -> bool {
        let mut changed = false;
        for &block in &cfg.order {
            let data = &function.blocks[block];
            for inst in &data.insts {
                changed |= self.lower_results(&function.insts[*inst]);
            }
            for edge in data.end.edges() {
                for (param, arg) in function.blocks[edge.to].params.iter().zip(&edge.args) {
                    changed |= self.lower(*param, self.zeros[arg.index()]);
                }
            }
        }
        changed
    }

    fn lower_results(&mut self, data: &InstData) -> bool {
        let mut changed = false;
        for (index, result) in data.results.iter().enumerate() {
            let mut zeros = if index == 0 { self.of_first_result(data) } else { 0 };
            if let Some(guard) = &data.guard {
                zeros = guard.else_values.get(index).map_or(0, |v| zeros.min(self.zeros[v.index()]));
            }
            changed |= self.lower(*result, zeros);
        }
        changed
    }

    fn lower(&mut self, value: Value, to: u8) -> bool {
        let zeros = &mut self.zeros[value.index()];
        let lowers = to < *zeros;
        *zeros = to.min(*zeros);
        lowers
    }

    fn of_first_result(&self, data: &InstData) -> u8 {
        use sass::Op::{IADD3, IMAD, LEA, LOP3, MOV, SHF, VIADD};
        let of = |arg: &Arg| self.zeros(arg);
        match (data.op, &data.modifiers[..], &data.args[..]) {
            (Op::Pseudo(Pseudo::Pack | Pseudo::Copy), _, [first, ..]) => of(first),
            (Op::Machine(MOV), [], [from]) => of(from),
            (Op::Machine(IADD3), [], [a, b, c]) => of(a).min(of(b)).min(of(c)),
            (Op::Machine(VIADD), [], [a, b]) => of(a).min(of(b)),
            (Op::Machine(IMAD), [] | [M::WIDE] | [M::WIDE, M::U32], [a, b, c]) => {
                (of(a) + of(b)).min(of(c)).min(32)
            }
            (Op::Machine(LEA), [], [a, b, Arg::Imm(shift @ 0..32)]) => {
                (of(a) + *shift as u8).min(of(b)).min(32)
            }
            (Op::Machine(SHF), [M::L, M::U32], [from, Arg::Imm(shift @ 0..32), Arg::Zero(_)]) => {
                (of(from) + *shift as u8).min(32)
            }
            // a & b
            (Op::Machine(LOP3), [M::LUT], [a, b, Arg::Zero(_), Arg::Imm(0xc0), Arg::True(false)])
                if plain(a) && plain(b) =>
            {
                of(a).max(of(b))
            }
            _ => 0,
        }
    }
}

fn plain(arg: &Arg) -> bool {
    !matches!(arg, Arg::Use(u) if !u.is_plain())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alignment(text: &str) -> Vec<u8> {
        let functions = ori::parse::parse(text).expect("a function");
        Alignment::new(&functions[0], &Cfg::new(&functions[0])).zeros
    }

    #[test]
    fn words_of_loops_keep_the_zeros_of_their_steps() {
        let text = "function f {\nb0:\n    v0:R = S2R %SR_TID.X\n    v1:R = LEA v0, 0x400, 0x4\n    \
                    jump b1(v1, v1)\nb1(v2:R, v3:R):\n    v4:R = IADD3 v2, 0x8, RZ\n    v5:R = IADD3 v3, v0, RZ\n    \
                    v6:P = ISETP.LT.U32.AND PT, v4, 0x1000, PT\n    branch v6, b1(v4, v5), b2\nb2:\n    exit\n}\n";
        assert_eq!(alignment(text)[..6], [0, 4, 3, 0, 3, 0]);
    }

    /// Every number that operands can be leaves the zeros that the rule says.
    #[test]
    fn rules_agree_with_eval() {
        let cases: [(&str, sass::Op, &[M]); 6] = [
            ("IADD3 v0, v1, v2", sass::Op::IADD3, &[]),
            ("IADD3 -v0, v1, v2", sass::Op::IADD3, &[]),
            ("IMAD v0, v1, v2", sass::Op::IMAD, &[]),
            ("LEA v0, v1, 0x3", sass::Op::LEA, &[]),
            ("SHF.L.U32 v0, 0x5, RZ", sass::Op::SHF, &[M::L, M::U32]),
            ("LOP3.LUT v0, v1, RZ, 0xc0, !PT", sass::Op::LOP3, &[M::LUT]),
        ];
        for (code, op, modifiers) in cases {
            for zeros in (0..64).map(|n| [n % 4, n / 4 % 4, n / 16]) {
                let word = |i: usize| 0x9e37_79b9_u32.wrapping_mul(2 * i as u32 + 3) << zeros[i];
                let loads: String =
                    (0..3).map(|i| format!("    v{i}:R = MOV {:#x}\n", word(i) | 1 << zeros[i])).collect();
                let text = format!("function f {{\nb0:\n{loads}    v3:R = {code}\n    exit\n}}\n");
                let functions = ori::parse::parse(&text).expect("a function");
                let last = functions[0].insts.keys().last().expect("an instruction");
                let data = &functions[0].insts[last];
                let arg = |arg: &Arg| match arg {
                    Arg::Imm(n) => ori::eval::Arg::word(*n as u32),
                    Arg::Zero(_) => ori::eval::Arg::word(0),
                    Arg::True(sense) => ori::eval::Arg::predicate(*sense),
                    Arg::Use(u) => {
                        let word = word(u.value.index()) | 1 << zeros[u.value.index()];
                        let word = ori::eval::Arg::word(word);
                        if u.negated { word.neg() } else { word }
                    }
                    other => panic!("{other:?}"),
                };
                let args: Vec<_> = data.args.iter().map(arg).collect();
                let result = ori::eval::eval(op, modifiers, &args).expect("a number").bits() as u32;
                assert!(result.trailing_zeros() >= u32::from(alignment(&text)[3]), "{text}: {result:#x}");
            }
        }
    }
}
