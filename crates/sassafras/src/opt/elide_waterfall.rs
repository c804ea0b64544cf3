//! What one thread of a warp asks for needs no turns.
//!
//! Lowering lets the threads that ask for an operation of the warp take turns (`lower/sync/waterfall.rs`): each may come with
//! operands of its own. Kernels ask for tensor copies from a thread that they elected, and there
//!
//! * a loop around a single thread is none;
//! * operands that all threads have in common are known without going to that thread, and others come from that thread
//!   if it alone brings them over: the branch goes away, `R2UR` of what varies is guarded by whether the thread asks,
//!   and the operation by whether it is there (`VOTEU.ANY`), as ptxas has it.
//!
//! That a predicate holds for one thread at most follows from `ELECT` where all threads of the warp have met, and from
//! conjunctions with that. In a loop they meet again before the next one is elected, so two of them are never here at
//! once.

use crate::codegen::convergence_barriers;
use crate::context::Context;
use crate::opt::simplify;
use ori::entity::Entity;
use ori::{
    Arg, Block, Cfg, Divergence, Edge, File, Function, Guard, Inst, InstData, Op, Pseudo, Terminator, Value,
};
use sass::{M, Op as Name};
use smallvec::smallvec;

pub fn run(function: &mut Function, context: &mut Context) -> Result<(), String> {
    let cfg = Cfg::new(function);
    let turns: Vec<Turns> = cfg.order.iter().filter_map(|b| Turns::at(function, &cfg, *b)).collect();
    if turns.is_empty() {
        return Ok(());
    }
    let divergence = Divergence::new(function, &cfg);
    let definitions = function.definitions();
    let depth = context.tuning.waterfall_conjunctions as usize;
    let alone = |t: &&Turns| holds_for_one(function, &definitions, t.asks, depth);
    let alone: Vec<&Turns> = turns.iter().filter(alone).collect();
    if alone.is_empty() {
        return Ok(());
    }
    for turns in alone {
        match turns.is_plain(function) {
            true => turns.guard(function, &divergence),
            false => turns.once(function),
        }
    }
    simplify::run(function)
}

/// The blocks of an operation that threads take turns at.
struct Turns {
    /// Those for which this holds go to `before`, which leads to `again`; the others to where `after` leads, too.
    asks: Value,
    branch: Block,
    before: Block,
    again: Block,
    inside: Block,
    meet: Block,
    after: Block,
    rest: Edge,
}

impl Turns {
    /// Recognises what `lower/sync/waterfall.rs` makes, by the block in which a turn begins.
    fn at(function: &Function, cfg: &Cfg, again: Block) -> Option<Turns> {
        let [elects] = function.blocks[again].insts[..] else { return None };
        let elects = &function.insts[elects];
        if elects.op != Op::Machine(Name::ELECT) {
            return None;
        }
        let turn = *elects.results.first()?;
        let (inside, meet) = ways(function, again, turn)?;
        let (after, back) = ways(function, meet, turn)?;
        let led_to = |block: Block| match &function.blocks[block].end {
            Terminator::Jump(edge) => Some(edge.clone()),
            _ => None,
        };
        let is_empty = |block: Block| function.blocks[block].insts.is_empty();
        let whole = back == again && led_to(inside)?.to == meet && is_empty(meet) && is_empty(after);
        let before = *cfg.preds[again.index()].iter().find(|b| **b != meet)?;
        let [branch] = cfg.preds[before.index()][..] else { return None };
        let Terminator::Branch { predicate, negated, ref yes, ref no, .. } = function.blocks[branch].end
        else {
            return None;
        };
        let (taken, other) = if negated { (no, yes) } else { (yes, no) };
        let rest = led_to(after)?;
        let alike =
            taken.to == before && is_empty(before) && *other == rest && cfg.preds[again.index()].len() == 2;
        let plain =
            [before, again, inside, meet, after].iter().all(|b| function.blocks[*b].params.is_empty());
        let turns = Turns { asks: predicate, branch, before, again, inside, meet, after, rest };
        (whole && alike && plain).then_some(turns)
    }

    /// Is all that happens one operation that a uniform predicate can guard, with operands that are brought to it?
    fn is_plain(&self, function: &Function) -> bool {
        let Some((operation, operands)) = function.blocks[self.inside].insts.split_last() else {
            return false;
        };
        let brings = |inst: &Inst| {
            let data = &function.insts[*inst];
            let brings = matches!(data.op, Op::Machine(Name::R2UR | Name::UMOV) | Op::Pseudo(Pseudo::Pack));
            brings && data.guard.is_none() && data.results.len() == 1
        };
        is_guarded_uniformly(&function.insts[*operation]) && operands.iter().all(brings)
    }

