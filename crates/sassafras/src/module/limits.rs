//! Checks of module-wide limits and of input that no target supports, with ptxas's messages in ptxas's order. All of it
//! was seen with ptxas 13.0.88; an error leaves no cubin.

use crate::context::target::TargetMachine;
use crate::context::{Failure, Options, plain};
use crate::module::tools_patch;
use crate::module::{call_graph, data, prototype};
use ptx::ast::{Item, Operand, Space, Stmt, SymbolKind, Variable};
use ptx::diag::{Diagnostic, Severity};
use ptx::{Module, ast};
use std::collections::BTreeSet;

/// The functions of the driver that code may call, and the prefix of all others.
const DRIVER_FUNCTIONS: [&str; 11] = [
    "__assertfail",
    "cudaGraphKernelNodeSetEnabled",
    "cudaGraphKernelNodeSetGridDim",
    "cudaGraphKernelNodeSetParam",
    "cudaGraphKernelNodeUpdatesApply",
    "cudaGraphLaunch",
    "cudaGraphSetConditional",
    "free",
    "malloc",
    "vfprintf",
    "vprintf",
];
const DRIVER_PREFIX: &str = "__cuda_syscall";

/// Checks before anything is compiled.
pub fn check_module(
    module: &Module,
    machine: &TargetMachine,
    options: &Options,
    out: &mut Vec<Diagnostic>,
) -> Result<(), Failure> {
    check_address_size(module, machine, out)?;
    if options.tools_patch {
        tools_patch::check_module(module, out)?;
    }
    check_convention(module, options.relocatable)?;
    if !options.relocatable {
        check_functions(module)?;
        out.extend(unresolved_variables(module));
    }
    Ok(())
}

fn check_address_size(
    module: &Module,
    machine: &TargetMachine,
    out: &mut Vec<Diagnostic>,
) -> Result<(), Failure> {
    if module.address_size != Some(32) {
        return Ok(());
    }
    let host = " 64 Bit host architecture (--machine) being used mismatches with .address_size of 32 bits";
    out.push(plain(Severity::Warning, host.into()));
    let why = match machine.refuses_32bit_abi {
        false => " 32-Bit compilation is no longer supported",
        true => {
            " 32-Bit ABI (--machine 32 or 32-Bit addressing) is not supported on sm_90 or higher architectures."
        }
    };
    Err(Failure::of_module(why.into()))
}

/// An executable must define all functions that it names, but for those of the driver.
fn check_functions(module: &Module) -> Result<(), Failure> {
    let is_defined = |symbol: ast::Symbol| {
        let here = |item: &Item| matches!(item, Item::Function(f) if f.symbol == symbol && f.body.is_some());
        let alias = |item: &Item| matches!(item, Item::Alias(a) if a.alias == symbol);
        module.items.iter().any(|item| here(item) || alias(item))
    };
    let missing = |symbol: ast::Symbol| {
        let is_function = matches!(module.symbols.get(symbol.0 as usize)?.kind, SymbolKind::Function { .. });
        let name = (is_function && !is_defined(symbol)).then(|| data::name(module, symbol));
        name.filter(|name| !is_driver_function(name))
    };
    for body in data::bodies(module) {
        for stmt in &body.stmts {
            let Stmt::Inst(inst) = stmt else { continue };
            let is_call = module.opcodes[inst.opcode.0 as usize].mnemonic == "call";
            let symbols = body.list(inst.operands).iter().filter_map(|o| match o {
                Operand::Symbol(symbol) => Some(*symbol),
                _ => None,
            });
            if let Some(name) = symbols.filter_map(missing).next() {
                return Err(match is_call {
                    true => Failure::of_module(format!("Unresolved extern function '{name}'")),
                    false => no_address(&name),
                });
            }
        }
    }
    match call_graph::taken_by_data(module).into_iter().find_map(missing) {
        Some(name) => Err(no_address(&name)),
        None => Ok(()),
    }
}

fn no_address(function: &str) -> Failure {
    Failure::of_module(format!("Cannot take address of function '{function}' "))
}

/// Functions with several results have a convention of their own, which linkers don't know.
fn check_convention(module: &Module, relocatable: bool) -> Result<(), Failure> {
    match relocatable && prototype::has_several_results(module) {
        true => Err(Failure::of_module("'Compile only(-c)' requires ABI".into())),
        false => Ok(()),
    }
}

/// The message for an instruction that needs more registers than the register limit.
pub fn too_few_registers(function: &str, line: u32, there: u32, enough: u32) -> String {
    format!(
        "(C7602) Insufficient registers ({there}) to compile instruction at line {line} in function {function}. \
         Try to compile with register target of {enough} or higher."
    )
}

fn is_driver_function(name: &str) -> bool {
    DRIVER_FUNCTIONS.contains(&name) || name.starts_with(DRIVER_PREFIX)
}

/// An executable is a whole program: an `.extern` variable is defined in it, with a warning. Only a shared one of unknown
/// size isn't: that is dynamic shared memory. What follows after the first declaration doesn't matter, as with ptxas.
fn unresolved_variables(module: &Module) -> Vec<Diagnostic> {
    let mut declared = BTreeSet::new();
    let is_dynamic = |v: &Variable| v.space == Space::Shared && v.dims.contains(&None);
    let mut outside = |item: &Item| match item {
        Item::Variable(v) if declared.insert(v.symbol) && v.linkage.external && !is_dynamic(v) => {
            Some(data::name(module, v.symbol))
        }
        _ => None,
    };
    let text = |name: String| {
        format!("Unresolved extern variable '{name}' in whole program compilation, ignoring extern qualifier")
    };
    module.items.iter().filter_map(&mut outside).map(|name| plain(Severity::Warning, text(name))).collect()
}
