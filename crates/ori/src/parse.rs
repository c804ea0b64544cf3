//! The parser of the text form: what [`crate::text`] prints is read to a function that prints the same.
//!
//! Values and blocks keep their numbers, instructions are numbered anew in the order of the text. A value that the text
//! doesn't define is a word of R. Nothing is checked beyond the form: ask the verifier.

use crate::entity::{Block, Entity, Value};
use crate::function::*;
use sass::M;
use smallvec::SmallVec;
use std::fmt;

/// Numbers above this are mistakes: entities are numbered densely.
const MOST: usize = 1 << 24;

/// What is wrong with a line (the first is 1).
#[derive(Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// All functions of a text. Lines that begin with `;` are comments.
pub fn parse(text: &str) -> Result<Vec<Function>, ParseError> {
    let mut functions = Vec::new();
    let mut open: Option<Reader> = None;
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with(';')) {
        let failed = |message: String| ParseError { line, message };
        match open.take() {
            None => open = Some(Reader::begin(text).map_err(failed)?),
            Some(reader) if text == "}" => functions.push(reader.function),
            Some(mut reader) => {
                reader.line(text).map_err(failed)?;
                open = Some(reader);
            }
        }
    }
    match open {
        Some(_) => {
            Err(ParseError { line: text.lines().count(), message: "the function does not end".into() })
        }
        None => Ok(functions),
    }
}

struct Reader {
    function: Function,
    /// The block that lines go to.
    block: Option<Block>,
}

impl Reader {
    fn begin(text: &str) -> Result<Reader, String> {
        let name = text.strip_prefix("function ").and_then(|t| t.strip_suffix(" {"));
        let name = name.ok_or("expected 'function NAME {'")?;
        Ok(Reader { function: Function::new(name), block: None })
    }

    fn line(&mut self, text: &str) -> Result<(), String> {
        let mut t = Text { rest: text };
        if self.block.is_none() && t.takes("frame ") {
            self.function.frame = t.number()? as u32;
        } else if self.block.is_none() && t.takes("moving stack") {
            self.function.moving_stack = true;
        } else if self.block.is_none() && t.takes("withheld ") {
            let register = (t.file()?, t.index()? as u8);
            self.function.withheld.push(register);
        } else if self.block.is_none() && t.takes("uniform UR") {
            let register = t.index()? as u8;
            t.expect(" c[0x0][")?;
            let offset = t.number()? as u32;
            t.expect("]")?;
            self.function.uniform_constants.push((offset, register));
        } else if self.block.is_none() && t.takes("apart ") {
            let block = self.block_named(&mut t)?;
            self.function.apart.push(block);
        } else if self.block.is_none() && t.takes("awaited ") {
            let value = self.value(&mut t)?;
            self.function.awaited.push(value);
        } else if self.block.is_none() && t.takes("contractable ") {
            let value = self.value(&mut t)?;
            self.function.contractable.insert(value);
        } else if self.block.is_none() && t.takes("rolled ") {
            let block = self.block_named(&mut t)?;
            self.function.rolled.push(block);
        } else if self.block.is_none() && t.takes("symbol ") {
            self.function.symbols.push(t.rest.to_string());
            return Ok(());
        } else if self.block.is_none() && t.takes("routine ") {
            self.function.routines.push(t.rest.to_string());
            return Ok(());
        } else if text.starts_with('b') && text.ends_with(':') {
            self.head(&mut t)?;
        } else {
            let block = self.block.ok_or("expected a block")?;
            match self.end(&mut t)? {
                Some(end) => {
                    self.function.blocks[block].end_at = t.offset()?;
                    self.function.blocks[block].end = end;
                }
                None => self.inst(&mut t, block)?,
            }
        }
        t.at_end()
    }

    /// `b1(v2:R, v3:P):`, `b1 cold:`
    fn head(&mut self, t: &mut Text) -> Result<(), String> {
        let block = self.block_named(t)?;
        self.block = Some(block);
        if t.takes("(") {
            let params = self.defined(t)?;
            self.function.blocks[block].params = params.to_vec();
            t.expect(")")?;
        }
        self.function.blocks[block].cold = t.takes("cold") || t.takes(" cold");
        t.expect(":")
    }

    fn block_named(&mut self, t: &mut Text) -> Result<Block, String> {
        t.expect("b")?;
        let number = t.index()?;
        while self.function.blocks.len() <= number {
            self.function.block();
        }
        Ok(Block::new(number))
    }

