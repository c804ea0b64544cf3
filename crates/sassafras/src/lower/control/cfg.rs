//! The control-flow graph of a PTX body, and live-in registers of its blocks (iterative backward dataflow).

use crate::lower::control::param_words::ParamWords;
use crate::module::pragmas;
use ptx::ast::{Body, Guard, Inst, Module, Operand, Reg, Stmt, Symbol};
use ptx::diag::Span;
use ptx::table::{Opcode, Role};
use rustc_hash::FxHashMap;
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
    /// In order of their numbers.
    pub live_in: Vec<Reg>,
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
pub fn read(module: &Module, body: &Body, params: &ParamWords, results: &[Reg]) -> RegSet {
    let mut all = RegSet::default();
    results.iter().for_each(|r| all.insert(*r));
    for stmt in &body.stmts {
        let Stmt::Inst(inst) = stmt else { continue };
        let opcode = &module.opcodes[inst.opcode.0 as usize];
        inst.guard.and_then(|guard| guard.reg()).into_iter().for_each(|r| all.insert(r));
        let (_, operands) = effects(body, params, opcode, &Inst { guard: None, ..*inst });
        operands.into_iter().for_each(|r| all.insert(r));
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
    /// `results` are the registers that the body's returns read.
    pub fn new(module: &'a Module, body: &'a Body, params: &ParamWords, results: &[Reg]) -> Graph<'a> {
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
        graph.live_in(module, body, params, results);
        graph
    }

    fn live_in(&mut self, module: &Module, body: &Body, params: &ParamWords, results: &[Reg]) {
        let outstanding = crate::lower::tensor::wgmma_operands::sources(module, body);
        let uses = |block: &PtxBlock| Uses::new(block, (module, body), params, results, &outstanding);
        let uses: Vec<Uses> = self.blocks.iter().map(uses).collect();
        let mut live = vec![RegSet::default(); self.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for &b in self.order.iter().rev() {
                let mut now = RegSet::default();
                for s in successors(&self.blocks[b].end) {
                    now.add(&live[s]);
                }
                now.remove(&uses[b].written);
                now.add(&uses[b].read);
                changed |= live[b].add(&now);
            }
        }
        for (block, live) in self.blocks.iter_mut().zip(&live) {
            block.live_in = live.iter().collect();
        }
    }
}

/// The local dataflow sets of a block.
struct Uses {
    /// Upward-exposed uses.
    read: RegSet,
    written: RegSet,
}

impl Uses {
    /// `results` are used by a return, `outstanding` by a wait for wgmma.
    fn new(
        block: &PtxBlock,
        (module, body): (&Module, &Body),
        params: &ParamWords,
        results: &[Reg],
        outstanding: &[Reg],
    ) -> Uses {
        let (mut read, mut written) = (RegSet::default(), RegSet::default());
        match &block.end {
            End::Branch { guard, .. } => guard.reg().into_iter().for_each(|r| read.insert(r)),
            End::Switch { index, .. } => read.insert(*index),
            End::Return => results.iter().for_each(|r| read.insert(*r)),
            End::Exit | End::Jump(_) => {}
        }
        for inst in block.insts.iter().rev() {
            let opcode = &module.opcodes[inst.opcode.0 as usize];
            let (results, operands) = effects(body, params, opcode, inst);
            for result in results {
                read.take(result);
                written.insert(result);
            }
            operands.into_iter().for_each(|r| read.insert(r));
            if opcode.mnemonic == "wgmma.wait_group" {
                outstanding.iter().for_each(|r| read.insert(*r));
            }
        }
        Uses { read, written }
    }
}

/// A set of registers, one bit each: the first is [`CARRY`].
#[derive(Clone, Default)]
pub struct RegSet {
    words: Vec<u64>,
}

impl RegSet {
    /// The index of a register's word, and its bit there.
    fn word_and_bit(reg: Reg) -> (usize, u64) {
        let index = reg.0.wrapping_sub(CARRY.0);
        (index as usize / 64, 1 << (index % 64))
    }

    fn insert(&mut self, reg: Reg) {
        let (word, bit) = RegSet::word_and_bit(reg);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    pub fn contains(&self, reg: Reg) -> bool {
        let (word, bit) = RegSet::word_and_bit(reg);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    fn take(&mut self, reg: Reg) {
        let (word, bit) = RegSet::word_and_bit(reg);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Union with `other`; did that change anything?
    fn add(&mut self, other: &RegSet) -> bool {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        let mut new = 0;
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            new |= more & !*word;
            *word |= more;
        }
        new != 0
    }

    fn remove(&mut self, other: &RegSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, less)| *word &= !less);
    }

    /// In order of their numbers: [`CARRY`] has the highest.
    fn iter(&self) -> impl Iterator<Item = Reg> + '_ {
        let carries = self.words.first().is_some_and(|word| word & 1 != 0);
        let all = self.words.iter().enumerate().flat_map(|(i, word)| {
            let mut rest = if i == 0 { *word & !1 } else { *word };
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(Reg((i as u32 * 64 + bit).wrapping_add(CARRY.0)))
            })
        });
        all.chain(carries.then_some(CARRY))
    }
}

fn empty<'a>() -> PtxBlock<'a> {
    PtxBlock {
        insts: Vec::new(),
        end: End::Exit,
        span: Span::default(),
        rolled: false,
        preds: Vec::new(),
        live_in: Vec::new(),
    }
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
                End::Switch { index: *index, targets }
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
