//! Rematerialization of predicates where more are live than there are registers (Briggs, Cooper & Torczon,
//! "Rematerialization", PLDI 1992). The victim is chosen by Belady's rule: the one with the furthest next use.
//!
//! There are seven predicate registers. A spilled predicate is a bit of a word in R (`regalloc/spill_via_r.rs`):
//! setting it takes an instruction 13 cycles after the comparison, and testing it takes another before each use.
//! Repeating the comparison takes only one instruction, if the compared words are live there anyway.
//!
//! ```text
//! v1:P = ISETP.LT.AND PT, v8, c[0x0][0x230], PT         v2:P = ISETP.LT.AND PT, v9, c[0x0][0x230], PT
//! v2:P = ISETP.LT.AND PT, v9, c[0x0][0x230], PT         …                                             six in all
//! …                                             ==>     @v2 LDG …
//! @v2 LDG …                                             …
//! …                                                     v1':P = ISETP.LT.AND PT, v8, c[0x0][0x230], PT
//! @v1 LDG …                                             @v1' LDG …
//! ```
//!
//! A compared word may also be rematerialized if that takes one instruction. The pass runs before constant bank words
//! get registers, which makes them live everywhere. Postcondition: fewer predicates are live in the final order. The
//! pass is correct for any choice, because a rematerialized value is a function of values that dominate it. Cost:
//! linear in the code, except for the number of predicates live at once.

use crate::analysis::effects;
use crate::context::{Context, Fuel, PassResult};
use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{Block, Change, Definitions, File, Function, Inst, InstData, Op, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::Class;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let live = context.analyses.liveness(function);
    let most = context.tuning.sched_predicate_limit as usize;
    let is_crowded =
        |block| predicates_in(function, &live, block) > most && has_more_live(function, &live, block, most);
    let crowded: Vec<bool> = function.blocks.keys().map(is_crowded).collect();
    if !cfg.order.iter().any(|block| crowded[block.index()]) {
        return Ok(Change::Nothing);
    }
    let definitions = context.analyses.definitions(function);
    let fuel = &mut context.fuel;
    let mut pass = Rematerializer { function, live, definitions, most, dropped: FxHashSet::default(), fuel };
    let changed = cfg.order.iter().filter(|b| pass.block(**b, crowded[b.index()])).count() > 0;
    Ok(Change::Instructions.when(changed))
}

/// At most so many predicates are live at once in a block.
fn predicates_in(function: &Function, live: &Liveness, block: Block) -> usize {
    let is_predicate = |v: &Value| function.values[*v].file == File::P;
    let data = &function.blocks[block];
    let results = data.insts.iter().flat_map(|i| function.insts[*i].results.iter().copied());
    let at_start = live.live_in[block.index()].iter().chain(data.params.iter().copied());
    at_start.chain(results).filter(is_predicate).count()
}

/// Are more predicates live after some instruction of a block?
fn has_more_live(function: &Function, live: &Liveness, block: Block, most: usize) -> bool {
    let data = &function.blocks[block];
    // Few at any time: a list is as good as a set.
    let mut now: SmallVec<[Value; 16]> = SmallVec::new();
    let add = |now: &mut SmallVec<[Value; 16]>, value: Value| {
        if function.values[value].file == File::P && !now.contains(&value) {
            now.push(value);
        }
    };
    live.live_out[block.index()].iter().chain(data.end.uses()).for_each(|v| add(&mut now, v));
    for data in data.insts.iter().rev().map(|i| &function.insts[*i]) {
        if now.len() > most {
            return true;
        }
        now.retain(|v| !data.results.contains(v));
        data.uses().for_each(|v| add(&mut now, v));
    }
    false
}

struct Rematerializer<'a> {
    function: &'a mut Function,
    live: Rc<Liveness>,
    definitions: Rc<Definitions>,
    /// How many predicates may be live.
    most: usize,
    /// Predicates that are computed again in every block that comes later.
    dropped: FxHashSet<Value>,
    fuel: &'a mut Fuel,
}

