//! What ptxas says about options that don't go together, don't fit the machine, or don't fit the module.
//!
//! The rules are in the order in which ptxas 13.0.88 checks them; it was found by breaking several at once. A rule
//! that is fatal ends the command, an error lets the front end run and ends it then, a warning lets it go on.

use super::number;
use super::parse::{Given, Value};
use super::table::Id;
use crate::log::{Log, Stop};
use ptx::ast::{Item, Module};
use ptx::target::Suffix;
use sassafras::Bounds;
use std::path::Path;

type Rule = fn(&Given, &mut Log) -> Result<(), Stop>;

const RULES: &[Rule] = &[
    statistics,
    lto_machines,
    blackwell_workaround,
    register_usage_range,
    known_only_by_name,
    fast_compile_value,
    api_version,
    member_masks,
    abi,
    linkage_modes,
    split_compile,
    fast_compile_and_cloning,
    fast_compile_and_level,
    line_info_and_debug,
    older_machines,
    tools_patch_and_linkage,
    optimized_debugging,
    register_usage_and_level,
    cloning_and_debug,
    fast_compile_and_debug,
    abi_and_debug,
    tools_patch_and_sanitizer,
    cache_modifiers,
    forced_caches,
    workarounds,
    max_registers,
    function_registers,
    launch_bounds,
    ptx_length,
    hopper_workaround,
    preserve_relocs,
    controls,
    passes,
];

impl Given {
    /// The passes of `--disable-pass`.
    pub fn disabled_passes(&self) -> Result<Vec<&'static str>, String> {
        self.list(Id::DisablePass).iter().map(|name| sassafras::optional_pass(name)).collect()
    }
}

/// Names of passes; ptxas has none.
fn passes(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let dumped = given.word(Id::DumpIr).filter(|name| !matches!(*name, "" | "all"));
    if let Some(name) = dumped.filter(|name| !sassafras::is_pass(name)) {
        let near = ptx::advice::nearest(name, sassafras::pass_names());
        let near = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        return Err(log.fatal(&format!("There is no pass '{name}'{near}")));
    }
    given.disabled_passes().map(drop).map_err(|message| log.fatal(&message))
}

/// The options alone, before any input is read.
pub fn check(given: &Given, log: &mut Log) -> Result<(), Stop> {
    RULES.iter().try_for_each(|rule| rule(given, log))
}

/// Warnings that neither `-w` nor `-Werror` reaches.
fn statistics(given: &Given, log: &mut Log) -> Result<(), Stop> {
    // The stray comma and quote are ptxas's.
    let needs: [(bool, &str, Id, &str); 3] = [
        (given.has(Id::StatsFile), "'--compiler-stats-file'", Id::Stats, "--compiler-stats"),
        (
            given.number(Id::TracePid).is_some_and(|pid| pid != 0),
            "'--use-trace-pid', '",
            Id::TimeTrace,
            "--fdevice-time-trace",
        ),
        (given.has(Id::TracePhase), "'--ftrace-phase-after'", Id::TimeTrace, "--fdevice-time-trace"),
    ];
    for (is_given, name, needed, needed_name) in needs {
        if is_given && !given.has(needed) {
            log.early_warning(&format!(
                "Option {name} requires option '{needed_name}'; ignoring since latter is not specified"
            ));
        }
    }
    Ok(())
}

/// Link-time optimisation has no names for single machines.
fn lto_machines(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let arch = given.arch();
    if arch.is_lto() && arch.target.suffix() == Suffix::Arch {
        return Err(log.fatal(&format!("Unsupported gpu architecture '{}'", arch.name)));
    }
    Ok(())
}

/// Only for sm_100, and there `true` only in relocatable objects.
fn blackwell_workaround(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let arch = given.arch();
    let fits = arch.generation() == 100;
    let option = match given.get(Id::Sw4915215) {
        Some(_) if !fits => "sw4915215",
        Some(Value::Truth(true)) if !given.has(Id::Relocatable) => "sw4915215=true",
        _ => return Ok(()),
    };
    log.error(&format!("Option '{option}' not supported for gpu architecture '{}'", arch.name));
    Ok(())
}

