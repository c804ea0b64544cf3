//! Whole kernels: the examples with their run lines, and small ones with known answers.

use super::*;
use gpu::runline;

/// Runs the run lines of a PTX text; how many there were.
fn run_lines(name: &str, source: &str) -> usize {
    let parsed = ::ptx::parse(source, &::ptx::Options::default());
    assert!(!parsed.failed(), "{name}: {:?}", parsed.diagnostics);
    let module = parsed.module.unwrap_or_else(|| panic!("{name} has no module"));
    let program = Program::new(&module, source);
    let runs = runline::parse(source).unwrap_or_else(|error| panic!("{name}: {error}"));
    for run in &runs {
        let mut machine = Machine::new(&program);
        let addresses: Vec<u64> = run.buffers().map(|data| machine.allocate(data.to_vec())).collect();
        let parameters = run.parameters(&addresses);
        let launch =
            Launch { shared: run.shared, ..Launch::new(&run.kernel, run.grid, run.block, &parameters) };
        machine.run(&launch).unwrap_or_else(|fault| panic!("{name}:{} {}: {fault}", run.line, run.kernel));
        let results: Vec<Vec<u8>> = addresses
            .iter()
            .zip(run.buffers())
            .map(|(address, data)| machine.read(*address, data.len()).unwrap_or_default().to_vec())
            .collect();
        run.check(&results).unwrap_or_else(|mismatch| panic!("{name}:{}: {mismatch}", run.line));
    }
    runs.len()
}

#[test]
fn examples() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut runs = 0;
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "ptx")) {
        runs += run_lines(&file.display().to_string(), &std::fs::read_to_string(file).unwrap());
    }
    assert!(runs >= 20, "{runs} run lines");
}
