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

fn compile(source: &str, level: u8) -> Vec<u8> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
    let module = parsed.module.expect("a module");
    let options = sassafras::Options { level, verify: true, ..sassafras::Options::new(module.target) };
    let output = sassafras::compile(source, &module, &options);
    output.cubin.unwrap_or_else(|| panic!("{:?}", output.diagnostics))
}

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
    let wrong: Vec<String> = files.par_iter().flat_map(|file| wrong_runs(file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() >= 9, "{files:?}");
}

fn wrong_runs(file: &Path) -> Vec<String> {
    let source = std::fs::read_to_string(file).unwrap();
    let runs = runline::parse(&source).unwrap();
    let module = ptx::parse(&source, &ptx::Options::default()).module.expect("a module");
    let interpreted = sim::ptx::Program::new(&module, &source);
    let simulated = LEVELS.map(|level| sim::sass::Program::new(&compile(&source, level)).unwrap());
    let mut wrong = Vec::new();
    for run in &runs {
        let mut note = |who: String, result: Result<(), String>| {
            let place = format!("{}:{} {}", file.file_name().unwrap().display(), run.line, run.kernel);
            wrong.extend(result.err().map(|what| format!("{place}, {who}: {what}")));
        };
        note("interpreter".into(), check(&mut sim::ptx::Machine::new(&interpreted), run));
        for (program, level) in simulated.iter().zip(LEVELS) {
            note(format!("-O{level}"), check(&mut sim::sass::Machine::new(program), run));
        }
    }
    wrong
}
