//! `probe-latency`: the machine model's distances, measured in code that ptxas emits.
//!
//! Random chains, some with too many predicates (`chains.rs`), programs for the asynchronous units (`units.rs`), pairs
//! that chance leaves apart (`pairs.rs`), the kernels in `crates/xtask/probes` and more real PTX go through ptxas for each
//! target; `survey.rs` reads the cubins and
//! prints the table. Without `--write` the table is compared with the one in the repository: the task fails where ptxas
//! was seen closer than the model allows, which would make the verifier reject good code. With it, the closer of what
//! was seen now and before is written down.

mod chains;
mod pairs;
mod survey;
mod units;

use crate::conformance::compile_ours;
use crate::reference::{OPTIONS, Reference, retarget};
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use std::path::PathBuf;

/// The targets of the table's columns; sm_87 shares sm_86's encoding and alone has HFMA2.MMA with it.
const TARGETS: [&str; 10] =
    ["sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a"];
/// The columns themselves.
const COLUMNS: [&str; 9] = ["75", "80", "86", "89", "90", "100", "103", "110", "120"];
/// Waits that are listed for each target.
const LISTED: usize = 20;
/// Forms in one random program.
const LENGTH: u32 = 150;

struct Request {
    targets: Vec<String>,
    corpus: Option<PathBuf>,
    programs: u64,
    what: What,
}

enum What {
    Compare,
    /// Without `fresh`, what earlier runs saw stays.
    Write {
        fresh: bool,
    },
    Unknown,
    /// Relation and ports.
    Operations([String; 3]),
    Mixed,
    Waits,
}

pub fn run(arguments: lexopt::Parser) -> Result<()> {
    let request = parse(arguments)?;
    let table = shell::root().join("crates/sass/src/model/distances.rs");
    if let What::Unknown = request.what {
        return unknown(&shell::read(&table)?);
    }
    if let What::Waits = request.what {
        return waits(&shell::read(&table)?, &request);
    }
    let tools = Tools::find()?;
    tools.check_versions()?;
    let mut cubins = Vec::new();
    for target in &request.targets {
        let made = compile(&tools, target, &request)?;
        eprintln!("{target}: {} cubins", made.len());
        cubins.extend(made);
    }
    match &request.what {
        What::Write { fresh } => {
            let earlier = if *fresh { String::new() } else { shell::read(&table)? };
            shell::write(&table, survey::table(&cubins, &rows(&earlier))?)
        }
        What::Operations(pair) => {
            print!("{}", survey::operations(&cubins, pair)?);
            Ok(())
        }
        What::Mixed => {
            print!("{}", survey::mixed(&cubins)?);
            Ok(())
        }
        _ => compare(&shell::read(&table)?, &survey::table(&cubins, &[])?),
    }
}

