//! Where the shared variables of an executable are that belong to no kernel alone: those of the module and of device
//! functions.
//!
//! Each has one offset in all kernels, because a function is compiled once for all its callers. A kernel has the
//! variables that it and the functions it reaches name; two variables that no kernel has both may overlap (interval
//! packing, first fit, those of most kernels first):
//!
//! ```text
//! a() calls f: s1[30000]      f.s1 at 0      a: 30000 bytes
//! b() calls g: s2[30000]      g.s2 at 0      b: 30000 bytes
//! ```
//!
//! A kernel's own variables follow. Dynamic shared memory begins after all static variables. Where a device function
//! uses it, it begins at one offset in all kernels that reach the function, and those with fewer static bytes are padded.

use crate::module::call_graph::Calls;
use ptx::ast::{self, Function, Operand, Space, Stmt, Symbol, SymbolKind};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// A shared variable of the module or of a function.
#[derive(Clone, Copy, Debug)]
pub struct SharedVariable {
    pub symbol: Symbol,
    pub bytes: u64,
    pub align: u64,
}

/// A kernel's part of the layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelShared {
    /// Bytes and alignment of the variables of the module and of functions.
    pub bytes: u64,
    pub align: u64,
    /// Where dynamic shared memory begins at the earliest.
    pub dynamic: u64,
}

#[derive(Debug, Default)]
pub struct SharedLayout {
    pub offsets: FxHashMap<Symbol, u64>,
    kernels: FxHashMap<Symbol, KernelShared>,
    /// Where dynamic shared memory begins for device functions that use it.
    dynamic: FxHashMap<Symbol, u64>,
}

impl SharedLayout {
    /// `dynamic` has the `.extern` variables with their alignment.
    pub fn new(
        module: &ast::Module,
        calls: &Calls,
        variables: &[SharedVariable],
        dynamic: &FxHashMap<Symbol, u64>,
    ) -> SharedLayout {
        let mut layout = SharedLayout::default();
        let kernels: Vec<(&Function, FxHashSet<Symbol>)> =
            calls.functions().filter(|f| f.entry).map(|k| (k, calls.reached(k))).collect();
        layout.place(variables, &kernels, calls);
        layout.start_dynamic(module, dynamic, &kernels, calls);
        layout
    }

    pub fn of_kernel(&self, kernel: Symbol) -> KernelShared {
        self.kernels.get(&kernel).copied().unwrap_or_default()
    }

    pub fn dynamic_in(&self, function: Symbol) -> u64 {
        self.dynamic.get(&function).copied().unwrap_or(0)
    }

    fn place(
        &mut self,
        variables: &[SharedVariable],
        kernels: &[(&Function, FxHashSet<Symbol>)],
        calls: &Calls,
    ) {
        // The kernels that have each variable, by their index.
        let mut users: FxHashMap<Symbol, Vec<usize>> = FxHashMap::default();
        for function in calls.functions() {
            let named: FxHashSet<Symbol> = symbols(function).collect();
            for variable in variables.iter().filter(|v| named.contains(&v.symbol)) {
                let reaching = kernels.iter().enumerate().filter(|(_, (_, r))| r.contains(&function.symbol));
                users.entry(variable.symbol).or_default().extend(reaching.map(|(k, _)| k));
            }
        }
        for list in users.values_mut() {
            list.sort_unstable();
            list.dedup();
        }
        // Those that no kernel reaches are together, too: whoever calls the functions of a patch may reach all.
        let unreached = [kernels.len()];
        let of = |v: &SharedVariable| match users.get(&v.symbol) {
            Some(list) if !list.is_empty() => &list[..],
            _ => &unreached[..],
        };
        let mut order: Vec<&SharedVariable> = variables.iter().collect();
        order.sort_by_key(|v| Reverse(of(v).len()));
        let mut taken: Vec<Vec<(u64, u64)>> = vec![Vec::new(); kernels.len() + 1];
        let mut sizes = vec![KernelShared { align: 1, ..KernelShared::default() }; kernels.len() + 1];
        for v in order {
            let mut others: Vec<(u64, u64)> = of(v).iter().flat_map(|k| taken[*k].iter().copied()).collect();
            others.sort_unstable();
            let start = first_fit(&others, v.bytes, v.align);
            self.offsets.insert(v.symbol, start);
            for k in of(v) {
                taken[*k].push((start, start + v.bytes));
                sizes[*k].bytes = sizes[*k].bytes.max(start + v.bytes);
                sizes[*k].align = sizes[*k].align.max(v.align);
            }
        }
        self.kernels = kernels.iter().map(|(k, _)| k.symbol).zip(sizes).collect();
    }

