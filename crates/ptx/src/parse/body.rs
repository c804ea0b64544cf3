//! Function bodies: statements, labels, instructions.

use super::*;
use crate::table::{OpcodeError, resolve};

impl<'s> Parser<'s> {
    /// `{ … }` of a function. Labels are settled at its end.
    pub(super) fn function_body(&mut self) -> Parse<()> {
        self.expect(b'{')?;
        let mut depth = 0u32;
        loop {
            if self.tok.is(b'}') {
                self.bump();
                if depth == 0 {
                    break;
                }
                depth -= 1;
                self.settle_scope();
                self.names.close();
                self.body.stmts.push(Stmt::Close);
            } else if self.tok.is(b'{') {
                self.bump();
                depth += 1;
                self.names.open();
                self.body.stmts.push(Stmt::Open);
            } else {
                self.statement()?;
            }
        }
        self.settle_scope();
        self.report_unknown();
        Ok(())
    }

    fn statement(&mut self) -> Parse<()> {
        match self.tok.kind {
            TokenKind::Ident => self.label_or_instruction(),
            TokenKind::Punct(b'@') => self.guarded(),
            TokenKind::Dot => self.directive(),
            // An empty statement.
            TokenKind::Punct(b';') => {
                self.bump();
                Ok(())
            }
            _ => self.syntax_error(),
        }
    }

    fn directive(&mut self) -> Parse<()> {
        let word = self.dot();
        let stmt = match word {
            ".reg" => {
                self.bump();
                Stmt::Regs(self.registers()?)
            }
            ".loc" => Stmt::Loc(Box::new(self.loc()?)),
            ".pragma" => Stmt::Pragma(Box::new(self.pragma()?)),
            ".file" => {
                self.file()?;
                return Ok(());
            }
            _ => {
                let space = match word {
                    ".local" => Space::Local,
                    ".shared" | ".shared::cta" => Space::Shared,
                    ".param" => Space::Param,
                    ".global" => Space::Global,
                    ".const" => Space::Const,
                    ".extern" | ".visible" | ".weak" => return self.linked_variable(),
                    _ => return self.syntax_error(),
                };
                self.bump();
                return self.local_variables(Linkage::default(), space);
            }
        };
        self.body.stmts.push(stmt);
        Ok(())
    }

    fn linked_variable(&mut self) -> Parse<()> {
        let mut linkage = Linkage::default();
        match self.dot() {
            ".extern" => linkage.external = true,
            ".weak" => linkage.weak = true,
            _ => linkage.visible = true,
        }
        self.bump();
        match self.dot() {
            ".shared" | ".shared::cta" => {
                self.bump();
                self.local_variables(linkage, Space::Shared)
            }
            ".global" => {
                self.bump();
                self.local_variables(linkage, Space::Global)
            }
            _ => self.syntax_error(),
        }
    }

    fn local_variables(&mut self, linkage: Linkage, space: Space) -> Parse<()> {
        for variable in self.variables(linkage, space)? {
            self.body.stmts.push(Stmt::Variable(Box::new(variable)));
        }
        Ok(())
    }

    fn label_or_instruction(&mut self) -> Parse<()> {
        let first = self.tok;
        if self.lexer.peek_byte() != b'.' && self.lexer.peek_after_blank().first() == Some(&b':') {
            self.bump();
            return self.label(first);
        }
        self.instruction(None, first.span())
    }

    fn label(&mut self, token: Token) -> Parse<()> {
        self.expect(b':')?;
        let name = self.names.intern(self.text(token));
        let span = token.span();
        let symbol = match self.dot() {
            word @ (".branchtargets" | ".calltargets") => {
                self.bump();
                let symbol = self.new_symbol(name, SymbolKind::Targets, span);
                let mut targets = Vec::new();
                loop {
                    let (target, span) = self.expect_name()?;
                    targets.push((target, span));
                    if !self.eat(b',') {
                        break;
                    }
                }
                self.expect(b';')?;
                let first = self.body.operands.len() as u32;
                for (target, span) in &targets {
                    self.use_name(*target, *span);
                }
                let targets = Range { first, len: targets.len() as u32 };
                let calls = word == ".calltargets";
                if calls {
                    self.call_targets(symbol, targets, span);
                }
                self.body.stmts.push(Stmt::Targets(Box::new(Targets {
                    label: symbol,
                    calls,
                    targets,
                    span,
                })));
                symbol
            }
            ".callprototype" => {
                self.bump();
                self.prototype(name, span)?
            }
            _ => {
                let symbol = self.new_symbol(name, SymbolKind::Label, span);
                self.body.stmts.push(Stmt::Label(symbol, span));
                symbol
            }
        };
        self.declare(name, Meaning::Symbol(symbol), "label", span);
        Ok(())
    }

    /// Calls through the label are checked against each of its functions.
    fn call_targets(&mut self, label: Symbol, targets: Range, span: Span) {
        let mut functions = Vec::new();
        for target in self.body.list(targets) {
            match target {
                Operand::Symbol(s) if self.signatures.contains_key(s) => functions.push(*s),
                _ => {}
            }
        }
        if functions.len() < targets.len as usize {
            self.error(span, "Illegal call target, device function expected");
        }
        self.call_targets.insert(label, functions);
    }

