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
    /// The name of the field.
    pub name: &'static str,
    /// Its default.
    pub default: u32,
    /// Its unit.
    pub unit: &'static str,
    /// What it changes.
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

impl Tuning {
    /// How often what is in so many loops runs.
    pub fn loop_weight(&self, depth: u32) -> u64 {
        u64::from(self.loop_iterations).saturating_pow(depth.min(self.loop_depth))
    }
}

tuning! {
    /// How far the known-bits analysis follows a word from definition to definition.
    known_bits_depth = 8, "definitions", "judgment: bounds the time of a query, which branches at every operand";
    /// How many conjunctions are followed to see that only one thread of a warp executes a waterfall loop.
    waterfall_conjunctions = 8, "conjunctions", "judgment: bounds the time";
    /// How far down a comparison is moved to be merged with another one: its operands are live as much longer.
    predicate_merge_distance = 48, "instructions", "judgment: saved instructions against register pressure";
    /// How long a block keeps the ALU pipe busy before sums and moves leave it that don't come right after each other.
    alu_share = 75, "% of the cycles of issue", "the model of `profile`, 122 launches of tests/bench: 50 and 75 are alike, at 100 kernels that other warps keep from the pipe are missed";
    /// The most words of constant bank 0 that a kernel holds in uniform registers.
    uniform_constants = 24, "registers", "judgment: of 63, the rest is for descriptors and loops";
    /// The most words of uniform webs that live from block to block.
    uniform_web_across = 20, "registers", "judgment: of 63, the rest is for constants, descriptors and what lives within a block";
    /// The most words of uniform webs that live at once.
    uniform_web_registers = 26, "registers", "judgment: constants leave 32, and the scheduler lets some more live at once";
    /// Collections of neighbouring memory accesses that are open at once in a block.
    vectorize_open = 16, "bases", "judgment: bounds the time; code rarely walks more arrays at once";
    /// Memory accesses in one collection.
    vectorize_members = 64, "accesses", "judgment: bounds the time";
    /// Words of memory whose contents are followed at once.
    load_elim_words = 64, "accesses", "judgment: bounds the time, which is linear in it";
    /// How far behind the first load of a word another one reads its value: it is live so much longer.
    load_elim_distance = 256, "instructions", "judgment: a load from the cache against a register";
    /// The block size that occupancy is computed for where a kernel has no launch bounds.
    usual_block_threads = 128, "threads", "judgment: a size that kernels often have";
    /// A function of an executable that writes more saves those of the ABI for its callers.
    preserve_none_registers = 64, "registers", "judgment: with as many, half of the warps can run, and registers of callers are added to them";

    // Lowering and optimization.
    /// How far back in its block the definition of a divisor is looked for, to divide by a constant.
    divisor_search_distance = 64, "instructions", "judgment: bounds the time; front ends set a register right before its use";
    /// The longest sleep before a store with -sanitize=threadsteer.
    thread_steer_sleep = 1000, "nanoseconds", "as ptxas 13.0 has it";
    /// Rewrites of one instruction by combine before it is left as it is.
    combine_rewrites = 8, "rewrites", "judgment: bounds the time; rules rarely apply more than three times in a row";
    /// How many of the branches that decided a condition are looked at for one that dominates a block, the latest first.
    combine_conditions = 32, "branches", "judgment: a flag that is tested everywhere must not cost the square of the tests";
    /// How many functions of a selected constant a comparison looks through.
    combine_select_depth = 2, "definitions", "judgment: bounds the time";
    /// How far the definitions of an address are followed to a constant that its offset can have.
    combine_offset_depth = 4, "definitions", "judgment: bounds the time; an index of two dimensions takes three";
    /// How deep a tree of operations on halves is that become operations on packed halves.
    combine_half_depth = 4, "definitions", "judgment: bounds the time";
    /// The widest value that common subexpression elimination shares; wider ones are accumulators of MMAs.
    cse_max_words = 4, "registers", "judgment: each accumulator has registers of its own, a shared one would be copied";
    /// Uses up to which a kernel parameter is a constant-bank operand; with more it has a register.
    constant_operand_uses = 2, "uses", "judgment: register pressure against operand bandwidth";
    /// How far lower bounds of floats are followed from definition to definition.
    float_bound_depth = 6, "definitions", "judgment: bounds the time of a query, which branches at every operand";
    /// The cost of both sides of a branch up to which it becomes selects, selects included.
    if_convert_max_cost = 16, "instructions", "judgment: not measured";
    /// The cost of an operation of the units for conversions and functions, or in double precision.
    if_convert_slow_cost = 4, "instructions", "H200: 8 cycles of the first unit against 2 of the ALU; doubles take 2 to 64, by target";
    /// The same for a side that is hardly ever taken: what the branch itself takes.
    if_convert_max_rare_side = 4, "instructions", "ptxas 13.0.88 keeps the branch around the special values of powf (12)";
    /// The longest side of a branch with stores or loads of shared memory that becomes guarded instructions.
    if_convert_max_guarded_side = 8, "instructions", "ptxas 13.0.88 for divergent branches";
    /// The same with loads of global and local memory.
    if_convert_max_load_side = 20, "instructions", "ptxas 13.0.88";
    /// The longest side of a branch that is looked at, with what costs nothing.
    if_convert_max_side = 64, "instructions", "judgment: four times the cost limit; the rest may be constants and packs";
    /// The longest second condition of a short-circuit `&&` or `||` that is computed in any case.
    if_convert_max_condition = 4, "instructions", "judgment: what a branch takes; ptxas 13.0.88 merges pure conditions";
    /// How often if-conversion is repeated: each time takes the innermost of nested branches.
    if_convert_repeats = 4, "times", "judgment: bounds the time; deeper nests exceed the cost limit";
    /// The fewest tests of one value that a switch is made of.
    switch_min_tests = 3, "tests", "judgment: about 25 cycles each, against 70 for a minimum, a shift, LDC of an index and BRX";
    /// Entries of a jump table for each that is a case.
    switch_entries_per_case = 8, "entries", "ptxas 13.0.88: cases 8 apart have a table, cases 10 apart have not";
    /// The longest jump table that tests are replaced by.
    switch_max_entries = 4096, "entries", "judgment: a quarter of a constant bank";
    /// The fewest targets of a jump table, neighbours with one target as one; fewer are a tree of comparisons.
    switch_min_table = 4, "targets", "judgment: three comparisons and branches are six instructions, a table takes four";
    /// Intervals of values that are looked at for each block of a function, to find switches.
    switch_work = 256, "intervals", "judgment: bounds the time, which is quadratic in the length of a chain of tests";
    /// Instructions that threads run before they wait for each other, in place of a convergence barrier of their own.
    convergence_max_tail = 2, "instructions", "judgment: the barrier takes two, BSSY and BSYNC";
    /// Iterations at a time where the trip count is not known.
    unroll_runtime_factor = 4, "iterations", "ptxas 13.0.88 at -O2 and up";
    /// The longest body that is unrolled where the trip count is not known.
    unroll_runtime_max_body = 18, "instructions", "ptxas 13.0.88 at -O2 and up";
    /// The same of a body with loads of global or local memory, whose latencies overlap; memory operations count twice.
    unroll_runtime_max_load_body = 46, "instructions", "ptxas 13.0.88: loops of 1 to 14 loads, sums and products";
    /// By how much the limit is higher for each load of shared memory, whose latencies overlap.
    unroll_runtime_body_per_shared_load = 5, "instructions", "ptxas 13.0.88: loops of 1 to 12 loads, sums and products";
    /// The longest exit test that is computed ahead where the trip count is not known.
    unroll_runtime_max_test = 3, "instructions", "judgment: it is copied for each iteration at a time";
    /// Bytes of loads that a thread has in flight for full bandwidth: with fewer in an iteration, loops with an unknown step are unrolled.
    unroll_bytes_in_flight = 16, "bytes", "judgment: 32 KiB of an SM, the latency times the bandwidth of an H200, over 2048 threads";
    /// The longest slice of the loop that computes its exit test, for unrolling.
    unroll_max_slice = 16, "instructions", "judgment: bounds the time";
    /// The size of all iterations of a partially unrolled loop.
    unroll_partial_size = 350, "instructions", "ptxas 13.0.88: between 300 and 350 for bodies of 2 to 72 instructions";
    /// The longest body that is partially unrolled where the trip count is known.
    unroll_partial_max_body = 72, "instructions", "ptxas 13.0.88 at -O2 and up";
    /// What counter, exit test and branch of a loop take: full unrolling saves it in each iteration.
    unroll_loop_overhead = 3, "instructions", "counted in loops of ptxas 13.0.88";
    /// The size of a fully unrolled loop for each percent of its instructions that this saves.
    unroll_full_size_per_percent = 77, "instructions", "fitted to ptxas 13.0.88: bodies of 2, 8, 16 and 64 instructions";
    /// The size of a fully unrolled loop in any case.
    unroll_full_max_size = 1200, "instructions", "judgment: ptxas 13.0.88 goes up to 1451; the instruction cache of an SM is shared";
    /// The highest trip count that is found by executing the exit test.
    unroll_max_trip_count = 1024, "iterations", "judgment: bounds the time";
    /// Instructions by which unrolling may grow a function.
    unroll_growth = 6000, "instructions", "judgment: bounds compile time and code size";
    /// How often unrolling is repeated: each time takes the innermost loops that are left.
    unroll_repeats = 3, "times", "judgment: bounds the time; deeper nests exceed the size limits";
    /// The time from which on a loop invariant is hoisted though its register lowers the occupancy.
    licm_long_time = 16, "issue slots", "judgment: two long latencies; a quarter fewer warps hide less than that";
    /// How many loops around each block, in the mean, invariants are looked for in: the innermost ones.
    licm_max_depth = 16, "loops", "judgment: keeps the time linear in the size of the code; programs have fewer";
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
    uniform_loop_registers = 20, "uniform registers", "judgment: of 63, wgmmas take others in fours";
    /// Uniform registers for float operands of a convergent loop.
    uniform_factor_registers = 4, "uniform registers", "judgment: wgmmas take most of the others";
    /// The longest wait loop above which operands of wgmmas are hoisted.
    wait_loop_instructions = 4, "instructions", "judgment: a try_wait, its test and what addresses it";
    /// How often a loop is taken to run each time that it is entered, where nothing says it.
    loop_iterations = 8, "iterations", "judgment: what is in a loop matters, and what is in an inner one more";
    /// How many nested loops are told apart by that.
    loop_depth = 8, "loops", "judgment: beyond it nothing else matters";
    /// The most words that are computed again for a higher occupancy.
    remat_most_words = 40, "registers", "judgment: more of them are not live through one place but in use";
    /// The most blocks with more pressure than the goal.
    remat_most_blocks = 256, "blocks", "judgment: bounds the time";
    /// The most instructions that compute a value again.
    remat_most_steps = 4, "instructions", "judgment: about what a reload from the cache takes";
    /// How many instructions the uses of a constant in a block may be apart that is loaded for them there.
    remat_most_span = 32, "instructions", "judgment: it is live between them all the same";
    /// How often values are selected for it, each time after the registers have been counted.
    remat_rounds = 3, "times", "judgment: bounds the time";
    /// Of how many registers one is left free for a higher occupancy.
    remat_registers_per_hole = 48, "registers", "judgment: 32 registers are reached without any, of 168 some stay free between tuples";
    /// The least percentage by which a higher occupancy must be higher.
    remat_least_gain = 15, "percent", "judgment: an order for fewer registers hides less latency itself";
    /// How many occupancies are tried for it, one after the other.
    remat_goals = 4, "goals", "judgment: bounds the time";
    /// How many percent of occupancy a percent of instructions must be worth.
    remat_gain_ratio = 4, "percent", "judgment: not measured";
    /// How many instructions the prepass scheduler looks at together.
    sched_window = 1024, "instructions", "judgment: bounds the time, which is quadratic in a window at worst";
    /// How many ready instructions the bottom-up order for low pressure chooses from, the newest ones.
    sched_low_pressure_candidates = 16, "instructions", "623 kernels of nvcc: 32 with 16 ahead give the same registers, 8 with 4 ahead 0.6 % more";
    /// How many instructions it looks ahead for each of them.
    sched_low_pressure_ahead = 8, "instructions", "counted together with the candidates";
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
    sched_goal_margin = 0, "registers", "judgment: a goal that takes spills is given up for the next one";
    /// Registers of a register goal that the schedule leaves free for tuples and moves: if these find none, the next goal is tried.
    sched_goal_fragmentation = 4, "registers", "judgment: tuples are contiguous and aligned";
    /// Registers beyond the lowest pressure that a register goal must leave to matrix products.
    sched_matrix_slack = 12, "registers", "judgment: three fragments that are loaded ahead";
    /// How much pressure beyond the original order is accepted where it costs no occupancy.
    sched_occupancy_slack = 16, "registers", "judgment: overlaps a few more loads";
    /// Registers below the next lower occupancy that stay free.
    sched_occupancy_margin = 16, "registers", "judgment: fragmentation must not cost occupancy";
    /// How many candidates are tried for the next instruction where there is a register goal.
    sched_candidates = 16, "instructions", "judgment: bounds the time";
    /// How many register goals are tried for a schedule, one occupancy after the other.
    sched_goals = 4, "goals", "judgment: bounds the time";
    /// The least percentage by which a goal of fewer warps must take less time.
    sched_goal_least_gain = 5, "percent", "judgment: warps hide more than a schedule knows of, such as waits for each other";
    /// How long a word of each thread of a warp keeps the memory of an SM's partition busy.
    sched_memory_interval = 8, "cycles", "between a hit in L1 (4) and all SMs at L2's rate (15: 35 bytes a cycle each, l2.read.chip of tests/microbench/h200.json); with 15, a gather of tests/bench/spmv.cu took 1.28 times as long on an H200: fewer warps would have hidden more";
    /// The expected latency of global, local and texture memory.
    sched_memory_latency = 300, "cycles", "judgment: of the order of a hit in L2";
    /// The expected latency of shared memory.
    sched_shared_latency = 30, "cycles", "judgment: about that of a load without bank conflicts";
    /// The expected latency of LDSM.
    sched_matrix_load_latency = 30, "cycles", "that of shared memory; 64 puts LDSM as far ahead in CUTLASS's loops as ptxas does, but spills where registers are short";
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
    /// How many register goals are tried, one occupancy after the other.
    regalloc_goals = 3, "goals", "judgment: bounds the time";
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
    /// For how long the registers that a memory access reads are left alone where others are free.
    regalloc_read_distance = 8, "instructions", "judgment: an access reads its registers some ten cycles after issue; of 17,811 waits in the corpora 464 go, with 16 instructions 561";
    /// For how many instructions a predicate register that was written is avoided.
    regalloc_predicate_distance = 12, "instructions", "the longest wait between writes of a predicate on sm_90 is 13 cycles, `sass::model`";
    /// Free registers from which on registers that no instruction had so far are taken for that.
    regalloc_read_reserve = 8, "registers", "judgment: tuples are contiguous and aligned";
    /// How many targets of targets are looked at for the register that a value wants.
    regalloc_hint_depth = 4, "copies", "judgment: bounds the time; joins nest about so deep";
    /// Next values of the loops around a block whose registers others leave free.
    regalloc_next_values = 1024, "values", "judgment: bounds the time; one latch passes 255 at most";
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
