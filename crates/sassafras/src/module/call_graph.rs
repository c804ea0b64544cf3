//! Who calls whom: what functions need together, and what a linker must know about calls.
//!
//! In an executable a kernel has the registers, barriers and stack of everything that it can call, and names all functions
//! of the driver that may be reached. In a relocatable file each function says what it needs itself; the linker adds it
//! up over the lists of [`calls`]. So each does in a patch for tools. An executable of ptxas's has these lists too if its
//! functions are no clones (`-g`).

use crate::lower::prototype_text;
use crate::module::data::{Data, name};
use crate::module::launch_bounds::{self, Bounds, Launch};
use crate::module::pragmas::Conventions;
use crate::object::Compiled;
use cubin::module::Calls;
use ptx::ast::{self, Item, Stmt};
use rustc_hash::{FxHashMap, FxHashSet};

/// The most registers that device functions may use: those of every kernel that may come to them. A kernel without
/// limits has none to hand on; a pointer or an alias may lead to any function.
pub fn limits(
    functions: &[&ast::Function],
    module: &ast::Module,
    bounds: &Bounds,
    sm: u16,
) -> FxHashMap<ast::Symbol, u32> {
    let mut limits = FxHashMap::default();
    let by_symbol: FxHashMap<ast::Symbol, &ast::Function> =
        functions.iter().map(|f| (f.symbol, *f)).collect();
    for kernel in functions.iter().filter(|f| f.entry) {
        let launch = Launch::new(kernel, "", bounds, sm);
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

/// What the calls of a function name; `None` for an address in a register.
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

/// What functions need together with those that they call.
pub struct CallGraph {
    callees: Vec<Vec<usize>>,
    registers: Vec<u32>,
    frames: Vec<u32>,
    barriers: Vec<u8>,
    externs: Vec<Vec<String>>,
}

impl CallGraph {
    pub fn new(compiled: &[Compiled], taken_by_data: &[String], relocatable: bool) -> CallGraph {
        CallGraph {
            callees: if relocatable {
                vec![Vec::new(); compiled.len()]
            } else {
                callees(compiled, taken_by_data)
            },
            registers: compiled.iter().map(|c| c.encoded.registers).collect(),
            frames: compiled.iter().map(|c| c.encoded.frame).collect(),
            barriers: compiled.iter().map(|c| c.kernel.barriers).collect(),
            externs: compiled.iter().map(|c| externs(compiled, c)).collect(),
        }
    }

    /// All functions that can be running when this one is, itself first.
    pub fn reach(&self, from: usize) -> Vec<usize> {
        let mut seen = vec![false; self.callees.len()];
        let mut work = vec![from];
        let mut all = Vec::new();
        while let Some(f) = work.pop() {
            if !std::mem::replace(&mut seen[f], true) {
                all.push(f);
                work.extend(&self.callees[f]);
            }
        }
        all
    }

    pub fn registers(&self, of: usize) -> u32 {
        self.reach(of).into_iter().map(|f| self.registers[f]).max().unwrap_or(0)
    }

    pub fn barriers(&self, of: usize) -> u8 {
        self.reach(of).into_iter().map(|f| self.barriers[f]).max().unwrap_or(0)
    }

    /// Functions of other files, or of the driver, that may be called.
    pub fn externs(&self, of: usize) -> Vec<String> {
        sorted(self.reach(of).into_iter().flat_map(|f| self.externs[f].iter().cloned()).collect())
    }

    /// Bytes of stack; `None` where recursion makes it unknown.
    pub fn stack(&self, of: usize) -> Option<u32> {
        self.deepest(of, &mut vec![false; self.callees.len()])
    }

    fn deepest(&self, of: usize, active: &mut Vec<bool>) -> Option<u32> {
        if std::mem::replace(&mut active[of], true) {
            return None;
        }
        let mut below = 0;
        for &callee in &self.callees[of] {
            below = below.max(self.deepest(callee, active)?);
        }
        active[of] = false;
        Some(self.frames[of] + below)
    }
}

/// For each function the functions of the module that it may call.
fn callees(compiled: &[Compiled], taken_by_data: &[String]) -> Vec<Vec<usize>> {
    let index: FxHashMap<&str, usize> =
        compiled.iter().enumerate().map(|(i, c)| (c.kernel.code.name.as_str(), i)).collect();
    let find = |name: &String| index.get(name.as_str()).copied();
    // A pointer may lead to any function whose address is taken.
    let of_code = compiled.iter().flat_map(|c| &c.kernel.takes);
    let taken: Vec<usize> = of_code.chain(taken_by_data).filter_map(find).collect();
    let of = |c: &Compiled| {
        let mut all: Vec<usize> = c.kernel.callees.iter().filter_map(find).collect();
        all.extend(taken.iter().filter(|_| !c.kernel.pointer_calls.is_empty()));
        sorted(all)
    };
    compiled.iter().map(of).collect()
}

pub fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all.dedup();
    all
}

fn is_here(compiled: &[Compiled], name: &str) -> bool {
    compiled.iter().any(|c| c.kernel.code.name == name)
}

/// The functions of other files that a function calls or takes the address of.
fn externs(compiled: &[Compiled], of: &Compiled) -> Vec<String> {
    let named = of.kernel.externs.iter().chain(&of.kernel.takes);
    named.filter(|name| !is_here(compiled, name)).cloned().collect()
}

/// The functions of other files that the code calls or takes the address of, and those in `taken_by_data`.
pub fn externals(compiled: &[Compiled], taken_by_data: &[String]) -> Vec<String> {
    let of_code = compiled.iter().flat_map(|c| externs(compiled, c));
    let of_data = taken_by_data.iter().filter(|name| !is_here(compiled, name)).cloned();
    sorted(of_code.chain(of_data).collect())
}

/// The lists of `.nv.callgraph` and `.nv.prototype`.
pub fn calls(
    compiled: &[Compiled],
    module: &ast::Module,
    data: &Data,
    conventions: &Conventions,
    relocatable: bool,
) -> Calls {
    let mut calls = Calls::default();
    for c in compiled {
        let function = &c.kernel.code.name;
        let pairs = |list: Vec<String>| sorted(list).into_iter().map(|other| (function.clone(), other));
        calls.direct.extend(pairs([&c.kernel.callees[..], &c.kernel.externs].concat()));
        calls.indirect.extend(pairs(c.kernel.pointer_calls.clone()));
        calls.takes_address.extend(pairs(c.kernel.takes.clone()));
    }
    // ptxas takes an alias for a function that calls the other, and that anyone may have a pointer to.
    let aliases = data.aliases.iter().map(|(alias, target)| [*alias, *target].map(|s| name(module, s)));
    let aliases: Vec<[String; 2]> = aliases.filter(|[_, target]| is_here(compiled, target)).collect();
    calls.direct.extend(aliases.iter().cloned().map(|[alias, target]| (alias, target)));
    let typed = |name: &String| Some((name.clone(), prototype_of(module, conventions, name)?));
    let of_code = compiled.iter().flat_map(|c| &c.kernel.takes);
    let taken = sorted(of_code.chain(&data.functions).chain(aliases.iter().flatten()).cloned().collect());
    calls.address_taken = taken.iter().filter_map(typed).collect();
    if relocatable {
        let is_seen = |c: &&Compiled| !c.kernel.entry && c.kernel.binding != cubin::Binding::LOCAL;
        let offered = compiled.iter().filter(is_seen).map(|c| c.kernel.code.name.clone());
        let shared = sorted(offered.chain(externals(compiled, &data.functions)).collect());
        calls.prototypes = shared.iter().filter(|name| !taken.contains(name)).filter_map(typed).collect();
    }
    calls
}

/// The prototype of a function, wherever it is declared.
fn prototype_of(module: &ast::Module, conventions: &Conventions, of: &str) -> Option<String> {
    let text = |function: &ast::Function| {
        let is_it = name(module, function.symbol) == of;
        is_it.then(|| prototype_text(conventions.of(function), &function.returns, &function.params))
    };
    module.items.iter().find_map(|item| {
        let Item::Function(function) = item else { return None };
        text(function).or_else(|| {
            let stmts = function.body.iter().flat_map(|body| &body.stmts);
            let mut inner = stmts.filter_map(|s| if let Stmt::Function(f) = s { Some(f) } else { None });
            inner.find_map(|function| text(function))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let limits = limits(&functions, &module, &Bounds::NONE, 90);
        sorted(limits.into_iter().map(|(symbol, limit)| (name(&module, symbol), limit)).collect())
    }

    #[test]
    fn functions_have_the_registers_of_their_callers() {
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
