//! If-conversion: executes short sides of a branch unconditionally. Pure operations are speculated and their results
//! selected; loads, stores and atomics are predicated with the branch's predicate.
//!
//! Handles hammocks and diamonds (Allen et al., "Conversion of Control Dependence to Data Dependence"). A side is a
//! block whose only predecessor is the branch and which jumps to the target of the other side. Removing the branch
//! removes its convergence barrier, extends the block, and lets the loads of several sides overlap.
//!
//! ```text
//! b0: branch p, b1, b2                   b0: v1 = x + y
//! b1: v1 = x + y; jump b3(v1)       →        @!p[v1] v2 = LDG a
//! b2: v2 = LDG a; jump b3(v2)                jump b3(v2)
//! b3(v3):
//! ```
//!
//! One run converts innermost branches. After `simplify` has merged the blocks of an inner branch, the outer one is a
//! hammock, so the pipeline repeats both. An existing guard is combined with the branch's predicate. Two branches with
//! a common exit become one (`if_convert/short_circuit.rs`). A side that is hardly ever taken (`analysis/likelihood.rs`)
//! stays a side unless it is very short. Postcondition: no convertible branch is within the cost limit
//! (`if_convert_max_cost`). Cost: linear.

mod short_circuit;

use crate::analysis::effects;
use crate::analysis::forwarding::forwarded;
use crate::analysis::likelihood;
use crate::context::{Context, PassResult, Tuning};
use ori::entity::Entity;
use ori::{Arg, Block, Change, Edge, File, Function, Guard, Inst, InstData, Op, Pseudo, Terminator, Value};
use rustc_hash::FxHashSet;
use sass::{Class, M};
use short_circuit::BranchPair;
use smallvec::{SmallVec, smallvec};

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let mut pred_counts: Vec<usize> = cfg.preds.iter().map(|preds| preds.len()).collect();
    let mut converted = false;
    for &block in cfg.order.iter().rev() {
        if let Some(hammock) = Hammock::find(function, &context.tuning, &pred_counts, block)
            && hammock.pays(function, &context.tuning)
            && context.fuel.burn()
        {
            hammock.convert(function, &mut pred_counts);
            converted = true;
        }
        if let Some(pair) = BranchPair::find(function, &context.tuning, &pred_counts, block)
            && context.fuel.burn()
        {
            pair.merge(function, &mut pred_counts);
            converted = true;
        }
    }
    Ok(Change::ControlFlow.when(converted))
}

/// A branch whose sides join at once.
struct Hammock {
    block: Block,
    predicate: Arg,
    /// The blocks of the sides; `None` for an edge to the join, straight or by empty blocks that others lead to as well.
    sides: [Option<Block>; 2],
    /// Where the edges of the branch lead.
    heads: [Block; 2],
    join: Block,
    args: [Vec<Value>; 2],
}

impl Hammock {
    fn find(function: &Function, tuning: &Tuning, pred_counts: &[usize], block: Block) -> Option<Hammock> {
        let Terminator::Branch { predicate, negated, yes, no, .. } = &function.blocks[block].end else {
            return None;
        };
        let side = |edge| Side::find(function, tuning, pred_counts, edge);
        let (yes_side, no_side) = (side(yes), side(no));
        let [yes_edge, no_edge] =
            [yes, no].map(|edge| Side { block: None, to_join: forwarded(function, edge) });
        // Both sides, one of them, or neither has a block of its own.
        let candidates = [
            (yes_side.as_ref(), no_side.as_ref()),
            (yes_side.as_ref(), Some(&no_edge)),
            (Some(&yes_edge), no_side.as_ref()),
            (Some(&yes_edge), Some(&no_edge)),
        ];
        let mut pairs = candidates.into_iter().filter_map(|(a, b)| a.zip(b));
        let (a, b) = pairs.find(|(a, b)| a.to_join.to == b.to_join.to)?;
        let join = a.to_join.to;
        if join == block || function.values[*predicate].file != File::P {
            return None;
        }
        Some(Hammock {
            block,
            predicate: if *negated { Arg::not(*predicate) } else { (*predicate).into() },
            sides: [a.block, b.block],
            heads: [yes.to, no.to],
            join,
            args: [a.to_join.args.clone(), b.to_join.args.clone()],
        })
    }

