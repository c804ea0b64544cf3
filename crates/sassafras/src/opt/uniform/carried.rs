//! Uniform twins of the words that a loop carries or doesn't change.
//!
//! In a zone (`analysis/convergent_loops.rs`) a word that the loop has from outside is brought to a uniform register once, before it. A
//! parameter of one of its blocks gets a twin beside it if all that it becomes around the loop is computed from such
//! words by operations with uniform twins; these stand right behind the originals.

use super::{twin, twin_value, uniform_args};
use crate::analysis::convergent_loops::Zone;
use crate::analysis::known_bits::Definitions;
use crate::context::target::Machine;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, File, Function, Inst, InstData, Op, Use, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::Op as Name;

/// Uniform registers that may be taken all through a loop: products take others in fours. A loop that asks for more
/// words from outside brings them where they are needed.
const MOST: usize = 20;

pub struct Carried<'a> {
    zone: &'a Zone,
    cfg: &'a Cfg,
    machine: &'static Machine,
    definitions: &'a Definitions,
    /// The parameters of the loop's blocks.
    params: FxHashMap<Value, (Block, usize)>,
    /// What can be computed in uniform registers all around the loop.
    possible: FxHashSet<Value>,
    /// The twins of words so far, and how many of them take a register all through the loop.
    pub known: FxHashMap<(Value, u8), Value>,
    taken: usize,
    /// Is there room for all words that the loop has from outside?
    has_room: bool,
    /// What is to be put at the end of the block before, and behind instructions of the loop.
    before: Vec<Inst>,
    behind: FxHashMap<Inst, Vec<Inst>>,
}

/// Values to ask with whether operations have uniform twins.
struct Any {
    word: Value,
    predicate: Value,
}

