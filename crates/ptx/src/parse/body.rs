//! Function bodies: statements, labels, instructions.

use super::decl::Scope;
use super::directive::PragmaPlace;
use super::function::List;
use super::*;
use crate::table::{OpcodeError, mnemonic, resolve};

impl<'s> Parser<'s> {
    /// `{ … }` of a function; the place of the last brace. Labels are settled at its end.
    pub(super) fn function_body(&mut self) -> Parse<Span> {
        self.expect(b'{')?;
        // For each open block: how many uses waited for a label when it began.
        let mut blocks: Vec<usize> = Vec::new();
        loop {
            if self.tok.is(b'}') {
                let brace = self.bump().span();
                let Some(waiting) = blocks.pop() else {
                    self.settle_scope(0);
                    self.report_unknown()?;
                    return Ok(brace);
                };
                self.settle_scope(waiting);
                self.names.close();
                self.add_statement(Stmt::Close);
            } else if self.tok.is(b'{') {
                self.advance();
                blocks.push(self.function.unresolved.len());
                self.names.open();
                self.add_statement(Stmt::Open);
            } else {
                self.statement()?;
            }
        }
    }

    /// Keeps a statement, if the body is wanted.
    pub(super) fn add_statement(&mut self, stmt: Stmt<'s>) {
        if !self.check_only {
            self.body.stmts.push(stmt);
        }
    }

