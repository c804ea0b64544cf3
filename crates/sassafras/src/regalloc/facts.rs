//! Facts about a function that hold before allocation: undefined values, defining blocks, uses, last uses, fixed
//! registers.
//!
//! Each is computed in one pass over the code, but for [`undefined`], a greatest fixed point over block parameters.

use crate::module::abi::Convention;
use ori::entity::Entity;
use ori::liveness::{LiveSet, ScratchSet, ValueSet};
use ori::{Arg, Block, Cfg, File, Function, Inst, InstData, Op, Pseudo, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Undefined values: results of `Undef`, and parameters all of whose arguments are undefined.
pub fn undefined(function: &Function, cfg: &Cfg) -> ValueSet {
    let mut set = ValueSet::new(function.values.len());
    for inst in function.insts.keys().map(|i| &function.insts[i]) {
        if inst.op == Op::Pseudo(Pseudo::Undef) {
            inst.results.iter().for_each(|v| set.insert(*v));
        }
    }
    if set.is_empty() {
        return set;
    }
    // Optimistic: a parameter is undefined until an argument is not. It may be its own argument.
    cfg.order.iter().flat_map(|b| &function.blocks[*b].params).for_each(|p| set.insert(*p));
    let mut changed = true;
    while changed {
        changed = false;
        for edge in cfg.order.iter().flat_map(|b| function.blocks[*b].end.edges()) {
            for (param, arg) in function.blocks[edge.to].params.iter().zip(&edge.args) {
                if set.contains(*param) && !set.contains(*arg) {
                    set.remove(*param);
                    changed = true;
                }
            }
        }
    }
    set
}

/// The defining block of each value, and the position there: 0 for a parameter, too.
pub(super) fn def_positions(function: &Function, cfg: &Cfg) -> (Vec<Option<Block>>, Vec<u32>) {
    let (mut blocks, mut positions) = (vec![None; function.values.len()], vec![0; function.values.len()]);
    for &block in &cfg.order {
        let data = &function.blocks[block];
        data.params.iter().for_each(|v| blocks[v.index()] = Some(block));
        for (position, inst) in data.insts.iter().enumerate() {
            for result in &function.insts[*inst].results {
                (blocks[result.index()], positions[result.index()]) = (Some(block), position as u32);
            }
        }
    }
    (blocks, positions)
}

/// The uses in a block, sorted by value and position.
pub(super) fn uses(function: &Function, block: Block) -> Vec<(Value, u32)> {
    let data = &function.blocks[block];
    let mut all: Vec<(Value, u32)> = Vec::new();
    for (i, inst) in data.insts.iter().enumerate() {
        all.extend(function.insts[*inst].uses().map(|v| (v, i as u32)));
    }
    all.extend(data.end.uses().map(|v| (v, data.insts.len() as u32)));
    all.sort();
    all
}

/// The values that an instruction kills.
pub(super) type Killed = SmallVec<[Value; 4]>;

pub(super) struct LastUses {
    /// For each instruction the values that it kills: this is their last use.
    pub at: Vec<Killed>,
    /// Values defined here that have no use.
    pub unused: Vec<Value>,
    /// Words that die before the rest of their value, with the position of their last use; in order.
    pub words: Vec<DeadWords>,
}

/// Some words of a value that nothing reads after this position.
pub(super) struct DeadWords {
    pub position: u32,
    pub value: Value,
    /// A bit for each word.
    pub words: u32,
}

pub(super) fn last_uses(
    function: &Function,
    block: Block,
    live_out: &LiveSet,
    live: &mut ScratchSet,
) -> LastUses {
    let data = &function.blocks[block];
    live.set(live_out, function.values.len());
    data.end.uses().for_each(|v| _ = live.insert(v));
    let mut out =
        LastUses { at: Vec::with_capacity(data.insts.len()), unused: Vec::new(), words: Vec::new() };
    // The words that are read below, of each value of several words that dies in the block.
    let mut words_read: FxHashMap<Value, u32> = FxHashMap::default();
    for (position, inst) in data.insts.iter().enumerate().rev() {
        let inst = &function.insts[*inst];
        for result in &inst.results {
            if !live.remove(*result) {
                out.unused.push(*result);
            }
        }
        let mut killed = Killed::new();
        for value in inst.uses() {
            if live.insert(value) {
                killed.push(value);
                if (2..=32).contains(&function.values[value].words) {
                    words_read.insert(value, 0);
                }
            }
        }
        if !words_read.is_empty() {
            for (value, words) in inst.words_read() {
                let Some(read) = words_read.get_mut(&value) else { continue };
                if *read != 0 && words & !*read != 0 {
                    out.words.push(DeadWords { position: position as u32, value, words: words & !*read });
                }
                *read |= words;
            }
        }
        out.at.push(killed);
    }
    out.at.reverse();
    out.words.reverse();
    out.unused.extend(data.params.iter().filter(|p| !live.contains(**p)));
    out
}

/// The position of each block in reverse post-order.
pub(super) fn rpo_indices(cfg: &Cfg, blocks: usize) -> Vec<u32> {
    let mut rpo_index = vec![u32::MAX; blocks];
    cfg.order.iter().enumerate().for_each(|(i, b)| rpo_index[b.index()] = i as u32);
    rpo_index
}

/// The accumulator of an MMA, if no other operand reads it: the result may have its registers in spite of the early
/// clobber (so does ptxas's code).
pub(super) fn accumulator(function: &Function, data: &InstData) -> Option<Value> {
    let ([result], Some(Arg::Use(u))) = (&data.results[..], data.args.get(2)) else { return None };
    let whole = u.part.is_none() && function.values[u.value] == function.values[*result];
    let once = data.uses().filter(|v| *v == u.value).count() == 1;
    Some(u.value).filter(|_| is_early_clobber(data) && function.tied(data).is_none() && whole && once)
}

/// Does it write results before it has read all arguments? MMAs take several passes.
pub fn is_early_clobber(data: &InstData) -> bool {
    use sass::Op::*;
    matches!(data.op, Op::Machine(HMMA | IMMA | BMMA | DMMA | QMMA | OMMA | HGMMA | IGMMA | QGMMA | BGMMA))
}

/// The registers that instructions name explicitly.
pub(super) fn fixed_registers(function: &Function) -> impl Iterator<Item = (File, u8)> + '_ {
    let insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    insts.flat_map(|i| &function.insts[*i].args).filter_map(|arg| match arg {
        Arg::Fixed { file, number } => Some((*file, *number)),
        _ => None,
    })
}

/// The instruction with the highest fixed register beyond the first `usable`, and how many registers it needs.
pub(super) fn fixed_reg_beyond(function: &Function, usable: u8) -> Option<(&InstData, u32)> {
    let insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    let highest = |inst: &Inst| {
        let numbers = function.insts[*inst].args.iter().filter_map(|arg| match arg {
            Arg::Fixed { file: File::R, number } => Some(*number),
            _ => None,
        });
        let of_call = function.fixed.get(inst).map(|fixed| Convention::of(fixed).end() - 1);
        numbers.chain(of_call).max()
    };
    let (inst, number) = insts.filter_map(|inst| Some((inst, highest(inst)?))).max_by_key(|(_, n)| *n)?;
    (number >= usable).then_some((&function.insts[*inst], u32::from(number) + 1))
}
