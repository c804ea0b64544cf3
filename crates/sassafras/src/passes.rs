//! The pipeline: one row per pass, in order, from lowered Ori to bytes.
//!
//! A row has the pass's name, the lowest optimization level that runs it, a one-line description, and the properties of
//! the code that it needs, establishes and invalidates. A test checks these through the table, at every level and
//! without each optional pass. A pass takes the code at its level, Ori or machine code, and the context, and fails with
//! a [`PassError`]. A pass over Ori returns what it changed, and the driver invalidates the affected analyses.
//!
//! Passes do not call each other. Clean-ups are separate rows that run if the step before them changed something.
//! Passes that find more work after a clean-up are grouped with it and repeated.
//!
//! After each pass the code can be dumped to the log (`--dump-ir`) and is verified (`--verify`); its time is measured
//! (`--time-passes`). A pass of a level above 0 can be disabled (`--disable-pass`). Rewrites that are not required for
//! correct code ask for fuel first (`--fuel`), so that a wrong rewrite can be found by bisection.

use crate::codegen::{
    convergence_barriers, critical_edges, early_copies, jump_tables, legalize, pack_words, remat_predicates,
    remat_uniform, sched_prepass, switch_lower, uniform_constants, wgmma_tuples, yield_insertion,
};
use crate::context::Tuning;
use crate::context::target::TargetMachine;
use crate::context::{
    Context, Fuel, JumpTables, Occupancy, Options, PassError, PassFailure, PassResult, Record, Snapshot,
    SnapshotLine, Times,
};
use crate::lower::{expand, library};
use crate::mach::unit::{LinearCode, Unit};
use crate::mach::{
    control_codes, dead_predicates, emit, layout, linearize, pipe_balance, redundant_uniform, reuse, text,
    wgmma_hazards,
};
use crate::module::abi::Convention;
use crate::opt::{
    atomic_aggregate, bit_test, combine, dce, elide_waterfall, guard_select, if_convert, if_to_switch,
    iv_elim, licm, load_elim, mem_vectorize, narrow_iv, opposite_compares, predicate_logic, simplify, sink,
    split_pairs, tail_duplicate, uniform, uniform_webs, unroll,
};
use crate::regalloc;
use ori::{Change, Function};
use std::fmt::Write;

/// What holds for the code between two passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Property {
    /// Ori in SSA form: before register allocation.
    Ssa,
    /// There are no generic operations.
    Expanded,
    /// Loops in which threads wait for others of their warp have `YIELD`.
    ForwardProgress,
    /// What the machine reads from uniform registers is computed there where it can be.
    UniformOperands,
    /// Switches have places for their tables.
    TablesPlaced,
    /// The accumulator of a wgmma is one value.
    WgmmaTuples,
    /// Divergent branches have `BSSY` and `BSYNC`.
    Convergence,
    /// An edge with arguments is the only edge out of its block.
    NoCriticalEdges,
    /// Every operation has a form on the target.
    Legal,
    /// Uniform values live where no divergent thread overwrites them.
    UniformLiveness,
    /// Operands are registers.
    Allocated,
    /// An instruction with an origin has the operation and operands of that Ori instruction.
    OriginsMatch,
    /// No register of an outstanding wgmma is accessed.
    NoWgmmaHazards,
    /// One list of instructions.
    Linear,
    /// Instructions have control codes.
    Timed,
    /// There are bytes.
    Encoded,
}

use Property::*;

/// The properties of Ori.
const OF_ORI: [Property; 10] = [
    Ssa,
    Expanded,
    ForwardProgress,
    UniformOperands,
    TablesPlaced,
    WgmmaTuples,
    Convergence,
    NoCriticalEdges,
    Legal,
    UniformLiveness,
];

impl Property {
    /// In words, for errors.
    fn about(self) -> &'static str {
        match self {
            Ssa => "Ori in SSA form",
            Expanded => "machine operations",
            ForwardProgress => "YIELD in loops that wait",
            UniformOperands => "operands in uniform registers",
            TablesPlaced => "places of jump tables",
            WgmmaTuples => "tuples of wgmma",
            Convergence => "convergence barriers",
            NoCriticalEdges => "split critical edges",
            Legal => "legal operations",
            UniformLiveness => "uniform values that divergent threads don't overwrite",
            Allocated => "blocks with registers",
            OriginsMatch => "instructions as they were allocated",
            NoWgmmaHazards => "wgmma without hazards",
            Linear => "linear code",
            Timed => "control codes",
            Encoded => "bytes",
        }
    }
}

type OriPass = fn(&mut Function, &mut Context) -> PassResult<Change>;

/// One signature for each level of the code.
enum Run {
    Ori(OriPass),
    Mach(fn(&mut Unit, &mut Context) -> PassResult),
}

enum Verifier {
    /// `ori::verify`
    Ori,
    /// `regalloc::check`
    Allocation,
    None,
}

struct Pass {
    name: &'static str,
    /// The level of optimization from which on it runs.
    level: u8,
    about: &'static str,
    run: Run,
    needs: &'static [Property],
    establishes: &'static [Property],
    invalidates: &'static [Property],
    verifier: Verifier,
    /// Code for a debugger is made without it: every write of a PTX register stays, needed or not.
    hides_registers: bool,
}

/// What a pass invalidates that makes or changes instructions and merges blocks, and one that changes loops and branches
/// as well.
const BY_CLEAN_UP: &[Property] = &[Convergence, NoCriticalEdges, Legal, UniformLiveness];
const BY_NEW_EDGES: &[Property] =
    &[ForwardProgress, Convergence, NoCriticalEdges, Legal, UniformLiveness, WgmmaTuples];

