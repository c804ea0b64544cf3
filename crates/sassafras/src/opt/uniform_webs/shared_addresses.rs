//! Addresses of shared memory that are the sum of a general and a uniform register.
//!
//! ```text
//! v2 = IADD3 v1, u1, RZ
//! v3 = LDS v2, 0x10              ==>    v3 = LDS v1, u1, 0x10
//! ```
//!
//! Linear in the code.

use ori::{Arg, Cfg, File, Function, Inst, InstData, Op, Use, Value};
use rustc_hash::FxHashMap;
use sass::Op as Name;

/// A sum of a general and a uniform register that only accesses of shared memory read becomes part of their addresses.
pub fn fold(function: &mut Function, cfg: &Cfg) {
    let insts: Vec<Inst> = cfg.order.iter().flat_map(|b| function.blocks[*b].insts.iter().copied()).collect();
    let sums = insts.iter().filter_map(|i| address_sum(function, &function.insts[*i]));
    let mut sums: FxHashMap<Value, (Arg, Arg)> =
        sums.map(|(sum, base, uniform)| (sum, (base, uniform))).collect();
    if sums.is_empty() {
        return;
    }
    for &inst in &insts {
        let data = &function.insts[inst];
        data.uses().filter(|v| !is_shared_access(data, *v)).for_each(|v| _ = sums.remove(&v));
    }
    cfg.order.iter().flat_map(|b| function.blocks[*b].end.uses()).for_each(|v| _ = sums.remove(&v));
    for inst in insts {
        let data = &mut function.insts[inst];
        let address = data.args.first().and_then(Arg::value).filter(|v| is_shared_access(data, *v));
        if let Some((base, uniform)) = address.and_then(|v| sums.get(&v)) {
            data.args[0] = *base;
            data.args.insert(1, *uniform);
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

/// Is it an access of shared memory by this value, which could have a uniform register added to its address?
fn is_shared_access(data: &InstData, value: Value) -> bool {
    let is_access = matches!(data.op, Op::Machine(Name::LDS | Name::STS));
    let is_address = |u: &Use| u.value == value && u.is_plain() && u.part.is_none();
    match &data.args[..] {
        [Arg::Use(u), Arg::Imm(_), ..] if is_access && is_address(u) => {
            data.uses().filter(|v| *v == value).count() == 1
        }
        _ => false,
    }
}
