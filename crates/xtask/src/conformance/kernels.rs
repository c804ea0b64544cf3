//! `conformance kernels`: whole kernels of Triton and of torch.compile, attention and matrix products among them. The
//! interpreter runs their PTX, the simulator ptxas's code of it and ours: all three leave the same memory, or all stop.

use super::corpus::compile_with;
use super::{Bar, Options, compile_ours, list_differences, target_of};
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use sim::kernels::{Case, Data};
use std::path::Path;

const FOLDERS: [&str; 2] = ["triton", "inductor"];
const BLOCKS: u32 = 2;

/// PTX lets a product and a sum that say nothing of rounding become one instruction, which rounds once. ptxas does so
/// unless it is told not to; then its code and the interpreter agree to the last bit.
const OPTIONS: [&str; 2] = ["-O3", "-fmad=false"];

/// What a kernel left in memory, or why it stopped.
type Outcome = std::result::Result<Vec<Vec<u8>>, String>;

struct Comparison {
    name: String,
    interpreted: Outcome,
    theirs: Outcome,
    ours: Outcome,
}

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let tools = Tools::find()?;
    let mut files = Vec::new();
    for folder in FOLDERS {
        files.extend(shell::files_below(&options.ptx_files().join(folder), "ptx")?);
    }
    let compared: Vec<Vec<Comparison>> =
        files.par_iter().map(|file| compare(&tools, file)).collect::<Result<_>>()?;
    let all: Vec<Comparison> = compared.into_iter().flatten().collect();
    let ours: Vec<String> = all.iter().filter_map(|one| one.difference(&one.ours)).collect();
    let theirs: Vec<String> = all.iter().filter_map(|one| one.difference(&one.theirs)).collect();
    list_differences("our code leaves other memory than the interpreter", &ours, options.show);
    list_differences("ptxas's code leaves other memory than the interpreter", &theirs, options.show);
    let stopped: Vec<String> = all
        .iter()
        .filter_map(|one| one.interpreted.as_ref().err().map(|why| format!("{}: {why}", one.name)))
        .collect();
    list_differences("kernels that stop in all ways, so that no memory is compared", &stopped, usize::MAX);
    let bar = |what, failed: usize, percent| Bar { what, equal: all.len() - failed, all: all.len(), percent };
    Ok(vec![
        bar("our code leaves the same memory", ours.len(), 100),
        bar("ptxas's code leaves the same memory", theirs.len(), 100),
        // Indices that are floats are out of bounds: kernels that check them stop.
        bar("kernels that run to their end", stopped.len(), 90),
    ])
}

fn compare(tools: &Tools, file: &Path) -> Result<Vec<Comparison>> {
    let source = shell::read(file)?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let target = target_of(&source).ok_or_else(|| format!("{name} has no .target"))?;
    let module = ptx::parse(&source, &ptx::Options::default()).module.ok_or("the file does not parse")?;
    let interpreted = sim::ptx::Program::new(&module, &source);
    let scratch = shell::target_dir().join("conformance/kernels").join(&name);
    let theirs = sim::sass::Program::new(&compile_with(tools, &scratch, &source, target, &OPTIONS)?)?;
    let ours = sim::sass::Program::new(&compile_ours(&source, target, 3)?)?;
    let mut comparisons = Vec::new();
    for case in Case::of(&module, BLOCKS) {
        for data in [Data::Numbers, Data::Indices] {
            let simulate = |program| text(case.run(&mut sim::sass::Machine::new(program), data));
            comparisons.push(Comparison {
                name: format!("{name} {} {data:?}", case.kernel),
                interpreted: text(case.run(&mut sim::ptx::Machine::new(&interpreted), data)),
                theirs: simulate(&theirs),
                ours: simulate(&ours),
            });
        }
    }
    Ok(comparisons)
}

fn text(outcome: std::result::Result<Vec<Vec<u8>>, Box<dyn std::error::Error>>) -> Outcome {
    outcome.map_err(|error| error.to_string())
}

impl Comparison {
    /// How another way differs from the interpreter's. Ways that stop need not stop with the same words.
    fn difference(&self, other: &Outcome) -> Option<String> {
        let what = match (&self.interpreted, other) {
            (Ok(expected), Ok(got)) if expected == got => return None,
            (Err(_), Err(_)) => return None,
            (Ok(_), Ok(_)) => "other memory".to_string(),
            (Ok(_), Err(error)) => format!("stops: {error}"),
            (Err(error), Ok(_)) => format!("ends, the interpreter stops: {error}"),
        };
        Some(format!("{}: {what}", self.name))
    }
}
