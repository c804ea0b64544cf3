//! Global redundant load elimination, store-to-load forwarding, and dead store elimination.
//!
//! A load is replaced by a known value if a load or store with the same operands dominates it, and nothing in between
//! may change the memory or make other threads' writes visible. A store is dead if another store to the same bytes
//! follows before anything reads or orders them. So is one to a local variable that nothing reads: local memory belongs
//! to the thread, and ends with it.
//!
//! ```text
//! b0: STG v0, v1, 0x0, v2                b0: STG v0, v1, 0x0, v2
//!     v3 = LDG v0, v4, 0x0                   v3 = LDG v0, v4, 0x0
//!     branch p, b1, b2               →       branch p, b1, b2
//! b1: v5 = LDG v0, v4, 0x0               b1: (uses of v5 read v3)
//! ```
//!
//! One walk in reverse post-order with the memory contents known at the end of each block (available expressions). A
//! block starts with the contents on which all of its predecessors agree, a loop header with none. An operation
//! invalidates each word whose load must not move above it (`analysis/memory_dependence.rs`). Guarded loads are left to
//! `combine`, which handles them within a block. Postcondition: no such load or store is left within the bounds
//! (`load_elim_words`, `load_elim_distance`). Cost: linear in the code, times the first of them.

use crate::analysis::effects::{self, Access, Effects, Memory, Space};
use crate::context::{Context, Fuel, PassResult, Tuning};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Change, File, Function, Inst, InstData, Op, Pseudo, Value};
use rustc_hash::FxHashSet;
use sass::{M, Op as Name};
use smallvec::SmallVec;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let rewrites = context.fuel.used();
    remove_dead_stores(function, &cfg, &context.tuning, &mut context.fuel);
    let mut pass = Eliminate {
        equal_to: function.values.keys().collect(),
        at_end: vec![None; function.blocks.len()],
        waiting: cfg.succs.iter().map(|succs| succs.len()).collect(),
        clock: 0,
        tuning: context.tuning,
        fuel: &mut context.fuel,
        function,
    };
    for &block in &cfg.order {
        pass.visit_block(&cfg, block);
    }
    pass.rename();
    remove_unread_stores(function, &mut context.fuel);
    Ok(Change::Instructions.when(context.fuel.used() != rewrites))
}

/// An access by its operands: the load of a word that a store writes has the same.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    load: Name,
    modifiers: SmallVec<[M; 4]>,
    address: SmallVec<[Arg; 4]>,
}

impl Place {
    /// The place of an unguarded plain load or store of whole words, and the value that is there afterwards.
    fn read(function: &Function, data: &InstData) -> Option<(Place, Value)> {
        let Op::Machine(op) = data.op else { return None };
        let load = match op {
            Name::LDG | Name::STG => Name::LDG,
            Name::LDS | Name::STS => Name::LDS,
            Name::LDL | Name::STL => Name::LDL,
            Name::LD | Name::ST => Name::LD,
            _ => return None,
        };
        let is_whole = data.modifiers.iter().all(|m| matches!(m, M::E | M::_64 | M::_128 | M::CONSTANT));
        if data.guard.is_some() || !is_whole || !effects::is_plain_access(data) {
            return None;
        }
        let (address, value) = match data.results[..] {
            [result] => (&data.args[..], result),
            [] => {
                let (Arg::Use(stored), address) = data.args.split_last()? else { return None };
                (stored.is_plain() && stored.part.is_none()).then_some((address, stored.value))?
            }
            _ => return None,
        };
        let shape = function.values[value];
        let bytes = data.modifiers.iter().fold(4, |bytes, m| match m {
            M::_64 => 8,
            M::_128 => 16,
            _ => bytes,
        });
        let is_word = shape.file == File::R && 4 * shape.words == bytes;
        let place = Place { load, modifiers: data.modifiers.clone(), address: address.into() };
        is_word.then_some((place, value))
    }
}

/// What a place is known to contain.
#[derive(Clone)]
struct Known {
    place: Place,
    value: Value,
    /// Those of a load from there.
    effects: Effects,
    /// When that was found.
    when: u32,
}

struct Eliminate<'a> {
    function: &'a mut Function,
    fuel: &'a mut Fuel,
    tuning: Tuning,
    equal_to: Vec<Value>,
    /// What is known at the end of each block, as long as a successor was not visited; and how many were not.
    at_end: Vec<Option<Vec<Known>>>,
    waiting: Vec<usize>,
    /// Instructions visited so far.
    clock: u32,
}

