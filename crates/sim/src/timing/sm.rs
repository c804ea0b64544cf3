//! One SM in time: four sub-cores that issue, their pipes, queues and register banks.
//!
//! * A sub-core issues one instruction in a cycle: of the warp that issued last, if that can go on, else of the youngest
//!   that can (Huerta et al. 2025 call it greedy, then youngest). A warp that yields leaves out a cycle.
//! * A warp's next instruction may issue once the stall count of the one before is over, it is fetched, its scoreboards
//!   are zero and no barrier holds the warp: all times that are known when the one before issues, or when the last warp
//!   comes to the barrier. Then it needs its pipe, a place in its queue, and the ports of the register file.
//! * What an access costs is known when it issues: queues serve in the order of issue ([`super::memory`]).
//! * Each cycle of a warp counts for one reason, at the instruction that it could not issue; waiting at a barrier, a
//!   fence or asleep at that instruction itself. In a log of the warp, all of them are before the instruction that
//!   issues next.

use super::code::{Access, Effect, Info, Pipe, Reason};
use super::fetch::Fetch;
use super::memory::{Memory, Request};
use super::parameters::Parameters;
use super::timeline::{Step, WarpLog};
use crate::coalescing::{LINE, SECTOR};
use crate::sass::trace::{BlockTrace, Extra, Phase, Record, WarpTrace};
use sass::SCOREBOARDS;
use std::collections::VecDeque;

/// Sub-cores of an SM.
pub const CORES: usize = sass::Target::PARTITIONS as usize;
const NEVER: u64 = u64::MAX;
const BANKS: usize = 2;

/// What became of each instruction.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// How often warps executed it, and lanes.
    pub executed: u64,
    /// See `executed`.
    pub lanes: u64,
    /// Cycles of warps by reason.
    pub cycles: [u64; Reason::COUNT],
    /// Sectors of global memory, and passes through shared memory that conflicts cost.
    pub sectors: u64,
    /// See `sectors`.
    pub conflicts: u64,
}

/// What an SM did.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// By instruction of the program.
    pub instructions: Vec<Count>,
    /// When blocks ended, in the order of their ends.
    pub ends: Vec<u64>,
    /// Cycles in which pipes of all sub-cores were busy.
    pub busy: [u64; Pipe::COUNT],
    /// Instructions issued.
    pub issued: u64,
    /// Waits for barriers that nothing in the run would have ended, because others than the blocks of this SM take part.
    pub assumed: u64,
}

/// Times of the last signals of a scoreboard.
#[derive(Clone, Debug, Default)]
struct Board {
    /// In order.
    pending: Vec<u64>,
    reason: Option<Reason>,
}

impl Board {
    fn signal(&mut self, now: u64, time: u64, reason: Reason) {
        self.pending.retain(|pending| *pending > now);
        if self.pending.last().is_none_or(|last| time >= *last) {
            self.reason = Some(reason);
        }
        let at = self.pending.partition_point(|pending| *pending <= time);
        self.pending.insert(at, time);
    }

    /// A group on it ends after those before it.
    fn signal_in_order(&mut self, now: u64, time: u64, reason: Reason) {
        let last = self.pending.last().copied().unwrap_or(0);
        self.signal(now, time.max(last), reason);
    }

    /// When so few are left.
    fn time(&self, left: usize) -> u64 {
        self.pending.len().checked_sub(left + 1).map_or(0, |index| self.pending[index])
    }
}

/// What a warp waits for before its next instruction may issue, in the order in which cycles count for it.
#[derive(Clone, Copy, Debug)]
struct Holds([(u64, Reason); 6]);

/// Places in [`Holds`].
const STALL: usize = 0;
const BARRIER: usize = 1;
const FENCE: usize = 2;
const FETCH: usize = 3;
const CONSTANT: usize = 4;
const SCOREBOARD: usize = 5;

impl Holds {
    fn new() -> Holds {
        use Reason::*;
        Holds([(0, Wait), (0, Barrier), (0, Membar), (0, NoInstruction), (0, ImcMiss), (0, LongScoreboard)])
    }

    fn end(&self) -> u64 {
        self.0.iter().map(|(time, _)| *time).max().unwrap_or(0)
    }
}

