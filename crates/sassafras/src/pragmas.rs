//! Pragmas: what ptxas 13.0.88 says of those that it doesn't know, and what those mean that change calls.
//!
//! * `nounroll` in a module or before a function's body: no loop is unrolled. In a body: none whose header it stands in,
//!   wherever in that block; anywhere else it says nothing.
//! * A module knows `nounroll` and `abi_param_reg`; any other is an error for each function that
//!   is compiled, and there is no cubin.
//! * In functions an unknown one is a warning.
//! * `abi_param_reg N` or `abi_param_reg all`, in a module or a device function: parameters and results are in registers,
//!   however many there are. As long as there are no more than the usual convention has room for, nothing changes. Who
//!   calls such a function must have a `call_abi_param_reg`, and only such a function may be called then.
//!   With more words ptxas goes on behind R15, and from 17 words on the return address moves behind them (R24 for 17 to
//!   20 words, R28 to 24, R44 for 40): another convention, which is refused here.

use crate::data::name;
use crate::{Failure, lower};
use ptx::ast::{Body, Function, Item, Module, Operand, Stmt, Symbol};
use ptx::diag::Severity;

type Remark = (Severity, String);

const UNROLLING: &str = "nounroll";
const PARAMETERS: &str = "abi_param_reg ";
const PARAMETERS_OF_CALLS: &str = "call_abi_param_reg ";
/// What functions may have besides.
const OF_FUNCTIONS: [&str; 3] = ["enable_smem_spilling", "used_bytes_mask ", "frequency "];

/// How many registers there are for parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    All,
    Words(u32),
}

/// What is wrong with the pragmas of a module; then it has no cubin.
pub fn check_module(module: &Module, relocatable: bool) -> Result<Vec<Remark>, Failure> {
    let strings: Vec<&str> = module
        .items
        .iter()
        .filter_map(|item| if let Item::Pragma(strings) = item { Some(strings) } else { None })
        .flatten()
        .map(|s| s.trim_matches('"'))
        .collect();
    let is_unknown = |s: &&&str| **s != UNROLLING && !s.starts_with(PARAMETERS);
    let unknown = || strings.iter().filter(is_unknown);
    let message = |s: &&str| (Severity::Error, format!("Pragma '{s}' not supported"));
    let compiled = functions(module).filter(|f| is_compiled(module, f, relocatable));
    let errors: Vec<Remark> = compiled.flat_map(|_| unknown().map(message)).collect();
    match errors.is_empty() {
        true => check_conventions(module, &strings),
        false => Ok(errors),
    }
}

/// What a user should know of a function's pragmas.
pub fn warnings(module: &Module, function: &Function, relocatable: bool) -> Vec<Remark> {
    if !is_compiled(module, function, relocatable) {
        return Vec::new();
    }
    let known = OF_FUNCTIONS.iter().chain(&[UNROLLING, PARAMETERS, PARAMETERS_OF_CALLS]);
    let is_known = |s: &str| known.clone().any(|k| *k == s || k.ends_with(' ') && s.starts_with(*k));
    let directives = function.directives.iter().flat_map(|d| &d.strings).map(|s| s.trim_matches('"'));
    let all = directives.chain(function.body.iter().flat_map(of_body));
    let unknown = all.filter(|s| !is_known(s));
    unknown.map(|s| (Severity::Warning, format!("Pragma '{s}' unsupported"))).collect()
}

/// Do pragmas of a block keep the loop from being unrolled whose header that is?
pub fn keeps_rolled(strings: &[&str]) -> bool {
    strings.iter().any(|s| s.trim_matches('"') == UNROLLING)
}

/// Do pragmas keep all loops of a function from being unrolled?
pub fn keep_rolled(module: &Module, function: &Function) -> bool {
    let of_module = module.items.iter().any(|i| matches!(i, Item::Pragma(strings) if keeps_rolled(strings)));
    of_module || function.directives.iter().any(|d| keeps_rolled(&d.strings))
}

fn functions<'m>(module: &'m Module<'m>) -> impl Iterator<Item = &'m Function<'m>> {
    module.items.iter().filter_map(|i| if let Item::Function(f) = i { Some(&**f) } else { None })
}

fn of_body<'b>(body: &'b Body) -> impl Iterator<Item = &'b str> {
    let pragmas = body.stmts.iter().filter_map(|s| if let Stmt::Pragma(p) = s { Some(p) } else { None });
    pragmas.flat_map(|strings| strings.iter()).map(|s| s.trim_matches('"'))
}

