//! Spill slots, reloads and rematerialization.
//!
//! A spilled value gets a slot in the frame and is stored once, right after its definition; it is reloaded before uses.
//! A value whose definition is cheap, pure and without inputs is rematerialized instead. A parameter and its arguments
//! share a slot where their live ranges are disjoint: then the edge needs no copy.
//!
//! ```text
//! v1 = …          ==>    …; STL [R1+8], R4
//! use v1                 LDL R7, [R1+8]; use R7
//! ```
//!
//! A slot is read only after the store to it. Slot sharing scans the edges and the block of each candidate.

use super::{Allocator, AttemptError, address};
use crate::analysis::effects;
use crate::codegen::legalize;
use crate::mach::inst::{MachInst, Origin};
use ori::entity::Entity;
use ori::{Arg, Block, File, Inst, InstData, Op, Value};
use sass::{M, operands as machine};

/// Can the result of an instruction be computed again anywhere, for less than a reload?
pub fn is_rematerializable(data: &InstData) -> bool {
    let has_no_inputs = data.guard.is_none() && data.results.len() == 1 && data.uses().next().is_none();
    let is_cheap = match data.op {
        Op::Machine(sass::Op::MOV | sass::Op::LDC | sass::Op::ULDC | sass::Op::LDCU) => {
            effects::is_pure(data)
        }
        Op::Machine(sass::Op::S2R | sass::Op::CS2R) => {
            data.args.iter().all(|a| matches!(a, Arg::Name(m) if effects::is_lasting(*m)))
        }
        _ => false,
    };
    has_no_inputs && is_cheap
}

