//! Boolean simplification: simplifies predicate expressions with truth tables, block by block.
//!
//! Front ends express conditions as trees of `and` and `or` over comparisons. Three passes simplify them, each followed
//! by `dce`:
//!
//! 1. `predicate-reduce` expands each tree of a block to a truth table over at most [`LEAVES`] predicates and removes
//!    those that the result does not depend on; `x > y | nan(x) & !nan(y) | x == y | nan(x) & nan(y)` has three.
//! 2. `predicate-fold` folds the last `and`, `or` or `xor` of a tree into a comparison, which combines its result with a
//!    predicate for free: of two into the one whose operands are ready later, so that nothing waits for both in turn.
//! 3. `predicate-merge` merges two `PLOP3`s that depend on at most three predicates in total.
//!
//! ```text
//! v4:P = ISETP.LT v2, 0x5                v4:P = ISETP.LT v2, 0x5
//! v5:P = ISETP.LT v3, 0x7           →    v6:P = ISETP.LT.AND v3, 0x7, v4
//! v6:P = PLOP3 v4 & v5
//! ```
//!
//! Cost: linear in the instructions, times 2^[`LEAVES`] per `PLOP3`.

use crate::analysis::relations::complement;
use crate::codegen::legalize;
use crate::context::target::TargetMachine;
use crate::context::{Context, Fuel, PassResult};
use ori::entity::Entity;
use ori::{Arg, Block, Change, File, Function, Inst, InstData, Op, Use, Value};
use rustc_hash::FxHashMap;
use sass::{Class, M};
use smallvec::{SmallVec, smallvec};

/// Leaves of a truth table: it has one bit for each assignment.
const LEAVES: usize = 6;

/// `predicate-reduce`
pub fn reduce(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    walk(function, context, |logic, block| logic.reduce(block))
}

/// `predicate-fold`
pub fn fold(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    walk(function, context, |logic, block| logic.fold(block))
}

/// `predicate-merge`
pub fn merge(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    walk(function, context, |logic, block| logic.merge(block))
}

/// Runs a pass on each block with `PLOP3`.
fn walk(
    function: &mut Function,
    context: &mut Context,
    pass: impl Fn(&mut Logic, Block),
) -> PassResult<Change> {
    let is_logic = |i: &Inst| function.insts[*i].op == Op::Machine(sass::Op::PLOP3);
    let blocks: Vec<Block> =
        function.blocks.keys().filter(|b| function.blocks[*b].insts.iter().any(is_logic)).collect();
    if blocks.is_empty() {
        return Ok(Change::Nothing);
    }
    let rewrites = context.fuel.used();
    let mut logic = Logic::new(function, context);
    for block in blocks {
        logic.definition.clear();
        pass(&mut logic, block);
    }
    Ok(Change::Instructions.when(context.fuel.used() != rewrites))
}

/// The truth table of a predicate over others.
#[derive(Clone, Debug, PartialEq)]
struct Truth {
    /// In ascending order.
    leaves: SmallVec<[Value; LEAVES]>,
    /// Bit `n` is the result where leaf `i` is bit `i` of `n`.
    table: u64,
}

impl Truth {
    fn constant(truth: bool) -> Truth {
        Truth { leaves: smallvec![], table: if truth { 1 } else { 0 } }
    }

    fn leaf(value: Value) -> Truth {
        Truth { leaves: smallvec![value], table: 0b10 }
    }

    fn rows(&self) -> u64 {
        1 << self.leaves.len()
    }

    fn negated(mut self) -> Truth {
        self.table = !self.table & (u64::MAX >> (64 - self.rows()));
        self
    }

    /// The result where the given leaves, of which these are a subset, are the bits of `row`.
    fn at(&self, leaves: &[Value], row: u64) -> bool {
        let index = |leaf: &Value| leaves.iter().position(|l| l == leaf).unwrap_or(0);
        let bits = self.leaves.iter().enumerate().map(|(i, leaf)| (row >> index(leaf) & 1) << i);
        self.table >> bits.sum::<u64>() & 1 == 1
    }

    /// The truth table of a `PLOP3` of three inputs: `None` if they have too many leaves.
    fn of(inputs: &[Truth; 3], lut: i64) -> Option<Truth> {
        let mut leaves: SmallVec<[Value; LEAVES]> =
            inputs.iter().flat_map(|i| i.leaves.iter().copied()).collect();
        leaves.sort();
        leaves.dedup();
        if leaves.len() > LEAVES {
            return None;
        }
        let entry = |row| inputs.iter().fold(0, |n, input| n << 1 | u64::from(input.at(&leaves, row)));
        let table = (0..1 << leaves.len()).map(|row| (lut as u64 >> entry(row) & 1) << row).sum();
        Some(Truth { leaves, table })
    }

