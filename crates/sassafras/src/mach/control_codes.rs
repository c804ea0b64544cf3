//! Control codes: software scoreboarding. Each instruction gets its stall, the scoreboards it sets, and those it waits
//! for.
//!
//! ```text
//! LDG.E R4, [R2]             --:-:0:-:02  LDG.E R4, [R2]
//! FADD R5, R4, R6       =>   01:-:-:Y:04  FADD R5, R4, R6
//! FMUL R7, R5, R5            --:-:-:-:02  FMUL R7, R5, R5
//! ```
//!
//! * [`serial`], at -O0: each instruction waits for all before it.
//! * [`exact`], from -O1 on: the instructions keep their order, and each issues as soon as the machine model allows.
//!
//! Afterwards every RAW, WAR and WAW dependence on a register is covered by a stall or a scoreboard (`sim::verify` checks
//! it). Straight-line segments are timed one by one in a single walk; accesses that are still pending at the end of one
//! flow to its successors, as a forward dataflow problem (`control_codes/dataflow.rs`). Linear in the code, times the
//! iterations of the dataflow.

mod dataflow;

use crate::analysis::effects::awaits_accesses;
use crate::context::{Context, PassResult};
use crate::mach::inst::{Step, Timed};
use crate::mach::unit;
use sass::model::issue::{
    LONGEST_STALL, LONGEST_WITHOUT_YIELD, WGMMA_ARRIVAL, is_arrival, min_stall, wgmma_interval,
};
use sass::model::{Model, Port, Signal, Touch, Unit, VISIBLE};
use sass::{Class, Control, Inst, Kind, M, Op, Role};
use smallvec::SmallVec;

/// Scoreboards of results (RAW, WAW), and of sources that are read late (WAR).
const RESULT_SCOREBOARDS: std::ops::Range<u8> = 0..4;
const SOURCE_SCOREBOARDS: std::ops::Range<u8> = 4..6;
/// The scoreboard that counts groups of asynchronous copies, and on which `DEPBAR` waits for some of them. Functions
/// that have such groups use it for nothing else: a wait for a scoreboard waits for all that count on it.
const GROUPS: u8 = 0;
/// The scoreboard that tells when a store has been sent that the thread does not wait for otherwise: the `DEPBAR` after
/// it names it (`lower/memory/st_async.rs`).
const ASYNC_STORES: u8 = 5;

/// `st.async` and `red.async` to global memory.
fn is_async_store(inst: &Inst) -> bool {
    matches!(inst.form().op, Op::USTGR | Op::UREDGR)
}

fn is_tensor_load(inst: &Inst) -> bool {
    inst.form().op == Op::LDTM
}

/// `tcgen05.wait::ld` is a NOP, as it is in ptxas's code. It waits for the loads of tensor memory: an instruction that
/// uses their results does, and so does the first one that does more than compute. (In ptxas's code stores and fences
/// issue before the loads are done, even that of an `st.release`; barriers and branches wait.)
fn waits_for_tensor_loads(inst: &Inst) -> bool {
    inst.form().op == Op::NOP
}

fn only_computes(inst: &Inst) -> bool {
    use Class::*;
    let class = inst.form().class;
    matches!(class, Alu | Fma | Wide | Half | Hmma2 | Double | Fp64 | Xu | Uniform)
        || waits_for_tensor_loads(inst)
}

/// Does it end a group? Copies from global memory count as a result, bulk copies as sources.
fn ends_group(inst: &Inst) -> bool {
    matches!(inst.form().op, Op::LDGDEPBAR | Op::UTMACMDFLUSH)
}

pub fn run(unit: &mut unit::Unit, context: &mut Context) -> PassResult {
    let (linear, model) = (&mut unit.linear, Model::of(context.machine.isa));
    linear.timed = match unit.options.level {
        0 => serial(&linear.steps, model),
        _ => exact(&linear.steps, model),
    };
    Ok(())
}

