//! Register allocation: greedy scan over SSA with spilling by furthest next use (Braun & Hack, "Register Spilling and
//! Live-Range Splitting for SSA-Form Programs", CC 2009; the eviction rule is Belady's).
//!
//! Blocks are visited in reverse post-order; within a block the allocator keeps the register of each live value. A
//! spilled value is stored once, right after its definition, so that an eviction costs nothing and a use costs a
//! reload, or a rematerialization where the definition is cheap. Where registers are free but not contiguous, values
//! are moved. A join takes its entry registers from one predecessor when it is visited; moves, reloads and stores on
//! the other edges (parallel copies) establish them there. Only R has spill slots: a spilled value of another file
//! becomes a word in R ([`spill_via_r`]), and the allocation restarts. UR is moved for packs and on edges only, B
//! never.
//!
//! Copies are coalesced by biased coloring (Briggs, Cooper & Torczon, "Improvements to Graph Coloring Register
//! Allocation", TOPLAS 1994): a value prefers the register of the other side of its copy, and values that are live there
//! leave it free ([`hints`]). Live ranges are not merged, which would take an interference graph and could cost a spill.
//! The words of a tuple die one by one, so that a pair is updated in place.
//!
//! ```text
//! v3 = IADD3 v1, v2, RZ          IADD3 R0, R2, R3, RZ
//! v4 = Pack v3, v1        ==>    MOV R1, R2
//! STG [v5], v4                   STG.64 [R4], R0
//! ```
//!
//! After it every value has a register wherever an instruction reads or writes it; [`check`] proves it. One attempt is
//! linear in the code but for evictions, which scan the windows of a file; attempts are bounded (below).
//!
//! # Termination
//!
//! However few registers there are, allocation succeeds if the operands of each single instruction fit:
//!
//! * An instruction whose operands find no registers reloads all of them ([`reload_all`]), with every other value
//!   evicted. A block parameter that finds none starts in its spill slot.
//! * Unassigned values of other files become words, with live ranges of one instruction from then on. After
//!   `regalloc_targeted_attempts` all values of such a file do, and what one instruction names of a file fits into it.
//! * A cycle of moves, or a copy from slot to slot, reserves one scratch register from then on: one is enough.
//! * Precolored values may leave too few registers; then nothing is precolored.
//!
//! Each happens a bounded number of times. Operands that don't fit are refused ([`PassError::TooFewRegisters`]); ptxas
//! refuses them, too, and some that would fit.
//!
//! | question | file |
//! |---|---|
//! | liveness-derived facts: last uses, undefined values, early clobbers | [`facts`] |
//! | registers at block entry: joins, loops, parameters | [`block_entry`] |
//! | one instruction | [`instructions`] |
//! | … copy, pack, unpack | [`parallel_copy`] |
//! | … call, function entry, return | [`calls`] |
//! | … whose operands don't fit | [`reload_all`] |
//! | resolution of edges | [`edge_moves`] |
//! | sequentialization of parallel copies | [`parallel_moves`] |
//! | a register file and its owners; sets of registers | [`reg_file`], [`reg_set`] |
//! | register limits that change (`setmaxnreg`) | [`reg_limits`] |
//! | choice of a register, eviction | [`evict`] |
//! | coalescing hints | [`hints`] |
//! | precolored wgmma operands | [`precolor`] |
//! | next-use distances | [`next_use`] |
//! | spill slots, reloads, rematerialization | [`spill_slots`] |
//! | spilling of P, UP, UR and B through R | [`spill_via_r`] |
//! | checker | [`check`] |

mod block_entry;
mod calls;
mod check;
mod edge_moves;
mod evict;
mod facts;
mod hints;
mod instructions;
mod next_use;
mod parallel_copy;
pub mod parallel_moves;
mod precolor;
mod reg_file;
mod reg_limits;
pub mod reg_set;
mod reload_all;
mod spill_slots;
mod spill_via_r;

