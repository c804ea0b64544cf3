//! One module through the pipeline: checks of the module, functions in parallel, the container.

use crate::context::{Failure, Options, Times, parallel, target};
use crate::mach::{dead_predicates, inst, layout, pipe_balance, wgmma_hazards};
use crate::module::launch_bounds::Bounds;
use crate::module::setmaxnreg::Reconfiguration;
use crate::module::{abi_preserve, call_graph, data, launch_bounds, limits, pragmas, tools_patch};
use crate::object::{Input, container, debug_info};
use crate::{Output, lower, passes, regalloc};
use ptx::diag::{Diagnostic, Severity, Span};
use std::time::Instant;

/// `None` if something was wrong and has been said.
pub fn cubin(
    source: &str,
    module: &ptx::Module,
    options: &Options,
    output: &mut Output,
) -> Result<Option<Vec<u8>>, Failure> {
    let start = Instant::now();
    let machine = match options.tools_patch {
        true => target::Machine::for_patches(options.target),
        false => target::Machine::of(options.target),
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
        tools_patch::check_pointers(module, &data)?;
    }
    let watched = if options.debug_code { debug_info::watched(module) } else { Vec::new() };
    let mut functions = functions(module);
    if options.tools_patch {
        // ptxas compiles patches from first to last, but those that tools can name before others; everything else the
        // other way.
        functions.sort_by_key(|f| data::binding(f.linkage) == ::cubin::Binding::LOCAL);
        functions.reverse();
    }
    let launch = match options.tools_patch {
        true => Bounds {
            max_registers: Some(launch_bounds::LEAST),
            max_function_registers: None,
            ..options.launch.clone()
        },
        false => options.launch.clone(),
    };
    // What a linker adds may have other kernels.
    let limits = match options.relocatable {
        true => Default::default(),
        false => call_graph::limits(&functions, module, &launch, machine.sm),
    };
    let Bounds { max_registers, max_function_registers, .. } = launch;
    let of_options = max_registers.into_iter().chain(max_function_registers);
    let registers = of_options.chain(limits.values().copied()).min().unwrap_or(launch_bounds::MOST);
    let limit = pragmas::Limit { registers, relocatable: options.is_called() };
    let remarks = abi_preserve::check(module, source, &lines, limit);
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
            let unsettled =
                || Failure::internal("wgmma-hazards", "", "products overlap though they should not");
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
        tools_patch::check_uniform(&kernel.code, env.lines)?;
    }
    let registers = kernel.registers();
    let machine = (env.machine, registers, kernel.launch.occupancy(env.machine.sm));
    let enough = passes::run(&mut kernel.code, machine, options, (times, log))?;
    let mut code = times.of("regalloc", || allocate(&mut kernel, enough, env, options))?;
    let settled = times
        .of("wgmma-hazards", || wgmma_hazards::settle(&kernel.code, &mut code, env.machine))
        .map_err(|e| Failure::internal("wgmma-hazards", &kernel.code.name, e))?;
    if options.level > 0 {
        layout::arrange(&kernel.code, &mut code);
        dead_predicates::run(&kernel.code, &mut code, env.machine);
        pipe_balance::run(&mut code, env.machine);
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
) -> Result<inst::MachFunction, Failure> {
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
