//! Functions: blocks of instructions on values.
//!
//! * A value has a register file and a number of words, and is defined once: by an instruction, or as a
//!   parameter of a block (blocks have parameters in place of phis).
//! * A guarded instruction that defines values names the values that it keeps when the guard is false.
//! * A block ends in a terminator; control flow stands nowhere else. Convergence barriers are instructions
//!   (`BSSY`, `BSYNC`) on values of file B.

use crate::entity::{Block, Inst, Map, Value};
use sass::M;
use smallvec::SmallVec;

/// A register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum File {
    R,
    UR,
    P,
    UP,
    B,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueData {
    pub file: File,
    pub words: u8,
}

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Machine(sass::Op),
    Pseudo(Pseudo),
}

/// Operations that only the compiler knows; register allocation turns them into moves or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pseudo {
    /// One result with the words of all arguments, side by side.
    Pack,
    /// A result like the argument.
    Copy,
    /// A result with any bits.
    Undef,
}

/// A value, or one word of it, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub value: Value,
    /// One word of a value of several; `None` for the whole value.
    pub word: Option<u8>,
    /// `-x`, or `!p` for a predicate.
    pub negated: bool,
    /// `|x|`
    pub absolute: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    Use(Use),
    Imm(i64),
    /// `c[bank][offset]` as an operand of arithmetic.
    Const {
        bank: u8,
        offset: u32,
    },
    /// `c[bank][RZ+offset]` as the address of a load from a constant bank.
    Bank {
        bank: u8,
        offset: u32,
    },
    /// A special register or another operand that is a name.
    Name(M),
    /// RZ, URZ
    Zero(File),
    /// PT, or !PT.
    True(bool),
    /// Where a convergence barrier ends.
    Target(Block),
}

impl From<Value> for Arg {
    fn from(value: Value) -> Arg {
        Arg::Use(Use::of(value))
    }
}

impl Use {
    pub fn of(value: Value) -> Use {
        Use { value, word: None, negated: false, absolute: false }
    }
}

impl Arg {
    /// One word of a value.
    pub fn word(value: Value, word: u8) -> Arg {
        Arg::Use(Use { word: Some(word), ..Use::of(value) })
    }

    pub fn not(value: Value) -> Arg {
        Arg::Use(Use { negated: true, ..Use::of(value) })
    }

    /// `-x`; an immediate is negated on the spot.
    pub fn negated(self) -> Arg {
        match self {
            Arg::Use(u) => Arg::Use(Use { negated: !u.negated, ..u }),
            Arg::Imm(n) => Arg::Imm(n.wrapping_neg()),
            other => other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    pub predicate: Value,
    pub negated: bool,
    /// For each result, the value that it has when the guard is false.
    pub kept: SmallVec<[Value; 1]>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct InstData {
    pub op: Op,
    pub modifiers: SmallVec<[M; 4]>,
    pub results: SmallVec<[Value; 2]>,
    pub args: SmallVec<[Arg; 6]>,
    pub guard: Option<Guard>,
    /// Line of the PTX source, 0 where there is none.
    pub line: u32,
}

impl InstData {
    /// The values that are read: arguments, guard, and what the guard keeps.
    pub fn uses(&self) -> impl Iterator<Item = Value> + '_ {
        let args = self.args.iter().filter_map(|a| match a {
            Arg::Use(u) => Some(u.value),
            _ => None,
        });
        let guard =
            self.guard.iter().flat_map(|g| std::iter::once(g.predicate).chain(g.kept.iter().copied()));
        args.chain(guard)
    }
}

/// A way to a block, with the arguments for its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub to: Block,
    pub args: Vec<Value>,
}

impl Edge {
    pub fn to(to: Block) -> Edge {
        Edge { to, args: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Terminator {
    Jump(Edge),
    /// To `yes` where the predicate holds (or doesn't, if negated), else to `no`. `uniform` promises that all
    /// threads of the warp go the same way.
    Branch {
        predicate: Value,
        negated: bool,
        uniform: bool,
        yes: Edge,
        no: Edge,
    },
    Exit,
}

impl Terminator {
    pub fn edges(&self) -> SmallVec<[&Edge; 2]> {
        match self {
            Terminator::Jump(e) => SmallVec::from_slice(&[e]),
            Terminator::Branch { yes, no, .. } => SmallVec::from_slice(&[yes, no]),
            Terminator::Exit => SmallVec::new(),
        }
    }

    pub fn edges_mut(&mut self) -> SmallVec<[&mut Edge; 2]> {
        match self {
            Terminator::Jump(e) => std::iter::once(e).collect(),
            Terminator::Branch { yes, no, .. } => [yes, no].into_iter().collect(),
            Terminator::Exit => SmallVec::new(),
        }
    }

    /// The values that it reads: its predicate and the arguments of its edges.
    pub fn uses(&self) -> impl Iterator<Item = Value> + '_ {
        let predicate = match self {
            Terminator::Branch { predicate, .. } => Some(*predicate),
            _ => None,
        };
        predicate.into_iter().chain(self.edges().into_iter().flat_map(|e| e.args.iter().copied()))
    }
}

#[derive(Clone, Debug)]
pub struct BlockData {
    pub params: Vec<Value>,
    pub insts: Vec<Inst>,
    pub end: Terminator,
}

#[derive(Clone, Debug, Default)]
pub struct Function {
    pub name: String,
    pub values: Map<Value, ValueData>,
    pub insts: Map<Inst, InstData>,
    /// The first block is the entry; it has no predecessors and no parameters.
    pub blocks: Map<Block, BlockData>,
}

impl Function {
    pub const ENTRY: Block = Block(0);

    pub fn new(name: &str) -> Function {
        Function { name: name.to_string(), ..Function::default() }
    }

    pub fn value(&mut self, file: File, words: u8) -> Value {
        self.values.push(ValueData { file, words })
    }

    /// A new block that ends in `EXIT` until it gets another end.
    pub fn block(&mut self) -> Block {
        self.blocks.push(BlockData { params: Vec::new(), insts: Vec::new(), end: Terminator::Exit })
    }

    pub fn append(&mut self, block: Block, data: InstData) -> Inst {
        let inst = self.insts.push(data);
        self.blocks[block].insts.push(inst);
        inst
    }
}