    fn value(&mut self, t: &mut Text) -> Result<Value, String> {
        t.expect("v")?;
        let number = t.index()?;
        while self.function.values.len() <= number {
            self.function.value(File::R, 1);
        }
        Ok(Value::new(number))
    }

    /// `v1:R2, v2:P`
    fn defined(&mut self, t: &mut Text) -> Result<SmallVec<[Value; 2]>, String> {
        let mut all = SmallVec::new();
        loop {
            let value = self.value(t)?;
            t.expect(":")?;
            let file = t.file()?;
            let words = if t.rest.starts_with(|c: char| c.is_ascii_digit()) { t.index()? as u8 } else { 1 };
            self.function.values[value] = ValueData { file, words };
            all.push(value);
            if !t.takes(", ") {
                return Ok(all);
            }
        }
    }

    /// The terminator, if the line is one.
    fn end(&mut self, t: &mut Text) -> Result<Option<Terminator>, String> {
        if t.takes("jump ") {
            return Ok(Some(Terminator::Jump(self.edge(t)?)));
        }
        if t.takes("branch") {
            let uniform = t.takes(".uniform");
            t.expect(" ")?;
            let negated = t.takes("!");
            let predicate = self.value(t)?;
            t.expect(", ")?;
            let yes = self.edge(t)?;
            t.expect(", ")?;
            let no = self.edge(t)?;
            return Ok(Some(Terminator::Branch { predicate, negated, uniform, yes, no }));
        }
        if t.takes("switch") {
            return Ok(Some(Terminator::Switch(Box::new(self.switch(t)?))));
        }
        if t.takes("exit") {
            return Ok(Some(Terminator::Exit));
        }
        Ok(t.takes("return").then_some(Terminator::Return))
    }

    /// `.uniform v1 at 0x10, [0 1 0], b1(v2), b2`
    fn switch(&mut self, t: &mut Text) -> Result<Switch, String> {
        let uniform = t.takes(".uniform");
        t.expect(" ")?;
        let index = self.value(t)?;
        let place = if t.takes(" at ") { Some(t.number()? as u32) } else { None };
        t.expect(", [")?;
        let (mut table, mut edges) = (Vec::new(), Vec::new());
        while !t.takes("]") {
            table.push(t.index()? as u32);
            t.takes(" ");
        }
        while t.takes(", ") {
            edges.push(self.edge(t)?);
        }
        Ok(Switch { index, uniform, table, edges, place })
    }

    fn edge(&mut self, t: &mut Text) -> Result<Edge, String> {
        let mut edge = Edge::to(self.block_named(t)?);
        if t.takes("(") {
            loop {
                edge.args.push(self.value(t)?);
                if !t.takes(", ") {
                    break;
                }
            }
            t.expect(")")?;
        }
        Ok(edge)
    }

    /// `@!v1[v2] v3:R, v4:P = IADD3.X v5, -v6, 0x4 {4 <- 6 7} !120`
    fn inst(&mut self, t: &mut Text, block: Block) -> Result<(), String> {
        let guard = if t.takes("@") { Some(self.guard(t)?) } else { None };
        let mut results = SmallVec::new();
        if t.rest.starts_with('v') {
            results = self.defined(t)?;
            t.expect(" = ")?;
        }
        let mut words = t.word().split('.');
        let op = operation(words.next().unwrap_or_default())?;
        let modifiers = names(&words.collect::<Vec<_>>())?.into_iter().collect();
        let mut args = SmallVec::new();
        while t.has_arg() {
            t.expect(" ")?;
            args.push(self.arg(t)?);
            if !t.takes(",") {
                break;
            }
        }
        let fixed = if t.takes(" {") { Some(t.fixed()?) } else { None };
        let at = t.offset()?;
        let inst = self.function.append(block, InstData { op, modifiers, results, args, guard, at });
        if let Some(fixed) = fixed {
            self.function.fixed.insert(inst, fixed);
        }
        Ok(())
    }

    fn guard(&mut self, t: &mut Text) -> Result<Guard, String> {
        let negated = t.takes("!");
        let predicate = self.value(t)?;
        let mut else_values = SmallVec::new();
        while t.takes("[") {
            else_values.push(self.value(t)?);
            t.expect("]")?;
        }
        t.expect(" ")?;
        Ok(Guard { predicate, negated, else_values })
    }