/// The recipe of `ptxas -O0`: stall 15, wait for scoreboards 0 and 1; a variable-latency result counts on 0,
/// sources that are read late on 1. NOPs wait for results that take longer than a stall.
pub fn serial(steps: &[Step], model: &Model) -> Vec<Timed> {
    let mut nops = 0;
    let mut all = Vec::with_capacity(steps.len());
    for step in steps {
        let needs = step.inst.form().class.scoreboards();
        let awaited_read = matches!(is_awaited(&step.inst), Some(Signal::Read));
        let awaited_write = matches!(is_awaited(&step.inst), Some(Signal::Write));
        let control = Control {
            stall: LONGEST_STALL as u8,
            yields: true,
            write: (is_counted(&step.inst, model) || awaited_write).then_some(0),
            // Where no register is read, nvdisasm takes no scoreboard for it (CCTL.IVALL, FENCE, LDCU).
            read: match step.inst.form().op {
                Op::UTMACMDFLUSH => Some(GROUPS),
                _ if is_async_store(&step.inst) => Some(ASYNC_STORES),
                _ => (needs.read && reads_registers(&step.inst) || awaited_read).then_some(1),
            },
            // The machine has no form of `WARPGROUP.DEPBAR` that waits for scoreboards.
            wait: if step.inst.form().op == Op::WARPGROUP && !is_arrival(&step.inst) { 0 } else { 0b11 },
            reuse: 0,
        };
        all.push(Timed { control, nops: nop_stalls(nops) });
        let results = model.touches(&step.inst).filter(|t| t.role == Role::Def);
        let settled = results.map(|t| model.settled(t.port)).max().unwrap_or(0);
        nops = settled.saturating_sub(LONGEST_STALL);
    }
    all
}

/// Stalls of NOPs that take so many cycles together.
fn nop_stalls(mut cycles: u16) -> SmallVec<[u8; 2]> {
    let mut all = SmallVec::new();
    while cycles > 0 {
        let stall = cycles.min(LONGEST_STALL);
        all.push(stall as u8);
        cycles -= stall;
    }
    all
}

/// Loads from tensor memory read their address when they issue.
fn reads_registers(inst: &Inst) -> bool {
    if is_tensor_load(inst) {
        return false;
    }
    inst.registers().any(|access| access.role == Role::Use && matches!(access.file, Kind::R | Kind::U))
}

/// Of the branch to itself at the end and of the padding, which never complete.
pub fn padding() -> Control {
    Control { stall: 0, yields: true, write: None, read: None, wait: 0, reuse: 0 }
}

pub fn exact(steps: &[Step], model: &Model) -> Vec<Timed> {
    let mut all: Vec<Timed> = Vec::with_capacity(steps.len());
    let results = if steps.iter().any(|s| ends_group(&s.inst)) {
        GROUPS + 1..RESULT_SCOREBOARDS.end
    } else {
        RESULT_SCOREBOARDS
    };
    let accesses = Accesses::new(steps, model);
    let mut segment = Segment::new(model, results, &accesses);
    let mut segments = Vec::new();
    let drains = drains(steps);
    let mut at = 0;
    while at < steps.len() {
        let mut end = at + 1;
        while end < steps.len() && !steps[end].is_leader && !ends_segment(&steps[end - 1].inst) {
            end += 1;
        }
        segment.begin(at, drains[end - 1]);
        segment.run(&steps[at..end], &mut all);
        segments.push(dataflow::Segment {
            steps: at..end,
            pending_out: segment.pending_out(&steps[at..end], &all),
        });
        at = end;
    }
    dataflow::solve(steps, &accesses, segments, &drains, model, &mut all);
    all
}

/// May control go elsewhere after it?
fn ends_segment(inst: &Inst) -> bool {
    matches!(inst.form().op, Op::BRA | Op::EXIT | Op::RET | Op::CALL | Op::BSYNC | Op::BRX | Op::JMP)
        || changes_threads(inst)
}

/// The steps after which control goes somewhere that is not known here: nothing may be pending then. A reconvergence point
/// is none of them: its `BSSY` names it, so that control goes on to the next instruction.
fn drains(steps: &[Step]) -> Vec<bool> {
    let drains = |s: &Step| match s.inst.form().op {
        Op::CALL | Op::RET | Op::JMP => true,
        Op::BRX => s.targets.is_empty(),
        _ => changes_threads(&s.inst),
    };
    steps.iter().map(drains).collect()
}

