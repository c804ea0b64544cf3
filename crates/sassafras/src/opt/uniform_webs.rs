//! Uniform web selection: computes warp-uniform values of ordinary code on the uniform datapath.
//!
//! A value may be in a uniform register if every thread that reads it reads the same bits (`ori::divergence` models
//! lanes that leave a loop in different iterations exactly), and if the threads of the warp that execute its definition
//! do so together ([`convergent_loops::convergent_blocks`]). The register is then written once for all of them, and
//! writes by diverged threads use other registers (`codegen/remat_uniform.rs`). A definition in another block is
//! hoisted to the nearest convergent dominator; this is legal because the definition and its operands are pure.
//!
//! ```text
//! v1 = S2R %SR_CgaCtaId                   u1 = S2UR %SR_CgaCtaId
//! v2 = LEA v1, 0x400, 0x18          ==>   u2 = ULEA u1, 0x400, 0x18
//! v4 = IADD3 v3, v2, RZ
//! v5 = LDS v4, 0x10                       v5 = LDS v3, u2, 0x10
//! ```
//!
//! The members are the greatest fixed point: a value stays as long as its definition has a uniform counterpart whose
//! operands are members, constants or uniform registers, and each of its readers has a counterpart or a form with a
//! uniform register in this operand. Block parameters are members if all their arguments are.
//!
//! The cost model is in `uniform_webs/cost.rs`. Only moves of immediates are duplicated, and nothing is hoisted from
//! slow paths.
//!
//! Cost: linear in the code per round of the fixed point; each round removes a value.

mod cost;
mod duplicates;
mod forms;
mod launch_words;
mod shared_addresses;

use crate::analysis::convergent_loops;
use crate::codegen::legalize;
use crate::context::target::TargetMachine;
use crate::context::{Context, PassResult};
use forms::{counterpart, may_have_counterpart, with_uniform};
use ori::entity::Entity;
use ori::{
    Arg, Block, Cfg, Change, Divergence, File, Function, Inst, InstData, LoopForest, Op, Pseudo, Use, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::{M, Op as Name};
use smallvec::SmallVec;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let calls = |op: Op| matches!(op, Op::Pseudo(Pseudo::Call | Pseudo::Entry));
    let mut insts = function.insts.keys().map(|i| &function.insts[i]);
    if !context.machine.uniform_registers || insts.any(|data| calls(data.op)) {
        return Ok(Change::Nothing);
    }
    let rewrites = context.fuel.used();
    launch_words::load(function, context.machine, &mut context.fuel);
    let loaded = Change::Instructions.when(context.fuel.used() != rewrites);
    context.analyses.invalidate(loaded);
    let cfg = context.analyses.cfg(function);
    let divergence = context.analyses.divergence(function);
    let loops = context.analyses.loops(function);
    let mut webs = Webs::new(function, context.machine, (&cfg, &loops, &divergence));
    let candidates = webs.members().collect();
    webs.shrink(candidates);
    let tuning = &context.tuning;
    webs.limit(tuning.uniform_web_across as usize, tuning.uniform_web_registers as usize);
    if webs.members().next().is_none() || !context.fuel.burn() {
        return Ok(loaded);
    }
    webs.rewrite();
    let made = std::mem::take(&mut webs.made);
    duplicates::merge(function, &cfg, &made);
    shared_addresses::fold(function, context.machine, &cfg);
    Ok(Change::Instructions)
}

/// Where a value is read.
#[derive(Clone, Copy)]
enum Reader {
    /// By an instruction, as an argument.
    Inst(Inst),
    /// As an argument of a block parameter.
    Param(Value),
    /// As a guard, as what a guarded instruction keeps, or by a branch.
    Other,
}

/// Where a value comes from.
#[derive(Clone, Copy)]
enum Source {
    Inst(Block, Inst),
    Param(Block, usize),
    None,
}

/// Operands to look up forms with: words, pairs and predicates of the uniform datapath.
struct Placeholders {
    words: [Value; 2],
    predicate: Value,
}

