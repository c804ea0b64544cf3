//! `-sanitize=threadsteer`: what other threads can see happens at another time in each run, so that a race shows.
//!
//! A sleep of random length stands before every store but those to local memory, and before every atomic operation.
//! How many sleeps an instruction has is what ptxas 13.0 writes before it; each instruction that touches memory was
//! asked for, on sm_75, sm_80, sm_90, sm_100a and sm_120a. What another unit does later (bulk copies, `st.async`,
//! surfaces) has none, nor has `stmatrix`.

use crate::lower::Lower;
use crate::lower::instruction::Ins;
use ori::Arg;

impl<'a> Lower<'_, 'a> {
    /// Before an instruction. `wmma.store` stores several times, and asks for each ([`Lower::steer_store`]).
    pub(crate) fn steer(&mut self, ins: &Ins<'a>) {
        let sleeps = match ins.mnemonic() {
            "st" if ["local", "param", "param::func"].iter().any(|space| ins.has_word(space)) => 0,
            "st" | "atom" | "red" | "multimem.st" | "multimem.red" | "tensormap.replace" => 1,
            "cp.async" => 2,
            _ => 0,
        };
        (0..sleeps).for_each(|_| self.steer_store());
    }

    /// Nothing unless threads are steered.
    pub(crate) fn steer_store(&mut self) {
        if self.steered {
            self.nanosleep(true, Arg::Imm(self.tuning.thread_steer_sleep.into()));
        }
    }
}
