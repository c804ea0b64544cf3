//! Which parts of an instruction's operands lowering has read.
//!
//! An operand is a tree: an address has a base and an offset, a vector its elements, `p|q` two predicates. Each leaf
//! of the tree has a slot of the body's operand arena, and [`Lower::mark_read`] finds the slot of a leaf by its address
//! there. A leaf may have several parts itself: `-%r1.b2` is a register, a selector and a sign. What is not marked when
//! the instruction has been lowered got lost, and `Lower::inst` reports an internal error: an operand form that the
//! parser accepts can't lose a part silently.
//!
//! Cost: two walks over the operands of each instruction, and a byte for each slot.

use super::Lower;
use ptx::ast::{Body, Operand, Range, Symbol};
use std::cell::Cell;

/// Parts of a leaf, as bits.
pub const VALUE: u8 = 1;
pub const SELECTOR: u8 = 2;
pub const SIGN: u8 = 4;
const ALL: u8 = VALUE | SELECTOR | SIGN;

/// The parts that have been read of the leaves of one instruction.
#[derive(Default)]
pub struct OperandUse {
    /// The slot of the arena that the first byte is for.
    first: usize,
    read: Vec<Cell<u8>>,
}

impl OperandUse {
    /// Begins with an instruction: nothing of its operands has been read.
    pub fn begin(&mut self, body: &Body, operands: Range) {
        let (first, end) = extent(body, operands);
        self.first = first as usize;
        self.read.clear();
        self.read.resize((end - first) as usize, Cell::new(0));
    }

    fn mark(&self, body: &Body, leaf: &Operand, parts: u8) {
        // A copy that lowering has made is not in the arena: who reads it marks the original.
        let slot = body.operands.element_offset(leaf).and_then(|slot| slot.checked_sub(self.first));
        if let Some(read) = slot.and_then(|slot| self.read.get(slot)) {
            read.set(read.get() | parts);
        }
    }

    /// The first operand, counted from 0, with a leaf of which a part has not been read.
    pub fn unread(&self, body: &Body, operands: Range) -> Option<usize> {
        let slots = operands.first as usize..;
        body.list(operands).iter().zip(slots).position(|(operand, slot)| match nested(operand) {
            Some(range) => self.unread(body, range).is_some(),
            None => {
                let slot = slot.checked_sub(self.first);
                let read = slot.and_then(|slot| self.read.get(slot)).map_or(0, Cell::get);
                needed(operand) & !read != 0
            }
        })
    }
}

/// The slots that the operands in a range take, with all that is nested in them: from the first, up to the last.
fn extent(body: &Body, range: Range) -> (u32, u32) {
    let own = (range.first, range.first + range.len);
    let ranges = body.list(range).iter().filter_map(nested);
    ranges.map(|range| extent(body, range)).fold(own, |all, one| (all.0.min(one.0), all.1.max(one.1)))
}

fn nested(operand: &Operand) -> Option<Range> {
    match operand {
        Operand::Sum(range)
        | Operand::Element(range)
        | Operand::Address(range)
        | Operand::Vector(range)
        | Operand::List(range)
        | Operand::Pair(range) => Some(*range),
        _ => None,
    }
}

/// The parts that a leaf has.
fn needed(leaf: &Operand) -> u8 {
    match leaf {
        Operand::Not(_) | Operand::Negated(_) => VALUE | SIGN,
        Operand::Part { negated: true, .. } => VALUE | SELECTOR | SIGN,
        Operand::Part { .. } | Operand::Special { component: Some(_), .. } => VALUE | SELECTOR,
        _ => VALUE,
    }
}

impl Lower<'_, '_> {
    /// A leaf has been read with all its parts.
    pub(crate) fn mark_read(&self, leaf: &Operand) {
        self.mark_parts(leaf, ALL);
    }

    /// Some parts of a leaf have been read.
    pub(crate) fn mark_parts(&self, leaf: &Operand, parts: u8) {
        self.operand_use.mark(self.body, leaf, parts);
    }

    /// All leaves of an operand have been read, or don't matter.
    pub(crate) fn mark_all(&self, operand: &Operand) {
        match nested(operand) {
            Some(range) => self.body.list(range).iter().for_each(|part| self.mark_all(part)),
            None => self.mark_read(operand),
        }
    }