/// A pass over Ori.
const fn ori(name: &'static str, level: u8, about: &'static str, run: OriPass) -> Pass {
    let (needs, establishes) = (&[Ssa], &[]);
    let (run, verifier, invalidates) = (Run::Ori(run), Verifier::Ori, BY_CLEAN_UP);
    Pass { name, level, about, run, needs, establishes, invalidates, verifier, hides_registers: false }
}

/// A pass over machine code.
const fn mach(
    name: &'static str,
    level: u8,
    about: &'static str,
    run: fn(&mut Unit, &mut Context) -> PassResult,
) -> Pass {
    let (needs, establishes, invalidates) = (&[Allocated], &[], &[]);
    let (run, verifier) = (Run::Mach(run), Verifier::None);
    Pass { name, level, about, run, needs, establishes, invalidates, verifier, hides_registers: false }
}

impl Pass {
    const fn needs(self, needs: &'static [Property]) -> Pass {
        Pass { needs, ..self }
    }

    const fn establishes(self, establishes: &'static [Property]) -> Pass {
        Pass { establishes, ..self }
    }

    const fn invalidates(self, invalidates: &'static [Property]) -> Pass {
        Pass { invalidates, ..self }
    }

    const fn verified_by(self, verifier: Verifier) -> Pass {
        Pass { verifier, ..self }
    }

    const fn hides_registers(self) -> Pass {
        Pass { hides_registers: true, ..self }
    }
}

