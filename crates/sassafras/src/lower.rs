//! Lowering: one Ori function per PTX entry.
//!
//! PTX registers become SSA values: a block with several predecessors has a parameter for each register that is
//! live into it, any other block starts with what its predecessor ended with. What the instructions become is
//! in [`select`]; which blocks there are in [`graph`].

mod graph;
mod select;

use crate::Failure;
use crate::bank0::Machine;
use graph::{End, Graph};
use ori::entity::Entity;
use ori::{Arg, Block, Edge, File, Function, InstData, Op, Pseudo, Terminator, Value};
use ptx::ast;
use rustc_hash::FxHashMap;
use sass::M;
use smallvec::{SmallVec, smallvec};

/// A kernel and what its container needs to know.
pub struct Kernel {
    pub code: Function,
    pub binding: cubin::Binding,
    pub params: Vec<KernelParam>,
    pub param_bytes: u32,
    pub shared_bytes: u64,
    pub shared_align: u64,
    pub barriers: u8,
    pub max_threads: Option<[u32; 3]>,
}

pub struct KernelParam {
    symbol: ast::Symbol,
    pub offset: u32,
    pub size: u32,
}

/// Byte offsets of the lines of a source.
pub struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    pub fn new(source: &str) -> Lines {
        let newlines = source.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1);
        Lines { starts: std::iter::once(0).chain(newlines).collect() }
    }

    fn line(&self, offset: u32) -> u32 {
        self.starts.partition_point(|s| *s <= offset) as u32
    }
}

pub fn function(
    module: &ast::Module,
    function: &ast::Function,
    machine: &'static Machine,
    lines: &Lines,
) -> Result<Kernel, Failure> {
    let name = module.names[module.symbols[function.symbol.0 as usize].name.0 as usize];
    let refuse = |what: &str| Failure {
        line: lines.line(function.span.start),
        span: function.span,
        message: format!("{what} is not supported yet"),
    };
    let body = match &function.body {
        Some(body) if function.entry => body,
        _ => return Err(refuse("A device function")),
    };
    if let Some(directive) = function.directives.iter().find(|d| d.name != ".maxntid") {
        return Err(refuse(&format!("Directive '{}'", directive.name)));
    }
    let mut lower = Lower::new(module, body, machine, lines, name);
    lower.params(function);
    lower.variables()?;
    lower.max_threads(function);
    lower.run()?;
    lower.kernel.binding = match function.linkage.weak {
        true => cubin::Binding::WEAK,
        false => cubin::Binding::GLOBAL,
    };
    Ok(lower.kernel)
}

struct Lower<'a> {
    module: &'a ast::Module<'a>,
    body: &'a ast::Body<'a>,
    machine: &'static Machine,
    lines: &'a Lines,
    kernel: Kernel,
    graph: Graph<'a>,
    /// Where each shared variable lies, from the beginning of the kernel's shared memory.
    shared: FxHashMap<ast::Symbol, u64>,
    /// What each PTX register is at the current place, and at the end of each lowered block.
    now: FxHashMap<ast::Reg, Value>,
    at_end: Vec<FxHashMap<ast::Reg, Value>>,
    block: Block,
    line: u32,
    /// The descriptor of global memory, loaded once.
    descriptor: Option<Value>,
}

