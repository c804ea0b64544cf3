//! `cargo xtask fuzz programs`: generated PTX, for which everything must agree.
//!
//! For each program:
//! * the front end accepts it, and its printed form runs to the same memory;
//! * the interpreter runs it without a fault;
//! * it compiles in every [`WAYS`], with the checks after each pass on, and nothing panics;
//! * the schedule verifier has nothing to say about the code;
//! * the simulator runs the code without a fault, and leaves the memory that the interpreter left;
//! * with `--reference`, so does the code that ptxas makes. Where it doesn't, the interpreter is to be looked at first.
//!
//! A program that fails is reduced, kept under `target/fuzz`, and named with the command that shows it again.

use crate::tools::Tools;
use crate::{Result, shell};
use rayon::prelude::*;
use sim::generate::{self, Program};
use sim::ptx::{FaultKind, Launch, Machine};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The way of ptxas.
pub const REFERENCE: &str = "ptxas";

/// How a program is compiled.
pub struct Way {
    pub name: &'static str,
    pub level: u8,
    pub max_registers: Option<u32>,
    /// For a debugger, with all that it is told.
    pub debug: bool,
}

pub const TARGET: &str = "sm_90";

pub const WAYS: [Way; 5] = [
    Way { name: "O0", level: 0, max_registers: None, debug: false },
    Way { name: "O1", level: 1, max_registers: None, debug: false },
    Way { name: "O3", level: 3, max_registers: None, debug: false },
    Way { name: "O3-32", level: 3, max_registers: Some(32), debug: false },
    Way { name: "g", level: 0, max_registers: None, debug: true },
];

/// What failed. Reduction keeps the stage and lets the rest change.
#[derive(Debug)]
pub struct Failure {
    stage: String,
    what: String,
}

fn failure(stage: impl Into<String>, what: impl ToString) -> Failure {
    Failure { stage: stage.into(), what: what.to_string() }
}

/// Failures of one stage that are reduced; of the others the seeds are enough.
const REDUCED: usize = 2;

/// Checks this many programs from a seed on.
pub fn run(first: u64, count: u64, reference: bool) -> Result<()> {
    let tools = if reference { Some(Tools::find()?) } else { None };
    let tools = tools.as_ref();
    let start = Instant::now();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failed: Vec<(Program, Failure)> = (first..first.saturating_add(count))
        .into_par_iter()
        .filter_map(|seed| {
            let program = Program::new(seed);
            check(&program, tools).err().map(|failure| (program, failure))
        })
        .collect();
    let reports = report_all(&failed, tools);
    std::panic::set_hook(quiet);
    println!("{}", reports?);
    println!(
        "{count} programs from seed {first}, {} failed, {:.1} s",
        failed.len(),
        start.elapsed().as_secs_f32()
    );
    for (count, why) in NOT_COMPARED.iter().map(|(count, why)| (count.load(Ordering::Relaxed), why)) {
        if count > 0 {
            println!("{count} runs not compared, because {why}");
        }
    }
    if failed.is_empty() { Ok(()) } else { Err("there are programs that fail".into()) }
}

/// All failures, by their stage.
fn report_all(failed: &[(Program, Failure)], tools: Option<&Tools>) -> Result<String> {
    let mut stages: BTreeMap<&str, Vec<&(Program, Failure)>> = BTreeMap::new();
    failed.iter().for_each(|one| stages.entry(&one.1.stage).or_default().push(one));
    let mut text = String::new();
    for failed in stages.values() {
        let (some, rest) = failed.split_at(failed.len().min(REDUCED));
        for (program, failure) in some {
            text += &report(program, failure, tools)?;
        }
        for (program, Failure { stage, what }) in rest {
            text += &format!("{stage}, seed {}: {what}\n", program.seed);
        }
    }
    Ok(text)
}

