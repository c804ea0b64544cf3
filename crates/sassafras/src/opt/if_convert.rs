//! Short sides of a branch are computed on both ways, and selects take the right results: no branch, no barrier behind
//! it, and the block goes on.
//!
//! A side is a block that only the branch leads to, that goes on to where the other side goes, and that only computes.
//! What it computes has no effect but its results, so that it may be done in vain.

use crate::analysis::effects;
use crate::context::Context;
use crate::opt::{combine, simplify};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Edge, File, Function, Inst, InstData, Op, Pseudo, Terminator, Value};
use sass::M;
use smallvec::{SmallVec, smallvec};

/// What may be done in vain, selects included. Constants cost nothing: selects have them as operands.
const DEAREST: usize = 16;
/// Branches within branches: each round takes the innermost ones.
const ROUNDS: usize = 4;

pub fn run(function: &mut Function, context: &mut Context) -> crate::context::PassResult {
    let mut changed = false;
    for _ in 0..ROUNDS {
        let cfg = Cfg::new(function);
        let mut ways: Vec<usize> = cfg.preds.iter().map(|preds| preds.len()).collect();
        let mut found = false;
        for &block in cfg.order.iter().rev() {
            if let Some(branch) = Branch::of(function, &ways, block)
                && branch.cost(function) <= DEAREST
                && context.fuel.burn()
            {
                branch.convert(function, &mut ways);
                found = true;
            }
        }
        if !found {
            break;
        }
        changed = true;
        simplify::run(function)?;
    }
    if changed { combine::run(function, context) } else { Ok(()) }
}

/// A branch whose sides meet at once.
struct Branch {
    block: Block,
    predicate: Arg,
    /// The blocks of the sides, where they have one.
    sides: [Option<Block>; 2],
    to: Block,
    args: [Vec<Value>; 2],
}

impl Branch {
    fn of(function: &Function, ways: &[usize], block: Block) -> Option<Branch> {
        let Terminator::Branch { predicate, negated, yes, no, .. } = &function.blocks[block].end else {
            return None;
        };
        let (a, b) = (Side::of(function, ways, yes), Side::of(function, ways, no));
        let none = Side { block: None, on: yes };
        let other = Side { block: None, on: no };
        // Both sides, one of them, or neither has a block of its own.
        let candidates = [(a.as_ref(), b.as_ref()), (a.as_ref(), Some(&other)), (Some(&none), b.as_ref())];
        let both = candidates.into_iter().chain([(Some(&none), Some(&other))]);
        let (a, b) = both.filter_map(|(a, b)| a.zip(b)).find(|(a, b)| a.on.to == b.on.to)?;
        let to = a.on.to;
        if to == block || function.values[*predicate].file != File::P {
            return None;
        }
        Some(Branch {
            block,
            predicate: if *negated { Arg::not(*predicate) } else { (*predicate).into() },
            sides: [a.block, b.block],
            to,
            args: [a.on.args.clone(), b.on.args.clone()],
        })
    }

    /// How many instructions it takes; too many if something can't be selected.
    fn cost(&self, function: &Function) -> usize {
        let insts = self.sides.iter().flatten().flat_map(|b| &function.blocks[*b].insts);
        let computed = insts.filter(|i| !is_free(&function.insts[**i])).count();
        let select = |(a, b): (&Value, &Value)| match function.values[*a].file {
            _ if a == b => 0,
            File::R if function.values[*a].words <= 2 => usize::from(function.values[*a].words),
            File::P => 1,
            _ => DEAREST + 1,
        };
        computed + self.args[0].iter().zip(&self.args[1]).map(select).sum::<usize>()
    }

    fn convert(self, function: &mut Function, ways: &mut [usize]) {
        for side in self.sides.into_iter().flatten() {
            let insts = std::mem::take(&mut function.blocks[side].insts);
            function.blocks[self.block].insts.extend(insts);
            function.blocks[side].end = Terminator::Exit;
            ways[side.index()] = 0;
        }
        let pairs: Vec<_> = self.args[0].iter().copied().zip(self.args[1].iter().copied()).collect();
        let args = pairs.into_iter().map(|(a, b)| self.selected(function, a, b)).collect();
        function.blocks[self.block].end = Terminator::Jump(Edge { to: self.to, args });
        ways[self.to.index()] -= 1;
    }

    fn selected(&self, function: &mut Function, a: Value, b: Value) -> Value {
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
            // a where the predicate holds, else b.
            let (yes, table) = (Arg::True(true), Arg::Imm(0xca));
            let args = [yes, self.predicate, a.into(), b.into(), table, Arg::Imm(0)];
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

/// Where a side of a branch goes on.
struct Side<'a> {
    block: Option<Block>,
    on: &'a Edge,
}

impl Side<'_> {
    /// The side that a block of its own makes.
    fn of<'a>(function: &'a Function, ways: &[usize], edge: &Edge) -> Option<Side<'a>> {
        let data = &function.blocks[edge.to];
        let alone = ways[edge.to.index()] == 1 && data.params.is_empty() && edge.args.is_empty();
        let computes = |i: &Inst| only_computes(&function.insts[*i]);
        match &data.end {
            Terminator::Jump(on) if alone && data.insts.len() <= 4 * DEAREST => {
                data.insts.iter().all(computes).then_some(Side { block: Some(edge.to), on })
            }
            _ => None,
        }
    }
}

/// Does it turn into no instruction, or into an operand?
fn is_free(data: &InstData) -> bool {
    let constant = matches!(data.args[..], [Arg::Imm(_) | Arg::Zero(_)]);
    match data.op {
        Op::Machine(op) => op == sass::Op::MOV && constant,
        Op::Pseudo(op) => matches!(op, Pseudo::Pack | Pseudo::Unpack | Pseudo::Copy | Pseudo::Undef),
    }
}

/// May it be done where its results are not wanted? Only what a thread computes by itself, in general registers.
fn only_computes(data: &InstData) -> bool {
    is_free(data) || data.guard.is_none() && effects::is_function(data)
}
