//! The control-flow graph of a PTX body, and the registers that its instructions read and write.

use crate::lower::control::param_words::ParamWords;
use crate::module::pragmas;
use ori::Cfg;
use ori::entity::Entity;
use ptx::ast::{Body, Guard, Inst, Module, Operand, Reg, Stmt, Symbol};
use ptx::diag::Span;
use ptx::table::{Opcode, Role};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

pub struct Graph<'a> {
    pub blocks: Vec<PtxBlock<'a>>,
    /// Reachable blocks in reverse post-order.
    pub order: Vec<usize>,
}

pub struct PtxBlock<'a> {
    /// Without the branch or return that ends it.
    pub insts: Vec<&'a Inst>,
    pub end: End,
    /// The position of its terminator.
    pub span: Span,
    /// `nounroll` for the loop with this header.
    pub rolled: bool,
    pub preds: Vec<usize>,
}

#[derive(Clone)]
pub enum End {
    Exit,
    Return,
    Jump(usize),
    Branch {
        guard: Guard,
        uniform: bool,
        yes: usize,
        no: usize,
    },
    /// `brx.idx`
    Switch {
        index: Reg,
        uniform: bool,
        targets: Vec<usize>,
    },
}

/// The carry flag of `add.cc`, `addc` and their kin, modelled as a register.
pub const CARRY: Reg = Reg(u32::MAX);

/// Registers of an instruction.
pub type Regs = SmallVec<[Reg; 8]>;

/// The registers that an instruction defines and uses. A guarded write uses the previous value too.
pub fn effects(body: &Body, params: &ParamWords, opcode: &Opcode, inst: &Inst) -> (Regs, Regs) {
    let (mut written, mut read) = (Regs::new(), Regs::new());
    let operands = body.list(inst.operands);
    for (i, operand) in operands.iter().enumerate() {
        let results_of_call = i == 0 && opcode.mnemonic == "call" && matches!(operand, Operand::List(_));
        // A partial store to a parameter uses the previous value.
        let stored = i == 0 && opcode.mnemonic == "st" && params.find(body, operand).is_some();
        let is_written = is_result(opcode, i) || results_of_call || stored;
        let out = if is_written { &mut written } else { &mut read };
        let before = out.len();
        registers(body, operand, out);
        param_words(body, params, operand, out);
        if is_written && (stored || i == 0 && reads_accumulator(opcode, operands)) {
            read.extend_from_slice(&written[before..]);
        }
        // A write to one element uses the previous value.
        if let Operand::Part { reg, .. } = operand
            && is_written
        {
            read.push(*reg);
        }
    }
    // The flag is no operand: `.cc` writes it, and `addc`, `subc`, `madc` read it.
    if matches!(opcode.mnemonic, "addc" | "subc") || opcode.mnemonic.starts_with("madc") {
        read.push(CARRY);
    }
    if opcode.has("cc") {
        written.push(CARRY);
    }
    if let Some(guard) = inst.guard {
        read.extend(guard.reg());
        read.extend_from_slice(&written);
    }
    (written, read)
}

/// The registers with a use; `results` are used by the body's returns. The else value of a guarded write is no use.
pub fn read(module: &Module, body: &Body, params: &ParamWords, results: &[Reg]) -> FxHashSet<Reg> {
    let mut all: FxHashSet<Reg> = results.iter().copied().collect();
    for stmt in &body.stmts {
        let Stmt::Inst(inst) = stmt else { continue };
        let opcode = &module.opcodes[inst.opcode.0 as usize];
        all.extend(inst.guard.and_then(|guard| guard.reg()));
        let (_, operands) = effects(body, params, opcode, &Inst { guard: None, ..*inst });
        all.extend(operands);
    }
    all
}

/// Is the first operand an accumulator that is read? Not where a constant `scale-d` says zero.
fn reads_accumulator(opcode: &Opcode, operands: &[Operand]) -> bool {
    let scale = if opcode.has("sp") { 5 } else { 3 };
    opcode.mnemonic == "wgmma.mma_async"
        && !matches!(operands.get(scale), Some(Operand::Int { value: 0, .. }))
}

/// Is the operand with this index a result? Results come first in every form.
pub fn is_result(opcode: &Opcode, index: usize) -> bool {
    let form = opcode.fits.first().map(|f| f.form);
    let role = form.and_then(|f| f.operands.get(index)).map(|s| &s.role);
    matches!(role, Some(Role::Dest | Role::PredDest | Role::Pair(_)))
}

/// The words of `.param` variables that an operand names.
fn param_words(body: &Body, params: &ParamWords, operand: &Operand, out: &mut Regs) {
    match operand {
        Operand::Symbol(symbol) => out.extend(params.all(*symbol)),
        Operand::Address(range) | Operand::List(range) => {
            body.list(*range).iter().for_each(|o| param_words(body, params, o, out));
        }
        _ => {}
    }
}

fn registers(body: &Body, operand: &Operand, out: &mut Regs) {
    match operand {
        Operand::Reg(r) | Operand::Not(r) | Operand::Negated(r) | Operand::Part { reg: r, .. } => {
            out.push(*r)
        }
        Operand::Address(range) | Operand::Vector(range) | Operand::List(range) | Operand::Pair(range) => {
            body.list(*range).iter().for_each(|o| registers(body, o, out));
        }
        Operand::Element(range) | Operand::Sum(range) => {
            body.list(*range).iter().for_each(|o| registers(body, o, out));
        }
        _ => {}
    }
}

