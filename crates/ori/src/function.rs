//! Functions in SSA form: blocks of instructions on values.
//!
//! * A value has a register file and a number of words, and is defined once: by an instruction, or as a
//!   parameter of a block (block parameters take the role of phis).
//! * A guarded instruction names for each result the value that it has when the guard is false (its else value).
//! * A block ends in a terminator; control flow is nowhere else. Convergence barriers are instructions
//!   (`BSSY`, `BSYNC`) on values of file B.

use crate::entity::{Block, Entity, Inst, Map, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::{M, Suffixes};
use smallvec::SmallVec;

/// A register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum File {
    /// General registers.
    R,
    /// Uniform registers.
    UR,
    /// Predicates.
    P,
    /// Uniform predicates.
    UP,
    /// Convergence barriers.
    B,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueData {
    /// Its register file.
    pub file: File,
    /// Its width.
    pub words: u8,
}

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A machine operation.
    Machine(sass::Op),
    /// A generic operation: what it computes is the same on every target. `expand` replaces it by machine operations.
    Generic(Generic),
    /// An operation of the compiler.
    Pseudo(Pseudo),
}

/// Pure operations that no machine has as one instruction. Modifiers are the type of the operands and the result (`U16`,
/// `S16`, `U32`, `S32`, `U64`, `S64`, `F32`, `F64`), then, for floats, a rounding other than to nearest (`RZ`, `RM`,
/// `RP`) and `FTZ`. Operands of 16 bits are extended to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generic {
    /// The quotient of integers, rounded to zero; all ones if the divisor is zero.
    Div,
    /// The remainder, with the sign of the dividend; all ones if the divisor is zero.
    Rem,
    /// The quotient of floats, correctly rounded.
    FDiv,
    /// The reciprocal of a float, correctly rounded.
    FRcp,
    /// The square root, correctly rounded.
    FSqrt,
    /// The reciprocal square root of an f64, as PTX's `rsqrt.approx.f64`.
    FRsqrt,
}

impl Generic {
    /// All of them.
    pub const ALL: [Generic; 6] = {
        use Generic::*;
        [Div, Rem, FDiv, FRcp, FSqrt, FRsqrt]
    };

    /// Its name in the IR text.
    pub fn name(self) -> &'static str {
        match self {
            Generic::Div => "Div",
            Generic::Rem => "Rem",
            Generic::FDiv => "FDiv",
            Generic::FRcp => "FRcp",
            Generic::FSqrt => "FSqrt",
            Generic::FRsqrt => "FRsqrt",
        }
    }
}

/// Operations of the compiler without a machine form; register allocation turns them into moves or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pseudo {
    /// One result: the concatenated words of all arguments.
    Pack,
    /// Results that are the words of the argument, in order.
    Unpack,
    /// A result like the argument.
    Copy,
    /// A result with any bits.
    Undef,
    /// Results equal to the first arguments, in the same registers, once no wgmma is outstanding on these: the wait
    /// comes before it. Further arguments are operands that the wgmma reads until then.
    Landed,
    /// The parameters of a device function, in the registers of [`Function::fixed`].
    Entry,
    /// A call: the callee (a symbol, or an address in a register pair) and then its parameters; results and
    /// parameters are in the registers of [`Function::fixed`].
    Call,
    /// A call of a library routine of this function: its number in [`Function::routines`], then its parameters; results
    /// and parameters are in the registers of [`Function::fixed`]. The routine has no effect but its results, and
    /// clobbers the registers of [`Fixed::window`] only.
    CallRoutine,
    /// The return values of a device function, in the registers of [`Function::fixed`].
    Leave,
    /// Accesses to memory keep their order with it, and it becomes no instruction. Modifiers are the scope (`WARP`,
    /// `CTA`, `GPU`, `SYS`) and, if it is for one state space only, `S` (shared) or `G` (global).
    MemoryFence,
}

impl Pseudo {
    /// All of them.
    pub const ALL: [Pseudo; 10] = {
        use Pseudo::*;
        [Pack, Unpack, Copy, Undef, Landed, Entry, Call, CallRoutine, Leave, MemoryFence]
    };

