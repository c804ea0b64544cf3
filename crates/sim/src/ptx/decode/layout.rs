//! Where variables, functions, parameters and registers are.
//!
//! Shared memory begins with what the system keeps, as on the machine; then come the module's variables and those of
//! device functions; a kernel's own follow, then dynamic shared memory. Parameters and `.param` variables are side by
//! side in a function's parameter memory, formal ones first. Local variables are offsets into a function's frame, and
//! so are formal parameters of functions whose address is taken: such an address is one of local memory.

use crate::memory::{FUNCTIONS, Global, Space, store};
use crate::ptx::program::{Formal, Routine};
use ::ptx::Type;
use ::ptx::ast::{self, Initialiser, Item, Module, Operand, ParamPlace, Stmt, Symbol, SymbolKind, Variable};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Global(u64),
    Const(u32),
    Shared(u32),
    DynamicShared,
    Local(u32),
    Param(u32),
    Function(u32),
}

/// The module.
pub struct Layout<'a> {
    pub module: &'a Module<'a>,
    /// A definition where there is one, else a declaration.
    pub functions: Vec<&'a ast::Function<'a>>,
    places: BTreeMap<Symbol, Place>,
    pub globals: Global,
    pub constants: Vec<u8>,
    pub names: Vec<(String, u64)>,
    /// Bytes of shared memory before a kernel's own variables.
    shared: u32,
    /// What the module's dynamic shared memory is aligned to.
    dynamic_align: u32,
}

/// The largest variable of global memory.
const VARIABLE_LIMIT: u64 = 1 << 32;
/// The largest variable of constant memory, of which there are 64 KB in eleven banks.
const CONSTANT_LIMIT: u64 = 704 << 10;

/// The next place for some bytes, and the end after it.
fn place(end: &mut u32, bytes: u64, align: u64) -> u32 {
    let align = u32::try_from(align).unwrap_or(1).max(1);
    let start = end.checked_next_multiple_of(align).unwrap_or(u32::MAX);
    *end = start.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    start
}

