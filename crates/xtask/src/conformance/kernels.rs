//! `conformance kernels`: whole kernels of Triton and of torch.compile, attention and matrix products among them. The
//! interpreter runs their PTX, the simulator ptxas's code of it and ours: all leave the same memory, or all stop.

use super::{Bar, Options, list_differences};
use crate::compile::{compile_ours, compile_with, target_of};
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use sim::kernels::{Case, Data};
use std::path::Path;

const FOLDERS: [&str; 2] = ["triton", "inductor"];
const BLOCKS: u32 = 2;

/// Whose code, and at which level.
const WAYS: [(&str, Compiler, u8); 4] = [
    ("our code at -O0 leaves the same memory", Compiler::Ours, 0),
    ("our code at -O3 leaves the same memory", Compiler::Ours, 3),
    ("ptxas's code at -O0 leaves the same memory", Compiler::Theirs, 0),
    ("ptxas's code at -O3 leaves the same memory", Compiler::Theirs, 3),
];

#[derive(Clone, Copy)]
enum Compiler {
    Ours,
    Theirs,
}

/// PTX lets a product and a sum that say nothing of rounding become one instruction, which rounds once. ptxas does so
/// unless it is told not to; then its code and the interpreter agree to the last bit.
const NO_FUSING: &str = "-fmad=false";

/// What a kernel left in memory, or why it stopped.
type Outcome = std::result::Result<Vec<Vec<u8>>, String>;

struct Comparison {
    name: String,
    interpreted: Outcome,
    /// In the order of [`WAYS`].
    simulated: Vec<Outcome>,
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
    let stopped: Vec<String> = all
        .iter()
        .filter_map(|one| one.interpreted.as_ref().err().map(|why| format!("{}: {why}", one.name)))
        .collect();
    list_differences("kernels that stop in all ways, so that no memory is compared", &stopped, usize::MAX);
    let bar = |what, failed: usize, percent| Bar { what, equal: all.len() - failed, all: all.len(), percent };
    let mut bars = Vec::new();
    for (way, (what, ..)) in WAYS.iter().enumerate() {
        let different: Vec<String> = all.iter().filter_map(|one| one.difference(way)).collect();
        list_differences(&format!("not so: {what}"), &different, options.show);
        bars.push(bar(*what, different.len(), 100));
    }
    // Indices that are floats are out of bounds: kernels that check them stop.
    bars.push(bar("kernels that run to their end", stopped.len(), 90));
    Ok(bars)
}

fn compare(tools: &Tools, file: &Path) -> Result<Vec<Comparison>> {
    let source = shell::read(file)?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let target = target_of(&source).ok_or_else(|| format!("{name} has no .target"))?;
    let module = ptx::parse(&source, &ptx::Options::default()).module.ok_or("the file does not parse")?;
    let interpreted = sim::ptx::Program::new(&module, &source);
    let scratch = shell::target_dir().join("conformance/kernels").join(&name);
    let compile = |(_, compiler, level): &(&str, Compiler, u8)| -> Result<sim::sass::Program> {
        let options = [NO_FUSING, &format!("-O{level}")];
        let cubin = match compiler {
            Compiler::Ours => compile_ours(&source, target, *level)?,
            Compiler::Theirs => compile_with(tools, &scratch, &source, target, &options)?,
        };
        Ok(sim::sass::Program::new(&cubin)?)
    };
    let programs = WAYS.iter().map(compile).collect::<Result<Vec<_>>>()?;
    let mut comparisons = Vec::new();
    for case in Case::of(&module, BLOCKS) {
        for data in [Data::Numbers, Data::Indices] {
            let simulate = |program| text(case.run(&mut sim::sass::Machine::new(program), data));
            comparisons.push(Comparison {
                name: format!("{name} {} {data:?}", case.kernel),
                interpreted: text(case.run(&mut sim::ptx::Machine::new(&interpreted), data)),
                simulated: programs.iter().map(simulate).collect(),
            });
        }
    }
    Ok(comparisons)
}

fn text(outcome: std::result::Result<Vec<Vec<u8>>, Box<dyn std::error::Error>>) -> Outcome {
    outcome.map_err(|error| error.to_string())
}

impl Comparison {
    /// How a way differs from the interpreter's. Ways that stop need not stop with the same words.
    fn difference(&self, way: usize) -> Option<String> {
        let what = match (&self.interpreted, self.simulated.get(way)?) {
            (Ok(expected), Ok(got)) if expected == got => return None,
            (Err(_), Err(_)) => return None,
            (Ok(_), Ok(_)) => "other memory".to_string(),
            (Ok(_), Err(error)) => format!("stops: {error}"),
            (Err(error), Ok(_)) => format!("ends, the interpreter stops: {error}"),
        };
        Some(format!("{}: {what}", self.name))
    }
}
