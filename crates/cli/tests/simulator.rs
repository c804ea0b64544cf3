//! What we compile does what the PTX says: the interpreter on the source against the simulator on our code.

use gpu::runline;
use rayon::prelude::*;
use sim::Machine;
use sim::ops::{self, Recorded, Verdict};
use sim::ptx::Launch;
use sim::texture::{Description, Image};
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
    let options = sassafras::Options::new(module.target).with(|o| {
        o.contract = false;
        o.level = level;
        o.verify = true;
    });
    let output = sassafras::compile_module(&module, &options);
    output.cubin.ok_or_else(|| format!("{:?}", output.diagnostics))
}

/// PTX files with run lines, in the folders that have such.
fn files_with_run_lines() -> Vec<PathBuf> {
    let folders = ["examples", "tests/llvm", "crates/sim/tests/kernels", "crates/sassafras/tests/kernels"];
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

/// The handle of an image, or the address of multicast memory; no run line here has a tensor map.
fn make(machine: &mut dyn Machine, object: runline::Object, address: u64) -> Result<Vec<u8>, String> {
    let image = match object {
        runline::Object::Image(image) => image,
        runline::Object::Multicast => return Ok(machine.add_multicast(address).to_le_bytes().to_vec()),
        runline::Object::Map(_) => return Err("a tensor map".into()),
    };
    let description = Description {
        channel: image.channel,
        channels: image.channels,
        sizes: &image.sizes,
        layered: image.layered,
        cube: image.cube,
        levels: image.levels,
        beyond: image.beyond,
        normalised: image.normalised,
        linear: image.linear,
        linear_levels: image.linear_levels,
        as_integers: image.integers,
    };
    Ok(machine.add_image(Image::new(address, &description)?).to_le_bytes().to_vec())
}

/// Runs a run line; what is wrong, if anything.
fn check(machine: &mut dyn Machine, run: &runline::Run) -> Result<(), String> {
    check_with(machine, run, None)
}

/// The same with an adversary who orders threads and memory.
fn check_with(machine: &mut dyn Machine, run: &runline::Run, weak: Option<u64>) -> Result<(), String> {
    let addresses: Vec<u64> = run.buffers().map(|data| machine.allocate(data.to_vec())).collect();
    let parameters = run.parameters(&addresses, |object, address| make(machine, object, address))?;
    let launch = Launch::new(&run.kernel, run.grid, run.block, &parameters);
    let launch = Launch { shared: run.shared, step_limit: STEP_LIMIT, weak, ..launch };
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
    assert!(files.len() >= 14, "{files:?}");
}

/// Correct code is right whatever an adversary does within the rules of memory.
#[test]
fn run_lines_with_weak_memory() {
    const SEEDS: [u64; 4] = [0, 3, 4, 6];
    let ordering = repository().join("crates/xtask/data/ordering.ptx");
    let files: Vec<PathBuf> = files_with_run_lines().into_iter().chain([ordering]).collect();
    let wrong = |(file, level): (&PathBuf, u8)| {
        let source = std::fs::read_to_string(file).unwrap();
        let program = sim::sass::Program::new(&compile(&source, level).unwrap()).unwrap();
        let runs = runline::parse(&source).unwrap();
        let all = runs.iter().flat_map(|run| SEEDS.map(|seed| (run, seed)));
        let wrong = all.filter_map(|(run, seed)| {
            let mut machine = sim::sass::Machine::new(&program);
            let what = check_with(&mut machine, run, Some(seed)).err()?;
            Some(format!("{} {} at -O{level}, seed {seed}: {what}", file.display(), run.kernel))
        });
        wrong.collect::<Vec<String>>()
    };
    let all: Vec<(&PathBuf, u8)> = files.iter().flat_map(|file| [0, 3].map(|level| (file, level))).collect();
    let wrong: Vec<String> = all.into_par_iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Codes that were wrong once, and those of all run lines, cover every dependence.
#[test]
fn schedules() {
    let regressions = repository().join("crates/sassafras/tests/regressions");
    let regressions = std::fs::read_dir(regressions).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files_with_run_lines().into_iter().chain(regressions).collect();
    let reports = |(file, level): (&PathBuf, u8)| {
        let cubin = compile(&std::fs::read_to_string(file).unwrap(), level).unwrap();
        let reports = sim::verify::verify(&cubin).unwrap().reports;
        reports.first().map(|report| format!("{} at -O{level}: {report}", file.display()))
    };
    let all: Vec<(&PathBuf, u8)> = files.iter().flat_map(|f| LEVELS.map(|level| (f, level))).collect();
    let wrong: Vec<String> = all.into_par_iter().filter_map(reports).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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

const SETS: u64 = 4;

/// One instruction per kernel: the same memory, or the same fault.
#[test]
fn instructions() {
    let file = repository().join("crates/ptx/tests/corpus/ops/ops_sm_90.ptx");
    let source = std::fs::read_to_string(file).unwrap();
    let module = ptx::parse(&source, &ptx::Options::default()).module.expect("a module");
    let interpreted = sim::ptx::Program::new(&module, &source);
    let kernels: Vec<&str> = interpreted.kernels().collect();
    assert!(kernels.len() >= 488);
    for level in [0, 3] {
        let simulated = sim::sass::Program::new(&compile(&source, level).unwrap()).unwrap();
        let verdict = |kernel: &str, set: u64| {
            let expected = ops::outcome(&mut sim::ptx::Machine::new(&interpreted), kernel, set);
            ops::compare(&expected, &ops::outcome(&mut sim::sass::Machine::new(&simulated), kernel, set))
        };
        let different: Vec<(&str, Verdict)> = kernels
            .par_iter()
            .filter_map(|kernel| {
                let differs = (0..SETS).map(|set| verdict(kernel, set)).find(|v| *v != Verdict::Same);
                differs.map(|verdict| (*kernel, verdict))
            })
            .collect();
        assert!(different.is_empty(), "-O{level}: {different:#?}");
    }
}

/// Kernels of one instruction leave the same memory whatever an adversary does within the rules of memory.
#[test]
fn instructions_with_weak_memory() {
    let file = repository().join("crates/ptx/tests/corpus/ops/ops_sm_90.ptx");
    let source = std::fs::read_to_string(file).unwrap();
    for level in [0, 3] {
        let simulated = sim::sass::Program::new(&compile(&source, level).unwrap()).unwrap();
        let kernels: Vec<&str> = simulated.kernels().collect();
        let differs = |kernel: &&&str, seed: u64| {
            let expected = ops::outcome(&mut sim::sass::Machine::new(&simulated), kernel, 0);
            let mut machine = sim::Adverse { machine: sim::sass::Machine::new(&simulated), seed };
            ops::compare(&expected, &ops::outcome(&mut machine, kernel, 0)) != Verdict::Same
        };
        let different: Vec<&&str> =
            kernels.par_iter().filter(|kernel| [0, 3, 4].iter().any(|seed| differs(kernel, *seed))).collect();
        assert!(different.is_empty(), "-O{level}: {different:?}");
        assert!(kernels.len() >= 488);
    }
}

/// What an H200 left in memory after ptxas's code, the interpreter leaves; and what it left after ours, the simulator.
#[test]
fn instructions_as_on_an_h200() {
    let file = repository().join("crates/ptx/tests/corpus/ops/ops_sm_90.ptx");
    let source = std::fs::read_to_string(file).unwrap();
    let recording = repository().join("crates/sim/tests/data/ops_sm_90.h200.txt");
    let recording = std::fs::read_to_string(recording).unwrap();
    let module = ptx::parse(&source, &ptx::Options::default()).module.expect("a module");
    let interpreted = sim::ptx::Program::new(&module, &source);
    let simulated = sim::sass::Program::new(&compile(&source, 3).unwrap()).unwrap();
    let kernels: Vec<(&str, [Recorded; 5])> = ops::on_h200(&recording).collect();
    let of = |code: &str| ops::CODES.iter().position(|known| *known == code).expect(code);
    let (theirs, ours) = (of("ptxas-O0"), of("ours-O3"));
    let different: Vec<&str> = kernels
        .par_iter()
        .filter(|(kernel, recorded)| {
            !is_recorded(kernel, || sim::ptx::Machine::new(&interpreted), recorded[theirs])
                || !is_recorded(kernel, || sim::sass::Machine::new(&simulated), recorded[ours])
        })
        .map(|(kernel, _)| *kernel)
        .collect();
    assert!(different.is_empty(), "{different:?}");
    assert!(kernels.len() >= 486, "{} kernels", kernels.len());
}

/// Does a machine do what was recorded, with all sets of inputs?
fn is_recorded<M: Machine>(kernel: &str, machine: impl Fn() -> M, recorded: Recorded) -> bool {
    let outcomes: Vec<_> =
        (0..ops::SETS_ON_H200).map(|set| ops::outcome(&mut machine(), kernel, set)).collect();
    match (recorded, ops::hash_of_sets(outcomes.iter())) {
        (Recorded::Hash(theirs), Some(ours)) => theirs == ours,
        (Recorded::Error(_), None) => true,
        _ => false,
    }
}

/// Where the mask of awaited scoreboards is in the upper half of a word.
const WAITS: u64 = 0x3f << (116 - 64);

/// Waits that are taken away from a kernel are noticed, and the simulator reports only what the static proof reports too.
#[test]
fn missing_waits() {
    let mut noticed = 0;
    for name in ["saxpy", "reduce", "collatz"] {
        let source = std::fs::read_to_string(repository().join(format!("examples/{name}.ptx"))).unwrap();
        let cubin = compile(&source, 3).unwrap();
        let run = &runline::parse(&source).unwrap()[0];
        simulate(&cubin, run).expect("the code as it is");
        let mutants = without_waits(&cubin, &run.kernel);
        noticed += mutants.par_iter().filter(|mutant| is_noticed(mutant, run)).count();
    }
    assert!(noticed >= 8, "{noticed} waits were noticed to be missing");
}

fn simulate(cubin: &[u8], run: &runline::Run) -> Result<(), Box<sim::sass::Fault>> {
    let program = sim::sass::Program::new(cubin).unwrap();
    let mut machine = sim::sass::Machine::new(&program);
    let addresses: Vec<u64> = run.buffers().map(|data| machine.allocate(data.to_vec())).collect();
    let parameters =
        run.parameters(&addresses, |object, address| make(&mut machine, object, address)).unwrap();
    let launch = Launch::new(&run.kernel, run.grid, run.block, &parameters);
    machine.run(&Launch { step_limit: STEP_LIMIT, shared: run.shared, ..launch })?;
    Ok(())
}

fn is_noticed(mutant: &[u8], run: &runline::Run) -> bool {
    let proven = sim::verify::verify(mutant).unwrap().reports;
    // The run need not come to where the wait is missing.
    let Err(fault) = simulate(mutant, run) else { return false };
    assert!(!fault.hazards.is_empty(), "{fault}");
    for hazard in &fault.hazards {
        let places = |report: &sim::verify::Report| (report.first.address, report.second.address);
        let known = proven.iter().any(|report| places(report) == places(hazard));
        assert!(known, "only the simulator says: {hazard}\nproven: {proven:?}");
    }
    true
}

/// The cubin with the waits of one instruction of a kernel taken away, for each that has such.
fn without_waits(file: &[u8], kernel: &str) -> Vec<Vec<u8>> {
    let object = cubin::Object::read(file).unwrap();
    let (section, _) = object.section(&format!(".text.{kernel}")).unwrap();
    let mut mutants = Vec::new();
    let words = match &object.sections[section].body {
        cubin::Body::Bytes(bytes) => bytes.len() / 16,
        _ => 0,
    };
    for word in 0..words {
        let mut mutant = object.clone();
        let cubin::Body::Bytes(bytes) = &mut mutant.sections[section].body else { continue };
        let upper = &mut bytes[16 * word + 8..16 * word + 16];
        let bits = u64::from_le_bytes((&*upper).try_into().unwrap());
        if bits & WAITS != 0 {
            upper.copy_from_slice(&(bits & !WAITS).to_le_bytes());
            mutants.push(mutant.write().unwrap());
        }
    }
    mutants
}