use crate::codegen::jump_tables;
use crate::context::{Context, PassError, PassResult, Tuning};
use crate::mach::inst::{Address, Claims, MachFunction, MachInst, Origin};
use crate::mach::unit::Unit;
use crate::module::abi::Convention;
pub use check::{Checker, check};
use facts::{DeadWords, def_positions, fixed_reg_beyond, fixed_registers, last_uses, rpo_indices, uses};
pub use facts::{is_early_clobber, undefined};
use hints::Hints;
use next_use::NextUse;
use ori::entity::Entity;
use ori::liveness::{Liveness, ScratchSet, ValueSet};
use ori::{Arg, Block, Cfg, File, Function, Inst, InstData, Value};
use precolor::Precoloring;
pub use reg_file::Limits;
use reg_file::{PREDICATES, RegFile};
pub use reg_limits::BlockLimits;
use reg_set::RegSet;
use rustc_hash::{FxHashMap, FxHashSet};
use sass::{M, operands as machine};
use smallvec::SmallVec;
pub use spill_slots::is_rematerializable;
use std::rc::Rc;

/// How many registers ptxas advises to have besides those of the widest operand, for wgmma of all sizes.
const EXTRA_REGISTERS: u32 = 26;

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    let limits = Limits::registers(context.registers);
    // The goal, and what the next lower occupancies allow.
    let occupancy = context.usual_occupancy();
    let next = |goal: &u32| Some(occupancy.step(goal + 1)).filter(|next| next > goal);
    let goals: Vec<u32> = std::iter::successors(context.register_goal, next)
        .take(context.tuning.regalloc_goals as usize)
        .collect();
    unit.code = allocate(&mut unit.kernel.code, limits, &goals, context)?;
    Ok(())
}

/// Allocates with as many registers as the first of `goals` that takes no spill, else with `max`.
fn allocate(
    function: &mut Function,
    max: Limits,
    goals: &[u32],
    context: &mut Context,
) -> Result<MachFunction, PassError> {
    let tuning = &context.tuning;
    if let Some((data, registers)) = fixed_reg_beyond(function, max.usable(max.registers)) {
        return Err(PassError::TooFewRegisters { at: data.at, registers: registers + Limits::SYSTEM });
    }
    let conventions = function.fixed.values().map(Convention::of);
    let needed = conventions.map(Convention::least_registers).max().unwrap_or(0);
    let below_max = |goal: &u32| *goal < max.registers;
    let mut attempts = goals.iter().map(|goal| (*goal).max(needed)).filter(below_max);
    let mut limits = attempts.next().map_or(max, Limits::registers);
    let mut may_precolor = true;
    let mut short_lived = FxHashSet::default();
    let mut attempt: u32 = 0;
    let (cfg, mut live) = (context.analyses.cfg(function), context.analyses.liveness(function));
    loop {
        let has_goal = limits.registers < max.registers || goals.first().is_some_and(|g| *g >= max.registers);
        calls::place_routines(function, (&cfg, &live), &limits, has_goal);
        let precolored = if may_precolor {
            Precoloring::new(function, (&cfg, &live), &limits, tuning)
        } else {
            Precoloring::default()
        };
        let has_precolored = !precolored.is_empty();
        let has_more = limits.registers < max.registers;
        let outcome = Allocator::new(function, (&cfg, &live), (limits, has_more), precolored, tuning).run();
        if has_more && matches!(outcome, Err(_) | Ok(Outcome::Spills)) {
            limits = attempts.next().map_or(max, Limits::registers);
            continue;
        }
        match outcome {
            Ok(Outcome::Done(code)) => return Ok(*code),
            Ok(Outcome::Spills) => return Err("an attempt that may spill was given up".into()),
            Ok(Outcome::SpillViaR(values)) => {
                let targeted = attempt < tuning.regalloc_targeted_attempts;
                let chosen = if targeted {
                    values
                } else {
                    spill_via_r::all_of_same_files(function, &values, &short_lived)
                };
                if chosen.is_empty() {
                    return Err("short-lived values find no register".into());
                }
                short_lived.extend(spill_via_r::rewrite(function, &chosen));
                live = Rc::new(Liveness::new(function, &cfg));
            }
            Ok(Outcome::NeedsScratch(File::P)) if !limits.scratch_predicate => {
                limits.scratch_predicate = true
            }
            Ok(Outcome::NeedsScratch(File::R)) if limits.scratch.is_none() => {
                limits.scratch = calls::scratch(function, &cfg, &limits);
            }
            // The precolored values leave too few registers for the others.
            Err(_) if has_precolored => may_precolor = false,
            Ok(Outcome::NeedsScratch(file)) => {
                return Err(format!("one scratch register of file {file:?} is not enough").into());
            }
            Err(AttemptError::OperandsTooWide(inst)) => return Err(operands_too_wide(function, inst)),
            Err(AttemptError::OutOfRegisters(file)) => {
                return Err(format!("out of registers of file {file:?}").into());
            }
            Err(AttemptError::Internal(message)) => return Err(message.into()),
        }
        attempt += 1;
    }
}