    /// The same without the leaves that the result doesn't depend on.
    fn reduced(self) -> Truth {
        let matters = |leaf: usize| {
            let differ = |row: u64| self.table >> row & 1 != self.table >> (row ^ 1 << leaf) & 1;
            (0..self.rows()).any(differ)
        };
        let needed: Vec<usize> = (0..self.leaves.len()).filter(|leaf| matters(*leaf)).collect();
        let spread =
            |row: u64| needed.iter().enumerate().map(|(i, leaf)| (row >> i & 1) << leaf).sum::<u64>();
        let table = (0..1 << needed.len()).map(|row| (self.table >> spread(row) & 1) << row).sum();
        Truth { leaves: needed.iter().map(|i| self.leaves[*i]).collect(), table }
    }

    /// The arguments of the `PLOP3` that computes it, if there is one.
    fn args(&self) -> Option<SmallVec<[Arg; 6]>> {
        let [a, b, c] = std::array::from_fn(|i| self.leaves.get(i).map_or(PT, |leaf| Arg::from(*leaf)));
        let row = |n: u64| (n >> 2 & 1) | (n >> 1 & 1) << 1 | (n & 1) << 2;
        let entry = |n: u64| (self.table >> (row(n) & (self.rows() - 1)) & 1) << n;
        let lut: u64 = (0..8).map(entry).sum();
        (self.leaves.len() <= 3).then(|| smallvec![PT, a, b, c, Arg::Imm(lut as i64), Arg::Imm(0)])
    }

    /// Two or three literals that are all joined by the same operation.
    fn joined(&self) -> Option<(M, Vec<(Value, bool)>)> {
        let count = self.leaves.len();
        let ones = self.table.count_ones();
        let literals = |row: u64, sense: u64| {
            let literal = |(i, v): (usize, &Value)| (*v, row >> i & 1 != sense);
            self.leaves.iter().enumerate().map(literal).collect::<Vec<_>>()
        };
        let zero = self.table.trailing_ones();
        match (count, ones) {
            (2 | 3, 1) => Some((M::AND, literals(self.table.trailing_zeros().into(), 1))),
            (2 | 3, n) if u64::from(n) + 1 == self.rows() => Some((M::OR, literals(zero.into(), 0))),
            (2, 2) if self.table == 0b0110 => Some((M::XOR, literals(0b11, 1))),
            (2, 2) if self.table == 0b1001 => Some((M::XOR, literals(0b01, 1))),
            _ => None,
        }
    }
}

const PT: Arg = Arg::True(true);

/// The operation of an unguarded comparison, with its relation.
fn comparison(data: &InstData) -> Option<(sass::Op, M)> {
    use sass::Op::{DSETP, FSETP, HSETP2, ISETP};
    let Op::Machine(op @ (DSETP | FSETP | HSETP2 | ISETP)) = data.op else { return None };
    let relation = *data.modifiers.first()?;
    complement(op, relation)?;
    (data.guard.is_none() && !data.modifiers.contains(&M::EX)).then_some((op, relation))
}

/// The key of a comparison: operation, modifiers, operands, number of results. Complements have the same key.
type Compared = (sass::Op, SmallVec<[M; 4]>, SmallVec<[Arg; 6]>, usize);

/// The key of a comparison, and its relation.
fn compared(data: &InstData) -> Option<(Compared, M)> {
    let (op, relation) = comparison(data).filter(|_| data.args.last() == Some(&PT))?;
    let mut modifiers = data.modifiers.clone();
    modifiers[0] = relation.min(complement(op, relation)?);
    Some(((op, modifiers, data.args.clone(), data.results.len()), relation))
}

/// A predicate, and whether it is negated.
type Literal = (Value, bool);

fn literal_arg((value, negated): Literal) -> Arg {
    if negated { Arg::not(value) } else { value.into() }
}

struct Logic<'a> {
    function: &'a mut Function,
    machine: &'static TargetMachine,
    /// Instructions that a comparison may be moved down.
    farthest: usize,
    fuel: &'a mut Fuel,
    uses: Vec<u32>,
    /// Where each value of the block is defined: the instruction, and its index in the block.
    definition: FxHashMap<Value, (Inst, usize)>,
    /// The length of the longest chain of operations of the block that leads to a value.
    chain: FxHashMap<Value, u32>,
}

