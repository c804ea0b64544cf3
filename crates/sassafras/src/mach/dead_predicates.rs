//! Predicates that nobody reads are not written: whoever has the register next need not wait for them.
//!
//! A shuffle always tells whether the other thread was there, and hardly anyone asks. Its answer comes late. So it is
//! with the carry of sums of 64 bits, of which only the lower half was wanted.

use crate::context::Fuel;
use crate::context::target::Machine;
use crate::mach::inst::{MachFunction, MachInst, Origin};
use ori::liveness::ValueSet;
use ori::{File, Function, Value};
use sass::Op;

pub fn run(function: &Function, code: &mut MachFunction, machine: &Machine, fuel: &mut Fuel) {
    let read = read(function);
    for line in code.blocks.iter_mut().flatten() {
        let Origin::Inst(inst) = line.origin else { continue };
        let results = &function.insts[inst].results;
        let unread = |v: &Value| matches!(function.values[*v].file, File::P | File::UP) && !read.contains(*v);
        for (at, _) in results.iter().enumerate().rev().filter(|(_, v)| unread(v)) {
            discard(line, at, machine, fuel);
        }
    }
}

/// Takes a result from an instruction, if it can do without.
fn discard(line: &mut MachInst, at: usize, machine: &Machine, fuel: &mut Fuel) {
    let mut operands = line.operands.clone();
    match line.op {
        // Their carry is an operand that may be missing.
        Op::IADD3 | Op::UIADD3 | Op::LEA | Op::ULEA => drop(operands.remove(at)),
        _ => operands[at] = sass::operands::pt(),
    }
    if sass::legal(machine.isa, line.op, &line.modifiers, &operands) && fuel.burn() {
        line.operands = operands;
    }
}

/// The values that anything uses.
fn read(function: &Function) -> ValueSet {
    let mut read = ValueSet::new(function.values.len());
    for block in function.blocks.keys() {
        let data = &function.blocks[block];
        let inner = data.insts.iter().flat_map(|i| function.insts[*i].uses());
        let all: Vec<Value> = inner.chain(data.end.uses()).collect();
        all.into_iter().for_each(|v| read.insert(v));
    }
    read
}
