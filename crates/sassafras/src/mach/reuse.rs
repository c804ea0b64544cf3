//! Operand reuse: the `.reuse` flags, by which the next reader takes an operand from the operand cache.
//!
//! ```text
//! FFMA R4, R5, R6, R7        FFMA R4, R5.reuse, R6, R7
//! IADD3 R8, R5, R9, R10  =>  IADD3 R8, R5, R9, R10
//! ```
//!
//! A yield empties the cache. Between matrix products that share a factor the yields of short stalls are therefore
//! dropped: ptxas has none there, and without them each product reads five registers of a bank where three would do.
//!
//! ```text
//! Y:05 HMMA R4, R20, R24, R4         -:05 HMMA R4, R20.reuse, R24, R4
//! Y:06 HMMA R8, R20, R26, R8     =>  Y:06 HMMA R8, R20, R26, R8
//! ```
//!
//! Afterwards every operand that may be kept is, by the rule in [`sass::model::cache`], within straight-line code. One
//! forward walk for the yields, and one backward, like next-use analysis: what is read next through each cache slot is
//! known before the instruction that might keep it.

use crate::context::{Context, Fuel, PassResult};
use crate::mach::inst::{Step, Timed};
use crate::mach::unit::{LinearCode, Unit};
use sass::model::cache::{self, Cached, SLOTS};
use sass::model::issue::LONGEST_WITHOUT_YIELD;
use sass::{Control, Kind, Model, Role};
use smallvec::SmallVec;

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    let LinearCode { steps, timed, .. } = &mut unit.linear;
    drop_yields(steps, timed, Model::of(context.machine.isa), &mut context.fuel);
    set_flags(steps, timed, Model::of(context.machine.isa), &mut context.fuel);
    Ok(())
}

/// Drops the yields of short stalls from each matrix product to the next that reads a factor of it through the same slot.
fn drop_yields(steps: &[Step], timed: &mut [Timed], model: &Model, fuel: &mut Fuel) {
    // The last product of the straight-line code.
    let mut last: Option<usize> = None;
    for (i, step) in steps.iter().enumerate() {
        let is_boundary = step.is_leader || i > 0 && !timed[i - 1].nops.is_empty();
        last = last.filter(|_| !is_boundary);
        if model.unit(&step.inst).is_matrix() {
            if let Some(before) = last
                && share_factor(&steps[before].inst, &step.inst, model)
                && fuel.burn()
            {
                let short = |t: &&mut Timed| t.control.stall <= LONGEST_WITHOUT_YIELD;
                timed[before..i].iter_mut().filter(short).for_each(|t| t.control.yields = false);
            }
            last = Some(i);
        } else if cache::empties(step.inst.op(), Control::default()) {
            last = None;
        }
    }
}

fn share_factor(first: &sass::Inst, second: &sass::Inst, model: &Model) -> bool {
    let finds = |kept: sass::model::cache::Cached| model.cached(second).any(|read| read.finds(&kept));
    model.cached(first).any(finds)
}

fn set_flags(steps: &[Step], timed: &mut [Timed], model: &Model, fuel: &mut Fuel) {
    let mut ahead = Ahead::default();
    // Nothing is known of the code after the last one.
    let mut is_boundary = true;
    for (step, timed) in steps.iter().zip(timed).rev() {
        let inst = &step.inst;
        if is_boundary || cache::empties(inst.op(), timed.control) {
            ahead = Ahead::default();
        }
        model.for_each_touch(inst, model.unit(inst), |touch| {
            if touch.role == Role::Def && touch.file == Kind::R {
                ahead.forget(touch.registers());
            }
        });
        let reads: SmallVec<[Cached; 4]> = model.cached(inst).collect();
        let reuse = ahead.reusable(&reads);
        timed.control.reuse = if reuse != 0 && fuel.burn() { reuse } else { 0 };
        for read in reads {
            ahead.next[read.slot] = Some(Next { read, neighbour_changes: false });
        }
        is_boundary = step.is_leader || !timed.nops.is_empty();
    }
}

/// What is read next through each cache slot, as long as the registers keep their values until then.
struct Ahead {
    next: [Option<Next>; SLOTS],
}

#[derive(Clone, Copy)]
struct Next {
    read: Cached,
    /// The other word of the pair is written before.
    neighbour_changes: bool,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead { next: [None; SLOTS] }
    }
}

impl Ahead {
    fn forget(&mut self, written: std::ops::Range<usize>) {
        let overlaps = |start: usize, end: usize| start < written.end && written.start < end;
        for next in &mut self.next {
            let Some(Next { read, neighbour_changes }) = next else { continue };
            let (start, end) = (read.registers().start, read.registers().end);
            *neighbour_changes |= overlaps(start & !1, end.next_multiple_of(2));
            if overlaps(start, end) {
                *next = None;
            }
        }
    }