impl<'a> Logic<'a> {
    fn new(function: &'a mut Function, context: &'a mut Context) -> Logic<'a> {
        let uses = function.use_counts(function.blocks.keys());
        let (definition, chain) = (FxHashMap::default(), FxHashMap::default());
        let farthest = context.tuning.predicate_merge_distance as usize;
        Logic {
            function,
            machine: context.machine,
            farthest,
            fuel: &mut context.fuel,
            uses,
            definition,
            chain,
        }
    }

    /// The three inputs of a `PLOP3` and its table.
    fn logic(&self, inst: Inst) -> Option<([Arg; 3], i64)> {
        let data = &self.function.insts[inst];
        let ([PT, a, b, c, Arg::Imm(lut), _], [_], None) = (&data.args[..], &data.results[..], &data.guard)
        else {
            return None;
        };
        let whole = |arg: &Arg| match arg {
            Arg::Use(u) => {
                let plain = Use { negated: u.negated, ..Use::of(u.value) };
                *u == plain && self.function.values[u.value].file == File::P
            }
            other => matches!(other, Arg::True(_)),
        };
        let fine = data.op == Op::Machine(sass::Op::PLOP3) && [a, b, c].into_iter().all(whole);
        fine.then_some(([*a, *b, *c], *lut))
    }

    /// The truth table of an operation, given those of its inputs.
    fn truth(&self, inst: Inst, known: impl Fn(Value) -> Truth) -> Option<Truth> {
        let (args, lut) = self.logic(inst)?;
        let input = |arg: Arg| match arg {
            Arg::Use(u) if u.negated => known(u.value).negated(),
            Arg::Use(u) => known(u.value),
            other => Truth::constant(other == PT),
        };
        Truth::of(&args.map(input), lut)
    }

    /// Replaces an instruction by another one with the same result.
    fn replace(&mut self, inst: Inst, new: InstData) {
        self.function.insts[inst].uses().for_each(|v| self.uses[v.index()] -= 1);
        new.uses().for_each(|v| self.uses[v.index()] += 1);
        self.function.insts[inst] = new;
    }

    fn compute(&mut self, inst: Inst, truth: &Truth) {
        if let Some(args) = truth.args()
            && self.fuel.burn()
        {
            let new = InstData { args, ..self.function.insts[inst].clone() };
            self.replace(inst, new);
        }
    }

    /// Drops predicates that a tree doesn't depend on.
    fn reduce(&mut self, block: Block) {
        let mut truths: FxHashMap<Value, Truth> = FxHashMap::default();
        // Predicates of the block that are equal to another one or its negation.
        let mut copies: FxHashMap<Value, Truth> = FxHashMap::default();
        let mut seen: FxHashMap<Compared, (Inst, M)> = FxHashMap::default();
        for inst in self.function.blocks[block].insts.clone() {
            if let Some((key, relation)) = compared(&self.function.insts[inst]) {
                let (first, as_) = *seen.entry(key).or_insert((inst, relation));
                let results = self.function.insts[inst].results.iter();
                for (value, same) in results.zip(&self.function.insts[first].results) {
                    let truth = Truth::leaf(*same);
                    truths.insert(*value, if relation == as_ { truth } else { truth.negated() });
                }
                continue;
            }
            let known = |v: Value| truths.get(&v).cloned().unwrap_or(Truth::leaf(v));
            let Some(all) = self.truth(inst, known) else { continue };
            let truth = all.clone().reduced();
            if truth.leaves.len() < all.leaves.len() {
                self.compute(inst, &truth);
            } else if let Some(direct) =
                self.truth(inst, |v| copies.get(&v).cloned().unwrap_or(Truth::leaf(v)))
                && self.function.insts[inst].uses().any(|v| copies.contains_key(&v))
            {
                self.compute(inst, &direct.reduced());
            }
            let result = self.function.insts[inst].results[0];
            if truth.leaves.len() < 2 {
                copies.insert(result, truth.clone());
            }
            truths.insert(result, truth);
        }
    }

    /// Folds operations on predicates into comparisons.
    fn fold(&mut self, block: Block) {
        let insts = self.function.blocks[block].insts.clone();
        let mut done = Vec::new();
        self.chain.clear();
        for (index, &inst) in insts.iter().enumerate() {
            let data = &self.function.insts[inst];
            let before = data.uses().filter_map(|v| self.chain.get(&v)).max().copied().unwrap_or(0);
            let chain = before + steps(data);
            for value in data.results.clone() {
                self.definition.insert(value, (inst, index));
                self.chain.insert(value, chain);
            }
            let truth = self.truth(inst, Truth::leaf).map(Truth::reduced);
            let Some((join, literals)) = truth.and_then(|truth| truth.joined()) else { continue };
            if self.fold_one(inst, join, literals) {
                done.push(inst);
            }
        }
        self.function.blocks[block].insts.retain(|i| !done.contains(i));
    }

    /// Folds as many joins as possible into comparisons. True if the `PLOP3` is not needed any more.
    fn fold_one(&mut self, inst: Inst, join: M, mut literals: Vec<Literal>) -> bool {
        let result = self.function.insts[inst].results[0];
        // The last one is computed after the others.
        literals.sort_by_key(|(value, _)| self.position(*value));
        if let [first, last] = literals[..]
            && self.chain.get(&first.0) > self.chain.get(&last.0)
            && self.fold_into_first(inst, join, first, last)
        {
            return false;
        }
        while let [.., other, last] = literals[..] {
            let Some(new) = self.joined(last, join, other) else { break };
            if !self.fuel.burn() {
                return false;
            }
            let (by, index) = self.definition[&last.0];
            let value = if literals.len() == 2 { result } else { self.function.value(File::P, 1) };
            self.uses.resize(self.function.values.len(), 1);
            self.function.insts[by] = InstData { results: smallvec![value], ..new };
            self.definition.insert(value, (by, index));
            literals.truncate(literals.len() - 2);
            if literals.is_empty() {
                return true;
            }
            literals.push((value, false));
            let args = two_of(join, literals[0], literals[1]);
            self.function.insts[inst].args = args;
        }
        if let [first, last] = literals[..] {
            self.fold_into_first(inst, join, first, last);
        }
        false
    }

    /// Moves the first of two comparisons down to where they are joined.
    fn fold_into_first(&mut self, inst: Inst, join: M, first: Literal, last: Literal) -> bool {
        let result = self.function.insts[inst].results[0];
        if self.position(first.0) + self.farthest > self.position(result)
            && let Some(new) = self.joined(first, join, last)
            && self.fuel.burn()
        {
            let at = self.function.insts[inst].at;
            self.function.insts[inst] = InstData { results: smallvec![result], at, ..new };
            self.uses[first.0.index()] = 0;
            return true;
        }
        false
    }

    /// The position of a definition in the block; 0 for values of other blocks.
    fn position(&self, value: Value) -> usize {
        self.definition.get(&value).map_or(0, |(_, index)| *index + 1)
    }

    /// A comparison of the block without another use, joined with another predicate.
    fn joined(&self, (value, negated): Literal, join: M, other: Literal) -> Option<InstData> {
        let (inst, _) = self.definition.get(&value).filter(|_| self.uses[value.index()] == 1)?;
        let data = &self.function.insts[*inst];
        let (op, relation) = comparison(data)?;
        let ([PT, .., PT], [_], [_, .., M::AND]) = (&data.args[..], &data.results[..], &data.modifiers[..])
        else {
            return None;
        };
        let mut new = data.clone();
        new.modifiers[0] = if negated { complement(op, relation)? } else { relation };
        *new.modifiers.last_mut()? = join;
        *new.args.last_mut()? = literal_arg(other);
        legalize::is_legal(self.function, self.machine, &new).then_some(new)
    }

    /// Merges two operations into one.
    fn merge(&mut self, block: Block) {
        for (index, inst) in self.function.blocks[block].insts.clone().into_iter().enumerate() {
            let Some(truth) = self.truth(inst, Truth::leaf).map(Truth::reduced) else { continue };
            self.definition.insert(self.function.insts[inst].results[0], (inst, index));
            for &leaf in &truth.leaves {
                let inner = self.definition.get(&leaf).filter(|_| self.uses[leaf.index()] == 1);
                let Some(inner) = inner.and_then(|(inner, _)| self.truth(*inner, Truth::leaf)) else {
                    continue;
                };
                let known = |v: Value| if v == leaf { inner.clone() } else { Truth::leaf(v) };
                if let Some(both) = self.truth(inst, known).map(Truth::reduced)
                    && both.leaves.len() <= 3
                {
                    self.compute(inst, &both);
                    break;
                }
            }
        }
    }
}

