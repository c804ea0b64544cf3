//! Register allocation over SSA.
//!
//! Blocks are visited in reverse post-order. Within a block every live value is in a register or it isn't; a value that
//! must leave its register is stored once, right behind its definition, so that leaving costs nothing and coming back
//! is a load (or the definition again, where that is cheap). Who leaves is the value whose next use is furthest. Where
//! registers are free but not side by side, values move. A block with several predecessors fixes where its live values
//! are when it is first reached; moves, loads and stores on the edges make that true for the others.
//!
//! Only general registers have a way to memory: a value of another file that must leave becomes a word in a general
//! register ([`rewrite`]), and the allocation starts anew. Uniform registers and barriers never move.
//!
//! # Why it succeeds
//!
//! However few registers there are, an allocation is found if the operands of each single instruction fit into them:
//!
//! * An instruction that finds no room for its operands as things lie takes them all from memory to places of its own
//!   ([`last_resort`]), where no other value is in the way. A parameter of a block that finds no room begins in memory.
//! * Values of other files that find no place become words, and live only beside their definitions and uses from then
//!   on. After some tries all values of such a file do, and what a single instruction names of a file fits into it.
//! * Moves that go in a circle, and words that go from memory to memory, take a register that is kept for them from
//!   then on: one is enough, whatever moves.
//! * Pinned values may leave too little; then nothing is pinned.
//!
//! Each of these happens at most a fixed number of times, so that it also ends. Operands that don't fit are refused
//! ([`Refusal::TooFew`]); ptxas refuses them, too, and some that would fit.
//!
//! | question | file |
//! |---|---|
//! | what do we know before we begin | [`facts`] |
//! | where is everything when a block begins | [`blocks`] |
//! | what becomes of an instruction | [`instructions`] |
//! | … that only passes words on | [`shuffle`] |
//! | … that the calling convention rules | [`convention`] |
//! | … that doesn't fit | [`last_resort`] |
//! | what happens on an edge | [`edges`] |
//! | which registers are there, who is in them | [`places`] |
//! | how many there are, where that changes | [`ceilings`] |
//! | which place does a value get, and who leaves for it | [`room`] |
//! | which place saves a move | [`hints`] |
//! | which values never move | [`pins`] |
//! | how far is the next use | [`next_use`] |
//! | where in memory is a value, and how does it come back | [`memory`] |
//! | what becomes of predicates and the like that don't fit | [`rewrite`] |
//! | is it right? | [`check`] |

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

use crate::mach::abi::Convention;
use crate::mach::inst::{Address, MachFunction, MachInst, Origin};
pub use check::{Checker, Claims, check};
pub use facts::undefined;
use facts::{deaths, early_writer, fixed_registers, homes, names_beyond, ranks, uses};
use hints::Hints;
use next_use::NextUse;
use ori::entity::Entity;
use ori::liveness::{Liveness, ValueSet};
use ori::{Arg, Block, Cfg, File, Function, Inst, InstData, Value};
use precolor::Pins;
pub use reg_file::Limits;
use reg_file::Places;
pub use reg_limits::Ceilings;
use rustc_hash::{FxHashMap, FxHashSet};
use sass::{M, operands as machine};

/// Tries in which only those predicates and the like become words that found no place; then all do.
const PATIENCE: usize = 6;
/// How many registers ptxas advises to have besides those of the widest operand, for products of warpgroups of all sizes.
const BESIDE_OPERAND: u32 = 26;

/// If there are `enough` registers without a value in memory, no more are taken.
pub fn run(function: &mut Function, most: Limits, enough: Option<u32>) -> Result<MachFunction, Refusal> {
    if let Some((data, registers)) = names_beyond(function, most.usable(most.registers)) {
        return Err(Refusal::TooFew { at: data.at, registers: registers + Limits::SYSTEM });
    }
    let conventions = function.fixed.values().map(Convention::of);
    let needed = conventions.map(Convention::least_registers).max().unwrap_or(0);
    let mut limits = enough.map_or(most, |enough| Limits::registers(enough.max(needed)));
    let mut may_pin = true;
    let mut brief = FxHashSet::default();
    let mut attempt = 0;
    loop {
        let cfg = Cfg::new(function);
        let live = Liveness::new(function, &cfg);
        let pins = if may_pin { Pins::new(function, &cfg, &live, &limits) } else { Pins::default() };
        let pinned = !pins.is_empty();
        let outcome = Allocator::new(function, &cfg, &live, limits, pins).run();
        let spills = matches!(&outcome, Ok(Outcome::Done(code)) if code.spill_stores + code.spill_loads > 0);
        if limits.registers < most.registers && (spills || outcome.is_err()) {
            limits = most;
            continue;
        }
        match outcome {
            Ok(Outcome::Done(code)) => return Ok(*code),
            Ok(Outcome::Words(values)) => {
                let patient = attempt < PATIENCE;
                let chosen = if patient { values } else { spill_via_r::all_like(function, &values, &brief) };
                if chosen.is_empty() {
                    return Err("values that are words already find no place".into());
                }
                brief.extend(spill_via_r::as_words(function, &chosen));
            }
            Ok(Outcome::Scratch(File::P)) if !limits.scratch_predicate => limits.scratch_predicate = true,
            Ok(Outcome::Scratch(File::R)) if limits.scratch.is_none() => {
                limits.scratch = calls::scratch(function, &cfg, &limits);
            }
            // The pinned values leave too little for the others.
            Err(_) if pinned => may_pin = false,
            Ok(Outcome::Scratch(file)) => {
                return Err(format!("a register of file {file:?} is not enough").into());
            }
            Err(Trouble::TooWide(inst)) => return Err(Refusal::of_instruction(function, inst)),
            Err(Trouble::NoRoom(file)) => return Err(format!("no room in file {file:?}").into()),
            Err(Trouble::Bug(what)) => return Err(what.into()),
        }
        attempt += 1;
    }
}