    /// The operation in place of the branch.
    fn guard(&self, function: &mut Function, divergence: &Divergence) {
        let there = function.value(File::UP, 1);
        let mut vote = InstData::new(Op::Machine(Name::VOTEU), &[there], &[self.asks.into()]);
        vote.modifiers = smallvec![M::ANY];
        function.append(self.branch, vote);
        let insts = std::mem::take(&mut function.blocks[self.inside].insts);
        if let Some(operation) = insts.last() {
            let guard = Guard { predicate: there, negated: false, kept: smallvec![] };
            function.insts[*operation].guard = Some(guard);
        }
        for inst in insts {
            let data = &function.insts[inst];
            if data.op == Op::Machine(Name::R2UR) && data.uses().any(|v| divergence.varies(v)) {
                self.let_one_bring(function, inst);
            }
            function.blocks[self.branch].insts.push(inst);
        }
        function.blocks[self.branch].end = Terminator::Jump(self.rest.clone());
        for block in [self.before, self.again, self.inside, self.meet, self.after] {
            function.blocks[block].insts.clear();
            function.blocks[block].end = Terminator::Exit;
        }
    }

    /// The word is that of the thread that asks; if none does, nobody reads it.
    fn let_one_bring(&self, function: &mut Function, inst: Inst) {
        let nothing = function.value(File::UR, 1);
        function.append(self.branch, InstData::new(Op::Pseudo(Pseudo::Undef), &[nothing], &[]));
        let guard = Guard { predicate: self.asks, negated: false, kept: smallvec![nothing] };
        function.insts[inst].guard = Some(guard);
    }

    /// One turn.
    fn once(&self, function: &mut Function) {
        function.blocks[self.again].insts.clear();
        function.blocks[self.again].end = Terminator::Jump(Edge::to(self.inside));
        function.blocks[self.meet].end = Terminator::Jump(Edge::to(self.after));
    }
}

/// Where a block goes if a predicate holds, and if not.
fn ways(function: &Function, block: Block, predicate: Value) -> Option<(Block, Block)> {
    match &function.blocks[block].end {
        Terminator::Branch { predicate: p, negated, yes, no, .. } if *p == predicate => {
            Some(if *negated { (no.to, yes.to) } else { (yes.to, no.to) })
        }
        _ => None,
    }
}

/// Has the operation no results, and a form with a uniform guard?
fn is_guarded_uniformly(data: &InstData) -> bool {
    let Op::Machine(op) = data.op else { return false };
    let forms = sass::Form::of(op);
    data.guard.is_none() && data.results.is_empty() && forms.iter().all(|form| form.guard == sass::Kind::V)
}

/// Does a predicate hold for one thread of the warp at most?
fn holds_for_one(
    function: &Function,
    definitions: &[Option<(Block, Inst)>],
    value: Value,
    depth: usize,
) -> bool {
    let Some((block, inst)) = definitions[value.index()] else { return false };
    let data = &function.insts[inst];
    let one = |arg: &Arg| match arg {
        Arg::Use(u) => u.is_plain() && depth > 0 && holds_for_one(function, definitions, u.value, depth - 1),
        _ => false,
    };
    if data.guard.is_some() || data.results.first() != Some(&value) {
        return false;
    }
    match data.op {
        Op::Machine(Name::ELECT) => {
            let mut pairs = function.blocks[block].insts.windows(2);
            let before = pairs.find(|pair| pair[1] == inst).map(|pair| &function.insts[pair[0]]);
            before.is_some_and(convergence_barriers::waits_for_all)
        }
        Op::Machine(Name::PLOP3) => {
            let [Arg::True(_), a, b, c, Arg::Imm(table), _] = &data.args[..] else { return false };
            // Rows of the table in which each of the three holds.
            let rows = [(a, 0xf0), (b, 0xcc), (c, 0xaa_i64)];
            rows.iter().any(|(arg, rows)| table & !rows & 0xff == 0 && one(arg))
        }
        Op::Machine(Name::ISETP) => data.modifiers.contains(&M::AND) && data.args.last().is_some_and(one),
        _ => false,
    }
}
