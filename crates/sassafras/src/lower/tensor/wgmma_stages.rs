//! Outstanding wgmma of a PTX body (forward dataflow over its CFG), and the synchronization to insert.
//!
//! PTX leaves undefined what happens to code that accesses outstanding registers or omits `wgmma.fence`. ptxas repairs
//! it and reports it; we do the same, so that such code computes what its author meant:
//!
//! | the PTX | the repair, as in ptxas | message |
//! |---|---|---|
//! | writes an MMA's registers after the last fence | `WARPGROUP.ARRIVE` before the MMA | C7519 |
//! | reads an outstanding accumulator, or the kernel ends | a wait before it | C7517 |
//! | reads it between two MMAs that accumulate to it, within one group | MMAs are serialized | C7514 |
//! | an MMA reads as A what an outstanding one writes | the same | C7513 |
//! | calls an unknown function in the kernel | the same | C7509, or C7520 before the commit |
//! | calls a known function while an MMA is outstanding | the same | C7510 |
//! | has too few registers to keep the operands in place | the same | C7511 |
//!
//! The texts are ptxas's (13.0.88), found by probing: `tests/wgmma.rs` has the probes. ptxas prints them to
//! stderr as `info`, arrivals before waits before the reason for serial code, with or without `-v`.
//!
//! A fragment of A that is written between the fence and the first MMA gets no message: the arrival is just inserted
//! later. ptxas inlines known functions, so it has C7510 for other code than we.

use crate::lower::control::cfg::{End, Graph, effects};
use crate::lower::control::param_words::ParamWords;
use crate::lower::tensor::wgmma_operands::operands;
use ptx::ast::{Body, Inst, Item, Module, Operand, Reg};
use std::collections::BTreeSet;

/// One more than the groups that a wait can distinguish.
const GROUPS: usize = 8;

/// Why MMAs are serialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    UnknownCall,
    CallInFlight,
    Registers,
    InputDefined,
    AccumulatorRead,
    CallInStage,
}

impl Reason {
    pub fn message(self, function: &str) -> String {
        let (code, why) = match self {
            Reason::UnknownCall => (7509, "the presence of Extern calls"),
            Reason::CallInFlight => (7510, "wgmma pipeline crossing function boundary at a function call"),
            Reason::Registers => (7511, "insufficient register resources for the wgmma pipeline"),
            Reason::InputDefined => (
                7513,
                "non wgmma instructions defining input registers of a wgmma between start and end of the pipeline stage",
            ),
            // Two spaces, as ptxas has them.
            Reason::AccumulatorRead => (
                7514,
                "non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage",
            ),
            Reason::CallInStage => (7520, "program dependence on compiler-inserted WG.AR in divergent path"),
        };
        let what = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to";
        format!("(C{code}) {what} {why} in the function '{function}'")
    }
}

/// The registers of a group of MMAs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    accumulators: BTreeSet<Reg>,
    /// Registers of A.
    sources: BTreeSet<Reg>,
}

impl Group {
    fn add(&mut self, other: &Group) {
        self.accumulators.extend(&other.accumulators);
        self.sources.extend(&other.sources);
    }
}

/// The dataflow state: what may be outstanding at a program point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    open: Group,
    /// Committed groups, the youngest first.
    groups: [Group; GROUPS],
    /// Operands of MMAs that other instructions wrote since the last fence.
    written: BTreeSet<Reg>,
    /// No MMA since the last fence.
    fenced: bool,
}

impl State {
    fn join(&mut self, other: &State) {
        self.open.add(&other.open);
        self.groups.iter_mut().zip(&other.groups).for_each(|(a, b)| a.add(b));
        self.written.extend(&other.written);
        self.fenced &= other.fenced;
    }

    fn all(&self) -> impl Iterator<Item = &Group> {
        std::iter::once(&self.open).chain(&self.groups)
    }

    pub fn accumulators(&self) -> BTreeSet<Reg> {
        self.all().flat_map(|g| g.accumulators.iter().copied()).collect()
    }

    pub fn sources(&self) -> BTreeSet<Reg> {
        self.all().flat_map(|g| g.sources.iter().copied()).collect()
    }

    fn has(&self, reg: Reg) -> bool {
        self.all().any(|g| g.accumulators.contains(&reg))
    }

    pub fn is_open(&self) -> bool {
        self.open != Group::default()
    }

    fn is_empty(&self) -> bool {
        self.all().all(|g| *g == Group::default())
    }

    pub fn start_mma(&mut self, accumulator: &[Reg], a: &[Reg]) {
        self.open.accumulators.extend(accumulator);
        self.open.sources.extend(a);
        self.fenced = false;
    }

    pub fn commit(&mut self) {
        let oldest = std::mem::take(&mut self.groups[GROUPS - 1]);
        self.groups.rotate_right(1);
        self.groups[0] = std::mem::take(&mut self.open);
        self.groups[GROUPS - 1].add(&oldest);
    }

