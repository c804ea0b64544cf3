//! `conformance simulator`: ptxas's code of one-instruction kernels in the simulator, against the interpreter on their
//! PTX. It shows that the simulator understands the machine, whoever made the code.

use super::corpus::compile;
use super::{Bar, Options, list_differences};
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use sim::ops::{self, Verdict};

const SETS: u64 = 4;

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let file = options.ptx_files().join("ops/ops_sm_90.ptx");
    let source = std::fs::read_to_string(&file)?;
    let module = ptx::parse(&source, &ptx::Options::default()).module.ok_or("the kernels do not parse")?;
    let interpreted = sim::ptx::Program::new(&module, &source);
    let scratch = shell::target_dir().join("conformance/simulator");
    let simulated = sim::sass::Program::new(&compile(&Tools::find()?, &scratch, &source, "sm_90")?)?;
    let verdict = |kernel: &str, set: u64| {
        let expected = ops::outcome(&mut sim::ptx::Machine::new(&interpreted), kernel, set);
        ops::compare(&expected, &ops::outcome(&mut sim::sass::Machine::new(&simulated), kernel, set))
    };
    let kernels: Vec<&str> = interpreted.kernels().collect();
    let verdicts: Vec<(&str, Verdict)> = kernels
        .into_par_iter()
        .filter(|kernel| ops::OWN_WAYS.iter().all(|(other, _)| other != kernel))
        .map(|kernel| {
            let different =
                (0..SETS).map(|set| verdict(kernel, set)).find(|verdict| *verdict != Verdict::Same);
            (kernel, different.unwrap_or(Verdict::Same))
        })
        .collect();
    let (mut different, mut unknown) = (Vec::new(), Vec::new());
    for (kernel, verdict) in &verdicts {
        match verdict {
            Verdict::Same => {}
            Verdict::Different(what) => different.push(format!("{kernel}: {what}")),
            Verdict::Unknown(what) => unknown.push(format!("{kernel}: {what}")),
        }
    }
    list_differences("kernels that leave other memory", &different, options.show);
    list_differences("kernels with an instruction that is not known", &unknown, options.show);
    let known = verdicts.len() - unknown.len();
    Ok(vec![
        Bar {
            what: "kernels that leave the same memory",
            equal: known - different.len(),
            all: known,
            percent: 100,
        },
        Bar { what: "kernels whose instructions are known", equal: known, all: verdicts.len(), percent: 90 },
    ])
}