    fn prototype(&mut self, name: Name, span: Span) -> Parse<Symbol> {
        self.names.open();
        let regs = (self.body.regs.len(), self.function.next_reg);
        let inside = self.prototype_inside(name, span);
        // Registers of a prototype are formal: they take no number of the function.
        self.body.regs.truncate(regs.0);
        self.function.next_reg = regs.1;
        self.names.close();
        inside
    }

    fn prototype_inside(&mut self, name: Name, span: Span) -> Parse<Symbol> {
        let returns = if self.tok.is(b'(') { self.params()? } else { Vec::new() };
        if self.text(self.tok) != "_" {
            return self.syntax_error();
        }
        self.expect_name()?;
        let params = if self.tok.is(b'(') { self.params()? } else { Vec::new() };
        let directives = self.function_directives()?;
        self.expect(b';')?;
        let label = self.new_symbol(name, SymbolKind::Prototype, span);
        self.signatures.insert(label, Signature::of(&returns, &params));
        let prototype = Prototype { label, returns, params, directives, span };
        self.body.stmts.push(Stmt::Prototype(Box::new(prototype)));
        Ok(label)
    }

    fn guarded(&mut self) -> Parse<()> {
        let at = self.bump();
        let negated = self.eat(b'!');
        let (name, span) = self.expect_name()?;
        let guard = match self.names.lookup(name) {
            Meaning::Reg(reg) => {
                if self.body.reg_decl(reg).0.ty != crate::types::Type::PRED {
                    self.error(span, "Predicate expression expected");
                }
                Some(Guard { reg, negated })
            }
            _ => {
                self.error(span, "Predicate expression expected");
                let text = self.names.text(name);
                if self.names.lookup(name) == Meaning::Nothing {
                    self.function.unknown.push((text.to_string(), span));
                }
                None
            }
        };
        if self.tok.kind != TokenKind::Ident {
            return self.syntax_error();
        }
        self.instruction(guard, at.span())
    }

    fn instruction(&mut self, guard: Option<Guard>, start: Span) -> Parse<()> {
        let opcode = self.opcode()?;
        let operands = self.operands(opcode)?;
        let end = self.expect(b';')?;
        let inst = Inst { opcode, guard, operands, span: start.to(end.span()) };
        self.check_instruction(&inst)?;
        self.body.stmts.push(Stmt::Inst(inst));
        Ok(())
    }

    /// The mnemonic and its modifiers; the current token is the mnemonic.
    fn opcode(&mut self) -> Parse<OpcodeId> {
        let start = self.tok.start;
        let end = self.lexer.opcode_tail();
        let spelling = self.slice(Span { start, end });
        self.bump();
        if self.tok.kind == TokenKind::Dot {
            return self.spaced_opcode(spelling, start);
        }
        if let Some(id) = self.opcode_ids.get(spelling) {
            return Ok(*id);
        }
        let id = self.new_opcode(spelling, start)?;
        self.opcode_ids.insert(spelling, id);
        Ok(id)
    }

    /// Blanks stand between the words of this opcode: put it together by hand.
    fn spaced_opcode(&mut self, spelling: &str, start: u32) -> Parse<OpcodeId> {
        let mut whole = spelling.to_string();
        while self.tok.kind == TokenKind::Dot {
            let token = self.bump();
            whole.push_str(self.text(token));
        }
        match self.opcodes.iter().position(|o| o.spelling == whole) {
            Some(i) => Ok(OpcodeId(i as u32)),
            None => self.new_opcode(&whole, start),
        }
    }

    fn new_opcode(&mut self, spelling: &str, start: u32) -> Parse<OpcodeId> {
        let opcode = resolve(spelling, self.target, self.version);
        if let Some(OpcodeError::Syntax { at, word }) = opcode.errors.last() {
            let at = start as usize + at;
            let message = format!("Parsing error near '{word}': syntax error");
            return self.fatal(Span::new(at, at + word.len()), message);
        }
        self.opcodes.push(opcode);
        Ok(OpcodeId(self.opcodes.len() as u32 - 1))
    }

    /// A name that may be defined further down: pushes an operand for it.
    pub(super) fn use_name(&mut self, name: Name, span: Span) {
        let operand = match self.names.lookup(name) {
            Meaning::Symbol(symbol) => Operand::Symbol(symbol),
            _ => {
                let place = self.body.operands.len() as u32;
                self.function.unresolved.push((place, name, span));
                Operand::Unresolved(name)
            }
        };
        self.body.operands.push(operand);
    }

    /// At the end of a scope its labels are known: fills in the uses that came before them.
    fn settle_scope(&mut self) {
        let mut waiting = std::mem::take(&mut self.function.unresolved);
        waiting.retain(|(place, name, _)| match self.names.lookup(*name) {
            Meaning::Symbol(symbol) => {
                self.body.operands[*place as usize] = Operand::Symbol(symbol);
                false
            }
            _ => true,
        });
        self.function.unresolved = waiting;
    }

    /// At the end of the function what is still unknown is an error, in order of the source.
    fn report_unknown(&mut self) {
        let mut unknown = std::mem::take(&mut self.function.unknown);
        for (_, name, span) in std::mem::take(&mut self.function.unresolved) {
            unknown.push((self.names.text(name).to_string(), span));
        }
        unknown.sort_by_key(|(_, span)| span.start);
        for (text, span) in unknown {
            self.error(span, format!("Unknown symbol '{text}'"));
        }
    }
}
