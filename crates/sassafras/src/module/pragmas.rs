//! Pragmas: the diagnostics of ptxas 13.0.88 for unknown ones, and the calling conventions that known ones select.
//!
//! * `nounroll` in a module or before a function's body: no loop is unrolled. In a body: not the loop whose header block
//!   contains it; in any other block it has no effect.
//! * In a module `nounroll` and `abi_param_reg` are known; any other is an error for each function that is compiled, and
//!   there is no cubin.
//! * In functions an unknown pragma is a warning.
//! * `abi_param_reg N` or `abi_param_reg all`, in a module or a device function: N registers for parameters and for
//!   results, or as many as it takes ([`ParamRegisters`]). N must cover all words of the parameters, and of the result; padding
//!   doesn't count, and parameters without registers are on the stack as usual. `all` takes no more than the function may
//!   use; a parameter that is too large then has its usual location.
//! * A call has the `call_abi_param_reg` between it and the preceding call in the text. The named callee must have the
//!   same; so must the target of a pointer, which only `nvlink` can check.
//! * In an executable all calls are known: a number that exceeds a kernel's register limit is lowered. ptxas does the
//!   same, but refuses with debug information.

use crate::module::abi::{self, Asked, Convention, ParamRegisters};
use crate::module::abi_preserve;
use crate::module::data::name;
use crate::module::param_registers::{Limit, PARAMETERS, of_body};
use crate::module::prototype::{Prototype, prototype, shape};
use ptx::ast::{Body, Function, FunctionDirective, Inst, Item, Module, Operand, Param, Stmt, Symbol};
use ptx::diag::Severity;
use rustc_hash::FxHashMap;

type Remark = (Severity, String);

const UNROLLING: &str = "nounroll";
const PARAMETERS_OF_CALLS: &str = "call_abi_param_reg ";
/// Pragmas that only functions may have.
const OF_FUNCTIONS: [&str; 3] = ["enable_smem_spilling", "used_bytes_mask ", "frequency "];

/// After the last register that ptxas uses for parameters.
const PARAMETERS_END: u32 = 252;

/// The calling conventions that a module's pragmas select, or errors; then there is no cubin.
pub fn check_module(module: &Module, limit: Limit) -> Result<Conventions, Vec<Remark>> {
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
    let has_unknown = unknown().next().is_some();
    let compiled = functions(module).filter(|f| has_unknown && is_compiled(module, f, limit.relocatable));
    let errors: Vec<Remark> = compiled.flat_map(|_| unknown().map(message)).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    let reader = Reader { target: module.target, limit };
    let conventions = Conventions::new(module, &strings, reader).map_err(|mut errors| {
        errors.push((Severity::Fatal, "Ptx assembly aborted due to errors".to_string()));
        errors
    })?;
    match functions(module).find_map(|caller| mismatch(module, caller, &conventions)) {
        Some(mismatch) => Err(vec![mismatch]),
        None => Ok(conventions.within(Convention::most_words(limit.registers))),
    }
}

/// Warnings about a function's pragmas.
pub fn warnings(module: &Module, function: &Function, relocatable: bool) -> Vec<Remark> {
    let known = OF_FUNCTIONS.iter().chain(&[UNROLLING, PARAMETERS, PARAMETERS_OF_CALLS]);
    let is_known = |s: &str| known.clone().any(|k| *k == s || k.ends_with(' ') && s.starts_with(*k));
    let directives = function.directives.iter().flat_map(|d| &d.strings).map(|s| s.trim_matches('"'));
    let all = directives.chain(function.body.iter().flat_map(of_body));
    let unknown: Vec<&str> = all.filter(|s| !is_known(s)).collect();
    if unknown.is_empty() || !is_compiled(module, function, relocatable) {
        return Vec::new();
    }
    unknown.iter().map(|s| (Severity::Warning, format!("Pragma '{s}' unsupported"))).collect()
}

/// Do pragmas of a loop's header forbid to unroll the loop?
pub fn keeps_rolled(strings: &[&str]) -> bool {
    strings.iter().any(|s| s.trim_matches('"') == UNROLLING)
}

/// Do pragmas forbid to unroll any loop of a function?
pub fn keep_rolled(module: &Module, function: &Function) -> bool {
    let of_module = module.items.iter().any(|i| matches!(i, Item::Pragma(strings) if keeps_rolled(strings)));
    of_module || function.directives.iter().any(|d| keeps_rolled(&d.strings))
}

fn functions<'m>(module: &'m Module<'m>) -> impl Iterator<Item = &'m Function<'m>> {
    module.items.iter().filter_map(|i| if let Item::Function(f) = i { Some(&**f) } else { None })
}