fn falls_through(inst: &Inst) -> bool {
    let always = inst.guard == sass::Guard::ALWAYS;
    !(always && matches!(inst.form().op, Op::BRA | Op::EXIT | Op::RET | Op::BRX | Op::JMP))
}

/// Do threads come or go that run the same code at another program point, with other scoreboards pending?
fn changes_threads(inst: &Inst) -> bool {
    inst.op() == Op::ENDCOLLECTIVE || inst.has(sass::M::COLLECTIVE)
}

/// Does it wait for all scoreboards?
fn waits_for_all(inst: &Inst) -> bool {
    awaits_accesses(inst.op()) || changes_threads(inst) || releases_registers(inst)
}

/// Does it wait for groups of copies? Sources that are still to be read, of a copy say, don't matter then: in ptxas's code
/// of Triton's kernels copies are pending that a later instruction waits for.
fn waits_for_groups(inst: &Inst) -> bool {
    inst.form().op == Op::DEPBAR && inst.has(M::LE) && inst.name(0) == M::SB0
}

/// Does a scoreboard tell when its results are there? For some MMA that depends on the machine.
fn is_counted(inst: &Inst, model: &Model) -> bool {
    let class = inst.form().class;
    class.scoreboards().write || class == Class::Tensor && model.unit(inst).writes_late()
}

/// Does it release registers? No result may be pending for one of them.
fn releases_registers(inst: &Inst) -> bool {
    inst.form().op == Op::USETMAXREG && inst.has(M::DEALLOC)
}

/// Does a scoreboard tell when it is done, though its result has no use? ptxas's code has that for all 83 such atomics of
/// the corpus, and for none in shared memory. `DEPBAR` waits for them before the tensor map is read that they write:
/// without, the old map may be read.
fn signals_without_result(inst: &Inst) -> bool {
    matches!(inst.form().op, Op::ATOM | Op::ATOMG)
}

/// Is it done only when a scoreboard says so, though it has no result? Whatever follows waits for that, as it does in
/// ptxas's code.
fn is_awaited(inst: &Inst) -> Option<Signal> {
    match inst.form().op {
        Op::MEMBAR if inst.has(M::CTA) => Some(Signal::Read),
        Op::FENCE | Op::USETMAXREG => Some(Signal::Write),
        Op::SYNCS if inst.has(M::CCTL) && inst.form().class == Class::Store => Some(Signal::Write),
        _ => None,
    }
}

/// Textures and surfaces read tuples of up to four registers and write pairs; the rows name the first of each. How many
/// are accessed depends on dimension and modifiers: this is the widest.
fn widened(touch: Touch, inst: &Inst, unit: Unit) -> Touch {
    let most = match (touch.file, touch.role) {
        // The address of a tensor map is a pair.
        (Kind::U, Role::Use) if inst.form().op == Op::UTMACCTL => 2,
        _ if unit != Unit::Texture => return touch,
        (Kind::R, Role::Use) => 4,
        // A handle is a pair as well.
        (Kind::R, Role::Def) | (Kind::U, _) => 2,
        _ => return touch,
    };
    Touch { count: touch.count.max(most).min(255 - u16::from(touch.first)), ..touch }
}

/// The registers of all steps, in one vector: segments and the dataflow between them ask for them several times.
struct Accesses {
    all: Vec<Touch>,
    /// Where those of each step end, and what runs it.
    steps: Vec<(u32, Unit)>,
}

impl Accesses {
    fn new(steps: &[Step], model: &Model) -> Accesses {
        let mut accesses = Accesses { all: Vec::new(), steps: Vec::with_capacity(steps.len()) };
        for Step { inst, .. } in steps {
            let unit = model.unit(inst);
            model.for_each_touch(inst, unit, |touch| accesses.all.push(widened(touch, inst, unit)));
            accesses.steps.push((accesses.all.len() as u32, unit));
        }
        accesses
    }

