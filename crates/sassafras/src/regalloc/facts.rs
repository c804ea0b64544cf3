//! What is known of a function before any value has a place.

use crate::mach::abi::Convention;
use ori::entity::Entity;
use ori::liveness::ValueSet;
use ori::{Arg, Block, Cfg, File, Function, Inst, InstData, Op, Pseudo, Value};

/// Values that get no bits from anywhere: of `Undef`, and parameters that only ever get such.
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
    // As long as nothing speaks against it, a parameter is undefined: it may be handed on to itself.
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

/// The block that each value is defined in, by an instruction or as a parameter.
pub(super) fn homes(function: &Function, cfg: &Cfg) -> Vec<Option<Block>> {
    let mut all = vec![None; function.values.len()];
    for &block in &cfg.order {
        let data = &function.blocks[block];
        let results = data.insts.iter().flat_map(|i| &function.insts[*i].results);
        data.params.iter().chain(results).for_each(|v| all[v.index()] = Some(block));
    }
    all
}

/// Each use of a value in a block, in order of values and places.
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

pub(super) struct Deaths {
    /// For each instruction the values whose last use it is.
    pub at: Vec<Vec<Value>>,
    /// Values defined here that nothing uses.
    pub unused: Vec<Value>,
}

pub(super) fn deaths(function: &Function, block: Block, live_out: &ValueSet) -> Deaths {
    let data = &function.blocks[block];
    let mut live = live_out.clone();
    data.end.uses().for_each(|v| live.insert(v));
    let mut out = Deaths { at: Vec::new(), unused: Vec::new() };
    for inst in data.insts.iter().rev() {
        let inst = &function.insts[*inst];
        for result in &inst.results {
            if !live.contains(*result) {
                out.unused.push(*result);
            }
            live.remove(*result);
        }
        let mut dying = Vec::new();
        for value in inst.uses() {
            if !live.contains(value) {
                live.insert(value);
                dying.push(value);
            }
        }
        out.at.push(dying);
    }
    out.at.reverse();
    out.unused.extend(data.params.iter().filter(|p| !live.contains(**p)));
    out
}

/// The place of each block in the order.
pub(super) fn ranks(cfg: &Cfg, blocks: usize) -> Vec<u32> {
    let mut rank = vec![u32::MAX; blocks];
    cfg.order.iter().enumerate().for_each(|(i, b)| rank[b.index()] = i as u32);
    rank
}

/// What a tensor operation adds to, if nothing else reads that there: the result may have its registers, though it is
/// written early (so does ptxas's code).
pub(super) fn accumulator(function: &Function, data: &InstData) -> Option<Value> {
    let ([result], Some(Arg::Use(u))) = (&data.results[..], data.args.get(2)) else { return None };
    let whole = u.part.is_none() && function.values[u.value] == function.values[*result];
    let once = data.uses().filter(|v| *v == u.value).count() == 1;
    Some(u.value).filter(|_| early_writer(data) && function.tied(data).is_none() && whole && once)
}

/// Does it write results before it has read all arguments? Tensor operations take several passes.
pub(super) fn early_writer(data: &InstData) -> bool {
    use sass::Op::*;
    matches!(data.op, Op::Machine(HMMA | IMMA | BMMA | DMMA | QMMA | OMMA | HGMMA | IGMMA | QGMMA | BGMMA))
}

/// The registers that instructions name themselves.
pub(super) fn fixed_registers(function: &Function) -> impl Iterator<Item = (File, u8)> + '_ {
    let insts = function.blocks.keys().flat_map(|b| &function.blocks[b].insts);
    insts.flat_map(|i| &function.insts[*i].args).filter_map(|arg| match arg {
        Arg::Fixed { file, number } => Some((*file, *number)),
        _ => None,
    })
}

/// An instruction that names a register which isn't among the first so many, and how many there must be for it.
pub(super) fn names_beyond(function: &Function, usable: u8) -> Option<(&InstData, u32)> {
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