/// An executable leaves out device functions that nothing names.
fn is_compiled(module: &Module, function: &Function, relocatable: bool) -> bool {
    let names_it = |body: &Body| body.operands.contains(&Operand::Symbol(function.symbol));
    function.body.is_some()
        && (function.entry || relocatable || functions(module).filter_map(|f| f.body.as_ref()).any(names_it))
}

/// Calling conventions that pragmas or directives select in place of the usual one.
#[derive(Default)]
pub struct Conventions {
    of_module: Option<ParamRegisters>,
    of_functions: FxHashMap<Symbol, ParamRegisters>,
    /// By the offset of a call in the PTX text.
    of_calls: FxHashMap<u32, Asked>,
    /// Do directives count? In an executable all calls are known, and they don't.
    relocatable: bool,
}

impl Conventions {
    /// The convention that a device function asks for.
    pub fn of(&self, function: &Function) -> Asked {
        let own = self.of_functions.get(&function.symbol).copied();
        let registers = own.or(self.of_module).filter(|_| !function.entry);
        Asked { registers, ..self.directed(&function.directives) }
    }

    /// The convention of the call at this offset of the PTX text.
    pub fn of_call(&self, at: u32) -> Asked {
        self.of_calls.get(&at).copied().unwrap_or_default()
    }

    fn directed(&self, directives: &[FunctionDirective]) -> Asked {
        if self.relocatable { abi_preserve::asked(directives) } else { Asked::default() }
    }

    fn new(module: &Module, of_module: &[&str], reader: Reader) -> Result<Conventions, Vec<Remark>> {
        let mut all = Conventions { relocatable: reader.limit.relocatable, ..Conventions::default() };
        let mut errors = Vec::new();
        let first = |strings: &[&str]| strings.iter().find_map(|s| reader.registers(PARAMETERS, s));
        all.of_module = ok_or_report(first(of_module), &mut errors);
        for function in functions(module) {
            let Some(body) = &function.body else { continue };
            if !function.entry {
                let own = ok_or_report(first(&of_body(body).collect::<Vec<_>>()), &mut errors);
                all.of_functions.extend(own.map(|registers| (function.symbol, registers)));
            }
            all.add_calls(module, body, reader, &mut errors);
        }
        for function in functions(module) {
            let words = words(&function.returns).max(words(&function.params));
            let Asked { registers, preserved, .. } = all.of(function);
            let registers = registers.filter(|_| preserved.is_none());
            errors.extend(registers.and_then(|registers| too_few(PARAMETERS, registers, words)));
        }
        if abi_preserve::is_used(module) {
            all.follow_directives(module);
        }
        if errors.is_empty() { Ok(all) } else { Err(errors) }
    }

    /// Directives of a callee take precedence over pragmas. Only for a prototype that leaves the registers of parameters
    /// open, the pragma selects them.
    fn follow_directives(&mut self, module: &Module) {
        for body in functions(module).filter_map(|f| f.body.as_ref()) {
            for stmt in &body.stmts {
                let Stmt::Inst(inst) = stmt else { continue };
                if !is_call(module, inst) {
                    continue;
                }
                let (operands, at) = (body.list(inst.operands), inst.span.start);
                let prototype = prototype(module, body, operands);
                let Some(Prototype { directives, .. }) =
                    prototype.filter(|p| abi_preserve::is_asked(p.directives))
                else {
                    continue;
                };
                let registers = match callee(operands) {
                    Some(symbol) => self.of_functions.get(&symbol).copied().or(self.of_module),
                    None => self.of_call(at).registers,
                };
                self.of_calls.insert(at, Asked { registers, ..self.directed(directives) });
            }
        }
    }

    /// Lowers all numbers to a limit: caller and callee are both in this module.
    fn within(mut self, most: u8) -> Conventions {
        let of_calls = self.of_calls.values_mut().filter_map(|asked| asked.registers.as_mut());
        let all_registers = self.of_functions.values_mut().chain(of_calls);
        for registers in all_registers.chain(&mut self.of_module) {
            if let ParamRegisters::Words(words) = registers {
                *words = most.min(*words);
            }
        }
        self
    }

