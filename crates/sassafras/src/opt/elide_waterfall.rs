//! Waterfall loop elision: removes the waterfall loop around a warp-level operation requested by a single elected
//! thread.
//!
//! Lowering puts a warp-level operation into a loop over the requesting threads (`lower/sync/waterfall.rs`), because
//! each of them may have its own operands. Kernels issue tensor copies and initialize barriers from an elected thread:
//!
//! * A block reached only by threads for which an election predicate holds runs with one thread at a time. That thread
//!   elects itself, and `R2UR` returns its own word, so the branches of the loop become jumps.
//! * If the predicate guards nothing but the loop, the branch is removed, too. Operands shared by all threads need no
//!   particular thread, `R2UR` of a varying value is guarded by the predicate of the requesting thread, and the
//!   operation is guarded by a vote on whether there is one (`VOTEU.ANY`), as in ptxas's code.
//!
//! ```text
//!   branch v6, before, rest                v15:UP = VOTEU.ANY v6
//! before: … loop: ELECT …           →      v9:UR = R2UR v3
//!   v9:UR = R2UR v3                        @v15 UBLKCP v9, …
//!   UBLKCP v9, …                           jump rest
//! ```
//!
//! Other waterfall loops iterate over groups of threads with equal operands. If the operands are the same for all
//! threads (`ori::divergence`), there is a single group: comparisons with another thread's word hold, and branches on
//! them become jumps (`same_operands.rs`).
//!
//! A predicate holds for at most one thread if it is `ELECT` in convergent code, or a conjunction with that. In a loop
//! the threads reconverge before the next election, so two elected threads are never active here at once. Cost: linear,
//! plus a divergence analysis if there is a waterfall loop.

mod same_operands;

use crate::analysis::constant_eval::Constants;
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
    let elects =
        |b: &Block| function.blocks[*b].insts.iter().any(|i| is_machine(&function.insts[*i], Name::ELECT));
    if !cfg.order.iter().any(elects) {
        return Change::Nothing;
    }
    let loops: Vec<Waterfall> = cfg.order.iter().filter_map(|b| Waterfall::at(function, &cfg, *b)).collect();
    let divergence = context.analyses.divergence(function);
    let definitions = context.analyses.definitions(function);
    let elected =
        Elected { function, definitions: &definitions, depth: context.tuning.waterfall_conjunctions };
    let is_guardable =
        |l: &&Waterfall| elected.holds_for_one(l.asks, true, elected.depth) && l.is_guardable(function);
    let guardable: Vec<&Waterfall> =
        loops.iter().filter(is_guardable).filter(|_| context.fuel.burn()).collect();
    let known = elected.known_to_one(&cfg, &elected.run_by_one(&cfg));
    guardable.iter().for_each(|waterfall| waterfall.guard(function, &divergence));
    let mut has_changed = !guardable.is_empty();
    for &block in &cfg.order {
        let Terminator::Branch { predicate, negated, ref yes, ref no, .. } = function.blocks[block].end
        else {
            continue;
        };
        if let Some(bits) = known[predicate.index()]
            && context.fuel.burn()
        {
            let taken = if (bits != 0) != negated { yes } else { no };
            function.blocks[block].end = Terminator::Jump(taken.clone());
            has_changed = true;
        }
    }
    Change::ControlFlow.when(has_changed)
}

fn is_machine(data: &InstData, op: Name) -> bool {
    data.op == Op::Machine(op)
}

/// The blocks of a waterfall loop that is all that a branch guards.
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

/// What elections say about a function.
struct Elected<'a> {
    function: &'a Function,
    definitions: &'a [Option<(Block, Inst)>],
    /// How many conjunctions are looked through.
    depth: u32,
}

