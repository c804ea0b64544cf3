//! The symbolic checker: replays allocated code and looks whether each instruction finds its values in its registers.
//!
//! A word of a value is known by its root: copies, packs and unpacks only pass words on. The checker believes the
//! allocator nothing but where it says the values are when a block begins, and checks that against the end of every
//! predecessor. What the slots of the frame hold is followed through the whole function: where ways meet, a slot holds
//! what it holds on all of them.

use super::{Limits, reg_limits, undefined};
use crate::mach::abi::Convention;
use crate::mach::inst::{MachFunction, MachInst, Origin};
use ori::entity::Entity;
use ori::{Arg, Block, File, Function, Guard, Inst, InstData, Op, Pseudo, Use, Value};
use rustc_hash::FxHashMap;
use sass::{Kind, Operand};

/// A word of a value that is not a copy of another.
pub type Root = (Value, u8);

/// What the allocator says.
#[derive(Debug, Default)]
pub struct Claims {
    /// Where the values are when a block begins.
    pub starts: Vec<Vec<(Value, u8)>>,
    /// The place of each value in the frame.
    pub slots: Vec<Option<u32>>,
    /// Parameters that are in memory when their block begins.
    pub in_memory: Vec<Value>,
}

pub fn check(
    function: &Function,
    code: &MachFunction,
    limits: &Limits,
    isa: sass::Isa,
) -> Result<(), String> {
    reg_limits::check(function, code, limits, isa)?;
    return_address(function, code)?;
    let checker = Checker::new(function, code, isa);
    for &block in &code.order {
        checker.block(block).map_err(|e| format!("{block}: {e}"))?;
    }
    Ok(())
}

/// Who is called and calls no one doesn't save the return address: it must stay. Who calls saves it, and what those may
/// overwrite who are called.
fn return_address(function: &Function, code: &MachFunction) -> Result<(), String> {
    let Some(own) = Convention::own(function) else { return Ok(()) };
    let is_used = |register: u8| code.used.get(usize::from(register)) == Some(&true);
    let insts = code.order.iter().flat_map(|b| &function.blocks[*b].insts);
    let mut calls = insts.filter(|i| function.insts[**i].op == Op::Pseudo(Pseudo::Call)).peekable();
    if calls.peek().is_none() && (0..2).any(|half| is_used(own.return_address() + half)) {
        return Err("the return address is overwritten".into());
    }
    let conventions = calls.filter_map(|i| function.fixed.get(i)).map(Convention::of);
    let keeps_barriers = |callee: Convention| callee.endangered_barriers(own).all(|b| b < code.barriers);
    match { conventions }.any(|callee| !callee.endangers(own).all(is_used) || !keeps_barriers(callee)) {
        true => Err("a call overwrites what is the caller's".into()),
        false => Ok(()),
    }
}

/// Follows the words of values through the registers.
pub struct Checker<'a> {
    function: &'a Function,
    code: &'a MachFunction,
    isa: sass::Isa,
    /// The root of each word of each value; `None` where it has any bits.
    roots: Vec<Vec<Option<Root>>>,
    /// What the slots of the frame hold when each block begins.
    slots: Vec<Slots>,
}

/// What registers hold.
pub type Registers = FxHashMap<(File, u8), Root>;
type Slots = FxHashMap<u32, Root>;

/// What each register and each slot holds.
#[derive(Default)]
struct State {
    registers: Registers,
    slots: Slots,
}

impl<'a> Checker<'a> {
    pub fn new(function: &'a Function, code: &'a MachFunction, isa: sass::Isa) -> Checker<'a> {
        let slots = vec![Slots::default(); code.blocks.len()];
        let mut checker = Checker { function, code, isa, roots: roots(function), slots };
        if code.frame > 0 {
            checker.follow_slots();
        }
        checker
    }
}

