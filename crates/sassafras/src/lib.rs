//! The compiler: PTX in, cubin out.
//!
//! ```text
//! ptx::Module → lower → ori::Function → passes → regalloc → mir::Code → emit → container → bytes
//! ```
//!
//! Each kernel takes this way alone; nothing flows backwards. A kernel that we cannot compile gives
//! diagnostics, never a cubin.

mod abi;
mod alone;
mod balance;
mod bank0;
mod bits;
mod bundles;
mod callgraph;
mod combine;
mod container;
mod convergence;
mod counters;
mod data;
mod debug;
mod edges;
mod effects;
mod emit;
mod flight;
mod hoist;
mod induction;
mod launch;
mod layout;
mod legalize;
mod limits;
mod lines;
mod local;
mod logic;
mod lower;
mod mir;
mod moves;
mod order;
mod parallel;
mod passes;
mod patches;
mod pragmas;
mod preserve;
mod progress;
mod reconfigure;
mod regalloc;
mod registers;
mod reuse;
mod schedule;
mod select;
mod simplify;
mod sink;
mod times;
mod uniform;
mod unread;
mod unroll;
mod usage;
mod variables;
mod zones;

pub use launch::Bounds;
pub use lower::CacheRule;
pub use patches::not_for_patches;
pub use ptx;
pub use times::Times;
pub use usage::Usage;

use ptx::diag::{Diagnostic, Severity, Span};
use reconfigure::Reconfiguration;
use std::time::Instant;

/// What to compile for, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine: `sm_90`, `sm_90a`, …
    pub target: ptx::Target,
    /// The command line, for the note that a cubin carries.
    pub command_line: String,
    /// How hard to try: 0 is serial code, 1 and up have exact waits.
    pub level: u8,
    /// Which sections are written for debuggers and profilers.
    pub debug_info: DebugInfo,
    /// Code for a debugger, one PTX instruction after the other, whose registers can be found.
    pub debug_code: bool,
    /// Faults of memory accesses show before a thread ends.
    pub errors_at_exit: bool,
    /// Sleep for a random time before what other threads can see, so that races show.
    pub steer_threads: bool,
    /// Write an object for the linker, in place of a cubin for the driver.
    pub relocatable: bool,
    /// Compile functions for tools that put them into the kernels of others. A module is a whole program then, without
    /// kernels ([`not_for_patches`]). If it is `relocatable`, too, an object for the linker has the same code.
    pub tools_patch: bool,
    /// Limits that the command line sets.
    pub launch: Bounds,
    /// How global loads and stores are cached that don't say, or all of them.
    pub load_cache: Option<CacheRule>,
    pub store_cache: Option<CacheRule>,
    /// Threads to compile with; `None`: as many as there are processors. They change nothing but the time.
    pub threads: Option<usize>,
    /// Check the IR after every pass.
    pub verify: bool,
    /// Write the IR after this pass, or after each (`all`), to the log.
    pub dump: Option<String>,
    /// Rewrite no more than so many things in each function.
    pub fuel: Option<u32>,
    /// Write to the log how long each pass took.
    pub time_passes: bool,
}

/// The sections for debuggers and profilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugInfo {
    None,
    /// Line tables if the PTX has a `.loc`.
    Locs,
    /// Line tables.
    Lines,
    /// Line tables, the DWARF sections of the PTX, and where its registers are.
    Full,
}

impl Options {
    /// Is there code elsewhere that calls functions of the module?
    fn is_called(&self) -> bool {
        self.relocatable || self.tools_patch
    }

    /// Does another level make the same code?
    pub fn is_same_level(&self, level: u8) -> bool {
        (self.level > 0) == (level > 0) && passes::are_same(self.level, level)
    }

    /// The best code for a machine.
    pub fn new(target: ptx::Target) -> Options {
        Options {
            target,
            command_line: String::new(),
            level: 3,
            debug_info: DebugInfo::Locs,
            debug_code: false,
            errors_at_exit: false,
            steer_threads: false,
            relocatable: false,
            tools_patch: false,
            launch: Bounds::NONE,
            load_cache: None,
            store_cache: None,
            threads: None,
            verify: false,
            dump: None,
            fuel: None,
            time_passes: false,
        }
    }
}

