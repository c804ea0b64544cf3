//! The call graph of a module's PTX: which functions a kernel may reach, and the register limits that follow.

use crate::context::Bounds;
use crate::module::launch_bounds::{self, Launch};
use ptx::ast::{self, Initialiser, Item, Operand, Stmt, Symbol, SymbolKind};
use rustc_hash::{FxHashMap, FxHashSet};
use targets::Target;

/// Who calls whom. A call through a pointer may reach every function whose address is taken.
pub struct Calls<'a> {
    module: &'a ast::Module<'a>,
    functions: Vec<&'a ast::Function<'a>>,
    /// What each of them does with functions, and their indices.
    uses: Vec<Uses>,
    by_symbol: FxHashMap<Symbol, usize>,
    aliases: Vec<(Symbol, Symbol)>,
    /// Functions whose address is in code, in an initialiser or in an alias.
    taken: Vec<Symbol>,
}

impl<'a> Calls<'a> {
    /// `aliases` are alias functions with their targets.
    pub fn new(module: &'a ast::Module<'a>, aliases: &[(Symbol, Symbol)]) -> Calls<'a> {
        let items = module.items.iter();
        let function = |item: &'a Item<'a>| match item {
            Item::Function(f) => f.body.is_some().then_some(&**f),
            _ => None,
        };
        let functions: Vec<&ast::Function> = items.filter_map(function).collect();
        let by_symbol = functions.iter().enumerate().map(|(i, f)| (f.symbol, i)).collect();
        let (uses, aliases, taken) = (Vec::new(), aliases.to_vec(), Vec::new());
        let mut calls = Calls { module, functions, uses, by_symbol, aliases, taken };
        calls.uses = calls.functions.iter().map(|f| calls.uses_of(f)).collect();
        let in_code = calls.uses.iter().flat_map(|uses| uses.taken.iter().copied());
        let in_aliases = calls.aliases.iter().map(|(_, target)| *target);
        let in_data = taken_by_data(module).into_iter().map(|s| calls.resolved(s));
        calls.taken = in_code.chain(in_aliases).chain(in_data).collect();
        calls
    }

    /// The functions with a body.
    pub fn functions(&self) -> impl Iterator<Item = &'a ast::Function<'a>> {
        self.functions.iter().copied()
    }

    /// The functions that may run when this one does, itself among them.
    pub fn reached(&self, from: &ast::Function) -> FxHashSet<Symbol> {
        self.reached_from(vec![from.symbol])
    }

    fn reached_from(&self, mut work: Vec<Symbol>) -> FxHashSet<Symbol> {
        let mut seen = FxHashSet::default();
        while let Some(symbol) = work.pop() {
            let Some(index) = self.by_symbol.get(&symbol).filter(|_| seen.insert(symbol)) else { continue };
            let uses = &self.uses[*index];
            work.extend(&uses.called);
            if uses.calls_pointer || !uses.taken.is_empty() {
                work.extend(&self.taken);
            }
        }
        seen
    }

    /// What the code of an executable needs: the kernels, what they reach, and what initialisers name.
    pub fn needed(&self) -> FxHashSet<Symbol> {
        let of_data = taken_by_data(self.module).into_iter().map(|s| self.resolved(s));
        let kernels = self.functions().filter(|f| f.entry).map(|f| f.symbol);
        self.reached_from(kernels.chain(of_data).collect())
    }

    /// Some functions, by their indices, in layers: one calls functions of the layers before its own only. Recursive
    /// functions, and those that call them, are in the last layer together.
    pub fn layers(&self, functions: &[&ast::Function]) -> Vec<Vec<usize>> {
        let index: FxHashMap<Symbol, usize> =
            functions.iter().enumerate().map(|(i, f)| (f.symbol, i)).collect();
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); functions.len()];
        let mut waits_for = vec![0; functions.len()];
        for (caller, function) in functions.iter().enumerate() {
            let uses = self.by_symbol.get(&function.symbol).map(|i| &self.uses[*i]);
            for callee in uses.into_iter().flat_map(|uses| &uses.called).filter_map(|s| index.get(s)) {
                callers[*callee].push(caller);
                waits_for[caller] += 1;
            }
        }
        let mut layer: Vec<usize> = (0..functions.len()).filter(|i| waits_for[*i] == 0).collect();
        let mut layers = Vec::new();
        while !layer.is_empty() {
            let mut next = Vec::new();
            for caller in layer.iter().flat_map(|callee| &callers[*callee]) {
                waits_for[*caller] -= 1;
                if waits_for[*caller] == 0 {
                    next.push(*caller);
                }
            }
            next.sort_unstable();
            layers.push(std::mem::replace(&mut layer, next));
        }
        let rest: Vec<usize> = (0..functions.len()).filter(|i| waits_for[*i] > 0).collect();
        if !rest.is_empty() {
            layers.push(rest);
        }
        layers
    }

    /// How many general registers a call of a function may write that has so many itself, from R0 on; `written` has those
    /// that are known. `None` if it calls one that isn't.
    pub fn written(
        &self,
        function: &ast::Function,
        own: u32,
        written: &FxHashMap<Symbol, u32>,
    ) -> Option<u32> {
        let uses = &self.uses[*self.by_symbol.get(&function.symbol)?];
        let of_callees = |most: u32, callee: &Symbol| Some(most.max(*written.get(callee)?));
        if uses.calls_pointer { None } else { uses.called.iter().try_fold(own, of_callees) }
    }

    fn resolved(&self, symbol: Symbol) -> Symbol {
        let alias = self.aliases.iter().find(|(alias, _)| *alias == symbol);
        alias.map_or(symbol, |(_, target)| *target)
    }

    fn uses_of(&self, function: &ast::Function) -> Uses {
        let mut uses = Uses::default();
        let Some(body) = &function.body else { return uses };
        let mut callees = FxHashMap::<Symbol, usize>::default();
        for stmt in &body.stmts {
            let Stmt::Inst(inst) = stmt else { continue };
            if self.module.opcodes[inst.opcode.0 as usize].mnemonic != "call" {
                continue;
            }
            match body.list(inst.operands).iter().find(|o| !matches!(o, Operand::List(_))) {
                Some(Operand::Symbol(symbol)) => *callees.entry(*symbol).or_default() += 1,
                _ => uses.calls_pointer = true,
            }
        }
        let is_function = |s: &Symbol| {
            matches!(
                self.module.symbols.get(s.0 as usize).map(|s| &s.kind),
                Some(SymbolKind::Function { .. })
            )
        };
        let mut named = FxHashMap::<Symbol, usize>::default();
        for operand in &body.operands {
            if let Operand::Symbol(symbol) = operand {
                *named.entry(*symbol).or_default() += 1;
            }
        }
        // A function that is named elsewhere than as a callee has its address taken.
        let taken =
            named.iter().filter(|(s, n)| is_function(s) && **n > callees.get(s).copied().unwrap_or(0));
        uses.taken = taken.map(|(symbol, _)| self.resolved(*symbol)).collect();
        uses.taken.sort_unstable();
        uses.called = callees.keys().map(|symbol| self.resolved(*symbol)).collect();
        uses.called.sort_unstable();
        uses
    }
}