    /// Its name in the IR text.
    pub fn name(self) -> &'static str {
        match self {
            Pseudo::Pack => "Pack",
            Pseudo::Unpack => "Unpack",
            Pseudo::Copy => "Copy",
            Pseudo::Undef => "Undef",
            Pseudo::Landed => "Landed",
            Pseudo::Entry => "Entry",
            Pseudo::Call => "Call",
            Pseudo::CallRoutine => "CallRoutine",
            Pseudo::Leave => "Leave",
            Pseudo::MemoryFence => "MemoryFence",
        }
    }
}

/// Some consecutive words of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The first word.
    pub first: u8,
    /// How many words.
    pub count: u8,
}

/// A value, or some words of it, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Use {
    /// `-x`, or `!p` for a predicate.
    pub negated: bool,
    /// `|x|`
    pub absolute: bool,
    /// `~x`
    pub inverted: bool,
    /// The value.
    pub value: Value,
    /// The suffixes of the register in the machine's text, in order: `.H1_H1`, `.negA.tnspB`.
    pub suffixes: Suffixes,
    /// `None` for the whole value.
    pub part: Option<Part>,
}

/// Which half of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// The low word.
    Low,
    /// The high word.
    High,
}

/// An argument of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arg {
    /// A value.
    Use(Use),
    /// An immediate.
    Imm(i64),
    /// `c[bank][offset]` as an operand of arithmetic.
    #[allow(missing_docs)]
    Const { bank: u8, offset: u32 },
    /// `c[bank][index+offset]` as the address of a load from a constant bank.
    #[allow(missing_docs)]
    Bank { bank: u8, index: Option<Value>, offset: i32 },
    /// Half of the address of [`Function::symbols`]`[symbol]` plus an addend: the loader fills it in.
    #[allow(missing_docs)]
    Address { symbol: u32, addend: i64, half: Half },
    /// The word of constant bank 0 that the linker gives to [`Function::symbols`]`[symbol]`, a texture, sampler or
    /// surface: as the address of a load, or as a handle.
    #[allow(missing_docs)]
    Slot { symbol: u32 },
    /// A special register or another operand that is a name.
    Name(M),
    /// RZ, URZ
    Zero(File),
    /// -RZ, the float -0.0: what can be added to any float without changing it.
    MinusZero,
    /// PT, or !PT.
    True(bool),
    /// Where the frame begins: [`Function::frame_register`].
    Stack,
    /// A register that no value has anywhere in the function.
    #[allow(missing_docs)]
    Fixed { file: File, number: u8 },
    /// The stack pointer itself, in a function that moves it. Instructions that name it are not moved.
    StackTop,
    /// An offset from the stack pointer that the function's caller had.
    Incoming(u32),
    /// The block in which a convergence barrier is waited for.
    Target(Block),
}

impl From<Value> for Arg {
    fn from(value: Value) -> Arg {
        Arg::Use(Use::of(value))
    }
}

impl Use {
    /// The whole value, without modifiers.
    pub fn of(value: Value) -> Use {
        Use { value, part: None, negated: false, absolute: false, inverted: false, suffixes: Suffixes::NONE }
    }

    /// The bits are read unmodified.
    pub fn is_plain(&self) -> bool {
        !self.negated && !self.absolute && !self.inverted && self.suffixes.is_empty()
    }
}

impl Arg {
    /// One word of a value.
    pub fn word(value: Value, word: u8) -> Arg {
        Arg::part(value, word, 1)
    }

    /// Some words of a value.
    pub fn part(value: Value, first: u8, count: u8) -> Arg {
        Arg::Use(Use { part: Some(Part { first, count }), ..Use::of(value) })
    }

    /// `!p` or `-x`.
    pub fn not(value: Value) -> Arg {
        Arg::Use(Use { negated: true, ..Use::of(value) })
    }

    /// `-x`, `!p`; an immediate becomes its negative as an integer.
    pub fn negated(self) -> Arg {
        match self {
            Arg::Use(u) => Arg::Use(Use { negated: !u.negated, ..u }),
            Arg::Imm(n) => Arg::Imm(n.wrapping_neg()),
            Arg::True(sense) => Arg::True(!sense),
            other => other,
        }
    }

