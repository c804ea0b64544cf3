//! Arithmetic of f32 and f64.

use super::Lower;
use super::instruction::Ins;
use ori::Arg;
use ptx::Type;
use sass::Op;

impl<'a> Lower<'_, 'a> {
    pub(super) fn float(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty().filter(|t| *t == Type::F32)?;
        ins.flag("rn");
        let mut args = Vec::new();
        for i in 1..ins.len() {
            args.push(self.word(ins.get(i)?, ty)?);
        }
        let op = match (ins.mnemonic(), &mut args[..]) {
            ("add", [_, _]) => Op::FADD,
            ("sub", [_, b]) => {
                *b = match *b {
                    Arg::Imm(bits) => Arg::Imm(bits ^ 0x8000_0000),
                    other => other.negated(),
                };
                Op::FADD
            }
            ("mul", [_, _]) => Op::FMUL,
            ("fma", [_, _, _]) => Op::FFMA,
            _ => return None,
        };
        let value = self.emit(op, &[], 1, &args);
        self.set(ins.get(0)?, value)
    }
}
