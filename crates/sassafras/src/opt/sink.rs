//! What is needed behind a loop, but not in it, is computed behind it, and has no register in the loop.
//!
//! An instruction that is a function of its arguments goes down to the last block that dominates all its uses, but into
//! no loop. Where it is needed before the loop as well, and is cheap, it is done twice. Both only if its arguments take
//! no more registers in the loop than it gives back. Blocks and instructions are visited backwards, so that users find
//! their place before what they use.

use crate::analysis::effects;
use crate::context::Context;
use ori::divergence::Divergence;
use ori::entity::Entity;
use ori::liveness::Liveness;
use ori::{Block, Cfg, File, Function, Inst, InstData, Op, Pseudo, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// How many steps back an argument is followed to what is alive anyway.
const STEPS: u32 = 8;
/// The same for what is done twice.
const STEPS_TWICE: u32 = 4;
/// Values of more words are what products work on.
const WIDEST: u8 = 4;
/// Loops that are looked at: so the time is linear in the size of the code.
const LOOPS: usize = 64;
/// What all threads compute may be uniform, and is not computed where some of them are, nor where one runs code for all
/// (behind `ENDCOLLECTIVE`): this counts more than any loop.
const PARTED: u32 = 1 << 16;

pub fn run(function: &mut Function, context: &mut Context) -> crate::context::PassResult {
    let cfg = Cfg::new(function);
    let loops: Vec<Loop> = cfg.headers().map(|b| Loop::of(&cfg, b)).take(LOOPS).collect();
    if loops.is_empty() {
        return Ok(());
    }
    let live = Liveness::new(function, &cfg);
    let divergence = Divergence::new(function, &cfg);
    let mut depths = cfg.loop_depths();
    let gathers = |b: Block| {
        let ops = function.blocks[b].insts.iter().map(|i| function.insts[*i].op);
        ops.into_iter().any(|op| op == Op::Machine(sass::Op::ENDCOLLECTIVE))
    };
    let parted = cfg.order.iter().filter(|b| divergence.is_divergent(**b) || gathers(**b));
    parted.for_each(|b| depths[b.index()] += PARTED);
    let count = function.blocks.len();
    let mut sink = Sink {
        definitions: function.definitions(),
        depths,
        users: vec![SmallVec::new(); function.values.len()],
        alive: FxHashSet::default(),
        sunk: vec![Vec::new(); count],
        twins: FxHashMap::default(),
        function,
        cfg: &cfg,
        live: &live,
        loops,
    };
    for &block in cfg.order.iter().rev() {
        sink.end(block);
        let mut kept = Vec::new();
        for inst in std::mem::take(&mut sink.function.blocks[block].insts).into_iter().rev() {
            match sink.place(block, inst).filter(|_| context.fuel.burn()) {
                Some(to) => sink.put(inst, to),
                None => {
                    sink.twice(block, inst, context);
                    sink.settle(inst, block);
                    kept.push(inst);
                }
            }
        }
        kept.reverse();
        sink.function.blocks[block].insts = kept;
    }
    let (mut sunk, twins) = (sink.sunk, sink.twins);
    for &block in &cfg.order {
        let mut insts = std::mem::take(&mut sunk[block.index()]);
        let twin = |v: Value| twins.get(&(block, v)).copied().unwrap_or(v);
        let data = &mut function.blocks[block];
        data.end.map_uses(twin);
        data.insts.iter().chain(&insts).for_each(|i| function.insts[*i].map_uses(twin));
        insts.reverse();
        insert(function, block, insts);
    }
    Ok(())
}

/// By block: is it in the loop, and can it be reached from there?
struct Loop {
    header: Block,
    inside: Vec<bool>,
    behind: Vec<bool>,
}

impl Loop {
    fn of(cfg: &Cfg, header: Block) -> Loop {
        let mut inside = vec![false; cfg.succs.len()];
        cfg.natural_loop(header).for_each(|b| inside[b.index()] = true);
        let mut behind = vec![false; cfg.succs.len()];
        cfg.reachable_from(header, None).iter().for_each(|b| behind[b.index()] = !inside[b.index()]);
        Loop { header, inside, behind }
    }
}

struct Sink<'a> {
    function: &'a mut Function,
    cfg: &'a Cfg,
    live: &'a Liveness,
    loops: Vec<Loop>,
    definitions: Vec<Option<(Block, Inst)>>,
    /// How many loops each block lies in; more than there are loops where the threads of a warp may have parted.
    depths: Vec<u32>,
    /// The blocks in which a value is used, as far as they have been come to.
    users: Vec<SmallVec<[Block; 2]>>,
    /// Values that are alive in a block since their users came there.
    alive: FxHashSet<(Block, Value)>,
    /// What comes to each block, the last first.
    sunk: Vec<Vec<Inst>>,
    /// What a block uses instead of a value.
    twins: FxHashMap<(Block, Value), Value>,
}

