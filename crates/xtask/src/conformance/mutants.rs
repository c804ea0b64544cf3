//! Part `mutants`: errors planted in ptxas's code, one at a time, each of which the schedule verifier must report.
//!
//! [`sim::verify::mutants`] says what may be planted, and how that is decided without the verifier.

use super::verify::TARGETS;
use super::{Bar, Options, list_differences};
use crate::Result;
use crate::reference::Reference;
use crate::tools::Tools;
use cubin::Object;
use rayon::prelude::*;
use sass::{Model, WORD_BYTES};
use sim::verify::mutants::{Mutant, What, mutants};
use sim::verify::{Code, Error, read, verify_code};

/// How many are planted in all, where there is room for so many.
const PLANTED: usize = 21_000;
/// How many there must be.
const LEAST: usize = 10_000;
/// Longer sections are left out: each mutant verifies its whole section.
const LONGEST: usize = 1500;

pub fn run(options: &Options) -> Result<Vec<Bar>> {
    let tools = Tools::find()?;
    let (mut planted, mut found) = ([0; What::NAMES.len()], [0; What::NAMES.len()]);
    let mut missed = Vec::new();
    for target in TARGETS {
        let sections = sections(&Reference { tools: &tools, target, option: "-O3" }, options)?;
        let places: usize = sections.iter().map(|(_, places)| places.len()).sum();
        let every = (places * TARGETS.len() / PLANTED).max(1);
        println!("{target}: {places} places in {} sections, one in {every} is taken", sections.len());
        let tried = sections.par_iter().enumerate().map(|(number, (code, places))| {
            // Other places in each section, and every place of the rare kinds.
            let chosen = places.iter().enumerate().filter(|(place, mutant)| {
                (place + number) % every == 0 || matches!(mutant.what.kind(), 3 | 4 | 7)
            });
            chosen.map(|(_, mutant)| Ok((*mutant, is_found(code, mutant)?))).collect::<Result<Vec<_>>>()
        });
        for ((code, _), tried) in sections.iter().zip(tried.collect::<Result<Vec<_>>>()?) {
            for (mutant, is_found) in tried {
                planted[mutant.what.kind()] += 1;
                found[mutant.what.kind()] += usize::from(is_found);
                if !is_found {
                    missed.push(format!("{target} {}: {mutant:?}", code.name));
                }
            }
        }
    }
    list_differences("planted errors that are not reported", &missed, options.show);
    let all = planted.iter().sum::<usize>();
    let mut bars: Vec<Bar> = What::NAMES
        .into_iter()
        .enumerate()
        .map(|(kind, what)| Bar { what, equal: found[kind], all: planted[kind], percent: 100 })
        .collect();
    if options.corpus.is_some() {
        bars.push(Bar { what: "planted", equal: all, all: LEAST, percent: 100 });
    } else {
        // The small corpus has no asynchronous products to wait for.
        bars.retain(|bar| bar.all > 0);
    }
    Ok(bars)
}

/// The sections of ptxas's code, each with all that can be planted in it.
fn sections(reference: &Reference, options: &Options) -> Result<Vec<(Code, Vec<Mutant>)>> {
    let mut sections = Vec::new();
    for (seed, file) in reference.corpus(&options.ptx_files())?.iter().enumerate() {
        let object = Object::read(&std::fs::read(file)?)?;
        for code in read(&object)?.into_iter().filter(|code| code.insts.len() <= LONGEST) {
            let places = mutants(Model::of(code.isa), &code.insts, seed as u64);
            sections.push((code, places));
        }
    }
    Ok(sections)
}

/// Whether the verifier reports the pair that the mutant parts, or that nothing tells when the first of it is done.
fn is_found(code: &Code, mutant: &Mutant) -> Result<bool> {
    let mut mutated = code.clone();
    mutant.apply(&mut mutated.insts);
    match verify_code(&mutated) {
        Err(Error::Unsignalled { address, .. }) => Ok(address == mutant.first as u64 * WORD_BYTES),
        verdict => Ok(mutant.is_reported(&verdict?)),
    }
}
