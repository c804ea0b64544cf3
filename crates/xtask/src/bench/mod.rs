//! `cargo xtask bench`: our compiler against ptxas, in the same run, on the same input, as ratios; and the simulator's
//! speed.

use crate::Result;

mod frontend;
mod generate;
mod measure;
mod simulator;

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
        Some("simulator") => simulator::run(),
        Some(other) => Err(format!("no benchmark '{other}': there are 'frontend' and 'simulator'").into()),
        None => Err("which benchmark? There are 'frontend' and 'simulator'".into()),
    }
}
