//! The call graph of a module's PTX: which functions a kernel may reach, and the register limits that follow.

use crate::context::Bounds;
use crate::module::abi::Clobbers;
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
    /// Does a function move its stack pointer?
    moves_stack: bool,
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
        let mut calls = Calls { module, functions, uses, by_symbol, aliases, taken, moves_stack: false };
        calls.uses = calls.functions.iter().map(|f| calls.uses_of(f)).collect();
        calls.moves_stack = calls.uses.iter().any(|uses| uses.moves_stack);
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

    /// Some functions, by their indices, in layers of groups: functions of a group call each other, directly or not, and
    /// besides that functions of the layers before their own only.
    pub fn layers(&self, functions: &[&ast::Function]) -> Vec<Vec<Vec<usize>>> {
        let index: FxHashMap<Symbol, usize> =
            functions.iter().enumerate().map(|(i, f)| (f.symbol, i)).collect();
        let called = |function: &&ast::Function| {
            let uses = self.by_symbol.get(&function.symbol).map(|i| &self.uses[*i]);
            uses.into_iter().flat_map(|uses| &uses.called).filter_map(|s| index.get(s)).copied().collect()
        };
        let callees: Vec<Vec<usize>> = functions.iter().map(called).collect();
        let mut layers: Vec<Vec<Vec<usize>>> = Vec::new();
        let mut layer_of = vec![0; functions.len()];
        for group in components(&callees) {
            let outside =
                group.iter().flat_map(|i| &callees[*i]).filter(|callee| group.binary_search(callee).is_err());
            let layer = outside.map(|callee| layer_of[*callee] + 1).max().unwrap_or(0);
            group.iter().for_each(|i| layer_of[*i] = layer);
            if layers.len() <= layer {
                layers.resize(layer + 1, Vec::new());
            }
            layers[layer].push(group);
        }
        layers
    }

    /// What a call of a group of functions clobbers that write so much themselves; `known` has that of others. `None` if
    /// one of them calls one that isn't known.
    pub fn clobbers(
        &self,
        group: &[Symbol],
        own: Clobbers,
        known: &FxHashMap<Symbol, Clobbers>,
    ) -> Option<Clobbers> {
        let add = |all: Clobbers, symbol: &Symbol| {
            let uses = &self.uses[*self.by_symbol.get(symbol)?];
            let mut callees = uses.called.iter().filter(|callee| !group.contains(callee));
            let of_callees = callees.try_fold(all, |all, callee| Some(all.max(*known.get(callee)?)));
            of_callees.filter(|_| !uses.calls_pointer)
        };
        group.iter().try_fold(own, add)
    }

    /// Need a function save nothing for its callers? It is reached by direct calls alone, and it is known what its callees
    /// write. Where the stack pointer moves, R2 has to survive calls.
    pub fn may_preserve_none(&self, function: &ast::Function, known: &FxHashMap<Symbol, Clobbers>) -> bool {
        let Some(uses) = self.by_symbol.get(&function.symbol).map(|i| &self.uses[*i]) else { return false };
        let knows_callees =
            !uses.calls_pointer && uses.called.iter().all(|callee| known.contains_key(callee));
        !function.entry && !self.moves_stack && knows_callees && !self.taken.contains(&function.symbol)
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
            match self.module.opcodes[inst.opcode.0 as usize].mnemonic {
                "call" => {}
                mnemonic => {
                    uses.moves_stack |= matches!(mnemonic, "alloca" | "stackrestore");
                    continue;
                }
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

/// The strongly connected components of a graph of `successors`, those that are reached before those that reach them
/// (Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972). Each is sorted.
fn components(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    const DONE: usize = usize::MAX - 1;
    // The least number of a node of the stack that is reached from a node.
    let mut low = vec![UNSEEN; successors.len()];
    let (mut all, mut stack, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..successors.len() {
        let mut path = vec![(root, 0, count)];
        if low[root] != UNSEEN {
            continue;
        }
        while let Some((node, next, number)) = path.last_mut() {
            let (at, own) = (*node, *number);
            if *next == 0 {
                (low[at], count) = (own, count + 1);
                stack.push(at);
            }
            if let Some(&successor) = successors[at].get(*next) {
                *next += 1;
                match low[successor] {
                    UNSEEN => path.push((successor, 0, count)),
                    DONE => {}
                    reached => low[at] = low[at].min(reached),
                }
                continue;
            }
            path.pop();
            if let Some((parent, ..)) = path.last() {
                low[*parent] = low[*parent].min(low[at]);
            }
            if low[at] == own {
                let first = stack.iter().rposition(|on| *on == at).unwrap_or(0);
                let mut component = stack.split_off(first);
                component.iter().for_each(|i| low[*i] = DONE);
                component.sort_unstable();
                all.push(component);
            }
        }
    }
    all
}

/// What a function's code does with functions.
#[derive(Default)]
struct Uses {
    called: Vec<Symbol>,
    taken: Vec<Symbol>,
    calls_pointer: bool,
    moves_stack: bool,
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
    fn callers_are_in_later_layers_and_recursive_functions_in_groups() {
        let source = ".version 8.0 .target sm_90 .address_size 64 .func c() { ret; } .func b() { call c; ret; } \
                      .func r() { call r; ret; } .func p() { call b; call r; ret; } \
                      .entry k() { call b; call c; ret; } .entry l() { call p; ret; }";
        let parsed = ptx::parse(source, &ptx::Options::default());
        let module = parsed.module.expect("a module");
        let calls = Calls::new(&module, &[]);
        let functions: Vec<&ast::Function> = calls.functions().collect();
        let single = |all: &[usize]| all.iter().map(|i| vec![*i]).collect::<Vec<_>>();
        assert_eq!(calls.layers(&functions), [single(&[0, 2]), single(&[1]), single(&[3, 4]), single(&[5])]);
        let of = |registers| Clobbers { registers, ..Clobbers::default() };
        let mut known = FxHashMap::default();
        for (i, own) in [(0, 30), (2, 20), (1, 20), (4, 25)] {
            let all = calls.clobbers(&[functions[i].symbol], of(own), &known).expect("all callees are known");
            known.insert(functions[i].symbol, all);
        }
        assert_eq!([0, 1, 2, 4].map(|i| known[&functions[i].symbol].registers), [30, 30, 20, 30]);
    }

    #[test]
    fn who_need_not_save_registers() {
        let source = ".version 8.0 .target sm_90 .address_size 64 .func leaf() { ret; } .func taken() { ret; } \
                      .func even(); .func odd() { call even; ret; } .func even() { call odd; call leaf; ret; } \
                      .func top() { call even; ret; } .entry k() { .reg .b64 %f; mov.b64 %f, taken; call top; ret; }";
        let parsed = ptx::parse(source, &ptx::Options::default());
        let module = parsed.module.expect("a module");
        let calls = Calls::new(&module, &[]);
        let functions: Vec<&ast::Function> = calls.functions().collect();
        let mut known = FxHashMap::default();
        let mut free = Vec::new();
        for layer in calls.layers(&functions) {
            free.extend(
                layer.concat().into_iter().filter(|i| calls.may_preserve_none(functions[*i], &known)),
            );
            for group in layer {
                let symbols: Vec<Symbol> = group.iter().map(|i| functions[*i].symbol).collect();
                let all = calls.clobbers(&symbols, Clobbers::default(), &known).expect("callees are known");
                known.extend(symbols.into_iter().map(|symbol| (symbol, all)));
            }
        }
        let names: Vec<String> = free.into_iter().map(|i| name(&module, functions[i].symbol)).collect();
        assert_eq!(
            names,
            ["leaf", "top"],
            "recursive functions and those whose address is taken keep the ABI"
        );
    }

    #[test]
    fn components_come_before_those_that_reach_them() {
        let graph = [vec![1], vec![2, 3], vec![1], vec![], vec![4, 0], vec![3]];
        assert_eq!(components(&graph), [vec![3], vec![1, 2], vec![0], vec![4], vec![5]]);
        let long: Vec<Vec<usize>> = (0..100_000).map(|i| vec![(i + 1) % 100_000]).collect();
        assert_eq!(components(&long).len(), 1, "no recursion over the graph");
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