    /// `~x`; an immediate becomes its complement.
    pub fn inverted(self) -> Arg {
        match self {
            Arg::Use(u) => Arg::Use(Use { inverted: !u.inverted, ..u }),
            Arg::Imm(n) => Arg::Imm(!n),
            other => other,
        }
    }

    /// `|x|` of a register.
    pub fn absolute(self) -> Arg {
        match self {
            Arg::Use(u) => Arg::Use(Use { absolute: true, negated: false, ..u }),
            other => other,
        }
    }

    /// `x.SUFFIX` of a register, after the suffixes that it has.
    pub fn suffixed(self, suffix: M) -> Arg {
        let Arg::Use(mut u) = self else { return self };
        u.suffixes = u.suffixes.with(suffix);
        Arg::Use(u)
    }

    /// The value that it reads.
    #[inline]
    pub fn value(&self) -> Option<Value> {
        match self {
            Arg::Use(u) => Some(u.value),
            Arg::Bank { index, .. } => *index,
            _ => None,
        }
    }
}

/// The predicate of an instruction, `@p` or `@!p`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The predicate.
    pub predicate: Value,
    /// Is it negated?
    pub negated: bool,
    /// The else values: for each result, its value when the guard is false.
    pub else_values: SmallVec<[Value; 1]>,
}

/// An instruction.
#[derive(Debug, PartialEq)]
pub struct InstData {
    /// Its operation.
    pub op: Op,
    /// Its modifiers, in the order of the machine's text.
    pub modifiers: SmallVec<[M; 4]>,
    /// The values that it defines.
    pub results: SmallVec<[Value; 2]>,
    /// Its arguments, in the order of the machine's text.
    pub args: SmallVec<[Arg; 6]>,
    /// Its guard.
    pub guard: Option<Guard>,
    /// Offset in the PTX text of the instruction that this was lowered from, 0 where there is none.
    pub at: u32,
}

/// A copy of a short vector: of one element it costs less than the call that copies memory.
fn copied<A: smallvec::Array<Item: Copy>>(elements: &SmallVec<A>) -> SmallVec<A> {
    match elements[..] {
        [] => SmallVec::new(),
        [only] => {
            let mut copy = SmallVec::new();
            copy.push(only);
            copy
        }
        _ => SmallVec::from_slice(elements),
    }
}

/// By slices: the vectors would clone one element after the other.
impl Clone for InstData {
    #[inline]
    fn clone(&self) -> InstData {
        InstData {
            op: self.op,
            modifiers: copied(&self.modifiers),
            results: copied(&self.results),
            args: copied(&self.args),
            guard: self.guard.as_ref().map(|guard| Guard {
                predicate: guard.predicate,
                negated: guard.negated,
                else_values: copied(&guard.else_values),
            }),
            at: self.at,
        }
    }
}

impl InstData {
    /// An operation without guard, modifiers and PTX offset.
    pub fn new(op: Op, results: &[Value], args: &[Arg]) -> InstData {
        let modifiers = SmallVec::new();
        InstData {
            op,
            modifiers,
            results: SmallVec::from_slice(results),
            args: SmallVec::from_slice(args),
            guard: None,
            at: 0,
        }
    }

    /// An MMA that a warpgroup starts and does not wait for.
    pub fn is_wgmma(&self) -> bool {
        matches!(self.op, Op::Machine(op) if op.is_wgmma())
    }