struct Warp {
    trace: WarpTrace,
    next: usize,
    block: usize,
    core: usize,
    /// When it issued last, or the cycle before it began.
    issued: u64,
    /// The instruction that it issued last.
    last: usize,
    holds: Holds,
    /// When nothing holds it.
    ready: u64,
    /// From then on cycles count for `state`.
    seen: u64,
    state: Reason,
    boards: [Board; SCOREBOARDS as usize],
    /// When copies are done that are in no group yet: its own, those of bulk units.
    copies: [u64; 2],
    /// When groups of MMAs are done, and those that are in none yet.
    products: VecDeque<u64>,
    open_products: u64,
    /// When its last memory instruction was dispatched.
    dispatched: u64,
    done: bool,
    log: Option<Box<WarpLog>>,
}

struct PhaseState {
    left: u32,
    time: u64,
    /// Warps that wait, and cycles that each takes then.
    waiting: Vec<(usize, u64)>,
}

struct Block {
    phases: Vec<PhaseState>,
    warps_left: usize,
    end: u64,
}

struct Core {
    /// Warps, the oldest first.
    warps: Vec<usize>,
    last: Option<usize>,
    /// Nothing happens before.
    wake: u64,
    pipes: [u64; Pipe::COUNT],
    banks: [u64; BANKS],
    /// What the operand cache keeps: warp and register.
    kept: Vec<Option<(usize, u8)>>,
    keeps: bool,
    /// When instructions leave the queues Mio, Lg and Tex, and the tensor core.
    queues: [VecDeque<u64>; 4],
    /// When the next one can leave for the load and store units.
    sends: u64,
}

impl Core {
    fn new() -> Core {
        Core {
            warps: Vec::new(),
            last: None,
            wake: 0,
            pipes: [0; Pipe::COUNT],
            banks: [0; BANKS],
            kept: vec![None; sass::model::cache::SLOTS],
            keeps: false,
            queues: Default::default(),
            sends: 0,
        }
    }
}

/// The queue of a pipe that has one.
fn queue(pipe: Pipe) -> Option<(usize, Reason)> {
    Some(match pipe {
        Pipe::Mio => (0, Reason::MioThrottle),
        Pipe::Lg => (1, Reason::LgThrottle),
        Pipe::Tex => (2, Reason::TexThrottle),
        _ => return None,
    })
}

const PRODUCTS: usize = 3;

/// The SM.
pub struct Sm<'c> {
    infos: &'c [Info],
    p: &'c Parameters,
    cores: Vec<Core>,
    warps: Vec<Warp>,
    blocks: Vec<Block>,
    fetch: Fetch,
    constants: Constants,
    /// Behind it.
    pub memory: Memory,
    /// When the load and store units take the next instruction.
    units: u64,
    next_core: usize,
    now: u64,
    /// What it did.
    pub counts: Counts,
    /// Steps of each warp of the first block that are logged at most.
    most_steps: usize,
    /// The logs of its warps, in the order of their ends.
    pub logs: Vec<WarpLog>,
}

/// The first constant cache: lines in the order of their use.
struct Constants {
    lines: Vec<u64>,
    most: usize,
    bytes: u64,
    miss: u64,
}

impl Constants {
    /// Cycles that a constant takes longer.
    fn late(&mut self, bank: u8, offset: u32) -> u64 {
        let line = (u64::from(bank) << 32) | (u64::from(offset) / self.bytes);
        match self.lines.iter().rposition(|known| *known == line) {
            Some(at) if at + 1 == self.lines.len() => 0,
            Some(at) => {
                self.lines[at..].rotate_left(1);
                0
            }
            None => {
                if self.lines.len() >= self.most {
                    self.lines.remove(0);
                }
                self.lines.push(line);
                self.miss
            }
        }
    }
}