fn register_usage_range(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if let Some(level) = given.number(Id::RegisterUsage).filter(|level| !(0..=10).contains(level)) {
        log.warning(&format!(
            "Value of RegUsageLevel ({level}) is out of valid range {{0..10}}, option will be ignored"
        ));
    }
    Ok(())
}

fn known_only_by_name(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::Fdcmpt) { Err(log.fatal("Unknown option '-fdcmpt'")) } else { Ok(()) }
}

fn fast_compile_value(given: &Given, log: &mut Log) -> Result<(), Stop> {
    match given.word(Id::FastCompile) {
        None | Some("0" | "min" | "mid" | "max") => Ok(()),
        Some(other) => Err(log.fatal(&format!(
            "Invalid value for --Ofast-compile/-Ofc ({other}), is not 'max', 'mid', 'min', or '0'"
        ))),
    }
}

fn api_version(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let newest = given.toolkit().unwrap_or(ptx::Toolkit::NEWEST);
    match given.word(Id::CudaApiVersion) {
        None => Ok(()),
        Some(name) if ptx::Toolkit::find(name).is_some_and(|api| api <= newest) => Ok(()),
        Some(other) => Err(log.fatal(&format!("Invalid value '{other}' for option '--cuda-api-version'"))),
    }
}

fn member_masks(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::NoMaskOverlap) && given.has(Id::MaskOverlap) {
        return Err(log.fatal("Conflicting options -no-membermask-overlap and -membermask-overlap specified"));
    }
    Ok(())
}

fn abi(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if let Some(other) = given.word(Id::Abi).filter(|word| *word != "yes") {
        log.error(&format!("Invalid value '{other}' for option -abi."));
    }
    Ok(())
}

fn linkage_modes(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::Relocatable) && given.has(Id::Extensible) {
        log.warning(&ignoring("'--compile-only'", "'--extensible-whole-program'"));
    }
    Ok(())
}

fn split_compile(given: &Given, log: &mut Log) -> Result<(), Stop> {
    match given.number(Id::SplitCompile) {
        Some(number) if number < 0 => {
            Err(log.fatal(&format!("Invalid value '{number}' for option '--split-compile'")))
        }
        Some(number) if number != 1 && given.has(Id::Sw2614554) => {
            log.warning(&ignoring("'--sw2614554'", "'--split-compile'"));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Every word but `no` counts as `yes`.
fn wants_cloning(given: &Given) -> bool {
    given.word(Id::Cloning).is_some_and(|word| word != "no") && !given.has(Id::Relocatable)
}

fn fast_compile_and_cloning(given: &Given, log: &mut Log) -> Result<(), Stop> {
    match given.word(Id::FastCompile).filter(|word| *word != "0" && wants_cloning(given)) {
        Some(word) => {
            Err(log.fatal(&format!("Conflicting options -cloning=yes and --Ofast-compile={word} specified")))
        }
        None => Ok(()),
    }
}

fn cloning_and_debug(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if wants_cloning(given) && given.has(Id::DeviceDebug) {
        return Err(log.fatal("Conflicting options -cloning=yes and -g specified"));
    }
    Ok(())
}

/// `max` is level 0, `mid` and `min` are level 1.
fn fast_compile_and_level(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let (Some(word), Some(level)) = (given.word(Id::FastCompile), given.number(Id::OptLevel)) else {
        return Ok(());
    };
    let levels = match word {
        "max" if level != 0 => "<1,2,3>",
        "mid" | "min" if level != 1 => "<0,2,3>",
        _ => return Ok(()),
    };
    Err(log.fatal(&format!("Conflicting options -opt-level={levels} and --Ofast-compile={word} specified")))
}

fn line_info_and_debug(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::DeviceDebug) && given.has(Id::LineInfo) {
        log.warning(&ignoring("--device-debug", "--generate-line-info"));
    }
    Ok(())
}

fn tools_patch_and_linkage(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let other = match given.has(Id::ToolsPatch) {
        true if given.has(Id::Relocatable) => "--compile-only",
        true if given.has(Id::Extensible) => "--extensible-whole-program",
        true if wants_cloning(given) => "-cloning=yes",
        _ => return Ok(()),
    };
    Err(log.fatal(&format!("Conflicting options '{other}' and --compile-as-tools-patch specified")))
}

fn tools_patch_and_sanitizer(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::ToolsPatch) && given.word(Id::Sanitize).is_some() {
        log.warning(
            "Conflicting options '--sanitize' and '--compile-as-tools-patch' specified, ignoring '--sanitize' option",
        );
    }
    Ok(())
}

fn optimized_debugging(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::DeviceDebug) && given.number(Id::OptLevel).is_some_and(|level| level != 0) {
        return Err(log.fatal("Optimized debugging not supported"));
    }
    Ok(())
}

