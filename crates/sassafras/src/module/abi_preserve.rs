//! `.abi_preserve N` and `.abi_preserve_control N`: callee-saved registers and barriers, and the diagnostics of ptxas
//! 13.0.88.
//!
//! * [`crate::module::abi`] has the convention. It applies to functions in relocatable files; in executables the directives
//!   have no effect, but are checked all the same.
//! * A call of a function or prototype with such a directive uses its convention; `.abi_preserve` takes precedence over a
//!   pragma of the call.
//! * All declarations of a function must agree. ptxas counts the registers that differ, in lists in descending order: from
//!   the first difference on every register differs, and so does the end of the shorter list.

use crate::context::{Lines, plain};
use crate::module::abi::{self, Asked};
use crate::module::data::name;
use crate::module::param_registers::{Limit, PARAMETERS, of_body};
use crate::module::prototype::{Prototype, shapes};
use ptx::ast::{Function, FunctionDirective, Item, Module, Operand, Stmt, Symbol};
use ptx::diag::{Diagnostic, Severity, Span};
use rustc_hash::FxHashMap;

const REGISTERS: &str = ".abi_preserve";
const BARRIERS: &str = ".abi_preserve_control";
/// The greatest numbers that they may have.
const GREATEST: [(&str, u64); 2] = [(REGISTERS, 255), (BARRIERS, 11)];
/// After the last registers that ptxas uses for a return address, and for parameters.
const ADDRESSES_END: u32 = 254;
const PARAMETERS_END: u32 = 252;
/// R0 and R3 to R15 are never preserved; and there is the end of the list.
const DIFFERENT_REGISTERS: usize = 15;
/// From this number on the list of caller-saved registers doesn't change.
const ALL_PRESERVED: u64 = 239;

/// The convention that directives ask for, if they are valid.
pub fn asked(directives: &[FunctionDirective]) -> Asked {
    let small = |name| value(directives, name).and_then(|n| u8::try_from(n).ok());
    Asked { registers: None, preserved: small(REGISTERS), barriers: small(BARRIERS) }
}

/// Is one of the directives among them?
pub fn is_asked(directives: &[FunctionDirective]) -> bool {
    directives.iter().any(|d| [REGISTERS, BARRIERS].contains(&d.name))
}

fn value(directives: &[FunctionDirective], name: &str) -> Option<u64> {
    directives.iter().find(|d| d.name == name)?.values.first().copied()
}

/// A function or a prototype as it is declared.
struct Declared<'m> {
    symbol: Symbol,
    span: Span,
    prototype: Prototype<'m>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of a module: defined, or only declared.
    Function {
        defined: bool,
    },
    Prototype,
}

fn declared<'m>(module: &'m Module<'m>) -> Vec<Declared<'m>> {
    let of_function = |function: &'m Function<'m>| Declared {
        symbol: function.symbol,
        span: function.span,
        prototype: Prototype::of(function),
        kind: Kind::Function { defined: function.body.is_some() },
    };
    let mut all = Vec::new();
    for item in &module.items {
        let Item::Function(function) = item else { continue };
        all.push(of_function(function));
        for stmt in function.body.iter().flat_map(|body| &body.stmts) {
            match stmt {
                Stmt::Function(inner) => all.push(of_function(inner)),
                Stmt::Prototype(p) => {
                    let ptx::ast::Prototype { returns, params, directives, .. } = &**p;
                    let prototype = Prototype { returns, params, directives };
                    all.push(Declared { symbol: p.label, span: p.span, prototype, kind: Kind::Prototype });
                }
                _ => {}
            }
        }
    }
    all
}

/// Does a function or a prototype of a module have one of the directives?
pub fn is_used(module: &Module) -> bool {
    declared(module).iter().any(|d| is_asked(d.prototype.directives))
}

/// Errors and warnings about the directives of a module. An error leaves no cubin.
pub fn check(module: &Module, source: &str, lines: &Lines, limit: Limit) -> Vec<Diagnostic> {
    let declared = declared(module);
    if !declared.iter().any(|d| is_asked(d.prototype.directives)) {
        return Vec::new();
    }
    let checker = Checker { module, source, lines, limit };
    let mut all = checker.check_text(&declared);
    if all.is_empty() {
        all.extend(declared_once(&declared).flat_map(|d| checker.check_registers(d)));
        if !all.iter().any(|d| d.severity >= Severity::Error) {
            all.extend(declared.iter().find_map(|d| checker.out_of_reach(d)));
        }
    }
    if all.iter().any(|d| d.severity >= Severity::Error) {
        all.push(plain(Severity::Fatal, "Ptx assembly aborted due to errors".to_string()));
    }
    all
}