    fn arg(&mut self, t: &mut Text) -> Result<Arg, String> {
        for (text, arg) in NAMED {
            if t.takes(text) {
                return Ok(arg);
            }
        }
        if t.takes("%") {
            let name = t.word();
            return Ok(Arg::Name(M::from_name(name).ok_or_else(|| format!("unknown name '{name}'"))?));
        }
        if t.takes("incoming+") {
            return Ok(Arg::Incoming(t.number()? as u32));
        }
        if t.takes("slot($") {
            let symbol = t.index()? as u32;
            t.expect(")")?;
            return Ok(Arg::Slot { symbol });
        }
        if t.takes("fixed(") {
            let (file, number) = (t.file()?, t.index()? as u8);
            t.expect(")")?;
            return Ok(Arg::Fixed { file, number });
        }
        if t.rest.starts_with("low(") || t.rest.starts_with("high(") {
            return t.address();
        }
        if t.rest.starts_with("load c[") || t.rest.starts_with("c[") {
            return self.bank(t);
        }
        if t.rest.starts_with('b') {
            return Ok(Arg::Target(self.block_named(t)?));
        }
        let number = t.rest.strip_prefix('-').unwrap_or(t.rest);
        if number.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Arg::Imm(t.number()?));
        }
        self.used(t)
    }

    /// `c[0x0][0x210]`, `load c[0x3][v1+0x8]`
    fn bank(&mut self, t: &mut Text) -> Result<Arg, String> {
        let load = t.takes("load ");
        t.expect("c[")?;
        let bank = t.number()? as u8;
        t.expect("][")?;
        let mut index = None;
        if load && t.rest.starts_with('v') {
            index = Some(self.value(t)?);
            t.expect("+")?;
        }
        let offset = t.number()? as u32;
        t.expect("]")?;
        Ok(if load { Arg::Bank { bank, index, offset: offset as i32 } } else { Arg::Const { bank, offset } })
    }

    /// `-~|v1[2..4]|.H0_H0`
    fn used(&mut self, t: &mut Text) -> Result<Arg, String> {
        let (negated, inverted, absolute) = (t.takes("-"), t.takes("~"), t.takes("|"));
        let value = self.value(t)?;
        let mut part = None;
        if t.takes("[") {
            let first = t.index()? as u8;
            let end = if t.takes("..") { t.index()? as u8 } else { first.saturating_add(1) };
            part = Some(Part { first, count: end.saturating_sub(first) });
            t.expect("]")?;
        }
        if absolute {
            t.expect("|")?;
        }
        let mut u = Use { part, negated, absolute, inverted, ..Use::of(value) };
        if t.takes(".") {
            let all = names(&t.word().split('.').collect::<Vec<_>>())?;
            u.suffixes = sass::Suffixes::of(&all).ok_or("too many suffixes, or none of an operand")?;
        }
        Ok(Arg::Use(u))
    }
}

/// Arguments that are words; longer ones first.
const NAMED: [(&str, Arg); 10] = [
    ("URZ", Arg::Zero(File::UR)),
    ("UPZ", Arg::Zero(File::UP)),
    ("-RZ", Arg::MinusZero),
    ("RZ", Arg::Zero(File::R)),
    ("PZ", Arg::Zero(File::P)),
    ("BZ", Arg::Zero(File::B)),
    ("PT", Arg::True(true)),
    ("!PT", Arg::True(false)),
    ("SP", Arg::Stack),
    ("TOP", Arg::StackTop),
];

fn operation(name: &str) -> Result<Op, String> {
    if let Some(pseudo) = Pseudo::ALL.into_iter().find(|p| p.name() == name) {
        return Ok(Op::Pseudo(pseudo));
    }
    if let Some(generic) = Generic::ALL.into_iter().find(|g| g.name() == name) {
        return Ok(Op::Generic(generic));
    }
    sass::Op::from_name(name).map(Op::Machine).ok_or_else(|| format!("unknown operation '{name}'"))
}

