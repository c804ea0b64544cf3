//! Which value each register and each word of the stack holds: value numbering over machine code.
//!
//! Where the threads of two sides come together, a register that was written on one side may still hold the same in
//! every thread: a register allocator moves a value out of the way and back, or spills and reloads it, and a constant
//! may be loaded in a loop that threads leave one by one.
//!
//! ```text
//!    @P0 BRA join                        @P0: BSSY B0
//!    MOV R29, R22                        loop: LDC R2, c[0x3][0x38]    the same in every iteration
//!    MOV R22, R31                        …
//!    MOV R22, R29                        @P1 BRA loop
//! join: R22 is what it was               BSYNC B0: R2 is the same in all threads
//! ```
//!
//! A value is named by where it was made: the last execution of an instruction, the last time that a location's value
//! passed the start of a node, or a constant: an immediate, a special register, a word of a constant bank. Copies keep the name. A name stands for one value of a thread at a time:
//! at the start of a node, values that the node is about to make anew get names of that start. [`Values::is_from_before`]
//! then says that a location holds a value that was made before threads diverged, or a constant.
//!
//! A sweep over the graph in reverse postorder assumes that back edges bring what the node has from elsewhere. Where
//! one doesn't, the location gets a name of its own there, and the sweep begins anew. Cost: about one sweep for each
//! level of loops, each linear in the instructions and in nodes × registers; of code that does not settle nothing is
//! known, which is safe.