    /// The lanes of an instruction with these reads whose registers are all read next from the cache. Of a pair, both words must stay
    /// until each of them is read.
    fn reusable(&self, reads: &[Cached]) -> u8 {
        let (mut found, mut missed) = (0, 0);
        for read in reads {
            let is_pair = read.registers().len() > 1;
            let lasts = |next: Next| next.read.finds(read) && !(is_pair && next.neighbour_changes);
            match self.next[read.slot].is_some_and(lasts) {
                true => found |= 1 << read.lane,
                false => missed |= 1 << read.lane,
            }
        }
        found & !missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sass::{Isa, parse};

    /// The flags of each instruction, bit 0 for the first lane.
    fn flags(text: &[&str]) -> Vec<u8> {
        let parsed = |line: &&str| {
            let inst = parse(Isa::Sm90, line).unwrap_or_else(|e| panic!("{line}: {e:?}"));
            let timed = Timed { control: inst.control, nops: Default::default() };
            (Step { inst, targets: Default::default(), is_leader: false }, timed)
        };
        let (steps, mut timed): (Vec<Step>, Vec<Timed>) = text.iter().map(parsed).unzip();
        let (model, mut fuel) = (Model::of(Isa::Sm90), Fuel::new(None));
        drop_yields(&steps, &mut timed, model, &mut fuel);
        set_flags(&steps, &mut timed, model, &mut fuel);
        timed.iter().map(|t| t.control.reuse).collect()
    }

    const FIRST: &str = "--:-:-:-:02 FFMA R4, R5, R6, R7";

    #[test]
    fn next_reader_of_the_slot_reuses() {
        assert_eq!(flags(&[FIRST, "--:-:-:-:02 IADD3 R8, R5, R9, R10"]), [1, 0]);
        assert_eq!(flags(&[FIRST, "--:-:-:Y:04 FFMA R5, R5, R6, R7"]), [7, 0]);
        assert_eq!(flags(&[FIRST, FIRST, FIRST]), [7, 7, 0]);
        // Another lane (the second source of FADD is in the third), another group of units, another register of the bank
        // in between, and of the other bank.
        assert_eq!(flags(&[FIRST, "--:-:-:-:02 FADD R8, R9, R5"]), [0, 0]);
        assert_eq!(flags(&[FIRST, "--:-:-:-:02 HADD2 R8, R5, R9"]), [0, 0]);
        assert_eq!(flags(&[FIRST, "--:-:-:-:02 FADD R8, R7, R9", "--:-:-:-:02 FADD R8, R5, R9"]), [0, 4, 0]);
        assert_eq!(flags(&[FIRST, "--:-:-:-:02 FADD R8, R2, R9", "--:-:-:-:02 FADD R8, R5, R9"]), [1, 4, 0]);
    }

    #[test]
    fn written_or_evicted_operands_are_not_reused() {
        let reader = "--:-:-:-:02 IADD3 R8, R5, R9, R10";
        assert_eq!(flags(&["--:-:-:-:02 FFMA R5, R5, R6, R7", reader]), [0, 0]);
        assert_eq!(flags(&[FIRST, "--:-:-:-:02 MOV R5, 0x1", reader]), [0, 0, 0]);
        assert_eq!(flags(&[FIRST, "--:-:-:-:02 @P0 MOV R5, 0x1", reader]), [0, 0, 0]);
        assert_eq!(flags(&[FIRST, "--:-:-:-:02 MOV R20, 0x1", reader]), [1, 0, 0]);
        assert_eq!(flags(&[FIRST, "--:-:-:Y:02 MOV R20, 0x1", reader]), [0, 0, 0]);
        assert_eq!(flags(&["--:-:-:Y:02 FFMA R4, R5, R6, R7", reader]), [0, 0]);
        assert_eq!(flags(&[FIRST, "--:-:-:-:05 @P0 BRA 0x0", reader]), [0, 0, 0]);
    }

    #[test]
    fn products_that_share_a_factor_keep_it_over_short_stalls() {
        let tf32 = "--:-:-:Y:05 HMMA.1688.F32.TF32 R4, R20, R24, R4";
        let same_first = "--:-:-:Y:05 HMMA.1688.F32.TF32 R8, R20, R26, R8";
        let same_second = "--:-:-:Y:05 HMMA.1688.F32.TF32 R12, R28, R26, R12";
        assert_eq!(flags(&[tf32, same_first, same_second]), [1, 2, 0]);
        let between = "--:-:-:Y:03 IADD3 R40, R41, R42, RZ";
        assert_eq!(flags(&[tf32, between, same_first]), [1, 0, 0]);
        // A long stall yields, and a factor that changes isn't kept.
        assert_eq!(flags(&[tf32, "--:-:-:Y:12 IADD3 R40, R41, R42, RZ", same_first]), [0, 0, 0]);
        assert_eq!(flags(&[tf32, "--:-:-:-:02 MOV R20, 0x1", same_first]), [0, 0, 0]);
        assert_eq!(flags(&[tf32, "--:-:-:-:05 @P0 BRA 0x0", same_first]), [0, 0, 0]);
        let half = "--:-:-:Y:04 HMMA.1688.F32 R4, R20, R24, R4";
        assert_eq!(flags(&[half, "--:-:-:Y:04 HMMA.1688.F32 R8, R20, R25, R8"]), [1, 0]);
        // Of sparse products the first factor alone.
        let sparse = "--:-:-:Y:06 HMMA.SP.16816.F32 R4, R20, R24, R4, R42, 0x0, 0x1";
        assert_eq!(flags(&[sparse, "--:-:-:Y:06 HMMA.SP.16816.F32 R8, R20, R24, R8, R42, 0x0"]), [1, 0]);
    }

    #[test]
    fn both_words_of_a_pair_must_be_reused() {
        let first = "--:-:-:-:02 IMAD.WIDE R2, R11, R4, R6";
        assert_eq!(flags(&[first, "--:-:-:-:02 IMAD.WIDE R8, R13, R4, R6"]), [6, 0]);
        assert_eq!(flags(&[first, "--:-:-:-:02 FFMA R8, R13, R10, R6"]), [0, 0]);
        assert_eq!(flags(&["--:-:-:-:02 FFMA R8, R13, R14, R7", first]), [4, 0]);
        // One word is read again, and written before the other is.
        let (low, high) = ("--:-:-:-:02 FFMA R8, R13, R10, R6", "--:-:-:-:02 FFMA R8, R13, R10, R7");
        assert_eq!(flags(&[first, low, high])[0], 4);
        assert_eq!(flags(&[first, low, "--:-:-:-:02 MOV R6, 0x1", high])[0], 0);
    }
}
