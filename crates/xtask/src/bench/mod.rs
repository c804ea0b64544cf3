//! `cargo xtask bench`: our compiler against ptxas, in the same run, on the same input, as ratios; and the simulator's
//! speed.

use crate::Result;

mod frontend;
mod generate;
mod measure;
mod simulator;
mod startup;

const BENCHMARKS: &str = "'frontend', 'simulator' and 'startup'";

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let mut what = None;
    let mut sizes: Vec<usize> = Vec::new();
    while let Some(argument) = arguments.next()? {
        match argument {
            Value(name) if what.is_none() => what = Some(name.string()?),
            Value(size) => sizes.push(size.parse()?),
            other => return Err(other.unexpected().into()),
        }
    }
    match what.as_deref() {
        Some("frontend") => frontend::run(&sizes),
        Some("simulator") if sizes.is_empty() => simulator::run(),
        Some("startup") if sizes.is_empty() => startup::run(),
        Some(one @ ("simulator" | "startup")) => Err(format!("bench {one} has one size").into()),
        Some(other) => Err(format!("no benchmark '{other}': there are {BENCHMARKS}").into()),
        None => Err(format!("which benchmark? There are {BENCHMARKS}").into()),
    }
}