impl<'a> Layout<'a> {
    pub fn new(module: &'a Module<'a>) -> Layout<'a> {
        let mut layout = Layout {
            module,
            functions: Vec::new(),
            places: BTreeMap::new(),
            globals: Global::default(),
            constants: Vec::new(),
            names: Vec::new(),
            shared: reserved_shared(module),
            dynamic_align: 1,
        };
        let mut variables: Vec<&Variable> = Vec::new();
        for item in &module.items {
            match item {
                Item::Function(function) => layout.function(function),
                Item::Variable(variable) => variables.push(variable),
                Item::Alias(alias) => {
                    if let Some(place) = layout.places.get(&alias.target).copied() {
                        layout.places.insert(alias.alias, place);
                    }
                }
                _ => {}
            }
        }
        for function in layout.functions.clone() {
            let body = function.body.iter().flat_map(|body| &body.stmts);
            variables.extend(body.filter_map(|stmt| match stmt {
                Stmt::Variable(v) if !function.entry || v.space != ast::Space::Shared => Some(&**v),
                _ => None,
            }));
        }
        variables.iter().for_each(|variable| layout.variable(variable));
        variables.iter().for_each(|variable| layout.initialise(variable));
        layout
    }

    pub fn name(&self, symbol: Symbol) -> String {
        let Some(info) = self.module.symbols.get(symbol.0 as usize) else { return String::new() };
        let stem = self.module.names.get(info.name.0 as usize).copied().unwrap_or_default();
        info.member.map_or(stem.to_string(), |n| format!("{stem}{n}"))
    }

    fn function(&mut self, function: &'a ast::Function<'a>) {
        let name = self.name(function.symbol);
        let known = self.functions.iter().position(|f| self.name(f.symbol) == name);
        let index = match known {
            Some(index) => {
                if function.body.is_some() {
                    self.functions[index] = function;
                }
                index
            }
            None => {
                self.functions.push(function);
                self.functions.len() - 1
            }
        };
        self.places.insert(function.symbol, Place::Function(index as u32));
    }

    /// Each of the variables that one declaration names.
    fn symbols(variable: &Variable) -> impl Iterator<Item = Symbol> {
        (0..variable.range.unwrap_or(1)).map(|i| Symbol(variable.symbol.0 + i))
    }

    fn size(&self, symbol: Symbol) -> (u64, u64) {
        match self.module.symbols.get(symbol.0 as usize).map(|info| &info.kind) {
            Some(SymbolKind::Variable { bytes, align, .. }) => (*bytes, *align),
            _ => (0, 1),
        }
    }

    fn variable(&mut self, variable: &Variable) {
        for symbol in Self::symbols(variable) {
            let (bytes, align) = self.size(symbol);
            let found = match variable.space {
                ast::Space::Global => {
                    // What is too large to have is there, but every access to it is out of bounds.
                    let bytes = if bytes <= VARIABLE_LIMIT { bytes } else { 0 };
                    let address = self.globals.allocate(vec![0; bytes as usize]);
                    self.names.push((self.name(symbol), address));
                    Place::Global(address)
                }
                ast::Space::Const => {
                    let bytes = if bytes <= CONSTANT_LIMIT { bytes } else { 0 };
                    let mut end = self.constants.len() as u32;
                    let start = place(&mut end, bytes, align);
                    self.constants.resize(end as usize, 0);
                    Place::Const(start)
                }
                ast::Space::Shared if bytes == 0 => {
                    self.dynamic_align = self.dynamic_align.max(align as u32);
                    Place::DynamicShared
                }
                ast::Space::Shared => Place::Shared(place(&mut self.shared, bytes, align)),
                ast::Space::Local | ast::Space::Param | ast::Space::Reg => continue,
            };
            self.places.insert(symbol, found);
        }
    }

    fn initialise(&mut self, variable: &Variable) {
        let Some(init) = &variable.init else { return };
        let mut bytes = Vec::new();
        self.bytes(init, variable.ty, &mut bytes);
        match self.places.get(&variable.symbol) {
            Some(Place::Global(address)) => {
                let length = bytes.len().min(self.size(variable.symbol).0 as usize);
                if let Some(memory) = self.globals.slice(*address, length) {
                    memory.copy_from_slice(&bytes[..length]);
                }
            }
            Some(Place::Const(start)) => {
                let memory = self.constants.iter_mut().skip(*start as usize);
                memory.zip(bytes).for_each(|(to, from)| *to = from);
            }
            _ => {}
        }
    }

    fn bytes(&self, init: &Initialiser, ty: Type, out: &mut Vec<u8>) {
        let value = match init {
            Initialiser::List(list) => return list.iter().for_each(|init| self.bytes(init, ty, out)),
            Initialiser::Fields(_) => return,
            Initialiser::Int(value) => *value,
            Initialiser::F32(bits) => u64::from(*bits),
            Initialiser::F64(bits) if ty.bits() == 32 => {
                use ori::arith::{Flow, convert, float};
                convert::float_to_float(float::F64, float::F32, Flow::NEAREST, *bits)
            }
            Initialiser::F64(bits) => *bits,
            Initialiser::Address { symbol, offset, generic, mask } => {
                let address = self.address(*symbol, *generic).wrapping_add_signed(*offset);
                mask.map_or(address, |mask| (address & mask) >> mask.trailing_zeros().min(63))
            }
        };
        let start = out.len();
        out.resize(start + ty.bytes() as usize, 0);
        store(&mut out[start..], value);
    }

    fn address(&self, symbol: Symbol, generic: bool) -> u64 {
        let windowed = |space: Space, base: u32| u64::from(base) + if generic { space.window() } else { 0 };
        match self.places.get(&symbol) {
            Some(Place::Global(address)) => *address,
            Some(Place::Const(base)) => windowed(Space::Const, *base),
            Some(Place::Shared(base)) => windowed(Space::Shared, *base),
            Some(Place::Function(index)) => FUNCTIONS + 16 * u64::from(*index),
            _ => 0,
        }
    }
}

