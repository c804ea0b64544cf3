//! Operands: registers, constants, names, addresses, vectors, lists.
//!
//! Which operands an instruction takes is the table's matter; what can be written at all is decided here, as
//! ptxas's grammar does: a `_` or a pair only for a result, only names and constants in braces, and so on.
//!
//! Operands are pushed on a stack ([`Pending`]) and move to the arena together, once the last of their list has been
//! read: what is nested in them gets there first.

use super::expr::Value;
use super::*;
use crate::sreg;
use crate::types::{Class, Type};
use smallvec::SmallVec;

/// Operands that have no place in the arena yet.
#[derive(Default)]
pub(crate) struct Pending {
    operands: Vec<Operand>,
    /// Those of them that are names without a meaning: index, name, place.
    unresolved: Vec<(usize, Name, Span)>,
}

impl Parser<'_> {
    /// The operands of an instruction, to the semicolon.
    pub(super) fn operands(&mut self, opcode: OpcodeId) -> Parse<Range> {
        self.function.negated.clear();
        if self.opcodes[opcode.0 as usize].takes_lists {
            return self.call_operands();
        }
        if self.tok.is(b';') {
            return Ok(Range { first: self.body.operands.len() as u32, len: 0 });
        }
        for place in 0.. {
            self.operand(opcode, place)?;
            if !self.eat(b',') {
                break;
            }
        }
        Ok(self.store(0))
    }

    /// Reads an operand and pushes it; `place` among the operands.
    fn operand(&mut self, opcode: OpcodeId, place: usize) -> Parse<()> {
        let span = self.tok.span();
        let operand = match self.tok.kind {
            TokenKind::Ident => match self.eat_register() {
                // Most operands are like this: pushed at once, because to hand them around takes time.
                Some(reg) if matches!(self.tok.kind, TokenKind::Punct(b',' | b';')) => {
                    self.pending.operands.push(Operand::Reg(reg));
                    return Ok(());
                }
                Some(reg) => self.register(reg)?,
                None => self.other_name()?,
            },
            TokenKind::Punct(b'[') => self.address(opcode)?,
            TokenKind::Punct(b'{') => self.vector(opcode)?,
            TokenKind::Reserved if place == 0 && self.at_sink() => self.sink(),
            _ => self.signed_or_constant(place)?,
        };
        let paired = place == 0 && self.tok.is(b'|') && !matches!(operand, Operand::Address(_));
        let operand = if paired { self.pair(operand, span)? } else { operand };
        self.push(operand, span);
        Ok(())
    }

    /// `(result), function, (arguments), prototype`
    fn call_operands(&mut self) -> Parse<Range> {
        if self.tok.is(b'(') {
            self.arguments()?;
            self.expect(b',')?;
        }
        self.push_name()?;
        if self.eat(b',') {
            let arguments = self.tok.is(b'(');
            if arguments {
                self.arguments()?;
            }
            if !arguments || self.eat(b',') {
                self.push_name()?;
            }
        }
        Ok(self.store(0))
    }

    /// The function, the register with its address, or the prototype; a sampler or a coordinate.
    fn push_name(&mut self) -> Parse<()> {
        let span = self.tok.span();
        let operand = self.bare_name()?;
        self.push(operand, span);
        Ok(())
    }

    fn arguments(&mut self) -> Parse<()> {
        let span = self.expect(b'(')?.span();
        let range = match self.tok.is(b')') {
            true => Range { first: self.body.operands.len() as u32, len: 0 },
            false => self.elements(None)?,
        };
        self.expect(b')')?;
        self.push(Operand::List(range), span);
        Ok(())
    }

    fn vector(&mut self, opcode: OpcodeId) -> Parse<Operand> {
        self.expect(b'{')?;
        let range = self.elements(Some(opcode))?;
        self.expect(b'}')?;
        Ok(Operand::Vector(range))
    }

    /// What stands in the braces of an instruction, or in the parentheses of a call, where a register has no
    /// parts.
    fn elements(&mut self, braces: Option<OpcodeId>) -> Parse<Range> {
        let first = self.pending.operands.len();
        loop {
            let span = self.tok.span();
            let operand = match self.tok.kind {
                TokenKind::Ident => self.bare_name()?,
                TokenKind::Reserved if self.at_sink() => self.sink(),
                _ => constant(self.constant()?),
            };
            let operand = if braces.is_some() { self.selected(operand)? } else { operand };
            self.push(operand, span);
            if !self.eat(b',') {
                break;
            }
        }
        if let Some(opcode) = braces {
            self.check_elements(first);
            self.check_widths(first);
            let size = self.pending.operands.len() - first;
            if !self.opcodes[opcode.0 as usize].reads_vector(size) {
                self.error(self.tok.span(), format!("Illegal vector size: {size}"));
            }
        }
        Ok(self.store(first))
    }

    /// A vector has the type of its elements: what isn't a scalar is refused here already, and counts as the
    /// first element that is one. The elements are what has been pushed since `first`.
    fn check_elements(&mut self, first: usize) {
        let scalar = |o: &&Operand| **o != Operand::Sink && self.not_scalar(o).is_none();
        let typed = self.pending.operands[first..].iter().find(scalar).copied();
        for i in first..self.pending.operands.len() {
            if let Some(name) = self.not_scalar(&self.pending.operands[i]) {
                self.error(self.tok.span(), format!("Illegal expression '{name}'"));
                self.pending.operands[i] = typed.unwrap_or(Operand::Sink);
            }
        }
        if typed.is_none() {
            self.error(self.tok.span(), "Unable to infer type of vector elements (assuming .b8)");
        }
    }

    /// The name of an element that is no register or constant, or a vector itself.
    fn not_scalar(&self, element: &Operand) -> Option<String> {
        match element {
            Operand::Unresolved(name) => Some(self.names.text(*name).to_string()),
            Operand::Symbol(symbol) => Some(self.symbol_name(*symbol)),
            Operand::Reg(reg) if self.body.reg_decl(*reg).0.vector > 1 => Some(self.reg_name(*reg)),
            Operand::Special { row, component: None } if sreg::TABLE[*row as usize].vector => {
                Some(sreg::TABLE[*row as usize].name.to_string())
            }
            _ => None,
        }
    }

    /// The registers of a vector are as wide as its first one; predicates don't count.
    fn check_widths(&mut self, first: usize) {
        let elements = self.pending.operands[first..].iter();
        let widths: SmallVec<[u32; 8]> =
            elements.filter_map(|e| self.element_type(e)).map(Type::bits).collect();
        for _ in widths.iter().filter(|bits| Some(*bits) != widths.first()) {
            self.error(self.tok.span(), "Incompatible elements of vector expression");
        }
    }

    /// The type that an element gives to a vector.
    pub(crate) fn element_type(&self, element: &Operand) -> Option<Type> {
        let ty = match element {
            Operand::Reg(reg) | Operand::Part { reg, .. } => self.body.reg_decl(*reg).0.ty,
            Operand::Special { .. } => Type::B32,
            _ => return None,
        };
        Some(ty).filter(|ty| ty.class() != Class::Pred)
    }

    /// A name by itself.
    fn bare_name(&mut self) -> Parse<Operand> {
        if let Some(reg) = self.eat_register() {
            return Ok(Operand::Reg(reg));
        }
        let (name, _) = self.expect_name()?;
        Ok(match self.names.lookup(name) {
            Meaning::Reg(reg) => Operand::Reg(reg),
            Meaning::Special(row, component) => Operand::Special { row, component },
            Meaning::Symbol(symbol) => Operand::Symbol(symbol),
            Meaning::Nothing => Operand::Unresolved(name),
        })
    }

    /// `.x` after an element of a vector.
    fn selected(&mut self, operand: Operand) -> Parse<Operand> {
        if self.tok.kind != TokenKind::Dot {
            return Ok(operand);
        }
        match operand {
            Operand::Reg(reg) => {
                let word = self.bump();
                Ok(self.part(reg, word))
            }
            Operand::Special { row, component } => self.special(row, component),
            _ => self.syntax_error(),
        }
    }

    fn push(&mut self, operand: Operand, span: Span) {
        if let Operand::Unresolved(name) = operand {
            self.pending.unresolved.push((self.pending.operands.len(), name, span));
        }
        self.pending.operands.push(operand);
    }

    /// Moves what has been pushed since `from` to the arena.
    fn store(&mut self, from: usize) -> Range {
        let Pending { operands, unresolved } = &mut self.pending;
        let first = self.body.operands.len() as u32;
        let waiting = unresolved.partition_point(|(i, _, _)| *i < from);
        for (i, name, span) in unresolved.drain(waiting..) {
            self.function.unresolved.push((first + (i - from) as u32, name, span));
        }
        self.body.operands.extend_from_slice(&operands[from..]);
        let len = (operands.len() - from) as u32;
        operands.truncate(from);
        Range { first, len }
    }

    fn at_sink(&self) -> bool {
        self.tok.kind == TokenKind::Reserved && self.text(self.tok) == "_"
    }

    fn sink(&mut self) -> Operand {
        self.advance();
        Operand::Sink
    }

    /// `%p | %q`
    fn pair(&mut self, first: Operand, first_span: Span) -> Parse<Operand> {
        self.expect(b'|')?;
        let span = self.tok.span();
        let second = if self.at_sink() && first != Operand::Sink { self.sink() } else { self.bare_name()? };
        let from = self.pending.operands.len();
        self.push(first, first_span);
        self.push(second, span);
        Ok(Operand::Pair(self.store(from)))
    }

    /// A name with `!` or `-` before it, or a constant.
    fn signed_or_constant(&mut self, place: usize) -> Parse<Operand> {
        let before_name = matches!(self.tok.kind, TokenKind::Punct(b'!' | b'-')) && self.next_is_name();
        match self.tok.kind {
            TokenKind::Punct(b'!') if before_name => {
                self.advance();
                let operand = self.named()?;
                let pred = matches!(operand, Operand::Reg(r) if self.body.reg_decl(r).0.ty == Type::PRED);
                if !pred {
                    self.error(self.tok.span(), "Illegal argument to predicate negation");
                }
                Ok(if let Operand::Reg(reg) = operand { Operand::Not(reg) } else { operand })
            }
            TokenKind::Punct(b'-') if before_name => {
                self.advance();
                self.function.negated.push(place);
                self.negated()
            }
            _ => Ok(constant(self.constant()?)),
        }
    }

    /// What follows a minus: only words of 32 bits can be negated.
    fn negated(&mut self) -> Parse<Operand> {
        let start = self.tok.span();
        let operand = self.named()?;
        let (ty, span) = match operand {
            Operand::Reg(reg) | Operand::Part { reg, .. } => (Some(self.body.reg_decl(reg).0.ty), start),
            Operand::Special { row, component } => {
                let reg = &sreg::TABLE[row as usize];
                (Some(reg.ty).filter(|_| component.is_some() || !reg.vector), self.tok.span())
            }
            _ => (None, self.tok.span()),
        };
        if !ty.is_some_and(|ty| ty.bits() == 32 && (ty.is_int() || ty.class() == Class::Bits)) {
            self.error(span, "Illegal argument to unary minus");
        }
        Ok(match operand {
            Operand::Reg(reg) => Operand::Negated(reg),
            Operand::Part { reg, part, .. } => Operand::Part { reg, part, negated: true },
            other => other,
        })
    }

    /// Does a name (not `WARP_SZ`) follow the current token?
    fn next_is_name(&mut self) -> bool {
        let rest = self.lexer.peek_after_blank();
        let starts = rest.first().is_some_and(|b| matches!(b, b'%' | b'_' | b'$') || b.is_ascii_alphabetic());
        starts && !rest.starts_with(b"WARP_SZ")
    }

    /// A register, special register, variable, function or label, with what may follow each.
    fn named(&mut self) -> Parse<Operand> {
        match self.eat_register() {
            Some(reg) => self.register(reg),
            None => self.other_name(),
        }
    }

    /// The same for a name that isn't plainly a member of a register range.
    fn other_name(&mut self) -> Parse<Operand> {
        let (name, span) = self.expect_name()?;
        match self.names.lookup(name) {
            Meaning::Reg(reg) => self.register(reg),
            Meaning::Special(row, number) => self.special(row, number),
            Meaning::Symbol(symbol) => self.symbol_operand(symbol),
            Meaning::Nothing => self.unknown_operand(name, span),
        }
    }

    /// Only a variable that doesn't exist could go on with an offset, an index or a field.
    fn unknown_operand(&mut self, name: Name, span: Span) -> Parse<Operand> {
        match self.tok.kind {
            TokenKind::Punct(b'+') => {
                self.advance();
                self.integer_constant()?;
            }
            TokenKind::Punct(b'[') => {
                self.no_array()?;
            }
            TokenKind::Dot => {
                let field = self.bump();
                let text = format!("Unknown field '{}'", self.text(field));
                self.error(self.tok.span(), text);
            }
            _ => return Ok(Operand::Unresolved(name)),
        }
        self.unknown(self.names.text(name), span);
        Ok(Operand::Symbol(Symbol::UNKNOWN))
    }

    /// `[…]` behind something that has no elements.
    fn no_array(&mut self) -> Parse<()> {
        self.expect(b'[')?;
        let span = self.tok.span();
        match self.tok.kind {
            TokenKind::Ident => {
                if let Operand::Unresolved(name) = self.bare_name()? {
                    self.unknown(self.names.text(name), span);
                }
            }
            _ => drop(self.integer_constant()?),
        }
        self.expect(b']')?;
        self.error(self.tok.span(), "Array indexing on non-array");
        Ok(())
    }

    fn register(&mut self, reg: Reg) -> Parse<Operand> {
        match self.tok.kind {
            TokenKind::Dot => {
                let word = self.bump();
                Ok(self.part(reg, word))
            }
            TokenKind::Punct(b'+') => {
                self.advance();
                self.register_sum(reg)
            }
            TokenKind::Punct(b'[') => {
                self.no_array()?;
                Ok(Operand::Reg(reg))
            }
            _ => Ok(Operand::Reg(reg)),
        }
    }

    /// `.x` of a vector, or a selector of the video instructions.
    fn part(&mut self, reg: Reg, word: Token) -> Operand {
        let text = self.text(word);
        let decl = self.body.reg_decl(reg).0;
        let (ty, vector) = (decl.ty, decl.vector);
        let found = Part::find(text);
        let element = found.and_then(Part::element);
        if vector > 1 {
            let part = self.vector_selector(word).filter(|e| *e < vector);
            let unknown = part.is_none() && element.is_some();
            if unknown {
                self.error(word.span(), format!("Unknown vector selector: '{}'", &text[1..]));
            }
            let part = part.and(found).unwrap_or(Part::UNKNOWN);
            return Operand::Part { reg, part, negated: false };
        }
        let fits = found.is_some() && (element.is_none() || text == ".b");
        let message = match found {
            _ if ty.bits() != 32 && ty != Type::PRED => format!("Unknown field '{text}'"),
            Some(part) if fits => return Operand::Part { reg, part, negated: false },
            _ => format!("Unknown video selector: '{text}'"),
        };
        self.error(word.span(), message);
        match found.filter(|_| ty.bits() == 32) {
            Some(part) => Operand::Part { reg, part, negated: false },
            None => Operand::Reg(reg),
        }
    }

    /// The element that a selector of a vector names. Its first letter counts; there are no others yet.
    fn vector_selector(&mut self, word: Token) -> Option<u8> {
        let text = self.text(word);
        let first = text.get(..2).unwrap_or(text);
        let element = Part::find(first).and_then(Part::element);
        if element.is_none() {
            self.error(word.span(), format!("Unknown vector selector: '{}'", &first[1..]));
        }
        if text.len() > 2 {
            self.error(word.span(), "Unimplemented feature: vector swizzle");
        }
        element
    }

    fn special(&mut self, row: u16, number: Option<u8>) -> Parse<Operand> {
        let mut component = number;
        if self.tok.kind == TokenKind::Dot {
            let word = self.bump();
            if sreg::TABLE[row as usize].vector {
                component = Some(self.vector_selector(word).unwrap_or(0));
            } else {
                let text = self.text(word);
                self.error(word.span(), format!("Unknown field '{text}'"));
            }
        }
        Ok(Operand::Special { row, component })
    }

    /// `variable`, `variable + 4`, `variable[2]`, `variable[%r1]`.
    fn symbol_operand(&mut self, symbol: Symbol) -> Parse<Operand> {
        if self.tok.kind == TokenKind::Dot {
            let field = self.bump();
            let text = format!("Unknown field '{}'", self.text(field));
            self.error(self.tok.span(), text);
            return Ok(Operand::Symbol(symbol));
        }
        if self.eat(b'+') {
            let from = self.pending.operands.len();
            self.pending.operands.push(Operand::Symbol(symbol));
            self.push_offset()?;
            return Ok(Operand::Sum(self.store(from)));
        }
        if self.eat(b'[') {
            return self.element_of(symbol);
        }
        Ok(Operand::Symbol(symbol))
    }

    /// `2]`, `%r1]` or `%r1 + 2]` after a variable.
    fn element_of(&mut self, symbol: Symbol) -> Parse<Operand> {
        let from = self.pending.operands.len();
        self.pending.operands.push(Operand::Symbol(symbol));
        if self.tok.kind == TokenKind::Ident {
            let index = self.array_index()?;
            self.pending.operands.push(index);
            if self.eat(b'+') {
                self.push_offset()?;
            }
        } else {
            self.push_offset()?;
        }
        self.expect(b']')?;
        if !self.is_variable(symbol) {
            self.error(self.tok.span(), "Array indexing on non-array");
            self.pending.operands.truncate(from);
            return Ok(Operand::Symbol(symbol));
        }
        Ok(Operand::Element(self.store(from)))
    }

    fn array_index(&mut self) -> Parse<Operand> {
        let span = self.tok.span();
        let index = self.bare_name()?;
        match index {
            Operand::Unresolved(name) => {
                self.unknown(self.names.text(name), span);
                return Ok(Operand::Symbol(Symbol::UNKNOWN));
            }
            Operand::Reg(reg) => {
                let ty = self.body.reg_decl(reg).0.ty;
                if !(ty.is_int() || ty.class() == Class::Bits) {
                    let name = self.reg_name(reg);
                    let text = format!(
                        "Illegal to use symbol '{name}' of type {ty:?} as array index. Use integer or bit only."
                    );
                    self.error(span, text);
                }
            }
            _ => {}
        }
        Ok(index)
    }

    fn is_variable(&self, symbol: Symbol) -> bool {
        matches!(
            self.symbols.get(symbol.0 as usize),
            Some(SymbolInfo { kind: SymbolKind::Variable { .. }, .. })
        )
    }

    fn push_offset(&mut self) -> Parse<()> {
        let offset = self.integer_constant()? as i64;
        self.pending.operands.push(Operand::Offset(offset));
        Ok(())
    }

    /// `[base]`, `[base + 4]`, `[base, {…}]`, `[base, name]`, `[base, name, {…}]`
    fn address(&mut self, opcode: OpcodeId) -> Parse<Operand> {
        self.expect(b'[')?;
        let from = self.pending.operands.len();
        let span = self.tok.span();
        let base = match self.tok.kind {
            TokenKind::Ident => self.bare_name()?,
            _ => Operand::Int { value: self.integer_constant()?, unsigned: false },
        };
        self.push(base, span);
        if self.eat(b'+') {
            self.push_offset()?;
        } else {
            self.coordinates(opcode)?;
        }
        self.expect(b']')?;
        Ok(Operand::Address(self.store(from)))
    }

    /// What follows a texture, surface or tensor map in brackets: a sampler or a coordinate, and a vector.
    fn coordinates(&mut self, opcode: OpcodeId) -> Parse<()> {
        for place in 1.. {
            if !self.eat(b',') {
                break;
            }
            if self.tok.is(b'{') {
                let vector = self.vector(opcode)?;
                self.pending.operands.push(vector);
                break;
            }
            if place > 1 {
                return self.syntax_error();
            }
            self.push_name()?;
        }
        Ok(())
    }
}

fn constant(value: Value) -> Operand {
    match value {
        Value::Int { value, unsigned } => Operand::Int { value, unsigned },
        Value::F32(bits) => Operand::F32(bits),
        Value::F64(bits) => Operand::F64(bits),
    }
}