    /// A pragma applies to the next call in the text; the last one wins.
    fn add_calls(&mut self, module: &Module, body: &Body, reader: Reader, errors: &mut Vec<Remark>) {
        let mut pending = None;
        for stmt in &body.stmts {
            match stmt {
                Stmt::Pragma(strings) => {
                    let strings = strings.iter().map(|s| s.trim_matches('"'));
                    let all_registers = strings.filter_map(|s| reader.registers(PARAMETERS_OF_CALLS, s));
                    all_registers.for_each(|registers| pending = ok_or_report(Some(registers), errors));
                }
                Stmt::Inst(inst) if is_call(module, inst) => {
                    let Some(registers) = pending.take() else { continue };
                    self.of_calls
                        .insert(inst.span.start, Asked { registers: Some(registers), ..Asked::default() });
                    // For a named callee it is enough that both agree, which `mismatch` checks.
                    let operands = body.list(inst.operands);
                    if callee(operands).is_none()
                        && let Some(prototype) = prototype(module, body, operands)
                    {
                        let words = words(prototype.returns).max(words(prototype.params));
                        errors.extend(too_few(PARAMETERS_OF_CALLS, registers, words));
                    }
                }
                _ => {}
            }
        }
    }
}

fn ok_or_report(
    registers: Option<Result<ParamRegisters, Vec<Remark>>>,
    errors: &mut Vec<Remark>,
) -> Option<ParamRegisters> {
    let wrong = |remarks| {
        errors.extend(remarks);
        None
    };
    registers?.map_or_else(wrong, Some)
}

/// The limits that numbers in pragmas are checked against.
#[derive(Clone, Copy)]
struct Reader {
    target: ptx::Target,
    limit: Limit,
}

impl Reader {
    /// The parameter registers that a string asks for, if it is this pragma.
    fn registers(self, pragma: &str, text: &str) -> Option<Result<ParamRegisters, Vec<Remark>>> {
        let value = text.strip_prefix(pragma)?.trim();
        if value == "all" {
            return Some(Ok(ParamRegisters::UpTo(Convention::most_words(self.limit.registers))));
        }
        let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
        // ptxas keeps 32 bits of the number.
        let number = value[..digits]
            .bytes()
            .fold(0u32, |n, digit| n.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
        let invalid = (digits < value.len())
            .then(|| (Severity::Error, format!("Invalid value '{value}' specified for .pragma '{text}'")));
        let registers = self.words(number);
        Some(match registers {
            Ok(registers) if invalid.is_none() => Ok(registers),
            registers => Err(invalid.into_iter().chain(registers.err()).collect()),
        })
    }

    /// So many words.
    fn words(self, number: u32) -> Result<ParamRegisters, Remark> {
        let name = self.target.name();
        let error = |what: &str, number: u32| {
            Err((Severity::Error, format!("{what} {number} is invalid for {name}")))
        };
        let Some(words) = u8::try_from(number).ok().filter(|words| *words > 0) else {
            return error("abi_param_reg", number);
        };
        let end = number + u32::from(abi::FIRST);
        if end > PARAMETERS_END {
            return error("Parameter register", end);
        }
        let most = Convention::most_words(self.limit.registers);
        if words > Convention::MOST_WORDS || words > most && self.limit.relocatable {
            let text = "(C7005) With specified parameters, return address is";
            let (address, most) = (end.next_multiple_of(4) + 2, self.limit.registers.saturating_sub(2));
            let text = format!("{text} {address} registers and exceeds specified max reg ({most})");
            return Err((Severity::Fatal, text));
        }
        Ok(ParamRegisters::Words(words))
    }
}

fn words(list: &[Param]) -> u32 {
    list.iter().map(|p| shape(p).words()).sum()
}

fn too_few(pragma: &str, registers: ParamRegisters, words: u32) -> Option<Remark> {
    let text =
        format!("Pragma {pragma}value should be atleast {words} to fit all the parameters in registers");
    matches!(registers, ParamRegisters::Words(few) if u32::from(few) < words)
        .then_some((Severity::Error, text))
}

fn is_call(module: &Module, inst: &Inst) -> bool {
    module.opcodes[inst.opcode.0 as usize].mnemonic == "call"
}

/// The function that a call names.
fn callee(operands: &[Operand]) -> Option<Symbol> {
    match operands.iter().find(|o| !matches!(o, Operand::List(_))) {
        Some(Operand::Symbol(symbol)) => Some(*symbol),
        _ => None,
    }
}

/// The fatal error of a caller whose convention differs from its callee's.
fn mismatch(module: &Module, caller: &Function, conventions: &Conventions) -> Option<Remark> {
    let body = caller.body.as_ref()?;
    body.stmts.iter().find_map(|stmt| {
        let Stmt::Inst(inst) = stmt else { return None };
        let callee = callee(body.list(inst.operands)).filter(|_| is_call(module, inst))?;
        let of_callee = conventions.of(functions(module).find(|f| f.symbol == callee)?);
        (of_callee != conventions.of_call(inst.span.start)).then(|| {
            let [caller, callee] = [caller.symbol, callee].map(|s| name(module, s));
            let text = "number of registers used for parameter passing differ";
            (Severity::Fatal, format!("ABI mismatch when '{caller}' calls '{callee}': {text}"))
        })
    })
}
