//! Register allocation over SSA.
//!
//! Blocks are visited in an order in which dominators come first; a definition takes the lowest free place of
//! its file, aligned to its width. In SSA form that never clashes: two values live at one point were both live
//! when the later one was defined. Values that a guarded operation keeps share the place of its result, with a
//! move before it where they don't end there.
//!
//! R1 is the stack pointer and never handed out. Nothing is spilled yet: too many live values are an error.

use ori::entity::Entity;
use ori::liveness::{Liveness, ValueSet};
use ori::{Cfg, File, Function, Inst, Op, Pseudo, Value};
use rustc_hash::FxHashMap;

pub struct Allocation {
    pub cfg: Cfg,
    place: Vec<Option<u8>>,
    /// For each instruction that keeps values: the moves that must stand before it, as (file, to, from).
    pub kept_moves: FxHashMap<Inst, Vec<(File, u8, u8)>>,
    /// Bit n: place n of R, and of P, is free at the end of the block. Cycles of moves need one.
    free_at_end: Vec<[[u64; 4]; 2]>,
    /// The highest R that is used, plus one.
    pub registers: u32,
}

/// What a file offers.
struct Bank {
    file: File,
    size: u8,
    taken: [bool; 256],
}

impl Bank {
    fn new(file: File, size: u8) -> Bank {
        let mut taken = [false; 256];
        if file == File::R {
            taken[1] = true;
        }
        Bank { file, size, taken }
    }

    fn find(&self, words: u8) -> Option<u8> {
        let align = usize::from(words.next_power_of_two()).min(4);
        let words = usize::from(words);
        (0..usize::from(self.size))
            .step_by(align)
            .find(|at| {
                at + words <= usize::from(self.size) && !self.taken[*at..at + words].iter().any(|t| *t)
            })
            .map(|at| at as u8)
    }

    fn free(&self) -> [u64; 4] {
        let mut bits = [0; 4];
        for at in (0..usize::from(self.size)).filter(|at| !self.taken[*at]) {
            bits[at / 64] |= 1 << (at % 64);
        }
        bits
    }

    fn set(&mut self, at: u8, words: u8, taken: bool) {
        self.taken[usize::from(at)..usize::from(at) + usize::from(words)].fill(taken);
    }
}

fn banks() -> [Bank; 5] {
    [(File::R, 253), (File::UR, 63), (File::P, 7), (File::UP, 7), (File::B, 16)].map(|(f, n)| Bank::new(f, n))
}

struct Allocator<'a> {
    function: &'a Function,
    /// Values that no instruction gives any bits: they need no place.
    undefined: ValueSet,
    banks: [Bank; 5],
    out: Allocation,
}

pub fn run(function: &Function) -> Result<Allocation, String> {
    let cfg = Cfg::new(function);
    let live = Liveness::new(function, &cfg);
    let out = Allocation {
        place: vec![None; function.values.len()],
        kept_moves: FxHashMap::default(),
        free_at_end: vec![[[0; 4]; 2]; function.blocks.len()],
        registers: 0,
        cfg,
    };
    let mut a = Allocator { function, undefined: undefined(function), banks: banks(), out };
    for i in 0..a.out.cfg.order.len() {
        let block = a.out.cfg.order[i];
        a.block(block, &live)?;
    }
    Ok(a.out)
}

impl Allocation {
    /// A place of R or P that is free at the end of a block and not among `used`.
    pub fn spare(&self, block: ori::Block, file: File, used: &[(u8, u8)]) -> Option<u8> {
        let bits = self.free_at_end[block.index()][usize::from(file == File::P)];
        (0..=255u8).find(|n| {
            bits[usize::from(n / 64)] >> (n % 64) & 1 != 0
                && !used.iter().any(|(to, from)| to == n || from == n)
        })
    }

    /// Values without any bits have none.
    pub fn has_place(&self, value: Value) -> bool {
        self.place[value.index()].is_some()
    }

    /// The register of a word of a value.
    pub fn register(&self, value: Value, word: u8) -> u8 {
        self.place[value.index()].unwrap_or(0).wrapping_add(word)
    }
}