/// A step of the pipeline.
enum Step {
    Once(Pass),
    /// Clean-ups: they run if the step before them changed something.
    IfChanged(&'static [Pass]),
    /// Runs all of them again as long as the first one changes something, up to a limit.
    Repeat(fn(&Tuning) -> u32, &'static [Pass]),
}

use Step::{IfChanged, Once, Repeat};

impl Step {
    const fn passes(&'static self) -> &'static [Pass] {
        match self {
            Once(pass) => std::slice::from_ref(pass),
            IfChanged(passes) | Repeat(_, passes) => passes,
        }
    }
}

const SIMPLIFY: Pass = ori(
    "simplify",
    0,
    "copies and trivial block parameters go, straight-line blocks are merged",
    simplify::run,
);
const DCE: Pass = ori("dce", 0, "dead code and dead block parameters go", dce::run);
const COMBINE: Pass = ori("combine", 1, "constant folding, CSE and peephole rules on SSA", combine::run);
const LICM: Pass =
    ori("licm", 1, "loop invariants move to the preheader", licm::run).invalidates(BY_NEW_EDGES);

const PIPELINE: &[Step] = &[
    Once(SIMPLIFY.hides_registers()),
    Once(DCE.hides_registers()),
    Once(
        ori("tail-duplicate", 1, "empty exit blocks get one predecessor each", tail_duplicate::run)
            .invalidates(BY_NEW_EDGES),
    ),
    Once(COMBINE),
    // Once more: what lost its other uses is of one instruction with its only one.
    IfChanged(&[SIMPLIFY, DCE, COMBINE, SIMPLIFY, DCE]),
    Once(
        ori("if-to-switch", 1, "tests of one value against constants become a switch", if_to_switch::run)
            .invalidates(BY_NEW_EDGES),
    ),
    IfChanged(&[SIMPLIFY, DCE]),
    Once(
        ori("switch-lower", 0, "small switches become trees of comparisons", switch_lower::run)
            .invalidates(BY_NEW_EDGES),
    ),
    IfChanged(&[SIMPLIFY, DCE]),
    Once(ori("narrow-iv", 1, "64-bit induction variables that fit into 32 bits", narrow_iv::run)),
    IfChanged(&[COMBINE, SIMPLIFY, DCE]),
    Once(ori("iv-elim", 1, "induction variables a constant apart become one", iv_elim::run)),
    IfChanged(&[DCE]),
    Once(
        ori(
            "split-pairs",
            1,
            "64-bit values that are read word by word leave loops in words",
            split_pairs::run,
        )
        .hides_registers(),
    ),
    IfChanged(&[SIMPLIFY, DCE, COMBINE, SIMPLIFY, DCE]),
    Repeat(
        |tuning| tuning.if_convert_repeats,
        &[
            ori("if-convert", 1, "short branches become selects", if_convert::run).invalidates(BY_NEW_EDGES),
            SIMPLIFY,
            DCE,
        ],
    ),
    IfChanged(&[COMBINE, SIMPLIFY, DCE]),
    Once(LICM),
    IfChanged(&[SIMPLIFY, DCE]),
    Repeat(
        |tuning| tuning.unroll_repeats,
        &[
            ori("unroll", 2, "full and partial unrolling of innermost loops", unroll::run)
                .invalidates(BY_NEW_EDGES)
                .hides_registers(),
            SIMPLIFY,
            DCE,
            COMBINE,
            SIMPLIFY,
            DCE,
        ],
    ),
    Once(ori(
        "load-elim",
        1,
        "loads of words that a value holds, and overwritten stores, go",
        load_elim::run,
    )),
    IfChanged(&[COMBINE, SIMPLIFY, DCE]),
    Once(
        ori("elide-waterfall", 1, "no waterfall loop where one thread asks", elide_waterfall::run)
            .invalidates(BY_NEW_EDGES),
    ),
    IfChanged(&[SIMPLIFY, DCE]),
    Once(LICM),
    IfChanged(&[SIMPLIFY, DCE]),
    Once(
        ori("expand", 0, "generic operations become machine operations", expand::run)
            .establishes(&[Expanded])
            .invalidates(BY_NEW_EDGES),
    ),
    // Of a division by a loop invariant, what depends on the divisor alone is invariant, too.
    IfChanged(&[SIMPLIFY, DCE, COMBINE, SIMPLIFY, DCE, LICM, SIMPLIFY, DCE]),
    Once(ori(
        "predicate-reduce",
        1,
        "predicates that a tree of PLOP3 does not depend on are dropped",
        predicate_logic::reduce,
    )),
    IfChanged(&[SIMPLIFY, DCE]),
    Once(ori(
        "predicate-fold",
        1,
        "comparisons combine their result with a predicate",
        predicate_logic::fold,
    )),
    IfChanged(&[SIMPLIFY, DCE]),
    Once(ori(
        "predicate-merge",
        1,
        "two PLOP3 of three predicates in all become one",
        predicate_logic::merge,
    )),
    IfChanged(&[SIMPLIFY, DCE]),
    Once(ori(
        "atomic-aggregate",
        1,
        "one thread does the atomics of its warp at one address",
        atomic_aggregate::run,
    )),
    IfChanged(&[DCE]),
    Once(ori(
        "mem-vectorize",
        1,
        "neighbouring accesses of shared, local and constant memory become one",
        mem_vectorize::run,
    )),
    IfChanged(&[SIMPLIFY, DCE]),
    Once(
        ori(
            "yield-insertion",
            0,
            "YIELD in loops that wait for other threads of the warp",
            yield_insertion::run,
        )
        .establishes(&[ForwardProgress]),
    ),
    Once(
        ori("uniform", 0, "descriptors and operands of tensor copies on the uniform datapath", uniform::run)
            .needs(&[Ssa, ForwardProgress])
            .establishes(&[UniformOperands]),
    ),
    IfChanged(&[SIMPLIFY, DCE]),
    Once(ori("hoist-above-wait", 0, "operands of the first wgmma after a wait", uniform::hoist_above_wait)),
    Once(ori("sink", 1, "values needed only after a loop are computed there", sink::run)),
    IfChanged(&[DCE]),
    Once(
        ori("wgmma-tuples", 0, "accumulators of wgmma become register tuples", wgmma_tuples::run)
            .establishes(&[WgmmaTuples])
            .invalidates(&[NoCriticalEdges, Legal]),
    ),
    IfChanged(&[DCE.invalidates(&[])]),
    Once(
        ori(
            "opposite-compares",
            1,
            "of two comparisons that are each other's opposite one goes",
            opposite_compares::run,
        )
        .invalidates(&[]),
    ),
    IfChanged(&[DCE.invalidates(&[])]),
    Once(
        ori(
            "bit-test",
            1,
            "comparisons of bitwise functions with zero are predicates of LOP3",
            bit_test::run,
        )
        .invalidates(&[]),
    ),
    IfChanged(&[DCE.invalidates(&[])]),
    Once(
        ori("guard-select", 1, "selects become guards of the operation that they choose", guard_select::run)
            .invalidates(&[]),
    ),
    Once(
        ori("jump-tables", 0, "switches load their targets from constant bank 2", jump_tables::run)
            .establishes(&[TablesPlaced])
            .invalidates(&[Convergence, NoCriticalEdges, Legal, UniformLiveness]),
    ),
    Once(
        ori("uniform-webs", 1, "warp-uniform values on the uniform datapath", uniform_webs::run)
            .needs(&[Ssa, Expanded, UniformOperands])
            .invalidates(&[Legal, UniformLiveness]),
    ),
    IfChanged(&[DCE.invalidates(&[])]),
    Once(
        ori("convergence-barriers", 0, "BSSY and BSYNC around divergent regions", convergence_barriers::run)
            .needs(&[Ssa, ForwardProgress])
            .establishes(&[Convergence])
            .invalidates(&[NoCriticalEdges, Legal, UniformLiveness]),
    ),
    Once(
        ori(
            "critical-edges",
            0,
            "splits edges, so that block arguments have a block to be moved in",
            critical_edges::run,
        )
        .needs(&[Ssa, Convergence, WgmmaTuples])
        .establishes(&[NoCriticalEdges])
        .invalidates(&[]),
    ),
    Once(
        ori(
            "remat-predicates",
            1,
            "comparisons are repeated where more predicates are live than there are registers",
            remat_predicates::run,
        )
        .needs(&[Ssa, Convergence])
        .invalidates(&[Legal]),
    ),
    IfChanged(&[DCE.invalidates(&[])]),
    Once(
        ori(
            "uniform-constants",
            1,
            "words of constant bank 0 that arithmetic reads are held in uniform registers",
            uniform_constants::run,
        )
        .needs(&[Ssa, UniformOperands])
        .invalidates(&[Legal]),
    ),
    Once(
        ori("legalize", 0, "every operation gets a form of the target", legalize::run)
            .needs(&[Ssa, Expanded, Convergence])
            .establishes(&[Legal])
            .invalidates(&[UniformLiveness]),
    ),
    Once(
        ori(
            "remat",
            1,
            "values live through the highest pressure are computed again where that raises occupancy",
            sched_prepass::rematerialize::run,
        )
        .needs(&[Ssa, Legal])
        .invalidates(&[]),
    ),
    IfChanged(&[DCE.invalidates(&[])]),
    Once(
        ori(
            "remat-uniform",
            0,
            "uniform values are rematerialized where divergent threads write",
            remat_uniform::run,
        )
        .needs(&[Ssa, Convergence, Legal, UniformOperands])
        .establishes(&[UniformLiveness])
        .invalidates(&[]),
    ),
    Once(
        ori(
            "sched-prepass",
            1,
            "list scheduling within blocks, bounded by register pressure",
            sched_prepass::run,
        )
        .needs(&[Ssa, Legal, UniformLiveness])
        .invalidates(&[]),
    ),
    Once(
        ori(
            "pack-words",
            1,
            "words that are read after they were packed are words of the pack",
            pack_words::run,
        )
        .needs(&[Ssa, Legal, UniformLiveness])
        .invalidates(&[]),
    ),
    Once(
        ori(
            "early-copies",
            1,
            "loop-carried values are copied before the load of their next value",
            early_copies::run,
        )
        .needs(&[Ssa, NoCriticalEdges, Legal, UniformLiveness])
        .invalidates(&[]),
    ),
    Once(
        mach("regalloc", 0, "registers, spills and parallel copies on SSA", regalloc::run)
            .needs(&[Ssa, NoCriticalEdges, Legal, Convergence, UniformLiveness, WgmmaTuples, TablesPlaced])
            .establishes(&[Allocated, OriginsMatch])
            .invalidates(&[Ssa])
            .verified_by(Verifier::Allocation),
    ),
    Once(
        mach(
            "wgmma-hazards",
            0,
            "WARPGROUP.ARRIVE before wgmma whose registers were accessed",
            wgmma_hazards::run,
        )
        .establishes(&[NoWgmmaHazards]),
    ),
    Once(mach(
        "redundant-uniform",
        1,
        "uniform instructions that compute what their register holds go",
        redundant_uniform::run,
    )),
    Once(mach("layout", 1, "latches are placed after the block that leads to them", layout::run)),
    Once(
        mach("dead-predicates", 1, "predicate results without a use become PT", dead_predicates::run)
            .needs(&[Allocated, OriginsMatch])
            .invalidates(&[OriginsMatch]),
    ),
    Once(
        mach("pipe-balance", 1, "moves and sums go to the pipe that is free", pipe_balance::run)
            .invalidates(&[OriginsMatch]),
    ),
    Once(
        mach("linearize", 0, "prologue, epilogues and branches; blocks become a list", linearize::run)
            .needs(&[Allocated, NoWgmmaHazards])
            .establishes(&[Linear])
            .invalidates(&[Allocated]),
    ),
    Once(
        mach(
            "control-codes",
            0,
            "stalls and scoreboards: serial at -O0, else as early as the model allows",
            control_codes::run,
        )
        .needs(&[Linear])
        .establishes(&[Timed]),
    ),
    Once(
        mach("reuse", 1, "operands that the next reader takes from the operand cache", reuse::run)
            .needs(&[Linear, Timed]),
    ),
    Once(
        mach("emit", 0, "branch distances, relocations, bytes", emit::run)
            .needs(&[Linear, Timed])
            .establishes(&[Encoded])
            .invalidates(&[Linear, Timed]),
    ),
];

/// Which pass must come before which, and why. A test holds the table to it.
#[cfg(test)]
const ORDER: &[(&str, &str, &str)] = &[
    ("simplify", "combine", "a trivial block parameter is its value"),
    (
        "combine",
        "narrow-iv",
        "it looks for the words of counters and bounds, and combines what is left of them",
    ),
    ("narrow-iv", "iv-elim", "32-bit induction variables may advance with others"),
    ("narrow-iv", "split-pairs", "a pair whose upper word is zero is a counter of one word"),
    ("split-pairs", "unroll", "indices that are words have constant offsets in the copies of a body"),
    ("combine", "iv-elim", "constants and sums are folded into the instructions that add them"),
    ("combine", "if-to-switch", "comparisons with constants have these as operands"),
    ("if-to-switch", "if-convert", "conditions that are joined are no tests of one value"),
    ("if-to-switch", "switch-lower", "of new switches, too, it decides which are tables"),
    ("switch-lower", "if-convert", "short sides of a small switch become selects"),
    ("switch-lower", "unroll", "loops with a small switch are loops with branches"),
    ("unroll", "jump-tables", "each copy of a body has its own table"),
    ("jump-tables", "uniform-webs", "the load of an entry takes a general register"),
    ("combine", "if-convert", "redundant and dead instructions make no side longer"),
    ("narrow-iv", "unroll", "the exit test of a 32-bit counter is shorter"),
    ("if-convert", "unroll", "a branch around a few instructions is no further block"),
    ("unroll", "load-elim", "what an iteration stores, the next one may load"),
    ("unroll", "mem-vectorize", "accesses of several iterations stand side by side"),
    ("unroll", "atomic-aggregate", "it names the active threads, and copies of a body share their vote"),
    ("unroll", "elide-waterfall", "it looks for the operands of copies where they were computed"),
    ("if-convert", "expand", "a branch around a division stays one, and its slow path is no short branch"),
    ("unroll", "expand", "a loop with a division is one block"),
    ("licm", "expand", "a division of loop invariants moves as one operation"),
    ("expand", "predicate-reduce", "the conditions of slow paths are joined, too"),
    ("expand", "yield-insertion", "library routines have loops of their own"),
    ("unroll", "predicate-reduce", "the tests of several iterations are joined"),
    ("if-convert", "predicate-reduce", "conditions of branches that became selects are joined, too"),
    ("predicate-reduce", "uniform", "what is left of conditions moves to uniform registers"),
    ("if-convert", "sink", "what both sides of a branch compute is used after it"),
    ("uniform", "sink", "descriptors that a block computes for itself are needed by fewer others"),
    ("elide-waterfall", "sink", "it looks for the operands of copies where they were computed"),
    ("licm", "uniform", "warp-uniform values move to uniform registers where they are needed"),
    ("elide-waterfall", "uniform", "operands that reach a block of wgmma are computed with theirs"),
    ("elide-waterfall", "convergence-barriers", "it looks for points where threads reconverge"),
    ("if-convert", "convergence-barriers", "a branch that is gone needs no region"),
    ("simplify", "wgmma-tuples", "words are followed through values, not through copies of them"),
    ("simplify", "convergence-barriers", "blocks that only follow another one need no region"),
    ("yield-insertion", "uniform", "uniform registers don't last over a YIELD"),
    ("yield-insertion", "convergence-barriers", "threads that must yield to others need not reconverge"),
    (
        "wgmma-tuples",
        "critical-edges",
        "words that become one parameter are packed at the end of the predecessor",
    ),
    ("predicate-merge", "bit-test", "the passes on predicates know comparisons"),
    ("uniform", "uniform-webs", "descriptors are found from the general registers that they come from"),
    ("mem-vectorize", "uniform-webs", "accesses of one general register stand side by side"),
    ("sink", "uniform-webs", "a value is uniform where all its readers are known"),
    (
        "uniform-webs",
        "convergence-barriers",
        "it changes no branch, and values move to where the warp is together",
    ),
    ("convergence-barriers", "critical-edges", "regions add blocks and edges"),
    ("convergence-barriers", "legalize", "regions add instructions"),
    ("remat-predicates", "uniform-constants", "words of the constant bank are live everywhere"),
    ("remat-predicates", "sched-prepass", "repeated comparisons are scheduled"),
    ("legalize", "remat-uniform", "constants that got uniform registers are rematerialized, too"),
    ("legalize", "remat", "what legalization puts into registers counts"),
    ("remat", "remat-uniform", "uniform operands of what is computed again are live there"),
    ("remat-uniform", "sched-prepass", "rematerialized values are scheduled"),
    ("legalize", "sched-prepass", "constants that got registers are scheduled, too"),
    ("sched-prepass", "early-copies", "the order decides which readers come after a load"),
    ("sched-prepass", "pack-words", "the order decides which readers come after a pack"),
    ("dead-predicates", "pipe-balance", "a sum without carry fits other pipes"),
    ("layout", "linearize", "what falls through is known from the order"),
    ("control-codes", "reuse", "an instruction that yields empties the operand cache"),
];

/// All rows; clean-ups are there several times.
fn rows() -> impl Iterator<Item = &'static Pass> {
    PIPELINE.iter().flat_map(|step| step.passes())
}

/// Each pass once, in the order of their first rows.
fn passes() -> impl Iterator<Item = &'static Pass> {
    rows().enumerate().filter(|(i, pass)| rows().take(*i).all(|p| p.name != pass.name)).map(|(_, pass)| pass)
}

/// What comes before the first pass.
const LOWER_ABOUT: &str = "from PTX to Ori, the compiler's IR in SSA form";

/// Does a pass of this name exist?
pub fn is_pass(name: &str) -> bool {
    name == Times::LOWER || rows().any(|pass| pass.name == name)
}

/// The pass to leave out, in all its rows.
pub fn optional(name: &str) -> Result<&'static str, String> {
    match rows().find(|pass| pass.name == name) {
        None => Err(format!("There is no pass '{name}'")),
        Some(pass) if pass.level == 0 => Err(format!("Pass '{name}' is needed for correct code")),
        Some(pass) => Ok(pass.name),
    }
}

