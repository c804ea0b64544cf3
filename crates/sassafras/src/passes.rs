//! The pass list: one screen, in order, each with the reason for its place.
//!
//! After each pass the IR can be written to the log (`--dump-ir`), and is verified (`--verify`). Rewrites that are not
//! needed for the code to be right ask for fuel first (`--fuel`), so that a wrong one is found by bisection: with less
//! fuel than it takes to come to it, the code is right.

use crate::bank0::Machine;
use crate::launch::Occupancy;
use crate::{
    Failure, Options, Times, alone, bundles, combine, convergence, counters, edges, hoist, induction,
    legalize, local, logic, order, progress, select, simplify, sink, uniform, unroll,
};
use ori::Function;
use std::fmt::Write;

/// What passes have beside the function.
pub struct Context {
    pub machine: &'static Machine,
    /// General registers that a thread may have.
    pub registers: u32,
    /// How many blocks run at once, if their size is known.
    pub occupancy: Option<Occupancy>,
    /// Those that are enough for the code as it is ordered, and with more of which fewer threads run at once.
    pub enough: Option<u32>,
    pub fuel: Fuel,
}

/// How many rewrites are left; `None` is no limit.
pub struct Fuel(Option<u32>);

impl Fuel {
    pub fn new(rewrites: Option<u32>) -> Fuel {
        Fuel(rewrites)
    }

    /// May one more thing be rewritten?
    pub fn burn(&mut self) -> bool {
        match &mut self.0 {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

struct Pass {
    name: &'static str,
    /// The level of optimization from which on it runs.
    level: u8,
    run: fn(&mut Function, &mut Context) -> Result<(), String>,
}

const PASSES: &[Pass] = &[
    Pass { name: "simplify", level: 0, run: |f, _| simplify::run(f) },
    Pass { name: "combine", level: 1, run: combine::run },
    Pass { name: "counters", level: 1, run: counters::run },
    Pass { name: "induction", level: 1, run: induction::run },
    Pass { name: "select", level: 1, run: select::run },
    Pass { name: "unroll", level: 2, run: unroll::run },
    Pass { name: "logic", level: 1, run: logic::run },
    Pass { name: "alone", level: 1, run: |f, _| alone::run(f) },
    Pass { name: "hoist", level: 1, run: hoist::run },
    Pass { name: "progress", level: 0, run: |f, c| progress::run(f, c.machine) },
    Pass { name: "uniform", level: 0, run: uniform::run },
    Pass { name: "sink", level: 1, run: sink::run },
    Pass { name: "bundles", level: 0, run: |f, c| bundles::run(f, c.machine) },
    Pass { name: "convergence", level: 0, run: |f, c| convergence::run(f, c.machine) },
    Pass { name: "split-edges", level: 0, run: |f, c| edges::run(f, c.machine) },
    Pass { name: "legalize", level: 0, run: |f, c| legalize::run(f, c.machine) },
    Pass { name: "local", level: 0, run: |f, _| local::run(f) },
    Pass { name: "order", level: 1, run: order::run },
];

/// Passes that code for a debugger does without: every write of a PTX register stays, whoever needs it.
const NOT_FOR_DEBUGGERS: &[&str] = &["simplify", "unroll"];
/// Which pass must come before which, and why. A test holds the list to it.
#[cfg(test)]
const ORDER: &[(&str, &str, &str)] = &[
    ("simplify", "combine", "a parameter that is always the same value is that value"),
    ("combine", "counters", "it looks for the words of counts and bounds, and combines what is left of them"),
    ("counters", "induction", "counters of one word may advance with others"),
    ("combine", "induction", "constants and sums stand in the instructions that add them"),
    ("combine", "select", "what is computed twice or not at all makes no side longer"),
    ("counters", "unroll", "the test of a counter of one word is shorter"),
    ("select", "unroll", "a branch around a few instructions is no further block"),
    ("unroll", "alone", "it looks for the operands of copies where they were computed"),
    ("unroll", "logic", "the tests of several iterations are joined"),
    ("select", "logic", "conditions of branches that became selects are joined, too"),
    ("logic", "uniform", "what is left of conditions is brought to uniform registers"),
    ("select", "sink", "what both sides of a branch compute is used behind it"),
    ("uniform", "sink", "descriptors that a block computes for itself are needed by fewer others"),
    ("alone", "sink", "it looks for the operands of copies where they were computed"),
    ("hoist", "uniform", "what is the same for a warp is brought to uniform registers where it is needed"),
    ("alone", "uniform", "operands that come to a block of products are computed with theirs"),
    ("alone", "convergence", "it looks where threads are made to meet"),
    ("select", "convergence", "a branch that is gone needs no region"),
    ("simplify", "bundles", "words are followed through values, not through copies of them"),
    ("simplify", "convergence", "blocks that only follow another one need no region"),
    ("progress", "uniform", "where threads let each other pass uniform registers don't last"),
    ("progress", "convergence", "where threads must let others pass they need not meet again"),
    ("bundles", "split-edges", "words that become one parameter are packed at the end of the predecessor"),
    ("convergence", "split-edges", "regions add blocks and edges"),
    ("convergence", "legalize", "regions add instructions"),
    ("legalize", "local", "constants that got uniform registers are among what is brought"),
    ("local", "order", "what a block computes again has a place in its order"),
    ("legalize", "order", "constants that got registers have a place in the order, too"),
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
    let fuel = Fuel::new(options.fuel);
    let mut context = Context { machine, registers, occupancy, enough: None, fuel };
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