fn parse(mut arguments: lexopt::Parser) -> Result<Request> {
    use lexopt::prelude::*;
    let mut request = Request { targets: Vec::new(), corpus: None, programs: 1000, what: What::Compare };
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("corpus") => request.corpus = Some(arguments.value()?.into()),
            Long("programs") => request.programs = arguments.value()?.parse()?,
            Long("write") => request.what = What::Write { fresh: false },
            Long("fresh") => request.what = What::Write { fresh: true },
            Long("unknown") => request.what = What::Unknown,
            Long("mixed") => request.what = What::Mixed,
            Long("waits") => request.what = What::Waits,
            Long("ops") => {
                let mut word = || Ok::<_, crate::Error>(arguments.value()?.string()?);
                request.what = What::Operations([word()?, word()?, word()?]);
            }
            Value(target) => request.targets.push(target.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    if request.targets.is_empty() {
        request.targets = TARGETS.map(String::from).to_vec();
    } else if let What::Write { .. } = request.what {
        return Err("the table is written for all targets: name none".into());
    }
    Ok(request)
}

/// What ptxas makes for a target of the random programs, of those for the asynchronous units, and of the corpus.
fn compile(tools: &Tools, target: &str, request: &Request) -> Result<Vec<PathBuf>> {
    let digits = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    let sm: u32 = digits.parse().map_err(|_| format!("'{target}' is no target: sm_75, sm_90a"))?;
    let reference = Reference { tools, target, option: "-O3" };
    let seeds = 0..request.programs;
    let chain = |seed| (format!("chain-{seed}"), chains::program(target, sm, seed, LENGTH, seed % 4 == 3));
    let crowd = |seed| (format!("crowd-{seed}"), chains::crowded(target, sm, seed, LENGTH, seed % 4 == 3));
    let random: Vec<_> = seeds.map(chain).chain((0..request.programs / 4).map(crowd)).collect();
    let refused = |name: &str| format!("ptxas refuses {name} for {target}");
    let one = |(name, text): &(String, String)| {
        reference.compile(name, text)?.ok_or_else(|| crate::Error::from(refused(name)))
    };
    let mut cubins = random.par_iter().map(one).collect::<Result<Vec<_>>>()?;
    let rarer: Vec<_> = units::programs(target, sm).into_iter().chain(pairs::programs(target, sm)).collect();
    let one = |(name, text): &(String, String)| {
        let cubin = reference.compile(name, text)?;
        // ptxas 13.0.88 crashes on one of them, for sm_86 and sm_89.
        if cubin.is_none() {
            eprintln!("{}", refused(name));
        }
        Ok(cubin)
    };
    cubins.extend(rarer.par_iter().map(one).collect::<Result<Vec<_>>>()?.into_iter().flatten());
    for option in OPTIONS {
        let reference = Reference { tools, target, option };
        cubins.extend(reference.probes()?);
        if let Some(corpus) = &request.corpus {
            cubins.extend(reference.corpus(corpus)?);
        }
    }
    Ok(cubins)
}

/// A row of a table: relation and ports, then for each column the least distance and how often there was one.
type Row = (String, Vec<(u8, u32)>);

fn rows(table: &str) -> Vec<Row> {
    let mut relation = "";
    let mut rows = Vec::new();
    for line in table.lines() {
        if let Some(name) = line.strip_prefix("pub(super) const ") {
            relation = name.split(':').next().unwrap_or_default();
        }
        if let Some((ports, cells)) = line.trim_start().strip_prefix("((").and_then(|row| row.split_once('['))
        {
            let cell = |cell: &str| {
                let (least, times) = cell.trim_matches(['(', ')', ' ', ']', ';', ',']).split_once(',')?;
                Some((least.trim().parse().ok()?, times.trim().parse().ok()?))
            };
            let ports = ports.split_whitespace().collect::<Vec<_>>().join(" ");
            let cells = cells.split("), (").map(|text| cell(text).unwrap_or_default());
            rows.push((format!("{relation} ({ports}"), cells.collect()));
        }
    }
    rows
}

/// Lists where the loops of our code wait for a distance that was never seen on the target, most cycles first.
fn waits(table: &str, request: &Request) -> Result<()> {
    let corpus = request.corpus.as_ref().ok_or("--waits needs --corpus")?;
    let rows: std::collections::BTreeMap<_, _> = rows(table).into_iter().collect();
    for target in &request.targets {
        let mut waits = survey::Waits::default();
        for file in shell::files_below(corpus, "ptx")? {
            // What another target's PTX needs and this one lacks is refused.
            if let Ok(cubin) = compile_ours(&retarget(&shell::read(&file)?, target), target, 3) {
                survey::waits(&cubin, &mut waits)?;
            }
        }
        let column = COLUMNS.iter().position(|sm| target.trim_end_matches(['a', 'f']) == format!("sm_{sm}"));
        let column = column.ok_or(format!("{target} has no column of its own"))?;
        let key = |pair: &_| survey::row_name(pair).split_whitespace().collect::<Vec<_>>().join(" ");
        let seen = |pair: &_| rows.get(&key(pair)).is_some_and(|columns| columns[column].1 > 0);
        let mut unseen: Vec<_> = waits.into_iter().filter(|(pair, _)| !seen(pair)).collect();
        unseen.sort_by_key(|(_, (times, cycles))| std::cmp::Reverse(times * u32::from(*cycles)));
        println!("{target}: {} pairs that were never seen hold back instructions in loops", unseen.len());
        for (pair, (times, cycles)) in unseen.iter().take(LISTED) {
            println!("  {:<48} {cycles:>3} cycles, {times:>5} times", survey::pair_name(pair));
        }
    }
    Ok(())
}

/// Lists the pairs that were seen on some targets, with the targets that they were never seen on: there the model takes
/// the longest of the others. Pairs that were seen nowhere have no row.
fn unknown(table: &str) -> Result<()> {
    let mut cells = 0;
    for (ports, columns) in rows(table) {
        let never: Vec<&str> =
            columns.iter().zip(COLUMNS).filter(|((_, times), _)| *times == 0).map(|(_, sm)| sm).collect();
        if !never.is_empty() {
            println!("{ports} never on {}", never.join(" "));
            cells += never.len();
        }
    }
    println!("{cells} distances are taken from other targets");
    Ok(())
}

/// Fails where the measured distance is below the table's; lists pairs that the table does not have.
fn compare(table: &str, measured: &str) -> Result<()> {
    let known: std::collections::BTreeMap<_, _> = rows(table).into_iter().collect();
    let (mut closer, mut new, mut pairs) = (0, 0, 0);
    for (ports, columns) in rows(measured) {
        for (column, (least, _)) in columns.iter().enumerate().filter(|(_, (_, times))| *times > 0) {
            pairs += 1;
            let known = known.get(&ports).and_then(|columns| columns.get(column));
            match known.filter(|(_, times)| *times > 0).map(|(before, _)| before) {
                Some(before) if least < before => {
                    println!("{ports} column {column}: {least}, the table has {before}");
                    closer += 1;
                }
                Some(_) => (),
                None => new += 1,
            }
        }
    }
    println!("{pairs} distances measured: {closer} below the table, {new} of pairs that it does not have");
    if closer == 0 { Ok(()) } else { Err("ptxas comes closer than the machine model allows".into()) }
}
