//! Lowering: one Ori function per PTX function.
//!
//! PTX registers become SSA values: a block with several predecessors has a parameter for each register that is
//! live into it, any other block starts with what its predecessor ended with.
//!
//! | question | file |
//! |---|---|
//! | which blocks there are, and what is live into them | [`graph`] |
//! | which file lowers an instruction; nothing of it gets lost | [`instruction`] |
//! | reading operands, appending operations, writing results | [`build`] |
//! | instructions that become a routine of several blocks | [`library`] |
//! | everything else | the file of the instruction's family |
//!
//! A PTX register of 8 or 16 bits is a word whose upper bits mean nothing; one of 64 or 128 bits is a value of two
//! or four words, a vector register one of as many words as its elements take.

mod arithmetic;
mod atomic;
mod barrier;
#[allow(dead_code)]
mod build;
mod compare;
mod convert;
mod float;
mod graph;
mod half;
mod instruction;
mod integer;
mod library;
mod logic;
mod memory;
mod moves;
mod special;
mod texture;
mod video;
mod warp;

use crate::Failure;
use crate::bank0::Machine;
use graph::{End, Graph};
use ori::{Arg, Block, Edge, File, Function, Op, Pseudo, Terminator, Value};
use ptx::ast;
use rustc_hash::FxHashMap;

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
    let mut kernel = Kernel {
        code: Function::new(name),
        binding: match function.linkage.weak {
            true => cubin::Binding::WEAK,
            false => cubin::Binding::GLOBAL,
        },
        params: Vec::new(),
        param_bytes: 0,
        shared_bytes: 0,
        shared_align: 1,
        barriers: 0,
        max_threads: max_threads(function),
    };
    kernel.code.block();
    let mut lower = Lower::new(&mut kernel, module, body, machine, lines, &[]);
    lower.params(function);
    lower.variables()?;
    let (first, _) = lower.run()?;
    kernel.code.blocks[Function::ENTRY].end = Terminator::Jump(first);
    Ok(kernel)
}

fn max_threads(function: &ast::Function) -> Option<[u32; 3]> {
    let directive = function.directives.iter().find(|d| d.name == ".maxntid");
    directive.map(|d| {
        let axis = |i: usize| d.values.get(i).map_or(1, |v| *v as u32);
        [axis(0), axis(1), axis(2)]
    })
}

/// One PTX body on its way into a function: a kernel's own, or that of a library routine at its place of use.
struct Lower<'k, 'a> {
    kernel: &'k mut Kernel,
    module: &'a ast::Module<'a>,
    body: &'a ast::Body<'a>,
    machine: &'static Machine,
    lines: &'a Lines,
    graph: Graph<'a>,
    /// The library routine that this is the body of.
    routine: Option<library::Inlined>,
    /// Where each shared variable lies, from the beginning of the kernel's shared memory.
    shared: FxHashMap<ast::Symbol, u64>,
    /// What each PTX register is at the current place, and at the end of each lowered block.
    now: FxHashMap<ast::Reg, Value>,
    at_end: Vec<FxHashMap<ast::Reg, Value>>,
    /// The Ori blocks in which each PTX block begins and ends.
    first: Vec<Block>,
    last: Vec<Block>,
    block: Block,
    line: u32,
    /// The guard of the instruction that is being lowered: its predicate, and whether it is negated.
    guard: Option<(Value, bool)>,
    /// Operations from this number on belong to that instruction and may still take its guard.
    unguarded: usize,
    /// The descriptor of global memory, loaded once.
    descriptor: Option<Value>,
}