impl Checker<'_> {
    /// What stands for a word of a value wherever it goes; `None` where it has any bits.
    pub fn root(&self, value: Value, word: u8) -> Option<Root> {
        self.roots[value.index()][usize::from(word)]
    }

    /// Finds out what the slots hold when each block begins, from all that may be so until nothing speaks against it.
    fn follow_slots(&mut self) {
        let mut known: Vec<Option<Slots>> = vec![None; self.slots.len()];
        known[Function::ENTRY.index()] = Some(Slots::default());
        let mut changed = true;
        while changed {
            changed = false;
            for &block in &self.code.order {
                let Some(slots) = known[block.index()].clone() else { continue };
                self.slots[block.index()] = slots;
                // What is wrong here is found when the block is checked.
                let (state, _) = self.through(block, |_, _| ());
                for edge in self.function.blocks[block].end.edges() {
                    let mut there = state.slots.clone();
                    self.rename(&mut there, edge);
                    match &mut known[edge.to.index()] {
                        Some(old) => {
                            let before = old.len();
                            old.retain(|slot, root| there.get(slot) == Some(root));
                            changed |= old.len() != before;
                        }
                        new => {
                            *new = Some(there);
                            changed = true;
                        }
                    }
                }
            }
        }
    }

    /// What an edge hands over in memory has another name behind it.
    fn rename(&self, slots: &mut Slots, edge: &ori::Edge) {
        for param in &self.function.blocks[edge.to].params {
            let slot = self.code.claims.slots[param.index()];
            let Some(slot) = slot.filter(|_| self.code.claims.in_memory.contains(param)) else { continue };
            for word in 0..self.function.values[*param].words {
                if let Some(root) = self.root(*param, word) {
                    slots.insert(slot + 4 * u32::from(word), root);
                }
            }
        }
    }

    fn block(&self, block: Block) -> Result<(), String> {
        let state = self.follow(block, |_, _| ())?;
        for inst in self.pseudos(block, Pseudo::Leave) {
            self.handed_over(&state, inst)?;
        }
        if let ori::Terminator::Branch { predicate, .. } = self.function.blocks[block].end {
            self.holds(&state, File::P, self.code.branches[block.index()], predicate, 0)?;
        }
        for edge in self.function.blocks[block].end.edges() {
            self.edge(&state, edge).map_err(|e| format!("to {}: {e}", edge.to))?;
        }
        Ok(())
    }

    fn pseudos(&self, block: Block, pseudo: Pseudo) -> impl Iterator<Item = Inst> {
        let insts = self.function.blocks[block].insts.iter().copied();
        insts.filter(move |i| self.function.insts[*i].op == Op::Pseudo(pseudo))
    }

    /// Shows what the registers hold before each line of a block, and behind the last.
    pub fn contents(
        &self,
        block: Block,
        mut show: impl FnMut(Option<&MachInst>, &Registers),
    ) -> Result<(), String> {
        let end = self.follow(block, |line, registers| show(Some(line), registers))?;
        show(None, &end.registers);
        Ok(())
    }

    /// What holds at the end of a block.
    fn follow(&self, block: Block, before: impl FnMut(&MachInst, &Registers)) -> Result<State, String> {
        let (state, wrong) = self.through(block, before);
        wrong.map_or(Ok(state), Err)
    }

    /// The same, with the first thing that is wrong.
    fn through(
        &self,
        block: Block,
        mut before: impl FnMut(&MachInst, &Registers),
    ) -> (State, Option<String>) {
        let mut state = State { slots: self.slots[block.index()].clone(), ..State::default() };
        let mut wrong = None;
        for &(value, place) in &self.code.claims.starts[block.index()] {
            self.place(&mut state, value, place);
        }
        for inst in self.pseudos(block, Pseudo::Entry) {
            self.come_back(&mut state, inst);
        }
        for (i, line) in self.code.blocks[block.index()].iter().enumerate() {
            before(line, &state.registers);
            if let Err(e) = self.line(&mut state, line) {
                wrong.get_or_insert_with(|| format!("line {i} ({}): {e}", line.op.name()));
            }
        }
        (state, wrong)
    }

    fn place(&self, state: &mut State, value: Value, place: u8) {
        let data = self.function.values[value];
        for word in 0..data.words {
            match self.root(value, word) {
                Some(root) => state.registers.insert((data.file, place + word), root),
                None => state.registers.remove(&(data.file, place + word)),
            };
        }
    }

    /// Does the register hold this word?
    fn holds(&self, state: &State, file: File, place: u8, value: Value, word: u8) -> Result<(), String> {
        let Some(root) = self.root(value, word) else { return Ok(()) };
        match state.registers.get(&(file, place)) {
            Some(found) if *found == root => Ok(()),
            Some((other, w)) => {
                Err(format!("{file:?}{place} holds {other}[{w}] in place of {value}[{word}]"))
            }
            None => Err(format!("{file:?}{place} does not hold {value}[{word}]")),
        }
    }

    fn edge(&self, state: &State, edge: &ori::Edge) -> Result<(), String> {
        let params = &self.function.blocks[edge.to].params;
        for &(value, place) in &self.code.claims.starts[edge.to.index()] {
            let source = params.iter().position(|p| *p == value).map_or(value, |i| edge.args[i]);
            let data = self.function.values[value];
            (0..data.words).try_for_each(|w| self.holds(state, data.file, place + w, source, w))?;
        }
        for (param, arg) in params.iter().zip(&edge.args) {
            if !self.code.claims.in_memory.contains(param) {
                continue;
            }
            let slot = self.code.claims.slots[param.index()].ok_or("a parameter in memory has no slot")?;
            for word in 0..self.function.values[*param].words {
                let Some(root) = self.root(*arg, word) else { continue };
                if state.slots.get(&(slot + 4 * u32::from(word))) != Some(&root) {
                    return Err(format!("the slot of {param} does not hold {arg}[{word}]"));
                }
            }
        }
        Ok(())
    }

    fn line(&self, state: &mut State, line: &MachInst) -> Result<(), String> {
        match line.origin {
            Origin::Inst(inst) => self.inst(state, line, inst),
            Origin::Word(inst, word) => self.guarded_word(state, line, inst, word),
            Origin::Move => {
                let (to, from) =
                    (register(&line.operands[0])?, register(line.operands.last().ok_or("no source")?)?);
                match state.registers.get(&from).copied() {
                    Some(root) => state.registers.insert(to, root),
                    None => state.registers.remove(&to),
                };
                Ok(())
            }
            Origin::Spill(slot) => {
                let (file, first) = register(&line.operands[2])?;
                for word in 0..width(line) {
                    let at = slot + 4 * u32::from(word);
                    match state.registers.get(&(file, first + word)).copied() {
                        Some(root) => state.slots.insert(at, root),
                        None => state.slots.remove(&at),
                    };
                }
                Ok(())
            }
            Origin::Reload(slot) => {
                let (file, first) = register(&line.operands[0])?;
                for word in 0..width(line) {
                    let at = slot + 4 * u32::from(word);
                    match state.slots.get(&at).copied() {
                        Some(root) => state.registers.insert((file, first + word), root),
                        // What lies there from before is known by the value that it is loaded for.
                        None => state.registers.remove(&(file, first + word)),
                    };
                }
                Ok(())
            }
            Origin::Bring(value, from) => {
                let (file, first) = register(&line.operands[0])?;
                let slot =
                    self.code.claims.slots[value.index()].ok_or("a load of a value that has no slot")?;
                let mut found = true;
                for word in 0..width(line) {
                    let Some(root) = self.root(value, from + word) else { continue };
                    found &= state.slots.get(&(slot + 4 * u32::from(from + word))) == Some(&root);
                    state.registers.insert((file, first + word), root);
                }
                if found { Ok(()) } else { Err(format!("the slot of {value} does not hold it")) }
            }
            Origin::Again(value) => {
                let (_, first) = register(&line.operands[0])?;
                self.place(state, value, first);
                Ok(())
            }
            Origin::Frame => Ok(()),
        }
    }

    /// The results of a call, or what a function gets, are in their registers.
    fn come_back(&self, state: &mut State, inst: Inst) {
        let Some(fixed) = self.function.fixed.get(&inst) else { return };
        for (result, place) in self.function.insts[inst].results.iter().zip(&fixed.results) {
            self.place(state, *result, *place);
        }
    }

    /// What a call gets, or a function hands back, is in its registers.
    fn handed_over(&self, state: &State, inst: Inst) -> Result<(), String> {
        let fixed = self.function.fixed.get(&inst).ok_or("no registers for a call")?;
        for (arg, place) in self.function.insts[inst].args.iter().zip(&fixed.args) {
            if let Arg::Use(u) = arg {
                let words = self.function.values[u.value].words;
                (0..words).try_for_each(|w| self.holds(state, File::R, place + w, u.value, w))?;
            }
        }
        Ok(())
    }

    fn inst(&self, state: &mut State, line: &MachInst, inst: Inst) -> Result<(), String> {
        let data = &self.function.insts[inst];
        if data.op == Op::Pseudo(Pseudo::Call) {
            self.handed_over(state, inst)?;
            let convention = self.function.fixed.get(&inst).map(Convention::of).unwrap_or_default();
            state.registers.retain(|(file, place), _| match file {
                File::R => convention.is_saved(*place),
                File::B => *place >= convention.first_saved_barrier(),
                _ => false,
            });
            self.come_back(state, inst);
            return Ok(());
        }
        let (results, args) = line.operands.split_at(data.results.len());
        for (arg, operand) in data.args.iter().zip(args) {
            match arg {
                Arg::Use(u) => self.reads(state, u, operand)?,
                Arg::Bank { index: Some(index), .. } => {
                    let file = self.function.values[*index].file;
                    self.holds(state, file, operand.index, *index, 0)?;
                }
                _ => {}
            }
        }
        self.widths(data, line)?;
        if let Some(guard) = &data.guard {
            self.guard(state, line, guard)?;
            for (kept, operand) in guard.kept.iter().zip(results) {
                self.reads(state, &Use::of(*kept), operand)?;
            }
        }
        if let (Some(tied), Some(result)) = (self.function.tied(data), results.first()) {
            self.reads(state, &Use::of(tied), result)?;
        }
        for (result, operand) in data.results.iter().zip(results) {
            self.place(state, *result, register(operand)?.1);
        }
        Ok(())
    }

    /// Does the machine touch no more registers than the values have?
    fn widths(&self, data: &InstData, line: &MachInst) -> Result<(), String> {
        let inst =
            sass::Inst::new(self.isa, line.op, &line.modifiers, &line.operands).map_err(|e| e.to_string())?;
        let words = |arg: &Arg| match arg {
            Arg::Use(u) => u.part.map_or(self.function.values[u.value].words, |p| p.count),
            // Nobody else has the fixed registers, nor those beside them that were written one by one.
            Arg::Fixed { .. } => u8::MAX,
            _ => 1,
        };
        let results = data.results.iter().map(|r| self.function.values[*r].words);
        let declared: Vec<(&Operand, u8)> =
            line.operands.iter().zip(results.chain(data.args.iter().map(words))).collect();
        for access in inst.registers().filter(|a| matches!(a.file, Kind::R | Kind::U)) {
            let names = |o: &Operand| o.kind == access.file && o.value == i64::from(access.first);
            let widest = declared.iter().filter(|(o, _)| names(o)).map(|(_, words)| *words).max();
            // Registers that an instruction implies (the stack pointer, constants' indices) are one word.
            if u16::from(widest.unwrap_or(1)) < access.count {
                return Err(format!(
                    "{:?}{} is read or written as {} words",
                    access.file, access.first, access.count
                ));
            }
        }
        Ok(())
    }

    fn guard(&self, state: &State, line: &MachInst, guard: &Guard) -> Result<(), String> {
        let file = self.function.values[guard.predicate].file;
        self.holds(state, file, line.guard.predicate, guard.predicate, 0)
    }

    fn reads(&self, state: &State, u: &Use, operand: &Operand) -> Result<(), String> {
        let (file, place) = register(operand)?;
        let first = u.part.map_or(0, |p| p.first);
        let count = u.part.map_or(self.function.values[u.value].words, |p| p.count);
        (0..count).try_for_each(|w| self.holds(state, file, place + w, u.value, first + w))
    }

    /// One word of a guarded copy.
    fn guarded_word(&self, state: &mut State, line: &MachInst, inst: Inst, word: u8) -> Result<(), String> {
        let data = &self.function.insts[inst];
        let guard = data.guard.as_ref().ok_or("no guard")?;
        self.guard(state, line, guard)?;
        let (file, to) = register(&line.operands[0])?;
        let from = register(line.operands.last().ok_or("no source")?)?.1;
        self.holds(state, file, to, guard.kept[0], word)?;
        let (source, at) = word_of(self.function, data, word).ok_or("a word that is not there")?;
        self.holds(state, file, from, source, at)?;
        if let Some(root) = self.root(data.results[0], word) {
            state.registers.insert((file, to), root);
        }
        Ok(())
    }
}