    /// Is it shorter than the branch? Constants cost nothing: selects take them as operands.
    fn pays(&self, function: &Function, tuning: &Tuning) -> bool {
        let Some(selects) = self.selects(function) else { return false };
        let count = |b: &Block| {
            let insts = function.blocks[*b].insts.iter();
            let count: u32 = insts.map(|i| cost(&function.insts[*i], tuning)).sum();
            count + inner_guards(function, *b).len() as u32
        };
        let counts = self.sides.map(|side| side.as_ref().map_or(0, count));
        // What hardly ever runs is no work for all.
        let is_rare = |at: usize| likelihood::is_rare(function, self.block, &self.predicate, at == 0);
        if (0..2).any(|at| counts[at] > tuning.if_convert_max_rare_side && is_rare(at)) {
            return false;
        }
        let has = |side: Option<Block>, is: fn(&InstData) -> bool| {
            side.is_some_and(|b| function.blocks[b].insts.iter().any(|i| is(&function.insts[*i])))
        };
        if !self.sides.iter().any(|side| has(*side, is_guardable)) {
            return counts[0] + counts[1] + selects <= tuning.if_convert_max_cost;
        }
        // The latency of a load is worth more instructions.
        let limit = |side| match has(side, is_long_load) {
            true => tuning.if_convert_max_load_side,
            false => tuning.if_convert_max_guarded_side,
        };
        selects <= tuning.if_convert_max_guarded_side
            && self.sides.iter().zip(counts).all(|(side, count)| count <= limit(*side))
    }

    /// The number of selects; `None` if a value can't be selected.
    fn selects(&self, function: &Function) -> Option<u32> {
        let select = |(i, (a, b)): (usize, (&Value, &Value))| match function.values[*a].file {
            _ if a == b || self.merges(function, i).is_some() => Some(0),
            File::R if function.values[*a].words <= 2 => Some(u32::from(function.values[*a].words)),
            File::P => Some(1),
            _ => None,
        };
        self.args[0].iter().zip(&self.args[1]).enumerate().map(select).sum()
    }

    /// The side whose guarded load gives this argument of the join, with the other side's value as else value: it is
    /// there before the load. The first argument that a load gives counts.
    fn merges(&self, function: &Function, at: usize) -> Option<usize> {
        let definition = |side: usize| {
            let mut insts = function.blocks[self.sides[side]?].insts.iter().map(|i| &function.insts[*i]);
            insts.find(|data| data.results.contains(&self.args[side][at]))
        };
        let loads = |side: usize| {
            let value = self.args[side][at];
            let keeps_other = |guard: &Guard| guard.else_values[..] == [self.args[1 - side][at]];
            definition(side)
                .is_some_and(|data| is_guardable(data) && data.guard.as_ref().is_none_or(keeps_other))
                && self.args[side].iter().position(|v| *v == value) == Some(at)
        };
        // The second side comes after the first.
        (1..2).find(|side| loads(*side)).or_else(|| (loads(0) && definition(1).is_none()).then_some(0))
    }

    fn convert(self, function: &mut Function, pred_counts: &mut [usize]) {
        let merged: Vec<Option<usize>> = (0..self.args[0].len()).map(|i| self.merges(function, i)).collect();
        for (number, side) in self.sides.into_iter().enumerate() {
            let Some(side) = side else { continue };
            let mut combined = Vec::new();
            for inst in std::mem::take(&mut function.blocks[side].insts) {
                match is_guardable(&function.insts[inst]) {
                    true if function.insts[inst].guard.is_some() => {
                        self.narrow_guard(function, inst, number, &mut combined);
                    }
                    true => self.guard(function, inst, number, &merged),
                    false => {}
                }
                function.blocks[self.block].insts.push(inst);
            }
            function.blocks[side].end = Terminator::Exit;
            pred_counts[self.join.index()] -= 1;
        }
        self.heads.iter().for_each(|head| pred_counts[head.index()] -= 1);
        let args = (0..merged.len())
            .map(|i| match merged[i] {
                Some(side) => self.args[side][i],
                None => self.select(function, self.args[0][i], self.args[1][i]),
            })
            .collect();
        function.blocks[self.block].end = Terminator::Jump(Edge { to: self.join, args });
        pred_counts[self.join.index()] += 1;
    }

