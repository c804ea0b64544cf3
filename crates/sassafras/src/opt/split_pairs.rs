//! Scalar replacement of two-word block parameters: splits a parameter into two if one of its words is not needed.
//!
//! Front ends carry 64-bit sums and counters around loops that may need only the lower word: as indices into shared,
//! local and constant memory, or because they are truncated to 32 bits in each iteration.
//!
//! ```text
//! b1(v1:R2):                               b1(v5:R, v6:R):
//!   v2:R, v3:P = IADD3 v1[0], 1, RZ          v2:R, v3:P = IADD3 v5, 1, RZ
//!   v4:R = IADD3.X v1[1], RZ, RZ, v3   →     v4:R = IADD3.X v6, RZ, RZ, v3
//!   jump b1(Pack v2, v4)                     jump b1(v2, v4)
//! ```
//!
//! A parameter is split if only parameters that are also split read both words at once, and if each argument is
//! available as words: such a parameter, a `Pack` with no other use, or a constant. Only on the edge into a loop may it
//! be another value, whose words are copied. The candidates are the greatest fixed point; those whose words are both
//! needed stay pairs. `dce` then removes the dead words. Cost: linear per round of the fixed point; each round removes
//! a candidate.

use crate::analysis::effects::is_removable;
use crate::context::{Context, PassResult};
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, Change, File, Function, Inst, InstData, Op, Pseudo, Terminator, Use, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::M;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let cfg = context.analyses.cfg(function);
    let candidates = Candidates::find(function, &cfg);
    if candidates.params.is_empty() || !context.fuel.burn() {
        return Ok(Change::Nothing);
    }
    let mut words: FxHashMap<Value, [Value; 2]> = FxHashMap::default();
    for &block in &cfg.order {
        for param in function.blocks[block].params.clone() {
            if candidates.params.contains_key(&param) {
                words.insert(param, [function.value(File::R, 1), function.value(File::R, 1)]);
            }
        }
    }
    for &block in &cfg.order {
        split_arguments(function, block, &candidates, &words);
    }
    for &block in &cfg.order {
        let params = std::mem::take(&mut function.blocks[block].params);
        let all = params.iter().flat_map(|p| words.get(p).map_or_else(|| vec![*p], |words| words.to_vec()));
        function.blocks[block].params = all.collect();
        for inst in function.blocks[block].insts.clone() {
            for arg in &mut function.insts[inst].args {
                if let Arg::Use(u) = arg
                    && let (Some(words), Some(part)) = (words.get(&u.value), u.part)
                {
                    (u.value, u.part) = (words[usize::from(part.first)], None);
                }
            }
        }
    }
    Ok(Change::Instructions)
}

struct Candidates {
    /// The block of each parameter to split.
    params: FxHashMap<Value, Block>,
    definition: Vec<Option<Inst>>,
    uses: Vec<u32>,
}

impl Candidates {
    fn find(function: &Function, cfg: &Cfg) -> Candidates {
        let mut params = FxHashMap::default();
        for &block in cfg.order.iter().filter(|b| **b != Function::ENTRY) {
            let pairs = function.blocks[block].params.iter().filter(|p| {
                let shape = function.values[**p];
                shape.file == File::R && shape.words == 2
            });
            params.extend(pairs.map(|p| (*p, block)));
        }
        let mut all = Candidates { params, definition: Vec::new(), uses: Vec::new() };
        if all.params.is_empty() {
            return all;
        }
        all.remove_read_pairs(function, cfg);
        if all.params.is_empty() {
            return all;
        }
        all.definition = function.definitions().into_iter().map(|d| d.map(|(_, inst)| inst)).collect();
        all.uses = function.use_counts(cfg.order.iter().copied());
        while all.remove_some(function, cfg) {}
        if !all.params.is_empty() {
            let needed = all.needed_words(function, cfg);
            all.params.retain(|param, _| !(0..2).all(|word| needed.contains(&(*param, word))));
            while all.remove_some(function, cfg) {}
        }
        all
    }

    /// The words of candidates that an effect or a branch depends on, as `dce` finds values; of other values the first
    /// word stands for all.
    fn needed_words(&self, function: &Function, cfg: &Cfg) -> FxHashSet<(Value, u8)> {
        let mut arguments: FxHashMap<Value, Vec<Value>> = FxHashMap::default();
        let mut open: Vec<(Value, u8)> = Vec::new();
        for &block in &cfg.order {
            let data = &function.blocks[block];
            for inst in data.insts.iter().map(|i| &function.insts[*i]).filter(|inst| !is_removable(inst)) {
                open.extend(self.words_read(inst));
            }
            for edge in data.end.edges() {
                let params = &function.blocks[edge.to].params;
                params
                    .iter()
                    .zip(&edge.args)
                    .for_each(|(p, arg)| arguments.entry(*p).or_default().push(*arg));
            }
            open.extend(data.end.decider().map(|decider| (decider, 0)));
        }
        let mut needed = FxHashSet::default();
        while let Some((value, word)) = open.pop() {
            if !needed.insert((value, word)) {
                continue;
            }
            let is_split = self.params.contains_key(&value);
            for &arg in arguments.get(&value).into_iter().flatten() {
                match self.pieces(function, arg).filter(|_| is_split) {
                    Some(pieces) => {
                        let piece = [pieces[usize::from(word)]];
                        open.extend(piece.iter().filter_map(|arg| self.word_read(arg)));
                    }
                    None if self.params.contains_key(&arg) => open.push((arg, word)),
                    None => open.push((arg, 0)),
                }
            }
            if let Some(inst) = self.definition[value.index()] {
                open.extend(self.words_read(&function.insts[inst]));
            }
        }
        needed
    }

