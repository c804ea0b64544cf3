//! `cargo xtask fuzz programs`: generated PTX, for which everything must agree.
//!
//! For each program:
//! * the front end accepts it, and its printed form runs to the same memory;
//! * the interpreter runs it without a fault;
//! * it compiles in every [`WAYS`], with the checks after each pass on, and nothing panics;
//! * the schedule verifier has nothing to say about the code;
//! * the simulator runs the code without a fault, and leaves the memory that the interpreter left.
//!
//! A program that fails is reduced, kept under `target/fuzz`, and named with the command that shows it again.

use crate::{Result, shell};
use rayon::prelude::*;
use sim::generate::{self, Program};
use sim::ptx::{Launch, Machine};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// How a program is compiled.
pub struct Way {
    pub name: &'static str,
    pub level: u8,
    pub max_registers: Option<u32>,
}

pub const TARGET: &str = "sm_90";

pub const WAYS: [Way; 4] = [
    Way { name: "O0", level: 0, max_registers: None },
    Way { name: "O1", level: 1, max_registers: None },
    Way { name: "O3", level: 3, max_registers: None },
    Way { name: "O3-32", level: 3, max_registers: Some(32) },
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
pub fn run(first: u64, count: u64) -> Result<()> {
    let start = Instant::now();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failed: Vec<(Program, Failure)> = (first..first.saturating_add(count))
        .into_par_iter()
        .filter_map(|seed| {
            let program = Program::new(seed);
            check(&program).err().map(|failure| (program, failure))
        })
        .collect();
    let reports = report_all(&failed);
    std::panic::set_hook(quiet);
    println!("{}", reports?);
    println!(
        "{count} programs from seed {first}, {} failed, {:.1} s",
        failed.len(),
        start.elapsed().as_secs_f32()
    );
    if failed.is_empty() { Ok(()) } else { Err("there are programs that fail".into()) }
}

/// All failures, by their stage.
fn report_all(failed: &[(Program, Failure)]) -> Result<String> {
    let mut stages: BTreeMap<&str, Vec<&(Program, Failure)>> = BTreeMap::new();
    failed.iter().for_each(|one| stages.entry(&one.1.stage).or_default().push(one));
    let mut text = String::new();
    for failed in stages.values() {
        let (some, rest) = failed.split_at(failed.len().min(REDUCED));
        for (program, failure) in some {
            text += &report(program, failure)?;
        }
        for (program, Failure { stage, what }) in rest {
            text += &format!("{stage}, seed {}: {what}\n", program.seed);
        }
    }
    Ok(text)
}

/// Reduces a program that fails, and says where the result is.
fn report(program: &Program, found: &Failure) -> Result<String> {
    let same = |candidate: &Program| check(candidate).is_err_and(|failure| failure.stage == found.stage);
    let small = program.reduce(same);
    let Failure { stage, what } = check(&small).err().ok_or("a reduced program doesn't fail any more")?;
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
pub fn check(program: &Program) -> std::result::Result<(), Failure> {
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
        let got = simulate(program, &cubin, way)?;
        if let Some(what) = difference(&expected, &got) {
            return Err(failure(format!("{} result", way.name), what));
        }
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

/// Memory after the simulator has run a program's machine code.
fn simulate(program: &Program, cubin: &[u8], way: &Way) -> std::result::Result<Vec<u8>, Failure> {
    let stage = format!("{} simulator", way.name);
    let decoded = sim::sass::Program::new(cubin).map_err(|error| failure(&stage, error))?;
    let mut machine = sim::sass::Machine::new(&decoded);
    let address = machine.allocate(generate::image(program.seed, program.threads()));
    let (name, parameters) = (program.name(), generate::parameters(address));
    let launch = Launch::new(&name, [program.grid, 1, 1], [program.block, 1, 1], &parameters);
    machine.run(&launch).map_err(|fault| failure(&stage, fault))?;
    let memory = machine.read(address, program.memory_bytes());
    memory.map(<[u8]>::to_vec).ok_or_else(|| failure(&stage, "memory has another size"))
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

/// The cubin of a module.
pub fn compile(source: &str, way: &Way) -> std::result::Result<Vec<u8>, Failure> {
    let stage = |what: &str| format!("{} {what}", way.name);
    let target = ptx::Target::find(TARGET).ok_or_else(|| failure("compile", "no target"))?;
    let mut options = sassafras::Options::new(target);
    options.level = way.level;
    options.launch.max_registers = way.max_registers;
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