impl Elected<'_> {
    /// The blocks that one thread of a warp runs at a time: those dominated by an edge that only an elected thread takes.
    fn run_by_one(&self, cfg: &Cfg) -> Vec<bool> {
        let mut by_one = vec![false; self.function.blocks.len()];
        for &block in &cfg.order {
            let Some(above) = cfg.idom(block) else { continue };
            by_one[block.index()] = by_one[above.index()]
                || cfg.preds[block.index()][..] == [above] && self.is_taken_by_one(above, block);
        }
        by_one
    }

    /// Does one thread at most take the edge?
    fn is_taken_by_one(&self, from: Block, to: Block) -> bool {
        let Terminator::Branch { predicate, negated, yes, no, .. } = &self.function.blocks[from].end else {
            return false;
        };
        yes.to != no.to && self.holds_for_one(*predicate, (yes.to == to) != *negated, self.depth)
    }

    /// The predicates that are known where one thread computes them: it is elected, and has the word that it reads.
    fn known_to_one(&self, cfg: &Cfg, by_one: &[bool]) -> Vec<Option<u64>> {
        let mut known = vec![None; self.function.values.len()];
        let blocks = cfg.order.iter().filter(|b| by_one[b.index()]);
        for inst in blocks.flat_map(|b| &self.function.blocks[*b].insts) {
            let data = &self.function.insts[*inst];
            let constants = Constants { function: self.function, bits: &known };
            let (None, Op::Machine(op), [result, ..]) = (&data.guard, data.op, &data.results[..]) else {
                continue;
            };
            let bits = match op {
                Name::ELECT => (data.args[..] == [Arg::True(true)]).then_some(1),
                // The predicate of the threads that have another word.
                Name::R2UR if data.results.len() == 2 => Some(0),
                Name::ISETP => self.compares_with_itself(data, &constants).then_some(1),
                Name::PLOP3 => constants.evaluate(data).map(|results| results[0].1),
                _ => None,
            };
            known[result.index()] = bits;
        }
        known
    }

    /// Is it `ISETP.EQ.AND x, R2UR x`, and whatever else it asks for holds?
    fn compares_with_itself(&self, data: &InstData, constants: &Constants) -> bool {
        let is_equality = data.modifiers[..] == [M::EQ, M::U32, M::AND];
        let [Arg::True(true), word, Arg::Use(first), and] = &data.args[..] else { return false };
        let holds = match and {
            Arg::True(holds) => *holds,
            Arg::Use(u) => constants.of_use(u) == Some(u64::from(!u.negated)),
            _ => false,
        };
        let defines =
            |value: Value| self.definitions[value.index()].map(|(_, inst)| &self.function.insts[inst]);
        let is_own = |d: &InstData| match (d.op, &d.guard, &d.args[..]) {
            (Op::Machine(Name::R2UR), None, [read]) => read == word,
            (Op::Machine(Name::UMOV), None, [constant @ Arg::Imm(_)]) => {
                let is_moved =
                    |d: &InstData| is_machine(d, Name::MOV) && d.guard.is_none() && d.args[..] == [*constant];
                word.value().and_then(defines).is_some_and(is_moved)
            }
            _ => false,
        };
        is_equality && holds && first.is_plain() && defines(first.value).is_some_and(is_own)
    }

    /// Does a predicate have this value for one thread of the warp at most?
    fn holds_for_one(&self, predicate: Value, wanted: bool, depth: u32) -> bool {
        let Some((block, inst)) = self.definitions[predicate.index()] else { return false };
        let data = &self.function.insts[inst];
        let one = |arg: &Arg, wanted: bool| match arg {
            Arg::Use(u) => depth > 0 && self.holds_for_one(u.value, wanted != u.negated, depth - 1),
            _ => false,
        };
        if data.guard.is_some() || data.results.first() != Some(&predicate) {
            return false;
        }
        match data.op {
            Op::Machine(Name::ELECT) => wanted && self.elects_of_all(block, inst),
            Op::Machine(Name::PLOP3) => {
                let [Arg::True(true), a, b, c, Arg::Imm(table), _] = &data.args[..] else { return false };
                // The rows of the table in which each of the three holds.
                let rows = [(a, 0xf0), (b, 0xcc), (c, 0xaa_i64)];
                let possible = rows.iter().fold(0xff, |all, (arg, rows)| match arg {
                    Arg::True(true) => all & rows,
                    Arg::True(false) => all & !rows,
                    _ => all,
                });
                let table = if wanted { *table } else { !table } & possible;
                rows.iter().any(|(arg, rows)| {
                    table & !rows == 0 && one(arg, true) || table & rows == 0 && one(arg, false)
                })
            }
            Op::Machine(Name::ISETP) => {
                let joins = if wanted { M::AND } else { M::OR };
                data.modifiers.contains(&joins) && data.args.last().is_some_and(|arg| one(arg, wanted))
            }
            _ => false,
        }
    }

    /// Is it an election right after the whole warp has converged?
    fn elects_of_all(&self, block: Block, inst: Inst) -> bool {
        let mut pairs = self.function.blocks[block].insts.windows(2);
        let before = pairs.find(|pair| pair[1] == inst).map(|pair| &self.function.insts[pair[0]]);
        before.is_some_and(waits_for_warp)
    }
}
