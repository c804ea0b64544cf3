//! The compiler: PTX in, cubin out.
//!
//! ```text
//! ptx::Module → lower → ori::Function → passes → regalloc → mir::Code → emit → container → bytes
//! ```
//!
//! Each kernel takes this way alone; nothing flows backwards. A kernel that we cannot compile gives
//! diagnostics, never a cubin.

mod abi;
mod bank0;
mod bundles;
mod callgraph;
mod combine;
mod container;
mod convergence;
mod data;
mod edges;
mod emit;
mod flight;
mod launch;
mod layout;
mod legalize;
mod lines;
mod lower;
mod mir;
mod moves;
mod order;
mod passes;
mod progress;
mod reconfigure;
mod regalloc;
mod registers;
mod schedule;
mod select;
mod simplify;
mod uniform;

use ptx::diag::{Diagnostic, Severity, Span};
use reconfigure::Reconfiguration;

/// What to compile for, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine: `sm_90`, `sm_90a`, …
    pub target: ptx::Target,
    /// The command line, for the note that a cubin carries.
    pub command_line: String,
    /// How hard to try: 0 is serial code, 1 and up have exact waits.
    pub level: u8,
    /// Write line tables.
    pub line_info: bool,
    /// Write an object for the linker, in place of a cubin for the driver.
    pub relocatable: bool,
    /// No kernel may use more registers.
    pub max_registers: Option<u32>,
    /// Check the IR after every pass.
    pub verify: bool,
    /// Write the IR after this pass, or after each (`all`), to the log.
    pub dump: Option<String>,
    /// Rewrite no more than so many things in each function.
    pub fuel: Option<u32>,
    /// Write to the log how long each pass took.
    pub time_passes: bool,
}

impl Options {
    /// The best code for a machine.
    pub fn new(target: ptx::Target) -> Options {
        Options {
            target,
            command_line: String::new(),
            level: 3,
            line_info: false,
            relocatable: false,
            max_registers: None,
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
    /// `None` if anything was wrong, or if there was nothing to do but check.
    pub cubin: Option<Vec<u8>>,
    pub diagnostics: Vec<Diagnostic>,
    /// Dumps that were asked for.
    pub log: String,
}

/// The text that is compiled, and what the front end made of it.
pub(crate) struct Input<'a> {
    pub source: &'a str,
    pub lines: &'a lower::Lines,
    pub module: &'a ptx::Module<'a>,
}

/// Something that this compiler can't do (yet), or got wrong; with the line of the PTX that it was about.
#[derive(Debug)]
pub(crate) struct Failure {
    pub line: u32,
    pub span: Span,
    pub message: String,
}

impl Failure {
    pub fn internal(pass: &str, function: &str, what: impl std::fmt::Display) -> Failure {
        let message = format!("Internal error in pass '{pass}' for function '{function}': {what}");
        Failure { line: 0, span: Span::default(), message }
    }
}

/// Compiles a module that the front end accepted.
pub fn compile(source: &str, module: &ptx::Module, options: &Options) -> Output {
    let mut output = Output::default();
    let mut times = passes::Times::default();
    let result = cubin(source, module, options, (&mut times, &mut output));
    if options.time_passes {
        output.log += &times.to_string();
    }
    match result {
        Ok(bytes) => output.cubin = Some(bytes),
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

fn cubin(
    source: &str,
    module: &ptx::Module,
    options: &Options,
    (times, output): (&mut passes::Times, &mut Output),
) -> Result<Vec<u8>, Failure> {
    let machine = bank0::Machine::of(options.target).ok_or_else(|| unsupported_target(options.target))?;
    let lines = lower::Lines::new(source);
    let data = data::Data::new(module, machine, &lines, options.relocatable)?;
    let env = lower::Env {
        module,
        machine,
        lines: &lines,
        data: &data,
        max_registers: options.max_registers,
        serial: None,
    };
    let mut compiled = Vec::new();
    for item in &module.items {
        let function = match item {
            ptx::ast::Item::Function(function) if function.body.is_some() => function,
            ptx::ast::Item::Function(_) | ptx::ast::Item::Variable(_) => continue,
            ptx::ast::Item::File(_) | ptx::ast::Item::Section(_) => continue,
            _ => return Err(unsupported_module()),
        };
        let log = &mut output.log;
        let one = match kernel(env, function, options, (times, log))? {
            Some(one) => one,
            None => {
                let serial = lower::Env { serial: Some(lower::Reason::Registers), ..env };
                let unsettled = || Failure::internal("flight", "", "products overlap though they should not");
                kernel(serial, function, options, (times, log))?.ok_or_else(unsettled)?
            }
        };
        output.diagnostics.extend(advice(&one));
        compiled.push(one);
    }
    let input = Input { source, lines: &lines, module };
    times.of("emit", || container::module(compiled, data, &input, machine, options))
}

/// What a user may want to know about code that is right nevertheless.
fn advice(compiled: &container::Compiled) -> Vec<Diagnostic> {
    let ignored = match &compiled.kernel.reconfiguration {
        Reconfiguration::Ignored(why) => Some(why.to_string()),
        _ => None,
    };
    let info = |message: String| Diagnostic {
        severity: Severity::Info,
        file: None,
        line: None,
        span: Span::default(),
        message,
    };
    ignored.into_iter().chain(compiled.kernel.advice.iter().cloned()).map(info).collect()
}

/// `None` if registers were touched while a product of a warpgroup had them.
fn kernel<'a>(
    env: lower::Env,
    function: &'a ptx::ast::Function<'a>,
    options: &Options,
    (times, log): (&mut passes::Times, &mut String),
) -> Result<Option<container::Compiled<'a>>, Failure> {
    let mut kernel = times.of("lower", || lower::function(env, function))?;
    passes::run(&mut kernel.code, env.machine, options, (times, log))?;
    let mut code = times.of("regalloc", || allocate(&mut kernel, env.machine, options))?;
    let settled = times
        .of("flight", || flight::settle(&kernel.code, &mut code, env.machine))
        .map_err(|e| Failure::internal("flight", &kernel.code.name, e))?;
    if options.level > 0 {
        layout::arrange(&kernel.code, &mut code);
    }
    Ok(settled.then_some(container::Compiled { source: function, kernel, code }))
}

fn allocate(
    kernel: &mut lower::Kernel,
    machine: &bank0::Machine,
    options: &Options,
) -> Result<mir::Code, Failure> {
    let failed = |function: &ori::Function, e| Failure::internal("regalloc", &function.name, e);
    let most = match kernel.reconfiguration {
        Reconfiguration::From(start) => start,
        _ => kernel.launch.registers(options.max_registers),
    };
    let limits = regalloc::Limits::registers(most);
    let code = regalloc::run(&mut kernel.code, limits).map_err(|e| failed(&kernel.code, e))?;
    if options.verify {
        regalloc::check(&kernel.code, &code, &limits, machine.isa).map_err(|e| failed(&kernel.code, e))?;
    }
    Ok(code)
}

fn unsupported_module() -> Failure {
    let message = "An alias or pragma of the module is not supported yet".to_string();
    Failure { line: 0, span: Span::default(), message }
}

fn unsupported_target(target: ptx::Target) -> Failure {
    let message = format!("Compiling for '{}' is not supported yet", target.name());
    Failure { line: 0, span: Span::default(), message }
}
