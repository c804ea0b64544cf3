//! The compiling command: what ptxas does with its command line, in the same order.
//!
//! Options are read and checked, then the inputs, then both together; a cubin is written at the very end, so that a
//! run that fails leaves an older file alone.

use crate::entries;
use crate::inputs::{Program, ends_at_once};
use crate::log::{Log, Stop};
use crate::options::{self, Effect, Given, Id, OPTIONS, help};
use crate::statistics::Statistics;
use crate::usage::{self, Usage};
use ptx::ast::Module;
use std::io::Write;
use std::time::Instant;

/// Does what the words say; `Err` when it failed and has said why.
pub fn run(words: Vec<String>) -> Result<(), Stop> {
    let mut log = Log::default();
    let given = options::parse(words, &log)?;
    if let Some(text) = help::requested(&given) {
        // A reader that closes the pipe early is no error of ours.
        let _ = std::io::stdout().write_all(text.as_bytes());
        return Ok(());
    }
    if let Some(name) = given.word(Id::ToolName) {
        log.tool = name.to_string();
    }
    log.no_warnings = given.has(Id::NoWarnings);
    log.warnings_are_errors = given.has(Id::WarningsAreErrors);
    options::check(&given, &mut log)?;
    compile(&given, &mut log)
}

fn compile(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let start = Instant::now();
    let program = Program::read(given, log)?;
    let parse_only = given.arch().parse_only();
    let front_end = ptx::Options { file: program.name.clone(), check_only: parse_only };
    let mut parsed = ptx::parse(&program.text, &front_end);
    match program.is_joined {
        true if parsed.failed() => {
            return Err(log.fatal("Inputs with different headers are not supported yet"));
        }
        true => {}
        false => report(given, &program, &parsed.diagnostics, log)?,
    }
    log.abort_if_failed()?;
    let no_module = "Internal error in the front end: no module";
    let module = parsed.module.as_mut().ok_or_else(|| log.fatal(no_module))?;
    options::check_for_module(given, module, log)?;
    if parse_only {
        return Ok(());
    }
    entries::select(given, module, log)?;
    options::check_for_compilation(given, module, log)?;
    refuse_what_is_missing(given, log)?;
    ask_for_threads(given, log);
    let cubin = generate(given, &program, module, log)?;
    let usage = Usage::of(&cubin.bytes, log)?;
    usage::check_registers(given, &usage, log)?;
    if log.failed() {
        usage::report(given, &usage, cubin.seconds, log);
        return Err(Stop);
    }
    let path = given.output();
    let unwritable = |path: &str| format!("Output file '{path}' could not be opened");
    std::fs::write(path, &cubin.bytes).map_err(|_| log.fatal(&unwritable(path)))?;
    usage::report(given, &usage, cubin.seconds, log);
    let statistics = Statistics { inputs: &given.inputs, time: start.elapsed() };
    statistics.report(given, log).map_err(|path| log.fatal(&unwritable(&path)))
}

fn report(
    given: &Given,
    program: &Program,
    diagnostics: &[ptx::Diagnostic],
    log: &mut Log,
) -> Result<(), Stop> {
    match given.word(Id::Diagnostics) {
        Some("rich") => log.rich(&program.name, &program.text, diagnostics),
        _ => log.diagnostics(&program.name, diagnostics),
    }
    if program.is_string() && ends_at_once(diagnostics) { Err(Stop) } else { Ok(()) }
}

/// Rather no cubin than one that is not what was asked for.
fn refuse_what_is_missing(given: &Given, log: &Log) -> Result<(), Stop> {
    match OPTIONS.iter().find(|row| row.effect == Effect::Missing && given.has(row.id)) {
        Some(row) => Err(log.fatal(&format!("Option '--{}' is not supported by sassafras yet", row.long))),
        None => Ok(()),
    }
}

/// One thread is used, which make has granted already; only the answer about make is ptxas's.
fn ask_for_threads(given: &Given, log: &mut Log) {
    let wants_threads = given.number(Id::SplitCompile).is_some_and(|threads| threads != 1);
    let has_server = || std::env::var("MAKEFLAGS").is_ok_and(|flags| flags.contains("--jobserver"));
    if given.has(Id::JobServer) && wants_threads && !has_server() {
        let support = "GNU Jobserver support requested, but no compatible jobserver found.";
        log.warning(&format!("{support} Ignoring '--jobserver'"));
    }
}

struct Cubin {
    bytes: Vec<u8>,
    /// How long the code generator took.
    seconds: f64,
}

fn generate(given: &Given, program: &Program, module: &Module, log: &mut Log) -> Result<Cubin, Stop> {
    let options = sassafras::Options {
        target: given.arch().target,
        command_line: given.note(),
        level: given.number(Id::OptLevel).map_or(3, |level| level.clamp(0, 3) as u8),
        relocatable: given.has(Id::Relocatable),
        line_info: given.has(Id::LineInfo) && !given.has(Id::NoDebugSections),
        max_registers: given.max_registers(),
        verify: given.has(Id::Verify),
        dump: given.word(Id::DumpIr).map(|pass| if pass.is_empty() { "all" } else { pass }.to_string()),
        fuel: given.number(Id::Fuel).map(|n| n.clamp(0, u32::MAX.into()) as u32),
        time_passes: given.has(Id::TimePasses),
    };
    let start = Instant::now();
    let output = sassafras::compile(&program.text, module, &options);
    let seconds = start.elapsed().as_secs_f64();
    eprint!("{}", output.log);
    let mut diagnostics = output.diagnostics;
    // A line of the joined text is no line of any input.
    diagnostics.iter_mut().filter(|_| program.is_joined).for_each(|d| d.line = None);
    report(given, program, &diagnostics, log)?;
    output.cubin.map(|bytes| Cubin { bytes, seconds }).ok_or(Stop)
}