impl<'a> Carried<'a> {
    pub fn new(
        function: &mut Function,
        machine: &'static Machine,
        (cfg, definitions): (&'a Cfg, &'a Definitions),
        zone: &'a Zone,
    ) -> Carried<'a> {
        let any = Any { word: function.value(File::UR, 1), predicate: function.value(File::UP, 1) };
        let mut params = FxHashMap::default();
        for &block in cfg.order.iter().filter(|b| zone.inside[b.index()]) {
            let all = function.blocks[block].params.iter().enumerate();
            params.extend(all.map(|(place, param)| (*param, (block, place))));
        }
        let (known, behind) = (FxHashMap::default(), FxHashMap::default());
        let (possible, before) = (FxHashSet::default(), Vec::new());
        let mut new = Carried {
            zone,
            cfg,
            machine,
            definitions,
            params,
            possible,
            known,
            taken: 0,
            has_room: true,
            before,
            behind,
        };
        new.find_possible(function, &any);
        new.has_room = new.wanted(function) <= MOST;
        new
    }

    /// How many words from outside are brought over in the loop; sums with a constant are made of one.
    fn wanted(&self, function: &Function) -> usize {
        let blocks = self.cfg.order.iter().filter(|b| self.zone.inside[b.index()]);
        let insts = blocks.flat_map(|b| &function.blocks[*b].insts).map(|i| &function.insts[*i]);
        let brought = insts.filter(|data| data.op == Op::Machine(Name::R2UR)).flat_map(|data| data.uses());
        let base = |value: Value| match self.definitions.get(value.index()) {
            Some(Some((_, inst))) => base_of_sum(&function.insts[*inst]).unwrap_or(value),
            _ => value,
        };
        let outside = brought.filter(|v| self.is_outside(*v)).map(base);
        outside.collect::<FxHashSet<Value>>().len()
    }

    /// Starts with all that has the shape for it, and takes away what depends on something else.
    fn find_possible(&mut self, function: &Function, any: &Any) {
        let is_word = |v: Value| function.values[v].file == File::R && function.values[v].words == 1;
        let mut open: Vec<Value> = self.params.keys().copied().filter(|p| is_word(*p)).collect();
        for &block in self.cfg.order.iter().filter(|b| self.zone.inside[b.index()]) {
            for inst in &function.blocks[block].insts {
                let data = &function.insts[*inst];
                if self.has_twin(function, data, any) {
                    open.extend(&data.results);
                }
            }
        }
        open.sort();
        self.possible = open.iter().copied().collect();
        loop {
            let count = open.len();
            open.retain(|value| {
                let possible = self.sources(function, *value).iter().all(|u| self.is_possible(function, u));
                if !possible {
                    self.possible.remove(value);
                }
                possible
            });
            if open.len() == count {
                return;
            }
        }
    }

    /// Has the machine a uniform form of an operation, if all that it uses is uniform?
    fn has_twin(&self, function: &Function, data: &InstData, any: &Any) -> bool {
        let of = |value: Value| match function.values[value].file {
            File::P => any.predicate,
            _ => any.word,
        };
        let results = data.results.iter().map(|v| of(*v)).collect();
        let one_word = data.results.iter().all(|v| function.values[*v].words == 1);
        let args = uniform_args(data, |u| Some(of(u.value)));
        one_word && args.is_some_and(|args| twin(function, self.machine, data, results, args).is_some())
    }

    /// What a value of the loop is computed from there, or what it is around the loop.
    fn sources(&self, function: &Function, value: Value) -> Vec<Use> {
        match (self.params.get(&value), self.definitions.get(value.index())) {
            (Some((block, place)), _) => {
                let preds = self.cfg.preds[block.index()].iter().filter(|p| self.zone.inside[p.index()]);
                let ends = preds.flat_map(|p| function.blocks[*p].end.edges());
                ends.filter(|e| e.to == *block).map(|e| Use::of(e.args[*place])).collect()
            }
            (None, Some(Some((_, inst)))) => {
                let uses = |arg: &Arg| if let Arg::Use(u) = arg { Some(*u) } else { None };
                function.insts[*inst].args.iter().filter_map(uses).collect()
            }
            _ => Vec::new(),
        }
    }

    fn is_possible(&self, function: &Function, u: &Use) -> bool {
        self.possible.contains(&u.value) || self.is_outside(u.value) && is_one_word(function, u)
    }

    /// Is a value there before the loop?
    pub fn is_outside(&self, value: Value) -> bool {
        match self.definitions.get(value.index()) {
            Some(Some((block, _))) => !self.zone.inside[block.index()],
            Some(None) => !self.params.contains_key(&value),
            None => false,
        }
    }

    /// The uniform twin of a word, if it has one all through the loop.
    pub fn twin(&mut self, function: &mut Function, word: (Value, u8)) -> Option<Value> {
        if let Some(known) = self.known.get(&word) {
            return Some(*known);
        }
        if self.taken >= MOST {
            return None;
        }
        match self.is_outside(word.0) {
            true if !self.has_room || function.values[word.0].file != File::R => None,
            true => Some(self.bring(function, word)),
            false if self.possible.contains(&word.0) => self.carry(function, word.0),
            false => None,
        }
    }

    /// Brings a word over before the loop.
    fn bring(&mut self, function: &mut Function, word: (Value, u8)) -> Value {
        if let Some(known) = self.known.get(&word) {
            return *known;
        }
        let value = function.value(File::UR, 1);
        let data = InstData::new(Op::Machine(Name::R2UR), &[value], &[Arg::word(word.0, word.1)]);
        self.before.push(function.insts.push(data));
        self.known.insert(word, value);
        self.taken += 1;
        value
    }

    /// The twin of a value of the loop. All that it is computed from can have one.
    fn carry(&mut self, function: &mut Function, value: Value) -> Option<Value> {
        if let Some(known) = self.known.get(&(value, 0)) {
            return Some(*known);
        }
        if let Some(&(block, place)) = self.params.get(&value) {
            return self.carry_param(function, value, block, place);
        }
        let (_, inst) = (*self.definitions.get(value.index())?)?;
        let data = function.insts[inst].clone();
        let args = uniform_args(&data, |u| self.of_use(function, u))?;
        // On the way around the loop this one may have been met, too.
        if let Some(known) = self.known.get(&(value, 0)) {
            return Some(*known);
        }
        let results = data.results.iter().map(|v| twin_value(function, *v)).collect();
        let new = twin(function, self.machine, &data, results, args)?;
        let pairs = data.results.iter().zip(&new.results);
        pairs.for_each(|(old, new)| _ = self.known.insert((*old, 0), *new));
        self.behind.entry(inst).or_default().push(function.insts.push(new));
        self.known.get(&(value, 0)).copied()
    }

    /// A parameter beside another. It is known first, so that the way around the loop comes to an end.
    fn carry_param(
        &mut self,
        function: &mut Function,
        value: Value,
        block: Block,
        place: usize,
    ) -> Option<Value> {
        let param = function.value(File::UR, 1);
        self.known.insert((value, 0), param);
        self.taken += 1;
        let mut added: Vec<(Block, Vec<Value>)> = Vec::new();
        for &pred in &self.cfg.preds[block.index()] {
            let edges = function.blocks[pred].end.edges().into_iter().filter(|e| e.to == block);
            let args: Vec<Value> = edges.map(|e| e.args[place]).collect();
            let twins: Option<Vec<Value>> =
                args.iter().map(|arg| self.of_use(function, &Use::of(*arg))).collect();
            added.push((pred, twins?));
        }
        function.blocks[block].params.push(param);
        for (pred, twins) in added {
            let edges = function.blocks[pred].end.edges_mut().into_iter().filter(|e| e.to == block);
            edges.zip(twins).for_each(|(edge, twin)| edge.args.push(twin));
        }
        Some(param)
    }

    fn of_use(&mut self, function: &mut Function, u: &Use) -> Option<Value> {
        match self.is_outside(u.value) {
            true => Some(self.bring(function, (u.value, u.part.map_or(0, |p| p.first)))),
            false => self.carry(function, u.value),
        }
    }

    /// Puts everything in its place.
    pub fn finish(mut self, function: &mut Function) {
        function.blocks[self.zone.before].insts.append(&mut self.before);
        for &block in self.cfg.order.iter().filter(|b| self.zone.inside[b.index()]) {
            let with_twins = |inst: Inst| {
                let behind = self.behind.get(&inst).into_iter().flatten().copied();
                std::iter::once(inst).chain(behind)
            };
            let insts = std::mem::take(&mut function.blocks[block].insts);
            function.blocks[block].insts = insts.into_iter().flat_map(with_twins).collect();
        }
    }
}

/// The value that an operation adds a constant to.
pub fn base_of_sum(data: &InstData) -> Option<Value> {
    match (data.op, &data.args[..]) {
        (Op::Machine(Name::IADD3), [Arg::Use(u), Arg::Imm(_), Arg::Zero(_)]) => Some(u.value),
        _ => None,
    }
}

/// Is it one word of general registers?
fn is_one_word(function: &Function, u: &Use) -> bool {
    let data = function.values[u.value];
    data.file == File::R && u.part.map_or(data.words, |p| p.count) == 1
}
