//! Waterfall loop elision: an operation of the warp that one elected thread asks for needs no waterfall loop.
//!
//! Lowering puts an operation of the warp into a loop over the threads that ask for it (`lower/sync/waterfall.rs`),
//! because each may have its own operands. Kernels ask for tensor copies from an elected thread, and there
//!
//! * the loop has one iteration;
//! * operands that all threads share need no thread in particular, and others are read from the one that asks: the branch
//!   goes away, `R2UR` of a varying value is guarded by the predicate of the asking thread, and the operation by a vote
//!   of whether there is one (`VOTEU.ANY`), as ptxas has it.
//!
//! ```text
//!   branch v6, before, rest                v15:UP = VOTEU.ANY v6
//! before: … loop: ELECT …           →      v9:UR = R2UR v3
//!   v9:UR = R2UR v3                        @v15 UBLKCP v9, …
//!   UBLKCP v9, …                           jump rest
//! ```
//!
//! Other loops go over groups of threads with the same operands. Where the operands are the same for all threads
//! (`ori::divergence`), whoever they are, there is one group: comparisons with the word of another thread hold, and
//! branches on them become jumps (`same_operands.rs`).
//!
//! A predicate holds for at most one thread if it is `ELECT` where all threads of the warp have converged, or a
//! conjunction with that. In a loop they converge again before the next election, so two elected threads are never here
//! at once. Cost: linear, plus a divergence analysis where a waterfall loop is found.

mod same_operands;

use crate::context::{Context, PassResult};
use ori::divergence::waits_for_warp;
use ori::entity::Entity;
use ori::{
    Arg, Block, Cfg, Change, Cursor, Divergence, Edge, File, Function, Guard, Inst, InstData, Op, Pseudo,
    Terminator, Value,
};
use sass::{M, Op as Name};
use smallvec::smallvec;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let same_operands = same_operands::run(function, context);
    Ok(one_thread(function, context).max(same_operands))
}

/// The loops over threads of which there is one.
fn one_thread(function: &mut Function, context: &mut Context) -> Change {
    let cfg = context.analyses.cfg(function);
    let loops: Vec<Waterfall> = cfg.order.iter().filter_map(|b| Waterfall::at(function, &cfg, *b)).collect();
    if loops.is_empty() {
        return Change::Nothing;
    }
    let divergence = context.analyses.divergence(function);
    let definitions = context.analyses.definitions(function);
    let depth = context.tuning.waterfall_conjunctions as usize;
    let is_elected = |l: &&Waterfall| holds_for_one(function, &definitions, l.asks, depth);
    let elected: Vec<&Waterfall> = loops.iter().filter(is_elected).filter(|_| context.fuel.burn()).collect();
    for waterfall in &elected {
        match waterfall.is_guardable(function) {
            true => waterfall.guard(function, &divergence),
            false => waterfall.run_once(function),
        }
    }
    Change::ControlFlow.when(!elected.is_empty())
}

/// The blocks of a waterfall loop.
struct Waterfall {
    /// The predicate of the threads that go to the preheader; the others go to `rest`.
    asks: Value,
    branch: Block,
    preheader: Block,
    /// Elects a thread, which goes to `body`.
    header: Block,
    body: Block,
    latch: Block,
    exit: Block,
    rest: Edge,
}

impl Waterfall {
    /// Recognises the loop that `lower/sync/waterfall.rs` makes, by its header.
    fn at(function: &Function, cfg: &Cfg, header: Block) -> Option<Waterfall> {
        let [elects] = function.blocks[header].insts[..] else { return None };
        let elects = &function.insts[elects];
        if elects.op != Op::Machine(Name::ELECT) {
            return None;
        }
        let elected = *elects.results.first()?;
        let (body, latch) = successors(function, header, elected)?;
        let (exit, back) = successors(function, latch, elected)?;
        let jump = |block: Block| match &function.blocks[block].end {
            Terminator::Jump(edge) => Some(edge.clone()),
            _ => None,
        };
        let is_empty = |block: Block| function.blocks[block].insts.is_empty();
        let is_loop = back == header && jump(body)?.to == latch && is_empty(latch) && is_empty(exit);
        let preheader = *cfg.preds[header.index()].iter().find(|b| **b != latch)?;
        let [branch] = cfg.preds[preheader.index()][..] else { return None };
        let Terminator::Branch { predicate, negated, ref yes, ref no, .. } = function.blocks[branch].end
        else {
            return None;
        };
        let (taken, other) = if negated { (no, yes) } else { (yes, no) };
        let rest = jump(exit)?;
        let is_skipped = taken.to == preheader
            && is_empty(preheader)
            && *other == rest
            && cfg.preds[header.index()].len() == 2;
        let blocks = [preheader, header, body, latch, exit];
        let has_params = blocks.iter().any(|b| !function.blocks[*b].params.is_empty());
        let found = Waterfall { asks: predicate, branch, preheader, header, body, latch, exit, rest };
        (is_loop && is_skipped && !has_params).then_some(found)
    }

