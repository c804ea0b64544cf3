//! Barriers of a block, a warp and a cluster.

use super::Lower;
use super::instruction::Ins;
use ori::Arg;
use ptx::ast::Operand;
use sass::{M, Op};

impl<'a> Lower<'_, 'a> {
    pub(super) fn barrier(&mut self, ins: &Ins<'a>) -> Option<()> {
        // A guarded barrier is not a barrier for the threads that the guard holds back.
        if !ins.flag("sync") || self.guard.is_some() || ins.len() != 1 {
            return None;
        }
        let Operand::Int { value: id @ 0..16, .. } = ins.get(0)? else { return None };
        self.effect(Op::BAR, &[M::SYNC, M::DEFER_BLOCKING], &[], &[Arg::Imm(*id as i64)]);
        self.kernel.barriers = self.kernel.barriers.max(*id as u8 + 1);
        Some(())
    }
}