impl<'c> Sm<'c> {
    /// An SM with nothing on it.
    pub fn new(infos: &'c [Info], p: &'c Parameters, memory: Memory) -> Sm<'c> {
        let constants = Constants {
            lines: Vec::new(),
            most: (p.constant_lines as usize).max(1),
            bytes: (p.constant_line_bytes as u64).max(1),
            miss: p.constant_miss_cycles as u64,
        };
        let counts = Counts { instructions: vec![Count::default(); infos.len()], ..Counts::default() };
        Sm {
            infos,
            p,
            cores: (0..CORES).map(|_| Core::new()).collect(),
            warps: Vec::new(),
            blocks: Vec::new(),
            fetch: Fetch::new(infos.len(), CORES, p),
            constants,
            memory,
            units: 0,
            next_core: 0,
            now: 0,
            counts,
            most_steps: 0,
            logs: Vec::new(),
        }
    }

    /// Logs the warps of the first block, so many steps of each.
    pub fn watching(self, most_steps: usize) -> Sm<'c> {
        Sm { most_steps, ..self }
    }

    /// Runs blocks, so many at a time, until there are no more.
    pub fn run<E>(
        &mut self,
        resident: u32,
        mut next: impl FnMut() -> Result<Option<BlockTrace>, E>,
    ) -> Result<(), E> {
        let mut ended = 0;
        for index in 0..u64::from(resident) {
            let Some(block) = next()? else { break };
            self.start(block, index * self.p.block_start_interval as u64);
        }
        loop {
            let issued = (0..CORES).fold(false, |any, core| self.cycle(core) | any);
            while ended < self.counts.ends.len() {
                ended += 1;
                if let Some(block) = next()? {
                    self.start(block, self.now + self.p.block_launch_cycles as u64);
                }
            }
            let wake = self.cores.iter().map(|core| core.wake).min().unwrap_or(NEVER);
            self.now = match (issued, wake) {
                (true, _) => self.now + 1,
                (false, NEVER) if self.cores.iter().all(|core| core.warps.is_empty()) => break,
                (false, NEVER) => {
                    self.let_go();
                    self.now + 1
                }
                (false, wake) => wake.max(self.now + 1),
            };
        }
        self.counts.ends.sort_unstable();
        Ok(())
    }

    fn start(&mut self, block: BlockTrace, time: u64) {
        let number = self.blocks.len();
        let phase = |left: &u32| PhaseState { left: *left, time: 0, waiting: Vec::new() };
        let phases = block.phases.iter().map(phase).collect();
        self.blocks.push(Block { phases, warps_left: block.warps.len(), end: time });
        let is_watched = number == 0 && self.most_steps > 0;
        for (trace, of_block) in block.warps.into_iter().zip(0..) {
            let core = self.next_core;
            self.next_core = (core + 1) % CORES;
            let index = self.warps.len();
            self.warps.push(Warp {
                trace,
                next: 0,
                block: number,
                core,
                issued: time,
                last: 0,
                holds: Holds::new(),
                ready: time,
                seen: time,
                state: Reason::NotSelected,
                boards: Default::default(),
                copies: [0; 2],
                products: VecDeque::new(),
                open_products: 0,
                dispatched: 0,
                done: false,
                log: is_watched.then(|| Box::new(WarpLog::new(of_block, time, self.most_steps))),
            });
            self.cores[core].warps.push(index);
            if self.warps[index].trace.records.is_empty() {
                self.end_warp(index, time);
            } else {
                self.hold(index, time, 0, false);
            }
        }
    }

    /// A cycle of a sub-core. Says whether it issued.
    fn cycle(&mut self, core: usize) -> bool {
        let now = self.now;
        if self.cores[core].wake > now {
            return false;
        }
        let (mut wake, mut chosen) = (NEVER, None);
        let last = self.cores[core].last;
        for at in 0..self.cores[core].warps.len() {
            let index = self.cores[core].warps[at];
            let ready = self.warps[index].ready;
            if ready > now {
                wake = wake.min(ready);
                continue;
            }
            let state = match self.obstacle(core, index) {
                None => {
                    // The youngest is the last; the one that issued before comes first of all.
                    if chosen.is_none() || chosen != last {
                        chosen = Some(index);
                    }
                    Reason::NotSelected
                }
                Some((reason, until)) => {
                    wake = wake.min(until.max(now + 1));
                    reason
                }
            };
            let warp = &mut self.warps[index];
            let pc = warp.trace.records[warp.next].pc as usize;
            self.counts.instructions[pc].cycles[warp.state as usize] += now - warp.seen;
            if let Some(log) = &mut warp.log {
                log.stall(warp.state, now - warp.seen);
            }
            (warp.seen, warp.state) = (now, state);
        }
        let Some(index) = chosen else {
            self.cores[core].wake = wake;
            return false;
        };
        self.cores[core].wake = now + 1;
        self.issue(core, index);
        true
    }

    /// What keeps an instruction from issuing that nothing holds, and until when.
    fn obstacle(&mut self, core: usize, index: usize) -> Option<(Reason, u64)> {
        let now = self.now;
        let warp = &self.warps[index];
        let info = &self.infos[warp.trace.records[warp.next].pc as usize];
        let core = &mut self.cores[core];
        if let Some((number, reason)) = queue(info.pipe) {
            let most = if info.pipe == Pipe::Mio { self.p.mio_queue } else { self.p.lg_queue };
            return full(&mut core.queues[number], now, most).map(|until| (reason, until));
        }
        if let Effect::Wgmma { .. } = info.effect {
            let until = full(&mut core.queues[PRODUCTS], now, self.p.wgmma_queue);
            return until.map(|until| (Reason::MathPipeThrottle, until));
        }
        let free = |pipe: Pipe| core.pipes[pipe as usize];
        let until = match info.pipe {
            Pipe::Control => 0,
            Pipe::Fma => free(Pipe::Fma).min(free(Pipe::FmaHeavy)),
            pipe => free(pipe),
        };
        if until > now {
            return Some((Reason::MathPipeThrottle, until));
        }
        let slack = self.p.operand_slack as u64;
        for read in &info.reads {
            let behind = core.banks[usize::from(read.bank)];
            if behind > now + slack && core.kept[usize::from(read.slot)] != Some((index, read.register)) {
                return Some((Reason::Dispatch, behind - slack));
            }
        }
        None
    }

    fn issue(&mut self, core: usize, index: usize) {
        let now = self.now;
        self.account(index);
        let warp = &mut self.warps[index];
        let record = warp.trace.records[warp.next];
        let pc = record.pc as usize;
        let infos = self.infos;
        let info = &infos[pc];
        let count = &mut self.counts.instructions[pc];
        count.executed += 1;
        count.lanes += u64::from(record.mask.count_ones());
        count.cycles[Reason::Selected as usize] += 1;
        self.counts.issued += 1;
        warp.next += 1;
        (warp.issued, warp.last) = (now, pc);
        if let Some(log) = &mut warp.log {
            log.issue(pc, now);
        }
        self.cores[core].last = Some(index);
        self.occupy(core, index, info);
        let barrier = self.act(core, index, record, info);
        let warp = &self.warps[index];
        if warp.next == warp.trace.records.len() {
            self.end_warp(index, now);
            return;
        }
        let taken = warp.trace.records[warp.next].pc != record.pc + 1;
        let mut stall = info.stall;
        if info.yields && stall == 1 {
            // A yield leaves out the cycle after.
            stall = 2;
        }
        let branch = info.is_branch && taken;
        if branch {
            stall = stall.max(self.p.branch_taken as u64);
        }
        self.hold_after(index, now + stall, branch, barrier);
    }

    /// Pipes and register banks that an instruction takes.
    fn occupy(&mut self, core: usize, index: usize, info: &Info) {
        let now = self.now;
        let core = &mut self.cores[core];
        if !matches!(info.effect, Effect::Wgmma { .. }) && queue(info.pipe).is_none() {
            let pipe = match info.pipe {
                Pipe::Fma if core.pipes[Pipe::Fma as usize] > now => Pipe::FmaHeavy,
                pipe => pipe,
            };
            core.pipes[pipe as usize] = now + info.interval;
            self.counts.busy[pipe as usize] += info.interval;
        }
        let mut last = [u8::MAX; BANKS];
        for read in &info.reads {
            let (slot, bank) = (usize::from(read.slot), usize::from(read.bank));
            let is_kept = core.kept[slot] == Some((index, read.register));
            // A register that occurs twice is read once.
            if !is_kept && last[bank] != read.register {
                core.banks[bank] = core.banks[bank].max(now) + 1;
                last[bank] = read.register;
            }
            core.kept[slot] = read.kept.then_some((index, read.register));
            core.keeps |= read.kept;
        }
        if info.empties && core.keeps {
            core.kept.fill(None);
            core.keeps = false;
        }
    }

    /// An instruction leaves for the load and store units, which it keeps busy for so long: when.
    fn dispatch(&mut self, core: usize, pipe: Pipe, busy: u64) -> u64 {
        let p = self.p;
        let core = &mut self.cores[core];
        let time = self.now.max(core.sends).max(self.units);
        core.sends = time + p.mio_interval as u64;
        self.units = time + busy.max(p.lsu_interval as u64);
        if let Some((number, _)) = queue(pipe) {
            core.queues[number].push_back(time);
        }
        self.counts.busy[pipe as usize] += busy;
        time
    }

    /// The scoreboards of an instruction are signalled when its sources are read, and when its results are there.
    fn signals(&mut self, index: usize, info: &Info, (read, there, reason): (u64, u64, Reason)) {
        self.signal(index, info.read, read, reason);
        self.signal(index, info.write, there, reason);
        if let Some(step) = self.warps[index].log.as_mut().and_then(|log| log.last()) {
            *step = Step {
                read: info.read.and(Some(read)),
                there: info.write.and(Some(there)),
                ..std::mem::take(step)
            };
        }
    }

    fn signal(&mut self, index: usize, board: Option<u8>, time: u64, reason: Reason) {
        if let Some(board) = board.and_then(|board| self.warps[index].boards.get_mut(usize::from(board))) {
            board.signal(self.now, time, reason);
        }
    }

    /// What comes of an instruction. Gives the phase that the warp waits for, with cycles that it takes after it.
    fn act(&mut self, core: usize, index: usize, record: Record, info: &Info) -> Option<(Phase, u64)> {
        let now = self.now;
        let p = self.p;
        let extra = match record.extra {
            Record::PLAIN => None,
            number => {
                Some(std::mem::replace(&mut self.warps[index].trace.extras[number as usize], Extra::Wait(0)))
            }
        };
        let mut result = (now, now, Reason::ShortScoreboard);
        match info.effect {
            Effect::Plain | Effect::WaitGroups { .. } | Effect::WaitScoreboards(_) => {
                result.0 = now + p.read_cycles as u64;
            }
            Effect::WaitWgmma { left } => {
                let done = self.warps[index].products.len().saturating_sub(left.into());
                self.warps[index].products.drain(..done);
            }
            Effect::After(latency, reason) => {
                let time = if queue(info.pipe).is_some() { self.dispatch(core, info.pipe, 1) } else { now };
                result = (time + p.read_cycles as u64, time + latency, reason);
            }
            Effect::Constants => {
                let places = match extra {
                    Some(Extra::Constants { places }) => u64::from(places.max(1)),
                    _ => 1,
                };
                let time = self.dispatch(core, info.pipe, places);
                let latency = p.latency_constant as u64 + places - 1;
                result = (time + p.read_cycles as u64, time + latency, Reason::ShortScoreboard);
            }
            Effect::Shared { latency, atomic } => {
                let (passes, least, same) = match extra {
                    Some(Extra::Shared { passes, least, same }) => {
                        (f64::from(passes), least, f64::from(same))
                    }
                    _ => (1.0, 1, 1.0),
                };
                self.count_shared(record, passes, least);
                let mut busy = (passes / p.shared_passes_per_cycle).ceil() as u64;
                if atomic {
                    busy = busy.max((same * p.atomic_shared_lanes) as u64);
                }
                let time = self.dispatch(core, info.pipe, busy);
                let there = time + latency + busy.max(1) - 1;
                result = (time + p.read_cycles as u64 + busy.max(1) - 1, there, Reason::ShortScoreboard);
            }
            Effect::Global(access) => result = self.global(core, record, info, (access, extra.as_ref())),
            Effect::Texture => {
                let time = self.dispatch(core, info.pipe, 4);
                result =
                    (time + p.read_cycles as u64, time + p.latency_texture as u64, Reason::LongScoreboard);
            }
            Effect::Copy => {
                let (lines, passes) = match &extra {
                    Some(Extra::Copy { lines, passes }) => (&lines[..], u64::from(*passes)),
                    _ => (&[][..], 0),
                };
                let time = self.dispatch(core, info.pipe, self.busy(lines).max(passes));
                let request = Request { lines, bypass: true, same: 1 };
                let there = self.memory.load(time, &request) + passes;
                self.count_sectors(record, lines);
                let warp = &mut self.warps[index];
                warp.copies[0] = warp.copies[0].max(there);
                result = (time + p.read_cycles as u64, there, Reason::LongScoreboard);
            }
            Effect::Bulk => {
                if let Some(Extra::Bulk { lines, bytes, loads, phases }) = &extra {
                    let begin = now + p.latency_bulk as u64;
                    let there = match lines.is_empty() {
                        // Between the shared memories of a cluster.
                        true => begin + u64::from(*bytes) / LINE,
                        false => self.memory.bulk(begin, lines, *loads),
                    };
                    self.count_sectors(record, lines);
                    let warp = &mut self.warps[index];
                    warp.copies[1] = warp.copies[1].max(there);
                    let block = warp.block;
                    phases.iter().for_each(|phase| self.contribute(block, *phase, there));
                    result.2 = Reason::LongScoreboard;
                }
                result.0 = now + p.read_cycles as u64;
            }
            Effect::CloseGroup { scoreboard, bulk } => {
                let warp = &mut self.warps[index];
                let time = std::mem::take(&mut warp.copies[usize::from(bulk)]).max(now);
                if let Some(board) = warp.boards.get_mut(usize::from(scoreboard)) {
                    board.signal_in_order(now, time, Reason::LongScoreboard);
                }
                if let Some(step) = warp.log.as_mut().and_then(|log| log.last()) {
                    step.there = Some(time);
                }
                return None;
            }
            Effect::Wgmma { cycles, closes } => {
                let core = &mut self.cores[core];
                let begin = now.max(core.pipes[Pipe::Tensor as usize]);
                let end = begin + cycles;
                core.pipes[Pipe::Tensor as usize] = end;
                core.queues[PRODUCTS].push_back(begin);
                self.counts.busy[Pipe::Tensor as usize] += cycles;
                let warp = &mut self.warps[index];
                warp.open_products = warp.open_products.max(end + p.wgmma_latency as u64);
                if closes {
                    warp.products.push_back(std::mem::take(&mut warp.open_products));
                }
            }
            Effect::Membar => {
                self.warps[index].holds.0[FENCE] = (now + p.latency_membar as u64, Reason::Membar);
                result.1 = now + p.latency_membar as u64;
            }
            Effect::Sleep => {
                self.warps[index].holds.0[FENCE] = (now + p.sleep_cycles as u64, Reason::Sleeping);
            }
            Effect::Barrier { latency, after_copies } => {
                let block = self.warps[index].block;
                let copied = if after_copies { self.warps[index].copies[0] } else { 0 };
                let wait = match extra {
                    Some(Extra::Arrive(phases)) => {
                        let time = (now + latency).max(copied);
                        phases.iter().for_each(|phase| self.contribute(block, *phase, time));
                        None
                    }
                    Some(Extra::Meet(phase)) => {
                        self.contribute(block, phase, now);
                        Some((phase, latency))
                    }
                    Some(Extra::Wait(phase)) => Some((phase, latency)),
                    _ => None,
                };
                result = (now + p.read_cycles as u64, now + latency, Reason::ShortScoreboard);
                self.signals(index, info, result);
                return wait;
            }
        }
        self.warps[index].dispatched = self.warps[index].dispatched.max(result.0);
        self.signals(index, info, result);
        None
    }

    /// Cycles that lines keep the load and store units busy.
    fn busy(&self, lines: &[crate::coalescing::Line]) -> u64 {
        let sectors: u32 = lines.iter().map(|line| line.sectors.count_ones()).sum();
        let tags = (lines.len() as f64 / self.p.tags_per_cycle).ceil();
        let data = (f64::from(sectors) * SECTOR as f64 / self.p.l1_bytes_per_cycle).ceil();
        tags.max(data) as u64
    }

    /// When an access of global memory has read its registers, when its result is there.
    fn global(
        &mut self,
        core: usize,
        record: Record,
        info: &Info,
        (access, extra): (Access, Option<&Extra>),
    ) -> (u64, u64, Reason) {
        let read = self.p.read_cycles as u64;
        let (lines, strong, same) = match extra {
            Some(Extra::Global { lines, strong, same }) => (&lines[..], *strong, *same),
            // Generic addresses of shared memory.
            Some(Extra::Shared { passes, least, .. }) => {
                self.count_shared(record, f64::from(*passes), *least);
                let time = self.dispatch(core, info.pipe, u64::from(*passes));
                let there = time + self.p.latency_shared as u64 + u64::from(*passes).max(1) - 1;
                return (time + read, there, Reason::ShortScoreboard);
            }
            _ => {
                let time = self.dispatch(core, info.pipe, 1);
                return (time + read, time + self.p.latency_other as u64, Reason::LongScoreboard);
            }
        };
        let busy = self.busy(lines);
        let time = self.dispatch(core, info.pipe, busy);
        self.count_sectors(record, lines);
        let request = Request { lines, bypass: strong, same };
        let there = match access {
            Access::Load => self.memory.load(time, &request) + busy.max(1) - 1,
            Access::Store => self.memory.store(time, &request),
            Access::Atomic { .. } => self.memory.atomic(time, &request),
        };
        let there = if access == Access::Load || access == (Access::Atomic { returns: true }) {
            there
        } else {
            time + read
        };
        (time + read + busy.max(1) - 1, there, Reason::LongScoreboard)
    }

    fn count_sectors(&mut self, record: Record, lines: &[crate::coalescing::Line]) {
        let sectors: u32 = lines.iter().map(|line| line.sectors.count_ones()).sum();
        self.counts.instructions[record.pc as usize].sectors += u64::from(sectors);
    }

    /// Counts passes, and those beyond what the bytes need.
    fn count_shared(&mut self, record: Record, passes: f64, least: u8) {
        let traffic = &mut self.memory.traffic;
        traffic.shared += 1;
        traffic.passes += passes as u64;
        let conflicts = (passes as u64).saturating_sub(least.into());
        traffic.conflicts += conflicts;
        self.counts.instructions[record.pc as usize].conflicts += conflicts;
    }

    /// Something counts in a phase of a barrier.
    fn contribute(&mut self, block: usize, phase: Phase, time: u64) {
        let Some(state) = self.blocks[block].phases.get_mut(phase as usize) else { return };
        state.left = state.left.saturating_sub(1);
        state.time = state.time.max(time);
        if state.left == 0 {
            let (time, waiting) = (state.time, std::mem::take(&mut state.waiting));
            waiting.into_iter().for_each(|(warp, latency)| self.release(warp, time + latency));
        }
    }

    fn release(&mut self, index: usize, time: u64) {
        let warp = &mut self.warps[index];
        warp.holds.0[BARRIER].0 = time;
        warp.ready = warp.holds.end().max(self.now + 1);
        warp.seen = warp.ready;
        self.cores[warp.core].wake = self.cores[warp.core].wake.min(warp.ready);
    }

    /// Nobody can go on: those that wait for what is not in the run go on now.
    fn let_go(&mut self) {
        for block in 0..self.blocks.len() {
            for phase in 0..self.blocks[block].phases.len() {
                let waiting = std::mem::take(&mut self.blocks[block].phases[phase].waiting);
                for (warp, latency) in waiting {
                    self.counts.assumed += 1;
                    self.release(warp, self.now + latency);
                }
            }
        }
    }

    /// What holds the next instruction after one that issued.
    fn hold_after(&mut self, index: usize, stall: u64, branch: bool, barrier: Option<(Phase, u64)>) {
        self.hold(index, stall, stall, branch);
        let Some((phase, latency)) = barrier else { return };
        let warp = &mut self.warps[index];
        let Some(state) = self.blocks[warp.block].phases.get_mut(phase as usize) else { return };
        if state.left == 0 {
            let time = state.time.max(self.now) + latency;
            self.release(index, time);
        } else {
            state.waiting.push((index, latency));
            warp.holds.0[BARRIER].0 = NEVER;
            warp.ready = NEVER;
        }
    }

    fn hold(&mut self, index: usize, from: u64, stall: u64, branch: bool) {
        let now = self.now.max(self.warps[index].issued);
        let warp = &self.warps[index];
        let pc = warp.trace.records[warp.next].pc;
        let info = &self.infos[pc as usize];
        let fetched = self.fetch.ready(warp.core, pc, now);
        let late = info.constant.map_or(0, |(bank, offset)| self.constants.late(bank, offset));
        let warp = &mut self.warps[index];
        let fence = warp.holds.0[FENCE];
        let mut holds = Holds::new();
        holds.0[STALL] = (stall, if branch { Reason::BranchResolve } else { Reason::Wait });
        holds.0[FENCE] = if fence.0 > now { fence } else { (0, Reason::Membar) };
        holds.0[FETCH].0 = fetched;
        if late > 0 {
            holds.0[CONSTANT].0 = from.max(fetched) + late;
        }
        holds.0[SCOREBOARD] = warp.scoreboards(info);
        warp.holds = holds;
        warp.ready = holds.end().max(from);
        (warp.seen, warp.state) = (warp.ready, Reason::NotSelected);
        let wake = &mut self.cores[warp.core].wake;
        *wake = (*wake).min(warp.ready);
    }

    fn end_warp(&mut self, index: usize, time: u64) {
        let warp = &mut self.warps[index];
        if std::mem::replace(&mut warp.done, true) {
            return;
        }
        let end = (time + 1).max(warp.dispatched);
        self.counts.instructions[warp.last].cycles[Reason::Drain as usize] += end - time - 1;
        warp.trace = WarpTrace::default();
        if let Some(mut log) = warp.log.take() {
            log.end = end;
            self.logs.push(*log);
        }
        let core = &mut self.cores[warp.core];
        core.warps.retain(|other| *other != index);
        let block = &mut self.blocks[warp.block];
        block.end = block.end.max(end);
        block.warps_left -= 1;
        if block.warps_left == 0 {
            block.phases = Vec::new();
            self.counts.ends.push(block.end);
        }
    }

    /// Counts the cycles from the last issue of a warp to the time that nothing held it any more.
    fn account(&mut self, index: usize) {
        let warp = &mut self.warps[index];
        let pc = warp.trace.records[warp.next].pc as usize;
        let mut at = warp.issued + 1;
        for (time, reason) in warp.holds.0 {
            if time > at && time != NEVER {
                let own = matches!(reason, Reason::Barrier | Reason::Membar | Reason::Sleeping);
                let pc = if own { warp.last } else { pc };
                self.counts.instructions[pc].cycles[reason as usize] += time - at;
                if let Some(log) = &mut warp.log {
                    log.stall(reason, time - at);
                }
                at = time;
            }
        }
    }
}