impl Options {
    /// Does another level generate the same code?
    pub fn is_same_level(&self, level: u8) -> bool {
        let is_same = |pass: &Pass| (pass.level <= self.level) == (pass.level <= level);
        (self.level > 0) == (level > 0) && rows().all(is_same)
    }
}

impl Pass {
    fn runs(&self, options: &Options) -> bool {
        self.level <= options.level
            && !(options.debug_code && self.hides_registers)
            && !options.disabled_passes.contains(&self.name)
    }

    fn apply(&self, unit: &mut Unit, context: &mut Context) -> PassResult<Change> {
        match self.run {
            Run::Ori(run) => {
                let change = run(&mut unit.kernel.code, context)?;
                context.invalidate(change);
                Ok(change)
            }
            Run::Mach(run) => run(unit, context).map(|()| Change::Instructions),
        }
    }

    /// What holds after it, if it finds what it needs.
    fn follow(&self, holds: &mut Vec<Property>) -> PassResult {
        if let Some(lacks) = self.needs.iter().find(|p| !holds.contains(p)) {
            return Err(PassError::Needs(lacks.about()));
        }
        holds.retain(|p| !self.invalidates.contains(p));
        holds.extend(self.establishes);
        Ok(())
    }

    fn verify(&self, unit: &Unit, context: &Context) -> PassResult {
        let limits = regalloc::Limits::registers(context.registers);
        match self.verifier {
            Verifier::Ori => {
                context.analyses.verify(&unit.kernel.code)?;
                verify_ori(&unit.kernel.code)
            }
            Verifier::Allocation => {
                regalloc::check(&unit.kernel.code, &unit.code, &limits, context.machine.isa)
                    .map_err(PassError::Verifier)
            }
            Verifier::None => Ok(()),
        }
    }

