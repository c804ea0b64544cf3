//! Symbolic checker of the allocation (in the manner of regalloc2's checker).
//!
//! The abstract state maps each register and each spill slot to the word of a value that it holds. A word is named by
//! its root: copies, packs and unpacks only pass words on. The checker trusts nothing of the allocator but its claims
//! about the registers at block entry, and checks those against the exit of every predecessor. The contents of slots
//! are solved by forward dataflow over the whole function; at a join the state is the intersection of the
//! predecessors'.
//!
//! If [`check`] returns `Ok`, every instruction reads the words that its values stand for, no access is wider than its
//! value, register limits hold, and calls preserve what they must. Not checked: what rematerialized code computes, and
//! that early clobbers don't overlap with operands. Linear in the code; the dataflow over slots repeats until its fixed
//! point, and only where there is a frame.

use super::{Limits, reg_limits, undefined};
use crate::mach::inst::{MachFunction, MachInst, Origin};
use crate::module::abi::Convention;
use ori::entity::Entity;
use ori::{Arg, Block, File, Function, Guard, Inst, InstData, Op, Pseudo, Use, Value};
use rustc_hash::FxHashMap;
use sass::{Kind, Operand};

/// A word of a value that is not a copy of another.
pub type Root = (Value, u8);

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

/// A leaf must not clobber the return address. A function with calls saves it, so it and all that the callees may
/// clobber must be marked as used.
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
        true => Err("a call clobbers a register that is not saved".into()),
        false => Ok(()),
    }
}

/// Tracks the words of values through registers and slots.
pub struct Checker<'a> {
    function: &'a Function,
    code: &'a MachFunction,
    isa: sass::Isa,
    /// The root of each word of each value; `None` if it is undefined.
    roots: Vec<Vec<Option<Root>>>,
    /// The contents of the slots at the entry of each block.
    slots: Vec<Slots>,
}

/// The contents of the registers.
pub type Registers = FxHashMap<(File, u8), Root>;
type Slots = FxHashMap<u32, Root>;

/// The contents of registers and slots at a program point.
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
            checker.solve_slots();
        }
        checker
    }
}