fn older_machines(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let arch = given.arch();
    if given.has(Id::ExternsDontSync) && arch.generation() < 75 {
        log.warning(&unsupported_by_machine("--assume-extern-functions-do-not-sync", &arch.name));
    }
    if given.has(Id::NoSharedReservation) && arch.generation() < 90 {
        log.warning(&unsupported_by_machine("disable-smem-reservation", &arch.name));
    }
    Ok(())
}

fn register_usage_and_level(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let Some(usage) = given.number(Id::RegisterUsage) else { return Ok(()) };
    if (0..=10).contains(&usage) && given.number(Id::OptLevel) == Some(0) {
        log.warning(&ignoring("'-O0'", "'--register-usage-level'"));
    }
    if given.has(Id::DeviceDebug) {
        log.warning(&ignoring("'--device-debug'", "'--register-usage-level'"));
    }
    Ok(())
}

fn fast_compile_and_debug(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::DeviceDebug) && given.word(Id::FastCompile).is_some_and(|word| word != "0") {
        log.warning(&ignoring("'--device-debug'", "'--Ofast-compile=<min,mid,max>'"));
    }
    Ok(())
}

fn abi_and_debug(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::DeviceDebug) && given.word(Id::Abi).is_some_and(|word| word != "yes") {
        log.warning("Program compiled without abi might not work properly under debugger");
    }
    Ok(())
}

const LOADS: (&str, [&str; 5]) = ("load", ["ca", "cg", "cs", "lu", "cv"]);
const STORES: (&str, [&str; 4]) = ("store", ["wb", "cg", "cs", "wt"]);

fn cache_modifiers(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let options: [(Id, &str, &[&str]); 4] = [
        (Id::DefaultLoad, LOADS.0, &LOADS.1),
        (Id::DefaultStore, STORES.0, &STORES.1),
        (Id::ForceLoad, LOADS.0, &LOADS.1),
        (Id::ForceStore, STORES.0, &STORES.1),
    ];
    for (id, what, known) in options {
        if let Some(word) = given.word(id).filter(|word| !known.contains(word)) {
            log.error(&format!("Invalid default cache modifier on {what} specified: {word}"));
        }
    }
    Ok(())
}

fn forced_caches(given: &Given, log: &mut Log) -> Result<(), Stop> {
    for (forced, default) in [(Id::ForceLoad, Id::DefaultLoad), (Id::ForceStore, Id::DefaultStore)] {
        if given.has(forced) && given.has(default) {
            log.warning(&ignoring(forced.row().long, default.row().long));
        }
    }
    Ok(())
}

fn workarounds(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let arch = given.arch();
    if given.has(Id::Sw1729687) {
        log.warning(&ignoring(&format!("-arch={}", arch.name), "--sw1729687"));
    }
    if given.has(Id::Sw4575628) && arch.generation() < 90 {
        log.warning(&unsupported("--sw4575628", &arch.name));
    }
    if given.has(Id::Sw200428197) && arch.generation() < 75 {
        log.warning(&ignoring(&format!("-arch={}", arch.name), "--sw200428197"));
    }
    if given.has(Id::Sw200387803) {
        log.warning(&deprecated("--sw200387803"));
    }
    if given.get(Id::BlocksAreClusters) == Some(&Value::Truth(true)) && arch.generation() < 90 {
        log.warning(&unsupported("--blocks-are-clusters", &arch.name));
    }
    if given.has(Id::OverlappingMasks) && arch.generation() != 75 {
        log.warning(&unsupported("--print-potentially-overlapping-membermasks", &arch.name));
    }
    Ok(())
}