    /// The code at the level that the pass works on.
    fn text(&self, unit: &Unit, context: &Context) -> String {
        match self.run {
            Run::Ori(_) => unit.kernel.code.to_string(),
            Run::Mach(_) => text::text(unit, context.machine.isa),
        }
    }

    /// The same by lines, with what they are for.
    fn lines(&self, unit: &Unit, context: &Context) -> Vec<SnapshotLine> {
        match self.run {
            Run::Ori(_) => SnapshotLine::of_ori(&unit.kernel.code.to_string()),
            Run::Mach(_) => text::lines(unit, context.machine.isa),
        }
    }

    fn dump(&self, unit: &Unit, context: &Context, log: &mut String) {
        let level = if matches!(self.run, Run::Ori(_)) { "" } else { "machine code " };
        let _ = writeln!(log, "; {level}after {}\n{}", self.name, self.text(unit, context));
    }
}

/// The names of the passes, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    passes().map(|pass| pass.name)
}

/// Runs passes in the order of their names here, whatever their level, on a function in SSA form. Its author vouches for
/// the other properties of Ori; those of machine code must be established by passes before. The code is verified before
/// the first and after each pass. Returns its text.
pub fn run_named(unit: &mut Unit, names: &[&str], context: &mut Context) -> Result<String, PassFailure> {
    let named: Vec<&Pass> = passes().filter(|pass| names.contains(&pass.name)).collect();
    let named = names.iter().filter_map(|name| named.iter().find(|pass| pass.name == *name));
    verify_ori(&unit.kernel.code).map_err(|e| failure("parse", unit, e))?;
    let mut holds = OF_ORI.to_vec();
    let mut text = unit.kernel.code.to_string();
    for pass in named {
        let mut step = || {
            pass.follow(&mut holds)?;
            pass.apply(unit, context)?;
            pass.verify(unit, context)
        };
        step().map_err(|e| failure(pass.name, unit, e))?;
        if matches!(pass.run, Run::Ori(_)) {
            holds.extend(OF_ORI);
        }
        text = pass.text(unit, context);
    }
    Ok(text)
}

