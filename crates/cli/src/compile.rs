//! The compiling command: what ptxas does with its command line, in the same order.
//!
//! Options are read and checked, then the inputs, then both together; a cubin is written at the very end, so that a
//! run that fails leaves an older file alone.

use crate::inputs::{Program, ends_at_once};
use crate::jobs::Threads;
use crate::log::{Log, Stop};
use crate::messages::Style;
use crate::options::{self, Effect, Given, Id, OPTIONS, help};
use crate::progress::Progress;
use crate::statistics::Statistics;
use crate::tools;
use crate::trace::Trace;
use crate::usage::{self, Report, Sections};
use crate::{command_line, doubles, entries};
use ptx::ast::Module;
use ptx::diag::Severity;
use sassafras::{Cancel, DebugInfo};
use std::fs::File;
use std::io::Write;
use std::time::Duration;

/// Does what the words say; `Err` when it failed and has said why.
pub fn run(words: Vec<String>, is_ptxas: bool) -> Result<(), Stop> {
    let command = format!("{} {}", if is_ptxas { "ptxas" } else { "sassafras" }, words.join(" "));
    let mut log = Log::for_command(Style::of(&words, is_ptxas), command, command_line::advice);
    let result = obey(words, is_ptxas, &mut log);
    log.finish();
    result
}

fn obey(words: Vec<String>, is_ptxas: bool, log: &mut Log) -> Result<(), Stop> {
    let given = options::parse(words, log)?;
    let commands = (!is_ptxas).then(tools::list);
    if let Some(text) = help::requested(&given, commands.as_deref()) {
        // A reader that closes the pipe early is no error of ours.
        let _ = std::io::stdout().write_all(text.as_bytes());
        return Ok(());
    }
    check(&given, log)?;
    compile(&given, log)
}

/// Compiles texts in place of files; `None` if they were to be parsed only.
pub fn of_texts(
    words: Vec<String>,
    texts: Vec<String>,
    cancel: Option<Cancel>,
    log: &mut Log,
) -> Result<Option<Vec<u8>>, Stop> {
    log.style = Style::of(&words, true);
    log.adviser = command_line::advice;
    log.command = format!("ptxas {}", words.join(" "));
    let result = cubin_of_texts(words, texts, cancel, log);
    log.finish();
    result
}

fn cubin_of_texts(
    words: Vec<String>,
    texts: Vec<String>,
    cancel: Option<Cancel>,
    log: &mut Log,
) -> Result<Option<Vec<u8>>, Stop> {
    let given = options::parse(words, log)?.in_process(texts, cancel);
    check(&given, log)?;
    let product = produce(&given, log)?;
    if let Some(product) = &product {
        product.report_usage(&given, log)?;
    }
    if log.failed() { Err(Stop) } else { Ok(product.map(|product| product.output.cubin)) }
}

/// Checks the options, of which some change what is said from then on.
fn check(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if let Some(name) = given.word(Id::ToolName) {
        log.tool = name.to_string();
    }
    if let Some(form) = given.word(Id::Diagnostics) {
        log.style = Style::named(form);
    }
    log.no_warnings = given.has(Id::NoWarnings);
    log.warnings_are_errors = given.has(Id::WarningsAreErrors);
    options::check(given, log)
}

fn compile(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let Some(product) = produce(given, log)? else { return Ok(()) };
    let Product { name, start, parsed, generated, output } = &product;
    let path = given.output();
    let unwritable = |path: &str| format!("Output file '{path}' could not be opened");
    if !log.failed() {
        write_over(path, &output.cubin).map_err(|_| log.fatal(&unwritable(path)))?;
    }
    product.report_usage(given, log)?;
    if log.failed() {
        return Err(Stop);
    }
    let functions = &output.functions;
    let (start, parsed, generated, end) = (*start, *parsed, *generated, now());
    let trace = Trace { input: name, start, parsed, generated, end, functions };
    trace.write(given).map_err(|message| log.fatal(&message))?;
    let (time, parse, times) = (end - start, parsed - start, &output.times);
    let statistics = Statistics { inputs: &given.inputs, time, parse, times, functions };
    statistics.report(given, log).map_err(|path| log.fatal(&unwritable(&path)))
}

/// The time by the compiler's own clock.
fn now() -> Duration {
    sassafras::system_clock().map_or(Duration::ZERO, |clock| clock())
}

