//! Single warps in time: when each instruction issued, and what the warp waited for before it.
//!
//! * [`super::watch`] logs the warps of a launch's first block.
//! * [`walk`] is for code without a launch: one warp alone goes through it from the first to the last instruction. No
//!   branch is taken; each access is of all lanes side by side, without bank conflicts, and found in the L2; barriers
//!   and copies of the bulk units are over at once.
//! * Between two steps, the cycles of the stalls add up: no cycle is without a reason.

use super::code::{Effect, Info, Reason, infos};
use super::memory::{Memory, Sharing};
use super::parameters::Parameters;
use super::sm::Sm;
use crate::coalescing::{self, LINE};
use crate::lanes::LANES;
use crate::sass::Program;
use crate::sass::program::{Action, Step as Decoded};
use crate::sass::trace::{BlockTrace, Extra, Record, WarpTrace, shape};
use std::ops::Range;

/// An instruction that a warp issued.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Its index in the program.
    pub index: usize,
    /// When it issued.
    pub cycle: u64,
    /// What the warp waited for since the step before, in the order of time, and for how many cycles.
    pub stalls: Vec<(Reason, u64)>,
    /// When its sources are read, if a scoreboard says so.
    pub read: Option<u64>,
    /// When its results are there, if a scoreboard says so.
    pub there: Option<u64>,
}

/// The steps of a warp.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WarpLog {
    /// Its number in the block.
    pub warp: usize,
    /// When it began.
    pub start: u64,
    /// When it was done, its stores included.
    pub end: u64,
    /// Its first steps.
    pub steps: Vec<Step>,
    /// Steps in all.
    pub executed: u64,
    most: usize,
    stalls: Vec<(Reason, u64)>,
}

impl WarpLog {
    pub(super) fn new(warp: usize, start: u64, most: usize) -> WarpLog {
        WarpLog { warp, start, most, ..WarpLog::default() }
    }

    pub(super) fn stall(&mut self, reason: Reason, cycles: u64) {
        match self.stalls.last_mut() {
            _ if cycles == 0 => {}
            Some((last, sum)) if *last == reason => *sum += cycles,
            _ => self.stalls.push((reason, cycles)),
        }
    }

    pub(super) fn issue(&mut self, index: usize, cycle: u64) {
        let stalls = std::mem::take(&mut self.stalls);
        self.executed += 1;
        if self.steps.len() < self.most {
            self.steps.push(Step { index, cycle, stalls, ..Step::default() });
        }
    }

    /// The step that was issued last, if it is logged.
    pub(super) fn last(&mut self) -> Option<&mut Step> {
        let is_logged = self.executed == self.steps.len() as u64;
        self.steps.last_mut().filter(|_| is_logged)
    }
}

/// One warp goes through the instructions of this range, which are of one function. `None`: there are none.
pub fn walk(program: &Program, range: Range<usize>, p: &Parameters) -> Option<WarpLog> {
    let (code, steps) = (program.code().get(range.clone())?, program.steps().get(range.clone())?);
    let infos = infos(program.target().isa, code, steps, p);
    let memory = Memory::new(p, p.l1_bytes as u32, 1.0, true, Sharing::default());
    let mut sm = Sm::new(&infos, p, memory).watching(code.len());
    let mut block = Some(BlockTrace { warps: vec![straight(&infos, steps)], phases: Vec::new() });
    let Ok(()) = sm.run(1, || Ok::<_, std::convert::Infallible>(block.take()));
    let mut log = sm.logs.pop()?;
    log.steps.iter_mut().for_each(|step| step.index += range.start);
    Some(log)
}

/// Each instruction once, of all lanes.
fn straight(infos: &[Info], steps: &[Decoded]) -> WarpTrace {
    let mut trace = WarpTrace::default();
    for ((info, step), pc) in infos.iter().zip(steps).zip(0..) {
        let extra = match access(pc, info, &step.action) {
            None => Record::PLAIN,
            Some(extra) => {
                trace.extras.push(extra);
                (trace.extras.len() - 1) as u32
            }
        };
        trace.records.push(Record { pc, mask: u32::MAX, extra });
    }
    trace
}

/// An access of memory of its own by all lanes, side by side.
fn access(pc: u32, info: &Info, action: &Action) -> Option<Extra> {
    let (bytes, mask) = shape(action, u32::MAX)?;
    let all = u64::from(bytes) * u64::from(mask.count_ones());
    let passes = all.div_ceil(LINE);
    // Lines that no other access has.
    let lines = || coalescing::run(u64::from(pc) * LANES as u64 * LINE, all).into();
    match info.effect {
        Effect::Copy => Some(Extra::Copy { lines: lines(), passes: passes as u16 }),
        Effect::Shared { .. } => Some(Extra::Shared { passes: passes as u16, least: passes as u8, same: 1 }),
        Effect::Global(_) => Some(Extra::Global { lines: lines(), strong: false, same: 1 }),
        _ => None,
    }
}
