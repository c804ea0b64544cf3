//! Register allocation over SSA.
//!
//! Blocks are visited in reverse post-order. Within a block every live value is in a register or it isn't; a value that
//! must leave its register is stored once, right behind its definition, so that leaving costs nothing and coming back
//! is a load (or the definition again, where that is cheap). Who leaves is the value whose next use is furthest. Where
//! registers are free but not side by side, values move. A block with several predecessors fixes where its live values
//! are when it is first reached; moves, loads and stores on the edges make that true for the others.
//!
//! Predicates and barriers have no place in memory: one that must leave becomes a word in a general register
//! ([`rewrite`]), and the allocation starts anew. Uniform registers and barriers never move.
//!
//! | question | file |
//! |---|---|
//! | which registers are there, who is in them | [`places`] |
//! | which values never move | [`pins`] |
//! | which place is the best | [`hints`] |
//! | how far is the next use | [`next_use`] |
//! | calls | [`convention`] |
//! | what happens on an edge | [`edges`] |
//! | how many registers there are, where that changes | [`ceilings`] |
//! | is it right? | [`check`] |
//! | predicates and barriers that don't fit | [`rewrite`] |

mod ceilings;
mod check;
mod convention;
mod edges;
mod hints;
mod next_use;
mod pins;
mod places;
mod rewrite;

use crate::mir::{Address, Code, Line, Origin};
use crate::{legalize, moves, simplify};
pub use ceilings::Ceilings;
pub use check::{Checker, Claims, check};
use hints::Hints;
use next_use::NextUse;
use ori::entity::Entity;
use ori::liveness::{Liveness, ValueSet};
use ori::{Arg, Block, Cfg, File, Function, Inst, InstData, Op, Pseudo, Value};
use pins::Pins;
pub use places::Limits;
use places::Places;
use sass::{M, operands as machine};
use smallvec::SmallVec;

/// Tries before we give up: each makes room for predicates or for moves, so a few are enough.
const TRIES: usize = 16;

pub fn run(function: &mut Function, most: Limits) -> Result<Code, String> {
    let mut limits = most;
    let mut may_pin = true;
    for _ in 0..TRIES {
        let cfg = Cfg::new(function);
        let live = Liveness::new(function, &cfg);
        let pins = if may_pin { Pins::new(function, &cfg, &live, &limits) } else { Pins::default() };
        let pinned = !pins.is_empty();
        let allocator = Allocator::new(function, &cfg, &live, limits, most, pins);
        match allocator.run() {
            Ok(Outcome::Done(code)) => return Ok(*code),
            Ok(Outcome::Words(predicates)) => rewrite::as_words(function, &predicates),
            // One register less for values is one for the moves between them.
            Ok(Outcome::Scratch(File::P)) => limits.kept_predicates += 1,
            Ok(Outcome::Scratch(_)) => limits.kept += 1,
            // The pinned values leave too little for the others.
            Err(_) if pinned => may_pin = false,
            Err(error) => return Err(error),
        }
    }
    Err("no allocation was found".into())
}

/// What came of a try.
enum Outcome {
    Done(Box<Code>),
    /// These predicates and barriers must become words.
    Words(Vec<Value>),
    /// Moves on an edge need a free register of this file.
    Scratch(File),
}

/// Where the live values are at the beginning or end of a block.
type Snapshot = Vec<(Value, u8)>;

struct Allocator<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    live: &'a Liveness,
    /// What values may have, and what there is: the rest is for moves.
    limits: Limits,
    most: Limits,
    ceilings: Ceilings,
    files: [Places; 5],
    /// The place of each value that is in a register now.
    at: Vec<Option<u8>>,
    /// Who may not leave: the values of the current instruction.
    locked: Vec<Value>,
    /// The registers that the current instruction has still to read, whether or not a value is left in them.
    unread: Vec<(File, u8, u8)>,
    /// Values that no instruction gives any bits: they need no place.
    undefined: ValueSet,
    /// The instruction that defines each value.
    definition: Vec<Option<Inst>>,
    hints: Hints,
    pins: Pins,
    next_use: Option<NextUse>,
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
    frame: u32,
    /// Predicates and barriers that found no place.
    words: Vec<Value>,
    /// A file that lacked a register for moves.
    short_of: Option<File>,
    lines: Vec<Line>,
    starts: Vec<Snapshot>,
    ends: Vec<Snapshot>,
    /// Parameters of blocks that are in memory when the block begins.
    in_memory: ValueSet,
    code: Code,
}