/// Without a linker, device functions that nothing names are left alone.
fn is_compiled(module: &Module, function: &Function, relocatable: bool) -> bool {
    let names_it = |body: &Body| body.operands.contains(&Operand::Symbol(function.symbol));
    function.body.is_some()
        && (function.entry || relocatable || functions(module).filter_map(|f| f.body.as_ref()).any(names_it))
}

/// The room that the first of some pragmas asks for.
fn room<'s>(
    target: ptx::Target,
    mut strings: impl Iterator<Item = &'s str>,
) -> Result<Option<Room>, Vec<Remark>> {
    let Some((text, value)) = strings.find_map(|s| Some((s, s.strip_prefix(PARAMETERS)?.trim()))) else {
        return Ok(None);
    };
    if value == "all" {
        return Ok(Some(Room::All));
    }
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let words = value[..digits].parse().unwrap_or(0);
    let mut errors = Vec::new();
    if digits < value.len() {
        errors.push(format!("Invalid value '{value}' specified for .pragma '{text}'"));
    }
    if words == 0 {
        errors.push(format!("abi_param_reg 0 is invalid for {}", target.name()));
    }
    match errors.is_empty() {
        true => Ok(Some(Room::Words(words))),
        false => Err(errors.into_iter().map(|message| (Severity::Error, message)).collect()),
    }
}

/// Do callers and callees agree on where parameters are, and is that where we put them?
fn check_conventions(module: &Module, strings: &[&str]) -> Result<Vec<Remark>, Failure> {
    let mut errors = Vec::new();
    let mut take = |found: Result<Option<Room>, Vec<Remark>>| {
        found.unwrap_or_else(|wrong| {
            errors.extend(wrong);
            None
        })
    };
    let of_module = take(room(module.target, strings.iter().copied()));
    let mut rooms: Vec<(Symbol, Room)> = Vec::new();
    for function in functions(module).filter(|f| !f.entry) {
        let own = take(room(module.target, function.body.iter().flat_map(of_body)));
        rooms.extend(own.or(of_module).map(|room| (function.symbol, room)));
    }
    for function in functions(module) {
        let room = rooms.iter().find(|(symbol, _)| *symbol == function.symbol);
        errors.extend(room.map(|(_, room)| check_room(module, function, *room)).transpose()?.flatten());
    }
    if errors.is_empty() {
        functions(module).try_for_each(|caller| check_calls(module, caller, &rooms))?;
    } else {
        errors.push((Severity::Fatal, "Ptx assembly aborted due to errors".to_string()));
    }
    Ok(errors)
}

fn check_room(module: &Module, function: &Function, room: Room) -> Result<Option<Remark>, Failure> {
    let words: u32 = function.params.iter().map(|p| lower::shape(p).words()).sum();
    if let Room::Words(few) = room
        && few < words
    {
        let text = format!(
            "Pragma abi_param_reg value should be atleast {words} to fit all the parameters in registers"
        );
        return Ok(Some((Severity::Error, text)));
    }
    let usual = lower::signature(&function.returns, &function.params);
    if usual.stack > 0 || usual.result_address.is_some() {
        let name = name(module, function.symbol);
        let text = format!("Pragma 'abi_param_reg' for so many parameters or results as '{name}' has");
        return Err(Failure::of_module(format!("{text} is not supported yet")));
    }
    Ok(None)
}

fn check_calls(module: &Module, caller: &Function, rooms: &[(Symbol, Room)]) -> Result<(), Failure> {
    let Some(body) = &caller.body else { return Ok(()) };
    let says_so = of_body(body).any(|s| s.starts_with(PARAMETERS_OF_CALLS));
    if !says_so && rooms.is_empty() {
        return Ok(());
    }
    for stmt in &body.stmts {
        let Stmt::Inst(inst) = stmt else { continue };
        if module.opcodes[inst.opcode.0 as usize].mnemonic != "call" {
            continue;
        }
        let symbols = body.list(inst.operands).iter().filter_map(|o| match o {
            Operand::Symbol(symbol) => Some(*symbol),
            _ => None,
        });
        for callee in symbols.filter(|s| functions(module).any(|f| f.symbol == *s)) {
            if rooms.iter().any(|(symbol, _)| *symbol == callee) != says_so {
                let [caller, callee] = [caller.symbol, callee].map(|s| name(module, s));
                let text = "number of registers used for parameter passing differ";
                let message = format!("ABI mismatch when '{caller}' calls '{callee}': {text}");
                return Err(Failure::of_module(message));
            }
        }
    }
    Ok(())
}