/// Bytes of shared memory that the system keeps.
pub fn reserved_shared(module: &Module) -> u32 {
    module.target.row().map_or(0, |target| target.shared_base)
}

/// The blocks of a cluster that a kernel asks for.
fn cluster_of(function: &ast::Function) -> Option<[u32; 3]> {
    let wanted = function.directives.iter().find(|directive| directive.name == ".reqnctapercluster")?;
    let count = |axis: usize| wanted.values.get(axis).map_or(1, |count| *count as u32);
    Some([count(0), count(1), count(2)])
}

/// What is named outside of brackets: variables whose address is an operand.
fn pointed_to(function: &ast::Function) -> BTreeSet<Symbol> {
    let Some(code) = &function.body else { return BTreeSet::new() };
    let instructions = code.stmts.iter().filter_map(|stmt| match stmt {
        Stmt::Inst(inst) => Some(inst),
        _ => None,
    });
    let operands = instructions.flat_map(|inst| code.list(inst.operands));
    let symbol = |operand: &Operand| match operand {
        Operand::Symbol(symbol) => Some(*symbol),
        Operand::Sum(range) => match code.list(*range).first() {
            Some(Operand::Symbol(symbol)) => Some(*symbol),
            _ => None,
        },
        _ => None,
    };
    operands.filter_map(symbol).collect()
}

/// A function.
pub struct Body {
    pub routine: Routine,
    places: BTreeMap<Symbol, Place>,
    labels: BTreeMap<Symbol, u32>,
    /// The labels of a `.branchtargets`.
    targets: BTreeMap<Symbol, Vec<Symbol>>,
    /// The first slot of each register.
    slots: Vec<u32>,
    /// The bits that each slot has.
    masks: Vec<u64>,
    /// The slot of the carry flag.
    pub carry: u32,
}

impl Body {
    pub fn new(layout: &Layout, function: &ast::Function, start: u32) -> Body {
        let routine = Routine {
            name: layout.name(function.symbol),
            entry: function.entry,
            start: function.body.is_some().then_some(start),
            slots: 0,
            slot_names: Vec::new(),
            params: Vec::new(),
            returns: Vec::new(),
            param_bytes: 0,
            formal_bytes: 0,
            local_bytes: 0,
            shared_bytes: layout.shared,
            dynamic_align: layout.dynamic_align,
            cluster: cluster_of(function),
        };
        let mut body = Body {
            routine,
            places: BTreeMap::new(),
            labels: BTreeMap::new(),
            targets: BTreeMap::new(),
            slots: Vec::new(),
            masks: Vec::new(),
            carry: 0,
        };
        if let Some(code) = &function.body {
            body.registers(layout, code);
        }
        let pointed_to = if function.entry { BTreeSet::new() } else { pointed_to(function) };
        body.routine.params = function.params.iter().map(|p| body.formal(function, p, &pointed_to)).collect();
        body.routine.formal_bytes = body.routine.param_bytes;
        body.routine.returns =
            function.returns.iter().map(|p| body.formal(function, p, &BTreeSet::new())).collect();
        if let Some(code) = &function.body {
            body.statements(layout, function, code, start);
        }
        body
    }

    /// Slots that one register of a declaration takes.
    pub fn slots_of(&self, decl: &ast::RegDecl) -> u32 {
        u32::from(decl.vector) * decl.ty.bits().div_ceil(64)
    }

