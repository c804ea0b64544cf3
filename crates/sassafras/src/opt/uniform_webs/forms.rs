//! Machine forms: the uniform counterpart of an operation, and a general operation with a uniform register operand.
//!
//! ```text
//! v2 = IADD3 v1, 0x4, RZ         ==>    u2 = UIADD3 u1, 0x4, URZ
//! v3 = IMAD v1, v2, v4           ==>    v3 = IMAD v2, u1, v4
//! ```
//!
//! `sass::legal` decides which forms exist on a target. Cost: constant time.

use crate::analysis::relations;
use crate::codegen::legalize;
use crate::context::target::TargetMachine;
use ori::{Arg, File, Function, InstData, Op, Pseudo, Use, Value};
use sass::{M, Op as Name};
use smallvec::SmallVec;

/// Is there a uniform counterpart for some operands?
pub fn may_have_counterpart(machine: &TargetMachine, data: &InstData) -> bool {
    match data.op {
        Op::Machine(op) => data.guard.is_none() && uniform_name(machine, op).is_some(),
        Op::Pseudo(op) => matches!(op, Pseudo::Pack | Pseudo::Copy) && data.guard.is_none(),
        Op::Generic(_) => false,
    }
}

/// The uniform counterpart of an operation, with its values mapped.
pub fn counterpart(
    machine: &TargetMachine,
    data: &InstData,
    results: SmallVec<[Value; 2]>,
    of: impl Fn(Value) -> Value,
) -> Option<InstData> {
    let args = uniform_args(data, of).filter(|_| may_have_counterpart(machine, data))?;
    let Op::Machine(op) = data.op else {
        let is_use = |arg: &Arg| matches!(arg, Arg::Use(u) if u.is_plain());
        return args.iter().all(is_use).then(|| InstData { results, args, ..data.clone() });
    };
    let name = match (op, &args[..]) {
        (Name::MOV, [Arg::Const { .. }]) => machine.uniform_constant_load(),
        _ => uniform_name(machine, op)?,
    };
    let mut new = InstData { op: Op::Machine(name), results, args, ..data.clone() };
    legalize::constant_second(&mut new);
    Some(new)
}

fn uniform_name(machine: &TargetMachine, op: Name) -> Option<Name> {
    match op {
        Name::IADD3 => Some(Name::UIADD3),
        Name::IMAD => Some(Name::UIMAD),
        Name::ISETP => Some(Name::UISETP),
        Name::LDC => Some(machine.uniform_constant_load()),
        Name::LEA => Some(Name::ULEA),
        Name::LOP3 => Some(Name::ULOP3),
        Name::MOV => Some(Name::UMOV),
        Name::S2R => Some(Name::S2UR),
        Name::SEL => Some(Name::USEL),
        Name::SGXT => Some(Name::USGXT),
        Name::SHF => Some(Name::USHF),
        _ => None,
    }
}

fn uniform_args(data: &InstData, of: impl Fn(Value) -> Value) -> Option<SmallVec<[Arg; 6]>> {
    let arg = |arg: &Arg| match *arg {
        Arg::Use(u) => Some(Arg::Use(Use { value: of(u.value), ..u })),
        Arg::Bank { bank, index: None, offset } => {
            Some(Arg::Const { bank, offset: u32::try_from(offset).ok()? })
        }
        // A load with an index stays general: on an H200, ULDC made a loop over constant memory 1.5 % faster at best.
        Arg::Bank { index: Some(_), .. } => None,
        Arg::Zero(_) => Some(Arg::Zero(File::UR)),
        Arg::Imm(_) | Arg::Const { .. } | Arg::Name(_) | Arg::True(_) => Some(*arg),
        _ => None,
    };
    data.args.iter().map(arg).collect()
}

/// A general instruction with a uniform register in place of an argument, if the machine has a form for that: operands of
/// sums, products and comparisons change places.
pub fn with_uniform(
    function: &Function,
    machine: &TargetMachine,
    data: &InstData,
    at: usize,
    uniform: Value,
) -> Option<InstData> {
    let (Op::Machine(op), Arg::Use(u)) = (data.op, data.args[at]) else { return None };
    // The table has forms, but ptxas was not seen to use them in the corpus.
    if matches!(op, Name::NANOSLEEP | Name::IABS) {
        return None;
    }
    let arg = Arg::Use(Use { value: uniform, ..u });
    if let (Name::LDS | Name::STS | Name::LDSM, 0, Some(Arg::Imm(_))) = (op, at, data.args.get(1)) {
        let mut new = data.clone();
        new.args[0] = arg;
        new.args.insert(0, Arg::Zero(File::R));
        return Some(new).filter(|new| u.is_plain() && legalize::is_legal(function, machine, new));
    }
    let mut new = data.clone();
    new.args[at] = arg;
    // The word is there already.
    if op == Name::R2UR && data.results.len() == 1 && data.modifiers.is_empty() && data.guard.is_none() {
        new.op = Op::Pseudo(Pseudo::Copy);
        return Some(new).filter(|_| u.is_plain());
    }
    if legalize::is_legal(function, machine, &new) {
        return Some(new);
    }
    let is_word = |arg: &Arg| match arg {
        Arg::Use(u) => matches!(function.values[u.value].file, File::R | File::UR),
        Arg::Imm(_) | Arg::Const { .. } | Arg::Zero(_) => true,
        _ => false,
    };
    let words: Vec<usize> = (0..data.args.len()).filter(|at| is_word(&data.args[*at])).collect();
    let others = match op {
        Name::IADD3 => &words[..],
        Name::LOP3 if data.modifiers[..] == [M::LUT] => words.get(..3)?,
        Name::IMAD | Name::FADD | Name::FMUL | Name::FFMA | Name::DADD | Name::DMUL | Name::DFMA => {
            words.get(..2)?
        }
        Name::ISETP if !data.modifiers.contains(&M::EX) => words.get(..2)?,
        _ => return None,
    };
    if !others.contains(&at) {
        return None;
    }
    others.iter().filter(|other| **other != at).find_map(|other| {
        let mut swapped = new.clone();
        swapped.args.swap(at, *other);
        match op {
            Name::ISETP => swapped.modifiers.iter_mut().for_each(|m| *m = relations::swapped(*m)),
            Name::LOP3 => {
                let Some(Arg::Imm(table)) = swapped.args.get_mut(3) else { return None };
                *table = exchanged(*table, at, *other);
            }
            _ => {}
        }
        Some(swapped).filter(|new| legalize::is_legal(function, machine, new))
    })
}

/// The truth table of LOP3 with two of its arguments in the other order: of an index into it, the first argument is the
/// highest of three bits.
fn exchanged(table: i64, one: usize, other: usize) -> i64 {
    let bits = (1 << (2 - one)) | (1 << (2 - other));
    let from = |index: i64| if index & bits == 0 || index & bits == bits { index } else { index ^ bits };
    (0..8).map(|index| (table >> from(index) & 1) << index).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanged_tables_compute_the_same() {
        let value = |table: i64, args: [i64; 3]| table >> (args[0] << 2 | args[1] << 1 | args[2]) & 1;
        for (one, other) in [(0, 1), (0, 2), (1, 2), (2, 0)] {
            for (table, index) in (0..256).flat_map(|table| (0..8).map(move |index| (table, index))) {
                let args = [index >> 2 & 1, index >> 1 & 1, index & 1];
                let mut swapped = args;
                swapped.swap(one, other);
                assert_eq!(value(table, args), value(exchanged(table, one, other), swapped));
            }
        }
    }
}