impl Checker<'_> {
    /// The root of a word; `None` if it is undefined.
    pub fn root(&self, value: Value, word: u8) -> Option<Root> {
        self.roots[value.index()][usize::from(word)]
    }

    /// Solves the contents of the slots at block entries: greatest fixed point of a forward must-analysis.
    fn solve_slots(&mut self) {
        let mut known: Vec<Option<Slots>> = vec![None; self.slots.len()];
        known[Function::ENTRY.index()] = Some(Slots::default());
        let mut changed = true;
        while changed {
            changed = false;
            for &block in &self.code.order {
                let Some(slots) = known[block.index()].clone() else { continue };
                self.slots[block.index()] = slots;
                // Errors are reported when the block is checked.
                let (state, _) = self.transfer(block, |_, _| ());
                for edge in self.function.blocks[block].end.edges() {
                    let mut out = state.slots.clone();
                    self.rename_spilled_params(&mut out, edge);
                    match &mut known[edge.to.index()] {
                        Some(old) => {
                            let before = old.len();
                            old.retain(|slot, root| out.get(slot) == Some(root));
                            changed |= old.len() != before;
                        }
                        new => {
                            *new = Some(out);
                            changed = true;
                        }
                    }
                }
            }
        }
    }

    /// A parameter that is passed in its slot is the root of the slot after the edge.
    fn rename_spilled_params(&self, slots: &mut Slots, edge: &ori::Edge) {
        for param in &self.function.blocks[edge.to].params {
            let slot = self.code.claims.slots[param.index()];
            let Some(slot) = slot.filter(|_| self.code.claims.spilled_params.contains(param)) else {
                continue;
            };
            for word in 0..self.function.values[*param].words {
                if let Some(root) = self.root(*param, word) {
                    slots.insert(slot + 4 * u32::from(word), root);
                }
            }
        }
    }

    fn block(&self, block: Block) -> Result<(), String> {
        let state = self.replay(block, |_, _| ())?;
        for inst in self.pseudos(block, Pseudo::Leave) {
            self.check_abi_args(&state, inst)?;
        }
        if let Some(decider) = self.function.blocks[block].end.decider() {
            let (first, data) = (self.code.branches[block.index()], self.function.values[decider]);
            for word in 0..data.words {
                self.holds(&state, data.file, first + word, decider, word)?;
            }
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

    /// Calls `show` with the contents of the registers before each instruction of a block, and after the last.
    pub fn contents(
        &self,
        block: Block,
        mut show: impl FnMut(Option<&MachInst>, &Registers),
    ) -> Result<(), String> {
        let end = self.replay(block, |mach_inst, registers| show(Some(mach_inst), registers))?;
        show(None, &end.registers);
        Ok(())
    }

    /// The state at the exit of a block.
    fn replay(&self, block: Block, before: impl FnMut(&MachInst, &Registers)) -> Result<State, String> {
        let (state, error) = self.transfer(block, before);
        error.map_or(Ok(state), Err)
    }

    /// The transfer function of a block, with the first error.
    fn transfer(
        &self,
        block: Block,
        mut before: impl FnMut(&MachInst, &Registers),
    ) -> (State, Option<String>) {
        let mut state = State { slots: self.slots[block.index()].clone(), ..State::default() };
        let mut error = None;
        for &(value, reg) in &self.code.claims.entry_regs[block.index()] {
            self.assign(&mut state, value, reg);
        }
        for inst in self.pseudos(block, Pseudo::Entry) {
            self.define_abi_results(&mut state, inst);
        }
        for (i, mach_inst) in self.code.blocks[block.index()].iter().enumerate() {
            before(mach_inst, &state.registers);
            if let Err(e) = self.mach_inst(&mut state, mach_inst) {
                error.get_or_insert_with(|| format!("instruction {i} ({}): {e}", mach_inst.op.name()));
            }
        }
        (state, error)
    }

    fn assign(&self, state: &mut State, value: Value, reg: u8) {
        let data = self.function.values[value];
        for word in 0..data.words {
            match self.root(value, word) {
                Some(root) => state.registers.insert((data.file, reg + word), root),
                None => state.registers.remove(&(data.file, reg + word)),
            };
        }
    }

    /// Checks that a register holds a word.
    fn holds(&self, state: &State, file: File, reg: u8, value: Value, word: u8) -> Result<(), String> {
        let Some(root) = self.root(value, word) else { return Ok(()) };
        match state.registers.get(&(file, reg)) {
            Some(found) if *found == root => Ok(()),
            Some((other, w)) => Err(format!("{file:?}{reg} holds {other}[{w}] instead of {value}[{word}]")),
            None => Err(format!("{file:?}{reg} does not hold {value}[{word}]")),
        }
    }

    fn edge(&self, state: &State, edge: &ori::Edge) -> Result<(), String> {
        let params = &self.function.blocks[edge.to].params;
        for &(value, reg) in &self.code.claims.entry_regs[edge.to.index()] {
            let source = params.iter().position(|p| *p == value).map_or(value, |i| edge.args[i]);
            let data = self.function.values[value];
            (0..data.words).try_for_each(|w| self.holds(state, data.file, reg + w, source, w))?;
        }
        for (param, arg) in params.iter().zip(&edge.args) {
            if !self.code.claims.spilled_params.contains(param) {
                continue;
            }
            let slot = self.code.claims.slots[param.index()].ok_or("a spilled parameter has no slot")?;
            for word in 0..self.function.values[*param].words {
                let Some(root) = self.root(*arg, word) else { continue };
                if state.slots.get(&(slot + 4 * u32::from(word))) != Some(&root) {
                    return Err(format!("the slot of {param} does not hold {arg}[{word}]"));
                }
            }
        }
        Ok(())
    }

    fn mach_inst(&self, state: &mut State, mach_inst: &MachInst) -> Result<(), String> {
        match mach_inst.origin {
            Origin::Inst(inst) => self.inst(state, mach_inst, inst),
            Origin::Word(inst, word) => self.guarded_word(state, mach_inst, inst, word),
            Origin::Move => {
                let (to, from) = (
                    register(&mach_inst.operands[0])?,
                    register(mach_inst.operands.last().ok_or("no source")?)?,
                );
                match state.registers.get(&from).copied() {
                    Some(root) => state.registers.insert(to, root),
                    None => state.registers.remove(&to),
                };
                Ok(())
            }
            Origin::Spill(slot) => {
                let (file, first) = register(&mach_inst.operands[2])?;
                for word in 0..width(mach_inst) {
                    let at = slot + 4 * u32::from(word);
                    match state.registers.get(&(file, first + word)).copied() {
                        Some(root) => state.slots.insert(at, root),
                        None => state.slots.remove(&at),
                    };
                }
                Ok(())
            }
            Origin::Reload(slot) => {
                let (file, first) = register(&mach_inst.operands[0])?;
                for word in 0..width(mach_inst) {
                    let at = slot + 4 * u32::from(word);
                    match state.slots.get(&at).copied() {
                        Some(root) => state.registers.insert((file, first + word), root),
                        // Unknown contents: `Origin::Load` names the value that is expected.
                        None => state.registers.remove(&(file, first + word)),
                    };
                }
                Ok(())
            }
            Origin::Load(value, from) => {
                let (file, first) = register(&mach_inst.operands[0])?;
                let slot =
                    self.code.claims.slots[value.index()].ok_or("a reload of a value that has no slot")?;
                let mut found = true;
                for word in 0..width(mach_inst) {
                    let Some(root) = self.root(value, from + word) else { continue };
                    found &= state.slots.get(&(slot + 4 * u32::from(from + word))) == Some(&root);
                    state.registers.insert((file, first + word), root);
                }
                if found { Ok(()) } else { Err(format!("the slot of {value} does not hold it")) }
            }
            Origin::Remat(value) => {
                let (_, first) = register(&mach_inst.operands[0])?;
                self.assign(state, value, first);
                Ok(())
            }
            Origin::Frame => Ok(()),
        }
    }

    /// Defines the results of a call, or the parameters of a function, in their registers.
    fn define_abi_results(&self, state: &mut State, inst: Inst) {
        let Some(fixed) = self.function.fixed.get(&inst) else { return };
        for (result, reg) in self.function.insts[inst].results.iter().zip(&fixed.results) {
            self.assign(state, *result, *reg);
        }
    }

    /// Checks that the arguments of a call, or the results of a function, are in their registers.
    fn check_abi_args(&self, state: &State, inst: Inst) -> Result<(), String> {
        let fixed = self.function.fixed.get(&inst).ok_or("no registers for a call")?;
        for (arg, reg) in self.function.insts[inst].args.iter().zip(&fixed.args) {
            if let Arg::Use(u) = arg {
                let words = self.function.values[u.value].words;
                (0..words).try_for_each(|w| self.holds(state, File::R, reg + w, u.value, w))?;
            }
        }
        Ok(())
    }

    fn inst(&self, state: &mut State, mach_inst: &MachInst, inst: Inst) -> Result<(), String> {
        let data = &self.function.insts[inst];
        if matches!(data.op, Op::Pseudo(Pseudo::Call | Pseudo::CallRoutine)) {
            self.check_abi_args(state, inst)?;
            let convention = self.function.fixed.get(&inst).map(Convention::of).unwrap_or_default();
            state.registers.retain(|(file, reg), _| match file {
                File::R => convention.is_saved(*reg),
                File::B => *reg >= convention.first_saved_barrier(),
                File::P => convention.saves_predicate(*reg),
                File::UR | File::UP => convention.is_routine(),
            });
            self.define_abi_results(state, inst);
            return Ok(());
        }
        let (results, args) = mach_inst.operands.split_at(data.results.len());
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
        self.widths(data, mach_inst)?;
        if let Some(guard) = &data.guard {
            self.guard(state, mach_inst, guard)?;
            for (else_value, operand) in guard.else_values.iter().zip(results) {
                self.reads(state, &Use::of(*else_value), operand)?;
            }
        }
        if let (Some(tied), Some(result)) = (self.function.tied(data), results.first()) {
            self.reads(state, &Use::of(tied), result)?;
        }
        for (result, operand) in data.results.iter().zip(results) {
            self.assign(state, *result, register(operand)?.1);
        }
        Ok(())
    }

    /// Checks that the instruction accesses no more registers than its values have.
    fn widths(&self, data: &InstData, mach_inst: &MachInst) -> Result<(), String> {
        let inst = sass::Inst::new(self.isa, mach_inst.op, &mach_inst.modifiers, &mach_inst.operands)
            .map_err(|e| e.to_string())?;
        let words = |arg: &Arg| match arg {
            Arg::Use(u) => u.part.map_or(self.function.values[u.value].words, |p| p.count),
            // No value has the fixed registers, nor the ones next to them that were written one by one.
            Arg::Fixed { .. } => u8::MAX,
            _ => 1,
        };
        let results = data.results.iter().map(|r| self.function.values[*r].words);
        let declared: Vec<(&Operand, u8)> =
            mach_inst.operands.iter().zip(results.chain(data.args.iter().map(words))).collect();
        for access in inst.registers().filter(|a| matches!(a.file, Kind::R | Kind::U)) {
            let names = |o: &Operand| o.kind == access.file && o.value == i64::from(access.first);
            let widest = declared.iter().filter(|(o, _)| names(o)).map(|(_, words)| *words).max();
            // Implicit registers (the stack pointer, constants' indices) are one word.
            if u16::from(widest.unwrap_or(1)) < access.count {
                return Err(format!(
                    "{:?}{} is read or written as {} words",
                    access.file, access.first, access.count
                ));
            }
        }
        Ok(())
    }

    fn guard(&self, state: &State, mach_inst: &MachInst, guard: &Guard) -> Result<(), String> {
        let file = self.function.values[guard.predicate].file;
        self.holds(state, file, mach_inst.guard.predicate, guard.predicate, 0)
    }

    fn reads(&self, state: &State, u: &Use, operand: &Operand) -> Result<(), String> {
        let (file, reg) = register(operand)?;
        let first = u.part.map_or(0, |p| p.first);
        let count = u.part.map_or(self.function.values[u.value].words, |p| p.count);
        (0..count).try_for_each(|w| self.holds(state, file, reg + w, u.value, first + w))
    }

    /// One word of a guarded copy.
    fn guarded_word(
        &self,
        state: &mut State,
        mach_inst: &MachInst,
        inst: Inst,
        word: u8,
    ) -> Result<(), String> {
        let data = &self.function.insts[inst];
        let guard = data.guard.as_ref().ok_or("no guard")?;
        self.guard(state, mach_inst, guard)?;
        let (file, to) = register(&mach_inst.operands[0])?;
        let from = register(mach_inst.operands.last().ok_or("no source")?)?.1;
        self.holds(state, file, to, guard.else_values[0], word)?;
        let (source, at) = word_of(self.function, data, word).ok_or("no such word")?;
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
        _ => return Err("not a register operand".into()),
    };
    Ok((file, operand.value as u8))
}

/// Words of an access to the frame.
fn width(mach_inst: &MachInst) -> u8 {
    match mach_inst.modifiers.first() {
        Some(sass::M::_64) => 2,
        Some(sass::M::_128) => 4,
        _ => 1,
    }
}

/// The word of an argument that is this word of the results.
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
    // Reverse post-order visits definitions before uses: one pass is enough.
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