/// Is a queue full, and until when?
fn full(queue: &mut VecDeque<u64>, now: u64, most: f64) -> Option<u64> {
    while queue.front().is_some_and(|time| *time <= now) {
        queue.pop_front();
    }
    if queue.len() >= most as usize { queue.front().copied() } else { None }
}

impl Warp {
    /// Until when scoreboards hold an instruction, and which kind.
    fn scoreboards(&self, info: &Info) -> (u64, Reason) {
        let mut hold = (0, Reason::LongScoreboard);
        let mut wait = |time: u64, reason: Option<Reason>| {
            if time > hold.0 {
                hold = (time, reason.unwrap_or(Reason::LongScoreboard));
            }
        };
        let mut mask = info.wait;
        if let Effect::WaitScoreboards(more) = info.effect {
            mask |= more;
        }
        for (number, board) in self.boards.iter().enumerate() {
            if mask >> number & 1 == 1 {
                wait(board.time(0), board.reason);
            }
        }
        match info.effect {
            Effect::WaitGroups { scoreboard, left } => {
                if let Some(board) = self.boards.get(usize::from(scoreboard)) {
                    wait(board.time(left.into()), board.reason);
                }
            }
            Effect::WaitWgmma { left } => {
                let index = self.products.len().checked_sub(usize::from(left) + 1);
                wait(index.map_or(0, |index| self.products[index]), Some(Reason::Gmma));
            }
            _ => {}
        }
        hold
    }
}
