//! Part `verify`: the schedule verifier has nothing to report.
//!
//! On ptxas's code, real PTX at several levels: the machine model is not stricter than the machine. On ours, that and
//! every accepted form: we obey it.

use super::forms::{Form, declarations, entry};
use super::{Bar, Options, list_differences};
use crate::compile::compile_ours;
use crate::reference::{OPTIONS, Reference, retarget};
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The targets of ptxas's code.
pub const TARGETS: [&str; 7] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"];
/// Those of ours beside them.
const OTHERS: [&str; 3] = ["sm_87", "sm_103a", "sm_110a"];
const LEVELS: [u8; 3] = [0, 1, 3];

/// Instructions of ptxas that must be there for each target: of the whole corpus, of the small one.
const LEAST: [usize; 2] = [100_000, 10_000];

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let tools = Tools::find()?;
    let forms = super::forms::read(options)?;
    let (mut reference, mut ours) = (Tally::default(), Tally::default());
    let mut fewest = usize::MAX;
    println!("target    code      instructions  reports");
    for target in TARGETS {
        let mut tally = Tally::default();
        for option in OPTIONS {
            tally.add(of_reference(&Reference { tools: &tools, target, option }, options)?);
        }
        println!("{target:<9} ptxas's {:>14} {:>8}", tally.instructions, tally.reports.len());
        fewest = fewest.min(tally.instructions);
        reference.add(tally);
    }
    for target in TARGETS.into_iter().chain(OTHERS) {
        let mut tally = Tally::default();
        for level in LEVELS {
            tally.add(of_ours(target, level, options, &forms)?);
        }
        println!("{target:<9} ours    {:>14} {:>8}", tally.instructions, tally.reports.len());
        ours.add(tally);
    }
    let instructions = reference.instructions + ours.instructions;
    let seconds = (reference.time + ours.time).as_secs_f64();
    println!("{:.0} instructions verified a second of one core", instructions as f64 / seconds);
    list_differences("reports on ptxas's code", &reference.reports, options.show);
    list_differences("reports on our code", &ours.reports, options.show);
    let least = LEAST[usize::from(options.corpus.is_none())];
    let clean = |what, tally: &Tally| Bar { what, equal: tally.clean, all: tally.files, percent: 100 };
    Ok(vec![
        clean("files of ptxas without a report", &reference),
        Bar { what: "instructions of ptxas, fewest of a target", equal: fewest, all: least, percent: 100 },
        clean("files of ours without a report", &ours),
    ])
}

/// What came of some files.
#[derive(Default)]
struct Tally {
    files: usize,
    clean: usize,
    instructions: usize,
    reports: Vec<String>,
    time: Duration,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.files += other.files;
        self.clean += other.clean;
        self.instructions += other.instructions;
        self.reports.extend(other.reports);
        self.time += other.time;
    }

    fn of(what: &str, cubin: &[u8]) -> Tally {
        let start = Instant::now();
        let verdict = sim::verify::verify(cubin);
        let time = start.elapsed();
        let (instructions, reports) = match verdict {
            Ok(verdict) => (verdict.instructions, verdict.reports.iter().map(ToString::to_string).collect()),
            Err(error) => (0, vec![error.to_string()]),
        };
        let reports: Vec<String> =
            reports.into_iter().map(|report: String| format!("{what}: {report}")).collect();
        Tally { files: 1, clean: usize::from(reports.is_empty()), instructions, reports, time }
    }
}

/// ptxas's code of the corpus and of the kernels for the machine model. That of the forms has a word of zeros for `fence.release.sys`, which is no instruction.
fn of_reference(reference: &Reference, options: &Options) -> Result<Tally> {
    let mut cubins = reference.corpus(&options.ptx_files())?;
    cubins.extend(reference.probes()?);
    let one = |file: &PathBuf| Ok(Tally::of(&file.display().to_string(), &std::fs::read(file)?));
    Ok(sum(cubins.par_iter().map(one).collect::<Result<Vec<_>>>()?))
}

/// Our code of the corpus and of the forms. What does not compile is told by `compile-forms` and by the tests.
fn of_ours(target: &str, level: u8, options: &Options, forms: &[Form]) -> Result<Tally> {
    let files = shell::files_below(&options.ptx_files(), "ptx")?;
    let verified = |what: String, text: &str| {
        compile_ours(text, target, level)
            .ok()
            .map(|cubin| Tally::of(&format!("{what} for {target} -O{level}"), &cubin))
    };
    let file =
        |file: &PathBuf| Ok(verified(file.display().to_string(), &retarget(&shell::read(file)?, target)));
    let mut tallies = files.par_iter().map(file).collect::<Result<Vec<_>>>()?;
    let accepted = forms.par_iter().filter(|form| form.accepted().any(|accepting| accepting == target));
    let head = declarations(target);
    tallies.par_extend(
        accepted.map(|form| verified(form.ptx.clone(), &(head.clone() + &entry("k", &form.ptx)))),
    );
    Ok(sum(tallies.into_iter().flatten()))
}

fn sum(tallies: impl IntoIterator<Item = Tally>) -> Tally {
    let mut total = Tally::default();
    tallies.into_iter().for_each(|tally| total.add(tally));
    total
}