/// Why there is no allocation.
#[derive(Debug)]
pub enum Refusal {
    /// The instruction at this byte of the PTX text needs so many registers.
    TooFew {
        at: u32,
        registers: u32,
    },
    Bug(String),
}

impl Refusal {
    fn of_instruction(function: &Function, inst: Inst) -> Refusal {
        let data = &function.insts[inst];
        let operands = data.results.iter().copied().chain(data.uses());
        let words = operands.map(|v| u32::from(function.values[v].words)).max();
        Refusal::TooFew { at: data.at, registers: words.unwrap_or(0) + BESIDE_OPERAND }
    }
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(what: T) -> Refusal {
        Refusal::Bug(what.into())
    }
}

/// What came of a try.
enum Outcome {
    Done(Box<MachFunction>),
    /// These values of other files than R must become words.
    Words(Vec<Value>),
    /// Moves need a register of this file that no value has.
    Scratch(File),
}

/// Why a try doesn't go on.
#[derive(Debug)]
enum Trouble {
    /// What an instruction needs at once doesn't fit as things lie.
    NoRoom(File),
    /// The operands of an instruction don't fit into all the registers that there are.
    TooWide(Inst),
    /// What should never be.
    Bug(String),
}

impl From<String> for Trouble {
    fn from(what: String) -> Trouble {
        Trouble::Bug(what)
    }
}

impl From<&str> for Trouble {
    fn from(what: &str) -> Trouble {
        Trouble::Bug(what.into())
    }
}

/// Where the live values are at the beginning or end of a block.
type Snapshot = Vec<(Value, u8)>;

struct Allocator<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    live: &'a Liveness,
    limits: Limits,
    ceilings: Ceilings,
    files: [Places; 5],
    /// The place of each value that is in a register now.
    at: Vec<Option<u8>>,
    /// Who may not leave: the values of the current instruction.
    locked: Vec<Value>,
    /// What the current instruction has still to read, and where, whether or not the value is left there.
    unread: Vec<(Value, u8)>,
    /// Values that no instruction gives any bits: they need no place.
    undefined: ValueSet,
    /// The instruction that defines each value.
    definition: Vec<Option<Inst>>,
    /// The block that each value is defined in.
    home: Vec<Option<Block>>,
    hints: Hints,
    pins: Pins,
    next_use: Option<NextUse>,
    /// The most words of general registers that are alive at once in each block.
    pressure: Option<Vec<u32>>,
    /// The place of each block in the order.
    rank: Vec<u32>,
    /// The current block, the place in it, and where each value is used in it.
    block: Block,
    position: u32,
    uses_here: Vec<(Value, u32)>,
    /// Where each value is defined: block, line in it, and the place that it has there.
    born: Vec<Option<(Block, u32, u8)>>,
    /// The frame's slot of each value that has to be in memory, and the bytes of the frame.
    slots: Vec<Option<u32>>,
    /// Who has each slot.
    holders: FxHashMap<u32, Vec<Value>>,
    frame: u32,
    /// Values of other files than R that found no place.
    words: Vec<Value>,
    /// A file that lacked a register for moves.
    short_of: Option<File>,
    lines: Vec<MachInst>,
    starts: Vec<Snapshot>,
    ends: Vec<Snapshot>,
    /// Parameters of blocks that are in memory when the block begins.
    in_memory: ValueSet,
    code: MachFunction,
}

