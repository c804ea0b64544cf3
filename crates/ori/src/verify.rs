//! The IR verifier. A function is well formed when
//!
//! 1. the entry has no parameters and no predecessors;
//! 2. an edge has as many arguments as its block has parameters, of the same file and width;
//! 3. every value is defined once, and its definition dominates each use;
//! 4. a guard, and a branch's predicate, is a predicate (P or UP);
//!    a switch's index is a word, or a pair if its table has a place, and each entry of the table has an edge;
//! 5. a guarded instruction has an else value for each result, of the same file and width;
//! 6. a word that is named exists;
//! 7. `Pack`, `Unpack` and `Copy` take values, and their words add up.
//!
//! Linear in the function, beside the dominator tree.

use crate::cfg::Cfg;
use crate::entity::{Block, Value};
use crate::eval::generic::{Type, operands};
use crate::function::*;

/// The first broken rule, in words.
pub fn verify(function: &Function) -> Result<(), String> {
    let cfg = Cfg::new(function);
    let v = Verifier { function, cfg: &cfg, defs: definitions(function)? };
    v.entry()?;
    for &block in &cfg.order {
        v.block(block).map_err(|e| format!("{block}: {e}"))?;
    }
    Ok(())
}

/// Where a value is defined: the block, and the position in it (0 for parameters, 1 + n for instruction n).
type Definition = Option<(Block, usize)>;

struct Verifier<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    defs: Vec<Definition>,
}

fn definitions(function: &Function) -> Result<Vec<Definition>, String> {
    let mut defs: Vec<Definition> = vec![None; function.values.len()];
    let mut define = |value: Value, position| match defs.get_mut(value.0 as usize) {
        Some(slot @ None) => {
            *slot = Some(position);
            Ok(())
        }
        Some(_) => Err(format!("{value} is defined twice")),
        None => Err(format!("{value} does not exist")),
    };
    for block in function.blocks.keys() {
        let data = &function.blocks[block];
        for param in &data.params {
            define(*param, (block, 0))?;
        }
        for (i, inst) in data.insts.iter().enumerate() {
            for result in &function.insts[*inst].results {
                define(*result, (block, i + 1))?;
            }
        }
    }
    Ok(defs)
}

impl Verifier<'_> {
    fn entry(&self) -> Result<(), String> {
        let entry = self.function.blocks.get(Function::ENTRY).ok_or("no entry block")?;
        if !entry.params.is_empty() || !self.cfg.preds[0].is_empty() {
            return Err("the entry has parameters or predecessors".into());
        }
        Ok(())
    }

    fn block(&self, block: Block) -> Result<(), String> {
        let data = &self.function.blocks[block];
        for (i, inst) in data.insts.iter().enumerate() {
            let inst = &self.function.insts[*inst];
            self.inst(inst).map_err(|e| format!("instruction {i}: {e}"))?;
            for value in inst.uses() {
                self.dominated(value, block, i + 1).map_err(|e| format!("instruction {i}: {e}"))?;
            }
        }
        for value in data.end.uses() {
            self.dominated(value, block, usize::MAX)?;
        }
        match &data.end {
            Terminator::Branch { predicate, .. } => self.predicate(*predicate)?,
            Terminator::Switch(switch) => self.switch(switch)?,
            _ => {}
        }
        data.end.edges().iter().try_for_each(|e| self.edge(e))
    }

    fn dominated(&self, value: Value, block: Block, position: usize) -> Result<(), String> {
        let (at, def) = self.defs[value.0 as usize].ok_or_else(|| format!("{value} is never defined"))?;
        let fine = if at == block { def < position } else { self.cfg.dominates(at, block) };
        if fine { Ok(()) } else { Err(format!("{value} is used where its definition does not reach")) }
    }

    fn predicate(&self, value: Value) -> Result<(), String> {
        match self.function.values[value].file {
            File::P | File::UP => Ok(()),
            _ => Err(format!("{value} is not a predicate")),
        }
    }

    fn switch(&self, switch: &Switch) -> Result<(), String> {
        let ValueData { file, words } = self.function.values[switch.index];
        let expected = if switch.place.is_some() { 2 } else { 1 };
        if !matches!(file, File::R | File::UR) || words != expected {
            return Err(format!("{} is no index of a switch", switch.index));
        }
        if switch.table.is_empty() || switch.table.iter().any(|entry| *entry as usize >= switch.edges.len()) {
            return Err("an entry of a switch's table has no edge".into());
        }
        Ok(())
    }

    fn same(&self, a: Value, b: Value) -> Result<(), String> {
        let values = &self.function.values;
        if values[a] == values[b] { Ok(()) } else { Err(format!("{a} and {b} differ in file or width")) }
    }

    fn edge(&self, edge: &Edge) -> Result<(), String> {
        let params = &self.function.blocks[edge.to].params;
        if params.len() != edge.args.len() {
            return Err(format!(
                "{} arguments for {} parameters of {}",
                edge.args.len(),
                params.len(),
                edge.to
            ));
        }
        params.iter().zip(&edge.args).try_for_each(|(p, a)| self.same(*p, *a))
    }

    fn inst(&self, inst: &InstData) -> Result<(), String> {
        let values = &self.function.values;
        if let Some(guard) = &inst.guard {
            self.predicate(guard.predicate)?;
            if guard.else_values.len() != inst.results.len() {
                return Err("a guarded instruction needs an else value for each result".into());
            }
            inst.results.iter().zip(&guard.else_values).try_for_each(|(r, k)| self.same(*r, *k))?;
        }
        for arg in &inst.args {
            if let Arg::Use(Use { value, part: Some(part), .. }) = arg
                && u16::from(part.first) + u16::from(part.count) > u16::from(values[*value].words)
            {
                return Err(format!("{value} has no word {}", part.first + part.count - 1));
            }
        }
        let width = |a: &Arg| match a {
            Arg::Use(Use { value, part: None, .. }) => u32::from(values[*value].words),
            Arg::Use(Use { part: Some(part), .. }) => u32::from(part.count),
            _ => 1,
        };
        match (inst.op, inst.results.first()) {
            (Op::Pseudo(Pseudo::Pack | Pseudo::Copy | Pseudo::Unpack), Some(_)) => {
                if !inst.args.iter().all(|a| matches!(a, Arg::Use(_))) {
                    return Err("a pseudo operation on an argument that is no value".into());
                }
                let words: u32 = inst.results.iter().map(|r| u32::from(values[*r].words)).sum();
                if words != inst.args.iter().map(width).sum::<u32>() {
                    return Err("the words do not add up".into());
                }
                Ok(())
            }
            (Op::Pseudo(Pseudo::Pack | Pseudo::Unpack | Pseudo::Copy | Pseudo::Undef), None) => {
                Err("a pseudo operation without a result".into())
            }
            (Op::Generic(op), _) => self.generic(op, inst, width),
            _ => Ok(()),
        }
    }

    /// One result, as many operands as the operation has, all of the width of its type.
    fn generic(&self, op: Generic, inst: &InstData, width: impl Fn(&Arg) -> u32) -> Result<(), String> {
        let ty = Type::of(&inst.modifiers).ok_or("a generic operation without a type")?;
        let words = u32::from(ty.words());
        let [result] = inst.results[..] else { return Err("a generic operation has one result".into()) };
        let fits = u32::from(self.function.values[result].words) == words
            && inst.args.len() == operands(op)
            && inst.args.iter().all(|a| width(a) == words);
        if fits { Ok(()) } else { Err("operands that the type of a generic operation doesn't have".into()) }
    }
}
