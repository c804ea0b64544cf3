//! Operand placement: reads constant-bank float operands of a convergent loop from uniform registers.
//!
//! ```text
//! v1 = LDC c[0][x]                 u1 = ULDC c[0][x]          (preheader; LDCU from sm_100 on)
//! loop: FFMA v2, v3, v1, v4   ==>  loop: FFMA v2, v3, u1, v4
//! ```
//!
//! Each bank of general registers delivers one word per cycle (`sass::model::cache`). A fused multiply-add reads three
//! words; if two of them are in the same bank, this takes two cycles. A warp-uniform loop invariant does not need to be
//! one of them. ptxas does the same. Cost: one pass over the loop.

use crate::analysis::convergent_loops::ConvergentLoop;
use crate::analysis::known_bits::Definitions;
use crate::codegen::legalize;
use crate::context::Context;
use crate::context::target::TargetMachine;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, File, Function, InstData, Op, Value};
use rustc_hash::FxHashMap;
use sass::Op as Name;

pub fn run(
    function: &mut Function,
    context: &Context,
    (cfg, definitions): (&Cfg, &Definitions),
    convergent_loop: &ConvergentLoop,
) {
    let (machine, max_regs) = (context.machine, context.tuning.uniform_factor_registers as usize);
    let mut uniform_values: FxHashMap<Value, Value> = FxHashMap::default();
    let blocks: Vec<Block> = cfg.order.iter().copied().filter(|b| convergent_loop.body[b.index()]).collect();
    for block in blocks {
        for inst in function.blocks[block].insts.clone() {
            let data = &function.insts[inst];
            if !matches!(data.op, Op::Machine(Name::FADD | Name::FMUL | Name::FFMA)) {
                continue;
            }
            let word = |at: &usize| {
                Some((*at, constant_word(function, definitions, convergent_loop, &data.args[*at])?))
            };
            let Some((at, (value, word))) = (0..data.args.len()).find_map(|at| word(&at)) else { continue };
            if uniform_values.len() >= max_regs && !uniform_values.contains_key(&value) {
                continue;
            }
            let uniform = *uniform_values.entry(value).or_insert_with(|| {
                let uniform = function.value(File::UR, 1);
                let load = machine.uniform_constant_load();
                let data = InstData::new(Op::Machine(load), &[uniform], &[word]);
                let load = function.insts.push(data);
                function.blocks[convergent_loop.preheader].insts.push(load);
                uniform
            });
            replace(function, machine, inst, at, uniform);
        }
    }
}

/// The value of an argument, and the word of a constant bank that it is loaded from outside of the loop.
fn constant_word(
    function: &Function,
    definitions: &Definitions,
    convergent_loop: &ConvergentLoop,
    arg: &Arg,
) -> Option<(Value, Arg)> {
    let Arg::Use(u) = arg else { return None };
    let (block, inst) = (*definitions.get(u.value.index())?)?;
    let data = &function.insts[inst];
    let loads = data.op == Op::Machine(Name::LDC) && data.modifiers.is_empty() && data.guard.is_none();
    let word = function.values[u.value].words == 1 && u.part.is_none();
    match data.args[..] {
        [Arg::Bank { bank, index: None, offset }]
            if loads && word && !convergent_loop.body[block.index()] =>
        {
            Some((u.value, Arg::Const { bank, offset: u32::try_from(offset).ok()? }))
        }
        _ => None,
    }
}

/// Replaces an argument by a uniform register, if the machine has a form for that: the first two commute.
fn replace(function: &mut Function, machine: &TargetMachine, inst: ori::Inst, at: usize, uniform: Value) {
    let mut data = function.insts[inst].clone();
    let Arg::Use(u) = &mut data.args[at] else { return };
    u.value = uniform;
    if at == 0 {
        data.args.swap(0, 1);
    }
    if legalize::is_legal(function, machine, &data) {
        function.insts[inst] = data;
    }
}
