//! The call graph of compiled functions: resources summed up over callees, and the call lists for the linker.
//!
//! In an executable a kernel needs the registers, barriers and stack of all functions that it reaches, and names all
//! functions of the driver that may be reached. In a relocatable file, and in a patch for tools, each function states its
//! own needs, and the linker sums them up over the lists of [`calls`]. ptxas's executables have these lists too if their
//! functions are no clones (`-g`).
//!
//! Calls through a pointer reach every function whose address is taken. Needs are summed up once, in post-order.

use crate::module::data::{Data, name};
use crate::module::pragmas::Conventions;
use crate::module::prototype::prototype_text;
use crate::object::Compiled;
use cubin::module::Calls;
use ptx::ast::{self, Item, Stmt};
use rustc_hash::FxHashMap;

/// Needs of functions together with those that they call.
pub struct CallGraph {
    callees: Vec<Vec<usize>>,
    registers: Vec<u32>,
    barriers: Vec<u8>,
    stacks: Vec<Option<u32>>,
    externs: Vec<Vec<String>>,
}

impl CallGraph {
    pub fn new(compiled: &[Compiled], taken_by_data: &[String], relocatable: bool) -> CallGraph {
        let callees = match relocatable {
            true => vec![Vec::new(); compiled.len()],
            false => callees(compiled, taken_by_data),
        };
        let order = post_order(&callees);
        let frames: Vec<u32> = compiled.iter().map(|c| c.encoded.frame).collect();
        CallGraph {
            registers: greatest(compiled.iter().map(|c| c.encoded.registers).collect(), &callees, &order),
            barriers: greatest(compiled.iter().map(|c| c.kernel.barriers).collect(), &callees, &order),
            stacks: stacks(&frames, &callees, &order),
            externs: compiled.iter().map(|c| externs(compiled, c)).collect(),
            callees,
        }
    }

    /// All functions that it can call, but for itself.
    pub fn callees(&self, of: usize) -> Vec<usize> {
        self.reach(of).into_iter().filter(|f| *f != of).collect()
    }

    /// Does it call another function of the module?
    pub fn calls_others(&self, of: usize) -> bool {
        self.callees[of].iter().any(|callee| *callee != of)
    }

    /// All functions reachable from this one, itself first.
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
        self.registers[of]
    }

    pub fn barriers(&self, of: usize) -> u8 {
        self.barriers[of]
    }

    /// Reachable functions of other files or of the driver.
    pub fn externs(&self, of: usize) -> Vec<String> {
        if self.externs.iter().all(Vec::is_empty) {
            return Vec::new();
        }
        sorted(self.reach(of).into_iter().flat_map(|f| self.externs[f].iter().cloned()).collect())
    }

    /// Bytes of stack; `None` where recursion makes it unknown.
    pub fn stack(&self, of: usize) -> Option<u32> {
        self.stacks[of]
    }
}

/// All functions, each after those that it calls, but for calls around a cycle.
fn post_order(callees: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; callees.len()];
    let mut order = Vec::new();
    for root in 0..callees.len() {
        let mut stack = vec![(root, 0)];
        while let Some((function, next)) = stack.pop() {
            if next == 0 && std::mem::replace(&mut seen[function], true) {
                continue;
            }
            match callees[function].get(next) {
                Some(&callee) => stack.extend([(function, next + 1), (callee, 0)]),
                None => order.push(function),
            }
        }
    }
    order
}

/// The greatest need of each function and those that it reaches.
fn greatest<T: Copy + Ord>(mut needs: Vec<T>, callees: &[Vec<usize>], order: &[usize]) -> Vec<T> {
    let mut changed = true;
    while changed {
        changed = false;
        for &function in order {
            let most = callees[function].iter().map(|callee| needs[*callee]).max();
            let most = most.filter(|most| *most > needs[function]);
            changed |= most.is_some();
            needs[function] = most.unwrap_or(needs[function]);
        }
    }
    needs
}

/// The bytes of stack of each function with those that it calls; `None` where a cycle is reached.
fn stacks(frames: &[u32], callees: &[Vec<usize>], order: &[usize]) -> Vec<Option<u32>> {
    let mut stacks = vec![None; frames.len()];
    for &function in order {
        // A callee that comes later is on a cycle with the function.
        let mut called = callees[function].iter().map(|callee| stacks[*callee]);
        let below: Option<u32> = called.try_fold(0, |below, stack: Option<u32>| Some(stack?.max(below)));
        stacks[function] = below.map(|below| frames[function] + below);
    }
    stacks
}

/// The adjacency lists: the functions of the module that each may call.
fn callees(compiled: &[Compiled], taken_by_data: &[String]) -> Vec<Vec<usize>> {
    let index: FxHashMap<&str, usize> =
        compiled.iter().enumerate().map(|(i, c)| (c.kernel.code.name.as_str(), i)).collect();
    let find = |name: &String| index.get(name.as_str()).copied();
    // A call through a pointer may reach any function whose address is taken.
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

fn is_defined(compiled: &[Compiled], name: &str) -> bool {
    compiled.iter().any(|c| c.kernel.code.name == name)
}

/// The functions of other files that a function calls or takes the address of.
fn externs(compiled: &[Compiled], of: &Compiled) -> Vec<String> {
    let named = of.kernel.externs.iter().chain(&of.kernel.takes);
    named.filter(|name| !is_defined(compiled, name)).cloned().collect()
}

/// The functions of other files that the code calls or takes the address of, and those in `taken_by_data`.
pub fn externals(compiled: &[Compiled], taken_by_data: &[String]) -> Vec<String> {
    let of_code = compiled.iter().flat_map(|c| externs(compiled, c));
    let of_data = taken_by_data.iter().filter(|name| !is_defined(compiled, name)).cloned();
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
    // For ptxas an alias is a function that calls its target, and whose address is taken.
    let aliases = data.aliases.iter().map(|(alias, target)| [*alias, *target].map(|s| name(module, s)));
    let aliases: Vec<[String; 2]> = aliases.filter(|[_, target]| is_defined(compiled, target)).collect();
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