impl Eliminate<'_> {
    fn visit_block(&mut self, cfg: &Cfg, block: Block) {
        let mut known = self.at_start(cfg, block);
        for pred in &cfg.preds[block.index()] {
            let waiting = &mut self.waiting[pred.index()];
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 {
                self.at_end[pred.index()] = None;
            }
        }
        let mut insts = std::mem::take(&mut self.function.blocks[block].insts);
        insts.retain(|inst| !self.visit(*inst, &mut known));
        self.function.blocks[block].insts = insts;
        self.at_end[block.index()] = Some(known);
    }

    /// What all predecessors know.
    fn at_start(&self, cfg: &Cfg, block: Block) -> Vec<Known> {
        let mut preds = cfg.preds[block.index()].iter().map(|p| self.at_end[p.index()].as_ref());
        let Some(Some(first)) = preds.next() else { return Vec::new() };
        let mut common = first.clone();
        for pred in preds {
            let Some(other) = pred else { return Vec::new() };
            common.retain(|k| other.iter().any(|o| o.place == k.place && o.value == k.value));
        }
        common
    }

    /// Is it a load of what is known?
    fn visit(&mut self, inst: Inst, known: &mut Vec<Known>) -> bool {
        self.clock += 1;
        self.function.insts[inst].map_uses(|v| find(&self.equal_to, v));
        let data = &self.function.insts[inst];
        let effects = Effects::of(data);
        if effects.is_free() {
            return false;
        }
        let here = Place::read(self.function, data);
        if let Some((place, value)) = &here
            && !data.results.is_empty()
            && let Some(found) = known.iter().find(|k| k.place == *place)
            && self.clock - found.when <= self.tuning.load_elim_distance
            && self.fuel.burn()
        {
            self.equal_to[value.index()] = found.value;
            return true;
        }
        let load = match effects.memory {
            Memory::Read(access) | Memory::Write(access) => {
                Effects { memory: Memory::Read(access), ..effects }
            }
            _ => effects,
        };
        known.retain(|k| !Effects::stay_in_order(&effects, &k.effects));
        if let Some((place, value)) = here {
            known.retain(|k| k.place != place);
            if known.len() >= self.tuning.load_elim_words as usize {
                known.remove(0);
            }
            known.push(Known { place, value, effects: load, when: self.clock });
        }
        false
    }

    /// Uses of eliminated loads read the values that they are equal to.
    fn rename(self) {
        for block in self.function.blocks.keys() {
            self.function.map_uses_in(block, |v| find(&self.equal_to, v));
        }
    }
}

fn find(equal_to: &[Value], mut value: Value) -> Value {
    while equal_to[value.index()] != value {
        value = equal_to[value.index()];
    }
    value
}

/// Removes stores to the stack frame of bytes that nothing loads, and the frame if nothing names it any more. A generic
/// load may read them, and so may the functions that are called.
fn remove_unread_stores(function: &mut Function, fuel: &mut Fuel) {
    let calls =
        |op: Op| matches!(op, Op::Pseudo(Pseudo::Call | Pseudo::CallRoutine | Pseudo::Entry | Pseudo::Leave));
    if function.frame == 0 || function.moving_stack {
        return;
    }
    let mut loads: Vec<Access> = Vec::new();
    let mut has_stores = false;
    for block in function.blocks.keys() {
        for inst in &function.blocks[block].insts {
            let data = &function.insts[*inst];
            match Effects::of(data).memory {
                _ if calls(data.op) => return,
                Memory::Read(access) if matches!(access.space, Space::Local | Space::Generic) => {
                    loads.push(access);
                }
                // Its address is not known.
                Memory::None if data.op == Op::Machine(Name::LDL) => return,
                Memory::Unknown if data.op == Op::Machine(Name::ATOM) => return,
                Memory::Write(access) => has_stores |= access.space == Space::Local,
                _ => {}
            }
        }
    }
    if !has_stores {
        return;
    }
    // Sums with the address of the frame. A store elsewhere may be outside of local memory, which is an error.
    let names_stack = |inst: &Inst| function.insts[*inst].args.contains(&Arg::Stack);
    let insts = function.blocks.keys().flat_map(|block| &function.blocks[block].insts);
    let addresses = insts.filter(|inst| names_stack(inst)).flat_map(|inst| &function.insts[*inst].results);
    let addresses: FxHashSet<Value> = addresses.copied().collect();
    let is_of_frame = |access: &Access| match access.base {
        Some(Arg::Stack) => true,
        Some(Arg::Use(u)) => addresses.contains(&u.value),
        _ => false,
    };
    let is_dead = |data: &InstData| match Effects::of(data).memory {
        Memory::Write(access) if data.op == Op::Machine(Name::STL) && is_of_frame(&access) => {
            !loads.iter().any(|load| may_overlap(load, &access))
        }
        _ => false,
    };
    let mut has_changed = false;
    for block in function.blocks.keys() {
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        let count = insts.len();
        insts.retain(|inst| !is_dead(&function.insts[*inst]) || !fuel.burn());
        has_changed |= insts.len() < count;
        function.blocks[block].insts = insts;
    }
    if has_changed && !names_frame(function) {
        function.frame = 0;
    }
}

