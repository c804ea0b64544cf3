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

    // Lowering and optimization.
    /// How far back in its block the definition of a divisor is looked for, to divide by a constant.
    divisor_search_distance = 64, "instructions", "judgment: bounds the time";
    /// The longest sleep before a store with -sanitize=threadsteer.
    thread_steer_sleep = 1000, "nanoseconds", "judgment: no value of ptxas is recorded";
    /// Rewrites of one instruction by combine before it is left as it is.
    combine_rewrites = 8, "rewrites", "judgment: bounds the time";
    /// The widest value that common subexpression elimination shares; wider ones are accumulators of MMAs.
    cse_max_words = 4, "registers", "judgment: each accumulator has registers of its own, a shared one would be copied";
    /// Uses up to which a kernel parameter is a constant-bank operand; with more it has a register.
    constant_operand_uses = 2, "uses", "judgment: register pressure against operand bandwidth";
    /// How far lower bounds of floats are followed from definition to definition.
    float_bound_depth = 6, "definitions", "judgment: bounds the time of a query, which branches at every operand";
    /// The cost of both sides of a branch up to which it becomes selects, selects included.
    if_convert_max_cost = 16, "instructions", "judgment: not measured";
    /// The longest side of a branch that is looked at, with what costs nothing.
    if_convert_max_side = 64, "instructions", "judgment: four times the cost limit, as constants and packs cost nothing";
    /// How often if-conversion is repeated: each time takes the innermost of nested branches.
    if_convert_repeats = 4, "times", "judgment: bounds the time";
    /// Iterations at a time where the trip count is not known.
    unroll_runtime_factor = 4, "iterations", "ptxas 13.0.88 at -O2 and up";
    /// The longest body that is unrolled where the trip count is not known.
    unroll_runtime_max_body = 18, "instructions", "ptxas 13.0.88 at -O2 and up";
    /// The longest exit test that is computed ahead where the trip count is not known.
    unroll_runtime_max_test = 6, "instructions", "judgment: it is copied for each iteration at a time";
    /// The longest slice of the loop that computes its exit test, for unrolling.
    unroll_max_slice = 16, "instructions", "judgment: bounds the time";
    /// The size of all iterations of a partially unrolled loop.
    unroll_partial_size = 350, "instructions", "ptxas 13.0.88 at -O2 and up: (factor + count mod factor) * body is at most 350";
    /// The longest body that is partially unrolled where the trip count is known.
    unroll_partial_max_body = 72, "instructions", "ptxas 13.0.88 at -O2 and up";
    /// What counter, exit test and branch of a loop take: full unrolling saves it in each iteration.
    unroll_loop_overhead = 3, "instructions", "with it the limits of ptxas 13.0.88 are 77 for each percent saved: 3 of body + 3";
    /// The size of a fully unrolled loop for each percent of its instructions that this saves.
    unroll_full_size_per_percent = 77, "instructions", "fitted to ptxas 13.0.88: bodies of 2, 8, 16 and 64 instructions";
    /// The size of a fully unrolled loop in any case.
    unroll_full_max_size = 1200, "instructions", "judgment: ptxas 13.0.88 goes up to 1451, for bodies of 2 instructions";
    /// The highest trip count that is found by executing the exit test.
    unroll_max_trip_count = 1024, "iterations", "judgment: bounds the time";
    /// Instructions by which unrolling may grow a function.
    unroll_growth = 6000, "instructions", "judgment: bounds compile time and code size";
    /// How often unrolling is repeated: each time takes the innermost loops that are left.
    unroll_repeats = 3, "times", "judgment: bounds the time";
    /// How far the operands of a sunk instruction are followed to values that are live at its new position anyway.
    sink_depth = 8, "definitions", "judgment: bounds the time";
    /// The same for an instruction that is duplicated.
    sink_duplicate_depth = 4, "definitions", "judgment: what is duplicated should stay cheap";
    /// The widest value that is sunk; wider ones are accumulators of MMAs.
    sink_max_words = 4, "registers", "judgment: accumulators do not move";
    /// Loops of a function that sinking looks at.
    sink_max_loops = 64, "loops", "judgment: keeps the time linear in the size of the code";
    /// How many loops a divergent block counts as: warp-uniform values are not sunk into it.
    sink_divergence_depth = 65536, "loops", "more than any nest has";
    /// How many definitions up from a descriptor are moved to the uniform datapath.
    uniform_depth = 12, "definitions", "judgment: bounds the time";
    /// Uniform registers for loop-invariant and loop-carried words of a convergent loop; with more they are moved where they are read.
    uniform_loop_registers = 20, "uniform registers", "judgment: wgmmas take others in fours";
    /// Uniform registers for float operands of a convergent loop.
    uniform_factor_registers = 4, "uniform registers", "judgment: wgmmas take most of the others";
    /// The longest wait loop above which operands of wgmmas are hoisted.
    wait_loop_instructions = 4, "instructions", "judgment: not measured";
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