use super::divergence::Graph;
use super::flow::Flow;
use super::stack::{Access, STACK_POINTER};
use sass::model::Touch;
use sass::{Guard, Inst, Kind, M, Op, Operand, RZ, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Where a value is kept: a register, here as in [`index`], or a word of the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Location {
    Register(usize),
    Word(i64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    /// What the location held when the code was entered.
    Initial(Location),
    /// The result of an instruction, by the number of the register; of its last execution.
    Result(usize, usize),
    /// The same, whenever the instruction is executed.
    Constant(usize, usize),
    /// The immediate of a move, whichever move it is.
    Literal(u32),
    /// A special register that lasts as long as the thread, whichever instruction reads it.
    Special(M),
    /// A word of a constant bank, whichever instruction loads it.
    Bank(u32, i64),
    /// What the location held when the node began, or ended, the last time.
    AtStart(usize, Location),
    AtEnd(usize, Location),
}

/// The values of all locations at some point. A word that is missing may hold anything.
#[derive(Clone, PartialEq, Eq)]
struct State {
    registers: Vec<Value>,
    words: BTreeMap<i64, Value>,
}

/// The locations that a back edge brings something else for.
#[derive(Clone)]
struct Changing {
    registers: [bool; REGISTERS],
    words: BTreeSet<i64>,
}

impl Default for Changing {
    fn default() -> Changing {
        Changing { registers: [false; REGISTERS], words: BTreeSet::new() }
    }
}

pub struct Values {
    /// By node, at its start and at its end; nothing if nothing is known.
    starts: Vec<Option<Rc<State>>>,
    ends: Vec<Option<Rc<State>>>,
    /// By instruction: its block.
    blocks: Vec<usize>,
}

/// More sweeps than code of nested loops needs.
const SWEEPS: usize = 64;

/// Registers that each thread has for itself: R and P.
const REGISTERS: usize = 256 + 8;

/// The index of such a register in a [`State`].
fn index(register: usize) -> Option<usize> {
    match register {
        0..256 => Some(register),
        512..520 => Some(register - 256),
        _ => None,
    }
}

impl Values {
    pub fn new(insts: &[Inst], touches: &[Vec<Touch>], flow: &Flow, graph: &Graph) -> Values {
        let mut blocks = vec![0; insts.len()];
        for block in 0..flow.blocks() {
            flow.block(block).for_each(|index| blocks[index] = block);
        }
        let escapes = insts.iter().zip(touches).any(|(inst, touches)| names_stack(inst, touches));
        let numbering = Numbering { insts, touches, flow, graph, blocks: &blocks, escapes };
        let unknown = || [vec![None; graph.nodes.len()], vec![None; graph.nodes.len()]];
        let [starts, ends] = numbering.settle().unwrap_or_else(unknown);
        Values { starts, ends, blocks }
    }

    /// Was the value that a location holds at the start of a node made outside of a region, or is it a constant? Every
    /// thread that has run in the region holds what it held before then.
    pub fn is_from_before(&self, node: usize, location: Location, region: &Region) -> bool {
        self.holds_from_before(&self.starts[node], location, region)
    }

    /// The same at the end of a node.
    pub fn leaves_from_before(&self, node: usize, location: Location, region: &Region) -> bool {
        self.holds_from_before(&self.ends[node], location, region)
    }

    fn holds_from_before(&self, state: &Option<Rc<State>>, location: Location, region: &Region) -> bool {
        let Some(state) = state else { return false };
        let value = match location {
            Location::Register(register) => index(register).and_then(|index| state.registers.get(index)),
            Location::Word(word) => state.words.get(&word),
        };
        match value {
            None => false,
            Some(Value::Initial(_)) => true,
            Some(value) if value.is_constant() => true,
            Some(Value::Result(index, _)) => !region.blocks.contains(&self.blocks[*index]),
            Some(Value::AtStart(node, _) | Value::AtEnd(node, _)) => !region.nodes.contains(node),
            Some(_) => false,
        }
    }
}

impl Value {
    /// Is it the same for a thread whenever it is made?
    fn is_constant(&self) -> bool {
        matches!(self, Value::Constant(..) | Value::Literal(_) | Value::Special(_) | Value::Bank(..))
    }
}

/// Nodes that threads of several sides may have run since they diverged, and their blocks.
pub struct Region {
    nodes: BTreeSet<usize>,
    blocks: BTreeSet<usize>,
}

impl Region {
    pub fn new(nodes: impl Iterator<Item = usize>, graph: &Graph) -> Region {
        let nodes: BTreeSet<usize> = nodes.collect();
        let blocks = nodes.iter().map(|node| graph.block(*node)).collect();
        Region { nodes, blocks }
    }
}

struct Numbering<'a> {
    insts: &'a [Inst],
    touches: &'a [Vec<Touch>],
    flow: &'a Flow,
    graph: &'a Graph,
    blocks: &'a [usize],
    /// An address of the stack may be in a register, so that any generic store may go there.
    escapes: bool,
}

impl Numbering<'_> {
    /// The states at the starts and at the ends of all nodes, unless they don't settle.
    fn settle(&self) -> Option<[Vec<Option<Rc<State>>>; 2]> {
        let nodes = self.graph.nodes.len();
        let mut from = vec![Vec::new(); nodes];
        for (node, to) in self.graph.to.iter().enumerate() {
            to.iter().for_each(|next| from[*next].push(node));
        }
        let order = self.order();
        let mut changing = vec![Changing::default(); nodes];
        for _ in 0..SWEEPS {
            let (mut starts, mut ends) = (vec![None; nodes], vec![None; nodes]);
            let entry = Rc::new(State::initial());
            let before = |node: usize, ends: &[Option<Rc<State>>]| -> Vec<Rc<State>> {
                let outside = self.graph.entries.contains(&node).then_some(&entry);
                from[node]
                    .iter()
                    .filter_map(|before| ends[*before].as_ref())
                    .chain(outside)
                    .cloned()
                    .collect()
            };
            for &node in &order {
                let start = self.start(node, &before(node, &ends), &changing[node]);
                ends[node] = start.as_ref().map(|start| self.end(node, start));
                starts[node] = start;
            }
            let mut is_settled = true;
            for &node in &order {
                let Some(start) = &starts[node] else { continue };
                for before in before(node, &ends) {
                    is_settled &= !self.add_changing(node, start, &before, &mut changing[node]);
                }
            }
            if is_settled {
                return Some([starts, ends]);
            }
        }
        None
    }

    /// The locations that hold something else at the start of a node than what comes there from a node before. Says
    /// whether one was new.
    fn add_changing(&self, node: usize, start: &State, before: &State, changing: &mut Changing) -> bool {
        let mut is_new = false;
        let all = start.registers.iter().zip(&before.registers).enumerate();
        for (register, (here, there)) in all {
            let location = Location::Register(register);
            let own = Value::AtStart(node, location);
            if *here != own && (here != there || self.is_remade(node, *there, location)) {
                is_new |= !std::mem::replace(&mut changing.registers[register], true);
            }
        }
        for (word, here) in &start.words {
            let location = Location::Word(*word);
            let own = Value::AtStart(node, location);
            let there = before.words.get(word);
            let is_same = there.is_some_and(|there| {
                *here == own || here == there && !self.is_remade(node, *there, location)
            });
            is_new |= !is_same && changing.words.insert(*word);
        }
        is_new
    }

    /// Is a name about to stand for another value, when a node begins?
    fn is_remade(&self, node: usize, value: Value, here: Location) -> bool {
        match value {
            Value::Result(index, _) => self.blocks[index] == self.graph.block(node),
            Value::AtStart(at, location) => at == node && location != here,
            Value::AtEnd(at, _) => at == node,
            Value::Initial(_) => false,
            Value::Constant(..) | Value::Literal(_) | Value::Special(_) | Value::Bank(..) => false,
        }
    }

    /// Reverse postorder, so that most nodes come after those that lead to them.
    fn order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut seen = vec![false; self.graph.nodes.len()];
        for &entry in &self.graph.entries {
            let mut open = vec![(entry, 0)];
            if std::mem::replace(&mut seen[entry], true) {
                continue;
            }
            while let Some((node, next)) = open.last_mut() {
                match self.graph.to[*node].get(*next) {
                    Some(&to) => {
                        *next += 1;
                        if !std::mem::replace(&mut seen[to], true) {
                            open.push((to, 0));
                        }
                    }
                    None => {
                        order.push(*node);
                        open.pop();
                    }
                }
            }
        }
        order.reverse();
        order
    }

    /// The state at the start of a node, from those that lead there.
    fn start(&self, node: usize, before: &[Rc<State>], changing: &Changing) -> Option<Rc<State>> {
        let (first, others) = before.split_first()?;
        let mut state = (**first).clone();
        others.iter().for_each(|other| state.merge(other, node));
        for (register, value) in state.registers.iter_mut().enumerate() {
            let here = Location::Register(register);
            if changing.registers[register] || self.is_remade(node, *value, here) {
                *value = Value::AtStart(node, here);
            }
        }
        state.words.retain(|word, _| !changing.words.contains(word));
        for (word, value) in &mut state.words {
            let here = Location::Word(*word);
            if self.is_remade(node, *value, here) {
                *value = Value::AtStart(node, here);
            }
        }
        Some(Rc::new(state))
    }

    fn end(&self, node: usize, start: &State) -> Rc<State> {
        let block = self.graph.block(node);
        let mut state = start.clone();
        self.flow.block(block).for_each(|index| self.step(index, &mut state));
        if !self.flow.keeps(block) {
            state.words.clear();
            for (register, value) in state.registers.iter_mut().enumerate() {
                *value = Value::AtEnd(node, Location::Register(register));
            }
        }
        Rc::new(state)
    }

    fn step(&self, index: usize, state: &mut State) {
        let (inst, touches) = (&self.insts[index], &self.touches[index]);
        let access = Access::of(inst).filter(|_| matches!(inst.op(), Op::LDL | Op::STL));
        let is_part = [M::U8, M::S8, M::U16, M::S16].into_iter().any(|m| inst.has(m));
        let is_whole = inst.guard == Guard::ALWAYS && !is_part;
        let written = touches.iter().filter(|t| t.role == Role::Def && matches!(t.file, Kind::R | Kind::P));
        let written: Vec<usize> = written.flat_map(Touch::registers).filter_map(self::index).collect();
        // What each register that is written gets, before any of them is.
        let mut values: Vec<Value> = written.iter().map(|register| Value::Result(index, *register)).collect();
        match (&access, inst.op()) {
            (Some(access), Op::STL) => {
                for (word, register) in access.words.clone().zip(access.register as usize..) {
                    let value = state.registers.get(register).filter(|_| register != usize::from(RZ));
                    match value.filter(|_| is_whole) {
                        Some(value) => _ = state.words.insert(word, *value),
                        None => _ = state.words.remove(&word),
                    }
                }
            }
            // A store to the thread's own memory, or to a generic address that may be there.
            (None, Op::STL) => state.words.clear(),
            (_, Op::ST | Op::ATOM | Op::RED) if self.escapes => state.words.clear(),
            (Some(access), Op::LDL) if is_whole => {
                for (word, (register, value)) in access.words.clone().zip(written.iter().zip(&mut values)) {
                    *value = *state.words.entry(word).or_insert(Value::Result(index, *register));
                }
            }
            _ if inst.guard == Guard::ALWAYS => {
                if let Some(source) = copied(inst) {
                    let sources = state.registers.iter().skip(source);
                    values.iter_mut().zip(sources).for_each(|(value, source)| *value = *source);
                } else if let ([value], Some(literal)) = (&mut values[..], literal(inst)) {
                    *value = Value::Literal(literal);
                } else if let ([value], Some(name)) = (&mut values[..], special(inst)) {
                    *value = Value::Special(name);
                } else if let (Some((bank, offset)), false) = (loaded_word(inst, touches), is_part) {
                    values =
                        (0..written.len()).map(|word| Value::Bank(bank, offset + 4 * word as i64)).collect();
                } else if is_constant(inst, touches, state) {
                    let constants = written.iter().map(|register| Value::Constant(index, *register));
                    values = constants.collect();
                }
            }
            _ => {}
        }
        if written.contains(&(STACK_POINTER as usize)) {
            state.words.clear();
        }
        written.into_iter().zip(values).for_each(|(register, value)| state.registers[register] = value);
    }
}

