//! Constant promotion: loads words of constant bank 0 that arithmetic reads into uniform registers, once in the
//! prologue.
//!
//! From sm_90 on, arithmetic has no constant bank operands ([`targets::Target::constant_operands`]), but it has uniform
//! register operands. Kernel parameters and launch dimensions are the same for all threads. A register that only the
//! prologue writes keeps its value for the whole kernel, even where threads have diverged.
//!
//! ```text
//!                                           uniform UR60 c[0x0][0x218]      (Function::uniform_constants)
//! v2 = IADD3 v1, c[0x0][0x218], RZ   ==>    v2 = IADD3 v1, c[0x0][0x218], RZ
//!                                           later: ULDC UR60, c[0x0][0x218]; …; IADD3 R2, R1, UR60, RZ
//! ```
//!
//! In the IR, operands stay words of the bank. The chosen words are emitted as uniform registers
//! (`codegen/legalize.rs`); the others are loaded there. Words are chosen by their number of uses, with uses in loops
//! first.
//!
//! The calling convention preserves no uniform registers. Functions that call or are called therefore load a word in
//! each block that reads it, and again after a call:
//!
//! ```text
//! v2 = IADD3 v1, c[0x0][0x218], RZ   ==>    v3:UR = ULDC c[0x0][0x218]; v2 = IADD3 v1, v3, RZ
//! ```
//!
//! Cost: linear in the code.

use crate::codegen::legalize;
use crate::context::{Context, PassResult};
use ori::{Arg, Block, Change, File, Function, InstData, Op, Pseudo, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BTreeMap;

pub fn run(function: &mut Function, context: &mut Context) -> PassResult<Change> {
    let target = context.machine;
    let calls = |op: Op| matches!(op, Op::Pseudo(Pseudo::Call | Pseudo::Entry));
    let mut insts = function.insts.keys().map(|i| &function.insts[i]);
    if target.constant_operands || !target.uniform_registers {
        return Ok(Change::Nothing);
    }
    if insts.any(|data| calls(data.op)) {
        let blocks: Vec<Block> = function.blocks.keys().collect();
        let changed = blocks.into_iter().filter(|b| load_in_block(function, *b, context)).count() > 0;
        return Ok(Change::Instructions.when(changed));
    }
    let weights = weights(function, context);
    if weights.is_empty() {
        return Ok(Change::Nothing);
    }
    let free = free_registers(function, target.urz);
    let mut chosen: Vec<(u32, u64)> = weights.into_iter().collect();
    chosen.sort_by_key(|(offset, weight)| (Reverse(*weight), *offset));
    chosen.truncate(free.len().min(context.tuning.uniform_constants as usize));
    while !chosen.is_empty() && !context.fuel.burn() {
        chosen.pop();
    }
    let mut offsets: Vec<u32> = chosen.into_iter().map(|(offset, _)| offset).collect();
    offsets.sort_unstable();
    function.uniform_constants = assign(&offsets, &free);
    Ok(Change::Instructions)
}

/// Loads the words that a block reads at their first use there, and at the first after each call. Returns whether there
/// are any.
fn load_in_block(function: &mut Function, block: Block, context: &mut Context) -> bool {
    let load = context.machine.uniform_constant_load();
    let mut loaded: FxHashMap<u32, Value> = FxHashMap::default();
    let mut changed = false;
    let mut out = Vec::new();
    for inst in std::mem::take(&mut function.blocks[block].insts) {
        let data = &function.insts[inst];
        if legalize::takes_uniform_constants(function, context.machine, data) {
            for at in 0..data.args.len() {
                let Arg::Const { bank: 0, offset } = function.insts[inst].args[at] else { continue };
                let room = loaded.len() < context.tuning.uniform_constants as usize;
                if !loaded.contains_key(&offset) && (!room || !context.fuel.burn()) {
                    continue;
                }
                let value = *loaded.entry(offset).or_insert_with(|| {
                    let value = function.value(File::UR, 1);
                    let args = [Arg::Const { bank: 0, offset }];
                    let at = function.insts[inst].at;
                    let data = InstData { at, ..InstData::new(Op::Machine(load), &[value], &args) };
                    out.push(function.insts.push(data));
                    value
                });
                function.insts[inst].args[at] = value.into();
                changed = true;
            }
        } else if data.op == Op::Pseudo(Pseudo::Call) {
            loaded.clear();
        }
        out.push(inst);
    }
    function.blocks[block].insts = out;
    changed
}

/// The words of bank 0 that are operands where a uniform register may be, with the number of their uses.
fn weights(function: &Function, context: &mut Context) -> BTreeMap<u32, u64> {
    let cfg = context.analyses.cfg(function);
    let loops = context.analyses.loops(function);
    let mut weights = BTreeMap::new();
    for &block in &cfg.order {
        let weight = context.tuning.loop_weight(loops.depth(block));
        for inst in &function.blocks[block].insts {
            let data = &function.insts[*inst];
            let words = data.args.iter().filter_map(|arg| match arg {
                Arg::Const { bank: 0, offset } => Some(*offset),
                _ => None,
            });
            for offset in words.filter(|_| legalize::takes_uniform_constants(function, context.machine, data))
            {
                *weights.entry(offset).or_default() += weight;
            }
        }
    }
    weights
}

/// Uniform registers that no value needs, the highest first. The function's values have the lower half to themselves, and
/// more if there are tuples, which start at multiples of their size.
fn free_registers(function: &Function, urz: u8) -> Vec<u8> {
    let uniform = || function.values.keys().map(|v| function.values[v]).filter(|data| data.file == File::UR);
    let words: usize = uniform().map(|data| usize::from(data.words)).sum();
    let count = urz.min(63);
    let lowest = if words > 32 && uniform().any(|data| data.words > 2) { 48 } else { 32 };
    let args = function.insts.keys().flat_map(|i| &function.insts[i].args);
    let fixed = args.filter_map(|arg| match arg {
        Arg::Fixed { file, number } => Some((*file, *number)),
        _ => None,
    });
    let named: FxHashSet<(File, u8)> = fixed.chain(function.withheld.iter().copied()).collect();
    (lowest..count).rev().filter(|register| !named.contains(&(File::UR, *register))).collect()
}

/// Gives registers to words; two words that are loaded at once have an even register and the one above it.
fn assign(offsets: &[u32], free: &[u8]) -> Vec<(u32, u8)> {
    let mut free = free.to_vec();
    let mut assigned = Vec::new();
    let mut offsets = offsets.iter().copied().peekable();
    while let Some(offset) = offsets.next() {
        let pair = (offset % 8 == 0 && offsets.peek() == Some(&(offset + 4)))
            .then(|| free.iter().copied().find(|low| low % 2 == 0 && free.contains(&(low + 1))))
            .flatten();
        let register = pair.or_else(|| free.first().copied());
        let Some(register) = register else { break };
        assigned.push((offset, register));
        free.retain(|r| *r != register);
        if pair.is_some() && offsets.next().is_some() {
            assigned.push((offset + 4, register + 1));
            free.retain(|r| *r != register + 1);
        }
    }
    assigned
}