/// Where the values of a block are read.
struct Reads {
    /// By predicate: the positions that read it; the end of the block is one.
    predicates: FxHashMap<Value, Vec<usize>>,
    /// By value: the last position, or beyond the end where it is live out.
    last: FxHashMap<Value, usize>,
}

/// Predicates at a point of a block.
struct State {
    /// Those that have a register, and the value that has it: itself, or the last that was computed again.
    resident: Vec<(Value, Value)>,
    /// Those that have none.
    absent: FxHashSet<Value>,
}

impl Reads {
    fn new(function: &Function, live: &Liveness, block: Block) -> Reads {
        let data = &function.blocks[block];
        let mut reads = Reads { predicates: FxHashMap::default(), last: FxHashMap::default() };
        let insts = data.insts.iter().map(|i| function.insts[*i].uses().collect());
        let uses: Vec<SmallVec<[Value; 8]>> = insts.chain([data.end.uses().collect()]).collect();
        for (at, value) in uses.iter().enumerate().flat_map(|(at, uses)| uses.iter().map(move |v| (at, *v))) {
            reads.last.insert(value, at);
            if function.values[value].file == File::P {
                reads.predicates.entry(value).or_default().push(at);
            }
        }
        live.live_out[block.index()].iter().for_each(|value| _ = reads.last.insert(value, usize::MAX));
        reads
    }

    /// The first position from `at` on that reads a predicate; beyond the end where it is only live out.
    fn next(&self, predicate: Value, at: usize) -> Option<usize> {
        let positions = self.predicates.get(&predicate).map_or(&[][..], |all| all);
        let next = positions.get(positions.partition_point(|position| *position < at)).copied();
        next.or_else(|| self.last.get(&predicate).copied().filter(|last| *last == usize::MAX))
    }

    fn is_live(&self, value: Value, at: usize) -> bool {
        self.last.get(&value).is_some_and(|last| *last >= at)
    }
}

