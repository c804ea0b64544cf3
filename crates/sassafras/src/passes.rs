//! The pass list: one screen, in order, each with the reason for its place.
//!
//! After each pass the IR can be written to the log (`--dump-ir`), and is verified (`--verify`). Rewrites that are not
//! needed for the code to be right ask for fuel first (`--fuel`), so that a wrong one is found by bisection: with less
//! fuel than it takes to come to it, the code is right.

use crate::codegen::{
    convergence_barriers, critical_edges, legalize, remat_uniform, sched_prepass, wgmma_tuples,
    yield_insertion,
};
use crate::context::target::Machine;
use crate::context::{Context, Failure, Fuel, Options, Times};
use crate::module::launch_bounds::Occupancy;
use crate::opt::{
    combine, elide_waterfall, if_convert, iv_elim, licm, narrow_iv, predicate_logic, simplify, sink, uniform,
    unroll,
};
use ori::Function;
use std::fmt::Write;

struct Pass {
    name: &'static str,
    /// The level of optimization from which on it runs.
    level: u8,
    run: fn(&mut Function, &mut Context) -> Result<(), String>,
}

const PASSES: &[Pass] = &[
    Pass { name: "simplify", level: 0, run: |f, _| simplify::run(f) },
    Pass { name: "combine", level: 1, run: combine::run },
    Pass { name: "narrow-iv", level: 1, run: narrow_iv::run },
    Pass { name: "iv-elim", level: 1, run: iv_elim::run },
    Pass { name: "if-convert", level: 1, run: if_convert::run },
    Pass { name: "unroll", level: 2, run: unroll::run },
    Pass { name: "predicate-logic", level: 1, run: predicate_logic::run },
    Pass { name: "elide-waterfall", level: 1, run: elide_waterfall::run },
    Pass { name: "licm", level: 1, run: licm::run },
    Pass { name: "yield-insertion", level: 0, run: |f, c| yield_insertion::run(f, c.machine) },
    Pass { name: "uniform", level: 0, run: uniform::run },
    Pass { name: "sink", level: 1, run: sink::run },
    Pass { name: "wgmma-tuples", level: 0, run: |f, c| wgmma_tuples::run(f, c.machine) },
    Pass { name: "convergence-barriers", level: 0, run: |f, c| convergence_barriers::run(f, c.machine) },
    Pass { name: "critical-edges", level: 0, run: |f, c| critical_edges::run(f, c.machine) },
    Pass { name: "legalize", level: 0, run: |f, c| legalize::run(f, c.machine) },
    Pass { name: "remat-uniform", level: 0, run: |f, _| remat_uniform::run(f) },
    Pass { name: "sched-prepass", level: 1, run: sched_prepass::run },
];

/// Passes that code for a debugger does without: every write of a PTX register stays, whoever needs it.
const NOT_FOR_DEBUGGERS: &[&str] = &["simplify", "unroll"];
/// Which pass must come before which, and why. A test holds the list to it.
#[cfg(test)]
const ORDER: &[(&str, &str, &str)] = &[
    ("simplify", "combine", "a parameter that is always the same value is that value"),
    (
        "combine",
        "narrow-iv",
        "it looks for the words of counts and bounds, and combines what is left of them",
    ),
    ("narrow-iv", "iv-elim", "counters of one word may advance with others"),
    ("combine", "iv-elim", "constants and sums stand in the instructions that add them"),
    ("combine", "if-convert", "what is computed twice or not at all makes no side longer"),
    ("narrow-iv", "unroll", "the test of a counter of one word is shorter"),
    ("if-convert", "unroll", "a branch around a few instructions is no further block"),
    ("unroll", "elide-waterfall", "it looks for the operands of copies where they were computed"),
    ("unroll", "predicate-logic", "the tests of several iterations are joined"),
    ("if-convert", "predicate-logic", "conditions of branches that became selects are joined, too"),
    ("predicate-logic", "uniform", "what is left of conditions is brought to uniform registers"),
    ("if-convert", "sink", "what both sides of a branch compute is used behind it"),
    ("uniform", "sink", "descriptors that a block computes for itself are needed by fewer others"),
    ("elide-waterfall", "sink", "it looks for the operands of copies where they were computed"),
    ("licm", "uniform", "what is the same for a warp is brought to uniform registers where it is needed"),
    ("elide-waterfall", "uniform", "operands that come to a block of products are computed with theirs"),
    ("elide-waterfall", "convergence-barriers", "it looks where threads are made to meet"),
    ("if-convert", "convergence-barriers", "a branch that is gone needs no region"),
    ("simplify", "wgmma-tuples", "words are followed through values, not through copies of them"),
    ("simplify", "convergence-barriers", "blocks that only follow another one need no region"),
    ("yield-insertion", "uniform", "where threads let each other pass uniform registers don't last"),
    (
        "yield-insertion",
        "convergence-barriers",
        "where threads must let others pass they need not meet again",
    ),
    (
        "wgmma-tuples",
        "critical-edges",
        "words that become one parameter are packed at the end of the predecessor",
    ),
    ("convergence-barriers", "critical-edges", "regions add blocks and edges"),
    ("convergence-barriers", "legalize", "regions add instructions"),
    ("legalize", "remat-uniform", "constants that got uniform registers are among what is brought"),
    ("remat-uniform", "sched-prepass", "what a block computes again has a place in its order"),
    ("legalize", "sched-prepass", "constants that got registers have a place in the order, too"),
];

