//! What a loop multiplies with and adds comes from a uniform register, where it is a word of a constant bank.
//!
//! Each bank of general registers gives one word a cycle (`sass::model::cache`): a sum of a product takes three words, and
//! where two of them lie in one bank, two cycles. A word that is the same for all threads and stays the same all through
//! the loop need not be among them. ptxas does the same.

use crate::analysis::convergent_loops::Zone;
use crate::analysis::known_bits::Definitions;
use crate::codegen::legalize;
use crate::context::target::Machine;
use ori::entity::Entity;
use ori::{Arg, Block, Cfg, File, Function, InstData, Op, Value};
use rustc_hash::FxHashMap;
use sass::Op as Name;

/// Uniform registers that are taken for this: products take most of the others.
const MOST: usize = 4;

pub fn run(
    function: &mut Function,
    machine: &'static Machine,
    (cfg, definitions): (&Cfg, &Definitions),
    zone: &Zone,
) {
    let mut twins: FxHashMap<Value, Value> = FxHashMap::default();
    let blocks: Vec<Block> = cfg.order.iter().copied().filter(|b| zone.inside[b.index()]).collect();
    for block in blocks {
        for inst in function.blocks[block].insts.clone() {
            let data = &function.insts[inst];
            if !matches!(data.op, Op::Machine(Name::FADD | Name::FMUL | Name::FFMA)) {
                continue;
            }
            let word = |at: &usize| Some((*at, constant_word(function, definitions, zone, &data.args[*at])?));
            let Some((at, (value, word))) = (0..data.args.len()).find_map(|at| word(&at)) else { continue };
            if twins.len() >= MOST && !twins.contains_key(&value) {
                continue;
            }
            let twin = *twins.entry(value).or_insert_with(|| {
                let twin = function.value(File::UR, 1);
                let load = machine.uniform_constant_load();
                let data = InstData::new(Op::Machine(load), &[twin], &[word]);
                let load = function.insts.push(data);
                function.blocks[zone.before].insts.push(load);
                twin
            });
            replace(function, machine, inst, at, twin);
        }
    }
}

/// The value of an argument, and the word of a constant bank that it is from before the loop on.
fn constant_word(
    function: &Function,
    definitions: &Definitions,
    zone: &Zone,
    arg: &Arg,
) -> Option<(Value, Arg)> {
    let Arg::Use(u) = arg else { return None };
    let (block, inst) = (*definitions.get(u.value.index())?)?;
    let data = &function.insts[inst];
    let loads = data.op == Op::Machine(Name::LDC) && data.modifiers.is_empty() && data.guard.is_none();
    let word = function.values[u.value].words == 1 && u.part.is_none();
    match data.args[..] {
        [Arg::Bank { bank, index: None, offset }] if loads && word && !zone.inside[block.index()] => {
            Some((u.value, Arg::Const { bank, offset: u32::try_from(offset).ok()? }))
        }
        _ => None,
    }
}

/// Lets an instruction have a uniform register for an argument, if the machine has a form for that: the first two may
/// change places.
fn replace(function: &mut Function, machine: &Machine, inst: ori::Inst, at: usize, twin: Value) {
    let mut data = function.insts[inst].clone();
    let Arg::Use(u) = &mut data.args[at] else { return };
    u.value = twin;
    if at == 0 {
        data.args.swap(0, 1);
    }
    if legalize::is_legal(function, machine, &data) {
        function.insts[inst] = data;
    }
}