impl Rematerializer<'_> {
    /// Returns whether it changes the block.
    fn block(&mut self, block: Block, is_crowded: bool) -> bool {
        if !is_crowded && self.dropped.is_empty() {
            return false;
        }
        let reads = Reads::new(self.function, &self.live, block);
        if !is_crowded && !reads.predicates.keys().any(|v| self.dropped.contains(v)) {
            return false;
        }
        let mut state = self.state_at_start(block);
        let insts = std::mem::take(&mut self.function.blocks[block].insts);
        let end = insts.len();
        let mut out: Vec<Inst> = Vec::with_capacity(end);
        for (at, inst) in insts.into_iter().enumerate() {
            let used: SmallVec<[Value; 8]> = self.function.insts[inst].uses().collect();
            let line = self.function.insts[inst].at;
            self.make_resident(&used, (at, line), (&reads, &mut state), &mut out);
            self.function.insts[inst].map_uses(|v| state.name(v));
            out.push(inst);
            let results = self.function.insts[inst].results.iter().copied();
            let live = results.filter(|v| self.is_predicate(*v) && reads.next(*v, at + 1).is_some());
            state.resident.extend(live.map(|v| (v, v)).collect::<SmallVec<[_; 2]>>());
            self.drop_excess(at + 1, (&reads, &mut state), &[]);
        }
        let used: SmallVec<[Value; 8]> = self.function.blocks[block].end.uses().collect();
        let line = self.function.blocks[block].end_at;
        self.make_resident(&used, (end, line), (&reads, &mut state), &mut out);
        self.function.blocks[block].end.map_uses(|v| state.name(v));
        self.function.blocks[block].insts = out;
        true
    }

    fn is_predicate(&self, value: Value) -> bool {
        self.function.values[value].file == File::P
    }

    fn state_at_start(&self, block: Block) -> State {
        let at_start = self.live.live_in[block.index()].iter();
        let params = self.function.blocks[block].params.iter().copied();
        let all = at_start.chain(params).filter(|v| self.is_predicate(*v));
        let (absent, resident): (Vec<Value>, Vec<Value>) = all.partition(|v| self.dropped.contains(v));
        let resident = resident.into_iter().map(|v| (v, v)).collect();
        State { resident, absent: absent.into_iter().collect() }
    }

    /// Gives registers to the predicates that position `at`, which comes from `line`, reads.
    fn make_resident(
        &mut self,
        used: &[Value],
        (at, line): (usize, u32),
        (reads, state): (&Reads, &mut State),
        out: &mut Vec<Inst>,
    ) {
        for &value in used {
            if state.absent.remove(&value) {
                // Where it can't be computed again, it keeps its register after all.
                let name = self.recomputed(value, at, reads).and_then(|insts| self.copy(&insts, line, out));
                state.resident.push((value, name.unwrap_or(value)));
                self.drop_excess(at, (reads, state), used);
            }
        }
    }

    /// Takes registers from the predicates with the furthest next uses from `at` on, but not from `kept`, until there
    /// are few enough.
    fn drop_excess(&mut self, at: usize, (reads, state): (&Reads, &mut State), kept: &[Value]) {
        state.resident.retain(|(v, _)| reads.next(*v, at).is_some());
        while state.resident.len() > self.most {
            let furthest = (0..state.resident.len())
                .filter_map(|index| {
                    let value = state.resident[index].0;
                    let next = reads.next(value, at)?;
                    let can_go = !kept.contains(&value) && self.recomputed(value, next, reads).is_some();
                    can_go.then_some((next, index))
                })
                .max();
            let Some((_, index)) = furthest.filter(|_| self.fuel.burn()) else { return };
            let (value, _) = state.resident.swap_remove(index);
            state.absent.insert(value);
            if reads.is_live(value, usize::MAX) {
                self.dropped.insert(value);
            }
        }
    }

    /// The definition of a value that was there before the pass.
    fn definition(&self, value: Value) -> Option<(Block, Inst)> {
        self.definitions.get(value.index()).copied().flatten()
    }

    /// The instructions that compute a predicate again, if all that they read is live at a position.
    fn recomputed(&self, predicate: Value, at: usize, reads: &Reads) -> Option<SmallVec<[Inst; 2]>> {
        let (_, comparison) = self.definition(predicate)?;
        let is_live = |v: Value| reads.is_live(v, at);
        let data = &self.function.insts[comparison];
        let mut insts: SmallVec<[Inst; 2]> = smallvec![];
        for value in data.uses().filter(|v| !is_live(*v)) {
            let (_, inst) = self.definition(value).filter(|_| insts.is_empty())?;
            let data = &self.function.insts[inst];
            if !is_short(data) || !data.uses().all(is_live) {
                return None;
            }
            insts.push(inst);
        }
        insts.push(comparison);
        is_short(data).then_some(insts)
    }

    /// Copies instructions, and returns the result of the last.
    fn copy(&mut self, insts: &[Inst], line: u32, out: &mut Vec<Inst>) -> Option<Value> {
        let mut renamed: Option<(Value, Value)> = None;
        for inst in insts {
            let mut data = self.function.insts[*inst].clone();
            let old = data.results[0];
            let shape = self.function.values[old];
            let new = self.function.value(shape.file, shape.words);
            data.map_uses(|v| renamed.filter(|(from, _)| *from == v).map_or(v, |(_, to)| to));
            (data.results, data.at) = (smallvec![new], line);
            out.push(self.function.insts.push(data));
            renamed = Some((old, new));
        }
        renamed.map(|(_, to)| to)
    }
}

impl State {
    fn name(&self, value: Value) -> Value {
        self.resident.iter().find(|(v, _)| *v == value).map_or(value, |(_, name)| *name)
    }
}

/// Is it a function of its operands with one result and a short latency, which no predicate decides?
fn is_short(data: &InstData) -> bool {
    let Op::Machine(op) = data.op else { return false };
    let class = sass::Form::of(op).first().map(|form| form.class);
    let is_fixed = matches!(class, Some(Class::Alu | Class::Fma));
    is_fixed && data.guard.is_none() && data.results.len() == 1 && effects::is_function(data)
}