impl State {
    fn initial() -> State {
        let registers = (0..REGISTERS).map(|register| Value::Initial(Location::Register(register)));
        State { registers: registers.collect(), words: BTreeMap::new() }
    }

    /// What holds whichever of two ways a thread came to a node.
    fn merge(&mut self, other: &State, node: usize) {
        let join = |mine: Value, theirs: Value, here: Location| match mine == theirs {
            true => mine,
            false => Value::AtStart(node, here),
        };
        for (register, (mine, theirs)) in self.registers.iter_mut().zip(&other.registers).enumerate() {
            *mine = join(*mine, *theirs, Location::Register(register));
        }
        self.words.retain(|word, _| other.words.contains_key(word));
        for (word, mine) in &mut self.words {
            *mine = join(*mine, other.words[word], Location::Word(*word));
        }
    }
}

/// Does an instruction do something else with the stack pointer than to access the stack, or to move the pointer?
fn names_stack(inst: &Inst, touches: &[Touch]) -> bool {
    let pointer = STACK_POINTER as usize;
    let has = |role: Role| {
        let mut registers = touches.iter().filter(|touch| touch.role == role && touch.file == Kind::R);
        registers.any(|touch| touch.registers().contains(&pointer))
    };
    let is_access = matches!(inst.op(), Op::LDL | Op::STL)
        && Access::of(inst).is_some_and(|a| a.register != STACK_POINTER);
    // Where the stack begins: who else loads that has an address of it, too.
    let is_bank = |kind| matches!(kind, Kind::Const | Kind::ConstB | Kind::ConstR | Kind::ConstU);
    let loads_start =
        inst.operands().any(|(_, o)| is_bank(o.kind) && o.bank == 0 && STACK_STARTS.contains(&o.value));
    (has(Role::Use) && !is_access || loads_start) && !has(Role::Def)
}