/// The first declaration of each symbol.
fn declared_once<'d, 'm>(declared: &'d [Declared<'m>]) -> impl Iterator<Item = &'d Declared<'m>> {
    let is_first = |i: usize| declared[..i].iter().all(|d| d.symbol != declared[i].symbol);
    declared.iter().enumerate().filter(move |(i, _)| is_first(*i)).map(|(_, d)| d)
}

struct Checker<'a> {
    module: &'a Module<'a>,
    source: &'a str,
    lines: &'a Lines,
    limit: Limit,
}

impl Checker<'_> {
    fn error_at(&self, at: u32, message: String) -> Diagnostic {
        let span = Span { start: at, end: at };
        Diagnostic { severity: Severity::Error, file: None, line: Some(self.lines.line(at)), span, message }
    }

    /// Numbers out of range, and declarations that don't agree.
    fn check_text(&self, declared: &[Declared]) -> Vec<Diagnostic> {
        let mut errors = Vec::new();
        let mut known: FxHashMap<Symbol, &[FunctionDirective]> = FxHashMap::default();
        for d in declared {
            let directives = d.prototype.directives;
            for directive in directives {
                let greatest = GREATEST.iter().find(|(name, _)| *name == directive.name);
                let number = directive.values.first().copied().unwrap_or(0);
                if greatest.is_some_and(|(_, greatest)| number > *greatest) {
                    let machine = self.module.target.name();
                    let text = format!("{} {number} is invalid for {machine}", directive.name);
                    errors.push(self.error_at(self.number_of(directive), text));
                }
            }
            let before = *known.entry(d.symbol).or_insert(directives);
            let function = name(self.module, d.symbol);
            let text = |what: String| format!("Inconsistent prototypes of '{function}', {what} differ");
            let at = self.end_of_head(d);
            errors.extend(
                differences(before, directives).into_iter().map(|what| self.error_at(at, text(what))),
            );
        }
        errors.extend(self.pragmas_beside());
        errors
    }

    /// Pragmas for parameter registers, which conflict with `.abi_preserve`.
    fn pragmas_beside(&self) -> Vec<Diagnostic> {
        let mut errors = Vec::new();
        for item in &self.module.items {
            let Item::Function(function) = item else { continue };
            let Some(body) =
                function.body.as_ref().filter(|_| value(&function.directives, REGISTERS).is_some())
            else {
                continue;
            };
            let rest = self.source.get(function.span.end as usize..).unwrap_or_default();
            for pragma in of_body(body).filter(|text| text.starts_with(PARAMETERS)) {
                let at = function.span.end + rest.find(pragma).unwrap_or(0) as u32;
                let function = name(self.module, function.symbol);
                let text = format!("Pragma '{pragma}' specified multiple times in function '{function}'");
                errors.push(self.error_at(at, text));
            }
        }
        errors
    }

    /// The offset of a directive's number.
    fn number_of(&self, directive: &FunctionDirective) -> u32 {
        let rest = self.source.get(directive.span.end as usize..).unwrap_or_default();
        directive.span.end + (rest.len() - rest.trim_start().len()) as u32
    }

    /// The offset at which a function's body begins, or its declaration ends.
    fn end_of_head(&self, d: &Declared) -> u32 {
        let after = d.prototype.directives.last().map_or(d.span.end, |directive| directive.span.end);
        let rest = self.source.get(after as usize..).unwrap_or_default();
        after + rest.find(['{', ';']).unwrap_or(0) as u32
    }

    /// Registers that parameters or the return address can't have.
    fn check_registers(&self, d: &Declared) -> Vec<Diagnostic> {
        let Some(preserved) = value(d.prototype.directives, REGISTERS) else { return Vec::new() };
        let (function, machine) = (name(self.module, d.symbol), self.module.target.name());
        let (address, first, words) = registers(d, preserved);
        let (error, warning) = (|text| plain(Severity::Error, text), |text| plain(Severity::Warning, text));
        let mut all = Vec::new();
        let is_prototype = d.kind == Kind::Prototype;
        if address >= ADDRESSES_END && !is_prototype {
            return vec![error(format!("retaddr_reg {address} is invalid for {machine}"))];
        }
        if first < address + 2 && address < first + words {
            // The spelling is ptxas's.
            let what = if is_prototype { "callprotoype" } else { "function" };
            let (last, end) = (first + words - 1, address + 1);
            let overlap =
                format!("overlap with return address register R{address} to R{end} for {what} '{function}'");
            all.push(error(format!("Parameter registers from R{first} to R{last} {overlap}")));
        }
        if first + words > PARAMETERS_END {
            let text = format!("Parameter register {} is invalid for {machine}", first + words);
            all.insert(if is_prototype { 0 } else { all.len() }, error(text));
        }
        if !is_prototype {
            all.extend(self.restricted(&function, (first, words), address).into_iter().map(error));
            let lost = (address..address + 2).filter(|_| preserved < 2);
            all.extend(lost.map(|r| {
                let text = "as scratch register which is used as return address register";
                warning(format!("Function '{function}' specifies register R{r} {text}"))
            }));
        }
        all
    }

    /// Registers beyond the limit of the command line.
    fn restricted(&self, function: &str, (first, words): (u32, u32), address: u32) -> Vec<String> {
        let most = self.limit.registers;
        let text = |(first, last): (u32, u32), what: &str| {
            let restricted =
                format!("function '{function}' is restricted to use maximum of {most} registers");
            format!("Cannot specify R{first}-R{last} as {what} registers since {restricted}")
        };
        if !self.limit.relocatable || most >= crate::module::launch_bounds::MOST {
            return Vec::new();
        }
        let mut all: Vec<String> = Vec::new();
        all.extend((address >= most).then(|| text((address, address + 1), "return address")));
        // ptxas looks at the first register and the number, then at the last one.
        let wrong = [first >= most || words > most, first + words > most];
        let parameters = || text((first, first + words.saturating_sub(1)), "parameter");
        all.extend(wrong.iter().filter(|wrong| **wrong && words > 0).map(|_| parameters()));
        all
    }

    /// A return address in registers reserved for the system, of a function that is compiled or called.
    fn out_of_reach(&self, d: &Declared) -> Option<Diagnostic> {
        let preserved = value(d.prototype.directives, REGISTERS)?;
        let (address, _, _) = registers(d, preserved);
        let is_needed = d.kind != Kind::Function { defined: false } || self.is_named(d.symbol);
        let system = self.limit.registers.saturating_sub(2);
        let is_out = self.limit.relocatable && is_needed && address + 2 > system;
        let text = format!("(C7002) Return Address ({address}) should be less than {system}");
        is_out.then(|| plain(Severity::Fatal, text))
    }

    fn is_named(&self, symbol: Symbol) -> bool {
        let bodies = self.module.items.iter().filter_map(|item| match item {
            Item::Function(function) => function.body.as_ref(),
            _ => None,
        });
        { bodies }.any(|body| body.operands.contains(&Operand::Symbol(symbol)))
    }
}