fn verify_ori(function: &Function) -> PassResult {
    ori::verify::verify(function).map_err(PassError::Verifier)
}

fn failure(pass: &'static str, unit: &Unit, error: PassError) -> PassFailure {
    PassFailure { pass, function: unit.kernel.code.name.clone(), error }
}

fn dump_ori(pass: &str, function: &Function, log: &mut String) {
    let _ = writeln!(log, "; after {pass}\n{function}");
}

/// The linear code of a library routine.
pub fn compile_routine(
    name: &str,
    machine: &'static TargetMachine,
    options: &Options,
) -> PassResult<LinearCode> {
    // Registers are dearer than time on a path that is rarely taken: the instructions stay in the order of the source. How
    // many it needs is known for all other passes together only.
    let disabled_passes = vec!["sched-prepass"];
    let all_passes = Options { level: 3, fuel: None, disabled_passes, ..options.clone() };
    let options = Options { debug_code: false, dump: None, snapshots: false, ..all_passes };
    let kernel = library::function(name, machine, options.tuning);
    let kernel = kernel.ok_or_else(|| format!("the library has no routine '{name}'"))?;
    let mut unit = Unit::new(kernel, &options, compile_routine);
    let last = PIPELINE.iter().position(|step| step.passes().iter().any(|pass| pass.name == "linearize"));
    let steps = &PIPELINE[..last.map_or(PIPELINE.len(), |last| last + 1)];
    run_steps(steps, &mut unit, machine, (&mut Times::default(), &mut Record::default()))
        .map_err(|e| format!("routine '{name}': {e}"))?;
    match unit.linear.frame == 0 && library::fits_window(name, unit.code.registers) {
        true => Ok(unit.linear),
        false => Err(format!("routine '{name}' has too few registers").into()),
    }
}

/// Takes a function from lowered Ori to bytes.
pub fn run(
    unit: &mut Unit,
    machine: &'static TargetMachine,
    output: (&mut Times, &mut Record),
) -> Result<(), PassFailure> {
    run_steps(PIPELINE, unit, machine, output)
}

fn run_steps(
    steps: &'static [Step],
    unit: &mut Unit,
    machine: &'static TargetMachine,
    (times, record): (&mut Times, &mut Record),
) -> Result<(), PassFailure> {
    let options = unit.options;
    let fuel = Fuel::new(options.fuel);
    let own = Convention::own(&unit.kernel.code).filter(|own| own.preserves_none());
    let threads = options.tuning.usual_block_threads;
    let of_callee = own.map(|own| Occupancy::of_callee(threads, own.least_registers(), machine));
    let occupancy = unit.kernel.launch.occupancy(machine).or(of_callee);
    let context = Context::new(machine, unit.kernel.registers(), options.tuning, fuel);
    let has_bank = unit.kernel.entry && !options.tools_patch && !options.no_optimizer_constants;
    let jump_tables = match has_bank {
        false => JumpTables::None,
        true if options.relocatable => JumpTables::Linked,
        true => JumpTables::Placed,
    };
    let context = Context { occupancy, jump_tables, ..context };
    let mut driver =
        Driver { unit, context, times, record, options, holds: vec![Ssa], is_simple: false, is_swept: false };
    if driver.is_dumped(Times::LOWER) {
        dump_ori(Times::LOWER, &driver.unit.kernel.code, &mut driver.record.log);
    }
    if options.snapshots {
        let lines = Some(SnapshotLine::of_ori(&driver.unit.kernel.code.to_string()));
        driver.keep(Times::LOWER, LOWER_ABOUT, false, lines);
    }
    if options.verify {
        verify_ori(&driver.unit.kernel.code).map_err(|e| failure(Times::LOWER, driver.unit, e))?;
    }
    let mut change = Change::Nothing;
    for step in steps {
        change = driver.step(step, change)?;
    }
    Ok(())
}

/// One run of the pipeline.
struct Driver<'a, 'u> {
    unit: &'a mut Unit<'u>,
    context: Context,
    times: &'a mut Times,
    record: &'a mut Record,
    options: &'a Options,
    /// What holds for the code, if it is verified.
    holds: Vec<Property>,
    /// Has nothing changed since the last `simplify` and `dce` that they could find? Removing dead code leaves nothing to
    /// simplify.
    is_simple: bool,
    is_swept: bool,
}

impl Driver<'_, '_> {
    /// Runs a step, and returns what it changed; `before` is what the step before it changed.
    fn step(&mut self, step: &'static Step, before: Change) -> Result<Change, PassFailure> {
        match step {
            Once(pass) => self.pass(pass),
            IfChanged(_) if before == Change::Nothing => Ok(before),
            IfChanged(passes) => {
                let changes = passes.iter().map(|pass| self.pass(pass));
                changes.collect::<Result<Vec<_>, _>>()?;
                Ok(before)
            }
            Repeat(limit, passes) => self.repeat(limit(&self.context.tuning), passes),
        }
    }