fn operands_too_wide(function: &Function, inst: Inst) -> PassError {
    let data = &function.insts[inst];
    let operands = data.results.iter().copied().chain(data.uses());
    let words = operands.map(|v| u32::from(function.values[v].words)).max();
    PassError::TooFewRegisters { at: data.at, registers: words.unwrap_or(0) + EXTRA_REGISTERS }
}

/// The result of an attempt.
enum Outcome {
    Done(Box<MachFunction>),
    /// The attempt takes spills, and must not.
    Spills,
    /// These values of other files than R must be spilled through R.
    SpillViaR(Vec<Value>),
    /// Moves need a reserved scratch register of this file.
    NeedsScratch(File),
}

/// Why an attempt fails.
#[derive(Debug)]
enum AttemptError {
    /// No window of registers can be vacated for an operand.
    OutOfRegisters(File),
    /// The operands of an instruction exceed the whole register file.
    OperandsTooWide(Inst),
    /// A bug.
    Internal(String),
}

impl From<String> for AttemptError {
    fn from(message: String) -> AttemptError {
        AttemptError::Internal(message)
    }
}

impl From<&str> for AttemptError {
    fn from(message: &str) -> AttemptError {
        AttemptError::Internal(message.into())
    }
}

/// The registers of the live values at the entry or exit of a block, sorted by value.
type Snapshot = Vec<(Value, u8)>;

struct Allocator<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    live: &'a Liveness,
    tuning: &'a Tuning,
    limits: Limits,
    /// Is the attempt given up at the first spill? With a register goal, more registers are better.
    spill_free: bool,
    block_limits: BlockLimits,
    files: [RegFile; 5],
    /// The current register of each value.
    assigned: Vec<Option<u8>>,
    /// Values that must not be evicted: the operands of the current instruction.
    locked: Vec<Value>,
    /// Registers that the current instruction has still to read, whether or not they still belong to the value.
    pending_reads: Vec<(Value, u8)>,
    /// Values without a definition: they need no register.
    undefined: ValueSet,
    /// The defining instruction of each value.
    definition: Vec<Option<Inst>>,
    /// The defining block of each value.
    def_block: Vec<Option<Block>>,
    /// The position of the definition of each value in its block.
    def_position: Vec<u32>,
    hints: Hints,
    precolored: Precoloring,
    /// The uniform registers that values have had: those outside of [`Function::apart`], and those of it.
    uniform_owners: [RegSet; 2],
    next_use: Option<NextUse>,
    /// The maximal register pressure of each loop by its header, in words of R.
    loop_pressure: Option<FxHashMap<Block, u32>>,
    /// Registers that no value may have: see [`calls::reserved`].
    reserved: RegSet,
    /// How the function is called, if it is no kernel.
    own: Option<Convention>,
    /// Where values were that had to move for the current call.
    moved_for_call: Snapshot,
    /// The position of each block in reverse post-order.
    rpo_index: Vec<u32>,
    /// The current block, the position in it, and the uses in it.
    block: Block,
    position: u32,
    block_uses: Vec<(Value, u32)>,
    /// The words that die in the current block before the rest of their values, by position.
    dead_words: Vec<DeadWords>,
    /// Where each value is defined: block, position after which a spill store goes, register.
    def_point: Vec<Option<(Block, u32, u8)>>,
    /// The spill slot of each spilled value (offset in the frame).
    slots: Vec<Option<u32>>,
    /// The values that share each slot.
    slot_owners: FxHashMap<u32, Vec<Value>>,
    /// Bytes of the frame so far.
    frame: u32,
    /// Instructions so far, and when a memory access last read each register of R.
    tick: u64,
    late_reads: Vec<u64>,
    /// When each predicate register was last written.
    predicate_writes: [u64; PREDICATES as usize],
    /// Values of other files than R that found no register.
    spill_via_r: Vec<Value>,
    /// A file in which moves lacked a scratch register.
    needs_scratch: Option<File>,
    scratch: ScratchSet,
    /// The code of the current block.
    emitted: Vec<MachInst>,
    entry_regs: Vec<Snapshot>,
    exit_regs: Vec<Snapshot>,
    /// Block parameters that are passed in their spill slots.
    spilled_params: ValueSet,
    code: MachFunction,
}