/// Does anything but an address that nobody reads name the frame?
fn names_frame(function: &Function) -> bool {
    let blocks: Vec<Block> = function.blocks.keys().collect();
    let mut uses = function.use_counts(blocks.iter().copied());
    // Backward, so that what reads an address comes before it.
    for block in blocks.into_iter().rev() {
        for inst in function.blocks[block].insts.iter().rev() {
            let data = &function.insts[*inst];
            let is_unread = data.results.iter().all(|result| uses[result.index()] == 0);
            if effects::is_pure(data) && is_unread {
                data.uses().for_each(|value| uses[value.index()] -= 1);
            } else if data.args.contains(&Arg::Stack) {
                return true;
            }
        }
    }
    false
}

/// Two places in the frame are different bytes; any other address may be of either.
fn may_overlap(load: &Access, store: &Access) -> bool {
    let in_frame = |access: &Access| access.base == Some(Arg::Stack) && access.index.is_none();
    !in_frame(load) || !in_frame(store) || load.may_alias(store)
}

/// A store that may turn out to be dead.
struct Pending {
    inst: Inst,
    op: Op,
    modifiers: SmallVec<[M; 4]>,
    address: SmallVec<[Arg; 4]>,
    guard: Option<(Value, bool)>,
    effects: Effects,
}

impl Pending {
    fn read(inst: Inst, data: &InstData) -> Option<Pending> {
        let (Op::Machine(Name::STG | Name::STS | Name::STL | Name::ST), [address @ .., _]) =
            (data.op, &data.args[..])
        else {
            return None;
        };
        let guard = data.guard.as_ref().map(|g| (g.predicate, g.negated));
        let (op, modifiers, address) = (data.op, data.modifiers.clone(), address.into());
        effects::is_plain_access(data).then(|| Pending {
            inst,
            op,
            modifiers,
            address,
            guard,
            effects: Effects::of(data),
        })
    }

    /// Does it write the same bytes in all threads in which the other one does?
    fn overwrites(&self, other: &Pending) -> bool {
        self.op == other.op
            && self.modifiers == other.modifiers
            && self.address == other.address
            && (self.guard.is_none() || self.guard == other.guard)
    }
}

/// Removes stores that a later one in their block overwrites.
fn remove_dead_stores(function: &mut Function, cfg: &Cfg, tuning: &Tuning, fuel: &mut Fuel) {
    for &block in &cfg.order {
        let mut pending: Vec<Pending> = Vec::new();
        let mut dead: FxHashSet<Inst> = FxHashSet::default();
        for &inst in &function.blocks[block].insts {
            let data = &function.insts[inst];
            let effects = Effects::of(data);
            if effects.is_free() {
                continue;
            }
            let own = Pending::read(inst, data);
            if let Some(own) = &own {
                let overwritten = pending.iter().filter(|p| own.overwrites(p) && fuel.burn());
                dead.extend(overwritten.map(|p| p.inst));
            }
            pending.retain(|p| !Effects::stay_in_order(&p.effects, &effects));
            if let Some(own) = own {
                if pending.len() >= tuning.load_elim_words as usize {
                    pending.remove(0);
                }
                pending.push(own);
            }
        }
        if !dead.is_empty() {
            function.blocks[block].insts.retain(|inst| !dead.contains(inst));
        }
    }
}