    /// At most so many groups remain.
    pub fn wait(&mut self, most: u64) {
        let most = usize::try_from(most).unwrap_or(GROUPS);
        self.groups.iter_mut().skip(most).for_each(|g| *g = Group::default());
    }

    /// Nothing remains outstanding.
    pub fn wait_all(&mut self) {
        self.commit();
        self.wait(0);
    }

    /// A copy of an outstanding accumulator is an alias of it. Returns whether it is one.
    pub fn rename(&mut self, copy: Option<(Reg, Reg)>) -> bool {
        let Some((to, from)) = copy.filter(|(_, from)| self.has(*from)) else { return false };
        self.overwrite(&[to]);
        for group in std::iter::once(&mut self.open).chain(&mut self.groups) {
            if group.accumulators.contains(&from) {
                group.accumulators.insert(to);
            }
        }
        true
    }

    /// Registers are overwritten: they no longer name outstanding values.
    pub fn overwrite(&mut self, regs: &[Reg]) {
        for group in std::iter::once(&mut self.open).chain(&mut self.groups) {
            regs.iter().for_each(|r| {
                group.accumulators.remove(r);
                group.sources.remove(r);
            });
        }
    }
}

/// What to insert before an instruction.
#[derive(Default)]
struct Needs {
    arrival: bool,
    wait: bool,
    serial: Option<Reason>,
}

/// The state at the start of each block, and what to insert.
#[derive(Default)]
pub struct Stages {
    starts: Vec<State>,
    /// By the offset of the instruction in the text.
    arrivals: BTreeSet<u32>,
    waits: BTreeSet<u32>,
    /// The operands of MMAs, and registers that outstanding ones are copied to.
    pub registers: BTreeSet<Reg>,
    pub serial: Option<Reason>,
}

impl Stages {
    pub fn new(module: &Module, body: &Body, params: &ParamWords, graph: &Graph) -> Stages {
        let mnemonic = |inst: &&Inst| module.opcodes[inst.opcode.0 as usize].mnemonic;
        let mut insts = graph.blocks.iter().flat_map(|b| b.insts.iter().copied());
        if !insts.any(|inst| mnemonic(&inst) == "wgmma.mma_async") {
            return Stages::default();
        }
        let mut walk = Walk { module, body, params, operands: BTreeSet::new() };
        walk.operands = walk.mma_operands(graph);
        let mut stages = Stages { starts: walk.starts(graph), ..Stages::default() };
        for &b in &graph.order {
            let mut state = stages.starts[b].clone();
            let block = &graph.blocks[b];
            for (i, inst) in block.insts.iter().enumerate() {
                let needs = walk.step(&mut state, inst, &block.insts[i + 1..]);
                stages.take(needs, inst.span.start);
                let copy = renaming(module, body, inst).filter(|(to, _)| state.has(*to));
                stages.registers.extend(copy.map(|(to, _)| to));
            }
            let ends = matches!(block.end, End::Exit | End::Return) && !state.is_empty();
            stages.take(Needs { wait: ends, ..Needs::default() }, block.span.start);
        }
        stages.registers.append(&mut walk.operands);
        stages
    }

    fn take(&mut self, needs: Needs, at: u32) {
        if needs.arrival {
            self.arrivals.insert(at);
        }
        if needs.wait {
            self.waits.insert(at);
        }
        self.serial = self.serial.or(needs.serial);
    }

    pub fn start(&self, block: usize) -> State {
        self.starts.get(block).cloned().unwrap_or_default()
    }

    pub fn arrives_before(&self, at: u32) -> bool {
        self.arrivals.contains(&at)
    }

    pub fn waits_before(&self, at: u32) -> bool {
        self.waits.contains(&at)
    }

    /// ptxas's messages for a function.
    pub fn messages(&self, function: &str, line: impl Fn(u32) -> u32) -> Vec<String> {
        let injected = |code: u32, what: &str, why: &str, at: &u32| {
            let line = line(*at);
            format!(
                "(C{code}) warpgroup.{what} is injected in around line {line} by compiler to allow use of registers \
                 {why} GMMA in function '{function}'"
            )
        };
        let arrivals = self.arrivals.iter().map(|at| injected(7519, "arrive", "in", at));
        let waits = self.waits.iter().filter(|_| self.serial.is_none());
        let waits = waits.map(|at| injected(7517, "wait", "defined by", at));
        arrivals.chain(waits).chain(self.serial.map(|reason| reason.message(function))).collect()
    }
}

/// The registers of a plain copy: destination and source.
pub fn renaming(module: &Module, body: &Body, inst: &Inst) -> Option<(Reg, Reg)> {
    let [Operand::Reg(to), Operand::Reg(from)] = body.list(inst.operands) else { return None };
    let copy = module.opcodes[inst.opcode.0 as usize].mnemonic == "mov" && inst.guard.is_none();
    copy.then_some((*to, *from))
}

struct Walk<'w, 'a> {
    module: &'w Module<'a>,
    body: &'w Body<'a>,
    params: &'w ParamWords,
    /// All registers that MMAs access.
    operands: BTreeSet<Reg>,
}

