//! `probe-latency`: the machine model's distances, measured in code that ptxas emits.
//!
//! Random chains (`chains.rs`) and real PTX go through ptxas for each target; an example program of `sim` reads the
//! cubins and prints the table. Without `--write` the table is compared with the one in the repository: the task fails
//! where ptxas was seen closer than the model allows, which would make the verifier reject good code.

mod chains;

use crate::tools::Tools;
use crate::{Result, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The targets of the table's columns; sm_87 shares sm_86's encoding and alone has HFMA2.MMA with it.
const TARGETS: [&str; 10] =
    ["sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a"];
/// Forms in one random program.
const LENGTH: u32 = 150;

struct Request {
    targets: Vec<String>,
    corpus: Option<PathBuf>,
    programs: u64,
    write: bool,
    unknown: bool,
}

pub fn run(arguments: lexopt::Parser) -> Result<()> {
    let request = parse(arguments)?;
    let table = shell::root().join("crates/sass/src/model/distances.rs");
    if request.unknown {
        return unknown(&shell::read(&table)?);
    }
    let tools = Tools::find()?;
    tools.check_versions()?;
    let folder = shell::target_dir().join("probe-latency");
    let mut cubins = Vec::new();
    for target in &request.targets {
        let made = compile(&tools, target, &request, &folder.join(target))?;
        println!("{target}: {} cubins", made.len());
        cubins.extend(made);
    }
    let list = folder.join("cubins.txt");
    shell::write(&list, cubins.iter().map(|path| format!("{}\n", path.display())).collect::<String>())?;
    let measured = example(&["--table", &list.to_string_lossy()])?;
    if request.write {
        return shell::write(&table, measured);
    }
    compare(&shell::read(&table)?, &measured)
}

fn parse(mut arguments: lexopt::Parser) -> Result<Request> {
    use lexopt::Arg::{Long, Value};
    let mut request =
        Request { targets: Vec::new(), corpus: None, programs: 200, write: false, unknown: false };
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("corpus") => request.corpus = Some(arguments.value()?.into()),
            Long("programs") => request.programs = arguments.value()?.to_string_lossy().parse()?,
            Long("write") => request.write = true,
            Long("unknown") => request.unknown = true,
            Value(target) => request.targets.push(target.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().into()),
        }
    }
    if request.targets.is_empty() {
        request.targets = TARGETS.map(String::from).to_vec();
    } else if request.write {
        return Err("--write measures all targets: name none".into());
    }
    Ok(request)
}

/// What ptxas makes for a target of the random programs and of the corpus, each text with the target put in.
fn compile(tools: &Tools, target: &str, request: &Request, folder: &Path) -> Result<Vec<PathBuf>> {
    shell::create_dir(folder)?;
    let digits = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    let sm: u32 = digits.parse().map_err(|_| format!("'{target}' is no target: sm_75, sm_90a"))?;
    let mut cubins = Vec::new();
    for seed in 0..request.programs {
        let text = chains::program(target, sm, seed, LENGTH, seed % 4 == 3);
        let cubin = ptxas(tools, target, &text, &folder.join(format!("chain-{seed}")))?;
        cubins.push(cubin.ok_or(format!("ptxas refuses random program {seed} for {target}"))?);
    }
    let files = match &request.corpus {
        Some(corpus) => shell::files_below(corpus, "ptx")?,
        None => Vec::new(),
    };
    for (number, file) in files.iter().enumerate() {
        let retarget = |line: &str| match line.starts_with(".target ") {
            true => format!(".target {target}\n"),
            false => format!("{line}\n"),
        };
        let text: String = shell::read(file)?.lines().map(retarget).collect();
        // A file that uses what this target does not have is another target's.
        cubins.extend(ptxas(tools, target, &text, &folder.join(format!("corpus-{number}")))?);
    }
    Ok(cubins)
}

/// The cubin of a text, or nothing where ptxas refuses it. One that an earlier run made of the same text serves again.
fn ptxas(tools: &Tools, target: &str, text: &str, stem: &Path) -> Result<Option<PathBuf>> {
    let (source, cubin) = (stem.with_extension("ptx"), stem.with_extension("cubin"));
    if cubin.is_file() && std::fs::read_to_string(&source).is_ok_and(|before| before == text) {
        return Ok(Some(cubin));
    }
    shell::write(&source, text)?;
    let output =
        shell::capture(tools.command("ptxas").args(["-arch", target, "-o"]).args([&cubin, &source]))?;
    Ok(output.status.success().then_some(cubin))
}

/// What the measuring program prints.
fn example(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("cargo");
    command.args(["run", "--release", "--quiet", "-p", "sim", "--example", "latency", "--"]).args(arguments);
    let output = shell::capture(command.current_dir(shell::root()))?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err("the cubins cannot be measured".into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The rows of a table: relation and ports, then the least distance of each column, where one was seen.
fn rows(table: &str) -> Vec<(String, Vec<Option<u32>>)> {
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
                let times: u32 = times.trim().parse().ok()?;
                least.trim().parse().ok().filter(|_| times > 0)
            };
            rows.push((format!("{relation} ({}", ports.trim()), cells.split("), (").map(cell).collect()));
        }
    }
    rows
}

/// Lists the pairs that were seen on some targets, with the targets that they were never seen on: there the model takes
/// the longest of the others. Pairs that were seen nowhere have no row.
fn unknown(table: &str) -> Result<()> {
    const COLUMNS: [&str; 9] = ["75", "80", "86", "89", "90", "100", "103", "110", "120"];
    let mut cells = 0;
    for (ports, columns) in rows(table) {
        let never: Vec<&str> =
            columns.iter().zip(COLUMNS).filter(|(least, _)| least.is_none()).map(|(_, sm)| sm).collect();
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
        for (column, least) in columns.iter().enumerate() {
            let Some(least) = least else { continue };
            pairs += 1;
            match known.get(&ports).and_then(|columns| columns.get(column).copied().flatten()) {
                Some(before) if *least < before => {
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