    /// The body that was parsed, in memory of just its size; the parser keeps its own for the next one.
    pub(super) fn take_body(&mut self) -> Body<'s> {
        if self.check_only {
            self.clear_body();
            return Body::default();
        }
        Body {
            stmts: self.body.stmts.drain(..).collect(),
            operands: self.body.operands.drain(..).collect(),
            regs: self.body.regs.drain(..).collect(),
        }
    }

    pub(super) fn clear_body(&mut self) {
        self.body.stmts.clear();
        self.body.operands.clear();
        self.body.regs.clear();
    }

    fn statement(&mut self) -> Parse<()> {
        match self.tok.kind {
            TokenKind::Ident => self.label_or_instruction(),
            TokenKind::Punct(b'@') => self.guarded(),
            TokenKind::Dot => self.directive(),
            _ => self.syntax_error(),
        }
    }

    fn directive(&mut self) -> Parse<()> {
        let start = self.tok.span();
        let stmt = match self.dot() {
            ".loc" => Stmt::Loc(Box::new(self.loc()?)),
            ".pragma" => Stmt::Pragma(Box::new(self.pragma(PragmaPlace::Body)?)),
            ".alias" => Stmt::Alias(Box::new(self.alias()?)),
            ".func" | ".extern" | ".visible" | ".weak" => {
                let linkage = self.linkage(FUNCTION_LINKAGES);
                if self.dot() != ".func" {
                    return self.syntax_error();
                }
                Stmt::Function(Box::new(self.inner_declaration(linkage, start)?))
            }
            ".IF" => return self.fatal(start, "Ill formed conditional"),
            _ => {
                for variable in self.variables(Linkage::default(), Scope::Body)? {
                    self.add_statement(Stmt::Variable(Box::new(variable)));
                }
                return Ok(());
            }
        };
        self.add_statement(stmt);
        Ok(())
    }

    fn label_or_instruction(&mut self) -> Parse<()> {
        let first = self.tok;
        if self.lexer.peek_byte() != b'.' && self.lexer.peek_after_blank().first() == Some(&b':') {
            self.advance();
            return self.label(first);
        }
        self.instruction()
    }

    fn label(&mut self, token: Token) -> Parse<()> {
        let colon = self.expect(b':')?;
        let name = self.names.intern(self.text(token));
        let span = token.span();
        let kind = match self.dot() {
            ".branchtargets" | ".calltargets" => SymbolKind::Targets,
            ".callprototype" => SymbolKind::Prototype,
            _ => SymbolKind::Label,
        };
        let symbol = self.new_symbol(name, kind, span);
        if self.names.define(name, Meaning::Symbol(symbol)).is_err() {
            let text = self.names.text(name);
            self.error(colon.span(), format!("Duplicate definition of label '{text}'"));
        }
        let stmt = match self.dot() {
            ".branchtargets" => self.targets(symbol, span, false)?,
            ".calltargets" => self.targets(symbol, span, true)?,
            ".callprototype" => self.prototype(symbol, span)?,
            _ => Stmt::Label(symbol, span),
        };
        self.add_statement(stmt);
        Ok(())
    }

    /// `.branchtargets a, b, c<4>;` or `.calltargets f, g;`
    fn targets(&mut self, label: Symbol, span: Span, calls: bool) -> Parse<Stmt<'s>> {
        let word = self.bump().span();
        match calls {
            true => self.gate(".calltargets directive", Version::new(2, 1), 20, word),
            false => self.gate(".branchtargets directive", Version::new(6, 0), 30, word),
        }
        let first = self.body.operands.len() as u32;
        loop {
            if self.tok.kind != TokenKind::Ident {
                return self.syntax_error();
            }
            let span = self.bump().span();
            let text = self.slice(span);
            if self.eat(b'<') {
                let count = self.small_int()?;
                self.expect(b'>')?;
                self.numbered_targets(text, span, count)?;
            } else {
                let name = self.names.intern(text);
                let meaning = self.names.lookup(name);
                match calls {
                    true => self.call_target(meaning),
                    false => self.branch_target(meaning, name, span),
                }
            }
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';')?;
        let targets = Range { first, len: self.body.operands.len() as u32 - first };
        if calls {
            self.remember_call_targets(label, targets);
        }
        Ok(Stmt::Targets(Box::new(Targets { label, calls, targets, span })))
    }

    /// `L<3>` means `L0, L1, L2`. What is no name in the source is no label.
    fn numbered_targets(&mut self, prefix: &str, span: Span, count: u32) -> Parse<()> {
        self.module.numbered_targets += u64::from(count);
        if self.module.numbered_targets > FEW_TARGETS + self.source.len() as u64 {
            return self.fatal(span, "Too many branch targets");
        }
        for i in 0..count {
            let text = format!("{prefix}{i}");
            match self.numbered_name(&text) {
                Some(text) => {
                    let name = self.names.intern(text);
                    let meaning = self.names.lookup(name);
                    self.branch_target(meaning, name, span);
                }
                None if self.names.is_member(&text) => self.no_label(),
                None => {
                    self.unknown(&text, span);
                    self.body.operands.push(Operand::Symbol(Symbol::UNKNOWN));
                }
            }
        }
        Ok(())
    }

    /// The name in the source with this text, which ends in a number.
    fn numbered_name(&mut self, text: &str) -> Option<&'s str> {
        let source = self.source;
        self.numbered_names.get_or_insert_with(|| Lexer::new(source).numbered_names()).get(text).copied()
    }

    fn branch_target(&mut self, meaning: Meaning, name: Name, span: Span) {
        let operand = match meaning {
            Meaning::Symbol(symbol) if self.is_label(symbol) => Operand::Symbol(symbol),
            Meaning::Nothing => {
                let place = self.body.operands.len() as u32;
                self.function.unresolved.push((place, name, span));
                Operand::Unresolved(name)
            }
            _ => return self.no_label(),
        };
        self.body.operands.push(operand);
    }

    fn no_label(&mut self) {
        self.error(self.tok.span(), "Illegal branch target, label expected");
        self.body.operands.push(Operand::Symbol(Symbol::UNKNOWN));
    }

    fn is_label(&self, symbol: Symbol) -> bool {
        let kind = self.symbols.get(symbol.0 as usize).map(|s| &s.kind);
        matches!(kind, Some(SymbolKind::Label | SymbolKind::Targets))
    }

    fn call_target(&mut self, meaning: Meaning) {
        let operand = match meaning {
            Meaning::Symbol(symbol) => Operand::Symbol(symbol),
            _ => Operand::Symbol(Symbol::UNKNOWN),
        };
        if !matches!(operand, Operand::Symbol(symbol) if self.signatures.contains_key(&symbol)) {
            self.error(self.tok.span(), "Illegal call target, device function expected");
        }
        self.body.operands.push(operand);
    }

    /// What a call through the label is checked against; nothing if one of the names has no meaning at all.
    fn remember_call_targets(&mut self, label: Symbol, targets: Range) {
        let list = self.body.list(targets);
        if list.contains(&Operand::Symbol(Symbol::UNKNOWN)) {
            return;
        }
        let function = |o: &Operand| match o {
            Operand::Symbol(symbol) if self.signatures.contains_key(symbol) => Some(*symbol),
            _ => None,
        };
        let functions = list.iter().filter_map(function).collect();
        self.call_targets.insert(label, functions);
    }

    /// `.callprototype (…) _ (…) .noreturn;`
    fn prototype(&mut self, label: Symbol, span: Span) -> Parse<Stmt<'s>> {
        let word = self.bump().span();
        self.gate(".callprototype directive", Version::new(2, 1), 20, word);
        let mark = self.registers_so_far();
        let inside = self.prototype_inside(label, span, word);
        // Registers of a prototype are formal: they take no number of the function.
        self.forget_registers(mark);
        inside
    }

    fn prototype_inside(&mut self, label: Symbol, span: Span, word: Span) -> Parse<Stmt<'s>> {
        let returns = if self.tok.is(b'(') { self.prototype_params(List::Returns)? } else { Vec::new() };
        if self.tok.kind != TokenKind::Reserved || self.text(self.tok) != "_" {
            return self.syntax_error();
        }
        self.advance();
        let params = if self.tok.is(b'(') { self.prototype_params(List::Params)? } else { Vec::new() };
        let directives = self.device_directives()?;
        self.expect(b';')?;
        self.check_returns(&returns, word);
        // ptxas spells it like this.
        self.check_noreturn(&directives, &returns, "protoype with return parameters", word);
        self.signatures.insert(label, Signature::of(&returns, &params));
        Ok(Stmt::Prototype(Box::new(Prototype { label, returns, params, directives, span })))
    }

    fn guarded(&mut self) -> Parse<()> {
        self.advance();
        let negated = self.eat(b'!');
        let span = self.tok.span();
        let (name, meaning) = match self.eat_register() {
            Some(reg) => (Name(0), Meaning::Reg(reg)),
            None => {
                let (name, _) = self.expect_name()?;
                (name, self.names.lookup(name))
            }
        };
        let guard = match meaning {
            Meaning::Reg(reg) => {
                if self.body.reg_decl(reg).0.ty != crate::types::Type::PRED {
                    self.error(span, "Predicate expression expected");
                }
                Some(Guard { predicate: Predicate::Reg(reg), negated })
            }
            Meaning::Special(row, _) if crate::sreg::TABLE[row as usize].ty == crate::types::Type::PRED => {
                self.check_special(span, row);
                Some(Guard { predicate: Predicate::Special(row), negated })
            }
            _ => {
                self.error(span, "Predicate expression expected");
                if meaning == Meaning::Nothing {
                    self.unknown(self.names.text(name), span);
                }
                None
            }
        };
        if self.tok.kind != TokenKind::Ident {
            return self.syntax_error();
        }
        let start = self.tok.span();
        let (opcode, _) = self.opcode()?;
        self.operands_of(opcode, guard, start)
    }

    /// ptxas looks one token past a mnemonic to see that it is no label, so its messages have that token's
    /// line.
    fn instruction(&mut self) -> Parse<()> {
        let mnemonic = self.tok.span();
        let glued = self.lexer.peek_byte() == b'.';
        let (opcode, next) = self.opcode()?;
        let between = Span { start: mnemonic.end, end: next.start };
        let start = if !glued && self.slice(between).contains('\n') { next } else { mnemonic };
        self.operands_of(opcode, None, start)
    }

    fn operands_of(&mut self, opcode: OpcodeId, guard: Option<Guard>, start: Span) -> Parse<()> {
        self.report_spelling(opcode, start);
        let operands = self.operands(opcode)?;
        let end = self.expect(b';')?;
        let inst = Inst { opcode, guard, operands, span: start.to(end.span()) };
        self.check_instruction(&inst)?;
        self.check_argument_guard(&inst);
        self.add_statement(Stmt::Inst(inst));
        Ok(())
    }

    /// Says what is wrong with the modifiers one by one, as ptxas does before it reads the operands.
    fn report_spelling(&mut self, opcode: OpcodeId, span: Span) {
        let remarks = &self.opcodes[opcode.0 as usize].errors;
        if remarks.is_empty() {
            return;
        }
        for remark in remarks.clone() {
            match remark {
                OpcodeError::Word(text) => self.error(span, text),
                OpcodeError::Warning(text) => self.warn(span, text),
                OpcodeError::Form(_) | OpcodeError::Syntax { .. } => {}
            }
        }
    }

    /// The mnemonic and its modifiers, and the token behind what stands together; the current token is the
    /// mnemonic.
    fn opcode(&mut self) -> Parse<(OpcodeId, Span)> {
        let start = self.tok.start;
        let end = self.lexer.opcode_tail();
        let spelling = self.slice(Span { start, end });
        self.advance();
        let next = self.tok.span();
        if self.tok.kind == TokenKind::Dot {
            return Ok((self.spaced_opcode(spelling, start)?, next));
        }
        if let Some(id) = self.opcode_ids.get(spelling) {
            return Ok((*id, next));
        }
        let id = self.new_opcode(spelling.to_string(), spelling.len(), start)?;
        self.opcode_ids.insert(spelling, id);
        Ok((id, next))
    }

    /// Blanks stand between the words of this opcode, but not within its mnemonic: put it together by hand.
    fn spaced_opcode(&mut self, spelling: &str, start: u32) -> Parse<OpcodeId> {
        let mut whole = spelling.to_string();
        while self.tok.kind == TokenKind::Dot {
            let token = self.bump();
            whole.push_str(self.text(token));
        }
        self.new_opcode(whole, spelling.len(), start)
    }

    /// The opcode that is spelled like this, new or met before with other blanks in it. `glued`: how much of the
    /// spelling stands together.
    pub(super) fn new_opcode(&mut self, spelling: String, glued: usize, start: u32) -> Parse<OpcodeId> {
        let key = (mnemonic(&spelling, glued), spelling);
        if let Some(id) = self.resolved_ids.get(&key) {
            return Ok(*id);
        }
        let opcode = resolve(&key.1, glued, self.target, self.version, self.toolkit);
        if let Some(OpcodeError::Syntax { at, word }) = opcode.errors.last() {
            let at = start as usize + at;
            let message = format!("Parsing error near '{word}': syntax error");
            return self.fatal(Span::new(at, at + word.len()), message);
        }
        let id = OpcodeId(self.opcodes.len() as u32);
        self.opcodes.push(opcode);
        self.resolved_ids.insert(key, id);
        Ok(id)
    }

    /// At the end of a scope its labels are known: fills in the uses in it that came before them. A name that
    /// turned out to be something else is kept for [`Parser::report_unknown`].
    fn settle_scope(&mut self, first: usize) {
        let waiting = self.function.unresolved.split_off(first.min(self.function.unresolved.len()));
        for (place, name, span) in waiting {
            match self.names.lookup(name) {
                Meaning::Nothing => self.function.unresolved.push((place, name, span)),
                Meaning::Symbol(symbol)
                    if matches!(self.symbols[symbol.0 as usize].kind, SymbolKind::Label) =>
                {
                    self.body.operands[place as usize] = Operand::Symbol(symbol);
                }
                _ => {
                    let name = self.names.text(name).to_string();
                    self.function.unknown.push(Unknown { name, span, place, declared_later: true });
                }
            }
        }
    }

    /// At the end of the function what is still unknown is an error, in order of the source.
    fn report_unknown(&mut self) -> Parse<()> {
        let mut unknown = std::mem::take(&mut self.function.unknown);
        for (place, name, span) in std::mem::take(&mut self.function.unresolved) {
            let name = self.names.text(name).to_string();
            unknown.push(Unknown { name, span, place, declared_later: false });
        }
        unknown.sort_by_key(|u| (u.span.start, u.place));
        for Unknown { name, span, declared_later, .. } in unknown {
            if declared_later {
                return self.fatal(span, format!("Label expected for forward reference of '{name}'"));
            }
            self.error(span, format!("Unknown symbol '{name}'"));
        }
        Ok(())
    }
}

/// Ranges may name this many branch targets, and one more for each byte of the source: more are no program, and would
/// take memory without end.
const FEW_TARGETS: u64 = 1 << 16;

/// The words of linkage before a declaration of a function in a body.
const FUNCTION_LINKAGES: &[&str] = &[".extern", ".visible", ".weak"];
