//! What we compile does what the PTX says: the interpreter on the source against the simulator on our code.

use gpu::runline;
use rayon::prelude::*;
use sim::Machine;
use sim::ptx::Launch;
use std::path::{Path, PathBuf};

const LEVELS: [u8; 3] = [0, 1, 3];
/// A run with more steps of warps has no end.
const STEP_LIMIT: u64 = 1 << 22;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn compile(source: &str, level: u8) -> Result<Vec<u8>, String> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
    let module = parsed.module.expect("a module");
    let options = sassafras::Options { level, verify: true, ..sassafras::Options::new(module.target) };
    let output = sassafras::compile(source, &module, &options);
    output.cubin.ok_or_else(|| format!("{:?}", output.diagnostics))
}

/// Run lines that someone can't run yet: the file, who, and why. Each of these must be true.
const NOT_YET: [(&str, &str, &str); 2] = [
    ("calls.ptx", "-O", "The address of a function in an initialiser"),
    ("asynchronous.ptx", "interpreter", "is not supported"),
];

/// PTX files with run lines, in the folders that have such.
fn files_with_run_lines() -> Vec<PathBuf> {
    let folders =
        ["examples", "crates/sim/tests/kernels", "crates/sassafras/tests/kernels", "crates/cli/tests/run"];
    let mut files = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(repository().join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        files.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "ptx")));
    }
    files.sort();
    files.retain(|file| !runline::parse(&std::fs::read_to_string(file).unwrap()).unwrap().is_empty());
    files
}

/// Runs a run line; what is wrong, if anything.
fn check(machine: &mut dyn Machine, run: &runline::Run) -> Result<(), String> {
    let addresses: Vec<u64> = run.buffers().map(|data| machine.allocate(data.to_vec())).collect();
    let parameters = run.parameters(&addresses);
    let launch = Launch::new(&run.kernel, run.grid, run.block, &parameters);
    let launch = Launch { shared: run.shared, step_limit: STEP_LIMIT, ..launch };
    machine.run(&launch).map_err(|fault| fault.to_string())?;
    let read = |(address, data): (&u64, &[u8])| machine.read(*address, data.len()).unwrap().to_vec();
    let results: Vec<Vec<u8>> = addresses.iter().zip(run.buffers()).map(read).collect();
    run.check(&results).map_err(|mismatch| mismatch.to_string())
}

#[test]
fn run_lines() {
    let files = files_with_run_lines();
    let mut wrong: Vec<String> = files.par_iter().flat_map(|file| wrong_runs(file)).collect();
    for (file, who, why) in NOT_YET {
        let known = |line: &String| line.starts_with(file) && line.contains(who) && line.contains(why);
        assert!(wrong.iter().any(known), "{file} runs: take it off the list");
        wrong.retain(|line| !known(line));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() >= 9, "{files:?}");
}

fn wrong_runs(file: &Path) -> Vec<String> {
    let source = std::fs::read_to_string(file).unwrap();
    let runs = runline::parse(&source).unwrap();
    let module = ptx::parse(&source, &ptx::Options::default()).module.expect("a module");
    let interpreted = sim::ptx::Program::new(&module, &source);
    let simulated = LEVELS.map(|level| compile(&source, level).map(|c| sim::sass::Program::new(&c).unwrap()));
    let mut wrong = Vec::new();
    for run in &runs {
        let mut note = |who: String, result: Result<(), String>| {
            let place = format!("{}:{} {}", file.file_name().unwrap().display(), run.line, run.kernel);
            wrong.extend(result.err().map(|what| format!("{place}, {who}: {what}")));
        };
        note("interpreter".into(), check(&mut sim::ptx::Machine::new(&interpreted), run));
        for (program, level) in simulated.iter().zip(LEVELS) {
            let simulate = |program| check(&mut sim::sass::Machine::new(program), run);
            note(format!("-O{level}"), program.as_ref().map_err(String::clone).and_then(simulate));
        }
    }
    wrong
}

#[path = "../../sim/examples/inputs/mod.rs"]
mod inputs;