/// The fewest registers that the ABI needs.
const FEWEST_REGISTERS: i64 = 24;
const FEWEST_REGISTERS_LTO: i64 = 16;

/// How far up a number of registers is moved. `-abi=no` is an error already, but counts here.
fn fewest_registers(given: &Given) -> i64 {
    let arch = given.arch();
    match given.word(Id::Abi).is_none_or(|word| word == "yes") {
        true if arch.is_lto() => FEWEST_REGISTERS_LTO,
        true => FEWEST_REGISTERS,
        false if arch.parse_only() => 0,
        false => ARCH_MIN,
    }
}
const ARCH_MIN: i64 = 32;
const ARCH_MAX: i64 = 255;

impl Given {
    /// `-maxrregcount` as a number, whether or not it makes sense; `Err` if it is none.
    fn register_count(&self, id: Id) -> Result<Option<i64>, String> {
        let Some(word) = self.word(id) else { return Ok(None) };
        let number = match word {
            "archmin" => Some(ARCH_MIN),
            "archmax" => Some(ARCH_MAX),
            // Cut to 32 bits, as ptxas does.
            _ => number::read(word).map(|number| i64::from(number as i32)),
        };
        number.map(Some).ok_or_else(|| format!("Invalid value '{word}' for option '{}'", id.row().long))
    }

    /// The limit on registers that `-maxrregcount` or its kin sets.
    fn max_registers(&self, id: Id) -> Option<u32> {
        let count = self.register_count(id).ok().flatten()?;
        let limit = (0..=ARCH_MAX).contains(&count).then(|| count.max(FEWEST_REGISTERS))?;
        u32::try_from(limit).ok()
    }

    /// The limits that are in force.
    pub fn bounds(&self) -> Bounds {
        let is_free = !limits_registers(self);
        let axes: Vec<u32> = self
            .list(Id::MaxThreads)
            .iter()
            .filter_map(|word| number::read(word))
            .map(|n| n as u32)
            .collect();
        let axis = |i: usize| axes.get(i).copied().unwrap_or(1);
        let is_block = (1..=3).contains(&axes.len());
        Bounds {
            max_threads: (is_free && is_block).then(|| [axis(0), axis(1), axis(2)]),
            min_blocks: self
                .number(Id::MinBlocks)
                .and_then(|n| u32::try_from(n).ok())
                .filter(|n| is_free && *n > 0),
            max_registers: self.max_registers(Id::MaxRegisters),
            max_function_registers: self.max_registers(Id::FunctionRegisters).filter(|_| self.relocatable()),
            overrides: self.has(Id::OverrideDirectives),
        }
    }
}

fn max_registers(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let count = given.register_count(Id::MaxRegisters).map_err(|message| log.fatal(&message))?;
    let Some(count) = count else { return Ok(()) };
    if given.has(Id::ToolsPatch) && !(0..=FEWEST_REGISTERS).contains(&count) {
        let option = "option '--compile-as-tools-patch'";
        log.error(&format!("Invalid value '{count}' of 'maxrregcount' with {option}"));
        return Ok(());
    }
    register_range(given, count, given.word(Id::MaxRegisters), log);
    Ok(())
}

fn function_registers(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::FunctionRegisters) && !given.has(Id::Relocatable) {
        log.warning(
            "Command line option 'device-function-maxrregcount' not supported for 'whole program compilation', \
             will be ignored",
        );
        return Ok(());
    }
    let count = given.register_count(Id::FunctionRegisters).map_err(|message| log.fatal(&message))?;
    if let Some(count) = count {
        register_range(given, count, given.word(Id::FunctionRegisters), log);
    }
    Ok(())
}

/// A machine that is only checked for has no registers, so every number but the named ones is too big for it.
fn register_range(given: &Given, count: i64, word: Option<&str>, log: &mut Log) {
    let arch = given.arch();
    let is_named = matches!(word, Some("archmin" | "archmax"));
    let most = if arch.parse_only() && !is_named { 0 } else { ARCH_MAX };
    let fewest = fewest_registers(given);
    if !(0..=most).contains(&count) {
        log.warning(&format!("Too big maxrregcount value specified {count}, will be ignored"));
    } else if count < fewest {
        log.warning(&format!(
            "For profile {} adjusting per thread register count of {count} to lower bound of {fewest}",
            arch.name
        ));
    }
}

