//! Register limits of device functions, from the kernels that reach them in the call graph.

use crate::context::Bounds;
use crate::module::launch_bounds::{self, Launch};
use ptx::ast::{self, Item, Stmt};
use rustc_hash::{FxHashMap, FxHashSet};
use targets::Target;

/// The register limit of each device function: the least of all kernels that reach it. A kernel without a limit imposes
/// none; a call through a pointer or an alias may reach any function.
pub fn limits(
    functions: &[&ast::Function],
    module: &ast::Module,
    bounds: &Bounds,
    target: &Target,
) -> FxHashMap<ast::Symbol, u32> {
    let mut limits = FxHashMap::default();
    let by_symbol: FxHashMap<ast::Symbol, &ast::Function> =
        functions.iter().map(|f| (f.symbol, *f)).collect();
    for kernel in functions.iter().filter(|f| f.entry) {
        let launch = Launch::new(kernel, "", bounds, target);
        let Some(limit) = launch.ok().map(|l| l.registers()).filter(|limit| *limit < launch_bounds::MOST)
        else {
            continue;
        };
        let mut seen = FxHashSet::default();
        let mut work = vec![*kernel];
        while let Some(function) = work.pop() {
            if !seen.insert(function.symbol) {
                continue;
            }
            for callee in called(module, function) {
                match callee.and_then(|symbol| by_symbol.get(&symbol)) {
                    Some(function) => work.push(function),
                    None if callee.is_none_or(|symbol| is_alias(module, symbol)) => work.extend(functions),
                    None => {}
                }
            }
        }
        for function in functions.iter().filter(|f| !f.entry && seen.contains(&f.symbol)) {
            let known = limits.entry(function.symbol).or_insert(limit);
            *known = limit.min(*known);
        }
    }
    limits
}

/// The callees of a function; `None` for a call through a register.
fn called(module: &ast::Module, function: &ast::Function) -> Vec<Option<ast::Symbol>> {
    let mut called = Vec::new();
    let Some(body) = &function.body else { return called };
    for stmt in &body.stmts {
        let Stmt::Inst(inst) = stmt else { continue };
        if module.opcodes[inst.opcode.0 as usize].mnemonic == "call" {
            let callee = body.list(inst.operands).iter().find(|o| !matches!(o, ast::Operand::List(_)));
            called.push(match callee {
                Some(ast::Operand::Symbol(symbol)) => Some(*symbol),
                _ => None,
            });
        }
    }
    called
}

fn is_alias(module: &ast::Module, symbol: ast::Symbol) -> bool {
    module.items.iter().any(|item| matches!(item, Item::Alias(alias) if alias.alias == symbol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::data::name;

    /// The limit of each device function, by its name.
    fn limits_of(kernels: &str) -> Vec<(String, u32)> {
        let source = format!(
            ".version 8.0 .target sm_90 .address_size 64 .func c() {{ ret; }} .func b() {{ call c; ret; }} \
             .func a() {{ call b; ret; }} .func d() {{ ret; }} {kernels}"
        );
        let parsed = ptx::parse(&source, &ptx::Options::default());
        assert!(!parsed.failed(), "{:?}", parsed.diagnostics);
        let module = parsed.module.expect("a module");
        let functions: Vec<&ast::Function> = module
            .items
            .iter()
            .filter_map(|item| if let Item::Function(f) = item { Some(&**f) } else { None })
            .collect();
        let target = Target::of_name("sm_90").expect("a row");
        let limits = limits(&functions, &module, &Bounds::NONE, target);
        let mut all: Vec<_> =
            limits.into_iter().map(|(symbol, limit)| (name(&module, symbol), limit)).collect();
        all.sort();
        all
    }

    #[test]
    fn device_functions_inherit_the_least_register_limit_of_their_kernels() {
        let named = |rows: &[(&str, u32)]| rows.iter().map(|(f, n)| (f.to_string(), *n)).collect::<Vec<_>>();
        assert_eq!(limits_of(".entry k() { call a; ret; }"), []);
        let large = ".entry k() .maxntid 1024 { call b; ret; }";
        assert_eq!(limits_of(large), named(&[("b", 64), ("c", 64)]));
        let two = format!("{large} .entry l() .maxnreg 40 {{ call c; ret; }}");
        assert_eq!(limits_of(&two), named(&[("b", 64), ("c", 40)]));
        let pointer = ".entry k() .maxnreg 32 { .reg .b64 %f; mov.b64 %f, d; p: .callprototype _ (); call %f, p; ret; }";
        assert_eq!(limits_of(pointer), named(&[("a", 32), ("b", 32), ("c", 32), ("d", 32)]));
    }
}