/// Where bank 0 has the address at which a thread's stack begins, up to sm_90 and from sm_100 on.
const STACK_STARTS: [i64; 2] = [0x28, 0x37c];

/// The first register that an instruction copies, if it does nothing else.
pub fn copied(inst: &Inst) -> Option<usize> {
    let source = moved(inst)?;
    (source.kind == Kind::R && source.value != i64::from(RZ)).then_some(source.value as usize)
}

/// The immediate that an instruction moves to a register.
fn literal(inst: &Inst) -> Option<u32> {
    let source = moved(inst)?;
    matches!(source.kind, Kind::Signed | Kind::Unsigned).then_some(source.value as u32)
}

/// The special register that an instruction reads, if it never changes for a thread.
fn special(inst: &Inst) -> Option<M> {
    use M::{SR_CTAID_X, SR_CTAID_Y, SR_CTAID_Z, SR_CgaCtaId, SR_LANEID, SR_TID_X, SR_TID_Y, SR_TID_Z};
    let place = inst.operands().position(|(slot, _)| slot.kind == Kind::Name)?;
    let lasting = [SR_TID_X, SR_TID_Y, SR_TID_Z, SR_CTAID_X, SR_CTAID_Y, SR_CTAID_Z, SR_CgaCtaId, SR_LANEID];
    (inst.op() == Op::S2R).then(|| inst.name(place)).filter(|name| lasting.contains(name))
}