/// What came of a compilation.
#[derive(Debug, Default)]
pub struct Output {
    /// `None` if anything was wrong.
    pub cubin: Option<Vec<u8>>,
    /// Why there is no cubin, or what the user should know about it.
    pub diagnostics: Vec<Diagnostic>,
    /// About the launch bounds of kernels; those of severity `Info` are for who asks for more (`-v`).
    pub notes: Vec<Diagnostic>,
    /// What each function uses, in the order of the PTX text.
    pub functions: Vec<Usage>,
    /// How long the parts of it took.
    pub times: Times,
    /// Dumps that were asked for.
    pub log: String,
}

/// The text that is compiled, and what the front end made of it.
pub(crate) struct Input<'a> {
    pub source: &'a str,
    pub lines: &'a lower::Lines,
    pub module: &'a ptx::Module<'a>,
    pub conventions: &'a pragmas::Conventions,
}

/// Something that this compiler can't do (yet), or got wrong; with the line of the PTX that it was about.
#[derive(Debug)]
pub(crate) struct Failure {
    pub line: u32,
    pub span: Span,
    pub message: String,
}

impl Failure {
    /// About no line in particular.
    pub fn of_module(message: String) -> Failure {
        Failure { line: 0, span: Span::default(), message }
    }

    pub fn internal(pass: &str, function: &str, what: impl std::fmt::Display) -> Failure {
        let message = format!("Internal error in pass '{pass}' for function '{function}': {what}");
        Failure::of_module(message)
    }
}

/// Compiles a module that the front end accepted: one without errors, whose `.target` the machine can run.
///
/// Functions are compiled on all processors unless [`Options::threads`] says otherwise; the bytes depend on the text and
/// the options alone.
///
/// ```
/// use sassafras::{Options, compile, ptx};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let source = "
///     .version 8.0
///     .target sm_75
///     .address_size 64
///     .visible .entry fill(.param .u64 out, .param .u32 value)
///     {
///         .reg .b64 %out;
///         .reg .b32 %value;
///         ld.param.u64 %out, [out];
///         ld.param.u32 %value, [value];
///         st.global.u32 [%out], %value;
///         ret;
///     }";
/// let parsed = ptx::parse(source, &ptx::Options::for_file("fill.ptx"));
/// eprint!("{}", ptx::diag::render_ptxas("fill.ptx", &parsed.diagnostics));
/// if parsed.failed() {
///     return Err("this is not right PTX".into());
/// }
/// if let Some(refusal) = parsed.refused_for("sm_90") {
///     return Err(refusal.into());
/// }
/// let module = parsed.module.ok_or("no module")?;
///
/// let machine = ptx::Target::find("sm_90").ok_or("no such machine")?;
/// let output = compile(source, &module, &Options::new(machine));
/// eprint!("{}", ptx::diag::render_ptxas("fill.ptx", &output.diagnostics));
/// let cubin: Vec<u8> = output.cubin.ok_or("not compiled")?; // what cuModuleLoadData takes
/// assert!(cubin.starts_with(b"\x7fELF"));
/// let fill = &output.functions[0];
/// assert_eq!((fill.name.as_str(), fill.spill_stores), ("fill", 0));
/// # Ok(())
/// # }
/// ```
pub fn compile(source: &str, module: &ptx::Module, options: &Options) -> Output {
    let mut output = Output::default();
    let result = cubin(source, module, options, &mut output);
    if options.time_passes {
        output.log += &output.times.to_string();
    }
    match result {
        Ok(cubin) => output.cubin = cubin,
        Err(failure) => {
            let line = Some(failure.line).filter(|l| *l > 0);
            let Failure { span, message, .. } = failure;
            output.diagnostics.push(Diagnostic {
                severity: Severity::Fatal,
                file: None,
                line,
                span,
                message,
            });
        }
    }
    output
}

