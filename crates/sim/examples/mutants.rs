//! `mutants EVERY CUBIN...`: plants an error at each EVERYth certain place of the code (see `tests/suite/mutate.rs`),
//! one at a time, and counts how many the verifier reports. Fails if one is missed.

#[path = "../tests/suite/mutate.rs"]
mod mutate;

use cubin::Object;
use mutate::{What, mutations};
use sim::verify::{read, verify_code};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Longer sections are left out: each mutant verifies its whole section.
const LONGEST: usize = 2500;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<usize, String> {
    let mut arguments = std::env::args().skip(1);
    let every = arguments.next().and_then(|n| n.parse().ok()).ok_or("mutants EVERY CUBIN...")?;
    let (mut planted, mut missed): (BTreeMap<&str, usize>, usize) = (BTreeMap::new(), 0);
    let mut skip = 0;
    for file in arguments {
        let bytes = std::fs::read(&file).map_err(|e| format!("{file}: {e}"))?;
        let object = Object::read(&bytes).map_err(|e| format!("{file}: {e}"))?;
        for mut code in read(&object).map_err(|e| format!("{file}: {e}"))? {
            if code.insts.len() > LONGEST {
                continue;
            }
            let all = mutations(&code.insts);
            for mutation in all.iter().skip(skip).step_by(every) {
                let intact = code.insts[mutation.at].clone();
                mutation.apply(&mut code.insts);
                let reports = verify_code(&code).map_err(|e| format!("{file}: {e}"))?;
                let pair = (mutation.first as u64 * 16, mutation.second as u64 * 16);
                if !reports.iter().any(|report| (report.first.address, report.second.address) == pair) {
                    missed += 1;
                    println!("missed: {file} {} {mutation:?}", code.name);
                }
                code.insts[mutation.at] = intact;
                let kind = match mutation.what {
                    What::Stall(_) => "stalls lowered",
                    What::DropWait(_) => "wait bits dropped",
                    What::DropWriteBarrier => "write barriers dropped",
                    What::DropReadBarrier => "read barriers dropped",
                };
                *planted.entry(kind).or_default() += 1;
            }
            // The first place of the next section that continues the count.
            skip = (every - (all.len() + every - skip.min(every)) % every) % every;
        }
    }
    println!("{} planted {planted:?}, {missed} missed", planted.values().sum::<usize>());
    Ok(missed)
}