/// Is `-maxrregcount` in force? One that is too big for a machine still is; one that is too big for the none of
/// `compute_90`, or that tools may not have, is not. Patches for tools have a limit of their own.
fn limits_registers(given: &Given) -> bool {
    let for_tools = given.has(Id::ToolsPatch);
    match given.register_count(Id::MaxRegisters) {
        Ok(Some(count)) if given.arch().parse_only() => count == 0,
        Ok(Some(count)) => !for_tools || (0..=FEWEST_REGISTERS).contains(&count),
        _ => for_tools,
    }
}

fn launch_bounds(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let is_limited = limits_registers(given);
    if is_limited && given.number(Id::MinBlocks).is_some_and(|blocks| blocks != 0) {
        log.warning(&ignoring("-maxrregcount", "-minnctapersm"));
    }
    let threads = given.list(Id::MaxThreads).len();
    if is_limited && threads > 0 {
        log.warning(&ignoring("-maxrregcount", "-maxntid"));
    } else if threads > 3 {
        log.warning("Too many values specified for option '-maxntid', option will be ignored");
    }
    Ok(())
}

fn ptx_length(given: &Given, log: &mut Log) -> Result<(), Stop> {
    match (given.asks_for(Id::PtxLength), given.asks_for(Id::Okey)) {
        (true, false) => {
            log.warning("'--ptx-length' option is ignored unless '--okey' option is specified");
        }
        (false, true) => {
            log.warning("'--ptx-length' option should be specified when '--okey' option is given");
        }
        _ => {}
    }
    Ok(())
}

fn hopper_workaround(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::Sw200764156) {
        log.warning(&ignoring(&format!("-arch={}", given.arch().name), "--sw200764156"));
    }
    Ok(())
}

fn preserve_relocs(given: &Given, log: &mut Log) -> Result<(), Stop> {
    let arch = given.arch();
    if given.has(Id::PreserveRelocs) && arch.generation() >= 90 {
        let option = "'--preserve-relocs' option";
        log.warning(&format!(
            "{option} is not fully implemented for '{}' and may not work as expected",
            arch.name
        ));
    }
    Ok(())
}

/// Files of ptxas's own formats: none can be right.
fn controls(given: &Given, log: &mut Log) -> Result<(), Stop> {
    if let Some(file) = given.word(Id::QueryControls).filter(|file| !can_be_written(file)) {
        return Err(log.fatal(&format!("File '{file}' could not be opened")));
    }
    if let Some(file) = given.word(Id::ApplyControls) {
        return Err(log.fatal(&match std::fs::exists(file) {
            Ok(true) => format!("Input file '{file}' not in expected format"),
            _ => format!("File '{file}' could not be opened"),
        }));
    }
    if let Some(file) = given.word(Id::DescriptionFile).filter(|file| !std::fs::exists(file).unwrap_or(false))
    {
        return Err(log.fatal(&format!("Could not open input file '{file}'")));
    }
    if given.has(Id::DescriptionFile) || given.has(Id::DescriptionText) {
        return Err(log.fatal("Parsing error near 'template initialization': failed"));
    }
    Ok(())
}

/// As far as can be known without making the file.
fn can_be_written(file: &str) -> bool {
    let has_folder = |folder: &Path| folder.as_os_str().is_empty() || folder.is_dir();
    !Path::new(file).is_dir() && Path::new(file).parent().is_some_and(has_folder)
}

/// `-g`, or a module that asks for it.
pub fn is_debugged(given: &Given, module: &Module) -> bool {
    given.has(Id::DeviceDebug) || module.target_options.contains(&"debug")
}

