//! The register limit of a thread at each block boundary: `USETMAXREG` (PTX `setmaxnreg`) changes it.
//!
//! Forward dataflow with minimum at joins. `DEALLOC` takes effect where it is. `TRY_ALLOC` is in a loop of one block
//! that is left when it has succeeded: its registers are available on the edges that leave the loop. Limits only fall
//! during the iteration and take few values, so the fixed point is reached quickly; without `USETMAXREG` there is one
//! pass.

use super::reg_file::Limits;
use crate::mach::inst::{MachFunction, Origin};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Function, InstData, Op};
use sass::{Isa, Kind, M};

/// The effect of an operation on the register limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Released(u32),
    Granted(u32),
}

fn change(data: &InstData) -> Option<Change> {
    if data.op != Op::Machine(sass::Op::USETMAXREG) {
        return None;
    }
    let count =
        data.args.iter().find_map(|a| if let Arg::Imm(n) = a { u32::try_from(*n).ok() } else { None });
    match data.modifiers.contains(&M::DEALLOC) {
        true => count.map(Change::Released),
        false => count.map(Change::Granted),
    }
}

/// The limit after an operation, if it was `now` before. Within a block it never rises.
pub fn after(data: &InstData, now: u32) -> u32 {
    match change(data) {
        Some(Change::Released(count) | Change::Granted(count)) => now.min(count),
        None => now,
    }
}

/// The register limits at the entry and exit of each block.
pub struct BlockLimits {
    start: Vec<u32>,
    end: Vec<u32>,
}

impl BlockLimits {
    pub fn new(function: &Function, cfg: &Cfg, limits: &Limits) -> BlockLimits {
        let blocks = function.blocks.len();
        let constant = cfg.order.iter().flat_map(|b| &function.blocks[*b].insts);
        if !{ constant }.any(|i| change(&function.insts[*i]).is_some()) {
            return BlockLimits {
                start: vec![limits.registers; blocks],
                end: vec![limits.registers; blocks],
            };
        }
        let mut all = BlockLimits { start: vec![u32::MAX; blocks], end: vec![u32::MAX; blocks] };
        all.start[Function::ENTRY.index()] = limits.registers;
        // Limits only fall, and take few values.
        let mut changed = true;
        while changed {
            changed = false;
            for block in &cfg.order {
                let (end, beyond) = transfer(function, *block, all.start[block.index()]);
                all.end[block.index()] = end;
                for edge in function.blocks[*block].end.edges() {
                    let count = if edge.to == *block { end } else { beyond };
                    let start = &mut all.start[edge.to.index()];
                    changed |= count < *start;
                    *start = count.min(*start);
                }
            }
        }
        all
    }

    pub fn start(&self, block: Block) -> u32 {
        self.start[block.index()]
    }

    /// The least in a block.
    pub fn min(&self, block: Block) -> u32 {
        self.start[block.index()].min(self.end[block.index()])
    }

    /// On an edge: the registers that both sides have.
    pub fn on_edge(&self, from: Block, to: Block) -> u32 {
        self.end[from.index()].min(self.start[to.index()])
    }

    pub fn max(&self, cfg: &Cfg) -> u32 {
        cfg.order.iter().map(|b| self.start(*b)).max().unwrap_or(0)
    }
}

/// The limit at the exit of a block, and on its edges to other blocks.
fn transfer(function: &Function, block: Block, start: u32) -> (u32, u32) {
    let (mut now, mut granted) = (start, None);
    for inst in &function.blocks[block].insts {
        let data = &function.insts[*inst];
        now = after(data, now);
        if let Some(Change::Granted(count)) = change(data) {
            granted = Some(count);
        }
    }
    (now, granted.unwrap_or(now))
}

/// Checks that no instruction accesses a register above the limit.
pub fn check(function: &Function, code: &MachFunction, limits: &Limits, isa: Isa) -> Result<(), String> {
    let block_limits = BlockLimits::new(function, &Cfg::new(function), limits);
    for block in &code.order {
        let mut now = block_limits.start(*block);
        for mach_inst in &code.blocks[block.index()] {
            let inst = sass::Inst::new(isa, mach_inst.op, &mach_inst.modifiers, &mach_inst.operands);
            for access in inst.map_err(|e| e.to_string())?.registers().filter(|a| a.file == Kind::R) {
                if u32::from(access.first) + u32::from(access.count) > u32::from(limits.usable(now)) {
                    let name = mach_inst.op.name();
                    return Err(format!("{block}: {name} uses R{} of {now} registers", access.first));
                }
            }
            if let Origin::Inst(inst) = mach_inst.origin {
                now = after(&function.insts[inst], now);
            }
        }
    }
    Ok(())
}