impl<'a> Allocator<'a> {
    fn new(
        function: &'a Function,
        (cfg, live): (&'a Cfg, &'a Liveness),
        (limits, spill_free): (Limits, bool),
        precolored: Precoloring,
        tuning: &'a Tuning,
    ) -> Allocator<'a> {
        let blocks = function.blocks.len();
        let values = function.values.len();
        let block_limits = BlockLimits::new(function, cfg, &limits);
        let registers = block_limits.max(cfg);
        let files =
            [File::R, File::UR, File::P, File::UP, File::B].map(|f| RegFile::new(f, &limits, registers));
        let rpo_index = rpo_indices(cfg, blocks);
        let (def_block, def_position) = def_positions(function, cfg);
        let code = MachFunction {
            order: cfg.order.clone(),
            blocks: vec![Vec::new(); blocks],
            branches: vec![0; blocks],
            ..MachFunction::default()
        };
        Allocator {
            function,
            cfg,
            live,
            tuning,
            limits,
            spill_free,
            block_limits,
            uniform_owners: [RegSet::default(); 2],
            files,
            assigned: vec![None; values],
            locked: Vec::new(),
            pending_reads: Vec::new(),
            undefined: undefined(function, cfg),
            definition: function.definitions().into_iter().map(|d| d.map(|(_, inst)| inst)).collect(),
            def_block,
            def_position,
            hints: Hints::new(function, (cfg, live), &rpo_index),
            precolored,
            next_use: None,
            loop_pressure: None,
            reserved: calls::reserved(function),
            own: Convention::own(function),
            moved_for_call: Snapshot::new(),
            rpo_index,
            block: Function::ENTRY,
            position: 0,
            block_uses: Vec::new(),
            dead_words: Vec::new(),
            def_point: vec![None; values],
            slots: vec![None; values],
            slot_owners: FxHashMap::default(),
            frame: function.frame,
            tick: 0,
            late_reads: vec![0; usize::from(u8::MAX) + 1],
            predicate_writes: [0; PREDICATES as usize],
            spill_via_r: Vec::new(),
            needs_scratch: None,
            scratch: ScratchSet::new(values),
            emitted: Vec::new(),
            entry_regs: vec![Vec::new(); blocks],
            exit_regs: vec![Vec::new(); blocks],
            spilled_params: ValueSet::new(values),
            code,
        }
    }

    fn run(mut self) -> Result<Outcome, AttemptError> {
        self.reserve();
        for i in 0..self.cfg.order.len() {
            self.allocate_block(self.cfg.order[i])?;
            if self.spill_free && self.frame > self.function.frame {
                return Ok(Outcome::Spills);
            }
        }
        if !self.spill_via_r.is_empty() {
            self.spill_via_r.sort();
            self.spill_via_r.dedup();
            return Ok(Outcome::SpillViaR(self.spill_via_r));
        }
        if let Some(file) = self.needs_scratch {
            return Ok(Outcome::NeedsScratch(file));
        }
        if let Some(file) = self.insert_edge_moves()? {
            return Ok(Outcome::NeedsScratch(file));
        }
        if self.spill_free && self.frame > self.function.frame {
            return Ok(Outcome::Spills);
        }
        self.insert_stores();
        self.code.frame = self.frame.next_multiple_of(16);
        self.code.claims = Claims {
            entry_regs: self.entry_regs,
            slots: self.slots,
            spilled_params: self.spilled_params.iter().collect(),
        };
        Ok(Outcome::Done(Box::new(self.code)))
    }

    fn allocate_block(&mut self, block: Block) -> Result<(), AttemptError> {
        for (value, _) in &self.exit_regs[self.block.index()] {
            self.assigned[value.index()] = None;
        }
        (self.block, self.position) = (block, 0);
        self.hints.begin_block(self.rpo_index[block.index()]);
        self.block_uses.clear();
        self.enter_block(block)?;
        self.collect_latch_writes(block);
        let data = &self.function.blocks[block];
        let live_out = &self.live.live_out[block.index()];
        let mut last_uses = last_uses(self.function, block, live_out, &mut self.scratch);
        self.dead_words = std::mem::take(&mut last_uses.words);
        self.emitted.reserve_exact(data.insts.len());
        self.hints.set_deaths(block, &last_uses.at);
        for param in data.params.iter().filter(|p| last_uses.unused.contains(p)) {
            self.unassign(*param);
        }
        for (i, (inst, killed)) in data.insts.iter().zip(&last_uses.at).enumerate() {
            self.position = i as u32;
            self.inst(*inst, killed, &last_uses.unused)?;
        }
        self.position = data.insts.len() as u32;
        self.locked.clear();
        if let Some(decider) = data.end.decider() {
            self.ensure_in_reg(decider)?;
            self.code.branches[block.index()] = self.register(decider, 0);
        }
        self.exit_regs[block.index()] = self.snapshot();
        self.code.blocks[block.index()] = std::mem::take(&mut self.emitted);
        Ok(())
    }

    /// Gives a free register to a value.
    fn assign(&mut self, value: Value, reg: u8) {
        self.hints.assigned(value, reg);
        let data = self.function.values[value];
        let file = self.file(data.file);
        self.files[file].take(reg, data.words, value);
        if data.file == File::P {
            self.predicate_writes[usize::from(reg)] = self.tick;
        }
        if data.file == File::UR {
            let is_apart = self.is_apart(value);
            self.uniform_owners[usize::from(is_apart)].add(RegSet::of(reg, data.words.into()));
        }
        self.assigned[value.index()] = Some(reg);
        (0..data.words).for_each(|w| self.code.touch(data.file, reg + w));
    }

    fn unassign(&mut self, value: Value) {
        let data = self.function.values[value];
        let file = self.file(data.file);
        if let Some(reg) = self.assigned[value.index()].take() {
            self.files[file].release(reg, data.words, value);
        }
    }

    /// Frees the registers of words that die at the current instruction, though other words of their values don't.
    fn release_dead_words(&mut self) {
        let first = self.dead_words.partition_point(|dead| dead.position < self.position);
        for i in first..self.dead_words.len() {
            let DeadWords { position, value, words } = self.dead_words[i];
            if position > self.position {
                return;
            }
            let file = self.file(self.function.values[value].file);
            let dead = (0..self.function.values[value].words).filter(|w| words >> w & 1 != 0);
            if let Some(reg) = self.assigned[value.index()].filter(|_| self.precolored.reg(value).is_none()) {
                dead.for_each(|w| self.files[file].release(reg + w, 1, value));
            }
        }
    }

    /// The words of a value that are not dead.
    fn live_words(&self, value: Value) -> SmallVec<[u8; 4]> {
        let data = self.function.values[value];
        let regs = &self.files[self.file(data.file)];
        let owned = |w: &u8| regs.owner(usize::from(self.register(value, *w))) == Some(value);
        (0..data.words).filter(owned).collect()
    }

    fn file(&self, file: File) -> usize {
        file as usize
    }

    /// The register of a word of a value; arbitrary if it has none.
    fn register(&self, value: Value, word: u8) -> u8 {
        self.assigned[value.index()].unwrap_or(0).wrapping_add(word)
    }

    fn copy(&mut self, file: File, to: u8, from: u8) -> Result<(), AttemptError> {
        self.code.touch(file, to);
        self.emitted.push(move_inst(file, to, from)?);
        Ok(())
    }
}