    /// Is the body one operation that a uniform predicate can guard, and moves of its operands to uniform registers?
    fn is_guardable(&self, function: &Function) -> bool {
        let Some((operation, operands)) = function.blocks[self.body].insts.split_last() else {
            return false;
        };
        let is_move = |inst: &Inst| {
            let data = &function.insts[*inst];
            let moves = matches!(data.op, Op::Machine(Name::R2UR | Name::UMOV) | Op::Pseudo(Pseudo::Pack));
            moves && data.guard.is_none() && data.results.len() == 1
        };
        has_uniform_guard(&function.insts[*operation]) && operands.iter().all(is_move)
    }

    /// The operation in place of the branch.
    fn guard(&self, function: &mut Function, divergence: &Divergence) {
        let mut cursor = Cursor::at_end(function, self.branch);
        let any = cursor.word(Name::VOTEU, &[M::ANY], File::UP, &[self.asks.into()]);
        let insts = std::mem::take(&mut function.blocks[self.body].insts);
        if let Some(operation) = insts.last() {
            let guard = Guard { predicate: any, negated: false, else_values: smallvec![] };
            function.insts[*operation].guard = Some(guard);
        }
        for inst in insts {
            let data = &function.insts[inst];
            if data.op == Op::Machine(Name::R2UR) && data.uses().any(|v| divergence.varies(v)) {
                self.read_from_asking_thread(function, inst);
            }
            function.blocks[self.branch].insts.push(inst);
        }
        function.blocks[self.branch].end = Terminator::Jump(self.rest.clone());
        for block in [self.preheader, self.header, self.body, self.latch, self.exit] {
            function.blocks[block].insts.clear();
            function.blocks[block].end = Terminator::Exit;
        }
    }

    /// The word is that of the thread that asks; if none does, it has no use.
    fn read_from_asking_thread(&self, function: &mut Function, inst: Inst) {
        let undef = Cursor::at_end(function, self.branch).undef(File::UR, 1);
        let guard = Guard { predicate: self.asks, negated: false, else_values: smallvec![undef] };
        function.insts[inst].guard = Some(guard);
    }

    /// One iteration in place of the loop.
    fn run_once(&self, function: &mut Function) {
        function.blocks[self.header].insts.clear();
        function.blocks[self.header].end = Terminator::Jump(Edge::to(self.body));
        function.blocks[self.latch].end = Terminator::Jump(Edge::to(self.exit));
    }
}

/// The successors of a block if a predicate holds, and if not.
fn successors(function: &Function, block: Block, predicate: Value) -> Option<(Block, Block)> {
    match &function.blocks[block].end {
        Terminator::Branch { predicate: p, negated, yes, no, .. } if *p == predicate => {
            Some(if *negated { (no.to, yes.to) } else { (yes.to, no.to) })
        }
        _ => None,
    }
}

/// Has the operation no results, and forms with a uniform guard only?
fn has_uniform_guard(data: &InstData) -> bool {
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
            before.is_some_and(waits_for_warp)
        }
        Op::Machine(Name::PLOP3) => {
            let [Arg::True(_), a, b, c, Arg::Imm(table), _] = &data.args[..] else { return false };
            // The rows of the table in which each of the three holds.
            let rows = [(a, 0xf0), (b, 0xcc), (c, 0xaa_i64)];
            rows.iter().any(|(arg, rows)| table & !rows & 0xff == 0 && one(arg))
        }
        Op::Machine(Name::ISETP) => data.modifiers.contains(&M::AND) && data.args.last().is_some_and(one),
        _ => false,
    }
}