    /// The values that are read: arguments, guard, and else values.
    pub fn uses(&self) -> impl Iterator<Item = Value> + '_ {
        let guard = self.guard.as_ref();
        Uses {
            args: self.args.iter(),
            predicate: guard.map(|g| g.predicate),
            else_values: guard.map_or(&[][..], |g| &g.else_values).iter(),
        }
    }

    /// The values that are read, with a bit for each word: the first 32 of them.
    pub fn words_read(&self) -> impl Iterator<Item = (Value, u32)> + '_ {
        let run = |p: Part| (((1u64 << p.count.min(32)) - 1) << p.first.min(32)) as u32;
        let args = self.args.iter().filter_map(move |arg| match arg {
            Arg::Use(u) => Some((u.value, u.part.map_or(u32::MAX, run))),
            _ => arg.value().map(|value| (value, u32::MAX)),
        });
        let guard = self.guard.iter();
        let guard = guard.flat_map(|g| std::iter::once(g.predicate).chain(g.else_values.iter().copied()));
        args.chain(guard.map(|value| (value, u32::MAX)))
    }

    /// Renames the values that are read.
    pub fn map_uses(&mut self, mut to: impl FnMut(Value) -> Value) {
        for arg in &mut self.args {
            match arg {
                Arg::Use(Use { value, .. }) | Arg::Bank { index: Some(value), .. } => *value = to(*value),
                _ => {}
            }
        }
        if let Some(guard) = &mut self.guard {
            guard.predicate = to(guard.predicate);
            guard.else_values.iter_mut().for_each(|k| *k = to(*k));
        }
    }
}

/// The values that an instruction reads. By hand: every analysis asks for them, and a chain of the library's iterators
/// takes twice as long.
struct Uses<'a> {
    args: std::slice::Iter<'a, Arg>,
    predicate: Option<Value>,
    else_values: std::slice::Iter<'a, Value>,
}

impl Iterator for Uses<'_> {
    type Item = Value;

    #[inline]
    fn next(&mut self) -> Option<Value> {
        for arg in self.args.by_ref() {
            if let Some(value) = arg.value() {
                return Some(value);
            }
        }
        self.predicate.take().or_else(|| self.else_values.next().copied())
    }

    #[inline]
    fn fold<B, F: FnMut(B, Value) -> B>(self, init: B, mut f: F) -> B {
        let all = self.args.filter_map(Arg::value).fold(init, &mut f);
        let all = self.predicate.into_iter().fold(all, &mut f);
        self.else_values.copied().fold(all, f)
    }
}

/// An edge to a block, with the arguments for its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The target.
    pub to: Block,
    /// The arguments for its parameters.
    pub args: Vec<Value>,
}

impl Edge {
    /// An edge without arguments.
    pub fn to(to: Block) -> Edge {
        Edge { to, args: Vec::new() }
    }
}

/// The end of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum Terminator {
    /// An unconditional branch.
    Jump(Edge),
    /// To `yes` where the predicate holds (or doesn't, if negated), else to `no`. `uniform` promises that all
    /// threads of the warp take the same edge.
    #[allow(missing_docs)]
    Branch { predicate: Value, negated: bool, uniform: bool, yes: Edge, no: Edge },
    /// To one of several edges.
    Switch(Box<Switch>),
    /// The end of the thread.
    Exit,
    /// Back to the caller of a device function.
    Return,
}

/// A branch by number.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// A word: which entry of the table is taken. The behaviour is undefined where there is none. Once the table has a
    /// place, a pair: the entry that was loaded from there.
    pub index: Value,
    /// Do all threads of the warp take the same edge?
    pub uniform: bool,
    /// Numbers of edges.
    pub table: Vec<u32>,
    /// The edges.
    pub edges: Vec<Edge>,
    /// The first byte of the table in constant bank 2, where it has the offsets of the edges' blocks in the code.
    pub place: Option<u32>,
}

impl Switch {
    /// A switch over a word, with the edge for each index. Equal edges are one.
    pub fn new(index: Value, targets: impl IntoIterator<Item = Edge>) -> Switch {
        let mut switch = Switch { index, uniform: false, table: Vec::new(), edges: Vec::new(), place: None };
        let mut numbers: FxHashMap<(Block, Vec<Value>), u32> = FxHashMap::default();
        for edge in targets {
            let number = *numbers.entry((edge.to, edge.args.clone())).or_insert(switch.edges.len() as u32);
            switch.table.push(number);
            if number as usize == switch.edges.len() {
                switch.edges.push(edge);
            }
        }
        switch
    }