impl Walk<'_, '_> {
    fn mnemonic(&self, inst: &Inst) -> &'static str {
        self.module.opcodes[inst.opcode.0 as usize].mnemonic
    }

    fn mma_operands(&self, graph: &Graph) -> BTreeSet<Reg> {
        let insts = graph.blocks.iter().flat_map(|b| b.insts.iter());
        let mmas = insts.filter(|inst| self.mnemonic(inst) == "wgmma.mma_async");
        let registers = mmas.map(|inst| operands(self.body, inst));
        registers.flat_map(|(accumulator, a)| accumulator.into_iter().chain(a)).collect()
    }

    /// The fixed point of the state at the start of each block. The state only grows, so it terminates.
    fn starts(&self, graph: &Graph) -> Vec<State> {
        let mut starts: Vec<Option<State>> = vec![None; graph.blocks.len()];
        starts[0] = Some(State::default());
        let mut changed = true;
        while changed {
            changed = false;
            for &b in &graph.order {
                let Some(mut state) = starts[b].clone() else { continue };
                for inst in &graph.blocks[b].insts {
                    self.step(&mut state, inst, &[]);
                }
                for to in crate::lower::control::cfg::successors(&graph.blocks[b].end) {
                    let before = starts[to].clone();
                    starts[to].get_or_insert_with(|| state.clone()).join(&state);
                    changed |= before != starts[to];
                }
            }
        }
        starts.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// The transfer function: updates the state, and returns what to insert. `rest` is the rest of the block.
    fn step(&self, state: &mut State, inst: &Inst, rest: &[&Inst]) -> Needs {
        let first = self.body.list(inst.operands).first();
        match (self.mnemonic(inst), first) {
            ("wgmma.mma_async", _) => return self.start_mma(state, inst),
            ("wgmma.fence", _) => {
                state.written.clear();
                state.fenced = true;
            }
            ("wgmma.commit_group", _) => state.commit(),
            ("wgmma.wait_group", Some(Operand::Int { value, .. })) if inst.guard.is_none() => {
                // As in ptxas, a wait commits the open group.
                if state.is_open() {
                    state.commit();
                }
                state.wait(*value);
            }
            ("wgmma.wait_group", _) => {}
            ("mov", _) if state.rename(renaming(self.module, self.body, inst)) => {}
            _ => return self.other(state, inst, rest),
        }
        Needs::default()
    }

    fn start_mma(&self, state: &mut State, inst: &Inst) -> Needs {
        let (accumulator, a) = operands(self.body, inst);
        let written = |regs: &[Reg]| regs.iter().any(|r| state.written.contains(r));
        let (over, from) = (written(&accumulator), written(&a));
        let arrival = over || from && !state.fenced;
        let chained = a.iter().any(|r| state.has(*r));
        if over || from {
            state.written.clear();
        }
        state.start_mma(&accumulator, &a);
        Needs { arrival, serial: chained.then_some(Reason::InputDefined), ..Needs::default() }
    }

    fn other(&self, state: &mut State, inst: &Inst, rest: &[&Inst]) -> Needs {
        let opcode = &self.module.opcodes[inst.opcode.0 as usize];
        let (written, read) = effects(self.body, self.params, opcode, inst);
        let mut needs = Needs { serial: self.call(state, inst), ..Needs::default() };
        if let Some(reg) = read.iter().find(|r| state.has(**r)) {
            needs.wait = true;
            if state.open.accumulators.contains(reg)
                && !written.contains(reg)
                && self.is_accumulated_next(*reg, rest)
            {
                needs.serial = needs.serial.or(Some(Reason::AccumulatorRead));
            }
            state.wait_all();
        }
        state.overwrite(&written);
        state.written.extend(written.iter().filter(|r| self.operands.contains(r)));
        needs
    }

    /// Is the next access of an accumulator another MMA of the same group?
    fn is_accumulated_next(&self, reg: Reg, rest: &[&Inst]) -> bool {
        for inst in rest {
            match self.mnemonic(inst) {
                "wgmma.mma_async" if operands(self.body, inst).0.contains(&reg) => return true,
                "wgmma.fence" | "wgmma.commit_group" | "wgmma.wait_group" => return false,
                _ => {}
            }
            let opcode = &self.module.opcodes[inst.opcode.0 as usize];
            if effects(self.body, self.params, opcode, inst).0.contains(&reg) {
                return false;
            }
        }
        false
    }

    fn call(&self, state: &State, inst: &Inst) -> Option<Reason> {
        if self.mnemonic(inst) != "call" {
            return None;
        }
        let defined = |name: &Operand| {
            let Operand::Symbol(symbol) = name else { return false };
            let mut functions = self.module.items.iter();
            functions.any(|i| matches!(i, Item::Function(f) if f.symbol == *symbol && f.body.is_some()))
        };
        let known = self.body.list(inst.operands).iter().any(defined);
        match known {
            false if state.is_open() => Some(Reason::CallInStage),
            false => Some(Reason::UnknownCall),
            true => Some(Reason::CallInFlight).filter(|_| !state.is_empty()),
        }
    }
}
