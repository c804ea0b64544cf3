//! Machine code as text, for `--dump-ir`: one instruction a line, as the disassembler prints it, blocks as labels.
//!
//! ```text
//! machine function f {
//! b0:
//!     ISETP.GE.AND P0, PT, R0, R2, PT
//!     BSSY B0, 0x10                         ; b3
//!     @!P0 branch b1, b2
//! ```
//!
//! Before linearization the terminators are those of Ori, with the predicate register of a branch. A comment names the
//! block that a distance will lead to, or the symbol whose address comes later. From `control-codes` on each instruction
//! has its control code before it, and after `emit` the bytes are disassembled, with
//! relocations as comments.

use crate::context::SnapshotLine;
use crate::mach::inst::{Address, MachFunction, MachInst};
use crate::mach::linearize::selected;
use crate::mach::unit::{EncodedFunction, LinearCode, Unit};
use ori::entity::Entity;
use ori::{Block, Function, Half, Switch, Terminator};
use sass::{Control, Isa};

/// The latest form that a function has.
pub fn text(unit: &Unit, isa: Isa) -> String {
    lines(unit, isa).into_iter().fold(String::new(), |text, line| text + &line.text + "\n")
}

/// The same by lines, with what they are for.
pub fn lines(unit: &Unit, isa: Isa) -> Vec<SnapshotLine> {
    let function = &unit.kernel.code;
    let mut out = Vec::new();
    push(&mut out, 0, format!("machine function {} {{", function.name));
    match unit {
        Unit { encoded, .. } if !encoded.bytes.is_empty() => encoded_text(encoded, isa, &mut out),
        Unit { linear, .. } if !linear.insts.is_empty() => linear_text(linear, function, isa, &mut out),
        Unit { code, .. } => block_text(code, function, isa, &mut out),
    }
    push(&mut out, 0, "}".to_string());
    out
}

fn push(out: &mut Vec<SnapshotLine>, at: u32, text: String) {
    out.push(SnapshotLine { text, at });
}

fn block_text(code: &MachFunction, function: &Function, isa: Isa, out: &mut Vec<SnapshotLine>) {
    for &block in &code.order {
        push(out, 0, format!("{block}:"));
        for inst in &code.blocks[block.index()] {
            line(inst, None, function, isa, out);
        }
        push(out, function.blocks[block].end_at, format!("    {}", terminator(function, code, block)));
    }
}

fn terminator(function: &Function, code: &MachFunction, block: Block) -> String {
    match &function.blocks[block].end {
        Terminator::Exit => "exit".into(),
        Terminator::Return => "return".into(),
        Terminator::Jump(edge) => format!("jump {}", edge.to),
        Terminator::Branch { negated, yes, no, .. } => {
            let not = if *negated { "!" } else { "" };
            format!("@{not}P{} branch {}, {}", code.branches[block.index()], yes.to, no.to)
        }
        Terminator::Switch(switch) => {
            let targets: Vec<String> = switch.table.iter().map(|entry| target(switch, *entry)).collect();
            format!("switch R{}, [{}]", code.branches[block.index()], targets.join(" "))
        }
    }
}

fn target(switch: &Switch, entry: u32) -> String {
    switch.edges.get(entry as usize).map_or(String::new(), |edge| edge.to.to_string())
}

fn linear_text(linear: &LinearCode, function: &Function, isa: Isa, out: &mut Vec<SnapshotLine>) {
    let of_tables = linear.tables.iter().flat_map(|table| table.targets.iter().copied());
    let targets = linear.insts.iter().filter_map(|inst| inst.target).chain(of_tables);
    let mut labels: Vec<(usize, Block)> = targets.map(|b| (linear.starts[b.index()], b)).collect();
    labels.sort_by_key(|(start, block)| (*start, block.index()));
    labels.dedup();
    for (i, inst) in linear.insts.iter().enumerate() {
        let first = labels.partition_point(|(start, _)| *start < i);
        for (_, block) in labels[first..].iter().take_while(|(start, _)| *start == i) {
            push(out, 0, format!("{block}:"));
        }
        let timed = linear.timed.get(i);
        for stall in timed.iter().flat_map(|timed| &timed.nops) {
            push(out, 0, format!("    --:-:-:Y:{stall:02}  NOP"));
        }
        line(inst, timed.map(|timed| timed.control), function, isa, out);
    }
}

fn encoded_text(encoded: &EncodedFunction, isa: Isa, out: &mut Vec<SnapshotLine>) {
    let words = encoded.bytes.chunks_exact(sass::WORD_BYTES as usize);
    for (i, word) in words.enumerate() {
        let word = word.iter().rev().fold(0, |word, byte| word << 8 | u128::from(*byte));
        let (inst, address) = (sass::decode(isa, word), i as u64 * sass::WORD_BYTES);
        let text = format!("    /*{address:04x}*/ {}  {}", inst.control, inst.at(address));
        let text = match encoded.relocs.iter().find(|reloc| reloc.offset / sass::WORD_BYTES == i as u64) {
            Some(reloc) => format!("{text:<48} ; {:?} {}{:+}", reloc.kind, reloc.symbol, reloc.addend),
            None => text,
        };
        push(out, encoded.at.get(i).copied().unwrap_or(0), text);
    }
}

fn line(
    inst: &MachInst,
    control: Option<Control>,
    function: &Function,
    isa: Isa,
    out: &mut Vec<SnapshotLine>,
) {
    let text = match (selected(inst, isa), control) {
        (Ok(selected), Some(control)) => format!("    {control}  {}", selected.controlled(control)),
        (Ok(selected), None) => format!("    {selected}"),
        (Err(e), _) => format!("    {} ; illegal: {e}", inst.op.name()),
    };
    let text = match note(inst, function) {
        Some(note) => format!("{text:<48} ; {note}"),
        None => text,
    };
    push(out, inst.at, text);
}

/// What will be filled in: the block of a distance, the symbol of an address.
fn note(inst: &MachInst, function: &Function) -> Option<String> {
    let name = |symbol: u32| function.symbols.get(symbol as usize).map_or("?", |name| name.as_str());
    let word = |half: Half| if half == Half::Low { "low" } else { "high" };
    match inst.address {
        None => inst.target.map(|block| block.to_string()),
        Some(Address::Half { symbol, addend, half }) => {
            Some(format!("{} word of {}{addend:+}", word(half), name(symbol)))
        }
        Some(Address::Ahead { insts, half }) => {
            Some(format!("{} word of the address {insts} instructions further on", word(half)))
        }
        Some(Address::Table { .. }) => Some("entry of a jump table".to_string()),
        Some(Address::Slot { symbol }) => Some(format!("constant slot of {}", name(symbol))),
        Some(Address::Call { symbol }) => Some(name(symbol).to_string()),
        Some(Address::Incoming) => Some("plus the frame's size".to_string()),
        Some(Address::Offset { insts }) => Some(format!("offset of the instruction {insts} further on")),
        Some(Address::Routine { index }) => function.routines.get(index as usize).cloned(),
        Some(Address::Start) => Some(function.name.clone()),
    }
}