    /// Guards a load, store or atomic of a side.
    fn guard(&self, function: &mut Function, inst: Inst, side: usize, merged: &[Option<usize>]) {
        let Arg::Use(u) = self.predicate else { return };
        let results = function.insts[inst].results.clone();
        let mut else_values = SmallVec::new();
        for result in results {
            let merges = |i: &usize| merged[*i] == Some(side) && self.args[side][*i] == result;
            let other = (0..merged.len()).find(merges).map(|i| self.args[1 - side][i]);
            else_values.push(other.unwrap_or_else(|| {
                let data = function.values[result];
                let undefined = function.value(data.file, data.words);
                let at = function.insts[inst].at;
                let undef = InstData { at, ..InstData::new(Op::Pseudo(Pseudo::Undef), &[undefined], &[]) };
                function.append(self.block, undef);
                undefined
            }));
        }
        let guard = Guard { predicate: u.value, negated: u.negated != (side == 1), else_values };
        function.insts[inst].guard = Some(guard);
    }

    /// Lets a guarded access of a side happen only where the branch goes there. `combined`: guards that have been
    /// narrowed before, and what they became.
    fn narrow_guard(
        &self,
        function: &mut Function,
        inst: Inst,
        side: usize,
        combined: &mut Vec<((Value, bool), Value)>,
    ) {
        let at = function.insts[inst].at;
        let Some((old, Arg::Use(u))) = guard_of(&function.insts[inst]).zip(Some(self.predicate)) else {
            return;
        };
        let known = combined.iter().find(|(guard, _)| *guard == old).map(|(_, both)| *both);
        let both = known.unwrap_or_else(|| {
            let both = function.value(File::P, 1);
            let signed = |value: Value, negated: bool| if negated { Arg::not(value) } else { value.into() };
            let (a, b) = (signed(u.value, u.negated != (side == 1)), signed(old.0, old.1));
            let args = [Arg::True(true), a, b, Arg::True(true), Arg::Imm(0xc0), Arg::Imm(0)];
            let and = InstData::new(Op::Machine(sass::Op::PLOP3), &[both], &args);
            function.append(self.block, InstData { modifiers: [M::LUT].into_iter().collect(), at, ..and });
            combined.push((old, both));
            both
        });
        if let Some(guard) = &mut function.insts[inst].guard {
            (guard.predicate, guard.negated) = (both, false);
        }
    }

    /// `a` where the predicate holds, else `b`.
    fn select(&self, function: &mut Function, a: Value, b: Value) -> Value {
        let data = function.values[a];
        if a == b {
            return a;
        }
        let mut emit = |op: Op, modifiers: &[M], file: File, words: u8, args: &[Arg]| {
            let result = function.value(file, words);
            let (modifiers, args) = (modifiers.into(), SmallVec::from_slice(args));
            let at = function.blocks[self.block].end_at;
            let inst = InstData { op, modifiers, results: smallvec![result], args, guard: None, at };
            function.append(self.block, inst);
            result
        };
        if data.file == File::P {
            let (unused, table) = (Arg::True(true), Arg::Imm(0xca));
            let args = [unused, self.predicate, a.into(), b.into(), table, Arg::Imm(0)];
            return emit(Op::Machine(sass::Op::PLOP3), &[M::LUT], File::P, 1, &args);
        }
        let sel = Op::Machine(sass::Op::SEL);
        if data.words == 1 {
            return emit(sel, &[], File::R, 1, &[a.into(), b.into(), self.predicate]);
        }
        let words: Vec<Arg> = (0..data.words)
            .map(|w| emit(sel, &[], File::R, 1, &[Arg::word(a, w), Arg::word(b, w), self.predicate]).into())
            .collect();
        emit(Op::Pseudo(Pseudo::Pack), &[], File::R, data.words, &words)
    }
}

