//! The pass list: one screen, in order, each with the reason for its place.

use crate::bank0::Machine;
use crate::{Failure, Options, bundles, convergence, edges, legalize, progress, simplify};
use ori::Function;
use std::fmt::Write;

struct Pass {
    name: &'static str,
    run: fn(&mut Function, &'static Machine) -> Result<(), String>,
}

/// Simplification comes first, so that the others have less to do. Where threads must let others pass they need not meet
/// again, which convergence looks at. Its regions add blocks; edges are split when all blocks are there, so that
/// every block argument has a place for its move; legalization asks the machine about each instruction last.
const PASSES: &[Pass] = &[
    Pass { name: "simplify", run: simplify::run },
    Pass { name: "bundles", run: bundles::run },
    Pass { name: "progress", run: progress::run },
    Pass { name: "convergence", run: convergence::run },
    Pass { name: "split-edges", run: edges::run },
    Pass { name: "legalize", run: legalize::run },
];

pub fn run(
    function: &mut Function,
    machine: &'static Machine,
    options: &Options,
    log: &mut String,
) -> Result<(), Failure> {
    check("lower", function, options, log)?;
    for pass in PASSES {
        (pass.run)(function, machine).map_err(|e| Failure::internal(pass.name, &function.name, e))?;
        check(pass.name, function, options, log)?;
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