    fn repeat(&mut self, limit: u32, passes: &'static [Pass]) -> Result<Change, PassFailure> {
        let mut all = Change::Nothing;
        for _ in 0..limit {
            let [first, clean_ups @ ..] = passes else { break };
            let change = self.pass(first)?;
            if change == Change::Nothing {
                break;
            }
            all = all.max(change);
            clean_ups.iter().try_for_each(|pass| self.pass(pass).map(|_| ()))?;
        }
        Ok(all)
    }

    fn pass(&mut self, pass: &'static Pass) -> Result<Change, PassFailure> {
        let is_done = match pass.name {
            name if name == SIMPLIFY.name => self.is_simple,
            name if name == DCE.name => self.is_swept,
            _ => false,
        };
        if is_done || !pass.runs(self.options) {
            return Ok(Change::Nothing);
        }
        let go_on = self.options.go_on(self.unit.instructions());
        go_on.map_err(|stop| failure(pass.name, self.unit, PassError::Stopped(stop)))?;
        let change = self.times.of(pass.name, self.options, || pass.apply(self.unit, &mut self.context));
        let change = change.map_err(|e| failure(pass.name, self.unit, e))?;
        let (is_simplify, is_sweep) = (pass.name == SIMPLIFY.name, pass.name == DCE.name);
        let is_same = change == Change::Nothing;
        self.is_simple = is_simplify || self.is_simple && (is_sweep || is_same);
        self.is_swept = is_sweep || self.is_swept && is_same;
        if self.is_dumped(pass.name) {
            pass.dump(self.unit, &self.context, &mut self.record.log);
        }
        if self.options.snapshots {
            let lines = (!is_same).then(|| pass.lines(self.unit, &self.context));
            self.keep(pass.name, pass.about, matches!(pass.run, Run::Mach(_)), lines);
        }
        if self.options.verify {
            let verified = pass.follow(&mut self.holds).and_then(|()| pass.verify(self.unit, &self.context));
            verified.map_err(|e| failure(pass.name, self.unit, e))?;
        }
        Ok(change)
    }

    fn keep(
        &mut self,
        pass: &'static str,
        about: &'static str,
        machine: bool,
        lines: Option<Vec<SnapshotLine>>,
    ) {
        let function = self.unit.kernel.code.name.clone();
        self.record.keep(Snapshot { function, pass, about, machine, lines });
    }

    fn is_dumped(&self, pass: &str) -> bool {
        self.options.dump.as_deref().is_some_and(|dumped| dumped == pass || dumped == "all")
    }
}

/// The phases that a book on ptxas names, with the pass here that does the same, or why there is none.
const PHASES: &str = include_str!("driver/phases.txt");

/// `NAME: PASS, ...` or `NAME - reason`
fn phases() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = PHASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(name, about)| (name, about.trim()))
}

/// The text of `--help-passes`.
pub fn help() -> String {
    let mut text =
        String::from("Passes in order, with the level of optimization from which on each runs:\n\n");
    let _ = writeln!(text, "  {:<22} -   {LOWER_ABOUT}", Times::LOWER);
    for pass in passes() {
        let code = if matches!(pass.run, Run::Ori(_)) { "Ori " } else { "mach" };
        let _ = writeln!(text, "  {:<22} {}   {code}  {}", pass.name, pass.level, pass.about);
    }
    text += "\nClean-ups (simplify, dce, combine) run again after passes that change something.\n";
    text += "\nA pass of level 0 is needed for correct code; any other can be left out (--disable-pass).\n";
    text += "\nThe phases of ptxas, and what does the same here:\n\n";
    for (name, about) in phases() {
        let _ = writeln!(text, "  {name:<40} {about}");
    }
    text
}