impl<'a> Lower<'a> {
    fn new(
        module: &'a ast::Module<'a>,
        body: &'a ast::Body<'a>,
        machine: &'static Machine,
        lines: &'a Lines,
        name: &str,
    ) -> Lower<'a> {
        let kernel = Kernel {
            code: Function::new(name),
            binding: cubin::Binding::GLOBAL,
            params: Vec::new(),
            param_bytes: 0,
            shared_bytes: 0,
            shared_align: 1,
            barriers: 0,
            max_threads: None,
        };
        let graph = Graph::new(module, body);
        let at_end = vec![FxHashMap::default(); graph.blocks.len()];
        Lower {
            module,
            body,
            machine,
            lines,
            kernel,
            graph,
            shared: FxHashMap::default(),
            now: FxHashMap::default(),
            at_end,
            block: Function::ENTRY,
            line: 0,
            descriptor: None,
        }
    }

    /// Parameters lie side by side in constant bank 0, each aligned to its type.
    fn params(&mut self, function: &ast::Function) {
        let mut offset = 0u32;
        for param in &function.params {
            let ast::ParamPlace::Memory(symbol) = param.place else { continue };
            let size = param.bytes() as u32;
            offset = offset.next_multiple_of(param.alignment() as u32);
            self.kernel.params.push(KernelParam { symbol, offset, size });
            offset += size;
        }
        self.kernel.param_bytes = offset;
    }

    fn variables(&mut self) -> Result<(), Failure> {
        for stmt in &self.body.stmts {
            let ast::Stmt::Variable(v) = stmt else { continue };
            let kind = &self.module.symbols[v.symbol.0 as usize].kind;
            let ast::SymbolKind::Variable { space: ast::Space::Shared, ty, bytes: bytes @ 1.., .. } = *kind
            else {
                return Err(self.unsupported_at(v.span, "This variable"));
            };
            if v.linkage != ast::Linkage::default() || v.range.is_some() {
                return Err(self.unsupported_at(v.span, "This variable"));
            }
            let align = v.align.map_or(u64::from(ty.bytes()), u64::from).max(1);
            let offset = self.kernel.shared_bytes.next_multiple_of(align);
            self.shared.insert(v.symbol, offset);
            self.kernel.shared_bytes = offset + bytes;
            self.kernel.shared_align = self.kernel.shared_align.max(align);
        }
        Ok(())
    }

    fn max_threads(&mut self, function: &ast::Function) {
        let directive = function.directives.iter().find(|d| d.name == ".maxntid");
        self.kernel.max_threads = directive.map(|d| {
            let axis = |i: usize| d.values.get(i).map_or(1, |v| *v as u32);
            [axis(0), axis(1), axis(2)]
        });
    }

    fn unsupported_at(&self, span: ptx::diag::Span, what: &str) -> Failure {
        let message = format!("{what} is not supported yet");
        Failure { line: self.lines.line(span.start), span, message }
    }

    fn run(&mut self) -> Result<(), Failure> {
        // Block 0 is an entry of its own; the PTX blocks follow with their numbers plus one.
        for _ in 0..=self.graph.blocks.len() {
            self.kernel.code.block();
        }
        self.kernel.code.blocks[Function::ENTRY].end = Terminator::Jump(Edge::to(Block(1)));
        self.refuse_special_guards()?;
        for &b in &self.graph.order.clone() {
            self.enter(b);
            for i in 0..self.graph.blocks[b].insts.len() {
                let inst = self.graph.blocks[b].insts[i];
                self.line = self.lines.line(inst.span.start);
                self.inst(inst)?;
            }
            self.at_end[b] = std::mem::take(&mut self.now);
        }
        for &b in &self.graph.order.clone() {
            self.leave(b)?;
        }
        Ok(())
    }

    fn refuse_special_guards(&self) -> Result<(), Failure> {
        for stmt in &self.body.stmts {
            let ast::Stmt::Inst(inst) = stmt else { continue };
            if let Some(ast::Predicate::Special(row)) = inst.guard.map(|g| g.predicate) {
                let name = ptx::sreg::TABLE[row as usize].name;
                return Err(self.unsupported_at(inst.span, &format!("'{name}' as a guard")));
            }
        }
        Ok(())
    }

    /// The registers' values at the beginning of a block.
    fn enter(&mut self, b: usize) {
        self.block = Block::new(b + 1);
        match self.graph.blocks[b].preds[..] {
            // The function's entry leads to block 0 as well.
            [pred] if b != 0 => self.now = self.at_end[pred].clone(),
            [] => self.now.clear(),
            _ => {
                self.now.clear();
                for reg in self.graph.blocks[b].live_in.clone() {
                    let (file, words) = self.shape(reg);
                    let param = self.kernel.code.value(file, words);
                    self.kernel.code.blocks[self.block].params.push(param);
                    self.now.insert(reg, param);
                }
            }
        }
        if b == 0 && !self.kernel.code.blocks[self.block].params.is_empty() {
            // A loop back to the first block: from the entry, nothing is defined yet.
            let params = self.kernel.code.blocks[self.block].params.clone();
            let args = params.iter().map(|p| self.undefined_like(*p)).collect();
            self.kernel.code.blocks[Function::ENTRY].end = Terminator::Jump(Edge { to: self.block, args });
        }
    }

    fn undefined_like(&mut self, value: Value) -> Value {
        let data = self.kernel.code.values[value];
        self.undefined(data.file, data.words)
    }

    /// A value with any bits, defined in the entry.
    fn undefined(&mut self, file: File, words: u8) -> Value {
        let result = self.kernel.code.value(file, words);
        let data = self.data(Op::Pseudo(Pseudo::Undef), &[], &[result], &[]);
        self.kernel.code.append(Function::ENTRY, data);
        result
    }

    fn leave(&mut self, b: usize) -> Result<(), Failure> {
        let end = match self.graph.blocks[b].end {
            End::Exit => Terminator::Exit,
            End::Jump(to) => Terminator::Jump(self.edge(b, to)),
            End::Branch { guard, uniform, yes, no } => {
                let predicate = match guard.reg().and_then(|reg| self.at_end[b].get(&reg)) {
                    Some(value) => *value,
                    None => self.undefined(File::P, 1),
                };
                let (yes, no) = (self.edge(b, yes), self.edge(b, no));
                Terminator::Branch { predicate, negated: guard.negated, uniform, yes, no }
            }
        };
        self.kernel.code.blocks[Block::new(b + 1)].end = end;
        Ok(())
    }

    fn edge(&mut self, from: usize, to: usize) -> Edge {
        let target = Block::new(to + 1);
        let mut args = Vec::new();
        if !self.kernel.code.blocks[target].params.is_empty() {
            for reg in self.graph.blocks[to].live_in.clone() {
                args.push(match self.at_end[from].get(&reg) {
                    Some(value) => *value,
                    None => {
                        let (file, words) = self.shape(reg);
                        self.undefined(file, words)
                    }
                });
            }
        }
        Edge { to: target, args }
    }

    /// The register file and words of a PTX register.
    fn shape(&self, reg: ast::Reg) -> (File, u8) {
        let ty = self.body.reg_decl(reg).0.ty;
        if ty == ptx::Type::PRED { (File::P, 1) } else { (File::R, ty.bits().div_ceil(32) as u8) }
    }

    fn read(&mut self, reg: ast::Reg) -> Value {
        if let Some(value) = self.now.get(&reg) {
            return *value;
        }
        let (file, words) = self.shape(reg);
        let value = self.undefined(file, words);
        self.now.insert(reg, value);
        value
    }

    fn data(&self, op: Op, modifiers: &[M], results: &[Value], args: &[Arg]) -> InstData {
        InstData {
            op,
            modifiers: modifiers.into(),
            results: results.into(),
            args: SmallVec::from_slice(args),
            guard: None,
            line: self.line,
        }
    }

    /// Appends a machine operation with one result of the R file.
    fn emit(&mut self, op: sass::Op, modifiers: &[M], words: u8, args: &[Arg]) -> Value {
        let result = self.kernel.code.value(File::R, words);
        self.emit_to(op, modifiers, &[result], args);
        result
    }

    fn emit_to(&mut self, op: sass::Op, modifiers: &[M], results: &[Value], args: &[Arg]) {
        let data = self.data(Op::Machine(op), modifiers, results, args);
        self.kernel.code.append(self.block, data);
    }

    /// Two words side by side.
    fn pack(&mut self, low: Value, high: Value) -> Value {
        let result = self.kernel.code.value(File::R, 2);
        let data = self.data(Op::Pseudo(Pseudo::Pack), &[], &[result], &[low.into(), high.into()]);
        self.kernel.code.append(self.block, data);
        result
    }

    /// The last instruction of this block takes a guard, and keeps `kept` where the guard is false.
    fn guard_last(&mut self, guard: ast::Guard, kept: Option<Value>) {
        let Some(reg) = guard.reg() else { return };
        let predicate = self.read(reg);
        let kept = kept.map_or(smallvec![], |v| smallvec![v]);
        if let Some(inst) = self.kernel.code.blocks[self.block].insts.last() {
            self.kernel.code.insts[*inst].guard =
                Some(ori::Guard { predicate, negated: guard.negated, kept });
        }
    }
}