/// `None` if something was wrong and has been said.
fn cubin(
    source: &str,
    module: &ptx::Module,
    options: &Options,
    output: &mut Output,
) -> Result<Option<Vec<u8>>, Failure> {
    let start = Instant::now();
    let machine = match options.tools_patch {
        true => bank0::Machine::for_patches(options.target),
        false => bank0::Machine::of(options.target),
    };
    let machine = machine.ok_or_else(|| unsupported_target(options.target))?;
    limits::check_module(module, machine, options, &mut output.diagnostics)?;
    if output.diagnostics.iter().any(|d| d.severity >= Severity::Error) {
        output.diagnostics.push(remark(&(Severity::Fatal, "Ptx assembly aborted due to errors".into())));
        return Ok(None);
    }
    let lines = lower::Lines::new(source);
    let data = data::Data::new(module, machine, &lines, options.relocatable)?;
    if options.tools_patch {
        patches::check_pointers(module, &data)?;
    }
    let watched = if options.debug_code { debug::watched(module) } else { Vec::new() };
    let mut functions = functions(module);
    if options.tools_patch {
        // ptxas compiles patches from first to last, but those that tools can name before others; everything else the
        // other way.
        functions.sort_by_key(|f| data::binding(f.linkage) == ::cubin::Binding::LOCAL);
        functions.reverse();
    }
    let launch = match options.tools_patch {
        true => Bounds {
            max_registers: Some(launch::LEAST),
            max_function_registers: None,
            ..options.launch.clone()
        },
        false => options.launch.clone(),
    };
    // What a linker adds may have other kernels.
    let limits = match options.relocatable {
        true => Default::default(),
        false => callgraph::limits(&functions, module, &launch, machine.sm),
    };
    let Bounds { max_registers, max_function_registers, .. } = launch;
    let of_options = max_registers.into_iter().chain(max_function_registers);
    let registers = of_options.chain(limits.values().copied()).min().unwrap_or(launch::MOST);
    let limit = pragmas::Limit { registers, relocatable: options.is_called() };
    let remarks = preserve::check(module, source, &lines, limit);
    let is_wrong = remarks.iter().any(|d| d.severity >= Severity::Error);
    output.diagnostics.extend(remarks);
    if is_wrong {
        return Ok(None);
    }
    let conventions = match pragmas::check_module(module, limit) {
        Ok(conventions) => conventions,
        Err(errors) => {
            output.diagnostics.extend(errors.iter().map(remark));
            return Ok(None);
        }
    };
    let withheld = lower::withheld(module, machine);
    let env = lower::Env {
        module,
        machine,
        lines: &lines,
        data: &data,
        bounds: &launch,
        limits: &limits,
        serial: None,
        debug: options.debug_code,
        watched: &watched,
        caches: (options.load_cache, options.store_cache),
        steered: options.steer_threads,
        withheld: &withheld,
        conventions: &conventions,
    };
    output.times.count(Times::SETUP, start.elapsed());
    let threads = threads(options, functions.len());
    let outcomes = parallel::map(&functions, threads, |function| {
        let (mut times, mut log) = (Times::default(), String::new());
        (kernel(env, function, options, (&mut times, &mut log)), times, log)
    });
    let mut compiled = Vec::new();
    for (outcome, times, dumps) in outcomes {
        output.times.add(&times);
        output.log.push_str(&dumps);
        compiled.push(container::Compiled { times, ..outcome? });
    }
    // ptxas compiles from last to first.
    for c in compiled.iter().rev() {
        let warnings = pragmas::warnings(module, c.source, options.is_called());
        output.diagnostics.extend(warnings.iter().map(remark));
        output.notes.extend(c.kernel.launch.notes.iter().map(remark));
    }
    let errors = limits::check_memory(&compiled, &data, options.relocatable);
    if !errors.is_empty() {
        output.diagnostics.extend(errors);
        return Ok(None);
    }
    output.diagnostics.extend(compiled.iter().flat_map(advice));
    let input = Input { source, lines: &lines, module, conventions: &conventions };
    let (bytes, functions) =
        container::module(compiled, data, &input, machine, (threads, &mut output.times), options)?;
    output.functions = functions;
    Ok(Some(bytes))
}

/// What a user may want to know about code that is right nevertheless.
fn advice(compiled: &container::Compiled) -> Vec<Diagnostic> {
    let ignored = match &compiled.kernel.reconfiguration {
        Reconfiguration::Ignored(why) => Some(why.to_string()),
        _ => None,
    };
    let all = ignored.into_iter().chain(compiled.kernel.advice.iter().cloned());
    all.map(|message| remark(&(Severity::Info, message))).collect()
}