impl<'a> Allocator<'a> {
    fn new(
        function: &'a Function,
        cfg: &'a Cfg,
        live: &'a Liveness,
        limits: Limits,
        most: Limits,
        pins: Pins,
    ) -> Allocator<'a> {
        let blocks = function.blocks.len();
        let values = function.values.len();
        let ceilings = Ceilings::new(function, cfg, &limits);
        let registers = ceilings.most(cfg);
        let files =
            [File::R, File::UR, File::P, File::UP, File::B].map(|f| Places::new(f, &limits, registers));
        let code = Code {
            order: cfg.order.clone(),
            blocks: vec![Vec::new(); blocks],
            branches: vec![0; blocks],
            ..Code::default()
        };
        Allocator {
            function,
            cfg,
            live,
            limits,
            most,
            ceilings,
            files,
            at: vec![None; values],
            locked: Vec::new(),
            unread: Vec::new(),
            undefined: undefined(function),
            definition: definitions(function),
            hints: Hints::new(function, cfg),
            pins,
            next_use: None,
            rank: ranks(cfg, blocks),
            block: Function::ENTRY,
            position: 0,
            uses_here: Vec::new(),
            born: vec![None; values],
            slots: vec![None; values],
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

    fn run(mut self) -> Result<Outcome, String> {
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

    fn block(&mut self, block: Block) -> Result<(), String> {
        (self.block, self.position) = (block, 0);
        self.hints.begin_block();
        self.uses_here.clear();
        self.enter(block)?;
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

    /// The values that are in registers, in order of their numbers.
    fn snapshot(&self) -> Snapshot {
        let mut all: Snapshot = Vec::new();
        for file in &self.files {
            let mut last = None;
            for place in 0..file.len() {
                let owner = file.owner(place);
                if owner != last
                    && let Some(value) = owner
                {
                    all.push((value, place as u8));
                }
                last = owner;
            }
        }
        all.sort();
        all
    }

    /// Puts the values where the block expects them at its beginning.
    fn enter(&mut self, block: Block) -> Result<(), String> {
        self.at.fill(None);
        self.files.iter_mut().for_each(Places::clear);
        let there = self.limits.usable(self.ceilings.start(block));
        self.files[File::R as usize].set_ceiling(there);
        self.locked.clear();
        let visited = |a: &Self, b: Block| a.rank[b.index()] < a.rank[block.index()];
        let preds = &self.cfg.preds[block.index()];
        // The way that is taken most: the last one that is known.
        let from = preds.iter().copied().filter(|p| visited(self, *p)).max();
        for param in &self.function.blocks[block].params {
            if let Some(place) = self.pins.place(*param) {
                self.arrive(*param, place);
            }
        }
        let live = &self.live.live_in[block.index()];
        let before = from.map_or(&[][..], |f| &self.ends[f.index()]).to_vec();
        let is_loop = preds.iter().any(|p| !visited(self, *p));
        for (value, place) in before.into_iter().filter(|(v, _)| live.contains(*v)) {
            self.stay(value, place, is_loop);
        }
        self.make_room_for_loop(block, is_loop);
        for (i, param) in self.function.blocks[block].params.iter().enumerate() {
            let wish = from.and_then(|f| self.argument_place(f, block, i));
            self.param(*param, wish)?;
        }
        // Whoever had to move for a parameter is brought to its new place by the edges, before the block begins.
        self.lines.clear();
        for param in &self.function.blocks[block].params {
            self.born[param.index()] = self.at[param.index()].map(|p| (block, 0, p));
            // One that had to make room for another begins in memory.
            if self.at[param.index()].is_none() && !self.undefined.contains(*param) {
                self.slot(*param);
                self.in_memory.insert(*param);
            }
        }
        self.starts[block.index()] = self.snapshot();
        Ok(())
    }

    /// Registers go: whoever is in them moves below the ceiling, or leaves.
    fn lower_ceiling(&mut self, data: &InstData) -> Result<(), String> {
        let file = self.file(File::R);
        let before = self.files[file].ceiling();
        let there = self.limits.usable(ceilings::after(data, u32::from(u8::MAX)));
        if usize::from(there) >= before {
            return Ok(());
        }
        self.locked.clear();
        self.files[file].set_ceiling(there);
        let window = usize::from(there)..before;
        for place in window.clone() {
            if let Some(owner) = self.files[file].owner(place) {
                self.displace(file, owner, window.clone())?;
            }
        }
        Ok(())
    }

    /// A live value is where it was at the end of the predecessor, unless a pinned one has taken that place or will in
    /// each turn of a loop, or it is there no longer.
    fn stay(&mut self, value: Value, place: u8, is_loop: bool) {
        let data = self.function.values[value];
        let file = self.file(data.file);
        let same = Some(place).filter(|p| match is_loop {
            true => self.suits(value, *p),
            false => self.files[file].fits(*p, data.words),
        });
        match same.or_else(|| self.lasting_place(value)) {
            Some(place) => self.arrive(value, place),
            None => self.lose(value),
        }
    }

    /// Where the argument of a parameter is at the end of a predecessor.
    fn argument_place(&self, from: Block, to: Block, index: usize) -> Option<u8> {
        let edges = self.function.blocks[from].end.edges();
        let arg = *edges.iter().find(|e| e.to == to)?.args.get(index)?;
        let end = &self.ends[from.index()];
        end.binary_search_by_key(&arg, |(v, _)| *v).ok().map(|i| end[i].1)
    }

    /// Values that a loop doesn't use leave before it, if it needs their registers.
    fn make_room_for_loop(&mut self, header: Block, is_loop: bool) {
        if !is_loop {
            return;
        }
        let Some(far) = &self.next_use else { return };
        let mut outside: Vec<(u32, Value)> = self
            .snapshot()
            .into_iter()
            .filter(|(v, _)| self.function.values[*v].file == File::R && self.pins.place(*v).is_none())
            .map(|(v, _)| (far.at_start(header, v), v))
            .collect();
        outside.sort();
        let words = |v: Value| u32::from(self.function.values[v].words);
        let mut left: u32 = outside.iter().map(|(_, v)| words(*v)).sum();
        let pressure = hints::loop_pressure(self.function, self.cfg, self.live, header);
        let mut excess = pressure
            .saturating_sub(u32::from(self.limits.usable(self.ceilings.start(header))).saturating_sub(4));
        while let Some((distance, value)) = outside.pop() {
            if excess == 0 || distance < next_use::NEVER / 1000 && left == 0 {
                break;
            }
            // Only what is not used inside: its next use lies behind the loop's exit.
            if distance < 100_000 {
                break;
            }
            excess = excess.saturating_sub(words(value));
            left -= words(value);
            self.evict(value);
        }
    }

    fn param(&mut self, param: Value, wish: Option<u8>) -> Result<(), String> {
        if self.undefined.contains(param) || self.pins.place(param).is_some() {
            return Ok(());
        }
        let fits = wish.filter(|w| self.suits(param, *w));
        let mut place = fits.or_else(|| self.hinted(param)).or_else(|| self.lasting_place(param));
        // From a place that a pinned value needs it would have to move anyway.
        if place.is_none() && !self.pins.closes(param) {
            place = self.room(param, true)?;
        }
        match place {
            Some(place) => self.arrive(param, place),
            None => {
                self.slot(param);
                self.in_memory.insert(param);
            }
        }
        Ok(())
    }

    fn inst(&mut self, inst: Inst, dying: &[Value], unused: &[Value]) -> Result<(), String> {
        let data = &self.function.insts[inst];
        self.lower_ceiling(data)?;
        self.locked = data.uses().collect();
        for i in 0..self.locked.len() {
            self.bring(self.locked[i])?;
        }
        let unread = self.locked.iter().filter_map(|v| Some((*v, self.at[v.index()]?)));
        let unread =
            unread.map(|(v, place)| (self.function.values[v].file, place, self.function.values[v].words));
        self.unread = unread.collect();
        match data.op {
            Op::Pseudo(Pseudo::Undef) => {}
            Op::Pseudo(Pseudo::Copy | Pseudo::Pack | Pseudo::Unpack | Pseudo::Landed)
                if data.guard.is_none() =>
            {
                self.shuffle(inst, dying)?
            }
            Op::Pseudo(Pseudo::Call | Pseudo::Entry | Pseudo::Leave) => self.convention(inst, dying)?,
            _ => self.operation(inst, dying)?,
        }
        self.unread.clear();
        let line = self.lines.len() as u32;
        for result in &data.results {
            self.born[result.index()] = self.at[result.index()].map(|p| (self.block, line, p));
        }
        for value in dying.iter().chain(unused.iter().filter(|v| data.results.contains(v))) {
            self.leave(*value);
        }
        Ok(())
    }

    /// A machine operation, or a guarded copy.
    fn operation(&mut self, inst: Inst, dying: &[Value]) -> Result<(), String> {
        let data = &self.function.insts[inst];
        let guarded = data.guard.is_some();
        // The machine reads before it writes: a result may have the place of an argument that ends here. Not so where
        // something is moved first.
        let mut arguments = self.operand_places(data);
        if !guarded && !early_writer(data) {
            dying.iter().for_each(|v| self.leave(*v));
        }
        let tied = self.function.tied(data);
        for (i, result) in data.results.iter().enumerate() {
            match data.guard.as_ref().map(|g| g.kept[i]).or(tied) {
                Some(kept) if !self.undefined.contains(kept) => self.define_over(*result, kept, dying)?,
                _ => self.define(*result)?,
            }
            self.locked.push(*result);
        }
        if guarded || early_writer(data) {
            self.moved_arguments(&mut arguments, dying)?;
        }
        if let (Some(tied), Some(result)) = (tied, data.results.first()) {
            let place = self.register(*result, 0);
            arguments.iter_mut().filter(|(v, _)| *v == tied).for_each(|(_, p)| *p = place);
        }
        self.emit(inst, data, &arguments)
    }

    /// A pinned result may have driven arguments from their places, which are written before they are read.
    fn moved_arguments(&self, arguments: &mut [(Value, u8)], dying: &[Value]) -> Result<(), String> {
        for (value, place) in arguments {
            match self.at[value.index()] {
                Some(now) => *place = now,
                // Its place has become that of the result.
                None if dying.contains(value) || self.undefined.contains(*value) => {}
                None => return Err("a pinned value drove an argument out of the registers".into()),
            }
        }
        Ok(())
    }

    /// A result that is written only where a guard holds: it starts as the kept value.
    fn define_over(&mut self, result: Value, kept: Value, dying: &[Value]) -> Result<(), String> {
        let data = self.function.values[result];
        let place = self.register(kept, 0);
        if dying.contains(&kept) && self.pins.place(result).is_none_or(|pinned| pinned == place) {
            let file = self.file(data.file);
            self.at[kept.index()] = None;
            self.files[file].take(place, data.words, result);
            self.at[result.index()] = Some(place);
            return Ok(());
        }
        self.define(result)?;
        let to = self.register(result, 0);
        (0..data.words).try_for_each(|w| self.copy(data.file, to + w, place + w))
    }

    /// The places of the values that an instruction reads, before its results get theirs.
    fn operand_places(&self, data: &InstData) -> Vec<(Value, u8)> {
        data.uses().map(|v| (v, self.register(v, 0))).collect()
    }

    fn emit(&mut self, inst: Inst, data: &InstData, arguments: &[(Value, u8)]) -> Result<(), String> {
        let guard = data.guard.as_ref().map_or(sass::Guard::ALWAYS, |g| sass::Guard {
            predicate: place_in(arguments, g.predicate).unwrap_or(0),
            not: g.negated,
        });
        let first = self.lines.len();
        match data.op {
            Op::Machine(op) => {
                let mut line = Line::new(op, &data.modifiers, &[], Origin::Inst(inst));
                line.operands = self.operands(data, arguments);
                line.target =
                    data.args.iter().find_map(|a| if let Arg::Target(b) = a { Some(*b) } else { None });
                line.address = address(data);
                self.lines.push(line);
            }
            // A guarded copy: words that don't overlap, since result and arguments are all alive here.
            Op::Pseudo(_) => {
                let file = self.function.values[data.results[0]].file;
                for (word, (to, from)) in self.word_moves(data, arguments).into_iter().enumerate() {
                    self.copy(file, to, from)?;
                    let last = self.lines.len() - 1;
                    self.lines[last].origin = Origin::Word(inst, word as u8);
                }
            }
        }
        for line in &mut self.lines[first..] {
            (line.guard, line.at) = (guard, data.at);
        }
        Ok(())
    }

    fn operands(&self, data: &InstData, arguments: &[(Value, u8)]) -> SmallVec<[sass::Operand; 8]> {
        let mut place = |value: Value, word: u8| {
            let at = self.at[value.index()].filter(|_| data.results.contains(&value));
            at.or_else(|| place_in(arguments, value)).unwrap_or(0).wrapping_add(word)
        };
        legalize::operands(self.function, data, &mut place).collect()
    }

    /// The moves, word by word, that a copy, pack or unpack stands for.
    fn word_moves(&self, data: &InstData, arguments: &[(Value, u8)]) -> Vec<(u8, u8)> {
        let mut to: Vec<Option<u8>> = Vec::new();
        for result in &data.results {
            let at = self.at[result.index()];
            to.extend((0..self.function.values[*result].words).map(|w| at.map(|a| a + w)));
        }
        let mut from: Vec<Option<u8>> = Vec::new();
        for arg in &data.args {
            let Arg::Use(u) = arg else { continue };
            let first = u.part.map_or(0, |p| p.first);
            let count = u.part.map_or(self.function.values[u.value].words, |p| p.count);
            let at = place_in(arguments, u.value).filter(|_| !self.undefined.contains(u.value));
            from.extend((first..first + count).map(|w| at.map(|a| a + w)));
        }
        to.into_iter().zip(from).filter_map(|(to, from)| Some((to?, from?))).collect()
    }

    /// Copies, packs and unpacks: results take the places of what ends here where they can, the rest are moves.
    fn shuffle(&mut self, inst: Inst, dying: &[Value]) -> Result<(), String> {
        let data = &self.function.insts[inst];
        let arguments = self.operand_places(data);
        let file = data.results.first().map_or(File::R, |r| self.function.values[*r].file);
        dying.iter().for_each(|v| self.leave(*v));
        // What a result would like: the place where its words are already.
        let mut word = 0;
        for result in &data.results {
            let words = self.function.values[*result].words;
            let wish = self.place_of_words(data, &arguments, word, words);
            match wish.filter(|w| self.suits(*result, *w)) {
                Some(place) => self.arrive(*result, place),
                None => self.define(*result)?,
            }
            self.locked.push(*result);
            word += words;
        }
        let wanted = self.word_moves(data, &arguments);
        let spare = self.spare(file, &wanted);
        match moves::sequence(&wanted, spare) {
            Some(sequence) => {
                let first = self.lines.len();
                sequence.into_iter().try_for_each(|(to, from)| self.copy(file, to, from))?;
                self.lines[first..].iter_mut().for_each(|l| l.at = data.at);
                Ok(())
            }
            None => {
                self.short_of = Some(file);
                Ok(())
            }
        }
    }

    /// Where words `first..` of the arguments are, if they are side by side.
    fn place_of_words(&self, data: &InstData, arguments: &[(Value, u8)], first: u8, count: u8) -> Option<u8> {
        let mut at: Option<u8> = None;
        let mut word = 0;
        for arg in &data.args {
            let Arg::Use(u) = arg else { return None };
            let start = u.part.map_or(0, |p| p.first);
            let words = u.part.map_or(self.function.values[u.value].words, |p| p.count);
            if self.undefined.contains(u.value) {
                word += words;
                continue;
            }
            for w in 0..words {
                if (first..first + count).contains(&word) {
                    let place = place_in(arguments, u.value)? + start + w;
                    let begin = place.checked_sub(word - first)?;
                    if at.is_some_and(|a| a != begin) {
                        return None;
                    }
                    at = Some(begin);
                }
                word += 1;
            }
        }
        at
    }

    /// A register that neither a value nor these moves use.
    fn spare(&self, file: File, moves: &[(u8, u8)]) -> Option<u8> {
        let places = &self.files[self.file(file)];
        (0..places.len())
            .find(|p| {
                places.is_free(*p)
                    && !moves.iter().any(|(a, b)| usize::from(*a) == *p || usize::from(*b) == *p)
            })
            .map(|p| p as u8)
    }

    /// Gives a result a place.
    fn define(&mut self, value: Value) -> Result<(), String> {
        if self.undefined.contains(value) {
            return Ok(());
        }
        let place = match self.pins.place(value) {
            Some(place) => self.clear(value, place)?,
            None => match self.hinted(value) {
                Some(place) => place,
                None => self.room(value, false)?.ok_or("no room")?,
            },
        };
        self.arrive(value, place);
        Ok(())
    }

    /// Makes the place of a pinned value free.
    fn clear(&mut self, value: Value, place: u8) -> Result<u8, String> {
        let data = self.function.values[value];
        let file = self.file(data.file);
        let window = usize::from(place)..usize::from(place) + usize::from(data.words);
        for register in window.clone() {
            match self.files[file].owner(register) {
                Some(owner) if self.pins.place(owner).is_some() => return Err("two pins in one place".into()),
                Some(owner) => self.displace(file, owner, window.clone())?,
                None => {}
            }
        }
        Ok(place)
    }

    /// May a value have this place, and is it free? Those that a pinned value will need don't do.
    fn suits(&self, value: Value, place: u8) -> bool {
        let data = self.function.values[value];
        let window = usize::from(place)..usize::from(place) + usize::from(data.words);
        self.files[self.file(data.file)].fits(place, data.words)
            && self.pins.place(value).is_none_or(|pinned| pinned == place)
            && !self.is_closed(value, window)
    }

    fn is_closed(&self, value: Value, window: std::ops::Range<usize>) -> bool {
        self.function.values[value].file == File::R && self.pins.closed(value).contains_any(window)
    }

    /// A free place for a value: one that it can keep, if possible.
    fn free_place(&self, value: Value) -> Option<u8> {
        self.lasting_place(value).or_else(|| self.free_places(value).next().map(|w| w.start as u8))
    }

    /// A free place that no pinned value will need while the value lives.
    fn lasting_place(&self, value: Value) -> Option<u8> {
        let file = self.function.values[value].file;
        let mut lasting = self.free_places(value).filter(|w| !self.is_closed(value, w.clone()));
        let first = lasting.next()?;
        let unpromised = std::iter::once(first.clone()).chain(lasting).find(|w| !self.is_promised(file, w));
        Some(unpromised.unwrap_or(first).start as u8)
    }

    fn free_places(&self, value: Value) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let data = self.function.values[value];
        let places = &self.files[self.file(data.file)];
        places.windows(data.words).filter(|w| w.clone().all(|p| places.is_free(p)))
    }

    /// The place of a value that is to come into a register: free, or made free.
    fn room(&mut self, value: Value, may_fail: bool) -> Result<Option<u8>, String> {
        let data = self.function.values[value];
        let index = self.file(data.file);
        if let Some(place) = self.free_place(value) {
            return Ok(Some(place));
        }
        if self.next_use.is_none() {
            self.next_use = Some(NextUse::new(self.function, self.cfg));
        }
        if self.uses_here.is_empty() {
            self.uses_here = uses(self.function, self.block);
        }
        let windows: Vec<_> = self.files[index].windows(data.words).collect();
        let best = windows
            .into_iter()
            .filter_map(|w| Some((self.cost(index, w.clone())?, w)))
            .min_by_key(|(c, w)| (*c, w.start));
        let Some((_, window)) = best else {
            if may_fail && data.file == File::R {
                return Ok(None);
            }
            return Err(format!("Register allocation failed: no room in file {:?}", data.file));
        };
        for place in window.clone() {
            if let Some(owner) = self.files[index].owner(place) {
                self.displace(index, owner, window.clone())?;
            }
        }
        Ok(Some(window.start as u8))
    }

    /// What it costs to empty a window; `None` if someone in it may not leave.
    fn cost(&self, file: usize, window: std::ops::Range<usize>) -> Option<u64> {
        let mut total = 0;
        let mut last = None;
        for place in window.clone() {
            if self.files[file].is_reserved(place) {
                return None;
            }
            let owner = self.files[file].owner(place);
            if owner != last
                && let Some(owner) = owner
            {
                if self.locked.contains(&owner) || self.pins.place(owner).is_some() {
                    return None;
                }
                total += self.cost_of(file, owner, window.clone())?;
            }
            last = owner;
        }
        Some(total)
    }

    fn cost_of(&self, file: usize, owner: Value, window: std::ops::Range<usize>) -> Option<u64> {
        let words = self.function.values[owner].words;
        let movable = matches!(self.files[file].file(), File::R | File::P);
        if movable && self.refuge(file, owner, &window).is_some() {
            return Some(u64::from(words));
        }
        if !movable && self.files[file].file() != File::B && self.again(owner).is_none() {
            return None;
        }
        let base: u64 = if self.again(owner).is_some() { 1 << 20 } else { 1 << 30 };
        Some(100 + base * u64::from(words) / u64::from(self.distance(owner) + 1))
    }

    /// A free place outside of a window that nothing has still to be read from.
    fn refuge(&self, file: usize, value: Value, window: &std::ops::Range<usize>) -> Option<u8> {
        let places = &self.files[file];
        let words = self.function.values[value].words;
        let apart =
            |a: &std::ops::Range<usize>, b: &std::ops::Range<usize>| a.end <= b.start || b.end <= a.start;
        let unread = |w: &std::ops::Range<usize>| {
            let mut here = self.unread.iter().filter(|(f, _, _)| *f == places.file());
            here.any(|(_, at, n)| !apart(w, &(usize::from(*at)..usize::from(*at) + usize::from(*n))))
        };
        let fine = |w: &std::ops::Range<usize>| {
            apart(w, window) && w.clone().all(|p| places.is_free(p)) && !unread(w)
        };
        let lasting = |w: &std::ops::Range<usize>| fine(w) && !self.is_closed(value, w.clone());
        let found = places.windows(words).find(lasting).or_else(|| places.windows(words).find(fine));
        found.map(|w| w.start as u8)
    }

    /// How far the next use of a value is from here.
    fn distance(&self, value: Value) -> u32 {
        let from = self.uses_here.partition_point(|u| *u < (value, self.position));
        match self.uses_here.get(from) {
            Some((v, position)) if *v == value => position - self.position,
            _ => {
                let rest = self.function.blocks[self.block].insts.len() as u32 - self.position;
                let after = self.next_use.as_ref().map_or(0, |n| n.at_end(self.cfg, self.block, value));
                rest.saturating_add(after)
            }
        }
    }

    /// Makes a value leave the window: to another place, or out of the registers.
    fn displace(&mut self, file: usize, value: Value, window: std::ops::Range<usize>) -> Result<(), String> {
        let data = self.function.values[value];
        let from = self.register(value, 0);
        let movable = matches!(data.file, File::R | File::P);
        match self.refuge(file, value, &window).filter(|_| movable) {
            Some(to) => {
                (0..data.words).try_for_each(|w| self.copy(data.file, to + w, from + w))?;
                self.leave(value);
                self.arrive(value, to);
            }
            None => self.evict(value),
        }
        Ok(())
    }

    /// Out of the registers: it must be in memory, or computed again.
    fn evict(&mut self, value: Value) {
        self.leave(value);
        self.lose(value);
    }

    /// Sees to it that a value can come back.
    fn lose(&mut self, value: Value) {
        if becomes_word(self.function.values[value].file) {
            self.words.push(value);
        } else if self.again(value).is_none() {
            self.slot(value);
        }
    }

    /// Puts a value that is used into a register.
    fn bring(&mut self, value: Value) -> Result<(), String> {
        if self.at[value.index()].is_some() || self.undefined.contains(value) {
            return Ok(());
        }
        let place = self.room(value, false)?.ok_or("no room")?;
        self.arrive(value, place);
        if !self.locked.contains(&value) {
            self.locked.push(value);
        }
        let lines = self.load(value, place)?;
        self.lines.extend(lines);
        Ok(())
    }

    /// The lines that bring a value into a register.
    fn load(&mut self, value: Value, place: u8) -> Result<Vec<Line>, String> {
        let data = self.function.values[value];
        if becomes_word(data.file) {
            self.words.push(value);
            return Ok(Vec::new());
        }
        if let Some(inst) = self.again(value) {
            let data = &self.function.insts[inst];
            let Op::Machine(op) = data.op else {
                return Err("only machine operations are done again".into());
            };
            let mut line = Line::new(op, &data.modifiers, &[], Origin::Again(value));
            line.operands = legalize::operands(self.function, data, &mut |_, word| place + word).collect();
            (line.at, line.address) = (data.at, address(data));
            return Ok(vec![line]);
        }
        let slot = self.slot(value);
        self.code.spill_loads += u32::from(data.words) * 4;
        let mut lines = self.frame_access(sass::Op::LDL, slot, place, data.words);
        for line in &mut lines {
            if let Origin::Reload(at) = line.origin {
                line.origin = Origin::Bring(value, ((at - slot) / 4) as u8);
            }
        }
        Ok(lines)
    }

    /// Loads or stores of words at a place in the frame.
    fn frame_access(&self, op: sass::Op, slot: u32, place: u8, words: u8) -> Vec<Line> {
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
            Line::new(op, modifiers, &operands, if load { Origin::Reload(at) } else { Origin::Spill(at) })
        };
        (0..words).step_by(usize::from(step)).map(line).collect()
    }

    /// The definition of a value, if it is cheap and can be done anywhere.
    fn again(&self, value: Value) -> Option<Inst> {
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
    fn slot(&mut self, value: Value) -> u32 {
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
        slot
    }

    /// A value that becomes a parameter in memory is stored where the parameter is, if neither that nor anyone else who
    /// is stored there is needed where the value is, and the other way round: then nothing has to be moved on the edge.
    fn shared_slot(&self, value: Value) -> Option<u32> {
        let param = self.hints.param(value)?;
        let slot = self.slots[param.index()].filter(|_| self.in_memory.contains(param))?;
        let others = (0..self.slots.len()).filter(|i| self.slots[*i] == Some(slot)).map(Value::new);
        let apart = |other: Value| !self.is_alive_behind(other, value) && !self.is_alive_behind(value, other);
        let mut others = others.filter(|o| *o != value);
        (self.definition[value.index()].is_some() && others.all(apart)).then_some(slot)
    }

    /// Is a value alive where another one has just been defined? What isn't known counts as yes.
    fn is_alive_behind(&self, value: Value, definition: Value) -> bool {
        let function = self.function;
        let Some(inst) = self.definition[definition.index()] else {
            // A parameter: alive when its block begins?
            let of = |b: &&Block| function.blocks[**b].params.contains(&definition);
            return self
                .cfg
                .order
                .iter()
                .find(of)
                .is_none_or(|b| self.live.live_in[b.index()].contains(value));
        };
        let Some((block, _, _)) = self.born[definition.index()] else { return true };
        let data = &function.blocks[block];
        let Some(at) = data.insts.iter().position(|i| *i == inst) else { return true };
        let later = &data.insts[at + 1..];
        // Defined further down, it isn't alive yet.
        if later.iter().any(|i| function.insts[*i].results.contains(&value)) {
            return false;
        }
        let uses = later.iter().flat_map(|i| function.insts[*i].uses()).chain(data.end.uses());
        self.live.live_out[block.index()].contains(value) || { uses }.any(|v| v == value)
    }

    /// Stores every value that has a slot, right behind its definition.
    fn stores(&mut self) {
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

    fn copy(&mut self, file: File, to: u8, from: u8) -> Result<(), String> {
        self.code.touch(file, to);
        self.lines.push(move_line(file, to, from)?);
        Ok(())
    }
}

/// The registers that instructions name themselves.
fn fixed_registers(function: &Function) -> impl Iterator<Item = (File, u8)> + '_ {
    let insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    insts.flat_map(|i| &function.insts[*i].args).filter_map(|arg| match arg {
        Arg::Fixed { file, number } => Some((*file, *number)),
        _ => None,
    })
}

/// Is it a file without a way to memory but over a general register?
fn becomes_word(file: File) -> bool {
    matches!(file, File::P | File::B)
}

fn ranks(cfg: &Cfg, blocks: usize) -> Vec<u32> {
    let mut rank = vec![u32::MAX; blocks];
    cfg.order.iter().enumerate().for_each(|(i, b)| rank[b.index()] = i as u32);
    rank
}

fn move_line(file: File, to: u8, from: u8) -> Result<Line, String> {
    let rz = machine::rz();
    match file {
        File::R => Ok(Line::new(sass::Op::MOV, &[], &[machine::r(to), machine::r(from)], Origin::Move)),
        // Only to bring words side by side that have just been made: what is in these registers doesn't move otherwise.
        File::UR => Ok(Line::new(sass::Op::UMOV, &[], &[machine::ur(to), machine::ur(from)], Origin::Move)),
        // `0 = 0 and P` is P.
        File::P => {
            let operands = [machine::p(to), machine::pt(), rz, rz, machine::p(from)];
            Ok(Line::new(sass::Op::ISETP, &[M::EQ, M::AND], &operands, Origin::Move))
        }
        _ => Err(format!("a move of file {file:?}")),
    }
}

fn place_in(places: &[(Value, u8)], value: Value) -> Option<u8> {
    places.iter().find(|(v, _)| *v == value).map(|(_, p)| *p)
}

/// Does it write results before it has read all arguments? Tensor operations take several passes.
fn early_writer(data: &InstData) -> bool {
    use sass::Op::*;
    matches!(data.op, Op::Machine(HMMA | IMMA | BMMA | DMMA | QMMA | OMMA | HGMMA | IGMMA | QGMMA | BGMMA))
}

fn address(data: &InstData) -> Option<Address> {
    data.args.iter().find_map(|a| match *a {
        Arg::Address { symbol, addend, half } => Some(Address::Half { symbol, addend, half }),
        Arg::Incoming(_) => Some(Address::Incoming),
        _ => None,
    })
}

fn undefined(function: &Function) -> ValueSet {
    let mut set = ValueSet::new(function.values.len());
    for inst in function.insts.keys().map(|i| &function.insts[i]) {
        if inst.op == Op::Pseudo(Pseudo::Undef) {
            inst.results.iter().for_each(|v| set.insert(*v));
        }
    }
    set
}

fn definitions(function: &Function) -> Vec<Option<Inst>> {
    let mut all = vec![None; function.values.len()];
    for block in function.blocks.keys() {
        for inst in &function.blocks[block].insts {
            function.insts[*inst].results.iter().for_each(|v| all[v.index()] = Some(*inst));
        }
    }
    all
}

/// Each use of a value in a block, in order of values and places.
fn uses(function: &Function, block: Block) -> Vec<(Value, u32)> {
    let data = &function.blocks[block];
    let mut all: Vec<(Value, u32)> = Vec::new();
    for (i, inst) in data.insts.iter().enumerate() {
        all.extend(function.insts[*inst].uses().map(|v| (v, i as u32)));
    }
    all.extend(data.end.uses().map(|v| (v, data.insts.len() as u32)));
    all.sort();
    all
}

struct Deaths {
    /// For each instruction the values whose last use it is.
    at: Vec<Vec<Value>>,
    /// Values defined here that nothing uses.
    unused: Vec<Value>,
}

fn deaths(function: &Function, block: Block, live_out: &ValueSet) -> Deaths {
    let data = &function.blocks[block];
    let mut live = live_out.clone();
    data.end.uses().for_each(|v| live.insert(v));
    let mut out = Deaths { at: Vec::new(), unused: Vec::new() };
    for inst in data.insts.iter().rev() {
        let inst = &function.insts[*inst];
        for result in &inst.results {
            if !live.contains(*result) {
                out.unused.push(*result);
            }
            live.remove(*result);
        }
        let mut dying = Vec::new();
        for value in inst.uses() {
            if !live.contains(value) {
                live.insert(value);
                dying.push(value);
            }
        }
        out.at.push(dying);
    }
    out.at.reverse();
    out.unused.extend(data.params.iter().filter(|p| !live.contains(**p)));
    out
}
