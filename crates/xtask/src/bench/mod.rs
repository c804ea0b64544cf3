//! `cargo xtask bench`: our compiler against ptxas, in the same run, on the same input, as ratios; and the simulator's
//! speed.

use crate::Result;

mod code;
mod compile;
mod frontend;
mod generate;
mod gpu;
mod instructions;
mod measure;
pub mod scale;
mod simulator;
mod spills;
mod startup;

/// What there is to measure.
const ALL: &str =
    "'code', 'compile', 'frontend', 'gpu', 'instructions', 'scale', 'spills', 'startup' and 'simulator'";

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let mut what = None;
    let mut rest: Vec<String> = Vec::new();
    while let Some(argument) = arguments.next()? {
        match argument {
            Value(name) if what.is_none() && name == "gpu" => return gpu::run(arguments),
            Value(name) if what.is_none() && name == "code" => return code::run(arguments),
            Value(name) if what.is_none() => what = Some(name.string()?),
            Value(word) => rest.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    match what.as_deref() {
        Some("compile") => compile::run(&rest),
        Some("frontend") => {
            let sizes: std::result::Result<Vec<usize>, _> = rest.iter().map(|size| size.parse()).collect();
            frontend::run(&sizes?)
        }
        Some("instructions") => instructions::run(&rest),
        Some("scale") if rest == ["count"] => scale::count(),
        Some("scale") => scale::run(&rest),
        Some("startup") if rest.is_empty() => startup::run(),
        Some("startup") => Err("bench startup has one size".into()),
        Some("simulator") => simulator::run(),
        Some("spills") => spills::run(&rest),
        Some(other) => Err(format!("no benchmark '{other}': there are {ALL}").into()),
        None => Err(format!("which benchmark? There are {ALL}").into()),
    }
}
