//! The control flow of a PTX body: blocks of instructions, and the registers that are live into each.

use ptx::ast::{Body, Guard, Inst, Module, Operand, Reg, Stmt, Symbol};
use ptx::table::{Opcode, Role, Table};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

pub struct Graph<'a> {
    pub blocks: Vec<PtxBlock<'a>>,
    /// Reachable blocks in reverse post-order.
    pub order: Vec<usize>,
}

pub struct PtxBlock<'a> {
    /// Without the branch or return that ends it.
    pub insts: Vec<&'a Inst>,
    pub end: End,
    pub preds: Vec<usize>,
    /// In order of their numbers.
    pub live_in: Vec<Reg>,
}

#[derive(Clone, Copy)]
pub enum End {
    Exit,
    Jump(usize),
    Branch { guard: Guard, uniform: bool, yes: usize, no: usize },
}

/// The registers that an instruction writes, and those that it reads. A guarded write reads the old value too.
pub fn effects(body: &Body, opcode: &Opcode, inst: &Inst) -> (Vec<Reg>, Vec<Reg>) {
    let (mut written, mut read) = (Vec::new(), Vec::new());
    for (i, operand) in body.list(inst.operands).iter().enumerate() {
        let mut regs = Vec::new();
        registers(body, operand, &mut regs);
        match is_result(opcode, i) {
            true => written.extend(regs),
            false => read.extend(regs),
        }
    }
    if let Some(guard) = inst.guard {
        read.extend(guard.reg());
        read.extend(&written);
    }
    (written, read)
}

/// Is the operand at this place a result? Results come first in every form.
pub fn is_result(opcode: &Opcode, index: usize) -> bool {
    let form = opcode.fits.first().map(|f| Table::get().form(f.form));
    let role = form.and_then(|f| f.operands.get(index)).map(|s| &s.role);
    matches!(role, Some(Role::Dest | Role::PredDest | Role::Pair(_)))
}

fn registers(body: &Body, operand: &Operand, out: &mut Vec<Reg>) {
    match operand {
        Operand::Reg(r) | Operand::Not(r) | Operand::Negated(r) | Operand::Part { reg: r, .. } => {
            out.push(*r)
        }
        Operand::Address(range) | Operand::Vector(range) | Operand::List(range) | Operand::Pair(range) => {
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
        graph.live_in(module, body);
        graph
    }

    fn live_in(&mut self, module: &Module, body: &Body) {
        let mut live: Vec<BTreeSet<Reg>> = vec![BTreeSet::new(); self.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for &b in self.order.iter().rev() {
                let block = &self.blocks[b];
                let mut now: BTreeSet<Reg> =
                    successors(&block.end).into_iter().flat_map(|s| live[s].iter().copied()).collect();
                if let End::Branch { guard, .. } = block.end {
                    now.extend(guard.reg());
                }
                for inst in block.insts.iter().rev() {
                    let (written, read) = effects(body, &module.opcodes[inst.opcode.0 as usize], inst);
                    written.iter().for_each(|r| {
                        now.remove(r);
                    });
                    now.extend(read);
                }
                if now != live[b] {
                    live[b] = now;
                    changed = true;
                }
            }
        }
        for (block, live) in self.blocks.iter_mut().zip(live) {
            block.live_in = live.into_iter().collect();
        }
    }
}

fn empty<'a>() -> PtxBlock<'a> {
    PtxBlock { insts: Vec::new(), end: End::Exit, preds: Vec::new(), live_in: Vec::new() }
}

fn successors(end: &End) -> Vec<usize> {
    match end {
        End::Exit => Vec::new(),
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
    /// May control fall into the next statement?
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
            // Nothing leads here.
            self.blocks.push(empty());
            self.current = self.blocks.len() - 1;
            self.open = true;
        }
        let opcode = &self.module.opcodes[inst.opcode.0 as usize];
        let current = self.current;
        let target = match opcode.mnemonic {
            "bra" => self.body.list(inst.operands).first(),
            "ret" | "exit" => None,
            _ => return self.blocks[current].insts.push(inst),
        };
        let yes = match target {
            Some(Operand::Symbol(label)) => End::Jump(self.block_of(*label)),
            _ => End::Exit,
        };
        self.open = false;
        let Some(guard) = inst.guard else {
            self.blocks[current].end = yes;
            return;
        };
        let yes = match yes {
            End::Jump(to) => to,
            _ => {
                self.blocks.push(empty());
                self.blocks.len() - 1
            }
        };
        self.blocks.push(empty());
        let no = self.blocks.len() - 1;
        self.blocks[current].end = End::Branch { guard, uniform: opcode.has("uni"), yes, no };
        self.current = no;
        self.open = true;
    }
}