    /// `variable + 4`: the variable and what is added to it.
    pub(crate) fn symbol_and_offset(&self, operand: &Operand) -> Option<(Symbol, i64)> {
        let Operand::Sum(range) = operand else { return None };
        let [Operand::Symbol(symbol), Operand::Offset(offset)] = self.body.list(*range) else { return None };
        self.mark_all(operand);
        Some((*symbol, *offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::ast::{Item, Module, Stmt};

    const SOURCE: &str = "
.version 9.0
.target sm_90
.address_size 64
.global .u32 table[4];
.visible .entry k()
{
    .reg .v2 .u32 %v;
    .reg .u32 %r<6>;
    .reg .u64 %rd<2>;
    .reg .pred %p<4>;
    mov.u32 %v.x, %r1;
    ld.global.v2.u32 {%r2, _}, [table+8];
    vadd.u32.u32.u32 %r3, %r1.b2, %r2;
    setp.eq.and.u32 %p1|%p2, %r1, %r2, !%p3;
    mov.u64 %rd1, table+4;
    ret;
}";

    fn parsed() -> Module<'static> {
        ptx::parse(SOURCE, &ptx::Options::default()).module.unwrap()
    }

    fn body<'m>(module: &'m mut Module<'static>) -> &'m mut Body<'static> {
        let functions = module.items.iter_mut().filter_map(|item| match item {
            Item::Function(function) => function.body.as_mut(),
            _ => None,
        });
        { functions }.next().unwrap()
    }

    /// The leaves of some operands.
    fn leaves<'b>(body: &'b Body, operands: Range) -> Vec<&'b Operand> {
        let of = |operand: &'b Operand| match nested(operand) {
            Some(range) => leaves(body, range),
            None => vec![operand],
        };
        body.list(operands).iter().flat_map(of).collect()
    }

    /// Every part of every leaf is missed when it alone is not marked.
    #[test]
    fn each_unread_part_is_found() {
        let mut module = parsed();
        let body: &Body = body(&mut module);
        let mut tried = 0;
        for stmt in &body.stmts {
            let Stmt::Inst(inst) = stmt else { continue };
            let leaves = leaves(body, inst.operands);
            let unread = |skipped: Option<(usize, u8)>| {
                let mut uses = OperandUse::default();
                uses.begin(body, inst.operands);
                for (i, leaf) in leaves.iter().enumerate() {
                    let left_out = skipped.filter(|(skipped, _)| *skipped == i).map_or(0, |(_, part)| part);
                    uses.mark(body, leaf, ALL & !left_out);
                }
                uses.unread(body, inst.operands)
            };
            assert_eq!(unread(None), None);
            for (i, leaf) in leaves.iter().enumerate() {
                for part in [VALUE, SELECTOR, SIGN].into_iter().filter(|part| needed(leaf) & part != 0) {
                    assert!(unread(Some((i, part))).is_some(), "{leaf:?}");
                    tried += 1;
                }
            }
        }
        assert_eq!(tried, 20);
    }

    /// The messages of a compilation.
    fn messages(module: &Module) -> Vec<String> {
        let options = crate::Options { threads: Some(1), ..crate::Options::new(module.target) };
        let output = crate::compile_module(module, &options);
        assert_eq!(output.cubin.is_some(), output.diagnostics.is_empty());
        output.diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect()
    }

    /// A destination with a sign, which no parser makes and no family reads.
    #[test]
    fn unread_part_is_an_internal_error() {
        assert_eq!(messages(&parsed()), Vec::<String>::new());
        let mut module = parsed();
        for operand in &mut body(&mut module).operands {
            if let Operand::Part { part, negated, .. } = operand
                && part.element() == Some(0)
            {
                *negated = true;
            }
        }
        let messages = messages(&module);
        let [message] = &messages[..] else { panic!("{messages:?}") };
        assert!(message.contains("Internal error in pass 'lower' for function 'k'"), "{message}");
        assert!(message.contains("a part of operand 1 of 'mov.u32' is not read"), "{message}");
    }
}
