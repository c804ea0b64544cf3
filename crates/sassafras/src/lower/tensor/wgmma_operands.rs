//! The registers that `wgmma.mma_async` of a PTX body access.

use ptx::ast::{Body, Inst, Module, Operand, Reg, Stmt};

/// The registers that the asynchronous MMAs of a body read: a wait for them uses them, too.
pub fn sources(module: &Module, body: &Body) -> Vec<Reg> {
    let inst = |s: &Stmt| if let Stmt::Inst(inst) = s { Some(*inst) } else { None };
    let insts = body.stmts.iter().filter_map(inst);
    let mmas = insts.filter(|i| module.opcodes[i.opcode.0 as usize].mnemonic == "wgmma.mma_async");
    mmas.flat_map(|i| operands(body, &i).1).collect()
}

/// The registers of an accumulator, and those of A where that isn't in memory.
pub fn operands(body: &Body, inst: &Inst) -> (Vec<Reg>, Vec<Reg>) {
    let operands = body.list(inst.operands);
    let of = |i: usize| operands.get(i).map_or_else(Vec::new, |o| elements(body, o));
    (of(0), of(1))
}

/// The registers of a vector.
pub fn elements(body: &Body, vector: &Operand) -> Vec<Reg> {
    let elements = if let Operand::Vector(range) = vector { body.list(*range) } else { &[] };
    elements.iter().filter_map(|e| if let Operand::Reg(reg) = e { Some(*reg) } else { None }).collect()
}
