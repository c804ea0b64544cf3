//! Textures.

use super::Lower;
use super::build::{PT, RZ};
use super::instruction::Ins;
use ori::Arg;
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(super) fn texture(&mut self, _ins: &Ins<'a>) -> Option<()> {
        None
    }

    /// Is an opaque handle one of this type? Its upper word has a bit for each.
    pub(super) fn istypep(&mut self, ins: &Ins<'a>) -> Option<()> {
        let ty = ins.ty()?;
        let bit = match ty.name() {
            "texref" => 0x2000_0000,
            "samplerref" => 0x4000_0000,
            "surfref" => 0x8000_0000u32 as i32 as i64,
            _ => return None,
        };
        let [_, high] = self.words(ins.get(1)?, ptx::Type::U64)?;
        let masked = self.lop3(high, Arg::Imm(bit), RZ, 0xc0);
        let value = self.emit_p(Op::ISETP, &[M::NE, M::U32, M::AND], &[PT, masked.into(), RZ, PT]);
        self.set(ins.get(0)?, value)
    }
}