fn register(operand: &Operand) -> Result<(File, u8), String> {
    let file = match operand.kind {
        Kind::R => File::R,
        Kind::U => File::UR,
        Kind::P => File::P,
        Kind::V => File::UP,
        Kind::B => File::B,
        _ => return Err("an operand that is no register".into()),
    };
    Ok((file, operand.value as u8))
}

/// Words of a load from the frame or a store to it.
fn width(line: &MachInst) -> u8 {
    match line.modifiers.first() {
        Some(sass::M::_64) => 2,
        Some(sass::M::_128) => 4,
        _ => 1,
    }
}

/// The word of an argument that becomes this word of the results.
fn word_of(function: &Function, data: &InstData, mut word: u8) -> Option<(Value, u8)> {
    for arg in &data.args {
        let Arg::Use(u) = arg else { return None };
        let first = u.part.map_or(0, |p| p.first);
        let count = u.part.map_or(function.values[u.value].words, |p| p.count);
        if word < count {
            return Some((u.value, first + word));
        }
        word -= count;
    }
    None
}

fn roots(function: &Function) -> Vec<Vec<Option<Root>>> {
    let mut roots: Vec<Vec<Option<Root>>> = function
        .values
        .keys()
        .map(|v| (0..function.values[v].words).map(|w| Some((v, w))).collect())
        .collect();
    let cfg = ori::Cfg::new(function);
    for value in undefined(function, &cfg).iter() {
        roots[value.index()].fill(None);
    }
    // Definitions come before uses in this order, so that one pass is enough.
    for block in cfg.order {
        for inst in &function.blocks[block].insts {
            let data = &function.insts[*inst];
            let passes_on =
                matches!(data.op, Op::Pseudo(Pseudo::Copy | Pseudo::Pack | Pseudo::Unpack | Pseudo::Landed));
            let mut word = 0;
            for result in &data.results {
                for w in 0..function.values[*result].words {
                    if passes_on && data.guard.is_none() {
                        roots[result.index()][usize::from(w)] = word_of(function, data, word)
                            .and_then(|(v, at)| roots[v.index()][usize::from(at)]);
                    }
                    word += 1;
                }
            }
        }
    }
    roots
}