/// A side of a branch, and its edge to the join.
struct Side<'a> {
    block: Option<Block>,
    to_join: &'a Edge,
}

impl Side<'_> {
    /// The side whose block an edge of the branch leads to, if it can be speculated and guarded.
    fn find<'a>(
        function: &'a Function,
        tuning: &Tuning,
        pred_counts: &[usize],
        edge: &Edge,
    ) -> Option<Side<'a>> {
        let data = &function.blocks[edge.to];
        let is_only_pred = pred_counts[edge.to.index()] == 1;
        let has_args = !data.params.is_empty() || !edge.args.is_empty();
        let is_short = data.insts.len() <= tuning.if_convert_max_side as usize;
        let converts = |i: &Inst| can_speculate(&function.insts[*i]) || is_guardable(&function.insts[*i]);
        match &data.end {
            Terminator::Jump(to_join) if is_only_pred && !has_args && is_short => {
                data.insts.iter().all(converts).then_some(Side { block: Some(edge.to), to_join })
            }
            _ => None,
        }
    }
}

/// Does it become no instruction, or an operand?
fn is_free(data: &InstData) -> bool {
    let constant = matches!(data.args[..], [Arg::Imm(_) | Arg::Zero(_)]);
    match data.op {
        Op::Machine(op) => op == sass::Op::MOV && constant,
        Op::Generic(_) => false,
        Op::Pseudo(op) => matches!(op, Pseudo::Pack | Pseudo::Unpack | Pseudo::Copy | Pseudo::Undef),
    }
}

/// What it takes where its results have no use, in instructions of the ALU. Loads are not computed in vain.
fn cost(data: &InstData, tuning: &Tuning) -> u32 {
    let Op::Machine(op) = data.op else { return u32::from(!is_free(data)) };
    match sass::Form::of(op).first().map(|form| form.class) {
        _ if is_free(data) => 0,
        Some(Class::Xu | Class::Double | Class::Fp64) => tuning.if_convert_slow_cost,
        _ => 1,
    }
}

/// May it be executed where its results have no use?
fn can_speculate(data: &InstData) -> bool {
    // A generic operation becomes many instructions.
    let is_generic = matches!(data.op, Op::Generic(_));
    is_free(data) || !is_generic && effects::is_function(data)
}

/// A load, store or atomic that can have a guard, or has one.
fn is_guardable(data: &InstData) -> bool {
    use sass::Op::{LD, LDG, LDL, LDS, ST, STG, STL, STS};
    let is_access = matches!(data.op, Op::Machine(LD | LDG | LDL | LDS | ST | STG | STL | STS));
    data.results.len() <= 1 && (is_access && effects::is_plain_access(data) || is_atomic(data))
}

/// Also an arrival at an `mbarrier` whose state has no use.
fn is_atomic(data: &InstData) -> bool {
    use sass::Op::{ATOMG, ATOMS, RED, REDG, SYNCS};
    match data.op {
        Op::Machine(ATOMG | ATOMS | RED | REDG) => effects::is_duplicable(data),
        Op::Machine(SYNCS) => data.modifiers.contains(&M::ARRIVE) && data.results.is_empty(),
        _ => false,
    }
}

fn is_long_load(data: &InstData) -> bool {
    matches!(data.op, Op::Machine(sass::Op::LD | sass::Op::LDG | sass::Op::LDL))
}

/// The predicate of a guard, and whether it is negated.
fn guard_of(data: &InstData) -> Option<(Value, bool)> {
    data.guard.as_ref().map(|guard| (guard.predicate, guard.negated))
}

/// The different guards of the accesses of a block.
fn inner_guards(function: &Function, block: Block) -> FxHashSet<(Value, bool)> {
    let insts = function.blocks[block].insts.iter().map(|i| &function.insts[*i]);
    insts.filter(|data| is_guardable(data)).filter_map(guard_of).collect()
}