/// The code of each function of a PTX text after the first row of a pass, its repeats and clean-ups.
#[cfg(test)]
pub fn code_after(pass: &str, source: &str) -> String {
    let module = ptx::parse(source, &ptx::Options::default()).module.expect("a module");
    let mut options = Options::new(ptx::Target::find("sm_90").expect("a target"));
    options.dump = Some("all".to_string());
    let log = crate::compile_module(&module, &options).log;
    let is_follower = |name: &str| [SIMPLIFY.name, DCE.name, COMBINE.name, pass].contains(&name);
    let (mut code, mut found, mut done) = (String::new(), String::new(), false);
    for dump in log.replace("; machine code after ", "; after ").split("; after ").skip(1) {
        let name = dump.lines().next().unwrap_or("");
        if name == Times::LOWER {
            code += &std::mem::take(&mut found);
            done = false;
        }
        let is_wanted = if found.is_empty() { name == pass } else { is_follower(name) };
        done |= !found.is_empty() && !is_wanted;
        if is_wanted && !done {
            found = format!("; after {dump}");
        }
    }
    code + &found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_routines_fit_their_registers() {
        for target in targets::Target::ALL.iter().map(|t| ptx::Target::find(t.name).expect(t.name)) {
            let machine = TargetMachine::of(target).expect("a machine");
            let options = Options { verify: true, ..Options::new(target) };
            for (name, _) in library::CALLED {
                compile_routine(name, machine, &options)
                    .unwrap_or_else(|e| panic!("{}: {e:?}", target.name()));
            }
        }
    }

    fn options(level: u8, debug_code: bool, disabled: &[&'static str]) -> Options {
        let target = ptx::Target::find("sm_90").expect("a target");
        Options { level, debug_code, disabled_passes: disabled.to_vec(), ..Options::new(target) }
    }

    /// Follows the properties through the passes that run; names the pass that lacks one.
    fn follow(options: &Options) -> Result<Vec<Property>, String> {
        let mut holds = vec![Ssa];
        for pass in rows().filter(|pass| pass.runs(options)) {
            pass.follow(&mut holds).map_err(|e| format!("{}: {e}", pass.name))?;
        }
        Ok(holds)
    }

    #[test]
    fn passes_run_in_the_order_that_others_rely_on() {
        let position = |name: &str| rows().position(|p| p.name == name);
        for (first, second, reason) in ORDER {
            let (Some(a), Some(b)) = (position(first), position(second)) else {
                panic!("{first} or {second} is no pass");
            };
            assert!(a < b, "{first} must come before {second}: {reason}");
        }
    }

    #[test]
    fn rows_of_a_name_are_the_same_pass() {
        for pass in rows() {
            let mut same = rows().filter(|p| p.name == pass.name);
            assert!(same.all(|p| (p.about, p.level) == (pass.about, pass.level)), "{}", pass.name);
        }
    }

    #[test]
    fn properties_hold_where_they_are_needed() {
        for (level, debug_code) in [(0, false), (0, true), (1, false), (2, false), (3, false)] {
            let holds = follow(&options(level, debug_code, &[])).unwrap_or_else(|e| panic!("-O{level}: {e}"));
            assert!(holds.contains(&Encoded), "-O{level}");
        }
    }

    #[test]
    fn optional_passes_establish_nothing_that_others_need() {
        for pass in passes().filter(|pass| pass.level > 0) {
            assert_eq!(optional(pass.name), Ok(pass.name));
            let holds = follow(&options(3, false, &[pass.name]));
            assert!(holds.is_ok_and(|holds| holds.contains(&Encoded)), "without {}", pass.name);
        }
    }

    #[test]
    fn required_and_unknown_passes_cannot_be_disabled() {
        for pass in passes().filter(|pass| pass.level == 0) {
            assert!(optional(pass.name).is_err(), "{}", pass.name);
        }
        assert_eq!(optional("nope"), Err("There is no pass 'nope'".to_string()));
    }

    #[test]
    fn every_phase_names_a_pass_or_a_reason() {
        let all: Vec<_> = phases().collect();
        assert_eq!(all.len(), 159);
        for (i, (name, about)) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|(other, _)| other != name), "{name} twice");
            match about.strip_prefix("- ") {
                Some(reason) => assert!(!reason.is_empty(), "{name}"),
                None => {
                    let (passes, _) = about.split_once("; ").unwrap_or((about, ""));
                    assert!(passes.split(", ").all(is_pass), "{name}: {passes}");
                }
            }
        }
    }

    #[test]
    fn help_lists_every_pass() {
        let help = help();
        assert!(passes().all(|pass| help.contains(pass.about)));
        assert!(help.contains("OriDoPredication"));
    }

    /// A kernel with a branch.
    fn kernel() -> String {
        let body = "{ .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d; ld.param.u64 %d, [out]; \
                    ld.global.u32 %r1, [%d]; setp.eq.u32 %p, %r1, 0; @%p bra done; \
                    st.global.u32 [%d+4], %r1; done: ret; }";
        let head = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)";
        format!("{head} {body}\n")
    }

    fn compile(source: &str, options: &Options) -> crate::Output {
        let module = ptx::parse(source, &ptx::Options::default()).module.expect("a module");
        crate::compile_module(&module, options)
    }

    /// With all dumps.
    fn dumped(source: &str, disabled: &[&'static str]) -> crate::Output {
        let dump = Some("all".to_string());
        compile(source, &Options { dump, verify: true, ..options(3, false, disabled) })
    }

    fn header(pass: &Pass) -> String {
        let level = if matches!(pass.run, Run::Ori(_)) { "" } else { "machine code " };
        format!("; {level}after {}\n", pass.name)
    }

    #[test]
    fn every_pass_is_dumped_and_timed() {
        let source = kernel();
        let output = dumped(&source, &[]);
        assert!(output.cubin.is_some(), "{:?}", output.diagnostics);
        let times = output.times.to_string();
        let mut rest = output.log.as_str();
        for pass in passes() {
            let at = rest.find(&header(pass)).unwrap_or_else(|| panic!("{} is missing", pass.name));
            rest = &rest[at + header(pass).len()..];
            let dump = rest.split("after ").next().unwrap_or("");
            assert!(dump.contains("LDG.E"), "{}: {dump}", pass.name);
            assert!(times.lines().any(|line| line.ends_with(&format!("%  {}", pass.name))), "{times}");
        }
        assert!(code_after("regalloc", &source).contains("b0:\n"));
        assert!(code_after("linearize", &source).contains("EXIT"));
        assert!(code_after("emit", &source).contains("/*0000*/"));
    }

    /// However the scheduler and the allocator are tuned, they finish, and the code is right.
    #[test]
    fn extreme_tuning_compiles() {
        let knobs = crate::Tuning::KNOBS.iter().map(|knob| knob.name);
        for name in knobs.filter(|name| name.starts_with("sched_") || name.starts_with("regalloc_")) {
            for value in [0, 1, u32::MAX] {
                let mut options = Options { verify: true, ..options(3, false, &[]) };
                assert!(options.tuning.set(name, value));
                let output = compile(&kernel(), &options);
                assert!(output.cubin.is_some(), "{name}={value}: {:?}", output.diagnostics);
            }
        }
    }

    #[test]
    fn disabled_passes_do_not_run() {
        for pass in passes().filter(|pass| pass.level > 0) {
            let output = dumped(&kernel(), &[pass.name]);
            assert!(output.cubin.is_some(), "without {}: {:?}", pass.name, output.diagnostics);
            let ran = |p: &Pass| output.log.contains(&header(p));
            assert!(passes().all(|p| ran(p) != (p.name == pass.name)), "without {}", pass.name);
        }
    }

    #[test]
    fn fuel_ends() {
        let mut fuel = Fuel::new(Some(2));
        assert_eq!([fuel.burn(), fuel.burn(), fuel.burn()], [true, true, false]);
        assert!(Fuel::new(None).burn());
    }
}
