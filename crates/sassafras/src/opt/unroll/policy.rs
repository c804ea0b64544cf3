//! The unrolling policy: the only place that decides which loops are unrolled, and by how much.
//!
//! Unrolling saves the counter, test and branch of an iteration, and saves time because loads of several iterations
//! overlap. It costs instruction cache space and, for an unknown trip count, the tests before the loop.
//!
//! * **Known trip count**: the sizes follow ptxas 13.0.88, at -O2 and up, for loops of loads and sums with `body`
//!   instructions besides the counter, its test and the branch. All `n` iterations are unrolled if `n × body` is at
//!   most about 77 times the percentage that this saves (3 of `body + 3`), or 350 (body 2: 1451, 8: 262, 16: 72, 64:
//!   6). Beyond that, the factor is the largest `f` with `(f + n mod f) × body ≤ 350`, if the body has at most 72.
//! * **Unknown trip count**: four iterations at a time, if the body is short and one test shows that enough iterations
//!   are left: a counter with a constant step ([`Counter`]), as in ptxas. Short means 18 instructions; with loads from
//!   global or local memory 46, and with `n` loads from shared memory 18 + 5 `n`, where each memory access counts
//!   twice. These are ptxas's switch points in loops of 1 to 14 loads, as many FFMAs that use them, and other
//!   instructions; overlapping the latency is worth more than the code size. Loops that front ends have unrolled are
//!   unrolled again by this rule.
//! * **Unknown step, or another exit test**: grid-stride loops and similar. Launches are usually sized so that these
//!   have few iterations, and the tests before the loop cost more than they save. They are unrolled only if an
//!   iteration has fewer bytes in flight than full bandwidth needs per thread (`unroll_bytes_in_flight`), and by the
//!   factor that compensates for it.

use super::Candidate;
use super::counter::{Counter, Step};
use crate::analysis::effects::{self, Effects, Memory};
use crate::context::Tuning;
use crate::lower::expand;
use ori::{File, Function, InstData, Op};
use sass::M;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Full unrolling of so many iterations.
    Full(u32),
    /// Peeled iterations, then a loop by a factor.
    Partial { peeled: u32, factor: u32 },
    /// A factor while so many iterations are left, then the original loop.
    Runtime { factor: u32 },
}

impl Plan {
    /// The instructions that are added.
    pub fn growth(self, candidate: &Candidate) -> u32 {
        let copies = match self {
            Plan::Full(count) => count - 1,
            Plan::Partial { peeled, factor } => peeled + factor - 1,
            Plan::Runtime { factor } => 2 * factor,
        };
        copies.saturating_mul(candidate.body + candidate.slice.len() as u32)
    }
}

pub(super) fn plan(
    function: &Function,
    tuning: &Tuning,
    candidate: &Candidate,
    trip_count: Option<u32>,
) -> Option<Plan> {
    if candidate.body > tuning.unroll_partial_size {
        return None;
    }
    if is_dead(function, candidate, trip_count) {
        return Some(Plan::Full(1));
    }
    match trip_count {
        Some(count) => plan_counted(tuning, count, candidate.body),
        None => plan_runtime(function, tuning, candidate),
    }
}

/// Has the loop neither effects nor results, and does it end?
fn is_dead(function: &Function, candidate: &Candidate, trip_count: Option<u32>) -> bool {
    let insts = candidate.blocks.iter().flat_map(|b| &function.blocks[*b].insts);
    let ends = || Counter::find(function, candidate).is_some_and(|counter| counter.ends());
    candidate.outs.is_empty()
        && candidate.blocks.len() == 1
        && insts.into_iter().all(|i| effects::is_removable(&function.insts[*i]))
        && (trip_count.is_some() || ends())
}

fn plan_counted(tuning: &Tuning, count: u32, body: u32) -> Option<Plan> {
    let (overhead, max_size) = (tuning.unroll_loop_overhead, tuning.unroll_partial_size);
    let percent = 100 * overhead / (body + overhead).max(1);
    let full_size = tuning
        .unroll_full_size_per_percent
        .saturating_mul(percent)
        .clamp(max_size, tuning.unroll_full_max_size.max(max_size));
    if count.saturating_mul(body.max(1)) <= full_size {
        return Some(Plan::Full(count));
    }
    let fits = |factor: &u32| (factor + count % factor) * body <= max_size;
    let is_short = body <= tuning.unroll_partial_max_body;
    let most = (2..=max_size / body.max(1)).rev().find(fits).filter(|_| is_short)?;
    // Peeled iterations are code that runs once: a factor down to half that divides the trip count is as good.
    let factor = (most.div_ceil(2).max(2)..=most).rev().find(|f| count.is_multiple_of(*f)).unwrap_or(most);
    Some(Plan::Partial { peeled: count % factor, factor })
}