/// The bank and the offset of the first word that an instruction loads from a constant address.
fn loaded_word(inst: &Inst, touches: &[Touch]) -> Option<(u32, i64)> {
    let reads = touches.iter().any(|touch| touch.role == Role::Use && touch.registers().next().is_some());
    let is_bank = |kind| matches!(kind, Kind::Const | Kind::ConstB | Kind::ConstR | Kind::ConstU);
    let (_, source) = inst.operands().find(|(_, operand)| is_bank(operand.kind))?;
    (inst.op() == Op::LDC && !reads).then_some((source.bank.into(), source.value))
}

/// The source of a move.
fn moved(inst: &Inst) -> Option<&Operand> {
    let is_source = |(slot, _): &(&sass::Slot, &Operand)| slot.role == Role::Use;
    let sources: Vec<&Operand> = inst.operands().filter(is_source).map(|(_, operand)| operand).collect();
    let is_zero = |operand: &Operand| operand.kind == Kind::R && operand.value == i64::from(RZ);
    let source = match (inst.op(), &sources[..]) {
        // All bytes of it; MOV has a mask of them.
        (Op::MOV, [source]) => source,
        (Op::MOV, [source, mask]) if mask.value == 0xf => source,
        // `IMAD.MOV`, which another unit runs.
        (Op::IMAD, [a, b, source]) if is_zero(a) || is_zero(b) => source,
        _ => return None,
    };
    let is_more = [M::WIDE, M::HI, M::X].into_iter().any(|m| inst.has(m));
    // A sign before the source; that of a number is a part of it.
    let has_sign = source.kind == Kind::R && inst.to_string().contains(['-', '|', '~']);
    (!is_more && !has_sign).then_some(source)
}

/// Does an instruction compute the same whenever it is executed? Constant banks don't change while a kernel runs.
fn is_constant(inst: &Inst, touches: &[Touch], state: &State) -> bool {
    use Op::{IADD3, IMAD, IMNMX, ISETP, LDC, LEA, LOP3, MOV, PRMT, SEL, SHF, VIADD, VIMNMX};
    let is_pure = matches!(
        inst.op(),
        LDC | MOV | IADD3 | IMAD | LOP3 | SHF | LEA | PRMT | SEL | ISETP | VIADD | VIMNMX | IMNMX
    );
    let mut sources = touches.iter().filter(|touch| touch.role == Role::Use).flat_map(Touch::registers);
    let is_known = |register| index(register).is_some_and(|i| state.registers[i].is_constant());
    is_pure && sources.all(is_known)
}