impl<'k, 'a> Lower<'k, 'a> {
    fn new(
        kernel: &'k mut Kernel,
        module: &'a ast::Module<'a>,
        body: &'a ast::Body<'a>,
        machine: &'static Machine,
        lines: &'a Lines,
        results: &[ast::Reg],
    ) -> Lower<'k, 'a> {
        let graph = Graph::new(module, body, results);
        let blocks = graph.blocks.len();
        Lower {
            kernel,
            module,
            body,
            machine,
            lines,
            graph,
            routine: None,
            shared: FxHashMap::default(),
            now: FxHashMap::default(),
            at_end: vec![FxHashMap::default(); blocks],
            first: Vec::new(),
            last: vec![Function::ENTRY; blocks],
            block: Function::ENTRY,
            line: 0,
            guard: None,
            unguarded: 0,
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

    fn unsupported_at(&self, span: ptx::diag::Span, what: &str) -> Failure {
        let message = format!("{what} is not supported yet");
        Failure { line: self.lines.line(span.start), span, message }
    }

    /// Lowers all blocks. Returns the edge into the first, and the blocks from which the body returns.
    fn run(&mut self) -> Result<(Edge, Vec<usize>), Failure> {
        self.first = self.graph.blocks.iter().map(|_| self.kernel.code.block()).collect();
        for b in self.graph.order.clone() {
            self.enter(b);
            for i in 0..self.graph.blocks[b].insts.len() {
                let inst = self.graph.blocks[b].insts[i];
                if self.routine.is_none() {
                    self.line = self.lines.line(inst.span.start);
                }
                self.inst(inst)?;
            }
            self.last[b] = self.block;
            self.at_end[b] = std::mem::take(&mut self.now);
        }
        let mut returns = Vec::new();
        for b in self.graph.order.clone() {
            self.leave(b)?;
            if matches!(self.graph.blocks[b].end, End::Return) {
                returns.push(b);
            }
        }
        // Into the first block of a loop: what the body has not defined yet has any bits.
        let params = self.kernel.code.blocks[self.first[0]].params.clone();
        let args = match self.graph.blocks[0].preds.is_empty() {
            true => Vec::new(),
            false => params.iter().map(|p| self.undefined_like(*p)).collect(),
        };
        Ok((Edge { to: self.first[0], args }, returns))
    }

    /// The registers' values at the beginning of a block.
    fn enter(&mut self, b: usize) {
        self.block = self.first[b];
        match self.graph.blocks[b].preds[..] {
            // Something else leads to block 0 as well.
            [pred] if b != 0 => self.now = self.at_end[pred].clone(),
            [] if b == 0 => {
                self.now = self.routine.as_ref().map_or_else(Default::default, |r| r.params.clone())
            }
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
        self.block = self.last[b];
        self.now = std::mem::take(&mut self.at_end[b]);
        let end = match self.graph.blocks[b].end.clone() {
            End::Exit => Terminator::Exit,
            End::Return if self.routine.is_some() => Terminator::Return,
            // A kernel has no caller.
            End::Return => Terminator::Exit,
            End::Jump(to) => Terminator::Jump(self.edge(to)),
            End::Branch { guard, uniform, yes, no } => {
                let (predicate, negated) = self.guard(guard, self.graph.blocks[b].span)?;
                let (yes, no) = (self.edge(yes), self.edge(no));
                Terminator::Branch { predicate, negated, uniform, yes, no }
            }
            End::Switch { index, targets } => self.switch(index, &targets),
        };
        self.kernel.code.blocks[self.block].end = end;
        self.at_end[b] = std::mem::take(&mut self.now);
        Ok(())
    }

    /// `brx.idx` as a tree of comparisons; an index outside the list is undefined behaviour.
    fn switch(&mut self, index: ast::Reg, targets: &[usize]) -> Terminator {
        if targets.len() == 1 {
            return Terminator::Jump(self.edge(targets[0]));
        }
        let value = self.read(index);
        let middle = targets.len() / 2;
        let predicate = self.kernel.code.value(File::P, 1);
        self.switch_step(value, 0, middle, predicate);
        self.switch_half(value, 0, targets, middle, predicate)
    }

    fn switch_step(&mut self, value: Value, first: usize, middle: usize, predicate: Value) {
        let bound = Arg::Imm((first + middle) as i64);
        let modifiers = [sass::M::LT, sass::M::U32, sass::M::AND];
        let args = [Arg::True(true), value.into(), bound, Arg::True(true)];
        self.emit_to(sass::Op::ISETP, &modifiers, &[predicate], &args);
    }

    fn switch_half(
        &mut self,
        value: Value,
        first: usize,
        targets: &[usize],
        middle: usize,
        predicate: Value,
    ) -> Terminator {
        let (low, high) = targets.split_at(middle);
        let yes = self.switch_edge(value, first, low);
        let no = self.switch_edge(value, first + middle, high);
        Terminator::Branch { predicate, negated: false, uniform: false, yes, no }
    }

    fn switch_edge(&mut self, value: Value, first: usize, targets: &[usize]) -> Edge {
        if targets.len() == 1 {
            return self.edge(targets[0]);
        }
        let (from, block) = (self.block, self.kernel.code.block());
        self.block = block;
        let middle = targets.len() / 2;
        let predicate = self.kernel.code.value(File::P, 1);
        self.switch_step(value, first, middle, predicate);
        let end = self.switch_half(value, first, targets, middle, predicate);
        self.kernel.code.blocks[block].end = end;
        self.block = from;
        Edge::to(block)
    }

    fn edge(&mut self, to: usize) -> Edge {
        let target = self.first[to];
        let mut args = Vec::new();
        if !self.kernel.code.blocks[target].params.is_empty() {
            args = self.graph.blocks[to].live_in.clone().into_iter().map(|reg| self.read(reg)).collect();
        }
        Edge { to: target, args }
    }

    /// The register file and words of a PTX register.
    fn shape(&self, reg: ast::Reg) -> (File, u8) {
        if reg == graph::CARRY {
            return (File::P, 1);
        }
        let decl = self.body.reg_decl(reg).0;
        match decl.ty == ptx::Type::PRED {
            true => (File::P, 1),
            false => (File::R, (decl.ty.bits() * u32::from(decl.vector.max(1))).div_ceil(32) as u8),
        }
    }
}