/// Something about the module that belongs to no line of it.
fn remark((severity, message): &(Severity, String)) -> Diagnostic {
    let span = Span::default();
    Diagnostic { severity: *severity, file: None, line: None, span, message: message.clone() }
}

/// The functions that have code.
fn functions<'a>(module: &'a ptx::Module<'a>) -> Vec<&'a ptx::ast::Function<'a>> {
    use ptx::ast::Item;
    let mut functions = Vec::new();
    for item in &module.items {
        match item {
            Item::Function(function) => functions.extend(function.body.is_some().then_some(&**function)),
            Item::Variable(_) | Item::File(_) | Item::Section(_) | Item::Alias(_) | Item::Pragma(_) => {}
        }
    }
    functions
}

/// The system is asked how many processors there are only where more than one could be used.
fn threads(options: &Options, functions: usize) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    if functions <= 1 { 1 } else { options.threads.unwrap_or_else(processors).max(1) }
}

/// Compiles a function; where products of a warpgroup overlap with what touches their registers, once more without.
fn kernel<'a>(
    env: lower::Env,
    function: &'a ptx::ast::Function<'a>,
    options: &Options,
    (times, log): (&mut Times, &mut String),
) -> Result<container::Compiled<'a>, Failure> {
    let start = Instant::now();
    let compiled = match overlapping(env, function, options, (times, log))? {
        Some(compiled) => compiled,
        None => {
            let serial = lower::Env { serial: Some(lower::Reason::Registers), ..env };
            let unsettled = || Failure::internal("flight", "", "products overlap though they should not");
            overlapping(serial, function, options, (times, log))?.ok_or_else(unsettled)?
        }
    };
    Ok(container::Compiled { start, time: start.elapsed(), ..compiled })
}

/// `None` if registers were touched while a product of a warpgroup had them.
fn overlapping<'a>(
    env: lower::Env,
    function: &'a ptx::ast::Function<'a>,
    options: &Options,
    (times, log): (&mut Times, &mut String),
) -> Result<Option<container::Compiled<'a>>, Failure> {
    let start = Instant::now();
    let mut kernel = times.of(Times::LOWER, || lower::function(env, function))?;
    if !env.machine.uniform_registers {
        patches::check_uniform(&kernel.code, env.lines)?;
    }
    let registers = kernel.registers();
    let machine = (env.machine, registers, kernel.launch.occupancy(env.machine.sm));
    let enough = passes::run(&mut kernel.code, machine, options, (times, log))?;
    let mut code = times.of("regalloc", || allocate(&mut kernel, enough, env, options))?;
    let settled = times
        .of("flight", || flight::settle(&kernel.code, &mut code, env.machine))
        .map_err(|e| Failure::internal("flight", &kernel.code.name, e))?;
    if options.level > 0 {
        layout::arrange(&kernel.code, &mut code);
        unread::run(&kernel.code, &mut code, env.machine);
        balance::run(&mut code, env.machine);
    }
    Ok(settled.then_some(container::Compiled {
        source: function,
        kernel,
        code,
        start,
        time: start.elapsed(),
        times: Times::default(),
    }))
}

fn allocate(
    kernel: &mut lower::Kernel,
    enough: Option<u32>,
    env: lower::Env,
    options: &Options,
) -> Result<mir::Code, Failure> {
    let failed = |function: &ori::Function, e| Failure::internal("regalloc", &function.name, e);
    let limits = regalloc::Limits::registers(kernel.registers());
    let code = regalloc::run(&mut kernel.code, limits, enough).map_err(|refusal| match refusal {
        regalloc::Refusal::Bug(what) => failed(&kernel.code, what),
        regalloc::Refusal::TooFew { at, registers } => {
            let (line, there) = (env.lines.line(at), kernel.registers());
            Failure::of_module(limits::too_few_registers(&kernel.code.name, line, there, registers))
        }
    })?;
    if options.verify {
        regalloc::check(&kernel.code, &code, &limits, env.machine.isa)
            .map_err(|e| failed(&kernel.code, e))?;
    }
    Ok(code)
}

fn unsupported_target(target: ptx::Target) -> Failure {
    Failure::of_module(format!("Compiling for '{}' is not supported yet", target.name()))
}