impl Allocator<'_> {
    /// Assigns a register to an operand and reloads it, unless it has one.
    pub(super) fn ensure_in_reg(&mut self, value: Value) -> Result<(), AttemptError> {
        if self.assigned[value.index()].is_some() || self.undefined.contains(value) {
            return Ok(());
        }
        let reg = self.alloc_reg(value)?;
        self.assign(value, reg);
        if !self.locked.contains(&value) {
            self.locked.push(value);
        }
        let mach_insts = self.reload(value, reg)?;
        self.emitted.extend(mach_insts);
        Ok(())
    }

    /// The code that reloads or rematerializes a value.
    pub(super) fn reload(&mut self, value: Value, reg: u8) -> Result<Vec<MachInst>, AttemptError> {
        let data = self.function.values[value];
        if let Some(inst) = self.remat_def(value) {
            let data = &self.function.insts[inst];
            let Op::Machine(op) = data.op else {
                return Err("only machine operations can be rematerialized".into());
            };
            let mut mach_inst = MachInst::new(op, &data.modifiers, &[], Origin::Remat(value));
            mach_inst.operands = legalize::operands(self.function, data, &mut |_, word| reg + word).collect();
            (mach_inst.at, mach_inst.address) = (data.at, address(data));
            return Ok(vec![mach_inst]);
        }
        if data.file != File::R {
            self.spill_via_r.push(value);
            return Ok(Vec::new());
        }
        Ok(self.reload_words(value, 0, data.words, reg))
    }

    /// Loads some words of a value from its slot.
    pub(super) fn reload_words(&mut self, value: Value, first: u8, count: u8, reg: u8) -> Vec<MachInst> {
        let slot = self.slot(value);
        self.code.spill_loads += u32::from(count) * 4;
        let mut mach_insts = self.frame_access(sass::Op::LDL, slot + 4 * u32::from(first), reg, count);
        for mach_inst in &mut mach_insts {
            if let Origin::Reload(at) = mach_inst.origin {
                mach_inst.origin = Origin::Load(value, ((at - slot) / 4) as u8);
            }
        }
        mach_insts
    }

    /// Loads or stores words at an offset in the frame.
    pub(super) fn frame_access(&self, op: sass::Op, slot: u32, reg: u8, words: u8) -> Vec<MachInst> {
        let (step, modifiers): (u8, &[M]) = match words {
            1 | 3 => (1, &[]),
            2 => (2, &[M::_64]),
            n if n.is_multiple_of(4) => (4, &[M::_128]),
            _ => (1, &[]),
        };
        let is_load = op == sass::Op::LDL;
        let access = |word: u8| {
            let offset = machine::imm(i64::from(slot) + 4 * i64::from(word));
            let (stack, register) = (machine::r(self.function.frame_register()), machine::r(reg + word));
            let operands = if is_load { [register, stack, offset] } else { [stack, offset, register] };
            let at = slot + 4 * u32::from(word);
            MachInst::new(
                op,
                modifiers,
                &operands,
                if is_load { Origin::Reload(at) } else { Origin::Spill(at) },
            )
        };
        (0..words).step_by(usize::from(step)).map(access).collect()
    }

    /// The definition of a rematerializable value: cheap, and valid anywhere.
    pub(super) fn remat_def(&self, value: Value) -> Option<Inst> {
        let inst = self.definition[value.index()]?;
        is_rematerializable(&self.function.insts[inst]).then_some(inst)
    }

    /// The spill slot of a value.
    pub(super) fn slot(&mut self, value: Value) -> u32 {
        if let Some(slot) = self.slots[value.index()] {
            return slot;
        }
        let slot = self.shared_slot(value).unwrap_or_else(|| {
            let words = u32::from(self.function.values[value].words);
            let slot = self.frame.next_multiple_of(4 * words.next_power_of_two().min(4));
            self.frame = slot + 4 * words;
            slot
        });
        self.slots[value.index()] = Some(slot);
        self.slot_owners.entry(slot).or_default().push(value);
        slot
    }

    /// The slot of a parameter that a value is an argument of, or of an argument of this parameter: then the edge needs
    /// no copy. All owners of a slot must have disjoint live ranges.
    fn shared_slot(&self, value: Value) -> Option<u32> {
        let slots = self.related(value).into_iter().filter_map(|v| self.slots[v.index()]);
        let fits = |slot: &u32| {
            let mut others = self.slot_owners.get(slot).into_iter().flatten();
            let words = self.function.values[value].words;
            others
                .all(|o| self.function.values[*o].words == words && self.have_disjoint_live_ranges(value, *o))
        };
        { slots }.find(fits)
    }

    /// The parameter that a value is an argument of, and the arguments of this parameter.
    fn related(&self, value: Value) -> Vec<Value> {
        let param = self.hints.param(value);
        let Some(block) = self.param_block(value) else { return param.into_iter().collect() };
        let at = self.function.blocks[block].params.iter().position(|p| *p == value);
        let edges = self.edges_to(block);
        param.into_iter().chain(edges.filter_map(|e| e.args.get(at?).copied())).collect()
    }

    fn edges_to(&self, block: Block) -> impl Iterator<Item = &ori::Edge> {
        let preds = self.cfg.preds[block.index()].iter();
        preds.flat_map(|p| self.function.blocks[*p].end.edges()).filter(move |e| e.to == block)
    }

    /// The block of which a value is a parameter.
    pub(super) fn param_block(&self, value: Value) -> Option<Block> {
        self.def_block[value.index()].filter(|_| self.definition[value.index()].is_none())
    }

    fn have_disjoint_live_ranges(&self, a: Value, b: Value) -> bool {
        let one_sided = |a: Value, b: Value| !self.is_live_after_def(a, b) && !self.is_passed_elsewhere(a, b);
        a == b || one_sided(a, b) && one_sided(b, a)
    }

    /// Is a value the argument of another parameter on an edge where `param` gets something else? Its slot would be
    /// overwritten before it is read.
    fn is_passed_elsewhere(&self, value: Value, param: Value) -> bool {
        let Some(block) = self.param_block(param) else { return false };
        let at = self.function.blocks[block].params.iter().position(|p| *p == param);
        let past =
            |e: &ori::Edge| e.args.contains(&value) && at.and_then(|at| e.args.get(at)) != Some(&value);
        self.edges_to(block).any(past)
    }

    /// Is a value live right after another one is defined? Conservative where that is unknown.
    fn is_live_after_def(&self, value: Value, definition: Value) -> bool {
        let function = self.function;
        let Some(block) = self.def_block[definition.index()] else { return true };
        let data = &function.blocks[block];
        let Some(inst) = self.definition[definition.index()] else {
            // A parameter: live at the entry of its block?
            return data.params.contains(&value) || self.live.live_in[block.index()].contains(value);
        };
        let Some(at) = data.insts.iter().position(|i| *i == inst) else { return true };
        if function.insts[inst].results.contains(&value) {
            return true;
        }
        let later = &data.insts[at + 1..];
        // Defined below, it isn't live yet.
        if self.def_block[value.index()] == Some(block)
            && later.iter().any(|i| function.insts[*i].results.contains(&value))
        {
            return false;
        }
        let uses = later.iter().flat_map(|i| function.insts[*i].uses()).chain(data.end.uses());
        self.live.live_out[block.index()].contains(value) || { uses }.any(|v| v == value)
    }

    /// Inserts the store of every value that has a slot, right after its definition.
    pub(super) fn insert_stores(&mut self) {
        let mut wanted: Vec<(Block, u32, Value, u8)> = Vec::new();
        for value in (0..self.function.values.len()).map(Value::new) {
            if self.slots[value.index()].is_some()
                && !self.spilled_params.contains(value)
                && let Some((block, index, reg)) = self.def_point[value.index()]
            {
                wanted.push((block, index, value, reg));
            }
        }
        wanted.sort();
        for stores in wanted.chunk_by(|a, b| a.0 == b.0) {
            let block = stores[0].0.index();
            let mut stores = stores.iter().peekable();
            let before = std::mem::take(&mut self.code.blocks[block]);
            let mut after = Vec::with_capacity(before.len() + stores.len());
            for (at, mach_inst) in before.into_iter().enumerate() {
                while let Some(store) = stores.next_if(|(_, index, ..)| *index as usize <= at) {
                    after.extend(self.store(store.2, store.3));
                }
                after.push(mach_inst);
            }
            stores.for_each(|(.., value, reg)| after.extend(self.store(*value, *reg)));
            self.code.blocks[block] = after;
        }
    }

    fn store(&mut self, value: Value, reg: u8) -> Vec<MachInst> {
        let words = self.function.values[value].words;
        self.code.spill_stores += u32::from(words) * 4;
        let slot = self.slot(value);
        self.frame_access(sass::Op::STL, slot, reg, words)
    }
}