fn move_inst(file: File, to: u8, from: u8) -> Result<MachInst, AttemptError> {
    let rz = machine::rz();
    match file {
        File::R => Ok(MachInst::new(sass::Op::MOV, &[], &[machine::r(to), machine::r(from)], Origin::Move)),
        // Only for packs of words that have just been computed, and for block parameters.
        File::UR => {
            Ok(MachInst::new(sass::Op::UMOV, &[], &[machine::ur(to), machine::ur(from)], Origin::Move))
        }
        // `0 = 0 and P` is P.
        File::P => {
            let operands = [machine::p(to), machine::pt(), rz, rz, machine::p(from)];
            Ok(MachInst::new(sass::Op::ISETP, &[M::EQ, M::AND], &operands, Origin::Move))
        }
        _ => Err(format!("no move exists in file {file:?}").into()),
    }
}

fn reg_in(regs: &[(Value, u8)], value: Value) -> Option<u8> {
    regs.iter().find(|(v, _)| *v == value).map(|(_, p)| *p)
}

fn address(data: &InstData) -> Option<Address> {
    data.args.iter().find_map(|a| match *a {
        Arg::Address { symbol, addend, half } => Some(Address::Half { symbol, addend, half }),
        Arg::Slot { symbol } => Some(Address::Slot { symbol }),
        Arg::Incoming(_) => Some(Address::Incoming),
        Arg::Bank { bank: jump_tables::BANK, offset, .. } => Some(Address::Table { place: offset as u32 }),
        _ => None,
    })
}