    fn of(&self, step: usize) -> &[Touch] {
        let start = step.checked_sub(1).map_or(0, |before| self.steps[before].0);
        &self.all[start as usize..self.steps[step].0 as usize]
    }

    fn unit(&self, step: usize) -> Unit {
        self.steps[step].1
    }
}

/// The registers of the wgmma that follow an arrival: they are read as it finds them.
fn wgmma_registers(after: &[Step], model: &Model) -> Vec<Touch> {
    let wgmma = after.iter().take_while(|s| !is_arrival(&s.inst)).filter(|s| s.inst.op().is_wgmma());
    wgmma.flat_map(|s| model.touches(&s.inst)).filter(|t| t.file == Kind::R).collect()
}

/// The steps of a segment that first access what an instruction writes, and first overwrite what it reads.
#[derive(Clone, Copy)]
struct NextAccess {
    results: usize,
    sources: usize,
}

/// Not in this segment.
const NEVER: usize = usize::MAX;

/// Finds the next accesses of segments, one after the other: [`NEVER`] is everywhere in its tables between two of them.
struct NextAccesses {
    /// By register: the step that accesses it next, and that writes it.
    touched: Vec<usize>,
    written: Vec<usize>,
}

impl NextAccesses {
    fn new() -> NextAccesses {
        let never = vec![NEVER; sass::model::REGISTERS];
        NextAccesses { touched: never.clone(), written: never }
    }

    /// Of the steps of a segment, which are counted from its first.
    fn find(&mut self, accesses: &Accesses, steps: std::ops::Range<usize>, all: &mut Vec<NextAccess>) {
        all.clear();
        all.resize(steps.len(), NextAccess { results: NEVER, sources: NEVER });
        for (i, next) in all.iter_mut().enumerate().rev() {
            let touches = accesses.of(steps.start + i);
            for touch in touches {
                for register in touch.registers() {
                    match touch.role {
                        Role::Def => next.results = next.results.min(self.touched[register]),
                        Role::Use => next.sources = next.sources.min(self.written[register]),
                    }
                }
            }
            for touch in touches {
                self.touched[touch.registers()].fill(i);
                if touch.role == Role::Def {
                    self.written[touch.registers()].fill(i);
                }
            }
        }
        for touch in steps.flat_map(|step| accesses.of(step)) {
            self.touched[touch.registers()].fill(NEVER);
            self.written[touch.registers()].fill(NEVER);
        }
    }
}

/// What has been issued: when, and which scoreboards tell of it.
#[derive(Clone, Copy)]
struct Issued {
    time: u32,
    write: Option<u8>,
    read: Option<u8>,
    /// An instruction has waited for its results, for its sources.
    written: bool,
    taken: bool,
}

/// The last writers of a register, and its readers since. Guarded writes may not happen: earlier ones still count.
struct Touched {
    register: usize,
    writers: SmallVec<[(usize, Port); 1]>,
    readers: SmallVec<[(usize, Port); 2]>,
}

/// A straight-line segment.
struct Segment<'a> {
    model: &'a Model,
    /// The scoreboards of results.
    results: std::ops::Range<u8>,
    /// The first step's index.
    first: usize,
    /// Nothing may be pending at its end.
    drains: bool,
    issued: Vec<Issued>,
    /// The registers that were accessed, and for each register its index among them, plus one.
    touched: Vec<Touched>,
    slots: Vec<u16>,
    accesses: &'a Accesses,
    /// The steps that have to wait for the results of each, and for its sources, at the latest.
    next_access: Vec<NextAccess>,
    next_accesses: NextAccesses,
    /// The instructions that count on each scoreboard, and the first step that has to wait for one of them.
    counting: [Vec<usize>; sass::SCOREBOARDS as usize],
    next_wait: [usize; sass::SCOREBOARDS as usize],
    last_of_unit: [Option<u32>; Unit::COUNT],
    /// The scoreboards of tensor loads that a `tcgen05.wait::ld` named, and no instruction has waited for since.
    asked: u8,
    /// When an arrival was issued whose wgmma are still to come.
    arrived: Option<u32>,
    /// When everything of a fixed latency is done.
    settled: u32,
}

