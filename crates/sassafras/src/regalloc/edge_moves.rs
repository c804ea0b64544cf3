//! Resolution of edges: from the registers at the exit of a block to those that its successor expects.
//!
//! Critical edges are split, so the code of an edge is placed at the end of its block: stores to slots of parameters
//! and copies from slot to slot first, then register moves as one parallel copy per file, then reloads and
//! rematerializations. The moves of a latch that would hold nothing else are placed before the branch to it, where no
//! register that they write is live on the other edge: an iteration then takes one branch.
//!
//! ```text
//! exit {v1: R0, v2: R1}, spilled v3       MOV R2, R0; MOV R0, R1; MOV R1, R2
//! entry {v1: R1, v2: R0, v3: R4}   ==>    LDL R4, [R1+slot]
//!
//! b1: …; @P0 branch b2, b3                b1: …; MOV R0, R4; @P0 branch b2, b3
//! b2: MOV R0, R4; jump b1          ==>    b2: jump b1
//! ```
//!
//! Afterwards the entry registers of every block hold on every edge. A cycle without a free register is reported, and
//! the allocation restarts with a reserved scratch register. Linear in the live values of each edge.

use super::{Allocator, AttemptError, Snapshot, move_inst};
use crate::mach::inst::{MachInst, Origin};
use crate::regalloc::parallel_moves;
use ori::entity::Entity;
use ori::{Arg, Block, Edge, File, Inst, Op, Value};
use sass::M;

/// The moves, stores and reloads of one edge.
#[derive(Default)]
struct EdgeWork {
    /// Register moves (to, from), by file: [`MOVABLE`].
    moves: [Vec<(u8, u8)>; MOVABLE.len()],
    /// Stores to the slot of a parameter: (slot, register, words).
    stores: Vec<(u32, u8, u8)>,
    /// Copies from slot to slot: (to, from, value).
    slot_to_slot: Vec<(u32, u32, Value)>,
    /// Reloads and rematerializations to a register.
    loads: Vec<(Value, u8)>,
    /// Rematerializations to a slot.
    constants: Vec<(u32, Value)>,
}

/// Files whose values can be moved on an edge.
const MOVABLE: [File; 3] = [File::R, File::P, File::UR];

