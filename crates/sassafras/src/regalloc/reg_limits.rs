//! How many registers a thread has at each place: `USETMAXREG` changes it.
//!
//! `DEALLOC` takes effect where it stands. `TRY_ALLOC` stands in a loop of one block, which is left when it has
//! succeeded: its registers are there on the edges out of the loop. Where ways meet, the least count holds.

use super::reg_file::Limits;
use crate::mach::inst::{MachFunction, Origin};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Function, InstData, Op};
use sass::{Isa, Kind, M};

/// What an operation does to the thread's registers.
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

/// The count from this operation on, if there were `now` before. Both only ever take away here.
pub fn after(data: &InstData, now: u32) -> u32 {
    match change(data) {
        Some(Change::Released(count) | Change::Granted(count)) => now.min(count),
        None => now,
    }
}

/// The counts at the beginning and the end of each block.
pub struct Ceilings {
    start: Vec<u32>,
    end: Vec<u32>,
}

impl Ceilings {
    pub fn new(function: &Function, cfg: &Cfg, limits: &Limits) -> Ceilings {
        let blocks = function.blocks.len();
        let constant = cfg.order.iter().flat_map(|b| &function.blocks[*b].insts);
        if !{ constant }.any(|i| change(&function.insts[*i]).is_some()) {
            return Ceilings { start: vec![limits.registers; blocks], end: vec![limits.registers; blocks] };
        }
        let mut all = Ceilings { start: vec![u32::MAX; blocks], end: vec![u32::MAX; blocks] };
        all.start[Function::ENTRY.index()] = limits.registers;
        // Counts only fall, and there are few of them.
        let mut changed = true;
        while changed {
            changed = false;
            for block in &cfg.order {
                let (end, beyond) = through(function, *block, all.start[block.index()]);
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

    /// The least anywhere in a block.
    pub fn least(&self, block: Block) -> u32 {
        self.start[block.index()].min(self.end[block.index()])
    }

    /// On an edge: what both sides have.
    pub fn on_edge(&self, from: Block, to: Block) -> u32 {
        self.end[from.index()].min(self.start[to.index()])
    }

    pub fn most(&self, cfg: &Cfg) -> u32 {
        cfg.order.iter().map(|b| self.start(*b)).max().unwrap_or(0)
    }
}

/// The count at the end of a block, and on the edges that leave it for another.
fn through(function: &Function, block: Block, start: u32) -> (u32, u32) {
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

/// No line touches a register that the thread may not have there.
pub fn check(function: &Function, code: &MachFunction, limits: &Limits, isa: Isa) -> Result<(), String> {
    let ceilings = Ceilings::new(function, &Cfg::new(function), limits);
    for block in &code.order {
        let mut now = ceilings.start(*block);
        for line in &code.blocks[block.index()] {
            let inst = sass::Inst::new(isa, line.op, &line.modifiers, &line.operands);
            for access in inst.map_err(|e| e.to_string())?.registers().filter(|a| a.file == Kind::R) {
                if u32::from(access.first) + u32::from(access.count) > u32::from(limits.usable(now)) {
                    let name = line.op.name();
                    return Err(format!("{block}: {name} uses R{} of {now} registers", access.first));
                }
            }
            if let Origin::Inst(inst) = line.origin {
                now = after(&function.insts[inst], now);
            }
        }
    }
    Ok(())
}
