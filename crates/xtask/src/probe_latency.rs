//! `probe-latency`: the machine model's distances, measured in code that ptxas emits.
//!
//! Random chains, some with too many predicates (`chains.rs`), programs for the asynchronous units (`units.rs`), pairs
//! that chance leaves apart (`pairs.rs`), the kernels in `crates/xtask/probes` and more real PTX go through ptxas for each
//! target; `survey.rs` reads the cubins and makes the rows of `crates/sass/src/model/distances/*.txt`. Without `--write` the table is compared with the one in the repository: the task fails where ptxas
//! was seen closer than the model allows, which would make the verifier reject good code. With it, the closer of what
//! was seen now and before is written down.

mod chains;
mod pairs;
mod survey;
mod units;

use crate::compile::compile_ours;
use crate::reference::{OPTIONS, Reference, retarget};
use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use sass::Isa;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One target or more for each encoding; sm_87 shares sm_86's encoding and alone has HFMA2.MMA with it.
const TARGETS: [&str; 10] =
    ["sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a"];
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
    let directory = shell::root().join("crates/sass/src/model/distances");
    if let What::Unknown = request.what {
        return unknown(&read_table(&directory)?);
    }
    if let What::Waits = request.what {
        return waits(&read_table(&directory)?, &request);
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
            let earlier = if *fresh { Table::new() } else { read_table(&directory)? };
            write_table(&directory, &survey::table(&cubins, &earlier)?)
        }
        What::Operations(pair) => {
            print!("{}", survey::operations(&cubins, pair)?);
            Ok(())
        }
        What::Mixed => {
            print!("{}", survey::mixed(&cubins)?);
            Ok(())
        }
        _ => compare(&read_table(&directory)?, &survey::table(&cubins, &Table::new())?),
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

/// For each encoding the least distance and how often it was seen; 0 times: never.
type Cells = [(u8, u32); Isa::ALL.len()];
/// By relation and ports: `raw Alu.R Fma.R`.
type Table = BTreeMap<String, Cells>;

fn file(directory: &Path, isa: Isa) -> PathBuf {
    directory.join(format!("sm_{}.txt", isa.sm()))
}

fn read_table(directory: &Path) -> Result<Table> {
    let mut table = Table::new();
    for isa in Isa::ALL {
        let file = file(directory, isa);
        for line in shell::read(&file)?.lines().filter(|line| !line.is_empty() && !line.starts_with("//")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [relation, from, to, cycles, times] = words[..] else {
                return Err(format!("{}: no row: {line}", file.display()).into());
            };
            let cells = table.entry([relation, from, to].join(" ")).or_default();
            cells[isa as usize] = (cycles.parse()?, times.parse()?);
        }
    }
    Ok(table)
}

/// Rows go to the files of the encodings that they were seen on. Comments at the head of a file stay.
fn write_table(directory: &Path, rows: &[(String, Cells)]) -> Result<()> {
    for isa in Isa::ALL {
        let file = file(directory, isa);
        let before = shell::read(&file).unwrap_or_default();
        let is_head = |line: &&str| line.is_empty() || line.starts_with("//");
        let mut text: String = before.lines().take_while(is_head).map(|line| format!("{line}\n")).collect();
        for (name, cells) in rows {
            let (cycles, times) = cells[isa as usize];
            if let ([relation, from, to], 1..) = (&name.split(' ').collect::<Vec<_>>()[..], times) {
                text += &format!("{relation:<5} {from:<21} {to:<21} {cycles:>3} {times:>5}\n");
            }
        }
        shell::write(&file, text)?;
    }
    Ok(())
}

/// Lists where the loops of our code wait for a distance that was never seen on the target, most cycles first.
fn waits(table: &Table, request: &Request) -> Result<()> {
    let corpus = request.corpus.as_ref().ok_or("--waits needs --corpus")?;
    for target in &request.targets {
        let mut waits = survey::Waits::default();
        for file in shell::files_below(corpus, "ptx")? {
            // What another target's PTX needs and this one lacks is refused.
            if let Ok(cubin) = compile_ours(&retarget(&shell::read(&file)?, target), target, 3) {
                survey::waits(&cubin, &mut waits)?;
            }
        }
        let name = target.trim_end_matches(['a', 'f']);
        let column = Isa::ALL.iter().position(|isa| name == format!("sm_{}", isa.sm()));
        let column = column.ok_or(format!("{target} has no distances of its own"))?;
        let seen = |pair: &_| table.get(&survey::row_name(pair)).is_some_and(|cells| cells[column].1 > 0);
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
fn unknown(table: &Table) -> Result<()> {
    let mut count = 0;
    for (ports, cells) in table {
        let never = cells.iter().zip(Isa::ALL).filter(|((_, times), _)| *times == 0);
        let never: Vec<String> = never.map(|(_, isa)| isa.sm().to_string()).collect();
        if !never.is_empty() {
            println!("{ports} never on {}", never.join(" "));
            count += never.len();
        }
    }
    println!("{count} distances are taken from other targets");
    Ok(())
}

/// Fails where the measured distance is below the table's; lists pairs that the table does not have.
fn compare(table: &Table, measured: &[(String, Cells)]) -> Result<()> {
    let (mut closer, mut new, mut pairs) = (0, 0, 0);
    for (ports, cells) in measured {
        let seen = cells.iter().zip(Isa::ALL).filter(|((_, times), _)| *times > 0);
        for ((least, _), isa) in seen {
            pairs += 1;
            let known = table.get(ports).map(|cells| cells[isa as usize]);
            match known.filter(|(_, times)| *times > 0).map(|(before, _)| before) {
                Some(before) if *least < before => {
                    println!("{ports} on sm_{}: {least}, the table has {before}", isa.sm());
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What `--write` writes for the rows of the repository's files is those files.
    #[test]
    fn files_are_as_they_are_written() {
        let directory = shell::root().join("crates/sass/src/model/distances");
        let rows: Vec<_> = read_table(&directory).expect("rows").into_iter().collect();
        let copy = std::env::temp_dir().join(format!("distances-{}", std::process::id()));
        std::fs::create_dir_all(&copy).expect("a folder");
        for isa in Isa::ALL {
            std::fs::copy(file(&directory, isa), file(&copy, isa)).expect("a file");
        }
        write_table(&copy, &rows).expect("files");
        for isa in Isa::ALL {
            let sorted = |directory: &Path| {
                let text = shell::read(&file(directory, isa)).expect("a file");
                let mut lines: Vec<String> = text.lines().map(String::from).collect();
                lines.sort();
                lines
            };
            assert!(sorted(&directory) == sorted(&copy), "sm_{}", isa.sm());
        }
        std::fs::remove_dir_all(copy).expect("removed");
    }
}