impl Allocator<'_> {
    /// Inserts the code of all edges. Returns a file that lacks a scratch register, if one does.
    pub(super) fn insert_edge_moves(&mut self) -> Result<Option<File>, AttemptError> {
        for block in self.cfg.order.clone() {
            let function = self.function;
            let edges = function.blocks[block].end.edges();
            for edge in &edges {
                let single_pred = self.cfg.preds[edge.to.index()].len() == 1;
                let work = self.edge_work(block, edge)?;
                if work.is_empty() {
                    continue;
                }
                let mut mach_insts = Vec::new();
                if let Some(file) = self.emit_edge(block, edge, work, &mut mach_insts)? {
                    return Ok(Some(file));
                }
                if edges.len() == 1 {
                    let place = self.before_branch(block, edge, &mach_insts).unwrap_or(block);
                    self.code.blocks[place.index()].extend(mach_insts);
                } else if single_pred {
                    return Err("the only edge into a block needs moves".into());
                } else {
                    return Err("a critical edge".into());
                }
            }
        }
        Ok(None)
    }

    /// The block whose branch leads to a latch of nothing but these moves, if they can be at its end: no register that
    /// they write is live on its other edge. An iteration then takes one branch.
    fn before_branch(&mut self, latch: Block, edge: &Edge, moves: &[MachInst]) -> Option<Block> {
        let is_back = self.rpo_index[edge.to.index()] <= self.rpo_index[latch.index()];
        let &[before] = &self.cfg.preds[latch.index()][..] else { return None };
        if !is_back || !self.function.blocks[latch].insts.is_empty() {
            return None;
        }
        let other = self.function.blocks[before].end.edges().into_iter().find(|e| e.to != latch)?;
        let live = self.entry_regs[other.to.index()].iter().map(|(v, reg)| (self.function.values[*v], *reg));
        let is_live = |to: u8| {
            let mut live = live.clone().filter(|(data, _)| data.file == File::R);
            live.any(|(data, reg)| (reg..reg + data.words).contains(&to))
        };
        let is_safe = |m: &MachInst| {
            let to = m.operands.first().filter(|o| o.kind == sass::Kind::R);
            m.op == sass::Op::MOV && to.is_some_and(|to| !is_live(to.value as u8))
        };
        if !moves.iter().all(is_safe) {
            return None;
        }
        // The latch now starts as the header does.
        let params = &self.function.blocks[edge.to].params;
        let source = |v: Value| params.iter().position(|p| *p == v).map_or(v, |i| edge.args[i]);
        let start = self.entry_regs[edge.to.index()].iter().map(|(v, reg)| (source(*v), *reg)).collect();
        self.entry_regs[latch.index()] = start;
        Some(before)
    }

    fn edge_work(&mut self, block: Block, edge: &Edge) -> Result<EdgeWork, AttemptError> {
        let mut work = EdgeWork::default();
        let (end, start) = (self.exit_regs[block.index()].clone(), self.entry_regs[edge.to.index()].clone());
        let params = &self.function.blocks[edge.to].params;
        for &(value, reg) in start.iter().filter(|(v, _)| !params.contains(v)) {
            self.transfer(&mut work, &end, value, value, reg)?;
        }
        for (param, arg) in params.iter().zip(&edge.args) {
            if self.undefined.contains(*arg) {
                continue;
            }
            match find(&start, *param) {
                Some(reg) => self.transfer(&mut work, &end, *param, *arg, reg)?,
                None if self.spilled_params.contains(*param) => {
                    self.store_param(&mut work, &end, *param, *arg)
                }
                // The parameter is unused.
                None => {}
            }
        }
        Ok(work)
    }

    fn transfer(
        &mut self,
        work: &mut EdgeWork,
        end: &Snapshot,
        value: Value,
        source: Value,
        to: u8,
    ) -> Result<(), AttemptError> {
        let data = self.function.values[value];
        match find(end, source) {
            Some(from) if from == to => {}
            // Rematerializing a constant costs no more than moving it.
            Some(_)
                if self.remat_def(source).is_some_and(|i| data.file != File::R || self.is_immediate(i)) =>
            {
                work.loads.push((source, to))
            }
            Some(from) => {
                let list = MOVABLE.iter().position(|f| *f == data.file);
                let list =
                    list.ok_or_else(|| format!("{value} of file {:?} has two registers", data.file))?;
                work.moves[list].extend((0..data.words).map(|w| (to + w, from + w)));
            }
            None => work.loads.push((source, to)),
        }
        Ok(())
    }

    fn store_param(&mut self, work: &mut EdgeWork, end: &Snapshot, param: Value, arg: Value) {
        let words = self.function.values[param].words;
        let slot = self.slot(param);
        // A value with a slot is stored right after its definition.
        if self.slots[arg.index()] == Some(slot) {
            return;
        }
        match find(end, arg) {
            Some(from) => work.stores.push((slot, from, words)),
            None if self.remat_def(arg).is_some() && words == 1 => work.constants.push((slot, arg)),
            None => {
                let from = self.slot(arg);
                if from != slot {
                    work.slot_to_slot.push((slot, from, arg));
                }
            }
        }
    }

    /// Is it a move of an immediate, or of zero to a pair?
    fn is_immediate(&self, inst: Inst) -> bool {
        let data = &self.function.insts[inst];
        let is_constant = |a: &Arg| matches!(a, Arg::Imm(_) | Arg::Zero(_) | Arg::Name(M::SRZ));
        matches!(data.op, Op::Machine(sass::Op::MOV | sass::Op::CS2R)) && data.args.iter().all(is_constant)
    }

    fn emit_edge(
        &mut self,
        block: Block,
        edge: &Edge,
        work: EdgeWork,
        mach_insts: &mut Vec<MachInst>,
    ) -> Result<Option<File>, AttemptError> {
        for (slot, reg, words) in &work.stores {
            mach_insts.extend(self.frame_access(sass::Op::STL, *slot, *reg, *words));
            self.code.spill_stores += 4 * u32::from(*words);
        }
        if !self.slot_to_slot(block, edge, &work, mach_insts)? {
            return Ok(Some(File::R));
        }
        for (i, file) in MOVABLE.into_iter().enumerate() {
            let scratch = self.scratch_on_edge(block, edge, file, &work);
            let Some(sequence) = parallel_moves::sequence(&work.moves[i], scratch) else {
                return Ok(Some(file));
            };
            for (to, from) in sequence {
                self.code.touch(file, to);
                mach_insts.push(move_inst(file, to, from)?);
            }
        }
        for (value, reg) in work.loads {
            mach_insts.extend(self.reload(value, reg)?);
        }
        Ok(None)
    }

    /// Copies from slot to slot, through a scratch register. `false` if none is free.
    fn slot_to_slot(
        &mut self,
        block: Block,
        edge: &Edge,
        work: &EdgeWork,
        mach_insts: &mut Vec<MachInst>,
    ) -> Result<bool, AttemptError> {
        if work.slot_to_slot.is_empty() && work.constants.is_empty() {
            return Ok(true);
        }
        let Some(scratch) = self.scratch_on_edge(block, edge, File::R, work) else { return Ok(false) };
        self.code.touch(File::R, scratch);
        let mut wanted: Vec<(u32, u32)> = Vec::new();
        for (to, from, value) in &work.slot_to_slot {
            let words = u32::from(self.function.values[*value].words);
            wanted.extend((0..words).map(|w| (to + 4 * w, from + 4 * w)));
        }
        let scratch_slot = self.frame.next_multiple_of(4);
        self.frame = scratch_slot + 4;
        // With a scratch slot there is always a sequence.
        for (to, from) in parallel_moves::sequence(&wanted, Some(scratch_slot)).unwrap_or_default() {
            let mut load = self.frame_access(sass::Op::LDL, from, scratch, 1);
            let own = work.slot_to_slot.iter().find(|(_, at, value)| {
                let words = u32::from(self.function.values[*value].words);
                (*at..at + 4 * words).contains(&from)
            });
            if let Some((_, at, value)) = own {
                load[0].origin = Origin::Load(*value, ((from - at) / 4) as u8);
            }
            mach_insts.extend(load);
            mach_insts.extend(self.frame_access(sass::Op::STL, to, scratch, 1));
            self.code.spill_loads += 4;
            self.code.spill_stores += 4;
        }
        for (slot, value) in &work.constants {
            mach_insts.extend(self.reload(*value, scratch)?);
            mach_insts.extend(self.frame_access(sass::Op::STL, *slot, scratch, 1));
            self.code.spill_stores += 4;
        }
        Ok(true)
    }

    /// A register that is free on both sides of the edge and in its moves.
    fn scratch_on_edge(&self, block: Block, edge: &Edge, file: File, work: &EdgeWork) -> Option<u8> {
        let mut used = [false; 256];
        for (value, reg) in self.exit_regs[block.index()].iter().chain(&self.entry_regs[edge.to.index()]) {
            let data = self.function.values[*value];
            if data.file == file {
                used[usize::from(*reg)..usize::from(*reg) + usize::from(data.words)].fill(true);
            }
        }
        for (to, from) in MOVABLE.iter().zip(&work.moves).filter(|(f, _)| **f == file).flat_map(|(_, m)| m) {
            (used[usize::from(*to)], used[usize::from(*from)]) = (true, true);
        }
        let regs = &self.files[self.file(file)];
        let limit = match file {
            File::R => usize::from(self.limits.usable(self.block_limits.on_edge(block, edge.to))),
            _ => regs.len(),
        };
        let free = (0..limit.min(regs.len())).find(|p| !used[*p] && !regs.is_reserved(*p));
        free.map(|p| p as u8).or(self.reserved_scratch(file))
    }
}

impl EdgeWork {
    fn is_empty(&self) -> bool {
        self.moves.iter().all(Vec::is_empty)
            && self.stores.is_empty()
            && self.slot_to_slot.is_empty()
            && self.constants.is_empty()
            && self.loads.is_empty()
    }
}

/// The register of a value.
pub(super) fn find(snapshot: &Snapshot, value: Value) -> Option<u8> {
    snapshot.binary_search_by_key(&value, |(v, _)| *v).ok().map(|i| snapshot[i].1)
}