/// A cubin, and when its parts were made.
struct Product {
    name: String,
    start: Duration,
    parsed: Duration,
    generated: Duration,
    output: Generated,
}

impl Product {
    /// `-v`
    fn report_usage(&self, given: &Given, log: &Log) -> Result<(), Stop> {
        if given.has(Id::Verbose) {
            let sections = Sections::of(&self.output.cubin, log)?;
            Report { given, functions: &self.output.functions, sections, log }.print();
        }
        Ok(())
    }
}

/// From the inputs to a cubin; `None` if they were to be parsed only.
fn produce(given: &Given, log: &mut Log) -> Result<Option<Product>, Stop> {
    let start = now();
    let program = Program::read(given, log)?;
    // Enciphered text is no PTX yet.
    if given.asks_for(Id::Okey) {
        return Err(not_supported("--okey", log));
    }
    let parse_only = given.arch().parse_only();
    // Whoever asks about instructions or functions needs them.
    let needs_items = [Id::WarnDouble, Id::ToolsPatch].into_iter().any(|id| given.has(id));
    let front_end = ptx::Options {
        file: program.name.clone(),
        check_only: parse_only && !needs_items,
        advise: log.style != Style::Ptxas,
        toolkit: given.toolkit(),
    };
    let mut front = ptx::parse(&program.text, &front_end);
    if let Some(module) = front.module.as_ref().filter(|_| given.has(Id::WarnDouble) && !program.is_joined) {
        doubles::warn(&program.text, module, log.warnings_are_errors, &mut front.diagnostics);
    }
    match program.is_joined {
        true if front.failed() => {
            return Err(log.fatal("Inputs whose headers exclude each other are not supported"));
        }
        true => {}
        false => report(&program, &front.diagnostics, &front.advice, log)?,
    }
    log.abort_if_failed()?;
    let no_module = "Internal error in the front end: no module";
    let module = front.module.as_mut().ok_or_else(|| log.fatal(no_module))?;
    let needed = module.target;
    program.correct_header(module);
    options::check_for_module(given, module, log)?;
    if parse_only {
        return Ok(None);
    }
    if needed.refusal(given.arch().target, &given.arch().name).is_some() {
        return Err(log.fatal("An input for a later machine is not supported, whatever the last header says"));
    }
    entries::select(given, module, log)?;
    options::check_for_compilation(given, module, log)?;
    refuse_what_is_missing(given, log)?;
    warn_of_what_is_left_out(given, log);
    let parsed = now();
    let progress =
        (log.style != Style::Ptxas).then(|| Progress::show(&format!("compiling {}", program.name)));
    let output = generate(given, &program, module, log);
    drop(progress);
    let output = output?;
    let generated = now();
    usage::check_registers(&output.functions, log)?;
    usage::warn(given, &output.functions, log);
    Ok(Some(Product { name: program.name, start, parsed, generated, output }))
}

/// Writes a file. An older one is not emptied first, which costs ext4 a tenth of the time that a small kernel takes
/// from PTX to cubin.
fn write_over(path: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(false).open(path)?;
    file.write_all(bytes)?;
    let length = bytes.len() as u64;
    if file.metadata()?.len() > length { file.set_len(length) } else { Ok(()) }
}

fn report(
    program: &Program,
    diagnostics: &[ptx::Diagnostic],
    advice: &[(usize, ptx::Advice)],
    log: &mut Log,
) -> Result<(), Stop> {
    log.diagnostics(&program.name, &program.text, diagnostics, advice);
    if program.is_string() && ends_at_once(diagnostics) { Err(Stop) } else { Ok(()) }
}

/// Rather no cubin than one that is not what was asked for.
fn refuse_what_is_missing(given: &Given, log: &Log) -> Result<(), Stop> {
    let missing = OPTIONS.iter().find(|row| row.effect == Effect::Missing && given.asks_for(row.id));
    missing.map_or(Ok(()), |row| Err(not_supported(&format!("--{}", row.long), log)))
}

fn warn_of_what_is_left_out(given: &Given, log: &mut Log) {
    for row in OPTIONS {
        if let Effect::WarnedFor(value, reason) = row.effect
            && given.word(row.id) == Some(value)
            // The sanitizer is none for patches, which was said before.
            && !given.has(Id::ToolsPatch)
        {
            log.warning(&format!("Option '--{}={value}' has no effect: {reason}", row.long));
        }
    }
}