impl<'a> Segment<'a> {
    fn new(model: &'a Model, results: std::ops::Range<u8>, accesses: &'a Accesses) -> Segment<'a> {
        Segment {
            model,
            results,
            first: 0,
            drains: false,
            issued: Vec::new(),
            touched: Vec::new(),
            slots: vec![0; sass::model::REGISTERS],
            accesses,
            next_access: Vec::new(),
            next_accesses: NextAccesses::new(),
            counting: Default::default(),
            next_wait: [NEVER; sass::SCOREBOARDS as usize],
            last_of_unit: [None; Unit::COUNT],
            asked: 0,
            arrived: None,
            settled: 0,
        }
    }

    fn begin(&mut self, first: usize, drains: bool) {
        for touched in self.touched.drain(..) {
            self.slots[touched.register] = 0;
        }
        (self.first, self.drains) = (first, drains);
        self.issued.clear();
        self.counting.iter_mut().for_each(Vec::clear);
        self.next_wait.fill(NEVER);
        self.last_of_unit = [None; Unit::COUNT];
        self.asked = 0;
        self.arrived = None;
        self.settled = 0;
    }

    fn touched(&self, register: usize) -> Option<&Touched> {
        let slot = usize::from(self.slots[register]).checked_sub(1)?;
        self.touched.get(slot)
    }

    fn touch(&mut self, register: usize) -> &mut Touched {
        if self.slots[register] == 0 {
            let (writers, readers) = (SmallVec::new(), SmallVec::new());
            self.touched.push(Touched { register, writers, readers });
            self.slots[register] = self.touched.len() as u16;
        }
        &mut self.touched[usize::from(self.slots[register]) - 1]
    }

    fn run(&mut self, steps: &[Step], all: &mut Vec<Timed>) {
        let (accesses, range) = (self.accesses, self.first..self.first + steps.len());
        self.next_accesses.find(accesses, range, &mut self.next_access);
        for (i, step) in steps.iter().enumerate() {
            let (touches, unit) = (accesses.of(self.first + i), accesses.unit(self.first + i));
            let (mut time, mut wait) = match is_arrival(&step.inst) {
                true => self.earliest(i, &wgmma_registers(&steps[i + 1..], self.model), WGMMA_ARRIVAL),
                false => self.earliest(i, touches, 0),
            };
            if let Some(arrived) = self.arrived.take_if(|_| step.inst.op().is_wgmma()) {
                time = time.max(arrived + u32::from(WGMMA_ARRIVAL));
            }
            if waits_for_groups(&step.inst) {
                wait |= self.in_use() & self.result_scoreboards();
            } else if waits_for_all(&step.inst) {
                wait |= self.in_use();
            }
            let last = i + 1 == steps.len();
            if waits_for_tensor_loads(&step.inst) {
                self.asked = self.of_tensor_loads(steps);
            }
            if last || !only_computes(&step.inst) {
                wait |= self.asked;
            }
            if let Some(before) = i.checked_sub(1).filter(|b| is_awaited(&steps[*b].inst).is_some()) {
                wait |= bit(self.issued[before].write) | bit(self.issued[before].read);
            }
            if let Some(last) = self.last_of_unit[unit as usize] {
                let last_wgmma =
                    || steps[..i].iter().rev().map(|s| &s.inst).find(|inst| inst.op().is_wgmma());
                let wgmma = if unit == Unit::Gmma { last_wgmma() } else { None };
                let busy = wgmma.map_or(0, |inst| wgmma_interval(inst.modifiers()));
                let interval = self.model.interval(unit).max(busy);
                time = time.max(last + u32::from(interval));
            }
            let before =
                i.checked_sub(1).map_or(0, |b| self.issued[b].time + u32::from(min_stall(&steps[b].inst)));
            time = time.max(before);
            if last && self.drains {
                // The code that runs next knows nothing of this function's scoreboards.
                wait = self.in_use();
            }
            if wait != 0 {
                let newest = (0..sass::SCOREBOARDS).filter(|s| wait >> s & 1 != 0);
                let newest = newest.filter_map(|s| self.counting[usize::from(s)].last()).max();
                time = time.max(newest.map_or(0, |n| self.issued[*n].time + u32::from(VISIBLE)));
                self.wait_on(wait);
            }
            // The code that runs next begins a stall later at most: pending results must be there by then.
            if last && self.drains {
                time = time.max(self.settled.saturating_sub(u32::from(LONGEST_STALL)));
            }
            self.issue(i, time, &step.inst, touches, unit);
            if is_arrival(&step.inst) {
                self.arrived = Some(time);
            }
            self.emit(i, step.inst.form().op, (time, wait), all);
        }
        self.finish(steps, all);
    }

    /// When an instruction may issue at the earliest, and which scoreboards it has to wait for. It accesses these
    /// registers so many cycles later.
    fn earliest(&self, i: usize, touches: &[Touch], later: u16) -> (u32, u8) {
        let (mut time, mut wait) = (0, 0);
        let mut respect = |first: usize, need: sass::model::Need| {
            let of: &Issued = &self.issued[first];
            let cycles = need.cycles.min(later).max(need.cycles.saturating_sub(later));
            time = time.max(of.time + u32::from(cycles));
            match need.signal {
                Some(Signal::Write) if !of.written => wait |= bit(of.write),
                // An instruction whose results are waited for has read its sources.
                Some(Signal::Read) if !of.taken && !of.written && wait & bit(of.write) == 0 => {
                    wait |= bit(of.read.or(of.write));
                }
                _ => {}
            }
        };
        for touch in touches {
            for register in touch.registers() {
                let writers = self.touched(register).map_or(&[][..], |t| &t.writers);
                for (writer, port) in writers.iter().filter(|(w, _)| *w < i) {
                    match touch.role {
                        Role::Use => respect(*writer, self.model.raw(*port, touch.port)),
                        Role::Def => respect(*writer, self.model.waw(*port, touch.port)),
                    }
                }
            }
        }
        for touch in touches.iter().filter(|t| t.role == Role::Def) {
            for register in touch.registers() {
                for (reader, port) in self.touched(register).map_or(&[][..], |t| &t.readers) {
                    respect(*reader, self.model.war(*port, touch.port));
                }
            }
        }
        (time, wait)
    }

    fn issue(&mut self, i: usize, time: u32, inst: &Inst, touches: &[Touch], unit: Unit) {
        let needs = inst.form().class.scoreboards();
        let late_result = touches.iter().any(|t| t.role == Role::Def && t.port.is_late_result());
        let late_source = touches.iter().any(|t| t.role == Role::Use && t.port.is_late_source());
        let signals = late_result && is_counted(inst, self.model) || signals_without_result(inst);
        let write = signals.then(|| self.scoreboard(self.results.clone()));
        // Who waits for the results need not wait for the sources: then fewer instructions count on each scoreboard.
        let next = &self.next_access[i];
        let is_covered = write.is_some() && next.results < NEVER && next.results <= next.sources;
        let signals_read = needs.read && late_source && reads_registers(inst) && !is_covered;
        let read = signals_read.then(|| match is_async_store(inst) {
            true => ASYNC_STORES,
            false => self.scoreboard(SOURCE_SCOREBOARDS),
        });
        let (write, read) = match is_awaited(inst) {
            Some(Signal::Write) => (write.or_else(|| Some(self.scoreboard(self.results.clone()))), read),
            Some(Signal::Read) => (write, read.or_else(|| Some(self.scoreboard(SOURCE_SCOREBOARDS)))),
            None => (write, read),
        };
        self.issued.push(Issued { time, write, read, written: false, taken: false });
        for scoreboard in write.into_iter().chain(read) {
            let next = match write == Some(scoreboard) {
                true => self.next_access[i].results,
                false => self.next_access[i].sources,
            };
            self.counting[usize::from(scoreboard)].push(i);
            let first = &mut self.next_wait[usize::from(scoreboard)];
            *first = next.min(*first);
        }
        self.last_of_unit[unit as usize] = Some(time);
        for touch in touches.iter().filter(|t| t.role == Role::Use) {
            self.settled = self.settled.max(time + u32::from(Model::CONSUMED));
            for register in touch.registers() {
                self.touch(register).readers.push((i, touch.port));
            }
        }
        for touch in touches.iter().filter(|t| t.role == Role::Def) {
            self.settled = self.settled.max(time + u32::from(self.model.settled(touch.port)));
            for register in touch.registers() {
                match inst.guard == sass::Guard::ALWAYS {
                    true => {
                        let touched = self.touch(register);
                        touched.writers.clear();
                        touched.readers.clear();
                    }
                    false => self.forget_settled(register, time),
                }
                self.touch(register).writers.push((i, touch.port));
            }
        }
        if write.is_some() || read.is_some() {
            self.settled = self.settled.max(time + u32::from(VISIBLE));
        }
    }

    /// Forgets accesses to a register that no later instruction has to wait for: guarded writes, one after the other,
    /// would add up.
    fn forget_settled(&mut self, register: usize, now: u32) {
        let slot = usize::from(self.slots[register]);
        let Some(touched) = slot.checked_sub(1).and_then(|slot| self.touched.get_mut(slot)) else { return };
        let (model, issued) = (self.model, &self.issued);
        touched.writers.retain(|(i, port)| {
            let of = &issued[*i];
            of.time + u32::from(model.settled(*port)) > now || of.write.is_some() && !of.written
        });
        touched.readers.retain(|(i, _)| {
            let of = &issued[*i];
            let is_signalled = of.read.is_some() || of.write.is_some();
            of.time + u32::from(Model::CONSUMED) > now || is_signalled && !of.taken && !of.written
        });
    }

    /// A free scoreboard, or else the one with the furthest next wait (as Belady evicts): a wait for a scoreboard waits
    /// for all that count on it, and this one has just begun.
    fn scoreboard(&self, among: std::ops::Range<u8>) -> u8 {
        let is_free = |s: u8| self.counting[usize::from(s)].is_empty();
        let first = among.start;
        among.rev().max_by_key(|s| (self.next_wait[usize::from(*s)], is_free(*s))).unwrap_or(first)
    }

    /// The scoreboards on which loads of tensor memory count.
    fn of_tensor_loads(&self, steps: &[Step]) -> u8 {
        let some = |s: &u8| self.counting[usize::from(*s)].iter().any(|i| is_tensor_load(&steps[*i].inst));
        (0..sass::SCOREBOARDS).filter(some).fold(0, |mask, s| mask | 1 << s)
    }

    fn in_use(&self) -> u8 {
        (0..sass::SCOREBOARDS)
            .filter(|s| !self.counting[usize::from(*s)].is_empty())
            .fold(0, |mask, s| mask | 1 << s)
    }

    /// The scoreboards that tell when results are there.
    fn result_scoreboards(&self) -> u8 {
        let counting = self.counting.iter().flatten();
        counting.fold(0, |mask, i| mask | bit(self.issued[*i].write))
    }

    fn wait_on(&mut self, mask: u8) {
        self.asked &= !mask;
        for scoreboard in (0..sass::SCOREBOARDS).filter(|s| mask >> s & 1 != 0) {
            self.next_wait[usize::from(scoreboard)] = NEVER;
            for i in self.counting[usize::from(scoreboard)].drain(..) {
                let issued = &mut self.issued[i];
                issued.written |= issued.write == Some(scoreboard);
                issued.taken |= issued.read == Some(scoreboard);
            }
        }
    }

    /// Gives the step its control code, and the one before it its stall.
    fn emit(&mut self, i: usize, op: Op, (time, wait): (u32, u8), all: &mut Vec<Timed>) {
        let mut nops = SmallVec::new();
        if let Some(before) = i.checked_sub(1) {
            nops = self.stall(before, time - self.issued[before].time, all);
        }
        let Issued { mut write, mut read, .. } = self.issued[i];
        match op {
            // Only `DEPBAR` waits for these.
            Op::LDGDEPBAR => write = Some(GROUPS),
            Op::UTMACMDFLUSH => read = Some(GROUPS),
            _ => {}
        }
        let control = Control { stall: 1, yields: false, write, read, wait, reuse: 0 };
        all.push(Timed { control, nops });
    }

    /// Lets a step stall for so many cycles; the stalls of NOPs for what doesn't fit.
    fn stall(&self, i: usize, cycles: u32, all: &mut [Timed]) -> SmallVec<[u8; 2]> {
        let control = &mut all[self.first + i].control;
        control.stall = cycles.clamp(1, u32::from(LONGEST_STALL)) as u8;
        control.yields = yields(control);
        nop_stalls(cycles.saturating_sub(u32::from(LONGEST_STALL)) as u16)
    }

    /// The last stall: where control goes somewhere unknown, it covers what is still pending.
    fn finish(&mut self, steps: &[Step], all: &mut [Timed]) {
        let last = steps.len() - 1;
        let issued = self.issued[last].time;
        let arrived = self.arrived.map_or(0, |time| (time + u32::from(WGMMA_ARRIVAL)).saturating_sub(issued));
        let least = u32::from(min_stall(&steps[last].inst)).max(arrived);
        let cycles = match self.drains {
            true => self.settled.saturating_sub(issued).max(least),
            false => least,
        };
        let rest = self.stall(last, cycles, all);
        // NOPs before the last one are as good: it has no results.
        all[self.first + last].nops.extend(rest);
    }

    /// What is still pending at the end.
    fn pending_out(&self, steps: &[Step], all: &[Timed]) -> dataflow::Pending {
        let last = steps.len() - 1;
        if self.drains {
            return dataflow::Pending::default();
        }
        let end = self.issued[last].time + u32::from(all[self.first + last].control.stall);
        let age = |of: &Issued| u16::try_from(end - of.time).unwrap_or(u16::MAX);
        let event = |register: usize, role: Role, (i, port): (usize, Port)| {
            let of = &self.issued[i];
            let (settles, by) = match role {
                Role::Def => (self.model.settled(port), if of.written { 0 } else { bit(of.write) }),
                Role::Use if of.taken || of.written => (Model::CONSUMED, 0),
                Role::Use => (Model::CONSUMED, bit(of.read.or(of.write))),
            };
            let late = if role == Role::Def { port.is_late_result() } else { port.is_late_source() };
            let by = if late { by } else { 0 };
            dataflow::Event { register: register as u16, role, port, age: age(of), settles, by }
        };
        let touched = self.touched.iter().flat_map(|Touched { register, writers, readers }| {
            let writers = writers.iter().map(move |w| event(*register, Role::Def, *w));
            let readers = readers.iter().map(move |r| event(*register, Role::Use, *r));
            writers.chain(readers)
        });
        let awaited = |register: u16, i: usize, by: u8| {
            let port = Port { unit: self.model.unit(&steps[i].inst), part: sass::model::Part::R };
            dataflow::Event::awaited(register, by, port, age(&self.issued[i]))
        };
        // The next instruction waits for it, whatever it is.
        let last = is_awaited(&steps[last].inst).map(|_| {
            let of = &self.issued[last];
            awaited(dataflow::ANY, last, bit(of.write) | bit(of.read))
        });
        let loads = self.issued.iter().enumerate().filter(|(i, _)| is_tensor_load(&steps[*i].inst));
        let loads = loads.filter(|(_, of)| !of.written);
        let loads = loads.map(|(i, of)| awaited(dataflow::TENSOR_LOADS, i, bit(of.write)));
        dataflow::Pending::new(touched.chain(last).chain(loads))
    }
}

/// A long stall lets other warps go first.
fn yields(control: &Control) -> bool {
    control.stall > LONGEST_WITHOUT_YIELD || control.stall > 2 && control.write.is_none()
}

fn bit(scoreboard: Option<u8>) -> u8 {
    scoreboard.map_or(0, |s| 1 << s)
}
