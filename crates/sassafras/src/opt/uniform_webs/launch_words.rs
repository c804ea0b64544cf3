//! Launch dimensions beside block indices: the first word of a product is loaded to a general register, so that the
//! other one can be uniform.
//!
//! ```text
//! v1 = S2R %SR_CTAID.X                      u1 = S2UR %SR_CTAID.X
//! v2 = IMAD v1, c[0x0][0x0], v0      ==>    v3 = LDC c[0x0][0x0]
//!                                           v2 = IMAD v3, u1, v0
//! ```
//!
//! An operation takes one uniform register. A warp that begins waits for `ULDC` of a line of constant memory that isn't
//! in the cache, and goes on after `LDC`: nearly every kernel begins so, and other words come from another line. A word
//! that is read elsewhere as well stays, as one uniform register serves all.

use crate::context::Fuel;
use crate::context::target::TargetMachine;
use ori::entity::Entity;
use ori::{Arg, File, Function, Inst, InstData, Op};
use rustc_hash::FxHashMap;
use sass::{M, Op as Name};

/// Only of the block that a kernel begins with.
pub fn load(function: &mut Function, machine: &TargetMachine, fuel: &mut Fuel) {
    if machine.constant_operands {
        return;
    }
    let entry = function.blocks[Function::ENTRY].insts.clone();
    let mut is_block_index = vec![false; function.values.len()];
    for data in entry.iter().map(|inst| &function.insts[*inst]) {
        let name = [M::SR_CTAID_X, M::SR_CTAID_Y, M::SR_CTAID_Z].map(Arg::Name);
        if data.op == Op::Machine(Name::S2R) && data.args.iter().all(|arg| name.contains(arg)) {
            data.results.iter().for_each(|v| is_block_index[v.index()] = true);
        }
    }
    let mut reads: FxHashMap<u32, u32> = FxHashMap::default();
    for block in function.blocks.keys() {
        for arg in function.blocks[block].insts.iter().flat_map(|inst| &function.insts[*inst].args) {
            if let Arg::Const { bank: 0, offset } = arg {
                *reads.entry(*offset).or_default() += 1;
            }
        }
    }
    // The factor that is read once.
    let word = |data: &InstData| {
        let (Op::Machine(Name::IMAD), [], [a, b, _]) = (data.op, &data.modifiers[..], &data.args[..]) else {
            return None;
        };
        let (at, index, offset) = match (a, b) {
            (Arg::Const { bank: 0, offset }, index) => (0, index, *offset),
            (index, Arg::Const { bank: 0, offset }) => (1, index, *offset),
            _ => return None,
        };
        let is_index = matches!(index, Arg::Use(u) if u.is_plain() && is_block_index[u.value.index()]);
        (is_index && reads[&offset] == 1).then_some((at, offset))
    };
    let found: Vec<(Inst, usize, u32)> = entry
        .iter()
        .filter_map(|inst| word(&function.insts[*inst]).map(|(at, offset)| (*inst, at, offset)))
        .filter(|_| fuel.burn())
        .collect();
    for (inst, at, offset) in found {
        let Ok(offset) = i32::try_from(offset) else { continue };
        let value = function.value(File::R, 1);
        let bank = [Arg::Bank { bank: 0, index: None, offset }];
        let own = InstData::new(Op::Machine(Name::LDC), &[value], &bank);
        let load = function.insts.push(InstData { at: function.insts[inst].at, ..own });
        function.insts[inst].args[at] = value.into();
        let insts = &mut function.blocks[Function::ENTRY].insts;
        if let Some(place) = insts.iter().position(|i| *i == inst) {
            insts.insert(place, load);
        }
    }
}