fn plan_runtime(function: &Function, tuning: &Tuning, candidate: &Candidate) -> Option<Plan> {
    let insts = || function.blocks[candidate.block].insts.iter().map(|i| &function.insts[*i]);
    let is_strong = |data: &InstData| data.results.iter().any(|r| function.awaited.contains(r));
    let is_private = insts().all(|data| effects::is_of_one_thread(data) && !is_strong(data));
    let in_registers =
        |data: &InstData| data.results.iter().all(|r| matches!(function.values[*r].file, File::R | File::P));
    if !is_private || candidate.body == 0 || !insts().all(in_registers) {
        return None;
    }
    let most = tuning.unroll_runtime_factor;
    let is_short = candidate.body <= tuning.unroll_runtime_max_body;
    let factor = match Counter::find(function, candidate).map(|counter| counter.step) {
        Some(Step::Constant(_)) if is_short || overlaps_loads(function, tuning, candidate) => most,
        Some(Step::Invariant(_)) if is_short => most.min(lacking_factor(tuning, candidate)),
        None if is_short && candidate.slice.len() <= tuning.unroll_runtime_max_test as usize => {
            most.min(lacking_factor(tuning, candidate))
        }
        _ => 0,
    };
    (factor > 1).then_some(Plan::Runtime { factor })
}

/// Is the body short for what is gained by overlapping the loads of several iterations? Memory operations count twice,
/// for the address that each takes.
fn overlaps_loads(function: &Function, tuning: &Tuning, candidate: &Candidate) -> bool {
    use sass::Op::{LD, LDG, LDL, LDS};
    let insts = || function.blocks[candidate.block].insts.iter().map(|i| &function.insts[*i]);
    let count = |is: fn(&InstData) -> bool| u32::try_from(insts().filter(|data| is(data)).count());
    let count = |is| count(is).unwrap_or(u32::MAX);
    let accesses = count(|data| Effects::of(data).memory != Memory::None);
    let shared = count(|data| data.op == Op::Machine(LDS));
    let far = count(|data| matches!(data.op, Op::Machine(LDG | LD | LDL)));
    let by_shared = shared.saturating_mul(tuning.unroll_runtime_body_per_shared_load);
    let by_far = if far > 0 { tuning.unroll_runtime_max_load_body } else { 0 };
    let limit = tuning.unroll_runtime_max_body.saturating_add(by_shared).max(by_far);
    let iterations = tuning.unroll_runtime_factor.max(1);
    shared + far > 0 && candidate.body + accesses <= limit.min(tuning.unroll_partial_size / iterations)
}

/// How many iterations it takes to have enough bytes in flight; 0 for a loop without loads.
fn lacking_factor(tuning: &Tuning, candidate: &Candidate) -> u32 {
    tuning.unroll_bytes_in_flight.checked_div(candidate.bytes).unwrap_or(0)
}

/// The size of an instruction as ptxas counts it: 64-bit sums once, and nothing for what takes no time.
pub(super) fn size(data: &InstData) -> u32 {
    use sass::Op::{IADD3, UMOV, WARPSYNC};
    let is_free = match data.op {
        Op::Machine(UMOV | WARPSYNC) | Op::Pseudo(_) => true,
        Op::Machine(IADD3) => data.modifiers.contains(&M::X),
        Op::Generic(op) => return expand::size(op, &data.modifiers),
        _ => false,
    };
    u32::from(!is_free)
}

/// The bytes that an instruction loads from global memory.
pub(super) fn loaded_bytes(data: &InstData) -> u32 {
    let is_load = matches!(data.op, Op::Machine(sass::Op::LDG | sass::Op::LD));
    let has = |m: M| data.modifiers.contains(&m);
    match is_load {
        false => 0,
        true if has(M::_128) => 16,
        true if has(M::_64) => 8,
        true => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trip_count_is_split_within_size_limits() {
        let tuning = Tuning::default();
        assert_eq!(plan_counted(&tuning, 1, 400), None, "the body is over the size limit");
        assert_eq!(plan_counted(&tuning, 16, 20), Some(Plan::Full(16)));
        assert_eq!(plan_counted(&tuning, 256, 10), Some(Plan::Partial { peeled: 0, factor: 32 }));
        assert_eq!(plan_counted(&tuning, 101, 40), Some(Plan::Partial { peeled: 1, factor: 5 }));
        assert_eq!(plan_counted(&tuning, 100, 73), None);
        assert!(matches!(plan_counted(&tuning, u32::MAX, 2), Some(Plan::Partial { .. })));
        for (count, body) in (1..1024).step_by(7).flat_map(|count| (1..90).map(move |body| (count, body))) {
            match plan_counted(&tuning, count, body) {
                Some(Plan::Full(all)) => assert!(all == count && count * body <= tuning.unroll_full_max_size),
                Some(Plan::Partial { peeled, factor }) => {
                    assert!(factor > 1 && peeled < factor && (count - peeled) % factor == 0);
                    assert!((peeled + factor) * body <= tuning.unroll_partial_size);
                }
                Some(Plan::Runtime { .. }) => panic!("{count} is known"),
                None => assert!(count * body > tuning.unroll_partial_size),
            }
        }
    }
}