/// The options and the module that the front end accepted.
pub fn check_for_module(given: &Given, module: &Module, log: &mut Log) -> Result<(), Stop> {
    debug_sections_without_debug(given, log);
    tools_patch(given, module, log);
    let arch = given.arch();
    if given.has(Id::NoForwardProgress) && arch.generation() < 75 {
        log.warning(&unsupported_by_machine("-noFwdPrg", &arch.name));
    }
    if let Some(refusal) = module.target.refusal(arch.target, &arch.name) {
        return Err(log.fatal(&refusal));
    }
    legacy_bar(given, module, log);
    tensor_checks(given, module, log);
    if given.has(Id::Extensible) && !given.has(Id::Relocatable) && given.has(Id::Pic) {
        let (stronger, weaker) = ("'--extensible-whole-program'", "'--position-independent-code'");
        log.warning(&format!(
            "Conflicting options {weaker} and {stronger} specified, ignoring {weaker} option"
        ));
    }
    log.abort_if_failed()
}

/// What comes after the kernels have been chosen, if a machine is compiled for.
pub fn check_for_compilation(given: &Given, module: &Module, log: &mut Log) -> Result<(), Stop> {
    if given.has(Id::DeviceDebug) {
        debug_sections(module, log);
    }
    log.abort_if_failed()?;
    match given.list(Id::ProfileOptions).first().and_then(|pair| pair.split_once('=')) {
        Some((keyword, _)) => Err(log.fatal(&format!("Unknown profile option '{keyword}'"))),
        None => Ok(()),
    }
}

fn has_section(module: &Module, name: &str) -> bool {
    module.items.iter().any(|item| matches!(item, Item::Section(section) if section.name == name))
}

fn debug_sections_without_debug(given: &Given, log: &mut Log) {
    if given.has(Id::NoDebugSections) && !given.has(Id::DeviceDebug) && !given.has(Id::LineInfo) {
        let needed = "requires option device-debug or lineinfo; ignoring since latter is not specified";
        log.warning(&format!("Option suppress-debug-info {needed}"));
    }
}

fn tools_patch(given: &Given, module: &Module, log: &mut Log) {
    if given.has(Id::ToolsPatch) {
        sassafras::not_for_patches(module).iter().for_each(|message| log.error(message));
    }
}

fn legacy_bar(given: &Given, module: &Module, log: &mut Log) {
    const OPTION: &str = "--legacy-bar-warp-wide-behavior";
    if !given.has(Id::LegacyBar) {
        return;
    }
    log.warning(&deprecated(OPTION));
    if module.target.sm() > 70 {
        log.warning(&unsupported(OPTION, ".target sm_70"));
    }
    if given.has(Id::Relocatable) {
        log.warning(&format!(
            "Option '{OPTION}' may not work as expected in separate compilation unless all modules participating \
             in linking have this option specified."
        ));
    }
}

fn tensor_checks(given: &Given, module: &Module, log: &Log) {
    let is_given = given.has(Id::TensorCheck) || given.has(Id::NoTensorCheck);
    let has_tensor_memory = module.target.sm() >= 100 && module.target.suffix() != Suffix::None;
    if is_given && !has_tensor_memory {
        let options = "--g-tensor-memory-access-check / --gno-tensor-memory-access-check";
        log.info(&unsupported(options, &format!(".target {}", module.target.name())));
    }
}

fn debug_sections(module: &Module, log: &mut Log) {
    let has_abbrev = has_section(module, ".debug_abbrev");
    if !has_abbrev {
        log.warning(" .debug_abbrev section not found");
    }
    if !has_section(module, ".debug_info") {
        log.warning(" .debug_info section not found");
    } else if !has_abbrev {
        log.info("skipping .debug_info section due to missing .debug_abbrev section");
    }
}

fn ignoring(stronger: &str, weaker: &str) -> String {
    format!("Conflicting options {stronger} and {weaker} specified, ignoring {weaker} option")
}

fn unsupported(option: &str, machine: &str) -> String {
    format!("Command line option '{option}' not supported for '{machine}', will be ignored")
}

fn unsupported_by_machine(option: &str, machine: &str) -> String {
    format!("Option '{option}' not supported for gpu architecture '{machine}', will be ignored")
}

fn deprecated(option: &str) -> String {
    format!("'{option}' is a deprecated option, It will be removed in future release and is not recommended")
}
