//! `-sanitize=threadsteer`: random delays before side effects that other threads can see, so that races show.
//!
//! A random sleep precedes every store but those to local memory, and every atomic operation. The number of sleeps of
//! an instruction is what ptxas 13.0 writes before it; each instruction that accesses memory was probed, on sm_75,
//! sm_80, sm_90, sm_100a and sm_120a. Asynchronous operations of other units (bulk copies, `st.async`, surfaces) have
//! none, nor has `stmatrix`.

use crate::lower::Lower;
use crate::lower::instruction::Ins;
use ori::Arg;

impl<'a> Lower<'_, 'a> {
    /// The sleeps before an instruction. `wmma.store` is several stores with one each ([`Lower::steer_store`]).
    pub(crate) fn steer(&mut self, ins: &Ins<'a>) {
        let sleeps = match ins.mnemonic() {
            "st" if ["local", "param", "param::func"].iter().any(|space| ins.has_word(space)) => 0,
            "st" | "atom" | "red" | "multimem.st" | "multimem.red" | "tensormap.replace" => 1,
            "cp.async" => 2,
            _ => 0,
        };
        (0..sleeps).for_each(|_| self.steer_store());
    }

    /// One sleep, if the option is on.
    pub(crate) fn steer_store(&mut self) {
        if self.steered {
            self.nanosleep(true, Arg::Imm(self.tuning.thread_steer_sleep.into()));
        }
    }
}
