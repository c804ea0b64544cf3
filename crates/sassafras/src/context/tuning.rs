//! Tuning: the numbers of heuristics, in one struct.
//!
//! A field here is a judgment: another value gives right code that is faster or slower, or takes longer to compile. Facts
//! of the machine are in [`targets::Target`]; bounds that a data structure imposes stay beside it. `--tune NAME=VALUE`
//! changes a field, `--help-tune` lists all.
//!
//! A new one is a line of the table below: meaning, name, default, unit, and where the value comes from.

/// Says what a field of [`Tuning`] is.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    pub name: &'static str,
    pub default: u32,
    pub unit: &'static str,
    pub meaning: &'static str,
    /// Where the value comes from.
    pub origin: &'static str,
}

macro_rules! tuning {
    ($(#[doc = $meaning:literal] $name:ident = $default:literal, $unit:literal, $origin:literal;)*) => {
        /// The numbers of all heuristics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Tuning {
            $(#[doc = $meaning] pub $name: u32,)*
        }

        impl Default for Tuning {
            fn default() -> Tuning {
                Tuning { $($name: $default,)* }
            }
        }

        impl Tuning {
            /// Every field, in order.
            pub const KNOBS: &'static [Knob] = &[$(Knob {
                name: stringify!($name),
                default: $default,
                unit: $unit,
                meaning: $meaning.trim_ascii(),
                origin: $origin,
            },)*];

            /// Sets a field by its name; `false` if there is none.
            pub fn set(&mut self, name: &str, value: u32) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

tuning! {
    /// How far the known-bits analysis follows a word from definition to definition.
    known_bits_depth = 8, "definitions", "judgment: bounds the time of a query, which branches at every operand";
    /// How many conjunctions are followed to see that only one thread of a warp executes a waterfall loop.
    waterfall_conjunctions = 8, "conjunctions", "judgment: bounds the time";
    /// How far down a comparison is moved to be merged with another one: its operands are live as much longer.
    predicate_merge_distance = 48, "instructions", "judgment: saved instructions against register pressure";
    /// The block size that occupancy is computed for where a kernel has no launch bounds.
    usual_block_threads = 128, "threads", "judgment: a size that kernels often have";
    /// How many instructions the prepass scheduler looks at together.
    sched_window = 1024, "instructions", "judgment: bounds the time, which is quadratic in a window at worst";
    /// Pressure in R that any schedule may have; more only where the original order has it.
    sched_register_budget = 56, "registers", "judgment: with the reserve and those of the system 64 registers, at which half of an SM's threads are resident";
    /// Pressure in P that any schedule may have; more only where the original order has it.
    sched_predicate_budget = 4, "registers", "judgment: leaves some of the seven for the allocator";
    /// Pressure in UR that any schedule may have; more only where the original order has it.
    sched_uniform_budget = 24, "registers", "judgment: leaves some for tuples";
    /// Pressure in P that no schedule may exceed.
    sched_predicate_limit = 6, "registers", "judgment: there are seven, and the reload of a spilled predicate takes long";
    /// Pressure in UR that no schedule may exceed.
    sched_uniform_limit = 32, "registers", "judgment: there are twice as many, but wgmma takes them in tuples of four";
    /// Registers of a limit that the schedule leaves free, for tuples and moves.
    sched_register_reserve = 6, "registers", "judgment: tuples are contiguous and aligned";
    /// Registers of a register goal that stay free, beside those of the system.
    sched_goal_margin = 2, "registers", "judgment: for moves";
    /// Registers of a register goal that the schedule leaves free for tuples: if these find none, the function is allocated without a goal.
    sched_goal_fragmentation = 2, "registers", "judgment: tuples are contiguous and aligned";
    /// How much pressure beyond the original order is accepted where it costs no occupancy.
    sched_occupancy_slack = 16, "registers", "judgment: overlaps a few more loads";
    /// Registers below the next lower occupancy that stay free.
    sched_occupancy_margin = 16, "registers", "judgment: fragmentation must not cost occupancy";
    /// How many candidates are tried for the next instruction where there is a register goal.
    sched_candidates = 16, "instructions", "judgment: bounds the time";
    /// The expected latency of global, local and texture memory.
    sched_memory_latency = 300, "cycles", "judgment: of the order of a hit in L2";
    /// The expected latency of shared memory.
    sched_shared_latency = 30, "cycles", "judgment: about that of a load without bank conflicts";
    /// The expected latency of special registers, barrier results and late uniform results.
    sched_special_latency = 40, "cycles", "judgment";
    /// The expected latency of the FP64 unit where it varies.
    sched_fp64_latency = 48, "cycles", "judgment";
    /// The expected latency of a wgmma.
    sched_wgmma_latency = 64, "cycles", "judgment: that of a small one";
    /// The expected latency of other units whose latency varies.
    sched_other_latency = 24, "cycles", "judgment";
    /// Cycles from a comparison to the branch that it decides.
    sched_branch_latency = 13, "cycles", "least distance to a guard in ptxas's code, sm_80 and up (crates/sass/src/model/distances.rs)";
    /// Attempts of the allocator that spill only the values of P, UP, UR and B that found no register; then all of their file.
    regalloc_targeted_attempts = 6, "attempts", "judgment: bounds the time";
    /// The next-use distance that leaving a loop adds: more than any block is long, so that uses in the loop are nearer.
    regalloc_loop_exit_distance = 100000, "instructions", "judgment; the rule is that of Braun & Hack, CC 2009";
    /// The cost of an eviction, in moves of a word, however far the next use is.
    regalloc_evict_cost = 100, "moves", "judgment: a value moves before another one is evicted";
    /// The cost of a word that is stored now and reloaded by the next instruction; divided by the distance to the next use.
    regalloc_spill_cost = 1073741824, "moves", "judgment: greater than the longest distance, so that the order of distances decides";
    /// The same for a word that has been stored before.
    regalloc_reload_cost = 805306368, "moves", "judgment: three quarters of a store and a reload";
    /// The same for a word that is rematerialized.
    regalloc_remat_cost = 1048576, "moves", "judgment: a thousandth of a store and a reload";
    /// Registers that the allocator leaves free in a loop that needs them all.
    regalloc_loop_reserve = 4, "registers", "judgment: tuples are contiguous and aligned";
    /// The first register that is tried for operands of wgmma; those below are for addresses and the like.
    regalloc_wgmma_first_register = 24, "register number", "ptxas begins at R24, too";
    /// How long a thread sleeps before it asks for columns of tensor memory again.
    tcgen05_alloc_backoff = 100, "nanoseconds", "judgment";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_can_be_set() {
        for knob in Tuning::KNOBS {
            let mut tuning = Tuning::default();
            assert!(tuning.set(knob.name, knob.default) && tuning == Tuning::default(), "{}", knob.name);
            assert!(tuning.set(knob.name, knob.default + 1) && tuning != Tuning::default(), "{}", knob.name);
            assert!(!knob.meaning.is_empty() && !knob.unit.is_empty() && !knob.origin.is_empty());
        }
        assert!(!Tuning::default().set("no_such_knob", 1));
    }
}
