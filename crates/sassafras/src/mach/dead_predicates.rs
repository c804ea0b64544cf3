//! Dead results are discarded: the next value in their register need not wait for them. Predicates, and the old values of
//! atomics, which the machine then doesn't send back.
//!
//! ```text
//! ATOMS.ADD R4, [R2], R3            =>   ATOMS.ADD RZ, [R2], R3
//! SHFL.DOWN P0, R4, R2, 0x1, 0x1f   =>   SHFL.DOWN PT, R4, R2, 0x1, 0x1f
//! IADD3 R4, P0, R2, R6, RZ          =>   IADD3 R4, R2, R6, RZ
//! ```
//!
//! A shuffle always says whether the source lane was active: hardly any code uses it, and the predicate comes late. The
//! same holds for the carry of a 64-bit sum of which only the lower half has a use. Afterwards no such result without a
//! use is written where the machine has a form without it. One walk over the function.

use crate::context::target::TargetMachine;
use crate::context::{Context, Fuel, PassResult};
use crate::mach::inst::{MachInst, Origin};
use crate::mach::unit::Unit;
use ori::liveness::ValueSet;
use ori::{File, Function, Value};
use sass::Op;

pub fn run(unit: &mut Unit, context: &mut Context) -> PassResult {
    let (function, code) = (&unit.kernel.code, &mut unit.code);
    let used = used(function);
    for inst in code.blocks.iter_mut().flatten() {
        let Origin::Inst(origin) = inst.origin else { continue };
        let results = &function.insts[origin].results;
        let is_atomic = matches!(inst.op, Op::ATOM | Op::ATOMG | Op::ATOMS);
        let is_dead = |v: &Value| match function.values[*v].file {
            File::P | File::UP => !used.contains(*v),
            File::R => is_atomic && !used.contains(*v),
            _ => false,
        };
        // The second carry of a sum stays the second one.
        let has_two_carries = matches!(inst.op, Op::IADD3 | Op::UIADD3);
        let stays = |at: usize| has_two_carries && results[at + 1..].iter().any(|v| !is_dead(v));
        let dead = results.iter().enumerate().rev().filter(|(at, v)| is_dead(v) && !stays(*at));
        for (at, _) in dead {
            discard(inst, at, context.machine, &mut context.fuel);
        }
    }
    Ok(())
}

/// Removes a result from an instruction, if a form has none.
fn discard(inst: &mut MachInst, at: usize, machine: &TargetMachine, fuel: &mut Fuel) {
    let mut operands = inst.operands.clone();
    match inst.op {
        // Their carry is optional.
        Op::IADD3 | Op::UIADD3 | Op::LEA | Op::ULEA => drop(operands.remove(at)),
        Op::ATOM | Op::ATOMG | Op::ATOMS if operands[at].kind == sass::Kind::R => {
            operands[at] = sass::operands::rz();
        }
        _ => operands[at] = sass::operands::pt(),
    }
    if sass::legal(machine.isa, inst.op, &inst.modifiers, &operands) && fuel.burn() {
        inst.operands = operands;
    }
}

/// The values with a use.
fn used(function: &Function) -> ValueSet {
    let mut used = ValueSet::new(function.values.len());
    for block in function.blocks.keys() {
        let data = &function.blocks[block];
        let inner = data.insts.iter().flat_map(|i| function.insts[*i].uses());
        let all: Vec<Value> = inner.chain(data.end.uses()).collect();
        all.into_iter().for_each(|v| used.insert(v));
    }
    used
}