impl<'a> Graph<'a> {
    pub fn new(module: &'a Module, body: &'a Body) -> Graph<'a> {
        let mut b = Builder {
            module,
            body,
            blocks: vec![empty()],
            labels: FxHashMap::default(),
            current: 0,
            open: true,
        };
        b.split();
        let mut graph = Graph { order: order(&b.blocks), blocks: b.blocks };
        for b in graph.order.clone() {
            for s in successors(&graph.blocks[b].end) {
                graph.blocks[s].preds.push(b);
            }
        }
        graph
    }

    /// The same graph with dominators.
    pub fn cfg(&self) -> Cfg {
        let of = |block: &PtxBlock| successors(&block.end).into_iter().map(Entity::new).collect();
        Cfg::of_successors(self.blocks.iter().map(of).collect())
    }

    /// Does control come to a block from several others? The first one is entered from outside, too.
    pub fn is_join(&self, block: usize) -> bool {
        self.blocks[block].preds.len() > usize::from(block != 0)
    }
}

fn empty<'a>() -> PtxBlock<'a> {
    PtxBlock { insts: Vec::new(), end: End::Exit, span: Span::default(), rolled: false, preds: Vec::new() }
}

pub fn successors(end: &End) -> Vec<usize> {
    match end {
        End::Exit | End::Return => Vec::new(),
        End::Switch { targets, .. } => targets.clone(),
        End::Jump(to) => vec![*to],
        End::Branch { yes, no, .. } => vec![*yes, *no],
    }
}

fn order(blocks: &[PtxBlock]) -> Vec<usize> {
    let mut seen = vec![false; blocks.len()];
    let mut out = Vec::new();
    let mut stack = vec![(0, successors(&blocks[0].end))];
    seen[0] = true;
    while let Some((b, rest)) = stack.last_mut() {
        match rest.pop() {
            Some(s) if !std::mem::replace(&mut seen[s], true) => stack.push((s, successors(&blocks[s].end))),
            Some(_) => {}
            None => {
                out.push(*b);
                stack.pop();
            }
        }
    }
    out.reverse();
    out
}

struct Builder<'a> {
    module: &'a Module<'a>,
    body: &'a Body<'a>,
    blocks: Vec<PtxBlock<'a>>,
    labels: FxHashMap<Symbol, usize>,
    current: usize,
    /// Can control fall through to the next statement?
    open: bool,
}

impl<'a> Builder<'a> {
    fn split(&mut self) {
        for stmt in &self.body.stmts {
            match stmt {
                Stmt::Label(symbol, _) => {
                    let block = self.block_of(*symbol);
                    self.start(block);
                }
                Stmt::Inst(inst) => self.inst(inst),
                Stmt::Pragma(strings) if self.open => {
                    self.blocks[self.current].rolled |= pragmas::keeps_rolled(strings);
                }
                _ => {}
            }
        }
    }

    fn block_of(&mut self, label: Symbol) -> usize {
        let blocks = &mut self.blocks;
        *self.labels.entry(label).or_insert_with(|| {
            blocks.push(empty());
            blocks.len() - 1
        })
    }

    fn start(&mut self, block: usize) {
        if self.open {
            self.blocks[self.current].end = End::Jump(block);
        }
        self.current = block;
        self.open = true;
    }

    fn inst(&mut self, inst: &'a Inst) {
        if !self.open {
            // Unreachable.
            self.blocks.push(empty());
            self.current = self.blocks.len() - 1;
            self.open = true;
        }
        let opcode = &self.module.opcodes[inst.opcode.0 as usize];
        let current = self.current;
        let end = match (opcode.mnemonic, self.body.list(inst.operands)) {
            ("bra", [Operand::Symbol(label)]) => End::Jump(self.block_of(*label)),
            ("brx.idx", [Operand::Reg(index), Operand::Symbol(list)]) => {
                let targets = self.targets(*list);
                End::Switch { index: *index, uniform: opcode.has("uni"), targets }
            }
            ("ret", _) => End::Return,
            ("exit", _) => End::Exit,
            _ => return self.blocks[current].insts.push(inst),
        };
        self.open = false;
        self.blocks[current].span = inst.span;
        let Some(guard) = inst.guard else {
            self.blocks[current].end = end;
            return;
        };
        let yes = match end {
            End::Jump(to) => to,
            end => {
                self.blocks.push(PtxBlock { end, span: inst.span, ..empty() });
                self.blocks.len() - 1
            }
        };
        self.blocks.push(empty());
        let no = self.blocks.len() - 1;
        self.blocks[current].end = End::Branch { guard, uniform: opcode.has("uni"), yes, no };
        self.current = no;
        self.open = true;
    }

    /// The blocks that a `.branchtargets` lists.
    fn targets(&mut self, list: Symbol) -> Vec<usize> {
        let body = self.body;
        let found = body.stmts.iter().find_map(|s| match s {
            Stmt::Targets(t) if t.label == list => Some(t.targets),
            _ => None,
        });
        let labels = found.map_or(&[][..], |range| body.list(range));
        labels
            .iter()
            .filter_map(|o| if let Operand::Symbol(s) = o { Some(self.block_of(*s)) } else { None })
            .collect()
    }
}
