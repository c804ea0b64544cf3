//! The driver: takes one module through module checks, the pipeline (functions in parallel, `passes.rs`), and the
//! container.

pub mod ir_text;

use crate::context::{
    Bounds, DebugInfo, Ended, Failure, Lines, Options, PassError, Record, Times, parallel, target,
};
use crate::mach::unit::Unit;
use crate::module::abi::{Clobbers, Convention};
use crate::module::setmaxnreg::Reconfiguration;
use crate::module::{
    abi_preserve, call_graph, data, launch_bounds, limits, param_registers, pragmas, tools_patch,
};
use crate::object::{Compiled, Input, container, debug_info, resource_usage};
use crate::{Output, lower, passes};
use ptx::ast::Symbol;
use ptx::diag::{Diagnostic, Severity, Span};
use rustc_hash::FxHashMap;

/// `None` if there are errors; they are among the diagnostics.
pub fn cubin(module: &ptx::Module, options: &Options, output: &mut Output) -> Result<Option<Vec<u8>>, Ended> {
    let start = options.now();
    let source = module.source.text();
    let machine = match options.tools_patch {
        true => target::TargetMachine::for_patches(options.target),
        false => target::TargetMachine::of(options.target),
    };
    let machine = machine.ok_or_else(|| unsupported_target(options.target))?;
    if let Some(refusal) = module.target.refusal(options.target, options.target.name()) {
        return Err(Failure::of_module(refusal).into());
    }
    limits::check_module(module, machine, options, &mut output.diagnostics)?;
    if output.diagnostics.iter().any(|d| d.severity >= Severity::Error) {
        output.diagnostics.push(remark(&(Severity::Fatal, "Ptx assembly aborted due to errors".into())));
        return Ok(None);
    }
    let lines = Lines::new(source);
    let data = data::Data::new(module, machine, &lines, options.relocatable)?;
    if options.tools_patch {
        tools_patch::check_pointers(module, &data)?;
    }
    let watched = if options.debug_code { debug_info::watched(module) } else { Vec::new() };
    let calls = call_graph::Calls::new(module, &data.aliases);
    let mut functions: Vec<&ptx::ast::Function> = calls.functions().collect();
    // Nobody else can call the functions of an executable. For a debugger ptxas keeps them.
    if !options.is_called() && !options.debug_code {
        let needed = calls.needed();
        functions.retain(|f| needed.contains(&f.symbol));
    }
    if options.tools_patch {
        // ptxas compiles patches in source order, those that tools can name before others; everything else in reverse.
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
    // The linker may add kernels that call these functions.
    let limits = match options.relocatable {
        true => Default::default(),
        false => call_graph::limits(&calls, &launch, machine),
    };
    let Bounds { max_registers, max_function_registers, .. } = launch;
    let of_options = max_registers.into_iter().chain(max_function_registers);
    let registers = of_options.chain(limits.values().copied()).min().unwrap_or(launch_bounds::MOST);
    let limit = param_registers::Limit { registers, relocatable: options.is_called() };
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
        tuning: options.tuning,
        withheld: &withheld,
        conventions: &conventions,
        clobbers: &FxHashMap::default(),
        preserves_none: false,
    };
    output.times.count(Times::SETUP, options.now() - start);
    let outcomes = functions_by_layers(env, &functions, &calls, options);
    let mut compiled = Vec::new();
    for (outcome, times, record) in outcomes {
        output.times.add(&times);
        output.log.push_str(&record.log);
        output.snapshots.extend(record.snapshots);
        compiled.push(Compiled { times, ..outcome? });
    }
    // ptxas compiles from last to first, but without optimization what a linker or a debugger reads.
    let forwards = options.debug_code || options.relocatable && options.level == 0;
    let (first, last) = if forwards { compiled.split_at(compiled.len()) } else { compiled.split_at(0) };
    for c in first.iter().chain(last.iter().rev()) {
        let warnings = pragmas::warnings(module, c.source, options.is_called());
        output.diagnostics.extend(warnings.iter().map(remark));
        output.notes.extend(c.kernel.launch.notes.iter().map(remark));
    }
    let errors = resource_usage::check_memory(&compiled, &data, options.relocatable);
    if !errors.is_empty() {
        output.diagnostics.extend(errors);
        return Ok(None);
    }
    output.diagnostics.extend(compiled.iter().flat_map(advice));
    let input = Input { source, lines: &lines, module, conventions: &conventions };
    let (bytes, functions) = container::module(compiled, data, &input, machine, &mut output.times, options)?;
    output.functions = functions;
    Ok(Some(bytes))
}

type Outcome<'a> = (Result<Compiled<'a>, Ended>, Times, Record);