/// Reduces a program that fails, and says where the result is.
fn report(program: &Program, found: &Failure, tools: Option<&Tools>) -> Result<String> {
    let same =
        |candidate: &Program| check(candidate, tools).is_err_and(|failure| failure.stage == found.stage);
    let small = program.reduce(same);
    let Failure { stage, what } =
        check(&small, tools).err().ok_or("a reduced program doesn't fail any more")?;
    let folder = shell::target_dir().join("fuzz");
    shell::create_dir(&folder)?;
    let path = folder.join(format!("{}.ptx", small.name()));
    shell::write(&path, generate::module(std::slice::from_ref(&small)))?;
    Ok(format!(
        "{stage}: {what}\n    cargo xtask fuzz programs --seed {} --count 1\n    {} statements of {} left in {}\n",
        program.seed,
        small.size(),
        program.size(),
        path.display()
    ))
}

/// Everything that must hold of a program.
pub fn check(program: &Program, tools: Option<&Tools>) -> std::result::Result<(), Failure> {
    let source = generate::module(std::slice::from_ref(program));
    let expected = interpret(program, &source)?;
    let printed = ptx::print(&parse(&source)?);
    if interpret(program, &printed)? != expected {
        return Err(failure("printing", "the printed module does something else"));
    }
    for way in &WAYS {
        let cubin = compile(&source, way)?;
        let verdict =
            sim::verify::verify(&cubin).map_err(|error| failure(format!("{} verify", way.name), error))?;
        if let Some(first) = verdict.reports.first() {
            return Err(failure(format!("{} schedule", way.name), first));
        }
        agree(program, &cubin, way.name, &expected)?;
    }
    if let Some(tools) = tools {
        let cubin = compile_with_ptxas(tools, program.seed, &source)?;
        agree(program, &cubin, REFERENCE, &expected)?;
    }
    Ok(())
}

fn parse(source: &str) -> std::result::Result<ptx::Module<'_>, Failure> {
    let parsed = ptx::parse(source, &ptx::Options::default());
    match parsed.module {
        Some(module) if parsed.diagnostics.is_empty() => Ok(module),
        _ => Err(failure("parse", format!("{:?}", parsed.diagnostics.first()))),
    }
}

/// Memory after the interpreter has run a program; `source` has it as a kernel.
pub fn interpret(program: &Program, source: &str) -> std::result::Result<Vec<u8>, Failure> {
    let decoded = sim::ptx::Program::new(&parse(source)?, source);
    let mut machine = Machine::new(&decoded);
    let address = machine.allocate(generate::image(program.seed, program.threads()));
    let (name, parameters) = (program.name(), generate::parameters(address));
    let launch = Launch::new(&name, [program.grid, 1, 1], [program.block, 1, 1], &parameters);
    machine.run(&launch).map_err(|fault| failure("interpreter", fault))?;
    let memory = machine.read(address, program.memory_bytes());
    memory.map(<[u8]>::to_vec).ok_or_else(|| failure("interpreter", "memory has another size"))
}

/// Does the simulator leave the same memory?
fn agree(program: &Program, cubin: &[u8], way: &str, expected: &[u8]) -> std::result::Result<(), Failure> {
    let Some(got) = simulate(program, cubin, way)? else { return Ok(()) };
    match difference(expected, &got) {
        Some(what) => Err(failure(format!("{way} result"), what)),
        None => Ok(()),
    }
}

/// Runs that could not be compared, with the reason.
static HASTY: AtomicUsize = AtomicUsize::new(0);
static UNKNOWN: AtomicUsize = AtomicUsize::new(0);
const NOT_COMPARED: [(&AtomicUsize, &str); 2] = [
    (&HASTY, "of ptxas's code: the machine model asks for more time than it takes"),
    (&UNKNOWN, "of an instruction that the simulator doesn't know"),
];

