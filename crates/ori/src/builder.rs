//! A cursor that builds instructions at a position of a block.
//!
//! New instructions go before the position, in the order in which they are built, and carry the PTX offset of
//! [`Cursor::at`]. Building at the end of a block is constant time, elsewhere linear in what follows.

use crate::entity::{Block, Inst, Value};
use crate::function::{Arg, File, Function, InstData, Op, Pseudo};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::M;
use smallvec::SmallVec;

/// An insertion point in a block.
pub struct Cursor<'a> {
    /// The function that it edits.
    pub function: &'a mut Function,
    block: Block,
    /// Instructions of the block before the cursor.
    position: usize,
    /// The PTX offset of new instructions, 0 for none.
    at: u32,
}

impl<'a> Cursor<'a> {
    /// Before the first instruction.
    pub fn at_start(function: &'a mut Function, block: Block) -> Cursor<'a> {
        Cursor { function, block, position: 0, at: 0 }
    }

    /// Before the terminator.
    pub fn at_end(function: &'a mut Function, block: Block) -> Cursor<'a> {
        let position = function.blocks[block].insts.len();
        Cursor { function, block, position, at: 0 }
    }

    /// New instructions are for the PTX instruction at this offset.
    pub fn at(mut self, offset: u32) -> Cursor<'a> {
        self.at = offset;
        self
    }

    /// Inserts an instruction before the cursor.
    pub fn insert(&mut self, data: InstData) -> Inst {
        let inst = self.function.insts.push(data);
        self.function.blocks[self.block].insts.insert(self.position, inst);
        self.position += 1;
        inst
    }

    /// An instruction without a guard that defines one new value.
    pub fn build(&mut self, op: Op, modifiers: &[M], (file, words): (File, u8), args: &[Arg]) -> Value {
        let value = self.function.value(file, words);
        let data = InstData { modifiers: modifiers.into(), at: self.at, ..InstData::new(op, &[value], args) };
        self.insert(data);
        value
    }

    /// A machine instruction that defines one word.
    pub fn word(&mut self, op: sass::Op, modifiers: &[M], file: File, args: &[Arg]) -> Value {
        self.build(Op::Machine(op), modifiers, (file, 1), args)
    }

    /// A value with any bits.
    pub fn undef(&mut self, file: File, words: u8) -> Value {
        self.build(Op::Pseudo(Pseudo::Undef), &[], (file, words), &[])
    }
}

impl Function {
    /// Inserts instructions into a block, each before its first use there; the order of the others stays.
    pub fn insert_before_uses(&mut self, block: Block, insts: Vec<Inst>) {
        let mut definitions: FxHashMap<Value, Inst> = FxHashMap::default();
        for inst in &insts {
            definitions.extend(self.insts[*inst].results.iter().map(|v| (*v, *inst)));
        }
        let old = std::mem::take(&mut self.blocks[block].insts);
        let mut order =
            Topological { function: self, definitions, done: FxHashSet::default(), out: Vec::new() };
        old.into_iter().for_each(|inst| order.add(inst));
        insts.into_iter().for_each(|inst| order.add(inst));
        self.blocks[block].insts = order.out;
    }
}

/// A topological order of the instructions of a block.
struct Topological<'a> {
    function: &'a Function,
    definitions: FxHashMap<Value, Inst>,
    done: FxHashSet<Inst>,
    out: Vec<Inst>,
}

impl Topological<'_> {
    /// Appends an instruction after the definitions of its operands.
    fn add(&mut self, inst: Inst) {
        if self.done.insert(inst) {
            let operands: SmallVec<[Inst; 4]> =
                self.function.insts[inst].uses().filter_map(|v| self.definitions.get(&v).copied()).collect();
            operands.into_iter().for_each(|operand| self.add(operand));
            self.out.push(inst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_built_in_order() {
        let text = "function f {\nb0:\n    v0:R = MOV 0x1\n    v1:R = MOV 0x2\n    exit\n}\n";
        let mut functions = crate::parse::parse(text).expect("a function");
        let function = &mut functions[0];
        let mut cursor = Cursor::at_start(function, Block(0)).at(7);
        let zero = cursor.word(sass::Op::MOV, &[], File::R, &[Arg::Imm(0)]);
        cursor.word(sass::Op::IADD3, &[M::X], File::R, &[zero.into(), zero.into()]);
        let mut cursor = Cursor::at_end(function, Block(0));
        cursor.undef(File::UR, 2);
        let expected = "function f {\nb0:\n    v2:R = MOV 0x0 !7\n    v3:R = IADD3.X v2, v2 !7\n    \
                        v0:R = MOV 0x1\n    v1:R = MOV 0x2\n    v4:UR2 = Undef\n    exit\n}\n";
        assert_eq!(function.to_string(), expected);
    }
}