    fn registers(&mut self, layout: &Layout, code: &ast::Body) {
        for decl in &code.regs {
            let name = layout.module.names.get(decl.name.0 as usize).copied().unwrap_or_default();
            let mask = u64::MAX >> (64 - decl.ty.bits().clamp(1, 64));
            for i in 0..decl.range.unwrap_or(1) {
                self.slots.push(self.masks.len() as u32);
                let text = if decl.range.is_some() { format!("{name}{i}") } else { name.to_string() };
                for _ in 0..self.slots_of(decl) {
                    self.masks.push(mask);
                    self.routine.slot_names.push(text.clone());
                }
            }
        }
        self.carry = self.masks.len() as u32;
        self.masks.push(1);
        self.routine.slot_names.push("the carry flag".to_string());
        self.routine.slots = self.masks.len() as u32;
    }

    fn formal(
        &mut self,
        function: &ast::Function,
        param: &ast::Param,
        pointed_to: &BTreeSet<Symbol>,
    ) -> Formal {
        match param.place {
            ParamPlace::Memory(symbol) if pointed_to.contains(&symbol) => {
                let bytes = param.bytes();
                let offset = place(&mut self.routine.local_bytes, bytes, param.alignment());
                self.places.insert(symbol, Place::Local(offset));
                Formal::Local { offset, bytes: bytes as u32 }
            }
            ParamPlace::Memory(symbol) => {
                let bytes = param.bytes();
                let offset = place(&mut self.routine.param_bytes, bytes, param.alignment());
                self.places.insert(symbol, Place::Param(offset));
                Formal::Memory { offset, bytes: bytes as u32 }
            }
            ParamPlace::Register(reg) => {
                let decl = function.body.as_ref().map(|code| code.reg_decl(reg).0);
                Formal::Slots { first: self.slot(reg), count: decl.map_or(1, |decl| self.slots_of(decl)) }
            }
        }
    }

    fn statements(&mut self, layout: &Layout, function: &ast::Function, code: &ast::Body, start: u32) {
        let mut next = start;
        for stmt in &code.stmts {
            match stmt {
                Stmt::Inst(_) => next += 1,
                Stmt::Label(symbol, _) => {
                    self.labels.insert(*symbol, next);
                }
                Stmt::Variable(variable) => self.variable(layout, function, variable),
                Stmt::Targets(targets) => {
                    let symbols = code.list(targets.targets).iter().filter_map(|operand| match operand {
                        Operand::Symbol(symbol) => Some(*symbol),
                        _ => None,
                    });
                    self.targets.insert(targets.label, symbols.collect());
                }
                _ => {}
            }
        }
    }

    fn variable(&mut self, layout: &Layout, function: &ast::Function, variable: &Variable) {
        for symbol in Layout::symbols(variable) {
            let (bytes, align) = layout.size(symbol);
            let routine = &mut self.routine;
            let found = match variable.space {
                ast::Space::Local => Place::Local(place(&mut routine.local_bytes, bytes, align)),
                ast::Space::Param => Place::Param(place(&mut routine.param_bytes, bytes, align)),
                ast::Space::Shared if function.entry && bytes == 0 => {
                    routine.dynamic_align = routine.dynamic_align.max(align as u32);
                    Place::DynamicShared
                }
                ast::Space::Shared if function.entry => {
                    Place::Shared(place(&mut routine.shared_bytes, bytes, align))
                }
                _ => continue,
            };
            self.places.insert(symbol, found);
        }
    }

    pub fn slot(&self, reg: ast::Reg) -> u32 {
        self.slots.get(reg.0 as usize).copied().unwrap_or(0)
    }

    pub fn mask(&self, slot: u32) -> u64 {
        self.masks.get(slot as usize).copied().unwrap_or(u64::MAX)
    }

    pub fn place(&self, layout: &Layout, symbol: Symbol) -> Option<Place> {
        self.places.get(&symbol).or_else(|| layout.places.get(&symbol)).copied()
    }

    pub fn label(&self, symbol: Symbol) -> Option<u32> {
        self.labels.get(&symbol).copied()
    }

    pub fn branch_targets(&self, symbol: Symbol) -> Option<Vec<u32>> {
        self.targets.get(&symbol)?.iter().map(|label| self.label(*label)).collect()
    }
}
