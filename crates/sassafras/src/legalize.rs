//! Legalization: every machine operation has a form on the target for the kinds of its operands.
//!
//! The machine is asked (`sass::legal`); a constant that may not stand where it stands moves to a register.

use crate::bank0::Machine;
use ori::{Arg, File, Function, InstData, Op, Value};
use sass::operands as machine;
use smallvec::smallvec;

pub fn run(function: &mut Function, target: &'static Machine) -> Result<(), String> {
    for block in function.blocks.keys() {
        let mut legal = Vec::new();
        for inst in std::mem::take(&mut function.blocks[block].insts) {
            let mut data = function.insts[inst].clone();
            while !is_legal(function, target, &data) {
                let at = data.args.iter().rposition(|a| matches!(a, Arg::Imm(_) | Arg::Const { .. }));
                let Some(at) = at else {
                    return Err(format!("no form of {:?} takes these operands", data.op));
                };
                let value = function.value(File::R, 1);
                let constant = std::mem::replace(&mut data.args[at], value.into());
                legal.push(function.insts.push(InstData {
                    op: Op::Machine(sass::Op::MOV),
                    modifiers: smallvec![],
                    results: smallvec![value],
                    args: smallvec![constant],
                    guard: None,
                    line: data.line,
                }));
            }
            function.insts[inst] = data;
            legal.push(inst);
        }
        function.blocks[block].insts = legal;
    }
    Ok(())
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
            Arg::Name(m) => machine::name(*m),
            Arg::Zero(File::UR) => machine::urz(),
            Arg::Zero(_) => machine::rz(),
            Arg::True(true) => machine::pt(),
            Arg::True(false) => machine::pf(),
            Arg::Target(_) => machine::relative(0),
        }
    })
}
