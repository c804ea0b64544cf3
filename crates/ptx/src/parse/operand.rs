//! Operands: registers, constants, names, addresses, vectors, lists.

use super::expr::Value;
use super::*;
use crate::table::{Role, Table};
use crate::types::{Class, Type};
use smallvec::SmallVec;

/// What a sequence of operands stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Instruction,
    /// An instruction that takes argument lists in parentheses.
    Call,
    Braces,
    Arguments,
}

impl Parser<'_> {
    /// The operands of an instruction, to the semicolon.
    pub(super) fn operands(&mut self, opcode: OpcodeId) -> Parse<Range> {
        if self.tok.is(b';') {
            return Ok(Range { first: self.body.operands.len() as u32, len: 0 });
        }
        let lists = self.takes_lists(opcode);
        self.sequence(if lists { Within::Call } else { Within::Instruction })
    }

    /// Does the table know a form of this opcode with argument lists in parentheses?
    fn takes_lists(&self, opcode: OpcodeId) -> bool {
        let fits = &self.opcodes[opcode.0 as usize].fits;
        fits.iter().any(|f| Table::get().form(f.form).operands.iter().any(|s| s.role == Role::List))
    }

    /// Operands separated by commas, stored side by side.
    fn sequence(&mut self, within: Within) -> Parse<Range> {
        let mut all: SmallVec<[Operand; 8]> = SmallVec::new();
        let mut waiting: SmallVec<[(u32, Name, Span); 2]> = SmallVec::new();
        loop {
            let span = self.tok.span();
            self.check_place(within, all.len())?;
            let operand = self.operand(within == Within::Call)?;
            if let Operand::Unresolved(name) = operand {
                waiting.push((all.len() as u32, name, span));
            }
            all.push(operand);
            if !self.eat(b',') {
                break;
            }
        }
        Ok(self.store(&all, &waiting))
    }

    /// ptxas's grammar has no sink but in front, and nothing nested in braces or argument lists.
    fn check_place(&mut self, within: Within, index: usize) -> Parse<()> {
        let sink = self.tok.kind == TokenKind::Ident && self.text(self.tok) == "_";
        let nested = self.tok.is(b'{') || self.tok.is(b'[');
        match within {
            Within::Instruction | Within::Call if sink && index > 0 => self.syntax_error(),
            Within::Braces | Within::Arguments if nested => self.syntax_error(),
            _ => Ok(()),
        }
    }

    fn store(&mut self, all: &[Operand], waiting: &[(u32, Name, Span)]) -> Range {
        let first = self.body.operands.len() as u32;
        for (i, name, span) in waiting {
            self.function.unresolved.push((first + i, *name, *span));
        }
        self.body.operands.extend_from_slice(all);
        Range { first, len: all.len() as u32 }
    }

    fn operand(&mut self, lists: bool) -> Parse<Operand> {
        let before_name = matches!(self.tok.kind, TokenKind::Punct(b'!' | b'-')) && self.next_is_name();
        match self.tok.kind {
            TokenKind::Ident => {
                let first = self.named()?;
                self.pair(first)
            }
            TokenKind::Punct(b'[') => self.address(),
            TokenKind::Punct(b'{') => {
                self.bump();
                let range = self.sequence(Within::Braces)?;
                self.expect(b'}')?;
                self.pair(Operand::Vector(range))
            }
            TokenKind::Punct(b'(') if lists => {
                self.bump();
                let mut range = Range { first: self.body.operands.len() as u32, len: 0 };
                if !self.tok.is(b')') {
                    range = self.sequence(Within::Arguments)?;
                }
                self.expect(b')')?;
                Ok(Operand::List(range))
            }
            TokenKind::Punct(b'!') if before_name => {
                self.bump();
                match self.named()? {
                    Operand::Reg(reg) => Ok(Operand::Not(reg)),
                    other => Ok(other),
                }
            }
            TokenKind::Punct(b'-') if before_name => {
                self.bump();
                let span = self.tok.span();
                match self.named()? {
                    Operand::Reg(reg) => {
                        self.check_negation(reg, span);
                        Ok(Operand::Negated(reg))
                    }
                    Operand::Part { reg, part, .. } => {
                        self.check_negation(reg, span);
                        Ok(Operand::Part { reg, part, negated: true })
                    }
                    other => Ok(other),
                }
            }
            _ => Ok(constant(self.constant()?)),
        }
    }

    fn check_negation(&mut self, reg: Reg, span: Span) {
        let ty = self.body.reg_decl(reg).0.ty;
        if ty.bits() != 32 || !(ty.is_int() || ty.class() == Class::Bits) {
            self.error(span, "Illegal argument to unary minus");
        }
    }

    /// `first`, or `first | second`.
    fn pair(&mut self, first: Operand) -> Parse<Operand> {
        if !self.eat(b'|') {
            return Ok(first);
        }
        let span = self.tok.span();
        let second = self.operand(false)?;
        let mut waiting: SmallVec<[_; 1]> = SmallVec::new();
        if let Operand::Unresolved(name) = second {
            waiting.push((1, name, span));
        }
        Ok(Operand::Pair(self.store(&[first, second], &waiting)))
    }

    /// Does a name (not `WARP_SZ`) follow the current token?
    fn next_is_name(&mut self) -> bool {
        let rest = self.lexer.peek_after_blank();
        let starts = rest.first().is_some_and(|b| matches!(b, b'%' | b'_' | b'$') || b.is_ascii_alphabetic());
        starts && !rest.starts_with(b"WARP_SZ")
    }

    /// A register, special register, variable, function or label, with what may follow each.
    fn named(&mut self) -> Parse<Operand> {
        if self.text(self.tok) == "WARP_SZ" {
            return Ok(constant(self.constant()?));
        }
        let (name, span) = self.expect_name()?;
        match self.names.lookup(name) {
            Meaning::Reg(reg) => self.register(reg),
            Meaning::Special(row, number) => self.special(row, number),
            Meaning::Symbol(symbol) => self.symbol_operand(symbol),
            Meaning::Nothing if self.names.text(name) == "_" => Ok(Operand::Sink),
            Meaning::Nothing => {
                // Only a variable that doesn't exist could go on like this.
                if self.tok.is(b'+') {
                    self.bump();
                    self.constant()?;
                    self.function.unknown.push((self.names.text(name).to_string(), span));
                    return Ok(Operand::Symbol(Symbol::UNKNOWN));
                }
                Ok(Operand::Unresolved(name))
            }
        }
    }

    /// A register with an element of a vector or a video selector after it.
    fn register(&mut self, reg: Reg) -> Parse<Operand> {
        let text = self.dot();
        let written = Part::find(text);
        let like_selector = text != ".b1024" && (text.starts_with(".b") || text.starts_with(".h"));
        if written.is_none() && !like_selector {
            return Ok(Operand::Reg(reg));
        }
        let span = self.tok.span();
        self.bump();
        let decl = self.body.reg_decl(reg).0;
        let (ty, vector) = (decl.ty, decl.vector > 1);
        let part = written.filter(|p| p.element().is_some() == vector || text == ".b");
        if !vector && ty.bits() != 32 && ty != Type::PRED {
            self.error(span, format!("Unknown field '{text}'"));
            return Ok(Operand::Reg(reg));
        }
        if part.is_none() && vector {
            self.error(span, "Unimplemented feature: vector swizzle");
        } else if part.is_none() {
            self.error(span, format!("Unknown video selector: '{text}'"));
        }
        Ok(Operand::Part { reg, part: part.unwrap_or(Part::UNKNOWN), negated: false })
    }

    fn special(&mut self, row: u16, number: Option<u8>) -> Parse<Operand> {
        let mut component = number;
        if let Some(element) = Part::find(self.dot()).and_then(Part::element) {
            self.bump();
            component = Some(element);
        }
        Ok(Operand::Special { row, component })
    }

    /// `variable`, `variable + 4`, `variable[2]`.
    fn symbol_operand(&mut self, symbol: Symbol) -> Parse<Operand> {
        if self.eat(b'+') {
            let offset = self.offset()?;
            let range = self.store(&[Operand::Symbol(symbol), offset], &[]);
            return Ok(Operand::Sum(range));
        }
        if self.eat(b'[') {
            let offset = self.offset()?;
            self.expect(b']')?;
            let range = self.store(&[Operand::Symbol(symbol), offset], &[]);
            return Ok(Operand::Element(range));
        }
        Ok(Operand::Symbol(symbol))
    }

    fn offset(&mut self) -> Parse<Operand> {
        let span = self.tok.span();
        match self.constant()? {
            Value::Int { value, .. } => Ok(Operand::Offset(value as i64)),
            _ => {
                self.error(span, "Integer constant expression expected");
                Ok(Operand::Offset(0))
            }
        }
    }

    /// `[base]`, `[base + 4]`, `[12]`, or `[name, name, {…}]`.
    fn address(&mut self) -> Parse<Operand> {
        self.expect(b'[')?;
        let mut all: SmallVec<[Operand; 4]> = SmallVec::new();
        let mut waiting: SmallVec<[(u32, Name, Span); 2]> = SmallVec::new();
        if self.tok.kind == TokenKind::Ident && self.text(self.tok) != "WARP_SZ" {
            all.push(self.bare_name(0, &mut waiting)?);
            while self.eat(b',') {
                if self.tok.is(b'{') {
                    all.push(self.operand(false)?);
                    break;
                }
                all.push(self.bare_name(all.len(), &mut waiting)?);
            }
            if all.len() == 1 && self.eat(b'+') {
                all.push(self.offset()?);
            }
        } else {
            all.push(self.offset()?);
            if let [Operand::Offset(value)] = all[..] {
                all[0] = Operand::Int { value: value as u64, unsigned: false };
            }
        }
        self.expect(b']')?;
        Ok(Operand::Address(self.store(&all, &waiting)))
    }

    /// A register or symbol with nothing behind it.
    fn bare_name(&mut self, index: usize, waiting: &mut SmallVec<[(u32, Name, Span); 2]>) -> Parse<Operand> {
        if self.text(self.tok) == "_" {
            return self.syntax_error();
        }
        let (name, span) = self.expect_name()?;
        Ok(match self.names.lookup(name) {
            Meaning::Reg(reg) => Operand::Reg(reg),
            Meaning::Symbol(symbol) => Operand::Symbol(symbol),
            Meaning::Special(row, number) => Operand::Special { row, component: number },
            Meaning::Nothing => {
                waiting.push((index as u32, name, span));
                Operand::Unresolved(name)
            }
        })
    }
}

fn constant(value: Value) -> Operand {
    match value {
        Value::Int { value, unsigned } => Operand::Int { value, unsigned },
        Value::F32(bits) => Operand::F32(bits),
        Value::F64(bits) => Operand::F64(bits),
    }
}