/// Memory after the simulator has run a program's machine code.
fn simulate(program: &Program, cubin: &[u8], way: &str) -> std::result::Result<Option<Vec<u8>>, Failure> {
    let stage = format!("{way} simulator");
    let decoded = sim::sass::Program::new(cubin).map_err(|error| failure(&stage, error))?;
    let mut machine = sim::sass::Machine::new(&decoded);
    let address = machine.allocate(generate::image(program.seed, program.threads()));
    let (name, parameters) = (program.name(), generate::parameters(address));
    let launch = Launch::new(&name, [program.grid, 1, 1], [program.block, 1, 1], &parameters);
    match machine.run(&launch) {
        Err(fault) if way == REFERENCE && !fault.hazards.is_empty() => {
            HASTY.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        Err(fault) if matches!(fault.kind, FaultKind::Unsupported { .. }) => {
            UNKNOWN.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        ran => ran.map_err(|fault| failure(&stage, fault))?,
    };
    let memory = machine.read(address, program.memory_bytes());
    memory.map(|bytes| Some(bytes.to_vec())).ok_or_else(|| failure(&stage, "memory has another size"))
}

/// How many words differ, and the first of them.
fn difference(expected: &[u8], got: &[u8]) -> Option<String> {
    let pairs = expected.chunks(8).zip(got.chunks(8)).enumerate();
    let wrong: Vec<_> = pairs.filter(|(_, (want, have))| want != have).collect();
    let (word, (want, have)) = wrong.first()?;
    let (head, record) = (generate::memory_bytes(0), generate::memory_bytes(1) - generate::memory_bytes(0));
    let place = match (8 * word).checked_sub(head) {
        None => format!("byte {} of what all share", 8 * word),
        Some(at) => format!("thread {} byte {}", at / record, at % record),
    };
    Some(format!("{} words differ, first {place}: {have:02x?}, not {want:02x?}", wrong.len()))
}

fn compile_with_ptxas(tools: &Tools, seed: u64, source: &str) -> std::result::Result<Vec<u8>, Failure> {
    let failed = |error: crate::Error| failure("ptxas", error);
    let folder = shell::target_dir().join("fuzz");
    let name = |end: &str| folder.join(format!("ptxas-{seed}.{end}"));
    shell::create_dir(&folder).and_then(|()| shell::write(&name("ptx"), source)).map_err(failed)?;
    let mut ptxas = tools.command("ptxas");
    ptxas.arg(format!("-arch={TARGET}")).arg(name("ptx")).arg("-o").arg(name("cubin"));
    let output = shell::capture(&mut ptxas).map_err(failed)?;
    if !output.status.success() {
        return Err(failure("ptxas", String::from_utf8_lossy(&output.stderr)));
    }
    let cubin = std::fs::read(name("cubin")).map_err(|error| failure("ptxas", error))?;
    for end in ["ptx", "cubin"] {
        std::fs::remove_file(name(end)).map_err(|error| failure("ptxas", error))?;
    }
    Ok(cubin)
}

/// The cubin of a module.
pub fn compile(source: &str, way: &Way) -> std::result::Result<Vec<u8>, Failure> {
    let stage = |what: &str| format!("{} {what}", way.name);
    let target = ptx::Target::find(TARGET).ok_or_else(|| failure("compile", "no target"))?;
    let mut options = sassafras::Options::new(target);
    options.level = way.level;
    options.launch.max_registers = way.max_registers;
    if way.debug {
        (options.debug_code, options.debug_info) = (true, sassafras::DebugInfo::Full);
    }
    options.verify = true;
    let module = parse(source)?;
    let output = catch_unwind(AssertUnwindSafe(|| sassafras::compile(source, &module, &options)))
        .map_err(|panic| failure(stage("panic"), panic.downcast_ref::<String>().map_or("", |text| text)))?;
    output.cubin.ok_or_else(|| {
        let first = output.diagnostics.first();
        failure(
            stage("compile"),
            first.map(|d| format!("line {:?}: {}", d.line, d.message)).unwrap_or_default(),
        )
    })
}
