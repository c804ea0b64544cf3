//! The parser: recursive descent over tokens, one pass, checking as it goes.
//!
//! A syntax error ends the parse, as in ptxas; every other error is reported and the parse goes on. Names are
//! resolved when they are met; labels and unknown names are settled at the end of each function. No
//! instruction is known here: the table says what an opcode is.

mod body;
mod decl;
mod directive;
mod expr;
mod function;
mod header;
mod init;
mod operand;
mod sums;

pub(crate) use function::{Formal, Signature};

use crate::ast::*;
use crate::diag::{Advice, Diagnostic, Severity, Span};
use crate::lex::{Lexer, Marker, Token, TokenKind};
use crate::names::{Meaning, Names};
use crate::target::{Target, Toolkit, Version};
use crate::types::Type;
use crate::{Options, Parsed};
use rustc_hash::{FxHashMap, FxHashSet};

/// The parse cannot go on; the reason has been reported.
pub(crate) struct Stop;

pub(crate) type Parse<T> = Result<T, Stop>;

pub(crate) struct Parser<'s> {
    pub source: &'s str,
    lexer: Lexer<'s>,
    pub tok: Token,
    pub names: Names<'s>,
    pub symbols: Vec<SymbolInfo>,
    pub opcodes: Vec<crate::table::Opcode>,
    /// Opcodes that are written without blanks, as almost all are.
    opcode_ids: FxHashMap<&'s str, OpcodeId>,
    /// All opcodes by mnemonic and spelling without blanks: blanks make no difference, except within a mnemonic.
    resolved_ids: FxHashMap<(&'static str, String), OpcodeId>,
    /// Shapes of instructions that are right, and that of the one at hand (`check/known.rs`).
    pub known_shapes: crate::shape::KnownShapes,
    pub shape: crate::shape::Shape,
    pub diagnostics: Vec<Diagnostic>,
    /// More about some of them, where it is asked for.
    pub advice: Vec<(usize, Advice)>,
    advises: bool,
    lines: LineCursor,
    /// The release that says which PTX is accepted, and the version that messages call the current one.
    toolkit: Toolkit,
    current_version: Version,
    pub version: Version,
    pub target: Target,
    /// `texmode_independent`: textures and samplers are told apart.
    pub separate_samplers: bool,
    pub header: header::HeaderSpans,
    /// Functions by symbol: what calls and redeclarations are checked against.
    pub signatures: FxHashMap<Symbol, Signature>,
    /// The name of the file for messages.
    file: String,
    /// Forget what has been checked.
    check_only: bool,
    pub module: header::ModuleState,
    /// All names in the source that end in a number, once `L<3>` has asked for them.
    numbered_names: Option<FxHashSet<&'s str>>,
    /// The functions behind each label of a `.calltargets`.
    pub call_targets: FxHashMap<Symbol, Vec<Symbol>>,
    /// State of the function that is being parsed.
    pub function: FunctionState,
    pub body: Body<'s>,
    /// Operands on their way into the body.
    pending: operand::Pending,
}

/// How many registers of a function have their kind at hand; the rest is searched.
const KNOWN_KINDS: usize = 4096;

#[derive(Default)]
pub(crate) struct FunctionState {
    pub next_reg: u32,
    /// Type and vector size of the first registers, so that most need no search.
    pub kinds: Vec<(Type, u8)>,
    /// Names that had no meaning when they were used: their place in the operand arena and in the source.
    pub unresolved: Vec<(u32, Name, Span)>,
    /// Names that can mean nothing in this function.
    pub unknown: Vec<Unknown>,
    /// Which operands of the instruction that is being read have a minus before them.
    pub negated: smallvec::SmallVec<[usize; 2]>,
    /// How many operands are registers plus constants, by width: see `sums.rs`.
    pub sums: [u32; 3],
    /// The parameters in memory of the function itself.
    pub formals: Formals,
    pub entry: bool,
    pub symbol: Option<Symbol>,
    /// Does a pragma say which registers its parameters are in?
    pub parameter_registers: bool,
    /// The first parameter that says no state space.
    pub without_storage: Option<Span>,
}

#[derive(Default)]
pub(crate) struct Formals {
    pub returns: Vec<Symbol>,
    pub params: Vec<Symbol>,
}

impl Formals {
    fn of(function: &Function) -> Formals {
        let symbol = |p: &Param| match p.place {
            ParamPlace::Memory(symbol) => Some(symbol),
            ParamPlace::Register(_) => None,
        };
        Formals {
            returns: function.returns.iter().filter_map(symbol).collect(),
            params: function.params.iter().filter_map(symbol).collect(),
        }
    }
}

/// A use of a name that has no meaning there.
pub(crate) struct Unknown {
    pub name: String,
    pub span: Span,
    /// Where it stands among the operands of the function.
    pub place: u32,
    /// It got one further down, but not as a label.
    pub declared_later: bool,
}

