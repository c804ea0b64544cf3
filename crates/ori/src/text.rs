//! The text form of the IR: one line per instruction, values in place of registers. [`crate::parse`] reads it back;
//! tests hold both to it after every pass.
//!
//! ```text
//! function saxpy {
//!   frame 0x10
//!   withheld R24
//!   uniform UR60 c[0x0][0x218]
//!   symbol table
//! b0:
//!     @!v1[v2] v3:R, v4:P = IADD3 v5, -v6, 0x4 !120
//!     branch v4, b1, b2(v3) !140
//! }
//! ```
//!
//! `@!v1[v2]` is a guard with the else value of the result, `v3:R` a result with its file (and number of words, if not one), `!120`
//! the offset in the PTX text of the instruction that the line was lowered from. Calls have the registers of the convention at their end:
//! `{results <- arguments}`.

use crate::function::*;
use std::fmt;

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "function {} {{", self.name)?;
        if self.frame != 0 {
            writeln!(f, "  frame {:#x}", self.frame)?;
        }
        if self.moving_stack {
            writeln!(f, "  moving stack")?;
        }
        for (file, number) in &self.withheld {
            writeln!(f, "  withheld {file:?}{number}")?;
        }
        for (offset, register) in &self.uniform_constants {
            writeln!(f, "  uniform UR{register} c[0x0][{offset:#x}]")?;
        }
        for block in &self.apart {
            writeln!(f, "  apart {block}")?;
        }
        for value in &self.awaited {
            writeln!(f, "  awaited {value}")?;
        }
        let mut contractable: Vec<_> = self.contractable.iter().collect();
        contractable.sort_unstable();
        for value in contractable {
            writeln!(f, "  contractable {value}")?;
        }
        for block in &self.rolled {
            writeln!(f, "  rolled {block}")?;
        }
        for symbol in &self.symbols {
            writeln!(f, "  symbol {symbol}")?;
        }
        for routine in &self.routines {
            writeln!(f, "  routine {routine}")?;
        }
        for block in self.blocks.keys() {
            let data = &self.blocks[block];
            write!(f, "{block}")?;
            if !data.params.is_empty() {
                f.write_str("(")?;
                for (i, p) in data.params.iter().enumerate() {
                    write!(f, "{}{p}:{}", if i > 0 { ", " } else { "" }, self.kind(*p))?;
                }
                f.write_str(")")?;
            }
            writeln!(f, "{}:", if data.cold { " cold" } else { "" })?;
            for inst in &data.insts {
                write!(f, "    {}", Line(self, &self.insts[*inst]))?;
                if let Some(fixed) = self.fixed.get(inst) {
                    write!(f, " {fixed}")?;
                }
                end_line(f, self.insts[*inst].at)?;
            }
            write!(f, "    {}", End(&data.end))?;
            end_line(f, data.end_at)?;
        }
        writeln!(f, "}}")
    }
}

/// The PTX offset, if it is known.
fn end_line(f: &mut fmt::Formatter, at: u32) -> fmt::Result {
    if at == 0 { writeln!(f) } else { writeln!(f, " !{at}") }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("{")?;
        self.results.iter().try_for_each(|r| write!(f, "{r} "))?;
        f.write_str("<- ")?;
        for (i, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if i > 0 { " " } else { "" })?;
        }
        let unusual = [
            (" of ", self.words),
            (" keeping ", self.preserved),
            (" losing B", self.barriers),
            (" below ", self.untouched),
            (" below P", self.untouched_predicates),
        ];
        for (word, number) in unusual {
            number.map_or(Ok(()), |number| write!(f, "{word}{number}"))?;
        }
        if self.preserves_none {
            f.write_str(" keeping none")?;
        }
        if let Some((first, count)) = self.window {
            write!(f, " clobbering {first}+{count}")?;
        }
        f.write_str("}")
    }
}

impl Function {
    /// `R2`, `P`: the file, and the words if they are not one.
    fn kind(&self, value: crate::Value) -> String {
        let data = self.values[value];
        if data.words == 1 { format!("{:?}", data.file) } else { format!("{:?}{}", data.file, data.words) }
    }
}

