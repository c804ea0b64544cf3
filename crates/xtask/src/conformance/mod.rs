//! `cargo xtask conformance`: how much of what the reference tools do we do the same.
//!
//! A part measures, lists the first differences, and states its bars. The task fails if a bar is not met, and
//! it fails if there was nothing to measure.

use crate::{Result, shell};
use std::path::PathBuf;

mod binutils;
pub mod browser;
mod commands;
mod compile_forms;
mod corpus;
mod cubin_diff;
mod forms;
mod json;
mod kernels;
mod matrix;
mod mistakes;
mod modifiers;
mod mutants;
mod ordering;
mod pages;
mod reproducible;
mod simulator;
mod tensor_text;
mod toolkits;
mod verify;
mod world;

type Part = (&'static str, fn(&Options) -> Result<Vec<Bar>>);

const PARTS: [Part; 16] = [
    ("forms", forms::run),
    ("compile-forms", compile_forms::run),
    ("corpus", corpus::run),
    ("mistakes", mistakes::run),
    ("commands", commands::run),
    ("reproducible", reproducible::run),
    ("simulator", simulator::run),
    ("kernels", kernels::run),
    ("matrix", matrix::run),
    ("modifiers", modifiers::run),
    ("tensor-text", tensor_text::run),
    ("verify", verify::run),
    ("mutants", mutants::run),
    ("ordering-mutants", ordering::run),
    ("pages", pages::run),
    ("binutils", binutils::run),
];

/// Parts that need what only the command line can name, or a build of their own: they run where they are asked for.
const PARTS_ON_REQUEST: [Part; 3] =
    [("playground", pages::playground), ("toolkits", toolkits::run), ("world", world::run)];

pub struct Options {
    /// Holds `corpus/` (PTX files) and `data/` (recorded answers of ptxas). Without it, the small corpus and the
    /// sample of the data that are part of the repository.
    pub corpus: Option<PathBuf>,
    /// How many differences of a kind are listed.
    pub show: usize,
    pub family: Option<String>,
    pub ptxas_same: usize,
    /// Write down ptxas's answers anew.
    pub record: bool,
    /// Write modules and cubins for a GPU there instead of running them here.
    pub bundle: Option<PathBuf>,
    /// Leave ptxas's cubins out of the bundle.
    pub ours_only: bool,
    /// Run on this machine's GPU, not in the simulator.
    pub gpu: bool,
    /// Another target than the usual one; of `world` several, with commas between.
    pub target: Option<String>,
    /// Folders with PTX that others wrote, or with the tools of releases.
    pub folders: Vec<PathBuf>,
    /// The compiler that `world` compares, if not the one that people install.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            corpus: None,
            show: 20,
            family: None,
            ptxas_same: 0,
            record: false,
            bundle: None,
            ours_only: false,
            gpu: false,
            target: None,
            folders: Vec::new(),
            program: None,
        }
    }
}

impl Options {
    fn ptx_files(&self) -> PathBuf {
        match &self.corpus {
            Some(corpus) => corpus.join("corpus"),
            None => shell::root().join("crates/ptx/tests/corpus"),
        }
    }

    fn forms(&self) -> PathBuf {
        match &self.corpus {
            Some(corpus) => corpus.join("data/ptx-forms.jsonl"),
            None => shell::root().join("crates/xtask/data/ptx-forms-sample.jsonl"),
        }
    }
}

pub fn run(mut arguments: lexopt::Parser) -> Result<()> {
    use lexopt::prelude::*;
    let mut options = Options::default();
    let mut part = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("corpus") => options.corpus = Some(arguments.value()?.into()),
            Long("show") => options.show = arguments.value()?.parse()?,
            Long("family") => options.family = Some(arguments.value()?.string()?),
            Long("record") => options.record = true,
            Long("bundle") => options.bundle = Some(arguments.value()?.into()),
            Long("ours-only") => options.ours_only = true,
            Long("gpu") => options.gpu = true,
            Long("target") => options.target = Some(arguments.value()?.string()?),
            Long("ptxas-same") => options.ptxas_same = arguments.value()?.parse()?,
            Long("program") => options.program = Some(arguments.value()?.into()),
            Value(name) if part.is_none() => part = Some(name.string()?),
            Value(folder) if matches!(part.as_deref(), Some("toolkits" | "world")) => {
                options.folders.push(folder.into())
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if let Some(part) = part {
        return run_part(&part, &options);
    }
    let mut failed = Vec::new();
    for (name, _) in PARTS {
        println!("\n== {name}");
        if let Err(error) = run_part(name, &options) {
            println!("{name}: {error}");
            failed.push(name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

pub fn run_part(name: &str, options: &Options) -> Result<()> {
    let mut parts = PARTS.into_iter().chain(PARTS_ON_REQUEST);
    let (_, part) = parts.find(|(known, _)| *known == name).ok_or_else(|| {
        let names: Vec<&str> = PARTS.iter().chain(&PARTS_ON_REQUEST).map(|(name, _)| *name).collect();
        format!("no part '{name}': the parts are {}", names.join(", "))
    })?;
    let bars = part(options)?;
    println!();
    for bar in &bars {
        println!("{bar}");
    }
    match bars.iter().filter(|bar| !bar.is_met()).count() {
        0 => Ok(()),
        missed => Err(format!("{missed} of {} bars missed", bars.len()).into()),
    }
}

/// A share that must be reached: `equal` of `all`, at least `percent`.
pub struct Bar {
    what: &'static str,
    equal: usize,
    all: usize,
    percent: usize,
}

impl Bar {
    /// Nothing measured is a bar missed.
    fn is_met(&self) -> bool {
        self.all > 0 && self.equal * 100 >= self.all * self.percent
    }
}

impl std::fmt::Display for Bar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Bar { what, equal, all, percent } = self;
        let verdict = if self.is_met() { "ok" } else { "MISSED" };
        let share = percentage(*equal, *all);
        write!(f, "{what:<44} {equal:>7} of {all:>7}  {share}  bar {percent:>3} %  {verdict}")
    }
}

/// Cut, not rounded: 100 means all.
fn percentage(equal: usize, all: usize) -> String {
    let hundredths = (equal * 10_000).checked_div(all).unwrap_or(0);
    format!("{:>3}.{:02} %", hundredths / 100, hundredths % 100)
}

/// Prints the first differences and how many there are in all.
fn list_differences(title: &str, differences: &[String], show: usize) {
    if differences.is_empty() {
        return;
    }
    println!("\n{title}: {}", differences.len());
    for difference in differences.iter().take(show) {
        println!("  {difference}");
    }
    if differences.len() > show {
        println!("  … and {} more (--show N lists more)", differences.len() - show);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        let bar = |equal, all, percent| Bar { what: "x", equal, all, percent }.is_met();
        assert!(bar(100, 100, 100));
        assert!(!bar(99_999, 100_000, 100));
        assert!(bar(99, 100, 99));
        assert!(!bar(0, 0, 0), "nothing measured is not a pass");
        assert_eq!(percentage(99_999, 100_000), " 99.99 %");
        assert_eq!(percentage(1, 1), "100.00 %");
    }
}
