//! Address mode selection: shared memory addresses that are the sum of a general and a uniform register.
//!
//! ```text
//! v2 = IADD3 v1, u1, RZ
//! v3 = LDS v2, 0x10              ==>    v3 = LDS v1, u1, 0x10
//! ```
//!
//! Cost: linear in the code.

use crate::codegen::legalize;
use crate::context::target::TargetMachine;
use ori::{Arg, Cfg, File, Function, Inst, InstData, Op, Value};
use rustc_hash::FxHashMap;
use sass::Op as Name;

/// A sum of a general and a uniform register that only accesses of shared memory read becomes part of their addresses.
pub fn fold(function: &mut Function, machine: &TargetMachine, cfg: &Cfg) {
    let insts: Vec<Inst> = cfg.order.iter().flat_map(|b| function.blocks[*b].insts.iter().copied()).collect();
    let sums = insts.iter().filter_map(|i| address_sum(function, &function.insts[*i]));
    let mut sums: FxHashMap<Value, (Arg, Arg)> =
        sums.map(|(sum, base, uniform)| (sum, (base, uniform))).collect();
    if sums.is_empty() {
        return;
    }
    for &inst in &insts {
        let data = &function.insts[inst];
        let is_folded = |v: &Value| {
            sums.get(v).is_some_and(|sum| {
                with_sum(data, *v, *sum).is_some_and(|new| legalize::is_legal(function, machine, &new))
            })
        };
        let others: Vec<Value> = data.uses().filter(|v| !is_folded(v)).collect();
        others.into_iter().for_each(|v| _ = sums.remove(&v));
    }
    cfg.order.iter().flat_map(|b| function.blocks[*b].end.uses()).for_each(|v| _ = sums.remove(&v));
    for inst in insts {
        let data = &function.insts[inst];
        let address = data.args.first().and_then(Arg::value);
        let sum = address.and_then(|v| Some((v, *sums.get(&v)?)));
        if let Some(new) = sum.and_then(|(v, sum)| with_sum(data, v, sum)) {
            function.insts[inst] = new;
        }
    }
}

/// `sum = IADD3 base, uniform, RZ`
fn address_sum(function: &Function, data: &InstData) -> Option<(Value, Arg, Arg)> {
    if data.op != Op::Machine(Name::IADD3) || data.guard.is_some() || !data.modifiers.is_empty() {
        return None;
    }
    let [sum] = data.results[..] else { return None };
    let in_file = |arg: &Arg, file: File| {
        matches!(arg, Arg::Use(u) if u.is_plain() && function.values[u.value].file == file
            && (u.part.is_some() || function.values[u.value].words == 1))
    };
    let words: Vec<&Arg> = data.args.iter().filter(|a| !matches!(a, Arg::Zero(_) | Arg::True(_))).collect();
    match words[..] {
        [a, b] if in_file(a, File::R) && in_file(b, File::UR) => Some((sum, *a, *b)),
        [a, b] if in_file(b, File::R) && in_file(a, File::UR) => Some((sum, *b, *a)),
        _ => None,
    }
}

/// An access of shared memory with the two registers of a sum in place of its address.
fn with_sum(data: &InstData, address: Value, (base, uniform): (Arg, Arg)) -> Option<InstData> {
    let is_access = matches!(data.op, Op::Machine(Name::LDS | Name::STS | Name::LDSM));
    let [Arg::Use(u), Arg::Imm(_), ..] = data.args[..] else { return None };
    let is_address = u.value == address && u.is_plain() && u.part.is_none();
    if !is_access || !is_address || data.uses().filter(|v| *v == address).count() != 1 {
        return None;
    }
    let mut new = data.clone();
    new.args[0] = base;
    new.args.insert(1, uniform);
    Some(new)
}