impl Sink<'_> {
    /// What the end of a block uses.
    fn end(&mut self, block: Block) {
        let values: Vec<Value> = self.function.blocks[block].end.uses().collect();
        values.into_iter().for_each(|v| self.is_used(v, block));
    }

    fn is_used(&mut self, value: Value, block: Block) {
        let users = &mut self.users[value.index()];
        if !users.contains(&block) {
            users.push(block);
        }
    }

    /// An instruction has its place: its arguments are used there.
    fn settle(&mut self, inst: Inst, block: Block) {
        let values: Vec<Value> = self.function.insts[inst].uses().collect();
        for value in values {
            self.is_used(value, block);
            self.alive.insert((block, value));
        }
    }

    fn put(&mut self, inst: Inst, block: Block) {
        self.settle(inst, block);
        self.sunk[block.index()].push(inst);
    }

    /// The block that an instruction goes down to, if that is good for something.
    fn place(&self, from: Block, inst: Inst) -> Option<Block> {
        let data = &self.function.insts[inst];
        if !self.may_move(data) {
            return None;
        }
        let users = self.users_of(data);
        let last = users.iter().copied().reduce(|a, b| self.cfg.common_dominator(a, b))?;
        let to = self.outermost(from, last, |_| true);
        let passes = |l: &&Loop| self.is_idle(l, from, &users) && !self.cfg.dominates(to, l.header);
        self.loops.iter().find(passes)?;
        (self.price(data, to, STEPS) <= self.gain(data)).then_some(to)
    }

    /// What is cheap is done again for those who need it behind a loop that doesn't.
    fn twice(&mut self, from: Block, inst: Inst, context: &mut Context) {
        let data = &self.function.insts[inst];
        if !self.may_move(data) || !is_cheap(data) {
            return;
        }
        let users = self.users_of(data);
        let idle: Vec<&Loop> = self.loops.iter().filter(|l| self.is_idle(l, from, &users)).collect();
        let is_behind = |block: Block| idle.iter().any(|l| l.behind[block.index()]);
        let mut places: Vec<(Block, Block)> = Vec::new();
        for user in users.iter().copied().filter(|u| is_behind(*u)) {
            let place = self.outermost(from, user, is_behind);
            if self.price(data, place, STEPS_TWICE) <= self.gain(data) {
                places.push((place, user));
            }
        }
        places.sort();
        for group in places.chunk_by(|a, b| a.0 == b.0) {
            if context.fuel.burn() {
                self.twin(inst, group[0].0, group.iter().map(|(_, user)| *user));
            }
        }
    }

    /// Does an instruction once more, at a place for these users.
    fn twin(&mut self, inst: Inst, place: Block, users: impl Iterator<Item = Block> + Clone) {
        let mut data = self.function.insts[inst].clone();
        for result in &mut data.results {
            let (old, shape) = (*result, self.function.values[*result]);
            *result = self.function.value(shape.file, shape.words);
            for user in users.clone().filter(|u| self.users[old.index()].contains(u)) {
                self.twins.insert((user, old), *result);
            }
            self.users[old.index()].retain(|b| users.clone().all(|u| u != *b));
        }
        let new = self.function.insts.push(data);
        self.put(new, place);
    }

    /// The blocks in which its results are used.
    fn users_of(&self, data: &InstData) -> SmallVec<[Block; 4]> {
        let mut all: SmallVec<[Block; 4]> =
            data.results.iter().flat_map(|v| self.users[v.index()].iter().copied()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Does a value of this block lie idle in a loop, for those who need it behind?
    fn is_idle(&self, l: &Loop, from: Block, users: &[Block]) -> bool {
        !l.inside[from.index()]
            && users.iter().any(|u| l.behind[u.index()])
            && users.iter().all(|u| !l.inside[u.index()])
            && self.cfg.dominates(from, l.header)
    }

    fn may_move(&self, data: &InstData) -> bool {
        let shares = matches!(data.op, Op::Pseudo(Pseudo::Unpack | Pseudo::Copy | Pseudo::Undef));
        let ordinary = |v: &Value| {
            let value = self.function.values[*v];
            matches!(value.file, File::R | File::P) && value.words <= WIDEST
        };
        // Uniform registers are not what they were behind the next branch.
        let own = |v: Value| matches!(self.function.values[v].file, File::R | File::P);
        data.guard.is_none()
            && (shares || effects::is_function(data))
            && data.results.iter().all(ordinary)
            && data.uses().all(own)
    }

    /// Of the blocks from `from` to `last` that will do, one that lies in as few loops as possible: the last of these,
    /// but for those before which nothing else lies.
    fn outermost(&self, from: Block, last: Block, will_do: impl Fn(Block) -> bool) -> Block {
        let (mut at, mut best) = (last, last);
        while at != from {
            let Some(up) = self.cfg.idom(at) else { return from };
            at = up;
            if self.depths[at.index()] < self.depths[best.index()] && will_do(at) {
                best = at;
            }
        }
        best
    }

    fn gain(&self, data: &InstData) -> u32 {
        data.results.iter().map(|v| self.words(*v)).sum()
    }

    /// The registers that the arguments of an instruction take if it moves to a block, where they may move there, too.
    fn price(&self, data: &InstData, to: Block, steps: u32) -> u32 {
        let mut values: SmallVec<[Value; 4]> = data.uses().collect();
        values.sort();
        values.dedup();
        values.into_iter().map(|v| self.price_of(v, to, steps)).sum()
    }

    fn price_of(&self, value: Value, to: Block, steps: u32) -> u32 {
        if self.live.live_in[to.index()].contains(value) || self.alive.contains(&(to, value)) {
            return 0;
        }
        let words = self.words(value);
        let Some((home, inst)) = self.definitions[value.index()].filter(|_| steps > 0) else { return words };
        let data = &self.function.insts[inst];
        let only_there = self.users[value.index()].iter().all(|b| self.cfg.dominates(to, *b));
        let as_deep = self.depths[to.index()] <= self.depths[home.index()];
        if (only_there && as_deep || is_cheap(data)) && self.may_move(data) {
            words.min(self.price(data, to, steps - 1))
        } else {
            words
        }
    }

    fn words(&self, value: Value) -> u32 {
        u32::from(self.function.values[value].words)
    }
}

/// Is it no more than a sum, or nothing at all?
fn is_cheap(data: &InstData) -> bool {
    use sass::Op::*;
    matches!(data.op, Op::Pseudo(Pseudo::Undef) | Op::Machine(IADD3 | VIADD | LEA | LOP3 | MOV | SHF | LDC))
}

/// Puts instructions into a block, each before the first one that uses it.
fn insert(function: &mut Function, block: Block, insts: Vec<Inst>) {
    let mut makers: FxHashMap<Value, Inst> = FxHashMap::default();
    for inst in &insts {
        makers.extend(function.insts[*inst].results.iter().map(|v| (*v, *inst)));
    }
    let old = std::mem::take(&mut function.blocks[block].insts);
    let mut placed = Placed { function, makers, done: FxHashSet::default(), out: Vec::new() };
    old.into_iter().for_each(|inst| placed.add(inst));
    insts.into_iter().for_each(|inst| placed.add(inst));
    function.blocks[block].insts = placed.out;
}

struct Placed<'a> {
    function: &'a Function,
    makers: FxHashMap<Value, Inst>,
    done: FxHashSet<Inst>,
    out: Vec<Inst>,
}

impl Placed<'_> {
    /// An instruction, and before it what makes its arguments.
    fn add(&mut self, inst: Inst) {
        if self.done.insert(inst) {
            let makers: SmallVec<[Inst; 4]> =
                self.function.insts[inst].uses().filter_map(|v| self.makers.get(&v).copied()).collect();
            makers.into_iter().for_each(|maker| self.add(maker));
            self.out.push(inst);
        }
    }
}