/// Do two levels turn on the same passes?
pub fn are_same(one: u8, other: u8) -> bool {
    PASSES.iter().all(|pass| (pass.level <= one) == (pass.level <= other))
}

/// Says how many registers are enough, if that is known.
pub fn run(
    function: &mut Function,
    (machine, registers, occupancy): (&'static Machine, u32, Option<Occupancy>),
    options: &Options,
    (times, log): (&mut Times, &mut String),
) -> Result<Option<u32>, Failure> {
    let (tuning, fuel) = (options.tuning, Fuel::new(options.fuel));
    let mut context = Context { machine, registers, occupancy, enough: None, tuning, fuel };
    check("lower", function, options, log)?;
    let is_wanted =
        |p: &&Pass| p.level <= options.level && !(options.debug_code && NOT_FOR_DEBUGGERS.contains(&p.name));
    for pass in PASSES.iter().filter(is_wanted) {
        let done = times.of(pass.name, || (pass.run)(function, &mut context));
        done.map_err(|e| Failure::internal(pass.name, &function.name, e))?;
        check(pass.name, function, options, log)?;
    }
    Ok(context.enough)
}

/// The names of the passes, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    PASSES.iter().map(|pass| pass.name)
}

/// Runs passes in the order of their names here, whatever their level, and verifies the IR before the first and after
/// each of them.
pub fn run_named(function: &mut Function, names: &[&str], context: &mut Context) -> Result<(), Failure> {
    let verified = |name: &str, function: &Function| {
        ori::verify::verify(function).map_err(|e| Failure::internal(name, &function.name, e))
    };
    verified("parse", function)?;
    for pass in names.iter().filter_map(|name| PASSES.iter().find(|pass| pass.name == *name)) {
        (pass.run)(function, context).map_err(|e| Failure::internal(pass.name, &function.name, e))?;
        verified(pass.name, function)?;
    }
    Ok(())
}

fn check(pass: &str, function: &Function, options: &Options, log: &mut String) -> Result<(), Failure> {
    if options.dump.as_deref().is_some_and(|d| d == pass || d == "all") {
        let _ = writeln!(log, "; after {pass}\n{function}");
    }
    if options.verify {
        ori::verify::verify(function).map_err(|e| Failure::internal(pass, &function.name, e))?;
    }
    Ok(())
}

/// What `--dump-ir` shows of a PTX text after a pass.
#[cfg(test)]
pub fn code_after(pass: &str, source: &str) -> String {
    let module = ptx::parse(source, &ptx::Options::default()).module.expect("a module");
    let mut options = Options::new(ptx::Target::find("sm_90").expect("a target"));
    options.dump = Some(pass.to_string());
    crate::compile(source, &module, &options).log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_keeps_the_order() {
        let place = |name: &str| PASSES.iter().position(|p| p.name == name);
        for (first, second, reason) in ORDER {
            let (Some(a), Some(b)) = (place(first), place(second)) else {
                panic!("{first} or {second} is no pass");
            };
            assert!(a < b, "{first} must come before {second}: {reason}");
        }
    }

    #[test]
    fn fuel_ends() {
        let mut fuel = Fuel::new(Some(2));
        assert_eq!([fuel.burn(), fuel.burn(), fuel.burn()], [true, true, false]);
        assert!(Fuel::new(None).burn());
    }
}