impl Allocator<'_> {
    fn bank(&mut self, file: File) -> &mut Bank {
        let at = self.banks.iter().position(|b| b.file == file).unwrap_or(0);
        &mut self.banks[at]
    }

    fn block(&mut self, block: ori::Block, live: &Liveness) -> Result<(), String> {
        self.banks = banks();
        for value in live.live_in[block.index()].iter() {
            self.occupy(value, true);
        }
        let data = &self.function.blocks[block];
        for param in &data.params {
            self.define(*param)?;
        }
        let deaths = deaths(self.function, block, &live.live_out[block.index()]);
        for param in data.params.iter().filter(|p| deaths.unused.contains(p)) {
            self.occupy(*param, false);
        }
        for (inst, dying) in data.insts.iter().zip(&deaths.at) {
            self.inst(*inst, dying, &deaths.unused)?;
        }
        self.out.free_at_end[block.index()] = [File::R, File::P].map(|f| self.bank(f).free());
        Ok(())
    }

    fn inst(&mut self, inst: Inst, dying: &[Value], unused: &[Value]) -> Result<(), String> {
        let data = &self.function.insts[inst];
        // Pseudo operations become several moves, and what a guard keeps is moved first: there the arguments
        // must stay where they are until all results have a place. The machine reads before it writes.
        let late = matches!(data.op, Op::Pseudo(_)) || data.guard.is_some();
        if !late {
            dying.iter().for_each(|v| self.occupy(*v, false));
        }
        let mut inherited = Vec::new();
        for (i, result) in data.results.iter().enumerate() {
            match data.guard.as_ref().and_then(|g| g.kept.get(i)) {
                Some(kept) => inherited.extend(self.define_kept(inst, *result, *kept, dying)?),
                None => self.define(*result)?,
            }
        }
        if late {
            for value in dying.iter().filter(|v| !inherited.contains(v)) {
                self.occupy(*value, false);
            }
        }
        for result in data.results.iter().filter(|r| unused.contains(r)) {
            self.occupy(*result, false);
        }
        Ok(())
    }

    /// The result takes the place of the kept value if that ends here (then the kept value is returned), else
    /// a new one and a move.
    fn define_kept(
        &mut self,
        inst: Inst,
        result: Value,
        kept: Value,
        dying: &[Value],
    ) -> Result<Option<Value>, String> {
        let Some(place) = self.out.place[kept.index()].filter(|_| dying.contains(&kept)) else {
            self.define(result)?;
            self.move_kept(inst, result, kept);
            return Ok(None);
        };
        self.out.place[result.index()] = Some(place);
        Ok(Some(kept))
    }

    fn move_kept(&mut self, inst: Inst, result: Value, kept: Value) {
        let Some(place) = self.out.place[kept.index()] else { return };
        let data = self.function.values[result];
        let to = self.out.register(result, 0);
        let moves = self.out.kept_moves.entry(inst).or_default();
        moves.extend((0..data.words).map(|w| (data.file, to + w, place + w)));
    }

    fn define(&mut self, value: Value) -> Result<(), String> {
        let data = self.function.values[value];
        if self.undefined.contains(value) {
            return Ok(());
        }
        let bank = self.bank(data.file);
        let at = bank.find(data.words).ok_or_else(|| {
            format!("Register allocation failed: more than {} registers of file {:?}", bank.size, data.file)
        })?;
        bank.set(at, data.words, true);
        self.out.place[value.index()] = Some(at);
        if data.file == File::R {
            self.out.registers = self.out.registers.max(u32::from(at) + u32::from(data.words));
        }
        Ok(())
    }

    fn occupy(&mut self, value: Value, taken: bool) {
        let data = self.function.values[value];
        if let Some(at) = self.out.place[value.index()] {
            self.bank(data.file).set(at, data.words, taken);
        }
    }
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

struct Deaths {
    /// For each instruction the values whose last use it is.
    at: Vec<Vec<Value>>,
    /// Values defined here that nothing uses.
    unused: Vec<Value>,
}

fn deaths(function: &Function, block: ori::Block, live_out: &ValueSet) -> Deaths {
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