/// Modifiers between dots. Some have dots themselves: the longest that fits is meant.
fn names(words: &[&str]) -> Result<Vec<M>, String> {
    let mut all = Vec::new();
    let mut rest = words;
    while !rest.is_empty() {
        let fitting = |n: &usize| M::from_name(&rest[..*n].join(".")).map(|m| (*n, m));
        let Some((n, name)) = (1..=rest.len()).rev().find_map(|n| fitting(&n)) else {
            return Err(format!("unknown modifier '{}'", rest[0]));
        };
        all.push(name);
        rest = &rest[n..];
    }
    Ok(all)
}

/// What is left of a line.
struct Text<'a> {
    rest: &'a str,
}

impl<'a> Text<'a> {
    fn takes(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.takes(text) { Ok(()) } else { Err(format!("expected '{text}' at '{}'", self.rest)) }
    }

    fn at_end(&self) -> Result<(), String> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("unexpected '{}'", self.rest)) }
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Up to a space or comma.
    fn word(&mut self) -> &'a str {
        self.take_while(|c| c != ' ' && c != ',')
    }

    /// Does an argument follow, and not the end of an instruction?
    fn has_arg(&self) -> bool {
        let is_offset = self.rest.starts_with(" !") && !self.rest.starts_with(" !PT");
        self.rest.starts_with(' ') && !self.rest.starts_with(" {") && !is_offset
    }

    fn index(&mut self) -> Result<usize, String> {
        let digits = self.take_while(|c| c.is_ascii_digit());
        let number = digits.parse().map_err(|_| format!("expected a number at '{}'", self.rest))?;
        if number < MOST { Ok(number) } else { Err(format!("{number} is too large")) }
    }

    /// `-0x10`, `12`
    fn number(&mut self) -> Result<i64, String> {
        let negative = self.takes("-");
        let digits = if self.takes("0x") {
            u64::from_str_radix(self.take_while(|c| c.is_ascii_hexdigit()), 16)
        } else {
            self.take_while(|c| c.is_ascii_digit()).parse()
        };
        let bits = digits.map_err(|_| format!("expected a number at '{}'", self.rest))? as i64;
        Ok(if negative { bits.wrapping_neg() } else { bits })
    }

    fn file(&mut self) -> Result<File, String> {
        let all = [("UR", File::UR), ("UP", File::UP), ("R", File::R), ("P", File::P), ("B", File::B)];
        let found = all.into_iter().find(|(name, _)| self.takes(name));
        found.map(|(_, file)| file).ok_or_else(|| format!("expected a register file at '{}'", self.rest))
    }

    /// `low($3+16)`
    fn address(&mut self) -> Result<Arg, String> {
        let half = if self.takes("low") { Half::Low } else { Half::High };
        self.takes("high");
        self.expect("($")?;
        let symbol = self.index()? as u32;
        self.takes("+");
        let addend = self.number()?;
        self.expect(")")?;
        Ok(Arg::Address { symbol, addend, half })
    }

    /// `4 5 <- 6}`, `4 5 <- 6 of 40 keeping 8 losing B3 below 40 below P2 keeping none}`, `2 <- 2 4 clobbering 2+20}`
    fn fixed(&mut self) -> Result<Fixed, String> {
        let mut fixed = Fixed::default();
        let mut side = &mut fixed.results;
        loop {
            if self.takes("}") {
                return Ok(fixed);
            } else if self.takes("<- ") {
                side = &mut fixed.args;
            } else if self.takes("of ") || self.takes(" of ") {
                fixed.words = Some(self.index()? as u8);
            } else if self.takes("keeping none") || self.takes(" keeping none") {
                fixed.preserves_none = true;
            } else if self.takes("keeping ") || self.takes(" keeping ") {
                fixed.preserved = Some(self.index()? as u8);
            } else if self.takes("losing B") || self.takes(" losing B") {
                fixed.barriers = Some(self.index()? as u8);
            } else if self.takes("below P") || self.takes(" below P") {
                fixed.untouched_predicates = Some(self.index()? as u8);
            } else if self.takes("below ") || self.takes(" below ") {
                fixed.untouched = Some(self.index()? as u8);
            } else if self.takes("clobbering ") || self.takes(" clobbering ") {
                let first = self.index()? as u8;
                self.expect("+")?;
                fixed.window = Some((first, self.index()? as u8));
            } else {
                side.push(self.index()? as u8);
                self.takes(" ");
            }
        }
    }

    /// ` !120`, or nothing.
    fn offset(&mut self) -> Result<u32, String> {
        if self.takes(" !") { Ok(self.number()? as u32) } else { Ok(0) }
    }
}