/// Lines of increasing offsets, counted once over the whole source.
#[derive(Default)]
struct LineCursor {
    offset: usize,
    line: u32,
}

impl LineCursor {
    fn line(&mut self, source: &str, offset: usize) -> u32 {
        if offset < self.offset {
            *self = LineCursor::default();
        }
        let offset = offset.min(source.len());
        self.line += source.as_bytes()[self.offset..offset].iter().filter(|b| **b == b'\n').count() as u32;
        self.offset = offset;
        self.line + 1
    }
}

/// Reads a module and checks it.
pub fn parse<'s>(source: &'s str, options: &Options) -> Parsed<'s> {
    if let Some(fatal) = unreadable(source.as_bytes()) {
        return Parsed { module: None, diagnostics: vec![fatal], advice: Vec::new() };
    }
    let mut parser = Parser {
        source,
        lexer: Lexer::new(source),
        tok: Token { kind: TokenKind::Eof, start: 0, end: 0 },
        names: Names::default(),
        symbols: Vec::new(),
        opcodes: Vec::new(),
        opcode_ids: FxHashMap::default(),
        resolved_ids: FxHashMap::default(),
        known_shapes: Default::default(),
        shape: Default::default(),
        diagnostics: Vec::new(),
        advice: Vec::new(),
        advises: options.advise,
        lines: LineCursor::default(),
        toolkit: options.newest_toolkit(),
        current_version: options.toolkit.unwrap_or(Toolkit::USUAL).newest_ptx(),
        version: Version::FIRST,
        target: Target::default(),
        separate_samplers: false,
        header: header::HeaderSpans::default(),
        signatures: FxHashMap::default(),
        numbered_names: None,
        call_targets: FxHashMap::default(),
        file: options.file.clone(),
        check_only: options.check_only,
        module: header::ModuleState::default(),
        function: FunctionState::default(),
        body: Body::default(),
        pending: operand::Pending::default(),
    };
    parser.advance();
    let module = parser.module();
    parser.check_target_version();
    let Parser { names, symbols, opcodes, diagnostics, advice, .. } = parser;
    let module = module.ok().map(|m| Module { names: names.into_texts(), symbols, opcodes, ..m });
    Parsed { module, diagnostics, advice }
}

/// The text of a file. [`parse`] says what is wrong with text that is not ASCII; this, with bytes that are no text.
pub fn source_text(bytes: &[u8]) -> Result<&str, Diagnostic> {
    let no_text = || fatal_without_place("Input is not text".into());
    std::str::from_utf8(bytes).map_err(|_| unreadable(bytes).unwrap_or_else(no_text))
}

/// Bytes that end everything before the first token.
fn unreadable(bytes: &[u8]) -> Option<Diagnostic> {
    if u32::try_from(bytes.len()).is_err() {
        return Some(fatal_without_place("Input is larger than 4 GiB".into()));
    }
    // Without a branch for each byte this takes next to no time.
    let readable = |b: &u8| (1..128).contains(b);
    if bytes.chunks(256).all(|chunk| chunk.iter().fold(true, |all, b| all & readable(b))) {
        return None;
    }
    let line = |at: usize| bytes[..at].iter().filter(|b| **b == b'\n').count() + 1;
    let message = match bytes.iter().position(|b| !b.is_ascii()) {
        Some(at) => format!("Unexpected non-ASCII character encountered on line {}", line(at)),
        None => {
            let nul = bytes.iter().position(|b| *b == 0)?;
            format!("Unexpected EOF encountered on line {}", line(nul))
        }
    };
    Some(fatal_without_place(message))
}

fn fatal_without_place(message: String) -> Diagnostic {
    Diagnostic { severity: Severity::Fatal, file: None, line: None, span: Span::default(), message }
}

impl<'s> Parser<'s> {
    /// Goes on to the next token.
    #[inline(never)]
    pub fn advance(&mut self) {
        self.tok = self.lexer.next();
    }

    /// Takes the current token. Inlined, because most callers look at a part of it only.
    #[inline]
    pub fn bump(&mut self) -> Token {
        let token = self.tok;
        self.advance();
        token
    }