struct Webs<'a> {
    function: &'a mut Function,
    machine: &'static TargetMachine,
    cfg: &'a Cfg,
    loops: &'a LoopForest,
    placeholders: Placeholders,
    /// By value.
    source: Vec<Source>,
    readers: FxHashMap<Value, SmallVec<[(Block, Reader); 4]>>,
    is_member: Vec<bool>,
    /// Has an instruction a uniform counterpart, and a form with a uniform register as this argument? Looked up once.
    counterparts: FxHashMap<Inst, bool>,
    forms: FxHashMap<(Inst, usize), bool>,
    /// By block: the nearest dominator that the threads of a warp run together; it may be the block itself.
    place: Vec<Option<Block>>,
    /// The operations of the uniform datapath that have been made.
    made: FxHashSet<Inst>,
}

impl<'a> Webs<'a> {
    fn new(
        function: &'a mut Function,
        machine: &'static TargetMachine,
        (cfg, loops, divergence): (&'a Cfg, &'a LoopForest, &Divergence),
    ) -> Webs<'a> {
        let words = [function.value(File::UR, 1), function.value(File::UR, 2)];
        let placeholders = Placeholders { words, predicate: function.value(File::UP, 1) };
        let mut source = vec![Source::None; function.values.len()];
        for &block in &cfg.order {
            let data = &function.blocks[block];
            for (index, param) in data.params.iter().enumerate() {
                source[param.index()] = Source::Param(block, index);
            }
            for &inst in &data.insts {
                let results = &function.insts[inst].results;
                results.iter().for_each(|v| source[v.index()] = Source::Inst(block, inst));
            }
        }
        let place = places(cfg, &convergent_loops::convergent_blocks(function, cfg, divergence));
        let is_member = vec![false; function.values.len()];
        let (counterparts, forms) = (FxHashMap::default(), FxHashMap::default());
        let readers = FxHashMap::default();
        let mut webs = Webs {
            function,
            machine,
            cfg,
            loops,
            placeholders,
            source,
            readers,
            is_member,
            counterparts,
            forms,
            place,
            made: FxHashSet::default(),
        };
        webs.find_candidates(divergence);
        webs.find_readers();
        webs
    }

    fn find_readers(&mut self) {
        let mut add = |value: Value, block: Block, reader: Reader| {
            if self.is_member[value.index()] {
                self.readers.entry(value).or_default().push((block, reader));
            }
        };
        for &block in &self.cfg.order {
            let data = &self.function.blocks[block];
            for &inst in &data.insts {
                let data = &self.function.insts[inst];
                data.args.iter().filter_map(Arg::value).for_each(|v| add(v, block, Reader::Inst(inst)));
                if let Some(guard) = &data.guard {
                    let kept = guard.else_values.iter().copied().chain([guard.predicate]);
                    kept.for_each(|v| add(v, block, Reader::Other));
                }
            }
            if let Some(decider) = data.end.decider() {
                add(decider, block, Reader::Other);
            }
            for edge in data.end.edges() {
                let params = &self.function.blocks[edge.to].params;
                edge.args.iter().zip(params).for_each(|(arg, p)| add(*arg, edge.to, Reader::Param(*p)));
            }
        }
    }

    fn readers(&self, value: Value) -> &[(Block, Reader)] {
        self.readers.get(&value).map_or(&[], |readers| readers)
    }

    fn members(&self) -> impl Iterator<Item = Value> + '_ {
        self.function.values.keys().filter(|v| self.is_member[v.index()])
    }

    /// Values that could be members if all that they are computed from are.
    fn find_candidates(&mut self, divergence: &Divergence) {
        for value in self.function.values.keys() {
            let data = self.function.values[value];
            let fits = data.file == File::P || data.file == File::R && data.words <= 2;
            let is_convergent = |block: Block| self.place[block.index()] == Some(block);
            let is_together = match self.source[value.index()] {
                Source::Inst(block, inst) => {
                    let data = &self.function.insts[inst];
                    may_have_counterpart(self.machine, data)
                        && (is_convergent(block) || self.can_be_hoisted(block, data))
                }
                // Predicates have no moves between uniform registers.
                Source::Param(block, _) => {
                    let mut preds = self.cfg.preds[block.index()].iter();
                    data.file == File::R && is_convergent(block) && preds.all(|b| is_convergent(*b))
                }
                Source::None => false,
            };
            self.is_member[value.index()] = fits && is_together && !divergence.varies(value);
        }
    }

    /// Not a load whose index may be out of bounds where its block is not reached.
    fn can_be_hoisted(&self, from: Block, data: &InstData) -> bool {
        let is_indexed = |arg: &Arg| matches!(arg, Arg::Bank { index: Some(_), .. });
        let is_cold = self.function.blocks[from].cold;
        self.place[from.index()].is_some() && !is_cold && !data.args.iter().any(is_indexed)
    }

    /// Removes members until each one has a uniform definition and uniform readers.
    fn shrink(&mut self, mut worklist: Vec<Value>) {
        while !worklist.is_empty() {
            let mut next = Vec::new();
            for value in worklist {
                if self.is_member[value.index()] && !(self.is_defined(value) && self.is_read(value)) {
                    self.is_member[value.index()] = false;
                    self.neighbours(value, &mut next);
                }
            }
            next.sort_unstable();
            next.dedup();
            worklist = next;
        }
    }

    /// The members whose place depends on whether a value is one.
    fn neighbours(&self, value: Value, out: &mut Vec<Value>) {
        let mut all: Vec<Value> = Vec::new();
        match self.source[value.index()] {
            Source::Inst(_, inst) => {
                all.extend(self.function.insts[inst].uses());
                all.extend(&self.function.insts[inst].results);
            }
            Source::Param(block, index) => all.extend(self.arguments(block, index)),
            Source::None => {}
        }
        for (_, reader) in self.readers(value) {
            match reader {
                // Another operand may now be the uniform one.
                Reader::Inst(inst) => {
                    all.extend(self.function.insts[*inst].uses());
                    all.extend(&self.function.insts[*inst].results);
                }
                Reader::Param(param) => all.push(*param),
                Reader::Other => {}
            }
        }
        out.extend(all.into_iter().filter(|v| self.is_member[v.index()]));
    }

    fn arguments(&self, block: Block, index: usize) -> Vec<Value> {
        let preds = self.cfg.preds[block.index()].iter();
        let ends: Vec<_> = preds.map(|pred| &self.function.blocks[*pred].end).collect();
        let edges = ends.iter().flat_map(|end| end.edges()).filter(|edge| edge.to == block);
        edges.map(|edge| edge.args[index]).collect()
    }

    /// Can it be computed on the uniform datapath?
    fn is_defined(&mut self, value: Value) -> bool {
        match self.source[value.index()] {
            Source::Inst(_, inst) => {
                let data = &self.function.insts[inst];
                data.results.iter().all(|v| self.is_member[v.index()])
                    && data.uses().all(|v| self.is_available(v))
                    && self.has_counterpart(inst)
            }
            Source::Param(block, index) => {
                self.arguments(block, index).into_iter().all(|v| self.is_available(v))
            }
            Source::None => false,
        }
    }

    /// Can a uniform operation read it, where it stands or where it is hoisted to?
    fn is_available(&self, value: Value) -> bool {
        let is_uniform = self.function.values[value].file == File::UR;
        let is_together = match self.source[value.index()] {
            Source::Inst(block, _) | Source::Param(block, _) => self.place[block.index()] == Some(block),
            Source::None => false,
        };
        self.is_member[value.index()] || is_uniform && is_together || self.immediate(value).is_some()
    }

    /// The immediate that all words of a value are.
    fn immediate(&self, value: Value) -> Option<i64> {
        let Source::Inst(_, inst) = self.source[value.index()] else { return None };
        let data = &self.function.insts[inst];
        match (data.op, &data.args[..]) {
            (Op::Machine(Name::MOV), [Arg::Imm(n)]) if data.guard.is_none() => Some(*n),
            (Op::Machine(Name::CS2R), [Arg::Name(M::SRZ)]) if data.guard.is_none() => Some(0),
            _ => None,
        }
    }

    fn has_counterpart(&mut self, inst: Inst) -> bool {
        if let Some(known) = self.counterparts.get(&inst) {
            return *known;
        }
        let found = self.counterpart_of(&self.function.insts[inst]).is_some();
        self.counterparts.insert(inst, found);
        found
    }

    /// The uniform counterpart with placeholders, if the machine has a form for it.
    fn counterpart_of(&self, data: &InstData) -> Option<InstData> {
        let results = data.results.iter().map(|v| self.placeholder(*v)).collect();
        let new = counterpart(self.machine, data, results, |v| self.placeholder(v));
        new.filter(|new| legalize::is_legal(self.function, self.machine, new))
    }

    fn placeholder(&self, value: Value) -> Value {
        match self.function.values[value] {
            data if matches!(data.file, File::UR | File::UP) => value,
            data if data.file == File::P => self.placeholders.predicate,
            data => self.placeholders.words[usize::from(data.words > 1)],
        }
    }

    /// Do all readers take it from a uniform register?
    fn is_read(&mut self, value: Value) -> bool {
        let readers: SmallVec<[(Block, Reader); 4]> = self.readers(value).into();
        let is_word = self.function.values[value].file == File::R;
        !readers.is_empty()
            && readers.into_iter().all(|(block, reader)| match reader {
                // Only words are kept apart from what diverged threads write.
                Reader::Inst(inst) if self.is_uniform(inst) => is_word || self.is_defined_in(value, block),
                Reader::Inst(inst) => {
                    is_word
                        && !self.delays_loop(value, (block, inst))
                        && self.uniform_operand(inst).is_some_and(|(_, v)| v == value)
                }
                Reader::Param(param) => self.is_member[param.index()],
                Reader::Other => false,
            })
    }

    fn is_defined_in(&self, value: Value, block: Block) -> bool {
        matches!(self.source[value.index()], Source::Inst(b, _) if b == block)
    }

    /// Is it an instruction of a web?
    fn is_uniform(&self, inst: Inst) -> bool {
        let results = &self.function.insts[inst].results;
        !results.is_empty() && results.iter().all(|v| self.is_member[v.index()])
    }

    /// The argument and the member that a general instruction reads from a uniform register: the first one for which there
    /// is a form.
    fn uniform_operand(&mut self, inst: Inst) -> Option<(usize, Value)> {
        for at in 0..self.function.insts[inst].args.len() {
            let Arg::Use(u) = self.function.insts[inst].args[at] else { continue };
            if self.is_member[u.value.index()] && self.has_form(inst, at, u.value) {
                return Some((at, u.value));
            }
        }
        None
    }

    fn has_form(&mut self, inst: Inst, at: usize, value: Value) -> bool {
        if let Some(known) = self.forms.get(&(inst, at)) {
            return *known;
        }
        let data = &self.function.insts[inst];
        let found = data.uses().filter(|v| *v == value).count() == 1
            && with_uniform(self.function, self.machine, data, at, self.placeholder(value)).is_some();
        self.forms.insert((inst, at), found);
        found
    }

    fn rewrite(&mut self) {
        let general = self.general_readers();
        let members: Vec<Value> = self.members().collect();
        let web: FxHashSet<Inst> = self.web_insts().collect();
        for &value in &members {
            let file = if self.function.values[value].file == File::P { File::UP } else { File::UR };
            self.function.values[value].file = file;
        }
        for (inst, at, value) in general {
            let data = &self.function.insts[inst];
            if let Some(new) = with_uniform(self.function, self.machine, data, at, value) {
                self.function.insts[inst] = new;
            }
        }
        self.cfg.order.iter().for_each(|b| self.rewrite_block(*b, &web));
        for value in members {
            if let Source::Param(block, index) = self.source[value.index()] {
                self.rewrite_arguments(block, index);
            }
        }
    }

    /// The general instructions with a uniform operand, in order, with the argument and the member that it is.
    fn general_readers(&mut self) -> Vec<(Inst, usize, Value)> {
        let insts = self.cfg.order.iter().flat_map(|b| &self.function.blocks[*b].insts);
        let general: Vec<Inst> = insts.copied().filter(|i| !self.is_uniform(*i)).collect();
        general
            .into_iter()
            .filter_map(|i| self.uniform_operand(i).map(|(at, value)| (i, at, value)))
            .collect()
    }

    fn web_insts(&self) -> impl Iterator<Item = Inst> + '_ {
        let insts = self.cfg.order.iter().flat_map(|b| &self.function.blocks[*b].insts);
        insts.copied().filter(|i| self.is_uniform(*i))
    }

    /// Replaces the web's instructions of a block, each where it is or at the end of the block that it is hoisted to. Blocks
    /// come in an order in which definitions do.
    fn rewrite_block(&mut self, block: Block, web: &FxHashSet<Inst>) {
        let place = self.place[block.index()].unwrap_or(block);
        let (mut here, mut hoisted) = (Vec::new(), Vec::new());
        for inst in std::mem::take(&mut self.function.blocks[block].insts) {
            match web.contains(&inst) {
                true if place == block => self.rewrite_inst(inst, &mut here),
                true => self.rewrite_inst(inst, &mut hoisted),
                false => here.push(inst),
            }
        }
        self.function.blocks[block].insts = here;
        self.function.blocks[place].insts.extend(hoisted);
    }

    fn rewrite_inst(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        let mut data = self.function.insts[inst].clone();
        for at in 0..data.args.len() {
            let Arg::Use(u) = data.args[at] else { continue };
            let mut folded = data.clone();
            if let Some(n) = self.immediate(u.value).filter(|_| u.is_plain()) {
                folded.args[at] = Arg::Imm(n);
                if self.counterpart_of(&folded).is_some() {
                    data = folded;
                    continue;
                }
            }
            let value = self.uniform_value(u.value, data.at, out);
            data.args[at] = Arg::Use(Use { value, ..u });
        }
        if let Some(new) = counterpart(self.machine, &data, data.results.clone(), |v| v) {
            self.function.insts[inst] = new;
        }
        self.made.insert(inst);
        out.push(inst);
    }

    /// Immediates that a uniform parameter gets are moved to uniform registers.
    fn rewrite_arguments(&mut self, to: Block, index: usize) {
        for pred in self.cfg.preds[to.index()].clone() {
            let mut end = self.function.blocks[pred].end.clone();
            let mut insts = std::mem::take(&mut self.function.blocks[pred].insts);
            for edge in end.edges_mut().into_iter().filter(|edge| edge.to == to) {
                edge.args[index] = self.uniform_value(edge.args[index], 0, &mut insts);
            }
            self.function.blocks[pred].end = end;
            self.function.blocks[pred].insts = insts;
        }
    }

    /// The value that a uniform operation reads: a member, or an immediate that is moved there.
    fn uniform_value(&mut self, value: Value, at: u32, out: &mut Vec<Inst>) -> Value {
        let shape = self.function.values[value];
        let Some(n) = self.immediate(value).filter(|_| shape.file == File::R) else { return value };
        let mut add = |op: Op, words: u8, args: &[Arg]| {
            let result = self.function.value(File::UR, words);
            let data = InstData { at, ..InstData::new(op, &[result], args) };
            let inst = self.function.insts.push(data);
            self.made.insert(inst);
            out.push(inst);
            result
        };
        let word = add(Op::Machine(Name::UMOV), 1, &[Arg::Imm(n)]);
        match shape.words {
            1 => word,
            _ => add(Op::Pseudo(Pseudo::Pack), 2, &[word.into(), word.into()]),
        }
    }
}

/// By block: the nearest dominator that the threads of a warp run together; it may be the block itself.
fn places(cfg: &Cfg, convergent: &[bool]) -> Vec<Option<Block>> {
    let mut places: Vec<Option<Block>> = vec![None; convergent.len()];
    for &block in &cfg.order {
        places[block.index()] = match convergent[block.index()] {
            true => Some(block),
            false => cfg.idom(block).and_then(|dominator| places[dominator.index()]),
        };
    }
    places
}
