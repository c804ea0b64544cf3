//! What the threads of a warp keep on the stack: the words that may differ between them, and the registers that hold
//! the same as a word.
//!
//! A register allocator may spill a value ahead of a branch, use its register for something else on one side, and
//! reload it there. Where the sides join, the register was written on one of them, and still holds the same in every
//! thread. [`Spills`] proves that: on all paths to the join, the register was stored to the word or loaded from it, and
//! neither was written since. So each thread has its own copy of the word, and if the words are equal, so are the
//! registers.
//!
//! ```text
//!    STL [R1+8], R4            R4 = [R1+8]
//!    @P0 BRA join
//!    IABS R4, R11              R4 is something else
//!    LDL R4, [R1+8]            R4 = [R1+8]
//! join:                        R4 = [R1+8], whichever edge a thread took
//! ```

use super::flow::Flow;
use super::parting::Graph;
use super::set::Registers;
use sass::model::Touch;
use sass::{Guard, Inst, Kind, M, Op, RZ, Role};
use std::collections::BTreeSet;
use std::ops::Range;

/// R1.
const STACK_POINTER: i64 = 1;

/// The words of the stack in which threads have kept something that differs, whenever that was.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Stack {
    words: BTreeSet<i64>,
    /// Something was stored at an address that is not known.
    all: bool,
}

impl Stack {
    pub fn differs(&self, inst: &Inst) -> bool {
        Access::of(inst).is_none_or(|mut access| access.words.any(|word| self.has(word)))
    }

    pub fn add(&mut self, inst: &Inst) {
        match Access::of(inst) {
            Some(access) => self.words.extend(access.words),
            None => self.all = true,
        }
    }

    fn has(&self, word: i64) -> bool {
        self.all || self.words.contains(&word)
    }
}

/// An LDL or STL whose base is the stack pointer.
struct Access {
    words: Range<i64>,
    /// The first of the registers.
    register: i64,
}

impl Access {
    fn of(inst: &Inst) -> Option<Access> {
        let (_, base) = inst.operands().find(|(slot, operand)| slot.opens && operand.kind == Kind::R)?;
        let offset = inst.operands().find(|(_, o)| o.kind == Kind::Signed).map_or(0, |(_, o)| o.value);
        let other = inst.operands().any(|(_, o)| o.kind == Kind::U && o.value != i64::from(RZ));
        let is_data = |slot: &sass::Slot| !slot.opens && slot.kind == Kind::R;
        let data = inst.operands().position(|(slot, _)| is_data(slot))?;
        let (_, register) = inst.operands().nth(data)?;
        let first = offset.div_euclid(4);
        let words = first..first + i64::from(inst.words(data));
        (base.value == STACK_POINTER && !other).then_some(Access { words, register: register.value })
    }
}

/// A register, and a word of the stack that holds the same.
type Copy = (usize, i64);

/// By node: the registers that are copies of words at its start, whatever path a thread took.
pub struct Spills {
    copies: Vec<BTreeSet<Copy>>,
}

impl Spills {
    pub fn new(insts: &[Inst], touches: &[Vec<Touch>], flow: &Flow, graph: &Graph) -> Spills {
        let mut starts: Vec<Option<BTreeSet<Copy>>> = vec![None; graph.nodes.len()];
        let reloads = insts.iter().any(|inst| inst.op() == Op::LDL);
        let mut open: BTreeSet<usize> = graph.entries.iter().copied().filter(|_| reloads).collect();
        open.iter().for_each(|entry| starts[*entry] = Some(BTreeSet::new()));
        while let Some(node) = open.pop_first() {
            let Some(mut copies) = starts[node].clone() else { continue };
            let block = graph.block(node);
            flow.block(block).for_each(|index| step(&insts[index], &touches[index], &mut copies));
            if !flow.keeps(block) {
                copies.clear();
            }
            for &next in &graph.to[node] {
                let merged = match &starts[next] {
                    Some(known) => known & &copies,
                    None => copies.clone(),
                };
                if starts[next].as_ref() != Some(&merged) {
                    starts[next] = Some(merged);
                    open.insert(next);
                }
            }
        }
        Spills { copies: starts.into_iter().map(Option::unwrap_or_default).collect() }
    }

    /// The registers that are the same in all threads at the start of a node, since each is a copy of a word that is.
    pub fn equal(&self, node: usize, stack: &Stack) -> Registers {
        let copies = self.copies[node].iter().filter(|(_, word)| !stack.has(*word));
        copies.map(|(register, _)| *register).collect()
    }
}

/// What an instruction makes of the copies.
fn step(inst: &Inst, touches: &[Touch], copies: &mut BTreeSet<Copy>) {
    let moves = matches!(inst.op(), Op::LDL | Op::STL);
    let access = Access::of(inst).filter(|_| moves);
    match (&access, inst.op()) {
        (Some(access), Op::STL) => copies.retain(|(_, word)| !access.words.contains(word)),
        // A store to the thread's own memory, or to a generic address that may be there.
        (None, Op::STL) | (_, Op::ST | Op::ATOM | Op::RED) => copies.clear(),
        _ => {}
    }
    for touch in touches.iter().filter(|touch| touch.role == Role::Def && touch.file == Kind::R) {
        let written = touch.registers();
        if written.contains(&(STACK_POINTER as usize)) {
            copies.clear();
        }
        copies.retain(|(register, _)| !written.contains(register));
    }
    let is_part = [M::U8, M::S8, M::U16, M::S16].into_iter().any(|m| inst.has(m));
    if let Some(access) = access
        && inst.guard == Guard::ALWAYS
        && !is_part
        && access.register != i64::from(RZ)
    {
        let registers = access.register as usize..;
        copies
            .extend(registers.zip(access.words).filter(|(register, _)| *register != STACK_POINTER as usize));
    }
}