/// Compiles functions in parallel, those of an executable after what they call: a caller keeps values in the registers
/// that its callees leave alone. A linker, patches and a debugger rely on the ABI alone.
fn functions_by_layers<'a>(
    env: lower::Env,
    functions: &[&'a ptx::ast::Function<'a>],
    calls: &call_graph::Calls,
    options: &Options,
) -> Vec<Outcome<'a>> {
    let knows_callees = !options.is_called() && !options.debug_code;
    let layers =
        if knows_callees { calls.layers(functions) } else { vec![vec![(0..functions.len()).collect()]] };
    let mut outcomes: Vec<Option<Outcome>> = functions.iter().map(|_| None).collect();
    let mut clobbers = FxHashMap::default();
    for layer in layers {
        let indices = layer.concat();
        let threads = threads(options, indices.len());
        let done = parallel::map(&indices, threads, |index| {
            let (mut times, mut record) = (Times::default(), Record::default());
            let preserves_none = knows_callees && calls.may_preserve_none(functions[*index], &clobbers);
            let env = lower::Env { clobbers: &clobbers, preserves_none, ..env };
            (function(env, functions[*index], options, (&mut times, &mut record)), times, record)
        });
        indices.iter().zip(done).for_each(|(index, outcome)| outcomes[*index] = Some(outcome));
        for group in layer.iter().filter(|_| knows_callees) {
            let mut own =
                group.iter().map(|i| outcomes[*i].as_ref()?.0.as_ref().ok().map(|c| c.encoded.clobbers));
            let own = own.try_fold(Clobbers::default(), |all, own| Some(all.max(own?)));
            let symbols: Vec<Symbol> = group.iter().map(|i| functions[*i].symbol).collect();
            let all = own.and_then(|own| calls.clobbers(&symbols, own, &clobbers));
            clobbers.extend(all.into_iter().flat_map(|all| symbols.iter().map(move |symbol| (*symbol, all))));
        }
    }
    outcomes.into_iter().flatten().collect()
}

/// Advice about correct code.
fn advice(compiled: &Compiled) -> Vec<Diagnostic> {
    let ignored = match &compiled.kernel.reconfiguration {
        Reconfiguration::Ignored(why) => Some(why.to_string()),
        _ => None,
    };
    let all = ignored.into_iter().chain(compiled.kernel.advice.iter().cloned());
    all.map(|message| remark(&(Severity::Info, message))).collect()
}

/// A diagnostic without a line.
fn remark((severity, message): &(Severity, String)) -> Diagnostic {
    let span = Span::default();
    Diagnostic { severity: *severity, file: None, line: None, span, message: message.clone() }
}

/// Asking the system for the number of processors takes time: only where more than one thread could be used.
fn threads(options: &Options, functions: usize) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    if functions <= 1 { 1 } else { options.threads.unwrap_or_else(processors).max(1) }
}

/// Compiles a function; where a register of an outstanding wgmma is accessed, once more with serialized wgmma.
fn function<'a>(
    env: lower::Env,
    source: &'a ptx::ast::Function<'a>,
    options: &Options,
    (times, record): (&mut Times, &mut Record),
) -> Result<Compiled<'a>, Ended> {
    let start = options.now();
    let unit = match pipeline(env, source, options, (times, record))? {
        Some(unit) => unit,
        None => {
            let serial = lower::Env { serial: Some(lower::Reason::Registers), ..env };
            let unsettled = || Failure::internal("wgmma-hazards", "", "serialized wgmma are outstanding");
            record.snapshots.clear();
            pipeline(serial, source, options, (times, record))?.ok_or_else(unsettled)?
        }
    };
    let Unit { mut kernel, mut code, encoded, .. } = unit;
    let times = Times::default();
    let convention = Convention::own(&kernel.code).unwrap_or_default();
    let preserves_none = encoded.clobbers.preserves_none;
    let convention = if preserves_none { convention } else { convention.preserving_usual() };
    // Only a debugger wants to know what became of values: else a module takes the memory of its largest function, not
    // that of all of them.
    if options.debug_info != DebugInfo::Full {
        (kernel.code.insts, kernel.code.values, kernel.code.blocks) = Default::default();
        (code.blocks, code.claims) = Default::default();
    }
    Ok(Compiled { source, kernel, code, convention, encoded, start, time: options.now() - start, times })
}

/// From PTX to bytes. `None` if a register of an outstanding wgmma is accessed.
fn pipeline<'o>(
    env: lower::Env,
    source: &ptx::ast::Function,
    options: &'o Options,
    (times, record): (&mut Times, &mut Record),
) -> Result<Option<Unit<'o>>, Ended> {
    options.go_on(0).map_err(Ended::Stopped)?;
    let mut kernel = times.of(Times::LOWER, options, || lower::function(env, source))?;
    if !options.contract {
        kernel.code.contractable.clear();
    }
    if !env.machine.uniform_registers {
        tools_patch::check_uniform(&kernel.code, env.lines)?;
    }
    let mut unit = Unit::new(kernel, options, passes::compile_routine);
    let Err(failure) = passes::run(&mut unit, env.machine, (times, record)) else { return Ok(Some(unit)) };
    match failure.error {
        PassError::WgmmaHazard => Ok(None),
        PassError::Stopped(stop) => Err(Ended::Stopped(stop)),
        PassError::TooFewRegisters { at, registers } => {
            let (line, limit) = (env.lines.line(at), unit.kernel.registers());
            let message = limits::too_few_registers(&failure.function, line, limit, registers);
            Err(Failure::of_module(message).into())
        }
        _ => Err(Failure::of_module(failure.to_string()).into()),
    }
}

fn unsupported_target(target: ptx::Target) -> Failure {
    Failure::of_module(format!("Compiling for '{}' is not supported yet", target.name()))
}