/// What a function's code does with functions.
#[derive(Default)]
struct Uses {
    called: Vec<Symbol>,
    taken: Vec<Symbol>,
    calls_pointer: bool,
}

/// The symbols whose addresses initialisers have.
pub fn taken_by_data(module: &ast::Module) -> Vec<Symbol> {
    let mut taken = Vec::new();
    for item in &module.items {
        match item {
            Item::Variable(v) => addresses(v.init.as_ref(), &mut taken),
            Item::Function(f) => {
                for stmt in f.body.iter().flat_map(|body| &body.stmts) {
                    if let Stmt::Variable(v) = stmt {
                        addresses(v.init.as_ref(), &mut taken);
                    }
                }
            }
            _ => {}
        }
    }
    taken
}

/// The symbols in an initialiser.
fn addresses(init: Option<&Initialiser>, found: &mut Vec<Symbol>) {
    match init {
        Some(Initialiser::Address { symbol, .. }) => found.push(*symbol),
        Some(Initialiser::List(items)) => items.iter().for_each(|item| addresses(Some(item), found)),
        _ => {}
    }
}

/// The register limit of each device function: the least of all kernels that reach it. A kernel without a limit imposes
/// none.
pub fn limits(calls: &Calls, bounds: &Bounds, target: &Target) -> FxHashMap<Symbol, u32> {
    let mut limits = FxHashMap::default();
    for kernel in calls.functions().filter(|f| f.entry) {
        let launch = Launch::new(kernel, "", bounds, target);
        let Some(limit) = launch.ok().map(|l| l.registers()).filter(|limit| *limit < launch_bounds::MOST)
        else {
            continue;
        };
        let reached = calls.reached(kernel);
        for function in calls.functions().filter(|f| !f.entry && reached.contains(&f.symbol)) {
            let known = limits.entry(function.symbol).or_insert(limit);
            *known = limit.min(*known);
        }
    }
    limits
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
        let target = Target::of_name("sm_90").expect("a row");
        let limits = limits(&Calls::new(&module, &[]), &Bounds::NONE, target);
        let mut all: Vec<_> =
            limits.into_iter().map(|(symbol, limit)| (name(&module, symbol), limit)).collect();
        all.sort();
        all
    }

    #[test]
    fn callers_are_in_later_layers_and_recursion_in_the_last() {
        let source = ".version 8.0 .target sm_90 .address_size 64 .func c() { ret; } .func b() { call c; ret; } \
                      .func r() { call r; ret; } .func p() { call b; call r; ret; } \
                      .entry k() { call b; call c; ret; } .entry l() { call p; ret; }";
        let parsed = ptx::parse(source, &ptx::Options::default());
        let module = parsed.module.expect("a module");
        let calls = Calls::new(&module, &[]);
        let functions: Vec<&ast::Function> = calls.functions().collect();
        assert_eq!(calls.layers(&functions), [vec![0], vec![1], vec![4], vec![2, 3, 5]]);
        let mut written = FxHashMap::default();
        for (i, own) in [(0, 30), (1, 20), (4, 25)] {
            let registers = calls.written(functions[i], own, &written).expect("all callees are known");
            written.insert(functions[i].symbol, registers);
        }
        assert_eq!([0, 1, 4].map(|i| written[&functions[i].symbol]), [30; 3]);
        assert_eq!(calls.written(functions[3], 20, &written), None, "it calls a recursive function");
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
        assert_eq!(limits_of(pointer), named(&[("d", 32)]));
    }
}