/// The return address, the first parameter, and how many words there are of those.
fn registers(d: &Declared, preserved: u64) -> (u32, u32, u32) {
    let preserved = preserved as u32;
    let words = abi::words_in_memory(&shapes(d.prototype.returns), &shapes(d.prototype.params));
    (abi::return_address_of(preserved), abi::first_of(preserved, words), words)
}

/// The differences between two declarations, in ptxas's words.
fn differences(one: &[FunctionDirective], other: &[FunctionDirective]) -> Vec<String> {
    let mut all: Vec<&str> = Vec::new();
    let both = |name| (value(one, name), value(other, name));
    let (number, lost) = ("number of scratch registers", "scratch registers");
    match both(REGISTERS) {
        (Some(a), Some(b)) => {
            let address = |n: u64| abi::return_address_of(n as u32);
            all.extend((address(a) != address(b)).then_some("return address registers"));
            if a.min(ALL_PRESERVED) != b.min(ALL_PRESERVED) {
                all.push(number);
                all.extend([lost; DIFFERENT_REGISTERS]);
            }
        }
        (None, None) => {}
        _ => {
            let parameters = ["number of parameter registers", "first parameter register"];
            all.extend(parameters.into_iter().chain(["return address registers", number]));
        }
    }
    match both(BARRIERS) {
        (Some(a), Some(b)) if a != b => {
            all.push(number);
            all.extend(std::iter::repeat_n(lost, a.min(b) as usize + 1));
        }
        (Some(_), Some(_)) | (None, None) => {}
        _ => all.push(number),
    }
    all.into_iter().map(str::to_string).collect()
}