    /// The edge for an index; any one is right where the table has no such entry.
    pub fn taken(&self, index: u32) -> Option<&Edge> {
        let entry = self.table.get(index as usize).or(self.table.last())?;
        self.edges.get(*entry as usize)
    }
}

impl Terminator {
    /// The value that decides which edge is taken.
    pub fn decider(&self) -> Option<Value> {
        match self {
            Terminator::Branch { predicate, .. } => Some(*predicate),
            Terminator::Switch(switch) => Some(switch.index),
            Terminator::Jump(_) | Terminator::Exit | Terminator::Return => None,
        }
    }

    /// The same, mutable.
    pub fn decider_mut(&mut self) -> Option<&mut Value> {
        match self {
            Terminator::Branch { predicate, .. } => Some(predicate),
            Terminator::Switch(switch) => Some(&mut switch.index),
            Terminator::Jump(_) | Terminator::Exit | Terminator::Return => None,
        }
    }

    /// The same, if the source has not promised that all threads of the warp take the same edge.
    pub fn may_diverge_on(&self) -> Option<Value> {
        match self {
            Terminator::Branch { uniform: true, .. } => None,
            Terminator::Switch(switch) if switch.uniform => None,
            _ => self.decider(),
        }
    }

    /// Its edges, `yes` first.
    pub fn edges(&self) -> SmallVec<[&Edge; 2]> {
        match self {
            Terminator::Jump(e) => SmallVec::from_slice(&[e]),
            Terminator::Branch { yes, no, .. } => SmallVec::from_slice(&[yes, no]),
            Terminator::Switch(switch) => switch.edges.iter().collect(),
            Terminator::Exit | Terminator::Return => SmallVec::new(),
        }
    }

    /// The same, mutable.
    pub fn edges_mut(&mut self) -> SmallVec<[&mut Edge; 2]> {
        match self {
            Terminator::Jump(e) => std::iter::once(e).collect(),
            Terminator::Branch { yes, no, .. } => [yes, no].into_iter().collect(),
            Terminator::Switch(switch) => switch.edges.iter_mut().collect(),
            Terminator::Exit | Terminator::Return => SmallVec::new(),
        }
    }

    /// The values that it reads: what decides, and the arguments of its edges.
    pub fn uses(&self) -> impl Iterator<Item = Value> + '_ {
        self.decider().into_iter().chain(self.edges().into_iter().flat_map(|e| e.args.iter().copied()))
    }

    /// Renames the values that are read.
    pub fn map_uses(&mut self, mut to: impl FnMut(Value) -> Value) {
        if let Some(decider) = self.decider_mut() {
            *decider = to(*decider);
        }
        for edge in self.edges_mut() {
            edge.args.iter_mut().for_each(|a| *a = to(*a));
        }
    }
}

/// A basic block.
#[derive(Clone, Debug)]
pub struct BlockData {
    /// Its parameters.
    pub params: Vec<Value>,
    /// Its instructions, in order.
    pub insts: Vec<Inst>,
    /// Its terminator.
    pub end: Terminator,
    /// Offset in the PTX text of the instruction that ends the block, 0 where there is none.
    pub end_at: u32,
    /// Rarely executed: a slow path. Layout puts it after the code that is not.
    pub cold: bool,
}

