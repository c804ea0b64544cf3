//! Values that are not in registers: where they are in the frame, and the ways there and back.

use super::{Allocator, Trouble, address};
use crate::codegen::legalize;
use crate::mach::inst::{MachInst, Origin};
use crate::opt::simplify;
use ori::entity::Entity;
use ori::{Arg, Block, File, Inst, Op, Value};
use sass::{M, operands as machine};

impl Allocator<'_> {
    /// Puts a value that is used into a register.
    pub(super) fn bring(&mut self, value: Value) -> Result<(), Trouble> {
        if self.at[value.index()].is_some() || self.undefined.contains(value) {
            return Ok(());
        }
        let place = self.room(value)?;
        self.arrive(value, place);
        if !self.locked.contains(&value) {
            self.locked.push(value);
        }
        let lines = self.load(value, place)?;
        self.lines.extend(lines);
        Ok(())
    }

    /// The lines that bring a value into a register.
    pub(super) fn load(&mut self, value: Value, place: u8) -> Result<Vec<MachInst>, Trouble> {
        let data = self.function.values[value];
        if let Some(inst) = self.again(value) {
            let data = &self.function.insts[inst];
            let Op::Machine(op) = data.op else {
                return Err("only machine operations are done again".into());
            };
            let mut line = MachInst::new(op, &data.modifiers, &[], Origin::Again(value));
            line.operands = legalize::operands(self.function, data, &mut |_, word| place + word).collect();
            (line.at, line.address) = (data.at, address(data));
            return Ok(vec![line]);
        }
        if data.file != File::R {
            self.words.push(value);
            return Ok(Vec::new());
        }
        Ok(self.reload(value, 0, data.words, place))
    }

    /// Loads of some words of a value from its slot.
    pub(super) fn reload(&mut self, value: Value, first: u8, count: u8, place: u8) -> Vec<MachInst> {
        let slot = self.slot(value);
        self.code.spill_loads += u32::from(count) * 4;
        let mut lines = self.frame_access(sass::Op::LDL, slot + 4 * u32::from(first), place, count);
        for line in &mut lines {
            if let Origin::Reload(at) = line.origin {
                line.origin = Origin::Bring(value, ((at - slot) / 4) as u8);
            }
        }
        lines
    }

    /// Loads or stores of words at a place in the frame.
    pub(super) fn frame_access(&self, op: sass::Op, slot: u32, place: u8, words: u8) -> Vec<MachInst> {
        let (step, modifiers): (u8, &[M]) = match words {
            1 | 3 => (1, &[]),
            2 => (2, &[M::_64]),
            n if n.is_multiple_of(4) => (4, &[M::_128]),
            _ => (1, &[]),
        };
        let load = op == sass::Op::LDL;
        let line = |word: u8| {
            let offset = machine::imm(i64::from(slot) + 4 * i64::from(word));
            let (stack, register) = (machine::r(self.function.frame_register()), machine::r(place + word));
            let operands = if load { [register, stack, offset] } else { [stack, offset, register] };
            let at = slot + 4 * u32::from(word);
            MachInst::new(op, modifiers, &operands, if load { Origin::Reload(at) } else { Origin::Spill(at) })
        };
        (0..words).step_by(usize::from(step)).map(line).collect()
    }

    /// The definition of a value, if it is cheap and can be done anywhere.
    pub(super) fn again(&self, value: Value) -> Option<Inst> {
        let inst = self.definition[value.index()]?;
        let data = &self.function.insts[inst];
        let alone = data.guard.is_none() && data.results.len() == 1 && data.uses().next().is_none();
        let cheap = match data.op {
            Op::Machine(sass::Op::MOV | sass::Op::LDC | sass::Op::ULDC | sass::Op::LDCU) => {
                simplify::is_pure(data)
            }
            Op::Machine(sass::Op::S2R) => {
                data.args.iter().all(|a| matches!(a, Arg::Name(m) if simplify::is_lasting(*m)))
            }
            _ => false,
        };
        (alone && cheap).then_some(inst)
    }

    /// The place of a value in the frame.
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
        self.holders.entry(slot).or_default().push(value);
        slot
    }

    /// The slot of a parameter that a value becomes, or of a value that becomes this parameter: then nothing has to be
    /// moved on the edge. All who have a slot must be apart: none of them is needed where another is written.
    fn shared_slot(&self, value: Value) -> Option<u32> {
        let slots = self.related(value).into_iter().filter_map(|v| self.slots[v.index()]);
        let fits = |slot: &u32| {
            let mut others = self.holders.get(slot).into_iter().flatten();
            let words = self.function.values[value].words;
            others.all(|o| self.function.values[*o].words == words && self.are_apart(value, *o))
        };
        { slots }.find(fits)
    }

    /// What a value becomes on some edge, or what becomes it.
    fn related(&self, value: Value) -> Vec<Value> {
        let param = self.hints.param(value);
        let Some(block) = self.home_of_param(value) else { return param.into_iter().collect() };
        let at = self.function.blocks[block].params.iter().position(|p| *p == value);
        let edges = self.edges_to(block);
        param.into_iter().chain(edges.filter_map(|e| e.args.get(at?).copied())).collect()
    }

    fn edges_to(&self, block: Block) -> impl Iterator<Item = &ori::Edge> {
        let preds = self.cfg.preds[block.index()].iter();
        preds.flat_map(|p| self.function.blocks[*p].end.edges()).filter(move |e| e.to == block)
    }

    /// The block that a value is a parameter of.
    fn home_of_param(&self, value: Value) -> Option<Block> {
        self.home[value.index()].filter(|_| self.definition[value.index()].is_none())
    }

    fn are_apart(&self, a: Value, b: Value) -> bool {
        let one_way = |a: Value, b: Value| !self.is_alive_behind(a, b) && !self.is_handed_past(a, b);
        a == b || one_way(a, b) && one_way(b, a)
    }

    /// Is a value the argument of another parameter on an edge where this one gets something else? Its slot would be
    /// overwritten before it is read.
    fn is_handed_past(&self, value: Value, param: Value) -> bool {
        let Some(block) = self.home_of_param(param) else { return false };
        let at = self.function.blocks[block].params.iter().position(|p| *p == param);
        let past =
            |e: &ori::Edge| e.args.contains(&value) && at.and_then(|at| e.args.get(at)) != Some(&value);
        self.edges_to(block).any(past)
    }

    /// Is a value alive where another one has just been defined? What isn't known counts as yes.
    fn is_alive_behind(&self, value: Value, definition: Value) -> bool {
        let function = self.function;
        let Some(block) = self.home[definition.index()] else { return true };
        let data = &function.blocks[block];
        let Some(inst) = self.definition[definition.index()] else {
            // A parameter: alive when its block begins?
            return data.params.contains(&value) || self.live.live_in[block.index()].contains(value);
        };
        let Some(at) = data.insts.iter().position(|i| *i == inst) else { return true };
        if function.insts[inst].results.contains(&value) {
            return true;
        }
        let later = &data.insts[at + 1..];
        // Defined further down, it isn't alive yet.
        if self.home[value.index()] == Some(block)
            && later.iter().any(|i| function.insts[*i].results.contains(&value))
        {
            return false;
        }
        let uses = later.iter().flat_map(|i| function.insts[*i].uses()).chain(data.end.uses());
        self.live.live_out[block.index()].contains(value) || { uses }.any(|v| v == value)
    }

    /// Stores every value that has a slot, right behind its definition.
    pub(super) fn stores(&mut self) {
        let mut wanted: Vec<(Block, u32, Value, u8)> = Vec::new();
        for index in 0..self.function.values.len() {
            let value = Value::new(index);
            if self.slots[index].is_some()
                && !self.in_memory.contains(value)
                && let Some((block, line, place)) = self.born[index]
            {
                wanted.push((block, line, value, place));
            }
        }
        wanted.sort();
        for (block, line, value, place) in wanted.into_iter().rev() {
            let words = self.function.values[value].words;
            let lines = {
                let slot = self.slot(value);
                self.frame_access(sass::Op::STL, slot, place, words)
            };
            self.code.spill_stores += u32::from(words) * 4;
            let at = line as usize;
            self.code.blocks[block.index()].splice(at..at, lines);
        }
    }
}