/// About how many times as long as a sum an operation takes.
fn steps(data: &InstData) -> u32 {
    let Op::Machine(op) = data.op else { return 0 };
    let class = sass::Form::of(op).first().map(|form| form.class);
    if matches!(class, Some(Class::Alu | Class::Fma)) { 1 } else { 4 }
}

/// The arguments of the operation that joins two predicates.
fn two_of(join: M, a: Literal, b: Literal) -> SmallVec<[Arg; 6]> {
    let lut = if join == M::AND { 0xc0 } else { 0xfc };
    smallvec![PT, literal_arg(a), literal_arg(b), PT, Arg::Imm(lut), Arg::Imm(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opt::combine::tests::keep_meaning;
    use crate::opt::{dce, simplify};
    use crate::passes::code_after;

    #[test]
    fn programs_keep_their_meaning() {
        // Only what the logic shortens, not what dead code elimination does.
        let clean = |function: &mut Function, context: &mut Context| {
            let clean_up = |function: &mut Function, context: &mut Context| {
                let change = simplify::run(function, context)?.max(dce::run(function, context)?);
                context.analyses.invalidate(change);
                Ok::<(), crate::context::PassError>(())
            };
            clean_up(function, context)?;
            let before = function.blocks[Function::ENTRY].insts.len();
            for pass in [reduce, fold, merge] {
                pass(function, context)?;
                clean_up(function, context)?;
            }
            let after = function.blocks[Function::ENTRY].insts.len();
            if after > before { Err(format!("{after} instructions of {before}").into()) } else { Ok(()) }
        };
        assert!(keep_meaning(1..3000, clean) > 2000);
    }

    fn logic(body: &str) -> Vec<String> {
        let source = format!(
            ".version 8.0\n.target sm_90\n.visible .entry k(.param .u64 p, .param .f32 x, .param .f32 y, .param .u32 n) {{ \
             .reg .pred %p<9>; .reg .f32 %f<3>; .reg .b32 %r<9>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; \
             ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4]; ld.global.u32 %r1, [%rd1+8]; \
             ld.global.u32 %r2, [%rd1+12]; {body} selp.b32 %r8, %r1, %r2, %p8; st.global.u32 [%rd1], %r8; ret; }}"
        );
        let code = code_after("predicate-merge", &source);
        code.lines().filter(|l| l.contains("SETP") || l.contains("PLOP3")).map(str::to_string).collect()
    }

    #[test]
    fn predicate_without_influence_is_dropped() {
        let code = logic(
            "setp.gt.f32 %p1, %f1, %f2; setp.eq.f32 %p2, %f1, %f2; setp.nan.f32 %p3, %f1, %f1; \
             setp.nan.f32 %p4, %f2, %f2; setp.num.f32 %p5, %f2, %f2; and.pred %p5, %p3, %p5; or.pred %p1, %p1, %p5; \
             and.pred %p4, %p3, %p4; or.pred %p2, %p2, %p4; or.pred %p8, %p1, %p2;",
        );
        // Whether the second is a number makes no difference.
        assert_eq!(code.len(), 3, "{code:#?}");
        assert!(code.iter().all(|line| line.contains("FSETP")), "{code:#?}");
    }

    #[test]
    fn comparison_folds_conjunction() {
        let code = logic(
            "setp.lt.s32 %p1, %r1, 5; setp.lt.s32 %p2, %r2, 7; setp.eq.u32 %p3, %r1, %r2; \
             and.pred %p4, %p1, %p2; not.pred %p3, %p3; or.pred %p8, %p4, %p3;",
        );
        assert_eq!(code.len(), 3, "{code:#?}");
        assert!(code[2].contains("ISETP.NE.U32.OR"), "{code:#?}");
    }

    #[test]
    fn two_tables_merge() {
        // The comparisons have other uses and can't absorb it.
        let code = logic(
            "setp.lt.s32 %p1, %r1, 5; setp.lt.s32 %p2, %r2, 7; setp.eq.u32 %p3, %r1, %r2; \
             selp.b32 %r1, %r1, 1, %p1; selp.b32 %r2, %r2, 2, %p2; selp.b32 %r1, %r1, %r2, %p3; \
             and.pred %p4, %p1, %p2; xor.pred %p8, %p4, %p3;",
        );
        assert_eq!(code.iter().filter(|line| line.contains("PLOP3")).count(), 1, "{code:#?}");
    }
}