fn not_supported(option: &str, log: &Log) -> Stop {
    log.fatal(&format!("Option '{option}' is not supported by sassafras yet"))
}

/// The numbers of heuristics, with those that the command line changes.
fn tuning(given: &Given, log: &Log) -> Result<sassafras::Tuning, Stop> {
    let mut tuning = sassafras::Tuning::default();
    for pair in given.list(Id::Tune) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_set = value.parse().is_ok_and(|value| tuning.set(name, value));
        if !is_set {
            return Err(
                log.fatal(&format!("'{pair}' is no number that can be tuned; --help-tune lists them"))
            );
        }
    }
    Ok(tuning)
}

/// What came of a module without a fault.
struct Generated {
    cubin: Vec<u8>,
    functions: Vec<sassafras::Usage>,
    times: sassafras::Times,
}

fn generate(given: &Given, program: &Program, module: &Module, log: &mut Log) -> Result<Generated, Stop> {
    let threads = Threads::ask(given, module, log);
    let is_debugged = options::is_debugged(given, module);
    let mut options = sassafras::Options::new(given.arch().target);
    options.command_line = given.note();
    options.level = if is_debugged { 0 } else { given.level() };
    options.relocatable = given.relocatable();
    options.tools_patch = given.has(Id::ToolsPatch);
    options.debug_info = match () {
        _ if given.has(Id::NoDebugSections) => DebugInfo::None,
        _ if is_debugged => DebugInfo::Full,
        _ if given.has(Id::LineInfo) => DebugInfo::Lines,
        _ => DebugInfo::Locs,
    };
    options.debug_code = is_debugged;
    options.errors_at_exit = given.has(Id::ErrorsAtExit);
    options.no_optimizer_constants = given.has(Id::NoOptimizerConstants);
    options.steer_threads = given.word(Id::Sanitize) == Some("threadsteer") && !given.has(Id::ToolsPatch);
    options.contract = given.truth(Id::Fmad).unwrap_or(true);
    options.launch = given.bounds();
    options.load_cache = given.cache_rule(Id::DefaultLoad, Id::ForceLoad);
    options.store_cache = given.cache_rule(Id::DefaultStore, Id::ForceStore);
    options.threads = threads.count;
    options.verify = given.has(Id::Verify);
    options.dump = given.word(Id::DumpIr).map(|pass| if pass.is_empty() { "all" } else { pass }.to_string());
    options.fuel = given.number(Id::Fuel).map(|n| n.clamp(0, u32::MAX.into()) as u32);
    options.tuning = tuning(given, log)?;
    options.disabled_passes = given.disabled_passes().unwrap_or_default();
    options.time_passes = given.has(Id::TimePasses);
    options.cancel = given.cancel.clone();
    let output = sassafras::compile_module(module, &options);
    log.text(Severity::Info, &output.log);
    let mut diagnostics = output.diagnostics;
    // A line of the joined text is no line of any input.
    diagnostics.iter_mut().filter(|_| program.is_joined).for_each(|d| d.line = None);
    let is_told = |note: &ptx::Diagnostic| note.severity > Severity::Info || given.has(Id::Verbose);
    let notes: Vec<_> = output.notes.into_iter().filter(is_told).collect();
    log.diagnostics(&program.name, &program.text, &notes, &[]);
    report(program, &diagnostics, &[], log)?;
    let (functions, times) = (output.functions, output.times);
    output.cubin.map(|cubin| Generated { cubin, functions, times }).ok_or(Stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tune_takes_known_names_and_numbers() {
        let log = Log::default();
        let tuned = |pairs: &str| {
            let words = vec!["--tune".to_string(), pairs.to_string()];
            options::parse(words, &log).and_then(|given| tuning(&given, &log)).ok()
        };
        let expected =
            sassafras::Tuning { known_bits_depth: 3, usual_block_threads: 64, ..Default::default() };
        assert_eq!(tuned("known_bits_depth=3,usual_block_threads=64"), Some(expected));
        for wrong in ["known_bits_depth=x", "known_bits_depth=-1", "no_such_knob=1", "known_bits_depth"] {
            assert_eq!(tuned(wrong), None, "{wrong}");
        }
    }
}
