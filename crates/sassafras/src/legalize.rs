//! Legalization: every machine operation has a form on the target for the kinds of its operands.
//!
//! The machine is asked (`sass::legal`); a constant that may not stand where it stands moves to a register.

use crate::bank0::Machine;
use ori::{Arg, File, Function, InstData, Op, Value};
use sass::operands as machine;
use smallvec::smallvec;

/// The bank with the addresses of symbols.
const TABLE_BANK: u8 = 4;

pub fn run(function: &mut Function, target: &'static Machine) -> Result<(), String> {
    for block in function.blocks.keys() {
        let mut legal = Vec::new();
        for inst in std::mem::take(&mut function.blocks[block].insts) {
            let mut data = function.insts[inst].clone();
            for at in to_move(function, target, &data)? {
                let value = function.value(File::R, 1);
                let constant = std::mem::replace(&mut data.args[at], value.into());
                legal.push(function.insts.push(InstData {
                    op: Op::Machine(sass::Op::MOV),
                    modifiers: smallvec![],
                    results: smallvec![value],
                    args: smallvec![constant],
                    guard: None,
                    at: data.at,
                }));
            }
            function.insts[inst] = data;
            legal.push(inst);
        }
        function.blocks[block].insts = legal;
    }
    Ok(())
}

/// Which constants must move for the operation to have a form: as few as will do, and the last ones if there is a
/// choice.
fn to_move(function: &mut Function, target: &Machine, data: &InstData) -> Result<Vec<usize>, String> {
    if is_legal(function, target, data) {
        return Ok(Vec::new());
    }
    let is_constant = |at: &usize| matches!(data.args[*at], Arg::Imm(_) | Arg::Const { .. });
    let constants: Vec<usize> = (0..data.args.len()).rev().filter(is_constant).take(8).collect();
    let mut sets: Vec<u32> = (1..1 << constants.len()).collect();
    sets.sort_by_key(|set| set.count_ones());
    let register = function.value(File::R, 1);
    for set in sets {
        let moved: Vec<usize> =
            (0..constants.len()).filter(|i| set >> i & 1 == 1).map(|i| constants[i]).collect();
        let mut tried = data.clone();
        moved.iter().for_each(|at| tried.args[*at] = register.into());
        if is_legal(function, target, &tried) {
            return Ok(moved);
        }
    }
    Err(format!("no form of {:?} takes these operands", data.op))
}

fn is_legal(function: &Function, target: &Machine, data: &InstData) -> bool {
    let Op::Machine(op) = data.op else { return true };
    // Any even register will do: only the kinds matter.
    let operands: Vec<_> = operands(function, data, &mut |_, _| 2).collect();
    sass::legal(target.isa, op, &data.modifiers, &operands)
}

/// The machine's operands for an instruction: results, then arguments. `register` gives the register of a
/// value's word.
pub fn operands<'a>(
    function: &'a Function,
    data: &'a InstData,
    register: &'a mut dyn FnMut(Value, u8) -> u8,
) -> impl Iterator<Item = sass::Operand> + 'a {
    let results = data.results.iter().map(|v| (*v, None)).collect::<Vec<_>>();
    let register = std::cell::RefCell::new(register);
    let place = move |value: Value, word: Option<u8>| {
        let number = register.borrow_mut()(value, word.unwrap_or(0));
        match function.values[value].file {
            File::R => machine::r(number),
            File::UR => machine::ur(number),
            File::P => machine::p(number),
            File::UP => machine::up(number),
            File::B => machine::b(number),
        }
    };
    let count = results.len();
    (0..count + data.args.len()).map(move |i| {
        if i < count {
            return place(results[i].0, results[i].1);
        }
        match &data.args[i - count] {
            Arg::Use(u) => {
                let mut operand = place(u.value, u.part.map(|p| p.first));
                let predicate = matches!(function.values[u.value].file, File::P | File::UP);
                if u.absolute {
                    operand = operand.abs();
                }
                operand = match (u.negated, predicate) {
                    (true, true) => operand.not(),
                    (true, false) => operand.neg(),
                    _ => operand,
                };
                if u.inverted {
                    operand = operand.inv();
                }
                if u.suffix == sass::M::Empty { operand } else { operand.suffix(u.suffix) }
            }
            Arg::Imm(n) => machine::imm(*n),
            Arg::Const { bank, offset } => machine::c(*bank, i64::from(*offset)),
            Arg::Bank { bank, index: None, offset } => machine::c_r(*bank, sass::RZ, i64::from(*offset)),
            Arg::Bank { bank, index: Some(index), offset } => {
                let at = place(*index, None);
                match at.kind {
                    sass::Kind::U => machine::c_ur(*bank, at.value as u8, i64::from(*offset)),
                    _ => machine::c_r(*bank, at.value as u8, i64::from(*offset)),
                }
            }
            Arg::Address { .. } => machine::imm(0),
            Arg::Stack => machine::r(1),
            Arg::Incoming(offset) => machine::imm(i64::from(*offset)),
            Arg::Table { .. } => machine::c_r(TABLE_BANK, sass::RZ, 0),
            Arg::Name(m) => machine::name(*m),
            Arg::Zero(File::UR) => machine::urz(),
            Arg::Zero(_) => machine::rz(),
            Arg::MinusZero => machine::rz().neg(),
            Arg::True(true) => machine::pt(),
            Arg::True(false) => machine::pf(),
            Arg::Target(_) => machine::relative(0),
        }
    })
}