struct Line<'a>(&'a Function, &'a InstData);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Line(function, inst) = self;
        if let Some(g) = &inst.guard {
            write!(f, "@{}{}", if g.negated { "!" } else { "" }, g.predicate)?;
            for else_value in &g.else_values {
                write!(f, "[{else_value}]")?;
            }
            f.write_str(" ")?;
        }
        for (i, r) in inst.results.iter().enumerate() {
            write!(f, "{}{r}:{}", if i > 0 { ", " } else { "" }, function.kind(*r))?;
        }
        if !inst.results.is_empty() {
            f.write_str(" = ")?;
        }
        match inst.op {
            Op::Machine(op) => f.write_str(op.name())?,
            Op::Generic(op) => f.write_str(op.name())?,
            Op::Pseudo(op) => f.write_str(op.name())?,
        }
        for m in &inst.modifiers {
            write!(f, ".{}", m.name())?;
        }
        for (i, a) in inst.args.iter().enumerate() {
            write!(f, "{} {a}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Arg::Use(u) => {
                let (open, close) = if u.absolute { ("|", "|") } else { ("", "") };
                f.write_str(if u.negated { "-" } else { "" })?;
                f.write_str(if u.inverted { "~" } else { "" })?;
                write!(f, "{open}{}", u.value)?;
                match u.part {
                    Some(Part { first, count: 1 }) => write!(f, "[{first}]")?,
                    Some(Part { first, count }) => write!(f, "[{first}..{}]", first + count)?,
                    None => {}
                }
                f.write_str(close)?;
                u.suffixes.iter().try_for_each(|s| write!(f, ".{}", s.name()))
            }
            Arg::Imm(n) if *n < 0 => write!(f, "-{:#x}", n.unsigned_abs()),
            Arg::Imm(n) => write!(f, "{n:#x}"),
            Arg::Const { bank, offset } => write!(f, "c[{bank:#x}][{offset:#x}]"),
            Arg::Bank { bank, index, offset } => {
                write!(f, "load c[{bank:#x}][")?;
                index.map_or(Ok(()), |i| write!(f, "{i}+"))?;
                write!(f, "{offset:#x}]")
            }
            Arg::Address { symbol, addend, half } => {
                let half = if *half == Half::Low { "low" } else { "high" };
                write!(f, "{half}(${symbol}{addend:+})")
            }
            Arg::Slot { symbol } => write!(f, "slot(${symbol})"),
            Arg::Stack => f.write_str("SP"),
            Arg::Fixed { file, number } => write!(f, "fixed({file:?}{number})"),
            Arg::StackTop => f.write_str("TOP"),
            Arg::Incoming(offset) => write!(f, "incoming+{offset:#x}"),
            Arg::Name(m) => write!(f, "%{}", m.name()),
            Arg::Zero(file) => write!(f, "{file:?}Z"),
            Arg::MinusZero => write!(f, "-RZ"),
            Arg::True(true) => f.write_str("PT"),
            Arg::True(false) => f.write_str("!PT"),
            Arg::Target(block) => write!(f, "{block}"),
        }
    }
}

struct End<'a>(&'a Terminator);

impl fmt::Display for End<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            Terminator::Jump(e) => write!(f, "jump {e}"),
            Terminator::Branch { predicate, negated, uniform, yes, no } => {
                let word = if *uniform { "branch.uniform" } else { "branch" };
                write!(f, "{word} {}{predicate}, {yes}, {no}", if *negated { "!" } else { "" })
            }
            Terminator::Switch(switch) => {
                write!(f, "switch{} {}", if switch.uniform { ".uniform" } else { "" }, switch.index)?;
                switch.place.map_or(Ok(()), |place| write!(f, " at {place:#x}"))?;
                let table: Vec<String> = switch.table.iter().map(|entry| entry.to_string()).collect();
                write!(f, ", [{}]", table.join(" "))?;
                switch.edges.iter().try_for_each(|edge| write!(f, ", {edge}"))
            }
            Terminator::Exit => f.write_str("exit"),
            Terminator::Return => f.write_str("return"),
        }
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.to)?;
        if self.args.is_empty() {
            return Ok(());
        }
        let args: Vec<String> = self.args.iter().map(|v| v.to_string()).collect();
        write!(f, "({})", args.join(", "))
    }
}