/// A function in SSA form with block parameters.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The types of all values.
    pub values: Map<Value, ValueData>,
    /// All instructions.
    pub insts: Map<Inst, InstData>,
    /// The first block is the entry; it has no predecessors and no parameters.
    pub blocks: Map<Block, BlockData>,
    /// The names that [`Arg::Address`], [`Arg::Slot`] and calls refer to.
    pub symbols: Vec<String>,
    /// The library routines that [`Pseudo::CallRoutine`] refers to; their code follows that of the function.
    pub routines: Vec<String>,
    /// The registers of the results and arguments of [`Pseudo::Entry`], [`Pseudo::Call`], [`Pseudo::CallRoutine`] and
    /// [`Pseudo::Leave`].
    pub fixed: FxHashMap<Inst, Fixed>,
    /// Results of strong loads and atomics: other threads may change the memory while a loop spins on it.
    pub awaited: Vec<Value>,
    /// Results of float products and sums without a rounding modifier: such a product may be contracted with such a sum
    /// to one operation that rounds once.
    pub contractable: FxHashSet<Value>,
    /// Headers of loops that are not to be unrolled.
    pub rolled: Vec<Block>,
    /// Reserved registers, allocated to no value: code elsewhere in the program writes them for threads that are here.
    pub withheld: Vec<(File, u8)>,
    /// Words of constant bank 0 that uniform registers hold from the prologue on: offset and register, by offset. An
    /// [`Arg::Const`] of such a word is emitted as the register.
    pub uniform_constants: Vec<(u32, u8)>,
    /// Blocks that threads of a warp may run while others of it are elsewhere, by number: the uniform registers of values
    /// that are defined there are not those of others.
    pub apart: Vec<Block>,
    /// Bytes of the stack frame that variables take, from the stack pointer on.
    pub frame: u32,
    /// Does the stack pointer move while the function runs (`alloca`)?
    pub moving_stack: bool,
}

/// The registers that the calling convention gives to results and arguments, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// The registers of the results.
    pub results: Vec<u8>,
    /// The registers of the arguments.
    pub args: Vec<u8>,
    /// The number of parameter registers, if not the default of the ABI.
    pub words: Option<u8>,
    /// The number of callee-saved registers, if not the default of the ABI.
    pub preserved: Option<u8>,
    /// The number of clobbered convergence barriers, if not the default of the ABI.
    pub barriers: Option<u8>,
    /// Of a library routine: the first of the general registers that it clobbers, and how many there are.
    pub window: Option<(u8, u8)>,
    /// The callee writes no general register from this one on, whatever the ABI lets it clobber.
    pub untouched: Option<u8>,
    /// The callee writes no predicate from this one on.
    pub untouched_predicates: Option<u8>,
    /// The callee saves no general register for its caller.
    pub preserves_none: bool,
}

impl Function {
    /// The entry block.
    pub const ENTRY: Block = Block(0);
    /// R1.
    pub const STACK_POINTER: u8 = 1;
    /// The register that ptxas uses in functions with `alloca`; it is callee-saved.
    pub const FRAME_POINTER: u8 = 2;

    /// The uniform register that holds a word of constant bank 0.
    pub fn uniform_constant(&self, bank: u8, offset: u32) -> Option<u8> {
        let words = &self.uniform_constants;
        let at = words.binary_search_by_key(&offset, |(offset, _)| *offset).ok().filter(|_| bank == 0)?;
        Some(words[at].1)
    }

    /// The register that the frame is reached from.
    pub fn frame_register(&self) -> u8 {
        if self.moving_stack { Function::FRAME_POINTER } else { Function::STACK_POINTER }
    }

    /// An empty function.
    pub fn new(name: &str) -> Function {
        Function { name: name.to_string(), ..Function::default() }
    }

    /// A new value.
    pub fn value(&mut self, file: File, words: u8) -> Value {
        self.values.push(ValueData { file, words })
    }

    /// A new block, with `EXIT` as terminator until it gets another.
    pub fn block(&mut self) -> Block {
        self.blocks.push(BlockData {
            params: Vec::new(),
            insts: Vec::new(),
            end: Terminator::Exit,
            end_at: 0,
            cold: false,
        })
    }

    /// The number of a symbol.
    pub fn symbol(&mut self, name: &str) -> u32 {
        let at = self.symbols.iter().position(|s| s == name).unwrap_or_else(|| {
            self.symbols.push(name.to_string());
            self.symbols.len() - 1
        });
        at as u32
    }

    /// The argument that is tied to an instruction's result: wgmma adds to its accumulator in place. The accumulator
    /// comes after the descriptor.
    pub fn tied(&self, inst: &InstData) -> Option<Value> {
        if !inst.is_wgmma() {
            return None;
        }
        let file = |arg: &Arg| arg.value().map(|v| self.values[v].file);
        let descriptor = inst.args.iter().position(|a| file(a) == Some(File::UR))?;
        inst.args.get(descriptor + 1).filter(|a| file(a) == Some(File::R)).and_then(Arg::value)
    }