    /// The fixpoint of: dynamic shared memory begins for a function where it does for every kernel that reaches it, and
    /// for a kernel after its static variables and where it does for the functions that it reaches.
    fn start_dynamic(
        &mut self,
        module: &ast::Module,
        dynamic: &FxHashMap<Symbol, u64>,
        kernels: &[(&Function, FxHashSet<Symbol>)],
        calls: &Calls,
    ) {
        let Some(align) = dynamic.values().copied().max() else { return };
        let uses = |f: &&Function| !f.entry && symbols(f).any(|s| dynamic.contains_key(&s));
        let users: Vec<Symbol> = calls.functions().filter(uses).map(|f| f.symbol).collect();
        loop {
            let mut changed = false;
            for (kernel, reached) in kernels {
                let inner = || users.iter().filter(|f| reached.contains(f));
                let own =
                    own_end(module, kernel, self.of_kernel(kernel.symbol)).next_multiple_of(align.max(1));
                let Some(start) = inner().map(|f| self.dynamic_in(*f).max(own)).max() else { continue };
                for f in inner().copied().collect::<Vec<Symbol>>() {
                    changed |= self.dynamic.insert(f, start) != Some(start);
                }
                self.kernels.entry(kernel.symbol).or_default().dynamic = start;
            }
            if !changed {
                return;
            }
        }
    }
}

/// One past the last static byte of a kernel, whose own variables follow the others.
fn own_end(module: &ast::Module, kernel: &Function, before: KernelShared) -> u64 {
    let (mut bytes, mut most) = (0u64, 1);
    for stmt in kernel.body.iter().flat_map(|body| &body.stmts) {
        if let Stmt::Variable(v) = stmt
            && v.space == Space::Shared
            && !v.linkage.external
            && let SymbolKind::Variable { bytes: size, align, .. } = module.symbols[v.symbol.0 as usize].kind
        {
            for _ in 0..v.range.unwrap_or(1) {
                bytes = bytes.next_multiple_of(align.max(1)) + size;
            }
            most = most.max(align);
        }
    }
    if bytes == 0 { before.bytes } else { before.bytes.next_multiple_of(most) + bytes }
}

/// The lowest aligned offset with so many free bytes. `taken` is sorted.
fn first_fit(taken: &[(u64, u64)], bytes: u64, align: u64) -> u64 {
    let mut start = 0u64;
    for (from, to) in taken {
        if start + bytes <= *from {
            break;
        }
        start = start.max(to.next_multiple_of(align.max(1)));
    }
    start
}

/// The symbols that a function's instructions name.
fn symbols(function: &Function) -> impl Iterator<Item = Symbol> {
    let operands = function.body.iter().flat_map(|body| &body.operands);
    operands.filter_map(|o| if let Operand::Symbol(s) = o { Some(*s) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_fit_takes_the_lowest_gap_that_is_aligned() {
        assert_eq!(first_fit(&[], 8, 16), 0);
        assert_eq!(first_fit(&[(0, 4)], 8, 16), 16);
        assert_eq!(first_fit(&[(4, 8), (24, 32)], 8, 8), 8);
        assert_eq!(first_fit(&[(0, 100), (8, 16)], 4, 4), 100);
    }
}