/// Kernels whose memory may differ, and why.
const OWN_WAYS: [(&str, &str); 7] = [
    ("k398", "cvta.to.shared of what is no shared address"),
    ("k399", "cvta.shared of what is no shared address"),
    ("k415", "%clock"),
    ("k416", "%clock_hi"),
    ("k424", "%clock64"),
    ("k425", "%globaltimer"),
    ("k460", "mapa: the system keeps the first bytes of shared memory on the machine"),
];
/// How many kernels have an instruction that the interpreter or the simulator does not know.
const UNKNOWN: usize = 40;
const SETS: u64 = 4;

enum Outcome {
    Memory(Vec<u8>),
    Fault(String),
    Unknown(String),
}

fn outcome(machine: &mut dyn Machine, kernel: &str, set: u64) -> Outcome {
    let buffer = machine.allocate(inputs::inputs(set));
    let mut parameters = buffer.to_le_bytes().to_vec();
    parameters.extend((inputs::THREADS as u32).to_le_bytes());
    let launch = Launch::new(kernel, [1; 3], [inputs::THREADS as u32, 1, 1], &parameters);
    match machine.run(&Launch { step_limit: STEP_LIMIT, ..launch }) {
        Ok(_) => Outcome::Memory(machine.read(buffer, inputs::BYTES).unwrap().to_vec()),
        Err(fault) => {
            let (theirs, ours) =
                (fault.downcast_ref::<sim::ptx::Fault>(), fault.downcast_ref::<sim::sass::Fault>());
            let kind = theirs.map(|fault| &fault.kind).or(ours.map(|fault| &fault.kind)).unwrap();
            match kind {
                sim::ptx::FaultKind::Unsupported { what } => Outcome::Unknown(what.clone()),
                kind => Outcome::Fault(kind.to_string()),
            }
        }
    }
}

/// One instruction per kernel: the same memory, or the same fault.
#[test]
fn instructions() {
    let file = repository().join("crates/ptx/tests/corpus/ops/ops_sm_90.ptx");
    let source = std::fs::read_to_string(file).unwrap();
    let module = ptx::parse(&source, &ptx::Options::default()).module.expect("a module");
    let interpreted = sim::ptx::Program::new(&module, &source);
    let kernels: Vec<&str> = interpreted.kernels().collect();
    for level in [0, 3] {
        let simulated = sim::sass::Program::new(&compile(&source, level).unwrap()).unwrap();
        let check = |kernel: &&str| (0..SETS).try_for_each(|set| same(&interpreted, &simulated, kernel, set));
        let results: Vec<(&str, Difference)> = kernels
            .par_iter()
            .filter_map(|kernel| check(kernel).err().map(|difference| (*kernel, difference)))
            .filter(|(kernel, _)| OWN_WAYS.iter().all(|(other, _)| other != kernel))
            .collect();
        let list = |unknown: bool| -> Vec<String> {
            let chosen = results.iter().filter(|(_, difference)| difference.unknown == unknown);
            chosen.map(|(kernel, difference)| format!("{kernel}: {}", difference.what)).collect()
        };
        assert!(list(false).is_empty(), "-O{level}:\n{}", list(false).join("\n"));
        assert!(list(true).len() <= UNKNOWN, "-O{level}: {}\n{}", list(true).len(), list(true).join("\n"));
    }
    assert!(kernels.len() >= 488);
}

struct Difference {
    what: String,
    unknown: bool,
}

fn same(
    interpreted: &sim::ptx::Program,
    simulated: &sim::sass::Program,
    kernel: &str,
    set: u64,
) -> Result<(), Difference> {
    let theirs = outcome(&mut sim::ptx::Machine::new(interpreted), kernel, set);
    let ours = outcome(&mut sim::sass::Machine::new(simulated), kernel, set);
    let differ = |what: String| Err(Difference { what, unknown: false });
    match (theirs, ours) {
        (Outcome::Unknown(what), _) | (_, Outcome::Unknown(what)) => Err(Difference { what, unknown: true }),
        (Outcome::Memory(a), Outcome::Memory(b)) => match a.iter().zip(&b).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(place) => {
                differ(format!("set {set}, byte {place}: {:#x}, machine {:#x}", a[place], b[place]))
            }
        },
        (Outcome::Fault(a), Outcome::Fault(b)) if a == b => Ok(()),
        (Outcome::Fault(a), Outcome::Fault(b)) => differ(format!("{a}; machine {b}")),
        (Outcome::Fault(what), _) => differ(format!("{what}; not on the machine")),
        (_, Outcome::Fault(what)) => differ(format!("machine: {what}")),
    }
}