    /// The instruction that defines each value, and its block; `None` for block parameters.
    pub fn definitions(&self) -> Vec<Option<(Block, Inst)>> {
        let mut all = vec![None; self.values.len()];
        for block in self.blocks.keys() {
            for &inst in &self.blocks[block].insts {
                self.insts[inst].results.iter().for_each(|v| all[v.index()] = Some((block, inst)));
            }
        }
        all
    }

    /// The number of uses of each value in some blocks, by instructions and terminators.
    pub fn use_counts(&self, blocks: impl Iterator<Item = Block>) -> Vec<u32> {
        let mut counts = vec![0; self.values.len()];
        for block in blocks {
            let data = &self.blocks[block];
            for inst in &data.insts {
                self.insts[*inst].uses().for_each(|v| counts[v.index()] += 1);
            }
            data.end.uses().for_each(|v| counts[v.index()] += 1);
        }
        counts
    }

    /// Renames the values that the instructions and the terminator of a block read.
    pub fn map_uses_in(&mut self, block: Block, mut to: impl FnMut(Value) -> Value) {
        let data = &mut self.blocks[block];
        data.insts.iter().for_each(|i| self.insts[*i].map_uses(&mut to));
        data.end.map_uses(to);
    }

    /// Every use of `old` reads `new` instead.
    pub fn replace_all_uses(&mut self, old: Value, new: Value) {
        for block in self.blocks.keys() {
            self.map_uses_in(block, |v| if v == old { new } else { v });
        }
    }

    /// Appends an instruction to a block.
    pub fn append(&mut self, block: Block, data: InstData) -> Inst {
        let inst = self.insts.push(data);
        self.blocks[block].insts.push(inst);
        inst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions are most of the compiler's memory, and arguments most of an instruction.
    #[test]
    fn an_argument_has_16_bytes() {
        assert_eq!((size_of::<Use>(), size_of::<Arg>()), (14, 16));
        assert!(size_of::<InstData>() <= 192, "{}", size_of::<InstData>());
    }

    #[test]
    fn a_switch_reads_back() {
        let text = "function f {\nb0:\n    v0:R = MOV 0x1\n    switch v0, [0 1 0 1], b1(v0), b2\nb1(v1:R):\n    \
                    v2:R2 = Pack v1, v1\n    switch.uniform v2 at 0x10, [0 0], b2\nb2:\n    exit\n}\n";
        let mut functions = crate::parse::parse(text).expect("a function");
        assert_eq!(functions[0].to_string(), text);
        assert_eq!(crate::verify::verify(&functions[0]), Ok(()));
        let Terminator::Switch(switch) = &mut functions[0].blocks[Block(0)].end else { panic!("a switch") };
        assert_eq!(switch.taken(3).map(|edge| edge.to), Some(Block(2)));
        switch.table.push(2);
        assert!(crate::verify::verify(&functions[0]).is_err());
    }

    #[test]
    fn equal_edges_of_a_switch_are_one() {
        let edge = |to: u32, arg: u32| Edge { to: Block(to), args: vec![Value(arg)] };
        let switch = Switch::new(Value(0), [edge(1, 1), edge(2, 1), edge(1, 1), edge(1, 2)]);
        assert_eq!((&switch.table[..], switch.edges.len()), (&[0, 1, 0, 2][..], 3));
    }

    #[test]
    fn all_uses_are_replaced() {
        let text = |v: u32| {
            format!(
                "function f {{\nb0:\n    v0:R = MOV 0x1\n    v1:R = MOV 0x2\n    v2:P = ISETP.LT.AND PT, v{v}, v1, PT\n    \
                 @v2[v{v}] v3:R = LDC load c[0x3][v{v}+0x8]\n    branch v2, b1(v{v}), b2\nb1(v4:R):\n    \
                 STS RZ, 0x0, v{v}\n    exit\nb2:\n    exit\n}}\n"
            )
        };
        let mut functions = crate::parse::parse(&text(0)).expect("a function");
        functions[0].replace_all_uses(Value(0), Value(1));
        assert_eq!(functions[0].to_string(), text(1));
    }
}