    fn words_read<'d>(&'d self, data: &'d InstData) -> impl Iterator<Item = (Value, u8)> + 'd {
        let kept = data.guard.iter().flat_map(|g| g.else_values.iter().copied().chain([g.predicate]));
        data.args.iter().filter_map(|arg| self.word_read(arg)).chain(kept.map(|v| (v, 0)))
    }

    fn word_read(&self, arg: &Arg) -> Option<(Value, u8)> {
        let value = arg.value()?;
        match arg {
            Arg::Use(Use { part: Some(part), .. }) if self.params.contains_key(&value) => {
                Some((value, part.first))
            }
            _ => Some((value, 0)),
        }
    }

    /// Removes those that an instruction reads in any other way than as a word.
    fn remove_read_pairs(&mut self, function: &Function, cfg: &Cfg) {
        for inst in cfg.order.iter().flat_map(|b| &function.blocks[*b].insts) {
            let data = &function.insts[*inst];
            // They rely on the places of their arguments.
            let is_fixed = matches!(
                data.op,
                Op::Pseudo(Pseudo::Landed | Pseudo::Call | Pseudo::CallRoutine | Pseudo::Leave)
            );
            for arg in &data.args {
                let is_word = matches!(arg, Arg::Use(u) if u.part.is_some_and(|part| part.count == 1));
                if let Some(value) = arg.value().filter(|_| is_fixed || !is_word) {
                    self.params.remove(&value);
                }
            }
            for kept in data.guard.iter().flat_map(|guard| &guard.else_values) {
                self.params.remove(kept);
            }
        }
    }

    /// Removes those with an argument that is not there in words, and those that are an argument of another parameter.
    fn remove_some(&mut self, function: &Function, cfg: &Cfg) -> bool {
        let before = self.params.len();
        for &from in &cfg.order {
            for edge in function.blocks[from].end.edges() {
                for (param, arg) in function.blocks[edge.to].params.iter().zip(&edge.args) {
                    let enters_loop = !cfg.dominates(edge.to, from)
                        && cfg.preds[edge.to.index()].iter().any(|pred| cfg.dominates(edge.to, *pred));
                    if !self.params.contains_key(param) {
                        self.params.remove(arg);
                    } else if !enters_loop && !self.is_in_words(function, *arg) {
                        self.params.remove(param);
                    }
                }
            }
        }
        self.params.len() < before
    }

    fn is_in_words(&self, function: &Function, value: Value) -> bool {
        self.params.contains_key(&value) || self.pieces(function, value).is_some()
    }

    /// The words of a pair that is there for nothing else.
    fn pieces(&self, function: &Function, value: Value) -> Option<[Arg; 2]> {
        let data = &function.insts[self.definition[value.index()]?];
        if data.guard.is_some() {
            return None;
        }
        let is_word =
            |u: &Use| u.is_plain() && u.part.map_or(function.values[u.value].words, |part| part.count) == 1;
        match (data.op, &data.args[..]) {
            (Op::Pseudo(Pseudo::Pack), &[low @ Arg::Use(l), high @ Arg::Use(h)])
                if is_word(&l) && is_word(&h) && self.uses[value.index()] == 1 =>
            {
                Some([low, high])
            }
            (Op::Machine(sass::Op::CS2R), [Arg::Name(M::SRZ)]) => Some([Arg::Imm(0), Arg::Imm(0)]),
            _ => None,
        }
    }
}

/// Passes words in place of pairs.
fn split_arguments(
    function: &mut Function,
    block: Block,
    candidates: &Candidates,
    words: &FxHashMap<Value, [Value; 2]>,
) {
    let mut end = std::mem::replace(&mut function.blocks[block].end, Terminator::Exit);
    for edge in end.edges_mut() {
        let params = function.blocks[edge.to].params.clone();
        let args = std::mem::take(&mut edge.args);
        for (param, arg) in params.iter().zip(args) {
            match (words.get(param), words.get(&arg)) {
                (None, _) => edge.args.push(arg),
                (_, Some(both)) => edge.args.extend(*both),
                _ => {
                    let pieces = candidates.pieces(function, arg);
                    let both = pieces.unwrap_or([Arg::word(arg, 0), Arg::word(arg, 1)]);
                    edge.args.extend(both.map(|piece| word(function, block, piece)));
                }
            }
        }
    }
    function.blocks[block].end = end;
}

/// A value of one word, at the end of a block.
fn word(function: &mut Function, block: Block, arg: Arg) -> Value {
    let op = match arg {
        Arg::Use(Use { value, part: None, .. }) => return value,
        Arg::Use(_) => Op::Pseudo(Pseudo::Copy),
        _ => Op::Machine(sass::Op::MOV),
    };
    let result = function.value(File::R, 1);
    function.append(block, InstData::new(op, &[result], &[arg]));
    result
}