    pub fn text(&self, token: Token) -> &'s str {
        &self.source[token.start as usize..token.end as usize]
    }

    pub fn slice(&self, span: Span) -> &'s str {
        &self.source[span.start as usize..span.end as usize]
    }

    /// The text of the current token, if it is a dotted word.
    pub fn dot(&self) -> &'s str {
        if self.tok.kind == TokenKind::Dot { self.text(self.tok) } else { "" }
    }

    /// Takes the dotted word if it stands here.
    pub fn eat_dot(&mut self, word: &str) -> bool {
        let here = self.dot() == word;
        if here {
            self.advance();
        }
        here
    }

    pub fn eat(&mut self, punct: u8) -> bool {
        let here = self.tok.is(punct);
        if here {
            self.advance();
        }
        here
    }

    pub fn expect(&mut self, punct: u8) -> Parse<Token> {
        if self.tok.is(punct) { Ok(self.bump()) } else { self.syntax_error() }
    }

    pub fn expect_name(&mut self) -> Parse<(Name, Span)> {
        if self.tok.kind != TokenKind::Ident {
            return self.syntax_error();
        }
        let token = self.bump();
        Ok((self.names.intern(self.text(token)), token.span()))
    }

    /// Takes the name here if it plainly is a member of a register range.
    pub fn eat_register(&mut self) -> Option<Reg> {
        if self.tok.kind != TokenKind::Ident {
            return None;
        }
        let text = &self.source.as_bytes()[self.tok.start as usize..self.tok.end as usize];
        let reg = self.names.register(text)?;
        self.advance();
        Some(reg)
    }

    /// Declares registers of this function: one, or a range. Returns the first.
    pub fn add_registers(&mut self, name: Name, ty: Type, vector: u8, range: Option<u32>) -> Reg {
        let first = Reg(self.function.next_reg);
        let count = range.unwrap_or(1);
        self.function.next_reg = first.0.saturating_add(count);
        self.body.regs.push(RegDecl { name, ty, vector, range, first });
        let known = self.function.kinds.len();
        if known == first.0 as usize {
            let end = (known + count as usize).min(KNOWN_KINDS.max(known));
            self.function.kinds.resize(end, (ty, vector));
        }
        first
    }

    pub fn registers_so_far(&self) -> (usize, u32) {
        (self.body.regs.len(), self.function.next_reg)
    }

    /// Takes back what has been declared since `mark`.
    pub fn forget_registers(&mut self, (declarations, next): (usize, u32)) {
        self.body.regs.truncate(declarations);
        self.function.next_reg = next;
        self.function.kinds.truncate(next as usize);
    }

    /// Type and vector size of a register.
    pub fn reg_kind(&self, reg: Reg) -> (Type, u8) {
        match self.function.kinds.get(reg.0 as usize) {
            Some(kind) => *kind,
            None => {
                let decl = self.body.reg_decl(reg).0;
                (decl.ty, decl.vector)
            }
        }
    }

    /// The name of the file at a place: that of the last line marker before it, or of the module.
    pub fn file_at(&self, at: u32) -> &str {
        self.marker_at(at).map_or(&self.file, |m| self.slice(m.file))
    }

    fn marker_at(&self, at: u32) -> Option<Marker> {
        self.lexer.markers.iter().rev().find(|m| m.end <= at).copied()
    }

    pub fn report(&mut self, severity: Severity, span: Span, message: impl Into<String>) {
        let marker = self.marker_at(span.start);
        let mut line = self.lines.line(self.source, span.start as usize);
        if let Some(marker) = marker {
            // The line after the marker's is the one that it names.
            let behind = line.saturating_sub(self.lines.line(self.source, marker.end as usize));
            line = marker.line.saturating_add(behind).saturating_sub(1);
        }
        let file = marker.map(|m| self.slice(m.file).to_string());
        self.diagnostics.push(Diagnostic { severity, file, line: Some(line), span, message: message.into() });
        if self.advises {
            self.advise();
        }
    }

    /// Is advice asked for?
    pub fn advises(&self) -> bool {
        self.advises
    }

    pub fn error(&mut self, span: Span, message: impl Into<String>) {
        self.report(Severity::Error, span, message);
    }

    pub fn warn(&mut self, span: Span, message: impl Into<String>) {
        self.report(Severity::Warning, span, message);
    }

    pub fn fatal<T>(&mut self, span: Span, message: impl Into<String>) -> Parse<T> {
        self.report(Severity::Fatal, span, message);
        Err(Stop)
    }

    /// The current token doesn't belong here.
    pub fn syntax_error<T>(&mut self) -> Parse<T> {
        let (near, why) = match self.tok.kind {
            TokenKind::Unterminated => ("", "unexpected EOF while scanning"),
            TokenKind::Eof => ("", "syntax error"),
            _ => (self.text(self.tok), "syntax error"),
        };
        let message = format!("Parsing error near '{near}': {why}");
        self.fatal(self.tok.span(), message)
    }

    pub fn new_symbol(&mut self, name: Name, kind: SymbolKind, span: Span) -> Symbol {
        let symbol = Symbol(self.symbols.len() as u32);
        self.symbols.push(SymbolInfo { name, member: None, kind, span });
        symbol
    }

    /// Notes a name that can mean nothing in this function.
    fn unknown(&mut self, name: &str, span: Span) {
        let place = self.body.operands.len() as u32;
        let name = name.to_string();
        self.function.unknown.push(Unknown { name, span, place, declared_later: false });
    }

    /// Declares a name; a second declaration in the same scope is an error.
    pub fn declare(&mut self, name: Name, meaning: Meaning, what: &str) {
        if self.names.define(name, meaning).is_err() {
            let text = self.names.text(name);
            self.error(self.tok.span(), format!("Duplicate definition of {what} '{text}'"));
        }
    }
}