impl<'a> Allocator<'a> {
    fn new(
        function: &'a Function,
        cfg: &'a Cfg,
        live: &'a Liveness,
        limits: Limits,
        pins: Pins,
    ) -> Allocator<'a> {
        let blocks = function.blocks.len();
        let values = function.values.len();
        let ceilings = Ceilings::new(function, cfg, &limits);
        let registers = ceilings.most(cfg);
        let files =
            [File::R, File::UR, File::P, File::UP, File::B].map(|f| Places::new(f, &limits, registers));
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
            limits,
            ceilings,
            files,
            at: vec![None; values],
            locked: Vec::new(),
            unread: Vec::new(),
            undefined: undefined(function, cfg),
            definition: function.definitions().into_iter().map(|d| d.map(|(_, inst)| inst)).collect(),
            home: homes(function, cfg),
            hints: Hints::new(function, cfg, live),
            pins,
            next_use: None,
            pressure: None,
            rank: ranks(cfg, blocks),
            block: Function::ENTRY,
            position: 0,
            uses_here: Vec::new(),
            born: vec![None; values],
            slots: vec![None; values],
            holders: FxHashMap::default(),
            frame: function.frame,
            words: Vec::new(),
            short_of: None,
            lines: Vec::new(),
            starts: vec![Vec::new(); blocks],
            ends: vec![Vec::new(); blocks],
            in_memory: ValueSet::new(values),
            code,
        }
    }

    fn run(mut self) -> Result<Outcome, Trouble> {
        self.reserve();
        for i in 0..self.cfg.order.len() {
            self.block(self.cfg.order[i])?;
        }
        if !self.words.is_empty() {
            self.words.sort();
            self.words.dedup();
            return Ok(Outcome::Words(self.words));
        }
        if let Some(file) = self.short_of {
            return Ok(Outcome::Scratch(file));
        }
        if let Some(file) = self.edges()? {
            return Ok(Outcome::Scratch(file));
        }
        self.stores();
        self.code.frame = self.frame.next_multiple_of(16);
        self.code.claims =
            Claims { starts: self.starts, slots: self.slots, in_memory: self.in_memory.iter().collect() };
        Ok(Outcome::Done(Box::new(self.code)))
    }

    fn block(&mut self, block: Block) -> Result<(), Trouble> {
        (self.block, self.position) = (block, 0);
        self.hints.begin_block();
        self.uses_here.clear();
        self.enter(block)?;
        self.find_refilled(block);
        let data = &self.function.blocks[block];
        let deaths = deaths(self.function, block, &self.live.live_out[block.index()]);
        for param in data.params.iter().filter(|p| deaths.unused.contains(p)) {
            self.leave(*param);
        }
        for (i, (inst, dying)) in data.insts.iter().zip(&deaths.at).enumerate() {
            self.position = i as u32;
            self.inst(*inst, dying, &deaths.unused)?;
        }
        self.position = data.insts.len() as u32;
        self.locked.clear();
        if let ori::Terminator::Branch { predicate, .. } = data.end {
            self.bring(predicate)?;
            self.code.branches[block.index()] = self.register(predicate, 0);
        }
        self.ends[block.index()] = self.snapshot();
        self.code.blocks[block.index()] = std::mem::take(&mut self.lines);
        Ok(())
    }

    /// A value is in a register now.
    fn arrive(&mut self, value: Value, place: u8) {
        self.hints.keep(value);
        let data = self.function.values[value];
        let file = self.file(data.file);
        self.files[file].take(place, data.words, value);
        self.at[value.index()] = Some(place);
        (0..data.words).for_each(|w| self.code.touch(data.file, place + w));
    }

    fn leave(&mut self, value: Value) {
        let data = self.function.values[value];
        let file = self.file(data.file);
        if let Some(place) = self.at[value.index()].take() {
            self.files[file].release(place, data.words);
        }
    }

    fn file(&self, file: File) -> usize {
        file as usize
    }

    /// The register of a word of a value; any, if it has none.
    fn register(&self, value: Value, word: u8) -> u8 {
        self.at[value.index()].unwrap_or(0).wrapping_add(word)
    }

    fn copy(&mut self, file: File, to: u8, from: u8) -> Result<(), Trouble> {
        self.code.touch(file, to);
        self.lines.push(move_line(file, to, from)?);
        Ok(())
    }
}

fn move_line(file: File, to: u8, from: u8) -> Result<MachInst, Trouble> {
    let rz = machine::rz();
    match file {
        File::R => Ok(MachInst::new(sass::Op::MOV, &[], &[machine::r(to), machine::r(from)], Origin::Move)),
        // Only to bring words side by side that have just been made: what is in these registers doesn't move otherwise.
        File::UR => {
            Ok(MachInst::new(sass::Op::UMOV, &[], &[machine::ur(to), machine::ur(from)], Origin::Move))
        }
        // `0 = 0 and P` is P.
        File::P => {
            let operands = [machine::p(to), machine::pt(), rz, rz, machine::p(from)];
            Ok(MachInst::new(sass::Op::ISETP, &[M::EQ, M::AND], &operands, Origin::Move))
        }
        _ => Err(format!("a move of file {file:?}").into()),
    }
}

fn place_in(places: &[(Value, u8)], value: Value) -> Option<u8> {
    places.iter().find(|(v, _)| *v == value).map(|(_, p)| *p)
}

fn address(data: &InstData) -> Option<Address> {
    data.args.iter().find_map(|a| match *a {
        Arg::Address { symbol, addend, half } => Some(Address::Half { symbol, addend, half }),
        Arg::Slot { symbol } => Some(Address::Slot { symbol }),
        Arg::Incoming(_) => Some(Address::Incoming),
        _ => None,
    })
}
